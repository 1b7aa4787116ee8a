// SPDX-License-Identifier: GPL-2.0
/*
 * Queue pairs of user space: the twin of qp.c and qpc.c.
 *
 * Invariants:
 *  - Sizes and layout come from struct mlx5_ib_create_qp, not from the verbs
 *    capabilities: they describe what libmlx5 really laid out (libmlx5-abi 6.1).
 *  - The pinned buffer is exactly RQ plus SQ.
 *  - The state kept here is that of the last command that succeeded; the HCA may
 *    have moved to the error state since, which QUERY_QP tells.
 */
#include <linux/etherdevice.h>
#include <linux/log2.h>
#include <linux/mlx5/qp.h>

#include "shca.h"

#define SHCA_SEND_WQE_SHIFT	ilog2(MLX5_SEND_WQE_BB)
#define SHCA_RQ_SHIFT_MIN	4	/* one data segment */
#define SHCA_UIDX_MASK		0xffffff

#define SHCA_QP_PGSZ_BITMAP						\
	shca_log_page_size_to_bitmap(__mlx5_bit_sz(qpc, log_page_size),	\
				     MLX5_ADAPTER_PAGE_SHIFT)

static int shca_check_qp_type(struct ib_qp_init_attr *attr, struct ib_udata *udata)
{
	if (!udata)
		return -EOPNOTSUPP;
	if (attr->qp_type != IB_QPT_RC || attr->srq || attr->rwq_ind_tbl)
		return -EOPNOTSUPP;
	return attr->create_flags ? -EOPNOTSUPP : 0;
}

static int shca_process_vendor_flags(struct mlx5_ib_create_qp *ucmd)
{
	/* Scattering data into a CQE is an offer to the HCA, not a demand on it. */
	const u32 accepted = MLX5_QP_FLAG_SCATTER_CQE | MLX5_QP_FLAG_ALLOW_SCATTER_CQE |
			     MLX5_QP_FLAG_UAR_PAGE_INDEX;
	const u32 known = accepted | MLX5_QP_FLAG_SIGNATURE | MLX5_QP_FLAG_TYPE_DCT |
			  MLX5_QP_FLAG_TYPE_DCI | MLX5_QP_FLAG_DCI_STREAM |
			  MLX5_QP_FLAG_PACKET_BASED_CREDIT_MODE;

	if (ucmd->flags & ~known)
		return -EINVAL;
	if (ucmd->flags & ~accepted)
		return -EOPNOTSUPP;
	/* The other kinds of UAR belong to the static mode, which is not offered. */
	return ucmd->flags & MLX5_QP_FLAG_UAR_PAGE_INDEX ? 0 : -EINVAL;
}

static int shca_set_rq_size(struct shca_dev *dev, struct ib_qp_cap *cap, struct shca_qp *qp,
			    struct mlx5_ib_create_qp *ucmd)
{
	unsigned int shift_max = ilog2(SHCA_CAP_GEN(dev, max_wqe_sz_rq));

	if (cap->max_recv_wr > BIT(SHCA_CAP_GEN(dev, log_max_qp_sz)))
		return -EINVAL;
	if (!cap->max_recv_wr) {
		if (ucmd->rq_wqe_count)
			return -EINVAL;
		qp->rq = (struct shca_wq){};
		cap->max_recv_sge = 0;
		return 0;
	}

	if (!is_power_of_2(ucmd->rq_wqe_count) ||
	    ucmd->rq_wqe_count > BIT(SHCA_CAP_GEN(dev, log_max_qp_sz)) ||
	    ucmd->rq_wqe_shift < SHCA_RQ_SHIFT_MIN || ucmd->rq_wqe_shift > shift_max)
		return -EINVAL;
	qp->rq.wqe_cnt = ucmd->rq_wqe_count;
	qp->rq.wqe_shift = ucmd->rq_wqe_shift;
	qp->rq.max_gs = BIT(qp->rq.wqe_shift) / sizeof(struct mlx5_wqe_data_seg);
	return 0;
}

static int shca_set_sq_size(struct shca_dev *dev, struct shca_qp *qp,
			    struct mlx5_ib_create_qp *ucmd)
{
	if (ucmd->sq_wqe_count && !is_power_of_2(ucmd->sq_wqe_count))
		return -EINVAL;
	if (ucmd->sq_wqe_count > BIT(SHCA_CAP_GEN(dev, log_max_qp_sz)))
		return -EINVAL;
	qp->sq.wqe_cnt = ucmd->sq_wqe_count;
	qp->sq.wqe_shift = SHCA_SEND_WQE_SHIFT;
	return 0;
}

/**
 * shca_cmd_create_qp() - CREATE_QP
 * @dev: the device
 * @qpn: number of the QP
 * @in: create_qp_in; the opcode is filled in here
 * @inlen: its length in bytes, page list included
 *
 * Context: process. Return: 0 or an errno.
 */
int shca_cmd_create_qp(struct shca_dev *dev, u32 *qpn, void *in, size_t inlen)
{
	u32 out[MLX5_ST_SZ_DW(create_qp_out)];
	int err;

	MLX5_SET(create_qp_in, in, opcode, MLX5_CMD_OP_CREATE_QP);
	err = shca_cmd_exec(dev, in, inlen, out, sizeof(out));
	if (!err)
		*qpn = MLX5_GET(create_qp_out, out, qpn);
	return err;
}

