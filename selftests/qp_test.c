// SPDX-License-Identifier: GPL-2.0
/*
 * Proves the life of a queue pair: which transitions there are, that it remembers
 * what it was told, that every posted work request ends in exactly one way (done,
 * failed, flushed or dropped by RESET), and when a sender waits, tries again or gives
 * up: RNR and missing peers.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "kselftest_harness.h"
#include "lib/rdma.h"
#include "lib/mem.h"
#include "../include/hca/syndrome.h"

#define AT(p)	((uintptr_t)(p))
#define QUERY_ALL	(IBV_QP_DEST_QPN * 2 - 1)

FIXTURE(qp) {
	struct pair p;
	char *near, *far;
	struct ibv_mr *near_mr, *far_mr;
};

FIXTURE_SETUP(qp)
{
	ASSERT_EQ(0, pair_open(&self->p, NULL));
	self->near = mem_pages(4 * PAGE);
	self->far = mem_pages(4 * PAGE);
	ASSERT_NE(NULL, self->near);
	ASSERT_NE(NULL, self->far);
	self->near_mr = ibv_reg_mr(self->p.pd, self->near, 4 * PAGE,
				   ACCESS_ALL);
	self->far_mr = ibv_reg_mr(self->p.pd, self->far, 4 * PAGE, ACCESS_ALL);
	ASSERT_NE(NULL, self->near_mr);
	ASSERT_NE(NULL, self->far_mr);
}

FIXTURE_TEARDOWN(qp)
{
	EXPECT_EQ(0, ibv_dereg_mr(self->near_mr));
	EXPECT_EQ(0, ibv_dereg_mr(self->far_mr));
	pair_close(&self->p);
}

#define SELF	FIXTURE_DATA(qp) *self

static struct op to_far(SELF, enum ibv_wr_opcode opcode, uint32_t len)
{
	return (struct op){
		.opcode = opcode, .flags = IBV_SEND_SIGNALED, .len = len,
		.laddr = AT(self->near), .lkey = self->near_mr->lkey,
		.raddr = AT(self->far), .rkey = self->far_mr->rkey,
	};
}

static int do_op(SELF, enum ibv_wr_opcode opcode, uint32_t len)
{
	struct op op = to_far(self, opcode, len);

	return run(self->p.a, self->p.acq, &op, NULL);
}

static int recv_far(SELF, uint64_t id, uint32_t len)
{
	return post_recv(self->p.b, id, AT(self->far), len,
			 self->far_mr->lkey);
}

TEST_F(qp, transitions)
{
	struct ibv_qp *qp = qp_create(self->p.pd, self->p.acq, self->p.acq,
				      &self->p.cfg);
	struct qp_cfg *cfg = &self->p.cfg;

	ASSERT_NE(NULL, qp);
	EXPECT_EQ(IBV_QPS_RESET, qp_state(qp));
	EXPECT_EQ(0, qp_to(qp, IBV_QPS_RESET));
	for (int stop = 0; stop < 4; stop++) {
		/* as far as stop, then to ERR and back */
		EXPECT_EQ(0, qp_init(qp, cfg));
		EXPECT_EQ(IBV_QPS_INIT, qp_state(qp));
		EXPECT_EQ(0, qp_init(qp, cfg));
		if (stop >= 1) {
			EXPECT_EQ(0, qp_rtr(&self->p.r, qp, cfg, qp->qp_num));
			EXPECT_EQ(IBV_QPS_RTR, qp_state(qp));
		}
		if (stop >= 2) {
			EXPECT_EQ(0, qp_rts(qp, cfg));
			EXPECT_EQ(IBV_QPS_RTS, qp_state(qp));
		}
		if (stop < 3) {
			EXPECT_EQ(0, qp_to(qp, IBV_QPS_ERR));
			EXPECT_EQ(IBV_QPS_ERR, qp_state(qp));
			EXPECT_EQ(0, qp_to(qp, IBV_QPS_ERR));
		}
		EXPECT_EQ(0, qp_to(qp, IBV_QPS_RESET));
		EXPECT_EQ(IBV_QPS_RESET, qp_state(qp));
	}
	EXPECT_EQ(0, ibv_destroy_qp(qp));
}

