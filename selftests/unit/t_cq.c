// SPDX-License-Identifier: GPL-2.0
/*
 * Completion and event queues: every field of a CQE, ownership over many laps, overrun, resizing, arming, and the event
 * queues behind them. libmlx5-abi 5, HM 3.6.
 */
#include <linux/kernel.h>
#include <linux/unaligned.h>

#include "unit.h"

#define FLUSHED		MLX5_CQE_SYNDROME_WR_FLUSH_ERR

/* all 64 bytes: what is not named is zero, timestamp and signature aside */
struct want {
	u32 flags_rqpn, srqn, imm, byte_cnt, sop_qpn;
	u16 counter;
	u8 op_own;
};

static void check_fields(const char *what, const struct mlx5_cqe64 *c, struct want w)
{
	u8 expect[64] = {}, is[64];

	memcpy(is, c, 64);
	memset(is + 48, 0, 8);		/* a clock, if any */
	put_unaligned_be32(w.flags_rqpn, expect + 24);
	put_unaligned_be32(w.srqn, expect + 32);
	put_unaligned_be32(w.imm, expect + 36);
	put_unaligned_be32(w.byte_cnt, expect + 44);
	put_unaligned_be32(w.sop_qpn, expect + 56);
	put_unaligned_be16(w.counter, expect + 60);
	expect[63] = w.op_own;
	for (int i = 0; i < 64; i++)
		if (is[i] != expect[i])
			FAIL("%s: byte %d of the CQE is %#x, expected %#x", what, i, is[i], expect[i]);
}

TEST("abi-5.3", every_field_of_a_good_cqe)
{
	struct pair p = pair_new_attr(m, (struct qp_attr){ .user_index = 0xabcdef }, (struct qp_attr){ .user_index = 0x123456 },
				      (struct qp_path){});
	struct mlx5_cqe64 c;
	struct wqe w;
	u32 a = p.a->qpn, b = p.b->qpn;
	int i;

	for (i = 0; i < 5; i++)
		post_recv(p.b, p.rkey, p.d, 0x1000);
	/* two blocks, so that index and count of WQEs differ from here on */
	wqe_begin(&w, MLX5_OPCODE_SEND, SIGNALED, 0xffffffff);
	for (i = 0; i < 4; i++)
		wqe_data(&w, p.lkey, p.s, 25);
	sq_post(p.a, &w);
	c = EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	c.byte_cnt = 0;		/* not defined for a SEND */
	check_fields("SEND, requester", &c, (struct want){ .srqn = 0xabcdef, .sop_qpn = MLX5_OPCODE_SEND << 24 | a });
	c = EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_SEND, 0);
	/* no immediate: the field holds a pkey index */
	check_fields("SEND, responder", &c, (struct want){ a, 0x123456, 0, 100, b, 0, MLX5_CQE_RESP_SEND << 4 });

	wqe_begin(&w, MLX5_OPCODE_SEND_IMM, SIGNALED, 0xdeadbeef);
	wqe_data(&w, p.lkey, p.s, 7);
	sq_post(p.a, &w);
	c = EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 2);
	c.byte_cnt = 0;
	check_fields("SEND_IMM, requester", &c, (struct want){ .srqn = 0xabcdef, .sop_qpn = MLX5_OPCODE_SEND_IMM << 24 | a,
			 .counter = 2 });
	c = EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_SEND_IMM, 1);
	check_fields("SEND_IMM, responder", &c,
		     (struct want){ a, 0x123456, 0xdeadbeef, 7, b, 1, MLX5_CQE_RESP_SEND_IMM << 4 });

	wqe_begin(&w, MLX5_OPCODE_RDMA_WRITE_IMM, SIGNALED | SOLICITED, 0x01020304);
	wqe_raddr(&w, p.d, p.rkey);
	wqe_data(&w, p.lkey, p.s, 99);
	sq_post(p.a, &w);
	c = EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 3);
	c.byte_cnt = 0;
	check_fields("WRITE_IMM, requester", &c, (struct want){ .srqn = 0xabcdef,
			 .sop_qpn = MLX5_OPCODE_RDMA_WRITE_IMM << 24 | a, .counter = 3 });
	c = EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_WR_IMM, 2);
	/* solicited by the sender */
	check_fields("WRITE_IMM, responder", &c,
		     (struct want){ a, 0x123456, 0x01020304, 99, b, 2, MLX5_CQE_RESP_WR_IMM << 4 | 2 });

	post_read(p.a, p.lkey, p.s, 0x321, p.rkey, p.d);
	c = EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 4);
	check_fields("READ", &c, (struct want){ 0, 0xabcdef, 0, 0x321, MLX5_OPCODE_RDMA_READ << 24 | a, 4 });
	post_write(p.a, p.lkey, p.s, 0x321, p.rkey, p.d);
	c = EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 5);
	c.byte_cnt = 0;
	check_fields("WRITE", &c, (struct want){ 0, 0xabcdef, 0, 0, MLX5_OPCODE_RDMA_WRITE << 24 | a, 5 });
	post_atomic(p.a, MLX5_OPCODE_ATOMIC_FA, p.lkey, p.s, p.rkey, p.d, 1, 0);
	c = EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 6);
	check_fields("FETCH_ADD", &c, (struct want){ 0, 0xabcdef, 0, 8, MLX5_OPCODE_ATOMIC_FA << 24 | a, 6 });
	post_atomic(p.a, MLX5_OPCODE_ATOMIC_CS, p.lkey, p.s, p.rkey, p.d, 1, 0);
	c = EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 7);
	check_fields("CMP_SWAP", &c, (struct want){ 0, 0xabcdef, 0, 8, MLX5_OPCODE_ATOMIC_CS << 24 | a, 7 });
	wqe_begin(&w, MLX5_OPCODE_NOP, SIGNALED, 0);
	sq_post(p.a, &w);
	c = EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 8);
	check_fields("NOP", &c, (struct want){ 0, 0xabcdef, 0, 0, MLX5_OPCODE_NOP << 24 | a, 8 });
	/* a solicited SEND */
	wqe_begin(&w, MLX5_OPCODE_SEND, SIGNALED | SOLICITED, 0);
	sq_post(p.a, &w);
	c = EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_SEND, 3);
	check_fields("solicited SEND", &c, (struct want){ a, 0x123456, 0, 0, b, 3, MLX5_CQE_RESP_SEND << 4 | 2 });
}

