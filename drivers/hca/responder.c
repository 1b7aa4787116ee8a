// SPDX-License-Identifier: GPL-2.0
/*
 * The wire and the responder: one step of a request, checked and moved.
 *
 * A step moves at most one chunk. It runs on the requester's thread, holds the
 * requester's sq_lock and, while it looks at or touches the responder, the
 * responder's rq_lock.
 *
 * Invariants:
 *  - SEND and WRITE are checked at the requester first, READ and ATOMIC at the
 *    responder first (HM 4.7).
 *  - A responder that is missing, in the wrong state, or connected to somebody else
 *    says nothing; everything else gets an answer.
 *  - A responder error takes the responder into error and is told to the requester
 *    by a NAK syndrome that does not say which check it was; the code is kept in the
 *    responder's debug record.
 */
#include <linux/minmax.h>
#include <linux/string.h>

#include "engine.h"

/*
 * Does an entry of the RoCE address table hold @gid? An IPv4 entry holds the address
 * in its last 4 bytes, where the GID is the mapped address ::ffff:a.b.c.d.
 */
static bool hca_roce_entry_is(const void *entry, const u8 *gid)
{
	static const u8 mapped[12] = { [10] = 0xff, [11] = 0xff };
	const u8 *l3 = MLX5_ADDR_OF(roce_addr_layout, entry, source_l3_address);

	if (!memchr_inv(l3, 0, 16))
		return false;
	if (MLX5_GET(roce_addr_layout, entry, roce_l3_type) == MLX5_ROCE_L3_TYPE_IPV4)
		return !memcmp(gid, mapped, sizeof(mapped)) && !memcmp(l3 + 12, gid + 12, 4);
	return !memcmp(l3, gid, 16);
}

/* Is the destination one of the port's GIDs? Found out again when the table changes. */
static bool hca_reaches_us(struct hca_qp *qp)
{
	struct hca *hca = qp->hca;
	int i;

	lockdep_assert_held(&qp->sq_lock);
	if (qp->rgid_seen == READ_ONCE(hca->roce_changes))
		return qp->rgid_ours;
	spin_lock_irq(&hca->roce_lock);
	qp->rgid_seen = hca->roce_changes;
	qp->rgid_ours = false;
	for (i = 0; i < HCA_ROCE_ADDRESSES && !qp->rgid_ours; i++)
		qp->rgid_ours = hca_roce_entry_is(hca->roce[i], qp->rgid);
	spin_unlock_irq(&hca->roce_lock);
	return qp->rgid_ours;
}

/*
 * The queue pair at the other end, as hca_qp_get() finds it; looked up again when queue
 * pairs have come or gone.
 */
static struct hca_qp *hca_peer_get(struct hca_qp *qp)
{
	struct hca *hca = qp->hca;
	struct hca_qp *peer;
	int changes;

	lockdep_assert_held(&qp->sq_lock);
	rcu_read_lock();
	/* With the number still the same, what it stands for is not freed before we leave RCU. */
	changes = atomic_read_acquire(&hca->qp_changes);
	if (qp->peer_seen != changes) {
		qp->peer = xa_load(&hca->qps, qp->remote_qpn);
		qp->peer_seen = changes;
	}
	peer = qp->peer;
	if (peer && !hca_ref_get(&peer->ref))
		peer = NULL;
	rcu_read_unlock();
	return peer;
}

/* The peer of a connected queue pair, its rq_lock held and its state good; or NULL. */
static struct hca_qp *hca_peer_lock(struct hca_qp *qp)
{
	struct hca_qp *peer;

	if (!hca_reaches_us(qp))
		return NULL;
	peer = hca_peer_get(qp);
	if (!peer)
		return NULL;
	mutex_lock(&peer->rq_lock);
	if (peer->st == qp->st && peer->remote_qpn == qp->qpn &&
	    (peer->state == MLX5_QP_STATE_RTR || peer->state == MLX5_QP_STATE_RTS))
		return peer;
	mutex_unlock(&peer->rq_lock);
	hca_qp_put(peer);
	return NULL;
}