TEST_F(qp, transitions_refused)
{
	struct ibv_qp *qp = qp_create(self->p.pd, self->p.acq, self->p.acq,
				      &self->p.cfg);
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR };
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 2 };
	struct rdma bad_gid = self->p.r;
	struct qp_cfg *cfg = &self->p.cfg;

	ASSERT_NE(NULL, qp);
	EXPECT_NE(0, qp_rtr(&self->p.r, qp, cfg, 1));
	EXPECT_NE(0, qp_rts(qp, cfg));
	EXPECT_NE(0, ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PORT |
				   IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS));
	init.port_num = 1;
	init.pkey_index = 100;
	EXPECT_NE(0, ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PORT |
				   IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS));
	EXPECT_EQ(IBV_QPS_RESET, qp_state(qp));

	ASSERT_EQ(0, qp_init(qp, cfg));
	EXPECT_NE(0, qp_rts(qp, cfg));
	EXPECT_NE(0, ibv_modify_qp(qp, &rtr, IBV_QP_STATE));
	bad_gid.gid_index = self->p.r.port.gid_tbl_len + 1;
	EXPECT_NE(0, qp_rtr(&bad_gid, qp, cfg, 1));
	EXPECT_EQ(IBV_QPS_INIT, qp_state(qp));

	ASSERT_EQ(0, qp_rtr(&self->p.r, qp, cfg, qp->qp_num));
	EXPECT_NE(0, qp_init(qp, cfg));
	EXPECT_NE(0, qp_rtr(&self->p.r, qp, cfg, qp->qp_num));
	EXPECT_EQ(IBV_QPS_RTR, qp_state(qp));

	ASSERT_EQ(0, qp_rts(qp, cfg));
	EXPECT_NE(0, qp_init(qp, cfg));
	EXPECT_NE(0, qp_rtr(&self->p.r, qp, cfg, qp->qp_num));
	EXPECT_EQ(IBV_QPS_RTS, qp_state(qp));

	ASSERT_EQ(0, qp_to(qp, IBV_QPS_ERR));
	EXPECT_NE(0, qp_init(qp, cfg));
	EXPECT_NE(0, qp_rtr(&self->p.r, qp, cfg, qp->qp_num));
	EXPECT_NE(0, qp_rts(qp, cfg));
	EXPECT_EQ(IBV_QPS_ERR, qp_state(qp));
	EXPECT_EQ(0, ibv_destroy_qp(qp));
}

TEST_F(qp, query_gives_what_was_set)
{
	struct qp_cfg cfg = {
		.send_wr = 33, .recv_wr = 17, .send_sge = 3, .recv_sge = 2,
		.max_inline = 60, .timeout = 13, .retry_cnt = 5,
		.rnr_retry = 4, .min_rnr_timer = 9, .rd_atomic = 4,
		.access = IBV_ACCESS_REMOTE_WRITE,
	};
	struct ibv_qp *qp = qp_create(self->p.pd, self->p.acq, self->p.bcq,
				      &cfg);
	struct ibv_qp_init_attr init = {};
	struct ibv_qp_attr attr = {};

	ASSERT_NE(NULL, qp);
	ASSERT_EQ(0, qp_connect(&self->p.r, qp, &cfg, 0x4711));
	ASSERT_EQ(0, ibv_query_qp(qp, &attr, QUERY_ALL, &init));
	EXPECT_EQ(IBV_QPS_RTS, attr.qp_state);
	EXPECT_EQ(0x4711, attr.dest_qp_num);
	EXPECT_EQ(IBV_MTU_1024, attr.path_mtu);
	EXPECT_EQ(0x123, attr.rq_psn);
	EXPECT_EQ(0x123, attr.sq_psn);
	EXPECT_EQ(13, attr.timeout);
	EXPECT_EQ(5, attr.retry_cnt);
	EXPECT_EQ(4, attr.rnr_retry);
	EXPECT_EQ(9, attr.min_rnr_timer);
	EXPECT_EQ(4, attr.max_rd_atomic);
	EXPECT_EQ(4, attr.max_dest_rd_atomic);
	EXPECT_EQ(1, attr.port_num);
	EXPECT_EQ(0, attr.pkey_index);
	EXPECT_EQ(IBV_ACCESS_REMOTE_WRITE, attr.qp_access_flags &
		  (ACCESS_REMOTE | IBV_ACCESS_MW_BIND));
	EXPECT_EQ(1, attr.ah_attr.is_global);
	EXPECT_EQ(self->p.r.gid_index, attr.ah_attr.grh.sgid_index);
	EXPECT_EQ(64, attr.ah_attr.grh.hop_limit);
	EXPECT_EQ(0, memcmp(&self->p.r.gid, &attr.ah_attr.grh.dgid, 16));
	EXPECT_LE(33, attr.cap.max_send_wr);
	EXPECT_LE(17, attr.cap.max_recv_wr);
	EXPECT_LE(3, attr.cap.max_send_sge);
	EXPECT_LE(2, attr.cap.max_recv_sge);
	EXPECT_LE(60, attr.cap.max_inline_data);
	EXPECT_EQ(self->p.acq, init.send_cq);
	EXPECT_EQ(self->p.bcq, init.recv_cq);
	EXPECT_EQ(IBV_QPT_RC, init.qp_type);

	/* RTS to RTS changes only what is named */
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				     .min_rnr_timer = 20, .timeout = 3,
				     .qp_access_flags = IBV_ACCESS_REMOTE_READ };
	EXPECT_EQ(0, ibv_modify_qp(qp, &attr, IBV_QP_STATE |
				   IBV_QP_MIN_RNR_TIMER |
				   IBV_QP_ACCESS_FLAGS));
	ASSERT_EQ(0, ibv_query_qp(qp, &attr, QUERY_ALL, &init));
	EXPECT_EQ(20, attr.min_rnr_timer);
	EXPECT_EQ(13, attr.timeout);
	EXPECT_EQ(4, attr.rnr_retry);
	EXPECT_EQ(IBV_ACCESS_REMOTE_READ, attr.qp_access_flags &
		  (ACCESS_REMOTE | IBV_ACCESS_MW_BIND));
	EXPECT_EQ(0, ibv_destroy_qp(qp));
}

