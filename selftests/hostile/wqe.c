// SPDX-License-Identifier: GPL-2.0
/*
 * Work requests: well-formed ones with a few fields that are not, rung in every way.
 *
 * Most are meant to succeed, because behind a check that always refuses no other is
 * ever reached; what succeeds changes keys and memory that the next one works with.
 */
#include <endian.h>
#include <sched.h>
#include <string.h>
#include "hostile.h"

#define AT(p)		((uintptr_t)(p))
#define MAX_LEN		(AREA / 4)

static struct qp_cfg attacker_cfg = {
	.timeout = 8, .retry_cnt = 1, .rnr_retry = 1, .min_rnr_timer = 1,
};

int revive(struct attacker *a, unsigned int pair)
{
	struct ibv_qp *x = a->qp[2 * pair], *y = a->qp[2 * pair + 1];
	int err = qp_to(x, IBV_QPS_RESET);

	err = err ?: qp_to(y, IBV_QPS_RESET);
	err = err ?: qp_connect(&a->r, x, &attacker_cfg, y->qp_num);
	err = err ?: qp_connect(&a->r, y, &attacker_cfg, x->qp_num);
	a->raw[2 * pair].pi = a->raw[2 * pair + 1].pi = 0;
	a->rq_pi[2 * pair] = a->rq_pi[2 * pair + 1] = 0;
	return err;
}

static uint64_t place(struct attacker *a, const struct key *key, uint32_t len)
{
	uint64_t room = key->len > len ? key->len - len : 0;

	if (rng_often(&a->rng, 2))
		return rng_odd(&a->rng);
	if (rng_often(&a->rng, 2))
		return key->addr + key->len - rng_below(&a->rng, len + 2);
	return key->addr + (rng_below(&a->rng, room / 8 + 1) * 8);
}

static uint32_t length(struct attacker *a)
{
	switch (rng_below(&a->rng, 8)) {
	case 0:
		return rng_often(&a->rng, 10) ? rng_odd(&a->rng) : PAGE;
	case 1:
		return rng_below(&a->rng, MAX_LEN);
	default:
		return 8 + rng_below(&a->rng, 256);
	}
}

static void data_segments(struct attacker *a, struct raw_wqe *w)
{
	unsigned int n = 1 + rng_below(&a->rng, 3);
	uint32_t len;

	while (n--) {
		const struct key *key = pick_key(a);

		len = length(a);
		raw_data(w, place(a, key, len), len, key->key);
	}
}

static void inline_segment(struct attacker *a, struct raw_wqe *w)
{
	uint32_t len = rng_below(&a->rng, 200), head;

	head = htobe32(0x80000000 | (rng_often(&a->rng, 5) ?
				     (uint32_t)rng_odd(&a->rng) : len));
	memcpy(w->bytes + w->len, &head, 4);
	w->len += (4 + len + 15) / 16 * 16;
}

/* An entry of a list: KLM, KSM alike */
static void entry(struct attacker *a, uint8_t *to)
{
	const struct key *key = pick_key(a);
	uint32_t len = length(a);
	uint64_t va = htobe64(place(a, key, len));
	uint32_t count = htobe32(len), number = htobe32(key->key);

	if (rng_often(&a->rng, 3))
		number = htobe32(0x100 << rng_below(&a->rng, 3));
	if (rng_often(&a->rng, 3))
		count = htobe32(0x80000001);
	memcpy(to, &count, 4);
	memcpy(to + 4, &number, 4);
	memcpy(to + 8, &va, 8);
}

static void repeated_block(struct attacker *a, uint8_t *to, unsigned int room)
{
	uint32_t n = 1 + rng_below(&a->rng, 3), bytes = 8 * n;
	uint32_t head[4] = { htobe32(bytes), htobe32(0x400),
			     htobe32(1 + rng_below(&a->rng, 100)), htobe32(n) };

	if (n + 1 > room)
		return;
	memcpy(to, head, 16);
	for (uint32_t i = 1; i <= n; i++) {
		const struct key *key = pick_key(a);
		uint32_t first = htobe32(16 << 16 | 8), number;
		uint64_t va = htobe64(place(a, key, PAGE));

		number = htobe32(key->key);
		memcpy(to + 16 * i, &first, 4);
		memcpy(to + 16 * i + 4, &number, 4);
		memcpy(to + 16 * i + 8, &va, 8);
	}
}

