// SPDX-License-Identifier: GPL-2.0
/*
 * Proves that a region whose pages come on demand is its process's memory as it is now:
 * an access finds what the process finds at that address, waits where the process would
 * wait, and fails where the process would be killed, on the right side and for good.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "lib/harness.h"
#include "lib/access.h"
#include "lib/look.h"
#include "lib/mem.h"
#include "lib/sys.h"
#include "lib/mw.h"
#include "lib/uffd.h"
#include "../include/hca/syndrome.h"

#define PAGES		16
#define LEN		(PAGES * PAGE)
#define AT(p)		((uint64_t)(uintptr_t)(p))
#define ODP		(ACCESS_ALL | IBV_ACCESS_ON_DEMAND)
#define BIG		(16ul << 20)
#define PLENTY		(1ul << 20)	/* of the pinned side */

/* Vendor syndromes of an access whose page cannot be had (HM 6.5) */
#define VENDOR_LOCAL	0x93
#define VENDOR_REMOTE	0x88
#define VENDOR_RECV	0x89

FIXTURE(odp) {
	struct pair p;
	struct other o;
	char *buf;			/* LEN bytes that nobody has touched */
	struct ibv_mr *mr;		/* over them, all rights, on demand */
	int uffd;
};

FIXTURE_SETUP(odp)
{
	struct ibv_device_attr_ex attr;
	struct qp_cfg cfg = { .timeout = 8, .retry_cnt = 1,
			      .send_sge = 16, .recv_sge = 16 };

	self->uffd = -1;
	ASSERT_EQ(0, pair_open(&self->p, &cfg));
	ASSERT_EQ(0, ibv_query_device_ex(self->p.r.ctx, NULL, &attr));
	if (!(attr.odp_caps.general_caps & IBV_ODP_SUPPORT))
		SKIP(return, "no on-demand paging");
	ASSERT_EQ(0, other_open(&self->o, &self->p, PLENTY));
	self->buf = mem_pages(LEN);
	ASSERT_NE(NULL, self->buf);
	self->mr = ibv_reg_mr(self->p.pd, self->buf, LEN, ODP);
	ASSERT_NE(NULL, self->mr);
}

FIXTURE_TEARDOWN(odp)
{
	if (self->uffd >= 0)
		close(self->uffd);
	if (self->mr)
		EXPECT_EQ(0, ibv_dereg_mr(self->mr));
	if (self->buf)
		munmap(self->buf, LEN);
	other_close(&self->o);
	pair_close(&self->p);
}

#define SELF	FIXTURE_DATA(odp) *self

static long long faults(void)
{
	return hw_counter("page_fault");
}

static struct ibv_mr *reg(SELF, void *p, size_t len, int access)
{
	return ibv_reg_mr(self->p.pd, p, len, access | IBV_ACCESS_ON_DEMAND);
}

/* A writes @seed's bytes through @mr to where the process has @p, and the process looks */
static int writes(SELF, struct ibv_mr *mr, void *p, uint32_t len, uint64_t seed)
{
	return access_check(&self->o, WRITE_TO, mr->rkey, AT(p), p, len, seed);
}

static int reads(SELF, struct ibv_mr *mr, void *p, uint32_t len, uint64_t seed)
{
	return access_check(&self->o, READ_FROM, mr->rkey, AT(p), p, len, seed);
}

/* The access must fail as HM 6.5 says. @vendor too, where softhca says it. */
static bool fails(SELF, enum access_kind access, uint32_t key, uint64_t addr, uint32_t len)
{
	struct ibv_wc wc = {}, bwc = {};
	int status = access_run(&self->o, access, key, addr, len, &wc, &bwc);
	bool ours = self->p.r.softhca, good;

	if (access == RECV_TO)
		good = status == IBV_WC_REM_OP_ERR && bwc.status == IBV_WC_LOC_PROT_ERR &&
		       (!ours || (wc.vendor_err == VENDOR_RECV && bwc.vendor_err == VENDOR_LOCAL));
	else if (access_is_remote(access))
		good = status == IBV_WC_REM_ACCESS_ERR &&
		       (!ours || wc.vendor_err == VENDOR_REMOTE);
	else
		good = status == IBV_WC_LOC_PROT_ERR &&
		       (!ours || wc.vendor_err == VENDOR_LOCAL);
	if (!good)
		printf("# access %u: status %d vendor %#x, receive %d vendor %#x\n", access,
		       status, wc.vendor_err, bwc.status, bwc.vendor_err);
	drop_wcs(self->p.acq);
	drop_wcs(self->p.bcq);
	return !pair_reconnect(&self->p) && good;
}

/* Every kind of access, to pages that are there but not yet in the table */
FIXTURE(every) {
	FIXTURE_DATA(odp) odp;
};
FIXTURE_VARIANT(every) {
	enum access_kind access;
};
#define KIND(name, kind) FIXTURE_VARIANT_ADD(every, name) { .access = kind }
KIND(send, SEND_FROM);
KIND(write_from, WRITE_FROM);
KIND(read_source, READ_FROM);
KIND(receive, RECV_TO);
KIND(write_target, WRITE_TO);
KIND(read_result, READ_TO);
KIND(atomic_target, ATOMIC_AT);
KIND(atomic_result, ATOMIC_TO);

FIXTURE_SETUP(every)
{
	odp_setup(_metadata, &self->odp, NULL);
}

FIXTURE_TEARDOWN(every)
{
	odp_teardown(_metadata, &self->odp, NULL);
}

#define ACCESS_LEN(access)	((access) == ATOMIC_AT || (access) == ATOMIC_TO ? 8 : LEN - 64)

TEST_F(every, hm_6_1_hm_6_2_absent_pages)
{
	FIXTURE_DATA(odp) *odp = &self->odp;
	uint32_t len = ACCESS_LEN(variant->access);
	long long before = faults();

	if (access_reads(variant->access))
		fill(odp->buf + 32, len, 3);
	EXPECT_EQ(0, access_check(&odp->o, variant->access, odp->mr->lkey,
				  AT(odp->buf) + 32, odp->buf + 32, len, 3));
	if (odp->p.r.softhca) {
		EXPECT_GT(faults(), before);
		/* now it is all there */
		before = faults();
		EXPECT_EQ(0, access_check(&odp->o, variant->access, odp->mr->lkey,
					  AT(odp->buf) + 32, odp->buf + 32, len, 3));
		EXPECT_EQ(before, faults());
	}
}

