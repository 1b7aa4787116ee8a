// SPDX-License-Identifier: GPL-2.0
/*
 * Indirect keys: lists of pieces (KLM), of blocks of one size (KSM), repeated blocks, and how deep they may lie: HM 2.2,
 * 4.3 to 4.5, 4.8, 13.1. The worked numbers are typed from there. The random tests compare explanation and data path with
 * the model of model.h, which was written from HM alone.
 */
#include <linux/kernel.h>
#include <linux/unaligned.h>

#include "model.h"
#include "unit.h"

#define MTT		MLX5_MKC_ACCESS_MODE_MTT
#define PA		MLX5_MKC_ACCESS_MODE_PA
#define KLMS		MLX5_MKC_ACCESS_MODE_KLMS
#define KSM		MLX5_MKC_ACCESS_MODE_KSM

#define A(check)	(HCA_VS_LEVEL0 | HCA_CHECK_##check)
#define B(check)	(HCA_VS_NESTED | HCA_CHECK_##check)

#define NULL_KEY	0x300
#define DUMP_FILL	0x500

/* the steps of a walk that end at memory */
static int leaves(const struct walk *w, struct hca_explain_step *leaf, int max)
{
	int n = 0;

	for (int i = 0; i < w->n && n < max; i++)
		if (w->step[i].access_mode == MTT || w->step[i].access_mode == PA)
			leaf[n++] = w->step[i];
	return n;
}

static void expect_leaf(const struct hca_explain_step *s, u32 key, u64 va, u64 len, u8 level)
{
	if (s->key != key || s->va != va || s->len != len || s->level != level)
		FAIL("leaf (%#x, %#llx, %#llx) at level %u, expected (%#x, %#llx, %#llx) at %u", s->key, s->va, s->len,
		     s->level, key, va, len, level);
}

/* all of memory, as the driver's DMA key and a little less dangerous: one frame at @dma */
static u32 pa_new(struct machine *m)
{
	return key_new(m, &(struct key_attr){ .mode = PA, KEY_ALL, .length64 = true, .variant = 0x3c });
}

TEST("HM-4.7", example_e3)
{
	struct mem a = mem_new(m, 4096), b = mem_new(m, 2 * 4096), c = mem_new_pages(m, 1ULL << 31, 31);
	struct pair p = pair_new(m);
	u32 k1 = mr_new(m, &a, 0xd00, 0x300, 0x7f0000000d00ULL), k2 = mr_new(m, &b, 0, 0x1500, 0x5000);
	u32 k3 = mr_new(m, &c, 0, 1ULL << 31, 0);
	struct klm list[4] = { { 0x300, k1, 0x7f0000000d00ULL }, {}, { 0x1500, k2, 0x5000 }, { 1u << 31, k3, 0 } };
	struct key_attr attr = { .mode = KLMS, KEY_ALL, .start = 0x20000000, .len = 0x1800 + (1ULL << 31), .klm = list,
				 .nr = 4, .variant = 0x44 };
	struct hca_explain_step leaf[8];
	u32 key = key_new(m, &attr);
	struct walk w;

	mem_fill(&a, 0, a.len, 10);
	mem_fill(&b, 0, b.len, 11);
	mem_fill(&c, 0, 4096, 12);
	w = explain(m, p.a, key, 0x20000200, 0x1000, HCA_ACCESS_READ, false);
	ASSERT_EQ(w.syndrome, 0);
	/* b has 4 KiB pages: (k2, 0x5000, 0xf00) is one step in the first of them */
	ASSERT_EQ(leaves(&w, leaf, 8), 2);
	expect_leaf(&leaf[0], k1, 0x7f0000000f00ULL, 0x100, 1);
	expect_leaf(&leaf[1], k2, 0x5000, 0xf00, 1);
	ASSERT_EQ(leaf[0].dma, a.dma[0] + 0xf00);
	ASSERT_EQ(leaf[1].dma, b.dma[0]);
	/* each entry that is used is told of, as it is stored */
	ASSERT_EQ(w.n, 4);
	for (int i = 0; i < 4; i += 2) {
		ASSERT_EQ(w.step[i].key, key);
		ASSERT_EQ(w.step[i].level, 0);
		ASSERT_EQ(w.step[i].access_mode, KLMS);
		ASSERT_EQ(w.step[i].index, (u64)i);
		ASSERT_EQ(w.step[i].entry[0], (u64)list[i].count << 32 | list[i].key);
		ASSERT_EQ(w.step[i].entry[1], list[i].addr);
		ASSERT_EQ(w.step[i].start, 0x20000000ull);
	}
	w = explain(m, p.a, key, 0x200017ff, 2, HCA_ACCESS_READ, false);
	ASSERT_EQ(w.syndrome, 0);
	ASSERT_EQ(leaves(&w, leaf, 8), 2);
	expect_leaf(&leaf[0], k2, 0x64ff, 1, 1);
	expect_leaf(&leaf[1], k3, 0, 1, 1);
	/* for real, over all of them */
	ASSERT_EQ(read_by_peer(&p, key, 0x20000000, 0x1900), 0);
	ASSERT_PATTERN(&p.src, PAIR_OFFSET, 0x300, 10, 0xd00);
	ASSERT_PATTERN(&p.src, PAIR_OFFSET + 0x300, 0x1500, 11, 0);
	ASSERT_PATTERN(&p.src, PAIR_OFFSET + 0x1800, 0x100, 12, 0);
	mem_fill(&p.src, 0, p.src.len, 1);
	ASSERT_EQ(write_by_peer(&p, key, 0x20000280, 0x1700), 0);
	ASSERT_PATTERN(&a, 0xd00, 0x280, 10, 0xd00);
	ASSERT_PATTERN(&a, 0xf80, 0x80, 1, PAIR_OFFSET);
	ASSERT_PATTERN(&b, 0, 0x1500, 1, PAIR_OFFSET + 0x80);
	ASSERT_PATTERN(&b, 0x1500, 0xb00, 11, 0x1500);
	ASSERT_PATTERN(&c, 0, 0x180, 1, PAIR_OFFSET + 0x1580);
	ASSERT_PATTERN(&c, 0x180, 0xe80, 12, 0x180);
	/* as an lkey: gathered by a SEND, scattered to by a receive, result of a READ */
	post_recv(p.b, key, 0x20000100, 0x1000);
	post_send(p.a, p.lkey, p.s, 0x1000);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, p.a->sq_pi - 1);
	EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_SEND, 0);
	ASSERT_PATTERN(&a, 0xe00, 0x200, 1, PAIR_OFFSET);
	ASSERT_PATTERN(&b, 0, 0xe00, 1, PAIR_OFFSET + 0x200);
}

