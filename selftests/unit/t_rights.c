// SPDX-License-Identifier: GPL-2.0
/*
 * The matrix of HM 1.2: every kind of access, as requester and as responder, against every combination of rights, and
 * against each other reason to refuse. For each refusal: the completion on both ends, the states, the event, the debug
 * record (HM 4.7), and that memory is as it was.
 */
#include <linux/kernel.h>

#include "unit.h"

#define LOCAL_PROT	MLX5_CQE_SYNDROME_LOCAL_PROT_ERR
#define LOCAL_ACCESS	MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR
#define REMOTE_ACCESS	MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR
#define REMOTE_OP	MLX5_CQE_SYNDROME_REMOTE_OP_ERR
#define RTS		MLX5_QP_STATE_RTS
#define ERR		MLX5_QP_STATE_ERR

enum part { SEND_GATHER, WRITE_GATHER, READ_RESULT, ATOMIC_RESULT, WRITE_TARGET, WRITE_IMM_TARGET, READ_SOURCE,
	  CS_TARGET, FA_TARGET, RECV_SCATTER, OPS };

static const char * const op_name[] = { "SEND gather", "WRITE gather", "READ result", "ATOMIC result", "WRITE target",
	"WRITE_IMM target", "READ source", "CS target", "FA target", "RECV scatter" };

/* the right that each needs, HM 1.2 */
enum right { LR, LW, RR, RW, A };
static const enum right needs[] = { LR, LR, LW, LW, RW, RW, RR, A, A, LW };
static const bool reads[] = { true, true, false, false, false, false, true, true, true, false };
static const bool writes[] = { false, false, true, true, true, true, false, true, true, true };
static const u8 right_code[] = { HCA_CHECK_LOCAL, HCA_CHECK_LOCAL, HCA_CHECK_REMOTE, HCA_CHECK_REMOTE, HCA_CHECK_ATOMIC };

static bool is_requester(enum part op) { return op <= ATOMIC_RESULT; }

struct env {
	struct pair p;
	struct mem mem;		/* behind the key under test */
	u32 seed;
};

static struct env env_new(struct machine *m)
{
	struct env e = { .p = pair_new(m), .mem = mem_new(m, 2 * 4096) };

	return e;
}

static unsigned int events(struct machine *m, u32 qpn)
{
	unsigned int n = 0;

	for (unsigned int t = 1; t < 0x40; t++)
		if (t != MLX5_EVENT_TYPE_PAGE_REQUEST && t != MLX5_EVENT_TYPE_CQ_ERROR)
			n += events_of(m, t, qpn);
	return n;
}

