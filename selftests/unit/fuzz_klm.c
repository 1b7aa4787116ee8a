// SPDX-License-Identifier: GPL-2.0
/*
 * Fuzz target: trees of keys of every kind, as CREATE_MKEY makes them, and requests through them. Each request is compared
 * with the model (model.h) and with its explanation, and all memory with what the model says has changed.
 */
#include <linux/kernel.h>

#include "fuzz.h"
#include "model.h"

#define MTT	MLX5_MKC_ACCESS_MODE_MTT
#define PA	MLX5_MKC_ACCESS_MODE_PA
#define KLMS	MLX5_MKC_ACCESS_MODE_KLMS
#define KSM	MLX5_MKC_ACCESS_MODE_KSM

#define KEYS		10
#define LONGEST		0x2000

static struct model_key keys[KEYS];
static u64 resolved[LONGEST];
static u8 shadow[FUZZ_PAGES * 4096], source[LONGEST];

/* an address in the space of key @i, or any */
static u64 place(struct in *in, int i)
{
	u8 how = in_u8(in);

	if (how < 16)
		return in_u64(in);
	if (how < 32)
		return keys[i].a.start - in_u8(in);
	if (how < 48)
		return keys[i].a.start + keys[i].a.len - in_u8(in);
	return keys[i].a.start + in_u16(in) % (min(keys[i].a.len, 0xffffull) + 1);
}

static struct klm entry(struct in *in)
{
	static const u32 special[] = { 0, 0x100, 0x200, 0x300, 0x400, 0x500, 0x501, 0xffffff00 };
	u8 how = in_u8(in);
	int i = in_below(in, KEYS);
	struct klm e = { in_u16(in), keys[i].key, place(in, i) };

	if (how < 8)
		e.key = special[how];
	else if (how < 12)
		e.key ^= 1u << how % 8;
	else if (how < 16)
		e.count = in_u32(in);
	else if (how < 20)
		e.count = (1u << 31) + how % 4 - 1;
	return e;
}

static void make_key(struct world *w, struct in *in, int i)
{
	static const u8 modes[] = { MTT, PA, KLMS, KSM, KLMS, MTT, KLMS, KLMS };
	struct model_key *k = &keys[i];
	struct key_attr *a = &k->a;
	u8 bits = in_u8(in), odd = in_u8(in);
	u32 j, cycle = 0;

	memset(k, 0, sizeof(*k));
	k->qpn = 0xffffff;
	k->pd = odd & 0x0f ? w->m->pd : w->pd;
	*a = (struct key_attr){ .pd = k->pd, .mode = modes[in_below(in, 8)], .variant = in_u8(in), .free = !(odd & 0xf0), .lw = bits & 1,
				.rr = bits & 2, .rw = bits & 4, .a = bits & 8, .length64 = bits & 0x10, .pg_access = true };
	switch (in_below(in, 4)) {
	case 0:
		a->start = in_u64(in);
		break;
	case 1:
		a->start = in_u16(in);
		break;
	case 2:
		a->start = ~0ULL - in_u16(in);
		break;
	}
	a->len = bits & 0x20 ? in_u64(in) : in_u16(in);
	if (a->mode != PA)
		a->nr = in_below(in, MODEL_ENTRIES + 1);
	if (a->mode == MTT || a->mode == KSM)
		a->log_page = 12 + in_below(in, 4);
	switch (a->mode) {
	case PA:
		/* the driver alone makes these; its own page and the gap behind it */
		a->start = w->own.dma[in_below(in, FUZZ_PAGES)] + in_u8(in);
		a->len %= 0x1800;
		a->length64 = false;
		a->pg_access = false;
		break;
	case MTT:
		a->mtt = k->mtt;
		a->octwords = (a->nr + 1) / 2 + in_below(in, 8);
		for (j = 0; j < a->nr; j++) {
			u8 e = in_u8(in);

			k->mtt[j] = e < 8 ? 0 : w->own.dma[e % FUZZ_PAGES] | (e < 16 ? e & 3 : 3);
		}
		break;
	default:
		a->klm = k->klm;
		a->pg_access = false;
		a->octwords = a->nr + in_below(in, 8);
		for (j = 0; j < a->nr; j++)
			k->klm[j] = entry(in);
		if (a->nr > 1 && a->mode == KLMS && bits & 0x40) {
			for (j = 1; j < a->nr; j++)
				cycle += k->klm[j].count & 0xffff;
			k->klm[0] = (struct klm)KLM_REPEAT(cycle, in_u16(in), a->nr - 1);
			if (bits & 0x80) {
				k->klm[0].count += in_u8(in) - 4;
				k->klm[0].addr += in_u8(in) - 4;
			}
		}
	}
	/* the model takes entries at a->nr for the end of the list; the table has at least that many */
	if (!a->octwords)
		a->octwords = a->klm ? a->nr : (a->nr + 1) / 2;
	if (key_try(w->m, a, &k->key))
		k->key = 0;
}

