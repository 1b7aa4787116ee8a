// SPDX-License-Identifier: GPL-2.0
/*
 * QUERY_HCA_CAP: what this HCA says it can do.
 *
 * Invariant: a capability is set only when the engine does what it promises
 * (design rule 8), and every limit here is enforced, by a command or by the queue
 * that it bounds.
 */
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "engine.h"

/* atomic_caps.atomic_operations and the bit for 8-byte atomics */
#define HCA_ATOMIC_CS		BIT(0)
#define HCA_ATOMIC_FA		BIT(1)
#define HCA_ATOMIC_SIZE_8	BIT(3)
#define HCA_ATOMIC_HOST_ENDIAN	1

/* A WQE behind a UMR needs a small fence to see what the UMR has done (HM 8.8). */
#define HCA_UMR_FENCE_SMALL	1

#define HCA_PORT_ETHERNET	1
#define HCA_ROCE_V2		BIT(2)

static void hca_caps_general(void *cap)
{
	MLX5_SET(cmd_hca_cap, cap, hca_cap_2, 1);
	MLX5_SET(cmd_hca_cap, cap, log_max_qp_sz, HCA_LOG_MAX_QP_SZ);
	MLX5_SET(cmd_hca_cap, cap, log_max_qp, HCA_LOG_MAX_QP);
	MLX5_SET(cmd_hca_cap, cap, log_max_cq_sz, HCA_LOG_MAX_CQ_SZ);
	MLX5_SET(cmd_hca_cap, cap, log_max_cq, HCA_LOG_MAX_CQ);
	MLX5_SET(cmd_hca_cap, cap, log_max_eq_sz, HCA_LOG_MAX_EQ_SZ);
	MLX5_SET(cmd_hca_cap, cap, max_num_eqs, HCA_MAX_EQS);
	MLX5_SET(cmd_hca_cap, cap, log_max_mkey, HCA_LOG_MAX_MKEY);
	MLX5_SET(cmd_hca_cap, cap, log_max_mrw_sz, 64);
	MLX5_SET(cmd_hca_cap, cap, log_max_pd, HCA_LOG_MAX_PD);
	MLX5_SET(cmd_hca_cap, cap, log_max_msg, HCA_LOG_MAX_MSG);
	MLX5_SET(cmd_hca_cap, cap, log_max_ra_req_qp, HCA_LOG_MAX_RA);
	MLX5_SET(cmd_hca_cap, cap, log_max_ra_res_qp, HCA_LOG_MAX_RA);
	MLX5_SET(cmd_hca_cap, cap, log_max_transport_domain, 16);
	MLX5_SET(cmd_hca_cap, cap, terminate_scatter_list_mkey, 1);
	MLX5_SET(cmd_hca_cap, cap, dump_fill_mkey, 1);
	MLX5_SET(cmd_hca_cap, cap, relaxed_ordering_write, 1);
	MLX5_SET(cmd_hca_cap, cap, relaxed_ordering_read, 1);
	MLX5_SET(cmd_hca_cap, cap, relaxed_ordering_write_umr, 1);
	MLX5_SET(cmd_hca_cap, cap, relaxed_ordering_read_umr, 1);
	MLX5_SET(cmd_hca_cap, cap, max_indirection, HCA_MAX_INDIRECTION);
	MLX5_SET(cmd_hca_cap, cap, fixed_buffer_size, 1);
	MLX5_SET(cmd_hca_cap, cap, log_max_klm_list_size, HCA_LOG_MAX_KLM_LIST);
	MLX5_SET(cmd_hca_cap, cap, null_mkey, 1);
	MLX5_SET(cmd_hca_cap, cap, repeated_mkey, 1);
	MLX5_SET(cmd_hca_cap, cap, umr_extended_translation_offset, 1);
	MLX5_SET(cmd_hca_cap, cap, umr_fence, HCA_UMR_FENCE_SMALL);
	MLX5_SET(cmd_hca_cap, cap, umr_ptr_rlky, 1);
	MLX5_SET(cmd_hca_cap, cap, imaicl, 1);
	MLX5_SET(cmd_hca_cap, cap, device_memory, 1);
	MLX5_SET(cmd_hca_cap, cap, log_max_uctx, HCA_LOG_MAX_UCTX);
	MLX5_SET(cmd_hca_cap, cap, log_max_umem, HCA_LOG_MAX_UMEM);
	MLX5_SET(cmd_hca_cap, cap, release_all_pages, 1);
	MLX5_SET(cmd_hca_cap, cap, num_ports, 1);
	MLX5_SET(cmd_hca_cap, cap, port_type, HCA_PORT_ETHERNET);
	MLX5_SET(cmd_hca_cap, cap, cqe_version, 1);
	MLX5_SET(cmd_hca_cap, cap, roce, 1);
	MLX5_SET(cmd_hca_cap, cap, atomic, 1);
	MLX5_SET(cmd_hca_cap, cap, cq_oi, 1);
	MLX5_SET(cmd_hca_cap, cap, cq_resize, 1);
	MLX5_SET(cmd_hca_cap, cap, pg, 1);
	MLX5_SET(cmd_hca_cap, cap, rc, 1);
	MLX5_SET(cmd_hca_cap, cap, uar_4k, 1);
	MLX5_SET(cmd_hca_cap, cap, log_pg_sz, HCA_PAGE_SHIFT);
	MLX5_SET(cmd_hca_cap, cap, max_wqe_sz_sq, HCA_MAX_WQE_SQ);
	MLX5_SET(cmd_hca_cap, cap, max_wqe_sz_rq, HCA_MAX_WQE_RQ);
}

