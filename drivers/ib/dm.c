// SPDX-License-Identifier: GPL-2.0
/*
 * Device memory: the twin of dm.c. HM 13.2, libmlx5-abi 11.
 *
 * Of mlx5's kinds of it there is one, MEMIC: memory of the HCA itself, a piece of
 * its BAR 0, which the CPU reaches by mapping it and the HCA through a key of
 * access mode MEMIC.
 *
 * Invariants:
 *  - An allocation consists of whole pages, because a mapping does.
 *  - It is given back to the HCA when its mmap offset is free, not before: who
 *    still has it mapped after ibv_free_dm() has nobody else's memory before him.
 *  - It is zero when it is handed out: what was in it was somebody else's.
 *  - An MR keeps its memory, by the core's use count; so DEALLOC_MEMIC finds no key.
 */
#include <linux/dev_printk.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <rdma/uverbs_std_types.h>

#include "shca.h"

#define UVERBS_MODULE_NAME shca_dm
#include <rdma/uverbs_named_ioctl.h>

/* What MEMIC is measured in, and the log2 of it. */
#define SHCA_MEMIC_BASE_ALIGN	6
#define SHCA_MEMIC_BASE_SIZE	BIT(SHCA_MEMIC_BASE_ALIGN)

/* mmap command of device memory (libmlx5-abi 2.4); its index has to fit 8 bits here. */
#define SHCA_MMAP_CMD_DEVICE_MEM	8

static unsigned int shca_memic_pages(struct shca_dev *dev)
{
	return min_t(unsigned int, SHCA_CAP_DEV_MEM(dev, memic_bar_size) >> PAGE_SHIFT,
		     SHCA_MAX_MEMIC_PAGES);
}

static void *shca_memic_va(struct shca_dev *dev, u64 addr)
{
	size_t bar_size;

	return hca_bar(dev->hca, &bar_size) + addr;
}

static int shca_cmd_exec_alloc_memic(struct shca_dev *dev, u64 range, struct shca_dm *dm,
				     u32 log_alignment)
{
	u32 out[MLX5_ST_SZ_DW(alloc_memic_out)];
	u32 in[MLX5_ST_SZ_DW(alloc_memic_in)] = {};
	int err;

	MLX5_SET(alloc_memic_in, in, opcode, MLX5_CMD_OP_ALLOC_MEMIC);
	MLX5_SET64(alloc_memic_in, in, range_start_addr, range);
	MLX5_SET(alloc_memic_in, in, range_size, PAGE_ALIGN(dm->size));
	MLX5_SET(alloc_memic_in, in, memic_size, dm->size);
	MLX5_SET(alloc_memic_in, in, log_memic_addr_alignment, log_alignment);
	err = shca_cmd_exec(dev, in, sizeof(in), out, sizeof(out));
	if (!err)
		dm->dev_addr = MLX5_GET64(alloc_memic_out, out, memic_start_addr);
	return err;
}

/* The HCA decides where in the pages that are offered; it may refuse those at hand. */
static int shca_cmd_alloc_memic(struct shca_dev *dev, struct shca_dm *dm, u32 alignment)
{
	u64 hw_start_addr = SHCA_CAP64_DEV_MEM(dev, memic_bar_start_addr);
	unsigned int npages = DIV_ROUND_UP(dm->size, PAGE_SIZE);
	unsigned int total = shca_memic_pages(dev);
	unsigned long page = 0;
	u32 log_alignment;
	int err;

	/* The HCA counts alignments from the base on, the verb from a byte on. */
	log_alignment = alignment > SHCA_MEMIC_BASE_ALIGN ? alignment - SHCA_MEMIC_BASE_ALIGN : 0;
	if (log_alignment > SHCA_CAP_DEV_MEM(dev, log_max_memic_addr_alignment))
		return -EINVAL;

	do {
		spin_lock(&dev->memic.lock);
		page = bitmap_find_next_zero_area(dev->memic.alloc_pages, total, page, npages, 0);
		if (page < total)
			bitmap_set(dev->memic.alloc_pages, page, npages);
		spin_unlock(&dev->memic.lock);
		if (page >= total)
			return -ENOMEM;

		err = shca_cmd_exec_alloc_memic(dev, hw_start_addr + page * PAGE_SIZE, dm,
						log_alignment);
		if (!err)
			return 0;
		spin_lock(&dev->memic.lock);
		bitmap_clear(dev->memic.alloc_pages, page, npages);
		spin_unlock(&dev->memic.lock);
		page++;
	} while (err == -EAGAIN);
	return err;
}

