// SPDX-License-Identifier: GPL-2.0
/*
 * UMR: send WQEs that change an MKey (HM 8). Registration, window binding, local
 * invalidation, zapping and revoking are all this.
 *
 * Invariants:
 *  - All or nothing: everything that can fail is done before the key is frozen, and
 *    accesses see the key before the change or after it (HM 8.8).
 *  - No memory is allocated and no lock is taken that is held across an allocation:
 *    UMR runs in memory reclaim (HM 6.8, 11.4 R2).
 *  - The list is fetched into private memory before the key is looked into for the
 *    last time, so that a program that rewrites it meanwhile changes nothing.
 *  - What a key that names pages (MTT) grants can only be changed by the kernel's
 *    queues: a program that could write its own page table would reach all that is
 *    mapped for the device (design rule 1). Stock software changes only keys
 *    that name keys (KLM) from its own queues, and those are checked at access.
 *  - The MKC in the firmware page is changed first and decoded again, so the two
 *    cannot disagree.
 */
#include <linux/build_bug.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/string.h>

#include "engine.h"
#include "trace.h"

#define HCA_OCTWORD		16
#define HCA_UMR_CHECK_QPN	BIT(3)		/* libmlx5's; not in the kernel's headers */
#define HCA_UMR_CHECK_FREE	(3 << 5)
#define HCA_UMR_OFFSET_TOP	GENMASK(26, 0)
#define HCA_UMR_ALIGN_OCTWORDS	(MLX5_UMR_FLEX_ALIGNMENT / HCA_OCTWORD)

/* PRM bits of mkey_ctx_mask for which the kernel's header has no name. */
#define HCA_MKEY_MASK_GENERATION	BIT_ULL(31)

#define HCA_UMR_MASK							\
	(MLX5_MKEY_MASK_LEN | MLX5_MKEY_MASK_PAGE_SIZE |		\
	 MLX5_MKEY_MASK_START_ADDR | MLX5_MKEY_MASK_PD |		\
	 MLX5_MKEY_MASK_EN_RINVAL | MLX5_MKEY_MASK_EN_SIGERR |		\
	 MLX5_MKEY_MASK_BSF_EN | MLX5_MKEY_MASK_KEY |			\
	 MLX5_MKEY_MASK_QPN | MLX5_MKEY_MASK_LR | MLX5_MKEY_MASK_LW |	\
	 MLX5_MKEY_MASK_RR | MLX5_MKEY_MASK_RW | MLX5_MKEY_MASK_A |	\
	 MLX5_MKEY_MASK_SMALL_FENCE |					\
	 MLX5_MKEY_MASK_RELAXED_ORDERING_WRITE | MLX5_MKEY_MASK_FREE |	\
	 HCA_MKEY_MASK_GENERATION | MLX5_MKEY_MASK_PAGE_SIZE_5 |	\
	 MLX5_MKEY_MASK_RELAXED_ORDERING_READ)

/* The segments of a UMR WQE, in the private copy. */
struct hca_umr {
	struct mlx5_wqe_ctrl_seg ctrl;
	struct mlx5_wqe_umr_ctrl_seg umr;
	__be32 mkc[MLX5_ST_SZ_DW(mkc)];
	union {
		u8 list[0];
		struct mlx5_wqe_data_seg pointer;
	};
};

static u32 hca_umr_octwords(const struct hca_umr *wqe)
{
	return be16_to_cpu(wqe->umr.xlt_octowords);
}

static bool hca_umr_partial(const struct hca_umr *wqe)
{
	return wqe->umr.flags & MLX5_UMR_TRANSLATION_OFFSET_EN;
}

/* The field is a BSF size or the low half of an offset. */
static u32 hca_umr_bsf_octwords(const struct hca_umr *wqe)
{
	return hca_umr_partial(wqe) ? 0 : be16_to_cpu(wqe->umr.bsf_octowords);
}

static u64 hca_umr_offset(const struct hca_umr *wqe)
{
	u64 top = be32_to_cpu(wqe->umr.xlt_offset_47_16) & HCA_UMR_OFFSET_TOP;

	return hca_umr_partial(wqe) ? top << 16 | be16_to_cpu(wqe->umr.xlt_offset) : 0;
}

static u64 hca_umr_mask(const struct hca_umr *wqe)
{
	return be64_to_cpu(wqe->umr.mkey_mask);
}

static bool hca_umr_reserved(const struct mlx5_wqe_umr_ctrl_seg *umr)
{
	static const struct mlx5_wqe_umr_ctrl_seg none;

	return memcmp(umr->rsvd0, none.rsvd0, sizeof(none.rsvd0)) ||
	       memcmp(umr->rsvd1, none.rsvd1, sizeof(none.rsvd1));
}

