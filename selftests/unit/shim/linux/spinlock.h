/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Locks that check their own use, a lockdep of the poor:
 *
 *  - taking a lock that one holds, releasing a lock that one does not hold;
 *  - sleeping (mutex, wait, GFP_KERNEL) while a spinlock, an RCU section or disabled interrupts are held;
 *  - two classes taken in both orders, two locks of one class nested without _nested();
 *  - a spinlock that a timer callback takes, taken elsewhere with interrupts on;
 *  - locks still held when a fiber or a test ends, and locks in memory that is freed.
 *
 * A class is the place where the lock was initialised, plus the subclass of _nested(). Every complaint aborts the test.
 */
#ifndef SHIM_LINUX_SPINLOCK_H
#define SHIM_LINUX_SPINLOCK_H

#include <linux/kernel.h>
#include <linux/list.h>

struct shim_lock {
	const char *class;	/* "file:line name"; the pointer is the identity */
	void *owner;		/* fiber, or NULL */
	bool sleeps;
	struct list_head waiters;
};

struct lock_class_key {
	char dummy;
};

typedef struct spinlock {
	struct shim_lock l;
} spinlock_t;

typedef spinlock_t raw_spinlock_t;

struct mutex {
	struct shim_lock l;
};

enum shim_lock_how {
	SHIM_LOCK_PLAIN,
	SHIM_LOCK_IRQ = 1,	/* also disables interrupts */
	SHIM_LOCK_BH = 2,	/* also disables timers' softirq */
	SHIM_LOCK_TRY = 4,
};

void shim_lock_init(struct shim_lock *l, const char *class, bool sleeps);
bool shim_lock(struct shim_lock *l, unsigned int how, unsigned int subclass);
void shim_unlock(struct shim_lock *l, unsigned int how);
bool shim_lock_held(const struct shim_lock *l);
void shim_might_sleep(const char *what);
void shim_irq_disable(int by);
unsigned long shim_irqs_disabled(void);
void shim_preempt_disable(int by);
bool shim_in_irq(void);

#define SHIM_CLASS(name)	__FILE__ ":" __stringify(__LINE__) " " name
#define shim_lock_init_here(p, name, s) do { static const char ___class[] = SHIM_CLASS(name); \
					     shim_lock_init(&(p)->l, ___class, s); } while (0)

#define spin_lock_init(p)	shim_lock_init_here(p, #p, false)
#define raw_spin_lock_init	spin_lock_init
#define __SPIN_LOCK_UNLOCKED(n)	{ .l = { .class = SHIM_CLASS(#n), .waiters = LIST_HEAD_INIT((n).l.waiters) } }
#define DEFINE_SPINLOCK(n)	spinlock_t n = __SPIN_LOCK_UNLOCKED(n)
#define spin_lock(p)		((void)shim_lock(&(p)->l, SHIM_LOCK_PLAIN, 0))
#define spin_lock_nested(p, s)	((void)shim_lock(&(p)->l, SHIM_LOCK_PLAIN, s))
#define spin_unlock(p)		shim_unlock(&(p)->l, SHIM_LOCK_PLAIN)
#define spin_lock_bh(p)		((void)shim_lock(&(p)->l, SHIM_LOCK_BH, 0))
#define spin_unlock_bh(p)	shim_unlock(&(p)->l, SHIM_LOCK_BH)
#define spin_lock_irq(p)	((void)shim_lock(&(p)->l, SHIM_LOCK_IRQ, 0))
#define spin_unlock_irq(p)	shim_unlock(&(p)->l, SHIM_LOCK_IRQ)
#define spin_lock_irqsave(p, f)	do { (f) = shim_irqs_disabled(); (void)shim_lock(&(p)->l, SHIM_LOCK_IRQ, 0); } while (0)
#define spin_lock_irqsave_nested(p, f, s) do { (f) = shim_irqs_disabled(); (void)shim_lock(&(p)->l, SHIM_LOCK_IRQ, s); } while (0)
#define spin_unlock_irqrestore(p, f) do { (void)(f); shim_unlock(&(p)->l, SHIM_LOCK_IRQ); } while (0)
#define spin_trylock(p)		shim_lock(&(p)->l, SHIM_LOCK_TRY, 0)
#define spin_trylock_bh(p)	shim_lock(&(p)->l, SHIM_LOCK_TRY | SHIM_LOCK_BH, 0)
#define spin_trylock_irqsave(p, f) ({ (f) = shim_irqs_disabled(); shim_lock(&(p)->l, SHIM_LOCK_TRY | SHIM_LOCK_IRQ, 0); })
#define spin_is_locked(p)	(!!(p)->l.owner)
#define assert_spin_locked(p)	lockdep_assert_held(p)
#define raw_spin_lock		spin_lock
#define raw_spin_unlock		spin_unlock
#define raw_spin_lock_irqsave	spin_lock_irqsave
#define raw_spin_unlock_irqrestore spin_unlock_irqrestore
#define local_irq_save(f)	do { (f) = shim_irqs_disabled(); shim_irq_disable(1); } while (0)
#define local_irq_restore(f)	do { (void)(f); shim_irq_disable(-1); } while (0)
#define local_irq_disable()	shim_irq_disable(1)
#define local_irq_enable()	shim_irq_disable(-1)
#define irqs_disabled()		(!!shim_irqs_disabled())
#define preempt_disable()	shim_preempt_disable(1)
#define preempt_enable()	shim_preempt_disable(-1)
#define migrate_disable()	do { } while (0)
#define migrate_enable()	do { } while (0)
#define in_interrupt()		shim_in_irq()
#define in_task()		(!shim_in_irq())

