// SPDX-License-Identifier: GPL-2.0
/*
 * Proves that no allocation of the kernel may be relied on: each verb and each ioctl of
 * ours is repeated with its first, second, third... allocation failing, until none is
 * left to fail. Every time it succeeds all the same or says ENOMEM; it leaves nothing
 * behind, neither in the books of the RDMA core nor in the HCA; done again, it succeeds;
 * and the device goes on working.
 *
 * On a kernel with failslab and fail_page_alloc (KERNEL=debug) all allocations fail in
 * turn, whoever makes them; elsewhere those that softhca makes itself.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "lib/harness.h"
#include "lib/rdma.h"
#include "lib/mem.h"
#include "lib/look.h"
#include "lib/nth.h"
#include "lib/prm.h"
#include "lib/sys.h"

#define AT(p)		((uint64_t)(uintptr_t)(p))
#define BUF		(600 * PAGE)	/* its list of pages is longer than a page */
#define SMALL		(4 * PAGE)
#define MOST		20000		/* allocations in one path */
#define LINK		"softhca_n"
#define LINK_NETDEV	"shca_n0"

/**
 * struct world - what the paths work on: a context of their own, and what they make
 */
struct world {
	struct rdma r;
	struct ibv_pd *pd, *pd2;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct ibv_dm *dm;
	struct ibv_ah *ah;
	struct ibv_comp_channel *channel;
	struct ibv_context *ctx;
	struct mlx5dv_devx_obj *obj;
	struct mlx5dv_devx_umem *umem;
	struct mlx5dv_devx_uar *uar;
	struct mlx5dv_mkey *mkey;
	uint32_t pdn;
	char *buf;
};

static const struct qp_cfg plain;
static char *scattered;	/* shared with the processes of the tests */

/* What a call that returns a pointer means */
static int made(const void *object)
{
	return object ? 0 : errno ?: EIO;
}

/* What a call that returns 0, or a number, or -1 and an errno means */
static int done(int ret)
{
	return ret < 0 ? errno ?: EIO : ret;
}

/* What a command of user space means: the HCA says itself that its memory ran out. */
static int commanded(int err, const void *out)
{
	return err == EREMOTEIO && DEVX_GET(create_mkey_out, out, status) == 8 /* LIM_ERR */ ?
	       ENOMEM : err;
}

/* Paths: 0 or an errno. An undo is done without failures. */

static int open_run(struct world *w)
{
	int err;

	w->ctx = ibv_open_device(w->r.ctx->device);
	err = made(w->ctx);
	/* a device node that cannot be opened is looked for elsewhere by the library */
	return err == ENOENT ? ENOMEM : err;
}

static int open_undo(struct world *w)
{
	return done(ibv_close_device(w->ctx));
}

static int query_device_run(struct world *w)
{
	struct ibv_device_attr_ex attr;

	return ibv_query_device_ex(w->r.ctx, NULL, &attr);
}

static int query_port_run(struct world *w)
{
	struct ibv_port_attr port;

	return ibv_query_port(w->r.ctx, 1, &port);
}

static int query_gids_run(struct world *w)
{
	struct ibv_gid_entry entries[16];
	ssize_t n = ibv_query_gid_table(w->r.ctx, entries, 16, 0);

	return n < 0 ? -n : n ? 0 : ENOENT;
}

static int pd_run(struct world *w)
{
	w->pd2 = ibv_alloc_pd(w->r.ctx);
	return made(w->pd2);
}

static int pd_undo(struct world *w)
{
	return ibv_dealloc_pd(w->pd2);
}

static int channel_run(struct world *w)
{
	w->channel = ibv_create_comp_channel(w->r.ctx);
	return made(w->channel);
}

static int channel_undo(struct world *w)
{
	return ibv_destroy_comp_channel(w->channel);
}

static int cq_run(struct world *w)
{
	w->cq = ibv_create_cq(w->r.ctx, 1000, NULL, NULL, 0);
	return made(w->cq);
}

