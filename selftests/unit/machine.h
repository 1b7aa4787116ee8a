/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A simulated host with one HCA in it: memory behind a DMA address space, firmware pages, event queues, and a driver
 * just big enough to make objects by commands and to speak to queues as libmlx5 does. For unit tests and fuzzers.
 *
 * What it guarantees:
 *  - Only memory that was given a DMA address can be reached; addresses of different pieces are never neighbours, so an
 *    access that runs over an edge finds nothing. Under AddressSanitizer the engine may touch only bytes that it has
 *    asked bus_map() for, and nothing of memory that was unmapped.
 *  - The HCA reaches memory through one mapping and the test through another (struct mem .cpu), so that tests read and
 *    write freely what is poison to the HCA.
 *  - Firmware pages that the HCA returned are unmapped at once: who still looks at them dies.
 *
 * The driver's own steps must succeed or the program dies; what a test wants to see fail it sends by m_exec().
 */
#ifndef MACHINE_H
#define MACHINE_H

#include <linux/types.h>
#include <linux/workqueue.h>
#include <linux/mlx5/device.h>
#include <linux/mlx5/qp.h>
#include <linux/mlx5/cq.h>
#include <hca/hca.h>
#include <hca/counters.h>
#include <hca/explain.h>
#include <hca/syndrome.h>

#include "shim/shim.h"

struct machine;

/* Memory in one piece for the CPU, in pages of 2^shift scattered over the bus. */
struct mem {
	struct machine *m;
	u8 *cpu;
	u64 len;
	unsigned int shift;
	u64 nr;
	u64 *dma;
};

struct eq {
	struct machine *m;
	u8 eqn;
	u8 log_size;
	unsigned int vector;
	u32 ci;
	struct mem ring;
};

struct cq {
	struct machine *m;
	u32 cqn;
	u8 log_size;
	u8 log_cqe;
	u32 ci;
	u32 offset;		/* of the ring in its memory */
	unsigned int sn;
	struct mem ring;
	struct mem dbr;		/* be32: consumer counter, arm word */
};

struct qp {
	struct machine *m;
	struct qp *peer;	/* set by qp_connect() */
	u32 qpn;
	u8 st;
	u32 pd;
	u32 user_index;
	struct cq *scq, *rcq;
	u8 log_sq, log_rq, log_stride;
	u32 rq_offset, sq_offset;
	u16 sq_pi;		/* basic blocks */
	u16 rq_pi;
	u8 log_msg_max;
	u8 last_ctrl[8];
	struct mem ring;
	struct mem dbr;		/* be32: receive counter, send counter */
};

enum page_policy {
	PAGES_GIVE,		/* a page request is answered with what was asked */
	PAGES_IGNORE,		/* not at all */
	PAGES_REFUSE,		/* "cannot give" */
};

enum ring_how {
	RING_INLINE,		/* store with HCA_STORE_INLINE */
	RING_WORKER,		/* store without */
	RING_IRQ,		/* the same, from interrupt context */
	RING_LOCKED,		/* the same, by a caller that holds a spinlock of its own */
	RING_SCAN,		/* no store: hca_uar_scan() */
	RING_HINTLESS,		/* a 4-byte store that names no queue */
	RING_HOWS,
};

struct fw_page {
	u64 dma;
	u8 *cpu;
	bool given;
};

#define MAX_EVENTS 4096

struct machine {
	struct hca *hca;
	struct hca_host_ops ops;

	/* objects of the driver */
	u32 uar;
	u32 pd;
	struct eq async;
	struct eq comp;
	bool up;
	bool odp;		/* machine_bring_up() shall enable page faults */
	u32 syndrome;		/* of the last command */
	enum ring_how ring_how;

	/* what happened */
	unsigned int irqs[4];
	unsigned int nr_events;
	struct mlx5_eqe events[MAX_EVENTS];	/* those of the async EQ */
	unsigned long bus_maps, bus_refused;
	unsigned long bus_maps_up;		/* those until the teardown */
	void (*bus_hook)(struct machine *m, u64 dma, size_t len);
	void *hook_arg;

