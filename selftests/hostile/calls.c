// SPDX-License-Identifier: GPL-2.0
/*
 * System calls: what libibverbs and libmlx5 send to the device is changed on its way, and
 * firmware commands are sent that no library would send.
 *
 * The program has an ioctl() of its own, which the libraries call instead of the C
 * library's. So every verb, with its udata, is a structure to begin with that the kernel
 * would accept.
 */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include "hostile.h"
#include "lib/prm.h"

#define MAX_ATTRS	24
#define MAX_DATA	8192

static struct attacker *twister;
static unsigned int twist_percent;

/* What was sent instead of an attribute's data */
struct substitute {
	uint8_t data[MAX_DATA], sent[MAX_DATA];
	void *orig;
	size_t len;
};

/* An answer goes where the caller expects it; nothing else has changed */
static void hand_back(struct substitute *s, int n)
{
	while (n--)
		if (memcmp(s[n].data, s[n].sent, s[n].len))
			memcpy(s[n].orig, s[n].data, s[n].len);
}

static void twist_attr(struct attacker *a, struct ib_uverbs_attr *attr)
{
	switch (rng_below(&a->rng, 6)) {
	case 0:
		attr->len = rng_odd(&a->rng);
		break;
	case 1:
		attr->data = rng_odd(&a->rng);
		break;
	case 2:
		attr->attr_id = rng_often(&a->rng, 50) ?
			rng_below(&a->rng, 16) : 0x1000 + rng_below(&a->rng, 16);
		break;
	case 3:
		attr->flags = rng_u64(&a->rng);
		break;
	default:
		attr->data ^= 1ull << rng_below(&a->rng, 12);
	}
}

static int twisted_ioctl(struct attacker *a, int fd, unsigned long req,
			 const struct ib_uverbs_ioctl_hdr *hdr)
{
	static struct substitute subs[MAX_ATTRS];
	struct {
		struct ib_uverbs_ioctl_hdr hdr;
		struct ib_uverbs_attr attrs[MAX_ATTRS];
	} call;
	int n = hdr->num_attrs, nr_subs = 0, ret, err;
	unsigned int how = rng_below(&a->rng, 100);

	if (n > MAX_ATTRS || hdr->length > sizeof(call))
		return syscall(SYS_ioctl, fd, req, hdr);
	memcpy(&call, hdr, hdr->length);
	a->tally->twisted++;
	for (int i = 0; i < n; i++) {
		struct ib_uverbs_attr *attr = &call.attrs[i];
		struct substitute *s = &subs[nr_subs];

		if (attr->len <= 8 || attr->len > MAX_DATA)
			continue;
		s->orig = (void *)(uintptr_t)attr->data;
		s->len = attr->len;
		memcpy(s->data, s->orig, s->len);
		if (how < 80 && rng_often(&a->rng, 60))
			rng_twist(&a->rng, s->data, s->len);
		memcpy(s->sent, s->data, s->len);
		attr->data = (uintptr_t)s->data;
		nr_subs++;
	}
	if (how >= 70 && n)
		twist_attr(a, &call.attrs[rng_below(&a->rng, n)]);
	/* data of up to 8 bytes is in the attribute itself */
	if (how >= 60 && how < 75 && n) {
		struct ib_uverbs_attr *attr =
			&call.attrs[rng_below(&a->rng, n)];

		if (attr->len <= 8)
			rng_twist(&a->rng, &attr->data, 8);
	}
	if (how >= 97)
		rng_twist(&a->rng, &call.hdr.object_id, 4);
	ret = syscall(SYS_ioctl, fd, req, &call);
	err = errno;
	if (!ret)
		a->tally->taken++;
	hand_back(subs, nr_subs);
	errno = err;
	return ret;
}

int ioctl(int fd, unsigned long req, ...)
{
	struct attacker *a = twister;
	va_list ap;
	void *arg;

	va_start(ap, req);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (!a || req != RDMA_VERBS_IOCTL)
		return syscall(SYS_ioctl, fd, req, arg);
	a->tally->calls++;
	if (!rng_often(&a->rng, twist_percent))
		return syscall(SYS_ioctl, fd, req, arg);
	return twisted_ioctl(a, fd, req, arg);
}

