// SPDX-License-Identifier: GPL-2.0
/*
 * Proves that an RC connection moves the right bytes: every operation at every size
 * from nothing to the largest message, gathered, scattered and inline, in order, over
 * many laps of the queues, from several queue pairs, threads and processes at once.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "kselftest_harness.h"
#include "lib/rdma.h"
#include "lib/mem.h"

#define AT(p)	((uintptr_t)(p))

FIXTURE(rc) {
	struct pair p;
	char *near, *far;
	struct ibv_mr *near_mr, *far_mr;
};

#define AREA	(1ul << 20)

FIXTURE_SETUP(rc)
{
	struct qp_cfg cfg = { .send_wr = 128, .recv_wr = 128, .send_sge = 16,
			      .recv_sge = 16, .max_inline = 200 };

	ASSERT_EQ(0, pair_open(&self->p, &cfg));
	self->near = mem_pages(AREA);
	self->far = mem_scattered(AREA);
	ASSERT_NE(NULL, self->near);
	ASSERT_NE(NULL, self->far);
	self->near_mr = ibv_reg_mr(self->p.pd, self->near, AREA, ACCESS_ALL);
	self->far_mr = ibv_reg_mr(self->p.pd, self->far, AREA, ACCESS_ALL);
	ASSERT_NE(NULL, self->near_mr);
	ASSERT_NE(NULL, self->far_mr);
}

FIXTURE_TEARDOWN(rc)
{
	EXPECT_EQ(0, ibv_dereg_mr(self->near_mr));
	EXPECT_EQ(0, ibv_dereg_mr(self->far_mr));
	pair_close(&self->p);
}

#define SELF	FIXTURE_DATA(rc) *self

static struct op to_far(SELF, enum ibv_wr_opcode opcode, uint32_t len)
{
	return (struct op){
		.opcode = opcode, .flags = IBV_SEND_SIGNALED, .len = len,
		.laddr = AT(self->near), .lkey = self->near_mr->lkey,
		.raddr = AT(self->far), .rkey = self->far_mr->rkey,
	};
}

/* Case 21 and HM-4.4: what moves nothing checks nothing */
TEST_F(rc, case_21_hm_4_4_zero_length)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
		IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND,
	};
	struct ibv_wc wc;

	fill(self->near, AREA, 1);
	fill(self->far, AREA, 2);
	for (unsigned int i = 0; i < ARRAY_SIZE(opcodes); i++) {
		struct op op = to_far(self, opcodes[i], 0);

		op.rkey = 0xdeadbeef;
		op.raddr = -1ull;
		op.imm = 0x55;
		if (i >= 2)
			ASSERT_EQ(0, post_recv(self->p.b, i, 0, 0, 0));
		EXPECT_EQ(0, run(self->p.a, self->p.acq, &op, NULL));
		if (i < 2)
			continue;
		ASSERT_EQ(1, wait_wc(self->p.bcq, &wc, WAIT_MS));
		EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
		EXPECT_EQ(0, wc.byte_len);
	}
	EXPECT_EQ(-1, differs(self->near, AREA, 1));
	EXPECT_EQ(-1, differs(self->far, AREA, 2));
}

/* Completions say what was done, and to whom */
TEST_F(rc, completions)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		enum ibv_wc_opcode a, b;
	} ops[] = {
		{ IBV_WR_SEND, IBV_WC_SEND, IBV_WC_RECV },
		{ IBV_WR_SEND_WITH_IMM, IBV_WC_SEND, IBV_WC_RECV },
		{ IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE, -1 },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE,
		  IBV_WC_RECV_RDMA_WITH_IMM },
		{ IBV_WR_RDMA_READ, IBV_WC_RDMA_READ, -1 },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP, -1 },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD, -1 },
	};
	struct ibv_wc wc;

	for (unsigned int i = 0; i < ARRAY_SIZE(ops); i++) {
		uint32_t len = i >= 5 ? 8 : 100;
		struct op op = to_far(self, ops[i].opcode, len);
		bool imm = ops[i].opcode == IBV_WR_SEND_WITH_IMM ||
			   ops[i].opcode == IBV_WR_RDMA_WRITE_WITH_IMM;

		op.id = 0x123456789abcdef0 + i;
		op.imm = 0x01020304 + i;
		if (ops[i].b != -1)
			ASSERT_EQ(0, post_recv(self->p.b, i, AT(self->far),
					       200, self->far_mr->lkey));
		ASSERT_EQ(0, run(self->p.a, self->p.acq, &op, &wc));
		EXPECT_EQ(op.id, wc.wr_id);
		EXPECT_EQ(ops[i].a, wc.opcode);
		EXPECT_EQ(self->p.a->qp_num, wc.qp_num);
		if (ops[i].opcode == IBV_WR_RDMA_READ || len == 8)
			EXPECT_EQ(len, wc.byte_len);
		if (ops[i].b == -1) {
			EXPECT_EQ(0, wait_wc(self->p.bcq, &wc, 0));
			continue;
		}
		ASSERT_EQ(1, wait_wc(self->p.bcq, &wc, WAIT_MS));
		EXPECT_EQ(i, wc.wr_id);
		EXPECT_EQ(ops[i].b, wc.opcode);
		EXPECT_EQ(len, wc.byte_len);
		EXPECT_EQ(self->p.b->qp_num, wc.qp_num);
		EXPECT_EQ(imm, !!(wc.wc_flags & IBV_WC_WITH_IMM));
		if (imm)
			EXPECT_EQ(op.imm, wc.imm_data);
	}
}

