// SPDX-License-Identifier: GPL-2.0
/*
 * Proves that the HCA takes nothing on trust in a send queue: WQEs, sizes, indices
 * and doorbell records that no library writes end in the error that the model names
 * or change nothing at all, and cost the offender only its queue pair.
 */
#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include "kselftest_harness.h"
#include "lib/rdma.h"
#include "lib/mem.h"
#include "lib/raw.h"
#include "../include/hca/syndrome.h"

#define AT(p)		((uintptr_t)(p))
#define SIGNALLED	MLX5_WQE_CTRL_CQ_UPDATE

/* CQE syndromes, libmlx5-abi 5.4 */
#define LOCAL_QP_OP	0x02
#define LOCAL_PROT	0x04
#define FLUSHED		0x05

FIXTURE(wqe) {
	struct pair p;		/* a well-behaved pair beside it */
	struct ibv_cq *cq;
	struct ibv_qp *qp, *peer;
	struct raw raw;
	char *near, *far;
	struct ibv_mr *near_mr, *far_mr;
};

FIXTURE_SETUP(wqe)
{
	struct qp_cfg cfg = { .send_wr = 16 };

	ASSERT_EQ(0, pair_open(&self->p, NULL));
	self->cq = ibv_create_cq(self->p.r.ctx, 255, NULL, NULL, 0);
	ASSERT_NE(NULL, self->cq);
	self->qp = qp_create(self->p.pd, self->cq, self->p.acq, &cfg);
	self->peer = qp_create(self->p.pd, self->p.bcq, self->p.bcq, &cfg);
	ASSERT_NE(NULL, self->qp);
	ASSERT_NE(NULL, self->peer);
	if (raw_open(&self->raw, self->qp, self->cq))
		SKIP(return, "not driven by libmlx5");
	ASSERT_EQ(0, qp_connect(&self->p.r, self->qp, &cfg,
				self->peer->qp_num));
	ASSERT_EQ(0, qp_connect(&self->p.r, self->peer, &cfg,
				self->qp->qp_num));
	self->near = mem_pages(4 * PAGE);
	self->far = mem_pages(4 * PAGE);
	ASSERT_NE(NULL, self->near);
	ASSERT_NE(NULL, self->far);
	memset(self->near, 0x11, 4 * PAGE);
	memset(self->far, 0x22, 4 * PAGE);
	self->near_mr = ibv_reg_mr(self->p.pd, self->near, 4 * PAGE,
				   ACCESS_ALL);
	self->far_mr = ibv_reg_mr(self->p.pd, self->far, 4 * PAGE, ACCESS_ALL);
	ASSERT_NE(NULL, self->near_mr);
	ASSERT_NE(NULL, self->far_mr);
}

/* Whatever happened to the queue pair under test, the others work */
FIXTURE_TEARDOWN(wqe)
{
	struct op op = { .opcode = IBV_WR_RDMA_WRITE, .len = 8 };

	if (self->near_mr && self->far_mr) {
		op.laddr = AT(self->near);
		op.lkey = self->near_mr->lkey;
		op.raddr = AT(self->far);
		op.rkey = self->far_mr->rkey;
		EXPECT_EQ(0, run(self->p.a, self->p.acq, &op, NULL));
		EXPECT_EQ(0, ibv_dereg_mr(self->near_mr));
		EXPECT_EQ(0, ibv_dereg_mr(self->far_mr));
	}
	if (self->qp)
		EXPECT_EQ(0, ibv_destroy_qp(self->qp));
	if (self->peer)
		EXPECT_EQ(0, ibv_destroy_qp(self->peer));
	if (self->cq)
		EXPECT_EQ(0, ibv_destroy_cq(self->cq));
	pair_close(&self->p);
}

#define SELF	FIXTURE_DATA(wqe) *self

static void begin_write(SELF, struct raw_wqe *w)
{
	raw_begin(w, &self->raw, MLX5_OPCODE_RDMA_WRITE, SIGNALLED);
	raw_remote(w, AT(self->far), self->far_mr->rkey);
}

