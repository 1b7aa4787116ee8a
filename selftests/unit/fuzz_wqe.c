// SPDX-License-Identifier: GPL-2.0
/*
 * Fuzz target: send WQEs of every opcode but UMR (fuzz_umr.c), receive WQEs, doorbell records, arm words and stores to the UAR.
 * Well formed to begin with, then changed in any of their bytes.
 */
#include <linux/kernel.h>
#include <linux/unaligned.h>

#include "fuzz.h"

struct place {
	u32 key;
	u64 va;
};

/* own memory by a good key, mostly; the canary's key, or none */
static struct place place(struct world *w, struct in *in, bool remote)
{
	u8 how = in_u8(in);
	struct place p = { remote ? w->p.rkey : w->p.lkey, (remote ? w->p.d : w->p.s) + in_u8(in) * 8 };

	if (how >= 0xf0)
		p.key = w->foreign;
	else if (how >= 0xe8)
		p.key = in_u32(in);
	else if (how >= 0xe0)
		p.key ^= 1u << in_below(in, 32);
	if (how % 16 == 1)
		p.va = in_u64(in);
	return p;
}

static u32 length(struct in *in)
{
	u8 how = in_u8(in);

	return how < 0xc0 ? how : how < 0xf0 ? in_u16(in) & 0xfff : in_u32(in);
}

static void data(struct world *w, struct in *in, struct wqe *wqe)
{
	for (int n = 1 + in_below(in, 4); n--; ) {
		struct place p = place(w, in, false);

		wqe_data(wqe, p.key, p.va, length(in));
	}
}

static void inline_data(struct in *in, struct wqe *wqe)
{
	u8 bytes[256];

	memset(bytes, in_u8(in), sizeof(bytes));
	wqe_inline(wqe, bytes, in_u8(in) % 200);
}

static void change(struct in *in, u8 *b, unsigned int len)
{
	u8 how = in_u8(in);

	for (int n = how < 0x60 ? how % 4 : 0; n--; )
		b[in_u16(in) % len] ^= in_u8(in);
}

static void send(struct world *w, struct in *in, struct qp *qp)
{
	static const u8 opcodes[] = {
		MLX5_OPCODE_NOP, MLX5_OPCODE_SEND, MLX5_OPCODE_SEND_IMM, MLX5_OPCODE_SEND_INVAL, MLX5_OPCODE_RDMA_WRITE,
		MLX5_OPCODE_RDMA_WRITE_IMM, MLX5_OPCODE_RDMA_READ, MLX5_OPCODE_ATOMIC_CS, MLX5_OPCODE_ATOMIC_FA,
	};
	u8 which = in_u8(in), opcode = which < 0xf8 ? opcodes[which % ARRAY_SIZE(opcodes)] : in_u8(in);
	struct place to = place(w, in, true);
	struct wqe wqe;
	u16 index;

	wqe_begin(&wqe, opcode, in_u8(in), in_u8(in) < 0x80 ? to.key : in_u32(in));
	if (opcode >= MLX5_OPCODE_RDMA_WRITE && opcode <= MLX5_OPCODE_ATOMIC_FA && opcode != MLX5_OPCODE_SEND &&
	    opcode != MLX5_OPCODE_SEND_IMM)
		wqe_raddr(&wqe, to.va, to.key);
	if (opcode == MLX5_OPCODE_ATOMIC_CS || opcode == MLX5_OPCODE_ATOMIC_FA)
		wqe_atomic(&wqe, in_u32(in), in_u32(in));
	if (opcode != MLX5_OPCODE_NOP && in_u8(in) < 0x40)
		inline_data(in, &wqe);
	else if (opcode != MLX5_OPCODE_NOP)
		data(w, in, &wqe);
	index = sq_put(qp, &wqe);
	/* sizes and index are in the ring only now */
	for (int n = in_u8(in) < 0x30 ? 1 + in_below(in, 3) : 0; n--; )
		*sq_byte(qp, index, in_u16(in) % wqe.len) ^= in_u8(in);
}

static void receive(struct world *w, struct in *in, struct qp *qp)
{
	struct sge sge[4];
	int n = 1 + in_below(in, 4);
	u16 index;

	for (int i = 0; i < n; i++) {
		struct place p = place(w, in, false);

		sge[i] = (struct sge){ p.key, p.va, length(in) };
	}
	index = rq_post(qp, sge, n);
	change(in, rq_wqe(qp, index), 1u << qp->log_stride);
}

static void ring(struct world *w, struct in *in, struct qp *qp)
{
	u8 how = in_u8(in), bytes[8];

	if (how < 0x10)
		qp->sq_pi += in_u16(in);
	if (how >= 0x10 && how < 0x20)
		((__be32 *)qp->dbr.cpu)[0] = cpu_to_be32(in_u32(in));
	if (how >= 0x20 && how < 0x40)
		((__be32 *)qp->scq->dbr.cpu)[1] = cpu_to_be32(in_u32(in));
	if (how >= 0xc0) {
		put_unaligned_be64(in_u64(in), bytes);
		hca_uar_store(w->m->hca, in_u8(in) < 0xf0 ? w->m->uar : in_u16(in), in_u16(in) % 4096, bytes,
			      in_u8(in) < 0xe0 ? 8 : 1 << in_below(in, 4), in_u8(in) & 1 ? HCA_STORE_INLINE : 0);
	}
	sq_ring(qp);
	shim_run();
}

/* Nothing is left undone: what waits for a receive, or for a peer that is silent, would wait for ever */
static void settle(struct world *w)
{
	shim_run();
	qp_to(w->p.a, MLX5_CMD_OP_2ERR_QP, &(struct qp_path){}, 0);
	qp_to(w->p.b, MLX5_CMD_OP_2ERR_QP, &(struct qp_path){}, 0);
	world_revive(w);
}

void fuzz_wqe(const u8 *bytes, size_t len)
{
	struct world *w = world_get();
	struct in in = { bytes, len };

	for (int ops = 0; in.left && ops < 24; ops++) {
		u8 op = in_u8(&in);
		struct qp *qp = op & 1 ? w->p.a : w->p.b;

		for (int n = op >> 1 & 3; n--; )
			receive(w, &in, qp->peer);
		for (int n = 1 + (op >> 3 & 3); n--; )
			send(w, &in, qp);
		ring(w, &in, qp);
		if (op >= 0x80)
			settle(w);
	}
	settle(w);
	world_put(w);
}
