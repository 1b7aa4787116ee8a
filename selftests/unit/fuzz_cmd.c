// SPDX-License-Identifier: GPL-2.0
/*
 * Fuzz target: the commands that a program can send, under its uid as the driver sends them: well formed to begin with, then
 * changed in any of their bytes, and mailboxes of any opcode and length. What was made is used and destroyed; in the end the
 * user context must be free of everything, and the other context's objects untouched.
 */
#include <linux/kernel.h>
#include <linux/unaligned.h>
#include <linux/mlx5/mlx5_ifc.h>
#include <hca/prm.h>

#include "fuzz.h"

#define OBJECTS		40

struct object {
	u16 destroyer;
	u32 id;
	u64 addr;
};

struct cmd {
	u32 in[512];
	size_t inlen;
	u16 destroyer;
};

struct user {
	struct world *w;
	u16 uid;
	struct object obj[OBJECTS];
	unsigned int nr;
};

static void *begin(struct user *u, struct cmd *c, u16 opcode, size_t inlen, u16 destroyer)
{
	memset(c, 0, sizeof(*c));
	MLX5_SET(general_obj_in_cmd_hdr, c->in, opcode, opcode);
	c->inlen = inlen;
	c->destroyer = destroyer;
	return c->in;
}

/* the number of one of the objects of that kind, mostly */
static u32 some(struct user *u, struct in *in, u16 destroyer)
{
	u32 found = 0;
	u8 skip = in_u8(in);

	if (skip >= 0xf0)
		return in_u32(in) & 0xffffff;
	skip %= 4;
	for (unsigned int i = 0; i < u->nr; i++) {
		if (u->obj[i].destroyer != destroyer)
			continue;
		found = u->obj[i].id;
		if (!skip--)
			break;
	}
	return found;
}

#define SOME(kind)	some(u, in, MLX5_CMD_OP_##kind)

static void umem(struct user *u, struct in *in, struct cmd *c)
{
	u32 nr = 1 + in_below(in, FUZZ_PAGES);
	void *ctx;

	begin(u, c, MLX5_CMD_OP_CREATE_UMEM, MLX5_ST_SZ_BYTES(create_umem_in) + 8 * nr, MLX5_CMD_OP_DESTROY_UMEM);
	ctx = MLX5_ADDR_OF(create_umem_in, c->in, umem);
	MLX5_SET64(umem, ctx, num_of_mtt, nr);
	MLX5_SET(umem, ctx, page_offset, in_u8(in) < 0xc0 ? 0 : in_u16(in) & 0xfff);
	/* addresses are the driver's: the program has no say in them */
	for (u32 i = 0; i < nr; i++)
		put_unaligned_be64(u->w->own.dma[(i + nr) % FUZZ_PAGES] | (in_u8(in) < 0xf0 ? 3 : 1),
				   (u8 *)MLX5_ADDR_OF(umem, ctx, mtt) + 8 * i);
}

static void cq(struct user *u, struct in *in, struct cmd *c, u16 opcode)
{
	bool modify = opcode == MLX5_CMD_OP_MODIFY_CQ;
	void *cqc;

	begin(u, c, opcode, MLX5_ST_SZ_BYTES(create_cq_in), modify ? 0 : MLX5_CMD_OP_DESTROY_CQ);
	cqc = MLX5_ADDR_OF(create_cq_in, c->in, cq_context);
	if (modify) {
		MLX5_SET(modify_cq_in, c->in, op_mod, 1);
		MLX5_SET(modify_cq_in, c->in, cqn, SOME(DESTROY_CQ));
	}
	MLX5_SET(cq_in_umem, c->in, cq_umem_id, SOME(DESTROY_UMEM));
	MLX5_SET64(cq_in_umem, c->in, cq_umem_offset, 64 * in_u8(in));
	MLX5_SET(cqc_umem, cqc, dbr_umem_id, SOME(DESTROY_UMEM));
	MLX5_SET64(cqc, cqc, dbr_addr, 8 * in_u8(in));
	MLX5_SET(cqc, cqc, log_cq_size, in_u8(in) & 7);
	MLX5_SET(cqc, cqc, cqe_sz, in_u8(in) & 1);
	MLX5_SET(cqc, cqc, oi, in_u8(in) & 1);
	MLX5_SET(cqc, cqc, uar_page, SOME(DEALLOC_UAR));
	MLX5_SET(cqc, cqc, c_eqn_or_apu_element, u->w->m->comp.eqn);
}

