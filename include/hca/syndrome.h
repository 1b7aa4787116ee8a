/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Vendor syndromes: the byte in an error CQE that says which check refused.
 *
 * The codes are those of the hardware model, HM 4.7, 8.7 and 9.2. A code An belongs
 * to the key that the request named (level 0), Bn to a key below it; the low
 * digit is one of enum hca_check. 0x81, 0x88..0x8a and 0xf9 are what real
 * ConnectX devices are commonly seen to report, the others are ours.
 */
#ifndef HCA_SYNDROME_H
#define HCA_SYNDROME_H

/**
 * enum hca_check - the translation checks, in the low digit of a vendor syndrome
 * @HCA_CHECK_NO_MKC: no such MKC, or a special key that is not allowed here
 * @HCA_CHECK_FREE: the MKC is free
 * @HCA_CHECK_VARIANT: low byte of the key differs from mkey_7_0
 * @HCA_CHECK_PD: protection domains differ
 * @HCA_CHECK_QPN: the key is bound to another QP
 * @HCA_CHECK_BOUNDS: outside [start_addr, start_addr + len)
 * @HCA_CHECK_LOCAL: lr or lw missing
 * @HCA_CHECK_REMOTE: rr or rw missing
 * @HCA_CHECK_ATOMIC: a missing
 * @HCA_CHECK_DEPTH: too many indirections
 * @HCA_CHECK_TABLE_END: translation table ends before the access does
 * @HCA_CHECK_PAGE: page not present, or its permission bit missing
 * @HCA_CHECK_ENTRY: malformed list entry
 * @HCA_CHECK_MODE: access mode unknown or not offered
 * @HCA_CHECK_BUS: the bus refused the DMA address
 * @HCA_CHECK_PROGRESS: page faults were answered without any effect
 */
enum hca_check {
	HCA_CHECK_NO_MKC	= 0x0,
	HCA_CHECK_FREE		= 0x1,
	HCA_CHECK_VARIANT	= 0x2,
	HCA_CHECK_PD		= 0x3,
	HCA_CHECK_QPN		= 0x4,
	HCA_CHECK_BOUNDS	= 0x5,
	HCA_CHECK_LOCAL		= 0x6,
	HCA_CHECK_REMOTE	= 0x7,
	HCA_CHECK_ATOMIC	= 0x8,
	HCA_CHECK_DEPTH		= 0x9,
	HCA_CHECK_TABLE_END	= 0xa,
	HCA_CHECK_PAGE		= 0xb,
	HCA_CHECK_ENTRY		= 0xc,
	HCA_CHECK_MODE		= 0xd,
	HCA_CHECK_BUS		= 0xe,
	HCA_CHECK_PROGRESS	= 0xf,
};

#define HCA_VS_LEVEL0		0xa0	/* | enum hca_check */
#define HCA_VS_NESTED		0xb0	/* | enum hca_check */

enum hca_vendor_syndrome {
	HCA_VS_NONE		= 0x00,
	HCA_VS_RETRY_EXC	= 0x81,	/* no answer from the peer in time × retries */
	HCA_VS_RNR_EXC		= 0x82,	/* receiver not ready, rnr_retry used up */
	HCA_VS_NAK_ACCESS	= 0x88,	/* peer: remote access error */
	HCA_VS_NAK_OP		= 0x89,	/* peer: remote operational error */
	HCA_VS_NAK_REQ		= 0x8a,	/* peer: invalid request */
	HCA_VS_ODP		= 0x93,	/* the host could not make the page ready */
	HCA_VS_UMR_NO_MKC	= 0xc0,	/* UMR: no such MKC */
	HCA_VS_UMR_KIND		= 0xc1,	/* special key, one without table, or pages from a user queue */
	HCA_VS_UMR_EN		= 0xc2,	/* umr_en is 0 */
	HCA_VS_UMR_PD		= 0xc3,	/* PDs of queue and key differ */
	HCA_VS_UMR_NOT_FREE	= 0xc4,	/* must be free, is in use */
	HCA_VS_UMR_FREE		= 0xc5,	/* must be in use, is free */
	HCA_VS_UMR_QPN		= 0xc6,	/* check_qpn: free, or bound to another QP */
	HCA_VS_UMR_VARIANT	= 0xc7,	/* low byte of the key differs from mkey_7_0 */
	HCA_VS_UMR_MASK		= 0xc8,	/* mask bit unknown or not offered */
	HCA_VS_UMR_MASK_QP	= 0xc9,	/* mask bit not allowed on this queue */
	HCA_VS_UMR_VALUE	= 0xca,	/* illegal new value */
	HCA_VS_UMR_SIZE		= 0xcb,	/* list does not fit the table */
	HCA_VS_UMR_ALIGN	= 0xcc,	/* offset, size or pointer not aligned */
	HCA_VS_UMR_FETCH	= 0xcd,	/* list behind the pointer not readable */
	HCA_VS_BAD_WQE		= 0xce,	/* segments do not fit the WQE, bad index or size */
	HCA_VS_BAD_OPCODE	= 0xcf,	/* opcode unknown, or not for this kind of QP */
	HCA_VS_INVAL_RIGHT	= 0xd0,	/* remote invalidate: en_rinval is 0 */
	HCA_VS_INVAL_KEY	= 0xd1,	/* no such MKC, free, or another variant */
	HCA_VS_INVAL_PD		= 0xd2,	/* PDs differ */
	HCA_VS_INVAL_QPN	= 0xd3,	/* the key is bound to another QP */
	HCA_VS_RQ_TOO_SHORT	= 0xe0,	/* message longer than the receive WQE */
	HCA_VS_QP_ACCESS	= 0xe1,	/* rre, rwe or rae clear on the responder QP */
	HCA_VS_MSG_TOO_LONG	= 0xe2,	/* longer than 2^log_msg_max, or 2^31 */
	HCA_VS_UNALIGNED	= 0xe3,	/* atomic target not 8-byte aligned */
	HCA_VS_RECORD		= 0xe4,	/* doorbell record runs ahead of the ring */
	HCA_VS_FLUSHED		= 0xf9,	/* flushed because the QP is in error */
};

#endif /* HCA_SYNDROME_H */
