// SPDX-License-Identifier: GPL-2.0
/*
 * User contexts: what a DEVX user may make, see and destroy, and what it may not: HM 2.4, 7.1 checks 3, 6, 9, 7.3, 7.4, 8.6.
 */
#include <linux/kernel.h>

#include "unit.h"

#define BAD_PARAM	MLX5_CMD_STAT_BAD_PARAM_ERR
#define BAD_RES		MLX5_CMD_STAT_BAD_RES_ERR
#define CREATE		MLX5_CMD_OP_CREATE_MKEY
#define QUERY		MLX5_CMD_OP_QUERY_MKEY
#define DESTROY		MLX5_CMD_OP_DESTROY_MKEY
#define MTT		MLX5_MKC_ACCESS_MODE_MTT
#define PA		MLX5_MKC_ACCESS_MODE_PA
#define KLMS		MLX5_MKC_ACCESS_MODE_KLMS
#define KSM		MLX5_MKC_ACCESS_MODE_KSM

/* QUERY_MKEY or DESTROY_MKEY on behalf of @uid */
static u8 command_of(struct machine *m, u16 uid, u16 opcode, u32 key)
{
	u32 in[MLX5_ST_SZ_DW(destroy_mkey_in)] = {}, out[MLX5_ST_SZ_DW(query_mkey_out)];

	MLX5_SET(destroy_mkey_in, in, opcode, opcode);
	MLX5_SET(destroy_mkey_in, in, uid, uid);
	MLX5_SET(destroy_mkey_in, in, mkey_index, key >> 8);
	return m_exec(m, in, sizeof(in), out, sizeof(out));
}

TEST("HM 7.1", user_contexts)
{
	u16 a = uctx_new(m), b = uctx_new(m);

	ASSERT_NE(a, 0);
	ASSERT_NE(b, 0);
	ASSERT_NE(a, b);
	ASSERT_EQ(uctx_free(m, a), 0);
	ASSERT_NE(uctx_free(m, a), 0);
	ASSERT_NE(uctx_free(m, 0), 0);
	ASSERT_NE(uctx_free(m, 0xffff), 0);
	ASSERT_EQ(uctx_free(m, b), 0);
	for (int i = 0; i < 300; i++)
		ASSERT_EQ(uctx_free(m, uctx_new(m)), 0);
}

TEST("HM-2.6 HM-7.1", what_a_user_may_make)
{
	u16 uid = uctx_new(m), gone = uctx_new(m);
	u32 pd = pd_new_of(m, uid), key;
	u64 mtt = 0x7000000000;
	struct key_attr a = { .uid = uid, .pd = pd, .len = 4096 };

	ASSERT_EQ(uctx_free(m, gone), 0);
	for (u8 mode = 0; mode < 32; mode++) {
		a.mode = mode;
		a.log_page = 12;
		a.octwords = mode == MTT || mode == KLMS || mode == KSM ? 4 : 0;
		a.mtt = NULL;
		a.nr = 0;
		if (mode == KLMS || mode == KSM)
			ASSERT_EQ(key_try(m, &a, &key), 0);
		else if (mode == MLX5_MKC_ACCESS_MODE_MEMIC)
			ASSERT_CMD(m, key_try(m, &a, &key), BAD_RES, CREATE, 18);
		else
			/* addresses on the bus among them: PA, and MTT with or without entries */
			ASSERT_CMD(m, key_try(m, &a, &key), BAD_PARAM, CREATE, 6);
	}
	a = (struct key_attr){ .uid = uid, .pd = pd, .mode = MTT, .len = 4096, .mtt = &mtt, .nr = 1 };
	ASSERT_CMD(m, key_try(m, &a, &key), BAD_PARAM, CREATE, 6);
	a.umr_en = true;
	a.free = true;
	ASSERT_CMD(m, key_try(m, &a, &key), BAD_PARAM, CREATE, 6);
	/* a context that is gone, or never was */
	a = (struct key_attr){ .uid = gone, .pd = pd, .mode = KLMS, .octwords = 4 };
	ASSERT_CMD(m, key_try(m, &a, &key), BAD_RES, CREATE, 3);
	a.uid = 0x7777;
	ASSERT_CMD(m, key_try(m, &a, &key), BAD_RES, CREATE, 3);
}