static int cq_undo(struct world *w)
{
	return ibv_destroy_cq(w->cq);
}

static int cq_resize_run(struct world *w)
{
	return ibv_resize_cq(w->cq, 3000);
}

static int qp_run(struct world *w)
{
	w->qp = qp_create(w->pd, w->cq, w->cq, &plain);
	return made(w->qp);
}

static int qp_destroy_run(struct world *w)
{
	return ibv_destroy_qp(w->qp);
}

static int qp_undo(struct world *w)
{
	return ibv_destroy_qp(w->qp) ?: cq_undo(w);
}

static int qp_ready(struct world *w)
{
	return cq_run(w) ?: qp_run(w);
}

static int qp_modify_run(struct world *w)
{
	/* may have got halfway before */
	return -(qp_to(w->qp, IBV_QPS_RESET) ?:
		 qp_connect(&w->r, w->qp, &plain, w->qp->qp_num) ?:
		 qp_to(w->qp, IBV_QPS_ERR));
}

static int qp_query_run(struct world *w)
{
	int state = qp_state(w->qp);

	return state < 0 ? -state : state == IBV_QPS_RESET ? 0 : EPROTO;
}

static int ah_run(struct world *w)
{
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = 1,
		.grh = {
			.dgid = w->r.gid, .sgid_index = w->r.gid_index,
			.hop_limit = 64,
		},
	};

	w->ah = ibv_create_ah(w->pd, &attr);
	return made(w->ah);
}

static int ah_undo(struct world *w)
{
	return ibv_destroy_ah(w->ah);
}

static int mr_small_run(struct world *w)
{
	w->mr = ibv_reg_mr(w->pd, w->buf, SMALL, ACCESS_ALL);
	return made(w->mr);
}

static int mr_large_run(struct world *w)
{
	w->mr = ibv_reg_mr(w->pd, w->buf, BUF, ACCESS_ALL);
	return made(w->mr);
}

static int mr_undo(struct world *w)
{
	return ibv_dereg_mr(w->mr);
}

static int without_umr(struct world *w)
{
	return -softhca_parameter("umr_entity_size", "N");
}

static int with_umr(struct world *w)
{
	return -softhca_parameter("umr_entity_size", "Y");
}

static int mr_undo_with_umr(struct world *w)
{
	return with_umr(w) ?: mr_undo(w);
}

/* A key that was made by command is destroyed by command. */
static int mr_by_command(struct world *w)
{
	return without_umr(w) ?: mr_large_run(w) ?: with_umr(w);
}

static int rereg_rights_run(struct world *w)
{
	return done(ibv_rereg_mr(w->mr, IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_PD,
				 w->pd2, NULL, 0, IBV_ACCESS_LOCAL_WRITE));
}

static int rereg_prepare(struct world *w)
{
	return pd_run(w) ?: mr_small_run(w);
}

static int rereg_undo(struct world *w)
{
	return mr_undo(w) ?: pd_undo(w);
}

/* The table of the key is large enough. */
static int rereg_in_place_run(struct world *w)
{
	return done(ibv_rereg_mr(w->mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, w->buf + SMALL,
				 SMALL, 0));
}

/* It is not: another key takes over. */
static int rereg_larger_run(struct world *w)
{
	return done(ibv_rereg_mr(w->mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, w->buf, BUF, 0));
}

static int mw1_run(struct world *w)
{
	w->mw = ibv_alloc_mw(w->pd, IBV_MW_TYPE_1);
	return made(w->mw);
}

static int mw2_run(struct world *w)
{
	w->mw = ibv_alloc_mw(w->pd, IBV_MW_TYPE_2);
	return made(w->mw);
}

static int mw_undo(struct world *w)
{
	return ibv_dealloc_mw(w->mw);
}

static int dm_run(struct world *w)
{
	struct ibv_alloc_dm_attr attr = { .length = 2 * PAGE };

	int err;

	w->dm = ibv_alloc_dm(w->r.ctx, &attr);
	err = made(w->dm);
	/* the library maps it too, and the core's word for a page table that is missing is EAGAIN */
	return err == EAGAIN ? ENOMEM : err;
}

