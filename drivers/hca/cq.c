// SPDX-License-Identifier: GPL-2.0
/*
 * Completion queues: writing CQEs, arming, resizing (libmlx5-abi 5).
 *
 * Invariants:
 *  - A CQE becomes visible by its last byte, which is written last and carries the
 *    owner bit of its lap.
 *  - Writing never waits for the consumer. A ring without room is an overrun: the
 *    CQ fails, nothing is written to it any more, an event tells, and the queue
 *    pairs that report to it go into error (HM 11.4 R5).
 *  - A CQ that is armed has an arm word from its doorbell record in force. The word
 *    is looked at when the doorbell rings, never at a CQE: the record's initial
 *    zeros are not an arm.
 *  - At most one event is raised per arm sequence number.
 */
#include <linux/err.h>
#include <linux/errno.h>
#include <linux/log2.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "engine.h"
#include "trace.h"

#define HCA_CQ_COUNTER_MASK	0xffffff

/* Where the 64 bytes of the CQE for index @n are; the upper half of a 128-byte one. */
static struct mlx5_cqe64 *hca_cqe_at(struct hca_cq *cq, u32 n)
{
	u64 offset = (u64)(n & ((1U << cq->log_size) - 1)) << cq->cqe_shift;

	return hca_buf_ptr(&cq->buf, offset + (1U << cq->cqe_shift) - sizeof(struct mlx5_cqe64));
}

static u32 hca_cq_used(struct hca_cq *cq)
{
	u32 ci = be32_to_cpu(READ_ONCE(cq->dbr.record[0]));

	return (cq->pi - ci) & HCA_CQ_COUNTER_MASK;
}

static void hca_cqe_write(struct hca_cq *cq, const struct mlx5_cqe64 *cqe, u8 opcode,
			  bool solicited)
{
	struct mlx5_cqe64 *to = hca_cqe_at(cq, cq->pi);

	memcpy(to, cqe, offsetof(struct mlx5_cqe64, op_own));
	/* Pairs with the consumer's barrier between the owner bit and the rest. */
	smp_store_release(&to->op_own, (u8)(opcode << 4 | solicited << 1 |
					    (cq->pi >> cq->log_size & 1)));
	cq->pi++;
}

/* Under cq->lock; the caller kicks the EQ when it has let go of it. */
static void hca_cq_tell(struct hca_cq *cq)
{
	struct mlx5_eqe_comp data = { .cqn = cpu_to_be32(cq->cqn) };

	cq->untold = !hca_eq_write(cq->eq, MLX5_EVENT_TYPE_COMP, 0, &data, sizeof(data));
}

/* Is the arm in force satisfied? Then it is used up, and told. Under cq->lock. */
static bool hca_cq_fire(struct hca_cq *cq)
{
	if (!cq->armed)
		return false;
	if (cq->arm_solicited) {
		/* A solicited CQE at an index from the arm's on, modulo 2^24. */
		if (!cq->any_solicited ||
		    ((cq->last_solicited - 1 - cq->arm_ci) & HCA_CQ_COUNTER_MASK) >=
		    HCA_CQ_COUNTER_MASK / 2)
			return false;
	} else if ((cq->pi & HCA_CQ_COUNTER_MASK) == cq->arm_ci) {
		return false;
	}
	cq->armed = false;
	cq->fired++;
	hca_cq_tell(cq);
	return true;
}

/**
 * hca_cqs_retell() - an EQ has room for the events that it had none for
 * @eq: the EQ
 *
 * Context: process.
 */
void hca_cqs_retell(struct hca_eq *eq)
{
	struct hca *hca = eq->hca;
	unsigned long index;
	struct hca_cq *cq;

	xa_for_each(&hca->cqs, index, cq) {
		cq = hca_cq_get(hca, index);
		if (!cq)
			continue;
		spin_lock_irq(&cq->lock);
		if (cq->eq == eq && cq->untold)
			hca_cq_tell(cq);
		spin_unlock_irq(&cq->lock);
		hca_ref_put(&cq->ref);
	}
}

/**
 * hca_cq_post() - write a completion
 * @cq: the completion queue
 * @cqe: all but op_own filled in
 * @opcode: MLX5_CQE_*
 * @solicited: the message asked for a solicited event
 *
 * Context: process, qp->sq_lock or rq_lock held; does not sleep.
 */
