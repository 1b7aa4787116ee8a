// SPDX-License-Identifier: GPL-2.0
/*
 * Implicit regions: one key for the whole address space of a process. Its table names
 * keys (KSM): the null key, whose pages are never there, and regions of a gibibyte or so
 * that appear with their first page and go with their last. Of the twin odp.c. HM 6.9.
 *
 * Invariants:
 *  - implicit_children says what the table shall name; whoever changes it loads the entry
 *    afterwards, under the mutex of the parent's umem. Until then the HCA may still go
 *    the old way, which ends in one more page fault.
 *  - A child is destroyed only after it has left implicit_children, everybody who found
 *    it there is done, and the table of its parent no longer names it.
 *  - Work that takes a child away holds the use count of its parent.
 *  - The parent holds its process's mm_struct itself: the core keeps a bare pointer.
 */
#include <linux/log2.h>
#include <linux/sched/mm.h>
#include <linux/mlx5/qp.h>
#include <rdma/ib_umem_odp.h>

#include "odp.h"

static u64 imr_mtt_size(struct shca_dev *dev)
{
	return BIT_ULL(dev->imr_mtt_shift);
}

/**
 * shca_implicit_init_one() - how the address space is divided
 * @dev: the device
 */
void shca_implicit_init_one(struct shca_dev *dev)
{
	u64 space = roundup_pow_of_two(TASK_SIZE_MAX);

	/* The sizes for 4 and for 5 levels of page tables; each table stays below 4 MiB. */
	dev->imr_mtt_shift = space <= BIT_ULL(48) ? 30 : 34;
	dev->imr_ksm_entries = space >> dev->imr_mtt_shift;
}

/**
 * populate_ksm() - entries for the table of an implicit region
 * @ksm: filled in
 * @idx: number of the first entry
 * @nentries: how many
 * @imr: the region
 * @zap: which of them shall name the null key; the others name the child that there is
 *
 * Context: process; the mutex of the region's umem held, unless nobody else knows it.
 */
void populate_ksm(struct mlx5_klm *ksm, size_t idx, size_t nentries, struct shca_mr *imr,
		  const struct shca_xlt_zap *zap)
{
	struct shca_dev *dev = to_sdev(imr->ibmr.device);
	size_t i;

	for (i = 0; i < nentries; i++, idx++) {
		struct shca_mr *mtt = NULL;

		if (idx < zap->first || idx >= zap->end)
			mtt = xa_load(&imr->implicit_children, idx);
		ksm[i].bcount = 0;
		ksm[i].key = cpu_to_be32(mtt ? mtt->mmkey.key : dev->mkeys.null_mkey);
		ksm[i].va = cpu_to_be64(mtt ? mtt->ibmr.iova : 0);
	}
}

static void free_implicit_child_mr_work(struct work_struct *work)
{
	struct shca_mr *mr = container_of(work, struct shca_mr, odp_destroy);
	struct shca_mr *imr = mr->parent;
	struct ib_umem_odp *odp_imr = to_ib_umem_odp(imr->umem);
	struct shca_dev *dev = to_sdev(imr->ibmr.device);

	shca_deref_wait_odp_mkey(&mr->mmkey);
	mutex_lock(&odp_imr->umem_mutex);
	shca_umr_update_xlt(imr, mr->ibmr.iova >> dev->imr_mtt_shift, 1,
			    SHCA_UPD_XLT_INDIRECT | SHCA_UPD_XLT_ATOMIC, 0);
	mutex_unlock(&odp_imr->umem_mutex);
	shca_dereg_mr(&mr->ibmr, NULL);
	shca_deref_odp_mkey(&imr->mmkey);
}

/**
 * destroy_unused_implicit_child_mr() - a child has no page: take it away
 * @mr: the child
 *
 * Context: process, the mutex of the child's umem held; it is destroyed later.
 */
