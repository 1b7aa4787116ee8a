// SPDX-License-Identifier: GPL-2.0
/*
 * Proves case 3: a second thread rewrites WQEs while the HCA executes them. Each field
 * is read once: what happens is what one of its values says, never a mixture, and
 * never more than the region holds.
 */
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "kselftest_harness.h"
#include "lib/rdma.h"
#include "lib/mem.h"
#include "lib/raw.h"

#define AT(p)		((uintptr_t)(p))
#define SIGNALLED	MLX5_WQE_CTRL_CQ_UPDATE

#define PARTS		8		/* segments of a WQE */
#define LONG		65536u
#define SHORT		4096u
#define AREA		(PARTS * LONG)
#define ROUNDS		250

/* One 32-bit word that never stands still */
struct flipper {
	pthread_t thread;
	uint32_t *word, a, b;
	bool stop;
	unsigned long flips;
};

FIXTURE(toctou) {
	struct pair p;
	struct ibv_cq *cq;
	struct ibv_qp *qp, *peer;
	struct qp_cfg cfg;
	struct raw raw;
	char *near, *far;	/* near: part i holds i + 1 */
	struct ibv_mr *near_mr, *far_mr;
	struct flipper flip;
};

static void *keep_flipping(void *arg)
{
	struct flipper *f = arg;
	uint32_t *word;

	while (!__atomic_load_n(&f->stop, __ATOMIC_RELAXED)) {
		word = __atomic_load_n(&f->word, __ATOMIC_ACQUIRE);
		if (!word)
			continue;
		__atomic_store_n(word, f->a, __ATOMIC_RELAXED);
		__atomic_store_n(word, f->b, __ATOMIC_RELAXED);
		f->flips++;
	}
	return NULL;
}

FIXTURE_SETUP(toctou)
{
	struct pair *p = &self->p;

	self->cfg = (struct qp_cfg){ .send_wr = 16, .recv_wr = 16,
				     .send_sge = PARTS, .recv_sge = PARTS };
	ASSERT_EQ(0, pair_open(p, NULL));
	self->cq = ibv_create_cq(p->r.ctx, 255, NULL, NULL, 0);
	ASSERT_NE(NULL, self->cq);
	self->qp = qp_create(p->pd, self->cq, p->acq, &self->cfg);
	self->peer = qp_create(p->pd, p->bcq, p->bcq, &self->cfg);
	ASSERT_NE(NULL, self->qp);
	ASSERT_NE(NULL, self->peer);
	if (raw_open(&self->raw, self->qp, self->cq))
		SKIP(return, "not driven by libmlx5");
	ASSERT_EQ(0, qp_connect(&p->r, self->qp, &self->cfg,
				self->peer->qp_num));
	ASSERT_EQ(0, qp_connect(&p->r, self->peer, &self->cfg,
				self->qp->qp_num));
	self->near = mem_pages(AREA);
	self->far = mem_pages(2 * AREA);	/* the second half is a guard */
	ASSERT_NE(NULL, self->near);
	ASSERT_NE(NULL, self->far);
	for (int i = 0; i < PARTS; i++)
		memset(self->near + i * LONG, i + 1, LONG);
	self->near_mr = ibv_reg_mr(p->pd, self->near, AREA, ACCESS_ALL);
	self->far_mr = ibv_reg_mr(p->pd, self->far, AREA, ACCESS_ALL);
	ASSERT_NE(NULL, self->near_mr);
	ASSERT_NE(NULL, self->far_mr);
}

FIXTURE_TEARDOWN(toctou)
{
	if (self->flip.thread) {
		__atomic_store_n(&self->flip.stop, true, __ATOMIC_RELAXED);
		pthread_join(self->flip.thread, NULL);
		EXPECT_LT(ROUNDS, self->flip.flips);
	}
	if (self->far)
		EXPECT_TRUE(all_bytes(self->far + AREA, AREA, 0));
	if (self->near_mr)
		EXPECT_EQ(0, ibv_dereg_mr(self->near_mr));
	if (self->far_mr)
		EXPECT_EQ(0, ibv_dereg_mr(self->far_mr));
	EXPECT_EQ(0, ibv_destroy_qp(self->qp));
	EXPECT_EQ(0, ibv_destroy_qp(self->peer));
	EXPECT_EQ(0, ibv_destroy_cq(self->cq));
	pair_close(&self->p);
}

#define SELF	FIXTURE_DATA(toctou) *self

static void flip(struct __test_metadata *_metadata, SELF, uint32_t a,
		 uint32_t b)
{
	self->flip.a = htobe32(a);
	self->flip.b = htobe32(b);
	ASSERT_EQ(0, pthread_create(&self->flip.thread, NULL, keep_flipping,
				    &self->flip));
}

