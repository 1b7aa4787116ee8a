// SPDX-License-Identifier: GPL-2.0
/*
 * The driver's own UMRs: registration, revocation and new rights of memory keys by
 * work requests instead of commands. The twin of umr.c; HM 8, 12.
 *
 * Invariants:
 *  - One UMR is outstanding at a time, under umr->lock. The HCA executes the queue
 *    one by one anyway, so nothing is lost, and a UMR that fails has no others behind
 *    it that would have to be posted again.
 *  - A function that posts a UMR returns after its completion: no access by what it
 *    replaced is running then, anywhere (HM 11.2).
 *  - While umr->lock is held, nothing is allocated: a key may have to be revoked for
 *    memory to become free (HM 11.4 R2). For the same reason a list of an on-demand
 *    region is never waited for memory with: the emergency page takes it, in pieces.
 *  - Before the lock is released after a failure, the queue is ready again or known
 *    to be broken; then every UMR fails.
 *  - No queue of a program is in umr->pdn, so a free key in it is nobody's.
 */
#include <linux/dma-mapping.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/sizes.h>
#include <linux/mlx5/cq.h>
#include <linux/mlx5/doorbell.h>
#include <linux/mlx5/qp.h>
#include <rdma/iter.h>

#include "shca.h"

/* A list so short travels in the request. */
#define SHCA_UMR_INLINE		64

/* What is tried before the emergency page when no memory may be waited for. */
#define SHCA_UMR_SPARE_CHUNK	SZ_64K

/*
 * The largest piece of a list in one request: its size in octowords has 16 bits, and
 * lists are multiples of 64 bytes (HM 8.3).
 */
#define SHCA_MAX_UMR_CHUNK	((1 << 16) * SHCA_OCTOWORD - MLX5_UMR_FLEX_ALIGNMENT)

/* Without the extended offset, pages beyond so many cannot be named (HM 12.1). */
#define SHCA_MAX_UMR_PAGES	(1 << 16)

#define SHCA_UMR_SQ_BLOCKS	32
#define SHCA_UMR_CQES		8

static bool umr_ext_offset = true;
module_param(umr_ext_offset, bool, 0644);
MODULE_PARM_DESC(umr_ext_offset,
		 "use umr_extended_translation_offset; without it, regions from 256 MiB on are registered by CREATE_MKEY (default y)");

static bool umr_entity_size = true;
module_param(umr_entity_size, bool, 0644);
MODULE_PARM_DESC(umr_entity_size,
		 "UMR may change the page size of a key; without it, all regions are registered by CREATE_MKEY (default y)");

/**
 * struct shca_umr_queues - the queues of the driver's UMR queue pair: one page
 * @sq: send queue, in basic blocks
 * @cqe: completions
 * @qp_db: doorbell record of the queue pair
 * @cq_db: doorbell record of the completion queue
 */
struct shca_umr_queues {
	u8 sq[SHCA_UMR_SQ_BLOCKS][MLX5_SEND_WQE_BB];
	struct mlx5_cqe64 cqe[SHCA_UMR_CQES];
	__be32 qp_db[2];
	__be32 cq_db[2];
};
static_assert(sizeof(struct shca_umr_queues) <= PAGE_SIZE);

/* ACTIVE: UMRs can be posted. ERR: they cannot, and never will. */
enum shca_umr_state {
	SHCA_UMR_STATE_ACTIVE,
	SHCA_UMR_STATE_ERR,
};

/**
 * struct shca_umr - the driver's UMR queue pair and what belongs to it
 * @pdn: protection domain of free keys
 * @queues: memory of the queues
 * @dma: its address for the HCA
 * @emergency: a page for lists that nobody may wait for memory for
 * @emergency_mutex: who holds it has @emergency; taken before @lock
 * @cq: the completion queue, for shca_cq_comp() to find; not known to the core
 * @qpn: number of the queue pair
 * @lock: one UMR at a time: protects what follows
 * @state: ACTIVE, or ERR for good
 * @pi: basic blocks posted
 * @ci: CQEs consumed
 * @arm_sn: completion events so far; changed by the event handler while the holder of
 *	@lock waits for it
 * @comp: completed by each completion event
 */
struct shca_umr {
	u32 pdn;
	struct shca_umr_queues *queues;
	dma_addr_t dma;
	void *emergency;
	struct mutex emergency_mutex;
	struct shca_cq cq;
	u32 qpn;
	struct mutex lock;
	enum shca_umr_state state;
	u16 pi;
	u32 ci;
	u32 arm_sn;
	struct completion comp;
};

/**
 * struct shca_umr_wqe - a UMR, as long as the driver makes them
 * @ctrl: control segment
 * @umr: UMR control segment
 * @mkey: memory key context, of which umr.mkey_mask selects fields
 * @data: where the list lies, or
 * @list: the list itself
 */
