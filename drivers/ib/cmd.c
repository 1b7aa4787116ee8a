// SPDX-License-Identifier: GPL-2.0
/*
 * Firmware commands: the twin of hw/mlx5/cmd.c and of core/cmd.c, fw.c.
 *
 * Invariants:
 *  - Every command of the driver goes through shca_cmd_exec(), which turns the
 *    status of the answer into an errno and tells a refusal once. Commands of user
 *    space (DEVX) go through shca_cmd_do(): what they were refused for is theirs to
 *    read, and no message in the kernel's log.
 *  - A helper that fails leaves its output argument as it was.
 *  - What belongs to a user context carries its uid (HM 7.1), 0 is the kernel.
 */
#include <linux/dev_printk.h>

#include "shca.h"

static const char *shca_command_str(u16 opcode)
{
#define SHCA_COMMAND_STR_CASE(cmd) case MLX5_CMD_OP_ ## cmd: return #cmd
	switch (opcode) {
	SHCA_COMMAND_STR_CASE(QUERY_HCA_CAP);
	SHCA_COMMAND_STR_CASE(INIT_HCA);
	SHCA_COMMAND_STR_CASE(TEARDOWN_HCA);
	SHCA_COMMAND_STR_CASE(ENABLE_HCA);
	SHCA_COMMAND_STR_CASE(DISABLE_HCA);
	SHCA_COMMAND_STR_CASE(QUERY_PAGES);
	SHCA_COMMAND_STR_CASE(MANAGE_PAGES);
	SHCA_COMMAND_STR_CASE(QUERY_ISSI);
	SHCA_COMMAND_STR_CASE(SET_ISSI);
	SHCA_COMMAND_STR_CASE(SET_HCA_CAP);
	SHCA_COMMAND_STR_CASE(QUERY_SPECIAL_CONTEXTS);
	SHCA_COMMAND_STR_CASE(CREATE_MKEY);
	SHCA_COMMAND_STR_CASE(QUERY_MKEY);
	SHCA_COMMAND_STR_CASE(DESTROY_MKEY);
	SHCA_COMMAND_STR_CASE(PAGE_FAULT_RESUME);
	SHCA_COMMAND_STR_CASE(CREATE_EQ);
	SHCA_COMMAND_STR_CASE(DESTROY_EQ);
	SHCA_COMMAND_STR_CASE(CREATE_CQ);
	SHCA_COMMAND_STR_CASE(DESTROY_CQ);
	SHCA_COMMAND_STR_CASE(QUERY_CQ);
	SHCA_COMMAND_STR_CASE(MODIFY_CQ);
	SHCA_COMMAND_STR_CASE(CREATE_QP);
	SHCA_COMMAND_STR_CASE(DESTROY_QP);
	SHCA_COMMAND_STR_CASE(QUERY_QP);
	SHCA_COMMAND_STR_CASE(RST2INIT_QP);
	SHCA_COMMAND_STR_CASE(INIT2INIT_QP);
	SHCA_COMMAND_STR_CASE(INIT2RTR_QP);
	SHCA_COMMAND_STR_CASE(RTR2RTS_QP);
	SHCA_COMMAND_STR_CASE(RTS2RTS_QP);
	SHCA_COMMAND_STR_CASE(2ERR_QP);
	SHCA_COMMAND_STR_CASE(2RST_QP);
	SHCA_COMMAND_STR_CASE(ALLOC_PD);
	SHCA_COMMAND_STR_CASE(DEALLOC_PD);
	SHCA_COMMAND_STR_CASE(ALLOC_UAR);
	SHCA_COMMAND_STR_CASE(DEALLOC_UAR);
	SHCA_COMMAND_STR_CASE(ALLOC_TRANSPORT_DOMAIN);
	SHCA_COMMAND_STR_CASE(DEALLOC_TRANSPORT_DOMAIN);
	SHCA_COMMAND_STR_CASE(SET_ROCE_ADDRESS);
	SHCA_COMMAND_STR_CASE(CREATE_UCTX);
	SHCA_COMMAND_STR_CASE(DESTROY_UCTX);
	SHCA_COMMAND_STR_CASE(CREATE_UMEM);
	SHCA_COMMAND_STR_CASE(DESTROY_UMEM);
	SHCA_COMMAND_STR_CASE(ALLOC_MEMIC);
	SHCA_COMMAND_STR_CASE(DEALLOC_MEMIC);
	default: return "unknown";
	}
#undef SHCA_COMMAND_STR_CASE
}