TEST("HM-4.8", byte_counts)
{
	struct mem tail = mem_at(m, 0x500000000ULL + (1ULL << 31) - 4096, 8192);
	struct pair p = pair_new(m);
	u32 pa = pa_new(m), key;
	struct klm list[2] = { { 1u << 31, pa, 0x500000000ULL } };
	struct key_attr a = { .mode = KLMS, KEY_ALL, .len = 1ULL << 33, .klm = list, .nr = 1 };

	mem_fill(&tail, 0, tail.len, 3);
	key = key_new(m, &a);
	ASSERT_EQ(read_by_peer(&p, key, (1ULL << 31) - 0x100, 0x100), 0);
	ASSERT_PATTERN(&p.src, PAIR_OFFSET, 0x100, 3, 0xf00);
	ASSERT_EQ(read_by_peer(&p, key, (1ULL << 31) - 0x100, 0x101), A(TABLE_END));
	pair_revive(&p);
	list[0].count = (1u << 31) + 1;
	key = key_new(m, &a);
	ASSERT_EQ(read_by_peer(&p, key, (1ULL << 31) - 0x100, 0x100), A(ENTRY));
	pair_revive(&p);
	ASSERT_EQ(syndrome_of(m, p.a, key, 0, 1), A(ENTRY));
	list[0].count = ~0u;
	ASSERT_EQ(syndrome_of(m, p.a, key_new(m, &a), 0, 1), A(ENTRY));
	/* what lies before the bad entry is still good, but not the access that runs into it */
	list[0].count = 0x1000;
	list[0].addr = tail.dma[0];
	list[1] = (struct klm){ (1u << 31) + 1, pa, 0x500000000ULL };
	a.nr = 2;
	key = key_new(m, &a);
	ASSERT_EQ(syndrome_of(m, p.a, key, 0, 0x1000), 0);
	ASSERT_EQ(syndrome_of(m, p.a, key, 0xfff, 2), A(ENTRY));
	/* below another list it is that key's fault */
	key = klm_new(m, &(struct klm){ 0x2000, key, 0 }, 1);
	ASSERT_EQ(syndrome_of(m, p.a, key, 0xfff, 2), B(ENTRY));
}

TEST("HM-4.9", a_list_shorter_than_its_key)
{
	struct pair p = pair_new(m);
	struct klm list[] = { { 0x100, p.rkey, p.d }, {}, { 0x80, p.rkey, p.d + 0x800 } };
	struct key_attr a = { .mode = KLMS, KEY_ALL, .start = 0x5000, .len = 0x1000, .klm = list, .nr = 3 };
	u32 key = key_new(m, &a);

	ASSERT_EQ(syndrome_of(m, p.a, key, 0x5000, 0x180), 0);
	ASSERT_EQ(syndrome_of(m, p.a, key, 0x5000, 0x181), A(TABLE_END));
	ASSERT_EQ(syndrome_of(m, p.a, key, 0x5180, 1), A(TABLE_END));
	ASSERT_EQ(syndrome_of(m, p.a, key, 0x5fff, 1), A(TABLE_END));
	ASSERT_EQ(syndrome_of(m, p.a, key, 0x6000, 1), A(BOUNDS));
	ASSERT_EQ(read_by_peer(&p, key, 0x5180, 1), A(TABLE_END));
	pair_revive(&p);
	/* nothing of it, and nothing at all */
	a.nr = 0;
	a.klm = NULL;
	a.octwords = 8;
	key = key_new(m, &a);
	ASSERT_EQ(read_by_peer(&p, key, 0x5000, 1), A(TABLE_END));
	pair_revive(&p);
	a.octwords = 0;
	ASSERT_EQ(read_by_peer(&p, key_new(m, &a), 0x5000, 1), A(TABLE_END));
	/* a region that is 2^64 bytes long ends where its list does */
	a.length64 = true;
	a.klm = list;
	a.nr = 3;
	key = key_new(m, &a);
	ASSERT_EQ(syndrome_of(m, p.a, key, 0x4fff, 1), A(TABLE_END));
	ASSERT_EQ(syndrome_of(m, p.a, key, 0x517f, 1), 0);
}

TEST("HM-4.10", example_e4)
{
	static const u64 e1[] = { 0x7f0012000, 0x7f0345000, 0x7f0001000, 0x7f0999000 };
	struct key_attr mr = { .mode = MTT, KEY_ALL, .start = 0x10000e00, .len = 0x2800, .mtt = e1, .nr = 4 };
	u32 base = key_new(m, &mr), w1, w2;
	struct pair p = pair_new(m);
	struct hca_explain_step leaf[4];
	struct mem page[4];
	struct walk w;

	for (int i = 0; i < 4; i++) {
		page[i] = mem_at(m, e1[i], 4096);
		mem_fill(&page[i], 0, 4096, 100 + i);
	}
	w1 = klm_new(m, &(struct klm){ 0x1000, base, 0x10000f00 }, 1);
	w = explain(m, p.a, w1, 0, 0x200, HCA_ACCESS_READ, false);
	ASSERT_EQ(w.syndrome, 0);
	ASSERT_EQ(leaves(&w, leaf, 4), 2);
	ASSERT_EQ(leaf[0].dma, 0x7f0012f00ULL);
	ASSERT_EQ(leaf[0].len, 0x100ull);
	ASSERT_EQ(leaf[1].dma, 0x7f0345000ULL);
	ASSERT_EQ(leaf[1].len, 0x100ull);
	ASSERT_EQ(leaf[1].level, 1);
	ASSERT_EQ(leaf[1].start, 0x10000e00ull);
	ASSERT_EQ(read_by_peer(&p, w1, 0, 0x200), 0);
	ASSERT_PATTERN(&p.src, PAIR_OFFSET, 0x100, 100, 0xf00);
	ASSERT_PATTERN(&p.src, PAIR_OFFSET + 0x100, 0x100, 101, 0);
	/* the window reaches 0xf00 bytes further than the region */
	w2 = klm_new(m, &(struct klm){ 0x1000, base, 0x10003500 }, 1);
	ASSERT_EQ(read_by_peer(&p, w2, 0, 0x100), 0);
	ASSERT_EQ(read_by_peer(&p, w2, 0xff, 2), B(BOUNDS));
	pair_revive(&p);
	ASSERT_EQ(read_by_peer(&p, w2, 0x100, 1), B(BOUNDS));
	pair_revive(&p);
	ASSERT_EQ(read_by_peer(&p, w2, 0xfff, 1), B(BOUNDS));
	pair_revive(&p);
	ASSERT_EQ(read_by_peer(&p, w2, 0xfff, 2), A(BOUNDS));
	pair_revive(&p);
	/* nothing of a WRITE that fails in its first chunk is there */
	ASSERT_EQ(write_by_peer(&p, w2, 0, 0x800), B(BOUNDS));
	for (int i = 0; i < 4; i++)
		ASSERT_PATTERN(&page[i], 0, 4096, 100 + i, 0);
}

