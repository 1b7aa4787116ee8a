// SPDX-License-Identifier: GPL-2.0
/*
 * Memory regions: the twin of mr.c. HM 12.1, 12.5.
 *
 * Invariants:
 *  - lkey and rkey are the same key: index << 8 | variant, and the variant of
 *    each new key differs from the one before.
 *  - Memory stays pinned and mapped until DESTROY_MKEY has succeeded. If it
 *    fails, the memory stays so for good: the HCA may still access it.
 */
#include <linux/log2.h>

#include "shca.h"

/* Read and write allowed: what every entry of pinned memory says (HM 5.2). */
#define SHCA_MTT_PRESENT	(MLX5_MTT_PERM_READ | MLX5_MTT_PERM_WRITE)

#define SHCA_MTT_PER_OCTOWORD	(SHCA_OCTOWORD / sizeof(__be64))

/* The mailbox of a region of up to so many entries is kept on the stack. */
#define SHCA_MTT_ON_STACK	16

#define SHCA_ACCESS_SUPPORTED						\
	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |		\
	 IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC |		\
	 IB_ZERO_BASED | IB_ACCESS_HUGETLB | IB_ACCESS_OPTIONAL)

#define SHCA_DM_ACCESS_SUPPORTED					\
	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |		\
	 IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC |		\
	 IB_ZERO_BASED | IB_ACCESS_OPTIONAL)

/*
 * Can the HCA load a translation table by UMR? Not this one yet: it offers no
 * UMR queue, so that every MR is made by one CREATE_MKEY that carries its table.
 */
static bool shca_umr_can_load_pas(struct shca_dev *dev, size_t length)
{
	return false;
}

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

static int shca_create_mkey(struct shca_dev *dev, struct shca_mkey *mkey, void *in, size_t inlen)
{
	assign_mkey_variant(dev, &mkey->key, in);
	return shca_cmd_create_mkey(dev, &mkey->key, in, inlen);
}

static void set_mr_fields(struct shca_mr *mr, struct ib_pd *pd, u64 length, int access_flags,
			  u64 iova)
{
	mr->ibmr.lkey = mr->mmkey.key;
	mr->ibmr.rkey = mr->mmkey.key;
	mr->ibmr.length = length;
	mr->ibmr.device = pd->device;
	mr->ibmr.pd = pd;
	mr->ibmr.iova = iova;
	mr->access_flags = access_flags;
}

/* Page sizes of an MTT key: what the capability says, within what the field holds. */
static unsigned long shca_mkc_pgsz_bitmap(struct shca_dev *dev)
{
	unsigned int largest = SHCA_CAP_GEN_2(dev, max_mkey_log_entity_size_mtt);
	unsigned int smallest = SHCA_CAP_GEN_2(dev, log_min_mkey_entity_size);

	return GENMASK(min_t(unsigned int, largest, BITS_PER_LONG - 1),
		       max_t(unsigned int, smallest, MLX5_ADAPTER_PAGE_SHIFT));
}

