/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A queue pair driven by hand, without libmlx5's posting: for WQEs, doorbell
 * records and doorbells that a well-behaved library never produces.
 *
 * The queue pair must be fresh, its send queue empty and never used by
 * ibv_post_send(); its send CQ must belong to it alone.
 */
#ifndef SELFTESTS_LIB_RAW_H
#define SELFTESTS_LIB_RAW_H

#include <stdint.h>
#include <infiniband/mlx5dv.h>

#define BB	64u		/* a WQE basic block */

struct raw {
	struct mlx5dv_qp qp;
	struct mlx5dv_cq cq;
	uint32_t qpn;
	uint16_t pi;		/* next basic block */
	uint32_t ci;		/* next CQE */
};

/* What a CQE says */
struct raw_cqe {
	uint8_t opcode, syndrome, vendor;
	uint16_t wqe_counter;
	uint32_t byte_cnt;
};

/* 0, or -EOPNOTSUPP when libmlx5 does not drive the device */
int raw_open(struct raw *r, struct ibv_qp *qp, struct ibv_cq *scq);

/* The WQE being built, in private memory */
struct raw_wqe {
	union {
		struct mlx5_wqe_ctrl_seg ctrl;
		uint8_t bytes[1024];
	};
	unsigned int len;
};

void raw_begin(struct raw_wqe *w, struct raw *r, uint8_t opcode, uint8_t flags);
void raw_remote(struct raw_wqe *w, uint64_t addr, uint32_t rkey);
void raw_data(struct raw_wqe *w, uint64_t addr, uint32_t len, uint32_t lkey);
void raw_atomic(struct raw_wqe *w, uint64_t swap_add, uint64_t compare);

/* Copies the WQE into the ring; @ds overrides its size unless negative */
void raw_put(struct raw *r, struct raw_wqe *w, int ds);
/* Publishes what was put in the doorbell record */
void raw_record(struct raw *r);
/* The store to the UAR */
void raw_ring(struct raw *r);
/* raw_put(), raw_record(), raw_ring() */
void raw_post(struct raw *r, struct raw_wqe *w);

/* The basic block at the index @pi, as the HCA finds it */
void *raw_block(struct raw *r, uint16_t pi);

/* One CQE within @ms: 1, or 0 */
int raw_wait(struct raw *r, struct raw_cqe *cqe, int ms);

#endif
