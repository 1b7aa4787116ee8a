// SPDX-License-Identifier: GPL-2.0
/*
 * The requester: fetching send WQEs, executing them in order, completing them.
 *
 * Invariants:
 *  - One thread at a time executes a send queue: the holder of sq_lock. A doorbell
 *    that finds the lock taken sets sq_rung and leaves; the holder looks at the flag
 *    after it has unlocked. So no doorbell is lost and none waits for another's
 *    copies.
 *  - A WQE is copied once, as far as its control segment says, then parsed and
 *    executed from the copy alone.
 *  - WQEs complete in order; a request that must wait (RNR, no answer) keeps its
 *    place in qp->req and holds nothing else.
 *  - After an error nothing is executed, everything is flushed.
 */
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/string.h>

#include "engine.h"
#include "trace.h"

#define HCA_WQEBB		MLX5_SEND_WQE_BB
#define HCA_SEGS_PER_WQEBB	(MLX5_SEND_WQE_BB / MLX5_SEND_WQE_DS)

/* One turn: after that a worker takes over from the ringing thread, or another's work comes. */
#define HCA_TURN_BYTES		(32 << 20)
#define HCA_TURN_WQES		1024

/* A time-out of 0 means "wait for ever": look again now and then (IBTA 9.7.6.1.3). */
#define HCA_FOREVER_POLL_NS	(100ULL * NSEC_PER_MSEC)

static u16 hca_sq_pending(struct hca_qp *qp)
{
	/* Pairs with the program's barrier between WQE and record. */
	u16 pi = be32_to_cpu(smp_load_acquire(&qp->dbr.record[1]));

	return pi - qp->sq_ci;
}

/**
 * hca_sq_has_news() - does the doorbell record show WQEs that nobody has seen?
 * @qp: the queue pair
 *
 * Context: any; a hint, since it takes no lock.
 */
bool hca_sq_has_news(struct hca_qp *qp)
{
	u8 state = READ_ONCE(qp->state);

	return qp->has_sq && (state == MLX5_QP_STATE_RTS || state == MLX5_QP_STATE_ERR) &&
	       !READ_ONCE(qp->req.active) && hca_sq_pending(qp);
}

/* Where in the queue memory a basic block is. */
static u64 hca_sq_offset(const struct hca_qp *qp, u16 block)
{
	return qp->sq_offset + (u64)(block & ((1U << qp->log_sq_size) - 1)) * HCA_WQEBB;
}

static void hca_sq_read(struct hca_qp *qp, u16 block, void *to, size_t len)
{
	u64 offset = hca_sq_offset(qp, block);
	size_t n = min(len, hca_sq_offset(qp, -1) + HCA_WQEBB - offset);

	hca_buf_read(&qp->buf, offset, to, n);
	/* The rest is at the beginning of the ring. */
	if (n < len)
		hca_buf_read(&qp->buf, qp->sq_offset, (u8 *)to + n, len - n);
}

static void hca_sq_cqe(struct hca_qp *qp, struct mlx5_cqe64 *cqe, u8 opcode, u16 index)
{
	cqe->srqn = cpu_to_be32(qp->user_index);
	cqe->sop_drop_qpn = cpu_to_be32((u32)opcode << 24 | qp->qpn);
	cqe->wqe_counter = cpu_to_be16(index);
}

static void hca_sq_error_cqe(struct hca_qp *qp, u8 opcode, u16 index, u8 syndrome, u8 vendor)
{
	struct mlx5_cqe64 cqe = {};
	struct mlx5_err_cqe *err = (struct mlx5_err_cqe *)&cqe;

	hca_sq_cqe(qp, &cqe, opcode, index);
	err->syndrome = syndrome;
	err->vendor_err_synd = vendor;
	hca_cq_post(qp->scq, &cqe, MLX5_CQE_REQ_ERR, false);
}

static void hca_sq_advance(struct hca_qp *qp)
{
	WRITE_ONCE(qp->sq_ci, qp->sq_ci + qp->req.blocks);
	WRITE_ONCE(qp->req.active, false);
}