static void hca_peer_unlock(struct hca_qp *peer)
{
	mutex_unlock(&peer->rq_lock);
	hca_qp_put(peer);
}

/* @op: HCA_ODP_*, the kind of request on whose behalf memory is accessed. @sgl is empty. */
static void hca_walk_init(struct hca_walk *walk, struct hca_qp *qp, enum hca_access access,
			  u8 op, bool remote, struct hca_sgl *sgl)
{
	walk->hca = qp->hca;
	walk->who.pd = qp->pd;
	walk->who.qpn = qp->qpn;
	walk->who.remote = remote;
	walk->who.rlky = qp->rlky;
	walk->who.any_pd = false;
	walk->access = access;
	walk->odp = qp->hca->odp & op;
	walk->level = 0;
	walk->sgl = sgl;
	walk->trace = NULL;
}

/*
 * A translation found nothing. Returns HCA_ANSWER_ERROR if it has failed for good, else
 * what the request has to wait for. @qp's memory it is; qp->req of @requester.
 */
static enum hca_answer hca_wait_access(struct hca_qp *qp, enum hca_fault_type type,
				       struct hca_qp *requester, struct hca_sgl *where,
				       struct hca_result *result)
{
	if (where->changing)
		return HCA_ANSWER_AGAIN;
	if (where->is_missing)
		return hca_fault_raise(qp, type, &requester->req, where, result);
	return HCA_ANSWER_ERROR;
}

static enum hca_answer hca_local_error(struct hca_result *result, const struct hca_sgl *where)
{
	result->syndrome = MLX5_CQE_SYNDROME_LOCAL_PROT_ERR;
	result->vendor = where->syndrome;
	result->where = where;
	return HCA_ANSWER_ERROR;
}

/* Remote access refused: HM 4.7, row "RDMA ... target". */
static enum hca_answer hca_nak_access(struct hca_qp *peer, const struct hca_sgl *where,
				      struct hca_result *result)
{
	hca_qp_set_error(peer, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, where->syndrome, where, true);
	/* A write with immediate has a receive to complete; nothing else tells the owner. */
	if (peer->recv.active)
		hca_recv_error(peer, MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR, where->syndrome);
	else
		hca_event_qp(peer->hca, MLX5_EVENT_TYPE_WQ_ACCESS_ERROR, peer->qpn);
	result->syndrome = MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR;
	result->vendor = HCA_VS_NAK_ACCESS;
	return HCA_ANSWER_ERROR;
}

/* The request itself is not acceptable: same table, row "misaligned atomic ...". */
static enum hca_answer hca_nak_request(struct hca_qp *peer, u8 vendor,
				       struct hca_result *result)
{
	hca_qp_set_error(peer, MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR, vendor, NULL, true);
	hca_event_qp(peer->hca, MLX5_EVENT_TYPE_WQ_INVAL_REQ_ERROR, peer->qpn);
	result->syndrome = MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR;
	result->vendor = HCA_VS_NAK_REQ;
	return HCA_ANSWER_ERROR;
}

/* The receive WQE is at fault. */
static enum hca_answer hca_nak_receive(struct hca_qp *peer, u8 syndrome, u8 vendor,
				       const struct hca_sgl *where, u8 nak, u8 nak_vendor,
				       struct hca_result *result)
{
	hca_qp_set_error(peer, syndrome, vendor, where, true);
	hca_recv_error(peer, syndrome, vendor);
	result->syndrome = nak;
	result->vendor = nak_vendor;
	return HCA_ANSWER_ERROR;
}

/* Nor can its memory be written. */
static enum hca_answer hca_nak_scatter(struct hca_qp *peer, const struct hca_sgl *where,
				       struct hca_result *result)
{
	return hca_nak_receive(peer, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, where->syndrome, where,
			       MLX5_CQE_SYNDROME_REMOTE_OP_ERR, HCA_VS_NAK_OP, result);
}

