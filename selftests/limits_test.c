// SPDX-License-Identifier: GPL-2.0
/*
 * Proves the limits of Documentation/limits.rst: what a program can make the kernel keep
 * for it ends at RLIMIT_MEMLOCK, at its cgroups or at a capability of the device, with
 * the right errno; a neighbour does not notice; all comes back.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "lib/harness.h"
#include "lib/rdma.h"
#include "lib/mem.h"
#include "lib/prm.h"
#include "lib/sys.h"

#define MIB		(1l << 20)
#define CGROUPS		"/tmp/limits-cgroup"
#define GROUP		CGROUPS "/limits"

/* Of an indirect key: with its context exactly 1 MiB; its sums take half as much */
#define LONG_LIST	65532
#define MAX_KEYS	64

/* No right to pin more than the limit, which is @bytes */
static int limit_memlock(long bytes)
{
	struct rlimit limit = { bytes, bytes };
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2];

	if (setrlimit(RLIMIT_MEMLOCK, &limit) ||
	    syscall(SYS_capget, &header, data))
		return -errno;
	data[0].effective &= ~(1u << CAP_IPC_LOCK);
	data[0].permitted &= ~(1u << CAP_IPC_LOCK);
	return syscall(SYS_capset, &header, data) ? -errno : 0;
}

/* The result of @fn in a process of its own, or negative */
static int in_child(int (*fn)(void *arg), void *arg)
{
	int status, pid;

	fflush(NULL);
	pid = fork();
	if (!pid)
		_exit(fn(arg));
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

/* An open device with a protection domain: NULL if that does not work */
static struct ibv_pd *open_pd(struct rdma *r)
{
	return rdma_open(r) ? NULL : ibv_alloc_pd(r->ctx);
}

/* Does everything still work for who keeps to the limits? */
static bool neighbour_works(struct pair *p)
{
	char *buf = mem_pages(2 * PAGE);
	struct ibv_mr *mr;
	struct ibv_wc wc;
	int status = -1;

	if (!buf)
		return false;
	mr = ibv_reg_mr(p->pd, buf, 2 * PAGE, ACCESS_ALL);
	if (mr) {
		struct op op = {
			.opcode = IBV_WR_RDMA_WRITE, .len = PAGE,
			.laddr = (uintptr_t)buf, .lkey = mr->lkey,
			.raddr = (uintptr_t)buf + PAGE, .rkey = mr->rkey,
		};

		fill(buf, PAGE, 9);
		status = run(p->a, p->acq, &op, &wc);
		if (differs(buf + PAGE, PAGE, 9) >= 0)
			status = -1;
		ibv_dereg_mr(mr);
	}
	munmap(buf, 2 * PAGE);
	return !status;
}

FIXTURE(limits) {
	struct pair p;
};

FIXTURE_SETUP(limits)
{
	ASSERT_EQ(0, pair_open(&self->p, NULL));
	if (!self->p.r.softhca)
		SKIP(return, "not softhca");
}

FIXTURE_TEARDOWN(limits)
{
	EXPECT_TRUE(neighbour_works(&self->p));
	pair_close(&self->p);
}

/* Exit status of a child: how many it got, or what went wrong */
#define TROUBLE		200

static struct mlx5dv_mkey *long_key(struct ibv_pd *pd)
{
	struct mlx5dv_mkey_init_attr attr = {
		.pd = pd, .max_entries = LONG_LIST,
		.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT,
	};

	return mlx5dv_create_mkey(&attr);
}

/* As many as it gets; then the same again, because all came back */
static int keys_until_enomem(void *arg)
{
	struct mlx5dv_mkey *key[MAX_KEYS];
	int n[2] = {}, before;
	struct ibv_pd *pd;
	struct rdma r;

	pd = open_pd(&r);
	if (!pd || limit_memlock(*(long *)arg))
		return TROUBLE;
	before = pinned_kib();
	for (int round = 0; round < 2; round++) {
		while (n[round] < MAX_KEYS) {
			errno = 0;
			key[n[round]] = long_key(pd);
			if (!key[n[round]])
				break;
			n[round]++;
		}
		if (errno != ENOMEM)
			return TROUBLE + 1;
		if (pinned_kib() < before + n[round] * 1024)
			return TROUBLE + 2;
		for (int i = 0; i < n[round]; i++)
			if (mlx5dv_destroy_mkey(key[i]))
				return TROUBLE + 3;
		if (pinned_kib() != before)
			return TROUBLE + 4;
	}
	return n[0] == n[1] ? n[0] : TROUBLE + 5;
}

TEST_F(limits, tables_of_keys_count_as_pinned)
{
	long limit = 8 * MIB;

	EXPECT_EQ(8, in_child(keys_until_enomem, &limit));
	limit = 4 * MIB - 1;
	EXPECT_EQ(3, in_child(keys_until_enomem, &limit));
}

static int small_keys(void *arg)
{
	struct mlx5dv_mkey_init_attr attr = {
		.max_entries = 4,
		.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT,
	};
	long before;
	struct rdma r;
	int n = 0;

	attr.pd = open_pd(&r);
	if (!attr.pd)
		return TROUBLE;
	before = pinned_kib();
	while (n < 128 && mlx5dv_create_mkey(&attr))
		n++;
	/* 64 bytes of context and 64 of table each: 32 of them are a page */
	return n == 128 && pinned_kib() == before + 16 ? 0 : TROUBLE + 1;
}

TEST_F(limits, small_tables_share_the_pages_they_are_charged_for)
{
	EXPECT_EQ(0, in_child(small_keys, NULL));
}

static int umems_until_enomem(void *arg)
{
	struct mlx5dv_devx_umem *umem[MAX_KEYS];
	char *buf = mem_pages(64 * PAGE);
	struct rdma r;
	int n = 0;

	if (rdma_open(&r) || !buf || limit_memlock(MIB))
		return TROUBLE;
	while (n < MAX_KEYS) {
		errno = 0;
		umem[n] = mlx5dv_devx_umem_reg(r.ctx, buf, 64 * PAGE,
					       IBV_ACCESS_LOCAL_WRITE);
		if (!umem[n])
			break;
		n++;
	}
	if (errno != ENOMEM)
		return TROUBLE + 1;
	if (mlx5dv_devx_umem_dereg(umem[0]))
		return TROUBLE + 2;
	umem[0] = mlx5dv_devx_umem_reg(r.ctx, buf, 64 * PAGE,
				       IBV_ACCESS_LOCAL_WRITE);
	return umem[0] ? n : TROUBLE + 3;
}

TEST_F(limits, umems_are_pinned)
{
	EXPECT_EQ(4, in_child(umems_until_enomem, NULL));
}

/* A list of 2^30 entries is 16 GiB, which the machine does not have */
TEST_F(limits, a_table_larger_than_the_machine)
{
	uint32_t in[DEVX_ST_SZ_DW(create_mkey_in)] = {}, out[4] = {};
	void *mkc = DEVX_ADDR_OF(create_mkey_in, in, memory_key_mkey_entry);
	struct mlx5dv_pd pd;
	struct mlx5dv_obj obj = { .pd = { self->p.pd, &pd } };
	long before = pinned_kib();

	ASSERT_EQ(0, mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD));
	DEVX_SET(create_mkey_in, in, opcode, MLX5_CMD_OP_CREATE_MKEY);
	DEVX_SET(mkc, mkc, access_mode_1_0, 3);
	DEVX_SET(mkc, mkc, lr, 1);
	DEVX_SET(mkc, mkc, qpn, 0xffffff);
	DEVX_SET(mkc, mkc, pd, pd.pdn);
	DEVX_SET(mkc, mkc, log_page_size, 12);
	DEVX_SET(mkc, mkc, translations_octword_size, 1 << 30);
	EXPECT_EQ(NULL, mlx5dv_devx_obj_create(self->p.r.ctx, in, sizeof(in),
					       out, sizeof(out)));
	EXPECT_EQ(EREMOTEIO, errno);
	/* no resources, check 21 */
	EXPECT_EQ(MLX5_CMD_OP_CREATE_MKEY << 8 | 21,
		  DEVX_GET(create_mkey_out, out, syndrome));
	EXPECT_EQ(before, pinned_kib());
}

