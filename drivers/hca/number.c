// SPDX-License-Identifier: GPL-2.0
/*
 * Protection domains, UARs and transport domains: numbers that other objects
 * refer to, and that cannot be freed while one does.
 *
 * Invariants:
 *  - users counts the objects that name the number. It leaves 0 only by
 *    hca_number_get(), and -1 marks a number on its way out.
 */
#include <linux/errno.h>
#include <linux/slab.h>

#include "engine.h"

/**
 * hca_number_alloc() - hand out a number
 * @xa: the numbers of this kind
 * @next: state of the cyclic search
 * @min: lowest number
 * @max: highest number
 * @id: filled in
 *
 * Context: process, may sleep.
 * Return: HCA_OK, or LIM_ERR with check 2.
 */
hca_cmd_status hca_number_alloc(struct xarray *xa, u32 *next, u32 min, u32 max, u32 *id)
{
	struct hca_number *number;

	number = kzalloc_obj(*number);
	if (!number)
		return HCA_REFUSE(LIM_ERR, 2);
	if (xa_alloc_cyclic(xa, id, number, XA_LIMIT(min, max), next, GFP_KERNEL) < 0) {
		kfree(number);
		return HCA_REFUSE(LIM_ERR, 2);
	}
	return HCA_OK;
}

/**
 * hca_number_free() - take a number back
 * @xa: the numbers of this kind
 * @id: the number
 *
 * Context: process.
 * Return: HCA_OK; BAD_RES_ERR with check 2 if it was not handed out; RES_BUSY
 * with check 3 while an object names it.
 */
hca_cmd_status hca_number_free(struct xarray *xa, u32 id)
{
	struct hca_number *number;
	hca_cmd_status status = HCA_OK;

	rcu_read_lock();
	number = xa_load(xa, id);
	if (!number)
		status = HCA_REFUSE(BAD_RES_ERR, 2);
	else if (atomic_cmpxchg(&number->users, 0, -1) != 0)
		status = HCA_REFUSE(RES_BUSY, 3);
	rcu_read_unlock();
	if (status)
		return status;
	xa_erase(xa, id);
	kfree_rcu(number, rcu);
	return HCA_OK;
}

/**
 * hca_number_get() - an object begins to name a number
 * @xa: the numbers of this kind
 * @id: the number
 *
 * Context: any.
 * Return: the number, for hca_number_put(), or NULL if it was not handed out.
 */
struct hca_number *hca_number_get(struct xarray *xa, u32 id)
{
	struct hca_number *number;

	rcu_read_lock();
	number = xa_load(xa, id);
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
