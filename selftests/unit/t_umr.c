// SPDX-License-Identifier: GPL-2.0
/*
 * UMR: HM section 8. Mask bits, the fields they stand for and the stock WQEs are typed from HM 2.3, 8.3, 8.4 and 8.9 by
 * word and bit. Every refusal here goes through UMR_REFUSED(), which compares the target before and after: all or nothing.
 */
#include <linux/kernel.h>
#include <linux/unaligned.h>

#include "unit.h"

#define MTT		MLX5_MKC_ACCESS_MODE_MTT
#define PA		MLX5_MKC_ACCESS_MODE_PA
#define KLMS		MLX5_MKC_ACCESS_MODE_KLMS
#define KSM		MLX5_MKC_ACCESS_MODE_KSM

#define QP_OP		MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR
#define LOCAL_PROT	MLX5_CQE_SYNDROME_LOCAL_PROT_ERR
#define FLUSHED		MLX5_CQE_SYNDROME_WR_FLUSH_ERR

static const u8 table_modes[] = { MTT, KLMS, KSM };

/* a pair, the driver's UMR queue, and memory for lists behind a key of the pair's PD */
struct env {
	struct pair p;
	struct qp *umr;
	struct mem list;
	u32 list_key;
};

static struct env env_new(struct machine *m)
{
	struct env e = { .p = pair_new(m), .umr = umr_qp_new(m), .list = mem_new(m, 1 << 20) };

	e.list_key = mr_new(m, &e.list, 0, e.list.len, 0);
	return e;
}

/* a key as the pool makes them: no entries, all that UMR may set still to be set */
static u32 target(struct machine *m, u8 mode, u32 octwords, struct key_attr a)
{
	a.mode = mode;
	a.umr_en = true;
	a.octwords = octwords;
	a.log_page = mode == KLMS ? 0 : 12;
	return key_new(m, &a);
}

/* distinct entries that make sense in @mode: pages, or pieces of @key */
static void fill_list(u8 *list, u8 mode, u32 octwords, u32 key, u32 seed)
{
	for (u32 i = 0; i < octwords; i++) {
		if (mode == MTT) {
			put_unaligned_be64(0x7000000000ULL + (seed + 2 * i) * 4096ULL + 3, list + 16 * i);
			put_unaligned_be64(0x7000000000ULL + (seed + 2 * i + 1) * 4096ULL + 3, list + 16 * i + 8);
		} else {
			klm_put(list, i, (struct klm){ 64, key, 64ULL * (seed + i) });
		}
	}
}

/* step 6 */

TEST("HM-8.1", check_free)
{
	struct env e = env_new(m);

	for (size_t i = 0; i < ARRAY_SIZE(table_modes); i++) {
		for (int free = 0; free < 2; free++) {
			u32 key = target(m, table_modes[i], 4, (struct key_attr){ .free = free });
			struct umr u = { .key = key, .flags = UMR_INLINE };

			UMR_OK(e.umr, &u);
			u.flags = UMR_INLINE | UMR_IF_FREE;
			if (free)
				UMR_OK(e.umr, &u);
			else
				UMR_REFUSED(e.umr, &u, BIND_ERR, 0xc4);
			u.flags = UMR_INLINE | UMR_IF_USED;
			if (free)
				UMR_REFUSED(e.umr, &u, BIND_ERR, 0xc5);
			else
				UMR_OK(e.umr, &u);
			u.flags = UMR_INLINE | UMR_IF_USED | UMR_IF_FREE;
			UMR_REFUSED(e.umr, &u, QP_OP, 0xce);
			/* the check looks at the old state only */
			u.flags = UMR_INLINE | (free ? UMR_IF_FREE : UMR_IF_USED);
			u.mask = UMR_FREE;
			UMR_SET(&u, free, !free);
			UMR_OK(e.umr, &u);
			if (free)
				UMR_REFUSED(e.umr, &u, BIND_ERR, 0xc4);
			else
				UMR_REFUSED(e.umr, &u, BIND_ERR, 0xc5);
		}
	}
}

/* 8.4: which bits of the MKC a mask bit stands for, by word offset */
static const struct mask_bit {
	u64 mask;
	struct { u8 offset; u32 bits; } field[3];
} mask_bits[] = {
	{ UMR_LEN, { { 0x18, ~0u }, { 0x1c, ~0u }, { 0x0c, 1u << 31 } } },
	{ UMR_PAGE_SIZE, { { 0x38, 0x1f } } },
	{ UMR_START, { { 0x10, ~0u }, { 0x14, ~0u } } },
	{ UMR_PD, { { 0x0c, 0xffffff } } },
	{ UMR_EN_RINVAL, { { 0x0c, 1 << 24 } } },
	{ UMR_EN_SIGERR, { { 0x0c, 1 << 26 } } },
	{ UMR_BSF_EN, { { 0x0c, 1 << 30 } } },
	{ UMR_KEY, { { 0x04, 0xff } } },
	{ UMR_QPN, { { 0x04, 0xffffff00 } } },
	{ UMR_LR, { { 0x00, 1 << 10 } } },
	{ UMR_LW, { { 0x00, 1 << 11 } } },
	{ UMR_RR, { { 0x00, 1 << 12 } } },
	{ UMR_RW, { { 0x00, 1 << 13 } } },
	{ UMR_A, { { 0x00, 1 << 14 } } },
	{ UMR_SMALL_FENCE, { { 0x00, 1 << 16 } } },
	{ UMR_RO_WRITE, { { 0x00, 1 << 18 } } },
	{ UMR_FREE, { { 0x00, 1 << 30 } } },
	{ UMR_GENERATION, { { 0x3c, 0xffff } } },
	{ UMR_PAGE_SIZE_5, { { 0x38, 1 << 5 } } },
	{ UMR_RO_READ, { { 0x38, 1 << 6 } } },
};

static u64 all_mask_bits(void)
{
	u64 all = 0;

	for (size_t i = 0; i < ARRAY_SIZE(mask_bits); i++)
		all |= mask_bits[i].mask;
	return all;
}

/* a UMR with @mask alone must change these bits to what its segment says, and nothing else */
static void only_that_changes(struct env *e, u32 *key, u64 mask, const u32 *segment)
{
	struct key_dump before = key_dump(e->umr->m, *key), after;
	struct umr u = { .key = *key, .flags = UMR_INLINE, .mask = mask };
	u8 want[64];

	memcpy(u.mkc, segment, sizeof(u.mkc));
	memcpy(want, before.mkc, sizeof(want));
	for (size_t i = 0; i < ARRAY_SIZE(mask_bits); i++) {
		if (!(mask & mask_bits[i].mask))
			continue;
		for (int f = 0; f < 3; f++) {
			u32 bits = mask_bits[i].field[f].bits;
			u8 offset = mask_bits[i].field[f].offset;
			u32 new = get_unaligned_be32((const u8 *)segment + offset);

			put_unaligned_be32((get_unaligned_be32(want + offset) & ~bits) | (new & bits), want + offset);
		}
	}
	UMR_OK(e->umr, &u);
	*key = (*key & ~0xffu) | want[7];
	after = key_dump(e->umr->m, *key);
	ASSERT(!memcmp(before.list, after.list, sizeof(after.list)));
	for (int i = 0; i < 64; i++)
		if (after.mkc[i] != want[i])
			FAIL("mask %#llx: MKC byte %02xh is %#x, was %#x, expected %#x", mask, i, after.mkc[i],
			     before.mkc[i], want[i]);
}

/* Fields that are not selected hold garbage, reserved bits, mode and sizes with them: nothing of it may show. */
TEST("HM-8.2 HM-2.8 HM-2.9", each_mask_bit_changes_its_field_alone)
{
	struct env e = env_new(m);
	u32 pd = pd_new(m), ones[16], zeros[16];

	memset(ones, 0xff, sizeof(ones));
	MLX5_SET(mkc, ones, pd, pd);
	MLX5_SET(mkc, ones, qpn, 0x123456);
	MLX5_SET(mkc, ones, mkey_7_0, 0xa5);
	MLX5_SET64(mkc, ones, start_addr, 0x7654321000fffULL);
	MLX5_SET64(mkc, ones, len, 0xabcdef1234567ULL);
	MLX5_SET(mkc, ones, log_page_size, 31);
	MLX5_SET(mkc, ones, bsf_en, 0);
	memset(zeros, 0, sizeof(zeros));
	MLX5_SET(mkc, zeros, lr, 1);
	MLX5_SET(mkc, zeros, pd, m->pd);
	MLX5_SET(mkc, zeros, log_page_size, 13);
	for (size_t mode = 0; mode < ARRAY_SIZE(table_modes); mode++) {
		for (int pass = 0; pass < 4; pass++) {
			u32 *segment = pass & 1 ? zeros : ones;
			u32 key = target(m, table_modes[mode], 8, (struct key_attr){ .start = 0x1000, .len = 0x123,
											.variant = 0x5a });

			/* from a bare key, and from one where all is set already */
			if (pass & 2)
				only_that_changes(&e, &key, all_mask_bits(), pass & 1 ? ones : zeros);
			for (size_t i = 0; i < ARRAY_SIZE(mask_bits); i++)
				only_that_changes(&e, &key, mask_bits[i].mask, segment);
			/* all at once, and none */
			only_that_changes(&e, &key, all_mask_bits(), pass & 1 ? ones : zeros);
			only_that_changes(&e, &key, 0, segment);
		}
	}
}

TEST("HM-8.3", length_and_length64_go_together)
{
	struct env e = env_new(m);
	u32 key = target(m, MTT, 4, (struct key_attr){ KEY_ALL, .start = 0x1000, .len = 0x2000 });
	struct umr u = { .key = key, .flags = UMR_INLINE, .mask = UMR_LEN };
	u8 ab = HCA_VS_LEVEL0 | HCA_CHECK_PAGE, a5 = HCA_VS_LEVEL0 | HCA_CHECK_BOUNDS;

	ASSERT_EQ(syndrome_of(m, e.p.a, key, 0x3000, 1), a5);
	UMR_SET(&u, length64, 1);
	UMR_OK(e.umr, &u);
	ASSERT_EQ(syndrome_of(m, e.p.a, key, 0x3000, 1), ab);
	UMR_SET(&u, length64, 0);
	UMR_SET64(&u, len, 0x1000);
	UMR_OK(e.umr, &u);
	ASSERT_EQ(syndrome_of(m, e.p.a, key, 0x1fff, 1), ab);
	ASSERT_EQ(syndrome_of(m, e.p.a, key, 0x2000, 1), a5);
	/* another bit selects neither */
	u.mask = UMR_RR;
	UMR_SET(&u, length64, 1);
	UMR_OK(e.umr, &u);
	ASSERT_EQ(syndrome_of(m, e.p.a, key, 0x2000, 1), a5);
}

