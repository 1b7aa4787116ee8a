// SPDX-License-Identifier: GPL-2.0
/* See rdma.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "rdma.h"

const char *dev_name(void)
{
	const char *name = getenv("IBV_TEST_DEV");

	return name && *name ? name : "softhca0";
}

uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000ull + t.tv_nsec / 1000;
}

static int read_line(const char *path, char *line, size_t size)
{
	FILE *file = fopen(path, "r");
	char *got;

	if (!file)
		return -errno;
	got = fgets(line, size, file);
	fclose(file);
	return got ? 0 : -ENODATA;
}

static int find_gid(struct rdma *r)
{
	struct ibv_gid_entry entry;

	for (int i = 0; i < r->port.gid_tbl_len; i++) {
		if (ibv_query_gid_ex(r->ctx, 1, i, &entry, 0))
			continue;
		if (entry.gid_type != IBV_GID_TYPE_ROCE_V2)
			continue;
		r->gid = entry.gid;
		r->gid_index = i;
		return 0;
	}
	return -ENOENT;
}

int rdma_open(struct rdma *r)
{
	struct ibv_device **list, *device = NULL;
	char path[128], line[128];
	int flags;

	memset(r, 0, sizeof(*r));
	/* libmlx5 writes each error CQE to stderr, and errors are our business */
	setenv("MLX5_DEBUG_FILE", "/dev/null", 0);
	list = ibv_get_device_list(NULL);
	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), dev_name()))
			device = list[i];
	if (device)
		r->ctx = ibv_open_device(device);
	if (list)
		ibv_free_device_list(list);
	if (!r->ctx)
		return -ENODEV;
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/node_desc",
		 dev_name());
	r->softhca = !read_line(path, line, sizeof(line)) &&
		     strstr(line, "softhca");
	flags = fcntl(r->ctx->async_fd, F_GETFL);
	fcntl(r->ctx->async_fd, F_SETFL, flags | O_NONBLOCK);
	if (ibv_query_device(r->ctx, &r->attr) ||
	    ibv_query_port(r->ctx, 1, &r->port) || find_gid(r)) {
		rdma_close(r);
		return -ENODEV;
	}
	return 0;
}

void rdma_close(struct rdma *r)
{
	if (r->ctx)
		ibv_close_device(r->ctx);
	r->ctx = NULL;
}

struct ibv_qp *qp_create(struct ibv_pd *pd, struct ibv_cq *scq,
			 struct ibv_cq *rcq, const struct qp_cfg *cfg)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = scq,
		.recv_cq = rcq,
		.sq_sig_all = cfg->sig_all,
		.cap = {
			.max_send_wr = cfg->send_wr ?: 64,
			.max_recv_wr = cfg->recv_wr ?: 64,
			.max_send_sge = cfg->send_sge ?: 4,
			.max_recv_sge = cfg->recv_sge ?: 4,
			.max_inline_data = cfg->max_inline,
		},
	};

	return ibv_create_qp(pd, &init);
}

int qp_init(struct ibv_qp *qp, const struct qp_cfg *cfg)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = cfg->access ?: ACCESS_REMOTE,
	};

	if (cfg->access == ~0u)
		attr.qp_access_flags = 0;
	return -ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
			      IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int qp_rtr(struct rdma *r, struct ibv_qp *qp, const struct qp_cfg *cfg,
	   uint32_t dest_qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest_qpn,
		.rq_psn = 0x123,
		.max_dest_rd_atomic = cfg->rd_atomic ?: 8,
		.min_rnr_timer = cfg->min_rnr_timer ?: 12,
		.ah_attr = {
			.is_global = 1,
			.port_num = 1,
			.grh = {
				.dgid = r->gid,
				.sgid_index = r->gid_index,
				.hop_limit = 64,
			},
		},
	};

	return -ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV |
			      IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			      IBV_QP_MIN_RNR_TIMER);
}

int qp_rts(struct ibv_qp *qp, const struct qp_cfg *cfg)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = 0x123,
		.timeout = cfg->timeout ?: 14,
		.retry_cnt = cfg->retry_cnt ?: 7,
		.rnr_retry = cfg->rnr_retry ?: 7,
		.max_rd_atomic = cfg->rd_atomic ?: 8,
	};

	if (cfg->rnr_retry == (uint8_t)~0)
		attr.rnr_retry = 0;
	return -ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT |
			      IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