void twist_calls(struct attacker *a, unsigned int percent)
{
	twister = percent ? a : NULL;
	twist_percent = percent;
}

/* Things are made with calls that are changed, and unmade with calls that are not */
static void a_queue_pair(struct attacker *a)
{
	struct qp_cfg cfg = {
		.send_wr = 1 + rng_below(&a->rng, 300),
		.recv_wr = 1 + rng_below(&a->rng, 300),
		.send_sge = 1 + rng_below(&a->rng, 8),
		.recv_sge = 1 + rng_below(&a->rng, 8),
	};
	struct ibv_cq *cq = ibv_create_cq(a->r.ctx, 1 +
					  rng_below(&a->rng, 1000), NULL, NULL,
					  rng_below(&a->rng, 3));
	struct ibv_qp *qp = cq ? qp_create(a->pd, cq, cq, &cfg) : NULL;

	if (qp) {
		qp_connect(&a->r, qp, &cfg, rng_often(&a->rng, 50) ? qp->qp_num :
			   shared->facts.qpn[rng_below(&a->rng, 2)]);
		qp_state(qp);
	}
	if (cq)
		ibv_resize_cq(cq, 1 + rng_below(&a->rng, 2000));
	twist_calls(a, 0);
	if (qp)
		ibv_destroy_qp(qp);
	if (cq)
		ibv_destroy_cq(cq);
}

static void a_region(struct attacker *a)
{
	char *at = a->area + rng_below(&a->rng, AREA);
	struct ibv_mr *mr;

	mr = ibv_reg_mr(a->pd, at, rng_below(&a->rng, AREA / 2),
			rng_u64(&a->rng) & 0x1f);
	if (mr)
		ibv_rereg_mr(mr, rng_below(&a->rng, 8), a->other_pd, a->area,
			     1 + rng_below(&a->rng, AREA),
			     rng_u64(&a->rng) & 0x1f);
	twist_calls(a, 0);
	if (mr)
		ibv_dereg_mr(mr);
}

static void a_device_memory(struct attacker *a)
{
	struct ibv_alloc_dm_attr attr = {
		.length = 1 + rng_below(&a->rng, 3 * PAGE),
		.log_align_req = rng_below(&a->rng, 8),
	};
	struct ibv_dm *dm = ibv_alloc_dm(a->r.ctx, &attr);
	struct ibv_mr *mr = NULL;

	if (dm)
		mr = ibv_reg_dm_mr(a->pd, dm, rng_below(&a->rng, PAGE),
				   rng_below(&a->rng, 2 * PAGE),
				   ACCESS_ALL | IBV_ACCESS_ZERO_BASED);
	twist_calls(a, 0);
	if (mr)
		ibv_dereg_mr(mr);
	if (dm)
		ibv_free_dm(dm);
}

static void a_domain(struct attacker *a)
{
	struct ibv_pd *pd = ibv_alloc_pd(a->r.ctx);
	struct ibv_mw *mw = ibv_alloc_mw(a->pd, 1 + rng_below(&a->rng, 2));
	struct ibv_td_init_attr attr = {};
	struct ibv_td *td = ibv_alloc_td(a->r.ctx, &attr);
	struct ibv_device_attr_ex device;

	ibv_query_device_ex(a->r.ctx, NULL, &device);
	twist_calls(a, 0);
	if (td)
		ibv_dealloc_td(td);
	if (mw)
		ibv_dealloc_mw(mw);
	if (pd)
		ibv_dealloc_pd(pd);
}

static void another_context(struct attacker *a)
{
	struct rdma r;

	if (rdma_open(&r))
		return;
	twist_calls(a, 0);
	rdma_close(&r);
}

void verbs_round(struct attacker *a)
{
	a->tally->doing = "verbs";
	twist_calls(a, 35);
	switch (rng_below(&a->rng, 8)) {
	case 0:
	case 1:
	case 2:
		a_queue_pair(a);
		break;
	case 3:
	case 4:
		a_region(a);
		break;
	case 5:
		a_device_memory(a);
		break;
	case 6:
		a_domain(a);
		break;
	default:
		another_context(a);
	}
	twist_calls(a, 0);
}

