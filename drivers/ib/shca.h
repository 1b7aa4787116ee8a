/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Private definitions of the driver half: the twin of mlx5_ib.h.
 *
 * Invariants:
 *  - The engine is reached only through <hca/...>; nothing in this folder knows
 *    what is behind it.
 *  - A name shca_x is what mlx5 calls mlx5_ib_x, mlx5r_x or mlx5_x.
 *  - Everything that the HCA may access is mapped for DMA with the platform
 *    device shca_dev.pdev, and stays so until the command that makes the HCA
 *    forget it has succeeded.
 */
#ifndef SHCA_H
#define SHCA_H

#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/completion.h>
#include <linux/if_ether.h>
#include <linux/list.h>
#include <linux/mempool.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/platform_device.h>
#include <linux/refcount.h>
#include <linux/rwsem.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <linux/mlx5/device.h>
#include <linux/mlx5/mlx5_ifc.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/uverbs_ioctl.h>
#include <hca/hca.h>
#include <hca/prm.h>
#include <compat.h>
#include <compat_frmr.h>

#define SHCA_MAX_COMP_VECTORS	8
#define SHCA_DEV_NAME		"softhca"

/* Translation tables are counted in units of 16 bytes. */
#define SHCA_OCTOWORD		16

/* log2 of the pages of the largest translation table: 2^30 octowords (HM 7.1) */
#define SHCA_LOG_MAX_BLOCKS	31

/* Read and write allowed: what every entry of pinned memory says (HM 5.2). */
#define SHCA_MTT_PRESENT	(MLX5_MTT_PERM_READ | MLX5_MTT_PERM_WRITE)

/* A capability as QUERY_HCA_CAP reported it, e.g. SHCA_CAP_GEN(dev, log_max_qp). */
#define SHCA_CAP_GEN(dev, cap)	MLX5_GET(cmd_hca_cap, (dev)->caps.general, cap)
#define SHCA_CAP_GEN_2(dev, cap) MLX5_GET(cmd_hca_cap_2, (dev)->caps.general_2, cap)
#define SHCA_CAP_ODP(dev, cap)	MLX5_GET(odp_cap, (dev)->caps.odp, cap)
#define SHCA_CAP_ATOMIC(dev, cap) MLX5_GET(atomic_caps, (dev)->caps.atomic, cap)
#define SHCA_CAP_ROCE(dev, cap)	MLX5_GET(roce_cap, (dev)->caps.roce, cap)
#define SHCA_CAP_DEV_MEM(dev, cap) MLX5_GET(device_mem_cap, (dev)->caps.device_mem, cap)
#define SHCA_CAP64_DEV_MEM(dev, cap) MLX5_GET64(device_mem_cap, (dev)->caps.device_mem, cap)

struct shca_dev;
struct shca_umr;

/**
 * struct shca_caps - what QUERY_HCA_CAP answered, by group
 * @general: MLX5_CAP_GENERAL
 * @general_2: MLX5_CAP_GENERAL_2
 * @odp: MLX5_CAP_ODP
 * @atomic: MLX5_CAP_ATOMIC
 * @roce: MLX5_CAP_ROCE
 * @device_mem: MLX5_CAP_DEV_MEM
 */
struct shca_caps {
	u32 general[MLX5_UN_SZ_DW(hca_cap_union)];
	u32 general_2[MLX5_UN_SZ_DW(hca_cap_union)];
	u32 odp[MLX5_UN_SZ_DW(hca_cap_union)];
	u32 atomic[MLX5_UN_SZ_DW(hca_cap_union)];
	u32 roce[MLX5_UN_SZ_DW(hca_cap_union)];
	u32 device_mem[MLX5_UN_SZ_DW(hca_cap_union)];
};

/**
 * struct shca_mkeys - keys that exist without an MR (QUERY_SPECIAL_CONTEXTS)
 * @dump_fill_mkey: lkey of the null MR
 * @resd_lkey: lkey under which addresses are DMA addresses; for queues of the kernel
 * @null_mkey: whose pages are never there; what implicit regions are made of at first
 * @terminate_scatter_list_mkey: lkey that ends the list of a receive request
 */
