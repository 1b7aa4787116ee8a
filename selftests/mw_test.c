// SPDX-License-Identifier: GPL-2.0
/*
 * Proves that a memory window gives exactly the access that it was bound for: to its
 * range, with its rights, under its last key, to the queue pairs that may use it, and
 * not one access more after it has been unbound or invalidated, from here or from afar.
 */
#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "kselftest_harness.h"
#include "lib/rdma.h"
#include "lib/mem.h"
#include "lib/mw.h"
#include "lib/look.h"
#include "lib/raw.h"
#include "../include/hca/syndrome.h"

#define LEN	(3 * PAGE)
#define AT(p)	((uint64_t)(uintptr_t)(p))
#define RW	(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)
/* A check of the window, of the region below it */
#define L0(check)	(HCA_VS_LEVEL0 | HCA_CHECK_##check)
#define L1(check)	(HCA_VS_NESTED | HCA_CHECK_##check)

FIXTURE(mw) {
	struct pair p;			/* A asks, B has the windows */
	struct ibv_qp *c, *d;		/* another pair in the same PD */
	struct ibv_cq *ccq;
	char *map, *buf, *from;		/* what windows show; what A writes */
	struct ibv_mr *mr, *from_mr;
};

/* As in HM 14: three pages, not beginning at one */
FIXTURE_SETUP(mw)
{
	struct qp_cfg cfg = { .timeout = 8, .retry_cnt = 2,
			      .rnr_retry = (uint8_t)~0 };

	ASSERT_EQ(0, pair_open(&self->p, &cfg));
	self->ccq = ibv_create_cq(self->p.r.ctx, 64, NULL, NULL, 0);
	ASSERT_NE(NULL, self->ccq);
	self->c = qp_create(self->p.pd, self->ccq, self->ccq, &cfg);
	self->d = qp_create(self->p.pd, self->ccq, self->ccq, &cfg);
	ASSERT_NE(NULL, self->c);
	ASSERT_NE(NULL, self->d);
	ASSERT_EQ(0, qp_connect(&self->p.r, self->c, &cfg, self->d->qp_num));
	ASSERT_EQ(0, qp_connect(&self->p.r, self->d, &cfg, self->c->qp_num));
	self->map = mem_scattered(LEN + PAGE);
	self->from = mem_pages(LEN);
	ASSERT_NE(NULL, self->map);
	ASSERT_NE(NULL, self->from);
	self->buf = self->map + 0xe00;
	memset(self->map, 0, LEN + PAGE);
	fill(self->from, LEN, 7);
	self->mr = ibv_reg_mr(self->p.pd, self->buf, LEN,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	self->from_mr = ibv_reg_mr(self->p.pd, self->from, LEN, ACCESS_ALL);
	ASSERT_NE(NULL, self->mr);
	ASSERT_NE(NULL, self->from_mr);
}

FIXTURE_TEARDOWN(mw)
{
	if (self->c)
		ibv_destroy_qp(self->c);
	if (self->d)
		ibv_destroy_qp(self->d);
	if (self->ccq)
		ibv_destroy_cq(self->ccq);
	if (self->mr)
		EXPECT_EQ(0, ibv_dereg_mr(self->mr));
	if (self->from_mr)
		EXPECT_EQ(0, ibv_dereg_mr(self->from_mr));
	pair_close(&self->p);
	if (self->map)
		munmap(self->map, LEN + PAGE);
	if (self->from)
		munmap(self->from, LEN);
}

#define SELF	FIXTURE_DATA(mw) *self

static int writes(struct ibv_qp *qp, struct ibv_cq *cq, SELF, uint32_t rkey,
		  uint64_t to, uint32_t len)
{
	return run(qp, cq, &(struct op){
		.opcode = IBV_WR_RDMA_WRITE, .len = len,
		.laddr = AT(self->from), .lkey = self->from_mr->lkey,
		.raddr = to, .rkey = rkey,
	}, NULL);
}

/* A writes through @rkey: the status; a failure is mended */
static int a_writes(SELF, uint32_t rkey, uint64_t to, uint32_t len)
{
	int status = writes(self->p.a, self->p.acq, self, rkey, to, len);

	if (status && pair_reconnect(&self->p))
		return -EIO;
	return status;
}

static bool reconnect_cd(SELF)
{
	struct pair cd = {
		.r = self->p.r, .cfg = self->p.cfg,
		.a = self->c, .b = self->d, .acq = self->ccq, .bcq = self->ccq,
	};

	return !pair_reconnect(&cd);
}

/* Which check refuses a remote write to B (or @qp); 0 if none does */
static int refusal(struct ibv_qp *qp, uint32_t rkey, uint64_t va, uint64_t len)
{
	struct shca_explain_step steps[16];
	struct shca_explain_req req = {
		.key = rkey, .va = va, .length = len, .remote = 1,
		.access = SHCA_EXPLAIN_WRITE,
	};
	uint8_t syndrome = 0;
	int n = look_walk(qp, &req, steps, 16, &syndrome);

	return n < 0 ? n : syndrome;
}

/* Both what the requester sees and which check it was; HM 4.7 */
#define EXPECT_REFUSED(code, rkey, va, len) do {			\
	if (self->p.r.softhca)						\
		EXPECT_EQ(code, refusal(self->p.b, rkey, va, len));	\
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, a_writes(self, rkey, va, len)); \
} while (0)

