// SPDX-License-Identifier: GPL-2.0
/*
 * Proves that a region over a dma-buf follows its buffer: the HCA finds it wherever its
 * exporter has put it, never touches the place that it has left, and gets an error once
 * it is gone for good, while everything can still be taken down. Exporters: udmabuf and
 * the system heap of the kernel, and one of our own that moves and vanishes on command.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <infiniband/mlx5dv.h>
#include "lib/harness.h"
#include "dmabuf/softhca_dmabuf.h"
#include "lib/access.h"
#include "lib/look.h"
#include "lib/mem.h"
#include "lib/sys.h"
#include "../include/hca/syndrome.h"

#define SIZE		(4 * HUGE)
#define PLENTY		(1ul << 20)
#define AT(p)		((uint64_t)(uintptr_t)(p))
#define IOVA		0x40000000ull

/* The region of a buffer that the process can see at @p, and one access to it after the other */
static int all_accesses(struct other *o, struct ibv_mr *mr, uint64_t iova, char *p, uint32_t len)
{
	for (enum access_kind access = 0; access < ACCESSES; access++) {
		uint32_t n = access == ATOMIC_AT || access == ATOMIC_TO ? 8 : len;
		int err;

		if (access_reads(access))
			fill(p, n, access + 1);
		err = access_check(o, access, mr->lkey, iova, p, n, access + 1);
		if (err) {
			printf("# access %d: %d\n", access, err);
			return err;
		}
	}
	return 0;
}

/* --- what the kernel exports --- */

FIXTURE(stock) {
	struct pair p;
	struct other o;
	int fd;
	char *map;
};

FIXTURE_VARIANT(stock) {
	bool udmabuf;
};

FIXTURE_VARIANT_ADD(stock, udmabuf) { .udmabuf = true };
FIXTURE_VARIANT_ADD(stock, system_heap) { .udmabuf = false };

static int stock_export(bool udmabuf, size_t size)
{
	struct dma_heap_allocation_data heap = { .len = size, .fd_flags = O_RDWR | O_CLOEXEC };
	struct udmabuf_create create = { .size = size };
	int dev = open(udmabuf ? "/dev/udmabuf" : "/dev/dma_heap/system", O_RDWR), fd;

	if (dev < 0)
		return -errno;
	if (udmabuf) {
		create.memfd = memfd_create("udmabuf", MFD_ALLOW_SEALING);
		if (ftruncate(create.memfd, size) ||
		    fcntl(create.memfd, F_ADD_SEALS, F_SEAL_SHRINK))
			return -errno;
		fd = ioctl(dev, UDMABUF_CREATE, &create);
		close(create.memfd);
	} else {
		fd = ioctl(dev, DMA_HEAP_IOCTL_ALLOC, &heap) ?: (int)heap.fd;
	}
	close(dev);
	return fd;
}

FIXTURE_SETUP(stock)
{
	ASSERT_EQ(0, pair_open(&self->p, NULL));
	ASSERT_EQ(0, other_open(&self->o, &self->p, PLENTY));
	self->fd = stock_export(variant->udmabuf, SIZE);
	if (self->fd == -ENOENT)
		SKIP(return, "the kernel has no such exporter");
	ASSERT_LE(0, self->fd);
	self->map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd, 0);
	ASSERT_NE(MAP_FAILED, self->map);
}

FIXTURE_TEARDOWN(stock)
{
	if (self->map)
		munmap(self->map, SIZE);
	if (self->fd >= 0)
		close(self->fd);
	other_close(&self->o);
	pair_close(&self->p);
}

TEST_F(stock, hm_12_6_every_access)
{
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(self->p.pd, 0, SIZE, IOVA, self->fd, ACCESS_ALL);

	ASSERT_NE(NULL, mr);
	EXPECT_EQ(0, all_accesses(&self->o, mr, IOVA, self->map, PLENTY));
	EXPECT_EQ(0, access_check(&self->o, WRITE_TO, mr->rkey, IOVA + SIZE - PLENTY,
				  self->map + SIZE - PLENTY, PLENTY, 9));
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
		  access_run(&self->o, WRITE_TO, mr->rkey, IOVA + SIZE - 4, 8, NULL, NULL));
	ASSERT_EQ(0, pair_reconnect(&self->p));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
}

