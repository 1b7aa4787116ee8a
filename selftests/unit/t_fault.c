// SPDX-License-Identifier: GPL-2.0
/*
 * Page faults, transport scheme: HM section 6. The host is the test: it reads the events by the offsets of HM 6.3, loads
 * entries by UMR, as the driver does, and answers.
 */
#include <linux/kernel.h>
#include <linux/unaligned.h>

#include "unit.h"

#define MS		1000000ULL
#define PAGE		4096ul
#define PAGES		16
#define LEN		(PAGES * PAGE)
#define A(check)	(HCA_VS_LEVEL0 | HCA_CHECK_##check)
#define LOCAL_PROT	MLX5_CQE_SYNDROME_LOCAL_PROT_ERR
#define REMOTE_ACCESS	MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR
#define REMOTE_OP	MLX5_CQE_SYNDROME_REMOTE_OP_ERR

#define TEST_ODP(id_, name_) \
	static void odp_##name_(struct machine *m); \
	TEST_BARE(id_, name_) \
	{ \
		struct machine *odp = machine_power_on(); \
		odp->odp = true; \
		machine_bring_up(odp); \
		odp_##name_(odp); \
		machine_free(odp); \
	} \
	static void odp_##name_(struct machine *m)

/* a pair; pinned memory; memory whose pages come when the host loads them */
struct host {
	struct machine *m;
	struct pair p;
	struct qp *umr;
	struct mem mem;
	u32 key;		/* of @mem, all rights, addressed from BASE; nothing is present */
	struct mem pin;
	u32 pin_key;		/* of @pin, addressed from 0 */
	unsigned int seen;	/* events */
};
#define BASE	0x7000000ul

static u32 absent_key(struct machine *m, struct key_attr a)
{
	static const u64 none[PAGES];

	a.pg_access = a.umr_en = true;
	a.mode = MLX5_MKC_ACCESS_MODE_MTT;
	a.start = BASE;
	a.len = LEN;
	a.mtt = none;
	a.nr = PAGES;
	return key_new(m, &a);
}

static struct host host_new(struct machine *m)
{
	struct host h = { .m = m, .p = pair_new(m), .umr = umr_qp_new(m), .mem = mem_new(m, LEN), .pin = mem_new(m, LEN) };

	h.key = absent_key(m, (struct key_attr){ KEY_ALL });
	h.pin_key = mr_new(m, &h.pin, 0, LEN, 0);
	mem_fill(&h.pin, 0, LEN, 1);
	mem_fill(&h.mem, 0, LEN, 2);
	return h;
}

/* entries [first, first + n) become @bits (1 read, 2 write, HM 5.2); lists go in 64 bytes, 8 entries */
static void load(struct host *h, u32 key, struct mem *mem, unsigned int first, unsigned int n, u64 bits)
{
	static struct key_dump d;

	for (unsigned int group = first / 8; group <= (first + n - 1) / 8; group++) {
		struct umr u = { .key = key, .flags = UMR_IF_USED | UMR_OFFSET | UMR_INLINE, .octwords = 4, .to = group * 4 };
		u8 list[64];

		d = key_dump(h->m, key);
		memcpy(list, d.list + group * 64, 64);
		for (unsigned int i = group * 8; i < group * 8 + 8; i++)
			if (i >= first && i < first + n)
				put_unaligned_be64(bits ? mem_dma(mem, i * PAGE) | bits : 0, list + (i % 8) * 8);
		u.list = list;
		UMR_OK(h->umr, &u);
	}
}

static void present(struct host *h, unsigned int first, unsigned int n)
{
	load(h, h->key, &h->mem, first, n, 3);
}

static void absent(struct host *h)
{
	load(h, h->key, &h->mem, 0, PAGES, 0);
}

struct fault {
	u8 sub_type, type;
	u32 committed, packet, token, wq, index, rkey, op_len;
	u64 va;
};

static bool next_fault(struct host *h, struct fault *f)
{
	shim_run();
	while (h->seen < h->m->nr_events) {
		const u8 *e = (const u8 *)&h->m->events[h->seen++], *d = e + 0x20;

		if (e[1] != 0x0c)
			continue;
		*f = (struct fault){ .sub_type = e[3], .committed = get_unaligned_be32(d),
				     .packet = get_unaligned_be16(d + 0xa), .type = d[0x18] };
		if (f->sub_type == 0) {
			f->index = get_unaligned_be16(d + 6);
			f->token = get_unaligned_be32(d + 0xc);
			f->wq = get_unaligned_be32(d + 0x18) & 0xffffff;
			if (get_unaligned_be64(d + 0x10) || f->token >> 24)
				FAIL("a WQE fault with a token of %#x and %#llx at 10h", f->token,
				     get_unaligned_be64(d + 0x10));
		} else {
			f->rkey = get_unaligned_be32(d + 4);
			f->op_len = get_unaligned_be32(d + 0xc);
			f->va = get_unaligned_be64(d + 0x10);
			f->token = f->wq = get_unaligned_be32(d + 0x18) & 0xffffff;
		}
		return true;
	}
	return false;
}

