// SPDX-License-Identifier: GPL-2.0
/*
 * Proves that device memory is memory: what the CPU stores there the HCA reads, and
 * the reverse, at the right place and nowhere else; that it is given out clean, to
 * one at a time, counted, and given back by whoever goes; and that kinds of it that
 * are not there are refused.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <infiniband/mlx5dv.h>
#include "kselftest_harness.h"
#include "lib/rdma.h"
#include "lib/mem.h"
#include "lib/look.h"
#include "../include/hca/syndrome.h"

#define AT(p)		((uintptr_t)(p))
#define ZERO_BASED	IBV_ACCESS_ZERO_BASED
#define MODE_MEMIC	5

FIXTURE(dm) {
	struct pair p;
	struct ibv_device_attr_ex attr;
	char *buf;
	struct ibv_mr *mr;
};

#define SELF	FIXTURE_DATA(dm) *self


FIXTURE_SETUP(dm)
{
	ASSERT_EQ(0, pair_open(&self->p, NULL));
	ASSERT_EQ(0, ibv_query_device_ex(self->p.r.ctx, NULL, &self->attr));
	if (!self->attr.max_dm_size && !self->p.r.softhca)
		SKIP(return, "no device memory");
	self->buf = mem_pages(4 * PAGE);
	ASSERT_NE(NULL, self->buf);
	self->mr = ibv_reg_mr(self->p.pd, self->buf, 4 * PAGE, ACCESS_ALL);
	ASSERT_NE(NULL, self->mr);
}

FIXTURE_TEARDOWN(dm)
{
	if (self->mr)
		EXPECT_EQ(0, ibv_dereg_mr(self->mr));
	pair_close(&self->p);
}

static struct ibv_dm *dm_alloc(struct ibv_context *ctx, size_t len,
			       uint32_t log_align)
{
	struct ibv_alloc_dm_attr attr = {
		.length = len, .log_align_req = log_align,
	};

	errno = 0;
	return ibv_alloc_dm(ctx, &attr);
}

static int dm_run(SELF, enum ibv_wr_opcode opcode, uint32_t len, uint64_t at,
		  uint32_t rkey)
{
	return run(self->p.a, self->p.acq, &(struct op){
		.opcode = opcode, .laddr = AT(self->buf),
		.lkey = self->mr->lkey, .len = len, .raddr = at, .rkey = rkey,
		.cmp_add = 5, .swap = 77,
	}, NULL);
}

TEST_F(dm, hm_2_16_there_is_some)
{
	if (!self->p.r.softhca)
		SKIP(return, "not softhca");
	EXPECT_EQ(128 << 10, self->attr.max_dm_size);
}

TEST_F(dm, hm_13_4_the_hca_reads_what_the_cpu_wrote)
{
	struct ibv_dm *dm = dm_alloc(self->p.r.ctx, 2 * PAGE, 0);
	char *there = self->buf + 2 * PAGE;
	struct ibv_mr *mr;
	struct look look;

	ASSERT_NE(NULL, dm);
	fill(there, 2 * PAGE, 3);
	ASSERT_EQ(0, ibv_memcpy_to_dm(dm, 0, there, 2 * PAGE));
	/* a region at an offset: its addresses begin at 0 all the same */
	mr = ibv_reg_dm_mr(self->p.pd, dm, 1000, 5000, ACCESS_ALL | ZERO_BASED);
	ASSERT_NE(NULL, mr);
	if (self->p.r.softhca) {
		ASSERT_EQ(0, look_mr(mr, &look));
		EXPECT_EQ(MODE_MEMIC, look.access_mode);
		EXPECT_EQ(5000, look.len);
		EXPECT_EQ(1000, look.start % PAGE);
		EXPECT_EQ(0, look.octwords);
		EXPECT_EQ(0, look.umr_en);
		EXPECT_EQ(LOOK_A | LOOK_RW | LOOK_RR | LOOK_LW | LOOK_LR,
			  look.rights);
	}
	ASSERT_EQ(0, dm_run(self, IBV_WR_RDMA_READ, 5000, 0, mr->rkey));
	EXPECT_EQ(-1, differs_at(self->buf, 5000, 3, 1000));
	ASSERT_EQ(0, dm_run(self, IBV_WR_RDMA_READ, 1, 4999, mr->rkey));
	EXPECT_EQ(-1, differs_at(self->buf, 1, 3, 5999));

	/* and writes what the CPU reads, there and nowhere else */
	memset(self->buf, 0x5a, PAGE);
	ASSERT_EQ(0, dm_run(self, IBV_WR_RDMA_WRITE, 100, 3050, mr->rkey));
	memset(there, 0, 2 * PAGE);
	ASSERT_EQ(0, ibv_memcpy_from_dm(there, dm, 0, 2 * PAGE));
	EXPECT_EQ(-1, differs_at(there, 4050, 3, 0));
	EXPECT_TRUE(all_bytes(there + 4050, 100, 0x5a));
	EXPECT_EQ(-1, differs_at(there + 4150, 2 * PAGE - 4150, 3, 4150));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
	EXPECT_EQ(0, ibv_free_dm(dm));
}

