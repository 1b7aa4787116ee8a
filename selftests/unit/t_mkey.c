// SPDX-License-Identifier: GPL-2.0
/*
 * CREATE_MKEY, QUERY_MKEY and DESTROY_MKEY: HM sections 2 and 7. The masks of reserved and unoffered fields are typed from
 * the table in HM 2.3 by word and bit, and not from mlx5_ifc.h, so that a wrong field shows.
 */
#include <linux/kernel.h>
#include <linux/unaligned.h>

#include "unit.h"

#define BAD_OP		MLX5_CMD_STAT_BAD_OP_ERR
#define BAD_PARAM	MLX5_CMD_STAT_BAD_PARAM_ERR
#define BAD_RES		MLX5_CMD_STAT_BAD_RES_ERR
#define BAD_INP_LEN	MLX5_CMD_STAT_BAD_INP_LEN_ERR
#define BAD_OUTP_LEN	MLX5_CMD_STAT_BAD_OUTP_LEN_ERR
#define NO_RES		MLX5_CMD_STAT_NO_RES_ERR
#define CREATE		MLX5_CMD_OP_CREATE_MKEY
#define MTT		MLX5_MKC_ACCESS_MODE_MTT
#define PA		MLX5_MKC_ACCESS_MODE_PA
#define KLMS		MLX5_MKC_ACCESS_MODE_KLMS
#define KSM		MLX5_MKC_ACCESS_MODE_KSM

#define LIST		0x110		/* where the entries begin */

/* A command in a buffer with room for changes. */
struct cmd {
	u32 in[0x400];
	size_t inlen;
};

static u32 *word(struct cmd *c, unsigned int mkc_offset)
{
	return &c->in[(0x10 + mkc_offset) / 4];
}

static void set_bits(struct cmd *c, unsigned int mkc_offset, u32 bits)
{
	*word(c, mkc_offset) |= cpu_to_be32(bits);
}

static void *mkc_of(struct cmd *c)
{
	return word(c, 0);
}

/* a key of four octowords with two of them filled, or a PA key */
static struct cmd base(struct machine *m, u8 mode)
{
	static const u64 pages[] = { 0x7f0012000, 0x7f0345000, 0x7f0001000, 0x7f0999000 };
	/* nobody asks whether these keys exist */
	static const struct klm pieces[] = { { 0x2000, 0x12345678, 0x111 }, { 0x800, 0x9abcdef0, 0x222 } };
	struct key_attr a = { .mode = mode, KEY_ALL, .start = 0x10000e00, .len = 0x2800, .variant = 0x5a };
	struct key_cmd k;
	struct cmd c = {};

	if (mode == MTT) {
		a.mtt = pages;
		a.nr = 4;
		a.octwords = 4;
	} else if (mode != PA) {
		a.klm = pieces;
		a.nr = 2;
		a.octwords = 4;
		a.log_page = 12;
	}
	k = key_cmd(m, &a);
	memcpy(c.in, k.in, k.inlen);
	c.inlen = k.inlen;
	free(k.in);
	return c;
}

static u8 create(struct machine *m, struct cmd *c, u32 *index)
{
	u32 out[MLX5_ST_SZ_DW(create_mkey_out)];
	u8 status = m_exec(m, c->in, c->inlen, out, sizeof(out));

	if (index)
		*index = MLX5_GET(create_mkey_out, out, mkey_index);
	if (status)
		ASSERT_EQ(MLX5_GET(create_mkey_out, out, mkey_index), 0u);
	return status;
}

/* The checks of 7.1, each with the smallest change that violates it and no other. */
#define M	1	/* applies to the MTT command */
#define P	2	/* to the PA command */
#define K	4	/* to the KLM command */
#define F	8	/* to the KSM command */
#define ALL	(M | P | K | F)

static unsigned int base_bit(u8 mode)
{
	return mode == MTT ? M : mode == PA ? P : mode == KLMS ? K : F;
}

static void v1(struct cmd *c) { MLX5_SET(create_mkey_in, c->in, op_mod, 1); }
static void v2(struct cmd *c) { c->inlen -= 16; }
static void v3(struct cmd *c) { MLX5_SET(create_mkey_in, c->in, uid, 7); }
static void v4(struct cmd *c) { set_bits(c, 0x00, 1u << 31); }
static void v5(struct cmd *c) { set_bits(c, 0x00, 1); }
static void v6(struct cmd *c) { MLX5_SET(mkc, mkc_of(c), access_mode_4_2, 7 >> 2 | 4); MLX5_SET(mkc, mkc_of(c), access_mode_1_0, 3); }
static void v7(struct cmd *c) { MLX5_SET(mkc, mkc_of(c), lr, 0); }
static void v8(struct cmd *c) { MLX5_SET(mkc, mkc_of(c), qpn, 1); }
static void v9(struct cmd *c) { MLX5_SET(mkc, mkc_of(c), pd, 0x777777); }
static void v10(struct cmd *c) { MLX5_SET64(mkc, mkc_of(c), start_addr, 0xfffffffffffff000ULL); MLX5_SET64(mkc, mkc_of(c), len, 0x1001); }
static void v11(struct cmd *c) { MLX5_SET(mkc, mkc_of(c), log_page_size, 11); }
static void v12m(struct cmd *c) { MLX5_SET(mkc, mkc_of(c), translations_octword_size, 0x40000001); }
static void v12k(struct cmd *c) { MLX5_SET(mkc, mkc_of(c), translations_octword_size, 0x10001); }
static void v12p(struct cmd *c) { MLX5_SET(mkc, mkc_of(c), translations_octword_size, 4); }
static void v13(struct cmd *c) { MLX5_SET(create_mkey_in, c->in, translations_octword_actual_size, 5); c->inlen = LIST + 80; }
static void v14(struct cmd *c) { MLX5_SET(create_mkey_in, c->in, pg_access, 1); }
static void v15(struct cmd *c) { MLX5_SET(mkc, mkc_of(c), umr_en, 1); }
static void v16(struct cmd *c) { MLX5_SET(create_mkey_in, c->in, mkey_umem_valid, 1); }
static void v17(struct cmd *c) { MLX5_SET(mkc, mkc_of(c), en_rinval, 1); }
static void v21(struct cmd *c) { MLX5_SET(mkc, mkc_of(c), translations_octword_size, 131072); }
static void v22(struct cmd *c) { c->in[LIST / 4 + 3] |= cpu_to_be32(8); }

