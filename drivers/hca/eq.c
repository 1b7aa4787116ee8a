// SPDX-License-Identifier: GPL-2.0
/*
 * Event queues.
 *
 * Invariants:
 *  - An EQE becomes visible by its owner bit, written last.
 *  - An armed EQ raises its interrupt once and is not armed afterwards. Arming with
 *    events waiting raises it at once, from a worker, so that the callback can arm
 *    without being called from inside itself.
 *  - A full EQ loses the event and counts it, as hardware does.
 */
#include <linux/errno.h>
#include <linux/log2.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "engine.h"

static void hca_eq_irq_work(struct work_struct *work)
{
	struct hca_eq *eq = container_of(work, struct hca_eq, irq_work);

	hca_eq_kick(eq);
}

/**
 * hca_eq_write() - append an event
 * @eq: the event queue
 * @type: MLX5_EVENT_TYPE_*
 * @sub_type: of the event
 * @data: event data
 * @len: its length, at most 28 bytes
 *
 * Context: any; the caller calls hca_eq_kick() once it holds no lock.
 * Return: false if the ring was full.
 */
bool hca_eq_write(struct hca_eq *eq, u8 type, u8 sub_type, const void *data, size_t len)
{
	struct mlx5_eqe *eqe;
	unsigned long flags;
	bool room;

	spin_lock_irqsave(&eq->lock, flags);
	room = eq->pi - eq->ci < 1U << eq->log_size;
	if (room) {
		eqe = hca_buf_ptr(&eq->buf, (u64)(eq->pi & ((1U << eq->log_size) - 1)) *
					    sizeof(*eqe));
		memset(eqe, 0, offsetof(struct mlx5_eqe, owner));
		eqe->type = type;
		eqe->sub_type = sub_type;
		memcpy(&eqe->data, data, len);
		/* Pairs with the driver's barrier between the owner bit and the rest. */
		smp_store_release(&eqe->owner, eq->pi >> eq->log_size & 1);
		eq->pi++;
	}
	spin_unlock_irqrestore(&eq->lock, flags);
	hca_count(eq->hca, room ? HCA_CNT_EQE : HCA_CNT_EQ_OVERRUN);
	return room;
}

/**
 * hca_eq_kick() - raise the interrupt if one is due
 * @eq: the event queue
 *
 * Context: no lock held.
 */
void hca_eq_kick(struct hca_eq *eq)
{
	unsigned long flags;
	bool raise;

	spin_lock_irqsave(&eq->lock, flags);
	raise = eq->armed && eq->pi != eq->ci;
	if (raise)
		eq->armed = false;
	spin_unlock_irqrestore(&eq->lock, flags);
	if (raise)
		eq->hca->ops->irq(eq->hca->host, eq->vector);
}

/**
 * hca_eq_kick_later() - have a worker raise the interrupt if one is due
 * @eq: the event queue
 *
 * Context: any.
 */
void hca_eq_kick_later(struct hca_eq *eq)
{
	queue_work(eq->hca->wq, &eq->irq_work);
}

/**
 * hca_eq_get() - find an event queue and keep it
 * @hca: the HCA
 * @eqn: its number
 *
 * Context: any.
 * Return: the EQ, to be released by hca_ref_put() on its ref, or NULL.
 */
struct hca_eq *hca_eq_get(struct hca *hca, u32 eqn)
{
	struct hca_eq *eq;

	rcu_read_lock();
	eq = xa_load(&hca->eqs, eqn);
	if (eq && !hca_ref_get(&eq->ref))
		eq = NULL;
	rcu_read_unlock();
	return eq;
}

/**
 * hca_event() - report an event to the EQ that subscribed to it
 * @hca: the HCA
 * @type: MLX5_EVENT_TYPE_*
 * @sub_type: of the event
 * @data: event data
 * @len: its length, at most 28 bytes
 *
 * Context: process, no lock but a qp->sq_lock or rq_lock held.
 * Return: 0, -ENOENT if nobody listens, -ENOSPC if the ring was full.
 */
