// SPDX-License-Identifier: GPL-2.0
/*
 * Proves that softhca's own ioctl methods tell the truth and no more than they may:
 * the walk that is explained is the one that a request takes, to the bytes that the
 * CPU finds there; and who is no administrator sees neither DMA addresses nor other
 * people's keys.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "kselftest_harness.h"
#include "lib/rdma.h"
#include "lib/mem.h"
#include "lib/look.h"
#include "../include/hca/syndrome.h"

#define AREA	(8 * PAGE)
#define START	0x345ul
#define LEN	(6 * PAGE + 0x123)
#define NOBODY	65534

FIXTURE(explain) {
	struct pair p;
	struct rdma other;	/* another context of the same program */
	struct ibv_pd *other_pd;
	char *area;
	struct ibv_mr *mr, *foreign;
	struct shca_explain_step steps[32];
	uint8_t syndrome;
};

FIXTURE_SETUP(explain)
{
	ASSERT_EQ(0, pair_open(&self->p, NULL));
	if (!self->p.r.softhca)
		SKIP(return, "not softhca");
	ASSERT_EQ(0, rdma_open(&self->other));
	self->other_pd = ibv_alloc_pd(self->other.ctx);
	ASSERT_NE(NULL, self->other_pd);
	self->area = mem_scattered(AREA);
	ASSERT_NE(NULL, self->area);
	self->mr = ibv_reg_mr(self->p.pd, self->area + START, LEN, ACCESS_ALL);
	self->foreign = ibv_reg_mr(self->other_pd, self->area + START, LEN,
				   ACCESS_ALL);
	ASSERT_NE(NULL, self->mr);
	ASSERT_NE(NULL, self->foreign);
}

FIXTURE_TEARDOWN(explain)
{
	if (self->mr)
		EXPECT_EQ(0, ibv_dereg_mr(self->mr));
	if (self->foreign) {
		EXPECT_EQ(0, ibv_dereg_mr(self->foreign));
		EXPECT_EQ(0, ibv_dealloc_pd(self->other_pd));
		rdma_close(&self->other);
	}
	pair_close(&self->p);
}

#define SELF	FIXTURE_DATA(explain) *self

static struct shca_explain_req request(SELF)
{
	return (struct shca_explain_req){
		.key = self->mr->lkey, .va = (uintptr_t)self->area + START,
		.length = LEN, .access = SHCA_EXPLAIN_READ,
	};
}

static int walk(SELF, const struct shca_explain_req *req)
{
	memset(self->steps, 0xee, sizeof(self->steps));
	self->syndrome = 0xee;
	return look_walk(self->p.a, req, self->steps,
			 ARRAY_SIZE(self->steps), &self->syndrome);
}

TEST_F(explain, walk_ends_at_the_frames_of_the_memory)
{
	struct shca_explain_req req = request(self);
	uint64_t pfn[AREA / PAGE], at = START;
	struct look look;
	int n;

	ASSERT_TRUE(mem_frames(self->area, AREA / PAGE, pfn));
	ASSERT_EQ(0, look_mr(self->mr, &look));
	n = walk(self, &req);
	ASSERT_LT(0, n);
	EXPECT_EQ(0, self->syndrome);
	for (int i = 0; i < n; i++) {
		struct shca_explain_step *s = &self->steps[i];
		uint64_t last = at + s->length - 1;

		EXPECT_EQ(self->mr->lkey, s->key);
		EXPECT_EQ(0, s->level);
		EXPECT_EQ(0, s->syndrome);
		EXPECT_EQ(1, s->access_mode);
		EXPECT_EQ(look.log_page_size, s->log_page_size);
		EXPECT_EQ(look.start, s->start);
		EXPECT_EQ(LEN, s->mkc_length);
		EXPECT_EQ((uintptr_t)self->area + at, s->va);
		ASSERT_GT(look.entries, s->index);
		EXPECT_EQ(look.mtt[s->index], s->entry[0]);
		EXPECT_EQ(pfn[at / PAGE] * PAGE + at % PAGE, s->dma);
		EXPECT_EQ(pfn[last / PAGE] * PAGE + last % PAGE,
			  s->dma + s->length - 1);
		at = last + 1;
	}
	EXPECT_EQ(START + LEN, at);
}