/* QP numbers are 24 bits, unique, and not those of QP0 and QP1 */
TEST_F(qp, numbers)
{
	struct ibv_qp *qp[50];
	int made = 0;

	for (; made < 50; made++) {
		qp[made] = qp_create(self->p.pd, self->p.acq, self->p.acq,
				     &self->p.cfg);
		ASSERT_NE(NULL, qp[made]);
		EXPECT_LT(1, qp[made]->qp_num);
		EXPECT_GT(1 << 24, qp[made]->qp_num);
		for (int i = 0; i < made; i++)
			EXPECT_NE(qp[i]->qp_num, qp[made]->qp_num);
	}
	while (made--)
		EXPECT_EQ(0, ibv_destroy_qp(qp[made]));
}

TEST_F(qp, abi_6_2_posts_before_rts)
{
	struct op op = to_far(self, IBV_WR_SEND, 100);
	struct ibv_wc wc;

	ASSERT_EQ(0, qp_to(self->p.a, IBV_QPS_RESET));
	ASSERT_EQ(0, qp_to(self->p.b, IBV_QPS_RESET));
	EXPECT_NE(0, post(self->p.a, &op));
	ASSERT_EQ(0, qp_init(self->p.a, &self->p.cfg));
	ASSERT_EQ(0, qp_init(self->p.b, &self->p.cfg));
	EXPECT_NE(0, post(self->p.a, &op));
	/* receives may be posted from INIT on, and wait */
	EXPECT_EQ(0, recv_far(self, 1, 200));
	ASSERT_EQ(0, qp_rtr(&self->p.r, self->p.a, &self->p.cfg,
			    self->p.b->qp_num));
	ASSERT_EQ(0, qp_rtr(&self->p.r, self->p.b, &self->p.cfg,
			    self->p.a->qp_num));
	EXPECT_EQ(0, recv_far(self, 2, 200));
	ASSERT_EQ(0, qp_rts(self->p.a, &self->p.cfg));
	/* B answers in RTR */
	fill(self->near, 100, 1);
	EXPECT_EQ(0, do_op(self, IBV_WR_SEND, 100));
	ASSERT_EQ(1, wait_wc(self->p.bcq, &wc, WAIT_MS));
	EXPECT_EQ(1, wc.wr_id);
	EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
	EXPECT_EQ(-1, differs(self->far, 100, 1));
	EXPECT_EQ(0, do_op(self, IBV_WR_RDMA_READ, 100));
	EXPECT_EQ(0, do_op(self, IBV_WR_SEND, 50));
	ASSERT_EQ(1, wait_wc(self->p.bcq, &wc, WAIT_MS));
	EXPECT_EQ(2, wc.wr_id);
}

