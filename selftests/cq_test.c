// SPDX-License-Identifier: GPL-2.0
/*
 * Proves that completion queues hold what they promise: sizes and wrap-around, the
 * overrun event, resize without losing or doubling a completion, and the arm protocol
 * of libmlx5-abi 5.6: one event for one arm, none that nobody asked for. All of it
 * with CQEs of 64 and of 128 bytes.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "lib/harness.h"
#include "lib/rdma.h"
#include "lib/mem.h"

FIXTURE(cq) {
	struct pair p;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;		/* on the channel; of the QPs x, y */
	struct ibv_qp *x, *y;
	char *buf;
	struct ibv_mr *mr;
};

FIXTURE_VARIANT(cq) {
	const char *cqe_size;
};

FIXTURE_VARIANT_ADD(cq, cqe64) { "64" };
FIXTURE_VARIANT_ADD(cq, cqe128) { "128" };

FIXTURE_SETUP(cq)
{
	setenv("MLX5_CQE_SIZE", variant->cqe_size, 1);
	self->p.cfg = (struct qp_cfg){ .send_wr = 512, .recv_wr = 256 };
	ASSERT_EQ(0, pair_open(&self->p, &(struct qp_cfg){ .send_wr = 512,
							   .recv_wr = 256 }));
	self->channel = ibv_create_comp_channel(self->p.r.ctx);
	ASSERT_NE(NULL, self->channel);
	self->cq = ibv_create_cq(self->p.r.ctx, 60, NULL, self->channel, 0);
	ASSERT_NE(NULL, self->cq);
	self->x = qp_create(self->p.pd, self->cq, self->cq, &self->p.cfg);
	self->y = qp_create(self->p.pd, self->p.bcq, self->cq, &self->p.cfg);
	ASSERT_NE(NULL, self->x);
	ASSERT_NE(NULL, self->y);
	ASSERT_EQ(0, qp_connect(&self->p.r, self->x, &self->p.cfg,
				self->y->qp_num));
	ASSERT_EQ(0, qp_connect(&self->p.r, self->y, &self->p.cfg,
				self->x->qp_num));
	self->buf = mem_pages(2 * PAGE);
	ASSERT_NE(NULL, self->buf);
	self->mr = ibv_reg_mr(self->p.pd, self->buf, 2 * PAGE, ACCESS_ALL);
	ASSERT_NE(NULL, self->mr);
}

FIXTURE_TEARDOWN(cq)
{
	if (self->x)
		EXPECT_EQ(0, ibv_destroy_qp(self->x));
	if (self->y)
		EXPECT_EQ(0, ibv_destroy_qp(self->y));
	EXPECT_EQ(0, ibv_destroy_cq(self->cq));
	EXPECT_EQ(0, ibv_destroy_comp_channel(self->channel));
	EXPECT_EQ(0, ibv_dereg_mr(self->mr));
	pair_close(&self->p);
}

#define SELF	FIXTURE_DATA(cq) *self

static int write8(SELF, struct ibv_qp *qp, uint64_t id)
{
	return post(qp, &(struct op){
		.opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED,
		.id = id, .len = 8,
		.laddr = (uintptr_t)self->buf, .lkey = self->mr->lkey,
		.raddr = (uintptr_t)self->buf + PAGE, .rkey = self->mr->rkey,
	});
}

/* One byte from Y to X: a receive completion in self->cq */
static int send1(SELF, unsigned int flags)
{
	int err = post_recv(self->x, 7, (uintptr_t)self->buf, 8,
			    self->mr->lkey);

	if (err)
		return err;
	return run(self->y, self->p.bcq, &(struct op){
		.opcode = IBV_WR_SEND, .flags = flags, .len = 1,
		.laddr = (uintptr_t)self->buf + PAGE, .lkey = self->mr->lkey,
	}, NULL);
}