/* HM 7, the table of core/cmd.c. */
static int shca_cmd_status_to_err(u8 status)
{
	switch (status) {
	case MLX5_CMD_STAT_OK:			return 0;
	case MLX5_CMD_STAT_INT_ERR:		return -EIO;
	case MLX5_CMD_STAT_BAD_OP_ERR:		return -EINVAL;
	case MLX5_CMD_STAT_BAD_PARAM_ERR:	return -EINVAL;
	case MLX5_CMD_STAT_BAD_SYS_STATE_ERR:	return -EIO;
	case MLX5_CMD_STAT_BAD_RES_ERR:		return -EINVAL;
	case MLX5_CMD_STAT_RES_BUSY:		return -EBUSY;
	case MLX5_CMD_STAT_NOT_READY:		return -EAGAIN;
	case MLX5_CMD_STAT_LIM_ERR:		return -ENOMEM;
	case MLX5_CMD_STAT_BAD_RES_STATE_ERR:	return -EINVAL;
	case MLX5_CMD_STAT_IX_ERR:		return -EINVAL;
	case MLX5_CMD_STAT_NO_RES_ERR:		return -EAGAIN;
	default:				return -EIO;
	}
}

/**
 * shca_cmd_do() - execute a firmware command, refusals being the caller's business
 * @dev: the device
 * @in: input mailbox
 * @inlen: its length in bytes
 * @out: output mailbox, valid also when the HCA refused the command
 * @outlen: its length in bytes
 *
 * Context: process, may sleep (up to 2 s when the HCA has to ask for pages).
 * Return: 0; -EREMOTEIO when the HCA refused, for a reason that is in @out; or an
 * errno when no command was executed.
 */
int shca_cmd_do(struct shca_dev *dev, const void *in, size_t inlen, void *out, size_t outlen)
{
	int err = hca_cmd_exec(dev->hca, in, inlen, out, outlen);

	if (err)
		return err;
	/* Every answer begins alike. */
	return MLX5_GET(enable_hca_out, out, status) == MLX5_CMD_STAT_OK ? 0 : -EREMOTEIO;
}

/**
 * shca_cmd_exec() - execute a firmware command of the driver
 * @dev: the device
 * @in: input mailbox
 * @inlen: its length in bytes
 * @out: output mailbox, valid also when the HCA refused the command
 * @outlen: its length in bytes
 *
 * Context: process, may sleep (up to 2 s when the HCA has to ask for pages).
 * Return: 0, or the errno of the command status (HM 7); the refusal is logged.
 */
int shca_cmd_exec(struct shca_dev *dev, const void *in, size_t inlen, void *out, size_t outlen)
{
	u16 opcode = MLX5_GET(enable_hca_in, in, opcode);
	u8 status;
	int err;

	err = shca_cmd_do(dev, in, inlen, out, outlen);
	if (likely(err != -EREMOTEIO))
		return err;

	status = MLX5_GET(enable_hca_out, out, status);
	err = shca_cmd_status_to_err(status);
	dev_notice_ratelimited(&dev->pdev->dev,
			       "%s(0x%x) refused: status 0x%x, syndrome 0x%x (%d)\n",
			       shca_command_str(opcode), opcode, status,
			       MLX5_GET(enable_hca_out, out, syndrome), err);
	return err;
}

/* The command is its opcode and nothing else, the answer nothing but a status. */
static int shca_cmd_simple(struct shca_dev *dev, u16 opcode)
{
	/* enable_hca_out is declared shorter than the shortest mailbox there is. */
	u32 out[MLX5_ST_SZ_DW(init_hca_out)];
	u32 in[MLX5_ST_SZ_DW(enable_hca_in)] = {};

	MLX5_SET(enable_hca_in, in, opcode, opcode);
	return shca_cmd_exec(dev, in, sizeof(in), out, sizeof(out));
}

