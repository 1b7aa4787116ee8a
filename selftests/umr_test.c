// SPDX-License-Identifier: GPL-2.0
/*
 * Proves that registration goes by UMR and pools of free keys, and by CREATE_MKEY only
 * where it has to; that a key is another with each owner; that a region can be changed
 * in every way while its owner keeps it, and is what it was when that fails; and that a
 * program cannot use UMR to reach memory that it did not register.
 */
#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "lib/harness.h"
#include "lib/rdma.h"
#include "lib/mem.h"
#include "lib/look.h"
#include "lib/raw.h"
#include "lib/sys.h"
#include "../include/hca/syndrome.h"

#define BUF	(64 * PAGE)
#define HALF	(BUF / 2)
#define AT(p)	((uint64_t)(uintptr_t)(p))
#define CREATE_MKEY	0x200
#define DESTROY_MKEY	0x202

/* Module parameters, and the event log of the HCA */

static int parameter(const char *name, bool value)
{
	return softhca_parameter(name, value ? "Y" : "N");
}

static int trace_on(void)
{
	int err = write_file(TRACING "trace", "");

	return err ?: write_file(TRACING "events/softhca/enable", "1");
}

/**
 * struct seen - what the HCA was asked to do
 * @creates: keys, by commands of this process
 * @destroys: likewise
 * @umrs: UMRs, of which the first few are kept
 */
struct seen {
	unsigned int creates, destroys, umrs;
	struct { uint64_t mask, offset; unsigned int octowords; } umr[8];
};

static int trace_off(struct seen *seen)
{
	int err = write_file(TRACING "events/softhca/enable", "0");
	FILE *file = fopen(TRACING "trace", "r");
	unsigned long long mask, offset;
	unsigned int opcode, octowords;
	char line[512], me[16], *at;

	/* meanwhile the core may be destroying keys that waited for too long */
	snprintf(me, sizeof(me), "-%d ", getpid());
	memset(seen, 0, sizeof(*seen));
	if (err || !file)
		return err ?: -errno;
	while (fgets(line, sizeof(line), file)) {
		at = strstr(line, " hca_cmd: opcode=");
		if (at && strstr(line, me) && sscanf(at, " hca_cmd: opcode=0x%x", &opcode) == 1) {
			seen->creates += opcode == CREATE_MKEY;
			seen->destroys += opcode == DESTROY_MKEY;
		}
		at = strstr(line, " hca_umr: ");
		if (!at)
			continue;
		at = strstr(at, "mask=");
		if (!at || sscanf(at, "mask=0x%llx offset=%llu octwords=%u",
				  &mask, &offset, &octowords) != 3)
			continue;
		if (seen->umrs < 8) {
			seen->umr[seen->umrs].mask = mask;
			seen->umr[seen->umrs].offset = offset;
			seen->umr[seen->umrs].octowords = octowords;
		}
		seen->umrs++;
	}
	fclose(file);
	return 0;
}

FIXTURE(umr) {
	struct pair p;
	char *buf, *other;
	struct ibv_mr *all;		/* over buf, for the requester */
};

FIXTURE_SETUP(umr)
{
	ASSERT_EQ(0, pair_open(&self->p, NULL));
	if (!self->p.r.softhca)
		SKIP(return, "not softhca");
	self->buf = mem_scattered(BUF);
	self->other = mem_scattered(BUF);
	ASSERT_NE(NULL, self->buf);
	ASSERT_NE(NULL, self->other);
	memset(self->buf, 0, BUF);
	memset(self->other, 0, BUF);
	self->all = ibv_reg_mr(self->p.pd, self->buf, BUF, ACCESS_ALL);
	ASSERT_NE(NULL, self->all);
}

FIXTURE_TEARDOWN(umr)
{
	parameter("umr_ext_offset", true);
	parameter("frmr_keep_variant", false);
	write_file(TRACING "events/softhca/enable", "0");
	if (self->all)
		EXPECT_EQ(0, ibv_dereg_mr(self->all));
	pair_close(&self->p);
	if (self->buf)
		munmap(self->buf, BUF);
	if (self->other)
		munmap(self->other, BUF);
}

#define SELF	FIXTURE_DATA(umr) *self