TEST_F(rc, hm_4_5_receive_longer_than_its_region)
{
	struct op op = to_far(self, IBV_WR_SEND, 64);
	struct ibv_mr *mr = ibv_reg_mr(self->p.pd, self->far, 100, ACCESS_ALL);

	ASSERT_NE(NULL, mr);
	fill(self->near, 64, 5);
	ASSERT_EQ(0, post_recv(self->p.b, 1, AT(self->far), 1 << 30,
			       mr->lkey));
	EXPECT_EQ(0, run(self->p.a, self->p.acq, &op, NULL));
	EXPECT_EQ(0, wait_good(self->p.bcq, 1));
	EXPECT_EQ(-1, differs(self->far, 64, 5));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
}

/* A short list of receive segments ends where it ends, also in a used slot */
TEST_F(rc, hm_2_13_receive_list_ends)
{
	struct ibv_recv_wr wr = {}, *bad;
	struct ibv_sge sge[3];
	struct op op = to_far(self, IBV_WR_SEND, 24);
	struct ibv_wc wc;

	for (int i = 0; i < 3; i++)
		sge[i] = (struct ibv_sge){ AT(self->far) + i * 512, 8,
					   self->far_mr->lkey };
	wr.sg_list = sge;
	wr.num_sge = 3;
	fill(self->near, 24, 1);
	for (int i = 0; i < 128; i++) {		/* all slots */
		ASSERT_EQ(0, ibv_post_recv(self->p.b, &wr, &bad));
		ASSERT_EQ(0, run(self->p.a, self->p.acq, &op, NULL));
		ASSERT_EQ(0, wait_good(self->p.bcq, 1));
	}
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(-1, differs_at(self->far + i * 512, 8, 1, i * 8));
	memset(self->far, 0, AREA);
	wr.num_sge = 2;
	ASSERT_EQ(0, ibv_post_recv(self->p.b, &wr, &bad));
	EXPECT_EQ(IBV_WC_REM_INV_REQ_ERR,
		  run(self->p.a, self->p.acq, &op, NULL));
	ASSERT_EQ(1, wait_wc(self->p.bcq, &wc, WAIT_MS));
	EXPECT_EQ(IBV_WC_LOC_LEN_ERR, wc.status);
	EXPECT_TRUE(all_bytes(self->far + 1024, AREA - 1024, 0));
}

TEST_F(rc, inline_up_to_the_maximum)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct op op = to_far(self, IBV_WR_RDMA_WRITE, 0);
	uint32_t max;

	ASSERT_EQ(0, ibv_query_qp(self->p.a, &attr, IBV_QP_CAP, &init));
	max = init.cap.max_inline_data;
	EXPECT_LE(200, max);
	op.flags |= IBV_SEND_INLINE;
	op.lkey = 0xbad;		/* not looked at */
	for (int round = 0; round < 4; round++) {
		for (op.len = 0; op.len <= max; op.len++) {
			memset(self->far, 0, max + 64);
			fill(self->near, op.len, op.len);
			ASSERT_EQ(0, post(self->p.a, &op));
			/* the program may reuse its buffer at once */
			memset(self->near, 0xff, op.len);
			ASSERT_EQ(0, wait_good(self->p.acq, 1));
			ASSERT_EQ(-1, differs(self->far, op.len, op.len));
			ASSERT_TRUE(all_bytes(self->far + op.len, 64, 0));
		}
	}
	op.len = max + 1;
	EXPECT_NE(0, post(self->p.a, &op));
	op.len = 8;
	EXPECT_EQ(0, run(self->p.a, self->p.acq, &op, NULL));
}