/* do @op with @key at @va for @len bytes; it must be allowed (code 0) or refused with @code */
static void try_op(const char *what, struct env *e, enum part op, u32 key, u64 va, u32 len, u8 code)
{
	struct pair *p = &e->p;
	struct machine *m = p->m;
	struct qp *a = p->a, *b = p->b;
	unsigned int ev_a = events(m, a->qpn), ev_b = events(m, b->qpn);
	unsigned int ev_acc = events_of(m, MLX5_EVENT_TYPE_WQ_ACCESS_ERROR, b->qpn);
	struct hca_qp_error err;
	bool consumes = op == SEND_GATHER || op == WRITE_IMM_TARGET || op == RECV_SCATTER;
	unsigned int want_a, want_b;
	struct wqe w;
	u64 d;

	e->seed++;
	mem_fill(&e->mem, 0, e->mem.len, 1000 + e->seed);
	mem_fill(&p->src, 0, p->src.len, 2000 + e->seed);
	mem_fill(&p->dst, 0, p->dst.len, 3000 + e->seed);
	switch (op) {
	case SEND_GATHER:
		post_recv(b, p->rkey, p->d, 0x1000);
		post_send(a, key, va, len);
		break;
	case WRITE_GATHER:
		post_write(a, key, va, len, p->rkey, p->d);
		break;
	case READ_RESULT:
		post_read(a, key, va, len, p->rkey, p->d);
		break;
	case ATOMIC_RESULT:
		post_atomic(a, MLX5_OPCODE_ATOMIC_FA, key, va, p->rkey, p->d, 1, 0);
		break;
	case WRITE_TARGET:
		post_write(a, p->lkey, p->s, len, key, va);
		break;
	case WRITE_IMM_TARGET:
		post_recv(b, 0, 0, 0);
		wqe_begin(&w, MLX5_OPCODE_RDMA_WRITE_IMM, SIGNALED, 0x1234);
		wqe_raddr(&w, va, key);
		wqe_data(&w, p->lkey, p->s, len);
		sq_post(a, &w);
		break;
	case READ_SOURCE:
		post_read(a, p->lkey, p->s, len, key, va);
		break;
	case CS_TARGET:
		post_atomic(a, MLX5_OPCODE_ATOMIC_CS, p->lkey, p->s, key, va, 1, 0);
		break;
	case FA_TARGET:
		post_atomic(a, MLX5_OPCODE_ATOMIC_FA, p->lkey, p->s, key, va, 1, 0);
		break;
	case RECV_SCATTER:
		post_recv(b, key, va, len);
		post_send(a, p->lkey, p->s, len);
		break;
	default:
		break;
	}
	if (!code) {
		struct mlx5_cqe64 c;

		if (!cq_peek(a->scq, &c) || c.op_own >> 4 != MLX5_CQE_REQ)
			FAIL("%s, %s: refused with %#x/%#x, code %#x", op_name[op], what, ((u8 *)&c)[55], ((u8 *)&c)[54],
			     qp_error(is_requester(op) ? a : b).vendor);
		EXPECT_CQE(a->scq, MLX5_CQE_REQ, 0);
		if (consumes)
			EXPECT_CQE(b->rcq, op == WRITE_IMM_TARGET ? MLX5_CQE_RESP_WR_IMM : MLX5_CQE_RESP_SEND, 0);
		/* it was done, too: some byte moved */
		if (op == RECV_SCATTER || op == WRITE_TARGET || op == WRITE_IMM_TARGET || op == READ_RESULT) {
			d = mem_differs(&e->mem, 0, e->mem.len, 1000 + e->seed, 0);
			if (d == e->mem.len)
				FAIL("%s, %s: nothing was written", op_name[op], what);
		}
		pair_revive(p);
		return;
	}

	want_a = ERR;
	want_b = is_requester(op) ? RTS : ERR;
	switch (op) {
	case SEND_GATHER: case WRITE_GATHER: case READ_RESULT: case ATOMIC_RESULT:
		EXPECT_REQ_ERR(a, 0, LOCAL_PROT, code);
		break;
	case RECV_SCATTER:
		EXPECT_REQ_ERR(a, 0, REMOTE_OP, HCA_VS_NAK_OP);
		EXPECT_RSP_ERR(b, 0, LOCAL_PROT, code);
		break;
	case WRITE_IMM_TARGET:
		EXPECT_REQ_ERR(a, 0, REMOTE_ACCESS, HCA_VS_NAK_ACCESS);
		EXPECT_RSP_ERR(b, 0, LOCAL_ACCESS, code);
		break;
	default:
		EXPECT_REQ_ERR(a, 0, REMOTE_ACCESS, HCA_VS_NAK_ACCESS);
		break;
	}
	if (qp_state(a) != want_a || qp_state(b) != want_b)
		FAIL("%s, %s: states %u and %u", op_name[op], what, qp_state(a), qp_state(b));
	/* an event tells the responder when no WQE of its own is to blame */
	if (op == WRITE_TARGET || op == READ_SOURCE || op == CS_TARGET || op == FA_TARGET) {
		ASSERT_EQ(events_of(m, MLX5_EVENT_TYPE_WQ_ACCESS_ERROR, b->qpn), ev_acc + 1);
		ev_b++;
	}
	ASSERT_EQ(events(m, a->qpn), ev_a);
	if (events(m, b->qpn) != ev_b)
		FAIL("%s, %s: %u events for the responder, expected %u", op_name[op], what, events(m, b->qpn), ev_b);
	err = qp_error(is_requester(op) ? a : b);
	/* below level 0 the record may name either key */
	if (err.vendor != code || err.responder == is_requester(op) ||
	    (code < HCA_VS_NESTED && (err.key != key || err.va != va)))
		FAIL("%s, %s: record says code %#x, key %#x, va %#llx, responder %d; expected %#x, %#x, %#llx", op_name[op],
		     what, err.vendor, err.key, err.va, err.responder, code, key, va);
	if (!is_requester(op)) {
		err = qp_error(a);
		ASSERT_EQ(err.responder, false);
		ASSERT_EQ(err.vendor, op == RECV_SCATTER ? HCA_VS_NAK_OP : HCA_VS_NAK_ACCESS);
	}
	/* memory: nothing of the region under test, and nothing at the other end but what a READ or atomic may */
	d = mem_differs(&e->mem, 0, e->mem.len, 1000 + e->seed, 0);
	if (d != e->mem.len)
		FAIL("%s, %s: byte %llu changed although refused", op_name[op], what, d);
	ASSERT_PATTERN(&p->src, 0, p->src.len, 2000 + e->seed, 0);
	if (op != ATOMIC_RESULT)
		ASSERT_PATTERN(&p->dst, 0, p->dst.len, 3000 + e->seed, 0);
	pair_revive(p);
}

