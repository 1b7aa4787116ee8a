// SPDX-License-Identifier: GPL-2.0
/*
 * Doorbell records of user space: the twin of doorbell.c.
 *
 * libmlx5 packs the records of all its queues into shared pages, so a page is
 * pinned once and counted.
 *
 * Invariants:
 *  - A record lies within one page.
 *  - Pages are pinned for write: the arm word of a CQ is written by the driver
 *    when the CQ is created.
 */
#include <linux/sched/mm.h>

#include "shca.h"

#define SHCA_DBR_SIZE	(2 * sizeof(__be32))

/**
 * struct shca_user_db_page - a pinned page with doorbell records
 * @list: in shca_ucontext.db_page_list
 * @umem: the pin
 * @user_virt: its address in @mm
 * @refcnt: records in use
 * @mm: whose page; a child after fork has its own at the same address
 */
struct shca_user_db_page {
	struct list_head list;
	struct ib_umem *umem;
	unsigned long user_virt;
	int refcnt;
	struct mm_struct *mm;
};

/**
 * shca_db_map_user() - pin a doorbell record
 * @context: context of the queue
 * @virt: address of the record in the calling process
 * @db: filled in
 *
 * Context: process. Return: 0, -EINVAL for an unaligned record, or an errno of
 * the pin. Source: libmlx5-abi 4.1.
 */
int shca_db_map_user(struct shca_ucontext *context, u64 virt, struct shca_db *db)
{
	struct shca_user_db_page *page;
	struct scatterlist *sg;
	int err = 0;

	if (!IS_ALIGNED(virt, SHCA_DBR_SIZE))
		return -EINVAL;

	mutex_lock(&context->db_page_mutex);

	list_for_each_entry(page, &context->db_page_list, list)
		if (page->mm == current->mm && page->user_virt == (virt & PAGE_MASK))
			goto found;

	page = kzalloc_obj(*page, GFP_KERNEL_ACCOUNT);
	if (!page) {
		err = -ENOMEM;
		goto unlock;
	}
	page->user_virt = virt & PAGE_MASK;
	page->umem = ib_umem_get_va(context->ibucontext.device, page->user_virt, PAGE_SIZE,
				    IB_ACCESS_LOCAL_WRITE);
	if (IS_ERR(page->umem)) {
		err = PTR_ERR(page->umem);
		kfree(page);
		goto unlock;
	}
	mmgrab(current->mm);
	page->mm = current->mm;
	list_add(&page->list, &context->db_page_list);

found:
	sg = page->umem->sgt_append.sgt.sgl;
	db->dma = sg_dma_address(sg) + offset_in_page(virt);
	db->record = page_address(sg_page(sg)) + sg->offset + offset_in_page(virt);
	db->user_page = page;
	++page->refcnt;

unlock:
	mutex_unlock(&context->db_page_mutex);
	return err;
}

/**
 * shca_db_unmap_user() - give a doorbell record back
 * @context: context of the queue
 * @db: the record
 *
 * Context: process.
 */
void shca_db_unmap_user(struct shca_ucontext *context, struct shca_db *db)
{
	struct shca_user_db_page *page = db->user_page;

	mutex_lock(&context->db_page_mutex);
	if (!--page->refcnt) {
		list_del(&page->list);
		mmdrop(page->mm);
		ib_umem_release(page->umem);
		kfree(page);
	}
	mutex_unlock(&context->db_page_mutex);
}
