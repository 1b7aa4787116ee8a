/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a test does with the simulated kernel that the engine runs in.
 *
 * Everything runs on one host thread. Each kernel thread of control (the test itself, a running work item, a CPU that a
 * test made with shim_spawn()) is a fiber; a fiber runs until it sleeps, ends or yields, so a run is the same every
 * time. Time is virtual and passes only in shim_advance() and while everybody sleeps.
 */
#ifndef SHIM_H
#define SHIM_H

#include <linux/types.h>

/* run works and fibers until none can run; no time passes */
void shim_run(void);

/* the same from anywhere: a fiber other than the test's only gives the others a turn */
void shim_settle(void);

/* let @ns pass, running every timer and work that falls due */
void shim_advance(u64 ns);

u64 shim_now(void);

/* when the next timer expires, or U64_MAX */
u64 shim_next_timer(void);

/*
 * A further thread of control. It starts at the next sleep, yield or shim_run() of the caller. shim_done() tells
 * whether it has ended; the handle stays good until the end of the test.
 */
struct shim_fiber;
struct shim_fiber *shim_spawn(void (*fn)(void *arg), void *arg, const char *name);
bool shim_done(const struct shim_fiber *f);

/*
 * Give another CPU its turn, from anywhere and with any lock held: for hooks in the middle of the engine's work. What
 * runs meanwhile spins on locks that the caller holds.
 */
void shim_yield(void);

/* call @fn as an interrupt handler would be */
void shim_call_in_irq(void (*fn)(void *arg), void *arg);

/* 0 = off; else every lock operation and cond_resched() yields now and then, by a generator seeded with @seed */
void shim_preempt_seed(u64 seed);

/* the nth allocation from now returns NULL, once; 0 = off. shim_failed() tells whether it has happened. */
void shim_fail_nth(unsigned long n);
bool shim_failed(void);

/* allocations alive, and made since the start */
unsigned long shim_allocs_alive(void);
unsigned long shim_allocs_made(void);

/* Complaints abort unless this is set; then it is called instead and must not return. For tests of the shim. */
extern void (*shim_die_hook)(const char *message) __noreturn;

/* true: the engine's printk goes to stderr */
extern bool shim_verbose;

/* nothing may be left: no work, timer, fiber, held lock, RCU callback or allocation. Dies otherwise. */
void shim_check_quiet(void);

#endif