/* The WQE in qp->req has failed: its CQE, and the queue pair goes into error. */
static void hca_sq_fail(struct hca_qp *qp, const struct hca_result *result)
{
	struct hca_req *req = &qp->req;

	hca_qp_set_error(qp, result->syndrome, result->vendor, result->where, false);
	hca_sq_error_cqe(qp, req->opcode, req->index, result->syndrome, result->vendor);
	hca_sq_advance(qp);
}

static void hca_sq_complete(struct hca_qp *qp)
{
	struct hca_req *req = &qp->req;
	struct mlx5_cqe64 cqe = {};

	/* 2: CQE, 3: CQE and event; the event is the CQ's business */
	if (req->fm_ce_se & MLX5_WQE_CTRL_CQ_UPDATE) {
		hca_sq_cqe(qp, &cqe, req->opcode, req->index);
		if (req->opcode == MLX5_OPCODE_RDMA_READ)
			cqe.byte_cnt = cpu_to_be32(req->done);
		else if (req->opcode == MLX5_OPCODE_ATOMIC_CS ||
			 req->opcode == MLX5_OPCODE_ATOMIC_FA)
			cqe.byte_cnt = cpu_to_be32(sizeof(u64));
		hca_cq_post(qp->scq, &cqe, MLX5_CQE_REQ, false);
	}
	hca_sq_advance(qp);
}

/*
 * Parses the segments behind the control segment. Returns a vendor syndrome, 0 if
 * the WQE makes sense.
 */
static u8 hca_sq_parse(struct hca_qp *qp, size_t len)
{
	struct hca_req *req = &qp->req;
	const struct mlx5_wqe_atomic_seg *atomic;
	const struct mlx5_wqe_raddr_seg *raddr;
	size_t at = sizeof(struct mlx5_wqe_ctrl_seg);
	bool is_atomic = false, has_raddr = true;

	/* HM 8.6: such a queue is nobody's end of a connection. */
	if (qp->st == MLX5_QP_ST_REG_UMR && req->opcode != MLX5_OPCODE_NOP &&
	    req->opcode != MLX5_OPCODE_UMR)
		return HCA_VS_BAD_OPCODE;
	switch (req->opcode) {
	case MLX5_OPCODE_NOP:
		return HCA_VS_NONE;
	case MLX5_OPCODE_UMR:
		hca_count(qp->hca, HCA_CNT_WQE_UMR);
		return hca_umr_parse(req, len);
	case MLX5_OPCODE_SEND:
	case MLX5_OPCODE_SEND_IMM:
	case MLX5_OPCODE_SEND_INVAL:
		hca_count(qp->hca, HCA_CNT_WQE_SEND);
		has_raddr = false;
		break;
	case MLX5_OPCODE_RDMA_WRITE:
	case MLX5_OPCODE_RDMA_WRITE_IMM:
		hca_count(qp->hca, HCA_CNT_WQE_WRITE);
		break;
	case MLX5_OPCODE_RDMA_READ:
		hca_count(qp->hca, HCA_CNT_WQE_READ);
		break;
	case MLX5_OPCODE_ATOMIC_CS:
	case MLX5_OPCODE_ATOMIC_FA:
		hca_count(qp->hca, HCA_CNT_WQE_ATOMIC);
		is_atomic = true;
		break;
	default:
		return HCA_VS_BAD_OPCODE;
	}
	if (has_raddr) {
		if (len < at + sizeof(*raddr))
			return HCA_VS_BAD_WQE;
		raddr = (const void *)(req->wqe + at);
		req->raddr = be64_to_cpu(raddr->raddr);
		req->rkey = be32_to_cpu(raddr->rkey);
		at += sizeof(*raddr);
	}
	if (is_atomic) {
		if (len < at + sizeof(*atomic))
			return HCA_VS_BAD_WQE;
		atomic = (const void *)(req->wqe + at);
		req->swap_add = be64_to_cpu(atomic->swap_add);
		req->compare = be64_to_cpu(atomic->compare);
		at += sizeof(*atomic);
	}
	if (!hca_parse_data(req->wqe + at, len - at, &req->data, false))
		return HCA_VS_BAD_WQE;
	/* A result can't be scattered into the WQE, and an atomic's is 8 bytes. */
	if (req->opcode == MLX5_OPCODE_RDMA_READ || is_atomic) {
		if (req->data.has_inline)
			return HCA_VS_BAD_WQE;
		if (is_atomic && req->data.total < sizeof(u64))
			return HCA_VS_BAD_WQE;
		if (is_atomic)
			req->data.total = sizeof(u64);
	}
	return HCA_VS_NONE;
}