struct shca_mkeys {
	u32 dump_fill_mkey;
	u32 resd_lkey;
	u32 null_mkey;
	u32 terminate_scatter_list_mkey;
};

/* Interrupt vectors: asynchronous events, completions, page faults. */
#define SHCA_VECTOR_ASYNC	0
#define SHCA_VECTOR_COMP	1
#define SHCA_VECTOR_PF		(SHCA_VECTOR_COMP + SHCA_MAX_COMP_VECTORS)
#define SHCA_NUM_VECTORS	(SHCA_VECTOR_PF + 1)

/**
 * struct shca_eq - an event queue in kernel pages
 * @dev: the device
 * @eqn: number given by CREATE_EQ
 * @vector: interrupt vector, also the index in shca_dev.eqs
 * @log_size: log2 of the number of EQEs
 * @cons_index: EQEs consumed; touched only by the poller
 * @raised: interrupts not yet answered; whoever makes it non-zero polls
 * @npages: entries of @pages
 * @pages: the ring
 * @pas: DMA address of each page
 */
struct shca_eq {
	struct shca_dev *dev;
	u32 eqn;
	unsigned int vector;
	unsigned int log_size;
	u32 cons_index;
	atomic_t raised;
	unsigned int npages;
	struct page **pages;
	dma_addr_t *pas;
};

/* Counters of the driver half, beside those of the engine. */
enum shca_counter {
	SHCA_CNT_DOORBELL_TRAP,		/* stores to a UAR that were stepped over */
	SHCA_CNT_DOORBELL_MAPPED,	/* UAR pages mapped because they could not be */
	SHCA_CNT_MAX,
};

/* Pages of BAR 0 that device memory can be in. */
#define SHCA_MAX_MEMIC_PAGES	256

/**
 * struct shca_memic - which pages of the HCA's own memory are given away
 * @lock: protects @alloc_pages
 * @alloc_pages: bit set: part of an allocation. Two never share a page, because
 *	pages are what a process can map
 */
struct shca_memic {
	spinlock_t lock;
	DECLARE_BITMAP(alloc_pages, SHCA_MAX_MEMIC_PAGES);
};

/**
 * struct shca_pf_eq - what is around the event queue of page faults
 * @wq: where page faults are handled
 * @pool: of struct shca_pagefault, for interrupt handlers
 * @work: goes on reading events after @pool was empty
 */
struct shca_pf_eq {
	struct workqueue_struct *wq;
	mempool_t *pool;
	struct work_struct work;
};

/**
 * struct shca_dev - one HCA
 * @ib_dev: what the RDMA core sees; must be first for ib_alloc_device()
 * @hca: the engine
 * @pdev: parent device, which does the DMA mapping
 * @entry: in the module's list of devices (link.c)
 * @ndev: the interface behind the port; only compared, never followed
 * @wq: slow work that the HCA asks for, and UAR polling
 * @caps: capabilities, constant after bring-up
 * @mkeys: special keys, constant after bring-up
 * @uar_id: UAR of the kernel, for the event queues and for UMRs
 * @eqs: by interrupt vector; RCU protects the pointers against shca_irq()
 * @num_comp_eqs: how many of them are for completions
 * @cqs: CQ by number; its lock makes look-up and reference one step
 * @qps: QP by number; likewise
 * @mkey_var: source of the variant (low byte) of new keys
 * @slow_path_mutex: one big CREATE_MKEY at a time: each needs a mailbox as
 *	large as its translation table
 * @umr: queue of the driver's own UMRs
 * @odp_caps: what of on-demand paging is offered
 * @odp_eq_mutex: protects the creation of @odp_pf_eq
 * @odp_pf_eq: made for the first region that needs it
 * @odp_mkeys: struct shca_mkey of keys whose pages may be missing, by index
 * @imr_mtt_shift: log2 of the bytes that a child of an implicit region covers
 * @imr_ksm_entries: children that an implicit region can have
 * @frmr_pools: the pools of free keys, where the core has none
 * @fw_pages: pages given to the HCA, by DMA page number
 * @fw_page_count: how many
 * @memic: device memory
 * @page_req: answers a page request event
 * @page_req_npages: its argument; at most one request is outstanding (HM 3.3)
 * @counters: by enum shca_counter
 * @sys_image_guid: EUI-64 made from the MAC address of the netdev
 */
