/* SPDX-License-Identifier: GPL-2.0 */
/* Atomics, reference counts, per-CPU data. One host thread: plain arithmetic, with the kernel's checks on refcounts. */
#ifndef SHIM_LINUX_ATOMIC_H
#define SHIM_LINUX_ATOMIC_H

#include <linux/kernel.h>

#define ATOMIC_INIT(i)		{ (i) }
#define ATOMIC64_INIT(i)	{ (i) }

#define SHIM_ATOMIC(A, T, V) \
static inline V A##_read(const T *v) { return READ_ONCE(v->counter); } \
static inline V A##_read_acquire(const T *v) { return READ_ONCE(v->counter); } \
static inline void A##_set(T *v, V i) { WRITE_ONCE(v->counter, i); } \
static inline void A##_set_release(T *v, V i) { WRITE_ONCE(v->counter, i); } \
static inline void A##_add(V i, T *v) { v->counter += i; } \
static inline void A##_sub(V i, T *v) { v->counter -= i; } \
static inline void A##_inc(T *v) { v->counter++; } \
static inline void A##_dec(T *v) { v->counter--; } \
static inline void A##_or(V i, T *v) { v->counter |= i; } \
static inline void A##_and(V i, T *v) { v->counter &= i; } \
static inline void A##_andnot(V i, T *v) { v->counter &= ~i; } \
static inline V A##_add_return(V i, T *v) { return v->counter += i; } \
static inline V A##_sub_return(V i, T *v) { return v->counter -= i; } \
static inline V A##_inc_return(T *v) { return ++v->counter; } \
static inline V A##_dec_return(T *v) { return --v->counter; } \
static inline V A##_fetch_add(V i, T *v) { V o = v->counter; v->counter += i; return o; } \
static inline V A##_fetch_sub(V i, T *v) { V o = v->counter; v->counter -= i; return o; } \
static inline V A##_fetch_inc(T *v) { return v->counter++; } \
static inline V A##_fetch_dec(T *v) { return v->counter--; } \
static inline V A##_fetch_or(V i, T *v) { V o = v->counter; v->counter |= i; return o; } \
static inline V A##_fetch_and(V i, T *v) { V o = v->counter; v->counter &= i; return o; } \
static inline V A##_fetch_andnot(V i, T *v) { V o = v->counter; v->counter &= ~i; return o; } \
static inline bool A##_inc_and_test(T *v) { return !++v->counter; } \
static inline bool A##_dec_and_test(T *v) { return !--v->counter; } \
static inline bool A##_sub_and_test(V i, T *v) { return !(v->counter -= i); } \
static inline bool A##_add_unless(T *v, V a, V u) { if (v->counter == u) return false; v->counter += a; return true; } \
static inline bool A##_inc_not_zero(T *v) { return A##_add_unless(v, 1, 0); } \
static inline bool A##_inc_unless_negative(T *v) { if (v->counter < 0) return false; v->counter++; return true; } \
static inline V A##_dec_if_positive(T *v) { V n = v->counter - 1; if (n >= 0) v->counter = n; return n; } \
static inline V A##_xchg(T *v, V n) { V o = v->counter; v->counter = n; return o; } \
static inline V A##_cmpxchg(T *v, V o, V n) { V c = v->counter; if (c == o) v->counter = n; return c; } \
static inline bool A##_try_cmpxchg(T *v, V *o, V n) { V c = v->counter; if (c == *o) { v->counter = n; return true; } *o = c; return false; }

SHIM_ATOMIC(atomic, atomic_t, int)
SHIM_ATOMIC(atomic64, atomic64_t, s64)
#define atomic_long_read	atomic64_read
#define atomic_long_set		atomic64_set
#define atomic_long_inc		atomic64_inc
#define atomic_long_dec		atomic64_dec
#define atomic_long_add		atomic64_add
#define atomic_long_sub		atomic64_sub
#define atomic_long_inc_return	atomic64_inc_return
#define atomic_long_dec_and_test atomic64_dec_and_test

#define xchg(p, n)	({ typeof(*(p)) ___o = READ_ONCE(*(p)); WRITE_ONCE(*(p), n); ___o; })
#define cmpxchg(p, o, n) ({ typeof(*(p)) ___c = READ_ONCE(*(p)); if (___c == (typeof(*(p)))(o)) WRITE_ONCE(*(p), n); ___c; })
#define try_cmpxchg(p, o, n) ({ typeof(*(p)) ___e = *(o), ___c = cmpxchg(p, ___e, n); bool ___b = ___c == ___e; \
				if (!___b) *(o) = ___c; ___b; })