TEST("HM-8.4", only_the_drivers_queue_moves_keys_between_domains)
{
	struct env e = env_new(m);
	struct pair k = pair_new_attr(m, (struct qp_attr){ .rlky = true, .fre = true },
				      (struct qp_attr){ .rlky = true, .fre = true }, (struct qp_path){});
	u32 pd = pd_new(m), gone = pd_new(m);
	u32 key = target(m, KLMS, 4, (struct key_attr){ KEY_ALL });
	struct umr u = { .key = key, .flags = UMR_INLINE, .mask = UMR_PD };
	struct qp_attr other = { .pd = pd };

	UMR_SET(&u, pd, pd);
	UMR_REFUSED(e.p.a, &u, BIND_ERR, 0xc9);
	UMR_REFUSED(k.a, &u, BIND_ERR, 0xc9);
	/* not even to the PD where it is */
	UMR_SET(&u, pd, m->pd);
	UMR_REFUSED(e.p.a, &u, BIND_ERR, 0xc9);
	UMR_SET(&u, pd, pd);
	UMR_OK(e.umr, &u);
	ASSERT_EQ(syndrome_of(m, e.p.a, key, 0, 1), HCA_VS_LEVEL0 | HCA_CHECK_PD);
	ASSERT_EQ(syndrome_of(m, qp_new(m, other), key, 0, 1), HCA_VS_LEVEL0 | HCA_CHECK_BOUNDS);
	/* a PD that does not exist */
	ASSERT_EQ(pd_free(m, gone), 0);
	UMR_SET(&u, pd, gone);
	UMR_REFUSED(e.umr, &u, BIND_ERR, 0xca);
}

/* a key keeps the PD that it is in, and lets go of the one it was in */
TEST("HM-8.4", a_moved_key_holds_its_new_domain)
{
	struct qp *umr = umr_qp_new(m);
	u32 pd = pd_new(m), pd2 = pd_new(m);
	u32 key = target(m, MTT, 4, (struct key_attr){ .pd = pd });
	struct umr u = { .key = key, .flags = UMR_INLINE, .mask = UMR_PD };

	ASSERT_NE(pd_free(m, pd), 0);
	UMR_SET(&u, pd, pd2);
	UMR_OK(umr, &u);
	ASSERT_NE(pd_free(m, pd2), 0);
	ASSERT_EQ(pd_free(m, pd), 0);
	/* a refused move holds nothing */
	pd = pd_new(m);
	UMR_SET(&u, pd, pd);
	u.flags |= UMR_IF_FREE;
	UMR_REFUSED(umr, &u, BIND_ERR, 0xc4);
	u.flags = UMR_INLINE;
	u.mask |= UMR_LR;
	UMR_REFUSED(umr, &u, BIND_ERR, 0xca);
	ASSERT_EQ(pd_free(m, pd), 0);
	/* to itself, many times */
	u.mask = UMR_PD;
	UMR_SET(&u, pd, pd2);
	for (int i = 0; i < 5; i++)
		UMR_OK(umr, &u);
	ASSERT_EQ(key_free(m, key), 0);
	ASSERT_EQ(pd_free(m, pd2), 0);
}

TEST("HM-8.5", unknown_mask_bits)
{
	struct env e = env_new(m);
	u32 key = target(m, KLMS, 4, (struct key_attr){});
	u64 known = all_mask_bits();

	for (int b = 0; b < 64; b++) {
		struct umr u = { .key = key, .flags = UMR_INLINE, .mask = BIT_ULL(b) };

		if (known >> b & 1)
			continue;
		/* 16, the access mode, among them */
		UMR_REFUSED(e.umr, &u, BIND_ERR, 0xc8);
		UMR_REFUSED(e.p.a, &u, BIND_ERR, 0xc8);
		u.mask |= UMR_RR;
		UMR_REFUSED(e.umr, &u, BIND_ERR, 0xc8);
	}
}

TEST("HM-8.6", targets_that_are_none)
{
	struct env e = env_new(m);
	u64 mtt = 0x7000000000;
	u32 pd = pd_new(m), fixed, foreign, gone, pa;
	struct umr u = { .flags = UMR_INLINE, .mask = UMR_FREE };
	struct key_attr a = { .mode = MTT, .len = 4096, .mtt = &mtt, .nr = 1 };

	fixed = key_new(m, &a);
	a.mode = KLMS;
	a.nr = 0;
	a.octwords = 4;
	a.umr_en = true;
	gone = key_new(m, &a);
	ASSERT_EQ(key_free(m, gone), 0);
	a.pd = pd;
	foreign = key_new(m, &a);
	a = (struct key_attr){ .mode = PA, .length64 = true };
	pa = key_new(m, &a);

	u.key = fixed;
	UMR_REFUSED(e.umr, &u, BIND_ERR, 0xc2);
	u.key = foreign;
	UMR_REFUSED(e.p.a, &u, BIND_ERR, 0xc3);
	UMR_OK(e.umr, &u);
	u.key = gone;
	UMR_REFUSED(e.umr, &u, BIND_ERR, 0xc0);
	UMR_REFUSED(e.p.a, &u, BIND_ERR, 0xc0);
	u.key = 0xffffff00;
	UMR_REFUSED(e.umr, &u, BIND_ERR, 0xc0);
	u.key = 0x10000000;
	UMR_REFUSED(e.umr, &u, BIND_ERR, 0xc0);
	/* keys that no UMR can reach: PA, and the special ones */
	u.key = pa;
	UMR_REFUSED(e.umr, &u, BIND_ERR, 0xc1);
	for (u32 special = 0x100; special <= 0x500; special += 0x100) {
		u.key = special;
		UMR_REFUSED(e.umr, &u, BIND_ERR, 0xc1);
		UMR_REFUSED(e.p.a, &u, BIND_ERR, 0xc1);
	}
}

/*
 * Page addresses come from the driver alone: a program's queue that could load them, or stretch pages, or give itself
 * rights over memory that is pinned for reading, would reach all of the host.
 */
TEST("rule-1 HM-8.6", a_user_queue_cannot_touch_page_tables)
{
	struct env e = env_new(m);
	struct mem canary = mem_new(m, 4096), own = mem_new(m, 4096);
	u64 mtt = own.dma[0];
	struct key_attr a = { .mode = MTT, KEY_ALL, .umr_en = true, .len = 4096, .mtt = &mtt, .nr = 1 };
	u32 key = key_new(m, &a);
	struct umr attack[] = {
		{ .key = key, .flags = UMR_INLINE, .octwords = 4 },
		{ .key = key, .flags = UMR_INLINE, .mask = UMR_PAGE_SIZE },
		{ .key = key, .flags = UMR_INLINE, .mask = UMR_LW },
		{ .key = key, .flags = UMR_INLINE, .mask = UMR_LEN },
	};
	u8 list[64] = {};

	mem_fill(&canary, 0, 4096, 5);
	put_unaligned_be64(canary.dma[0] | 3, list);
	attack[0].list = list;
	UMR_SET(&attack[1], log_page_size, 31);
	UMR_SET(&attack[2], lw, 1);
	UMR_SET(&attack[3], length64, 1);
	for (size_t i = 0; i < ARRAY_SIZE(attack); i++) {
		struct key_dump before = key_dump(m, key), after;
		u16 index = post_umr(e.p.a, &attack[i]);
		struct mlx5_cqe64 c;

		if (!cq_poll(e.p.a->scq, &c) || c.op_own >> 4 != MLX5_CQE_REQ_ERR || be16_to_cpu(c.wqe_counter) != index)
			FAIL("attack %zu was carried out", i);
		ASSERT_EQ(((u8 *)&c)[55], BIND_ERR);
		ASSERT_EQ(((u8 *)&c)[54] & 0xf0, 0xc0);
		after = key_dump(m, key);
		ASSERT(!memcmp(&before, &after, sizeof(after)));
		pair_revive(&e.p);
		/* the driver may */
		UMR_OK(e.umr, &attack[i]);
	}
}

/* a kernel consumer's queue may: that is fast registration */
TEST("HM-8.6", a_kernel_queue_loads_page_tables)
{
	struct pair k = pair_new_attr(m, (struct qp_attr){ .rlky = true, .fre = true },
				      (struct qp_attr){ .rlky = true, .fre = true }, (struct qp_path){});
	u32 key = target(m, MTT, 4, (struct key_attr){ .free = true });
	struct umr u = { .key = key, .flags = UMR_INLINE, .octwords = 4 };
	u8 list[64];

	fill_list(list, MTT, 4, 0, 1);
	u.list = list;
	UMR_OK(k.a, &u);
	ASSERT(!memcmp(key_dump(m, key).list, list, 64));
}

/* steps 2 to 13, each alone, each against each later one; on a user's queue, which meets them all */
struct attempt {
	struct env *e;
	struct key_attr a;
	struct umr u;
	u8 list[64];
	bool gone;
};

static void bad2(struct attempt *t) { t->u.flags |= UMR_IF_USED | UMR_IF_FREE; }
static void bad3(struct attempt *t) { t->gone = true; }
static void bad4(struct attempt *t) { t->a.pd = pd_new(t->e->umr->m); }
static void bad5(struct attempt *t)
{
	t->a.umr_en = false;
}

static void bad6(struct attempt *t) { t->u.flags |= t->u.flags & UMR_IF_USED ? 0 : UMR_IF_FREE; }
static void bad7(struct attempt *t) { t->u.flags |= UMR_CHECK_QPN; }
static void bad8(struct attempt *t) { t->a.variant++; }
static void bad9(struct attempt *t) { t->u.mask |= BIT_ULL(63); }
static void bad9pd(struct attempt *t) { t->u.mask |= UMR_PD; }
static void bad10(struct attempt *t) { t->u.mask |= UMR_LR; }
static void bad11(struct attempt *t) { t->u.to = 2; t->u.flags |= UMR_OFFSET; }
static void bad12(struct attempt *t) { t->u.octwords = 8; }
static void bad13(struct attempt *t) { t->u.lkey ^= 0x80; }

