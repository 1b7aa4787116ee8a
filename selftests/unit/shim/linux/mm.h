/* SPDX-License-Identifier: GPL-2.0 */
/* Page geometry. The engine knows no struct page. */
#ifndef SHIM_LINUX_MM_H
#define SHIM_LINUX_MM_H

#include <linux/kernel.h>
#include <linux/slab.h>

#define PAGE_ALIGN(x)		ALIGN(x, PAGE_SIZE)
#define PAGE_ALIGN_DOWN(x)	ALIGN_DOWN(x, PAGE_SIZE)
#define PAGE_ALIGNED(x)		IS_ALIGNED((unsigned long)(x), PAGE_SIZE)
#define offset_in_page(p)	((unsigned long)(p) & ~PAGE_MASK)
#define PFN_UP(x)		(((x) + PAGE_SIZE - 1) >> PAGE_SHIFT)
#define PFN_DOWN(x)		((x) >> PAGE_SHIFT)
#define DMA_MAPPING_ERROR	(~(dma_addr_t)0)

static inline int get_order(unsigned long size)
{
	size = (size - 1) >> PAGE_SHIFT;
	return size ? 64 - __builtin_clzl(size) : 0;
}

#endif