/* nested bounds at the end of the address space: no wrap makes them pass */
TEST("HM-4.10 HM-4.3 case 1", nested_wraps)
{
	struct mem mem = mem_new(m, 4096);
	u32 top = mr_new_attr(m, &mem, 0, 4096, ~0xfffULL, (struct key_attr){ KEY_ALL });
	struct pair p = pair_new(m);
	static const struct { u64 addr; u32 count; u64 at; u32 len; u8 code; } row[] = {
		{ ~0xfffULL, 0x1000, 0, 0x1000, 0 },
		{ ~0xfULL, 0x20, 0, 0x10, 0 },
		{ ~0xfULL, 0x20, 0, 0x11, B(BOUNDS) },
		{ ~0xfULL, 0x20, 0x10, 1, B(BOUNDS) },		/* the address has wrapped to 0 */
		{ ~0ULL, 1u << 31, 1, 1, B(BOUNDS) },
		{ ~0ULL, 1u << 31, (1u << 31) - 1, 1, B(BOUNDS) },
		{ ~0ULL - 0x7fffffff, 1u << 31, (1u << 31) - 1, 1, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		u32 key = klm_new(m, &(struct klm){ row[i].count, top, row[i].addr }, 1);
		u8 got = syndrome_of(m, p.a, key, row[i].at, row[i].len);

		if (got != row[i].code)
			FAIL("row %zu: %#x, expected %#x", i, got, row[i].code);
		ASSERT_EQ(read_by_peer(&p, key, row[i].at, row[i].len), row[i].code);
		if (row[i].code)
			pair_revive(&p);
	}
}

TEST("HM-4.11", depth)
{
	struct pair p = pair_new(m);

	for (int ksm = 0; ksm < 2; ksm++) {
		u32 key = p.rkey;

		for (int level = 1; level <= 6; level++) {
			struct klm e = { 0x1000, key, level == 1 ? p.d : 0 };
			struct key_attr a = { .mode = ksm ? KSM : KLMS, KEY_ALL, .len = 0x1000, .log_page = ksm ? 12 : 0,
					      .klm = &e, .nr = 1 };

			key = key_new(m, &a);
			ASSERT_EQ(syndrome_of(m, p.a, key, 0x10, 0x100), level <= 4 ? 0 : B(DEPTH));
			ASSERT_EQ(read_by_peer(&p, key, 0x10, 0x100), level <= 4 ? 0 : B(DEPTH));
			if (level > 4)
				pair_revive(&p);
			if (level == 4)
				ASSERT_PATTERN(&p.src, PAIR_OFFSET, 0x100, 2, PAIR_OFFSET + 0x10);
		}
	}
}

/* lists that lead back to themselves */
TEST("HM-4.11", circles)
{
	struct pair p = pair_new(m);
	struct qp *umr = umr_qp_new(m);
	struct key_attr a = { .mode = KLMS, KEY_ALL, .umr_en = true, .len = 1ULL << 31, .octwords = 4 };
	u32 self = key_new(m, &a), one = key_new(m, &a), two = key_new(m, &a);
	u8 list[64] = {};
	struct umr u = { .key = self, .flags = UMR_INLINE, .octwords = 4, .list = list };

	klm_put(list, 0, (struct klm){ 1u << 31, self, 0 });
	UMR_OK(umr, &u);
	klm_put(list, 0, (struct klm){ 1u << 31, two, 0 });
	u.key = one;
	UMR_OK(umr, &u);
	klm_put(list, 0, (struct klm){ 1u << 31, one, 0 });
	u.key = two;
	UMR_OK(umr, &u);
	for (int i = 0; i < 3; i++) {
		u32 key = i == 0 ? self : i == 1 ? one : two;

		ASSERT_EQ(syndrome_of(m, p.a, key, 0, 1), B(DEPTH));
		ASSERT_EQ(syndrome_of(m, p.a, key, 12345, 100000), B(DEPTH));
		ASSERT_EQ(read_by_peer(&p, key, 0, 0x1000), B(DEPTH));
		pair_revive(&p);
		post_send(p.a, key, 0, 64);
		EXPECT_REQ_ERR(p.a, 0, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, B(DEPTH));
		pair_revive(&p);
	}
	/* a fan: every entry of four levels leads to all of the next, sixteen pieces in the end are one too many levels down */
	u32 level = self;

	for (int i = 0; i < 4; i++) {
		struct klm fan[4] = { { 64, level, 0 }, { 64, level, 0 }, { 64, level, 0 }, { 64, level, 0 } };

		level = klm_new(m, fan, 4);
	}
	ASSERT_EQ(syndrome_of(m, p.a, level, 0, 256), B(DEPTH));
}

/* a wide tree: a request of many small pieces on four levels */
TEST("HM 4.5", many_pieces)
{
	struct pair p = pair_new(m);
	struct klm fan[16];
	u32 key = p.rkey, len = 0;
	u8 want[4096];
	u64 d;

	/* 16 pieces of 7 bytes, 16 bytes apart; then all of that, 16 times, from an odd place on */
	for (int i = 0; i < 16; i++)
		fan[i] = (struct klm){ 7, p.rkey, p.d + 16 * i };
	key = klm_new(m, fan, 16);
	for (int i = 0; i < 16; i++)
		fan[i] = (struct klm){ 111, key, 1 };
	key = klm_new(m, fan, 16);
	for (u32 i = 0; i < 16 * 111; i++) {
		u32 at = i % 111 + 1;

		want[i] = pattern_byte(2, PAIR_OFFSET + at / 7 * 16 + at % 7);
	}
	for (int round = 0; round < 50; round++) {
		d = rnd(1700);
		len = 1 + rnd(16 * 111 - d);
		ASSERT_EQ(read_by_peer(&p, key, d, len), 0);
		ASSERT(!memcmp(p.src.cpu + PAIR_OFFSET, want + d, len));
		cq_update(p.a->scq);
	}
	/* as the local side of a WRITE, of a SEND and of its receive at the same time */
	post_write(p.a, key, 0, 16 * 111, p.lkey, p.s);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, p.a->sq_pi - 1);
	ASSERT(!memcmp(p.src.cpu + PAIR_OFFSET, want, 16 * 111));
	mem_fill(&p.src, 0, p.src.len, 1);
	post_recv(p.b, key, 0, 111);
	post_send(p.a, p.lkey, p.s, 111);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, p.a->sq_pi - 1);
	EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_SEND, 0);
	for (int i = 0; i < 111; i++)
		ASSERT_EQ(p.dst.cpu[PAIR_OFFSET + (i + 1) / 7 * 16 + (i + 1) % 7], pattern_byte(1, PAIR_OFFSET + i));
}

/* more pieces than any one chunk can take */
TEST("HM 4.4", eight_thousand_bytes_in_as_many_places)
{
	struct mem mem = mem_new(m, 16 * 4096);
	struct pair p = pair_new(m);
	u32 leaf = mr_new(m, &mem, 0, mem.len, 0), key, i;
	struct klm *list = calloc(8192, sizeof(*list));
	struct key_attr a = { .mode = KLMS, KEY_ALL, .len = 8192, .klm = list, .nr = 8192 };

	mem_fill(&mem, 0, mem.len, 3);
	for (i = 0; i < 8192; i++)
		list[i] = (struct klm){ 1, leaf, i * 7919 % mem.len };
	key = key_new(m, &a);
	ASSERT_EQ(read_by_peer(&p, key, 0, 8192), 0);
	for (i = 0; i < 8192; i++)
		ASSERT_EQ(p.src.cpu[PAIR_OFFSET + i], pattern_byte(3, list[i].addr));
	ASSERT_EQ(read_by_peer(&p, key, 8191, 1), 0);
	ASSERT_EQ(p.src.cpu[PAIR_OFFSET], pattern_byte(3, list[8191].addr));
	free(list);
}

