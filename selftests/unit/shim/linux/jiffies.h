/* SPDX-License-Identifier: GPL-2.0 */
/* The virtual clock. HZ is not 1000, so that a jiffy taken for a millisecond shows. */
#ifndef SHIM_LINUX_JIFFIES_H
#define SHIM_LINUX_JIFFIES_H

#include <linux/kernel.h>

#define HZ			250
#define NSEC_PER_SEC		1000000000L
#define NSEC_PER_MSEC		1000000L
#define NSEC_PER_USEC		1000L
#define USEC_PER_MSEC		1000L
#define USEC_PER_SEC		1000000L
#define MSEC_PER_SEC		1000L
#define TICK_NSEC		(NSEC_PER_SEC / HZ)
#define MAX_SCHEDULE_TIMEOUT	LONG_MAX
#define MAX_JIFFY_OFFSET	((LONG_MAX >> 1) - 1)

u64 shim_now(void);

#define jiffies			((unsigned long)(shim_now() / TICK_NSEC))
#define get_jiffies_64()	((u64)jiffies)
static inline u64 shim_jiffies_to_ns(unsigned long j) { return j > LONG_MAX / TICK_NSEC ? LONG_MAX : j * TICK_NSEC; }
static inline unsigned long nsecs_to_jiffies(u64 n) { return n / TICK_NSEC; }
static inline unsigned long msecs_to_jiffies(unsigned int m) { return DIV_ROUND_UP((u64)m * NSEC_PER_MSEC, TICK_NSEC); }
static inline unsigned long usecs_to_jiffies(unsigned int u) { return DIV_ROUND_UP((u64)u * NSEC_PER_USEC, TICK_NSEC); }
static inline unsigned int jiffies_to_msecs(unsigned long j) { return j * (1000 / HZ); }
static inline unsigned int jiffies_to_usecs(unsigned long j) { return j * (1000000 / HZ); }
#define time_after(a, b)	((long)((b) - (a)) < 0)
#define time_before(a, b)	time_after(b, a)
#define time_after_eq(a, b)	((long)((a) - (b)) >= 0)
#define time_before_eq(a, b)	time_after_eq(b, a)
#define time_is_before_jiffies(a) time_after(jiffies, a)
#define time_is_after_jiffies(a) time_before(jiffies, a)

typedef s64 ktime_t;
#define KTIME_MAX		S64_MAX
#define ktime_get()		((ktime_t)shim_now())
#define ktime_get_ns()		shim_now()
#define ktime_get_mono_fast_ns() shim_now()
#define ktime_get_raw_ns()	shim_now()
#define ktime_get_boottime_ns()	shim_now()
#define ktime_get_real_ns()	(1700000000000000000ULL + shim_now())
#define local_clock()		shim_now()
#define ktime_set(s, n)		((ktime_t)(s) * NSEC_PER_SEC + (n))
#define ns_to_ktime(n)		((ktime_t)(n))
#define us_to_ktime(n)		((ktime_t)(n) * NSEC_PER_USEC)
#define ms_to_ktime(n)		((ktime_t)(n) * NSEC_PER_MSEC)
#define ktime_to_ns(k)		((s64)(k))
#define ktime_to_us(k)		((s64)(k) / NSEC_PER_USEC)
#define ktime_to_ms(k)		((s64)(k) / NSEC_PER_MSEC)
#define ktime_add(a, b)		((a) + (b))
#define ktime_sub(a, b)		((a) - (b))
#define ktime_add_ns(a, n)	((a) + (s64)(n))
#define ktime_add_us(a, n)	((a) + (s64)(n) * NSEC_PER_USEC)
#define ktime_add_ms(a, n)	((a) + (s64)(n) * NSEC_PER_MSEC)
#define ktime_sub_ns(a, n)	((a) - (s64)(n))
#define ktime_before(a, b)	((a) < (b))
#define ktime_after(a, b)	((a) > (b))
#define ktime_compare(a, b)	((a) < (b) ? -1 : (a) > (b))
#define ktime_us_delta(a, b)	ktime_to_us((a) - (b))
#define ktime_ms_delta(a, b)	ktime_to_ms((a) - (b))

#endif