int hca_event(struct hca *hca, u8 type, u8 sub_type, const void *data, size_t len)
{
	struct hca_eq *eq, *found = NULL;
	unsigned long eqn;
	bool written;

	rcu_read_lock();
	xa_for_each(&hca->eqs, eqn, eq)
		if (eq->events[type / 64] & 1ULL << type % 64)
			found = eq;
	if (found && !hca_ref_get(&found->ref))
		found = NULL;
	rcu_read_unlock();
	if (!found)
		return -ENOENT;
	written = hca_eq_write(found, type, sub_type, data, len);
	hca_eq_kick(found);
	hca_ref_put(&found->ref);
	return written ? 0 : -ENOSPC;
}

/**
 * hca_event_qp() - report an event of a queue pair
 * @hca: the HCA
 * @type: MLX5_EVENT_TYPE_*
 * @qpn: the queue pair
 *
 * Context: as hca_event().
 */
void hca_event_qp(struct hca *hca, u8 type, u32 qpn)
{
	struct mlx5_eqe_qp_srq data = { .qp_srq_n = cpu_to_be32(qpn) };

	hca_event(hca, type, 0, &data, sizeof(data));
}

/**
 * hca_eq_doorbell() - the driver tells how far it has read
 * @hca: the HCA
 * @value: EQN << 24 | consumer index
 * @arm: and wants an interrupt for what comes next
 *
 * Context: any.
 */
void hca_eq_doorbell(struct hca *hca, u32 value, bool arm)
{
	struct hca_eq *eq = hca_eq_get(hca, value >> 24);
	unsigned long flags;
	bool pending;
	u32 used;

	if (!eq)
		return;
	spin_lock_irqsave(&eq->lock, flags);
	/* 24 bits of a free-running counter: it can only have gone forward. */
	used = (value - eq->ci) & 0xffffff;
	if (used <= eq->pi - eq->ci)
		eq->ci += used;
	eq->armed |= arm;
	pending = eq->armed && eq->pi != eq->ci;
	spin_unlock_irqrestore(&eq->lock, flags);
	if (pending)
		hca_eq_kick_later(eq);
	hca_ref_put(&eq->ref);
}

hca_cmd_status hca_cmd_create_eq(struct hca *hca, const void *in, size_t inlen,
				 void *out, size_t outlen)
{
	const void *eqc = MLX5_ADDR_OF(create_eq_in, in, eq_context_entry);
	const __be64 *pas = MLX5_ADDR_OF(create_eq_in, in, pas);
	u8 log_size = MLX5_GET(eqc, eqc, log_eq_size);
	u32 uar = MLX5_GET(eqc, eqc, uar_page);
	hca_cmd_status status;
	struct hca_eq *eq;
	u32 next = 0;
	int i;

	if (log_size > HCA_LOG_MAX_EQ_SZ || MLX5_GET(eqc, eqc, page_offset))
		return HCA_REFUSE(BAD_PARAM_ERR, 1);
	eq = kzalloc_obj(*eq);
	if (!eq)
		return HCA_REFUSE(LIM_ERR, 2);
	eq->hca = hca;
	eq->log_size = log_size;
	eq->vector = MLX5_GET(eqc, eqc, intr);
	spin_lock_init(&eq->lock);
	hca_ref_init(&eq->ref);
	INIT_WORK(&eq->irq_work, hca_eq_irq_work);
	for (i = 0; i < 4; i++)
		eq->events[i] = MLX5_GET64(create_eq_in, in, event_bitmask[i]);
	eq->uar = hca_number_get(&hca->uars, uar, 0);
	if (!eq->uar) {
		status = HCA_REFUSE(BAD_RES_ERR, 3);
		goto free_eq;
	}
	status = hca_buf_init(hca, &eq->buf, pas,
			      (inlen - MLX5_ST_SZ_BYTES(create_eq_in)) / sizeof(*pas),
			      MLX5_GET(eqc, eqc, log_page_size) + HCA_PAGE_SHIFT, 0,
			      sizeof(struct mlx5_eqe) << log_size);
	if (status)
		goto put_uar;
	if (xa_alloc_cyclic(&hca->eqs, &eq->eqn, NULL, XA_LIMIT(1, HCA_MAX_EQS), &next,
			    GFP_KERNEL) < 0) {
		status = HCA_REFUSE(LIM_ERR, 4);
		goto free_buf;
	}
	eq->image = hca_ctx_get(hca, &hca->icm.eqc, eq->eqn);
	if (!eq->image) {
		status = HCA_REFUSE(NO_RES_ERR, 5);
		goto erase_eqn;
	}
	memcpy(eq->image, eqc, MLX5_ST_SZ_BYTES(eqc));
	xa_store(&hca->eqs, eq->eqn, eq, GFP_KERNEL);
	MLX5_SET(create_eq_out, out, eq_number, eq->eqn);
	if (eq->events[0] & 1ULL << MLX5_EVENT_TYPE_PAGE_REQUEST)
		hca_icm_subscribed(hca);
	return HCA_OK;

erase_eqn:
	xa_erase(&hca->eqs, eq->eqn);
free_buf:
	hca_buf_free(&eq->buf);
put_uar:
	hca_number_put(eq->uar);
free_eq:
	kfree(eq);
	return status;
}

