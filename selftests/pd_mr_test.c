// SPDX-License-Identifier: GPL-2.0
/*
 * Proves that a registered region is the memory it was made of: every byte, whatever
 * the offset, the length, the IOVA and the pages behind it; that the page size of its
 * MKC is the right one; that it lasts as long as its registration and no longer; and
 * that registrations are counted, limited and given back exactly.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "lib/harness.h"
#include "lib/rdma.h"
#include "lib/mem.h"
#include "lib/look.h"
#include "lib/nth.h"
#include "lib/sys.h"
#include "../include/hca/syndrome.h"

static int rdma_write(struct pair *p, struct ibv_mr *from, uint64_t laddr,
		      uint32_t len, struct ibv_mr *to, uint64_t raddr)
{
	return run(p->a, p->acq, &(struct op){
		.opcode = IBV_WR_RDMA_WRITE, .len = len,
		.laddr = laddr, .lkey = from->lkey,
		.raddr = raddr, .rkey = to->rkey,
	}, NULL);
}

static int rdma_read(struct pair *p, struct ibv_mr *to, uint64_t laddr,
		     uint32_t len, struct ibv_mr *from, uint64_t raddr)
{
	return run(p->a, p->acq, &(struct op){
		.opcode = IBV_WR_RDMA_READ, .len = len,
		.laddr = laddr, .lkey = to->lkey,
		.raddr = raddr, .rkey = from->rkey,
	}, NULL);
}

/* Every way to place a region */

enum backing { SMALL_PAGES, SCATTERED, HUGE_PAGES, THP };

FIXTURE(region) {
	struct pair p;
	char *map, *plain;
	size_t map_len;
	struct ibv_mr *plain_mr;
};

FIXTURE_VARIANT(region) {
	enum backing backing;
	uint64_t iova;		/* of the first page, 0: the address itself */
	size_t offset, len;
};

#define REGION(name, ...) \
	FIXTURE_VARIANT_ADD(region, name) { __VA_ARGS__ }

REGION(one_byte, SCATTERED, 0, 0, 1);
REGION(last_byte_of_page, SCATTERED, 0, 4095, 1);
REGION(one_page, SMALL_PAGES, 0, 0, 4096);
REGION(two_halves, SCATTERED, 0, 4000, 192);
REGION(hm_4_1_unaligned_start, SCATTERED, 0, 0xe00, 0x2800);
REGION(hm_4_16_iova_not_va, SCATTERED, 0, 0, 0x2000);
REGION(hm_4_16_iova_small, SCATTERED, 0x1000, 0x123, 0x2000);
REGION(case_04_iova_odd_page, SCATTERED, 0x7ffffffff000, 0x10, 0x8fff);
REGION(iova_high, SCATTERED, 0xffffff7fff000000, 0x777, 0x5123);
REGION(iova_to_the_end, SCATTERED, 0xffffffffffffc000, 0x800, 0x3800);
REGION(one_mib, SMALL_PAGES, 0, 0x345, 1 << 20);
REGION(mib_scattered, SCATTERED, 0x5000, 0xffe, (1 << 20) + 3);
REGION(hm_5_4_huge, HUGE_PAGES, 0, 0, 2 * HUGE);
REGION(hm_4_6_huge_unaligned, HUGE_PAGES, 0, 0x1000, 0x300000);
REGION(huge_inside_a_page, HUGE_PAGES, 0, 0x3210, 0x12345);
REGION(hm_4_6_huge_iova, HUGE_PAGES, 0x40000000, 0x1000, 0x300000);
REGION(hm_5_5_huge_iova_shifted, HUGE_PAGES, 0x40001000, 0, 2 * HUGE);
REGION(thp, THP, 0, 0, HUGE);
REGION(thp_unaligned, THP, 0x200000, 0x5433, HUGE + 77);

FIXTURE_SETUP(region)
{
	size_t span = variant->offset + variant->len;

	ASSERT_EQ(0, pair_open(&self->p, NULL));
	switch (variant->backing) {
	case SMALL_PAGES:
		self->map_len = (span + PAGE - 1) & -PAGE;
		self->map = mem_pages(self->map_len);
		break;
	case SCATTERED:
		self->map_len = (span + PAGE - 1) & -PAGE;
		self->map = mem_scattered(self->map_len);
		break;
	case HUGE_PAGES:
		self->map_len = (span + HUGE - 1) & -HUGE;
		self->map = mem_huge(self->map_len);
		break;
	case THP:
		self->map_len = (span + HUGE - 1) & -HUGE;
		self->map = mem_thp(self->map_len);
		break;
	}
	if (!self->map && variant->backing >= HUGE_PAGES)
		SKIP(return, "no huge pages left");
	ASSERT_NE(NULL, self->map);
	self->plain = mem_pages(variant->len + PAGE);
	ASSERT_NE(NULL, self->plain);
	self->plain_mr = ibv_reg_mr(self->p.pd, self->plain,
				    variant->len + PAGE, ACCESS_ALL);
	ASSERT_NE(NULL, self->plain_mr);
}

FIXTURE_TEARDOWN(region)
{
	if (self->plain_mr)
		EXPECT_EQ(0, ibv_dereg_mr(self->plain_mr));
	pair_close(&self->p);
	if (self->map)
		munmap(self->map, self->map_len);
}

#define VARIANT	const FIXTURE_VARIANT(region) *variant

static uint64_t iova_of(FIXTURE_DATA(region) *self, VARIANT)
{
	return (variant->iova ?: (uintptr_t)self->map) + variant->offset;
}