struct shca_umr_wqe {
	struct mlx5_wqe_ctrl_seg ctrl;
	struct mlx5_wqe_umr_ctrl_seg umr;
	struct mlx5_mkey_seg mkey;
	union {
		struct mlx5_wqe_data_seg data;
		u8 list[SHCA_UMR_INLINE] __aligned(sizeof(u64));
	};
};
static_assert(sizeof(struct shca_umr_wqe) % MLX5_SEND_WQE_BB == 0);

/**
 * struct shca_umr_xlt - memory for a list that does not fit into the request
 * @buf: aligned to MLX5_UMR_ALIGN; NULL if none is needed
 * @size: bytes of @buf
 * @dma: its address for the HCA
 */
struct shca_umr_xlt {
	void *buf;
	size_t size;
	dma_addr_t dma;
};

static u64 get_umr_enable_mr_mask(void)
{
	return MLX5_MKEY_MASK_KEY | MLX5_MKEY_MASK_FREE;
}

static u64 get_umr_update_translation_mask(struct shca_dev *dev)
{
	u64 mask = MLX5_MKEY_MASK_LEN | MLX5_MKEY_MASK_PAGE_SIZE | MLX5_MKEY_MASK_START_ADDR;

	if (SHCA_CAP_GEN_2(dev, umr_log_entity_size_5))
		mask |= MLX5_MKEY_MASK_PAGE_SIZE_5;
	return mask;
}

static u64 get_umr_update_access_mask(struct shca_dev *dev)
{
	u64 mask = MLX5_MKEY_MASK_LR | MLX5_MKEY_MASK_LW | MLX5_MKEY_MASK_RR | MLX5_MKEY_MASK_RW;

	if (SHCA_CAP_GEN(dev, atomic))
		mask |= MLX5_MKEY_MASK_A;
	if (SHCA_CAP_GEN(dev, relaxed_ordering_write_umr))
		mask |= MLX5_MKEY_MASK_RELAXED_ORDERING_WRITE;
	if (SHCA_CAP_GEN(dev, relaxed_ordering_read_umr))
		mask |= MLX5_MKEY_MASK_RELAXED_ORDERING_READ;
	return mask;
}

static void shca_umr_post_send(struct shca_dev *dev, struct shca_umr_wqe *wqe, size_t size)
{
	struct shca_umr *umr = dev->umr;
	size_t at;

	wqe->ctrl.opmod_idx_opcode = cpu_to_be32(umr->pi << 8 | MLX5_OPCODE_UMR);
	wqe->ctrl.qpn_ds = cpu_to_be32(umr->qpn << 8 | size / MLX5_SEND_WQE_DS);
	wqe->ctrl.fm_ce_se = MLX5_WQE_CTRL_CQ_UPDATE | MLX5_FENCE_MODE_INITIATOR_SMALL;
	for (at = 0; at < size; at += MLX5_SEND_WQE_BB)
		memcpy(umr->queues->sq[umr->pi++ % SHCA_UMR_SQ_BLOCKS], (void *)wqe + at,
		       MLX5_SEND_WQE_BB);

	/* The WQE before the record that shows it, the record before the doorbell. */
	dma_wmb();
	WRITE_ONCE(umr->queues->qp_db[MLX5_SND_DBR], cpu_to_be32(umr->pi));
	dma_wmb();
	hca_uar_store(dev->hca, dev->uar_id, MLX5_BF_OFFSET, &wqe->ctrl, sizeof(u64),
		      HCA_STORE_INLINE);
}

static struct mlx5_cqe64 *shca_umr_next_cqe(struct shca_umr *umr)
{
	struct mlx5_cqe64 *cqe = &umr->queues->cqe[umr->ci % SHCA_UMR_CQES];
	/* Written last: whatever it covers must be read after it. */
	u8 op_own = smp_load_acquire(&cqe->op_own);

	if (op_own >> 4 == MLX5_CQE_INVALID ||
	    (op_own & MLX5_CQE_OWNER_MASK) != !!(umr->ci & SHCA_UMR_CQES))
		return NULL;
	return cqe;
}

static void shca_umr_arm(struct shca_dev *dev)
{
	struct shca_umr *umr = dev->umr;
	u32 word = (umr->arm_sn & 3) << 28 | MLX5_CQ_DB_REQ_NOT | (umr->ci & 0xffffff);
	__be32 doorbell[2] = { cpu_to_be32(word), cpu_to_be32(umr->cq.cqn) };

	WRITE_ONCE(umr->queues->cq_db[1], doorbell[0]);
	dma_wmb();
	hca_uar_store(dev->hca, dev->uar_id, HCA_UAR_CQ_DOORBELL, doorbell, sizeof(doorbell), 0);
}

static void shca_umr_comp(struct ib_cq *ibcq, void *context)
{
	struct shca_umr *umr = context;

	umr->arm_sn++;
	complete(&umr->comp);
}

