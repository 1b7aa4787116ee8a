/* SPDX-License-Identifier: GPL-2.0 */
/* Stand-in for the driver's own header, which qp.h and cq.h include: only what makes their inline functions compile. */
#ifndef SHIM_LINUX_MLX5_DRIVER_H
#define SHIM_LINUX_MLX5_DRIVER_H

#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/list.h>
#include <linux/atomic.h>
#include <linux/wait.h>
#include <linux/mlx5/device.h>

struct mlx5_rsc_debug;

struct mlx5_core_rsc_common {
	int res;
};

struct mlx5_hca_cap {
	u32 cur[1024];
	u32 max[1024];
};

struct mlx5_core_dev {
	struct {
		struct mlx5_hca_cap *hca[MLX5_CAP_NUM];
	} caps;
};

static inline u8 mlx5_get_roce_state(struct mlx5_core_dev *dev) { return 1; }

#define MLX5_CQ_DOORBELL	0x20
static inline void mlx5_write64(__be32 val[2], void *dest) { memcpy(dest, val, 8); }

#endif