TEST_F(qp, abi_6_10_flush)
{
	struct op op = to_far(self, IBV_WR_SEND, 8);
	struct ibv_wc wc;

	for (int i = 0; i < 5; i++)
		ASSERT_EQ(0, recv_far(self, i, 8));
	EXPECT_EQ(0, wait_wc(self->p.bcq, &wc, 0));
	ASSERT_EQ(0, qp_to(self->p.b, IBV_QPS_ERR));
	for (int i = 0; i < 5; i++) {
		ASSERT_EQ(1, wait_wc(self->p.bcq, &wc, WAIT_MS));
		EXPECT_EQ(i, wc.wr_id);
		EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, wc.status);
		EXPECT_EQ(self->p.b->qp_num, wc.qp_num);
		if (self->p.r.softhca)
			EXPECT_EQ(HCA_VS_FLUSHED, wc.vendor_err);
	}
	/* what is posted now is flushed as well: the drain pattern */
	for (int i = 10; i < 13; i++) {
		ASSERT_EQ(0, recv_far(self, i, 8));
		ASSERT_EQ(1, wait_wc(self->p.bcq, &wc, WAIT_MS));
		EXPECT_EQ(i, wc.wr_id);
		EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, wc.status);
	}
	for (int i = 20; i < 23; i++) {
		op.id = i;
		op.flags = i == 21 ? 0 : IBV_SEND_SIGNALED;
		ASSERT_EQ(0, post(self->p.b, &op));
		ASSERT_EQ(1, wait_wc(self->p.bcq, &wc, WAIT_MS));
		EXPECT_EQ(i, wc.wr_id);
		EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, wc.status);
	}
	EXPECT_EQ(0, wait_wc(self->p.bcq, &wc, QUIET_MS));
}

/* Sends that wait for a receiver are flushed in order */
TEST_F(qp, abi_6_10_flush_of_waiting_sends)
{
	struct op op = to_far(self, IBV_WR_SEND, 8);
	struct ibv_wc wc;

	for (op.id = 0; op.id < 20; op.id++)
		ASSERT_EQ(0, post(self->p.a, &op));
	EXPECT_EQ(0, wait_wc(self->p.acq, &wc, QUIET_MS));
	ASSERT_EQ(0, qp_to(self->p.a, IBV_QPS_ERR));
	for (int i = 0; i < 20; i++) {
		ASSERT_EQ(1, wait_wc(self->p.acq, &wc, WAIT_MS));
		EXPECT_EQ(i, wc.wr_id);
		EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, wc.status);
	}
	EXPECT_EQ(0, wait_wc(self->p.acq, &wc, 0));
}

TEST_F(qp, abi_5_7_reset_and_reuse)
{
	struct op op = to_far(self, IBV_WR_RDMA_WRITE, 64);
	struct ibv_wc wc;

	for (int round = 0; round < 30; round++) {
		int posts = 1 + round * 7 % 50;

		for (int i = 0; i < posts; i++) {
			ASSERT_EQ(0, recv_far(self, 1000 + i, 8));
			op.id = round * 100 + i;
			ASSERT_EQ(0, post(self->p.a, &op));
		}
		if (round % 3) {
			EXPECT_EQ(0, qp_to(self->p.a, IBV_QPS_RESET));
			EXPECT_EQ(0, qp_to(self->p.b, IBV_QPS_RESET));
			/* nothing comes after RESET has returned */
			EXPECT_LE(0, drop_wcs(self->p.acq));
			EXPECT_LE(0, drop_wcs(self->p.bcq));
			EXPECT_EQ(0, wait_wc(self->p.acq, &wc, 1));
			EXPECT_EQ(0, wait_wc(self->p.bcq, &wc, 1));
		} else {
			ASSERT_EQ(0, wait_good(self->p.acq, posts));
		}
		ASSERT_EQ(0, pair_reconnect(&self->p));
		/* the receives from before are gone */
		ASSERT_EQ(0, recv_far(self, round, 8));
		EXPECT_EQ(0, do_op(self, IBV_WR_SEND, 8));
		ASSERT_EQ(1, wait_wc(self->p.bcq, &wc, WAIT_MS));
		EXPECT_EQ(round, wc.wr_id);
		EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
	}
}

TEST_F(qp, destroyed_with_work_outstanding)
{
	struct op op = to_far(self, IBV_WR_SEND, 8);
	uint64_t start;

	for (int round = 0; round < 20; round++) {
		struct ibv_qp *a, *b;

		a = qp_create(self->p.pd, self->p.acq, self->p.acq,
			      &self->p.cfg);
		b = qp_create(self->p.pd, self->p.bcq, self->p.bcq,
			      &self->p.cfg);
		ASSERT_NE(NULL, a);
		ASSERT_NE(NULL, b);
		ASSERT_EQ(0, qp_connect(&self->p.r, a, &self->p.cfg,
					b->qp_num));
		ASSERT_EQ(0, qp_connect(&self->p.r, b, &self->p.cfg,
					a->qp_num));
		for (int i = 0; i < 10; i++)
			ASSERT_EQ(0, post(a, &op));	/* waits for a receive */
		for (int i = 0; i < round % 4; i++)
			ASSERT_EQ(0, post_recv(b, i, AT(self->far), 8,
					       self->far_mr->lkey));
		start = now_us();
		EXPECT_EQ(0, ibv_destroy_qp(round % 2 ? a : b));
		EXPECT_EQ(0, ibv_destroy_qp(round % 2 ? b : a));
		EXPECT_GT(2000000, now_us() - start);
		EXPECT_LE(0, drop_wcs(self->p.acq));
		EXPECT_LE(0, drop_wcs(self->p.bcq));
	}
}

