// SPDX-License-Identifier: GPL-2.0
/*
 * Invalidation, local and remote: HM section 9. The WQEs are those of libmlx5 and of the kernel (HM 8.9).
 */
#include <linux/kernel.h>
#include <linux/unaligned.h>

#include "unit.h"

#define MTT		MLX5_MKC_ACCESS_MODE_MTT
#define KLMS		MLX5_MKC_ACCESS_MODE_KLMS

#define RETRY_EXC	MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR
#define RNR_EXC		MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR

#define A(check)	(HCA_VS_LEVEL0 | HCA_CHECK_##check)
#define MS		1000000ULL

/* a window of @type over the pair's destination, bound by @qp; its key */
static u32 bound_window(struct pair *p, u8 type, struct qp *qp, u8 variant)
{
	struct window w = window_new(p->m, type, 0);
	struct umr u;
	u8 list[64];

	u = window_bind(&w, qp, variant, p->rkey, p->d, p->len, UMR_RIGHTS, false, list);
	UMR_OK(qp, &u);
	return (w.key & ~0xffu) | variant;
}

/* a region that may be invalidated from afar, as a kernel consumer registers it */
static u32 fast_mr(struct pair *p, struct key_attr a)
{
	a.lw = a.rr = a.rw = a.umr_en = true;
	a.en_rinval = true;
	return mr_new_attr(p->m, &p->dst, PAIR_OFFSET, p->len, p->d, a);
}

/* SEND_INVAL has been received: the CQE says so, and which key it was */
static void expect_invalidated(const char *file, int line, struct qp *b, u16 counter_, u32 rkey, u32 bytes)
{
	struct mlx5_cqe64 c = expect_cqe(file, line, b->rcq, MLX5_CQE_RESP_SEND_INV, counter_);

	if (get_unaligned_be32((u8 *)&c + 0x24) != rkey || be32_to_cpu(c.byte_cnt) != bytes)
		unit_fail(file, line, "inval_rkey %#x, %u bytes; expected %#x, %u", get_unaligned_be32((u8 *)&c + 0x24),
			  be32_to_cpu(c.byte_cnt), rkey, bytes);
}
#define EXPECT_INVALIDATED(b, wc, rkey, bytes)	expect_invalidated(__FILE__, __LINE__, b, wc, rkey, bytes)

TEST("HM-9.1", after_local_invalidation)
{
	struct pair p = pair_new(m);
	u32 key = bound_window(&p, 2, p.b, 0x11);
	struct key_dump before = key_dump(m, key), after;
	struct umr u = local_inval(key);

	ASSERT_EQ(read_by_peer(&p, key, p.d, 16), 0);
	UMR_OK(p.b, &u);
	ASSERT_EQ(read_by_peer(&p, key, p.d, 16), A(FREE));
	/* index, table, rights, range, pd, mode stay; free, variant and qpn were selected */
	after = key_dump(m, key);
	ASSERT_EQ(after.status, 0);
	ASSERT(!memcmp(before.list, after.list, sizeof(after.list)));
	ASSERT_EQ(after.mkc[0], before.mkc[0] | 0x40);
	ASSERT(!memcmp(before.mkc + 1, after.mkc + 1, 3));
	ASSERT_EQ(get_unaligned_be32(after.mkc + 4), 0xffffff00u);
	ASSERT(!memcmp(before.mkc + 8, after.mkc + 8, 56));
	pair_revive(&p);
	/* the kernel's form leaves variant and qpn alone */
	key = fast_mr(&p, (struct key_attr){ .variant = 0x22 });
	before = key_dump(m, key);
	u = kernel_local_inval(key);
	ASSERT_EQ(write_by_peer(&p, key, p.d, 16), 0);
	UMR_OK(umr_qp_new(m), &u);
	ASSERT_EQ(write_by_peer(&p, key, p.d, 16), A(FREE));
	after = key_dump(m, key);
	before.mkc[0] |= 0x40;
	ASSERT(!memcmp(&before, &after, sizeof(after)));
}