/* Lists of every length, with parts of odd sizes, on both sides */
TEST_F(rc, gather_and_scatter)
{
	enum { MAX = 16 };
	struct ibv_sge from[MAX], to[MAX];
	struct ibv_recv_wr recv = { .sg_list = to }, *bad;
	char *flat = malloc(AREA), *got = malloc(AREA);
	unsigned int seed = 1;

	ASSERT_NE(NULL, flat);
	ASSERT_NE(NULL, got);
	fill(self->near, AREA, 1);
	for (int n = 1; n <= MAX; n++) {
		struct op op = { .flags = IBV_SEND_SIGNALED, .sg = from,
				 .sges = n, .raddr = AT(self->far),
				 .rkey = self->far_mr->rkey };
		size_t total = 0, at = 0, left;

		for (int i = 0; i < n; i++) {
			uint32_t len = 1 + rand_r(&seed) % 6000;
			uint32_t where = rand_r(&seed) % (AREA - 6000);

			from[i] = (struct ibv_sge){ AT(self->near) + where,
						    len, self->near_mr->lkey };
			memcpy(flat + total, self->near + where, len);
			total += len;
		}
		/* one WRITE gathers */
		memset(self->far, 0, AREA);
		op.opcode = IBV_WR_RDMA_WRITE;
		ASSERT_EQ(0, run(self->p.a, self->p.acq, &op, NULL));
		ASSERT_EQ(0, memcmp(self->far, flat, total));
		ASSERT_EQ(0, self->far[total]);

		/* one SEND gathers, and scatters into other parts */
		memset(self->far, 0, AREA);
		left = total;
		for (int i = 0; i < n; i++) {
			uint32_t len = i == n - 1 ? left :
				       left * (rand_r(&seed) % 100) / 100;

			to[i] = (struct ibv_sge){ AT(self->far) + at, len,
						  self->far_mr->lkey };
			at += len + 13;
			left -= len;
		}
		recv.num_sge = n;
		ASSERT_EQ(0, ibv_post_recv(self->p.b, &recv, &bad));
		op.opcode = IBV_WR_SEND;
		ASSERT_EQ(0, run(self->p.a, self->p.acq, &op, NULL));
		ASSERT_EQ(0, wait_good(self->p.bcq, 1));
		at = 0;
		for (int i = 0; i < n; i++) {
			memcpy(got + at, (void *)to[i].addr, to[i].length);
			at += to[i].length;
			ASSERT_TRUE(all_bytes((char *)to[i].addr +
					      to[i].length, 13, 0));
		}
		ASSERT_EQ(0, memcmp(got, flat, total));

		/* one READ scatters */
		fill(self->far, AREA, 100 + n);
		op.opcode = IBV_WR_RDMA_READ;
		for (int i = 0; i < n; i++)
			from[i].addr = AT(self->near) + 6000 * 2 * i;
		memset(self->near, 0, AREA);
		ASSERT_EQ(0, run(self->p.a, self->p.acq, &op, NULL));
		at = 0;
		for (int i = 0; i < n; i++) {
			ASSERT_EQ(-1, differs_at((char *)from[i].addr,
						 from[i].length, 100 + n, at));
			ASSERT_TRUE(all_bytes((char *)from[i].addr +
					      from[i].length, 64, 0));
			at += from[i].length;
		}
		fill(self->near, AREA, 1);
	}
	free(flat);
	free(got);
}

/* A bad part of a gather list: nothing from it on arrives */
TEST_F(rc, hm_4_25_bad_part_of_a_list)
{
	struct ibv_sge from[3];
	struct op op = { .opcode = IBV_WR_RDMA_WRITE, .sg = from, .sges = 3,
			 .raddr = AT(self->far), .rkey = self->far_mr->rkey };

	fill(self->near, AREA, 1);
	memset(self->far, 0, AREA);
	for (int i = 0; i < 3; i++)
		from[i] = (struct ibv_sge){ AT(self->near) + i * 0x40000,
					    300000, self->near_mr->lkey };
	from[1].lkey = NO_KEY;
	EXPECT_EQ(IBV_WC_LOC_PROT_ERR,
		  run(self->p.a, self->p.acq, &op, NULL));
	EXPECT_TRUE(all_bytes(self->far + 300000, AREA - 300000, 0));
}

