// SPDX-License-Identifier: GPL-2.0
/*
 * Two things at once: memory that changes under the HCA's hands, keys and queues that go while they are used, several CPUs
 * in the engine. A hook in bus_map(), where the engine is in the middle of a request, lets others run; the seeded tests
 * let them run at every lock. HM 7.4, 11.2 to 11.4, design rules 1 and 2.
 */
#include <linux/kernel.h>
#include <linux/unaligned.h>

#include "unit.h"

#define MS	1000000ULL

static bool in_mem(const struct mem *mem, u64 dma)
{
	for (u64 i = 0; i < mem->nr; i++)
		if (mem->dma[i] && dma - mem->dma[i] < (1ULL << mem->shift))
			return true;
	return false;
}

/* TOCTOU */

struct scribble {
	struct pair *p;
	struct mem *when;	/* an access to this memory sets it off */
	u8 *where;
	unsigned int len;
	unsigned int calls;
};

static void scribble_hook(struct machine *m, u64 dma, size_t len)
{
	struct scribble *s = m->hook_arg;

	if (!in_mem(s->when, dma))
		return;
	s->calls++;
	for (unsigned int i = 0; i < s->len; i++)
		s->where[i] = rnd(256);
}

TEST("rule-1 HM-8.22 case 3", a_send_wqe_is_read_once)
{
	struct mem src = mem_new(m, 1 << 20), dst = mem_new(m, 1 << 20);
	struct pair p = pair_new(m);
	u32 lkey = mr_new(m, &src, 0, src.len, 0), rkey = mr_new(m, &dst, 0, dst.len, 0);
	struct scribble s = { .p = &p };

	rnd_state = 1;
	mem_fill(&src, 0, src.len, 1);
	for (int op = 0; op < 4; op++) {
		u32 len = op & 1 ? 1 << 20 : 100;	/* one chunk; many */
		u16 i = p.a->sq_pi;

		mem_fill(&dst, 0, dst.len, 2);
		s.when = op & 2 ? &dst : &src;
		s.where = sq_byte(p.a, i, 0);
		s.len = 64;
		s.calls = 0;
		m->hook_arg = &s;
		m->bus_hook = scribble_hook;
		post_write(p.a, lkey, 0, len, rkey, 0);
		m->bus_hook = NULL;
		ASSERT_GT(s.calls, 0u);
		EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, i);
		ASSERT_PATTERN(&dst, 0, len, 1, 0);
	}
}

TEST("rule-1 case 3", a_receive_wqe_is_read_once)
{
	struct mem src = mem_new(m, 1 << 20), dst = mem_new(m, 1 << 20);
	struct pair p = pair_new(m);
	u32 lkey = mr_new(m, &src, 0, src.len, 0), rkey = mr_new(m, &dst, 0, dst.len, 0);
	struct sge sge[2] = { { rkey, 0x100, 5000 }, { rkey, 0x3000, 0xf0000 } };
	struct scribble s = { &p, &dst, rq_wqe(p.b, 0), 64, 0 };

	rnd_state = 2;
	mem_fill(&src, 0, src.len, 1);
	mem_fill(&dst, 0, dst.len, 2);
	rq_post(p.b, sge, 2);
	m->hook_arg = &s;
	m->bus_hook = scribble_hook;
	post_send(p.a, lkey, 0, 0xe0000);
	m->bus_hook = NULL;
	ASSERT_GT(s.calls, 1u);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	EXPECT_CQE(p.b->rcq, MLX5_CQE_RESP_SEND, 0);
	ASSERT_PATTERN(&dst, 0x100, 5000, 1, 0);
	ASSERT_PATTERN(&dst, 0x3000, 0xe0000 - 5000, 1, 5000);
}

/* inline data is part of the WQE, and copied with it */
TEST("rule-1 case 3", inline_data_is_read_once)
{
	struct pair p = pair_new(m);
	u8 data[200];
	struct scribble s = { &p, &p.dst, sq_byte(p.a, 0, 0), 256, 0 };
	struct wqe w;

	rnd_state = 3;
	memset(data, 0x42, sizeof(data));
	wqe_begin(&w, MLX5_OPCODE_RDMA_WRITE, SIGNALED, 0);
	wqe_raddr(&w, p.d, p.rkey);
	wqe_inline(&w, data, sizeof(data));
	m->hook_arg = &s;
	m->bus_hook = scribble_hook;
	sq_post(p.a, &w);
	m->bus_hook = NULL;
	ASSERT_GT(s.calls, 0u);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
	ASSERT(!memcmp(p.dst.cpu + PAIR_OFFSET, data, sizeof(data)));
}

/* things that happen in the middle of a request */

struct act {
	void (*fn)(struct act *act);
	struct pair *p;
	struct mem *when;
	unsigned int at;	/* which access to that memory begins it */
	unsigned int calls;
	struct shim_fiber *fiber;
	bool must_wait;		/* it cannot be over while this access runs */
	u32 key;
	struct mem *mem;
	struct qp *umr;
	u32 zeros;		/* key over memory that is zero */
	struct pair *other;
	u64 copied_before, copied_after;
	u8 status;
};

static void act_fiber(void *arg)
{
	struct act *act = arg;

	act->copied_before = counter(act->p->m, HCA_CNT_BYTES_COPIED);
	act->fn(act);
	act->copied_after = counter(act->p->m, HCA_CNT_BYTES_COPIED);
}

static void act_hook(struct machine *m, u64 dma, size_t len)
{
	struct act *act = m->hook_arg;

	if (!in_mem(act->when, dma) || act->calls++ != act->at)
		return;
	act->fiber = shim_spawn(act_fiber, act, "meanwhile");
	for (int i = 0; i < 5; i++)
		shim_yield();
	if (act->must_wait)
		ASSERT(!shim_done(act->fiber));
}