static int dm_undo(struct world *w)
{
	return ibv_free_dm(w->dm);
}

static int dm_mr_run(struct world *w)
{
	w->mr = ibv_reg_dm_mr(w->pd, w->dm, 0, PAGE, ACCESS_ALL | IBV_ACCESS_ZERO_BASED);
	return made(w->mr);
}

static int dm_mr_undo(struct world *w)
{
	return mr_undo(w) ?: dm_undo(w);
}

static int look_run(struct world *w)
{
	static struct look look;

	return -look_mr(w->mr, &look);
}

static int walk_prepare(struct world *w)
{
	return qp_ready(w) ?: mr_small_run(w);
}

static int walk_run(struct world *w)
{
	struct shca_explain_req req = {
		.va = AT(w->buf), .length = SMALL, .key = w->mr->lkey,
	};
	struct shca_explain_step steps[8];
	uint8_t refused_by;
	int n = look_walk(w->qp, &req, steps, 8, &refused_by);

	return n < 0 ? -n : n && !refused_by ? 0 : EPROTO;
}

static int walk_undo(struct world *w)
{
	return mr_undo(w) ?: qp_undo(w);
}

static int devx_general_run(struct world *w)
{
	uint32_t in[DEVX_ST_SZ_DW(query_hca_cap_in)] = {};
	uint32_t out[DEVX_ST_SZ_DW(query_hca_cap_out)];

	DEVX_SET(query_hca_cap_in, in, opcode, MLX5_CMD_OP_QUERY_HCA_CAP);
	return commanded(mlx5dv_devx_general_cmd(w->r.ctx, in, sizeof(in), out, sizeof(out)), out);
}

static int devx_eqn_run(struct world *w)
{
	uint32_t eqn;

	return done(mlx5dv_devx_query_eqn(w->r.ctx, 0, &eqn));
}

/* In a context of its own: the library keeps the UARs that it once had. */
static int devx_uar_run(struct world *w)
{
	w->uar = mlx5dv_devx_alloc_uar(w->ctx, MLX5DV_UAR_ALLOC_TYPE_NC);
	return made(w->uar);
}

static int devx_uar_undo(struct world *w)
{
	mlx5dv_devx_free_uar(w->uar);
	return open_undo(w);
}

/* A list of four keys, whole in its command */
static int devx_obj_run(struct world *w)
{
	uint32_t in[DEVX_ST_SZ_DW(create_mkey_in) + 16] = {};
	uint32_t out[DEVX_ST_SZ_DW(create_mkey_out)] = {};
	void *mkc = DEVX_ADDR_OF(create_mkey_in, in, memory_key_mkey_entry);

	DEVX_SET(create_mkey_in, in, opcode, MLX5_CMD_OP_CREATE_MKEY);
	DEVX_SET(create_mkey_in, in, translations_octword_actual_size, 4);
	DEVX_SET(mkc, mkc, access_mode_1_0, MLX5_MKC_ACCESS_MODE_KLMS);
	DEVX_SET(mkc, mkc, lr, 1);
	DEVX_SET(mkc, mkc, free, 1);
	DEVX_SET(mkc, mkc, umr_en, 1);
	DEVX_SET(mkc, mkc, qpn, 0xffffff);
	DEVX_SET(mkc, mkc, pd, w->pdn);
	DEVX_SET(mkc, mkc, translations_octword_size, 4);
	w->obj = mlx5dv_devx_obj_create(w->r.ctx, in, sizeof(in), out, sizeof(out));
	return commanded(made(w->obj), out);
}

static int devx_obj_destroy(struct world *w)
{
	return done(mlx5dv_devx_obj_destroy(w->obj));
}

static int devx_pd_run(struct world *w)
{
	uint32_t in[DEVX_ST_SZ_DW(alloc_pd_in)] = {};
	uint32_t out[DEVX_ST_SZ_DW(alloc_pd_out)] = {};

	DEVX_SET(alloc_pd_in, in, opcode, MLX5_CMD_OP_ALLOC_PD);
	w->obj = mlx5dv_devx_obj_create(w->r.ctx, in, sizeof(in), out, sizeof(out));
	return commanded(made(w->obj), out);
}