static const struct step {
	unsigned int number;
	u8 syndrome, vendor;
	void (*apply)(struct attempt *t);
} steps[] = {
	{ 2, QP_OP, 0xce, bad2 }, { 3, BIND_ERR, 0xc0, bad3 }, { 4, BIND_ERR, 0xc3, bad4 }, { 5, BIND_ERR, 0xc2, bad5 },
	{ 6, BIND_ERR, 0xc4, bad6 }, { 7, BIND_ERR, 0xc6, bad7 }, { 8, BIND_ERR, 0xc7, bad8 }, { 9, BIND_ERR, 0xc8, bad9 },
	{ 9, BIND_ERR, 0xc9, bad9pd }, { 10, BIND_ERR, 0xca, bad10 }, { 11, BIND_ERR, 0xcc, bad11 },
	{ 12, BIND_ERR, 0xcb, bad12 }, { 13, LOCAL_PROT, 0xcd, bad13 },
};

static void attempt(struct env *e, const struct step *first, const struct step *second)
{
	struct machine *m = e->umr->m;
	struct attempt t = { .e = e, .a = { KEY_ALL, .umr_en = true, .mode = KLMS, .octwords = 4, .variant = 0x11 } };
	struct umr bound = { .flags = UMR_INLINE, .mask = UMR_QPN };

	/* by pointer, to a key in use and bound to another queue */
	t.u.octwords = 4;
	t.u.lkey = e->list_key;
	t.u.byte_count = 128;
	UMR_SET(&t.u, lw, 1);
	if (first)
		first->apply(&t);
	if (second && second != first)
		second->apply(&t);
	t.u.key = key_new(m, &t.a);
	if (t.a.umr_en) {
		bound.key = t.u.key;
		UMR_SET(&bound, qpn, e->p.b->qpn);
		UMR_OK(e->umr, &bound);
	}
	/* the variant that the WQE names stays as it was meant */
	t.u.key = (t.u.key & ~0xffu) | 0x11;
	if (t.gone)
		ASSERT_EQ(key_free(m, t.u.key), 0);
	if (first)
		UMR_REFUSED(e->p.a, &t.u, first->syndrome, first->vendor);
	else
		UMR_OK(e->p.a, &t.u);
}

TEST("HM 8.5", each_check_alone_and_of_two_the_first)
{
	struct env e = env_new(m);

	fill_list(e.list.cpu, KLMS, 8, e.p.lkey, 0);
	attempt(&e, NULL, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		for (size_t j = i; j < ARRAY_SIZE(steps); j++) {
			/* an unknown bit and one that is not allowed: both are step 9 */
			if (i != j && steps[i].number == steps[j].number)
				continue;
			attempt(&e, &steps[i], &steps[j]);
		}
	}
}

TEST("HM 8.3", malformed)
{
	struct env e = env_new(m);
	u32 key = target(m, KLMS, 4, (struct key_attr){});
	struct umr u = { .key = key, .flags = UMR_INLINE };
	struct qp *queue[] = { e.umr, e.p.a };
	u8 list[64] = {};

	for (size_t q = 0; q < ARRAY_SIZE(queue); q++) {
		struct qp *qp = queue[q];
		struct wqe w;
		u16 i;

		/* each reserved bit of the control segment: 00h[26:0], 10h[31:27], 14h to 2Fh */
		for (int bit = 0; bit < 8 * 48; bit++) {
			int at = bit / 8, b = bit % 8;

			if ((at == 0 && b >= 3) || (at >= 4 && at < 16) || (at == 16 && b < 3) || (at > 16 && at < 20))
				continue;
			wqe_umr(&w, &u);
			w.b[16 + at] |= 1 << b;
			i = sq_post(qp, &w);
			expect_error(__FILE__, __LINE__, qp->scq, true, qp, i, QP_OP, 0xce);
			qp_revive(__FILE__, __LINE__, qp, (struct qp_path){});
		}
		/* neither list nor BSF, and not inline */
		u.flags = 0;
		UMR_REFUSED(qp, &u, QP_OP, 0xce);
		u.flags = UMR_OFFSET;
		UMR_REFUSED(qp, &u, QP_OP, 0xce);
		u.flags = UMR_INLINE;
		/* too short for the fixed part, for the list, for the pointer */
		for (int ds = 1; ds < 8; ds++) {
			wqe_umr(&w, &u);
			w.len = 16 * ds;
			i = sq_post(qp, &w);
			expect_error(__FILE__, __LINE__, qp->scq, true, qp, i, QP_OP, 0xce);
			qp_revive(__FILE__, __LINE__, qp, (struct qp_path){});
		}
		u.octwords = 4;
		u.list = list;
		for (u.list_len = 16; u.list_len < 64; u.list_len += 16)
			UMR_REFUSED(qp, &u, QP_OP, 0xce);
		u.list = NULL;
		u.list_len = 0;
		u.flags = 0;
		UMR_REFUSED(qp, &u, QP_OP, 0xce);
		/* the largest list there is does not fit a WQE */
		u.octwords = 0xfffc;
		u.flags = UMR_INLINE;
		UMR_REFUSED(qp, &u, QP_OP, 0xce);
		u.octwords = 0;
		UMR_OK(qp, &u);
	}
}

TEST("HM-8.7", what_does_not_fit)
{
	struct env e = env_new(m);

	for (size_t i = 0; i < ARRAY_SIZE(table_modes); i++) {
		u8 mode = table_modes[i];
		/* 9 octowords are 12 */
		u32 key = target(m, mode, 9, (struct key_attr){});
		struct umr u = { .key = key, .flags = UMR_INLINE };
		u8 list[256];

		fill_list(list, mode, 16, 0, 1);
		u.list = list;
		u.octwords = 12;
		UMR_OK(e.umr, &u);
		u.octwords = 16;
		UMR_REFUSED(e.umr, &u, BIND_ERR, 0xcb);
		u.flags |= UMR_OFFSET;
		u.octwords = 4;
		for (u.to = 0; u.to < 12; u.to += 4)
			UMR_OK(e.umr, &u);
		for (u.to = 12; u.to < 40; u.to += 4)
			UMR_REFUSED(e.umr, &u, BIND_ERR, 0xcb);
		u.to = 8;
		u.octwords = 8;
		UMR_REFUSED(e.umr, &u, BIND_ERR, 0xcb);
		/* ends that wrap any width one might compute them in: 2^16, 2^28 bytes, 2^32, 2^43 - 4 octowords */
		for (int b = 12; b <= 42; b++) {
			u.octwords = 4;
			u.to = 1ULL << b;
			UMR_REFUSED(e.umr, &u, BIND_ERR, 0xcb);
		}
		u.to = (1ULL << 43) - 4;
		UMR_REFUSED(e.umr, &u, BIND_ERR, 0xcb);
		/* a selected field does not come through on its own */
		u.mask = UMR_RR | UMR_FREE;
		UMR_SET(&u, rr, 1);
		UMR_SET(&u, free, 1);
		UMR_REFUSED(e.umr, &u, BIND_ERR, 0xcb);
	}
	/* the same by pointer */
	for (size_t i = 0; i < ARRAY_SIZE(table_modes); i++) {
		u32 key = target(m, table_modes[i], 1000, (struct key_attr){});
		struct umr u = { .key = key, .octwords = 1000, .lkey = e.list_key, .byte_count = 0xffff0 };

		fill_list(e.list.cpu, table_modes[i], 0xfffc, 0, 3);
		UMR_OK(e.umr, &u);
		u.octwords = 1004;
		UMR_REFUSED(e.umr, &u, BIND_ERR, 0xcb);
		u.octwords = 0xfffc;
		UMR_REFUSED(e.umr, &u, BIND_ERR, 0xcb);
	}
}

/* no BSF is offered, so none fits */
TEST("HM-8.7 HM-13.6", a_byte_stream_format)
{
	struct env e = env_new(m);
	u32 key = target(m, KLMS, 8, (struct key_attr){});
	struct umr u = { .key = key, .flags = UMR_INLINE, .octwords = 4, .list_len = 128 };
	u8 list[128] = {};
	struct wqe w;
	u16 i;

	u.list = list;
	wqe_umr(&w, &u);
	put_unaligned_be16(4, w.b + 16 + 6);
	i = sq_post(e.umr, &w);
	expect_error(__FILE__, __LINE__, e.umr->scq, true, e.umr, i, BIND_ERR, 0xcb);
	qp_revive(__FILE__, __LINE__, e.umr, (struct qp_path){});
	/* nor may a key be made to have one; to say that it has none is fine */
	u = (struct umr){ .key = key, .flags = UMR_INLINE, .mask = UMR_BSF_EN };
	UMR_OK(e.umr, &u);
	UMR_SET(&u, bsf_en, 1);
	UMR_REFUSED(e.umr, &u, BIND_ERR, 0xca);
}

TEST("HM-8.8", alignment)
{
	struct env e = env_new(m);

	for (size_t i = 0; i < ARRAY_SIZE(table_modes); i++) {
		u32 key = target(m, table_modes[i], 16, (struct key_attr){});
		struct umr u = { .key = key, .flags = UMR_INLINE | UMR_OFFSET };
		u8 list[128] = {};

		u.list = list;
		u.list_len = 128;
		for (u.octwords = 1; u.octwords <= 8; u.octwords++) {
			if (u.octwords % 4)
				UMR_REFUSED(e.umr, &u, BIND_ERR, 0xcc);
			else
				UMR_OK(e.umr, &u);
		}
		u.octwords = 4;
		for (u.to = 0; u.to <= 8; u.to++) {
			if (u.to % 4)
				UMR_REFUSED(e.umr, &u, BIND_ERR, 0xcc);
			else
				UMR_OK(e.umr, &u);
		}
		u.list = NULL;
		u.list_len = 0;
		u.flags = 0;
		u.to = 0;
		u.lkey = e.list_key;
		u.byte_count = 64;
		for (int b = 0; b < 14; b++) {
			u.addr = 1 << b;
			if (b < 11)
				UMR_REFUSED(e.umr, &u, BIND_ERR, 0xcc);
			else
				UMR_OK(e.umr, &u);
		}
	}
}