TEST("HM-7.1", domains_belong_to_their_context)
{
	u16 uid = uctx_new(m), other = uctx_new(m);
	u32 mine = pd_new_of(m, uid), theirs = pd_new_of(m, other), key;
	struct key_attr a = { .uid = uid, .pd = mine, .mode = KLMS, .octwords = 4 };

	ASSERT_EQ(key_try(m, &a, &key), 0);
	a.pd = theirs;
	ASSERT_CMD(m, key_try(m, &a, &key), BAD_RES, CREATE, 9);
	a.pd = m->pd;
	ASSERT_CMD(m, key_try(m, &a, &key), BAD_RES, CREATE, 9);
	/* the kernel makes keys in any */
	a.uid = 0;
	a.pd = mine;
	ASSERT_EQ(key_try(m, &a, &key), 0);
}

TEST("HM-7.6", foreign_keys)
{
	u16 uid = uctx_new(m), other = uctx_new(m);
	u32 pd = pd_new_of(m, uid);
	struct key_attr a = { .uid = uid, .pd = pd, .mode = KLMS, .octwords = 4 };
	u32 theirs = key_new(m, &a), kernels;

	a.uid = 0;
	kernels = key_new(m, &a);
	ASSERT_CMD(m, command_of(m, other, QUERY, theirs), BAD_RES, QUERY, 3);
	ASSERT_CMD(m, command_of(m, other, DESTROY, theirs), BAD_RES, DESTROY, 3);
	ASSERT_CMD(m, command_of(m, uid, QUERY, kernels), BAD_RES, QUERY, 3);
	ASSERT_CMD(m, command_of(m, uid, DESTROY, kernels), BAD_RES, DESTROY, 3);
	ASSERT_CMD(m, command_of(m, 0x7777, DESTROY, theirs), BAD_RES, DESTROY, 3);
	/* the driver looks at all of them when it resolves a fault */
	ASSERT_EQ(command_of(m, 0, QUERY, theirs), 0);
	ASSERT_EQ(command_of(m, uid, QUERY, theirs), 0);
	ASSERT_EQ(command_of(m, uid, DESTROY, theirs), 0);
	ASSERT_CMD(m, command_of(m, uid, QUERY, theirs), BAD_RES, QUERY, 3);
	ASSERT_EQ(command_of(m, 0, DESTROY, kernels), 0);
}

/* a key made by a program is used as any: by queues of its domain */
TEST("HM-12.10 HM-8.6", a_program_configures_its_own_key)
{
	u16 uid = uctx_new(m);
	u32 pd = pd_new_of(m, uid);
	struct pair p = pair_new_attr(m, (struct qp_attr){ .pd = pd }, (struct qp_attr){ .pd = pd }, (struct qp_path){});
	u32 mr = mr_new_attr(m, &p.dst, PAIR_OFFSET, p.len, p.d, (struct key_attr){ KEY_ALL, .pd = pd });
	struct key_attr a = { .uid = uid, .pd = pd, .mode = KLMS, .free = true, .umr_en = true, .octwords = 4, .en_rinval = true };
	u32 key = key_new(m, &a);
	u8 list[64] = {};
	struct umr u = { .key = key, .flags = UMR_INLINE, .octwords = 4, .list = list,
			 .mask = UMR_FREE | UMR_KEY | UMR_RIGHTS | UMR_LEN };
	struct mlx5_cqe64 c;

	p.lkey = mr_new_attr(m, &p.src, PAIR_OFFSET, p.len, p.s, (struct key_attr){ KEY_ALL, .pd = pd });
	klm_put(list, 0, (struct klm){ 0x100, mr, p.d });
	klm_put(list, 1, (struct klm){ 0x100, mr, p.d + 0x800 });
	UMR_SET(&u, rr, 1);
	UMR_SET(&u, lw, 1);
	UMR_SET64(&u, len, 0x200);
	UMR_OK(p.a, &u);
	ASSERT_EQ(read_by_peer(&p, key, 0, 0x200), 0);
	ASSERT_PATTERN(&p.src, PAIR_OFFSET, 0x100, 2, PAIR_OFFSET);
	ASSERT_PATTERN(&p.src, PAIR_OFFSET + 0x100, 0x100, 2, PAIR_OFFSET + 0x800);
	/* remote invalidation, if it was asked for at creation */
	post_recv(p.b, mr, p.d, 16);
	post_send_inval(p.a, p.lkey, p.s, 16, key);
	ASSERT(cq_poll(p.b->rcq, &c));
	ASSERT_EQ(c.op_own >> 4, MLX5_CQE_RESP_SEND_INV);
	EXPECT_CQE(p.a->scq, MLX5_CQE_REQ, p.a->sq_pi - 1);
	ASSERT_EQ(read_by_peer(&p, key, 0, 16), HCA_VS_LEVEL0 | HCA_CHECK_FREE);
}