/**
 * shca_cmd_enable_hca() - ENABLE_HCA, the first command
 * @dev: the device
 *
 * Context: process. Return: 0 or an errno.
 */
int shca_cmd_enable_hca(struct shca_dev *dev)
{
	return shca_cmd_simple(dev, MLX5_CMD_OP_ENABLE_HCA);
}

/**
 * shca_cmd_disable_hca() - DISABLE_HCA, the last command
 * @dev: the device
 *
 * Context: process. Return: 0 or an errno.
 */
int shca_cmd_disable_hca(struct shca_dev *dev)
{
	return shca_cmd_simple(dev, MLX5_CMD_OP_DISABLE_HCA);
}

/**
 * shca_cmd_set_issi() - agree on revision 1 of the command interface
 * @dev: the device
 *
 * Context: process.
 * Return: 0, -EOPNOTSUPP when the HCA does not speak revision 1, or an errno.
 */
int shca_cmd_set_issi(struct shca_dev *dev)
{
	u32 query_out[MLX5_ST_SZ_DW(query_issi_out)];
	u32 query_in[MLX5_ST_SZ_DW(query_issi_in)] = {};
	u32 set_out[MLX5_ST_SZ_DW(set_issi_out)];
	u32 set_in[MLX5_ST_SZ_DW(set_issi_in)] = {};
	int err;

	MLX5_SET(query_issi_in, query_in, opcode, MLX5_CMD_OP_QUERY_ISSI);
	err = shca_cmd_exec(dev, query_in, sizeof(query_in), query_out, sizeof(query_out));
	if (err)
		return err;
	if (!(MLX5_GET(query_issi_out, query_out, supported_issi_dw0) & BIT(1)))
		return -EOPNOTSUPP;

	MLX5_SET(set_issi_in, set_in, opcode, MLX5_CMD_OP_SET_ISSI);
	MLX5_SET(set_issi_in, set_in, current_issi, 1);
	return shca_cmd_exec(dev, set_in, sizeof(set_in), set_out, sizeof(set_out));
}

/**
 * shca_cmd_init_hca() - INIT_HCA: from here on the HCA works
 * @dev: the device
 *
 * Context: process. Return: 0 or an errno.
 */
int shca_cmd_init_hca(struct shca_dev *dev)
{
	u32 out[MLX5_ST_SZ_DW(init_hca_out)];
	u32 in[MLX5_ST_SZ_DW(init_hca_in)] = {};

	MLX5_SET(init_hca_in, in, opcode, MLX5_CMD_OP_INIT_HCA);
	return shca_cmd_exec(dev, in, sizeof(in), out, sizeof(out));
}

/**
 * shca_cmd_teardown_hca() - TEARDOWN_HCA: the HCA forgets everything but its pages
 * @dev: the device
 *
 * Context: process. Return: 0 or an errno.
 */
int shca_cmd_teardown_hca(struct shca_dev *dev)
{
	u32 out[MLX5_ST_SZ_DW(teardown_hca_out)];
	u32 in[MLX5_ST_SZ_DW(teardown_hca_in)] = {};

	MLX5_SET(teardown_hca_in, in, opcode, MLX5_CMD_OP_TEARDOWN_HCA);
	return shca_cmd_exec(dev, in, sizeof(in), out, sizeof(out));
}

/**
 * shca_cmd_query_hca_cap() - QUERY_HCA_CAP, current values
 * @dev: the device
 * @type: group
 * @cap: room for one group, MLX5_UN_SZ_DW(hca_cap_union) words
 *
 * Context: process. Return: 0 or an errno.
 */
