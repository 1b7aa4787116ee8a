// SPDX-License-Identifier: GPL-2.0
/*
 * Proves that memory stays pinned while the HCA may still access it, whatever fails: a
 * region whose key can be neither revoked nor destroyed stays as it was; that a UMR that
 * fails costs nobody but its owner anything; and that the driver refuses what the kernel
 * could ask of it.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "lib/harness.h"
#include "lib/rdma.h"
#include "lib/mem.h"
#include "lib/nth.h"
#include "lib/sys.h"

#define LEN		(4 * PAGE)
#define REVOKE		"shca_umr_revoke_mr"
#define DESTROY		"shca_cmd_destroy_mkey"

FIXTURE(fault) {
	struct pair p;
	char *here, *there;
	struct ibv_mr *here_mr, *there_mr;
};

FIXTURE_SETUP(fault)
{
	ASSERT_EQ(0, pair_open(&self->p, NULL));
	if (!self->p.r.softhca)
		SKIP(return, "not softhca");
	self->here = mem_pages(LEN);
	/* its key has room for any four pages */
	self->there = mem_scattered(LEN);
	ASSERT_NE(NULL, self->here);
	ASSERT_NE(NULL, self->there);
	fill(self->there, LEN, 1);
	self->here_mr = ibv_reg_mr(self->p.pd, self->here, LEN, ACCESS_ALL);
	self->there_mr = ibv_reg_mr(self->p.pd, self->there, LEN, ACCESS_ALL);
	ASSERT_NE(NULL, self->here_mr);
	ASSERT_NE(NULL, self->there_mr);
}

FIXTURE_TEARDOWN(fault)
{
	module_unload("fault");	/* whatever happened: nobody else is to see it */
	if (self->here_mr)
		EXPECT_EQ(0, ibv_dereg_mr(self->here_mr));
	if (self->there_mr)
		EXPECT_EQ(0, ibv_dereg_mr(self->there_mr));
	pair_close(&self->p);
}

static struct op read_of(FIXTURE_DATA(fault) *self)
{
	return (struct op){
		.opcode = IBV_WR_RDMA_READ, .len = LEN,
		.laddr = (uintptr_t)self->here, .lkey = self->here_mr->lkey,
		.raddr = (uintptr_t)self->there, .rkey = self->there_mr->rkey,
	};
}

TEST_F(fault, hm_11_6_neither_revoked_nor_destroyed)
{
	struct op read = read_of(self);
	long pinned = pinned_kib();

	ASSERT_EQ(0, module_load("fault", "refuse=" REVOKE "," DESTROY));
	EXPECT_EQ(EIO, ibv_dereg_mr(self->there_mr));
	EXPECT_EQ(pinned, pinned_kib());
	/* the program gives its memory up; the key still leads to the old pages */
	ASSERT_EQ(0, munmap(self->there, LEN));
	EXPECT_EQ(0, run(self->p.a, self->p.acq, &read, NULL));
	EXPECT_EQ(-1, differs(self->here, LEN, 1));
	EXPECT_EQ(EIO, ibv_dereg_mr(self->there_mr));

	/* once the HCA obeys again, so does the deregistration */
	ASSERT_EQ(0, module_unload("fault"));
	EXPECT_EQ(0, ibv_dereg_mr(self->there_mr));
	self->there_mr = NULL;
	EXPECT_EQ(pinned - (long)LEN / 1024, pinned_kib());
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
		  run(self->p.a, self->p.acq, &read, NULL));
}

/* A key that cannot be revoked is destroyed: it does not come back to its pool */
TEST_F(fault, hm_11_6_destroyed_instead)
{
	struct op read = read_of(self);
	long pinned = pinned_kib();
	struct ibv_mr *next;

	ASSERT_EQ(0, module_load("fault", "refuse=" REVOKE));
	EXPECT_EQ(0, ibv_dereg_mr(self->there_mr));
	self->there_mr = NULL;
	EXPECT_EQ(pinned - (long)LEN / 1024, pinned_kib());
	ASSERT_EQ(0, module_unload("fault"));
	next = ibv_reg_mr(self->p.pd, self->there, LEN, ACCESS_ALL);
	ASSERT_NE(NULL, next);
	EXPECT_NE(read.rkey >> 8, next->rkey >> 8);
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
		  run(self->p.a, self->p.acq, &read, NULL));
	EXPECT_EQ(0, ibv_dereg_mr(next));
}

