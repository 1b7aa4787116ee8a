// SPDX-License-Identifier: GPL-2.0
/*
 * Queue pairs as objects: creation, transitions and what they take over, QUERY_QP, counters, destruction in every state.
 * What a transition requires and what is optional is the stock driver's table (opt_mask[] in hw/mlx5/qp.c).
 */
#include <linux/kernel.h>

#include "unit.h"

#define RST	MLX5_QP_STATE_RST
#define INIT	MLX5_QP_STATE_INIT
#define RTR	MLX5_QP_STATE_RTR
#define RTS	MLX5_QP_STATE_RTS
#define ERR	MLX5_QP_STATE_ERR

static const struct {
	u16 opcode;
	u8 from, to;	/* from 0xff: any */
} moves[] = {
	{ MLX5_CMD_OP_RST2INIT_QP, RST, INIT },
	{ MLX5_CMD_OP_INIT2INIT_QP, INIT, INIT },
	{ MLX5_CMD_OP_INIT2RTR_QP, INIT, RTR },
	{ MLX5_CMD_OP_RTR2RTS_QP, RTR, RTS },
	{ MLX5_CMD_OP_RTS2RTS_QP, RTS, RTS },
	{ MLX5_CMD_OP_2ERR_QP, 0xff, ERR },
	{ MLX5_CMD_OP_2RST_QP, 0xff, RST },
};

static void bring_to(struct qp *qp, unsigned int state)
{
	struct qp_path path = {};

	qp_reset(qp);
	if (state == ERR)
		ASSERT_EQ(qp_to(qp, MLX5_CMD_OP_2ERR_QP, &path, qp->qpn), 0);
	if (state == INIT || state == RTR || state == RTS)
		ASSERT_EQ(qp_to(qp, MLX5_CMD_OP_RST2INIT_QP, &path, qp->qpn), 0);
	if (state == RTR || state == RTS)
		ASSERT_EQ(qp_to(qp, MLX5_CMD_OP_INIT2RTR_QP, &path, qp->qpn), 0);
	if (state == RTS)
		ASSERT_EQ(qp_to(qp, MLX5_CMD_OP_RTR2RTS_QP, &path, qp->qpn), 0);
	ASSERT_EQ(qp_state(qp), state);
}

TEST("transitions", each_from_each_state)
{
	static const u8 states[] = { RST, INIT, RTR, RTS, ERR };
	struct qp *qp = qp_new(m, (struct qp_attr){});
	struct qp_path path = {};

	for (size_t s = 0; s < ARRAY_SIZE(states); s++) {
		for (size_t i = 0; i < ARRAY_SIZE(moves); i++) {
			bool ok = moves[i].from == 0xff || moves[i].from == states[s];
			u8 status;

			bring_to(qp, states[s]);
			status = qp_to(qp, moves[i].opcode, &path, qp->qpn);
			if (!status != ok)
				FAIL("%#x from state %u: status %#x", moves[i].opcode, states[s], status);
			if (qp_state(qp) != (ok ? moves[i].to : states[s]))
				FAIL("%#x from state %u leads to state %u", moves[i].opcode, states[s], qp_state(qp));
		}
	}
	/* no such queue pair */
	qp->qpn += 1000;
	for (size_t i = 0; i < ARRAY_SIZE(moves); i++)
		ASSERT_NE(qp_to(qp, moves[i].opcode, &path, 1), 0);
	qp->qpn -= 1000;
}

TEST("transitions", drain_states_are_not_offered)
{
	static const u16 no[] = { MLX5_CMD_OP_SQERR2RTS_QP, MLX5_CMD_OP_SQD_RTS_QP };
	struct qp *qp = qp_new(m, (struct qp_attr){});
	struct qp_path path = {};

	bring_to(qp, RTS);
	for (size_t i = 0; i < ARRAY_SIZE(no); i++) {
		ASSERT_NE(qp_to(qp, no[i], &path, qp->qpn), 0);
		ASSERT_EQ(qp_state(qp), (unsigned int)RTS);
	}
}

/* fields: how to set one, how to read it, in which transitions it is required, and the bit that makes it optional */
struct field {
	const char *name;
	u32 opt;
	u16 required;		/* opcode, or 0 */
	u32 value;
	void (*set)(void *qpc, u32 v);
	u32 (*get)(const void *qpc);
};

#define ADS(p) MLX5_ADDR_OF(qpc, p, primary_address_path)
#define SET(n) static void set_##n(void *p, u32 v) { MLX5_SET(qpc, p, n, v); }
#define ASET(n) static void set_##n(void *p, u32 v) { MLX5_SET(ads, ADS(p), n, v); }
#define FIELD(n) SET(n) \
		 static u32 get_##n(const void *p) { return MLX5_GET(qpc, p, n); }