/* Wait for the completion of the UMR that is outstanding. Returns 0, or -EIO if it failed. */
static int shca_umr_wait(struct shca_dev *dev, u32 mkey)
{
	struct shca_umr *umr = dev->umr;
	struct mlx5_err_cqe *failed;
	struct mlx5_cqe64 *cqe;
	int err = 0;

	/* As a rule the HCA has done the work on the doorbell, and nobody has to sleep. */
	while (!(cqe = shca_umr_next_cqe(umr))) {
		shca_umr_arm(dev);
		wait_for_completion(&umr->comp);
	}

	if (get_cqe_opcode(cqe) != MLX5_CQE_REQ) {
		failed = (struct mlx5_err_cqe *)cqe;
		dev_err(&dev->pdev->dev,
			"UMR of mkey 0x%x failed: syndrome 0x%x, vendor syndrome 0x%x\n", mkey,
			failed->syndrome, failed->vendor_err_synd);
		err = -EIO;
	}
	umr->ci++;
	WRITE_ONCE(umr->queues->cq_db[0], cpu_to_be32(umr->ci & 0xffffff));
	return err;
}

static int shca_umr_qp_rst2rts(struct shca_dev *dev)
{
	u8 qpc[MLX5_ST_SZ_BYTES(qpc)] __aligned(sizeof(u64)) = {};
	void *path = MLX5_ADDR_OF(qpc, qpc, primary_address_path);
	u32 qpn = dev->umr->qpn;
	int err;

	/* No packet ever leaves this queue, but INIT2RTR_QP takes no context without these. */
	MLX5_SET(ads, path, vhca_port_num, 1);
	MLX5_SET(qpc, qpc, mtu, MLX5_QPC_MTU_256_BYTES);
	err = shca_cmd_qp_modify(dev, 0, MLX5_CMD_OP_RST2INIT_QP, 0, qpc, qpn);
	if (!err)
		err = shca_cmd_qp_modify(dev, 0, MLX5_CMD_OP_INIT2RTR_QP, 0, qpc, qpn);
	if (!err)
		err = shca_cmd_qp_modify(dev, 0, MLX5_CMD_OP_RTR2RTS_QP, 0, qpc, qpn);
	return err;
}

/* A UMR has failed, so the queue pair is in error, with nothing posted: begin again. */
static void shca_umr_recover(struct shca_dev *dev)
{
	struct shca_umr *umr = dev->umr;
	int err;

	err = shca_cmd_qp_modify(dev, 0, MLX5_CMD_OP_2RST_QP, 0, NULL, umr->qpn);
	if (!err) {
		umr->pi = 0;
		WRITE_ONCE(umr->queues->qp_db[MLX5_SND_DBR], 0);
		err = shca_umr_qp_rst2rts(dev);
	}
	if (err) {
		dev_err(&dev->pdev->dev, "UMR queue could not be recovered (%d)\n", err);
		umr->state = SHCA_UMR_STATE_ERR;
	}
}

/* @size: bytes of @wqe in use. Not inlined, so that fault_test can get in its way. */
static noinline int shca_umr_post_send_wait(struct shca_dev *dev, u32 mkey,
					    struct shca_umr_wqe *wqe, size_t size)
{
	struct shca_umr *umr = dev->umr;
	int err = -EIO;

	wqe->ctrl.imm = cpu_to_be32(mkey);
	mutex_lock(&umr->lock);
	if (umr->state == SHCA_UMR_STATE_ERR)
		goto unlock;
	shca_umr_post_send(dev, wqe, size);
	err = shca_umr_wait(dev, mkey);
	if (err)
		shca_umr_recover(dev);
unlock:
	mutex_unlock(&umr->lock);
	return err;
}

/**
 * shca_umr_revoke_mr() - make a key free
 * @mr: the region; its key may be free already
 *
 * Context: process, waits for the accesses that are running; allocates nothing.
 * Return: 0: the HCA reaches nothing through the key any more, and none of the pages
 * is in use; -EIO: the key may be as it was. Source: HM 8.9, 11.5.
 */
int shca_umr_revoke_mr(struct shca_mr *mr)
{
	struct shca_dev *dev = to_sdev(mr->ibmr.device);
	struct shca_umr_wqe wqe = {};

	wqe.umr.flags = MLX5_UMR_INLINE;
	wqe.umr.mkey_mask = cpu_to_be64(MLX5_MKEY_MASK_FREE | MLX5_MKEY_MASK_PD);
	MLX5_SET(mkc, &wqe.mkey, free, 1);
	MLX5_SET(mkc, &wqe.mkey, pd, dev->umr->pdn);
	MLX5_SET(mkc, &wqe.mkey, qpn, 0xffffff);
	MLX5_SET(mkc, &wqe.mkey, mkey_7_0, mr->mmkey.key);
	return shca_umr_post_send_wait(dev, mr->mmkey.key, &wqe, offsetof(typeof(wqe), data));
}