TEST("HM-8.9", lists_that_cannot_be_read)
{
	struct env e = env_new(m);
	struct mem small = mem_new(m, 3 * 4096);
	u32 pd = pd_new(m), key = target(m, KLMS, 0x100, (struct key_attr){}), pages[4];
	u64 holes[] = { small.dma[0] | 3, small.dma[1] | 2, small.dma[2] | 3 };
	u64 refused[] = { small.dma[0] | 3, 0x66600000000ULL | 3, small.dma[2] | 3 };
	struct umr u = { .key = key, .octwords = 0x100, .byte_count = 0x1000, .mask = UMR_RR };
	u32 lkey[16];
	int n = 0;

	UMR_SET(&u, rr, 1);
	lkey[n++] = 0;						/* none */
	lkey[n++] = 0x100;					/* terminate */
	lkey[n++] = 0x300;					/* null */
	lkey[n++] = 0x400;					/* repeated */
	lkey[n++] = e.list_key ^ 1;				/* variant */
	lkey[n++] = 0xffffff00;
	lkey[n++] = mr_new(m, &small, 0, 0xfff, 0);		/* a byte too short */
	lkey[n++] = mr_new_attr(m, &small, 0, 0x3000, 0, (struct key_attr){ KEY_ALL, .free = true });
	/* the second half of the list is on a page that may not be read, or that the bus refuses */
	for (int i = 0; i < 2; i++) {
		struct key_attr a = { .mode = MTT, KEY_ALL, .start = 0x800, .len = 0x2800, .log_page = 12, .pg_access = true,
				      .mtt = i ? refused : holes, .nr = 3 };

		pages[i] = key_new(m, &a);
	}
	for (int i = 0; i < n; i++) {
		u.lkey = lkey[i];
		UMR_REFUSED(e.umr, &u, LOCAL_PROT, 0xcd);
		UMR_REFUSED(e.p.a, &u, LOCAL_PROT, 0xcd);
	}
	for (int i = 0; i < 2; i++) {
		u.lkey = pages[i];
		u.addr = 0x800;
		UMR_REFUSED(e.umr, &u, LOCAL_PROT, 0xcd);
		UMR_REFUSED(e.p.a, &u, LOCAL_PROT, 0xcd);
	}
	/* the end of the address space */
	u.lkey = e.list_key;
	u.addr = ~0ULL << 11;
	UMR_REFUSED(e.umr, &u, LOCAL_PROT, 0xcd);
	/* a list key of another PD: the driver's queue has no PD to compare, a program's has */
	u.addr = 0;
	u.lkey = mr_new_attr(m, &small, 0, 0x3000, 0, (struct key_attr){ .pd = pd });
	UMR_REFUSED(e.p.a, &u, LOCAL_PROT, 0xcd);
	UMR_OK(e.umr, &u);
	/* resd_lkey: for kernel queues only */
	u.lkey = 0x200;
	u.addr = small.dma[0];
	UMR_REFUSED(e.p.a, &u, LOCAL_PROT, 0xcd);
	UMR_OK(e.umr, &u);
	/* to read a list, lr is all one needs; and the pointer may be longer than what is read */
	u.lkey = mr_new_attr(m, &small, 0, 0x3000, 0, (struct key_attr){});
	u.addr = 0;
	u.byte_count = 0x7fffffff;
	UMR_OK(e.p.a, &u);
}

/* the longest list, of which the very last page cannot be had: nothing may have been changed by then */
TEST("HM-8.9", the_last_page_of_a_megabyte)
{
	struct env e = env_new(m);
	u32 key = target(m, KLMS, 0xfffc, (struct key_attr){});
	struct umr u = { .key = key, .octwords = 0xfffc, .lkey = e.list_key, .byte_count = 0xfffc0 };
	u8 *before = malloc(0x110 + 0xfffc0), *after = malloc(0x110 + 0xfffc0);

	fill_list(e.list.cpu, KLMS, 0xfffc, e.p.lkey, 1);
	UMR_OK(e.umr, &u);
	ASSERT_EQ(key_query(m, key, true, before, 0x110 + 0xfffc0), 0);
	ASSERT(!memcmp(before + 0x110, e.list.cpu, 0xfffc0));
	fill_list(e.list.cpu, KLMS, 0xfffc, e.p.lkey, 2);
	mem_unmap_page(&e.list, 255);
	UMR_REFUSED(e.umr, &u, LOCAL_PROT, 0xcd);
	ASSERT_EQ(key_query(m, key, true, after, 0x110 + 0xfffc0), 0);
	ASSERT(!memcmp(before, after, 0x110 + 0xfffc0));
	free(before);
	free(after);
}

TEST("HM-8.9", a_pointer_shorter_than_its_list)
{
	struct env e = env_new(m);
	u32 key = target(m, KLMS, 8, (struct key_attr){});
	struct umr u = { .key = key, .octwords = 8, .lkey = e.list_key, .byte_count = 127 };
	struct key_dump before = key_dump(m, key), after;
	u16 i = post_umr(e.umr, &u);
	struct mlx5_cqe64 c;

	/* HM 8.3 asks for at least 16 * TOAS; it does not say which of the two this is */
	ASSERT(cq_poll(e.umr->scq, &c));
	ASSERT_EQ(c.op_own >> 4, MLX5_CQE_REQ_ERR);
	ASSERT_EQ(be16_to_cpu(c.wqe_counter), i);
	ASSERT(((u8 *)&c)[54] == 0xcd || ((u8 *)&c)[54] == 0xce);
	after = key_dump(m, key);
	ASSERT(!memcmp(&before, &after, sizeof(after)));
}

TEST("HM-8.10", part_of_a_list)
{
	struct env e = env_new(m);
	u32 key = target(m, MTT, 16, (struct key_attr){});
	struct umr u = { .key = key, .flags = UMR_INLINE };
	u8 list[256], part[64], *got;
	struct key_dump d;

	fill_list(list, MTT, 16, 0, 1);
	u.list = list;
	u.octwords = 16;
	UMR_OK(e.umr, &u);
	fill_list(part, MTT, 4, 0, 1000);
	u.list = part;
	u.octwords = 4;
	u.to = 4;
	u.flags |= UMR_OFFSET;
	UMR_OK(e.umr, &u);
	d = key_dump(m, key);
	got = d.list;
	/* entries 0..7, 8..15, 16 and on */
	ASSERT(!memcmp(got, list, 64));
	ASSERT(!memcmp(got + 64, part, 64));
	ASSERT(!memcmp(got + 128, list + 128, 128));
	ASSERT(mem_is_zero(got + 256, sizeof(d.list) - 256));
	/* without TRANSLATION_OFFSET_EN there is no offset: the list begins at entry 0 */
	u.flags = UMR_INLINE;
	u.to = 0;
	UMR_OK(e.umr, &u);
	d = key_dump(m, key);
	ASSERT(!memcmp(d.list, part, 64));
	ASSERT(!memcmp(d.list + 64, part, 64));
	ASSERT(!memcmp(d.list + 128, list + 128, 128));
}

TEST("HM-8.11", far_offsets)
{
	struct env e = env_new(m);
	struct mem mem = mem_new(m, 4 * 4096);
	const u32 octwords = 0x20000;
	u32 key = target(m, MTT, octwords, (struct key_attr){ KEY_ALL, .length64 = true });
	static const u32 at[] = { 0, 0xfffc, 0x10000, 0x10004, 0x1fffc };
	u8 *out = malloc(0x110 + 16 * octwords), list[64];
	size_t i, k;

	mem_fill(&mem, 0, mem.len, 7);
	for (i = 0; i < ARRAY_SIZE(at); i++) {
		struct umr u = { .key = key, .flags = UMR_INLINE | UMR_OFFSET, .octwords = 4, .to = at[i], .list = list };

		memset(list, 0, sizeof(list));
		put_unaligned_be64(mem.dma[i % 4] | 3, list);
		UMR_OK(e.umr, &u);
		ASSERT_EQ(dma_of(m, e.p.a, key, 2ULL * at[i] * 4096 + 0x123), mem.dma[i % 4] + 0x123);
	}
	ASSERT_EQ(key_query(m, key, true, out, 0x110 + 16 * octwords), 0);
	for (k = 0; k < 2 * octwords; k++) {
		u64 want = 0;

		for (i = 0; i < ARRAY_SIZE(at); i++)
			if (k == 2 * at[i])
				want = mem.dma[i % 4] | 3;
		ASSERT_EQ(get_unaligned_be64(out + 0x110 + 8 * k), want);
	}
	ASSERT_EQ(read_by_peer(&e.p, key, 0x20008ULL * 4096 + 16, 64), 0);
	ASSERT_PATTERN(&e.p.src, PAIR_OFFSET, 64, 7, 3 * 4096 + 16);
	free(out);
}

TEST("HM-8.12", inline_and_pointer_give_the_same)
{
	struct env e = env_new(m);
	static const u16 sizes[] = { 4, 8, 12, 48, 52 };

	for (size_t i = 0; i < ARRAY_SIZE(table_modes); i++) {
		for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
			u32 a = target(m, table_modes[i], 64, (struct key_attr){});
			u32 b = target(m, table_modes[i], 64, (struct key_attr){});
			u8 list[52 * 16];
			struct umr u = { .key = a, .flags = UMR_INLINE | UMR_OFFSET, .octwords = sizes[s], .to = 8,
					 .list = list, .mask = UMR_LEN };
			struct key_dump da, db;

			fill_list(list, table_modes[i], sizes[s], 0x1234500, 77);
			memcpy(e.list.cpu + 0x1800, list, sizeof(list));
			UMR_SET64(&u, len, 0x987654);
			UMR_OK(e.umr, &u);
			u.key = b;
			u.flags = UMR_OFFSET;
			u.list = NULL;
			u.lkey = e.list_key;
			u.addr = 0x1800;
			u.byte_count = 16 * sizes[s];
			UMR_OK(e.umr, &u);
			da = key_dump(m, a);
			db = key_dump(m, b);
			ASSERT(!memcmp(da.list, db.list, sizeof(da.list)));
			ASSERT(!memcmp(da.list + 128, list, 16 * sizes[s]));
			ASSERT(!memcmp(da.mkc + 0x10, db.mkc + 0x10, 0x10));
		}
	}
}

/* every position of the end of the ring in UMRs of 2 to 15 blocks, on a ring that begins inside a page */
TEST("HM-8.13", a_umr_wraps_at_the_end_of_the_ring)
{
	for (int offset = 0; offset < 64; offset += 21) {
		struct pair p = pair_new_attr(m, (struct qp_attr){ .log_sq = 4, .log_rq = 1, .page_offset = offset },
					      (struct qp_attr){}, (struct qp_path){});
		u32 key = target(m, KLMS, 64, (struct key_attr){});
		struct umr nop = { .key = key, .flags = UMR_INLINE };

		for (int round = 0; round < 16 * 14; round++) {
			u16 octwords = 4 * (round % 14);
			struct umr u = { .key = key, .flags = UMR_INLINE, .octwords = octwords, .mask = UMR_LEN | UMR_KEY };
			u8 list[52 * 16];
			struct key_dump d;

			fill_list(list, KLMS, octwords, rnd(1ULL << 32), round);
			u.list = list;
			UMR_SET64(&u, len, 0x1000 + round);
			UMR_SET(&u, mkey_7_0, round);
			UMR_OK(p.a, &u);
			d = key_dump(m, key);
			if (memcmp(d.list, list, 16 * octwords) || get_unaligned_be64(d.mkc + 0x18) != 0x1000u + round)
				FAIL("offset %d: UMR with %u octowords before block %u", offset, octwords, p.a->sq_pi & 15);
			/* the next round begins one block further on than this one would have it */
			if (round % 14 == 13) {
				nop.key = (key & ~0xffu) | (round & 0xff);
				UMR_OK(p.a, &nop);
				struct wqe w;

				wqe_begin(&w, MLX5_OPCODE_NOP, SIGNALED, 0);
				EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, sq_post(p.a, &w));
				cq_update(p.a->scq);
			}
		}
	}
}