static void run_with(struct act *act, struct machine *m, void (*post)(struct act *act))
{
	m->hook_arg = act;
	m->bus_hook = act_hook;
	post(act);
	shim_run();
	m->bus_hook = NULL;
	ASSERT(act->fiber);
	ASSERT(shim_done(act->fiber));
}

/*
 * Ways to withdraw a key. Each releases its memory the moment that the withdrawal can be observed: guarantee G, HM 11.2.
 */
static void destroy_key(struct act *act)
{
	act->status = key_free(act->p->m, act->key);
	mem_unmap(act->mem);
}

static void wait_for_cqe(struct cq *cq, u8 opcode)
{
	struct mlx5_cqe64 c;

	while (!cq_poll(cq, &c))
		shim_yield();
	ASSERT_EQ(c.op_own >> 4, opcode);
	cq_update(cq);
}

static void umr_and_release(struct act *act, const struct umr *u)
{
	post_umr(act->umr, u);
	wait_for_cqe(act->umr->scq, MLX5_CQE_REQ);
	mem_unmap(act->mem);
}

static void invalidate_key(struct act *act)
{
	struct umr u = kernel_local_inval(act->key);

	umr_and_release(act, &u);
}

/* all entries of its table: what the driver does when pages go away */
static void zap_key(struct act *act)
{
	struct umr u = { .key = act->key, .flags = UMR_IF_USED | UMR_OFFSET, .octwords = act->mem->nr / 2, .lkey = act->zeros,
			 .byte_count = 8 * act->mem->nr };

	umr_and_release(act, &u);
}

/* the UMR is not signalled: the request behind it says that it is over */
static void invalidate_key_silently(struct act *act)
{
	struct umr u = kernel_local_inval(act->key);
	struct wqe w;

	u.fm_ce_se = 0x20;
	wqe_umr(&w, &u);
	sq_put(act->umr, &w);
	wqe_begin(&w, MLX5_OPCODE_NOP, SIGNALED | 0x20, 0);
	sq_post(act->umr, &w);
	wait_for_cqe(act->umr->scq, MLX5_CQE_REQ);
	mem_unmap(act->mem);
}

static void invalidate_key_from_afar(struct act *act)
{
	post_recv(act->other->b, 0, 0, 0);
	post_send_inval(act->other->a, 0, 0, 0, act->key);
	wait_for_cqe(act->other->b->rcq, MLX5_CQE_RESP_SEND_INV);
	mem_unmap(act->mem);
}

static const struct way {
	void (*fn)(struct act *act);
	u8 check;	/* what the next chunk is refused for */
	bool stays;	/* the key does */
} ways[] = {
	{ destroy_key, HCA_CHECK_NO_MKC, false },
	{ invalidate_key, HCA_CHECK_FREE, true },
	{ zap_key, HCA_CHECK_PAGE, true },
	{ invalidate_key_silently, HCA_CHECK_FREE, true },
	{ invalidate_key_from_afar, HCA_CHECK_FREE, true },
};

static u32 big_lkey, big_rkey;
#define BIG (4 << 20)
static u32 big = BIG;

static void post_big_write(struct act *act) { post_write(act->p->a, big_lkey, 0, big, big_rkey, 0); }
static void post_big_read(struct act *act) { post_read(act->p->a, big_lkey, 0, big, big_rkey, 0); }

static void post_big_send(struct act *act)
{
	post_recv(act->p->b, big_rkey, 0, big);
	post_send(act->p->a, big_lkey, 0, big);
}

/* a key that is withdrawn in the middle of a message, itself named by the request or lying below a list */
TEST("HM-7.7 HM-6.9 HM-11.1 HM-11.2 HM-11.3 HM-9.1 case 28", a_withdrawal_waits_for_the_chunk_and_not_for_the_message)
{
	static void (*const post[])(struct act *act) = { post_big_write, post_big_read, post_big_send };
	struct pair p = pair_new(m), other = pair_new(m);
	struct qp *umr = umr_qp_new(m);
	struct mem zeros = mem_new(m, 8192);
	u32 zeros_key = mr_new(m, &zeros, 0, zeros.len, 0);

	big = 1 << 20;
	for (unsigned int n = 0; n < ARRAY_SIZE(ways) * 3 * 2 * 2; n++) {
		const struct way *way = &ways[n / 12];
		bool far = n & 1, nested = n & 2;
		int op = n / 4 % 3;

		for (unsigned int at = 0; at < 190; at += way->fn == destroy_key ? 66 : 140) {
			struct mem src = mem_new(m, big), dst = mem_new(m, big);
			struct act act = { .fn = way->fn, .p = &p, .at = at, .must_wait = true, .umr = umr, .zeros = zeros_key,
					   .other = &other };
			struct key_attr a = { KEY_ALL, .umr_en = true, .en_rinval = true };
			u8 code = (nested ? HCA_VS_NESTED : HCA_VS_LEVEL0) | way->check;
			u32 near_key, list = 0;
			struct mlx5_cqe64 c;

			act.when = act.mem = far ? &dst : &src;
			act.key = mr_new_attr(m, act.mem, 0, big, 0, a);
			near_key = mr_new(m, far ? &src : &dst, 0, big, 0);
			if (nested)
				list = klm_new(m, &(struct klm){ big, act.key, 0 }, 1);
			big_lkey = far ? near_key : nested ? list : act.key;
			big_rkey = !far ? near_key : nested ? list : act.key;
			run_with(&act, m, post[op]);
			ASSERT_EQ(act.status, 0);
			/* HM-11.3: at most the running chunk was moved meanwhile */
			ASSERT_LE(act.copied_after - act.copied_before, 256ull << 10);
			if (!far) {
				EXPECT_REQ_ERR(p.a, 0, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, code);
				while (cq_poll(p.b->rcq, &c))
					;
			} else if (op == 2) {
				EXPECT_RSP_ERR(p.b, 0, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, code);
				EXPECT_REQ_ERR(p.a, 0, MLX5_CQE_SYNDROME_REMOTE_OP_ERR, HCA_VS_NAK_OP);
			} else {
				EXPECT_REQ_ERR(p.a, 0, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, HCA_VS_NAK_ACCESS);
				ASSERT_EQ(qp_error(p.b).vendor, code);
			}
			pair_revive(&p);
			if (list)
				ASSERT_EQ(key_free(m, list), 0);
			if (way->stays)
				ASSERT_EQ(key_free(m, act.key), 0);
			ASSERT_EQ(key_free(m, near_key), 0);
			mem_unmap(far ? &src : &dst);
			cq_update(other.a->scq);
			cq_update(other.b->rcq);
		}
	}
}