static void shca_umr_set_access_flags(struct shca_dev *dev, void *mkc, int access_flags)
{
	bool relaxed = access_flags & IB_ACCESS_RELAXED_ORDERING;

	MLX5_SET(mkc, mkc, a, !!(access_flags & IB_ACCESS_REMOTE_ATOMIC));
	MLX5_SET(mkc, mkc, rw, !!(access_flags & IB_ACCESS_REMOTE_WRITE));
	MLX5_SET(mkc, mkc, rr, !!(access_flags & IB_ACCESS_REMOTE_READ));
	MLX5_SET(mkc, mkc, lw, !!(access_flags & IB_ACCESS_LOCAL_WRITE));
	MLX5_SET(mkc, mkc, lr, 1);
	MLX5_SET(mkc, mkc, relaxed_ordering_write,
		 relaxed && SHCA_CAP_GEN(dev, relaxed_ordering_write));
	MLX5_SET(mkc, mkc, relaxed_ordering_read,
		 relaxed && SHCA_CAP_GEN(dev, relaxed_ordering_read));
}

/**
 * shca_umr_rereg_pd_access() - change protection domain and rights of a region
 * @mr: the region, in use
 * @pd: its new protection domain
 * @access_flags: its new rights
 *
 * Context: process, waits for the accesses that are running; allocates nothing.
 * Return: 0, or -EIO with the region as it was. Source: HM 12.4.
 */
int shca_umr_rereg_pd_access(struct shca_mr *mr, struct ib_pd *pd, int access_flags)
{
	struct shca_dev *dev = to_sdev(mr->ibmr.device);
	struct shca_umr_wqe wqe = {};
	int err;

	/* 2: fail if free */
	wqe.umr.flags = MLX5_UMR_CHECK_FREE | MLX5_UMR_INLINE;
	wqe.umr.mkey_mask = cpu_to_be64(get_umr_update_access_mask(dev) | MLX5_MKEY_MASK_PD);
	shca_umr_set_access_flags(dev, &wqe.mkey, access_flags);
	MLX5_SET(mkc, &wqe.mkey, pd, to_spd(pd)->pdn);
	MLX5_SET(mkc, &wqe.mkey, qpn, 0xffffff);
	MLX5_SET(mkc, &wqe.mkey, mkey_7_0, mr->mmkey.key);
	err = shca_umr_post_send_wait(dev, mr->mmkey.key, &wqe, offsetof(typeof(wqe), data));
	if (!err)
		mr->access_flags = access_flags;
	return err;
}

/**
 * shca_umr_can_load_pas() - can the translation table of a region be loaded by UMR?
 * @dev: the device
 * @length: bytes of the region
 *
 * It always can on this HCA. The module parameters take the capabilities away that
 * HCAs exist without, for lessons and tests.
 *
 * Source: HM 12.1.
 */
bool shca_umr_can_load_pas(struct shca_dev *dev, size_t length)
{
	if (!umr_entity_size || SHCA_CAP_GEN(dev, umr_modify_entity_size_disabled))
		return false;
	if (umr_ext_offset && SHCA_CAP_GEN(dev, umr_extended_translation_offset))
		return true;
	return length < (size_t)SHCA_MAX_UMR_PAGES * PAGE_SIZE;
}

/* As much memory as the list takes, or less: then it travels in pieces. */
static void *shca_umr_alloc_xlt(size_t *size)
{
	void *buf;

	/* kmalloc() aligns powers of two to themselves. */
	*size = roundup_pow_of_two(clamp(*size, (size_t)MLX5_UMR_ALIGN, (size_t)SZ_1M));
	for (;;) {
		buf = kmalloc(*size, *size > PAGE_SIZE ?
			      GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN : GFP_KERNEL);
		if (buf || *size <= PAGE_SIZE)
			return buf;
		*size /= 2;
	}
}

/* The same where memory must not be waited for; it always succeeds. */
static void *shca_umr_alloc_xlt_atomic(struct shca_umr *umr, size_t *size)
{
	void *buf;

	*size = roundup_pow_of_two(clamp(*size, (size_t)MLX5_UMR_ALIGN,
					 (size_t)SHCA_UMR_SPARE_CHUNK));
	buf = kmalloc(*size, GFP_NOWAIT | __GFP_NOWARN);
	if (buf)
		return buf;
	mutex_lock(&umr->emergency_mutex);
	*size = PAGE_SIZE;
	return umr->emergency;
}

static void shca_umr_free_xlt(struct shca_umr *umr, void *buf)
{
	if (buf == umr->emergency)
		mutex_unlock(&umr->emergency_mutex);
	else
		kfree(buf);
}

