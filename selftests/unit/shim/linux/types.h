/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's integer types. u64 is unsigned long long, so that %llx fits everywhere as it does in the kernel. */
#ifndef SHIM_LINUX_TYPES_H
#define SHIM_LINUX_TYPES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <linux/compiler.h>

typedef unsigned char u8, __u8;
typedef unsigned short u16, __u16;
typedef unsigned int u32, __u32;
typedef unsigned long long u64, __u64;
typedef signed char s8, __s8;
typedef short s16, __s16;
typedef int s32, __s32;
typedef long long s64, __s64;
typedef u16 __le16, __be16;
typedef u32 __le32, __be32;
typedef u64 __le64, __be64;
typedef u16 __sum16;
typedef u32 __wsum;
typedef unsigned int gfp_t;
typedef unsigned int fmode_t;
typedef u64 dma_addr_t;
typedef u64 phys_addr_t;
typedef u64 resource_size_t;
typedef unsigned int slab_flags_t;
typedef int __kernel_pid_t;
#define aligned_u64	__u64 __attribute__((__aligned__(8)))
#define __aligned_u64	__u64 __attribute__((__aligned__(8)))
#define __aligned_be64	__be64 __attribute__((__aligned__(8)))
#define __aligned_le64	__le64 __attribute__((__aligned__(8)))

struct list_head {
	struct list_head *next, *prev;
};

struct hlist_node {
	struct hlist_node *next, **pprev;
};

struct hlist_head {
	struct hlist_node *first;
};

struct callback_head {
	struct callback_head *next;
	void (*func)(struct callback_head *head);
};
#define rcu_head callback_head

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	s64 counter;
} atomic64_t;

typedef atomic64_t atomic_long_t;

#endif