/**
 * hca_umr_parse() - check 2 of HM 8.5: is the WQE well formed?
 * @req: the WQE, its private copy fetched
 * @len: bytes of it
 *
 * Return: 0 or a vendor syndrome.
 */
u8 hca_umr_parse(struct hca_req *req, size_t len)
{
	const struct hca_umr *wqe = (const void *)req->wqe;
	u64 bytes;

	if (len < offsetof(struct hca_umr, list))
		return HCA_VS_BAD_WQE;
	if (wqe->umr.flags & GENMASK(2, 0) || hca_umr_reserved(&wqe->umr) ||
	    be32_to_cpu(wqe->umr.xlt_offset_47_16) & ~HCA_UMR_OFFSET_TOP)
		return HCA_VS_BAD_WQE;
	if ((wqe->umr.flags & HCA_UMR_CHECK_FREE) == HCA_UMR_CHECK_FREE)
		return HCA_VS_BAD_WQE;
	bytes = HCA_OCTWORD * (hca_umr_octwords(wqe) + hca_umr_bsf_octwords(wqe));
	if (wqe->umr.flags & MLX5_UMR_INLINE)
		return len < offsetof(struct hca_umr, list) + bytes ? HCA_VS_BAD_WQE : HCA_VS_NONE;
	if (!bytes || len < sizeof(*wqe) || be32_to_cpu(wqe->pointer.byte_count) < bytes)
		return HCA_VS_BAD_WQE;
	return HCA_VS_NONE;
}

/* Takes the bits of one 32-bit word of an MKC from another; the mask is in host order. */
static void hca_umr_take(__be32 *to, const __be32 *from, unsigned int word, u32 bits)
{
	to[word] ^= (to[word] ^ from[word]) & cpu_to_be32(bits);
}

/* Copies the fields that the mask selects from one MKC into another (HM 8.4). */
static void hca_umr_merge(__be32 *to, const __be32 *from, u64 mask)
{
	/* Word by word, because most registrations and all revocations come by here. */
#define HCA_BITS(bit, bits)	(mask & (bit) ? (bits) : 0)
#define HCA_FIELD(word, bit, typ, field)						\
	(BUILD_BUG_ON_ZERO(__mlx5_dw_off(typ, field) != (word)) +			\
	 HCA_BITS(bit, __mlx5_dw_mask(typ, field)))
	hca_umr_take(to, from, 0,
		     HCA_FIELD(0, MLX5_MKEY_MASK_FREE, mkc, free) |
		     HCA_FIELD(0, MLX5_MKEY_MASK_RELAXED_ORDERING_WRITE, mkc,
			       relaxed_ordering_write) |
		     HCA_FIELD(0, MLX5_MKEY_MASK_SMALL_FENCE, mkc,
			       small_fence_on_rdma_read_response) |
		     HCA_FIELD(0, MLX5_MKEY_MASK_A, mkc, a) |
		     HCA_FIELD(0, MLX5_MKEY_MASK_RW, mkc, rw) |
		     HCA_FIELD(0, MLX5_MKEY_MASK_RR, mkc, rr) |
		     HCA_FIELD(0, MLX5_MKEY_MASK_LW, mkc, lw) |
		     HCA_FIELD(0, MLX5_MKEY_MASK_LR, mkc, lr));
	hca_umr_take(to, from, 1,
		     HCA_FIELD(1, MLX5_MKEY_MASK_QPN, mkc, qpn) |
		     HCA_FIELD(1, MLX5_MKEY_MASK_KEY, mkc, mkey_7_0));
	hca_umr_take(to, from, 3,
		     HCA_FIELD(3, MLX5_MKEY_MASK_LEN, mkc, length64) |
		     HCA_FIELD(3, MLX5_MKEY_MASK_BSF_EN, mkc, bsf_en) |
		     HCA_FIELD(3, MLX5_MKEY_MASK_EN_SIGERR, mkc, expected_sigerr_count) |
		     HCA_FIELD(3, MLX5_MKEY_MASK_EN_RINVAL, mkc, en_rinval) |
		     HCA_FIELD(3, MLX5_MKEY_MASK_PD, mkc, pd));
	if (mask & MLX5_MKEY_MASK_START_ADDR)
		memcpy(&to[__mlx5_dw_off(mkc, start_addr)],
		       &from[__mlx5_dw_off(mkc, start_addr)], sizeof(u64));
	if (mask & MLX5_MKEY_MASK_LEN)
		memcpy(&to[__mlx5_dw_off(mkc, len)], &from[__mlx5_dw_off(mkc, len)], sizeof(u64));
	hca_umr_take(to, from, 14,
		     HCA_BITS(MLX5_MKEY_MASK_PAGE_SIZE,
			      __mlx5_dw_mask(mkc, log_page_size) & GENMASK(4, 0)) |
		     HCA_BITS(MLX5_MKEY_MASK_PAGE_SIZE_5,
			      __mlx5_dw_mask(mkc, log_page_size) & BIT(5)) |
		     HCA_FIELD(14, MLX5_MKEY_MASK_RELAXED_ORDERING_READ, mkc,
			       relaxed_ordering_read));
	hca_umr_take(to, from, 15,
		     HCA_FIELD(15, HCA_MKEY_MASK_GENERATION, mkc_generation, generation_counter));
#undef HCA_FIELD
#undef HCA_BITS
}