void hca_cq_post(struct hca_cq *cq, const struct mlx5_cqe64 *cqe, u8 opcode, bool solicited)
{
	bool error = opcode == MLX5_CQE_REQ_ERR || opcode == MLX5_CQE_RESP_ERR;
	bool fire = false, written = false, overrun = false;
	unsigned long flags;

	spin_lock_irqsave(&cq->lock, flags);
	if (cq->failed)
		goto unlock;
	if (!cq->ignore_overrun && hca_cq_used(cq) >= 1U << cq->log_size) {
		cq->failed = true;
		overrun = true;
		goto unlock;
	}
	trace_hca_cqe(cq->cqn, be32_to_cpu(cqe->sop_drop_qpn) & 0xffffff, opcode, cq->pi);
	hca_cqe_write(cq, cqe, opcode, solicited);
	written = true;
	if (solicited || error) {
		cq->last_solicited = cq->pi;
		cq->any_solicited = true;
	}
	fire = hca_cq_fire(cq);
unlock:
	spin_unlock_irqrestore(&cq->lock, flags);
	if (overrun) {
		hca_count(cq->hca, HCA_CNT_CQ_OVERRUN);
		queue_work(cq->hca->wq, &cq->overrun);
	}
	if (written)
		hca_count(cq->hca, HCA_CNT_CQE);
	if (fire)
		hca_eq_kick(cq->eq);
}

static void hca_cq_overrun(struct work_struct *work)
{
	struct hca_cq *cq = container_of(work, struct hca_cq, overrun);
	struct mlx5_eqe_cq_err data = { .cqn = cpu_to_be32(cq->cqn), .syndrome = 1 };

	hca_event(cq->hca, MLX5_EVENT_TYPE_CQ_ERROR, 0, &data, sizeof(data));
	hca_qps_fail_cq(cq->hca, cq);
}

/**
 * hca_cq_look_at_arm() - act upon the arm word in the doorbell record
 * @cq: the completion queue
 * @rung: its doorbell rang; otherwise only a word that has changed counts
 * @may_call: the caller is in process context and holds no lock: an interrupt may be
 *	raised from here
 *
 * Context: any.
 * Return: true if the word was news.
 */
bool hca_cq_look_at_arm(struct hca_cq *cq, bool rung, bool may_call)
{
	unsigned long flags;
	bool news, fire = false;
	u32 word;

	spin_lock_irqsave(&cq->lock, flags);
	word = be32_to_cpu(READ_ONCE(cq->dbr.record[1]));
	news = rung || word != cq->arm_seen;
	cq->arm_seen = word;
	/* Sequence numbers start at 0 and advance with each event; others are stale. */
	if (news && (word >> 28 & 3) == (cq->fired & 3)) {
		cq->armed = true;
		cq->arm_solicited = word >> 24 & 1;
		cq->arm_ci = word & HCA_CQ_COUNTER_MASK;
		fire = hca_cq_fire(cq);
	}
	spin_unlock_irqrestore(&cq->lock, flags);
	if (fire && may_call)
		hca_eq_kick(cq->eq);
	else if (fire)
		hca_eq_kick_later(cq->eq);
	return news;
}

/**
 * hca_cq_use() - a queue pair begins to report to a CQ
 * @hca: the HCA
 * @cqn: its number
 * @uid: user context of the queue pair, 0 for the kernel
 *
 * Context: any.
 * Return: the CQ, which stays until hca_cq_unuse(), or NULL; the CQs of others do
 * not exist for a user context.
 */
struct hca_cq *hca_cq_use(struct hca *hca, u32 cqn, u16 uid)
{
	struct hca_cq *cq;

	rcu_read_lock();
	cq = xa_load(&hca->cqs, cqn);
	if (cq && uid && cq->uid != uid)
		cq = NULL;
	if (cq && !atomic_inc_unless_negative(&cq->users))
		cq = NULL;
	rcu_read_unlock();
	return cq;
}

/**
 * hca_cq_unuse() - a queue pair reports to a CQ no longer
 * @cq: the CQ
 */
void hca_cq_unuse(struct hca_cq *cq)
{
	atomic_dec(&cq->users);
}