/* Make an MR by one CREATE_MKEY that carries its translation table. */
static struct shca_mr *reg_create(struct ib_pd *pd, struct ib_umem *umem, u64 iova,
				  int access_flags, unsigned long page_size)
{
	u32 small[(MLX5_ST_SZ_BYTES(create_mkey_in) + SHCA_MTT_ON_STACK * sizeof(__be64)) /
		  sizeof(u32)] __aligned(sizeof(__be64));
	struct shca_dev *dev = to_sdev(pd->device);
	bool pg_cap = SHCA_CAP_GEN(dev, pg);
	size_t npages, ndescs, inlen;
	struct shca_mr *mr;
	void *mkc;
	bool big;
	u32 *in;
	int err;

	if (!page_size)
		return ERR_PTR(-EINVAL);
	mr = kzalloc_obj(*mr);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->page_shift = order_base_2(page_size);

	npages = ib_umem_num_dma_blocks(umem, page_size);
	ndescs = DIV_ROUND_UP(npages, SHCA_MTT_PER_OCTOWORD);
	inlen = MLX5_ST_SZ_BYTES(create_mkey_in) + ndescs * SHCA_OCTOWORD;
	big = inlen > sizeof(small);
	if (big)
		mutex_lock(&dev->slow_path_mutex);
	in = big ? kvzalloc(inlen, GFP_KERNEL) : memset(small, 0, inlen);
	if (!in) {
		err = -ENOMEM;
		goto unlock;
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
	MLX5_SET(mkc, mkc, log_page_size, mr->page_shift);

	err = shca_create_mkey(dev, &mr->mmkey, in, inlen);
	if (big)
		kvfree(in);
unlock:
	if (big)
		mutex_unlock(&dev->slow_path_mutex);
	if (err) {
		kfree(mr);
		return ERR_PTR(err);
	}

	mr->mmkey.ndescs = ndescs;
	mr->umem = umem;
	set_mr_fields(mr, pd, umem->length, access_flags, iova);
	return mr;
}

/* Takes over @umem, also when it fails. */
static struct ib_mr *create_real_mr(struct ib_pd *pd, struct ib_umem *umem, u64 iova,
				    int access_flags)
{
	struct shca_dev *dev = to_sdev(pd->device);
	struct shca_mr *mr;

	if (shca_umr_can_load_pas(dev, umem->length)) {
		mr = ERR_PTR(-EOPNOTSUPP);
	} else {
		unsigned long page_size =
			ib_umem_find_best_pgsz(umem, shca_mkc_pgsz_bitmap(dev), iova);

		mr = reg_create(pd, umem, iova, access_flags, page_size);
	}
	if (IS_ERR(mr)) {
		ib_umem_release(umem);
		return ERR_CAST(mr);
	}
	return &mr->ibmr;
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
 * Return: the MR; -EOPNOTSUPP for on-demand paging, unknown rights and PCIe hints
 * (dmah, on kernels that know them); -EINVAL when no page size fits; or an errno.
 * Source: libmlx5-abi 4.2, HM 12.1.
 */
struct ib_mr *shca_reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 iova,
			       int access_flags, COMPAT_DMAH_PARAM struct ib_udata *udata)
{
	struct shca_dev *dev = to_sdev(pd->device);
	struct ib_umem *umem;
	int err;

	if (compat_has_dmah || access_flags & ~SHCA_ACCESS_SUPPORTED)
		return ERR_PTR(-EOPNOTSUPP);
	err = ib_is_udata_in_empty(udata);
	if (err)
		return ERR_PTR(err);

	umem = ib_umem_get_va(&dev->ib_dev, start, length, access_flags);
	if (IS_ERR(umem))
		return ERR_CAST(umem);
	return create_real_mr(pd, umem, iova, access_flags);
}

/**
 * shca_dereg_mr() - remove a memory region
 * @ibmr: the MR
 * @udata: context of the caller, may be NULL
 *
 * Context: process, waits for the accesses that are running.
 * Return: 0, or an errno with the MR still alive.
 */
int shca_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct shca_dev *dev = to_sdev(ibmr->device);
	struct shca_mr *mr = to_smr(ibmr);
	int err;

	err = shca_cmd_destroy_mkey(dev, mr->mmkey.key);
	if (err)
		return err;
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
	u32 in[MLX5_ST_SZ_DW(create_mkey_in)] = {};
	u64 start_addr = to_sdm(dm)->dev_addr + attr->offset;
	struct shca_mr *mr;
	void *mkc;
	int err;

	if (attr->access_flags & ~SHCA_DM_ACCESS_SUPPORTED)
		return ERR_PTR(-EINVAL);
	mr = kzalloc_obj(*mr);
	if (!mr)
		return ERR_PTR(-ENOMEM);

	mkc = MLX5_ADDR_OF(create_mkey_in, in, memory_key_mkey_entry);
	set_mkc_access_pd_addr_fields(mkc, attr->access_flags, start_addr, pd);
	MLX5_SET(mkc, mkc, access_mode_1_0, MLX5_MKC_ACCESS_MODE_MEMIC & 0x3);
	MLX5_SET(mkc, mkc, access_mode_4_2, MLX5_MKC_ACCESS_MODE_MEMIC >> 2);
	MLX5_SET64(mkc, mkc, len, attr->length);
	err = shca_create_mkey(to_sdev(pd->device), &mr->mmkey, in, sizeof(in));
	if (err) {
		kfree(mr);
		return ERR_PTR(err);
	}
	set_mr_fields(mr, pd, attr->length, attr->access_flags, 0);
	return &mr->ibmr;
}