TEST_F(qp, connected_to_itself)
{
	struct ibv_qp *qp = qp_create(self->p.pd, self->p.acq, self->p.bcq,
				      &self->p.cfg);
	struct op op = to_far(self, IBV_WR_SEND, 333);

	ASSERT_NE(NULL, qp);
	ASSERT_EQ(0, qp_connect(&self->p.r, qp, &self->p.cfg, qp->qp_num));
	for (int i = 0; i < 100; i++) {
		fill(self->near, 333, i);
		ASSERT_EQ(0, post_recv(qp, i, AT(self->far), 333,
				       self->far_mr->lkey));
		ASSERT_EQ(0, run(qp, self->p.acq, &op, NULL));
		ASSERT_EQ(0, wait_good(self->p.bcq, 1));
		ASSERT_EQ(-1, differs(self->far, 333, i));
	}
	op.opcode = IBV_WR_RDMA_READ;
	fill(self->far, 333, 7);
	EXPECT_EQ(0, run(qp, self->p.acq, &op, NULL));
	EXPECT_EQ(-1, differs(self->near, 333, 7));
	/* refused by itself: both halves are this one */
	op.rkey = 0;
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, run(qp, self->p.acq, &op, NULL));
	EXPECT_EQ(IBV_QPS_ERR, qp_state(qp));
	EXPECT_EQ(0, ibv_destroy_qp(qp));
}

/* rnr_retry 7: until a receive is posted, which nobody tells the HCA */
TEST_F(qp, abi_6_9_rnr_without_end)
{
	struct op op = to_far(self, IBV_WR_SEND, 77);
	struct ibv_wc wc;

	for (int i = 0; i < 5; i++) {
		fill(self->near, 77, i);
		op.opcode = i % 2 ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND;
		ASSERT_EQ(0, post(self->p.a, &op));
		ASSERT_EQ(0, wait_wc(self->p.acq, &wc, QUIET_MS));
		ASSERT_EQ(0, recv_far(self, i, 100));
		ASSERT_EQ(0, wait_good(self->p.acq, 1));
		ASSERT_EQ(0, wait_good(self->p.bcq, 1));
		EXPECT_EQ(-1, differs(self->far, 77, i));
	}
}

/* The receive comes late, again and again: order and data hold */
TEST_F(qp, abi_6_9_rnr_keeps_order)
{
	struct op op = to_far(self, IBV_WR_SEND_WITH_IMM, 4);
	struct ibv_wc wc;

	for (int i = 0; i < 40; i++) {
		op.imm = i;
		ASSERT_EQ(0, post(self->p.a, &op));
	}
	for (int i = 0; i < 40; i++) {
		ASSERT_EQ(0, recv_far(self, i, 4));
		ASSERT_EQ(1, wait_wc(self->p.bcq, &wc, WAIT_MS));
		ASSERT_EQ(i, wc.wr_id);
		ASSERT_EQ(i, wc.imm_data);
	}
	EXPECT_EQ(0, wait_good(self->p.acq, 40));
}

FIXTURE(retry) {
	struct pair p;
	char *buf;
	struct ibv_mr *mr;
	struct op send;
};

FIXTURE_VARIANT(retry) {
	uint8_t rnr_retry;
	uint64_t at_least_us;
};

/* code 20 is 10.24 ms, rounded down here for the edges of timers */
FIXTURE_VARIANT_ADD(retry, none) { (uint8_t)~0, 0 };
FIXTURE_VARIANT_ADD(retry, one) { 1, 10000 };
FIXTURE_VARIANT_ADD(retry, six) { 6, 60000 };

FIXTURE_SETUP(retry)
{
	struct qp_cfg cfg = { .rnr_retry = variant->rnr_retry,
			      .min_rnr_timer = 20, .timeout = 10,
			      .retry_cnt = 2 };

	ASSERT_EQ(0, pair_open(&self->p, &cfg));
	self->buf = mem_pages(PAGE);
	ASSERT_NE(NULL, self->buf);
	self->mr = ibv_reg_mr(self->p.pd, self->buf, PAGE, ACCESS_ALL);
	ASSERT_NE(NULL, self->mr);
	self->send = (struct op){
		.opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED, .len = 8,
		.laddr = AT(self->buf), .lkey = self->mr->lkey,
		.raddr = AT(self->buf), .rkey = self->mr->rkey,
	};
}

