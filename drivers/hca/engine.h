/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The HCA half: its objects and who may touch what.
 *
 * Invariants:
 *  - No ib_verbs, no mm, no netdev here. The same sources build in userspace
 *    (selftests/unit), where locks check themselves and time is virtual.
 *  - Numbers (QPN, CQN, EQN, PD, UAR) are looked up in an xarray under RCU, MKeys
 *    in arrays beside the MPT; an object found there is used only after
 *    hca_ref_get() or, for an MKey, hca_mkey_enter() has succeeded. Objects are
 *    freed by kfree_rcu().
 *  - Memory shared with the host is read once into private memory, checked
 *    there, and never looked at again (design rule 1).
 *  - Lock order: qp->sq_lock, then any one qp->rq_lock (the peer's or its own),
 *    then cq->lock, then eq->lock. No sq_lock is taken while another is held.
 *    icm->lock nests inside nothing of this and holds nothing of it.
 *  - An access count of an MKey (hca_mkey_enter()) is held only between finding
 *    the key and the end of one chunk's copy. Locks are taken before it, never
 *    while it is held, spinlocks of a CQ excepted (HM 11.4 R1). Who meets a key
 *    that is being changed lets go of everything before it waits.
 *  - A writer of an MKey holds one of hca->mkey_locks[], taken after sq_lock,
 *    rq_lock and umr_lock, and takes no second one (HM 11.4 R6). Nothing is allocated
 *    under it, for UMR runs in reclaim.
 *  - What a command allocates for as long as its object lives is charged to the
 *    memory cgroup of who sent it (GFP_KERNEL_ACCOUNT). What objects of several
 *    share is not, and is bounded by the capabilities.
 *  - The interrupt callback is called with no spinlock held; what it may call of the
 *    wall, hca_uar_store() without HCA_STORE_INLINE, takes none but spinlocks.
 */
#ifndef HCA_ENGINE_H
#define HCA_ENGINE_H

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/maple_tree.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <linux/mlx5/cq.h>
#include <linux/mlx5/device.h>
#include <linux/mlx5/qp.h>

#include "compat.h"
#include <hca/counters.h>
#include <hca/explain.h>
#include <hca/hca.h>
#include <hca/prm.h>
#include <hca/syndrome.h>

/* Firmware pages and the page size unit of every context are 4 KiB. */
#define HCA_PAGE_SHIFT		12
#define HCA_PAGE_SIZE		(1UL << HCA_PAGE_SHIFT)

/* A context's page_offset counts 64ths of its page. */
#define HCA_PAGE_OFFSET_SHIFT	6

#define HCA_LOG_MAX_MKEY	20
#define HCA_LOG_MAX_KLM_LIST	16
#define HCA_MKEY_LOCKS		64
#define HCA_MAX_INDIRECTION	4
#define HCA_LOG_MAX_UMEM	16
#define HCA_LOG_MAX_UCTX	12

/* Device memory, its smallest piece, and the largest alignment in units of that. */
#define HCA_MEMIC_SIZE		(128UL << 10)
#define HCA_LOG_MEMIC_GRANULE	6
#define HCA_LOG_MAX_MEMIC_ALIGN	6

/* The largest list of a UMR: 16 bits of octowords. */
#define HCA_UMR_MAX_LIST	(65535UL * 16)
#define HCA_LOG_MAX_QP		17
#define HCA_LOG_MAX_CQ		17
#define HCA_MAX_EQS		64
#define HCA_MAX_UARS		0xffff
#define HCA_LOG_MAX_PD		23
#define HCA_LOG_MAX_QP_SZ	15
#define HCA_LOG_MAX_CQ_SZ	22
#define HCA_LOG_MAX_EQ_SZ	22
#define HCA_LOG_MAX_MSG		31
#define HCA_LOG_MAX_RA		4
#define HCA_MAX_WQE_SQ		1024
#define HCA_MAX_WQE_RQ		512
#define HCA_ROCE_ADDRESSES	256
#define HCA_MIN_LOG_PAGE_MTT	12
#define HCA_MAX_LOG_PAGE_MTT	31
#define HCA_MIN_LOG_PAGE_KSM	12
#define HCA_MAX_LOG_PAGE_KSM	36

/* The wire's largest message; also what a zero byte_count stands for (HM 4.1). */
#define HCA_MAX_MSG		(1ULL << 31)

/* What one hold of the access counts may move, HM 11.3. */
#define HCA_CHUNK		(256 << 10)

/*
 * Reference count of an object that a command destroys: the destroyer removes
 * the object from its table, then waits here until the last user has left.
 */
struct hca_ref {
	refcount_t count;
	struct completion idle;
};

static inline void hca_ref_init(struct hca_ref *ref)
{
	refcount_set(&ref->count, 1);
	init_completion(&ref->idle);
}

static inline bool hca_ref_get(struct hca_ref *ref)
{
	return refcount_inc_not_zero(&ref->count);
}

static inline void hca_ref_put(struct hca_ref *ref)
{
	if (refcount_dec_and_test(&ref->count))
		complete(&ref->idle);
}

static inline void hca_ref_drain(struct hca_ref *ref)
{
	hca_ref_put(ref);
	wait_for_completion(&ref->idle);
}

/**
 * struct hca_buf - queue memory: what a context's PAS list describes, or part of a umem
 * @chunk: CPU address of each chunk of 2^@shift bytes
 * @shift: log2 of the chunk size
 * @offset: where the queue begins in the first chunk, in bytes
 * @size: length of the queue in bytes
 * @umem: the umem that @chunk belongs to, or NULL
 */
struct hca_buf {
	void **chunk;
	unsigned int shift;
	u32 offset;
	u64 size;
	struct hca_umem *umem;
};

/**
 * hca_buf_ptr() - address of a byte of a queue
 * @buf: the queue memory
 * @offset: of the byte, less than the size
 *
 * The memory is contiguous at least up to the next 64-byte boundary if the queue
 * begins at one, which holds for CQEs and EQEs.
 *
 * Context: any.
 * Return: the CPU address.
 */
static inline void *hca_buf_ptr(const struct hca_buf *buf, u64 offset)
{
	offset += buf->offset;
	return (u8 *)buf->chunk[offset >> buf->shift] + (offset & ((1UL << buf->shift) - 1));
}

/* Bytes from @offset to the end of its chunk. */
static inline size_t hca_buf_contiguous(const struct hca_buf *buf, u64 offset)
{
	return (1UL << buf->shift) - ((offset + buf->offset) & ((1UL << buf->shift) - 1));
}

void hca_buf_read_pieces(const struct hca_buf *buf, u64 offset, void *to, size_t len);

/**
 * hca_buf_read() - copy bytes of a queue into private memory
 * @buf: the queue memory
 * @offset: of the first byte
 * @to: destination
 * @len: how many; the range lies inside the queue
 *
 * Context: any.
 */
static inline void hca_buf_read(const struct hca_buf *buf, u64 offset, void *to, size_t len)
{
	if (likely(len <= hca_buf_contiguous(buf, offset)))
		memcpy(to, hca_buf_ptr(buf, offset), len);
	else
		hca_buf_read_pieces(buf, offset, to, len);
}

/**
 * struct hca_dbr - a doorbell record
 * @record: its two words
 * @buf: the part of a umem that it is, or nothing
 */
struct hca_dbr {
	__be32 *record;
	struct hca_buf buf;
};

/* icm.c: pages given by MANAGE_PAGES and what is kept in them */

/**
 * struct hca_page - a firmware page
 * @dma: its DMA address
 * @va: its CPU address
 * @entry: in icm->free while free
 */
struct hca_page {
	u64 dma;
	void *va;
	struct list_head entry;
	bool used;
};

/**
 * struct hca_ctx_page - a page of contexts, or the place of one
 * @page: the page, or NULL
 * @mkeys: MPT only: what the engine keeps beside the MKCs; read under RCU
 * @used: contexts in use
 */
struct hca_ctx_page {
	struct hca_page *page;
	struct hca_mkey *mkeys;
	unsigned int used;
};

/**
 * struct hca_ctx_table - contexts of one kind, ICM pages appearing on demand
 * @shift: log2 of the entry size
 * @pages: by page number; protected by icm->lock, what RCU protects excepted
 * @idle: the page that lost its last context most lately, free if anybody needs it
 */
struct hca_ctx_table {
	unsigned int shift;
	struct hca_ctx_page *pages;
	struct hca_ctx_page *idle;
};

/* Translation tables up to 2 KiB share pages by size class: 64 B .. 2 KiB. */
#define HCA_XLT_MIN_SHIFT	6
#define HCA_XLT_CLASSES		6

/**
 * struct hca_xlt - one translation table
 * @chunk: CPU address of each 4 KiB of it (of the whole, if smaller)
 * @only: @chunk of tables of up to 2 KiB
 * @addr: its ICM address, 0 for a key without table
 * @bytes: size, a multiple of 64
 * @pages: the firmware pages, for tables of more than 2 KiB
 * @slab: the shared page, for the others
 */
struct hca_xlt {
	void **chunk;
	void *only;
	u64 addr;
	u64 bytes;
	struct hca_page **pages;
	struct hca_xlt_slab *slab;
};

/**
 * struct hca_icm - the HCA's context memory
 * @lock: protects everything here; sleeping, never taken on the data path
 * @owned: struct hca_page by DMA page number: every page the host gave
 * @free: pages not in use
 * @nr_owned: pages in @owned
 * @nr_free: pages in @free, and the idle ones of tables and size classes
 * @space: allocated ranges of the XLT part of the ICM address space
 * @slabs: per size class, the shared pages with room
 * @idle: per size class, one of them that is empty, or NULL
 * @mpt: MKCs
 * @qpc: queue pair contexts
 * @cqc: completion queue contexts
 * @eqc: event queue contexts
 * @given: woken by each answer to a page request
 * @answers: counts MANAGE_PAGES
 * @refusals: counts those that say "cannot give"
 * @asking: a page request event is unanswered
 * @latched: a request to be raised once an EQ listens and has room, in pages
 * @quiet_until: no new request before this time, in ns of ktime_get_ns()
 * @surplus: takes care of pages that have been free for a second
 */
struct hca_icm {
	struct mutex lock;
	struct xarray owned;
	struct list_head free;
	u32 nr_owned;
	u32 nr_free;
	struct maple_tree space;
	struct list_head slabs[HCA_XLT_CLASSES];
	struct hca_xlt_slab *idle[HCA_XLT_CLASSES];
	struct hca_ctx_table mpt;
	struct hca_ctx_table qpc;
	struct hca_ctx_table cqc;
	struct hca_ctx_table eqc;
	wait_queue_head_t given;
	unsigned int answers;
	unsigned int refusals;
	bool asking;
	s32 latched;
	u64 quiet_until;
	struct delayed_work surplus;
};

/* mkey.c */

/* MKCs of a page of the MPT. */
#define HCA_LOG_PAGE_MKEYS	6
#define HCA_PAGE_MKEYS		(1U << HCA_LOG_PAGE_MKEYS)

/**
 * struct hca_mkc - the fields of an MKC that an access looks at, decoded
 * @octwords: translations_octword_size rounded up to 4: what its table can hold
 * @rights: HCA_MKC_*
 */
struct hca_mkc {
	u64 start;
	u64 len;
	u32 pd;
	u32 qpn;
	u32 octwords;
	u32 rights;
	u8 variant;
	u8 mode;
	u8 log_page_size;
	bool length64;
};

/* In the first word of an MKC: HM 1.2, and that the key is free. */
#define HCA_MKC_FREE		__mlx5_dw_mask(mkc, free)
#define HCA_MKC_LR		__mlx5_dw_mask(mkc, lr)
#define HCA_MKC_LW		__mlx5_dw_mask(mkc, lw)
#define HCA_MKC_RR		__mlx5_dw_mask(mkc, rr)
#define HCA_MKC_RW		__mlx5_dw_mask(mkc, rw)
#define HCA_MKC_A		__mlx5_dw_mask(mkc, a)
#define HCA_MKC_RIGHTS							\
	(HCA_MKC_FREE | HCA_MKC_LR | HCA_MKC_LW | HCA_MKC_RR | HCA_MKC_RW | HCA_MKC_A)

enum hca_mkey_state {
	HCA_MKEY_NONE,		/* the index is not given, or the key not ready or on its way out */
	HCA_MKEY_LIVE,		/* accesses may begin */
	HCA_MKEY_CHANGING,	/* accesses wait: see hca_mkey_freeze() */
};

/* More than accesses can be. */
#define HCA_MKEY_AWAITED	BIT(30)

/**
 * struct hca_klms - what a list of KLM entries adds up to
 * @nr: entries that can be reached
 * @bad: what follows them is malformed, and not just the end
 * @repeated: a repeated block: @end counts within a cycle, entries start at octoword 1
 * @cycle: bytes of a cycle
 * @repeat: cycles
 * @end: bytes up to the end of each entry
 *
 * Room for all entries that the table can hold is there from CREATE_MKEY on.
 */
struct hca_klms {
	u32 nr;
	bool bad;
	bool repeated;
	u32 cycle;
	u32 repeat;
	u64 end[];
};

/**
 * struct hca_mkey - what the engine keeps beside an MKC
 * @mkc: the MKC decoded
 * @inflight: accesses running, and HCA_MKEY_AWAITED while somebody waits for their end
 * @state: enum hca_mkey_state
 * @uid: user context that made it, 0 for the kernel
 * @xlt: translation table
 * @klms: KLM mode only: sums of its list
 * @image: the MKC, 64 bytes in a firmware page, the truth for QUERY_MKEY
 * @pd: its protection domain
 * @owner: user context of @uid, or NULL
 * @memic: MEMIC mode only: the allocation it lies in
 * @generation: counts the UMRs that have written the table
 * @rcu: of the first key of a page of the MPT: frees them all
 *
 * The keys of a page of the MPT are one array. Of a key that is accessed, one cache
 * line is looked at: the first. Everything down to @xlt is constant while an
 * access is counted in @inflight.
 */
struct hca_mkey {
	struct hca_mkc mkc;
	atomic_t inflight;
	u8 state;
	u16 uid;
	struct hca_xlt xlt;
	struct hca_klms *klms;
	void *image;
	struct hca_number *pd;
	struct hca_number *owner;
	struct hca_memic *memic;
	u32 generation;
	struct rcu_head rcu;
} ____cacheline_aligned;
static_assert(offsetofend(struct hca_mkey, xlt.only) <= 64);

/* Special keys, HM 2.2: values and place in the index space. */
#define HCA_KEY_TERMINATE	0x100
#define HCA_KEY_RESD		0x200
#define HCA_KEY_NULL		0x300
#define HCA_KEY_REPEATED	0x400
#define HCA_KEY_DUMP_FILL	0x500
#define HCA_FIRST_MKEY		16

/* A key that means something without an MKC. */
static inline bool hca_key_special(u32 key)
{
	return key == HCA_KEY_TERMINATE || key == HCA_KEY_RESD || key == HCA_KEY_NULL ||
	       key == HCA_KEY_REPEATED || key == HCA_KEY_DUMP_FILL;
}

/* xlate.c */

/**
 * struct hca_who - on whose behalf memory is accessed
 * @pd: protection domain of the queue
 * @qpn: number of the queue pair
 * @remote: the key is an rkey
 * @rlky: resd_lkey is allowed (queue context rlky)
 * @any_pd: the queue has no PD and reaches every key (REG_UMR)
 */
struct hca_who {
	u32 pd;
	u32 qpn;
	bool remote;
	bool rlky;
	bool any_pd;
};

/**
 * struct hca_missing - the translation entry that lacked the right
 * @index: mkey_index of its key
 * @level: indirect keys above that
 * @generation: which writing of the table it was
 * @entry: number of the entry
 */
struct hca_missing {
	u32 index;
	u8 level;
	u32 generation;
	u64 entry;
};

/* A contiguous piece of memory. @p is NULL for dump_fill_mkey. */
struct hca_seg {
	void *p;
	u32 len;
};

/* One unaligned chunk of 4 KiB pages, or a full WQE of data segments. */
#define HCA_MAX_SEGS		80
#define HCA_MAX_HELD		64

/**
 * struct hca_sgl - where a chunk of an access really lies
 * @bytes: total of @seg
 * @nr_segs: entries of @seg
 * @nr_held: entries of @held
 * @seg: the pieces, in request order
 * @held: the MKeys whose access count is held until hca_sgl_release()
 * @changing: the translation met this key while it was being changed: release,
 *	hca_mkey_wait(), and start again. 0 for none
 * @is_missing: the first byte lies in a page that is not there: see hca_fault_raise()
 * @missing: the entry of that page
 * @syndrome: why the last translation failed
 * @key: and on which key
 * @va: at which address
 */
struct hca_sgl {
	u32 bytes;
	u16 nr_segs;
	u16 nr_held;
	u32 changing;
	bool is_missing;
	struct hca_missing missing;
	u8 syndrome;
	u32 key;
	u64 va;
	struct hca_seg seg[HCA_MAX_SEGS];
	struct hca_mkey *held[HCA_MAX_HELD];
};

/* The translation did not just run out of room. */
static inline bool hca_sgl_failed(const struct hca_sgl *sgl)
{
	return sgl->syndrome || sgl->changing || sgl->is_missing;
}

/**
 * struct hca_walk - a translation in progress
 * @hca: the HCA
 * @who: for whom
 * @access: what will be done
 * @sgl: receives the result
 * @odp: a missing page is worth a page fault
 * @level: indirect keys above the one in hand
 * @trace: called for each table look-up, or NULL
 * @trace_arg: its argument
 */
struct hca_walk {
	struct hca *hca;
	struct hca_who who;
	enum hca_access access;
	bool odp;
	unsigned int level;
	struct hca_sgl *sgl;
	void (*trace)(void *arg, const struct hca_explain_step *step);
	void *trace_arg;
};

/* eq.c */

/**
 * struct hca_eq - event queue
 * @lock: protects the ring position and what is between it and @pi
 * @armed: the next event raises the interrupt
 * @full: an event found no room
 * @retell: there is room again: @irq_work tells what can be told late
 * @pi: producer index
 * @ci: consumer index, as the driver last told
 * @events: bitmap of subscribed event types
 * @uar: the UAR of its context
 * @users: CQs that report here
 * @irq_work: raises the interrupt when an arming finds events waiting; retells
 */
struct hca_eq {
	struct hca *hca;
	u32 eqn;
	spinlock_t lock;
	bool armed;
	bool full;
	bool retell;
	u32 pi;
	u32 ci;
	u8 log_size;
	u16 vector;
	u64 events[4];
	struct hca_number *uar;
	atomic_t users;
	struct hca_buf buf;
	void *image;
	struct work_struct irq_work;
	struct hca_ref ref;
	struct rcu_head rcu;
};

/* cq.c */

/**
 * struct hca_cq - completion queue
 * @lock: protects everything below it, and the order of CQEs
 * @pi: producer index, free running
 * @failed: overrun; nothing is written any more
 * @armed: an arm is pending
 * @arm_solicited: it asks for a solicited or error CQE
 * @arm_ci: consumer index when it was armed
 * @arm_seen: last arm word acted upon
 * @fired: events raised so far; the low bits are the arm sequence number
 * @untold: the last of them found no room in @eq
 * @last_solicited: index after the last solicited or error CQE
 * @any_solicited: there was one
 * @overrun: carries the error to the queue pairs
 */
struct hca_cq {
	struct hca *hca;
	u32 cqn;
	struct hca_eq *eq;
	u32 uar;
	struct hca_number *uar_number;
	struct hca_number *owner;
	u16 uid;
	atomic_t users;
	void *image;
	spinlock_t lock;
	struct hca_buf buf;
	struct hca_dbr dbr;
	u32 pi;
	u8 log_size;
	u8 cqe_shift;
	bool ignore_overrun;
	bool failed;
	bool armed;
	bool arm_solicited;
	u32 arm_ci;
	u32 arm_seen;
	u32 fired;
	bool untold;
	u32 last_solicited;
	bool any_solicited;
	struct work_struct overrun;
	struct hca_ref ref;
	struct rcu_head rcu;
};

/* qp.c, sq.c, rq.c, responder.c */

/* A data segment, parsed. @inl is set for inline data. */
struct hca_sge {
	u32 key;
	u64 len;
	u64 addr;
	const void *inl;
};

#define HCA_MAX_SGE		(HCA_MAX_WQE_SQ / 16)

/**
 * struct hca_sge_list - the data segments of a WQE
 * @nr: entries of @sge
 * @has_inline: one of them is inline
 * @total: their length
 */
struct hca_sge_list {
	u16 nr;
	bool has_inline;
	u64 total;
	struct hca_sge sge[HCA_MAX_SGE];
};

/**
 * struct hca_req - the send WQE in execution
 * @active: there is one
 * @opcode: MLX5_OPCODE_*
 * @fm_ce_se: from the control segment
 * @index: SQ index of its first basic block
 * @blocks: basic blocks that it takes
 * @imm: immediate as in the WQE; key to invalidate or, for UMR, to change
 * @rkey: remote key
 * @raddr: remote address
 * @swap_add: atomic argument
 * @compare: atomic argument
 * @done: bytes moved
 * @rnr_left: RNR retries left
 * @retry_left: time-outs left
 * @not_before: time of the next try, in ns of ktime_get_ns(); 0 = now
 * @data: local data segments
 * @wqe: private copy of the WQE
 */
struct hca_req {
	bool active;
	u8 opcode;
	u8 fm_ce_se;
	u16 index;
	u16 blocks;
	__be32 imm;
	u32 rkey;
	u64 raddr;
	u64 swap_add;
	u64 compare;
	u64 done;
	u8 rnr_left;
	u8 retry_left;
	u64 not_before;
	struct hca_sge_list data;
	u8 wqe[HCA_MAX_WQE_SQ] __aligned(16);
};

/**
 * struct hca_recv - the receive WQE in use
 * @active: there is one
 * @index: its receive counter
 * @data: its data segments
 * @wqe: private copy
 */
struct hca_recv {
	bool active;
	u16 index;
	struct hca_sge_list data;
	u8 wqe[HCA_MAX_WQE_RQ] __aligned(16);
};

/* Requests that may wait for pages: the bits of odp_per_transport_service_cap. */
#define HCA_ODP_SEND		BIT(0)
#define HCA_ODP_RECEIVE		BIT(1)
#define HCA_ODP_WRITE		BIT(2)
#define HCA_ODP_READ		BIT(3)
#define HCA_ODP_ATOMIC		BIT(4)

/* Of WQE faults the types of HM 6.3, of RDMA faults the bits of MLX5_PFAULT_*. */
enum hca_fault_type {
	HCA_FAULT_GATHER	= MLX5_WQE_PF_TYPE_REQ_SEND_OR_WRITE,
	HCA_FAULT_SCATTER	= MLX5_WQE_PF_TYPE_RESP,
	HCA_FAULT_RESULT	= MLX5_WQE_PF_TYPE_REQ_READ_OR_ATOMIC,
	HCA_FAULT_RDMA		= BIT(2),
	HCA_FAULT_READ		= HCA_FAULT_RDMA,
	HCA_FAULT_WRITE		= HCA_FAULT_RDMA | BIT(1),
};

/**
 * struct hca_fault - the page fault of one direction of a queue pair
 * @open: told to the host, which has not answered
 * @failed: answered with an error: the access is to fail
 * @raised: @missing has been told at least once since the access got on
 * @waited: the wait before the next telling is over
 * @type: enum hca_fault_type
 * @seq: makes tokens differ
 * @token: names the fault to the host
 * @same: answers in a row that have changed nothing
 * @missing: the entry
 */
struct hca_fault {
	bool open;
	bool failed;
	bool raised;
	bool waited;
	u8 type;
	u32 seq;
	u32 token;
	unsigned int same;
	struct hca_missing missing;
};

/**
 * struct hca_qp - queue pair
 * @state: MLX5_QP_STATE_*; read under either lock; moved to ERR under either, to
 *	anything else under both
 * @dead: being destroyed: no timer or worker is started any more
 * @pd: protection domain, like the next ones constant from CREATE_QP on
 * @rlky: may use resd_lkey
 * @fre: may change keys that name pages
 * @pd_number: the same, NULL if it has none (REG_UMR)
 * @uid: user context that made it, 0 for the kernel
 * @dbr: doorbell records: [0] receive, [1] send
 * @image: the QPC, in a firmware page; written with both locks held
 * @rgid_ours: the destination is one of our GIDs, as of @rgid_seen
 * @rgid_seen: the roce_changes for which that was found out; under sq_lock
 * @peer: the queue pair @remote_qpn, or NULL, as of @peer_seen: not to be followed
 *	when the number has changed
 * @peer_seen: the qp_changes for which that was found out; both under sq_lock
 * @sq_lock: requester: everything down to @rq_lock. Whoever holds it executes
 *	WQEs; a doorbell that finds it taken leaves its news in @sq_rung.
 * @sq_rung: records may have news; cleared before they are read
 * @sq_waiters: somebody waits for @sq_lock: leave it after this chunk
 * @sq_ci: consumer index in basic blocks
 * @req: the WQE in execution
 * @src: pieces of the source of a chunk
 * @dst: pieces of its destination
 * @sq_fault: page fault of the memory that its WQEs name
 * @sq_resumed: the peer's fault has been answered: look again
 * @rq_lock: responder: the receive queue, taken by the peer's requester
 * @rq_ci: receive WQEs consumed
 * @recv: the receive WQE in use
 * @rq_fault: page fault of the memory that receive WQEs and remote requests name
 * @error: the debug record; written once per life in a non-error state
 * @sq_work: executes what no doorbell thread does
 * @sq_timer: queues @sq_work when a wait is over
 * @flush_work: flushes both queues, and again while receives may be posted
 * @flush_delay: time to the next look, in ms
 */
struct hca_qp {
	struct hca *hca;
	struct hca_ref ref;
	struct rcu_head rcu;
	u32 qpn;
	u8 st;
	u8 state;
	bool dead;
	bool rlky;
	bool fre;
	u32 pd;
	u32 uar;
	struct hca_number *pd_number;
	struct hca_number *uar_number;
	struct hca_number *owner;
	u16 uid;
	u32 user_index;
	struct hca_cq *scq;
	struct hca_cq *rcq;
	struct hca_buf buf;
	struct hca_dbr dbr;
	void *image;
	u32 sq_offset;
	u8 log_sq_size;
	u8 log_rq_size;
	u8 rq_shift;
	bool has_sq;
	bool has_rq;

	/* from the transitions */
	u32 remote_qpn;
	u8 rgid[16];
	bool rgid_ours;
	unsigned int rgid_seen;
	struct hca_qp *peer;
	int peer_seen;
	bool rre;
	bool rwe;
	bool rae;
	u8 log_msg_max;
	u8 retry_count;
	u8 rnr_retry;
	u8 ack_timeout;
	u8 min_rnr_nak;

	struct mutex sq_lock;
	bool sq_rung;
	atomic_t sq_waiters;
	u16 sq_ci;
	struct hca_req req;
	struct hca_sgl src;
	struct hca_sgl dst;
	struct hca_fault sq_fault;
	bool sq_resumed;

	struct mutex rq_lock;
	u16 rq_ci;
	struct hca_recv recv;
	struct hca_fault rq_fault;

	struct hca_qp_error error;
	struct work_struct sq_work;
	struct hrtimer sq_timer;
	struct delayed_work flush_work;
	unsigned int flush_delay;
};

/* memic.c */

/**
 * struct hca_memics - the device memory that MEMIC keys reach
 * @lock: protects @used, @list and the users of its entries
 * @va: BAR 0: contiguous, so that pieces of it can be mapped to user space
 * @used: bitmap of granules given
 * @list: struct hca_memic in no order
 */
struct hca_memics {
	struct mutex lock;
	void *va;
	unsigned long *used;
	struct list_head list;
};

/**
 * struct hca_number - a PD, UAR, transport domain or user context
 * @users: objects that name it
 * @uid: user context that it belongs to, 0 for the kernel
 * @owner: that user context, or NULL
 * @rcu: look-ups run under RCU
 */
struct hca_number {
	atomic_t users;
	u16 uid;
	struct hca_number *owner;
	struct rcu_head rcu;
};

enum hca_life {
	HCA_OFF,
	HCA_ENABLED,
	HCA_READY,
	HCA_TORN_DOWN,
};

/**
 * struct hca - one HCA
 * @ops: the machine around it
 * @host: argument of @ops
 * @life_lock: serialises ENABLE, INIT, TEARDOWN and DISABLE_HCA
 * @life: how far bring-up has come
 * @icm: context memory
 * @odp: HCA_ODP_* that the driver has enabled; constant from INIT_HCA on
 * @eqs: event queues by number; likewise the others
 * @roce_lock: protects @roce
 * @roce: RoCE address table
 * @roce_changes: counts its changes; starts at 1
 * @qp_changes: counts what is added to @qps and removed from it; starts at 1
 * @uctxs: user contexts, by uid
 * @umems: memory of user contexts, by umem id
 * @mkey_map: the key indices that are given
 * @mkey_locks: by index modulo their number: changing, withdrawing a key
 * @umr_lock: protects @umr_list; taken before any of @mkey_locks
 * @umr_list: private copy of the list that a UMR fetches by pointer
 * @memic: device memory
 * @mkey_next: cyclic allocation of key indices; likewise the others, under their
 *	xarray's lock
 * @drain: woken when the accesses that a writer of an MKey waits for are over, and
 *	when it lets them begin again
 * @atomic_lock: makes atomics atomic among each other
 * @wq: the engine's workers; WQ_MEM_RECLAIM because UMR runs in reclaim
 * @counters: events, per CPU
 */
struct hca {
	const struct hca_host_ops *ops;
	void *host;
	struct mutex life_lock;
	enum hca_life life;
	u8 odp;
	struct hca_icm icm;
	struct xarray eqs;
	struct xarray cqs;
	struct xarray qps;
	atomic_t qp_changes;
	unsigned long *mkey_map;
	struct mutex mkey_locks[HCA_MKEY_LOCKS];
	struct mutex umr_lock;
	void *umr_list;
	struct hca_memics memic;
	struct xarray pds;
	struct xarray uars;
	struct xarray tds;
	struct xarray uctxs;
	struct xarray umems;
	u32 cq_next;
	u32 qp_next;
	u32 mkey_next;
	u32 pd_next;
	u32 uar_next;
	u32 td_next;
	u32 uctx_next;
	u32 umem_next;
	spinlock_t roce_lock;
	u8 roce[HCA_ROCE_ADDRESSES][MLX5_ST_SZ_BYTES(roce_addr_layout)];
	unsigned int roce_changes;
	wait_queue_head_t drain;
	spinlock_t atomic_lock;
	struct workqueue_struct *wq;
	u64 __percpu *counters;
};

static inline void hca_count(struct hca *hca, enum hca_counter counter)
{
	this_cpu_inc(hca->counters[counter]);
}

static inline void hca_count_add(struct hca *hca, enum hca_counter counter, u64 n)
{
	this_cpu_add(hca->counters[counter], n);
}

/*
 * How a command handler refuses: the PRM's status and the number of the failed
 * check, which becomes the low byte of the syndrome.
 */
typedef u32 hca_cmd_status;
#define HCA_OK			0
#define HCA_REFUSE(status, check)	(MLX5_CMD_STAT_##status << 8 | (check))

/* buf.c */
hca_cmd_status hca_buf_init(struct hca *hca, struct hca_buf *buf, const __be64 *pas,
			    size_t nr_pas, unsigned int log_page, u32 offset, u64 size);
hca_cmd_status hca_buf_map(struct hca *hca, struct hca_buf *buf, const __be64 *pas, size_t nr_pas,
			   unsigned int log_page, u64 start, u64 size);
void hca_buf_free(struct hca_buf *buf);
hca_cmd_status hca_dbr_init(struct hca *hca, struct hca_dbr *dbr, bool in_umem, u32 umem_id,
			    u16 uid, u64 addr);

/* umem.c */
hca_cmd_status hca_umem_buf(struct hca *hca, struct hca_buf *buf, u32 id, u16 uid, u64 offset,
			    u64 size, u32 align, bool write);
void hca_umem_put(struct hca_umem *umem);
void hca_umems_destroy(struct hca *hca);
hca_cmd_status hca_cmd_create_umem(struct hca *hca, const void *in, size_t inlen,
				   void *out, size_t outlen);
hca_cmd_status hca_cmd_destroy_umem(struct hca *hca, const void *in, size_t inlen,
				    void *out, size_t outlen);

/* icm.c */
int hca_icm_init(struct hca *hca);
void hca_icm_destroy(struct hca *hca);
void *hca_ctx_get(struct hca *hca, struct hca_ctx_table *table, u32 index);
void hca_ctx_put(struct hca *hca, struct hca_ctx_table *table, u32 index);
int hca_xlt_alloc(struct hca *hca, struct hca_xlt *xlt, u64 bytes);
void hca_xlt_free(struct hca *hca, struct hca_xlt *xlt);
void hca_xlt_write(struct hca_xlt *xlt, u64 offset, const void *from, size_t len);
void hca_xlt_read(const struct hca_xlt *xlt, u64 offset, void *to, size_t len);
void hca_icm_subscribed(struct hca *hca);
hca_cmd_status hca_cmd_query_pages(struct hca *hca, const void *in, size_t inlen,
				   void *out, size_t outlen);
hca_cmd_status hca_cmd_manage_pages(struct hca *hca, const void *in, size_t inlen,
				    void *out, size_t outlen);
bool hca_icm_ready(struct hca *hca);

/* caps.c */
hca_cmd_status hca_cmd_set_hca_cap(struct hca *hca, const void *in, size_t inlen,
				   void *out, size_t outlen);
hca_cmd_status hca_cmd_query_hca_cap(struct hca *hca, const void *in, size_t inlen,
				     void *out, size_t outlen);

/* number.c */
hca_cmd_status hca_number_alloc(struct hca *hca, struct xarray *xa, u32 *next, u32 min, u32 max,
				u16 uid, u32 *id);
hca_cmd_status hca_number_free(struct xarray *xa, u32 id, u16 uid);
struct hca_number *hca_number_get(struct xarray *xa, u32 id, u16 uid);
void hca_number_put(struct hca_number *number);
void hca_numbers_destroy(struct xarray *xa);
bool hca_uctx_use(struct hca *hca, u16 uid, struct hca_number **owner);
void hca_uctx_unuse(struct hca_number *owner);

/* mkey.c */
hca_cmd_status hca_cmd_create_mkey(struct hca *hca, const void *in, size_t inlen,
				   void *out, size_t outlen);
hca_cmd_status hca_cmd_query_mkey(struct hca *hca, const void *in, size_t inlen,
				  void *out, size_t outlen);
hca_cmd_status hca_cmd_destroy_mkey(struct hca *hca, const void *in, size_t inlen,
				    void *out, size_t outlen);
struct hca_mkey *hca_mkey_enter(struct hca *hca, u32 index);

/**
 * hca_mkey_leave() - the access is over
 * @hca: the HCA
 * @mkey: the MKey; not to be touched afterwards
 *
 * Context: any.
 */
static inline void hca_mkey_leave(struct hca *hca, struct hca_mkey *mkey)
{
	/* Nothing of the key is looked at after the count: it may be gone. */
	if (unlikely(atomic_dec_return(&mkey->inflight) == HCA_MKEY_AWAITED))
		wake_up_all(&hca->drain);
}

void hca_mkey_wait(struct hca *hca, u32 index);
struct hca_mkey *hca_mkey_lock(struct hca *hca, u32 index);
void hca_mkey_unlock(struct hca *hca, u32 index);
void hca_mkey_freeze(struct hca *hca, struct hca_mkey *mkey);
void hca_mkey_thaw(struct hca *hca, struct hca_mkey *mkey);
void hca_mkc_decode(const void *image, struct hca_mkc *mkc);
bool hca_mkc_range_ok(const void *image);
bool hca_mkc_page_size_ok(const void *image);
void hca_mkeys_destroy(struct hca *hca);

/* klm.c */
struct hca_klms *hca_klms_alloc(u32 octwords);
void hca_klms_update(struct hca_mkey *mkey);
u64 hca_walk_klm(struct hca_walk *walk, struct hca_mkey *mkey, u32 key, u64 va, u64 want);
u64 hca_walk_ksm(struct hca_walk *walk, struct hca_mkey *mkey, u32 key, u64 va, u64 want);

/* memic.c */
int hca_memic_init(struct hca *hca);
void hca_memic_destroy(struct hca *hca);
struct hca_memic *hca_memic_use(struct hca *hca, u64 start, u64 len, u16 uid);
void hca_memic_unuse(struct hca *hca, struct hca_memic *memic);
hca_cmd_status hca_cmd_alloc_memic(struct hca *hca, const void *in, size_t inlen,
				   void *out, size_t outlen);
hca_cmd_status hca_cmd_dealloc_memic(struct hca *hca, const void *in, size_t inlen,
				     void *out, size_t outlen);

/* inval.c */
u8 hca_invalidate(struct hca *hca, u32 key, u32 pd, u32 qpn);

/* xlate.c */
/**
 * hca_sgl_init() - an empty result
 * @sgl: the result
 */
static inline void hca_sgl_init(struct hca_sgl *sgl)
{
	sgl->bytes = 0;
	sgl->nr_segs = 0;
	sgl->nr_held = 0;
	sgl->changing = 0;
	sgl->is_missing = false;
	sgl->syndrome = HCA_VS_NONE;
	sgl->key = 0;
	sgl->va = 0;
}

/**
 * hca_sgl_release() - the chunk has been moved: let go of its MKeys
 * @hca: the HCA
 * @sgl: the result; its pieces are no longer good
 *
 * Context: any.
 */
static inline void hca_sgl_release(struct hca *hca, struct hca_sgl *sgl)
{
	while (sgl->nr_held) {
		sgl->nr_held--;
		hca_mkey_leave(hca, sgl->held[sgl->nr_held]);
	}
}

u64 hca_refuse(struct hca_walk *walk, u32 key, u64 va, u64 len, enum hca_check check);
u64 hca_walk_entry(struct hca_walk *walk, u32 key, u64 va, u64 want);
u64 hca_xlate(struct hca_walk *walk, u32 key, u64 va, u64 len, u64 want);
u64 hca_gather(struct hca_walk *walk, const struct hca_sge_list *list, u64 offset, u64 total,
	       u64 want);

/* copy.c */
void hca_copy(struct hca *hca, const struct hca_sgl *dst, const struct hca_sgl *src, u32 len);
void hca_copy_out(void *to, const struct hca_sgl *src, u32 len);
void hca_copy_in(const struct hca_sgl *dst, const void *from, u32 len);

/* eq.c */
hca_cmd_status hca_cmd_create_eq(struct hca *hca, const void *in, size_t inlen,
				 void *out, size_t outlen);
hca_cmd_status hca_cmd_query_eq(struct hca *hca, const void *in, size_t inlen,
				void *out, size_t outlen);
hca_cmd_status hca_cmd_destroy_eq(struct hca *hca, const void *in, size_t inlen,
				  void *out, size_t outlen);
bool hca_eq_write(struct hca_eq *eq, u8 type, u8 sub_type, const void *data, size_t len);
void hca_eq_kick(struct hca_eq *eq);
void hca_eq_kick_later(struct hca_eq *eq);
int hca_event(struct hca *hca, u8 type, u8 sub_type, const void *data, size_t len);
void hca_event_qp(struct hca *hca, u8 type, u32 qpn);
void hca_eq_doorbell(struct hca *hca, u32 value, bool arm);
struct hca_eq *hca_eq_get(struct hca *hca, u32 eqn);
void hca_eqs_destroy(struct hca *hca);

/* cq.c */
hca_cmd_status hca_cmd_create_cq(struct hca *hca, const void *in, size_t inlen,
				 void *out, size_t outlen);
hca_cmd_status hca_cmd_query_cq(struct hca *hca, const void *in, size_t inlen,
				void *out, size_t outlen);
hca_cmd_status hca_cmd_modify_cq(struct hca *hca, const void *in, size_t inlen,
				 void *out, size_t outlen);
hca_cmd_status hca_cmd_destroy_cq(struct hca *hca, const void *in, size_t inlen,
				  void *out, size_t outlen);
void hca_cq_post(struct hca_cq *cq, const struct mlx5_cqe64 *cqe, u8 opcode, bool solicited);
bool hca_cq_look_at_arm(struct hca_cq *cq, bool rung, bool may_call);
struct hca_cq *hca_cq_get(struct hca *hca, u32 cqn);
struct hca_cq *hca_cq_use(struct hca *hca, u32 cqn, u16 uid);
void hca_cq_unuse(struct hca_cq *cq);
void hca_cqs_retell(struct hca_eq *eq);
void hca_cqs_destroy(struct hca *hca);

/* qp.c */
hca_cmd_status hca_cmd_create_qp(struct hca *hca, const void *in, size_t inlen,
				 void *out, size_t outlen);
hca_cmd_status hca_cmd_modify_qp(struct hca *hca, const void *in, size_t inlen,
				 void *out, size_t outlen);
hca_cmd_status hca_cmd_query_qp(struct hca *hca, const void *in, size_t inlen,
				void *out, size_t outlen);
hca_cmd_status hca_cmd_destroy_qp(struct hca *hca, const void *in, size_t inlen,
				  void *out, size_t outlen);
struct hca_qp *hca_qp_get(struct hca *hca, u32 qpn);

/**
 * hca_qp_put() - release a queue pair
 * @qp: the QP
 */
static inline void hca_qp_put(struct hca_qp *qp)
{
	hca_ref_put(&qp->ref);
}

void hca_qp_set_error(struct hca_qp *qp, u8 syndrome, u8 vendor, const struct hca_sgl *where,
		      bool responder);
void hca_qps_fail_cq(struct hca *hca, struct hca_cq *cq);
void hca_qps_destroy(struct hca *hca);

/* sq.c */
void hca_sq_ring(struct hca_qp *qp, bool may_run);
bool hca_sq_has_news(struct hca_qp *qp);
void hca_sq_lock(struct hca_qp *qp);
void hca_sq_unlock(struct hca_qp *qp);
void hca_sq_reset(struct hca_qp *qp);
void hca_sq_flush(struct hca_qp *qp);
void hca_sq_work(struct work_struct *work);
enum hrtimer_restart hca_sq_timer(struct hrtimer *timer);

/* rq.c */
int hca_recv_take(struct hca_qp *qp);
void hca_recv_complete(struct hca_qp *qp, struct mlx5_cqe64 *cqe, u8 opcode, bool solicited);
void hca_recv_error(struct hca_qp *qp, u8 syndrome, u8 vendor);
void hca_rq_reset(struct hca_qp *qp);
void hca_rq_flush(struct hca_qp *qp);
bool hca_parse_data(const u8 *wqe, size_t len, struct hca_sge_list *list, bool receive);

/* responder.c */

/**
 * enum hca_answer - what a step of a request came to
 * @HCA_ANSWER_MORE: a chunk has been moved, more to come
 * @HCA_ANSWER_AGAIN: nothing has been moved, a key was just being changed
 * @HCA_ANSWER_FAULT: suspended until a page is there
 * @HCA_ANSWER_DONE: the request is complete
 * @HCA_ANSWER_NONE: nobody answered; a retry timer must run
 * @HCA_ANSWER_RNR: receiver not ready
 * @HCA_ANSWER_ERROR: failed; the result says how
 */
enum hca_answer {
	HCA_ANSWER_MORE,
	HCA_ANSWER_AGAIN,
	HCA_ANSWER_FAULT,
	HCA_ANSWER_DONE,
	HCA_ANSWER_NONE,
	HCA_ANSWER_RNR,
	HCA_ANSWER_ERROR,
};

/**
 * struct hca_result - details of an answer
 * @syndrome: CQE syndrome for the requester
 * @vendor: its vendor syndrome
 * @where: the local access that failed, or NULL
 * @rnr_timer: encoded RNR NAK timer of the responder
 * @wait_ns: of HCA_ANSWER_FAULT: try again after so long, 0 if the answer of the host
 *	to the requester's own fault is what is waited for
 */
struct hca_result {
	u8 syndrome;
	u8 vendor;
	const struct hca_sgl *where;
	u8 rnr_timer;
	u64 wait_ns;
};

enum hca_answer hca_request(struct hca_qp *qp, struct hca_result *result);

/* fault.c */

/* The requester looks after its peer's fault so often, should nobody wake it. */
#define HCA_FAULT_POLL_NS	(10ULL * NSEC_PER_MSEC)

enum hca_answer hca_fault_raise(struct hca_qp *qp, enum hca_fault_type type,
				const struct hca_req *req, struct hca_sgl *sgl,
				struct hca_result *result);
void hca_fault_drop(struct hca_fault *fault);
hca_cmd_status hca_cmd_page_fault_resume(struct hca *hca, const void *in, size_t inlen,
					 void *out, size_t outlen);

/* umr.c */
u8 hca_umr_parse(struct hca_req *req, size_t len);
enum hca_answer hca_umr(struct hca_qp *qp, struct hca_result *result);

/* doorbell.c has only hca_uar_store() and hca_uar_scan() of the wall */

#endif /* HCA_ENGINE_H */
