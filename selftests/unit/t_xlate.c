// SPDX-License-Identifier: GPL-2.0
/*
 * Translation: HM sections 4 and 5 and the key checks of 2. The worked numbers of HM 4.8 are typed from there; the random
 * test compares the engine with the model at the top of this file, which was written from HM 4.2, 4.5 and 5.3 alone.
 * hca_explain() runs the same walk as requests do (design rule 5); that claim is tested here too, not believed.
 */
#include <linux/kernel.h>

#include "unit.h"

#define MTT	MLX5_MKC_ACCESS_MODE_MTT
#define PA	MLX5_MKC_ACCESS_MODE_PA

/* E1 */

static const u64 e1_pages[] = { 0x7f0012000, 0x7f0345000, 0x7f0001000, 0x7f0999000 };

TEST("HM-4.1", example_e1)
{
	static const struct { u64 va, dma; } row[] = {
		{ 0x10000e00, 0x7f0012e00 }, { 0x10000fff, 0x7f0012fff }, { 0x10001000, 0x7f0345000 },
		{ 0x100025f0, 0x7f00015f0 }, { 0x100035ff, 0x7f09995ff },
		{ 0x10003600, HCA_VS_LEVEL0 | HCA_CHECK_BOUNDS },
	};
	struct key_attr a = { .mode = MTT, KEY_ALL, .start = 0x10000e00, .len = 0x2800, .mtt = e1_pages, .nr = 4 };
	u32 key = key_new(m, &a), len;
	struct pair p = pair_new(m);
	struct mem page[4];
	struct walk w;
	size_t i;
	u64 d;

	for (i = 0; i < 4; i++) {
		page[i] = mem_at(m, e1_pages[i], 4096);
		mem_fill(&page[i], 0, 4096, 100 + i);
	}
	for (i = 0; i < ARRAY_SIZE(row); i++)
		ASSERT_EQ(dma_of(m, p.a, key, row[i].va), row[i].dma);

	/* 0x400 bytes at the beginning: (0x7F0012E00, 0x200), (0x7F0345000, 0x200) */
	w = explain(m, p.a, key, 0x10000e00, 0x400, HCA_ACCESS_READ, false);
	ASSERT_EQ(w.syndrome, 0);
	ASSERT_EQ(w.n, 2);
	ASSERT_EQ(w.step[0].dma, 0x7f0012e00ULL);
	ASSERT_EQ(w.step[0].len, 0x200ull);
	ASSERT_EQ(w.step[0].index, 0ull);
	ASSERT_EQ(w.step[0].entry[0] & ~3ULL, 0x7f0012000ULL);
	ASSERT_EQ(w.step[1].dma, 0x7f0345000ULL);
	ASSERT_EQ(w.step[1].len, 0x200ull);
	ASSERT_EQ(w.step[1].index, 1ull);
	ASSERT_EQ(w.step[1].key, key);
	ASSERT_EQ(w.step[1].level, 0);
	ASSERT_EQ(w.step[1].access_mode, MTT);
	ASSERT_EQ(w.step[1].log_page_size, 12);
	ASSERT_EQ(w.step[1].start, 0x10000e00ull);
	ASSERT_EQ(w.step[1].mkc_len, 0x2800ull);

	/* and the data path moves just these bytes: the whole MR in one READ */
	len = 0x2000;
	post_read(p.a, p.lkey, p.s, len, key, 0x10000e00);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	ASSERT_PATTERN(&p.src, PAIR_OFFSET, 0x200, 100, 0xe00);
	ASSERT_PATTERN(&p.src, PAIR_OFFSET + 0x200, 0x1000, 101, 0);
	ASSERT_PATTERN(&p.src, PAIR_OFFSET + 0x1200, 0xe00, 102, 0);
	/* a WRITE of the last 0x800 bytes lands in the tail of page 2 and the head of page 3, and nowhere else */
	mem_fill(&p.src, 0, p.src.len, 1);
	post_write(p.a, p.lkey, p.s, 0x800, key, 0x10002e00);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 1);
	ASSERT_PATTERN(&page[2], 0, 0xe00, 102, 0);
	ASSERT_PATTERN(&page[2], 0xe00, 0x200, 1, PAIR_OFFSET);
	ASSERT_PATTERN(&page[3], 0, 0x600, 1, PAIR_OFFSET + 0x200);
	ASSERT_PATTERN(&page[3], 0x600, 0xa00, 103, 0x600);
	d = mem_differs(&page[0], 0, 4096, 100, 0);
	ASSERT_EQ(d, 4096ull);
}

TEST("HM-4.2", last_byte_and_one_beyond)
{
	struct pair p = pair_new(m);
	u8 a5 = HCA_VS_LEVEL0 | HCA_CHECK_BOUNDS;

	ASSERT_EQ(syndrome_of(m, p.b, p.rkey, p.d, 1), 0);
	ASSERT_EQ(syndrome_of(m, p.b, p.rkey, p.d + p.len - 1, 1), 0);
	ASSERT_EQ(syndrome_of(m, p.b, p.rkey, p.d, p.len), 0);
	ASSERT_EQ(syndrome_of(m, p.b, p.rkey, p.d + p.len, 1), a5);
	ASSERT_EQ(syndrome_of(m, p.b, p.rkey, p.d + p.len - 1, 2), a5);
	ASSERT_EQ(syndrome_of(m, p.b, p.rkey, p.d - 1, 1), a5);
	ASSERT_EQ(syndrome_of(m, p.b, p.rkey, p.d - 1, 2), a5);
	ASSERT_EQ(syndrome_of(m, p.b, p.rkey, p.d, p.len + 1), a5);
	ASSERT_EQ(syndrome_of(m, p.b, p.rkey, 0, 1), a5);
	/* for real, from both sides */
	ASSERT_EQ(read_by_peer(&p, p.rkey, p.d + p.len - 1, 1), 0);
	ASSERT_EQ(read_by_peer(&p, p.rkey, p.d + p.len - 1, 2), a5);
	pair_revive(&p);
	ASSERT_EQ(read_by_peer(&p, p.rkey, p.d - 1, 1), a5);
	pair_revive(&p);
	ASSERT_EQ(read_by_peer(&p, p.rkey, p.d + p.len, 1), a5);
	pair_revive(&p);
	post_send(p.a, p.lkey, p.s + p.len - 4, 5);
	EXPECT_REQ_ERR(p.a, 0, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, a5);
}

