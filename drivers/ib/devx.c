// SPDX-License-Identifier: GPL-2.0
/*
 * DEVX: firmware commands of user space, the twin of devx.c. HM 7, libmlx5-abi 10.
 *
 * mlx5dv makes its indirect keys this way, and whoever wants can make a whole
 * queue pair. Of the events and the asynchronous queries of mlx5's DEVX nothing is
 * offered, nor is QUERY_UAR, which belongs to the static mode of UARs.
 *
 * Invariants:
 *  - A command reaches the HCA with the uid of the context that sent it, whatever
 *    it carried: the HCA lets it name nothing that belongs to somebody else.
 *  - It is one of shca_devx_cmds, and unless it makes an object or is a general
 *    one, the object it names is the one whose handle came with it.
 *  - No DMA address comes from user space. Queues lie in a registered umem, and a
 *    key with a translation table of its own cannot be made.
 *  - A queue rings a UAR of its own context and reports to an event queue for
 *    completions, so it is in nobody else's way.
 *  - Memory stays pinned until DESTROY_UMEM has succeeded.
 */
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <rdma/uverbs_std_types.h>

#include "shca.h"

#define UVERBS_MODULE_NAME shca_devx
#include <rdma/uverbs_named_ioctl.h>

enum shca_devx_kind {
	SHCA_DEVX_GENERAL,
	SHCA_DEVX_CREATE,
	SHCA_DEVX_QUERY,
	SHCA_DEVX_MODIFY,
};

/**
 * struct shca_devx_cmd - a command that user space may send
 * @opcode: MLX5_CMD_OP_*
 * @kind: by which method
 * @type: opcode that creates such an object, which is also what kind of object it is
 */
struct shca_devx_cmd {
	u16 opcode;
	enum shca_devx_kind kind;
	u16 type;
};

