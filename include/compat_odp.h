/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pages of on-demand memory (struct ib_umem_odp): how they are brought in and where the
 * core keeps them, which differs between kernels. Nothing else of the driver knows.
 *
 * Invariants:
 *  - What is recorded of a page, compat_odp_page(), changes only with the mutex of the
 *    umem held: it is what the HCA has been told, or is being told.
 *  - ib_umem_odp_unmap_dma_pages() of the core undoes compat_odp_map_page(): it counts the
 *    pages, unmaps them, and marks those dirty that could be written.
 */
#ifndef SOFTHCA_COMPAT_ODP_H
#define SOFTHCA_COMPAT_ODP_H

#include <linux/dma-mapping.h>
#include <linux/hmm.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/mlx5/mlx5_ifc.h>
#include <linux/mmap_lock.h>
#include <linux/mmu_notifier.h>
#include <rdma/ib_umem_odp.h>

#ifdef HAVE_HMM_DMA
#include <linux/hmm-dma.h>
#include <linux/pci-p2pdma.h>
#endif

/* linux/hmm.h: faults that do not keep mmap_lock while user space brings the page */
#ifndef HAVE_HMM_UNLOCKED
/* The pages that hmm cannot wait for (userfaultfd) come by the other way. */
static inline int compat_hmm_fault_by_page(struct hmm_range *range)
{
	unsigned int flags = range->default_flags & HMM_PFN_REQ_WRITE ? FAULT_FLAG_WRITE : 0;
	struct mm_struct *mm = range->notifier->mm;
	unsigned long va;
	bool unlocked;
	int err = 0;

	for (va = range->start; va < range->end && !err; va += PAGE_SIZE) {
		mmap_read_lock(mm);
		err = fixup_user_fault(mm, va, flags, &unlocked);
		mmap_read_unlock(mm);
	}
	return err;
}

static inline int hmm_range_fault_unlocked_timeout(struct hmm_range *range, unsigned long timeout)
{
	struct mm_struct *mm = range->notifier->mm;
	unsigned long end = jiffies + timeout;
	int err;

	do {
		range->notifier_seq = mmu_interval_read_begin(range->notifier);
		mmap_read_lock(mm);
		err = hmm_range_fault(range);
		mmap_read_unlock(mm);
		if (err == -EFAULT)
			err = compat_hmm_fault_by_page(range) ?: -EBUSY;
	} while (err == -EBUSY && time_before(jiffies, end));
	return err;
}
#endif

#ifdef HAVE_HMM_DMA

static inline bool compat_odp_is_mapped(struct ib_umem_odp *odp, size_t idx)
{
	return odp->map.pfn_list[idx] & HMM_PFN_DMA_MAPPED;
}

/* A page as the HCA wants it: DMA address and MLX5_MTT_PERM_*; 0 if it is missing. */
static inline u64 compat_odp_page(struct ib_umem_odp *odp, size_t idx)
{
	unsigned long pfn = odp->map.pfn_list[idx];
	struct pci_p2pdma_map_state p2pdma = {};

	if (!(pfn & HMM_PFN_DMA_MAPPED))
		return 0;
	/* It is mapped: this only computes the address once more. */
	return hmm_dma_map_pfn(odp->umem.ibdev->dma_device, &odp->map, idx, &p2pdma) |
	       MLX5_MTT_PERM_READ | (pfn & HMM_PFN_WRITE ? MLX5_MTT_PERM_WRITE : 0);
}

/* Record the page that hmm_range_fault() has found, and map it for DMA. */
static inline int compat_odp_map_page(struct ib_umem_odp *odp, size_t idx, unsigned long pfn)
{
	struct device *dma_device = odp->umem.ibdev->dma_device;
	const unsigned long kept = HMM_PFN_DMA_MAPPED | HMM_PFN_P2PDMA | HMM_PFN_P2PDMA_BUS;
	struct pci_p2pdma_map_state p2pdma = {};
	unsigned long old = odp->map.pfn_list[idx];

	if (old & HMM_PFN_DMA_MAPPED)
		pfn |= old & (kept | HMM_PFN_WRITE);
	odp->map.pfn_list[idx] = pfn;
	if (dma_mapping_error(dma_device,
			      hmm_dma_map_pfn(dma_device, &odp->map, idx, &p2pdma))) {
		odp->map.pfn_list[idx] = 0;
		return -EFAULT;
	}
	if (!(old & HMM_PFN_DMA_MAPPED))
		odp->npages++;
	return 0;
}

#else

static inline bool compat_odp_is_mapped(struct ib_umem_odp *odp, size_t idx)
{
	return odp->dma_list[idx];
}

static inline u64 compat_odp_page(struct ib_umem_odp *odp, size_t idx)
{
	/* The core's bits for the rights of a page are those of the HCA. */
	static_assert(ODP_READ_ALLOWED_BIT == MLX5_MTT_PERM_READ);
	static_assert(ODP_WRITE_ALLOWED_BIT == MLX5_MTT_PERM_WRITE);
	return odp->dma_list[idx];
}

static inline int compat_odp_map_page(struct ib_umem_odp *odp, size_t idx, unsigned long pfn)
{
	struct ib_device *ibdev = odp->umem.ibdev;
	dma_addr_t dma = odp->dma_list[idx];

	if (!dma) {
		dma = ib_dma_map_page(ibdev, hmm_pfn_to_page(pfn), 0, PAGE_SIZE,
				      DMA_BIDIRECTIONAL);
		if (ib_dma_mapping_error(ibdev, dma))
			return -EFAULT;
		odp->npages++;
		odp->pfn_list[idx] = pfn;
	}
	odp->dma_list[idx] = dma | ODP_READ_ALLOWED_BIT |
			     (pfn & HMM_PFN_WRITE ? ODP_WRITE_ALLOWED_BIT : 0);
	return 0;
}

#endif

#endif /* SOFTHCA_COMPAT_ODP_H */
