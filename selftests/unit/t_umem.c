// SPDX-License-Identifier: GPL-2.0
/*
 * Umems: queues of a user context in memory that commands name by a number. HM 1.4, 7; the fields are those of the PRM that
 * hca/prm.h adds.
 */
#include <linux/kernel.h>
#include <linux/mlx5/mlx5_ifc.h>
#include <hca/prm.h>

#include "unit.h"

#define BAD_OP		MLX5_CMD_STAT_BAD_OP_ERR
#define BAD_PARAM	MLX5_CMD_STAT_BAD_PARAM_ERR
#define BAD_RES		MLX5_CMD_STAT_BAD_RES_ERR
#define BUSY		MLX5_CMD_STAT_RES_BUSY
#define BAD_INP_LEN	MLX5_CMD_STAT_BAD_INP_LEN_ERR
#define CREATE		MLX5_CMD_OP_CREATE_UMEM
#define DESTROY		MLX5_CMD_OP_DESTROY_UMEM

/* Where things are in the umem of a user: over page edges, and away from its beginning */
#define LOG_CQ		6
#define LOG_SQ		6
#define LOG_RQ		6
#define CQ_AT		(4096 - 128)
#define CQ2_AT		(3 * 4096 + 192)
#define QP_AT		(8 * 4096 - 64)
#define CQ_DBR_AT	(20 * 4096 - 8)
#define QP_DBR_AT	24
#define PAGES		24

struct umem_attr {
	u16 uid;
	u64 nr;			/* entries, 0 = all pages */
	u32 page_offset;
	bool read_only;
	u8 log_page;
};

static u8 umem_try(struct machine *m, const struct mem *mem, struct umem_attr a, u32 *id)
{
	u64 nr = a.nr ?: mem->nr;
	size_t inlen = MLX5_ST_SZ_BYTES(create_umem_in) + 8 * nr;
	u32 out[MLX5_ST_SZ_DW(create_umem_out)], *in = calloc(1, inlen);
	void *umem = MLX5_ADDR_OF(create_umem_in, in, umem);
	u8 status;

	MLX5_SET(create_umem_in, in, opcode, CREATE);
	MLX5_SET(create_umem_in, in, uid, a.uid);
	MLX5_SET(umem, umem, log_page_size, a.log_page);
	MLX5_SET(umem, umem, page_offset, a.page_offset);
	MLX5_SET64(umem, umem, num_of_mtt, nr);
	for (u64 i = 0; i < nr; i++)
		((__be64 *)MLX5_ADDR_OF(umem, umem, mtt))[i] = cpu_to_be64(mem->dma[i] | (a.read_only ? 1 : 3));
	status = m_exec(m, in, inlen, out, sizeof(out));
	*id = MLX5_GET(create_umem_out, out, umem_id);
	free(in);
	return status;
}

static u32 umem_new(struct machine *m, const struct mem *mem, struct umem_attr a)
{
	u32 id;

	ASSERT_EQ(umem_try(m, mem, a, &id), 0);
	ASSERT_NE(id, 0u);
	return id;
}

/* Every DESTROY_* is laid out like this one */
static u8 destroy(struct machine *m, u16 opcode, u16 uid, u32 id)
{
	u32 in[MLX5_ST_SZ_DW(destroy_umem_in)] = {}, out[MLX5_ST_SZ_DW(destroy_umem_out)];

	MLX5_SET(destroy_umem_in, in, opcode, opcode);
	MLX5_SET(destroy_umem_in, in, uid, uid);
	MLX5_SET(destroy_umem_in, in, umem_id, id);
	return m_exec(m, in, sizeof(in), out, sizeof(out));
}

static u32 uar_new_of(struct machine *m, u16 uid)
{
	u32 in[MLX5_ST_SZ_DW(alloc_uar_in)] = {}, out[MLX5_ST_SZ_DW(alloc_uar_out)];

	MLX5_SET(alloc_uar_in, in, opcode, MLX5_CMD_OP_ALLOC_UAR);
	MLX5_SET(alloc_uar_in, in, uid, uid);
	m_must(m, in, sizeof(in), out, sizeof(out));
	return MLX5_GET(alloc_uar_out, out, uar);
}

