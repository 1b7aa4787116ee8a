// SPDX-License-Identifier: GPL-2.0
/*
 * Proves that firmware commands of user space (DEVX) do what mlx5 lets them do and
 * nothing else: which commands there are, that a context reaches its own objects
 * only, that no address goes in or comes out, that a queue pair made by commands
 * alone works, that mlx5dv's indirect keys work, and that all of it goes with its
 * context.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include "lib/harness.h"
#include "lib/rdma.h"
#include "lib/mem.h"
#include "lib/raw.h"
#include "lib/prm.h"

#define AT(p)		((uintptr_t)(p))

/* HM 7 */
#define BAD_PARAM	0x3
#define BAD_RES		0x5
#define BAD_INP_LEN	0x50
#define SYNDROME(opcode, check)	(MLX5_CMD_OP_##opcode << 8 | (check))

#define MODE_PA		0
#define MODE_MTT	1
#define MODE_KLM	2
#define MODE_KSM	3
#define MODE_MEMIC	5

#define ST_RC		0
#define ST_REG_UMR	0xc
#define PM_MIGRATED	3
#define RQ_REGULAR	0

/* An open device with a PD; two of them are strangers to each other */
struct side {
	struct rdma r;
	struct ibv_pd *pd;
	uint32_t pdn;
};

static int side_open(struct side *s)
{
	struct mlx5dv_pd out;
	struct mlx5dv_obj obj = { .pd = { .out = &out } };
	int err = rdma_open(&s->r);

	if (err)
		return err;
	s->pd = ibv_alloc_pd(s->r.ctx);
	if (!s->pd)
		return -errno;
	obj.pd.in = s->pd;
	if (!mlx5dv_is_supported(s->r.ctx->device))
		return -EOPNOTSUPP;
	err = mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD);
	s->pdn = out.pdn;
	return err;
}

static void side_close(struct side *s)
{
	if (s->pd)
		ibv_dealloc_pd(s->pd);
	rdma_close(&s->r);
}

FIXTURE(devx) {
	struct side a, b;
};

FIXTURE_SETUP(devx)
{
	int err = side_open(&self->a);

	if (err == -EOPNOTSUPP)
		SKIP(return, "not driven by libmlx5");
	ASSERT_EQ(0, err);
	ASSERT_EQ(0, side_open(&self->b));
}

FIXTURE_TEARDOWN(devx)
{
	side_close(&self->b);
	side_close(&self->a);
}

/* The beginning of an answer, which all have in common */
struct answer {
	uint32_t dw[DEVX_ST_SZ_DW(create_qp_out)];
};

static uint8_t status_of(const struct answer *out)
{
	return DEVX_GET(create_qp_out, out, status);
}

static uint32_t syndrome_of(const struct answer *out)
{
	return DEVX_GET(create_qp_out, out, syndrome);
}

/* The number of the new object, which is at the same place for all of them */
static uint32_t id_of(const struct answer *out)
{
	return DEVX_GET(create_qp_out, out, qpn);
}

static struct mlx5dv_devx_obj *create(struct side *s, const void *in,
				      size_t inlen, struct answer *out)
{
	memset(out, 0, sizeof(*out));
	errno = 0;
	return mlx5dv_devx_obj_create(s->r.ctx, in, inlen, out, sizeof(*out));
}

/* The general command that is nothing but an opcode: 0 or an errno */
static int general(struct side *s, uint16_t opcode)
{
	uint32_t in[64] = {}, out[1028] = {};

	DEVX_SET(general_obj_in_cmd_hdr, in, opcode, opcode);
	return mlx5dv_devx_general_cmd(s->r.ctx, in, sizeof(in), out,
				       sizeof(out));
}

TEST_F(devx, general_commands_are_those_that_only_read)
{
	static const uint16_t refused[] = {
		MLX5_CMD_OP_INIT_HCA, MLX5_CMD_OP_TEARDOWN_HCA,
		MLX5_CMD_OP_ENABLE_HCA, MLX5_CMD_OP_DISABLE_HCA,
		MLX5_CMD_OP_QUERY_PAGES, MLX5_CMD_OP_MANAGE_PAGES,
		MLX5_CMD_OP_SET_HCA_CAP, MLX5_CMD_OP_SET_ISSI,
		MLX5_CMD_OP_QUERY_SPECIAL_CONTEXTS, MLX5_CMD_OP_CREATE_MKEY,
		MLX5_CMD_OP_QUERY_MKEY, MLX5_CMD_OP_DESTROY_MKEY,
		MLX5_CMD_OP_CREATE_EQ, MLX5_CMD_OP_DESTROY_EQ,
		MLX5_CMD_OP_QUERY_EQ, MLX5_CMD_OP_CREATE_CQ,
		MLX5_CMD_OP_DESTROY_CQ, MLX5_CMD_OP_QUERY_CQ,
		MLX5_CMD_OP_CREATE_QP, MLX5_CMD_OP_DESTROY_QP,
		MLX5_CMD_OP_2ERR_QP, MLX5_CMD_OP_QUERY_QP,
		MLX5_CMD_OP_ALLOC_PD, MLX5_CMD_OP_DEALLOC_PD,
		MLX5_CMD_OP_ALLOC_UAR, MLX5_CMD_OP_DEALLOC_UAR,
		MLX5_CMD_OP_SET_ROCE_ADDRESS, MLX5_CMD_OP_ALLOC_MEMIC,
		MLX5_CMD_OP_DEALLOC_MEMIC, MLX5_CMD_OP_CREATE_UCTX,
		MLX5_CMD_OP_DESTROY_UCTX, MLX5_CMD_OP_CREATE_UMEM,
		MLX5_CMD_OP_DESTROY_UMEM, 0, 0xffff,
	};

	EXPECT_EQ(0, general(&self->a, MLX5_CMD_OP_QUERY_HCA_CAP));
	EXPECT_EQ(0, general(&self->a, MLX5_CMD_OP_QUERY_ISSI));
	EXPECT_EQ(0, general(&self->a, MLX5_CMD_OP_QUERY_ROCE_ADDRESS));
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		EXPECT_EQ(EINVAL, general(&self->a, refused[i]))
			TH_LOG("opcode %#x", refused[i]);
	}
}

TEST_F(devx, objects_are_those_that_mlx5_and_the_hca_know)
{
	static const uint16_t refused[] = {
		MLX5_CMD_OP_QUERY_HCA_CAP, MLX5_CMD_OP_QUERY_MKEY,
		MLX5_CMD_OP_DESTROY_MKEY, MLX5_CMD_OP_CREATE_EQ,
		MLX5_CMD_OP_ALLOC_UAR, MLX5_CMD_OP_ALLOC_MEMIC,
		MLX5_CMD_OP_CREATE_UCTX, MLX5_CMD_OP_CREATE_UMEM,
		MLX5_CMD_OP_CREATE_PSV, MLX5_CMD_OP_CREATE_GENERAL_OBJECT,
		MLX5_CMD_OP_CREATE_RQ, MLX5_CMD_OP_CREATE_TIR, 0, 0xffff,
	};
	uint32_t in[DEVX_ST_SZ_DW(create_qp_in)] = {};
	struct answer out;

	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		DEVX_SET(create_qp_in, in, opcode, refused[i]);
		EXPECT_EQ(NULL, create(&self->a, in, sizeof(in), &out));
		EXPECT_EQ(EINVAL, errno)
			TH_LOG("opcode %#x", refused[i]);
	}
}

/* A refusal of the HCA is an answer too: it says why */
TEST_F(devx, a_refusal_is_handed_out)
{
	uint32_t in[DEVX_ST_SZ_DW(query_hca_cap_in)] = {};
	struct answer out = {};

	DEVX_SET(query_hca_cap_in, in, opcode, MLX5_CMD_OP_QUERY_ROCE_ADDRESS);
	EXPECT_EQ(EREMOTEIO, mlx5dv_devx_general_cmd(self->a.r.ctx, in,
						     sizeof(in), &out,
						     sizeof(out)));
	EXPECT_EQ(0x51, status_of(&out));	/* the answer would not fit */

	/* an answer that grows with each HCA is cut, and is none */
	DEVX_SET(query_hca_cap_in, in, opcode, MLX5_CMD_OP_QUERY_HCA_CAP);
	EXPECT_EQ(0, mlx5dv_devx_general_cmd(self->a.r.ctx, in, sizeof(in),
					     &out, sizeof(out)));
}