/* A WRITE that works, to see that the raw way itself does */
static void good_write(struct __test_metadata *_metadata, SELF)
{
	uint16_t index = self->raw.pi;
	struct raw_cqe cqe;
	struct raw_wqe w;

	begin_write(self, &w);
	raw_data(&w, AT(self->near), 64, self->near_mr->lkey);
	raw_post(&self->raw, &w);
	ASSERT_EQ(1, raw_wait(&self->raw, &cqe, WAIT_MS));
	ASSERT_EQ(MLX5_CQE_REQ, cqe.opcode);
	EXPECT_EQ(index, cqe.wqe_counter);
	EXPECT_TRUE(all_bytes(self->far, 64, 0x11));
	memset(self->far, 0x22, 64);
}

/* One error CQE, the queue pair in error, no byte moved */
static void expect_error(struct __test_metadata *_metadata, SELF,
			 uint8_t syndrome, uint8_t vendor)
{
	struct raw_cqe cqe = {};

	ASSERT_EQ(1, raw_wait(&self->raw, &cqe, WAIT_MS));
	EXPECT_EQ(MLX5_CQE_REQ_ERR, cqe.opcode);
	EXPECT_EQ(syndrome, cqe.syndrome);
	EXPECT_EQ(vendor, cqe.vendor);
	EXPECT_EQ(IBV_QPS_ERR, qp_state(self->qp));
	EXPECT_EQ(IBV_QPS_RTS, qp_state(self->peer));
	EXPECT_TRUE(all_bytes(self->near, 4 * PAGE, 0x11));
	EXPECT_TRUE(all_bytes(self->far, 4 * PAGE, 0x22));
}

#define GOOD_WRITE()		good_write(_metadata, self)
#define EXPECT_ERROR(...)	expect_error(_metadata, self, __VA_ARGS__)

TEST_F(wqe, by_hand)
{
	for (int i = 0; i < 300; i++)
		GOOD_WRITE();
}

TEST_F(wqe, nop)
{
	struct raw_cqe cqe;
	struct raw_wqe w;

	raw_begin(&w, &self->raw, MLX5_OPCODE_NOP, SIGNALLED);
	raw_post(&self->raw, &w);
	ASSERT_EQ(1, raw_wait(&self->raw, &cqe, WAIT_MS));
	EXPECT_EQ(MLX5_CQE_REQ, cqe.opcode);
	GOOD_WRITE();
}

/* No such opcode, or none that an RC queue of a program may use */
TEST_F(wqe, hm_8_23_bad_opcodes)
{
	static const uint8_t bad[] = {
		0x02, 0x07, 0x0c, 0x0e, 0x13, 0x16, 0x18, 0x19, 0x1b, 0x1f,
		0x20, 0x28, 0x2c, 0x2f, 0x30, 0x7f, 0xff,
	};
	struct qp_cfg cfg = { .send_wr = 16 };
	struct raw_wqe w;

	for (unsigned int i = 0; i < ARRAY_SIZE(bad); i++) {
		GOOD_WRITE();
		raw_begin(&w, &self->raw, bad[i], SIGNALLED);
		raw_remote(&w, AT(self->far), self->far_mr->rkey);
		raw_data(&w, AT(self->near), 64, self->near_mr->lkey);
		raw_post(&self->raw, &w);
		EXPECT_ERROR(LOCAL_QP_OP, HCA_VS_BAD_OPCODE);
		if (!__test_passed(_metadata)) {
			TH_LOG("opcode %#x", bad[i]);
			break;
		}
		ASSERT_EQ(0, qp_to(self->qp, IBV_QPS_RESET));
		ASSERT_EQ(0, qp_to(self->peer, IBV_QPS_RESET));
		self->raw.pi = 0;
		ASSERT_EQ(0, qp_connect(&self->p.r, self->qp, &cfg,
					self->peer->qp_num));
		ASSERT_EQ(0, qp_connect(&self->p.r, self->peer, &cfg,
					self->qp->qp_num));
	}
}