static struct fault one_fault(const char *file, int line, struct host *h)
{
	struct fault f, more;

	if (!next_fault(h, &f))
		unit_fail(file, line, "no page fault");
	if (next_fault(h, &more))
		unit_fail(file, line, "two page faults");
	return f;
}
#define ONE_FAULT(h)	one_fault(__FILE__, __LINE__, h)

static void no_fault(const char *file, int line, struct host *h)
{
	struct fault f;

	if (next_fault(h, &f))
		unit_fail(file, line, "a page fault of type %u", f.type);
}
#define NO_FAULT(h)	no_fault(__FILE__, __LINE__, h)

/* offsets of HM 6.5 */
static u8 resume_as(struct host *h, u16 op_mod, bool error, u8 type, u32 wq, u32 token)
{
	u8 in[16] = {}, out[16];

	put_unaligned_be16(0x204, in);
	put_unaligned_be16(op_mod, in + 6);
	put_unaligned_be32((u32)error << 31 | (u32)type << 24 | wq, in + 8);
	put_unaligned_be32(token, in + 12);
	return m_exec(h->m, in, sizeof(in), out, sizeof(out));
}

static u8 resume(struct host *h, const struct fault *f, bool error)
{
	u8 status = resume_as(h, 0, error, f->type, f->wq, f->token);

	shim_run();
	return status;
}

/* the parts that memory plays, HM 6.2, and the type of the fault in it */
enum role { SEND_FROM, WRITE_FROM, READ_FROM, RECV_TO, WRITE_TO, READ_TO, ATOMIC_AT, ATOMIC_TO, PARTS };

static const struct {
	u8 type;
	bool rdma, reads, atomic;
} parts[] = {
	[SEND_FROM] = { 1, .reads = true }, [WRITE_FROM] = { 1, .reads = true },
	[READ_FROM] = { 4, .rdma = true, .reads = true },
	[RECV_TO] = { 2 }, [WRITE_TO] = { 6, .rdma = true }, [READ_TO] = { 3 },
	[ATOMIC_AT] = { 6, .rdma = true, .atomic = true }, [ATOMIC_TO] = { 3, .atomic = true },
};

/* at @at of the region whose pages may be absent; returns the WQE index */
static u16 post_part_as(struct host *h, struct pair *p, enum role part, u32 key, u64 at, u32 len)
{
	u64 va = BASE + at;

	switch (part) {
	case SEND_FROM:
		post_recv(p->b, h->pin_key, at, len);
		return post_send(p->a, key, va, len);
	case RECV_TO:
		post_recv(p->b, key, va, len);
		return post_send(p->a, h->pin_key, at, len);
	case WRITE_FROM:
		return post_write(p->a, key, va, len, h->pin_key, at);
	case WRITE_TO:
		return post_write(p->a, h->pin_key, at, len, key, va);
	case READ_FROM:
		return post_read(p->a, h->pin_key, at, len, key, va);
	case READ_TO:
		return post_read(p->a, key, va, len, h->pin_key, at);
	case ATOMIC_AT:
		return post_atomic(p->a, MLX5_OPCODE_ATOMIC_FA, h->pin_key, at, key, va, 1, 0);
	default:
		return post_atomic(p->a, MLX5_OPCODE_ATOMIC_FA, key, va, h->pin_key, at, 1, 0);
	}
}

static u16 post_part(struct host *h, enum role part, u64 at, u32 len)
{
	return post_part_as(h, &h->p, part, h->key, at, len);
}

/* it is over, and every byte is where it belongs; both memories are filled anew */
static void expect_moved(const char *file, int line, struct host *h, enum role part, u16 index, u64 at, u32 len)
{
	struct mem *to = parts[part].reads ? &h->pin : &h->mem;
	u32 seed = parts[part].reads ? 2 : 1;
	struct mlx5_cqe64 c;

	if (parts[part].atomic) {
		to = part == ATOMIC_AT ? &h->pin : &h->mem;
		seed = part == ATOMIC_AT ? 2 : 1;
		len = 8;
	}
	expect_cqe(file, line, h->p.a->scq, MLX5_CQE_REQ, index);
	if (part == SEND_FROM || part == RECV_TO) {
		if (!cq_poll(h->p.b->rcq, &c) || c.op_own >> 4 != MLX5_CQE_RESP_SEND)
			unit_fail(file, line, "no completion of the receive");
	}
	expect_none(file, line, h->p.a->scq);
	expect_none(file, line, h->p.b->rcq);
	if (mem_differs(to, at, len, seed, at) != len)
		unit_fail(file, line, "part %u: byte %llu is wrong", part, mem_differs(to, at, len, seed, at));
	cq_update(h->p.a->scq);
	cq_update(h->p.b->rcq);
	mem_fill(&h->pin, 0, LEN, 1);
	mem_fill(&h->mem, 0, LEN, 2);
}
#define EXPECT_MOVED(h, part, index, at, len)	expect_moved(__FILE__, __LINE__, h, part, index, at, len)

