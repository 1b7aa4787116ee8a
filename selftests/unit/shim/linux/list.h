/* SPDX-License-Identifier: GPL-2.0 */
/* Doubly linked lists; an entry that was taken out points into poison. */
#ifndef SHIM_LINUX_LIST_H
#define SHIM_LINUX_LIST_H

#include <linux/kernel.h>

#define LIST_POISON1	((void *)0x100UL)
#define LIST_POISON2	((void *)0x122UL)
#define LIST_HEAD_INIT(n)	{ &(n), &(n) }
#define LIST_HEAD(n)		struct list_head n = LIST_HEAD_INIT(n)

static inline void INIT_LIST_HEAD(struct list_head *l)
{
	l->next = l->prev = l;
}

static inline void __list_add(struct list_head *n, struct list_head *prev, struct list_head *next)
{
	if (prev->next != next || next->prev != prev || n == prev || n == next)
		shim_die("list_add: corrupted list or entry added twice");
	next->prev = n;
	n->next = next;
	n->prev = prev;
	prev->next = n;
}

static inline void list_add(struct list_head *n, struct list_head *h) { __list_add(n, h, h->next); }
static inline void list_add_tail(struct list_head *n, struct list_head *h) { __list_add(n, h->prev, h); }

static inline void __list_del_entry(struct list_head *e)
{
	if (e->next == LIST_POISON1 || e->prev->next != e || e->next->prev != e)
		shim_die("list_del: entry is on no list");
	e->next->prev = e->prev;
	e->prev->next = e->next;
}

static inline void list_del(struct list_head *e)
{
	__list_del_entry(e);
	e->next = LIST_POISON1;
	e->prev = LIST_POISON2;
}

static inline void list_del_init(struct list_head *e)
{
	__list_del_entry(e);
	INIT_LIST_HEAD(e);
}

static inline void list_move(struct list_head *e, struct list_head *h)
{
	__list_del_entry(e);
	list_add(e, h);
}

static inline void list_move_tail(struct list_head *e, struct list_head *h)
{
	__list_del_entry(e);
	list_add_tail(e, h);
}

static inline bool list_empty(const struct list_head *h) { return READ_ONCE(h->next) == h; }
#define list_empty_careful list_empty
static inline bool list_is_singular(const struct list_head *h) { return !list_empty(h) && h->next == h->prev; }
static inline bool list_is_last(const struct list_head *e, const struct list_head *h) { return e->next == h; }
static inline bool list_is_first(const struct list_head *e, const struct list_head *h) { return e->prev == h; }
static inline bool list_is_head(const struct list_head *e, const struct list_head *h) { return e == h; }

static inline void list_splice_tail_init(struct list_head *l, struct list_head *h)
{
	if (list_empty(l))
		return;
	l->next->prev = h->prev;
	h->prev->next = l->next;
	l->prev->next = h;
	h->prev = l->prev;
	INIT_LIST_HEAD(l);
}

static inline void list_splice_init(struct list_head *l, struct list_head *h)
{
	if (list_empty(l))
		return;
	l->prev->next = h->next;
	h->next->prev = l->prev;
	l->next->prev = h;
	h->next = l->next;
	INIT_LIST_HEAD(l);
}

#define list_entry(p, t, m)		container_of(p, t, m)
#define list_first_entry(h, t, m)	list_entry((h)->next, t, m)
#define list_last_entry(h, t, m)	list_entry((h)->prev, t, m)
#define list_next_entry(p, m)		list_entry((p)->m.next, typeof(*(p)), m)
#define list_prev_entry(p, m)		list_entry((p)->m.prev, typeof(*(p)), m)
#define list_first_entry_or_null(h, t, m) (list_empty(h) ? NULL : list_first_entry(h, t, m))
#define list_entry_is_head(p, h, m)	(&(p)->m == (h))
#define list_for_each(p, h)		for ((p) = (h)->next; (p) != (h); (p) = (p)->next)
#define list_for_each_safe(p, n, h) \
	for ((p) = (h)->next, (n) = (p)->next; (p) != (h); (p) = (n), (n) = (p)->next)