/* A user context with a umem; its doorbells are the machine's from here on */
struct user {
	struct machine *m;
	u16 uid;
	u32 pd, umem;
	struct mem mem;
	struct cq cq;
	struct qp qp;
};

static struct user user_new(struct machine *m)
{
	struct user u = { .m = m, .uid = uctx_new(m) };

	u.pd = pd_new_of(m, u.uid);
	m->uar = uar_new_of(m, u.uid);
	u.mem = mem_new(m, PAGES * 4096);
	u.umem = umem_new(m, &u.mem, (struct umem_attr){ .uid = u.uid });
	return u;
}

struct cq_in {
	u32 in[MLX5_ST_SZ_DW(create_cq_in)];
};

static struct cq_in cq_cmd(struct user *u)
{
	struct cq_in c = {};
	void *cqc = MLX5_ADDR_OF(create_cq_in, c.in, cq_context);

	MLX5_SET(create_cq_in, c.in, opcode, MLX5_CMD_OP_CREATE_CQ);
	MLX5_SET(create_cq_in, c.in, uid, u->uid);
	MLX5_SET(create_cq_in, c.in, cq_umem_valid, 1);
	MLX5_SET(cq_in_umem, c.in, cq_umem_id, u->umem);
	MLX5_SET64(cq_in_umem, c.in, cq_umem_offset, CQ_AT);
	MLX5_SET(cqc, cqc, dbr_umem_valid, 1);
	MLX5_SET(cqc_umem, cqc, dbr_umem_id, u->umem);
	MLX5_SET64(cqc, cqc, dbr_addr, CQ_DBR_AT);
	MLX5_SET(cqc, cqc, log_cq_size, LOG_CQ);
	MLX5_SET(cqc, cqc, uar_page, u->m->uar);
	MLX5_SET(cqc, cqc, c_eqn_or_apu_element, u->m->comp.eqn);
	return c;
}

static u8 cq_try(struct user *u, struct cq_in *c)
{
	u32 out[MLX5_ST_SZ_DW(create_cq_out)];
	u8 status = m_exec(u->m, c->in, sizeof(c->in), out, sizeof(out));

	u->cq.cqn = MLX5_GET(create_cq_out, out, cqn);
	return status;
}

/* What the machine knows of its own queues, for one in a umem */
static void user_cq(struct user *u)
{
	struct cq_in c = cq_cmd(u);

	memset(u->mem.cpu + CQ_AT, 0xf0, 64 << LOG_CQ);
	((__be32 *)(u->mem.cpu + CQ_DBR_AT))[1] = cpu_to_be32(2u << 28);
	u->cq = (struct cq){ .m = u->m, .log_size = LOG_CQ, .log_cqe = 6, .offset = CQ_AT, .ring = u->mem,
			     .dbr.cpu = u->mem.cpu + CQ_DBR_AT };
	ASSERT_EQ(cq_try(u, &c), 0);
}

struct qp_in {
	u32 in[MLX5_ST_SZ_DW(create_qp_in)];
};

static struct qp_in qp_create_cmd(struct user *u)
{
	struct qp_in q = {};
	void *qpc = MLX5_ADDR_OF(create_qp_in, q.in, qpc);

