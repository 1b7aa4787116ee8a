// SPDX-License-Identifier: GPL-2.0
/*
 * MEMIC: memory of the HCA itself, in BAR 0, that a process can map and an MKey of
 * mode MEMIC can name (HM 4.6, 13.2).
 *
 * Invariants:
 *  - An allocation is a run of granules of 64 bytes; runs do not overlap. What is
 *    handed out is zero.
 *  - A key lies in one allocation of its own user context or the kernel's, and the
 *    allocation cannot go while the key exists.
 *  - The memory is there from power on to power off, so an access needs no
 *    permission of the bus.
 */
#include <linux/bitmap.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "engine.h"

#define HCA_MEMIC_GRANULES	(HCA_MEMIC_SIZE >> HCA_LOG_MEMIC_GRANULE)
#define HCA_MEMIC_GRANULE	(1UL << HCA_LOG_MEMIC_GRANULE)

/* An allocation. */
struct hca_memic {
	struct list_head entry;
	u64 start;
	u32 size;
	u16 uid;
	struct hca_number *owner;
	unsigned int users;
};

/**
 * hca_memic_init() - make the device memory
 * @hca: the HCA
 *
 * Context: process, may sleep.
 * Return: 0 or -ENOMEM.
 */
int hca_memic_init(struct hca *hca)
{
	struct hca_memics *memic = &hca->memic;

	memic->va = kzalloc(HCA_MEMIC_SIZE, GFP_KERNEL);
	if (!memic->va)
		return -ENOMEM;
	memic->used = bitmap_zalloc(HCA_MEMIC_GRANULES, GFP_KERNEL);
	if (!memic->used)
		goto free_memory;
	mutex_init(&memic->lock);
	INIT_LIST_HEAD(&memic->list);
	return 0;

free_memory:
	kfree(memic->va);
	return -ENOMEM;
}

/**
 * hca_memic_destroy() - the device memory goes, whatever is allocated
 * @hca: the HCA; no key is left
 */
void hca_memic_destroy(struct hca *hca)
{
	struct hca_memics *memic = &hca->memic;
	struct hca_memic *m, *next;

	list_for_each_entry_safe(m, next, &memic->list, entry) {
		hca_uctx_unuse(m->owner);
		kfree(m);
	}
	mutex_destroy(&memic->lock);
	bitmap_free(memic->used);
	kfree(memic->va);
}

void *hca_bar(struct hca *hca, size_t *size)
{
	*size = HCA_MEMIC_SIZE;
	return hca->memic.va;
}

/**
 * hca_memic_use() - a key begins to name device memory
 * @hca: the HCA
 * @start: offset of its first byte in BAR 0
 * @len: bytes
 * @uid: user context of the key, 0 for the kernel
 *
 * Context: process, may sleep.
 * Return: the allocation, for hca_memic_unuse(), or NULL if the range does not lie in
 * one that the user context may name.
 */
struct hca_memic *hca_memic_use(struct hca *hca, u64 start, u64 len, u16 uid)
{
	struct hca_memics *memic = &hca->memic;
	struct hca_memic *m, *found = NULL;

	mutex_lock(&memic->lock);
	list_for_each_entry(m, &memic->list, entry) {
		if (start < m->start || start - m->start > m->size ||
		    len > m->size - (start - m->start))
			continue;
		if (!uid || m->uid == uid) {
			m->users++;
			found = m;
		}
		break;
	}
	mutex_unlock(&memic->lock);
	return found;
}

/**
 * hca_memic_unuse() - the key is gone
 * @hca: the HCA
 * @m: from hca_memic_use()
 *
 * Context: process, may sleep.
 */
void hca_memic_unuse(struct hca *hca, struct hca_memic *m)
{
	mutex_lock(&hca->memic.lock);
	m->users--;
	mutex_unlock(&hca->memic.lock);
}

