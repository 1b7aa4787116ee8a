// SPDX-License-Identifier: GPL-2.0
/*
 * Hardware counters: the twin of counters.c. They are counters of the port:
 * ports/1/hw_counters in sysfs, `rdma statistic show link`.
 *
 * Invariant: the engine's counters come first, in its own order, then those of
 * the driver half.
 */
#include <hca/counters.h>

#include "shca.h"

static const struct rdma_stat_desc shca_stat_descs[] = {
#define X(id, counter) { .name = counter },
	HCA_COUNTERS(X)
#undef X
	[HCA_CNT_MAX + SHCA_CNT_DOORBELL_TRAP] = { .name = "doorbell_trap" },
	[HCA_CNT_MAX + SHCA_CNT_DOORBELL_MAPPED] = { .name = "doorbell_mapped" },
};
static_assert(ARRAY_SIZE(shca_stat_descs) == HCA_CNT_MAX + SHCA_CNT_MAX);

static struct rdma_hw_stats *shca_alloc_hw_port_stats(struct ib_device *ibdev, u32 port_num)
{
	return rdma_alloc_hw_stats_struct(shca_stat_descs, ARRAY_SIZE(shca_stat_descs),
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

static int shca_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port,
			     int index)
{
	struct shca_dev *dev = to_sdev(ibdev);
	int i;

	if (!port)
		return -EINVAL;

	hca_read_counters(dev->hca, stats->value);
	for (i = 0; i < SHCA_CNT_MAX; i++)
		stats->value[HCA_CNT_MAX + i] = atomic64_read(&dev->counters[i]);
	return stats->num_counters;
}

static const struct ib_device_ops shca_counters_ops = {
	.alloc_hw_port_stats = shca_alloc_hw_port_stats,
	.get_hw_stats = shca_get_hw_stats,
};

/**
 * shca_counters_init() - offer the counters
 * @dev: the device, before its registration
 */
void shca_counters_init(struct shca_dev *dev)
{
	ib_set_device_ops(&dev->ib_dev, &shca_counters_ops);
}