static void tear_down(struct act *act)
{
	machine_teardown(act->p->m);
}

/* the machine watches that nothing is touched any more when the command has been answered */
TEST_BARE("HM-11.7", a_teardown_waits_for_the_chunk)
{
	static void (*const post[])(struct act *act) = { post_big_write, post_big_read, post_big_send };

	big = 1 << 20;
	for (unsigned int n = 0; n < ARRAY_SIZE(post) * 2 * 3; n++) {
		struct mem src, dst;
		struct act act;
		struct pair p;

		m = machine_new();
		src = mem_new(m, big);
		dst = mem_new(m, big);
		p = pair_new(m);
		big_lkey = mr_new(m, &src, 0, big, 0);
		big_rkey = mr_new(m, &dst, 0, big, 0);
		act = (struct act){ .fn = tear_down, .p = &p, .when = n & 1 ? &dst : &src, .at = n / 6 * 80, .must_wait = true };
		run_with(&act, m, post[n / 2 % 3]);
		/* the message is not over: TEARDOWN_HCA does not wait for so much */
		ASSERT_LT(act.copied_after, (u64)big);
		machine_free(m);
	}
}

static void destroy_other_key(struct act *act)
{
	act->status = key_free(act->p->m, act->key);
}

/* a key that nobody uses goes at once, whatever else is being moved */
TEST("HM-7.7", destroy_of_another_key_waits_for_nothing)
{
	struct mem src = mem_new(m, BIG), dst = mem_new(m, BIG);
	struct pair p = pair_new(m);
	struct act act = { .fn = destroy_other_key, .p = &p, .when = &dst, .at = 300 };

	big_lkey = mr_new(m, &src, 0, BIG, 0);
	big_rkey = mr_new(m, &dst, 0, BIG, 0);
	act.key = mr_new(m, &dst, 0, BIG, 0);
	run_with(&act, m, post_big_write);
	ASSERT_EQ(act.status, 0);
	ASSERT_EQ(act.copied_before, act.copied_after);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
}

/* the list above goes, and then the region below: each waits for the chunk that runs through both */
static void destroy_list_and_region(struct act *act)
{
	act->status = key_free(act->p->m, big_rkey);
	ASSERT_EQ(key_free(act->p->m, act->key), 0);
	mem_unmap(act->mem);
}

TEST("HM-11.2", both_keys_of_a_path)
{
	struct mem src = mem_new(m, BIG), dst = mem_new(m, BIG);
	struct pair p = pair_new(m);
	struct act act = { .fn = destroy_list_and_region, .p = &p, .when = &dst, .mem = &dst, .at = 300, .must_wait = true };

	big_lkey = mr_new(m, &src, 0, BIG, 0);
	act.key = mr_new(m, &dst, 0, BIG, 0);
	big_rkey = klm_new(m, &(struct klm){ BIG, act.key, 0 }, 1);
	run_with(&act, m, post_big_write);
	ASSERT_EQ(act.status, 0);
	EXPECT_REQ_ERR(p.a, 0, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, HCA_VS_NAK_ACCESS);
	ASSERT_EQ(qp_error(p.b).vendor, HCA_VS_LEVEL0 | HCA_CHECK_NO_MKC);
}