static u32 mtu_of(struct qp *qp)
{
	u32 qpc[MLX5_ST_SZ_DW(qpc)];

	ASSERT_EQ(qp_query(qp, qpc), 0);
	return 128u << MLX5_GET(qpc, qpc, mtu);
}

TEST_ODP("HM-6.1", send_from_an_absent_page)
{
	struct host h = host_new(m);
	struct fault f;
	u16 index;

	index = post_part(&h, SEND_FROM, 64, 300);
	f = ONE_FAULT(&h);
	ASSERT_EQ(f.sub_type, 0);
	ASSERT_EQ(f.type, 1);
	EXPECT_NONE(h.p.a->scq);
	EXPECT_NONE(h.p.b->rcq);
	present(&h, 0, 1);
	/* the page alone does not do it */
	shim_advance(1000 * MS);
	EXPECT_NONE(h.p.a->scq);
	ASSERT_EQ(resume(&h, &f, false), 0);
	EXPECT_MOVED(&h, SEND_FROM, index, 64, 300);
	NO_FAULT(&h);
}

TEST_ODP("HM-6.2 HM-6.3", every_part_that_memory_plays)
{
	struct host h = host_new(m);
	u32 last_token = 0;

	for (enum role part = 0; part < PARTS; part++) {
		bool ours = part != READ_FROM && part != WRITE_TO && part != ATOMIC_AT && part != RECV_TO;
		struct qp *qp = ours ? h.p.a : h.p.b;
		u32 len = parts[part].atomic ? 8 : 5000;
		struct fault f;
		u16 index;

		absent(&h);
		index = post_part(&h, part, 64, len);
		f = ONE_FAULT(&h);
		ASSERT_EQ(f.sub_type, parts[part].rdma);
		ASSERT_EQ(f.type, parts[part].type);
		ASSERT_EQ(f.committed, 0u);
		ASSERT_EQ(f.packet, min(len, mtu_of(qp)));
		ASSERT_EQ(f.wq, qp->qpn);
		if (parts[part].rdma) {
			ASSERT_EQ(f.rkey, h.key);
			ASSERT_EQ(f.va, BASE + 64);
			ASSERT_EQ(f.op_len, len);
		} else {
			/* the WQE's first basic block; of a receive, which one it is */
			if (part != RECV_TO)
				ASSERT_EQ(f.index, index);
			ASSERT_NE(f.token, last_token);
			last_token = f.token;
		}
		present(&h, 0, 2);
		ASSERT_EQ(resume(&h, &f, false), 0);
		EXPECT_MOVED(&h, part, index, 64, len);
		NO_FAULT(&h);
	}
}

/* a receive is named by its counter, a request of many blocks by its first */
TEST_ODP("HM-6.3", which_wqe)
{
	struct host h = host_new(m);
	struct fault f;
	struct wqe w;
	u16 index;

	for (u16 i = 0; i < 70; i++) {
		absent(&h);
		post_recv(h.p.b, h.key, BASE, 64);
		post_send(h.p.a, h.pin_key, 0, 64);
		f = ONE_FAULT(&h);
		ASSERT_EQ(f.type, 2);
		ASSERT_EQ(f.index, i);
		present(&h, 0, 1);
		ASSERT_EQ(resume(&h, &f, false), 0);
		EXPECT_CQE(h.p.b->rcq, MLX5_CQE_RESP_SEND, i);
		cq_update(h.p.b->rcq);
		absent(&h);
		wqe_begin(&w, MLX5_OPCODE_RDMA_WRITE, SIGNALED, 0);
		wqe_raddr(&w, 0, h.pin_key);
		for (int s = 0; s < 6; s++)
			wqe_data(&w, s == 4 ? h.key : h.pin_key, s == 4 ? BASE : 0x1000, 100);
		index = sq_post(h.p.a, &w);
		f = ONE_FAULT(&h);
		ASSERT_EQ(f.type, 1);
		ASSERT_EQ(f.index, index);
		/* the four segments before it have been moved */
		ASSERT_EQ(f.committed, 400u);
		present(&h, 0, 1);
		ASSERT_EQ(resume(&h, &f, false), 0);
		while (cq_poll(h.p.a->scq, &(struct mlx5_cqe64){}))
			;
		cq_update(h.p.a->scq);
	}
}