static int devx_query_run(struct world *w)
{
	uint32_t in[DEVX_ST_SZ_DW(query_cq_in)] = {};
	uint32_t out[DEVX_ST_SZ_DW(query_cq_out)] = {};
	struct mlx5dv_cq cq;
	struct mlx5dv_obj obj = { .cq = { .in = w->cq, .out = &cq } };
	int err = mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ);

	if (err)
		return err;
	DEVX_SET(query_cq_in, in, opcode, MLX5_CMD_OP_QUERY_CQ);
	DEVX_SET(query_cq_in, in, cqn, cq.cqn);
	return commanded(mlx5dv_devx_cq_query(w->cq, in, sizeof(in), out, sizeof(out)), out);
}

static int devx_umem_run(struct world *w)
{
	w->umem = mlx5dv_devx_umem_reg(w->r.ctx, w->buf, BUF, IBV_ACCESS_LOCAL_WRITE);
	return made(w->umem);
}

static int devx_umem_undo(struct world *w)
{
	return done(mlx5dv_devx_umem_dereg(w->umem));
}

static int mkey_run(struct world *w)
{
	struct mlx5dv_mkey_init_attr attr = {
		.pd = w->pd, .max_entries = 4,
		.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT,
	};

	w->mkey = mlx5dv_create_mkey(&attr);
	return made(w->mkey);
}

static int mkey_undo(struct world *w)
{
	return done(mlx5dv_destroy_mkey(w->mkey));
}

static int link_prepare(struct world *w)
{
	struct stat st;

	if (!stat("/sys/class/net/" LINK_NETDEV, &st))
		return 0;
	return system("ip link add " LINK_NETDEV " type dummy && ip link set " LINK_NETDEV " up") ?
	       EIO : 0;
}

static bool link_there(void)
{
	struct stat st;

	return !stat("/sys/class/infiniband/" LINK, &st);
}

static int link_add_run(struct world *w)
{
	int err = -link_add(LINK, LINK_NETDEV);

	/* it may be the answer that was lost */
	return err && link_there() ? 0 : err;
}

static int link_del_run(struct world *w)
{
	int err = -link_del(LINK);

	return err && !link_there() ? 0 : err;
}

static int link_del_undo(struct world *w)
{
	return system("ip link del " LINK_NETDEV) ? EIO : 0;
}

static int link_undo(struct world *w)
{
	return link_del_run(w) ?: link_del_undo(w);
}

static int link_made(struct world *w)
{
	return link_prepare(w) ?: link_add_run(w);
}

FIXTURE(fail_nth) {
	struct world w;
	struct pair p;			/* somebody else, who goes on working */
	struct ibv_mr *mr;
	char *buf;
	struct books before, after;
	struct ledger ledger;
};

/**
 * one path
 * @prepare: what is there before; @run: the path; @undo: takes both back. The first and
 *	the last may be missing.
 * @stride: a device takes a thousand allocations of the core, and seconds to come and go: of
 *	those beyond the first 16, one in so many fails. Those of softhca all do, by softhca_nth.
 */
FIXTURE_VARIANT(fail_nth) {
	int (*prepare)(struct world *w);
	int (*run)(struct world *w);
	int (*undo)(struct world *w);
	unsigned int stride;
};

#define PATH(name, ...)	FIXTURE_VARIANT_ADD(fail_nth, name) { __VA_ARGS__ }