TEST_F(every, hm_6_6_nothing_there)
{
	FIXTURE_DATA(odp) *odp = &self->odp;
	uint32_t len = ACCESS_LEN(variant->access);

	ASSERT_EQ(0, munmap(odp->buf, LEN));
	EXPECT_TRUE(fails(odp, variant->access, odp->mr->lkey, AT(odp->buf), len));
	/* and it goes on as soon as there is */
	ASSERT_EQ(odp->buf, mmap(odp->buf, LEN, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
	if (access_reads(variant->access))
		fill(odp->buf, len, 4);
	EXPECT_EQ(0, access_check(&odp->o, variant->access, odp->mr->lkey,
				  AT(odp->buf), odp->buf, len, 4));
}

/* The page comes long after timeout and retries would have ended (67 ms, once) */
TEST_F(every, hm_6_14_it_may_take_its_time)
{
	FIXTURE_DATA(odp) *odp = &self->odp;
	uint32_t len = variant->access == ATOMIC_AT || variant->access == ATOMIC_TO ? 8 : PAGE;
	struct ibv_wc wc;
	char page[PAGE];

	fill(page, PAGE, 5);
	odp->uffd = uffd_open(odp->buf, LEN);
	ASSERT_LE(0, odp->uffd);
	fill(odp->o.buf, PAGE, 6);
	ASSERT_EQ(0, access_post(&odp->o, variant->access, odp->mr->lkey,
				 AT(odp->buf), len));
	ASSERT_EQ(AT(odp->buf), uffd_next(odp->uffd, WAIT_MS));
	EXPECT_EQ(0, wait_wc(odp->p.acq, &wc, 400));
	ASSERT_EQ(0, uffd_give(odp->uffd, AT(odp->buf), page));
	EXPECT_EQ(0, access_wait(&odp->o, variant->access, NULL, NULL));
	if (access_reads(variant->access)) {
		EXPECT_EQ(-1, differs(odp->o.buf, len, 5));
	} else {
		/* an atomic changes 8 bytes of the page that was given */
		if (len == PAGE)
			EXPECT_EQ(-1, differs(odp->buf, len, 6));
		EXPECT_EQ(len == PAGE, differs_at(odp->buf + 8, PAGE - 8, 5, 8) >= 0);
	}
}

/* Holes of every length: what is there is moved, then the next hole is met */
TEST_F(odp, hm_6_3_many_faults_in_one_message)
{
	for (unsigned int step = 2; step < 5; step++) {
		EXPECT_EQ(0, madvise(self->buf, LEN, MADV_DONTNEED));
		for (unsigned int i = 0; i < PAGES; i += step)
			self->buf[i * PAGE] = 1;
		EXPECT_EQ(0, writes(self, self->mr, self->buf + 5, LEN - 10, step));
		EXPECT_EQ(0, madvise(self->buf, LEN, MADV_DONTNEED));
		EXPECT_EQ(0, access_check(&self->o, READ_TO, self->mr->lkey,
					  AT(self->buf) + 5, self->buf + 5, LEN - 10, step));
	}
}

/* A page at a time, each when the test says so: nothing behind a hole is touched before */
TEST_F(odp, hm_6_3_what_is_committed_has_been_moved)
{
	char zero[PAGE] = {};

	self->uffd = uffd_open(self->buf, LEN);
	ASSERT_LE(0, self->uffd);
	fill(self->o.buf, LEN, 8);
	ASSERT_EQ(0, access_post(&self->o, WRITE_TO, self->mr->rkey, AT(self->buf), LEN));
	for (unsigned int i = 0; i < PAGES; i++) {
		ASSERT_EQ(AT(self->buf) + i * PAGE, uffd_next(self->uffd, WAIT_MS));
		ASSERT_EQ(0, uffd_give(self->uffd, AT(self->buf) + i * PAGE, zero));
	}
	EXPECT_EQ(0, access_wait(&self->o, WRITE_TO, NULL, NULL));
	EXPECT_EQ(-1, differs(self->buf, LEN, 8));
}

/* Larger than what one fault brings in, on both sides at once */
TEST_F(odp, hm_6_2_both_sides_absent)
{
	char *from = mem_pages(BIG), *to = mem_pages(BIG);
	struct ibv_mr *from_mr, *to_mr;
	struct op op = { .len = BIG };

	ASSERT_TRUE(from && to);
	from_mr = reg(self, from, BIG, ACCESS_ALL);
	to_mr = reg(self, to, BIG, ACCESS_ALL);
	ASSERT_TRUE(from_mr && to_mr);
	fill(from, BIG, 9);
	op.laddr = AT(from);
	op.lkey = from_mr->lkey;
	op.raddr = AT(to);
	op.rkey = to_mr->rkey;
	op.opcode = IBV_WR_RDMA_WRITE;
	EXPECT_EQ(0, run(self->p.a, self->p.acq, &op, NULL));
	EXPECT_EQ(-1, differs(to, BIG, 9));
	ibv_dereg_mr(from_mr);
	ibv_dereg_mr(to_mr);
	munmap(from, BIG);
	munmap(to, BIG);
}

/* A list over on-demand and pinned regions by turns */
TEST_F(odp, hm_6_2_lists)
{
	struct ibv_sge sg[8];
	struct op op = { .opcode = IBV_WR_SEND, .sg = sg, .sges = 8, .len = 1 };
	struct ibv_recv_wr wr = { .sg_list = sg, .num_sge = 8 }, *bad;
	const uint32_t piece = PAGE + 24;

	for (int i = 0; i < 8; i++) {
		bool odp = i & 1;
		char *at = (odp ? self->buf : self->o.buf) + (i / 2) * 4 * PAGE - (i ? 12 : 0);

		at = at < (odp ? self->buf : self->o.buf) ? at + 12 : at;
		sg[i] = (struct ibv_sge){ AT(at), piece, odp ? self->mr->lkey : self->o.mr->lkey };
	}
	/* gather */
	for (int i = 0; i < 8; i++)
		fill((void *)sg[i].addr, piece, 20 + i);
	ASSERT_EQ(0, post_recv(self->p.b, 0, AT(self->o.buf) + 32 * PAGE, 8 * piece,
			       self->o.mr->lkey));
	EXPECT_EQ(0, run(self->p.a, self->p.acq, &op, NULL));
	EXPECT_EQ(0, wait_good(self->p.bcq, 1));
	for (int i = 0; i < 8; i++)
		EXPECT_EQ(-1, differs(self->o.buf + 32 * PAGE + i * piece, piece, 20 + i));
	/* scatter the same back, where all is gone */
	ASSERT_EQ(0, madvise(self->buf, LEN, MADV_DONTNEED));
	memset(self->o.buf, 0, 32 * PAGE);
	ASSERT_EQ(0, ibv_post_recv(self->p.b, &wr, &bad));
	op = (struct op){ .opcode = IBV_WR_SEND, .laddr = AT(self->o.buf) + 32 * PAGE,
			  .len = 8 * piece, .lkey = self->o.mr->lkey };
	EXPECT_EQ(0, run(self->p.a, self->p.acq, &op, NULL));
	EXPECT_EQ(0, wait_good(self->p.bcq, 1));
	for (int i = 0; i < 8; i++)
		EXPECT_EQ(-1, differs((void *)sg[i].addr, piece, 20 + i));
}

/* A message that is shorter than its receive: what it does not reach may be missing */
TEST_F(odp, hm_6_6_beyond_a_short_message)
{
	struct op op = { .opcode = IBV_WR_SEND, .laddr = AT(self->o.buf),
			 .lkey = self->o.mr->lkey, .len = 3 * PAGE };

	fill(self->o.buf, 3 * PAGE, 30);
	ASSERT_EQ(0, munmap(self->buf + 8 * PAGE, LEN - 8 * PAGE));
	ASSERT_EQ(0, post_recv(self->p.b, 0, AT(self->buf), LEN, self->mr->lkey));
	EXPECT_EQ(0, run(self->p.a, self->p.acq, &op, NULL));
	EXPECT_EQ(0, wait_good(self->p.bcq, 1));
	EXPECT_EQ(-1, differs(self->buf, 3 * PAGE, 30));
}

/* What a key forbids is refused, and nobody is asked for pages */
TEST_F(odp, hm_6_5_no_fault_for_what_is_forbidden)
{
	struct ibv_mr *readable = reg(self, self->buf, LEN, IBV_ACCESS_REMOTE_READ);
	struct ibv_pd *pd = ibv_alloc_pd(self->p.r.ctx);
	struct ibv_mr *foreign = ibv_reg_mr(pd, self->buf, LEN, ODP);
	struct {
		uint32_t rkey;
		uint64_t addr;
	} wrong[] = {
		{ readable->rkey, AT(self->buf) },
		{ foreign->rkey, AT(self->buf) },
		{ self->mr->rkey ^ 1, AT(self->buf) },
		{ self->mr->rkey, AT(self->buf) + LEN - PAGE + 1 },
		{ self->mr->rkey, AT(self->buf) - 1 },
		{ self->mr->rkey, -PAGE + 1 },
	};
	long long before = faults();

	ASSERT_TRUE(readable && foreign);
	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
			  access_run(&self->o, WRITE_TO, wrong[i].rkey, wrong[i].addr, PAGE,
				     NULL, NULL));
		ASSERT_EQ(0, pair_reconnect(&self->p));
	}
	if (self->p.r.softhca)
		EXPECT_EQ(before, faults());
	EXPECT_EQ(0, ibv_dereg_mr(readable));
	EXPECT_EQ(0, ibv_dereg_mr(foreign));
	EXPECT_EQ(0, ibv_dealloc_pd(pd));
}