	/* firmware pages */
	enum page_policy policy;
	u64 page_delay;		/* ns between request and answer */
	struct fw_page *fw;
	unsigned int nr_fw;
	unsigned int fw_given;	/* in the HCA's hands */
	int page_request;	/* last num_pages */
	unsigned int page_requests;
	struct work_struct irq_work;
	struct delayed_work page_work;

	/* memory */
	int fd;
	u8 *cpu, *bus;
	u64 frames_used;
	u64 next_dma;
	struct region *regions;
	size_t nr_regions, room_regions;
};

/* life */
struct machine *machine_new(void);		/* power on and bring up */
struct machine *machine_power_on(void);		/* only that */
void machine_bring_up(struct machine *m);
/*
 * TEARDOWN_HCA: every page must come back, and from its answer on nothing may look at the bus or touch memory, HM-11.7
 */
void machine_teardown(struct machine *m);
void machine_free(struct machine *m);		/* that, if it was not done, and power off */
void machine_kill(struct machine *m);		/* power off without a word */

/* memory */
struct mem mem_new(struct machine *m, u64 len);				/* 4 KiB pages */
struct mem mem_new_pages(struct machine *m, u64 len, unsigned int shift);
struct mem mem_at(struct machine *m, u64 dma, u64 len);			/* one contiguous piece at that address */
void mem_unmap_page(struct mem *mem, u64 page);
void mem_unmap(struct mem *mem);
u64 mem_dma(const struct mem *mem, u64 offset);
void mem_fill(struct mem *mem, u64 from, u64 len, u32 seed);		/* a pattern without repetition */
u64 mem_differs(const struct mem *mem, u64 from, u64 len, u32 seed, u64 pattern_from);	/* first offset, or len */
u8 pattern_byte(u32 seed, u64 at);

/* commands */
u8 m_exec(struct machine *m, const void *in, size_t inlen, void *out, size_t outlen);
void m_must(struct machine *m, const void *in, size_t inlen, void *out, size_t outlen);
u32 pd_new(struct machine *m);
u32 pd_new_of(struct machine *m, u16 uid);
u8 pd_free(struct machine *m, u32 pd);
u32 uar_new(struct machine *m);
u16 uctx_new(struct machine *m);
u8 uctx_free(struct machine *m, u16 uid);
u8 memic_alloc(struct machine *m, u32 size, u8 log_align, u64 range, u32 range_size, u64 *addr);
u8 memic_free(struct machine *m, u64 addr, u32 size);
void pages_give(struct machine *m, unsigned int n);
unsigned int pages_take(struct machine *m, unsigned int n);
unsigned int pages_free_now(struct machine *m);		/* how many of the given pages are free; takes and gives back */
s32 pages_wanted(struct machine *m, unsigned int op_mod);
void roce_address_set(struct machine *m, unsigned int index, const u8 *gid);
void gid_of(u8 *gid, unsigned int i);			/* ::ffff:10.0.0.<i> */

/* events */
struct eq eq_new(struct machine *m, unsigned int log_size, unsigned int vector, u64 types);
bool eq_poll(struct eq *eq, struct mlx5_eqe *eqe);
void eq_update(struct eq *eq, bool arm);
unsigned int events_of(struct machine *m, u8 type, u32 number);	/* QP, CQ events of that object seen so far */

/* completion queues */
struct cq_attr {
	u8 log_size;		/* 0 = 6 */
	bool cqe128, ignore_overrun;
	unsigned int log_page, page_offset;	/* log_page as in the context, 0 = 4 KiB */
};
struct cq *cq_new(struct machine *m, struct cq_attr attr);
u8 cq_free(struct cq *cq);
bool cq_peek(struct cq *cq, struct mlx5_cqe64 *cqe);	/* the next CQE by owner bit, not consumed */
bool cq_poll(struct cq *cq, struct mlx5_cqe64 *cqe);	/* consumes */
void cq_update(struct cq *cq);				/* tells the HCA the consumer counter */
void cq_arm(struct cq *cq, bool solicited);
u8 cq_resize(struct cq *cq, unsigned int log_size);	/* status; moves over to the new ring as libmlx5 does */
unsigned int comp_events(struct machine *m, u32 cqn);	/* polls the completion EQ */

/* keys */

