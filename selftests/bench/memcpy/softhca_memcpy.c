// SPDX-License-Identifier: GPL-2.0
/*
 * softhca_memcpy: how fast this kernel's memcpy() copies, for `make bench` to compare with.
 * The parameter "results" holds a line "SIZE MB/s" for each size from 64 bytes to 16 MiB.
 */
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/string.h>

#define BUDGET_NS	(50 * NSEC_PER_MSEC)

static char results[256];
module_param_string(results, results, sizeof(results), 0444);
MODULE_PARM_DESC(results, "lines of SIZE and MB/s");

static u64 mb_per_second(void *to, const void *from, size_t size)
{
	size_t batch = max_t(size_t, SZ_64K / size, 1);
	u64 start = ktime_get_ns(), bytes = 0, ns;
	size_t i;

	do {
		for (i = 0; i < batch; i++) {
			memcpy(to, from, size);
			/* each copy counts */
			barrier_data(to);
		}
		bytes += batch * size;
		cond_resched();
		ns = ktime_get_ns() - start;
	} while (ns < BUDGET_NS);
	return div64_u64(bytes * 1000, ns);
}

static int __init softhca_memcpy_init(void)
{
	char *from = kvmalloc(SZ_16M, GFP_KERNEL), *to = kvmalloc(SZ_16M, GFP_KERNEL);
	int err = -ENOMEM, len = 0;
	size_t size;

	if (!from || !to)
		goto free;
	memset(from, 1, SZ_16M);
	memset(to, 2, SZ_16M);
	for (size = 64; size <= SZ_16M; size *= 4)
		len += scnprintf(results + len, sizeof(results) - len, "%zu %llu\n", size,
				 mb_per_second(to, from, size));
	err = 0;
free:
	kvfree(to);
	kvfree(from);
	return err;
}

static void __exit softhca_memcpy_exit(void)
{
}

module_init(softhca_memcpy_init);
module_exit(softhca_memcpy_exit);
MODULE_DESCRIPTION("measures the kernel's memcpy() for the benchmarks of softhca");
MODULE_LICENSE("GPL");
