// SPDX-License-Identifier: GPL-2.0
/*
 * Regions over dma-bufs: memory of another driver, which may move it. Of the twins mr.c
 * and odp.c what is about them. HM 12.3.
 *
 * Invariants, under the reservation lock of the buffer:
 *  - While its pages are mapped, the table of the key holds them all; while they are not,
 *    it holds nothing. So the page size, which depends on where the buffer happens to
 *    lie, changes only while no entry is there that could be taken for another (HM 12.7).
 *  - Once the exporter has been told that a mapping is gone, the HCA accesses nothing of
 *    it, and the next access raises a page fault.
 *  - A buffer is pinned only if its exporter does not let it be mapped otherwise. If such
 *    a buffer is taken away, it is for good: from then on every access fails.
 *  - No memory is waited for: the lock may be held by who makes it free.
 */
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/overflow.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

#define UVERBS_MODULE_NAME shca_dmabuf
#include <rdma/uverbs_named_ioctl.h>

#include "odp.h"

COMPAT_IMPORT_NS_DMA_BUF;

static int shca_dmabuf_zap(struct shca_mr *mr)
{
	return shca_umr_update_xlt(mr, 0, ib_umem_num_dma_blocks(mr->umem, BIT(mr->page_shift)),
				   SHCA_UPD_XLT_ZAP | SHCA_UPD_XLT_ATOMIC, 0);
}

/**
 * shca_dmabuf_empty() - leave nothing in the table of a region
 * @mr: the region
 *
 * Context: process, the reservation lock of its buffer held. Return: 0 or -EIO.
 */
int shca_dmabuf_empty(struct shca_mr *mr)
{
	return to_ib_umem_dmabuf(mr->umem)->sgt ? shca_dmabuf_zap(mr) : 0;
}

static void shca_dmabuf_invalidate_cb(struct dma_buf_attachment *attach)
{
	struct ib_umem_dmabuf *umem_dmabuf = attach->importer_priv;
	struct shca_mr *mr = umem_dmabuf->private;

	dma_resv_assert_held(attach->dmabuf->resv);
	if (!umem_dmabuf->sgt)
		return;
	/* Without a region, its key has been revoked: the HCA has nothing of the buffer. */
	if (mr) {
		shca_dmabuf_zap(mr);
		shca_update_odp_stats_with_handled(mr, invalidations, ib_umem_num_pages(mr->umem));
	}
	ib_umem_dmabuf_unmap_pages(umem_dmabuf);
	if (umem_dmabuf->pinned) {
		dma_buf_unpin(attach);
		umem_dmabuf->pinned = 0;
		umem_dmabuf->revoked = 1;
	}
}

static const struct dma_buf_attach_ops shca_dmabuf_attach_ops = {
	/* The bus reaches nothing but memory: a BAR of another device is no use. */
	.allow_peer2peer = false,
	.invalidate_mappings = shca_dmabuf_invalidate_cb,
};

/* The pages have just been mapped: put them into the table. */
static int shca_dmabuf_load(struct shca_mr *mr)
{
	unsigned long page_size;
	int err;

	page_size = shca_umem_mkc_find_best_pgsz(to_sdev(mr->ibmr.device), mr->umem,
						 mr->umem->iova);
	if (!page_size)
		return -EINVAL;
	if (page_size != BIT(mr->page_shift)) {
		err = shca_umr_update_mr_page_shift(mr, order_base_2(page_size));
		if (err)
			return err;
	}
	err = shca_umr_update_mr_pas(mr, SHCA_UPD_XLT_ATOMIC, 0);
	if (err)
		shca_dmabuf_zap(mr);
	return err;
}

/* Have the buffer mapped and in the table, its contents in place. The lock is held. */
static int shca_dmabuf_map_and_load(struct shca_mr *mr)
{
	struct ib_umem_dmabuf *umem_dmabuf = to_ib_umem_dmabuf(mr->umem);
	bool mapped = umem_dmabuf->sgt;
	int err;

	err = ib_umem_dmabuf_map_pages(umem_dmabuf);
	if (mapped)
		return err;
	if (!err)
		err = shca_dmabuf_load(mr);
	if (err)
		ib_umem_dmabuf_unmap_pages(umem_dmabuf);
	return err;
}

/**
 * pagefault_dmabuf_mr() - bring a buffer back
 * @mr: the region
 * @io_virt: first byte that is wanted, as the HCA addresses it
 * @bcnt: bytes
 *
 * It comes as a whole.
 *
 * Context: process, waits for the exporter to have the contents in place.
 * Return: pages of the region; -EFAULT: not within it; -EINVAL: the buffer has been
 * taken away for good; or an errno of the exporter.
 */
long pagefault_dmabuf_mr(struct shca_mr *mr, u64 io_virt, u64 bcnt)
{
	struct ib_umem_dmabuf *umem_dmabuf = to_ib_umem_dmabuf(mr->umem);
	struct dma_resv *resv = umem_dmabuf->attach->dmabuf->resv;
	u64 offset = io_virt - mr->ibmr.iova;
	int err;

	if (io_virt < mr->ibmr.iova || offset > mr->ibmr.length ||
	    bcnt > mr->ibmr.length - offset)
		return -EFAULT;
	dma_resv_lock(resv, NULL);
	err = shca_dmabuf_map_and_load(mr);
	dma_resv_unlock(resv);
	return err ?: (long)ib_umem_num_pages(mr->umem);
}