/* What it means to the request that the memory of @qp cannot be accessed. */
static enum hca_answer hca_fail_access(struct hca_qp *qp, enum hca_fault_type type,
				       const struct hca_sgl *where, struct hca_result *result)
{
	switch (type) {
	case HCA_FAULT_GATHER:
	case HCA_FAULT_RESULT:
		return hca_local_error(result, where);
	case HCA_FAULT_SCATTER:
		return hca_nak_scatter(qp, where, result);
	default:
		return hca_nak_access(qp, where, result);
	}
}

/* A translation found nothing: wait, or fail. Parameters as hca_wait_access(). */
static enum hca_answer hca_stuck(struct hca_qp *qp, enum hca_fault_type type,
				 struct hca_qp *requester, struct hca_sgl *where,
				 struct hca_result *result)
{
	enum hca_answer answer = hca_wait_access(qp, type, requester, where, result);

	return answer == HCA_ANSWER_ERROR ? hca_fail_access(qp, type, where, result) : answer;
}

/* hca_recv_take() found none, or @err: no receive is to blame for that, the record is. */
static enum hca_answer hca_no_receive(struct hca_qp *peer, int err, struct hca_result *result)
{
	if (!err) {
		result->rnr_timer = peer->min_rnr_nak;
		return HCA_ANSWER_RNR;
	}
	hca_qp_set_error(peer, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR, HCA_VS_RECORD, NULL, true);
	hca_event_qp(peer->hca, MLX5_EVENT_TYPE_WQ_CATAS_ERROR, peer->qpn);
	result->syndrome = MLX5_CQE_SYNDROME_REMOTE_OP_ERR;
	result->vendor = HCA_VS_NAK_OP;
	return HCA_ANSWER_ERROR;
}

static void hca_deliver(struct hca_qp *qp, struct hca_qp *peer, u32 byte_count)
{
	struct mlx5_cqe64 cqe = {
		.flags_rqpn = cpu_to_be32(qp->qpn),
		.byte_cnt = cpu_to_be32(byte_count),
	};
	u8 opcode;

	switch (qp->req.opcode) {
	case MLX5_OPCODE_RDMA_WRITE_IMM:
		opcode = MLX5_CQE_RESP_WR_IMM;
		break;
	case MLX5_OPCODE_SEND_IMM:
		opcode = MLX5_CQE_RESP_SEND_IMM;
		break;
	case MLX5_OPCODE_SEND_INVAL:
		opcode = MLX5_CQE_RESP_SEND_INV;
		break;
	default:
		opcode = MLX5_CQE_RESP_SEND;
		break;
	}
	/* Immediate and key to invalidate have one place in WQE and CQE. */
	if (opcode != MLX5_CQE_RESP_SEND)
		cqe.immediate = qp->req.imm;
	hca_recv_complete(peer, &cqe, opcode, qp->req.fm_ce_se & MLX5_WQE_CTRL_SOLICITED);
}

/*
 * The payload is in place: withdraw the key that came with it. A refusal is the
 * receiver's business alone: the requester hears nothing, ever (HM 9.2).
 */
static bool hca_send_inval(struct hca_qp *qp, struct hca_qp *peer)
{
	u32 key = be32_to_cpu(qp->req.imm);
	u8 vendor;

	/* The payload may have gone through the key itself. */
	hca_sgl_release(qp->hca, &qp->dst);
	hca_sgl_release(qp->hca, &qp->src);
	vendor = hca_invalidate(qp->hca, key, peer->pd, peer->qpn);
	if (!vendor)
		return true;
	qp->dst.key = key;
	qp->dst.va = 0;
	hca_qp_set_error(peer, MLX5_CQE_SYNDROME_MW_BIND_ERR, vendor, &qp->dst, true);
	hca_recv_error(peer, MLX5_CQE_SYNDROME_MW_BIND_ERR, vendor);
	return false;
}

/*
 * One chunk of a SEND: the message of @total bytes continues at req->done. @have of
 * them have been gathered into qp->src.
 */
