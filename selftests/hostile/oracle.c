// SPDX-License-Identifier: GPL-2.0
/*
 * The oracle: a program that does nothing wrong, and checks that nobody can tell it from
 * one that is alone in the world.
 *
 * Its memory, page by page: private | guard, registered with every right | private |
 * traffic, registered | private. Only the traffic's part changes, and only by the oracle.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include "hostile.h"

#define PRIVATE		(4 * PAGE)
#define GUARD		(32 * PAGE)
#define TRAFFIC		(64 * PAGE)	/* source and target */
#define TOTAL		(3 * PRIVATE + GUARD + TRAFFIC)
#define LARGEST		(TRAFFIC / 2)
#define LOW_BITS	(~SECRET_BITS)

struct oracle {
	struct pair p;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;		/* of queue pair A, with events */
	struct ibv_qp *a;
	struct ibv_mr *guard_mr, *traffic_mr;
	struct mlx5dv_devx_umem *umem;
	char *all, *guard, *traffic;
	uint64_t *private;		/* what the words of @all should be */
	uint64_t round;
};

/* The words that nobody but the oracle may know or change */
static bool guarded(const struct oracle *o, size_t at)
{
	size_t from = o->traffic - o->all;

	return at < from || at >= from + TRAFFIC;
}

static void guard_fill(struct oracle *o)
{
	uint64_t *word = (uint64_t *)o->all;

	for (size_t i = 0; i < TOTAL / 8; i++) {
		if (!guarded(o, i * 8))
			continue;
		if (getrandom(&o->private[i], 8, 0) != 8)
			finding("no randomness");
		o->private[i] = secret_mark() | (o->private[i] & LOW_BITS);
		word[i] = o->private[i];
	}
}

static void guard_check(struct oracle *o)
{
	const volatile uint64_t *word = (uint64_t *)o->all;

	for (size_t i = 0; i < TOTAL / 8; i++)
		if (guarded(o, i * 8) && word[i] != o->private[i])
			finding("the oracle's word %zu is %#llx, not %#llx", i,
				(unsigned long long)word[i],
				(unsigned long long)o->private[i]);
}

static int oracle_open(struct oracle *o)
{
	struct qp_cfg cfg = { .max_inline = 64, .timeout = 20 };
	struct rdma *r = &o->p.r;
	int err = pair_open(&o->p, &cfg);

	if (err)
		return err;
	o->all = mem_pages(TOTAL);
	o->private = mem_pages(TOTAL);
	o->channel = ibv_create_comp_channel(r->ctx);
	if (!o->all || !o->private || !o->channel)
		return -ENOMEM;
	o->guard = o->all + PRIVATE;
	o->traffic = o->guard + GUARD + PRIVATE;
	guard_fill(o);
	o->guard_mr = ibv_reg_mr(o->p.pd, o->guard, GUARD, ACCESS_ALL);
	o->traffic_mr = ibv_reg_mr(o->p.pd, o->traffic, TRAFFIC, ACCESS_ALL);
	o->cq = ibv_create_cq(r->ctx, 64, NULL, o->channel, 0);
	if (!o->guard_mr || !o->traffic_mr || !o->cq)
		return -ENOMEM;
	o->a = qp_create(o->p.pd, o->cq, o->cq, &cfg);
	o->umem = mlx5dv_devx_umem_reg(r->ctx, o->guard, GUARD,
				       IBV_ACCESS_LOCAL_WRITE);
	if (!o->a || !o->umem)
		return -ENOMEM;
	/* B answers to this A from now on */
	err = qp_to(o->p.b, IBV_QPS_RESET);
	err = err ?: qp_connect(r, o->a, &cfg, o->p.b->qp_num);
	return err ?: qp_connect(r, o->p.b, &cfg, o->a->qp_num);
}

static void oracle_publish(struct oracle *o)
{
	struct mlx5dv_qp qp = {};
	struct mlx5dv_cq acq = {}, bcq = {};
	struct mlx5dv_pd pd = {};
	struct mlx5dv_obj obj = {
		.qp = { o->a, &qp }, .cq = { o->cq, &acq },
		.pd = { o->p.pd, &pd },
	};
	struct facts *f = &shared->facts;

	mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ | MLX5DV_OBJ_PD);
	obj.cq.in = o->p.bcq;
	obj.cq.out = &bcq;
	mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ);
	f->keys[0] = o->guard_mr->lkey;
	f->keys[1] = o->traffic_mr->lkey;
	f->keys[2] = o->guard_mr->lkey ^ 1;
	f->keys[3] = o->traffic_mr->lkey + 0x100;
	f->addr = (uintptr_t)o->guard;
	f->len = GUARD;
	f->qpn[0] = o->a->qp_num;
	f->qpn[1] = o->p.b->qp_num;
	f->cqn[0] = acq.cqn;
	f->cqn[1] = bcq.cqn;
	f->pdn = pd.pdn;
	f->umem = o->umem->umem_id;
	__atomic_store_n(&shared->ready, 1, __ATOMIC_RELEASE);
}

