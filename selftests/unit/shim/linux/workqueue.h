/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Work items and timers. A work runs in a fiber of its own, in the order of queueing, when the test pumps (shim_run())
 * or when somebody sleeps. Timers run on the virtual clock, in interrupt context unless their mode says soft.
 */
#ifndef SHIM_LINUX_WORKQUEUE_H
#define SHIM_LINUX_WORKQUEUE_H

#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/jiffies.h>
#include <linux/spinlock.h>
#include <linux/wait.h>

struct shim_timer {
	struct list_head entry;
	u64 expires;
	bool queued;
	bool soft;
	void (*fn)(struct shim_timer *t);
	const char *name;
};

void shim_timer_start(struct shim_timer *t, u64 expires);
bool shim_timer_cancel(struct shim_timer *t);

struct work_struct;
struct workqueue_struct;
typedef void (*work_func_t)(struct work_struct *work);

struct work_struct {
	work_func_t func;
	struct list_head entry;		/* pending */
	struct workqueue_struct *wq;
	void *running;			/* fiber */
	struct list_head waiters;
	bool pending;
	unsigned int disabled;
	const char *name;
};

struct delayed_work {
	struct work_struct work;
	struct shim_timer timer;
	struct workqueue_struct *wq;
};

void shim_work_init(struct work_struct *w, work_func_t f, const char *name);
void shim_dwork_timer(struct shim_timer *t);
#define INIT_WORK(w, f)		shim_work_init(w, f, #f)
#define INIT_WORK_ONSTACK	INIT_WORK
#define destroy_work_on_stack(w) do { } while (0)
#define INIT_DELAYED_WORK(d, f)	do { INIT_WORK(&(d)->work, f); (d)->timer = (struct shim_timer){ .fn = shim_dwork_timer, \
				     .soft = true, .name = #f }; (d)->wq = NULL; } while (0)
#define INIT_DEFERRABLE_WORK	INIT_DELAYED_WORK
#define to_delayed_work(w)	container_of(w, struct delayed_work, work)
#define work_pending(w)		((w)->pending)
#define delayed_work_pending(d)	((d)->timer.queued || (d)->work.pending)
unsigned int work_busy(struct work_struct *w);

#define WQ_UNBOUND		1
#define WQ_MEM_RECLAIM		2
#define WQ_HIGHPRI		4
#define WQ_FREEZABLE		8
#define WQ_CPU_INTENSIVE	16
#define WQ_SYSFS		32
#define WQ_PERCPU		64
#define __WQ_ORDERED		128
#define WQ_MAX_ACTIVE		512
#define WQ_DFL_ACTIVE		256

struct workqueue_struct *shim_wq_new(unsigned int flags, int max_active, const char *fmt, ...) __printf(3, 4);
#define alloc_workqueue(fmt, flags, max, a...)	shim_wq_new(flags, max, fmt, ##a)
#define alloc_ordered_workqueue(fmt, flags, a...) shim_wq_new((flags) | __WQ_ORDERED, 1, fmt, ##a)
#define create_singlethread_workqueue(n)	alloc_ordered_workqueue("%s", 0, n)
void destroy_workqueue(struct workqueue_struct *wq);
bool queue_work(struct workqueue_struct *wq, struct work_struct *w);
bool queue_delayed_work(struct workqueue_struct *wq, struct delayed_work *d, unsigned long delay);
bool mod_delayed_work(struct workqueue_struct *wq, struct delayed_work *d, unsigned long delay);
bool cancel_work(struct work_struct *w);
bool cancel_work_sync(struct work_struct *w);
bool cancel_delayed_work(struct delayed_work *d);
bool cancel_delayed_work_sync(struct delayed_work *d);
bool flush_work(struct work_struct *w);
bool flush_delayed_work(struct delayed_work *d);
bool disable_work_sync(struct work_struct *w);
bool enable_work(struct work_struct *w);
bool disable_delayed_work_sync(struct delayed_work *d);
void flush_workqueue(struct workqueue_struct *wq);
#define drain_workqueue		flush_workqueue
#define queue_work_on(c, q, w)	queue_work(q, w)
#define mod_delayed_work_on(c, q, d, t) mod_delayed_work(q, d, t)
extern struct workqueue_struct *system_wq;
#define system_unbound_wq	system_wq
#define system_highpri_wq	system_wq
#define system_long_wq		system_wq
#define system_percpu_wq	system_wq
#define system_dfl_wq		system_wq
#define schedule_work(w)	queue_work(system_wq, w)
#define schedule_delayed_work(d, t) queue_delayed_work(system_wq, d, t)