FIXTURE_TEARDOWN(retry)
{
	EXPECT_EQ(0, ibv_dereg_mr(self->mr));
	pair_close(&self->p);
}

TEST_F(retry, rnr_exceeded)
{
	uint64_t start = now_us(), took;
	struct ibv_wc wc;

	EXPECT_EQ(IBV_WC_RNR_RETRY_EXC_ERR,
		  run(self->p.a, self->p.acq, &self->send, &wc));
	took = now_us() - start;
	EXPECT_LE(variant->at_least_us, took);
	EXPECT_GT(variant->at_least_us * 4 + 2000000, took);
	if (self->p.r.softhca)
		EXPECT_EQ(HCA_VS_RNR_EXC, wc.vendor_err);
	EXPECT_EQ(IBV_QPS_ERR, qp_state(self->p.a));
	EXPECT_EQ(IBV_QPS_RTS, qp_state(self->p.b));
	EXPECT_EQ(0, drop_wcs(self->p.bcq));
}

/* What A talks to when nobody answers */
enum absent { GONE, IN_RESET, IN_INIT, IN_ERR, OTHER_PEER, NO_SUCH };

FIXTURE(absent) {
	struct pair p;
	char *buf;
	struct ibv_mr *mr;
};

FIXTURE_VARIANT(absent) {
	enum absent peer;
};

FIXTURE_VARIANT_ADD(absent, destroyed) { GONE };
FIXTURE_VARIANT_ADD(absent, in_reset) { IN_RESET };
FIXTURE_VARIANT_ADD(absent, in_init) { IN_INIT };
FIXTURE_VARIANT_ADD(absent, in_err) { IN_ERR };
FIXTURE_VARIANT_ADD(absent, talks_to_another) { OTHER_PEER };
FIXTURE_VARIANT_ADD(absent, never_was) { NO_SUCH };

FIXTURE_SETUP(absent)
{
	/* timeout 10 is 4.2 ms */
	struct qp_cfg cfg = { .timeout = 10, .retry_cnt = 2 };
	struct pair *p = &self->p;

	ASSERT_EQ(0, pair_open(p, &cfg));
	self->buf = mem_pages(PAGE);
	ASSERT_NE(NULL, self->buf);
	self->mr = ibv_reg_mr(p->pd, self->buf, PAGE, ACCESS_ALL);
	ASSERT_NE(NULL, self->mr);
	memset(self->buf, 0, PAGE);
	switch (variant->peer) {
	case GONE:
		ASSERT_EQ(0, ibv_destroy_qp(p->b));
		p->b = NULL;
		break;
	case IN_RESET:
		ASSERT_EQ(0, qp_to(p->b, IBV_QPS_RESET));
		break;
	case IN_INIT:
		ASSERT_EQ(0, qp_to(p->b, IBV_QPS_RESET));
		ASSERT_EQ(0, qp_init(p->b, &cfg));
		break;
	case IN_ERR:
		ASSERT_EQ(0, qp_to(p->b, IBV_QPS_ERR));
		break;
	case OTHER_PEER:
		ASSERT_EQ(0, qp_to(p->b, IBV_QPS_RESET));
		ASSERT_EQ(0, qp_connect(&p->r, p->b, &cfg, p->b->qp_num));
		break;
	case NO_SUCH:
		ASSERT_EQ(0, qp_to(p->a, IBV_QPS_RESET));
		ASSERT_EQ(0, qp_connect(&p->r, p->a, &cfg, 0xfffffe));
		break;
	}
}

FIXTURE_TEARDOWN(absent)
{
	EXPECT_EQ(0, ibv_dereg_mr(self->mr));
	pair_close(&self->p);
}