/* Every slot is used, in order, over several laps */
TEST_F(cq, abi_5_1_full_ring)
{
	static const int sizes[] = { 1, 2, 3, 15, 16, 100, 255 };
	struct ibv_wc wc;

	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct ibv_cq *cq = ibv_create_cq(self->p.r.ctx, sizes[i],
						  NULL, NULL, 0);
		struct ibv_qp *a, *b;
		uint64_t id = 0, next = 0;

		ASSERT_NE(NULL, cq);
		EXPECT_LE(sizes[i], cq->cqe);
		if (self->p.r.softhca)	/* a power of two, less one */
			EXPECT_EQ(0, cq->cqe & (cq->cqe + 1));
		a = qp_create(self->p.pd, cq, cq, &self->p.cfg);
		b = qp_create(self->p.pd, cq, cq, &self->p.cfg);
		ASSERT_NE(NULL, a);
		ASSERT_NE(NULL, b);
		ASSERT_EQ(0, qp_connect(&self->p.r, a, &self->p.cfg,
					b->qp_num));
		ASSERT_EQ(0, qp_connect(&self->p.r, b, &self->p.cfg,
					a->qp_num));
		for (int lap = 0; lap < 5; lap++) {
			for (int n = 0; n < cq->cqe; n++)
				ASSERT_EQ(0, write8(self, a, id++));
			while (next < id) {
				ASSERT_EQ(1, wait_wc(cq, &wc, WAIT_MS));
				ASSERT_EQ(IBV_WC_SUCCESS, wc.status);
				ASSERT_EQ(next, wc.wr_id);
				next++;
			}
			EXPECT_EQ(0, ibv_poll_cq(cq, 1, &wc));
		}
		EXPECT_EQ(0, wait_async(&self->p.r, NULL, 0));
		EXPECT_EQ(0, ibv_destroy_qp(a));
		EXPECT_EQ(0, ibv_destroy_qp(b));
		EXPECT_EQ(0, ibv_destroy_cq(cq));
	}
}

TEST_F(cq, abi_5_2_overrun)
{
	struct ibv_cq *cq = ibv_create_cq(self->p.r.ctx, 15, NULL, NULL, 0);
	struct ibv_async_event event;
	struct ibv_qp *a, *b;
	bool cq_error = false;

	ASSERT_NE(NULL, cq);
	a = qp_create(self->p.pd, cq, cq, &self->p.cfg);
	b = qp_create(self->p.pd, self->p.bcq, self->p.bcq, &self->p.cfg);
	ASSERT_NE(NULL, a);
	ASSERT_NE(NULL, b);
	ASSERT_EQ(0, qp_connect(&self->p.r, a, &self->p.cfg, b->qp_num));
	ASSERT_EQ(0, qp_connect(&self->p.r, b, &self->p.cfg, a->qp_num));
	for (int i = 0; i < 64; i++)
		ASSERT_EQ(0, write8(self, a, i));
	while (!cq_error && wait_async(&self->p.r, &event, WAIT_MS / 3) == 1)
		cq_error = event.event_type == IBV_EVENT_CQ_ERR &&
			   event.element.cq == cq;
	EXPECT_TRUE(cq_error);
	EXPECT_TRUE(qp_state_within(a, IBV_QPS_ERR, 2000));
	EXPECT_EQ(IBV_QPS_RTS, qp_state(b));
	/* other queues live on */
	EXPECT_EQ(0, write8(self, self->x, 1));
	EXPECT_EQ(0, wait_good(self->cq, 1));
	EXPECT_EQ(0, ibv_destroy_qp(a));
	EXPECT_EQ(0, ibv_destroy_qp(b));
	EXPECT_EQ(0, ibv_destroy_cq(cq));
}

TEST_F(cq, abi_5_6_no_event_without_arm)
{
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(0, write8(self, self->x, i));
		EXPECT_EQ(0, wait_good(self->cq, 1));
	}
	EXPECT_EQ(0, wait_comp(self->channel, QUIET_MS));
}

TEST_F(cq, abi_5_6_arm_any)
{
	struct ibv_wc wc;

	for (int round = 0; round < 20; round++) {
		ASSERT_EQ(0, ibv_req_notify_cq(self->cq, 0));
		if (round < 2)
			EXPECT_EQ(0, wait_comp(self->channel, QUIET_MS));
		ASSERT_EQ(0, write8(self, self->x, round));
		ASSERT_EQ(0, write8(self, self->x, round));
		ASSERT_EQ(1, wait_comp(self->channel, WAIT_MS));
		ASSERT_EQ(1, wait_wc(self->cq, &wc, WAIT_MS));
		ASSERT_EQ(1, wait_wc(self->cq, &wc, WAIT_MS));
		/* one arm, one event */
		if (round < 2)
			EXPECT_EQ(0, wait_comp(self->channel, QUIET_MS));
	}
	EXPECT_EQ(0, wait_comp(self->channel, QUIET_MS));
}

