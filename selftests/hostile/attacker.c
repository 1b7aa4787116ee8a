// SPDX-License-Identifier: GPL-2.0
/*
 * The life of an attacker: a context with keys of every kind, good ones and traps, queue
 * pairs connected in pairs, and a thread that changes all of it while it is read.
 *
 * Keys that name each other form chains, deeper than is allowed, and circles.
 */
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include "hostile.h"

#define ROUNDS		300	/* of a life */
#define MAX_SILENT	10	/* rounds, then all queues must be dead */
#define LIST_ROOM	16	/* octowords of an indirect key */

static void add_key(struct attacker *a, uint32_t key, uint64_t addr,
		    uint64_t len, unsigned int umr)
{
	if (a->nkeys < KEYS)
		a->keys[a->nkeys++] = (struct key){ key, addr, len, umr };
}

const struct key *pick_key(struct attacker *a)
{
	static struct key odd;
	const struct facts *f = &shared->facts;
	unsigned int how = rng_below(&a->rng, 100);

	/* the first two allow everything */
	if (how < 65)
		return &a->keys[rng_below(&a->rng, 2)];
	if (how < 92)
		return &a->keys[rng_below(&a->rng, a->nkeys)];
	odd = a->keys[rng_below(&a->rng, a->nkeys)];
	if (how < 96) {
		odd.key = f->keys[rng_below(&a->rng, ORACLE_KEYS)];
		if (how & 1) {
			odd.addr = f->addr;
			odd.len = f->len;
		}
	} else if (how < 97) {
		odd.key ^= 1u << rng_below(&a->rng, 8);
	} else if (how < 98) {
		odd.key = rng_below(&a->rng, 8) << 8;	/* special, or nobody's */
	} else {
		odd.key = f->keys[0] + rng_below(&a->rng, 0x20000) - 0x10000;
	}
	return &odd;
}

static int make_regions(struct attacker *a)
{
	static const int rights[] = {
		ACCESS_ALL | IBV_ACCESS_MW_BIND, ACCESS_ALL, 0,
		IBV_ACCESS_LOCAL_WRITE,
		IBV_ACCESS_REMOTE_READ,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
	};

	for (int i = 0; i < 6; i++) {
		a->mr[i] = ibv_reg_mr(i == 5 ? a->other_pd : a->pd, a->area,
				      AREA / 2, rights[i]);
		if (!a->mr[i])
			return -errno;
		add_key(a, a->mr[i]->lkey, (uintptr_t)a->area, AREA / 2, 0);
	}
	/* the second half holds lists, which a UMR is to find */
	a->keys[1].len = AREA / 4;
	/* a key that was good once */
	if (!ibv_dereg_mr(a->mr[3]))
		a->mr[3] = NULL;
	return 0;
}

static void make_indirect(struct attacker *a)
{
	for (unsigned int i = 0; i < 8; i++) {
		struct mlx5dv_mkey_init_attr attr = {
			.pd = i == 7 ? a->other_pd : a->pd,
			.max_entries = LIST_ROOM,
			.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT,
		};

		a->mkey[i] = mlx5dv_create_mkey(&attr);
		if (a->mkey[i])
			add_key(a, a->mkey[i]->lkey, 0, AREA / 4, LIST_ROOM);
	}
}

/* Each names the one before it: the last ones are too deep */
static void make_chain(struct attacker *a)
{
	for (unsigned int i = 0; i < CHAIN; i++) {
		const struct key *below = i ? &a->keys[a->nkeys - 1] :
					      &a->keys[0];
		uint32_t key;

		a->chain[i] = make_list_key(a, below, &key);
		if (!a->chain[i])
			return;
		add_key(a, key, below->addr, below->len, 4);
	}
}

static void make_device_memory(struct attacker *a)
{
	struct ibv_alloc_dm_attr attr = { .length = PAGE };

	a->dm = ibv_alloc_dm(a->r.ctx, &attr);
	if (!a->dm)
		return;
	a->dm_mr = ibv_reg_dm_mr(a->pd, a->dm, 0, PAGE,
				 ACCESS_ALL | IBV_ACCESS_ZERO_BASED);
	if (a->dm_mr)
		add_key(a, a->dm_mr->lkey, 0, PAGE, 0);
}

static int make_queues(struct attacker *a)
{
	struct qp_cfg cfg = { .send_wr = 64, .recv_wr = 16, .send_sge = 8,
			      .recv_sge = 2, .timeout = 8, .retry_cnt = 1,
			      .rnr_retry = 1, .min_rnr_timer = 1 };

	a->rcq = ibv_create_cq(a->r.ctx, 60, NULL, NULL, 0);
	if (!a->rcq)
		return -errno;
	for (int i = 0; i < QPS; i++) {
		struct mlx5dv_cq cq;
		struct mlx5dv_obj obj = { .cq = { a->rcq, &cq } };

		a->scq[i] = ibv_create_cq(a->r.ctx, 30, NULL, NULL, 0);
		if (!a->scq[i])
			return -errno;
		a->qp[i] = qp_create(a->pd, a->scq[i], a->rcq, &cfg);
		if (!a->qp[i])
			return -errno;
		if (raw_open(&a->raw[i], a->qp[i], a->scq[i]))
			return -EINVAL;
		if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ))
			return -EINVAL;
		a->rraw.cq = cq;
	}
	for (int i = 0; i < QPS / 2; i++)
		if (revive(a, i))
			return -EINVAL;
	return 0;
}