static enum hca_answer hca_send_step(struct hca_qp *qp, struct hca_qp *peer, u64 total,
				     u64 have, struct hca_result *result)
{
	struct hca_req *req = &qp->req;
	struct hca_recv *recv = &peer->recv;
	struct hca_walk walk;
	u64 n = 0;
	int taken;

	taken = hca_recv_take(peer);
	if (taken <= 0)
		return hca_no_receive(peer, taken, result);
	if (total > recv->data.total)
		return hca_nak_receive(peer, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR,
				       HCA_VS_RQ_TOO_SHORT, NULL,
				       MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR, HCA_VS_NAK_REQ,
				       result);
	if (have) {
		hca_walk_init(&walk, peer, HCA_ACCESS_WRITE, HCA_ODP_RECEIVE, false, &qp->dst);
		n = hca_gather(&walk, &recv->data, req->done, total, have);
		if (!n)
			return hca_stuck(peer, HCA_FAULT_SCATTER, qp, &qp->dst, result);
		hca_copy(qp->hca, &qp->dst, &qp->src, n);
	}
	req->done += n;
	if (req->done < total)
		return HCA_ANSWER_MORE;
	if (req->opcode == MLX5_OPCODE_SEND_INVAL && !hca_send_inval(qp, peer))
		return HCA_ANSWER_NONE;
	hca_deliver(qp, peer, total);
	return HCA_ANSWER_DONE;
}

/* One chunk of a WRITE, likewise. */
static enum hca_answer hca_write_step(struct hca_qp *qp, struct hca_qp *peer, u64 total,
				      u64 have, struct hca_result *result)
{
	struct hca_req *req = &qp->req;
	bool imm = req->opcode == MLX5_OPCODE_RDMA_WRITE_IMM;
	struct hca_walk walk;
	u64 n = 0;
	int taken = 1;

	if (!peer->rwe)
		return hca_nak_request(peer, HCA_VS_QP_ACCESS, result);
	if (imm)
		taken = hca_recv_take(peer);
	if (taken <= 0)
		return hca_no_receive(peer, taken, result);
	if (have) {
		hca_walk_init(&walk, peer, HCA_ACCESS_WRITE, HCA_ODP_WRITE, true, &qp->dst);
		n = hca_xlate(&walk, req->rkey, req->raddr + req->done, total - req->done, have);
		if (!n)
			return hca_stuck(peer, HCA_FAULT_WRITE, qp, &qp->dst, result);
		hca_copy(qp->hca, &qp->dst, &qp->src, n);
	}
	req->done += n;
	if (req->done < total)
		return HCA_ANSWER_MORE;
	if (imm)
		hca_deliver(qp, peer, total);
	return HCA_ANSWER_DONE;
}

/* SEND and WRITE: the requester's memory first, then whether anybody is there. */
static enum hca_answer hca_push(struct hca_qp *qp, struct hca_qp *peer,
				struct hca_result *result)
{
	struct hca_req *req = &qp->req;
	u64 total = req->data.total;
	u64 want = min_t(u64, total - req->done, HCA_CHUNK), have = 0;
	bool is_send = req->opcode == MLX5_OPCODE_SEND || req->opcode == MLX5_OPCODE_SEND_IMM ||
		       req->opcode == MLX5_OPCODE_SEND_INVAL;
	enum hca_answer answer;
	struct hca_walk walk;

	hca_walk_init(&walk, qp, HCA_ACCESS_READ, is_send ? HCA_ODP_SEND : HCA_ODP_WRITE, false,
		      &qp->src);
	if (want && total <= HCA_MAX_MSG) {
		have = hca_gather(&walk, &req->data, req->done, total, want);
		if (!have)
			return hca_stuck(qp, HCA_FAULT_GATHER, qp, &qp->src, result);
	}
	if (!peer)
		return HCA_ANSWER_NONE;
	if (total > HCA_MAX_MSG || total > 1ULL << peer->log_msg_max)
		return hca_nak_request(peer, HCA_VS_MSG_TOO_LONG, result);
	if (is_send)
		answer = hca_send_step(qp, peer, total, have, result);
	else
		answer = hca_write_step(qp, peer, total, have, result);
	return answer;
}