PATH(open_device, .run = open_run, .undo = open_undo);
PATH(close_device, .prepare = open_run, .run = open_undo);
PATH(query_device, .run = query_device_run);
PATH(query_port, .run = query_port_run);
PATH(query_gid_table, .run = query_gids_run);
PATH(alloc_pd, .run = pd_run, .undo = pd_undo);
PATH(dealloc_pd, .prepare = pd_run, .run = pd_undo);
PATH(create_comp_channel, .run = channel_run, .undo = channel_undo);
PATH(create_cq, .run = cq_run, .undo = cq_undo);
PATH(destroy_cq, .prepare = cq_run, .run = cq_undo);
PATH(resize_cq, .prepare = cq_run, .run = cq_resize_run, .undo = cq_undo);
PATH(create_qp, .prepare = cq_run, .run = qp_run, .undo = qp_undo);
PATH(destroy_qp, .prepare = qp_ready, .run = qp_destroy_run, .undo = cq_undo);
PATH(modify_qp, .prepare = qp_ready, .run = qp_modify_run, .undo = qp_undo);
PATH(query_qp, .prepare = qp_ready, .run = qp_query_run, .undo = qp_undo);
PATH(create_ah, .run = ah_run, .undo = ah_undo);
PATH(destroy_ah, .prepare = ah_run, .run = ah_undo);
PATH(reg_mr, .run = mr_small_run, .undo = mr_undo);
PATH(reg_mr_large, .run = mr_large_run, .undo = mr_undo);
PATH(reg_mr_by_command, .prepare = without_umr, .run = mr_large_run, .undo = mr_undo_with_umr);
PATH(dereg_mr, .prepare = mr_large_run, .run = mr_undo);
PATH(dereg_mr_by_command, .prepare = mr_by_command, .run = mr_undo);
PATH(rereg_mr_rights, .prepare = rereg_prepare, .run = rereg_rights_run, .undo = rereg_undo);
PATH(rereg_mr_in_place, .prepare = mr_small_run, .run = rereg_in_place_run, .undo = mr_undo);
PATH(rereg_mr_larger, .prepare = mr_small_run, .run = rereg_larger_run, .undo = mr_undo);
PATH(alloc_mw_1, .run = mw1_run, .undo = mw_undo);
PATH(alloc_mw_2, .run = mw2_run, .undo = mw_undo);
PATH(dealloc_mw, .prepare = mw2_run, .run = mw_undo);
PATH(alloc_dm, .run = dm_run, .undo = dm_undo);
PATH(free_dm, .prepare = dm_run, .run = dm_undo);
PATH(reg_dm_mr, .prepare = dm_run, .run = dm_mr_run, .undo = dm_mr_undo);
PATH(query_mkey, .prepare = mr_large_run, .run = look_run, .undo = mr_undo);
PATH(explain, .prepare = walk_prepare, .run = walk_run, .undo = walk_undo);
PATH(devx_general, .run = devx_general_run);
PATH(devx_query_eqn, .run = devx_eqn_run);
PATH(devx_alloc_uar, .prepare = open_run, .run = devx_uar_run, .undo = devx_uar_undo);
PATH(devx_obj_create, .run = devx_obj_run, .undo = devx_obj_destroy);
PATH(devx_obj_destroy, .prepare = devx_obj_run, .run = devx_obj_destroy);
PATH(devx_alloc_pd, .run = devx_pd_run, .undo = devx_obj_destroy);
PATH(devx_query, .prepare = cq_run, .run = devx_query_run, .undo = cq_undo);
PATH(devx_umem_reg, .run = devx_umem_run, .undo = devx_umem_undo);
PATH(devx_umem_dereg, .prepare = devx_umem_run, .run = devx_umem_undo);
PATH(create_mkey, .run = mkey_run, .undo = mkey_undo);
PATH(destroy_mkey, .prepare = mkey_run, .run = mkey_undo);
PATH(link_add, .prepare = link_prepare, .run = link_add_run, .undo = link_undo,
	.stride = 67);
PATH(link_del, .prepare = link_made, .run = link_del_run, .undo = link_del_undo,
	.stride = 67);