static struct ibv_mr *reg(FIXTURE_DATA(region) *self, VARIANT)
{
	return ibv_reg_mr_iova(self->p.pd, self->map + variant->offset,
			       variant->len, iova_of(self, variant),
			       ACCESS_ALL);
}

TEST_F(region, written_and_read_whole)
{
	uint64_t iova = iova_of(self, variant);
	struct ibv_mr *mr = reg(self, variant);
	char *here = self->map + variant->offset;
	size_t tail = self->map_len - variant->offset - variant->len;

	ASSERT_NE(NULL, mr);
	memset(self->map, 0x5a, self->map_len);
	fill(self->plain, variant->len, 3);
	ASSERT_EQ(0, rdma_write(&self->p, self->plain_mr,
				(uintptr_t)self->plain, variant->len, mr,
				iova));
	EXPECT_EQ(-1, differs(here, variant->len, 3));
	EXPECT_TRUE(all_bytes(self->map, variant->offset, 0x5a));
	EXPECT_TRUE(all_bytes(here + variant->len, tail, 0x5a));

	/* and as the local side: a READ into it, a WRITE from it */
	fill(self->plain, variant->len, 4);
	ASSERT_EQ(0, rdma_read(&self->p, mr, iova, variant->len,
			       self->plain_mr, (uintptr_t)self->plain));
	EXPECT_EQ(-1, differs(here, variant->len, 4));
	EXPECT_TRUE(all_bytes(self->map, variant->offset, 0x5a));
	EXPECT_TRUE(all_bytes(here + variant->len, tail, 0x5a));
	memset(self->plain, 0, variant->len);
	ASSERT_EQ(0, rdma_write(&self->p, mr, iova, variant->len,
				self->plain_mr, (uintptr_t)self->plain));
	EXPECT_EQ(-1, differs(self->plain, variant->len, 4));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
}

/* Single bytes at all places where an index may be off by one */
TEST_F(region, single_bytes)
{
	uint64_t iova = iova_of(self, variant);
	struct ibv_mr *mr = reg(self, variant);
	char *here = self->map + variant->offset;
	size_t step = variant->backing >= HUGE_PAGES ? HUGE : PAGE;
	size_t at[64], n = 0;

	ASSERT_NE(NULL, mr);
	at[n++] = 0;
	at[n++] = variant->len - 1;
	for (size_t edge = step - variant->offset % step;
	     edge < variant->len && n < 62; edge += step) {
		at[n++] = edge - 1;
		at[n++] = edge;
	}
	memset(self->map, 0, self->map_len);
	for (size_t i = 0; i < n; i++) {
		self->plain[0] = i + 1;
		ASSERT_EQ(0, rdma_write(&self->p, self->plain_mr,
					(uintptr_t)self->plain, 1, mr,
					iova + at[i]));
		EXPECT_EQ((char)(i + 1), here[at[i]]);
	}
	EXPECT_EQ(0, ibv_dereg_mr(mr));
}

/* Entries that a table of pages of 2^@log needs for the memory, or 0 if it cannot
 * describe it: what one entry covers must be one aligned piece of memory
 */
static uint64_t entries_with(unsigned int log, uint64_t iova,
			     const uint64_t *pfn, size_t pages)
{
	uint64_t in_page = (1ull << log) - 1, n = 0, base = 0;

	iova &= -PAGE;
	for (size_t i = 0; i < pages; i++, iova += PAGE) {
		uint64_t piece = pfn[i] * PAGE - (iova & in_page);

		if (piece & in_page)
			return 0;
		if (!i || !(iova & in_page)) {
			base = piece;
			n++;
		} else if (piece != base) {
			return 0;
		}
	}
	return n;
}

/* HM 5.4: the page size describes the memory, and none needs fewer entries */
TEST_F(region, page_size)
{
	size_t pages = (variant->offset % PAGE + variant->len + PAGE - 1) / PAGE;
	char *first = self->map + (variant->offset & -PAGE);
	struct ibv_mr *mr = reg(self, variant);
	uint64_t iova = iova_of(self, variant);
	uint64_t *pfn = calloc(pages, sizeof(*pfn));
	uint64_t entries, other;
	struct look look;

	if (!self->p.r.softhca)
		SKIP(return, "not softhca");
	ASSERT_NE(NULL, mr);
	ASSERT_NE(NULL, pfn);
	ASSERT_EQ(0, look_mr(mr, &look));
	ASSERT_TRUE(mem_frames(first, pages, pfn));
	EXPECT_EQ(1, look.access_mode);
	EXPECT_EQ(iova, look.start);
	EXPECT_EQ(variant->len, look.len);
	EXPECT_EQ(mr->lkey & 0xff, look.variant);
	EXPECT_EQ(0, look.free);
	EXPECT_EQ(LOOK_A | LOOK_RW | LOOK_RR | LOOK_LW | LOOK_LR, look.rights);
	ASSERT_LE(12, look.log_page_size);
	ASSERT_GE(31, look.log_page_size);
	entries = entries_with(look.log_page_size, iova, pfn, pages);
	EXPECT_NE(0, entries);
	for (unsigned int log = 12; log <= 31; log++) {
		other = entries_with(log, iova, pfn, pages);
		EXPECT_TRUE(!other || other >= entries) {
			TH_LOG("2^%u: %lu entries, 2^%u would need %lu",
			       look.log_page_size, entries, log, other);
		}
	}
	if (variant->backing >= HUGE_PAGES && variant->iova % HUGE)
		EXPECT_EQ(12, look.log_page_size);	/* HM-5.5 */
	if (variant->backing >= HUGE_PAGES && !(variant->iova % HUGE) &&
	    variant->len >= HUGE)
		EXPECT_LE(21, look.log_page_size);	/* HM-5.4 */
	/* a key from a pool has room for more, but for less than twice as many */
	EXPECT_LE((entries + 1) / 2, look.octwords);
	EXPECT_GE(entries, look.octwords);
	EXPECT_EQ(0, ibv_dereg_mr(mr));
	free(pfn);
}

