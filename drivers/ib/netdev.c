// SPDX-License-Identifier: GPL-2.0
/*
 * A network interface for a device that was not given one: it has a MAC address
 * and carries IP addresses, which become GIDs. Traffic between QPs does not pass
 * through it.
 *
 * Invariant: what is sent to it is dropped.
 */
#include <linux/etherdevice.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>

#include "shca.h"

/* Large enough for IB_MTU_4096 with its headers. */
#define SHCA_NETDEV_MTU		9000

static netdev_tx_t shca_netdev_xmit(struct sk_buff *skb, struct net_device *ndev)
{
	dev_kfree_skb(skb);
	return NETDEV_TX_OK;
}

static const struct net_device_ops shca_netdev_ops = {
	.ndo_start_xmit = shca_netdev_xmit,
	.ndo_validate_addr = eth_validate_addr,
	.ndo_set_mac_address = eth_mac_addr,
};

static void shca_netdev_setup(struct net_device *ndev)
{
	ether_setup(ndev);
	ndev->netdev_ops = &shca_netdev_ops;
	ndev->mtu = SHCA_NETDEV_MTU;
	ndev->max_mtu = ETH_MAX_MTU;
	/* Nobody is there to answer. */
	ndev->flags |= IFF_NOARP;
	ndev->priv_flags |= IFF_LIVE_ADDR_CHANGE;
	eth_hw_addr_random(ndev);
}

/**
 * shca_netdev_create() - create an interface, named shca%d, and bring it up
 *
 * Context: process, takes RTNL. Return: the interface or an ERR_PTR.
 */
struct net_device *shca_netdev_create(void)
{
	struct net_device *ndev;
	int err;

	ndev = alloc_netdev(0, "shca%d", NET_NAME_ENUM, shca_netdev_setup);
	if (!ndev)
		return ERR_PTR(-ENOMEM);

	rtnl_lock();
	err = register_netdevice(ndev);
	if (err)
		goto unlock;
	err = dev_open(ndev, NULL);
	if (err)
		unregister_netdevice(ndev);
unlock:
	rtnl_unlock();
	if (err) {
		free_netdev(ndev);
		return ERR_PTR(err);
	}
	return ndev;
}

/**
 * shca_netdev_destroy() - remove the interface
 * @ndev: made by shca_netdev_create(); no device uses it any more
 *
 * Context: process, takes RTNL.
 */
void shca_netdev_destroy(struct net_device *ndev)
{
	unregister_netdev(ndev);
	free_netdev(ndev);
}
