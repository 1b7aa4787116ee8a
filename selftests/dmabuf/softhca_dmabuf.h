/* SPDX-License-Identifier: GPL-2.0 */
/*
 * /dev/softhca_dmabuf: an exporter of dma-bufs that moves them and takes them away on
 * command. For dmabuf_test.
 */
#ifndef SELFTESTS_SOFTHCA_DMABUF_H
#define SELFTESTS_SOFTHCA_DMABUF_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define EXPORT_PIN_ONLY	1	/* who maps it must have pinned it */
#define EXPORT_CONTIG	2	/* each 2 MiB of it in one piece */

struct export_new {
	__u64 size;
	__u32 flags;
	__u32 pad;
};

/* @flags: EXPORT_CONTIG: to where it is so, else to where it is not */
struct export_move {
	__s32 fd;
	__u32 flags;
};

struct export_copy {
	__s32 fd;
	__u32 pad;
	__u64 offset;
	__u64 len;
	__u64 data;
};

/**
 * struct export_state - what has become of a buffer
 * @mappings: that importers have now
 * @pins: likewise
 * @mapped: mappings so far
 * @stale: bytes of its last place that somebody has written since it left there
 */
struct export_state {
	__s32 fd;
	__u32 mappings;
	__u32 pins;
	__u32 mapped;
	__u64 stale;
};

#define EXPORT_NEW	_IOW('h', 1, struct export_new)		/* returns the dma-buf */
#define EXPORT_MOVE	_IOW('h', 2, struct export_move)
#define EXPORT_REVOKE	_IOW('h', 3, __s32)			/* for good */
#define EXPORT_PUT	_IOW('h', 4, struct export_copy)
#define EXPORT_GET	_IOW('h', 5, struct export_copy)
#define EXPORT_STATE	_IOWR('h', 6, struct export_state)

#endif