FIXTURE_SETUP(fail_nth)
{
	struct mlx5dv_pd out;
	struct mlx5dv_obj obj = { .pd = { .out = &out } };
	struct world *w = &self->w;

	ASSERT_EQ(0, nth_open());
	ASSERT_EQ(0, pair_open(&self->p, NULL));
	if (!self->p.r.softhca)
		SKIP(return, "not softhca");
	self->buf = mem_pages(2 * PAGE);
	ASSERT_NE(NULL, self->buf);
	self->mr = ibv_reg_mr(self->p.pd, self->buf, 2 * PAGE, ACCESS_ALL);
	ASSERT_NE(NULL, self->mr);

	ASSERT_EQ(0, rdma_open(&w->r));
	w->pd = ibv_alloc_pd(w->r.ctx);
	ASSERT_NE(NULL, w->pd);
	obj.pd.in = w->pd;
	ASSERT_EQ(0, mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD));
	w->pdn = out.pdn;
	w->buf = scattered;
}

FIXTURE_TEARDOWN(fail_nth)
{
	ledger_end();
	if (self->w.pd)
		EXPECT_EQ(0, ibv_dealloc_pd(self->w.pd));
	rdma_close(&self->w.r);
	if (self->mr)
		ibv_dereg_mr(self->mr);
	pair_close(&self->p);
}

/* Somebody else's message arrives: 0, or what run() says */
static int works(FIXTURE_DATA(fail_nth) *self, unsigned int seed)
{
	struct op op = {
		.opcode = IBV_WR_RDMA_WRITE, .laddr = AT(self->buf),
		.raddr = AT(self->buf) + PAGE, .len = PAGE,
		.lkey = self->mr->lkey, .rkey = self->mr->rkey,
	};

	fill(self->buf, PAGE, seed);
	return run(self->p.a, self->p.acq, &op, NULL) ?:
	       differs(self->buf + PAGE, PAGE, seed) < 0 ? 0 : EIO;
}

TEST_F_TIMEOUT(fail_nth, every_allocation, 1000)
{
	struct world *w = &self->w;
	unsigned int n, failures = 0;
	int err, fired = 1;

	/* what is cached is there from then on: UARs of the library, keys in the pools */
	ASSERT_EQ(0, variant->prepare ? variant->prepare(w) : 0);
	ASSERT_EQ(0, variant->run(w));
	ASSERT_EQ(0, variant->undo ? variant->undo(w) : 0);
	ASSERT_EQ(0, ledger_begin(&self->ledger));

	for (n = 1; fired; n += nth_of_kernel() && n > 16 && variant->stride ? variant->stride : 1) {
		ASSERT_GT(MOST, n);
		ASSERT_EQ(0, variant->prepare ? variant->prepare(w) : 0);
		ASSERT_EQ(0, books_read(&self->before));

		errno = 0;
		ASSERT_EQ(0, nth_arm(n));
		err = variant->run(w);
		fired = nth_disarm();
		if (err) {
			failures++;
			EXPECT_EQ(1, fired);
			EXPECT_EQ(ENOMEM, err)
				TH_LOG("allocation %u: %s", n, strerror(err));
			ASSERT_EQ(0, books_read(&self->after));
			EXPECT_TRUE(books_same(&self->before, &self->after))
				TH_LOG("allocation %u", n);
			ASSERT_EQ(0, variant->run(w))
				TH_LOG("after allocation %u", n);
		}
		ASSERT_EQ(0, variant->undo ? variant->undo(w) : 0)
			TH_LOG("after allocation %u", n);
		EXPECT_EQ(0, works(self, n));
		ASSERT_EQ(0, ledger_update(&self->ledger));
		ASSERT_EQ(NULL, ledger_surplus(&self->ledger))
			TH_LOG("after allocation %u: %s", n, ledger_surplus(&self->ledger));
	}
	TH_LOG("up to allocation %u, %u refusals", n, failures);
}

int main(int argc, char **argv)
{
	const char *reason = nth_setup();
	int status;

	if (reason)
		ksft_exit_skip("%s\n", reason);
	scattered = mem_scattered(BUF);
	if (!scattered)
		ksft_exit_fail_msg("no memory\n");
	harness_slow();
	status = test_harness_run(argc, argv);
	nth_end();
	return status;
}
