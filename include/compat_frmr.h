/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pools of free memory keys: those of the RDMA core (rdma/frmr_pools.h), or what
 * stands for them on kernels whose core has none (drivers/ib/compat/frmr.c).
 *
 * Invariants:
 *  - To the driver both behave alike: a pool hands out keys with room for at least
 *    as many blocks as asked for, and for less than twice as many; a key that nobody
 *    takes for a minute or two is destroyed.
 */
#ifndef SOFTHCA_COMPAT_FRMR_H
#define SOFTHCA_COMPAT_FRMR_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

#ifdef HAVE_FRMR

/* The core keeps its part in struct ib_device and struct ib_mr. */
struct compat_frmr_pools { };
struct compat_frmr { };

#define compat_frmr(mr)			(&(mr)->ibmr.frmr)
#define compat_frmr_pools_init(dev, ops) ib_frmr_pools_init(&(dev)->ib_dev, ops)
#define compat_frmr_pools_cleanup(dev)	ib_frmr_pools_cleanup(&(dev)->ib_dev)
#define compat_frmr_pool_pop(dev, mr)	ib_frmr_pool_pop(&(dev)->ib_dev, &(mr)->ibmr)
#define compat_frmr_pool_push(dev, mr)	ib_frmr_pool_push(&(dev)->ib_dev, &(mr)->ibmr)
#define compat_frmr_pool_drop(mr)	ib_frmr_pool_drop(&(mr)->ibmr)

#else

/* As in rdma/frmr_pools.h */
struct ib_frmr_key {
	u64 vendor_key;
	u64 kernel_vendor_key;
	size_t num_dma_blocks;
	int access_flags;
	u8 ats:1;
};

struct ib_frmr_pool_ops {
	int (*create_frmrs)(struct ib_device *device, struct ib_frmr_key *key, u32 *handles,
			    u32 count);
	void (*destroy_frmrs)(struct ib_device *device, u32 *handles, u32 count);
	int (*build_key)(struct ib_device *device, const struct ib_frmr_key *in,
			 struct ib_frmr_key *out);
};

/* A pool for each power of two of blocks, up to what the largest table holds, and vendor_key */
#define COMPAT_FRMR_ORDERS	32
#define COMPAT_FRMR_POOLS	(2 * COMPAT_FRMR_ORDERS)

/**
 * struct compat_frmr_pools - the pools of a device
 * @device: the device
 * @ops: how keys are made and destroyed
 * @lock: protects @free
 * @free: free keys by vendor_key and log2 of their blocks, the one pushed last first
 * @aging: destroys the keys that were not taken for long
 */
struct compat_frmr_pools {
	struct ib_device *device;
	const struct ib_frmr_pool_ops *ops;
	spinlock_t lock;
	struct list_head free[COMPAT_FRMR_POOLS];
	struct delayed_work aging;
};

/**
 * struct compat_frmr - which key a region has from a pool
 * @pool: the pools, or NULL
 * @key: what was asked for; num_dma_blocks becomes what the key has room for
 * @handle: the key
 */
struct compat_frmr {
	struct compat_frmr_pools *pool;
	struct ib_frmr_key key;
	u32 handle;
};

int compat_frmr_init(struct compat_frmr_pools *pools, struct ib_device *device,
		     const struct ib_frmr_pool_ops *ops);
void compat_frmr_cleanup(struct compat_frmr_pools *pools);
int compat_frmr_pop(struct compat_frmr_pools *pools, struct compat_frmr *frmr);
void compat_frmr_push(struct compat_frmr *frmr);

#define compat_frmr(mr)			(&(mr)->frmr)
#define compat_frmr_pools_init(dev, ops) \
	compat_frmr_init(&(dev)->frmr_pools, &(dev)->ib_dev, ops)
#define compat_frmr_pools_cleanup(dev)	compat_frmr_cleanup(&(dev)->frmr_pools)
#define compat_frmr_pool_pop(dev, mr)	compat_frmr_pop(&(dev)->frmr_pools, &(mr)->frmr)
#define compat_frmr_pool_push(dev, mr)	compat_frmr_push(&(mr)->frmr)
/* Here nobody counts the keys in use. */
#define compat_frmr_pool_drop(mr)	do { } while (0)

#endif

#endif /* SOFTHCA_COMPAT_FRMR_H */