void destroy_unused_implicit_child_mr(struct shca_mr *mr)
{
	struct shca_mr *imr = mr->parent;
	struct shca_dev *dev = to_sdev(imr->ibmr.device);
	unsigned long idx = mr->ibmr.iova >> dev->imr_mtt_shift;
	bool ours;

	/* Whoever deregisters the parent destroys its children. */
	if (!refcount_inc_not_zero(&imr->mmkey.usecount))
		return;
	ours = xa_cmpxchg(&imr->implicit_children, idx, mr, NULL, GFP_NOWAIT) == mr;
	if (!ours) {
		shca_deref_odp_mkey(&imr->mmkey);
		return;
	}
	/* Not here: that sleeps, and waits for notifiers such as the one that calls. */
	INIT_WORK(&mr->odp_destroy, free_implicit_child_mr_work);
	queue_work(dev->odp_pf_eq.wq, &mr->odp_destroy);
}

/* The child of block @idx, a new one or that of somebody who was faster; with a reference. */
static struct shca_mr *implicit_get_child_mr(struct shca_mr *imr, unsigned long idx)
{
	struct shca_dev *dev = to_sdev(imr->ibmr.device);
	u64 va = (u64)idx << dev->imr_mtt_shift;
	struct ib_umem_odp *odp;
	struct shca_mr *mr, *other;
	int err;

	odp = ib_umem_odp_alloc_child(to_ib_umem_odp(imr->umem), va, imr_mtt_size(dev),
				      &shca_mn_ops);
	if (IS_ERR(odp))
		return ERR_CAST(odp);
	mr = shca_alloc_cacheable_mr(imr->ibmr.pd, &odp->umem, va, imr->access_flags);
	if (IS_ERR(mr)) {
		ib_umem_odp_release(odp);
		return mr;
	}
	mr->parent = imr;
	/* One for implicit_children, one for the caller. */
	init_completion(&mr->mmkey.free);
	refcount_set(&mr->mmkey.usecount, 2);
	err = shca_umr_enable_mr(mr, to_spd(imr->ibmr.pd)->pdn);
	if (err)
		goto dereg_mr;
	odp->private = mr;

	xa_lock(&imr->implicit_children);
	other = __xa_cmpxchg(&imr->implicit_children, idx, NULL, mr, GFP_KERNEL);
	err = xa_err(other);
	if (other && !err)
		refcount_inc(&other->mmkey.usecount);
	xa_unlock(&imr->implicit_children);
	if (!other)
		return mr;

dereg_mr:
	shca_dereg_mr(&mr->ibmr, NULL);
	return err ? ERR_PTR(err) : other;
}

/* Bring in what lies in block @idx. @created: the table has to be loaded. */
static long pagefault_child(struct shca_mr *imr, unsigned long idx, u64 user_va, u64 bcnt,
			    unsigned int flags, bool *created)
{
	struct ib_umem_odp *odp;
	struct shca_mr *mtt;
	long ret;

	xa_lock(&imr->implicit_children);
	mtt = xa_load(&imr->implicit_children, idx);
	if (mtt)
		refcount_inc(&mtt->mmkey.usecount);
	xa_unlock(&imr->implicit_children);
	*created = !mtt;
	if (!mtt) {
		mtt = implicit_get_child_mr(imr, idx);
		if (IS_ERR(mtt)) {
			*created = false;
			return PTR_ERR(mtt);
		}
	}

	ret = pagefault_real_mr(mtt, user_va, bcnt, flags);
	if (*created && ret <= 0) {
		/* Nobody will ever take a page from it that it does not have. */
		odp = to_ib_umem_odp(mtt->umem);
		mutex_lock(&odp->umem_mutex);
		if (!odp->npages)
			destroy_unused_implicit_child_mr(mtt);
		mutex_unlock(&odp->umem_mutex);
	}
	shca_deref_odp_mkey(&mtt->mmkey);
	return ret;
}

