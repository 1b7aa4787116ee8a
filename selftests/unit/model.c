// SPDX-License-Identifier: GPL-2.0
/* see model.h */
#include <linux/kernel.h>

#include "model.h"

#define MTT	MLX5_MKC_ACCESS_MODE_MTT
#define PA	MLX5_MKC_ACCESS_MODE_PA
#define KLMS	MLX5_MKC_ACCESS_MODE_KLMS
#define KSM	MLX5_MKC_ACCESS_MODE_KSM

static u8 walk(struct model *mo, u32 key, const struct asker *who, u64 va, u64 len, int level);

u64 page_of(const struct mem *mem, u64 dma)
{
	u64 i;

	for (i = 0; i < mem->nr; i++)
		if (mem->dma[i] && dma - mem->dma[i] < 1ULL << mem->shift)
			break;
	return i;
}

static u8 walk_leaf(struct model *mo, const struct model_key *k, const struct asker *who, u8 code, u64 va, u64 len)
{
	const struct key_attr *a = &k->a;
	u64 page = 1ULL << a->log_page, capacity = 2 * ALIGN((u64)(a->octwords ?: (a->nr + 1) / 2), 4);

	for (u64 i = 0; i < len; i++) {
		u64 u = va + i, entry;

		if (a->mode == MTT) {
			u = a->start % page + (va - a->start) + i;
			if (u / page >= capacity)
				return code | HCA_CHECK_TABLE_END;
			entry = u / page < a->nr ? k->mtt[u / page] | (a->pg_access ? 0 : 3) : 0;
			if ((who->access != HCA_ACCESS_WRITE && !(entry & 1)) || (who->access != HCA_ACCESS_READ && !(entry & 2)))
				return code | HCA_CHECK_PAGE;
			u = (entry & ~(page - 1)) + u % page;
		}
		if (page_of(mo->area, u) == mo->area->nr)
			return code | HCA_CHECK_BUS;
		mo->resolved[mo->nr_resolved++] = u;
	}
	return 0;
}

static u8 walk_entry(struct model *mo, const struct klm *e, const struct asker *who, u8 code, u64 va, u64 len, int level)
{
	if (e->key == 0x100 || e->key == 0x200)
		return code | HCA_CHECK_ENTRY;
	return walk(mo, e->key, who, va, len, level + 1);
}

static u32 bytes_of(const struct klm *strided)
{
	return strided->count & 0xffff;
}

static u8 walk_repeated(struct model *mo, const struct model_key *k, const struct asker *who, u8 code, u64 d, u64 len, int level)
{
	u64 capacity = ALIGN((u64)(k->a.octwords ?: k->a.nr), 4), sum = 0;
	u32 nr = k->klm[0].addr & 0xffff, times = k->klm[0].addr >> 32;

	/* entries that are declared and were never written are zero */
	for (u32 i = 1; i <= nr && i < k->a.nr; i++)
		sum += bytes_of(&k->klm[i]);
	if (!nr || 1 + nr > capacity || sum != k->klm[0].count || !sum || !times)
		return code | HCA_CHECK_ENTRY;
	while (len) {
		u64 c = d / sum, r = d % sum, before = 0, piece;
		u32 i = 1;
		u8 err;

		if (d >= sum * times)
			return code | HCA_CHECK_TABLE_END;
		for (; r >= before + bytes_of(&k->klm[i]); i++)
			before += bytes_of(&k->klm[i]);
		piece = min(len, before + bytes_of(&k->klm[i]) - r);
		err = walk_entry(mo, &k->klm[i], who, code, k->klm[i].addr + c * (k->klm[i].count >> 16) + (r - before), piece,
				 level);
		if (err)
			return err;
		d += piece;
		len -= piece;
	}
	return 0;
}

static u8 walk_list(struct model *mo, const struct model_key *k, const struct asker *who, u8 code, u64 d, u64 len, int level)
{
	static const struct klm zero;
	u64 capacity = ALIGN((u64)(k->a.octwords ?: k->a.nr), 4), sum, in, piece;
	u8 err;

	while (len) {
		const struct klm *e;
		u64 j = 0;

		if (k->a.mode == KSM) {
			j = d >> k->a.log_page;
			in = d & ((1ULL << k->a.log_page) - 1);
			piece = (1ULL << k->a.log_page) - in;
			if (j >= capacity)
				return code | HCA_CHECK_TABLE_END;
			e = j < k->a.nr ? &k->klm[j] : &zero;
		} else {
			for (sum = 0; j < k->a.nr && d >= sum + k->klm[j].count; sum += k->klm[j++].count)
				if (k->klm[j].count > 1u << 31)
					return code | HCA_CHECK_ENTRY;
			if (j >= k->a.nr)
				return code | HCA_CHECK_TABLE_END;
			e = &k->klm[j];
			if (e->count > 1u << 31)
				return code | HCA_CHECK_ENTRY;
			in = d - sum;
			piece = e->count - in;
		}
		piece = min(piece, len);
		err = walk_entry(mo, e, who, code, e->addr + in, piece, level);
		if (err)
			return err;
		d += piece;
		len -= piece;
	}
	return 0;
}

static u8 walk(struct model *mo, u32 key, const struct asker *who, u64 va, u64 len, int level)
{
	u8 code = level ? HCA_VS_NESTED : HCA_VS_LEVEL0;
	const struct model_key *k = NULL;
	const struct key_attr *a;
	u64 d, over;
	bool ok;

	if (key == 0x300)
		return code | HCA_CHECK_PAGE;
	if (key == 0x500 && !who->remote) {
		while (len--)
			mo->resolved[mo->nr_resolved++] = MODEL_DROPPED;
		return 0;
	}
	for (int i = 0; i < mo->nr; i++)
		if (mo->key[i].key && mo->key[i].key >> 8 == key >> 8)
			k = &mo->key[i];
	if (!k)
		return code | HCA_CHECK_NO_MKC;
	a = &k->a;
	if (a->free)
		return code | HCA_CHECK_FREE;
	if ((k->key ^ key) & 0xff)
		return code | HCA_CHECK_VARIANT;
	if (k->pd != who->pd)
		return code | HCA_CHECK_PD;
	if (k->qpn != 0xffffff && k->qpn != who->qpn && (level || who->remote))
		return code | HCA_CHECK_QPN;
	if (!level && who->remote) {
		if (who->access == HCA_ACCESS_ATOMIC && !a->a)
			return code | HCA_CHECK_ATOMIC;
		if ((who->access == HCA_ACCESS_READ && !a->rr) || (who->access == HCA_ACCESS_WRITE && !a->rw))
			return code | HCA_CHECK_REMOTE;
	} else if (who->access != HCA_ACCESS_READ && !a->lw) {
		return code | HCA_CHECK_LOCAL;
	}
	d = va - a->start;
	if (a->length64)
		ok = !__builtin_add_overflow(d, len, &over) || !over;
	else
		ok = va >= a->start && d <= a->len && len <= a->len - d;
	if (!ok)
		return code | HCA_CHECK_BOUNDS;
	if (a->mode == MTT || a->mode == PA)
		return walk_leaf(mo, k, who, code, va, len);
	if (level >= 4)
		return HCA_VS_NESTED | HCA_CHECK_DEPTH;
	if (a->mode == KLMS && a->nr && k->klm[0].key == 0x400)
		return walk_repeated(mo, k, who, code, d, len, level);
	return walk_list(mo, k, who, code, d, len, level);
}

u8 model_walk(struct model *mo, u32 key, const struct asker *who, u64 va, u64 len)
{
	mo->nr_resolved = 0;
	return walk(mo, key, who, va, len, 0);
}
