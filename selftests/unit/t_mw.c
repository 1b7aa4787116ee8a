// SPDX-License-Identifier: GPL-2.0
/*
 * Memory windows: HM section 10, by the WQEs that libmlx5 writes. What the engine must not care about is tested as much as
 * what it must: a bind looks neither at the region nor at its rights.
 */
#include <linux/kernel.h>
#include <linux/unaligned.h>

#include "unit.h"

#define A(check)	(HCA_VS_LEVEL0 | HCA_CHECK_##check)
#define B(check)	(HCA_VS_NESTED | HCA_CHECK_##check)

#define READ_WRITE	(UMR_LW | UMR_RR | UMR_RW)

/* binds @w by @qp and returns its key from now on */
static u32 bind(struct qp *qp, struct window *w, u8 variant, u32 mr, u64 addr, u64 len, u64 rights)
{
	u8 list[64];
	struct umr u = window_bind(w, qp, variant, mr, addr, len, rights, false, list);

	UMR_OK(qp, &u);
	w->key = (w->key & ~0xffu) | variant;
	return w->key;
}

TEST("HM-10.1", type_1)
{
	struct pair p = pair_new(m);
	struct window w = window_new(m, 1, 0);
	struct key_dump d;
	struct umr u;
	u32 one, two;

	ASSERT_EQ(read_by_peer(&p, w.key, p.d, 16), A(FREE));
	pair_revive(&p);
	one = bind(p.a, &w, 1, p.rkey, p.d + 0x100, 0x200, UMR_RIGHTS);
	d = key_dump(m, one);
	ASSERT_EQ(get_unaligned_be32(d.mkc + 4), 0xffffff01u);
	ASSERT_EQ(get_unaligned_be64(d.mkc + 0x10), p.d + 0x100);
	ASSERT_EQ(get_unaligned_be64(d.mkc + 0x18), 0x200ull);
	/* lr as created, the rights that were asked for, umr_en, KLM */
	ASSERT_EQ(get_unaligned_be16(d.mkc + 2), 0xfe00);
	ASSERT_EQ(read_by_peer(&p, one, p.d + 0x100, 0x200), 0);
	ASSERT_PATTERN(&p.src, PAIR_OFFSET, 0x200, 2, PAIR_OFFSET + 0x100);
	ASSERT_EQ(read_by_peer(&p, one, p.d + 0xff, 1), A(BOUNDS));
	pair_revive(&p);
	ASSERT_EQ(read_by_peer(&p, one, p.d + 0x2ff, 2), A(BOUNDS));
	pair_revive(&p);
	/* rebind while bound, by any queue of the domain */
	two = bind(p.b, &w, 2, p.rkey, p.d + 0x800, 0x100, UMR_RR);
	ASSERT_EQ(read_by_peer(&p, one, p.d + 0x800, 16), A(VARIANT));
	pair_revive(&p);
	ASSERT_EQ(read_by_peer(&p, two, p.d + 0x800, 0x100), 0);
	ASSERT_EQ(write_by_peer(&p, two, p.d + 0x800, 16), A(REMOTE));
	pair_revive(&p);
	/* zero length */
	u = window_unbind(&w, 3);
	UMR_OK(p.a, &u);
	ASSERT_EQ(read_by_peer(&p, (w.key & ~0xffu) | 3, p.d + 0x800, 16), A(FREE));
	pair_revive(&p);
	ASSERT_EQ(read_by_peer(&p, two, p.d + 0x800, 16), A(FREE));
	pair_revive(&p);
	/* and again: a window that is not bound may be unbound */
	UMR_OK(p.a, &u);
	one = bind(p.a, &w, 4, p.rkey, p.d, 16, UMR_RR);
	ASSERT_EQ(read_by_peer(&p, one, p.d, 16), 0);
}

