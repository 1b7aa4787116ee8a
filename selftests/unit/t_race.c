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

/* destroys the key and releases its memory the moment the command says OK: guarantee G */
static void destroy_key_and_memory(struct act *act)
{
	act->status = key_free(act->p->m, act->key);
	mem_unmap(act->mem);
}

static u32 big_lkey, big_rkey;
#define BIG (4 << 20)

static void post_big_write(struct act *act) { post_write(act->p->a, big_lkey, 0, BIG, big_rkey, 0); }
static void post_big_read(struct act *act) { post_read(act->p->a, big_lkey, 0, BIG, big_rkey, 0); }

static void post_big_send(struct act *act)
{
	post_recv(act->p->b, big_rkey, 0, BIG);
	post_send(act->p->a, big_lkey, 0, BIG);
}

TEST("HM-7.7 HM-11.1 HM-11.3 case 28", destroy_waits_for_the_chunk_and_not_for_the_message)
{
	static void (*const post[])(struct act *act) = { post_big_write, post_big_read, post_big_send };
	struct pair p = pair_new(m);

	for (int op = 0; op < 3; op++) {
		for (int far = 0; far < 2; far++) {
			for (unsigned int at = 0; at < 600; at += 199) {
				struct mem src = mem_new(m, BIG), dst = mem_new(m, BIG);
				struct act act = { .fn = destroy_key_and_memory, .p = &p, .at = at, .must_wait = true };
				u8 code = HCA_VS_LEVEL0 | HCA_CHECK_NO_MKC;
				struct mlx5_cqe64 c;

				big_lkey = mr_new(m, &src, 0, BIG, 0);
				big_rkey = mr_new(m, &dst, 0, BIG, 0);
				act.key = far ? big_rkey : big_lkey;
				act.when = act.mem = far ? &dst : &src;
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
				key_free(m, far ? big_lkey : big_rkey);
				mem_unmap(far ? &src : &dst);
			}
		}
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