#define VA	0x123000ULL

static u32 key_of(struct env *e, struct key_attr a)
{
	u64 mtt[2] = { e->mem.dma[0], e->mem.dma[1] };

	a.mode = MLX5_MKC_ACCESS_MODE_MTT;
	a.start = a.start ?: VA;
	a.len = a.len ?: 2 * 4096;
	a.mtt = a.mtt ?: mtt;
	a.nr = 2;
	return key_new(e->p.m, &a);
}

TEST("HM-1.2 HM-1.3 HM-1.4 HM-1.5 HM-1.6 HM-1.7 HM-1.8 HM-1.13", rights_against_operations)
{
	struct env e = env_new(m);
	unsigned int bits, op;
	char what[64];

	for (bits = 0; bits < 16; bits++) {
		struct key_attr a = { .lw = bits & 1, .rr = bits & 2, .rw = bits & 4, .a = bits & 8 };
		bool has[] = { true, a.lw, a.rr, a.rw, a.a };
		u32 key = key_of(&e, a);

		snprintf(what, sizeof(what), "lr%s%s%s%s", a.lw ? " lw" : "", a.rr ? " rr" : "", a.rw ? " rw" : "",
			 a.a ? " a" : "");
		for (op = 0; op < OPS; op++)
			try_op(what, &e, op, key, VA + 0x100, 8,
			       has[needs[op]] ? 0 : HCA_VS_LEVEL0 | right_code[needs[op]]);
		ASSERT_EQ(key_free(m, key), 0);
	}
}

/* a list of one piece, all rights, over 16 bytes of @below */
static u32 list_over(struct env *e, u32 below, u64 va)
{
	struct klm entry = { 16, below, va };
	struct key_attr a = { .mode = MLX5_MKC_ACCESS_MODE_KLMS, KEY_ALL, .start = VA, .len = 16, .klm = &entry, .nr = 1 };

	return key_new(e->p.m, &a);
}

