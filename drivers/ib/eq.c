// SPDX-License-Identifier: GPL-2.0
/*
 * Event queues and what their entries mean: the twin of core/eq.c, cq.c (events)
 * and qpc.c (events).
 *
 * Invariants:
 *  - At any time at most one context polls an event queue: the one that made
 *    eq->raised non-zero. An interrupt that comes meanwhile makes it poll again,
 *    so no event is lost and no lock is held while handlers run. In particular
 *    the HCA may raise the interrupt from within the store that arms the queue.
 *  - The queue is armed only after everything in it was consumed.
 *  - A handler runs only while it holds a reference on its CQ or QP, and the
 *    destruction of either waits for that (shca_res_del()).
 */
#include <linux/dma-mapping.h>
#include <linux/mlx5/device.h>

#include "shca.h"

/* log2 of EQEs. A full queue is impossible to miss: the HCA counts eq_overrun. */
#define SHCA_LOG_ASYNC_EQ	9
#define SHCA_LOG_COMP_EQ	10

/* Tell the HCA at least this often which entries are free again. */
#define SHCA_EQ_UPDATE_BATCH	128

#define SHCA_EQE_PER_PAGE	(PAGE_SIZE / sizeof(struct mlx5_eqe))
#define SHCA_EQE_OWNER_INIT	1

#define SHCA_ASYNC_EVENTS					\
	(BIT_ULL(MLX5_EVENT_TYPE_PATH_MIG)		|	\
	 BIT_ULL(MLX5_EVENT_TYPE_COMM_EST)		|	\
	 BIT_ULL(MLX5_EVENT_TYPE_SQ_DRAINED)		|	\
	 BIT_ULL(MLX5_EVENT_TYPE_SRQ_LAST_WQE)		|	\
	 BIT_ULL(MLX5_EVENT_TYPE_CQ_ERROR)		|	\
	 BIT_ULL(MLX5_EVENT_TYPE_WQ_CATAS_ERROR)	|	\
	 BIT_ULL(MLX5_EVENT_TYPE_PATH_MIG_FAILED)	|	\
	 BIT_ULL(MLX5_EVENT_TYPE_WQ_INVAL_REQ_ERROR)	|	\
	 BIT_ULL(MLX5_EVENT_TYPE_WQ_ACCESS_ERROR)	|	\
	 BIT_ULL(MLX5_EVENT_TYPE_PAGE_REQUEST))

/**
 * shca_res_add() - let event handlers find a queue
 * @xa: &shca_dev.cqs or &shca_dev.qps
 * @res: embedded in the queue
 * @id: number of the queue
 *
 * Context: process. Return: 0 or an errno.
 */
int shca_res_add(struct xarray *xa, struct shca_res *res, u32 id)
{
	refcount_set(&res->refcount, 1);
	init_completion(&res->free);
	return xa_insert_irq(xa, id, res, GFP_KERNEL);
}

/**
 * shca_res_del() - hide a queue from event handlers and wait for those that run
 * @xa: as for shca_res_add()
 * @res: embedded in the queue
 * @id: number of the queue
 *
 * Context: process, may sleep.
 */
void shca_res_del(struct xarray *xa, struct shca_res *res, u32 id)
{
	xa_erase_irq(xa, id);
	if (refcount_dec_and_test(&res->refcount))
		return;
	wait_for_completion(&res->free);
}

/**
 * shca_res_get() - find a queue and keep it
 * @xa: &shca_dev.cqs or &shca_dev.qps
 * @id: number of the queue
 *
 * Context: any. Return: its res, to be given to shca_res_put(), or NULL.
 */
struct shca_res *shca_res_get(struct xarray *xa, u32 id)
{
	struct shca_res *res;
	unsigned long flags;

	xa_lock_irqsave(xa, flags);
	res = xa_load(xa, id);
	if (res)
		refcount_inc(&res->refcount);
	xa_unlock_irqrestore(xa, flags);
	return res;
}

/**
 * shca_res_put() - let go of a queue
 * @res: from shca_res_get()
 *
 * Context: any.
 */
void shca_res_put(struct shca_res *res)
{
	if (refcount_dec_and_test(&res->refcount))
		complete(&res->free);
}

static void shca_cq_comp(struct shca_dev *dev, u32 cqn)
{
	struct shca_res *res = shca_res_get(&dev->cqs, cqn);
	struct ib_cq *ibcq;

	if (!res)
		return;
	ibcq = &container_of(res, struct shca_cq, res)->ibcq;
	ibcq->comp_handler(ibcq, ibcq->cq_context);
	shca_res_put(res);
}

