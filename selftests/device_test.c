// SPDX-License-Identifier: GPL-2.0
/*
 * Proves that the device presents itself as libmlx5-abi says: identity, limits that
 * are kept, an active port with a usable GID, address handles that lead to the netdev's
 * MAC, and contexts that open, close, survive a fork and refuse the mappings that dynamic
 * UARs do not have.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <infiniband/mlx5dv.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include "lib/harness.h"
#include "lib/rdma.h"
#include "lib/mem.h"

#define u64	uint64_t	/* for the list of names in the next header */
#include "../include/hca/counters.h"

FIXTURE(device) {
	struct rdma r;
};

FIXTURE_SETUP(device)
{
	ASSERT_EQ(0, rdma_open(&self->r));
}

FIXTURE_TEARDOWN(device)
{
	rdma_close(&self->r);
}

static void sysfs(char *line, size_t size, const char *format, ...)
{
	char path[256], *end;
	va_list args;
	FILE *file;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	*line = 0;
	file = fopen(path, "r");
	if (!file)
		return;
	if (fgets(line, size, file)) {
		end = strchr(line, '\n');
		if (end)
			*end = 0;
	}
	fclose(file);
}

TEST_F(device, identity)
{
	char line[128];

	EXPECT_NE(0, self->r.attr.node_guid);
	EXPECT_NE(0, self->r.attr.sys_image_guid);
	EXPECT_EQ(IBV_NODE_CA, self->r.ctx->device->node_type);
	EXPECT_LE(1, self->r.attr.max_pkeys);
	EXPECT_EQ(1, self->r.attr.phys_port_cnt);
	if (!self->r.softhca)
		return;
	EXPECT_EQ(0x2c9, self->r.attr.vendor_id);
	EXPECT_EQ(4129, self->r.attr.vendor_part_id);	/* ConnectX-7 */
	EXPECT_LT(0, strlen(self->r.attr.fw_ver));
	sysfs(line, sizeof(line), "/sys/class/infiniband/%s/node_desc",
	      dev_name());
	EXPECT_NE(NULL, strstr(line, "softhca"));
	sysfs(line, sizeof(line), "/sys/class/infiniband_verbs/%s/abi_version",
	      self->r.ctx->device->dev_name);
	EXPECT_STREQ("1", line);
}

TEST_F(device, abi_2_2_libmlx5_drives_it)
{
	struct mlx5dv_context dv = { .comp_mask = 0 };

	if (!self->r.softhca)
		SKIP(return, "not softhca");
	EXPECT_TRUE(mlx5dv_is_supported(self->r.ctx->device));
	ASSERT_EQ(0, mlx5dv_query_device(self->r.ctx, &dv));
	EXPECT_NE(0, dv.flags & MLX5DV_CONTEXT_FLAGS_CQE_V1);
	EXPECT_EQ(0, dv.flags & MLX5DV_CONTEXT_FLAGS_MPW_ALLOWED);
	EXPECT_EQ(0, dv.flags & MLX5DV_CONTEXT_FLAGS_CQE_128B_COMP);
}

/* What is advertised is at least what this slice offers, and at most what the ABI
 * can carry (libmlx5-abi 2.2, 3.2)
 */
TEST_F(device, abi_3_2_limits)
{
	const struct ibv_device_attr *a = &self->r.attr;

	EXPECT_LE(1, a->max_qp);
	EXPECT_LE(1024, a->max_qp_wr);
	EXPECT_GE(32768, a->max_qp_wr);
	EXPECT_LE(4, a->max_sge);
	EXPECT_GE(32, a->max_sge);
	EXPECT_LE(4095, a->max_cqe);
	EXPECT_LE(100000, a->max_mr);
	EXPECT_LE(1ull << 32, a->max_mr_size);
	EXPECT_NE(0, a->page_size_cap & 4096);
	EXPECT_NE(IBV_ATOMIC_NONE, a->atomic_cap);
	EXPECT_LE(1, a->max_qp_rd_atom);
	if (!self->r.softhca)
		return;
	/* advertise only what works (design rule 8): no windows, SRQs, XRC yet
	 * or, once they are there, a number of them
	 */
	if (!(a->device_cap_flags & (IBV_DEVICE_MEM_WINDOW |
				     IBV_DEVICE_MEM_WINDOW_TYPE_2A |
				     IBV_DEVICE_MEM_WINDOW_TYPE_2B)))
		EXPECT_EQ(0, a->max_mw);
	EXPECT_EQ(0, a->device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A);
	EXPECT_EQ(0, a->device_cap_flags & IBV_DEVICE_RAW_IP_CSUM);
}

