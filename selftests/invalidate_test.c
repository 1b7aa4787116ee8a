// SPDX-License-Identifier: GPL-2.0
/*
 * Proves design rule 2 and guarantee G of HM 11.2: once an invalidation has completed,
 * not one byte moves through the key any more. One thread writes through a key without
 * pause; another takes the key away, thousands of times, and paints the memory at once:
 * a write that lands after the completion shows in the paint.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include "kselftest_harness.h"
#include "lib/rdma.h"
#include "lib/mem.h"
#include "lib/mw.h"

#define AT(p)		((uint64_t)(uintptr_t)(p))
#define SIZE		(128ul << 10)
#define DEPTH		8
#define INK		0x77
#define PAINT		0x5a

/* How the key is taken away */
enum how {
	UNBIND,		/* window of type 1, zero-length bind by a third queue pair */
	LOCAL_INV,	/* window of type 2, by the queue pair it is bound to */
	REMOTE_INV,	/* window of type 2, by a message among the writes */
	DEREG_BELOW,	/* the region under a window is deregistered */
	REREG,		/* the region gets other memory */
};

FIXTURE(invalidate) {
	struct pair p;			/* A writes to B */
	struct ibv_qp *c;		/* binds; never connected to A or B */
	struct ibv_qp *d;		/* its peer */
	struct ibv_cq *ccq;
	char *from, *to, *other;
	struct ibv_mr *from_mr, *to_mr;
	struct ibv_mw *mw;
	uint32_t rkey;
	bool go;			/* the writer may begin */
	bool quit;
	int status;			/* of its first failure */
	unsigned long sent;		/* writes that succeeded since then */
};

FIXTURE_VARIANT(invalidate) {
	enum how how;
	unsigned int rounds;
	uint32_t size;			/* of a write */
};

#define HOW(name, ...) FIXTURE_VARIANT_ADD(invalidate, name) { __VA_ARGS__ }
HOW(hm_9_1_type_1_small, UNBIND, 1000, 512);
HOW(hm_9_1_type_1_large, UNBIND, 300, SIZE);
HOW(hm_9_1_type_2_small, LOCAL_INV, 1000, 512);
HOW(hm_9_1_type_2_large, LOCAL_INV, 300, SIZE);
HOW(hm_9_3_remote, REMOTE_INV, 300, 4096);
HOW(hm_11_2_region_below, DEREG_BELOW, 300, SIZE);
HOW(hm_12_4_rereg, REREG, 300, SIZE);