#define AFIELD(n) ASET(n) \
		  static u32 get_##n(const void *p) { return MLX5_GET(ads, ADS(p), n); }
FIELD(rre) FIELD(rwe) FIELD(rae) FIELD(min_rnr_nak) FIELD(retry_count) FIELD(rnr_retry) FIELD(log_sra_max) FIELD(log_rra_max)
FIELD(remote_qpn) FIELD(next_rcv_psn) FIELD(next_send_psn) FIELD(mtu)
AFIELD(pkey_index) AFIELD(ack_timeout)
SET(pm_state) ASET(vhca_port_num)

static const struct field fields[] = {
	{ "rre", MLX5_QP_OPTPAR_RRE, 0, 1, set_rre, get_rre },
	{ "rwe", MLX5_QP_OPTPAR_RWE, 0, 1, set_rwe, get_rwe },
	{ "rae", MLX5_QP_OPTPAR_RAE, 0, 1, set_rae, get_rae },
	{ "pkey_index", MLX5_QP_OPTPAR_PKEY_INDEX, 0, 0, set_pkey_index, get_pkey_index },
	{ "remote_qpn", 0, MLX5_CMD_OP_INIT2RTR_QP, 0x345678, set_remote_qpn, get_remote_qpn },
	{ "next_rcv_psn", 0, MLX5_CMD_OP_INIT2RTR_QP, 0x234567, set_next_rcv_psn, get_next_rcv_psn },
	{ "mtu", 0, MLX5_CMD_OP_INIT2RTR_QP, 4, set_mtu, get_mtu },
	{ "log_rra_max", MLX5_QP_OPTPAR_RRA_MAX, MLX5_CMD_OP_INIT2RTR_QP, 3, set_log_rra_max, get_log_rra_max },
	{ "min_rnr_nak", MLX5_QP_OPTPAR_RNR_TIMEOUT, MLX5_CMD_OP_INIT2RTR_QP, 21, set_min_rnr_nak, get_min_rnr_nak },
	{ "next_send_psn", 0, MLX5_CMD_OP_RTR2RTS_QP, 0x456789, set_next_send_psn, get_next_send_psn },
	{ "log_sra_max", MLX5_QP_OPTPAR_SRA_MAX, MLX5_CMD_OP_RTR2RTS_QP, 2, set_log_sra_max, get_log_sra_max },
	{ "retry_count", MLX5_QP_OPTPAR_RETRY_COUNT, MLX5_CMD_OP_RTR2RTS_QP, 5, set_retry_count, get_retry_count },
	{ "rnr_retry", MLX5_QP_OPTPAR_RNR_RETRY, MLX5_CMD_OP_RTR2RTS_QP, 6, set_rnr_retry, get_rnr_retry },
	{ "ack_timeout", MLX5_QP_OPTPAR_ACK_TIMEOUT, MLX5_CMD_OP_RTR2RTS_QP, 17, set_ack_timeout, get_ack_timeout },
};

TEST("transitions", required_fields_are_taken)
{
	u32 in[QP_CMD_DW], qpc[MLX5_ST_SZ_DW(qpc)];

	for (size_t f = 0; f < ARRAY_SIZE(fields); f++) {
		struct qp *qp;
		void *p;

		if (!fields[f].required)
			continue;
		qp = qp_new(m, (struct qp_attr){});
		bring_to(qp, fields[f].required == MLX5_CMD_OP_INIT2RTR_QP ? INIT : RTR);
		p = qp_cmd(in, qp, fields[f].required, 0);
		qp_fill(qp, p, &(struct qp_path){}, qp->qpn);
		fields[f].set(p, fields[f].value);
		ASSERT_EQ(qp_modify(qp, in), 0);
		ASSERT_EQ(qp_query(qp, qpc), 0);
		if (fields[f].get(qpc) != fields[f].value)
			FAIL("%s is %#x after %#x, expected %#x", fields[f].name, fields[f].get(qpc), fields[f].required,
			     fields[f].value);
	}
}

/*
 * A field beyond what QUERY_HCA_CAP promises is refused where it would be taken, with the check that syndromes.rst lists,
 * and the queue pair is as before; the last value that is promised passes.
 */