/* A part of the buffer, which begins and ends within pages */
TEST_F(stock, hm_4_16_part_of_a_buffer)
{
	const uint64_t offset = 5 * PAGE + 0x123, len = 70 * PAGE + 0x45;
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(self->p.pd, offset, len, IOVA + 0x123, self->fd,
					      ACCESS_ALL);

	ASSERT_NE(NULL, mr);
	memset(self->map, 0x5a, SIZE);
	EXPECT_EQ(0, access_check(&self->o, WRITE_TO, mr->rkey, IOVA + 0x123,
				  self->map + offset, len, 10));
	EXPECT_TRUE(all_bytes(self->map, offset, 0x5a));
	EXPECT_TRUE(all_bytes(self->map + offset + len, SIZE - offset - len, 0x5a));
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, access_run(&self->o, READ_FROM, mr->rkey,
						    IOVA + 0x122, 8, NULL, NULL));
	ASSERT_EQ(0, pair_reconnect(&self->p));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
}

TEST_F(stock, hm_12_3_rights)
{
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(self->p.pd, 0, PAGE, IOVA, self->fd,
					      IBV_ACCESS_REMOTE_READ);

	ASSERT_NE(NULL, mr);
	fill(self->map, PAGE, 11);
	EXPECT_EQ(0, access_check(&self->o, READ_FROM, mr->rkey, IOVA, self->map, PAGE, 11));
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
		  access_run(&self->o, WRITE_TO, mr->rkey, IOVA, 8, NULL, NULL));
	ASSERT_EQ(0, pair_reconnect(&self->p));
	/* not every kernel lets such a region change; what it was it remains */
	ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
		     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_RELAXED_ORDERING);
	EXPECT_EQ(0, access_check(&self->o, READ_FROM, mr->rkey, IOVA, self->map, PAGE, 11));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
}