static void shca_cq_event(struct shca_dev *dev, u32 cqn)
{
	struct shca_res *res = shca_res_get(&dev->cqs, cqn);
	struct ib_event event;
	struct ib_cq *ibcq;

	if (!res)
		return;
	ibcq = &container_of(res, struct shca_cq, res)->ibcq;
	event.device = &dev->ib_dev;
	event.event = IB_EVENT_CQ_ERR;
	event.element.cq = ibcq;
	if (ibcq->event_handler)
		ibcq->event_handler(&event, ibcq->cq_context);
	shca_res_put(res);
}

static void shca_qp_event(struct shca_dev *dev, u32 qpn, enum ib_event_type type)
{
	struct shca_res *res = shca_res_get(&dev->qps, qpn);
	struct ib_event event;
	struct ib_qp *ibqp;

	if (!res)
		return;
	ibqp = &container_of(res, struct shca_qp, res)->ibqp;
	event.device = &dev->ib_dev;
	event.event = type;
	event.element.qp = ibqp;
	if (ibqp->event_handler)
		ibqp->event_handler(&event, ibqp->qp_context);
	shca_res_put(res);
}

/* False: not now; shca_irq() will be called when it can be taken. */
static bool shca_eqe_dispatch(struct shca_dev *dev, const struct mlx5_eqe *eqe)
{
	u32 qpn = be32_to_cpu(eqe->data.qp_srq.qp_srq_n) & 0xffffff;

	switch (eqe->type) {
	case MLX5_EVENT_TYPE_COMP:
		shca_cq_comp(dev, be32_to_cpu(eqe->data.comp.cqn) & 0xffffff);
		break;
	case MLX5_EVENT_TYPE_CQ_ERROR:
		shca_cq_event(dev, be32_to_cpu(eqe->data.cq_err.cqn) & 0xffffff);
		break;
	case MLX5_EVENT_TYPE_PATH_MIG:
		shca_qp_event(dev, qpn, IB_EVENT_PATH_MIG);
		break;
	case MLX5_EVENT_TYPE_PATH_MIG_FAILED:
		shca_qp_event(dev, qpn, IB_EVENT_PATH_MIG_ERR);
		break;
	case MLX5_EVENT_TYPE_COMM_EST:
		shca_qp_event(dev, qpn, IB_EVENT_COMM_EST);
		break;
	case MLX5_EVENT_TYPE_SQ_DRAINED:
		shca_qp_event(dev, qpn, IB_EVENT_SQ_DRAINED);
		break;
	case MLX5_EVENT_TYPE_SRQ_LAST_WQE:
		shca_qp_event(dev, qpn, IB_EVENT_QP_LAST_WQE_REACHED);
		break;
	case MLX5_EVENT_TYPE_WQ_CATAS_ERROR:
		shca_qp_event(dev, qpn, IB_EVENT_QP_FATAL);
		break;
	case MLX5_EVENT_TYPE_WQ_INVAL_REQ_ERROR:
		shca_qp_event(dev, qpn, IB_EVENT_QP_REQ_ERR);
		break;
	case MLX5_EVENT_TYPE_WQ_ACCESS_ERROR:
		shca_qp_event(dev, qpn, IB_EVENT_QP_ACCESS_ERR);
		break;
	case MLX5_EVENT_TYPE_PAGE_REQUEST:
		shca_page_request(dev, be32_to_cpu(eqe->data.req_pages.num_pages));
		break;
	case MLX5_EVENT_TYPE_PAGE_FAULT:
		return shca_page_fault(dev, eqe);
	default:
		dev_warn_ratelimited(&dev->pdev->dev, "event of unknown type 0x%x\n", eqe->type);
	}
	return true;
}

static struct mlx5_eqe *shca_get_eqe(struct shca_eq *eq, u32 index)
{
	index &= BIT(eq->log_size) - 1;
	return (struct mlx5_eqe *)page_address(eq->pages[index / SHCA_EQE_PER_PAGE]) +
	       index % SHCA_EQE_PER_PAGE;
}

static struct mlx5_eqe *shca_next_eqe_sw(struct shca_eq *eq)
{
	struct mlx5_eqe *eqe = shca_get_eqe(eq, eq->cons_index);

	/* The owner bit is written last: whatever it covers must be read after it. */
	if ((smp_load_acquire(&eqe->owner) ^ (eq->cons_index >> eq->log_size)) & 1)
		return NULL;
	return eqe;
}

static void shca_eq_update_ci(struct shca_eq *eq, bool arm)
{
	__be32 val = cpu_to_be32((eq->cons_index & 0xffffff) | eq->eqn << 24);

	hca_uar_store(eq->dev->hca, eq->dev->uar_id, arm ? HCA_UAR_EQ_ARM : HCA_UAR_EQ_UPDATE,
		      &val, sizeof(val), 0);
}

