/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One access of every kind that a memory region can see, for tests of regions whose
 * pages come and go. The other side of each access is pinned memory of the library.
 */
#ifndef SELFTESTS_LIB_ACCESS_H
#define SELFTESTS_LIB_ACCESS_H

#include "rdma.h"

/* What the atomics add */
#define ACCESS_ADD	0x1122334455667788ull

/* Which part the memory plays. In the first three it is read, in the others written. */
enum access_kind {
	SEND_FROM,	/* gathered by A's SEND */
	WRITE_FROM,	/* gathered by A's RDMA WRITE */
	READ_FROM,	/* source, at B, of A's RDMA READ */
	RECV_TO,	/* scattered into by B's receive */
	WRITE_TO,	/* target, at B, of A's RDMA WRITE */
	READ_TO,	/* result of A's RDMA READ */
	ATOMIC_AT,	/* target, at B, of A's fetch-and-add: its first 8 bytes */
	ATOMIC_TO,	/* result of A's fetch-and-add: 8 bytes */
	ACCESSES
};

static inline bool access_reads(enum access_kind access)
{
	return access <= READ_FROM;
}

/* B's memory, not A's? */
static inline bool access_is_remote(enum access_kind access)
{
	return access == READ_FROM || access == WRITE_TO || access == ATOMIC_AT;
}

/**
 * struct other - the other side: memory that is pinned
 */
struct other {
	struct pair *p;
	char *buf;
	size_t len;
	struct ibv_mr *mr;
};

int other_open(struct other *o, struct pair *p, size_t len);
void other_close(struct other *o);

/* Posts the access to [@addr, @addr + @len) through @key; 0 or a negative errno */
int access_post(struct other *o, enum access_kind access, uint32_t key,
		uint64_t addr, uint32_t len);
/*
 * Waits for A's completion: its status, or a negative errno. @wc gets it, @bwc that of
 * B's receive if there is one; either may be NULL.
 */
int access_wait(struct other *o, enum access_kind access, struct ibv_wc *wc,
		struct ibv_wc *bwc);
/* Both */
int access_run(struct other *o, enum access_kind access, uint32_t key, uint64_t addr,
	       uint32_t len, struct ibv_wc *wc, struct ibv_wc *bwc);

/*
 * Makes the access to @len bytes at @mem, known to the HCA as @addr, and checks every
 * byte: written ones become those of fill() with @seed, read ones must be so already.
 * 0; the status of the completion; or a negative errno, -EBADMSG for a wrong byte.
 */
int access_check(struct other *o, enum access_kind access, uint32_t key, uint64_t addr,
		 void *mem, uint32_t len, uint64_t seed);

#endif
