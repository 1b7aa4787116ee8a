// SPDX-License-Identifier: GPL-2.0
/*
 * Proves that memory is reached with the right key, the right rights and inside
 * the region only: every role that memory can have in an operation, against every
 * set of rights and every kind of bad key. What is refused leaves memory as it was
 * and costs the offender its QP: status and vendor syndrome, async event, state and
 * flush are those of HM 4.7.
 */
#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include "kselftest_harness.h"
#include "lib/rdma.h"
#include "lib/mem.h"
#include "../include/hca/syndrome.h"

#define AREA	(4 * PAGE)
#define START	0x210ul		/* where the region begins in its area */
#define LEN	0x2100ul	/* over page edges; its end is 8-byte aligned */

/* The part that the memory under test plays */
enum part {
	SEND_SOURCE, RECV_TARGET,
	WRITE_SOURCE, WRITE_TARGET, WRITE_IMM_TARGET,
	READ_SOURCE, READ_RESULT,
	CS_TARGET, CS_RESULT, FA_TARGET, FA_RESULT,
};

/* What one attempt led to */
struct outcome {
	struct ibv_wc a, a_next, b, b_next;
	int a_state, b_state;
	bool b_event;
};

FIXTURE(access) {
	struct pair p;
	struct ibv_pd *other_pd;
	char *near, *far;		/* areas of A and B */
	struct ibv_mr *near_mr, *far_mr; /* all rights, all of the area */
	bool touches_near, atomic;
};

FIXTURE_VARIANT(access) {
	enum part part;
	int need;			/* the right, 0: local read, always there */
	enum ibv_wr_opcode opcode;
};

#define PART(name, ...) \
	FIXTURE_VARIANT_ADD(access, name) { __VA_ARGS__ }

PART(hm_1_2_send_source, SEND_SOURCE, 0, IBV_WR_SEND);
PART(hm_1_4_recv_target, RECV_TARGET, IBV_ACCESS_LOCAL_WRITE, IBV_WR_SEND);
PART(write_source, WRITE_SOURCE, 0, IBV_WR_RDMA_WRITE);
PART(hm_1_5_write_target, WRITE_TARGET, IBV_ACCESS_REMOTE_WRITE,
	IBV_WR_RDMA_WRITE);
PART(hm_1_13_write_imm_target, WRITE_IMM_TARGET, IBV_ACCESS_REMOTE_WRITE,
	IBV_WR_RDMA_WRITE_WITH_IMM);
PART(hm_1_6_read_source, READ_SOURCE, IBV_ACCESS_REMOTE_READ,
	IBV_WR_RDMA_READ);
PART(hm_1_3_read_result, READ_RESULT, IBV_ACCESS_LOCAL_WRITE,
	IBV_WR_RDMA_READ);
PART(hm_1_7_cs_target, CS_TARGET, IBV_ACCESS_REMOTE_ATOMIC,
	IBV_WR_ATOMIC_CMP_AND_SWP);
PART(cs_result, CS_RESULT, IBV_ACCESS_LOCAL_WRITE,
	IBV_WR_ATOMIC_CMP_AND_SWP);
PART(hm_1_7_fa_target, FA_TARGET, IBV_ACCESS_REMOTE_ATOMIC,
	IBV_WR_ATOMIC_FETCH_AND_ADD);
PART(fa_result, FA_RESULT, IBV_ACCESS_LOCAL_WRITE,
	IBV_WR_ATOMIC_FETCH_AND_ADD);

FIXTURE_SETUP(access)
{
	ASSERT_EQ(0, pair_open(&self->p, NULL));
	self->other_pd = ibv_alloc_pd(self->p.r.ctx);
	ASSERT_NE(NULL, self->other_pd);
	self->near = mem_scattered(AREA);
	self->far = mem_scattered(AREA);
	ASSERT_NE(NULL, self->near);
	ASSERT_NE(NULL, self->far);
	self->near_mr = ibv_reg_mr(self->p.pd, self->near, AREA, ACCESS_ALL);
	self->far_mr = ibv_reg_mr(self->p.pd, self->far, AREA, ACCESS_ALL);
	ASSERT_NE(NULL, self->near_mr);
	ASSERT_NE(NULL, self->far_mr);
	self->atomic = variant->part >= CS_TARGET;
	self->touches_near = variant->part == SEND_SOURCE ||
			     variant->part == WRITE_SOURCE ||
			     variant->part == READ_RESULT ||
			     variant->part == CS_RESULT ||
			     variant->part == FA_RESULT;
}

