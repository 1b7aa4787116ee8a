// SPDX-License-Identifier: GPL-2.0
/*
 * Stores to UAR pages: which queue has news (libmlx5-abi 2.3, doorbells.md).
 *
 * Invariants:
 *  - What was stored is only a hint: it selects a queue of the same UAR to look at.
 *    What to do is read from the doorbell record.
 *  - A hint that leads nowhere makes the HCA look at all queues of the UAR.
 */
#include <linux/string.h>

#include "engine.h"

static bool hca_store_rings_sq(struct hca *hca, u32 uar, u64 value, bool may_run)
{
	/* The second word of a control segment: QPN and DS. */
	struct hca_qp *qp = hca_qp_get(hca, value >> 8 & 0xffffff);
	bool ours;

	if (!qp)
		return false;
	ours = qp->uar == uar && qp->has_sq;
	if (ours) {
		hca_count(hca, HCA_CNT_DOORBELL_SQ);
		hca_sq_ring(qp, may_run);
	}
	hca_qp_put(qp);
	return ours;
}

static bool hca_store_arms_cq(struct hca *hca, u32 uar, u64 value, bool may_run)
{
	struct hca_cq *cq = hca_cq_get(hca, value & 0xffffff);
	bool ours;

	if (!cq)
		return false;
	ours = cq->uar == uar;
	if (ours) {
		hca_count(hca, HCA_CNT_DOORBELL_CQ_ARM);
		hca_cq_look_at_arm(cq, true, may_run);
	}
	hca_ref_put(&cq->ref);
	return ours;
}

static bool hca_scan(struct hca *hca, u32 uar, bool may_run)
{
	unsigned long index;
	struct hca_qp *qp;
	struct hca_cq *cq;
	bool news = false;

	hca_count(hca, HCA_CNT_DOORBELL_SCAN);
	xa_for_each(&hca->cqs, index, cq) {
		cq = hca_cq_get(hca, index);
		if (!cq)
			continue;
		if (cq->uar == uar)
			news |= hca_cq_look_at_arm(cq, false, may_run);
		hca_ref_put(&cq->ref);
	}
	xa_for_each(&hca->qps, index, qp) {
		qp = hca_qp_get(hca, index);
		if (!qp)
			continue;
		if (qp->uar == uar && hca_sq_has_news(qp)) {
			hca_sq_ring(qp, may_run);
			news = true;
		}
		hca_qp_put(qp);
	}
	return news;
}

void hca_uar_store(struct hca *hca, u32 uar, unsigned int offset,
		   const void *data, unsigned int len, unsigned int flags)
{
	bool may_run = flags & HCA_STORE_INLINE;
	__be32 word;
	__be64 qword;

	if (len == sizeof(word) && (offset == HCA_UAR_EQ_ARM || offset == HCA_UAR_EQ_UPDATE)) {
		memcpy(&word, data, sizeof(word));
		hca_eq_doorbell(hca, be32_to_cpu(word), offset == HCA_UAR_EQ_ARM);
		return;
	}
	if (len == sizeof(qword)) {
		memcpy(&qword, data, sizeof(qword));
		if (offset == HCA_UAR_CQ_DOORBELL ?
		    hca_store_arms_cq(hca, uar, be64_to_cpu(qword), may_run) :
		    hca_store_rings_sq(hca, uar, be64_to_cpu(qword), may_run))
			return;
	}
	hca_scan(hca, uar, may_run);
}

bool hca_uar_scan(struct hca *hca, u32 uar)
{
	return hca_scan(hca, uar, true);
}
