// SPDX-License-Identifier: GPL-2.0
/*
 * XArray, IDA and allocation of ranges. Guarantees the kernel's answers (errors, what a NULL store and a reserved entry
 * mean, cyclic wrap) at a cost that lets a test have a hundred thousand keys.
 */
#include <linux/bitmap.h>
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/xarray.h>

#include "shim.h"

#define NODE_SHIFT	6
#define NODE_SLOTS	(1u << NODE_SHIFT)

struct xa_node {
	u64 full;		/* slots that are used (leaf), or whose subtree is full */
	unsigned int used;	/* slots in use */
	void *slot[NODE_SLOTS];
};

void shim_xa_lock(struct xarray *xa, unsigned int how, gfp_t gfp)
{
	if (gfp & __GFP_DIRECT_RECLAIM)
		shim_might_sleep("xarray store that may sleep");
	if (xa->xa_flags & XA_FLAGS_LOCK_IRQ && how != SHIM_LOCK_IRQ && !shim_irqs_disabled())
		shim_die("xarray with XA_FLAGS_LOCK_IRQ locked with interrupts on");
	(void)shim_lock(&xa->xa_lock.l, how, 0);
}

void shim_xa_unlock(struct xarray *xa, unsigned int how)
{
	shim_unlock(&xa->xa_lock.l, how);
}

static unsigned long height_max(unsigned int height)
{
	return height * NODE_SHIFT >= 64 ? ULONG_MAX : (1UL << (height * NODE_SHIFT)) - 1;
}

static void **find_slot(struct xarray *xa, unsigned long index)
{
	struct xa_node *node = xa->root;
	unsigned int h = xa->height;

	if (!node || index > height_max(h))
		return NULL;
	while (--h) {
		node = node->slot[(index >> (h * NODE_SHIFT)) % NODE_SLOTS];
		if (!node)
			return NULL;
	}
	return &node->slot[index % NODE_SLOTS];
}

static void *raw_load(struct xarray *xa, unsigned long index)
{
	void **slot = find_slot(xa, index);

	return slot ? READ_ONCE(*slot) : NULL;
}

void *xa_load(struct xarray *xa, unsigned long index)
{
	void *entry = raw_load(xa, index);

	return entry == XA_ZERO_ENTRY ? NULL : entry;
}

/* Writes @entry, growing or shrinking the tree. Returns false when memory ran out (nothing changed then). */
static bool raw_store(struct xarray *xa, unsigned long index, void *entry, gfp_t gfp)
{
	struct xa_node *path[12], *node;
	unsigned int h;

	if (!entry && !find_slot(xa, index))
		return true;
	while (entry && (!xa->root || index > height_max(xa->height))) {
		node = kzalloc(sizeof(*node), gfp & ~__GFP_DIRECT_RECLAIM);
		if (!node)
			return false;
		if (xa->root) {
			node->slot[0] = xa->root;
			node->used = 1;
			if (xa->root->full == U64_MAX)
				node->full = 1;
			xa->height++;
		} else {
			while (index > height_max(++xa->height))
				;
		}
		xa->root = node;
	}
	node = xa->root;
	for (h = xa->height; --h; ) {
		unsigned int i = (index >> (h * NODE_SHIFT)) % NODE_SLOTS;

		path[h] = node;
		if (!node->slot[i]) {
			struct xa_node *new = kzalloc(sizeof(*new), gfp & ~__GFP_DIRECT_RECLAIM);

			if (!new) {
				/* inner nodes added on the way down are empty: an erase of nothing takes them away */
				goto shrink;
			}
			node->slot[i] = new;
			node->used++;
		}
		node = node->slot[i];
	}
	path[0] = node;
	node->used += !!entry - !!node->slot[index % NODE_SLOTS];
	WRITE_ONCE(node->slot[index % NODE_SLOTS], entry);
	if (entry)
		node->full |= 1ULL << (index % NODE_SLOTS);
	else
		node->full &= ~(1ULL << (index % NODE_SLOTS));
	h = 0;
shrink:
	/* upwards: drop empty nodes, carry the full marks */
	{
		bool stored = path[0] && h == 0;

		for (; h < xa->height; h++) {
			unsigned int i = h + 1 < xa->height ? (index >> ((h + 1) * NODE_SHIFT)) % NODE_SLOTS : 0;
			struct xa_node *up = h + 1 < xa->height ? path[h + 1] : NULL;

			node = path[h];
			if (!node->used) {
				kfree(node);
				if (up) {
					up->slot[i] = NULL;
					up->used--;
					up->full &= ~(1ULL << i);
				} else {
					xa->root = NULL;
					xa->height = 0;
					break;
				}
			} else if (up) {
				if (node->full == U64_MAX)
					up->full |= 1ULL << i;
				else
					up->full &= ~(1ULL << i);
			}
		}
		return stored;
	}
}