/* the key that a UMR's list is read through is withdrawn while it is read: all of the list or nothing */
TEST("HM-8.9 HM-11.1", the_list_key_goes_while_the_list_is_read)
{
	struct mem list = mem_new(m, 1 << 20);
	struct pair p = pair_new(m);
	struct qp *umr = umr_qp_new(m), *poster = umr_qp_new(m);
	struct key_attr a = { .mode = MLX5_MKC_ACCESS_MODE_KLMS, .umr_en = true, .octwords = 0xfffc };
	u32 target = key_new(m, &a);

	for (size_t w = 0; w < ARRAY_SIZE(ways); w++) {
		for (unsigned int at = 0; at < 256; at += 85) {
			struct mem mem = mem_new(m, 1 << 20);
			u32 key = mr_new_attr(m, &mem, 0, mem.len, 0, (struct key_attr){ KEY_ALL, .umr_en = true, .en_rinval = true });
			struct act act = { .fn = ways[w].fn, .p = &p, .when = &mem, .mem = &mem, .at = at, .must_wait = true, .key = key,
					   .umr = umr, .zeros = mr_new(m, &list, 0, list.len, 0), .other = &p };
			struct umr u = { .key = target, .octwords = 0xfffc, .lkey = key, .byte_count = 0xfffc0 };
			struct key_dump before = key_dump(m, target), after;
			struct mlx5_cqe64 c;

			/* zapping takes a pointer of its own; UMRs with one are carried out one after the other */
			if (ways[w].fn == zap_key)
				continue;
			for (u32 i = 0; i < 0xfffc; i++)
				klm_put(mem.cpu, i, (struct klm){ w + at + 1, 0x1234500, i });
			m->hook_arg = &act;
			m->bus_hook = act_hook;
			post_umr(poster, &u);
			shim_run();
			m->bus_hook = NULL;
			ASSERT(shim_done(act.fiber));
			ASSERT(cq_poll(poster->scq, &c));
			after = key_dump(m, target);
			if (c.op_own >> 4 == MLX5_CQE_REQ) {
				ASSERT_EQ(get_unaligned_be32(after.list), (u32)(w + at + 1));
			} else {
				ASSERT_EQ(((u8 *)&c)[55], MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
				ASSERT_EQ(((u8 *)&c)[54], 0xcd);
				ASSERT(!memcmp(&before, &after, sizeof(after)));
				qp_revive(__FILE__, __LINE__, poster, (struct qp_path){});
			}
			cq_update(p.b->rcq);
			cq_update(p.a->scq);
			cq_update(poster->scq);
		}
	}
}

/* R1: who waits for a receive, for an answer or for a retry holds nothing */
TEST("HM 11.4", who_waits_holds_nothing)
{
	struct qp_path path = { .min_rnr = 32 };	/* 655 ms */
	struct pair p = pair_new_attr(m, (struct qp_attr){}, (struct qp_attr){}, path);
	struct qp *umr = umr_qp_new(m), *lonely = qp_new(m, (struct qp_attr){});
	struct key_attr a = { KEY_ALL, .umr_en = true };
	u32 key = mr_new_attr(m, &p.src, 0, 4096, 0, a), key2 = mr_new_attr(m, &p.src, 0, 4096, 0, a);
	struct umr u = kernel_local_inval(key), u2 = kernel_local_inval(key2);
	u64 now;

	post_send(p.a, key, 0, 64);
	qp_up(lonely, 0x1234, (struct qp_path){ .timeout = 32 });
	post_write(lonely, key2, 0, 64, p.rkey, p.d);
	shim_advance(10 * MS);
	EXPECT_NONE(p.a->scq);
	EXPECT_NONE(lonely->scq);
	now = shim_now();
	UMR_OK(umr, &u);
	UMR_OK(umr, &u2);
	ASSERT_EQ(key_free(m, key2), 0);
	ASSERT_EQ(shim_now(), now);
	/* the retry begins at the first check */
	shim_advance(1000 * MS);
	EXPECT_REQ_ERR(p.a, 0, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, HCA_VS_LEVEL0 | HCA_CHECK_FREE);
	shim_advance(1000 * MS);
	EXPECT_REQ_ERR(lonely, 0, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, HCA_VS_LEVEL0 | HCA_CHECK_NO_MKC);
}

/* HM-8.16: one key, two buffers, a writer that points it now here, now there, and readers */
#define FLIP_CHUNK	(256 << 10)

struct flipper {
	struct machine *m;
	struct qp *umr;
	struct umr u[2];
	bool stop;
	unsigned int flips;
	const char *failed;
};

static void flip(void *arg)
{
	struct flipper *f = arg;
	struct mlx5_cqe64 c;

	while (!f->stop) {
		post_umr(f->umr, &f->u[f->flips & 1]);
		while (!cq_poll(f->umr->scq, &c))
			shim_yield();
		if (c.op_own >> 4 != MLX5_CQE_REQ)
			f->failed = "a UMR failed";
		cq_update(f->umr->scq);
		f->flips++;
		shim_yield();
	}
}

static void flip_hook(struct machine *m, u64 dma, size_t len)
{
	shim_yield();
}

/* which of the two buffers a chunk came from; -1: from both */
static int chunk_of(const struct mem *got, u64 at, const struct mem *buf)
{
	for (int i = 0; i < 2; i++)
		if (!memcmp(got->cpu + at, buf[i].cpu + at, FLIP_CHUNK))
			return i;
	return -1;
}

struct reader {
	struct flipper *f;
	struct pair p;
	struct mem got;
	u32 to, key;
	const struct mem *buf;
	unsigned int from[2], switched, rounds;
};

static void read_on(void *arg)
{
	struct reader *r = arg;

	for (r->rounds = 0; r->rounds < 3; r->rounds++) {
		post_read(r->p.a, r->to, 0, BIG, r->key, 0);
		wait_for_cqe(r->p.a->scq, MLX5_CQE_REQ);
		for (u64 at = 0, last = ~0ULL; at < BIG; at += FLIP_CHUNK) {
			int who = chunk_of(&r->got, at, r->buf);

			if (who < 0)
				FAIL("the chunk at %#llx is a mixture", at);
			r->from[who]++;
			r->switched += last != ~0ULL && last != (u64)who;
			last = who;
		}
	}
}

static void flipping(struct machine *m, struct flipper *f, u32 key, const struct mem *buf)
{
	struct shim_fiber *writer, *reading[2];
	struct reader r[2];

	writer = shim_spawn(flip, f, "writer");
	m->bus_hook = flip_hook;
	for (int i = 0; i < 2; i++) {
		r[i] = (struct reader){ .f = f, .p = pair_new(m), .got = mem_new(m, BIG), .key = key, .buf = buf };
		r[i].to = mr_new(m, &r[i].got, 0, BIG, 0);
		reading[i] = shim_spawn(read_on, &r[i], "reader");
	}
	/* the writer never sleeps, so it must be told: the readers have been through */
	while (!shim_done(reading[0]) || !shim_done(reading[1]))
		shim_yield();
	m->bus_hook = NULL;
	f->stop = true;
	shim_run();
	ASSERT(shim_done(writer));
	if (f->failed)
		FAIL("%s", f->failed);
	/* the writer came through, again and again, and messages saw both */
	ASSERT_GT(f->flips, 20u);
	for (int i = 0; i < 2; i++) {
		ASSERT_GT(r[i].from[0], 3u);
		ASSERT_GT(r[i].from[1], 3u);
		ASSERT_GT(r[i].switched, 3u);
	}
}

TEST("HM-8.16", a_chunk_is_never_a_mixture)
{
	struct mem buf[2] = { mem_new(m, BIG), mem_new(m, BIG) }, list[2] = { mem_new(m, 8192), mem_new(m, 8192) };
	u32 mr[2] = { mr_new(m, &buf[0], 0, BIG, 0), mr_new(m, &buf[1], 0, BIG, 0) };
	struct flipper f = { .m = m, .umr = umr_qp_new(m) };
	u8 entry[2][64] = {};
	u32 key;

	for (int i = 0; i < 2; i++) {
		mem_fill(&buf[i], 0, BIG, 50 + i);
		klm_put(entry[i], 0, (struct klm){ BIG, mr[i], 0 });
		for (u64 k = 0; k < buf[i].nr; k++)
			put_unaligned_be64(buf[i].dma[k] | 3, list[i].cpu + 8 * k);
	}
	/* by the one entry of a list */
	key = key_new(m, &(struct key_attr){ .mode = MLX5_MKC_ACCESS_MODE_KLMS, KEY_ALL, .umr_en = true, .len = BIG,
					     .klm = &(struct klm){ BIG, mr[0], 0 }, .nr = 1 });
	for (int i = 0; i < 2; i++)
		f.u[i] = (struct umr){ .key = key, .flags = UMR_INLINE, .octwords = 4, .list = entry[!i] };
	flipping(m, &f, key, buf);
	/* by all entries of a page table */
	key = mr_new_attr(m, &buf[0], 0, BIG, 0, (struct key_attr){ KEY_ALL, .umr_en = true });
	f = (struct flipper){ .m = m, .umr = umr_qp_new(m) };
	for (int i = 0; i < 2; i++)
		f.u[i] = (struct umr){ .key = key, .octwords = 512, .lkey = mr_new(m, &list[!i], 0, 8192, 0), .byte_count = 8192 };
	flipping(m, &f, key, buf);
	/* the same below a list */
	f = (struct flipper){ .m = m, .umr = umr_qp_new(m), .u = { f.u[0], f.u[1] } };
	flipping(m, &f, klm_new(m, &(struct klm){ BIG, key, 0 }, 1), buf);
}

/* queue pairs that change or vanish in the middle of a long message; their memory goes with them */
static void err_requester(struct act *act)
{
	act->status = qp_to(act->p->a, MLX5_CMD_OP_2ERR_QP, &(struct qp_path){}, 0);
}

static void err_responder(struct act *act)
{
	act->status = qp_to(act->p->b, MLX5_CMD_OP_2ERR_QP, &(struct qp_path){}, 0);
}

static void rst_requester(struct act *act)
{
	act->status = qp_to(act->p->a, MLX5_CMD_OP_2RST_QP, &(struct qp_path){}, 0);
}

static void rst_responder(struct act *act)
{
	act->status = qp_to(act->p->b, MLX5_CMD_OP_2RST_QP, &(struct qp_path){}, 0);
}

static void free_requester(struct act *act)
{
	act->status = qp_free(act->p->a);
	act->p->a = NULL;
}

static void free_responder(struct act *act)
{
	act->status = qp_free(act->p->b);
	act->p->b = NULL;
}

static void query_requester(struct act *act)
{
	u32 qpc[MLX5_ST_SZ_DW(qpc)];

	act->status = qp_query(act->p->a, qpc);
}

TEST("rule-2", queue_pairs_change_under_a_long_message)
{
	static void (*const acts[])(struct act *act) = { err_requester, err_responder, rst_requester, rst_responder,
		free_requester, free_responder, query_requester };
	static void (*const post[])(struct act *act) = { post_big_write, post_big_read, post_big_send };
	struct mem src = mem_new(m, BIG), dst = mem_new(m, BIG);

	big_lkey = mr_new(m, &src, 0, BIG, 0);
	big_rkey = mr_new(m, &dst, 0, BIG, 0);
	for (size_t i = 0; i < ARRAY_SIZE(acts); i++) {
		for (int op = 0; op < 3; op++) {
			struct pair p = pair_new_attr(m, (struct qp_attr){}, (struct qp_attr){},
						      (struct qp_path){ .timeout = 8, .retry = 1 });
			struct act act = { .fn = acts[i], .p = &p, .when = &dst, .at = 300 };
			struct cq *cqs[4] = { p.a->scq, p.a->rcq, p.b->scq, p.b->rcq };
			struct mlx5_cqe64 c;

			run_with(&act, m, post[op]);
			ASSERT_EQ(act.status, 0);
			/* it did not wait for the whole message */
			if (acts[i] != query_requester && act.copied_after - act.copied_before > 512 << 10)
				FAIL("act %zu, operation %d: %llu bytes were moved meanwhile", i, op,
				     act.copied_after - act.copied_before);
			shim_advance(1000 * MS);
			if (acts[i] == query_requester) {
				EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, 0);
				continue;
			}
			/* the message did not complete */
			for (int k = 0; k < 4; k++)
				while (cq_poll(cqs[k], &c))
					ASSERT_GE(c.op_own >> 4, MLX5_CQE_REQ_ERR);
			if (p.a && acts[i] == err_requester)
				ASSERT_EQ(qp_state(p.a), (unsigned int)MLX5_QP_STATE_ERR);
		}
	}
}