/* Commands */

struct mailbox {
	uint32_t in[DEVX_ST_SZ_DW(create_qp_in) + 128];
	uint32_t out[1100];
	size_t inlen;
};

static uint32_t some_umem(struct attacker *a)
{
	return rng_often(&a->rng, 85) ? a->umem->umem_id :
		rng_often(&a->rng, 50) ? shared->facts.umem : rng_odd(&a->rng);
}

static uint32_t some_uar(struct attacker *a)
{
	return rng_often(&a->rng, 90) ? a->uar->page_id : rng_odd(&a->rng);
}

static void cq_command(struct attacker *a, struct mailbox *m)
{
	void *cqc = DEVX_ADDR_OF(create_cq_in, m->in, cq_context);
	uint32_t eqn = 0;

	mlx5dv_devx_query_eqn(a->r.ctx, rng_below(&a->rng, 3), &eqn);
	DEVX_SET(create_cq_in, m->in, opcode, MLX5_CMD_OP_CREATE_CQ);
	DEVX_SET(cq_in_umem, m->in, cq_umem_id, some_umem(a));
	DEVX_SET64(cq_in_umem, m->in, cq_umem_offset,
		   64 * rng_below(&a->rng, 256));
	DEVX_SET(cqc_umem, cqc, dbr_umem_id, some_umem(a));
	DEVX_SET64(cqc, cqc, dbr_addr, 8 * rng_below(&a->rng, 1024));
	DEVX_SET(cqc, cqc, log_cq_size, rng_below(&a->rng, 7));
	DEVX_SET(cqc, cqc, cqe_sz, rng_below(&a->rng, 2));
	DEVX_SET(cqc, cqc, oi, rng_below(&a->rng, 2));
	DEVX_SET(cqc, cqc, uar_page, some_uar(a));
	DEVX_SET(cqc, cqc, c_eqn_or_apu_element,
		 rng_often(&a->rng, 90) ? eqn : rng_below(&a->rng, 16));
	m->inlen = DEVX_ST_SZ_BYTES(create_cq_in);
}

static void qp_command(struct attacker *a, struct mailbox *m)
{
	void *qpc = DEVX_ADDR_OF(create_qp_in, m->in, qpc);
	struct mlx5dv_cq cq;
	struct mlx5dv_obj obj = { .cq = { a->rcq, &cq } };

	mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ);
	DEVX_SET(create_qp_in, m->in, opcode, MLX5_CMD_OP_CREATE_QP);
	DEVX_SET(create_qp_in, m->in, wq_umem_id, some_umem(a));
	DEVX_SET64(create_qp_in, m->in, wq_umem_offset,
		   64 * rng_below(&a->rng, 256));
	DEVX_SET(qpc_umem, qpc, dbr_umem_id, some_umem(a));
	DEVX_SET64(qpc, qpc, dbr_addr, 8 * rng_below(&a->rng, 1024));
	DEVX_SET(qpc, qpc, pm_state, 3);
	DEVX_SET(qpc, qpc, pd, rng_often(&a->rng, 90) ? a->pdn :
		 shared->facts.pdn);
	DEVX_SET(qpc, qpc, uar_page, some_uar(a));
	DEVX_SET(qpc, qpc, cqn_snd, cq.cqn);
	DEVX_SET(qpc, qpc, cqn_rcv, rng_often(&a->rng, 95) ? cq.cqn :
		 shared->facts.cqn[0]);
	DEVX_SET(qpc, qpc, log_sq_size, rng_below(&a->rng, 6));
	DEVX_SET(qpc, qpc, log_rq_size, rng_below(&a->rng, 4));
	DEVX_SET(qpc, qpc, log_rq_stride, rng_below(&a->rng, 6));
	m->inlen = DEVX_ST_SZ_BYTES(create_qp_in);
}