static struct window whole(SELF)
{
	return (struct window){ .mr = self->mr, .addr = AT(self->buf),
				.len = LEN, .access = RW };
}

static int bind_1(SELF, struct ibv_mw *mw, const struct window *to)
{
	return mw_bind_1(self->p.b, self->p.bcq, mw, to, NULL);
}

static int bind_2(SELF, struct ibv_mw *mw, const struct window *to,
		  uint32_t rkey)
{
	return mw_bind_2(self->p.b, self->p.bcq, mw, to, rkey, NULL);
}

static const struct window nothing;

TEST_F(mw, hm_10_12_advertised)
{
	EXPECT_TRUE(self->p.r.attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW);
	EXPECT_TRUE(self->p.r.attr.device_cap_flags &
		    IBV_DEVICE_MEM_WINDOW_TYPE_2B);
	EXPECT_FALSE(self->p.r.attr.device_cap_flags &
		     IBV_DEVICE_MEM_WINDOW_TYPE_2A);
	EXPECT_LT(0, self->p.r.attr.max_mw);
}

TEST_F(mw, hm_10_1_type_1)
{
	struct ibv_mw *mw = ibv_alloc_mw(self->p.pd, IBV_MW_TYPE_1);
	struct window part = whole(self), first;
	uint32_t old;

	ASSERT_NE(NULL, mw);
	EXPECT_REFUSED(L0(FREE), mw->rkey, AT(self->buf), 8);

	part.addr += PAGE;
	part.len = 2000;
	first = part;
	ASSERT_EQ(0, bind_1(self, mw, &part));
	old = mw->rkey;
	EXPECT_EQ(0, a_writes(self, old, part.addr, 2000));
	EXPECT_EQ(-1, differs(self->buf + PAGE, 2000, 7));
	EXPECT_TRUE(all_bytes(self->buf, PAGE, 0));
	EXPECT_TRUE(all_bytes(self->buf + PAGE + 2000, LEN - PAGE - 2000, 0));
	EXPECT_REFUSED(L0(BOUNDS), old, part.addr - 1, 8);
	EXPECT_REFUSED(L0(BOUNDS), old, part.addr + 1993, 8);

	/* bound again while it is bound: only the new key and the new range */
	part.addr = AT(self->buf);
	part.len = 100;
	ASSERT_EQ(0, bind_1(self, mw, &part));
	EXPECT_EQ(old >> 8, mw->rkey >> 8);
	EXPECT_NE(old, mw->rkey);
	EXPECT_REFUSED(L0(VARIANT), old, part.addr, 8);
	EXPECT_EQ(0, a_writes(self, mw->rkey, part.addr, 100));
	EXPECT_REFUSED(L0(BOUNDS), mw->rkey, first.addr, 8);

	ASSERT_EQ(0, bind_1(self, mw, &nothing));
	EXPECT_REFUSED(L0(FREE), mw->rkey, part.addr, 8);
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
}

