// SPDX-License-Identifier: GPL-2.0
/*
 * Device memory: HM 4.6, 13.2. hca_bar() is what a process maps; keys of mode MEMIC are what queues see of it.
 */
#include <linux/kernel.h>

#include "unit.h"

#define BAD_PARAM	MLX5_CMD_STAT_BAD_PARAM_ERR
#define BAD_RES		MLX5_CMD_STAT_BAD_RES_ERR
#define NO_RES		MLX5_CMD_STAT_NO_RES_ERR
#define RES_BUSY	MLX5_CMD_STAT_RES_BUSY
#define CREATE		MLX5_CMD_OP_CREATE_MKEY
#define MEMIC		MLX5_MKC_ACCESS_MODE_MEMIC

#define A(check)	(HCA_VS_LEVEL0 | HCA_CHECK_##check)
#define B(check)	(HCA_VS_NESTED | HCA_CHECK_##check)

struct bar {
	u8 *p;
	size_t size;
};

static struct bar bar_of(struct machine *m)
{
	struct bar b;

	b.p = hca_bar(m->hca, &b.size);
	return b;
}

/* anywhere in the BAR */
static u64 memory(struct machine *m, u32 size)
{
	u64 at;

	if (memic_alloc(m, size, 0, 0, bar_of(m).size, &at))
		FAIL("ALLOC_MEMIC of %u bytes: syndrome %#x", size, m->syndrome);
	return at;
}

static struct key_attr memic_key(u64 at, u64 len)
{
	return (struct key_attr){ .mode = MEMIC, KEY_ALL, .start = at, .len = len, .variant = 0x19 };
}

static u32 memic_cap(struct machine *m, bool bar_size)
{
	u32 q[MLX5_ST_SZ_DW(query_hca_cap_in)] = {}, cap[MLX5_ST_SZ_DW(query_hca_cap_out)];
	void *c = MLX5_ADDR_OF(query_hca_cap_out, cap, capability);

	MLX5_SET(query_hca_cap_in, q, opcode, MLX5_CMD_OP_QUERY_HCA_CAP);
	MLX5_SET(query_hca_cap_in, q, op_mod, MLX5_CAP_DEV_MEM << 1 | 1);
	m_must(m, q, sizeof(q), cap, sizeof(cap));
	ASSERT_EQ(MLX5_GET(device_mem_cap, c, memic), 1u);
	ASSERT_EQ(MLX5_GET64(device_mem_cap, c, memic_bar_start_addr), 0ull);
	/* MODIFY_MEMIC, SW ICM: not offered */
	ASSERT_EQ(MLX5_GET(device_mem_cap, c, memic_operations), 0u);
	ASSERT_EQ(MLX5_GET(device_mem_cap, c, log_steering_sw_icm_size), 0u);
	return bar_size ? MLX5_GET(device_mem_cap, c, memic_bar_size) : MLX5_GET(device_mem_cap, c, max_memic_size);
}

TEST("HM-13.4", what_there_is)
{
	struct bar b = bar_of(m);

	ASSERT(b.p);
	ASSERT_EQ((unsigned long)b.p % PAGE_SIZE, 0ul);
	ASSERT_EQ(b.size, 128ul << 10);
	ASSERT_EQ(memic_cap(m, true), b.size);
	ASSERT_LE(memic_cap(m, false), b.size);
	ASSERT_GT(memic_cap(m, false), 0u);
	/* the same every time */
	ASSERT_EQ(bar_of(m).p, b.p);
}