static void shca_cmd_dealloc_memic(struct shca_dev *dev, struct shca_dm *dm)
{
	u64 hw_start_addr = SHCA_CAP64_DEV_MEM(dev, memic_bar_start_addr);
	u32 out[MLX5_ST_SZ_DW(dealloc_memic_out)];
	u32 in[MLX5_ST_SZ_DW(dealloc_memic_in)] = {};

	MLX5_SET(dealloc_memic_in, in, opcode, MLX5_CMD_OP_DEALLOC_MEMIC);
	MLX5_SET64(dealloc_memic_in, in, memic_start_addr, dm->dev_addr);
	MLX5_SET(dealloc_memic_in, in, memic_size, dm->size);
	/* If it fails, the HCA may still use the memory: nobody gets it again. */
	if (shca_cmd_exec(dev, in, sizeof(in), out, sizeof(out)))
		return;

	spin_lock(&dev->memic.lock);
	bitmap_clear(dev->memic.alloc_pages, (dm->dev_addr - hw_start_addr) >> PAGE_SHIFT,
		     DIV_ROUND_UP(dm->size, PAGE_SIZE));
	spin_unlock(&dev->memic.lock);
}

/**
 * shca_dm_mmap() - map device memory
 * @ibcontext: the context
 * @mentry: its mmap offset; the mapping holds it
 * @vma: the mapping
 *
 * Context: mmap_lock held for write. Return: 0 or an errno.
 */
int shca_dm_mmap(struct ib_ucontext *ibcontext, struct shca_user_mmap_entry *mentry,
		 struct vm_area_struct *vma)
{
	struct shca_dm *dm = container_of(mentry, struct shca_dm, mentry);
	void *va = shca_memic_va(to_sdev(ibcontext->device), dm->dev_addr);

	/* It is memory in truth, so with the protection that memory is mapped with. */
	return rdma_user_mmap_io(ibcontext, vma, PHYS_PFN(virt_to_phys(va)),
				 mentry->rdma_entry.npages * PAGE_SIZE, vma->vm_page_prot,
				 &mentry->rdma_entry);
}

/**
 * shca_dm_mmap_free() - nobody has the memory any more
 * @mentry: its mmap offset
 *
 * Context: process.
 */
void shca_dm_mmap_free(struct shca_user_mmap_entry *mentry)
{
	struct shca_dm *dm = container_of(mentry, struct shca_dm, mentry);

	shca_cmd_dealloc_memic(to_sdev(mentry->rdma_entry.ucontext->device), dm);
	kfree(dm);
}

static struct ib_dm *handle_alloc_dm_memic(struct ib_ucontext *ctx, struct ib_dm_alloc_attr *attr,
					   struct uverbs_attr_bundle *attrs)
{
	struct shca_dev *dev = to_sdev(ctx->device);
	struct shca_dm *dm;
	u64 start_offset;
	u16 page_idx;
	int err;

	if (!SHCA_CAP_DEV_MEM(dev, memic))
		return ERR_PTR(-EOPNOTSUPP);
	if (!attr->length || attr->length > SHCA_CAP_DEV_MEM(dev, max_memic_size))
		return ERR_PTR(-EINVAL);