TEST("abi-5.4", every_field_of_an_error_cqe)
{
	struct pair p = pair_new_attr(m, (struct qp_attr){ .user_index = 0xabcdef }, (struct qp_attr){ .user_index = 0x123456 },
				      (struct qp_path){});
	u8 expect[64] = {}, is[64];
	struct mlx5_cqe64 c;
	struct wqe w;

	post_recv(p.b, 0x70000, 0, 64);
	wqe_begin(&w, MLX5_OPCODE_NOP, 0, 0);
	sq_post(p.a, &w);
	wqe_begin(&w, MLX5_OPCODE_SEND_IMM, 0, 0xdeadbeef);
	wqe_data(&w, p.lkey, p.s, 8);
	sq_post(p.a, &w);
	ASSERT(cq_poll(p.a->scq, &c));
	put_unaligned_be32(0xabcdef, expect + 32);
	expect[54] = HCA_VS_NAK_OP;
	expect[55] = MLX5_CQE_SYNDROME_REMOTE_OP_ERR;
	put_unaligned_be32(MLX5_OPCODE_SEND_IMM << 24 | p.a->qpn, expect + 56);
	put_unaligned_be16(1, expect + 60);
	expect[63] = MLX5_CQE_REQ_ERR << 4;
	memcpy(is, &c, 64);
	for (int i = 0; i < 64; i++)
		if (is[i] != expect[i])
			FAIL("requester: byte %d of the CQE is %#x, expected %#x", i, is[i], expect[i]);
	ASSERT(cq_poll(p.b->rcq, &c));
	put_unaligned_be32(0x123456, expect + 32);
	expect[54] = HCA_VS_LEVEL0 | HCA_CHECK_NO_MKC;
	expect[55] = MLX5_CQE_SYNDROME_LOCAL_PROT_ERR;
	put_unaligned_be32(p.b->qpn, expect + 56);
	put_unaligned_be16(0, expect + 60);
	expect[63] = MLX5_CQE_RESP_ERR << 4;
	memcpy(is, &c, 64);
	for (int i = 0; i < 64; i++)
		if (is[i] != expect[i])
			FAIL("responder: byte %d of the CQE is %#x, expected %#x", i, is[i], expect[i]);
}

static void five_laps(struct machine *m, struct cq_attr attr)
{
	struct cq *cq = cq_new(m, attr);
	struct pair p = pair_new_attr(m, (struct qp_attr){ .scq = cq }, (struct qp_attr){}, (struct qp_path){});
	u32 size = 1 << attr.log_size, i, k;
	struct mlx5_cqe64 c;
	struct wqe w;

	wqe_begin(&w, MLX5_OPCODE_NOP, SIGNALED, 0);
	for (i = 0; i < 5 * size + 3; ) {
		u32 n = min(1 + i % size, 30u);

		for (k = 0; k < n; k++)
			sq_put(p.a, &w);
		sq_ring(p.a);
		for (k = 0; k < n; k++, i++) {
			EXPECT_CQE(cq, MLX5_CQE_REQ, i);
			/* 128-byte CQEs: the lower half is unused */
			if (attr.cqe128)
				ASSERT_EQ(cq->ring.cpu[cq->offset + ((u64)((cq->ci - 1) & (size - 1)) << 7) + 63],
					  (u8)(MLX5_CQE_INVALID << 4));
		}
		ASSERT(!cq_peek(cq, &c));
		cq_update(cq);
	}
	/* nothing beside the ring was written */
	for (k = 0; k < cq->offset; k++)
		ASSERT_EQ(cq->ring.cpu[k], k % 64 == 63 ? MLX5_CQE_INVALID << 4 : 0);
	for (k = cq->offset + (size << cq->log_cqe); k < cq->ring.len; k++)
		ASSERT_EQ(cq->ring.cpu[k], k % 64 == 63 ? MLX5_CQE_INVALID << 4 : 0);
	ASSERT_EQ(qp_free(p.a), 0);
	ASSERT_EQ(qp_free(p.b), 0);
	ASSERT_EQ(cq_free(cq), 0);
}