TEST("transitions", fields_out_of_range)
{
	static const struct bad {
		const char *name;
		u16 opcode;
		u32 opt;
		u32 good, bad;
		u8 check;
		void (*set)(void *qpc, u32 v);
	} all[] = {
		{ "mtu", MLX5_CMD_OP_INIT2RTR_QP, 0, 1, 0, 4, set_mtu },
		{ "mtu", MLX5_CMD_OP_INIT2RTR_QP, 0, 5, 6, 4, set_mtu },
		{ "log_rra_max", MLX5_CMD_OP_INIT2RTR_QP, 0, 4, 5, 5, set_log_rra_max },
		{ "log_sra_max", MLX5_CMD_OP_RTR2RTS_QP, 0, 4, 7, 6, set_log_sra_max },
		{ "port", MLX5_CMD_OP_RST2INIT_QP, 0, 1, 2, 7, set_vhca_port_num },
		{ "port", MLX5_CMD_OP_INIT2INIT_QP, MLX5_QP_OPTPAR_PRI_PORT, 1, 0, 7, set_vhca_port_num },
		{ "port", MLX5_CMD_OP_INIT2RTR_QP, 0, 1, 0, 7, set_vhca_port_num },
		{ "pkey_index", MLX5_CMD_OP_RST2INIT_QP, 0, 0, 1, 8, set_pkey_index },
		{ "pkey_index", MLX5_CMD_OP_INIT2RTR_QP, MLX5_QP_OPTPAR_PKEY_INDEX, 0, 128, 8, set_pkey_index },
		{ "pm_state", MLX5_CMD_OP_RTR2RTS_QP, MLX5_QP_OPTPAR_PM_STATE, 3, 1, 9, set_pm_state },
		{ "pm_state", MLX5_CMD_OP_RTS2RTS_QP, MLX5_QP_OPTPAR_PM_STATE, 3, 0, 9, set_pm_state },
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		u32 in[QP_CMD_DW], out[MLX5_ST_SZ_DW(rst2init_qp_out)], before[MLX5_ST_SZ_DW(qpc)], qpc[MLX5_ST_SZ_DW(qpc)];
		unsigned int from = all[i].opcode == MLX5_CMD_OP_RST2INIT_QP ? RST :
				    all[i].opcode == MLX5_CMD_OP_RTR2RTS_QP ? RTR :
				    all[i].opcode == MLX5_CMD_OP_RTS2RTS_QP ? RTS : INIT;
		struct qp *qp = qp_new(m, (struct qp_attr){});
		void *p;

		bring_to(qp, from);
		ASSERT_EQ(qp_query(qp, before), 0);
		p = qp_cmd(in, qp, all[i].opcode, all[i].opt);
		qp_fill(qp, p, &(struct qp_path){}, qp->qpn);
		all[i].set(p, all[i].bad);
		ASSERT_EQ(m_exec(m, in, sizeof(in), out, sizeof(out)), MLX5_CMD_STAT_BAD_PARAM_ERR);
		if ((MLX5_GET(rst2init_qp_out, out, syndrome) & 0xff) != all[i].check)
			FAIL("%s %u: syndrome %#x, expected check %u", all[i].name, all[i].bad,
			     MLX5_GET(rst2init_qp_out, out, syndrome), all[i].check);
		ASSERT_EQ(qp_query(qp, qpc), 0);
		ASSERT(!memcmp(before, qpc, sizeof(qpc)));
		all[i].set(p, all[i].good);
		ASSERT_EQ(qp_modify(qp, in), 0);
	}
}

/* opt_mask[RTS][RTS] of the stock driver, the alternate path aside */
#define RTS2RTS_OPT	(MLX5_QP_OPTPAR_RRE | MLX5_QP_OPTPAR_RAE | MLX5_QP_OPTPAR_RWE | MLX5_QP_OPTPAR_RNR_TIMEOUT)

/*
 * In RTS2RTS nothing is required: only what the mask names changes, and of that just the one field; a bit that the
 * transition does not have is refused, and nothing changes.
 */
