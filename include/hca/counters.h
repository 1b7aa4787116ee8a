/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The HCA's event counters. They only grow, are read without a lock, and one
 * event is counted in exactly one place of the engine.
 */
#ifndef HCA_COUNTERS_H
#define HCA_COUNTERS_H

#include <linux/types.h>

struct hca;

/* X(identifier, name in sysfs and in `rdma statistic`) */
#define HCA_COUNTERS(X)							\
	X(DOORBELL_SQ,		"doorbell_sq")				\
	X(DOORBELL_CQ_ARM,	"doorbell_cq_arm")			\
	X(DOORBELL_SCAN,	"doorbell_scan")			\
	X(WQE_SEND,		"wqe_send")				\
	X(WQE_WRITE,		"wqe_write")				\
	X(WQE_READ,		"wqe_read")				\
	X(WQE_ATOMIC,		"wqe_atomic")				\
	X(WQE_UMR,		"wqe_umr")				\
	X(WQE_RECV,		"wqe_recv")				\
	X(WQE_FLUSHED,		"wqe_flushed")				\
	X(BYTES_COPIED,		"bytes_copied")				\
	X(CQE,			"cqe")					\
	X(CQ_OVERRUN,		"cq_overrun")				\
	X(EQE,			"eqe")					\
	X(EQ_OVERRUN,		"eq_overrun")				\
	X(TRANSLATION,		"translation")				\
	X(RNR,			"rnr_nak")				\
	X(RETRY,		"retry_timeout")			\
	X(HANDED_OVER,		"handed_to_worker")			\
	X(PAGE_FAULT,		"page_fault")				\
	X(PAGE_REQUEST,		"fw_page_request")			\
	X(ERR_NO_MKC,		"err_no_mkc")				\
	X(ERR_FREE,		"err_mkc_free")				\
	X(ERR_VARIANT,		"err_variant")				\
	X(ERR_PD,		"err_pd")				\
	X(ERR_QPN,		"err_qpn")				\
	X(ERR_BOUNDS,		"err_bounds")				\
	X(ERR_LOCAL,		"err_local_rights")			\
	X(ERR_REMOTE,		"err_remote_rights")			\
	X(ERR_ATOMIC,		"err_atomic_right")			\
	X(ERR_DEPTH,		"err_indirection")			\
	X(ERR_TABLE_END,	"err_table_end")			\
	X(ERR_PAGE,		"err_page_not_present")			\
	X(ERR_ENTRY,		"err_list_entry")			\
	X(ERR_MODE,		"err_access_mode")			\
	X(ERR_BUS,		"err_bus")

enum hca_counter {
#define X(id, name) HCA_CNT_##id,
	HCA_COUNTERS(X)
#undef X
	HCA_CNT_MAX,
};

/**
 * hca_read_counters() - take a snapshot of all counters
 * @hca: the HCA
 * @values: HCA_CNT_MAX values, indexed by enum hca_counter
 *
 * Context: any.
 */
void hca_read_counters(struct hca *hca, u64 *values);

#endif /* HCA_COUNTERS_H */
