/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A look into the HCA through softhca's own ioctl methods: the context of a memory
 * key, and the walk that an access would take.
 */
#ifndef SELFTESTS_LIB_LOOK_H
#define SELFTESTS_LIB_LOOK_H

#include <stdint.h>
#include <infiniband/verbs.h>
#include <rdma/softhca_abi.h>

/**
 * struct look - an MKC, as QUERY_MKEY gives it (HM 2.3)
 * @mkc: its 64 bytes, big-endian
 * @octwords: translations_octword_size
 * @entries: how many of the first translation entries were read into @mtt
 */
struct look {
	uint8_t mkc[SHCA_MKC_SIZE];
	uint64_t start, len;
	unsigned int access_mode, log_page_size, octwords, rights, variant;
	unsigned int free, umr_en;
	uint32_t pd, qpn;
	unsigned int entries;
	uint64_t mtt[256];
};

/* Bits of look.rights: bits of the first word of the MKC */
#define LOOK_A		(1 << 14)
#define LOOK_RW		(1 << 13)
#define LOOK_RR		(1 << 12)
#define LOOK_LW		(1 << 11)
#define LOOK_LR		(1 << 10)

/* The big-endian word at the byte offset @at of an MKC */
uint32_t mkc_word(const uint8_t *mkc, unsigned int at);

/* 0 or a negative errno */
int look_mr(struct ibv_mr *mr, struct look *look);

/* Number of @steps, or a negative errno; @refused_by is 0 or a vendor syndrome */
int look_walk(struct ibv_qp *qp, const struct shca_explain_req *req,
	      struct shca_explain_step *steps, unsigned int max,
	      uint8_t *refused_by);

#endif