/* A completion that came between the last poll and the arm raises the event */
TEST_F(cq, abi_5_6_arm_too_late)
{
	struct ibv_wc wc;

	EXPECT_EQ(0, write8(self, self->x, 1));
	EXPECT_EQ(0, wait_good(self->cq, 1));
	EXPECT_EQ(0, write8(self, self->x, 2));
	usleep(50000);
	ASSERT_EQ(0, ibv_req_notify_cq(self->cq, 0));
	EXPECT_EQ(1, wait_comp(self->channel, WAIT_MS));
	EXPECT_EQ(1, wait_wc(self->cq, &wc, WAIT_MS));
	/* the next arm finds nothing new */
	ASSERT_EQ(0, ibv_req_notify_cq(self->cq, 0));
	EXPECT_EQ(0, wait_comp(self->channel, QUIET_MS));
	EXPECT_EQ(0, write8(self, self->x, 3));
	EXPECT_EQ(1, wait_comp(self->channel, WAIT_MS));
}

TEST_F(cq, abi_5_6_arm_solicited)
{
	ASSERT_EQ(0, ibv_req_notify_cq(self->cq, 1));
	EXPECT_EQ(0, send1(self, 0));
	EXPECT_EQ(0, wait_comp(self->channel, QUIET_MS));
	EXPECT_EQ(0, send1(self, IBV_SEND_SOLICITED));
	EXPECT_EQ(1, wait_comp(self->channel, WAIT_MS));
	EXPECT_EQ(0, wait_good(self->cq, 2));
	EXPECT_EQ(0, send1(self, IBV_SEND_SOLICITED));
	EXPECT_EQ(0, wait_comp(self->channel, QUIET_MS));
	/* a second arm, without a poll in between: the first was used up */
	ASSERT_EQ(0, ibv_req_notify_cq(self->cq, 1));
	EXPECT_EQ(1, wait_comp(self->channel, WAIT_MS));
	EXPECT_EQ(0, wait_good(self->cq, 1));
}

TEST_F(cq, abi_5_6_error_counts_as_solicited)
{
	ASSERT_EQ(0, ibv_req_notify_cq(self->cq, 1));
	EXPECT_EQ(0, write8(self, self->x, 1));
	EXPECT_EQ(0, wait_comp(self->channel, QUIET_MS));
	EXPECT_EQ(0, post_recv(self->x, 1, 0, 0, 0));
	EXPECT_EQ(0, qp_to(self->x, IBV_QPS_ERR));
	EXPECT_EQ(1, wait_comp(self->channel, WAIT_MS));
}

TEST_F(cq, two_queues_on_one_channel)
{
	struct ibv_cq *second = ibv_create_cq(self->p.r.ctx, 15, self,
					      self->channel, 0);
	struct ibv_cq *cq;
	struct ibv_qp *a, *b;
	void *context;

	ASSERT_NE(NULL, second);
	a = qp_create(self->p.pd, second, second, &self->p.cfg);
	b = qp_create(self->p.pd, self->p.bcq, self->p.bcq, &self->p.cfg);
	ASSERT_NE(NULL, a);
	ASSERT_NE(NULL, b);
	ASSERT_EQ(0, qp_connect(&self->p.r, a, &self->p.cfg, b->qp_num));
	ASSERT_EQ(0, qp_connect(&self->p.r, b, &self->p.cfg, a->qp_num));
	ASSERT_EQ(0, ibv_req_notify_cq(self->cq, 0));
	ASSERT_EQ(0, ibv_req_notify_cq(second, 0));
	EXPECT_EQ(0, write8(self, a, 1));
	ASSERT_EQ(0, wait_good(second, 1));
	ASSERT_EQ(0, ibv_get_cq_event(self->channel, &cq, &context));
	EXPECT_EQ(second, cq);
	EXPECT_EQ((void *)self, context);
	ibv_ack_cq_events(cq, 1);
	EXPECT_EQ(0, wait_comp(self->channel, QUIET_MS));
	EXPECT_EQ(0, write8(self, self->x, 1));
	ASSERT_EQ(0, wait_good(self->cq, 1));
	ASSERT_EQ(0, ibv_get_cq_event(self->channel, &cq, &context));
	EXPECT_EQ(self->cq, cq);
	ibv_ack_cq_events(cq, 1);
	EXPECT_EQ(0, ibv_destroy_qp(a));
	EXPECT_EQ(0, ibv_destroy_qp(b));
	EXPECT_EQ(0, ibv_destroy_cq(second));
}

