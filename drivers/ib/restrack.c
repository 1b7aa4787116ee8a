// SPDX-License-Identifier: GPL-2.0
/*
 * What `rdma resource show` tells of our objects: the twin of restrack.c.
 *
 * Invariants:
 *  - The raw dump of an object is the answer of its QUERY command, from the
 *    context on: the bytes that the HCA itself keeps. The core shows it to
 *    CAP_NET_ADMIN only.
 *  - The cooked attributes hold no DMA address.
 */
#include <hca/explain.h>
#include <rdma/rdma_netlink.h>
#include <rdma/restrack.h>
#include <uapi/rdma/rdma_netlink.h>

#include "shca.h"

/* Translation entries in a raw dump: as many octowords as one netlink message bears. */
#define SHCA_RAW_OCTOWORDS	32

static int shca_fill_res_mr_entry_raw(struct sk_buff *msg, struct ib_mr *ibmr)
{
	size_t xlt_offset = MLX5_BYTE_OFF(query_mkey_out, bsf0_klm0_pas_mtt0_1);
	size_t mkc_offset = MLX5_BYTE_OFF(query_mkey_out, memory_key_mkey_entry);
	struct shca_mr *mr = to_smr(ibmr);
	size_t outlen;
	void *out;
	int err;

	outlen = xlt_offset + min(mr->mmkey.ndescs, SHCA_RAW_OCTOWORDS) * SHCA_OCTOWORD;
	out = kzalloc(outlen, GFP_KERNEL);
	if (!out)
		return -ENOMEM;
	err = shca_cmd_query_mkey(to_sdev(ibmr->device), mr->mmkey.key, out, outlen);
	if (!err)
		err = nla_put(msg, RDMA_NLDEV_ATTR_RES_RAW, outlen - mkc_offset, out + mkc_offset);
	kfree(out);
	return err;
}

static int shca_fill_res_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr)
{
	struct shca_mr *mr = to_smr(ibmr);
	struct nlattr *table;

	table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	if (!table)
		return -EMSGSIZE;
	if (rdma_nl_put_driver_u32_hex(msg, "mkey_index", shca_mkey_to_idx(mr->mmkey.key)) ||
	    rdma_nl_put_driver_u32(msg, "log_page_size", mr->page_shift) ||
	    rdma_nl_put_driver_u32(msg, "xlt_octowords", mr->mmkey.ndescs))
		goto cancel;
	if (is_odp_mr(mr) &&
	    rdma_nl_put_driver_string(msg, "odp", mr->is_odp_implicit ? "implicit" : "explicit"))
		goto cancel;
	nla_nest_end(msg, table);
	return 0;

cancel:
	nla_nest_cancel(msg, table);
	return -EMSGSIZE;
}