/* What is read here is what the verbs say, and nothing of the library's own */
TEST_F(devx, capabilities)
{
	uint32_t in[DEVX_ST_SZ_DW(query_hca_cap_in)] = {};
	uint32_t out[DEVX_ST_SZ_DW(query_hca_cap_out)];
	const void *cap = DEVX_ADDR_OF(query_hca_cap_out, out, capability);

	DEVX_SET(query_hca_cap_in, in, opcode, MLX5_CMD_OP_QUERY_HCA_CAP);
	DEVX_SET(query_hca_cap_in, in, op_mod, 1);
	ASSERT_EQ(0, mlx5dv_devx_general_cmd(self->a.r.ctx, in, sizeof(in),
					     out, sizeof(out)));
	EXPECT_EQ(1, DEVX_GET(cmd_hca_cap, cap, port_type));
	EXPECT_EQ(self->a.r.attr.max_mr,
		  1 << DEVX_GET(cmd_hca_cap, cap, log_max_mkey));
	EXPECT_EQ(self->a.r.attr.max_qp,
		  1 << DEVX_GET(cmd_hca_cap, cap, log_max_qp));
	EXPECT_LT(0, DEVX_GET(cmd_hca_cap, cap, log_max_uctx));
	EXPECT_LT(0, DEVX_GET(cmd_hca_cap, cap, log_max_umem));
	/* not offered: HM 13.3 to 13.6 */
	EXPECT_EQ(0, DEVX_GET(cmd_hca_cap, cap, sho));
	EXPECT_EQ(0, DEVX_GET(cmd_hca_cap, cap, crypto));
	EXPECT_EQ(0, DEVX_GET(cmd_hca_cap, cap, vhca_tunnel_commands));
	EXPECT_EQ(0, DEVX_GET(cmd_hca_cap, cap, uctx_cap));
}

/* The library believes what it is told; it must not be told of what is not there */
TEST_F(devx, mlx5dv_query_device_is_true)
{
	struct mlx5dv_context dv = { .comp_mask = ~0ull };

	ASSERT_EQ(0, mlx5dv_query_device(self->a.r.ctx, &dv));
	EXPECT_EQ(MLX5DV_CONTEXT_FLAGS_CQE_V1, dv.flags);
	EXPECT_EQ(0, dv.cqe_comp_caps.max_num);
	EXPECT_EQ(0, dv.sw_parsing_caps.sw_parsing_offloads);
	EXPECT_EQ(0, dv.striding_rq_caps.supported_qpts);
	EXPECT_EQ(0, dv.tunnel_offloads_caps);
	EXPECT_EQ(0, dv.max_dynamic_bfregs);
	EXPECT_EQ(0, dv.flow_action_flags);
	EXPECT_EQ(0, dv.dc_odp_caps);
	EXPECT_EQ(0, dv.comp_mask & MLX5DV_CONTEXT_MASK_HCA_CORE_CLOCK);
	EXPECT_EQ(0, dv.comp_mask & MLX5DV_CONTEXT_MASK_CLOCK_INFO_UPDATE);
	EXPECT_EQ(0, dv.comp_mask & MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS);
	EXPECT_EQ(0, dv.comp_mask & MLX5DV_CONTEXT_MASK_REG_C0);
	EXPECT_EQ(0, dv.comp_mask & MLX5DV_CONTEXT_MASK_OOO_RECV_WRS);
	EXPECT_EQ(0, dv.sig_caps.block_prot);
	EXPECT_EQ(0, dv.sig_caps.block_size);
	EXPECT_EQ(0, dv.dci_streams_caps.max_log_num_concurent);
	EXPECT_EQ(0, dv.max_wr_memcpy_length);
	EXPECT_EQ(0, dv.crypto_caps.flags);
	EXPECT_EQ(0, dv.crypto_caps.crypto_engines);
}

/* Keys */

struct mkey_in {
	uint32_t dw[DEVX_ST_SZ_DW(create_mkey_in)];
};

static void *mkc_of(struct mkey_in *in)
{
	return DEVX_ADDR_OF(create_mkey_in, in, memory_key_mkey_entry);
}

/* As mlx5dv_create_mkey() does it */
static void mkey_begin(struct mkey_in *in, uint32_t pdn, unsigned int mode)
{
	void *mkc = mkc_of(in);

	memset(in, 0, sizeof(*in));
	DEVX_SET(create_mkey_in, in, opcode, MLX5_CMD_OP_CREATE_MKEY);
	DEVX_SET(mkc, mkc, access_mode_1_0, mode & 3);
	DEVX_SET(mkc, mkc, access_mode_4_2, mode >> 2);
	DEVX_SET(mkc, mkc, lr, 1);
	DEVX_SET(mkc, mkc, qpn, 0xffffff);
	DEVX_SET(mkc, mkc, pd, pdn);
	if (mode == MODE_MTT || mode == MODE_KSM)
		DEVX_SET(mkc, mkc, log_page_size, 12);
	if (mode != MODE_MTT && mode != MODE_KLM && mode != MODE_KSM)
		return;
	DEVX_SET(mkc, mkc, free, 1);
	DEVX_SET(mkc, mkc, umr_en, 1);
	DEVX_SET(mkc, mkc, translations_octword_size, 4);
}

static struct mlx5dv_devx_obj *mkey(struct side *s, struct mkey_in *in,
				    struct answer *out)
{
	return create(s, in, sizeof(*in), out);
}

static int query(struct mlx5dv_devx_obj *obj, uint16_t opcode, uint32_t id,
		 void *out, size_t outlen)
{
	uint32_t in[DEVX_ST_SZ_DW(query_qp_in)] = {};

	DEVX_SET(query_qp_in, in, opcode, opcode);
	DEVX_SET(query_qp_in, in, qpn, id);
	return mlx5dv_devx_obj_query(obj, in, sizeof(in), out, outlen);
}

TEST_F(devx, an_indirect_key_is_what_was_asked_for)
{
	uint32_t query_out[DEVX_ST_SZ_DW(query_mkey_out)];
	struct mlx5dv_devx_obj *obj;
	struct mkey_in in;
	struct answer out;
	void *mkc;

	mkey_begin(&in, self->a.pdn, MODE_KLM);
	DEVX_SET(mkc, mkc_of(&in), translations_octword_size, 12);
	DEVX_SET(mkc, mkc_of(&in), mkey_7_0, 0x5c);
	DEVX_SET(mkc, mkc_of(&in), en_rinval, 1);
	obj = mkey(&self->a, &in, &out);
	ASSERT_NE(NULL, obj);
	EXPECT_LE(16, id_of(&out));

	ASSERT_EQ(0, query(obj, MLX5_CMD_OP_QUERY_MKEY, id_of(&out), query_out,
			   sizeof(query_out)));
	mkc = DEVX_ADDR_OF(query_mkey_out, query_out, memory_key_mkey_entry);
	EXPECT_EQ(1, DEVX_GET(mkc, mkc, free));
	EXPECT_EQ(1, DEVX_GET(mkc, mkc, umr_en));
	EXPECT_EQ(1, DEVX_GET(mkc, mkc, lr));
	EXPECT_EQ(0, DEVX_GET(mkc, mkc, lw));
	EXPECT_EQ(1, DEVX_GET(mkc, mkc, en_rinval));
	EXPECT_EQ(MODE_KLM, DEVX_GET(mkc, mkc, access_mode_1_0));
	EXPECT_EQ(0xffffff, DEVX_GET(mkc, mkc, qpn));
	EXPECT_EQ(0x5c, DEVX_GET(mkc, mkc, mkey_7_0));
	EXPECT_EQ(self->a.pdn, DEVX_GET(mkc, mkc, pd));
	EXPECT_EQ(12, DEVX_GET(mkc, mkc, translations_octword_size));
	EXPECT_EQ(0, mlx5dv_devx_obj_destroy(obj));
}