static void shca_eq_poll(struct shca_eq *eq)
{
	struct mlx5_eqe *eqe;

	while ((eqe = shca_next_eqe_sw(eq))) {
		if (!shca_eqe_dispatch(eq->dev, eqe))
			return;
		eq->cons_index++;
		if (eq->cons_index % SHCA_EQ_UPDATE_BATCH == 0)
			shca_eq_update_ci(eq, false);
	}
	shca_eq_update_ci(eq, true);
}

/**
 * shca_irq() - interrupt handler of all vectors (hca_host_ops.irq)
 * @host: the device
 * @vector: which event queue
 *
 * Context: any that does not hold a lock of the HCA; does not sleep.
 */
void shca_irq(void *host, unsigned int vector)
{
	struct shca_dev *dev = host;
	struct shca_eq *eq;
	int raised;

	if (vector >= ARRAY_SIZE(dev->eqs))
		return;

	rcu_read_lock();
	eq = rcu_dereference(dev->eqs[vector]);
	if (eq && atomic_inc_return(&eq->raised) == 1) {
		do {
			raised = atomic_read(&eq->raised);
			shca_eq_poll(eq);
		} while (atomic_sub_return(raised, &eq->raised));
	}
	rcu_read_unlock();
}

static void shca_eq_free_buf(struct shca_eq *eq)
{
	while (eq->npages--) {
		dma_unmap_page(&eq->dev->pdev->dev, eq->pas[eq->npages], PAGE_SIZE,
			       DMA_BIDIRECTIONAL);
		__free_page(eq->pages[eq->npages]);
	}
	kfree(eq->pas);
	kfree(eq->pages);
}

static int shca_eq_alloc_buf(struct shca_eq *eq)
{
	struct device *device = &eq->dev->pdev->dev;
	unsigned int npages, i;
	struct page *page;
	dma_addr_t dma;

	npages = DIV_ROUND_UP(sizeof(struct mlx5_eqe) << eq->log_size, PAGE_SIZE);
	eq->npages = 0;
	eq->pages = kcalloc(npages, sizeof(*eq->pages), GFP_KERNEL);
	eq->pas = kcalloc(npages, sizeof(*eq->pas), GFP_KERNEL);
	if (!eq->pages || !eq->pas)
		goto free_buf;

	while (eq->npages < npages) {
		page = alloc_page(GFP_KERNEL | __GFP_ZERO);
		if (!page)
			goto free_buf;
		dma = dma_map_page(device, page, 0, PAGE_SIZE, DMA_BIDIRECTIONAL);
		if (dma_mapping_error(device, dma)) {
			__free_page(page);
			goto free_buf;
		}
		eq->pages[eq->npages] = page;
		eq->pas[eq->npages++] = dma;
	}
	for (i = 0; i < BIT(eq->log_size); i++)
		shca_get_eqe(eq, i)->owner = SHCA_EQE_OWNER_INIT;
	return 0;

free_buf:
	shca_eq_free_buf(eq);
	return -ENOMEM;
}

static int shca_cmd_create_eq(struct shca_eq *eq, u64 event_mask)
{
	size_t inlen = MLX5_ST_SZ_BYTES(create_eq_in) +
		       eq->npages * MLX5_FLD_SZ_BYTES(create_eq_in, pas[0]);
	u32 out[MLX5_ST_SZ_DW(create_eq_out)];
	unsigned int i;
	void *eqc;
	u32 *in;
	int err;

	in = kvzalloc(inlen, GFP_KERNEL);
	if (!in)
		return -ENOMEM;

	MLX5_SET(create_eq_in, in, opcode, MLX5_CMD_OP_CREATE_EQ);
	MLX5_ARRAY_SET64(create_eq_in, in, event_bitmask, 0, event_mask);
	eqc = MLX5_ADDR_OF(create_eq_in, in, eq_context_entry);
	MLX5_SET(eqc, eqc, log_eq_size, eq->log_size);
	MLX5_SET(eqc, eqc, uar_page, eq->dev->uar_id);
	MLX5_SET(eqc, eqc, intr, eq->vector);
	MLX5_SET(eqc, eqc, log_page_size, PAGE_SHIFT - MLX5_ADAPTER_PAGE_SHIFT);
	for (i = 0; i < eq->npages; i++)
		MLX5_ARRAY_SET64(create_eq_in, in, pas, i, eq->pas[i]);

	err = shca_cmd_exec(eq->dev, in, inlen, out, sizeof(out));
	if (!err)
		eq->eqn = MLX5_GET(create_eq_out, out, eq_number);
	kvfree(in);
	return err;
}

/**
 * shca_create_eq() - create an event queue
 * @dev: the device
 * @vector: SHCA_VECTOR_*
 * @log_size: log2 of its entries
 * @event_mask: bit for each MLX5_EVENT_TYPE_* that shall come through it
 *
 * Context: process. Return: 0 or an errno.
 */
