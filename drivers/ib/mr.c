// SPDX-License-Identifier: GPL-2.0
/*
 * Memory regions: the twin of mr.c. HM 12.1, 12.4, 12.5.
 *
 * Invariants:
 *  - lkey and rkey are the same key: index << 8 | variant, and the variant of each new
 *    key differs from the one before.
 *  - A key in a pool is free and in the protection domain of the driver's UMRs. Each time
 *    it leaves its pool, its variant is another, so who still has the old one has nothing.
 *  - Keys of regions whose pages come and go have pools of their own. In those every table
 *    is empty, so that a region can begin with no page, however large it is.
 *  - Memory stays pinned and mapped until the key has been revoked or destroyed. If both
 *    fail, the memory stays so for good: the HCA may still access it.
 */
#include <linux/log2.h>
#include <linux/module.h>
#include <rdma/ib_umem_odp.h>

#include "shca.h"

#define SHCA_ACCESS_SUPPORTED						\
	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |		\
	 IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC |		\
	 IB_ACCESS_MW_BIND | IB_ZERO_BASED | IB_ACCESS_HUGETLB |		\
	 IB_ACCESS_ON_DEMAND | IB_ACCESS_OPTIONAL)

#define SHCA_DM_ACCESS_SUPPORTED					\
	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |		\
	 IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC |		\
	 IB_ZERO_BASED | IB_ACCESS_OPTIONAL)

/* Bytes of the longest translation table that CREATE_MKEY carries from the stack. */
#define SHCA_SMALL_LIST		64

/* vendor_key of the pools whose keys have empty tables */
#define SHCA_FRMR_EMPTY		1

static bool frmr_keep_variant;
module_param(frmr_keep_variant, bool, 0644);
MODULE_PARM_DESC(frmr_keep_variant,
		 "reuse keys with the same variant, as Linux 7.3 does for mlx5 (default n)");

static void set_mkc_access_pd_addr_fields(void *mkc, int acc, u64 start_addr, struct ib_pd *pd)
{
	struct shca_dev *dev = to_sdev(pd->device);

	MLX5_SET(mkc, mkc, a, !!(acc & IB_ACCESS_REMOTE_ATOMIC));
	MLX5_SET(mkc, mkc, rw, !!(acc & IB_ACCESS_REMOTE_WRITE));
	MLX5_SET(mkc, mkc, rr, !!(acc & IB_ACCESS_REMOTE_READ));
	MLX5_SET(mkc, mkc, lw, !!(acc & IB_ACCESS_LOCAL_WRITE));
	MLX5_SET(mkc, mkc, lr, 1);

	if (acc & IB_ACCESS_RELAXED_ORDERING) {
		MLX5_SET(mkc, mkc, relaxed_ordering_write,
			 SHCA_CAP_GEN(dev, relaxed_ordering_write));
		MLX5_SET(mkc, mkc, relaxed_ordering_read,
			 SHCA_CAP_GEN(dev, relaxed_ordering_read));
	}

	MLX5_SET(mkc, mkc, pd, to_spd(pd)->pdn);
	MLX5_SET(mkc, mkc, qpn, 0xffffff);
	MLX5_SET64(mkc, mkc, start_addr, start_addr);
}

static void assign_mkey_variant(struct shca_dev *dev, u32 *mkey, void *in)
{
	u8 variant = atomic_inc_return(&dev->mkey_var);
	void *mkc = MLX5_ADDR_OF(create_mkey_in, in, memory_key_mkey_entry);

	MLX5_SET(mkc, mkc, mkey_7_0, variant);
	*mkey = variant;
}

/**
 * shca_create_mkey() - create a key with the next variant
 * @dev: the device
 * @mkey: receives the key
 * @in: create_mkey_in; opcode and variant are filled in here
 * @inlen: its length in bytes, translation entries included
 *
 * Context: process, may sleep. Return: 0 or an errno.
 */
