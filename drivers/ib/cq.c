// SPDX-License-Identifier: GPL-2.0
/*
 * Completion queues of user space: the twin of cq.c.
 *
 * Invariants:
 *  - ibcq->cqe is a power of two minus one: libmlx5 derives its owner bit from
 *    it (libmlx5-abi 5.1, trap 1).
 *  - Ring and record stay pinned until DESTROY_CQ has succeeded, the old ring of
 *    a resize until MODIFY_CQ has.
 *  - The arm word of a new CQ is one that no program writes first, so that the
 *    zero in a fresh record is not taken for a request (libmlx5-abi 5.6).
 */
#include <linux/log2.h>
#include <linux/mlx5/cq.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/uverbs_std_types.h>

#include "shca.h"

#define UVERBS_MODULE_NAME shca_cq
#include <rdma/uverbs_named_ioctl.h>

/* Sequence number 2, where libmlx5 begins with 0. */
#define SHCA_CQ_ARM_NEVER	(2 << 28)

#define SHCA_CQ_PGSZ_BITMAP						\
	shca_log_page_size_to_bitmap(__mlx5_bit_sz(cqc, log_page_size),	\
				     MLX5_ADAPTER_PAGE_SHIFT)

static u8 shca_cqe_sz_to_mlx_sz(int cqe_size)
{
	return cqe_size == 64 ? CQE_STRIDE_64 : CQE_STRIDE_128;
}

/* Number of CQEs in the ring for a request of @entries, or 0 if it is too large. */
static unsigned int shca_cq_ring_size(struct shca_dev *dev, unsigned int entries)
{
	unsigned int max = BIT(SHCA_CAP_GEN(dev, log_max_cq_sz));

	if (entries >= max)
		return 0;
	return roundup_pow_of_two(entries + 1);
}

static struct ib_umem *shca_cq_pin(struct shca_dev *dev, struct uverbs_attr_bundle *attrs,
				   u64 addr, size_t size, unsigned long *page_size,
				   unsigned int *page_offset_quantized)
{
	struct ib_umem *umem;

	if (attrs)
		umem = ib_umem_get_cq_buf_or_va(&dev->ib_dev, attrs, addr, size,
						IB_ACCESS_LOCAL_WRITE);
	else
		umem = ib_umem_get_va(&dev->ib_dev, addr, size, IB_ACCESS_LOCAL_WRITE);
	if (IS_ERR(umem))
		return umem;
	/* The bus reaches memory with a struct page only. */
	if (umem->is_dmabuf) {
		ib_umem_release(umem);
		return ERR_PTR(-EOPNOTSUPP);
	}

	*page_size = shca_umem_find_best_quantized_pgoff(umem, SHCA_CQ_PGSZ_BITMAP,
							 __mlx5_bit_sz(cqc, page_offset), 0, 64,
							 page_offset_quantized);
	if (!*page_size) {
		ib_umem_release(umem);
		return ERR_PTR(-EINVAL);
	}
	return umem;
}

static void shca_cqc_set_buf(void *cqc, int cqe_size, unsigned int entries,
			     unsigned long page_size, unsigned int page_offset_quantized)
{
	MLX5_SET(cqc, cqc, cqe_sz, shca_cqe_sz_to_mlx_sz(cqe_size));
	MLX5_SET(cqc, cqc, log_cq_size, ilog2(entries));
	MLX5_SET(cqc, cqc, log_page_size, order_base_2(page_size) - MLX5_ADAPTER_PAGE_SHIFT);
	MLX5_SET(cqc, cqc, page_offset, page_offset_quantized);
}

/**
 * shca_cmd_create_cq() - CREATE_CQ
 * @dev: the device
 * @cqn: number of the CQ
 * @in: create_cq_in; the opcode is filled in here
 * @inlen: its length in bytes, page list included
 *
 * Context: process. Return: 0 or an errno.
 */