/* WQEs of all sizes, so that every one of them wraps at the end of the ring */
TEST_F(rc, abi_6_6_wqe_wrap)
{
	struct ibv_sge sge[16];
	unsigned int seed = 6;
	char want[8192];

	fill(self->near, AREA, 1);
	for (int i = 0; i < 4000; i++) {
		struct op op = to_far(self, IBV_WR_RDMA_WRITE, 0);
		size_t total = 0;

		if (i % 3) {
			op.flags |= IBV_SEND_INLINE;
			op.len = 1 + rand_r(&seed) % 200;
			op.laddr += rand_r(&seed) % 1000;
			memcpy(want, (void *)op.laddr, op.len);
			total = op.len;
		} else {
			op.sg = sge;
			op.sges = 1 + rand_r(&seed) % 16;
			for (int n = 0; n < op.sges; n++) {
				sge[n] = (struct ibv_sge){
					AT(self->near) + rand_r(&seed) % 5000,
					1 + rand_r(&seed) % 400,
					self->near_mr->lkey };
				memcpy(want + total, (void *)sge[n].addr,
				       sge[n].length);
				total += sge[n].length;
			}
		}
		ASSERT_EQ(0, run(self->p.a, self->p.acq, &op, NULL)) {
			TH_LOG("WQE %d", i);
		}
		ASSERT_EQ(0, memcmp(self->far, want, total)) {
			TH_LOG("WQE %d", i);
		}
	}
}

TEST_F(rc, unsignalled)
{
	struct op op = to_far(self, IBV_WR_RDMA_WRITE, 8);
	uint64_t *near = (void *)self->near, *far = (void *)self->far;
	struct ibv_wc wc;

	for (int i = 0; i < 3200; i++) {
		near[i] = i + 1;
		op.id = i;
		op.laddr = AT(&near[i]);
		op.raddr = AT(&far[i]);
		op.flags = i % 32 == 31 ? IBV_SEND_SIGNALED : 0;
		ASSERT_EQ(0, post(self->p.a, &op));
		if (i % 32 != 31)
			continue;
		ASSERT_EQ(1, wait_wc(self->p.acq, &wc, WAIT_MS));
		ASSERT_EQ(i, wc.wr_id);
		ASSERT_EQ(IBV_WC_SUCCESS, wc.status);
		for (int n = i - 31; n <= i; n++)
			ASSERT_EQ(n + 1, far[n]);
	}
	EXPECT_EQ(0, wait_wc(self->p.acq, &wc, QUIET_MS));
}

/* A fenced request sees what the READ before it brought */
TEST_F(rc, hm_8_18_fence)
{
	struct op read = to_far(self, IBV_WR_RDMA_READ, 65536);
	struct op back = to_far(self, IBV_WR_RDMA_WRITE, 65536);

	read.flags = 0;
	back.flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
	back.raddr += 0x40000;
	for (int i = 0; i < 30; i++) {
		fill(self->far, 65536, i);
		memset(self->near, 0, 65536);
		ASSERT_EQ(0, post(self->p.a, &read));
		ASSERT_EQ(0, post(self->p.a, &back));
		ASSERT_EQ(0, wait_good(self->p.acq, 1));
		ASSERT_EQ(-1, differs(self->far + 0x40000, 65536, i));
	}
}