/* A writes from the second half of buf: the status; a failure is mended */
static int writes(SELF, uint32_t rkey, uint64_t to, uint32_t len)
{
	int status = run(self->p.a, self->p.acq, &(struct op){
		.opcode = IBV_WR_RDMA_WRITE, .len = len,
		.laddr = AT(self->buf + HALF), .lkey = self->all->lkey,
		.raddr = to, .rkey = rkey,
	}, NULL);

	if (status && pair_reconnect(&self->p))
		return -EIO;
	return status;
}

static int refusal(SELF, uint32_t rkey, uint64_t va)
{
	struct shca_explain_step steps[4];
	struct shca_explain_req req = {
		.key = rkey, .va = va, .length = 8, .remote = 1,
		.access = SHCA_EXPLAIN_WRITE,
	};
	uint8_t syndrome = 0;
	int n = look_walk(self->p.b, &req, steps, 4, &syndrome);

	return n < 0 ? n : syndrome;
}

TEST_F(umr, hm_12_1_no_command_on_a_warm_pool)
{
	size_t len[] = { 1, PAGE, 8 * PAGE, 9 * PAGE, BUF };
	struct ibv_mr *mr;
	struct seen seen;

	for (int i = 0; i < 5; i++) {
		mr = ibv_reg_mr(self->p.pd, self->other, len[i], ACCESS_ALL);
		ASSERT_NE(NULL, mr);
		ASSERT_EQ(0, ibv_dereg_mr(mr));
		ASSERT_EQ(0, trace_on());
		mr = ibv_reg_mr(self->p.pd, self->other, len[i], ACCESS_ALL);
		ASSERT_NE(NULL, mr);
		EXPECT_EQ(0, writes(self, mr->rkey, AT(self->other), 1));
		ASSERT_EQ(0, ibv_dereg_mr(mr));
		ASSERT_EQ(0, trace_off(&seen));
		EXPECT_EQ(0, seen.creates);
		EXPECT_EQ(0, seen.destroys);
		EXPECT_EQ(2, seen.umrs);
		/* revoked: free, and in the PD of the driver; nothing else */
		EXPECT_EQ(1 << 29 | 1 << 7, seen.umr[1].mask);
		EXPECT_EQ(0, seen.umr[1].octowords);
	}
}

/* HM-2.15: an old key is not the new one, even though both have the same index */
TEST_F(umr, hm_2_15_variant_of_a_reused_key)
{
	struct ibv_mr *mr = ibv_reg_mr(self->p.pd, self->other, HALF,
				       ACCESS_ALL);
	uint32_t old;

	ASSERT_NE(NULL, mr);
	for (int i = 0; i < 300; i++) {
		old = mr->rkey;
		ASSERT_EQ(0, ibv_dereg_mr(mr));
		if (i % 100 == 0)
			EXPECT_EQ(HCA_VS_LEVEL0 | HCA_CHECK_FREE,
				  refusal(self, old, AT(self->other)));
		mr = ibv_reg_mr(self->p.pd, self->other, HALF, ACCESS_ALL);
		ASSERT_NE(NULL, mr);
		ASSERT_EQ(old >> 8, mr->rkey >> 8);
		ASSERT_NE(old, mr->rkey);
		if (i % 100)
			continue;
		EXPECT_EQ(HCA_VS_LEVEL0 | HCA_CHECK_VARIANT,
			  refusal(self, old, AT(self->other)));
		EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
			  writes(self, old, AT(self->other), 8));
		EXPECT_EQ(0, writes(self, mr->rkey, AT(self->other), 8));
	}

	/* as Linux 7.3 does it for mlx5 */
	ASSERT_EQ(0, parameter("frmr_keep_variant", true));
	old = mr->rkey;
	ASSERT_EQ(0, ibv_dereg_mr(mr));
	mr = ibv_reg_mr(self->p.pd, self->other, HALF, ACCESS_ALL);
	ASSERT_NE(NULL, mr);
	EXPECT_EQ(old, mr->rkey);
	EXPECT_EQ(0, writes(self, old, AT(self->other), 8));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
}

/* While it is free, nobody reaches anything through the key, also not its old owner */
TEST_F(umr, freed_key_is_free_in_another_pd)
{
	struct ibv_mr *mr = ibv_reg_mr(self->p.pd, self->other, PAGE,
				       ACCESS_ALL);
	struct look look;

	ASSERT_NE(NULL, mr);
	ASSERT_EQ(0, look_mr(mr, &look));
	EXPECT_EQ(0, look.free);
	EXPECT_EQ(1, look.umr_en);
	EXPECT_EQ(mr->rkey & 0xff, look.variant);
	EXPECT_EQ(0xffffff, look.qpn);
	EXPECT_EQ(PAGE, look.len);
	EXPECT_EQ(LOOK_LR | LOOK_LW | LOOK_RR | LOOK_RW | LOOK_A, look.rights);
	ASSERT_EQ(0, ibv_dereg_mr(mr));
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
		  writes(self, mr->rkey, AT(self->other), 8));
}

