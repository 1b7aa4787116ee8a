// SPDX-License-Identifier: GPL-2.0
/* What tests say again and again: completions to expect, pairs, one-segment requests, walks, UMRs, windows, dice. */
#include <stdio.h>

#include <linux/kernel.h>
#include <linux/unaligned.h>

#include "unit.h"

/* completions */

static void describe(const char *file, int line, struct cq *cq, const char *wanted_)
{
	struct mlx5_cqe64 c;

	if (!cq_peek(cq, &c))
		unit_fail(file, line, "CQ %#x is empty; expected %s", cq->cqn, wanted_);
	unit_fail(file, line, "CQE at %u: opcode %u, syndrome %#x/%#x, QPN %#x, counter %u, bytes %u; expected %s",
		  cq->ci, c.op_own >> 4, ((u8 *)&c)[55], ((u8 *)&c)[54], be32_to_cpu(c.sop_drop_qpn) & 0xffffff,
		  be16_to_cpu(c.wqe_counter), be32_to_cpu(c.byte_cnt), wanted_);
}

void expect_none(const char *file, int line, struct cq *cq)
{
	struct mlx5_cqe64 c;

	if (cq_peek(cq, &c))
		describe(file, line, cq, "none");
}

struct mlx5_cqe64 expect_cqe(const char *file, int line, struct cq *cq, u8 opcode, u16 counter_)
{
	char text[64];
	struct mlx5_cqe64 c;

	snprintf(text, sizeof(text), "opcode %u, counter %u", opcode, counter_);
	if (!cq_peek(cq, &c) || c.op_own >> 4 != opcode || be16_to_cpu(c.wqe_counter) != counter_)
		describe(file, line, cq, text);
	cq_poll(cq, &c);
	return c;
}

void expect_error(const char *file, int line, struct cq *cq, bool requester, struct qp *qp, u16 counter_,
		  u8 syndrome, u8 vendor)
{
	u8 opcode = requester ? MLX5_CQE_REQ_ERR : MLX5_CQE_RESP_ERR;
	char text[96];
	struct mlx5_cqe64 c;
	const u8 *p = (const u8 *)&c;

	snprintf(text, sizeof(text), "%s error %#x/%#x, QPN %#x, counter %u", requester ? "requester" : "responder",
		 syndrome, vendor, qp->qpn, counter_);
	if (!cq_peek(cq, &c) || c.op_own >> 4 != opcode || p[55] != syndrome || p[54] != vendor ||
	    (be32_to_cpu(c.sop_drop_qpn) & 0xffffff) != qp->qpn || be16_to_cpu(c.wqe_counter) != counter_ ||
	    be32_to_cpu(c.srqn) != qp->user_index)
		describe(file, line, cq, text);
	cq_poll(cq, &c);
}

/* pairs */

struct pair pair_new_attr(struct machine *m, struct qp_attr qa, struct qp_attr qb, struct qp_path path)
{
	struct pair p = { .m = m, .s = 0x10000e00, .d = 0x7f0000200e00, .len = 0x2000 };

	p.a = qp_new(m, qa);
	p.b = qp_new(m, qb);
	p.src = mem_new(m, 3 * 4096);
	p.dst = mem_new(m, 3 * 4096);
	mem_fill(&p.src, 0, p.src.len, 1);
	mem_fill(&p.dst, 0, p.dst.len, 2);
	p.lkey = mr_new(m, &p.src, PAIR_OFFSET, p.len, p.s);
	p.rkey = mr_new(m, &p.dst, PAIR_OFFSET, p.len, p.d);
	qp_connect(p.a, p.b, path);
	return p;
}

struct pair pair_new(struct machine *m)
{
	return pair_new_attr(m, (struct qp_attr){}, (struct qp_attr){}, (struct qp_path){});
}

void qp_reset(struct qp *qp)
{
	struct qp_path path = {};

	if (qp_to(qp, MLX5_CMD_OP_2RST_QP, &path, 0))
		FAIL("2RST_QP: syndrome %#x", qp->m->syndrome);
	/* libmlx5 zeroes the records after the command */
	memset(qp->dbr.cpu, 0, 8);
	qp->sq_pi = qp->rq_pi = 0;
}

void qp_revive(const char *file, int line, struct qp *qp, struct qp_path path)
{
	struct qp *end[] = { qp, qp->peer };

	for (int i = 0; i < 2 && end[i]; i++) {
		expect_none(file, line, end[i]->scq);
		expect_none(file, line, end[i]->rcq);
		qp_reset(end[i]);
		cq_update(end[i]->scq);
		cq_update(end[i]->rcq);
	}
	if (qp->peer)
		qp_connect(qp, qp->peer, path);
	else
		qp_up(qp, 0, path);
}

