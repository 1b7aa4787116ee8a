// SPDX-License-Identifier: GPL-2.0
/*
 * Firmware pages: the memory that the HCA keeps its contexts and tables in.
 * The twin of core/pagealloc.c; HM 3.
 *
 * Invariants:
 *  - A page is in dev->fw_pages from before it is given until after it has been
 *    taken back; only then is it unmapped and freed.
 *  - DMA address 0 is never given.
 *  - Taking pages back needs no memory: it is what happens when there is none.
 *  - Only one request of the HCA is outstanding, so one work item is enough.
 */
#include <linux/dma-mapping.h>
#include <linux/sizes.h>

#include "shca.h"

enum {
	SHCA_PAGES_CANT_GIVE	= 0,
	SHCA_PAGES_GIVE		= 1,
	SHCA_PAGES_TAKE		= 2,
};

enum {
	SHCA_BOOT_PAGES		= 1,
	SHCA_INIT_PAGES		= 2,
};

/* What one command takes back: few enough for an answer on the stack. */
#define SHCA_RECLAIM_BATCH	32

static int shca_cmd_query_pages(struct shca_dev *dev, s32 *npages, bool boot)
{
	u32 out[MLX5_ST_SZ_DW(query_pages_out)];
	u32 in[MLX5_ST_SZ_DW(query_pages_in)] = {};
	int err;

	MLX5_SET(query_pages_in, in, opcode, MLX5_CMD_OP_QUERY_PAGES);
	MLX5_SET(query_pages_in, in, op_mod, boot ? SHCA_BOOT_PAGES : SHCA_INIT_PAGES);
	err = shca_cmd_exec(dev, in, sizeof(in), out, sizeof(out));
	if (!err)
		*npages = MLX5_GET(query_pages_out, out, num_pages);
	return err;
}

static int shca_alloc_system_page(struct shca_dev *dev, dma_addr_t *addr)
{
	struct device *device = &dev->pdev->dev;
	dma_addr_t zero_addr = DMA_MAPPING_ERROR;
	struct page *zero_page = NULL;
	struct page *page;
	int err;

again:
	page = alloc_page(GFP_KERNEL | __GFP_RETRY_MAYFAIL | __GFP_NOWARN);
	if (!page) {
		err = -ENOMEM;
		goto free_zero;
	}
	*addr = dma_map_page(device, page, 0, PAGE_SIZE, DMA_BIDIRECTIONAL);
	if (dma_mapping_error(device, *addr)) {
		err = -ENOMEM;
		goto free_page;
	}
	if (*addr == 0 && !zero_page) {
		/* To the HCA, address 0 means no page: hold it back and map another. */
		zero_page = page;
		zero_addr = *addr;
		goto again;
	}

	err = xa_err(xa_store(&dev->fw_pages, *addr >> PAGE_SHIFT, page, GFP_KERNEL));
	if (err)
		goto unmap;
	atomic_inc(&dev->fw_page_count);
	goto free_zero;

unmap:
	dma_unmap_page(device, *addr, PAGE_SIZE, DMA_BIDIRECTIONAL);
free_page:
	__free_page(page);
free_zero:
	if (zero_page) {
		dma_unmap_page(device, zero_addr, PAGE_SIZE, DMA_BIDIRECTIONAL);
		__free_page(zero_page);
	}
	return err;
}

static void shca_free_fwp(struct shca_dev *dev, dma_addr_t addr)
{
	struct page *page = xa_erase(&dev->fw_pages, addr >> PAGE_SHIFT);

	if (!page) {
		dev_warn(&dev->pdev->dev, "HCA returned a page that it was not given\n");
		return;
	}
	dma_unmap_page(&dev->pdev->dev, addr, PAGE_SIZE, DMA_BIDIRECTIONAL);
	__free_page(page);
	atomic_dec(&dev->fw_page_count);
}

static void shca_page_notify_fail(struct shca_dev *dev)
{
	u32 out[MLX5_ST_SZ_DW(manage_pages_out)];
	u32 in[MLX5_ST_SZ_DW(manage_pages_in)] = {};

	MLX5_SET(manage_pages_in, in, opcode, MLX5_CMD_OP_MANAGE_PAGES);
	MLX5_SET(manage_pages_in, in, op_mod, SHCA_PAGES_CANT_GIVE);
	if (shca_cmd_exec(dev, in, sizeof(in), out, sizeof(out)))
		dev_warn(&dev->pdev->dev, "HCA did not hear that there are no pages\n");
}