TEST("HM-4.3", the_end_of_the_address_space)
{
	static const u64 pages[] = { 0x7f0012000, 0x7f0345000 };
	struct key_attr a = { .mode = MTT, KEY_ALL, .start = ~0xfffULL, .len = 0x1000, .mtt = pages, .nr = 2 };
	struct pair p = pair_new(m);
	u32 key = key_new(m, &a);
	u8 a5 = HCA_VS_LEVEL0 | HCA_CHECK_BOUNDS;

	mem_at(m, pages[0], 4096);
	ASSERT_EQ(syndrome_of(m, p.b, key, ~0xfffULL, 0x1000), 0);
	ASSERT_EQ(syndrome_of(m, p.b, key, ~0ULL, 1), 0);
	ASSERT_EQ(syndrome_of(m, p.b, key, ~0ULL, 2), a5);
	ASSERT_EQ(syndrome_of(m, p.b, key, ~0xfffULL, 0x1001), a5);
	ASSERT_EQ(syndrome_of(m, p.b, key, ~0ULL, ~0ULL), a5);
	ASSERT_EQ(read_by_peer(&p, key, ~0xfULL, 0x10), 0);
	ASSERT_EQ(read_by_peer(&p, key, ~0xfULL, 0x11), a5);
	pair_revive(&p);
	ASSERT_EQ(read_by_peer(&p, p.rkey, ~0ULL, 0x1000), a5);
}

TEST("HM-4.6", example_e2)
{
	static const u64 pages[] = { 0x180000000, 0x240200000 };
	struct key_attr a = { .mode = MTT, KEY_ALL, .start = 0x40001000, .len = 0x300000, .log_page = 21, .mtt = pages, .nr = 2 };
	u32 key = key_new(m, &a);
	struct pair p = pair_new(m);
	struct mem page[2] = { mem_at(m, pages[0], 0x200000), mem_at(m, pages[1], 0x200000) };

	mem_fill(&page[0], 0x1ff000, 0x1000, 7);
	mem_fill(&page[1], 0, 0x1000, 8);
	ASSERT_EQ(dma_of(m, p.a, key, 0x40001000), 0x180001000ULL);
	ASSERT_EQ(dma_of(m, p.a, key, 0x401fffff), 0x1801fffffULL);
	ASSERT_EQ(dma_of(m, p.a, key, 0x40200000), 0x240200000ULL);
	ASSERT_EQ(dma_of(m, p.a, key, 0x40300fff), 0x240300fffULL);
	ASSERT_EQ(dma_of(m, p.a, key, 0x40301000), (u64)(HCA_VS_LEVEL0 | HCA_CHECK_BOUNDS));
	ASSERT_EQ(read_by_peer(&p, key, 0x401ff800, 0x1000), 0);
	ASSERT_PATTERN(&p.src, PAIR_OFFSET, 0x800, 7, 0x1ff800);
	ASSERT_PATTERN(&p.src, PAIR_OFFSET + 0x800, 0x800, 8, 0);
}

TEST("HM-4.15", example_e6)
{
	struct key_attr a = { .mode = PA, KEY_ALL, .length64 = true };
	u32 key = key_new(m, &a);
	struct pair p = pair_new(m);
	struct mem top = mem_at(m, 0xfffffffffffff000ULL, 4096);
	u8 a5 = HCA_VS_LEVEL0 | HCA_CHECK_BOUNDS;

	mem_fill(&top, 0, 4096, 5);
	ASSERT_EQ(dma_of(m, p.a, key, 0xfffffffffffffff0ULL), 0xfffffffffffffff0ULL);
	ASSERT_EQ(syndrome_of(m, p.a, key, 0xfffffffffffffff0ULL, 0x10), 0);
	ASSERT_EQ(syndrome_of(m, p.a, key, 0xfffffffffffffff0ULL, 0x11), a5);
	ASSERT_EQ(syndrome_of(m, p.a, key, 0, ~0ULL) == a5, false);
	ASSERT_EQ(read_by_peer(&p, key, 0xfffffffffffffff0ULL, 0x10), 0);
	ASSERT_PATTERN(&p.src, PAIR_OFFSET, 0x10, 5, 0xff0);
	ASSERT_EQ(read_by_peer(&p, key, 0xfffffffffffffff0ULL, 0x11), a5);

	/* the region [S, S + 2^64) wraps: an address below S lies in it, an access across S does not */
	a.start = 0x8000;
	key = key_new(m, &a);
	ASSERT_EQ(syndrome_of(m, p.a, key, 0x7ff0, 0x10) == a5, false);
	ASSERT_EQ(syndrome_of(m, p.a, key, 0x7ff0, 0x11), a5);
}

TEST("HM-4.16", example_e7)
{
	struct mem mem = mem_new(m, 3 * 4096);
	u32 key = mr_new(m, &mem, 0x123, 0x2000, 0x123);
	struct pair p = pair_new(m);
	struct walk w = explain(m, p.a, key, 0x1122, 1, HCA_ACCESS_READ, false);

	mem_fill(&mem, 0, mem.len, 6);
	ASSERT_EQ(w.syndrome, 0);
	ASSERT_EQ(w.step[0].index, 1ull);
	ASSERT_EQ(w.step[0].dma, mem_dma(&mem, 0x1000) + 0x122);
	/* the byte at iova + 0x1000 is the byte at va + 0x1000 */
	ASSERT_EQ(read_by_peer(&p, key, 0x123 + 0x1000, 0x100), 0);
	ASSERT_PATTERN(&p.src, PAIR_OFFSET, 0x100, 6, 0x123 + 0x1000);
}

TEST("HM-4.3", example_e8)
{
	static const u64 pages[] = { 0x7f0012000 };
	struct key_attr a = { .mode = MTT, KEY_ALL, .start = 0xfffffffffffff000ULL, .len = 0x800, .mtt = pages, .nr = 1 };
	u32 key = key_new(m, &a);
	struct pair p = pair_new(m);
	u8 a5 = HCA_VS_LEVEL0 | HCA_CHECK_BOUNDS;

	mem_at(m, pages[0], 4096);
	ASSERT_EQ(syndrome_of(m, p.a, key, a.start + 0x7f0, 0x20), a5);
	ASSERT_EQ(syndrome_of(m, p.a, key, a.start + 0x7f0, 0x10), 0);
	ASSERT_EQ(read_by_peer(&p, key, a.start + 0x7f0, 0x20), a5);
}