TEST_F(absent, abi_4_6_retry_exceeded)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
	};
	uint32_t dest = variant->peer == NO_SUCH ? 0xfffffe :
			self->p.b ? self->p.b->qp_num : 0;
	struct op next = { .opcode = IBV_WR_SEND, .id = 2 };
	struct ibv_wc wc;
	uint64_t start;

	for (unsigned int i = 0; i < ARRAY_SIZE(opcodes); i++) {
		struct op op = {
			.opcode = opcodes[i], .id = 1, .len = 8,
			.flags = IBV_SEND_SIGNALED, .cmp_add = 1,
			.laddr = AT(self->buf), .lkey = self->mr->lkey,
			.raddr = AT(self->buf) + 2048,
			.rkey = self->mr->rkey,
		};

		start = now_us();
		ASSERT_EQ(0, post(self->p.a, &op));
		ASSERT_EQ(0, post(self->p.a, &next));
		ASSERT_EQ(1, wait_wc(self->p.acq, &wc, WAIT_MS));
		EXPECT_EQ(1, wc.wr_id);
		EXPECT_EQ(IBV_WC_RETRY_EXC_ERR, wc.status);
		EXPECT_LE(8000, now_us() - start);
		if (self->p.r.softhca)
			EXPECT_EQ(HCA_VS_RETRY_EXC, wc.vendor_err);
		ASSERT_EQ(1, wait_wc(self->p.acq, &wc, WAIT_MS));
		EXPECT_EQ(2, wc.wr_id);
		EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, wc.status);
		EXPECT_EQ(IBV_QPS_ERR, qp_state(self->p.a));
		EXPECT_TRUE(all_bytes(self->buf, PAGE, 0));
		if (variant->peer == GONE)
			break;		/* its number may be given again */
		ASSERT_EQ(0, qp_to(self->p.a, IBV_QPS_RESET));
		ASSERT_EQ(0, qp_connect(&self->p.r, self->p.a, &self->p.cfg,
					dest));
	}
}

/* A peer that comes back in time is as good as one that never left */
TEST_F(qp, abi_4_6_peer_back_in_time)
{
	struct op op = to_far(self, IBV_WR_RDMA_WRITE, 8);
	struct pair *p = &self->p;

	for (int from_init = 0; from_init < 2; from_init++) {
		ASSERT_EQ(0, qp_to(p->b, IBV_QPS_RESET));
		if (from_init)
			ASSERT_EQ(0, qp_init(p->b, &p->cfg));
		memset(self->near, 0x11 + from_init, 8);
		ASSERT_EQ(0, post(p->a, &op));
		usleep(30000);
		if (!from_init)
			ASSERT_EQ(0, qp_init(p->b, &p->cfg));
		ASSERT_EQ(0, qp_rtr(&p->r, p->b, &p->cfg, p->a->qp_num));
		EXPECT_EQ(0, wait_good(p->acq, 1));
		EXPECT_TRUE(all_bytes(self->far, 8, 0x11 + from_init));
		ASSERT_EQ(0, pair_reconnect(p));
	}
}

/* The count of RNR retries starts again with each message */
TEST_F(qp, abi_6_9_rnr_count_is_per_message)
{
	struct qp_cfg cfg = { .rnr_retry = 6, .min_rnr_timer = 20 };
	struct op op = to_far(self, IBV_WR_SEND, 8);
	struct pair *p = &self->p;

	ASSERT_EQ(0, qp_to(p->a, IBV_QPS_RESET));
	ASSERT_EQ(0, qp_to(p->b, IBV_QPS_RESET));
	ASSERT_EQ(0, qp_connect(&p->r, p->a, &cfg, p->b->qp_num));
	ASSERT_EQ(0, qp_connect(&p->r, p->b, &cfg, p->a->qp_num));
	for (int i = 0; i < 4; i++) {
		ASSERT_EQ(0, post(p->a, &op));
		usleep(25000);
		ASSERT_EQ(0, recv_far(self, i, 8));
		ASSERT_EQ(0, wait_good(p->acq, 1));
	}
}

/* What the responder's QP does not allow, whatever the key says (HM 4.7) */
TEST_F(qp, abi_4_6_access_flags)
{
	static const struct { enum ibv_wr_opcode opcode; int need; } ops[] = {
		{ IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE },
		{ IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_REMOTE_ATOMIC },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, IBV_ACCESS_REMOTE_ATOMIC },
	};
	struct pair *p = &self->p;
	struct ibv_wc wc;

	for (int set = 0; set < 8; set++) {
		struct qp_cfg cfg = { .access =
			(set & 1 ? IBV_ACCESS_REMOTE_WRITE : 0) |
			(set & 2 ? IBV_ACCESS_REMOTE_READ : 0) |
			(set & 4 ? IBV_ACCESS_REMOTE_ATOMIC : 0) };

		for (unsigned int i = 0; i < ARRAY_SIZE(ops); i++) {
			struct op op = to_far(self, ops[i].opcode, 8);
			bool allowed = cfg.access & ops[i].need;

			ASSERT_EQ(0, pair_reconnect(p));
			ASSERT_EQ(0, qp_to(p->b, IBV_QPS_RESET));
			if (!set)
				cfg.access = ~0;
			ASSERT_EQ(0, qp_connect(&p->r, p->b, &cfg,
						p->a->qp_num));
			if (!set)
				allowed = false;
			fill(self->near, 64, 1);
			fill(self->far, 64, 2);
			op.cmp_add = 3;
			if (allowed) {
				EXPECT_EQ(0, run(p->a, p->acq, &op, &wc));
				continue;
			}
			EXPECT_EQ(IBV_WC_REM_INV_REQ_ERR,
				  run(p->a, p->acq, &op, &wc));
			if (p->r.softhca) {
				EXPECT_EQ(HCA_VS_NAK_REQ, wc.vendor_err);
				EXPECT_TRUE(async_of_qp(&p->r,
							IBV_EVENT_QP_REQ_ERR,
							p->b, WAIT_MS));
			}
			EXPECT_EQ(IBV_QPS_ERR, qp_state(p->b));
			EXPECT_EQ(-1, differs(self->near, 64, 1));
			EXPECT_EQ(-1, differs(self->far, 64, 2));
		}
	}
}