static const struct violation {
	unsigned int check, bases;
	u8 status;
	void (*apply)(struct cmd *c);
	unsigned int excludes;	/* a check that changes the same field */
} violations[] = {
	{ 1, ALL, BAD_OP, v1 },
	{ 2, ALL, BAD_INP_LEN, v2 },
	{ 3, ALL, BAD_RES, v3 },
	{ 4, ALL, BAD_PARAM, v4 },
	{ 5, ALL, BAD_PARAM, v5 },
	{ 6, ALL, BAD_PARAM, v6 },
	{ 7, ALL, BAD_PARAM, v7 },
	{ 8, ALL, BAD_PARAM, v8 },
	{ 9, ALL, BAD_RES, v9 },
	{ 10, ALL, BAD_PARAM, v10 },
	{ 11, M | F, BAD_PARAM, v11 },
	{ 12, M | F, BAD_PARAM, v12m, 13 },	/* with that capacity 13 cannot be violated, nor 21 reached */
	{ 12, K, BAD_PARAM, v12k, 13 },
	{ 12, P, BAD_PARAM, v12p },
	{ 13, ALL, BAD_PARAM, v13 },
	{ 14, P | K | F, BAD_PARAM, v14 },
	{ 15, P, BAD_PARAM, v15 },
	{ 16, M | P, BAD_PARAM, v16 },
	{ 17, P, BAD_PARAM, v17 },
	{ 21, M | F, NO_RES, v21, 13 },
	{ 22, M, BAD_PARAM, v22 },
};

/* the PA command has no list; a length fault needs its fixed part cut */
static void apply(struct cmd *c, const struct violation *v, u8 mode)
{
	v->apply(c);
	if (v->check == 2 && mode == PA)
		c->inlen = 0x4c;
}

TEST("HM-7.1", each_check_alone_changes_nothing)
{
	unsigned int free, i;
	u32 index, before, in[4] = {}, out[128];

	m->policy = PAGES_REFUSE;
	for (u8 mode = PA; mode <= KSM; mode++) {
		for (i = 0; i < ARRAY_SIZE(violations); i++) {
			const struct violation *v = &violations[i];
			struct cmd c = base(m, mode);

			if (!(v->bases & base_bit(mode)))
				continue;
			ASSERT_EQ(create(m, &c, &before), 0);
			free = pages_free_now(m);
			apply(&c, v, mode);
			ASSERT_CMD(m, create(m, &c, NULL), v->status, CREATE, v->check);
			ASSERT_EQ(pages_free_now(m), free);
			/* no index was spent and no key is there under the next one */
			MLX5_SET(query_mkey_in, in, opcode, MLX5_CMD_OP_QUERY_MKEY);
			MLX5_SET(query_mkey_in, in, mkey_index, before + 1);
			ASSERT_EQ(m_exec(m, in, 16, out, sizeof(out)), BAD_RES);
			c = base(m, mode);
			ASSERT_EQ(create(m, &c, &index), 0);
			if (index != before + 1)
				FAIL("check %u, mode %u: index %u follows %u", v->check, mode, index, before);
		}
	}
}

TEST("HM-7.1", a_failed_command_does_not_hold_its_pd)
{
	u32 pd = pd_new(m);

	m->policy = PAGES_REFUSE;
	for (unsigned int i = 0; i < ARRAY_SIZE(violations); i++) {
		struct cmd c = base(m, MTT);

		if (!(violations[i].bases & M) || violations[i].check == 9)
			continue;
		MLX5_SET(mkc, mkc_of(&c), pd, pd);
		apply(&c, &violations[i], MTT);
		ASSERT_NE(create(m, &c, NULL), 0);
	}
	ASSERT_EQ(pd_free(m, pd), 0);
}

TEST("HM-7.2", of_two_violations_the_lower_number_wins)
{
	unsigned int i, j, pairs = 0;

	m->policy = PAGES_REFUSE;
	for (u8 mode = PA; mode <= KSM; mode++) {
		unsigned int b = base_bit(mode);

		for (i = 0; i < ARRAY_SIZE(violations); i++) {
			for (j = i + 1; j < ARRAY_SIZE(violations); j++) {
				const struct violation *v = &violations[i], *w = &violations[j];
				struct cmd c = base(m, mode);

				if (!(v->bases & b) || !(w->bases & b))
					continue;
				if (v->excludes == w->check || w->excludes == v->check ||
				    ((v->apply == v12m || v->apply == v12k) && w->apply == v21))
					continue;
				/* the later first: a cut length must be the last change */
				apply(&c, w, mode);
				apply(&c, v, mode);
				if (create(m, &c, NULL) != v->status || m->syndrome != (CREATE << 8 | v->check))
					FAIL("mode %u, checks %u and %u: syndrome %#x", mode, v->check, w->check,
					     m->syndrome);
				pairs++;
			}
		}
	}
	ASSERT_GT(pairs, 200u);
}

TEST("HM-7.1", lengths)
{
	struct cmd c = base(m, PA);
	u32 index;

	/* without a list the command may end behind the MKC */
	c.inlen = 0x50;
	ASSERT_EQ(create(m, &c, &index), 0);
	c.inlen = 0x4f;
	ASSERT_CMD(m, create(m, &c, NULL), BAD_INP_LEN, CREATE, 2);
	c.inlen = 0x10;
	ASSERT_CMD(m, create(m, &c, NULL), BAD_INP_LEN, CREATE, 2);
	/* with one it must hold it all */
	c = base(m, MTT);
	c.inlen = LIST + 31;
	ASSERT_CMD(m, create(m, &c, NULL), BAD_INP_LEN, CREATE, 2);
	c.inlen = LIST;
	ASSERT_CMD(m, create(m, &c, NULL), BAD_INP_LEN, CREATE, 2);
	c.inlen = LIST - 1;
	ASSERT_CMD(m, create(m, &c, NULL), BAD_INP_LEN, CREATE, 2);
	/* the declared size lies in the part that is there, its list does not */
	c.inlen = 0x64;
	ASSERT_CMD(m, create(m, &c, NULL), BAD_INP_LEN, CREATE, 2);
	/* a size whose sixteenfold wraps 32 bits */
	c = base(m, MTT);
	MLX5_SET(create_mkey_in, c.in, translations_octword_actual_size, 0x10000002);
	ASSERT_CMD(m, create(m, &c, NULL), BAD_INP_LEN, CREATE, 2);
	MLX5_SET(create_mkey_in, c.in, translations_octword_actual_size, 0xffffffff);
	ASSERT_CMD(m, create(m, &c, NULL), BAD_INP_LEN, CREATE, 2);
	/* more than needed is fine */
	c = base(m, MTT);
	c.inlen += 64;
	ASSERT_EQ(create(m, &c, &index), 0);
}

