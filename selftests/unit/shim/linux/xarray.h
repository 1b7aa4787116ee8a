/* SPDX-License-Identifier: GPL-2.0 */
/*
 * XArray, IDA and the one use of the maple tree (allocating ranges). The XArray is a 64-way tree that knows which
 * subtrees are full, so a free index is found in the height of the tree. Stores take the array's lock as the kernel's do.
 */
#ifndef SHIM_LINUX_XARRAY_H
#define SHIM_LINUX_XARRAY_H

#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/rcupdate.h>

struct xa_node;

struct xarray {
	spinlock_t xa_lock;
	gfp_t xa_flags;
	unsigned int height;	/* 0: empty */
	struct xa_node *root;
};

struct xa_limit {
	u32 max;
	u32 min;
};

#define XA_LIMIT(lo, hi)	((struct xa_limit){ .min = (lo), .max = (hi) })
#define xa_limit_32b		XA_LIMIT(0, UINT_MAX)
#define xa_limit_31b		XA_LIMIT(0, INT_MAX)
#define xa_limit_16b		XA_LIMIT(0, USHRT_MAX)
#define XA_FLAGS_LOCK_IRQ	1u
#define XA_FLAGS_LOCK_BH	2u
#define XA_FLAGS_ALLOC		4u
#define XA_FLAGS_ALLOC1		(8u | XA_FLAGS_ALLOC)
#define XA_ZERO_ENTRY		((void *)(257UL << 2 | 2))
static inline void *xa_mk_value(unsigned long v) { return (void *)(v << 1 | 1); }
static inline unsigned long xa_to_value(const void *p) { return (unsigned long)p >> 1; }
static inline bool xa_is_value(const void *p) { return (unsigned long)p & 1; }
static inline bool xa_is_err(const void *p) { return (unsigned long)p >= (unsigned long)-4095L << 2 && ((unsigned long)p & 3) == 2; }
static inline int xa_err(void *p) { return xa_is_err(p) ? (int)((long)p >> 2) : 0; }
#define XA_ERROR(e)		((void *)(((unsigned long)(e) << 2) | 2))

#define XARRAY_INIT(n, f)	{ .xa_lock = __SPIN_LOCK_UNLOCKED((n).xa_lock), .xa_flags = (f) }
#define DEFINE_XARRAY_FLAGS(n, f) struct xarray n = XARRAY_INIT(n, f)
#define DEFINE_XARRAY(n)	DEFINE_XARRAY_FLAGS(n, 0)
#define DEFINE_XARRAY_ALLOC(n)	DEFINE_XARRAY_FLAGS(n, XA_FLAGS_ALLOC)
#define xa_init_flags(x, f)	do { *(x) = (struct xarray){ .xa_flags = (f) }; spin_lock_init(&(x)->xa_lock); } while (0)
#define xa_init(x)		xa_init_flags(x, 0)
#define xa_empty(x)		(!(x)->root)
#define xa_lock(x)		spin_lock(&(x)->xa_lock)
#define xa_unlock(x)		spin_unlock(&(x)->xa_lock)
#define xa_trylock(x)		spin_trylock(&(x)->xa_lock)
#define xa_lock_bh(x)		spin_lock_bh(&(x)->xa_lock)
#define xa_unlock_bh(x)		spin_unlock_bh(&(x)->xa_lock)
#define xa_lock_irq(x)		spin_lock_irq(&(x)->xa_lock)
#define xa_unlock_irq(x)	spin_unlock_irq(&(x)->xa_lock)
#define xa_lock_irqsave(x, f)	spin_lock_irqsave(&(x)->xa_lock, f)
#define xa_unlock_irqrestore(x, f) spin_unlock_irqrestore(&(x)->xa_lock, f)

void *xa_load(struct xarray *xa, unsigned long index);
void *xa_find(struct xarray *xa, unsigned long *index, unsigned long max, unsigned int filter);
void *xa_find_after(struct xarray *xa, unsigned long *index, unsigned long max, unsigned int filter);
void xa_destroy(struct xarray *xa);
#define XA_PRESENT 8u

/* the __ forms run with xa_lock held; a @gfp that may sleep would drop it, so it is refused here */
void *__xa_store(struct xarray *xa, unsigned long index, void *entry, gfp_t gfp);
void *__xa_erase(struct xarray *xa, unsigned long index);
int __xa_insert(struct xarray *xa, unsigned long index, void *entry, gfp_t gfp);
void *__xa_cmpxchg(struct xarray *xa, unsigned long index, void *old, void *entry, gfp_t gfp);
int __xa_alloc(struct xarray *xa, u32 *id, void *entry, struct xa_limit limit, gfp_t gfp);
int __xa_alloc_cyclic(struct xarray *xa, u32 *id, void *entry, struct xa_limit limit, u32 *next, gfp_t gfp);

