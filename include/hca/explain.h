/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Explaining a translation: the walk that a request would take, step by step,
 * done by the very function that executes requests (design rule 5). Nothing is
 * moved, and a refusal is reported with the check that refused.
 */
#ifndef HCA_EXPLAIN_H
#define HCA_EXPLAIN_H

#include <linux/types.h>

struct hca;

enum hca_access {
	HCA_ACCESS_READ,	/* memory is read: send gather, READ source */
	HCA_ACCESS_WRITE,	/* memory is written: WRITE target, receive */
	HCA_ACCESS_ATOMIC,	/* both: atomic target, remote side only */
};

/**
 * struct hca_explain_req - the access to explain
 * @key: lkey or rkey
 * @qpn: the queue pair whose PD, number and side count
 * @va: address in the key's space
 * @len: bytes, 1 or more
 * @access: what would be done to the memory
 * @remote: true for the responder's side (remote rights count)
 */
struct hca_explain_req {
	u32 key;
	u32 qpn;
	u64 va;
	u64 len;
	enum hca_access access;
	bool remote;
};

/**
 * struct hca_explain_step - one table look-up
 * @key: the key looked up at this step
 * @level: 0 for the key of the request, 1 and up below an indirect key
 * @access_mode: MKC.access_mode (MLX5_MKC_ACCESS_MODE_*)
 * @log_page_size: MKC.log_page_size
 * @syndrome: 0, or the vendor syndrome with which the walk ended here
 * @index: index of the entry in the translation table
 * @va: address at this level
 * @len: bytes that this entry covers of the request
 * @start: MKC.start_addr
 * @mkc_len: MKC.len
 * @entry: the entry as stored: an MTT in entry[0], a KLM or KSM in both
 * @dma: resulting DMA address (leaf steps)
 */
struct hca_explain_step {
	u32 key;
	u8 level;
	u8 access_mode;
	u8 log_page_size;
	u8 syndrome;
	u64 index;
	u64 va;
	u64 len;
	u64 start;
	u64 mkc_len;
	u64 entry[2];
	u64 dma;
};

/**
 * hca_explain() - walk a key and tell each step
 * @hca: the HCA
 * @req: the access
 * @steps: room for @max steps
 * @max: at least 1
 * @syndrome: 0 when the access would be allowed, else its vendor syndrome
 *
 * Context: process, may sleep.
 * Return: number of steps written (the walk may be longer than @max; it is then
 * checked to its end all the same); -ENOENT when there is no such QP; -ENOMEM.
 */
int hca_explain(struct hca *hca, const struct hca_explain_req *req,
		struct hca_explain_step *steps, unsigned int max, u8 *syndrome);

/**
 * struct hca_qp_error - why a QP is in the error state
 * @syndrome: CQE syndrome (MLX5_CQE_SYNDROME_*) of the first failure
 * @vendor: vendor syndrome of the check that failed, on the responder the code
 *	which the requester does not get to see
 * @key: key of the failed access, 0 if none
 * @va: address of the failed access
 * @responder: true if this QP was the responder of the failed request
 */
struct hca_qp_error {
	u8 syndrome;
	u8 vendor;
	bool responder;
	u32 key;
	u64 va;
};

/**
 * hca_qp_error() - the debug record of a QP
 * @hca: the HCA
 * @qpn: number of the QP
 * @err: filled in; all zero when nothing failed since the last reset
 *
 * Context: any.
 * Return: 0, or -ENOENT.
 */
int hca_qp_error(struct hca *hca, u32 qpn, struct hca_qp_error *err);

#endif /* HCA_EXPLAIN_H */