/* Single registrations */

FIXTURE(mr) {
	struct pair p;
	char *buf;
	struct ibv_mr *all;	/* the second half of buf, for the other side */
};

#define BUF	(16 * PAGE)
#define HALF	(8 * PAGE)

FIXTURE_SETUP(mr)
{
	ASSERT_EQ(0, pair_open(&self->p, NULL));
	self->buf = mem_pages(BUF);
	ASSERT_NE(NULL, self->buf);
	memset(self->buf, 0, BUF);
	self->all = ibv_reg_mr(self->p.pd, self->buf + HALF, HALF, ACCESS_ALL);
	ASSERT_NE(NULL, self->all);
}

FIXTURE_TEARDOWN(mr)
{
	if (self->all)
		EXPECT_EQ(0, ibv_dereg_mr(self->all));
	pair_close(&self->p);
}

#define AT(p)	((uintptr_t)(p))

/* Worked example E1 of the hardware model, row by row */
TEST_F(mr, hm_4_1_example_e1)
{
	static const struct { uint64_t v; size_t page, in_page; } rows[] = {
		{ 0x10000e00, 0, 0xe00 }, { 0x10000fff, 0, 0xfff },
		{ 0x10001000, 1, 0 }, { 0x100025f0, 2, 0x5f0 },
		{ 0x100035ff, 3, 0x5ff },
	};
	char *area = mem_scattered(4 * PAGE);
	struct ibv_mr *mr;

	ASSERT_NE(NULL, area);
	mr = ibv_reg_mr_iova(self->p.pd, area + 0xe00, 0x2800, 0x10000e00,
			     ACCESS_ALL);
	ASSERT_NE(NULL, mr);
	for (unsigned int i = 0; i < ARRAY_SIZE(rows); i++) {
		memset(area, 0, 4 * PAGE);
		self->buf[HALF] = 0x40 + i;
		ASSERT_EQ(0, rdma_write(&self->p, self->all,
					AT(self->buf + HALF), 1, mr,
					rows[i].v));
		EXPECT_EQ(0x40 + i, area[rows[i].page * PAGE +
					 rows[i].in_page]);
		area[rows[i].page * PAGE + rows[i].in_page] = 0;
		EXPECT_TRUE(all_bytes(area, 4 * PAGE, 0));
	}
	/* 0x400 bytes at S come from the first two pages, half and half */
	memset(area + 0xe00, 0x11, 0x200);
	memset(area + PAGE, 0x22, 0x200);
	ASSERT_EQ(0, rdma_read(&self->p, self->all, AT(self->buf + HALF),
			       0x400, mr, 0x10000e00));
	EXPECT_TRUE(all_bytes(self->buf + HALF, 0x200, 0x11));
	EXPECT_TRUE(all_bytes(self->buf + HALF + 0x200, 0x200, 0x22));
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
		  rdma_write(&self->p, self->all, AT(self->buf + HALF), 1, mr,
			     0x10003600));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
}

/* Pinned memory follows registrations */
TEST_F(mr, register_and_deregister)
{
	long before = pinned_kib();

	for (size_t len = 1; len <= HALF; len *= 2) {
		struct ibv_mr *mr = ibv_reg_mr(self->p.pd, self->buf, len,
					       ACCESS_ALL);

		ASSERT_NE(NULL, mr);
		EXPECT_EQ(self->buf, mr->addr);
		EXPECT_EQ(len, mr->length);
		EXPECT_EQ(mr->lkey, mr->rkey);			/* HM-1.1 */
		EXPECT_LE(16, mr->lkey >> 8);			/* HM-2.7 */
		EXPECT_EQ(before + ((long)len + 4095) / 4096 * 4,
			  pinned_kib());
		EXPECT_EQ(0, ibv_dereg_mr(mr));
		EXPECT_EQ(before, pinned_kib());
	}
}

/* One key for both sides of one transfer */
TEST_F(mr, hm_1_1_one_key_for_both_sides)
{
	struct ibv_mr *mr = ibv_reg_mr(self->p.pd, self->buf, BUF, ACCESS_ALL);

	ASSERT_NE(NULL, mr);
	fill(self->buf, HALF, 9);
	EXPECT_EQ(0, rdma_write(&self->p, mr, AT(self->buf), HALF, mr,
				AT(self->buf + HALF)));
	EXPECT_EQ(-1, differs(self->buf + HALF, HALF, 9));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
}