/* an entry of a KLM or KSM list, or of a repeated block (HM 4.5, 13.1) */
struct klm {
	u32 count;
	u32 key;
	u64 addr;
};
/* control octoword of a repeated block, and its entries */
#define KLM_REPEAT(cycle, times, n)	{ cycle, 0x400, (u64)(times) << 32 | (n) }
#define KLM_STRIDED(stride, bytes, key, addr)	{ (u32)(stride) << 16 | (bytes), key, addr }
void klm_put(void *list, u32 index, struct klm e);

struct key_attr {
	u8 mode;			/* MLX5_MKC_ACCESS_MODE_* */
	u8 variant;
	bool free, umr_en, length64, pg_access;
	bool no_lr, lw, rr, rw, a;
	bool en_rinval;
	u32 pd;				/* 0 = the machine's */
	u16 uid;
	u64 start, len;
	u8 log_page;			/* 0 = 12 in MTT mode */
	u32 octwords;			/* 0 = what @nr needs */
	const u64 *mtt;
	const struct klm *klm;		/* instead */
	u32 nr;				/* entries */
};
#define KEY_ALL .lw = true, .rr = true, .rw = true, .a = true
struct key_cmd {
	u32 *in;
	size_t inlen;
};
struct key_cmd key_cmd(struct machine *m, const struct key_attr *a);	/* free(.in) */
u8 key_try(struct machine *m, const struct key_attr *a, u32 *key);
u32 key_new(struct machine *m, const struct key_attr *a);
u8 key_free(struct machine *m, u32 key);
u8 key_query(struct machine *m, u32 key, bool pg_access, void *out, size_t outlen);
/* a KLM key with all rights, addressed from 0, over @list; as long as its entries together */
u32 klm_new(struct machine *m, const struct klm *list, u32 nr);
/* an MTT key with all rights over mem[offset, offset + len), addressed by @iova, which shares the offset in a page */
u32 mr_new(struct machine *m, const struct mem *mem, u64 offset, u64 len, u64 iova);
u32 mr_new_attr(struct machine *m, const struct mem *mem, u64 offset, u64 len, u64 iova, struct key_attr a);

/* queue pairs */
struct qp_attr {
	u8 log_sq, log_rq;		/* 0 = 6; basic blocks, receive WQEs */
	u8 log_stride;			/* log2 of the receive stride, 0 = 6 */
	bool no_sq, no_rq, rlky, fre;
	u8 st;				/* 0 = RC */
	u32 pd;				/* 0 = the machine's; none for a REG_UMR queue */
	struct cq *scq, *rcq;		/* NULL = the machine makes one */
	u32 user_index;			/* 0 = some */
	u8 log_msg_max;			/* 0 = 31 */
	unsigned int log_page, page_offset;
};
struct qp *qp_new(struct machine *m, struct qp_attr attr);
u8 qp_free(struct qp *qp);

struct qp_path {
	bool no_rre, no_rwe, no_rae;
	u8 timeout;		/* local ACK timeout, 0 = 14 (67 ms); 32 stands for 0 = for ever */
	u8 retry;		/* retry_cnt, 0 = 7; 8 stands for 0 */
	u8 rnr_retry;		/* 0 = 7; 8 stands for 0 */
	u8 min_rnr;		/* 0 = 12 (0.64 ms); 32 stands for 0 */
	unsigned int gid;	/* index of gid_of(), 0 = 1 */
};
void *qp_cmd(u32 *in, struct qp *qp, u16 opcode, u32 opt_mask);		/* returns the qpc in it */
#define QP_CMD_DW MLX5_ST_SZ_DW(rst2init_qp_in)
u8 qp_modify(struct qp *qp, const u32 *in);
void qp_fill(struct qp *qp, void *qpc, const struct qp_path *path, u32 remote_qpn);	/* every field that a transition may want */
u8 qp_to(struct qp *qp, u16 opcode, const struct qp_path *path, u32 remote_qpn);
void qp_up(struct qp *qp, u32 remote_qpn, struct qp_path path);		/* RST to RTS */
void qp_connect(struct qp *a, struct qp *b, struct qp_path path);
struct qp *umr_qp_new(struct machine *m);				/* a REG_UMR queue as the driver has one, in RTS */
u8 qp_query(struct qp *qp, u32 *qpc);					/* MLX5_ST_SZ_DW(qpc) */
unsigned int qp_state(struct qp *qp);
struct hca_qp_error qp_error(struct qp *qp);