/* several CPUs */

struct cpu {
	struct machine *m;
	struct pair p;
	u64 seed;
	struct shim_fiber *fiber;
	unsigned int ops;
	u64 *counter;
	u32 counter_key;
	u64 counter_va;
	const char *failed;
};

static void cpu_main(void *arg)
{
	struct cpu *c = arg;
	struct pair *p = &c->p;
	struct mlx5_cqe64 cqe;
	u64 x = c->seed;
	u16 sent = 0;

	for (unsigned int i = 0; i < c->ops; i++) {
		struct mem extra;
		unsigned int tries;
		u32 key = 0, at;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		at = x % 4000;
		switch (x >> 40 & 3) {
		case 0:
			post_write(p->a, p->lkey, p->s + at, 64, p->rkey, p->d + at);
			break;
		case 1:
			post_recv(p->b, p->rkey, p->d + at, 64);
			post_send(p->a, p->lkey, p->s + at, 64);
			break;
		case 2:
			post_atomic(p->a, MLX5_OPCODE_ATOMIC_FA, p->lkey, p->s + 0x1800, c->counter_key, c->counter_va, 1, 0);
			break;
		case 3:
			/* a key that lives for one request */
			extra = mem_new(c->m, 4096);
			key = mr_new(c->m, &extra, 0, 4096, 0);
			post_write(p->a, p->lkey, p->s + at, 64, key, at & 0xfc0 & ~64u);
			break;
		}
		for (tries = 0; !cq_poll(p->a->scq, &cqe); tries++) {
			if (tries > 100000) {
				c->failed = "no completion";
				return;
			}
			shim_yield();
		}
		if (cqe.op_own >> 4 != MLX5_CQE_REQ || be16_to_cpu(cqe.wqe_counter) != sent++) {
			c->failed = "wrong completion";
			return;
		}
		cq_update(p->a->scq);
		if ((x >> 40 & 3) < 2 && memcmp(p->dst.cpu + PAIR_OFFSET + at, p->src.cpu + PAIR_OFFSET + at, 64)) {
			c->failed = "wrong data";
			return;
		}
		if ((x >> 40 & 3) == 1) {
			if (!cq_poll(p->b->rcq, &cqe) || cqe.op_own >> 4 != MLX5_CQE_RESP_SEND) {
				c->failed = "no receive completion";
				return;
			}
			cq_update(p->b->rcq);
		}
		if (key) {
			if (key_free(c->m, key)) {
				c->failed = "DESTROY_MKEY";
				return;
			}
			mem_unmap(&extra);
		}
	}
}

