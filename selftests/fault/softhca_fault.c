// SPDX-License-Identifier: GPL-2.0
/*
 * softhca_fault: while it is loaded, functions of softhca fail. For fault_test.
 *
 *   refuse=F,G,...	these do nothing and return -EIO
 *   spoil=N		the next N UMRs of the driver name a key that does not exist
 */
#include <linux/atomic.h>
#include <linux/errno.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#ifdef HAVE_DMAH
#include <rdma/ib_verbs.h>
#endif

#define MAX_REFUSED	4

static char *refuse[MAX_REFUSED];
static int refused;
module_param_array(refuse, charp, &refused, 0444);
MODULE_PARM_DESC(refuse, "functions of softhca that fail");

static int times;
module_param(times, int, 0444);
MODULE_PARM_DESC(times, "how many calls of each fail, 0: all");

static int refusals;
module_param(refusals, int, 0444);
MODULE_PARM_DESC(refusals, "how many calls have failed");

static int spoil;
module_param(spoil, int, 0444);
MODULE_PARM_DESC(spoil, "how many UMRs are spoilt");

static bool dma_handle;
module_param(dma_handle, bool, 0444);
MODULE_PARM_DESC(dma_handle, "regions are registered with a DMA handle");

static atomic_t to_spoil;

static struct kprobe probes[MAX_REFUSED + 2];
static atomic_t calls[MAX_REFUSED];

static int fail(void)
{
	return -EIO;
}

/* goes on in fail() in place of the function that was entered */
static int refuse_it(struct kprobe *probe, struct pt_regs *regs)
{
	if (atomic_inc_return(&calls[probe - probes]) > times && times)
		return 0;
	refusals++;
	instruction_pointer_set(regs, (unsigned long)fail);
	return 1;
}

/* the key is the second argument */
static int spoil_it(struct kprobe *probe, struct pt_regs *regs)
{
	if (atomic_dec_if_positive(&to_spoil) >= 0)
		regs->si = 0;
	return 0;
}

#ifdef HAVE_DMAH
static struct ib_dmah handle;

/* the sixth argument */
static int give_handle(struct kprobe *probe, struct pt_regs *regs)
{
	regs->r9 = (unsigned long)&handle;
	return 0;
}
#endif

/* its presence keeps the probe from being optimized into one that cannot change the way */
static void never(struct kprobe *probe, struct pt_regs *regs, unsigned long flags)
{
}

static char symbol[MAX_REFUSED][64];
static struct kprobe *registered[MAX_REFUSED + 2];
static int nr;

static int __init fault_init(void)
{
	int i;

	atomic_set(&to_spoil, spoil);
	for (i = 0; i < refused; i++) {
		snprintf(symbol[i], sizeof(symbol[i]), "softhca:%s", refuse[i]);
		probes[i].symbol_name = symbol[i];
		probes[i].pre_handler = refuse_it;
		probes[i].post_handler = never;
	}
	probes[i].symbol_name = "softhca:shca_umr_post_send_wait";
	probes[i].pre_handler = spoil_it;
	probes[i++].post_handler = never;
	if (dma_handle) {
#ifdef HAVE_DMAH
		probes[i].symbol_name = "softhca:shca_reg_user_mr";
		probes[i].pre_handler = give_handle;
		probes[i++].post_handler = never;
#else
		return -EOPNOTSUPP;
#endif
	}
	for (nr = 0; nr < i; nr++)
		registered[nr] = &probes[nr];
	return register_kprobes(registered, nr);
}

static void __exit fault_exit(void)
{
	unregister_kprobes(registered, nr);
}

module_init(fault_init);
module_exit(fault_exit);
MODULE_DESCRIPTION("makes functions of softhca fail");
MODULE_LICENSE("GPL");