TEST("HM-4.12", example_e5)
{
	struct mem mem = mem_at(m, 0x7f1234567000ULL, 4096);
	struct pair p = pair_new(m);
	struct qp *umr = umr_qp_new(m);
	u32 pa = pa_new(m), key;
	struct key_attr a = { .mode = KSM, KEY_ALL, .umr_en = true, .length64 = true, .log_page = 30, .octwords = 131072 };
	struct hca_explain_step leaf[4];
	u8 list[64] = {};
	struct umr u = { .flags = UMR_INLINE | UMR_OFFSET, .octwords = 4, .to = 130120, .list = list };
	struct klm two[3] = { { 0, pa, 0x600000000ULL }, { 0, pa, 0x600200000ULL }, { 0, pa, 0x600400000ULL } };
	struct walk w;

	/* S = 0, B = 1 GiB: the parent of implicit ODP over 47 bits */
	key = key_new(m, &a);
	u.key = key;
	klm_put(list, 0, (struct klm){ 0, pa, 0x7f1200000000ULL });
	UMR_OK(umr, &u);
	mem_fill(&mem, 0, 4096, 3);
	w = explain(m, p.a, key, 0x7f1234567000ULL, 0x1000, HCA_ACCESS_READ, false);
	ASSERT_EQ(w.syndrome, 0);
	ASSERT_EQ(w.step[0].index, 130120ull);
	ASSERT_EQ(leaves(&w, leaf, 4), 1);
	expect_leaf(&leaf[0], pa, 0x7f1234567000ULL, 0x1000, 1);
	ASSERT_EQ(read_by_peer(&p, key, 0x7f1234567100ULL, 0x200), 0);
	ASSERT_PATTERN(&p.src, PAIR_OFFSET, 0x200, 3, 0x100);

	/* S = 0x40000000, B = 2 MiB */
	a = (struct key_attr){ .mode = KSM, KEY_ALL, .start = 0x40000000, .len = 0x600000, .log_page = 21, .klm = two, .nr = 3 };
	key = key_new(m, &a);
	mem_at(m, 0x600000000ULL, 0x200000);
	mem_at(m, 0x600200000ULL, 0x200000);
	mem_at(m, 0x600400000ULL, 0x200000);
	w = explain(m, p.a, key, 0x405ff000, 0x1000, HCA_ACCESS_READ, false);
	ASSERT_EQ(w.syndrome, 0);
	ASSERT_EQ(w.step[0].index, 2ull);
	ASSERT_EQ(leaves(&w, leaf, 4), 1);
	expect_leaf(&leaf[0], pa, 0x600400000ULL + 0x1ff000, 0x1000, 1);
	/* over the edge of two blocks */
	w = explain(m, p.a, key, 0x401fff00, 0x200, HCA_ACCESS_READ, false);
	ASSERT_EQ(leaves(&w, leaf, 4), 2);
	expect_leaf(&leaf[0], pa, 0x6001fff00ULL, 0x100, 1);
	expect_leaf(&leaf[1], pa, 0x600200000ULL, 0x100, 1);

	/* S not aligned: entry 0 covers [S, S + B), nothing is added for S mod B */
	a.start = 0x40001000;
	key = key_new(m, &a);
	ASSERT_EQ(dma_of(m, p.a, key, 0x40001000), 0x600000000ULL);
	ASSERT_EQ(dma_of(m, p.a, key, 0x40200fff), 0x6001fffffULL);
	ASSERT_EQ(dma_of(m, p.a, key, 0x40201000), 0x600200000ULL);
	ASSERT_EQ(dma_of(m, p.a, key, 0x40600fff), 0x6005fffffULL);
	ASSERT_EQ(dma_of(m, p.a, key, 0x40601000), (u64)A(BOUNDS));
}

TEST("HM-4.12", every_block_size)
{
	struct pair p = pair_new(m);
	u32 pa = pa_new(m);

	for (u8 log = 12; log <= 36; log++) {
		u64 size = 1ULL << log, base = 1ULL << 40;
		struct klm two[2] = { { 5, pa, base }, { ~0u, pa, base + 3 * size } };	/* byte counts are ignored */
		struct key_attr a = { .mode = KSM, KEY_ALL, .start = 0x1000, .len = 2 * size, .log_page = log, .klm = two, .nr = 2 };
		struct mem edge[2] = { mem_at(m, base + size - 4096, 4096), mem_at(m, base + 3 * size, 4096) };
		u32 key = key_new(m, &a);

		mem_fill(&edge[0], 0, 4096, log);
		mem_fill(&edge[1], 0, 4096, log + 100);
		ASSERT_EQ(read_by_peer(&p, key, 0x1000 + size - 0x800, 0x1000), 0);
		ASSERT_PATTERN(&p.src, PAIR_OFFSET, 0x800, log, 0x800);
		ASSERT_PATTERN(&p.src, PAIR_OFFSET + 0x800, 0x800, log + 100, 0);
		cq_update(p.a->scq);
		mem_unmap(&edge[0]);
		mem_unmap(&edge[1]);
	}
}

TEST("HM-4.13", a_block_beyond_the_table)
{
	struct pair p = pair_new(m);
	struct klm list[4];
	struct key_attr a = { .mode = KSM, KEY_ALL, .length64 = true, .log_page = 12, .klm = list, .nr = 4 };
	struct mem mem = mem_new(m, 4 * 4096);
	u32 leaf = mr_new(m, &mem, 0, mem.len, 0), key;

	for (int i = 0; i < 4; i++)
		list[i] = (struct klm){ 0, leaf, 4096 * i };
	key = key_new(m, &a);
	ASSERT_EQ(syndrome_of(m, p.a, key, 0, 4 * 4096), 0);
	ASSERT_EQ(syndrome_of(m, p.a, key, 4 * 4096 - 1, 2), A(TABLE_END));
	ASSERT_EQ(syndrome_of(m, p.a, key, 4 * 4096, 1), A(TABLE_END));
	ASSERT_EQ(read_by_peer(&p, key, 4 * 4096, 1), A(TABLE_END));
	pair_revive(&p);
	/* an index of more than 32 bits is not a small one */
	ASSERT_EQ(syndrome_of(m, p.a, key, 1ULL << 44, 1), A(TABLE_END));
	ASSERT_EQ(syndrome_of(m, p.a, key, ~0ULL, 1), A(TABLE_END));
	/* declared and empty entries have key 0, which is none */
	a.octwords = 8;
	key = key_new(m, &a);
	ASSERT_EQ(syndrome_of(m, p.a, key, 4 * 4096, 1), B(NO_MKC));
	ASSERT_EQ(syndrome_of(m, p.a, key, 8 * 4096, 1), A(TABLE_END));
}