struct shca_dev {
	struct ib_device ib_dev;
	struct hca *hca;
	struct platform_device *pdev;
	struct list_head entry;
	struct net_device *ndev;
	struct workqueue_struct *wq;
	struct shca_caps caps;
	struct shca_mkeys mkeys;
	u32 uar_id;
	struct shca_eq __rcu *eqs[SHCA_NUM_VECTORS];
	unsigned int num_comp_eqs;
	struct xarray cqs;
	struct xarray qps;
	atomic_t mkey_var;
	struct mutex slow_path_mutex;
	struct shca_umr *umr;
	struct ib_odp_caps odp_caps;
	struct mutex odp_eq_mutex;
	struct shca_pf_eq odp_pf_eq;
	struct xarray odp_mkeys;
	u8 imr_mtt_shift;
	u64 imr_ksm_entries;
	struct compat_frmr_pools frmr_pools;
	struct xarray fw_pages;
	atomic_t fw_page_count;
	struct shca_memic memic;
	struct work_struct page_req;
	int page_req_npages;
	atomic64_t counters[SHCA_CNT_MAX];
	__be64 sys_image_guid;
};

/**
 * struct shca_ucontext - an open device file
 * @ibucontext: the core's part
 * @uars: UARs of this context by number; its lock protects shca_uar.users
 * @db_page_list: pinned pages that hold doorbell records
 * @db_page_mutex: protects @db_page_list and the reference counts in it
 * @tdn: transport domain
 * @devx_uid: what the HCA knows the context by, 0 if it may not use DEVX
 * @cqe_version: format of completions that libmlx5 agreed to
 */
struct shca_ucontext {
	struct ib_ucontext ibucontext;
	struct xarray uars;
	struct list_head db_page_list;
	struct mutex db_page_mutex;
	u32 tdn;
	u16 devx_uid;
	u8 cqe_version;
};

/* What an mmap offset stands for. */
enum shca_mmap_flag {
	SHCA_MMAP_TYPE_UAR,
	SHCA_MMAP_TYPE_MEMIC,
};

/**
 * struct shca_user_mmap_entry - an mmap offset
 * @rdma_entry: the core's part
 * @mmap_flag: whose it is
 */
struct shca_user_mmap_entry {
	struct rdma_user_mmap_entry rdma_entry;
	enum shca_mmap_flag mmap_flag;
};

/*
 * The page offset of an mmap as libmlx5 makes it: a command and an index
 * (libmlx5-abi 2.4).
 */
#define SHCA_MMAP_PGOFF(cmd, index)	((index) >> 8 << 16 | (cmd) << 8 | ((index) & 0xff))

/**
 * struct shca_pd - a protection domain
 * @ibpd: the core's part
 * @pdn: number given by ALLOC_PD
 * @uid: of the context that it belongs to, and of its QPs; 0 for the kernel's
 */
struct shca_pd {
	struct ib_pd ibpd;
	u32 pdn;
	u16 uid;
};

struct shca_ah {
	struct ib_ah ibah;
};

struct shca_user_db_page;

/**
 * struct shca_db - a doorbell record of user space
 * @dma: its address for the HCA
 * @record: the same two words for the driver
 * @user_page: the pin that holds it
 */
struct shca_db {
	dma_addr_t dma;
	__be32 *record;
	struct shca_user_db_page *user_page;
};

