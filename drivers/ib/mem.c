// SPDX-License-Identifier: GPL-2.0
/*
 * Page lists of pinned memory, in the form the HCA wants: the twin of mem.c.
 *
 * Invariants:
 *  - The page size is the largest that fits the memory and the field that
 *    carries it; a size of 0 says that none does.
 */
#include <linux/mlx5/device.h>
#include <rdma/iter.h>

#include "shca.h"

/**
 * shca_populate_pas() - list the DMA blocks of a umem
 * @umem: the memory
 * @page_size: bytes a block, from ib_umem_find_best_pgsz() or _pgoff()
 * @pas: room for ib_umem_num_dma_blocks() entries
 * @access_flags: or-ed into each address: MLX5_MTT_PERM_* or 0
 */
void shca_populate_pas(struct ib_umem *umem, size_t page_size, __be64 *pas, u64 access_flags)
{
	struct ib_block_iter biter;

	rdma_umem_for_each_dma_block(umem, &biter, page_size) {
		*pas = cpu_to_be64(rdma_block_iter_dma_address(&biter) | access_flags);
		pas++;
	}
}

/**
 * shca_log_page_size_to_bitmap() - page sizes that a log_page_size field can hold
 * @log_pgsz_bits: width of the field
 * @pgsz_shift: log2 of the page size that the value 0 stands for
 *
 * Return: bitmap of sizes in bytes, for ib_umem_find_best_pgsz().
 */
unsigned long shca_log_page_size_to_bitmap(unsigned int log_pgsz_bits, unsigned int pgsz_shift)
{
	unsigned int largest = min_t(unsigned int, BITS_PER_LONG - 1,
				     BIT(log_pgsz_bits) - 1 + pgsz_shift);

	/* Blocks below a page would only make lists longer. */
	return GENMASK(largest, max_t(unsigned int, pgsz_shift, MLX5_ADAPTER_PAGE_SHIFT));
}

/**
 * shca_umem_find_best_quantized_pgoff() - page size for a queue buffer
 * @umem: the buffer
 * @pgsz_bitmap: sizes that the context can express
 * @page_offset_bits: width of its page_offset field
 * @pgoff_bitmask: address bits that page_offset can express; 0 when the buffer
 *	has to begin on a page
 * @scale: page_offset counts in units of page size / @scale
 * @page_offset_quantized: value for the page_offset field
 *
 * A larger page makes the unit of the offset coarser, so the largest page is
 * halved until the offset of this buffer is a multiple of the unit.
 *
 * Return: page size in bytes, or 0 if the buffer cannot be described.
 */
unsigned long shca_umem_find_best_quantized_pgoff(struct ib_umem *umem, unsigned long pgsz_bitmap,
						  unsigned int page_offset_bits, u64 pgoff_bitmask,
						  unsigned int scale,
						  unsigned int *page_offset_quantized)
{
	const u64 offset_max = BIT_ULL(page_offset_bits) - 1;
	unsigned long page_size;
	u64 unit, offset;

	page_size = ib_umem_find_best_pgoff(umem, pgsz_bitmap, pgoff_bitmask);
	for (; page_size & pgsz_bitmap; page_size /= 2) {
		unit = page_size / scale;
		offset = ib_umem_dma_offset(umem, page_size);
		if (offset % unit == 0 && offset / unit <= offset_max) {
			*page_offset_quantized = offset / unit;
			return page_size;
		}
	}
	return 0;
}
