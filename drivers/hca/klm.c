// SPDX-License-Identifier: GPL-2.0
/*
 * Indirect keys: lists whose entries name other keys. KLM entries have their own
 * lengths, KSM entries all have the same, and a repeated block is a KLM list that
 * is gone through again and again with strides (HM 4.5, 13.1).
 *
 * Invariants:
 *  - The sums over a KLM list are made when the list is written, by UMR or
 *    CREATE_MKEY, so that an access finds its entry by binary search: O(log n).
 *    The KSM entry is found by a shift.
 *  - An entry that makes no sense ends the list: nothing behind it can be reached,
 *    and whoever tries learns that the entry was to blame, not the end (HM 4.7 nC
 *    against nA). Nothing is refused when the list is written (HM 8.5).
 *  - An entry is read under the access count of the key that it belongs to, and
 *    the key it names is checked like any other, from the beginning.
 */
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/overflow.h>
#include <linux/slab.h>

#include "engine.h"

#define HCA_KLM_SIZE		sizeof(struct mlx5_klm)
#define HCA_KLMS_PER_CHUNK	(HCA_PAGE_SIZE / HCA_KLM_SIZE)

/* Octoword 0 of a repeated block (HM 13.1); the header has no structure for it. */
struct hca_repeat_ctrl {
	__be32 cycle;
	__be32 op;
	__be32 repeat_count;
	__be16 reserved;
	__be16 num_entries;
};
static_assert(sizeof(struct hca_repeat_ctrl) == HCA_KLM_SIZE);

/* The other octowords of a repeated block. */
struct hca_repeat_entry {
	__be16 stride;
	__be16 bytes;
	__be32 key;
	__be64 va;
};
static_assert(sizeof(struct hca_repeat_entry) == HCA_KLM_SIZE);

/* Octoword @i of the table. */
static const void *hca_octword(const struct hca_mkey *mkey, u64 i)
{
	return (const u8 *)mkey->xlt.chunk[i / HCA_KLMS_PER_CHUNK] +
	       (i % HCA_KLMS_PER_CHUNK) * HCA_KLM_SIZE;
}

/**
 * hca_klms_alloc() - room for the sums over a KLM list
 * @octwords: entries that its table can hold
 *
 * Context: process, may sleep.
 * Return: the sums of an empty list, to be freed by kvfree(), or NULL.
 */
struct hca_klms *hca_klms_alloc(u32 octwords)
{
	struct hca_klms *klms;

	return kvzalloc(struct_size(klms, end, octwords), GFP_KERNEL_ACCOUNT);
}

static void hca_klms_update_repeated(struct hca_mkey *mkey, const struct hca_repeat_ctrl *ctrl)
{
	struct hca_klms *klms = mkey->klms;
	u32 nr = be16_to_cpu(ctrl->num_entries), i;
	u64 sum = 0;

	klms->repeated = true;
	klms->cycle = be32_to_cpu(ctrl->cycle);
	klms->repeat = be32_to_cpu(ctrl->repeat_count);
	klms->nr = nr;
	klms->bad = !nr || nr >= mkey->mkc.octwords || !klms->cycle || !klms->repeat;
	if (klms->bad)
		return;
	for (i = 0; i < nr; i++) {
		const struct hca_repeat_entry *entry = hca_octword(mkey, i + 1);

		sum += be16_to_cpu(entry->bytes);
		klms->end[i] = sum;
	}
	klms->bad = sum != klms->cycle;
}

/**
 * hca_klms_update() - the list has been written: make the sums again
 * @mkey: a key in KLM mode, frozen or not yet live
 *
 * Context: any. Touches every entry.
 */
void hca_klms_update(struct hca_mkey *mkey)
{
	struct hca_klms *klms = mkey->klms;
	const struct mlx5_klm *klm;
	u64 sum = 0;
	u32 i;

	klms->nr = 0;
	klms->bad = false;
	klms->repeated = false;
	if (!mkey->mkc.octwords)
		return;
	klm = hca_octword(mkey, 0);
	if (be32_to_cpu(klm->key) == HCA_KEY_REPEATED) {
		hca_klms_update_repeated(mkey, hca_octword(mkey, 0));
		return;
	}
	for (i = 0; i < mkey->mkc.octwords; i++) {
		klm = hca_octword(mkey, i);
		klms->bad = be32_to_cpu(klm->bcount) > HCA_MAX_MSG;
		if (klms->bad)
			break;
		sum += be32_to_cpu(klm->bcount);
		klms->end[i] = sum;
	}
	klms->nr = i;
}

/* The first entry that ends behind @d, which is the one that holds byte @d; or klms->nr. */
static u32 hca_klms_find(const struct hca_klms *klms, u64 d)
{
	u32 from = 0, to = klms->nr;

	while (from < to) {
		u32 i = from + (to - from) / 2;

		if (klms->end[i] > d)
			to = i;
		else
			from = i + 1;
	}
	return from;
}

static u64 hca_klms_start(const struct hca_klms *klms, u32 i)
{
	return i ? klms->end[i - 1] : 0;
}

/* Keys that mean something, but not in a list (HM 4.5). */
static bool hca_entry_key_bad(const struct hca_walk *walk, u32 key)
{
	return key == HCA_KEY_TERMINATE || (key == HCA_KEY_RESD && !walk->who.rlky);
}