/* Fetches the next WQE into qp->req. False: there is none, or it failed. */
static bool hca_sq_fetch(struct hca_qp *qp)
{
	struct hca_result bad = { .syndrome = MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR };
	struct hca_req *req = &qp->req;
	const struct mlx5_wqe_ctrl_seg *ctrl = (const void *)req->wqe;
	u16 pending;
	u32 word, ds;

	WRITE_ONCE(qp->sq_rung, false);
	/* The flag goes down before the record is read: a later ring raises it again. */
	smp_mb();
	pending = hca_sq_pending(qp);
	if (!pending)
		return false;
	if (pending > 1U << qp->log_sq_size) {
		/* No WQE is to blame, so no CQE: the program has ruined its record. */
		hca_qp_set_error(qp, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR, HCA_VS_RECORD, NULL, false);
		hca_event_qp(qp->hca, MLX5_EVENT_TYPE_WQ_CATAS_ERROR, qp->qpn);
		return false;
	}
	hca_buf_read(&qp->buf, hca_sq_offset(qp, qp->sq_ci), req->wqe, HCA_WQEBB);
	word = be32_to_cpu(ctrl->opmod_idx_opcode);
	ds = be32_to_cpu(ctrl->qpn_ds) & MLX5_WQE_CTRL_DS_MASK;
	req->opcode = word;
	req->index = qp->sq_ci;
	req->blocks = max(1U, DIV_ROUND_UP(ds, HCA_SEGS_PER_WQEBB));
	req->fm_ce_se = ctrl->fm_ce_se;
	req->imm = ctrl->imm;
	req->done = 0;
	req->not_before = 0;
	req->rnr_left = qp->rnr_retry;
	req->retry_left = qp->retry_count;
	req->data.nr = 0;
	req->data.total = 0;
	req->raddr = 0;
	req->rkey = 0;
	WRITE_ONCE(req->active, true);

	bad.vendor = HCA_VS_BAD_WQE;
	if (!ds || req->blocks > pending || (u16)(word >> 8) != qp->sq_ci) {
		req->blocks = min(req->blocks, pending);
		goto fail;
	}
	if (ds > HCA_SEGS_PER_WQEBB)
		hca_sq_read(qp, qp->sq_ci + 1, req->wqe + HCA_WQEBB,
			    ds * MLX5_SEND_WQE_DS - HCA_WQEBB);
	bad.vendor = hca_sq_parse(qp, ds * MLX5_SEND_WQE_DS);
	if (bad.vendor)
		goto fail;
	trace_hca_wqe(qp->qpn, req->index, req->opcode, req->data.total, req->rkey, req->raddr);
	return true;

fail:
	hca_sq_fail(qp, &bad);
	return false;
}

/* IBTA's RNR NAK timer codes, in ns: 10 us times 1, 2, 3, 4, 6, 8, 12, 16 ... */
static u64 hca_rnr_ns(u8 code)
{
	u64 tens;

	if (!code)
		tens = 65536;
	else if (code == 1)
		tens = 1;
	else if (code & 1)
		tens = 3ULL << (code - 3) / 2;
	else
		tens = 1ULL << code / 2;
	return tens * 10 * NSEC_PER_USEC;
}

/* Puts the request off. */
static void hca_sq_wait(struct hca_qp *qp, u64 ns)
{
	qp->req.not_before = ktime_get_ns() + ns;
	if (!qp->dead)
		hrtimer_start(&qp->sq_timer, ns_to_ktime(ns), HRTIMER_MODE_REL);
}

enum hrtimer_restart hca_sq_timer(struct hrtimer *timer)
{
	struct hca_qp *qp = container_of(timer, struct hca_qp, sq_timer);

	queue_work(qp->hca->wq, &qp->sq_work);
	return HRTIMER_NORESTART;
}