/* A list in the command makes a key that is usable at once */
TEST_F(devx, hm_7_4_the_list_of_a_key_can_be_read)
{
	uint32_t in[DEVX_ST_SZ_DW(create_mkey_in) + 16] = {};
	uint32_t query_out[DEVX_ST_SZ_DW(create_mkey_in) + 16] = {};
	uint32_t *list = in + DEVX_ST_SZ_DW(create_mkey_in);
	struct mlx5dv_devx_obj *obj;
	struct answer out;

	mkey_begin((void *)in, self->a.pdn, MODE_KLM);
	DEVX_SET(create_mkey_in, in, translations_octword_actual_size, 4);
	for (int i = 0; i < 16; i++)
		list[i] = htobe32(0x01010101 * i);
	obj = create(&self->a, in, sizeof(in), &out);
	ASSERT_NE(NULL, obj);
	ASSERT_EQ(0, query(obj, MLX5_CMD_OP_QUERY_MKEY, id_of(&out), query_out,
			   sizeof(query_out)));
	EXPECT_EQ(0, memcmp(list, query_out + DEVX_ST_SZ_DW(create_mkey_in),
			    64));
	EXPECT_EQ(0, mlx5dv_devx_obj_destroy(obj));
}

TEST_F(devx, hm_2_6_no_key_that_is_an_address)
{
	static const unsigned int modes[] = {
		MODE_PA, MODE_MTT, 4, MODE_MEMIC, 6, 7, 8, 15, 16, 31,
	};
	struct mkey_in in;
	struct answer out;

	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
		mkey_begin(&in, self->a.pdn, modes[i]);
		DEVX_SET64(mkc, mkc_of(&in), len, 4096);
		EXPECT_EQ(NULL, mkey(&self->a, &in, &out));
		EXPECT_EQ(EREMOTEIO, errno)
			TH_LOG("mode %u", modes[i]);
		EXPECT_EQ(BAD_PARAM, status_of(&out))
			TH_LOG("mode %u", modes[i]);
	}
	/* and the length that would make it all memory */
	mkey_begin(&in, self->a.pdn, MODE_PA);
	DEVX_SET(mkc, mkc_of(&in), length64, 1);
	EXPECT_EQ(NULL, mkey(&self->a, &in, &out));
	EXPECT_EQ(SYNDROME(CREATE_MKEY, 6), syndrome_of(&out));
}

/* The kernel's sanitizers would tell if a mailbox were read beyond its end */
TEST_F(devx, short_mailboxes)
{
	static const struct {
		uint16_t opcode;
		size_t least;
	} t[] = {
		{ MLX5_CMD_OP_CREATE_MKEY, 0x50 },
		{ MLX5_CMD_OP_CREATE_CQ, DEVX_ST_SZ_BYTES(create_cq_in) },
		{ MLX5_CMD_OP_CREATE_QP, DEVX_ST_SZ_BYTES(create_qp_in) },
	};
	uint32_t in[DEVX_ST_SZ_DW(create_mkey_in)] = {};
	struct answer out;

	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		DEVX_SET(create_qp_in, in, opcode, t[i].opcode);
		for (size_t len = 16; len < t[i].least; len += 16) {
			EXPECT_EQ(NULL, create(&self->a, in, len, &out));
			EXPECT_EQ(EINVAL, errno)
				TH_LOG("opcode %#x, %zu bytes", t[i].opcode,
				       len);
		}
	}
}

TEST_F(devx, hm_13_6_what_is_not_offered_is_refused)
{
	struct mlx5dv_mkey_init_attr attr = {
		.pd = self->a.pd, .max_entries = 3,
		.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT,
	};
	/* words of the MKC: BSF, its size, crypto, TPH (HM 2.3) */
	static const struct {
		unsigned int at;
		uint32_t bits;
	} t[] = {
		{ 0x0c, 1u << 30 }, { 0x20, 4 }, { 0x3c, 1u << 27 },
		{ 0x3c, 1u << 26 }, { 0x3c, 1u << 24 }, { 0x3c, 1u << 16 },
	};
	struct mkey_in in;
	struct answer out;
	uint32_t *word;

	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		mkey_begin(&in, self->a.pdn, MODE_KLM);
		word = (uint32_t *)((char *)mkc_of(&in) + t[i].at);
		*word |= htobe32(t[i].bits);
		EXPECT_EQ(NULL, mkey(&self->a, &in, &out));
		EXPECT_EQ(SYNDROME(CREATE_MKEY, 5), syndrome_of(&out))
			TH_LOG("word %#x, bits %#x", t[i].at, t[i].bits);
	}
	/* CROSSING is an access mode */
	mkey_begin(&in, self->a.pdn, 6);
	EXPECT_EQ(NULL, mkey(&self->a, &in, &out));
	EXPECT_EQ(SYNDROME(CREATE_MKEY, 6), syndrome_of(&out));

	/* and what mlx5dv says to who asks it for them */
	attr.create_flags |= MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE;
	EXPECT_EQ(NULL, mlx5dv_create_mkey(&attr));
	EXPECT_EQ(EOPNOTSUPP, errno);
	attr.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT |
			    MLX5DV_MKEY_INIT_ATTR_FLAGS_CRYPTO;
	EXPECT_EQ(NULL, mlx5dv_create_mkey(&attr));
	EXPECT_EQ(EOPNOTSUPP, errno);
}

TEST_F(devx, hm_7_6_a_key_is_nobody_elses)
{
	uint32_t query_out[DEVX_ST_SZ_DW(query_mkey_out)];
	struct mlx5dv_devx_obj *mine, *theirs;
	struct answer mine_out, theirs_out, out;
	struct mkey_in in;

	mkey_begin(&in, self->a.pdn, MODE_KLM);
	mine = mkey(&self->a, &in, &mine_out);
	ASSERT_NE(NULL, mine);
	/* the same PD, by its number, from somebody else's context */
	EXPECT_EQ(NULL, mkey(&self->b, &in, &out));
	EXPECT_EQ(EREMOTEIO, errno);
	EXPECT_EQ(BAD_RES, status_of(&out));
	EXPECT_EQ(SYNDROME(CREATE_MKEY, 9), syndrome_of(&out));

	mkey_begin(&in, self->b.pdn, MODE_KLM);
	theirs = mkey(&self->b, &in, &theirs_out);
	ASSERT_NE(NULL, theirs);
	ASSERT_NE(id_of(&mine_out), id_of(&theirs_out));
	/* a handle is good for its own key only, in either direction */
	EXPECT_EQ(EINVAL, query(theirs, MLX5_CMD_OP_QUERY_MKEY,
				id_of(&mine_out), query_out,
				sizeof(query_out)));
	EXPECT_EQ(EINVAL, query(mine, MLX5_CMD_OP_QUERY_MKEY,
				id_of(&theirs_out), query_out,
				sizeof(query_out)));
	/* and for its own kind of object */
	EXPECT_EQ(EINVAL, query(mine, MLX5_CMD_OP_QUERY_QP, id_of(&mine_out),
				query_out, sizeof(query_out)));
	EXPECT_EQ(EINVAL, query(mine, MLX5_CMD_OP_DESTROY_MKEY,
				id_of(&mine_out), query_out,
				sizeof(query_out)));
	EXPECT_EQ(0, mlx5dv_devx_obj_destroy(theirs));
	EXPECT_EQ(0, query(mine, MLX5_CMD_OP_QUERY_MKEY, id_of(&mine_out),
			   query_out, sizeof(query_out)));
	EXPECT_EQ(0, mlx5dv_devx_obj_destroy(mine));
}

TEST_F(devx, a_uid_in_the_command_is_not_believed)
{
	struct mkey_in in;
	struct answer out;

	for (uint32_t uid = 0; uid < 64; uid++) {
		mkey_begin(&in, self->a.pdn, MODE_KLM);
		DEVX_SET(create_mkey_in, &in, uid, uid);
		EXPECT_EQ(NULL, mkey(&self->b, &in, &out));
		EXPECT_EQ(SYNDROME(CREATE_MKEY, 9), syndrome_of(&out))
			TH_LOG("uid %u", uid);
	}
}

/* PDs and transport domains by command; both are used up by nothing else */
TEST_F(devx, protection_domains)
{
	uint32_t in[DEVX_ST_SZ_DW(alloc_pd_in)] = {};
	struct mlx5dv_devx_obj *pd, *key, *td;
	struct answer out, key_out;
	struct mkey_in key_in;

	DEVX_SET(alloc_pd_in, in, opcode, MLX5_CMD_OP_ALLOC_PD);
	pd = create(&self->a, in, sizeof(in), &out);
	ASSERT_NE(NULL, pd);
	mkey_begin(&key_in, id_of(&out), MODE_KSM);
	EXPECT_EQ(NULL, mkey(&self->b, &key_in, &key_out));
	key = mkey(&self->a, &key_in, &key_out);
	ASSERT_NE(NULL, key);
	EXPECT_EQ(EBUSY, mlx5dv_devx_obj_destroy(pd));
	EXPECT_EQ(0, mlx5dv_devx_obj_destroy(key));
	EXPECT_EQ(0, mlx5dv_devx_obj_destroy(pd));

	DEVX_SET(alloc_pd_in, in, opcode, MLX5_CMD_OP_ALLOC_TRANSPORT_DOMAIN);
	td = create(&self->a, in, sizeof(in), &out);
	ASSERT_NE(NULL, td);
	EXPECT_EQ(0, mlx5dv_devx_obj_destroy(td));
}