TEST("HM-8.14", a_new_variant)
{
	struct env e = env_new(m);
	struct mem mem = mem_new(m, 4096);
	u32 key = mr_new_attr(m, &mem, 0, 4096, 0, (struct key_attr){ KEY_ALL, .umr_en = true, .variant = 0x11 });
	struct umr u = { .key = key, .flags = UMR_INLINE, .mask = UMR_KEY };

	ASSERT_EQ(read_by_peer(&e.p, key, 0, 16), 0);
	UMR_SET(&u, mkey_7_0, 0x99);
	UMR_OK(e.umr, &u);
	ASSERT_EQ(read_by_peer(&e.p, key, 0, 16), HCA_VS_LEVEL0 | HCA_CHECK_VARIANT);
	pair_revive(&e.p);
	ASSERT_EQ(read_by_peer(&e.p, (key & ~0xffu) | 0x99, 0, 16), 0);
}

/* step 8: when the variant in the WQE counts, and when not */
TEST("HM-8.15", the_variant_of_the_target)
{
	static const struct { bool free, rekey, becomes_free, ok; } row[] = {
		/* in use, not re-keyed */
		{ false, false, false, false },
		{ false, false, true, false },
		/* re-keyed into use */
		{ false, true, false, true },
		/* selected together with "free": a plain invalidation by a stale key */
		{ false, true, true, false },
		/* a free key takes any */
		{ true, false, false, true },
		{ true, false, true, true },
		{ true, true, false, true },
		{ true, true, true, true },
	};
	struct env e = env_new(m);

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		for (int stale = 0; stale < 2; stale++) {
			u32 key = target(m, KLMS, 4, (struct key_attr){ .free = row[i].free, .variant = 0x40 });
			struct umr u = { .key = key + stale, .flags = UMR_INLINE, .mask = UMR_FREE };

			if (row[i].rekey)
				u.mask |= UMR_KEY;
			UMR_SET(&u, free, row[i].becomes_free);
			UMR_SET(&u, mkey_7_0, 0x41);
			if (!stale || row[i].ok)
				UMR_OK(e.p.a, &u);
			else
				UMR_REFUSED(e.p.a, &u, BIND_ERR, 0xc7);
		}
	}
}

TEST("HM-8.17", the_next_request_uses_the_new_mapping)
{
	struct mem a = mem_new(m, 4096), b = mem_new(m, 4096);
	struct env e = env_new(m);
	u32 ka = mr_new(m, &a, 0, 4096, 0), kb = mr_new(m, &b, 0, 4096, 0);
	u32 key = target(m, KLMS, 4, (struct key_attr){ KEY_ALL, .len = 4096 });
	u16 first;

	mem_fill(&a, 0, 4096, 10);
	mem_fill(&b, 0, 4096, 11);
	for (int signalled = 0; signalled < 2; signalled++) {
		u8 list[64] = {};
		struct umr u = { .key = key, .flags = UMR_INLINE, .octwords = 4, .list = list,
				 .fm_ce_se = signalled ? SIGNALED : 0x20 };
		struct wqe w;

		first = e.p.a->sq_pi;
		/* four requests behind one doorbell: map a, send it, map b, send it */
		for (int i = 0; i < 2; i++) {
			klm_put(list, 0, (struct klm){ 4096, i ? kb : ka, 0 });
			wqe_umr(&w, &u);
			sq_put(e.p.a, &w);
			wqe_begin(&w, MLX5_OPCODE_RDMA_WRITE, SIGNALED | 0x20, 0);
			wqe_raddr(&w, e.p.d + 0x800 * i, e.p.rkey);
			wqe_data(&w, key, 0x100, 0x800);
			sq_put(e.p.a, &w);
		}
		sq_ring(e.p.a);
		for (int i = 0; i < 2; i++) {
			if (signalled)
				EXPECT_CQE(e.p.a->scq, MLX5_CQE_REQ, first + 4 * i);
			EXPECT_CQE(e.p.a->scq, MLX5_CQE_REQ, first + 4 * i + 3);
		}
		EXPECT_NONE(e.p.a->scq);
		cq_update(e.p.a->scq);
		ASSERT_PATTERN(&e.p.dst, PAIR_OFFSET, 0x800, 10, 0x100);
		ASSERT_PATTERN(&e.p.dst, PAIR_OFFSET + 0x800, 0x800, 11, 0x100);
		mem_fill(&e.p.dst, 0, e.p.dst.len, 2);
	}
}

/* what the driver does: the failed one is told, those behind it are flushed, RESET to RTS, and they are posted again */
TEST("HM-8.19", recovery_of_the_drivers_queue)
{
	struct qp *umr = umr_qp_new(m);
	u32 good = target(m, MTT, 4, (struct key_attr){ .variant = 1 }), gone = target(m, MTT, 4, (struct key_attr){});

	ASSERT_EQ(key_free(m, gone), 0);
	for (int round = 0; round < 5; round++) {
		u16 at[4];

		for (int i = 0; i < 4; i++) {
			struct umr u = { .key = i == 1 ? gone : good, .flags = UMR_INLINE, .mask = UMR_GENERATION };
			struct wqe w;

			put_unaligned_be16(100 * round + i + 1, (u8 *)u.mkc + 0x3e);
			wqe_umr(&w, &u);
			at[i] = sq_put(umr, &w);
		}
		sq_ring(umr);
		EXPECT_CQE(umr->scq, MLX5_CQE_REQ, at[0]);
		EXPECT_REQ_ERR(umr, at[1], BIND_ERR, 0xc0);
		EXPECT_REQ_ERR(umr, at[2], FLUSHED, HCA_VS_FLUSHED);
		EXPECT_REQ_ERR(umr, at[3], FLUSHED, HCA_VS_FLUSHED);
		ASSERT_EQ(get_unaligned_be16(key_dump(m, good).mkc + 0x3e), 100 * round + 1);
		/* the barrier that the driver posts to a queue in error */
		struct umr barrier = { .key = gone, .flags = UMR_INLINE };

		at[0] = post_umr(umr, &barrier);
		EXPECT_REQ_ERR(umr, at[0], FLUSHED, HCA_VS_FLUSHED);
		qp_revive(__FILE__, __LINE__, umr, (struct qp_path){});
		for (int i = 2; i < 4; i++) {
			struct umr u = { .key = good, .flags = UMR_INLINE, .mask = UMR_GENERATION };

			put_unaligned_be16(100 * round + i + 1, (u8 *)u.mkc + 0x3e);
			UMR_OK(umr, &u);
		}
		ASSERT_EQ(get_unaligned_be16(key_dump(m, good).mkc + 0x3e), 100 * round + 4);
	}
}

TEST("HM-8.20", illegal_new_values)
{
	struct env e = env_new(m);

	for (size_t i = 0; i < ARRAY_SIZE(table_modes); i++) {
		u8 mode = table_modes[i];
		u32 key = target(m, mode, 4, (struct key_attr){ .start = 0x1000, .len = 0x1000 });
		struct umr lr = { .key = key, .flags = UMR_INLINE, .mask = UMR_LR };
		struct umr log = { .key = key, .flags = UMR_INLINE, .mask = UMR_PAGE_SIZE | UMR_PAGE_SIZE_5 };
		struct umr range = { .key = key, .flags = UMR_INLINE, .mask = UMR_START };

		UMR_REFUSED(e.umr, &lr, BIND_ERR, 0xca);
		UMR_REFUSED(e.umr, &lr, BIND_ERR, 0xca);
		for (u32 l = 0; l < 64; l++) {
			bool ok = mode == KLMS || (l >= 12 && l <= (mode == MTT ? 31 : 36));

			UMR_SET(&log, log_page_size, l);
			if (ok)
				UMR_OK(e.umr, &log);
			else
				UMR_REFUSED(e.umr, &log, BIND_ERR, 0xca);
		}
		if (mode != KLMS) {
			/* half of the field alone */
			UMR_SET(&log, log_page_size, 31);
			UMR_OK(e.umr, &log);
			log.mask = UMR_PAGE_SIZE_5;
			UMR_SET(&log, log_page_size, 32);
			UMR_REFUSED(e.umr, &log, BIND_ERR, 0xca);
			log.mask = UMR_PAGE_SIZE;
			UMR_REFUSED(e.umr, &log, BIND_ERR, 0xca);
		}
		/* start_addr + len - 1 must not overflow: with the length that is there, or with a new one */
		UMR_SET64(&range, start_addr, ~0xfffULL);
		UMR_OK(e.umr, &range);
		UMR_SET64(&range, start_addr, ~0xffeULL);
		UMR_REFUSED(e.umr, &range, BIND_ERR, 0xca);
		range.mask = UMR_LEN;
		UMR_SET64(&range, len, 0x1001);
		UMR_REFUSED(e.umr, &range, BIND_ERR, 0xca);
		UMR_SET64(&range, len, ~0ULL);
		UMR_REFUSED(e.umr, &range, BIND_ERR, 0xca);
		UMR_SET(&range, length64, 1);
		UMR_OK(e.umr, &range);
		/* and back: a length in force again with a start that is too high for it */
		UMR_SET(&range, length64, 0);
		UMR_REFUSED(e.umr, &range, BIND_ERR, 0xca);
		range.mask |= UMR_START;
		UMR_SET64(&range, start_addr, 1);
		UMR_OK(e.umr, &range);
		UMR_SET64(&range, len, 0);
		UMR_SET64(&range, start_addr, ~0ULL);
		UMR_OK(e.umr, &range);
	}
}