int qp_connect(struct rdma *r, struct ibv_qp *qp, const struct qp_cfg *cfg,
	       uint32_t dest_qpn)
{
	int err = qp_init(qp, cfg);

	if (!err)
		err = qp_rtr(r, qp, cfg, dest_qpn);
	if (!err)
		err = qp_rts(qp, cfg);
	return err;
}

int qp_to(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	return -ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

int qp_state(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int err = ibv_query_qp(qp, &attr, IBV_QP_STATE, &init);

	return err ? -err : (int)attr.qp_state;
}

bool qp_state_within(struct ibv_qp *qp, enum ibv_qp_state state, int ms)
{
	uint64_t end = now_us() + ms * 1000ull;

	do {
		if (qp_state(qp) == (int)state)
			return true;
		usleep(500);
	} while (now_us() < end);
	return false;
}

int pair_open(struct pair *p, const struct qp_cfg *cfg)
{
	int err;

	memset(p, 0, sizeof(*p));
	if (cfg)
		p->cfg = *cfg;
	err = rdma_open(&p->r);
	if (err)
		return err;
	p->pd = ibv_alloc_pd(p->r.ctx);
	if (!p->pd)
		return -errno;
	p->acq = ibv_create_cq(p->r.ctx, 1024, NULL, NULL, 0);
	p->bcq = ibv_create_cq(p->r.ctx, 1024, NULL, NULL, 0);
	if (!p->acq || !p->bcq)
		return -errno;
	p->a = qp_create(p->pd, p->acq, p->acq, &p->cfg);
	p->b = qp_create(p->pd, p->bcq, p->bcq, &p->cfg);
	if (!p->a || !p->b)
		return -errno;
	err = qp_connect(&p->r, p->a, &p->cfg, p->b->qp_num);
	if (!err)
		err = qp_connect(&p->r, p->b, &p->cfg, p->a->qp_num);
	return err;
}

int pair_reconnect(struct pair *p)
{
	int err = qp_to(p->a, IBV_QPS_RESET);

	if (!err)
		err = qp_to(p->b, IBV_QPS_RESET);
	drop_wcs(p->acq);
	drop_wcs(p->bcq);
	while (wait_async(&p->r, NULL, 0) > 0)
		;
	if (!err)
		err = qp_connect(&p->r, p->a, &p->cfg, p->b->qp_num);
	if (!err)
		err = qp_connect(&p->r, p->b, &p->cfg, p->a->qp_num);
	return err;
}

void pair_close(struct pair *p)
{
	if (p->a)
		ibv_destroy_qp(p->a);
	if (p->b)
		ibv_destroy_qp(p->b);
	if (p->acq)
		ibv_destroy_cq(p->acq);
	if (p->bcq)
		ibv_destroy_cq(p->bcq);
	if (p->pd)
		ibv_dealloc_pd(p->pd);
	rdma_close(&p->r);
	memset(p, 0, sizeof(*p));
}

int post(struct ibv_qp *qp, const struct op *op)
{
	struct ibv_sge one = {
		.addr = op->laddr, .length = op->len, .lkey = op->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = op->id,
		.opcode = op->opcode,
		.send_flags = op->flags,
		.imm_data = op->imm,
		.sg_list = op->sg ?: &one,
		.num_sge = op->sg ? op->sges : op->len != 0,
	}, *bad;

	if (op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	    op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = op->raddr;
		wr.wr.atomic.rkey = op->rkey;
		wr.wr.atomic.compare_add = op->cmp_add;
		wr.wr.atomic.swap = op->swap;
	} else {
		wr.wr.rdma.remote_addr = op->raddr;
		wr.wr.rdma.rkey = op->rkey;
	}
	return -ibv_post_send(qp, &wr, &bad);
}

int post_recv(struct ibv_qp *qp, uint64_t id, uint64_t addr, uint32_t len,
	      uint32_t lkey)
{
	struct ibv_sge sge = { .addr = addr, .length = len, .lkey = lkey };
	struct ibv_recv_wr wr = {
		.wr_id = id, .sg_list = &sge, .num_sge = len != 0,
	}, *bad;

	return -ibv_post_recv(qp, &wr, &bad);
}

int wait_wc(struct ibv_cq *cq, struct ibv_wc *wc, int ms)
{
	uint64_t end = now_us() + ms * 1000ull;
	int n;

	for (;;) {
		n = ibv_poll_cq(cq, 1, wc);
		if (n)
			return n;
		if (now_us() >= end)
			return 0;
		sched_yield();
	}
}

int wait_good(struct ibv_cq *cq, int n)
{
	struct ibv_wc wc;
	int got;

	while (n--) {
		got = wait_wc(cq, &wc, WAIT_MS);
		if (got <= 0)
			return got ?: -ETIMEDOUT;
		if (wc.status)
			return wc.status;
	}
	return 0;
}

int run(struct ibv_qp *qp, struct ibv_cq *cq, const struct op *op,
	struct ibv_wc *wc)
{
	struct op signalled = *op;
	struct ibv_wc here;
	int err;

	signalled.flags |= IBV_SEND_SIGNALED;
	err = post(qp, &signalled);
	if (err)
		return err;
	err = wait_wc(cq, wc ?: &here, WAIT_MS);
	if (err <= 0)
		return err ?: -ETIMEDOUT;
	return (wc ?: &here)->status;
}

int drop_wcs(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n = 0;

	while (ibv_poll_cq(cq, 1, &wc) > 0)
		n++;
	return n;
}

static int readable(int fd, int ms)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };

	return poll(&wait, 1, ms);
}