int shca_create_mkey(struct shca_dev *dev, u32 *mkey, void *in, size_t inlen)
{
	assign_mkey_variant(dev, mkey, in);
	return shca_cmd_create_mkey(dev, mkey, in, inlen);
}

static unsigned int get_mkc_octo_size(size_t nblocks)
{
	return DIV_ROUND_UP(nblocks, SHCA_OCTOWORD / sizeof(__be64));
}

static void shca_frmr_destroy(struct ib_device *ibdev, u32 *handles, u32 count)
{
	u32 i;

	/* One that stays is free, in nobody's protection domain: lost, but harmless. */
	for (i = 0; i < count; i++)
		shca_cmd_destroy_mkey(to_sdev(ibdev), handles[i]);
}

/* A free key, in the protection domain of the driver's UMRs, with an empty table. */
static int create_free_mkey(struct shca_dev *dev, u32 *key, u8 access_mode, unsigned int octowords,
			    unsigned int page_shift)
{
	u8 in[MLX5_ST_SZ_BYTES(create_mkey_in)] __aligned(sizeof(u64)) = {};
	void *mkc = MLX5_ADDR_OF(create_mkey_in, in, memory_key_mkey_entry);

	MLX5_SET(mkc, mkc, free, 1);
	MLX5_SET(mkc, mkc, umr_en, 1);
	MLX5_SET(mkc, mkc, lr, 1);
	MLX5_SET(mkc, mkc, access_mode_1_0, access_mode);
	MLX5_SET(mkc, mkc, pd, shca_umr_pdn(dev));
	MLX5_SET(mkc, mkc, qpn, 0xffffff);
	MLX5_SET(mkc, mkc, translations_octword_size, octowords);
	MLX5_SET(mkc, mkc, log_page_size, page_shift);
	return shca_create_mkey(dev, key, in, sizeof(in));
}

static int shca_frmr_create(struct ib_device *ibdev, struct ib_frmr_key *key, u32 *handles,
			    u32 count)
{
	unsigned int octowords = get_mkc_octo_size(key->num_dma_blocks);
	u32 i;
	int err;

	for (i = 0; i < count; i++) {
		err = create_free_mkey(to_sdev(ibdev), &handles[i], MLX5_MKC_ACCESS_MODE_MTT,
				       octowords, PAGE_SHIFT);
		if (err) {
			shca_frmr_destroy(ibdev, handles, i);
			return err;
		}
	}
	return 0;
}

/* What a pool made by `rdma resource set frmr_pools` may be for. */
static int shca_frmr_build_key(struct ib_device *ibdev, const struct ib_frmr_key *in,
			       struct ib_frmr_key *out)
{
	if (in->ats || in->vendor_key || !in->num_dma_blocks ||
	    order_base_2(in->num_dma_blocks) > SHCA_LOG_MAX_BLOCKS)
		return -EOPNOTSUPP;
	/* Rights are no part of the key: UMR can change all of them. */
	out->num_dma_blocks = in->num_dma_blocks;
	return 0;
}

static const struct ib_frmr_pool_ops shca_frmr_pool_ops = {
	.create_frmrs = shca_frmr_create,
	.destroy_frmrs = shca_frmr_destroy,
	.build_key = shca_frmr_build_key,
};

/**
 * shca_frmr_pools_init() - prepare the pools of free keys
 * @dev: the device; shca_umr_init() is done
 *
 * Context: process. Return: 0 or an errno.
 */
int shca_frmr_pools_init(struct shca_dev *dev)
{
	return compat_frmr_pools_init(dev, &shca_frmr_pool_ops);
}

/**
 * shca_frmr_pools_cleanup() - destroy the keys in the pools
 * @dev: the device; it has no region any more
 *
 * Context: process, may sleep.
 */
void shca_frmr_pools_cleanup(struct shca_dev *dev)
{
	compat_frmr_pools_cleanup(dev);
}

