// SPDX-License-Identifier: GPL-2.0
/*
 * Page faults: from the event of the HCA to its answer. Of the twin odp.c, what is not
 * about regions. HM 6.3 to 6.6.
 *
 * Invariants:
 *  - Every event is answered with PAGE_FAULT_RESUME, once, unless its queue pair is gone.
 *    That the HCA knows nothing of it any more is no error (HM 6.4).
 *  - Each fault is handled by a work item of its own: one that waits for its pages delays
 *    no other.
 *  - Success means "look again", not "it is there": what may change while it is looked
 *    at (the request in user memory, windows, page tables) decides nothing but which
 *    pages are brought in, and the HCA ends what does not get on (HM 6.6).
 *  - An interrupt handler that finds no memory for a fault leaves the event in the queue.
 */
#include <linux/mempool.h>
#include <linux/sizes.h>
#include <linux/mlx5/qp.h>

#include "odp.h"

#define SHCA_LOG_PF_EQ		12
#define SHCA_PF_POOL		64

/* Keys that one fault looks at: the rest of a long list is left to the next. */
#define SHCA_PF_MAX_KEYS	4096

/* No request is longer than so many segments of 16 bytes can tell. */
#define SHCA_PF_MAX_WQE		1024

/*
 * So much of a message is brought in at a time. Of a longer one the first pages could be
 * gone again before the last have come.
 */
#define SHCA_PF_MAX_BYTES	SZ_4M

/**
 * struct shca_pagefault - a page fault
 * @dev: the device
 * @work: handles it
 * @bytes_committed: of the message or of the list of a request: already moved
 * @token: names it to the HCA
 * @event_subtype: MLX5_PFAULT_SUBTYPE_WQE or _RDMA
 * @type: MLX5_WQE_PF_TYPE_*, or bits of MLX5_PFAULT_*
 * @packet_size: what has to be there for the HCA to get on, in bytes
 * @wqe: of memory that a request names: its queue pair and place in the queue
 * @rdma: of memory that a peer names: key, address and length of its message
 */
struct shca_pagefault {
	struct shca_dev *dev;
	struct work_struct work;
	u32 bytes_committed;
	u32 token;
	u8 event_subtype;
	u8 type;
	u32 packet_size;
	union {
		struct {
			u32 wq_num;
			u16 wqe_index;
		} wqe;
		struct {
			u32 r_key;
			u32 rdma_op_len;
			u64 rdma_va;
		} rdma;
	};
};

static void shca_page_fault_resume(struct shca_pagefault *pfault, bool error)
{
	u32 wq_num = pfault->event_subtype == MLX5_PFAULT_SUBTYPE_WQE ? pfault->wqe.wq_num :
									pfault->token;
	u32 out[MLX5_ST_SZ_DW(page_fault_resume_out)];
	u32 in[MLX5_ST_SZ_DW(page_fault_resume_in)] = {};
	void *info = MLX5_ADDR_OF(page_fault_resume_in, in, page_fault_info.trans_page_fault_info);

	MLX5_SET(page_fault_resume_in, in, opcode, MLX5_CMD_OP_PAGE_FAULT_RESUME);
	MLX5_SET(trans_page_fault_info, info, page_fault_type, pfault->type);
	MLX5_SET(trans_page_fault_info, info, fault_token, pfault->token);
	MLX5_SET(trans_page_fault_info, info, wq_number, wq_num);
	MLX5_SET(trans_page_fault_info, info, error, error);
	/* The queue pair may have been reset since, or destroyed. */
	shca_cmd_do(pfault->dev, in, sizeof(in), out, sizeof(out));
}

/* Programs choose the variant of these themselves. */
static bool mkey_is_eq(const struct shca_mkey *mmkey, u32 key)
{
	if (mmkey->type == SHCA_MKEY_MR)
		return mmkey->key == key;
	return shca_mkey_to_idx(mmkey->key) == shca_mkey_to_idx(key);
}