TEST("HM-10.2", type_2_is_bound_once)
{
	struct pair p = pair_new(m);
	struct window w = window_new(m, 2, 0);
	u8 list[64];
	u32 key = bind(p.b, &w, 0x51, p.rkey, p.d, 0x100, READ_WRITE);
	struct umr u = window_bind(&w, p.b, 0x52, p.rkey, p.d, 0x200, READ_WRITE, false, list);

	UMR_REFUSED(p.b, &u, BIND_ERR, 0xc4);
	ASSERT_EQ(get_unaligned_be32(key_dump(m, key).mkc + 4), p.b->qpn << 8 | 0x51);
	ASSERT_EQ(read_by_peer(&p, key, p.d, 0x100), 0);
	/* from another queue neither */
	u = window_bind(&w, p.a, 0x52, p.rkey, p.d, 0x200, READ_WRITE, false, list);
	UMR_REFUSED(p.a, &u, BIND_ERR, 0xc4);
}

TEST("HM-10.3", type_2_belongs_to_its_queue)
{
	struct pair p = pair_new(m), q = pair_new(m);
	struct window w1 = window_new(m, 1, 0), w2 = window_new(m, 2, 0);
	u32 k1 = bind(p.b, &w1, 1, p.rkey, p.d, 0x100, READ_WRITE | UMR_A);
	u32 k2 = bind(p.b, &w2, 1, p.rkey, p.d, 0x100, READ_WRITE | UMR_A);
	u64 va = ALIGN(p.d, 8);

	ASSERT_EQ(read_by_peer(&p, k2, p.d, 16), 0);
	ASSERT_EQ(write_by_peer(&p, k2, p.d, 16), 0);
	ASSERT_EQ(add_by_peer(&p, k2, va, 1), 0);
	ASSERT_EQ(read_by_peer(&q, k1, p.d, 16), 0);
	ASSERT_EQ(write_by_peer(&q, k1, p.d, 16), 0);
	ASSERT_EQ(read_by_peer(&q, k2, p.d, 16), A(QPN));
	pair_revive(&q);
	ASSERT_EQ(write_by_peer(&q, k2, p.d, 16), A(QPN));
	pair_revive(&q);
	ASSERT_EQ(add_by_peer(&q, k2, va, 1), A(QPN));
	pair_revive(&q);
	/* it is the responder's number that counts, not that of its peer */
	w2 = window_new(m, 2, 0);
	k2 = bind(p.a, &w2, 1, p.rkey, p.d, 0x100, READ_WRITE);
	ASSERT_EQ(read_by_peer(&p, k2, p.d, 16), A(QPN));
}

TEST("HM-10.4", unbinding_what_was_never_bound)
{
	struct pair p = pair_new(m);
	struct window w = window_new(m, 2, 0);
	struct umr u = window_unbind(&w, 9);

	UMR_REFUSED(p.b, &u, BIND_ERR, 0xc6);
	/* bound it may be, once */
	bind(p.b, &w, 8, p.rkey, p.d, 0x100, READ_WRITE);
	u = window_unbind(&w, 9);
	UMR_OK(p.b, &u);
	ASSERT_EQ(read_by_peer(&p, w.key, p.d, 16), A(FREE));
	pair_revive(&p);
	UMR_REFUSED(p.b, &u, BIND_ERR, 0xc6);
}

TEST("HM-10.5 case 1", a_window_beyond_its_region)
{
	struct pair p = pair_new(m);

	for (u8 type = 1; type <= 2; type++) {
		static const struct { u64 at; u64 len; } row[] = { { 0, 0x3000 }, { 0x1fff, 2 }, { 0x5000, 0x1000 }, { -0x100ULL, 0x200 },
			{ 0, 1u << 31 } };

		for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
			struct window w = window_new(m, type, 0);
			u64 from = p.d + row[i].at, end = from + row[i].len;
			u32 key = bind(p.b, &w, 1, p.rkey, from, row[i].len, READ_WRITE);

			/* inside, up to the last byte of the region; outside, from the first on */
			if (from <= p.d + p.len - 1 && end > p.d) {
				u64 first = max(from, p.d), last = min(end, p.d + p.len) - 1;

				ASSERT_EQ(read_by_peer(&p, key, first, 1), 0);
				ASSERT_EQ(read_by_peer(&p, key, last, 1), 0);
			}
			if (end > p.d + p.len) {
				ASSERT_EQ(read_by_peer(&p, key, end - 1, 1), B(BOUNDS));
				pair_revive(&p);
			}
			if (from < p.d) {
				ASSERT_EQ(read_by_peer(&p, key, from, row[i].len), B(BOUNDS));
				pair_revive(&p);
			}
		}
	}
	/* a range that wraps the address space is refused */
	struct window w = window_new(m, 1, 0);
	u8 list[64];
	struct umr u = window_bind(&w, p.b, 1, p.rkey, ~0ULL - 0xff, 0x101, READ_WRITE, false, list);

	UMR_REFUSED(p.b, &u, BIND_ERR, 0xca);
	bind(p.b, &w, 1, p.rkey, ~0ULL - 0xff, 0x100, READ_WRITE);
	ASSERT_EQ(read_by_peer(&p, w.key, ~0ULL - 0xff, 0x100), B(BOUNDS));
	pair_revive(&p);
	ASSERT_EQ(read_by_peer(&p, w.key, ~0ULL, 2), A(BOUNDS));
}