static void set_mr_fields(struct shca_mr *mr, struct ib_umem *umem, u64 iova, int access_flags,
			  unsigned long page_size)
{
	mr->ibmr.length = umem->length;
	mr->ibmr.iova = iova;
	mr->umem = umem;
	mr->access_flags = access_flags;
	mr->page_shift = order_base_2(page_size);
	mr->mmkey.ndescs = get_mkc_octo_size(ib_umem_num_dma_blocks(umem, page_size));
}

static void set_mr_key(struct shca_mr *mr, struct ib_pd *pd, u32 key)
{
	mr->mmkey.key = key;
	mr->ibmr.lkey = key;
	mr->ibmr.rkey = key;
	mr->ibmr.device = pd->device;
	mr->ibmr.pd = pd;
}

/**
 * shca_umem_mkc_find_best_pgsz() - the largest page that a region can have
 * @dev: the device
 * @umem: its memory, mapped
 * @iova: address of its first byte for the HCA
 *
 * Return: bytes, within what the capability and the field allow; 0 if none fits.
 */
unsigned long shca_umem_mkc_find_best_pgsz(struct shca_dev *dev, struct ib_umem *umem, u64 iova)
{
	unsigned int largest = SHCA_CAP_GEN_2(dev, max_mkey_log_entity_size_mtt);
	unsigned int smallest = SHCA_CAP_GEN_2(dev, log_min_mkey_entity_size);
	unsigned long bitmap;

	bitmap = GENMASK(min_t(unsigned int, largest, BITS_PER_LONG - 1),
			 max_t(unsigned int, smallest, MLX5_ADAPTER_PAGE_SHIFT));
	return ib_umem_find_best_pgsz(umem, bitmap, iova);
}

/* A dma-buf is not mapped yet: its key gets room for the smallest pages. */
static unsigned long shca_umem_dmabuf_default_pgsz(struct ib_umem *umem, u64 iova)
{
	umem->iova = iova;
	return PAGE_SIZE;
}

static u32 shca_next_variant(u32 key)
{
	return (key & ~0xff) | ((key + 1) & 0xff);
}

/**
 * shca_alloc_cacheable_mr() - make a region with a key from a pool
 * @pd: protection domain
 * @umem: its memory: pinned, on-demand or of a dma-buf
 * @iova: address of its first byte for the HCA
 * @access_flags: IB_ACCESS_*
 *
 * Context: process.
 * Return: the region, whose key is still free, and if its pages may be missing, all are;
 * -EINVAL when no page size fits; or an errno.
 */
struct shca_mr *shca_alloc_cacheable_mr(struct ib_pd *pd, struct ib_umem *umem, u64 iova,
					int access_flags)
{
	struct shca_dev *dev = to_sdev(pd->device);
	unsigned long page_size;
	struct shca_mr *mr;
	int err;

	page_size = umem->is_dmabuf ? shca_umem_dmabuf_default_pgsz(umem, iova) :
				      shca_umem_mkc_find_best_pgsz(dev, umem, iova);
	if (!page_size)
		return ERR_PTR(-EINVAL);
	mr = kzalloc_obj(*mr, GFP_KERNEL_ACCOUNT);
	if (!mr)
		return ERR_PTR(-ENOMEM);

	compat_frmr(mr)->key.num_dma_blocks = ib_umem_num_dma_blocks(umem, page_size);
	compat_frmr(mr)->key.vendor_key = umem->is_odp || umem->is_dmabuf ? SHCA_FRMR_EMPTY : 0;
	err = compat_frmr_pool_pop(dev, mr);
	if (err) {
		kfree(mr);
		return ERR_PTR(err);
	}
	if (!frmr_keep_variant)
		compat_frmr(mr)->handle = shca_next_variant(compat_frmr(mr)->handle);
	set_mr_key(mr, pd, compat_frmr(mr)->handle);
	set_mr_fields(mr, umem, iova, access_flags, page_size);
	return mr;
}

/**
 * shca_alloc_ksm_mr() - make a region whose table names keys
 * @pd: protection domain
 * @nentries: entries of the table
 * @page_shift: log2 of the bytes that each stands for
 *
 * Context: process. Return: the region, whose key is still free; or an errno.
 */