TEST_ODP("HM-6.3", several_faults_in_one_message)
{
	struct host h = host_new(m);

	for (enum role part = 0; part <= READ_TO; part++) {
		/* pages that are there: 1, 2, 5 */
		const unsigned int hole[] = { 0, 3, 4, 6, 7 };
		const u32 len = 8 * PAGE - 100;
		struct fault f;
		u16 index;

		absent(&h);
		present(&h, 1, 2);
		present(&h, 5, 1);
		index = post_part(&h, part, 50, len);
		for (size_t i = 0; i < ARRAY_SIZE(hole); i++) {
			u32 done = hole[i] ? hole[i] * PAGE - 50 : 0;

			f = ONE_FAULT(&h);
			ASSERT_EQ(f.type, parts[part].type);
			ASSERT_EQ(f.committed, done);
			ASSERT_EQ(f.packet, min(len - done, mtu_of(h.p.a)));
			if (parts[part].rdma) {
				/* the start and the length of the message, not of the rest */
				ASSERT_EQ(f.va, BASE + 50);
				ASSERT_EQ(f.op_len, len);
			}
			/* what is told to have been moved has been; what lies behind the hole has not */
			if (!parts[part].reads) {
				ASSERT_PATTERN(&h.mem, 50, done, 1, 50);
				ASSERT_PATTERN(&h.mem, 50 + done, len - done, 2, 50 + done);
			}
			EXPECT_NONE(h.p.a->scq);
			present(&h, hole[i], 1);
			ASSERT_EQ(resume(&h, &f, false), 0);
		}
		EXPECT_MOVED(&h, part, index, 50, len);
		NO_FAULT(&h);
	}
}

TEST_ODP("HM-6.3", larger_than_a_chunk)
{
	struct host h = host_new(m);
	struct mem big = mem_new(m, 1 << 20);
	u64 *mtt = calloc(256, 8);
	struct key_attr a = { KEY_ALL, .pg_access = true, .umr_en = true, .mode = MLX5_MKC_ACCESS_MODE_MTT,
			      .len = big.len, .mtt = mtt, .nr = 256 };
	u32 key, src = mr_new(m, &big, 0, big.len, 0);
	struct mem dst = mem_new(m, 1 << 20);
	struct fault f;

	/* one page is missing, in the third chunk */
	for (unsigned int i = 0; i < 256; i++)
		mtt[i] = i == 140 ? 0 : dst.dma[i] | 3;
	key = key_new(m, &a);
	mem_fill(&big, 0, big.len, 5);
	post_write(h.p.a, src, 0, big.len, key, 0);
	f = ONE_FAULT(&h);
	ASSERT_EQ(f.committed, 140 * PAGE);
	ASSERT_EQ(f.op_len, 1u << 20);
	load(&h, key, &dst, 140, 1, 3);
	ASSERT_EQ(resume(&h, &f, false), 0);
	EXPECT_CQE(h.p.a->scq, MLX5_CQE_REQ, 0);
	ASSERT_PATTERN(&dst, 0, dst.len, 5, 0);
	free(mtt);
}

/* an entry may allow reading only */
TEST_ODP("HM-6.1", the_right_that_is_missing)
{
	struct host h = host_new(m);

	for (enum role part = 0; part < PARTS; part++) {
		u32 len = parts[part].atomic ? 8 : 64;
		struct fault f;
		u16 index;

		load(&h, h.key, &h.mem, 0, PAGES, 1);
		index = post_part(&h, part, 0, len);
		if (!parts[part].reads) {
			f = ONE_FAULT(&h);
			ASSERT_EQ(f.type, parts[part].type);
			present(&h, 0, 1);
			ASSERT_EQ(resume(&h, &f, false), 0);
		}
		EXPECT_MOVED(&h, part, index, 0, len);
		NO_FAULT(&h);
	}
}

/* below a list: the key and address of level 0 are told */
TEST_ODP("HM-6.4", below_a_list)
{
	struct host h = host_new(m);
	u32 inner = klm_new(m, (struct klm[]){ { 100, h.pin_key, 0 }, { 5 * PAGE, h.key, BASE } }, 2);
	u32 outer = klm_new(m, (struct klm[]){ { 50, h.pin_key, 0 }, { 100 + 5 * PAGE, inner, 0 } }, 2);
	struct fault f;

	post_write(h.p.a, h.pin_key, 0x8000, 2 * PAGE, outer, 10);
	f = ONE_FAULT(&h);
	ASSERT_EQ(f.type, 6);
	ASSERT_EQ(f.rkey, outer);
	ASSERT_EQ(f.va, 10u);
	ASSERT_EQ(f.committed, 140u);
	present(&h, 0, 1);
	ASSERT_EQ(resume(&h, &f, false), 0);
	f = ONE_FAULT(&h);
	ASSERT_EQ(f.committed, 140 + PAGE);
	present(&h, 1, 1);
	ASSERT_EQ(resume(&h, &f, false), 0);
	EXPECT_CQE(h.p.a->scq, MLX5_CQE_REQ, 0);
	ASSERT_PATTERN(&h.mem, 0, 2 * PAGE - 140, 1, 0x8000 + 140);
	/* what the driver resolves a fault with: the list of the key */
	ASSERT_EQ(get_unaligned_be32(key_dump(m, outer).list + 16), (u32)(100 + 5 * PAGE));
	ASSERT_EQ(get_unaligned_be32(key_dump(m, outer).list + 20), inner);
}