/* The receiver was not ready. False: too often. */
static bool hca_sq_rnr(struct hca_qp *qp, struct hca_result *result)
{
	struct hca_req *req = &qp->req;

	hca_count(qp->hca, HCA_CNT_RNR);
	req->retry_left = qp->retry_count;
	if (!req->rnr_left) {
		result->syndrome = MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR;
		result->vendor = HCA_VS_RNR_EXC;
		result->where = NULL;
		return false;
	}
	if (req->rnr_left != 7)
		req->rnr_left--;
	WRITE_ONCE(qp->sq_resumed, false);
	hca_sq_wait(qp, hca_rnr_ns(result->rnr_timer));
	return true;
}

/* Nobody answered. False: too often. The first silence still has to be waited for. */
static bool hca_sq_no_answer(struct hca_qp *qp, struct hca_result *result)
{
	struct hca_req *req = &qp->req;

	if (!qp->ack_timeout) {
		hca_sq_wait(qp, HCA_FOREVER_POLL_NS);
		return true;
	}
	if (req->not_before) {
		hca_count(qp->hca, HCA_CNT_RETRY);
		if (!req->retry_left) {
			result->syndrome = MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR;
			result->vendor = HCA_VS_RETRY_EXC;
			result->where = NULL;
			return false;
		}
		req->retry_left--;
	}
	WRITE_ONCE(qp->sq_resumed, false);
	hca_sq_wait(qp, 4096ULL << qp->ack_timeout);
	return true;
}

/*
 * Executes WQEs with sq_lock held. Returns true if it stopped before the queue was
 * empty and somebody has to go on.
 */
static bool hca_sq_run(struct hca_qp *qp, u64 max_bytes, unsigned int max_wqes)
{
	struct hca_req *req = &qp->req;
	struct hca_result result;
	u64 bytes = 0, before;

	for (;;) {
		if (qp->state != MLX5_QP_STATE_RTS) {
			if (qp->state == MLX5_QP_STATE_ERR)
				hca_sq_flush(qp);
			return false;
		}
		if (!req->active && !hca_sq_fetch(qp)) {
			if (qp->state == MLX5_QP_STATE_ERR)
				continue;
			return false;
		}
		/* The answer to the fault brings us back and looks at the record then ... */
		if (qp->sq_fault.open) {
			WRITE_ONCE(qp->sq_rung, false);
			return false;
		}
		/* ... or the timer does, or the answer to the peer's. */
		if (req->not_before && ktime_get_ns() < req->not_before &&
		    !xchg(&qp->sq_resumed, false)) {
			WRITE_ONCE(qp->sq_rung, false);
			return false;
		}

		before = req->done;
		memset(&result, 0, sizeof(result));
		switch (hca_request(qp, &result)) {
		case HCA_ANSWER_MORE:
			req->not_before = 0;
			break;
		case HCA_ANSWER_AGAIN:
			break;
		case HCA_ANSWER_FAULT:
			if (result.wait_ns)
				hca_sq_wait(qp, result.wait_ns);
			break;
		case HCA_ANSWER_DONE:
			hca_sq_complete(qp);
			if (!--max_wqes)
				return true;
			break;
		case HCA_ANSWER_RNR:
			if (hca_sq_rnr(qp, &result))
				return false;
			hca_sq_fail(qp, &result);
			break;
		case HCA_ANSWER_NONE:
			if (hca_sq_no_answer(qp, &result))
				return false;
			hca_sq_fail(qp, &result);
			break;
		case HCA_ANSWER_ERROR:
			hca_sq_fail(qp, &result);
			break;
		}
		bytes += req->done - before;
		if (atomic_read(&qp->sq_waiters) || bytes >= max_bytes ||
		    fatal_signal_pending(current))
			return true;
		cond_resched();
	}
}

/**
 * hca_sq_ring() - a send queue may have news
 * @qp: the queue pair
 * @may_run: the caller may execute it: process context, no lock held
 *
 * Context: process if @may_run, else any.
 */
void hca_sq_ring(struct hca_qp *qp, bool may_run)
{
	bool more;

	WRITE_ONCE(qp->sq_rung, true);
	if (!may_run) {
		queue_work(qp->hca->wq, &qp->sq_work);
		return;
	}
	/* The flag must be visible to a holder whose lock we then find taken. */
	smp_mb();
	do {
		if (!mutex_trylock(&qp->sq_lock))
			return;
		more = hca_sq_run(qp, HCA_TURN_BYTES, HCA_TURN_WQES);
		mutex_unlock(&qp->sq_lock);
		if (more) {
			hca_count(qp->hca, HCA_CNT_HANDED_OVER);
			queue_work(qp->hca->wq, &qp->sq_work);
			return;
		}
		/* The lock is free before the flag is read; pairs with the barrier above. */
		smp_mb();
	} while (READ_ONCE(qp->sq_rung) && READ_ONCE(qp->state) >= MLX5_QP_STATE_RTS);
}