/* offset in the MKC, bits: HM 2.3 "reserved, must be 0" */
static const struct { u8 offset; u32 bits; } reserved[] = {
	{ 0x00, 1u << 31 | 1u << 29 | 0x7f << 19 | 1 << 17 | 1 << 7 },
	{ 0x08, 0xff000000 },
	{ 0x0c, 3 << 27 | 1 << 25 },
	{ 0x24, 0xffff0000 },
	{ 0x2c, 0xffff0000 },
	{ 0x30, 0xffff0000 },		/* crossing_target_vhca_id in any other mode */
	{ 0x38, 0xffffff80 },
	{ 0x3c, 0xe0000000 },
}, unoffered[] = {
	{ 0x00, 1 << 6 | 3 << 4 | 0xf },		/* tunneled_atomic, ma_translation_mode, sf */
	{ 0x08, 0x00ffffff },				/* pasid */
	{ 0x0c, 1 << 30 | 1 << 29 },			/* bsf_en, sync_umr */
	{ 0x20, 0xffffffff },				/* bsf_octword_size */
	{ 0x3c, 3 << 27 | 1 << 26 | 3 << 24 | 0xff << 16 },	/* crypto_en, TPH */
};

TEST("HM-2.3", each_reserved_bit_is_refused)
{
	unsigned int n = 0;

	for (u8 mode = PA; mode <= KSM; mode++) {
		for (size_t i = 0; i < ARRAY_SIZE(reserved); i++) {
			for (int b = 0; b < 32; b++) {
				struct cmd c = base(m, mode);

				if (!(reserved[i].bits >> b & 1))
					continue;
				set_bits(&c, reserved[i].offset, 1u << b);
				if (create(m, &c, NULL) != BAD_PARAM || m->syndrome != 0x20004)
					FAIL("MKC %02xh[%d]: syndrome %#x", reserved[i].offset, b, m->syndrome);
				n++;
			}
		}
	}
	/* 11 + 8 + 3 + 16 + 16 + 16 + 25 + 3 */
	ASSERT_EQ(n, 4u * 98);
}

TEST("HM-2.4 HM-13.6", each_unoffered_bit_is_refused)
{
	unsigned int n = 0;

	for (u8 mode = PA; mode <= KSM; mode++) {
		for (size_t i = 0; i < ARRAY_SIZE(unoffered); i++) {
			for (int b = 0; b < 32; b++) {
				struct cmd c = base(m, mode);

				if (!(unoffered[i].bits >> b & 1))
					continue;
				set_bits(&c, unoffered[i].offset, 1u << b);
				if (create(m, &c, NULL) != BAD_PARAM || m->syndrome != 0x20005)
					FAIL("MKC %02xh[%d]: syndrome %#x", unoffered[i].offset, b, m->syndrome);
				n++;
			}
		}
	}
	ASSERT_EQ(n, 4u * (7 + 24 + 2 + 32 + 13));
}

/* every bit of the MKC is either reserved, unoffered, the engine's own, or given back by QUERY_MKEY as it was */
TEST("HM-2.2", every_other_bit_is_kept)
{
	/* handles: 24h[15:0], 28h, 2Ch[15:0], 30h[15:0] */
	static const struct { u8 offset; u32 bits; } own[] = {
		{ 0x24, 0xffff }, { 0x28, 0xffffffff }, { 0x2c, 0xffff }, { 0x30, 0xffff },
	};
	/* not free to change here: modes other than MTT, lr, qpn, pd, page size below 12, capacity */
	static const struct { u8 offset; u32 bits; } fixed[] = {
		{ 0x00, 7 << 26 | 3 << 8 | 1 << 10 }, { 0x04, 0xffffff00 }, { 0x0c, 0x00ffffff },
		{ 0x34, 0xffffffff }, { 0x38, 0x3f },
	};
	unsigned int offset, b, n = 0;
	size_t i;

	for (offset = 0; offset < 0x40; offset += 4) {
		u32 skip = 0;

		for (i = 0; i < ARRAY_SIZE(reserved); i++)
			skip |= reserved[i].offset == offset ? reserved[i].bits : 0;
		for (i = 0; i < ARRAY_SIZE(unoffered); i++)
			skip |= unoffered[i].offset == offset ? unoffered[i].bits : 0;
		for (i = 0; i < ARRAY_SIZE(own); i++)
			skip |= own[i].offset == offset ? own[i].bits : 0;
		for (i = 0; i < ARRAY_SIZE(fixed); i++)
			skip |= fixed[i].offset == offset ? fixed[i].bits : 0;
		for (b = 0; b < 32; b++) {
			u32 out[MLX5_ST_SZ_DW(query_mkey_out)], index;
			u8 *q = MLX5_ADDR_OF(query_mkey_out, out, memory_key_mkey_entry);
			struct cmd c = base(m, MTT);

			if (skip >> b & 1)
				continue;
			*word(&c, offset) ^= cpu_to_be32(1u << b);
			/* bit 63 of len would overflow with any start but 0 */
			if (offset == 0x18)
				MLX5_SET64(mkc, mkc_of(&c), start_addr, 0);
			ASSERT_EQ(create(m, &c, &index), 0);
			ASSERT_EQ(key_query(m, index << 8, false, out, sizeof(out)), 0);
			for (i = 0; i < 0x40; i++) {
				if (i >= 0x26 && i < 0x34)
					continue;	/* handles */
				if (q[i] != ((u8 *)mkc_of(&c))[i])
					FAIL("MKC %02xh[%u] changed: byte %#zx is %#x, was %#x", offset, b, i, q[i],
					     ((u8 *)mkc_of(&c))[i]);
			}
			ASSERT_EQ(key_free(m, index << 8), 0);
			n++;
		}
	}
	/*
	 * 00h: free, RO, SFR, umr_en, a, rw, rr, lw = 8; variant 8; 0Ch: length64, ESC, en_rinval = 3; start and len 128;
	 * 38h: ROR; 3Ch: generation counter 16
	 */
	ASSERT_EQ(n, 8u + 8 + 3 + 128 + 1 + 16);
}