TEST_F(device, limits_are_kept)
{
	struct ibv_pd *pd = ibv_alloc_pd(self->r.ctx);
	struct ibv_cq *cq = ibv_create_cq(self->r.ctx, 16, NULL, NULL, 0);
	struct qp_cfg cfg = { .send_sge = self->r.attr.max_sge };
	struct ibv_qp *qp;

	ASSERT_NE(NULL, pd);
	ASSERT_NE(NULL, cq);
	EXPECT_EQ(NULL, ibv_create_cq(self->r.ctx, self->r.attr.max_cqe + 1,
				      NULL, NULL, 0));
	EXPECT_EQ(NULL, ibv_create_cq(self->r.ctx, 16, NULL, NULL,
				      self->r.ctx->num_comp_vectors));
	qp = qp_create(pd, cq, cq, &cfg);
	EXPECT_NE(NULL, qp);
	if (qp)
		EXPECT_EQ(0, ibv_destroy_qp(qp));
	cfg.send_sge = self->r.attr.max_sge + 100;
	EXPECT_EQ(NULL, qp_create(pd, cq, cq, &cfg));
	cfg = (struct qp_cfg){ .recv_sge = self->r.attr.max_sge + 100 };
	EXPECT_EQ(NULL, qp_create(pd, cq, cq, &cfg));
	cfg = (struct qp_cfg){ .recv_wr = 32769 };	/* abi 2.2 */
	EXPECT_EQ(NULL, qp_create(pd, cq, cq, &cfg));
	cfg = (struct qp_cfg){ .send_wr = 1 << 20 };
	EXPECT_EQ(NULL, qp_create(pd, cq, cq, &cfg));
	cfg = (struct qp_cfg){ .max_inline = 1 << 20 };
	EXPECT_EQ(NULL, qp_create(pd, cq, cq, &cfg));
	EXPECT_EQ(0, ibv_destroy_cq(cq));
	EXPECT_EQ(0, ibv_dealloc_pd(pd));
}

/* What is not offered is refused, not half done */
TEST_F(device, refused_kinds)
{
	static const enum ibv_qp_type types[] = {
		IBV_QPT_RAW_PACKET, IBV_QPT_DRIVER,
	};
	struct ibv_pd *pd = ibv_alloc_pd(self->r.ctx);
	struct ibv_cq *cq = ibv_create_cq(self->r.ctx, 16, NULL, NULL, 0);

	ASSERT_NE(NULL, pd);
	ASSERT_NE(NULL, cq);
	if (!self->r.softhca)
		SKIP(return, "not softhca");
	for (unsigned int i = 0; i < ARRAY_SIZE(types); i++) {
		struct ibv_qp_init_attr init = {
			.qp_type = types[i], .send_cq = cq, .recv_cq = cq,
			.cap = { 16, 16, 1, 1 },
		};

		EXPECT_EQ(NULL, ibv_create_qp(pd, &init));
	}
	if (!self->r.attr.max_srq) {
		struct ibv_srq_init_attr srq = { .attr = { 16, 1 } };

		EXPECT_EQ(NULL, ibv_create_srq(pd, &srq));
	}
	EXPECT_EQ(0, ibv_destroy_cq(cq));
	EXPECT_EQ(0, ibv_dealloc_pd(pd));
}

