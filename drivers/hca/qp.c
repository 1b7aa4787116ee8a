// SPDX-License-Identifier: GPL-2.0
/*
 * Queue pairs: creation, transitions, query, destruction.
 *
 * Invariants:
 *  - The QPC in ICM holds what CREATE_QP and the transitions were given; what the
 *    engine works with is decoded from it after each command, under both locks.
 *  - A transition takes the fields that it requires, and of the others only those
 *    that opt_param_mask names and the transition allows.
 *  - When 2RST or DESTROY_QP has succeeded, nothing is written to a CQ on behalf of
 *    the queue pair any more (libmlx5-abi 5.7).
 *  - In the error state receives can be posted without ringing anything, so a worker
 *    looks again, less and less often.
 */
#include <linux/err.h>
#include <linux/errno.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "engine.h"
#include "trace.h"

#define HCA_FLUSH_FIRST_MS	1
#define HCA_FLUSH_MAX_MS	256

#define HCA_RQ_REGULAR		0
#define HCA_RQ_NONE		3

/**
 * hca_qp_get() - find a queue pair and keep it
 * @hca: the HCA
 * @qpn: its number
 *
 * Context: any.
 * Return: the QP, to be released by hca_qp_put(), or NULL.
 */
struct hca_qp *hca_qp_get(struct hca *hca, u32 qpn)
{
	struct hca_qp *qp;

	rcu_read_lock();
	qp = xa_load(&hca->qps, qpn);
	if (qp && !hca_ref_get(&qp->ref))
		qp = NULL;
	rcu_read_unlock();
	return qp;
}

/* As hca_qp_get(), for a command under @uid: others' queue pairs do not exist for it. */
static struct hca_qp *hca_qp_get_owned(struct hca *hca, u32 qpn, u16 uid)
{
	struct hca_qp *qp = hca_qp_get(hca, qpn);

	if (!qp || !uid || qp->uid == uid)
		return qp;
	hca_qp_put(qp);
	return NULL;
}

static void hca_qp_flush_work(struct work_struct *work)
{
	struct hca_qp *qp = container_of(to_delayed_work(work), struct hca_qp, flush_work);
	bool again;

	mutex_lock(&qp->sq_lock);
	if (qp->state == MLX5_QP_STATE_ERR)
		hca_sq_flush(qp);
	hca_sq_unlock(qp);

	mutex_lock(&qp->rq_lock);
	again = qp->state == MLX5_QP_STATE_ERR && qp->has_rq && !qp->dead;
	if (qp->state == MLX5_QP_STATE_ERR)
		hca_rq_flush(qp);
	if (again) {
		queue_delayed_work(qp->hca->wq, &qp->flush_work,
				   msecs_to_jiffies(qp->flush_delay));
		qp->flush_delay = min(qp->flush_delay * 2, HCA_FLUSH_MAX_MS);
	}
	mutex_unlock(&qp->rq_lock);
}

static void hca_qp_enter_error(struct hca_qp *qp)
{
	trace_hca_qp_state(qp->qpn, qp->state, MLX5_QP_STATE_ERR);
	WRITE_ONCE(qp->state, MLX5_QP_STATE_ERR);
	qp->flush_delay = HCA_FLUSH_FIRST_MS;
	if (!qp->dead)
		mod_delayed_work(qp->hca->wq, &qp->flush_work, 0);
}

/**
 * hca_qp_set_error() - a queue pair goes into error
 * @qp: the QP, its sq_lock or rq_lock held
 * @syndrome: MLX5_CQE_SYNDROME_* of the failure
 * @vendor: vendor syndrome of the check
 * @where: the access that failed, or NULL
 * @responder: it failed as responder
 *
 * The first failure is kept in the debug record. Both queues are flushed by a
 * worker.
 *
 * Context: process; does not sleep.
 */
void hca_qp_set_error(struct hca_qp *qp, u8 syndrome, u8 vendor, const struct hca_sgl *where,
		      bool responder)
{
	if (qp->state == MLX5_QP_STATE_ERR)
		return;
	qp->error.syndrome = syndrome;
	qp->error.vendor = vendor;
	qp->error.responder = responder;
	qp->error.key = where ? where->key : 0;
	qp->error.va = where ? where->va : 0;
	hca_qp_enter_error(qp);
}