TEST_F(dm, hm_13_4_atomics)
{
	struct ibv_dm *dm = dm_alloc(self->p.r.ctx, 64, 0);
	uint64_t value = 5, *old = (uint64_t *)self->buf;
	struct ibv_mr *mr;

	ASSERT_NE(NULL, dm);
	mr = ibv_reg_dm_mr(self->p.pd, dm, 0, 64, ACCESS_ALL | ZERO_BASED);
	ASSERT_NE(NULL, mr);
	ASSERT_EQ(0, ibv_memcpy_to_dm(dm, 56, &value, 8));
	ASSERT_EQ(0, dm_run(self, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 56,
			    mr->rkey));
	EXPECT_EQ(5, *old);
	ASSERT_EQ(0, ibv_memcpy_from_dm(&value, dm, 56, 8));
	EXPECT_EQ(10, value);
	/* compares with 5: no */
	ASSERT_EQ(0, dm_run(self, IBV_WR_ATOMIC_CMP_AND_SWP, 8, 56, mr->rkey));
	EXPECT_EQ(10, *old);
	value = 5;
	ASSERT_EQ(0, ibv_memcpy_to_dm(dm, 56, &value, 8));
	ASSERT_EQ(0, dm_run(self, IBV_WR_ATOMIC_CMP_AND_SWP, 8, 56, mr->rkey));
	ASSERT_EQ(0, ibv_memcpy_from_dm(&value, dm, 56, 8));
	EXPECT_EQ(77, value);
	EXPECT_EQ(0, ibv_dereg_mr(mr));
	EXPECT_EQ(0, ibv_free_dm(dm));
}

/* Both ends, and a receive: device memory is as good as any */
TEST_F(dm, hm_13_4_send_from_it_and_receive_into_it)
{
	struct ibv_dm *from = dm_alloc(self->p.r.ctx, 6000, 0);
	struct ibv_dm *to = dm_alloc(self->p.r.ctx, 6000, 0);
	struct ibv_mr *from_mr, *to_mr;

	ASSERT_NE(NULL, from);
	ASSERT_NE(NULL, to);
	from_mr = ibv_reg_dm_mr(self->p.pd, from, 0, 6000, ZERO_BASED);
	to_mr = ibv_reg_dm_mr(self->p.pd, to, 0, 6000,
			      IBV_ACCESS_LOCAL_WRITE | ZERO_BASED);
	ASSERT_NE(NULL, from_mr);
	ASSERT_NE(NULL, to_mr);
	fill(self->buf, 6000, 9);
	ASSERT_EQ(0, ibv_memcpy_to_dm(from, 0, self->buf, 6000));
	ASSERT_EQ(0, post_recv(self->p.b, 1, 10, 5000, to_mr->lkey));
	ASSERT_EQ(0, run(self->p.a, self->p.acq, &(struct op){
		.opcode = IBV_WR_SEND, .laddr = 500, .len = 5000,
		.lkey = from_mr->lkey,
	}, NULL));
	ASSERT_EQ(0, wait_good(self->p.bcq, 1));
	memset(self->buf, 0, 6000);
	ASSERT_EQ(0, ibv_memcpy_from_dm(self->buf, to, 0, 6000));
	EXPECT_TRUE(all_bytes(self->buf, 10, 0));
	EXPECT_EQ(-1, differs_at(self->buf + 10, 5000, 9, 500));
	EXPECT_TRUE(all_bytes(self->buf + 5010, 990, 0));
	/* it may not be written remotely, nor locally */
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
		  dm_run(self, IBV_WR_RDMA_WRITE, 8, 0, from_mr->rkey));
	ASSERT_EQ(0, pair_reconnect(&self->p));
	EXPECT_EQ(IBV_WC_LOC_PROT_ERR, run(self->p.a, self->p.acq, &(struct op){
		.opcode = IBV_WR_RDMA_READ, .len = 8, .lkey = from_mr->lkey,
		.raddr = AT(self->buf), .rkey = self->mr->rkey,
	}, NULL));
	EXPECT_EQ(0, ibv_dereg_mr(from_mr));
	EXPECT_EQ(0, ibv_dereg_mr(to_mr));
	EXPECT_EQ(0, ibv_free_dm(from));
	EXPECT_EQ(0, ibv_free_dm(to));
}