/* Memory for queues */

TEST_F(devx, a_umem_pins_its_pages)
{
	struct mlx5dv_devx_umem_in in = { .access = IBV_ACCESS_LOCAL_WRITE };
	struct mlx5dv_devx_umem *umem;
	long before = pinned_kib();
	char *buf = mem_scattered(4 * PAGE);

	ASSERT_NE(NULL, buf);
	umem = mlx5dv_devx_umem_reg(self->a.r.ctx, buf, 4 * PAGE,
				    IBV_ACCESS_LOCAL_WRITE);
	ASSERT_NE(NULL, umem);
	EXPECT_EQ(before + 16, pinned_kib());
	EXPECT_EQ(0, mlx5dv_devx_umem_dereg(umem));
	EXPECT_EQ(before, pinned_kib());

	/* from the middle of a page into another */
	umem = mlx5dv_devx_umem_reg(self->a.r.ctx, buf + 4000, 192,
				    IBV_ACCESS_LOCAL_WRITE);
	ASSERT_NE(NULL, umem);
	EXPECT_EQ(before + 8, pinned_kib());
	EXPECT_EQ(0, mlx5dv_devx_umem_dereg(umem));

	/* a page size that small pages cannot have */
	in.addr = buf;
	in.size = 4 * PAGE;
	in.pgsz_bitmap = HUGE;
	EXPECT_EQ(NULL, mlx5dv_devx_umem_reg_ex(self->a.r.ctx, &in));
	EXPECT_EQ(EINVAL, errno);
	in.pgsz_bitmap = 0;
	EXPECT_EQ(NULL, mlx5dv_devx_umem_reg_ex(self->a.r.ctx, &in));
	EXPECT_EQ(EINVAL, errno);
	in.pgsz_bitmap = HUGE | PAGE;
	umem = mlx5dv_devx_umem_reg_ex(self->a.r.ctx, &in);
	ASSERT_NE(NULL, umem);
	EXPECT_EQ(0, mlx5dv_devx_umem_dereg(umem));

	/* what cannot be registered */
	EXPECT_EQ(NULL, mlx5dv_devx_umem_reg(self->a.r.ctx, buf, 0,
					     IBV_ACCESS_LOCAL_WRITE));
	EXPECT_EQ(NULL, mlx5dv_devx_umem_reg(self->a.r.ctx, buf, PAGE,
					     IBV_ACCESS_REMOTE_WRITE));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(NULL, mlx5dv_devx_umem_reg(self->a.r.ctx, buf, PAGE,
					     IBV_ACCESS_LOCAL_WRITE |
					     IBV_ACCESS_ON_DEMAND));
	ASSERT_EQ(0, mprotect(buf + PAGE, PAGE, PROT_READ));
	EXPECT_EQ(NULL, mlx5dv_devx_umem_reg(self->a.r.ctx, buf, 2 * PAGE,
					     IBV_ACCESS_LOCAL_WRITE));
	EXPECT_EQ(EFAULT, errno);
	umem = mlx5dv_devx_umem_reg(self->a.r.ctx, buf, 2 * PAGE, 0);
	ASSERT_NE(NULL, umem);
	EXPECT_EQ(0, mlx5dv_devx_umem_dereg(umem));
	ASSERT_EQ(0, munmap(buf + PAGE, PAGE));
	EXPECT_EQ(NULL, mlx5dv_devx_umem_reg(self->a.r.ctx, buf, 2 * PAGE, 0));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(before, pinned_kib());
}

/* Queues. Everything of one lies in one umem, at odd places of it. */

#define LOG_CQ		5
#define LOG_SQ		5
#define CQ_AT		(PAGE - 64)	/* a ring over the edge of a page */
#define CQ_DBR_AT	(4 * PAGE - 8)
#define QP_AT		(5 * PAGE + 192)
#define QP_DBR_AT	40
#define UMEM_LEN	(8 * PAGE)

struct queue {
	char *buf;
	struct mlx5dv_devx_umem *umem;
	struct mlx5dv_devx_uar *uar;
	struct mlx5dv_devx_obj *cq, *qp;
	uint32_t cqn, qpn, eqn;
	struct raw raw;
};

struct cq_in {
	uint32_t dw[DEVX_ST_SZ_DW(create_cq_in)];
};

struct qp_in {
	uint32_t dw[DEVX_ST_SZ_DW(create_qp_in)];
};

static int queue_open(struct side *s, struct queue *q)
{
	memset(q, 0, sizeof(*q));
	q->buf = mem_scattered(UMEM_LEN);
	if (!q->buf)
		return -ENOMEM;
	/* fresh CQEs belong to the HCA, and an arm word to nobody */
	memset(q->buf, 0, UMEM_LEN);
	memset(q->buf + CQ_AT, 0xf0, 64 << LOG_CQ);
	q->umem = mlx5dv_devx_umem_reg(s->r.ctx, q->buf, UMEM_LEN,
				       IBV_ACCESS_LOCAL_WRITE);
	q->uar = mlx5dv_devx_alloc_uar(s->r.ctx, MLX5DV_UAR_ALLOC_TYPE_NC);
	if (!q->umem || !q->uar)
		return -errno;
	return -mlx5dv_devx_query_eqn(s->r.ctx, 0, &q->eqn);
}

static void queue_close(struct queue *q)
{
	if (q->qp)
		mlx5dv_devx_obj_destroy(q->qp);
	if (q->cq)
		mlx5dv_devx_obj_destroy(q->cq);
	if (q->uar)
		mlx5dv_devx_free_uar(q->uar);
	if (q->umem)
		mlx5dv_devx_umem_dereg(q->umem);
	if (q->buf)
		munmap(q->buf, UMEM_LEN);
}

static void cq_begin(struct cq_in *in, struct queue *q)
{
	void *cqc = DEVX_ADDR_OF(create_cq_in, in, cq_context);

	memset(in, 0, sizeof(*in));
	DEVX_SET(create_cq_in, in, opcode, MLX5_CMD_OP_CREATE_CQ);
	DEVX_SET(cq_in_umem, in, cq_umem_id, q->umem->umem_id);
	DEVX_SET64(cq_in_umem, in, cq_umem_offset, CQ_AT);
	DEVX_SET(cqc_umem, cqc, dbr_umem_id, q->umem->umem_id);
	DEVX_SET64(cqc, cqc, dbr_addr, CQ_DBR_AT);
	DEVX_SET(cqc, cqc, log_cq_size, LOG_CQ);
	DEVX_SET(cqc, cqc, uar_page, q->uar->page_id);
	DEVX_SET(cqc, cqc, c_eqn_or_apu_element, q->eqn);
}

static void qp_begin(struct qp_in *in, struct side *s, struct queue *q)
{
	void *qpc = DEVX_ADDR_OF(create_qp_in, in, qpc);

	memset(in, 0, sizeof(*in));
	DEVX_SET(create_qp_in, in, opcode, MLX5_CMD_OP_CREATE_QP);
	DEVX_SET(create_qp_in, in, wq_umem_id, q->umem->umem_id);
	DEVX_SET64(create_qp_in, in, wq_umem_offset, QP_AT);
	DEVX_SET(qpc_umem, qpc, dbr_umem_id, q->umem->umem_id);
	DEVX_SET64(qpc, qpc, dbr_addr, QP_DBR_AT);
	DEVX_SET(qpc, qpc, st, ST_RC);
	DEVX_SET(qpc, qpc, pm_state, PM_MIGRATED);
	DEVX_SET(qpc, qpc, pd, s->pdn);
	DEVX_SET(qpc, qpc, uar_page, q->uar->page_id);
	DEVX_SET(qpc, qpc, cqn_snd, q->cqn);
	DEVX_SET(qpc, qpc, cqn_rcv, q->cqn);
	DEVX_SET(qpc, qpc, log_sq_size, LOG_SQ);
	DEVX_SET(qpc, qpc, rq_type, RQ_REGULAR);
	DEVX_SET(qpc, qpc, log_rq_size, 2);
	DEVX_SET(qpc, qpc, log_rq_stride, 2);
}