	dm = kzalloc_obj(*dm, GFP_KERNEL_ACCOUNT);
	if (!dm)
		return ERR_PTR(-ENOMEM);
	dm->size = roundup(attr->length, SHCA_MEMIC_BASE_SIZE);
	dm->mentry.mmap_flag = SHCA_MMAP_TYPE_MEMIC;
	err = shca_cmd_alloc_memic(dev, dm, attr->alignment);
	if (err)
		goto free_dm;
	memset(shca_memic_va(dev, dm->dev_addr & PAGE_MASK), 0, PAGE_ALIGN(dm->size));

	err = rdma_user_mmap_entry_insert_range(ctx, &dm->mentry.rdma_entry, dm->size,
						SHCA_MMAP_PGOFF(SHCA_MMAP_CMD_DEVICE_MEM, 0),
						SHCA_MMAP_PGOFF(SHCA_MMAP_CMD_DEVICE_MEM, 0xff));
	if (err)
		goto dealloc_memic;

	page_idx = dm->mentry.rdma_entry.start_pgoff & 0xff;
	err = uverbs_copy_to(attrs, MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, &page_idx,
			     sizeof(page_idx));
	if (err)
		goto remove_entry;
	start_offset = offset_in_page(dm->dev_addr);
	err = uverbs_copy_to(attrs, MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, &start_offset,
			     sizeof(start_offset));
	if (err)
		goto remove_entry;
	return &dm->ibdm;

remove_entry:
	/* Which frees the memory and @dm as well. */
	rdma_user_mmap_entry_remove(&dm->mentry.rdma_entry);
	return ERR_PTR(err);

dealloc_memic:
	shca_cmd_dealloc_memic(dev, dm);
free_dm:
	kfree(dm);
	return ERR_PTR(err);
}

static struct ib_dm *shca_alloc_dm(struct ib_device *ibdev, struct ib_ucontext *context,
				   struct ib_dm_alloc_attr *attr,
				   struct uverbs_attr_bundle *attrs)
{
	enum mlx5_ib_uapi_dm_type type;
	int err;

	err = uverbs_get_const_default(&type, attrs, MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE,
				       MLX5_IB_UAPI_DM_TYPE_MEMIC);
	if (err)
		return ERR_PTR(err);
	/* The others are memory for flow steering, which is not offered. */
	if (type != MLX5_IB_UAPI_DM_TYPE_MEMIC)
		return ERR_PTR(-EOPNOTSUPP);
	return handle_alloc_dm_memic(context, attr, attrs);
}

static int shca_dealloc_dm(struct ib_dm *ibdm, struct uverbs_attr_bundle *attrs)
{
	rdma_user_mmap_entry_remove(&to_sdm(ibdm)->mentry.rdma_entry);
	return 0;
}

ADD_UVERBS_ATTRIBUTES_SIMPLE(
	shca_dm_alloc,
	UVERBS_OBJECT_DM,
	UVERBS_METHOD_DM_ALLOC,
	UVERBS_ATTR_PTR_OUT(MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET,
			    UVERBS_ATTR_TYPE(u64),
			    UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX,
			    UVERBS_ATTR_TYPE(u16),
			    UA_OPTIONAL),
	UVERBS_ATTR_CONST_IN(MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE,
			     enum mlx5_ib_uapi_dm_type,
			     UA_OPTIONAL));

const struct uapi_definition shca_dm_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DM, &shca_dm_alloc),
	{}
};

static const struct ib_device_ops shca_dm_ops = {
	.alloc_dm = shca_alloc_dm,
	.dealloc_dm = shca_dealloc_dm,
	.reg_dm_mr = shca_reg_dm_mr,
};

/**
 * shca_dm_init() - offer device memory if the HCA has some
 * @dev: the device, before its registration
 */
void shca_dm_init(struct shca_dev *dev)
{
	spin_lock_init(&dev->memic.lock);
	if (SHCA_CAP_DEV_MEM(dev, memic))
		ib_set_device_ops(&dev->ib_dev, &shca_dm_ops);
}
