/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The small change of kernel C. A WARN aborts the test: the engine has no warning that is acceptable.
 */
#ifndef SHIM_LINUX_KERNEL_H
#define SHIM_LINUX_KERNEL_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <linux/types.h>
#include <linux/limits.h>
#include <linux/errno.h>
#include <linux/err.h>
#include <linux/bits.h>
#include <asm/byteorder.h>

#define U8_MAX		((u8)~0U)
#define U16_MAX		((u16)~0U)
#define U32_MAX		((u32)~0U)
#define U64_MAX		((u64)~0ULL)
#define S32_MAX		((s32)(U32_MAX >> 1))
#define S64_MAX		((s64)(U64_MAX >> 1))
#ifndef INT_MAX
#define INT_MAX		((int)(~0U >> 1))
#endif
#ifndef UINT_MAX
#define UINT_MAX	(~0U)
#endif
#ifndef LONG_MAX
#define LONG_MAX	((long)(~0UL >> 1))
#endif
#ifndef ULONG_MAX
#define ULONG_MAX	(~0UL)
#endif
#ifndef ULLONG_MAX
#define ULLONG_MAX	(~0ULL)
#endif

#define PAGE_SHIFT	12
#define PAGE_SIZE	(1UL << PAGE_SHIFT)
#define PAGE_MASK	(~(PAGE_SIZE - 1))

#define SZ_4K		0x1000
#define SZ_64K		0x10000
#define SZ_256K		0x40000
#define SZ_1M		0x100000
#define SZ_2M		0x200000
#define SZ_1G		0x40000000
#define SZ_2G		0x80000000U
#define SZ_4G		0x100000000ULL

/* who and where, on every complaint; no return */
void shim_die(const char *fmt, ...) __printf(1, 2) __noreturn;
void shim_printk(const char *fmt, ...) __printf(1, 2);

#define container_of(p, t, m)		((t *)((char *)(p) - offsetof(t, m)))
#define container_of_const(p, t, m)	container_of(p, t, m)
#define ARRAY_SIZE(a)		(sizeof(a) / sizeof((a)[0]) + \
				 0 * sizeof(char[1 - 2 * __same_type((a), &(a)[0])]))
#define typecheck(t, x)		1
#define __ALIGN_MASK(x, m)	(((x) + (m)) & ~(m))
#define ALIGN(x, a)		__ALIGN_MASK(x, (typeof(x))(a) - 1)
#define ALIGN_DOWN(x, a)	((x) & ~((typeof(x))(a) - 1))
#define PTR_ALIGN(p, a)		((typeof(p))ALIGN((unsigned long)(p), (a)))
#define IS_ALIGNED(x, a)	(((x) & ((typeof(x))(a) - 1)) == 0)
#define round_up(x, y)		((((x) - 1) | ((typeof(x))(y) - 1)) + 1)
#define round_down(x, y)	((x) & ~((typeof(x))(y) - 1))
#define roundup(x, y)		((((x) + (y) - 1) / (y)) * (y))
#define rounddown(x, y)		((x) - (x) % (y))
#define DIV_ROUND_UP(n, d)	(((n) + (d) - 1) / (d))
#define DIV_ROUND_UP_ULL(n, d)	DIV_ROUND_UP((unsigned long long)(n), (d))
#define DIV_ROUND_DOWN_ULL(n, d) ((unsigned long long)(n) / (d))
#define upper_32_bits(n)	((u32)(((n) >> 16) >> 16))
#define lower_32_bits(n)	((u32)((n) & 0xffffffff))
#define swap(a, b)		do { typeof(a) ___t = (a); (a) = (b); (b) = ___t; } while (0)
#define abs(x)			({ typeof(x) ___x = (x); ___x < 0 ? -___x : ___x; })