struct shca_mr *shca_alloc_ksm_mr(struct ib_pd *pd, unsigned int nentries, unsigned int page_shift)
{
	struct shca_mr *mr;
	u32 key;
	int err;

	mr = kzalloc_obj(*mr);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	err = create_free_mkey(to_sdev(pd->device), &key, MLX5_MKC_ACCESS_MODE_KSM, nentries,
			       page_shift);
	if (err) {
		kfree(mr);
		return ERR_PTR(err);
	}
	set_mr_key(mr, pd, key);
	mr->page_shift = page_shift;
	mr->mmkey.ndescs = nentries;
	return mr;
}

/* Make an MR by one CREATE_MKEY that carries its translation table. */
static struct shca_mr *reg_create(struct ib_pd *pd, struct ib_umem *umem, u64 iova,
				  int access_flags)
{
	/* A command for one page or a few, which most are, needs no memory of its own. */
	u8 small[MLX5_ST_SZ_BYTES(create_mkey_in) + SHCA_SMALL_LIST] __aligned(sizeof(u64));
	struct shca_dev *dev = to_sdev(pd->device);
	bool pg_cap = SHCA_CAP_GEN(dev, pg);
	unsigned int ndescs;
	unsigned long page_size;
	struct shca_mr *mr;
	size_t inlen;
	void *mkc, *in;
	u32 key;
	int err;

	page_size = shca_umem_mkc_find_best_pgsz(dev, umem, iova);
	if (!page_size)
		return ERR_PTR(-EINVAL);
	mr = kzalloc_obj(*mr, GFP_KERNEL_ACCOUNT);
	if (!mr)
		return ERR_PTR(-ENOMEM);

	ndescs = get_mkc_octo_size(ib_umem_num_dma_blocks(umem, page_size));
	inlen = MLX5_ST_SZ_BYTES(create_mkey_in) + (size_t)ndescs * SHCA_OCTOWORD;
	in = inlen <= sizeof(small) ? memset(small, 0, inlen) : kvzalloc(inlen, GFP_KERNEL);
	if (!in) {
		err = -ENOMEM;
		goto free_mr;
	}
	shca_populate_pas(umem, page_size, MLX5_ADDR_OF(create_mkey_in, in, klm_pas_mtt),
			  pg_cap ? SHCA_MTT_PRESENT : 0);
	MLX5_SET(create_mkey_in, in, pg_access, pg_cap);
	MLX5_SET(create_mkey_in, in, translations_octword_actual_size, ndescs);

	mkc = MLX5_ADDR_OF(create_mkey_in, in, memory_key_mkey_entry);
	set_mkc_access_pd_addr_fields(mkc, access_flags, iova, pd);
	MLX5_SET(mkc, mkc, access_mode_1_0, MLX5_MKC_ACCESS_MODE_MTT);
	MLX5_SET(mkc, mkc, umr_en, 1);
	MLX5_SET64(mkc, mkc, len, umem->length);
	MLX5_SET(mkc, mkc, translations_octword_size, ndescs);
	MLX5_SET(mkc, mkc, log_page_size, order_base_2(page_size));

	err = shca_create_mkey(dev, &key, in, inlen);
	if (in != small)
		kvfree(in);
	if (err)
		goto free_mr;
	set_mr_key(mr, pd, key);
	set_mr_fields(mr, umem, iova, access_flags, page_size);
	return mr;

free_mr:
	kfree(mr);
	return ERR_PTR(err);
}