TEST_F(odp, hm_6_7_case_10_read_only_mapping)
{
	struct ibv_mr *readable;

	fill(self->buf, LEN, 40);
	ASSERT_EQ(0, mprotect(self->buf, LEN, PROT_READ));
	readable = reg(self, self->buf, LEN, IBV_ACCESS_REMOTE_READ);
	ASSERT_NE(NULL, readable);
	/* taken away, so that faults must bring it back: a read only wants to read */
	ASSERT_EQ(0, madvise(self->buf, LEN, MADV_PAGEOUT));
	EXPECT_EQ(0, reads(self, readable, self->buf, LEN, 40));
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
		  access_run(&self->o, WRITE_TO, readable->rkey, AT(self->buf), 8, NULL, NULL));
	ASSERT_EQ(0, pair_reconnect(&self->p));
	/* the region of all rights: a write to it can not be had */
	EXPECT_TRUE(fails(self, WRITE_TO, self->mr->rkey, AT(self->buf), LEN));
	EXPECT_EQ(-1, differs(self->buf, LEN, 40));
	/* and what it can not have for writing it does not read, once it is gone */
	ASSERT_EQ(0, madvise(self->buf, LEN, MADV_DONTNEED));
	EXPECT_TRUE(fails(self, READ_FROM, self->mr->rkey, AT(self->buf), LEN));
	ASSERT_EQ(0, mprotect(self->buf, LEN, PROT_READ | PROT_WRITE));
	EXPECT_EQ(0, writes(self, self->mr, self->buf, LEN, 41));
	EXPECT_EQ(0, ibv_dereg_mr(readable));
}

TEST_F(odp, hm_6_6_mprotect)
{
	EXPECT_EQ(0, writes(self, self->mr, self->buf, LEN, 42));
	ASSERT_EQ(0, mprotect(self->buf + PAGE, PAGE, PROT_NONE));
	EXPECT_TRUE(fails(self, READ_FROM, self->mr->rkey, AT(self->buf), LEN));
	EXPECT_TRUE(fails(self, WRITE_TO, self->mr->rkey, AT(self->buf) + PAGE, 8));
	EXPECT_EQ(0, reads(self, self->mr, self->buf, PAGE, 42));
	ASSERT_EQ(0, mprotect(self->buf + PAGE, PAGE, PROT_READ));
	EXPECT_TRUE(fails(self, WRITE_TO, self->mr->rkey, AT(self->buf) + PAGE, 8));
	ASSERT_EQ(0, mprotect(self->buf + PAGE, PAGE, PROT_READ | PROT_WRITE));
	EXPECT_EQ(0, reads(self, self->mr, self->buf, LEN, 42));
	EXPECT_EQ(0, writes(self, self->mr, self->buf, LEN, 43));
}

TEST_F(odp, case_8_hm_6_19_other_addresses)
{
	const uint64_t iova = 0x100000000ull + AT(self->buf) % PAGE;
	struct ibv_mr *mr;

	mr = ibv_reg_mr_iova(self->p.pd, self->buf, LEN, iova, ODP);
	ASSERT_NE(NULL, mr);
	for (int i = PAGES / 2; i < PAGES; i++)
		EXPECT_EQ(0, access_check(&self->o, WRITE_TO, mr->rkey, iova + i * PAGE + 0x10,
					  self->buf + i * PAGE + 0x10, PAGE - 0x10, i));
	EXPECT_EQ(0, access_check(&self->o, WRITE_TO, mr->rkey, iova, self->buf, LEN, 50));
	/* another page of its own for each of the two addresses of a byte */
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
		  access_run(&self->o, WRITE_TO, mr->rkey, AT(self->buf), 8, NULL, NULL));
	ASSERT_EQ(0, pair_reconnect(&self->p));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
	/* a byte has one place in its page */
	EXPECT_EQ(NULL, ibv_reg_mr_iova(self->p.pd, self->buf, LEN, iova + 1, ODP));
	EXPECT_EQ(EINVAL, errno);
}

TEST_F(odp, case_8_hm_12_8_implicit_has_no_other_address)
{
	EXPECT_EQ(NULL, ibv_reg_mr_iova(self->p.pd, NULL, SIZE_MAX, PAGE, ODP));
	EXPECT_EQ(EINVAL, errno);
}

/* HM 12.1: a table that is out of the reach of UMR */
TEST_F(odp, hm_12_2_out_of_the_reach_of_umr)
{
	const size_t len = 256ul << 20;
	char *p = mem_pages(len);
	int err = softhca_parameter("umr_ext_offset", "N");

	if (err == -ENOENT)
		SKIP(return, "not softhca");
	ASSERT_EQ(0, err);
	EXPECT_EQ(NULL, reg(self, p, len, ACCESS_ALL));
	EXPECT_EQ(EINVAL, errno);
	ASSERT_EQ(0, softhca_parameter("umr_ext_offset", "Y"));
	struct ibv_mr *mr = reg(self, p, len, ACCESS_ALL);

	ASSERT_NE(NULL, mr);
	EXPECT_EQ(0, writes(self, mr, p + len - PAGE, PAGE, 1));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
	munmap(p, len);
}

TEST_F(odp, case_9_unaligned)
{
	static const struct {
		unsigned int first, len, pages;
	} part[] = {
		{ 1, PAGE, 2 }, { PAGE - 1, 2, 2 }, { 0xe00, 3 * PAGE, 4 }, { 0xfff, 1, 1 },
		{ 8, 8 * PAGE - 8, 8 }, { 8, 8 * PAGE, 9 },
	};

	for (unsigned int i = 0; i < sizeof(part) / sizeof(part[0]); i++) {
		char *p = self->buf + part[i].first;
		struct ibv_mr *mr = reg(self, p, part[i].len, ACCESS_ALL);
		struct look look;

		ASSERT_NE(NULL, mr);
		if (!look_mr(mr, &look)) {
			/* keys come from pools in powers of two */
			EXPECT_LE((part[i].pages + 1) / 2, look.octwords);
			EXPECT_GT(2 * part[i].pages + 8, look.octwords);
			EXPECT_EQ(AT(p), look.start);
			EXPECT_EQ(part[i].len, look.len);
			EXPECT_EQ(12, look.log_page_size);
		}
		EXPECT_EQ(0, writes(self, mr, p, part[i].len, i));
		EXPECT_EQ(0, writes(self, mr, p + part[i].len - 1, 1, i));
		EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
			  access_run(&self->o, READ_FROM, mr->rkey, AT(p) + part[i].len - 1, 2,
				     NULL, NULL));
		ASSERT_EQ(0, pair_reconnect(&self->p));
		EXPECT_EQ(0, ibv_dereg_mr(mr));
	}
}

TEST_F(odp, case_1_addresses_that_wrap)
{
	struct ibv_mr *mr;

	EXPECT_EQ(NULL, ibv_reg_mr_iova(self->p.pd, self->buf, LEN, -PAGE, ODP));
	EXPECT_EQ(NULL, reg(self, (void *)-PAGE, 2 * PAGE, ACCESS_ALL));
	/* the last page of the address space is a page like any other */
	mr = ibv_reg_mr_iova(self->p.pd, self->buf, PAGE, -PAGE, ODP);

	ASSERT_NE(NULL, mr);
	EXPECT_EQ(0, access_check(&self->o, WRITE_TO, mr->rkey, -PAGE, self->buf, PAGE, 60));
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
		  access_run(&self->o, WRITE_TO, mr->rkey, -8, 16, NULL, NULL));
	ASSERT_EQ(0, pair_reconnect(&self->p));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
}

/* No byte is in it, on demand or not, wherever in a page it begins */
TEST_F(odp, hm_4_2_empty_region)
{
	for (int on_demand = 0; on_demand < 2; on_demand++) {
		struct ibv_mr *mr = ibv_reg_mr(self->p.pd, self->buf + 8, 0,
					       on_demand ? ODP : ACCESS_ALL);

		if (!mr)
			continue;
		EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
			  access_run(&self->o, WRITE_TO, mr->rkey, AT(self->buf) + 8, 1,
				     NULL, NULL));
		ASSERT_EQ(0, pair_reconnect(&self->p));
		EXPECT_EQ(0, ibv_dereg_mr(mr));
	}
}