/* What page faults have done to a region. */
static int shca_fill_stat_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr)
{
	struct shca_odp_stats *stats = &to_smr(ibmr)->odp_stats;
	struct nlattr *table;

	if (!is_odp_mr(to_smr(ibmr)))
		return 0;
	table = nla_nest_start(msg, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
	if (!table)
		return -EMSGSIZE;
	if (rdma_nl_stat_hwcounter_entry(msg, "page_faults", atomic64_read(&stats->faults)) ||
	    rdma_nl_stat_hwcounter_entry(msg, "page_faults_handled",
					 atomic64_read(&stats->faults_handled)) ||
	    rdma_nl_stat_hwcounter_entry(msg, "page_invalidations",
					 atomic64_read(&stats->invalidations)) ||
	    rdma_nl_stat_hwcounter_entry(msg, "page_invalidations_handled",
					 atomic64_read(&stats->invalidations_handled)) ||
	    rdma_nl_stat_hwcounter_entry(msg, "page_prefetch", atomic64_read(&stats->prefetch)))
		goto cancel;
	nla_nest_end(msg, table);
	return 0;

cancel:
	nla_nest_cancel(msg, table);
	return -EMSGSIZE;
}

static int shca_fill_res_cq_entry_raw(struct sk_buff *msg, struct ib_cq *ibcq)
{
	u32 out[MLX5_ST_SZ_DW(query_cq_out)];
	int err;

	err = shca_cmd_query_cq(to_sdev(ibcq->device), to_scq(ibcq)->cqn, out, sizeof(out));
	if (err)
		return err;
	return nla_put(msg, RDMA_NLDEV_ATTR_RES_RAW, MLX5_ST_SZ_BYTES(cqc),
		       MLX5_ADDR_OF(query_cq_out, out, cq_context));
}

static int shca_fill_res_cq_entry(struct sk_buff *msg, struct ib_cq *ibcq)
{
	struct shca_cq *cq = to_scq(ibcq);
	struct nlattr *table;

	table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	if (!table)
		return -EMSGSIZE;
	if (rdma_nl_put_driver_u32(msg, "cqn", cq->cqn) ||
	    rdma_nl_put_driver_u32(msg, "cqe_size", cq->cqe_size) ||
	    rdma_nl_put_driver_u32(msg, "uar", cq->uar_id))
		goto cancel;
	nla_nest_end(msg, table);
	return 0;

cancel:
	nla_nest_cancel(msg, table);
	return -EMSGSIZE;
}

static int shca_fill_res_qp_entry_raw(struct sk_buff *msg, struct ib_qp *ibqp)
{
	void *out;
	int err;

	out = kzalloc(MLX5_ST_SZ_BYTES(query_qp_out), GFP_KERNEL);
	if (!out)
		return -ENOMEM;
	err = shca_cmd_query_qp(to_sdev(ibqp->device), to_sqp(ibqp)->qpn, out,
				MLX5_ST_SZ_BYTES(query_qp_out));
	if (!err)
		err = nla_put(msg, RDMA_NLDEV_ATTR_RES_RAW, MLX5_ST_SZ_BYTES(qpc),
			      MLX5_ADDR_OF(query_qp_out, out, qpc));
	kfree(out);
	return err;
}

static int shca_fill_qp_error(struct sk_buff *msg, const struct hca_qp_error *err)
{
	if (!err->syndrome)
		return 0;
	if (rdma_nl_put_driver_u32_hex(msg, "err_syndrome", err->syndrome) ||
	    rdma_nl_put_driver_u32_hex(msg, "err_vendor", err->vendor) ||
	    rdma_nl_put_driver_string(msg, "err_side",
				      err->responder ? "responder" : "requester") ||
	    rdma_nl_put_driver_u32_hex(msg, "err_key", err->key) ||
	    rdma_nl_put_driver_u64_hex(msg, "err_va", err->va))
		return -EMSGSIZE;
	return 0;
}

static int shca_fill_res_qp_entry(struct sk_buff *msg, struct ib_qp *ibqp)
{
	struct shca_dev *dev = to_sdev(ibqp->device);
	struct shca_qp *qp = to_sqp(ibqp);
	struct hca_qp_error qp_error;
	struct nlattr *table;

	if (hca_qp_error(dev->hca, qp->qpn, &qp_error))
		qp_error = (struct hca_qp_error){};

	table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	if (!table)
		return -EMSGSIZE;
	if (rdma_nl_put_driver_u32(msg, "sq_wqebbs", qp->sq.wqe_cnt) ||
	    rdma_nl_put_driver_u32(msg, "rq_wqes", qp->rq.wqe_cnt) ||
	    rdma_nl_put_driver_u32(msg, "uar", qp->uar_id) ||
	    shca_fill_qp_error(msg, &qp_error))
		goto cancel;
	nla_nest_end(msg, table);
	return 0;

cancel:
	nla_nest_cancel(msg, table);
	return -EMSGSIZE;
}

static const struct ib_device_ops shca_restrack_ops = {
	.fill_res_cq_entry = shca_fill_res_cq_entry,
	.fill_res_cq_entry_raw = shca_fill_res_cq_entry_raw,
	.fill_res_mr_entry = shca_fill_res_mr_entry,
	.fill_res_mr_entry_raw = shca_fill_res_mr_entry_raw,
	.fill_res_qp_entry = shca_fill_res_qp_entry,
	.fill_res_qp_entry_raw = shca_fill_res_qp_entry_raw,
	.fill_stat_mr_entry = shca_fill_stat_mr_entry,
};

/**
 * shca_restrack_init() - offer the details of our objects
 * @dev: the device, before its registration
 */
void shca_restrack_init(struct shca_dev *dev)
{
	ib_set_device_ops(&dev->ib_dev, &shca_restrack_ops);
}