/* Takes over @umem, also when it fails. */
static struct ib_mr *create_real_mr(struct ib_pd *pd, struct ib_umem *umem, u64 iova,
				    int access_flags)
{
	struct shca_dev *dev = to_sdev(pd->device);
	bool xlt_with_umr = shca_umr_can_load_pas(dev, umem->length);
	struct shca_mr *mr;
	int err;

	if (xlt_with_umr) {
		mr = shca_alloc_cacheable_mr(pd, umem, iova, access_flags);
	} else {
		mutex_lock(&dev->slow_path_mutex);
		mr = reg_create(pd, umem, iova, access_flags);
		mutex_unlock(&dev->slow_path_mutex);
	}
	if (IS_ERR(mr)) {
		ib_umem_release(umem);
		return ERR_CAST(mr);
	}

	if (xlt_with_umr) {
		err = shca_umr_update_mr_pas(mr, SHCA_UPD_XLT_ENABLE, to_spd(pd)->pdn);
		if (err) {
			shca_dereg_mr(&mr->ibmr, NULL);
			return ERR_PTR(err);
		}
	}
	return &mr->ibmr;
}

static struct ib_mr *reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 iova,
				 int access_flags)
{
	struct ib_umem *umem;

	if (access_flags & IB_ACCESS_ON_DEMAND)
		return shca_create_user_odp_mr(pd, start, length, iova, access_flags);
	umem = ib_umem_get_va(pd->device, start, length, access_flags);
	if (IS_ERR(umem))
		return ERR_CAST(umem);
	return create_real_mr(pd, umem, iova, access_flags);
}

/**
 * shca_reg_user_mr() - register memory of the calling process
 * @pd: protection domain
 * @start: first byte, in the process
 * @length: bytes
 * @iova: address of the first byte for the HCA
 * @access_flags: IB_ACCESS_*; the optional ones may have no effect
 * @udata: no driver data is defined
 *
 * Context: process.
 * Return: the MR; -EOPNOTSUPP for unknown rights and PCIe hints (dmah, on kernels that
 * know them); -EINVAL when no page size fits; or an errno. Source: libmlx5-abi 4.2,
 * HM 12.1.
 */
struct ib_mr *shca_reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 iova,
			       int access_flags, COMPAT_DMAH_PARAM struct ib_udata *udata)
{
	int err;

	if (compat_has_dmah || access_flags & ~SHCA_ACCESS_SUPPORTED)
		return ERR_PTR(-EOPNOTSUPP);
	err = ib_is_udata_in_empty(udata);
	if (err)
		return ERR_PTR(err);

	return reg_user_mr(pd, start, length, iova, access_flags);
}

/* Can the table of @mr hold @umem, in pages of @page_size? */
static bool can_use_umr_rereg_pas(struct shca_mr *mr, struct ib_umem *umem,
				  unsigned long page_size)
{
	/* What a key has room for is known of keys from a pool only. */
	return compat_frmr(mr)->pool && !is_dmabuf_mr(mr) &&
	       shca_umr_can_load_pas(to_sdev(mr->ibmr.device), umem->length) &&
	       compat_frmr(mr)->key.num_dma_blocks >= ib_umem_num_dma_blocks(umem, page_size);
}

/* Give a region other memory, in place. @umem is taken over if it succeeds. */
static int umr_rereg_pas(struct shca_mr *mr, struct ib_pd *pd, int access_flags,
			 struct ib_umem *umem, u64 iova, unsigned long page_size)
{
	unsigned long old_page_size = BIT(mr->page_shift);
	int old_access_flags = mr->access_flags;
	struct ib_umem *old_umem = mr->umem;
	u64 old_iova = mr->ibmr.iova;
	int err;

	/* Nobody may meet a mixture of both tables. */
	err = shca_umr_revoke_mr(mr);
	if (err)
		return err;
	set_mr_fields(mr, umem, iova, access_flags, page_size);
	err = shca_umr_update_mr_pas(mr, SHCA_UPD_XLT_ENABLE, to_spd(pd)->pdn);
	if (err) {
		/* The key is free, so nothing leads to the new memory. */
		set_mr_fields(mr, old_umem, old_iova, old_access_flags, old_page_size);
		return err;
	}
	ib_umem_release(old_umem);
	return 0;
}

