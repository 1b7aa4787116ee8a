/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Waiting. A waiter runs again only when its queue is woken or its time is up: a condition that becomes true without a
 * wake-up is reported as a deadlock, as is a wait that no work, timer or fiber can end. Time passes only when nothing
 * else can run.
 */
#ifndef SHIM_LINUX_WAIT_H
#define SHIM_LINUX_WAIT_H

#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/jiffies.h>

typedef struct wait_queue_head {
	struct list_head head;
} wait_queue_head_t;

#define __WAIT_QUEUE_HEAD_INITIALIZER(n)	{ LIST_HEAD_INIT((n).head) }
#define DECLARE_WAIT_QUEUE_HEAD(n)	wait_queue_head_t n = __WAIT_QUEUE_HEAD_INITIALIZER(n)
#define init_waitqueue_head(q)		INIT_LIST_HEAD(&(q)->head)
#define waitqueue_active(q)		(!list_empty(&(q)->head))
#define wq_has_sleeper(q)		waitqueue_active(q)

void shim_wake(struct list_head *q, unsigned int nr);
/* sleep on @q until it is woken (true) or the virtual clock reads @until (false) */
bool shim_sleep_on(struct list_head *q, u64 until, const char *where);

#define wake_up(q)			shim_wake(&(q)->head, ~0u)
#define wake_up_all(q)			wake_up(q)
#define wake_up_interruptible		wake_up
#define wake_up_var(v)			shim_wake(&shim_var_waiters, ~0u)
extern struct list_head shim_var_waiters;

#define SHIM_WHERE			__FILE__ ":" __stringify(__LINE__)
#define shim_wait(list, cond)		do { \
	might_sleep(); \
	while (!(cond)) \
		shim_sleep_on(list, U64_MAX, SHIM_WHERE " " #cond); \
} while (0)
#define shim_wait_timeout(list, cond, jif) ({ \
	u64 ___until = shim_now() + shim_jiffies_to_ns(jif); \
	bool ___ok; \
	might_sleep(); \
	while (!(___ok = !!(cond)) && shim_now() < ___until) \
		shim_sleep_on(list, ___until, SHIM_WHERE " " #cond); \
	!___ok ? 0L : ___until > shim_now() ? (long)nsecs_to_jiffies(___until - shim_now()) ?: 1L : 1L; })

#define wait_event(q, cond)			shim_wait(&(q).head, cond)
#define wait_event_killable(q, cond)		({ wait_event(q, cond); 0; })
#define wait_event_interruptible(q, cond)	({ wait_event(q, cond); 0; })
#define wait_event_timeout(q, cond, t)		shim_wait_timeout(&(q).head, cond, t)
#define wait_event_killable_timeout		wait_event_timeout
#define wait_event_interruptible_timeout	wait_event_timeout
#define wait_event_idle(q, cond)		wait_event(q, cond)
#define wait_var_event(v, cond)			shim_wait(&shim_var_waiters, cond)
#define __wait_drop(q, lk, cond)		do { \
	while (!(cond)) { spin_unlock_irq(&(lk)); shim_sleep_on(&(q).head, U64_MAX, SHIM_WHERE); spin_lock_irq(&(lk)); } \
} while (0)
#define wait_event_lock_irq(q, cond, lk)	__wait_drop(q, lk, cond)

struct completion {
	unsigned int done;
	wait_queue_head_t wait;
};

static inline void init_completion(struct completion *c)
{
	c->done = 0;
	init_waitqueue_head(&c->wait);
}

#define DECLARE_COMPLETION_ONSTACK(n)	struct completion n = { 0, __WAIT_QUEUE_HEAD_INITIALIZER(n.wait) }
#define DECLARE_COMPLETION		DECLARE_COMPLETION_ONSTACK
#define reinit_completion(c)		((void)((c)->done = 0))
#define completion_done(c)		(READ_ONCE((c)->done) != 0)

static inline void complete(struct completion *c)
{
	if (c->done != UINT_MAX)
		c->done++;
	shim_wake(&c->wait.head, 1);
}

static inline void complete_all(struct completion *c)
{
	c->done = UINT_MAX;
	shim_wake(&c->wait.head, ~0u);
}

#define wait_for_completion(c)		do { \
	wait_event((c)->wait, (c)->done); \
	if ((c)->done != UINT_MAX) \
		(c)->done--; \
} while (0)
#define wait_for_completion_timeout(c, t) ({ \
	long ___t = wait_event_timeout((c)->wait, (c)->done, t); \
	if (___t && (c)->done != UINT_MAX) \
		(c)->done--; \
	___t; })
#define wait_for_completion_killable(c)	({ wait_for_completion(c); 0; })
#define try_wait_for_completion(c)	((c)->done ? ((c)->done != UINT_MAX && (c)->done--, true) : false)

#endif