TEST("transitions", optional_fields_only_by_mask)
{
	u32 in[QP_CMD_DW], before[MLX5_ST_SZ_DW(qpc)], qpc[MLX5_ST_SZ_DW(qpc)];
	struct qp *qp = qp_new(m, (struct qp_attr){});
	void *p;

	qp_up(qp, qp->qpn, (struct qp_path){ .no_rre = true, .no_rwe = true, .no_rae = true });
	for (size_t f = 0; f < ARRAY_SIZE(fields); f++) {
		if (!fields[f].opt)
			continue;
		ASSERT_EQ(qp_query(qp, before), 0);
		/* all other values, no mask: nothing changes */
		p = qp_cmd(in, qp, MLX5_CMD_OP_RTS2RTS_QP, 0);
		for (size_t g = 0; g < ARRAY_SIZE(fields); g++)
			fields[g].set(p, fields[g].value);
		ASSERT_EQ(qp_modify(qp, in), 0);
		ASSERT_EQ(qp_query(qp, qpc), 0);
		ASSERT(!memcmp(before, qpc, sizeof(qpc)));
		/* the one bit: only its field */
		MLX5_SET(rst2init_qp_in, in, opt_param_mask, fields[f].opt);
		if (!(fields[f].opt & RTS2RTS_OPT)) {
			MLX5_SET(rst2init_qp_in, in, opt_param_mask, fields[f].opt | MLX5_QP_OPTPAR_RNR_TIMEOUT);
			ASSERT_NE(qp_modify(qp, in), 0);
			ASSERT_EQ(qp_query(qp, qpc), 0);
			ASSERT(!memcmp(before, qpc, sizeof(qpc)));
			continue;
		}
		ASSERT_EQ(qp_modify(qp, in), 0);
		ASSERT_EQ(qp_query(qp, qpc), 0);
		if (fields[f].get(qpc) != fields[f].value)
			FAIL("%s is %#x, expected %#x", fields[f].name, fields[f].get(qpc), fields[f].value);
		fields[f].set(before, fields[f].value);
		if (memcmp(before, qpc, sizeof(qpc)))
			FAIL("the mask bit of %s changed other fields, too", fields[f].name);
	}
}

/* the flags that RTS2RTS changes are in force for the next request */
TEST("transitions", access_flags_at_run_time)
{
	struct pair p = pair_new_attr(m, (struct qp_attr){}, (struct qp_attr){}, (struct qp_path){ .no_rwe = true });
	u32 in[QP_CMD_DW];
	void *q;

	q = qp_cmd(in, p.b, MLX5_CMD_OP_RTS2RTS_QP, MLX5_QP_OPTPAR_RWE | MLX5_QP_OPTPAR_RRE);
	MLX5_SET(qpc, q, rwe, 1);
	ASSERT_EQ(qp_modify(p.b, in), 0);
	post_write(p.a, p.lkey, p.s, 8, p.rkey, p.d);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	post_read(p.a, p.lkey, p.s, 8, p.rkey, p.d);
	EXPECT_REQ_ERR(p.a, 1, MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR, HCA_VS_NAK_REQ);
}

TEST("query", qp_context)
{
	struct cq *scq = cq_new(m, (struct cq_attr){}), *rcq = cq_new(m, (struct cq_attr){});
	struct qp *qp = qp_new(m, (struct qp_attr){ .scq = scq, .rcq = rcq, .log_sq = 7, .log_rq = 3, .log_stride = 8,
				    .user_index = 0x123456, .rlky = true, .log_page = 2, .page_offset = 9 });
	u32 qpc[MLX5_ST_SZ_DW(qpc)];
	struct mem mem = mem_new(m, 4096);
	u32 key = mr_new(m, &mem, 0, 4096, 0);
	struct mlx5_cqe64 c;
	struct wqe w;

	ASSERT_EQ(qp_query(qp, qpc), 0);
#define IS(f, v) ASSERT_EQ(MLX5_GET(qpc, qpc, f), (u32)(v))
	IS(state, RST);
	IS(st, MLX5_QP_ST_RC);
	IS(pd, m->pd);
	IS(uar_page, m->uar);
	IS(user_index, 0x123456);
	IS(log_page_size, 2);
	IS(page_offset, 9);
	IS(log_sq_size, 7);
	IS(log_rq_size, 3);
	IS(log_rq_stride, 4);
	IS(rq_type, MLX5_NON_ZERO_RQ);
	IS(no_sq, 0);
	IS(rlky, 1);
	IS(cqn_snd, scq->cqn);
	IS(cqn_rcv, rcq->cqn);
	ASSERT_EQ(MLX5_GET64(qpc, qpc, dbr_addr), qp->dbr.dma[0]);
	qp_up(qp, qp->qpn, (struct qp_path){ .timeout = 13, .retry = 4, .rnr_retry = 3, .min_rnr = 9, .no_rae = true });
	for (int i = 0; i < 5; i++)
		post_recv(qp, key, 0, 64);
	for (int i = 0; i < 3; i++) {
		wqe_begin(&w, MLX5_OPCODE_SEND, SIGNALED, 0);
		for (int k = 0; k < 5; k++)
			wqe_data(&w, key, 64, 8);
		sq_post(qp, &w);
	}
	ASSERT_EQ(qp_query(qp, qpc), 0);
	IS(state, RTS);
	IS(remote_qpn, qp->qpn);
	IS(retry_count, 4);
	IS(rnr_retry, 3);
	IS(min_rnr_nak, 9);
	IS(rre, 1);
	IS(rwe, 1);
	IS(rae, 0);
	IS(mtu, 5);
	IS(primary_address_path.ack_timeout, 13);
	ASSERT(!memcmp(MLX5_ADDR_OF(ads, MLX5_ADDR_OF(qpc, qpc, primary_address_path), rgid_rip),
		       "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\x01", 16));
	/* 3 WQEs of two blocks; 3 of 5 receives used */
	IS(hw_sq_wqebb_counter, 6);
	IS(sw_sq_wqebb_counter, 6);
	IS(hw_rq_counter, 3);
	IS(sw_rq_counter, 5);
	while (cq_poll(scq, &c))
		;
}

