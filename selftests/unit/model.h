/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The hardware model's translation (HM 4.2 to 4.5, 5.3, 13.1) as one recursive function over keys that a test has made.
 * It shares nothing with the engine and takes no short cut: every byte is resolved on its own.
 */
#ifndef MODEL_H
#define MODEL_H

#include "machine.h"

#define MODEL_ENTRIES	16

/* a key as CREATE_MKEY was told of it; @a.mtt and @a.klm point into it */
struct model_key {
	struct key_attr a;
	u64 mtt[MODEL_ENTRIES];
	struct klm klm[MODEL_ENTRIES];
	u32 key, pd, qpn;
};

struct model {
	struct model_key *key;
	int nr;
	const struct mem *area;		/* what the bus knows of; 4 KiB pages */
	u64 *resolved;			/* DMA address of each byte, as far as the walk came; MODEL_DROPPED: dump_fill */
	u32 nr_resolved;
};
#define MODEL_DROPPED	(~0ULL)

struct asker {
	u32 pd, qpn;
	bool remote;
	enum hca_access access;
};

/* 0, or the vendor syndrome; @mo->resolved must have room for @len */
u8 model_walk(struct model *mo, u32 key, const struct asker *who, u64 va, u64 len);
/* the page of @mem that @dma lies in, or its number of pages */
u64 page_of(const struct mem *mem, u64 dma);

#endif
