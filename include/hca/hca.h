/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The wall: everything that the driver half (drivers/ib) and the HCA half
 * (drivers/hca) know of each other.
 *
 * Only what a PCI bus would carry crosses it:
 *
 *   down      firmware commands in mlx5_ifc layout     hca_cmd_exec()
 *             stores to a UAR page                     hca_uar_store()
 *   up        an interrupt line per event queue        hca_host_ops.irq
 *   sideways  memory reads and writes by DMA address   hca_host_ops.bus_map
 *             device memory in BAR 0                    hca_bar()
 *
 * Invariants:
 *  - The HCA half reaches host memory only at DMA addresses that it found in a
 *    command, a queue context, a firmware page or a translation entry, and only
 *    through bus_map.
 *  - No pointer of either half is ever handed to the other, the two opaque
 *    handles (struct hca *, void *host) excepted.
 *  - Everything in a command mailbox is big-endian, as mlx5_ifc.h lays it out.
 *
 * The explain call (<hca/explain.h>) and the counters (<hca/counters.h>) stand
 * for what a hardware debugger would read through a vendor's back door.
 */
#ifndef HCA_HCA_H
#define HCA_HCA_H

#include <linux/types.h>

struct hca;

/**
 * struct hca_host_ops - what the machine around the HCA offers it
 */
struct hca_host_ops {
	/**
	 * @bus_map: CPU address of the @len bytes of host memory at DMA address
	 * @dma, or NULL when the bus refuses them. @len is at least 1 and at
	 * most 2 MiB, and the answer is contiguous: where the memory is not, it
	 * refuses. Callable from any context. The address is good for as long
	 * as the device owner keeps the memory mapped for DMA, which is
	 * guarantee G of the hardware model (HM 11.2) for data, and the
	 * lifetime of the queue for queue memory.
	 */
	void *(*bus_map)(void *host, u64 dma, size_t len);

	/**
	 * @irq: the interrupt of vector @vector is raised. May run on several
	 * CPUs at once, must not sleep, and of this header may call
	 * hca_uar_store() without HCA_STORE_INLINE. An event queue raises it
	 * only while armed and disarms itself by doing so.
	 */
	void (*irq)(void *host, unsigned int vector);
};

/**
 * hca_create() - power on an HCA
 * @ops: the machine around it; must outlive the HCA
 * @host: handed back as first argument of each of @ops
 *
 * The HCA starts as a ConnectX does after reset: it answers ENABLE_HCA,
 * QUERY_PAGES, MANAGE_PAGES, QUERY_HCA_CAP and INIT_HCA, nothing else, until
 * INIT_HCA has succeeded.
 *
 * Context: process, may sleep.
 * Return: the HCA, or NULL when memory ran out.
 */
struct hca *hca_create(const struct hca_host_ops *ops, void *host);

/**
 * hca_destroy() - power off
 * @hca: the HCA
 *
 * Stops all executors and frees everything, whatever state the HCA is in.
 * Firmware pages not taken back by MANAGE_PAGES are forgotten, not freed: they
 * are the host's. The caller makes sure that no command, store or query runs.
 *
 * Context: process, may sleep.
 */
void hca_destroy(struct hca *hca);

/**
 * hca_cmd_exec() - execute one firmware command
 * @hca: the HCA
 * @in: input mailbox, mlx5_ifc layout
 * @inlen: its length in bytes, at least 16
 * @out: output mailbox; written in full, unused parts with zeros
 * @outlen: its length in bytes, at least 16
 *
 * The counterpart of mlx5_cmd_exec()'s hardware side. Status and syndrome are in
 * @out (MLX5_CMD_STAT_*; syndrome = opcode << 8 | number of the failed check,
 * HM 7). A command that fails has changed nothing.
 *
 * Context: process, may sleep; may be called concurrently, also while another
 * call waits (CREATE_* wait up to 2 s for firmware pages, HM 3.3).
 * Return: 0 when @out holds an answer, -EINVAL when a mailbox is too short.
 */
int hca_cmd_exec(struct hca *hca, const void *in, size_t inlen,
		 void *out, size_t outlen);

/* Offsets in a UAR page. Any other store rings the send queue it names. */
#define HCA_UAR_CQ_DOORBELL	0x20	/* 8 bytes: arm word, CQN */
#define HCA_UAR_EQ_ARM		0x40	/* 4 bytes: EQN << 24 | consumer index */
#define HCA_UAR_EQ_UPDATE	0x48	/* the same, does not arm */

/**
 * enum hca_store_flags - what hca_uar_store() may do on behalf of its caller
 * @HCA_STORE_INLINE: the caller is in process context, holds no lock and has
 *	time: do the work here, up to the engine's budget. Without the flag all
 *	work goes to the engine's workqueue.
 */
enum hca_store_flags {
	HCA_STORE_INLINE = 1 << 0,
};

/**
 * hca_uar_store() - a store to a UAR page has reached the HCA
 * @hca: the HCA
 * @uar: number of the UAR (ALLOC_UAR)
 * @offset: byte offset in the page
 * @data: the bytes as stored
 * @len: how many: 4 or 8 are understood, anything else is only a wake-up
 * @flags: enum hca_store_flags
 *
 * The bytes are a hint which queue has news; the truth is in the doorbell
 * records. A hint that names no queue of this UAR makes the HCA look at all
 * queues of the UAR, as hca_uar_scan() does. libmlx5-abi 2.3, doorbells.md.
 *
 * Context: process with HCA_STORE_INLINE (may sleep); any context without, EQ
 * stores included.
 */
void hca_uar_store(struct hca *hca, u32 uar, unsigned int offset,
		   const void *data, unsigned int len, unsigned int flags);

/**
 * hca_uar_scan() - look at the doorbell records of all queues of a UAR
 * @hca: the HCA
 * @uar: number of the UAR
 *
 * For a UAR whose stores are not seen one by one (the mapped scheme of
 * doorbells.md). Send queues with news are executed here within the engine's
 * budget; changed arm words are honoured.
 *
 * Context: process, may sleep.
 * Return: true when there was anything new.
 */
bool hca_uar_scan(struct hca *hca, u32 uar);

/**
 * hca_bar() - BAR 0: the device memory that ALLOC_MEMIC hands out
 * @hca: the HCA
 * @size: filled in, bytes
 *
 * What ioremap() is for a card. Offsets in it are the addresses of ALLOC_MEMIC.
 *
 * Context: any.
 * Return: its address, in the kernel's linear mapping and page aligned, so that pages
 * of it can be mapped to user space. Good until hca_destroy().
 */
void *hca_bar(struct hca *hca, size_t *size);

#endif /* HCA_HCA_H */
