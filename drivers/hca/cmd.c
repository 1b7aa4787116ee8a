// SPDX-License-Identifier: GPL-2.0
/*
 * The command interface: one table from opcode to handler.
 *
 * Invariants:
 *  - A handler sees an input of at least the size in its table row, an output of
 *    at least the answer's fixed part, zeroed, and an HCA that is far enough up.
 *  - Only this file writes status and syndrome.
 */
#include <linux/bug.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/nospec.h>
#include <linux/string.h>

#include "engine.h"
#include "trace.h"

struct hca_cmd {
	u16 opcode;
	u16 inlen;
	u16 outlen;
	enum hca_life from;	/* answered from this stage of life ... */
	enum hca_life to;	/* ... to this one */
	u32 (*handler)(struct hca *hca, const void *in, size_t inlen, void *out, size_t outlen);
};

static hca_cmd_status hca_cmd_enable_hca(struct hca *hca, const void *in, size_t inlen,
					 void *out, size_t outlen)
{
	hca->odp = 0;
	hca->life = HCA_ENABLED;
	return HCA_OK;
}

static hca_cmd_status hca_cmd_disable_hca(struct hca *hca, const void *in, size_t inlen,
					  void *out, size_t outlen)
{
	hca->life = HCA_OFF;
	return HCA_OK;
}

static hca_cmd_status hca_cmd_init_hca(struct hca *hca, const void *in, size_t inlen,
				       void *out, size_t outlen)
{
	if (!hca_icm_ready(hca))
		return HCA_REFUSE(NO_RES_ERR, 1);
	hca->life = HCA_READY;
	return HCA_OK;
}

/* Stops everything, so that all pages are free afterwards (HM 3.5, 11.5). */
static hca_cmd_status hca_cmd_teardown_hca(struct hca *hca, const void *in, size_t inlen,
					   void *out, size_t outlen)
{
	hca->life = HCA_TORN_DOWN;
	hca_qps_destroy(hca);
	hca_cqs_destroy(hca);
	hca_umems_destroy(hca);
	hca_eqs_destroy(hca);
	hca_mkeys_destroy(hca);
	return HCA_OK;
}

static hca_cmd_status hca_cmd_query_issi(struct hca *hca, const void *in, size_t inlen,
					 void *out, size_t outlen)
{
	MLX5_SET(query_issi_out, out, current_issi, 1);
	MLX5_SET(query_issi_out, out, supported_issi_dw0, BIT(1) | BIT(0));
	return HCA_OK;
}

static hca_cmd_status hca_cmd_set_issi(struct hca *hca, const void *in, size_t inlen,
				       void *out, size_t outlen)
{
	return MLX5_GET(set_issi_in, in, current_issi) == 1 ? HCA_OK :
		HCA_REFUSE(BAD_PARAM_ERR, 1);
}

static hca_cmd_status hca_cmd_query_special_contexts(struct hca *hca, const void *in,
						     size_t inlen, void *out, size_t outlen)
{
	MLX5_SET(query_special_contexts_out, out, dump_fill_mkey, HCA_KEY_DUMP_FILL);
	MLX5_SET(query_special_contexts_out, out, resd_lkey, HCA_KEY_RESD);
	MLX5_SET(query_special_contexts_out, out, null_mkey, HCA_KEY_NULL);
	MLX5_SET(query_special_contexts_out, out, terminate_scatter_list_mkey,
		 HCA_KEY_TERMINATE);
	MLX5_SET(query_special_contexts_out, out, repeated_mkey, HCA_KEY_REPEATED);
	return HCA_OK;
}

static hca_cmd_status hca_cmd_alloc_pd(struct hca *hca, const void *in, size_t inlen,
				       void *out, size_t outlen)
{
	hca_cmd_status status;
	u32 pd;

	status = hca_number_alloc(hca, &hca->pds, &hca->pd_next, 1, (1 << HCA_LOG_MAX_PD) - 1,
				  MLX5_GET(alloc_pd_in, in, uid), &pd);
	if (!status)
		MLX5_SET(alloc_pd_out, out, pd, pd);
	return status;
}