/*
 * Goes on through an entry of octoword @index: @n bytes at @at in the space of @lower.
 * @va is where they are in the space of @key.
 */
static u64 hca_walk_through(struct hca_walk *walk, struct hca_mkey *mkey, u32 key, u64 va,
			    u64 index, u32 lower, u64 at, u64 n)
{
	const __be64 *entry = hca_octword(mkey, index);

	if (walk->trace) {
		struct hca_explain_step step = {
			.key = key, .level = walk->level, .access_mode = mkey->mkc.mode,
			.log_page_size = mkey->mkc.log_page_size, .index = index, .va = va,
			.len = n, .start = mkey->mkc.start, .mkc_len = mkey->mkc.len,
			.entry = { be64_to_cpu(entry[0]), be64_to_cpu(entry[1]) },
		};

		walk->trace(walk->trace_arg, &step);
	}
	if (hca_entry_key_bad(walk, lower))
		return hca_refuse(walk, key, va, n, HCA_CHECK_ENTRY);
	return hca_walk_entry(walk, lower, at, n);
}

/*
 * One piece of a KLM list or repeated block: resolves up to @want bytes from offset @d
 * on, *@n of which the entry holds.
 */
static u64 hca_walk_klm_piece(struct hca_walk *walk, struct hca_mkey *mkey, u32 key, u64 va,
			      u64 d, u64 want, u64 *n)
{
	const struct hca_klms *klms = mkey->klms;
	const struct hca_repeat_entry *block;
	const struct mlx5_klm *klm;
	u32 i, in_cycle;
	u64 cycle = 0;

	*n = want;
	if (klms->repeated) {
		if (klms->bad)
			return hca_refuse(walk, key, va, want, HCA_CHECK_ENTRY);
		cycle = div_u64_rem(d, klms->cycle, &in_cycle);
		d = in_cycle;
		if (cycle >= klms->repeat)
			return hca_refuse(walk, key, va, want, HCA_CHECK_TABLE_END);
	}
	i = hca_klms_find(klms, d);
	if (i == klms->nr)
		return hca_refuse(walk, key, va, want,
				  klms->bad ? HCA_CHECK_ENTRY : HCA_CHECK_TABLE_END);
	*n = min(want, klms->end[i] - d);
	d -= hca_klms_start(klms, i);
	if (klms->repeated) {
		block = hca_octword(mkey, i + 1);
		return hca_walk_through(walk, mkey, key, va, i + 1, be32_to_cpu(block->key),
					be64_to_cpu(block->va) +
					cycle * be16_to_cpu(block->stride) + d, *n);
	}
	klm = hca_octword(mkey, i);
	return hca_walk_through(walk, mkey, key, va, i, be32_to_cpu(klm->key),
				be64_to_cpu(klm->va) + d, *n);
}

/**
 * hca_walk_klm() - translate through a KLM list or a repeated block
 * @walk: for whom, what for, and where the result goes
 * @mkey: the key, its access counted
 * @key: its full value
 * @va: address in its space, within its bounds
 * @want: bytes to resolve
 *
 * HM 4.5 KLM, 13.1.
 *
 * Context: as hca_xlate().
 * Return: as hca_xlate().
 */
u64 hca_walk_klm(struct hca_walk *walk, struct hca_mkey *mkey, u32 key, u64 va, u64 want)
{
	u64 done = 0, n, got;

	while (done < want) {
		got = hca_walk_klm_piece(walk, mkey, key, va + done,
					 va + done - mkey->mkc.start, want - done, &n);
		if (hca_sgl_failed(walk->sgl))
			return 0;
		done += got;
		if (got < n)
			break;
	}
	return done;
}

/**
 * hca_walk_ksm() - translate through a list of blocks of one size
 * @walk: for whom, what for, and where the result goes
 * @mkey: the key, its access counted
 * @key: its full value
 * @va: address in its space, within its bounds
 * @want: bytes to resolve
 *
 * The index is relative to start_addr, wherever that lies in a block (HM 4.5 KSM).
 *
 * Context: as hca_xlate().
 * Return: as hca_xlate().
 */
u64 hca_walk_ksm(struct hca_walk *walk, struct hca_mkey *mkey, u32 key, u64 va, u64 want)
{
	u64 mask = (1ULL << mkey->mkc.log_page_size) - 1;
	u64 done = 0, n, got;

	while (done < want) {
		u64 d = va + done - mkey->mkc.start;
		u64 index = d >> mkey->mkc.log_page_size;
		const struct mlx5_klm *ksm;

		if (index >= mkey->mkc.octwords)
			return hca_refuse(walk, key, va + done, want - done,
					  HCA_CHECK_TABLE_END);
		ksm = hca_octword(mkey, index);
		n = min(want - done, mask + 1 - (d & mask));
		got = hca_walk_through(walk, mkey, key, va + done, index,
				       be32_to_cpu(ksm->key),
				       be64_to_cpu(ksm->va) + (d & mask), n);
		if (hca_sgl_failed(walk->sgl))
			return 0;
		done += got;
		if (got < n)
			break;
	}
	return done;
}