/* Control groups */

static int read_file(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	text[n < 0 ? 0 : n] = 0;
	return n < 0 ? -errno : 0;
}

static int limit_rdma(const char *what)
{
	char text[128];

	snprintf(text, sizeof(text), "%s %s", dev_name(), what);
	return write_file(GROUP "/rdma.max", text);
}

FIXTURE(cgroup) {
	struct pair p;
};

FIXTURE_SETUP(cgroup)
{
	ASSERT_EQ(0, pair_open(&self->p, NULL));
	if (!self->p.r.softhca)
		SKIP(return, "not softhca");
	mkdir(CGROUPS, 0755);
	if (mount("none", CGROUPS, "cgroup2", 0, NULL))
		SKIP(return, "no cgroup2");
	ASSERT_EQ(0, write_file(CGROUPS "/cgroup.subtree_control",
				"+rdma +memory"));
	ASSERT_EQ(0, mkdir(GROUP, 0755));
}

FIXTURE_TEARDOWN(cgroup)
{
	EXPECT_TRUE(neighbour_works(&self->p));
	pair_close(&self->p);
	/* Linux 6.12 keeps the limits of a group that is gone, and dies of them with the device */
	EXPECT_EQ(0, limit_rdma("hca_handle=max hca_object=max"));
	EXPECT_EQ(0, rmdir(GROUP));
	EXPECT_EQ(0, umount(CGROUPS));
	rmdir(CGROUPS);
}

static int join(void)
{
	return write_file(GROUP "/cgroup.procs", "0");
}