/* ring sizes, both CQE sizes, begin in the middle of a page, large pages: owner bits and contents over several laps */
TEST("abi-5.2", ownership_over_laps)
{
	for (int big = 0; big < 2; big++) {
		for (int log = 1; log <= 9; log += 2) {
			five_laps(m, (struct cq_attr){ .log_size = log, .cqe128 = big });
			five_laps(m, (struct cq_attr){ .log_size = log, .cqe128 = big, .page_offset = 62 });
			five_laps(m, (struct cq_attr){ .log_size = log, .cqe128 = big, .log_page = 3 });
		}
	}
}

static void nops(struct qp *qp, int n)
{
	struct wqe w;

	wqe_begin(&w, MLX5_OPCODE_NOP, SIGNALED, 0);
	while (n--)
		sq_put(qp, &w);
	sq_ring(qp);
}

TEST("overrun", a_full_ring_fails_the_queue_and_its_queue_pairs)
{
	struct cq *cq = cq_new(m, (struct cq_attr){ .log_size = 2 });
	struct pair p = pair_new_attr(m, (struct qp_attr){ .scq = cq }, (struct qp_attr){}, (struct qp_path){});
	struct pair other = pair_new_attr(m, (struct qp_attr){}, (struct qp_attr){ .scq = cq, .rcq = p.b->rcq }, (struct qp_path){});
	u8 before[256];

	nops(p.a, 4);
	/* exactly full is no overrun */
	ASSERT_EQ(qp_state(p.a), (unsigned int)MLX5_QP_STATE_RTS);
	ASSERT_EQ(events_of(m, MLX5_EVENT_TYPE_CQ_ERROR, cq->cqn), 0u);
	memcpy(before, cq->ring.cpu, 256);
	nops(p.a, 1);
	ASSERT_EQ(events_of(m, MLX5_EVENT_TYPE_CQ_ERROR, cq->cqn), 1u);
	ASSERT_EQ(qp_state(p.a), (unsigned int)MLX5_QP_STATE_ERR);
	/* also one that only has it as its send CQ */
	ASSERT_EQ(qp_state(other.b), (unsigned int)MLX5_QP_STATE_ERR);
	ASSERT_EQ(qp_state(p.b), (unsigned int)MLX5_QP_STATE_RTS);
	ASSERT_EQ(counter(m, HCA_CNT_CQ_OVERRUN), 1ull);
	/* nothing more is written, even with room */
	for (int i = 0; i < 4; i++)
		EXPECT_CQE(cq, MLX5_CQE_REQ, i);
	cq_update(cq);
	nops(p.a, 1);
	shim_advance(5000000000ULL);
	ASSERT(!memcmp(before, cq->ring.cpu, 256));
	ASSERT_EQ(events_of(m, MLX5_EVENT_TYPE_CQ_ERROR, cq->cqn), 1u);
}

TEST("overrun", of_the_receive_queue)
{
	struct cq *cq = cq_new(m, (struct cq_attr){ .log_size = 1 });
	struct pair p = pair_new_attr(m, (struct qp_attr){}, (struct qp_attr){ .rcq = cq }, (struct qp_path){});

	for (int i = 0; i < 3; i++)
		post_recv(p.b, p.rkey, p.d, 8);
	for (int i = 0; i < 3; i++)
		post_send(p.a, p.lkey, p.s, 8);
	shim_run();
	ASSERT_EQ(events_of(m, MLX5_EVENT_TYPE_CQ_ERROR, cq->cqn), 1u);
	ASSERT_EQ(qp_state(p.b), (unsigned int)MLX5_QP_STATE_ERR);
	EXPECT_CQE(cq, MLX5_CQE_RESP_SEND, 0);
	EXPECT_CQE(cq, MLX5_CQE_RESP_SEND, 1);
	EXPECT_NONE(cq);
}

TEST("overrun", ignored_where_the_creator_says_so)
{
	struct cq *cq = cq_new(m, (struct cq_attr){ .log_size = 2, .ignore_overrun = true });
	struct pair p = pair_new_attr(m, (struct qp_attr){ .scq = cq }, (struct qp_attr){}, (struct qp_path){});

	nops(p.a, 11);
	ASSERT_EQ(qp_state(p.a), (unsigned int)MLX5_QP_STATE_RTS);
	ASSERT_EQ(events_of(m, MLX5_EVENT_TYPE_CQ_ERROR, cq->cqn), 0u);
	/* the ring holds the last four */
	cq->ci = 8;
	for (int i = 8; i < 11; i++)
		EXPECT_CQE(cq, MLX5_CQE_REQ, i);
	EXPECT_NONE(cq);
}

