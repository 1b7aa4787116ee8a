/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fields that the PRM has and <linux/mlx5/mlx5_ifc.h> leaves out, in its own form:
 * for MLX5_GET() and MLX5_SET() on the structure that they belong to. To be included
 * after mlx5_ifc.h, which programs of user space have elsewhere.
 *
 * Invariant: nothing here repeats a field of mlx5_ifc.h, lengths of what lies before
 * excepted; the bits are reserved there.
 */
#ifndef HCA_PRM_H
#define HCA_PRM_H

/* Of cmd_hca_cap_2: log2 of the largest block of a KSM key; Linux 6.12 has no name for it. */
struct mlx5_ifc_hca_cap_2_ksm_bits {
	u8         reserved_at_0[0x3a2];
	u8         max_mkey_log_entity_size_fixed_buffer[0x6];
	u8         reserved_at_3a8[0x18];
};

/* Of mkc: a counter that UMRs can set; Linux 7.3 and 6.12 have no name for it (HM 2.3). */
struct mlx5_ifc_mkc_generation_bits {
	u8         reserved_at_0[0x1f0];
	u8         generation_counter[0x10];
};

/* cqc: the umem that holds the doorbell record, when dbr_umem_valid */
struct mlx5_ifc_cqc_umem_bits {
	u8 reserved_at_0[0x20];

	u8 dbr_umem_id[0x20];
};

/* qpc: the same; and where the counter of the send queue is told, 0 for the record */
struct mlx5_ifc_qpc_umem_bits {
	u8 reserved_at_0[0xa0];

	u8 send_dbr_mode[0x2];
	u8 reserved_at_a2[0x67e];

	u8 dbr_umem_id[0x20];
};

static_assert(sizeof(struct mlx5_ifc_qpc_umem_bits) == sizeof(struct mlx5_ifc_qpc_bits));

/* create_cq_in, modify_cq_in: the umem that holds the ring, when cq_umem_valid */
struct mlx5_ifc_cq_in_umem_bits {
	u8 reserved_at_0[0x280];

	u8 cq_umem_offset[0x40];

	u8 cq_umem_id[0x20];
};

#endif /* HCA_PRM_H */