TEST_F(stock, case_1_case_14_bad_regions)
{
	struct ibv_sge sge = { .addr = IOVA + PAGE, .length = PAGE };
	struct ibv_mr *mr;

	static const struct {
		uint64_t offset, len, iova;
	} bad[] = {
		{ 0, SIZE + PAGE, IOVA }, { SIZE, PAGE, IOVA }, { 0, 0, IOVA },
		{ -PAGE, 2 * PAGE, IOVA }, { 8, PAGE, IOVA }, { 0, 2 * PAGE, -PAGE },
	};

	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		mr = ibv_reg_dmabuf_mr(self->p.pd, bad[i].offset, bad[i].len, bad[i].iova,
				       self->fd, ACCESS_ALL);
		EXPECT_EQ(NULL, mr);
		EXPECT_EQ(EINVAL, errno);
	}
	EXPECT_EQ(NULL, ibv_reg_dmabuf_mr(self->p.pd, 0, PAGE, IOVA, 0, ACCESS_ALL));
	EXPECT_EQ(NULL, ibv_reg_dmabuf_mr(self->p.pd, 0, PAGE, IOVA, -1, ACCESS_ALL));
	EXPECT_EQ(NULL, ibv_reg_dmabuf_mr(self->p.pd, 0, PAGE, IOVA, self->fd,
					  IBV_ACCESS_REMOTE_WRITE));
	/* advice is for its bytes only */
	mr = ibv_reg_dmabuf_mr(self->p.pd, 0, PAGE, IOVA, self->fd, ACCESS_ALL);
	ASSERT_NE(NULL, mr);
	sge.lkey = mr->lkey;
	EXPECT_EQ(EFAULT, ibv_advise_mr(self->p.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
					IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1));
	sge.addr = IOVA;
	EXPECT_EQ(0, ibv_advise_mr(self->p.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				   IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
}

/* Data direct needs a second PCI function, and there is none: as mlx5 says it then */
TEST_F(stock, hm_12_3_data_direct)
{
	struct ibv_mr *mr;

	if (!self->p.r.softhca)
		SKIP(return, "not softhca");
	EXPECT_EQ(NULL, mlx5dv_reg_dmabuf_mr(self->p.pd, 0, PAGE, IOVA, self->fd, ACCESS_ALL,
					     MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT));
	EXPECT_EQ(EINVAL, errno);
	mr = mlx5dv_reg_dmabuf_mr(self->p.pd, 0, PAGE, IOVA, self->fd, ACCESS_ALL, 0);
	ASSERT_NE(NULL, mr);
	EXPECT_EQ(0, access_check(&self->o, WRITE_TO, mr->rkey, IOVA, self->map, PAGE, 12));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
}

/* The buffer outlives its descriptor and its mapping as long as there is a region */
TEST_F(stock, hm_12_6_closed_buffer)
{
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(self->p.pd, 0, SIZE, IOVA, self->fd, ACCESS_ALL);

	ASSERT_NE(NULL, mr);
	EXPECT_EQ(0, access_check(&self->o, WRITE_TO, mr->rkey, IOVA, self->map, PLENTY, 13));
	munmap(self->map, SIZE);
	self->map = NULL;
	close(self->fd);
	self->fd = -1;
	EXPECT_EQ(0, access_run(&self->o, READ_FROM, mr->rkey, IOVA, PLENTY, NULL, NULL));
	EXPECT_EQ(-1, differs(self->o.buf, PLENTY, 13));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
}

/* --- a buffer that moves --- */

FIXTURE(moving) {
	struct pair p;
	struct other o;
	int dev, fd;
	struct ibv_mr *mr;
	char *shadow;			/* what the buffer should hold */
};

FIXTURE_SETUP(moving)
{
	int err;

	self->dev = -1;
	self->fd = -1;
	ASSERT_EQ(0, pair_open(&self->p, &(struct qp_cfg){ .timeout = 8, .retry_cnt = 1 }));
	ASSERT_EQ(0, other_open(&self->o, &self->p, PLENTY));
	err = module_load("dmabuf", "");
	ASSERT_TRUE(!err || err == -EEXIST);
	self->dev = open("/dev/softhca_dmabuf", O_RDWR);
	ASSERT_LE(0, self->dev);
	self->shadow = mem_pages(SIZE);
	ASSERT_NE(NULL, self->shadow);
}

FIXTURE_TEARDOWN(moving)
{
	struct export_state state = { .fd = self->fd };

	if (self->mr)
		EXPECT_EQ(0, ibv_dereg_mr(self->mr));
	if (self->fd >= 0) {
		/* nothing is left of the region */
		EXPECT_EQ(0, ioctl(self->dev, EXPORT_STATE, &state));
		EXPECT_EQ(0, state.mappings);
		EXPECT_EQ(0, state.pins);
		close(self->fd);
	}
	if (self->dev >= 0)
		close(self->dev);
	munmap(self->shadow, SIZE);
	other_close(&self->o);
	pair_close(&self->p);
	module_unload("dmabuf");
}

#define SELF	FIXTURE_DATA(moving) *self

static bool export_and_reg(SELF, unsigned int flags)
{
	struct export_new new = { .size = SIZE, .flags = flags };

	self->fd = ioctl(self->dev, EXPORT_NEW, &new);
	if (self->fd < 0)
		return false;
	self->mr = ibv_reg_dmabuf_mr(self->p.pd, 0, SIZE, IOVA, self->fd, ACCESS_ALL);
	return self->mr;
}

static int move(SELF, unsigned int flags)
{
	return ioctl(self->dev, EXPORT_MOVE, &(struct export_move){ self->fd, flags });
}

static bool holds(SELF, uint64_t offset, uint64_t len, uint64_t seed)
{
	struct export_copy copy = { .fd = self->fd, .offset = offset, .len = len,
				    .data = AT(self->shadow) };

	return !ioctl(self->dev, EXPORT_GET, &copy) && differs(self->shadow, len, seed) < 0;
}

static struct export_state state_of(SELF)
{
	struct export_state state = { .fd = self->fd };

	ioctl(self->dev, EXPORT_STATE, &state);
	return state;
}

/* A writes to the buffer, and there it is */
static bool writes(SELF, uint64_t offset, uint32_t len, uint64_t seed)
{
	fill(self->o.buf, len, seed);
	return !access_run(&self->o, WRITE_TO, self->mr->rkey, IOVA + offset, len, NULL, NULL) &&
	       holds(self, offset, len, seed);
}

static bool reads(SELF, uint64_t offset, uint32_t len, uint64_t seed)
{
	memset(self->o.buf, 0, len);
	return !access_run(&self->o, READ_FROM, self->mr->rkey, IOVA + offset, len, NULL, NULL) &&
	       differs(self->o.buf, len, seed) < 0;
}

TEST_F(moving, hm_12_6_the_next_access_finds_it)
{
	long long faults;
	unsigned int mapped;

	ASSERT_TRUE(export_and_reg(self, 0));
	for (unsigned int i = 0; i < 10; i++) {
		EXPECT_TRUE(writes(self, i * PAGE + 8, PLENTY, i));
		faults = hw_counter("page_fault");
		mapped = state_of(self).mapped;
		ASSERT_EQ(0, move(self, 0));
		/* unmapped by the time that the exporter goes on */
		EXPECT_EQ(0, state_of(self).mappings);
		EXPECT_TRUE(reads(self, i * PAGE + 8, PLENTY, i));
		EXPECT_EQ(1, state_of(self).mappings);
		EXPECT_EQ(mapped + 1, state_of(self).mapped);
		if (self->p.r.softhca)
			EXPECT_LT(faults, hw_counter("page_fault"));
		EXPECT_TRUE(writes(self, i * PAGE + 8, PLENTY, i + 100));
		EXPECT_EQ(0, state_of(self).stale);
	}
	/* advice brings it back too */
	ASSERT_EQ(0, move(self, 0));
	faults = hw_counter("page_fault");
	EXPECT_EQ(0, ibv_advise_mr(self->p.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				   IBV_ADVISE_MR_FLAG_FLUSH,
				   &(struct ibv_sge){ IOVA, PAGE, self->mr->lkey }, 1));
	EXPECT_TRUE(writes(self, 0, PLENTY, 99));
	if (self->p.r.softhca)
		EXPECT_EQ(faults, hw_counter("page_fault"));
}

/* Pages of 4 KiB here, of 2 MiB there: HM 12.3. Each byte is told from its neighbours. */
TEST_F(moving, hm_12_7_page_size_changes)
{
	static const unsigned int to[] = {
		EXPORT_CONTIG, 0, 0, EXPORT_CONTIG, EXPORT_CONTIG, 0, EXPORT_CONTIG,
	};
	struct look look;

	ASSERT_TRUE(export_and_reg(self, 0));
	for (uint64_t at = 0; at < SIZE; at += PLENTY)
		EXPECT_TRUE(writes(self, at, PLENTY, 1000 + at / PLENTY));
	for (unsigned int i = 0; i < sizeof(to) / sizeof(to[0]); i++) {
		ASSERT_EQ(0, move(self, to[i]));
		if (!look_mr(self->mr, &look)) {
			/* nothing is there until somebody asks */
			for (unsigned int e = 0; e < look.entries; e++)
				ASSERT_EQ(0, look.mtt[e]);
		}
		for (uint64_t at = 0; at < SIZE; at += PLENTY)
			EXPECT_TRUE(reads(self, at, PLENTY, (i ? i * 10 : 1000) + at / PLENTY));
		if (!look_mr(self->mr, &look)) {
			/* larger by chance, if pieces happen to be neighbours */
			EXPECT_EQ(!to[i], look.log_page_size == 12);
			EXPECT_LE(to[i] ? 21 : 12, look.log_page_size);
			/* and beyond the pages of this size nothing is left of the other */
			if (to[i])
				for (unsigned int e = SIZE / HUGE; e < look.entries; e++)
					ASSERT_EQ(0, look.mtt[e]);
		}
		for (uint64_t at = 0; at < SIZE; at += PLENTY)
			EXPECT_TRUE(writes(self, at, PLENTY, (i + 1) * 10 + at / PLENTY));
		EXPECT_EQ(0, state_of(self).stale);
	}
}

TEST_F(moving, hm_12_3_taken_away_for_good)
{
	struct ibv_wc wc;

	ASSERT_TRUE(export_and_reg(self, 0));
	EXPECT_TRUE(writes(self, 0, PLENTY, 1));
	ASSERT_EQ(0, ioctl(self->dev, EXPORT_REVOKE, &self->fd));
	EXPECT_EQ(0, state_of(self).mappings);
	for (enum access_kind access = 0; access < ACCESSES; access++) {
		int status = access_run(&self->o, access, self->mr->lkey, IOVA, 8, &wc, NULL);

		EXPECT_EQ(access == RECV_TO ? IBV_WC_REM_OP_ERR :
			  access_is_remote(access) ? IBV_WC_REM_ACCESS_ERR :
			  IBV_WC_LOC_PROT_ERR, status);
		drop_wcs(self->p.acq);
		drop_wcs(self->p.bcq);
		ASSERT_EQ(0, pair_reconnect(&self->p));
	}
	EXPECT_NE(0, ibv_advise_mr(self->p.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				   IBV_ADVISE_MR_FLAG_FLUSH,
				   &(struct ibv_sge){ IOVA, PAGE, self->mr->lkey }, 1));
	/* the key stays the region's until it is deregistered */
	struct ibv_mr *other = ibv_reg_mr(self->p.pd, self->shadow, SIZE, ACCESS_ALL);

	ASSERT_NE(NULL, other);
	EXPECT_NE(self->mr->lkey >> 8, other->lkey >> 8);
	EXPECT_EQ(0, ibv_dereg_mr(self->mr));
	self->mr = NULL;
	EXPECT_EQ(0, ibv_dereg_mr(other));
	/* and nobody gets another */
	EXPECT_EQ(NULL, ibv_reg_dmabuf_mr(self->p.pd, 0, SIZE, IOVA, self->fd, ACCESS_ALL));
	EXPECT_EQ(ENODEV, errno);
}

/* An exporter that lets nobody map what is not pinned */
TEST_F(moving, hm_12_3_pinned)
{
	ASSERT_TRUE(export_and_reg(self, EXPORT_PIN_ONLY));
	EXPECT_EQ(1, state_of(self).pins);
	EXPECT_TRUE(writes(self, 0, PLENTY, 1));
	ASSERT_EQ(0, ioctl(self->dev, EXPORT_REVOKE, &self->fd));
	EXPECT_EQ(0, state_of(self).pins);
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
		  access_run(&self->o, WRITE_TO, self->mr->rkey, IOVA, 8, NULL, NULL));
	ASSERT_EQ(0, pair_reconnect(&self->p));
}