static void qp(struct user *u, struct in *in, struct cmd *c)
{
	void *qpc;

	begin(u, c, MLX5_CMD_OP_CREATE_QP, MLX5_ST_SZ_BYTES(create_qp_in), MLX5_CMD_OP_DESTROY_QP);
	qpc = MLX5_ADDR_OF(create_qp_in, c->in, qpc);
	MLX5_SET(create_qp_in, c->in, wq_umem_id, SOME(DESTROY_UMEM));
	MLX5_SET64(create_qp_in, c->in, wq_umem_offset, 64 * in_u8(in));
	MLX5_SET(qpc_umem, qpc, dbr_umem_id, SOME(DESTROY_UMEM));
	MLX5_SET64(qpc, qpc, dbr_addr, 8 * in_u8(in));
	MLX5_SET(qpc, qpc, pm_state, MLX5_QP_PM_MIGRATED);
	MLX5_SET(qpc, qpc, pd, SOME(DEALLOC_PD));
	MLX5_SET(qpc, qpc, uar_page, SOME(DEALLOC_UAR));
	MLX5_SET(qpc, qpc, cqn_snd, SOME(DESTROY_CQ));
	MLX5_SET(qpc, qpc, cqn_rcv, SOME(DESTROY_CQ));
	MLX5_SET(qpc, qpc, log_sq_size, in_u8(in) & 7);
	MLX5_SET(qpc, qpc, log_rq_size, in_u8(in) & 3);
	MLX5_SET(qpc, qpc, log_rq_stride, in_u8(in) % 7);
}

static void transition(struct user *u, struct in *in, struct cmd *c)
{
	static const u16 opcodes[] = {
		MLX5_CMD_OP_RST2INIT_QP, MLX5_CMD_OP_INIT2RTR_QP, MLX5_CMD_OP_RTR2RTS_QP, MLX5_CMD_OP_RTS2RTS_QP,
		MLX5_CMD_OP_INIT2INIT_QP, MLX5_CMD_OP_2ERR_QP, MLX5_CMD_OP_2RST_QP,
	};
	struct qp q = { .qpn = SOME(DESTROY_QP), .log_msg_max = in_u8(in) & 31 };
	void *qpc;

	begin(u, c, opcodes[in_below(in, ARRAY_SIZE(opcodes))], MLX5_ST_SZ_BYTES(rst2init_qp_in), 0);
	MLX5_SET(rst2init_qp_in, c->in, qpn, q.qpn);
	MLX5_SET(rst2init_qp_in, c->in, opt_param_mask, in_u32(in));
	qpc = MLX5_ADDR_OF(rst2init_qp_in, c->in, qpc);
	qp_fill(&q, qpc, &(struct qp_path){}, in_u8(in) < 0x80 ? q.qpn : u->w->p.a->qpn);
}

