/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A look at the context of a memory key, through softhca's own ioctl methods.
 */
#ifndef SELFTESTS_LIB_LOOK_H
#define SELFTESTS_LIB_LOOK_H

#include <stdint.h>
#include <infiniband/verbs.h>

/**
 * struct look - an MKC, as QUERY_MKEY gives it (HM 2.3)
 * @mkc: its 64 bytes, big-endian
 * @entries: how many of the first translation entries were read into @mtt
 */
struct look {
	uint8_t mkc[64];
	uint64_t start, len;
	unsigned int access_mode, log_page_size, octwords, rights, variant;
	unsigned int free, umr_en;
	uint32_t pd;
	unsigned int entries;
	uint64_t mtt[64];
};

#define LOOK_A		(1 << 14)	/* bits of look.rights: word 0 of the MKC */
#define LOOK_RW		(1 << 13)
#define LOOK_RR		(1 << 12)
#define LOOK_LW		(1 << 11)
#define LOOK_LR		(1 << 10)

/* 0 or a negative errno */
int look_mr(struct ibv_mr *mr, struct look *look);

#endif
