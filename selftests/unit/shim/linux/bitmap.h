/* SPDX-License-Identifier: GPL-2.0 */
/* Single bits, bit searches, bitmaps, logarithms. Plain C: there is one host thread. */
#ifndef SHIM_LINUX_BITMAP_H
#define SHIM_LINUX_BITMAP_H

#include <string.h>
#include <linux/bits.h>
#include <linux/slab.h>

#define BITS_TO_LONGS(n)	(((n) + BITS_PER_LONG - 1) / BITS_PER_LONG)
#define DECLARE_BITMAP(name, n)	unsigned long name[BITS_TO_LONGS(n)]

static inline int fls(unsigned int x) { return x ? 32 - __builtin_clz(x) : 0; }
static inline int fls64(u64 x) { return x ? 64 - __builtin_clzll(x) : 0; }
static inline unsigned long __ffs(unsigned long x) { return __builtin_ctzl(x); }
static inline unsigned long __ffs64(u64 x) { return __builtin_ctzll(x); }
static inline unsigned long __fls(unsigned long x) { return 63 - __builtin_clzl(x); }
static inline unsigned long ffz(unsigned long x) { return __ffs(~x); }
static inline unsigned int hweight8(u8 x) { return __builtin_popcount(x); }
static inline unsigned int hweight32(u32 x) { return __builtin_popcount(x); }
static inline unsigned int hweight64(u64 x) { return __builtin_popcountll(x); }
static inline unsigned int hweight_long(unsigned long x) { return __builtin_popcountl(x); }
static inline u32 rol32(u32 w, unsigned int s) { return w << (s & 31) | w >> (-s & 31); }

static inline void __set_bit(unsigned long n, volatile unsigned long *p) { p[BIT_WORD(n)] |= BIT_MASK(n); }
static inline void __clear_bit(unsigned long n, volatile unsigned long *p) { p[BIT_WORD(n)] &= ~BIT_MASK(n); }
static inline void __change_bit(unsigned long n, volatile unsigned long *p) { p[BIT_WORD(n)] ^= BIT_MASK(n); }
static inline bool test_bit(unsigned long n, const volatile unsigned long *p) { return p[BIT_WORD(n)] & BIT_MASK(n); }

static inline bool __test_and_set_bit(unsigned long n, volatile unsigned long *p)
{
	bool old = test_bit(n, p);

	__set_bit(n, p);
	return old;
}

static inline bool __test_and_clear_bit(unsigned long n, volatile unsigned long *p)
{
	bool old = test_bit(n, p);

	__clear_bit(n, p);
	return old;
}

#define set_bit			__set_bit
#define clear_bit		__clear_bit
#define change_bit		__change_bit
#define test_and_set_bit	__test_and_set_bit
#define test_and_clear_bit	__test_and_clear_bit
#define clear_bit_unlock	__clear_bit
#define test_and_set_bit_lock	__test_and_set_bit
#define test_bit_acquire	test_bit
#define assign_bit(n, p, v)	((v) ? __set_bit(n, p) : __clear_bit(n, p))
#define __assign_bit		assign_bit

static inline unsigned long shim_find_bit(const unsigned long *p, unsigned long size, unsigned long from, bool want)
{
	while (from < size) {
		unsigned long w = p[BIT_WORD(from)];

		w = (want ? w : ~w) & (~0UL << (from % BITS_PER_LONG));
		if (w) {
			from = (from & ~(BITS_PER_LONG - 1UL)) + __ffs(w);
			return from < size ? from : size;
		}
		from = (from | (BITS_PER_LONG - 1UL)) + 1;
	}
	return size;
}

#define find_first_bit(p, n)		shim_find_bit(p, n, 0, true)
#define find_next_bit(p, n, from)	shim_find_bit(p, n, from, true)
#define find_first_zero_bit(p, n)	shim_find_bit(p, n, 0, false)
#define find_next_zero_bit(p, n, from)	shim_find_bit(p, n, from, false)
#define for_each_set_bit(b, p, n) \
	for ((b) = find_first_bit(p, n); (b) < (n); (b) = find_next_bit(p, n, (b) + 1))
#define for_each_clear_bit(b, p, n) \
	for ((b) = find_first_zero_bit(p, n); (b) < (n); (b) = find_next_zero_bit(p, n, (b) + 1))

static inline unsigned long find_last_bit(const unsigned long *p, unsigned long n)
{
	for (unsigned long i = n; i--;)
		if (test_bit(i, p))
			return i;
	return n;
}

static inline void bitmap_zero(unsigned long *p, unsigned int n) { memset(p, 0, BITS_TO_LONGS(n) * 8); }
static inline void bitmap_fill(unsigned long *p, unsigned int n) { memset(p, 0xff, BITS_TO_LONGS(n) * 8); }
static inline bool bitmap_empty(const unsigned long *p, unsigned int n) { return find_first_bit(p, n) == n; }
static inline bool bitmap_full(const unsigned long *p, unsigned int n) { return find_first_zero_bit(p, n) == n; }
static inline void bitmap_set(unsigned long *p, unsigned int s, unsigned int n) { while (n--) __set_bit(s++, p); }
static inline void bitmap_clear(unsigned long *p, unsigned int s, unsigned int n) { while (n--) __clear_bit(s++, p); }
static inline void bitmap_copy(unsigned long *d, const unsigned long *s, unsigned int n) { memcpy(d, s, BITS_TO_LONGS(n) * 8); }
static inline unsigned long *bitmap_zalloc(unsigned int n, gfp_t f) { return kcalloc(BITS_TO_LONGS(n), 8, f); }
static inline void bitmap_free(const unsigned long *p) { kfree(p); }

static inline unsigned int bitmap_weight(const unsigned long *p, unsigned int n)
{
	unsigned int w = 0, b;

	for_each_set_bit(b, p, n)
		w++;
	return w;
}

static inline unsigned long bitmap_find_next_zero_area(unsigned long *p, unsigned long size, unsigned long start,
						       unsigned int nr, unsigned long align_mask)
{
	for (;;) {
		unsigned long b = (find_next_zero_bit(p, size, start) + align_mask) & ~align_mask;
		unsigned long end = b + nr, used;

		if (end > size)
			return end;
		used = find_next_bit(p, end, b);
		if (used >= end)
			return b;
		start = used + 1;
	}
}

static inline int shim_ilog2(u64 n) { return fls64(n) - 1; }
#define ilog2(n)		shim_ilog2(n)
#define is_power_of_2(n)	({ u64 ___n = (n); ___n && !(___n & (___n - 1)); })
#define __roundup_pow_of_two(n)	(1UL << fls64((u64)(n) - 1))
#define roundup_pow_of_two(n)	__roundup_pow_of_two(n)
#define rounddown_pow_of_two(n)	(1UL << ilog2(n))
#define order_base_2(n)		({ u64 ___o = (n); ___o > 1 ? fls64(___o - 1) : 0; })
#define const_ilog2(n)		shim_ilog2(n)

#endif