TEST("HM-9.2 case 19", bound_again_after_invalidation)
{
	struct pair p = pair_new(m);
	struct window w = window_new(m, 2, 0);
	u32 old = 0, key;
	u8 list[64];

	/* with another byte and with the same: both are allowed */
	for (int round = 0; round < 8; round++) {
		u8 variant = 0x10 + round / 2;
		struct umr u = window_bind(&w, p.b, variant, p.rkey, p.d + 0x100 * round, 0x100, UMR_RIGHTS, false, list);
		struct umr kill;

		UMR_OK(p.b, &u);
		key = (w.key & ~0xffu) | variant;
		ASSERT_EQ(read_by_peer(&p, key, p.d + 0x100 * round, 0x100), 0);
		ASSERT_PATTERN(&p.src, PAIR_OFFSET, 0x100, 2, PAIR_OFFSET + 0x100 * round);
		if (old && old != key) {
			ASSERT_EQ(read_by_peer(&p, old, p.d + 0x100 * round, 0x100), A(VARIANT));
			pair_revive(&p);
		}
		kill = local_inval(key);
		UMR_OK(p.b, &kill);
		ASSERT_EQ(read_by_peer(&p, key, p.d + 0x100 * round, 0x100), A(FREE));
		pair_revive(&p);
		/* the library keeps the key that it had; the MKC has variant 0 */
		w.key = old = key;
	}
}

TEST("HM-9.3 HM-9.9", remote_invalidation)
{
	struct pair p = pair_new(m);
	u32 window = bound_window(&p, 2, p.b, 0x33), mr = fast_mr(&p, (struct key_attr){ .variant = 0x44 }), keys[2] = { window, mr };
	struct key_dump before, after;
	u16 wc = 0;

	for (int i = 0; i < 2; i++) {
		u32 key = keys[i];

		ASSERT_EQ(read_by_peer(&p, key, p.d, 16), 0);
		cq_update(p.a->scq);
		before = key_dump(m, key);
		mem_fill(&p.src, 0, p.src.len, 20 + i);
		post_recv(p.b, p.rkey, p.d + 0x400, 0x200);
		post_send_inval(p.a, p.lkey, p.s, 0x123, key);
		/* the payload is there when the CQE is */
		EXPECT_INVALIDATED(p.b, wc, key, 0x123);
		ASSERT_PATTERN(&p.dst, PAIR_OFFSET + 0x400, 0x123, 20 + i, PAIR_OFFSET);
		EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, p.a->sq_pi - 1);
		after = key_dump(m, key);
		before.mkc[0] |= 0x40;
		ASSERT(!memcmp(&before, &after, sizeof(after)));
		ASSERT_EQ(read_by_peer(&p, key, p.d, 16), A(FREE));
		pair_revive(&p);
	}
	/* no payload at all, and a message of many chunks */
	window = bound_window(&p, 2, p.b, 0x34);
	wc = p.b->rq_pi;
	post_recv(p.b, 0, 0, 0);
	post_send_inval(p.a, 0, 0, 0, window);
	EXPECT_INVALIDATED(p.b, wc, window, 0);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, p.a->sq_pi - 1);
	struct mem src = mem_new(m, 1 << 20), dst = mem_new(m, 1 << 20);
	u32 lkey = mr_new(m, &src, 0, src.len, 0), far = mr_new(m, &dst, 0, dst.len, 0);

	window = bound_window(&p, 2, p.b, 0x35);
	mem_fill(&src, 0, src.len, 7);
	wc = p.b->rq_pi;
	post_recv(p.b, far, 0, 1 << 20);
	post_send_inval(p.a, lkey, 0, 1 << 20, window);
	EXPECT_INVALIDATED(p.b, wc, window, 1 << 20);
	ASSERT_PATTERN(&dst, 0, 1 << 20, 7, 0);
	ASSERT_EQ(qp_state(p.a), (unsigned int)MLX5_QP_STATE_RTS);
	ASSERT_EQ(qp_state(p.b), (unsigned int)MLX5_QP_STATE_RTS);
}