#define shim_min(a, b, x, y)	({ typeof(a) x = (a); typeof(b) y = (b); x < y ? x : y; })
#define shim_max(a, b, x, y)	({ typeof(a) x = (a); typeof(b) y = (b); x > y ? x : y; })
#define min(a, b)		shim_min(a, b, __UNIQUE_ID(a), __UNIQUE_ID(b))
#define max(a, b)		shim_max(a, b, __UNIQUE_ID(a), __UNIQUE_ID(b))
#define min3(a, b, c)		min(min(a, b), c)
#define max3(a, b, c)		max(max(a, b), c)
#define min_t(t, a, b)		min((t)(a), (t)(b))
#define max_t(t, a, b)		max((t)(a), (t)(b))
#define umin(a, b)		min((u64)(a), (u64)(b))
#define umax(a, b)		max((u64)(a), (u64)(b))
#define min_not_zero(a, b)	({ typeof(a) ___a = (a); typeof(b) ___b = (b); !___a ? ___b : !___b ? ___a : min(___a, ___b); })
#define clamp(v, lo, hi)	min(max(v, lo), hi)
#define clamp_t(t, v, lo, hi)	min_t(t, max_t(t, v, lo), hi)
#define clamp_val(v, lo, hi)	clamp_t(typeof(v), v, lo, hi)
#define in_range(v, s, l)	((u64)(v) - (u64)(s) < (u64)(l))

#define BUILD_BUG_ON(e)		((void)sizeof(char[1 - 2 * !!(e)]))
#define BUILD_BUG_ON_MSG(e, m)	BUILD_BUG_ON(e)
#define BUILD_BUG_ON_ZERO(e)	((int)(sizeof(struct { int:(-!!(e)); })))
#define BUILD_BUG_ON_NOT_POWER_OF_2(n) BUILD_BUG_ON(!(n) || ((n) & ((n) - 1)))
#define BUILD_BUG()		BUILD_BUG_ON(1)