static void fill_list(struct attacker *a, uint8_t *list, unsigned int octwords)
{
	for (unsigned int i = 0; i < octwords; i++)
		entry(a, list + 16 * i);
	if (rng_often(&a->rng, 20))
		repeated_block(a, list, octwords);
}

/* HM 8: what libmlx5 asks of a UMR, and more */
static void umr_segments(struct attacker *a, struct raw *raw, struct raw_wqe *w)
{
	struct mlx5_wqe_umr_ctrl_seg umr = {};
	struct mlx5_wqe_mkey_context_seg mkc = {};
	struct key *key = (struct key *)pick_key(a);
	unsigned int octwords = 4 * rng_below(&a->rng, 5);
	uint32_t qpn = rng_often(&a->rng, 60) ? 0xffffff : raw->qpn;
	bool by_pointer = rng_often(&a->rng, 40);
	uint64_t mask;

	/* mostly a key that can be changed */
	for (int i = 0; i < 20 && !key->umr && rng_often(&a->rng, 95); i++)
		key = &a->keys[rng_below(&a->rng, a->nkeys)];
	if (key->umr == 4)
		octwords = 4;
	if (rng_often(&a->rng, 3))
		octwords = rng_odd(&a->rng);
	w->ctrl.imm = htobe32(key->key);
	umr.flags = by_pointer ? 0 : 0x80;
	if (rng_often(&a->rng, 10))
		umr.flags |= rng_u64(&a->rng) & 0x78;
	umr.klm_octowords = htobe16(octwords);
	if (rng_often(&a->rng, 5))
		umr.translation_offset = htobe16(rng_odd(&a->rng));
	/* len, start, key, rights, free; sometimes what is not allowed */
	mask = 1 | 1ull << 6 | 1ull << 18 | 1ull << 19 | 1ull << 20 | 1ull << 21 |
	       1ull << 29;
	if (rng_often(&a->rng, 60))
		mask |= 1ull << 14;
	if (rng_often(&a->rng, 30))
		mask |= 1ull << 13;
	if (rng_often(&a->rng, 10))
		mask |= 1ull << rng_below(&a->rng, 64);
	if (rng_often(&a->rng, 5))
		mask = rng_u64(&a->rng);
	umr.mkey_mask = htobe64(mask);
	mkc.free = rng_often(&a->rng, 15) ? 0x40 : 0;
	mkc.access_flags = 0x3c << 1 | 0x04;		/* lr and others */
	if (rng_often(&a->rng, 30))
		mkc.access_flags &= rng_u64(&a->rng) | 0x04;
	if (rng_often(&a->rng, 10))
		qpn = a->raw[rng_below(&a->rng, QPS)].qpn;
	mkc.qpn_mkey = htobe32(qpn << 8 | (key->key & 0xff));
	mkc.flags_pd = htobe32(rng_often(&a->rng, 90) ? a->pdn :
			       shared->facts.pdn);
	mkc.start_addr = htobe64(rng_often(&a->rng, 80) ? key->addr :
				 rng_odd(&a->rng));
	mkc.len = htobe64(rng_often(&a->rng, 80) ? key->len :
			  rng_odd(&a->rng));
	mkc.translations_octword_size = htobe32(octwords);
	mkc.log_page_size = 12;
	memcpy(w->bytes + w->len, &umr, sizeof(umr));
	memcpy(w->bytes + w->len + sizeof(umr), &mkc, sizeof(mkc));
	w->len += sizeof(umr) + sizeof(mkc);
	if (!by_pointer) {
		if (octwords > 32)
			octwords = 32;
		fill_list(a, w->bytes + w->len, octwords);
		w->len += octwords * 16;
	} else {
		uint32_t at = AREA / 2 + 2048 * rng_below(&a->rng, 32);

		if (octwords > 128)
			octwords = 128;
		fill_list(a, (uint8_t *)a->area + at, octwords);
		/* what no key reaches cannot be found there */
		raw_data(w, AT(a->area) + at % (AREA / 2), octwords * 16,
			 pick_key(a)->key);
		memcpy(a->area + at % (AREA / 2), a->area + at, octwords * 16);
	}
}