TEST_F(mw, rights_of_the_window)
{
	struct ibv_mw *mw = ibv_alloc_mw(self->p.pd, IBV_MW_TYPE_1);
	struct window read = whole(self);

	ASSERT_NE(NULL, mw);
	read.access = IBV_ACCESS_REMOTE_READ;
	ASSERT_EQ(0, bind_1(self, mw, &read));
	EXPECT_REFUSED(L0(REMOTE), mw->rkey, read.addr, 8);
	fill(self->buf, LEN, 9);
	EXPECT_EQ(0, run(self->p.a, self->p.acq, &(struct op){
		.opcode = IBV_WR_RDMA_READ, .len = LEN,
		.laddr = AT(self->from), .lkey = self->from_mr->lkey,
		.raddr = read.addr, .rkey = mw->rkey }, NULL));
	EXPECT_EQ(-1, differs(self->from, LEN, 9));
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
}

TEST_F(mw, hm_10_2_type_2_twice)
{
	struct ibv_mw *mw = ibv_alloc_mw(self->p.pd, IBV_MW_TYPE_2);
	struct window to = whole(self);
	uint32_t rkey;
	struct ibv_wc wc;

	ASSERT_NE(NULL, mw);
	rkey = ibv_inc_rkey(mw->rkey);
	ASSERT_EQ(0, bind_2(self, mw, &to, rkey));
	EXPECT_EQ(0, a_writes(self, rkey, to.addr, LEN));
	EXPECT_EQ(-1, differs(self->buf, LEN, 7));
	EXPECT_EQ(IBV_WC_MW_BIND_ERR,
		  mw_bind_2(self->p.b, self->p.bcq, mw, &to,
			    ibv_inc_rkey(rkey), &wc));
	if (self->p.r.softhca)
		EXPECT_EQ(HCA_VS_UMR_NOT_FREE, wc.vendor_err);
	ASSERT_EQ(0, pair_reconnect(&self->p));
	/* what failed has changed nothing */
	EXPECT_EQ(0, a_writes(self, rkey, to.addr, 8));
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
}

TEST_F(mw, hm_10_3_from_another_qp)
{
	struct ibv_mw *one = ibv_alloc_mw(self->p.pd, IBV_MW_TYPE_1);
	struct ibv_mw *two = ibv_alloc_mw(self->p.pd, IBV_MW_TYPE_2);
	struct window to = whole(self);
	uint32_t rkey;

	ASSERT_NE(NULL, one);
	ASSERT_NE(NULL, two);
	rkey = ibv_inc_rkey(two->rkey);
	ASSERT_EQ(0, bind_1(self, one, &to));
	ASSERT_EQ(0, bind_2(self, two, &to, rkey));
	EXPECT_EQ(0, writes(self->c, self->ccq, self, one->rkey, to.addr, 64));
	if (self->p.r.softhca)
		EXPECT_EQ(L0(QPN),
			  refusal(self->d, rkey, to.addr, 64));
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
		  writes(self->c, self->ccq, self, rkey, to.addr, 64));
	EXPECT_EQ(0, a_writes(self, rkey, to.addr, 64));
	EXPECT_EQ(0, ibv_dealloc_mw(one));
	EXPECT_EQ(0, ibv_dealloc_mw(two));
}

TEST_F(mw, hm_10_4_unbind_of_what_was_never_bound)
{
	struct ibv_mw *mw = ibv_alloc_mw(self->p.pd, IBV_MW_TYPE_2);
	struct ibv_wc wc;

	ASSERT_NE(NULL, mw);
	EXPECT_EQ(IBV_WC_MW_BIND_ERR,
		  mw_bind_2(self->p.b, self->p.bcq, mw, &nothing, mw->rkey,
			    &wc));
	if (self->p.r.softhca)
		EXPECT_EQ(HCA_VS_UMR_QPN, wc.vendor_err);
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
}

/* What the region can't give shows at the access, not at the binding */

TEST_F(mw, hm_10_5_beyond_the_region)
{
	struct ibv_mw *mw = ibv_alloc_mw(self->p.pd, IBV_MW_TYPE_1);
	struct window to = whole(self);

	ASSERT_NE(NULL, mw);
	to.len = LEN + 64;
	ASSERT_EQ(0, bind_1(self, mw, &to));
	EXPECT_EQ(0, a_writes(self, mw->rkey, to.addr + LEN - 8, 8));
	EXPECT_REFUSED(L1(BOUNDS), mw->rkey,
		       to.addr + LEN, 8);
	EXPECT_REFUSED(L1(BOUNDS), mw->rkey,
		       to.addr + LEN - 7, 8);
	EXPECT_TRUE(all_bytes(self->buf + LEN,
			      self->map + LEN + PAGE - self->buf - LEN, 0));
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
}