/**
 * shca_cmd_destroy_qp() - DESTROY_QP
 * @dev: the device
 * @uid: user context that it belongs to
 * @qpn: number of the QP
 *
 * Context: process. Return: 0 or an errno.
 */
int shca_cmd_destroy_qp(struct shca_dev *dev, u16 uid, u32 qpn)
{
	u32 out[MLX5_ST_SZ_DW(destroy_qp_out)];
	u32 in[MLX5_ST_SZ_DW(destroy_qp_in)] = {};

	MLX5_SET(destroy_qp_in, in, opcode, MLX5_CMD_OP_DESTROY_QP);
	MLX5_SET(destroy_qp_in, in, uid, uid);
	MLX5_SET(destroy_qp_in, in, qpn, qpn);
	return shca_cmd_exec(dev, in, sizeof(in), out, sizeof(out));
}

/* Pin the work queues; leaves @page_size 0 when there are none. */
static int shca_qp_pin(struct shca_dev *dev, struct shca_qp *qp, struct ib_udata *udata,
		       u64 buf_addr, unsigned long *page_size, unsigned int *page_offset_quantized)
{
	size_t size = ((size_t)qp->rq.wqe_cnt << qp->rq.wqe_shift) +
		      ((size_t)qp->sq.wqe_cnt << qp->sq.wqe_shift);
	struct ib_umem *umem;

	*page_size = 0;
	if (!size)
		return 0;

	umem = compat_umem_get_qp_buf(&dev->ib_dev, rdma_udata_to_uverbs_attr_bundle(udata),
				      buf_addr, size, 0);
	if (IS_ERR(umem))
		return PTR_ERR(umem);
	/* The bus reaches memory with a struct page only. */
	if (umem->is_dmabuf) {
		ib_umem_release(umem);
		return -EOPNOTSUPP;
	}

	*page_size = shca_umem_find_best_quantized_pgoff(umem, SHCA_QP_PGSZ_BITMAP,
							 __mlx5_bit_sz(qpc, page_offset),
							 GENMASK(31, 6), 64,
							 page_offset_quantized);
	if (!*page_size) {
		ib_umem_release(umem);
		return -EINVAL;
	}
	qp->umem = umem;
	return 0;
}

static void shca_qpc_set_queues(void *qpc, struct shca_qp *qp, unsigned long page_size,
				unsigned int page_offset_quantized)
{
	if (page_size) {
		MLX5_SET(qpc, qpc, log_page_size,
			 order_base_2(page_size) - MLX5_ADAPTER_PAGE_SHIFT);
		MLX5_SET(qpc, qpc, page_offset, page_offset_quantized);
	}
	if (qp->rq.wqe_cnt) {
		MLX5_SET(qpc, qpc, log_rq_stride, qp->rq.wqe_shift - SHCA_RQ_SHIFT_MIN);
		MLX5_SET(qpc, qpc, log_rq_size, ilog2(qp->rq.wqe_cnt));
		MLX5_SET(qpc, qpc, rq_type, MLX5_NON_ZERO_RQ);
	} else {
		MLX5_SET(qpc, qpc, rq_type, MLX5_ZERO_LEN_RQ);
	}
	if (qp->sq.wqe_cnt)
		MLX5_SET(qpc, qpc, log_sq_size, ilog2(qp->sq.wqe_cnt));
	else
		MLX5_SET(qpc, qpc, no_sq, 1);
}

/**
 * shca_create_qp() - create an RC queue pair on queues of user space
 * @ibqp: the QP
 * @attr: type, CQs, capabilities; the latter stay as they came
 * @udata: request struct mlx5_ib_create_qp, response struct mlx5_ib_create_qp_resp
 *
 * Context: process.
 * Return: 0; -EOPNOTSUPP for what is not offered; -EINVAL for a request that
 * makes no sense; or an errno. Source: libmlx5-abi 6.1.
 */