/**
 * hca_sq_work() - execute what no doorbell thread does
 * @work: qp->sq_work
 */
void hca_sq_work(struct work_struct *work)
{
	struct hca_qp *qp = container_of(work, struct hca_qp, sq_work);
	bool more;

	mutex_lock(&qp->sq_lock);
	/* Nobody keeps a worker for himself, however fast he posts. */
	more = hca_sq_run(qp, HCA_TURN_BYTES, HCA_TURN_WQES);
	mutex_unlock(&qp->sq_lock);
	/* As in hca_sq_ring(): who found the lock taken has raised the flag before. */
	smp_mb();
	if (!qp->dead && (more || (READ_ONCE(qp->sq_rung) &&
				   READ_ONCE(qp->state) >= MLX5_QP_STATE_RTS)))
		queue_work(qp->hca->wq, &qp->sq_work);
}

/**
 * hca_sq_lock() - stop a send queue between two chunks
 * @qp: the queue pair
 *
 * Context: process, may sleep, for a chunk's copy at most.
 */
void hca_sq_lock(struct hca_qp *qp)
{
	atomic_inc(&qp->sq_waiters);
	mutex_lock(&qp->sq_lock);
	atomic_dec(&qp->sq_waiters);
}

/**
 * hca_sq_unlock() - let it go on
 * @qp: the queue pair
 */
void hca_sq_unlock(struct hca_qp *qp)
{
	bool more = qp->req.active;

	mutex_unlock(&qp->sq_lock);
	/* As in hca_sq_ring(): who found the lock taken has raised the flag before. */
	smp_mb();
	if (!qp->dead && (more || READ_ONCE(qp->sq_rung)))
		queue_work(qp->hca->wq, &qp->sq_work);
}

/**
 * hca_sq_reset() - forget everything
 * @qp: the queue pair, both locks held
 */
void hca_sq_reset(struct hca_qp *qp)
{
	hca_fault_drop(&qp->sq_fault);
	qp->sq_ci = 0;
	qp->sq_rung = false;
	qp->req.active = false;
}

/**
 * hca_sq_flush() - complete all posted WQEs with the flush error
 * @qp: the queue pair, in error, sq_lock held
 */
void hca_sq_flush(struct hca_qp *qp)
{
	struct mlx5_wqe_ctrl_seg ctrl;
	u16 pending;
	u32 ds;

	if (!qp->has_sq)
		return;
	hca_fault_drop(&qp->sq_fault);
	WRITE_ONCE(qp->sq_rung, false);
	/* As in hca_sq_fetch(). */
	smp_mb();
	if (qp->req.active) {
		hca_count(qp->hca, HCA_CNT_WQE_FLUSHED);
		hca_sq_error_cqe(qp, qp->req.opcode, qp->req.index,
				 MLX5_CQE_SYNDROME_WR_FLUSH_ERR, HCA_VS_FLUSHED);
		hca_sq_advance(qp);
	}
	for (;;) {
		pending = hca_sq_pending(qp);
		if (!pending || pending > 1U << qp->log_sq_size)
			return;
		hca_buf_read(&qp->buf, hca_sq_offset(qp, qp->sq_ci), &ctrl, sizeof(ctrl));
		ds = be32_to_cpu(ctrl.qpn_ds) & MLX5_WQE_CTRL_DS_MASK;
		hca_count(qp->hca, HCA_CNT_WQE_FLUSHED);
		hca_sq_error_cqe(qp, be32_to_cpu(ctrl.opmod_idx_opcode), qp->sq_ci,
				 MLX5_CQE_SYNDROME_WR_FLUSH_ERR, HCA_VS_FLUSHED);
		WRITE_ONCE(qp->sq_ci, qp->sq_ci +
			   min_t(u32, pending, max(1U, DIV_ROUND_UP(ds, HCA_SEGS_PER_WQEBB))));
	}
}
