// SPDX-License-Identifier: GPL-2.0
/*
 * The walk: from a key and an address to places in memory. Requester, responder,
 * UMR, explain and tests all come through hca_xlate() (design rule 5).
 *
 * Invariants:
 *  - The checks of HM 4.2 are made in its order, on the whole of the request that
 *    is left, before any piece of it is resolved. Below the key of the request
 *    those of HM 4.3 are made, on the part of the chunk that goes there.
 *  - All address arithmetic is modulo 2^64 and no check can be passed by a wrap.
 *  - Every MKey that a piece was found through is held by the result, so the piece
 *    stays good until hca_sgl_release() (HM 11.3).
 *  - A result may be shorter than asked when it runs out of room: a shorter chunk,
 *    not an error.
 */
#include <linux/err.h>
#include <linux/minmax.h>
#include <linux/string.h>

#include "engine.h"
#include "trace.h"

/* Adds a piece, to the one before it if they are neighbours. */
static inline void hca_sgl_add(struct hca_sgl *sgl, void *p, u32 len)
{
	struct hca_seg *last = sgl->nr_segs ? &sgl->seg[sgl->nr_segs - 1] : NULL;

	if (last && last->p && p && (u8 *)last->p + last->len == p) {
		last->len += len;
	} else {
		sgl->seg[sgl->nr_segs].p = p;
		sgl->seg[sgl->nr_segs].len = len;
		sgl->nr_segs++;
	}
	sgl->bytes += len;
}

static const enum hca_counter hca_check_counter[] = {
	[HCA_CHECK_NO_MKC] = HCA_CNT_ERR_NO_MKC,
	[HCA_CHECK_FREE] = HCA_CNT_ERR_FREE,
	[HCA_CHECK_VARIANT] = HCA_CNT_ERR_VARIANT,
	[HCA_CHECK_PD] = HCA_CNT_ERR_PD,
	[HCA_CHECK_QPN] = HCA_CNT_ERR_QPN,
	[HCA_CHECK_BOUNDS] = HCA_CNT_ERR_BOUNDS,
	[HCA_CHECK_LOCAL] = HCA_CNT_ERR_LOCAL,
	[HCA_CHECK_REMOTE] = HCA_CNT_ERR_REMOTE,
	[HCA_CHECK_ATOMIC] = HCA_CNT_ERR_ATOMIC,
	[HCA_CHECK_DEPTH] = HCA_CNT_ERR_DEPTH,
	[HCA_CHECK_TABLE_END] = HCA_CNT_ERR_TABLE_END,
	[HCA_CHECK_PAGE] = HCA_CNT_ERR_PAGE,
	[HCA_CHECK_ENTRY] = HCA_CNT_ERR_ENTRY,
	[HCA_CHECK_MODE] = HCA_CNT_ERR_MODE,
	[HCA_CHECK_BUS] = HCA_CNT_ERR_BUS,
};

/**
 * hca_refuse() - note why the walk failed
 * @walk: the walk
 * @key: the key that it failed on
 * @va: address in its space
 * @len: bytes
 * @check: the check that refused; the level is the walk's
 *
 * Context: any.
 * Return: 0, the bytes resolved.
 */
u64 hca_refuse(struct hca_walk *walk, u32 key, u64 va, u64 len, enum hca_check check)
{
	struct hca_sgl *sgl = walk->sgl;

	sgl->syndrome = (walk->level ? HCA_VS_NESTED : HCA_VS_LEVEL0) | check;
	sgl->key = key;
	sgl->va = va;
	if (walk->trace) {
		struct hca_explain_step step = {
			.key = key, .level = walk->level, .va = va, .len = len,
			.syndrome = sgl->syndrome,
		};

		walk->trace(walk->trace_arg, &step);
		return 0;
	}
	hca_count(walk->hca, hca_check_counter[check]);
	trace_hca_refused(walk->who.qpn, key, va, len, sgl->syndrome);
	return 0;
}

/*
 * The page is not there, or not for this kind of access (HM 5.3). Where pages can be
 * waited for, what has been found so far is a chunk; with nothing found, the result
 * says what is missing.
 */