#define RQ_BYTES	(4 * 64)

static int queue_make(struct side *s, struct queue *q)
{
	struct answer out;
	struct cq_in cq;
	struct qp_in qp;

	cq_begin(&cq, q);
	q->cq = create(s, &cq, sizeof(cq), &out);
	if (!q->cq)
		return -errno;
	q->cqn = id_of(&out);
	qp_begin(&qp, s, q);
	q->qp = create(s, &qp, sizeof(qp), &out);
	if (!q->qp)
		return -errno;
	q->qpn = id_of(&out);

	q->raw.qpn = q->qpn;
	q->raw.qp.sq.buf = q->buf + QP_AT + RQ_BYTES;
	q->raw.qp.sq.wqe_cnt = 1 << LOG_SQ;
	q->raw.qp.dbrec = (void *)(q->buf + QP_DBR_AT);
	q->raw.qp.bf.reg = q->uar->reg_addr;
	q->raw.cq.buf = q->buf + CQ_AT;
	q->raw.cq.cqe_cnt = 1 << LOG_CQ;
	q->raw.cq.cqe_size = 64;
	q->raw.cq.dbrec = (void *)(q->buf + CQ_DBR_AT);
	return 0;
}

/* Connects the queue pair to itself. 0, or an errno, or -1 - status */
static int queue_connect(struct side *s, struct queue *q)
{
	static const uint16_t opcodes[] = {
		MLX5_CMD_OP_RST2INIT_QP, MLX5_CMD_OP_INIT2RTR_QP,
		MLX5_CMD_OP_RTR2RTS_QP,
	};
	uint32_t out[DEVX_ST_SZ_DW(rst2init_qp_out)];
	uint32_t in[DEVX_ST_SZ_DW(rst2init_qp_in)];
	void *qpc = DEVX_ADDR_OF(rst2init_qp_in, in, qpc), *path;
	int err;

	for (int i = 0; i < 3; i++) {
		memset(in, 0, sizeof(in));
		DEVX_SET(rst2init_qp_in, in, opcode, opcodes[i]);
		DEVX_SET(rst2init_qp_in, in, qpn, q->qpn);
		DEVX_SET(qpc, qpc, rre, 1);
		DEVX_SET(qpc, qpc, rwe, 1);
		DEVX_SET(qpc, qpc, mtu, 3);
		DEVX_SET(qpc, qpc, log_msg_max, 20);
		DEVX_SET(qpc, qpc, remote_qpn, q->qpn);
		DEVX_SET(qpc, qpc, retry_count, 7);
		path = DEVX_ADDR_OF(qpc, qpc, primary_address_path);
		DEVX_SET(ads, path, vhca_port_num, 1);
		DEVX_SET(ads, path, src_addr_index, s->r.gid_index);
		DEVX_SET(ads, path, hop_limit, 64);
		DEVX_SET(ads, path, ack_timeout, 14);
		memcpy(DEVX_ADDR_OF(ads, path, rgid_rip), s->r.gid.raw, 16);
		err = mlx5dv_devx_obj_modify(q->qp, in, sizeof(in), out,
					     sizeof(out));
		if (err)
			return err;
	}
	return 0;
}

TEST_F(devx, a_queue_pair_of_commands_alone)
{
	uint32_t out[DEVX_ST_SZ_DW(query_qp_out)];
	struct raw_wqe w;
	struct raw_cqe cqe;
	struct ibv_mr *mr;
	struct queue q;
	uint64_t *buf;

	buf = mem_pages(2 * PAGE);
	ASSERT_NE(NULL, buf);
	mr = ibv_reg_mr(self->a.pd, buf, 2 * PAGE, ACCESS_ALL);
	ASSERT_NE(NULL, mr);
	ASSERT_EQ(0, queue_open(&self->a, &q));
	ASSERT_EQ(0, queue_make(&self->a, &q));
	ASSERT_EQ(0, queue_connect(&self->a, &q));

	/* several laps of both rings */
	for (uint64_t i = 1; i <= 100; i++) {
		buf[0] = i * 0x1234567;
		raw_begin(&w, &q.raw, MLX5_OPCODE_RDMA_WRITE,
			  MLX5_WQE_CTRL_CQ_UPDATE);
		raw_remote(&w, AT(buf) + PAGE, mr->rkey);
		raw_data(&w, AT(buf), 8, mr->lkey);
		raw_post(&q.raw, &w);
		ASSERT_EQ(1, raw_wait(&q.raw, &cqe, WAIT_MS));
		ASSERT_EQ(MLX5_CQE_REQ, cqe.opcode);
		ASSERT_EQ(i * 0x1234567, buf[PAGE / 8]);
	}

	ASSERT_EQ(0, query(q.qp, MLX5_CMD_OP_QUERY_QP, q.qpn, out,
			   sizeof(out)));
	EXPECT_EQ(3, DEVX_GET(query_qp_out, out, qpc.state));
	EXPECT_EQ(100, DEVX_GET(query_qp_out, out, qpc.hw_sq_wqebb_counter));
	ASSERT_EQ(0, query(q.cq, MLX5_CMD_OP_QUERY_CQ, q.cqn, out,
			   sizeof(out)));
	EXPECT_EQ(100, DEVX_GET(query_cq_out, out,
				cq_context.producer_counter));

	/* what is in use cannot go */
	EXPECT_EQ(EBUSY, mlx5dv_devx_umem_dereg(q.umem));
	EXPECT_EQ(EBUSY, mlx5dv_devx_obj_destroy(q.cq));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
	EXPECT_EQ(EBUSY, ibv_dealloc_pd(self->a.pd));
	queue_close(&q);
}

/* The error reaches nobody but the owner of the CQ: there is no verbs object */
TEST_F(devx, errors_of_such_a_queue_pair)
{
	struct ibv_async_event event;
	struct raw_cqe cqe;
	struct raw_wqe w;
	struct queue q;

	ASSERT_EQ(0, queue_open(&self->a, &q));
	ASSERT_EQ(0, queue_make(&self->a, &q));
	ASSERT_EQ(0, queue_connect(&self->a, &q));
	raw_begin(&w, &q.raw, MLX5_OPCODE_RDMA_WRITE, MLX5_WQE_CTRL_CQ_UPDATE);
	raw_remote(&w, AT(q.buf), 0x123400);
	raw_data(&w, AT(q.buf), 8, 0x567800);
	raw_post(&q.raw, &w);
	ASSERT_EQ(1, raw_wait(&q.raw, &cqe, WAIT_MS));
	EXPECT_EQ(MLX5_CQE_REQ_ERR, cqe.opcode);
	EXPECT_EQ(MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, cqe.syndrome);
	EXPECT_EQ(0, wait_async(&self->a.r, &event, QUIET_MS));
	EXPECT_EQ(0, wait_async(&self->b.r, &event, QUIET_MS));
	queue_close(&q);
}

static void expect_refused(struct __test_metadata *_metadata, struct side *s,
			   void *in, size_t inlen, int err, uint8_t status,
			   const char *what)
{
	struct answer out;

	EXPECT_EQ(NULL, create(s, in, inlen, &out))
		TH_LOG("%s", what);
	EXPECT_EQ(err, errno)
		TH_LOG("%s", what);
	EXPECT_EQ(status, status_of(&out))
		TH_LOG("%s", what);
}