FIXTURE_TEARDOWN(access)
{
	EXPECT_EQ(0, ibv_dereg_mr(self->near_mr));
	EXPECT_EQ(0, ibv_dereg_mr(self->far_mr));
	EXPECT_EQ(0, ibv_dealloc_pd(self->other_pd));
	pair_close(&self->p);
	munmap(self->near, AREA);
	munmap(self->far, AREA);
}

#define SELF	FIXTURE_DATA(access) *self
#define VARIANT	const FIXTURE_VARIANT(access) *variant

static char *tested(SELF)
{
	return self->touches_near ? self->near : self->far;
}

/* The operation, with the memory under test reached by @key at @addr */
static void attempt(struct __test_metadata *_metadata, SELF, VARIANT,
		    uint32_t key, uint64_t addr, uint32_t len,
		    struct outcome *o)
{
	struct pair *p = &self->p;
	struct op op = {
		.opcode = variant->opcode,
		.flags = IBV_SEND_SIGNALED,
		.id = 1,
		.laddr = (uintptr_t)self->near + START,
		.lkey = self->near_mr->lkey,
		.raddr = (uintptr_t)self->far + START,
		.rkey = self->far_mr->rkey,
		.len = len,
		.cmp_add = 5, .swap = 77,
	};
	struct op next = {
		.opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED, .id = 2,
	};
	uint64_t recv_addr = (uintptr_t)self->far + START;
	uint32_t recv_key = self->far_mr->lkey;
	uint32_t recv_len = len;
	bool two_sided = variant->opcode == IBV_WR_SEND ||
			 variant->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;

	memset(o, 0xff, sizeof(*o));
	ASSERT_EQ(0, pair_reconnect(p));
	fill(self->near, AREA, 1);
	fill(self->far, AREA, 2);

	if (self->touches_near) {
		op.laddr = addr;
		op.lkey = key;
	} else if (variant->part == RECV_TARGET) {
		recv_addr = addr;
		recv_key = key;
	} else {
		op.raddr = addr;
		op.rkey = key;
	}
	if (variant->opcode != IBV_WR_SEND)
		recv_len = 0;
	if (two_sided)
		ASSERT_EQ(0, post_recv(p->b, 11, recv_addr, recv_len, recv_key));
	ASSERT_EQ(0, post_recv(p->b, 12, 0, 0, 0));

	ASSERT_EQ(0, post(p->a, &op));
	ASSERT_EQ(0, post(p->a, &next));
	ASSERT_EQ(1, wait_wc(p->acq, &o->a, WAIT_MS));
	ASSERT_EQ(1, wait_wc(p->acq, &o->a_next, WAIT_MS));
	EXPECT_EQ(1, o->a.wr_id);
	EXPECT_EQ(2, o->a_next.wr_id);
	o->a_state = qp_state(p->a);
	o->b_state = qp_state(p->b);
	if (two_sided && o->b_state == IBV_QPS_RTS &&
	    o->a.status != IBV_WC_SUCCESS)
		return;		/* nothing was sent */
	if (two_sided) {
		ASSERT_EQ(1, wait_wc(p->bcq, &o->b, WAIT_MS));
		EXPECT_EQ(11, o->b.wr_id);
	}
	if (o->b_state == IBV_QPS_ERR) {
		ASSERT_EQ(1, wait_wc(p->bcq, &o->b_next, WAIT_MS));
		EXPECT_EQ(12, o->b_next.wr_id);
		o->b_event = async_of_qp(&p->r, IBV_EVENT_QP_ACCESS_ERR, p->b,
					 QUIET_MS);
	}
	EXPECT_EQ(0, wait_wc(p->acq, &(struct ibv_wc){}, 0));
	EXPECT_EQ(0, wait_wc(p->bcq, &(struct ibv_wc){}, 0));
}

/* [at, at + len) of @area is the only place that may differ from fill(seed) */
static void expect_rest(struct __test_metadata *_metadata, const char *area,
			uint64_t seed, uint64_t at, uint64_t len)
{
	EXPECT_EQ(-1, differs(area, at, seed));
	EXPECT_EQ(-1, differs_at(area + at + len, AREA - at - len, seed,
				 at + len));
}