int hca_qp_error(struct hca *hca, u32 qpn, struct hca_qp_error *err)
{
	struct hca_qp *qp = hca_qp_get(hca, qpn);

	if (!qp)
		return -ENOENT;
	*err = qp->error;
	hca_qp_put(qp);
	return 0;
}

/**
 * hca_qps_fail_cq() - a CQ has overrun: its queue pairs go into error
 * @hca: the HCA
 * @cq: the CQ
 *
 * Context: process, may sleep.
 */
void hca_qps_fail_cq(struct hca *hca, struct hca_cq *cq)
{
	struct hca_qp *qp;
	unsigned long qpn;

	xa_for_each(&hca->qps, qpn, qp) {
		qp = hca_qp_get(hca, qpn);
		if (!qp)
			continue;
		if (qp->scq == cq || qp->rcq == cq) {
			hca_sq_lock(qp);
			mutex_lock(&qp->rq_lock);
			if (qp->state != MLX5_QP_STATE_RST) {
				hca_qp_set_error(qp, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR,
						 HCA_VS_NONE, NULL, false);
				hca_event_qp(hca, MLX5_EVENT_TYPE_WQ_CATAS_ERROR, qp->qpn);
			}
			mutex_unlock(&qp->rq_lock);
			hca_sq_unlock(qp);
		}
		hca_qp_put(qp);
	}
}

/* Takes the fields of the data path out of the QPC. Both locks held. */
static void hca_qp_decode(struct hca_qp *qp)
{
	const void *qpc = qp->image;
	const void *path = MLX5_ADDR_OF(qpc, qpc, primary_address_path);

	qp->remote_qpn = MLX5_GET(qpc, qpc, remote_qpn);
	memcpy(qp->rgid, MLX5_ADDR_OF(ads, path, rgid_rip), sizeof(qp->rgid));
	qp->rgid_seen = 0;
	qp->peer_seen = 0;
	qp->rre = MLX5_GET(qpc, qpc, rre);
	qp->rwe = MLX5_GET(qpc, qpc, rwe);
	qp->rae = MLX5_GET(qpc, qpc, rae);
	qp->log_msg_max = MLX5_GET(qpc, qpc, log_msg_max);
	qp->retry_count = MLX5_GET(qpc, qpc, retry_count);
	qp->rnr_retry = MLX5_GET(qpc, qpc, rnr_retry);
	qp->ack_timeout = MLX5_GET(ads, path, ack_timeout);
	qp->min_rnr_nak = MLX5_GET(qpc, qpc, min_rnr_nak);
}

/* The checks of CREATE_QP and the fields that never change afterwards. */
static hca_cmd_status hca_qp_init(struct hca_qp *qp, const void *in, size_t inlen)
{
	const void *qpc = MLX5_ADDR_OF(create_qp_in, in, qpc);
	const __be64 *pas = MLX5_ADDR_OF(create_qp_in, in, pas);
	u64 rq_size, sq_size;

	if (MLX5_GET(create_qp_in, in, input_qpn))
		return HCA_REFUSE(BAD_PARAM_ERR, 1);
	qp->uid = MLX5_GET(create_qp_in, in, uid);
	qp->st = MLX5_GET(qpc, qpc, st);
	qp->rlky = MLX5_GET(qpc, qpc, rlky);
	qp->fre = MLX5_GET(qpc, qpc, fre);
	if (qp->st != MLX5_QP_ST_RC && qp->st != MLX5_QP_ST_REG_UMR)
		return HCA_REFUSE(BAD_PARAM_ERR, 2);
	/* A queue that reaches memory without a key of its PD is the kernel's (HM 8.6). */
	if (qp->uid && (qp->st == MLX5_QP_ST_REG_UMR || qp->rlky || qp->fre))
		return HCA_REFUSE(BAD_PARAM_ERR, 2);
	if (MLX5_GET(qpc, qpc, wq_signature) || MLX5_GET(qpc, qpc, offload_type) ||
	    MLX5_GET(qpc_umem, qpc, send_dbr_mode))
		return HCA_REFUSE(BAD_PARAM_ERR, 3);
	qp->has_rq = MLX5_GET(qpc, qpc, rq_type) == HCA_RQ_REGULAR;
	if (!qp->has_rq && MLX5_GET(qpc, qpc, rq_type) != HCA_RQ_NONE)
		return HCA_REFUSE(BAD_PARAM_ERR, 4);
	qp->has_sq = !MLX5_GET(qpc, qpc, no_sq);
	qp->log_rq_size = MLX5_GET(qpc, qpc, log_rq_size);
	qp->rq_shift = MLX5_GET(qpc, qpc, log_rq_stride) + 4;
	qp->log_sq_size = MLX5_GET(qpc, qpc, log_sq_size);
	if (1U << qp->rq_shift > HCA_MAX_WQE_RQ)
		return HCA_REFUSE(BAD_PARAM_ERR, 5);
	rq_size = qp->has_rq ? 1ULL << (qp->log_rq_size + qp->rq_shift) : 0;
	sq_size = qp->has_sq ? (u64)MLX5_SEND_WQE_BB << qp->log_sq_size : 0;
	qp->sq_offset = rq_size;
	qp->pd = MLX5_GET(qpc, qpc, pd);
	qp->uar = MLX5_GET(qpc, qpc, uar_page);
	qp->user_index = MLX5_GET(qpc, qpc, user_index);
	if (MLX5_GET(create_qp_in, in, wq_umem_valid))
		return hca_umem_buf(qp->hca, &qp->buf, MLX5_GET(create_qp_in, in, wq_umem_id),
				    qp->uid, MLX5_GET64(create_qp_in, in, wq_umem_offset),
				    rq_size + sq_size, MLX5_SEND_WQE_BB, false);
	return hca_buf_init(qp->hca, &qp->buf, pas,
			    (inlen - MLX5_ST_SZ_BYTES(create_qp_in)) / sizeof(*pas),
			    MLX5_GET(qpc, qpc, log_page_size) + HCA_PAGE_SHIFT,
			    MLX5_GET(qpc, qpc, page_offset), rq_size + sq_size);
}