TEST("HM-2.2", handles_are_the_engines)
{
	static const u32 sizes[] = { 1, 3, 4, 5, 100, 129, 1000 };
	u64 handle, last[ARRAY_SIZE(sizes)];
	u32 out[MLX5_ST_SZ_DW(query_mkey_out)], index;
	u8 *q = MLX5_ADDR_OF(query_mkey_out, out, memory_key_mkey_entry);
	struct cmd c;
	size_t i, j;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		c = base(m, MTT);
		/* a stock driver sends odd sizes; they come back as they are */
		MLX5_SET(mkc, mkc_of(&c), translations_octword_size, sizes[i]);
		MLX5_SET(create_mkey_in, c.in, translations_octword_actual_size, 1);
		/* what software puts into the handles does not matter */
		set_bits(&c, 0x24, 0xabcd);
		set_bits(&c, 0x28, 0xdeadbeef);
		set_bits(&c, 0x2c, 0x1234);
		set_bits(&c, 0x30, 0x5678);
		ASSERT_EQ(create(m, &c, &index), 0);
		ASSERT_EQ(key_query(m, index << 8, false, out, sizeof(out)), 0);
		ASSERT_EQ(MLX5_GET(mkc, q, translations_octword_size), sizes[i]);
		/* bsf_handle */
		ASSERT_EQ(get_unaligned_be16(q + 0x26), 0);
		ASSERT_EQ(get_unaligned_be32(q + 0x28), 0u);
		/* mtt_handle: an ICM address in the XLT region, of a 64-byte granule, nobody else's */
		handle = (u64)get_unaligned_be16(q + 0x2e) << 32 | get_unaligned_be32(q + 0x30);
		ASSERT_GE(handle, 0x1000000000ULL);
		ASSERT_EQ(handle & 63, 0ull);
		for (j = 0; j < i; j++)
			ASSERT(handle >= last[j] + ALIGN(sizes[j], 4) * 16 || last[j] >= handle + ALIGN(sizes[i], 4) * 16);
		last[i] = handle;
	}
	/* a key without table has handle 0 */
	c = base(m, PA);
	set_bits(&c, 0x2c, 0x1234);
	ASSERT_EQ(create(m, &c, &index), 0);
	ASSERT_EQ(key_query(m, index << 8, false, out, sizeof(out)), 0);
	ASSERT_EQ(get_unaligned_be16(q + 0x2e), 0);
	ASSERT_EQ(get_unaligned_be32(q + 0x30), 0u);
}

TEST("HM-2.9", generation_counter_is_kept)
{
	u32 out[MLX5_ST_SZ_DW(query_mkey_out)], index;
	u8 *q = MLX5_ADDR_OF(query_mkey_out, out, memory_key_mkey_entry);
	struct pair p = pair_new(m);
	struct cmd c = base(m, PA);
	struct mem mem = mem_new(m, 4096);

	set_bits(&c, 0x3c, 0xbeef);
	MLX5_SET64(mkc, mkc_of(&c), start_addr, mem.dma[0]);
	ASSERT_EQ(create(m, &c, &index), 0);
	ASSERT_EQ(key_query(m, index << 8, false, out, sizeof(out)), 0);
	ASSERT_EQ(get_unaligned_be32(q + 0x3c), 0xbeefu);
	/* traffic does not count there */
	post_write(p.a, p.lkey, p.s, 64, index << 8 | 0x5a, mem.dma[0]);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	ASSERT_EQ(key_query(m, index << 8, false, out, sizeof(out)), 0);
	ASSERT_EQ(get_unaligned_be32(q + 0x3c), 0xbeefu);
}

TEST("HM-2.5", lr_and_qpn)
{
	struct cmd c = base(m, MTT);

	v7(&c);
	ASSERT_CMD(m, create(m, &c, NULL), BAD_PARAM, CREATE, 7);
	for (int b = 0; b < 24; b++) {
		c = base(m, MTT);
		MLX5_SET(mkc, mkc_of(&c), qpn, 0xffffff ^ (1 << b));
		ASSERT_CMD(m, create(m, &c, NULL), BAD_PARAM, CREATE, 8);
	}
}

TEST("HM-2.6 HM-13.6", access_modes)
{
	for (u32 mode = 4; mode < 32; mode++) {
		struct cmd c = base(m, PA);

		MLX5_SET(mkc, mkc_of(&c), access_mode_4_2, mode >> 2);
		MLX5_SET(mkc, mkc_of(&c), access_mode_1_0, mode & 3);
		/* MEMIC needs memory of that kind; SW ICM and CROSSING wait for their capability, the others for nothing */
		if (mode == MLX5_MKC_ACCESS_MODE_MEMIC)
			ASSERT_CMD(m, create(m, &c, NULL), BAD_RES, CREATE, 18);
		else
			ASSERT_CMD(m, create(m, &c, NULL), BAD_PARAM, CREATE, 6);
	}
}

/* the driver sets mkey_umem_valid for keys from userspace whose entries it does not even look at */
TEST("HM-7.1", lists_come_in_the_command_whatever_mkey_umem_valid_says)
{
	for (u8 mode = KLMS; mode <= KSM; mode++) {
		struct cmd c = base(m, mode);
		u8 out[LIST + 32];
		u32 index;

		v16(&c);
		ASSERT_EQ(create(m, &c, &index), 0);
		ASSERT_EQ(key_query(m, index << 8, false, out, sizeof(out)), 0);
		ASSERT(!memcmp(out + LIST, (u8 *)c.in + LIST, 32));
	}
}

