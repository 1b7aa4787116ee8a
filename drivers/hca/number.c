// SPDX-License-Identifier: GPL-2.0
/*
 * Protection domains, UARs, transport domains and user contexts: numbers that other
 * objects refer to, and that cannot be freed while one does.
 *
 * Invariants:
 *  - users counts the objects that name the number. It leaves 0 only by
 *    hca_number_get(), and -1 marks a number on its way out.
 *  - A number belongs to the user context (uid) that asked for it, or to the kernel
 *    (uid 0). A user context reaches only what is its own, the kernel reaches all;
 *    a number is given back under the uid that it was asked for.
 */
#include <linux/errno.h>
#include <linux/slab.h>

#include "engine.h"

/**
 * hca_uctx_use() - an object begins to belong to a user context
 * @hca: the HCA
 * @uid: the user context, 0 for the kernel
 * @owner: filled in for hca_uctx_unuse()
 *
 * Context: any.
 * Return: false if there is no such user context.
 */
bool hca_uctx_use(struct hca *hca, u16 uid, struct hca_number **owner)
{
	*owner = uid ? hca_number_get(&hca->uctxs, uid, 0) : NULL;
	return !uid || *owner;
}

/**
 * hca_uctx_unuse() - the object is gone
 * @owner: from hca_uctx_use(), may be NULL
 *
 * Context: any.
 */
void hca_uctx_unuse(struct hca_number *owner)
{
	if (owner)
		hca_number_put(owner);
}

/**
 * hca_number_alloc() - hand out a number
 * @hca: the HCA
 * @xa: the numbers of this kind
 * @next: state of the cyclic search
 * @min: lowest number
 * @max: highest number
 * @uid: user context that it will belong to, 0 for the kernel
 * @id: filled in
 *
 * Context: process, may sleep.
 * Return: HCA_OK; BAD_RES_ERR with check 1 when there is no such user context; or
 * LIM_ERR with check 2.
 */
hca_cmd_status hca_number_alloc(struct hca *hca, struct xarray *xa, u32 *next, u32 min, u32 max,
				u16 uid, u32 *id)
{
	struct hca_number *number, *owner;

	if (!hca_uctx_use(hca, uid, &owner))
		return HCA_REFUSE(BAD_RES_ERR, 1);
	number = kzalloc_obj(*number, GFP_KERNEL_ACCOUNT);
	if (!number)
		goto unuse_uctx;
	number->uid = uid;
	number->owner = owner;
	if (xa_alloc_cyclic(xa, id, number, XA_LIMIT(min, max), next, GFP_KERNEL) < 0)
		goto free_number;
	return HCA_OK;

free_number:
	kfree(number);
unuse_uctx:
	hca_uctx_unuse(owner);
	return HCA_REFUSE(LIM_ERR, 2);
}

/**
 * hca_number_free() - take a number back
 * @xa: the numbers of this kind
 * @id: the number
 * @uid: user context that gives it back, 0 for the kernel
 *
 * Context: process.
 * Return: HCA_OK; BAD_RES_ERR with check 2 if it was not handed out to that user
 * context; RES_BUSY with check 3 while an object names it.
 */
hca_cmd_status hca_number_free(struct xarray *xa, u32 id, u16 uid)
{
	struct hca_number *number;
	hca_cmd_status status = HCA_OK;

	rcu_read_lock();
	number = xa_load(xa, id);
	if (!number || number->uid != uid)
		status = HCA_REFUSE(BAD_RES_ERR, 2);
	else if (atomic_cmpxchg(&number->users, 0, -1) != 0)
		status = HCA_REFUSE(RES_BUSY, 3);
	rcu_read_unlock();
	if (status)
		return status;
	xa_erase(xa, id);
	hca_uctx_unuse(number->owner);
	kfree_rcu(number, rcu);
	return HCA_OK;
}

/**
 * hca_number_get() - an object begins to name a number
 * @xa: the numbers of this kind
 * @id: the number
 * @uid: user context that the object belongs to, 0 for the kernel
 *
 * Context: any.
 * Return: the number, for hca_number_put(), or NULL if it was not handed out, or to
 * another user context.
 */
struct hca_number *hca_number_get(struct xarray *xa, u32 id, u16 uid)
{
	struct hca_number *number;

	rcu_read_lock();
	number = xa_load(xa, id);
	if (number && uid && number->uid != uid)
		number = NULL;
	if (number && !atomic_inc_unless_negative(&number->users))
		number = NULL;
	rcu_read_unlock();
	return number;
}

/**
 * hca_number_put() - an object ceases to name a number
 * @number: from hca_number_get()
 *
 * Context: any.
 */
void hca_number_put(struct hca_number *number)
{
	atomic_dec(&number->users);
}

/**
 * hca_numbers_destroy() - power off: forget all numbers
 * @xa: the numbers of this kind
 */
void hca_numbers_destroy(struct xarray *xa)
{
	struct hca_number *number;
	unsigned long id;

	xa_for_each(xa, id, number)
		kfree(number);
	xa_destroy(xa);
}
