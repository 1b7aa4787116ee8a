// SPDX-License-Identifier: GPL-2.0
/*
 * Fuzz target: UMR WQEs, well formed and not, on a program's queue and on the driver's, with requests, invalidations,
 * creations and destructions in between. A refused UMR changes nothing; a program reaches no page table and no key of
 * another domain whatever it posts; requests and their explanations agree all the time.
 */
#include <linux/kernel.h>
#include <linux/unaligned.h>

#include "fuzz.h"

#define MTT	MLX5_MKC_ACCESS_MODE_MTT
#define PA	MLX5_MKC_ACCESS_MODE_PA
#define KLMS	MLX5_MKC_ACCESS_MODE_KLMS
#define KSM	MLX5_MKC_ACCESS_MODE_KSM

#define KEYS	9

static u32 keys[KEYS];

static void make_key(struct world *w, int i)
{
	struct key_attr a = { KEY_ALL, .umr_en = true, .en_rinval = i & 1, .len = 0x8000, .octwords = 8 };
	struct klm whole = { 0x8000, keys[0], 0 };

	switch (i) {
	case 0:		/* the region that the others stand on: nobody's queue but the driver's may touch it */
		keys[i] = mr_new_attr(w->m, &w->own, 0, w->own.len, 0, a);
		return;
	case 1:
	case 2:
		a.mode = KLMS;
		a.klm = &whole;
		a.nr = 1;
		break;
	case 3:
		a.mode = KLMS;
		a.free = true;
		break;
	case 4:
		a.mode = KSM;
		a.log_page = 12;
		break;
	case 5:
		a.mode = KLMS;
		a.pd = w->pd;
		break;
	case 6:
		a = (struct key_attr){ .mode = PA, .start = w->own.dma[0], .len = 4096, KEY_ALL };
		break;
	case 7:
		a.mode = KLMS;
		a.umr_en = false;
		a.klm = &whole;
		a.nr = 1;
		break;
	default:
		a.mode = MTT;
		a.free = true;
	}
	keys[i] = key_new(w->m, &a);
}

/* a key as it stands now, now and then another */
static u32 pick(struct world *w, struct in *in)
{
	static const u32 special[] = { 0, 0x100, 0x200, 0x300, 0x400, 0x500, 0xffffff00, 0x00100000 };
	u8 which = in_u8(in), out[0x50];
	u32 key;

	if (which >= 0xf8)
		return special[which & 7];
	if (which >= 0xf0)
		return in_u32(in);
	key = which >= 0xe0 ? w->foreign : keys[which % KEYS];
	if (!key_query(w->m, key, false, out, sizeof(out)))
		key = (key & ~0xffu) | out[0x17];
	return which >= 0xd8 && which < 0xe0 ? key ^ (1u << (which & 7)) : key;
}

static u64 number(struct in *in)
{
	u8 how = in_u8(in);

	if (how < 0x10)
		return in_u64(in);
	if (how < 0x18)
		return ~0ULL - in_u16(in);
	if (how < 0x20)
		return 1ULL << in_u8(in) % 64;
	return how < 0x80 ? in_u16(in) & ~0x7fu : in_u16(in);
}

static void fill_list(struct world *w, struct in *in, u8 *list, u32 octwords, u32 target)
{
	u8 out[0x50] = {};
	bool pages = !key_query(w->m, target, false, out, sizeof(out)) && (out[0x12] & 3) == MTT;

	for (u32 i = 0; i < octwords && in->left; i++) {
		if (pages && w->trusted) {
			for (int k = 0; k < 2; k++) {
				u8 e = in_u8(in);

				put_unaligned_be64(e < 16 ? 0 : w->own.dma[e % FUZZ_PAGES] | (e < 32 ? e & 3 : 3), list + 16 * i + 8 * k);
			}
		} else {
			klm_put(list, i, (struct klm){ in_u16(in), pick(w, in), number(in) });
		}
	}
	/* a repeated block */
	if (octwords && in_u8(in) < 0x20)
		klm_put(list, 0, (struct klm)KLM_REPEAT(in_u8(in), in_u8(in), in_u8(in) & 7));
}