TEST("HM-4.14", table_ends_before_the_access)
{
	struct pair p = pair_new(m);
	struct mem mem = mem_new(m, 8 * 4096);
	u64 mtt[2] = { mem.dma[0], mem.dma[1] };
	struct key_attr a = { .mode = MTT, KEY_ALL, .start = 0x100000, .length64 = true, .mtt = mtt, .nr = 2, .octwords = 1 };
	u32 key = key_new(m, &a);

	/* one octoword is declared, four are there: eight entries, of which two are present */
	ASSERT_EQ(syndrome_of(m, p.a, key, 0x100000, 0x2000), 0);
	ASSERT_EQ(syndrome_of(m, p.a, key, 0x102000, 1), HCA_VS_LEVEL0 | HCA_CHECK_PAGE);
	ASSERT_EQ(syndrome_of(m, p.a, key, 0x107fff, 1), HCA_VS_LEVEL0 | HCA_CHECK_PAGE);
	ASSERT_EQ(syndrome_of(m, p.a, key, 0x108000, 1), HCA_VS_LEVEL0 | HCA_CHECK_TABLE_END);
	ASSERT_EQ(syndrome_of(m, p.a, key, 0xfffff, 1), HCA_VS_LEVEL0 | HCA_CHECK_TABLE_END);
	ASSERT_EQ(syndrome_of(m, p.a, key, ~0ULL - 0x1000, 1), HCA_VS_LEVEL0 | HCA_CHECK_TABLE_END);
	ASSERT_EQ(read_by_peer(&p, key, 0x108000, 1), HCA_VS_LEVEL0 | HCA_CHECK_TABLE_END);
	pair_revive(&p);
	ASSERT_EQ(read_by_peer(&p, key, 0x102000, 1), HCA_VS_LEVEL0 | HCA_CHECK_PAGE);
	pair_revive(&p);
	/* no table at all */
	a = (struct key_attr){ .mode = MTT, KEY_ALL, .length64 = true };
	key = key_new(m, &a);
	ASSERT_EQ(read_by_peer(&p, key, 0, 1), HCA_VS_LEVEL0 | HCA_CHECK_TABLE_END);
	pair_revive(&p);
	/* an index beyond 32 bits must not come back as a small one: page 2^32 of a 4 KiB key */
	a = (struct key_attr){ .mode = MTT, KEY_ALL, .length64 = true, .mtt = mtt, .nr = 2 };
	key = key_new(m, &a);
	ASSERT_EQ(syndrome_of(m, p.a, key, 0, 1), 0);
	ASSERT_EQ(syndrome_of(m, p.a, key, 1ULL << 44, 1), HCA_VS_LEVEL0 | HCA_CHECK_TABLE_END);
	ASSERT_EQ(read_by_peer(&p, key, 1ULL << 44, 1), HCA_VS_LEVEL0 | HCA_CHECK_TABLE_END);
}

/* each page size that the capability names, access over the edge of two pages, sparse memory */
static void over_the_edge(struct machine *m, unsigned int log)
{
	struct pair p = pair_new(m);
	u64 size = 1ULL << log, s = 0x7000000000000ULL + size - 0x678;
	struct mem mem = mem_new_pages(m, 2 * size, log);
	u64 edge = s + 0x678;
	u32 key = mr_new_attr(m, &mem, size - 0x678, 0x678 + size, s, (struct key_attr){ KEY_ALL });
	struct walk w;

	mem_fill(&mem, size - 0x678, 0x678, 3);
	mem_fill(&mem, size, 0x1000, 3);
	w = explain(m, p.a, key, edge - 0x100, 0x200, HCA_ACCESS_READ, false);
	ASSERT_EQ(w.syndrome, 0);
	ASSERT_EQ(w.n, 2);
	ASSERT_EQ(w.step[0].dma, mem.dma[0] + size - 0x100);
	ASSERT_EQ(w.step[0].len, 0x100ull);
	ASSERT_EQ(w.step[1].dma, mem.dma[1]);
	ASSERT_EQ(w.step[1].len, 0x100ull);
	ASSERT_EQ(w.step[1].log_page_size, log);
	ASSERT_EQ(dma_of(m, p.a, key, s + 0x678 + size - 1), mem.dma[1] + size - 1);
	ASSERT_EQ(dma_of(m, p.a, key, s + 0x678 + size), (u64)(HCA_VS_LEVEL0 | HCA_CHECK_BOUNDS));
	ASSERT_EQ(read_by_peer(&p, key, s, 0x678 + 0x900), 0);
	ASSERT_PATTERN(&p.src, PAIR_OFFSET, 0xf78, 3, size - 0x678);
	/* the very last bytes of the second page */
	post_write(p.a, p.lkey, p.s, 0x20, key, s + 0x678 + size - 0x20);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 1);
	ASSERT(!memcmp(mem.cpu + 2 * size - 0x20, p.src.cpu + PAIR_OFFSET, 0x20));
	mem_unmap(&mem);
	ASSERT_EQ(qp_free(p.a), 0);
	ASSERT_EQ(qp_free(p.b), 0);
}

TEST("HM 4.5", every_page_size_from_4k)
{
	for (unsigned int log = 12; log <= 25; log++)
		over_the_edge(m, log);
}

TEST("HM 4.5", every_page_size_to_2g)
{
	for (unsigned int log = 26; log <= 31; log++)
		over_the_edge(m, log);
}

TEST("HM-4.27", beyond_four_gigabytes)
{
	struct pair p = pair_new(m);
	/* 5 GiB of 2 MiB pages; and of 2 GiB pages: the number of bytes and the number of pages each pass 32 bits once */
	for (unsigned int log = 21; log <= 31; log += 10) {
		struct mem mem = mem_new_pages(m, 6ULL << 30, log);
		u32 key = mr_new_attr(m, &mem, 0x1000, 5ULL << 30, 0x1000, (struct key_attr){ KEY_ALL });
		u64 at = (4ULL << 30) + 0x123456;

		mem_fill(&mem, at, 0x1000, 4);
		ASSERT_EQ(read_by_peer(&p, key, at, 0x1000), 0);
		ASSERT_PATTERN(&p.src, PAIR_OFFSET, 0x1000, 4, at);
		/* and not 4 GiB below */
		ASSERT(mem_is_zero(mem.cpu + 0x123456, 0x1000));
		post_write(p.a, p.lkey, p.s, 0x1000, key, at + 0x2000);
		EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, p.a->sq_pi - 1);
		ASSERT_PATTERN(&mem, at + 0x2000, 0x1000, 4, at);
		ASSERT(mem_is_zero(mem.cpu + 0x123456 + 0x2000, 0x1000));
		ASSERT_EQ(syndrome_of(m, p.a, key, 0x1000 + (5ULL << 30), 1), HCA_VS_LEVEL0 | HCA_CHECK_BOUNDS);
		ASSERT_EQ(syndrome_of(m, p.a, key, 0x1000, 5ULL << 30), 0);
		mem_unmap(&mem);
	}
}

