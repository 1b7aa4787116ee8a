// SPDX-License-Identifier: GPL-2.0
/*
 * Proves that atomics are atomic: values, alignment, keys, and a count that two
 * processes keep together.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "kselftest_harness.h"
#include "lib/rdma.h"
#include "lib/mem.h"
#include "../include/hca/syndrome.h"

#define AT(p)	((uintptr_t)(p))

FIXTURE(atomic) {
	struct pair p;
	uint64_t *near, *far;
	struct ibv_mr *near_mr, *far_mr;
};

FIXTURE_SETUP(atomic)
{
	ASSERT_EQ(0, pair_open(&self->p, NULL));
	self->near = mem_pages(PAGE);
	self->far = mem_pages(PAGE);
	ASSERT_NE(NULL, self->near);
	ASSERT_NE(NULL, self->far);
	memset(self->near, 0, PAGE);
	memset(self->far, 0, PAGE);
	self->near_mr = ibv_reg_mr(self->p.pd, self->near, PAGE, ACCESS_ALL);
	self->far_mr = ibv_reg_mr(self->p.pd, self->far, PAGE, ACCESS_ALL);
	ASSERT_NE(NULL, self->near_mr);
	ASSERT_NE(NULL, self->far_mr);
}

FIXTURE_TEARDOWN(atomic)
{
	EXPECT_EQ(0, ibv_dereg_mr(self->near_mr));
	EXPECT_EQ(0, ibv_dereg_mr(self->far_mr));
	pair_close(&self->p);
}

#define SELF	FIXTURE_DATA(atomic) *self

static struct op fetch_add(SELF, uint64_t add)
{
	return (struct op){
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .len = 8,
		.laddr = AT(self->near), .lkey = self->near_mr->lkey,
		.raddr = AT(self->far), .rkey = self->far_mr->rkey,
		.cmp_add = add,
	};
}

static struct op cmp_swap(SELF, uint64_t compare, uint64_t swap)
{
	struct op op = fetch_add(self, compare);

	op.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	op.swap = swap;
	return op;
}

static int do_op(SELF, struct op op)
{
	return run(self->p.a, self->p.acq, &op, NULL);
}

static const uint64_t values[] = {
	0, 1, 0x8000000000000000, 0xffffffffffffffff, 0x0102030405060708,
	0xffffffff, 0x100000000,
};

TEST_F(atomic, fetch_and_add)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(values); i++) {
		for (unsigned int n = 0; n < ARRAY_SIZE(values); n++) {
			self->far[0] = values[i];
			self->near[0] = ~values[i];
			ASSERT_EQ(0, do_op(self, fetch_add(self, values[n])));
			EXPECT_EQ(values[i], self->near[0]);
			EXPECT_EQ(values[i] + values[n], self->far[0]);
			EXPECT_EQ(0, self->near[1]);
			EXPECT_EQ(0, self->far[1]);
		}
	}
}

TEST_F(atomic, compare_and_swap)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(values); i++) {
		for (unsigned int n = 0; n < ARRAY_SIZE(values); n++) {
			uint64_t want = i == n ? 0x1122334455667788 : values[i];

			self->far[0] = values[i];
			self->near[0] = ~values[i];
			ASSERT_EQ(0, do_op(self, cmp_swap(self, values[n],
							  0x1122334455667788)));
			EXPECT_EQ(values[i], self->near[0]);
			EXPECT_EQ(want, self->far[0]);
			EXPECT_EQ(0, self->near[1]);
			EXPECT_EQ(0, self->far[1]);
		}
	}
}

/* Case 20, HM-4.22: alignment comes before the key, and nothing changes */
TEST_F(atomic, case_20_hm_4_22_misaligned)
{
	struct ibv_wc wc;

	for (int round = 0; round < 2; round++) {
		for (int shift = 1; shift < 8; shift++) {
			struct op op = round ? cmp_swap(self, 1, 2) :
				       fetch_add(self, 1);

			memset(self->far, 0x22, 64);
			memset(self->near, 0x11, 64);
			op.raddr += shift;
			if (shift % 2)
				op.rkey = NO_KEY;
			EXPECT_EQ(IBV_WC_REM_INV_REQ_ERR,
				  run(self->p.a, self->p.acq, &op, &wc));
			if (self->p.r.softhca) {
				EXPECT_EQ(HCA_VS_NAK_REQ, wc.vendor_err);
				EXPECT_TRUE(async_of_qp(&self->p.r,
							IBV_EVENT_QP_REQ_ERR,
							self->p.b, WAIT_MS));
			}
			EXPECT_EQ(IBV_QPS_ERR, qp_state(self->p.b));
			EXPECT_TRUE(all_bytes(self->far, 64, 0x22));
			EXPECT_TRUE(all_bytes(self->near, 64, 0x11));
			ASSERT_EQ(0, pair_reconnect(&self->p));
		}
	}
}

/* What counts is the address that the request names, not the byte behind it */
TEST_F(atomic, alignment_of_the_iova)
{
	struct ibv_mr *mr = ibv_reg_mr_iova(self->p.pd, (char *)self->far + 4,
					    64, 0x10004, ACCESS_ALL);
	struct op op = fetch_add(self, 1);

	ASSERT_NE(NULL, mr);
	self->far[1] = 41;
	op.rkey = mr->rkey;
	op.raddr = 0x10008;
	EXPECT_EQ(0, do_op(self, op));
	EXPECT_EQ(42, self->far[1]);
	EXPECT_EQ(41, self->near[0]);
	op.raddr = 0x10004;
	EXPECT_EQ(IBV_WC_REM_INV_REQ_ERR, do_op(self, op));
	EXPECT_EQ(42, self->far[1]);
	EXPECT_EQ(0, ibv_dereg_mr(mr));
}