/* Several regions of one buffer, each with its own part of it */
TEST_F(moving, hm_12_6_several_regions)
{
	struct ibv_mr *mr[4];

	ASSERT_TRUE(export_and_reg(self, EXPORT_CONTIG));
	for (int i = 0; i < 4; i++) {
		mr[i] = ibv_reg_dmabuf_mr(self->p.pd, i * HUGE + i * PAGE, HUGE / 2,
					  IOVA + i * PAGE, self->fd, ACCESS_ALL);
		ASSERT_NE(NULL, mr[i]);
	}
	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < 4; i++) {
			fill(self->o.buf, 9 * PAGE, round * 4 + i);
			EXPECT_EQ(0, access_run(&self->o, WRITE_TO, mr[i]->rkey,
						IOVA + i * PAGE, 9 * PAGE, NULL, NULL));
			EXPECT_TRUE(holds(self, i * HUGE + i * PAGE, 9 * PAGE, round * 4 + i));
			EXPECT_TRUE(reads(self, i * HUGE + i * PAGE, 9 * PAGE, round * 4 + i));
		}
		ASSERT_EQ(0, move(self, round & 1 ? EXPORT_CONTIG : 0));
		EXPECT_EQ(0, state_of(self).mappings);
	}
	EXPECT_EQ(0, state_of(self).stale);
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(0, ibv_dereg_mr(mr[i]));
}

