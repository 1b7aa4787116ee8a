/* SPDX-License-Identifier: GPL-2.0 */
/*
 * RCU and SRCU. Readers are counted per fiber; a callback runs when no fiber is inside a section, at the latest when the
 * machine is idle, so an object freed by kfree_rcu() lives exactly as long as the rules say and no longer.
 */
#ifndef SHIM_LINUX_RCUPDATE_H
#define SHIM_LINUX_RCUPDATE_H

#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

void rcu_read_lock(void);
void rcu_read_unlock(void);
bool rcu_read_lock_held(void);
void synchronize_rcu(void);
void rcu_barrier(void);
void call_rcu(struct rcu_head *head, void (*func)(struct rcu_head *head));
void shim_kfree_rcu(struct rcu_head *head, void *p);
#define synchronize_rcu_expedited synchronize_rcu
#define rcu_read_lock_bh	rcu_read_lock
#define rcu_read_unlock_bh	rcu_read_unlock
#define kfree_rcu(p, m)		shim_kfree_rcu(&(p)->m, p)
#define kvfree_rcu		kfree_rcu
#define kfree_rcu_mightsleep(p)	do { synchronize_rcu(); kfree(p); } while (0)

#define RCU_INIT_POINTER(p, v)	((void)((p) = (v)))
#define rcu_assign_pointer(p, v) smp_store_release(&(p), v)
#define rcu_access_pointer(p)	READ_ONCE(p)
#define rcu_dereference(p)	({ WARN_ON(!rcu_read_lock_held()); READ_ONCE(p); })
#define rcu_dereference_protected(p, c) ({ WARN_ON(!(c)); (p); })
#define rcu_dereference_check(p, c) ({ WARN_ON(!(c) && !rcu_read_lock_held()); READ_ONCE(p); })
#define rcu_dereference_raw(p)	READ_ONCE(p)
#define rcu_replace_pointer(p, v, c) ({ typeof(p) ___o = (p); WARN_ON(!(c)); rcu_assign_pointer(p, v); ___o; })
#define rcu_pointer_handoff(p)	(p)

struct srcu_struct {
	unsigned int readers[2];
	unsigned int idx;
	struct list_head waiters;
};

int init_srcu_struct(struct srcu_struct *s);
void cleanup_srcu_struct(struct srcu_struct *s);
int srcu_read_lock(struct srcu_struct *s);
void srcu_read_unlock(struct srcu_struct *s, int idx);
void synchronize_srcu(struct srcu_struct *s);
#define synchronize_srcu_expedited synchronize_srcu
#define srcu_dereference(p, s)	READ_ONCE(p)
#define srcu_barrier(s)		rcu_barrier()

typedef struct {
	unsigned int sequence;
} seqcount_t;

/* a reader that meets an odd count would spin for ever on one thread: that is a bug here, not a wait */
#define seqcount_init(s)	((s)->sequence = 0)
#define raw_read_seqcount(s)	READ_ONCE((s)->sequence)
static inline unsigned int read_seqcount_begin(const seqcount_t *s)
{
	if (s->sequence & 1)
		shim_die("seqcount: reader inside a write section");
	return READ_ONCE(s->sequence);
}
#define raw_read_seqcount_begin	read_seqcount_begin
#define read_seqcount_retry(s, q) (READ_ONCE((s)->sequence) != (q))
#define write_seqcount_begin(s)	((void)(s)->sequence++)
#define write_seqcount_end(s)	((void)(s)->sequence++)
#define raw_write_seqcount_begin write_seqcount_begin
#define raw_write_seqcount_end	write_seqcount_end

typedef struct {
	seqcount_t seqcount;
	spinlock_t lock;
} seqlock_t;
#define seqlock_init(s)		do { seqcount_init(&(s)->seqcount); spin_lock_init(&(s)->lock); } while (0)
#define read_seqbegin(s)	read_seqcount_begin(&(s)->seqcount)
#define read_seqretry(s, q)	read_seqcount_retry(&(s)->seqcount, q)
#define write_seqlock(s)	do { spin_lock(&(s)->lock); write_seqcount_begin(&(s)->seqcount); } while (0)
#define write_sequnlock(s)	do { write_seqcount_end(&(s)->seqcount); spin_unlock(&(s)->lock); } while (0)

struct shim_rcu_scope { bool in; };
static inline struct shim_rcu_scope __guard_rcu_take_(void) { rcu_read_lock(); return (struct shim_rcu_scope){ true }; }
static inline void __guard_rcu_drop(struct shim_rcu_scope *s) { if (s->in) rcu_read_unlock(); }
#define __guard_rcu_take(...)	__guard_rcu_take_()

#endif
