// SPDX-License-Identifier: GPL-2.0
/*
 * softhca_fault: while it is loaded, DESTROY_MKEY of softhca fails with -EIO and does nothing. For fault_test.
 */
#include <linux/errno.h>
#include <linux/kprobes.h>
#include <linux/module.h>

static int fail(void)
{
	return -EIO;
}

/* goes on in fail() in place of the function that was entered */
static int refuse(struct kprobe *probe, struct pt_regs *regs)
{
	instruction_pointer_set(regs, (unsigned long)fail);
	return 1;
}

/* its presence keeps the probe from being optimized into one that cannot change the way */
static void never(struct kprobe *probe, struct pt_regs *regs, unsigned long flags)
{
}

static struct kprobe probe = {
	.symbol_name = "softhca:shca_cmd_destroy_mkey",
	.pre_handler = refuse,
	.post_handler = never,
};

static int __init fault_init(void)
{
	return register_kprobe(&probe);
}

static void __exit fault_exit(void)
{
	unregister_kprobe(&probe);
}

module_init(fault_init);
module_exit(fault_exit);
MODULE_DESCRIPTION("makes a command of softhca fail");
MODULE_LICENSE("GPL");