/* 2.2: what the special keys are in a list */
TEST("HM-2.10 HM-2.12", special_keys_in_lists)
{
	struct pair p = pair_new(m), k = pair_new_attr(m, (struct qp_attr){ .rlky = true, .fre = true },
						     (struct qp_attr){ .rlky = true, .fre = true }, (struct qp_path){});
	static const struct { u32 key; u8 local, remote; } row[] = {
		{ 0, B(NO_MKC), B(NO_MKC) },
		{ 0x100, A(ENTRY), A(ENTRY) },
		{ 0x200, A(ENTRY), A(ENTRY) },
		{ 0x300, B(PAGE), B(PAGE) },
		{ 0x500, 0, B(NO_MKC) },
		{ 0x501, B(NO_MKC), B(NO_MKC) },
		{ 0xf00, B(NO_MKC), B(NO_MKC) },
	};
	struct klm list[2];

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		u8 got;
		u32 key;

		list[0] = (struct klm){ 0x80, p.rkey, p.d };
		list[1] = (struct klm){ 0x80, row[i].key, mem_dma(&p.src, 0) };
		key = klm_new(m, list, 2);
		got = explain(m, p.a, key, 0x80, 0x10, HCA_ACCESS_READ, false).syndrome;
		if (got != row[i].local)
			FAIL("local, key %#x: %#x, expected %#x", row[i].key, got, row[i].local);
		got = explain(m, p.a, key, 0x80, 0x10, HCA_ACCESS_READ, true).syndrome;
		if (got != row[i].remote)
			FAIL("remote, key %#x: %#x, expected %#x", row[i].key, got, row[i].remote);
		/* an access that runs into it */
		ASSERT_EQ(read_by_peer(&p, key, 0x7f, 2), row[i].remote);
		if (row[i].remote)
			pair_revive(&p);
		post_write(p.a, key, 0x7f, 2, p.rkey, p.d);
		if (row[i].local)
			EXPECT_REQ_ERR(p.a, p.a->sq_pi - 1, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, row[i].local);
		else
			EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, p.a->sq_pi - 1);
		pair_revive(&p);
	}
	/* resd_lkey in a list, for a kernel consumer's own accesses */
	list[0] = (struct klm){ 0x80, k.rkey, k.d };
	list[1] = (struct klm){ 0x80, 0x200, mem_dma(&p.src, 0x100) };
	u32 key = klm_new(m, list, 2);

	mem_fill(&p.src, 0, p.src.len, 9);
	post_write(k.a, key, 0x80, 0x80, k.rkey, k.d);
	EXPECT_CQE(k.a->scq, MLX5_CQE_REQ, 0);
	ASSERT_PATTERN(&k.dst, PAIR_OFFSET, 0x80, 9, 0x100);
}

TEST("HM-2.11", dump_fill_in_a_list)
{
	struct pair p = pair_new(m);
	struct klm list[3] = { { 0x10, p.rkey, p.d }, { 0x100, DUMP_FILL, ~0ULL - 5 }, { 0x10, p.rkey, p.d + 0x10 } };
	u32 key = klm_new(m, list, 3);

	/* written to: the middle is dropped */
	post_recv(p.b, key, 0, 0x120);
	post_send(p.a, p.lkey, p.s, 0x120);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	ASSERT_EQ(be32_to_cpu(EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_SEND, 0).byte_cnt), 0x120u);
	ASSERT_PATTERN(&p.dst, PAIR_OFFSET, 0x10, 1, PAIR_OFFSET);
	ASSERT_PATTERN(&p.dst, PAIR_OFFSET + 0x10, 0x10, 1, PAIR_OFFSET + 0x110);
	ASSERT_PATTERN(&p.dst, PAIR_OFFSET + 0x20, 0x200, 2, PAIR_OFFSET + 0x20);
	/* read from: zeros */
	post_write(p.a, key, 8, 0x110, p.rkey, p.d + 0x400);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 1);
	ASSERT_PATTERN(&p.dst, PAIR_OFFSET + 0x400, 8, 1, PAIR_OFFSET + 8);
	ASSERT(mem_is_zero(p.dst.cpu + PAIR_OFFSET + 0x408, 0x100));
	ASSERT_PATTERN(&p.dst, PAIR_OFFSET + 0x508, 8, 1, PAIR_OFFSET + 0x110);
}

/* all rights, no bounds, no domain, and no page */
TEST("HM 2.2", the_null_key)
{
	struct pair p = pair_new(m);
	u32 pd = pd_new(m), ksm;
	struct qp *other = qp_new(m, (struct qp_attr){ .pd = pd });
	struct klm fill[4] = { { 0, NULL_KEY, 0 }, { 0, p.rkey, p.d }, { 0, NULL_KEY, 0 }, { 0, NULL_KEY, 0x7000 } };
	struct key_attr a = { .mode = KSM, KEY_ALL, .length64 = true, .log_page = 12, .klm = fill, .nr = 4 };

	for (int access = HCA_ACCESS_READ; access <= HCA_ACCESS_ATOMIC; access++) {
		for (int remote = access == HCA_ACCESS_ATOMIC; remote < 2; remote++) {
			ASSERT_EQ(explain(m, p.a, NULL_KEY, 0, 8, access, remote).syndrome, A(PAGE));
			ASSERT_EQ(explain(m, p.a, NULL_KEY, ~7ULL, 8, access, remote).syndrome, A(PAGE));
			ASSERT_EQ(explain(m, other, NULL_KEY, 0x1234560, 8, access, remote).syndrome, A(PAGE));
		}
	}
	/* its variant is part of its name */
	ASSERT_EQ(syndrome_of(m, p.a, NULL_KEY + 1, 0, 1), A(NO_MKC));
	ASSERT_EQ(read_by_peer(&p, NULL_KEY, 0x1000, 8), A(PAGE));
	pair_revive(&p);
	post_send(p.a, NULL_KEY, 0, 8);
	EXPECT_REQ_ERR(p.a, 0, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, A(PAGE));
	pair_revive(&p);
	/* filler of a table, as implicit ODP has it */
	ksm = key_new(m, &a);
	ASSERT_EQ(read_by_peer(&p, ksm, 0x1000, 0x1000), 0);
	ASSERT_EQ(read_by_peer(&p, ksm, 0xfff, 2), B(PAGE));
	pair_revive(&p);
	ASSERT_EQ(read_by_peer(&p, ksm, 0x2000, 2), B(PAGE));
	pair_revive(&p);
	ASSERT_EQ(write_by_peer(&p, ksm, 0x3fff, 1), B(PAGE));
}

/* 13.1 */