hca_cmd_status hca_cmd_create_qp(struct hca *hca, const void *in, size_t inlen,
				 void *out, size_t outlen)
{
	const void *qpc = MLX5_ADDR_OF(create_qp_in, in, qpc);
	hca_cmd_status status;
	struct hca_qp *qp;

	qp = kzalloc_obj(*qp, GFP_KERNEL_ACCOUNT);
	if (!qp)
		return HCA_REFUSE(LIM_ERR, 6);
	qp->hca = hca;
	mutex_init(&qp->sq_lock);
	mutex_init(&qp->rq_lock);
	INIT_WORK(&qp->sq_work, hca_sq_work);
	INIT_DELAYED_WORK(&qp->flush_work, hca_qp_flush_work);
	hrtimer_setup(&qp->sq_timer, hca_sq_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	hca_ref_init(&qp->ref);

	status = hca_qp_init(qp, in, inlen);
	if (status)
		goto free_qp;
	status = hca_dbr_init(hca, &qp->dbr, MLX5_GET(qpc, qpc, dbr_umem_valid),
			      MLX5_GET(qpc_umem, qpc, dbr_umem_id), qp->uid,
			      MLX5_GET64(qpc, qpc, dbr_addr));
	if (status)
		goto free_buf;
	status = HCA_REFUSE(BAD_RES_ERR, 8);
	if (!hca_uctx_use(hca, qp->uid, &qp->owner))
		goto free_dbr;
	if (qp->st != MLX5_QP_ST_REG_UMR) {
		qp->pd_number = hca_number_get(&hca->pds, qp->pd, qp->uid);
		if (!qp->pd_number)
			goto unuse_uctx;
	}
	qp->uar_number = hca_number_get(&hca->uars, qp->uar, qp->uid);
	if (!qp->uar_number)
		goto put_pd;
	qp->scq = hca_cq_use(hca, MLX5_GET(qpc, qpc, cqn_snd), qp->uid);
	if (!qp->scq)
		goto put_uar;
	qp->rcq = hca_cq_use(hca, MLX5_GET(qpc, qpc, cqn_rcv), qp->uid);
	if (!qp->rcq)
		goto unuse_scq;
	/* 0 and 1 are special on InfiniBand, and 2 and 3 cost nothing to avoid. */
	if (xa_alloc_cyclic(&hca->qps, &qp->qpn, NULL, XA_LIMIT(4, (1 << HCA_LOG_MAX_QP) - 1),
			    &hca->qp_next, GFP_KERNEL) < 0) {
		status = HCA_REFUSE(LIM_ERR, 9);
		goto unuse_rcq;
	}
	qp->image = hca_ctx_get(hca, &hca->icm.qpc, qp->qpn);
	if (IS_ERR(qp->image)) {
		status = HCA_REFUSE(NO_RES_ERR, 10);
		goto erase_qpn;
	}
	memcpy(qp->image, qpc, MLX5_ST_SZ_BYTES(qpc));
	hca_qp_decode(qp);
	xa_store(&hca->qps, qp->qpn, qp, GFP_KERNEL);
	atomic_inc_return(&hca->qp_changes);
	MLX5_SET(create_qp_out, out, qpn, qp->qpn);
	return HCA_OK;

erase_qpn:
	xa_erase(&hca->qps, qp->qpn);
unuse_rcq:
	hca_cq_unuse(qp->rcq);
unuse_scq:
	hca_cq_unuse(qp->scq);
put_uar:
	hca_number_put(qp->uar_number);
put_pd:
	if (qp->pd_number)
		hca_number_put(qp->pd_number);
unuse_uctx:
	hca_uctx_unuse(qp->owner);
free_dbr:
	hca_buf_free(&qp->dbr.buf);
free_buf:
	hca_buf_free(&qp->buf);
free_qp:
	mutex_destroy(&qp->rq_lock);
	mutex_destroy(&qp->sq_lock);
	kfree(qp);
	return status;
}

/* Fields that are not optional in some transition have a bit beyond opt_param_mask's. */
#define HCA_QP_ACCESS	(MLX5_QP_OPTPAR_RRE | MLX5_QP_OPTPAR_RWE | MLX5_QP_OPTPAR_RAE)
#define HCA_QP_MTU	BIT_ULL(32)
#define HCA_QP_REMOTE	BIT_ULL(33)
#define HCA_QP_RCV_PSN	BIT_ULL(34)
#define HCA_QP_SEND_PSN	BIT_ULL(35)

struct hca_transition {
	u16 opcode;
	u8 from;	/* bitmap of states */
	u8 to;
	u64 required;
	u64 optional;
};

static const struct hca_transition hca_transitions[] = {
	{ MLX5_CMD_OP_RST2INIT_QP, BIT(MLX5_QP_STATE_RST), MLX5_QP_STATE_INIT,
	  MLX5_QP_OPTPAR_PKEY_INDEX | MLX5_QP_OPTPAR_PRI_PORT | MLX5_QP_OPTPAR_Q_KEY |
	  HCA_QP_ACCESS, 0 },
	{ MLX5_CMD_OP_INIT2INIT_QP, BIT(MLX5_QP_STATE_INIT), MLX5_QP_STATE_INIT,
	  0,
	  MLX5_QP_OPTPAR_PKEY_INDEX | MLX5_QP_OPTPAR_PRI_PORT | MLX5_QP_OPTPAR_Q_KEY |
	  HCA_QP_ACCESS },
	{ MLX5_CMD_OP_INIT2RTR_QP, BIT(MLX5_QP_STATE_INIT), MLX5_QP_STATE_RTR,
	  MLX5_QP_OPTPAR_PRIMARY_ADDR_PATH | MLX5_QP_OPTPAR_RRA_MAX |
	  MLX5_QP_OPTPAR_RNR_TIMEOUT | HCA_QP_MTU | HCA_QP_REMOTE | HCA_QP_RCV_PSN,
	  MLX5_QP_OPTPAR_PKEY_INDEX | HCA_QP_ACCESS },
	{ MLX5_CMD_OP_RTR2RTS_QP, BIT(MLX5_QP_STATE_RTR), MLX5_QP_STATE_RTS,
	  MLX5_QP_OPTPAR_ACK_TIMEOUT | MLX5_QP_OPTPAR_RETRY_COUNT | MLX5_QP_OPTPAR_RNR_RETRY |
	  MLX5_QP_OPTPAR_SRA_MAX | HCA_QP_SEND_PSN,
	  HCA_QP_ACCESS | MLX5_QP_OPTPAR_RNR_TIMEOUT | MLX5_QP_OPTPAR_PM_STATE },
	{ MLX5_CMD_OP_RTS2RTS_QP, BIT(MLX5_QP_STATE_RTS), MLX5_QP_STATE_RTS,
	  0,
	  HCA_QP_ACCESS | MLX5_QP_OPTPAR_RNR_TIMEOUT | MLX5_QP_OPTPAR_PM_STATE },
	{ MLX5_CMD_OP_2ERR_QP,
	  BIT(MLX5_QP_STATE_RST) | BIT(MLX5_QP_STATE_INIT) | BIT(MLX5_QP_STATE_RTR) |
	  BIT(MLX5_QP_STATE_RTS) | BIT(MLX5_QP_STATE_ERR), MLX5_QP_STATE_ERR, 0, 0 },
	{ MLX5_CMD_OP_2RST_QP,
	  BIT(MLX5_QP_STATE_RST) | BIT(MLX5_QP_STATE_INIT) | BIT(MLX5_QP_STATE_RTR) |
	  BIT(MLX5_QP_STATE_RTS) | BIT(MLX5_QP_STATE_ERR), MLX5_QP_STATE_RST, 0, 0 },
};

#define HCA_TAKE(qp, in, field) \
	MLX5_SET(qpc, (qp)->image, field, MLX5_GET(qpc, in, field))
#define HCA_TAKE_PATH(to, from, field) \
	MLX5_SET(ads, to, field, MLX5_GET(ads, from, field))

/* Can the fields named by @fields be taken? What has no check here is valid whatever its value. */
static hca_cmd_status hca_qp_check_fields(const void *in, u64 fields)
{
	const void *path = MLX5_ADDR_OF(qpc, in, primary_address_path);

	if (fields & HCA_QP_MTU && (MLX5_GET(qpc, in, mtu) < MLX5_QPC_MTU_256_BYTES ||
				    MLX5_GET(qpc, in, mtu) > MLX5_QPC_MTU_4K_BYTES))
		return HCA_REFUSE(BAD_PARAM_ERR, 4);
	if (fields & MLX5_QP_OPTPAR_RRA_MAX && MLX5_GET(qpc, in, log_rra_max) > HCA_LOG_MAX_RA)
		return HCA_REFUSE(BAD_PARAM_ERR, 5);
	if (fields & MLX5_QP_OPTPAR_SRA_MAX && MLX5_GET(qpc, in, log_sra_max) > HCA_LOG_MAX_RA)
		return HCA_REFUSE(BAD_PARAM_ERR, 6);
	/* There is one port, and its P_Key table has one entry. */
	if (fields & (MLX5_QP_OPTPAR_PRI_PORT | MLX5_QP_OPTPAR_PRIMARY_ADDR_PATH) &&
	    MLX5_GET(ads, path, vhca_port_num) != 1)
		return HCA_REFUSE(BAD_PARAM_ERR, 7);
	if (fields & MLX5_QP_OPTPAR_PKEY_INDEX && MLX5_GET(ads, path, pkey_index))
		return HCA_REFUSE(BAD_PARAM_ERR, 8);
	/* No alternate path that the connection could be armed with */
	if (fields & MLX5_QP_OPTPAR_PM_STATE &&
	    MLX5_GET(qpc, in, pm_state) != MLX5_QPC_PM_STATE_MIGRATED)
		return HCA_REFUSE(BAD_PARAM_ERR, 9);
	return HCA_OK;
}

/* Copies the fields named by @fields into the QPC. Both locks held. */
static void hca_qp_take_fields(struct hca_qp *qp, const void *in, u64 fields)
{
	const void *from = MLX5_ADDR_OF(qpc, in, primary_address_path);
	void *to = MLX5_ADDR_OF(qpc, qp->image, primary_address_path);

	if (fields & MLX5_QP_OPTPAR_PRIMARY_ADDR_PATH) {
		u32 pkey_index = MLX5_GET(ads, to, pkey_index);

		memcpy(to, from, MLX5_ST_SZ_BYTES(ads));
		/* The path of a connection keeps the P_Key that INIT chose. */
		MLX5_SET(ads, to, pkey_index, pkey_index);
	}
	if (fields & MLX5_QP_OPTPAR_PKEY_INDEX)
		HCA_TAKE_PATH(to, from, pkey_index);
	if (fields & MLX5_QP_OPTPAR_PRI_PORT)
		HCA_TAKE_PATH(to, from, vhca_port_num);
	if (fields & MLX5_QP_OPTPAR_ACK_TIMEOUT)
		HCA_TAKE_PATH(to, from, ack_timeout);
	if (fields & MLX5_QP_OPTPAR_Q_KEY)
		HCA_TAKE(qp, in, q_key);
	if (fields & MLX5_QP_OPTPAR_RRE)
		HCA_TAKE(qp, in, rre);
	if (fields & MLX5_QP_OPTPAR_RWE)
		HCA_TAKE(qp, in, rwe);
	if (fields & MLX5_QP_OPTPAR_RAE)
		HCA_TAKE(qp, in, rae);
	if (fields & MLX5_QP_OPTPAR_RRA_MAX)
		HCA_TAKE(qp, in, log_rra_max);
	if (fields & MLX5_QP_OPTPAR_SRA_MAX)
		HCA_TAKE(qp, in, log_sra_max);
	if (fields & MLX5_QP_OPTPAR_RNR_TIMEOUT)
		HCA_TAKE(qp, in, min_rnr_nak);
	if (fields & MLX5_QP_OPTPAR_RETRY_COUNT)
		HCA_TAKE(qp, in, retry_count);
	if (fields & MLX5_QP_OPTPAR_RNR_RETRY)
		HCA_TAKE(qp, in, rnr_retry);
	if (fields & MLX5_QP_OPTPAR_PM_STATE)
		HCA_TAKE(qp, in, pm_state);
	if (fields & HCA_QP_MTU) {
		HCA_TAKE(qp, in, mtu);
		HCA_TAKE(qp, in, log_msg_max);
	}
	if (fields & HCA_QP_REMOTE)
		HCA_TAKE(qp, in, remote_qpn);
	if (fields & HCA_QP_RCV_PSN)
		HCA_TAKE(qp, in, next_rcv_psn);
	if (fields & HCA_QP_SEND_PSN)
		HCA_TAKE(qp, in, next_send_psn);
	hca_qp_decode(qp);
}

/* Both locks held. */
static void hca_qp_set_state(struct hca_qp *qp, u8 state)
{
	if (state == MLX5_QP_STATE_ERR) {
		if (qp->state != MLX5_QP_STATE_ERR)
			hca_qp_enter_error(qp);
		hca_sq_flush(qp);
		hca_rq_flush(qp);
		return;
	}
	trace_hca_qp_state(qp->qpn, qp->state, state);
	WRITE_ONCE(qp->state, state);
	if (state == MLX5_QP_STATE_RST) {
		hca_sq_reset(qp);
		hca_rq_reset(qp);
		memset(&qp->error, 0, sizeof(qp->error));
	}
}

hca_cmd_status hca_cmd_modify_qp(struct hca *hca, const void *in, size_t inlen,
				 void *out, size_t outlen)
{
	u16 opcode = MLX5_GET(rst2init_qp_in, in, opcode);
	const void *qpc = MLX5_ADDR_OF(rst2init_qp_in, in, qpc);
	const struct hca_transition *t = hca_transitions;
	hca_cmd_status status = HCA_OK;
	struct hca_qp *qp;
	u64 fields;

	while (t->opcode != opcode)
		t++;
	qp = hca_qp_get_owned(hca, MLX5_GET(rst2init_qp_in, in, qpn),
			      MLX5_GET(rst2init_qp_in, in, uid));
	if (!qp)
		return HCA_REFUSE(BAD_RES_ERR, 1);
	hca_sq_lock(qp);
	mutex_lock(&qp->rq_lock);
	if (!(t->from & BIT(qp->state))) {
		status = HCA_REFUSE(BAD_QP_STATE_ERR, 2);
		goto unlock;
	}
	/* 2ERR and 2RST carry no context. */
	if (t->required | t->optional) {
		fields = MLX5_GET(rst2init_qp_in, in, opt_param_mask);
		if (fields & ~(t->required | t->optional)) {
			status = HCA_REFUSE(BAD_PARAM_ERR, 3);
			goto unlock;
		}
		fields |= t->required;
		status = hca_qp_check_fields(qpc, fields);
		if (status)
			goto unlock;
		hca_qp_take_fields(qp, qpc, fields);
	}
	hca_qp_set_state(qp, t->to);
unlock:
	mutex_unlock(&qp->rq_lock);
	hca_sq_unlock(qp);
	/* A send queue that came to life may already have been filled. */
	if (!status && t->to == MLX5_QP_STATE_RTS)
		hca_sq_ring(qp, false);
	hca_qp_put(qp);
	return status;
}

hca_cmd_status hca_cmd_query_qp(struct hca *hca, const void *in, size_t inlen,
				void *out, size_t outlen)
{
	struct hca_qp *qp = hca_qp_get_owned(hca, MLX5_GET(query_qp_in, in, qpn),
					     MLX5_GET(general_obj_in_cmd_hdr, in, uid));
	void *qpc = MLX5_ADDR_OF(query_qp_out, out, qpc);

	if (!qp)
		return HCA_REFUSE(BAD_RES_ERR, 1);
	hca_sq_lock(qp);
	mutex_lock(&qp->rq_lock);
	memcpy(qpc, qp->image, MLX5_ST_SZ_BYTES(qpc));
	MLX5_SET(qpc, qpc, state, qp->state);
	MLX5_SET(qpc, qpc, hw_sq_wqebb_counter, qp->sq_ci);
	MLX5_SET(qpc, qpc, hw_rq_counter, qp->rq_ci);
	/* The records mean nothing before the queue pair leaves reset. */
	if (qp->state != MLX5_QP_STATE_RST) {
		MLX5_SET(qpc, qpc, sw_sq_wqebb_counter, be32_to_cpu(READ_ONCE(qp->dbr.record[1])));
		MLX5_SET(qpc, qpc, sw_rq_counter, be32_to_cpu(READ_ONCE(qp->dbr.record[0])));
	}
	mutex_unlock(&qp->rq_lock);
	hca_sq_unlock(qp);
	hca_qp_put(qp);
	return HCA_OK;
}

/* @qp cannot be found any more. */
static void hca_qp_free(struct hca_qp *qp)
{
	struct hca *hca = qp->hca;

	/* Before the grace period: see hca_peer_get(). */
	atomic_inc_return(&hca->qp_changes);
	hca_sq_lock(qp);
	mutex_lock(&qp->rq_lock);
	qp->dead = true;
	hca_qp_set_state(qp, MLX5_QP_STATE_RST);
	mutex_unlock(&qp->rq_lock);
	hca_sq_unlock(qp);
	hca_ref_drain(&qp->ref);
	/* Nothing starts these any more; the timer starts the worker, so it goes first. */
	hrtimer_cancel(&qp->sq_timer);
	cancel_work_sync(&qp->sq_work);
	cancel_delayed_work_sync(&qp->flush_work);

	hca_cq_unuse(qp->rcq);
	hca_cq_unuse(qp->scq);
	hca_number_put(qp->uar_number);
	if (qp->pd_number)
		hca_number_put(qp->pd_number);
	hca_uctx_unuse(qp->owner);
	hca_ctx_put(hca, &hca->icm.qpc, qp->qpn);
	hca_buf_free(&qp->dbr.buf);
	hca_buf_free(&qp->buf);
	xa_erase(&hca->qps, qp->qpn);
	mutex_destroy(&qp->rq_lock);
	mutex_destroy(&qp->sq_lock);
	kfree_rcu(qp, rcu);
}

hca_cmd_status hca_cmd_destroy_qp(struct hca *hca, const void *in, size_t inlen,
				  void *out, size_t outlen)
{
	u32 qpn = MLX5_GET(destroy_qp_in, in, qpn);
	struct hca_qp *qp = hca_qp_get_owned(hca, qpn, MLX5_GET(destroy_qp_in, in, uid));

	if (!qp)
		return HCA_REFUSE(BAD_RES_ERR, 1);
	hca_qp_put(qp);
	/* Of two destroyers one gets the queue pair; until then it is a number. */
	if (xa_cmpxchg(&hca->qps, qpn, qp, XA_ZERO_ENTRY, GFP_KERNEL) != qp)
		return HCA_REFUSE(BAD_RES_ERR, 1);
	hca_qp_free(qp);
	return HCA_OK;
}

/**
 * hca_qps_destroy() - destroy what software left behind
 * @hca: the HCA
 */
void hca_qps_destroy(struct hca *hca)
{
	struct hca_qp *qp;
	unsigned long qpn;

	xa_for_each(&hca->qps, qpn, qp) {
		xa_cmpxchg(&hca->qps, qpn, qp, XA_ZERO_ENTRY, GFP_KERNEL);
		hca_qp_free(qp);
	}
}