/* check 10: the last byte may be the last of the address space */
TEST("HM-7.1", address_range)
{
	static const struct { u64 start, len; bool ok; } range[] = {
		{ 0, 0, true }, { ~0ULL, 0, true }, { ~0ULL, 1, true }, { ~0ULL, 2, false },
		{ 0, ~0ULL, true }, { 1, ~0ULL, true }, { 2, ~0ULL, false },
		{ 0x8000000000000000ULL, 0x8000000000000000ULL, true },
		{ 0x8000000000000001ULL, 0x8000000000000000ULL, false },
	};

	for (u8 mode = PA; mode <= KSM; mode++) {
		for (size_t i = 0; i < ARRAY_SIZE(range); i++) {
			struct cmd c = base(m, mode);

			MLX5_SET64(mkc, mkc_of(&c), start_addr, range[i].start);
			MLX5_SET64(mkc, mkc_of(&c), len, range[i].len);
			if (range[i].ok)
				ASSERT_EQ(create(m, &c, NULL), 0);
			else
				ASSERT_CMD(m, create(m, &c, NULL), BAD_PARAM, CREATE, 10);
			/* 2^64 bytes from anywhere */
			MLX5_SET(mkc, mkc_of(&c), length64, 1);
			ASSERT_EQ(create(m, &c, NULL), 0);
		}
	}
}

TEST("HM-5.7", page_sizes)
{
	for (u32 log = 0; log < 64; log++) {
		struct cmd c = base(m, MTT);

		MLX5_SET(mkc, mkc_of(&c), log_page_size, log);
		if (log >= 12 && log <= 31)
			ASSERT_EQ(create(m, &c, NULL), 0);
		else
			ASSERT_CMD(m, create(m, &c, NULL), BAD_PARAM, CREATE, 11);
		c = base(m, KSM);
		MLX5_SET(mkc, mkc_of(&c), log_page_size, log);
		if (log >= 12 && log <= 36)
			ASSERT_EQ(create(m, &c, NULL), 0);
		else
			ASSERT_CMD(m, create(m, &c, NULL), BAD_PARAM, CREATE, 11);
		/* reserved in the other modes: stored, not judged */
		c = base(m, PA);
		MLX5_SET(mkc, mkc_of(&c), log_page_size, log);
		ASSERT_EQ(create(m, &c, NULL), 0);
		c = base(m, KLMS);
		MLX5_SET(mkc, mkc_of(&c), log_page_size, log);
		ASSERT_EQ(create(m, &c, NULL), 0);
	}
}

TEST("HM-7.1", capacity)
{
	struct cmd c = base(m, MTT);

	m->policy = PAGES_REFUSE;
	/* 2^30 octowords are legal, only there are no 16 GiB of pages */
	MLX5_SET(mkc, mkc_of(&c), translations_octword_size, 1 << 30);
	ASSERT_CMD(m, create(m, &c, NULL), NO_RES, CREATE, 21);
	MLX5_SET(mkc, mkc_of(&c), translations_octword_size, (1 << 30) + 1);
	ASSERT_CMD(m, create(m, &c, NULL), BAD_PARAM, CREATE, 12);
	MLX5_SET(mkc, mkc_of(&c), translations_octword_size, ~0u);
	ASSERT_CMD(m, create(m, &c, NULL), BAD_PARAM, CREATE, 12);
	/* capacity is rounded up to 4 octowords */
	c = base(m, MTT);
	MLX5_SET(mkc, mkc_of(&c), translations_octword_size, 1);
	MLX5_SET(create_mkey_in, c.in, translations_octword_actual_size, 4);
	c.inlen = LIST + 64;
	ASSERT_EQ(create(m, &c, NULL), 0);
	MLX5_SET(create_mkey_in, c.in, translations_octword_actual_size, 5);
	c.inlen = LIST + 80;
	ASSERT_CMD(m, create(m, &c, NULL), BAD_PARAM, CREATE, 13);
	/* a KLM list has a limit of its own */
	m->policy = PAGES_GIVE;
	c = base(m, KLMS);
	MLX5_SET(mkc, mkc_of(&c), translations_octword_size, 0x10000);
	ASSERT_EQ(create(m, &c, NULL), 0);
	/* no capacity, no entries: legal and useless */
	c = base(m, MTT);
	MLX5_SET(mkc, mkc_of(&c), translations_octword_size, 0);
	MLX5_SET(create_mkey_in, c.in, translations_octword_actual_size, 0);
	ASSERT_EQ(create(m, &c, NULL), 0);
}

/* check 22: each of the low 12 bits of each entry, and only without pg_access */
TEST("HM-7.1", low_bits_of_plain_entries)
{
	for (unsigned int e = 0; e < 4; e++) {
		for (int b = 0; b < 13; b++) {
			struct cmd c = base(m, MTT);

			c.in[LIST / 4 + 2 * e + 1] ^= cpu_to_be32(1u << b);
			if (b < 12)
				ASSERT_CMD(m, create(m, &c, NULL), BAD_PARAM, CREATE, 22);
			else
				ASSERT_EQ(create(m, &c, NULL), 0);
			MLX5_SET(create_mkey_in, c.in, pg_access, 1);
			ASSERT_EQ(create(m, &c, NULL), 0);
		}
	}
}

TEST("HM-2.7", indices_run_on)
{
	struct key_attr a = { .mode = PA, .length64 = true };
	u32 first = key_new(m, &a), k, prev = first, i;

	ASSERT_GE(first >> 8, 16u);
	for (i = 0; i < 300; i++) {
		k = key_new(m, &a);
		ASSERT_EQ(k >> 8, (prev >> 8) + 1);
		/* the index of a key that is gone does not come back while higher ones are free */
		ASSERT_EQ(key_free(m, prev), 0);
		prev = k;
	}
}