int wait_async(struct rdma *r, struct ibv_async_event *event, int ms)
{
	struct ibv_async_event here;
	int n = readable(r->ctx->async_fd, ms);

	if (n <= 0)
		return n;
	if (ibv_get_async_event(r->ctx, event ?: &here))
		return -errno;
	ibv_ack_async_event(event ?: &here);
	return 1;
}

bool async_of_qp(struct rdma *r, enum ibv_event_type type, struct ibv_qp *qp,
		 int ms)
{
	uint64_t end = now_us() + ms * 1000ull;
	struct ibv_async_event event;

	do {
		if (wait_async(r, &event, ms) <= 0)
			return false;
		if (event.event_type == type && event.element.qp == qp)
			return true;
	} while (now_us() < end);
	return false;
}

int wait_comp(struct ibv_comp_channel *channel, int ms)
{
	struct ibv_cq *cq;
	void *context;
	int n = readable(channel->fd, ms);

	if (n <= 0)
		return n;
	if (ibv_get_cq_event(channel, &cq, &context))
		return -errno;
	ibv_ack_cq_events(cq, 1);
	return 1;
}

/* The kernel keeps what it read for a while: see to it that the while is short */
static void counters_fresh(void)
{
	struct timespec before, now;
	static bool done;
	char path[256];
	FILE *file;

	if (!done) {
		snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/hw_counters/lifespan",
			 dev_name());
		file = fopen(path, "w");
		if (file) {
			fputs("0", file);
			fclose(file);
		}
		done = true;
	}
	/* a tick, which on a busy machine comes when it comes: the coarse clock moves with it */
	clock_gettime(CLOCK_MONOTONIC_COARSE, &before);
	do {
		usleep(1000);
		clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	} while (now.tv_nsec == before.tv_nsec && now.tv_sec == before.tv_sec);
}

long long hw_counter(const char *name)
{
	static const char *const places[] = {
		"/sys/class/infiniband/%s/hw_counters/%s",
		"/sys/class/infiniband/%s/ports/1/hw_counters/%s",
	};
	char path[256], line[64];

	counters_fresh();
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), places[i], dev_name(), name);
		if (!read_line(path, line, sizeof(line)))
			return strtoll(line, NULL, 0);
	}
	return -1;
}

int swap_facts(int fd, const void *mine, void *theirs, size_t len)
{
	size_t at = 0;
	ssize_t n;

	if (write(fd, mine, len) != (ssize_t)len)
		return -EIO;
	while (at < len) {
		if (readable(fd, WAIT_MS) <= 0)
			return -ETIMEDOUT;
		n = read(fd, (char *)theirs + at, len - at);
		if (n <= 0)
			return -EPIPE;
		at += n;
	}
	return 0;
}