TEST_F(dm, hm_13_4_bounds)
{
	struct ibv_dm *dm = dm_alloc(self->p.r.ctx, 4 * PAGE, 0);
	struct ibv_wc wc;
	struct ibv_mr *mr;

	ASSERT_NE(NULL, dm);
	mr = ibv_reg_dm_mr(self->p.pd, dm, PAGE, PAGE, ACCESS_ALL | ZERO_BASED);
	ASSERT_NE(NULL, mr);
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
		  dm_run(self, IBV_WR_RDMA_READ, 2, PAGE - 1, mr->rkey));
	ASSERT_EQ(0, pair_reconnect(&self->p));
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
		  dm_run(self, IBV_WR_RDMA_WRITE, 1, PAGE, mr->rkey));
	ASSERT_EQ(0, pair_reconnect(&self->p));
	/* case 1: the end wraps */
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
		  dm_run(self, IBV_WR_RDMA_WRITE, 16, -8ull, mr->rkey));
	ASSERT_EQ(0, pair_reconnect(&self->p));
	/* as a local key the check names itself */
	ASSERT_EQ(IBV_WC_LOC_PROT_ERR, run(self->p.a, self->p.acq, &(struct op){
		.opcode = IBV_WR_RDMA_WRITE, .laddr = PAGE - 4, .len = 8,
		.lkey = mr->lkey,
		.raddr = AT(self->buf), .rkey = self->mr->rkey,
	}, &wc));
	if (self->p.r.softhca)
		EXPECT_EQ(HCA_VS_LEVEL0 | HCA_CHECK_BOUNDS, wc.vendor_err);
	ASSERT_EQ(0, pair_reconnect(&self->p));

	/* what cannot be registered: outside, and not zero based */
	EXPECT_EQ(NULL, ibv_reg_dm_mr(self->p.pd, dm, 0, 4 * PAGE + 1,
				      ACCESS_ALL | ZERO_BASED));
	EXPECT_EQ(NULL, ibv_reg_dm_mr(self->p.pd, dm, 4 * PAGE, 1,
				      ACCESS_ALL | ZERO_BASED));
	EXPECT_EQ(NULL, ibv_reg_dm_mr(self->p.pd, dm, -8ull, 16,
				      ACCESS_ALL | ZERO_BASED));
	EXPECT_EQ(NULL, ibv_reg_dm_mr(self->p.pd, dm, 0, PAGE, ACCESS_ALL));
	EXPECT_EQ(NULL, ibv_reg_dm_mr(self->p.pd, dm, 0, PAGE,
				      ACCESS_ALL | ZERO_BASED |
				      IBV_ACCESS_MW_BIND));
	/* remote write without local write */
	EXPECT_EQ(NULL, ibv_reg_dm_mr(self->p.pd, dm, 0, PAGE,
				      IBV_ACCESS_REMOTE_WRITE | ZERO_BASED));
	EXPECT_EQ(0, ibv_dereg_mr(mr));

	/* nothing of it can be registered, but nothing can be used either */
	mr = ibv_reg_dm_mr(self->p.pd, dm, PAGE, 0, ACCESS_ALL | ZERO_BASED);
	ASSERT_NE(NULL, mr);
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
		  dm_run(self, IBV_WR_RDMA_WRITE, 1, 0, mr->rkey));
	ASSERT_EQ(0, pair_reconnect(&self->p));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
	EXPECT_EQ(0, ibv_free_dm(dm));
}

