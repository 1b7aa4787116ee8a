// SPDX-License-Identifier: GPL-2.0
/*
 * Queue memory: rings and doorbell records, found through the PAS list of a
 * context or in a umem, and not through MKeys (HM 1.4).
 *
 * Invariants:
 *  - The bus is asked once, when the queue is created; the host keeps queue
 *    memory mapped until the queue has been destroyed.
 *  - A queue may begin anywhere in its first page that page_offset can name, and
 *    neighbouring pages of the PAS list need not be neighbours in memory.
 */
#include <linux/errno.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "engine.h"

/* The bus maps at most this much at once. */
#define HCA_BUF_MAX_SHIFT	21

#define HCA_DBR_SIZE		8

/**
 * hca_buf_map() - reach memory by a list of its pages
 * @hca: the HCA
 * @buf: filled in
 * @pas: page addresses; their low 12 bits do not count
 * @nr_pas: entries of @pas
 * @log_page: log2 of the page size
 * @start: where the memory begins in the first page, in bytes
 * @size: how long it is, in bytes
 *
 * Context: process, may sleep.
 * Return: HCA_OK; check 0x10: list too short; 0x11: an address that the bus refuses;
 * LIM_ERR when memory ran out.
 */
hca_cmd_status hca_buf_map(struct hca *hca, struct hca_buf *buf, const __be64 *pas, size_t nr_pas,
			   unsigned int log_page, u64 start, u64 size)
{
	unsigned int shift = min_t(unsigned int, log_page, HCA_BUF_MAX_SHIFT);
	u64 in_page = start & ((1ULL << shift) - 1);
	u64 first = start >> shift;
	u64 nr, i;

	memset(buf, 0, sizeof(*buf));
	if (!size)
		return HCA_OK;
	nr = (in_page + size + (1ULL << shift) - 1) >> shift;
	if ((first + nr - 1) >> (log_page - shift) >= nr_pas)
		return HCA_REFUSE(BAD_INP_LEN_ERR, 0x10);
	buf->chunk = kvcalloc(nr, sizeof(*buf->chunk), GFP_KERNEL_ACCOUNT);
	if (!buf->chunk)
		return HCA_REFUSE(LIM_ERR, 0x12);
	buf->shift = shift;
	buf->offset = in_page;
	buf->size = size;
	for (i = 0; i < nr; i++) {
		u64 chunk = first + i;
		u64 page = be64_to_cpu(pas[chunk >> (log_page - shift)]);

		page &= ~(HCA_PAGE_SIZE - 1);
		page += (chunk & ((1ULL << (log_page - shift)) - 1)) << shift;
		buf->chunk[i] = hca->ops->bus_map(hca->host, page, 1UL << shift);
		if (!buf->chunk[i]) {
			hca_buf_free(buf);
			return HCA_REFUSE(BAD_PARAM_ERR, 0x11);
		}
	}
	return HCA_OK;
}

/**
 * hca_buf_init() - reach the memory of a queue
 * @hca: the HCA
 * @buf: filled in
 * @pas: PAS list of the command
 * @nr_pas: entries that the command holds
 * @log_page: log2 of the page size of the context
 * @offset: the context's page_offset, in 1/64 of that page
 * @size: bytes of the queue
 *
 * Context: process, may sleep.
 * Return: as hca_buf_map().
 */
hca_cmd_status hca_buf_init(struct hca *hca, struct hca_buf *buf, const __be64 *pas,
			    size_t nr_pas, unsigned int log_page, u32 offset, u64 size)
{
	return hca_buf_map(hca, buf, pas, nr_pas, log_page,
			   (u64)offset << (log_page - HCA_PAGE_OFFSET_SHIFT), size);
}

/**
 * hca_buf_free() - forget the memory of a queue
 * @buf: the queue memory
 */
void hca_buf_free(struct hca_buf *buf)
{
	if (buf->umem)
		hca_umem_put(buf->umem);
	else
		kvfree(buf->chunk);
	memset(buf, 0, sizeof(*buf));
}

/**
 * hca_buf_read_pieces() - what hca_buf_read() does across chunks
 * @buf: the queue memory
 * @offset: of the first byte
 * @to: destination
 * @len: how many
 *
 * Context: any.
 */
void hca_buf_read_pieces(const struct hca_buf *buf, u64 offset, void *to, size_t len)
{
	while (len) {
		size_t n = min(len, hca_buf_contiguous(buf, offset));

		memcpy(to, hca_buf_ptr(buf, offset), n);
		to = (u8 *)to + n;
		offset += n;
		len -= n;
	}
}

/**
 * hca_dbr_init() - reach a doorbell record
 * @hca: the HCA
 * @dbr: filled in; hca_buf_free() on its buf ends the use
 * @in_umem: it lies in a umem
 * @umem_id: which then is this one
 * @uid: user context of the command
 * @addr: offset in the umem, or else the DMA address; of 8 bytes and a multiple of 8
 *
 * Context: process, may sleep.
 * Return: HCA_OK; as hca_umem_buf(); or BAD_PARAM_ERR with check 0x15 when there is no
 * such memory.
 */
hca_cmd_status hca_dbr_init(struct hca *hca, struct hca_dbr *dbr, bool in_umem, u32 umem_id,
			    u16 uid, u64 addr)
{
	hca_cmd_status status;

	if (in_umem) {
		status = hca_umem_buf(hca, &dbr->buf, umem_id, uid, addr, HCA_DBR_SIZE,
				      HCA_DBR_SIZE, false);
		if (!status)
			dbr->record = hca_buf_ptr(&dbr->buf, 0);
		return status;
	}
	if (addr % HCA_DBR_SIZE)
		return HCA_REFUSE(BAD_PARAM_ERR, 0x15);
	dbr->record = hca->ops->bus_map(hca->host, addr, HCA_DBR_SIZE);
	return dbr->record ? HCA_OK : HCA_REFUSE(BAD_PARAM_ERR, 0x15);
}