static noinline u64 hca_page_missing(struct hca_walk *walk, const struct hca_mkey *mkey, u32 key,
				     u64 va, u64 len, u64 done, u64 entry)
{
	struct hca_sgl *sgl = walk->sgl;

	if (!walk->odp)
		return hca_refuse(walk, key, va, len, HCA_CHECK_PAGE);
	if (sgl->bytes)
		return done;
	sgl->is_missing = true;
	sgl->missing = (struct hca_missing){
		.index = key >> 8, .level = walk->level, .generation = mkey->generation,
		.entry = entry,
	};
	sgl->key = key;
	sgl->va = va;
	return 0;
}

/*
 * Check 6 of HM 4.2 and 4.3: the bits of HM 1.2 that an access needs. Below level 0 local
 * rights count, whoever asks.
 */
static u32 hca_rights_needed(const struct hca_walk *walk)
{
	static const u32 local[] = {
		[HCA_ACCESS_READ] = HCA_MKC_LR,
		[HCA_ACCESS_WRITE] = HCA_MKC_LW,
		[HCA_ACCESS_ATOMIC] = HCA_MKC_LR | HCA_MKC_LW,
	};
	static const u32 remote[] = {
		[HCA_ACCESS_READ] = HCA_MKC_RR,
		[HCA_ACCESS_WRITE] = HCA_MKC_RW,
		[HCA_ACCESS_ATOMIC] = HCA_MKC_A,
	};

	return (walk->who.remote && !walk->level ? remote : local)[walk->access];
}

static enum hca_check hca_right_missing(u32 needed)
{
	if (needed & (HCA_MKC_LR | HCA_MKC_LW))
		return HCA_CHECK_LOCAL;
	return needed & HCA_MKC_A ? HCA_CHECK_ATOMIC : HCA_CHECK_REMOTE;
}

/* Check 7: [va, va + len) lies in the region; neither end can wrap past it. */
static bool hca_in_bounds(const struct hca_mkc *mkc, u64 va, u64 len)
{
	u64 d = va - mkc->start;

	/* Device memory is counted from 0; start says where in the device it begins. */
	if (mkc->mode == MLX5_MKC_ACCESS_MODE_MEMIC)
		return va <= mkc->len && len <= mkc->len - va;
	if (mkc->length64)
		return !d || len <= -d;
	return va >= mkc->start && d <= mkc->len && len <= mkc->len - d;
}

/* One piece at a DMA address. Returns false when the bus refuses. */
static bool hca_add_dma(struct hca_walk *walk, u64 dma, u32 len)
{
	void *p = walk->hca->ops->bus_map(walk->hca->host, dma, len);

	if (p)
		hca_sgl_add(walk->sgl, p, len);
	return p;
}

static void hca_trace_leaf(struct hca_walk *walk, const struct hca_mkey *mkey, u32 key, u64 va,
			   u64 len, u64 index, u64 entry, u64 dma)
{
	struct hca_explain_step step = {
		.key = key, .level = walk->level, .access_mode = mkey->mkc.mode,
		.log_page_size = mkey->mkc.log_page_size, .index = index, .va = va, .len = len,
		.start = mkey->mkc.start, .mkc_len = mkey->mkc.len, .entry = { entry },
		.dma = dma,
	};

	walk->trace(walk->trace_arg, &step);
}

/* The bus maps at most this much at once, as its contract says. */
#define HCA_BUS_MAX	(2ULL << 20)

/* Access mode PA: the address is the DMA address (HM 4.5). */
static u64 hca_walk_pa(struct hca_walk *walk, struct hca_mkey *mkey, u32 key, u64 va, u64 want)
{
	u64 done = 0;

	while (done < want && walk->sgl->nr_segs < HCA_MAX_SEGS) {
		/* Pieces end at 2 MiB boundaries, so that no piece spans more. */
		u32 n = min(want - done, HCA_BUS_MAX - ((va + done) & (HCA_BUS_MAX - 1)));

		if (walk->trace)
			hca_trace_leaf(walk, mkey, key, va + done, n, 0, 0, va + done);
		if (!hca_add_dma(walk, va + done, n))
			return hca_refuse(walk, key, va + done, n, HCA_CHECK_BUS);
		done += n;
	}
	return done;
}