/**
 * shca_rereg_user_mr() - change memory, protection domain or rights of a region
 * @ibmr: the region
 * @flags: IB_MR_REREG_*: what changes
 * @start: first byte of the new memory, in the process
 * @length: its length in bytes
 * @iova: address of its first byte for the HCA
 * @new_access_flags: new rights
 * @new_pd: new protection domain
 * @udata: no driver data is defined
 *
 * Context: process, waits for the accesses that are running.
 * Return: NULL: the region has been changed in place; a new region, if the new memory
 * does not fit into its table: the core then removes the old one; or an errno. The old
 * region is as it was then, except that after -EIO of the HCA it may have been revoked.
 * Source: HM 12.4, libmlx5-abi 4.3.
 */
struct ib_mr *shca_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start, u64 length, u64 iova,
				 int new_access_flags, struct ib_pd *new_pd,
				 struct ib_udata *udata)
{
	struct shca_dev *dev = to_sdev(ibmr->device);
	struct shca_mr *mr = to_smr(ibmr);
	unsigned long page_size;
	struct ib_umem *umem;
	int err;

	if (flags & ~(IB_MR_REREG_TRANS | IB_MR_REREG_PD | IB_MR_REREG_ACCESS))
		return ERR_PTR(-EOPNOTSUPP);
	if (!(flags & IB_MR_REREG_ACCESS))
		new_access_flags = mr->access_flags;
	if (!(flags & IB_MR_REREG_PD))
		new_pd = ibmr->pd;
	if (new_access_flags & ~SHCA_ACCESS_SUPPORTED)
		return ERR_PTR(-EOPNOTSUPP);
	err = ib_umem_check_rereg(mr->umem, flags, new_access_flags);
	if (!err)
		err = ib_is_udata_in_empty(udata);
	if (err)
		return ERR_PTR(err);

	if (!(flags & IB_MR_REREG_TRANS)) {
		if ((new_access_flags ^ mr->access_flags) & IB_ACCESS_ON_DEMAND)
			return ERR_PTR(-EOPNOTSUPP);
		if (!mr->is_odp_implicit)
			return ERR_PTR(shca_umr_rereg_pd_access(mr, new_pd, new_access_flags));
		/* All its children would have to change with it. */
		start = 0;
		length = U64_MAX;
		iova = 0;
	}
	if (is_odp_mr(mr) || new_access_flags & IB_ACCESS_ON_DEMAND)
		return reg_user_mr(new_pd, start, length, iova, new_access_flags);

	umem = ib_umem_get_va(&dev->ib_dev, start, length, new_access_flags);
	if (IS_ERR(umem))
		return ERR_CAST(umem);
	page_size = shca_umem_mkc_find_best_pgsz(dev, umem, iova);
	if (!page_size) {
		ib_umem_release(umem);
		return ERR_PTR(-EINVAL);
	}
	if (!can_use_umr_rereg_pas(mr, umem, page_size))
		return create_real_mr(new_pd, umem, iova, new_access_flags);
	err = umr_rereg_pas(mr, new_pd, new_access_flags, umem, iova, page_size);
	if (err)
		ib_umem_release(umem);
	return ERR_PTR(err);
}

/*
 * Nobody changes the table of the key while it is taken away, and afterwards a notifier
 * (or the exporter of a dma-buf) finds no region: mlx5_umr_revoke_mr_with_lock().
 */
static void shca_lock_umem(struct shca_mr *mr)
{
	if (is_odp_mr(mr))
		mutex_lock(&to_ib_umem_odp(mr->umem)->umem_mutex);
	else if (is_dmabuf_mr(mr))
		ib_umem_dmabuf_revoke_lock(to_ib_umem_dmabuf(mr->umem));
}

static void shca_unlock_umem(struct shca_mr *mr, bool gone)
{
	if (is_odp_mr(mr)) {
		if (gone)
			to_ib_umem_odp(mr->umem)->private = NULL;
		mutex_unlock(&to_ib_umem_odp(mr->umem)->umem_mutex);
	} else if (is_dmabuf_mr(mr)) {
		if (gone)
			to_ib_umem_dmabuf(mr->umem)->private = NULL;
		ib_umem_dmabuf_revoke_unlock(to_ib_umem_dmabuf(mr->umem));
	}
}