/* Nothing is pinned, so nothing counts against RLIMIT_MEMLOCK */
TEST_F(odp, hm_6_1_nothing_is_pinned)
{
	long before = pinned_kib();
	struct ibv_mr *mr = reg(self, self->buf, LEN, ACCESS_ALL);

	ASSERT_NE(NULL, mr);
	EXPECT_EQ(0, writes(self, mr, self->buf, LEN, 1));
	EXPECT_EQ(before, pinned_kib());
	EXPECT_EQ(0, ibv_dereg_mr(mr));
}

/* The page is another one now, and the old one is not touched */
TEST_F(odp, hm_6_8_case_27_another_page)
{
	int fd = memfd_create("odp", 0);
	char *p, *view;
	struct ibv_mr *mr;

	ASSERT_EQ(0, ftruncate(fd, 8 * PAGE));
	view = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, view);
	ASSERT_NE(MAP_FAILED, p);
	mr = reg(self, p, 4 * PAGE, ACCESS_ALL);
	ASSERT_NE(NULL, mr);
	for (unsigned int i = 0; i < 50; i++) {
		unsigned int half = i & 1, other = !half;

		fill(view + other * 4 * PAGE, 4 * PAGE, 1000 + i);
		ASSERT_EQ(p, mmap(p, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
				  fd, half * 4 * PAGE));
		EXPECT_EQ(0, writes(self, mr, p, 4 * PAGE, i));
		EXPECT_EQ(-1, differs(view + half * 4 * PAGE, 4 * PAGE, i));
		EXPECT_EQ(-1, differs(view + other * 4 * PAGE, 4 * PAGE, 1000 + i));
	}
	/* and pages of nobody */
	ASSERT_EQ(p, mmap(p, 4 * PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	EXPECT_EQ(0, access_run(&self->o, READ_FROM, mr->rkey, AT(p), 4 * PAGE, NULL, NULL));
	EXPECT_TRUE(all_bytes(self->o.buf, 4 * PAGE, 0));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
	munmap(p, 4 * PAGE);
	munmap(view, 8 * PAGE);
	close(fd);
}

TEST_F(odp, hm_6_8_dontneed)
{
	for (unsigned int i = 0; i < 20; i++) {
		EXPECT_EQ(0, writes(self, self->mr, self->buf, LEN, i));
		ASSERT_EQ(0, madvise(self->buf + 3 * PAGE, 2 * PAGE, MADV_DONTNEED));
		EXPECT_EQ(0, access_run(&self->o, READ_FROM, self->mr->rkey, AT(self->buf), LEN,
					NULL, NULL));
		EXPECT_TRUE(all_bytes(self->o.buf + 3 * PAGE, 2 * PAGE, 0));
		EXPECT_EQ(-1, differs(self->o.buf, 3 * PAGE, i));
		EXPECT_EQ(-1, differs_at(self->o.buf + 5 * PAGE, LEN - 5 * PAGE, i, 5 * PAGE));
	}
}

/* Copy-on-write: the region is the parent's, whoever breaks the sharing */
TEST_F(odp, hm_6_8_case_25_fork)
{
	int go[2], done[2], status;
	char c = 0;
	pid_t child;

	EXPECT_EQ(0, writes(self, self->mr, self->buf, LEN, 70));
	ASSERT_EQ(0, pipe(go));
	ASSERT_EQ(0, pipe(done));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		/* half is written here first, half by the HCA */
		memset(self->buf, 0x99, LEN / 2);
		if (write(done[1], &c, 1) != 1 || read(go[0], &c, 1) != 1)
			_exit(2);
		_exit(!all_bytes(self->buf, LEN / 2, 0x99) ||
		      differs_at(self->buf + LEN / 2, LEN / 2, 70, LEN / 2) >= 0);
	}
	ASSERT_EQ(1, read(done[0], &c, 1));
	EXPECT_EQ(0, reads(self, self->mr, self->buf, LEN, 70));
	EXPECT_EQ(0, writes(self, self->mr, self->buf, LEN, 71));
	ASSERT_EQ(1, write(go[1], &c, 1));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, reads(self, self->mr, self->buf, LEN, 71));
	close(go[0]);
	close(go[1]);
	close(done[0]);
	close(done[1]);
}

TEST_F(odp, hm_6_8_huge_pages_split)
{
	char *p = mem_thp(2 * HUGE);
	struct ibv_mr *mr;
	struct look look;

	if (!p)
		SKIP(return, "no transparent huge pages to be had");
	mr = reg(self, p, 2 * HUGE, ACCESS_ALL);
	ASSERT_NE(NULL, mr);
	if (!look_mr(mr, &look))
		EXPECT_EQ(12, look.log_page_size);
	EXPECT_EQ(0, writes(self, mr, p + HUGE - PLENTY / 2, PLENTY, 80));
	ASSERT_EQ(0, mprotect(p + 5 * PAGE, PAGE, PROT_READ));
	ASSERT_EQ(0, madvise(p + 7 * PAGE, PAGE, MADV_DONTNEED));
	EXPECT_EQ(0, writes(self, mr, p + 6 * PAGE, 200 * PAGE, 81));
	EXPECT_EQ(0, reads(self, mr, p + HUGE, PAGE, 0) == 0 ? 0 :
		  differs_at(p + HUGE - PLENTY / 2, PLENTY, 80, 0) >= 0);
	ASSERT_EQ(0, mprotect(p + 5 * PAGE, PAGE, PROT_READ | PROT_WRITE));
	/* and together again */
	madvise(p, 2 * HUGE, 25 /* MADV_COLLAPSE */);
	EXPECT_EQ(0, reads(self, mr, p + 6 * PAGE, 200 * PAGE, 81));
	EXPECT_EQ(0, writes(self, mr, p, PLENTY, 82));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
	munmap(p, 2 * HUGE);
}

/* The page moves to another frame: soft-offlining migrates it, whatever the machine is */
TEST_F(odp, hm_6_8_migration)
{
	uint64_t before[4], after[4];

	EXPECT_EQ(0, writes(self, self->mr, self->buf, 4 * PAGE, 90));
	if (!mem_frames(self->buf, 4, before))
		SKIP(return, "only root sees frames");
	for (int i = 0; i < 4; i++)
		ASSERT_EQ(0, madvise(self->buf + i * PAGE, PAGE, 101 /* MADV_SOFT_OFFLINE */));
	EXPECT_EQ(0, reads(self, self->mr, self->buf, 4 * PAGE, 90));
	EXPECT_EQ(0, writes(self, self->mr, self->buf, 4 * PAGE, 91));
	ASSERT_TRUE(mem_frames(self->buf, 4, after));
	for (int i = 0; i < 4; i++)
		EXPECT_NE(before[i], after[i]);
}

TEST_F(odp, hm_6_8_compaction)
{
	EXPECT_EQ(0, writes(self, self->mr, self->buf, LEN, 92));
	if (write_file("/proc/sys/vm/compact_memory", "1"))
		SKIP(return, "compaction is not ours to ask for");
	EXPECT_EQ(0, reads(self, self->mr, self->buf, LEN, 92));
	EXPECT_EQ(0, writes(self, self->mr, self->buf, LEN, 93));
}

static bool shell(const char *command)
{
	return !system(command);
}

static bool swapped(const void *p)
{
	int fd = open("/proc/self/pagemap", O_RDONLY);
	uint64_t entry = 0;

	if (pread(fd, &entry, 8, (uintptr_t)p / PAGE * 8) != 8)
		entry = 0;
	close(fd);
	return entry >> 62 & 1;
}

TEST_F_TIMEOUT(odp, hm_6_8_swap, 60)
{
	char *p = mem_pages(PLENTY);
	struct ibv_mr *mr = reg(self, p, PLENTY, ACCESS_ALL);
	unsigned int out = 0;

	ASSERT_NE(NULL, mr);
	if (!shell("modprobe brd rd_nr=1 rd_size=65536 && mkswap /dev/ram0 >/dev/null 2>&1 && swapon /dev/ram0"))
		SKIP(return, "no swap space can be made");
	for (unsigned int i = 0; i < 5; i++) {
		EXPECT_EQ(0, writes(self, mr, p, PLENTY, i));
		madvise(p, PLENTY, MADV_PAGEOUT);
		for (unsigned int page = 0; page < PLENTY / PAGE; page++)
			out += swapped(p + page * PAGE);
		EXPECT_EQ(0, reads(self, mr, p, PLENTY, i));
		madvise(p, PLENTY, MADV_PAGEOUT);
		EXPECT_EQ(0, access_check(&self->o, SEND_FROM, mr->lkey, AT(p), p, PLENTY, i));
	}
	/* those that were touched last may not go at once */
	EXPECT_LT(PLENTY / PAGE, out);
	EXPECT_TRUE(shell("swapoff /dev/ram0 && rmmod brd"));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
	munmap(p, PLENTY);
}