/* Completions that wait in the queue move to the new ring, in order */
TEST_F(cq, abi_5_5_resize_keeps_completions)
{
	static const int sizes[] = { 200, 63, 1000, 40, 63, 15, 300 };
	uint64_t id = 0, next = 0;
	struct ibv_wc wc;
	int err;

	if (!self->p.r.softhca)
		SKIP(return, "not softhca");
	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		for (int n = 0; n < 13; n++)
			ASSERT_EQ(0, write8(self, self->x, id++));
		/* done when a later one on another queue pair is */
		while (ibv_poll_cq(self->p.bcq, 1, &wc) > 0)
			;
		usleep(20000);
		err = ibv_resize_cq(self->cq, sizes[i]);
		ASSERT_EQ(0, err);
		EXPECT_LE(sizes[i], self->cq->cqe);
		for (int n = 0; n < 13; n++) {
			ASSERT_EQ(1, wait_wc(self->cq, &wc, WAIT_MS));
			ASSERT_EQ(IBV_WC_SUCCESS, wc.status);
			ASSERT_EQ(next, wc.wr_id);
			next++;
		}
		EXPECT_EQ(0, ibv_poll_cq(self->cq, 1, &wc));
	}
	EXPECT_EQ(0, wait_async(&self->p.r, NULL, 0));
}

/* Too many completions for the new ring: refused, and the old one goes on */
TEST_F(cq, abi_5_5_resize_too_small)
{
	struct ibv_wc wc;

	if (!self->p.r.softhca)
		SKIP(return, "not softhca");
	for (int n = 0; n < 40; n++)
		ASSERT_EQ(0, write8(self, self->x, n));
	usleep(50000);
	EXPECT_NE(0, ibv_resize_cq(self->cq, 15));
	for (int n = 0; n < 40; n++) {
		ASSERT_EQ(1, wait_wc(self->cq, &wc, WAIT_MS));
		ASSERT_EQ(n, wc.wr_id);
	}
	EXPECT_EQ(0, ibv_resize_cq(self->cq, 15));
	ASSERT_EQ(0, write8(self, self->x, 5));
	EXPECT_EQ(0, wait_good(self->cq, 1));
}

struct poster {
	FIXTURE_DATA(cq) *self;
	int posted, failed;
	volatile int credits;
};

#define MESSAGES	3000

static void *keep_posting(void *arg)
{
	struct poster *t = arg;

	while (t->posted < MESSAGES && !t->failed) {
		if (__atomic_load_n(&t->credits, __ATOMIC_ACQUIRE) <= 0) {
			usleep(100);
			continue;
		}
		__atomic_sub_fetch(&t->credits, 1, __ATOMIC_ACQ_REL);
		t->failed = write8(t->self, t->self->x, t->posted);
		t->posted++;
	}
	return NULL;
}

TEST_F(cq, abi_5_5_resize_under_traffic)
{
	struct poster t = { .self = self, .credits = 10 };
	uint64_t end = now_us() + 20000000;
	int got = 0, resized = 0;
	pthread_t thread;
	struct ibv_wc wc;

	if (!self->p.r.softhca)
		SKIP(return, "not softhca");
	ASSERT_EQ(0, pthread_create(&thread, NULL, keep_posting, &t));
	while (got < MESSAGES && now_us() < end) {
		int n = ibv_poll_cq(self->cq, 1, &wc);

		if (n < 0)
			break;
		if (n && (wc.status || wc.wr_id != got))
			break;
		got += n;
		if (n)
			__atomic_add_fetch(&t.credits, 1, __ATOMIC_ACQ_REL);
		if (got % 50 == 25 && n) {
			int err = ibv_resize_cq(self->cq,
						resized % 2 ? 60 : 250);

			if (err)
				break;
			resized++;
		}
	}
	if (got != MESSAGES)
		t.failed = 1;
	pthread_join(thread, NULL);
	EXPECT_EQ(MESSAGES, got);
	EXPECT_LE(MESSAGES / 50 - 1, resized);
	EXPECT_EQ(0, wait_async(&self->p.r, NULL, 0));
}