/*
 * Checks 3 to 12 of HM 8.5, in their order. @image is a copy of the MKC as it will be.
 * Returns 0 or a vendor syndrome.
 */
static u8 hca_umr_check(const struct hca_qp *qp, const struct hca_mkey *mkey, u32 key,
			const struct hca_umr *wqe, const void *image)
{
	bool any = qp->st == MLX5_QP_ST_REG_UMR;
	const struct hca_mkc *mkc = &mkey->mkc;
	u64 mask = hca_umr_mask(wqe);
	u32 qpn = MLX5_GET(mkc, image, qpn);
	bool free = mkc->rights & HCA_MKC_FREE;
	bool rekeyed;

	if (mkc->mode != MLX5_MKC_ACCESS_MODE_KLMS && mkc->mode != MLX5_MKC_ACCESS_MODE_KSM &&
	    (mkc->mode != MLX5_MKC_ACCESS_MODE_MTT || (!any && !qp->fre)))
		return HCA_VS_UMR_KIND;
	if (!any && qp->pd != mkc->pd)
		return HCA_VS_UMR_PD;
	if (!MLX5_GET(mkc, mkey->image, umr_en))
		return HCA_VS_UMR_EN;
	if ((wqe->umr.flags & HCA_UMR_CHECK_FREE) == MLX5_UMR_CHECK_NOT_FREE && !free)
		return HCA_VS_UMR_NOT_FREE;
	if ((wqe->umr.flags & HCA_UMR_CHECK_FREE) == MLX5_UMR_CHECK_FREE && free)
		return HCA_VS_UMR_FREE;
	if (wqe->umr.flags & HCA_UMR_CHECK_QPN &&
	    (free || (mkc->qpn != 0xffffff && mkc->qpn != qp->qpn)))
		return HCA_VS_UMR_QPN;
	rekeyed = mask & MLX5_MKEY_MASK_KEY && !MLX5_GET(mkc, image, free);
	if (mkc->variant != (key & 0xff) && !free && !rekeyed)
		return HCA_VS_UMR_VARIANT;
	if (mask & ~HCA_UMR_MASK)
		return HCA_VS_UMR_MASK;
	if (mask & MLX5_MKEY_MASK_PD && !any)
		return HCA_VS_UMR_MASK_QP;
	if (!MLX5_GET(mkc, image, lr) || MLX5_GET(mkc, image, bsf_en) ||
	    !hca_mkc_range_ok(image) || !hca_mkc_page_size_ok(image))
		return HCA_VS_UMR_VALUE;
	if (mask & MLX5_MKEY_MASK_QPN && !any && qpn != 0xffffff && qpn != qp->qpn)
		return HCA_VS_UMR_VALUE;
	if (hca_umr_octwords(wqe) % HCA_UMR_ALIGN_OCTWORDS ||
	    hca_umr_offset(wqe) % HCA_UMR_ALIGN_OCTWORDS)
		return HCA_VS_UMR_ALIGN;
	if (!(wqe->umr.flags & MLX5_UMR_INLINE) &&
	    be64_to_cpu(wqe->pointer.addr) & (MLX5_UMR_ALIGN - 1))
		return HCA_VS_UMR_ALIGN;
	if (hca_umr_offset(wqe) + hca_umr_octwords(wqe) > mkc->octwords ||
	    hca_umr_bsf_octwords(wqe))
		return HCA_VS_UMR_SIZE;
	return HCA_VS_NONE;
}

/* Check 13: the list behind the pointer, into the HCA's own memory. umr_lock held. */
static bool hca_umr_fetch(struct hca_qp *qp, const struct mlx5_wqe_data_seg *pointer, u32 bytes)
{
	struct hca_walk walk = {
		.hca = qp->hca,
		.who = {
			.pd = qp->pd,
			.qpn = qp->qpn,
			.rlky = qp->rlky,
			.any_pd = qp->st == MLX5_QP_ST_REG_UMR,
		},
		.access = HCA_ACCESS_READ,
		.sgl = &qp->src,
	};
	u32 done = 0;
	u64 n;

	while (done < bytes) {
		hca_sgl_init(&qp->src);
		n = hca_xlate(&walk, be32_to_cpu(pointer->lkey),
			      be64_to_cpu(pointer->addr) + done, bytes - done,
			      min_t(u32, bytes - done, HCA_CHUNK));
		hca_copy_out((u8 *)qp->hca->umr_list + done, &qp->src, n);
		hca_sgl_release(qp->hca, &qp->src);
		if (qp->src.syndrome)
			return false;
		if (qp->src.changing)
			hca_mkey_wait(qp->hca, qp->src.changing);
		done += n;
	}
	return true;
}