/**
 * struct shca_res - how event handlers find a queue and destruction waits for them
 * @refcount: 1 for the owner, 1 for each running handler
 * @free: completed when the last reference is gone
 */
struct shca_res {
	refcount_t refcount;
	struct completion free;
};

struct shca_cq {
	struct ib_cq ibcq;
	struct shca_res res;
	u32 cqn;
	u32 uar_id;
	int cqe_size;
	struct shca_db db;
	struct ib_umem *umem;
	struct mutex resize_mutex;	/* one RESIZE at a time: protects umem */
};

struct shca_wq {
	unsigned int wqe_cnt;
	unsigned int wqe_shift;
	unsigned int max_gs;
};

/**
 * struct shca_qp - a queue pair
 * @ibqp: the core's part
 * @res: for event handlers
 * @qpn: number given by CREATE_QP
 * @uar_id: UAR that its doorbells go to
 * @mutex: protects the fields from @state on, and orders MODIFY commands
 * @umem: the work queues: RQ first, SQ behind it
 * @db: doorbell record: [0] RQ, [1] SQ
 * @rq: receive queue as user space laid it out; wqe_cnt 0 if there is none
 * @sq: send queue, in blocks of 64 bytes
 * @sq_sig_all: every send is signalled
 * @state: as of the last command
 * @port: of IB_QP_PORT
 * @atomic_rd_en: of IB_QP_ACCESS_FLAGS
 * @resp_depth: of IB_QP_MAX_DEST_RD_ATOMIC
 */
struct shca_qp {
	struct ib_qp ibqp;
	struct shca_res res;
	u32 qpn;
	u32 uar_id;
	struct ib_umem *umem;
	struct shca_db db;
	struct shca_wq rq;
	struct shca_wq sq;
	bool sq_sig_all;
	struct mutex mutex;
	enum ib_qp_state state;
	u32 port;
	u32 atomic_rd_en;
	u8 resp_depth;
};

enum shca_mkey_type {
	SHCA_MKEY_MR,
	SHCA_MKEY_MW,
	SHCA_MKEY_INDIRECT_DEVX,
};

/**
 * struct shca_mkey - a memory key
 * @key: index << 8 | variant
 * @type: of what
 * @ndescs: octowords of its translation table
 * @usecount: for keys in shca_dev.odp_mkeys: who handles a page fault or reads pages
 *	ahead, plus 1 for the owner; 0 for others
 * @free: completed when @usecount becomes 0
 */
struct shca_mkey {
	u32 key;
	enum shca_mkey_type type;
	unsigned int ndescs;
	refcount_t usecount;
	struct completion free;
};

/**
 * struct shca_odp_stats - what happened to the pages of an on-demand region
 * @faults: pages that page faults have brought in
 * @faults_handled: page faults
 * @invalidations: pages that were taken away
 * @invalidations_handled: in so many goes
 * @prefetch: pages brought in on advice
 */
struct shca_odp_stats {
	atomic64_t faults;
	atomic64_t faults_handled;
	atomic64_t invalidations;
	atomic64_t invalidations_handled;
	atomic64_t prefetch;
};

/**
 * struct shca_mr - a memory region
 * @ibmr: the core's part
 * @mmkey: its key
 * @umem: its memory
 * @access_flags: IB_ACCESS_*
 * @page_shift: log2 of the page size of its translation table
 * @odp_stats: on-demand and dma-buf regions only
 * @is_odp_implicit: it stands for the whole address space
 * @implicit_children: implicit regions only: the regions that its key names, by block
 * @parent: children only: the implicit region
 * @odp_destroy: children only: takes them away when their last page has gone
 * @frmr: where the core keeps nothing for the pools, the part for them
 *
 * compat_frmr() is that part; its pool is NULL for a key of CREATE_MKEY.
 */