static const uint8_t opcodes[] = {
	MLX5_OPCODE_NOP, MLX5_OPCODE_SEND, MLX5_OPCODE_SEND_IMM,
	MLX5_OPCODE_SEND_INVAL, MLX5_OPCODE_RDMA_WRITE,
	MLX5_OPCODE_RDMA_WRITE_IMM, MLX5_OPCODE_RDMA_READ,
	MLX5_OPCODE_ATOMIC_CS, MLX5_OPCODE_ATOMIC_FA, MLX5_OPCODE_UMR,
	MLX5_OPCODE_UMR, MLX5_OPCODE_UMR,
};

static void one_wqe(struct attacker *a, unsigned int q)
{
	uint8_t opcode = opcodes[rng_below(&a->rng, sizeof(opcodes))];
	struct raw *raw = &a->raw[q];
	const struct key *key;
	struct raw_wqe w;
	int ds = -1;

	if (rng_often(&a->rng, 2))
		opcode = rng_u64(&a->rng);
	raw_begin(&w, raw, opcode, MLX5_WQE_CTRL_CQ_UPDATE);
	switch (opcode) {
	case MLX5_OPCODE_NOP:
		break;
	case MLX5_OPCODE_UMR:
		umr_segments(a, raw, &w);
		break;
	case MLX5_OPCODE_SEND_INVAL:
		w.ctrl.imm = htobe32(pick_key(a)->key);
		/* fallthrough */
	case MLX5_OPCODE_SEND:
	case MLX5_OPCODE_SEND_IMM:
		if (rng_often(&a->rng, 30))
			inline_segment(a, &w);
		else
			data_segments(a, &w);
		break;
	case MLX5_OPCODE_ATOMIC_CS:
	case MLX5_OPCODE_ATOMIC_FA:
		key = rng_often(&a->rng, 30) ?
			&a->keys[rng_below(&a->rng, a->nkeys)] : pick_key(a);
		raw_remote(&w, place(a, key, 8) & ~(rng_often(&a->rng, 95) * 7ull),
			   key->key);
		raw_atomic(&w, rng_u64(&a->rng), rng_odd(&a->rng));
		data_segments(a, &w);
		break;
	default:
		key = pick_key(a);
		raw_remote(&w, place(a, key, 256), key->key);
		if (opcode != MLX5_OPCODE_RDMA_READ && rng_often(&a->rng, 20))
			inline_segment(a, &w);
		else
			data_segments(a, &w);
	}
	if (rng_often(&a->rng, 2))
		ds = rng_below(&a->rng, 64);
	raw_put(raw, &w, ds);
	/* what is changed now may be anything, the size and index included */
	if (rng_often(&a->rng, 4))
		rng_twist(&a->rng, raw_block(raw, raw->pi -
					     (w.len + BB - 1) / BB),
			  BB);
	a->tally->posted++;
}

static void receives(struct attacker *a, unsigned int q)
{
	struct mlx5dv_qp *dv = &a->raw[q].qp;

	for (unsigned int n = rng_below(&a->rng, 8); n--; ) {
		const struct key *key = pick_key(a);
		uint32_t len = 1024 + length(a);
		struct mlx5_wqe_data_seg seg = {
			.byte_count = htobe32(len), .lkey = htobe32(key->key),
			.addr = htobe64(place(a, key, len)),
		};
		uint8_t *wqe = (uint8_t *)dv->rq.buf +
			       (a->rq_pi[q] & (dv->rq.wqe_cnt - 1)) *
			       dv->rq.stride;

		memset(wqe, 0, dv->rq.stride);
		memcpy(wqe, &seg, sizeof(seg));
		if (dv->rq.stride > 16)
			*(uint32_t *)(wqe + 16 + 4) = htobe32(0x100);
		if (rng_often(&a->rng, 4))
			rng_twist(&a->rng, wqe, dv->rq.stride);
		a->rq_pi[q]++;
	}
	if (rng_often(&a->rng, 2))
		a->rq_pi[q] += rng_odd(&a->rng);
	__atomic_store_n(&dv->dbrec[0], htobe32(a->rq_pi[q]), __ATOMIC_RELEASE);
}