/* case 22: optional access bits do no harm */
TEST_F(dm, case_22_relaxed_ordering)
{
	struct ibv_dm *dm = dm_alloc(self->p.r.ctx, 64, 0);
	struct ibv_mr *mr;

	ASSERT_NE(NULL, dm);
	mr = ibv_reg_dm_mr(self->p.pd, dm, 0, 64, ACCESS_ALL | ZERO_BASED |
			   IBV_ACCESS_RELAXED_ORDERING);
	ASSERT_NE(NULL, mr);
	ASSERT_EQ(0, dm_run(self, IBV_WR_RDMA_WRITE, 64, 0, mr->rkey));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
	EXPECT_EQ(0, ibv_free_dm(dm));
}

TEST_F(dm, hm_13_4_a_region_keeps_its_memory)
{
	struct ibv_dm *dm = dm_alloc(self->p.r.ctx, PAGE, 0);
	struct ibv_mr *mr;

	ASSERT_NE(NULL, dm);
	mr = ibv_reg_dm_mr(self->p.pd, dm, 0, PAGE, ACCESS_ALL | ZERO_BASED);
	ASSERT_NE(NULL, mr);
	EXPECT_EQ(EBUSY, ibv_free_dm(dm));
	EXPECT_EQ(0, dm_run(self, IBV_WR_RDMA_WRITE, 8, 0, mr->rkey));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
	EXPECT_EQ(0, ibv_free_dm(dm));
}

TEST_F(dm, alignment_and_sizes)
{
	struct ibv_dm *dm;

	for (uint32_t log_align = 0; log_align <= 12; log_align++) {
		dm = dm_alloc(self->p.r.ctx, 100, log_align);
		ASSERT_NE(NULL, dm)
			TH_LOG("log_align %u", log_align);
		EXPECT_EQ(0, ibv_free_dm(dm));
	}
	EXPECT_EQ(NULL, dm_alloc(self->p.r.ctx, 100, 40));
	EXPECT_EQ(NULL, dm_alloc(self->p.r.ctx, 100, ~0u));
	EXPECT_EQ(NULL, dm_alloc(self->p.r.ctx, 0, 0));
	EXPECT_EQ(NULL, dm_alloc(self->p.r.ctx, self->attr.max_dm_size + 1, 0));
	EXPECT_EQ(NULL, dm_alloc(self->p.r.ctx, -1ull, 0));
	EXPECT_EQ(NULL, dm_alloc(self->p.r.ctx, -64ull, 0));
	dm = dm_alloc(self->p.r.ctx, self->attr.max_dm_size, 0);
	ASSERT_NE(NULL, dm);
	EXPECT_EQ(0, ibv_free_dm(dm));
}

/* How many pages are left, in pieces of one page */
static int pages_left(struct ibv_context *ctx)
{
	struct ibv_dm *dm[1024];
	int n = 0, left;

	while (n < 1024 && (dm[n] = dm_alloc(ctx, 1, 0)))
		n++;
	left = n;
	while (n)
		ibv_free_dm(dm[--n]);
	return left;
}

TEST_F(dm, what_is_given_back_is_there_again)
{
	int all = pages_left(self->p.r.ctx);
	struct ibv_dm *dm;

	EXPECT_EQ(self->attr.max_dm_size / PAGE, all);
	dm = dm_alloc(self->p.r.ctx, PAGE + 1, 0);
	ASSERT_NE(NULL, dm);
	EXPECT_EQ(all - 2, pages_left(self->p.r.ctx));
	EXPECT_EQ(0, ibv_free_dm(dm));
	EXPECT_EQ(all, pages_left(self->p.r.ctx));
	/* a thousand times, and it neither wears out nor overlaps */
	for (int i = 0; i < 1000; i++) {
		dm = dm_alloc(self->p.r.ctx, 1 + i * 61 % (8 * PAGE), 0);
		ASSERT_NE(NULL, dm);
		ASSERT_EQ(0, ibv_free_dm(dm));
	}
	EXPECT_EQ(all, pages_left(self->p.r.ctx));
}

