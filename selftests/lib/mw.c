// SPDX-License-Identifier: GPL-2.0
/* See mw.h. */
#include <errno.h>
#include "mw.h"

static int status_of(struct ibv_cq *cq, struct ibv_wc *wc)
{
	struct ibv_wc here;
	int n = wait_wc(cq, wc ?: &here, WAIT_MS);

	if (n <= 0)
		return n ?: -ETIMEDOUT;
	return (wc ?: &here)->status;
}

static struct ibv_mw_bind_info info_of(const struct window *to)
{
	return (struct ibv_mw_bind_info){
		.mr = to->mr, .addr = to->addr, .length = to->len,
		.mw_access_flags = to->access,
	};
}

int mw_bind_1(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_mw *mw,
	      const struct window *to, struct ibv_wc *wc)
{
	struct ibv_mw_bind bind = {
		.send_flags = IBV_SEND_SIGNALED, .bind_info = info_of(to),
	};
	int err = ibv_bind_mw(qp, mw, &bind);

	return err ? -err : status_of(cq, wc);
}

int mw_bind_2(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_mw *mw,
	      const struct window *to, uint32_t rkey, struct ibv_wc *wc)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED,
		.bind_mw = { .mw = mw, .rkey = rkey, .bind_info = info_of(to) },
	}, *bad;
	int err = ibv_post_send(qp, &wr, &bad);

	return err ? -err : status_of(cq, wc);
}

int local_inv(struct ibv_qp *qp, struct ibv_cq *cq, uint32_t rkey,
	      struct ibv_wc *wc)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED,
		.invalidate_rkey = rkey,
	}, *bad;
	int err = ibv_post_send(qp, &wr, &bad);

	return err ? -err : status_of(cq, wc);
}
