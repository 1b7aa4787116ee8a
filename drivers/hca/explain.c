// SPDX-License-Identifier: GPL-2.0
/*
 * Explaining a translation: the walk of a request, with nobody's bytes moved.
 *
 * Invariant: the walk is hca_xlate()'s own, chunk by chunk as a request makes it;
 * only the report is added.
 */
#include <linux/errno.h>
#include <linux/minmax.h>
#include <linux/slab.h>

#include "engine.h"

struct hca_explanation {
	struct hca_explain_step *steps;
	unsigned int nr;
	unsigned int max;
};

static void hca_explain_step(void *arg, const struct hca_explain_step *step)
{
	struct hca_explanation *e = arg;

	if (e->nr < e->max)
		e->steps[e->nr++] = *step;
}

int hca_explain(struct hca *hca, const struct hca_explain_req *req,
		struct hca_explain_step *steps, unsigned int max, u8 *syndrome)
{
	struct hca_explanation e = { .steps = steps, .max = max };
	struct hca_walk walk = { .hca = hca, .access = req->access };
	u64 done = 0, n;
	unsigned int before;
	struct hca_qp *qp;
	int ret;

	*syndrome = HCA_VS_NONE;
	qp = hca_qp_get(hca, req->qpn);
	if (!qp)
		return -ENOENT;
	walk.who.pd = qp->pd;
	walk.who.qpn = qp->qpn;
	walk.who.rlky = qp->rlky;
	walk.who.any_pd = !qp->pd_number;
	walk.who.remote = req->remote;
	hca_qp_put(qp);
	walk.sgl = kmalloc_obj(*walk.sgl);
	if (!walk.sgl)
		return -ENOMEM;
	walk.trace = hca_explain_step;
	walk.trace_arg = &e;
	while (done < req->len) {
		hca_sgl_init(walk.sgl);
		before = e.nr;
		n = hca_xlate(&walk, req->key, req->va + done, req->len - done,
			      min_t(u64, req->len - done, HCA_CHUNK));
		hca_sgl_release(hca, walk.sgl);
		if (walk.sgl->changing) {
			/* These steps are told again, as they are after the change. */
			e.nr = before;
			hca_mkey_wait(hca, walk.sgl->changing);
			continue;
		}
		if (!n) {
			*syndrome = walk.sgl->syndrome;
			break;
		}
		done += n;
	}
	ret = e.nr;
	kfree(walk.sgl);
	return ret;
}