TEST("HM-4.21", pa_takes_the_address_itself)
{
	struct mem mem = mem_new(m, 4096);
	u64 dma = mem.dma[0];
	struct key_attr a = { .mode = PA, KEY_ALL, .start = dma + 0x100, .len = 0x200 };
	u32 key = key_new(m, &a);
	struct pair p = pair_new(m);

	mem_fill(&mem, 0, 4096, 3);
	ASSERT_EQ(dma_of(m, p.a, key, dma + 0x123), dma + 0x123);
	ASSERT_EQ(dma_of(m, p.a, key, dma + 0x2ff), dma + 0x2ff);
	ASSERT_EQ(dma_of(m, p.a, key, dma + 0x300), (u64)(HCA_VS_LEVEL0 | HCA_CHECK_BOUNDS));
	ASSERT_EQ(dma_of(m, p.a, key, dma + 0xff), (u64)(HCA_VS_LEVEL0 | HCA_CHECK_BOUNDS));
	ASSERT_EQ(read_by_peer(&p, key, dma + 0x100, 0x200), 0);
	ASSERT_PATTERN(&p.src, PAIR_OFFSET, 0x200, 3, 0x100);
}

/* a PA access may be longer than what the bus maps at once, and cross what it maps at all */
TEST("HM-4.21", long_pa_access)
{
	struct mem big = mem_at(m, 0x500000000, 6 << 20), to = mem_new(m, 6 << 20);
	struct key_attr a = { .mode = PA, KEY_ALL, .length64 = true };
	u32 key = key_new(m, &a), lkey = mr_new(m, &to, 0, to.len, 0);
	struct pair p = pair_new(m);

	mem_fill(&big, 0, big.len, 3);
	post_read(p.a, lkey, 0, (6 << 20) - 5, key, 0x500000003);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	ASSERT_PATTERN(&to, 0, (6 << 20) - 5, 3, 3);
	post_read(p.a, lkey, 0, 4 << 20, key, 0x500000000 + (4 << 20));
	EXPECT_REQ_ERR(p.a, 1, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, HCA_VS_NAK_ACCESS);
	ASSERT_EQ(qp_error(p.b).vendor, HCA_VS_LEVEL0 | HCA_CHECK_BUS);
}

TEST("HM-4.26", an_address_that_the_bus_refuses)
{
	struct mem mem = mem_new(m, 3 * 4096);
	struct pair p = pair_new(m);
	u64 mtt[3] = { mem.dma[0], mem.dma[1] + 0x40000000000ULL, mem.dma[2] };
	struct key_attr a = { .mode = MTT, KEY_ALL, .len = 3 * 4096, .mtt = mtt, .nr = 3 };
	u32 key = key_new(m, &a);
	u8 ae = HCA_VS_LEVEL0 | HCA_CHECK_BUS;

	mem_fill(&mem, 0, mem.len, 3);
	ASSERT_EQ(read_by_peer(&p, key, 0x1000, 16), ae);
	pair_revive(&p);
	post_write(p.a, p.lkey, p.s, 64, key, 0x1ff0);
	EXPECT_REQ_ERR(p.a, 0, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, HCA_VS_NAK_ACCESS);
	ASSERT_EQ(qp_error(p.b).vendor, ae);
	ASSERT_PATTERN(&mem, 0, mem.len, 3, 0);
	pair_revive(&p);
	post_send(p.a, key, 0x1000, 4);
	EXPECT_REQ_ERR(p.a, 0, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, ae);
	pair_revive(&p);
	/* an address that was mapped when the key was made, and is no longer */
	key = mr_new(m, &mem, 0, mem.len, 0);
	ASSERT_EQ(read_by_peer(&p, key, 0, 0x2000), 0);
	mem_unmap_page(&mem, 1);
	ASSERT_EQ(read_by_peer(&p, key, 0x800, 16), 0);
	ASSERT_EQ(read_by_peer(&p, key, 0x1800, 16), ae);
}

/* MTT entries */

TEST("HM-5.1", plain_entries_are_present)
{
	struct pair p = pair_new(m);

	/* mr_new() makes keys with pg_access = 0 */
	for (int access = HCA_ACCESS_READ; access <= HCA_ACCESS_WRITE; access++)
		ASSERT_EQ(explain(m, p.a, p.rkey, p.d, 1, access, true).syndrome, 0);
	ASSERT_EQ(explain(m, p.a, p.rkey, p.d + 8 - p.d % 8, 8, HCA_ACCESS_ATOMIC, true).syndrome, 0);
}

TEST("HM-5.2", enable_bits)
{
	struct mem mem = mem_new(m, 4 * 4096);
	struct pair p = pair_new(m);
	u64 mtt[4] = { mem.dma[0], mem.dma[1] | 1, mem.dma[2] | 2, mem.dma[3] | 3 };
	struct key_attr a = { .mode = MTT, KEY_ALL, .len = 4 * 4096, .mtt = mtt, .nr = 4, .pg_access = true };
	u32 key = key_new(m, &a);
	u8 ab = HCA_VS_LEVEL0 | HCA_CHECK_PAGE;

	for (int bits = 0; bits < 4; bits++) {
		u64 va = 4096 * bits;
		bool rd = bits & 1, wr = bits & 2;

		ASSERT_EQ(explain(m, p.a, key, va, 16, HCA_ACCESS_READ, false).syndrome, rd ? 0 : ab);
		ASSERT_EQ(explain(m, p.a, key, va, 16, HCA_ACCESS_READ, true).syndrome, rd ? 0 : ab);
		ASSERT_EQ(explain(m, p.a, key, va, 16, HCA_ACCESS_WRITE, false).syndrome, wr ? 0 : ab);
		ASSERT_EQ(explain(m, p.a, key, va, 16, HCA_ACCESS_WRITE, true).syndrome, wr ? 0 : ab);
		ASSERT_EQ(explain(m, p.a, key, va, 8, HCA_ACCESS_ATOMIC, true).syndrome, rd && wr ? 0 : ab);
	}
	/* an access that begins on a good page and ends on one without the bit */
	ASSERT_EQ(explain(m, p.a, key, 0x1ff8, 16, HCA_ACCESS_READ, true).syndrome, ab);
	ASSERT_EQ(explain(m, p.a, key, 0x2ff8, 16, HCA_ACCESS_WRITE, true).syndrome, 0);
}

TEST("HM-5.3", page_zero_is_a_page)
{
	struct mem zero = mem_at(m, 0, 4096);
	struct pair p = pair_new(m);
	u64 mtt = 3;
	struct key_attr a = { .mode = MTT, KEY_ALL, .len = 4096, .mtt = &mtt, .nr = 1, .pg_access = true };
	u32 key = key_new(m, &a);

	mem_fill(&zero, 0, 4096, 3);
	ASSERT_EQ(read_by_peer(&p, key, 0x10, 0x100), 0);
	ASSERT_PATTERN(&p.src, PAIR_OFFSET, 0x100, 3, 0x10);
	mtt = 0;
	a.pg_access = false;
	key = key_new(m, &a);
	ASSERT_EQ(read_by_peer(&p, key, 0x10, 0x100), 0);
}

