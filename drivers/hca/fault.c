// SPDX-License-Identifier: GPL-2.0
/*
 * Page faults: an access that meets a translation entry without the right waits while
 * the host makes the page ready (HM 6, transport scheme).
 *
 * Invariants:
 *  - A queue pair has at most one open fault as requester, under sq_lock, and one as
 *    responder, under rq_lock. Nothing else is held meanwhile, no thread waits,
 *    and other queue pairs run on (HM 6.4, 11.4 R1).
 *  - A fault is raised only for the first byte that is still to be moved; what is
 *    present before the hole is moved first. So what the event calls committed
 *    has been moved.
 *  - After the answer the access is translated again from level 0; nothing that was
 *    found out before the fault is believed.
 *  - A fault that the host answers again and again without changing the entry ends
 *    (HM 6.6), a requester that waits for its peer's fault does not run out of
 *    retries (HM 6.4).
 */
#include <linux/errno.h>
#include <linux/ktime.h>
#include <linux/minmax.h>

#include "engine.h"
#include "trace.h"

/* HM 6.6: so many answers without effect, and what is waited between them. */
#define HCA_FAULT_LIMIT		64
#define HCA_FAULT_WAIT_MIN_NS	(100ULL * NSEC_PER_USEC)
#define HCA_FAULT_WAIT_MAX_NS	(10ULL * NSEC_PER_MSEC)

/* A token of a WQE fault: a QPN, whose side, and a sequence number. RDMA faults have the QPN. */
#define HCA_TOKEN_WQE		BIT(23)
#define HCA_TOKEN_SEQ_SHIFT	18
#define HCA_TOKEN_SEQ_MASK	GENMASK(4, 0)
#define HCA_TOKEN_RESPONDER	BIT(HCA_LOG_MAX_QP)
#define HCA_TOKEN_QPN		GENMASK(HCA_LOG_MAX_QP - 1, 0)

static u32 hca_fault_mtu(const struct hca_qp *qp)
{
	return 128U << MLX5_GET(qpc, qp->image, mtu);
}

/* Does the answer to the last fault have had no effect? Counts how often in a row. */
static void hca_fault_compare(struct hca_fault *fault, const struct hca_missing *missing)
{
	if (fault->raised && fault->missing.index == missing->index &&
	    fault->missing.entry == missing->entry &&
	    fault->missing.generation == missing->generation) {
		if (!fault->waited)
			fault->same++;
		return;
	}
	fault->missing = *missing;
	fault->same = 0;
	fault->waited = false;
}

/* Nanoseconds to wait before the host is asked once more. */
static u64 hca_fault_backoff(const struct hca_fault *fault)
{
	return min(HCA_FAULT_WAIT_MIN_NS << min(fault->same - 1, 16U), HCA_FAULT_WAIT_MAX_NS);
}

static int hca_fault_event_wqe(struct hca_qp *qp, struct hca_fault *fault, u16 index, u64 done,
			       u64 left)
{
	struct mlx5_eqe_page_fault data = {};

	data.wqe.bytes_committed = cpu_to_be32(done);
	data.wqe.wqe_index = cpu_to_be16(index);
	data.wqe.packet_length = cpu_to_be16(min_t(u64, left, hca_fault_mtu(qp)));
	data.wqe.token = cpu_to_be32(fault->token);
	data.wqe.pftype_wq = cpu_to_be32((u32)fault->type << 24 | qp->qpn);
	return hca_event(qp->hca, MLX5_EVENT_TYPE_PAGE_FAULT, MLX5_PFAULT_SUBTYPE_WQE, &data,
			 sizeof(data));
}

static int hca_fault_event_rdma(struct hca_qp *qp, struct hca_fault *fault,
				const struct hca_req *req)
{
	u64 left = req->data.total - req->done;
	struct mlx5_eqe_page_fault data = {};

	data.rdma.bytes_committed = cpu_to_be32(req->done);
	data.rdma.r_key = cpu_to_be32(req->rkey);
	data.rdma.packet_length = cpu_to_be16(min_t(u64, left, hca_fault_mtu(qp)));
	data.rdma.rdma_op_len = cpu_to_be32(req->data.total);
	data.rdma.rdma_va = cpu_to_be64(req->raddr);
	data.rdma.pftype_token = cpu_to_be32((u32)fault->type << 24 | fault->token);
	return hca_event(qp->hca, MLX5_EVENT_TYPE_PAGE_FAULT, MLX5_PFAULT_SUBTYPE_RDMA, &data,
			 sizeof(data));
}

/**
 * hca_fault_raise() - an access has met a missing page: suspend it
 * @qp: the queue pair whose memory it is; sq_lock held if it is the requester,
 *	rq_lock if the responder
 * @type: HCA_FAULT_*
 * @req: the request
 * @sgl: the result of the translation; gets a syndrome if the access has to fail
 * @result: gets how long to wait before the next try, 0 if the host will tell
 *
 * Context: process; does not sleep.
 * Return: HCA_ANSWER_FAULT if the access is suspended; HCA_ANSWER_ERROR if it has to
 * fail, with sgl->syndrome saying why.
 */