static void expect_done(struct __test_metadata *_metadata, SELF, VARIANT,
			const struct outcome *o, uint64_t near_at,
			uint64_t far_at, uint32_t len)
{
	char was[8];
	uint64_t old, now;

	EXPECT_EQ(IBV_WC_SUCCESS, o->a.status);
	EXPECT_EQ(IBV_WC_SUCCESS, o->a_next.status);
	EXPECT_EQ(IBV_QPS_RTS, o->a_state);
	EXPECT_EQ(IBV_QPS_RTS, o->b_state);
	switch (variant->opcode) {
	case IBV_WR_SEND:
		EXPECT_EQ(IBV_WC_SUCCESS, o->b.status);
		EXPECT_EQ(len, o->b.byte_len);
		/* fall through */
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		EXPECT_EQ(-1, differs(self->near, AREA, 1));
		EXPECT_EQ(-1, differs_at(self->far + far_at, len, 1, near_at));
		expect_rest(_metadata, self->far, 2, far_at, len);
		break;
	case IBV_WR_RDMA_READ:
		EXPECT_EQ(-1, differs(self->far, AREA, 2));
		EXPECT_EQ(-1, differs_at(self->near + near_at, len, 2, far_at));
		expect_rest(_metadata, self->near, 1, near_at, len);
		break;
	default:
		/* what was at the target is in the result */
		EXPECT_EQ(-1, differs_at(self->near + near_at, 8, 2, far_at));
		expect_rest(_metadata, self->near, 1, near_at, 8);
		expect_rest(_metadata, self->far, 2, far_at, 8);
		memcpy(was, self->near + near_at, 8);
		memcpy(&old, was, 8);
		memcpy(&now, self->far + far_at, 8);
		if (variant->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
			old += 5;	/* a swap does not come about: it is not 5 */
		EXPECT_EQ(old, now);
	}
}

static void expect_refused(struct __test_metadata *_metadata, SELF, VARIANT,
			   const struct outcome *o, uint8_t code)
{
	bool softhca = self->p.r.softhca;

	EXPECT_EQ(IBV_QPS_ERR, o->a_state);
	EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, o->a_next.status);
	if (softhca)
		EXPECT_EQ(HCA_VS_FLUSHED, o->a_next.vendor_err);
	EXPECT_EQ(-1, differs(self->near, AREA, 1));
	if (variant->part != CS_RESULT && variant->part != FA_RESULT)
		EXPECT_EQ(-1, differs(self->far, AREA, 2));
	if (self->touches_near) {
		EXPECT_EQ(IBV_WC_LOC_PROT_ERR, o->a.status);
		if (softhca)
			EXPECT_EQ(code, o->a.vendor_err);
		EXPECT_EQ(IBV_QPS_RTS, o->b_state);
		return;
	}
	EXPECT_EQ(IBV_QPS_ERR, o->b_state);
	EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, o->b_next.status);
	if (softhca)
		EXPECT_EQ(HCA_VS_FLUSHED, o->b_next.vendor_err);
	if (variant->part == RECV_TARGET) {
		EXPECT_EQ(IBV_WC_REM_OP_ERR, o->a.status);
		EXPECT_EQ(IBV_WC_LOC_PROT_ERR, o->b.status);
		if (softhca) {
			EXPECT_EQ(HCA_VS_NAK_OP, o->a.vendor_err);
			EXPECT_EQ(code, o->b.vendor_err);
		}
		return;
	}
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, o->a.status);
	if (softhca)
		EXPECT_EQ(HCA_VS_NAK_ACCESS, o->a.vendor_err);
	if (variant->part == WRITE_IMM_TARGET) {
		EXPECT_EQ(IBV_WC_LOC_ACCESS_ERR, o->b.status);
		if (softhca)
			EXPECT_EQ(code, o->b.vendor_err);
	} else {
		EXPECT_TRUE(o->b_event);
	}
}

#define ATTEMPT(...)	attempt(_metadata, self, variant, __VA_ARGS__)
#define DONE(...)	expect_done(_metadata, self, variant, __VA_ARGS__)
#define REFUSED(...)	expect_refused(_metadata, self, variant, __VA_ARGS__)

static uint32_t size_of(SELF)
{
	return self->atomic ? 8 : 64;
}