/* 2RST starts all over: counters, the debug record, positions; records are not looked at until INIT */
TEST("reset", counters_begin_anew)
{
	struct pair p = pair_new(m);
	u32 qpc[MLX5_ST_SZ_DW(qpc)];

	for (int i = 0; i < 7; i++)
		post_write(p.a, p.lkey, p.s, 8, p.rkey, p.d);
	for (int i = 0; i < 7; i++)
		EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, i);
	post_write(p.a, p.lkey, p.s, 8, 0x70000, p.d);
	EXPECT_REQ_ERR(p.a, 7, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, HCA_VS_NAK_ACCESS);
	ASSERT_EQ(qp_to(p.a, MLX5_CMD_OP_2RST_QP, &(struct qp_path){}, 0), 0);
	/* the library has not zeroed the records yet */
	hca_uar_scan(m->hca, m->uar);
	shim_run();
	EXPECT_NONE(p.a->scq);
	ASSERT_EQ(qp_query(p.a, qpc), 0);
	ASSERT_EQ(MLX5_GET(qpc, qpc, hw_sq_wqebb_counter), 0u);
	ASSERT_EQ(qp_error(p.a).vendor, 0);
	ASSERT_EQ(qp_error(p.a).syndrome, 0);
	pair_revive(&p);
	post_write(p.a, p.lkey, p.s, 8, p.rkey, p.d);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
}

TEST("states", receives_are_taken_from_init_on_and_sends_from_rts)
{
	struct pair p = pair_new(m);
	struct qp_path path = {};
	struct wqe w;

	qp_reset(p.b);
	ASSERT_EQ(qp_to(p.b, MLX5_CMD_OP_RST2INIT_QP, &path, p.a->qpn), 0);
	post_recv(p.b, p.rkey, p.d, 64);
	ASSERT_EQ(qp_to(p.b, MLX5_CMD_OP_INIT2RTR_QP, &path, p.a->qpn), 0);
	post_send(p.a, p.lkey, p.s, 64);
	EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_SEND, 0);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	/* in RTR the send queue stands still */
	wqe_begin(&w, MLX5_OPCODE_NOP, SIGNALED, 0);
	sq_post(p.b, &w);
	shim_advance(1000000000ULL);
	EXPECT_NONE(p.b->scq);
	ASSERT_EQ(qp_to(p.b, MLX5_CMD_OP_RTR2RTS_QP, &path, p.a->qpn), 0);
	sq_ring(p.b);
	EXPECT_CQE(p.b->scq, MLX5_CQE_REQ, 0);
}

/* creation */

static u8 create_qp(struct machine *m, void (*change)(u32 *in, size_t *len, struct mem *ring, struct mem *dbr))
{
	size_t inlen = MLX5_ST_SZ_BYTES(create_qp_in) + 16;
	u32 in[MLX5_ST_SZ_DW(create_qp_in) + 4] = {}, out[MLX5_ST_SZ_DW(create_qp_out)];
	void *qpc = MLX5_ADDR_OF(create_qp_in, in, qpc);
	struct mem ring = mem_new(m, 8192), dbr = mem_new(m, 8);
	static struct cq *cq;

	if (!cq || cq->m != m)
		cq = cq_new(m, (struct cq_attr){});
	MLX5_SET(create_qp_in, in, opcode, MLX5_CMD_OP_CREATE_QP);
	MLX5_SET(qpc, qpc, st, MLX5_QP_ST_RC);
	MLX5_SET(qpc, qpc, pm_state, MLX5_QP_PM_MIGRATED);
	MLX5_SET(qpc, qpc, pd, m->pd);
	MLX5_SET(qpc, qpc, uar_page, m->uar);
	MLX5_SET(qpc, qpc, cqn_snd, cq->cqn);
	MLX5_SET(qpc, qpc, cqn_rcv, cq->cqn);
	MLX5_SET(qpc, qpc, log_rq_size, 6);
	MLX5_SET(qpc, qpc, log_rq_stride, 2);
	MLX5_SET(qpc, qpc, log_sq_size, 6);
	MLX5_SET64(qpc, qpc, dbr_addr, dbr.dma[0]);
	MLX5_ARRAY_SET64(create_qp_in, in, pas, 0, ring.dma[0]);
	MLX5_ARRAY_SET64(create_qp_in, in, pas, 1, ring.dma[1]);
	if (change)
		change(in, &inlen, &ring, &dbr);
	return m_exec(m, in, inlen, out, sizeof(out));
}