int shca_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr, struct ib_udata *udata)
{
	struct shca_dev *dev = to_sdev(ibqp->device);
	struct mlx5_ib_create_qp_resp resp = {};
	struct shca_qp *qp = to_sqp(ibqp);
	unsigned int page_offset_quantized = 0;
	struct shca_ucontext *context;
	struct mlx5_ib_create_qp ucmd;
	unsigned long page_size;
	size_t inlen;
	void *qpc;
	u32 *in;
	int err;

	err = shca_check_qp_type(attr, udata);
	if (err)
		return err;
	context = rdma_udata_to_drv_context(udata, struct shca_ucontext, ibucontext);

	err = ib_copy_validate_udata_in(udata, ucmd, access_key);
	if (err)
		return err;
	if (ucmd.reserved || ucmd.ece_options || ucmd.dci_streams.log_num_concurent ||
	    ucmd.dci_streams.log_num_errored)
		return -EINVAL;
	err = shca_process_vendor_flags(&ucmd);
	if (err)
		return err;
	if (ucmd.uidx & ~SHCA_UIDX_MASK)
		return -EINVAL;
	err = shca_set_rq_size(dev, &attr->cap, qp, &ucmd);
	if (err)
		return err;
	err = shca_set_sq_size(dev, qp, &ucmd);
	if (err)
		return err;

	mutex_init(&qp->mutex);
	qp->uar_id = ucmd.bfreg_index;
	qp->sq_sig_all = attr->sq_sig_type == IB_SIGNAL_ALL_WR;
	qp->state = IB_QPS_RESET;

	err = shca_uar_use(context, qp->uar_id);
	if (err)
		return err;
	err = shca_qp_pin(dev, qp, udata, ucmd.buf_addr, &page_size, &page_offset_quantized);
	if (err)
		goto unuse_uar;
	err = shca_db_map_user(context, ucmd.db_addr, &qp->db);
	if (err)
		goto release_umem;

	inlen = MLX5_ST_SZ_BYTES(create_qp_in);
	if (page_size)
		inlen += MLX5_FLD_SZ_BYTES(create_qp_in, pas[0]) *
			 ib_umem_num_dma_blocks(qp->umem, page_size);
	in = kvzalloc(inlen, GFP_KERNEL);
	if (!in) {
		err = -ENOMEM;
		goto unmap_db;
	}
	if (page_size)
		shca_populate_pas(qp->umem, page_size, MLX5_ADDR_OF(create_qp_in, in, pas), 0);
	MLX5_SET(create_qp_in, in, uid, to_spd(ibqp->pd)->uid);
	qpc = MLX5_ADDR_OF(create_qp_in, in, qpc);
	shca_qpc_set_queues(qpc, qp, page_size, page_offset_quantized);
	MLX5_SET(qpc, qpc, st, MLX5_QP_ST_RC);
	MLX5_SET(qpc, qpc, pm_state, MLX5_QP_PM_MIGRATED);
	MLX5_SET(qpc, qpc, pd, to_spd(ibqp->pd)->pdn);
	MLX5_SET(qpc, qpc, uar_page, qp->uar_id);
	MLX5_SET(qpc, qpc, user_index, ucmd.uidx);
	MLX5_SET(qpc, qpc, cqn_snd, to_scq(attr->send_cq)->cqn);
	MLX5_SET(qpc, qpc, cqn_rcv, to_scq(attr->recv_cq)->cqn);
	MLX5_SET64(qpc, qpc, dbr_addr, qp->db.dma);

	err = shca_cmd_create_qp(dev, &qp->qpn, in, inlen);
	kvfree(in);
	if (err)
		goto unmap_db;
	ibqp->qp_num = qp->qpn;
	err = shca_res_add(&dev->qps, &qp->res, qp->qpn);
	if (err)
		goto destroy_qp;

	resp.bfreg_index = ucmd.bfreg_index;
	err = ib_respond_udata(udata, resp);
	if (err)
		goto del_res;
	return 0;

del_res:
	shca_res_del(&dev->qps, &qp->res, qp->qpn);
destroy_qp:
	shca_cmd_destroy_qp(dev, to_spd(ibqp->pd)->uid, qp->qpn);
unmap_db:
	shca_db_unmap_user(context, &qp->db);
release_umem:
	ib_umem_release(qp->umem);
unuse_uar:
	shca_uar_unuse(context, qp->uar_id);
	return err;
}

/**
 * shca_destroy_qp() - destroy a queue pair
 * @ibqp: the QP
 * @udata: context of the caller
 *
 * When it returns, nothing more is completed for this QP, and none of its event
 * handlers runs.
 *
 * Context: process. Return: 0, or an errno with the QP still alive.
 */
int shca_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct shca_ucontext *context =
		rdma_udata_to_drv_context(udata, struct shca_ucontext, ibucontext);
	struct shca_dev *dev = to_sdev(ibqp->device);
	struct shca_qp *qp = to_sqp(ibqp);
	int err;

	err = shca_cmd_destroy_qp(dev, to_spd(ibqp->pd)->uid, qp->qpn);
	if (err)
		return err;
	shca_res_del(&dev->qps, &qp->res, qp->qpn);
	shca_db_unmap_user(context, &qp->db);
	ib_umem_release(qp->umem);
	shca_uar_unuse(context, qp->uar_id);
	return 0;
}

static enum mlx5_qp_state to_mlx5_state(enum ib_qp_state state)
{
	switch (state) {
	case IB_QPS_RESET:	return MLX5_QP_STATE_RST;
	case IB_QPS_INIT:	return MLX5_QP_STATE_INIT;
	case IB_QPS_RTR:	return MLX5_QP_STATE_RTR;
	case IB_QPS_RTS:	return MLX5_QP_STATE_RTS;
	case IB_QPS_SQD:	return MLX5_QP_STATE_SQD;
	case IB_QPS_SQE:	return MLX5_QP_STATE_SQER;
	case IB_QPS_ERR:	return MLX5_QP_STATE_ERR;
	}
	return MLX5_QP_NUM_STATE;
}

static enum ib_qp_state to_ib_qp_state(enum mlx5_qp_state state)
{
	switch (state) {
	case MLX5_QP_STATE_RST:		return IB_QPS_RESET;
	case MLX5_QP_STATE_INIT:	return IB_QPS_INIT;
	case MLX5_QP_STATE_RTR:		return IB_QPS_RTR;
	case MLX5_QP_STATE_RTS:		return IB_QPS_RTS;
	case MLX5_QP_STATE_SQ_DRAINING:
	case MLX5_QP_STATE_SQD:		return IB_QPS_SQD;
	case MLX5_QP_STATE_SQER:	return IB_QPS_SQE;
	default:			return IB_QPS_ERR;
	}
}