TEST_F(devx, a_completion_queue_needs_what_is_its_owners)
{
	struct queue q, other;
	struct mlx5dv_devx_umem *umem;
	struct cq_in in;
	void *cqc = DEVX_ADDR_OF(create_cq_in, &in, cq_context);

#define REFUSED(err, status, what) \
	expect_refused(_metadata, &self->a, &in, sizeof(in), err, status, what)

	ASSERT_EQ(0, queue_open(&self->a, &q));
	ASSERT_EQ(0, queue_open(&self->b, &other));

	cq_begin(&in, &q);
	DEVX_SET(cq_in_umem, &in, cq_umem_id, other.umem->umem_id);
	REFUSED(EREMOTEIO, BAD_RES, "ring in a foreign umem");
	cq_begin(&in, &q);
	DEVX_SET(cqc_umem, cqc, dbr_umem_id, other.umem->umem_id);
	REFUSED(EREMOTEIO, BAD_RES, "record in a foreign umem");
	cq_begin(&in, &q);
	DEVX_SET(cq_in_umem, &in, cq_umem_id, 0);
	REFUSED(EREMOTEIO, BAD_RES, "no umem: the addresses in the command");
	cq_begin(&in, &q);
	DEVX_SET(cqc, cqc, uar_page, other.uar->page_id);
	REFUSED(EINVAL, 0, "foreign UAR");
	cq_begin(&in, &q);
	DEVX_SET(cqc, cqc, c_eqn_or_apu_element, 0xff);
	REFUSED(EINVAL, 0, "no event queue");

	cq_begin(&in, &q);
	DEVX_SET64(cq_in_umem, &in, cq_umem_offset,
		   UMEM_LEN - (64 << LOG_CQ) + 64);
	REFUSED(EREMOTEIO, BAD_PARAM, "a ring longer than its umem");
	cq_begin(&in, &q);
	DEVX_SET64(cq_in_umem, &in, cq_umem_offset, -64ull);
	REFUSED(EREMOTEIO, BAD_PARAM, "a ring around the end of all addresses");
	cq_begin(&in, &q);
	DEVX_SET64(cq_in_umem, &in, cq_umem_offset, 32);
	REFUSED(EREMOTEIO, BAD_PARAM, "a ring of half CQEs");
	cq_begin(&in, &q);
	DEVX_SET64(cqc, cqc, dbr_addr, UMEM_LEN - 4);
	REFUSED(EREMOTEIO, BAD_PARAM, "half a record");

	/* a ring is written: memory that may only be read will not do */
	umem = mlx5dv_devx_umem_reg(self->a.r.ctx, q.buf, UMEM_LEN, 0);
	ASSERT_NE(NULL, umem);
	cq_begin(&in, &q);
	DEVX_SET(cq_in_umem, &in, cq_umem_id, umem->umem_id);
	REFUSED(EREMOTEIO, BAD_PARAM, "ring in memory to be read");
	EXPECT_EQ(0, mlx5dv_devx_umem_dereg(umem));
#undef REFUSED
	queue_close(&other);
	queue_close(&q);
}

/* Nobody gets to the queue of asynchronous events: there are fewer vectors than EQs */
TEST_F(devx, only_event_queues_for_completions)
{
	uint32_t eqn, least = ~0u;
	struct queue q;
	struct cq_in in;
	int n = 0;

	while (!mlx5dv_devx_query_eqn(self->a.r.ctx, n, &eqn)) {
		least = eqn < least ? eqn : least;
		n++;
	}
	EXPECT_EQ(self->a.r.ctx->num_comp_vectors, n);
	EXPECT_EQ(ENOENT, mlx5dv_devx_query_eqn(self->a.r.ctx, n, &eqn));
	ASSERT_EQ(0, queue_open(&self->a, &q));
	/* the first that was made is the other one */
	for (eqn = 0; eqn < least; eqn++) {
		cq_begin(&in, &q);
		DEVX_SET(create_cq_in, &in, cq_context.c_eqn_or_apu_element,
			 eqn);
		expect_refused(_metadata, &self->a, &in, sizeof(in), EINVAL, 0, "EQ");
	}
	queue_close(&q);
}

TEST_F(devx, a_queue_pair_needs_what_is_its_owners)
{
	struct queue q, other;
	struct qp_in in;
	void *qpc = DEVX_ADDR_OF(create_qp_in, &in, qpc);

#define REFUSED(err, status, what) \
	expect_refused(_metadata, &self->a, &in, sizeof(in), err, status, what)

	ASSERT_EQ(0, queue_open(&self->a, &q));
	ASSERT_EQ(0, queue_make(&self->a, &q));
	ASSERT_EQ(0, queue_open(&self->b, &other));
	ASSERT_EQ(0, queue_make(&self->b, &other));

	qp_begin(&in, &self->a, &q);
	DEVX_SET(qpc, qpc, pd, self->b.pdn);
	REFUSED(EREMOTEIO, BAD_RES, "foreign PD");
	qp_begin(&in, &self->a, &q);
	DEVX_SET(qpc, qpc, cqn_snd, other.cqn);
	REFUSED(EREMOTEIO, BAD_RES, "foreign send CQ");
	qp_begin(&in, &self->a, &q);
	DEVX_SET(qpc, qpc, cqn_rcv, other.cqn);
	REFUSED(EREMOTEIO, BAD_RES, "foreign receive CQ");
	qp_begin(&in, &self->a, &q);
	DEVX_SET(qpc, qpc, uar_page, other.uar->page_id);
	REFUSED(EINVAL, 0, "foreign UAR");
	qp_begin(&in, &self->a, &q);
	DEVX_SET(create_qp_in, &in, wq_umem_id, other.umem->umem_id);
	REFUSED(EREMOTEIO, BAD_RES, "queues in a foreign umem");
	qp_begin(&in, &self->a, &q);
	DEVX_SET(qpc_umem, qpc, dbr_umem_id, other.umem->umem_id);
	REFUSED(EREMOTEIO, BAD_RES, "record in a foreign umem");
	qp_begin(&in, &self->a, &q);
	DEVX_SET64(create_qp_in, &in, wq_umem_offset, UMEM_LEN - PAGE / 2);
	REFUSED(EREMOTEIO, BAD_PARAM, "queues longer than their umem");
	qp_begin(&in, &self->a, &q);
	DEVX_SET64(qpc, qpc, dbr_addr, 4);
	REFUSED(EREMOTEIO, BAD_PARAM, "record out of line");

	qp_begin(&in, &self->a, &q);
	DEVX_SET(qpc_umem, qpc, send_dbr_mode, 1);
	REFUSED(EREMOTEIO, BAD_PARAM, "no doorbell record");

	/* what only the kernel may have (HM 1.2, 8.6) */
	qp_begin(&in, &self->a, &q);
	DEVX_SET(qpc, qpc, rlky, 1);
	REFUSED(EREMOTEIO, BAD_PARAM, "all memory by resd_lkey");
	qp_begin(&in, &self->a, &q);
	DEVX_SET(qpc, qpc, st, ST_REG_UMR);
	REFUSED(EREMOTEIO, BAD_PARAM, "a UMR queue without a PD");
#undef REFUSED
	queue_close(&other);
	queue_close(&q);
}

/* One method of the UAR object; libmlx5 keeps the UARs that it has */
static int uar_call(struct ibv_context *ctx, uint16_t method,
		    struct ib_uverbs_attr *attrs, int n)
{
	struct {
		struct ib_uverbs_ioctl_hdr hdr;
		struct ib_uverbs_attr attrs[5];
	} call = {
		.hdr = {
			.length = sizeof(call.hdr) + n * sizeof(*attrs),
			.object_id = MLX5_IB_OBJECT_UAR, .method_id = method,
			.num_attrs = n, .driver_id = RDMA_DRIVER_MLX5,
		},
	};
	int err;

	memcpy(call.attrs, attrs, n * sizeof(*attrs));
	err = ioctl(ctx->cmd_fd, RDMA_VERBS_IOCTL, &call) ? -errno : 0;
	memcpy(attrs, call.attrs, n * sizeof(*attrs));
	return err;
}

TEST_F(devx, a_uar_stays_while_a_queue_rings_it)
{
	struct mlx5dv_devx_uar uar = {};
	uint64_t offset;
	uint32_t length;
	struct ib_uverbs_attr alloc[] = {
		{ .attr_id = MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE },
		{ .attr_id = MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, .len = 8,
		  .data = MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC },
		{ .attr_id = MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET,
		  .len = sizeof(offset), .data = AT(&offset) },
		{ .attr_id = MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH,
		  .len = sizeof(length), .data = AT(&length) },
		{ .attr_id = MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID,
		  .len = sizeof(uar.page_id), .data = AT(&uar.page_id) },
	};
	struct ib_uverbs_attr destroy = {
		.attr_id = MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE,
	};
	struct mlx5dv_devx_uar *own;
	struct queue q;

	for (int i = 0; i < 5; i++)
		alloc[i].flags = UVERBS_ATTR_F_MANDATORY;
	destroy.flags = UVERBS_ATTR_F_MANDATORY;
	ASSERT_EQ(0, uar_call(self->a.r.ctx, MLX5_IB_METHOD_UAR_OBJ_ALLOC,
			      alloc, 5));
	destroy.data = alloc[0].data;
	ASSERT_EQ(0, queue_open(&self->a, &q));
	EXPECT_NE(q.uar->page_id, uar.page_id);
	own = q.uar;
	q.uar = &uar;
	ASSERT_EQ(0, queue_make(&self->a, &q));
	EXPECT_EQ(-EBUSY, uar_call(self->a.r.ctx,
				   MLX5_IB_METHOD_UAR_OBJ_DESTROY, &destroy, 1));
	EXPECT_EQ(0, mlx5dv_devx_obj_destroy(q.qp));
	EXPECT_EQ(-EBUSY, uar_call(self->a.r.ctx,
				   MLX5_IB_METHOD_UAR_OBJ_DESTROY, &destroy, 1));
	EXPECT_EQ(0, mlx5dv_devx_obj_destroy(q.cq));
	EXPECT_EQ(0, uar_call(self->a.r.ctx, MLX5_IB_METHOD_UAR_OBJ_DESTROY,
			      &destroy, 1));
	q.qp = q.cq = NULL;
	q.uar = own;
	queue_close(&q);
}