/* Returns the key with a reference; -ENOENT: its pages are never missing; -EFAULT: another's. */
static struct shca_mkey *find_odp_mkey(struct shca_dev *dev, u32 key)
{
	struct shca_mkey *mmkey;

	xa_lock(&dev->odp_mkeys);
	mmkey = xa_load(&dev->odp_mkeys, shca_mkey_to_idx(key));
	if (!mmkey)
		mmkey = ERR_PTR(-ENOENT);
	else if (!mkey_is_eq(mmkey, key))
		mmkey = ERR_PTR(-EFAULT);
	else
		refcount_inc(&mmkey->usecount);
	xa_unlock(&dev->odp_mkeys);
	return mmkey;
}

static int pagefault_key(struct shca_dev *dev, u32 key, u64 io_virt, u64 bcnt, unsigned int depth,
			 unsigned int *budget);

/* A key whose table names keys: bring in what lies below. */
static int pagefault_klm(struct shca_dev *dev, struct shca_mkey *mmkey, u64 io_virt, u64 bcnt,
			 unsigned int depth, unsigned int *budget)
{
	size_t outlen = MLX5_BYTE_OFF(query_mkey_out, bsf0_klm0_pas_mtt0_1) +
			mmkey->ndescs * sizeof(struct mlx5_klm);
	const struct mlx5_klm *klm;
	unsigned int i;
	u64 offset, n;
	void *out;
	int err;

	if (depth >= SHCA_CAP_GEN(dev, max_indirection))
		return -EFAULT;
	out = kvzalloc(outlen, GFP_KERNEL);
	if (!out)
		return -ENOMEM;
	err = shca_cmd_query_mkey(dev, mmkey->key, out, outlen);
	if (err)
		goto free_out;
	klm = MLX5_ADDR_OF(query_mkey_out, out, bsf0_klm0_pas_mtt0_1);
	offset = io_virt - MLX5_GET64(query_mkey_out, out, memory_key_mkey_entry.start_addr);
	for (i = 0; i < mmkey->ndescs && bcnt && !err; i++, klm++) {
		if (offset >= be32_to_cpu(klm->bcount)) {
			offset -= be32_to_cpu(klm->bcount);
			continue;
		}
		n = min(bcnt, be32_to_cpu(klm->bcount) - offset);
		err = pagefault_key(dev, be32_to_cpu(klm->key), be64_to_cpu(klm->va) + offset, n,
				    depth + 1, budget);
		bcnt -= n;
		offset = 0;
	}
free_out:
	kvfree(out);
	return err;
}

/* Bring in what @key has at @io_virt. The depth of the recursion is bounded (HM 4.4). */
static int pagefault_key(struct shca_dev *dev, u32 key, u64 io_virt, u64 bcnt, unsigned int depth,
			 unsigned int *budget)
{
	struct shca_mkey *mmkey;
	struct shca_mr *mr;
	long ret;

	if (!*budget)
		return 0;
	--*budget;
	mmkey = find_odp_mkey(dev, key);
	/* Lists may name keys of both kinds; those of pinned memory need nothing. */
	if (IS_ERR(mmkey))
		return PTR_ERR(mmkey) == -ENOENT ? 0 : PTR_ERR(mmkey);
	if (mmkey->type == SHCA_MKEY_MR) {
		mr = container_of(mmkey, struct shca_mr, mmkey);
		ret = pagefault_mr(mr, io_virt, bcnt, 0);
		if (ret >= 0)
			shca_update_odp_stats_with_handled(mr, faults, ret);
	} else {
		ret = pagefault_klm(dev, mmkey, io_virt, bcnt, depth, budget);
	}
	shca_deref_odp_mkey(mmkey);
	return min(ret, 0);
}