static void many_cpus(struct machine *m, u64 seed, int how)
{
	struct mem shared = mem_new(m, 4096);
	u32 key = mr_new(m, &shared, 0, 4096, 0);
	u64 adds = 0, x;
	struct cpu c[4];

	m->ring_how = how;
	shim_preempt_seed(seed);
	for (int i = 0; i < 4; i++) {
		c[i] = (struct cpu){ .m = m, .p = pair_new(m), .seed = seed * 4 + i + 1, .ops = 40, .counter_key = key,
				     .counter_va = 64 };
		/* count the additions in advance */
		for (x = c[i].seed, c[i].ops = 0; c[i].ops < 40; c[i].ops++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			adds += (x >> 40 & 3) == 2;
		}
	}
	for (int i = 0; i < 4; i++)
		c[i].fiber = shim_spawn(cpu_main, &c[i], "CPU");
	shim_advance(1000 * MS);
	shim_preempt_seed(0);
	for (int i = 0; i < 4; i++) {
		ASSERT(shim_done(c[i].fiber));
		if (c[i].failed)
			FAIL("seed %llu, CPU %d: %s", seed, i, c[i].failed);
		ASSERT_EQ(qp_free(c[i].p.a), 0);
		ASSERT_EQ(qp_free(c[i].p.b), 0);
	}
	/* no addition was lost */
	ASSERT_EQ(*(u64 *)(shared.cpu + 64), adds);
}

TEST("HM-11.8", four_cpus_inline)
{
	for (u64 seed = 1; seed <= 12; seed++)
		many_cpus(m, seed * 0x9e3779b97f4a7c15ULL, RING_INLINE);
}

TEST("HM-11.8", four_cpus_by_worker)
{
	for (u64 seed = 1; seed <= 12; seed++)
		many_cpus(m, seed * 0xc2b2ae3d27d4eb4fULL, RING_WORKER);
}

/* several CPUs that change keys under each other's requests, and keys that live for a few requests */
struct changer {
	struct machine *m;
	struct pair p;
	struct qp *umr;
	struct shim_fiber *fiber;
	const struct mem *buf;
	const u32 *mr;
	u32 shared[2];		/* a list and a page table over one of two buffers */
	u32 pages;		/* key over the entries of each buffer, 2 KiB apart */
	u64 seed;
	const char *failed;
};

static bool changer_done(struct changer *c, struct cq *cq, u8 opcode)
{
	struct mlx5_cqe64 cqe;

	for (unsigned int tries = 0; !cq_poll(cq, &cqe); tries++) {
		if (tries > 100000) {
			c->failed = "no completion";
			return false;
		}
		shim_yield();
	}
	cq_update(cq);
	if (cqe.op_own >> 4 == opcode)
		return true;
	c->failed = "wrong completion";
	return false;
}

/* bind, use and invalidate a key of its own, whose memory then goes */
static bool short_life(struct changer *c)
{
	struct mem mem = mem_new(c->m, 4096);
	struct key_attr a = { .mode = MLX5_MKC_ACCESS_MODE_KLMS, KEY_ALL, .free = true, .umr_en = true, .en_rinval = true,
			      .octwords = 4, .len = 4096 };
	u32 mr = mr_new(c->m, &mem, 0, 4096, 0), key = key_new(c->m, &a);
	u8 list[64] = {};
	struct umr u = { .key = key, .flags = UMR_INLINE | UMR_IF_FREE, .octwords = 4, .list = list, .mask = UMR_FREE };

	klm_put(list, 0, (struct klm){ 4096, mr, 0 });
	post_umr(c->p.a, &u);
	if (!changer_done(c, c->p.a->scq, MLX5_CQE_REQ))
		return false;
	post_write(c->p.a, c->p.lkey, c->p.s, 64, key, 128);
	post_recv(c->p.b, key, 256, 64);
	post_send_inval(c->p.a, c->p.lkey, c->p.s, 64, key);
	if (!changer_done(c, c->p.a->scq, MLX5_CQE_REQ) || !changer_done(c, c->p.a->scq, MLX5_CQE_REQ) ||
	    !changer_done(c, c->p.b->rcq, MLX5_CQE_RESP_SEND_INV))
		return false;
	if (memcmp(mem.cpu + 128, c->p.src.cpu + PAIR_OFFSET, 64) || memcmp(mem.cpu + 256, c->p.src.cpu + PAIR_OFFSET, 64))
		c->failed = "wrong data";
	if (key_free(c->m, mr) || key_free(c->m, key))
		c->failed = "DESTROY_MKEY";
	mem_unmap(&mem);
	return !c->failed;
}