#define cmpxchg64	cmpxchg
#define cmpxchg_relaxed	cmpxchg
#define cmpxchg_release	cmpxchg
#define xchg_relaxed	xchg
#define try_cmpxchg64	try_cmpxchg

typedef struct {
	int refs;
} refcount_t;
#define REFCOUNT_INIT(n)	{ (n) }
static inline void refcount_set(refcount_t *r, int n) { r->refs = n; }
static inline unsigned int refcount_read(const refcount_t *r) { return r->refs; }

static inline void refcount_add(int i, refcount_t *r)
{
	if (r->refs <= 0)
		shim_die("refcount: raised from %d", r->refs);
	r->refs += i;
}

static inline void refcount_inc(refcount_t *r) { refcount_add(1, r); }

static inline bool refcount_inc_not_zero(refcount_t *r)
{
	if (!r->refs)
		return false;
	refcount_inc(r);
	return true;
}

static inline bool refcount_sub_and_test(int i, refcount_t *r)
{
	if (r->refs < i)
		shim_die("refcount: underflow");
	return !(r->refs -= i);
}

static inline bool refcount_dec_and_test(refcount_t *r) { return refcount_sub_and_test(1, r); }

static inline void refcount_dec(refcount_t *r)
{
	if (refcount_dec_and_test(r))
		shim_die("refcount: dec to zero");
}

struct kref {
	refcount_t refcount;
};
static inline void kref_init(struct kref *k) { refcount_set(&k->refcount, 1); }
static inline void kref_get(struct kref *k) { refcount_inc(&k->refcount); }
static inline unsigned int kref_read(const struct kref *k) { return refcount_read(&k->refcount); }
static inline bool kref_get_unless_zero(struct kref *k) { return refcount_inc_not_zero(&k->refcount); }

static inline int kref_put(struct kref *k, void (*release)(struct kref *k))
{
	if (!refcount_dec_and_test(&k->refcount))
		return 0;
	release(k);
	return 1;
}

/* Two CPUs, so that a sum over one of them is seen to be wrong. A fiber keeps its CPU for life. */
#define NR_CPUS			2
#define nr_cpu_ids		((unsigned int)NR_CPUS)
#define num_possible_cpus()	((unsigned int)NR_CPUS)
#define num_online_cpus()	((unsigned int)NR_CPUS)
unsigned int shim_cpu(void);
void *shim_alloc_percpu(size_t size, gfp_t flags);
#define alloc_percpu_gfp(t, f)	((t __percpu *)shim_alloc_percpu(sizeof(t), f))
#define alloc_percpu(t)		alloc_percpu_gfp(t, GFP_KERNEL)
#define __alloc_percpu(s, a)	shim_alloc_percpu(s, GFP_KERNEL)
#define free_percpu(p)		kfree(p)
#define for_each_possible_cpu(c) for ((c) = 0; (c) < NR_CPUS; (c)++)
#define for_each_online_cpu	for_each_possible_cpu
#define SHIM_PERCPU_STRIDE	0x4000	/* distance between the copies: members of a struct move along with it */
#define per_cpu_ptr(p, c)	((typeof(p))((char *)(p) + (size_t)(c) * SHIM_PERCPU_STRIDE))
#define this_cpu_ptr(p)		per_cpu_ptr(p, shim_cpu())
#define raw_cpu_ptr		this_cpu_ptr
#define get_cpu_ptr(p)		({ preempt_disable(); this_cpu_ptr(p); })
#define put_cpu_ptr(p)		do { (void)(p); preempt_enable(); } while (0)
#define this_cpu_add(x, v)	((void)(*this_cpu_ptr(&(x)) += (v)))
#define this_cpu_sub(x, v)	((void)(*this_cpu_ptr(&(x)) -= (v)))
#define this_cpu_inc(x)		this_cpu_add(x, 1)
#define this_cpu_dec(x)		this_cpu_sub(x, 1)
#define this_cpu_read(x)	READ_ONCE(*this_cpu_ptr(&(x)))
#define this_cpu_write(x, v)	(*this_cpu_ptr(&(x)) = (v))
#define __this_cpu_inc		this_cpu_inc
#define __this_cpu_add		this_cpu_add
#define raw_cpu_inc		this_cpu_inc
#define raw_cpu_add		this_cpu_add
#define smp_processor_id()	shim_cpu()
#define raw_smp_processor_id()	shim_cpu()
#define get_cpu()		({ preempt_disable(); shim_cpu(); })
#define put_cpu()		preempt_enable()

#endif