static u64 hca_mtt_entry(const struct hca_mkey *mkey, u64 index)
{
	const __be64 *chunk = mkey->xlt.chunk[index >> (HCA_PAGE_SHIFT - 3)];

	return be64_to_cpu(READ_ONCE(chunk[index & (HCA_PAGE_SIZE / sizeof(*chunk) - 1)]));
}

/*
 * Memory is often contiguous where the page size does not say so: the bytes from an
 * address in the page of @entry on that are, @n in this page and up to @max in all.
 */
static u64 hca_mtt_run(const struct hca_mkey *mkey, u64 index, u64 entry, u64 n, u64 max)
{
	u64 page_size = 1ULL << mkey->mkc.log_page_size;

	while (n < max && ++index < 2ULL * mkey->mkc.octwords) {
		entry += page_size;
		if (hca_mtt_entry(mkey, index) != entry)
			return n;
		n += page_size;
	}
	return min(n, max);
}

/* Access mode MTT (HM 4.5, 5.1, 5.3). */
static u64 hca_walk_mtt(struct hca_walk *walk, struct hca_mkey *mkey, u32 key, u64 va, u64 want)
{
	const struct hca_mkc *mkc = &mkey->mkc;
	u64 page_mask = (1ULL << mkc->log_page_size) - 1;
	/* Entry 0 maps the page that start_addr lies in, not the one that begins there. */
	u64 u = (mkc->start & page_mask) + (va - mkc->start);
	u64 need = 0, done = 0;

	if (walk->access != HCA_ACCESS_WRITE)
		need |= MLX5_EN_RD;
	if (walk->access != HCA_ACCESS_READ)
		need |= MLX5_EN_WR;
	while (done < want && walk->sgl->nr_segs < HCA_MAX_SEGS) {
		u64 index = u >> mkc->log_page_size;
		u64 n = page_mask + 1 - (u & page_mask);
		u64 max = want - done;
		u64 entry, dma;

		if (index >= 2ULL * mkc->octwords)
			return hca_refuse(walk, key, va + done, min(n, max), HCA_CHECK_TABLE_END);
		entry = hca_mtt_entry(mkey, index);
		dma = (entry & ~(page_mask | (HCA_PAGE_SIZE - 1))) + (u & page_mask);
		max = min(max, HCA_BUS_MAX - (dma & (HCA_BUS_MAX - 1)));
		if (walk->trace) {
			/* Who looks on wants to see every entry. */
			max = min(max, n);
			hca_trace_leaf(walk, mkey, key, va + done, max, index, entry, dma);
		}
		if ((entry & need) != need)
			return hca_page_missing(walk, mkey, key, va + done, min(n, max), done,
						index);
		n = hca_mtt_run(mkey, index, entry, n, max);
		if (!hca_add_dma(walk, dma, n))
			return hca_refuse(walk, key, va + done, n, HCA_CHECK_BUS);
		done += n;
		u += n;
	}
	return done;
}

/* Access mode MEMIC (HM 4.6): memory of the HCA itself, where no bus can refuse. */
static u64 hca_walk_memic(struct hca_walk *walk, struct hca_mkey *mkey, u32 key, u64 va, u64 want)
{
	u64 at = mkey->mkc.start + va;

	if (walk->sgl->nr_segs == HCA_MAX_SEGS)
		return 0;
	if (walk->trace)
		hca_trace_leaf(walk, mkey, key, va, want, 0, 0, at);
	hca_sgl_add(walk->sgl, (u8 *)walk->hca->memic.va + at, want);
	return want;
}