/* any QP of the domain may invalidate a key that is bound to none */
TEST("HM-9.3", a_key_that_is_bound_to_no_queue)
{
	struct pair p = pair_new(m), q = pair_new(m);
	u32 key = fast_mr(&p, (struct key_attr){});

	post_recv(q.b, q.rkey, q.d, 16);
	post_send_inval(q.a, q.lkey, q.s, 16, key);
	EXPECT_INVALIDATED(q.b, 0, key, 16);
	ASSERT_EQ(read_by_peer(&p, key, p.d, 16), A(FREE));
}

struct inval_case {
	const char *what;
	u32 key;
	u8 vendor;
};

TEST("HM-9.4", remote_invalidations_that_fail)
{
	struct qp_path quick = { .timeout = 10, .retry = 2 };	/* 4 ms, three silences */
	struct pair p = pair_new_attr(m, (struct qp_attr){}, (struct qp_attr){}, quick), q = pair_new(m);
	u32 pd = pd_new(m), free = fast_mr(&p, (struct key_attr){ .free = true }), variant = fast_mr(&p, (struct key_attr){ .variant = 5 });
	u32 gone = fast_mr(&p, (struct key_attr){}), type1 = bound_window(&p, 1, p.b, 1), other = bound_window(&p, 2, q.b, 2);
	const struct inval_case row[] = {
		{ "unknown key", gone, 0xd1 },
		{ "key 0", 0, 0xd1 },
		{ "index beyond the table", 0xffffff00, 0xd1 },
		{ "free key", free, 0xd1 },
		{ "other variant", variant ^ 1, 0xd1 },
		{ "terminate key", 0x100, 0xd1 },
		{ "resd_lkey", 0x200, 0xd1 },
		{ "null_mkey", 0x300, 0xd1 },
		{ "repeated_mkey", 0x400, 0xd1 },
		{ "dump_fill_mkey", 0x500, 0xd1 },
		{ "other domain", fast_mr(&p, (struct key_attr){ .pd = pd }), 0xd2 },
		{ "plain region", p.rkey, 0xd0 },
		{ "type 1 window", type1, 0xd0 },
		{ "window of another queue", other, 0xd3 },
		{ "window of the peer's own queue", bound_window(&p, 2, p.a, 3), 0xd3 },
	};

	ASSERT_EQ(key_free(m, gone), 0);
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct key_dump before = key_dump(m, row[i].key), after;
		struct mlx5_cqe64 c;
		u16 at;

		mem_fill(&p.dst, 0, p.dst.len, 2);
		post_recv(p.b, p.rkey, p.d, 0x100);
		at = post_send_inval(p.a, p.lkey, p.s, 0x40, row[i].key);
		if (!cq_peek(p.b->rcq, &c) || ((u8 *)&c)[54] != row[i].vendor)
			FAIL("%s: code %#x, expected %#x", row[i].what, ((u8 *)&c)[54], row[i].vendor);
		EXPECT_RSP_ERR(p.b, 0, BIND_ERR, row[i].vendor);
		ASSERT_EQ(qp_state(p.b), (unsigned int)MLX5_QP_STATE_ERR);
		ASSERT_EQ(qp_error(p.b).vendor, row[i].vendor);
		/* no NAK: the requester hears nothing until its retries have run out */
		EXPECT_NONE(p.a->scq);
		ASSERT_EQ(qp_state(p.a), (unsigned int)MLX5_QP_STATE_RTS);
		shim_advance(5 * MS);
		EXPECT_NONE(p.a->scq);
		shim_advance(100 * MS);
		EXPECT_REQ_ERR(p.a, at, RETRY_EXC, HCA_VS_RETRY_EXC);
		EXPECT_NONE(p.b->rcq);
		after = key_dump(m, row[i].key);
		ASSERT(!memcmp(&before, &after, sizeof(after)));
		qp_revive(__FILE__, __LINE__, p.a, quick);
	}
}