TEST("HM-7.3", undeclared_entries_are_not_present)
{
	u32 out[MLX5_ST_SZ_DW(query_mkey_out) + 64], index;
	__be64 *mtt = (__be64 *)((u8 *)out + LIST);
	struct cmd c = base(m, MTT);
	int i;

	for (int pg = 0; pg < 2; pg++) {
		MLX5_SET(mkc, mkc_of(&c), translations_octword_size, 16);
		MLX5_SET(create_mkey_in, c.in, pg_access, pg);
		ASSERT_EQ(create(m, &c, &index), 0);
		ASSERT_EQ(key_query(m, index << 8, true, out, sizeof(out)), 0);
		for (i = 0; i < 4; i++)
			ASSERT_EQ(be64_to_cpu(mtt[i]) & ~3ULL, be64_to_cpu(((__be64 *)((u8 *)c.in + LIST))[i]));
		for (i = 4; i < 32; i++)
			ASSERT_EQ(mtt[i], 0ull);
	}
	/* no entries at all, whatever pg_access says */
	for (int pg = 0; pg < 2; pg++) {
		MLX5_SET(create_mkey_in, c.in, pg_access, pg);
		MLX5_SET(create_mkey_in, c.in, translations_octword_actual_size, 0);
		ASSERT_EQ(create(m, &c, &index), 0);
		ASSERT_EQ(key_query(m, index << 8, true, out, sizeof(out)), 0);
		for (i = 0; i < 32; i++)
			ASSERT_EQ(mtt[i], 0ull);
	}
}

/* a page that held an old table is handed out again: nothing of it may shine through */
TEST("HM-7.3", old_tables_do_not_shine_through)
{
	u64 mtt[256];
	u32 out[MLX5_ST_SZ_DW(query_mkey_out) + 512], key;
	__be64 *e = (__be64 *)((u8 *)out + LIST);
	struct key_attr full = { .mode = MTT, .len = 1, .mtt = mtt, .nr = 256, KEY_ALL };
	struct key_attr empty = { .mode = MTT, .len = 1, .octwords = 128 };

	for (int i = 0; i < 256; i++)
		mtt[i] = 0x1000ULL * (i + 1);
	for (int round = 0; round < 20; round++) {
		key = key_new(m, &full);
		ASSERT_EQ(key_free(m, key), 0);
		key = key_new(m, &empty);
		ASSERT_EQ(key_query(m, key, true, out, LIST + 2048), 0);
		for (int i = 0; i < 256; i++)
			ASSERT_EQ(e[i], 0ull);
		ASSERT_EQ(key_free(m, key), 0);
	}
}

TEST("HM-7.5", query_with_and_without_enable_bits)
{
	static const u64 raw[4] = { 0x1000 | 1, 0x2000 | 2, 0x3000 | 3, 0x4000 };
	struct key_attr a = { .mode = MTT, .len = 1, .mtt = raw, .nr = 4, .pg_access = true };
	u32 out[MLX5_ST_SZ_DW(query_mkey_out) + 16], key = key_new(m, &a), index;
	__be64 *mtt = (__be64 *)((u8 *)out + LIST);
	struct cmd c = base(m, MTT);
	int i;

	ASSERT_EQ(key_query(m, key, true, out, LIST + 32), 0);
	for (i = 0; i < 4; i++)
		ASSERT_EQ(be64_to_cpu(mtt[i]), raw[i]);
	ASSERT_EQ(key_query(m, key, false, out, LIST + 32), 0);
	for (i = 0; i < 4; i++)
		ASSERT_EQ(be64_to_cpu(mtt[i]), raw[i] & ~3ULL);
	/* plain entries were stored with both bits */
	ASSERT_EQ(create(m, &c, &index), 0);
	ASSERT_EQ(key_query(m, index << 8, true, out, LIST + 32), 0);
	for (i = 0; i < 4; i++)
		ASSERT_EQ(be64_to_cpu(mtt[i]), be64_to_cpu(((__be64 *)((u8 *)c.in + LIST))[i]) | 3);
	ASSERT_EQ(key_query(m, index << 8, false, out, LIST + 32), 0);
	for (i = 0; i < 4; i++)
		ASSERT_EQ(mtt[i], ((__be64 *)((u8 *)c.in + LIST))[i]);
}

TEST("HM-7.4", query_answers_as_long_as_asked)
{
	struct cmd c = base(m, MTT);
	u8 out[LIST + 256];
	size_t len;
	u32 index;

	ASSERT_EQ(create(m, &c, &index), 0);	/* 4 octowords: a table of 64 bytes, 4 entries filled */
	for (len = 16; len < 0x50; len += 4)
		ASSERT_CMD(m, key_query(m, index << 8, false, out, len), BAD_OUTP_LEN, MLX5_CMD_OP_QUERY_MKEY, 2);
	memset(out, 0xee, sizeof(out));
	ASSERT_EQ(key_query(m, index << 8, false, out, 0x50), 0);
	ASSERT(!memcmp(out + 0x10, mkc_of(&c), 0x24));
	ASSERT_EQ(out[0x50], 0xee);
	/* an entry that does not fit whole is cut, not left out: min(outlen - 110h, table) */
	ASSERT_EQ(key_query(m, index << 8, false, out, LIST + 8), 0);
	ASSERT(!memcmp(out + LIST, (u8 *)c.in + LIST, 8));
	ASSERT_EQ(out[LIST + 8], 0xee);
	ASSERT(mem_is_zero(out + 0x50, LIST - 0x50));
	ASSERT_EQ(key_query(m, index << 8, false, out, sizeof(out)), 0);
	ASSERT(!memcmp(out + LIST, (u8 *)c.in + LIST, 32));
	ASSERT(mem_is_zero(out + LIST + 32, 256 - 32));
}

TEST("HM-7.4", query_checks)
{
	u32 in[4] = {}, out[32];
	struct cmd c = base(m, PA);
	u32 index;

	ASSERT_EQ(create(m, &c, &index), 0);
	MLX5_SET(query_mkey_in, in, opcode, MLX5_CMD_OP_QUERY_MKEY);
	MLX5_SET(query_mkey_in, in, mkey_index, index);
	MLX5_SET(query_mkey_in, in, op_mod, 1);
	ASSERT_CMD(m, m_exec(m, in, 16, out, 128), BAD_OP, MLX5_CMD_OP_QUERY_MKEY, 1);
	ASSERT_CMD(m, m_exec(m, in, 16, out, 64), BAD_OP, MLX5_CMD_OP_QUERY_MKEY, 1);
	MLX5_SET(query_mkey_in, in, op_mod, 0);
	MLX5_SET(query_mkey_in, in, mkey_index, index + 1);
	ASSERT_CMD(m, m_exec(m, in, 16, out, 128), BAD_RES, MLX5_CMD_OP_QUERY_MKEY, 3);
	ASSERT_CMD(m, m_exec(m, in, 16, out, 64), BAD_OUTP_LEN, MLX5_CMD_OP_QUERY_MKEY, 2);
	/* special keys cannot be looked at */
	for (u32 i = 0; i < 16; i++) {
		MLX5_SET(query_mkey_in, in, mkey_index, i);
		ASSERT_CMD(m, m_exec(m, in, 16, out, 128), BAD_RES, MLX5_CMD_OP_QUERY_MKEY, 3);
	}
	MLX5_SET(query_mkey_in, in, mkey_index, 0xffffff);
	ASSERT_CMD(m, m_exec(m, in, 16, out, 128), BAD_RES, MLX5_CMD_OP_QUERY_MKEY, 3);
}