TEST_F(odp, hm_6_6_truncated_file)
{
	int fd = memfd_create("odp", 0);
	struct ibv_mr *mr;
	char *p;

	ASSERT_EQ(0, ftruncate(fd, LEN));
	p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, p);
	mr = reg(self, p, LEN, ACCESS_ALL);
	ASSERT_NE(NULL, mr);
	EXPECT_EQ(0, writes(self, mr, p, LEN, 100));
	ASSERT_EQ(0, ftruncate(fd, 4 * PAGE));
	EXPECT_EQ(0, reads(self, mr, p, 4 * PAGE, 100));
	EXPECT_TRUE(fails(self, READ_FROM, mr->rkey, AT(p), LEN));
	EXPECT_TRUE(fails(self, WRITE_TO, mr->rkey, AT(p) + 4 * PAGE, 8));
	ASSERT_EQ(0, ftruncate(fd, LEN));
	EXPECT_EQ(0, writes(self, mr, p, LEN, 101));
	/* a hole punched in the middle reads as zeros */
	ASSERT_EQ(0, fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, PAGE, PAGE));
	EXPECT_EQ(0, access_run(&self->o, READ_FROM, mr->rkey, AT(p), LEN, NULL, NULL));
	EXPECT_TRUE(all_bytes(self->o.buf + PAGE, PAGE, 0));
	EXPECT_EQ(-1, differs_at(self->o.buf + 2 * PAGE, LEN - 2 * PAGE, 101, 2 * PAGE));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
	munmap(p, LEN);
	close(fd);
}

/* Same-page merging (the kernel's KSM): a write goes to one of the two */
TEST_F_TIMEOUT(odp, hm_6_8_merged_pages, 60)
{
	uint64_t one[1], two[1];

	if (!shell("echo 1000 >/sys/kernel/mm/ksm/pages_to_scan && echo 1 >/sys/kernel/mm/ksm/run"))
		SKIP(return, "no same-page merging");
	fill(self->buf, PAGE, 110);
	fill(self->buf + PAGE, PAGE, 110);
	ASSERT_EQ(0, madvise(self->buf, 2 * PAGE, MADV_MERGEABLE));
	EXPECT_EQ(0, reads(self, self->mr, self->buf, PAGE, 110));
	for (int ms = 0; ms < WAIT_MS; ms += 20) {
		ASSERT_TRUE(mem_frames(self->buf, 1, one));
		ASSERT_TRUE(mem_frames(self->buf + PAGE, 1, two));
		if (one[0] == two[0])
			break;
		usleep(20000);
	}
	EXPECT_EQ(one[0], two[0]);
	EXPECT_EQ(0, reads(self, self->mr, self->buf + PAGE, PAGE, 110));
	EXPECT_EQ(0, writes(self, self->mr, self->buf, PAGE, 111));
	EXPECT_EQ(-1, differs(self->buf + PAGE, PAGE, 110));
	EXPECT_EQ(0, reads(self, self->mr, self->buf + PAGE, PAGE, 110));
	EXPECT_TRUE(shell("echo 0 >/sys/kernel/mm/ksm/run"));
}

#define QPS	24

/* Queue pairs that all meet the same missing page, or each another one */
TEST_F_TIMEOUT(odp, hm_6_10_many_queue_pairs, 60)
{
	struct pair pair[QPS];
	char page[PAGE];
	struct ibv_wc wc;

	for (int i = 0; i < QPS; i++) {
		pair[i] = (struct pair){ .r = self->p.r, .pd = self->p.pd };
		pair[i].acq = ibv_create_cq(self->p.r.ctx, 16, NULL, NULL, 0);
		pair[i].bcq = pair[i].acq;
		ASSERT_NE(NULL, pair[i].acq);
		pair[i].a = qp_create(self->p.pd, pair[i].acq, pair[i].acq, &self->p.cfg);
		pair[i].b = qp_create(self->p.pd, pair[i].acq, pair[i].acq, &self->p.cfg);
		ASSERT_TRUE(pair[i].a && pair[i].b);
		ASSERT_EQ(0, qp_connect(&self->p.r, pair[i].a, &self->p.cfg, pair[i].b->qp_num));
		ASSERT_EQ(0, qp_connect(&self->p.r, pair[i].b, &self->p.cfg, pair[i].a->qp_num));
	}
	self->uffd = uffd_open(self->buf, LEN);
	ASSERT_LE(0, self->uffd);
	for (int i = 0; i < QPS; i++)
		fill(self->o.buf + i * PAGE, PAGE, i);
	/* 8 bytes of their own in the first 8 pages each */
	for (int i = 0; i < QPS; i++)
		ASSERT_EQ(0, post(pair[i].a, &(struct op){
			.opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED, .len = 8,
			.laddr = AT(self->o.buf) + i * PAGE, .lkey = self->o.mr->lkey,
			.raddr = AT(self->buf) + i % 8 * PAGE + i * 8, .rkey = self->mr->rkey,
		}));
	ASSERT_NE(0, uffd_next(self->uffd, WAIT_MS));
	/* all of them wait, and who wants nothing of them does not */
	for (int i = 0; i < 20; i++)
		EXPECT_EQ(0, access_run(&self->o, WRITE_TO, self->o.mr->rkey,
					AT(self->o.buf) + PLENTY / 2, 64 << 10, NULL, NULL));
	for (int i = 0; i < QPS; i++)
		EXPECT_EQ(0, wait_wc(pair[i].acq, &wc, 0));
	memset(page, 0, PAGE);
	for (int i = 0; i < 8; i++)
		ASSERT_EQ(0, uffd_give(self->uffd, AT(self->buf) + i * PAGE, page));
	for (int i = 0; i < QPS; i++) {
		EXPECT_EQ(0, wait_good(pair[i].acq, 1));
		EXPECT_EQ(0, memcmp(self->buf + i % 8 * PAGE + i * 8, self->o.buf + i * PAGE, 8));
	}
	for (int i = 0; i < QPS; i++) {
		ibv_destroy_qp(pair[i].a);
		ibv_destroy_qp(pair[i].b);
		ibv_destroy_cq(pair[i].acq);
	}
}

/* A queue pair goes while it waits: nothing is left over, and the page may still come */
TEST_F(odp, hm_6_13_destroyed_while_it_waits)
{
	char page[PAGE] = {};
	struct ibv_wc wc;

	self->uffd = uffd_open(self->buf, LEN);
	ASSERT_LE(0, self->uffd);
	for (int i = 0; i < 4; i++) {
		enum access_kind access = i & 1 ? WRITE_TO : READ_TO;

		ASSERT_EQ(0, access_post(&self->o, access, self->mr->lkey,
					 AT(self->buf) + i * PAGE, 64));
		ASSERT_EQ(AT(self->buf) + i * PAGE, uffd_next(self->uffd, WAIT_MS));
		if (i < 2) {
			/* to error: flushed */
			ASSERT_EQ(0, qp_to(self->p.a, IBV_QPS_ERR));
			ASSERT_EQ(1, wait_wc(self->p.acq, &wc, WAIT_MS));
			EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, wc.status);
			ASSERT_EQ(0, pair_reconnect(&self->p));
		} else {
			ASSERT_EQ(0, ibv_destroy_qp(self->p.a));
			self->p.a = qp_create(self->p.pd, self->p.acq, self->p.acq, &self->p.cfg);
			ASSERT_NE(NULL, self->p.a);
			ASSERT_EQ(0, qp_to(self->p.b, IBV_QPS_RESET));
			ASSERT_EQ(0, qp_connect(&self->p.r, self->p.a, &self->p.cfg,
						self->p.b->qp_num));
			ASSERT_EQ(0, qp_connect(&self->p.r, self->p.b, &self->p.cfg,
						self->p.a->qp_num));
		}
		ASSERT_EQ(0, uffd_give(self->uffd, AT(self->buf) + i * PAGE, page));
		EXPECT_EQ(0, writes(self, self->mr, self->buf + i * PAGE, PAGE, i));
	}
}