struct shca_mr {
	struct ib_mr ibmr;
	struct shca_mkey mmkey;
	struct ib_umem *umem;
	int access_flags;
	unsigned int page_shift;
	struct shca_odp_stats odp_stats;
	bool is_odp_implicit;
	struct xarray implicit_children;
	struct shca_mr *parent;
	struct work_struct odp_destroy;
	struct compat_frmr frmr;
};

struct shca_mw {
	struct ib_mw ibmw;
	struct shca_mkey mmkey;
};

/**
 * struct shca_dm - device memory (MEMIC)
 * @ibdm: the core's part
 * @mentry: its mmap offset; the memory stays allocated until that is free, which is
 *	when the last process has unmapped it
 * @dev_addr: address in BAR 0
 * @size: bytes
 */
struct shca_dm {
	struct ib_dm ibdm;
	struct shca_user_mmap_entry mentry;
	u64 dev_addr;
	u32 size;
};

static inline struct shca_dev *to_sdev(struct ib_device *ibdev)
{
	return container_of(ibdev, struct shca_dev, ib_dev);
}

static inline struct shca_ucontext *to_sucontext(struct ib_ucontext *ibucontext)
{
	return container_of(ibucontext, struct shca_ucontext, ibucontext);
}

static inline struct shca_pd *to_spd(struct ib_pd *ibpd)
{
	return container_of(ibpd, struct shca_pd, ibpd);
}

static inline struct shca_cq *to_scq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct shca_cq, ibcq);
}

static inline struct shca_qp *to_sqp(struct ib_qp *ibqp)
{
	return container_of(ibqp, struct shca_qp, ibqp);
}

static inline struct shca_mr *to_smr(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct shca_mr, ibmr);
}

static inline struct shca_dm *to_sdm(struct ib_dm *ibdm)
{
	return container_of(ibdm, struct shca_dm, ibdm);
}

static inline struct shca_user_mmap_entry *to_smmap(struct rdma_user_mmap_entry *rdma_entry)
{
	return container_of(rdma_entry, struct shca_user_mmap_entry, rdma_entry);
}

static inline struct shca_mw *to_smw(struct ib_mw *ibmw)
{
	return container_of(ibmw, struct shca_mw, ibmw);
}

/* QUERY_, DESTROY_MKEY and the MPT know a key by its index alone. */
static inline u32 shca_mkey_to_idx(u32 mkey)
{
	return mkey >> 8;
}

static inline bool is_odp_mr(const struct shca_mr *mr)
{
	return mr->umem && mr->umem->is_odp;
}

static inline bool is_dmabuf_mr(const struct shca_mr *mr)
{
	return mr->umem && mr->umem->is_dmabuf;
}

static inline void shca_count(struct shca_dev *dev, enum shca_counter counter)
{
	atomic64_inc(&dev->counters[counter]);
}

/* cmd.c */
int shca_cmd_exec(struct shca_dev *dev, const void *in, size_t inlen, void *out, size_t outlen);
int shca_cmd_do(struct shca_dev *dev, const void *in, size_t inlen, void *out, size_t outlen);
int shca_cmd_enable_hca(struct shca_dev *dev);
int shca_cmd_disable_hca(struct shca_dev *dev);
int shca_cmd_set_issi(struct shca_dev *dev);
int shca_cmd_init_hca(struct shca_dev *dev);
int shca_cmd_teardown_hca(struct shca_dev *dev);
int shca_cmd_query_hca_cap(struct shca_dev *dev, enum mlx5_cap_type type, u32 *cap);
int shca_cmd_set_hca_cap(struct shca_dev *dev, enum mlx5_cap_type type, const u32 *cap);
int shca_cmd_query_special_mkeys(struct shca_dev *dev);
int shca_cmd_alloc_uar(struct shca_dev *dev, u16 uid, u32 *uarn);
int shca_cmd_dealloc_uar(struct shca_dev *dev, u16 uid, u32 uarn);
int shca_cmd_alloc_pd(struct shca_dev *dev, u16 uid, u32 *pdn);
int shca_cmd_dealloc_pd(struct shca_dev *dev, u16 uid, u32 pdn);
int shca_cmd_alloc_transport_domain(struct shca_dev *dev, u16 uid, u32 *tdn);
int shca_cmd_dealloc_transport_domain(struct shca_dev *dev, u16 uid, u32 tdn);
int shca_cmd_create_uctx(struct shca_dev *dev, u16 *uid);
int shca_cmd_destroy_uctx(struct shca_dev *dev, u16 uid);
int shca_cmd_create_mkey(struct shca_dev *dev, u32 *mkey, void *in, size_t inlen);
int shca_cmd_destroy_mkey(struct shca_dev *dev, u32 mkey);
int shca_cmd_query_mkey(struct shca_dev *dev, u32 mkey, void *out, size_t outlen);
int shca_cmd_query_cq(struct shca_dev *dev, u32 cqn, void *out, size_t outlen);
int shca_cmd_query_qp(struct shca_dev *dev, u32 qpn, void *out, size_t outlen);
int shca_cmd_roce_gid_set(struct shca_dev *dev, unsigned int index, u8 roce_version,
			  u8 roce_l3_type, const u8 *gid, const u8 *mac);

