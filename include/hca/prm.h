/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Layouts of the PRM that <linux/mlx5/mlx5_ifc.h> of some supported kernel lacks. To be
 * used with MLX5_GET() and MLX5_SET(), like those.
 */
#ifndef HCA_PRM_H
#define HCA_PRM_H

#include <linux/types.h>

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

#endif /* HCA_PRM_H */