/* Special keys (HM 2.2). Those not named are no keys at all. */
static u64 hca_walk_special(struct hca_walk *walk, u32 key, u64 va, u64 len, u64 want)
{
	struct hca_mkey no_table = { .mkc.mode = MLX5_MKC_ACCESS_MODE_PA };

	if (key == HCA_KEY_DUMP_FILL && !walk->who.remote) {
		if (walk->sgl->nr_segs == HCA_MAX_SEGS)
			return 0;
		hca_sgl_add(walk->sgl, NULL, want);
		return want;
	}
	if (key == HCA_KEY_RESD && !walk->who.remote && walk->who.rlky)
		return hca_walk_pa(walk, &no_table, key, va, want);
	if (key == HCA_KEY_NULL)
		return hca_page_missing(walk, &no_table, key, va, len, 0, va >> HCA_PAGE_SHIFT);
	return hca_refuse(walk, key, va, len, HCA_CHECK_NO_MKC);
}

/*
 * Counts an access to a key in, once for each result. NULL: there is none, or it is
 * being changed, or there is no room; the result says which.
 */
static struct hca_mkey *hca_hold(struct hca_walk *walk, u32 key, u64 va, u64 len)
{
	struct hca_sgl *sgl = walk->sgl;
	struct hca_mkey *mkey;
	unsigned int i;

	mkey = hca_mkey_enter(walk->hca, key >> 8);
	if (!mkey) {
		hca_refuse(walk, key, va, len, HCA_CHECK_NO_MKC);
		return NULL;
	}
	if (IS_ERR(mkey)) {
		sgl->changing = key >> 8;
		return NULL;
	}
	/* Lists tend to name the same key again and again. */
	for (i = sgl->nr_held; i-- > 0; ) {
		if (sgl->held[i] == mkey) {
			hca_mkey_leave(walk->hca, mkey);
			return mkey;
		}
	}
	if (sgl->nr_held == HCA_MAX_HELD) {
		hca_mkey_leave(walk->hca, mkey);
		return NULL;
	}
	sgl->held[sgl->nr_held++] = mkey;
	return mkey;
}

/* The checks of HM 4.2 and 4.3 from "free" on, in their order. */
static bool hca_allowed(struct hca_walk *walk, const struct hca_mkc *mkc, u32 key, u64 va,
			u64 len, enum hca_check *check)
{
	u32 needed = hca_rights_needed(walk);

	if (mkc->rights & HCA_MKC_FREE)
		*check = HCA_CHECK_FREE;
	else if (mkc->variant != (key & 0xff))
		*check = HCA_CHECK_VARIANT;
	else if (mkc->pd != walk->who.pd && !walk->who.any_pd)
		*check = HCA_CHECK_PD;
	else if ((walk->who.remote || walk->level) && mkc->qpn != 0xffffff &&
		 mkc->qpn != walk->who.qpn)
		*check = HCA_CHECK_QPN;
	else if (needed & ~mkc->rights)
		*check = hca_right_missing(needed);
	else if (!hca_in_bounds(mkc, va, len))
		*check = HCA_CHECK_BOUNDS;
	else
		return true;
	return false;
}

/* One level of the walk: the key, and everything below it. */
static u64 hca_walk_key(struct hca_walk *walk, u32 key, u64 va, u64 len, u64 want)
{
	struct hca_mkey *mkey;
	enum hca_check check;

	if (key >> 8 < HCA_FIRST_MKEY)
		return hca_walk_special(walk, key, va, len, want);
	mkey = hca_hold(walk, key, va, len);
	if (!mkey)
		return 0;
	if (!hca_allowed(walk, &mkey->mkc, key, va, len, &check))
		return hca_refuse(walk, key, va, len, check);
	switch (mkey->mkc.mode) {
	case MLX5_MKC_ACCESS_MODE_PA:
		return hca_walk_pa(walk, mkey, key, va, want);
	case MLX5_MKC_ACCESS_MODE_MTT:
		return hca_walk_mtt(walk, mkey, key, va, want);
	case MLX5_MKC_ACCESS_MODE_MEMIC:
		return hca_walk_memic(walk, mkey, key, va, want);
	case MLX5_MKC_ACCESS_MODE_KLMS:
		if (walk->level == HCA_MAX_INDIRECTION)
			return hca_refuse(walk, key, va, len, HCA_CHECK_DEPTH);
		return hca_walk_klm(walk, mkey, key, va, want);
	case MLX5_MKC_ACCESS_MODE_KSM:
		if (walk->level == HCA_MAX_INDIRECTION)
			return hca_refuse(walk, key, va, len, HCA_CHECK_DEPTH);
		return hca_walk_ksm(walk, mkey, key, va, want);
	default:
		return hca_refuse(walk, key, va, len, HCA_CHECK_MODE);
	}
}