/* Where the ring is, CREATE_CQ and MODIFY_CQ say alike. */
#define HCA_CQ_SAME(field)							\
	static_assert(__mlx5_bit_off(create_cq_in, field) == __mlx5_bit_off(modify_cq_in, field))
HCA_CQ_SAME(uid);
HCA_CQ_SAME(cq_context);
HCA_CQ_SAME(cq_umem_valid);
HCA_CQ_SAME(pas);

static hca_cmd_status hca_cq_ring_init(struct hca *hca, struct hca_buf *buf, const void *in,
				       size_t inlen)
{
	const void *cqc = MLX5_ADDR_OF(create_cq_in, in, cq_context);
	const __be64 *pas = MLX5_ADDR_OF(create_cq_in, in, pas);
	u8 log_size = MLX5_GET(cqc, cqc, log_cq_size);
	u8 cqe_sz = MLX5_GET(cqc, cqc, cqe_sz);

	if (log_size > HCA_LOG_MAX_CQ_SZ || cqe_sz > 1)
		return HCA_REFUSE(BAD_PARAM_ERR, 2);
	if (MLX5_GET(create_cq_in, in, cq_umem_valid))
		return hca_umem_buf(hca, buf, MLX5_GET(cq_in_umem, in, cq_umem_id),
				    MLX5_GET(create_cq_in, in, uid),
				    MLX5_GET64(cq_in_umem, in, cq_umem_offset),
				    64ULL << (log_size + cqe_sz), 64, true);
	return hca_buf_init(hca, buf, pas,
			    (inlen - MLX5_ST_SZ_BYTES(create_cq_in)) / sizeof(*pas),
			    MLX5_GET(cqc, cqc, log_page_size) + HCA_PAGE_SHIFT,
			    MLX5_GET(cqc, cqc, page_offset), 64ULL << (log_size + cqe_sz));
}

hca_cmd_status hca_cmd_create_cq(struct hca *hca, const void *in, size_t inlen,
				 void *out, size_t outlen)
{
	const void *cqc = MLX5_ADDR_OF(create_cq_in, in, cq_context);
	u32 uar = MLX5_GET(cqc, cqc, uar_page);
	hca_cmd_status status;
	struct hca_cq *cq;

	cq = kzalloc_obj(*cq, GFP_KERNEL_ACCOUNT);
	if (!cq)
		return HCA_REFUSE(LIM_ERR, 3);
	cq->hca = hca;
	cq->uar = uar;
	cq->log_size = MLX5_GET(cqc, cqc, log_cq_size);
	cq->cqe_shift = 6 + MLX5_GET(cqc, cqc, cqe_sz);
	cq->ignore_overrun = MLX5_GET(cqc, cqc, oi);
	spin_lock_init(&cq->lock);
	hca_ref_init(&cq->ref);
	INIT_WORK(&cq->overrun, hca_cq_overrun);

	cq->uid = MLX5_GET(create_cq_in, in, uid);

	status = hca_cq_ring_init(hca, &cq->buf, in, inlen);
	if (status)
		goto free_cq;
	status = hca_dbr_init(hca, &cq->dbr, MLX5_GET(cqc, cqc, dbr_umem_valid),
			      MLX5_GET(cqc_umem, cqc, dbr_umem_id), cq->uid,
			      MLX5_GET64(cqc, cqc, dbr_addr));
	if (status)
		goto free_buf;
	cq->arm_seen = be32_to_cpu(READ_ONCE(cq->dbr.record[1]));
	if (!hca_uctx_use(hca, cq->uid, &cq->owner)) {
		status = HCA_REFUSE(BAD_RES_ERR, 9);
		goto free_dbr;
	}
	cq->uar_number = hca_number_get(&hca->uars, uar, cq->uid);
	if (!cq->uar_number) {
		status = HCA_REFUSE(BAD_RES_ERR, 5);
		goto unuse_uctx;
	}
	cq->eq = hca_eq_get(hca, MLX5_GET(cqc, cqc, c_eqn_or_apu_element));
	if (!cq->eq || !atomic_inc_unless_negative(&cq->eq->users)) {
		status = HCA_REFUSE(BAD_RES_ERR, 6);
		goto put_eq;
	}
	if (xa_alloc_cyclic(&hca->cqs, &cq->cqn, NULL, XA_LIMIT(1, (1 << HCA_LOG_MAX_CQ) - 1),
			    &hca->cq_next, GFP_KERNEL) < 0) {
		status = HCA_REFUSE(LIM_ERR, 7);
		goto unuse_eq;
	}
	cq->image = hca_ctx_get(hca, &hca->icm.cqc, cq->cqn);
	if (IS_ERR(cq->image)) {
		status = HCA_REFUSE(NO_RES_ERR, 8);
		goto erase_cqn;
	}
	memcpy(cq->image, cqc, MLX5_ST_SZ_BYTES(cqc));
	xa_store(&hca->cqs, cq->cqn, cq, GFP_KERNEL);
	hca_ref_put(&cq->eq->ref);
	MLX5_SET(create_cq_out, out, cqn, cq->cqn);
	return HCA_OK;

erase_cqn:
	xa_erase(&hca->cqs, cq->cqn);
unuse_eq:
	atomic_dec(&cq->eq->users);
put_eq:
	if (cq->eq)
		hca_ref_put(&cq->eq->ref);
	hca_number_put(cq->uar_number);
unuse_uctx:
	hca_uctx_unuse(cq->owner);
free_dbr:
	hca_buf_free(&cq->dbr.buf);
free_buf:
	hca_buf_free(&cq->buf);
free_cq:
	kfree(cq);
	return status;
}

