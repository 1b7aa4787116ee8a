// SPDX-License-Identifier: GPL-2.0
/*
 * The module: `rdma link add NAME type softhca netdev DEV`, `rdma link del`, and
 * the device that exists without asking.
 *
 * Invariants:
 *  - Our devices share their driver id with those of mlx5_ib, so the core's
 *    look-ups by driver id would find foreign ones: only the list of this file is
 *    used. A device is on it from before its registration until it is torn down.
 *  - Whoever unregisters a device holds a reference on its struct device, taken
 *    under the list lock: ib_unregister_device() then waits for, or does, the work.
 */
#include <linux/if_arp.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <rdma/rdma_netlink.h>

#include "shca.h"

static bool create = true;
module_param(create, bool, 0444);
MODULE_PARM_DESC(create, "create device softhca0 on a network interface of its own (default y)");

static LIST_HEAD(shca_dev_list);
static DEFINE_MUTEX(shca_dev_list_lock);	/* protects shca_dev_list */

/* Interface of softhca0, if we made one. */
static struct net_device *shca_own_ndev;

/**
 * shca_dev_list_add() - put a device on the list
 * @dev: the device
 */
void shca_dev_list_add(struct shca_dev *dev)
{
	mutex_lock(&shca_dev_list_lock);
	list_add_tail(&dev->entry, &shca_dev_list);
	mutex_unlock(&shca_dev_list_lock);
}

/**
 * shca_dev_list_del() - take a device off the list
 * @dev: the device
 */
void shca_dev_list_del(struct shca_dev *dev)
{
	mutex_lock(&shca_dev_list_lock);
	list_del(&dev->entry);
	mutex_unlock(&shca_dev_list_lock);
}

static void shca_port_event(struct shca_dev *dev, struct net_device *ndev)
{
	struct ib_event event = {
		.device = &dev->ib_dev,
		.element.port_num = 1,
		.event = netif_running(ndev) && netif_carrier_ok(ndev) ?
			 IB_EVENT_PORT_ACTIVE : IB_EVENT_PORT_ERR,
	};

	ib_dispatch_event(&event);
}

static void shca_dev_netdev_event(struct shca_dev *dev, struct net_device *ndev,
				  unsigned long event)
{
	switch (event) {
	case NETDEV_UNREGISTER:
		/* RTNL is held, under which a device cannot be unregistered. */
		ib_unregister_device_queued(&dev->ib_dev);
		break;
	case NETDEV_UP:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
		if (!COMPAT_CORE_REPORTS_PORT)
			shca_port_event(dev, ndev);
		break;
	}
}

static int shca_netdev_event(struct notifier_block *nb, unsigned long event, void *ptr)
{
	struct net_device *ndev = netdev_notifier_info_to_dev(ptr);
	struct shca_dev *dev;

	mutex_lock(&shca_dev_list_lock);
	list_for_each_entry(dev, &shca_dev_list, entry) {
		if (dev->ndev != ndev || !ib_device_try_get(&dev->ib_dev))
			continue;
		shca_dev_netdev_event(dev, ndev, event);
		ib_device_put(&dev->ib_dev);
	}
	mutex_unlock(&shca_dev_list_lock);
	return NOTIFY_OK;
}

static struct notifier_block shca_netdev_nb = {
	.notifier_call = shca_netdev_event,
};

static int shca_newlink(const char *ibdev_name, struct net_device *ndev)
{
	if (ndev->type != ARPHRD_ETHER || ndev->flags & IFF_LOOPBACK)
		return -EINVAL;
	return shca_add(ndev, ibdev_name);
}

static struct rdma_link_ops shca_link_ops = {
	.type = SHCA_DEV_NAME,
	.newlink = shca_newlink,
};

static void shca_remove_all(void)
{
	struct shca_dev *dev;

	for (;;) {
		mutex_lock(&shca_dev_list_lock);
		dev = list_first_entry_or_null(&shca_dev_list, struct shca_dev, entry);
		if (dev)
			get_device(&dev->ib_dev.dev);
		mutex_unlock(&shca_dev_list_lock);
		if (!dev)
			break;
		ib_unregister_device(&dev->ib_dev);
		put_device(&dev->ib_dev.dev);
	}
}

static int __init shca_init(void)
{
	int err;

	err = register_netdevice_notifier(&shca_netdev_nb);
	if (err)
		return err;

	if (create) {
		shca_own_ndev = shca_netdev_create();
		if (IS_ERR(shca_own_ndev)) {
			err = PTR_ERR(shca_own_ndev);
			goto unregister_notifier;
		}
		err = shca_add(shca_own_ndev, SHCA_DEV_NAME "0");
		if (err)
			goto destroy_netdev;
	}

	rdma_link_register(&shca_link_ops);
	return 0;

destroy_netdev:
	shca_netdev_destroy(shca_own_ndev);
unregister_notifier:
	unregister_netdevice_notifier(&shca_netdev_nb);
	return err;
}

static void __exit shca_exit(void)
{
	rdma_link_unregister(&shca_link_ops);
	unregister_netdevice_notifier(&shca_netdev_nb);
	shca_remove_all();
	if (shca_own_ndev)
		shca_netdev_destroy(shca_own_ndev);
}

module_init(shca_init);
module_exit(shca_exit);

MODULE_DESCRIPTION("Software RDMA HCA with the interfaces of mlx5");
MODULE_LICENSE("GPL");
MODULE_ALIAS_RDMA_LINK("softhca");
/* Nothing in here needs them, but without them programs cannot reach the device. */
MODULE_SOFTDEP("post: ib_uverbs rdma_ucm");