TEST("HM-13.4", reads_writes_and_atomics)
{
	struct bar b = bar_of(m);
	struct pair p = pair_new(m);
	u64 at = memory(m, 0x2000);
	struct key_attr a = memic_key(at + 0x340, 0x1000);
	u32 key = key_new(m, &a);
	struct hca_explain_step step;
	struct walk w;
	u64 *word = (u64 *)(b.p + at + 0x340 + 0x10);

	/* zero-based: address 0 is the first byte of the key */
	ASSERT_EQ(write_by_peer(&p, key, 0, 0x1000), 0);
	ASSERT(!memcmp(b.p + at + 0x340, p.src.cpu + PAIR_OFFSET, 0x1000));
	ASSERT(mem_is_zero(b.p + at, 0x340));
	ASSERT(mem_is_zero(b.p + at + 0x1340, 0xcc0));
	for (int i = 0; i < 0x1000; i++)
		b.p[at + 0x340 + i] = i * 7;
	ASSERT_EQ(read_by_peer(&p, key, 0x101, 0xeff), 0);
	for (int i = 0; i < 0xeff; i++)
		ASSERT_EQ(p.src.cpu[PAIR_OFFSET + i], (u8)((i + 0x101) * 7));
	*word = 40;
	ASSERT_EQ(add_by_peer(&p, key, 0x10, 2), 0);
	ASSERT_EQ(*word, 42ull);
	post_atomic(p.a, MLX5_OPCODE_ATOMIC_CS, p.lkey, p.s, key, 0x10, 7, 42);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, p.a->sq_pi - 1);
	ASSERT_EQ(*word, 7ull);
	/* as an lkey, on both ends */
	post_recv(p.b, key, 0x800, 0x100);
	post_send(p.a, key, 0, 0x100);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, p.a->sq_pi - 1);
	EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_SEND, 0);
	ASSERT(!memcmp(b.p + at + 0x340, b.p + at + 0xb40, 0x100));
	/* bounds */
	ASSERT_EQ(read_by_peer(&p, key, 0xfff, 1), 0);
	ASSERT_EQ(read_by_peer(&p, key, 0xfff, 2), A(BOUNDS));
	pair_revive(&p);
	ASSERT_EQ(read_by_peer(&p, key, 0x1000, 1), A(BOUNDS));
	pair_revive(&p);
	ASSERT_EQ(read_by_peer(&p, key, at + 0x340, 0x1000), A(BOUNDS));
	pair_revive(&p);
	ASSERT_EQ(syndrome_of(m, p.a, key, ~0ULL, 1), A(BOUNDS));
	ASSERT_EQ(syndrome_of(m, p.a, key, ~0ULL, 2), A(BOUNDS));
	ASSERT_EQ(syndrome_of(m, p.a, key, 1, ~0ULL), A(BOUNDS));
	/* explained: the offset in the BAR takes the place of the address */
	w = explain(m, p.a, key, 0x20, 0x40, HCA_ACCESS_READ, true);
	ASSERT_EQ(w.syndrome, 0);
	ASSERT_EQ(w.n, 1);
	step = w.step[0];
	ASSERT_EQ(step.access_mode, MEMIC);
	ASSERT_EQ(step.dma, at + 0x360);
	ASSERT_EQ(step.len, 0x40ull);
}

TEST("HM-13.4", rights)
{
	struct pair p = pair_new(m);
	u64 at = memory(m, 4096);
	struct key_attr a = memic_key(at, 4096);
	u32 pd = pd_new(m);

	a.rw = false;
	ASSERT_EQ(write_by_peer(&p, key_new(m, &a), 0, 8), A(REMOTE));
	pair_revive(&p);
	a.rr = false;
	ASSERT_EQ(read_by_peer(&p, key_new(m, &a), 0, 8), A(REMOTE));
	pair_revive(&p);
	a.a = false;
	ASSERT_EQ(add_by_peer(&p, key_new(m, &a), 0, 8), A(ATOMIC));
	pair_revive(&p);
	a.lw = false;
	post_read(p.a, key_new(m, &a), 0, 8, p.rkey, p.d);
	EXPECT_REQ_ERR(p.a, 0, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, A(LOCAL));
	pair_revive(&p);
	a = memic_key(at, 4096);
	a.pd = pd;
	ASSERT_EQ(read_by_peer(&p, key_new(m, &a), 0, 8), A(PD));
}

TEST("HM-13.4", memory_in_use_stays)
{
	u64 at = memory(m, 0x1000);
	struct key_attr a = memic_key(at + 0x800, 0x800);
	u32 one = key_new(m, &a), two = key_new(m, &a);

	ASSERT_CMD(m, memic_free(m, at, 0x1000), RES_BUSY, MLX5_CMD_OP_DEALLOC_MEMIC, 3);
	ASSERT_EQ(key_free(m, one), 0);
	ASSERT_EQ(memic_free(m, at, 0x1000), RES_BUSY);
	ASSERT_EQ(key_free(m, two), 0);
	ASSERT_EQ(memic_free(m, at, 0x1000), 0);
	ASSERT_EQ(memic_free(m, at, 0x1000), BAD_RES);
	/* a failed creation holds nothing */
	at = memory(m, 0x1000);
	a = memic_key(at, 0x1000);
	a.no_lr = true;
	ASSERT_EQ(key_try(m, &a, &one), BAD_PARAM);
	a = memic_key(at, 0x1001);
	ASSERT_CMD(m, key_try(m, &a, &one), BAD_RES, CREATE, 18);
	ASSERT_EQ(memic_free(m, at, 0x1000), 0);
}