/* below level 0 local rights alone count, whoever asks: lr for what is read, lw for what is written, both for atomics */
TEST("HM-1.2 HM-4.19 HM-4.20 HM-10.6 HM-10.11", nested_rights_against_operations)
{
	struct env e = env_new(m);
	unsigned int bits, op;
	char what[64];

	for (bits = 0; bits < 16; bits++) {
		struct key_attr a = { .lw = bits & 1, .rr = bits & 2, .rw = bits & 4, .a = bits & 8 };
		u32 below = key_of(&e, a), key = list_over(&e, below, VA + 0x100);
		u32 twice = list_over(&e, key, VA);

		snprintf(what, sizeof(what), "list over lr%s%s%s%s", a.lw ? " lw" : "", a.rr ? " rr" : "", a.rw ? " rw" : "",
			 a.a ? " a" : "");
		for (op = 0; op < OPS; op++) {
			u8 code = writes[op] && !a.lw ? HCA_VS_NESTED | HCA_CHECK_LOCAL : 0;

			try_op(what, &e, op, key, VA + 8, 8, code);
			try_op("two lists", &e, op, twice, VA + 8, 8, code);
		}
	}
	/* the rights of the list itself are those that a region would need */
	for (bits = 0; bits < 16; bits++) {
		struct klm entry = { 16, key_of(&e, (struct key_attr){ KEY_ALL }), VA + 0x100 };
		struct key_attr a = { .lw = bits & 1, .rr = bits & 2, .rw = bits & 4, .a = bits & 8, .start = VA, .len = 16,
				      .mode = MLX5_MKC_ACCESS_MODE_KLMS, .klm = &entry, .nr = 1 };
		bool has[] = { true, a.lw, a.rr, a.rw, a.a };
		u32 key = key_new(m, &a);

		for (op = 0; op < OPS; op++)
			try_op("rights of the list", &e, op, key, VA + 8, 8,
			       has[needs[op]] ? 0 : HCA_VS_LEVEL0 | right_code[needs[op]]);
	}
}

TEST("HM-4.18 HM-10.8", nested_refusals_of_every_operation)
{
	struct env e = env_new(m);
	struct qp *umr = umr_qp_new(m), *third = qp_new(m, (struct qp_attr){});
	u32 good = key_of(&e, (struct key_attr){ KEY_ALL, .variant = 0x10 });
	u32 gone = key_of(&e, (struct key_attr){ KEY_ALL });
	u32 bound = key_of(&e, (struct key_attr){ KEY_ALL, .umr_en = true });
	u64 unmapped[2] = { 0x66600000000ULL, 0x66600002000ULL }, absent[2] = {};
	struct umr u = { .key = bound, .flags = UMR_INLINE, .mask = UMR_QPN };
	const struct { const char *what; u32 key; u64 va; u8 check; } row[] = {
		{ "free", key_of(&e, (struct key_attr){ KEY_ALL, .free = true }), VA, HCA_CHECK_FREE },
		{ "destroyed", gone, VA, HCA_CHECK_NO_MKC },
		{ "other variant", good + 1, VA, HCA_CHECK_VARIANT },
		{ "other domain", key_of(&e, (struct key_attr){ KEY_ALL, .pd = pd_new(m) }), VA, HCA_CHECK_PD },
		{ "bound to another queue", bound, VA, HCA_CHECK_QPN },
		{ "before its region", good, VA - 9, HCA_CHECK_BOUNDS },
		{ "behind its region", good, VA + 2 * 4096 - 15, HCA_CHECK_BOUNDS },
		{ "page not present", key_of(&e, (struct key_attr){ KEY_ALL, .mtt = absent, .pg_access = true }), VA, HCA_CHECK_PAGE },
		{ "refused by the bus", key_of(&e, (struct key_attr){ KEY_ALL, .mtt = unmapped }), VA, HCA_CHECK_BUS },
	};

	ASSERT_EQ(key_free(m, gone), 0);
	UMR_SET(&u, qpn, third->qpn);
	UMR_OK(umr, &u);
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		u32 key = list_over(&e, row[i].key, row[i].va);

		for (unsigned int op = 0; op < OPS; op++)
			try_op(row[i].what, &e, op, key, VA + 8, 8, HCA_VS_NESTED | row[i].check);
	}
}