/* a table of null keys, as an implicit region begins */
TEST_ODP("HM-6.4 HM-6.15", null_keys)
{
	struct host h = host_new(m);
	struct klm list[4] = { { 0, 0x300, 0 }, { 0, 0x300, 0 }, { 0, 0x300, 0 }, { 0, 0x300, 0 } };
	struct key_attr a = { KEY_ALL, .mode = MLX5_MKC_ACCESS_MODE_KSM, .umr_en = true, .log_page = 16, .length64 = true,
			      .klm = list, .nr = 4 };
	u32 key = key_new(m, &a);
	struct umr u = { .key = key, .flags = UMR_IF_USED | UMR_OFFSET | UMR_INLINE, .octwords = 4 };
	struct fault f;
	u8 entries[64];

	post_write(h.p.a, h.pin_key, 0, 64, key, 0x10000 + 8);
	f = ONE_FAULT(&h);
	ASSERT_EQ(f.rkey, key);
	ASSERT_EQ(f.va, 0x10008u);
	ASSERT_EQ(f.committed, 0u);
	/* the child comes with its page */
	present(&h, 0, 1);
	for (u32 i = 0; i < 4; i++)
		klm_put(entries, i, i == 1 ? (struct klm){ 0, h.key, BASE } : list[i]);
	u.list = entries;
	UMR_OK(h.umr, &u);
	ASSERT_EQ(resume(&h, &f, false), 0);
	EXPECT_CQE(h.p.a->scq, MLX5_CQE_REQ, 0);
	ASSERT_PATTERN(&h.mem, 8, 64, 1, 0);
	/* and goes: the next access faults at the null key again */
	for (u32 i = 0; i < 4; i++)
		klm_put(entries, i, list[i]);
	UMR_OK(h.umr, &u);
	post_write(h.p.a, h.pin_key, 0, 64, key, 0x10000 + 8);
	f = ONE_FAULT(&h);
	ASSERT_EQ(f.rkey, key);
	ASSERT_EQ(resume(&h, &f, true), 0);
	EXPECT_REQ_ERR(h.p.a, 1, REMOTE_ACCESS, HCA_VS_NAK_ACCESS);
	ASSERT_EQ(qp_error(h.p.b).vendor, HCA_VS_ODP);
}

TEST_ODP("HM-6.5", what_is_forbidden_is_no_fault)
{
	struct host h = host_new(m);
	struct {
		struct key_attr a;
		u64 at;
		u32 len;
		u8 variant, code;
	} row[] = {
		{ { KEY_ALL, .free = true }, 0, 8, 0, A(FREE) },
		{ { KEY_ALL }, 0, 8, 1, A(VARIANT) },
		{ { KEY_ALL, .pd = pd_new(m) }, 0, 8, 0, A(PD) },
		{ { .lw = true, .rr = true, .a = true }, 0, 8, 0, A(REMOTE) },
		{ { KEY_ALL }, LEN - 4, 8, 0, A(BOUNDS) },
		{ { KEY_ALL }, -1ULL, 8, 0, A(BOUNDS) },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		u32 key = absent_key(m, row[i].a);

		post_write(h.p.a, h.pin_key, 0, row[i].len, key | row[i].variant, BASE + row[i].at);
		EXPECT_REQ_ERR(h.p.a, 0, REMOTE_ACCESS, HCA_VS_NAK_ACCESS);
		ASSERT_EQ(qp_error(h.p.b).vendor, row[i].code);
		NO_FAULT(&h);
		pair_revive(&h.p);
	}
	ASSERT_PATTERN(&h.mem, 0, LEN, 2, 0);
}

TEST_ODP("HM-6.6", answered_with_an_error)
{
	struct host h = host_new(m);

	for (enum role part = 0; part < PARTS; part++) {
		u32 len = parts[part].atomic ? 8 : 3 * PAGE;
		struct mlx5_cqe64 c;
		struct fault f;

		absent(&h);
		post_part(&h, part, 0, len);
		if (!parts[part].atomic) {
			/* what came before it stays moved */
			f = ONE_FAULT(&h);
			present(&h, 0, 1);
			ASSERT_EQ(resume(&h, &f, false), 0);
		}
		f = ONE_FAULT(&h);
		ASSERT_EQ(resume(&h, &f, true), 0);
		if (part == RECV_TO) {
			EXPECT_RSP_ERR(h.p.b, 0, LOCAL_PROT, 0x93);
			EXPECT_REQ_ERR(h.p.a, 0, REMOTE_OP, 0x89);
		} else if (parts[part].rdma) {
			EXPECT_REQ_ERR(h.p.a, 0, REMOTE_ACCESS, 0x88);
			ASSERT_EQ(qp_error(h.p.b).vendor, 0x93);
			/* WQ_ACCESS_ERROR of the responder */
			ASSERT_EQ(events_of(m, 0x11, h.p.b->qpn), 1u);
		} else {
			EXPECT_REQ_ERR(h.p.a, 0, LOCAL_PROT, 0x93);
		}
		if (!parts[part].reads && !parts[part].atomic) {
			ASSERT_PATTERN(&h.mem, 0, PAGE, 1, 0);
			ASSERT_PATTERN(&h.mem, PAGE, LEN - PAGE, 2, PAGE);
		}
		NO_FAULT(&h);
		while (cq_poll(h.p.b->rcq, &c))
			;
		m->nr_events = h.seen = 0;
		mem_fill(&h.mem, 0, LEN, 2);
		mem_fill(&h.pin, 0, LEN, 1);
		pair_revive(&h.p);
	}
}