/* mask bit 14 on a program's queue: its own number or none */
TEST("HM 8.4", queue_numbers)
{
	struct env e = env_new(m);
	u32 key = target(m, KLMS, 4, (struct key_attr){});
	struct umr u = { .key = key, .flags = UMR_INLINE, .mask = UMR_QPN };

	UMR_SET(&u, qpn, e.p.a->qpn);
	UMR_OK(e.p.a, &u);
	UMR_SET(&u, qpn, e.p.b->qpn);
	UMR_REFUSED(e.p.a, &u, BIND_ERR, 0xca);
	UMR_OK(e.umr, &u);
	UMR_SET(&u, qpn, 0);
	UMR_REFUSED(e.p.a, &u, BIND_ERR, 0xca);
	UMR_SET(&u, qpn, 0xffffff);
	UMR_OK(e.p.a, &u);
}

/* step 7: in use, and bound to nobody or to this queue */
TEST("HM 8.5", check_qpn)
{
	struct env e = env_new(m);
	u32 key = target(m, KLMS, 4, (struct key_attr){});
	struct umr bind = { .key = key, .flags = UMR_INLINE, .mask = UMR_QPN };
	struct umr u = { .key = key, .flags = UMR_INLINE | UMR_CHECK_QPN };
	struct umr kill = kernel_local_inval(key);

	UMR_OK(e.p.a, &u);
	UMR_OK(e.p.b, &u);
	UMR_SET(&bind, qpn, e.p.a->qpn);
	UMR_OK(e.umr, &bind);
	UMR_OK(e.p.a, &u);
	UMR_REFUSED(e.p.b, &u, BIND_ERR, 0xc6);
	UMR_REFUSED(e.umr, &u, BIND_ERR, 0xc6);
	UMR_OK(e.umr, &kill);
	UMR_REFUSED(e.p.a, &u, BIND_ERR, 0xc6);
	UMR_SET(&bind, qpn, 0xffffff);
	UMR_OK(e.umr, &bind);
	UMR_REFUSED(e.p.a, &u, BIND_ERR, 0xc6);
}

TEST("HM-8.21 case 6", a_new_page_size)
{
	struct env e = env_new(m);
	struct mem huge = mem_new_pages(m, 4 << 20, 21);
	u32 key = target(m, MTT, 4, (struct key_attr){ KEY_ALL, .start = 0x200000, .len = 4 << 20 }), ksm, pa;
	struct umr u = { .key = key, .flags = UMR_INLINE, .octwords = 4, .mask = UMR_PAGE_SIZE | UMR_PAGE_SIZE_5 };
	struct key_attr a = { .mode = PA, KEY_ALL, .length64 = true };
	u8 list[64] = {};

	mem_fill(&huge, 0x1ff000, 0x2000, 3);
	put_unaligned_be64(huge.dma[0] | 3, list);
	put_unaligned_be64(huge.dma[1] | 3, list + 8);
	u.list = list;
	UMR_SET(&u, log_page_size, 12);
	UMR_OK(e.umr, &u);
	ASSERT_EQ(dma_of(m, e.p.a, key, 0x201234), huge.dma[1] + 0x234);
	/* the entries that are there mean something else from now on */
	u.octwords = 0;
	u.list = NULL;
	UMR_SET(&u, log_page_size, 21);
	UMR_OK(e.umr, &u);
	ASSERT_EQ(dma_of(m, e.p.a, key, 0x201234), huge.dma[0] + 0x1234);
	ASSERT_EQ(dma_of(m, e.p.a, key, 0x401234), huge.dma[1] + 0x1234);
	ASSERT_EQ(key_dump(m, key).mkc[0x3b] & 0x3f, 21);
	ASSERT_EQ(read_by_peer(&e.p, key, 0x3ff800, 0x1000), 0);
	ASSERT_PATTERN(&e.p.src, PAIR_OFFSET, 0x1000, 3, 0x1ff800);
	/* the sixth bit: blocks of 64 GiB */
	pa = key_new(m, &a);
	ksm = target(m, KSM, 4, (struct key_attr){ KEY_ALL, .length64 = true });
	memset(list, 0, sizeof(list));
	klm_put(list, 0, (struct klm){ 0, pa, huge.dma[0] });
	klm_put(list, 1, (struct klm){ 0, pa, huge.dma[1] });
	u = (struct umr){ .key = ksm, .flags = UMR_INLINE, .octwords = 4, .list = list,
			  .mask = UMR_PAGE_SIZE | UMR_PAGE_SIZE_5 };
	UMR_SET(&u, log_page_size, 36);
	UMR_OK(e.umr, &u);
	ASSERT_EQ(key_dump(m, ksm).mkc[0x3b] & 0x3f, 36);
	ASSERT_EQ(dma_of(m, e.p.a, ksm, 0x123456), huge.dma[0] + 0x123456);
	ASSERT_EQ(dma_of(m, e.p.a, ksm, (1ULL << 36) + 0x1234), huge.dma[1] + 0x1234);
	/* bit 1 alone takes five bits, and leaves the sixth */
	u.mask = UMR_PAGE_SIZE;
	u.octwords = 0;
	u.list = NULL;
	UMR_SET(&u, log_page_size, 3);
	UMR_OK(e.umr, &u);
	ASSERT_EQ(key_dump(m, ksm).mkc[0x3b] & 0x3f, 35);
}

/* the WQE is rewritten while its list is fetched */
static void scribble(struct machine *m, u64 dma, size_t len)
{
	u8 *wqe = m->hook_arg;

	for (int i = 0; i < 192; i++)
		wqe[i] = rnd(256);
}

TEST("rule-1 HM-8.22 case 3", a_umr_is_read_once)
{
	struct env e = env_new(m);

	for (int round = 0; round < 20; round++) {
		u32 key = target(m, KLMS, 0x200, (struct key_attr){ .free = true });
		struct umr u = { .key = key, .flags = UMR_IF_FREE, .octwords = 0x200, .lkey = e.list_key, .byte_count = 0x2000,
				 .addr = 0x800, .mask = UMR_FREE | UMR_KEY | UMR_LEN | UMR_RIGHTS };
		struct key_dump d;
		struct wqe w;
		u16 i;

		fill_list(e.list.cpu + 0x800, KLMS, 0x200, e.p.lkey, round);
		UMR_SET(&u, mkey_7_0, round);
		UMR_SET(&u, lw, 1);
		UMR_SET64(&u, len, 0x5000 + round);
		wqe_umr(&w, &u);
		i = sq_put(e.p.a, &w);
		m->hook_arg = sq_byte(e.p.a, i, 0);
		m->bus_hook = scribble;
		sq_ring(e.p.a);
		m->bus_hook = NULL;
		EXPECT_CQE(e.p.a->scq, MLX5_CQE_REQ, i);
		d = key_dump(m, key);
		ASSERT_EQ(d.mkc[7], (u8)round);
		ASSERT_EQ(d.mkc[0] & 0x40, 0);
		ASSERT_EQ(d.mkc[2] & 0x78, 0x08);
		ASSERT_EQ(get_unaligned_be64(d.mkc + 0x18), 0x5000ull + round);
		ASSERT(!memcmp(d.list, e.list.cpu + 0x800, sizeof(d.list)));
		/* a ring whose 64 blocks wrap, and one whose WQE was cut by the scribbler */
		cq_update(e.p.a->scq);
		qp_revive(__FILE__, __LINE__, e.p.a, (struct qp_path){});
	}
}

TEST("HM-8.23", the_drivers_queue_executes_umr_and_nop_only)
{
	struct env e = env_new(m);
	static const u8 others[] = { 0x01, 0x08, 0x09, 0x0a, 0x0b, 0x0e, 0x10, 0x11, 0x12, 0x14, 0x15, 0x18, 0x19, 0x1b, 0x1f,
		0x20, 0x28, 0x2c, 0x2f, 0xff };
	struct wqe w;

	wqe_begin(&w, MLX5_OPCODE_NOP, SIGNALED, 0);
	EXPECT_CQE(e.umr->scq, MLX5_CQE_REQ, sq_post(e.umr, &w));
	cq_update(e.umr->scq);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		u16 index;

		wqe_begin(&w, others[i], SIGNALED, 0);
		wqe_raddr(&w, e.p.d, e.p.rkey);
		wqe_data(&w, e.p.lkey, e.p.s, 8);
		index = sq_post(e.umr, &w);
		EXPECT_REQ_ERR(e.umr, index, QP_OP, 0xcf);
		qp_revive(__FILE__, __LINE__, e.umr, (struct qp_path){});
	}
	ASSERT_PATTERN(&e.p.dst, 0, e.p.dst.len, 2, 0);
}

/* a program's context cannot have such a queue, nor can it be made to receive or to speak to a peer */
TEST("HM 8.6", nothing_reaches_the_drivers_queue)
{
	struct env e = env_new(m);
	struct qp *qp = qp_new(m, (struct qp_attr){});

	qp_up(qp, e.umr->qpn, (struct qp_path){ .timeout = 8, .retry = 1 });
	post_write(qp, e.p.lkey, e.p.s, 8, e.p.rkey, e.p.d);
	shim_advance(1000000000ULL);
	EXPECT_REQ_ERR(qp, 0, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR, HCA_VS_RETRY_EXC);
	ASSERT_EQ(qp_state(e.umr), (unsigned int)MLX5_QP_STATE_RTS);
	ASSERT_PATTERN(&e.p.dst, 0, e.p.dst.len, 2, 0);
}

TEST("HM-7.9", capacity_is_rounded_up)
{
	struct env e = env_new(m);

	for (size_t i = 0; i < ARRAY_SIZE(table_modes); i++) {
		for (u32 declared = 1; declared <= 9; declared++) {
			u32 key = target(m, table_modes[i], declared, (struct key_attr){});
			u8 list[192];
			struct umr u = { .key = key, .flags = UMR_INLINE, .octwords = ALIGN(declared, 4), .list = list };

			fill_list(list, table_modes[i], 12, 0, 5);
			UMR_OK(e.umr, &u);
			ASSERT(!memcmp(key_dump(m, key).list, list, 16 * u.octwords));
			/* and QUERY_MKEY says what was declared */
			ASSERT_EQ(get_unaligned_be32(key_dump(m, key).mkc + 0x34), declared);
		}
	}
}