u16 post_write(struct qp *qp, u32 lkey, u64 laddr, u32 len, u32 rkey, u64 raddr)
{
	struct wqe w;

	wqe_begin(&w, MLX5_OPCODE_RDMA_WRITE, SIGNALED, 0);
	wqe_raddr(&w, raddr, rkey);
	if (len)
		wqe_data(&w, lkey, laddr, len);
	return sq_post(qp, &w);
}

u16 post_read(struct qp *qp, u32 lkey, u64 laddr, u32 len, u32 rkey, u64 raddr)
{
	struct wqe w;

	wqe_begin(&w, MLX5_OPCODE_RDMA_READ, SIGNALED, 0);
	wqe_raddr(&w, raddr, rkey);
	if (len)
		wqe_data(&w, lkey, laddr, len);
	return sq_post(qp, &w);
}

static u16 post_send_op(struct qp *qp, u8 opcode, u32 imm, u32 lkey, u64 laddr, u32 len)
{
	struct wqe w;

	wqe_begin(&w, opcode, SIGNALED, imm);
	if (len)
		wqe_data(&w, lkey, laddr, len);
	return sq_post(qp, &w);
}

u16 post_send(struct qp *qp, u32 lkey, u64 laddr, u32 len)
{
	return post_send_op(qp, MLX5_OPCODE_SEND, 0, lkey, laddr, len);
}

u16 post_send_inval(struct qp *qp, u32 lkey, u64 laddr, u32 len, u32 rkey)
{
	return post_send_op(qp, MLX5_OPCODE_SEND_INVAL, rkey, lkey, laddr, len);
}

u16 post_atomic(struct qp *qp, u8 opcode, u32 lkey, u64 laddr, u32 rkey, u64 raddr, u64 swap_add, u64 compare)
{
	struct wqe w;

	wqe_begin(&w, opcode, SIGNALED, 0);
	wqe_raddr(&w, raddr, rkey);
	wqe_atomic(&w, swap_add, compare);
	wqe_data(&w, lkey, laddr, 8);
	return sq_post(qp, &w);
}

u16 post_recv(struct qp *qp, u32 lkey, u64 addr, u32 len)
{
	struct sge sge = { lkey, addr, len };

	return rq_post(qp, &sge, len ? 1 : 0);
}

/* walks */

struct walk explain(struct machine *m, struct qp *qp, u32 key, u64 va, u64 len, enum hca_access access, bool remote)
{
	struct hca_explain_req req = { key, qp->qpn, va, len, access, remote };
	struct walk w = { .syndrome = 0xee };

	w.n = hca_explain(m->hca, &req, w.step, ARRAY_SIZE(w.step), &w.syndrome);
	ASSERT_GE(w.n, 0);
	return w;
}

u64 dma_of(struct machine *m, struct qp *qp, u32 key, u64 va)
{
	struct walk w = explain(m, qp, key, va, 1, HCA_ACCESS_READ, false);

	if (w.syndrome)
		return w.syndrome;
	ASSERT_GE(w.n, 1);
	return w.step[w.n - 1].dma;
}

u8 syndrome_of(struct machine *m, struct qp *qp, u32 key, u64 va, u64 len)
{
	return explain(m, qp, key, va, len, HCA_ACCESS_READ, false).syndrome;
}

/* the end of a request by the pair's requester: 0, or the code that the responder kept */
static u8 code_of(struct pair *p, u16 counter_, u32 rkey)
{
	struct hca_qp_error e;

	cq_update(p->a->scq);
	if (qp_state(p->a) == MLX5_QP_STATE_RTS) {
		EXPECT_CQE(p->a->scq, MLX5_CQE_REQ, counter_);
		return 0;
	}
	EXPECT_REQ_ERR(p->a, counter_, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, HCA_VS_NAK_ACCESS);
	e = qp_error(p->b);
	ASSERT(e.responder);
	if (e.vendor < HCA_VS_NESTED)
		ASSERT_EQ(e.key, rkey);
	return e.vendor;
}

u8 read_by_peer(struct pair *p, u32 rkey, u64 va, u32 len)
{
	return code_of(p, post_read(p->a, p->lkey, p->s, len, rkey, va), rkey);
}

u8 write_by_peer(struct pair *p, u32 rkey, u64 va, u32 len)
{
	return code_of(p, post_write(p->a, p->lkey, p->s, len, rkey, va), rkey);
}

u8 add_by_peer(struct pair *p, u32 rkey, u64 va, u64 add)
{
	return code_of(p, post_atomic(p->a, MLX5_OPCODE_ATOMIC_FA, p->lkey, p->s, rkey, va, add, 0), rkey);
}

/* keys and their updates */

struct key_dump key_dump(struct machine *m, u32 key)
{
	u8 out[0x110 + 4096];
	struct key_dump d;