/* The process dies while its faults wait for a page that only it could give */
TEST_F_TIMEOUT(odp, hm_6_13_case_29_killed_in_mid_fault, 60)
{
	int ready[2], status;
	char c = 0;

	for (int round = 0; round < 5; round++) {
		pid_t child;

		ASSERT_EQ(0, pipe(ready));
		child = fork();
		ASSERT_LE(0, child);
		if (!child) {
			struct other o;
			struct ibv_mr *mr;
			struct pair p;
			char *buf = mem_pages(LEN);
			int fd;

			if (pair_open(&p, NULL) || other_open(&o, &p, LEN))
				_exit(1);
			mr = round & 1 ? ibv_reg_mr(p.pd, NULL, SIZE_MAX, ODP) :
					 ibv_reg_mr(p.pd, buf, LEN, ODP);
			fd = uffd_open(buf, LEN);
			if (!mr || fd < 0 ||
			    access_post(&o, WRITE_TO, mr->rkey, AT(buf), LEN) ||
			    !uffd_next(fd, WAIT_MS) || write(ready[1], &c, 1) != 1)
				_exit(1);
			pause();
		}
		close(ready[1]);
		ASSERT_EQ(1, read(ready[0], &c, 1));
		close(ready[0]);
		kill(child, SIGKILL);
		ASSERT_EQ(child, waitpid(child, &status, 0));
		EXPECT_TRUE(WIFSIGNALED(status));
	}
	EXPECT_EQ(0, writes(self, self->mr, self->buf, LEN, 120));
}

/* An event for an access through a window has the window's key: the driver looks below */
TEST_F(odp, hm_6_4_below_a_window)
{
	struct ibv_mr *mr = ibv_reg_mr(self->p.pd, self->buf, LEN,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND |
				       IBV_ACCESS_ON_DEMAND);
	struct window w = { .mr = mr, .addr = AT(self->buf) + PAGE, .len = 4 * PAGE,
			    .access = ACCESS_REMOTE };
	struct ibv_mw *one = ibv_alloc_mw(self->p.pd, IBV_MW_TYPE_1);
	struct ibv_mw *two = ibv_alloc_mw(self->p.pd, IBV_MW_TYPE_2);
	uint32_t rkey;

	ASSERT_TRUE(mr && one && two);
	ASSERT_EQ(0, mw_bind_1(self->p.b, self->p.bcq, one, &w, NULL));
	EXPECT_EQ(0, access_check(&self->o, WRITE_TO, one->rkey, AT(self->buf) + PAGE + 8,
				  self->buf + PAGE + 8, 3 * PAGE, 130));
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
		  access_run(&self->o, WRITE_TO, one->rkey, AT(self->buf), 8, NULL, NULL));
	ASSERT_EQ(0, pair_reconnect(&self->p));

	ASSERT_EQ(0, madvise(self->buf, LEN, MADV_DONTNEED));
	w.access |= IBV_ACCESS_ZERO_BASED;
	rkey = ibv_inc_rkey(two->rkey);
	ASSERT_EQ(0, mw_bind_2(self->p.b, self->p.bcq, two, &w, rkey, NULL));
	EXPECT_EQ(0, access_check(&self->o, WRITE_TO, rkey, PAGE - 8,
				  self->buf + 2 * PAGE - 8, 16, 131));
	/* the page below it is none, and that shows on the right side */
	ASSERT_EQ(0, munmap(self->buf + 4 * PAGE, PAGE));
	EXPECT_TRUE(fails(self, WRITE_TO, rkey, 3 * PAGE, 64));
	EXPECT_EQ(0, ibv_dealloc_mw(one));
	EXPECT_EQ(0, ibv_dealloc_mw(two));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
}

TEST_F(odp, hm_12_4_rereg)
{
	struct ibv_pd *pd = ibv_alloc_pd(self->p.r.ctx);
	char *other = mem_pages(LEN);

	ASSERT_TRUE(pd && other);
	EXPECT_EQ(0, writes(self, self->mr, self->buf, LEN, 140));
	/* rights, in place */
	ASSERT_EQ(0, ibv_rereg_mr(self->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND));
	EXPECT_EQ(0, reads(self, self->mr, self->buf, LEN, 140));
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
		  access_run(&self->o, WRITE_TO, self->mr->rkey, AT(self->buf), 8, NULL, NULL));
	ASSERT_EQ(0, pair_reconnect(&self->p));
	ASSERT_EQ(0, ibv_rereg_mr(self->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ODP));
	ASSERT_EQ(0, madvise(self->buf, LEN, MADV_DONTNEED));
	EXPECT_EQ(0, writes(self, self->mr, self->buf, LEN, 141));
	/* protection domain */
	ASSERT_EQ(0, ibv_rereg_mr(self->mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0));
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
		  access_run(&self->o, READ_FROM, self->mr->rkey, AT(self->buf), 8, NULL, NULL));
	ASSERT_EQ(0, pair_reconnect(&self->p));
	ASSERT_EQ(0, ibv_rereg_mr(self->mr, IBV_REREG_MR_CHANGE_PD, self->p.pd, NULL, 0, 0));
	/* other memory, on demand and pinned */
	ASSERT_EQ(0, ibv_rereg_mr(self->mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, other, LEN, 0));
	EXPECT_EQ(0, writes(self, self->mr, other, LEN, 142));
	EXPECT_EQ(-1, differs(self->buf, LEN, 141));
	ASSERT_EQ(0, ibv_rereg_mr(self->mr, IBV_REREG_MR_CHANGE_TRANSLATION |
				  IBV_REREG_MR_CHANGE_ACCESS, NULL, self->buf, LEN, ACCESS_ALL));
	EXPECT_EQ(0, writes(self, self->mr, self->buf, LEN, 143));
	EXPECT_EQ(-1, differs(other, LEN, 142));
	EXPECT_EQ(0, ibv_dealloc_pd(pd));
	munmap(other, LEN);
}

static int advise(SELF, int advice, int flags, struct ibv_mr *mr, void *p, uint32_t len)
{
	struct ibv_sge sge = { .addr = AT(p), .length = len, .lkey = mr->lkey };

	return ibv_advise_mr(self->p.pd, advice, flags, &sge, 1);
}
#define FLUSH	IBV_ADVISE_MR_FLAG_FLUSH

/* Pages that were advised are not faulted for */
TEST_F(odp, hm_6_17_prefetch)
{
	long long before = faults();

	EXPECT_EQ(0, advise(self, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, FLUSH, self->mr,
			    self->buf + 8, LEN - 16));
	EXPECT_EQ(0, writes(self, self->mr, self->buf, LEN, 150));
	if (self->p.r.softhca)
		EXPECT_EQ(before, faults());
	/* for reading: a write faults once more */
	ASSERT_EQ(0, madvise(self->buf, LEN, MADV_DONTNEED));
	EXPECT_EQ(0, advise(self, IBV_ADVISE_MR_ADVICE_PREFETCH, FLUSH, self->mr, self->buf, LEN));
	EXPECT_EQ(0, access_run(&self->o, READ_FROM, self->mr->rkey, AT(self->buf), LEN,
				NULL, NULL));
	EXPECT_TRUE(all_bytes(self->o.buf, LEN, 0));
	if (self->p.r.softhca)
		EXPECT_EQ(before, faults());
	EXPECT_EQ(0, writes(self, self->mr, self->buf, LEN, 151));
	if (self->p.r.softhca)
		EXPECT_LT(before, faults());
}

