// SPDX-License-Identifier: GPL-2.0
/*
 * The simulated kernel and the simulated memory are held to what they promise: every misuse that they say they detect is
 * committed here once, in a process of its own, and must be reported. A checker that never fires proves nothing.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/bitmap.h>
#include <linux/hrtimer.h>
#include <linux/kernel.h>
#include <linux/rcupdate.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "unit.h"

static const char *wanted;

static void __attribute__((__noreturn__)) died(const char *message)
{
	_exit(strstr(message, wanted) ? 42 : (fprintf(stderr, "# died of: %s\n", message), 43));
}

static int in_child(void (*fn)(void))
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		if (wanted)
			shim_die_hook = died;
		else if (!freopen("/dev/null", "w", stderr))	/* a sanitizer's report is expected */
			_exit(44);
		fn();
		shim_check_quiet();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return status;
}

static void must_die(const char *what, void (*fn)(void), const char *message)
{
	int status;

	wanted = message;
	status = in_child(fn);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 42)
		FAIL("%s: not reported as \"%s\" (status %#x)", what, message, status);
}
#define MUST_DIE(fn, message) must_die(#fn, fn, message)

static DEFINE_SPINLOCK(lock_a);
static DEFINE_SPINLOCK(lock_b);
static DEFINE_MUTEX(mutex_a);
static DEFINE_MUTEX(mutex_b);
static DECLARE_WAIT_QUEUE_HEAD(queue);
static bool flag;

static void two_spinlocks(void) { spin_lock(&lock_a); spin_lock(&lock_a); }
static void two_mutexes(void) { mutex_lock(&mutex_a); mutex_lock(&mutex_a); }
static void unlock_free(void) { spin_unlock(&lock_a); }
static void unlock_other_variant(void) { spin_lock_irq(&lock_a); spin_unlock(&lock_a); }
static void mutex_under_spinlock(void) { spin_lock(&lock_a); mutex_lock(&mutex_a); }
static void sleeping_alloc_under_spinlock(void) { spin_lock(&lock_a); kfree(kmalloc(8, GFP_KERNEL)); }
static void sleep_in_rcu(void) { rcu_read_lock(); msleep(1); }
static void sleep_with_irqs_off(void) { local_irq_disable(); msleep(1); }
static void held_at_exit(void) { mutex_lock(&mutex_a); }
static void rcu_at_exit(void) { rcu_read_lock(); }
static void leak(void) { WARN_ON(!kmalloc(100, GFP_KERNEL)); }
static void wait_for_nothing(void) { wait_event(queue, flag); }
static void uninitialised_lock(void) { struct mutex m = { }; mutex_lock(&m); }
static void warn(void) { WARN_ON(flag == false); }

static void both_orders(void)
{
	spin_lock(&lock_a);
	spin_lock(&lock_b);
	spin_unlock(&lock_b);
	spin_unlock(&lock_a);
	spin_lock(&lock_b);
	spin_lock(&lock_a);
}

static void same_class(void)
{
	struct mutex m[2];

	for (int i = 0; i < 2; i++)
		mutex_init(&m[i]);
	mutex_lock(&m[0]);
	mutex_lock(&m[1]);
}

static void same_class_with_subclass(void)
{
	struct mutex m[2];

	for (int i = 0; i < 2; i++)
		mutex_init(&m[i]);
	mutex_lock(&m[0]);
	mutex_lock_nested(&m[1], 1);
	mutex_unlock(&m[1]);
	mutex_unlock(&m[0]);
}

static void lock_in_irq(void *arg)
{
	spinlock_t *lock = arg;

	spin_lock(lock);
	spin_unlock(lock);
}

static void irq_unsafe(void)
{
	shim_call_in_irq(lock_in_irq, &lock_a);
	spin_lock(&lock_a);
}

static void sleep_in_irq_(void *arg) { mutex_lock(&mutex_a); }
static void sleep_in_irq(void) { shim_call_in_irq(sleep_in_irq_, NULL); }

static void set_flag_silently(struct work_struct *w) { flag = true; }
static void set_flag_loudly(struct work_struct *w) { flag = true; wake_up(&queue); }

static void missing_wake_up(void)
{
	struct work_struct w;

	INIT_WORK(&w, set_flag_silently);
	schedule_work(&w);
	wait_event(queue, flag);
}