/* the consumer counter is the program's, which may write what it likes */
TEST("overrun", nonsense_in_the_consumer_counter)
{
	static const u32 ci[] = { 0xffffff, 0x800000, 5, 0xff000000, 0xffffffff, 1000 };

	for (size_t i = 0; i < ARRAY_SIZE(ci); i++) {
		struct cq *cq = cq_new(m, (struct cq_attr){ .log_size = 2 });
		struct pair p = pair_new_attr(m, (struct qp_attr){ .scq = cq }, (struct qp_attr){}, (struct qp_path){});

		((__be32 *)cq->dbr.cpu)[0] = cpu_to_be32(ci[i]);
		nops(p.a, 20);
		/* neither a crash nor a byte outside: the guards of the machine see to that */
		for (u32 k = 256; k < cq->ring.len; k++)
			ASSERT_EQ(cq->ring.cpu[k], k % 64 == 63 ? MLX5_CQE_INVALID << 4 : 0);
	}
	{
		struct pair q = pair_new(m);

		post_write(q.a, q.lkey, q.s, 8, q.rkey, q.d);
		EXPECT_CQE(q.a->scq, MLX5_CQE_REQ, 0);
	}
}

/* resize: cq_resize() does libmlx5's part and checks the RESIZE CQE with the owner bit of the old ring */
TEST("resize", larger_and_smaller_with_completions_inside)
{
	for (int start = 0; start < 20; start++) {
		struct cq *cq = cq_new(m, (struct cq_attr){ .log_size = 3 });
		struct pair p = pair_new_attr(m, (struct qp_attr){ .scq = cq, .log_sq = 8 }, (struct qp_attr){}, (struct qp_path){});
		u16 n = 0, seen = 0;

		for (int i = 0; i < start; i++, n++) {
			nops(p.a, 1);
			EXPECT_CQE(cq, MLX5_CQE_REQ, seen++);
			cq_update(cq);
		}
		/* three left unconsumed */
		nops(p.a, 3);
		n += 3;
		ASSERT_EQ(cq_resize(cq, 5), 0);
		nops(p.a, 10);
		n += 10;
		while (seen < n)
			EXPECT_CQE(cq, MLX5_CQE_REQ, seen++);
		EXPECT_NONE(cq);
		cq_update(cq);
		for (int lap = 0; lap < 7; lap++) {
			nops(p.a, 20);
			for (n += 20; seen < n; )
				EXPECT_CQE(cq, MLX5_CQE_REQ, seen++);
			EXPECT_NONE(cq);
			cq_update(cq);
		}
		nops(p.a, 2);
		n += 2;
		ASSERT_EQ(cq_resize(cq, 2), 0);
		/* 2 and the RESIZE entry are in a ring of 4 */
		nops(p.a, 1);
		n++;
		while (seen < n)
			EXPECT_CQE(cq, MLX5_CQE_REQ, seen++);
		EXPECT_NONE(cq);
		cq_update(cq);
		nops(p.a, 4);
		for (n += 4; seen < n; )
			EXPECT_CQE(cq, MLX5_CQE_REQ, seen++);
		EXPECT_NONE(cq);
		ASSERT_EQ(qp_state(p.a), (unsigned int)MLX5_QP_STATE_RTS);
	}
}

TEST("resize", no_room)
{
	struct cq *cq = cq_new(m, (struct cq_attr){ .log_size = 3 });
	struct pair p = pair_new_attr(m, (struct qp_attr){ .scq = cq }, (struct qp_attr){}, (struct qp_path){});

	/* PI - CI + 1 must fit in the new ring */
	nops(p.a, 4);
	ASSERT_EQ(cq_resize(cq, 2), MLX5_CMD_STAT_BAD_RES_STATE_ERR);
	/* and in the old one */
	nops(p.a, 4);
	ASSERT_EQ(cq_resize(cq, 5), MLX5_CMD_STAT_BAD_RES_STATE_ERR);
	/* nothing has changed by it */
	for (int i = 0; i < 8; i++)
		EXPECT_CQE(cq, MLX5_CQE_REQ, i);
	EXPECT_NONE(cq);
	cq_update(cq);
	nops(p.a, 7);
	ASSERT_EQ(cq_resize(cq, 3), 0);
	for (int i = 8; i < 15; i++)
		EXPECT_CQE(cq, MLX5_CQE_REQ, i);
	cq_update(cq);
	/* 7 is allowed, 8 entries need 9 slots */
	nops(p.a, 3);
	ASSERT_EQ(cq_resize(cq, 2), 0);
	for (int i = 15; i < 18; i++)
		EXPECT_CQE(cq, MLX5_CQE_REQ, i);
}

/* arming: cq->sn is the number of events that the program has consumed */

TEST("arm", one_event_per_arm)
{
	struct pair p = pair_new(m);
	struct cq *cq = p.a->scq;

	nops(p.a, 1);
	ASSERT_EQ(comp_events(m, cq->cqn), 0u);	/* never armed */
	EXPECT_CQE(cq, MLX5_CQE_REQ, 0);
	for (int i = 1; i < 12; i++) {
		cq_arm(cq, false);
		ASSERT_EQ(comp_events(m, cq->cqn), 0u);
		nops(p.a, 1);
		ASSERT_EQ(comp_events(m, cq->cqn), 1u);
		cq->sn++;
		/* not armed again: silent */
		nops(p.a, 2);
		ASSERT_EQ(comp_events(m, cq->cqn), 0u);
		for (int k = 0; k < 3; k++)
			EXPECT_CQE(cq, MLX5_CQE_REQ, (i - 1) * 3 + 1 + k);
		cq_update(cq);
	}
}