TEST_F(odp, hm_6_17_prefetch_no_fault)
{
	struct look look;

	/* three of the pages are there */
	for (int i = 1; i < 4; i++)
		self->buf[3 * i * PAGE] = i;
	EXPECT_EQ(0, advise(self, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, FLUSH, self->mr,
			    self->buf, LEN));
	if (!look_mr(self->mr, &look))
		for (int i = 0; i < PAGES; i++)
			EXPECT_EQ(i && i % 3 == 0 && i < 12, (look.mtt[i] & 3) == 3);
}

/* Without FLUSH it happens some time; the region may go before that */
TEST_F(odp, hm_6_17_prefetch_later)
{
	struct look look;
	int ms = 0;

	EXPECT_EQ(0, advise(self, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, self->mr,
			    self->buf, LEN));
	do {
		if (look_mr(self->mr, &look))
			SKIP(return, "not softhca");
		if ((look.mtt[PAGES - 1] & 3) == 3)
			break;
		usleep(10000);
		ms += 10;
	} while (ms < WAIT_MS);
	EXPECT_LT(ms, WAIT_MS);
	for (int i = 0; i < 200; i++) {
		struct ibv_mr *mr = reg(self, self->buf, LEN, ACCESS_ALL);

		ASSERT_NE(NULL, mr);
		ASSERT_EQ(0, madvise(self->buf, LEN, MADV_DONTNEED));
		EXPECT_EQ(0, advise(self, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, mr,
				    self->buf, LEN));
		ASSERT_EQ(0, ibv_dereg_mr(mr));
	}
}

TEST_F(odp, case_14_hm_6_17_bad_advice)
{
	struct ibv_pd *pd = ibv_alloc_pd(self->p.r.ctx);
	struct ibv_mr *foreign = ibv_reg_mr(pd, self->buf, LEN, ODP);
	struct ibv_mr *readable = reg(self, self->buf, LEN, IBV_ACCESS_REMOTE_READ);
	struct ibv_sge two[2] = {
		{ AT(self->buf), PAGE, self->mr->lkey },
		{ AT(self->buf), PAGE, self->mr->lkey ^ 0x100000 },
	};
	const int write = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	struct look look;

	ASSERT_TRUE(foreign && readable);
	for (int flags = 0; flags <= FLUSH; flags += FLUSH) {
		EXPECT_EQ(EPERM, advise(self, write, flags, foreign, self->buf, PAGE));
		EXPECT_EQ(EPERM, advise(self, write, flags, readable, self->buf, PAGE));
		EXPECT_EQ(0, advise(self, IBV_ADVISE_MR_ADVICE_PREFETCH, flags, readable,
				    self->buf, PAGE));
		/* pinned, and unknown */
		EXPECT_EQ(ENOENT, advise(self, write, flags, self->o.mr, self->o.buf, PAGE));
		EXPECT_EQ(ENOENT, ibv_advise_mr(self->p.pd, write, flags, two, 2));
	}
	/* beyond either end: the neighbours are not touched */
	ASSERT_EQ(0, madvise(self->buf, LEN, MADV_DONTNEED));
	EXPECT_EQ(EFAULT, advise(self, write, FLUSH, self->mr, self->buf + LEN - PAGE, 2 * PAGE));
	EXPECT_EQ(EFAULT, advise(self, write, FLUSH, self->mr, self->buf - 1, 2));
	EXPECT_EQ(EFAULT, advise(self, write, FLUSH, self->mr, self->buf + LEN, 1));
	if (!look_mr(self->mr, &look))
		for (int i = 0; i < PAGES; i++)
			EXPECT_EQ(0, look.mtt[i] & 3);
	/* where the process has nothing */
	ASSERT_EQ(0, munmap(self->buf, PAGE));
	EXPECT_EQ(EFAULT, advise(self, write, FLUSH, self->mr, self->buf, LEN));
	EXPECT_EQ(0, ibv_dereg_mr(foreign));
	EXPECT_EQ(0, ibv_dereg_mr(readable));
	EXPECT_EQ(0, ibv_dealloc_pd(pd));
}

/* --- implicit: the whole address space --- */

FIXTURE(implicit) {
	FIXTURE_DATA(odp) odp;
	struct ibv_mr *mr;
};

FIXTURE_SETUP(implicit)
{
	odp_setup(_metadata, &self->odp, NULL);
	self->mr = ibv_reg_mr(self->odp.p.pd, NULL, SIZE_MAX, ODP);
	ASSERT_NE(NULL, self->mr);
}

FIXTURE_TEARDOWN(implicit)
{
	if (self->mr)
		EXPECT_EQ(0, ibv_dereg_mr(self->mr));
	odp_teardown(_metadata, &self->odp, NULL);
}

/* The key that the table of the implicit region names for @va */
static uint32_t child_of(FIXTURE_DATA(implicit) *self, uint64_t va)
{
	struct shca_explain_step steps[4] = {};
	struct shca_explain_req req = {
		.key = self->mr->rkey, .va = va, .length = 1, .remote = 1,
		.access = SHCA_EXPLAIN_WRITE,
	};
	uint8_t syndrome;
	int n = look_walk(self->odp.p.b, &req, steps, 4, &syndrome);

	return n < 2 ? 0 : steps[1].key;
}

#define FAR	(1ull << 40)

TEST_F(implicit, hm_6_15_children_come_and_go)
{
	FIXTURE_DATA(odp) *odp = &self->odp;
	static const uint64_t at[] = { FAR, FAR + (5ull << 30), 20 * FAR };
	uint32_t key[3];
	int ms;

	for (int i = 0; i < 3; i++) {
		char *p = mmap((void *)at[i], 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE |
			       MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

		ASSERT_EQ((void *)at[i], p);
		EXPECT_EQ(0, writes(odp, self->mr, p + 100, 2 * PAGE, i));
		key[i] = child_of(self, at[i]);
	}
	if (!odp->p.r.softhca)
		SKIP(return, "not softhca");
	EXPECT_NE(0, key[0]);
	EXPECT_NE(key[0], key[1]);
	EXPECT_NE(key[1], key[2]);
	EXPECT_NE(key[0], key[2]);
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(0, munmap((void *)at[i], 4 * PAGE));
		for (ms = 0; ms < WAIT_MS && child_of(self, at[i]) == key[i]; ms += 10)
			usleep(10000);
		EXPECT_LT(ms, WAIT_MS);
		/* the others stay */
		for (int j = i + 1; j < 3; j++)
			EXPECT_EQ(key[j], child_of(self, at[j]));
	}
}

TEST_F(implicit, hm_6_16_nothing_there)
{
	FIXTURE_DATA(odp) *odp = &self->odp;

	EXPECT_TRUE(fails(odp, WRITE_TO, self->mr->rkey, 30 * FAR, 64));
	EXPECT_TRUE(fails(odp, READ_FROM, self->mr->rkey, 0, 64));
	EXPECT_TRUE(fails(odp, SEND_FROM, self->mr->lkey, 30 * FAR, 64));
	/* not the process's: the kernel's half, and the wrong end of it all */
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, access_run(&odp->o, READ_FROM, self->mr->rkey,
						    0xffffffff81000000, 64, NULL, NULL));
	ASSERT_EQ(0, pair_reconnect(&odp->p));
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, access_run(&odp->o, READ_FROM, self->mr->rkey, -8ull,
						    16, NULL, NULL));
	ASSERT_EQ(0, pair_reconnect(&odp->p));
	EXPECT_EQ(0, writes(odp, self->mr, odp->buf, LEN, 160));
}