/* 256 MiB of address space over 2 MiB of memory: 65536 entries, little cost */
static char *map_long(size_t len, int *fd)
{
	char *at;

	*fd = memfd_create("long", 0);
	if (*fd < 0 || ftruncate(*fd, HUGE))
		return NULL;
	at = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return NULL;
	for (size_t done = 0; done < len; done += HUGE)
		if (mmap(at + done, HUGE, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED, *fd, 0) == MAP_FAILED)
			return NULL;
	memset(at, 0, HUGE);
	/* twice the same frame, as no larger page has it: else luck decides the page size */
	if (mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, *fd, PAGE) == MAP_FAILED)
		return NULL;
	return at;
}

TEST_F_TIMEOUT(umr, hm_12_2_out_of_the_reach_of_umr, 100)
{
	size_t limit = 65536 * PAGE;
	struct ibv_mr *mr;
	struct seen seen;
	char *at;
	int fd;

	at = map_long(limit, &fd);
	ASSERT_NE(NULL, at);
	ASSERT_EQ(0, parameter("umr_ext_offset", false));
	ASSERT_EQ(0, trace_on());
	mr = ibv_reg_mr(self->p.pd, at, limit, ACCESS_ALL);
	ASSERT_EQ(0, trace_off(&seen));
	ASSERT_NE(NULL, mr);
	EXPECT_EQ(1, seen.creates);
	EXPECT_EQ(0, seen.umrs);
	memset(self->buf + HALF, 0x3c, 100);
	EXPECT_EQ(0, writes(self, mr->rkey, AT(at + limit - 100), 100));
	EXPECT_TRUE(all_bytes(at + HUGE - 100, 100, 0x3c));

	/* rights and PD can be changed by UMR all the same */
	EXPECT_EQ(0, ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				  IBV_ACCESS_REMOTE_READ));
	EXPECT_EQ(HCA_VS_LEVEL0 | HCA_CHECK_REMOTE,
		  refusal(self, mr->rkey, AT(at)));

	/* such a key belongs to no pool */
	ASSERT_EQ(0, trace_on());
	EXPECT_EQ(0, ibv_dereg_mr(mr));
	ASSERT_EQ(0, trace_off(&seen));
	EXPECT_EQ(1, seen.destroys);
	EXPECT_EQ(0, seen.umrs);

	/* a page less is within reach */
	ASSERT_EQ(0, trace_on());
	mr = ibv_reg_mr(self->p.pd, at, limit - PAGE, ACCESS_ALL);
	ASSERT_EQ(0, trace_off(&seen));
	ASSERT_NE(NULL, mr);
	EXPECT_EQ(1, seen.umrs);
	EXPECT_EQ(0, ibv_dereg_mr(mr));

	/* and with the capability, so is the whole */
	ASSERT_EQ(0, parameter("umr_ext_offset", true));
	ASSERT_EQ(0, trace_on());
	mr = ibv_reg_mr(self->p.pd, at, limit, ACCESS_ALL);
	ASSERT_EQ(0, trace_off(&seen));
	ASSERT_NE(NULL, mr);
	EXPECT_EQ(1, seen.umrs);
	EXPECT_EQ(0, ibv_dereg_mr(mr));
	munmap(at, limit);
	close(fd);
}

