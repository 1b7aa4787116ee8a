// SPDX-License-Identifier: GPL-2.0
/*
 * On-demand regions: their pages come when the HCA asks for them, and go when the kernel
 * takes them. Of the twin odp.c, what there is to say of a region; page faults are in
 * pagefault.c, implicit regions in implicit.c, advice in prefetch.c. HM 6, 12.1.
 *
 * Invariants:
 *  - What the umem records of its pages (compat_odp_page()) and what the translation
 *    table holds change together, under the umem's mutex. Once shca_invalidate_range()
 *    has returned, the HCA has nothing of the range, and no access to it is running.
 *  - A page goes into the table only if nothing has been invalidated since hmm found it,
 *    and each fault looks pages up into an array of its own. The core's
 *    ib_umem_odp_map_dma_and_lock() looks them up right into the umem, where another
 *    fault, or the neighbours that a UMR takes along, may meet what is out of date.
 *  - Under the umem's mutex nobody waits for memory or for a process: memory reclaim may
 *    be what waits for the mutex (HM 11.4 R2).
 *  - A key is in shca_dev.odp_mkeys while somebody may find it in a page fault; before
 *    a region goes it is taken out, and those who have found it are waited for.
 */
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <compat_odp.h>

#include "odp.h"

/* Pages that are brought in at a time: as many as one page has room to list. */
#define SHCA_ODP_CHUNK		(PAGE_SIZE / sizeof(unsigned long))

/* So many pages that are missing anyway are zapped along rather than left out. */
#define SHCA_ODP_ZAP_GAP	64

/* How long hmm waits for an invalidation of the range to end. */
#define SHCA_ODP_TIMEOUT	msecs_to_jiffies(HMM_RANGE_DEFAULT_TIMEOUT)

/**
 * shca_store_odp_mkey() - let page faults find a key
 * @dev: the device
 * @mmkey: the key
 *
 * Context: process. Return: 0 or an errno.
 */
int shca_store_odp_mkey(struct shca_dev *dev, struct shca_mkey *mmkey)
{
	int err;

	init_completion(&mmkey->free);
	refcount_set(&mmkey->usecount, 1);
	err = xa_err(xa_store(&dev->odp_mkeys, shca_mkey_to_idx(mmkey->key), mmkey, GFP_KERNEL));
	if (err)
		refcount_set(&mmkey->usecount, 0);
	return err;
}

/**
 * shca_deref_odp_mkey() - let go of a key that was found
 * @mmkey: the key
 */
void shca_deref_odp_mkey(struct shca_mkey *mmkey)
{
	if (refcount_dec_and_test(&mmkey->usecount))
		complete(&mmkey->free);
}

/**
 * shca_deref_wait_odp_mkey() - the owner's reference goes, and all others with it
 * @mmkey: the key, which cannot be found any more
 *
 * Context: process, waits for page faults and prefetches that use it.
 */
void shca_deref_wait_odp_mkey(struct shca_mkey *mmkey)
{
	shca_deref_odp_mkey(mmkey);
	wait_for_completion(&mmkey->free);
}

/**
 * shca_forget_odp_mkey() - undo shca_store_odp_mkey(), if it was done
 * @dev: the device
 * @mmkey: the key; when it is not stored, its use count is 0
 *
 * Context: process, waits for page faults and prefetches that use it.
 */
void shca_forget_odp_mkey(struct shca_dev *dev, struct shca_mkey *mmkey)
{
	if (refcount_read(&mmkey->usecount) &&
	    xa_erase(&dev->odp_mkeys, shca_mkey_to_idx(mmkey->key)))
		shca_deref_wait_odp_mkey(mmkey);
}

static void populate_mtt(__be64 *pas, size_t idx, size_t nentries, struct shca_mr *mr,
			 const struct shca_xlt_zap *zap)
{
	struct ib_umem_odp *odp = to_ib_umem_odp(mr->umem);
	size_t i, end = ib_umem_odp_num_pages(odp);

	for (i = 0; i < nentries; i++, idx++) {
		bool missing = idx >= end || (idx >= zap->first && idx < zap->end);

		pas[i] = cpu_to_be64(missing ? 0 : compat_odp_page(odp, idx));
	}
}

/**
 * shca_odp_populate_xlt() - entries for a table whose pages may be missing
 * @xlt: filled in
 * @idx: number of the first entry
 * @nentries: how many
 * @mr: the region
 * @flags: SHCA_UPD_XLT_INDIRECT or not
 * @zap: which of them shall be missing; the others are what the region holds
 *
 * Context: process, the umem's mutex (of a dma-buf, its reservation lock) held unless
 * nobody else knows the region.
 */