static void check_lock(struct xarray *xa)
{
	if (!shim_lock_held(&xa->xa_lock.l))
		shim_die("__xa_ function without xa_lock");
}

void *__xa_store(struct xarray *xa, unsigned long index, void *entry, gfp_t gfp)
{
	void *old;

	check_lock(xa);
	old = raw_load(xa, index);
	if (!entry && xa->xa_flags & XA_FLAGS_ALLOC && old)
		entry = XA_ZERO_ENTRY;	/* as the kernel: storing NULL keeps an allocated index reserved */
	if (!raw_store(xa, index, entry, gfp))
		return XA_ERROR(-ENOMEM);
	return old == XA_ZERO_ENTRY ? NULL : old;
}

void *__xa_erase(struct xarray *xa, unsigned long index)
{
	void *old;

	check_lock(xa);
	old = raw_load(xa, index);
	raw_store(xa, index, NULL, 0);
	return old == XA_ZERO_ENTRY ? NULL : old;
}

int __xa_insert(struct xarray *xa, unsigned long index, void *entry, gfp_t gfp)
{
	check_lock(xa);
	if (raw_load(xa, index))
		return -EBUSY;
	return raw_store(xa, index, entry ?: XA_ZERO_ENTRY, gfp) ? 0 : -ENOMEM;
}

void *__xa_cmpxchg(struct xarray *xa, unsigned long index, void *old, void *entry, gfp_t gfp)
{
	void *is = xa_load(xa, index);

	check_lock(xa);
	if (is == old && !raw_store(xa, index, entry, gfp))
		return XA_ERROR(-ENOMEM);
	return is;
}

/* lowest free index in [min, max] */
static bool node_free(struct xa_node *node, unsigned int h, unsigned long base, unsigned long min, unsigned long max,
		      unsigned long *at)
{
	unsigned int shift = h * NODE_SHIFT;
	unsigned long i = min > base ? (min - base) >> shift : 0;

	for (; i < NODE_SLOTS; i++) {
		unsigned long first = base + (i << shift);
		u64 free = ~node->full & (~0ULL << i);

		if (!free)
			return false;
		i = __ffs64(free);
		first = base + (i << shift);
		if (first > max)
			return false;
		if (!h || !node->slot[i]) {
			*at = max(first, min);
			return *at <= max;
		}
		if (node_free(node->slot[i], h - 1, first, min, max, at))
			return true;
	}
	return false;
}

static bool find_free(struct xarray *xa, unsigned long min, unsigned long max, unsigned long *at)
{
	if (min > max)
		return false;
	if (xa->root && min <= height_max(xa->height) && node_free(xa->root, xa->height - 1, 0, min, max, at))
		return true;
	*at = xa->root ? max(min, height_max(xa->height) + 1) : min;
	return *at >= min && *at <= max;
}

int __xa_alloc(struct xarray *xa, u32 *id, void *entry, struct xa_limit limit, gfp_t gfp)
{
	unsigned long at;

	check_lock(xa);
	if (!(xa->xa_flags & XA_FLAGS_ALLOC))
		shim_die("xa_alloc() on an xarray without XA_FLAGS_ALLOC");
	if (xa->xa_flags & 8 && !limit.min)
		limit.min = 1;
	if (!find_free(xa, limit.min, limit.max, &at))
		return -EBUSY;
	*id = at;
	return raw_store(xa, at, entry ?: XA_ZERO_ENTRY, gfp) ? 0 : -ENOMEM;
}

int __xa_alloc_cyclic(struct xarray *xa, u32 *id, void *entry, struct xa_limit limit, u32 *next, gfp_t gfp)
{
	u32 min = limit.min;
	int err;

	limit.min = max(min, *next);
	err = __xa_alloc(xa, id, entry, limit, gfp);
	if (err == -EBUSY && limit.min > min) {
		limit.min = min;
		err = __xa_alloc(xa, id, entry, limit, gfp);
		if (!err)
			err = 1;
	}
	if (err >= 0)
		*next = *id + 1;
	return err;
}

static void *node_next(struct xa_node *node, unsigned int h, unsigned long base, unsigned long *index, unsigned long max)
{
	unsigned int shift = h * NODE_SHIFT;
	unsigned long i = *index > base ? (*index - base) >> shift : 0;

	for (; i < NODE_SLOTS; i++) {
		unsigned long first = base + (i << shift);
		void *e = node->slot[i];

		if (first > max)
			return NULL;
		if (!e)
			continue;
		if (h) {
			e = node_next(e, h - 1, first, index, max);
			if (e)
				return e;
		} else if (e != XA_ZERO_ENTRY) {
			*index = first;
			return e;
		}
	}
	return NULL;
}