TEST("HM-10.6", remote_write_over_read_only_memory)
{
	struct pair p = pair_new(m);
	u32 mr = mr_new_attr(m, &p.dst, PAIR_OFFSET, p.len, p.d, (struct key_attr){ .rr = true, .rw = true, .a = true });

	for (u8 type = 1; type <= 2; type++) {
		struct window w = window_new(m, type, 0);
		u32 key = bind(p.b, &w, 1, mr, p.d, p.len, READ_WRITE | UMR_A);

		ASSERT_EQ(read_by_peer(&p, key, p.d, 16), 0);
		ASSERT_EQ(write_by_peer(&p, key, p.d, 16), B(LOCAL));
		pair_revive(&p);
		ASSERT_EQ(add_by_peer(&p, key, ALIGN(p.d, 8), 1), B(LOCAL));
		pair_revive(&p);
		ASSERT_PATTERN(&p.dst, 0, p.dst.len, 2, 0);
	}
}

TEST("HM-10.7 case 2", other_domains)
{
	struct pair p = pair_new(m);
	u32 pd = pd_new(m), foreign = mr_new_attr(m, &p.dst, PAIR_OFFSET, p.len, p.d, (struct key_attr){ KEY_ALL, .pd = pd });

	for (u8 type = 1; type <= 2; type++) {
		struct window theirs = window_new(m, type, pd), ours = window_new(m, type, 0);
		u8 list[64];
		struct umr u;
		u32 key;

		/* the window of another PD, over a region of ours or of theirs: refused, nothing bound */
		u = window_bind(&theirs, p.b, 1, p.rkey, p.d, 0x100, READ_WRITE, false, list);
		UMR_REFUSED(p.b, &u, BIND_ERR, 0xc3);
		u = window_bind(&theirs, p.b, 1, foreign, p.d, 0x100, READ_WRITE, false, list);
		UMR_REFUSED(p.b, &u, BIND_ERR, 0xc3);
		u = window_unbind(&theirs, 1);
		UMR_REFUSED(p.b, &u, BIND_ERR, 0xc3);
		/* our window over their region: found at access (10.2) */
		key = bind(p.b, &ours, 1, foreign, p.d, 0x100, READ_WRITE);
		ASSERT_EQ(read_by_peer(&p, key, p.d, 16), B(PD));
		pair_revive(&p);
		ASSERT_EQ(write_by_peer(&p, key, p.d, 16), B(PD));
		pair_revive(&p);
		ASSERT_PATTERN(&p.dst, 0, p.dst.len, 2, 0);
	}
}