static void umr(struct world *w, struct in *in)
{
	static const u16 sizes[] = { 0, 4, 8, 12, 4, 16, 1, 2, 52, 8, 4, 4, 8, 0, 0 };
	u8 list[63 * 16] = {}, how = in_u8(in), size = in_u8(in);
	bool driver = how & 1;
	struct qp *qp = driver ? w->umr : w->p.a;
	struct key_dump before, after, foreign;
	struct mlx5_cqe64 c;
	struct umr u = {};
	struct wqe wqe;
	u16 index;
	u8 *mkc = (u8 *)u.mkc;

	w->trusted |= driver;
	u.key = pick(w, in);
	u.flags = in_u8(in) & 0xf8;
	for (int n = in_below(in, 8); n--; ) {
		static const u8 bits[] = { 0, 1, 6, 7, 8, 9, 12, 13, 14, 17, 18, 19, 20, 21, 23, 25, 29, 31, 42, 47 };
		u8 b = in_u8(in);

		u.mask |= BIT_ULL(b < 0xf0 ? bits[b % ARRAY_SIZE(bits)] : b % 64);
	}
	/* the context: what is not filled in is noise */
	memset(mkc, in_u8(in), sizeof(u.mkc));
	UMR_SET(&u, lr, in_u8(in) < 0xf0);
	UMR_SET(&u, free, in_u8(in) & 1);
	mkc[2] = (mkc[2] & ~0x78) | (in_u8(in) & 0x78);
	UMR_SET(&u, qpn, in_u8(in) & 1 ? 0xffffff : in_u8(in) & 1 ? qp->qpn : in_u32(in) & 0xffffff);
	UMR_SET(&u, mkey_7_0, in_u8(in));
	UMR_SET(&u, pd, in_u8(in) & 1 ? w->m->pd : in_u8(in) & 1 ? w->pd : in_u8(in));
	UMR_SET64(&u, start_addr, number(in));
	UMR_SET64(&u, len, number(in));
	UMR_SET(&u, length64, in_u8(in) < 0x20);
	UMR_SET(&u, log_page_size, in_u8(in) & 0x3f);
	u.octwords = size < ARRAY_SIZE(sizes) * 17 ? sizes[size % ARRAY_SIZE(sizes)] : in_u16(in);
	if (u.flags & UMR_OFFSET)
		u.to = how & 2 ? in_u8(in) & 0xc : number(in) & ((1ULL << 43) - 1);
	if (u.flags & UMR_INLINE) {
		u.list_len = min(16u * u.octwords, 52u * 16);
		fill_list(w, in, list, u.list_len / 16, u.key);
		u.list = u.list_len ? list : NULL;
	} else {
		u.lkey = how & 4 ? keys[0] : pick(w, in);
		u.addr = how & 8 ? in_u8(in) % 32 * 0x800 : number(in);
		u.byte_count = how & 0x10 ? 16u * u.octwords : in_u32(in);
		if (u.addr < w->own.len)
			fill_list(w, in, w->own.cpu + u.addr, min3((u64)u.octwords, 52ull, (w->own.len - u.addr) / 16), u.key);
	}
	wqe_umr(&wqe, &u);
	/* length and any bytes of it changed */
	if (how >= 0xc0)
		wqe.len = in_below(in, 63) * 16 + 16;
	for (int n = how & 0x20 ? in_below(in, 4) : 0; n--; )
		wqe.b[in_u16(in) % wqe.len] ^= in_u8(in);
	before = key_dump(w->m, u.key);
	foreign = key_dump(w->m, w->foreign);
	index = sq_post(qp, &wqe);
	if (cq_poll(qp->scq, &c) && c.op_own >> 4 == MLX5_CQE_REQ_ERR) {
		after = key_dump(w->m, u.key);
		if (memcmp(&before, &after, sizeof(before)))
			FAIL("key %#x, WQE %u: refused with %#x/%#x and yet changed", u.key, index, ((u8 *)&c)[55], ((u8 *)&c)[54]);
	}
	if (!driver) {
		after = key_dump(w->m, w->foreign);
		if (memcmp(&foreign, &after, sizeof(foreign)))
			FAIL("a program's UMR changed a key of another domain");
	}
	world_revive(w);
}

static void request(struct world *w, struct in *in)
{
	u8 how = in_u8(in);
	enum hca_access access = how % 3;
	bool remote = how & 0x80 || access == HCA_ACCESS_ATOMIC;
	u32 key = pick(w, in), len = access == HCA_ACCESS_ATOMIC ? 8 : 1 + in_u16(in) % 0x2000;
	u64 va = number(in);

	world_access(w, key, access == HCA_ACCESS_ATOMIC ? va & ~7ULL : va, len, access, remote);
}

static void inval(struct world *w, struct in *in)
{
	u32 key = pick(w, in);

	post_recv(w->p.b, in_u8(in) & 1 ? pick(w, in) : w->p.rkey, w->p.d, 64);
	post_send_inval(w->p.a, w->p.lkey, w->p.s, in_u8(in) % 65, key);
	/* a refused one stays without an answer for as long as the requester has patience */
	if (qp_state(w->p.b) != MLX5_QP_STATE_RTS)
		qp_to(w->p.a, MLX5_CMD_OP_2ERR_QP, &(struct qp_path){}, 0);
	world_revive(w);
}

void fuzz_umr(const u8 *data, size_t len)
{
	struct world *w = world_get();
	struct in in = { data, len };

	for (int i = 0; i < KEYS; i++)
		make_key(w, i);
	for (int ops = 0; in.left && ops < 30; ops++) {
		u8 op = in_u8(&in);
		int i = op % KEYS;

		if (op < 0x80) {
			umr(w, &in);
		} else if (op < 0xe0) {
			request(w, &in);
		} else if (op < 0xf0) {
			inval(w, &in);
		} else {
			ASSERT_EQ(key_free(w->m, keys[i]), 0);
			make_key(w, i);
		}
	}
	for (int i = 0; i < KEYS; i++)
		ASSERT_EQ(key_free(w->m, keys[i]), 0);
	world_put(w);
}