void *xa_find(struct xarray *xa, unsigned long *index, unsigned long max, unsigned int filter)
{
	(void)filter;
	if (!xa->root || *index > height_max(xa->height))
		return NULL;
	return node_next(xa->root, xa->height - 1, 0, index, max);
}

void *xa_find_after(struct xarray *xa, unsigned long *index, unsigned long max, unsigned int filter)
{
	unsigned long at = *index + 1;
	void *e;

	if (!at)
		return NULL;
	e = xa_find(xa, &at, max, filter);
	if (e)
		*index = at;
	return e;
}

static void node_free_all(struct xa_node *node, unsigned int h)
{
	unsigned int i;

	if (h)
		for (i = 0; i < NODE_SLOTS; i++)
			if (node->slot[i])
				node_free_all(node->slot[i], h - 1);
	kfree(node);
}

void xa_destroy(struct xarray *xa)
{
	if (xa->root)
		node_free_all(xa->root, xa->height - 1);
	xa->root = NULL;
	xa->height = 0;
}

int ida_alloc_range(struct ida *ida, unsigned int min, unsigned int max, gfp_t gfp)
{
	u32 id;
	int err = xa_alloc(&ida->xa, &id, xa_mk_value(1UL), XA_LIMIT(min, min_t(u32, max, INT_MAX)), gfp);

	return err == -EBUSY ? -ENOSPC : err ?: (int)id;
}

void ida_free(struct ida *ida, unsigned int id)
{
	if (!xa_erase(&ida->xa, id))
		shim_die("ida_free() of %u, which is not allocated", id);
}

/* ranges */

struct shim_range {
	unsigned long first, last;
	void *entry;
};

/* number of ranges that end before @index */
static size_t range_at(struct maple_tree *t, unsigned long index)
{
	size_t lo = 0, hi = t->nr;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (t->ranges[mid].last < index)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static int range_insert(struct maple_tree *t, size_t i, unsigned long first, unsigned long last, void *entry, gfp_t gfp)
{
	if (gfp & __GFP_DIRECT_RECLAIM)
		shim_might_sleep("maple tree store that may sleep");
	if (t->nr == t->room) {
		size_t room = max_t(size_t, 16, 2 * t->room);
		struct shim_range *n = krealloc(t->ranges, room * sizeof(*n), gfp & ~__GFP_ZERO);

		if (!n)
			return -ENOMEM;
		t->ranges = n;
		t->room = room;
	}
	memmove(t->ranges + i + 1, t->ranges + i, (t->nr - i) * sizeof(*t->ranges));
	t->ranges[i] = (struct shim_range){ first, last, entry };
	t->nr++;
	return 0;
}

int mtree_insert_range(struct maple_tree *t, unsigned long first, unsigned long last, void *entry, gfp_t gfp)
{
	size_t i = range_at(t, first);

	if (first > last || !entry)
		return -EINVAL;
	if (i < t->nr && t->ranges[i].first <= last)
		return -EEXIST;
	return range_insert(t, i, first, last, entry, gfp);
}

int mtree_alloc_range(struct maple_tree *t, unsigned long *start, void *entry, unsigned long size,
		      unsigned long min, unsigned long max, gfp_t gfp)
{
	unsigned long at = min;
	size_t i;
	int err;

	if (!size || !entry || max - min < size - 1)
		return -EINVAL;
	for (i = range_at(t, min); i < t->nr && t->ranges[i].first - at < size; i++) {
		if (t->ranges[i].first < at || t->ranges[i].first - at < size)
			at = t->ranges[i].last + 1;
	}
	if (at < min || at > max || max - at < size - 1)
		return -EBUSY;
	err = range_insert(t, i, at, at + size - 1, entry, gfp);
	if (!err)
		*start = at;
	return err;
}

void *mtree_load(struct maple_tree *t, unsigned long index)
{
	size_t i = range_at(t, index);

	return i < t->nr && t->ranges[i].first <= index ? t->ranges[i].entry : NULL;
}

void *mtree_erase(struct maple_tree *t, unsigned long index)
{
	size_t i = range_at(t, index);
	void *entry = mtree_load(t, index);

	if (entry) {
		memmove(t->ranges + i, t->ranges + i + 1, (t->nr - i - 1) * sizeof(*t->ranges));
		t->nr--;
	}
	return entry;
}

void mtree_destroy(struct maple_tree *t)
{
	kfree(t->ranges);
	t->ranges = NULL;
	t->nr = t->room = 0;
}