TEST("arm", what_is_there_already_counts)
{
	struct pair p = pair_new(m);
	struct cq *cq = p.a->scq;
	struct mlx5_cqe64 c;

	nops(p.a, 2);
	ASSERT(cq_poll(cq, &c));
	cq_arm(cq, false);		/* one CQE is unconsumed */
	ASSERT_EQ(comp_events(m, cq->cqn), 1u);
	/* armed again with the same sequence number: that event was raised already */
	cq_arm(cq, false);
	ASSERT_EQ(comp_events(m, cq->cqn), 0u);
	nops(p.a, 1);
	ASSERT_EQ(comp_events(m, cq->cqn), 0u);
	cq->sn++;
	cq_arm(cq, false);
	ASSERT_EQ(comp_events(m, cq->cqn), 1u);
}

TEST("arm", stale_sequence_numbers)
{
	struct pair p = pair_new(m);
	struct cq *cq = p.a->scq;

	for (unsigned int off = 1; off < 4; off++) {
		cq->sn += off;
		cq_arm(cq, false);
		nops(p.a, 1);
		ASSERT_EQ(comp_events(m, cq->cqn), 0u);
		cq->sn -= off;
	}
	cq_arm(cq, false);
	ASSERT_EQ(comp_events(m, cq->cqn), 1u);
}

TEST("arm", arming_twice_before_the_event)
{
	struct pair p = pair_new(m);
	struct cq *cq = p.a->scq;

	cq_arm(cq, false);
	cq_arm(cq, false);
	nops(p.a, 1);
	ASSERT_EQ(comp_events(m, cq->cqn), 1u);
	/* a solicited arm after an unconditional one does not take it back, nor the other way round */
	cq->sn++;
	EXPECT_CQE(cq, MLX5_CQE_REQ, 0);
	cq_arm(cq, true);
	nops(p.a, 1);
	ASSERT_EQ(comp_events(m, cq->cqn), 0u);
	EXPECT_CQE(cq, MLX5_CQE_REQ, 1);
	cq_arm(cq, false);
	nops(p.a, 1);
	ASSERT_EQ(comp_events(m, cq->cqn), 1u);
}

TEST("arm", solicited)
{
	struct pair p = pair_new(m);
	struct cq *cq = p.b->rcq;
	struct wqe w;
	int i, n = 0;

	for (i = 0; i < 10; i++)
		post_recv(p.b, p.rkey, p.d, 8);
	cq_arm(cq, true);
	post_send(p.a, p.lkey, p.s, 8);
	post_send(p.a, p.lkey, p.s, 8);
	ASSERT_EQ(comp_events(m, cq->cqn), 0u);
	wqe_begin(&w, MLX5_OPCODE_SEND, SIGNALED | SOLICITED, 0);
	sq_post(p.a, &w);
	ASSERT_EQ(comp_events(m, cq->cqn), 1u);
	cq->sn++;
	/* behind the solicited one lies only an unsolicited: with the solicited consumed, silence */
	post_send(p.a, p.lkey, p.s, 8);
	for (; n < 3; n++)
		EXPECT_CQE(cq, MLX5_CQE_RESP_SEND, n);
	cq_arm(cq, true);
	ASSERT_EQ(comp_events(m, cq->cqn), 0u);
	/* a solicited one that is not consumed yet counts at once */
	sq_post(p.a, &w);
	ASSERT_EQ(comp_events(m, cq->cqn), 1u);
	cq->sn++;
	cq_arm(cq, true);
	ASSERT_EQ(comp_events(m, cq->cqn), 1u);
	cq->sn++;
	for (; n < 5; n++)
		EXPECT_CQE(cq, MLX5_CQE_RESP_SEND, n);
	cq_arm(cq, true);
	ASSERT_EQ(comp_events(m, cq->cqn), 0u);
	/* an error counts as solicited */
	ASSERT_EQ(qp_to(p.b, MLX5_CMD_OP_2ERR_QP, &(struct qp_path){}, 0), 0);
	ASSERT_EQ(comp_events(m, cq->cqn), 1u);
	EXPECT_RSP_ERR(p.b, 5, FLUSHED, HCA_VS_FLUSHED);
}

/* the record begins with zeros, which read as a valid arm that nobody made */
TEST("arm", an_untouched_record_is_no_arm)
{
	struct cq *cq = cq_new(m, (struct cq_attr){});
	struct pair p = pair_new_attr(m, (struct qp_attr){ .scq = cq }, (struct qp_attr){}, (struct qp_path){});

	((__be32 *)cq->dbr.cpu)[1] = 0;
	nops(p.a, 1);
	ASSERT_EQ(comp_events(m, cq->cqn), 0u);
}

/* with stores that nobody sees (the mapped scheme), a scan finds the changed word */
TEST("arm", by_scan_and_by_worker)
{
	for (int how = 0; how < RING_HOWS; how++) {
		struct pair p;

		m->ring_how = how;
		p = pair_new(m);
		cq_arm(p.a->scq, false);
		nops(p.a, 1);
		ASSERT_EQ(comp_events(m, p.a->scq->cqn), 1u);
		p.a->scq->sn++;
		nops(p.a, 1);
		ASSERT_EQ(comp_events(m, p.a->scq->cqn), 0u);
		cq_arm(p.a->scq, false);
		ASSERT_EQ(comp_events(m, p.a->scq->cqn), 1u);
	}
}