TEST_F(device, port)
{
	const struct ibv_port_attr *p = &self->r.port;
	struct ibv_port_attr none;
	uint16_t pkey = 0;

	EXPECT_EQ(IBV_PORT_ACTIVE, p->state);
	EXPECT_EQ(IBV_LINK_LAYER_ETHERNET, p->link_layer);
	EXPECT_EQ(5, p->phys_state);
	EXPECT_LE(1, p->pkey_tbl_len);
	EXPECT_LE(16, p->gid_tbl_len);
	EXPECT_EQ(0, ibv_query_pkey(self->r.ctx, 1, 0, &pkey));
	EXPECT_EQ(0xffff, pkey);
	EXPECT_NE(0, ibv_query_port(self->r.ctx, 2, &none));
	if (!self->r.softhca)
		return;
	EXPECT_EQ(IBV_MTU_4096, p->max_mtu);
	EXPECT_EQ(IBV_MTU_4096, p->active_mtu);
	EXPECT_EQ(1u << 30, p->max_msg_sz);
}

/* Of the netdev behind our GID */
static bool get_mac(FIXTURE_DATA(device) *self, uint8_t *mac)
{
	char name[64], line[64];

	sysfs(name, sizeof(name),
	      "/sys/class/infiniband/%s/ports/1/gid_attrs/ndevs/%d",
	      dev_name(), self->r.gid_index);
	if (!*name)
		return false;
	sysfs(line, sizeof(line), "/sys/class/net/%s/address", name);
	return sscanf(line, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", mac, mac + 1,
		      mac + 2, mac + 3, mac + 4, mac + 5) == 6;
}

/* The default GID is the link-local address of the netdev, by its MAC */
TEST_F(device, gid_is_that_of_the_netdev)
{
	struct ibv_gid_entry entry;
	bool found = false;
	uint8_t mac[6], eui[8];

	ASSERT_TRUE(get_mac(self, mac));
	eui[0] = mac[0] ^ 2;
	eui[1] = mac[1];
	eui[2] = mac[2];
	eui[3] = 0xff;
	eui[4] = 0xfe;
	eui[5] = mac[3];
	eui[6] = mac[4];
	eui[7] = mac[5];
	for (int i = 0; i < self->r.port.gid_tbl_len; i++) {
		if (ibv_query_gid_ex(self->r.ctx, 1, i, &entry, 0))
			continue;
		EXPECT_EQ(1, entry.port_num);
		EXPECT_NE(0, entry.ndev_ifindex);
		if (entry.gid_type == IBV_GID_TYPE_ROCE_V2 &&
		    entry.gid.raw[0] == 0xfe && entry.gid.raw[1] == 0x80 &&
		    !memcmp(entry.gid.raw + 8, eui, 8))
			found = true;
	}
	EXPECT_TRUE(found);
}

