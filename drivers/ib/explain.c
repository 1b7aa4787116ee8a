// SPDX-License-Identifier: GPL-2.0
/*
 * softhca's own ioctl methods (uapi/rdma/softhca_abi.h): what the HCA knows of a
 * key, and how it would translate an access.
 *
 * Invariants:
 *  - Handles are looked up in the caller's file, so they name its own objects.
 *  - A key in a request to explain is only a number, perhaps of somebody else's:
 *    of a key that the QP may not use, nothing but the refusal is told.
 *  - DMA addresses are told to CAP_NET_ADMIN only.
 */
#include <linux/capability.h>
#include <hca/explain.h>
#include <hca/syndrome.h>
#include <rdma/softhca_abi.h>
#include <rdma/uverbs_std_types.h>

#include "shca.h"

#define UVERBS_MODULE_NAME shca_explain
#include <rdma/uverbs_named_ioctl.h>

#define SHCA_CHECK_MASK		0x0f

/* Keep the rights of an MTT entry, drop its address. */
static __be64 shca_mask_mtt(__be64 entry)
{
	return entry & cpu_to_be64(MLX5_MTT_PERM_READ | MLX5_MTT_PERM_WRITE);
}

static int UVERBS_HANDLER(SHCA_METHOD_QUERY_MKEY)(struct uverbs_attr_bundle *attrs)
{
	size_t xlt_offset = MLX5_BYTE_OFF(query_mkey_out, bsf0_klm0_pas_mtt0_1);
	struct ib_mr *ibmr = uverbs_attr_get_obj(attrs, SHCA_ATTR_QUERY_MKEY_MR_HANDLE);
	struct shca_dev *dev = to_sdev(ibmr->device);
	struct shca_mr *mr = to_smr(ibmr);
	size_t octowords = 0, i;
	__be64 *entry;
	void *out, *mkc;
	int err;

	if (uverbs_attr_is_valid(attrs, SHCA_ATTR_QUERY_MKEY_XLT)) {
		octowords = uverbs_attr_get_len(attrs, SHCA_ATTR_QUERY_MKEY_XLT) /
			    SHCA_OCTOWORD_SIZE;
		octowords = min3(octowords, (size_t)mr->mmkey.ndescs, (size_t)SHCA_MAX_OCTOWORDS);
	}

	out = kvzalloc(xlt_offset + octowords * SHCA_OCTOWORD_SIZE, GFP_KERNEL);
	if (!out)
		return -ENOMEM;
	err = shca_cmd_query_mkey(dev, mr->mmkey.key, out,
				  xlt_offset + octowords * SHCA_OCTOWORD_SIZE);
	if (err)
		goto free_out;

	entry = out + xlt_offset;
	if (!capable(CAP_NET_ADMIN))
		for (i = 0; i < octowords * SHCA_OCTOWORD_SIZE / sizeof(*entry); i++)
			entry[i] = shca_mask_mtt(entry[i]);

	mkc = MLX5_ADDR_OF(query_mkey_out, out, memory_key_mkey_entry);
	err = uverbs_copy_to(attrs, SHCA_ATTR_QUERY_MKEY_MKC, mkc, SHCA_MKC_SIZE);
	if (!err && octowords)
		err = uverbs_copy_to(attrs, SHCA_ATTR_QUERY_MKEY_XLT, entry,
				     octowords * SHCA_OCTOWORD_SIZE);
free_out:
	kvfree(out);
	return err;
}

static bool shca_step_is_foreign(const struct hca_explain_step *step)
{
	if (!step->syndrome)
		return false;
	switch (step->syndrome & SHCA_CHECK_MASK) {
	case HCA_CHECK_NO_MKC:
	case HCA_CHECK_FREE:
	case HCA_CHECK_VARIANT:
	case HCA_CHECK_PD:
	case HCA_CHECK_QPN:
		return true;
	default:
		return false;
	}
}

static void shca_fill_step(struct shca_explain_step *to, const struct hca_explain_step *from,
			   bool admin)
{
	to->key = from->key;
	to->level = from->level;
	to->syndrome = from->syndrome;
	to->va = from->va;
	to->length = from->len;
	if (!admin && shca_step_is_foreign(from))
		return;

	to->access_mode = from->access_mode;
	to->log_page_size = from->log_page_size;
	to->index = from->index;
	to->start = from->start;
	to->mkc_length = from->mkc_len;
	to->entry[0] = from->entry[0];
	to->entry[1] = from->entry[1];
	to->dma = from->dma;
	if (admin)
		return;
	if (from->access_mode == MLX5_MKC_ACCESS_MODE_MTT)
		to->entry[0] &= MLX5_MTT_PERM_READ | MLX5_MTT_PERM_WRITE;
	to->dma = 0;
}

