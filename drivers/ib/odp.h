/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of on-demand paging have to do with each other. */
#ifndef SHCA_ODP_H
#define SHCA_ODP_H

#include <linux/mlx5/qp.h>

#include "shca.h"

/* odp.c */
extern const struct mmu_interval_notifier_ops shca_mn_ops;
long pagefault_real_mr(struct shca_mr *mr, u64 user_va, u64 bcnt,
		       unsigned int flags);

/* dmabuf.c */
long pagefault_dmabuf_mr(struct shca_mr *mr, u64 io_virt, u64 bcnt);

/* implicit.c */
void shca_implicit_init_one(struct shca_dev *dev);
void populate_ksm(struct mlx5_klm *ksm, size_t idx, size_t nentries, struct shca_mr *imr,
		  const struct shca_xlt_zap *zap);
void destroy_unused_implicit_child_mr(struct shca_mr *mr);
struct ib_mr *shca_alloc_implicit_mr(struct ib_pd *pd, int access_flags);
long pagefault_implicit_mr(struct shca_mr *imr, u64 user_va, u64 bcnt, unsigned int flags);

#endif /* SHCA_ODP_H */