#define FLIP(...)	flip(_metadata, self, __VA_ARGS__)

static void aim(SELF, void *word)
{
	__atomic_store_n(&self->flip.word, word, __ATOMIC_RELEASE);
}

static void again(struct __test_metadata *_metadata, SELF)
{
	aim(self, NULL);
	ASSERT_EQ(0, qp_to(self->qp, IBV_QPS_RESET));
	ASSERT_EQ(0, qp_to(self->peer, IBV_QPS_RESET));
	drop_wcs(self->p.bcq);
	self->raw.pi = 0;
	ASSERT_EQ(0, qp_connect(&self->p.r, self->qp, &self->cfg,
				self->peer->qp_num));
	ASSERT_EQ(0, qp_connect(&self->p.r, self->peer, &self->cfg,
				self->qp->qp_num));
}

#define AGAIN()	again(_metadata, self)

/* A WRITE of @parts long parts is put into the ring; where its byte @at lies there */
static void *put_write(SELF, int parts, unsigned int at, int ds)
{
	struct raw_wqe w;
	uint16_t pi = self->raw.pi;

	raw_begin(&w, &self->raw, MLX5_OPCODE_RDMA_WRITE, SIGNALLED);
	raw_remote(&w, AT(self->far), self->far_mr->rkey);
	for (int i = 0; i < parts; i++)
		raw_data(&w, AT(self->near) + i * LONG, LONG,
			 self->near_mr->lkey);
	raw_put(&self->raw, &w, ds);
	return (char *)raw_block(&self->raw, pi + at / BB) + at % BB;
}

/* Rings until a completion comes */
static void go(struct __test_metadata *_metadata, SELF, struct raw_cqe *cqe)
{
	raw_record(&self->raw);
	raw_ring(&self->raw);
	ASSERT_EQ(1, raw_wait(&self->raw, cqe, WAIT_MS));
}

/* Runs of part after part at @buf, all whole or cut short: the number of bytes */
static size_t runs(const char *buf, int parts, bool *odd)
{
	size_t at = 0, len;

	for (int i = 0; i < parts; i++) {
		for (len = 0; len < LONG && buf[at + len] == i + 1; len++)
			;
		if (len != LONG && len != SHORT)
			*odd = true;
		at += len;
	}
	return at;
}

TEST_F(toctou, case_03_length_of_a_segment)
{
	int seen_long = 0, seen_short = 0;
	struct raw_cqe cqe;
	bool odd = false;
	size_t len;

	FLIP(LONG, SHORT);
	for (int round = 0; round < ROUNDS; round++) {
		int part = round % PARTS;

		memset(self->far, 0, AREA);
		aim(self, put_write(self, PARTS, 32 + 16 * part, -1));
		go(_metadata, self, &cqe);
		aim(self, NULL);
		ASSERT_EQ(MLX5_CQE_REQ, cqe.opcode);
		len = runs(self->far, PARTS, &odd);
		ASSERT_FALSE(odd);
		ASSERT_TRUE(len == AREA || len == AREA - LONG + SHORT);
		ASSERT_TRUE(all_bytes(self->far + len, AREA - len, 0));
		if (len == AREA)
			seen_long++;
		else
			seen_short++;
	}
	EXPECT_LT(0, seen_long);
	EXPECT_LT(0, seen_short);
}

/* Refused as a whole or from the bad part on, or executed as a whole */
TEST_F(toctou, case_03_lkey)
{
	struct raw_cqe cqe;
	bool odd = false;
	size_t len;

	FLIP(self->near_mr->lkey, NO_KEY);
	for (int round = 0; round < ROUNDS; round++) {
		int part = round % PARTS;

		memset(self->far, 0, AREA);
		aim(self, put_write(self, PARTS, 32 + 16 * part + 4, -1));
		go(_metadata, self, &cqe);
		aim(self, NULL);
		len = runs(self->far, PARTS, &odd);
		if (cqe.opcode == MLX5_CQE_REQ) {
			ASSERT_EQ(AREA, len);
			continue;
		}
		ASSERT_EQ(MLX5_CQE_REQ_ERR, cqe.opcode);
		ASSERT_EQ(0x04, cqe.syndrome);
		ASSERT_EQ(0xa0, cqe.vendor);
		ASSERT_GE(part * LONG, len);
		ASSERT_TRUE(all_bytes(self->far + part * LONG,
				      AREA - part * LONG, 0));
		AGAIN();
	}
}