static void mkey_command(struct attacker *a, struct mailbox *m)
{
	void *mkc = DEVX_ADDR_OF(create_mkey_in, m->in, memory_key_mkey_entry);
	unsigned int mode = rng_often(&a->rng, 70) ?
		2 + rng_below(&a->rng, 2) : rng_below(&a->rng, 8);
	unsigned int octwords = 4 * (1 + rng_below(&a->rng, 4));

	DEVX_SET(create_mkey_in, m->in, opcode, MLX5_CMD_OP_CREATE_MKEY);
	DEVX_SET(mkc, mkc, access_mode_1_0, mode & 3);
	DEVX_SET(mkc, mkc, access_mode_4_2, mode >> 2);
	DEVX_SET(mkc, mkc, lr, 1);
	DEVX_SET(mkc, mkc, lw, 1);
	DEVX_SET(mkc, mkc, rr, 1);
	DEVX_SET(mkc, mkc, rw, 1);
	DEVX_SET(mkc, mkc, umr_en, rng_below(&a->rng, 2));
	DEVX_SET(mkc, mkc, qpn, 0xffffff);
	DEVX_SET(mkc, mkc, pd, rng_often(&a->rng, 90) ? a->pdn :
		 shared->facts.pdn);
	DEVX_SET(mkc, mkc, log_page_size, 12);
	DEVX_SET64(mkc, mkc, len, octwords * PAGE);
	DEVX_SET(mkc, mkc, translations_octword_size,
		 rng_often(&a->rng, 90) ? octwords : rng_odd(&a->rng) & 0xffff);
	DEVX_SET(create_mkey_in, m->in, translations_octword_actual_size,
		 octwords);
	m->inlen = DEVX_ST_SZ_BYTES(create_mkey_in) + octwords * 16;
	for (unsigned int i = 0; i < octwords; i++) {
		uint32_t *e = m->in + DEVX_ST_SZ_DW(create_mkey_in) + 4 * i;
		const struct key *key = pick_key(a);

		e[0] = htobe32(PAGE);
		e[1] = htobe32(key->key);
		e[2] = htobe32(key->addr >> 32);
		e[3] = htobe32(key->addr);
	}
}

struct mlx5dv_devx_obj *make_list_key(struct attacker *a, const struct key *below,
				      uint32_t *key)
{
	uint32_t in[DEVX_ST_SZ_DW(create_mkey_in) + 4 * 4] = {}, out[4] = {};
	void *mkc = DEVX_ADDR_OF(create_mkey_in, in, memory_key_mkey_entry);
	uint32_t *e = in + DEVX_ST_SZ_DW(create_mkey_in);
	struct mlx5dv_devx_obj *obj;

	DEVX_SET(create_mkey_in, in, opcode, MLX5_CMD_OP_CREATE_MKEY);
	DEVX_SET(mkc, mkc, access_mode_1_0, 2);
	DEVX_SET(mkc, mkc, lr, 1);
	DEVX_SET(mkc, mkc, lw, 1);
	DEVX_SET(mkc, mkc, rr, 1);
	DEVX_SET(mkc, mkc, rw, 1);
	DEVX_SET(mkc, mkc, a, 1);
	DEVX_SET(mkc, mkc, umr_en, 1);
	DEVX_SET(mkc, mkc, qpn, 0xffffff);
	DEVX_SET(mkc, mkc, pd, a->pdn);
	DEVX_SET64(mkc, mkc, start_addr, below->addr);
	DEVX_SET64(mkc, mkc, len, below->len);
	DEVX_SET(mkc, mkc, translations_octword_size, 4);
	DEVX_SET(create_mkey_in, in, translations_octword_actual_size, 4);
	e[0] = htobe32(below->len);
	e[1] = htobe32(below->key);
	e[2] = htobe32(below->addr >> 32);
	e[3] = htobe32(below->addr);
	obj = mlx5dv_devx_obj_create(a->r.ctx, in, sizeof(in), out, sizeof(out));
	*key = DEVX_GET(create_mkey_out, out, mkey_index) << 8;
	return obj;
}