TEST("HM-3.10", umr_takes_no_page)
{
	struct env e = env_new(m);
	u32 key = target(m, MTT, 0xfffc, (struct key_attr){ .free = true });
	unsigned int free = pages_free_now(m), given = m->fw_given;
	unsigned long allocs;

	shim_run();
	allocs = shim_allocs_alive();
	for (int i = 0; i < 50; i++) {
		struct umr u = { .key = key, .octwords = 0xfffc, .lkey = e.list_key, .byte_count = 0xfffc0,
				 .mask = UMR_FREE | UMR_KEY };

		UMR_SET(&u, free, i & 1);
		UMR_OK(e.umr, &u);
	}
	shim_run();
	ASSERT_EQ(shim_allocs_alive(), allocs);
	ASSERT_EQ(m->fw_given, given);
	ASSERT_EQ(pages_free_now(m), free);
}

/* HM 8.9: what stock software writes. Flags, masks and sizes as numbers, so that a name that is wrong here shows. */

/* a region of 20 pages, loaded in three chunks, the last of which enables it: 12.2, ENABLE */
TEST("HM 8.9 HM-12.3", enabling_a_pinned_region)
{
	struct env e = env_new(m);
	struct mem mem = mem_new(m, 20 * 4096);
	u32 pool_pd = pd_new(m);
	u32 key = target(m, MTT, 10, (struct key_attr){ .free = true, .pd = pool_pd });
	/* LEN 0, PAGE_SIZE 1, START 6, PD 7, KEY 13, LR..A 17-21, RO write 25, FREE 29, PAGE_SIZE_5 42, RO read 47 */
	const u64 last = 1ULL << 47 | 1ULL << 42 | 1ULL << 29 | 1ULL << 25 | 0x1fULL << 17 | 1ULL << 13 | 1ULL << 7 |
			 1ULL << 6 | 1ULL << 1 | 1ULL << 0;
	u8 code = HCA_VS_LEVEL0 | HCA_CHECK_FREE;

	mem_fill(&mem, 0, mem.len, 4);
	for (int chunk = 0; chunk < 3; chunk++) {
		struct umr u = { .key = key, .flags = 0x20 | 0x10, .fm_ce_se = 0x28, .octwords = 4, .to = 4 * chunk,
				 .lkey = e.list_key, .byte_count = 64, .mask = chunk == 2 ? last : 0 };

		/* the segment is filled in all of them */
		UMR_SET(&u, lr, 1);
		UMR_SET(&u, lw, 1);
		UMR_SET(&u, rr, 1);
		UMR_SET(&u, rw, 1);
		UMR_SET(&u, pd, m->pd);
		UMR_SET64(&u, start_addr, 0x7f1234567800ULL);
		UMR_SET64(&u, len, 20 * 4096 - 0x900);
		UMR_SET(&u, log_page_size, 12);
		UMR_SET(&u, qpn, 0xffffff);
		UMR_SET(&u, mkey_7_0, 0x77);
		memset(e.list.cpu, 0, 64);
		for (int i = 0; i < 8 && 8 * chunk + i < 20; i++)
			put_unaligned_be64(mem.dma[8 * chunk + i] | 3, e.list.cpu + 8 * i);
		ASSERT_EQ(read_by_peer(&e.p, (key & ~0xffu) | 0x77, 0x7f1234567800ULL, 8), code);
		pair_revive(&e.p);
		UMR_OK(e.umr, &u);
	}
	key = (key & ~0xffu) | 0x77;
	ASSERT_EQ(read_by_peer(&e.p, key, 0x7f1234567800ULL, 0x2000), 0);
	ASSERT_PATTERN(&e.p.src, PAIR_OFFSET, 0x2000, 4, 0x800);
	ASSERT_EQ(write_by_peer(&e.p, key, 0x7f1234567800ULL + 19 * 4096, 0x700), 0);
	ASSERT_EQ(add_by_peer(&e.p, key, 0x7f1234567800ULL, 1), HCA_VS_LEVEL0 | HCA_CHECK_ATOMIC);
	pair_revive(&e.p);
	/* enabling what is enabled already is a mistake of the driver, and told */
	struct umr again = { .key = key, .flags = 0x20 | 0x10, .octwords = 4, .lkey = e.list_key, .byte_count = 64 };

	UMR_REFUSED(e.umr, &again, BIND_ERR, 0xc4);
}

TEST("HM 8.9", zapping_and_filling_entries)
{
	struct env e = env_new(m);
	struct mem mem = mem_new(m, 24 * 4096);
	u32 key = mr_new_attr(m, &mem, 0, mem.len, 0, (struct key_attr){ KEY_ALL, .umr_en = true });
	struct umr u = { .key = key, .flags = 0x40 | 0x10, .fm_ce_se = 0x28, .octwords = 4, .to = 4, .lkey = e.list_key,
			 .byte_count = 64 };

	mem_fill(&mem, 0, mem.len, 4);
	memset(e.list.cpu, 0, 64);
	UMR_OK(e.umr, &u);
	ASSERT_EQ(read_by_peer(&e.p, key, 7 * 4096, 4096), 0);
	ASSERT_EQ(read_by_peer(&e.p, key, 16 * 4096, 4096), 0);
	for (int page = 8; page < 16; page++) {
		ASSERT_EQ(read_by_peer(&e.p, key, page * 4096, 16), HCA_VS_LEVEL0 | HCA_CHECK_PAGE);
		pair_revive(&e.p);
	}
	/* read-only pages come back: ODP maps them so */
	for (int i = 0; i < 8; i++)
		put_unaligned_be64(mem.dma[8 + i] | 1, e.list.cpu + 8 * i);
	UMR_OK(e.umr, &u);
	ASSERT_EQ(read_by_peer(&e.p, key, 8 * 4096 - 64, 128), 0);
	ASSERT_EQ(write_by_peer(&e.p, key, 8 * 4096, 16), HCA_VS_LEVEL0 | HCA_CHECK_PAGE);
	pair_revive(&e.p);
	/* of a key that has been taken away meanwhile nothing is touched */
	struct umr kill = kernel_local_inval(key);

	UMR_OK(e.umr, &kill);
	UMR_REFUSED(e.umr, &u, BIND_ERR, 0xc5);
}

TEST("HM 8.9", revoking)
{
	struct env e = env_new(m);
	struct mem mem = mem_new(m, 4096);
	u32 umr_pd = pd_new(m);
	u32 key = mr_new_attr(m, &mem, 0, mem.len, 0, (struct key_attr){ KEY_ALL, .umr_en = true, .variant = 0x31 });
	struct umr u = { .key = key, .flags = 0x80, .fm_ce_se = 0x28, .mask = 1ULL << 29 | 1ULL << 7 };
	struct key_dump before = key_dump(m, key), after;

	UMR_SET(&u, free, 1);
	UMR_SET(&u, pd, umr_pd);
	UMR_SET(&u, qpn, 0xffffff);
	UMR_SET(&u, mkey_7_0, 0x31);
	ASSERT_EQ(read_by_peer(&e.p, key, 0, 16), 0);
	UMR_OK(e.umr, &u);
	ASSERT_EQ(read_by_peer(&e.p, key, 0, 16), HCA_VS_LEVEL0 | HCA_CHECK_FREE);
	/* all else stays: table, rights, range, variant */
	after = key_dump(m, key);
	before.mkc[0] |= 0x40;
	put_unaligned_be32((get_unaligned_be32(before.mkc + 0xc) & 0xff000000) | umr_pd, before.mkc + 0xc);
	ASSERT(!memcmp(&before, &after, sizeof(after)));
	/* and again: the driver's revoke has no check flag */
	UMR_OK(e.umr, &u);
}

TEST("HM 8.9 HM-12.4", rereg_of_domain_and_access)
{
	struct env e = env_new(m);
	struct mem mem = mem_new(m, 4096);
	u32 pd = pd_new(m);
	struct pair q = pair_new_attr(m, (struct qp_attr){ .pd = pd }, (struct qp_attr){ .pd = pd }, (struct qp_path){});
	u32 key = mr_new_attr(m, &mem, 0, mem.len, 0x5000, (struct key_attr){ KEY_ALL, .umr_en = true });
	/* LR..A 17-21, RO write 25, RO read 47, PD 7 */
	struct umr u = { .key = key, .flags = 0x40 | 0x80, .fm_ce_se = 0x28,
			 .mask = 1ULL << 47 | 1ULL << 25 | 0x1fULL << 17 | 1ULL << 7 };

	q.lkey = mr_new_attr(m, &q.src, PAIR_OFFSET, q.len, q.s, (struct key_attr){ KEY_ALL, .pd = pd });
	UMR_SET(&u, lr, 1);
	UMR_SET(&u, rr, 1);
	UMR_SET(&u, pd, pd);
	UMR_OK(e.umr, &u);
	ASSERT_EQ(read_by_peer(&e.p, key, 0x5000, 16), HCA_VS_LEVEL0 | HCA_CHECK_PD);
	pair_revive(&e.p);
	ASSERT_EQ(read_by_peer(&q, key, 0x5000, 16), 0);
	ASSERT_EQ(write_by_peer(&q, key, 0x5000, 16), HCA_VS_LEVEL0 | HCA_CHECK_REMOTE);
	pair_revive(&q);
	ASSERT_EQ(add_by_peer(&q, key, 0x5000, 1), HCA_VS_LEVEL0 | HCA_CHECK_ATOMIC);
}

TEST("HM 8.9 case 6", page_shift_only)
{
	struct env e = env_new(m);
	struct mem huge = mem_new_pages(m, 4 << 20, 21);
	u32 key = mr_new_attr(m, &huge, 0, huge.len, 0x40000000, (struct key_attr){ KEY_ALL, .umr_en = true });
	struct umr u = { .key = key, .flags = 0x40 | 0x80, .fm_ce_se = 0x28, .mask = 1ULL << 42 | 1ULL << 6 | 2 | 1 };

	UMR_SET(&u, log_page_size, 12);
	UMR_SET64(&u, start_addr, 0x40000000);
	UMR_SET64(&u, len, huge.len);
	UMR_OK(e.umr, &u);
	ASSERT_EQ(dma_of(m, e.p.a, key, 0x40001234), huge.dma[1] + 0x234);
	ASSERT_EQ(dma_of(m, e.p.a, key, 0x40002000), (u64)(HCA_VS_LEVEL0 | HCA_CHECK_PAGE));
	UMR_SET(&u, log_page_size, 21);
	UMR_OK(e.umr, &u);
	ASSERT_EQ(dma_of(m, e.p.a, key, 0x40201234), huge.dma[1] + 0x1234);
}