/* Which fields a transition takes only when opt_param_mask names them. */
static const u32 shca_opt_mask[MLX5_QP_NUM_STATE][MLX5_QP_NUM_STATE] = {
	[MLX5_QP_STATE_INIT] = {
		[MLX5_QP_STATE_INIT] =
			MLX5_QP_OPTPAR_RRE | MLX5_QP_OPTPAR_RAE | MLX5_QP_OPTPAR_RWE |
			MLX5_QP_OPTPAR_PKEY_INDEX | MLX5_QP_OPTPAR_PRI_PORT,
		[MLX5_QP_STATE_RTR] =
			MLX5_QP_OPTPAR_RRE | MLX5_QP_OPTPAR_RAE | MLX5_QP_OPTPAR_RWE |
			MLX5_QP_OPTPAR_PKEY_INDEX,
	},
	[MLX5_QP_STATE_RTR] = {
		[MLX5_QP_STATE_RTS] =
			MLX5_QP_OPTPAR_RRE | MLX5_QP_OPTPAR_RAE | MLX5_QP_OPTPAR_RWE |
			MLX5_QP_OPTPAR_PM_STATE | MLX5_QP_OPTPAR_RNR_TIMEOUT,
	},
	[MLX5_QP_STATE_RTS] = {
		[MLX5_QP_STATE_RTS] =
			MLX5_QP_OPTPAR_RRE | MLX5_QP_OPTPAR_RAE | MLX5_QP_OPTPAR_RWE |
			MLX5_QP_OPTPAR_PM_STATE | MLX5_QP_OPTPAR_RNR_TIMEOUT,
	},
};

static u32 shca_ib_mask_to_opt(int ib_mask)
{
	static const struct {
		int ib_mask;
		u32 opt;
	} map[] = {
		{ IB_QP_ACCESS_FLAGS, MLX5_QP_OPTPAR_RWE | MLX5_QP_OPTPAR_RRE |
				      MLX5_QP_OPTPAR_RAE },
		{ IB_QP_PKEY_INDEX, MLX5_QP_OPTPAR_PKEY_INDEX },
		{ IB_QP_PORT, MLX5_QP_OPTPAR_PRI_PORT },
		{ IB_QP_AV, MLX5_QP_OPTPAR_PRIMARY_ADDR_PATH | MLX5_QP_OPTPAR_PRI_PORT },
		{ IB_QP_TIMEOUT, MLX5_QP_OPTPAR_ACK_TIMEOUT },
		{ IB_QP_RETRY_CNT, MLX5_QP_OPTPAR_RETRY_COUNT },
		{ IB_QP_RNR_RETRY, MLX5_QP_OPTPAR_RNR_RETRY },
		{ IB_QP_MAX_QP_RD_ATOMIC, MLX5_QP_OPTPAR_SRA_MAX },
		{ IB_QP_MIN_RNR_TIMER, MLX5_QP_OPTPAR_RNR_TIMEOUT },
		/* A depth of 0 takes the rights to read and to do atomics with it. */
		{ IB_QP_MAX_DEST_RD_ATOMIC, MLX5_QP_OPTPAR_RRA_MAX | MLX5_QP_OPTPAR_RWE |
					    MLX5_QP_OPTPAR_RRE | MLX5_QP_OPTPAR_RAE },
		{ IB_QP_PATH_MIG_STATE, MLX5_QP_OPTPAR_PM_STATE },
	};
	u32 opt = 0;
	int i;

	for (i = 0; i < ARRAY_SIZE(map); i++)
		if (ib_mask & map[i].ib_mask)
			opt |= map[i].opt;
	return opt;
}

static void shca_set_qpc_atomic_flags(struct shca_qp *qp, const struct ib_qp_attr *attr,
				      int attr_mask, void *qpc)
{
	u8 dest_rd_atomic = qp->resp_depth;
	u32 access_flags = qp->atomic_rd_en;

	if (attr_mask & IB_QP_MAX_DEST_RD_ATOMIC)
		dest_rd_atomic = attr->max_dest_rd_atomic;
	if (attr_mask & IB_QP_ACCESS_FLAGS)
		access_flags = attr->qp_access_flags;
	if (!dest_rd_atomic)
		access_flags &= IB_ACCESS_REMOTE_WRITE;

	MLX5_SET(qpc, qpc, rre, !!(access_flags & IB_ACCESS_REMOTE_READ));
	MLX5_SET(qpc, qpc, rwe, !!(access_flags & IB_ACCESS_REMOTE_WRITE));
	if (access_flags & IB_ACCESS_REMOTE_ATOMIC) {
		MLX5_SET(qpc, qpc, rae, 1);
		MLX5_SET(qpc, qpc, atomic_mode, MLX5_ATOMIC_MODE_IB_COMP);
	}
}