/* pagealloc.c */
int shca_satisfy_startup_pages(struct shca_dev *dev, bool boot);
void shca_page_request(struct shca_dev *dev, int npages);
void shca_reclaim_startup_pages(struct shca_dev *dev);
void shca_pagealloc_init(struct shca_dev *dev);
void shca_pagealloc_cleanup(struct shca_dev *dev);

/* bus.c */
extern const struct hca_host_ops shca_host_ops;
int shca_bus_selftest(struct shca_dev *dev);

/* eq.c */
int shca_create_eq(struct shca_dev *dev, unsigned int vector, unsigned int log_size,
		   u64 event_mask);
void shca_destroy_eq(struct shca_dev *dev, unsigned int vector);
int shca_eq_table_create(struct shca_dev *dev);
void shca_eq_table_destroy(struct shca_dev *dev);
int shca_comp_eqn_get(struct shca_dev *dev, unsigned int vector, u32 *eqn);
bool shca_is_comp_eqn(struct shca_dev *dev, u32 eqn);
void shca_irq(void *host, unsigned int vector);
struct shca_res *shca_res_get(struct xarray *xa, u32 id);
void shca_res_put(struct shca_res *res);
int shca_res_add(struct xarray *xa, struct shca_res *res, u32 id);
void shca_res_del(struct xarray *xa, struct shca_res *res, u32 id);

/* main.c */
int shca_add(struct net_device *ndev, const char *name);

/* uar.c */
extern const struct uapi_definition shca_uar_defs[];
int shca_uar_mmap(struct shca_user_mmap_entry *mentry, struct vm_area_struct *vma);
void shca_uar_mmap_free(struct shca_user_mmap_entry *mentry);
void shca_disassociate_ucontext(struct ib_ucontext *ibcontext);
int shca_uar_use(struct shca_ucontext *context, u32 uar_id);
void shca_uar_unuse(struct shca_ucontext *context, u32 uar_id);

/* devx.c */
extern const struct uapi_definition shca_devx_defs[];

/* dm.c */
extern const struct uapi_definition shca_dm_defs[];
void shca_dm_init(struct shca_dev *dev);
int shca_dm_mmap(struct ib_ucontext *ibcontext, struct shca_user_mmap_entry *mentry,
		 struct vm_area_struct *vma);
void shca_dm_mmap_free(struct shca_user_mmap_entry *mentry);

/* doorbell.c */
int shca_db_map_user(struct shca_ucontext *context, u64 virt, struct shca_db *db);
void shca_db_unmap_user(struct shca_ucontext *context, struct shca_db *db);