	memset(&d, 0, sizeof(d));
	d.status = key_query(m, key, true, out, sizeof(out));
	if (!d.status) {
		memcpy(d.mkc, out + 0x10, sizeof(d.mkc));
		memcpy(d.list, out + 0x110, sizeof(d.list));
	}
	return d;
}

u16 post_umr(struct qp *qp, const struct umr *u)
{
	struct wqe w;

	wqe_umr(&w, u);
	return sq_post(qp, &w);
}

void umr_ok(const char *file, int line, struct qp *qp, const struct umr *u)
{
	u16 index = post_umr(qp, u);
	struct mlx5_cqe64 c = expect_cqe(file, line, qp->scq, MLX5_CQE_REQ, index);

	cq_update(qp->scq);
	if (be32_to_cpu(c.sop_drop_qpn) != (0x25u << 24 | qp->qpn))
		unit_fail(file, line, "CQE of a UMR: opcode and QPN %#x", be32_to_cpu(c.sop_drop_qpn));
}

void umr_refused(const char *file, int line, struct qp *qp, const struct umr *u, u8 syndrome, u8 vendor)
{
	struct key_dump before = key_dump(qp->m, u->key), after;
	u16 index = post_umr(qp, u);

	expect_error(file, line, qp->scq, true, qp, index, syndrome, vendor);
	after = key_dump(qp->m, u->key);
	if (memcmp(&before, &after, sizeof(before)))
		unit_fail(file, line, "a refused UMR changed its target");
	if (qp_state(qp) != MLX5_QP_STATE_ERR)
		unit_fail(file, line, "the queue of a refused UMR is in state %u", qp_state(qp));
	if (qp_error(qp).vendor != vendor)
		unit_fail(file, line, "the record says %#x", qp_error(qp).vendor);
	qp_revive(file, line, qp, (struct qp_path){});
}

/* windows */

struct window window_new(struct machine *m, u8 type, u32 pd)
{
	struct key_attr a = { .mode = MLX5_MKC_ACCESS_MODE_KLMS, .free = true, .umr_en = true, .en_rinval = type == 2,
			      .octwords = 4, .pd = pd };

	return (struct window){ key_new(m, &a), type };
}

struct umr window_bind(const struct window *w, struct qp *qp, u8 variant, u32 mr, u64 addr, u64 len, u64 rights,
		       bool zero_based, u8 list[64])
{
	struct umr u = { .key = w->key, .flags = UMR_INLINE | UMR_OFFSET, .octwords = 4, .list = list,
			 .mask = UMR_FREE | UMR_KEY | UMR_LEN | UMR_START | UMR_RIGHTS };

	memset(list, 0, 64);
	klm_put(list, 0, (struct klm){ len, mr, addr });
	/* what is not selected is left over from earlier WQEs */
	memset(u.mkc, 0xa5, sizeof(u.mkc));
	UMR_SET(&u, free, 0);
	UMR_SET(&u, lw, !!(rights & UMR_LW));
	UMR_SET(&u, rr, !!(rights & UMR_RR));
	UMR_SET(&u, rw, !!(rights & UMR_RW));
	UMR_SET(&u, a, !!(rights & UMR_A));
	UMR_SET(&u, qpn, 0xffffff);
	UMR_SET(&u, mkey_7_0, variant);
	UMR_SET64(&u, start_addr, zero_based ? 0 : addr);
	UMR_SET64(&u, len, len);
	UMR_SET(&u, length64, 0);
	if (w->type == 2) {
		u.flags |= UMR_IF_FREE;
		u.mask |= UMR_QPN;
		UMR_SET(&u, qpn, qp->qpn);
	}
	return u;
}

struct umr window_unbind(const struct window *w, u8 variant)
{
	struct umr u = { .key = w->key, .flags = UMR_INLINE | UMR_OFFSET, .mask = UMR_FREE | UMR_KEY };

	memset(u.mkc, 0xa5, sizeof(u.mkc));
	UMR_SET(&u, free, 1);
	UMR_SET(&u, qpn, 0xffffff);
	UMR_SET(&u, mkey_7_0, variant);
	if (w->type == 2) {
		u.flags |= UMR_CHECK_QPN;
		u.mask |= UMR_QPN;
	}
	return u;
}

struct umr local_inval(u32 key)
{
	return window_unbind(&(struct window){ key, 2 }, 0);
}

struct umr kernel_local_inval(u32 key)
{
	struct umr u = { .key = key, .flags = UMR_INLINE, .mask = UMR_FREE };

	UMR_SET(&u, free, 1);
	return u;
}

/* dice */

u64 rnd_state = 0x853c49e6748fea9bULL;

u64 rnd(u64 n)
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return (rnd_state >> 11) % n;
}
