// SPDX-License-Identifier: GPL-2.0
/*
 * Power on, power off, and the counters.
 *
 * Invariant: hca_destroy() takes things down in the reverse order of use:
 * queues stop first, then keys go, then the context memory under them.
 */
#include <linux/bitmap.h>
#include <linux/errno.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "engine.h"

struct hca *hca_create(const struct hca_host_ops *ops, void *host)
{
	struct hca *hca;

	hca = kzalloc_obj(*hca);
	if (!hca)
		return NULL;
	hca->counters = __alloc_percpu(HCA_CNT_MAX * sizeof(u64), sizeof(u64));
	if (!hca->counters)
		goto free_hca;
	hca->wq = alloc_workqueue("softhca", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!hca->wq)
		goto free_counters;
	hca->mkey_map = kvcalloc(BITS_TO_LONGS(1UL << HCA_LOG_MAX_MKEY),
				 sizeof(*hca->mkey_map), GFP_KERNEL);
	if (!hca->mkey_map)
		goto free_wq;
	if (hca_icm_init(hca))
		goto free_map;
	hca->ops = ops;
	hca->host = host;
	mutex_init(&hca->life_lock);
	xa_init_flags(&hca->eqs, XA_FLAGS_ALLOC1);
	xa_init_flags(&hca->cqs, XA_FLAGS_ALLOC1);
	xa_init_flags(&hca->qps, XA_FLAGS_ALLOC1);
	xa_init_flags(&hca->pds, XA_FLAGS_ALLOC1);
	xa_init_flags(&hca->uars, XA_FLAGS_ALLOC1);
	xa_init_flags(&hca->tds, XA_FLAGS_ALLOC1);
	spin_lock_init(&hca->roce_lock);
	hca->roce_changes = 1;
	spin_lock_init(&hca->atomic_lock);
	init_waitqueue_head(&hca->drain);
	return hca;

free_map:
	kvfree(hca->mkey_map);
free_wq:
	destroy_workqueue(hca->wq);
free_counters:
	free_percpu(hca->counters);
free_hca:
	kfree(hca);
	return NULL;
}

void hca_destroy(struct hca *hca)
{
	hca_qps_destroy(hca);
	hca_cqs_destroy(hca);
	hca_eqs_destroy(hca);
	hca_mkeys_destroy(hca);
	hca_numbers_destroy(&hca->tds);
	hca_numbers_destroy(&hca->uars);
	hca_numbers_destroy(&hca->pds);
	hca_icm_destroy(hca);
	destroy_workqueue(hca->wq);
	kvfree(hca->mkey_map);
	xa_destroy(&hca->qps);
	xa_destroy(&hca->cqs);
	xa_destroy(&hca->eqs);
	free_percpu(hca->counters);
	mutex_destroy(&hca->life_lock);
	kfree(hca);
}

void hca_read_counters(struct hca *hca, u64 *values)
{
	int cpu, i;

	memset(values, 0, HCA_CNT_MAX * sizeof(*values));
	for_each_possible_cpu(cpu) {
		const u64 *counters = per_cpu_ptr(hca->counters, cpu);

		for (i = 0; i < HCA_CNT_MAX; i++)
			values[i] += READ_ONCE(counters[i]);
	}
}