/* On a device that may be taken away */
FIXTURE(removed) {
	FIXTURE_DATA(fault) fault;
	long unpinned;
};

FIXTURE_SETUP(removed)
{
	if (getenv("IBV_TEST_DEV"))
		SKIP(return, "the device is not ours to take away");
	ASSERT_EQ(0, own_device_add());
	self->unpinned = pinned_kib();
	fault_setup(_metadata, &self->fault, NULL);
}

FIXTURE_TEARDOWN(removed)
{
	fault_teardown(_metadata, &self->fault, NULL);
	own_device_del();
}

static int refusals(void)
{
	FILE *file = fopen("/sys/module/softhca_fault/parameters/refusals", "r");
	int n = -1;

	if (!file)
		return -errno;
	if (fscanf(file, "%d", &n) != 1)
		n = -EINVAL;
	fclose(file);
	return n;
}

/*
 * A key that the HCA would not let go of when the program asked, nor when the device
 * begins to go. The removal comes back to it, and then its pages are released. (Of an HCA
 * that never lets go the core warns, and the pages are lost: it is not reset by force.)
 */
TEST_F(removed, hm_11_6_released_with_the_device)
{
	FIXTURE_DATA(fault) *f = &self->fault;
	struct op read = read_of(f);
	long pinned = pinned_kib();

	EXPECT_LE(self->unpinned + 2 * (long)LEN / 1024, pinned);
	ASSERT_EQ(0, module_load("fault", "refuse=" REVOKE "," DESTROY " times=2"));
	EXPECT_EQ(EIO, ibv_dereg_mr(f->there_mr));
	EXPECT_EQ(2, refusals());
	EXPECT_EQ(pinned, pinned_kib());
	EXPECT_EQ(0, run(f->p.a, f->p.acq, &read, NULL));
	EXPECT_EQ(-1, differs(f->here, LEN, 1));
	own_device_del();
	EXPECT_EQ(4, refusals());
	EXPECT_EQ(self->unpinned, pinned_kib());
	f->here_mr = NULL;
	f->there_mr = NULL;
}

/* rereg fails before it has begun: case 15 from inside */
TEST_F(fault, case_15_rereg_that_cannot_revoke)
{
	struct op read = read_of(self);
	long pinned = pinned_kib();

	ASSERT_EQ(0, module_load("fault", "refuse=" REVOKE));
	EXPECT_NE(0, ibv_rereg_mr(self->there_mr,
				  IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
				  self->here, LEN, 0));
	EXPECT_EQ(EIO, errno);
	ASSERT_EQ(0, module_unload("fault"));
	EXPECT_EQ(pinned, pinned_kib());
	EXPECT_EQ(0, run(self->p.a, self->p.acq, &read, NULL));
	EXPECT_EQ(-1, differs(self->here, LEN, 1));
}