TEST("HM-5.4", query_shows_the_page_size)
{
	struct mem mem = mem_new_pages(m, 4 << 20, 21);
	u32 key = mr_new(m, &mem, 0, mem.len, 0x200000), out[MLX5_ST_SZ_DW(query_mkey_out)];
	void *mkc = MLX5_ADDR_OF(query_mkey_out, out, memory_key_mkey_entry);

	ASSERT_EQ(key_query(m, key, false, out, sizeof(out)), 0);
	ASSERT_EQ(MLX5_GET(mkc, mkc, log_page_size), 21u);
	ASSERT_EQ(MLX5_GET(mkc, mkc, translations_octword_size), 1u);
}

TEST("HM-5.6", low_bits_of_an_entry_are_no_address)
{
	struct mem mem = mem_new_pages(m, 4 << 20, 21);
	struct pair p = pair_new(m);
	u64 mtt[2] = { mem.dma[0] | 0x1ff000, mem.dma[1] | 0x155000 };
	struct key_attr a = { .mode = MTT, KEY_ALL, .len = 4 << 20, .log_page = 21, .mtt = mtt, .nr = 2 };
	u32 key = key_new(m, &a);

	ASSERT_EQ(dma_of(m, p.a, key, 0x1234), mem.dma[0] + 0x1234);
	ASSERT_EQ(dma_of(m, p.a, key, 0x201234), mem.dma[1] + 0x1234);
	/* and the reserved bits 7:2 below them */
	a.pg_access = true;
	mtt[0] |= 0xff;
	mtt[1] |= 0xfff;
	key = key_new(m, &a);
	ASSERT_EQ(dma_of(m, p.a, key, 0x1234), mem.dma[0] + 0x1234);
	ASSERT_EQ(dma_of(m, p.a, key, 0x201234), mem.dma[1] + 0x1234);
	mem_fill(&mem, 0x1ff800, 0x1000, 3);
	ASSERT_EQ(read_by_peer(&p, key, 0x1ff800, 0x1000), 0);
	ASSERT_PATTERN(&p.src, PAIR_OFFSET, 0x1000, 3, 0x1ff800);
}

/* keys */

TEST("HM-2.1", only_the_right_variant_opens)
{
	struct pair p = pair_new(m);
	struct key_attr a = { .mode = PA, KEY_ALL, .length64 = true };

	for (int v = 0; v < 256; v += 15) {
		a.variant = v;
		u32 key = key_new(m, &a);

		ASSERT_EQ(key & 0xff, (u32)v);
		for (u32 other = 0; other < 256; other++) {
			u8 s = syndrome_of(m, p.a, (key & ~0xffu) | other, p.dst.dma[0], 1);

			ASSERT_EQ(s, other == (u32)v ? 0 : HCA_VS_LEVEL0 | HCA_CHECK_VARIANT);
		}
	}
	ASSERT_EQ(read_by_peer(&p, p.rkey ^ 0x80, p.d, 1), HCA_VS_LEVEL0 | HCA_CHECK_VARIANT);
}

TEST("HM-2.10", keys_that_are_none)
{
	struct pair p = pair_new(m);
	u32 gone = mr_new(m, &p.dst, 0, 4096, 0);
	u32 none[] = { 0, 0x100, 0x400, 0x600, 0xf00, 0xff, 0x1ff, 0xffffff00, 0xffffffff, gone, gone + 0x100 };
	u8 a0 = HCA_VS_LEVEL0 | HCA_CHECK_NO_MKC;

	ASSERT_EQ(key_free(m, gone), 0);
	for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
		ASSERT_EQ(read_by_peer(&p, none[i], 0, 16), a0);
		pair_revive(&p);
		post_write(p.a, none[i], 0, 16, p.rkey, p.d);
		EXPECT_REQ_ERR(p.a, 0, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, a0);
		pair_revive(&p);
		post_read(p.a, none[i], 0, 16, p.rkey, p.d);
		EXPECT_REQ_ERR(p.a, 0, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, a0);
		pair_revive(&p);
		/* in a receive list 0x100 is the terminator */
		if (none[i] != 0x100) {
			post_recv(p.b, none[i], 0, 16);
			post_send(p.a, p.lkey, p.s, 16);
			EXPECT_RSP_ERR(p.b, 0, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, a0);
			EXPECT_REQ_ERR(p.a, 0, MLX5_CQE_SYNDROME_REMOTE_OP_ERR, HCA_VS_NAK_OP);
			pair_revive(&p);
		}
		ASSERT_PATTERN(&p.dst, 0, p.dst.len, 2, 0);
	}
}

TEST("HM-2.11", dump_fill_key)
{
	struct pair p = pair_new(m);
	struct sge sge[3] = { { p.rkey, p.d, 16 }, { 0x500, 0xdeadbeef000, 100 }, { p.rkey, p.d + 16, 0x100 } };
	struct wqe w;
	u64 d;

	/* receive: the bytes of its segment are dropped, those behind it arrive */
	rq_post(p.b, sge, 3);
	post_send(p.a, p.lkey, p.s, 200);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	ASSERT_EQ(be32_to_cpu(EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_SEND, 0).byte_cnt), 200u);
	ASSERT_PATTERN(&p.dst, PAIR_OFFSET, 16, 1, PAIR_OFFSET);
	ASSERT_PATTERN(&p.dst, PAIR_OFFSET + 16, 84, 1, PAIR_OFFSET + 116);
	ASSERT_PATTERN(&p.dst, PAIR_OFFSET + 100, 100, 2, PAIR_OFFSET + 100);
	/* send: zero bytes, no bounds */
	wqe_begin(&w, MLX5_OPCODE_RDMA_WRITE, SIGNALED, 0);
	wqe_raddr(&w, p.d, p.rkey);
	wqe_data(&w, p.lkey, p.s, 8);
	wqe_data(&w, 0x500, ~0ULL - 5, 1000);
	wqe_data(&w, p.lkey, p.s + 8, 8);
	sq_post(p.a, &w);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 1);
	ASSERT_PATTERN(&p.dst, PAIR_OFFSET, 8, 1, PAIR_OFFSET);
	ASSERT(mem_is_zero(p.dst.cpu + PAIR_OFFSET + 8, 1000));
	ASSERT_PATTERN(&p.dst, PAIR_OFFSET + 1008, 8, 1, PAIR_OFFSET + 8);
	d = mem_differs(&p.dst, PAIR_OFFSET + 1016, 0x800, 2, PAIR_OFFSET + 1016);
	ASSERT_EQ(d, 0x800ull);
	/* more than a chunk of it */
	post_read(p.a, 0x500, 0, 0x2000, p.rkey, p.d);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 3);
	/* never for the other side */
	ASSERT_EQ(read_by_peer(&p, 0x500, 0, 8), HCA_VS_LEVEL0 | HCA_CHECK_NO_MKC);
	pair_revive(&p);
	/* its variant is part of its name */
	post_write(p.a, 0x501, 0, 16, p.rkey, p.d);
	EXPECT_REQ_ERR(p.a, 0, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, HCA_VS_LEVEL0 | HCA_CHECK_NO_MKC);
}