int shca_cmd_query_hca_cap(struct shca_dev *dev, enum mlx5_cap_type type, u32 *cap)
{
	u32 in[MLX5_ST_SZ_DW(query_hca_cap_in)] = {};
	size_t outlen = MLX5_ST_SZ_BYTES(query_hca_cap_out);
	void *out;
	int err;

	out = kzalloc(outlen, GFP_KERNEL);
	if (!out)
		return -ENOMEM;

	MLX5_SET(query_hca_cap_in, in, opcode, MLX5_CMD_OP_QUERY_HCA_CAP);
	MLX5_SET(query_hca_cap_in, in, op_mod, type << 1 | HCA_CAP_OPMOD_GET_CUR);
	err = shca_cmd_exec(dev, in, sizeof(in), out, outlen);
	if (!err)
		memcpy(cap, MLX5_ADDR_OF(query_hca_cap_out, out, capability),
		       MLX5_UN_SZ_BYTES(hca_cap_union));
	kfree(out);
	return err;
}

/**
 * shca_cmd_set_hca_cap() - SET_HCA_CAP, before INIT_HCA
 * @dev: the device
 * @type: group
 * @cap: the whole group, MLX5_UN_SZ_DW(hca_cap_union) words
 *
 * Context: process. Return: 0 or an errno.
 */
int shca_cmd_set_hca_cap(struct shca_dev *dev, enum mlx5_cap_type type, const u32 *cap)
{
	u32 out[MLX5_ST_SZ_DW(set_hca_cap_out)];
	size_t inlen = MLX5_ST_SZ_BYTES(set_hca_cap_in);
	void *in;
	int err;

	in = kzalloc(inlen, GFP_KERNEL);
	if (!in)
		return -ENOMEM;

	MLX5_SET(set_hca_cap_in, in, opcode, MLX5_CMD_OP_SET_HCA_CAP);
	MLX5_SET(set_hca_cap_in, in, op_mod, type << 1);
	memcpy(MLX5_ADDR_OF(set_hca_cap_in, in, capability), cap,
	       MLX5_UN_SZ_BYTES(hca_cap_union));
	err = shca_cmd_exec(dev, in, inlen, out, sizeof(out));
	kfree(in);
	return err;
}

/**
 * shca_cmd_query_special_mkeys() - QUERY_SPECIAL_CONTEXTS into dev->mkeys
 * @dev: the device
 *
 * Context: process. Return: 0 or an errno.
 */
int shca_cmd_query_special_mkeys(struct shca_dev *dev)
{
	u32 out[MLX5_ST_SZ_DW(query_special_contexts_out)];
	u32 in[MLX5_ST_SZ_DW(query_special_contexts_in)] = {};
	int err;

	MLX5_SET(query_special_contexts_in, in, opcode, MLX5_CMD_OP_QUERY_SPECIAL_CONTEXTS);
	err = shca_cmd_exec(dev, in, sizeof(in), out, sizeof(out));
	if (err)
		return err;

	if (SHCA_CAP_GEN(dev, dump_fill_mkey))
		dev->mkeys.dump_fill_mkey =
			MLX5_GET(query_special_contexts_out, out, dump_fill_mkey);
	dev->mkeys.resd_lkey = MLX5_GET(query_special_contexts_out, out, resd_lkey);
	if (SHCA_CAP_GEN(dev, null_mkey))
		dev->mkeys.null_mkey = MLX5_GET(query_special_contexts_out, out, null_mkey);
	if (SHCA_CAP_GEN(dev, terminate_scatter_list_mkey))
		dev->mkeys.terminate_scatter_list_mkey =
			MLX5_GET(query_special_contexts_out, out, terminate_scatter_list_mkey);
	return 0;
}

/**
 * shca_cmd_alloc_uar() - ALLOC_UAR
 * @dev: the device
 * @uid: user context that it belongs to
 * @uarn: number of the UAR
 *
 * Context: process. Return: 0 or an errno.
 */
int shca_cmd_alloc_uar(struct shca_dev *dev, u16 uid, u32 *uarn)
{
	u32 out[MLX5_ST_SZ_DW(alloc_uar_out)];
	u32 in[MLX5_ST_SZ_DW(alloc_uar_in)] = {};
	int err;

	MLX5_SET(alloc_uar_in, in, opcode, MLX5_CMD_OP_ALLOC_UAR);
	MLX5_SET(alloc_uar_in, in, uid, uid);
	err = shca_cmd_exec(dev, in, sizeof(in), out, sizeof(out));
	if (!err)
		*uarn = MLX5_GET(alloc_uar_out, out, uar);
	return err;
}