TEST("HM-10.8", the_region_goes_first)
{
	struct pair p = pair_new(m);
	struct qp *umr = umr_qp_new(m);
	u32 pool = pd_new(m);

	for (int how = 0; how < 3; how++) {
		u32 mr = mr_new_attr(m, &p.dst, PAIR_OFFSET, p.len, p.d, (struct key_attr){ KEY_ALL, .umr_en = true, .variant = 7 });
		struct window w = window_new(m, 1 + how % 2, 0);
		u32 key = bind(p.b, &w, 1, mr, p.d, 0x100, READ_WRITE);
		struct umr revoke = { .key = mr, .flags = UMR_INLINE, .mask = UMR_FREE | UMR_PD };
		struct umr again = { .key = mr, .flags = UMR_INLINE, .mask = UMR_FREE | UMR_PD | UMR_KEY };

		ASSERT_EQ(read_by_peer(&p, key, p.d, 16), 0);
		if (how == 2) {
			ASSERT_EQ(key_free(m, mr), 0);
			ASSERT_EQ(read_by_peer(&p, key, p.d, 16), B(NO_MKC));
			pair_revive(&p);
			continue;
		}
		/* back to the pool, and out again with another variant */
		UMR_SET(&revoke, free, 1);
		UMR_SET(&revoke, pd, pool);
		UMR_OK(umr, &revoke);
		ASSERT_EQ(read_by_peer(&p, key, p.d, 16), B(FREE));
		pair_revive(&p);
		UMR_SET(&again, pd, m->pd);
		UMR_SET(&again, mkey_7_0, 8);
		UMR_OK(umr, &again);
		ASSERT_EQ(read_by_peer(&p, key, p.d, 16), B(VARIANT));
		pair_revive(&p);
		/* the orphan can still be unbound, and bound elsewhere */
		struct umr u = window_unbind(&w, 2);

		UMR_OK(p.b, &u);
		key = bind(p.b, &w, 3, p.rkey, p.d, 0x100, READ_WRITE);
		ASSERT_EQ(read_by_peer(&p, key, p.d, 16), 0);
	}
}

TEST("HM-10.9 case 19", the_same_byte_in_two_windows)
{
	struct pair p = pair_new(m);
	struct window a = window_new(m, 2, 0), b = window_new(m, 2, 0);
	u32 ka = bind(p.b, &a, 0x77, p.rkey, p.d, 0x100, READ_WRITE);
	u32 kb = bind(p.b, &b, 0x77, p.rkey, p.d + 0x100, 0x100, READ_WRITE);

	ASSERT_NE(ka, kb);
	ASSERT_EQ(ka & 0xff, kb & 0xff);
	ASSERT_EQ(read_by_peer(&p, ka, p.d, 0x100), 0);
	ASSERT_EQ(read_by_peer(&p, kb, p.d + 0x100, 0x100), 0);
	ASSERT_EQ(read_by_peer(&p, ka, p.d + 0x100, 1), A(BOUNDS));
}

TEST("HM-10.10", zero_based)
{
	struct pair p = pair_new(m);
	struct window w = window_new(m, 2, 0);
	u8 list[64];
	struct umr u = window_bind(&w, p.b, 1, p.rkey, p.d + 0x123, 0x800, READ_WRITE, true, list);

	UMR_OK(p.b, &u);
	w.key = (w.key & ~0xffu) | 1;
	ASSERT_EQ(read_by_peer(&p, w.key, 0, 0x800), 0);
	ASSERT_PATTERN(&p.src, PAIR_OFFSET, 0x800, 2, PAIR_OFFSET + 0x123);
	ASSERT_EQ(read_by_peer(&p, w.key, 0x7ff, 2), A(BOUNDS));
	pair_revive(&p);
	ASSERT_EQ(read_by_peer(&p, w.key, p.d + 0x123, 1), A(BOUNDS));
}

TEST("HM-10.11", atomics)
{
	struct pair p = pair_new(m);
	u32 mr = mr_new_attr(m, &p.dst, PAIR_OFFSET, p.len, p.d, (struct key_attr){ .lw = true });
	u64 va = ALIGN(p.d, 8), *at = (u64 *)(p.dst.cpu + PAIR_OFFSET + va - p.d);

	for (u8 type = 1; type <= 2; type++) {
		struct window w = window_new(m, type, 0);
		u32 key = bind(p.b, &w, 1, mr, p.d, 0x100, UMR_A | UMR_LW);

		*at = 100;
		ASSERT_EQ(add_by_peer(&p, key, va, 11), 0);
		ASSERT_EQ(*at, 111ull);
		post_atomic(p.a, MLX5_OPCODE_ATOMIC_CS, p.lkey, p.s, key, va, 5, 111);
		EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, p.a->sq_pi - 1);
		ASSERT_EQ(*at, 5ull);
		ASSERT_EQ(*(u64 *)(p.src.cpu + PAIR_OFFSET), 111ull);
		/* and nothing else was granted */
		ASSERT_EQ(read_by_peer(&p, key, p.d, 16), A(REMOTE));
		pair_revive(&p);
	}
}