TEST_F(toctou, case_03_remote_address)
{
	struct raw_cqe cqe;
	uint32_t low = (uint32_t)AT(self->far);

	/* two places, 2 MiB minus nothing apart: inside and far outside */
	FLIP(low, low + (2 << 20));
	for (int round = 0; round < ROUNDS; round++) {
		memset(self->far, 0, AREA);
		aim(self, put_write(self, PARTS, 20, -1));
		go(_metadata, self, &cqe);
		aim(self, NULL);
		if (cqe.opcode == MLX5_CQE_REQ) {
			for (int i = 0; i < PARTS; i++)
				ASSERT_TRUE(all_bytes(self->far + i * LONG,
						      LONG, i + 1));
			continue;
		}
		ASSERT_EQ(MLX5_CQE_REQ_ERR, cqe.opcode);
		ASSERT_EQ(0x13, cqe.syndrome);
		ASSERT_TRUE(all_bytes(self->far, AREA, 0));
		AGAIN();
	}
}

TEST_F(toctou, case_03_rkey)
{
	struct raw_cqe cqe;

	FLIP(self->far_mr->rkey, self->far_mr->rkey ^ 0x55);
	for (int round = 0; round < ROUNDS; round++) {
		memset(self->far, 0, AREA);
		aim(self, put_write(self, PARTS, 24, -1));
		go(_metadata, self, &cqe);
		aim(self, NULL);
		if (cqe.opcode == MLX5_CQE_REQ) {
			for (int i = 0; i < PARTS; i++)
				ASSERT_TRUE(all_bytes(self->far + i * LONG,
						      LONG, i + 1));
			continue;
		}
		ASSERT_EQ(MLX5_CQE_REQ_ERR, cqe.opcode);
		ASSERT_EQ(0x13, cqe.syndrome);
		ASSERT_EQ(0x88, cqe.vendor);
		ASSERT_TRUE(all_bytes(self->far, AREA, 0));
		AGAIN();
	}
}

/* DS says one segment or two; both fit into the one basic block */
TEST_F(toctou, case_03_size_of_the_wqe)
{
	uint32_t qpn = self->qp->qp_num;
	struct raw_cqe cqe;
	bool odd = false;
	size_t len;

	FLIP(qpn << 8 | 3, qpn << 8 | 4);
	for (int round = 0; round < ROUNDS; round++) {
		memset(self->far, 0, 3 * LONG);
		aim(self, put_write(self, 2, 4, 4));
		go(_metadata, self, &cqe);
		aim(self, NULL);
		ASSERT_EQ(MLX5_CQE_REQ, cqe.opcode);
		len = runs(self->far, 1, &odd);
		ASSERT_EQ(LONG, len);
		ASSERT_TRUE(all_bytes(self->far + LONG, LONG,
				      self->far[LONG] ? 2 : 0));
		ASSERT_TRUE(all_bytes(self->far + 2 * LONG, LONG, 0));
	}
}

/* A size that is good, or one with which the WQE is longer than the ring */
TEST_F(toctou, case_03_size_beyond_the_ring)
{
	uint32_t qpn = self->qp->qp_num;
	struct raw_cqe cqe;

	FLIP(qpn << 8 | 3, qpn << 8 | 63);
	for (int round = 0; round < ROUNDS; round++) {
		memset(self->far, 0, 2 * LONG);
		aim(self, put_write(self, 1, 4, 3));
		go(_metadata, self, &cqe);
		aim(self, NULL);
		if (cqe.opcode == MLX5_CQE_REQ) {
			ASSERT_TRUE(all_bytes(self->far, LONG, 1));
			ASSERT_TRUE(all_bytes(self->far + LONG, LONG, 0));
			continue;
		}
		ASSERT_EQ(MLX5_CQE_REQ_ERR, cqe.opcode);
		AGAIN();
	}
}

/* A pointer, or inline bytes of a length that no WQE has */
TEST_F(toctou, case_03_inline_or_not)
{
	struct raw_cqe cqe;

	FLIP(LONG, 0x80000000 | 0x7ffff);
	for (int round = 0; round < ROUNDS; round++) {
		memset(self->far, 0, 2 * LONG);
		aim(self, put_write(self, 1, 32, -1));
		go(_metadata, self, &cqe);
		aim(self, NULL);
		if (cqe.opcode == MLX5_CQE_REQ) {
			ASSERT_TRUE(all_bytes(self->far, LONG, 1));
			ASSERT_TRUE(all_bytes(self->far + LONG, LONG, 0));
			continue;
		}
		ASSERT_EQ(MLX5_CQE_REQ_ERR, cqe.opcode);
		ASSERT_EQ(0x02, cqe.syndrome);
		ASSERT_TRUE(all_bytes(self->far, 2 * LONG, 0));
		AGAIN();
	}
}