	MLX5_SET(create_qp_in, q.in, opcode, MLX5_CMD_OP_CREATE_QP);
	MLX5_SET(create_qp_in, q.in, uid, u->uid);
	MLX5_SET(create_qp_in, q.in, wq_umem_valid, 1);
	MLX5_SET(create_qp_in, q.in, wq_umem_id, u->umem);
	MLX5_SET64(create_qp_in, q.in, wq_umem_offset, QP_AT);
	MLX5_SET(qpc, qpc, dbr_umem_valid, 1);
	MLX5_SET(qpc_umem, qpc, dbr_umem_id, u->umem);
	MLX5_SET64(qpc, qpc, dbr_addr, QP_DBR_AT);
	MLX5_SET(qpc, qpc, st, MLX5_QP_ST_RC);
	MLX5_SET(qpc, qpc, pm_state, MLX5_QP_PM_MIGRATED);
	MLX5_SET(qpc, qpc, pd, u->pd);
	MLX5_SET(qpc, qpc, uar_page, u->m->uar);
	MLX5_SET(qpc, qpc, cqn_snd, u->cq.cqn);
	MLX5_SET(qpc, qpc, cqn_rcv, u->cq.cqn);
	MLX5_SET(qpc, qpc, log_rq_size, LOG_RQ);
	MLX5_SET(qpc, qpc, log_rq_stride, 6 - 4);
	MLX5_SET(qpc, qpc, log_sq_size, LOG_SQ);
	return q;
}

static u8 qp_try(struct user *u, struct qp_in *q)
{
	u32 out[MLX5_ST_SZ_DW(create_qp_out)];
	u8 status = m_exec(u->m, q->in, sizeof(q->in), out, sizeof(out));

	u->qp.qpn = MLX5_GET(create_qp_out, out, qpn);
	return status;
}

static void user_qp(struct user *u)
{
	struct qp_in q = qp_create_cmd(u);

	u->qp = (struct qp){ .m = u->m, .st = MLX5_QP_ST_RC, .pd = u->pd, .scq = &u->cq, .rcq = &u->cq, .log_sq = LOG_SQ,
			     .log_rq = LOG_RQ, .log_stride = 6, .log_msg_max = 31, .rq_offset = QP_AT,
			     .sq_offset = QP_AT + (64 << LOG_RQ), .ring = u->mem, .dbr.cpu = u->mem.cpu + QP_DBR_AT };
	ASSERT_EQ(qp_try(u, &q), 0);
}

TEST("HM 1.4", what_is_a_umem)
{
	u16 uid = uctx_new(m), gone = uctx_new(m);
	struct mem mem = mem_new(m, 8 * 4096), huge = mem_new_pages(m, 2 << 21, 21);
	u32 in[MLX5_ST_SZ_DW(create_umem_in) + 2] = {}, out[MLX5_ST_SZ_DW(create_umem_out)], id, other;
	void *umem = MLX5_ADDR_OF(create_umem_in, in, umem);

	ASSERT_EQ(uctx_free(m, gone), 0);
	id = umem_new(m, &mem, (struct umem_attr){ .uid = uid });
	other = umem_new(m, &mem, (struct umem_attr){ .uid = uid, .page_offset = 4095 });
	ASSERT_NE(id, other);
	ASSERT_NE(uctx_free(m, uid), 0);
	ASSERT_EQ(destroy(m, DESTROY, uid, id), 0);
	ASSERT_CMD(m, destroy(m, DESTROY, uid, id), BAD_RES, DESTROY, 2);
	ASSERT_EQ(destroy(m, DESTROY, uid, other), 0);
	id = umem_new(m, &huge, (struct umem_attr){ .uid = uid, .log_page = 9, .page_offset = (2 << 20) - 1 });
	ASSERT_EQ(destroy(m, DESTROY, uid, id), 0);

	ASSERT_CMD(m, umem_try(m, &mem, (struct umem_attr){ .uid = uid, .page_offset = 4096 }, &id), BAD_PARAM, CREATE, 3);
	ASSERT_CMD(m, umem_try(m, &mem, (struct umem_attr){ .uid = uid, .page_offset = ~0u }, &id), BAD_PARAM, CREATE, 3);
	ASSERT_CMD(m, umem_try(m, &mem, (struct umem_attr){ .uid = gone }, &id), BAD_RES, CREATE, 5);
	/* pages larger than they are: the rest is nobody's */
	ASSERT_CMD(m, umem_try(m, &mem, (struct umem_attr){ .uid = uid, .log_page = 1 }, &id), BAD_PARAM, CREATE, 0x11);

	MLX5_SET(create_umem_in, in, opcode, CREATE);
	MLX5_SET(create_umem_in, in, uid, uid);
	ASSERT_CMD(m, m_exec(m, in, sizeof(in), out, sizeof(out)), BAD_INP_LEN, CREATE, 2);	/* no page */
	MLX5_SET64(umem, umem, num_of_mtt, 2);
	ASSERT_CMD(m, m_exec(m, in, sizeof(in), out, sizeof(out)), BAD_INP_LEN, CREATE, 2);
	MLX5_SET64(umem, umem, num_of_mtt, ~0ull);
	ASSERT_CMD(m, m_exec(m, in, sizeof(in), out, sizeof(out)), BAD_INP_LEN, CREATE, 2);
	MLX5_SET64(umem, umem, num_of_mtt, 1);
	MLX5_SET(umem, umem, ats, 1);
	ASSERT_CMD(m, m_exec(m, in, sizeof(in), out, sizeof(out)), BAD_PARAM, CREATE, 3);
	MLX5_SET(create_umem_in, in, op_mod, 1);
	ASSERT_CMD(m, m_exec(m, in, sizeof(in), out, sizeof(out)), BAD_OP, CREATE, 1);
	ASSERT_EQ(uctx_free(m, uid), 0);
}

