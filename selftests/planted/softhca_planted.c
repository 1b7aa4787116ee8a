// SPDX-License-Identifier: GPL-2.0
/*
 * softhca_planted: does something wrong when it is loaded, so that vm/planted-test can see whether a kernel of our own
 * notices, and the runner too. The parameter "fault" says what. The guest survives all of it.
 */
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/platform_device.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

static char *fault = "";
module_param(fault, charp, 0444);
MODULE_PARM_DESC(fault, "leak, mapping, use-after-free, lock-order, sleep, shift or race");

static struct platform_device *device;
static void *mapped;

/* Nobody keeps the pointers; many, because a stale copy may lie about and hide one. */
static int leak(void)
{
	void *p;
	int i;

	for (i = 0; i < 64; i++) {
		p = kmalloc(256, GFP_KERNEL);
		OPTIMIZER_HIDE_VAR(p);
		if (!p)
			return -ENOMEM;
	}
	return 0;
}

/* Until the module goes. */
static int mapping(void)
{
	dma_addr_t dma;

	device = platform_device_register_simple("softhca_planted", PLATFORM_DEVID_NONE, NULL, 0);
	mapped = kmalloc(256, GFP_KERNEL);
	if (IS_ERR(device) || !mapped || dma_set_mask_and_coherent(&device->dev, DMA_BIT_MASK(64)))
		return -ENODEV;
	dma = dma_map_single(&device->dev, mapped, 256, DMA_TO_DEVICE);
	return dma_mapping_error(&device->dev, dma);
}

static int use_after_free(void)
{
	char *p = kmalloc(256, GFP_KERNEL);

	if (!p)
		return -ENOMEM;
	kfree(p);
	OPTIMIZER_HIDE_VAR(p);
	READ_ONCE(*p);
	return 0;
}

static int lock_order(void)
{
	static DEFINE_MUTEX(a);
	static DEFINE_MUTEX(b);

	mutex_lock(&a);
	mutex_lock(&b);
	mutex_unlock(&b);
	mutex_unlock(&a);
	mutex_lock(&b);
	mutex_lock(&a);
	mutex_unlock(&a);
	mutex_unlock(&b);
	return 0;
}

static int sleep_under_lock(void)
{
	static DEFINE_SPINLOCK(lock);
	static DEFINE_MUTEX(mutex);

	spin_lock(&lock);
	mutex_lock(&mutex);
	mutex_unlock(&mutex);
	spin_unlock(&lock);
	return 0;
}

static int shift(void)
{
	int by = 40;

	OPTIMIZER_HIDE_VAR(by);
	return (1 << by) & 0;
}

static unsigned long shared;

static int add(void *unused)
{
	while (!kthread_should_stop()) {
		shared++;
		cond_resched();
	}
	return 0;
}

static int race(void)
{
	struct task_struct *one = kthread_run(add, NULL, "planted_one");
	struct task_struct *other = kthread_run(add, NULL, "planted_other");

	msleep(5000);
	if (!IS_ERR(one))
		kthread_stop(one);
	if (!IS_ERR(other))
		kthread_stop(other);
	return IS_ERR(one) || IS_ERR(other) ? -ENOMEM : 0;
}

static const struct {
	const char *name;
	int (*plant)(void);
} faults[] = {
	{ "leak", leak },
	{ "mapping", mapping },
	{ "use-after-free", use_after_free },
	{ "lock-order", lock_order },
	{ "sleep", sleep_under_lock },
	{ "shift", shift },
	{ "race", race },
};

static int __init planted_init(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(faults); i++)
		if (!strcmp(fault, faults[i].name))
			return faults[i].plant();
	return -EINVAL;
}

static void __exit planted_exit(void)
{
	if (!IS_ERR_OR_NULL(device))
		platform_device_unregister(device);
	kfree(mapped);
}

module_init(planted_init);
module_exit(planted_exit);
MODULE_DESCRIPTION("does what a kernel of our own has to notice");
MODULE_LICENSE("GPL");
