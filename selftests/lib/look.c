// SPDX-License-Identifier: GPL-2.0
/* See look.h. */
#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include "look.h"

#define MAX_ATTRS	4

struct call {
	struct ib_uverbs_ioctl_hdr hdr;
	struct ib_uverbs_attr attrs[MAX_ATTRS];
};

static void begin(struct call *call, uint16_t method)
{
	memset(call, 0, sizeof(*call));
	call->hdr.object_id = SHCA_OBJECT_EXPLAIN;
	call->hdr.method_id = method;
	call->hdr.driver_id = RDMA_DRIVER_MLX5;
}

static void add(struct call *call, uint16_t id, uint64_t data, uint16_t len)
{
	call->attrs[call->hdr.num_attrs++] = (struct ib_uverbs_attr){
		.attr_id = id, .len = len, .data = data,
		.flags = UVERBS_ATTR_F_MANDATORY,
	};
}

static int submit(struct ibv_context *ctx, struct call *call)
{
	call->hdr.length = sizeof(call->hdr) +
			   call->hdr.num_attrs * sizeof(call->attrs[0]);
	return ioctl(ctx->cmd_fd, RDMA_VERBS_IOCTL, call) ? -errno : 0;
}

uint32_t mkc_word(const uint8_t *mkc, unsigned int at)
{
	uint32_t word;

	memcpy(&word, mkc + at, sizeof(word));
	return be32toh(word);
}

static uint64_t mkc_long(const uint8_t *mkc, unsigned int at)
{
	return (uint64_t)mkc_word(mkc, at) << 32 | mkc_word(mkc, at + 4);
}

int look_mr(struct ibv_mr *mr, struct look *look)
{
	const uint8_t *mkc = look->mkc;
	struct call call;
	int err;

	memset(look, 0, sizeof(*look));
	begin(&call, SHCA_METHOD_QUERY_MKEY);
	add(&call, SHCA_ATTR_QUERY_MKEY_MR_HANDLE, mr->handle, 0);
	add(&call, SHCA_ATTR_QUERY_MKEY_MKC, (uintptr_t)look->mkc,
	    sizeof(look->mkc));
	add(&call, SHCA_ATTR_QUERY_MKEY_XLT, (uintptr_t)look->mtt,
	    sizeof(look->mtt));
	err = submit(mr->context, &call);
	if (err)
		return err;
	look->free = mkc_word(mkc, 0) >> 30 & 1;
	look->access_mode = (mkc_word(mkc, 0) >> 26 & 7) << 2 |
			    (mkc_word(mkc, 0) >> 8 & 3);
	look->rights = mkc_word(mkc, 0) & 0x7c00;
	look->umr_en = mkc_word(mkc, 0) >> 15 & 1;
	look->qpn = mkc_word(mkc, 4) >> 8;
	look->variant = mkc_word(mkc, 4) & 0xff;
	look->pd = mkc_word(mkc, 0xc) & 0xffffff;
	look->start = mkc_long(mkc, 0x10);
	look->len = mkc_long(mkc, 0x18);
	look->octwords = mkc_word(mkc, 0x34);
	look->log_page_size = mkc_word(mkc, 0x38) & 0x3f;
	look->entries = look->octwords * 2;
	if (look->entries > sizeof(look->mtt) / sizeof(look->mtt[0]))
		look->entries = sizeof(look->mtt) / sizeof(look->mtt[0]);
	for (unsigned int i = 0; i < look->entries; i++)
		look->mtt[i] = be64toh(look->mtt[i]);
	return 0;
}

int look_walk(struct ibv_qp *qp, const struct shca_explain_req *req,
	      struct shca_explain_step *steps, unsigned int max,
	      uint8_t *refused_by)
{
	struct shca_explain_resp resp = {};
	struct call call;
	int err;

	begin(&call, SHCA_METHOD_EXPLAIN);
	add(&call, SHCA_ATTR_EXPLAIN_QP_HANDLE, qp->handle, 0);
	add(&call, SHCA_ATTR_EXPLAIN_REQ, (uintptr_t)req, sizeof(*req));
	add(&call, SHCA_ATTR_EXPLAIN_RESP, (uintptr_t)&resp, sizeof(resp));
	add(&call, SHCA_ATTR_EXPLAIN_STEPS, (uintptr_t)steps,
	    max * sizeof(*steps));
	err = submit(qp->context, &call);
	if (err)
		return err;
	*refused_by = resp.syndrome;
	return resp.num_steps;
}