TEST("HM 7.4", a_umem_is_its_contexts)
{
	u16 uid = uctx_new(m), other = uctx_new(m);
	struct mem mem = mem_new(m, 8 * 4096);
	u32 id = umem_new(m, &mem, (struct umem_attr){ .uid = uid });

	ASSERT_CMD(m, destroy(m, DESTROY, other, id), BAD_RES, DESTROY, 2);
	ASSERT_CMD(m, destroy(m, DESTROY, 0, id), BAD_RES, DESTROY, 2);
	ASSERT_CMD(m, destroy(m, DESTROY, uid, id + 1), BAD_RES, DESTROY, 2);
	ASSERT_EQ(destroy(m, DESTROY, uid, id), 0);
}

TEST("HM 1.4", queues_in_a_umem)
{
	struct user u = user_new(m);
	struct mem data = mem_new(m, 2 * 4096);
	u32 in[MLX5_ST_SZ_DW(modify_cq_in)] = {}, out[MLX5_ST_SZ_DW(modify_cq_out)], key;
	void *cqc = MLX5_ADDR_OF(modify_cq_in, in, cq_context);
	struct mlx5_cqe64 c;

	user_cq(&u);
	ASSERT_CMD(m, destroy(m, DESTROY, u.uid, u.umem), BUSY, DESTROY, 3);
	user_qp(&u);
	qp_up(&u.qp, u.qp.qpn, (struct qp_path){});
	key = mr_new_attr(m, &data, 0, 2 * 4096, 0x10000, (struct key_attr){ KEY_ALL, .pd = u.pd });
	mem_fill(&data, 0, 4096, 3);
	/* more laps than one of every ring */
	for (int i = 0; i < 300; i++) {
		post_recv(&u.qp, key, 0x11000, 64);
		post_send(&u.qp, key, 0x10000 + i, 64);
		for (int n = 0; n < 2; n++) {
			ASSERT(cq_poll(&u.cq, &c));
			ASSERT(c.op_own >> 4 == MLX5_CQE_REQ || c.op_own >> 4 == MLX5_CQE_RESP_SEND);
		}
		cq_update(&u.cq);
		ASSERT_PATTERN(&data, 4096, 64, 3, i);
	}

	/* another ring, elsewhere in the same umem */
	memset(u.mem.cpu + CQ2_AT, 0xf0, 64 << LOG_CQ);
	MLX5_SET(modify_cq_in, in, opcode, MLX5_CMD_OP_MODIFY_CQ);
	MLX5_SET(modify_cq_in, in, op_mod, 1);
	MLX5_SET(modify_cq_in, in, uid, u.uid);
	MLX5_SET(modify_cq_in, in, cqn, u.cq.cqn);
	MLX5_SET(modify_cq_in, in, cq_umem_valid, 1);
	MLX5_SET(cq_in_umem, in, cq_umem_id, u.umem);
	MLX5_SET64(cq_in_umem, in, cq_umem_offset, CQ2_AT);
	MLX5_SET(cqc, cqc, log_cq_size, LOG_CQ);
	m_must(m, in, sizeof(in), out, sizeof(out));
	ASSERT(cq_poll(&u.cq, &c));
	ASSERT_EQ(c.op_own >> 4, MLX5_CQE_RESIZE_CQ);
	u.cq.offset = CQ2_AT;
	post_write(&u.qp, key, 0x10000, 8, key, 0x11000);
	ASSERT(cq_poll(&u.cq, &c));
	ASSERT_EQ(c.op_own >> 4, MLX5_CQE_REQ);

	ASSERT_CMD(m, destroy(m, MLX5_CMD_OP_DESTROY_CQ, u.uid, u.cq.cqn), BUSY, MLX5_CMD_OP_DESTROY_CQ, 2);
	ASSERT_EQ(destroy(m, MLX5_CMD_OP_DESTROY_QP, u.uid, u.qp.qpn), 0);
	ASSERT_CMD(m, destroy(m, DESTROY, u.uid, u.umem), BUSY, DESTROY, 3);
	ASSERT_EQ(destroy(m, MLX5_CMD_OP_DESTROY_CQ, u.uid, u.cq.cqn), 0);
	ASSERT_EQ(destroy(m, DESTROY, u.uid, u.umem), 0);
	/* nobody looks at it any more */
	mem_unmap(&u.mem);
}