/**
 * hca_cq_get() - find a completion queue and keep it
 * @hca: the HCA
 * @cqn: its number
 *
 * Context: any.
 * Return: the CQ, to be released by hca_ref_put() on its ref, or NULL.
 */
struct hca_cq *hca_cq_get(struct hca *hca, u32 cqn)
{
	struct hca_cq *cq;

	rcu_read_lock();
	cq = xa_load(&hca->cqs, cqn);
	if (cq && !hca_ref_get(&cq->ref))
		cq = NULL;
	rcu_read_unlock();
	return cq;
}

/* As hca_cq_get(), for a command under @uid: others' CQs do not exist for it. */
static struct hca_cq *hca_cq_get_owned(struct hca *hca, u32 cqn, u16 uid)
{
	struct hca_cq *cq = hca_cq_get(hca, cqn);

	if (!cq || !uid || cq->uid == uid)
		return cq;
	hca_ref_put(&cq->ref);
	return NULL;
}

hca_cmd_status hca_cmd_query_cq(struct hca *hca, const void *in, size_t inlen,
				void *out, size_t outlen)
{
	struct hca_cq *cq = hca_cq_get_owned(hca, MLX5_GET(query_cq_in, in, cqn),
					     MLX5_GET(general_obj_in_cmd_hdr, in, uid));
	void *cqc = MLX5_ADDR_OF(query_cq_out, out, cq_context);
	unsigned long flags;

	if (!cq)
		return HCA_REFUSE(BAD_RES_ERR, 1);
	spin_lock_irqsave(&cq->lock, flags);
	memcpy(cqc, cq->image, MLX5_ST_SZ_BYTES(cqc));
	/* PRM: 0x9 armed, 0x6 armed for solicited, 0xa fired; status 0xa overrun */
	MLX5_SET(cqc, cqc, st, !cq->armed ? 0xa : cq->arm_solicited ? 0x6 : 0x9);
	MLX5_SET(cqc, cqc, status, cq->failed ? 0x9 : 0);
	MLX5_SET(cqc, cqc, producer_counter, cq->pi);
	MLX5_SET(cqc, cqc, consumer_counter, be32_to_cpu(READ_ONCE(cq->dbr.record[0])));
	MLX5_SET(cqc, cqc, last_solicit_index, cq->last_solicited);
	spin_unlock_irqrestore(&cq->lock, flags);
	hca_ref_put(&cq->ref);
	return HCA_OK;
}