#define QPC MLX5_ADDR_OF(create_qp_in, in, qpc)
#define CHANGE(name, what) static void name(u32 *in, size_t *len, struct mem *ring, struct mem *dbr) { what; }
CHANGE(qp_ud, MLX5_SET(qpc, QPC, st, MLX5_QP_ST_DCT))
CHANGE(qp_pd, MLX5_SET(qpc, QPC, pd, 0x12345))
CHANGE(qp_uar, MLX5_SET(qpc, QPC, uar_page, 0x12345))
CHANGE(qp_scq, MLX5_SET(qpc, QPC, cqn_snd, 0x12345))
CHANGE(qp_rcq, MLX5_SET(qpc, QPC, cqn_rcv, 0x12345))
CHANGE(qp_sq, MLX5_SET(qpc, QPC, log_sq_size, 7))
CHANGE(qp_rq, MLX5_SET(qpc, QPC, log_rq_size, 15); MLX5_SET(qpc, QPC, log_rq_stride, 7))
CHANGE(qp_short, *len -= 8)
CHANGE(qp_offset, MLX5_SET(qpc, QPC, page_offset, 1))
CHANGE(qp_pas, MLX5_ARRAY_SET64(create_qp_in, in, pas, 1, ring->dma[1] + 0x4000000000ULL))
CHANGE(qp_dbr, MLX5_SET64(qpc, QPC, dbr_addr, dbr->dma[0] + 4))
CHANGE(qp_dbr2, MLX5_SET64(qpc, QPC, dbr_addr, dbr->dma[0] + 0x4000000000ULL))

TEST("create", bad_queue_pairs)
{
	static void (*const bad[])(u32 *, size_t *, struct mem *, struct mem *) = { qp_ud, qp_pd, qp_uar, qp_scq, qp_rcq, qp_sq,
		qp_rq, qp_short, qp_offset, qp_pas, qp_dbr, qp_dbr2 };
	unsigned int free, i;
	unsigned long allocs;

	ASSERT_EQ(create_qp(m, NULL), 0);
	shim_run();
	free = pages_free_now(m);
	shim_run();
	allocs = shim_allocs_alive();
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		if (!create_qp(m, bad[i]))
			FAIL("change %u was accepted", i);
		shim_run();
		ASSERT_EQ(shim_allocs_alive(), allocs);
	}
	ASSERT_EQ(pages_free_now(m), free);
	/* the PD was not kept by any of them: only by the first */
	ASSERT_EQ(pd_free(m, m->pd), MLX5_CMD_STAT_RES_BUSY);
}

/* queues without one half */
TEST("create", only_one_queue)
{
	struct mem mem = mem_new(m, 4096);
	u32 key = mr_new(m, &mem, 0, 4096, 0);
	struct qp *a = qp_new(m, (struct qp_attr){ .no_rq = true }), *b = qp_new(m, (struct qp_attr){ .no_sq = true });

	mem_fill(&mem, 0, 4096, 1);
	qp_connect(a, b, (struct qp_path){});
	post_recv(b, key, 0, 64);
	post_send(a, key, 64, 64);
	EXPECT_CQE(a->scq, MLX5_CQE_REQ, 0);
	EXPECT_CQE(b->rcq, MLX5_CQE_RESP_SEND, 0);
	ASSERT_PATTERN(&mem, 0, 64, 1, 64);
	post_write(a, key, 0, 64, key, 128);
	EXPECT_CQE(a->scq, MLX5_CQE_REQ, 1);
	/* whatever the record of a queue that is not there says */
	((__be32 *)b->dbr.cpu)[1] = cpu_to_be32(5);
	((__be32 *)a->dbr.cpu)[0] = cpu_to_be32(5);
	hca_uar_scan(m->hca, m->uar);
	shim_run();
	EXPECT_NONE(b->scq);
	ASSERT_EQ(qp_state(b), (unsigned int)RTS);
	ASSERT_EQ(qp_to(a, MLX5_CMD_OP_2ERR_QP, &(struct qp_path){}, 0), 0);
	ASSERT_EQ(qp_to(b, MLX5_CMD_OP_2ERR_QP, &(struct qp_path){}, 0), 0);
	shim_advance(2000000000ULL);
	EXPECT_NONE(a->rcq);
}