TEST("HM 1.4", a_ring_lies_in_its_umem)
{
	struct user u = user_new(m), other = user_new(m);
	u32 read_only = umem_new(m, &u.mem, (struct umem_attr){ .uid = u.uid, .read_only = true });
	u32 odd = umem_new(m, &u.mem, (struct umem_attr){ .uid = u.uid, .page_offset = 8 });
	struct cq_in c;
	void *cqc = MLX5_ADDR_OF(create_cq_in, c.in, cq_context);

	m->uar = uar_new_of(m, u.uid);
#define REFUSED(status, check) \
	ASSERT_CMD(m, cq_try(&u, &c), status, MLX5_CMD_OP_CREATE_CQ, check)
#define RING(id, offset) ({ \
	c = cq_cmd(&u); \
	MLX5_SET(cq_in_umem, c.in, cq_umem_id, id); \
	MLX5_SET64(cq_in_umem, c.in, cq_umem_offset, offset); \
})
#define RECORD(id, offset) ({ \
	c = cq_cmd(&u); \
	MLX5_SET(cqc_umem, cqc, dbr_umem_id, id); \
	MLX5_SET64(cqc, cqc, dbr_addr, offset); \
})
	RING(other.umem, 0);
	REFUSED(BAD_RES, 0x13);
	RING(0, 0);
	REFUSED(BAD_RES, 0x13);
	RING(0xffffffff, 0);
	REFUSED(BAD_RES, 0x13);
	RING(u.umem, PAGES * 4096 - (64 << LOG_CQ) + 64);
	REFUSED(BAD_PARAM, 0x14);
	RING(u.umem, 1ull << 63);
	REFUSED(BAD_PARAM, 0x14);
	RING(u.umem, -64ull);
	REFUSED(BAD_PARAM, 0x14);
	RING(u.umem, 32);
	REFUSED(BAD_PARAM, 0x14);
	/* a CQE may not lie across two pages, wherever the umem begins */
	RING(odd, 0);
	REFUSED(BAD_PARAM, 0x14);
	RING(odd, 64);
	REFUSED(BAD_PARAM, 0x14);
	RING(read_only, CQ_AT);
	REFUSED(BAD_PARAM, 0x14);
	RECORD(other.umem, 0);
	REFUSED(BAD_RES, 0x13);
	RECORD(u.umem, PAGES * 4096);
	REFUSED(BAD_PARAM, 0x14);
	RECORD(u.umem, PAGES * 4096 - 4);
	REFUSED(BAD_PARAM, 0x14);
	RECORD(u.umem, 4);
	REFUSED(BAD_PARAM, 0x14);
	/* the HCA only reads records */
	RECORD(read_only, PAGES * 4096 - 8);
	ASSERT_EQ(cq_try(&u, &c), 0);
	ASSERT_EQ(destroy(m, MLX5_CMD_OP_DESTROY_CQ, u.uid, u.cq.cqn), 0);
	RING(odd, 56);
	ASSERT_EQ(cq_try(&u, &c), 0);
	ASSERT_EQ(destroy(m, MLX5_CMD_OP_DESTROY_CQ, u.uid, u.cq.cqn), 0);
	RING(u.umem, PAGES * 4096 - (64 << LOG_CQ));
	ASSERT_EQ(cq_try(&u, &c), 0);
	ASSERT_EQ(destroy(m, MLX5_CMD_OP_DESTROY_CQ, u.uid, u.cq.cqn), 0);