/* Case 20: the target changes only where HM 4.7 says so */
TEST_F(atomic, case_20_wrong_lkey)
{
	struct op op = fetch_add(self, 1);

	self->near[0] = 7;
	op.lkey = NO_KEY;
	EXPECT_EQ(IBV_WC_LOC_PROT_ERR, do_op(self, op));
	EXPECT_EQ(7, self->near[0]);
	EXPECT_EQ(IBV_QPS_RTS, qp_state(self->p.b));
	EXPECT_GE(1, self->far[0]);
}

/* Many at once on one queue: each sees the one before it */
TEST_F(atomic, pipelined)
{
	enum { N = 60 };

	for (int round = 0; round < 20; round++) {
		self->far[0] = round * 1000;
		for (int i = 0; i < N; i++) {
			struct op op = fetch_add(self, i);

			op.laddr += i * 8;
			op.flags = i == N - 1 ? IBV_SEND_SIGNALED : 0;
			ASSERT_EQ(0, post(self->p.a, &op));
		}
		ASSERT_EQ(0, wait_good(self->p.acq, 1));
		for (int i = 0; i < N; i++)
			ASSERT_EQ(round * 1000 + i * (i - 1) / 2,
				  self->near[i]);
	}
}

/*
 * Two processes, with two queue pairs each into a third, count in one place: by
 * fetch-and-add, and by compare-and-swap until it succeeds.
 */

struct facts {
	uint32_t qpn, rkey;
	uint64_t addr;
};

enum { ADDS = 1500, SWAPS = 300 };

/* Each fetched value once: the values of both together are 0 .. 2 * ADDS - 1 */
static int count(int fd, uint64_t *fetched)
{
	struct facts mine = {}, peer;
	struct qp_cfg cfg = {};
	uint64_t *buf = mem_pages(PAGE), expect;
	struct ibv_mr *mr;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct rdma r;
	struct op op;

	if (!buf || rdma_open(&r))
		return 1;
	pd = ibv_alloc_pd(r.ctx);
	cq = ibv_create_cq(r.ctx, 64, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, buf, PAGE, IBV_ACCESS_LOCAL_WRITE);
	qp = qp_create(pd, cq, cq, &cfg);
	if (!pd || !cq || !mr || !qp)
		return 2;
	mine.qpn = qp->qp_num;
	if (swap_facts(fd, &mine, &peer, sizeof(mine)) ||
	    qp_connect(&r, qp, &cfg, peer.qpn) ||
	    swap_facts(fd, &mine, &peer, sizeof(mine)))	/* go */
		return 3;
	op = (struct op){
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .len = 8,
		.laddr = AT(buf), .lkey = mr->lkey,
		.raddr = peer.addr, .rkey = peer.rkey, .cmp_add = 1,
	};
	for (int i = 0; i < ADDS; i++) {
		if (run(qp, cq, &op, NULL))
			return 4;
		fetched[i] = buf[0];
	}
	op.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	op.raddr += 64;
	expect = 0;
	for (int done = 0; done < SWAPS;) {
		op.cmp_add = expect;
		op.swap = expect + 1;
		if (run(qp, cq, &op, NULL))
			return 5;
		if (buf[0] == expect) {
			done++;
			expect++;
		} else {
			expect = buf[0];
		}
	}
	if (swap_facts(fd, &mine, &peer, sizeof(mine)))
		return 6;
	return 0;
}

TEST_F_TIMEOUT(atomic, counting_in_two_processes, 60)
{
	struct facts mine = { 0, self->far_mr->rkey, AT(self->far) };
	struct ibv_qp *qp[2];
	uint64_t *fetched;
	uint8_t seen[2 * ADDS] = {};
	int fd[2][2], status;
	struct facts peer[2];
	pid_t child[2];

	fetched = mmap(NULL, 2 * ADDS * 8, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, fetched);
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, fd[i]));
		child[i] = fork();
		ASSERT_LE(0, child[i]);
		if (!child[i])
			_exit(count(fd[i][1], fetched + i * ADDS));
	}
	for (int i = 0; i < 2; i++) {
		qp[i] = qp_create(self->p.pd, self->p.bcq, self->p.bcq,
				  &self->p.cfg);
		ASSERT_NE(NULL, qp[i]);
		mine.qpn = qp[i]->qp_num;
		ASSERT_EQ(0, swap_facts(fd[i][0], &mine, &peer[i],
					sizeof(mine)));
		ASSERT_EQ(0, qp_connect(&self->p.r, qp[i], &self->p.cfg,
					peer[i].qpn));
	}
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(sizeof(mine), write(fd[i][0], &mine, sizeof(mine)));
	for (int i = 0; i < 2; i++)	/* the answer to "go" */
		ASSERT_EQ(sizeof(peer[i]),
			  recv(fd[i][0], &peer[i], sizeof(peer[i]),
			       MSG_WAITALL));
	for (int i = 0; i < 2; i++)	/* finished */
		ASSERT_EQ(0, swap_facts(fd[i][0], &mine, &peer[i],
					sizeof(mine)));
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(child[i], waitpid(child[i], &status, 0));
		EXPECT_TRUE(WIFEXITED(status));
		EXPECT_EQ(0, WEXITSTATUS(status));
		EXPECT_EQ(0, ibv_destroy_qp(qp[i]));
	}
	EXPECT_EQ(2 * ADDS, self->far[0]);
	EXPECT_EQ(2 * SWAPS, self->far[8]);
	for (int i = 0; i < 2 * ADDS; i++) {
		ASSERT_GT(2 * ADDS, fetched[i]);
		EXPECT_EQ(0, seen[fetched[i]]++);
	}
}

TEST_HARNESS_MAIN