TEST("HM-7.6", destroy_checks)
{
	u32 in[4] = {}, out[4], index, special;
	struct cmd c = base(m, MTT);
	int bad = MLX5_CMD_OP_DESTROY_MKEY;

	ASSERT_EQ(create(m, &c, &index), 0);
	MLX5_SET(destroy_mkey_in, in, opcode, MLX5_CMD_OP_DESTROY_MKEY);
	MLX5_SET(destroy_mkey_in, in, mkey_index, index);
	MLX5_SET(destroy_mkey_in, in, op_mod, 1);
	ASSERT_CMD(m, m_exec(m, in, 16, out, 16), BAD_OP, bad, 1);
	MLX5_SET(destroy_mkey_in, in, op_mod, 0);
	for (special = 0; special < 16; special++) {
		MLX5_SET(destroy_mkey_in, in, mkey_index, special);
		ASSERT_CMD(m, m_exec(m, in, 16, out, 16), BAD_RES, bad, 2);
	}
	MLX5_SET(destroy_mkey_in, in, mkey_index, index + 1);
	ASSERT_CMD(m, m_exec(m, in, 16, out, 16), BAD_RES, bad, 2);
	MLX5_SET(destroy_mkey_in, in, mkey_index, index);
	MLX5_SET(destroy_mkey_in, in, uid, 3);
	ASSERT_CMD(m, m_exec(m, in, 16, out, 16), BAD_RES, bad, 3);
	/* the key is still there; the variant is not asked for */
	MLX5_SET(destroy_mkey_in, in, uid, 0);
	m_must(m, in, 16, out, 16);
	ASSERT_CMD(m, m_exec(m, in, 16, out, 16), BAD_RES, bad, 2);
	/* free keys can go as well */
	c = base(m, MTT);
	MLX5_SET(mkc, mkc_of(&c), free, 1);
	ASSERT_EQ(create(m, &c, &index), 0);
	ASSERT_EQ(key_free(m, index << 8 | 0x99), 0);
}

static u8 *find_in_firmware_pages(struct machine *m, const void *what, size_t len, size_t align)
{
	for (unsigned int i = 0; i < m->nr_fw; i++)
		for (size_t at = 0; m->fw[i].given && at + len <= 4096; at += align)
			if (!memcmp(m->fw[i].cpu + at, what, len))
				return m->fw[i].cpu + at;
	return NULL;
}

TEST("HM-2.14", a_dump_of_the_pages_shows_mkc_and_table)
{
	u32 out[MLX5_ST_SZ_DW(query_mkey_out) + 16], index;
	u8 mtt[64] = {};
	struct cmd c = base(m, MTT);
	u8 *p;

	/* something that is nowhere else */
	MLX5_SET64(mkc, mkc_of(&c), start_addr, 0x5eed5eed5eed0e00ULL);
	ASSERT_EQ(create(m, &c, &index), 0);
	ASSERT_EQ(key_query(m, index << 8, true, out, sizeof(out)), 0);
	p = find_in_firmware_pages(m, (u8 *)out + 0x10, 64, 64);
	ASSERT(p);
	/* entry i of the MPT is at 64 * i */
	ASSERT_EQ(offset_in_page(p), index % 64 * 64ul);
	for (int i = 0; i < 4; i++)
		put_unaligned_be64(be64_to_cpu(((__be64 *)((u8 *)c.in + LIST))[i]) | 3, mtt + 8 * i);
	ASSERT(find_in_firmware_pages(m, mtt, sizeof(mtt), 64));
	/* and it is the truth, not a copy: what stands there is what QUERY_MKEY says */
	ASSERT_EQ(key_free(m, index << 8), 0);
}

TEST("scale", a_hundred_thousand_keys)
{
	u32 *key = malloc(100000 * sizeof(*key)), i;
	struct mem mem = mem_new(m, 64 * 4096);
	struct pair p = pair_new(m);
	struct key_attr a = { .mode = MTT, KEY_ALL, .len = 4096, .nr = 1 };
	unsigned int given;
	u32 out[MLX5_ST_SZ_DW(query_mkey_out)];

	mem_fill(&mem, 0, mem.len, 9);
	for (i = 0; i < 100000; i++) {
		u64 mtt = mem_dma(&mem, i % 64 * 4096);

		a.mtt = &mtt;
		a.start = 0x1000000000ULL + 4096ULL * i;
		a.variant = i;
		key[i] = key_new(m, &a);
		ASSERT_EQ(key[i] >> 8, (key[0] >> 8) + i);
	}
	given = m->fw_given;
	/* 1563 pages of MKCs and as many of tables, and no more than the marks allow on top */
	ASSERT_GE(given, 3126u);
	ASSERT_LE(given, 3126u + 80 + 256 + 64 + 256);
	for (i = 0; i < 100000; i += 997) {
		ASSERT_EQ(key_query(m, key[i], false, out, sizeof(out)), 0);
		ASSERT_EQ(MLX5_GET64(query_mkey_out, out, memory_key_mkey_entry.start_addr), 0x1000000000ULL + 4096ULL * i);
		post_read(p.a, p.lkey, p.s, 64, key[i], 0x1000000000ULL + 4096ULL * i + 64);
		EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, p.a->sq_pi - 1);
		cq_update(p.a->scq);
		ASSERT_PATTERN(&p.src, PAIR_OFFSET, 64, 9, i % 64 * 4096 + 64);
	}
	for (i = 0; i < 100000; i++)
		ASSERT_EQ(key_free(m, key[i]), 0);
	shim_advance(5000000000ULL);
	/* the surplus went home */
	ASSERT_LE(m->fw_given, 80u + 768);
	free(key);
}