enum hrtimer_restart {
	HRTIMER_NORESTART,
	HRTIMER_RESTART,
};

enum hrtimer_mode {
	HRTIMER_MODE_ABS,
	HRTIMER_MODE_REL,
	HRTIMER_MODE_PINNED,
	HRTIMER_MODE_ABS_PINNED = HRTIMER_MODE_PINNED,
	HRTIMER_MODE_REL_PINNED,
	HRTIMER_MODE_SOFT,
	HRTIMER_MODE_ABS_SOFT = HRTIMER_MODE_SOFT,
	HRTIMER_MODE_REL_SOFT,
};

struct hrtimer {
	struct shim_timer timer;
	enum hrtimer_restart (*function)(struct hrtimer *t);
	bool running;
};

void shim_hrtimer_fire(struct shim_timer *t);
bool hrtimer_active(const struct hrtimer *t);
bool hrtimer_is_queued(struct hrtimer *t);
void hrtimer_start(struct hrtimer *t, ktime_t when, enum hrtimer_mode mode);
int hrtimer_cancel(struct hrtimer *t);
int hrtimer_try_to_cancel(struct hrtimer *t);
u64 hrtimer_forward(struct hrtimer *t, ktime_t now, ktime_t interval);
#define hrtimer_forward_now(t, i)	hrtimer_forward(t, ktime_get(), i)
#define hrtimer_setup(t, f, clock, mode) do { (t)->timer = (struct shim_timer){ .fn = shim_hrtimer_fire, \
	.soft = !!((mode) & HRTIMER_MODE_SOFT), .name = #f }; (t)->function = (f); (t)->running = false; } while (0)
#define hrtimer_start_range_ns(t, w, d, m) hrtimer_start(t, w, m)
#define hrtimer_get_expires(t)		((ktime_t)(t)->timer.expires)
#define hrtimer_set_expires(t, e)	((void)((t)->timer.expires = (e)))
#define hrtimer_restart(t)		hrtimer_start(t, (t)->timer.expires, HRTIMER_MODE_ABS)
#ifndef CLOCK_MONOTONIC
#define CLOCK_MONOTONIC 1
#endif

struct timer_list {
	struct shim_timer timer;
	void (*function)(struct timer_list *t);
};

void shim_timer_list_fire(struct shim_timer *t);
#define timer_setup(t, f, fl)	do { (t)->timer = (struct shim_timer){ .fn = shim_timer_list_fire, .soft = true, .name = #f }; \
				     (t)->function = (f); } while (0)
#define mod_timer(t, j)		shim_timer_start(&(t)->timer, shim_jiffies_to_ns(j))
#define timer_pending(t)	((t)->timer.queued)
#define timer_delete(t)		shim_timer_cancel(&(t)->timer)
#define timer_delete_sync	timer_delete
#define timer_shutdown_sync	timer_delete
#define del_timer_sync		timer_delete
#define timer_container_of(v, t, m) container_of(t, typeof(*(v)), m)

/* the rest of <linux/sched.h> that the engine may use */
struct task_struct {
	unsigned int flags;
	int pid;
};
struct task_struct *shim_current(void);
#define current			shim_current()
#define signal_pending(t)	((void)(t), false)
#define fatal_signal_pending(t)	((void)(t), false)
#define need_resched()		false
void shim_resched(const char *where);
#define cond_resched()		({ shim_resched(__func__); 0; })
#define schedule()		shim_resched(__func__)
#define yield()			shim_resched(__func__)
void shim_msleep(u64 ns);
#define msleep(m)		shim_msleep((m) * 1000000ULL)
#define usleep_range(a, b)	shim_msleep((a) * 1000ULL)
#define fsleep(u)		shim_msleep((u) * 1000ULL)
#define udelay(u)		do { } while (0)
#define ndelay(n)		do { } while (0)

#endif