/* The commands that name the object @id, as modify and query send them */
static void on_object(struct attacker *a, struct mlx5dv_devx_obj *obj,
		      uint32_t id)
{
	static const uint16_t opcodes[] = {
		MLX5_CMD_OP_RST2INIT_QP, MLX5_CMD_OP_INIT2RTR_QP,
		MLX5_CMD_OP_RTR2RTS_QP, MLX5_CMD_OP_RTS2RTS_QP,
		MLX5_CMD_OP_INIT2INIT_QP, MLX5_CMD_OP_2ERR_QP,
		MLX5_CMD_OP_2RST_QP, MLX5_CMD_OP_QUERY_QP,
		MLX5_CMD_OP_QUERY_CQ, MLX5_CMD_OP_QUERY_MKEY,
		MLX5_CMD_OP_MODIFY_CQ,
	};
	static struct mailbox m;
	unsigned int op = rng_below(&a->rng, 11);
	void *qpc = DEVX_ADDR_OF(rst2init_qp_in, m.in, qpc);
	void *path = DEVX_ADDR_OF(qpc, qpc, primary_address_path);

	memset(&m, 0, sizeof(m));
	DEVX_SET(query_qp_in, m.in, opcode, opcodes[op]);
	DEVX_SET(query_qp_in, m.in, qpn, rng_often(&a->rng, 85) ? id :
		 rng_often(&a->rng, 50) ? shared->facts.qpn[0] :
		 rng_odd(&a->rng));
	if (op == 10) {
		cq_command(a, &m);
		DEVX_SET(modify_cq_in, m.in, opcode, MLX5_CMD_OP_MODIFY_CQ);
		DEVX_SET(modify_cq_in, m.in, op_mod, 1);
		DEVX_SET(modify_cq_in, m.in, cqn, id);
	} else if (op < 7) {
		DEVX_SET(qpc, qpc, rre, 1);
		DEVX_SET(qpc, qpc, rwe, 1);
		DEVX_SET(qpc, qpc, mtu, 3);
		DEVX_SET(qpc, qpc, log_msg_max, rng_below(&a->rng, 32));
		DEVX_SET(qpc, qpc, remote_qpn, rng_often(&a->rng, 50) ? id :
			 shared->facts.qpn[0]);
		DEVX_SET(ads, path, vhca_port_num, 1);
		DEVX_SET(ads, path, src_addr_index, a->r.gid_index);
		memcpy(DEVX_ADDR_OF(ads, path, rgid_rip), a->r.gid.raw, 16);
	}
	if (rng_often(&a->rng, 30))
		rng_twist(&a->rng, m.in, sizeof(m.in) / 2);
	if (op >= 7 && op <= 9)
		mlx5dv_devx_obj_query(obj, m.in, DEVX_ST_SZ_BYTES(query_qp_in),
				      m.out, 16 + rng_below(&a->rng, 4096));
	else
		mlx5dv_devx_obj_modify(obj, m.in,
				       DEVX_ST_SZ_BYTES(modify_cq_in),
				       m.out, 16 + rng_below(&a->rng, 1024));
}

static void command(struct attacker *a)
{
	static struct mailbox m;
	struct mlx5dv_devx_obj *obj;
	uint32_t id;

	memset(&m, 0, sizeof(m));
	switch (rng_below(&a->rng, 6)) {
	case 0:
	case 1:
		cq_command(a, &m);
		break;
	case 2:
	case 3:
		qp_command(a, &m);
		break;
	case 4:
		mkey_command(a, &m);
		break;
	default:
		DEVX_SET(alloc_pd_in, m.in, opcode, rng_often(&a->rng, 50) ?
			 MLX5_CMD_OP_ALLOC_PD : MLX5_CMD_OP_ALLOC_TRANSPORT_DOMAIN);
		m.inlen = DEVX_ST_SZ_BYTES(alloc_pd_in);
	}
	if (rng_often(&a->rng, 30))
		rng_twist(&a->rng, m.in, m.inlen);
	if (rng_often(&a->rng, 5))
		m.inlen = 8 + rng_below(&a->rng, sizeof(m.in) - 8);
	obj = mlx5dv_devx_obj_create(a->r.ctx, m.in, m.inlen, m.out,
				     16 + rng_below(&a->rng, 64));
	if (!obj)
		return;
	id = DEVX_GET(create_qp_out, m.out, qpn);
	for (int n = rng_below(&a->rng, 5); n--; )
		on_object(a, obj, id);
	twist_calls(a, 0);
	/* what stays goes with the life */
	if (rng_often(&a->rng, 70))
		mlx5dv_devx_obj_destroy(obj);
}