TEST("HM-9.5", no_receive_no_invalidation)
{
	struct qp_path path = { .rnr_retry = 8 };
	struct pair p = pair_new_attr(m, (struct qp_attr){}, (struct qp_attr){}, path), q = pair_new(m);
	u32 key = bound_window(&p, 2, p.b, 0x11);

	post_send_inval(p.a, p.lkey, p.s, 16, key);
	EXPECT_REQ_ERR(p.a, 0, RNR_EXC, HCA_VS_RNR_EXC);
	ASSERT_EQ(qp_state(p.b), (unsigned int)MLX5_QP_STATE_RTS);
	qp_revive(__FILE__, __LINE__, p.a, path);
	ASSERT_EQ(read_by_peer(&p, key, p.d, 16), 0);
	/* a receive that comes while it waits takes both */
	key = bound_window(&q, 2, q.b, 0x11);
	post_send_inval(q.a, q.lkey, q.s, 16, key);
	shim_advance(MS);
	EXPECT_NONE(q.a->scq);
	ASSERT_EQ(key_dump(m, key).mkc[0] & 0x40, 0);
	post_recv(q.b, q.rkey, q.d, 16);
	shim_advance(20 * MS);
	EXPECT_INVALIDATED(q.b, 0, key, 16);
	EXPECT_CQE(q.a->scq, MLX5_CQE_REQ, q.a->sq_pi - 1);
}

/* a message that does not arrive invalidates nothing */
TEST("HM-9.5", a_message_that_fails_invalidates_nothing)
{
	struct pair p = pair_new(m);
	u32 key = bound_window(&p, 2, p.b, 0x11);

	/* receive too short */
	post_recv(p.b, p.rkey, p.d, 15);
	post_send_inval(p.a, p.lkey, p.s, 16, key);
	EXPECT_REQ_ERR(p.a, 0, MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR, HCA_VS_NAK_REQ);
	EXPECT_RSP_ERR(p.b, 0, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR, HCA_VS_RQ_TOO_SHORT);
	pair_revive(&p);
	/* receive buffer that may not be written */
	post_recv(p.b, 0x70000, p.d, 16);
	post_send_inval(p.a, p.lkey, p.s, 16, key);
	EXPECT_REQ_ERR(p.a, 0, MLX5_CQE_SYNDROME_REMOTE_OP_ERR, HCA_VS_NAK_OP);
	EXPECT_RSP_ERR(p.b, 0, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, A(NO_MKC));
	pair_revive(&p);
	/* payload that may not be read */
	post_recv(p.b, p.rkey, p.d, 16);
	post_send_inval(p.a, 0x70000, p.s, 16, key);
	EXPECT_REQ_ERR(p.a, 0, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, A(NO_MKC));
	pair_revive(&p);
	ASSERT_EQ(read_by_peer(&p, key, p.d, 16), 0);
}

TEST("HM-9.6", the_others_stay)
{
	struct pair p = pair_new(m);
	u32 one = bound_window(&p, 2, p.b, 1), two = bound_window(&p, 2, p.b, 1), three = bound_window(&p, 1, p.b, 1);
	struct umr u = local_inval(one);

	ASSERT_NE(one, two);
	post_recv(p.b, p.rkey, p.d, 16);
	post_send_inval(p.a, p.lkey, p.s, 16, one);
	EXPECT_INVALIDATED(p.b, 0, one, 16);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	ASSERT_EQ(read_by_peer(&p, two, p.d, 16), 0);
	ASSERT_EQ(read_by_peer(&p, three, p.d, 16), 0);
	ASSERT_EQ(read_by_peer(&p, p.rkey, p.d, 16), 0);
	u = local_inval(two);
	UMR_OK(p.b, &u);
	ASSERT_EQ(read_by_peer(&p, three, p.d, 16), 0);
	ASSERT_EQ(read_by_peer(&p, p.rkey, p.d, 16), 0);
}