static int pagefault_single_data_segment(struct shca_dev *dev, u32 key, u64 io_virt, u64 bcnt)
{
	unsigned int budget = SHCA_PF_MAX_KEYS;

	return pagefault_key(dev, key, io_virt, bcnt, 0, &budget);
}

/*
 * Bring in what a list of data segments names, from byte @skip of it on and for up to
 * @limit bytes.
 */
static int pagefault_data_segments(struct shca_dev *dev, const void *wqe, const void *wqe_end,
				   u64 skip, u64 limit, bool receive_queue)
{
	u32 byte_count, key;
	u64 io_virt, bcnt;
	int err = 0;

	while (wqe + sizeof(struct mlx5_wqe_data_seg) <= wqe_end && limit && !err) {
		const struct mlx5_wqe_data_seg *dseg = wqe;

		byte_count = be32_to_cpu(dseg->byte_count);
		key = be32_to_cpu(dseg->lkey);
		io_virt = be64_to_cpu(dseg->addr);
		wqe += sizeof(*dseg);
		if (receive_queue && !byte_count && !io_virt &&
		    key == dev->mkeys.terminate_scatter_list_mkey)
			break;
		/* Here 0 stands for 2 GiB (HM 4.1). */
		bcnt = byte_count ?: 1ULL << 31;
		if (!receive_queue && byte_count & MLX5_INLINE_SEG) {
			bcnt = byte_count & ~MLX5_INLINE_SEG;
			wqe = dseg;
			wqe += ALIGN(sizeof(struct mlx5_wqe_inline_seg) + bcnt, sizeof(*dseg));
			key = 0;
		}
		if (bcnt <= skip) {
			skip -= bcnt;
			continue;
		}
		bcnt = min(bcnt - skip, limit);
		limit -= bcnt;
		if (key)
			err = pagefault_single_data_segment(dev, key, io_virt + skip, bcnt);
		skip = 0;
	}
	return err;
}

/* Where in a send request the list of data segments begins, and where it ends. */
static int shca_initiator_pfault_handler(const void **wqe, const void **wqe_end, size_t wqe_length)
{
	const struct mlx5_wqe_ctrl_seg *ctrl = *wqe;
	size_t length = (be32_to_cpu(ctrl->qpn_ds) & MLX5_WQE_CTRL_DS_MASK) * MLX5_SEND_WQE_DS;

	if (!length || length > wqe_length)
		return -EFAULT;
	*wqe_end = *wqe + length;
	*wqe += sizeof(*ctrl);
	switch (be32_to_cpu(ctrl->opmod_idx_opcode) & MLX5_WQE_CTRL_OPCODE_MASK) {
	case MLX5_OPCODE_ATOMIC_CS:
	case MLX5_OPCODE_ATOMIC_FA:
		*wqe += sizeof(struct mlx5_wqe_atomic_seg);
		fallthrough;
	case MLX5_OPCODE_RDMA_WRITE:
	case MLX5_OPCODE_RDMA_WRITE_IMM:
	case MLX5_OPCODE_RDMA_READ:
		*wqe += sizeof(struct mlx5_wqe_raddr_seg);
	}
	return 0;
}

static int shca_wqe_segments(struct shca_pagefault *pfault, const void *wqe, size_t length, bool sq)
{
	struct shca_dev *dev = pfault->dev;
	const void *wqe_end = wqe + length;
	int err;

	if (sq) {
		err = shca_initiator_pfault_handler(&wqe, &wqe_end, length);
		if (err)
			return err;
		return pagefault_data_segments(dev, wqe, wqe_end, pfault->bytes_committed,
					       SHCA_PF_MAX_BYTES, false);
	}
	/* A message may be shorter than its receive: what it does not reach need not be good. */
	err = pagefault_data_segments(dev, wqe, wqe_end, pfault->bytes_committed,
				      SHCA_PF_MAX_BYTES, true);
	if (err == -EFAULT)
		err = pagefault_data_segments(dev, wqe, wqe_end, pfault->bytes_committed,
					      pfault->packet_size, true);
	return err;
}