TEST_ODP("HM-6.10", nobody_else_waits)
{
	struct host h = host_new(m);
	struct pair q = pair_new(m), r = pair_new(m);
	struct fault f[2];

	post_part(&h, WRITE_TO, 0, 64);
	post_part_as(&h, &q, WRITE_TO, h.key, 128, 64);
	ASSERT(next_fault(&h, &f[0]));
	ASSERT(next_fault(&h, &f[1]));
	ASSERT_EQ(f[0].wq, h.p.b->qpn);
	ASSERT_EQ(f[1].wq, q.b->qpn);
	/* a third pair, and the other directions of the two that wait */
	for (u16 i = 0; i < 10; i++) {
		post_write(r.a, r.lkey, r.s, 3000, r.rkey, r.d);
		EXPECT_CQE(r.a->scq, MLX5_CQE_REQ, i);
		post_write(h.p.b, h.pin_key, 0x2000, 64, h.pin_key, 0x4000);
		EXPECT_CQE(h.p.b->scq, MLX5_CQE_REQ, i);
	}
	EXPECT_NONE(h.p.a->scq);
	EXPECT_NONE(q.a->scq);
	/* one page for both: each is answered for itself */
	present(&h, 0, 1);
	ASSERT_EQ(resume(&h, &f[1], false), 0);
	EXPECT_CQE(q.a->scq, MLX5_CQE_REQ, 0);
	EXPECT_NONE(h.p.a->scq);
	ASSERT_EQ(resume(&h, &f[0], false), 0);
	EXPECT_CQE(h.p.a->scq, MLX5_CQE_REQ, 0);
	ASSERT_PATTERN(&h.mem, 0, 64, 1, 0);
	ASSERT_PATTERN(&h.mem, 128, 64, 1, 128);
}

/* a host that always says "done" and does nothing: HM 6.6 */
TEST_ODP("HM-6.11", answers_without_effect)
{
	struct host h = host_new(m);

	for (enum role part = 0; part < PARTS; part++) {
		unsigned int faults = 0;
		struct mlx5_cqe64 c;
		struct fault f;
		u64 began;

		absent(&h);
		post_part(&h, part, 0, 8);
		began = shim_now();
		for (unsigned int i = 0; i < 1000; i++) {
			if (next_fault(&h, &f)) {
				faults++;
				ASSERT_EQ(resume(&h, &f, false), 0);
			}
			if (qp_state(h.p.a) == MLX5_QP_STATE_ERR)
				break;
			shim_advance(MS);
		}
		ASSERT_EQ(faults, 65u);		/* the first, and 64 in a row */
		/* 100 us, 200 us ... 10 ms, and 10 ms from there on */
		ASSERT_GE(shim_now() - began, 57 * 10 * MS);
		if (part == RECV_TO) {
			EXPECT_RSP_ERR(h.p.b, 0, LOCAL_PROT, A(PROGRESS));
			EXPECT_REQ_ERR(h.p.a, 0, REMOTE_OP, 0x89);
		} else if (parts[part].rdma) {
			EXPECT_REQ_ERR(h.p.a, 0, REMOTE_ACCESS, 0x88);
			ASSERT_EQ(qp_error(h.p.b).vendor, A(PROGRESS));
		} else {
			EXPECT_REQ_ERR(h.p.a, 0, LOCAL_PROT, A(PROGRESS));
		}
		while (cq_poll(h.p.b->rcq, &c))
			;
		m->nr_events = h.seen = 0;
		pair_revive(&h.p);
	}
}

/* every answer comes with a change of the table, if not the right one: it is patient then */
TEST_ODP("HM-6.11", answers_with_some_effect)
{
	struct host h = host_new(m);
	u16 index = post_part(&h, WRITE_TO, 0, 64);
	struct fault f;

	for (unsigned int i = 0; i < 300; i++) {
		if (!next_fault(&h, &f))
			FAIL("no fault in round %u", i);
		m->nr_events = h.seen = 0;
		load(&h, h.key, &h.mem, 1 + i % 8, 1, i & 8 ? 0 : 3);
		ASSERT_EQ(resume(&h, &f, false), 0);
	}
	f = ONE_FAULT(&h);
	present(&h, 0, 1);
	ASSERT_EQ(resume(&h, &f, false), 0);
	EXPECT_MOVED(&h, WRITE_TO, index, 0, 64);
}