void shca_odp_populate_xlt(void *xlt, size_t idx, size_t nentries, struct shca_mr *mr,
			   unsigned int flags, const struct shca_xlt_zap *zap)
{
	if (flags & SHCA_UPD_XLT_INDIRECT)
		populate_ksm(xlt, idx, nentries, mr, zap);
	else if (is_dmabuf_mr(mr))
		/* Its table is never zapped but as a whole. */
		memset(xlt, 0, nentries * sizeof(__be64));
	else
		populate_mtt(xlt, idx, nentries, mr, zap);
}

/* Zap what is mapped of the pages from @idx up to before @end. @n counts it. */
static int shca_odp_zap(struct shca_mr *mr, struct ib_umem_odp *odp, size_t idx, size_t end,
			size_t *n)
{
	const unsigned int flags = SHCA_UPD_XLT_ZAP | SHCA_UPD_XLT_ATOMIC;
	size_t first = 0, last = 0;
	bool open = false;
	int err = 0;

	for (; idx < end; idx++) {
		if (compat_odp_is_mapped(odp, idx)) {
			if (!open)
				first = idx;
			open = true;
			last = idx;
			++*n;
		} else if (open && idx - last > SHCA_ODP_ZAP_GAP) {
			err = shca_umr_update_xlt(mr, first, last - first + 1, flags, 0) ?: err;
			open = false;
		}
	}
	if (open)
		err = shca_umr_update_xlt(mr, first, last - first + 1, flags, 0) ?: err;
	return err;
}

/**
 * shca_odp_empty() - leave nothing in the table of a region
 * @mr: an explicit region, or a child of an implicit one
 *
 * Context: process, the mutex of its umem held. Return: 0 or -EIO.
 */
int shca_odp_empty(struct shca_mr *mr)
{
	struct ib_umem_odp *odp = to_ib_umem_odp(mr->umem);
	size_t n = 0;

	return odp->npages ? shca_odp_zap(mr, odp, 0, ib_umem_odp_num_pages(odp), &n) : 0;
}

static bool shca_invalidate_range(struct mmu_interval_notifier *mni,
				  const struct mmu_notifier_range *range, unsigned long cur_seq)
{
	struct ib_umem_odp *odp = container_of(mni, struct ib_umem_odp, notifier);
	unsigned long base = ib_umem_start(odp);
	unsigned long start, end;
	struct shca_mr *mr;
	size_t invalidated = 0;

	if (!mmu_notifier_range_blockable(range))
		return false;

	mutex_lock(&odp->umem_mutex);
	mmu_interval_set_seq(mni, cur_seq);
	if (!odp->npages)
		goto unlock;

	start = max_t(u64, base, range->start);
	end = min_t(u64, ib_umem_end(odp), range->end);
	/* Without a region, its key has been revoked: the HCA has nothing of it. */
	mr = odp->private;
	if (mr) {
		shca_odp_zap(mr, odp, (start - base) >> PAGE_SHIFT,
			     DIV_ROUND_UP(end - base, PAGE_SIZE), &invalidated);
		/* Nobody can look at the figures of a child. */
		shca_update_odp_stats_with_handled(mr->parent ?: mr, invalidations, invalidated);
	}
	ib_umem_odp_unmap_dma_pages(odp, start, end);
	if (mr && mr->parent && !odp->npages)
		destroy_unused_implicit_child_mr(mr);
unlock:
	mutex_unlock(&odp->umem_mutex);
	return true;
}

const struct mmu_interval_notifier_ops shca_mn_ops = {
	.invalidate = shca_invalidate_range,
};

/*
 * Look up @n pages from @va on, and return with the umem's mutex held and the answer
 * still true. @fault: bring in those that are not there, for @write; else @pfns tells.
 */
static int shca_odp_find_and_lock(struct ib_umem_odp *odp, unsigned long va, size_t n,
				  unsigned long *pfns, bool fault, bool write)
{
	struct hmm_range range = {
		.notifier = &odp->notifier,
		.start = va,
		.end = va + (n << PAGE_SHIFT),
		.hmm_pfns = pfns,
		.default_flags = !fault ? 0 : HMM_PFN_REQ_FAULT | (write ? HMM_PFN_REQ_WRITE : 0),
	};
	struct mm_struct *mm = odp->umem.owning_mm;
	int err;

	do {
		/* Again each time: we are not the ones to keep a process from its end. */
		if (!mmget_not_zero(mm))
			return -EINVAL;
		memset(pfns, 0, n * sizeof(*pfns));
		err = hmm_range_fault_unlocked_timeout(&range, SHCA_ODP_TIMEOUT);
		if (!err) {
			mutex_lock(&odp->umem_mutex);
			if (mmu_interval_read_retry(range.notifier, range.notifier_seq)) {
				mutex_unlock(&odp->umem_mutex);
				err = -EBUSY;
			}
		}
		/* Not here: the end of a process takes the mutex. */
		mmput_async(mm);
	} while (err == -EBUSY && !fatal_signal_pending(current));
	return err;
}

