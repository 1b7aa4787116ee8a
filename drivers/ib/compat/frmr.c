// SPDX-License-Identifier: GPL-2.0
/*
 * Pools of free memory keys for kernels whose RDMA core has none: the smallest thing
 * that behaves as core/frmr_pools.c does towards the driver. Only built there.
 *
 * Invariants:
 *  - A pool holds keys for one power of two of blocks, so that a key has room for less
 *    than twice what is asked for. Only vendor_key, 0 or 1, tells keys apart besides: the
 *    driver leaves the rest of the pool key zero.
 *  - The lists are sorted by age, so the oldest key of a pool is its last.
 */
#include <linux/jiffies.h>
#include <linux/log2.h>
#include <linux/slab.h>
#include <compat_frmr.h>

#define COMPAT_FRMR_AGING_PERIOD	(60 * HZ)

/**
 * struct compat_frmr_handle - a free key
 * @entry: in its pool
 * @handle: the key
 * @since: when it became free, in jiffies
 */
struct compat_frmr_handle {
	struct list_head entry;
	u32 handle;
	unsigned long since;
};

static unsigned int compat_frmr_pool(const struct ib_frmr_key *key)
{
	return order_base_2(key->num_dma_blocks) + (key->vendor_key ? COMPAT_FRMR_ORDERS : 0);
}

/* Destroy the keys that have been free for @age or longer. Returns whether any are left. */
static bool compat_frmr_age(struct compat_frmr_pools *pools, unsigned long age)
{
	struct compat_frmr_handle *free, *next;
	LIST_HEAD(old);
	bool left = false;
	int i;

	spin_lock(&pools->lock);
	for (i = 0; i < COMPAT_FRMR_POOLS; i++) {
		list_for_each_entry_safe_reverse(free, next, &pools->free[i], entry) {
			if (time_before(jiffies, free->since + age))
				break;
			list_move(&free->entry, &old);
		}
		left |= !list_empty(&pools->free[i]);
	}
	spin_unlock(&pools->lock);

	list_for_each_entry_safe(free, next, &old, entry) {
		pools->ops->destroy_frmrs(pools->device, &free->handle, 1);
		kfree(free);
	}
	return left;
}

static void compat_frmr_aging_work(struct work_struct *work)
{
	struct compat_frmr_pools *pools =
		container_of(to_delayed_work(work), struct compat_frmr_pools, aging);

	if (compat_frmr_age(pools, COMPAT_FRMR_AGING_PERIOD))
		schedule_delayed_work(&pools->aging, COMPAT_FRMR_AGING_PERIOD);
}

/**
 * compat_frmr_init() - prepare empty pools
 * @pools: the pools
 * @device: the device
 * @ops: how keys are made and destroyed
 *
 * Context: process. Return: 0.
 */
int compat_frmr_init(struct compat_frmr_pools *pools, struct ib_device *device,
		     const struct ib_frmr_pool_ops *ops)
{
	int i;

	pools->device = device;
	pools->ops = ops;
	spin_lock_init(&pools->lock);
	for (i = 0; i < COMPAT_FRMR_POOLS; i++)
		INIT_LIST_HEAD(&pools->free[i]);
	INIT_DELAYED_WORK(&pools->aging, compat_frmr_aging_work);
	return 0;
}

/**
 * compat_frmr_cleanup() - destroy all keys in the pools
 * @pools: the pools; no key is taken or given back any more
 *
 * Context: process, may sleep.
 */
void compat_frmr_cleanup(struct compat_frmr_pools *pools)
{
	cancel_delayed_work_sync(&pools->aging);
	compat_frmr_age(pools, 0);
}

/**
 * compat_frmr_pop() - take a free key, or make one
 * @pools: the pools
 * @frmr: says how many blocks, receives the key
 *
 * Context: process, may sleep. Return: 0 or the errno of its creation.
 */
int compat_frmr_pop(struct compat_frmr_pools *pools, struct compat_frmr *frmr)
{
	unsigned int order = order_base_2(frmr->key.num_dma_blocks);
	struct compat_frmr_handle *free;
	int err = 0;

	if (order >= COMPAT_FRMR_ORDERS)
		return -EINVAL;
	frmr->key.num_dma_blocks = BIT(order);

	spin_lock(&pools->lock);
	free = list_first_entry_or_null(&pools->free[compat_frmr_pool(&frmr->key)],
					struct compat_frmr_handle, entry);
	if (free)
		list_del(&free->entry);
	spin_unlock(&pools->lock);

	if (free) {
		frmr->handle = free->handle;
		kfree(free);
	} else {
		err = pools->ops->create_frmrs(pools->device, &frmr->key, &frmr->handle, 1);
	}
	if (!err)
		frmr->pool = pools;
	return err;
}

/**
 * compat_frmr_push() - give a key back
 * @frmr: the key, which is free
 *
 * Context: process, may sleep.
 */
void compat_frmr_push(struct compat_frmr *frmr)
{
	struct compat_frmr_pools *pools = frmr->pool;
	struct compat_frmr_handle *free;

	free = kmalloc_obj(*free);
	if (!free) {
		pools->ops->destroy_frmrs(pools->device, &frmr->handle, 1);
		return;
	}
	free->handle = frmr->handle;
	free->since = jiffies;
	spin_lock(&pools->lock);
	list_add(&free->entry, &pools->free[compat_frmr_pool(&frmr->key)]);
	spin_unlock(&pools->lock);
	schedule_delayed_work(&pools->aging, COMPAT_FRMR_AGING_PERIOD);
}