TEST("HM-2.12", reserved_lkey)
{
	struct pair p = pair_new(m), k = pair_new_attr(m, (struct qp_attr){ .rlky = true }, (struct qp_attr){ .rlky = true },
						     (struct qp_path){});
	u64 dma = mem_dma(&p.src, 0x100);

	post_write(p.a, 0x200, dma, 16, p.rkey, p.d);
	EXPECT_REQ_ERR(p.a, 0, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, HCA_VS_LEVEL0 | HCA_CHECK_NO_MKC);
	pair_revive(&p);
	post_recv(p.b, 0x200, dma, 16);
	post_send(p.a, p.lkey, p.s, 16);
	EXPECT_RSP_ERR(p.b, 0, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, HCA_VS_LEVEL0 | HCA_CHECK_NO_MKC);
	ASSERT_PATTERN(&p.src, 0, p.src.len, 1, 0);

	/* on a kernel QP: PA access to any DMA address */
	post_write(k.a, 0x200, dma, 16, k.rkey, k.d);
	EXPECT_CQE(k.a->scq, MLX5_CQE_REQ, 0);
	ASSERT_PATTERN(&k.dst, PAIR_OFFSET, 16, 1, 0x100);
	post_recv(k.b, 0x200, dma, 16);
	post_send(k.a, k.lkey, k.s, 16);
	EXPECT_CQE(k.a->scq, MLX5_CQE_REQ, 1);
	EXPECT_CQE(k.b->rcq, MLX5_CQE_RESP_SEND, 0);
	ASSERT_PATTERN(&p.src, 0x100, 16, 1, PAIR_OFFSET);
	/* the bus still has its say */
	post_write(k.a, 0x200, 0x123, 16, k.rkey, k.d);
	EXPECT_REQ_ERR(k.a, 2, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, HCA_VS_LEVEL0 | HCA_CHECK_BUS);
	pair_revive(&k);
	/* never as rkey, whatever the queue */
	ASSERT_EQ(read_by_peer(&k, 0x200, dma, 16), HCA_VS_LEVEL0 | HCA_CHECK_NO_MKC);
}

/* the order of the checks, each against each later one */
TEST("HM-4.17", order_of_checks)
{
	struct pair p = pair_new(m);
	u32 pd = pd_new(m);
	struct mem mem = mem_new(m, 4096);
	u64 dma = mem.dma[0];
	int i, j, remote;

	/* violations: 0 free, 1 variant, 2 pd, 3 right, 4 bounds, 5 page; the code of each */
	static const u8 code[] = { HCA_CHECK_FREE, HCA_CHECK_VARIANT, HCA_CHECK_PD, 0, HCA_CHECK_BOUNDS, HCA_CHECK_PAGE };

	for (remote = 0; remote < 2; remote++) {
		for (i = 0; i < 6; i++) {
			for (j = i; j < 6; j++) {
				bool v[6] = {};
				struct key_attr a = { .mode = MTT, KEY_ALL, .start = 0x1000, .len = 0x1000, .variant = 7,
						      .mtt = &dma, .nr = 1, .pg_access = true };
				u64 entry = dma | 3;
				u8 want, got;
				u32 key;

				v[i] = v[j] = true;
				a.mtt = &entry;
				a.free = v[0];
				a.pd = v[2] ? pd : 0;
				if (v[3])
					a.lw = a.rw = false;
				if (v[5])
					entry &= ~3ULL;
				key = key_new(m, &a) ^ v[1];
				want = HCA_VS_LEVEL0 | (i == 3 ? (remote ? HCA_CHECK_REMOTE : HCA_CHECK_LOCAL) : code[i]);
				got = explain(m, p.b, key, v[4] ? 0x1ff9 : 0x1ff8, 8, HCA_ACCESS_WRITE, remote).syndrome;
				if (got != want)
					FAIL("violations %d and %d, %s: %#x, expected %#x", i, j,
					     remote ? "remote" : "local", got, want);
				if (!remote)
					continue;
				/* and for real */
				post_write(p.a, p.lkey, p.s, 8, key, v[4] ? 0x1ff9 : 0x1ff8);
				EXPECT_REQ_ERR(p.a, 0, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, HCA_VS_NAK_ACCESS);
				ASSERT_EQ(qp_error(p.b).vendor, want);
				ASSERT_EQ(qp_error(p.b).key, key);
				ASSERT_EQ(qp_error(p.b).va, v[4] ? 0x1ff9ull : 0x1ff8ull);
				pair_revive(&p);
			}
		}
	}
}

TEST("HM-4.4", nothing_is_checked_for_no_bytes)
{
	struct pair p = pair_new(m);

	post_write(p.a, 0, 0, 0, 0xdeadbeef, 0x1234567);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	post_read(p.a, 0, 0, 0, 0xdeadbeef, ~0ULL);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 1);
	ASSERT_EQ(qp_state(p.b), (unsigned int)MLX5_QP_STATE_RTS);
	ASSERT_PATTERN(&p.dst, 0, p.dst.len, 2, 0);
}

/* the receive WQE of HM-4.5: only what is written is checked */
TEST("HM-4.5", receive_buffer_longer_than_its_region)
{
	struct pair p = pair_new(m);

	post_recv(p.b, p.rkey, p.d + p.len - 64, 4096);
	post_send(p.a, p.lkey, p.s, 64);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_SEND, 0);
	ASSERT_PATTERN(&p.dst, PAIR_OFFSET + p.len - 64, 64, 1, PAIR_OFFSET);
	post_recv(p.b, p.rkey, p.d + p.len - 64, 4096);
	post_send(p.a, p.lkey, p.s, 65);
	EXPECT_RSP_ERR(p.b, 1, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, HCA_VS_LEVEL0 | HCA_CHECK_BOUNDS);
	EXPECT_REQ_ERR(p.a, 1, MLX5_CQE_SYNDROME_REMOTE_OP_ERR, HCA_VS_NAK_OP);
}