/* A store of @size bytes anywhere in the page of the UAR, with anybody's number in it */
static void odd_ring(struct attacker *a, struct raw *raw)
{
	const struct facts *f = &shared->facts;
	volatile uint8_t *page = (void *)(AT(raw->qp.bf.reg) & ~(PAGE - 1));
	unsigned int at = rng_below(&a->rng, PAGE - 16);
	uint64_t v = htobe64((uint64_t)(rng_often(&a->rng, 50) ? raw->qpn :
					f->qpn[0]) << 8 | 3);

	if (rng_often(&a->rng, 40)) {
		at = 0x20;
		v = htobe64(rng_u64(&a->rng) << 32 |
			    f->cqn[rng_below(&a->rng, 2)]);
	}
	if (rng_often(&a->rng, 20)) {
		at = 0x40 + 8 * rng_below(&a->rng, 2);
		v = rng_u64(&a->rng);
	}
	switch (rng_below(&a->rng, 6)) {
	case 0:
		page[at] = v;
		break;
	case 1:
		*(volatile uint16_t *)(page + at) = v;
		break;
	case 2:
		*(volatile uint32_t *)(page + at) = v;
		break;
	case 3:
		for (int i = 0; i < 16; i++)
			page[at + i] = i;
		break;
	case 4:
		v += *(volatile uint64_t *)(page + at);
		break;
	default:
		*(volatile uint64_t *)(page + at) = v;
	}
}

static void ring(struct attacker *a, struct raw *raw)
{
	struct mlx5dv_cq *cq = &raw->cq;

	if (rng_often(&a->rng, 5)) {
		cq->dbrec[1] = rng_u64(&a->rng);
		odd_ring(a, raw);
	}
	if (rng_often(&a->rng, 2))
		cq->dbrec[0] = rng_u64(&a->rng);
	if (rng_often(&a->rng, 2))
		raw->pi += rng_odd(&a->rng);
	raw_record(raw);
	if (rng_often(&a->rng, 10))
		odd_ring(a, raw);
	raw_ring(raw);
}

static bool took(struct attacker *a, struct raw *raw, int ms)
{
	struct raw_cqe cqe;

	if (!raw_wait(raw, &cqe, ms))
		return false;
	if (cqe.opcode == MLX5_CQE_REQ_ERR || cqe.opcode == MLX5_CQE_RESP_ERR)
		a->tally->vendor[cqe.vendor]++;
	else
		a->tally->good++;
	a->last = cqe;
	return true;
}

void wqe_round(struct attacker *a)
{
	unsigned int q = rng_below(&a->rng, QPS), bad = 0;
	unsigned int n = 1 + rng_below(&a->rng, 8);
	struct raw *raw = &a->raw[q];

	a->tally->doing = "work requests";
	if (rng_often(&a->rng, 90))
		receives(a, q ^ 1);
	for (unsigned int i = 0; i < n; i++)
		one_wqe(a, q);
	ring(a, raw);
	a->silent++;
	while (n-- && took(a, raw, 3)) {
		bad |= a->last.opcode == MLX5_CQE_REQ_ERR;
		a->silent = 0;
	}
	while (took(a, &a->rraw, 0))
		bad |= a->last.opcode == MLX5_CQE_RESP_ERR;
	if (bad || rng_often(&a->rng, 5)) {
		a->tally->doing = "reviving a pair";
		revive(a, q / 2);
		while (took(a, raw, 0) || took(a, &a->rraw, 0))
			;
	}
}