FIXTURE_SETUP(invalidate)
{
	struct qp_cfg cfg = {};

	ASSERT_EQ(0, pair_open(&self->p, &cfg));
	self->ccq = ibv_create_cq(self->p.r.ctx, 64, NULL, NULL, 0);
	ASSERT_NE(NULL, self->ccq);
	self->c = qp_create(self->p.pd, self->ccq, self->ccq, &cfg);
	self->d = qp_create(self->p.pd, self->ccq, self->ccq, &cfg);
	ASSERT_NE(NULL, self->c);
	ASSERT_NE(NULL, self->d);
	ASSERT_EQ(0, qp_connect(&self->p.r, self->c, &cfg, self->d->qp_num));
	self->from = mem_pages(SIZE);
	self->to = mem_pages(SIZE);
	self->other = mem_pages(SIZE);
	ASSERT_NE(NULL, self->from);
	ASSERT_NE(NULL, self->to);
	ASSERT_NE(NULL, self->other);
	memset(self->from, INK, SIZE);
	self->from_mr = ibv_reg_mr(self->p.pd, self->from, SIZE, 0);
	self->to_mr = ibv_reg_mr(self->p.pd, self->to, SIZE,
				 ACCESS_ALL | IBV_ACCESS_MW_BIND);
	self->mw = ibv_alloc_mw(self->p.pd, variant->how == UNBIND ||
				variant->how == DEREG_BELOW ?
				IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
	ASSERT_NE(NULL, self->from_mr);
	ASSERT_NE(NULL, self->to_mr);
	ASSERT_NE(NULL, self->mw);
	self->rkey = self->mw->rkey;
}

FIXTURE_TEARDOWN(invalidate)
{
	if (self->c)
		ibv_destroy_qp(self->c);
	if (self->d)
		ibv_destroy_qp(self->d);
	if (self->ccq)
		ibv_destroy_cq(self->ccq);
	if (self->mw)
		EXPECT_EQ(0, ibv_dealloc_mw(self->mw));
	if (self->to_mr)
		EXPECT_EQ(0, ibv_dereg_mr(self->to_mr));
	if (self->from_mr)
		EXPECT_EQ(0, ibv_dereg_mr(self->from_mr));
	pair_close(&self->p);
	munmap(self->from, SIZE);
	munmap(self->to, SIZE);
	munmap(self->other, SIZE);
}

#define SELF	FIXTURE_DATA(invalidate) *self
#define VARIANT	const FIXTURE_VARIANT(invalidate) *variant

static bool flag(bool *where)
{
	return __atomic_load_n(where, __ATOMIC_ACQUIRE);
}

static unsigned long sent(SELF)
{
	return __atomic_load_n(&self->sent, __ATOMIC_RELAXED);
}

static int write_one(SELF, uint32_t size)
{
	return post(self->p.a, &(struct op){
		.opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED,
		.len = size, .laddr = AT(self->from),
		.lkey = self->from_mr->lkey,
		.raddr = AT(self->to), .rkey = self->rkey,
	});
}

/* Keeps the queue full until a write fails; then every request is accounted for */
static int flood(SELF, uint32_t size)
{
	int outstanding = 0, status = 0;
	struct ibv_wc wc;

	while (!status || outstanding) {
		while (!status && outstanding < DEPTH) {
			if (write_one(self, size))
				return -EIO;
			outstanding++;
		}
		if (wait_wc(self->p.acq, &wc, WAIT_MS) != 1)
			return -ETIMEDOUT;
		outstanding--;
		if (!status)
			status = wc.status;
		if (!wc.status)
			__atomic_add_fetch(&self->sent, 1, __ATOMIC_RELAXED);
	}
	return status;
}

struct writer {
	FIXTURE_DATA(invalidate) *self;
	uint32_t size;
};

static void *writer(void *arg)
{
	FIXTURE_DATA(invalidate) *self = ((struct writer *)arg)->self;
	struct writer *w = arg;

	while (!flag(&self->quit)) {
		if (!flag(&self->go)) {
			sched_yield();
			continue;
		}
		self->status = flood(self, w->size);
		__atomic_store_n(&self->go, false, __ATOMIC_RELEASE);
	}
	return NULL;
}

static int give(SELF, VARIANT)
{
	struct window to = { .mr = self->to_mr, .addr = AT(self->to),
			     .len = SIZE, .access = IBV_ACCESS_REMOTE_WRITE };
	int err;

	switch (variant->how) {
	case UNBIND:
	case DEREG_BELOW:
		err = mw_bind_1(self->c, self->ccq, self->mw, &to, NULL);
		self->rkey = self->mw->rkey;
		return err;
	case LOCAL_INV:
	case REMOTE_INV:
		self->rkey = ibv_inc_rkey(self->rkey);
		return mw_bind_2(self->p.b, self->p.bcq, self->mw, &to,
				 self->rkey, NULL);
	case REREG:
		self->rkey = self->to_mr->rkey;
		return 0;
	}
	return -EINVAL;
}

static int take(SELF, VARIANT)
{
	static const struct window nothing;
	struct ibv_wc wc;
	int err;

	switch (variant->how) {
	case UNBIND:
		return mw_bind_1(self->c, self->ccq, self->mw, &nothing, NULL);
	case LOCAL_INV:
		return local_inv(self->p.b, self->p.bcq, self->rkey, NULL);
	case REMOTE_INV:
		/* Among the writes; it is the receive completion that promises something. */
		err = post_recv(self->p.b, 0, 0, 0, 0);
		if (!err)
			err = post(self->p.a, &(struct op){
				.opcode = IBV_WR_SEND_WITH_INV,
				.imm = self->rkey });
		if (err)
			return err;
		if (wait_wc(self->p.bcq, &wc, WAIT_MS) != 1)
			return -ETIMEDOUT;
		return wc.status;
	case DEREG_BELOW:
		err = ibv_dereg_mr(self->to_mr);
		self->to_mr = NULL;
		return -err;
	case REREG:
		return -ibv_rereg_mr(self->to_mr, IBV_REREG_MR_CHANGE_TRANSLATION,
				     NULL, self->other, SIZE, 0);
	}
	return -EINVAL;
}

/* What is missing for the next round */
static int mend(SELF, VARIANT)
{
	switch (variant->how) {
	case DEREG_BELOW:
		self->to_mr = ibv_reg_mr(self->p.pd, self->to, SIZE,
					 ACCESS_ALL | IBV_ACCESS_MW_BIND);
		return self->to_mr ? 0 : -errno;
	case REREG:
		return -ibv_rereg_mr(self->to_mr, IBV_REREG_MR_CHANGE_TRANSLATION,
				     NULL, self->to, SIZE, 0);
	default:
		return 0;
	}
}

static bool wait_for(SELF, unsigned long writes)
{
	uint64_t end = now_us() + WAIT_MS * 1000;

	while (flag(&self->go) && sent(self) < writes) {
		if (now_us() > end)
			return false;
		sched_yield();
	}
	return flag(&self->go);
}

static bool wait_idle(SELF)
{
	uint64_t end = now_us() + WAIT_MS * 1000;

	while (flag(&self->go)) {
		if (now_us() > end)
			return false;
		sched_yield();
	}
	return true;
}

TEST_F_TIMEOUT(invalidate, hm_11_2_no_byte_lands_after_it, 280)
{
	struct writer w = { .self = self, .size = variant->size };
	unsigned long landed = 0;
	pthread_t thread;

	ASSERT_EQ(0, pthread_create(&thread, NULL, writer, &w));
	for (unsigned int i = 0; i < variant->rounds; i++) {
		ASSERT_EQ(0, give(self, variant));
		self->sent = 0;
		__atomic_store_n(&self->go, true, __ATOMIC_RELEASE);
		ASSERT_TRUE(wait_for(self, 1 + i % 5));
		ASSERT_EQ(0, take(self, variant));
		memset(self->to, PAINT, SIZE);
		ASSERT_TRUE(wait_idle(self));
		ASSERT_EQ(IBV_WC_REM_ACCESS_ERR, self->status);
		landed += sent(self);
		ASSERT_TRUE(all_bytes(self->to, SIZE, PAINT)) {
			TH_LOG("round %u", i);
		}
		ASSERT_EQ(0, mend(self, variant));
		ASSERT_EQ(0, pair_reconnect(&self->p));
	}
	__atomic_store_n(&self->quit, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	EXPECT_LE(variant->rounds, landed);
}

TEST_HARNESS_MAIN
