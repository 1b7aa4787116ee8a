/* SPDX-License-Identifier: GPL-2.0 */
/* Byte order; the host of the unit tests is little-endian. */
#ifndef SHIM_ASM_BYTEORDER_H
#define SHIM_ASM_BYTEORDER_H

#include <endian.h>
#include <linux/types.h>

#if __BYTE_ORDER != __LITTLE_ENDIAN
#error the shim was written for little-endian hosts
#endif

/* glibc defines both names; the kernel defines only the right one, and headers test with #if defined() */
#undef __BIG_ENDIAN
#ifndef __LITTLE_ENDIAN
#define __LITTLE_ENDIAN 1234
#endif
#ifndef __LITTLE_ENDIAN_BITFIELD
#define __LITTLE_ENDIAN_BITFIELD
#endif

#define swab16(x)	__builtin_bswap16(x)
#define swab32(x)	__builtin_bswap32(x)
#define swab64(x)	((u64)__builtin_bswap64(x))
#define cpu_to_be16(x)	((__be16)__builtin_bswap16((u16)(x)))
#define cpu_to_be32(x)	((__be32)__builtin_bswap32((u32)(x)))
#define cpu_to_be64(x)	((__be64)__builtin_bswap64((u64)(x)))
#define be16_to_cpu(x)	((u16)__builtin_bswap16((__be16)(x)))
#define be32_to_cpu(x)	((u32)__builtin_bswap32((__be32)(x)))
#define be64_to_cpu(x)	((u64)__builtin_bswap64((__be64)(x)))
#define __cpu_to_be16	cpu_to_be16
#define __cpu_to_be32	cpu_to_be32
#define __cpu_to_be64	cpu_to_be64
#define __be16_to_cpu	be16_to_cpu
#define __be32_to_cpu	be32_to_cpu
#define __be64_to_cpu	be64_to_cpu
#define cpu_to_le16(x)	((__le16)(x))
#define cpu_to_le32(x)	((__le32)(x))
#define cpu_to_le64(x)	((__le64)(x))
#define le16_to_cpu(x)	((u16)(x))
#define le32_to_cpu(x)	((u32)(x))
#define le64_to_cpu(x)	((u64)(x))
#undef htons
#undef htonl
#undef ntohs
#undef ntohl
#define htons		cpu_to_be16
#define htonl		cpu_to_be32
#define ntohs		be16_to_cpu
#define ntohl		be32_to_cpu

static inline u16 be16_to_cpup(const __be16 *p) { return be16_to_cpu(*p); }
static inline u32 be32_to_cpup(const __be32 *p) { return be32_to_cpu(*p); }
static inline u64 be64_to_cpup(const __be64 *p) { return be64_to_cpu(*p); }
static inline void be16_add_cpu(__be16 *p, u16 v) { *p = cpu_to_be16(be16_to_cpu(*p) + v); }
static inline void be32_add_cpu(__be32 *p, u32 v) { *p = cpu_to_be32(be32_to_cpu(*p) + v); }
static inline void be64_add_cpu(__be64 *p, u64 v) { *p = cpu_to_be64(be64_to_cpu(*p) + v); }
static inline void cpu_to_be32_array(__be32 *d, const u32 *s, size_t n) { while (n--) *d++ = cpu_to_be32(*s++); }
static inline void be32_to_cpu_array(u32 *d, const __be32 *s, size_t n) { while (n--) *d++ = be32_to_cpu(*s++); }

#endif