/* qp_free() unmaps ring and record at once: who still looks at them dies */
TEST("destroy", in_every_situation)
{
	static const u8 states[] = { RST, INIT, RTR, RTS, ERR };
	struct mem mem = mem_new(m, 4096);
	u32 key = mr_new(m, &mem, 0, 4096, 0);

	for (size_t s = 0; s < ARRAY_SIZE(states); s++) {
		struct cq *cq = cq_new(m, (struct cq_attr){});
		struct qp *qp = qp_new(m, (struct qp_attr){ .scq = cq, .rcq = cq });
		struct mlx5_cqe64 c;
		u32 n;

		bring_to(qp, states[s]);
		if (states[s] != RST)
			post_recv(qp, key, 0, 8);
		ASSERT_EQ(qp_free(qp), 0);
		while (cq_poll(cq, &c))
			;
		n = cq->ci;
		shim_advance(3000000000ULL);
		/* no CQE after the command has returned */
		ASSERT(!cq_peek(cq, &c));
		ASSERT_EQ(cq->ci, n);
		ASSERT_EQ(cq_free(cq), 0);
	}
}

TEST("destroy", while_a_request_waits)
{
	struct qp_path path = { .timeout = 10, .retry = 7 };
	struct mem mem = mem_new(m, 4096);
	u32 key = mr_new(m, &mem, 0, 4096, 0);

	for (int why = 0; why < 3; why++) {
		struct qp *a = qp_new(m, (struct qp_attr){}), *b = qp_new(m, (struct qp_attr){});
		struct cq *cq = a->scq;

		qp_connect(a, b, path);
		if (why == 1)
			qp_reset(b);
		post_send(a, key, 0, 8);	/* 0, 2: no receive; 1: no peer */
		EXPECT_NONE(cq);
		/* 2: the responder goes first */
		if (why == 2) {
			ASSERT_EQ(qp_free(b), 0);
			shim_advance(5000000);
		}
		ASSERT_EQ(qp_free(a), 0);
		shim_advance(1000000000ULL);
		EXPECT_NONE(cq);
		if (why != 2)
			ASSERT_EQ(qp_free(b), 0);
	}
}

/* a number that comes back belongs to somebody else: its old peer must not reach it */
TEST("destroy", the_peer_of_old)
{
	struct pair p = pair_new(m);
	u32 qpn = p.b->qpn;
	struct qp *c;

	ASSERT_EQ(qp_free(p.b), 0);
	c = qp_new(m, (struct qp_attr){ .scq = p.a->scq, .rcq = p.a->rcq });
	for (int i = 0; c->qpn != qpn; i++) {
		ASSERT_EQ(qp_free(c), 0);
		if (i == 300)
			return;	/* numbers run on, even better */
		c = qp_new(m, (struct qp_attr){ .scq = p.a->scq, .rcq = p.a->rcq });
	}
	qp_up(c, c->qpn, (struct qp_path){});
	post_write(p.a, p.lkey, p.s, 8, p.rkey, p.d);
	shim_advance(10000000);
	EXPECT_NONE(p.a->scq);
	ASSERT_PATTERN(&p.dst, 0, p.dst.len, 2, 0);
}

/* each allocation of each creating command fails once */
static struct cq *fault_cq;
static u32 fault_number;

static u8 fault_create_cq(struct machine *m)
{
	u32 in[MLX5_ST_SZ_DW(create_cq_in) + 2] = {}, out[MLX5_ST_SZ_DW(create_cq_out)];
	void *cqc = MLX5_ADDR_OF(create_cq_in, in, cq_context);
	u8 status;

	MLX5_SET(create_cq_in, in, opcode, MLX5_CMD_OP_CREATE_CQ);
	MLX5_SET(cqc, cqc, log_cq_size, 6);
	MLX5_SET(cqc, cqc, uar_page, m->uar);
	MLX5_SET(cqc, cqc, c_eqn_or_apu_element, m->comp.eqn);
	MLX5_SET64(cqc, cqc, dbr_addr, fault_cq->dbr.dma[0]);
	MLX5_ARRAY_SET64(create_cq_in, in, pas, 0, fault_cq->ring.dma[0]);
	status = m_exec(m, in, sizeof(in), out, sizeof(out));
	fault_number = MLX5_GET(create_cq_out, out, cqn);
	return status;
}