TEST("HM-13.4", allocation)
{
	struct bar b = bar_of(m);
	u64 at[40], first;
	u32 i, n;

	/* the size: a multiple of 64, and not nothing */
	for (u32 size = 0; size <= 130; size++) {
		u8 status = memic_alloc(m, size, 0, 0, b.size, &first);

		if (size && size % 64 == 0)
			ASSERT_EQ(status, 0);
		else
			ASSERT_EQ(status, BAD_PARAM);
		if (!status)
			ASSERT_EQ(memic_free(m, first, size), 0);
	}
	/* no two share a byte */
	for (i = 0; i < ARRAY_SIZE(at); i++) {
		at[i] = memory(m, 192);
		ASSERT_EQ(at[i] % 64, 0ull);
		ASSERT_LE(at[i] + 192, b.size);
		for (u32 k = 0; k < i; k++)
			ASSERT(at[i] >= at[k] + 192 || at[k] >= at[i] + 192);
	}
	/* alignment: 64 * 2^n */
	for (n = 0; n <= 6; n++) {
		ASSERT_EQ(memic_alloc(m, 64, n, 0, b.size, &first), 0);
		ASSERT_EQ(first % (64u << n), 0ull);
		ASSERT_EQ(memic_free(m, first, 64), 0);
	}
	for (i = 0; i < ARRAY_SIZE(at); i++)
		ASSERT_EQ(memic_free(m, at[i], 192), 0);
	/* to the last byte, and then none: the driver goes on to the next page on NO_RES */
	first = memory(m, b.size);
	ASSERT_EQ(first, 0ull);
	ASSERT_EQ(memic_alloc(m, 64, 0, 0, b.size, &first), NO_RES);
	ASSERT_EQ(memic_free(m, 0, b.size), 0);
	/* in the range that was asked for, page by page as the driver does */
	for (u64 page = 0; page < b.size / 4096; page++) {
		ASSERT_EQ(memic_alloc(m, 4096, 0, page * 4096, 4096, &first), 0);
		ASSERT_EQ(first, page * 4096);
		ASSERT_EQ(memic_alloc(m, 64, 0, page * 4096, 4096, &first), NO_RES);
	}
	/* only whole, by its own address and size */
	ASSERT_EQ(memic_free(m, 64, 4096), BAD_RES);
	ASSERT_NE(memic_free(m, 0, 64), 0);
	ASSERT_EQ(memic_free(m, 4096, 4096), 0);
	ASSERT_EQ(memic_alloc(m, 4096, 0, 0, b.size, &first), 0);
	ASSERT_EQ(first, 4096ull);
	/* what does not lie in the BAR */
	ASSERT_NE(memic_alloc(m, 64, 0, b.size, 4096, &first), 0);
	ASSERT_NE(memic_alloc(m, 64, 0, ~0ULL << 12, 4096, &first), 0);
	ASSERT_NE(memic_alloc(m, 64, 0, ~0ULL << 12, ~0u, &first), 0);
	ASSERT_NE(memic_alloc(m, ~63u, 0, 0, ~0u, &first), 0);
	ASSERT_NE(memic_alloc(m, 64, 255, 0, b.size, &first), 0);
	ASSERT_NE(memic_alloc(m, 64, 63, 0, b.size, &first), 0);
}

/* pages go from process to process */
TEST("HM-13.4", memory_comes_without_its_past)
{
	struct bar b = bar_of(m);
	u64 at = memory(m, 4096);

	memset(b.p + at, 0x5a, 4096);
	ASSERT_EQ(memic_free(m, at, 4096), 0);
	ASSERT_EQ(memory(m, 4096), at);
	ASSERT(mem_is_zero(b.p + at, 4096));
}