int shca_create_eq(struct shca_dev *dev, unsigned int vector, unsigned int log_size,
		   u64 event_mask)
{
	struct shca_eq *eq;
	int err;

	eq = kzalloc_obj(*eq);
	if (!eq)
		return -ENOMEM;
	eq->dev = dev;
	eq->vector = vector;
	eq->log_size = log_size;

	err = shca_eq_alloc_buf(eq);
	if (err)
		goto free_eq;
	err = shca_cmd_create_eq(eq, event_mask);
	if (err)
		goto free_buf;

	rcu_assign_pointer(dev->eqs[vector], eq);
	/* A new queue is not armed; polling it arms it. */
	shca_irq(dev, vector);
	return 0;

free_buf:
	shca_eq_free_buf(eq);
free_eq:
	kfree(eq);
	return err;
}

/**
 * shca_destroy_eq() - destroy an event queue
 * @dev: the device
 * @vector: SHCA_VECTOR_*
 *
 * Context: process, waits for the handlers that run.
 */
void shca_destroy_eq(struct shca_dev *dev, unsigned int vector)
{
	struct shca_eq *eq = rcu_dereference_protected(dev->eqs[vector], true);
	u32 out[MLX5_ST_SZ_DW(destroy_eq_out)];
	u32 in[MLX5_ST_SZ_DW(destroy_eq_in)] = {};
	int err;

	/* Nobody polls it, hence nobody rings its doorbell, when the number becomes free. */
	RCU_INIT_POINTER(dev->eqs[vector], NULL);
	synchronize_rcu();

	MLX5_SET(destroy_eq_in, in, opcode, MLX5_CMD_OP_DESTROY_EQ);
	MLX5_SET(destroy_eq_in, in, eq_number, eq->eqn);
	err = shca_cmd_exec(dev, in, sizeof(in), out, sizeof(out));
	if (err) {
		dev_warn(&dev->pdev->dev, "EQ %u was not destroyed: its pages are lost\n",
			 eq->eqn);
		return;
	}
	shca_eq_free_buf(eq);
	kfree(eq);
}

/**
 * shca_eq_table_create() - create the event queues of asynchronous events and completions
 * @dev: the device; dev->ib_dev.num_comp_vectors says how many for completions
 *
 * Context: process. Return: 0 or an errno.
 */
int shca_eq_table_create(struct shca_dev *dev)
{
	int err;

	err = shca_create_eq(dev, SHCA_VECTOR_ASYNC, SHCA_LOG_ASYNC_EQ, SHCA_ASYNC_EVENTS);
	if (err)
		return err;
	for (; dev->num_comp_eqs < dev->ib_dev.num_comp_vectors; dev->num_comp_eqs++) {
		err = shca_create_eq(dev, SHCA_VECTOR_COMP + dev->num_comp_eqs, SHCA_LOG_COMP_EQ,
				     0);
		if (err) {
			shca_eq_table_destroy(dev);
			return err;
		}
	}
	return 0;
}

/**
 * shca_eq_table_destroy() - destroy the event queues of shca_eq_table_create()
 * @dev: the device; it has no CQ any more
 *
 * The asynchronous queue goes last: page requests come through it.
 *
 * Context: process, may sleep.
 */
void shca_eq_table_destroy(struct shca_dev *dev)
{
	while (dev->num_comp_eqs)
		shca_destroy_eq(dev, SHCA_VECTOR_COMP + --dev->num_comp_eqs);
	shca_destroy_eq(dev, SHCA_VECTOR_ASYNC);
}

/**
 * shca_comp_eqn_get() - the event queue of a completion vector
 * @dev: the device
 * @vector: completion vector of ib_verbs, from 0
 * @eqn: number of the event queue
 *
 * Context: any. Return: 0, or -ENOENT when there is no such vector.
 */
int shca_comp_eqn_get(struct shca_dev *dev, unsigned int vector, u32 *eqn)
{
	struct shca_eq *eq;
	int err = -ENOENT;

	if (vector >= SHCA_MAX_COMP_VECTORS)
		return err;
	rcu_read_lock();
	eq = rcu_dereference(dev->eqs[SHCA_VECTOR_COMP + vector]);
	if (eq) {
		*eqn = eq->eqn;
		err = 0;
	}
	rcu_read_unlock();
	return err;
}

/**
 * shca_is_comp_eqn() - is this the event queue of a completion vector?
 * @dev: the device
 * @eqn: number of an event queue, perhaps of none
 *
 * Context: any.
 * Return: false also for the queue of asynchronous events.
 */
bool shca_is_comp_eqn(struct shca_dev *dev, u32 eqn)
{
	unsigned int vector;
	u32 comp_eqn;

	for (vector = 0; !shca_comp_eqn_get(dev, vector, &comp_eqn); vector++)
		if (comp_eqn == eqn)
			return true;
	return false;
}
