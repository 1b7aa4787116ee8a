// SPDX-License-Identifier: GPL-2.0
/*
 * The receive queue: taking receive WQEs for incoming messages, completing and
 * flushing them; and the list of data segments that both kinds of WQE end with.
 *
 * Invariants:
 *  - Everything here runs under rq_lock. Posting a receive rings nothing, so the
 *    record is read whenever a message needs a WQE (libmlx5-abi 6.9).
 *  - Receives complete in the order in which they were posted.
 */
#include <linux/errno.h>
#include <linux/minmax.h>
#include <linux/string.h>

#include "engine.h"

/**
 * hca_parse_data() - read the data segments of a WQE
 * @wqe: private copy of the bytes behind the other segments
 * @len: how many
 * @list: filled in
 * @receive: from a receive queue: the terminator ends the list, nothing is inline
 *
 * A byte_count of 0 stands for 2^31 bytes (HM 4.1).
 *
 * Return: false if a segment does not fit the WQE.
 */
bool hca_parse_data(const u8 *wqe, size_t len, struct hca_sge_list *list, bool receive)
{
	list->nr = 0;
	list->total = 0;
	list->has_inline = false;
	while (len >= sizeof(struct mlx5_wqe_data_seg) && list->nr < HCA_MAX_SGE) {
		const struct mlx5_wqe_data_seg *seg = (const void *)wqe;
		struct hca_sge *sge = &list->sge[list->nr];
		u32 count = be32_to_cpu(seg->byte_count);
		size_t size = sizeof(*seg);

		sge->key = be32_to_cpu(seg->lkey);
		sge->addr = be64_to_cpu(seg->addr);
		sge->inl = NULL;
		if (receive && !count && !sge->addr && sge->key == HCA_KEY_TERMINATE)
			return true;
		if (!receive && count & MLX5_INLINE_SEG) {
			count &= ~MLX5_INLINE_SEG;
			size = round_up(sizeof(struct mlx5_wqe_inline_seg) + count, 16);
			if (size > len)
				return false;
			sge->inl = wqe + sizeof(struct mlx5_wqe_inline_seg);
			list->has_inline = true;
		} else if (!count) {
			count = HCA_MAX_MSG;
		}
		sge->len = count;
		list->total += count;
		list->nr++;
		wqe += size;
		len -= size;
	}
	return true;
}

/**
 * hca_recv_take() - have a receive WQE for the message that comes in
 * @qp: the responder, rq_lock held
 *
 * Context: process; does not sleep.
 * Return: 1, 0 if none is posted, or -ERANGE if the record is ahead of the ring.
 */
int hca_recv_take(struct hca_qp *qp)
{
	struct hca_recv *recv = &qp->recv;
	u16 pi, pending;
	size_t len;

	if (recv->active)
		return 1;
	if (!qp->has_rq)
		return 0;
	/* Pairs with the program's barrier between WQE and record. */
	pi = be32_to_cpu(smp_load_acquire(&qp->dbr.record[0]));
	pending = pi - qp->rq_ci;
	if (!pending)
		return 0;
	if (pending > 1U << qp->log_rq_size)
		return -ERANGE;
	len = 1U << qp->rq_shift;
	hca_buf_read(&qp->buf, (u64)(qp->rq_ci & ((1U << qp->log_rq_size) - 1)) << qp->rq_shift,
		     recv->wqe, len);
	hca_parse_data(recv->wqe, len, &recv->data, true);
	recv->index = qp->rq_ci++;
	recv->active = true;
	hca_count(qp->hca, HCA_CNT_WQE_RECV);
	return 1;
}

static void hca_recv_cqe(struct hca_qp *qp, struct mlx5_cqe64 *cqe, u8 opcode, bool solicited)
{
	cqe->srqn = cpu_to_be32(qp->user_index);
	cqe->sop_drop_qpn = cpu_to_be32(qp->qpn);
	cqe->wqe_counter = cpu_to_be16(qp->recv.index);
	qp->recv.active = false;
	hca_cq_post(qp->rcq, cqe, opcode, solicited);
}

/**
 * hca_recv_complete() - the message has arrived
 * @qp: the responder, rq_lock held, a receive WQE taken
 * @cqe: flags_rqpn, imm and byte_cnt filled in
 * @opcode: MLX5_CQE_RESP_*
 * @solicited: the sender asked for an event
 */
void hca_recv_complete(struct hca_qp *qp, struct mlx5_cqe64 *cqe, u8 opcode, bool solicited)
{
	hca_recv_cqe(qp, cqe, opcode, solicited);
}

/**
 * hca_recv_error() - the receive WQE taken has failed
 * @qp: the responder, rq_lock held
 * @syndrome: MLX5_CQE_SYNDROME_*
 * @vendor: vendor syndrome
 */
void hca_recv_error(struct hca_qp *qp, u8 syndrome, u8 vendor)
{
	struct mlx5_cqe64 cqe = {};
	struct mlx5_err_cqe *err = (struct mlx5_err_cqe *)&cqe;

	err->syndrome = syndrome;
	err->vendor_err_synd = vendor;
	hca_recv_cqe(qp, &cqe, MLX5_CQE_RESP_ERR, false);
}

/**
 * hca_rq_reset() - forget everything
 * @qp: the queue pair, both locks held
 */
void hca_rq_reset(struct hca_qp *qp)
{
	hca_fault_drop(&qp->rq_fault);
	qp->rq_ci = 0;
	qp->recv.active = false;
}

/**
 * hca_rq_flush() - complete all posted receives with the flush error
 * @qp: the queue pair, in error, rq_lock held
 */
void hca_rq_flush(struct hca_qp *qp)
{
	hca_fault_drop(&qp->rq_fault);
	while (hca_recv_take(qp) > 0) {
		hca_count(qp->hca, HCA_CNT_WQE_FLUSHED);
		hca_recv_error(qp, MLX5_CQE_SYNDROME_WR_FLUSH_ERR, HCA_VS_FLUSHED);
	}
}