static int attacker_open(struct attacker *a)
{
	struct mlx5dv_pd pd = {};
	struct mlx5dv_obj obj = { .pd = { .out = &pd } };
	int err = rdma_open(&a->r);

	if (err)
		return err;
	a->pd = ibv_alloc_pd(a->r.ctx);
	a->other_pd = ibv_alloc_pd(a->r.ctx);
	a->area = mem_pages(AREA);
	if (!a->pd || !a->other_pd || !a->area)
		return -ENOMEM;
	obj.pd.in = a->pd;
	mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD);
	a->pdn = pd.pdn;
	err = make_regions(a);
	if (err)
		return err;
	make_indirect(a);
	make_chain(a);
	make_device_memory(a);
	a->mw = ibv_alloc_mw(a->pd, IBV_MW_TYPE_2);
	if (a->mw)
		add_key(a, a->mw->rkey, (uintptr_t)a->area, AREA / 4, 4);
	a->umem = mlx5dv_devx_umem_reg(a->r.ctx, a->area, AREA,
				       IBV_ACCESS_LOCAL_WRITE);
	a->uar = mlx5dv_devx_alloc_uar(a->r.ctx, MLX5DV_UAR_ALLOC_TYPE_NC);
	return make_queues(a);
}

struct mauler {
	struct attacker *a;
	struct rng rng;
};

/* Changes a word of a queue, a record or a list, often back to what it was */
static void *maul(void *arg)
{
	struct mauler *m = arg;
	struct attacker *a = m->a;

	for (;;) {
		struct raw *raw = &a->raw[rng_below(&m->rng, QPS)];
		uint32_t *word, was;
		size_t at;

		switch (rng_below(&m->rng, 8)) {
		case 0:
			word = (uint32_t *)raw->qp.dbrec + rng_below(&m->rng, 2);
			break;
		case 1:
			word = (uint32_t *)raw->cq.dbrec + rng_below(&m->rng, 2);
			break;
		case 2:
		case 3:
			at = rng_below(&m->rng, AREA / 8);
			word = (uint32_t *)(a->area + AREA / 2) + at;
			break;
		default:
			at = rng_below(&m->rng, raw->qp.sq.wqe_cnt * BB / 4);
			word = (uint32_t *)raw->qp.sq.buf + at;
		}
		was = *word;
		rng_twist(&m->rng, word, sizeof(*word));
		for (int n = rng_below(&m->rng, 200); n--; )
			__atomic_thread_fence(__ATOMIC_SEQ_CST);
		if (rng_often(&m->rng, 90))
			*word = was;
		if (rng_often(&m->rng, 20))
			usleep(rng_below(&m->rng, 500));
	}
	return NULL;
}

/* Nobody else has given this process a word of this kind */
static void look_for_secrets(struct attacker *a)
{
	const uint64_t mark = secret_mark(), *word = (uint64_t *)a->area;

	for (size_t i = 0; i < AREA / 8; i++)
		if ((word[i] & SECRET_BITS) == mark)
			finding("an attacker has read %#llx of the oracle",
				(unsigned long long)word[i]);
}

void attacker_run(unsigned int index, uint64_t seed, unsigned int life)
{
	static struct attacker attacker;
	static struct mauler mauler;
	struct attacker *a = &attacker;
	const struct rlimit no_core = { 0, 0 };
	pthread_t thread;

	/* dying of its own confusion is no news */
	setrlimit(RLIMIT_CORE, &no_core);
	rng_seed(&a->rng, seed, index, life);
	rng_seed(&mauler.rng, seed, index + MAX_ATTACKERS, life);
	a->tally = &shared->tally[index];
	a->tally->doing = "opening";
	/* what it builds upon is good; from then on nothing is */
	if (attacker_open(a))
		_exit(1);
	mauler.a = a;
	if (rng_often(&a->rng, 40))
		pthread_create(&thread, NULL, maul, &mauler);
	for (int round = 0; round < ROUNDS && a->silent < MAX_SILENT && !shared->stop;
	     round++) {
		unsigned int how = rng_below(&a->rng, 100);

		if (how < 80)
			wqe_round(a);
		else if (how < 88)
			verbs_round(a);
		else if (how < 96)
			devx_round(a);
		else
			mmap_round(a);
		a->tally->beats++;
		if (round % 16 == 0)
			look_for_secrets(a);
	}
	a->tally->doing = "exiting";
	look_for_secrets(a);
	_exit(0);
}