/* Thousands of operations of all kinds against a model of both memories */
TEST_F_TIMEOUT(rc, mixed_operations_in_order, 100)
{
	enum { OPS = 4000, SPAN = 32768, BATCH = 24 };
	char *near = malloc(SPAN), *far = malloc(SPAN);
	unsigned int seed = 42;
	int signalled = 0, received = 0;
	bool fence = false;

	ASSERT_NE(NULL, near);
	ASSERT_NE(NULL, far);
	fill(self->near, SPAN, 1);
	fill(self->far, SPAN, 2);
	memcpy(near, self->near, SPAN);
	memcpy(far, self->far, SPAN);
	for (int i = 0; i < OPS; i++) {
		uint32_t len = 1 + rand_r(&seed) % 3000;
		uint32_t n_at = rand_r(&seed) % (SPAN - 3000);
		uint32_t f_at = rand_r(&seed) % (SPAN - 3000);
		struct op op = to_far(self, IBV_WR_RDMA_WRITE, len);
		uint64_t was, now;
		bool last = i % BATCH == BATCH - 1 || i == OPS - 1;

		op.flags = last || rand_r(&seed) % 4 == 0 ?
			   IBV_SEND_SIGNALED : 0;
		if (fence)	/* it may read what comes back */
			op.flags |= IBV_SEND_FENCE;
		fence = false;
		signalled += !!(op.flags & IBV_SEND_SIGNALED);
		switch (rand_r(&seed) % 6) {
		case 0:
			break;
		case 1:
			op.opcode = IBV_WR_SEND;
			break;
		case 2:
			op.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
			break;
		case 3:
			op.opcode = IBV_WR_RDMA_READ;
			fence = true;
			break;
		case 4:
			op.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
			fence = true;
			break;
		case 5:
			op.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
			fence = true;
			break;
		}
		if (op.opcode >= IBV_WR_ATOMIC_CMP_AND_SWP) {
			n_at &= ~7;
			f_at &= ~7;
			op.len = 8;
			memcpy(&was, far + f_at, 8);
			op.cmp_add = i % 2 ? was : rand_r(&seed);
			op.swap = (uint64_t)rand_r(&seed) << 32 | i;
			now = was + op.cmp_add;
			if (op.opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
				now = was == op.cmp_add ? op.swap : was;
			memcpy(near + n_at, &was, 8);
			memcpy(far + f_at, &now, 8);
		} else if (op.opcode == IBV_WR_RDMA_READ) {
			memcpy(near + n_at, far + f_at, len);
		} else {
			memcpy(far + f_at, near + n_at, len);
		}
		op.laddr += n_at;
		op.raddr += f_at;
		if (op.opcode == IBV_WR_SEND) {
			ASSERT_EQ(0, post_recv(self->p.b, i, op.raddr, len,
					       self->far_mr->lkey));
			received++;
		} else if (op.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
			ASSERT_EQ(0, post_recv(self->p.b, i, 0, 0, 0));
			received++;
		}
		ASSERT_EQ(0, post(self->p.a, &op));
		if (!last)
			continue;
		ASSERT_EQ(0, wait_good(self->p.acq, signalled));
		ASSERT_EQ(0, wait_good(self->p.bcq, received));
		signalled = 0;
		received = 0;
		ASSERT_EQ(0, memcmp(self->far, far, SPAN)) {
			TH_LOG("B differs in the batch that ends with %d", i);
		}
		ASSERT_EQ(0, memcmp(self->near, near, SPAN)) {
			TH_LOG("A differs in the batch that ends with %d", i);
		}
	}
	free(near);
	free(far);
}

/* Messages of one size each way, by WRITE, READ and SEND */

FIXTURE(size) {
	struct pair p;
	char *from, *to;
	struct ibv_mr *from_mr, *to_mr;
	size_t map;
};

FIXTURE_VARIANT(size) {
	size_t len;
};

#define SIZE(name, len)	FIXTURE_VARIANT_ADD(size, name) { len }

SIZE(b1, 1);
SIZE(b2, 2);
SIZE(b3, 3);
SIZE(b7, 7);
SIZE(b8, 8);
SIZE(b63, 63);
SIZE(b64, 64);
SIZE(b65, 65);
SIZE(b1023, 1023);
SIZE(b4095, 4095);
SIZE(b4096, 4096);
SIZE(b4097, 4097);
SIZE(k64, 65536);
SIZE(k256_less_1, (256 << 10) - 1);
SIZE(k256_and_1, (256 << 10) + 1);
SIZE(m1, 1 << 20);
SIZE(m4_and_3, (4 << 20) + 3);
SIZE(m16, 16 << 20);
SIZE(m64, 64 << 20);

FIXTURE_SETUP(size)
{
	ASSERT_EQ(0, pair_open(&self->p, NULL));
	self->map = variant->len + 2 * PAGE;
	self->from = mem_pages(self->map);
	self->to = mem_pages(self->map);
	ASSERT_NE(NULL, self->from);
	ASSERT_NE(NULL, self->to);
	self->from_mr = ibv_reg_mr(self->p.pd, self->from, self->map,
				   ACCESS_ALL);
	self->to_mr = ibv_reg_mr(self->p.pd, self->to, self->map, ACCESS_ALL);
	ASSERT_NE(NULL, self->from_mr);
	ASSERT_NE(NULL, self->to_mr);
}

FIXTURE_TEARDOWN(size)
{
	if (self->from_mr)
		EXPECT_EQ(0, ibv_dereg_mr(self->from_mr));
	if (self->to_mr)
		EXPECT_EQ(0, ibv_dereg_mr(self->to_mr));
	pair_close(&self->p);
}

TEST_F_TIMEOUT(size, every_way, 60)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND,
	};
	size_t len = variant->len;

	/* at odd places: source and target are shifted against each other */
	char *from = self->from + 5, *to = self->to + 3000;

	for (int i = 0; i < 3; i++) {
		bool read = opcodes[i] == IBV_WR_RDMA_READ;
		struct op op = {
			.opcode = opcodes[i], .len = len,
			.laddr = AT(read ? to : from),
			.lkey = (read ? self->to_mr : self->from_mr)->lkey,
			.raddr = AT(read ? from : to),
			.rkey = (read ? self->from_mr : self->to_mr)->rkey,
		};
		struct ibv_wc wc;

		fill(from, len, i);
		memset(self->to, 0x99, self->map);
		if (opcodes[i] == IBV_WR_SEND)
			ASSERT_EQ(0, post_recv(self->p.b, 1, AT(to), len,
					       self->to_mr->lkey));
		ASSERT_EQ(0, run(self->p.a, self->p.acq, &op, NULL));
		if (opcodes[i] == IBV_WR_SEND) {
			ASSERT_EQ(1, wait_wc(self->p.bcq, &wc, WAIT_MS));
			EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
			EXPECT_EQ(len, wc.byte_len);
		}
		EXPECT_EQ(-1, differs(to, len, i));
		EXPECT_TRUE(all_bytes(self->to, 3000, 0x99));
		EXPECT_TRUE(all_bytes(to + len, self->map - 3000 - len, 0x99));
	}
}

