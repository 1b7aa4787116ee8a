// SPDX-License-Identifier: GPL-2.0
/*
 * Advice on memory regions: bring pages in before they are needed. Of the twin odp.c.
 * HM 6.10.
 *
 * Invariants:
 *  - Whether a key may be named by the caller is decided before the call returns, also
 *    when the work is done later.
 *  - Work that is done later holds the use count of each region that it is about.
 */
#include <linux/overflow.h>
#include <linux/slab.h>

#include "shca.h"

/**
 * struct prefetch_mr_work - prefetching that the caller does not wait for
 * @work: does it
 * @pf_flags: enum shca_pf_flags
 * @num_sge: entries of @frags
 * @frags: what to bring in: region, address for the HCA, bytes
 */
struct prefetch_mr_work {
	struct work_struct work;
	unsigned int pf_flags;
	u32 num_sge;
	struct {
		struct shca_mr *mr;
		u64 io_virt;
		u32 length;
	} frags[] __counted_by(num_sge);
};

/* Returns the region of @lkey with a reference, if @pd may give this advice about it. */
static struct shca_mr *get_prefetchable_mr(struct ib_pd *pd, enum ib_uverbs_advise_mr_advice advice,
					   u32 lkey)
{
	struct shca_dev *dev = to_sdev(pd->device);
	struct shca_mkey *mmkey;
	struct shca_mr *mr;

	xa_lock(&dev->odp_mkeys);
	mmkey = xa_load(&dev->odp_mkeys, shca_mkey_to_idx(lkey));
	if (!mmkey || mmkey->key != lkey) {
		mr = ERR_PTR(-ENOENT);
		goto unlock;
	}
	if (mmkey->type != SHCA_MKEY_MR) {
		mr = ERR_PTR(-EINVAL);
		goto unlock;
	}
	mr = container_of(mmkey, struct shca_mr, mmkey);
	if (mr->ibmr.pd != pd ||
	    (advice == IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE && !mr->umem->writable))
		mr = ERR_PTR(-EPERM);
	else
		refcount_inc(&mmkey->usecount);
unlock:
	xa_unlock(&dev->odp_mkeys);
	return mr;
}

static int shca_prefetch(struct shca_mr *mr, u64 io_virt, u32 length, unsigned int pf_flags)
{
	long ret;

	if (!length)
		return 0;
	ret = pagefault_mr(mr, io_virt, length, pf_flags);
	if (ret < 0)
		return ret;
	shca_update_odp_stats(mr, prefetch, ret);
	return 0;
}

static void destroy_prefetch_work(struct prefetch_mr_work *work)
{
	u32 i;

	for (i = 0; i < work->num_sge; i++)
		shca_deref_odp_mkey(&work->frags[i].mr->mmkey);
	kvfree(work);
}

static void shca_prefetch_mr_work(struct work_struct *w)
{
	struct prefetch_mr_work *work = container_of(w, struct prefetch_mr_work, work);
	u32 i;

	/* It was only advice: what cannot be followed is left to page faults. */
	for (i = 0; i < work->num_sge; i++)
		shca_prefetch(work->frags[i].mr, work->frags[i].io_virt, work->frags[i].length,
			      work->pf_flags);
	destroy_prefetch_work(work);
}

static int shca_prefetch_later(struct ib_pd *pd, enum ib_uverbs_advise_mr_advice advice,
			       unsigned int pf_flags, const struct ib_sge *sg_list, u32 num_sge)
{
	struct prefetch_mr_work *work;
	struct shca_mr *mr;
	u32 i;

	work = kvzalloc(struct_size(work, frags, num_sge), GFP_KERNEL);
	if (!work)
		return -ENOMEM;
	INIT_WORK(&work->work, shca_prefetch_mr_work);
	work->pf_flags = pf_flags;
	for (i = 0; i < num_sge; i++) {
		mr = get_prefetchable_mr(pd, advice, sg_list[i].lkey);
		if (IS_ERR(mr)) {
			destroy_prefetch_work(work);
			return PTR_ERR(mr);
		}
		work->num_sge++;
		work->frags[i].mr = mr;
		work->frags[i].io_virt = sg_list[i].addr;
		work->frags[i].length = sg_list[i].length;
	}
	queue_work(to_sdev(pd->device)->odp_pf_eq.wq, &work->work);
	return 0;
}

static int shca_prefetch_sg_list(struct ib_pd *pd, enum ib_uverbs_advise_mr_advice advice,
				 unsigned int pf_flags, const struct ib_sge *sg_list, u32 num_sge)
{
	struct shca_mr *mr;
	int err = 0;
	u32 i;

	for (i = 0; i < num_sge && !err; i++) {
		mr = get_prefetchable_mr(pd, advice, sg_list[i].lkey);
		if (IS_ERR(mr))
			return PTR_ERR(mr);
		err = shca_prefetch(mr, sg_list[i].addr, sg_list[i].length, pf_flags);
		shca_deref_odp_mkey(&mr->mmkey);
	}
	return err;
}

/**
 * shca_advise_mr() - bring pages of on-demand regions in
 * @pd: protection domain of the regions
 * @advice: for reading, for writing, or only those that are there anyway
 * @flags: IB_UVERBS_ADVISE_MR_FLAG_FLUSH: return when it is done
 * @sg_list: which pages; the keys are those of on-demand or dma-buf regions
 * @num_sge: entries of @sg_list, at least 1
 * @attrs: not used
 *
 * Context: process.
 * Return: 0; -ENOENT for a key that is none of those; -EINVAL for a window; -EPERM for a
 * region of another protection domain, or to be written that cannot be; -EOPNOTSUPP for
 * other advice; and when it is done here -EFAULT for pages that are not the region's, or
 * not there to be had.
 */
int shca_advise_mr(struct ib_pd *pd, enum ib_uverbs_advise_mr_advice advice, u32 flags,
		   struct ib_sge *sg_list, u32 num_sge, struct uverbs_attr_bundle *attrs)
{
	unsigned int pf_flags = 0;

	switch (advice) {
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH:
		pf_flags = SHCA_PF_FLAGS_DOWNGRADE;
		break;
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE:
		break;
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT:
		pf_flags = SHCA_PF_FLAGS_SNAPSHOT;
		break;
	default:
		return -EOPNOTSUPP;
	}
	if (flags & IB_UVERBS_ADVISE_MR_FLAG_FLUSH)
		return shca_prefetch_sg_list(pd, advice, pf_flags, sg_list, num_sge);
	return shca_prefetch_later(pd, advice, pf_flags, sg_list, num_sge);
}