static int shca_set_path(struct shca_dev *dev, struct shca_qp *qp, const struct rdma_ah_attr *ah,
			 void *path, u32 port, int attr_mask, const struct ib_qp_attr *attr)
{
	const struct ib_global_route *grh = rdma_ah_read_grh(ah);

	if (ah->type != RDMA_AH_ATTR_TYPE_ROCE || !(rdma_ah_get_ah_flags(ah) & IB_AH_GRH))
		return -EINVAL;
	if (grh->sgid_index >= SHCA_CAP_ROCE(dev, roce_address_table_size))
		return -EINVAL;

	ether_addr_copy(MLX5_ADDR_OF(ads, path, rmac_47_32), ah->roce.dmac);
	if (attr_mask & IB_QP_DEST_QPN) {
		u32 flow_label = grh->flow_label;

		if (!flow_label)
			flow_label = rdma_calc_flow_label(qp->qpn, attr->dest_qp_num);
		MLX5_SET(ads, path, udp_sport, rdma_flow_label_to_udp_sport(flow_label));
	}
	MLX5_SET(ads, path, eth_prio, rdma_ah_get_sl(ah) & 0x7);
	MLX5_SET(ads, path, dscp, grh->traffic_class >> 2);
	MLX5_SET(ads, path, src_addr_index, grh->sgid_index);
	MLX5_SET(ads, path, hop_limit, grh->hop_limit);
	MLX5_SET(ads, path, tclass, grh->traffic_class);
	MLX5_SET(ads, path, flow_label, grh->flow_label);
	memcpy(MLX5_ADDR_OF(ads, path, rgid_rip), grh->dgid.raw, sizeof(grh->dgid.raw));
	MLX5_SET(ads, path, vhca_port_num, port);
	return 0;
}

static int shca_build_qpc(struct shca_dev *dev, struct shca_qp *qp, const struct ib_qp_attr *attr,
			  int attr_mask, enum ib_qp_state cur_state, enum ib_qp_state new_state,
			  void *qpc)
{
	void *pri_path = MLX5_ADDR_OF(qpc, qpc, primary_address_path);
	int err;

	MLX5_SET(qpc, qpc, st, MLX5_QP_ST_RC);
	MLX5_SET(qpc, qpc, pm_state, MLX5_QP_PM_MIGRATED);
	MLX5_SET(qpc, qpc, pd, to_spd(qp->ibqp.pd)->pdn);
	MLX5_SET(qpc, qpc, cqn_snd, to_scq(qp->ibqp.send_cq)->cqn);
	MLX5_SET(qpc, qpc, cqn_rcv, to_scq(qp->ibqp.recv_cq)->cqn);

	if (attr_mask & IB_QP_PATH_MTU) {
		if (attr->path_mtu < IB_MTU_256 || attr->path_mtu > IB_MTU_4096)
			return -EINVAL;
		MLX5_SET(qpc, qpc, mtu, attr->path_mtu);
		MLX5_SET(qpc, qpc, log_msg_max, SHCA_CAP_GEN(dev, log_max_msg));
	}
	if (attr_mask & IB_QP_DEST_QPN)
		MLX5_SET(qpc, qpc, remote_qpn, attr->dest_qp_num);
	if (attr_mask & IB_QP_PKEY_INDEX)
		MLX5_SET(ads, pri_path, pkey_index, attr->pkey_index);
	if (attr_mask & IB_QP_PORT)
		MLX5_SET(ads, pri_path, vhca_port_num, attr->port_num);
	if (attr_mask & IB_QP_AV) {
		err = shca_set_path(dev, qp, &attr->ah_attr, pri_path,
				    attr_mask & IB_QP_PORT ? attr->port_num : qp->port,
				    attr_mask, attr);
		if (err)
			return err;
	}
	if (attr_mask & IB_QP_TIMEOUT)
		MLX5_SET(ads, pri_path, ack_timeout, attr->timeout);
	if (attr_mask & IB_QP_RNR_RETRY)
		MLX5_SET(qpc, qpc, rnr_retry, attr->rnr_retry);
	if (attr_mask & IB_QP_RETRY_CNT)
		MLX5_SET(qpc, qpc, retry_count, attr->retry_cnt);
	if (attr_mask & IB_QP_MAX_QP_RD_ATOMIC && attr->max_rd_atomic)
		MLX5_SET(qpc, qpc, log_sra_max, fls(attr->max_rd_atomic - 1));
	if (attr_mask & IB_QP_MAX_DEST_RD_ATOMIC && attr->max_dest_rd_atomic)
		MLX5_SET(qpc, qpc, log_rra_max, fls(attr->max_dest_rd_atomic - 1));
	if (attr_mask & (IB_QP_ACCESS_FLAGS | IB_QP_MAX_DEST_RD_ATOMIC))
		shca_set_qpc_atomic_flags(qp, attr, attr_mask, qpc);
	if (attr_mask & IB_QP_SQ_PSN)
		MLX5_SET(qpc, qpc, next_send_psn, attr->sq_psn);
	if (attr_mask & IB_QP_RQ_PSN)
		MLX5_SET(qpc, qpc, next_rcv_psn, attr->rq_psn);
	if (attr_mask & IB_QP_MIN_RNR_TIMER)
		MLX5_SET(qpc, qpc, min_rnr_nak, attr->min_rnr_timer);
	if (cur_state == IB_QPS_RESET && new_state == IB_QPS_INIT)
		MLX5_SET64(qpc, qpc, dbr_addr, qp->db.dma);
	return 0;
}

/**
 * shca_cmd_qp_modify() - a transition of a QP
 * @dev: the device
 * @uid: user context that it belongs to
 * @opcode: MLX5_CMD_OP_*2*_QP
 * @opt_param_mask: which of the optional fields count
 * @qpc: context; not read for 2RST and 2ERR
 * @qpn: number of the QP
 *
 * Context: process; allocates nothing. Return: 0 or an errno.
 */