static int shca_give_pages(struct shca_dev *dev, unsigned int npages, bool notify_fail)
{
	size_t inlen = MLX5_ST_SZ_BYTES(manage_pages_in) +
		       npages * MLX5_FLD_SZ_BYTES(manage_pages_in, pas[0]);
	u32 out[MLX5_ST_SZ_DW(manage_pages_out)];
	dma_addr_t addr;
	unsigned int i;
	u32 *in;
	int err;

	/* One table may ask for more than there is: that is no reason to kill anybody. */
	err = -ENOMEM;
	if (npages > si_mem_available() / 2)
		goto notify;
	in = kvzalloc(inlen, GFP_KERNEL | __GFP_NOWARN);
	if (!in)
		goto notify;

	for (i = 0; i < npages; i++) {
		err = shca_alloc_system_page(dev, &addr);
		if (err)
			goto free_pages;
		MLX5_ARRAY_SET64(manage_pages_in, in, pas, i, addr);
	}

	MLX5_SET(manage_pages_in, in, opcode, MLX5_CMD_OP_MANAGE_PAGES);
	MLX5_SET(manage_pages_in, in, op_mod, SHCA_PAGES_GIVE);
	MLX5_SET(manage_pages_in, in, input_num_entries, npages);
	err = shca_cmd_exec(dev, in, inlen, out, sizeof(out));
	if (err)
		goto free_pages;

	kvfree(in);
	return 0;

free_pages:
	while (i--)
		shca_free_fwp(dev, MLX5_GET64(manage_pages_in, in, pas[i]));
	kvfree(in);
notify:
	if (notify_fail)
		shca_page_notify_fail(dev);
	return err;
}

/* Takes back up to @npages, and fewer where the HCA has no more to give. */
static void shca_reclaim_pages(struct shca_dev *dev, unsigned int npages)
{
	u32 out[MLX5_ST_SZ_DW(manage_pages_out) +
		SHCA_RECLAIM_BATCH * sizeof(u64) / sizeof(u32)];
	u32 in[MLX5_ST_SZ_DW(manage_pages_in)] = {};
	unsigned int batch, i, n;

	MLX5_SET(manage_pages_in, in, opcode, MLX5_CMD_OP_MANAGE_PAGES);
	MLX5_SET(manage_pages_in, in, op_mod, SHCA_PAGES_TAKE);
	for (; npages; npages -= n) {
		batch = min(npages, SHCA_RECLAIM_BATCH);
		MLX5_SET(manage_pages_in, in, input_num_entries, batch);
		if (shca_cmd_exec(dev, in, sizeof(in), out, sizeof(out)))
			return;
		n = MLX5_GET(manage_pages_out, out, output_num_entries);
		if (!n || n > batch)
			return;
		for (i = 0; i < n; i++)
			shca_free_fwp(dev, MLX5_GET64(manage_pages_out, out, pas[i]));
	}
}

static void shca_pages_work_handler(struct work_struct *work)
{
	struct shca_dev *dev = container_of(work, struct shca_dev, page_req);
	int npages = READ_ONCE(dev->page_req_npages);

	if (npages > 0)
		shca_give_pages(dev, npages, true);
	else if (npages < 0)
		shca_reclaim_pages(dev, -npages);
}

/**
 * shca_page_request() - the HCA asks for pages, or offers some back
 * @dev: the device
 * @npages: how many; negative: to be taken back
 *
 * Context: any.
 */
void shca_page_request(struct shca_dev *dev, int npages)
{
	WRITE_ONCE(dev->page_req_npages, npages);
	queue_work(dev->pg_wq, &dev->page_req);
}

/**
 * shca_satisfy_startup_pages() - give what QUERY_PAGES asks for
 * @dev: the device
 * @boot: true for the boot pages, false for the init pages
 *
 * Context: process. Return: 0 or an errno; nothing is given then.
 */
int shca_satisfy_startup_pages(struct shca_dev *dev, bool boot)
{
	s32 npages;
	int err;

	err = shca_cmd_query_pages(dev, &npages, boot);
	if (err || npages <= 0)
		return err;
	return shca_give_pages(dev, npages, false);
}

/**
 * shca_reclaim_startup_pages() - take all pages back, after TEARDOWN_HCA
 * @dev: the device
 *
 * Context: process.
 */
void shca_reclaim_startup_pages(struct shca_dev *dev)
{
	shca_reclaim_pages(dev, atomic_read(&dev->fw_page_count));
}

/**
 * shca_pagealloc_init() - prepare the page list
 * @dev: the device
 */
void shca_pagealloc_init(struct shca_dev *dev)
{
	xa_init(&dev->fw_pages);
	INIT_WORK(&dev->page_req, shca_pages_work_handler);
}

/**
 * shca_pagealloc_cleanup() - free what the HCA did not return
 * @dev: the device; hca_destroy() is done, so nobody uses the pages
 *
 * Context: process.
 */
void shca_pagealloc_cleanup(struct shca_dev *dev)
{
	unsigned long index;
	struct page *page;

	if (atomic_read(&dev->fw_page_count))
		dev_warn(&dev->pdev->dev, "HCA kept %d pages\n",
			 atomic_read(&dev->fw_page_count));
	xa_for_each(&dev->fw_pages, index, page)
		shca_free_fwp(dev, (dma_addr_t)index << PAGE_SHIFT);
	xa_destroy(&dev->fw_pages);
}