TEST_ODP("HM-6.12", wrong_answers)
{
	const u16 op = 0x204;
	struct host h = host_new(m);

	for (enum role part = 0; part <= READ_TO; part++) {
		struct fault f;
		u16 index;

		absent(&h);
		index = post_part(&h, part, 0, 64);
		f = ONE_FAULT(&h);
		ASSERT_CMD(m, resume_as(&h, 1, false, f.type, f.wq, f.token), MLX5_CMD_STAT_BAD_OP_ERR, op, 1);
		ASSERT_CMD(m, resume_as(&h, 0, false, f.type, f.wq, f.token ^ 0x40000), MLX5_CMD_STAT_BAD_RES_ERR, op, 2);
		ASSERT_CMD(m, resume_as(&h, 0, true, f.type, 0xabcdef, 0xabcdef), MLX5_CMD_STAT_BAD_RES_ERR, op, 2);
		ASSERT_CMD(m, resume_as(&h, 0, false, f.type ^ 1, f.wq, f.token), MLX5_CMD_STAT_BAD_PARAM_ERR, op, 3);
		ASSERT_CMD(m, resume_as(&h, 0, false, f.type, f.wq ^ 1, f.token), MLX5_CMD_STAT_BAD_PARAM_ERR, op, 3);
		shim_advance(100 * MS);
		EXPECT_NONE(h.p.a->scq);
		present(&h, 0, 1);
		ASSERT_EQ(resume(&h, &f, false), 0);
		EXPECT_MOVED(&h, part, index, 0, 64);
		/* answered once */
		ASSERT_CMD(m, resume(&h, &f, true), MLX5_CMD_STAT_BAD_RES_ERR, op, 2);
	}
}

TEST_ODP("HM-6.13", the_queue_pair_goes_first)
{
	static const u16 ways[] = { MLX5_CMD_OP_2ERR_QP, MLX5_CMD_OP_2RST_QP, 0 };
	const struct qp_path path = {};

	for (size_t way = 0; way < ARRAY_SIZE(ways); way++) {
		for (enum role part = 0; part < PARTS; part++) {
			struct machine *one = machine_power_on();
			struct mlx5_cqe64 c;
			struct host h;
			struct fault f;
			struct cq *rcq;
			struct qp *qp;

			one->odp = true;
			machine_bring_up(one);
			h = host_new(one);
			rcq = h.p.b->rcq;
			post_part(&h, part, 0, 8);
			f = ONE_FAULT(&h);
			qp = f.wq == h.p.a->qpn ? h.p.a : h.p.b;
			ASSERT_EQ(f.wq, qp->qpn);
			if (ways[way])
				ASSERT_EQ(qp_to(qp, ways[way], &path, 0), 0);
			else
				ASSERT_EQ(qp_free(qp), 0);
			if (ways[way] == MLX5_CMD_OP_2ERR_QP && qp == h.p.a)
				EXPECT_REQ_ERR(qp, 0, MLX5_CQE_SYNDROME_WR_FLUSH_ERR, 0xf9);
			present(&h, 0, 1);
			ASSERT_CMD(one, resume(&h, &f, false), MLX5_CMD_STAT_BAD_RES_ERR, 0x204, 2);
			/* nothing of it is done later */
			shim_advance(10000 * MS);
			ASSERT_PATTERN(&h.mem, 0, LEN, 2, 0);
			NO_FAULT(&h);
			while (cq_poll(rcq, &c))
				;
			machine_free(one);
		}
	}
}

TEST_ODP("HM-6.14", a_peer_that_waits_has_not_fallen_silent)
{
	struct qp_path path = { .timeout = 8, .retry = 1 };
	struct host h = host_new(m);

	h.p = pair_new_attr(m, (struct qp_attr){}, (struct qp_attr){}, path);
	for (enum role part = 0; part < PARTS; part++) {
		u32 len = parts[part].atomic ? 8 : 100;
		struct fault f;
		u16 index;

		absent(&h);
		index = post_part(&h, part, 0, len);
		f = ONE_FAULT(&h);
		shim_advance(60000 * MS);
		NO_FAULT(&h);
		EXPECT_NONE(h.p.a->scq);
		present(&h, 0, 1);
		ASSERT_EQ(resume(&h, &f, false), 0);
		/* on time: nobody had to notice it by looking */
		EXPECT_MOVED(&h, part, index, 0, len);
	}
}

/* what may not fault: a list that a UMR points to */
TEST_ODP("HM-6.18", no_fault_for_a_umr_list)
{
	struct host h = host_new(m);
	struct umr u = { .key = absent_key(m, (struct key_attr){ KEY_ALL, .variant = 9 }), .flags = UMR_IF_USED, .octwords = 8,
			 .lkey = h.key, .addr = BASE, .byte_count = 128 };

	UMR_REFUSED(h.umr, &u, LOCAL_PROT, 0xcd);
	NO_FAULT(&h);
}