/* What is explained is what happens: the syndrome is that of the completion */
TEST_F(explain, refusals_are_those_of_requests)
{
	struct ibv_mr *read_only = ibv_reg_mr(self->p.pd, self->area, AREA, 0);
	struct ibv_mr *gone = ibv_reg_mr(self->p.pd, self->area, AREA, 0);
	uint32_t key = self->mr->lkey;
	uint64_t va = (uintptr_t)self->area + START;
	struct {
		uint32_t key;
		uint64_t va;
		enum hca_check check;
	} bad[] = {
		{ key, va - 1, HCA_CHECK_BOUNDS },
		{ key, va + LEN - 7, HCA_CHECK_BOUNDS },
		{ key ^ 1, va, HCA_CHECK_VARIANT },
		{ self->foreign->lkey, va, HCA_CHECK_PD },
		{ read_only->lkey, va, HCA_CHECK_LOCAL },
		{ gone->lkey, va, HCA_CHECK_FREE },
		{ 0, va, HCA_CHECK_NO_MKC },
	};

	ASSERT_EQ(0, ibv_dereg_mr(gone));
	for (unsigned int i = 0; i < ARRAY_SIZE(bad); i++) {
		struct shca_explain_req req = {
			.key = bad[i].key, .va = bad[i].va, .length = 8,
			.access = SHCA_EXPLAIN_WRITE,
		};
		struct ibv_wc wc;

		ASSERT_LE(0, walk(self, &req));
		EXPECT_EQ(HCA_VS_LEVEL0 | bad[i].check, self->syndrome);
		/* the same as a request: the result of a READ is written there */
		EXPECT_EQ(IBV_WC_LOC_PROT_ERR,
			  run(self->p.a, self->p.acq, &(struct op){
				.opcode = IBV_WR_RDMA_READ, .len = 8,
				.laddr = req.va, .lkey = req.key,
				.raddr = va, .rkey = key,
			  }, &wc));
		EXPECT_EQ(self->syndrome, wc.vendor_err);
		ASSERT_EQ(0, pair_reconnect(&self->p));
		if (!__test_passed(_metadata)) {
			TH_LOG("refusal %u", i);
			break;
		}
	}
	EXPECT_EQ(0, ibv_dereg_mr(read_only));
}

/* The rights of the side that is named, and of the PD of the QP that is named */
TEST_F(explain, local_and_remote)
{
	struct ibv_mr *mr = ibv_reg_mr(self->p.pd, self->area, AREA,
				       IBV_ACCESS_LOCAL_WRITE |
				       IBV_ACCESS_REMOTE_READ);
	static const struct { uint8_t access, remote; int refused; } rows[] = {
		{ SHCA_EXPLAIN_READ, 0, 0 }, { SHCA_EXPLAIN_WRITE, 0, 0 },
		{ SHCA_EXPLAIN_READ, 1, 0 },
		{ SHCA_EXPLAIN_WRITE, 1, HCA_VS_LEVEL0 | HCA_CHECK_REMOTE },
		{ SHCA_EXPLAIN_ATOMIC, 1, HCA_VS_LEVEL0 | HCA_CHECK_ATOMIC },
	};

	ASSERT_NE(NULL, mr);
	for (unsigned int i = 0; i < ARRAY_SIZE(rows); i++) {
		struct shca_explain_req req = {
			.key = mr->rkey, .va = (uintptr_t)self->area,
			.length = 8, .access = rows[i].access,
			.remote = rows[i].remote,
		};

		ASSERT_LE(0, walk(self, &req));
		EXPECT_EQ(rows[i].refused, self->syndrome);
	}
	EXPECT_EQ(0, ibv_dereg_mr(mr));
}

/* No DMA address, and of a key of somebody else nothing but the refusal */
TEST_F(explain, what_nobody_sees)
{
	struct shca_explain_req req = request(self);
	struct shca_explain_step *s = self->steps;
	struct look look;
	int n;

	ASSERT_EQ(0, setresuid(NOBODY, NOBODY, NOBODY));
	n = walk(self, &req);
	ASSERT_LT(0, n);
	EXPECT_EQ(0, self->syndrome);
	for (int i = 0; i < n; i++) {
		EXPECT_EQ(0, s[i].dma);
		EXPECT_EQ(3, s[i].entry[0]);
	}
	ASSERT_EQ(0, look_mr(self->mr, &look));
	EXPECT_EQ(LEN, look.len);
	for (unsigned int i = 0; i < look.entries; i++)
		EXPECT_EQ(0, look.mtt[i] & ~3ull);

	req.key = self->foreign->lkey;
	n = walk(self, &req);
	ASSERT_LE(0, n);
	EXPECT_EQ(HCA_VS_LEVEL0 | HCA_CHECK_PD, self->syndrome);
	for (int i = 0; i < n; i++) {
		EXPECT_EQ(0, s[i].start);
		EXPECT_EQ(0, s[i].mkc_length);
		EXPECT_EQ(0, s[i].entry[0]);
		EXPECT_EQ(0, s[i].dma);
	}
}

TEST_F(explain, bad_requests)
{
	struct shca_explain_req good = request(self), req;
	struct ibv_mr mr = *self->foreign;
	struct ibv_qp qp = *self->p.a;
	struct look look;

	req = good;
	req.length = 0;
	EXPECT_EQ(-EINVAL, walk(self, &req));
	req = good;
	req.access = SHCA_EXPLAIN_ATOMIC + 1;
	EXPECT_EQ(-EINVAL, walk(self, &req));
	req = good;
	req.remote = 2;
	EXPECT_EQ(-EINVAL, walk(self, &req));
	req = good;
	req.reserved = 1;
	EXPECT_EQ(-EINVAL, walk(self, &req));
	/* no room for a single step */
	EXPECT_GT(0, look_walk(self->p.a, &good, self->steps, 0,
			       &self->syndrome));
	/* room for one: it is the first */
	EXPECT_EQ(1, look_walk(self->p.a, &good, self->steps, 1,
			       &self->syndrome));
	EXPECT_EQ(good.va, self->steps[0].va);
	/* handles are those of the caller's file */
	mr.context = self->p.r.ctx;
	mr.handle = 0x7777;
	EXPECT_EQ(-ENOENT, look_mr(&mr, &look));
	qp.handle = 0x7777;
	EXPECT_EQ(-ENOENT, look_walk(&qp, &good, self->steps, 1,
				     &self->syndrome));
}

TEST_HARNESS_MAIN