/* HM 12.1: a table that is out of the reach of UMR */
TEST_F(moving, hm_12_2_out_of_the_reach_of_umr)
{
	int fd;

	if (softhca_parameter("umr_entity_size", "N"))
		SKIP(return, "not softhca");
	EXPECT_FALSE(export_and_reg(self, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(0, softhca_parameter("umr_entity_size", "Y"));
	/* by size: 256 MiB, of the heap */
	fd = stock_export(false, 256 << 20);
	if (fd < 0)
		SKIP(return, "no exporter of so much memory");
	ASSERT_EQ(0, softhca_parameter("umr_ext_offset", "N"));
	EXPECT_EQ(NULL, ibv_reg_dmabuf_mr(self->p.pd, 0, 256 << 20, IOVA, fd, ACCESS_ALL));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(0, softhca_parameter("umr_ext_offset", "Y"));
	close(fd);
}

struct mover {
	FIXTURE_DATA(moving) *self;
	volatile bool stop;
	unsigned long moves;
	int err;
};

static void *keep_moving(void *arg)
{
	struct mover *m = arg;

	for (; !m->stop && !m->err; m->moves++)
		m->err = move(m->self, m->moves & 1 ? EXPORT_CONTIG : 0);
	return NULL;
}

/* It moves all the time while it is written, read and checked */
TEST_F_TIMEOUT(moving, hm_12_6_under_traffic, 60)
{
	struct mover m = { .self = self };
	pthread_t thread;

	ASSERT_TRUE(export_and_reg(self, 0));
	ASSERT_EQ(0, pthread_create(&thread, NULL, keep_moving, &m));
	for (unsigned int i = 0; i < 200; i++) {
		uint64_t at = i * 37 * PAGE % (SIZE - PLENTY) + 16;

		ASSERT_TRUE(writes(self, at, PLENTY / 4, i));
		ASSERT_TRUE(reads(self, at, PLENTY / 4, i));
		if (i % 20 == 0)
			EXPECT_EQ(0, state_of(self).stale);
	}
	m.stop = true;
	pthread_join(thread, NULL);
	EXPECT_EQ(0, m.err);
	EXPECT_LT(10, m.moves);
	EXPECT_EQ(0, state_of(self).stale);
}

/* Deregistered while it moves: no UMR on a key that is gone, and nothing is lost */
TEST_F_TIMEOUT(moving, case_11_hm_12_6_deregistered_while_it_moves, 60)
{
	struct mover m = { .self = self };
	pthread_t thread;

	ASSERT_TRUE(export_and_reg(self, 0));
	ASSERT_EQ(0, pthread_create(&thread, NULL, keep_moving, &m));
	for (unsigned int i = 0; i < 300; i++) {
		struct ibv_mr *mr = ibv_reg_dmabuf_mr(self->p.pd, 0, SIZE, IOVA, self->fd,
						      ACCESS_ALL);

		ASSERT_NE(NULL, mr);
		if (i % 4 == 0)
			EXPECT_EQ(0, access_run(&self->o, READ_FROM, mr->rkey, IOVA, PLENTY,
						NULL, NULL));
		ASSERT_EQ(0, ibv_dereg_mr(mr));
	}
	m.stop = true;
	pthread_join(thread, NULL);
	EXPECT_EQ(0, m.err);
	EXPECT_TRUE(writes(self, 0, PLENTY, 7));
}

TEST_HARNESS_MAIN
