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
	int i;

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
	hca->umr_list = kvmalloc(HCA_UMR_MAX_LIST, GFP_KERNEL);
	if (!hca->umr_list)
		goto free_map;
	if (hca_memic_init(hca))
		goto free_umr_list;
	if (hca_icm_init(hca))
		goto destroy_memic;
	hca->ops = ops;
	hca->host = host;
	mutex_init(&hca->life_lock);
	xa_init_flags(&hca->eqs, XA_FLAGS_ALLOC1);
	xa_init_flags(&hca->cqs, XA_FLAGS_ALLOC1);
	xa_init_flags(&hca->qps, XA_FLAGS_ALLOC1);
	xa_init_flags(&hca->pds, XA_FLAGS_ALLOC1);
	xa_init_flags(&hca->uars, XA_FLAGS_ALLOC1);
	xa_init_flags(&hca->tds, XA_FLAGS_ALLOC1);
	xa_init_flags(&hca->uctxs, XA_FLAGS_ALLOC1);
	xa_init_flags(&hca->umems, XA_FLAGS_ALLOC1);
	for (i = 0; i < HCA_MKEY_LOCKS; i++)
		mutex_init(&hca->mkey_locks[i]);
	mutex_init(&hca->umr_lock);
	spin_lock_init(&hca->roce_lock);
	hca->roce_changes = 1;
	atomic_set(&hca->qp_changes, 1);
	spin_lock_init(&hca->atomic_lock);
	init_waitqueue_head(&hca->drain);
	return hca;

destroy_memic:
	hca_memic_destroy(hca);
free_umr_list:
	kvfree(hca->umr_list);
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
	int i;

	hca_qps_destroy(hca);
	hca_cqs_destroy(hca);
	hca_umems_destroy(hca);
	hca_eqs_destroy(hca);
	hca_mkeys_destroy(hca);
	hca_numbers_destroy(&hca->tds);
	hca_numbers_destroy(&hca->uars);
	hca_numbers_destroy(&hca->pds);
	hca_icm_destroy(hca);
	hca_memic_destroy(hca);
	hca_numbers_destroy(&hca->uctxs);
	destroy_workqueue(hca->wq);
	for (i = 0; i < HCA_MKEY_LOCKS; i++)
		mutex_destroy(&hca->mkey_locks[i]);
	mutex_destroy(&hca->umr_lock);
	kvfree(hca->umr_list);
	kvfree(hca->mkey_map);
	xa_destroy(&hca->qps);
	xa_destroy(&hca->umems);
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