/**
 * shca_cmd_dealloc_uar() - DEALLOC_UAR
 * @dev: the device
 * @uid: user context that it belongs to
 * @uarn: number of the UAR
 *
 * Context: process. Return: 0 or an errno.
 */
int shca_cmd_dealloc_uar(struct shca_dev *dev, u16 uid, u32 uarn)
{
	u32 out[MLX5_ST_SZ_DW(dealloc_uar_out)];
	u32 in[MLX5_ST_SZ_DW(dealloc_uar_in)] = {};

	MLX5_SET(dealloc_uar_in, in, opcode, MLX5_CMD_OP_DEALLOC_UAR);
	MLX5_SET(dealloc_uar_in, in, uid, uid);
	MLX5_SET(dealloc_uar_in, in, uar, uarn);
	return shca_cmd_exec(dev, in, sizeof(in), out, sizeof(out));
}

/**
 * shca_cmd_alloc_pd() - ALLOC_PD
 * @dev: the device
 * @uid: user context that it belongs to
 * @pdn: number of the protection domain, 24 bits
 *
 * Context: process. Return: 0 or an errno.
 */
int shca_cmd_alloc_pd(struct shca_dev *dev, u16 uid, u32 *pdn)
{
	u32 out[MLX5_ST_SZ_DW(alloc_pd_out)];
	u32 in[MLX5_ST_SZ_DW(alloc_pd_in)] = {};
	int err;

	MLX5_SET(alloc_pd_in, in, opcode, MLX5_CMD_OP_ALLOC_PD);
	MLX5_SET(alloc_pd_in, in, uid, uid);
	err = shca_cmd_exec(dev, in, sizeof(in), out, sizeof(out));
	if (!err)
		*pdn = MLX5_GET(alloc_pd_out, out, pd);
	return err;
}

/**
 * shca_cmd_dealloc_pd() - DEALLOC_PD
 * @dev: the device
 * @uid: user context that it belongs to
 * @pdn: number of the protection domain
 *
 * Context: process. Return: 0, or -EBUSY when a key or QP still belongs to it.
 */
int shca_cmd_dealloc_pd(struct shca_dev *dev, u16 uid, u32 pdn)
{
	u32 out[MLX5_ST_SZ_DW(dealloc_pd_out)];
	u32 in[MLX5_ST_SZ_DW(dealloc_pd_in)] = {};

	MLX5_SET(dealloc_pd_in, in, opcode, MLX5_CMD_OP_DEALLOC_PD);
	MLX5_SET(dealloc_pd_in, in, uid, uid);
	MLX5_SET(dealloc_pd_in, in, pd, pdn);
	return shca_cmd_exec(dev, in, sizeof(in), out, sizeof(out));
}

/**
 * shca_cmd_alloc_transport_domain() - ALLOC_TRANSPORT_DOMAIN
 * @dev: the device
 * @uid: user context that it belongs to
 * @tdn: number of the transport domain
 *
 * Context: process. Return: 0 or an errno.
 */
int shca_cmd_alloc_transport_domain(struct shca_dev *dev, u16 uid, u32 *tdn)
{
	u32 out[MLX5_ST_SZ_DW(alloc_transport_domain_out)];
	u32 in[MLX5_ST_SZ_DW(alloc_transport_domain_in)] = {};
	int err;

	MLX5_SET(alloc_transport_domain_in, in, opcode, MLX5_CMD_OP_ALLOC_TRANSPORT_DOMAIN);
	MLX5_SET(alloc_transport_domain_in, in, uid, uid);
	err = shca_cmd_exec(dev, in, sizeof(in), out, sizeof(out));
	if (!err)
		*tdn = MLX5_GET(alloc_transport_domain_out, out, transport_domain);
	return err;
}

/**
 * shca_cmd_dealloc_transport_domain() - DEALLOC_TRANSPORT_DOMAIN
 * @dev: the device
 * @uid: user context that it belongs to
 * @tdn: number of the transport domain
 *
 * Context: process. Return: 0 or an errno.
 */