TEST("HM-4.24", a_byte_count_of_zero_is_two_gigabytes)
{
	struct pair p = pair_new(m);
	struct wqe w;

	wqe_begin(&w, MLX5_OPCODE_RDMA_WRITE, SIGNALED, 0);
	wqe_raddr(&w, p.d, p.rkey);
	wqe_data(&w, p.lkey, p.s, 0);
	sq_post(p.a, &w);
	/* the local side is checked first: out of the bounds of its region */
	EXPECT_REQ_ERR(p.a, 0, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, HCA_VS_LEVEL0 | HCA_CHECK_BOUNDS);
	ASSERT_PATTERN(&p.dst, 0, p.dst.len, 2, 0);
	pair_revive(&p);
	/* with room for it on this side, it is the peer's bounds */
	wqe_begin(&w, MLX5_OPCODE_RDMA_WRITE, SIGNALED, 0);
	wqe_raddr(&w, p.d, p.rkey);
	wqe_data(&w, 0x500, 0, 0);
	sq_post(p.a, &w);
	EXPECT_REQ_ERR(p.a, 0, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, HCA_VS_NAK_ACCESS);
	ASSERT_EQ(qp_error(p.b).vendor, HCA_VS_LEVEL0 | HCA_CHECK_BOUNDS);
	ASSERT_PATTERN(&p.dst, 0, p.dst.len, 2, 0);
}

/* the random comparison */

struct model_key {
	struct key_attr a;
	u64 mtt[16];
	u32 key;
	u32 pd;
};

/* HM 4.2, 4.5, 5.3: the syndrome, or 0 and the DMA address of every byte */
static u8 model(const struct model_key *k, u32 key, u32 pd, u64 v, u64 len, enum hca_access access, bool remote,
		bool (*mapped)(u64 dma), u64 *dma)
{
	const struct key_attr *a = &k->a;
	u64 s = a->start, d = v - s, page, i, n, capacity, u;
	u8 code = HCA_VS_LEVEL0;

	if (a->free)
		return code | HCA_CHECK_FREE;
	if ((key & 0xff) != a->variant)
		return code | HCA_CHECK_VARIANT;
	if (k->pd != pd)
		return code | HCA_CHECK_PD;
	if (access == HCA_ACCESS_ATOMIC && !a->a)
		return code | HCA_CHECK_ATOMIC;
	if (remote && access == HCA_ACCESS_READ && !a->rr)
		return code | HCA_CHECK_REMOTE;
	if (remote && access == HCA_ACCESS_WRITE && !a->rw)
		return code | HCA_CHECK_REMOTE;
	if (!remote && access == HCA_ACCESS_WRITE && !a->lw)
		return code | HCA_CHECK_LOCAL;
	if (a->length64) {
		if (__builtin_add_overflow(d, len, &u) && u)
			return code | HCA_CHECK_BOUNDS;
	} else if (v < s || d > a->len || len > a->len - d) {
		return code | HCA_CHECK_BOUNDS;
	}
	if (a->mode == PA) {
		for (i = 0; i < len; i++) {
			if (!mapped(v + i))
				return code | HCA_CHECK_BUS;
			dma[i] = v + i;
		}
		return 0;
	}
	page = 1ULL << a->log_page;
	capacity = 2 * ALIGN((u64)(a->octwords ?: (a->nr + 1) / 2), 4);
	for (i = 0; i < len; i++) {
		u64 entry;

		/* HM 0: address arithmetic is on unsigned 64-bit values */
		u = s % page + d + i;
		n = u / page;
		if (n >= capacity)
			return code | HCA_CHECK_TABLE_END;
		entry = n < a->nr ? k->mtt[n] | (a->pg_access ? 0 : 3) : 0;
		if ((access != HCA_ACCESS_WRITE && !(entry & 1)) || (access != HCA_ACCESS_READ && !(entry & 2)))
			return code | HCA_CHECK_PAGE;
		dma[i] = (entry & ~(page - 1)) + u % page;
		if (!mapped(dma[i]))
			return code | HCA_CHECK_BUS;
	}
	return 0;
}

static struct mem rnd_mem;

static bool rnd_mapped(u64 dma)
{
	for (u64 i = 0; i < rnd_mem.nr; i++)
		if (rnd_mem.dma[i] && dma - rnd_mem.dma[i] < 4096)
			return true;
	return false;
}

static struct model_key random_key(struct machine *m, u32 other_pd)
{
	struct model_key k = { .pd = m->pd };
	struct key_attr *a = &k.a;
	u32 i;

	a->mode = rnd(5) ? MTT : PA;
	a->free = !rnd(10);
	a->variant = rnd(3);
	a->lw = rnd(4);
	a->rr = rnd(4);
	a->rw = rnd(4);
	a->a = rnd(4);
	if (!rnd(10))
		k.pd = other_pd;
	a->pd = k.pd;
	a->length64 = !rnd(5);
	if (a->mode == PA) {
		a->start = rnd_mem.dma[rnd(rnd_mem.nr)] + rnd(4096);
		a->len = rnd(6000);
		if (!rnd(4))
			a->start = 0;
	} else {
		a->log_page = rnd(8) ? 12 : 13;
		a->nr = rnd(9);
		a->octwords = (a->nr + 1) / 2 + rnd(3);
		a->pg_access = rnd(2);
		for (i = 0; i < a->nr; i++) {
			k.mtt[i] = rnd_mem.dma[rnd(rnd_mem.nr)];
			if (!rnd(15))
				k.mtt[i] = 0x66600000000ULL;
			if (a->pg_access)
				k.mtt[i] |= rnd(8) ? 3 : rnd(4);
		}
		switch (rnd(5)) {
		case 0:
			a->start = rnd(~0ULL) & ~0xfffULL;
			break;
		case 1:
			a->start = rnd(16384);
			break;
		case 2:
			a->start = ~0ULL - rnd(40000);
			break;
		default:
			a->start = rnd(~0ULL);
		}
		a->len = rnd(40000);
	}
	if (a->len && a->start + (a->len - 1) < a->start)
		a->len = ~0ULL - a->start;
	a->mtt = k.mtt;
	/* an empty octoword's second half is sent as zero, which without pg_access is page 0 */
	if (a->nr % 2)
		a->nr++, k.mtt[a->nr - 1] = a->pg_access ? 0 : rnd_mem.dma[0];
	k.key = key_new(m, a);
	return k;
}

