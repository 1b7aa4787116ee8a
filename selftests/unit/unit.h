/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The harness. TEST("HM-4.1", name) registers a test by itself; each runs in a process of its own, so that a crash, a
 * sanitizer report, a complaint of the shim or a hang is that test's failure only. The test's body gets a fresh machine
 * `m`, brought up; TEST_BARE gets none. When the body returns, the machine is torn down, every firmware page must have
 * come back, and nothing may be left in the simulated kernel.
 */
#ifndef UNIT_H
#define UNIT_H

#include "machine.h"

struct unit_test {
	/* id: statements ("HM-4.1") and cases ("case 3") that it checks, see scripts/coverage; or just its subject */
	const char *id, *name;
	void (*fn)(struct machine *m);
	bool bare;
	struct unit_test *next;
};

void unit_register(struct unit_test *t);
void unit_fail(const char *file, int line, const char *fmt, ...) __printf(3, 4) __noreturn;
void unit_skip(const char *why) __noreturn;
/* SLOW=1 is in the environment: time does not count */
bool unit_slow(void);
/* how many of @n rounds: all of them if unit_slow(), else a third */
unsigned int unit_rounds(unsigned int n);

#define TEST_(id_, name_, bare_) \
	static void test_##name_(struct machine *m); \
	static struct unit_test unit_##name_ = { id_, #name_, test_##name_, bare_, NULL }; \
	static void __attribute__((constructor)) register_##name_(void) { unit_register(&unit_##name_); } \
	static void test_##name_(struct machine *m __maybe_unused)
#define TEST(id, name)		TEST_(id, name, false)
#define TEST_BARE(id, name)	TEST_(id, name, true)

#define SKIP(why)		unit_skip(why)
#define FAIL(fmt, a...)		unit_fail(__FILE__, __LINE__, fmt, ##a)
#define ASSERT(c)		do { if (!(c)) FAIL("%s", #c); } while (0)
#define ASSERT_OP(a, op, b)	do { \
	typeof(a) ___a = (a); typeof(b) ___b = (b); \
	if (!(___a op ___b)) \
		FAIL("%s %s %s: %#llx and %#llx", #a, #op, #b, (unsigned long long)___a, (unsigned long long)___b); \
} while (0)
#define ASSERT_EQ(a, b)		ASSERT_OP(a, ==, b)
#define ASSERT_NE(a, b)		ASSERT_OP(a, !=, b)
#define ASSERT_LT(a, b)		ASSERT_OP(a, <, b)
#define ASSERT_LE(a, b)		ASSERT_OP(a, <=, b)
#define ASSERT_GE(a, b)		ASSERT_OP(a, >=, b)
#define ASSERT_GT(a, b)		ASSERT_OP(a, >, b)

/* a command's answer: status, and syndrome = opcode << 8 | check when it failed */
#define ASSERT_CMD(m, st, want, opcode, check) do { \
	u8 ___s = (st); \
	if (___s != (want) || (m)->syndrome != ((u32)(opcode) << 8 | (check))) \
		FAIL("%s: status %#x, syndrome %#x; expected %#x, %#x", #st, ___s, (m)->syndrome, \
		     (want), (u32)(opcode) << 8 | (check)); \
} while (0)

/* memory is what mem_fill(mem, .., seed) wrote there */
#define ASSERT_PATTERN(mem, from, len, seed, pfrom) do { \
	u64 ___n = (len), ___d = mem_differs(mem, from, ___n, seed, pfrom); \
	if (___d != ___n) \
		FAIL("%s differs from pattern %u at byte %llu of %llu", #mem, (unsigned int)(seed), ___d, ___n); \
} while (0)

/* completions */
void expect_none(const char *file, int line, struct cq *cq);
struct mlx5_cqe64 expect_cqe(const char *file, int line, struct cq *cq, u8 opcode, u16 counter);
void expect_error(const char *file, int line, struct cq *cq, bool requester, struct qp *qp, u16 counter,
		  u8 syndrome, u8 vendor);
#define EXPECT_NONE(cq)			expect_none(__FILE__, __LINE__, cq)
#define EXPECT_CQE(cq, op, wc)		expect_cqe(__FILE__, __LINE__, cq, op, wc)
#define EXPECT_REQ_ERR(qp, wc, s, v)	expect_error(__FILE__, __LINE__, (qp)->scq, true, qp, wc, s, v)
#define EXPECT_RSP_ERR(qp, wc, s, v)	expect_error(__FILE__, __LINE__, (qp)->rcq, false, qp, wc, s, v)