/*
 * The largest message that a queue pair takes, in parts of 1 GiB and less: libmlx5 cannot
 * express a part of 2 GiB. One huge page backs each part of the source, 24 MiB the
 * target: its byte i lies where byte i mod 24 MiB does, and the last write stays.
 */
TEST_F_TIMEOUT(rc, largest_message, 100)
{
	enum { WINDOW = 12 * HUGE };
	size_t len = 1ul << 31, part = 1ul << 30;
	struct ibv_sge from[4];
	struct op op = { .opcode = IBV_WR_RDMA_WRITE, .sg = from };
	struct ibv_mr *mr[2];
	char *map[2];

	/* what one segment can have is what the port promises (libmlx5-abi 3.3) */
	ASSERT_EQ(part, self->p.r.port.max_msg_sz);
	for (int i = 0; i < 2; i++) {
		size_t window = i ? WINDOW : HUGE, span = i ? len : part;
		char *keep = mem_huge(WINDOW + HUGE);
		int fd = memfd_create("huge", MFD_HUGETLB);

		if (!keep)
			SKIP(return, "no huge pages left");
		munmap(keep, WINDOW + HUGE);
		ASSERT_EQ(0, ftruncate(fd, window));
		map[i] = mmap(NULL, span + HUGE, PROT_NONE, MAP_PRIVATE |
			      MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		ASSERT_NE(MAP_FAILED, map[i]);
		map[i] = (char *)((AT(map[i]) + HUGE - 1) & -HUGE);
		for (size_t at = 0; at < span; at += HUGE)
			ASSERT_NE(MAP_FAILED,
				  mmap(map[i] + at, HUGE,
				       PROT_READ | PROT_WRITE, MAP_SHARED |
				       MAP_FIXED, fd, at % window));
		mr[i] = ibv_reg_mr(self->p.pd, map[i], span, ACCESS_ALL);
		ASSERT_NE(NULL, mr[i]);
	}
	for (size_t left = len; left; op.sges++) {
		size_t n = left < part ? left : part;

		from[op.sges] = (struct ibv_sge){ AT(map[0]), n, mr[0]->lkey };
		left -= n;
	}
	fill(map[0], HUGE, 9);
	memset(map[1], 0, WINDOW);
	op.raddr = AT(map[1]);
	op.rkey = mr[1]->rkey;
	EXPECT_EQ(0, run(self->p.a, self->p.acq, &op, NULL));
	for (size_t at = 0; at < WINDOW; at += HUGE)
		EXPECT_EQ(-1, differs(map[1] + at, HUGE, 9));
	/* one byte more is refused */
	memset(map[1], 0, WINDOW);
	from[op.sges++] = (struct ibv_sge){ AT(map[0]), 1, mr[0]->lkey };
	EXPECT_LT(0, run(self->p.a, self->p.acq, &op, NULL));
	EXPECT_TRUE(all_bytes(map[1], WINDOW, 0));
	EXPECT_EQ(0, ibv_dereg_mr(mr[0]));
	EXPECT_EQ(0, ibv_dereg_mr(mr[1]));
}

/* Many queue pairs share completion queues; each has its own data */
TEST_F(rc, several_queue_pairs)
{
	enum { N = 24, ROUNDS = 40 };
	struct ibv_qp *a[N], *b[N];
	struct ibv_wc wc;

	for (int i = 0; i < N; i++) {
		a[i] = qp_create(self->p.pd, self->p.acq, self->p.acq,
				 &self->p.cfg);
		b[i] = qp_create(self->p.pd, self->p.bcq, self->p.bcq,
				 &self->p.cfg);
		ASSERT_NE(NULL, a[i]);
		ASSERT_NE(NULL, b[i]);
	}
	for (int i = 0; i < N; i++) {
		int peer = (i * 7 + 3) % N;	/* N and 7 have no common part */

		ASSERT_EQ(0, qp_connect(&self->p.r, a[i], &self->p.cfg,
					b[peer]->qp_num));
		ASSERT_EQ(0, qp_connect(&self->p.r, b[peer], &self->p.cfg,
					a[i]->qp_num));
	}
	for (int round = 0; round < ROUNDS; round++) {
		int seen[N] = {};

		for (int i = 0; i < N; i++) {
			struct op op = to_far(self, IBV_WR_SEND, 100);
			int peer = (i * 7 + 3) % N;

			fill(self->near + i * 4096, 100, round * N + i);
			op.laddr += i * 4096;
			op.id = i;
			ASSERT_EQ(0, post_recv(b[peer], i,
					       AT(self->far) + i * 4096, 100,
					       self->far_mr->lkey));
			ASSERT_EQ(0, post(a[i], &op));
		}
		for (int i = 0; i < N; i++) {
			ASSERT_EQ(1, wait_wc(self->p.acq, &wc, WAIT_MS));
			ASSERT_EQ(IBV_WC_SUCCESS, wc.status);
			ASSERT_EQ(a[wc.wr_id]->qp_num, wc.qp_num);
			seen[wc.wr_id]++;
			ASSERT_EQ(1, wait_wc(self->p.bcq, &wc, WAIT_MS));
			ASSERT_EQ(IBV_WC_SUCCESS, wc.status);
			seen[wc.wr_id]++;
		}
		for (int i = 0; i < N; i++) {
			ASSERT_EQ(2, seen[i]);
			ASSERT_EQ(-1, differs(self->far + i * 4096, 100,
					      round * N + i));
		}
	}
	for (int i = 0; i < N; i++) {
		EXPECT_EQ(0, ibv_destroy_qp(a[i]));
		EXPECT_EQ(0, ibv_destroy_qp(b[i]));
	}
}

struct worker {
	struct rdma *r;
	struct ibv_pd *pd;
	int index, err;
};

/* A pair of its own on a shared PD, and so on a shared UAR */
static void *work(void *arg)
{
	struct worker *w = arg;
	struct qp_cfg cfg = { .send_wr = 32 };
	struct ibv_cq *acq, *bcq;
	struct ibv_qp *a, *b;
	struct ibv_mr *mr;
	char *buf = mem_pages(65536);

	w->err = -1;
	acq = ibv_create_cq(w->r->ctx, 64, NULL, NULL, 0);
	bcq = ibv_create_cq(w->r->ctx, 64, NULL, NULL, 0);
	a = acq ? qp_create(w->pd, acq, acq, &cfg) : NULL;
	b = bcq ? qp_create(w->pd, bcq, bcq, &cfg) : NULL;
	mr = buf ? ibv_reg_mr(w->pd, buf, 65536, ACCESS_ALL) : NULL;
	if (!a || !b || !mr || qp_connect(w->r, a, &cfg, b->qp_num) ||
	    qp_connect(w->r, b, &cfg, a->qp_num))
		return NULL;
	for (int i = 0; i < 1500; i++) {
		struct op op = {
			.opcode = i % 2 ? IBV_WR_RDMA_WRITE : IBV_WR_SEND,
			.len = 1 + i * 37 % 5000, .laddr = AT(buf),
			.lkey = mr->lkey, .raddr = AT(buf) + 32768,
			.rkey = mr->rkey,
		};

		fill(buf, op.len, w->index * 10000 + i);
		if (!(i % 2) && post_recv(b, i, op.raddr, op.len, mr->lkey))
			return NULL;
		w->err = run(a, acq, &op, NULL);
		if (!w->err && !(i % 2))
			w->err = wait_good(bcq, 1);
		if (!w->err && differs(buf + 32768, op.len,
				       w->index * 10000 + i) >= 0)
			w->err = -EIO;
		if (w->err)
			return NULL;
	}
	ibv_destroy_qp(a);
	ibv_destroy_qp(b);
	ibv_destroy_cq(acq);
	ibv_destroy_cq(bcq);
	ibv_dereg_mr(mr);
	return NULL;
}

TEST_F_TIMEOUT(rc, several_threads, 60)
{
	struct worker w[4];
	pthread_t thread[4];

	for (int i = 0; i < 4; i++) {
		w[i] = (struct worker){ &self->p.r, self->p.pd, i };
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, work, &w[i]));
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(thread[i], NULL);
		EXPECT_EQ(0, w[i].err);
	}
}