static void mkey(struct user *u, struct in *in, struct cmd *c)
{
	u32 octwords = 4 * in_below(in, 16), nr = min(octwords, 64u);
	void *mkc;

	begin(u, c, MLX5_CMD_OP_CREATE_MKEY, MLX5_ST_SZ_BYTES(create_mkey_in) + 16 * nr, MLX5_CMD_OP_DESTROY_MKEY);
	mkc = MLX5_ADDR_OF(create_mkey_in, c->in, memory_key_mkey_entry);
	MLX5_SET(mkc, mkc, access_mode_1_0, in_u8(in) & 1 ? MLX5_MKC_ACCESS_MODE_KLMS : in_u8(in) & 3);
	MLX5_SET(mkc, mkc, access_mode_4_2, in_u8(in) < 0x10);
	MLX5_SET(mkc, mkc, lr, 1);
	MLX5_SET(mkc, mkc, lw, 1);
	MLX5_SET(mkc, mkc, umr_en, in_u8(in) & 1);
	MLX5_SET(mkc, mkc, qpn, 0xffffff);
	MLX5_SET(mkc, mkc, pd, SOME(DEALLOC_PD));
	MLX5_SET(mkc, mkc, log_page_size, 12);
	MLX5_SET64(mkc, mkc, len, in_u32(in));
	MLX5_SET(mkc, mkc, translations_octword_size, octwords);
	MLX5_SET(create_mkey_in, c->in, translations_octword_actual_size, nr);
	for (u32 i = 0; i < nr; i++)
		klm_put((u8 *)c->in + MLX5_ST_SZ_BYTES(create_mkey_in), i,
			(struct klm){ in_u16(in), in_u8(in) < 0x80 ? u->w->foreign : SOME(DESTROY_MKEY) << 8, in_u16(in) });
}

static void query(struct user *u, struct in *in, struct cmd *c)
{
	switch (in_u8(in) % 3) {
	case 0:
		begin(u, c, MLX5_CMD_OP_QUERY_QP, MLX5_ST_SZ_BYTES(query_qp_in), 0);
		MLX5_SET(query_qp_in, c->in, qpn, SOME(DESTROY_QP));
		break;
	case 1:
		begin(u, c, MLX5_CMD_OP_QUERY_CQ, MLX5_ST_SZ_BYTES(query_cq_in), 0);
		MLX5_SET(query_cq_in, c->in, cqn, SOME(DESTROY_CQ));
		break;
	default:
		begin(u, c, MLX5_CMD_OP_QUERY_MKEY, MLX5_ST_SZ_BYTES(query_mkey_in), 0);
		MLX5_SET(query_mkey_in, c->in, mkey_index, SOME(DESTROY_MKEY));
	}
}

static void alloc(struct user *u, struct in *in, struct cmd *c)
{
	switch (in_u8(in) % 4) {
	case 0:
		begin(u, c, MLX5_CMD_OP_ALLOC_PD, MLX5_ST_SZ_BYTES(alloc_pd_in), MLX5_CMD_OP_DEALLOC_PD);
		break;
	case 1:
		begin(u, c, MLX5_CMD_OP_ALLOC_UAR, MLX5_ST_SZ_BYTES(alloc_uar_in), MLX5_CMD_OP_DEALLOC_UAR);
		break;
	case 2:
		begin(u, c, MLX5_CMD_OP_ALLOC_TRANSPORT_DOMAIN, MLX5_ST_SZ_BYTES(alloc_transport_domain_in),
		      MLX5_CMD_OP_DEALLOC_TRANSPORT_DOMAIN);
		break;
	default:
		begin(u, c, MLX5_CMD_OP_ALLOC_MEMIC, MLX5_ST_SZ_BYTES(alloc_memic_in), MLX5_CMD_OP_DEALLOC_MEMIC);
		MLX5_SET(alloc_memic_in, c->in, memic_size, 64 * in_u8(in));
		MLX5_SET(alloc_memic_in, c->in, range_size, 64 * in_u16(in));
		MLX5_SET(alloc_memic_in, c->in, log_memic_addr_alignment, in_u8(in) & 7);
	}
}