/* @size: bytes of the whole list. */
static int shca_umr_create_xlt(struct shca_dev *dev, struct shca_umr_xlt *xlt, size_t size,
			       unsigned int flags)
{
	*xlt = (struct shca_umr_xlt){};
	if (size <= SHCA_UMR_INLINE)
		return 0;

	xlt->buf = flags & SHCA_UPD_XLT_ATOMIC ? shca_umr_alloc_xlt_atomic(dev->umr, &size) :
						 shca_umr_alloc_xlt(&size);
	if (!xlt->buf)
		return -ENOMEM;
	xlt->size = min_t(size_t, size, SHCA_MAX_UMR_CHUNK);
	xlt->dma = dma_map_single(&dev->pdev->dev, xlt->buf, xlt->size, DMA_TO_DEVICE);
	if (dma_mapping_error(&dev->pdev->dev, xlt->dma)) {
		shca_umr_free_xlt(dev->umr, xlt->buf);
		return -ENOMEM;
	}
	return 0;
}

static void shca_umr_unmap_free_xlt(struct shca_dev *dev, struct shca_umr_xlt *xlt)
{
	if (!xlt->buf)
		return;
	dma_unmap_single(&dev->pdev->dev, xlt->dma, xlt->size, DMA_TO_DEVICE);
	shca_umr_free_xlt(dev->umr, xlt->buf);
}

/* Load @bytes of entries, from byte @offset of the table on. */
static int shca_umr_load_chunk(struct shca_dev *dev, u32 mkey, struct shca_umr_wqe *wqe,
			       const struct shca_umr_xlt *xlt, size_t bytes, u64 offset)
{
	size_t padded = ALIGN(bytes, MLX5_UMR_FLEX_ALIGNMENT);

	memset((xlt->buf ?: wqe->list) + bytes, 0, padded - bytes);
	offset /= SHCA_OCTOWORD;
	wqe->umr.xlt_octowords = cpu_to_be16(padded / SHCA_OCTOWORD);
	wqe->umr.xlt_offset = cpu_to_be16(offset);
	wqe->umr.xlt_offset_47_16 = cpu_to_be32(offset >> 16);
	if (!xlt->buf)
		return shca_umr_post_send_wait(dev, mkey, wqe, sizeof(*wqe));

	wqe->data.byte_count = cpu_to_be32(padded);
	wqe->data.lkey = cpu_to_be32(dev->mkeys.resd_lkey);
	wqe->data.addr = cpu_to_be64(xlt->dma);
	return shca_umr_post_send_wait(dev, mkey, wqe, offsetofend(struct shca_umr_wqe, data));
}

static void shca_umr_set_update_xlt_ctrl_seg(struct shca_umr_wqe *wqe,
					     const struct shca_umr_xlt *xlt, unsigned int flags)
{
	/* 1: fail if not free, 2: fail if free */
	wqe->umr.flags = (flags & SHCA_UPD_XLT_ENABLE ? MLX5_UMR_CHECK_NOT_FREE :
							MLX5_UMR_CHECK_FREE) |
			 MLX5_UMR_TRANSLATION_OFFSET_EN | (xlt->buf ? 0 : MLX5_UMR_INLINE);
}

static void shca_umr_set_update_xlt_mkey_seg(struct shca_dev *dev, void *mkc, struct shca_mr *mr,
					     u32 pdn)
{
	shca_umr_set_access_flags(dev, mkc, mr->access_flags);
	MLX5_SET(mkc, mkc, pd, pdn);
	MLX5_SET64(mkc, mkc, start_addr, mr->ibmr.iova);
	MLX5_SET64(mkc, mkc, len, mr->ibmr.length);
	/* Not for whatever has length 0, as mlx5 does: that would open the rest of its page. */
	MLX5_SET(mkc, mkc, length64, mr->is_odp_implicit);
	MLX5_SET(mkc, mkc, log_page_size, mr->page_shift);
	MLX5_SET(mkc, mkc, qpn, 0xffffff);
	MLX5_SET(mkc, mkc, mkey_7_0, mr->mmkey.key);
}

/* Which fields the last request of an update changes (HM 12.2). */
static void shca_umr_final_update_xlt(struct shca_dev *dev, struct shca_umr_wqe *wqe,
				      unsigned int flags)
{
	u64 mask = 0;

	if (flags & SHCA_UPD_XLT_ENABLE)
		mask = get_umr_enable_mr_mask() | MLX5_MKEY_MASK_PD |
			get_umr_update_access_mask(dev) | get_umr_update_translation_mask(dev);
	wqe->umr.mkey_mask = cpu_to_be64(mask);
}

/**
 * shca_umr_enable_mr() - enable the key of a region whose table is empty
 * @mr: the region; its key is free, its fields say what it shall be
 * @pdn: its protection domain
 *
 * Context: process; allocates nothing. Return: 0, or -EIO with the key still free.
 */