TEST("HM-7.1 HM-13.4", keys_over_device_memory)
{
	u64 low = memory(m, 0x1000), high = memory(m, 0x1000);
	struct key_attr a;
	u32 key;
	static const struct { s64 from; u64 len; bool ok; } row[] = {
		{ 0, 0x1000, true }, { 0xfff, 1, true }, { 0, 0, true }, { 0, 0x1001, false }, { 0xfff, 2, false },
		{ 0x3000, 1, false }, { 0x800, ~0ULL - 0x2000, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		a = memic_key(low + row[i].from, row[i].len);
		if (row[i].ok)
			ASSERT_EQ(key_try(m, &a, &key), 0);
		else
			ASSERT_CMD(m, key_try(m, &a, &key), BAD_RES, CREATE, 18);
	}
	/* two allocations that are neighbours are not one */
	ASSERT_EQ(high, low + 0x1000);
	a = memic_key(low + 0x800, 0x1000);
	ASSERT_CMD(m, key_try(m, &a, &key), BAD_RES, CREATE, 18);
	/* an end that wraps, also with length64 */
	a = memic_key(~0ULL, 2);
	ASSERT_CMD(m, key_try(m, &a, &key), BAD_PARAM, CREATE, 10);
	a.length64 = true;
	ASSERT_NE(key_try(m, &a, &key), 0);
	/* no table, no UMR, no remote invalidation */
	a = memic_key(low, 64);
	a.octwords = 4;
	ASSERT_CMD(m, key_try(m, &a, &key), BAD_PARAM, CREATE, 12);
	a = memic_key(low, 64);
	a.umr_en = true;
	ASSERT_CMD(m, key_try(m, &a, &key), BAD_PARAM, CREATE, 15);
	a = memic_key(low, 64);
	a.en_rinval = true;
	ASSERT_CMD(m, key_try(m, &a, &key), BAD_PARAM, CREATE, 17);
	/* whatever length64 says, the key ends where its memory does */
	a = memic_key(low, 64);
	a.length64 = true;
	if (!key_try(m, &a, &key)) {
		struct pair p = pair_new(m);

		ASSERT_NE(read_by_peer(&p, key, 0x2000, 1), 0);
	}
}

/* below a list, and as a UMR's list */
TEST("HM-13.4 HM-4.18", device_memory_nests)
{
	struct bar b = bar_of(m);
	struct pair p = pair_new(m);
	struct qp *umr = umr_qp_new(m);
	u64 at = memory(m, 0x1000);
	struct key_attr a = memic_key(at, 0x1000);
	u32 key = key_new(m, &a), list = klm_new(m, (struct klm[]){ { 0x100, p.rkey, p.d }, { 0x400, key, 0xe00 } }, 2);
	struct umr u = { .key = key, .flags = UMR_INLINE, .mask = UMR_FREE };

	for (int i = 0; i < 0x1000; i++)
		b.p[at + i] = i * 3;
	ASSERT_EQ(read_by_peer(&p, list, 0xc0, 0x100), 0);
	ASSERT_PATTERN(&p.src, PAIR_OFFSET, 0x40, 2, PAIR_OFFSET + 0xc0);
	for (int i = 0; i < 0xc0; i++)
		ASSERT_EQ(p.src.cpu[PAIR_OFFSET + 0x40 + i], (u8)((0xe00 + i) * 3));
	ASSERT_EQ(read_by_peer(&p, list, 0x2ff, 1), 0);
	ASSERT_EQ(read_by_peer(&p, list, 0x2ff, 2), B(BOUNDS));
	pair_revive(&p);
	UMR_REFUSED(umr, &u, BIND_ERR, 0xc1);
	/* entries that lie in device memory */
	struct key_attr k = { .mode = MLX5_MKC_ACCESS_MODE_KLMS, KEY_ALL, .umr_en = true, .octwords = 4, .len = 0x40 };
	struct umr load = { .octwords = 4, .lkey = key, .byte_count = 64, .addr = 0x800 };

	memset(b.p + at + 0x800, 0, 64);
	klm_put(b.p + at + 0x800, 0, (struct klm){ 0x40, p.rkey, p.d + 0x10 });
	load.key = key_new(m, &k);
	UMR_OK(p.a, &load);
	ASSERT_EQ(read_by_peer(&p, load.key, 0, 0x40), 0);
	ASSERT_PATTERN(&p.src, PAIR_OFFSET, 0x40, 2, PAIR_OFFSET + 0x10);
}

/* memory, keys and all, that nobody gave back */
TEST("HM-13.4", left_behind)
{
	u64 at = memory(m, 0x1000);
	struct key_attr a = memic_key(at, 0x1000);

	memory(m, 64);
	key_new(m, &a);
	klm_new(m, (struct klm[]){ { 0x100, key_new(m, &a), 0 } }, 1);
}