#define SHCA_DEVX_CMD(opcode, kind, type) \
	{ MLX5_CMD_OP_##opcode, SHCA_DEVX_##kind, MLX5_CMD_OP_##type }

static const struct shca_devx_cmd shca_devx_cmds[] = {
	{ MLX5_CMD_OP_QUERY_HCA_CAP, SHCA_DEVX_GENERAL },
	{ MLX5_CMD_OP_QUERY_ISSI, SHCA_DEVX_GENERAL },
	{ MLX5_CMD_OP_QUERY_ROCE_ADDRESS, SHCA_DEVX_GENERAL },
	SHCA_DEVX_CMD(CREATE_MKEY, CREATE, CREATE_MKEY),
	SHCA_DEVX_CMD(QUERY_MKEY, QUERY, CREATE_MKEY),
	SHCA_DEVX_CMD(CREATE_CQ, CREATE, CREATE_CQ),
	SHCA_DEVX_CMD(QUERY_CQ, QUERY, CREATE_CQ),
	SHCA_DEVX_CMD(MODIFY_CQ, MODIFY, CREATE_CQ),
	SHCA_DEVX_CMD(CREATE_QP, CREATE, CREATE_QP),
	SHCA_DEVX_CMD(QUERY_QP, QUERY, CREATE_QP),
	SHCA_DEVX_CMD(RST2INIT_QP, MODIFY, CREATE_QP),
	SHCA_DEVX_CMD(INIT2INIT_QP, MODIFY, CREATE_QP),
	SHCA_DEVX_CMD(INIT2RTR_QP, MODIFY, CREATE_QP),
	SHCA_DEVX_CMD(RTR2RTS_QP, MODIFY, CREATE_QP),
	SHCA_DEVX_CMD(RTS2RTS_QP, MODIFY, CREATE_QP),
	SHCA_DEVX_CMD(2ERR_QP, MODIFY, CREATE_QP),
	SHCA_DEVX_CMD(2RST_QP, MODIFY, CREATE_QP),
	SHCA_DEVX_CMD(ALLOC_PD, CREATE, ALLOC_PD),
	SHCA_DEVX_CMD(ALLOC_TRANSPORT_DOMAIN, CREATE, ALLOC_TRANSPORT_DOMAIN),
};

/*
 * The number of an object is in the same place of every answer that creates one,
 * and of every command that names one: bytes 9 to 11.
 */
#define SHCA_DEVX_SAME(type_a, field_a, type_b, field_b)				\
	static_assert(__mlx5_bit_off(type_a, field_a) == __mlx5_bit_off(type_b, field_b) && \
		      __mlx5_bit_sz(type_a, field_a) == __mlx5_bit_sz(type_b, field_b))

SHCA_DEVX_SAME(create_mkey_out, mkey_index, create_qp_out, qpn);
SHCA_DEVX_SAME(create_cq_out, cqn, create_qp_out, qpn);
SHCA_DEVX_SAME(alloc_pd_out, pd, create_qp_out, qpn);
SHCA_DEVX_SAME(alloc_transport_domain_out, transport_domain, create_qp_out, qpn);
SHCA_DEVX_SAME(create_umem_out, umem_id, create_qp_out, qpn);
SHCA_DEVX_SAME(query_mkey_in, mkey_index, query_qp_in, qpn);
SHCA_DEVX_SAME(query_cq_in, cqn, query_qp_in, qpn);
SHCA_DEVX_SAME(modify_cq_in, cqn, query_qp_in, qpn);
SHCA_DEVX_SAME(rst2init_qp_in, qpn, query_qp_in, qpn);
SHCA_DEVX_SAME(qp_2err_in, qpn, query_qp_in, qpn);
SHCA_DEVX_SAME(destroy_mkey_in, mkey_index, query_qp_in, qpn);
SHCA_DEVX_SAME(destroy_cq_in, cqn, query_qp_in, qpn);
SHCA_DEVX_SAME(destroy_qp_in, qpn, query_qp_in, qpn);
SHCA_DEVX_SAME(dealloc_pd_in, pd, query_qp_in, qpn);
SHCA_DEVX_SAME(dealloc_transport_domain_in, transport_domain, query_qp_in, qpn);
SHCA_DEVX_SAME(destroy_umem_in, umem_id, query_qp_in, qpn);

#define SHCA_DEVX_CREATED_ID(out)	MLX5_GET(create_qp_out, out, qpn)
#define SHCA_DEVX_NAMED_ID(in)		MLX5_GET(query_qp_in, in, qpn)

/**
 * struct shca_devx_obj - an object of the HCA that belongs to user space
 * @dev: the device
 * @type: opcode that created it
 * @id: its number
 * @uid: whose it is
 * @has_uar: it is a queue,
 * @uar_id: that rings this UAR
 * @mkey: a key whose table names keys: page faults look below it
 */
struct shca_devx_obj {
	struct shca_dev *dev;
	u16 type;
	u32 id;
	u16 uid;
	bool has_uar;
	u32 uar_id;
	struct shca_mkey mkey;
};

/**
 * struct shca_devx_umem - memory of user space that queues lie in
 * @obj: the HCA's list of its pages
 * @umem: the pin
 */
struct shca_devx_umem {
	struct shca_devx_obj obj;
	struct ib_umem *umem;
};

static const struct shca_devx_cmd *shca_devx_find(const void *in, enum shca_devx_kind kind)
{
	u16 opcode = MLX5_GET(general_obj_in_cmd_hdr, in, opcode);
	int i;

	for (i = 0; i < ARRAY_SIZE(shca_devx_cmds); i++)
		if (shca_devx_cmds[i].opcode == opcode && shca_devx_cmds[i].kind == kind)
			return &shca_devx_cmds[i];
	return NULL;
}

static struct shca_ucontext *shca_devx_context(struct uverbs_attr_bundle *attrs)
{
	return rdma_udata_to_drv_context(&attrs->driver_udata, struct shca_ucontext, ibucontext);
}

/* Executes the command in @attr_in. When -EREMOTEIO says that it was refused, @out says why. */
static int shca_devx_exec(struct shca_dev *dev, u16 uid, struct uverbs_attr_bundle *attrs,
			  u16 attr_in, void *out, size_t outlen)
{
	void *in = uverbs_attr_get_alloced_ptr(attrs, attr_in);

	MLX5_SET(general_obj_in_cmd_hdr, in, uid, uid);
	return shca_cmd_do(dev, in, uverbs_attr_get_len(attrs, attr_in), out, outlen);
}

/* The answer goes out whether the HCA did or refused what was asked. */
static int shca_devx_respond(struct uverbs_attr_bundle *attrs, u16 attr_out, const void *out,
			     size_t outlen, int err)
{
	int copy_err;

	if (err && err != -EREMOTEIO)
		return err;
	copy_err = uverbs_copy_to(attrs, attr_out, out, outlen);
	return copy_err ? copy_err : err;
}

static int UVERBS_HANDLER(MLX5_IB_METHOD_DEVX_OTHER)(struct uverbs_attr_bundle *attrs)
{
	void *in = uverbs_attr_get_alloced_ptr(attrs, MLX5_IB_ATTR_DEVX_OTHER_CMD_IN);
	size_t outlen = uverbs_attr_get_len(attrs, MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT);
	struct ib_ucontext *ibucontext = ib_uverbs_get_ucontext(attrs);
	const struct shca_devx_cmd *cmd;
	struct shca_ucontext *context;
	void *out;
	int err;

	if (IS_ERR(ibucontext))
		return PTR_ERR(ibucontext);
	context = to_sucontext(ibucontext);
	cmd = shca_devx_find(in, SHCA_DEVX_GENERAL);
	if (!cmd)
		return -EINVAL;
	/* libmlx5 asks for capabilities in any context, and they are no secret. */
	if (!context->devx_uid && cmd->opcode != MLX5_CMD_OP_QUERY_HCA_CAP)
		return -EINVAL;

	out = uverbs_zalloc(attrs, outlen);
	if (IS_ERR(out))
		return PTR_ERR(out);
	err = shca_devx_exec(to_sdev(ibucontext->device), context->devx_uid, attrs,
			     MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, out, outlen);
	return shca_devx_respond(attrs, MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, out, outlen, err);
}

static int UVERBS_HANDLER(MLX5_IB_METHOD_DEVX_QUERY_EQN)(struct uverbs_attr_bundle *attrs)
{
	struct ib_ucontext *ibucontext = ib_uverbs_get_ucontext(attrs);
	u32 vector, eqn;
	int err;

	if (IS_ERR(ibucontext))
		return PTR_ERR(ibucontext);
	err = uverbs_copy_from(&vector, attrs, MLX5_IB_ATTR_DEVX_QUERY_EQN_USER_VEC);
	if (err)
		return err;
	err = shca_comp_eqn_get(to_sdev(ibucontext->device), vector, &eqn);
	if (err)
		return err;
	return uverbs_copy_to(attrs, MLX5_IB_ATTR_DEVX_QUERY_EQN_DEV_EQN, &eqn, sizeof(eqn));
}

static u16 shca_devx_destroyer(u16 type)
{
	switch (type) {
	case MLX5_CMD_OP_CREATE_MKEY:	return MLX5_CMD_OP_DESTROY_MKEY;
	case MLX5_CMD_OP_CREATE_CQ:	return MLX5_CMD_OP_DESTROY_CQ;
	case MLX5_CMD_OP_CREATE_QP:	return MLX5_CMD_OP_DESTROY_QP;
	case MLX5_CMD_OP_ALLOC_PD:	return MLX5_CMD_OP_DEALLOC_PD;
	case MLX5_CMD_OP_CREATE_UMEM:	return MLX5_CMD_OP_DESTROY_UMEM;
	default:			return MLX5_CMD_OP_DEALLOC_TRANSPORT_DOMAIN;
	}
}

static int shca_devx_destroy(struct shca_devx_obj *obj)
{
	u32 out[MLX5_ST_SZ_DW(destroy_qp_out)];
	u32 in[MLX5_ST_SZ_DW(destroy_qp_in)] = {};

	MLX5_SET(destroy_qp_in, in, opcode, shca_devx_destroyer(obj->type));
	MLX5_SET(destroy_qp_in, in, uid, obj->uid);
	MLX5_SET(destroy_qp_in, in, qpn, obj->id);
	return shca_cmd_exec(obj->dev, in, sizeof(in), out, sizeof(out));
}

/* A queue names a UAR, which it keeps, and a CQ an event queue. */
static int shca_devx_use_queue(struct shca_devx_obj *obj, struct shca_ucontext *context,
			       u32 uar_id)
{
	int err = shca_uar_use(context, uar_id);

	if (err)
		return err;
	obj->has_uar = true;
	obj->uar_id = uar_id;
	return 0;
}

static void shca_devx_unuse_queue(struct shca_devx_obj *obj, struct shca_ucontext *context)
{
	if (obj->has_uar)
		shca_uar_unuse(context, obj->uar_id);
}

static int shca_devx_check_mkey(struct shca_devx_obj *obj, void *in, size_t inlen)
{
	void *mkc = MLX5_ADDR_OF(create_mkey_in, in, memory_key_mkey_entry);
	u8 access_mode;

	if (inlen < MLX5_BYTE_OFF(create_mkey_in, memory_key_mkey_entry) + MLX5_ST_SZ_BYTES(mkc))
		return -EINVAL;
	access_mode = MLX5_GET(mkc, mkc, access_mode_1_0) |
		      MLX5_GET(mkc, mkc, access_mode_4_2) << 2;
	/* A list of other keys has no address of its own; anything else only by a umem. */
	if (access_mode != MLX5_MKC_ACCESS_MODE_KLMS && access_mode != MLX5_MKC_ACCESS_MODE_KSM)
		MLX5_SET(create_mkey_in, in, mkey_umem_valid, 1);
	else if (access_mode == MLX5_MKC_ACCESS_MODE_KLMS)
		obj->mkey.ndescs = MLX5_GET(mkc, mkc, translations_octword_size);
	return 0;
}

/* The HCA has made it: let page faults find it. */
static int shca_devx_handle_mkey_indirect(struct shca_devx_obj *obj)
{
	if (!obj->mkey.ndescs)
		return 0;
	obj->mkey.type = SHCA_MKEY_INDIRECT_DEVX;
	obj->mkey.key = obj->id << 8;
	return shca_store_odp_mkey(obj->dev, &obj->mkey);
}

static int shca_devx_check_cq(struct shca_devx_obj *obj, struct shca_ucontext *context, void *in,
			      size_t inlen)
{
	void *cqc = MLX5_ADDR_OF(create_cq_in, in, cq_context);

	if (inlen < MLX5_ST_SZ_BYTES(create_cq_in))
		return -EINVAL;
	if (!shca_is_comp_eqn(obj->dev, MLX5_GET(cqc, cqc, c_eqn_or_apu_element)))
		return -EINVAL;
	MLX5_SET(create_cq_in, in, cq_umem_valid, 1);
	MLX5_SET(cqc, cqc, dbr_umem_valid, 1);
	return shca_devx_use_queue(obj, context, MLX5_GET(cqc, cqc, uar_page));
}

static int shca_devx_check_qp(struct shca_devx_obj *obj, struct shca_ucontext *context, void *in,
			      size_t inlen)
{
	void *qpc = MLX5_ADDR_OF(create_qp_in, in, qpc);

	if (inlen < MLX5_ST_SZ_BYTES(create_qp_in))
		return -EINVAL;
	MLX5_SET(create_qp_in, in, wq_umem_valid, 1);
	MLX5_SET(qpc, qpc, dbr_umem_valid, 1);
	return shca_devx_use_queue(obj, context, MLX5_GET(qpc, qpc, uar_page));
}

/* What the HCA cannot judge, because to it a DMA address is an address. */
static int shca_devx_check_create(struct shca_devx_obj *obj, struct shca_ucontext *context,
				  void *in, size_t inlen)
{
	switch (obj->type) {
	case MLX5_CMD_OP_CREATE_MKEY:	return shca_devx_check_mkey(obj, in, inlen);
	case MLX5_CMD_OP_CREATE_CQ:	return shca_devx_check_cq(obj, context, in, inlen);
	case MLX5_CMD_OP_CREATE_QP:	return shca_devx_check_qp(obj, context, in, inlen);
	default:			return 0;
	}
}

static int UVERBS_HANDLER(MLX5_IB_METHOD_DEVX_OBJ_CREATE)(struct uverbs_attr_bundle *attrs)
{
	void *in = uverbs_attr_get_alloced_ptr(attrs, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN);
	size_t outlen = uverbs_attr_get_len(attrs, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT);
	struct ib_uobject *uobj =
		uverbs_attr_get_uobject(attrs, MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE);
	struct shca_ucontext *context = shca_devx_context(attrs);
	const struct shca_devx_cmd *cmd;
	struct shca_devx_obj *obj;
	void *out;
	int err;

	if (!context->devx_uid || MLX5_GET(general_obj_in_cmd_hdr, in, vhca_tunnel_id))
		return -EINVAL;
	cmd = shca_devx_find(in, SHCA_DEVX_CREATE);
	if (!cmd)
		return -EINVAL;
	out = uverbs_zalloc(attrs, outlen);
	if (IS_ERR(out))
		return PTR_ERR(out);
	obj = kzalloc_obj(*obj);
	if (!obj)
		return -ENOMEM;
	obj->dev = to_sdev(context->ibucontext.device);
	obj->type = cmd->type;
	obj->uid = context->devx_uid;

	err = shca_devx_check_create(obj, context, in,
				     uverbs_attr_get_len(attrs,
							 MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN));
	if (err)
		goto free_obj;
	err = shca_devx_exec(obj->dev, obj->uid, attrs, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN, out,
			     outlen);
	if (err) {
		err = shca_devx_respond(attrs, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, out, outlen,
					err);
		goto unuse_queue;
	}
	obj->id = SHCA_DEVX_CREATED_ID(out);
	err = shca_devx_handle_mkey_indirect(obj);
	if (err)
		goto destroy_obj;
	err = uverbs_copy_to(attrs, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, out, outlen);
	if (err)
		goto forget_mkey;
	uobj->object = obj;
	return 0;

forget_mkey:
	shca_forget_odp_mkey(obj->dev, &obj->mkey);
destroy_obj:
	shca_devx_destroy(obj);
unuse_queue:
	shca_devx_unuse_queue(obj, context);
free_obj:
	kfree(obj);
	return err;
}

static int shca_devx_obj_cleanup(struct ib_uobject *uobject, enum rdma_remove_reason why,
				 struct uverbs_attr_bundle *attrs)
{
	struct shca_devx_obj *obj = uobject->object;
	int err;

	shca_forget_odp_mkey(obj->dev, &obj->mkey);
	err = shca_devx_destroy(obj);
	if (err)
		return err;
	shca_devx_unuse_queue(obj, to_sucontext(uobject->context));
	kfree(obj);
	return 0;
}

/* Does the command name the object that its handle stands for? */
static bool shca_devx_is_valid_obj(struct ib_uobject *uobj, u16 type, u32 id)
{
	struct shca_devx_obj *obj;

	switch (uobj_get_object_id(uobj)) {
	case UVERBS_OBJECT_CQ:
		return type == MLX5_CMD_OP_CREATE_CQ && to_scq(uobj->object)->cqn == id;
	case UVERBS_OBJECT_QP:
		return type == MLX5_CMD_OP_CREATE_QP && to_sqp(uobj->object)->qpn == id;
	case MLX5_IB_OBJECT_DEVX_OBJ:
		obj = uobj->object;
		return obj->type == type && obj->id == id;
	default:
		return false;
	}
}

/* The record of a queue that the verbs made is known by its DMA address: not to user space. */
static void shca_devx_hide_dbr(struct ib_uobject *uobj, void *out)
{
	switch (uobj_get_object_id(uobj)) {
	case UVERBS_OBJECT_CQ:
		MLX5_SET64(query_cq_out, out, cq_context.dbr_addr, 0);
		break;
	case UVERBS_OBJECT_QP:
		MLX5_SET64(query_qp_out, out, qpc.dbr_addr, 0);
		break;
	}
}

/* QUERY and MODIFY: their attributes have the same numbers. */
static int shca_devx_obj_cmd(struct uverbs_attr_bundle *attrs, enum shca_devx_kind kind)
{
	void *in = uverbs_attr_get_alloced_ptr(attrs, MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN);
	size_t inlen = uverbs_attr_get_len(attrs, MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN);
	size_t outlen = uverbs_attr_get_len(attrs, MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT);
	struct ib_uobject *uobj =
		uverbs_attr_get_uobject(attrs, MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE);
	struct shca_ucontext *context = shca_devx_context(attrs);
	const struct shca_devx_cmd *cmd;
	void *out;
	int err;

	if (!context->devx_uid || MLX5_GET(general_obj_in_cmd_hdr, in, vhca_tunnel_id))
		return -EINVAL;
	cmd = shca_devx_find(in, kind);
	if (!cmd || !shca_devx_is_valid_obj(uobj, cmd->type, SHCA_DEVX_NAMED_ID(in)))
		return -EINVAL;
	if (cmd->opcode == MLX5_CMD_OP_MODIFY_CQ) {
		if (inlen < MLX5_ST_SZ_BYTES(modify_cq_in))
			return -EINVAL;
		MLX5_SET(modify_cq_in, in, cq_umem_valid, 1);
	}

	out = uverbs_zalloc(attrs, outlen);
	if (IS_ERR(out))
		return PTR_ERR(out);
	err = shca_devx_exec(to_sdev(context->ibucontext.device), context->devx_uid, attrs,
			     MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN, out, outlen);
	if (!err && kind == SHCA_DEVX_QUERY)
		shca_devx_hide_dbr(uobj, out);
	return shca_devx_respond(attrs, MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT, out, outlen, err);
}

static int UVERBS_HANDLER(MLX5_IB_METHOD_DEVX_OBJ_QUERY)(struct uverbs_attr_bundle *attrs)
{
	return shca_devx_obj_cmd(attrs, SHCA_DEVX_QUERY);
}

static int UVERBS_HANDLER(MLX5_IB_METHOD_DEVX_OBJ_MODIFY)(struct uverbs_attr_bundle *attrs)
{
	BUILD_BUG_ON((int)MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE !=
		     (int)MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE);
	BUILD_BUG_ON((int)MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN !=
		     (int)MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN);
	BUILD_BUG_ON((int)MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT !=
		     (int)MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT);
	return shca_devx_obj_cmd(attrs, SHCA_DEVX_MODIFY);
}

/*
 * The largest page of those that the caller can do with. One that is larger than the
 * CPU's has to be full: what the HCA could reach in the rest of it is not the caller's.
 */
static unsigned long shca_devx_umem_find_best_pgsize(struct ib_umem *umem, u64 pgsz_bitmap)
{
	unsigned long bitmap = pgsz_bitmap & GENMASK(max_t(int, order_base_2(umem->length),
							   PAGE_SHIFT),
						     MLX5_ADAPTER_PAGE_SHIFT);
	unsigned long page_size;

	while (bitmap) {
		page_size = ib_umem_find_best_pgoff(umem, bitmap, U64_MAX);
		if (page_size <= PAGE_SIZE)
			return page_size;
		if (!ib_umem_dma_offset(umem, page_size) && umem->length % page_size == 0)
			return page_size;
		bitmap &= page_size - 1;
	}
	return 0;
}

static int shca_devx_create_umem(struct shca_devx_umem *obj, u64 pgsz_bitmap)
{
	u32 out[MLX5_ST_SZ_DW(create_umem_out)];
	unsigned long page_size;
	size_t num_mtt, inlen;
	void *in, *umem;
	int err;

	page_size = shca_devx_umem_find_best_pgsize(obj->umem, pgsz_bitmap);
	if (!page_size)
		return -EINVAL;
	num_mtt = ib_umem_num_dma_blocks(obj->umem, page_size);
	inlen = MLX5_ST_SZ_BYTES(create_umem_in) + num_mtt * MLX5_ST_SZ_BYTES(mtt);
	in = kvzalloc(inlen, GFP_KERNEL);
	if (!in)
		return -ENOMEM;

	MLX5_SET(create_umem_in, in, opcode, MLX5_CMD_OP_CREATE_UMEM);
	MLX5_SET(create_umem_in, in, uid, obj->obj.uid);
	umem = MLX5_ADDR_OF(create_umem_in, in, umem);
	MLX5_SET64(umem, umem, num_of_mtt, num_mtt);
	MLX5_SET(umem, umem, log_page_size, order_base_2(page_size) - MLX5_ADAPTER_PAGE_SHIFT);
	MLX5_SET(umem, umem, page_offset, ib_umem_dma_offset(obj->umem, page_size));
	shca_populate_pas(obj->umem, page_size, MLX5_ADDR_OF(umem, umem, mtt),
			  MLX5_MTT_PERM_READ | (obj->umem->writable ? MLX5_MTT_PERM_WRITE : 0));
	err = shca_cmd_exec(obj->obj.dev, in, inlen, out, sizeof(out));
	kvfree(in);
	if (!err)
		obj->obj.id = SHCA_DEVX_CREATED_ID(out);
	return err;
}

static struct ib_umem *shca_devx_umem_get(struct shca_dev *dev, struct uverbs_attr_bundle *attrs)
{
	u64 addr, size;
	u32 access;
	int err;

	err = uverbs_copy_from(&addr, attrs, MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR);
	if (err)
		return ERR_PTR(err);
	err = uverbs_copy_from(&size, attrs, MLX5_IB_ATTR_DEVX_UMEM_REG_LEN);
	if (err)
		return ERR_PTR(err);
	err = uverbs_get_flags32(&access, attrs, MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS,
				 IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |
				 IB_ACCESS_REMOTE_READ | IB_ACCESS_RELAXED_ORDERING);
	if (err)
		return ERR_PTR(err);
	err = ib_check_mr_access(&dev->ib_dev, access);
	if (err)
		return ERR_PTR(err);
	return ib_umem_get_va(&dev->ib_dev, addr, size, access);
}

static int UVERBS_HANDLER(MLX5_IB_METHOD_DEVX_UMEM_REG)(struct uverbs_attr_bundle *attrs)
{
	struct ib_uobject *uobj =
		uverbs_attr_get_uobject(attrs, MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE);
	struct shca_ucontext *context = shca_devx_context(attrs);
	struct shca_devx_umem *obj;
	u64 pgsz_bitmap;
	int err;

	if (!context->devx_uid)
		return -EINVAL;
	err = uverbs_get_const_default(&pgsz_bitmap, attrs,
				       MLX5_IB_ATTR_DEVX_UMEM_REG_PGSZ_BITMAP,
				       GENMASK_ULL(63, MLX5_ADAPTER_PAGE_SHIFT));
	if (err)
		return err;

	obj = kzalloc_obj(*obj);
	if (!obj)
		return -ENOMEM;
	obj->obj.dev = to_sdev(context->ibucontext.device);
	obj->obj.type = MLX5_CMD_OP_CREATE_UMEM;
	obj->obj.uid = context->devx_uid;
	obj->umem = shca_devx_umem_get(obj->obj.dev, attrs);
	if (IS_ERR(obj->umem)) {
		err = PTR_ERR(obj->umem);
		goto free_obj;
	}
	err = shca_devx_create_umem(obj, pgsz_bitmap);
	if (err)
		goto release_umem;

	uobj->object = obj;
	uverbs_finalize_uobj_create(attrs, MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE);
	return uverbs_copy_to(attrs, MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID, &obj->obj.id,
			      sizeof(obj->obj.id));

release_umem:
	ib_umem_release(obj->umem);
free_obj:
	kfree(obj);
	return err;
}

static int shca_devx_umem_cleanup(struct ib_uobject *uobject, enum rdma_remove_reason why,
				  struct uverbs_attr_bundle *attrs)
{
	struct shca_devx_umem *obj = uobject->object;
	int err;

	err = shca_devx_destroy(&obj->obj);
	if (err)
		return err;
	ib_umem_release(obj->umem);
	kfree(obj);
	return 0;
}

/* A mailbox that goes in, and one that comes out. */
#define SHCA_DEVX_CMD_IN(attr)								\
	UVERBS_ATTR_PTR_IN(attr,							\
			   UVERBS_ATTR_MIN_SIZE(MLX5_ST_SZ_BYTES(general_obj_in_cmd_hdr)),	\
			   UA_MANDATORY, UA_ALLOC_AND_COPY)
#define SHCA_DEVX_CMD_OUT(attr)								\
	UVERBS_ATTR_PTR_OUT(attr,							\
			    UVERBS_ATTR_MIN_SIZE(MLX5_ST_SZ_BYTES(general_obj_out_cmd_hdr)),	\
			    UA_MANDATORY)

DECLARE_UVERBS_NAMED_METHOD(
	MLX5_IB_METHOD_DEVX_OTHER,
	SHCA_DEVX_CMD_IN(MLX5_IB_ATTR_DEVX_OTHER_CMD_IN),
	SHCA_DEVX_CMD_OUT(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT));

DECLARE_UVERBS_NAMED_METHOD(
	MLX5_IB_METHOD_DEVX_QUERY_EQN,
	UVERBS_ATTR_PTR_IN(MLX5_IB_ATTR_DEVX_QUERY_EQN_USER_VEC,
			   UVERBS_ATTR_TYPE(u32),
			   UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(MLX5_IB_ATTR_DEVX_QUERY_EQN_DEV_EQN,
			    UVERBS_ATTR_TYPE(u32),
			    UA_MANDATORY));

DECLARE_UVERBS_GLOBAL_METHODS(MLX5_IB_OBJECT_DEVX,
			      &UVERBS_METHOD(MLX5_IB_METHOD_DEVX_OTHER),
			      &UVERBS_METHOD(MLX5_IB_METHOD_DEVX_QUERY_EQN));

DECLARE_UVERBS_NAMED_METHOD(
	MLX5_IB_METHOD_DEVX_OBJ_CREATE,
	UVERBS_ATTR_IDR(MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE,
			MLX5_IB_OBJECT_DEVX_OBJ,
			UVERBS_ACCESS_NEW,
			UA_MANDATORY),
	SHCA_DEVX_CMD_IN(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN),
	SHCA_DEVX_CMD_OUT(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT));

DECLARE_UVERBS_NAMED_METHOD_DESTROY(
	MLX5_IB_METHOD_DEVX_OBJ_DESTROY,
	UVERBS_ATTR_IDR(MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE,
			MLX5_IB_OBJECT_DEVX_OBJ,
			UVERBS_ACCESS_DESTROY,
			UA_MANDATORY));

DECLARE_UVERBS_NAMED_METHOD(
	MLX5_IB_METHOD_DEVX_OBJ_MODIFY,
	UVERBS_ATTR_IDR(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE,
			UVERBS_IDR_ANY_OBJECT,
			UVERBS_ACCESS_READ,
			UA_MANDATORY),
	SHCA_DEVX_CMD_IN(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN),
	SHCA_DEVX_CMD_OUT(MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT));

DECLARE_UVERBS_NAMED_METHOD(
	MLX5_IB_METHOD_DEVX_OBJ_QUERY,
	UVERBS_ATTR_IDR(MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE,
			UVERBS_IDR_ANY_OBJECT,
			UVERBS_ACCESS_READ,
			UA_MANDATORY),
	SHCA_DEVX_CMD_IN(MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN),
	SHCA_DEVX_CMD_OUT(MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT));

DECLARE_UVERBS_NAMED_OBJECT(MLX5_IB_OBJECT_DEVX_OBJ,
			    UVERBS_TYPE_ALLOC_IDR(shca_devx_obj_cleanup),
			    &UVERBS_METHOD(MLX5_IB_METHOD_DEVX_OBJ_CREATE),
			    &UVERBS_METHOD(MLX5_IB_METHOD_DEVX_OBJ_DESTROY),
			    &UVERBS_METHOD(MLX5_IB_METHOD_DEVX_OBJ_MODIFY),
			    &UVERBS_METHOD(MLX5_IB_METHOD_DEVX_OBJ_QUERY));

DECLARE_UVERBS_NAMED_METHOD(
	MLX5_IB_METHOD_DEVX_UMEM_REG,
	UVERBS_ATTR_IDR(MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE,
			MLX5_IB_OBJECT_DEVX_UMEM,
			UVERBS_ACCESS_NEW,
			UA_MANDATORY),
	UVERBS_ATTR_PTR_IN(MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR,
			   UVERBS_ATTR_TYPE(u64),
			   UA_MANDATORY),
	UVERBS_ATTR_PTR_IN(MLX5_IB_ATTR_DEVX_UMEM_REG_LEN,
			   UVERBS_ATTR_TYPE(u64),
			   UA_MANDATORY),
	UVERBS_ATTR_FLAGS_IN(MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS,
			     enum ib_access_flags),
	UVERBS_ATTR_CONST_IN(MLX5_IB_ATTR_DEVX_UMEM_REG_PGSZ_BITMAP,
			     u64),
	UVERBS_ATTR_PTR_OUT(MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID,
			    UVERBS_ATTR_TYPE(u32),
			    UA_MANDATORY));

DECLARE_UVERBS_NAMED_METHOD_DESTROY(
	MLX5_IB_METHOD_DEVX_UMEM_DEREG,
	UVERBS_ATTR_IDR(MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE,
			MLX5_IB_OBJECT_DEVX_UMEM,
			UVERBS_ACCESS_DESTROY,
			UA_MANDATORY));

DECLARE_UVERBS_NAMED_OBJECT(MLX5_IB_OBJECT_DEVX_UMEM,
			    UVERBS_TYPE_ALLOC_IDR(shca_devx_umem_cleanup),
			    &UVERBS_METHOD(MLX5_IB_METHOD_DEVX_UMEM_REG),
			    &UVERBS_METHOD(MLX5_IB_METHOD_DEVX_UMEM_DEREG));

const struct uapi_definition shca_devx_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE_NAMED(MLX5_IB_OBJECT_DEVX),
	UAPI_DEF_CHAIN_OBJ_TREE_NAMED(MLX5_IB_OBJECT_DEVX_OBJ),
	UAPI_DEF_CHAIN_OBJ_TREE_NAMED(MLX5_IB_OBJECT_DEVX_UMEM),
	{}
};