TEST("HM-13.1", example_of_interleaved_blocks)
{
	struct pair p = pair_new(m);
	u64 a = p.d + 0x100;
	struct klm list[4] = { KLM_REPEAT(16, 3, 2), KLM_STRIDED(10, 8, p.rkey, a), KLM_STRIDED(10, 8, p.rkey, a + 64) };
	struct key_attr attr = { .mode = KLMS, KEY_ALL, .len = 48, .klm = list, .nr = 4 };
	u32 key = key_new(m, &attr);
	struct hca_explain_step leaf[8];
	struct walk w;

	for (u32 d = 0; d < 48; d++) {
		u32 c = d / 16, r = d % 16;
		u64 va = (r < 8 ? a : a + 64) + 10 * c + r % 8;

		ASSERT_EQ(dma_of(m, p.a, key, d), mem_dma(&p.dst, PAIR_OFFSET + va - p.d));
	}
	/* offset 0..15 -> A+0..7, A+64..71 */
	w = explain(m, p.a, key, 0, 16, HCA_ACCESS_READ, false);
	ASSERT_EQ(leaves(&w, leaf, 8), 2);
	expect_leaf(&leaf[0], p.rkey, a, 8, 1);
	expect_leaf(&leaf[1], p.rkey, a + 64, 8, 1);
	/* offset 19, 10 bytes -> A+13 (5 bytes), A+74 (5 bytes) */
	w = explain(m, p.a, key, 19, 10, HCA_ACCESS_READ, false);
	ASSERT_EQ(leaves(&w, leaf, 8), 2);
	expect_leaf(&leaf[0], p.rkey, a + 13, 5, 1);
	expect_leaf(&leaf[1], p.rkey, a + 74, 5, 1);
	/* every start and every length */
	for (u32 d = 0; d < 48; d++) {
		for (u32 len = 1; d + len <= 48; len += 5) {
			ASSERT_EQ(read_by_peer(&p, key, d, len), 0);
			cq_update(p.a->scq);
			for (u32 i = 0; i < len; i++) {
				u32 c = (d + i) / 16, r = (d + i) % 16;
				u64 at = PAIR_OFFSET + 0x100 + (r < 8 ? 0 : 64) + 10 * c + r % 8;

				ASSERT_EQ(p.src.cpu[PAIR_OFFSET + i], pattern_byte(2, at));
			}
		}
	}
	/* written to, the gaps stay */
	mem_fill(&p.src, 0, p.src.len, 1);
	ASSERT_EQ(write_by_peer(&p, key, 0, 48), 0);
	for (u32 i = 0; i < 128; i++) {
		u32 in = i % 64, c = in / 10, r = in % 10;
		bool hit = c < 3 && r < 8;

		ASSERT_EQ(p.dst.cpu[PAIR_OFFSET + 0x100 + i],
			  hit ? pattern_byte(1, PAIR_OFFSET + 16 * c + (i >= 64 ? 8 : 0) + r) :
			  pattern_byte(2, PAIR_OFFSET + 0x100 + i));
	}
}