enum hca_answer hca_fault_raise(struct hca_qp *qp, enum hca_fault_type type,
				const struct hca_req *req, struct hca_sgl *sgl,
				struct hca_result *result)
{
	bool responder = type != HCA_FAULT_GATHER && type != HCA_FAULT_RESULT;
	struct hca_fault *fault = responder ? &qp->rq_fault : &qp->sq_fault;
	u8 level = sgl->missing.level ? HCA_VS_NESTED : HCA_VS_LEVEL0;
	u64 left = req->data.total - req->done;
	int err;

	hca_fault_compare(fault, &sgl->missing);
	if (fault->same > HCA_FAULT_LIMIT) {
		sgl->syndrome = level | HCA_CHECK_PROGRESS;
		return HCA_ANSWER_ERROR;
	}
	if (fault->same && !fault->waited) {
		fault->waited = true;
		result->wait_ns = hca_fault_backoff(fault);
		return HCA_ANSWER_FAULT;
	}
	fault->waited = false;
	fault->type = type;
	fault->token = qp->qpn;
	/* The answer may come before hca_event() has returned; it waits for our lock. */
	if (type & HCA_FAULT_RDMA) {
		err = hca_fault_event_rdma(qp, fault, req);
	} else {
		fault->seq++;
		fault->token |= HCA_TOKEN_WQE | (responder ? HCA_TOKEN_RESPONDER : 0) |
				(fault->seq & HCA_TOKEN_SEQ_MASK) << HCA_TOKEN_SEQ_SHIFT;
		err = hca_fault_event_wqe(qp, fault, responder ? qp->recv.index : req->index,
					  req->done, left);
	}
	if (err == -ENOENT) {
		sgl->syndrome = level | HCA_CHECK_PAGE;
		return HCA_ANSWER_ERROR;
	}
	result->wait_ns = responder || err ? HCA_FAULT_POLL_NS : 0;
	if (err)
		return HCA_ANSWER_FAULT;
	hca_count(qp->hca, HCA_CNT_PAGE_FAULT);
	trace_hca_page_fault(qp->qpn, type, fault->token, sgl->key, sgl->va);
	fault->raised = true;
	fault->open = true;
	return HCA_ANSWER_FAULT;
}

/**
 * hca_fault_drop() - the access that waited is no more
 * @fault: the fault of one direction, its lock held
 *
 * A late answer finds nothing (HM 6.4).
 */
void hca_fault_drop(struct hca_fault *fault)
{
	fault->open = false;
	fault->failed = false;
	fault->raised = false;
	fault->waited = false;
	fault->same = 0;
}

/* Answers @fault if it is the one that was asked about; its lock held. */
static hca_cmd_status hca_fault_answer(struct hca_fault *fault, u32 token, u8 type, bool failed)
{
	if (!fault->open || fault->token != token)
		return HCA_REFUSE(BAD_RES_ERR, 2);
	if (fault->type != type)
		return HCA_REFUSE(BAD_PARAM_ERR, 3);
	fault->open = false;
	fault->failed = failed;
	return HCA_OK;
}

/* The requester of a suspended responder: let it look again. */
static void hca_fault_wake(struct hca *hca, u32 qpn)
{
	struct hca_qp *qp = hca_qp_get(hca, qpn);

	if (!qp)
		return;
	WRITE_ONCE(qp->sq_resumed, true);
	hca_sq_ring(qp, true);
	hca_qp_put(qp);
}

hca_cmd_status hca_cmd_page_fault_resume(struct hca *hca, const void *in, size_t inlen,
					 void *out, size_t outlen)
{
	const void *info = MLX5_ADDR_OF(page_fault_resume_in, in,
					page_fault_info.trans_page_fault_info);
	u32 wq = MLX5_GET(trans_page_fault_info, info, wq_number);
	u32 token = MLX5_GET(trans_page_fault_info, info, fault_token);
	u8 type = MLX5_GET(trans_page_fault_info, info, page_fault_type);
	bool failed = MLX5_GET(trans_page_fault_info, info, error);
	hca_cmd_status status;
	struct hca_qp *qp;
	u32 requester;

	if (MLX5_GET(page_fault_resume_in, in, op_mod))
		return HCA_REFUSE(BAD_OP_ERR, 1);
	qp = hca_qp_get(hca, token & HCA_TOKEN_QPN);
	if (!qp)
		return HCA_REFUSE(BAD_RES_ERR, 2);
	/* The driver names an RDMA fault by its token in both fields. */
	if (wq != qp->qpn) {
		status = HCA_REFUSE(BAD_PARAM_ERR, 3);
	} else if (token & HCA_TOKEN_WQE && !(token & HCA_TOKEN_RESPONDER)) {
		hca_sq_lock(qp);
		status = hca_fault_answer(&qp->sq_fault, token, type, failed);
		if (status) {
			hca_sq_unlock(qp);
		} else {
			mutex_unlock(&qp->sq_lock);
			hca_sq_ring(qp, true);
		}
	} else {
		mutex_lock(&qp->rq_lock);
		status = hca_fault_answer(&qp->rq_fault, token, type, failed);
		requester = qp->remote_qpn;
		mutex_unlock(&qp->rq_lock);
		if (!status)
			hca_fault_wake(hca, requester);
	}
	hca_qp_put(qp);
	return status;
}