/* send WQEs: built in private memory, then copied to the ring, wrapping at its end */
struct wqe {
	u8 b[1024] __aligned(16);
	unsigned int len;		/* bytes so far */
};
#define SIGNALED	0x08
#define SOLICITED	0x02
void wqe_begin(struct wqe *w, u8 opcode, u8 fm_ce_se, u32 imm);
void wqe_raddr(struct wqe *w, u64 addr, u32 rkey);
void wqe_atomic(struct wqe *w, u64 swap_add, u64 compare);
void wqe_data(struct wqe *w, u32 lkey, u64 addr, u32 len);
void wqe_inline(struct wqe *w, const void *data, unsigned int len);

/* UMR (HM 8.2, 8.3): mask bits and flags typed from there */
#define UMR_LEN		BIT_ULL(0)
#define UMR_PAGE_SIZE	BIT_ULL(1)
#define UMR_START	BIT_ULL(6)
#define UMR_PD		BIT_ULL(7)
#define UMR_EN_RINVAL	BIT_ULL(8)
#define UMR_EN_SIGERR	BIT_ULL(9)
#define UMR_BSF_EN	BIT_ULL(12)
#define UMR_KEY		BIT_ULL(13)
#define UMR_QPN		BIT_ULL(14)
#define UMR_LR		BIT_ULL(17)
#define UMR_LW		BIT_ULL(18)
#define UMR_RR		BIT_ULL(19)
#define UMR_RW		BIT_ULL(20)
#define UMR_A		BIT_ULL(21)
#define UMR_SMALL_FENCE	BIT_ULL(23)
#define UMR_RO_WRITE	BIT_ULL(25)
#define UMR_FREE	BIT_ULL(29)
#define UMR_GENERATION	BIT_ULL(31)
#define UMR_PAGE_SIZE_5	BIT_ULL(42)
#define UMR_RO_READ	BIT_ULL(47)
#define UMR_RIGHTS	(UMR_LW | UMR_RR | UMR_RW | UMR_A)

#define UMR_INLINE	0x80
#define UMR_IF_USED	0x40	/* check_free 2 */
#define UMR_IF_FREE	0x20	/* check_free 1 */
#define UMR_OFFSET	0x10
#define UMR_CHECK_QPN	0x08

struct umr {
	u32 key;			/* the target, full key */
	u8 flags;
	u8 fm_ce_se;			/* 0 = SIGNALED */
	u64 mask;
	u32 mkc[MLX5_ST_SZ_DW(mkc)];
	u16 octwords;			/* of the list */
	u64 to;				/* translation offset in octowords */
	const void *list;		/* inline; NULL = none, or by pointer */
	u32 list_len;			/* of what stands in the WQE; 0 = what @octwords says */
	u32 lkey, byte_count;		/* the pointer, if @byte_count is not 0 */
	u64 addr;
};
#define UMR_SET(u, field, v)	MLX5_SET(mkc, (u)->mkc, field, v)
#define UMR_SET64(u, field, v)	MLX5_SET64(mkc, (u)->mkc, field, v)
void wqe_umr(struct wqe *w, const struct umr *u);

u16 sq_put(struct qp *qp, struct wqe *w);		/* without doorbell; returns the WQE index */
void sq_ring(struct qp *qp);				/* doorbell, then pump */
u16 sq_post(struct qp *qp, struct wqe *w);		/* both */
u8 *sq_byte(struct qp *qp, u16 index, unsigned int at);	/* a byte of a WQE in the ring */

struct sge {
	u32 lkey;
	u64 addr;
	u32 len;
};
u8 *rq_wqe(struct qp *qp, u16 index);
u16 rq_put(struct qp *qp, const struct sge *sge, unsigned int n);	/* terminator as libmlx5; no record */
u16 rq_post(struct qp *qp, const struct sge *sge, unsigned int n);	/* with record; returns the receive counter */

u64 counter(struct machine *m, enum hca_counter c);

#endif