/* READ: the responder's memory first, then the requester's. */
static enum hca_answer hca_pull(struct hca_qp *qp, struct hca_qp *peer,
				struct hca_result *result)
{
	struct hca_req *req = &qp->req;
	u64 total = req->data.total;
	u64 want = min_t(u64, total - req->done, HCA_CHUNK);
	struct hca_walk walk;
	u64 n;

	if (!peer)
		return HCA_ANSWER_NONE;
	if (!peer->rre)
		return hca_nak_request(peer, HCA_VS_QP_ACCESS, result);
	if (total > HCA_MAX_MSG || total > 1ULL << peer->log_msg_max)
		return hca_nak_request(peer, HCA_VS_MSG_TOO_LONG, result);
	if (!want)
		return HCA_ANSWER_DONE;
	hca_walk_init(&walk, peer, HCA_ACCESS_READ, HCA_ODP_READ, true, &qp->src);
	n = hca_xlate(&walk, req->rkey, req->raddr + req->done, total - req->done, want);
	if (!n)
		return hca_stuck(peer, HCA_FAULT_READ, qp, &qp->src, result);
	hca_walk_init(&walk, qp, HCA_ACCESS_WRITE, HCA_ODP_READ, false, &qp->dst);
	n = hca_gather(&walk, &req->data, req->done, total, n);
	if (!n)
		return hca_stuck(qp, HCA_FAULT_RESULT, qp, &qp->dst, result);
	hca_copy(qp->hca, &qp->dst, &qp->src, n);
	req->done += n;
	return req->done < total ? HCA_ANSWER_MORE : HCA_ANSWER_DONE;
}

/* Reads and changes the 8 bytes that @at resolves to; returns what was there. */
static u64 hca_atomic_do(struct hca_qp *qp, const struct hca_sgl *at)
{
	struct hca_req *req = &qp->req;
	bool cs = req->opcode == MLX5_OPCODE_ATOMIC_CS;
	u64 old, new;

	spin_lock_irq(&qp->hca->atomic_lock);
	if (at->nr_segs == 1 && at->seg[0].p && IS_ALIGNED((unsigned long)at->seg[0].p, 8)) {
		u64 *p = at->seg[0].p;

		/* The host's CPUs may work on the same word, so this is a real atomic. */
		do {
			old = READ_ONCE(*p);
			new = cs ? (old == req->compare ? req->swap_add : old) :
				   old + req->swap_add;
		} while (cmpxchg64(p, old, new) != old);
	} else {
		/* Raw keys can map a word at odd addresses: atomic among requests only. */
		hca_copy_out(&old, at, sizeof(old));
		new = cs ? (old == req->compare ? req->swap_add : old) : old + req->swap_add;
		hca_copy_in(at, &new, sizeof(new));
	}
	spin_unlock_irq(&qp->hca->atomic_lock);
	return old;
}

/* ATOMIC: as READ, and all in one chunk. */
static enum hca_answer hca_atomic(struct hca_qp *qp, struct hca_qp *peer,
				  struct hca_result *result)
{
	struct hca_req *req = &qp->req;
	enum hca_answer answer;
	struct hca_walk walk;
	u64 old, n;

