// SPDX-License-Identifier: GPL-2.0
/* The world of the fuzz targets: see fuzz.h for what must never happen in it. */
#include <linux/kernel.h>

#include "fuzz.h"

#define CANARY_SEED	77

/* the canary lies behind keys of a domain that no queue is in: nobody has business there */
static void watch_canary(struct machine *m, u64 dma, size_t len)
{
	struct world *w = m->hook_arg;

	if (w->trusted)
		return;
	for (u64 i = 0; i < w->canary.nr; i++)
		if (dma < w->canary.dma[i] + 4096 && w->canary.dma[i] < dma + len)
			FAIL("the engine maps %#llx, a page of the canary", dma);
}

static struct world world;
static u8 own_before[FUZZ_PAGES * 4096], src_before[3 * 4096], dst_before[3 * 4096];
static unsigned int uses;

static void foreign_key(struct world *w)
{
	w->foreign = mr_new_attr(w->m, &w->canary, 0, w->canary.len, 0,
				 (struct key_attr){ KEY_ALL, .umr_en = true, .en_rinval = true, .pd = w->pd });
	mem_fill(&w->canary, 0, w->canary.len, CANARY_SEED);
}

static void world_make(struct world *w)
{
	struct machine *m = machine_new();

	*w = (struct world){ .m = m, .p = pair_new(m), .umr = umr_qp_new(m), .pd = pd_new(m) };
	/* with distance: a page of 32 KiB that begins in one must not end in another */
	m->next_dma += 1 << 20;
	w->own = mem_new(m, FUZZ_PAGES * 4096ul);
	m->next_dma += 1 << 20;
	w->canary = mem_new(m, 2 * 4096);
	m->next_dma += 1 << 20;
	foreign_key(w);
	mem_fill(&w->own, 0, w->own.len, 1);
	memcpy(own_before, w->own.cpu, w->own.len);
	memcpy(src_before, w->p.src.cpu, w->p.src.len);
	memcpy(dst_before, w->p.dst.cpu, w->p.dst.len);
}

struct world *world_get(void)
{
	struct world *w = &world;

	if (!w->m)
		world_make(w);
	memcpy(w->own.cpu, own_before, w->own.len);
	memcpy(w->p.src.cpu, src_before, w->p.src.len);
	memcpy(w->p.dst.cpu, dst_before, w->p.dst.len);
	w->m->hook_arg = w;
	w->m->bus_hook = watch_canary;
	return w;
}

void world_put(struct world *w)
{
	w->m->bus_hook = NULL;
	if (!w->trusted) {
		ASSERT_PATTERN(&w->canary, 0, w->canary.len, CANARY_SEED, 0);
	} else {
		ASSERT_EQ(key_free(w->m, w->foreign), 0);
		foreign_key(w);
	}
	w->trusted = false;
	if (++uses % 500 == 0)
		world_end();
}

void world_end(void)
{
	struct qp *qp[] = { world.p.a, world.p.b, world.umr };

	if (!world.m)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(qp); i++) {
		struct cq *scq = qp[i]->scq, *rcq = qp[i]->rcq;

		ASSERT_EQ(qp_free(qp[i]), 0);
		ASSERT_EQ(cq_free(scq), 0);
		ASSERT_EQ(cq_free(rcq), 0);
	}
	/* some keys stay behind, and nobody may look at what is behind them */
	mem_unmap(&world.own);
	mem_unmap(&world.canary);
	mem_unmap(&world.p.src);
	mem_unmap(&world.p.dst);
	machine_free(world.m);
	world.m = NULL;
	shim_check_quiet();
}

static void empty(struct cq *cq)
{
	struct mlx5_cqe64 c;

	while (cq_poll(cq, &c))
		;
	cq_update(cq);
}

void world_revive(struct world *w)
{
	struct qp *qp[] = { w->p.a, w->umr };

	shim_run();
	empty(w->p.a->scq);
	empty(w->p.a->rcq);
	empty(w->p.b->scq);
	empty(w->p.b->rcq);
	empty(w->umr->scq);
	for (size_t i = 0; i < ARRAY_SIZE(qp); i++) {
		if (qp_state(qp[i]) == MLX5_QP_STATE_RTS && (!qp[i]->peer || qp_state(qp[i]->peer) == MLX5_QP_STATE_RTS))
			continue;
		qp_reset(qp[i]);
		if (qp[i]->peer)
			qp_reset(qp[i]->peer);
		empty(qp[i]->scq);
		if (qp[i]->peer) {
			empty(qp[i]->rcq);
			empty(qp[i]->peer->rcq);
		}
		qp_revive(__FILE__, __LINE__, qp[i], (struct qp_path){});
	}
}

u8 world_access(struct world *w, u32 key, u64 va, u32 len, enum hca_access access, bool remote)
{
	struct pair *p = &w->p;
	struct hca_explain_step step;
	struct hca_explain_req req = { key, remote ? p->b->qpn : p->a->qpn, va, len, access, remote };
	struct mlx5_cqe64 c;
	u8 says, code = 0;

	ASSERT_GE(hca_explain(w->m->hca, &req, &step, 1, &says), 0);
	if (!remote && access == HCA_ACCESS_READ)
		post_write(p->a, key, va, len, p->rkey, p->d);
	else if (!remote)
		post_read(p->a, key, va, len, p->rkey, p->d);
	else if (access == HCA_ACCESS_READ)
		post_read(p->a, p->lkey, p->s, len, key, va);
	else if (access == HCA_ACCESS_WRITE)
		post_write(p->a, p->lkey, p->s, len, key, va);
	else
		post_atomic(p->a, MLX5_OPCODE_ATOMIC_FA, p->lkey, p->s, key, va, 1, 0);
	if (!cq_poll(p->a->scq, &c))
		FAIL("key %#x, V %#llx, L %u: no completion", key, va, len);
	if (c.op_own >> 4 != MLX5_CQE_REQ)
		code = qp_error(remote ? p->b : p->a).vendor;
	if (code != says)
		FAIL("key %#x, V %#llx, L %u, access %d, remote %d: code %#x, explained as %#x", key, va, len, access, remote,
		     code, says);
	if (code)
		world_revive(w);
	else
		cq_update(p->a->scq);
	return code;
}