/* The counter in which the refusal by @check is counted, HM 4.7 */
static const char *counter_of(enum hca_check check)
{
	switch (check) {
	case HCA_CHECK_NO_MKC:	return "err_no_mkc";
	case HCA_CHECK_FREE:	return "err_mkc_free";
	case HCA_CHECK_VARIANT:	return "err_variant";
	case HCA_CHECK_PD:	return "err_pd";
	case HCA_CHECK_BOUNDS:	return "err_bounds";
	case HCA_CHECK_LOCAL:	return "err_local_rights";
	case HCA_CHECK_REMOTE:	return "err_remote_rights";
	case HCA_CHECK_ATOMIC:	return "err_atomic_right";
	default:		return "";
	}
}

/* An attempt that must fail, and be counted once, for the reason @check */
static void refuse(struct __test_metadata *_metadata, SELF, VARIANT,
		   uint32_t key, uint64_t addr, uint32_t len,
		   enum hca_check check)
{
	long long before = hw_counter(counter_of(check));
	struct outcome o;

	ATTEMPT(key, addr, len, &o);
	REFUSED(&o, HCA_VS_LEVEL0 | check);
	if (self->p.r.softhca) {
		EXPECT_LE(0, before);
		EXPECT_EQ(before + 1, hw_counter(counter_of(check)));
	}
}

#define REFUSE(...)	refuse(_metadata, self, variant, __VA_ARGS__)

static enum hca_check missing(int right)
{
	switch (right) {
	case IBV_ACCESS_LOCAL_WRITE:
		return HCA_CHECK_LOCAL;
	case IBV_ACCESS_REMOTE_ATOMIC:
		return HCA_CHECK_ATOMIC;
	default:
		return HCA_CHECK_REMOTE;
	}
}

/* All sets of rights that verbs allows: remote changes need local write */
TEST_F(access, rights)
{
	static const int remote[] = {
		IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE,
		IBV_ACCESS_REMOTE_ATOMIC,
	};
	uint64_t at = START + PAGE - 32;	/* over a page edge */
	uint32_t len = size_of(self);
	char *area = tested(self);
	struct ibv_mr *mr;
	struct outcome o;

	for (int set = 0; set < 16; set++) {
		int rights = set & 1 ? IBV_ACCESS_LOCAL_WRITE : 0;

		for (int i = 0; i < 3; i++)
			if (set & 2 << i)
				rights |= remote[i];
		if (!(set & 1) && set & 0xc)
			continue;
		mr = ibv_reg_mr(self->p.pd, area + START, LEN, rights);
		ASSERT_NE(NULL, mr);
		EXPECT_EQ(mr->lkey, mr->rkey);	/* HM-1.1 */
		if ((rights & variant->need) == variant->need) {
			ATTEMPT(mr->lkey, (uintptr_t)area + at, len, &o);
			if (self->touches_near)
				DONE(&o, at, START, len);
			else
				DONE(&o, START, at, len);
		} else {
			REFUSE(mr->lkey, (uintptr_t)area + at, len,
			       missing(variant->need));
		}
		EXPECT_EQ(0, ibv_dereg_mr(mr));
		if (!__test_passed(_metadata)) {
			TH_LOG("with the rights %#x", rights);
			break;
		}
	}
}

TEST_F(access, hm_1_9_hm_1_10_other_pd)
{
	char *area = tested(self);
	struct ibv_mr *mr = ibv_reg_mr(self->other_pd, area + START, LEN,
				       ACCESS_ALL);

	ASSERT_NE(NULL, mr);
	REFUSE(mr->lkey, (uintptr_t)area + START, size_of(self), HCA_CHECK_PD);
	EXPECT_EQ(0, ibv_dereg_mr(mr));
}

/* The order of checks: variant before PD, PD before bounds, rights before bounds */
TEST_F(access, hm_4_17_order)
{
	uint64_t outside = (uintptr_t)self->near - (1ul << 30);
	char *area = tested(self);
	struct ibv_mr *mr = ibv_reg_mr(self->other_pd, area + START, LEN, 0);

	ASSERT_NE(NULL, mr);
	REFUSE(mr->lkey ^ 0x55, (uintptr_t)area + START, size_of(self),
	       HCA_CHECK_VARIANT);
	REFUSE(mr->lkey, outside, size_of(self), HCA_CHECK_PD);
	EXPECT_EQ(0, ibv_dereg_mr(mr));
	if (!variant->need)
		return;
	mr = ibv_reg_mr(self->p.pd, area + START, LEN, 0);
	ASSERT_NE(NULL, mr);
	REFUSE(mr->lkey, outside, size_of(self), missing(variant->need));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
}