int shca_umr_enable_mr(struct shca_mr *mr, u32 pdn)
{
	struct shca_dev *dev = to_sdev(mr->ibmr.device);
	struct shca_umr_wqe wqe = {};

	/* 1: fail if not free */
	wqe.umr.flags = MLX5_UMR_CHECK_NOT_FREE | MLX5_UMR_INLINE;
	shca_umr_final_update_xlt(dev, &wqe, SHCA_UPD_XLT_ENABLE);
	shca_umr_set_update_xlt_mkey_seg(dev, &wqe.mkey, mr, pdn);
	return shca_umr_post_send_wait(dev, mr->mmkey.key, &wqe, offsetof(typeof(wqe), data));
}

/**
 * shca_umr_update_mr_page_shift() - tell the HCA that the page size of a key has changed
 * @mr: the region; its key is in use, and its table holds nothing
 * @page_shift: log2 of the new page size; becomes that of @mr
 *
 * Context: process; allocates nothing. Return: 0, or -EIO with the old page size in force.
 */
int shca_umr_update_mr_page_shift(struct shca_mr *mr, unsigned int page_shift)
{
	struct shca_dev *dev = to_sdev(mr->ibmr.device);
	unsigned int old_page_shift = mr->page_shift;
	struct shca_umr_wqe wqe = {};
	int err;

	/* 2: fail if free */
	wqe.umr.flags = MLX5_UMR_CHECK_FREE | MLX5_UMR_INLINE;
	wqe.umr.mkey_mask = cpu_to_be64(get_umr_update_translation_mask(dev));
	mr->page_shift = page_shift;
	shca_umr_set_update_xlt_mkey_seg(dev, &wqe.mkey, mr, 0);
	err = shca_umr_post_send_wait(dev, mr->mmkey.key, &wqe, offsetof(typeof(wqe), data));
	if (err)
		mr->page_shift = old_page_shift;
	return err;
}

/**
 * shca_umr_update_mr_pas() - load the translation table of a region
 * @mr: the region; its fields say what it is or shall be
 * @flags: SHCA_UPD_XLT_ENABLE: the key is free and becomes in use;
 *	SHCA_UPD_XLT_ATOMIC: do not wait for memory
 * @pdn: its protection domain, for SHCA_UPD_XLT_ENABLE
 *
 * The table goes in pieces of up to 1 MiB - 64 bytes; only the last of them enables the
 * key, so nobody sees a table that is half loaded.
 *
 * Context: process, may sleep.
 * Return: 0; -ENOMEM, not with SHCA_UPD_XLT_ATOMIC; or -EIO. A key that was free is so
 * still. Source: HM 12.2.
 */
int shca_umr_update_mr_pas(struct shca_mr *mr, unsigned int flags, u32 pdn)
{
	struct shca_dev *dev = to_sdev(mr->ibmr.device);
	size_t n = 0, max, nblocks;
	struct shca_umr_wqe wqe = {};
	struct ib_block_iter biter;
	struct shca_umr_xlt xlt;
	__be64 *entries;
	u64 first = 0;
	int err;

	nblocks = ib_umem_num_dma_blocks(mr->umem, BIT(mr->page_shift));
	err = shca_umr_create_xlt(dev, &xlt, nblocks * sizeof(*entries), flags);
	if (err)
		return err;
	entries = xlt.buf ?: wqe.list;
	max = (xlt.buf ? xlt.size : sizeof(wqe.list)) / sizeof(*entries);

	shca_umr_set_update_xlt_ctrl_seg(&wqe, &xlt, flags);
	shca_umr_set_update_xlt_mkey_seg(dev, &wqe.mkey, mr, pdn);
	rdma_umem_for_each_dma_block(mr->umem, &biter, BIT(mr->page_shift)) {
		if (n == max) {
			err = shca_umr_load_chunk(dev, mr->mmkey.key, &wqe, &xlt,
						  n * sizeof(*entries), first * sizeof(*entries));
			if (err)
				goto free_xlt;
			first += n;
			n = 0;
		}
		entries[n++] = cpu_to_be64(rdma_block_iter_dma_address(&biter) | SHCA_MTT_PRESENT);
	}

	shca_umr_final_update_xlt(dev, &wqe, flags);
	err = shca_umr_load_chunk(dev, mr->mmkey.key, &wqe, &xlt, n * sizeof(*entries),
				  first * sizeof(*entries));
free_xlt:
	shca_umr_unmap_free_xlt(dev, &xlt);
	return err;
}