/* Not even success is certain: -ENOMEM and a dma-buf's -EAGAIN let the HCA ask once more. */
static bool shca_pfault_failed(int err)
{
	return err && err != -EAGAIN && err != -ENOMEM;
}

static void shca_mr_wqe_pfault_handler(struct shca_pagefault *pfault)
{
	struct shca_res *res = shca_res_get(&pfault->dev->qps, pfault->wqe.wq_num);
	bool sq = pfault->type & MLX5_PFAULT_REQUESTOR;
	u16 index = pfault->wqe.wqe_index;
	int err = -ENOMEM;
	struct shca_qp *qp;
	size_t length;
	void *wqe;

	/* It is being destroyed, and its fault with it; or a program made it by DEVX. */
	if (!res) {
		shca_page_fault_resume(pfault, true);
		return;
	}
	qp = container_of(res, struct shca_qp, res);
	wqe = kmalloc(SHCA_PF_MAX_WQE, GFP_KERNEL);
	if (wqe)
		err = sq ? shca_read_wqe_sq(qp, index, wqe, SHCA_PF_MAX_WQE, &length) :
			   shca_read_wqe_rq(qp, index, wqe, SHCA_PF_MAX_WQE, &length);
	/* The pages may take long, and nobody who destroys the queue pair shall wait for them. */
	shca_res_put(res);
	if (!err)
		err = shca_wqe_segments(pfault, wqe, length, sq);
	shca_page_fault_resume(pfault, shca_pfault_failed(err));
	kfree(wqe);
}

static void shca_mr_rdma_pfault_handler(struct shca_pagefault *pfault)
{
	u64 address = pfault->rdma.rdma_va + pfault->bytes_committed;
	u32 length = pfault->rdma.rdma_op_len - pfault->bytes_committed;
	int err;

	err = pagefault_single_data_segment(pfault->dev, pfault->rdma.r_key, address,
					    min(length, SHCA_PF_MAX_BYTES));
	shca_page_fault_resume(pfault, shca_pfault_failed(err));
}

static void shca_eqe_pf_action(struct work_struct *work)
{
	struct shca_pagefault *pfault = container_of(work, struct shca_pagefault, work);

	if (pfault->event_subtype == MLX5_PFAULT_SUBTYPE_WQE)
		shca_mr_wqe_pfault_handler(pfault);
	else
		shca_mr_rdma_pfault_handler(pfault);
	mempool_free(pfault, pfault->dev->odp_pf_eq.pool);
}

static void shca_pfault_decode(struct shca_pagefault *pfault, const struct mlx5_eqe *eqe)
{
	const struct mlx5_eqe_page_fault *event = &eqe->data.page_fault;

	pfault->event_subtype = eqe->sub_type;
	if (eqe->sub_type == MLX5_PFAULT_SUBTYPE_WQE) {
		pfault->bytes_committed = be32_to_cpu(event->wqe.bytes_committed);
		pfault->type = be32_to_cpu(event->wqe.pftype_wq) >> 24 & 7;
		pfault->token = be32_to_cpu(event->wqe.token);
		pfault->packet_size = be16_to_cpu(event->wqe.packet_length);
		pfault->wqe.wq_num = be32_to_cpu(event->wqe.pftype_wq) & 0xffffff;
		pfault->wqe.wqe_index = be16_to_cpu(event->wqe.wqe_index);
	} else {
		pfault->bytes_committed = be32_to_cpu(event->rdma.bytes_committed);
		pfault->type = be32_to_cpu(event->rdma.pftype_token) >> 24;
		pfault->token = be32_to_cpu(event->rdma.pftype_token) & 0xffffff;
		pfault->packet_size = be16_to_cpu(event->rdma.packet_length);
		pfault->rdma.r_key = be32_to_cpu(event->rdma.r_key);
		pfault->rdma.rdma_op_len = be32_to_cpu(event->rdma.rdma_op_len);
		pfault->rdma.rdma_va = be64_to_cpu(event->rdma.rdma_va);
	}
}

