/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The layouts of the HCA's commands in user space: those of the kernel, for
 * DEVX_SET() and DEVX_GET() of mlx5dv.h.
 */
#ifndef SELFTESTS_LIB_PRM_H
#define SELFTESTS_LIB_PRM_H

#include <assert.h>
#include <stdint.h>
#include <infiniband/mlx5dv.h>

typedef uint8_t u8;

#define BIT(n)			(1u << (n))
#define BIT_ULL(n)		(1ull << (n))
#define DECLARE_FLEX_ARRAY(type, name) \
	struct { struct { } empty_##name; type name[]; }

#include <mlx5/mlx5_ifc.h>
#include <hca/prm.h>

#endif