/* One chunk of pagefault_real_mr(). Returns the pages that are there now. */
static long pagefault_chunk(struct shca_mr *mr, unsigned long va, size_t n, unsigned long *pfns,
			    unsigned int flags)
{
	struct ib_umem_odp *odp = to_ib_umem_odp(mr->umem);
	bool write = odp->umem.writable && !(flags & SHCA_PF_FLAGS_DOWNGRADE);
	size_t i, idx = (va - ib_umem_start(odp)) >> PAGE_SHIFT;
	size_t first = 0, last = 0;
	bool changed = false;
	int err, umr_err = 0;
	long pages = 0;
	u64 before;

	err = shca_odp_find_and_lock(odp, va, n, pfns, !(flags & SHCA_PF_FLAGS_SNAPSHOT), write);
	if (err)
		return err;
	for (i = 0; i < n && !err; i++) {
		if (!(pfns[i] & HMM_PFN_VALID))
			continue;
		before = compat_odp_page(odp, idx + i);
		err = compat_odp_map_page(odp, idx + i,
					  write ? pfns[i] : pfns[i] & ~HMM_PFN_WRITE);
		pages++;
		if (compat_odp_page(odp, idx + i) == before)
			continue;
		if (!changed)
			first = idx + i;
		changed = true;
		last = idx + i;
	}
	/* Also when one of them has failed: what is recorded is in the table. */
	if (changed)
		umr_err = shca_umr_update_xlt(mr, first, last - first + 1, SHCA_UPD_XLT_ATOMIC, 0);
	mutex_unlock(&odp->umem_mutex);
	return err ?: umr_err ?: pages;
}

/**
 * pagefault_real_mr() - bring pages of one umem in
 * @mr: an explicit region, or a child of an implicit one
 * @user_va: first byte, in the process
 * @bcnt: bytes, at least 1
 * @flags: enum shca_pf_flags
 *
 * Context: process, may sleep for as long as the process whose memory it is likes.
 * Return: the pages that are there now: all, but for SHCA_PF_FLAGS_SNAPSHOT; -EFAULT:
 * not within the region, or not accessible; -EINVAL: the process is no more; -EBUSY or
 * -EINTR: the caller is being killed; -ENOMEM: try again; or an errno.
 */
long pagefault_real_mr(struct shca_mr *mr, u64 user_va, u64 bcnt,
		       unsigned int flags)
{
	struct ib_umem_odp *odp = to_ib_umem_odp(mr->umem);
	unsigned long va, end, *pfns;
	long ret = 0, pages = 0;
	size_t n;

	if (user_va < ib_umem_start(odp) || user_va >= ib_umem_end(odp) ||
	    bcnt > ib_umem_end(odp) - user_va)
		return -EFAULT;
	va = user_va & PAGE_MASK;
	end = PAGE_ALIGN(user_va + bcnt);
	n = min((end - va) >> PAGE_SHIFT, SHCA_ODP_CHUNK);
	pfns = kmalloc_array(n, sizeof(*pfns), GFP_KERNEL);
	if (!pfns)
		return -ENOMEM;
	for (; va < end; va += n << PAGE_SHIFT) {
		n = min((end - va) >> PAGE_SHIFT, SHCA_ODP_CHUNK);
		ret = pagefault_chunk(mr, va, n, pfns, flags);
		if (ret < 0)
			break;
		pages += ret;
	}
	kfree(pfns);
	return ret < 0 ? ret : pages;
}

/**
 * pagefault_mr() - bring pages of a region in
 * @mr: the region
 * @io_virt: first byte, as the HCA addresses it
 * @bcnt: bytes, at least 1
 * @flags: enum shca_pf_flags
 *
 * Context: as pagefault_real_mr().
 * Return: as pagefault_real_mr().
 */
long pagefault_mr(struct shca_mr *mr, u64 io_virt, u64 bcnt, unsigned int flags)
{
	u64 user_va;

	if (mr->is_odp_implicit)
		return pagefault_implicit_mr(mr, io_virt, bcnt, flags);
	if (is_dmabuf_mr(mr))
		return pagefault_dmabuf_mr(mr, io_virt, bcnt);
	if (io_virt < mr->ibmr.iova ||
	    check_add_overflow(io_virt - mr->ibmr.iova, (u64)mr->umem->address, &user_va))
		return -EFAULT;
	return pagefault_real_mr(mr, user_va, bcnt, flags);
}

/**
 * shca_create_user_odp_mr() - register memory whose pages come on demand
 * @pd: protection domain
 * @start: first byte, in the process
 * @length: bytes; U64_MAX with @start 0 stands for the whole address space
 * @iova: address of the first byte for the HCA
 * @access_flags: IB_ACCESS_*
 *
 * Context: process.
 * Return: the MR; -EINVAL if its table does not fit a UMR, its addresses wrap, or an
 * implicit one has an address; or an errno. Source: HM 6.10, 12.1, 12.8.
 */