TEST_F_TIMEOUT(umr, hm_12_3_three_pieces, 200)
{
	const unsigned int largest = 65536 - 4;	/* octowords in one UMR */
	size_t len = 1ul << 30;
	struct ibv_mr *mr;
	struct seen seen;
	uint64_t free = 1 << 29;
	char *at;
	int fd;

	at = map_long(len, &fd);
	ASSERT_NE(NULL, at);
	ASSERT_EQ(0, trace_on());
	mr = ibv_reg_mr(self->p.pd, at, len, ACCESS_ALL);
	ASSERT_EQ(0, trace_off(&seen));
	ASSERT_NE(NULL, mr);
	ASSERT_EQ(3, seen.umrs);
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(i * largest, seen.umr[i].offset);
		EXPECT_EQ(i < 2 ? largest : 131072 - 2 * largest,
			  seen.umr[i].octowords);
		/* only the last of them touches the key itself */
		EXPECT_EQ(i < 2 ? 0 : free, seen.umr[i].mask & free);
		if (i < 2)
			EXPECT_EQ(0, seen.umr[i].mask);
	}
	/* each piece arrived where it belongs: beginning, seams, end */
	for (int i = 0; i < 64; i++) {
		uint64_t page = i < 32 ? (i % 2 + 1) * largest * 2ull + i / 2 - 8 :
				i < 48 ? i - 32 : len / PAGE - 64 + i;
		char *here = at + page * PAGE % HUGE;

		memset(self->buf + HALF, i + 1, 32);
		memset(here, 0, 32);
		ASSERT_EQ(0, writes(self, mr->rkey, AT(at + page * PAGE), 32));
		ASSERT_TRUE(all_bytes(here, 32, i + 1)) {
			TH_LOG("page %lu", page);
		}
	}
	EXPECT_EQ(0, ibv_dereg_mr(mr));
	munmap(at, len);
	close(fd);
}

/* HM-12.4: every combination of what rereg can change, and all that does not change */

FIXTURE(rereg) {
	struct pair p;
	struct ibv_pd *pd;
	char *buf, *other, *from;
	struct ibv_mr *mr, *from_mr;
};

FIXTURE_SETUP(rereg)
{
	ASSERT_EQ(0, pair_open(&self->p, NULL));
	self->pd = ibv_alloc_pd(self->p.r.ctx);
	ASSERT_NE(NULL, self->pd);
	self->buf = mem_scattered(BUF);
	self->other = mem_scattered(BUF);
	self->from = mem_pages(BUF);
	ASSERT_NE(NULL, self->buf);
	ASSERT_NE(NULL, self->other);
	ASSERT_NE(NULL, self->from);
	memset(self->buf, 0, BUF);
	memset(self->other, 0, BUF);
	self->mr = ibv_reg_mr(self->p.pd, self->buf, HALF, ACCESS_ALL);
	self->from_mr = ibv_reg_mr(self->p.pd, self->from, BUF, ACCESS_ALL);
	ASSERT_NE(NULL, self->mr);
	ASSERT_NE(NULL, self->from_mr);
}

FIXTURE_TEARDOWN(rereg)
{
	if (self->mr)
		EXPECT_EQ(0, ibv_dereg_mr(self->mr));
	if (self->from_mr)
		EXPECT_EQ(0, ibv_dereg_mr(self->from_mr));
	if (self->pd)
		EXPECT_EQ(0, ibv_dealloc_pd(self->pd));
	pair_close(&self->p);
	munmap(self->buf, BUF);
	munmap(self->other, BUF);
	munmap(self->from, BUF);
}

#define RSELF	FIXTURE_DATA(rereg) *self

/* A writes @len bytes made of @seed: the status; a failure is mended */
static int rereg_writes(RSELF, uint64_t to, uint32_t len, uint64_t seed)
{
	int status;

	fill(self->from, len, seed);
	status = run(self->p.a, self->p.acq, &(struct op){
		.opcode = IBV_WR_RDMA_WRITE, .len = len,
		.laddr = AT(self->from), .lkey = self->from_mr->lkey,
		.raddr = to, .rkey = self->mr->rkey,
	}, NULL);
	if (status && pair_reconnect(&self->p))
		return -EIO;
	return status;
}

static int reads(RSELF, uint64_t from, uint32_t len)
{
	int status = run(self->p.a, self->p.acq, &(struct op){
		.opcode = IBV_WR_RDMA_READ, .len = len,
		.laddr = AT(self->from), .lkey = self->from_mr->lkey,
		.raddr = from, .rkey = self->mr->rkey,
	}, NULL);

	if (status && pair_reconnect(&self->p))
		return -EIO;
	return status;
}