/* allocating forms: they take the lock, how depends on the suffix */
void shim_xa_lock(struct xarray *xa, unsigned int how, gfp_t gfp);
void shim_xa_unlock(struct xarray *xa, unsigned int how);
#define SHIM_XA(T, how, gfp, call) ({ shim_xa_lock(___xa, how, gfp); T ___r = call; shim_xa_unlock(___xa, how); ___r; })
#define SHIM_XA_FORMS(sfx, how) \
static inline void *xa_store##sfx(struct xarray *___xa, unsigned long i, void *e, gfp_t g) { return SHIM_XA(void *, how, g, __xa_store(___xa, i, e, g)); } \
static inline void *xa_erase##sfx(struct xarray *___xa, unsigned long i) { return SHIM_XA(void *, how, 0, __xa_erase(___xa, i)); } \
static inline int xa_insert##sfx(struct xarray *___xa, unsigned long i, void *e, gfp_t g) { return SHIM_XA(int, how, g, __xa_insert(___xa, i, e, g)); } \
static inline void *xa_cmpxchg##sfx(struct xarray *___xa, unsigned long i, void *o, void *e, gfp_t g) { return SHIM_XA(void *, how, g, __xa_cmpxchg(___xa, i, o, e, g)); } \
static inline int xa_alloc##sfx(struct xarray *___xa, u32 *id, void *e, struct xa_limit l, gfp_t g) { return SHIM_XA(int, how, g, __xa_alloc(___xa, id, e, l, g)); } \
static inline int xa_alloc_cyclic##sfx(struct xarray *___xa, u32 *id, void *e, struct xa_limit l, u32 *n, gfp_t g) { return SHIM_XA(int, how, g, __xa_alloc_cyclic(___xa, id, e, l, n, g)); }
SHIM_XA_FORMS(, SHIM_LOCK_PLAIN)
SHIM_XA_FORMS(_bh, SHIM_LOCK_BH)
SHIM_XA_FORMS(_irq, SHIM_LOCK_IRQ)
#define xa_reserve(x, i, g)	xa_insert(x, i, XA_ZERO_ENTRY, g)
#define xa_release(x, i)	((void)(xa_load(x, i) ? NULL : xa_erase(x, i)))

#define xa_for_each_range(x, i, e, first, last) \
	for ((i) = (first), (e) = xa_find(x, &(i), last, XA_PRESENT); (e); (e) = xa_find_after(x, &(i), last, XA_PRESENT))
#define xa_for_each_start(x, i, e, start) xa_for_each_range(x, i, e, start, ULONG_MAX)
#define xa_for_each(x, i, e)	xa_for_each_start(x, i, e, 0)

struct ida {
	struct xarray xa;
};
#define IDA_INIT(n)		{ .xa = XARRAY_INIT((n).xa, XA_FLAGS_ALLOC) }
#define DEFINE_IDA(n)		struct ida n = IDA_INIT(n)
#define ida_init(i)		xa_init_flags(&(i)->xa, XA_FLAGS_ALLOC)
#define ida_destroy(i)		xa_destroy(&(i)->xa)
#define ida_is_empty(i)		xa_empty(&(i)->xa)
int ida_alloc_range(struct ida *ida, unsigned int min, unsigned int max, gfp_t gfp);
void ida_free(struct ida *ida, unsigned int id);
#define ida_alloc(i, g)		ida_alloc_range(i, 0, ~0u, g)
#define ida_alloc_min(i, m, g)	ida_alloc_range(i, m, ~0u, g)
#define ida_alloc_max(i, m, g)	ida_alloc_range(i, 0, m, g)

struct maple_tree {
	spinlock_t ma_lock;
	struct shim_range *ranges;	/* sorted by first */
	size_t nr, room;
};
#define MT_FLAGS_ALLOC_RANGE	1
#define MT_FLAGS_USE_RCU	2
#define mt_init_flags(t, f)	do { *(t) = (struct maple_tree){ }; spin_lock_init(&(t)->ma_lock); } while (0)
#define mt_init(t)		mt_init_flags(t, 0)
int mtree_alloc_range(struct maple_tree *t, unsigned long *start, void *entry, unsigned long size,
		      unsigned long min, unsigned long max, gfp_t gfp);
int mtree_insert_range(struct maple_tree *t, unsigned long first, unsigned long last, void *entry, gfp_t gfp);
void *mtree_erase(struct maple_tree *t, unsigned long index);
void *mtree_load(struct maple_tree *t, unsigned long index);
void mtree_destroy(struct maple_tree *t);

#endif