#undef REFUSED
	/* what was refused holds nothing */
	ASSERT_EQ(destroy(m, DESTROY, u.uid, odd), 0);
	ASSERT_EQ(destroy(m, DESTROY, u.uid, read_only), 0);
	ASSERT_EQ(destroy(m, DESTROY, u.uid, u.umem), 0);
}

TEST("HM 1.4", a_queue_pair_lies_in_its_umem)
{
	const u64 size = (64 << LOG_RQ) + (64 << LOG_SQ);
	struct user u = user_new(m), other = user_new(m);
	struct qp_in q;
	void *qpc = MLX5_ADDR_OF(create_qp_in, q.in, qpc);

	m->uar = uar_new_of(m, u.uid);
	user_cq(&u);
#define REFUSED(status, check) \
	ASSERT_CMD(m, qp_try(&u, &q), status, MLX5_CMD_OP_CREATE_QP, check)
#define QUEUES(id, offset) ({ \
	q = qp_create_cmd(&u); \
	MLX5_SET(create_qp_in, q.in, wq_umem_id, id); \
	MLX5_SET64(create_qp_in, q.in, wq_umem_offset, offset); \
})
	QUEUES(other.umem, 0);
	REFUSED(BAD_RES, 0x13);
	QUEUES(u.umem, PAGES * 4096 - size + 64);
	REFUSED(BAD_PARAM, 0x14);
	QUEUES(u.umem, -64ull);
	REFUSED(BAD_PARAM, 0x14);
	QUEUES(u.umem, 16);
	REFUSED(BAD_PARAM, 0x14);
	q = qp_create_cmd(&u);
	MLX5_SET(qpc_umem, qpc, dbr_umem_id, other.umem);
	REFUSED(BAD_RES, 0x13);
	q = qp_create_cmd(&u);
	MLX5_SET64(qpc, qpc, dbr_addr, PAGES * 4096 - 4);
	REFUSED(BAD_PARAM, 0x14);
	QUEUES(u.umem, PAGES * 4096 - size);
	ASSERT_EQ(qp_try(&u, &q), 0);
#undef REFUSED
	ASSERT_EQ(destroy(m, MLX5_CMD_OP_DESTROY_QP, u.uid, u.qp.qpn), 0);
	ASSERT_EQ(destroy(m, MLX5_CMD_OP_DESTROY_CQ, u.uid, u.cq.cqn), 0);
	ASSERT_EQ(destroy(m, DESTROY, u.uid, u.umem), 0);
}

/* Whatever was left behind goes with the HCA, umems after the queues in them */
TEST("HM 11.5", teardown_takes_all)
{
	struct user u = user_new(m);

	user_cq(&u);
	user_qp(&u);
	qp_up(&u.qp, u.qp.qpn, (struct qp_path){});
}