/* Objects of the verbs by commands */

TEST_F(devx, queues_of_the_verbs_can_be_read_and_changed)
{
	uint32_t out[DEVX_ST_SZ_DW(query_qp_out)];
	uint32_t in[DEVX_ST_SZ_DW(query_qp_in)] = {};
	struct qp_cfg cfg = { .send_wr = 16 };
	struct mlx5dv_cq dv;
	struct mlx5dv_obj obj = { .cq = { .out = &dv } };
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	cq = ibv_create_cq(self->a.r.ctx, 63, NULL, NULL, 0);
	ASSERT_NE(NULL, cq);
	qp = qp_create(self->a.pd, cq, cq, &cfg);
	ASSERT_NE(NULL, qp);
	ASSERT_EQ(0, qp_connect(&self->a.r, qp, &cfg, qp->qp_num));
	obj.cq.in = cq;
	ASSERT_EQ(0, mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ));

	DEVX_SET(query_qp_in, in, opcode, MLX5_CMD_OP_QUERY_QP);
	DEVX_SET(query_qp_in, in, qpn, qp->qp_num);
	ASSERT_EQ(0, mlx5dv_devx_qp_query(qp, in, sizeof(in), out,
					  sizeof(out)));
	EXPECT_EQ(3, DEVX_GET(query_qp_out, out, qpc.state));
	EXPECT_EQ(self->a.pdn, DEVX_GET(query_qp_out, out, qpc.pd));
	EXPECT_EQ(qp->qp_num, DEVX_GET(query_qp_out, out, qpc.remote_qpn));
	EXPECT_EQ(dv.cqn, DEVX_GET(query_qp_out, out, qpc.cqn_snd));
	/* where its record is in physical memory is not told */
	EXPECT_EQ(0, DEVX_GET64(query_qp_out, out, qpc.dbr_addr));

	DEVX_SET(query_qp_in, in, opcode, MLX5_CMD_OP_QUERY_CQ);
	DEVX_SET(query_qp_in, in, qpn, dv.cqn);
	ASSERT_EQ(0, mlx5dv_devx_cq_query(cq, in, sizeof(in), out,
					  sizeof(out)));
	EXPECT_EQ(6, DEVX_GET(query_cq_out, out, cq_context.log_cq_size));
	EXPECT_EQ(0, DEVX_GET64(query_cq_out, out, cq_context.dbr_addr));
	/* the number of another object, and another kind of object */
	DEVX_SET(query_qp_in, in, qpn, dv.cqn + 1);
	EXPECT_EQ(EINVAL, mlx5dv_devx_cq_query(cq, in, sizeof(in), out,
					       sizeof(out)));
	DEVX_SET(query_qp_in, in, qpn, dv.cqn);
	EXPECT_EQ(EINVAL, mlx5dv_devx_qp_query(qp, in, sizeof(in), out,
					       sizeof(out)));
	/* a command that changes something is no question, and the reverse */
	DEVX_SET(query_qp_in, in, opcode, MLX5_CMD_OP_2ERR_QP);
	DEVX_SET(query_qp_in, in, qpn, qp->qp_num);
	EXPECT_EQ(EINVAL, mlx5dv_devx_qp_query(qp, in, sizeof(in), out,
					       sizeof(out)));
	EXPECT_EQ(IBV_QPS_RTS, qp_state(qp));
	EXPECT_EQ(0, mlx5dv_devx_qp_modify(qp, in, sizeof(in), out,
					   sizeof(out)));
	EXPECT_EQ(IBV_QPS_ERR, qp_state(qp));
	EXPECT_EQ(0, ibv_destroy_qp(qp));
	EXPECT_EQ(0, ibv_destroy_cq(cq));
}

/* mlx5dv's keys: HM 12.10. A queue pair that asks itself. */

struct dv {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_qp_ex *qpx;
	struct mlx5dv_qp_ex *dvx;
	struct mlx5dv_mkey *mkey;
	char *buf, *flat;
	struct ibv_mr *mr, *flat_mr;
};

static int dv_open(struct side *s, struct dv *d, uint32_t mkey_flags)
{
	struct mlx5dv_mkey_init_attr mkey_attr = {
		.pd = s->pd, .max_entries = 3,
		.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT |
				mkey_flags,
	};
	struct mlx5dv_qp_init_attr dv_attr = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS,
		.send_ops_flags = MLX5DV_QP_EX_WITH_MR_LIST |
				  MLX5DV_QP_EX_WITH_MR_INTERLEAVED,
	};
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC, .pd = s->pd,
		.cap = {
			.max_send_wr = 16, .max_recv_wr = 16,
			.max_send_sge = 2, .max_recv_sge = 2,
			.max_inline_data = 512,
		},
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND |
				  IBV_QP_EX_WITH_SEND_WITH_INV |
				  IBV_QP_EX_WITH_RDMA_READ |
				  IBV_QP_EX_WITH_RDMA_WRITE,
	};
	struct qp_cfg cfg = {};

	memset(d, 0, sizeof(*d));
	d->cq = ibv_create_cq(s->r.ctx, 63, NULL, NULL, 0);
	if (!d->cq)
		return -errno;
	attr.send_cq = d->cq;
	attr.recv_cq = d->cq;
	d->qp = mlx5dv_create_qp(s->r.ctx, &attr, &dv_attr);
	if (!d->qp)
		return -errno;
	d->qpx = ibv_qp_to_qp_ex(d->qp);
	d->dvx = mlx5dv_qp_ex_from_ibv_qp_ex(d->qpx);
	d->mkey = mlx5dv_create_mkey(&mkey_attr);
	if (!d->mkey)
		return -errno;
	d->buf = mem_scattered(2 * PAGE);
	d->flat = mem_pages(PAGE);
	if (!d->buf || !d->flat)
		return -ENOMEM;
	d->mr = ibv_reg_mr(s->pd, d->buf, 2 * PAGE, ACCESS_ALL);
	d->flat_mr = ibv_reg_mr(s->pd, d->flat, PAGE, ACCESS_ALL);
	if (!d->mr || !d->flat_mr)
		return -errno;
	fill(d->buf, 2 * PAGE, 7);
	return qp_connect(&s->r, d->qp, &cfg, d->qp->qp_num);
}

static void dv_close(struct __test_metadata *_metadata, struct dv *d)
{
	EXPECT_EQ(0, ibv_destroy_qp(d->qp));
	EXPECT_EQ(0, mlx5dv_destroy_mkey(d->mkey));
	EXPECT_EQ(0, ibv_dereg_mr(d->flat_mr));
	EXPECT_EQ(0, ibv_dereg_mr(d->mr));
	EXPECT_EQ(0, ibv_destroy_cq(d->cq));
	munmap(d->buf, 2 * PAGE);
	munmap(d->flat, PAGE);
}

static int dv_run(struct dv *d, enum ibv_wr_opcode opcode, uint64_t addr,
		  uint32_t len)
{
	return run(d->qp, d->cq, &(struct op){
		.opcode = opcode, .laddr = AT(d->flat),
		.lkey = d->flat_mr->lkey, .len = len,
		.raddr = addr, .rkey = d->mkey->rkey,
	}, NULL);
}

