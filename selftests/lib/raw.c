// SPDX-License-Identifier: GPL-2.0
/* See raw.h. */
#include <endian.h>
#include <errno.h>
#include <sched.h>
#include <string.h>
#include "raw.h"
#include "rdma.h"

int raw_open(struct raw *r, struct ibv_qp *qp, struct ibv_cq *scq)
{
	struct mlx5dv_obj obj = {
		.qp = { .in = qp, .out = &r->qp },
		.cq = { .in = scq, .out = &r->cq },
	};

	memset(r, 0, sizeof(*r));
	if (!mlx5dv_is_supported(qp->context->device))
		return -EOPNOTSUPP;
	if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ))
		return -EINVAL;
	r->qpn = qp->qp_num;
	return 0;
}

void raw_begin(struct raw_wqe *w, struct raw *r, uint8_t opcode, uint8_t flags)
{
	memset(w, 0, sizeof(*w));
	w->ctrl.opmod_idx_opcode = htobe32(r->pi << 8 | opcode);
	w->ctrl.fm_ce_se = flags;
	w->len = sizeof(w->ctrl);
}

static void append(struct raw_wqe *w, const void *seg, size_t len)
{
	memcpy(w->bytes + w->len, seg, len);
	w->len += len;
}

void raw_remote(struct raw_wqe *w, uint64_t addr, uint32_t rkey)
{
	struct mlx5_wqe_raddr_seg seg = {
		.raddr = htobe64(addr), .rkey = htobe32(rkey),
	};

	append(w, &seg, sizeof(seg));
}

void raw_data(struct raw_wqe *w, uint64_t addr, uint32_t len, uint32_t lkey)
{
	struct mlx5_wqe_data_seg seg = {
		.byte_count = htobe32(len), .lkey = htobe32(lkey),
		.addr = htobe64(addr),
	};

	append(w, &seg, sizeof(seg));
}

void raw_atomic(struct raw_wqe *w, uint64_t swap_add, uint64_t compare)
{
	struct mlx5_wqe_atomic_seg seg = {
		.swap_add = htobe64(swap_add), .compare = htobe64(compare),
	};

	append(w, &seg, sizeof(seg));
}

void *raw_block(struct raw *r, uint16_t pi)
{
	return (char *)r->qp.sq.buf + (pi & (r->qp.sq.wqe_cnt - 1)) * BB;
}

void raw_put(struct raw *r, struct raw_wqe *w, int ds)
{
	unsigned int blocks = (w->len + BB - 1) / BB;

	if (ds < 0)
		ds = w->len / 16;
	w->ctrl.qpn_ds = htobe32(r->qpn << 8 | (ds & 0xff));
	for (unsigned int i = 0; i < blocks; i++)
		memcpy(raw_block(r, r->pi + i), w->bytes + i * BB, BB);
	r->pi += blocks;
}

void raw_record(struct raw *r)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&r->qp.dbrec[MLX5_SND_DBR], htobe32(r->pi),
			 __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void raw_ring(struct raw *r)
{
	/* the content is a hint only */
	uint64_t hint = htobe64((uint64_t)r->qpn << 8 | 1);

	__atomic_store_n((uint64_t *)r->qp.bf.reg, hint, __ATOMIC_RELAXED);
}

void raw_post(struct raw *r, struct raw_wqe *w)
{
	raw_put(r, w, -1);
	raw_record(r);
	raw_ring(r);
}

int raw_wait(struct raw *r, struct raw_cqe *cqe, int ms)
{
	struct mlx5_cqe64 *slot = (void *)((char *)r->cq.buf +
		(r->ci & (r->cq.cqe_cnt - 1)) * r->cq.cqe_size +
		r->cq.cqe_size - 64);
	const struct mlx5_err_cqe *error = (void *)slot;
	uint8_t owner = !!(r->ci & r->cq.cqe_cnt), op_own;
	uint64_t end = now_us() + ms * 1000ull;

	for (;;) {
		op_own = __atomic_load_n(&slot->op_own, __ATOMIC_ACQUIRE);
		if (op_own >> 4 != MLX5_CQE_INVALID && (op_own & 1) == owner)
			break;
		if (now_us() >= end)
			return 0;
		sched_yield();
	}
	cqe->opcode = op_own >> 4;
	cqe->wqe_counter = be16toh(slot->wqe_counter);
	cqe->byte_cnt = be32toh(slot->byte_cnt);
	cqe->syndrome = 0;
	cqe->vendor = 0;
	if (cqe->opcode == MLX5_CQE_REQ_ERR ||
	    cqe->opcode == MLX5_CQE_RESP_ERR) {
		cqe->syndrome = error->syndrome;
		cqe->vendor = error->vendor_err_synd;
	}
	r->ci++;
	__atomic_store_n(&r->cq.dbrec[0],
			 htobe32(r->ci & 0xffffff), __ATOMIC_RELEASE);
	return 1;
}