#define mutex_init(p)		shim_lock_init_here(p, #p, true)
#define __MUTEX_INITIALIZER(n)	{ .l = { .class = SHIM_CLASS(#n), .sleeps = true, .waiters = LIST_HEAD_INIT((n).l.waiters) } }
#define DEFINE_MUTEX(n)		struct mutex n = __MUTEX_INITIALIZER(n)
#define mutex_lock(p)		((void)shim_lock(&(p)->l, SHIM_LOCK_PLAIN, 0))
#define mutex_lock_nested(p, s)	((void)shim_lock(&(p)->l, SHIM_LOCK_PLAIN, s))
#define mutex_lock_interruptible(p) (mutex_lock(p), 0)
#define mutex_lock_killable(p)	(mutex_lock(p), 0)
#define mutex_trylock(p)	shim_lock(&(p)->l, SHIM_LOCK_TRY, 0)
#define mutex_unlock(p)		shim_unlock(&(p)->l, SHIM_LOCK_PLAIN)
#define mutex_is_locked(p)	(!!(p)->l.owner)
#define SINGLE_DEPTH_NESTING	1
void mutex_destroy(struct mutex *m);

#define lockdep_is_held(p)		shim_lock_held(&(p)->l)
#define lockdep_assert_held(p)		WARN_ON(!lockdep_is_held(p))
#define lockdep_assert_not_held(p)	WARN_ON(lockdep_is_held(p))
#define lockdep_assert(c)		WARN_ON(!(c))
#define lockdep_assert_in_rcu_read_lock() do { } while (0)
#define lockdep_set_class(p, k)		do { (p)->l.class = (const char *)(k); } while (0)
#define lockdep_set_subclass(p, s)	do { } while (0)
#define might_sleep()			shim_might_sleep(__func__)
#define might_sleep_if(c)		do { if (c) might_sleep(); } while (0)
#define might_lock(p)			do { } while (0)
#define might_alloc(f)			might_sleep_if((f) & 1)

/* guard(mutex)(&lock), scoped_guard() */
#define DEFINE_GUARD(name, T, lock, unlock) \
	static inline T __guard_##name##_take(T _T) { lock; return _T; } \
	static inline void __guard_##name##_drop(T *p) { T _T = *p; if (_T) { unlock; } }
DEFINE_GUARD(mutex, struct mutex *, mutex_lock(_T), mutex_unlock(_T))
DEFINE_GUARD(spinlock, spinlock_t *, spin_lock(_T), spin_unlock(_T))
DEFINE_GUARD(spinlock_bh, spinlock_t *, spin_lock_bh(_T), spin_unlock_bh(_T))
DEFINE_GUARD(spinlock_irq, spinlock_t *, spin_lock_irq(_T), spin_unlock_irq(_T))
DEFINE_GUARD(spinlock_irqsave, spinlock_t *, spin_lock_irq(_T), spin_unlock_irq(_T))
#define guard(name)		__guard_var(name, __UNIQUE_ID(guard))
#define __guard_var(name, id)	__auto_type id __cleanup(__guard_##name##_drop) = __guard_##name##_take
#define scoped_guard(name, p)	for (typeof(__guard_##name##_take(p)) ___g __cleanup(__guard_##name##_drop) = __guard_##name##_take(p), *___o = (void *)1; \
				     ___o; ___o = NULL)

#endif