struct ib_mr *shca_create_user_odp_mr(struct ib_pd *pd, u64 start, u64 length, u64 iova,
				      int access_flags)
{
	struct shca_dev *dev = to_sdev(pd->device);
	struct ib_umem_odp *odp;
	struct shca_mr *mr;
	u64 last;
	long ret;

	ret = shca_odp_create_eq(dev);
	if (ret)
		return ERR_PTR(ret);
	if (!start && length == U64_MAX) {
		if (iova || !(dev->odp_caps.general_caps & IB_ODP_SUPPORT_IMPLICIT))
			return ERR_PTR(-EINVAL);
		return shca_alloc_implicit_mr(pd, access_flags);
	}

	if (!shca_umr_can_load_pas(dev, length) ||
	    (length && check_add_overflow(iova, length - 1, &last)))
		return ERR_PTR(-EINVAL);
	/* All tables are in small pages, so what the program says of its pages is no help. */
	odp = ib_umem_odp_get(&dev->ib_dev, start, length, access_flags & ~IB_ACCESS_HUGETLB,
			      &shca_mn_ops);
	if (IS_ERR(odp))
		return ERR_CAST(odp);
	mr = shca_alloc_cacheable_mr(pd, &odp->umem, iova, access_flags);
	if (IS_ERR(mr)) {
		ib_umem_odp_release(odp);
		return ERR_CAST(mr);
	}

	ret = shca_umr_enable_mr(mr, to_spd(pd)->pdn);
	if (ret)
		goto dereg_mr;
	odp->private = mr;
	ret = shca_store_odp_mkey(dev, &mr->mmkey);
	if (ret)
		goto dereg_mr;
	ret = pagefault_real_mr(mr, start, length, SHCA_PF_FLAGS_SNAPSHOT);
	if (ret < 0)
		goto dereg_mr;
	return &mr->ibmr;

dereg_mr:
	shca_dereg_mr(&mr->ibmr, NULL);
	return ERR_PTR(ret);
}

/* What is needed for regions that stand for the whole address space (HM 6.9). */
static bool shca_has_implicit(struct shca_dev *dev)
{
	return SHCA_CAP_GEN(dev, fixed_buffer_size) && SHCA_CAP_GEN(dev, null_mkey) &&
	       SHCA_CAP_GEN(dev, umr_extended_translation_offset) &&
	       !SHCA_CAP_GEN(dev, umr_indirect_mkey_disabled) &&
	       dev->imr_mtt_shift <= MLX5_GET(hca_cap_2_ksm, dev->caps.general_2,
					      max_mkey_log_entity_size_fixed_buffer);
}

static void internal_fill_odp_caps(struct shca_dev *dev)
{
	const void *rc = MLX5_ADDR_OF(odp_cap, dev->caps.odp,
				      transport_page_fault_scheme_cap.rc_odp_caps);
	struct ib_odp_caps *caps = &dev->odp_caps;
	u32 bits = 0;

	if (MLX5_GET(odp_per_transport_service_cap, rc, send))
		bits |= IB_ODP_SUPPORT_SEND;
	if (MLX5_GET(odp_per_transport_service_cap, rc, receive))
		bits |= IB_ODP_SUPPORT_RECV;
	if (MLX5_GET(odp_per_transport_service_cap, rc, write))
		bits |= IB_ODP_SUPPORT_WRITE;
	if (MLX5_GET(odp_per_transport_service_cap, rc, read))
		bits |= IB_ODP_SUPPORT_READ;
	if (MLX5_GET(odp_per_transport_service_cap, rc, atomic))
		bits |= IB_ODP_SUPPORT_ATOMIC;
	if (MLX5_GET(odp_per_transport_service_cap, rc, srq_receive))
		bits |= IB_ODP_SUPPORT_SRQ_RECV;
	caps->per_transport_caps.rc_odp_caps = bits;
	caps->general_caps = IB_ODP_SUPPORT;
	if (shca_has_implicit(dev))
		caps->general_caps |= IB_ODP_SUPPORT_IMPLICIT;
}

/**
 * shca_odp_init_one() - find out what of on-demand paging can be offered
 * @dev: the device; its capabilities are known
 */
void shca_odp_init_one(struct shca_dev *dev)
{
	mutex_init(&dev->odp_eq_mutex);
	xa_init(&dev->odp_mkeys);
	shca_implicit_init_one(dev);
	if (SHCA_CAP_GEN(dev, pg) && shca_umr_can_load_pas(dev, 0))
		internal_fill_odp_caps(dev);
}