TEST_F(fault, hm_8_19_umr_queue_recovers)
{
	struct op read = read_of(self);
	long pinned = pinned_kib();
	char *buf = mem_pages(LEN);
	struct ibv_mr *mr;

	ASSERT_NE(NULL, buf);
	for (int i = 0; i < 5; i++) {
		ASSERT_EQ(0, module_load("fault", "spoil=1"));
		/* the UMR that enables it fails */
		EXPECT_EQ(NULL, ibv_reg_mr(self->p.pd, buf, LEN, ACCESS_ALL));
		EXPECT_EQ(EIO, errno);
		ASSERT_EQ(0, module_unload("fault"));
		EXPECT_EQ(pinned, pinned_kib());
		/* the next finds the queue as if nothing had been */
		mr = ibv_reg_mr(self->p.pd, buf, LEN, ACCESS_ALL);
		ASSERT_NE(NULL, mr);
		read.raddr = (uintptr_t)buf;
		read.rkey = mr->rkey;
		fill(buf, LEN, 10 + i);
		EXPECT_EQ(0, run(self->p.a, self->p.acq, &read, NULL));
		EXPECT_EQ(-1, differs(self->here, LEN, 10 + i));
		/* and the one that revokes: its key is destroyed instead */
		ASSERT_EQ(0, module_load("fault", "spoil=1"));
		EXPECT_EQ(0, ibv_dereg_mr(mr));
		ASSERT_EQ(0, module_unload("fault"));
		EXPECT_EQ(pinned, pinned_kib());
	}
	munmap(buf, LEN);
}

struct registrar {
	struct ibv_pd *pd;
	int good, failed, wrong;
};

static void *registrar(void *arg)
{
	struct registrar *r = arg;
	char *buf = mem_pages(LEN);
	struct ibv_mr *mr;

	for (int i = 0; buf && i < 300; i++) {
		mr = ibv_reg_mr(r->pd, buf, LEN, ACCESS_ALL);
		if (!mr) {
			r->wrong += errno != EIO;
			r->failed++;
			continue;
		}
		r->good++;
		r->wrong += ibv_dereg_mr(mr) != 0;
	}
	munmap(buf, LEN);
	return NULL;
}

/* Who waits while another's UMR fails is served afterwards */
TEST_F_TIMEOUT(fault, hm_8_19_others_that_wait, 100)
{
	enum { THREADS = 4, SPOILT = 40 };
	struct registrar r[THREADS] = {};
	struct op read = read_of(self);
	pthread_t thread[THREADS];
	int good = 0, failed = 0;

	ASSERT_EQ(0, module_load("fault", "spoil=40"));
	for (int i = 0; i < THREADS; i++) {
		r[i].pd = self->p.pd;
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, registrar, &r[i]));
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		EXPECT_EQ(0, r[i].wrong);
		good += r[i].good;
		failed += r[i].failed;
	}
	ASSERT_EQ(0, module_unload("fault"));
	EXPECT_LT(0, failed);
	EXPECT_GE(SPOILT, failed);
	EXPECT_EQ(THREADS * 300, good + failed);
	EXPECT_EQ(0, run(self->p.a, self->p.acq, &read, NULL));
	EXPECT_EQ(-1, differs(self->here, LEN, 1));
}

/* PCIe hints are not offered: not for pages on demand, explicit or implicit, nor for others */
TEST_F(fault, hm_12_8_no_dma_handle)
{
	static const unsigned int access[] = { ACCESS_ALL, ACCESS_ALL | IBV_ACCESS_ON_DEMAND };
	long pinned = pinned_kib();
	struct ibv_mr *mr;
	int err = module_load("fault", "dma_handle=1");

	if (err == -EOPNOTSUPP)
		SKIP(return, "this kernel has no DMA handles");
	ASSERT_EQ(0, err);
	for (unsigned int i = 0; i < ARRAY_SIZE(access); i++) {
		EXPECT_EQ(NULL, ibv_reg_mr(self->p.pd, self->here, LEN, access[i]));
		EXPECT_EQ(EOPNOTSUPP, errno);
	}
	EXPECT_EQ(NULL, ibv_reg_mr(self->p.pd, NULL, SIZE_MAX, access[1]));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(pinned, pinned_kib());
	/* it was for nothing else */
	ASSERT_EQ(0, module_unload("fault"));
	for (unsigned int i = 0; i < ARRAY_SIZE(access); i++) {
		mr = ibv_reg_mr(self->p.pd, self->here, LEN, access[i]);
		ASSERT_NE(NULL, mr);
		EXPECT_EQ(0, ibv_dereg_mr(mr));
	}
}

TEST_HARNESS_MAIN