/* IB_WR_REG_MR and IB_WR_LOCAL_INV of a kernel consumer, by the consumer's own queue */
TEST("HM 8.9 HM-9.2 HM-8.15", kernel_fast_registration)
{
	struct pair k = pair_new_attr(m, (struct qp_attr){ .rlky = true, .fre = true },
				      (struct qp_attr){ .rlky = true, .fre = true }, (struct qp_path){});
	struct mem mem = mem_new(m, 16 * 4096), list = mem_at(m, 0x4000000000ULL, 4096);
	u32 key = target(m, MTT, 16, (struct key_attr){ .free = true, .variant = 0x20 });
	/* LEN, PAGE_SIZE, START, EN_RINVAL 8, KEY 13, LR LR RR RW 17-20, SMALL_FENCE 23, FREE 29, and A 21 */
	const u64 reg = 1 | 2 | 1ULL << 6 | 1ULL << 8 | 1ULL << 13 | 0xfULL << 17 | 1ULL << 21 | 1ULL << 23 | 1ULL << 29;
	u8 code = HCA_VS_LEVEL0 | HCA_CHECK_FREE, inl[64];

	mem_fill(&mem, 0, mem.len, 4);
	for (int round = 0; round < 6; round++) {
		bool by_pointer = round & 1;
		u32 pages = by_pointer ? 16 : 8, rkey = (key & ~0xffu) | (0x21 + round);
		struct umr u = { .key = rkey, .flags = by_pointer ? 0x20 : 0x80 | 0x20, .octwords = pages / 2, .mask = reg };
		struct umr kill = kernel_local_inval(rkey), stale = kernel_local_inval(rkey - 1);
		struct key_dump d;

		for (u32 i = 0; i < pages; i++)
			put_unaligned_be64(mem.dma[i] | 3, (by_pointer ? list.cpu : inl) + 8 * i);
		if (by_pointer) {
			u.lkey = 0x200;
			u.addr = list.dma[0];
			u.byte_count = 8 * pages;
		} else {
			u.list = inl;
		}
		UMR_SET(&u, lr, 1);
		UMR_SET(&u, rr, 1);
		UMR_SET(&u, rw, 1);
		UMR_SET(&u, lw, 1);
		UMR_SET(&u, umr_en, 1);
		UMR_SET(&u, access_mode_1_0, MTT);
		UMR_SET(&u, qpn, 0xffffff);
		UMR_SET(&u, mkey_7_0, rkey & 0xff);
		UMR_SET(&u, en_rinval, 1);
		UMR_SET64(&u, start_addr, 0x8000 + round);
		UMR_SET64(&u, len, pages * 4096 - round);
		UMR_SET(&u, log_page_size, 12);
		UMR_SET(&u, translations_octword_size, 8);
		/* the MKC still has the variant of the round before */
		UMR_OK(k.a, &u);
		d = key_dump(m, key);
		ASSERT_EQ(d.mkc[0xc] & 1, 1);
		ASSERT_EQ(get_unaligned_be32(d.mkc + 0x34), 16u);
		ASSERT_EQ(read_by_peer(&k, rkey, 0x8000 + round, 0x1000), 0);
		ASSERT_PATTERN(&k.src, PAIR_OFFSET, 0x1000, 4, round);
		UMR_REFUSED(k.a, &u, BIND_ERR, 0xc4);
		/* a stale key invalidates nothing */
		UMR_REFUSED(k.a, &stale, BIND_ERR, 0xc7);
		UMR_OK(k.a, &kill);
		ASSERT_EQ(read_by_peer(&k, rkey, 0x8000 + round, 16), code);
		pair_revive(&k);
	}
}

/* what the kernel posts for a signature region, when nothing of the kind is offered */
TEST("HM 8.9 HM-13.6", kernel_signature_region)
{
	struct pair k = pair_new_attr(m, (struct qp_attr){ .rlky = true, .fre = true },
				      (struct qp_attr){ .rlky = true, .fre = true }, (struct qp_path){});
	u32 key = target(m, KLMS, 4, (struct key_attr){ .free = true });
	u8 list[64] = {};
	struct umr u = { .key = key, .flags = 0x20 | 0x80, .octwords = 4, .list = list,
			 .mask = 1 | 2 | 1ULL << 6 | 1ULL << 8 | 1ULL << 9 | 1ULL << 12 | 1ULL << 13 | 0xfULL << 17 |
				 1ULL << 23 | 1ULL << 29 };

	UMR_SET(&u, lr, 1);
	UMR_SET(&u, bsf_en, 1);
	UMR_REFUSED(k.a, &u, BIND_ERR, 0xca);
}

/* mlx5dv_wr_mkey_configure() with access and a list, on a program's queue; and a second one that changes access only */
TEST("HM 8.9", mkey_configure)
{
	struct env e = env_new(m);
	struct mem a = mem_new(m, 4096), b = mem_new(m, 4096);
	u32 ka = mr_new(m, &a, 0x100, 0xf00, 0x100), kb = mr_new(m, &b, 0, 4096, 0x5000), key;
	struct key_attr attr = { .mode = KLMS, .free = true, .umr_en = true, .octwords = 8 };
	struct umr u = { .flags = 0x80, .octwords = 4, .mask = 1ULL << 29 | 1ULL << 13 | 0xfULL << 18 | 1 };
	u8 list[64] = {};

	mem_fill(&a, 0, 4096, 4);
	mem_fill(&b, 0, 4096, 5);
	key = key_new(m, &attr);
	klm_put(list, 0, (struct klm){ 0x200, ka, 0x180 });
	klm_put(list, 1, (struct klm){ 0x300, kb, 0x5100 });
	u.list = list;
	u.key = key;
	UMR_SET(&u, qpn, 0xffffff);
	UMR_SET(&u, rr, 1);
	UMR_SET(&u, lw, 1);
	UMR_SET64(&u, len, 0x500);
	UMR_OK(e.p.a, &u);
	ASSERT_EQ(read_by_peer(&e.p, key, 0, 0x500), 0);
	ASSERT_PATTERN(&e.p.src, PAIR_OFFSET, 0x200, 4, 0x180);
	ASSERT_PATTERN(&e.p.src, PAIR_OFFSET + 0x200, 0x300, 5, 0x100);
	ASSERT_EQ(read_by_peer(&e.p, key, 1, 0x500), HCA_VS_LEVEL0 | HCA_CHECK_BOUNDS);
	pair_revive(&e.p);
	/* no layout, other access, another tag */
	u = (struct umr){ .key = key, .flags = 0x80, .mask = 1ULL << 29 | 1ULL << 13 | 0xfULL << 18 };
	UMR_SET(&u, qpn, 0xffffff);
	UMR_SET(&u, mkey_7_0, 1);
	UMR_SET(&u, rw, 1);
	UMR_SET(&u, lw, 1);
	UMR_OK(e.p.a, &u);
	ASSERT_EQ(write_by_peer(&e.p, key | 1, 0, 0x500), 0);
	ASSERT_PATTERN(&a, 0x180, 0x200, 4, 0x180);
	ASSERT_EQ(read_by_peer(&e.p, key | 1, 0, 0x500), HCA_VS_LEVEL0 | HCA_CHECK_REMOTE);
}

/* a list that is read through the very key that it is for, and through a key above it */
TEST("HM-8.16 rule-2", a_list_behind_its_own_target)
{
	struct env e = env_new(m);
	struct mem mem = mem_new(m, 4 * 4096);
	u32 leaf = mr_new(m, &mem, 0, mem.len, 0), key, above;
	struct klm whole = { 4 * 4096, leaf, 0 };
	struct key_attr a = { .mode = KLMS, KEY_ALL, .umr_en = true, .len = 4 * 4096, .klm = &whole, .nr = 1 };
	struct umr u = { .octwords = 4, .byte_count = 64, .addr = 0x1000 };
	struct qp *queue[] = { e.umr, e.p.a };

	for (size_t i = 0; i < ARRAY_SIZE(queue); i++) {
		key = key_new(m, &a);
		above = klm_new(m, &(struct klm){ 4 * 4096, key, 0 }, 1);
		memset(mem.cpu, 0, mem.len);
		klm_put(mem.cpu + 0x1000, 0, (struct klm){ 4 * 4096, leaf, 0 });
		u.key = u.lkey = key;
		UMR_OK(queue[i], &u);
		ASSERT(!memcmp(key_dump(m, key).list, mem.cpu + 0x1000, 64));
		u.lkey = above;
		UMR_OK(queue[i], &u);
		ASSERT_EQ(read_by_peer(&e.p, above, 0, 64), 0);
	}
	/* a page table that maps its own list */
	struct umr map = { .octwords = 4, .byte_count = 64, .addr = 0x1000 };

	key = mr_new_attr(m, &mem, 0, mem.len, 0, (struct key_attr){ KEY_ALL, .umr_en = true });
	for (int i = 0; i < 4; i++)
		put_unaligned_be64(mem.dma[3 - i] | 3, mem.cpu + 0x1000 + 8 * i);
	map.key = map.lkey = key;
	UMR_OK(e.umr, &map);
	ASSERT_EQ(dma_of(m, e.p.a, key, 0x3010), mem.dma[0] + 0x10);
}

/* states: only in RTS, and a queue that has been reset begins at WQE 0 again */
TEST("HM 8.5", states_of_the_drivers_queue)
{
	struct qp *qp = qp_new(m, (struct qp_attr){ .st = MLX5_QP_ST_REG_UMR, .no_rq = true, .rlky = true });
	u32 key = target(m, MTT, 4, (struct key_attr){});
	struct umr u = { .key = key, .flags = UMR_INLINE, .mask = UMR_RR };
	struct qp_path path = {};
	static const u16 way[] = { MLX5_CMD_OP_RST2INIT_QP, MLX5_CMD_OP_INIT2RTR_QP, MLX5_CMD_OP_RTR2RTS_QP };

	UMR_SET(&u, rr, 1);
	for (size_t i = 0; i < ARRAY_SIZE(way); i++) {
		ASSERT_EQ(qp_state(qp), (unsigned int)i);
		ASSERT_EQ(qp_to(qp, way[i], &path, 0), 0);
	}
	ASSERT_EQ(qp_state(qp), (unsigned int)MLX5_QP_STATE_RTS);
	UMR_OK(qp, &u);
	ASSERT_EQ(qp_to(qp, MLX5_CMD_OP_2ERR_QP, &path, 0), 0);
	shim_run();
	EXPECT_NONE(qp->scq);
	EXPECT_REQ_ERR(qp, post_umr(qp, &u), FLUSHED, HCA_VS_FLUSHED);
	qp_revive(__FILE__, __LINE__, qp, path);
	ASSERT_EQ(post_umr(qp, &u), 0);
	EXPECT_CQE(qp->scq, MLX5_CQE_REQ, 0);
	ASSERT_EQ(qp_free(qp), 0);
}