static hca_cmd_status hca_cmd_dealloc_pd(struct hca *hca, const void *in, size_t inlen,
					 void *out, size_t outlen)
{
	return hca_number_free(&hca->pds, MLX5_GET(dealloc_pd_in, in, pd),
			       MLX5_GET(dealloc_pd_in, in, uid));
}

static hca_cmd_status hca_cmd_alloc_uar(struct hca *hca, const void *in, size_t inlen,
					void *out, size_t outlen)
{
	hca_cmd_status status;
	u32 uar;

	status = hca_number_alloc(hca, &hca->uars, &hca->uar_next, 1, HCA_MAX_UARS,
				  MLX5_GET(alloc_uar_in, in, uid), &uar);
	if (!status)
		MLX5_SET(alloc_uar_out, out, uar, uar);
	return status;
}

static hca_cmd_status hca_cmd_dealloc_uar(struct hca *hca, const void *in, size_t inlen,
					  void *out, size_t outlen)
{
	return hca_number_free(&hca->uars, MLX5_GET(dealloc_uar_in, in, uar),
			       MLX5_GET(dealloc_uar_in, in, uid));
}

static hca_cmd_status hca_cmd_alloc_td(struct hca *hca, const void *in, size_t inlen,
				       void *out, size_t outlen)
{
	hca_cmd_status status;
	u32 td;

	status = hca_number_alloc(hca, &hca->tds, &hca->td_next, 1, 0xffff,
				  MLX5_GET(alloc_transport_domain_in, in, uid), &td);
	if (!status)
		MLX5_SET(alloc_transport_domain_out, out, transport_domain, td);
	return status;
}

static hca_cmd_status hca_cmd_dealloc_td(struct hca *hca, const void *in, size_t inlen,
					 void *out, size_t outlen)
{
	return hca_number_free(&hca->tds,
			       MLX5_GET(dealloc_transport_domain_in, in, transport_domain),
			       MLX5_GET(dealloc_transport_domain_in, in, uid));
}

static hca_cmd_status hca_cmd_create_uctx(struct hca *hca, const void *in, size_t inlen,
					  void *out, size_t outlen)
{
	hca_cmd_status status;
	u32 uid;

	/* Raw transmit and internal device resources are not offered (uctx_cap). */
	if (MLX5_GET(create_uctx_in, in, uctx.cap))
		return HCA_REFUSE(BAD_PARAM_ERR, 3);
	status = hca_number_alloc(hca, &hca->uctxs, &hca->uctx_next, 1,
				  (1 << HCA_LOG_MAX_UCTX) - 1, 0, &uid);
	if (!status)
		MLX5_SET(create_uctx_out, out, uid, uid);
	return status;
}

static hca_cmd_status hca_cmd_destroy_uctx(struct hca *hca, const void *in, size_t inlen,
					   void *out, size_t outlen)
{
	return hca_number_free(&hca->uctxs, MLX5_GET(destroy_uctx_in, in, uid), 0);
}

static hca_cmd_status hca_cmd_set_roce_address(struct hca *hca, const void *in, size_t inlen,
					       void *out, size_t outlen)
{
	u32 index = MLX5_GET(set_roce_address_in, in, roce_address_index);

	if (index >= HCA_ROCE_ADDRESSES)
		return HCA_REFUSE(IX_ERR, 1);
	spin_lock_irq(&hca->roce_lock);
	memcpy(hca->roce[index], MLX5_ADDR_OF(set_roce_address_in, in, roce_address),
	       sizeof(hca->roce[index]));
	WRITE_ONCE(hca->roce_changes, hca->roce_changes + 1);
	spin_unlock_irq(&hca->roce_lock);
	return HCA_OK;
}