hca_cmd_status hca_cmd_query_eq(struct hca *hca, const void *in, size_t inlen,
				void *out, size_t outlen)
{
	struct hca_eq *eq = hca_eq_get(hca, MLX5_GET(query_eq_in, in, eq_number));
	void *eqc = MLX5_ADDR_OF(query_eq_out, out, eq_context_entry);
	unsigned long flags;

	if (!eq)
		return HCA_REFUSE(BAD_RES_ERR, 1);
	memcpy(eqc, eq->image, MLX5_ST_SZ_BYTES(eqc));
	spin_lock_irqsave(&eq->lock, flags);
	MLX5_SET(eqc, eqc, st, eq->armed ? 0x9 : 0xa);
	MLX5_SET(eqc, eqc, consumer_counter, eq->ci);
	MLX5_SET(eqc, eqc, producer_counter, eq->pi);
	spin_unlock_irqrestore(&eq->lock, flags);
	hca_ref_put(&eq->ref);
	return HCA_OK;
}

/* @eq cannot be found any more. */
static void hca_eq_free(struct hca_eq *eq)
{
	struct hca *hca = eq->hca;

	hca_ref_drain(&eq->ref);
	cancel_work_sync(&eq->irq_work);
	hca_number_put(eq->uar);
	hca_ctx_put(hca, &hca->icm.eqc, eq->eqn);
	hca_buf_free(&eq->buf);
	xa_erase(&hca->eqs, eq->eqn);
	kfree_rcu(eq, rcu);
}

hca_cmd_status hca_cmd_destroy_eq(struct hca *hca, const void *in, size_t inlen,
				  void *out, size_t outlen)
{
	u32 eqn = MLX5_GET(destroy_eq_in, in, eq_number);
	struct hca_eq *eq = hca_eq_get(hca, eqn);
	hca_cmd_status status = HCA_OK;

	if (!eq)
		return HCA_REFUSE(BAD_RES_ERR, 1);
	if (atomic_cmpxchg(&eq->users, 0, -1) != 0)
		status = HCA_REFUSE(RES_BUSY, 2);
	hca_ref_put(&eq->ref);
	if (status)
		return status;
	xa_cmpxchg(&hca->eqs, eqn, eq, XA_ZERO_ENTRY, GFP_KERNEL);
	hca_eq_free(eq);
	return HCA_OK;
}

/**
 * hca_eqs_destroy() - destroy what software left behind
 * @hca: the HCA; all CQs are gone
 */
void hca_eqs_destroy(struct hca *hca)
{
	struct hca_eq *eq;
	unsigned long eqn;

	xa_for_each(&hca->eqs, eqn, eq) {
		xa_cmpxchg(&hca->eqs, eqn, eq, XA_ZERO_ENTRY, GFP_KERNEL);
		hca_eq_free(eq);
	}
}