int shca_cmd_dealloc_transport_domain(struct shca_dev *dev, u16 uid, u32 tdn)
{
	u32 out[MLX5_ST_SZ_DW(dealloc_transport_domain_out)];
	u32 in[MLX5_ST_SZ_DW(dealloc_transport_domain_in)] = {};

	MLX5_SET(dealloc_transport_domain_in, in, opcode, MLX5_CMD_OP_DEALLOC_TRANSPORT_DOMAIN);
	MLX5_SET(dealloc_transport_domain_in, in, uid, uid);
	MLX5_SET(dealloc_transport_domain_in, in, transport_domain, tdn);
	return shca_cmd_exec(dev, in, sizeof(in), out, sizeof(out));
}

/**
 * shca_cmd_create_uctx() - CREATE_UCTX: the HCA learns of a user context
 * @dev: the device
 * @uid: its number, not 0
 *
 * Context: process. Return: 0 or an errno.
 */
int shca_cmd_create_uctx(struct shca_dev *dev, u16 *uid)
{
	u32 out[MLX5_ST_SZ_DW(create_uctx_out)];
	u32 in[MLX5_ST_SZ_DW(create_uctx_in)] = {};
	int err;

	MLX5_SET(create_uctx_in, in, opcode, MLX5_CMD_OP_CREATE_UCTX);
	err = shca_cmd_exec(dev, in, sizeof(in), out, sizeof(out));
	if (!err)
		*uid = MLX5_GET(create_uctx_out, out, uid);
	return err;
}

/**
 * shca_cmd_destroy_uctx() - DESTROY_UCTX
 * @dev: the device
 * @uid: its number
 *
 * Context: process. Return: 0, or -EBUSY when an object still belongs to it.
 */
int shca_cmd_destroy_uctx(struct shca_dev *dev, u16 uid)
{
	u32 out[MLX5_ST_SZ_DW(destroy_uctx_out)];
	u32 in[MLX5_ST_SZ_DW(destroy_uctx_in)] = {};

	MLX5_SET(destroy_uctx_in, in, opcode, MLX5_CMD_OP_DESTROY_UCTX);
	MLX5_SET(destroy_uctx_in, in, uid, uid);
	return shca_cmd_exec(dev, in, sizeof(in), out, sizeof(out));
}

/**
 * shca_cmd_create_mkey() - CREATE_MKEY
 * @dev: the device
 * @mkey: in: the variant that @in carries; out: the whole key
 * @in: create_mkey_in; the opcode is filled in here
 * @inlen: its length in bytes, translation entries included
 *
 * Context: process, may sleep. Return: 0 or an errno.
 */
int shca_cmd_create_mkey(struct shca_dev *dev, u32 *mkey, void *in, size_t inlen)
{
	u32 out[MLX5_ST_SZ_DW(create_mkey_out)];
	int err;

	MLX5_SET(create_mkey_in, in, opcode, MLX5_CMD_OP_CREATE_MKEY);
	err = shca_cmd_exec(dev, in, inlen, out, sizeof(out));
	if (!err)
		*mkey |= MLX5_GET(create_mkey_out, out, mkey_index) << 8;
	return err;
}

/**
 * shca_cmd_destroy_mkey() - DESTROY_MKEY
 * @dev: the device
 * @mkey: the key; its variant does not matter
 *
 * When it succeeds, no access through the key is running any more (HM 7.4).
 *
 * Context: process, may sleep. Return: 0 or an errno.
 */
int shca_cmd_destroy_mkey(struct shca_dev *dev, u32 mkey)
{
	u32 out[MLX5_ST_SZ_DW(destroy_mkey_out)];
	u32 in[MLX5_ST_SZ_DW(destroy_mkey_in)] = {};

	MLX5_SET(destroy_mkey_in, in, opcode, MLX5_CMD_OP_DESTROY_MKEY);
	MLX5_SET(destroy_mkey_in, in, mkey_index, shca_mkey_to_idx(mkey));
	return shca_cmd_exec(dev, in, sizeof(in), out, sizeof(out));
}