/* mem.c */
void shca_populate_pas(struct ib_umem *umem, size_t page_size, __be64 *pas, u64 access_flags);
unsigned long shca_log_page_size_to_bitmap(unsigned int log_pgsz_bits, unsigned int pgsz_shift);
unsigned long shca_umem_find_best_quantized_pgoff(struct ib_umem *umem, unsigned long pgsz_bitmap,
						  unsigned int page_offset_bits, u64 pgoff_bitmask,
						  unsigned int scale,
						  unsigned int *page_offset_quantized);

/* ah.c */
int shca_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init_attr,
		   struct ib_udata *udata);
int shca_destroy_ah(struct ib_ah *ibah, u32 flags);

/* cq.c */
extern const struct uapi_definition shca_create_cq_defs[];
int shca_cmd_create_cq(struct shca_dev *dev, u32 *cqn, void *in, size_t inlen);
int shca_cmd_destroy_cq(struct shca_dev *dev, u16 uid, u32 cqn);
int shca_create_user_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
			struct uverbs_attr_bundle *attrs);
int shca_resize_cq(struct ib_cq *ibcq, COMPAT_CQE_TYPE entries, struct ib_udata *udata);
int shca_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);

/* qp.c */
int shca_cmd_create_qp(struct shca_dev *dev, u32 *qpn, void *in, size_t inlen);
int shca_cmd_destroy_qp(struct shca_dev *dev, u16 uid, u32 qpn);
int shca_cmd_qp_modify(struct shca_dev *dev, u16 uid, u16 opcode, u32 opt_param_mask,
		       const void *qpc, u32 qpn);
int shca_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr, struct ib_udata *udata);
int shca_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int attr_mask,
		   struct ib_udata *udata);
int shca_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *qp_attr, int qp_attr_mask,
		  struct ib_qp_init_attr *qp_init_attr);
int shca_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);
int shca_read_wqe_sq(struct shca_qp *qp, u16 index, void *buffer, size_t buflen, size_t *bc);
int shca_read_wqe_rq(struct shca_qp *qp, u16 index, void *buffer, size_t buflen, size_t *bc);

/* dmabuf.c */
extern const struct uapi_definition shca_dmabuf_defs[];
int shca_dmabuf_empty(struct shca_mr *mr);
struct ib_mr *shca_reg_user_mr_dmabuf(struct ib_pd *pd, u64 offset, u64 length, u64 virt_addr,
				      int fd, int access_flags,
				      COMPAT_DMAH_PARAM struct uverbs_attr_bundle *attrs);

/* mr.c */
unsigned long shca_umem_mkc_find_best_pgsz(struct shca_dev *dev, struct ib_umem *umem, u64 iova);
struct shca_mr *shca_alloc_cacheable_mr(struct ib_pd *pd, struct ib_umem *umem, u64 iova,
					int access_flags);
struct shca_mr *shca_alloc_ksm_mr(struct ib_pd *pd, unsigned int nentries,
				  unsigned int page_shift);
int shca_create_mkey(struct shca_dev *dev, u32 *mkey, void *in, size_t inlen);
int shca_frmr_pools_init(struct shca_dev *dev);
void shca_frmr_pools_cleanup(struct shca_dev *dev);
struct ib_mr *shca_reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 iova,
			       int access_flags, COMPAT_DMAH_PARAM struct ib_udata *udata);
struct ib_mr *shca_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start, u64 length, u64 iova,
				 int new_access_flags, struct ib_pd *new_pd,
				 struct ib_udata *udata);
int shca_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);
struct ib_mr *shca_reg_dm_mr(struct ib_pd *pd, struct ib_dm *dm, struct ib_dm_mr_attr *attr,
			     struct uverbs_attr_bundle *attrs);

/* umr.c */

/* Of an update of a translation table (HM 12.2). */
enum shca_upd_xlt {
	SHCA_UPD_XLT_ENABLE	= BIT(0),	/* the key is free and shall be in use */
	SHCA_UPD_XLT_ZAP	= BIT(1),	/* the entries become missing */
	SHCA_UPD_XLT_INDIRECT	= BIT(2),	/* they name keys (KSM) */
	SHCA_UPD_XLT_ATOMIC	= BIT(3),	/* do not wait for memory */
};