TEST_F(mr, bad_arguments)
{
	struct ibv_pd *pd = self->p.pd;
	char *hole = mem_pages(3 * PAGE);

	munmap(hole + PAGE, PAGE);
	/* a hole, no memory at all, and the kernel's half of the addresses */
	EXPECT_EQ(NULL, ibv_reg_mr(pd, hole, 3 * PAGE, 0));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(NULL, ibv_reg_mr(pd, hole + PAGE, 8, 0));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(NULL, ibv_reg_mr(pd, (void *)0xffff888000000000, PAGE, 0));
	/* remote changes without local write */
	EXPECT_EQ(NULL, ibv_reg_mr(pd, self->buf, PAGE,
				   IBV_ACCESS_REMOTE_WRITE));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(NULL, ibv_reg_mr(pd, self->buf, PAGE,
				   IBV_ACCESS_REMOTE_ATOMIC));
	EXPECT_EQ(EINVAL, errno);
	/* address and IOVA at different places of the page */
	EXPECT_EQ(NULL, ibv_reg_mr_iova(pd, self->buf, PAGE, 0x10, 0));
	EXPECT_EQ(EINVAL, errno);
	/* on demand, while that is not advertised */
	if (self->p.r.softhca) {
		struct ibv_device_attr_ex ex = {};

		ASSERT_EQ(0, ibv_query_device_ex(self->p.r.ctx, NULL, &ex));
		if (!(ex.odp_caps.general_caps & IBV_ODP_SUPPORT))
			EXPECT_EQ(NULL, ibv_reg_mr(pd, self->buf, PAGE,
						   IBV_ACCESS_ON_DEMAND));
	}
	munmap(hole, PAGE);
	munmap(hole + 2 * PAGE, PAGE);
}

/* An end past 2^64 is refused; an end at 2^64 is one more region */
TEST_F(mr, case_01_iova_wraps)
{
	static const struct { uint64_t iova; size_t len; } wraps[] = {
		{ -PAGE, 2 * PAGE }, { -PAGE, PAGE + 1 },
		{ -2 * PAGE, 3 * PAGE }, { -HALF, HALF + PAGE },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(wraps); i++) {
		struct ibv_mr *mr;
		int status;

		mr = ibv_reg_mr_iova(self->p.pd, self->buf, wraps[i].len,
				     wraps[i].iova, ACCESS_ALL);
		if (self->p.r.softhca)
			EXPECT_EQ(NULL, mr);
		if (!mr)
			continue;
		status = rdma_write(&self->p, self->all, AT(self->buf + HALF),
				    64, mr, -32ull);
		EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, status);
		EXPECT_EQ(0, ibv_dereg_mr(mr));
		ASSERT_EQ(0, pair_reconnect(&self->p));
	}
}

/* Case 17: the next key has only the next rights, the old one never works again */
TEST_F(mr, case_17_hm_2_15_reuse)
{
	uint32_t old[64];

	for (int i = 0; i < 64; i++) {
		int rights = i % 2 ? IBV_ACCESS_REMOTE_READ : ACCESS_ALL;
		struct ibv_mr *mr = ibv_reg_mr(self->p.pd, self->buf, HALF,
					       rights);
		int status;

		ASSERT_NE(NULL, mr);
		for (int n = 0; n < i; n++)
			ASSERT_NE(old[n], mr->rkey);
		old[i] = mr->rkey;
		status = rdma_write(&self->p, self->all, AT(self->buf + HALF),
				    64, mr, AT(self->buf));
		EXPECT_EQ(i % 2 ? IBV_WC_REM_ACCESS_ERR : 0, status);
		ASSERT_EQ(0, ibv_dereg_mr(mr));
		if (i % 2)
			ASSERT_EQ(0, pair_reconnect(&self->p));
	}
	for (int i = 0; i < 64; i += 7) {
		struct ibv_mr gone = { .rkey = old[i] };

		EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
			  rdma_write(&self->p, self->all,
				     AT(self->buf + HALF), 64, &gone,
				     AT(self->buf)));
		ASSERT_EQ(0, pair_reconnect(&self->p));
	}
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* The same, on an HCA whose keys and pages are all ours */
FIXTURE(alone) {
	FIXTURE_DATA(mr) mr;
};

FIXTURE_SETUP(alone)
{
	ASSERT_EQ(0, own_device_add());
	mr_setup(_metadata, &self->mr, NULL);
}

FIXTURE_TEARDOWN(alone)
{
	mr_teardown(_metadata, &self->mr, NULL);
	own_device_del();
}

#define CREATE_KEY	"opcode==0x200"
#define HCA_CMD		TRACING "events/softhca/hca_cmd/"

static int trace_new_keys(void)
{
	return write_file(HCA_CMD "filter", CREATE_KEY) ?:
	       write_file(TRACING "trace", "") ?: write_file(HCA_CMD "enable", "1");
}

/* CREATE_MKEY commands since then */
static int new_keys(void)
{
	FILE *file = fopen(TRACING "trace", "r");
	char line[512];
	int n = 0;

	write_file(HCA_CMD "enable", "0");
	write_file(HCA_CMD "filter", "0");
	if (!file)
		return -errno;
	while (fgets(line, sizeof(line), file))
		n += strstr(line, "hca_cmd: ") != NULL;
	fclose(file);
	return n;
}

/* Does the HCA refuse @key because there is none of that name? */
static bool is_stale(struct pair *p, uint32_t key, char *addr)
{
	struct shca_explain_req req = {
		.va = AT(addr), .length = 64, .key = key,
		.access = SHCA_EXPLAIN_WRITE, .remote = 1,
	};
	struct shca_explain_step steps[4];
	uint8_t by;

	return look_walk(p->a, &req, steps, ARRAY_SIZE(steps), &by) >= 0 &&
	       (by == (HCA_VS_LEVEL0 | HCA_CHECK_NO_MKC) ||
		by == (HCA_VS_LEVEL0 | HCA_CHECK_FREE) ||
		by == (HCA_VS_LEVEL0 | HCA_CHECK_VARIANT));
}

/*
 * 70,000 cycles with 64 keys alive at any time: no key that is gone works, no key is made
 * that could have come from the pool, and the HCA needs no further page.
 */