/* Nothing fails any more. */
static void hca_umr_apply(struct hca *hca, struct hca_mkey *mkey, const struct hca_umr *wqe,
			  const void *image, const void *list)
{
	u32 octwords = hca_umr_octwords(wqe);

	hca_mkey_freeze(hca, mkey);
	memcpy(mkey->image, image, MLX5_ST_SZ_BYTES(mkc));
	hca_mkc_decode(mkey->image, &mkey->mkc);
	mkey->generation += !!octwords;
	hca_xlt_write(&mkey->xlt, hca_umr_offset(wqe) * HCA_OCTWORD, list,
		      octwords * HCA_OCTWORD);
	if (mkey->klms && octwords)
		hca_klms_update(mkey);
	hca_mkey_thaw(hca, mkey);
}

/* With the key locked. Returns a vendor syndrome. */
static u8 hca_umr_locked(struct hca_qp *qp, struct hca_mkey *mkey, u32 key,
			 const struct hca_umr *wqe)
{
	u32 bytes = hca_umr_octwords(wqe) * HCA_OCTWORD;
	__be32 image[MLX5_ST_SZ_DW(mkc)];
	struct hca_number *pd = NULL;
	const void *list = wqe->list;
	u8 syndrome;

	memcpy(image, mkey->image, sizeof(image));
	hca_umr_merge(image, wqe->mkc, hca_umr_mask(wqe));
	syndrome = hca_umr_check(qp, mkey, key, wqe, image);
	if (syndrome)
		return syndrome;
	if (hca_umr_mask(wqe) & MLX5_MKEY_MASK_PD) {
		pd = hca_number_get(&qp->hca->pds, MLX5_GET(mkc, image, pd), 0);
		if (!pd)
			return HCA_VS_UMR_VALUE;
	}
	if (!(wqe->umr.flags & MLX5_UMR_INLINE)) {
		list = qp->hca->umr_list;
		if (!hca_umr_fetch(qp, &wqe->pointer, bytes)) {
			if (pd)
				hca_number_put(pd);
			return HCA_VS_UMR_FETCH;
		}
	}
	hca_umr_apply(qp->hca, mkey, wqe, image, list);
	if (pd) {
		hca_number_put(mkey->pd);
		mkey->pd = pd;
	}
	return HCA_VS_NONE;
}

/**
 * hca_umr() - execute the UMR in qp->req
 * @qp: the queue pair, sq_lock held, in RTS; the WQE has been parsed
 * @result: filled in for HCA_ANSWER_ERROR
 *
 * HM 8.5, 8.8. When this returns no access uses what the UMR has replaced.
 *
 * Context: process, waits for running chunks of other queues.
 * Return: HCA_ANSWER_DONE or HCA_ANSWER_ERROR.
 */
enum hca_answer hca_umr(struct hca_qp *qp, struct hca_result *result)
{
	const struct hca_umr *wqe = (const void *)qp->req.wqe;
	u32 key = be32_to_cpu(qp->req.imm);
	struct hca *hca = qp->hca;
	struct hca_mkey *mkey;
	bool fetch = !(wqe->umr.flags & MLX5_UMR_INLINE);
	u8 syndrome;

	hca_sgl_init(&qp->src);
	if (fetch)
		mutex_lock(&hca->umr_lock);
	mkey = hca_mkey_lock(hca, key >> 8);
	if (mkey)
		syndrome = hca_umr_locked(qp, mkey, key, wqe);
	else
		syndrome = hca_key_special(key) ? HCA_VS_UMR_KIND : HCA_VS_UMR_NO_MKC;
	hca_mkey_unlock(hca, key >> 8);
	if (fetch)
		mutex_unlock(&hca->umr_lock);
	trace_hca_umr(qp->qpn, key, hca_umr_mask(wqe), hca_umr_offset(wqe),
		      hca_umr_octwords(wqe), syndrome);
	if (!syndrome)
		return HCA_ANSWER_DONE;
	/* A list that can't be fetched has its own place in the debug record. */
	if (syndrome != HCA_VS_UMR_FETCH)
		qp->src.key = key;
	result->syndrome = syndrome == HCA_VS_UMR_FETCH ? MLX5_CQE_SYNDROME_LOCAL_PROT_ERR :
							  MLX5_CQE_SYNDROME_MW_BIND_ERR;
	result->vendor = syndrome;
	result->where = &qp->src;
	return HCA_ANSWER_ERROR;
}