hca_cmd_status hca_cmd_alloc_memic(struct hca *hca, const void *in, size_t inlen,
				   void *out, size_t outlen)
{
	unsigned int log_align = MLX5_GET(alloc_memic_in, in, log_memic_addr_alignment);
	u64 range = MLX5_GET64(alloc_memic_in, in, range_start_addr);
	u32 range_size = MLX5_GET(alloc_memic_in, in, range_size);
	u32 size = MLX5_GET(alloc_memic_in, in, memic_size);
	u16 uid = MLX5_GET(general_obj_in_cmd_hdr, in, uid);
	struct hca_memics *memic = &hca->memic;
	hca_cmd_status status;
	unsigned long at, nr;
	struct hca_memic *m;

	if (MLX5_GET(alloc_memic_in, in, op_mod))
		return HCA_REFUSE(BAD_OP_ERR, 1);
	if (!size || size & (HCA_MEMIC_GRANULE - 1))
		return HCA_REFUSE(BAD_PARAM_ERR, 2);
	if (log_align > HCA_LOG_MAX_MEMIC_ALIGN)
		return HCA_REFUSE(BAD_PARAM_ERR, 3);
	if (range & (HCA_MEMIC_GRANULE - 1) || range > HCA_MEMIC_SIZE ||
	    range_size > HCA_MEMIC_SIZE - range || size > range_size)
		return HCA_REFUSE(BAD_PARAM_ERR, 4);
	m = kzalloc_obj(*m, GFP_KERNEL_ACCOUNT);
	if (!m)
		return HCA_REFUSE(LIM_ERR, 5);
	if (!hca_uctx_use(hca, uid, &m->owner)) {
		status = HCA_REFUSE(BAD_RES_ERR, 6);
		goto free_m;
	}
	m->uid = uid;
	m->size = size;
	nr = size >> HCA_LOG_MEMIC_GRANULE;

	mutex_lock(&memic->lock);
	at = bitmap_find_next_zero_area(memic->used,
					(range + range_size) >> HCA_LOG_MEMIC_GRANULE,
					range >> HCA_LOG_MEMIC_GRANULE, nr,
					(1UL << log_align) - 1);
	if (at + nr > (range + range_size) >> HCA_LOG_MEMIC_GRANULE) {
		mutex_unlock(&memic->lock);
		/* The host tries the next range. */
		status = HCA_REFUSE(NO_RES_ERR, 7);
		goto unuse_uctx;
	}
	bitmap_set(memic->used, at, nr);
	m->start = (u64)at << HCA_LOG_MEMIC_GRANULE;
	memset((u8 *)memic->va + m->start, 0, size);
	list_add(&m->entry, &memic->list);
	mutex_unlock(&memic->lock);
	MLX5_SET64(alloc_memic_out, out, memic_start_addr, m->start);
	return HCA_OK;

unuse_uctx:
	hca_uctx_unuse(m->owner);
free_m:
	kfree(m);
	return status;
}

hca_cmd_status hca_cmd_dealloc_memic(struct hca *hca, const void *in, size_t inlen,
				     void *out, size_t outlen)
{
	u64 start = MLX5_GET64(dealloc_memic_in, in, memic_start_addr);
	u32 size = MLX5_GET(dealloc_memic_in, in, memic_size);
	u16 uid = MLX5_GET(general_obj_in_cmd_hdr, in, uid);
	struct hca_memics *memic = &hca->memic;
	hca_cmd_status status = HCA_REFUSE(BAD_RES_ERR, 2);
	struct hca_memic *m;

	if (MLX5_GET(dealloc_memic_in, in, op_mod))
		return HCA_REFUSE(BAD_OP_ERR, 1);
	mutex_lock(&memic->lock);
	list_for_each_entry(m, &memic->list, entry) {
		if (m->start != start)
			continue;
		if (m->uid != uid || m->size != size)
			break;
		status = m->users ? HCA_REFUSE(RES_BUSY, 3) : HCA_OK;
		break;
	}
	if (!status) {
		list_del(&m->entry);
		bitmap_clear(memic->used, start >> HCA_LOG_MEMIC_GRANULE,
			     size >> HCA_LOG_MEMIC_GRANULE);
	}
	mutex_unlock(&memic->lock);
	if (status)
		return status;
	hca_uctx_unuse(m->owner);
	kfree(m);
	return HCA_OK;
}