int shca_cmd_qp_modify(struct shca_dev *dev, u16 uid, u16 opcode, u32 opt_param_mask,
		       const void *qpc, u32 qpn)
{
	/* All transitions have the layout of RST2INIT; 2RST and 2ERR end before the context. */
	u8 in[MLX5_ST_SZ_BYTES(rst2init_qp_in)] __aligned(sizeof(u64)) = {};
	u32 out[MLX5_ST_SZ_DW(rst2init_qp_out)];

	BUILD_BUG_ON(MLX5_ST_SZ_BYTES(init2rtr_qp_in) != MLX5_ST_SZ_BYTES(rst2init_qp_in));
	BUILD_BUG_ON(MLX5_ST_SZ_BYTES(rtr2rts_qp_in) != MLX5_ST_SZ_BYTES(rst2init_qp_in));
	BUILD_BUG_ON(MLX5_ST_SZ_BYTES(rts2rts_qp_in) != MLX5_ST_SZ_BYTES(rst2init_qp_in));
	BUILD_BUG_ON(MLX5_ST_SZ_BYTES(init2init_qp_in) != MLX5_ST_SZ_BYTES(rst2init_qp_in));

	MLX5_SET(rst2init_qp_in, in, opcode, opcode);
	MLX5_SET(rst2init_qp_in, in, uid, uid);
	MLX5_SET(rst2init_qp_in, in, qpn, qpn);
	if (opcode != MLX5_CMD_OP_2RST_QP && opcode != MLX5_CMD_OP_2ERR_QP) {
		MLX5_SET(rst2init_qp_in, in, opt_param_mask, opt_param_mask);
		memcpy(MLX5_ADDR_OF(rst2init_qp_in, in, qpc), qpc, MLX5_ST_SZ_BYTES(qpc));
	}
	return shca_cmd_exec(dev, in, sizeof(in), out, sizeof(out));
}

static int __shca_modify_qp(struct shca_dev *dev, struct shca_qp *qp,
			    const struct ib_qp_attr *attr, int attr_mask,
			    enum ib_qp_state cur_state, enum ib_qp_state new_state)
{
	static const u16 optab[MLX5_QP_NUM_STATE][MLX5_QP_NUM_STATE] = {
		[MLX5_QP_STATE_RST] = {
			[MLX5_QP_STATE_RST]	= MLX5_CMD_OP_2RST_QP,
			[MLX5_QP_STATE_ERR]	= MLX5_CMD_OP_2ERR_QP,
			[MLX5_QP_STATE_INIT]	= MLX5_CMD_OP_RST2INIT_QP,
		},
		[MLX5_QP_STATE_INIT] = {
			[MLX5_QP_STATE_RST]	= MLX5_CMD_OP_2RST_QP,
			[MLX5_QP_STATE_ERR]	= MLX5_CMD_OP_2ERR_QP,
			[MLX5_QP_STATE_INIT]	= MLX5_CMD_OP_INIT2INIT_QP,
			[MLX5_QP_STATE_RTR]	= MLX5_CMD_OP_INIT2RTR_QP,
		},
		[MLX5_QP_STATE_RTR] = {
			[MLX5_QP_STATE_RST]	= MLX5_CMD_OP_2RST_QP,
			[MLX5_QP_STATE_ERR]	= MLX5_CMD_OP_2ERR_QP,
			[MLX5_QP_STATE_RTS]	= MLX5_CMD_OP_RTR2RTS_QP,
		},
		[MLX5_QP_STATE_RTS] = {
			[MLX5_QP_STATE_RST]	= MLX5_CMD_OP_2RST_QP,
			[MLX5_QP_STATE_ERR]	= MLX5_CMD_OP_2ERR_QP,
			[MLX5_QP_STATE_RTS]	= MLX5_CMD_OP_RTS2RTS_QP,
		},
		[MLX5_QP_STATE_ERR] = {
			[MLX5_QP_STATE_RST]	= MLX5_CMD_OP_2RST_QP,
			[MLX5_QP_STATE_ERR]	= MLX5_CMD_OP_2ERR_QP,
		},
	};
	enum mlx5_qp_state mlx5_cur = to_mlx5_state(cur_state);
	enum mlx5_qp_state mlx5_new = to_mlx5_state(new_state);
	u32 optpar;
	void *qpc;
	int err;

	if (mlx5_cur >= MLX5_QP_NUM_STATE || mlx5_new >= MLX5_QP_NUM_STATE ||
	    !optab[mlx5_cur][mlx5_new])
		return -EINVAL;

	qpc = kzalloc(MLX5_ST_SZ_BYTES(qpc), GFP_KERNEL);
	if (!qpc)
		return -ENOMEM;
	err = shca_build_qpc(dev, qp, attr, attr_mask, cur_state, new_state, qpc);
	if (err)
		goto free_qpc;

	optpar = shca_ib_mask_to_opt(attr_mask) & shca_opt_mask[mlx5_cur][mlx5_new];
	err = shca_cmd_qp_modify(dev, to_spd(qp->ibqp.pd)->uid, optab[mlx5_cur][mlx5_new], optpar,
				 qpc, qp->qpn);
	if (err)
		goto free_qpc;