static void changer_main(void *arg)
{
	struct changer *c = arg;
	u64 x = c->seed;

	for (int i = 0; i < 40 && !c->failed; i++) {
		u8 list[64] = {};
		struct umr u = { .key = c->shared[0], .flags = UMR_INLINE, .octwords = 4, .list = list };
		u32 at;
		int to;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		at = x % (8192 - 64);
		to = x >> 32 & 1;
		switch (x >> 40 & 3) {
		case 0:
			/* by a program's queue */
			klm_put(list, 0, (struct klm){ 8192, c->mr[to], 0 });
			post_umr(c->p.a, &u);
			changer_done(c, c->p.a->scq, MLX5_CQE_REQ);
			break;
		case 1:
			/* by the driver's */
			u = (struct umr){ .key = c->shared[1], .octwords = 4, .lkey = c->pages, .addr = 2048 * to, .byte_count = 64 };
			post_umr(c->umr, &u);
			changer_done(c, c->umr->scq, MLX5_CQE_REQ);
			break;
		case 2:
			post_read(c->p.a, c->p.lkey, c->p.s + 0x1000, 64, c->shared[x >> 33 & 1], at);
			if (changer_done(c, c->p.a->scq, MLX5_CQE_REQ) &&
			    memcmp(c->p.src.cpu + PAIR_OFFSET + 0x1000, c->buf[0].cpu + at, 64) &&
			    memcmp(c->p.src.cpu + PAIR_OFFSET + 0x1000, c->buf[1].cpu + at, 64))
				c->failed = "a mixture";
			break;
		case 3:
			short_life(c);
			break;
		}
	}
}

TEST("HM-11.8 HM-8.16", cpus_that_change_each_others_keys)
{
	struct mem buf[2] = { mem_new(m, 8192), mem_new(m, 8192) }, pages = mem_new(m, 4096);
	u32 mr[2] = { mr_new(m, &buf[0], 0, 8192, 0), mr_new(m, &buf[1], 0, 8192, 0) }, pages_key = mr_new(m, &pages, 0, 4096, 0);
	struct key_attr a = { .mode = MLX5_MKC_ACCESS_MODE_KLMS, KEY_ALL, .umr_en = true, .len = 8192,
			      .klm = &(struct klm){ 8192, mr[0], 0 }, .nr = 1 };
	struct changer c[4];

	for (int i = 0; i < 2; i++) {
		mem_fill(&buf[i], 0, 8192, 60 + i);
		for (int k = 0; k < 2; k++)
			put_unaligned_be64(buf[i].dma[k] | 3, pages.cpu + 2048 * i + 8 * k);
	}
	for (u64 seed = 1; seed <= 16; seed++) {
		u32 list = key_new(m, &a);
		u32 table = mr_new_attr(m, &buf[0], 0, 8192, 0, (struct key_attr){ KEY_ALL, .umr_en = true });

		m->ring_how = seed & 1 ? RING_INLINE : RING_WORKER;
		for (int i = 0; i < 4; i++)
			c[i] = (struct changer){ .m = m, .p = pair_new(m), .umr = umr_qp_new(m), .buf = buf, .mr = mr,
						 .shared = { list, table }, .pages = pages_key,
						 .seed = (seed * 4 + i + 1) * 0x9e3779b97f4a7c15ULL };
		shim_preempt_seed(seed * 0xc2b2ae3d27d4eb4fULL);
		for (int i = 0; i < 4; i++)
			c[i].fiber = shim_spawn(changer_main, &c[i], "CPU");
		shim_advance(1000 * MS);
		shim_preempt_seed(0);
		for (int i = 0; i < 4; i++) {
			ASSERT(shim_done(c[i].fiber));
			if (c[i].failed)
				FAIL("seed %llu, CPU %d: %s", seed, i, c[i].failed);
			ASSERT_EQ(qp_free(c[i].p.a), 0);
			ASSERT_EQ(qp_free(c[i].p.b), 0);
			ASSERT_EQ(qp_free(c[i].umr), 0);
		}
		ASSERT_EQ(key_free(m, list), 0);
		ASSERT_EQ(key_free(m, table), 0);
	}
}

/* two threads that ring one queue pair at the same time, as one UAR page allows */
static void ringer(void *arg)
{
	struct qp *qp = arg;

	for (int i = 0; i < 30; i++) {
		sq_ring(qp);
		shim_yield();
	}
}

TEST("HM-11.8", two_threads_ring_one_queue)
{
	for (u64 seed = 1; seed < 20; seed++) {
		struct pair p = pair_new_attr(m, (struct qp_attr){ .log_sq = 8 }, (struct qp_attr){}, (struct qp_path){});
		struct shim_fiber *f[2];
		struct wqe w;
		u16 done = 0;

		shim_preempt_seed(seed * 0x9e3779b97f4a7c15ULL);
		for (int i = 0; i < 2; i++)
			f[i] = shim_spawn(ringer, p.a, "ringer");
		for (u16 i = 0; i < 60; i++) {
			wqe_begin(&w, MLX5_OPCODE_RDMA_WRITE, SIGNALED, 0);
			wqe_raddr(&w, p.d + 8 * i, p.rkey);
			wqe_data(&w, p.lkey, p.s + 8 * i, 8);
			sq_put(p.a, &w);
			if (i % 3 == 0)
				shim_yield();
		}
		sq_ring(p.a);
		shim_run();
		shim_preempt_seed(0);
		ASSERT(shim_done(f[0]) && shim_done(f[1]));
		/* in order, each once */
		for (; done < 60; done++)
			EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, done);
		EXPECT_NONE(p.a->scq);
		ASSERT_PATTERN(&p.dst, PAIR_OFFSET, 480, 1, PAIR_OFFSET);
		ASSERT_EQ(qp_free(p.a), 0);
		ASSERT_EQ(qp_free(p.b), 0);
	}
}

