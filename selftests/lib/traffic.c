// SPDX-License-Identifier: GPL-2.0
/* See traffic.h. */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include "traffic.h"
#include "mem.h"

#define WINDOW	(1ul << 20)	/* receives, source, and what the peer reaches */
#define DEPTH	8
#define RECVS	64
#define RECV_ID	1000

int traffic_open(struct traffic *t)
{
	struct qp_cfg cfg = { .timeout = 10, .retry_cnt = 3,
			      .recv_wr = RECVS };

	memset(t, 0, sizeof(*t));
	if (rdma_open(&t->r))
		return -ENODEV;
	t->pd = ibv_alloc_pd(t->r.ctx);
	t->cq = ibv_create_cq(t->r.ctx, 255, NULL, NULL, 0);
	t->buf = mem_pages(3 * WINDOW);
	if (!t->pd || !t->cq || !t->buf)
		return -ENOMEM;
	t->mr = ibv_reg_mr(t->pd, t->buf, 3 * WINDOW, ACCESS_ALL);
	t->qp = qp_create(t->pd, t->cq, t->cq, &cfg);
	if (!t->mr || !t->qp)
		return -ENOMEM;
	t->me.qpn = t->qp->qp_num;
	t->me.rkey = t->mr->rkey;
	t->me.addr = (uintptr_t)t->buf + 2 * WINDOW;
	return 0;
}

static int repost(struct traffic *t)
{
	return post_recv(t->qp, RECV_ID, (uintptr_t)t->buf, WINDOW,
			 t->mr->lkey);
}

int traffic_connect(struct traffic *t, const struct traffic_facts *peer)
{
	struct qp_cfg cfg = { .timeout = 10, .retry_cnt = 3 };
	int err;

	t->peer = *peer;
	err = qp_connect(&t->r, t->qp, &cfg, peer->qpn);
	for (int i = 0; i < RECVS && !err; i++)
		err = repost(t);
	return err;
}

static int post_next(struct traffic *t, unsigned int n)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_RDMA_WRITE_WITH_IMM,
	};
	static const uint32_t sizes[] = { 8, 4096, 65536, 1 << 20, 100, 8192 };
	struct op op = {
		.opcode = opcodes[n % 5], .id = n, .cmp_add = 1,
		.flags = IBV_SEND_SIGNALED, .len = sizes[n % 6],
		.laddr = (uintptr_t)t->buf + WINDOW, .lkey = t->mr->lkey,
		.raddr = t->peer.addr, .rkey = t->peer.rkey,
	};

	if (op.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		op.len = 8;
	return post(t->qp, &op);
}

/* The kernel says so by an event; completions just stop coming */
static bool device_is_gone(struct traffic *t)
{
	struct ibv_async_event event;

	return wait_async(&t->r, &event, 0) == 1 &&
	       event.event_type == IBV_EVENT_DEVICE_FATAL;
}

int traffic_run(struct traffic *t, const volatile int *stop)
{
	uint64_t heard = now_us();
	unsigned int n = 0, idle = 0;
	int outstanding = 0, err;
	struct ibv_wc wc;

	while (!*stop) {
		while (outstanding < DEPTH) {
			err = post_next(t, n++);
			if (err)
				return err;
			outstanding++;
		}
		err = ibv_poll_cq(t->cq, 1, &wc);
		if (err < 0)
			return -EIO;
		if (!err) {
			if (++idle % 256 == 0 && device_is_gone(t))
				return -ENODEV;
			if (now_us() - heard > WAIT_MS * 1000)
				return -ETIMEDOUT;
			sched_yield();
			continue;
		}
		heard = now_us();
		if (wc.status)
			return wc.status;
		t->done++;
		if (wc.opcode & IBV_WC_RECV)
			err = repost(t);
		else
			outstanding--;
		if (err < 0)
			return err;
	}
	return 0;
}

void traffic_close(struct traffic *t)
{
	if (t->qp)
		ibv_destroy_qp(t->qp);
	if (t->mr)
		ibv_dereg_mr(t->mr);
	if (t->cq)
		ibv_destroy_cq(t->cq);
	if (t->pd)
		ibv_dealloc_pd(t->pd);
	rdma_close(&t->r);
	if (t->buf)
		munmap(t->buf, 3 * WINDOW);
}