/* What the driver sees to: who sends it, and that no address is the program's. False: the driver lets it not through. */
static bool through_the_driver(struct user *u, struct cmd *c)
{
	u16 opcode = MLX5_GET(general_obj_in_cmd_hdr, c->in, opcode);
	void *cqc = MLX5_ADDR_OF(create_cq_in, c->in, cq_context);
	void *qpc = MLX5_ADDR_OF(create_qp_in, c->in, qpc);

	MLX5_SET(general_obj_in_cmd_hdr, c->in, uid, u->uid);
	switch (opcode) {
	case MLX5_CMD_OP_ENABLE_HCA:
	case MLX5_CMD_OP_DISABLE_HCA:
	case MLX5_CMD_OP_INIT_HCA:
	case MLX5_CMD_OP_TEARDOWN_HCA:
	case MLX5_CMD_OP_MANAGE_PAGES:
	case MLX5_CMD_OP_SET_ROCE_ADDRESS:
	case MLX5_CMD_OP_CREATE_EQ:
	case MLX5_CMD_OP_DESTROY_EQ:
	case MLX5_CMD_OP_CREATE_UCTX:
	case MLX5_CMD_OP_DESTROY_UCTX:
		return false;
	case MLX5_CMD_OP_CREATE_CQ:
		MLX5_SET(cqc, cqc, dbr_umem_valid, 1);
		/* fallthrough */
	case MLX5_CMD_OP_MODIFY_CQ:
		MLX5_SET(create_cq_in, c->in, cq_umem_valid, 1);
		return true;
	case MLX5_CMD_OP_CREATE_QP:
		MLX5_SET(create_qp_in, c->in, wq_umem_valid, 1);
		MLX5_SET(qpc, qpc, dbr_umem_valid, 1);
		return true;
	default:
		return true;
	}
}

static u8 destroy(struct user *u, const struct object *o)
{
	u32 in[MLX5_ST_SZ_DW(dealloc_memic_in)] = {}, out[MLX5_ST_SZ_DW(dealloc_memic_out)];

	MLX5_SET(destroy_umem_in, in, opcode, o->destroyer);
	MLX5_SET(destroy_umem_in, in, uid, u->uid);
	if (o->destroyer == MLX5_CMD_OP_DEALLOC_MEMIC) {
		MLX5_SET64(dealloc_memic_in, in, memic_start_addr, o->addr);
		MLX5_SET(dealloc_memic_in, in, memic_size, o->id);
	} else {
		MLX5_SET(destroy_umem_in, in, umem_id, o->id);
	}
	return m_exec(u->w->m, in, sizeof(in), out, sizeof(out));
}

static void gone(struct user *u, unsigned int i)
{
	u->obj[i] = u->obj[--u->nr];
}

static void send(struct user *u, struct in *in, struct cmd *c)
{
	size_t outlen = 16 + (in_u8(in) < 0xe0 ? 1024 : in_u8(in));
	u32 out[272], memic_size = MLX5_GET(alloc_memic_in, c->in, memic_size);
	u16 opcode = MLX5_GET(general_obj_in_cmd_hdr, c->in, opcode);

	if (!through_the_driver(u, c) || m_exec(u->w->m, c->in, c->inlen, out, outlen))
		return;
	if (c->destroyer && u->nr < OBJECTS) {
		bool memic = opcode == MLX5_CMD_OP_ALLOC_MEMIC;

		u->obj[u->nr++] = (struct object){ c->destroyer, memic ? memic_size : MLX5_GET(create_qp_out, out, qpn),
						   memic ? MLX5_GET64(alloc_memic_out, out, memic_start_addr) : 0 };
		return;
	}
	for (unsigned int i = 0; i < u->nr; i++)
		if (u->obj[i].destroyer == opcode && (opcode == MLX5_CMD_OP_DEALLOC_MEMIC ?
		    u->obj[i].addr == MLX5_GET64(dealloc_memic_in, c->in, memic_start_addr) :
		    u->obj[i].id == MLX5_GET(destroy_umem_in, c->in, umem_id)))
			gone(u, i--);
}