int shca_cmd_create_cq(struct shca_dev *dev, u32 *cqn, void *in, size_t inlen)
{
	u32 out[MLX5_ST_SZ_DW(create_cq_out)];
	int err;

	MLX5_SET(create_cq_in, in, opcode, MLX5_CMD_OP_CREATE_CQ);
	err = shca_cmd_exec(dev, in, inlen, out, sizeof(out));
	if (!err)
		*cqn = MLX5_GET(create_cq_out, out, cqn);
	return err;
}

/**
 * shca_cmd_destroy_cq() - DESTROY_CQ
 * @dev: the device
 * @uid: user context that it belongs to
 * @cqn: number of the CQ
 *
 * Context: process. Return: 0 or an errno.
 */
int shca_cmd_destroy_cq(struct shca_dev *dev, u16 uid, u32 cqn)
{
	u32 out[MLX5_ST_SZ_DW(destroy_cq_out)];
	u32 in[MLX5_ST_SZ_DW(destroy_cq_in)] = {};

	MLX5_SET(destroy_cq_in, in, opcode, MLX5_CMD_OP_DESTROY_CQ);
	MLX5_SET(destroy_cq_in, in, uid, uid);
	MLX5_SET(destroy_cq_in, in, cqn, cqn);
	return shca_cmd_exec(dev, in, sizeof(in), out, sizeof(out));
}

static int shca_cq_get_ucmd(struct ib_udata *udata, struct uverbs_attr_bundle *attrs,
			    struct mlx5_ib_create_cq *ucmd, u32 *uar_id)
{
	int err;

	err = ib_copy_validate_udata_in(udata, *ucmd, cqe_comp_res_format);
	if (err)
		return err;

	if (ucmd->flags & ~(MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD |
			    MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX |
			    MLX5_IB_CREATE_CQ_FLAGS_REAL_TIME_TS))
		return -EINVAL;
	/* Known, but not among our capabilities. */
	if (ucmd->flags & ~MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX || ucmd->cqe_comp_en)
		return -EOPNOTSUPP;
	if ((ucmd->cqe_size != 64 && ucmd->cqe_size != 128) ||
	    ucmd->reserved0 || ucmd->reserved1)
		return -EINVAL;

	if (uverbs_attr_is_valid(attrs, MLX5_IB_ATTR_CREATE_CQ_UAR_INDEX))
		return uverbs_copy_from(uar_id, attrs, MLX5_IB_ATTR_CREATE_CQ_UAR_INDEX);
	/* Without a number it would be a UAR of the static mode, which is not offered. */
	if (!(ucmd->flags & MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX))
		return -EINVAL;
	*uar_id = ucmd->uar_page_index;
	return 0;
}

/**
 * shca_create_user_cq() - create a CQ on a ring of user space
 * @ibcq: the CQ
 * @attr: number of CQEs, completion vector, flags
 * @attrs: request struct mlx5_ib_create_cq, response struct mlx5_ib_create_cq_resp
 *
 * Context: process. Return: 0 or an errno. Source: libmlx5-abi 5.1.
 */
int shca_create_user_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
			struct uverbs_attr_bundle *attrs)
{
	struct ib_udata *udata = &attrs->driver_udata;
	struct shca_ucontext *context =
		rdma_udata_to_drv_context(udata, struct shca_ucontext, ibucontext);
	struct shca_dev *dev = to_sdev(ibcq->device);
	struct mlx5_ib_create_cq_resp uresp = {};
	struct shca_cq *cq = to_scq(ibcq);
	unsigned int page_offset_quantized;
	struct mlx5_ib_create_cq ucmd;
	unsigned long page_size;
	unsigned int entries;
	size_t inlen;
	void *cqc;
	u32 *in;
	u32 eqn;
	int err;

	if (attr->flags & ~IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN)
		return -EOPNOTSUPP;
	entries = shca_cq_ring_size(dev, attr->cqe);
	if (!entries)
		return -EINVAL;
	err = shca_cq_get_ucmd(udata, attrs, &ucmd, &cq->uar_id);
	if (err)
		return err;
	err = shca_comp_eqn_get(dev, attr->comp_vector, &eqn);
	if (err)
		return err;

