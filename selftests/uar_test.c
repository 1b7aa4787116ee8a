// SPDX-License-Identifier: GPL-2.0
/*
 * Proves the open points of doorbells.md: whatever a program does with its UAR page,
 * no doorbell is lost, nothing hangs, and stores that cannot be stepped over take the
 * other way and are counted there; and completions are what they should be for who polls
 * meanwhile. One point is left to unload_test: the page outlives its device.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
#include "lib/harness.h"
#include "lib/rdma.h"
#include "lib/mem.h"
#include "lib/raw.h"

#define AT(p)		((uintptr_t)(p))
#define SIGNALLED	MLX5_WQE_CTRL_CQ_UPDATE

/* A queue pair by hand, connected to itself */
struct loop {
	struct ibv_cq *cq, *rcq;
	struct ibv_qp *qp;
	struct raw raw;
};

FIXTURE(uar) {
	struct rdma r;
	struct ibv_pd *pd;
	struct loop x, y;
	char *buf;
	struct ibv_mr *mr;
	char *page;		/* the UAR as libmlx5 mapped it */
	unsigned long reg;	/* offset of the register */
	off_t offset;		/* what to give to mmap() */
};

#define SELF	FIXTURE_DATA(uar) *self

static int loop_open(SELF, struct loop *l)
{
	struct qp_cfg cfg = { .send_wr = 64 };

	l->cq = ibv_create_cq(self->r.ctx, 255, NULL, NULL, 0);
	l->rcq = ibv_create_cq(self->r.ctx, 255, NULL, NULL, 0);
	if (!l->cq || !l->rcq)
		return -ENOMEM;
	l->qp = qp_create(self->pd, l->cq, l->rcq, &cfg);
	if (!l->qp)
		return -ENOMEM;
	l->raw.qp.comp_mask = MLX5DV_QP_MASK_UAR_MMAP_OFFSET;
	return qp_connect(&self->r, l->qp, &cfg, l->qp->qp_num);
}

FIXTURE_SETUP(uar)
{
	struct mlx5dv_qp dv = { .comp_mask = MLX5DV_QP_MASK_UAR_MMAP_OFFSET };
	struct mlx5dv_obj obj = { .qp = { .out = &dv } };

	ASSERT_EQ(0, rdma_open(&self->r));
	self->pd = ibv_alloc_pd(self->r.ctx);
	ASSERT_NE(NULL, self->pd);
	ASSERT_EQ(0, loop_open(self, &self->x));
	ASSERT_EQ(0, loop_open(self, &self->y));
	if (raw_open(&self->x.raw, self->x.qp, self->x.cq))
		SKIP(return, "not driven by libmlx5");
	ASSERT_EQ(0, raw_open(&self->y.raw, self->y.qp, self->y.cq));
	obj.qp.in = self->x.qp;
	ASSERT_EQ(0, mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP));
	ASSERT_NE(0, dv.comp_mask & MLX5DV_QP_MASK_UAR_MMAP_OFFSET);
	self->offset = dv.uar_mmap_offset;
	self->reg = AT(self->x.raw.qp.bf.reg) % PAGE;
	self->page = (char *)self->x.raw.qp.bf.reg - self->reg;
	/* both share the page */
	ASSERT_EQ(self->page, (char *)self->y.raw.qp.bf.reg - self->reg);
	self->buf = mem_pages(2 * PAGE);
	ASSERT_NE(NULL, self->buf);
	self->mr = ibv_reg_mr(self->pd, self->buf, 2 * PAGE, ACCESS_ALL);
	ASSERT_NE(NULL, self->mr);
}

static void loop_close(struct loop *l)
{
	if (l->qp)
		ibv_destroy_qp(l->qp);
	if (l->cq)
		ibv_destroy_cq(l->cq);
	if (l->rcq)
		ibv_destroy_cq(l->rcq);
}

FIXTURE_TEARDOWN(uar)
{
	if (self->mr)
		EXPECT_EQ(0, ibv_dereg_mr(self->mr));
	loop_close(&self->x);
	loop_close(&self->y);
	EXPECT_EQ(0, ibv_dealloc_pd(self->pd));
	rdma_close(&self->r);
}