TEST("HM-13.2", repeated_blocks_that_make_no_sense)
{
	struct pair p = pair_new(m);
	static const struct { const char *what; struct klm control; u32 octwords; } row[] = {
		{ "cycle too short", KLM_REPEAT(15, 3, 2), 4 },
		{ "cycle too long", KLM_REPEAT(17, 3, 2), 4 },
		{ "cycle of 0", KLM_REPEAT(0, 3, 2), 4 },
		{ "cycle of 2^32 - 1", KLM_REPEAT(~0u, 3, 2), 4 },
		{ "no entries", KLM_REPEAT(16, 3, 0), 4 },
		{ "no entries and no cycle", KLM_REPEAT(0, 3, 0), 4 },
		{ "one entry of two", KLM_REPEAT(16, 3, 1), 4 },
		{ "more entries than capacity", KLM_REPEAT(16, 3, 4), 4 },
		{ "far more", KLM_REPEAT(16, 3, 0xffff), 4 },
		{ "never", KLM_REPEAT(16, 0, 2), 4 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct klm list[4] = { row[i].control, KLM_STRIDED(10, 8, p.rkey, p.d), KLM_STRIDED(10, 8, p.rkey, p.d + 64) };
		struct key_attr a = { .mode = KLMS, KEY_ALL, .len = 48, .klm = list, .nr = 4, .octwords = row[i].octwords };
		u32 key = key_new(m, &a), above;
		u8 got = syndrome_of(m, p.a, key, 0, 1);

		if (got != A(ENTRY))
			FAIL("%s: %#x", row[i].what, got);
		ASSERT_EQ(read_by_peer(&p, key, 47, 1), A(ENTRY));
		pair_revive(&p);
		above = klm_new(m, &(struct klm){ 48, key, 0 }, 1);
		ASSERT_EQ(syndrome_of(m, p.a, above, 0, 1), B(ENTRY));
		/* a request out of the bounds of the key never sees the list */
		ASSERT_EQ(syndrome_of(m, p.a, key, 48, 1), A(BOUNDS));
	}
	/* the entries end where the table does: three fit into four octowords */
	struct klm full[4] = { KLM_REPEAT(24, 2, 3), KLM_STRIDED(8, 8, p.rkey, p.d), KLM_STRIDED(8, 8, p.rkey, p.d + 64),
			       KLM_STRIDED(8, 8, p.rkey, p.d + 128) };
	struct key_attr a = { .mode = KLMS, KEY_ALL, .len = 48, .klm = full, .nr = 4 };

	ASSERT_EQ(read_by_peer(&p, key_new(m, &a), 0, 48), 0);
	/* an empty entry among them is no entry */
	full[2] = (struct klm)KLM_STRIDED(8, 0, 0xdead00, 0);
	full[0] = (struct klm)KLM_REPEAT(16, 3, 3);
	ASSERT_EQ(read_by_peer(&p, key_new(m, &a), 0, 48), 0);
}

TEST("HM-13.3", beyond_the_last_repetition)
{
	struct pair p = pair_new(m);
	struct klm list[4] = { KLM_REPEAT(16, 3, 2), KLM_STRIDED(10, 8, p.rkey, p.d), KLM_STRIDED(10, 8, p.rkey, p.d + 64) };
	struct key_attr a = { .mode = KLMS, KEY_ALL, .start = 0x1000, .len = 0x1000, .klm = list, .nr = 4 };
	u32 key = key_new(m, &a);

	ASSERT_EQ(read_by_peer(&p, key, 0x1000, 48), 0);
	ASSERT_EQ(read_by_peer(&p, key, 0x1000, 49), A(TABLE_END));
	pair_revive(&p);
	ASSERT_EQ(read_by_peer(&p, key, 0x1030, 1), A(TABLE_END));
	pair_revive(&p);
	ASSERT_EQ(syndrome_of(m, p.a, key, 0x1fff, 1), A(TABLE_END));
	/* C * repeat_count does not fit 32 bits, nor is it taken modulo them */
	list[0] = (struct klm)KLM_REPEAT(16, 0x10000000, 2);
	list[1] = (struct klm)KLM_STRIDED(0, 8, p.rkey, p.d);
	list[2] = (struct klm)KLM_STRIDED(0, 8, p.rkey, p.d + 64);
	a.length64 = true;
	a.start = 0;
	key = key_new(m, &a);
	ASSERT_EQ(dma_of(m, p.a, key, 0xfffffff9), mem_dma(&p.dst, PAIR_OFFSET + 65));
	ASSERT_EQ(dma_of(m, p.a, key, 0x100000000ULL), (u64)A(TABLE_END));
	list[0] = (struct klm)KLM_REPEAT(16, ~0u, 2);
	key = key_new(m, &a);
	ASSERT_EQ(dma_of(m, p.a, key, 16 * 0xffffffffULL - 16), mem_dma(&p.dst, PAIR_OFFSET));
	ASSERT_EQ(dma_of(m, p.a, key, 16 * 0xffffffffULL), (u64)A(TABLE_END));
	ASSERT_EQ(dma_of(m, p.a, key, ~0ULL), (u64)A(TABLE_END));
	/* strides that run out of the region below, and those that wrap the address space */
	list[0] = (struct klm)KLM_REPEAT(8, 0x1000, 1);
	list[1] = (struct klm)KLM_STRIDED(0x1000, 8, p.rkey, p.d);
	key = key_new(m, &a);
	ASSERT_EQ(read_by_peer(&p, key, 0, 16), 0);
	ASSERT_EQ(read_by_peer(&p, key, 15, 2), B(BOUNDS));
	pair_revive(&p);
	list[1] = (struct klm)KLM_STRIDED(0xfff8, 8, p.rkey, p.d - 0xfff8ULL * 0xfff);
	key = key_new(m, &a);
	ASSERT_EQ(read_by_peer(&p, key, 8 * 0xfff, 8), 0);
	ASSERT_EQ(read_by_peer(&p, key, 0, 8), B(BOUNDS));
}

/* below another list, and over other lists: one level as any */
TEST("HM-13.1", interleaved_blocks_nest)
{
	struct pair p = pair_new(m);
	u32 flat = klm_new(m, &(struct klm){ 0x1000, p.rkey, p.d }, 1), key;
	struct klm list[4] = { KLM_REPEAT(16, 3, 2), KLM_STRIDED(10, 8, flat, 0), KLM_STRIDED(10, 8, p.rkey, p.d + 64) };
	struct key_attr a = { .mode = KLMS, KEY_ALL, .len = 48, .klm = list, .nr = 4 };
	u64 at;

	key = key_new(m, &a);
	ASSERT_EQ(read_by_peer(&p, key, 0, 48), 0);
	key = klm_new(m, &(struct klm){ 40, key, 8 }, 1);
	ASSERT_EQ(read_by_peer(&p, key, 0, 40), 0);
	for (u32 i = 0; i < 40; i++) {
		u32 c = (i + 8) / 16, r = (i + 8) % 16;

		at = PAIR_OFFSET + (r < 8 ? 0 : 64) + 10 * c + r % 8;
		ASSERT_EQ(p.src.cpu[PAIR_OFFSET + i], pattern_byte(2, at));
	}
	/* klm, klm, repeated, klm, mtt is four levels; one more is too many */
	key = klm_new(m, &(struct klm){ 40, key, 0 }, 1);
	ASSERT_EQ(syndrome_of(m, p.a, key, 0, 40), 0);
	key = klm_new(m, &(struct klm){ 40, key, 0 }, 1);
	ASSERT_EQ(syndrome_of(m, p.a, key, 8, 8), B(DEPTH));
	/* through the other entry there is one less */
	ASSERT_EQ(syndrome_of(m, p.a, key, 0, 8), 0);
}

#define NODES	14
#define MAXLEN	6000

static struct model_key nodes[NODES];
static struct mem area;
static u64 resolved[MAXLEN];
static struct model model = { nodes, NODES, &area, resolved, 0 };

/* some place in node @i, mostly a good one */
static u64 place_in(int i)
{
	const struct key_attr *a = &nodes[i].a;

	if (!rnd(12))
		return rnd(~0ULL);
	return a->start + rnd(a->length64 ? 20000 : a->len / 2 + 1) - (rnd(20) ? 0 : rnd(100));
}

static struct klm random_entry(int below, bool anywhere)
{
	int i = anywhere ? rnd(NODES) : rnd(below);
	struct klm e = { 200 + rnd(3000), nodes[i].key, place_in(i) };

	switch (rnd(40)) {
	case 0:
		e.key = (const u32[]){ 0, 0x100, 0x200, 0x300, 0x400, 0xffffff00 }[rnd(6)];
		break;
	case 1:
		e.key ^= 1 + rnd(255);
		break;
	case 2:
		e.count = 0;
		break;
	}
	return e;
}

static void random_nodes(struct machine *m, u32 other_pd, const u32 *qpns, struct qp *umr)
{
	for (int i = 0; i < NODES; i++) {
		struct model_key *n = &nodes[i];
		struct key_attr *a = &n->a;
		struct umr u = { .flags = UMR_INLINE, .mask = UMR_QPN };
		u32 k, sum = 0;

		memset(n, 0, sizeof(*n));
		n->pd = rnd(30) ? m->pd : other_pd;
		n->qpn = 0xffffff;
		*a = (struct key_attr){ .variant = rnd(256), .free = !rnd(30), .lw = rnd(8), .rr = rnd(8), .rw = rnd(8), .a = rnd(8),
					.pd = n->pd, .nr = 1 + rnd(8) };
		a->mode = i < 4 ? (rnd(4) ? MTT : PA) : rnd(3) ? KLMS : KSM;
		a->umr_en = a->mode != PA;
		a->start = rnd(3) ? rnd(100000) : rnd(~0ULL) >> 1;
		a->len = 4000 + rnd(20000);
		switch (a->mode) {
		case PA:
			a->nr = 0;
			a->start = area.dma[rnd(area.nr)];
			a->len = 4096;
			break;
		case MTT:
			a->pg_access = true;
			a->log_page = 12;
			a->nr = 8;
			a->mtt = n->mtt;
			for (k = 0; k < 8; k++)
				n->mtt[k] = (rnd(60) ? area.dma[rnd(area.nr)] : 0x66600000000ULL) | (rnd(40) ? 3 : rnd(4));
			break;
		default:
			a->klm = n->klm;
			a->log_page = a->mode == KSM ? 12 + rnd(2) : 0;
			a->length64 = !rnd(6);
			for (k = 0; k < a->nr; k++)
				n->klm[k] = random_entry(i, !rnd(30));
			if (a->mode == KLMS && n->klm[0].key == 0x400)
				n->klm[0].key = 0;
			if (a->mode == KLMS && a->nr > 1 && !rnd(4)) {
				for (k = 1; k < a->nr; k++) {
					n->klm[k].count = (u32)rnd(300) << 16 | rnd(200);
					sum += n->klm[k].count & 0xffff;
				}
				n->klm[0] = (struct klm)KLM_REPEAT(rnd(15) ? sum : sum + 1, rnd(100), a->nr - 1);
			}
		}
		if (a->start + (a->len - 1) < a->start)
			a->len = -a->start;
		n->key = key_new(m, a);
		if (a->umr_en && !rnd(15)) {
			n->qpn = qpns[rnd(2)];
			u.key = n->key;
			UMR_SET(&u, qpn, n->qpn);
			UMR_OK(umr, &u);
		}
	}
}

static void random_request(struct model_key **n, u32 *key, u64 *va, u32 *len)
{
	int i = 4 + rnd(NODES - 4);

	*n = &nodes[i];
	*key = rnd(40) ? nodes[i].key : nodes[i].key ^ (1 + rnd(255));
	*va = place_in(i);
	*len = 1 + rnd(rnd(3) ? 300 : MAXLEN - 1);
}

TEST("HM 4.3 HM-4.18", random_trees_agree_with_the_model)
{
	struct pair p = pair_new(m);
	struct qp *umr = umr_qp_new(m);
	u32 pd = pd_new(m), qpns[2] = { p.a->qpn, p.b->qpn };
	unsigned int hits[256] = {}, ok = 0;

	area = mem_new(m, 24 * 4096);
	for (int round = 0; round < 600; round++) {
		random_nodes(m, pd, qpns, umr);
		for (int n = 0; n < 50; n++) {
			struct asker who = { m->pd, p.b->qpn, rnd(2), rnd(3) };
			static struct hca_explain_step leaf[256];
			struct walk w;
			struct model_key *node;
			u32 key, len, at = 0;
			u64 va;
			u8 want;
			int nr;

			random_request(&node, &key, &va, &len);
			if (who.access == HCA_ACCESS_ATOMIC) {
				who.remote = true;
				va &= ~7ULL;
				len = 8;
			}
			want = model_walk(&model, key, &who, va, len);
			w = explain(m, p.b, key, va, len, who.access, who.remote);
			if (w.syndrome != want)
				FAIL("round %d.%d: key %#x (mode %u, S %#llx, len %#llx), V %#llx, L %u, access %d, remote %d: %#x, model says %#x",
				     round, n, key, node->a.mode, node->a.start, node->a.len, va, len, who.access, who.remote,
				     w.syndrome, want);
			hits[want]++;
			ok += !want;
			nr = leaves(&w, leaf, 256);
			if (want || w.n == (int)ARRAY_SIZE(w.step))
				continue;
			for (int i = 0; i < nr; i++)
				for (u64 b = 0; b < leaf[i].len && at < len; b++, at++)
					if (leaf[i].dma + b != resolved[at])
						FAIL("round %d.%d: byte %u at %#llx, model says %#llx", round, n, at,
						     leaf[i].dma + b, resolved[at]);
			ASSERT_EQ(at, len);
		}
		for (int i = 0; i < NODES; i++)
			ASSERT_EQ(key_free(m, nodes[i].key), 0);
	}
	/* the dice reach every outcome */
	ASSERT_GT(ok, 1000u);
	static const u8 outcomes[] = { A(FREE), A(VARIANT), A(PD), A(QPN), A(BOUNDS), A(LOCAL), A(REMOTE), A(ATOMIC), A(TABLE_END),
		A(ENTRY), B(NO_MKC), B(FREE), B(VARIANT), B(PD), B(QPN), B(BOUNDS), B(LOCAL), B(DEPTH), B(TABLE_END), B(PAGE),
		B(ENTRY), B(BUS) };

	for (size_t i = 0; i < ARRAY_SIZE(outcomes); i++)
		if (hits[outcomes[i]] < 5)
			FAIL("code %#x came only %u times", outcomes[i], hits[outcomes[i]]);
}

/* the same dice for real: WRITE and READ by a peer against the model, every byte of memory compared */
TEST("HM 4.3", random_requests_through_trees)
{
	static u8 expect[24 * 4096];
	struct pair p = pair_new(m);
	struct qp *umr = umr_qp_new(m);
	u32 pd = pd_new(m), qpns[2] = { p.a->qpn, p.b->qpn };
	unsigned int ok = 0;

	area = mem_new(m, 24 * 4096);
	for (int round = 0; round < 50; round++) {
		random_nodes(m, pd, qpns, umr);
		for (int n = 0; n < 12; n++) {
			bool write = rnd(2);
			struct asker who = { m->pd, p.b->qpn, true, write ? HCA_ACCESS_WRITE : HCA_ACCESS_READ };
			struct model_key *node;
			u32 key, len, i, seed = round * 100 + n;
			u64 va, page;
			u8 want, got;

			random_request(&node, &key, &va, &len);
			mem_fill(&p.src, 0, p.src.len, seed);
			mem_fill(&area, 0, area.len, seed + 1000000);
			want = model_walk(&model, key, &who, va, len);
			got = write ? write_by_peer(&p, key, va, len) : read_by_peer(&p, key, va, len);
			if (got != want)
				FAIL("round %d.%d: %#x, model says %#x", round, n, got, want);
			for (i = 0; i < area.len; i++)
				expect[i] = pattern_byte(seed + 1000000, i);
			for (i = 0; i < model.nr_resolved; i++) {
				page = page_of(&area, resolved[i]) * 4096 + resolved[i] % 4096;
				if (!write && !want)
					ASSERT_EQ(p.src.cpu[PAIR_OFFSET + i], pattern_byte(seed + 1000000, page));
				if (write && !want)
					expect[page] = pattern_byte(seed, PAIR_OFFSET + i);
				/* one that fails in a later chunk may have written what comes before */
				if (write && want && area.cpu[page] == pattern_byte(seed, PAIR_OFFSET + i))
					expect[page] = area.cpu[page];
			}
			if (memcmp(expect, area.cpu, area.len))
				FAIL("round %d.%d: %s, code %#x, changed other bytes than its own", round, n,
				     write ? "a WRITE" : "a READ", want);
			if (want)
				pair_revive(&p);
			else
				cq_update(p.a->scq);
			ok += !want;
		}
		for (int i = 0; i < NODES; i++)
			ASSERT_EQ(key_free(m, nodes[i].key), 0);
	}
	ASSERT_GT(ok, 70u);
}

/* commands */

TEST("HM-7.4 HM-7.5", query_returns_the_list)
{
	struct pair p = pair_new(m);
	/* low bits of an address are part of it, whatever pg_access says */
	struct klm list[6] = { { 0x300, p.rkey, p.d + 3 }, {}, { 7, p.rkey ^ 1, ~0ULL }, { 1u << 31, 0x500, 1 }, { 5, 0, 2 }, { 6, 7, 3 } };

	for (u8 mode = KLMS; mode <= KSM; mode++) {
		struct key_attr a = { .mode = mode, .log_page = mode == KSM ? 12 : 0, .len = 0x1000, .klm = list, .nr = 6 };
		u32 key = key_new(m, &a);
		u8 want[128] = {}, out[0x110 + 128];

		for (int i = 0; i < 6; i++)
			klm_put(want, i, list[i]);
		for (int pg = 0; pg < 2; pg++) {
			ASSERT_EQ(key_query(m, key, pg, out, sizeof(out)), 0);
			ASSERT(!memcmp(out + 0x110, want, 128));
			/* what the driver asks for when it resolves a fault on a key of 6 entries */
			ASSERT_EQ(key_query(m, key, pg, out, 0x130 + 16 * 4), 0);
			ASSERT(!memcmp(out + 0x110, want, 96));
		}
	}
}