/* the checks of a nested key come in the order of HM 4.3 */
TEST("HM-4.18 HM-4.17", order_of_nested_checks)
{
	static const u8 code[] = { HCA_CHECK_FREE, HCA_CHECK_VARIANT, HCA_CHECK_PD, HCA_CHECK_QPN, HCA_CHECK_LOCAL,
		HCA_CHECK_BOUNDS, HCA_CHECK_PAGE };
	struct env e = env_new(m);
	struct qp *umr = umr_qp_new(m);
	u32 pd = pd_new(m);

	for (size_t i = 0; i < ARRAY_SIZE(code); i++) {
		for (size_t j = i; j < ARRAY_SIZE(code); j++) {
			bool v[ARRAY_SIZE(code)] = {};
			u64 mtt[2] = { e.mem.dma[0] | 3, e.mem.dma[1] | 3 };
			struct umr u = { .flags = UMR_INLINE, .mask = UMR_QPN };
			u32 below;
			u8 got;

			v[i] = v[j] = true;
			if (v[6])
				mtt[0] = 0;
			below = key_of(&e, (struct key_attr){ .lw = !v[4], .free = v[0], .pd = v[2] ? pd : 0, .pg_access = true,
							      .umr_en = true, .mtt = mtt });
			u.key = below;
			UMR_SET(&u, qpn, v[3] ? 0x123456 : 0xffffff);
			UMR_OK(umr, &u);
			got = explain(m, e.p.b, list_over(&e, below ^ v[1], v[5] ? VA - 8 : VA), VA, 8, HCA_ACCESS_WRITE,
				      true).syndrome;
			if (got != (HCA_VS_NESTED | code[i]))
				FAIL("%x and %x: %#x", code[i], code[j], got);
		}
	}
}

TEST("HM-5.2", enable_bits_against_operations)
{
	struct env e = env_new(m);
	unsigned int bits, op;
	char what[64];

	for (bits = 0; bits < 4; bits++) {
		u64 mtt[2] = { e.mem.dma[0] | bits, e.mem.dma[1] | 3 };
		u32 key = key_of(&e, (struct key_attr){ KEY_ALL, .pg_access = true, .mtt = mtt });

		snprintf(what, sizeof(what), "entry with bits %u", bits);
		for (op = 0; op < OPS; op++)
			try_op(what, &e, op, key, VA + 0x100, 8,
			       (reads[op] && !(bits & 1)) || (writes[op] && !(bits & 2)) ?
			       HCA_VS_LEVEL0 | HCA_CHECK_PAGE : 0);
		ASSERT_EQ(key_free(m, key), 0);
	}
}

TEST("HM-1.9 HM-1.10", foreign_domains)
{
	struct env e = env_new(m);
	u32 pd = pd_new(m), key = key_of(&e, (struct key_attr){ KEY_ALL, .pd = pd });

	for (unsigned int op = 0; op < OPS; op++)
		try_op("key of another PD", &e, op, key, VA, 8, HCA_VS_LEVEL0 | HCA_CHECK_PD);
}

/* each end looks at its own PD: a requester in PD 1 may write to a key of PD 2 through a responder in PD 2 */
TEST("HM-1.9 HM-1.10", each_side_has_its_own_domain)
{
	u32 pd = pd_new(m);
	struct pair p = pair_new_attr(m, (struct qp_attr){}, (struct qp_attr){ .pd = pd }, (struct qp_path){});
	u32 theirs = mr_new_attr(m, &p.dst, 0, 4096, 0, (struct key_attr){ KEY_ALL, .pd = pd });

	post_write(p.a, p.lkey, p.s, 64, theirs, 0);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	ASSERT_PATTERN(&p.dst, 0, 64, 1, PAIR_OFFSET);
	post_recv(p.b, theirs, 64, 64);
	post_send(p.a, p.lkey, p.s, 64);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 1);
	EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_SEND, 0);
	/* the key of the requester's PD is nothing to the responder */
	post_write(p.a, p.lkey, p.s, 64, p.rkey, p.d);
	EXPECT_REQ_ERR(p.a, 2, REMOTE_ACCESS, HCA_VS_NAK_ACCESS);
	ASSERT_EQ(qp_error(p.b).vendor, HCA_VS_LEVEL0 | HCA_CHECK_PD);
	pair_revive(&p);
	/* nor the other way round */
	post_send(p.a, theirs, 0, 64);
	EXPECT_REQ_ERR(p.a, 0, LOCAL_PROT, HCA_VS_LEVEL0 | HCA_CHECK_PD);
}