static int UVERBS_HANDLER(SHCA_METHOD_EXPLAIN)(struct uverbs_attr_bundle *attrs)
{
	struct ib_qp *ibqp = uverbs_attr_get_obj(attrs, SHCA_ATTR_EXPLAIN_QP_HANDLE);
	struct shca_dev *dev = to_sdev(ibqp->device);
	struct hca_explain_req hca_req = {};
	struct shca_explain_resp resp = {};
	bool admin = capable(CAP_NET_ADMIN);
	struct hca_explain_step *hca_steps;
	struct shca_explain_step *steps;
	struct shca_explain_req req;
	int max, n, i, err;

	err = uverbs_copy_from(&req, attrs, SHCA_ATTR_EXPLAIN_REQ);
	if (err)
		return err;
	if (req.reserved || req.remote > 1 || req.access > SHCA_EXPLAIN_ATOMIC || !req.length)
		return -EINVAL;

	max = uverbs_attr_get_len(attrs, SHCA_ATTR_EXPLAIN_STEPS) / sizeof(*steps);
	max = min(max, SHCA_MAX_STEPS);
	steps = uverbs_kcalloc(attrs, max, sizeof(*steps));
	if (IS_ERR(steps))
		return PTR_ERR(steps);
	hca_steps = uverbs_kcalloc(attrs, max, sizeof(*hca_steps));
	if (IS_ERR(hca_steps))
		return PTR_ERR(hca_steps);

	hca_req.key = req.key;
	hca_req.qpn = to_sqp(ibqp)->qpn;
	hca_req.va = req.va;
	hca_req.len = req.length;
	hca_req.access = req.access == SHCA_EXPLAIN_READ ? HCA_ACCESS_READ :
			 req.access == SHCA_EXPLAIN_WRITE ? HCA_ACCESS_WRITE : HCA_ACCESS_ATOMIC;
	hca_req.remote = req.remote;
	n = hca_explain(dev->hca, &hca_req, hca_steps, max, &resp.syndrome);
	if (n < 0)
		return n;

	for (i = 0; i < n; i++)
		shca_fill_step(&steps[i], &hca_steps[i], admin);
	resp.num_steps = n;
	err = uverbs_copy_to(attrs, SHCA_ATTR_EXPLAIN_RESP, &resp, sizeof(resp));
	if (err)
		return err;
	return uverbs_copy_to(attrs, SHCA_ATTR_EXPLAIN_STEPS, steps, n * sizeof(*steps));
}

DECLARE_UVERBS_NAMED_METHOD(
	SHCA_METHOD_QUERY_MKEY,
	UVERBS_ATTR_IDR(SHCA_ATTR_QUERY_MKEY_MR_HANDLE,
			UVERBS_OBJECT_MR,
			UVERBS_ACCESS_READ,
			UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(SHCA_ATTR_QUERY_MKEY_MKC,
			    UVERBS_ATTR_SIZE(SHCA_MKC_SIZE, SHCA_MKC_SIZE),
			    UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(SHCA_ATTR_QUERY_MKEY_XLT,
			    UVERBS_ATTR_MIN_SIZE(SHCA_OCTOWORD_SIZE),
			    UA_OPTIONAL));

DECLARE_UVERBS_NAMED_METHOD(
	SHCA_METHOD_EXPLAIN,
	UVERBS_ATTR_IDR(SHCA_ATTR_EXPLAIN_QP_HANDLE,
			UVERBS_OBJECT_QP,
			UVERBS_ACCESS_READ,
			UA_MANDATORY),
	UVERBS_ATTR_PTR_IN(SHCA_ATTR_EXPLAIN_REQ,
			   UVERBS_ATTR_TYPE(struct shca_explain_req),
			   UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(SHCA_ATTR_EXPLAIN_RESP,
			    UVERBS_ATTR_TYPE(struct shca_explain_resp),
			    UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(SHCA_ATTR_EXPLAIN_STEPS,
			    UVERBS_ATTR_MIN_SIZE(sizeof(struct shca_explain_step)),
			    UA_MANDATORY));

DECLARE_UVERBS_GLOBAL_METHODS(SHCA_OBJECT_EXPLAIN,
			      &UVERBS_METHOD(SHCA_METHOD_QUERY_MKEY),
			      &UVERBS_METHOD(SHCA_METHOD_EXPLAIN));

const struct uapi_definition shca_explain_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE_NAMED(SHCA_OBJECT_EXPLAIN),
	{}
};