TEST_F_TIMEOUT(alone, case_18_hm_11_4_cycles, 200)
{
	enum { CYCLES = 70000, LIVE = 64 };
	FIXTURE_DATA(mr) *mr = &self->mr;
	uint32_t keys[LIVE], stale[LIVE] = {};
	bool ours = mr->p.r.softhca;
	struct ibv_mr *live[LIVE] = {};
	long long requests = 0;
	long before = pinned_kib();

	for (int i = 0; i < CYCLES; i++) {
		struct ibv_mr **slot = &live[i % LIVE], gone = {};

		if (i == LIVE && ours) {
			requests = hw_counter("fw_page_request");
			ASSERT_EQ(0, trace_new_keys());
		}
		if (*slot) {
			stale[i % LIVE] = (*slot)->rkey;
			ASSERT_EQ(0, ibv_dereg_mr(*slot));
		}
		*slot = ibv_reg_mr(mr->p.pd, mr->buf + i % 8 * PAGE, PAGE,
				   ACCESS_ALL);
		ASSERT_NE(NULL, *slot) {
			TH_LOG("cycle %d, errno %d", i, errno);
		}
		if (i >= LIVE && ours)
			ASSERT_TRUE(is_stale(&mr->p, stale[i % LIVE], (*slot)->addr)) {
				TH_LOG("cycle %d, key %#x", i, stale[i % LIVE]);
			}
		if (i % 1000 || i < LIVE)
			continue;
		for (int n = 0; n < LIVE; n++)
			keys[n] = live[n]->lkey;
		qsort(keys, LIVE, sizeof(*keys), by_value);
		for (int n = 1; n < LIVE; n++)
			ASSERT_NE(keys[n - 1], keys[n]);
		fill(mr->buf + HALF, 64, i);
		ASSERT_EQ(0, rdma_write(&mr->p, mr->all, AT(mr->buf + HALF), 64,
					*slot, AT((*slot)->addr)));
		ASSERT_EQ(-1, differs((*slot)->addr, 64, i));
		/* what explain says, a request finds */
		gone.rkey = stale[i / 1000 % LIVE];
		fill(mr->buf + HALF, 64, i + 1);
		ASSERT_EQ(IBV_WC_REM_ACCESS_ERR,
			  rdma_write(&mr->p, mr->all, AT(mr->buf + HALF), 64,
				     &gone, AT((*slot)->addr)));
		ASSERT_EQ(-1, differs((*slot)->addr, 64, i));
		ASSERT_EQ(0, pair_reconnect(&mr->p));
	}
	if (ours) {
		EXPECT_EQ(0, new_keys());
		EXPECT_EQ(requests, hw_counter("fw_page_request"));
	}
	for (int i = 0; i < LIVE; i++) {
		keys[i] = live[i]->rkey;
		EXPECT_EQ(0, ibv_dereg_mr(live[i]));
		EXPECT_TRUE(!ours || is_stale(&mr->p, keys[i], mr->buf));
	}
	EXPECT_EQ(before, pinned_kib());
}

TEST_F_TIMEOUT(mr, live_keys_100000, 200)
{
	enum { KEYS = 100000 };
	struct ibv_mr **mr = calloc(KEYS, sizeof(*mr));
	uint32_t *keys = calloc(KEYS, sizeof(*keys));
	long before = pinned_kib();

	ASSERT_NE(NULL, mr);
	ASSERT_NE(NULL, keys);
	for (int i = 0; i < KEYS; i++) {
		mr[i] = ibv_reg_mr(self->p.pd, self->buf + i % 8 * PAGE,
				   PAGE, ACCESS_ALL);
		ASSERT_NE(NULL, mr[i]) {
			TH_LOG("key %d, errno %d", i, errno);
		}
		keys[i] = mr[i]->lkey;
	}
	qsort(keys, KEYS, sizeof(*keys), by_value);
	for (int i = 1; i < KEYS; i++)
		ASSERT_NE(keys[i - 1], keys[i]);
	for (int i = 0; i < KEYS; i += 997) {
		memset(self->buf, 0, HALF);
		memset(self->buf + HALF, 1 + i % 100, 32);
		ASSERT_EQ(0, rdma_write(&self->p, self->all,
					AT(self->buf + HALF), 32, mr[i],
					AT(mr[i]->addr) + 8));
		ASSERT_TRUE(all_bytes((char *)mr[i]->addr + 8, 32,
				      1 + i % 100));
	}
	for (int i = 0; i < KEYS; i++)
		ASSERT_EQ(0, ibv_dereg_mr(mr[i]));
	EXPECT_EQ(before, pinned_kib());
	free(mr);
	free(keys);
}

TEST_F(mr, case_22_hm_2_8_optional_access_bits)
{
	for (int bit = 20; bit < 30; bit++) {
		struct ibv_mr *mr = ibv_reg_mr(self->p.pd, self->buf, HALF,
					       ACCESS_ALL | 1 << bit);

		EXPECT_NE(NULL, mr) {
			TH_LOG("optional bit %d, errno %d", bit, errno);
		}
		if (!mr)
			continue;
		fill(self->buf + HALF, HALF, bit);
		EXPECT_EQ(0, rdma_write(&self->p, self->all,
					AT(self->buf + HALF), HALF, mr,
					AT(self->buf)));
		EXPECT_EQ(-1, differs(self->buf, HALF, bit));
		EXPECT_EQ(0, ibv_dereg_mr(mr));
	}
}

