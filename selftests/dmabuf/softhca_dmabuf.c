// SPDX-License-Identifier: GPL-2.0
/*
 * softhca_dmabuf: see softhca_dmabuf.h.
 *
 * Invariants:
 *  - What a buffer consists of changes under its reservation lock, after importers have
 *    been told that their mappings are gone.
 *  - The pages that a buffer has left are painted, and kept until it moves again: a write
 *    to them shows.
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/highmem.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "softhca_dmabuf.h"

#ifdef HAVE_IMPORT_NS_STRING
MODULE_IMPORT_NS("DMA_BUF");
#else
MODULE_IMPORT_NS(DMA_BUF);
#endif

#ifndef HAVE_DMABUF_INVALIDATE
#define dma_buf_invalidate_mappings	dma_buf_move_notify
#endif

#define PAINT		0xdb
#define CONTIG_ORDER	9
#define MAX_SIZE	(64UL << 20)

struct export {
	struct page **pages;
	struct page **old;
	unsigned int nr;
	bool pin_only;
	bool revoked;
	unsigned int mappings, pins, mapped;
};

static void put_pages_of(struct page **pages, unsigned int nr)
{
	unsigned int i;

	for (i = 0; pages && i < nr; i++)
		if (pages[i])
			__free_page(pages[i]);
	kvfree(pages);
}

/* No two neighbours in memory, but for whole pieces of CONTIG_ORDER if asked for */
static struct page **get_pages_for(unsigned int nr, bool contig)
{
	unsigned int order = contig ? CONTIG_ORDER : 0, i, j;
	struct page **pages = kvcalloc(nr, sizeof(*pages), GFP_KERNEL);
	struct page *page;

	if (!pages)
		return NULL;
	for (i = 0; i < nr; i += 1U << order) {
		page = alloc_pages(GFP_KERNEL | __GFP_ZERO, order);
		if (!page) {
			put_pages_of(pages, nr);
			return NULL;
		}
		if (order)
			split_page(page, order);
		for (j = 0; j < 1U << order; j++) {
			if (i + j < nr)
				pages[i + j] = page + j;
			else
				__free_page(page + j);
		}
	}
	/* ascending neighbours become descending ones */
	for (i = 0; !contig && i + 1 < nr; i += 2)
		if (page_to_pfn(pages[i + 1]) == page_to_pfn(pages[i]) + 1)
			swap(pages[i], pages[i + 1]);
	return pages;
}

static int export_pin(struct dma_buf_attachment *attach)
{
	struct export *export = attach->dmabuf->priv;

	dma_resv_assert_held(attach->dmabuf->resv);
	if (export->revoked)
		return -ENODEV;
	export->pins++;
	return 0;
}

static void export_unpin(struct dma_buf_attachment *attach)
{
	struct export *export = attach->dmabuf->priv;

	dma_resv_assert_held(attach->dmabuf->resv);
	export->pins--;
}

static struct sg_table *export_map(struct dma_buf_attachment *attach,
				   enum dma_data_direction direction)
{
	struct export *export = attach->dmabuf->priv;
	struct sg_table *sgt;
	int err;

	if (export->revoked)
		return ERR_PTR(-ENODEV);
	if (export->pin_only && !export->pins)
		return ERR_PTR(-EPERM);
	sgt = kzalloc_obj(*sgt);
	if (!sgt)
		return ERR_PTR(-ENOMEM);
	err = sg_alloc_table_from_pages(sgt, export->pages, export->nr, 0,
					(unsigned long)export->nr << PAGE_SHIFT, GFP_KERNEL);
	if (err)
		goto free_sgt;
	err = dma_map_sgtable(attach->dev, sgt, direction, 0);
	if (err)
		goto free_table;
	export->mappings++;
	export->mapped++;
	return sgt;

free_table:
	sg_free_table(sgt);
free_sgt:
	kfree(sgt);
	return ERR_PTR(err);
}

static void export_unmap(struct dma_buf_attachment *attach, struct sg_table *sgt,
			 enum dma_data_direction direction)
{
	struct export *export = attach->dmabuf->priv;

	dma_unmap_sgtable(attach->dev, sgt, direction, 0);
	sg_free_table(sgt);
	kfree(sgt);
	export->mappings--;
}

static void export_release(struct dma_buf *dmabuf)
{
	struct export *export = dmabuf->priv;

	put_pages_of(export->pages, export->nr);
	put_pages_of(export->old, export->nr);
	kfree(export);
}

static const struct dma_buf_ops export_ops = {
	.pin = export_pin,
	.unpin = export_unpin,
	.map_dma_buf = export_map,
	.unmap_dma_buf = export_unmap,
	.release = export_release,
};