static u8 fault_destroy(struct machine *m, u16 opcode)
{
	u32 in[4] = {}, out[4];

	MLX5_SET(destroy_cq_in, in, opcode, opcode);
	MLX5_SET(destroy_cq_in, in, cqn, fault_number);
	return m_exec(m, in, 16, out, 16);
}

static struct mem fault_ring;

static u8 fault_create_qp(struct machine *m)
{
	u32 in[MLX5_ST_SZ_DW(create_qp_in) + 4] = {}, out[MLX5_ST_SZ_DW(create_qp_out)];
	void *qpc = MLX5_ADDR_OF(create_qp_in, in, qpc);
	u8 status;

	MLX5_SET(create_qp_in, in, opcode, MLX5_CMD_OP_CREATE_QP);
	MLX5_SET(qpc, qpc, pm_state, MLX5_QP_PM_MIGRATED);
	MLX5_SET(qpc, qpc, pd, m->pd);
	MLX5_SET(qpc, qpc, uar_page, m->uar);
	MLX5_SET(qpc, qpc, cqn_snd, fault_cq->cqn);
	MLX5_SET(qpc, qpc, cqn_rcv, fault_cq->cqn);
	MLX5_SET(qpc, qpc, log_rq_size, 6);
	MLX5_SET(qpc, qpc, log_rq_stride, 2);
	MLX5_SET(qpc, qpc, log_sq_size, 6);
	MLX5_SET64(qpc, qpc, dbr_addr, fault_cq->dbr.dma[0]);
	MLX5_ARRAY_SET64(create_qp_in, in, pas, 0, fault_ring.dma[0]);
	MLX5_ARRAY_SET64(create_qp_in, in, pas, 1, fault_ring.dma[1]);
	status = m_exec(m, in, sizeof(in), out, sizeof(out));
	fault_number = MLX5_GET(create_qp_out, out, qpn);
	return status;
}

static u8 fault_create_eq(struct machine *m)
{
	u32 in[MLX5_ST_SZ_DW(create_eq_in) + 2] = {}, out[MLX5_ST_SZ_DW(create_eq_out)];
	void *eqc = MLX5_ADDR_OF(create_eq_in, in, eq_context_entry);
	u8 status;

	MLX5_SET(create_eq_in, in, opcode, MLX5_CMD_OP_CREATE_EQ);
	MLX5_SET(eqc, eqc, log_eq_size, 6);
	MLX5_SET(eqc, eqc, uar_page, m->uar);
	MLX5_SET(eqc, eqc, intr, 3);
	MLX5_ARRAY_SET64(create_eq_in, in, pas, 0, fault_ring.dma[0]);
	status = m_exec(m, in, sizeof(in), out, sizeof(out));
	fault_number = MLX5_GET(create_eq_out, out, eq_number);
	return status;
}

TEST("faults", queues_with_no_memory)
{
	static const struct { u8 (*create)(struct machine *m); u16 destroy; } row[] = {
		{ fault_create_cq, MLX5_CMD_OP_DESTROY_CQ }, { fault_create_qp, MLX5_CMD_OP_DESTROY_QP },
		{ fault_create_eq, MLX5_CMD_OP_DESTROY_EQ },
	};

	fault_cq = cq_new(m, (struct cq_attr){});
	fault_ring = mem_new(m, 8192);
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		unsigned long n, alive;
		unsigned int free;

		ASSERT_EQ(row[i].create(m), 0);
		ASSERT_EQ(fault_destroy(m, row[i].destroy), 0);
		shim_run();
		free = pages_free_now(m);
		shim_run();
		alive = shim_allocs_alive();
		for (n = 1; n < 100; n++) {
			u8 status;

			shim_fail_nth(n);
			status = row[i].create(m);
			if (!shim_failed()) {
				shim_fail_nth(0);
				ASSERT_EQ(status, 0);
				ASSERT_EQ(fault_destroy(m, row[i].destroy), 0);
				break;
			}
			shim_fail_nth(0);
			shim_run();
			if (!status)
				FAIL("creation %zu succeeds although allocation %lu failed", i, n);
			if (shim_allocs_alive() != alive)
				FAIL("creation %zu, allocation %lu: %ld allocations more", i, n,
				     (long)(shim_allocs_alive() - alive));
		}
		ASSERT_GT(n, 2ul);
		ASSERT_LT(n, 100ul);
		ASSERT_EQ(pages_free_now(m), free);
	}
}