TEST_F(mr, case_23_read_only_mapping)
{
	char *ro = mem_pages(2 * PAGE);
	struct ibv_mr *mr;

	ASSERT_NE(NULL, ro);
	fill(ro, 2 * PAGE, 23);
	ASSERT_EQ(0, mprotect(ro, 2 * PAGE, PROT_READ));
	mr = ibv_reg_mr(self->p.pd, ro, 2 * PAGE, IBV_ACCESS_REMOTE_READ);
	ASSERT_NE(NULL, mr);
	EXPECT_EQ(0, rdma_read(&self->p, self->all, AT(self->buf + HALF),
			       2 * PAGE, mr, AT(ro)));
	EXPECT_EQ(-1, differs(self->buf + HALF, 2 * PAGE, 23));
	EXPECT_EQ(NULL, ibv_reg_mr(self->p.pd, ro, 2 * PAGE,
				   IBV_ACCESS_LOCAL_WRITE));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(0, ibv_dereg_mr(mr));
}

struct racer {
	struct ibv_pd *pd;
	char *buf;
	size_t len;
	int *holders;		/* of registrations, of both racers */
	int good, refused, bad, over;
};

static void *race(void *arg)
{
	struct racer *r = arg;

	/* on a busy machine the other may be asleep with its region: until that one is done */
	for (int i = 0; i < 300 || (!r->good && i < 1000000); i++) {
		struct ibv_mr *mr = ibv_reg_mr(r->pd, r->buf, r->len, 0);

		if (mr) {
			r->good++;
			if (__atomic_add_fetch(r->holders, 1, __ATOMIC_SEQ_CST) > 1)
				r->over++;
			sched_yield();
			__atomic_sub_fetch(r->holders, 1, __ATOMIC_SEQ_CST);
			ibv_dereg_mr(mr);
		} else if (errno == ENOMEM) {
			r->refused++;
		} else {
			r->bad++;
		}
	}
	return NULL;
}

TEST_F(mr, case_24_memlock_limit)
{
	long before = pinned_kib(), limit = before + 16;
	int holders = 0;
	struct racer r[2] = {
		{ self->p.pd, self->buf, 3 * PAGE, &holders },
		{ self->p.pd, self->buf + 4 * PAGE, 3 * PAGE, &holders },
	};
	struct rlimit memlock = { limit * 1024, limit * 1024 };
	pthread_t thread[2];
	struct ibv_mr *mr;

	ASSERT_EQ(0, setrlimit(RLIMIT_MEMLOCK, &memlock));
	ASSERT_EQ(0, setresuid(65534, 65534, 65534));	/* no CAP_IPC_LOCK */
	EXPECT_EQ(NULL, ibv_reg_mr(self->p.pd, self->buf, 5 * PAGE, 0));
	EXPECT_EQ(ENOMEM, errno);
	EXPECT_EQ(before, pinned_kib());
	mr = ibv_reg_mr(self->p.pd, self->buf, 4 * PAGE, 0);
	ASSERT_NE(NULL, mr);
	EXPECT_EQ(limit, pinned_kib());
	EXPECT_EQ(NULL, ibv_reg_mr(self->p.pd, self->buf, 1, 0));
	EXPECT_EQ(ENOMEM, errno);
	EXPECT_EQ(0, ibv_dereg_mr(mr));
	EXPECT_EQ(before, pinned_kib());
	/* two of three pages each: only one of them at a time. VmPin is no witness
	 * here: the kernel adds first, then looks at the limit and takes back
	 */
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, race, &r[i]));
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < 2; i++) {
		EXPECT_LT(0, r[i].good);
		EXPECT_EQ(0, r[i].bad);
		EXPECT_EQ(0, r[i].over);
	}
	EXPECT_EQ(before, pinned_kib());
}

TEST_F(mr, case_25_fork)
{
	struct ibv_mr *mr = ibv_reg_mr(self->p.pd, self->buf, HALF, ACCESS_ALL);
	int status = -1;
	pid_t child;

	ASSERT_NE(NULL, mr);
	fill(self->buf, HALF, 25);
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		memset(self->buf, 0xee, HALF);
		_exit(all_bytes(self->buf, HALF, 0xee) ? 0 : 1);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, rdma_read(&self->p, self->all, AT(self->buf + HALF), HALF,
			       mr, AT(self->buf)));
	EXPECT_EQ(-1, differs(self->buf + HALF, HALF, 25));
	fill(self->buf, HALF, 26);
	EXPECT_EQ(0, rdma_read(&self->p, self->all, AT(self->buf + HALF), HALF,
			       mr, AT(self->buf)));
	EXPECT_EQ(-1, differs(self->buf + HALF, HALF, 26));
	fill(self->buf + HALF, HALF, 27);
	EXPECT_EQ(0, rdma_write(&self->p, self->all, AT(self->buf + HALF),
				HALF, mr, AT(self->buf)));
	EXPECT_EQ(-1, differs(self->buf, HALF, 27));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
}

/*
 * A region of 4 GiB + 4 MiB. One huge page backs all of it but the last two
 * megabytes, so that a small machine can hold it.
 */