TEST_F(access, hm_2_1_wrong_variant)
{
	char *area = tested(self);
	struct ibv_mr *mr = ibv_reg_mr(self->p.pd, area + START, LEN,
				       ACCESS_ALL);

	ASSERT_NE(NULL, mr);
	for (uint32_t bit = 1; bit < 0x100; bit <<= 1)
		REFUSE(mr->lkey ^ bit, (uintptr_t)area + START, size_of(self),
		       HCA_CHECK_VARIANT);
	EXPECT_EQ(0, ibv_dereg_mr(mr));
}

TEST_F(access, hm_2_10_hm_2_12_no_such_key)
{
	/* index 0, the terminator, resd_lkey, the repeated marker, a free index */
	static const uint32_t keys[] = { 0, 0x100, 0x200, 0x400, 0xfffff001 };
	struct outcome o;

	for (unsigned int i = 0; i < ARRAY_SIZE(keys); i++) {
		/* as the only receive segment, 0x100 means: there is none */
		if (variant->part == RECV_TARGET && keys[i] == 0x100)
			continue;
		if (!self->p.r.softhca && variant->part == SEND_SOURCE) {
			ATTEMPT(keys[i], (uintptr_t)self->near + START, 8, &o);
			continue;
		}
		REFUSE(keys[i], (uintptr_t)tested(self) + START, size_of(self),
		       HCA_CHECK_NO_MKC);
	}
}

/* The key of a region that is gone waits in its pool, and has another variant in the next */
TEST_F(access, hm_7_6_stale_key)
{
	char *area = tested(self);
	struct ibv_mr *mr, *next;
	uint32_t stale;

	mr = ibv_reg_mr(self->p.pd, area + START, LEN, ACCESS_ALL);
	ASSERT_NE(NULL, mr);
	stale = mr->lkey;
	ASSERT_EQ(0, ibv_dereg_mr(mr));
	REFUSE(stale, (uintptr_t)area + START, size_of(self), HCA_CHECK_FREE);
	next = ibv_reg_mr(self->p.pd, area + START, LEN, ACCESS_ALL);
	ASSERT_NE(NULL, next);
	EXPECT_NE(stale, next->lkey);
	REFUSE(stale, (uintptr_t)area + START, size_of(self), HCA_CHECK_VARIANT);
	EXPECT_EQ(0, ibv_dereg_mr(next));
}

TEST_F(access, hm_4_2_bounds)
{
	uint32_t len = size_of(self);
	char *area = tested(self);
	uint64_t start = (uintptr_t)area + START;
	uint64_t one = self->atomic ? 8 : 1;	/* atomics must be aligned */
	struct ibv_mr *mr;
	struct outcome o;

	mr = ibv_reg_mr(self->p.pd, area + START, LEN, ACCESS_ALL);
	ASSERT_NE(NULL, mr);
	ATTEMPT(mr->lkey, start, len, &o);
	DONE(&o, START, START, len);
	ATTEMPT(mr->lkey, start + LEN - len, len, &o);	/* HM-4.23 */
	if (self->touches_near)
		DONE(&o, START + LEN - len, START, len);
	else
		DONE(&o, START, START + LEN - len, len);
	REFUSE(mr->lkey, start - one, len, HCA_CHECK_BOUNDS);
	REFUSE(mr->lkey, start + LEN - len + one, len, HCA_CHECK_BOUNDS);
	REFUSE(mr->lkey, start + LEN, len, HCA_CHECK_BOUNDS);
	if (!self->atomic)
		REFUSE(mr->lkey, start, LEN + 1, HCA_CHECK_BOUNDS);
	EXPECT_EQ(0, ibv_dereg_mr(mr));
}

/* Ends that are past 2^64, HM-4.3 and case 1 */
TEST_F(access, case_01_hm_4_3_wrap)
{
	static const uint64_t at[] = { -8ull, -64ull, 1ull << 63, 0 };
	uint32_t len = size_of(self);
	char *area = tested(self);
	struct ibv_mr *mr;

	mr = ibv_reg_mr(self->p.pd, area + START, LEN, ACCESS_ALL);
	ASSERT_NE(NULL, mr);
	for (unsigned int i = 0; i < ARRAY_SIZE(at); i++)
		REFUSE(mr->lkey, at[i], len, HCA_CHECK_BOUNDS);
	EXPECT_EQ(0, ibv_dereg_mr(mr));
}

TEST_HARNESS_MAIN