TEST("HM-2.1", wrong_variants)
{
	struct env e = env_new(m);
	u32 key = key_of(&e, (struct key_attr){ KEY_ALL, .variant = 0x55 });

	for (unsigned int op = 0; op < OPS; op++) {
		try_op("variant + 1", &e, op, key + 1, VA, 8, HCA_VS_LEVEL0 | HCA_CHECK_VARIANT);
		try_op("right variant", &e, op, key, VA, 8, 0);
	}
}

TEST("HM 4.2", free_destroyed_and_absent_keys)
{
	struct env e = env_new(m);
	u32 free = key_of(&e, (struct key_attr){ KEY_ALL, .free = true }), gone = key_of(&e, (struct key_attr){ KEY_ALL });

	ASSERT_EQ(key_free(m, gone), 0);
	for (unsigned int op = 0; op < OPS; op++) {
		try_op("free key", &e, op, free, VA, 8, HCA_VS_LEVEL0 | HCA_CHECK_FREE);
		try_op("destroyed key", &e, op, gone, VA, 8, HCA_VS_LEVEL0 | HCA_CHECK_NO_MKC);
		try_op("key 0", &e, op, 0, VA, 8, HCA_VS_LEVEL0 | HCA_CHECK_NO_MKC);
		try_op("index beyond the table", &e, op, 0xffffff00, VA, 8, HCA_VS_LEVEL0 | HCA_CHECK_NO_MKC);
	}
}

TEST("HM-4.2", bounds_of_every_operation)
{
	struct env e = env_new(m);
	/* 4 KiB + 8 bytes from VA + 0x10, so that the pages reach further than the key at both ends */
	u32 key = key_of(&e, (struct key_attr){ KEY_ALL, .start = VA + 0x10, .len = 0x1008 });
	u8 a5 = HCA_VS_LEVEL0 | HCA_CHECK_BOUNDS;

	for (unsigned int op = 0; op < OPS; op++) {
		bool atomic = op == CS_TARGET || op == FA_TARGET;

		try_op("the first 8 bytes", &e, op, key, VA + 0x10, 8, 0);
		try_op("the last 8 bytes", &e, op, key, VA + 0x1010, 8, 0);
		try_op("8 bytes before", &e, op, key, VA + 8, 8, a5);
		try_op("8 bytes behind", &e, op, key, VA + 0x1018, 8, a5);
		if (!atomic) {
			try_op("a byte before", &e, op, key, VA + 0xf, 8, a5);
			try_op("a byte behind", &e, op, key, VA + 0x1011, 8, a5);
		}
	}
}

TEST("HM-4.26", bus_refusals_of_every_operation)
{
	struct env e = env_new(m);
	u64 mtt[2] = { 0x66600000000ULL, 0x66600002000ULL };
	u32 key = key_of(&e, (struct key_attr){ KEY_ALL, .mtt = mtt });

	for (unsigned int op = 0; op < OPS; op++)
		try_op("unmapped page", &e, op, key, VA, 8, HCA_VS_LEVEL0 | HCA_CHECK_BUS);
}