/* A WRITE of 8 bytes that only waits for its doorbell */
static void put(SELF, struct loop *l)
{
	struct raw_wqe w;

	raw_begin(&w, &l->raw, MLX5_OPCODE_RDMA_WRITE, SIGNALLED);
	raw_remote(&w, AT(self->buf) + PAGE, self->mr->rkey);
	raw_data(&w, AT(self->buf), 8, self->mr->lkey);
	raw_put(&l->raw, &w, -1);
	raw_record(&l->raw);
}

static bool done(struct loop *l)
{
	struct raw_cqe cqe;

	return raw_wait(&l->raw, &cqe, WAIT_MS) == 1 &&
	       cqe.opcode == MLX5_CQE_REQ;
}

static bool quiet(struct loop *l)
{
	struct raw_cqe cqe;

	return raw_wait(&l->raw, &cqe, 20) == 0;
}

/* Long enough for a mapped UAR to be trapped again */
static void settle(void)
{
	usleep(50000);
}

/* Every doorbell of a plain 8-byte store is stepped over, none is lost */
TEST_F_TIMEOUT(uar, every_doorbell_is_seen, 60)
{
	long long traps = hw_counter("doorbell_trap");
	long long mapped = hw_counter("doorbell_mapped");
	enum { N = 20000 };

	for (int i = 0; i < N; i++) {
		put(self, &self->x);
		raw_ring(&self->x.raw);
		ASSERT_TRUE(done(&self->x));
	}
	EXPECT_EQ(traps + N, hw_counter("doorbell_trap"));
	EXPECT_EQ(mapped, hw_counter("doorbell_mapped"));
}

/* libmlx5's own posting needs no fallback either */
TEST_F(uar, libmlx5_never_falls_back)
{
	long long mapped = hw_counter("doorbell_mapped");
	struct pair p;
	struct ibv_mr *mr;

	ASSERT_EQ(0, pair_open(&p, NULL));
	mr = ibv_reg_mr(p.pd, self->buf, 2 * PAGE, ACCESS_ALL);
	ASSERT_NE(NULL, mr);
	for (int i = 0; i < 500; i++) {
		ASSERT_EQ(0, ibv_req_notify_cq(p.acq, 0));
		ASSERT_EQ(0, run(p.a, p.acq, &(struct op){
			.opcode = IBV_WR_RDMA_WRITE, .len = 8,
			.laddr = AT(self->buf), .lkey = mr->lkey,
			.raddr = AT(self->buf) + PAGE, .rkey = mr->rkey,
		}, NULL));
	}
	EXPECT_EQ(mapped, hw_counter("doorbell_mapped"));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
	pair_close(&p);
}

#ifdef __x86_64__

/* Ways to store 8 bytes from a register */
static void store_base(char *reg, uint64_t v)
{
	asm volatile("movq %1, (%0)" :: "r"(reg), "r"(v) : "memory");
}

static void store_disp8(char *reg, uint64_t v)
{
	asm volatile("movq %1, 0x18(%0)" :: "r"(reg - 0x18), "r"(v) : "memory");
}

static void store_disp32(char *reg, uint64_t v)
{
	asm volatile("movq %1, -0x1234(%0)" :: "r"(reg + 0x1234), "r"(v)
		     : "memory");
}

static void store_sib(char *reg, uint64_t v)
{
	asm volatile("movq %1, 0x10(%0,%2,8)" :: "r"(reg - 0x10 - 88),
		     "r"(v), "r"(11ul) : "memory");
}

static void store_high_regs(char *reg, uint64_t v)
{
	register char *r13 asm("r13") = reg;
	register uint64_t r12 asm("r12") = v;

	asm volatile("movq %1, (%0)" :: "r"(r13), "r"(r12) : "memory");
}

static void store_r12_base(char *reg, uint64_t v)
{
	register char *r12 asm("r12") = reg;

	asm volatile("movq %1, (%0)" :: "r"(r12), "r"(v) : "memory");
}

static void store_rsp_base(char *reg, uint64_t v)
{
	asm volatile("movq %%rsp, %%rcx\n\t"
		     "movq %0, %%rsp\n\t"
		     "movq %1, (%%rsp)\n\t"
		     "movq %%rcx, %%rsp" :: "r"(reg), "r"(v)
		     : "rcx", "memory");
}