/* An address handle as libmlx5 copies it to the WQEs of a UD queue */
TEST_F(device, abi_12_address_handles)
{
	struct ibv_pd *pd = ibv_alloc_pd(self->r.ctx);
	struct ibv_gid_entry entry;
	uint8_t mac[6];
	int handles = 0;

	ASSERT_NE(NULL, pd);
	if (!mlx5dv_is_supported(self->r.ctx->device))
		SKIP(return, "not driven by libmlx5");
	ASSERT_TRUE(get_mac(self, mac));
	for (int i = 0; i < self->r.port.gid_tbl_len; i++) {
		struct ibv_ah_attr attr = {
			.is_global = 1, .port_num = 1, .sl = 3,
			.grh = { .sgid_index = i, .hop_limit = 9,
				 .traffic_class = 0x5c, .flow_label = 0x12345 },
		};
		struct mlx5dv_ah dv = {};
		struct mlx5dv_obj obj = { .ah = { .out = &dv } };

		if (ibv_query_gid_ex(self->r.ctx, 1, i, &entry, 0))
			continue;
		attr.grh.dgid = entry.gid;
		obj.ah.in = ibv_create_ah(pd, &attr);
		ASSERT_NE(NULL, obj.ah.in) {
			TH_LOG("GID %d, errno %d", i, errno);
		}
		handles++;
		EXPECT_EQ(pd, obj.ah.in->pd);
		ASSERT_EQ(0, mlx5dv_init_obj(&obj, MLX5DV_OBJ_AH));
		EXPECT_EQ(0, memcmp(mac, dv.av->rmac, sizeof(mac)));
		EXPECT_EQ(0, memcmp(&entry.gid, dv.av->rgid, 16));
		EXPECT_EQ(i << 20 | 0x12345, be32toh(dv.av->grh_gid_fl));
		EXPECT_EQ(9, dv.av->hop_limit);
		EXPECT_EQ(0x5c, dv.av->tclass);
		EXPECT_EQ(3 << 1, dv.av->stat_rate_sl);
		/* as long as it lives, so does its domain */
		EXPECT_EQ(EBUSY, ibv_dealloc_pd(pd));
		EXPECT_EQ(0, ibv_destroy_ah(obj.ah.in));
	}
	EXPECT_LT(0, handles);
	EXPECT_EQ(0, ibv_dealloc_pd(pd));
}

struct ah_answer {
	struct ib_uverbs_create_ah_resp core;
	struct mlx5_ib_create_ah_resp driver;
};

/* Without libmlx5, which refuses some itself. @out gets @len bytes; 0 or a negative errno */
static int create_ah(struct ibv_pd *pd, const struct ib_uverbs_ah_attr *attr,
		     void *out, size_t len)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_create_ah cmd;
	} in = {
		.hdr = { .command = IB_USER_VERBS_CMD_CREATE_AH,
			 .in_words = sizeof(in) / 4, .out_words = len / 4 },
		.cmd = { .response = (uintptr_t)out, .pd_handle = pd->handle,
			 .attr = *attr },
	};

	return write(pd->context->cmd_fd, &in, sizeof(in)) == sizeof(in) ? 0 : -errno;
}

static int destroy_ah(struct ibv_context *ctx, uint32_t handle)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_destroy_ah cmd;
	} in = {
		.hdr = { .command = IB_USER_VERBS_CMD_DESTROY_AH,
			 .in_words = sizeof(in) / 4 },
		.cmd = { .ah_handle = handle },
	};

	return write(ctx->cmd_fd, &in, sizeof(in)) == sizeof(in) ? 0 : -errno;
}

TEST_F(device, abi_12_address_handles_as_the_kernel_answers)
{
	struct ib_uverbs_ah_attr good = {
		.is_global = 1, .port_num = 1,
		.grh = { .sgid_index = self->r.gid_index, .hop_limit = 1 },
	}, bad;
	struct ibv_pd *pd = ibv_alloc_pd(self->r.ctx);
	const size_t answered = offsetof(struct mlx5_ib_create_ah_resp, reserved);
	struct ibv_gid_entry entry;
	struct ah_answer answer;
	uint8_t mac[6];
	int empty;

	ASSERT_NE(NULL, pd);
	if (!self->r.softhca)
		SKIP(return, "not softhca");
	ASSERT_TRUE(get_mac(self, mac));
	memcpy(good.grh.dgid, &self->r.gid, 16);

	memset(&answer, 0xee, sizeof(answer));
	ASSERT_EQ(0, create_ah(pd, &good, &answer, sizeof(answer)));
	EXPECT_EQ(answered, answer.driver.response_length);
	EXPECT_EQ(0, memcmp(mac, answer.driver.dmac, sizeof(mac)));
	EXPECT_EQ(0, destroy_ah(self->r.ctx, answer.core.ah_handle));
	EXPECT_EQ(-ENOENT, destroy_ah(self->r.ctx, answer.core.ah_handle));

	/* RoCE has no address but a GID */
	bad = good;
	bad.is_global = 0;
	EXPECT_EQ(-EINVAL, create_ah(pd, &bad, &answer, sizeof(answer)));
	/* from a GID that is not there; no index of a byte is beyond the table */
	for (empty = self->r.port.gid_tbl_len - 1; empty >= 0; empty--)
		if (ibv_query_gid_ex(self->r.ctx, 1, empty, &entry, 0))
			break;
	ASSERT_LE(0, empty);
	bad = good;
	bad.grh.sgid_index = empty;
	EXPECT_GT(0, create_ah(pd, &bad, &answer, sizeof(answer)));
	bad = good;
	bad.port_num = 2;
	EXPECT_EQ(-EINVAL, create_ah(pd, &bad, &answer, sizeof(answer)));
	/* no room for the MAC: then the handle is good for nothing */
	EXPECT_EQ(-EINVAL, create_ah(pd, &good, &answer, sizeof(answer.core)));
	EXPECT_EQ(-EINVAL, create_ah(pd, &good, &answer,
				     sizeof(answer.core) + answered / 4 * 4));

	/* nothing of all that is left */
	EXPECT_EQ(0, ibv_dealloc_pd(pd));
}