/* DS counts the segments: none, too few, more than the ring holds */
TEST_F(wqe, abi_6_5_ds)
{
	static const int sizes[] = { 0, 1, 4, 63 };
	struct qp_cfg cfg = { .send_wr = 16 };
	struct raw_wqe w;

	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		GOOD_WRITE();
		begin_write(self, &w);
		/* an inline segment of 0x7fffffff bytes, longer than any WQE */
		w.len = 64;
		memset(w.bytes + 32, 0xff, 32);
		raw_put(&self->raw, &w, sizes[i]);
		raw_record(&self->raw);
		raw_ring(&self->raw);
		EXPECT_ERROR(LOCAL_QP_OP, HCA_VS_BAD_WQE);
		if (!__test_passed(_metadata)) {
			TH_LOG("DS %d", sizes[i]);
			break;
		}
		ASSERT_EQ(0, qp_to(self->qp, IBV_QPS_RESET));
		ASSERT_EQ(0, qp_to(self->peer, IBV_QPS_RESET));
		self->raw.pi = 0;
		ASSERT_EQ(0, qp_connect(&self->p.r, self->qp, &cfg,
					self->peer->qp_num));
		ASSERT_EQ(0, qp_connect(&self->p.r, self->peer, &cfg,
					self->qp->qp_num));
	}
}

/* The WQE says that it is another one */
TEST_F(wqe, abi_6_5_wrong_index)
{
	struct raw_wqe w;

	GOOD_WRITE();
	begin_write(self, &w);
	raw_data(&w, AT(self->near), 64, self->near_mr->lkey);
	w.ctrl.opmod_idx_opcode ^= htobe32(0x40 << 8);
	raw_post(&self->raw, &w);
	EXPECT_ERROR(LOCAL_QP_OP, HCA_VS_BAD_WQE);
}

TEST_F(wqe, inline_longer_than_the_wqe)
{
	struct raw_wqe w;

	begin_write(self, &w);
	/* 0x80000000 | 100 bytes in a segment of 16 */
	raw_data(&w, 0, 0x80000000 | 100, 0);
	raw_post(&self->raw, &w);
	EXPECT_ERROR(LOCAL_QP_OP, HCA_VS_BAD_WQE);
}

/* HM-4.24: 0 in a data segment stands for 2^31 bytes */
TEST_F(wqe, hm_4_24_byte_count_0)
{
	struct raw_wqe w;

	begin_write(self, &w);
	raw_data(&w, AT(self->near), 0, self->near_mr->lkey);
	raw_post(&self->raw, &w);
	EXPECT_ERROR(LOCAL_PROT, HCA_VS_LEVEL0 | HCA_CHECK_BOUNDS);
}

/* Fewer than 8 bytes for what an atomic brings back */
TEST_F(wqe, abi_6_6_atomic_without_room)
{
	struct raw_cqe cqe = {};
	struct raw_wqe w;

	raw_begin(&w, &self->raw, MLX5_OPCODE_ATOMIC_FA, SIGNALLED);
	raw_remote(&w, AT(self->far), self->far_mr->rkey);
	raw_atomic(&w, 1, 0);
	raw_data(&w, AT(self->near), 4, self->near_mr->lkey);
	raw_post(&self->raw, &w);
	ASSERT_EQ(1, raw_wait(&self->raw, &cqe, WAIT_MS));
	EXPECT_EQ(MLX5_CQE_REQ_ERR, cqe.opcode);
	EXPECT_EQ(IBV_QPS_ERR, qp_state(self->qp));
	EXPECT_TRUE(all_bytes(self->near, 4 * PAGE, 0x11));
}

/* abi 6.6: what stands in the compare field of fetch-and-add is old */
TEST_F(wqe, abi_6_6_atomic_fa_ignores_compare)
{
	struct raw_cqe cqe = {};
	struct raw_wqe w;
	uint64_t value = 5;

	memcpy(self->far, &value, 8);
	raw_begin(&w, &self->raw, MLX5_OPCODE_ATOMIC_FA, SIGNALLED);
	raw_remote(&w, AT(self->far), self->far_mr->rkey);
	raw_atomic(&w, 37, 0xdeadbeefdeadbeef);
	raw_data(&w, AT(self->near), 8, self->near_mr->lkey);
	raw_post(&self->raw, &w);
	ASSERT_EQ(1, raw_wait(&self->raw, &cqe, WAIT_MS));
	EXPECT_EQ(MLX5_CQE_REQ, cqe.opcode);
	EXPECT_EQ(8, cqe.byte_cnt);
	memcpy(&value, self->far, 8);
	EXPECT_EQ(42, value);
}