/* An error is reported also for a request that asked for no completion */
TEST_F(qp, hm_1_14_error_of_unsignalled)
{
	struct op op = to_far(self, IBV_WR_RDMA_WRITE, 8);
	struct ibv_wc wc;

	op.flags = 0;
	for (op.id = 0; op.id < 5; op.id++)
		ASSERT_EQ(0, post(self->p.a, &op));
	op.rkey = 0;
	ASSERT_EQ(0, post(self->p.a, &op));
	op.id = 6;
	ASSERT_EQ(0, post(self->p.a, &op));
	ASSERT_EQ(1, wait_wc(self->p.acq, &wc, WAIT_MS));
	EXPECT_EQ(5, wc.wr_id);
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, wc.status);
	ASSERT_EQ(1, wait_wc(self->p.acq, &wc, WAIT_MS));
	EXPECT_EQ(6, wc.wr_id);
	EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, wc.status);
	EXPECT_EQ(0, wait_wc(self->p.acq, &wc, QUIET_MS));
}

TEST_F(qp, hm_1_12_both_keys_bad)
{
	static const struct { enum ibv_wr_opcode opcode; int status; } ops[] = {
		{ IBV_WR_RDMA_WRITE, IBV_WC_LOC_PROT_ERR },
		{ IBV_WR_RDMA_READ, IBV_WC_REM_ACCESS_ERR },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_REM_ACCESS_ERR },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_REM_ACCESS_ERR },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(ops); i++) {
		struct op op = to_far(self, ops[i].opcode, 8);

		op.rkey = NO_KEY;
		op.lkey = 0x1234600;
		EXPECT_EQ(ops[i].status, run(self->p.a, self->p.acq, &op,
					     NULL));
		ASSERT_EQ(0, pair_reconnect(&self->p));
	}
}

TEST_F(qp, receive_too_short)
{
	struct ibv_wc wc;

	memset(self->far, 0x33, PAGE);
	fill(self->near, 65, 1);
	ASSERT_EQ(0, recv_far(self, 9, 64));
	EXPECT_EQ(IBV_WC_REM_INV_REQ_ERR, do_op(self, IBV_WR_SEND, 65));
	ASSERT_EQ(1, wait_wc(self->p.bcq, &wc, WAIT_MS));
	EXPECT_EQ(9, wc.wr_id);
	EXPECT_EQ(IBV_WC_LOC_LEN_ERR, wc.status);
	if (self->p.r.softhca)
		EXPECT_EQ(HCA_VS_RQ_TOO_SHORT, wc.vendor_err);
	EXPECT_TRUE(all_bytes(self->far + 64, PAGE - 64, 0x33));
	EXPECT_EQ(IBV_QPS_ERR, qp_state(self->p.b));
}

/* More posts than the queue holds */
TEST_F(qp, queue_full)
{
	struct op op = to_far(self, IBV_WR_SEND, 8);
	int sends = 0, recvs = 0, err = 0;

	while (sends < 100000 && !err) {
		err = post(self->p.a, &op);
		sends += !err;
	}
	EXPECT_EQ(-ENOMEM, err);
	EXPECT_LE(64, sends);
	err = 0;
	while (recvs < 100000 && !err) {
		err = recv_far(self, recvs, 8);
		recvs += !err;
	}
	EXPECT_EQ(-ENOMEM, err);
	EXPECT_LE(64, recvs);
	EXPECT_EQ(0, wait_good(self->p.acq, sends < recvs ? sends : recvs));
}

TEST_HARNESS_MAIN