/* One completion of A: by looking, or after the event that was asked for */
static bool completion(struct oracle *o, bool by_event, struct ibv_wc *wc)
{
	uint64_t end = now_us() + 50 * 1000000ull;
	int n = 0;

	while (!n && !shared->stop && now_us() < end) {
		if (by_event && wait_comp(o->channel, 1000) != 1)
			continue;
		n = ibv_poll_cq(o->cq, 1, wc);
		if (!n && by_event)
			finding("an event without a completion");
		if (!n)
			sched_yield();
	}
	return n == 1;
}

/* Something moves from the source to the target, where it is expected alone */
static void transfer(struct oracle *o, struct rng *rng)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND,
		IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_RDMA_WRITE_WITH_IMM,
	};
	char *source = o->traffic, *target = o->traffic + LARGEST;
	enum ibv_wr_opcode opcode = opcodes[rng_below(rng, 5)];
	bool atomic = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	bool by_event = rng_often(rng, 30);
	uint32_t len = atomic ? 8 : 1 + rng_below(rng, LARGEST);
	bool receives = opcode == IBV_WR_SEND ||
			opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	struct op op = {
		.opcode = opcode, .flags = IBV_SEND_SIGNALED, .len = len,
		.laddr = (uintptr_t)source, .lkey = o->traffic_mr->lkey,
		.raddr = (uintptr_t)target, .rkey = o->traffic_mr->rkey,
		.cmp_add = 1,
	};
	struct ibv_wc wc;

	memset(target, 0, len);
	fill(source, len, o->round);
	if (opcode == IBV_WR_RDMA_READ) {
		op.laddr = (uintptr_t)target;
		op.raddr = (uintptr_t)source;
	}
	if (receives && post_recv(o->p.b, o->round, (uintptr_t)target, LARGEST,
				  o->traffic_mr->lkey))
		finding("the oracle cannot post a receive");
	if (by_event && ibv_req_notify_cq(o->cq, 0))
		finding("the oracle cannot arm");
	if (post(o->a, &op))
		finding("the oracle cannot post");
	if (!completion(o, by_event, &wc)) {
		if (!shared->stop)
			finding("the oracle waits for its completion, %s",
				by_event ? "by event" : "looking");
		return;
	}
	if (wc.status)
		finding("the oracle's request %d ends with status %d, %#x",
			opcode, wc.status, wc.vendor_err);
	if (receives && (wait_wc(o->p.bcq, &wc, 50000) != 1 || wc.status ||
			 wc.wr_id != o->round))
		finding("the oracle's receive is not good");
	if (atomic) {
		uint64_t word;

		memcpy(&word, target, 8);
		if (word != 1)
			finding("the oracle counts to %#llx",
				(unsigned long long)word);
	} else if (differs(target, len, o->round) >= 0) {
		finding("the oracle's message of %u bytes by opcode %d differs",
			len, opcode);
	}
}

/* Keys come and go: what others left in the pools must not matter */
static void register_anew(struct oracle *o, struct rng *rng)
{
	size_t len = PAGE * (1 + rng_below(rng, GUARD / PAGE));
	struct ibv_mr *mr = ibv_reg_mr(o->p.pd, o->guard, len, ACCESS_ALL);

	/* others can use up what is there for all */
	if (!mr)
		return;
	shared->facts.keys[2] = mr->lkey;
	shared->facts.keys[3] = mr->lkey ^ rng_below(rng, 256);
	if (ibv_dereg_mr(mr))
		finding("the oracle cannot deregister");
}

void oracle_run(void)
{
	struct oracle o = {};
	struct ibv_async_event event;
	struct rng rng;
	int err = oracle_open(&o);

	if (err) {
		finding("the oracle cannot be set up: %d", err);
		return;
	}
	rng_seed(&rng, 0, 0, 0);
	oracle_publish(&o);
	while (!shared->stop && !shared->found) {
		o.round++;
		transfer(&o, &rng);
		if (o.round % 4 == 0)
			register_anew(&o, &rng);
		if (o.round % 8 == 0)
			guard_check(&o);
		if (wait_async(&o.p.r, &event, 0) == 1)
			finding("the oracle is told of event %d",
				event.event_type);
		shared->oracle_beats++;
	}
	guard_check(&o);
}