static int dv_list(struct dv *d)
{
	struct ibv_sge sge[] = {
		{ AT(d->buf) + 5, 100, d->mr->lkey },
		{ AT(d->buf) + PAGE - 30, 60, d->mr->lkey },
		{ AT(d->buf), 4, d->mr->lkey },
	};

	ibv_wr_start(d->qpx);
	d->qpx->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	mlx5dv_wr_mr_list(d->dvx, d->mkey, ACCESS_ALL, 3, sge);
	return ibv_wr_complete(d->qpx) ?: wait_good(d->cq, 1);
}

TEST_F(devx, hm_12_10_list)
{
	struct dv d;

	ASSERT_EQ(0, dv_open(&self->a, &d, 0));
	/* free until it is configured */
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, dv_run(&d, IBV_WR_RDMA_READ, 0, 8));
	dv_close(_metadata, &d);

	ASSERT_EQ(0, dv_open(&self->a, &d, 0));
	ASSERT_EQ(0, dv_list(&d));
	ASSERT_EQ(0, dv_run(&d, IBV_WR_RDMA_READ, 0, 164));
	EXPECT_EQ(0, memcmp(d.flat, d.buf + 5, 100));
	EXPECT_EQ(0, memcmp(d.flat + 100, d.buf + PAGE - 30, 60));
	EXPECT_EQ(0, memcmp(d.flat + 160, d.buf, 4));
	/* over the seam of the first two, and over the page below it */
	ASSERT_EQ(0, dv_run(&d, IBV_WR_RDMA_READ, 90, 50));
	EXPECT_EQ(0, memcmp(d.flat, d.buf + 95, 10));
	EXPECT_EQ(0, memcmp(d.flat + 10, d.buf + PAGE - 30, 40));
	memset(d.flat, 0xaa, PAGE);
	ASSERT_EQ(0, dv_run(&d, IBV_WR_RDMA_WRITE, 98, 4));
	EXPECT_TRUE(all_bytes(d.buf + 103, 2, 0xaa));
	EXPECT_TRUE(all_bytes(d.buf + PAGE - 30, 2, 0xaa));
	EXPECT_EQ(-1, differs_at(d.buf + 105, 1000, 7, 105));
	EXPECT_EQ(-1, differs_at(d.buf, 103, 7, 0));
	EXPECT_EQ(-1, differs_at(d.buf + PAGE - 28, 1000, 7, PAGE - 28));
	/* and one byte too many */
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR,
		  dv_run(&d, IBV_WR_RDMA_READ, 160, 5));
	dv_close(_metadata, &d);
}

TEST_F(devx, hm_12_10_interleaved_hm_13_1)
{
	struct mlx5dv_mr_interleaved data[2];
	unsigned int round, in;
	struct dv d;

	ASSERT_EQ(0, dv_open(&self->a, &d, 0));
	for (int i = 0; i < 2; i++)
		data[i] = (struct mlx5dv_mr_interleaved){
			.addr = AT(d.buf) + 64 * i, .bytes_count = 8,
			.bytes_skip = 2, .lkey = d.mr->lkey,
		};
	ibv_wr_start(d.qpx);
	d.qpx->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	mlx5dv_wr_mr_interleaved(d.dvx, d.mkey, ACCESS_ALL, 3, 2, data);
	ASSERT_EQ(0, ibv_wr_complete(d.qpx));
	ASSERT_EQ(0, wait_good(d.cq, 1));
	ASSERT_EQ(0, dv_run(&d, IBV_WR_RDMA_READ, 0, 48));
	for (unsigned int i = 0; i < 48; i++) {
		round = i / 16;
		in = i % 16;
		EXPECT_EQ(d.buf[round * 10 + (in < 8 ? in : 64 + in - 8)],
			  d.flat[i])
			TH_LOG("byte %u", i);
	}
	for (unsigned int i = 0; i < 48; i++) {
		ASSERT_EQ(0, dv_run(&d, IBV_WR_RDMA_READ, i, 1));
		round = i / 16;
		in = i % 16;
		EXPECT_EQ(d.buf[round * 10 + (in < 8 ? in : 64 + in - 8)],
			  d.flat[0])
			TH_LOG("byte %u", i);
	}
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, dv_run(&d, IBV_WR_RDMA_READ, 48, 1));
	dv_close(_metadata, &d);
}

TEST_F(devx, hm_12_10_remote_invalidate)
{
	struct ibv_wc wc;
	struct dv d;
	bool invalidated = false;

	ASSERT_EQ(0, dv_open(&self->a, &d,
			     MLX5DV_MKEY_INIT_ATTR_FLAGS_REMOTE_INVALIDATE));
	ASSERT_EQ(0, dv_list(&d));
	ASSERT_EQ(0, dv_run(&d, IBV_WR_RDMA_READ, 0, 164));
	ASSERT_EQ(0, post_recv(d.qp, 1, AT(d.flat), 8, d.flat_mr->lkey));
	ibv_wr_start(d.qpx);
	d.qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_inv(d.qpx, d.mkey->rkey);
	/* it is the data that completes a request */
	ibv_wr_set_sge(d.qpx, d.flat_mr->lkey, AT(d.flat), 0);
	ASSERT_EQ(0, ibv_wr_complete(d.qpx));
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(1, wait_wc(d.cq, &wc, WAIT_MS));
		ASSERT_EQ(IBV_WC_SUCCESS, wc.status);
		if (wc.wc_flags & IBV_WC_WITH_INV) {
			EXPECT_EQ(d.mkey->rkey, wc.invalidated_rkey);
			invalidated = true;
		}
	}
	EXPECT_TRUE(invalidated);
	EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, dv_run(&d, IBV_WR_RDMA_READ, 0, 8));
	dv_close(_metadata, &d);
}

/* All goes with its context */

static void make_one_of_each(struct __test_metadata *_metadata,
			     struct side *s, struct queue *q)
{
	struct mlx5dv_mkey_init_attr attr = {
		.max_entries = 3,
		.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT,
	};
	uint32_t pd[DEVX_ST_SZ_DW(alloc_pd_in)] = {};
	struct mkey_in key;
	struct answer out;

	ASSERT_EQ(0, side_open(s));
	attr.pd = s->pd;
	ASSERT_EQ(0, queue_open(s, q));
	ASSERT_EQ(0, queue_make(s, q));
	ASSERT_EQ(0, queue_connect(s, q));
	mkey_begin(&key, s->pdn, MODE_KLM);
	ASSERT_NE(NULL, mkey(s, &key, &out));
	ASSERT_NE(NULL, mlx5dv_create_mkey(&attr));
	DEVX_SET(alloc_pd_in, pd, opcode, MLX5_CMD_OP_ALLOC_PD);
	ASSERT_NE(NULL, create(s, pd, sizeof(pd), &out));
}

#define MARK	"devx_test: no refusal from here on"

static void mark_log(void)
{
	int log = open("/dev/kmsg", O_WRONLY);

	if (log < 0 || write(log, MARK "\n", sizeof(MARK)) < 0)
		perror("/dev/kmsg");
	close(log);
}

/*
 * The kernel's log has a line for each command that is refused. It is a ring: what is
 * older than the mark may vanish meanwhile. Returns -1 if the mark itself has.
 */
static long refusals_since_mark(void)
{
	static const char count[] =
		"dmesg | awk 'BEGIN { n = -1 } /" MARK "/ { n = 0 } / refused: status/ && n >= 0 { n++ } END { print n }'";
	FILE *log = popen(count, "r");
	long n = -2;

	if (log) {
		if (fscanf(log, "%ld", &n) != 1)
			n = -2;
		pclose(log);
	}
	return n;
}

TEST_F(devx, everything_goes_with_the_context)
{
	long before = pinned_kib();
	struct side s;
	struct queue q;

	mark_log();
	for (int i = 0; i < 10; i++) {
		make_one_of_each(_metadata, &s, &q);
		EXPECT_LT(before, pinned_kib());
		rdma_close(&s.r);
		EXPECT_EQ(before, pinned_kib());
		munmap(q.buf, UMEM_LEN);
	}
	EXPECT_EQ(0, refusals_since_mark());
}

TEST_F(devx, case_29_everything_goes_with_the_process)
{
	struct side s;
	struct queue q;
	int status;
	pid_t pid;

	mark_log();
	for (int i = 0; i < 20; i++) {
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			make_one_of_each(_metadata, &s, &q);
			kill(getpid(), SIGKILL);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_TRUE(WIFSIGNALED(status));
	}
	EXPECT_EQ(0, refusals_since_mark());
}

TEST_HARNESS_MAIN