	ibcq->cqe = entries - 1;
	cq->cqe_size = ucmd.cqe_size;
	mutex_init(&cq->resize_mutex);

	err = shca_uar_use(context, cq->uar_id);
	if (err)
		return err;
	cq->umem = shca_cq_pin(dev, attrs, ucmd.buf_addr, (size_t)entries * ucmd.cqe_size,
			       &page_size, &page_offset_quantized);
	if (IS_ERR(cq->umem)) {
		err = PTR_ERR(cq->umem);
		goto unuse_uar;
	}
	err = shca_db_map_user(context, ucmd.db_addr, &cq->db);
	if (err)
		goto release_umem;
	WRITE_ONCE(cq->db.record[1], cpu_to_be32(SHCA_CQ_ARM_NEVER));

	inlen = MLX5_ST_SZ_BYTES(create_cq_in) +
		MLX5_FLD_SZ_BYTES(create_cq_in, pas[0]) *
		ib_umem_num_dma_blocks(cq->umem, page_size);
	in = kvzalloc(inlen, GFP_KERNEL);
	if (!in) {
		err = -ENOMEM;
		goto unmap_db;
	}
	MLX5_SET(create_cq_in, in, uid, context->devx_uid);
	shca_populate_pas(cq->umem, page_size, MLX5_ADDR_OF(create_cq_in, in, pas), 0);
	cqc = MLX5_ADDR_OF(create_cq_in, in, cq_context);
	shca_cqc_set_buf(cqc, cq->cqe_size, entries, page_size, page_offset_quantized);
	MLX5_SET(cqc, cqc, uar_page, cq->uar_id);
	MLX5_SET(cqc, cqc, c_eqn_or_apu_element, eqn);
	MLX5_SET64(cqc, cqc, dbr_addr, cq->db.dma);
	if (attr->flags & IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN)
		MLX5_SET(cqc, cqc, oi, 1);

	err = shca_cmd_create_cq(dev, &cq->cqn, in, inlen);
	kvfree(in);
	if (err)
		goto unmap_db;
	err = shca_res_add(&dev->cqs, &cq->res, cq->cqn);
	if (err)
		goto destroy_cq;

	uresp.cqn = cq->cqn;
	err = ib_respond_udata(udata, uresp);
	if (err)
		goto del_res;
	return 0;

del_res:
	shca_res_del(&dev->cqs, &cq->res, cq->cqn);
destroy_cq:
	shca_cmd_destroy_cq(dev, context->devx_uid, cq->cqn);
unmap_db:
	shca_db_unmap_user(context, &cq->db);
release_umem:
	ib_umem_release(cq->umem);
unuse_uar:
	shca_uar_unuse(context, cq->uar_id);
	return err;
}

/**
 * shca_destroy_cq() - destroy a CQ
 * @ibcq: the CQ
 * @udata: context of the caller
 *
 * No event handler of this CQ runs when it returns.
 *
 * Context: process. Return: 0, or an errno with the CQ still alive.
 */
int shca_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct shca_ucontext *context =
		rdma_udata_to_drv_context(udata, struct shca_ucontext, ibucontext);
	struct shca_dev *dev = to_sdev(ibcq->device);
	struct shca_cq *cq = to_scq(ibcq);
	int err;

	err = shca_cmd_destroy_cq(dev, context->devx_uid, cq->cqn);
	if (err)
		return err;
	shca_res_del(&dev->cqs, &cq->res, cq->cqn);
	shca_db_unmap_user(context, &cq->db);
	ib_umem_release(cq->umem);
	shca_uar_unuse(context, cq->uar_id);
	return 0;
}

/**
 * shca_resize_cq() - move a CQ to another ring
 * @ibcq: the CQ
 * @cqe: CQEs asked for
 * @udata: request struct mlx5_ib_resize_cq
 *
 * The HCA writes a RESIZE_CQ completion into the old ring and goes on in the new
 * one; libmlx5 copies what is left in the old one.
 *
 * Context: process. Return: 0, or an errno with the old ring still in use.
 * Source: libmlx5-abi 5.5.
 */