TEST("HM-9.7", invalidated_twice)
{
	struct pair p = pair_new(m);
	u32 key = bound_window(&p, 2, p.b, 0x11);
	struct umr lib = local_inval(key), kernel = kernel_local_inval(key);

	UMR_OK(p.b, &lib);
	UMR_REFUSED(p.b, &lib, BIND_ERR, 0xc6);
	UMR_OK(p.b, &kernel);
	UMR_OK(p.b, &kernel);
	UMR_REFUSED(p.b, &lib, BIND_ERR, 0xc6);
	/* remotely after locally */
	struct pair q = pair_new_attr(m, (struct qp_attr){}, (struct qp_attr){}, (struct qp_path){ .timeout = 8, .retry = 8 });

	post_recv(q.b, q.rkey, q.d, 16);
	post_send_inval(q.a, q.lkey, q.s, 16, key);
	EXPECT_RSP_ERR(q.b, 0, BIND_ERR, 0xd1);
}

TEST("HM-9.8", not_from_another_queue)
{
	struct pair p = pair_new(m), q = pair_new(m);
	u32 key = bound_window(&p, 2, p.b, 0x11);
	struct umr u = local_inval(key);

	UMR_REFUSED(q.b, &u, BIND_ERR, 0xc6);
	UMR_REFUSED(p.a, &u, BIND_ERR, 0xc6);
	ASSERT_EQ(read_by_peer(&p, key, p.d, 16), 0);
	UMR_OK(p.b, &u);
	/* a key of an mlx5dv list is bound to no queue: any of the domain */
	struct klm piece = { 0x100, p.rkey, p.d };
	struct key_attr a = { .mode = KLMS, KEY_ALL, .umr_en = true, .len = 0x100, .klm = &piece, .nr = 1 };

	key = key_new(m, &a);
	u = local_inval(key);
	UMR_OK(q.a, &u);
	ASSERT_EQ(read_by_peer(&p, key, 0, 16), A(FREE));
}

/*
 * The invalidated key is the one that the payload is scattered through, or gathered from at the other end of a loopback
 * connection: the receive is over before the key goes, and nobody waits for himself.
 */
TEST("HM-9.9 rule-2", a_message_through_the_key_that_it_invalidates)
{
	struct pair p = pair_new(m);

	for (int end = 0; end < 3; end++) {
		u32 key = fast_mr(&p, (struct key_attr){ .variant = end });
		u32 above = klm_new(m, &(struct klm){ 0x1000, key, p.d }, 1);
		u16 wc = p.b->rq_pi;

		mem_fill(&p.src, 0, p.src.len, 30 + end);
		mem_fill(&p.dst, 0, p.dst.len, 2);
		if (end == 0)
			post_recv(p.b, key, p.d, 0x1000);
		else if (end == 1)
			post_recv(p.b, p.rkey, p.d + 0x1000, 0x800);
		else
			post_recv(p.b, above, 0, 0x1000);
		post_send_inval(p.a, end == 1 ? key : p.lkey, end == 1 ? p.d : p.s, 0x800, key);
		EXPECT_INVALIDATED(p.b, wc, key, 0x800);
		EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, p.a->sq_pi - 1);
		if (end == 1)
			ASSERT_PATTERN(&p.dst, PAIR_OFFSET + 0x1000, 0x800, 2, PAIR_OFFSET);
		else
			ASSERT_PATTERN(&p.dst, PAIR_OFFSET, 0x800, 30 + end, PAIR_OFFSET);
		ASSERT_EQ(syndrome_of(m, p.b, key, p.d, 1), A(FREE));
	}
}

/* a list of receives, one of which is invalidated with: the second SEND_INVAL of the same key finds it free */
TEST("HM-9.4", the_same_key_twice)
{
	struct pair p = pair_new_attr(m, (struct qp_attr){}, (struct qp_attr){}, (struct qp_path){ .timeout = 8, .retry = 8 });
	u32 key = bound_window(&p, 2, p.b, 0x11);

	post_recv(p.b, p.rkey, p.d, 16);
	post_recv(p.b, p.rkey, p.d, 16);
	post_send_inval(p.a, p.lkey, p.s, 16, key);
	post_send_inval(p.a, p.lkey, p.s, 16, key);
	EXPECT_INVALIDATED(p.b, 0, key, 16);
	EXPECT_RSP_ERR(p.b, 1, BIND_ERR, 0xd1);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	shim_advance(100 * MS);
	EXPECT_REQ_ERR(p.a, 1, RETRY_EXC, HCA_VS_RETRY_EXC);
}
