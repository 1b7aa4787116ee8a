/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory windows: binding and invalidating by posted requests, each signalled and
 * waited for. Functions return the status of the completion (enum ibv_wc_status) or
 * a negative errno; @wc may be NULL.
 */
#ifndef SELFTESTS_LIB_MW_H
#define SELFTESTS_LIB_MW_H

#include "rdma.h"

/**
 * struct window - what a window shall be bound to
 * @access: what it allows; IBV_ACCESS_ZERO_BASED too, type 2 only
 */
struct window {
	struct ibv_mr *mr;
	uint64_t addr, len;
	unsigned int access;
};

/* Type 1: the library chooses the next key and leaves it in @mw. Length 0 unbinds. */
int mw_bind_1(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_mw *mw,
	      const struct window *to, struct ibv_wc *wc);
/* Type 2: @rkey is the new key */
int mw_bind_2(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_mw *mw,
	      const struct window *to, uint32_t rkey, struct ibv_wc *wc);
int local_inv(struct ibv_qp *qp, struct ibv_cq *cq, uint32_t rkey,
	      struct ibv_wc *wc);

#endif
