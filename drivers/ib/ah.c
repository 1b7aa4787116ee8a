// SPDX-License-Identifier: GPL-2.0
/*
 * Address handles: the twin of ah.c.
 *
 * Invariants:
 *  - The HCA takes addresses from the address vector of a WQE, which user space
 *    writes: an AH is only the answer to "what is the MAC of this GID".
 */
#include "shca.h"

/**
 * shca_create_ah() - tell user space the destination MAC of an address
 * @ibah: the handle
 * @init_attr: address; the core has resolved the MAC
 * @udata: response struct mlx5_ib_create_ah_resp
 *
 * Context: process. Return: 0 or an errno. Source: libmlx5-abi 12.
 */
int shca_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init_attr,
		   struct ib_udata *udata)
{
	struct rdma_ah_attr *ah_attr = init_attr->ah_attr;
	struct mlx5_ib_create_ah_resp resp = {};
	u32 resp_len = offsetofend(struct mlx5_ib_create_ah_resp, dmac);

	if (!(rdma_ah_get_ah_flags(ah_attr) & IB_AH_GRH))
		return -EINVAL;
	if (udata->outlen < resp_len)
		return -EINVAL;

	resp.response_length = resp_len;
	memcpy(resp.dmac, ah_attr->roce.dmac, ETH_ALEN);
	return ib_respond_udata(udata, resp);
}

/**
 * shca_destroy_ah() - forget an address handle
 * @ibah: the handle
 * @flags: RDMA_DESTROY_AH_*
 *
 * Context: any. Return: 0.
 */
int shca_destroy_ah(struct ib_ah *ibah, u32 flags)
{
	return 0;
}