TEST_F(mw, hm_10_6_region_without_local_write)
{
	struct ibv_mw *mw = ibv_alloc_mw(self->p.pd, IBV_MW_TYPE_1);
	struct ibv_mr *mr = ibv_reg_mr(self->p.pd, self->buf, LEN,
				       IBV_ACCESS_MW_BIND);
	struct window to = { .mr = mr, .addr = AT(self->buf), .len = LEN,
			     .access = RW };

	ASSERT_NE(NULL, mw);
	ASSERT_NE(NULL, mr);
	ASSERT_EQ(0, bind_1(self, mw, &to));
	EXPECT_REFUSED(L1(LOCAL), mw->rkey, to.addr, 8);
	EXPECT_TRUE(all_bytes(self->buf, LEN, 0));
	/* a read needs nothing of the region that every region does not have */
	fill(self->buf, LEN, 5);
	EXPECT_EQ(0, run(self->p.a, self->p.acq, &(struct op){
		.opcode = IBV_WR_RDMA_READ, .len = LEN,
		.laddr = AT(self->from), .lkey = self->from_mr->lkey,
		.raddr = to.addr, .rkey = mw->rkey }, NULL));
	EXPECT_EQ(-1, differs(self->from, LEN, 5));
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
}

TEST_F(mw, case_02_hm_10_7_another_pd)
{
	struct ibv_pd *pd = ibv_alloc_pd(self->p.r.ctx);
	struct ibv_mr *mr;

	ASSERT_NE(NULL, pd);
	mr = ibv_reg_mr(pd, self->buf, LEN, ACCESS_ALL | IBV_ACCESS_MW_BIND);
	ASSERT_NE(NULL, mr);
	/* bit 0: type 2; bit 1: a foreign window; bit 2: a foreign region */
	for (int i = 2; i < 8; i++) {
		enum ibv_mw_type type = i & 1 ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1;
		struct ibv_mw *mw = ibv_alloc_mw(i & 2 ? pd : self->p.pd, type);
		bool alike = !(i & 2) == !(i & 4);
		struct window to = whole(self);
		struct ibv_wc wc;
		uint32_t rkey;
		int status;

		ASSERT_NE(NULL, mw);
		rkey = ibv_inc_rkey(mw->rkey);
		if (i & 4)
			to.mr = mr;
		status = type == IBV_MW_TYPE_1 ?
			 mw_bind_1(self->p.b, self->p.bcq, mw, &to, &wc) :
			 mw_bind_2(self->p.b, self->p.bcq, mw, &to, rkey, &wc);
		if (type == IBV_MW_TYPE_1 && !alike) {
			/* libibverbs sees it */
			EXPECT_EQ(-EPERM, status);
		} else if (i & 2) {
			EXPECT_EQ(IBV_WC_MW_BIND_ERR, status);
			if (self->p.r.softhca)
				EXPECT_EQ(HCA_VS_UMR_PD, wc.vendor_err);
			ASSERT_EQ(0, pair_reconnect(&self->p));
		} else {
			/* regions are looked at when they are accessed (HM 10.2) */
			EXPECT_EQ(0, status);
			EXPECT_REFUSED(L1(PD), rkey, to.addr, 8);
			EXPECT_EQ(0, ibv_dealloc_mw(mw));
			continue;
		}
		EXPECT_REFUSED(L0(FREE), rkey, to.addr, 8);
		EXPECT_EQ(0, ibv_dealloc_mw(mw));
	}
	EXPECT_TRUE(all_bytes(self->map, LEN + PAGE, 0));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
	EXPECT_EQ(0, ibv_dealloc_pd(pd));
}