TEST("HM-10.13", the_queue_goes_first)
{
	struct pair p = pair_new(m), q = pair_new(m);
	struct window w = window_new(m, 2, 0);
	u32 key = bind(p.b, &w, 1, p.rkey, p.d, 0x100, READ_WRITE);
	struct umr u = local_inval(key);

	ASSERT_EQ(qp_free(p.b), 0);
	ASSERT_EQ(read_by_peer(&q, key, p.d, 16), A(QPN));
	pair_revive(&q);
	/* nobody's window now: the driver's invalidation and its destruction are left */
	UMR_REFUSED(q.b, &u, BIND_ERR, 0xc6);
	u = kernel_local_inval(key);
	UMR_OK(umr_qp_new(m), &u);
	ASSERT_EQ(key_free(m, key), 0);
	w = window_new(m, 2, 0);
	key = bind(q.b, &w, 1, p.rkey, p.d, 0x100, READ_WRITE);
	ASSERT_EQ(qp_free(q.b), 0);
	ASSERT_EQ(key_free(m, key), 0);
}

/* a window over several pieces, as num_klms in the ABI allows, and over a window */
TEST("HM 10.2", windows_over_more_than_one_region)
{
	struct pair p = pair_new(m);
	struct key_attr a = { .mode = MLX5_MKC_ACCESS_MODE_KLMS, .free = true, .umr_en = true, .octwords = 8 };
	struct window w = { key_new(m, &a), 1 }, inner = window_new(m, 1, 0), outer = window_new(m, 1, 0);
	u8 list[128] = {};
	struct umr u = window_bind(&w, p.b, 1, 0, 0, 0x200, READ_WRITE, true, list);
	u32 key;

	for (int i = 0; i < 8; i++)
		klm_put(list, i, (struct klm){ 0x40, p.rkey, p.d + 0x100 * i });
	u.octwords = 8;
	UMR_OK(p.b, &u);
	key = (w.key & ~0xffu) | 1;
	ASSERT_EQ(read_by_peer(&p, key, 0, 0x200), 0);
	for (int i = 0; i < 8; i++)
		ASSERT_PATTERN(&p.src, PAIR_OFFSET + 0x40 * i, 0x40, 2, PAIR_OFFSET + 0x100 * i);
	/* a window's key as the lkey of another one: its rights as local rights */
	bind(p.b, &inner, 1, p.rkey, p.d, 0x400, UMR_RR);
	bind(p.b, &outer, 1, inner.key, p.d + 0x100, 0x100, READ_WRITE);
	ASSERT_EQ(read_by_peer(&p, outer.key, p.d + 0x100, 0x100), 0);
	ASSERT_EQ(write_by_peer(&p, outer.key, p.d + 0x100, 0x10), B(LOCAL));
}

/* bind, use and unbind behind one doorbell, nobody waiting in between: libmlx5 sets the small fence itself */
TEST("HM-8.17 HM-10.1", a_window_in_the_stream_of_requests)
{
	struct pair p = pair_new(m);
	struct window w = window_new(m, 1, 0);
	u8 list[64];
	struct umr on = window_bind(&w, p.a, 1, p.rkey, p.d, 0x100, READ_WRITE, false, list), off = window_unbind(&w, 2);
	u32 key = (w.key & ~0xffu) | 1;
	u16 bind_at, write_at;
	struct wqe wqe;

	/* the library names the key that it has just given the window */
	off.key = key;

	on.fm_ce_se = off.fm_ce_se = 0x20;
	wqe_umr(&wqe, &on);
	bind_at = sq_put(p.a, &wqe);
	wqe_begin(&wqe, MLX5_OPCODE_RDMA_WRITE, SIGNALED | 0x20, 0);
	wqe_raddr(&wqe, p.d, key);
	wqe_data(&wqe, p.lkey, p.s, 0x100);
	write_at = sq_put(p.a, &wqe);
	wqe_umr(&wqe, &off);
	sq_put(p.a, &wqe);
	sq_ring(p.a);
	ASSERT_EQ(write_at, bind_at + 3);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, write_at);
	EXPECT_NONE(p.a->scq);
	ASSERT_PATTERN(&p.dst, PAIR_OFFSET, 0x100, 1, PAIR_OFFSET);
	ASSERT_EQ(write_by_peer(&p, key, p.d, 16), A(FREE));
}