/* and ways that no decoder knows, or that are no 8-byte store */
static void store_1(char *reg, uint64_t v)
{
	*(volatile uint8_t *)reg = v;
}

static void store_2(char *reg, uint64_t v)
{
	*(volatile uint16_t *)reg = v;
}

static void store_4(char *reg, uint64_t v)
{
	*(volatile uint32_t *)reg = v;
}

static void store_two_halves(char *reg, uint64_t v)
{
	*(volatile uint32_t *)reg = v;
	*(volatile uint32_t *)(reg + 4) = v >> 32;
}

static void store_imm(char *reg, uint64_t v)
{
	asm volatile("movq $1, (%0)" :: "r"(reg) : "memory");
}

static void store_sse(char *reg, uint64_t v)
{
	asm volatile("movq %1, %%xmm0\n\tmovups %%xmm0, (%0)" ::
		     "r"(reg), "r"(v) : "xmm0", "memory");
}

static void store_xchg(char *reg, uint64_t v)
{
	asm volatile("xchgq %1, (%0)" :: "r"(reg), "r"(v) : "memory");
}

static void store_add(char *reg, uint64_t v)
{
	asm volatile("lock addq %1, (%0)" :: "r"(reg), "r"(v) : "memory");
}

static void store_rep(char *reg, uint64_t v)
{
	unsigned long n = 64;

	asm volatile("rep stosb" : "+D"(reg), "+c"(n) : "a"(v) : "memory");
}

static void store_fs(char *reg, uint64_t v)
{
	unsigned long base;

	asm volatile("movq %%fs:0, %0" : "=r"(base));
	asm volatile("movq %1, %%fs:(%0)" :: "r"(reg - base), "r"(v)
		     : "memory");
}

static void store_unaligned(char *reg, uint64_t v)
{
	asm volatile("movq %1, (%0)" :: "r"(reg + 3), "r"(v) : "memory");
}


static const struct {
	const char *name;
	void (*store)(char *reg, uint64_t v);
	bool stepped;		/* must be, by doorbells.md */
	bool mapped;		/* must be */
} forms[] = {
	{ "base", store_base, true, false },
	{ "disp8", store_disp8, true, false },
	{ "disp32", store_disp32, true, false },
	{ "sib", store_sib, true, false },
	{ "r12 to (r13)", store_high_regs, true, false },
	{ "(r12)", store_r12_base, true, false },
	{ "(rsp)", store_rsp_base, true, false },
	{ "1 byte", store_1, false, true },
	{ "2 bytes", store_2, false, true },
	{ "4 bytes", store_4, false, true },
	{ "two halves", store_two_halves, false, true },
	{ "immediate", store_imm, false, true },
	{ "sse", store_sse, false, true },
	{ "xchg", store_xchg, false, true },
	{ "lock add", store_add, false, true },
	{ "rep stosb", store_rep, false, true },
	{ "fs prefix", store_fs, false, true },
	{ "unaligned", store_unaligned, true, false },
};

TEST_F_TIMEOUT(uar, forms_of_stores, 60)
{
	uint64_t hint = htobe64((uint64_t)self->x.raw.qpn << 8 | 1);

	for (unsigned int i = 0; i < ARRAY_SIZE(forms); i++) {
		for (int round = 0; round < 10; round++) {
			long long traps, mapped;

			settle();
			traps = hw_counter("doorbell_trap");
			mapped = hw_counter("doorbell_mapped");
			put(self, &self->x);
			forms[i].store(self->page + self->reg, hint);
			ASSERT_TRUE(done(&self->x)) {
				TH_LOG("lost: %s", forms[i].name);
			}
			traps = hw_counter("doorbell_trap") - traps;
			mapped = hw_counter("doorbell_mapped") - mapped;
			EXPECT_TRUE(!forms[i].stepped || traps == 1) {
				TH_LOG("%s: %lld traps", forms[i].name, traps);
			}
			EXPECT_TRUE(!forms[i].mapped || mapped > 0) {
				TH_LOG("%s: not mapped", forms[i].name);
			}
			if (round == 1)
				round = 8;
		}
	}
	EXPECT_TRUE(quiet(&self->x));
}