TEST_F_TIMEOUT(mr, case_26_hm_4_27_beyond_4_gib, 100)
{
	size_t len = (4ul << 30) + 2 * HUGE;
	struct ibv_mr *mr;
	struct look look;
	char *map, *keep;
	int fd;

	keep = mem_huge(2 * HUGE);	/* leaves two in the pool */
	if (!keep)
		SKIP(return, "no huge pages left");
	munmap(keep, 2 * HUGE);
	fd = memfd_create("huge", MFD_HUGETLB);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ftruncate(fd, 2 * HUGE));
	map = mmap(NULL, len + HUGE, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ASSERT_NE(MAP_FAILED, map);
	map = (char *)(((uintptr_t)map + HUGE - 1) & -HUGE);
	for (size_t at = 0; at < len; at += HUGE)
		ASSERT_NE(MAP_FAILED,
			  mmap(map + at, HUGE, PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_FIXED, fd,
			       at + HUGE == len ? HUGE : 0));
	memset(map, 0, HUGE);
	memset(map + len - HUGE, 0, HUGE);
	mr = ibv_reg_mr(self->p.pd, map, len, ACCESS_ALL);
	ASSERT_NE(NULL, mr);
	if (self->p.r.softhca) {
		ASSERT_EQ(0, look_mr(mr, &look));
		EXPECT_EQ(21, look.log_page_size);
		EXPECT_EQ(len, look.len);
		EXPECT_LE(len / HUGE, look.octwords * 2);
		/* a key from a pool has room for less than twice as much */
		EXPECT_GT(2 * (len / HUGE) + 8, look.octwords * 2);
	}
	fill(self->buf + HALF, HALF, 26);
	/* over the edge between the two pages, 2 MiB beyond 4 GiB */
	EXPECT_EQ(0, rdma_write(&self->p, self->all, AT(self->buf + HALF),
				HALF, mr, AT(map + len - HUGE - PAGE)));
	EXPECT_EQ(-1, differs_at(map + HUGE - PAGE, PAGE, 26, 0));
	EXPECT_EQ(-1, differs_at(map + len - HUGE, HALF - PAGE, 26, PAGE));
	EXPECT_TRUE(all_bytes(map, HUGE - PAGE, 0));
	EXPECT_TRUE(all_bytes(map + len - HUGE + HALF - PAGE,
			      HUGE - HALF + PAGE, 0));
	/* the last byte, and one too far */
	EXPECT_EQ(0, rdma_write(&self->p, self->all, AT(self->buf + HALF), 1,
				mr, AT(map + len - 1)));
	EXPECT_EQ(self->buf[HALF], map[len - 1]);
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
		  rdma_write(&self->p, self->all, AT(self->buf + HALF), 1, mr,
			     AT(map + len)));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
	munmap(map, len);
	close(fd);
}

TEST_F(mr, case_27_unmapped_and_mapped_again)
{
	char *map = mem_pages(2 * PAGE), *again;
	struct ibv_mr *mr;

	ASSERT_NE(NULL, map);
	memset(map, 1, 2 * PAGE);
	mr = ibv_reg_mr(self->p.pd, map, 2 * PAGE, ACCESS_ALL);
	ASSERT_NE(NULL, mr);
	ASSERT_EQ(0, munmap(map, 2 * PAGE));
	again = mmap(map, 2 * PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	ASSERT_EQ(map, again);
	memset(again, 2, 2 * PAGE);
	fill(self->buf + HALF, 2 * PAGE, 27);
	EXPECT_EQ(0, rdma_write(&self->p, self->all, AT(self->buf + HALF),
				2 * PAGE, mr, AT(map)));
	EXPECT_TRUE(all_bytes(again, 2 * PAGE, 2));
	/* the old pages are still there, and hold it */
	memset(self->buf + HALF, 0, 2 * PAGE);
	EXPECT_EQ(0, rdma_read(&self->p, self->all, AT(self->buf + HALF),
			       2 * PAGE, mr, AT(map)));
	EXPECT_EQ(-1, differs(self->buf + HALF, 2 * PAGE, 27));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
	EXPECT_TRUE(all_bytes(again, 2 * PAGE, 2));
}

/* Traffic that does not stop by itself, for deregistration to run into */

#define BIG	(4ul << 20)
#define DEPTH	16

struct flood {
	struct pair *p;
	uint64_t laddr, raddr;
	uint32_t lkey, rkey, len;
	int status, sent;
};

static void *flood(void *arg)
{
	struct flood *f = arg;
	int outstanding = 0;
	struct ibv_wc wc;

	for (;;) {
		while (outstanding < DEPTH) {
			f->status = post(f->p->a, &(struct op){
				.opcode = IBV_WR_RDMA_WRITE,
				.flags = IBV_SEND_SIGNALED, .len = f->len,
				.laddr = f->laddr, .lkey = f->lkey,
				.raddr = f->raddr, .rkey = f->rkey,
			});
			if (f->status)
				return NULL;
			outstanding++;
		}
		if (wait_wc(f->p->acq, &wc, WAIT_MS) != 1) {
			f->status = -ETIMEDOUT;
			return NULL;
		}
		outstanding--;
		f->status = wc.status;
		if (f->status)
			return NULL;
		__atomic_add_fetch(&f->sent, 1, __ATOMIC_RELAXED);
	}
}

TEST_F_TIMEOUT(mr, case_28_hm_7_7_hm_11_1_dereg_with_traffic, 100)
{
	char *from = mem_pages(BIG), *to;
	struct ibv_mr *from_mr, *mr;
	pthread_t thread;

	ASSERT_NE(NULL, from);
	memset(from, 0x77, BIG);
	from_mr = ibv_reg_mr(self->p.pd, from, BIG, ACCESS_ALL);
	ASSERT_NE(NULL, from_mr);
	for (int round = 0; round < 15; round++) {
		struct flood f = { .p = &self->p, .laddr = AT(from),
				   .lkey = from_mr->lkey,
				   .len = round % 3 ? BIG : 512 };
		bool remote = round % 2;	/* which side's key goes */
		uint64_t end = now_us() + WAIT_MS * 1000;

		to = mem_pages(BIG);
		ASSERT_NE(NULL, to);
		mr = ibv_reg_mr(self->p.pd, to, BIG, ACCESS_ALL);
		ASSERT_NE(NULL, mr);
		f.raddr = AT(to);
		f.rkey = mr->rkey;
		if (!remote) {
			f.raddr = AT(from);
			f.rkey = from_mr->rkey;
			f.laddr = AT(to);
			f.lkey = mr->lkey;
		}
		ASSERT_EQ(0, pthread_create(&thread, NULL, flood, &f));
		while (__atomic_load_n(&f.sent, __ATOMIC_RELAXED) < 3 &&
		       now_us() < end)
			sched_yield();
		EXPECT_EQ(0, ibv_dereg_mr(mr));
		/* from here on nobody may touch it */
		memset(to, 0x5a, BIG);
		pthread_join(thread, NULL);
		EXPECT_LE(3, f.sent);
		EXPECT_EQ(remote ? IBV_WC_REM_ACCESS_ERR : IBV_WC_LOC_PROT_ERR,
			  f.status);
		usleep(5000);
		EXPECT_TRUE(all_bytes(to, BIG, 0x5a));
		munmap(to, BIG);
		memset(from, 0x77, BIG);
		ASSERT_EQ(0, pair_reconnect(&self->p));
		if (!__test_passed(_metadata))
			break;
	}
	EXPECT_EQ(0, ibv_dereg_mr(from_mr));
}

/* The invalidation waits for a chunk, not for the message */
TEST_F_TIMEOUT(mr, hm_11_3_dereg_in_a_long_message, 100)
{
	enum { LONG = 64 << 20 };
	char *map = mem_pages(LONG);
	struct ibv_mr *mr, *local;
	uint64_t start, whole, wait;
	struct ibv_wc wc;
	struct op op = { .opcode = IBV_WR_RDMA_WRITE, .len = LONG,
			 .flags = IBV_SEND_SIGNALED };

	ASSERT_NE(NULL, map);
	memset(map, 1, LONG);
	local = ibv_reg_mr(self->p.pd, map, LONG, ACCESS_ALL);
	mr = ibv_reg_mr(self->p.pd, map, LONG, ACCESS_ALL);
	ASSERT_NE(NULL, local);
	ASSERT_NE(NULL, mr);
	op.laddr = AT(map);
	op.raddr = AT(map);
	op.lkey = local->lkey;
	op.rkey = mr->rkey;
	start = now_us();
	for (int i = 0; i < 8; i++)
		ASSERT_EQ(0, post(self->p.a, &op));
	ASSERT_EQ(0, wait_good(self->p.acq, 8));
	whole = now_us() - start;
	for (int i = 0; i < 8; i++)
		ASSERT_EQ(0, post(self->p.a, &op));
	start = now_us();
	EXPECT_EQ(0, ibv_dereg_mr(mr));
	wait = now_us() - start;
	ASSERT_EQ(1, wait_wc(self->p.acq, &wc, WAIT_MS));
	for (int i = 1; i < 8 && wc.status == IBV_WC_SUCCESS; i++)
		ASSERT_EQ(1, wait_wc(self->p.acq, &wc, WAIT_MS));
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, wc.status);
	EXPECT_GT(whole / 2, wait) {
		TH_LOG("waited %lu us of %lu us", wait, whole);
	}
	EXPECT_EQ(0, ibv_dereg_mr(local));
}