/* Pieces do not overlap, nor do they for the HCA */
TEST_F(dm, everybody_has_his_own)
{
	enum { N = 8 };
	struct ibv_dm *dm[N];
	struct ibv_mr *mr[N];

	for (int i = 0; i < N; i++) {
		dm[i] = dm_alloc(self->p.r.ctx, PAGE - 60, 0);
		ASSERT_NE(NULL, dm[i]);
		mr[i] = ibv_reg_dm_mr(self->p.pd, dm[i], 0, PAGE - 60,
				      ACCESS_ALL | ZERO_BASED);
		ASSERT_NE(NULL, mr[i]);
		fill(self->buf, PAGE, i);
		ASSERT_EQ(0, dm_run(self, IBV_WR_RDMA_WRITE, PAGE - 60, 0,
				    mr[i]->rkey));
	}
	for (int i = 0; i < N; i++) {
		ASSERT_EQ(0, ibv_memcpy_from_dm(self->buf, dm[i], 0,
						PAGE - 60));
		EXPECT_EQ(-1, differs(self->buf, PAGE - 60, i));
		EXPECT_EQ(0, ibv_dereg_mr(mr[i]));
		EXPECT_EQ(0, ibv_free_dm(dm[i]));
	}
}

/* The end of a page belongs to its owner too, and is as clean as the rest */
TEST_F(dm, it_is_given_out_clean)
{
	enum { N = 32 };
	struct ibv_dm *dm[N];
	uint32_t word;
	int n = 0;

	for (int lap = 0; lap < 2; lap++) {
		for (n = 0; n < N && (dm[n] = dm_alloc(self->p.r.ctx, PAGE, 0));
		     n++)
			for (int i = 0; i < PAGE; i += 4) {
				ASSERT_EQ(0, ibv_memcpy_from_dm(&word, dm[n], i,
								4));
				ASSERT_EQ(0, word)
					TH_LOG("lap %d, piece %d, byte %d",
					       lap, n, i);
				word = 0xdeadbeef;
				ibv_memcpy_to_dm(dm[n], i, &word, 4);
			}
		ASSERT_LT(0, n);
		while (n)
			ASSERT_EQ(0, ibv_free_dm(dm[--n]));
	}
}

/* Where a piece is mapped: mlx5dv tells */
static char *mapping_of(struct ibv_dm *ibdm)
{
	struct mlx5dv_dm dv = { };
	struct mlx5dv_obj obj = { .dm = { .in = ibdm, .out = &dv } };

	return mlx5dv_init_obj(&obj, MLX5DV_OBJ_DM) ? NULL : dv.buf;
}

/* A child keeps the mapping that it was born with, and with it the memory. */
TEST_F(dm, who_has_it_mapped_has_it_still)
{
	int all = pages_left(self->p.r.ctx), to_child[2], status;
	struct ibv_dm *dm, *next[64];
	uint32_t word = 0x600d600d;
	char *map, c;
	int n;
	pid_t pid;

	dm = dm_alloc(self->p.r.ctx, PAGE, 0);
	ASSERT_NE(NULL, dm);
	map = mapping_of(dm);
	if (!map)
		SKIP(return, "not driven by libmlx5");
	ASSERT_EQ(0, ibv_memcpy_to_dm(dm, 0, &word, 4));
	ASSERT_EQ(0, pipe(to_child));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		close(to_child[1]);
		if (read(to_child[0], &c, 1) != 1)
			_exit(1);
		_exit(*(volatile uint32_t *)map == 0x600d600d ? 0 : 2);
	}
	close(to_child[0]);
	EXPECT_EQ(0, ibv_free_dm(dm));
	/* all that is left, and full */
	for (n = 0; n < 64 && (next[n] = dm_alloc(self->p.r.ctx, PAGE, 0)); n++) {
		word = 0xbadbad;
		ibv_memcpy_to_dm(next[n], 0, &word, 4);
	}
	EXPECT_EQ(all - 1, n);
	ASSERT_EQ(1, write(to_child[1], "x", 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status));
	while (n)
		EXPECT_EQ(0, ibv_free_dm(next[--n]));
	EXPECT_EQ(all, pages_left(self->p.r.ctx));
}