/* the full million takes longer than the rest together */
TEST("HM-7.8", the_last_index_and_then_none)
{
	struct key_attr a = { .mode = PA, .length64 = true };
	u32 n, key = 0;

	if (!unit_slow())
		SKIP("SLOW=1 makes a million keys");
	for (n = 0; n < (1u << 20) - 16; n++)
		if (key_try(m, &a, &key))
			FAIL("key %u: syndrome %#x", n, m->syndrome);
	ASSERT_CMD(m, key_try(m, &a, &key), MLX5_CMD_STAT_LIM_ERR, CREATE, 20);
	ASSERT_EQ(key_free(m, 0x12345 << 8), 0);
	ASSERT_EQ(key_try(m, &a, &key), 0);
	ASSERT_EQ(key >> 8, 0x12345u);
}

/* 64 keys at any time, with tables of every kind: no page of ICM and no index is lost on the way */
TEST("HM-11.4 case 18", cycles_leave_nothing_behind)
{
	/* none; in shared pages; one page and three of their own */
	static const u32 octwords[] = { 0, 1, 5, 128, 200, 700 };
	enum { LIVE = 64 };
	unsigned int cycles = unit_rounds(70000), free, requests, n;
	u32 live[LIVE] = {}, prev = 0;
	struct pair p = pair_new(m);

	/* no request and no surplus: the HCA lives on what it has */
	pages_give(m, 700 - pages_free_now(m));
	free = pages_free_now(m);
	requests = m->page_requests;
	for (n = 0; n < cycles + LIVE; n++) {
		u32 size = octwords[n % ARRAY_SIZE(octwords)], *key = &live[n % LIVE], old = *key;
		struct key_attr a = { KEY_ALL, .mode = size ? MTT : PA, .len = 4096, .length64 = !size, .octwords = size,
				      .variant = n };

		if (old)
			ASSERT_EQ(key_free(m, old), 0);
		if (n >= cycles) {
			*key = 0;
			continue;
		}
		*key = key_new(m, &a);
		if (n)
			ASSERT_EQ(*key >> 8, (prev >> 8) + 1);
		prev = *key;
		if (old)
			ASSERT_EQ(syndrome_of(m, p.a, old, 0, 1), HCA_VS_LEVEL0 | HCA_CHECK_NO_MKC);
		for (unsigned int i = 0; n % 1000 == 0 && i < LIVE; i++)
			if (live[i])
				ASSERT_NE(syndrome_of(m, p.a, live[i], 0, 1), HCA_VS_LEVEL0 | HCA_CHECK_NO_MKC);
	}
	ASSERT_EQ(pages_free_now(m), free);
	ASSERT_EQ(m->page_requests, requests);
	if (!unit_slow())
		return;
	/* all indices but those that are never handed out and the two of the pair */
	for (n = 0; !key_try(m, &(struct key_attr){ .mode = PA, .length64 = true }, &prev); n++)
		;
	ASSERT_EQ(n, (1u << 20) - 16 - 2);
}

/* each allocation of each creating command fails once: LIM_ERR or NO_RES, nothing changed, nothing leaked */

static u8 make_mkey(struct machine *m, bool undo)
{
	static u32 key;
	u64 mtt[1024] = {};
	struct key_attr a = { .mode = MTT, .len = 1, .mtt = mtt, .nr = 1024 };

	return undo ? key_free(m, key) : key_try(m, &a, &key);
}

/* one more than a page holds, so that the pages that stay behind are not enough */
static u8 make_small_mkeys(struct machine *m, bool undo)
{
	static u32 key[65];
	struct key_attr a = { .mode = MTT, .len = 1, .octwords = 1 };
	u8 status = 0;
	u32 n = 0;

	if (undo)
		n = ARRAY_SIZE(key);
	while (n < ARRAY_SIZE(key) && !status) {
		status = key_try(m, &a, &key[n]);
		n += !status;
	}
	while ((undo || status) && n)
		ASSERT_EQ(key_free(m, key[--n]), 0);
	return status;
}

static u8 make_pd(struct machine *m, bool undo)
{
	u32 in[4] = {}, out[4];
	static u32 pd;
	u8 status;

	if (undo)
		return pd_free(m, pd);
	MLX5_SET(alloc_pd_in, in, opcode, MLX5_CMD_OP_ALLOC_PD);
	status = m_exec(m, in, 16, out, 16);
	pd = MLX5_GET(alloc_pd_out, out, pd);
	return status;
}

static u8 (*creations[])(struct machine *m, bool undo) = { make_mkey, make_small_mkeys, make_pd };

TEST("faults", each_allocation_fails_once)
{
	for (size_t i = 0; i < ARRAY_SIZE(creations); i++) {
		unsigned int free = pages_free_now(m);
		unsigned long n, alive;

		shim_run();
		/* the first run may enlarge tables that stay large */
		ASSERT_EQ(creations[i](m, false), 0);
		ASSERT_EQ(creations[i](m, true), 0);
		shim_run();
		alive = shim_allocs_alive();
		for (n = 1; n < 100; n++) {
			u8 status;

			shim_fail_nth(n);
			status = creations[i](m, false);
			if (!shim_failed()) {
				shim_fail_nth(0);
				ASSERT_EQ(status, 0);
				ASSERT_EQ(creations[i](m, true), 0);
				break;
			}
			shim_fail_nth(0);
			shim_run();
			if (!status)
				FAIL("creation %zu succeeds although allocation %lu failed", i, n);
			ASSERT(status == MLX5_CMD_STAT_LIM_ERR || status == NO_RES);
			if (shim_allocs_alive() != alive)
				FAIL("creation %zu, allocation %lu: %ld allocations more", i, n,
				     (long)(shim_allocs_alive() - alive));
		}
		ASSERT_GT(n, 1ul);
		ASSERT_LT(n, 100ul);
		ASSERT_EQ(pages_free_now(m), free);
	}
}