TEST("arm", survives_a_resize)
{
	struct cq *cq = cq_new(m, (struct cq_attr){ .log_size = 3 });
	struct pair p = pair_new_attr(m, (struct qp_attr){ .scq = cq }, (struct qp_attr){}, (struct qp_path){});

	cq_arm(cq, false);
	ASSERT_EQ(cq_resize(cq, 4), 0);
	/* the RESIZE entry may or may not have raised it; a completion must */
	nops(p.a, 1);
	ASSERT_EQ(comp_events(m, cq->cqn), 1u);
	EXPECT_CQE(cq, MLX5_CQE_REQ, 0);
}

TEST("query", cq_context)
{
	struct cq *cq = cq_new(m, (struct cq_attr){ .log_size = 5, .cqe128 = true, .ignore_overrun = true, .log_page = 1, .page_offset = 4 });
	struct pair p = pair_new_attr(m, (struct qp_attr){ .scq = cq }, (struct qp_attr){}, (struct qp_path){});
	u32 in[MLX5_ST_SZ_DW(query_cq_in)] = {}, out[MLX5_ST_SZ_DW(query_cq_out)];
	void *cqc = MLX5_ADDR_OF(query_cq_out, out, cq_context);

	nops(p.a, 9);
	MLX5_SET(query_cq_in, in, opcode, MLX5_CMD_OP_QUERY_CQ);
	MLX5_SET(query_cq_in, in, cqn, cq->cqn);
	m_must(m, in, sizeof(in), out, sizeof(out));
	ASSERT_EQ(MLX5_GET(cqc, cqc, log_cq_size), 5u);
	ASSERT_EQ(MLX5_GET(cqc, cqc, cqe_sz), 1u);
	ASSERT_EQ(MLX5_GET(cqc, cqc, oi), 1u);
	ASSERT_EQ(MLX5_GET(cqc, cqc, uar_page), m->uar);
	ASSERT_EQ(MLX5_GET(cqc, cqc, c_eqn_or_apu_element), (u32)m->comp.eqn);
	ASSERT_EQ(MLX5_GET(cqc, cqc, log_page_size), 1u);
	ASSERT_EQ(MLX5_GET(cqc, cqc, page_offset), 4u);
	ASSERT_EQ(MLX5_GET64(cqc, cqc, dbr_addr), cq->dbr.dma[0]);
	ASSERT_EQ(MLX5_GET(cqc, cqc, producer_counter), 9u);
	MLX5_SET(query_cq_in, in, cqn, cq->cqn + 100);
	ASSERT_NE(m_exec(m, in, sizeof(in), out, sizeof(out)), 0);
}

static u8 create_cq(struct machine *m, void (*change)(u32 *in, size_t *len, struct mem *ring, struct mem *dbr))
{
	size_t inlen = MLX5_ST_SZ_BYTES(create_cq_in) + 16;
	u32 in[MLX5_ST_SZ_DW(create_cq_in) + 4] = {}, out[MLX5_ST_SZ_DW(create_cq_out)];
	void *cqc = MLX5_ADDR_OF(create_cq_in, in, cq_context);
	struct mem ring = mem_new(m, 8192), dbr = mem_new(m, 8);

	MLX5_SET(create_cq_in, in, opcode, MLX5_CMD_OP_CREATE_CQ);
	MLX5_SET(cqc, cqc, log_cq_size, 7);
	MLX5_SET(cqc, cqc, uar_page, m->uar);
	MLX5_SET(cqc, cqc, c_eqn_or_apu_element, m->comp.eqn);
	MLX5_SET64(cqc, cqc, dbr_addr, dbr.dma[0]);
	MLX5_ARRAY_SET64(create_cq_in, in, pas, 0, ring.dma[0]);
	MLX5_ARRAY_SET64(create_cq_in, in, pas, 1, ring.dma[1]);
	if (change)
		change(in, &inlen, &ring, &dbr);
	return m_exec(m, in, inlen, out, sizeof(out));
}

#define CQC MLX5_ADDR_OF(create_cq_in, in, cq_context)
#define CHANGE(name, what) static void name(u32 *in, size_t *len, struct mem *ring, struct mem *dbr) { what; }
CHANGE(cq_eq, MLX5_SET(cqc, CQC, c_eqn_or_apu_element, 63))
CHANGE(cq_uar, MLX5_SET(cqc, CQC, uar_page, 12345))
CHANGE(cq_size, MLX5_SET(cqc, CQC, log_cq_size, 31))
CHANGE(cq_short, *len -= 8)
CHANGE(cq_offset, MLX5_SET(cqc, CQC, page_offset, 63))
CHANGE(cq_cqe, MLX5_SET(cqc, CQC, cqe_sz, 3))
CHANGE(cq_pas, MLX5_ARRAY_SET64(create_cq_in, in, pas, 1, ring->dma[1] + 0x4000000000ULL))
CHANGE(cq_dbr, MLX5_SET64(cqc, CQC, dbr_addr, dbr->dma[0] + 4))
CHANGE(cq_dbr2, MLX5_SET64(cqc, CQC, dbr_addr, dbr->dma[0] + 0x4000000000ULL))
CHANGE(cq_page, MLX5_SET(cqc, CQC, log_page_size, 31))

