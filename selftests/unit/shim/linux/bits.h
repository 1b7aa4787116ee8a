/* SPDX-License-Identifier: GPL-2.0 */
/* Bit masks and fields. */
#ifndef SHIM_LINUX_BITS_H
#define SHIM_LINUX_BITS_H

#include <linux/types.h>

#define BITS_PER_BYTE		8
#define BITS_PER_LONG		64
#define BITS_PER_LONG_LONG	64
#define BIT(n)			(1UL << (n))
#define BIT_ULL(n)		(1ULL << (n))
#define BIT_MASK(n)		(1UL << ((n) % BITS_PER_LONG))
#define BIT_WORD(n)		((n) / BITS_PER_LONG)
#define BITS_PER_TYPE(t)	(sizeof(t) * BITS_PER_BYTE)
#define GENMASK(h, l)		((~0UL << (l)) & (~0UL >> (BITS_PER_LONG - 1 - (h))))
#define GENMASK_ULL(h, l)	((~0ULL << (l)) & (~0ULL >> (BITS_PER_LONG_LONG - 1 - (h))))
#define GENMASK_U32(h, l)	((u32)GENMASK(h, l))
#define GENMASK_U64(h, l)	((u64)GENMASK_ULL(h, l))
#define BIT_U8(n)		((u8)BIT(n))
#define BIT_U16(n)		((u16)BIT(n))
#define BIT_U32(n)		((u32)BIT(n))
#define BIT_U64(n)		((u64)BIT_ULL(n))
#define __bf_shf(m)		(__builtin_ffsll(m) - 1)
#define FIELD_PREP(m, v)	((typeof(m))(((typeof(m))(v) << __bf_shf(m)) & (m)))
#define FIELD_PREP_CONST(m, v)	FIELD_PREP(m, v)
#define FIELD_GET(m, v)		((typeof(m))(((v) & (m)) >> __bf_shf(m)))
#define FIELD_MAX(m)		((typeof(m))((m) >> __bf_shf(m)))
#define FIELD_FIT(m, v)		(!((((typeof(m))(v)) << __bf_shf(m)) & ~(m)))
#define FIELD_MODIFY(m, p, v)	({ *(p) &= ~(m); *(p) |= FIELD_PREP(m, v); })

static inline u32 be32_get_bits(__be32 v, u32 m) { return (__builtin_bswap32(v) & m) >> __bf_shf(m); }
static inline u32 u32_get_bits(u32 v, u32 m) { return (v & m) >> __bf_shf(m); }
static inline u64 u64_get_bits(u64 v, u64 m) { return (v & m) >> __bf_shf(m); }

#endif