static void command(struct user *u, struct in *in)
{
	static struct cmd c;
	u8 what = in_u8(in), how;
	u16 opcode, destroyer;

	switch (what % 9) {
	case 0:
		umem(u, in, &c);
		break;
	case 1:
		cq(u, in, &c, MLX5_CMD_OP_CREATE_CQ);
		break;
	case 2:
		qp(u, in, &c);
		break;
	case 3:
	case 7:
		transition(u, in, &c);
		break;
	case 4:
		mkey(u, in, &c);
		break;
	case 5:
		query(u, in, &c);
		break;
	case 6:
		cq(u, in, &c, MLX5_CMD_OP_MODIFY_CQ);
		break;
	default:
		alloc(u, in, &c);
	}
	how = in_u8(in);
	opcode = MLX5_GET(general_obj_in_cmd_hdr, c.in, opcode);
	destroyer = c.destroyer;
	for (int n = how < 0x70 ? how % 5 : 0; n--; )
		((u8 *)c.in)[in_u16(in) % c.inlen] ^= in_u8(in);
	if (how >= 0xf0)
		c.inlen = 16 + in_u16(in) % (sizeof(c.in) - 16);
	/* a changed opcode makes something else, or nothing; addresses in a umem are the driver's */
	if (what >= 0xf0)
		MLX5_SET(general_obj_in_cmd_hdr, c.in, opcode, in_u16(in));
	else if (opcode == MLX5_CMD_OP_CREATE_UMEM)
		umem(u, in, &c);
	else
		MLX5_SET(general_obj_in_cmd_hdr, c.in, opcode, opcode);
	if (MLX5_GET(general_obj_in_cmd_hdr, c.in, opcode) != opcode) {
		u16 is = MLX5_GET(general_obj_in_cmd_hdr, c.in, opcode);

		/* of those that make something only what we would know how to destroy */
		if (is == MLX5_CMD_OP_CREATE_UMEM || is == MLX5_CMD_OP_CREATE_MKEY || is == MLX5_CMD_OP_CREATE_CQ ||
		    is == MLX5_CMD_OP_CREATE_QP || is == MLX5_CMD_OP_ALLOC_PD || is == MLX5_CMD_OP_ALLOC_UAR ||
		    is == MLX5_CMD_OP_ALLOC_MEMIC || is == MLX5_CMD_OP_ALLOC_TRANSPORT_DOMAIN)
			return;
		destroyer = 0;
	}
	c.destroyer = destroyer;
	if (u->nr < OBJECTS || !destroyer)
		send(u, in, &c);
}

/* A doorbell of a queue that commands have made; the ring is memory with anything in it */
static void ring(struct user *u, struct in *in)
{
	u8 bytes[8];

	for (int n = in_u8(in); n--; )
		u->w->own.cpu[in_u16(in)] = in_u8(in);
	put_unaligned_be64((u64)SOME(DESTROY_QP) << 8, bytes);
	hca_uar_store(u->w->m->hca, SOME(DEALLOC_UAR), 0x800, bytes, 8, HCA_STORE_INLINE);
	shim_run();
}

void fuzz_cmd(const u8 *bytes, size_t len)
{
	struct world *w = world_get();
	struct in in = { bytes, len };
	struct user u = { .w = w, .uid = uctx_new(w->m) };
	static const u8 first[4][2] = { { 8, 0 }, { 8, 1 }, { 0, 15 }, { 1, 0 } };
	struct key_dump before = key_dump(w->m, w->foreign), after;

	w->m->policy = PAGES_REFUSE;
	for (int i = 0; i < 4; i++) {
		struct in some = { first[i], 2 };

		command(&u, &some);
	}
	for (int ops = 0; in.left && ops < 30; ops++) {
		u8 op = in_u8(&in);

		if (op < 0xd0) {
			command(&u, &in);
		} else if (op < 0xe8) {
			ring(&u, &in);
		} else if (u.nr) {
			unsigned int i = in_below(&in, u.nr);

			if (!destroy(&u, &u.obj[i]))
				gone(&u, i);
		}
	}
	shim_run();
	/* queue pairs before their CQs, those before their umems: each round gets at least one */
	for (bool moved = true; moved; ) {
		moved = false;
		for (unsigned int i = u.nr; i--; )
			if (!destroy(&u, &u.obj[i])) {
				gone(&u, i);
				moved = true;
			}
	}
	ASSERT_EQ(u.nr, 0u);
	ASSERT_EQ(uctx_free(w->m, u.uid), 0);
	w->m->policy = PAGES_GIVE;
	after = key_dump(w->m, w->foreign);
	if (memcmp(&before, &after, sizeof(before)))
		FAIL("a command of a program changed a key of the kernel");
	world_revive(w);
	world_put(w);
}