/* Without a pause: doorbells meet the page in whatever state it is in */
TEST_F_TIMEOUT(uar, forms_in_a_hurry, 60)
{
	uint64_t hint = htobe64((uint64_t)self->x.raw.qpn << 8 | 1);
	unsigned int seed = 1;

	for (int i = 0; i < 5000; i++) {
		unsigned int form = rand_r(&seed) % ARRAY_SIZE(forms);

		put(self, &self->x);
		forms[form].store(self->page + self->reg, hint);
		if (rand_r(&seed) % 50 == 0)
			usleep(rand_r(&seed) % 300);
		ASSERT_TRUE(done(&self->x)) {
			TH_LOG("lost: %s, store %d", forms[form].name, i);
		}
	}
}

/* A store that begins before the page, and one that ends behind it */
TEST_F(uar, stores_across_the_edges)
{
	char *three = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *mid = three + PAGE;

	ASSERT_NE(MAP_FAILED, three);
	ASSERT_EQ(mid, mmap(mid, PAGE, PROT_WRITE, MAP_SHARED | MAP_FIXED,
			    self->r.ctx->cmd_fd, self->offset));
	for (int at = 1; at < 8; at++) {
		settle();
		put(self, &self->x);
		store_base(mid - at, 0x1111111111111111);
		ASSERT_TRUE(done(&self->x));
		EXPECT_TRUE(all_bytes(mid - at, at, 0x11));

		settle();
		put(self, &self->x);
		store_base(mid + PAGE - at, 0x2222222222222222);
		ASSERT_TRUE(done(&self->x));
		EXPECT_TRUE(all_bytes(mid + PAGE, 8 - at, 0x22));
		memset(mid - 8, 0, 8);
		memset(mid + PAGE, 0, 8);
	}
	munmap(three, 3 * PAGE);
}

#endif /* __x86_64__ */

/* Reads, and writes by the kernel, end and lose nothing */
TEST_F(uar, read_and_kernel_access)
{
	int fd = open("/dev/zero", O_RDONLY);
	volatile uint64_t got;

	ASSERT_LE(0, fd);
	for (int i = 0; i < 5; i++) {
		got = *(volatile uint64_t *)(self->page + self->reg);
		(void)got;
		settle();
		put(self, &self->x);
		/* the kernel stores to the page on our behalf, or refuses to */
		got = read(fd, self->page + self->reg, 8);
		raw_ring(&self->x.raw);
		ASSERT_TRUE(done(&self->x));
		settle();
	}
	close(fd);
}

TEST_F(uar, several_mappings)
{
	char *map[3], *moved;

	for (int i = 0; i < 3; i++) {
		map[i] = mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED,
			      self->r.ctx->cmd_fd, self->offset);
		ASSERT_NE(MAP_FAILED, map[i]);
	}
	for (int round = 0; round < 100; round++) {
		put(self, &self->x);
		*(volatile uint64_t *)(map[round % 3] + self->reg) = 1;
		ASSERT_TRUE(done(&self->x));
	}
	/* one in the mapped state while another is rung */
	*(volatile uint8_t *)(map[0] + self->reg) = 1;
	for (int round = 0; round < 100; round++) {
		put(self, &self->x);
		*(volatile uint64_t *)(map[1] + self->reg) = 1;
		ASSERT_TRUE(done(&self->x));
		*(volatile uint8_t *)(map[0] + self->reg) = 1;
	}
	ASSERT_EQ(0, munmap(map[0], PAGE));
	moved = mremap(map[1], PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
		       map[0]);
	if (moved != MAP_FAILED) {
		ASSERT_EQ(map[0], moved);
		put(self, &self->x);
		*(volatile uint64_t *)(moved + self->reg) = 1;
		ASSERT_TRUE(done(&self->x));
		ASSERT_EQ(0, munmap(moved, PAGE));
	}
	/* it does not grow */
	EXPECT_EQ(MAP_FAILED, mremap(map[2], PAGE, 2 * PAGE, MREMAP_MAYMOVE));
	ASSERT_EQ(0, munmap(map[2], PAGE));
	/* and is never private */
	EXPECT_EQ(MAP_FAILED, mmap(NULL, PAGE, PROT_WRITE, MAP_PRIVATE,
				   self->r.ctx->cmd_fd, self->offset));
	put(self, &self->x);
	raw_ring(&self->x.raw);
	EXPECT_TRUE(done(&self->x));
}