/* WRITE or READ: bytes go one way or the other, never both */
TEST_F(toctou, case_03_opcode)
{
	struct raw_cqe cqe;

	self->flip.stop = false;
	for (int round = 0; round < ROUNDS; round++) {
		uint32_t index = (uint32_t)self->raw.pi << 8;
		void *word;

		self->flip.a = htobe32(index | MLX5_OPCODE_RDMA_WRITE);
		self->flip.b = htobe32(index | MLX5_OPCODE_RDMA_READ);
		if (!self->flip.thread)
			ASSERT_EQ(0, pthread_create(&self->flip.thread, NULL,
						    keep_flipping,
						    &self->flip));
		memset(self->near, 1, LONG);
		memset(self->far, 2, LONG);
		word = put_write(self, 1, 0, -1);
		aim(self, word);
		go(_metadata, self, &cqe);
		aim(self, NULL);
		ASSERT_EQ(MLX5_CQE_REQ, cqe.opcode);
		if (self->far[0] == 1) {
			ASSERT_TRUE(all_bytes(self->near, LONG, 1));
			ASSERT_TRUE(all_bytes(self->far, LONG, 1));
		} else {
			ASSERT_TRUE(all_bytes(self->near, LONG, 2));
			ASSERT_TRUE(all_bytes(self->far, LONG, 2));
		}
		sched_yield();	/* the flipper may hold the old word */
	}
	memset(self->far, 0, AREA);
}

/* A receive segment that shrinks and grows while the message comes in */
TEST_F(toctou, case_03_receive_segment)
{
	struct mlx5dv_qp dv = {};
	struct mlx5dv_obj obj = { .qp = { self->peer, &dv } };
	struct raw_cqe cqe;
	struct raw_wqe w;
	struct ibv_wc wc;

	ASSERT_EQ(0, mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP));
	FLIP(LONG, SHORT);
	for (int round = 0; round < ROUNDS; round++) {
		struct ibv_sge to[2] = {
			{ AT(self->far), LONG, self->far_mr->lkey },
			{ AT(self->far) + 2 * LONG, 2 * LONG,
			  self->far_mr->lkey },
		};
		struct ibv_recv_wr recv = { .sg_list = to, .num_sge = 2 };
		struct ibv_recv_wr *bad;
		size_t first;

		memset(self->far, 0, AREA);
		ASSERT_EQ(0, ibv_post_recv(self->peer, &recv, &bad));
		aim(self, (char *)dv.rq.buf +
		    round % dv.rq.wqe_cnt * dv.rq.stride);
		raw_begin(&w, &self->raw, MLX5_OPCODE_SEND, SIGNALLED);
		for (int i = 0; i < 2; i++)
			raw_data(&w, AT(self->near), LONG,
				 self->near_mr->lkey);
		raw_put(&self->raw, &w, -1);
		go(_metadata, self, &cqe);
		aim(self, NULL);
		ASSERT_EQ(MLX5_CQE_REQ, cqe.opcode);
		ASSERT_EQ(1, wait_wc(self->p.bcq, &wc, WAIT_MS));
		ASSERT_EQ(IBV_WC_SUCCESS, wc.status);
		ASSERT_EQ(2 * LONG, wc.byte_len);
		for (first = 0; self->far[first]; first++)
			;
		ASSERT_TRUE(first == LONG || first == SHORT);
		ASSERT_TRUE(all_bytes(self->far + first, 2 * LONG - first, 0));
		ASSERT_TRUE(all_bytes(self->far + 2 * LONG, 2 * LONG - first,
				      1));
		ASSERT_TRUE(all_bytes(self->far + 4 * LONG - first,
				      4 * LONG + first, 0));
	}
}

/* The doorbell record itself: right, or so far ahead that it is fatal */
TEST_F(toctou, case_03_doorbell_record)
{
	struct raw_cqe cqe;

	self->flip.a = 0;
	for (int round = 0; round < 60; round++) {
		void *record = &self->raw.qp.dbrec[MLX5_SND_DBR];

		memset(self->far, 0, LONG);
		put_write(self, 1, 0, -1);
		self->flip.a = htobe32(self->raw.pi);
		self->flip.b = htobe32((self->raw.pi + 0x4000) & 0xffff);
		if (!self->flip.thread)
			ASSERT_EQ(0, pthread_create(&self->flip.thread, NULL,
						    keep_flipping,
						    &self->flip));
		aim(self, record);
		for (int i = 0; i < 30; i++)
			raw_ring(&self->raw);
		aim(self, NULL);
		/* fatal is what must come at last */
		self->raw.pi += 0x4000;
		raw_record(&self->raw);
		raw_ring(&self->raw);
		ASSERT_TRUE(qp_state_within(self->qp, IBV_QPS_ERR, WAIT_MS));
		while (raw_wait(&self->raw, &cqe, 0))
			;
		while (wait_async(&self->p.r, NULL, 0) > 0)
			;
		AGAIN();
	}
}

TEST_HARNESS_MAIN