static void cancel_self(struct work_struct *w) { cancel_work_sync(w); }
static void cancel_from_itself(void)
{
	struct work_struct w;

	INIT_WORK(&w, cancel_self);
	schedule_work(&w);
	shim_run();
}

struct thing {
	int x;
	struct work_struct work;
	struct hrtimer timer;
	struct mutex lock;
};

static enum hrtimer_restart no_op(struct hrtimer *t) { return HRTIMER_NORESTART; }

static void free_queued_work(void)
{
	struct thing *t = kzalloc(sizeof(*t), GFP_KERNEL);

	INIT_WORK(&t->work, set_flag_silently);
	schedule_work(&t->work);
	kfree(t);
}

static void free_running_timer(void)
{
	struct thing *t = kzalloc(sizeof(*t), GFP_KERNEL);

	hrtimer_setup(&t->timer, no_op, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	hrtimer_start(&t->timer, 1000, HRTIMER_MODE_REL);
	kfree(t);
}

static void free_held_lock(void)
{
	struct thing *t = kzalloc(sizeof(*t), GFP_KERNEL);

	mutex_init(&t->lock);
	mutex_lock(&t->lock);
	kfree(t);
}

static void timer_at_exit(void)
{
	static struct hrtimer t;

	hrtimer_setup(&t, no_op, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	hrtimer_start(&t, 1000, HRTIMER_MODE_REL);
}

static void take_mutex(void *arg) { mutex_lock(&mutex_a); mutex_unlock(&mutex_a); }
static void fiber_waits_for_ever(void *arg) { wait_event(queue, false); }

static void deadlock_of_two(void)
{
	mutex_lock(&mutex_a);
	shim_spawn(take_mutex, NULL, "other");
	wait_event(queue, flag);
}

static void fiber_at_exit(void) { shim_spawn(fiber_waits_for_ever, NULL, "sleeper"); }

static void list_twice(void)
{
	LIST_HEAD(head);
	struct list_head e;

	list_add(&e, &head);
	list_add(&e, &head);
}

static void ref_from_zero(void)
{
	refcount_t r = REFCOUNT_INIT(0);

	refcount_inc(&r);
}

TEST_BARE("shim", every_misuse_is_reported)
{
	MUST_DIE(two_spinlocks, "taken twice");
	MUST_DIE(two_mutexes, "taken twice");
	MUST_DIE(unlock_free, "not held");
	MUST_DIE(unlock_other_variant, "another variant");
	MUST_DIE(mutex_under_spinlock, "sleeping function with");
	MUST_DIE(sleeping_alloc_under_spinlock, "sleeping function with");
	MUST_DIE(sleep_in_rcu, "inside rcu_read_lock");
	MUST_DIE(sleep_with_irqs_off, "interrupts, softirqs");
	MUST_DIE(sleep_in_irq, "interrupt context");
	MUST_DIE(held_at_exit, "ends with");
	MUST_DIE(rcu_at_exit, "ends inside");
	MUST_DIE(leak, "leaked");
	MUST_DIE(wait_for_nothing, "deadlock");
	MUST_DIE(missing_wake_up, "deadlock");
	MUST_DIE(deadlock_of_two, "deadlock");
	MUST_DIE(uninitialised_lock, "before it was initialised");
	MUST_DIE(warn, "WARN_ON");
	MUST_DIE(both_orders, "lock order");
	MUST_DIE(same_class, "without a subclass");
	MUST_DIE(irq_unsafe, "with interrupts on");
	MUST_DIE(cancel_from_itself, "from the work itself");
	MUST_DIE(free_queued_work, "queued work");
	MUST_DIE(free_running_timer, "running timer");
	MUST_DIE(free_held_lock, "held lock");
	MUST_DIE(timer_at_exit, "still set");
	MUST_DIE(fiber_at_exit, "has not ended");
	MUST_DIE(list_twice, "list_add");
	MUST_DIE(ref_from_zero, "refcount");
	wanted = NULL;
	ASSERT_EQ(in_child(same_class_with_subclass), 0);
}

static int order[8];
static int nr_order;

static void note_work(struct work_struct *w) { order[nr_order++] = container_of(w, struct thing, work)->x; }

static void sleepy_work(struct work_struct *w)
{
	order[nr_order++] = container_of(w, struct thing, work)->x;
	msleep(1);
	order[nr_order++] = -container_of(w, struct thing, work)->x;
}

TEST_BARE("shim", works_run_in_order_and_one_at_a_time_where_asked)
{
	struct workqueue_struct *ordered = alloc_ordered_workqueue("o", 0);
	struct workqueue_struct *wide = alloc_workqueue("w", 0, 0);
	struct thing t[3] = { { 1 }, { 2 }, { 3 } };
	static const int in_turn[] = { 1, -1, 2, -2 }, together[] = { 1, 2, -1, -2 };

	for (int i = 0; i < 3; i++)
		INIT_WORK(&t[i].work, sleepy_work);
	ASSERT(queue_work(ordered, &t[0].work));
	ASSERT(!queue_work(ordered, &t[0].work));
	ASSERT(queue_work(ordered, &t[1].work));
	ASSERT_EQ(nr_order, 0);
	flush_workqueue(ordered);
	ASSERT(!memcmp(order, in_turn, sizeof(in_turn)));
	nr_order = 0;
	queue_work(wide, &t[0].work);
	queue_work(wide, &t[1].work);
	ASSERT(flush_work(&t[1].work));
	ASSERT(!memcmp(order, together, sizeof(together)));
	nr_order = 0;
	INIT_WORK(&t[2].work, note_work);
	queue_work(wide, &t[2].work);
	ASSERT(cancel_work_sync(&t[2].work));
	shim_run();
	ASSERT_EQ(nr_order, 0);
	destroy_workqueue(ordered);
	destroy_workqueue(wide);
}

static enum hrtimer_restart thrice(struct hrtimer *t)
{
	order[nr_order++] = shim_now() % 1000000;
	ASSERT(in_interrupt());
	if (nr_order == 3)
		return HRTIMER_NORESTART;
	hrtimer_forward_now(t, 100);
	return HRTIMER_RESTART;
}

TEST_BARE("shim", time_is_virtual_and_passes_on_demand)
{
	struct hrtimer t;
	struct work_struct w;
	u64 begin = shim_now();

	hrtimer_setup(&t, thrice, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	hrtimer_start(&t, 50, HRTIMER_MODE_REL);
	shim_run();
	ASSERT_EQ(nr_order, 0);
	shim_advance(49);
	ASSERT_EQ(nr_order, 0);
	shim_advance(1);
	ASSERT_EQ(nr_order, 1);
	shim_advance(1000);
	ASSERT_EQ(nr_order, 3);
	ASSERT_EQ(order[2], (int)((begin + 250) % 1000000));
	ASSERT_EQ(shim_now(), begin + 1050);

	/* a timed wait takes exactly its time; a fulfilled one says how much was left */
	begin = shim_now();
	ASSERT_EQ(wait_event_timeout(queue, flag, HZ), 0);
	ASSERT_EQ(shim_now() - begin, NSEC_PER_SEC);
	INIT_WORK(&w, set_flag_loudly);
	schedule_work(&w);
	ASSERT_EQ(wait_event_timeout(queue, flag, HZ), HZ);
	ASSERT_EQ(shim_now() - begin, NSEC_PER_SEC);
}

static bool freed;
static void note_free(struct rcu_head *h) { freed = true; }

static void reader(void *arg)
{
	rcu_read_lock();
	shim_yield();
	shim_yield();
	ASSERT(!freed);
	rcu_read_unlock();
}

static void syncer(void *arg)
{
	synchronize_rcu();
	*(bool *)arg = true;
}

TEST_BARE("shim", rcu_waits_for_readers_and_not_longer)
{
	struct rcu_head head;
	bool synced = false;
	struct shim_fiber *f;
	int *p = kmalloc(sizeof(*p) + sizeof(head), GFP_KERNEL);

	call_rcu(&head, note_free);
	f = shim_spawn(reader, NULL, "reader");
	shim_spawn(syncer, &synced, "syncer");
	shim_yield();
	ASSERT(!synced && !freed && !shim_done(f));
	shim_run();
	ASSERT(synced && freed && shim_done(f));

	rcu_read_lock();
	shim_kfree_rcu((struct rcu_head *)(p + 1), p);
	ASSERT_EQ(shim_allocs_alive(), 1ul);
	*p = 3;	/* still there */
	rcu_read_unlock();
	shim_run();
	ASSERT_EQ(shim_allocs_alive(), 0ul);
}

TEST_BARE("shim", nth_allocation_fails_once)
{
	void *p[4];

	shim_fail_nth(3);
	for (int i = 0; i < 4; i++)
		p[i] = kmalloc(16, GFP_KERNEL);
	ASSERT(p[0] && p[1] && !p[2] && p[3]);
	ASSERT(shim_failed());
	ASSERT(!kmalloc_array(SIZE_MAX / 2, 3, GFP_KERNEL));
	for (int i = 0; i < 4; i++)
		kfree(p[i]);
}

/* against an array of 4096 pointers, the stupid model */
TEST_BARE("shim", xarray_answers_like_an_array)
{
	DEFINE_XARRAY_FLAGS(xa, XA_FLAGS_ALLOC);
	static void *model[4096];
	u64 x = 88172645463325252ULL;
	unsigned long i, n, count;
	u32 id, next = 0;
	void *e;

	for (n = 0; n < 60000; n++) {
		unsigned long at;

		x ^= x << 13; x ^= x >> 7; x ^= x << 17;
		at = x >> 52;
		e = (void *)((x & 0xfffffff0) | 0x10);
		switch (x % 5) {
		case 0:
			ASSERT_EQ(xa_store(&xa, at, e, GFP_KERNEL), model[at]);
			model[at] = e;
			break;
		case 1: case 2:
			ASSERT_EQ(xa_erase(&xa, at), model[at]);
			model[at] = NULL;
			break;
		case 3:
			ASSERT_EQ(xa_insert(&xa, at, e, GFP_KERNEL), model[at] ? -EBUSY : 0);
			model[at] = model[at] ?: e;
			break;
		case 4:
			for (i = at; i < 4096 && model[i]; i++)
				;
			ASSERT_EQ(xa_alloc(&xa, &id, e, XA_LIMIT(at, 4095), GFP_KERNEL), i < 4096 ? 0 : -EBUSY);
			if (i < 4096) {
				ASSERT_EQ((unsigned long)id, i);
				model[i] = e;
			}
			break;
		}
		ASSERT_EQ(xa_load(&xa, at), model[at]);
	}
	count = 0;
	xa_for_each(&xa, i, e) {
		ASSERT_EQ(e, model[i]);
		count++;
	}
	for (i = 0; i < 4096; i++)
		count -= !!model[i];
	ASSERT_EQ(count, 0ul);
	xa_destroy(&xa);
	ASSERT_EQ(shim_allocs_alive(), 0ul);

	/* a store that finds no memory leaves the array as it was, and says so once */
	ASSERT_EQ(xa_store(&xa, 5, &xa, GFP_KERNEL), NULL);
	for (n = 1; n < 4; n++) {
		shim_fail_nth(n);
		ASSERT_EQ(xa_err(xa_store(&xa, 1UL << 20, &xa, GFP_KERNEL)), -ENOMEM);
		ASSERT(shim_failed());
		ASSERT_EQ(xa_load(&xa, 5), (void *)&xa);
		ASSERT_EQ(xa_load(&xa, 1UL << 20), NULL);
	}
	xa_erase(&xa, 5);
	ASSERT(xa_empty(&xa));
	for (n = 1; n < 5; n++) {
		shim_fail_nth(n);
		ASSERT_EQ(xa_insert(&xa, 1UL << 20, &xa, GFP_KERNEL), -ENOMEM);
		ASSERT(xa_empty(&xa));
	}
	ASSERT_EQ(shim_allocs_alive(), 0ul);

	/* cyclic: onwards, round the end once, a reserved index is in use and reads as nothing */
	ASSERT_EQ(xa_alloc_cyclic(&xa, &id, &xa, XA_LIMIT(16, 18), &next, GFP_KERNEL), 0);
	ASSERT_EQ(id, 16u);
	ASSERT_EQ(xa_alloc_cyclic(&xa, &id, NULL, XA_LIMIT(16, 18), &next, GFP_KERNEL), 0);
	ASSERT_EQ(id, 17u);
	ASSERT(!xa_load(&xa, 17) && !xa_empty(&xa));
	xa_erase(&xa, 16);
	ASSERT_EQ(xa_alloc_cyclic(&xa, &id, &xa, XA_LIMIT(16, 18), &next, GFP_KERNEL), 0);
	ASSERT_EQ(id, 18u);
	ASSERT_EQ(xa_alloc_cyclic(&xa, &id, &xa, XA_LIMIT(16, 18), &next, GFP_KERNEL), 1);
	ASSERT_EQ(id, 16u);
	ASSERT_EQ(xa_alloc_cyclic(&xa, &id, &xa, XA_LIMIT(16, 18), &next, GFP_KERNEL), -EBUSY);
	for (i = 16; i < 19; i++)
		xa_erase(&xa, i);
	ASSERT(xa_empty(&xa));
	ASSERT_EQ(shim_allocs_alive(), 0ul);
}

TEST_BARE("shim", ranges_never_overlap)
{
	struct maple_tree t;
	unsigned long at[200], size[200];
	u64 x = 12345;
	int i, j, k;

	mt_init_flags(&t, MT_FLAGS_ALLOC_RANGE);
	memset(size, 0, sizeof(size));
	for (i = 0; i < 4000; i++) {
		x ^= x << 13; x ^= x >> 7; x ^= x << 17;
		j = x % 200;
		if (size[j]) {
			ASSERT_EQ(mtree_erase(&t, at[j] + (x >> 32) % size[j]), (void *)&at[j]);
			size[j] = 0;
			continue;
		}
		size[j] = 1 + (x >> 20) % 64;
		if (mtree_alloc_range(&t, &at[j], &at[j], size[j], 1000, 9000, GFP_KERNEL)) {
			size[j] = 0;
			continue;
		}
		ASSERT(at[j] >= 1000 && at[j] + size[j] - 1 <= 9000);
		for (k = 0; k < 200; k++)
			if (k != j && size[k])
				ASSERT(at[k] + size[k] <= at[j] || at[j] + size[j] <= at[k]);
	}
	ASSERT_EQ(mtree_alloc_range(&t, &at[0], &t, 9000, 1000, 9000, GFP_KERNEL), -EINVAL);
	mtree_destroy(&t);
}

/* the machine */

static struct machine *child_machine;
static struct mem child_mem;

static void beyond_what_was_mapped(void)
{
	u8 *p = child_machine->ops.bus_map(child_machine, mem_dma(&child_mem, 0x100), 16);

	p[16] = 1;
}

static void after_unmap(void)
{
	u8 *p = child_machine->ops.bus_map(child_machine, mem_dma(&child_mem, 0), 4096);

	mem_unmap_page(&child_mem, 0);
	p[0] = 1;
}

static void inside(void)
{
	u8 *p = child_machine->ops.bus_map(child_machine, mem_dma(&child_mem, 0x100), 16);

	p[15] = 0x77;
	_exit(child_mem.cpu[0x10f] == 0x77 ? 0 : 1);
}

TEST("shim", memory_is_guarded)
{
	void *map;

	child_machine = m;
	child_mem = mem_new(m, 2 * 4096);
	signal(SIGSEGV, SIG_DFL);
	ASSERT_EQ(in_child(inside), 0);
	ASSERT_NE(in_child(after_unmap), 0);
#if defined(__SANITIZE_ADDRESS__)
	ASSERT_NE(in_child(beyond_what_was_mapped), 0);
#else
	(void)beyond_what_was_mapped;
#endif
	/* neighbours for the CPU, not on the bus; nothing spans an edge, nothing lies beside */
	ASSERT_NE(mem_dma(&child_mem, 4095) + 1, mem_dma(&child_mem, 4096));
	map = m->ops.bus_map(m, mem_dma(&child_mem, 0), 4097);
	ASSERT_EQ(map, NULL);
	map = m->ops.bus_map(m, mem_dma(&child_mem, 0) - 1, 1);
	ASSERT_EQ(map, NULL);
	map = m->ops.bus_map(m, mem_dma(&child_mem, 4096) + 4096, 1);
	ASSERT_EQ(map, NULL);
}