struct ringer {
	FIXTURE_DATA(uar) *self;
	struct loop *loop;
	int n, lost;
};

static void *ring_and_wait(void *arg)
{
	struct ringer *r = arg;

	for (int i = 0; i < r->n && !r->lost; i++) {
		put(r->self, r->loop);
		if (i % 97 == 0)	/* now and then the other way */
			*(volatile uint32_t *)r->loop->raw.qp.bf.reg = 0;
		else
			raw_ring(&r->loop->raw);
		r->lost = !done(r->loop);
	}
	return NULL;
}

TEST_F_TIMEOUT(uar, two_threads_ring_one_page, 60)
{
	struct ringer r[2] = {
		{ self, &self->x, 6000 }, { self, &self->y, 6000 },
	};
	pthread_t thread[2];

	for (int i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, ring_and_wait,
					    &r[i]));
	for (int i = 0; i < 2; i++) {
		pthread_join(thread[i], NULL);
		EXPECT_EQ(0, r[i].lost);
	}
}

/* A mapping moves while doorbells come through it and through another */
TEST_F_TIMEOUT(uar, moved_during_traffic, 60)
{
	struct ringer r = { self, &self->x, 6000 };
	pthread_t thread;
	char *at[2];

	at[0] = mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, self->r.ctx->cmd_fd, self->offset);
	at[1] = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, at[0]);
	ASSERT_NE(MAP_FAILED, at[1]);
	ASSERT_EQ(0, pthread_create(&thread, NULL, ring_and_wait, &r));
	for (int i = 0; i < 3000; i++) {
		char *to = at[!(i % 2)];

		ASSERT_EQ(to, mremap(at[i % 2], PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to));
		put(self, &self->y);
		if (i % 97 == 0)
			*(volatile uint32_t *)(to + self->reg) = 0;
		else
			*(volatile uint64_t *)(to + self->reg) = 1;
		ASSERT_TRUE(done(&self->y));
	}
	pthread_join(thread, NULL);
	EXPECT_EQ(0, r.lost);
}

/* Messages in turn, a WRITE and a SEND, each through a slot of its own */
#define SLOTS	16

struct poller {
	struct pair *p;
	char *to;
	int n;			/* messages in all */
	int seen;		/* those before this one are over, and their slots free */
	const char *wrong;
};

static uint32_t length_of(int i)
{
	static const uint32_t lengths[] = { 8, 4096, 64, 1000, 1, 2048, 333 };

	return lengths[i % ARRAY_SIZE(lengths)];
}

/* The next completion must be that of message @i, with its data in place: NULL, or what is wrong */
static const char *next_is(struct poller *o, struct ibv_cq *cq, int i)
{
	struct ibv_wc wc;

	if (wait_wc(cq, &wc, WAIT_MS) != 1)
		return "no completion";
	if (wc.status)
		return "a bad completion";
	if (wc.wr_id != i)
		return "out of order, twice, or lost";
	if (differs(o->to + i % SLOTS * PAGE, length_of(i), i) != -1)
		return "its data are not there";
	return NULL;
}