static hca_cmd_status hca_cmd_query_roce_address(struct hca *hca, const void *in, size_t inlen,
						 void *out, size_t outlen)
{
	u32 index = MLX5_GET(query_roce_address_in, in, roce_address_index);

	if (index >= HCA_ROCE_ADDRESSES)
		return HCA_REFUSE(IX_ERR, 1);
	spin_lock_irq(&hca->roce_lock);
	memcpy(MLX5_ADDR_OF(query_roce_address_out, out, roce_address), hca->roce[index],
	       sizeof(hca->roce[index]));
	spin_unlock_irq(&hca->roce_lock);
	return HCA_OK;
}

/*
 * Where the row of an opcode is: opcodes come in groups of 256, and no two in use of one
 * group have the same last six bits. With W=1 the compiler warns of two rows in one place.
 */
#define HCA_CMD_SLOT(opcode)	(((opcode) >> 8) << 6 | ((opcode) & 0x3f))

/* clang-format off */
#define HCA_CMD(op, in_struct, out_struct, from, to, handler) \
	HCA_CMD_SIZED(op, MLX5_ST_SZ_BYTES(in_struct), MLX5_ST_SZ_BYTES(out_struct), from, to, \
		      handler)
#define HCA_CMD_SIZED(op, inlen, outlen, from, to, handler) \
	[HCA_CMD_SLOT(MLX5_CMD_OP_##op)] = { MLX5_CMD_OP_##op, inlen, outlen, HCA_##from, \
					     HCA_##to, handler }

static const struct hca_cmd hca_cmds[] = {
	/* The answer is cut to what the host has room for. */
	HCA_CMD(QUERY_HCA_CAP, query_hca_cap_in, dealloc_pd_out, ENABLED, READY,
		hca_cmd_query_hca_cap),
	HCA_CMD(INIT_HCA, init_hca_in, init_hca_out, ENABLED, ENABLED, hca_cmd_init_hca),
	HCA_CMD(TEARDOWN_HCA, teardown_hca_in, teardown_hca_out, READY, READY,
		hca_cmd_teardown_hca),
	HCA_CMD(ENABLE_HCA, enable_hca_in, enable_hca_out, OFF, OFF, hca_cmd_enable_hca),
	HCA_CMD(DISABLE_HCA, disable_hca_in, disable_hca_out, ENABLED, TORN_DOWN,
		hca_cmd_disable_hca),
	HCA_CMD(QUERY_PAGES, query_pages_in, query_pages_out, ENABLED, TORN_DOWN,
		hca_cmd_query_pages),
	HCA_CMD(MANAGE_PAGES, manage_pages_in, manage_pages_out, ENABLED, TORN_DOWN,
		hca_cmd_manage_pages),
	HCA_CMD(SET_HCA_CAP, query_hca_cap_in, set_hca_cap_out, ENABLED, ENABLED,
		hca_cmd_set_hca_cap),
	HCA_CMD(QUERY_ISSI, query_issi_in, query_issi_out, ENABLED, READY, hca_cmd_query_issi),
	HCA_CMD(SET_ISSI, set_issi_in, set_issi_out, ENABLED, READY, hca_cmd_set_issi),
	/* CREATE_MKEY judges its own length, HM 7.1 check 2 */
	HCA_CMD_SIZED(CREATE_MKEY, 16, MLX5_ST_SZ_BYTES(create_mkey_out), READY, READY,
		      hca_cmd_create_mkey),
	HCA_CMD_SIZED(QUERY_MKEY, MLX5_ST_SZ_BYTES(query_mkey_in), 16, READY, READY,
		      hca_cmd_query_mkey),
	HCA_CMD(DESTROY_MKEY, destroy_mkey_in, destroy_mkey_out, READY, READY,
		hca_cmd_destroy_mkey),
	HCA_CMD(QUERY_SPECIAL_CONTEXTS, query_special_contexts_in, query_special_contexts_out,
		READY, READY, hca_cmd_query_special_contexts),
	HCA_CMD(PAGE_FAULT_RESUME, page_fault_resume_in, page_fault_resume_out, READY, READY,
		hca_cmd_page_fault_resume),
	HCA_CMD(ALLOC_MEMIC, alloc_memic_in, alloc_memic_out, READY, READY,
		hca_cmd_alloc_memic),
	HCA_CMD(DEALLOC_MEMIC, dealloc_memic_in, dealloc_memic_out, READY, READY,
		hca_cmd_dealloc_memic),
	HCA_CMD(CREATE_EQ, create_eq_in, create_eq_out, READY, READY, hca_cmd_create_eq),
	HCA_CMD(DESTROY_EQ, destroy_eq_in, destroy_eq_out, READY, READY, hca_cmd_destroy_eq),
	HCA_CMD(QUERY_EQ, query_eq_in, query_eq_out, READY, READY, hca_cmd_query_eq),
	HCA_CMD(CREATE_CQ, create_cq_in, create_cq_out, READY, READY, hca_cmd_create_cq),
	HCA_CMD(DESTROY_CQ, destroy_cq_in, destroy_cq_out, READY, READY, hca_cmd_destroy_cq),
	HCA_CMD(QUERY_CQ, query_cq_in, query_cq_out, READY, READY, hca_cmd_query_cq),
	HCA_CMD(MODIFY_CQ, modify_cq_in, modify_cq_out, READY, READY, hca_cmd_modify_cq),
	HCA_CMD(CREATE_QP, create_qp_in, create_qp_out, READY, READY, hca_cmd_create_qp),
	HCA_CMD(DESTROY_QP, destroy_qp_in, destroy_qp_out, READY, READY, hca_cmd_destroy_qp),
	HCA_CMD(RST2INIT_QP, rst2init_qp_in, rst2init_qp_out, READY, READY, hca_cmd_modify_qp),
	HCA_CMD(INIT2RTR_QP, init2rtr_qp_in, init2rtr_qp_out, READY, READY, hca_cmd_modify_qp),
	HCA_CMD(RTR2RTS_QP, rtr2rts_qp_in, rtr2rts_qp_out, READY, READY, hca_cmd_modify_qp),
	HCA_CMD(RTS2RTS_QP, rts2rts_qp_in, rts2rts_qp_out, READY, READY, hca_cmd_modify_qp),
	HCA_CMD(2ERR_QP, qp_2err_in, qp_2err_out, READY, READY, hca_cmd_modify_qp),
	HCA_CMD(2RST_QP, qp_2rst_in, qp_2rst_out, READY, READY, hca_cmd_modify_qp),
	HCA_CMD(QUERY_QP, query_qp_in, query_qp_out, READY, READY, hca_cmd_query_qp),
	HCA_CMD(INIT2INIT_QP, init2init_qp_in, init2init_qp_out, READY, READY,
		hca_cmd_modify_qp),
	HCA_CMD(QUERY_ROCE_ADDRESS, query_roce_address_in, query_roce_address_out, READY, READY,
		hca_cmd_query_roce_address),
	HCA_CMD(SET_ROCE_ADDRESS, set_roce_address_in, set_roce_address_out, READY, READY,
		hca_cmd_set_roce_address),
	HCA_CMD(ALLOC_PD, alloc_pd_in, alloc_pd_out, READY, READY, hca_cmd_alloc_pd),
	HCA_CMD(DEALLOC_PD, dealloc_pd_in, dealloc_pd_out, READY, READY, hca_cmd_dealloc_pd),
	HCA_CMD(ALLOC_UAR, alloc_uar_in, alloc_uar_out, READY, READY, hca_cmd_alloc_uar),
	HCA_CMD(DEALLOC_UAR, dealloc_uar_in, dealloc_uar_out, READY, READY,
		hca_cmd_dealloc_uar),
	HCA_CMD(ALLOC_TRANSPORT_DOMAIN, alloc_transport_domain_in, alloc_transport_domain_out,
		READY, READY, hca_cmd_alloc_td),
	HCA_CMD(DEALLOC_TRANSPORT_DOMAIN, dealloc_transport_domain_in,
		dealloc_transport_domain_out, READY, READY, hca_cmd_dealloc_td),
	HCA_CMD(CREATE_UCTX, create_uctx_in, create_uctx_out, READY, READY, hca_cmd_create_uctx),
	HCA_CMD(DESTROY_UCTX, destroy_uctx_in, destroy_uctx_out, READY, READY,
		hca_cmd_destroy_uctx),
	HCA_CMD(CREATE_UMEM, create_umem_in, create_umem_out, READY, READY, hca_cmd_create_umem),
	HCA_CMD(DESTROY_UMEM, destroy_umem_in, destroy_umem_out, READY, READY,
		hca_cmd_destroy_umem),
};
/* clang-format on */

static const struct hca_cmd *hca_find_cmd(u16 opcode)
{
	unsigned int slot = HCA_CMD_SLOT(opcode);
	const struct hca_cmd *cmd;

	if (slot >= ARRAY_SIZE(hca_cmds))
		return NULL;
	/* A handler behind the table must not be called even speculatively: DEVX sends any opcode. */
	cmd = &hca_cmds[array_index_nospec(slot, ARRAY_SIZE(hca_cmds))];
	/* Most slots are empty, and 0 is no opcode. */
	return opcode && cmd->opcode == opcode ? cmd : NULL;
}

/* These change hca->life and run one at a time. */
static bool hca_cmd_changes_life(u16 opcode)
{
	return opcode == MLX5_CMD_OP_ENABLE_HCA || opcode == MLX5_CMD_OP_DISABLE_HCA ||
	       opcode == MLX5_CMD_OP_INIT_HCA || opcode == MLX5_CMD_OP_TEARDOWN_HCA;
}

static hca_cmd_status hca_cmd_run(struct hca *hca, const struct hca_cmd *cmd, const void *in,
				  size_t inlen, void *out, size_t outlen)
{
	enum hca_life life = READ_ONCE(hca->life);

	if (life < cmd->from || life > cmd->to)
		return HCA_REFUSE(BAD_SYS_STATE_ERR, 0);
	if (inlen < cmd->inlen)
		return HCA_REFUSE(BAD_INP_LEN_ERR, 0);
	if (outlen < cmd->outlen)
		return HCA_REFUSE(BAD_OUTP_LEN_ERR, 0);
	return cmd->handler(hca, in, inlen, out, outlen);
}

int hca_cmd_exec(struct hca *hca, const void *in, size_t inlen, void *out, size_t outlen)
{
	const struct hca_cmd *cmd;
	hca_cmd_status status;
	u16 opcode;

	if (inlen < MLX5_ST_SZ_BYTES(alloc_pd_in) || outlen < MLX5_ST_SZ_BYTES(dealloc_pd_out))
		return -EINVAL;
	opcode = MLX5_GET(alloc_pd_in, in, opcode);
	memset(out, 0, outlen);
	cmd = hca_find_cmd(opcode);
	if (!cmd) {
		status = HCA_REFUSE(BAD_OP_ERR, 0);
	} else if (hca_cmd_changes_life(opcode)) {
		mutex_lock(&hca->life_lock);
		status = hca_cmd_run(hca, cmd, in, inlen, out, outlen);
		mutex_unlock(&hca->life_lock);
	} else {
		status = hca_cmd_run(hca, cmd, in, inlen, out, outlen);
	}
	MLX5_SET(dealloc_pd_out, out, status, status >> 8);
	MLX5_SET(dealloc_pd_out, out, syndrome, status ? (u32)opcode << 8 | (status & 0xff) : 0);
	trace_hca_cmd(opcode, status >> 8, status & 0xff);
	return 0;
}