/* Entries that are to become missing: from @first up to before @end. */
struct shca_xlt_zap {
	u64 first;
	u64 end;
};

int shca_umr_init(struct shca_dev *dev);
void shca_umr_cleanup(struct shca_dev *dev);
u32 shca_umr_pdn(struct shca_dev *dev);
bool shca_umr_can_load_pas(struct shca_dev *dev, size_t length);
int shca_umr_enable_mr(struct shca_mr *mr, u32 pdn);
int shca_umr_update_mr_page_shift(struct shca_mr *mr, unsigned int page_shift);
int shca_umr_update_mr_pas(struct shca_mr *mr, unsigned int flags, u32 pdn);
int shca_umr_update_xlt(struct shca_mr *mr, u64 idx, size_t nentries, unsigned int flags,
			u32 pdn);
int shca_umr_revoke_mr(struct shca_mr *mr);
int shca_umr_rereg_pd_access(struct shca_mr *mr, struct ib_pd *pd, int access_flags);

/* odp.c */

/* How pages are brought in. */
enum shca_pf_flags {
	SHCA_PF_FLAGS_DOWNGRADE	= BIT(0),	/* for reading only */
	SHCA_PF_FLAGS_SNAPSHOT	= BIT(1),	/* only those that are there anyway */
};

#define shca_update_odp_stats(mr, counter_name, value) \
	atomic64_add(value, &(mr)->odp_stats.counter_name)
#define shca_update_odp_stats_with_handled(mr, counter_name, value) do {		\
	atomic64_add(value, &(mr)->odp_stats.counter_name);				\
	atomic64_inc(&(mr)->odp_stats.counter_name##_handled);				\
} while (0)

void shca_odp_init_one(struct shca_dev *dev);
int shca_store_odp_mkey(struct shca_dev *dev, struct shca_mkey *mmkey);
void shca_deref_odp_mkey(struct shca_mkey *mmkey);
void shca_deref_wait_odp_mkey(struct shca_mkey *mmkey);
void shca_forget_odp_mkey(struct shca_dev *dev, struct shca_mkey *mmkey);
void shca_odp_populate_xlt(void *xlt, size_t idx, size_t nentries, struct shca_mr *mr,
			   unsigned int flags, const struct shca_xlt_zap *zap);
struct ib_mr *shca_create_user_odp_mr(struct ib_pd *pd, u64 start, u64 length, u64 iova,
				      int access_flags);
int shca_odp_empty(struct shca_mr *mr);
long pagefault_mr(struct shca_mr *mr, u64 io_virt, u64 bcnt, unsigned int flags);

/* implicit.c */
void shca_free_implicit_mr(struct shca_mr *imr);

/* pagefault.c */
int shca_odp_create_eq(struct shca_dev *dev);
void shca_odp_destroy_eq(struct shca_dev *dev);
bool shca_page_fault(struct shca_dev *dev, const struct mlx5_eqe *eqe);

/* prefetch.c */
int shca_advise_mr(struct ib_pd *pd, enum ib_uverbs_advise_mr_advice advice, u32 flags,
		   struct ib_sge *sg_list, u32 num_sge, struct uverbs_attr_bundle *attrs);

/* mw.c */
int shca_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata);
int shca_dealloc_mw(struct ib_mw *ibmw);

/* restrack.c, counters.c */
void shca_restrack_init(struct shca_dev *dev);
void shca_counters_init(struct shca_dev *dev);

/* explain.c */
extern const struct uapi_definition shca_explain_defs[];

/* netdev.c */
struct net_device *shca_netdev_create(void);
void shca_netdev_destroy(struct net_device *ndev);

/* link.c */
void shca_dev_list_add(struct shca_dev *dev);
void shca_dev_list_del(struct shca_dev *dev);

#endif /* SHCA_H */