/* HM-1.15: queues are not behind keys */
TEST_F(mr, hm_1_15_no_key_left)
{
	struct ibv_wc wc;

	ASSERT_EQ(0, post_recv(self->p.b, 4, 0, 0, 0));
	EXPECT_EQ(0, ibv_dereg_mr(self->all));
	self->all = NULL;
	EXPECT_EQ(0, run(self->p.a, self->p.acq, &(struct op){
		.opcode = IBV_WR_SEND }, NULL));
	ASSERT_EQ(1, wait_wc(self->p.bcq, &wc, WAIT_MS));
	EXPECT_EQ(4, wc.wr_id);
	EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
}

/* A PD that has regions stays; a region outlives nothing it needs */
TEST_F(mr, pd_in_use)
{
	struct ibv_pd *pd = ibv_alloc_pd(self->p.r.ctx);
	struct ibv_mr *mr;

	ASSERT_NE(NULL, pd);
	mr = ibv_reg_mr(pd, self->buf, PAGE, 0);
	ASSERT_NE(NULL, mr);
	EXPECT_EQ(EBUSY, ibv_dealloc_pd(pd));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
	EXPECT_EQ(0, ibv_dealloc_pd(pd));
}

TEST_F(mr, pd_numbers_are_unique)
{
	struct ibv_pd *pd[200];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 200; i++) {
			pd[i] = ibv_alloc_pd(self->p.r.ctx);
			ASSERT_NE(NULL, pd[i]);
		}
		for (int i = 0; i < 200; i++)
			ASSERT_EQ(0, ibv_dealloc_pd(pd[i]));
	}
}

/* A context that closes with everything alive gives all of it back */
TEST(process_exit_gives_all_back)
{
	for (int i = 0; i < 5; i++) {
		pid_t child = fork();
		int status = -1;

		ASSERT_LE(0, child);
		if (!child) {
			struct pair p;
			char *buf = mem_pages(BUF);

			if (pair_open(&p, NULL))
				_exit(1);
			for (int n = 0; n < 50; n++)
				if (!ibv_reg_mr(p.pd, buf, BUF, ACCESS_ALL))
					_exit(2);
			_exit(0);
		}
		ASSERT_EQ(child, waitpid(child, &status, 0));
		EXPECT_EQ(0, status);
	}
}

TEST_HARNESS_MAIN