/**
 * shca_umr_update_xlt() - load part of a translation table whose pages may be missing
 * @mr: the region; unless @flags says SHCA_UPD_XLT_ENABLE, its key is in use
 * @idx: first entry
 * @nentries: how many; at least 1
 * @flags: SHCA_UPD_XLT_*
 * @pdn: protection domain, for SHCA_UPD_XLT_ENABLE
 *
 * The HCA takes lists in units of 64 bytes. The entries that this adds on both sides are
 * loaded with what they hold anyway.
 *
 * Context: process; the mutex of the umem (of a dma-buf, its reservation lock) held,
 * unless nobody else knows the region yet.
 * Waits for the accesses that are running; with SHCA_UPD_XLT_ATOMIC it does not wait for
 * memory.
 * Return: 0; -ENOMEM, not with SHCA_UPD_XLT_ATOMIC; or -EIO. Source: HM 6.8, 12.2.
 */
int shca_umr_update_xlt(struct shca_mr *mr, u64 idx, size_t nentries, unsigned int flags, u32 pdn)
{
	size_t entry_size = flags & SHCA_UPD_XLT_INDIRECT ? sizeof(struct mlx5_klm) :
							    sizeof(__be64);
	size_t align = MLX5_UMR_FLEX_ALIGNMENT / entry_size;
	struct shca_xlt_zap zap = { idx, flags & SHCA_UPD_XLT_ZAP ? idx + nentries : idx };
	struct shca_dev *dev = to_sdev(mr->ibmr.device);
	u64 end = ALIGN(idx + nentries, align);
	struct shca_umr_wqe wqe = {};
	struct shca_umr_xlt xlt;
	size_t n, max;
	int err;

	idx = ALIGN_DOWN(idx, align);
	err = shca_umr_create_xlt(dev, &xlt, (end - idx) * entry_size, flags);
	if (err)
		return err;
	max = (xlt.buf ? xlt.size : sizeof(wqe.list)) / entry_size;

	shca_umr_set_update_xlt_ctrl_seg(&wqe, &xlt, flags);
	shca_umr_set_update_xlt_mkey_seg(dev, &wqe.mkey, mr, pdn);
	for (; idx < end && !err; idx += n) {
		n = min_t(u64, end - idx, max);
		shca_odp_populate_xlt(xlt.buf ?: wqe.list, idx, n, mr, flags, &zap);
		if (idx + n == end)
			shca_umr_final_update_xlt(dev, &wqe, flags);
		err = shca_umr_load_chunk(dev, mr->mmkey.key, &wqe, &xlt, n * entry_size,
					  idx * entry_size);
	}
	shca_umr_unmap_free_xlt(dev, &xlt);
	return err;
}

/* The queues lie in one page, so all offsets in it can be told in 64ths of it. */
static unsigned int shca_umr_page_offset(size_t offset)
{
	return offset / (PAGE_SIZE / 64);
}

static int shca_umr_create_cq(struct shca_dev *dev)
{
	u8 in[MLX5_ST_SZ_BYTES(create_cq_in) + sizeof(u64)] __aligned(sizeof(u64)) = {};
	void *cqc = MLX5_ADDR_OF(create_cq_in, in, cq_context);
	struct shca_umr *umr = dev->umr;
	unsigned int i;
	u32 eqn;
	int err;

	err = shca_comp_eqn_get(dev, 0, &eqn);
	if (err)
		return err;
	for (i = 0; i < SHCA_UMR_CQES; i++)
		umr->queues->cqe[i].op_own = MLX5_CQE_INVALID << 4;

	MLX5_ARRAY_SET64(create_cq_in, in, pas, 0, umr->dma);
	MLX5_SET(cqc, cqc, cqe_sz, CQE_STRIDE_64);
	MLX5_SET(cqc, cqc, log_cq_size, ilog2(SHCA_UMR_CQES));
	MLX5_SET(cqc, cqc, log_page_size, PAGE_SHIFT - MLX5_ADAPTER_PAGE_SHIFT);
	MLX5_SET(cqc, cqc, page_offset,
		 shca_umr_page_offset(offsetof(struct shca_umr_queues, cqe)));
	MLX5_SET(cqc, cqc, uar_page, dev->uar_id);
	MLX5_SET(cqc, cqc, c_eqn_or_apu_element, eqn);
	MLX5_SET64(cqc, cqc, dbr_addr, umr->dma + offsetof(struct shca_umr_queues, cq_db));
	err = shca_cmd_create_cq(dev, &umr->cq.cqn, in, sizeof(in));
	if (err)
		return err;

	umr->cq.ibcq.comp_handler = shca_umr_comp;
	umr->cq.ibcq.cq_context = umr;
	err = shca_res_add(&dev->cqs, &umr->cq.res, umr->cq.cqn);
	if (err)
		shca_cmd_destroy_cq(dev, 0, umr->cq.cqn);
	return err;
}

static int shca_umr_destroy_cq(struct shca_dev *dev)
{
	struct shca_umr *umr = dev->umr;
	int err;

	err = shca_cmd_destroy_cq(dev, 0, umr->cq.cqn);
	if (!err)
		shca_res_del(&dev->cqs, &umr->cq.res, umr->cq.cqn);
	return err;
}