/* Leaves the RESIZE CQE in the old ring and goes on in the new one. */
static hca_cmd_status hca_cq_resize(struct hca_cq *cq, struct hca_buf *buf, const void *cqc)
{
	struct mlx5_cqe64 cqe = {};
	u8 log_size = MLX5_GET(cqc, cqc, log_cq_size);
	unsigned long flags;
	struct hca_buf old;
	u32 used;

	spin_lock_irqsave(&cq->lock, flags);
	used = hca_cq_used(cq);
	if (cq->failed || used + 1 > 1U << cq->log_size || used + 1 > 1U << log_size) {
		spin_unlock_irqrestore(&cq->lock, flags);
		return HCA_REFUSE(BAD_RES_STATE_ERR, 3);
	}
	hca_cqe_write(cq, &cqe, MLX5_CQE_RESIZE_CQ, false);
	old = cq->buf;
	cq->buf = *buf;
	*buf = old;
	cq->log_size = log_size;
	cq->cqe_shift = 6 + MLX5_GET(cqc, cqc, cqe_sz);
	MLX5_SET(cqc, cq->image, log_cq_size, log_size);
	MLX5_SET(cqc, cq->image, cqe_sz, MLX5_GET(cqc, cqc, cqe_sz));
	MLX5_SET(cqc, cq->image, log_page_size, MLX5_GET(cqc, cqc, log_page_size));
	MLX5_SET(cqc, cq->image, page_offset, MLX5_GET(cqc, cqc, page_offset));
	spin_unlock_irqrestore(&cq->lock, flags);
	return HCA_OK;
}

hca_cmd_status hca_cmd_modify_cq(struct hca *hca, const void *in, size_t inlen,
				 void *out, size_t outlen)
{
	const void *cqc = MLX5_ADDR_OF(modify_cq_in, in, cq_context);
	hca_cmd_status status;
	struct hca_buf buf;
	struct hca_cq *cq;

	/* MLX5_CQ_OPMOD_RESIZE; moderation is not offered */
	if (MLX5_GET(modify_cq_in, in, op_mod) != 1)
		return HCA_REFUSE(BAD_OP_ERR, 1);
	cq = hca_cq_get_owned(hca, MLX5_GET(modify_cq_in, in, cqn), MLX5_GET(modify_cq_in, in, uid));
	if (!cq)
		return HCA_REFUSE(BAD_RES_ERR, 1);
	status = hca_cq_ring_init(hca, &buf, in, inlen);
	if (status)
		goto put_cq;
	status = hca_cq_resize(cq, &buf, cqc);
	hca_buf_free(&buf);
put_cq:
	hca_ref_put(&cq->ref);
	return status;
}

/* @cq cannot be found any more, and no queue pair uses it. */
static void hca_cq_free(struct hca_cq *cq)
{
	struct hca *hca = cq->hca;

	hca_ref_drain(&cq->ref);
	cancel_work_sync(&cq->overrun);
	atomic_dec(&cq->eq->users);
	hca_number_put(cq->uar_number);
	hca_uctx_unuse(cq->owner);
	hca_ctx_put(hca, &hca->icm.cqc, cq->cqn);
	hca_buf_free(&cq->dbr.buf);
	hca_buf_free(&cq->buf);
	xa_erase(&hca->cqs, cq->cqn);
	kfree_rcu(cq, rcu);
}

hca_cmd_status hca_cmd_destroy_cq(struct hca *hca, const void *in, size_t inlen,
				  void *out, size_t outlen)
{
	u32 cqn = MLX5_GET(destroy_cq_in, in, cqn);
	struct hca_cq *cq = hca_cq_get_owned(hca, cqn, MLX5_GET(destroy_cq_in, in, uid));
	hca_cmd_status status = HCA_OK;

	if (!cq)
		return HCA_REFUSE(BAD_RES_ERR, 1);
	if (atomic_cmpxchg(&cq->users, 0, -1) != 0)
		status = HCA_REFUSE(RES_BUSY, 2);
	hca_ref_put(&cq->ref);
	if (status)
		return status;
	xa_cmpxchg(&hca->cqs, cqn, cq, XA_ZERO_ENTRY, GFP_KERNEL);
	hca_cq_free(cq);
	return HCA_OK;
}

/**
 * hca_cqs_destroy() - destroy what software left behind
 * @hca: the HCA; all queue pairs are gone
 */
void hca_cqs_destroy(struct hca *hca)
{
	struct hca_cq *cq;
	unsigned long cqn;

	xa_for_each(&hca->cqs, cqn, cq) {
		xa_cmpxchg(&hca->cqs, cqn, cq, XA_ZERO_ENTRY, GFP_KERNEL);
		hca_cq_free(cq);
	}
}
