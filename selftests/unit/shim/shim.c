// SPDX-License-Identifier: GPL-2.0
/*
 * The simulated kernel behind the stand-in headers: fibers, locks, waiting, works, timers, RCU and memory.
 *
 * Guarantees to the test: no host thread but one, no order of events but one, and a report with the place in the source
 * for every rule of kernel code that the engine breaks (see linux/spinlock.h and linux/wait.h for which).
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "shim.h"

#if defined(__SANITIZE_ADDRESS__)
#define SHIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SHIM_ASAN 1
#endif
#endif

#ifdef SHIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n)		((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n)	((void)(p), (void)(n))
#define __sanitizer_start_switch_fiber(a, b, c)	((void)(b), (void)(c))
#define __sanitizer_finish_switch_fiber(a, b, c) ((void)(a))
#define __sanitizer_print_stack_trace()		((void)0)
#endif

#define STACK_SIZE	(512 << 10)
#define MAX_HELD	32

struct held {
	struct shim_lock *lock;
	int class;
	unsigned int how;
	bool in_irq;
};

struct shim_fiber {
	struct task_struct task;	/* what `current` points to */
	ucontext_t context;
	void *stack;			/* mapping, guard page first; NULL: the test's own */
	const void *bottom;
	size_t size;
	void *fake_stack;
	struct list_head entry;		/* ready or all idle workers */
	struct list_head all;
	struct list_head sleep;		/* in a wait queue */
	struct shim_timer alarm;
	const char *where;
	const char *name;
	void (*fn)(void *arg);
	void *arg;
	bool ready;
	bool woken;
	bool done;
	unsigned int cpu;
	unsigned int rcu;
	u64 rcu_passed;			/* sections left so far */
	unsigned int srcu;
	unsigned int irqs_off;
	unsigned int bh_off;
	unsigned int preempt_off;
	unsigned int in_irq;		/* 1 hard, 2 soft */
	int nr_held;
	struct held held[MAX_HELD];
};

struct workqueue_struct {
	struct list_head all;
	char name[32];
	unsigned int max_active;
	unsigned int active;
	unsigned int queued;		/* pending works */
	struct list_head waiters;
};

void (*shim_die_hook)(const char *message) __noreturn;
bool shim_verbose;
struct list_head shim_var_waiters = LIST_HEAD_INIT(shim_var_waiters);

static struct shim_fiber main_fiber = { .name = "test" };
static struct shim_fiber *cur = &main_fiber;
static struct shim_fiber *prev_fiber;
static LIST_HEAD(fibers);
static LIST_HEAD(ready);
static LIST_HEAD(idle);
static LIST_HEAD(works);
static LIST_HEAD(timers);
static u64 now = 1000000000;	/* the machine has been up for a second */
static bool main_pumps;
static unsigned int rcu_readers;
static struct rcu_head *rcu_queue, **rcu_tail = &rcu_queue;
static u64 preempt_state;
static unsigned int fiber_count;
static struct workqueue_struct the_system_wq = {
	.all = LIST_HEAD_INIT(the_system_wq.all), .name = "events", .max_active = WQ_MAX_ACTIVE,
	.waiters = LIST_HEAD_INIT(the_system_wq.waiters),
};
struct workqueue_struct *system_wq = &the_system_wq;

static void schedule_fiber(void);
static bool rcu_check(void);

/* complaints */

void shim_printk(const char *fmt, ...)
{
	va_list ap;

	if (!shim_verbose)
		return;
	va_start(ap, fmt);
	fputs("# ", stderr);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
}

static void print_fibers(void)
{
	struct shim_fiber *f;

	list_for_each_entry(f, &fibers, all) {
		if (f->done)
			continue;
		fprintf(stderr, "#   %-24s %s%s%s", f->name, f == cur ? "runs" : f->ready ? "is ready" : "sleeps",
			f->where ? " at " : "", f->where ?: "");
		for (int i = 0; i < f->nr_held; i++)
			fprintf(stderr, "%s%s", i ? ", " : "; holds ", f->held[i].lock->class);
		fputc('\n', stderr);
	}
}