/**
 * shca_cmd_query_mkey() - QUERY_MKEY, translation entries with their rights
 * @dev: the device
 * @mkey: the key; its variant does not matter
 * @out: query_mkey_out; how long it is decides how many entries come back
 * @outlen: its length in bytes
 *
 * Context: process. Return: 0 or an errno.
 */
int shca_cmd_query_mkey(struct shca_dev *dev, u32 mkey, void *out, size_t outlen)
{
	u32 in[MLX5_ST_SZ_DW(query_mkey_in)] = {};

	MLX5_SET(query_mkey_in, in, opcode, MLX5_CMD_OP_QUERY_MKEY);
	MLX5_SET(query_mkey_in, in, mkey_index, shca_mkey_to_idx(mkey));
	MLX5_SET(query_mkey_in, in, pg_access, 1);
	return shca_cmd_exec(dev, in, sizeof(in), out, outlen);
}

/**
 * shca_cmd_query_cq() - QUERY_CQ
 * @dev: the device
 * @cqn: number of the CQ
 * @out: query_cq_out
 * @outlen: its length in bytes
 *
 * Context: process. Return: 0 or an errno.
 */
int shca_cmd_query_cq(struct shca_dev *dev, u32 cqn, void *out, size_t outlen)
{
	u32 in[MLX5_ST_SZ_DW(query_cq_in)] = {};

	MLX5_SET(query_cq_in, in, opcode, MLX5_CMD_OP_QUERY_CQ);
	MLX5_SET(query_cq_in, in, cqn, cqn);
	return shca_cmd_exec(dev, in, sizeof(in), out, outlen);
}

/**
 * shca_cmd_query_qp() - QUERY_QP
 * @dev: the device
 * @qpn: number of the QP
 * @out: query_qp_out
 * @outlen: its length in bytes
 *
 * Context: process. Return: 0 or an errno.
 */
int shca_cmd_query_qp(struct shca_dev *dev, u32 qpn, void *out, size_t outlen)
{
	u32 in[MLX5_ST_SZ_DW(query_qp_in)] = {};

	MLX5_SET(query_qp_in, in, opcode, MLX5_CMD_OP_QUERY_QP);
	MLX5_SET(query_qp_in, in, qpn, qpn);
	return shca_cmd_exec(dev, in, sizeof(in), out, outlen);
}

/**
 * shca_cmd_roce_gid_set() - SET_ROCE_ADDRESS
 * @dev: the device
 * @index: entry of the address table, which is the core's GID index
 * @roce_version: MLX5_ROCE_VERSION_*
 * @roce_l3_type: MLX5_ROCE_L3_TYPE_*
 * @gid: 16 bytes, or NULL to clear the entry
 * @mac: 6 bytes; not read when @gid is NULL
 *
 * Context: process. Return: 0 or an errno.
 */
int shca_cmd_roce_gid_set(struct shca_dev *dev, unsigned int index, u8 roce_version,
			  u8 roce_l3_type, const u8 *gid, const u8 *mac)
{
	u32 out[MLX5_ST_SZ_DW(set_roce_address_out)];
	u32 in[MLX5_ST_SZ_DW(set_roce_address_in)] = {};
	void *addr = MLX5_ADDR_OF(set_roce_address_in, in, roce_address);

	MLX5_SET(set_roce_address_in, in, opcode, MLX5_CMD_OP_SET_ROCE_ADDRESS);
	MLX5_SET(set_roce_address_in, in, roce_address_index, index);
	if (gid) {
		memcpy(MLX5_ADDR_OF(roce_addr_layout, addr, source_l3_address), gid, 16);
		memcpy(MLX5_ADDR_OF(roce_addr_layout, addr, source_mac_47_32), mac, ETH_ALEN);
		MLX5_SET(roce_addr_layout, addr, roce_version, roce_version);
		MLX5_SET(roce_addr_layout, addr, roce_l3_type, roce_l3_type);
	}
	return shca_cmd_exec(dev, in, sizeof(in), out, sizeof(out));
}