TEST_F(mw, hm_10_8_region_goes_first)
{
	struct ibv_mw *mw = ibv_alloc_mw(self->p.pd, IBV_MW_TYPE_1);
	struct window to = whole(self);
	uint64_t addr = to.addr;
	struct ibv_mr *next;

	ASSERT_NE(NULL, mw);
	ASSERT_EQ(0, bind_1(self, mw, &to));
	EXPECT_EQ(0, a_writes(self, mw->rkey, addr, LEN));
	ASSERT_EQ(0, ibv_dereg_mr(self->mr));
	self->mr = NULL;
	memset(self->map, 0, LEN + PAGE);
	EXPECT_REFUSED(L1(FREE), mw->rkey, addr, 8);

	/* nor does it lead into the next region, which has the same index */
	next = ibv_reg_mr(self->p.pd, self->buf, LEN,
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	ASSERT_NE(NULL, next);
	EXPECT_REFUSED(L1(VARIANT), mw->rkey, addr, 8);
	EXPECT_TRUE(all_bytes(self->map, LEN + PAGE, 0));
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
	EXPECT_EQ(0, ibv_dereg_mr(next));
}

TEST_F(mw, case_19_hm_10_9_same_key_byte)
{
	struct ibv_mw *one = ibv_alloc_mw(self->p.pd, IBV_MW_TYPE_2);
	struct ibv_mw *two = ibv_alloc_mw(self->p.pd, IBV_MW_TYPE_2);
	struct window to = whole(self);
	uint32_t key1, key2;

	ASSERT_NE(NULL, one);
	ASSERT_NE(NULL, two);
	key1 = (one->rkey & ~0xff) | 0x42;
	key2 = (two->rkey & ~0xff) | 0x42;
	EXPECT_NE(key1, key2);
	to.len = PAGE;
	ASSERT_EQ(0, bind_2(self, one, &to, key1));
	to.addr += PAGE;
	ASSERT_EQ(0, bind_2(self, two, &to, key2));
	EXPECT_EQ(0, a_writes(self, key1, AT(self->buf), PAGE));
	EXPECT_EQ(0, a_writes(self, key2, AT(self->buf) + PAGE, PAGE));
	EXPECT_EQ(-1, differs(self->buf, PAGE, 7));
	EXPECT_EQ(-1, differs(self->buf + PAGE, PAGE, 7));

	/* and the same byte again, once the window has been invalidated */
	ASSERT_EQ(0, local_inv(self->p.b, self->p.bcq, key1, NULL));
	EXPECT_REFUSED(L0(FREE), key1, AT(self->buf), 8);
	ASSERT_EQ(0, bind_2(self, one, &to, key1));
	EXPECT_EQ(0, a_writes(self, key1, to.addr, 8));
	EXPECT_EQ(0, ibv_dealloc_mw(one));
	EXPECT_EQ(0, ibv_dealloc_mw(two));
}

TEST_F(mw, hm_10_10_zero_based)
{
	struct ibv_mw *mw = ibv_alloc_mw(self->p.pd, IBV_MW_TYPE_2);
	struct window to = whole(self);
	uint32_t rkey;

	ASSERT_NE(NULL, mw);
	rkey = ibv_inc_rkey(mw->rkey);
	to.addr += 100;
	to.len = PAGE;
	to.access |= IBV_ACCESS_ZERO_BASED;
	ASSERT_EQ(0, bind_2(self, mw, &to, rkey));
	EXPECT_EQ(0, a_writes(self, rkey, 0, PAGE));
	EXPECT_EQ(-1, differs(self->buf + 100, PAGE, 7));
	EXPECT_TRUE(all_bytes(self->buf, 100, 0));
	EXPECT_TRUE(all_bytes(self->buf + 100 + PAGE, LEN - PAGE - 100, 0));
	EXPECT_REFUSED(L0(BOUNDS), rkey, PAGE - 7, 8);
	EXPECT_REFUSED(L0(BOUNDS), rkey, to.addr, 8);
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
}

TEST_F(mw, hm_10_11_atomic)
{
	struct ibv_mw *mw = ibv_alloc_mw(self->p.pd, IBV_MW_TYPE_1);
	struct window to = whole(self);
	uint64_t *word = (uint64_t *)self->buf;

	ASSERT_NE(NULL, mw);
	to.access = IBV_ACCESS_REMOTE_ATOMIC;
	ASSERT_EQ(0, bind_1(self, mw, &to));
	*word = 40;
	EXPECT_EQ(0, run(self->p.a, self->p.acq, &(struct op){
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .len = 8, .cmp_add = 2,
		.laddr = AT(self->from), .lkey = self->from_mr->lkey,
		.raddr = to.addr, .rkey = mw->rkey }, NULL));
	EXPECT_EQ(42, *word);
	EXPECT_EQ(40, *(uint64_t *)self->from);
	EXPECT_REFUSED(L0(REMOTE), mw->rkey, to.addr, 8);
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
}

TEST_F(mw, hm_10_13_qp_goes_first)
{
	struct ibv_mw *mw = ibv_alloc_mw(self->p.pd, IBV_MW_TYPE_2);
	struct window to = whole(self);

	ASSERT_NE(NULL, mw);
	ASSERT_EQ(0, mw_bind_2(self->d, self->ccq, mw, &to,
			       ibv_inc_rkey(mw->rkey), NULL));
	EXPECT_EQ(0, ibv_destroy_qp(self->d));
	self->d = NULL;
	EXPECT_REFUSED(L0(QPN), ibv_inc_rkey(mw->rkey), to.addr, 8);
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
}

TEST_F(mw, pd_with_a_window_stays)
{
	struct ibv_pd *pd = ibv_alloc_pd(self->p.r.ctx);
	struct ibv_mw *mw;

	ASSERT_NE(NULL, pd);
	mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	ASSERT_NE(NULL, mw);
	EXPECT_EQ(EBUSY, ibv_dealloc_pd(pd));
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
	EXPECT_EQ(0, ibv_dealloc_pd(pd));
}

/* Case 1: the end of a window may not wrap */
TEST_F(mw, case_01_wrap)
{
	struct ibv_mw *mw = ibv_alloc_mw(self->p.pd, IBV_MW_TYPE_2);
	struct window to = { .mr = self->mr, .addr = -4096ull, .len = 4097,
			     .access = RW };
	uint32_t rkey;
	struct ibv_wc wc;

	ASSERT_NE(NULL, mw);
	rkey = ibv_inc_rkey(mw->rkey);
	EXPECT_EQ(IBV_WC_MW_BIND_ERR,
		  mw_bind_2(self->p.b, self->p.bcq, mw, &to, rkey, &wc));
	if (self->p.r.softhca)
		EXPECT_EQ(HCA_VS_UMR_VALUE, wc.vendor_err);
	ASSERT_EQ(0, pair_reconnect(&self->p));

	/* up to the last byte it is legal, and an access that wraps is not */
	to.len = 4096;
	ASSERT_EQ(0, bind_2(self, mw, &to, rkey));
	EXPECT_REFUSED(L0(BOUNDS), rkey, -8ull, 16);
	EXPECT_REFUSED(L1(BOUNDS), rkey, -8ull, 8);
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
}

/* Invalidation */

TEST_F(mw, hm_9_1_hm_9_2_local)
{
	struct ibv_mw *mw = ibv_alloc_mw(self->p.pd, IBV_MW_TYPE_2);
	struct window to = whole(self);
	uint32_t rkey;

	ASSERT_NE(NULL, mw);
	rkey = mw->rkey;
	for (int i = 0; i < 300; i++) {
		uint32_t old = rkey;

		/* all 256 variants, and around */
		rkey = ibv_inc_rkey(rkey);
		ASSERT_EQ(0, bind_2(self, mw, &to, rkey));
		ASSERT_EQ(0, writes(self->p.a, self->p.acq, self, rkey, to.addr,
				    64));
		if (i % 50 == 0)
			EXPECT_REFUSED(L0(VARIANT), old, to.addr, 8);
		ASSERT_EQ(0, local_inv(self->p.b, self->p.bcq, rkey, NULL));
		if (i % 50 == 0)
			EXPECT_REFUSED(L0(FREE), rkey, to.addr, 8);
	}
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
}

/* A sends with invalidation; @len bytes to @at of the region */
static int send_inv(SELF, uint32_t rkey, uint32_t len)
{
	struct op send = {
		.opcode = IBV_WR_SEND_WITH_INV, .len = len, .imm = rkey,
		.laddr = AT(self->from), .lkey = self->from_mr->lkey,
		.flags = IBV_SEND_SIGNALED,
	};

	return post(self->p.a, &send);
}

TEST_F(mw, hm_9_3_hm_9_9_remote)
{
	struct ibv_mw *mw = ibv_alloc_mw(self->p.pd, IBV_MW_TYPE_2);
	struct window to = whole(self);
	struct ibv_wc wc;
	uint32_t rkey;

	ASSERT_NE(NULL, mw);
	rkey = mw->rkey;
	for (int i = 0; i < 50; i++) {
		rkey = ibv_inc_rkey(rkey);
		ASSERT_EQ(0, bind_2(self, mw, &to, rkey));
		ASSERT_EQ(0, writes(self->p.a, self->p.acq, self, rkey, to.addr,
				    64));
		memset(self->buf, 0, LEN);
		fill(self->from, LEN, i);
		ASSERT_EQ(0, post_recv(self->p.b, i, AT(self->buf), LEN,
				       self->mr->lkey));
		ASSERT_EQ(0, send_inv(self, rkey, LEN));
		ASSERT_EQ(1, wait_wc(self->p.bcq, &wc, WAIT_MS));
		/* the payload was there before */
		EXPECT_EQ(-1, differs(self->buf, LEN, i));
		EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
		EXPECT_EQ(IBV_WC_RECV, wc.opcode);
		EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_INV);
		EXPECT_EQ(rkey, wc.invalidated_rkey);
		EXPECT_EQ(LEN, wc.byte_len);
		ASSERT_EQ(0, wait_good(self->p.acq, 1));
		if (i % 10 == 0)
			EXPECT_REFUSED(L0(FREE), rkey, to.addr, 8);
	}
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
}