/**
 * shca_page_fault() - take a page fault out of its event queue
 * @dev: the device
 * @eqe: the event
 *
 * Context: any; does not sleep.
 * Return: false if there is no memory for it: shca_irq() is called when there is.
 */
bool shca_page_fault(struct shca_dev *dev, const struct mlx5_eqe *eqe)
{
	struct shca_pf_eq *eq = &dev->odp_pf_eq;
	struct shca_pagefault *pfault;

	pfault = mempool_alloc(eq->pool, GFP_ATOMIC);
	if (!pfault) {
		queue_work(dev->wq, &eq->work);
		return false;
	}
	pfault->dev = dev;
	shca_pfault_decode(pfault, eqe);
	INIT_WORK(&pfault->work, shca_eqe_pf_action);
	queue_work(eq->wq, &pfault->work);
	return true;
}

/* Wait until the pool is full again, then go on reading events. */
static void shca_eq_pf_action(struct work_struct *work)
{
	struct shca_pf_eq *eq = container_of(work, struct shca_pf_eq, work);
	struct shca_dev *dev = container_of(eq, struct shca_dev, odp_pf_eq);

	while (eq->pool->curr_nr < eq->pool->min_nr)
		mempool_free(mempool_alloc(eq->pool, GFP_KERNEL), eq->pool);
	shca_irq(dev, SHCA_VECTOR_PF);
}

/**
 * shca_odp_create_eq() - have page faults reported and handled
 * @dev: the device
 *
 * Context: process. Return: 0, also when it was done before; or an errno.
 */
int shca_odp_create_eq(struct shca_dev *dev)
{
	struct shca_pf_eq *eq = &dev->odp_pf_eq;
	int err = 0;

	if (!(dev->odp_caps.general_caps & IB_ODP_SUPPORT))
		return -EOPNOTSUPP;

	mutex_lock(&dev->odp_eq_mutex);
	if (eq->wq)
		goto unlock;
	INIT_WORK(&eq->work, shca_eq_pf_action);
	eq->pool = mempool_create_kmalloc_pool(SHCA_PF_POOL, sizeof(struct shca_pagefault));
	if (!eq->pool) {
		err = -ENOMEM;
		goto unlock;
	}
	/* A fault may wait for long, and the next must not wait for it. */
	eq->wq = alloc_workqueue("softhca_page_fault",
				 WQ_HIGHPRI | WQ_UNBOUND | WQ_MEM_RECLAIM, WQ_MAX_ACTIVE);
	if (!eq->wq) {
		err = -ENOMEM;
		goto destroy_pool;
	}
	err = shca_create_eq(dev, SHCA_VECTOR_PF, SHCA_LOG_PF_EQ,
			     BIT_ULL(MLX5_EVENT_TYPE_PAGE_FAULT));
	if (err)
		goto destroy_wq;
unlock:
	mutex_unlock(&dev->odp_eq_mutex);
	return err;

destroy_wq:
	destroy_workqueue(eq->wq);
	eq->wq = NULL;
destroy_pool:
	mempool_destroy(eq->pool);
	mutex_unlock(&dev->odp_eq_mutex);
	return err;
}

/**
 * shca_odp_destroy_eq() - undo shca_odp_create_eq()
 * @dev: the device; it has no queue pair and no region any more
 *
 * Context: process, waits for the handlers of page faults.
 */
void shca_odp_destroy_eq(struct shca_dev *dev)
{
	struct shca_pf_eq *eq = &dev->odp_pf_eq;

	if (!eq->wq)
		return;
	cancel_work_sync(&eq->work);
	shca_destroy_eq(dev, SHCA_VECTOR_PF);
	destroy_workqueue(eq->wq);
	mempool_destroy(eq->pool);
}