/* As the pools of such keys want it. */
static int shca_empty_mr(struct shca_mr *mr)
{
	if (is_odp_mr(mr))
		return shca_odp_empty(mr);
	if (is_dmabuf_mr(mr))
		return shca_dmabuf_empty(mr);
	return 0;
}

/* Take the key of a region away from everybody: back to its pool, or out of the world. */
static int shca_handle_mkey_cleanup(struct shca_mr *mr)
{
	struct shca_dev *dev = to_sdev(mr->ibmr.device);
	bool revoked = false;
	int err = 0;

	shca_lock_umem(mr);
	if (compat_frmr(mr)->pool)
		revoked = !shca_empty_mr(mr) && !shca_umr_revoke_mr(mr);
	if (!revoked)
		err = shca_cmd_destroy_mkey(dev, mr->mmkey.key);
	shca_unlock_umem(mr, !err);

	if (revoked)
		compat_frmr_pool_push(dev, mr);
	else if (!err && compat_frmr(mr)->pool)
		compat_frmr_pool_drop(mr);
	return err;
}

/**
 * shca_dereg_mr() - remove a memory region
 * @ibmr: the MR
 * @udata: context of the caller, may be NULL
 *
 * Context: process, waits for the accesses that are running, and for the page faults and
 * prefetches that work on the region.
 * Return: 0, or an errno with the MR still alive. Source: HM 11.5.
 */
int shca_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct shca_mr *mr = to_smr(ibmr);
	int err;

	shca_forget_odp_mkey(to_sdev(ibmr->device), &mr->mmkey);
	err = shca_handle_mkey_cleanup(mr);
	if (err)
		return err;
	if (mr->is_odp_implicit)
		shca_free_implicit_mr(mr);
	else
		ib_umem_release(mr->umem);
	kfree(mr);
	return 0;
}

/**
 * shca_reg_dm_mr() - register device memory
 * @pd: protection domain
 * @dm: the memory
 * @attr: range, which the core has found to lie inside, and IB_ACCESS_*
 * @attrs: no driver attribute is defined
 *
 * The key has no translation table: it names the memory itself, and addresses
 * through it count from 0 (HM 4.6).
 *
 * Context: process.
 * Return: the MR, -EINVAL for rights that device memory has not, or an errno.
 * Source: HM 12.5, libmlx5-abi 11.
 */
struct ib_mr *shca_reg_dm_mr(struct ib_pd *pd, struct ib_dm *dm, struct ib_dm_mr_attr *attr,
			     struct uverbs_attr_bundle *attrs)
{
	u8 in[MLX5_ST_SZ_BYTES(create_mkey_in)] __aligned(sizeof(u64)) = {};
	void *mkc = MLX5_ADDR_OF(create_mkey_in, in, memory_key_mkey_entry);
	u64 start_addr = to_sdm(dm)->dev_addr + attr->offset;
	struct shca_mr *mr;
	u32 key;
	int err;

	if (attr->access_flags & ~SHCA_DM_ACCESS_SUPPORTED)
		return ERR_PTR(-EINVAL);
	mr = kzalloc_obj(*mr, GFP_KERNEL_ACCOUNT);
	if (!mr)
		return ERR_PTR(-ENOMEM);

	set_mkc_access_pd_addr_fields(mkc, attr->access_flags, start_addr, pd);
	MLX5_SET(mkc, mkc, access_mode_1_0, MLX5_MKC_ACCESS_MODE_MEMIC & 0x3);
	MLX5_SET(mkc, mkc, access_mode_4_2, MLX5_MKC_ACCESS_MODE_MEMIC >> 2);
	MLX5_SET64(mkc, mkc, len, attr->length);
	err = shca_create_mkey(to_sdev(pd->device), &key, in, sizeof(in));
	if (err) {
		kfree(mr);
		return ERR_PTR(err);
	}
	set_mr_key(mr, pd, key);
	mr->ibmr.length = attr->length;
	mr->access_flags = attr->access_flags;
	return &mr->ibmr;
}