/**
 * pagefault_implicit_mr() - bring pages of an implicit region in
 * @imr: the region
 * @user_va: first byte
 * @bcnt: bytes, at least 1
 * @flags: enum shca_pf_flags
 *
 * Context: as pagefault_real_mr().
 * Return: as pagefault_real_mr().
 */
long pagefault_implicit_mr(struct shca_mr *imr, u64 user_va, u64 bcnt, unsigned int flags)
{
	struct ib_umem_odp *odp_imr = to_ib_umem_odp(imr->umem);
	struct shca_dev *dev = to_sdev(imr->ibmr.device);
	u64 space = dev->imr_ksm_entries << dev->imr_mtt_shift;
	unsigned long first = ULONG_MAX, last = 0;
	long ret = 0, pages = 0;
	int err;

	if (user_va >= space || bcnt > space - user_va)
		return -EFAULT;
	while (bcnt && ret >= 0) {
		unsigned long idx = user_va >> dev->imr_mtt_shift;
		u64 len = min(bcnt, imr_mtt_size(dev) - (user_va & (imr_mtt_size(dev) - 1)));
		bool created;

		ret = pagefault_child(imr, idx, user_va, len, flags, &created);
		if (created) {
			first = min(first, idx);
			last = idx;
		}
		if (ret > 0)
			pages += ret;
		user_va += len;
		bcnt -= len;
	}
	if (first <= last) {
		mutex_lock(&odp_imr->umem_mutex);
		err = shca_umr_update_xlt(imr, first, last - first + 1,
					  SHCA_UPD_XLT_INDIRECT | SHCA_UPD_XLT_ATOMIC, 0);
		mutex_unlock(&odp_imr->umem_mutex);
		if (err)
			return err;
	}
	return ret < 0 ? ret : pages;
}

/**
 * shca_alloc_implicit_mr() - make a region of the whole address space
 * @pd: protection domain
 * @access_flags: IB_ACCESS_*
 *
 * Context: process. Return: the MR or an errno.
 */
struct ib_mr *shca_alloc_implicit_mr(struct ib_pd *pd, int access_flags)
{
	struct shca_dev *dev = to_sdev(pd->device);
	struct ib_umem_odp *odp;
	struct shca_mr *imr;
	int err;

	odp = ib_umem_odp_alloc_implicit(&dev->ib_dev, access_flags);
	if (IS_ERR(odp))
		return ERR_CAST(odp);
	imr = shca_alloc_ksm_mr(pd, dev->imr_ksm_entries, dev->imr_mtt_shift);
	if (IS_ERR(imr)) {
		ib_umem_odp_release(odp);
		return ERR_CAST(imr);
	}
	mmgrab(odp->umem.owning_mm);
	imr->umem = &odp->umem;
	imr->access_flags = access_flags;
	imr->is_odp_implicit = true;
	xa_init(&imr->implicit_children);

	err = shca_umr_update_xlt(imr, 0, dev->imr_ksm_entries,
				  SHCA_UPD_XLT_INDIRECT | SHCA_UPD_XLT_ZAP | SHCA_UPD_XLT_ENABLE,
				  to_spd(pd)->pdn);
	if (!err)
		err = shca_store_odp_mkey(dev, &imr->mmkey);
	if (err) {
		shca_dereg_mr(&imr->ibmr, NULL);
		return ERR_PTR(err);
	}
	return &imr->ibmr;
}

/**
 * shca_free_implicit_mr() - release what only an implicit region has
 * @imr: the region; its key is no more, and nobody can find it
 *
 * Context: process, waits for the accesses that are running.
 */
void shca_free_implicit_mr(struct shca_mr *imr)
{
	struct mm_struct *mm = imr->umem->owning_mm;
	struct shca_mr *mtt;
	unsigned long idx;

	xa_for_each(&imr->implicit_children, idx, mtt) {
		xa_erase(&imr->implicit_children, idx);
		shca_dereg_mr(&mtt->ibmr, NULL);
	}
	ib_umem_release(imr->umem);
	mmdrop(mm);
}