static int shca_umr_create_qp(struct shca_dev *dev)
{
	u8 in[MLX5_ST_SZ_BYTES(create_qp_in) + sizeof(u64)] __aligned(sizeof(u64)) = {};
	void *qpc = MLX5_ADDR_OF(create_qp_in, in, qpc);
	struct shca_umr *umr = dev->umr;
	int err;

	MLX5_ARRAY_SET64(create_qp_in, in, pas, 0, umr->dma);
	MLX5_SET(qpc, qpc, st, MLX5_QP_ST_REG_UMR);
	MLX5_SET(qpc, qpc, pm_state, MLX5_QP_PM_MIGRATED);
	MLX5_SET(qpc, qpc, rlky, 1);
	MLX5_SET(qpc, qpc, log_page_size, PAGE_SHIFT - MLX5_ADAPTER_PAGE_SHIFT);
	MLX5_SET(qpc, qpc, page_offset,
		 shca_umr_page_offset(offsetof(struct shca_umr_queues, sq)));
	MLX5_SET(qpc, qpc, log_sq_size, ilog2(SHCA_UMR_SQ_BLOCKS));
	MLX5_SET(qpc, qpc, rq_type, MLX5_ZERO_LEN_RQ);
	MLX5_SET(qpc, qpc, uar_page, dev->uar_id);
	MLX5_SET(qpc, qpc, cqn_snd, umr->cq.cqn);
	MLX5_SET(qpc, qpc, cqn_rcv, umr->cq.cqn);
	MLX5_SET64(qpc, qpc, dbr_addr, umr->dma + offsetof(struct shca_umr_queues, qp_db));
	err = shca_cmd_create_qp(dev, &umr->qpn, in, sizeof(in));
	if (err)
		return err;
	err = shca_umr_qp_rst2rts(dev);
	if (err)
		shca_cmd_destroy_qp(dev, 0, umr->qpn);
	return err;
}

/**
 * shca_umr_pdn() - protection domain of keys that are free
 * @dev: the device
 */
u32 shca_umr_pdn(struct shca_dev *dev)
{
	return dev->umr->pdn;
}

/**
 * shca_umr_init() - create the protection domain and the queues of the driver's UMRs
 * @dev: the device; its event queues exist
 *
 * Context: process. Return: 0 or an errno.
 */
int shca_umr_init(struct shca_dev *dev)
{
	struct device *device = &dev->pdev->dev;
	struct shca_umr *umr;
	int err = -ENOMEM;

	umr = kzalloc_obj(*umr);
	if (!umr)
		return err;
	dev->umr = umr;
	mutex_init(&umr->lock);
	mutex_init(&umr->emergency_mutex);
	init_completion(&umr->comp);
	umr->emergency = (void *)__get_free_page(GFP_KERNEL);
	if (!umr->emergency)
		goto free_umr;
	umr->queues = (void *)get_zeroed_page(GFP_KERNEL);
	if (!umr->queues)
		goto free_emergency;
	umr->dma = dma_map_single(device, umr->queues, PAGE_SIZE, DMA_BIDIRECTIONAL);
	if (dma_mapping_error(device, umr->dma))
		goto free_queues;
	err = shca_cmd_alloc_pd(dev, 0, &umr->pdn);
	if (err)
		goto unmap_queues;
	err = shca_umr_create_cq(dev);
	if (err)
		goto dealloc_pd;
	err = shca_umr_create_qp(dev);
	if (err)
		goto destroy_cq;
	return 0;

destroy_cq:
	shca_umr_destroy_cq(dev);
dealloc_pd:
	shca_cmd_dealloc_pd(dev, 0, umr->pdn);
unmap_queues:
	dma_unmap_single(device, umr->dma, PAGE_SIZE, DMA_BIDIRECTIONAL);
free_queues:
	free_page((unsigned long)umr->queues);
free_emergency:
	free_page((unsigned long)umr->emergency);
free_umr:
	kfree(umr);
	return err;
}

/**
 * shca_umr_cleanup() - destroy what shca_umr_init() created
 * @dev: the device; no key is in use or in a pool any more
 *
 * Context: process.
 */
void shca_umr_cleanup(struct shca_dev *dev)
{
	struct device *device = &dev->pdev->dev;
	struct shca_umr *umr = dev->umr;

	if (shca_cmd_destroy_qp(dev, 0, umr->qpn) || shca_umr_destroy_cq(dev)) {
		dev_warn(device, "UMR queues were not destroyed: their page is lost\n");
		return;
	}
	shca_cmd_dealloc_pd(dev, 0, umr->pdn);
	dma_unmap_single(device, umr->dma, PAGE_SIZE, DMA_BIDIRECTIONAL);
	free_page((unsigned long)umr->queues);
	free_page((unsigned long)umr->emergency);
	kfree(umr);
}