#define WARN_ON(c)		({ bool ___w = !!(c); \
				   (void)(unlikely(___w) ? shim_die("WARN_ON(%s) at %s:%d", #c, __FILE__, __LINE__) : (void)0); ___w; })
#define WARN(c, f, a...)	({ bool ___w = !!(c); \
				   (void)(unlikely(___w) ? shim_die("WARN at %s:%d: " f, __FILE__, __LINE__, ##a) : (void)0); ___w; })
#define WARN_ON_ONCE(c)		WARN_ON(c)
#define WARN_ONCE(c, f, a...)	WARN(c, f, ##a)
#define VM_WARN_ON_ONCE(c)	WARN_ON(c)
#define BUG_ON(c)		((void)WARN_ON(c))
#define BUG()			shim_die("BUG at %s:%d", __FILE__, __LINE__)
#define VM_BUG_ON(c)		BUG_ON(c)

#ifndef pr_fmt
#define pr_fmt(fmt) fmt
#endif
#define KERN_ERR	""
#define KERN_WARNING	""
#define KERN_INFO	""
#define KERN_DEBUG	""
#define printk(f, a...)		shim_printk(f, ##a)
#define pr_emerg(f, a...)	shim_printk(pr_fmt(f), ##a)
#define pr_err(f, a...)		shim_printk(pr_fmt(f), ##a)
#define pr_warn(f, a...)	shim_printk(pr_fmt(f), ##a)
#define pr_notice(f, a...)	shim_printk(pr_fmt(f), ##a)
#define pr_info(f, a...)	shim_printk(pr_fmt(f), ##a)
#define pr_debug(f, a...)	do { if (0) shim_printk(pr_fmt(f), ##a); } while (0)
#define pr_devel		pr_debug
#define no_printk		pr_debug
#define pr_err_ratelimited	pr_err
#define pr_warn_ratelimited	pr_warn
#define pr_notice_ratelimited	pr_notice
#define pr_info_ratelimited	pr_info
#define pr_debug_ratelimited	pr_debug
#define pr_err_once		pr_err
#define pr_warn_once		pr_warn
#define pr_info_once		pr_info
#define print_hex_dump(a...)	do { } while (0)
#define dump_stack()		do { } while (0)

#define scnprintf		snprintf
#define memzero_explicit(p, n)	memset(p, 0, n)

static inline bool mem_is_zero(const void *s, size_t n)
{
	for (const u8 *p = s; n--; p++)
		if (*p)
			return false;
	return true;
}

static inline void *memchr_inv(const void *s, int c, size_t n)
{
	for (const u8 *p = s; n--; p++)
		if (*p != (u8)c)
			return (void *)p;
	return NULL;
}

#define memset_after(obj, v, m) \
	memset((u8 *)(obj) + offsetofend(typeof(*(obj)), m), v, sizeof(*(obj)) - offsetofend(typeof(*(obj)), m))
#define memset_startat(obj, v, m) \
	memset((u8 *)(obj) + offsetof(typeof(*(obj)), m), v, sizeof(*(obj)) - offsetof(typeof(*(obj)), m))

static inline ssize_t shim_strscpy(char *d, const char *s, size_t n)
{
	size_t l = strnlen(s, n);

	if (!n)
		return -E2BIG;
	if (l == n) {
		memcpy(d, s, n - 1);
		d[n - 1] = 0;
		return -E2BIG;
	}
	memcpy(d, s, l + 1);
	return l;
}
#define strscpy(d, s, n...)	shim_strscpy(d, s, shim_strscpy_size(d, ##n, sizeof(d)))
#define shim_strscpy_size(d, n, ...) (n)

#define check_add_overflow(a, b, d)	__builtin_add_overflow(a, b, d)
#define check_sub_overflow(a, b, d)	__builtin_sub_overflow(a, b, d)
#define check_mul_overflow(a, b, d)	__builtin_mul_overflow(a, b, d)
#define check_shl_overflow(a, s, d)	({ typeof(*(d)) ___v = (a); int ___s = (s); \
	bool ___o = ___s < 0 || ___s >= (int)(8 * sizeof(*(d))) || (typeof(*(d)))(___v << ___s) >> ___s != ___v; \
	*(d) = ___o ? 0 : ___v << ___s; ___o; })

static inline size_t size_mul(size_t a, size_t b)
{
	size_t r;

	return __builtin_mul_overflow(a, b, &r) ? SIZE_MAX : r;
}

static inline size_t size_add(size_t a, size_t b)
{
	size_t r;

	return __builtin_add_overflow(a, b, &r) ? SIZE_MAX : r;
}

static inline size_t size_sub(size_t a, size_t b)
{
	return a == SIZE_MAX || b == SIZE_MAX || a < b ? SIZE_MAX : a - b;
}

#define array_size(a, b)		size_mul(a, b)
#define array3_size(a, b, c)		size_mul(size_mul(a, b), c)
#define flex_array_size(p, m, n)	size_mul(n, sizeof(*(p)->m))
#define struct_size(p, m, n)		size_add(sizeof(*(p)), flex_array_size(p, m, n))
#define struct_size_t(t, m, n)		struct_size((t *)NULL, m, n)
#define array_index_nospec(i, n)	((i) < (n) ? (i) : 0)

static inline u64 div_u64(u64 a, u32 b) { return a / b; }
static inline u64 div64_u64(u64 a, u64 b) { return a / b; }
static inline s64 div_s64(s64 a, s32 b) { return a / b; }
static inline u64 mul_u64_u32_shr(u64 a, u32 m, unsigned int s) { return (u64)(((unsigned __int128)a * m) >> s); }
static inline u64 mul_u64_u64_div_u64(u64 a, u64 b, u64 c) { return (u64)((unsigned __int128)a * b / c); }

static inline u64 div_u64_rem(u64 a, u32 b, u32 *r)
{
	*r = a % b;
	return a / b;
}

#define do_div(n, b)	({ u32 ___r = (n) % (b); (n) /= (b); ___r; })

typedef int (*cmp_func_t)(const void *, const void *);
void sort(void *base, size_t num, size_t size, cmp_func_t cmp, void (*swap_func)(void *, void *, int));

#define IS_ENABLED(x)		0
#define IS_BUILTIN(x)		0
#define IS_REACHABLE(x)		0
#define EXPORT_SYMBOL(x)
#define EXPORT_SYMBOL_GPL(x)
#define MODULE_LICENSE(x)
#define MODULE_AUTHOR(x)
#define MODULE_DESCRIPTION(x)
#define MODULE_VERSION(x)
#define MODULE_PARM_DESC(n, d)
#define module_param(n, t, p)
#define module_param_named(n, v, t, p)
#define module_init(f)
#define module_exit(f)
#define THIS_MODULE		((void *)0)
#define KBUILD_MODNAME		"softhca"

#endif