TEST("create", bad_completion_queues)
{
	static void (*const bad[])(u32 *, size_t *, struct mem *, struct mem *) = { cq_eq, cq_uar, cq_size, cq_short,
		cq_offset, cq_cqe, cq_pas, cq_dbr, cq_dbr2, cq_page };
	unsigned int free = pages_free_now(m), i;

	/* a page of CQ contexts comes with the first one and goes with the last */
	ASSERT_EQ(create_cq(m, NULL), 0);
	free = pages_free_now(m);
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		if (!create_cq(m, bad[i]))
			FAIL("change %u was accepted", i);
		ASSERT_EQ(pages_free_now(m), free);
	}
	/* the event queue is in use, the UAR as well */
	{
		u32 in[4] = {}, out[4];

		MLX5_SET(destroy_eq_in, in, opcode, MLX5_CMD_OP_DESTROY_EQ);
		MLX5_SET(destroy_eq_in, in, eq_number, m->comp.eqn);
		ASSERT_NE(m_exec(m, in, 16, out, 16), 0);
	}
}

TEST("create", a_queue_in_use_stays)
{
	struct cq *cq = cq_new(m, (struct cq_attr){});
	struct qp *a = qp_new(m, (struct qp_attr){ .scq = cq });
	struct qp *b = qp_new(m, (struct qp_attr){ .rcq = cq });

	ASSERT_NE(cq_free(cq), 0);
	ASSERT_EQ(qp_free(a), 0);
	ASSERT_NE(cq_free(cq), 0);
	ASSERT_EQ(qp_free(b), 0);
	ASSERT_EQ(cq_free(cq), 0);
}

/* event queues */

TEST("eq", laps_and_interrupts)
{
	struct eq eq = eq_new(m, 3, 2, 0);
	struct eq old = m->comp;
	struct cq *cq;
	struct pair p;
	struct mlx5_eqe e;
	int i;

	m->comp = eq;
	cq = cq_new(m, (struct cq_attr){ .log_size = 8 });
	m->comp = old;
	p = pair_new_attr(m, (struct qp_attr){ .scq = cq }, (struct qp_attr){}, (struct qp_path){});
	/* not armed: events are written, no interrupt */
	for (i = 0; i < 30; i++) {
		cq_arm(cq, false);
		nops(p.a, 1);
		cq->sn++;
		cq->ci++;
		cq_update(cq);
		ASSERT(eq_poll(&eq, &e));
		ASSERT_EQ(e.type, MLX5_EVENT_TYPE_COMP);
		ASSERT_EQ(be32_to_cpu(e.data.comp.cqn), cq->cqn);
		ASSERT(!eq_poll(&eq, &e));
		eq_update(&eq, false);
	}
	ASSERT_EQ(m->irqs[2], 0u);
	/* armed: one interrupt for one or many events */
	eq_update(&eq, true);
	shim_run();
	ASSERT_EQ(m->irqs[2], 0u);
	for (i = 0; i < 3; i++) {
		cq_arm(cq, false);
		nops(p.a, 1);
		cq->sn++;
		cq->ci++;
		ASSERT_EQ(m->irqs[2], 1u);
	}
	/* arming with events waiting raises it at once */
	ASSERT(eq_poll(&eq, &e));
	eq_update(&eq, true);
	shim_run();
	ASSERT_EQ(m->irqs[2], 2u);
	ASSERT(eq_poll(&eq, &e) && eq_poll(&eq, &e));
	ASSERT(!eq_poll(&eq, &e));
	eq_update(&eq, true);
	shim_run();
	ASSERT_EQ(m->irqs[2], 2u);
}

TEST("eq", a_full_ring_is_not_overwritten)
{
	struct eq eq = eq_new(m, 2, 2, 0);
	struct eq old = m->comp;
	struct cq *cq[8];
	struct mlx5_eqe e;
	struct qp *qp;
	int i, n = 0;

	m->comp = eq;
	for (i = 0; i < 8; i++)
		cq[i] = cq_new(m, (struct cq_attr){});
	m->comp = old;
	for (i = 0; i < 8; i++) {
		qp = qp_new(m, (struct qp_attr){ .scq = cq[i] });
		qp_up(qp, qp->qpn, (struct qp_path){});
		cq_arm(cq[i], false);
		nops(qp, 1);
	}
	for (i = 0; i < 4; i++) {
		ASSERT(eq_poll(&eq, &e));
		n += be32_to_cpu(e.data.comp.cqn) == cq[i]->cqn;
	}
	ASSERT_EQ(n, 4);
	ASSERT_GE(counter(m, HCA_CNT_EQ_OVERRUN), 1ull);
	/* the CQs that could not be told are told when there is room, each once */
	ASSERT(!eq_poll(&eq, &e));
	eq_update(&eq, false);
	shim_run();
	for (i = 4; i < 8; i++) {
		ASSERT(eq_poll(&eq, &e));
		ASSERT_EQ(be32_to_cpu(e.data.comp.cqn), cq[i]->cqn);
	}
	eq_update(&eq, false);
	shim_run();
	ASSERT(!eq_poll(&eq, &e));
}