/* Every kind of access, and a message over the border between two children */
TEST_F(implicit, hm_6_15_border_of_two)
{
	FIXTURE_DATA(odp) *odp = &self->odp;
	char *p = mmap((void *)(FAR + (1ull << 30) - 64 * PAGE), 128 * PAGE,
		       PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	ASSERT_NE(MAP_FAILED, p);
	for (enum access_kind access = 0; access < ACCESSES; access++) {
		uint32_t len = access == ATOMIC_AT || access == ATOMIC_TO ? 8 : 128 * PAGE - 64;

		ASSERT_EQ(0, madvise(p, 128 * PAGE, MADV_DONTNEED));
		if (access_reads(access))
			fill(p + 8, len, access);
		EXPECT_EQ(0, access_check(&odp->o, access, self->mr->lkey, AT(p) + 8, p + 8, len,
					  access));
	}
	munmap(p, 128 * PAGE);
}

/* Children that empty at any time, and the parent right after */
TEST_F_TIMEOUT(implicit, case_13_parent_goes_with_its_children, 60)
{
	FIXTURE_DATA(odp) *odp = &self->odp;

	for (int round = 0; round < 40; round++) {
		struct ibv_mr *mr = ibv_reg_mr(odp->p.pd, NULL, SIZE_MAX, ODP);

		ASSERT_NE(NULL, mr);
		for (int i = 0; i < 4; i++) {
			char *p = mmap((void *)(FAR + ((uint64_t)i << 31)), PAGE,
				       PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

			EXPECT_EQ(0, writes(odp, mr, p, PAGE, i));
		}
		if (round & 1)
			for (int i = 0; i < 4; i++)
				munmap((void *)(FAR + ((uint64_t)i << 31)), PAGE);
		EXPECT_EQ(0, ibv_dereg_mr(mr));
	}
}

TEST_F(implicit, hm_6_17_prefetch)
{
	FIXTURE_DATA(odp) *odp = &self->odp;
	long long before = faults();

	EXPECT_EQ(0, advise(odp, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, FLUSH, self->mr,
			    odp->buf, LEN));
	EXPECT_EQ(0, writes(odp, self->mr, odp->buf, LEN, 170));
	if (odp->p.r.softhca)
		EXPECT_EQ(before, faults());
	EXPECT_EQ(EFAULT, advise(odp, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, FLUSH, self->mr,
				 (void *)(30 * FAR), PAGE));
}

TEST_F(implicit, hm_6_4_below_a_window)
{
	FIXTURE_DATA(odp) *odp = &self->odp;
	struct ibv_mr *mr = ibv_reg_mr(odp->p.pd, NULL, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE |
				       IBV_ACCESS_MW_BIND | IBV_ACCESS_ON_DEMAND);
	struct window w = { .mr = mr, .addr = AT(odp->buf), .len = LEN, .access = ACCESS_REMOTE };
	struct ibv_mw *mw = ibv_alloc_mw(odp->p.pd, IBV_MW_TYPE_1);

	ASSERT_TRUE(mr && mw);
	ASSERT_EQ(0, mw_bind_1(odp->p.b, odp->p.bcq, mw, &w, NULL));
	EXPECT_EQ(0, access_check(&odp->o, WRITE_TO, mw->rkey, AT(odp->buf), odp->buf, LEN, 180));
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
}

TEST_F(implicit, hm_12_4_rereg)
{
	FIXTURE_DATA(odp) *odp = &self->odp;

	EXPECT_EQ(0, writes(odp, self->mr, odp->buf, LEN, 190));
	ASSERT_EQ(0, ibv_rereg_mr(self->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND));
	EXPECT_EQ(0, reads(odp, self->mr, odp->buf, LEN, 190));
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
		  access_run(&odp->o, WRITE_TO, self->mr->rkey, AT(odp->buf), 8, NULL, NULL));
	ASSERT_EQ(0, pair_reconnect(&odp->p));
}

/* --- races --- */

struct spoiler {
	volatile bool stop;
	char *p;
	size_t len;
	int how;
	unsigned long times;
};

/* Takes the pages away without pause */
static void *spoil(void *arg)
{
	struct spoiler *s = arg;

	for (; !s->stop; s->times++) {
		switch (s->times % 3) {
		case 0:
			madvise(s->p, s->len, MADV_DONTNEED);
			break;
		case 1:
			mprotect(s->p, s->len, PROT_READ);
			break;
		default:
			mprotect(s->p, s->len, PROT_READ | PROT_WRITE);
			memset(s->p, 1, s->len);
		}
	}
	return NULL;
}

TEST_F_TIMEOUT(odp, case_11_case_12_registered_while_it_is_invalidated, 60)
{
	struct spoiler s = { .p = self->buf, .len = LEN };
	pthread_t thread;

	ASSERT_EQ(0, pthread_create(&thread, NULL, spoil, &s));
	for (int round = 0; round < 1000; round++) {
		struct ibv_mr *mr = reg(self, self->buf, LEN, ACCESS_ALL);

		ASSERT_NE(NULL, mr);
		if (round % 8 == 0) {
			/* whether it may be written just now is a matter of luck */
			access_run(&self->o, WRITE_TO, mr->rkey, AT(self->buf), LEN, NULL, NULL);
			if (qp_state(self->p.a) != IBV_QPS_RTS)
				ASSERT_EQ(0, pair_reconnect(&self->p));
		}
		ASSERT_EQ(0, ibv_dereg_mr(mr));
	}
	s.stop = true;
	pthread_join(thread, NULL);
	EXPECT_LT(100, s.times);
	/* the driver's own queue has survived it all */
	ASSERT_EQ(0, mprotect(self->buf, LEN, PROT_READ | PROT_WRITE));
	EXPECT_EQ(0, writes(self, self->mr, self->buf, LEN, 200));
}

/* --- what an administrator sees --- */

/* What @command prints, up to its first line's end */
static void output_of(const char *command, char *line, size_t size)
{
	FILE *f = popen(command, "r");

	if (!f || !fgets(line, size, f))
		line[0] = 0;
	if (f)
		pclose(f);
}

struct stats {
	long faults, handled, invalidations, invalidations_handled, prefetch;
};

/* All -1 if there are none */
static struct stats stats_of(struct ibv_mr *mr)
{
	static const char command[] =
		"mrn=$(rdma -j resource show mr | tr '{' '\\n' | sed -n 's/.*\"mrn\":\\([0-9]*\\),.*\"lkey\":\"%x\".*/\\1/p'); rdma statistic show mr mrn ${mrn:-none} | tr -d '\\n'";
	struct stats s = { -1, -1, -1, -1, -1 };
	char text[512], line[4096];

	snprintf(text, sizeof(text), command, mr->lkey);
	output_of(text, line, sizeof(line));
	sscanf(line, "%*[^_]_faults %ld page_faults_handled %ld page_invalidations %ld page_invalidations_handled %ld page_prefetch %ld",
	       &s.faults, &s.handled, &s.invalidations, &s.invalidations_handled, &s.prefetch);
	return s;
}

TEST_F_TIMEOUT(odp, hm_6_10_statistics, 100)
{
	struct ibv_mr *implicit = ibv_reg_mr(self->p.pd, NULL, SIZE_MAX, ODP);
	char *p = mem_pages(LEN), line[4096];
	struct stats s;

	ASSERT_TRUE(implicit && p);
	if (!self->p.r.softhca)
		SKIP(return, "not softhca");
	EXPECT_EQ(0, writes(self, self->mr, self->buf, 4 * PAGE, 1));
	EXPECT_EQ(0, advise(self, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, FLUSH, self->mr,
			    self->buf + 4 * PAGE, 3 * PAGE));
	s = stats_of(self->mr);
	EXPECT_EQ(4, s.faults);
	EXPECT_EQ(1, s.handled);
	EXPECT_EQ(3, s.prefetch);
	EXPECT_EQ(0, s.invalidations);
	EXPECT_EQ(0, s.invalidations_handled);
	ASSERT_EQ(0, madvise(self->buf, 5 * PAGE, MADV_DONTNEED));
	s = stats_of(self->mr);
	EXPECT_EQ(5, s.invalidations);
	EXPECT_EQ(1, s.invalidations_handled);
	/* an implicit region counts for its children */
	EXPECT_EQ(0, writes(self, implicit, p, 2 * PAGE, 1));
	ASSERT_EQ(0, munmap(p, LEN));
	s = stats_of(implicit);
	EXPECT_LE(2, s.faults);
	EXPECT_LE(2, s.invalidations);
	/* `rdma resource` tells which is which, and pinned regions are neither */
	output_of("rdma resource show mr -dd | tr -d '\\n'", line, sizeof(line));
	EXPECT_NE(NULL, strstr(line, "odp explicit"));
	EXPECT_NE(NULL, strstr(line, "odp implicit"));
	EXPECT_EQ(-1, stats_of(self->o.mr).faults);
	EXPECT_EQ(0, ibv_dereg_mr(implicit));
}

TEST_HARNESS_MAIN