TEST_F(mw, hm_9_4_what_cannot_be_invalidated)
{
	struct ibv_mw *one = ibv_alloc_mw(self->p.pd, IBV_MW_TYPE_1);
	struct ibv_mw *two = ibv_alloc_mw(self->p.pd, IBV_MW_TYPE_2);
	struct window to = whole(self);
	uint32_t rkey;

	ASSERT_NE(NULL, one);
	ASSERT_NE(NULL, two);
	rkey = ibv_inc_rkey(two->rkey);
	ASSERT_EQ(0, bind_1(self, one, &to));
	ASSERT_EQ(0, mw_bind_2(self->d, self->ccq, two, &to, rkey, NULL));

	struct { uint32_t rkey; uint8_t vendor; } bad[] = {
		{ NO_KEY, HCA_VS_INVAL_KEY },
		{ one->rkey, HCA_VS_INVAL_RIGHT },
		{ self->mr->rkey, HCA_VS_INVAL_RIGHT },
		{ rkey, HCA_VS_INVAL_QPN },
	};
	for (int i = 0; i < 4; i++) {
		struct ibv_wc wc;

		ASSERT_EQ(0, post_recv(self->p.b, i, AT(self->buf), LEN,
				       self->mr->lkey));
		ASSERT_EQ(0, send_inv(self, bad[i].rkey, 64));
		ASSERT_EQ(1, wait_wc(self->p.bcq, &wc, WAIT_MS));
		EXPECT_EQ(IBV_WC_MW_BIND_ERR, wc.status);
		if (self->p.r.softhca)
			EXPECT_EQ(bad[i].vendor, wc.vendor_err);
		/* nobody tells the requester */
		ASSERT_EQ(1, wait_wc(self->p.acq, &wc, WAIT_MS));
		EXPECT_EQ(IBV_WC_RETRY_EXC_ERR, wc.status);
		ASSERT_EQ(0, pair_reconnect(&self->p));
	}
	/* all of them live on */
	EXPECT_EQ(0, a_writes(self, one->rkey, to.addr, 8));
	EXPECT_EQ(0, writes(self->c, self->ccq, self, rkey, to.addr, 8));
	EXPECT_EQ(0, ibv_dealloc_mw(one));
	EXPECT_EQ(0, ibv_dealloc_mw(two));
}

