// SPDX-License-Identifier: GPL-2.0
/*
 * The bus between host memory and the HCA: what a PCI root complex does for a
 * real one. DMA model (b) of kernel-api section 3: a platform device whose DMA
 * addresses are physical addresses.
 *
 * Invariants:
 *  - An address from the HCA is not trusted: only memory that has a struct page
 *    is ever answered.
 *  - A device whose DMA addresses are not the memory itself (bounce buffers, an
 *    IOMMU, an encrypted guest) is refused at creation.
 */
#include <linux/cc_platform.h>
#include <linux/dma-direct.h>
#include <linux/dma-mapping.h>

#include "shca.h"

/* The memory map has no holes in an aligned block of this size. */
#define SHCA_BUS_BLOCK	SZ_2M

static void *shca_bus_map(void *host, u64 dma, size_t len)
{
	struct shca_dev *dev = host;
	phys_addr_t first = dma_to_phys(&dev->pdev->dev, dma);
	phys_addr_t last = first + len - 1, at = first;

	/* One piece is at most as long as a block: it ends in the same one, or in the next. */
	while (pfn_valid(PHYS_PFN(at))) {
		if ((at ^ last) < SHCA_BUS_BLOCK)
			return phys_to_virt(first);
		at = last;
	}
	return NULL;
}

const struct hca_host_ops shca_host_ops = {
	.bus_map = shca_bus_map,
	.irq = shca_irq,
};

/**
 * shca_bus_selftest() - is a DMA address of this machine the memory itself?
 * @dev: the device; its platform device exists
 *
 * Context: process.
 * Return: 0, -EOPNOTSUPP when it is not, or -ENOMEM. Source: kernel-api 3.3.
 */
int shca_bus_selftest(struct shca_dev *dev)
{
	struct device *device = &dev->pdev->dev;
	struct page *page;
	dma_addr_t dma;
	int err = 0;

	if (cc_platform_has(CC_ATTR_GUEST_MEM_ENCRYPT))
		return -EOPNOTSUPP;

	page = alloc_page(GFP_KERNEL);
	if (!page)
		return -ENOMEM;
	dma = dma_map_page(device, page, 0, PAGE_SIZE, DMA_BIDIRECTIONAL);
	if (dma_mapping_error(device, dma)) {
		err = -EOPNOTSUPP;
		goto free_page;
	}

	if (dma_need_sync(device, dma) || dma_to_phys(device, dma) != page_to_phys(page) ||
	    shca_bus_map(dev, dma, PAGE_SIZE) != page_address(page))
		err = -EOPNOTSUPP;

	dma_unmap_page(device, dma, PAGE_SIZE, DMA_BIDIRECTIONAL);
free_page:
	__free_page(page);
	return err;
}