int shca_resize_cq(struct ib_cq *ibcq, COMPAT_CQE_TYPE cqe, struct ib_udata *udata)
{
	struct shca_ucontext *context =
		rdma_udata_to_drv_context(udata, struct shca_ucontext, ibucontext);
	struct shca_dev *dev = to_sdev(ibcq->device);
	u32 out[MLX5_ST_SZ_DW(modify_cq_out)];
	struct shca_cq *cq = to_scq(ibcq);
	unsigned int page_offset_quantized;
	struct mlx5_ib_resize_cq ucmd;
	unsigned long page_size;
	unsigned int entries;
	struct ib_umem *umem;
	size_t inlen;
	void *cqc;
	u32 *in;
	int err;

	if (cqe < 1)
		return -EINVAL;
	entries = shca_cq_ring_size(dev, cqe);
	if (!entries)
		return -EINVAL;
	err = ib_copy_validate_udata_in(udata, ucmd, reserved1);
	if (err)
		return err;
	if (ucmd.reserved0 || ucmd.reserved1 || ucmd.cqe_size != cq->cqe_size)
		return -EINVAL;

	mutex_lock(&cq->resize_mutex);
	if (entries == ibcq->cqe + 1) {
		err = 0;
		goto unlock;
	}

	umem = shca_cq_pin(dev, NULL, ucmd.buf_addr, (size_t)entries * ucmd.cqe_size, &page_size,
			   &page_offset_quantized);
	if (IS_ERR(umem)) {
		err = PTR_ERR(umem);
		goto unlock;
	}
	inlen = MLX5_ST_SZ_BYTES(modify_cq_in) +
		MLX5_FLD_SZ_BYTES(modify_cq_in, pas[0]) * ib_umem_num_dma_blocks(umem, page_size);
	in = kvzalloc(inlen, GFP_KERNEL);
	if (!in) {
		err = -ENOMEM;
		goto release_umem;
	}
	shca_populate_pas(umem, page_size, MLX5_ADDR_OF(modify_cq_in, in, pas), 0);
	cqc = MLX5_ADDR_OF(modify_cq_in, in, cq_context);
	shca_cqc_set_buf(cqc, cq->cqe_size, entries, page_size, page_offset_quantized);
	MLX5_SET(modify_cq_in, in, opcode, MLX5_CMD_OP_MODIFY_CQ);
	MLX5_SET(modify_cq_in, in, uid, context->devx_uid);
	MLX5_SET(modify_cq_in, in, op_mod, MLX5_CQ_OPMOD_RESIZE);
	MLX5_SET(modify_cq_in, in, cqn, cq->cqn);
	MLX5_SET(modify_cq_in, in,
		 modify_field_select_resize_field_select.resize_field_select.resize_field_select,
		 MLX5_MODIFY_CQ_MASK_LOG_SIZE | MLX5_MODIFY_CQ_MASK_PG_OFFSET |
		 MLX5_MODIFY_CQ_MASK_PG_SIZE);

	err = shca_cmd_exec(dev, in, inlen, out, sizeof(out));
	kvfree(in);
	if (err)
		goto release_umem;

	ibcq->cqe = entries - 1;
	swap(umem, cq->umem);
release_umem:
	ib_umem_release(umem);
unlock:
	mutex_unlock(&cq->resize_mutex);
	return err;
}

ADD_UVERBS_ATTRIBUTES_SIMPLE(
	shca_cq_create,
	UVERBS_OBJECT_CQ,
	UVERBS_METHOD_CQ_CREATE,
	UVERBS_ATTR_PTR_IN(
		MLX5_IB_ATTR_CREATE_CQ_UAR_INDEX,
		UVERBS_ATTR_TYPE(u32),
		UA_OPTIONAL));

const struct uapi_definition shca_create_cq_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_CQ, &shca_cq_create),
	{}
};