void shim_die(const char *fmt, ...)
{
	static char message[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	if (shim_die_hook)
		shim_die_hook(message);
	fprintf(stderr, "# shim: %s\n", message);
	print_fibers();
	__sanitizer_print_stack_trace();
	abort();
}

/* fibers */

static void __attribute__((constructor)) shim_start(void)
{
	list_add_tail(&main_fiber.all, &fibers);
	INIT_LIST_HEAD(&main_fiber.sleep);
	INIT_LIST_HEAD(&main_fiber.entry);
}

static void finish_switch(void *fake_stack)
{
	const void *bottom;
	size_t size;

	/* the first switch away from the test tells where its stack is */
	(void)bottom, (void)size;
#ifdef SHIM_ASAN
	__sanitizer_finish_switch_fiber(fake_stack, &bottom, &size);
	if (!prev_fiber->stack) {
		prev_fiber->bottom = bottom;
		prev_fiber->size = size;
	}
#else
	(void)fake_stack;
#endif
}

static void switch_to(struct shim_fiber *next)
{
	struct shim_fiber *self = cur;

	if (next == self)
		return;
	prev_fiber = self;
	cur = next;
	__sanitizer_start_switch_fiber(&self->fake_stack, next->bottom, next->size);
	swapcontext(&self->context, &next->context);
	finish_switch(self->fake_stack);
}

static void check_end(const char *what)
{
	if (cur->nr_held)
		shim_die("%s ends with %s held", what, cur->held[cur->nr_held - 1].lock->class);
	if (cur->rcu || cur->srcu || cur->irqs_off || cur->bh_off || cur->preempt_off)
		shim_die("%s ends inside an RCU section or with interrupts, softirqs or preemption disabled", what);
}

static void fiber_main(void)
{
	finish_switch(NULL);
	for (;;) {
		cur->fn(cur->arg);
		check_end(cur->name);
		cur->done = true;
		cur->where = NULL;
		list_add(&cur->entry, &idle);
		schedule_fiber();
	}
}

static void make_ready(struct shim_fiber *f)
{
	if (f->ready)
		return;
	f->ready = true;
	list_add_tail(&f->entry, &ready);
}

static struct shim_fiber *fiber_new(void (*fn)(void *arg), void *arg, const char *name, bool reuse)
{
	struct shim_fiber *f;

	if (reuse && !list_empty(&idle)) {
		f = list_first_entry(&idle, struct shim_fiber, entry);
		list_del(&f->entry);
	} else {
		f = calloc(1, sizeof(*f));
		f->stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (f->stack == MAP_FAILED)
			shim_die("no memory for a stack");
		mprotect(f->stack, PAGE_SIZE, PROT_NONE);
		f->bottom = (char *)f->stack + PAGE_SIZE;
		f->size = STACK_SIZE - PAGE_SIZE;
		getcontext(&f->context);
		f->context.uc_stack.ss_sp = (void *)f->bottom;
		f->context.uc_stack.ss_size = f->size;
		makecontext(&f->context, fiber_main, 0);
		f->cpu = ++fiber_count % NR_CPUS;
		f->task.pid = 1 + fiber_count;
		INIT_LIST_HEAD(&f->sleep);
		list_add_tail(&f->all, &fibers);
	}
	f->fn = fn;
	f->arg = arg;
	f->name = name;
	f->done = false;
	make_ready(f);
	return f;
}

struct shim_fiber *shim_spawn(void (*fn)(void *arg), void *arg, const char *name)
{
	return fiber_new(fn, arg, name, false);
}

bool shim_done(const struct shim_fiber *f)
{
	return f->done;
}

unsigned int shim_cpu(void)
{
	return cur->cpu;
}

struct task_struct *shim_current(void)
{
	return &cur->task;
}

static bool start_work(void);
static bool fire_next_timer(u64 until);

/* runs somebody else; returns when the caller is made ready */
static void schedule_fiber(void)
{
	unsigned int spins = 0;

	for (;;) {
		if (!list_empty(&ready)) {
			struct shim_fiber *f = list_first_entry(&ready, struct shim_fiber, entry);

			list_del(&f->entry);
			f->ready = false;
			switch_to(f);
			return;
		}
		if (start_work())
			continue;
		if (rcu_check())
			continue;
		if (main_pumps) {
			make_ready(&main_fiber);
			continue;
		}
		/* the test itself sleeps: time passes */
		if (fire_next_timer(U64_MAX)) {
			if (++spins > 1000000)
				shim_die("deadlock: a million timers have not ended the wait");
			continue;
		}
		shim_die("deadlock: everybody sleeps and no timer is set");
	}
}

void shim_yield(void)
{
	/* works too get their turn, or two fibers that wait for one by yielding would starve it */
	while (start_work())
		;
	make_ready(cur);
	schedule_fiber();
}

void shim_preempt_seed(u64 seed)
{
	preempt_state = seed;
}

static void maybe_preempt(void)
{
	if (!preempt_state || cur->in_irq)
		return;
	preempt_state ^= preempt_state << 13;
	preempt_state ^= preempt_state >> 7;
	preempt_state ^= preempt_state << 17;
	if (preempt_state % 4 == 0)
		shim_yield();
}

void shim_resched(const char *where)
{
	shim_might_sleep(where);
	maybe_preempt();
}

void shim_run(void)
{
	if (cur != &main_fiber)
		shim_die("shim_run() outside the test");
	shim_might_sleep("shim_run");
	main_pumps = true;
	schedule_fiber();
	main_pumps = false;
}

void shim_settle(void)
{
	if (cur == &main_fiber)
		shim_run();
	else
		shim_yield();
}

/* locks */

#define MAX_CLASSES	256
#define MAX_SUB		4

static const char *class_key[MAX_CLASSES];
static unsigned int class_sub[MAX_CLASSES];
static unsigned char class_irq[MAX_CLASSES];	/* 1: taken in hard irq, 2: soft, 4: with irqs on, 8: with bh on */
static DECLARE_BITMAP(class_after[MAX_CLASSES], MAX_CLASSES);
static int nr_classes;

static int class_of(const struct shim_lock *l, unsigned int sub)
{
	int i;

	for (i = 0; i < nr_classes; i++)
		if (class_key[i] == l->class && class_sub[i] == sub)
			return i;
	if (nr_classes == MAX_CLASSES)
		shim_die("too many lock classes");
	class_key[i] = l->class;
	class_sub[i] = sub;
	return nr_classes++;
}

static bool reaches(int from, int to, unsigned long *seen)
{
	unsigned long c;

	if (from == to)
		return true;
	__set_bit(from, seen);
	for_each_set_bit(c, class_after[from], nr_classes)
		if (!test_bit(c, seen) && reaches(c, to, seen))
			return true;
	return false;
}

void shim_lock_init(struct shim_lock *l, const char *class, bool sleeps)
{
	l->class = class;
	l->owner = NULL;
	l->sleeps = sleeps;
	INIT_LIST_HEAD(&l->waiters);
}

static bool irqs_off(void)
{
	return cur->irqs_off || cur->in_irq == 1;
}

static bool bh_off(void)
{
	return cur->bh_off || cur->in_irq || cur->irqs_off;
}

static void check_order(struct shim_lock *l, int class, bool try)
{
	DECLARE_BITMAP(seen, MAX_CLASSES);
	int i;

	for (i = 0; i < cur->nr_held; i++) {
		int h = cur->held[i].class;

		if (cur->held[i].lock == l)
			shim_die("%s is taken twice", l->class);
		if (try)
			continue;
		if (h == class)
			shim_die("two locks of class %s are nested without a subclass", l->class);
		if (test_bit(class, class_after[h]))
			continue;
		bitmap_zero(seen, MAX_CLASSES);
		if (reaches(class, h, seen))
			shim_die("lock order: %s is taken under %s, which was taken under it before",
				 l->class, class_key[h]);
		__set_bit(class, class_after[h]);
	}
	if (l->sleeps)
		return;
	class_irq[class] |= cur->in_irq | (irqs_off() ? 0 : 4) | (bh_off() ? 0 : 8);
	if ((class_irq[class] & 5) == 5)
		shim_die("%s is taken by interrupts and with interrupts on", l->class);
	if ((class_irq[class] & 10) == 10)
		shim_die("%s is taken by softirqs and with softirqs on", l->class);
}

bool shim_lock(struct shim_lock *l, unsigned int how, unsigned int subclass)
{
	bool try = how & SHIM_LOCK_TRY;
	struct held *held;
	int class;

	if (!l->waiters.next)
		shim_die("lock used before it was initialised");
	maybe_preempt();
	if (l->sleeps && !try)
		shim_might_sleep(l->class);
	if (how & SHIM_LOCK_IRQ)
		shim_irq_disable(1);
	if (how & SHIM_LOCK_BH)
		cur->bh_off++;
	class = class_of(l, subclass);
	check_order(l, class, try);
	while (l->owner) {
		if (l->owner == cur)
			shim_die("%s is taken twice", l->class);
		if (try) {
			if (how & SHIM_LOCK_IRQ)
				shim_irq_disable(-1);
			if (how & SHIM_LOCK_BH)
				cur->bh_off--;
			return false;
		}
		if (l->sleeps) {
			shim_sleep_on(&l->waiters, U64_MAX, l->class);
		} else {
			if (cur->in_irq)
				shim_die("%s: an interrupt spins on a lock that its own CPU holds", l->class);
			shim_yield();
		}
	}
	l->owner = cur;
	if (cur->nr_held == MAX_HELD)
		shim_die("too many locks held");
	held = &cur->held[cur->nr_held++];
	*held = (struct held){ .lock = l, .class = class, .how = how, .in_irq = cur->in_irq };
	return true;
}

void shim_unlock(struct shim_lock *l, unsigned int how)
{
	bool contended = l->waiters.next && !list_empty(&l->waiters);
	int i;

	if (!l->owner)
		shim_die("%s is released and not held", l->class ?: "uninitialised lock");
	if (l->owner != cur)
		shim_die("%s is released by somebody who does not hold it", l->class);
	for (i = cur->nr_held - 1; cur->held[i].lock != l; i--)
		;
	if ((cur->held[i].how & ~SHIM_LOCK_TRY) != how)
		shim_die("%s is released by another variant than it was taken by", l->class);
	memmove(&cur->held[i], &cur->held[i + 1], (cur->nr_held - i - 1) * sizeof(cur->held[0]));
	cur->nr_held--;
	l->owner = NULL;
	shim_wake(&l->waiters, 1);
	if (how & SHIM_LOCK_IRQ)
		shim_irq_disable(-1);
	if (how & SHIM_LOCK_BH)
		cur->bh_off--;
	/* the kernel's mutex is handed to a waiter that lost it once; here the waiter has its turn at once */
	if (contended && l->sleeps)
		shim_yield();
	else
		maybe_preempt();
}

bool shim_lock_held(const struct shim_lock *l)
{
	return l->owner == cur;
}

void mutex_destroy(struct mutex *m)
{
	if (m->l.owner)
		shim_die("%s is destroyed while held", m->l.class);
}

void shim_irq_disable(int by)
{
	if (by < 0 && !cur->irqs_off)
		shim_die("interrupts enabled more often than disabled");
	cur->irqs_off += by;
}

unsigned long shim_irqs_disabled(void)
{
	return irqs_off();
}

void shim_preempt_disable(int by)
{
	if (by < 0 && !cur->preempt_off)
		shim_die("preemption enabled more often than disabled");
	cur->preempt_off += by;
}

bool shim_in_irq(void)
{
	return cur->in_irq;
}

void shim_might_sleep(const char *what)
{
	int i;

	if (cur->in_irq)
		shim_die("sleeping function in interrupt context: %s", what);
	for (i = 0; i < cur->nr_held; i++)
		if (!cur->held[i].lock->sleeps)
			shim_die("sleeping function with %s held: %s", cur->held[i].lock->class, what);
	if (cur->rcu)
		shim_die("sleeping function inside rcu_read_lock(): %s", what);
	if (cur->irqs_off || cur->bh_off || cur->preempt_off)
		shim_die("sleeping function with interrupts, softirqs or preemption disabled: %s", what);
}

/* waiting */

static void alarm_fires(struct shim_timer *t)
{
	struct shim_fiber *f = container_of(t, struct shim_fiber, alarm);

	list_del_init(&f->sleep);
	make_ready(f);
}

bool shim_sleep_on(struct list_head *q, u64 until, const char *where)
{
	shim_might_sleep(where);
	cur->where = where;
	cur->woken = false;
	list_add_tail(&cur->sleep, q);
	if (until != U64_MAX) {
		cur->alarm = (struct shim_timer){ .fn = alarm_fires, .name = "wait" };
		shim_timer_start(&cur->alarm, until);
	}
	schedule_fiber();
	if (until != U64_MAX)
		shim_timer_cancel(&cur->alarm);
	cur->where = NULL;
	return cur->woken;
}

void shim_wake(struct list_head *q, unsigned int nr)
{
	if (!q->next)
		shim_die("wake-up on a wait queue that was not initialised");
	while (nr-- && !list_empty(q)) {
		struct shim_fiber *f = list_first_entry(q, struct shim_fiber, sleep);

		list_del_init(&f->sleep);
		f->woken = true;
		make_ready(f);
	}
}

void shim_msleep(u64 ns)
{
	LIST_HEAD(nobody);
	u64 until = now + ns;

	shim_might_sleep("msleep");
	while (now < until)
		shim_sleep_on(&nobody, until, "msleep");
}

/* time */

u64 shim_now(void)
{
	return now;
}

u64 shim_next_timer(void)
{
	return list_empty(&timers) ? U64_MAX : list_first_entry(&timers, struct shim_timer, entry)->expires;
}

void shim_timer_start(struct shim_timer *t, u64 expires)
{
	struct list_head *at;

	if (!t->fn)
		shim_die("timer started before it was set up");
	shim_timer_cancel(t);
	t->expires = expires;
	t->queued = true;
	for (at = timers.prev; at != &timers; at = at->prev)
		if (list_entry(at, struct shim_timer, entry)->expires <= expires)
			break;
	list_add(&t->entry, at);
}

bool shim_timer_cancel(struct shim_timer *t)
{
	if (!t->queued)
		return false;
	t->queued = false;
	list_del(&t->entry);
	return true;
}

static void in_irq(unsigned int kind, void (*fn)(void *arg), void *arg)
{
	unsigned int was = cur->in_irq;
	int held = cur->nr_held;

	cur->in_irq = kind;
	fn(arg);
	cur->in_irq = was;
	if (cur->nr_held != held)
		shim_die("an interrupt handler ends with %s held", cur->held[cur->nr_held - 1].lock->class);
}

static void fire(void *arg)
{
	struct shim_timer *t = arg;

	t->fn(t);
}

static bool fire_next_timer(u64 until)
{
	struct shim_timer *t;

	if (list_empty(&timers))
		return false;
	t = list_first_entry(&timers, struct shim_timer, entry);
	if (t->expires > until)
		return false;
	if (now < t->expires)
		now = t->expires;
	shim_timer_cancel(t);
	in_irq(t->soft ? 2 : 1, fire, t);
	return true;
}

void shim_advance(u64 ns)
{
	u64 until = now + ns;

	shim_run();
	while (fire_next_timer(until))
		shim_run();
	now = until;
	shim_run();
}

void shim_call_in_irq(void (*fn)(void *arg), void *arg)
{
	in_irq(1, fn, arg);
}

void shim_hrtimer_fire(struct shim_timer *t)
{
	struct hrtimer *h = container_of(t, struct hrtimer, timer);

	h->running = true;
	if (h->function(h) == HRTIMER_RESTART && !t->queued)
		shim_timer_start(t, t->expires);
	h->running = false;
}

void shim_timer_list_fire(struct shim_timer *t)
{
	struct timer_list *l = container_of(t, struct timer_list, timer);

	l->function(l);
}

bool hrtimer_active(const struct hrtimer *t)
{
	return t->timer.queued || t->running;
}

bool hrtimer_is_queued(struct hrtimer *t)
{
	return t->timer.queued;
}

void hrtimer_start(struct hrtimer *t, ktime_t when, enum hrtimer_mode mode)
{
	if (when < 0)
		shim_die("hrtimer_start: negative time");
	shim_timer_start(&t->timer, mode & HRTIMER_MODE_REL ? now + when : (u64)when);
}

int hrtimer_try_to_cancel(struct hrtimer *t)
{
	return t->running ? -1 : shim_timer_cancel(&t->timer);
}

int hrtimer_cancel(struct hrtimer *t)
{
	if (t->running)
		shim_die("hrtimer_cancel() from the timer's own callback");
	return shim_timer_cancel(&t->timer);
}

u64 hrtimer_forward(struct hrtimer *t, ktime_t at, ktime_t interval)
{
	u64 n = 0;

	while ((ktime_t)t->timer.expires <= at) {
		t->timer.expires += interval;
		n++;
	}
	return n;
}

/* works */

void shim_work_init(struct work_struct *w, work_func_t f, const char *name)
{
	*w = (struct work_struct){ .func = f, .name = name };
	INIT_LIST_HEAD(&w->waiters);
}

static LIST_HEAD(workqueues);

struct workqueue_struct *shim_wq_new(unsigned int flags, int max_active, const char *fmt, ...)
{
	struct workqueue_struct *wq = kzalloc(sizeof(*wq), GFP_KERNEL);
	va_list ap;

	if (!wq)
		return NULL;
	va_start(ap, fmt);
	vsnprintf(wq->name, sizeof(wq->name), fmt, ap);
	va_end(ap);
	wq->max_active = max_active ?: WQ_DFL_ACTIVE;
	INIT_LIST_HEAD(&wq->waiters);
	list_add(&wq->all, &workqueues);
	return wq;
}

static void run_work(void *arg)
{
	struct work_struct *w = arg;
	struct workqueue_struct *wq = w->wq;

	w->func(w);
	/*
	 * The function may have freed its work, so only the fiber itself says what is over: waiters are in w->waiters
	 * as long as the memory lives, and nobody frees a work that somebody waits for.
	 */
	wq->active--;
	if (cur->arg) {
		w->running = NULL;
		shim_wake(&w->waiters, ~0u);
	}
	shim_wake(&wq->waiters, ~0u);
	maybe_preempt();
}

static bool start_work(void)
{
	struct work_struct *w;

	list_for_each_entry(w, &works, entry) {
		if (w->running || w->wq->active >= w->wq->max_active)
			continue;
		list_del(&w->entry);
		w->pending = false;
		w->wq->queued--;
		w->wq->active++;
		w->running = fiber_new(run_work, w, w->name, true);
		return true;
	}
	return false;
}

bool queue_work(struct workqueue_struct *wq, struct work_struct *w)
{
	if (!w->func)
		shim_die("work queued before it was initialised");
	if (w->pending || w->disabled)
		return false;
	w->pending = true;
	w->wq = wq;
	wq->queued++;
	list_add_tail(&w->entry, &works);
	return true;
}

void shim_dwork_timer(struct shim_timer *t)
{
	struct delayed_work *d = container_of(t, struct delayed_work, timer);

	queue_work(d->wq, &d->work);
}

bool queue_delayed_work(struct workqueue_struct *wq, struct delayed_work *d, unsigned long delay)
{
	if (d->timer.queued || d->work.pending || d->work.disabled)
		return false;
	d->wq = wq;
	if (!delay)
		return queue_work(wq, &d->work);
	shim_timer_start(&d->timer, now + shim_jiffies_to_ns(delay));
	return true;
}

bool cancel_work(struct work_struct *w)
{
	if (!w->pending)
		return false;
	list_del(&w->entry);
	w->pending = false;
	w->wq->queued--;
	shim_wake(&w->waiters, ~0u);
	shim_wake(&w->wq->waiters, ~0u);
	return true;
}

bool cancel_delayed_work(struct delayed_work *d)
{
	bool timer = shim_timer_cancel(&d->timer);

	return cancel_work(&d->work) || timer;
}

bool mod_delayed_work(struct workqueue_struct *wq, struct delayed_work *d, unsigned long delay)
{
	bool was = cancel_delayed_work(d);

	queue_delayed_work(wq, d, delay);
	return was;
}

static void wait_running(struct work_struct *w, const char *what)
{
	shim_might_sleep(what);
	if (w->running == cur)
		shim_die("%s from the work itself", what);
	while (w->running)
		shim_sleep_on(&w->waiters, U64_MAX, what);
}

bool cancel_work_sync(struct work_struct *w)
{
	bool was = cancel_work(w);

	/* it may queue itself again while it is waited for */
	w->disabled++;
	wait_running(w, "cancel_work_sync()");
	w->disabled--;
	return was;
}

bool cancel_delayed_work_sync(struct delayed_work *d)
{
	bool was = cancel_delayed_work(d);

	d->work.disabled++;
	wait_running(&d->work, "cancel_delayed_work_sync()");
	d->work.disabled--;
	return was;
}

bool disable_work_sync(struct work_struct *w)
{
	bool was = cancel_work(w);

	w->disabled++;
	wait_running(w, "disable_work_sync()");
	return was;
}

bool disable_delayed_work_sync(struct delayed_work *d)
{
	bool was = shim_timer_cancel(&d->timer);

	return disable_work_sync(&d->work) || was;
}

bool enable_work(struct work_struct *w)
{
	return !--w->disabled;
}

bool flush_work(struct work_struct *w)
{
	bool was = w->pending || w->running;

	shim_might_sleep("flush_work()");
	if (w->running == cur)
		shim_die("flush_work() from the work itself");
	while (w->pending || w->running)
		shim_sleep_on(&w->waiters, U64_MAX, "flush_work()");
	return was;
}

bool flush_delayed_work(struct delayed_work *d)
{
	if (shim_timer_cancel(&d->timer))
		queue_work(d->wq, &d->work);
	return flush_work(&d->work);
}

void flush_workqueue(struct workqueue_struct *wq)
{
	shim_might_sleep("flush_workqueue()");
	while (wq->active || wq->queued)
		shim_sleep_on(&wq->waiters, U64_MAX, "flush_workqueue()");
}

void destroy_workqueue(struct workqueue_struct *wq)
{
	struct shim_timer *t;

	flush_workqueue(wq);
	list_for_each_entry(t, &timers, entry)
		if (t->fn == shim_dwork_timer && container_of(t, struct delayed_work, timer)->wq == wq)
			shim_die("workqueue %s destroyed with the delayed work %s in flight", wq->name, t->name);
	list_del(&wq->all);
	kfree(wq);
}

unsigned int work_busy(struct work_struct *w)
{
	return w->pending || w->running;
}

/* RCU */

void rcu_read_lock(void)
{
	cur->rcu++;
	rcu_readers++;
	maybe_preempt();
}

void rcu_read_unlock(void)
{
	if (!cur->rcu)
		shim_die("rcu_read_unlock() outside a section");
	cur->rcu--;
	rcu_readers--;
	if (!cur->rcu)
		cur->rcu_passed++;
	maybe_preempt();
}

bool rcu_read_lock_held(void)
{
	return cur->rcu;
}

void synchronize_rcu(void)
{
	struct shim_fiber *f;

	shim_might_sleep("synchronize_rcu()");
	list_for_each_entry(f, &fibers, all) {
		u64 passed = f->rcu_passed;

		while (f->rcu && f->rcu_passed == passed)
			shim_yield();
	}
}

struct kfree_call {
	struct rcu_head *head;
	void *p;
	struct kfree_call *next;
};

static struct kfree_call *kfree_queue;

void call_rcu(struct rcu_head *head, void (*func)(struct rcu_head *head))
{
	head->func = func;
	head->next = NULL;
	*rcu_tail = head;
	rcu_tail = &head->next;
}

/* the object stays untouched until it is freed, so that late writers are seen by the sanitizer only after that */
void shim_kfree_rcu(struct rcu_head *head, void *p)
{
	struct kfree_call *c = malloc(sizeof(*c));

	*c = (struct kfree_call){ .head = head, .p = p, .next = kfree_queue };
	kfree_queue = c;
}

/* runs what no reader can see any more; true if there was anything */
static bool rcu_check(void)
{
	bool any = !rcu_readers && (rcu_queue || kfree_queue);

	while (!rcu_readers && rcu_queue) {
		struct rcu_head *head = rcu_queue;

		rcu_queue = head->next;
		if (!rcu_queue)
			rcu_tail = &rcu_queue;
		head->func(head);
	}
	while (!rcu_readers && kfree_queue) {
		struct kfree_call *c = kfree_queue;

		kfree_queue = c->next;
		kfree(c->p);
		free(c);
	}
	return any;
}

void rcu_barrier(void)
{
	shim_might_sleep("rcu_barrier()");
	while (rcu_readers)
		shim_yield();
	rcu_check();
}

int init_srcu_struct(struct srcu_struct *s)
{
	*s = (struct srcu_struct){ };
	INIT_LIST_HEAD(&s->waiters);
	return 0;
}

void cleanup_srcu_struct(struct srcu_struct *s)
{
	if (s->readers[0] || s->readers[1])
		shim_die("cleanup_srcu_struct() with readers inside");
}

int srcu_read_lock(struct srcu_struct *s)
{
	s->readers[s->idx]++;
	cur->srcu++;
	return s->idx;
}

void srcu_read_unlock(struct srcu_struct *s, int idx)
{
	s->readers[idx]--;
	cur->srcu--;
	if (!s->readers[idx])
		shim_wake(&s->waiters, ~0u);
}

void synchronize_srcu(struct srcu_struct *s)
{
	unsigned int old = s->idx;

	shim_might_sleep("synchronize_srcu()");
	if (cur->srcu)
		shim_die("synchronize_srcu() inside a section");
	while (s->readers[!old])
		shim_sleep_on(&s->waiters, U64_MAX, "synchronize_srcu()");
	s->idx = !old;
	while (s->readers[old])
		shim_sleep_on(&s->waiters, U64_MAX, "synchronize_srcu()");
}

/* memory */

struct block {
	struct list_head entry;
	size_t size;
	void *base;		/* what malloc() gave */
	void *from;		/* who asked */
	u64 magic;
};

#define BLOCK_MAGIC	0x736f667468636121ULL

static LIST_HEAD(blocks);
static unsigned long blocks_alive, blocks_made, fail_in;
static bool failed;

void shim_fail_nth(unsigned long n)
{
	fail_in = n;
	failed = false;
}

bool shim_failed(void)
{
	return failed;
}

unsigned long shim_allocs_alive(void)
{
	return blocks_alive;
}

unsigned long shim_allocs_made(void)
{
	return blocks_made;
}

static struct block *block_of(const void *p)
{
	struct block *b = (struct block *)((char *)p - sizeof(*b));

	ASAN_UNPOISON_MEMORY_REGION(b, sizeof(*b));
	if (b->magic != BLOCK_MAGIC)
		shim_die("not an allocation, or its head was overwritten: %p", p);
	return b;
}

void *shim_alloc(size_t n, size_t size, gfp_t flags, size_t max)
{
	size_t bytes, align, room;
	struct block *b;
	char *base, *p;

	if (flags & __GFP_DIRECT_RECLAIM)
		shim_might_sleep("allocation that may sleep");
	maybe_preempt();
	blocks_made++;
	if (fail_in && !--fail_in && !(flags & __GFP_NOFAIL)) {
		failed = true;
		if (shim_verbose) {
			fprintf(stderr, "# shim: this allocation fails\n");
			__sanitizer_print_stack_trace();
		}
		return NULL;
	}
	if (check_mul_overflow(n, size, &bytes) || bytes > max)
		return NULL;
	/* as slab does: natural alignment for powers of two */
	align = bytes >= 16 && is_power_of_2(bytes) ? min_t(size_t, bytes, PAGE_SIZE) : 16;
	align = max_t(size_t, align, 16);
	room = sizeof(*b) + align + ALIGN(bytes, align);
	/* calloc() does not touch large memory: most tests use little of the engine's tables */
	base = flags & __GFP_ZERO ? calloc(1, room) : malloc(room);
	if (!base)
		shim_die("the host is out of memory: %zu bytes", bytes);
	p = PTR_ALIGN(base + sizeof(*b), align);
	b = (struct block *)p - 1;
	*b = (struct block){ .size = bytes, .base = base, .from = __builtin_return_address(0), .magic = BLOCK_MAGIC };
	/* fresh memory is not zero by luck */
	if (!(flags & __GFP_ZERO))
		memset(p, 0xa5, bytes);
	/* the list goes through poisoned heads: unpoison the neighbours while linking */
	if (blocks.next != &blocks)
		ASAN_UNPOISON_MEMORY_REGION(list_entry(blocks.next, struct block, entry), sizeof(*b));
	list_add(&b->entry, &blocks);
	if (b->entry.next != &blocks)
		ASAN_POISON_MEMORY_REGION(list_entry(b->entry.next, struct block, entry), sizeof(*b));
	ASAN_POISON_MEMORY_REGION(base, p - base);
	ASAN_POISON_MEMORY_REGION(p + ALIGN(bytes, 8), base + room - (p + ALIGN(bytes, 8)));
	blocks_alive++;
	return p;
}

static void check_no_objects(const char *p, size_t size)
{
	struct shim_fiber *f;
	struct work_struct *w;
	struct shim_timer *t;
	int i;

#define INSIDE(x) ((const char *)(x) >= p && (const char *)(x) < p + size)
	list_for_each_entry(t, &timers, entry)
		if (INSIDE(t))
			shim_die("freeing memory with the running timer %s in it", t->name);
	list_for_each_entry(w, &works, entry)
		if (INSIDE(w))
			shim_die("freeing memory with the queued work %s in it", w->name);
	list_for_each_entry(f, &fibers, all) {
		for (i = 0; i < f->nr_held; i++)
			if (INSIDE(f->held[i].lock))
				shim_die("freeing memory with the held lock %s in it", f->held[i].lock->class);
		if (!list_empty(&f->sleep) && (INSIDE(f->sleep.next) || INSIDE(f->sleep.prev)))
			shim_die("freeing memory with a wait queue in it where %s sleeps at %s", f->name, f->where);
		/* a work may free itself at its end: then nothing may be said about it any more */
		if (!f->done && f->fn == run_work && INSIDE(f->arg)) {
			if (f != cur)
				shim_die("freeing memory with the running work %s in it", f->name);
			f->arg = NULL;
		}
	}
#undef INSIDE
}

void shim_free(const void *p)
{
	struct block *b, *n, *v;

	if (!p)
		return;
	b = block_of(p);
	check_no_objects(p, b->size);
	n = list_entry(b->entry.next, struct block, entry);
	v = list_entry(b->entry.prev, struct block, entry);
	if (&n->entry != &blocks)
		ASAN_UNPOISON_MEMORY_REGION(n, sizeof(*n));
	if (&v->entry != &blocks)
		ASAN_UNPOISON_MEMORY_REGION(v, sizeof(*v));
	list_del(&b->entry);
	if (&n->entry != &blocks)
		ASAN_POISON_MEMORY_REGION(n, sizeof(*n));
	if (&v->entry != &blocks)
		ASAN_POISON_MEMORY_REGION(v, sizeof(*v));
	b->magic = 0;
	blocks_alive--;
	free(b->base);
}

size_t ksize(const void *p)
{
	struct block *b = block_of(p);
	size_t size = b->size;

	ASAN_POISON_MEMORY_REGION(b, sizeof(*b));
	return size;
}

void *shim_realloc(const void *p, size_t size, gfp_t flags, size_t max)
{
	void *n = shim_alloc(1, size, flags, max);

	if (n && p) {
		memcpy(n, p, min(size, ksize(p)));
		shim_free(p);
	}
	return n;
}

void *shim_alloc_percpu(size_t size, gfp_t flags)
{
	if (size > SHIM_PERCPU_STRIDE)
		shim_die("per-CPU allocation of %zu bytes", size);
	return shim_alloc(1, (NR_CPUS - 1) * SHIM_PERCPU_STRIDE + size, flags | __GFP_ZERO, SHIM_KV_MAX);
}

struct kmem_cache *shim_cache(size_t size)
{
	struct kmem_cache *c = kzalloc(sizeof(*c), GFP_KERNEL);

	if (c)
		c->size = size;
	return c;
}

void sort(void *base, size_t num, size_t size, cmp_func_t cmp, void (*swap_func)(void *, void *, int))
{
	(void)swap_func;
	qsort(base, num, size, cmp);
}

/* the end of a test */

void shim_check_quiet(void)
{
	struct shim_fiber *f;

	check_end("the test");
	shim_run();
	if (!list_empty(&timers))
		shim_die("the timer %s is still set", list_first_entry(&timers, struct shim_timer, entry)->name);
	if (!list_empty(&works))
		shim_die("the work %s is still queued", list_first_entry(&works, struct work_struct, entry)->name);
	list_for_each_entry(f, &fibers, all)
		if (f != &main_fiber && !f->done)
			shim_die("%s has not ended", f->name);
	if (!list_empty(&workqueues))
		shim_die("the workqueue %s was not destroyed",
			 list_first_entry(&workqueues, struct workqueue_struct, all)->name);
	if (rcu_queue || kfree_queue)
		shim_die("RCU callbacks are left");
	if (!list_empty(&blocks)) {
		struct block *b = list_first_entry(&blocks, struct block, entry);

		ASAN_UNPOISON_MEMORY_REGION(b, sizeof(*b));
		shim_die("%lu allocations leaked, the last one %zu bytes by %p", blocks_alive, b->size, b->from);
	}
}