	if (!peer)
		return HCA_ANSWER_NONE;
	if (req->raddr & 7)
		return hca_nak_request(peer, HCA_VS_UNALIGNED, result);
	if (!peer->rae)
		return hca_nak_request(peer, HCA_VS_QP_ACCESS, result);
	hca_walk_init(&walk, peer, HCA_ACCESS_ATOMIC, HCA_ODP_ATOMIC, true, &qp->src);
	if (!hca_xlate(&walk, req->rkey, req->raddr, sizeof(u64), sizeof(u64)))
		return hca_stuck(peer, HCA_FAULT_WRITE, qp, &qp->src, result);
	hca_walk_init(&walk, qp, HCA_ACCESS_WRITE, HCA_ODP_ATOMIC, false, &qp->dst);
	n = hca_gather(&walk, &req->data, 0, sizeof(u64), sizeof(u64));
	/* A result in two pieces, one of which is not there: ask for that one. */
	if (n && n < sizeof(u64)) {
		hca_sgl_release(qp->hca, &qp->dst);
		hca_sgl_init(&qp->dst);
		hca_gather(&walk, &req->data, n, sizeof(u64), sizeof(u64) - n);
	}
	/* What has been changed can't be taken back, so everything is waited for before. */
	if (n < sizeof(u64)) {
		answer = hca_wait_access(qp, HCA_FAULT_RESULT, qp, &qp->dst, result);
		if (answer != HCA_ANSWER_ERROR)
			return answer;
	}
	old = hca_atomic_do(qp, &qp->src);
	if (n < sizeof(u64))
		return hca_local_error(result, &qp->dst);
	hca_copy_in(&qp->dst, &old, sizeof(old));
	req->done = sizeof(u64);
	return HCA_ANSWER_DONE;
}

/* What a fault on either side has come to. HCA_ANSWER_MORE: nothing is in the way. */
static enum hca_answer hca_after_fault(struct hca_qp *qp, struct hca_qp *peer,
				       struct hca_result *result)
{
	if (qp->sq_fault.failed) {
		qp->sq_fault.failed = false;
		qp->src.syndrome = HCA_VS_ODP;
		return hca_fail_access(qp, qp->sq_fault.type, &qp->src, result);
	}
	if (!peer)
		return HCA_ANSWER_MORE;
	if (peer->rq_fault.open) {
		result->wait_ns = HCA_FAULT_POLL_NS;
		return HCA_ANSWER_FAULT;
	}
	if (!peer->rq_fault.failed)
		return HCA_ANSWER_MORE;
	peer->rq_fault.failed = false;
	qp->dst.syndrome = HCA_VS_ODP;
	return hca_fail_access(peer, peer->rq_fault.type, &qp->dst, result);
}

/**
 * hca_request() - one step of the request in qp->req
 * @qp: the requester, sq_lock held, in RTS
 * @result: filled in for HCA_ANSWER_ERROR and HCA_ANSWER_RNR
 *
 * Context: process, may sleep for the responder's lock.
 * Return: how far the request came.
 */
enum hca_answer hca_request(struct hca_qp *qp, struct hca_result *result)
{
	struct hca_req *req = &qp->req;
	enum hca_answer answer;
	struct hca_qp *peer;
	u32 changing;

	if (req->opcode == MLX5_OPCODE_NOP)
		return HCA_ANSWER_DONE;
	if (req->opcode == MLX5_OPCODE_UMR)
		return hca_umr(qp, result);
	peer = hca_peer_lock(qp);
	hca_sgl_init(&qp->src);
	hca_sgl_init(&qp->dst);
	answer = hca_after_fault(qp, peer, result);
	if (answer != HCA_ANSWER_MORE)
		goto unlock;
	switch (req->opcode) {
	case MLX5_OPCODE_RDMA_READ:
		answer = hca_pull(qp, peer, result);
		break;
	case MLX5_OPCODE_ATOMIC_CS:
	case MLX5_OPCODE_ATOMIC_FA:
		answer = hca_atomic(qp, peer, result);
		break;
	default:
		answer = hca_push(qp, peer, result);
		break;
	}
	hca_sgl_release(qp->hca, &qp->dst);
	hca_sgl_release(qp->hca, &qp->src);
	if (answer == HCA_ANSWER_MORE || answer == HCA_ANSWER_DONE) {
		qp->sq_fault.raised = false;
		peer->rq_fault.raised = false;
	}
unlock:
	if (peer)
		hca_peer_unlock(peer);
	changing = qp->dst.changing ?: qp->src.changing;
	if (answer == HCA_ANSWER_AGAIN)
		hca_mkey_wait(qp->hca, changing);
	return answer;
}