TEST_F(mw, hm_9_5_no_receive)
{
	struct ibv_mw *mw = ibv_alloc_mw(self->p.pd, IBV_MW_TYPE_2);
	struct window to = whole(self);
	struct ibv_wc wc;
	uint32_t rkey;

	ASSERT_NE(NULL, mw);
	rkey = ibv_inc_rkey(mw->rkey);
	ASSERT_EQ(0, bind_2(self, mw, &to, rkey));
	ASSERT_EQ(0, send_inv(self, rkey, 64));
	ASSERT_EQ(1, wait_wc(self->p.acq, &wc, WAIT_MS));
	EXPECT_EQ(IBV_WC_RNR_RETRY_EXC_ERR, wc.status);
	ASSERT_EQ(0, pair_reconnect(&self->p));
	EXPECT_EQ(0, a_writes(self, rkey, to.addr, 8));
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
}

TEST_F(mw, hm_9_6_only_this_one)
{
	struct ibv_mw *one = ibv_alloc_mw(self->p.pd, IBV_MW_TYPE_2);
	struct ibv_mw *two = ibv_alloc_mw(self->p.pd, IBV_MW_TYPE_2);
	struct window to = whole(self);
	uint32_t key1, key2;
	struct ibv_wc wc;

	ASSERT_NE(NULL, one);
	ASSERT_NE(NULL, two);
	key1 = ibv_inc_rkey(one->rkey);
	key2 = ibv_inc_rkey(two->rkey);
	ASSERT_EQ(0, bind_2(self, one, &to, key1));
	ASSERT_EQ(0, bind_2(self, two, &to, key2));
	ASSERT_EQ(0, local_inv(self->p.b, self->p.bcq, key1, NULL));
	EXPECT_REFUSED(L0(FREE), key1, to.addr, 8);
	EXPECT_EQ(0, a_writes(self, key2, to.addr, LEN));
	EXPECT_EQ(-1, differs(self->buf, LEN, 7));
	/* the region too: a receive goes into it */
	ASSERT_EQ(0, post_recv(self->p.b, 1, to.addr, LEN, self->mr->lkey));
	ASSERT_EQ(0, send_inv(self, key2, 100));
	ASSERT_EQ(1, wait_wc(self->p.bcq, &wc, WAIT_MS));
	EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
	EXPECT_EQ(0, ibv_dealloc_mw(one));
	EXPECT_EQ(0, ibv_dealloc_mw(two));
}