static void request(struct world *w, struct in *in, struct model *mo)
{
	int i = in_below(in, KEYS);
	u8 how = in_u8(in), want, got;
	struct asker who = { w->m->pd, 0, how & 1, how >> 1 & 3 };
	u32 key = keys[i].key ^ (how & 0x80 ? in_u8(in) : 0), len = 1 + in_u16(in) % LONGEST;
	u64 va = place(in, i), at;

	if (who.access > HCA_ACCESS_ATOMIC)
		who.access = HCA_ACCESS_READ;
	if (who.access == HCA_ACCESS_ATOMIC) {
		who.remote = true;
		va &= ~7ULL;
		len = 8;
	}
	who.qpn = who.remote ? w->p.b->qpn : w->p.a->qpn;
	want = model_walk(mo, key, &who, va, len);
	/* where the bytes of a write come from: the request's other end */
	memcpy(source, (who.remote ? w->p.src.cpu : w->p.dst.cpu) + PAIR_OFFSET, len);
	got = world_access(w, key, va, len, who.access, who.remote);
	if (got != want)
		FAIL("key %#x, mode %u, V %#llx, L %u, access %d, remote %d: code %#x, model says %#x", key, keys[i].a.mode, va, len,
		     who.access, who.remote, got, want);
	if (who.access == HCA_ACCESS_ATOMIC && !want) {
		/* eight bytes that may lie in several places: added to in one */
		u64 old = 0, new;

		for (i = 0; i < 8; i++) {
			at = page_of(&w->own, resolved[i]) * 4096 + resolved[i] % 4096;
			old |= (u64)(resolved[i] == MODEL_DROPPED ? 0 : shadow[at]) << 8 * i;
		}
		new = old + 1;
		memcpy(source, &new, 8);
	}
	for (u32 b = 0; b < mo->nr_resolved && who.access != HCA_ACCESS_READ; b++) {
		if (resolved[b] == MODEL_DROPPED)
			continue;
		at = page_of(&w->own, resolved[b]) * 4096 + resolved[b] % 4096;
		/* a request that fails in a later chunk may have written what comes before */
		if (!want || w->own.cpu[at] == source[b])
			shadow[at] = want ? w->own.cpu[at] : source[b];
	}
	if (memcmp(shadow, w->own.cpu, sizeof(shadow)))
		FAIL("key %#x, V %#llx, L %u, access %d, remote %d, code %#x: memory is not as it should be", key, va, len, who.access,
		     who.remote, got);
	for (u32 b = 0; b < len && who.access == HCA_ACCESS_READ && !want; b++) {
		u8 is = (who.remote ? w->p.src.cpu : w->p.dst.cpu)[PAIR_OFFSET + b];

		at = page_of(&w->own, resolved[b]) * 4096 + resolved[b] % 4096;
		if (is != (resolved[b] == MODEL_DROPPED ? 0 : shadow[at]))
			FAIL("key %#x, V %#llx, L %u: byte %u read is %#x", key, va, len, b, is);
	}
}

void fuzz_klm(const u8 *data, size_t len)
{
	struct world *w = world_get();
	struct in in = { data, len };
	struct model mo = { keys, KEYS, &w->own, resolved, 0 };

	memset(keys, 0, sizeof(keys));
	memcpy(shadow, w->own.cpu, sizeof(shadow));
	for (int ops = 0; in.left && ops < 40; ops++) {
		int i = in_below(&in, 2 * KEYS);

		if (i >= KEYS || ops < 3) {
			i %= KEYS;
			if (keys[i].key)
				ASSERT_EQ(key_free(w->m, keys[i].key), 0);
			make_key(w, &in, i);
		} else {
			request(w, &in, &mo);
		}
	}
	for (int i = 0; i < KEYS; i++)
		if (keys[i].key)
			ASSERT_EQ(key_free(w->m, keys[i].key), 0);
	world_put(w);
}