/* the driver has not asked for it, or not for this kind of access */
TEST("HM-6.18", not_enabled)
{
	struct host h = host_new(m);

	for (enum role part = 0; part < PARTS; part++) {
		struct mlx5_cqe64 c;

		post_part(&h, part, 0, 8);
		if (part == RECV_TO) {
			EXPECT_RSP_ERR(h.p.b, 0, LOCAL_PROT, A(PAGE));
			EXPECT_REQ_ERR(h.p.a, 0, REMOTE_OP, 0x89);
		} else if (parts[part].rdma) {
			EXPECT_REQ_ERR(h.p.a, 0, REMOTE_ACCESS, 0x88);
			ASSERT_EQ(qp_error(h.p.b).vendor, A(PAGE));
		} else {
			EXPECT_REQ_ERR(h.p.a, 0, LOCAL_PROT, A(PAGE));
		}
		NO_FAULT(&h);
		while (cq_poll(h.p.b->rcq, &c))
			;
		pair_revive(&h.p);
	}
}

/* a fault is open in every part, one peer lets another wait for a receive and a third does not answer */
TEST_ODP("HM-11.7", torn_down_with_open_faults)
{
	struct pair rnr = pair_new(m), silent = pair_new(m);
	struct host h = host_new(m);
	struct fault f;

	for (enum role part = 0; part < PARTS; part++) {
		struct pair p = pair_new(m);

		post_part_as(&h, &p, part, h.key, part * PAGE, 8);
		f = ONE_FAULT(&h);
		ASSERT_EQ(f.type, parts[part].type);
	}
	post_send(rnr.a, rnr.lkey, rnr.s, 64);
	qp_reset(silent.b);
	post_write(silent.a, silent.lkey, silent.s, 64, silent.rkey, silent.d);
	machine_teardown(m);
	/* it comes too late */
	ASSERT_NE(resume(&h, &f, false), 0);
}

/* who waits holds nothing: keys change at once, and what they were before the fault is forgotten */
TEST_ODP("HM-11.5", keys_change_while_somebody_waits)
{
	struct host h = host_new(m);
	u64 now = shim_now();
	struct fault f;
	struct umr u;
	u32 key;

	/* zapped once more, then withdrawn */
	key = absent_key(m, (struct key_attr){ KEY_ALL });
	post_part_as(&h, &h.p, WRITE_TO, key, 0, 64);
	f = ONE_FAULT(&h);
	load(&h, key, &h.mem, 0, PAGES, 3);
	load(&h, key, &h.mem, 0, PAGES, 0);
	u = kernel_local_inval(key);
	UMR_OK(h.umr, &u);
	ASSERT_EQ(shim_now(), now);
	ASSERT_EQ(resume(&h, &f, false), 0);
	EXPECT_REQ_ERR(h.p.a, 0, REMOTE_ACCESS, HCA_VS_NAK_ACCESS);
	ASSERT_EQ(qp_error(h.p.b).vendor, A(FREE));
	pair_revive(&h.p);
	/* destroyed */
	now = shim_now();
	key = absent_key(m, (struct key_attr){ KEY_ALL });
	post_part_as(&h, &h.p, SEND_FROM, key, 0, 64);
	f = ONE_FAULT(&h);
	ASSERT_EQ(key_free(m, key), 0);
	ASSERT_EQ(shim_now(), now);
	ASSERT_EQ(resume(&h, &f, false), 0);
	EXPECT_REQ_ERR(h.p.a, 0, LOCAL_PROT, A(NO_MKC));
}

/* an event queue that is full: the fault is told when there is room */
TEST_ODP("HM-6.4", told_when_there_is_room)
{
	struct eq small = eq_new(m, 1, 3, BIT_ULL(0x0c));
	struct host h = host_new(m);
	unsigned int told = 0;
	struct pair p[6];
	struct mlx5_eqe e;

	for (size_t i = 0; i < ARRAY_SIZE(p); i++)
		p[i] = pair_new(m);
	for (size_t i = 0; i < ARRAY_SIZE(p); i++)
		post_part_as(&h, &p[i], i & 1 ? WRITE_TO : WRITE_FROM, h.key, i * 64, 64);
	present(&h, 0, 1);
	for (unsigned int round = 0; round < 20; round++) {
		while (eq_poll(&small, &e)) {
			const u8 *d = (const u8 *)&e + 0x20;
			u32 word = get_unaligned_be32(d + 0x18);
			struct fault f = { .type = word >> 24, .wq = word & 0xffffff,
					   .token = e.sub_type ? word & 0xffffff : get_unaligned_be32(d + 0xc) };

			ASSERT_EQ(resume(&h, &f, false), 0);
			told++;
		}
		eq_update(&small, true);
		shim_advance(20 * MS);
	}
	for (size_t i = 0; i < ARRAY_SIZE(p); i++)
		EXPECT_CQE(p[i].a->scq, MLX5_CQE_REQ, 0);
	ASSERT_LE(told, ARRAY_SIZE(p));
	ASSERT_GE(told, 2u);
}