TEST_F(rereg, hm_12_4_all_combinations)
{
	const int trans = IBV_REREG_MR_CHANGE_TRANSLATION;
	const int pd = IBV_REREG_MR_CHANGE_PD;
	const int access = IBV_REREG_MR_CHANGE_ACCESS;

	for (int flags = 1; flags < 8; flags++) {
		int what = (flags & 1 ? trans : 0) | (flags & 2 ? pd : 0) |
			   (flags & 4 ? access : 0);
		char *now = flags & 1 ? self->other : self->buf;
		bool mine = !(flags & 2), may_write = !(flags & 4);
		long pinned = pinned_kib();
		uint32_t key = self->mr->rkey;

		ASSERT_EQ(0, ibv_rereg_mr(self->mr, what, self->pd, self->other,
					  HALF, flags & 4 ?
					  IBV_ACCESS_REMOTE_READ : 0)) {
			TH_LOG("flags %d, errno %d", what, errno);
		}
		EXPECT_EQ(pinned, pinned_kib());
		/* in place: the key is the same, so who has it keeps it */
		if (self->p.r.softhca)
			EXPECT_EQ(key, self->mr->rkey);
		EXPECT_EQ(mine && may_write ? 0 : IBV_WC_REM_ACCESS_ERR,
			  rereg_writes(self, AT(now), HALF, flags));
		EXPECT_EQ(mine && may_write ? -1 : 0,
			  differs(now, HALF, flags));
		EXPECT_EQ(mine ? 0 : IBV_WC_REM_ACCESS_ERR,
			  reads(self, AT(now), HALF));
		if (flags & 1)
			EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
				  reads(self, AT(self->buf), 8));

		/* and back: everything at once */
		ASSERT_EQ(0, ibv_rereg_mr(self->mr, trans | pd | access,
					  self->p.pd, self->buf, HALF,
					  ACCESS_ALL));
		EXPECT_EQ(0, rereg_writes(self, AT(self->buf), HALF, 100 + flags));
		EXPECT_EQ(-1, differs(self->buf, HALF, 100 + flags));
		memset(self->other, 0, BUF);
		memset(self->buf, 0, BUF);
	}
}

/* The protection domain that a region left can go, the one it came to cannot */
TEST_F(rereg, hm_12_4_pd_is_counted)
{
	struct ibv_pd *pd = ibv_alloc_pd(self->p.r.ctx);

	ASSERT_NE(NULL, pd);
	ASSERT_EQ(0, ibv_rereg_mr(self->mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0,
				  0));
	EXPECT_EQ(EBUSY, ibv_dealloc_pd(pd));
	ASSERT_EQ(0, ibv_rereg_mr(self->mr, IBV_REREG_MR_CHANGE_PD, self->p.pd,
				  NULL, 0, 0));
	EXPECT_EQ(0, ibv_dealloc_pd(pd));
}

/* Smaller, larger, other offsets; what does not fit into the table gets a new key */
TEST_F(rereg, hm_12_4_sizes)
{
	static const struct { size_t at, len; } shape[] = {
		{ 0, HALF }, { 0, 1 }, { 0xe00, 0x2800 }, { 1, HALF - 1 },
		{ PAGE, BUF - PAGE }, { 0x10, BUF - 0x20 }, { 0, 2 * PAGE },
	};
	long pinned = pinned_kib() - HALF / 1024;

	for (int i = 0; i < 7; i++) {
		char *here = self->other + shape[i].at;
		size_t pages = (shape[i].at + shape[i].len + PAGE - 1) / PAGE -
			       shape[i].at / PAGE;

		ASSERT_EQ(0, ibv_rereg_mr(self->mr,
					  IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
					  here, shape[i].len, 0)) {
			TH_LOG("shape %d, errno %d", i, errno);
		}
		EXPECT_EQ(pinned + (long)(pages * PAGE / 1024), pinned_kib());
		memset(self->other, 0, BUF);
		ASSERT_EQ(0, rereg_writes(self, AT(here), shape[i].len, i));
		EXPECT_EQ(-1, differs(here, shape[i].len, i));
		EXPECT_TRUE(all_bytes(self->other, shape[i].at, 0));
		EXPECT_TRUE(all_bytes(here + shape[i].len, BUF - shape[i].at -
				      shape[i].len, 0));
		EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
			  reads(self, AT(here) + shape[i].len, 1));
		EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, reads(self, AT(here) - 1, 1));
	}
	EXPECT_TRUE(all_bytes(self->buf, BUF, 0));
}