TEST("HM 4.2", random_walks_agree_with_the_model)
{
	static u64 dma[8192];
	struct pair p = pair_new(m);
	u32 pd = pd_new(m);
	unsigned int n, hits[16] = {}, ok = 0;

	rnd_mem = mem_new(m, 12 * 4096);
	for (n = 0; n < unit_rounds(30000); n++) {
		static struct model_key k;
		enum hca_access access = rnd(3);
		bool remote = access == HCA_ACCESS_ATOMIC || rnd(2);
		u64 va, len, at, bytes;
		struct walk w;
		u32 key;
		u8 want;
		int i;

		if (n % 8 == 0) {
			if (n)
				ASSERT_EQ(key_free(m, k.key), 0);
			k = random_key(m, pd);
			k.a.mtt = k.mtt;
		}
		key = rnd(20) ? k.key : k.key ^ (1 + rnd(255));
		va = k.a.start + rnd(k.a.len + 64) - rnd(32);
		len = 1 + rnd(rnd(2) ? 64 : 8000);
		if (!rnd(3) && va - k.a.start < k.a.len)
			len = k.a.len - (va - k.a.start);
		len = min(len, 8000ull);
		if (access == HCA_ACCESS_ATOMIC) {
			va &= ~7ULL;
			len = 8;
		}
		want = model(&k, key, m->pd, va, len, access, remote, rnd_mapped, dma);
		w = explain(m, p.b, key, va, len, access, remote);
		if (w.syndrome != want)
			FAIL("case %u: key %#x, mode %u, S %#llx, len %#llx, 64 %d, V %#llx, L %llu, access %d, remote %d: %#x, model says %#x",
			     n, key, k.a.mode, k.a.start, k.a.len, k.a.length64, va, len, access,
			     remote, w.syndrome, want);
		hits[want & 15] += !!want;
		ok += !want;
		if (want)
			continue;
		for (i = 0, at = 0; i < w.n; i++) {
			for (bytes = 0; bytes < w.step[i].len && at < len; bytes++, at++)
				if (w.step[i].dma + bytes != dma[at])
					FAIL("case %u: byte %llu at %#llx, model says %#llx", n, at,
					     w.step[i].dma + bytes, dma[at]);
		}
		ASSERT_EQ(at, len);
	}
	/* the dice reach every outcome */
	ASSERT_GT(ok, 2000u);
	for (n = HCA_CHECK_FREE; n <= HCA_CHECK_BUS; n++)
		if (n != HCA_CHECK_QPN && n != HCA_CHECK_DEPTH && n != HCA_CHECK_ENTRY && n != HCA_CHECK_MODE && hits[n] < 20)
			FAIL("code A%X came only %u times", n, hits[n]);
}

/* the same dice for real: WRITE and READ by a peer against the model, every byte of memory compared */
TEST("HM 4.2", random_requests_agree_with_the_model)
{
	static u64 dma[8192];
	struct pair p = pair_new(m);
	u32 pd = pd_new(m);
	unsigned int n, failed = 0;

	rnd_mem = mem_new(m, 12 * 4096);
	for (n = 0; n < unit_rounds(1500); n++) {
		static struct model_key k;
		bool write = rnd(2);
		u64 va, i, page;
		u32 len, key;
		u8 want;

		if (n % 8 == 0) {
			if (n)
				ASSERT_EQ(key_free(m, k.key), 0);
			k = random_key(m, pd);
			k.a.mtt = k.mtt;
		}
		key = rnd(20) ? k.key : k.key ^ (1 + rnd(255));
		va = k.a.start + rnd(k.a.len + 8) - rnd(4);
		len = 1 + rnd(rnd(2) ? 64 : 0x2000 - 1);
		if (rnd(3) && va - k.a.start < k.a.len)
			len = min((u64)len, k.a.len - (va - k.a.start));
		mem_fill(&p.src, 0, p.src.len, n);
		mem_fill(&rnd_mem, 0, rnd_mem.len, n + 100000);
		want = model(&k, key, m->pd, va, len, write ? HCA_ACCESS_WRITE : HCA_ACCESS_READ, true, rnd_mapped, dma);
		if (write)
			post_write(p.a, p.lkey, p.s, len, key, va);
		else
			post_read(p.a, p.lkey, p.s, len, key, va);
		if (want) {
			EXPECT_REQ_ERR(p.a, (u16)(p.a->sq_pi - 1), MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, HCA_VS_NAK_ACCESS);
			ASSERT_EQ(qp_error(p.b).vendor, want);
			pair_revive(&p);
			failed++;
		} else {
			EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, (u16)(p.a->sq_pi - 1));
			cq_update(p.a->scq);
		}
		/*
		 * What a WRITE changed: on success the bytes in request order (a page may be mapped twice: the last one
		 * counts); on a failure of a level-0 check nothing; later failures may leave earlier bytes.
		 */
		if (want && ((want & 15) <= HCA_CHECK_ATOMIC || !write)) {
			ASSERT_PATTERN(&rnd_mem, 0, rnd_mem.len, n + 100000, 0);
		} else if (!want && write) {
			static u8 expect[12 * 4096];

			for (i = 0; i < rnd_mem.len; i++)
				expect[i] = pattern_byte(n + 100000, i);
			for (i = 0; i < len; i++) {
				for (page = 0; dma[i] - rnd_mem.dma[page] >= 4096; page++)
					;
				expect[page * 4096 + dma[i] % 4096] = pattern_byte(n, PAIR_OFFSET + i);
			}
			if (memcmp(expect, rnd_mem.cpu, sizeof(expect)))
				FAIL("case %u: the WRITE changed other bytes than its own", n);
		} else if (!want) {
			for (i = 0; i < len; i++) {
				for (page = 0; dma[i] - rnd_mem.dma[page] >= 4096; page++)
					;
				ASSERT_EQ(p.src.cpu[PAIR_OFFSET + i], pattern_byte(n + 100000, page * 4096 + dma[i] % 4096));
			}
			ASSERT_PATTERN(&p.src, PAIR_OFFSET + len, p.src.len - PAIR_OFFSET - len, n, PAIR_OFFSET + len);
		}
		if (want)
			ASSERT_PATTERN(&p.src, 0, PAIR_OFFSET, n, 0);
	}
	ASSERT_GT(failed, 100u);
	ASSERT_LT(failed, 1300u);
}

TEST("explain", corner_cases)
{
	struct pair p = pair_new(m);
	struct hca_explain_req req = { p.rkey, 0x123456, p.d, 0x2000, HCA_ACCESS_READ, true };
	struct hca_explain_step step[2];
	u8 syndrome;

	ASSERT_EQ(hca_explain(m->hca, &req, step, 2, &syndrome), -ENOENT);
	/* three entries, room for one: still walked to the end */
	req.qpn = p.b->qpn;
	ASSERT_EQ(hca_explain(m->hca, &req, step, 1, &syndrome), 1);
	ASSERT_EQ(syndrome, 0);
	req.len = 0x2001;
	ASSERT_EQ(hca_explain(m->hca, &req, step, 1, &syndrome), 1);
	ASSERT_EQ(syndrome, HCA_VS_LEVEL0 | HCA_CHECK_BOUNDS);
	ASSERT_EQ(step[0].syndrome, HCA_VS_LEVEL0 | HCA_CHECK_BOUNDS);
	/* nothing was moved and nothing failed by it */
	ASSERT_EQ(qp_state(p.b), (unsigned int)MLX5_QP_STATE_RTS);
	ASSERT_EQ(qp_error(p.b).vendor, 0);
	ASSERT_PATTERN(&p.dst, 0, p.dst.len, 2, 0);
}