/* LOCAL_INV as the kernel writes it: free, and nothing else (HM 8.9) */
static int kernel_inv(SELF, struct raw *r, uint32_t key, struct raw_cqe *cqe)
{
	struct mlx5_wqe_umr_ctrl_seg *umr;
	struct raw_wqe w;

	raw_begin(&w, r, MLX5_OPCODE_UMR, MLX5_WQE_CTRL_CQ_UPDATE);
	w.ctrl.imm = htobe32(key);
	umr = (void *)(w.bytes + w.len);
	umr->flags = MLX5_WQE_UMR_CTRL_FLAG_INLINE;
	umr->mkey_mask = htobe64(MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE);
	w.len += sizeof(*umr);
	w.bytes[w.len] = MLX5_WQE_MKEY_CONTEXT_FREE;
	w.len += sizeof(struct mlx5_wqe_mkey_context_seg);
	raw_post(r, &w);
	return raw_wait(r, cqe, WAIT_MS);
}

TEST_F(mw, hm_9_7_free_window)
{
	struct ibv_mw *mw = ibv_alloc_mw(self->p.pd, IBV_MW_TYPE_2);
	struct raw_cqe cqe;
	struct ibv_wc wc;
	struct raw r;

	ASSERT_NE(NULL, mw);
	EXPECT_EQ(IBV_WC_MW_BIND_ERR,
		  local_inv(self->p.b, self->p.bcq, mw->rkey, &wc));
	if (!self->p.r.softhca)
		SKIP(goto out, "not softhca");
	EXPECT_EQ(HCA_VS_UMR_QPN, wc.vendor_err);
	ASSERT_EQ(0, raw_open(&r, self->c, self->ccq));
	ASSERT_EQ(1, kernel_inv(self, &r, mw->rkey, &cqe));
	EXPECT_EQ(MLX5_CQE_REQ, cqe.opcode);
out:
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
}

TEST_F(mw, hm_9_8_from_another_qp)
{
	struct ibv_mw *mw = ibv_alloc_mw(self->p.pd, IBV_MW_TYPE_2);
	struct window to = whole(self);
	struct ibv_wc wc;
	uint32_t rkey;

	ASSERT_NE(NULL, mw);
	rkey = ibv_inc_rkey(mw->rkey);
	ASSERT_EQ(0, bind_2(self, mw, &to, rkey));
	EXPECT_EQ(IBV_WC_MW_BIND_ERR, local_inv(self->c, self->ccq, rkey, &wc));
	if (self->p.r.softhca)
		EXPECT_EQ(HCA_VS_UMR_QPN, wc.vendor_err);
	ASSERT_TRUE(reconnect_cd(self));
	EXPECT_EQ(0, a_writes(self, rkey, to.addr, 8));
	EXPECT_EQ(0, local_inv(self->p.b, self->p.bcq, rkey, NULL));
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
}

TEST_HARNESS_MAIN