/* How many contexts */
static int handles(void *arg)
{
	struct rdma r;
	int n = 0;

	if (join())
		return TROUBLE;
	while (n < MAX_KEYS && !rdma_open(&r))
		n++;
	return n;
}

/* How many protection domains, once the errno is right */
static int objects(void *arg)
{
	struct ibv_pd *pd[MAX_KEYS];
	struct rdma r;
	int n = 0;

	if (join() || rdma_open(&r))
		return TROUBLE;
	while (n < MAX_KEYS) {
		errno = 0;
		pd[n] = ibv_alloc_pd(r.ctx);
		if (!pd[n])
			break;
		n++;
	}
	if (errno != EAGAIN)
		return TROUBLE + 1;
	if (ibv_dealloc_pd(pd[0]))
		return TROUBLE + 2;
	return ibv_alloc_pd(r.ctx) ? n : TROUBLE + 3;
}

/* The same, of DEVX objects */
static int commands(void *arg)
{
	struct ibv_pd *pd;
	struct rdma r;
	int n = 0;

	pd = join() ? NULL : open_pd(&r);
	if (!pd)
		return TROUBLE;
	errno = 0;
	while (n < MAX_KEYS && long_key(pd))
		n++;
	return errno == EAGAIN ? n : TROUBLE + 1;
}

/* What the group uses: "device hca_handle=N hca_object=N", gone when both are 0 */
static bool rdma_unused(void)
{
	char text[256], *at;
	unsigned int handle = 0, object = 0;

	if (read_file(GROUP "/rdma.current", text, sizeof(text)))
		return false;
	at = strstr(text, "hca_handle=");
	if (at)
		sscanf(at, "hca_handle=%u hca_object=%u", &handle, &object);
	return !handle && !object;
}

TEST_F(cgroup, contexts)
{
	ASSERT_EQ(0, limit_rdma("hca_handle=3"));
	EXPECT_EQ(3, in_child(handles, NULL));
	EXPECT_TRUE(rdma_unused());
	ASSERT_EQ(0, limit_rdma("hca_handle=0"));
	EXPECT_EQ(0, in_child(handles, NULL));
}

TEST_F(cgroup, objects)
{
	int free;

	/* what opening a device takes is not for us to say */
	ASSERT_EQ(0, limit_rdma("hca_object=32"));
	free = in_child(objects, NULL);
	EXPECT_LT(16, free);
	EXPECT_GT(32, free);
	EXPECT_TRUE(rdma_unused());
	ASSERT_EQ(0, limit_rdma("hca_object=40"));
	EXPECT_EQ(free + 8, in_child(objects, NULL));
	EXPECT_TRUE(rdma_unused());
	/* an object made by a command is one; the PD is another */
	EXPECT_EQ(free + 7, in_child(commands, NULL));
	EXPECT_TRUE(rdma_unused());
}

/* Bytes of kernel memory that the group has */
static long kernel_memory(void)
{
	char text[8192], *at;

	if (read_file(GROUP "/memory.stat", text, sizeof(text)))
		return -1;
	at = strstr(text, "\nkernel ");
	return at ? atol(at + 8) : -1;
}

#define QPS		100
#define QP_AT_LEAST	8192	/* what the HCA keeps for one, at the least */

static int queue_pairs_are_charged(void *arg)
{
	struct qp_cfg cfg = { .send_wr = 1, .recv_wr = 1 };
	struct ibv_qp *qp[QPS];
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	long before;
	struct rdma r;

	pd = join() ? NULL : open_pd(&r);
	cq = pd ? ibv_create_cq(r.ctx, 1, NULL, NULL, 0) : NULL;
	if (!cq)
		return TROUBLE;
	before = kernel_memory();
	for (int i = 0; i < QPS; i++) {
		qp[i] = qp_create(pd, cq, cq, &cfg);
		if (!qp[i])
			return TROUBLE + 1;
	}
	if (before < 0 || kernel_memory() - before < QPS * QP_AT_LEAST)
		return TROUBLE + 2;
	for (int i = 0; i < QPS; i++)
		ibv_destroy_qp(qp[i]);
	return 0;
}

static int sums_are_charged(void *arg)
{
	struct ibv_pd *pd;
	long before;
	struct rdma r;

	pd = join() ? NULL : open_pd(&r);
	if (!pd)
		return TROUBLE;
	before = kernel_memory();
	for (int i = 0; i < 8; i++)
		if (!long_key(pd))
			return TROUBLE + 1;
	return before >= 0 && kernel_memory() - before > 8 * MIB / 2 ? 0 :
	       TROUBLE + 2;
}

/* One group each: what the other gave back may leave the account late. */
TEST_F(cgroup, what_the_hca_keeps_for_queue_pairs_is_charged)
{
	EXPECT_EQ(0, in_child(queue_pairs_are_charged, NULL));
}

TEST_F(cgroup, what_the_hca_keeps_for_long_lists_is_charged)
{
	EXPECT_EQ(0, in_child(sums_are_charged, NULL));
}

TEST_HARNESS_MAIN