static int export_new(const struct export_new *new)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct dma_buf *dmabuf;
	struct export *export;
	int err = -ENOMEM;

	if (!new->size || new->size > MAX_SIZE || !PAGE_ALIGNED(new->size))
		return -EINVAL;
	export = kzalloc_obj(*export);
	if (!export)
		return err;
	export->nr = new->size >> PAGE_SHIFT;
	export->pin_only = new->flags & EXPORT_PIN_ONLY;
	export->pages = get_pages_for(export->nr, new->flags & EXPORT_CONTIG);
	if (!export->pages)
		goto free_export;
	info.ops = &export_ops;
	info.size = new->size;
	info.flags = O_RDWR;
	info.priv = export;
	dmabuf = dma_buf_export(&info);
	if (IS_ERR(dmabuf)) {
		err = PTR_ERR(dmabuf);
		goto put_pages;
	}
	err = dma_buf_fd(dmabuf, O_CLOEXEC);
	if (err < 0)
		dma_buf_put(dmabuf);
	return err;

put_pages:
	put_pages_of(export->pages, export->nr);
free_export:
	kfree(export);
	return err;
}

static int export_move(struct dma_buf *dmabuf, u32 flags)
{
	struct export *export = dmabuf->priv;
	struct page **pages, **older;
	unsigned int i;

	pages = get_pages_for(export->nr, flags & EXPORT_CONTIG);
	if (!pages)
		return -ENOMEM;
	dma_resv_lock(dmabuf->resv, NULL);
	dma_buf_invalidate_mappings(dmabuf);
	for (i = 0; i < export->nr; i++) {
		copy_highpage(pages[i], export->pages[i]);
		memset(page_address(export->pages[i]), PAINT, PAGE_SIZE);
	}
	older = export->old;
	export->old = export->pages;
	export->pages = pages;
	dma_resv_unlock(dmabuf->resv);
	put_pages_of(older, export->nr);
	return 0;
}

static int export_revoke(struct dma_buf *dmabuf)
{
	struct export *export = dmabuf->priv;

	dma_resv_lock(dmabuf->resv, NULL);
	export->revoked = true;
	dma_buf_invalidate_mappings(dmabuf);
	dma_resv_unlock(dmabuf->resv);
	return 0;
}

static int export_copy(struct dma_buf *dmabuf, const struct export_copy *copy, bool put)
{
	struct export *export = dmabuf->priv;
	void __user *data = u64_to_user_ptr(copy->data);
	u64 offset = copy->offset, left = copy->len;
	int err = 0;

	if (offset > dmabuf->size || left > dmabuf->size - offset)
		return -EINVAL;
	dma_resv_lock(dmabuf->resv, NULL);
	while (left && !err) {
		void *p = page_address(export->pages[offset >> PAGE_SHIFT]) +
			  offset_in_page(offset);
		size_t n = min_t(u64, left, PAGE_SIZE - offset_in_page(offset));

		if (put ? copy_from_user(p, data, n) : copy_to_user(data, p, n))
			err = -EFAULT;
		data += n;
		offset += n;
		left -= n;
	}
	dma_resv_unlock(dmabuf->resv);
	return err;
}

static int export_state(struct dma_buf *dmabuf, struct export_state *state)
{
	struct export *export = dmabuf->priv;
	unsigned int i, at;

	dma_resv_lock(dmabuf->resv, NULL);
	state->mappings = export->mappings;
	state->pins = export->pins;
	state->mapped = export->mapped;
	state->stale = 0;
	for (i = 0; export->old && i < export->nr; i++) {
		const u8 *p = page_address(export->old[i]);

		for (at = 0; at < PAGE_SIZE; at++)
			state->stale += p[at] != PAINT;
	}
	dma_resv_unlock(dmabuf->resv);
	return 0;
}

static long export_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	union {
		s32 fd;		/* every other but the first begins with it */
		struct export_new new;
		struct export_move move;
		struct export_copy copy;
		struct export_state state;
	} u = {};
	struct dma_buf *dmabuf;
	int err;

	if (_IOC_SIZE(cmd) > sizeof(u) ||
	    copy_from_user(&u, (void __user *)arg, _IOC_SIZE(cmd)))
		return -EFAULT;
	if (cmd == EXPORT_NEW)
		return export_new(&u.new);
	dmabuf = dma_buf_get(u.fd);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	err = -EINVAL;
	if (dmabuf->ops != &export_ops)
		goto put;
	switch (cmd) {
	case EXPORT_MOVE:
		err = export_move(dmabuf, u.move.flags);
		break;
	case EXPORT_REVOKE:
		err = export_revoke(dmabuf);
		break;
	case EXPORT_PUT:
	case EXPORT_GET:
		err = export_copy(dmabuf, &u.copy, cmd == EXPORT_PUT);
		break;
	case EXPORT_STATE:
		err = export_state(dmabuf, &u.state);
		if (!err && copy_to_user((void __user *)arg, &u.state, sizeof(u.state)))
			err = -EFAULT;
		break;
	default:
		err = -ENOTTY;
	}
put:
	dma_buf_put(dmabuf);
	return err;
}

static const struct file_operations export_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = export_ioctl,
};

static struct miscdevice export_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "softhca_dmabuf",
	.fops = &export_fops,
};

module_misc_device(export_device);
MODULE_DESCRIPTION("exports dma-bufs that move and vanish on command");
MODULE_LICENSE("GPL");