static void hca_caps_atomic(void *cap)
{
	MLX5_SET(atomic_caps, cap, atomic_req_8B_endianness_mode, HCA_ATOMIC_HOST_ENDIAN);
	MLX5_SET(atomic_caps, cap, atomic_operations, HCA_ATOMIC_CS | HCA_ATOMIC_FA);
	MLX5_SET(atomic_caps, cap, atomic_size_qp, HCA_ATOMIC_SIZE_8);
}

static void hca_caps_roce(void *cap)
{
	MLX5_SET(roce_cap, cap, roce_version, HCA_ROCE_V2);
	MLX5_SET(roce_cap, cap, roce_address_table_size, HCA_ROCE_ADDRESSES);
}

static void hca_caps_general_2(void *cap)
{
	MLX5_SET(cmd_hca_cap_2, cap, log_min_mkey_entity_size, HCA_MIN_LOG_PAGE_MTT);
	MLX5_SET(cmd_hca_cap_2, cap, max_mkey_log_entity_size_mtt, HCA_MAX_LOG_PAGE_MTT);
	MLX5_SET(cmd_hca_cap_2, cap, min_mkey_log_entity_size_fixed_buffer_valid, 1);
	MLX5_SET(cmd_hca_cap_2, cap, min_mkey_log_entity_size_fixed_buffer, HCA_MIN_LOG_PAGE_KSM);
	MLX5_SET(hca_cap_2_ksm, cap, max_mkey_log_entity_size_fixed_buffer, HCA_MAX_LOG_PAGE_KSM);
	MLX5_SET(cmd_hca_cap_2, cap, umr_log_entity_size_5, 1);
}

static void hca_caps_odp(void *cap)
{
	void *rc = MLX5_ADDR_OF(odp_cap, cap, transport_page_fault_scheme_cap.rc_odp_caps);

	MLX5_SET(odp_per_transport_service_cap, rc, send, 1);
	MLX5_SET(odp_per_transport_service_cap, rc, receive, 1);
	MLX5_SET(odp_per_transport_service_cap, rc, write, 1);
	MLX5_SET(odp_per_transport_service_cap, rc, read, 1);
	MLX5_SET(odp_per_transport_service_cap, rc, atomic, 1);
}

static void hca_caps_device_memory(void *cap)
{
	MLX5_SET(device_mem_cap, cap, memic, 1);
	MLX5_SET(device_mem_cap, cap, log_min_memic_alloc_size, HCA_LOG_MEMIC_GRANULE);
	MLX5_SET(device_mem_cap, cap, log_max_memic_addr_alignment, HCA_LOG_MAX_MEMIC_ALIGN);
	MLX5_SET(device_mem_cap, cap, memic_bar_size, HCA_MEMIC_SIZE);
	MLX5_SET(device_mem_cap, cap, max_memic_size, HCA_MEMIC_SIZE);
}

hca_cmd_status hca_cmd_query_hca_cap(struct hca *hca, const void *in, size_t inlen,
				     void *out, size_t outlen)
{
	const size_t fixed = MLX5_BYTE_OFF(query_hca_cap_out, capability);
	void *cap;

	cap = kzalloc(MLX5_UN_SZ_BYTES(hca_cap_union), GFP_KERNEL);
	if (!cap)
		return HCA_REFUSE(LIM_ERR, 1);
	/* op_mod is the group, and in its lowest bit whether current or maximum is asked for. */
	switch (MLX5_GET(query_hca_cap_in, in, op_mod) >> 1) {
	case MLX5_CAP_GENERAL:
		hca_caps_general(cap);
		break;
	case MLX5_CAP_ODP:
		hca_caps_odp(cap);
		break;
	case MLX5_CAP_ATOMIC:
		hca_caps_atomic(cap);
		break;
	case MLX5_CAP_ROCE:
		hca_caps_roce(cap);
		break;
	case MLX5_CAP_DEV_MEM:
		hca_caps_device_memory(cap);
		break;
	case MLX5_CAP_GENERAL_2:
		hca_caps_general_2(cap);
		break;
	}
	/* The group grows from one HCA to the next: who knows its beginning asks for that. */
	memcpy(MLX5_ADDR_OF(query_hca_cap_out, out, capability), cap,
	       min_t(size_t, outlen - fixed, MLX5_UN_SZ_BYTES(hca_cap_union)));
	kfree(cap);
	return HCA_OK;
}

hca_cmd_status hca_cmd_set_hca_cap(struct hca *hca, const void *in, size_t inlen,
				   void *out, size_t outlen)
{
	const void *rc;

	/* Of what can be set, only this is not on from the beginning (HM 6.2). */
	if (MLX5_GET(set_hca_cap_in, in, op_mod) >> 1 != MLX5_CAP_ODP)
		return HCA_OK;
	if (inlen < MLX5_BYTE_OFF(set_hca_cap_in, capability) + MLX5_ST_SZ_BYTES(odp_cap))
		return HCA_REFUSE(BAD_INP_LEN_ERR, 1);
	rc = MLX5_ADDR_OF(set_hca_cap_in, in,
			  capability.odp_cap.transport_page_fault_scheme_cap.rc_odp_caps);
	hca->odp = (MLX5_GET(odp_per_transport_service_cap, rc, send) ? HCA_ODP_SEND : 0) |
		   (MLX5_GET(odp_per_transport_service_cap, rc, receive) ? HCA_ODP_RECEIVE : 0) |
		   (MLX5_GET(odp_per_transport_service_cap, rc, write) ? HCA_ODP_WRITE : 0) |
		   (MLX5_GET(odp_per_transport_service_cap, rc, read) ? HCA_ODP_READ : 0) |
		   (MLX5_GET(odp_per_transport_service_cap, rc, atomic) ? HCA_ODP_ATOMIC : 0);
	return HCA_OK;
}