/* A queue pair that goes takes only its own completions along */
TEST_F(cq, abi_5_7_destroy_sweeps_one_queue_pair)
{
	struct ibv_qp *a, *b;
	struct ibv_wc wc;

	a = qp_create(self->p.pd, self->cq, self->cq, &self->p.cfg);
	b = qp_create(self->p.pd, self->p.bcq, self->p.bcq, &self->p.cfg);
	ASSERT_NE(NULL, a);
	ASSERT_NE(NULL, b);
	ASSERT_EQ(0, qp_connect(&self->p.r, a, &self->p.cfg, b->qp_num));
	ASSERT_EQ(0, qp_connect(&self->p.r, b, &self->p.cfg, a->qp_num));
	for (int i = 0; i < 5; i++) {
		ASSERT_EQ(0, write8(self, self->x, 100 + i));
		ASSERT_EQ(0, write8(self, a, 200 + i));
	}
	usleep(50000);
	EXPECT_EQ(0, ibv_destroy_qp(a));
	for (int i = 0; i < 5; i++) {
		ASSERT_EQ(1, wait_wc(self->cq, &wc, WAIT_MS));
		if (!self->p.r.softhca && wc.wr_id >= 200) {
			i--;		/* rxe does not sweep */
			continue;
		}
		EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
		EXPECT_EQ(100 + i, wc.wr_id);
	}
	EXPECT_EQ(0, ibv_destroy_qp(b));
}

TEST_F(cq, destroyed_while_armed)
{
	struct ibv_cq *cq = ibv_create_cq(self->p.r.ctx, 15, NULL,
					  self->channel, 0);

	ASSERT_NE(NULL, cq);
	ASSERT_EQ(0, ibv_req_notify_cq(cq, 0));
	EXPECT_EQ(0, ibv_destroy_cq(cq));
	EXPECT_EQ(0, wait_comp(self->channel, 0));
}

TEST_F(cq, in_use_is_busy)
{
	EXPECT_EQ(EBUSY, ibv_destroy_cq(self->cq));
	EXPECT_EQ(EBUSY, ibv_dealloc_pd(self->p.pd));
}

/* The extended poll interface reads the same CQEs */
TEST_F(cq, extended_poll)
{
	struct ibv_cq_init_attr_ex init = {
		.cqe = 15, .wc_flags = IBV_WC_STANDARD_FLAGS,
	};
	struct ibv_poll_cq_attr attr = {};
	uint64_t end = now_us() + WAIT_MS * 1000;
	struct ibv_cq_ex *cq;
	struct ibv_qp *a, *b;
	int err;

	cq = ibv_create_cq_ex(self->p.r.ctx, &init);
	if (!cq && !self->p.r.softhca)
		SKIP(return, "not offered");
	ASSERT_NE(NULL, cq);
	a = qp_create(self->p.pd, ibv_cq_ex_to_cq(cq), ibv_cq_ex_to_cq(cq),
		      &self->p.cfg);
	b = qp_create(self->p.pd, self->p.bcq, self->p.bcq, &self->p.cfg);
	ASSERT_NE(NULL, a);
	ASSERT_NE(NULL, b);
	ASSERT_EQ(0, qp_connect(&self->p.r, a, &self->p.cfg, b->qp_num));
	ASSERT_EQ(0, qp_connect(&self->p.r, b, &self->p.cfg, a->qp_num));
	ASSERT_EQ(0, post_recv(a, 3, (uintptr_t)self->buf, 100,
			       self->mr->lkey));
	ASSERT_EQ(0, post(b, &(struct op){
		.opcode = IBV_WR_SEND_WITH_IMM, .imm = 0x12345678, .len = 33,
		.laddr = (uintptr_t)self->buf + PAGE, .lkey = self->mr->lkey,
	}));
	do {
		err = ibv_start_poll(cq, &attr);
	} while (err == ENOENT && now_us() < end);
	ASSERT_EQ(0, err);
	EXPECT_EQ(IBV_WC_SUCCESS, cq->status);
	EXPECT_EQ(3, cq->wr_id);
	EXPECT_EQ(IBV_WC_RECV, ibv_wc_read_opcode(cq));
	EXPECT_EQ(33, ibv_wc_read_byte_len(cq));
	EXPECT_EQ(0x12345678, ibv_wc_read_imm_data(cq));
	EXPECT_EQ(a->qp_num, ibv_wc_read_qp_num(cq));
	EXPECT_EQ(b->qp_num, ibv_wc_read_src_qp(cq));
	EXPECT_NE(0, ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM);
	ibv_end_poll(cq);
	EXPECT_EQ(0, ibv_destroy_qp(a));
	EXPECT_EQ(0, ibv_destroy_qp(b));
	EXPECT_EQ(0, ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
}

TEST_HARNESS_MAIN