static void *only_poll(void *arg)
{
	struct poller *o = arg;

	for (int i = 0; i < o->n && !o->wrong; i++) {
		o->wrong = next_is(o, o->p->acq, i);
		if (!o->wrong && i % 2)
			o->wrong = next_is(o, o->p->bcq, i);
		__atomic_store_n(&o->seen, i + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* One thread looks for completions while the doorbells of the other are handled inline */
TEST_F_TIMEOUT(uar, polled_while_it_is_handled_inline, 100)
{
	char *from = mem_pages(SLOTS * PAGE), *to = mem_pages(SLOTS * PAGE);
	struct ibv_mr *from_mr, *to_mr;
	long long traps, handed_over;
	struct poller o = { .to = to, .n = 20000 };
	pthread_t thread;
	struct pair p;

	ASSERT_NE(NULL, from);
	ASSERT_NE(NULL, to);
	ASSERT_EQ(0, pair_open(&p, NULL));
	o.p = &p;
	from_mr = ibv_reg_mr(p.pd, from, SLOTS * PAGE, ACCESS_ALL);
	to_mr = ibv_reg_mr(p.pd, to, SLOTS * PAGE, ACCESS_ALL);
	ASSERT_NE(NULL, from_mr);
	ASSERT_NE(NULL, to_mr);
	traps = hw_counter("doorbell_trap");
	handed_over = hw_counter("handed_to_worker");
	ASSERT_EQ(0, pthread_create(&thread, NULL, only_poll, &o));
	for (int i = 0; i < o.n; i++) {
		size_t slot = i % SLOTS * PAGE;
		struct op op = {
			.opcode = i % 2 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, .id = i,
			.flags = IBV_SEND_SIGNALED, .len = length_of(i),
			.laddr = AT(from) + slot, .lkey = from_mr->lkey,
			.raddr = AT(to) + slot, .rkey = to_mr->rkey,
		};

		while (i - __atomic_load_n(&o.seen, __ATOMIC_ACQUIRE) >= SLOTS)
			sched_yield();
		fill(from + slot, op.len, i);
		memset(to + slot, 0, op.len);
		if (i % 2)
			ASSERT_EQ(0, post_recv(p.b, i, AT(to) + slot, PAGE, to_mr->lkey));
		ASSERT_EQ(0, post(p.a, &op));
		if (o.wrong)
			break;
	}
	pthread_join(thread, NULL);
	EXPECT_EQ(NULL, o.wrong) {
		TH_LOG("message %d: %s", o.seen - 1, o.wrong);
	}
	usleep(20000);
	EXPECT_EQ(0, drop_wcs(p.acq));
	EXPECT_EQ(0, drop_wcs(p.bcq));
	/* which they were */
	EXPECT_EQ(traps + o.n, hw_counter("doorbell_trap"));
	EXPECT_EQ(handed_over, hw_counter("handed_to_worker"));
	EXPECT_EQ(0, ibv_dereg_mr(from_mr));
	EXPECT_EQ(0, ibv_dereg_mr(to_mr));
	pair_close(&p);
	munmap(from, SLOTS * PAGE);
	munmap(to, SLOTS * PAGE);
}

/* A child has the page, too: what it stores there harms nobody */
TEST_F_TIMEOUT(uar, fork_with_a_mapped_uar, 60)
{
	pid_t child[3];
	int status;

	for (int i = 0; i < 3; i++) {
		child[i] = fork();
		ASSERT_LE(0, child[i]);
		if (!child[i]) {
			for (int n = 0; n < 2000; n++) {
				raw_ring(&self->x.raw);
				if (n % 100 == 0)
					*(volatile uint8_t *)self->page = n;
			}
			_exit(munmap(self->page, PAGE) ? 1 : 0);
		}
	}
	for (int i = 0; i < 2000; i++) {
		put(self, &self->x);
		raw_ring(&self->x.raw);
		ASSERT_TRUE(done(&self->x));
	}
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(child[i], waitpid(child[i], &status, 0));
		EXPECT_EQ(0, status);
	}
	EXPECT_TRUE(quiet(&self->x));
	put(self, &self->x);
	raw_ring(&self->x.raw);
	EXPECT_TRUE(done(&self->x));
}

/* A program of its own, that is to end by a signal */
static pid_t start_ringing(bool unmap)
{
	FIXTURE_DATA(uar) here = {}, *self = &here;
	struct ringer r = { self, &self->x, 1 << 30 };
	pthread_t thread;
	pid_t child = fork();

	if (child)
		return child;
	if (rdma_open(&self->r))
		_exit(1);
	self->pd = ibv_alloc_pd(self->r.ctx);
	self->buf = mem_pages(2 * PAGE);
	self->mr = ibv_reg_mr(self->pd, self->buf, 2 * PAGE, ACCESS_ALL);
	if (!self->mr || loop_open(self, &self->x) ||
	    raw_open(&self->x.raw, self->x.qp, self->x.cq))
		_exit(2);
	if (unmap) {
		pthread_create(&thread, NULL, ring_and_wait, &r);
		usleep(3000);
		munmap((void *)(AT(self->x.raw.qp.bf.reg) & -PAGE), PAGE);
		pthread_join(thread, NULL);
		_exit(3);
	}
	ring_and_wait(&r);
	_exit(4);
}

TEST_F_TIMEOUT(uar, unmapped_or_killed_while_ringing, 60)
{
	unsigned int seed = 9;
	int status;

	for (int i = 0; i < 16; i++) {
		bool unmap = i % 2;
		pid_t child = start_ringing(unmap);

		ASSERT_LE(0, child);
		if (!unmap) {
			usleep(20000 + rand_r(&seed) % 20000);
			kill(child, SIGKILL);
		}
		ASSERT_EQ(child, waitpid(child, &status, 0));
		ASSERT_TRUE(WIFSIGNALED(status)) {
			TH_LOG("exit status %d", WEXITSTATUS(status));
		}
		EXPECT_EQ(unmap ? SIGSEGV : SIGKILL, WTERMSIG(status));
		put(self, &self->x);
		raw_ring(&self->x.raw);
		ASSERT_TRUE(done(&self->x));
	}
}

/* A debugger that steps over doorbells sees every instruction once */
TEST_F_TIMEOUT(uar, single_steps, 60)
{
	long long mapped = hw_counter("doorbell_mapped");
	int status, steps = 0;
	pid_t child;

	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		FIXTURE_DATA(uar) here = {};

		/* its own context: a child does not share queue memory */
		self = &here;
		if (rdma_open(&self->r))
			_exit(1);
		self->pd = ibv_alloc_pd(self->r.ctx);
		self->buf = mem_pages(2 * PAGE);
		self->mr = ibv_reg_mr(self->pd, self->buf, 2 * PAGE,
				      ACCESS_ALL);
		if (!self->mr || loop_open(self, &self->x) ||
		    raw_open(&self->x.raw, self->x.qp, self->x.cq))
			_exit(2);
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		for (int i = 0; i < 5; i++) {
			put(self, &self->x);
			raise(SIGSTOP);		/* from here: step by step */
			raw_ring(&self->x.raw);
			raise(SIGUSR1);		/* to here */
			if (!done(&self->x))
				_exit(3);
		}
		_exit(0);
	}
	for (;;) {
		ASSERT_EQ(child, waitpid(child, &status, 0));
		if (!WIFSTOPPED(status))
			break;
		if (WSTOPSIG(status) == SIGUSR1) {
			ASSERT_EQ(0, ptrace(PTRACE_CONT, child, NULL, 0));
			continue;
		}
		ASSERT_LT(steps++, 50000);
		ASSERT_EQ(0, ptrace(PTRACE_SINGLESTEP, child, NULL, 0));
	}
	ASSERT_TRUE(WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status));
	EXPECT_LT(20, steps);
	/* they could not be stepped over */
	EXPECT_LT(mapped, hw_counter("doorbell_mapped"));
}

static unsigned long long busy_ticks(void)
{
	unsigned long long user, nice, sys, idle, wait, irq, soft;
	FILE *file = fopen("/proc/stat", "r");
	int n = 0;

	if (file) {
		n = fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu",
			   &user, &nice, &sys, &idle, &wait, &irq, &soft);
		fclose(file);
	}
	return n == 7 ? user + nice + sys + irq + soft : 0;
}

/* Open contexts, connected queues and armed CQs cost no CPU */
TEST_F(uar, idle_costs_nothing)
{
	unsigned long long before, scans;

	for (int i = 0; i < 100; i++) {
		put(self, &self->x);
		raw_ring(&self->x.raw);
		ASSERT_TRUE(done(&self->x));
	}
	*(volatile uint8_t *)(self->page + self->reg) = 1;	/* mapped */
	ASSERT_EQ(0, ibv_req_notify_cq(self->y.cq, 0));
	sleep(1);
	scans = hw_counter("doorbell_scan");
	before = busy_ticks();
	ASSERT_NE(0, before);
	sleep(2);
	EXPECT_GT(before + 20, busy_ticks());	/* of 400 */
	EXPECT_EQ(scans, hw_counter("doorbell_scan"));
}

TEST_HARNESS_MAIN