TEST("HM-1.1", one_key_as_both)
{
	struct env e = env_new(m);
	struct pair *p = &e.p;
	u32 key = key_of(&e, (struct key_attr){ KEY_ALL });

	mem_fill(&e.mem, 0, e.mem.len, 5);
	post_write(p->a, key, VA, 0x100, key, VA + 0x1100);
	EXPECT_CQE(p->a->scq, MLX5_CQE_REQ, 0);
	ASSERT_PATTERN(&e.mem, 0x1100, 0x100, 5, 0);
	post_read(p->a, key, VA + 0x800, 0x100, key, VA);
	EXPECT_CQE(p->a->scq, MLX5_CQE_REQ, 1);
	ASSERT_PATTERN(&e.mem, 0x800, 0x100, 5, 0);
}

/* which end is asked first when both keys are bad */
TEST("HM-1.12", both_keys_bad)
{
	struct pair p = pair_new(m);
	u8 a0 = HCA_VS_LEVEL0 | HCA_CHECK_NO_MKC;

	post_write(p.a, 0x70000, p.s, 8, 0x80000, p.d);
	EXPECT_REQ_ERR(p.a, 0, LOCAL_PROT, a0);
	ASSERT_EQ(qp_state(p.b), (unsigned int)RTS);
	pair_revive(&p);
	post_send(p.a, 0x70000, p.s, 8);	/* and no receive WQE either */
	EXPECT_REQ_ERR(p.a, 0, LOCAL_PROT, a0);
	pair_revive(&p);
	post_read(p.a, 0x70000, p.s, 8, 0x80000, p.d);
	EXPECT_REQ_ERR(p.a, 0, REMOTE_ACCESS, HCA_VS_NAK_ACCESS);
	ASSERT_EQ(qp_error(p.b).vendor, a0);
	pair_revive(&p);
	post_atomic(p.a, MLX5_OPCODE_ATOMIC_FA, 0x70000, p.s, 0x80000, p.d, 1, 0);
	EXPECT_REQ_ERR(p.a, 0, REMOTE_ACCESS, HCA_VS_NAK_ACCESS);
	pair_revive(&p);
	/* the second of two local segments, good remote side: nothing is sent */
	for (int op = 0; op < 2; op++) {
		struct wqe w;

		wqe_begin(&w, op ? MLX5_OPCODE_RDMA_WRITE : MLX5_OPCODE_SEND, SIGNALED, 0);
		if (op)
			wqe_raddr(&w, p.d, p.rkey);
		else
			post_recv(p.b, p.rkey, p.d, 64);
		wqe_data(&w, p.lkey, p.s, 16);
		wqe_data(&w, 0x70000, p.s, 16);
		sq_post(p.a, &w);
		EXPECT_REQ_ERR(p.a, 0, LOCAL_PROT, a0);
		EXPECT_NONE(p.b->rcq);
		ASSERT_PATTERN(&p.dst, 0, p.dst.len, 2, 0);
		pair_revive(&p);
	}
}