/* More WQEs than the ring has room for: fatal for the queue pair, and no more */
TEST_F(wqe, abi_6_2_record_beyond_the_ring)
{
	GOOD_WRITE();
	self->raw.pi += self->raw.qp.sq.wqe_cnt + 1;
	raw_record(&self->raw);
	raw_ring(&self->raw);
	EXPECT_TRUE(qp_state_within(self->qp, IBV_QPS_ERR, WAIT_MS));
	EXPECT_TRUE(async_of_qp(&self->p.r, IBV_EVENT_QP_FATAL, self->qp,
				WAIT_MS));
	EXPECT_EQ(IBV_QPS_RTS, qp_state(self->peer));
	EXPECT_TRUE(all_bytes(self->far, 4 * PAGE, 0x22));
}

/* Many WQEs behind one doorbell, and many doorbells for one WQE */
TEST_F(wqe, abi_6_9_record_is_the_truth)
{
	struct raw_cqe cqe;
	struct raw_wqe w;

	for (int i = 0; i < 8; i++) {
		begin_write(self, &w);
		raw_data(&w, AT(self->near), 64, self->near_mr->lkey);
		raw_put(&self->raw, &w, -1);
	}
	raw_ring(&self->raw);	/* the record says: nothing */
	EXPECT_EQ(0, raw_wait(&self->raw, &cqe, QUIET_MS));
	raw_record(&self->raw);
	for (int i = 0; i < 20; i++)
		raw_ring(&self->raw);
	for (int i = 0; i < 8; i++) {
		ASSERT_EQ(1, raw_wait(&self->raw, &cqe, WAIT_MS));
		EXPECT_EQ(MLX5_CQE_REQ, cqe.opcode);
		EXPECT_EQ(i, cqe.wqe_counter);
	}
	EXPECT_EQ(0, raw_wait(&self->raw, &cqe, QUIET_MS));
}

/* The content of the doorbell is a hint: one that names no queue loses nothing */
TEST_F(wqe, abi_2_3_hint_is_wrong)
{
	static const uint64_t hints[] = { 0, -1ull, 0x1234500000001 };
	struct raw_cqe cqe;
	struct raw_wqe w;

	for (unsigned int i = 0; i < ARRAY_SIZE(hints); i++) {
		begin_write(self, &w);
		raw_data(&w, AT(self->near), 64, self->near_mr->lkey);
		raw_put(&self->raw, &w, -1);
		raw_record(&self->raw);
		__atomic_store_n((uint64_t *)self->raw.qp.bf.reg, hints[i],
				 __ATOMIC_RELAXED);
		ASSERT_EQ(1, raw_wait(&self->raw, &cqe, WAIT_MS));
		EXPECT_EQ(MLX5_CQE_REQ, cqe.opcode);
	}
}

/* The error CQE of a WQE that asked for none, and the flush of the rest */
TEST_F(wqe, flush_counts_every_wqe)
{
	struct raw_cqe cqe;
	struct raw_wqe w;

	for (int i = 0; i < 6; i++) {
		raw_begin(&w, &self->raw, MLX5_OPCODE_RDMA_WRITE, 0);
		raw_remote(&w, AT(self->far), self->far_mr->rkey);
		raw_data(&w, AT(self->near), 64,
			 i == 2 ? NO_KEY : self->near_mr->lkey);
		raw_put(&self->raw, &w, -1);
	}
	raw_record(&self->raw);
	raw_ring(&self->raw);
	for (int i = 2; i < 6; i++) {
		ASSERT_EQ(1, raw_wait(&self->raw, &cqe, WAIT_MS));
		EXPECT_EQ(MLX5_CQE_REQ_ERR, cqe.opcode);
		EXPECT_EQ(i, cqe.wqe_counter);
		EXPECT_EQ(i == 2 ? LOCAL_PROT : FLUSHED, cqe.syndrome);
		EXPECT_EQ(i == 2 ? 0xa0 : HCA_VS_FLUSHED, cqe.vendor);
	}
	EXPECT_EQ(0, raw_wait(&self->raw, &cqe, QUIET_MS));
	EXPECT_TRUE(all_bytes(self->far, 64, 0x11));
}

TEST_HARNESS_MAIN
