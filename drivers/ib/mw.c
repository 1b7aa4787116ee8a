// SPDX-License-Identifier: GPL-2.0
/*
 * Memory windows: of mr.c what mlx5 keeps there for them. HM 10, libmlx5-abi 8.
 *
 * A window is a key whose table names other keys. Programs bind and unbind it
 * themselves, by UMRs on their own queues.
 *
 * Invariants:
 *  - A window is free until it is bound, and remote invalidation is for type 2 only.
 *  - It holds no memory and no reference on a region: that a region goes first is
 *    noticed at the next access.
 */
#include "shca.h"

/* Tables grow by so many octowords, one entry each. */
#define SHCA_KLM_ALIGNMENT	4

/* The answer, of which mlx5's ABI defines no more than this. */
struct shca_alloc_mw_resp {
	__u32 comp_mask;
	__u32 response_length;
};

/**
 * shca_alloc_mw() - create a window that is not bound
 * @ibmw: the window; its type and protection domain are set
 * @udata: optional request struct mlx5_ib_alloc_mw
 *
 * Context: process.
 * Return: 0, -EOPNOTSUPP for a request with what is not defined, or an errno.
 */
int shca_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata)
{
	u8 in[MLX5_ST_SZ_BYTES(create_mkey_in)] __aligned(sizeof(u64)) = {};
	void *mkc = MLX5_ADDR_OF(create_mkey_in, in, memory_key_mkey_entry);
	struct shca_dev *dev = to_sdev(ibmw->device);
	struct shca_alloc_mw_resp resp = {};
	struct mlx5_ib_alloc_mw req = {};
	struct shca_mw *mw = to_smw(ibmw);
	int err;

	if (udata->inlen) {
		err = ib_copy_validate_udata_in(udata, req, reserved2);
		if (err)
			return err;
	}
	if (req.comp_mask || req.reserved1 || req.reserved2)
		return -EOPNOTSUPP;

	MLX5_SET(mkc, mkc, free, 1);
	MLX5_SET(mkc, mkc, umr_en, 1);
	MLX5_SET(mkc, mkc, lr, 1);
	MLX5_SET(mkc, mkc, access_mode_1_0, MLX5_MKC_ACCESS_MODE_KLMS);
	MLX5_SET(mkc, mkc, en_rinval, ibmw->type == IB_MW_TYPE_2);
	MLX5_SET(mkc, mkc, pd, to_spd(ibmw->pd)->pdn);
	MLX5_SET(mkc, mkc, qpn, 0xffffff);
	MLX5_SET(mkc, mkc, translations_octword_size,
		 roundup(max_t(u8, req.num_klms, 1), SHCA_KLM_ALIGNMENT));
	err = shca_create_mkey(dev, &mw->mmkey.key, in, sizeof(in));
	if (err)
		return err;
	ibmw->rkey = mw->mmkey.key;
	mw->mmkey.type = SHCA_MKEY_MW;
	mw->mmkey.ndescs = MLX5_GET(mkc, mkc, translations_octword_size);
	err = shca_store_odp_mkey(dev, &mw->mmkey);
	if (err)
		goto destroy_mkey;

	resp.response_length = min(sizeof(resp), udata->outlen);
	err = ib_respond_udata(udata, resp);
	if (err)
		goto forget_mkey;
	return 0;

forget_mkey:
	shca_forget_odp_mkey(dev, &mw->mmkey);
destroy_mkey:
	shca_cmd_destroy_mkey(dev, mw->mmkey.key);
	return err;
}

/**
 * shca_dealloc_mw() - destroy a window, bound or not
 * @ibmw: the window
 *
 * Context: process, waits for the accesses that are running.
 * Return: 0, or an errno with the window still alive.
 */
int shca_dealloc_mw(struct ib_mw *ibmw)
{
	struct shca_dev *dev = to_sdev(ibmw->device);
	struct shca_mw *mw = to_smw(ibmw);

	shca_forget_odp_mkey(dev, &mw->mmkey);
	return shca_cmd_destroy_mkey(dev, mw->mmkey.key);
}