/* a hostile program: garbage in the rings, garbage in the records. Memory without a key of its PD stays as it is. */
TEST("hostile", garbage_in_every_ring)
{
	struct mem ours = mem_new(m, 16 * 4096), canary = mem_new(m, 16 * 4096);
	struct pair p = pair_new(m);
	u32 pd = pd_new(m), key, foreign;
	unsigned int errors = 0, good = 0;

	key = mr_new(m, &ours, 0, ours.len, 0);
	foreign = mr_new_attr(m, &canary, 0, canary.len, 0, (struct key_attr){ KEY_ALL, .pd = pd });
	rnd_state = 0x1234567;
	mem_fill(&canary, 0, canary.len, 7);
	for (int round = 0; round < 3000; round++) {
		unsigned int ds = 1 + rnd(12), i;
		struct mlx5_cqe64 c;
		struct wqe w;
		u8 *b;

		/* a WQE with the bones of one: opcode, index and key likely, the rest dice */
		wqe_begin(&w, rnd(3) ? (const u8[]){ 0x00, 0x01, 0x08, 0x09, 0x0a, 0x0b, 0x10, 0x11, 0x12, 0x14, 0x15, 0x25 }[rnd(12)] :
			  rnd(256), rnd(256), rnd(1ULL << 32));
		for (i = 16; i < 16 * ds; i += 16) {
			b = w.b + i;
			put_unaligned_be32(rnd(4) ? rnd(5000) : rnd(1ULL << 32), b);
			put_unaligned_be32(rnd(4) ? key : rnd(2) ? foreign : rnd(1ULL << 32), b + 4);
			put_unaligned_be64(rnd(4) ? rnd(70000) : rnd(~0ULL), b + 8);
			if (rnd(2)) {
				put_unaligned_be64(rnd(4) ? rnd(70000) & ~7ULL : rnd(~0ULL), b);
				put_unaligned_be32(rnd(4) ? key : rnd(2) ? foreign : rnd(1ULL << 32), b + 8);
			}
		}
		w.len = 16 * ds;
		/* receive WQEs of the same kind */
		for (i = rnd(3); i--; ) {
			struct sge sge[4];

			for (int k = 0; k < 4; k++)
				sge[k] = (struct sge){ rnd(4) ? key : rnd(2) ? foreign : rnd(1ULL << 32),
						       rnd(4) ? rnd(70000) : rnd(~0ULL), rnd(4) ? rnd(3000) : rnd(1ULL << 32) };
			if (!cq_peek(p.b->rcq, &c) && (u16)(p.b->rq_pi) < 60)
				rq_post(p.b, sge, rnd(5));
		}
		if (!rnd(50))
			((__be32 *)p.b->dbr.cpu)[0] = cpu_to_be32(rnd(1ULL << 32));
		sq_put(p.a, &w);
		if (!rnd(20))
			*sq_byte(p.a, p.a->sq_pi - 1, rnd(64)) = rnd(256);
		if (!rnd(50))
			p.a->sq_pi = rnd(65536);
		sq_ring(p.a);
		while (cq_poll(p.a->scq, &c)) {
			if (c.op_own >> 4 == MLX5_CQE_REQ)
				good++;
			else
				errors++;
		}
		while (cq_poll(p.b->rcq, &c))
			;
		while (cq_poll(p.a->rcq, &c))
			;
		cq_update(p.a->scq);
		cq_update(p.a->rcq);
		cq_update(p.b->scq);
		cq_update(p.b->rcq);
		if (qp_state(p.a) != MLX5_QP_STATE_RTS || qp_state(p.b) != MLX5_QP_STATE_RTS || rnd(10) == 0) {
			qp_reset(p.a);
			qp_reset(p.b);
			while (cq_poll(p.a->scq, &c) || cq_poll(p.b->rcq, &c) || cq_poll(p.a->rcq, &c))
				;
			qp_connect(p.a, p.b, (struct qp_path){});
		}
	}
	ASSERT_PATTERN(&canary, 0, canary.len, 7, 0);
	/* the dice reach both outcomes */
	ASSERT_GT(errors, 300u);
	ASSERT_GT(good, 100u);
}

/* a program that rewrites its rings while the engine reads them, with the others' turns at every lock */
static void scribbler(void *arg)
{
	struct pair *p = arg;

	for (int i = 0; i < 400; i++) {
		p->a->ring.cpu[p->a->sq_offset + rnd(64 << p->a->log_sq)] = rnd(256);
		p->b->ring.cpu[p->b->rq_offset + rnd(64 << p->b->log_rq)] = rnd(256);
		if (!rnd(100))
			((__be32 *)p->a->dbr.cpu)[1] = rnd(1ULL << 32);
		shim_yield();
	}
}

TEST("hostile", rings_change_while_they_are_read)
{
	struct mem canary = mem_new(m, 16 * 4096);

	mem_fill(&canary, 0, canary.len, 7);
	mr_new_attr(m, &canary, 0, canary.len, 0, (struct key_attr){ KEY_ALL, .pd = pd_new(m) });
	for (u64 seed = 1; seed < 30; seed++) {
		struct pair p = pair_new(m);
		struct shim_fiber *f;

		rnd_state = seed * 77777;
		f = shim_spawn(scribbler, &p, "scribbler");
		shim_preempt_seed(seed * 0x9e3779b97f4a7c15ULL);
		for (int i = 0; i < 40; i++) {
			post_recv(p.b, p.rkey, p.d, 64);
			post_send(p.a, p.lkey, p.s, 64);
			post_write(p.a, p.lkey, p.s, 64, p.rkey, p.d);
		}
		shim_run();
		shim_preempt_seed(0);
		ASSERT(shim_done(f));
		ASSERT_EQ(qp_free(p.a), 0);
		ASSERT_EQ(qp_free(p.b), 0);
	}
	ASSERT_PATTERN(&canary, 0, canary.len, 7, 0);
}