	qp->state = new_state;
	if (attr_mask & IB_QP_ACCESS_FLAGS)
		qp->atomic_rd_en = attr->qp_access_flags;
	if (attr_mask & IB_QP_MAX_DEST_RD_ATOMIC)
		qp->resp_depth = attr->max_dest_rd_atomic;
	if (attr_mask & IB_QP_PORT)
		qp->port = attr->port_num;

free_qpc:
	kfree(qpc);
	return err;
}

static bool shca_validate_attr(struct shca_dev *dev, const struct ib_qp_attr *attr, int attr_mask)
{
	if (attr_mask & IB_QP_PORT && !rdma_is_port_valid(&dev->ib_dev, attr->port_num))
		return false;
	if (attr_mask & IB_QP_PKEY_INDEX && attr->pkey_index)
		return false;
	if (attr_mask & IB_QP_MAX_QP_RD_ATOMIC &&
	    attr->max_rd_atomic > BIT(SHCA_CAP_GEN(dev, log_max_ra_req_qp)))
		return false;
	if (attr_mask & IB_QP_MAX_DEST_RD_ATOMIC &&
	    attr->max_dest_rd_atomic > BIT(SHCA_CAP_GEN(dev, log_max_ra_res_qp)))
		return false;
	return true;
}

/**
 * shca_modify_qp() - change state or attributes of a queue pair
 * @ibqp: the QP
 * @attr: new attributes
 * @attr_mask: which of them count
 * @udata: optional request struct mlx5_ib_modify_qp, which has to be all zero
 *
 * Context: process.
 * Return: 0; -EOPNOTSUPP for alternate paths, rate limits and what else is not
 * offered; -EINVAL for a transition that does not exist. Source: libmlx5-abi 6.3.
 */
int shca_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int attr_mask,
		   struct ib_udata *udata)
{
	struct shca_dev *dev = to_sdev(ibqp->device);
	enum ib_qp_state cur_state, new_state;
	struct shca_qp *qp = to_sqp(ibqp);
	int err;

	if (attr_mask & ~IB_QP_ATTR_STANDARD_BITS || attr_mask & IB_QP_ALT_PATH)
		return -EOPNOTSUPP;
	if (attr_mask & IB_QP_PATH_MIG_STATE && attr->path_mig_state != IB_MIG_MIGRATED)
		return -EOPNOTSUPP;
	err = ib_is_udata_in_empty(udata);
	if (err)
		return err;

	mutex_lock(&qp->mutex);
	cur_state = attr_mask & IB_QP_CUR_STATE ? attr->cur_qp_state : qp->state;
	new_state = attr_mask & IB_QP_STATE ? attr->qp_state : cur_state;

	if (!ib_modify_qp_is_ok(cur_state, new_state, ibqp->qp_type, attr_mask) ||
	    !shca_validate_attr(dev, attr, attr_mask)) {
		err = -EINVAL;
		goto unlock;
	}
	if (cur_state == IB_QPS_RESET && new_state == IB_QPS_RESET)
		goto unlock;
	err = __shca_modify_qp(dev, qp, attr, attr_mask, cur_state, new_state);

unlock:
	mutex_unlock(&qp->mutex);
	return err;
}

static void to_rdma_ah_attr(struct shca_dev *dev, struct rdma_ah_attr *ah_attr, void *path)
{
	u32 port = MLX5_GET(ads, path, vhca_port_num);

	if (!rdma_is_port_valid(&dev->ib_dev, port))
		return;

	ah_attr->type = rdma_ah_find_type(&dev->ib_dev, port);
	rdma_ah_set_port_num(ah_attr, port);
	rdma_ah_set_sl(ah_attr, MLX5_GET(ads, path, eth_prio));
	rdma_ah_set_grh(ah_attr, NULL, MLX5_GET(ads, path, flow_label),
			MLX5_GET(ads, path, src_addr_index), MLX5_GET(ads, path, hop_limit),
			MLX5_GET(ads, path, tclass));
	rdma_ah_set_dgid_raw(ah_attr, MLX5_ADDR_OF(ads, path, rgid_rip));
	ether_addr_copy(ah_attr->roce.dmac, MLX5_ADDR_OF(ads, path, rmac_47_32));
}

