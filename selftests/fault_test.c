// SPDX-License-Identifier: GPL-2.0
/*
 * Proves that memory stays pinned while the HCA may still access it: a DESTROY_MKEY
 * that fails leaves the region as it was.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>
#include "kselftest_harness.h"
#include "lib/rdma.h"
#include "lib/mem.h"

#define LEN	(4 * PAGE)

static int refuse_destroy(void)
{
	struct utsname name;
	char path[256];
	int fd, err;

	uname(&name);
	snprintf(path, sizeof(path), "fault/%s/softhca_fault.ko", name.release);
	fd = open(path, O_RDONLY);
	err = syscall(SYS_finit_module, fd, "", 0) ? errno : 0;
	close(fd);
	return err;
}

static int allow_destroy(void)
{
	return syscall(SYS_delete_module, "softhca_fault", 0) ? errno : 0;
}

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
	self->there = mem_pages(LEN);
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
	allow_destroy();	/* whatever happened: nobody else is to see it */
	if (self->here_mr)
		EXPECT_EQ(0, ibv_dereg_mr(self->here_mr));
	if (self->there_mr)
		EXPECT_EQ(0, ibv_dereg_mr(self->there_mr));
	pair_close(&self->p);
}

TEST_F(fault, hm_11_6_refused_destroy)
{
	long pinned = pinned_kib();
	struct op read = {
		.opcode = IBV_WR_RDMA_READ, .len = LEN,
		.laddr = (uintptr_t)self->here, .lkey = self->here_mr->lkey,
		.raddr = (uintptr_t)self->there, .rkey = self->there_mr->rkey,
	};

	ASSERT_EQ(0, refuse_destroy());
	EXPECT_EQ(EIO, ibv_dereg_mr(self->there_mr));
	EXPECT_EQ(pinned, pinned_kib());
	/* the program gives its memory up; the key still leads to the old pages */
	ASSERT_EQ(0, munmap(self->there, LEN));
	EXPECT_EQ(0, run(self->p.a, self->p.acq, &read, NULL));
	EXPECT_EQ(-1, differs(self->here, LEN, 1));
	EXPECT_EQ(EIO, ibv_dereg_mr(self->there_mr));

	/* once the command works again, so does the deregistration */
	ASSERT_EQ(0, allow_destroy());
	EXPECT_EQ(0, ibv_dereg_mr(self->there_mr));
	self->there_mr = NULL;
	EXPECT_EQ(pinned - (long)LEN / 1024, pinned_kib());
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
		  run(self->p.a, self->p.acq, &read, NULL));
}

TEST_HARNESS_MAIN