/* two connected queue pairs with CQs of their own, and memory behind keys: what most data tests begin with */
struct pair {
	struct machine *m;
	struct qp *a, *b;
	struct mem src, dst;		/* 3 pages each, as HM 14 says */
	u64 s, d;			/* iova of the MRs, not page aligned */
	u64 len;			/* of the MRs */
	u32 lkey, rkey;			/* over src, over dst; all rights each */
};
#define PAIR_OFFSET	0xe00
struct pair pair_new(struct machine *m);
struct pair pair_new_attr(struct machine *m, struct qp_attr qa, struct qp_attr qb, struct qp_path path);
#define pair_revive(p)		qp_revive(__FILE__, __LINE__, (p)->a, (struct qp_path){})
void qp_reset(struct qp *qp);

/* one-segment SEND_INVAL */
u16 post_send_inval(struct qp *qp, u32 lkey, u64 laddr, u32 len, u32 rkey);

/* through RESET back to RTS, both ends of a connection; nothing may be left in the CQs */
void qp_revive(const char *file, int line, struct qp *qp, struct qp_path path);

/* the steps of one walk */
struct walk {
	struct hca_explain_step step[256];
	int n;
	u8 syndrome;
};
struct walk explain(struct machine *m, struct qp *qp, u32 key, u64 va, u64 len, enum hca_access access, bool remote);
u64 dma_of(struct machine *m, struct qp *qp, u32 key, u64 va);		/* DMA address of one byte, or the syndrome */
u8 syndrome_of(struct machine *m, struct qp *qp, u32 key, u64 va, u64 len);	/* of a local read */
/* what the data path says of a READ by @qp's peer into the pair's own memory: 0, or the code that the responder kept */
u8 read_by_peer(struct pair *p, u32 rkey, u64 va, u32 len);
u8 write_by_peer(struct pair *p, u32 rkey, u64 va, u32 len);
u8 add_by_peer(struct pair *p, u32 rkey, u64 va, u64 add);

/* what QUERY_MKEY says: the MKC, and of the list what there is up to 4 KiB */
struct key_dump {
	u8 status;
	u8 mkc[64];
	u8 list[4096];
};
struct key_dump key_dump(struct machine *m, u32 key);

/* UMR: posted, executed, and what came of it. A refused one must leave its target as it was; the queue is revived. */
u16 post_umr(struct qp *qp, const struct umr *u);
void umr_ok(const char *file, int line, struct qp *qp, const struct umr *u);
void umr_refused(const char *file, int line, struct qp *qp, const struct umr *u, u8 syndrome, u8 vendor);
#define UMR_OK(qp, u)			umr_ok(__FILE__, __LINE__, qp, u)
#define UMR_REFUSED(qp, u, s, v)	umr_refused(__FILE__, __LINE__, qp, u, s, v)
#define BIND_ERR	MLX5_CQE_SYNDROME_MW_BIND_ERR

/* A memory window, bound by the WQEs that libmlx5 writes (HM 8.9, libmlx5-abi 8.2) */
struct window {
	u32 key;		/* as it stands in the MKC when bound */
	u8 type;
};
struct window window_new(struct machine *m, u8 type, u32 pd);
struct umr window_bind(const struct window *w, struct qp *qp, u8 variant, u32 mr, u64 addr, u64 len, u64 rights,
		       bool zero_based, u8 list[64]);
struct umr window_unbind(const struct window *w, u8 variant);	/* zero-length bind */
struct umr local_inval(u32 key);				/* IBV_WR_LOCAL_INV */
struct umr kernel_local_inval(u32 key);				/* IB_WR_LOCAL_INV */

/* dice: the same in every run */
extern u64 rnd_state;
u64 rnd(u64 n);

/* one-segment operations; return the WQE index */
u16 post_write(struct qp *qp, u32 lkey, u64 laddr, u32 len, u32 rkey, u64 raddr);
u16 post_read(struct qp *qp, u32 lkey, u64 laddr, u32 len, u32 rkey, u64 raddr);
u16 post_send(struct qp *qp, u32 lkey, u64 laddr, u32 len);
u16 post_atomic(struct qp *qp, u8 opcode, u32 lkey, u64 laddr, u32 rkey, u64 raddr, u64 swap_add, u64 compare);
u16 post_recv(struct qp *qp, u32 lkey, u64 addr, u32 len);

#endif