TEST_F(device, all_counters_exist)
{
	static const char *const names[] = {
#define X(id, name) name,
		HCA_COUNTERS(X)
#undef X
	};

	if (!self->r.softhca)
		SKIP(return, "not softhca");
	for (unsigned int i = 0; i < ARRAY_SIZE(names); i++) {
		EXPECT_LE(0, hw_counter(names[i])) {
			TH_LOG("no counter %s", names[i]);
		}
	}
}

TEST_F(device, opened_and_closed_200_times)
{
	struct rdma r[4];

	for (int i = 0; i < 50; i++) {
		for (int n = 0; n < 4; n++)
			ASSERT_EQ(0, rdma_open(&r[n]));
		for (int n = 0; n < 4; n++)
			rdma_close(&r[n]);
	}
}

/* libmlx5-abi 2.4: the commands of static UARs and of features not offered */
TEST_F(device, abi_2_4_mmap_is_refused)
{
	int fd = self->r.ctx->cmd_fd;

	if (!self->r.softhca)
		SKIP(return, "not softhca");
	for (unsigned long command = 0; command < 9; command++)
		for (unsigned long index = 0; index < 3; index++)
			EXPECT_EQ(MAP_FAILED,
				  mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, fd,
				       (command << 8 | index) * PAGE));
	/* an offset that no UAR has, and one beyond any */
	EXPECT_EQ(MAP_FAILED, mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, fd,
				   0x7fffff * PAGE));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, fd,
				   1ul << 50));
}

/* The UAR of one context is not to be had by another */
TEST_F(device, uar_of_another_context)
{
	struct mlx5dv_devx_uar *uar[4];
	struct rdma other;

	if (!self->r.softhca)
		SKIP(return, "not softhca");
	ASSERT_EQ(0, rdma_open(&other));
	for (int i = 0; i < 4; i++) {
		uar[i] = mlx5dv_devx_alloc_uar(self->r.ctx,
				MLX5DV_UAR_ALLOC_TYPE_NC_DEDICATED);
		ASSERT_NE(NULL, uar[i]);
		EXPECT_NE(0, uar[i]->page_id);
		EXPECT_GT(65536, uar[i]->page_id);
	}
	/* offsets count from the same number in each context: the other has one */
	EXPECT_EQ(MAP_FAILED, mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED,
				   other.ctx->cmd_fd, uar[3]->mmap_off));
	for (int i = 0; i < 4; i++)
		mlx5dv_devx_free_uar(uar[i]);
	rdma_close(&other);
}

/* doorbells.md: a program that opens the device and forks must not die */
TEST_F(device, fork_after_open)
{
	int status = -1;
	pid_t child = fork();

	ASSERT_LE(0, child);
	if (!child)
		_exit(0);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, ibv_query_device(self->r.ctx, &self->r.attr));
}

TEST_HARNESS_MAIN