/**
 * hca_walk_entry() - go on below an indirect key
 * @walk: the walk
 * @key: the key that the entry names
 * @va: address in its space
 * @want: bytes that the entry is good for
 *
 * HM 4.3. The depth of the recursion is bounded by HCA_MAX_INDIRECTION (HM 4.4).
 *
 * Context: as hca_xlate().
 * Return: as hca_xlate().
 */
u64 hca_walk_entry(struct hca_walk *walk, u32 key, u64 va, u64 want)
{
	u64 got;

	walk->level++;
	got = hca_walk_key(walk, key, va, want, want);
	walk->level--;
	return got;
}

/**
 * hca_xlate() - translate one access
 * @walk: for whom, what for, and where the result goes; pieces are added to it
 * @key: lkey or rkey
 * @va: address in its space
 * @len: bytes of the request from @va on: what the checks of level 0 look at
 * @want: bytes to resolve now, at least 1, at most @len and at most HCA_CHUNK
 *
 * HM 4. The caller releases the result with hca_sgl_release(), on failure too.
 *
 * Context: process; does not sleep. Access counts are held on return.
 * Return: bytes resolved, 1 to @want, or fewer when the result is full (0 if it
 * was full before); 0 with hca_sgl_failed() when a check refused or a key is just
 * being changed.
 */
u64 hca_xlate(struct hca_walk *walk, u32 key, u64 va, u64 len, u64 want)
{
	hca_count(walk->hca, HCA_CNT_TRANSLATION);
	walk->level = 0;
	return hca_walk_key(walk, key, va, len, want);
}

/**
 * hca_gather() - translate part of a list of data segments
 * @walk: for whom, what for, and where the result goes
 * @list: the data segments
 * @offset: where in the list to begin, in bytes
 * @total: bytes of the message: what of the list will be accessed in all
 * @want: bytes to resolve now, at least 1
 *
 * At offset 0 the level-0 checks of every segment that the message reaches are
 * made before anything is resolved (HM 4.1), unless one chunk takes it all, which
 * checks everything anyway.
 *
 * Context: as hca_xlate().
 * Return: bytes resolved, possibly fewer than @want; 0 when a check refused.
 */
u64 hca_gather(struct hca_walk *walk, const struct hca_sge_list *list, u64 offset, u64 total,
	       u64 want)
{
	u64 at = 0, done = 0;
	unsigned int i;

	if (!offset && want < total) {
		for (i = 0; i < list->nr && at < total; i++) {
			const struct hca_sge *sge = &list->sge[i];
			u64 len = min(sge->len, total - at);

			at += len;
			if (sge->inl)
				continue;
			/* Pages may come later, so a missing one is no reason yet. */
			if (!hca_xlate(walk, sge->key, sge->addr, len, min_t(u64, len, 1)) &&
			    !walk->sgl->is_missing)
				return 0;
			hca_sgl_release(walk->hca, walk->sgl);
			hca_sgl_init(walk->sgl);
		}
		at = 0;
	}
	for (i = 0; i < list->nr && done < want; i++) {
		const struct hca_sge *sge = &list->sge[i];
		u64 skip, len, n, got;

		if (at + sge->len <= offset) {
			at += sge->len;
			continue;
		}
		skip = offset > at ? offset - at : 0;
		/* What the message accesses of this segment, from here on. */
		len = min(sge->len - skip, total - (at + skip));
		n = min(len, want - done);
		at += sge->len;
		if (walk->sgl->nr_segs == HCA_MAX_SEGS)
			break;
		if (sge->inl) {
			hca_sgl_add(walk->sgl, (u8 *)sge->inl + skip, n);
			done += n;
			continue;
		}
		got = hca_xlate(walk, sge->key, sge->addr + skip, len, n);
		if (hca_sgl_failed(walk->sgl))
			return 0;
		done += got;
		if (got < n)
			break;
	}
	return done;
}
