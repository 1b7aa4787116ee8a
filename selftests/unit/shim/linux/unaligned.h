/* SPDX-License-Identifier: GPL-2.0 */
/* Loads and stores at any address. */
#ifndef SHIM_LINUX_UNALIGNED_H
#define SHIM_LINUX_UNALIGNED_H

#include <asm/byteorder.h>

#define get_unaligned(p)	({ const struct { typeof(*(p)) v; } __packed *___u = (const void *)(p); ___u->v; })
#define put_unaligned(x, p)	do { struct { typeof(*(p)) v; } __packed *___u = (void *)(p); ___u->v = (x); } while (0)

static inline u16 get_unaligned_be16(const void *p) { return be16_to_cpu(get_unaligned((const __be16 *)p)); }
static inline u32 get_unaligned_be32(const void *p) { return be32_to_cpu(get_unaligned((const __be32 *)p)); }
static inline u64 get_unaligned_be64(const void *p) { return be64_to_cpu(get_unaligned((const __be64 *)p)); }
static inline u16 get_unaligned_le16(const void *p) { return get_unaligned((const __le16 *)p); }
static inline u32 get_unaligned_le32(const void *p) { return get_unaligned((const __le32 *)p); }
static inline u64 get_unaligned_le64(const void *p) { return get_unaligned((const __le64 *)p); }
static inline void put_unaligned_be16(u16 v, void *p) { put_unaligned(cpu_to_be16(v), (__be16 *)p); }
static inline void put_unaligned_be32(u32 v, void *p) { put_unaligned(cpu_to_be32(v), (__be32 *)p); }
static inline void put_unaligned_be64(u64 v, void *p) { put_unaligned(cpu_to_be64(v), (__be64 *)p); }
static inline void put_unaligned_le32(u32 v, void *p) { put_unaligned(cpu_to_le32(v), (__le32 *)p); }
static inline void put_unaligned_le64(u64 v, void *p) { put_unaligned(cpu_to_le64(v), (__le64 *)p); }

static inline u32 get_unaligned_be24(const void *p)
{
	const u8 *b = p;

	return b[0] << 16 | b[1] << 8 | b[2];
}

#endif