/* rre, rwe, rae of the responder QP come before any key */
TEST("HM 4.7", access_flags_of_the_queue_pair)
{
	static const struct { enum part op; struct qp_path path; } row[] = {
		{ WRITE_TARGET, { .no_rwe = true } }, { WRITE_IMM_TARGET, { .no_rwe = true } },
		{ READ_SOURCE, { .no_rre = true } }, { CS_TARGET, { .no_rae = true } }, { FA_TARGET, { .no_rae = true } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		for (int bad_key = 0; bad_key < 2; bad_key++) {
			struct pair p = pair_new_attr(m, (struct qp_attr){}, (struct qp_attr){}, row[i].path);
			u32 key = bad_key ? 0x70000 : p.rkey;
			u64 va = p.d + (-p.d & 7);
			struct wqe w;

			switch (row[i].op) {
			case WRITE_TARGET:
				post_write(p.a, p.lkey, p.s, 8, key, va);
				break;
			case WRITE_IMM_TARGET:
				post_recv(p.b, 0, 0, 0);
				wqe_begin(&w, MLX5_OPCODE_RDMA_WRITE_IMM, SIGNALED, 0);
				wqe_raddr(&w, va, key);
				wqe_data(&w, p.lkey, p.s, 8);
				sq_post(p.a, &w);
				break;
			case READ_SOURCE:
				post_read(p.a, p.lkey, p.s, 8, key, va);
				break;
			default:
				post_atomic(p.a, row[i].op == CS_TARGET ? MLX5_OPCODE_ATOMIC_CS : MLX5_OPCODE_ATOMIC_FA,
					    p.lkey, p.s, key, va, 1, 0);
			}
			EXPECT_REQ_ERR(p.a, 0, MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR, HCA_VS_NAK_REQ);
			ASSERT_EQ(qp_error(p.b).vendor, HCA_VS_QP_ACCESS);
			ASSERT_EQ(qp_state(p.b), (unsigned int)ERR);
			ASSERT_EQ(events_of(m, MLX5_EVENT_TYPE_WQ_INVAL_REQ_ERROR, p.b->qpn), 1u);
			ASSERT_PATTERN(&p.dst, 0, p.dst.len, 2, 0);
			ASSERT_PATTERN(&p.src, 0, p.src.len, 1, 0);
		}
	}
	/* the other flags do not matter: a WRITE through a QP that allows only that */
	for (int op = 0; op < 3; op++) {
		struct qp_path path = { op != 1, op != 0, op != 2 };
		struct pair p = pair_new_attr(m, (struct qp_attr){}, (struct qp_attr){}, path);

		if (op == 0)
			post_write(p.a, p.lkey, p.s, 8, p.rkey, p.d);
		if (op == 1)
			post_read(p.a, p.lkey, p.s, 8, p.rkey, p.d);
		if (op == 2)
			post_atomic(p.a, MLX5_OPCODE_ATOMIC_FA, p.lkey, p.s, p.rkey, p.d, 1, 0);
		EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
		/* nor do any for SEND */
		post_recv(p.b, p.rkey, p.d, 8);
		post_send(p.a, p.lkey, p.s, 8);
		EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 1);
	}
}

TEST("HM-4.22", a_misaligned_atomic_is_no_question_of_keys)
{
	struct pair p = pair_new(m);

	for (int off = 1; off < 8; off++) {
		for (int bad = 0; bad < 2; bad++) {
			post_atomic(p.a, off & 1 ? MLX5_OPCODE_ATOMIC_CS : MLX5_OPCODE_ATOMIC_FA, p.lkey, p.s,
				    bad ? 0x70000 : p.rkey, p.d + off, 1, 0);
			EXPECT_REQ_ERR(p.a, 0, MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR, HCA_VS_NAK_REQ);
			ASSERT_EQ(qp_error(p.b).vendor, HCA_VS_UNALIGNED);
			ASSERT_PATTERN(&p.dst, 0, p.dst.len, 2, 0);
			pair_revive(&p);
		}
	}
	ASSERT_EQ(events_of(m, MLX5_EVENT_TYPE_WQ_INVAL_REQ_ERROR, p.b->qpn), 14u);
}

/* queue memory is not behind keys: with every key of the host gone, rings and polling go on */
TEST("HM-1.15", queues_need_no_keys)
{
	struct pair p = pair_new(m);

	ASSERT_EQ(key_free(m, p.lkey), 0);
	ASSERT_EQ(key_free(m, p.rkey), 0);
	for (int i = 0; i < 100; i++) {
		post_recv(p.b, 0, 0, 0);
		post_send(p.a, 0, 0, 0);
		EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, i);
		EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_SEND, i);
		cq_update(p.a->scq);
		cq_update(p.b->rcq);
	}
	post_send(p.a, p.lkey, p.s, 8);
	EXPECT_REQ_ERR(p.a, 100, LOCAL_PROT, HCA_VS_LEVEL0 | HCA_CHECK_NO_MKC);
}