/* Two processes with a context each */

struct facts {
	uint32_t qpn, rkey;
	uint64_t addr;
};

#define EXCHANGES	400

static int one_side(int fd, bool first)
{
	struct qp_cfg cfg = {};
	struct facts mine, peer;
	struct ibv_mr *mr;
	struct ibv_pd *pd;
	/* two: the peer's answer can be here before our SEND has completed */
	struct ibv_cq *cq, *rcq;
	struct ibv_qp *qp;
	struct rdma r;
	char *buf = mem_pages(4 * 65536);
	int token = 0, err;

	/* receive area, source, and two windows that the peer reaches */
	if (!buf || rdma_open(&r))
		return 1;
	pd = ibv_alloc_pd(r.ctx);
	cq = ibv_create_cq(r.ctx, 64, NULL, NULL, 0);
	rcq = ibv_create_cq(r.ctx, 64, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, buf, 4 * 65536, ACCESS_ALL);
	qp = qp_create(pd, cq, rcq, &cfg);
	if (!pd || !cq || !rcq || !mr || !qp)
		return 2;
	mine = (struct facts){ qp->qp_num, mr->rkey, AT(buf) };
	if (swap_facts(fd, &mine, &peer, sizeof(mine)))
		return 3;
	if (qp_connect(&r, qp, &cfg, peer.qpn) ||
	    post_recv(qp, 0, AT(buf), 65536, mr->lkey))
		return 4;
	if (swap_facts(fd, &token, &token, sizeof(token)))
		return 5;
	for (int i = 0; i < EXCHANGES; i++) {
		uint32_t len = 1 + i * 163 % 65536;
		struct ibv_wc wc;

		if ((i % 2 == 0) == first) {
			/* ask: write, read back, then tell by a SEND */
			struct op op = {
				.opcode = IBV_WR_RDMA_WRITE, .len = len,
				.laddr = AT(buf) + 65536, .lkey = mr->lkey,
				.raddr = peer.addr + 131072, .rkey = peer.rkey,
			};

			fill(buf + 65536, len, i);
			err = run(qp, cq, &op, NULL);
			memset(buf + 65536, 0, len);
			op.opcode = IBV_WR_RDMA_READ;
			if (!err)
				err = run(qp, cq, &op, NULL);
			if (err || differs(buf + 65536, len, i) >= 0)
				return 6;
			op.opcode = IBV_WR_SEND;
			if (run(qp, cq, &op, NULL))
				return 7;
		} else {
			if (wait_wc(rcq, &wc, WAIT_MS) != 1 || wc.status ||
			    wc.byte_len != len)
				return 8;
			if (differs(buf, len, i) >= 0 ||
			    differs(buf + 131072, len, i) >= 0)
				return 9;
			if (post_recv(qp, 0, AT(buf), 65536, mr->lkey))
				return 10;
		}
	}
	/* neither leaves while the other still reads */
	if (swap_facts(fd, &token, &token, sizeof(token)))
		return 11;
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	ibv_destroy_cq(rcq);
	ibv_dereg_mr(mr);
	ibv_dealloc_pd(pd);
	rdma_close(&r);
	return 0;
}

TEST(two_processes)
{
	int fd[2], status = -1;
	pid_t child;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, fd));
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		_exit(one_side(fd[1], false));
	EXPECT_EQ(0, one_side(fd[0], true));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, WEXITSTATUS(status));
}

TEST_HARNESS_MAIN