TEST_F(dm, case_29_it_is_given_back_by_the_dead)
{
	int all = pages_left(self->p.r.ctx), status;
	struct ibv_alloc_dm_attr attr = { .length = 3 * PAGE };
	struct ibv_pd *pd;
	struct ibv_dm *dm;
	struct rdma r;
	pid_t pid;

	for (int i = 0; i < 20; i++) {
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			if (rdma_open(&r))
				_exit(1);
			pd = ibv_alloc_pd(r.ctx);
			dm = pd ? ibv_alloc_dm(r.ctx, &attr) : NULL;
			if (!dm || !ibv_reg_dm_mr(pd, dm, 0, PAGE,
						  ACCESS_ALL | ZERO_BASED))
				_exit(2);
			kill(getpid(), SIGKILL);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_TRUE(WIFSIGNALED(status));
	}
	EXPECT_EQ(all, pages_left(self->p.r.ctx));
}

/* What another process has is not to be had by its number or its place */
TEST_F(dm, mappings_are_those_that_were_given)
{
	int fd = self->p.r.ctx->cmd_fd;
	struct ibv_dm *dm = dm_alloc(self->p.r.ctx, PAGE, 0);

	ASSERT_NE(NULL, dm);
	if (!mapping_of(dm))
		SKIP(return, "not driven by libmlx5");
	for (off_t index = 0; index < 256; index++) {
		off_t offset = (8 << 8 | index) * PAGE;
		/* of the wrong size, private, or nobody's */
		EXPECT_EQ(MAP_FAILED, mmap(NULL, 2 * PAGE, PROT_READ,
					   MAP_SHARED, fd, offset));
		EXPECT_EQ(MAP_FAILED, mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE,
					   fd, offset));
	}
	/* it is not memory that could be registered once more */
	EXPECT_EQ(NULL, ibv_reg_mr(self->p.pd, mapping_of(dm), PAGE,
				   IBV_ACCESS_LOCAL_WRITE));
	EXPECT_EQ(0, ibv_free_dm(dm));
}

TEST_F(dm, other_kinds_are_refused)
{
	static const enum mlx5dv_alloc_dm_type types[] = {
		MLX5DV_DM_TYPE_STEERING_SW_ICM,
		MLX5DV_DM_TYPE_HEADER_MODIFY_SW_ICM,
		MLX5DV_DM_TYPE_HEADER_MODIFY_PATTERN_SW_ICM,
		MLX5DV_DM_TYPE_ENCAP_SW_ICM,
	};
	struct ibv_alloc_dm_attr attr = { .length = PAGE };
	struct mlx5dv_alloc_dm_attr dv = { };
	struct ibv_dm *dm;

	if (!self->p.r.softhca)
		SKIP(return, "not softhca");
	for (int i = 0; i < 4; i++) {
		dv.type = types[i];
		errno = 0;
		EXPECT_EQ(NULL, mlx5dv_alloc_dm(self->p.r.ctx, &attr, &dv));
		EXPECT_EQ(EOPNOTSUPP, errno)
			TH_LOG("type %d", types[i]);
	}
	/* MEMIC has no operations of its own (HM 13.2) */
	dv.type = MLX5DV_DM_TYPE_MEMIC;
	dm = mlx5dv_alloc_dm(self->p.r.ctx, &attr, &dv);
	ASSERT_NE(NULL, dm);
	EXPECT_EQ(NULL, mlx5dv_dm_map_op_addr(dm, 0));
	EXPECT_EQ(0, ibv_free_dm(dm));
}

TEST_HARNESS_MAIN