static void general_command(struct attacker *a)
{
	static struct mailbox m;

	memset(&m, 0, sizeof(m));
	for (int n = rng_below(&a->rng, 32); n--; )
		m.in[rng_below(&a->rng, 64)] = htobe32(rng_odd(&a->rng));
	DEVX_SET(general_obj_in_cmd_hdr, m.in, opcode,
		 rng_often(&a->rng, 50) ? 0x100 + rng_below(&a->rng, 0x900) :
		 MLX5_CMD_OP_QUERY_HCA_CAP);
	mlx5dv_devx_general_cmd(a->r.ctx, m.in, 16 +
				rng_below(&a->rng, sizeof(m.in) - 16), m.out,
				16 + rng_below(&a->rng, sizeof(m.out) - 16));
}

static void a_umem(struct attacker *a)
{
	struct mlx5dv_devx_umem_in in = {
		.addr = a->area + rng_below(&a->rng, AREA),
		.size = rng_often(&a->rng, 90) ? rng_below(&a->rng, AREA / 2) :
			rng_odd(&a->rng),
		.access = rng_u64(&a->rng) & 7,
		.pgsz_bitmap = rng_often(&a->rng, 70) ? ~0ull << 12 :
			rng_u64(&a->rng),
	};
	struct mlx5dv_devx_umem *umem = mlx5dv_devx_umem_reg_ex(a->r.ctx, &in);

	twist_calls(a, 0);
	if (umem)
		mlx5dv_devx_umem_dereg(umem);
}

void devx_round(struct attacker *a)
{
	if (!a->umem || !a->uar)
		return;
	a->tally->doing = "commands";
	twist_calls(a, rng_often(&a->rng, 30) ? 30 : 0);
	switch (rng_below(&a->rng, 8)) {
	case 0:
		general_command(a);
		break;
	case 1:
		a_umem(a);
		break;
	default:
		command(a);
	}
	twist_calls(a, 0);
}

/* A child writes to everything that its parent has mapped of the device */
static void fork_and_ring(struct attacker *a)
{
	int status, pid = fork();

	if (!pid) {
		for (int i = 0; i < QPS; i++)
			raw_ring(&a->raw[i]);
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, &status, 0);
}

void mmap_round(struct attacker *a)
{
	static const int flags[] = { MAP_SHARED, MAP_SHARED, MAP_PRIVATE };
	uint64_t uar = rng_below(&a->rng, 600);
	uint64_t pgoff = rng_often(&a->rng, 70) ?
		uar >> 8 << 16 | (rng_often(&a->rng, 70) ? 9 :
				  rng_below(&a->rng, 16)) << 8 | (uar & 0xff) :
		rng_odd(&a->rng);
	size_t len = PAGE * (1 + rng_below(&a->rng, 3)) +
		     (rng_often(&a->rng, 10) ? 1 : 0);
	volatile uint64_t *p;
	void *q;

	a->tally->doing = "mmap";
	if (rng_often(&a->rng, 10))
		return fork_and_ring(a);
	if (rng_often(&a->rng, 60))
		len = PAGE;
	p = mmap(NULL, len, rng_below(&a->rng, 8),
		 flags[rng_below(&a->rng, 3)], a->r.ctx->cmd_fd,
		 pgoff * PAGE);
	if (p == MAP_FAILED)
		return;
	mprotect((void *)p, len, PROT_READ | PROT_WRITE);
	/* a page that nobody may touch ends this life, which is a way to go */
	for (int i = 0; i < 8; i++)
		p[rng_below(&a->rng, PAGE / 8)] = rng_u64(&a->rng);
	q = mremap((void *)p, len, PAGE * (1 + rng_below(&a->rng, 3)),
		   MREMAP_MAYMOVE);
	if (q != MAP_FAILED)
		p = q;
	madvise((void *)p, PAGE, rng_below(&a->rng, 26));
	munmap((void *)p, 3 * PAGE);
}
