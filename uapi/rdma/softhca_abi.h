/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * softhca's own ioctl methods on an RDMA device file: look into the HCA.
 *
 * Invariants:
 *  - Everything else that user space needs is mlx5's ABI; nothing here is needed
 *    to use the device.
 *  - The object id is the last one that the kernel admits for a driver, as far as
 *    possible from those of mlx5 (0x1000 upwards).
 *  - Objects are named by handle, so a program can look at its own only. DMA
 *    addresses are shown to CAP_NET_ADMIN, like `rdma resource show -r`; anybody
 *    else reads zeros in their place.
 */
#ifndef SOFTHCA_ABI_H
#define SOFTHCA_ABI_H

#include <linux/types.h>
#include <rdma/ib_user_ioctl_cmds.h>

enum shca_objects {
	SHCA_OBJECT_EXPLAIN = (1U << UVERBS_ID_NS_SHIFT) + 11,
};

enum shca_explain_methods {
	SHCA_METHOD_QUERY_MKEY = (1U << UVERBS_ID_NS_SHIFT),
	SHCA_METHOD_EXPLAIN,
};

/*
 * SHCA_METHOD_QUERY_MKEY: the memory key context of an MR as the HCA keeps it,
 * 64 bytes in the PRM's big-endian layout, and the beginning of its translation
 * table, as many octowords (16 bytes) as fit into the attribute.
 */
enum shca_attrs_query_mkey {
	SHCA_ATTR_QUERY_MKEY_MR_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
	SHCA_ATTR_QUERY_MKEY_MKC,		/* out, 64 bytes */
	SHCA_ATTR_QUERY_MKEY_XLT,		/* out, optional, 16 bytes and up */
};

#define SHCA_MKC_SIZE		64
#define SHCA_OCTOWORD_SIZE	16

/* The most that one call shows. */
#define SHCA_MAX_OCTOWORDS	4095
#define SHCA_MAX_STEPS		256

/*
 * SHCA_METHOD_EXPLAIN: the walk that a request through a QP would take, done by
 * the code that executes requests, without moving data.
 */
enum shca_attrs_explain {
	SHCA_ATTR_EXPLAIN_QP_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
	SHCA_ATTR_EXPLAIN_REQ,			/* in, struct shca_explain_req */
	SHCA_ATTR_EXPLAIN_RESP,			/* out, struct shca_explain_resp */
	SHCA_ATTR_EXPLAIN_STEPS,		/* out, array of struct shca_explain_step */
};

enum shca_explain_access {
	SHCA_EXPLAIN_READ,	/* memory is read: send gather, READ source */
	SHCA_EXPLAIN_WRITE,	/* memory is written: receive, WRITE target */
	SHCA_EXPLAIN_ATOMIC,	/* atomic target */
};

/**
 * struct shca_explain_req - the access to explain
 * @va: address in the key's space
 * @length: bytes, 1 or more
 * @key: lkey or rkey
 * @access: enum shca_explain_access
 * @remote: 0: as the local side of a request, 1: as its target
 * @reserved: 0
 */
struct shca_explain_req {
	__aligned_u64 va;
	__aligned_u64 length;
	__u32 key;
	__u8 access;
	__u8 remote;
	__u16 reserved;
};

/**
 * struct shca_explain_resp - the outcome
 * @num_steps: entries written to SHCA_ATTR_EXPLAIN_STEPS
 * @syndrome: 0 if the access is allowed, else the vendor syndrome of the check
 *	that refuses it (include/hca/syndrome.h)
 * @reserved: 0
 */
struct shca_explain_resp {
	__u32 num_steps;
	__u8 syndrome;
	__u8 reserved[3];
};

/**
 * struct shca_explain_step - one look-up in a translation table
 * @key: key that was looked up
 * @level: 0 for the key of the request, 1 and up below an indirect key
 * @access_mode: MKC.access_mode
 * @log_page_size: MKC.log_page_size
 * @syndrome: 0, or the vendor syndrome with which the walk ended here
 * @index: index of the entry in the table
 * @va: address at this level
 * @length: bytes of the request that the entry covers
 * @start: MKC.start_addr
 * @mkc_length: MKC.len
 * @entry: entry as stored; of an MTT without CAP_NET_ADMIN only the rights
 * @dma: resulting DMA address; 0 without CAP_NET_ADMIN
 */
struct shca_explain_step {
	__u32 key;
	__u8 level;
	__u8 access_mode;
	__u8 log_page_size;
	__u8 syndrome;
	__aligned_u64 index;
	__aligned_u64 va;
	__aligned_u64 length;
	__aligned_u64 start;
	__aligned_u64 mkc_length;
	__aligned_u64 entry[2];
	__aligned_u64 dma;
};

#endif /* SOFTHCA_ABI_H */