/* The first fill. An exporter that insists on it gets its buffer pinned. */
static int shca_init_dmabuf_mr(struct shca_mr *mr)
{
	struct ib_umem_dmabuf *umem_dmabuf = to_ib_umem_dmabuf(mr->umem);
	struct dma_buf_attachment *attach = umem_dmabuf->attach;
	int err;

	dma_resv_lock(attach->dmabuf->resv, NULL);
	err = shca_dmabuf_map_and_load(mr);
	if (err && !dma_buf_pin(attach)) {
		umem_dmabuf->pinned = 1;
		err = shca_dmabuf_map_and_load(mr);
	}
	dma_resv_unlock(attach->dmabuf->resv);
	return err;
}

/**
 * shca_reg_user_mr_dmabuf() - register memory of another driver
 * @pd: protection domain
 * @offset: first byte of the buffer that belongs to the region
 * @length: bytes
 * @virt_addr: address of the first byte for the HCA; the core has found that both have
 *	the same place in a page
 * @fd: the dma-buf
 * @access_flags: IB_ACCESS_*
 * @attrs: optional MLX5_IB_ATTR_REG_DMABUF_MR_ACCESS_FLAGS
 *
 * Data direct, which sends the accesses through a second PCI function, is answered as
 * mlx5 answers where there is no such function.
 *
 * Context: process, waits for the exporter.
 * Return: the MR; -EINVAL if its table does not fit a UMR, for addresses that wrap or lie
 * outside the buffer, and for data direct; -EOPNOTSUPP for rights that make no sense
 * here; or an errno of the exporter. Source: HM 12.1, 12.3.
 */
struct ib_mr *shca_reg_user_mr_dmabuf(struct ib_pd *pd, u64 offset, u64 length, u64 virt_addr,
				      int fd, int access_flags,
				      COMPAT_DMAH_PARAM struct uverbs_attr_bundle *attrs)
{
	struct shca_dev *dev = to_sdev(pd->device);
	struct ib_umem_dmabuf *umem_dmabuf;
	u32 mlx5_access_flags = 0;
	struct shca_mr *mr;
	u64 last;
	int err;

	if (compat_has_dmah || access_flags & IB_ACCESS_ON_DEMAND)
		return ERR_PTR(-EOPNOTSUPP);
	if (uverbs_attr_is_valid(attrs, MLX5_IB_ATTR_REG_DMABUF_MR_ACCESS_FLAGS)) {
		err = uverbs_get_flags32(&mlx5_access_flags, attrs,
					 MLX5_IB_ATTR_REG_DMABUF_MR_ACCESS_FLAGS,
					 MLX5_IB_UAPI_REG_DMABUF_ACCESS_DATA_DIRECT);
		if (err)
			return ERR_PTR(err);
	}
	if (mlx5_access_flags || !shca_umr_can_load_pas(dev, length) ||
	    (length && check_add_overflow(virt_addr, length - 1, &last)))
		return ERR_PTR(-EINVAL);
	err = shca_odp_create_eq(dev);
	if (err)
		return ERR_PTR(err);

	umem_dmabuf = ib_umem_dmabuf_get(&dev->ib_dev, offset, length, fd, access_flags,
					 &shca_dmabuf_attach_ops);
	if (IS_ERR(umem_dmabuf))
		return ERR_CAST(umem_dmabuf);
	mr = shca_alloc_cacheable_mr(pd, &umem_dmabuf->umem, virt_addr, access_flags);
	if (IS_ERR(mr)) {
		ib_umem_release(&umem_dmabuf->umem);
		return ERR_CAST(mr);
	}

	err = shca_umr_enable_mr(mr, to_spd(pd)->pdn);
	if (err)
		goto dereg_mr;
	umem_dmabuf->private = mr;
	err = shca_store_odp_mkey(dev, &mr->mmkey);
	if (err)
		goto dereg_mr;
	err = shca_init_dmabuf_mr(mr);
	if (err)
		goto dereg_mr;
	return &mr->ibmr;

dereg_mr:
	shca_dereg_mr(&mr->ibmr, NULL);
	return ERR_PTR(err);
}

ADD_UVERBS_ATTRIBUTES_SIMPLE(
	shca_reg_dmabuf_mr,
	UVERBS_OBJECT_MR,
	UVERBS_METHOD_REG_DMABUF_MR,
	UVERBS_ATTR_FLAGS_IN(MLX5_IB_ATTR_REG_DMABUF_MR_ACCESS_FLAGS,
			     enum mlx5_ib_uapi_reg_dmabuf_flags,
			     UA_OPTIONAL));

const struct uapi_definition shca_dmabuf_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_MR, &shca_reg_dmabuf_mr),
	{},
};
