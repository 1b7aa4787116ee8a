// SPDX-License-Identifier: GPL-2.0
/*
 * softhca_nth: fail-nth for kernels that have none: allocations of softhca alone fail.
 *
 * parameters/nth, as /proc/PID/fail-nth: the task that writes N gets no memory at its
 * N-th allocation from then on. Who reads it sees what is left of N, 0 after the failure.
 * One task at a time.
 *
 * An allocation is a call, from the text of softhca, of a function below. The kernel's
 * own fail-nth also reaches what those allocate that are called.
 */
#include <linux/errno.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/sched.h>

static struct task_struct *victim;	/* compared, never followed */
static unsigned int left;

static void *no_pointer(void)
{
	return NULL;
}

static long no_memory(void)
{
	return -ENOMEM;
}

/*
 * Not here: functions that allocate but find their place reserved where softhca calls
 * them (xa_store, xa_cmpxchg).
 */
static const struct {
	const char *name;
	void *instead;
} calls[] = {
	{ "__kmalloc_cache_noprof", no_pointer },
	{ "__kmalloc_cache_node_noprof", no_pointer },
	{ "__kmalloc_large_noprof", no_pointer },
	{ "__kmalloc_noprof", no_pointer },
	{ "__kmalloc_node_noprof", no_pointer },
	{ "__kvmalloc_node_noprof", no_pointer },
	{ "alloc_pages_noprof", no_pointer },
	{ "get_zeroed_page_noprof", no_pointer },
	{ "pcpu_alloc_noprof", no_pointer },
	{ "bitmap_zalloc", no_pointer },
	{ "alloc_workqueue", no_pointer },
	{ "alloc_workqueue_noprof", no_pointer },
	{ "_ib_alloc_device", no_pointer },
	{ "rdma_alloc_hw_stats_struct", no_pointer },
	{ "_uverbs_alloc", no_memory },
	{ "platform_device_register_full", no_memory },
	{ "mtree_alloc_range", no_memory },
	{ "__xa_insert", no_memory },
	{ "__xa_alloc_cyclic", no_memory },
	{ "rdma_user_mmap_entry_insert_range", no_memory },
	{ "ib_umem_get", no_memory },
	{ "ib_umem_get_va", no_memory },
	{ "ib_umem_get_attr_or_va", no_memory },
	{ "ib_umem_get_cq_buf_or_va", no_memory },
	{ "ib_frmr_pools_init", no_memory },
	{ "ib_frmr_pool_pop", no_memory },
	{ "ib_device_set_netdev", no_memory },
	{ "ib_register_device", no_memory },
};

static struct kprobe probes[ARRAY_SIZE(calls)];

static int refuse(struct kprobe *probe, struct pt_regs *regs)
{
	char caller[KSYM_SYMBOL_LEN];

	if (likely(current != READ_ONCE(victim)) || !in_task())
		return 0;
	sprint_symbol(caller, *(unsigned long *)kernel_stack_pointer(regs));
	if (!strstr(caller, "[softhca]") || !left || --left)
		return 0;
	instruction_pointer_set(regs, (unsigned long)calls[probe - probes].instead);
	return 1;
}

/* its presence keeps the probe from being optimized into one that cannot change the way */
static void never(struct kprobe *probe, struct pt_regs *regs, unsigned long flags)
{
}

static int nth_set(const char *text, const struct kernel_param *param)
{
	unsigned int n;
	int err;

	err = kstrtouint(text, 0, &n);
	if (err)
		return err;
	WRITE_ONCE(victim, NULL);
	left = n;
	if (n)
		WRITE_ONCE(victim, current);
	return 0;
}

static int nth_get(char *text, const struct kernel_param *param)
{
	return sprintf(text, "%u\n", left);
}

static const struct kernel_param_ops nth_ops = { .set = nth_set, .get = nth_get };
module_param_cb(nth, &nth_ops, NULL, 0600);
MODULE_PARM_DESC(nth, "which allocation of the writing task fails");

static void nth_unregister(unsigned int n)
{
	while (n--)
		if (probes[n].addr)
			unregister_kprobe(&probes[n]);
}

static int __init nth_init(void)
{
	unsigned int i;
	int err;

	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		probes[i].symbol_name = calls[i].name;
		probes[i].pre_handler = refuse;
		probes[i].post_handler = never;
		err = register_kprobe(&probes[i]);
		/* each kernel has others of them */
		if (err == -ENOENT) {
			probes[i].addr = NULL;
			continue;
		}
		if (err) {
			nth_unregister(i);
			return err;
		}
	}
	return 0;
}

static void __exit nth_exit(void)
{
	nth_unregister(ARRAY_SIZE(calls));
}

module_init(nth_init);
module_exit(nth_exit);
MODULE_DESCRIPTION("makes allocations of softhca fail");
MODULE_LICENSE("GPL");