/* a context goes when nothing of it is left; what is left holds it */
TEST("HM 7.4", a_context_with_objects)
{
	u16 uid = uctx_new(m);
	u32 pd = pd_new_of(m, uid), key;
	struct key_attr a = { .uid = uid, .pd = pd, .mode = KLMS, .octwords = 4 };
	u32 in[MLX5_ST_SZ_DW(dealloc_pd_in)] = {}, out[MLX5_ST_SZ_DW(dealloc_pd_out)];

	key = key_new(m, &a);
	ASSERT_NE(uctx_free(m, uid), 0);
	ASSERT_EQ(command_of(m, uid, DESTROY, key), 0);
	ASSERT_NE(uctx_free(m, uid), 0);
	MLX5_SET(dealloc_pd_in, in, opcode, MLX5_CMD_OP_DEALLOC_PD);
	MLX5_SET(dealloc_pd_in, in, uid, uid);
	MLX5_SET(dealloc_pd_in, in, pd, pd);
	m_must(m, in, sizeof(in), out, sizeof(out));
	ASSERT_EQ(uctx_free(m, uid), 0);
}

/* CREATE_QP of @st with flags, as @uid: 0 or the status */
static u8 qp_of(struct machine *m, u16 uid, u8 st, bool rlky, bool fre)
{
	u32 pd = pd_new_of(m, uid), in[MLX5_ST_SZ_DW(create_qp_in) + 4] = {}, out[MLX5_ST_SZ_DW(create_qp_out)];
	struct mem ring = mem_new(m, 4096), dbr = mem_new(m, 8);
	void *qpc = MLX5_ADDR_OF(create_qp_in, in, qpc);
	struct cq *cq = cq_new(m, (struct cq_attr){});

	MLX5_SET(create_qp_in, in, opcode, MLX5_CMD_OP_CREATE_QP);
	MLX5_SET(create_qp_in, in, uid, uid);
	MLX5_SET(qpc, qpc, st, st);
	MLX5_SET(qpc, qpc, pm_state, MLX5_QP_PM_MIGRATED);
	MLX5_SET(qpc, qpc, pd, st == MLX5_QP_ST_REG_UMR ? 0 : pd);
	MLX5_SET(qpc, qpc, uar_page, m->uar);
	MLX5_SET(qpc, qpc, rlky, rlky);
	MLX5_SET(qpc, qpc, fre, fre);
	MLX5_SET(qpc, qpc, cqn_snd, cq->cqn);
	MLX5_SET(qpc, qpc, cqn_rcv, cq->cqn);
	MLX5_SET(qpc, qpc, rq_type, MLX5_ZERO_LEN_RQ);
	MLX5_SET(qpc, qpc, log_sq_size, 4);
	MLX5_SET64(qpc, qpc, dbr_addr, dbr.dma[0]);
	MLX5_ARRAY_SET64(create_qp_in, in, pas, 0, ring.dma[0]);
	return m_exec(m, in, MLX5_ST_SZ_BYTES(create_qp_in) + 8, out, sizeof(out));
}

TEST("HM 8.6", queues_of_the_kernel_alone)
{
	u16 uid = uctx_new(m);

	/* what follows differs from this in nothing but the owner */
	ASSERT_EQ(qp_of(m, 0, MLX5_QP_ST_REG_UMR, false, false), 0);
	ASSERT_EQ(qp_of(m, 0, MLX5_QP_ST_RC, true, true), 0);
	ASSERT_CMD(m, qp_of(m, uid, MLX5_QP_ST_REG_UMR, false, false), BAD_PARAM, MLX5_CMD_OP_CREATE_QP, 2);
	ASSERT_NE(qp_of(m, uid, MLX5_QP_ST_RC, true, false), 0);
	ASSERT_NE(qp_of(m, uid, MLX5_QP_ST_RC, false, true), 0);
	/* 0xe, SYNC_UMR, is not offered to anybody */
	ASSERT_NE(qp_of(m, 0, 0xe, false, false), 0);
}