static int shca_query_qp_attr(struct shca_dev *dev, struct shca_qp *qp, struct ib_qp_attr *qp_attr)
{
	size_t outlen = MLX5_ST_SZ_BYTES(query_qp_out);
	void *out, *qpc, *pri_path;
	int err;

	out = kzalloc(outlen, GFP_KERNEL);
	if (!out)
		return -ENOMEM;
	err = shca_cmd_query_qp(dev, qp->qpn, out, outlen);
	if (err)
		goto free_out;

	qpc = MLX5_ADDR_OF(query_qp_out, out, qpc);
	qp->state = to_ib_qp_state(MLX5_GET(qpc, qpc, state));
	qp_attr->path_mtu = MLX5_GET(qpc, qpc, mtu);
	qp_attr->path_mig_state = IB_MIG_MIGRATED;
	qp_attr->qkey = MLX5_GET(qpc, qpc, q_key);
	qp_attr->rq_psn = MLX5_GET(qpc, qpc, next_rcv_psn);
	qp_attr->sq_psn = MLX5_GET(qpc, qpc, next_send_psn);
	qp_attr->dest_qp_num = MLX5_GET(qpc, qpc, remote_qpn);
	if (MLX5_GET(qpc, qpc, rre))
		qp_attr->qp_access_flags |= IB_ACCESS_REMOTE_READ;
	if (MLX5_GET(qpc, qpc, rwe))
		qp_attr->qp_access_flags |= IB_ACCESS_REMOTE_WRITE;
	if (MLX5_GET(qpc, qpc, rae))
		qp_attr->qp_access_flags |= IB_ACCESS_REMOTE_ATOMIC;
	qp_attr->max_rd_atomic = 1 << MLX5_GET(qpc, qpc, log_sra_max);
	qp_attr->max_dest_rd_atomic = 1 << MLX5_GET(qpc, qpc, log_rra_max);
	qp_attr->min_rnr_timer = MLX5_GET(qpc, qpc, min_rnr_nak);
	qp_attr->retry_cnt = MLX5_GET(qpc, qpc, retry_count);
	qp_attr->rnr_retry = MLX5_GET(qpc, qpc, rnr_retry);

	pri_path = MLX5_ADDR_OF(qpc, qpc, primary_address_path);
	to_rdma_ah_attr(dev, &qp_attr->ah_attr, pri_path);
	qp_attr->pkey_index = MLX5_GET(ads, pri_path, pkey_index);
	qp_attr->port_num = MLX5_GET(ads, pri_path, vhca_port_num);
	qp_attr->timeout = MLX5_GET(ads, pri_path, ack_timeout);

free_out:
	kfree(out);
	return err;
}

/**
 * shca_query_qp() - ask the HCA for state and attributes of a queue pair
 * @ibqp: the QP
 * @qp_attr: filled in
 * @qp_attr_mask: what the caller is interested in; everything is answered
 * @qp_init_attr: filled in
 *
 * The send capabilities stay 0: libmlx5 knows them and the driver does not.
 *
 * Context: process. Return: 0 or an errno.
 */
int shca_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *qp_attr, int qp_attr_mask,
		  struct ib_qp_init_attr *qp_init_attr)
{
	struct shca_dev *dev = to_sdev(ibqp->device);
	struct shca_qp *qp = to_sqp(ibqp);
	int err;

	memset(qp_init_attr, 0, sizeof(*qp_init_attr));
	memset(qp_attr, 0, sizeof(*qp_attr));

	mutex_lock(&qp->mutex);
	err = shca_query_qp_attr(dev, qp, qp_attr);
	qp_attr->qp_state = qp->state;
	mutex_unlock(&qp->mutex);
	if (err)
		return err;

	qp_attr->cur_qp_state = qp_attr->qp_state;
	qp_attr->cap.max_recv_wr = qp->rq.wqe_cnt;
	qp_attr->cap.max_recv_sge = qp->rq.max_gs;

	qp_init_attr->qp_type = ibqp->qp_type;
	qp_init_attr->recv_cq = ibqp->recv_cq;
	qp_init_attr->send_cq = ibqp->send_cq;
	qp_init_attr->cap = qp_attr->cap;
	qp_init_attr->sq_sig_type = qp->sq_sig_all ? IB_SIGNAL_ALL_WR : IB_SIGNAL_REQ_WR;
	return 0;
}

/**
 * shca_read_wqe_sq() - read a send request out of its queue
 * @qp: the QP
 * @index: its first basic block, counted on without end
 * @buffer: filled in
 * @buflen: bytes of it
 * @bc: bytes read: whole basic blocks, as many as the request says it takes
 *
 * Context: process.
 * Return: 0; -EINVAL if there is no queue or the request does not fit; or an errno.
 */
int shca_read_wqe_sq(struct shca_qp *qp, u16 index, void *buffer, size_t buflen, size_t *bc)
{
	size_t base = (size_t)qp->rq.wqe_cnt << qp->rq.wqe_shift;
	struct mlx5_wqe_ctrl_seg *ctrl = buffer;
	size_t at = 0, length = MLX5_SEND_WQE_BB;
	int err;

	if (!qp->sq.wqe_cnt)
		return -EINVAL;
	for (; at < length; at += MLX5_SEND_WQE_BB, index++) {
		if (at + MLX5_SEND_WQE_BB > buflen)
			return -EINVAL;
		err = ib_umem_copy_from(buffer + at, qp->umem, base +
					(index & (qp->sq.wqe_cnt - 1)) * MLX5_SEND_WQE_BB,
					MLX5_SEND_WQE_BB);
		if (err)
			return err;
		length = (be32_to_cpu(ctrl->qpn_ds) & MLX5_WQE_CTRL_DS_MASK) * MLX5_SEND_WQE_DS;
	}
	*bc = at;
	return 0;
}

/**
 * shca_read_wqe_rq() - read a receive request out of its queue
 * @qp: the QP
 * @index: its number, counted on without end
 * @buffer: filled in
 * @buflen: bytes of it
 * @bc: bytes read
 *
 * Context: process.
 * Return: 0; -EINVAL if there is no queue or the request does not fit; or an errno.
 */
int shca_read_wqe_rq(struct shca_qp *qp, u16 index, void *buffer, size_t buflen, size_t *bc)
{
	size_t length = BIT(qp->rq.wqe_shift);

	if (!qp->rq.wqe_cnt || length > buflen)
		return -EINVAL;
	*bc = length;
	return ib_umem_copy_from(buffer, qp->umem,
				 (size_t)(index & (qp->rq.wqe_cnt - 1)) << qp->rq.wqe_shift,
				 length);
}