/* A page request that found the ring full would never be made again, and every command that needs a page would fail */
TEST("eq", a_page_request_is_not_lost)
{
	struct eq eq = eq_new(m, 1, 3, 1ULL << MLX5_EVENT_TYPE_WQ_CATAS_ERROR | 1ULL << MLX5_EVENT_TYPE_PAGE_REQUEST);
	struct key_attr a = { .mode = MLX5_MKC_ACCESS_MODE_MTT, .len = 1, .octwords = 131072 };
	struct mlx5_eqe e;
	u32 key;
	int i;

	/* two events fill the ring: records far ahead of their rings */
	for (i = 0; i < 2; i++) {
		struct qp *qp = qp_new(m, (struct qp_attr){});

		qp_up(qp, qp->qpn, (struct qp_path){});
		qp->sq_pi = 0x4000;
		sq_ring(qp);
	}
	ASSERT_EQ(key_try(m, &a, &key), MLX5_CMD_STAT_NO_RES_ERR);
	for (i = 0; i < 2; i++) {
		ASSERT(eq_poll(&eq, &e));
		ASSERT_EQ(e.type, MLX5_EVENT_TYPE_WQ_CATAS_ERROR);
	}
	ASSERT(!eq_poll(&eq, &e));
	eq_update(&eq, true);
	shim_run();
	ASSERT(eq_poll(&eq, &e));
	ASSERT_EQ(e.type, MLX5_EVENT_TYPE_PAGE_REQUEST);
	ASSERT_GE((s32)be32_to_cpu(e.data.req_pages.num_pages), 256);
}

TEST("eq", events_go_to_the_last_subscriber)
{
	struct eq eq = eq_new(m, 4, 3, 1ULL << MLX5_EVENT_TYPE_WQ_ACCESS_ERROR);
	struct pair p = pair_new(m);
	u32 in[MLX5_ST_SZ_DW(destroy_eq_in)] = {}, out[MLX5_ST_SZ_DW(destroy_eq_out)];
	struct mlx5_eqe e;

	eq_update(&eq, true);
	post_write(p.a, p.lkey, p.s, 8, 0x70000, p.d);
	EXPECT_REQ_ERR(p.a, 0, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, HCA_VS_NAK_ACCESS);
	ASSERT_EQ(m->irqs[3], 1u);
	ASSERT(eq_poll(&eq, &e));
	ASSERT_EQ(e.type, MLX5_EVENT_TYPE_WQ_ACCESS_ERROR);
	ASSERT_EQ(e.data.qp_srq.type, 0);
	ASSERT_EQ(be32_to_cpu(e.data.qp_srq.qp_srq_n), p.b->qpn);
	ASSERT_EQ(events_of(m, MLX5_EVENT_TYPE_WQ_ACCESS_ERROR, p.b->qpn), 0u);
	/* other types still go to the first */
	pair_revive(&p);
	post_atomic(p.a, MLX5_OPCODE_ATOMIC_FA, p.lkey, p.s, p.rkey, p.d + 1, 1, 0);
	EXPECT_REQ_ERR(p.a, 0, MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR, HCA_VS_NAK_REQ);
	ASSERT_EQ(events_of(m, MLX5_EVENT_TYPE_WQ_INVAL_REQ_ERROR, p.b->qpn), 1u);
	MLX5_SET(destroy_eq_in, in, opcode, MLX5_CMD_OP_DESTROY_EQ);
	MLX5_SET(destroy_eq_in, in, eq_number, eq.eqn);
	m_must(m, in, sizeof(in), out, sizeof(out));
	mem_unmap(&eq.ring);
	ASSERT_NE(m_exec(m, in, sizeof(in), out, sizeof(out)), 0);
	/* its ring is gone: the event must not go there */
	pair_revive(&p);
	post_write(p.a, p.lkey, p.s, 8, 0x70000, p.d);
	EXPECT_REQ_ERR(p.a, 0, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, HCA_VS_NAK_ACCESS);
}

TEST("query", eq_context)
{
	struct eq eq = eq_new(m, 6, 3, 1ULL << MLX5_EVENT_TYPE_GPIO_EVENT);
	u32 in[MLX5_ST_SZ_DW(query_eq_in)] = {}, out[MLX5_ST_SZ_DW(query_eq_out)];
	void *eqc = MLX5_ADDR_OF(query_eq_out, out, eq_context_entry);

	MLX5_SET(query_eq_in, in, opcode, MLX5_CMD_OP_QUERY_EQ);
	MLX5_SET(query_eq_in, in, eq_number, eq.eqn);
	m_must(m, in, sizeof(in), out, sizeof(out));
	ASSERT_EQ(MLX5_GET(eqc, eqc, log_eq_size), 6u);
	ASSERT_EQ(MLX5_GET(eqc, eqc, uar_page), m->uar);
	ASSERT_EQ(MLX5_GET(eqc, eqc, intr), 3u);
	ASSERT_EQ(MLX5_GET(eqc, eqc, producer_counter), 0u);
	MLX5_SET(query_eq_in, in, eq_number, 60);
	ASSERT_NE(m_exec(m, in, sizeof(in), out, sizeof(out)), 0);
}