/* Cases 15, 16: what fails changes nothing */
TEST_F(rereg, case_15_case_16_hm_12_5_failure)
{
	const int trans = IBV_REREG_MR_CHANGE_TRANSLATION;
	const int access = IBV_REREG_MR_CHANGE_ACCESS;
	char *nothing = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
			     -1, 0);
	char *constant = mmap(NULL, PAGE, PROT_READ,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long pinned = pinned_kib();
	uint32_t key = self->mr->rkey;

	ASSERT_NE(MAP_FAILED, nothing);
	ASSERT_NE(MAP_FAILED, constant);
	EXPECT_NE(0, ibv_rereg_mr(self->mr, trans, NULL, nothing, PAGE, 0));
	EXPECT_NE(0, ibv_rereg_mr(self->mr, trans | access, NULL, nothing, PAGE,
				  IBV_ACCESS_REMOTE_READ));
	EXPECT_NE(0, ibv_rereg_mr(self->mr, trans, NULL, constant, PAGE, 0));
	EXPECT_NE(0, ibv_rereg_mr(self->mr, access, NULL, NULL, 0,
				  IBV_ACCESS_REMOTE_WRITE));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(pinned, pinned_kib());
	EXPECT_EQ(key, self->mr->rkey);
	EXPECT_EQ(0, rereg_writes(self, AT(self->buf), HALF, 3));
	EXPECT_EQ(-1, differs(self->buf, HALF, 3));

	/* memory registered for reading stays read-only */
	ASSERT_EQ(0, ibv_rereg_mr(self->mr, trans | access, NULL, constant, PAGE,
				  IBV_ACCESS_REMOTE_READ));
	EXPECT_NE(0, ibv_rereg_mr(self->mr, access, NULL, NULL, 0, ACCESS_ALL));
	EXPECT_EQ(0, reads(self, AT(constant), PAGE));
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
		  rereg_writes(self, AT(constant), 8, 1));
	munmap(nothing, PAGE);
	munmap(constant, PAGE);
}

/*
 * The table of a region holds bare addresses. If a program could load it, or make its
 * region longer or its pages larger, it could reach any memory of the machine.
 */
static void begin_umr(struct raw_wqe *w, struct raw *r, uint32_t key, uint64_t mask)
{
	struct mlx5_wqe_umr_ctrl_seg *umr;

	raw_begin(w, r, MLX5_OPCODE_UMR, MLX5_WQE_CTRL_CQ_UPDATE);
	w->ctrl.imm = htobe32(key);
	umr = (void *)(w->bytes + w->len);
	umr->flags = MLX5_WQE_UMR_CTRL_FLAG_INLINE;
	umr->mkey_mask = htobe64(mask);
	w->len += sizeof(*umr);
}

TEST_F(umr, program_cannot_load_the_table_of_its_region)
{
	static const uint64_t masks[] = {
		0,					/* only a list */
		MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN,
		MLX5_WQE_UMR_CTRL_MKEY_MASK_START_ADDR,
		1 << 1,					/* page size */
		MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE,
	};
	struct ibv_mr *mr = ibv_reg_mr(self->p.pd, self->other, PAGE,
				       ACCESS_ALL);
	struct raw_cqe cqe;
	struct raw r;

	ASSERT_NE(NULL, mr);
	for (int i = 0; i < 5; i++) {
		struct mlx5_wqe_mkey_context_seg *mkey;
		struct mlx5_wqe_umr_ctrl_seg *umr;
		struct raw_wqe w;

		ASSERT_EQ(0, raw_open(&r, self->p.a, self->p.acq));
		begin_umr(&w, &r, mr->rkey, masks[i]);
		umr = (void *)(w.bytes + sizeof(w.ctrl));
		mkey = (void *)(w.bytes + w.len);
		mkey->len = htobe64(BUF);
		mkey->start_addr = htobe64(AT(self->other));
		w.bytes[w.len + 0x3b] = 21;	/* log_page_size */
		w.len += sizeof(*mkey);
		if (!masks[i]) {
			umr->klm_octowords = htobe16(4);
			for (int n = 0; n < 8; n++) {
				uint64_t entry = htobe64(0x100000 | 3);

				memcpy(w.bytes + w.len, &entry, 8);
				w.len += 8;
			}
		}
		raw_post(&r, &w);
		ASSERT_EQ(1, raw_wait(&r, &cqe, WAIT_MS));
		EXPECT_EQ(MLX5_CQE_REQ_ERR, cqe.opcode);
		EXPECT_EQ(MLX5_CQE_SYNDROME_MW_BIND_ERR, cqe.syndrome);
		EXPECT_EQ(HCA_VS_UMR_KIND, cqe.vendor);
		ASSERT_EQ(0, pair_reconnect(&self->p));
	}
	EXPECT_EQ(0, ibv_dereg_mr(mr));
}

TEST_HARNESS_MAIN