#define list_for_each_entry(p, h, m) \
	for ((p) = list_first_entry(h, typeof(*(p)), m); !list_entry_is_head(p, h, m); (p) = list_next_entry(p, m))
#define list_for_each_entry_reverse(p, h, m) \
	for ((p) = list_last_entry(h, typeof(*(p)), m); !list_entry_is_head(p, h, m); (p) = list_prev_entry(p, m))
#define list_for_each_entry_safe(p, n, h, m) \
	for ((p) = list_first_entry(h, typeof(*(p)), m), (n) = list_next_entry(p, m); \
	     !list_entry_is_head(p, h, m); (p) = (n), (n) = list_next_entry(n, m))
#define list_for_each_entry_rcu(p, h, m, ...)	list_for_each_entry(p, h, m)
#define list_add_rcu		list_add
#define list_add_tail_rcu	list_add_tail

/* readers may still stand on the entry: keep its forward pointer */
static inline void list_del_rcu(struct list_head *e)
{
	__list_del_entry(e);
	e->prev = LIST_POISON2;
}

static inline size_t list_count_nodes(struct list_head *h)
{
	struct list_head *p;
	size_t n = 0;

	list_for_each(p, h)
		n++;
	return n;
}

#define HLIST_HEAD_INIT		{ .first = NULL }
#define HLIST_HEAD(n)		struct hlist_head n = HLIST_HEAD_INIT
#define INIT_HLIST_HEAD(h)	((h)->first = NULL)
static inline void INIT_HLIST_NODE(struct hlist_node *n) { n->next = NULL; n->pprev = NULL; }
static inline bool hlist_unhashed(const struct hlist_node *n) { return !n->pprev; }
static inline bool hlist_empty(const struct hlist_head *h) { return !h->first; }

static inline void hlist_add_head(struct hlist_node *n, struct hlist_head *h)
{
	n->next = h->first;
	if (h->first)
		h->first->pprev = &n->next;
	h->first = n;
	n->pprev = &h->first;
}

static inline void hlist_del_init(struct hlist_node *n)
{
	if (!n->pprev)
		return;
	*n->pprev = n->next;
	if (n->next)
		n->next->pprev = n->pprev;
	INIT_HLIST_NODE(n);
}
#define hlist_del	hlist_del_init
#define hlist_add_head_rcu hlist_add_head
#define hlist_del_rcu	hlist_del_init
#define hlist_entry(p, t, m)	container_of(p, t, m)
#define hlist_entry_safe(p, t, m) ({ typeof(p) ___h = (p); ___h ? hlist_entry(___h, t, m) : NULL; })
#define hlist_for_each_entry(p, h, m) \
	for ((p) = hlist_entry_safe((h)->first, typeof(*(p)), m); (p); \
	     (p) = hlist_entry_safe((p)->m.next, typeof(*(p)), m))
#define hlist_for_each_entry_rcu(p, h, m, ...)	hlist_for_each_entry(p, h, m)
#define hlist_for_each_entry_safe(p, n, h, m) \
	for ((p) = hlist_entry_safe((h)->first, typeof(*(p)), m); (p) && ({ (n) = (p)->m.next; 1; }); \
	     (p) = hlist_entry_safe(n, typeof(*(p)), m))

struct llist_node {
	struct llist_node *next;
};

struct llist_head {
	struct llist_node *first;
};
#define init_llist_head(h)	((h)->first = NULL)
#define llist_entry(p, t, m)	container_of(p, t, m)
static inline bool llist_empty(const struct llist_head *h) { return !h->first; }

static inline bool llist_add(struct llist_node *n, struct llist_head *h)
{
	n->next = h->first;
	h->first = n;
	return !n->next;
}

static inline struct llist_node *llist_del_all(struct llist_head *h)
{
	struct llist_node *n = h->first;

	h->first = NULL;
	return n;
}

#endif
