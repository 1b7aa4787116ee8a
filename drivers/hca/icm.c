// SPDX-License-Identifier: GPL-2.0
/*
 * ICM: the HCA's context memory, made of the 4 KiB firmware pages that the host
 * gave with MANAGE_PAGES (HM 3).
 *
 * Invariants:
 *  - Every page is owned by exactly one of: the free list, a context page, a
 *    translation table, a shared translation page. nr_free counts the first.
 *  - Of each kind of shared page the one that became empty last stays where it is,
 *    so that a key that comes and goes does not move pages. It is counted as free,
 *    and is when the free list runs out.
 *  - A free page holds nothing that anybody still reads, so it can be handed
 *    back at any time. Pages are zeroed when they are taken into use.
 *  - At most one page request event is unanswered (HM 3.3 a). A command that
 *    waits for pages holds no lock.
 *  - The data path never allocates here; it reads tables through addresses that
 *    were fixed when the table was made.
 */
#include <linux/err.h>
#include <linux/errno.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "engine.h"

#define HCA_ICM_XLT		0x001000000000ULL
#define HCA_ICM_END		0xffffffffffffULL

/* The page budget of HM 3.3, in pages. */
#define HCA_BOOT_PAGES		16
#define HCA_INIT_PAGES		64
#define HCA_LOW_PAGES		64
#define HCA_HIGH_PAGES		512
#define HCA_REQUEST_PAGES	256
#define HCA_SURPLUS_PAGES	(HCA_HIGH_PAGES + 256)

#define HCA_PAGES_TIMEOUT	(2 * HZ)
#define HCA_PAGES_QUIET_NS	1000000000ULL

/*
 * A page shared by translation tables of one size class. @entry is in the list
 * of its class while it has room.
 */
struct hca_xlt_slab {
	struct list_head entry;
	struct hca_page *page;
	u64 addr;
	unsigned int class;
	u64 map;
};

static unsigned int hca_slab_slots(unsigned int class)
{
	return HCA_PAGE_SIZE >> (HCA_XLT_MIN_SHIFT + class);
}

static void hca_icm_surplus(struct work_struct *work);

/* For contexts of @size bytes, @last being the highest number of one. */
static int hca_ctx_table_init(struct hca_ctx_table *table, size_t size, u32 last)
{
	unsigned int shift = order_base_2(size);
	unsigned int nr_pages = (last >> (HCA_PAGE_SHIFT - shift)) + 1;

	table->pages = kvcalloc(nr_pages, sizeof(*table->pages), GFP_KERNEL);
	if (!table->pages)
		return -ENOMEM;
	table->shift = shift;
	return 0;
}

static void hca_ctx_tables_destroy(struct hca_icm *icm)
{
	kvfree(icm->mpt.pages);
	kvfree(icm->qpc.pages);
	kvfree(icm->cqc.pages);
	kvfree(icm->eqc.pages);
}

int hca_icm_init(struct hca *hca)
{
	struct hca_icm *icm = &hca->icm;
	int i;

	if (hca_ctx_table_init(&icm->mpt, MLX5_ST_SZ_BYTES(mkc), (1 << HCA_LOG_MAX_MKEY) - 1) ||
	    hca_ctx_table_init(&icm->qpc, MLX5_ST_SZ_BYTES(qpc), (1 << HCA_LOG_MAX_QP) - 1) ||
	    hca_ctx_table_init(&icm->cqc, MLX5_ST_SZ_BYTES(cqc), (1 << HCA_LOG_MAX_CQ) - 1) ||
	    hca_ctx_table_init(&icm->eqc, MLX5_ST_SZ_BYTES(eqc), HCA_MAX_EQS)) {
		hca_ctx_tables_destroy(icm);
		return -ENOMEM;
	}
	mutex_init(&icm->lock);
	xa_init(&icm->owned);
	INIT_LIST_HEAD(&icm->free);
	mt_init_flags(&icm->space, MT_FLAGS_ALLOC_RANGE);
	for (i = 0; i < HCA_XLT_CLASSES; i++)
		INIT_LIST_HEAD(&icm->slabs[i]);
	init_waitqueue_head(&icm->given);
	INIT_DELAYED_WORK(&icm->surplus, hca_icm_surplus);
	return 0;
}

/* Raises a page request for @pages, positive or negative. Called without lock. */
static void hca_page_request(struct hca *hca, s32 pages)
{
	struct mlx5_eqe_page_req req = { .num_pages = cpu_to_be32(pages) };

	hca_count(hca, HCA_CNT_PAGE_REQUEST);
	/* HM 3.3 b: kept until an EQ subscribes, or has room. */
	mutex_lock(&hca->icm.lock);
	hca->icm.latched = pages;
	mutex_unlock(&hca->icm.lock);
	if (hca_event(hca, MLX5_EVENT_TYPE_PAGE_REQUEST, 0, &req, sizeof(req)))
		return;
	mutex_lock(&hca->icm.lock);
	hca->icm.latched = 0;
	mutex_unlock(&hca->icm.lock);
}

/**
 * hca_icm_subscribed() - an EQ began to listen to page requests, or has room again
 * @hca: the HCA
 *
 * Context: process, may sleep.
 */
void hca_icm_subscribed(struct hca *hca)
{
	s32 pages;

	mutex_lock(&hca->icm.lock);
	pages = hca->icm.latched;
	hca->icm.latched = 0;
	mutex_unlock(&hca->icm.lock);
	if (pages)
		hca_page_request(hca, pages);
}

/*
 * Decides under icm->lock whether a request is due: how many pages, or 0.
 * @missing is what a waiting command lacks.
 */
static s32 hca_page_request_due(struct hca_icm *icm, u32 missing)
{
	if (icm->asking)
		return 0;
	if (!missing) {
		if (icm->nr_free >= HCA_LOW_PAGES)
			return 0;
		if (ktime_get_ns() < icm->quiet_until)
			return 0;
	}
	icm->asking = true;
	return max_t(u32, HCA_REQUEST_PAGES, missing + HCA_LOW_PAGES);
}

/* A surplus that lasts a second is offered to the host (HM 3.3). */
static void hca_icm_check_surplus(struct hca *hca)
{
	lockdep_assert_held(&hca->icm.lock);
	if (hca->icm.nr_free > HCA_SURPLUS_PAGES)
		queue_delayed_work(hca->wq, &hca->icm.surplus, HZ);
	else if (delayed_work_pending(&hca->icm.surplus))
		cancel_delayed_work(&hca->icm.surplus);
}

static void hca_page_release(struct hca_icm *icm, struct hca_page *page)
{
	lockdep_assert_held(&icm->lock);
	page->used = false;
	list_add(&page->entry, &icm->free);
	icm->nr_free++;
}

/* Takes the page of contexts @idle, which is counted as free, out of its table. */
static void hca_ctx_drop_idle(struct hca_icm *icm, struct hca_ctx_table *table)
{
	struct hca_ctx_page *ctx = table->idle;
	struct hca_mkey *mkeys;

	if (!ctx)
		return;
	table->idle = NULL;
	icm->nr_free--;
	hca_page_release(icm, ctx->page);
	ctx->page = NULL;
	mkeys = ctx->mkeys;
	if (mkeys) {
		/* Who looks for a key that is gone may still be reading here. */
		WRITE_ONCE(ctx->mkeys, NULL);
		kfree_rcu(mkeys, rcu);
	}
}

static void hca_slab_drop_idle(struct hca_icm *icm, unsigned int class)
{
	struct hca_xlt_slab *slab = icm->idle[class];

	if (!slab)
		return;
	icm->idle[class] = NULL;
	list_del(&slab->entry);
	mtree_erase(&icm->space, slab->addr >> HCA_PAGE_SHIFT);
	icm->nr_free--;
	hca_page_release(icm, slab->page);
	kfree(slab);
}

/* One of the nr_free pages, of which there is at least one. */
static struct hca_page *hca_page_pop(struct hca_icm *icm)
{
	struct hca_page *page;
	unsigned int class;

	lockdep_assert_held(&icm->lock);
	if (list_empty(&icm->free)) {
		hca_ctx_drop_idle(icm, &icm->mpt);
		hca_ctx_drop_idle(icm, &icm->qpc);
		hca_ctx_drop_idle(icm, &icm->cqc);
		hca_ctx_drop_idle(icm, &icm->eqc);
		for (class = 0; class < HCA_XLT_CLASSES; class++)
			hca_slab_drop_idle(icm, class);
	}
	page = list_first_entry(&icm->free, struct hca_page, entry);
	list_del_init(&page->entry);
	icm->nr_free--;
	return page;
}

void hca_icm_destroy(struct hca *hca)
{
	struct hca_icm *icm = &hca->icm;
	struct hca_page *page;
	unsigned int class;
	unsigned long i;

	cancel_delayed_work_sync(&icm->surplus);
	mutex_lock(&icm->lock);
	/* No key is left, so no other page of the MPT has anything beside it. */
	hca_ctx_drop_idle(icm, &icm->mpt);
	for (class = 0; class < HCA_XLT_CLASSES; class++)
		hca_slab_drop_idle(icm, class);
	mutex_unlock(&icm->lock);
	hca_ctx_tables_destroy(icm);
	mtree_destroy(&icm->space);
	xa_for_each(&icm->owned, i, page)
		kfree(page);
	xa_destroy(&icm->owned);
	mutex_destroy(&icm->lock);
}

/*
 * Takes @nr free pages, asking the host for more if there are too few. All or
 * nothing. Returns 0 or -EAGAIN.
 */
static int hca_pages_take(struct hca *hca, u32 nr, struct hca_page **pages)
{
	struct hca_icm *icm = &hca->icm;
	unsigned int refusals, answers;
	s32 request = 0;
	bool taken;
	long left = HCA_PAGES_TIMEOUT;
	u32 i;

	mutex_lock(&icm->lock);
	refusals = icm->refusals;
	while (icm->nr_free < nr) {
		request = hca_page_request_due(icm, nr - icm->nr_free);
		answers = icm->answers;
		mutex_unlock(&icm->lock);
		if (request)
			hca_page_request(hca, request);
		/* An answer may have gone to another command: then ask again. */
		left = wait_event_timeout(icm->given,
					  READ_ONCE(icm->nr_free) >= nr ||
					  READ_ONCE(icm->answers) != answers, left);
		mutex_lock(&icm->lock);
		if (icm->nr_free < nr && (!left || icm->refusals != refusals))
			break;
	}
	taken = icm->nr_free >= nr;
	for (i = 0; taken && i < nr; i++) {
		pages[i] = hca_page_pop(icm);
		pages[i]->used = true;
	}
	request = taken ? hca_page_request_due(icm, 0) : 0;
	hca_icm_check_surplus(hca);
	mutex_unlock(&icm->lock);
	if (request)
		hca_page_request(hca, request);
	for (i = 0; taken && i < nr; i++)
		memset(pages[i]->va, 0, HCA_PAGE_SIZE);
	return taken ? 0 : -EAGAIN;
}

static void hca_icm_surplus(struct work_struct *work)
{
	struct hca *hca = container_of(to_delayed_work(work), struct hca, icm.surplus);
	struct hca_icm *icm = &hca->icm;
	s32 request = 0;

	mutex_lock(&icm->lock);
	if (icm->nr_free > HCA_SURPLUS_PAGES && !icm->asking) {
		request = -(s32)(icm->nr_free - HCA_HIGH_PAGES);
		icm->asking = true;
	}
	mutex_unlock(&icm->lock);
	if (request)
		hca_page_request(hca, request);
}

/**
 * hca_ctx_get() - the place of a context in ICM
 * @hca: the HCA
 * @table: contexts of this kind
 * @index: number of the context, not in use
 *
 * Context: process, may sleep, waits for firmware pages.
 * Return: its zeroed bytes, ERR_PTR(-ENOMEM), or ERR_PTR(-EAGAIN) when no pages were
 * given in time.
 */
void *hca_ctx_get(struct hca *hca, struct hca_ctx_table *table, u32 index)
{
	unsigned int per_page = HCA_PAGE_SHIFT - table->shift;
	struct hca_icm *icm = &hca->icm;
	struct hca_ctx_page *ctx = &table->pages[index >> per_page];
	struct hca_page *page = NULL;
	struct hca_mkey *mkeys;
	void *entry;
	int err;
	s32 request = 0;

	mutex_lock(&icm->lock);
	if (ctx->page)
		goto found;
	mutex_unlock(&icm->lock);

	err = hca_pages_take(hca, 1, &page);
	if (err)
		return ERR_PTR(err);

	mutex_lock(&icm->lock);
	/* Another command may have brought the page while we waited. */
	if (!ctx->page) {
		if (table == &icm->mpt) {
			mkeys = kzalloc_objs(*mkeys, HCA_PAGE_MKEYS);
			if (!mkeys) {
				entry = ERR_PTR(-ENOMEM);
				goto release;
			}
			/* Pairs with the read in hca_mkey_at(). */
			smp_store_release(&ctx->mkeys, mkeys);
		}
		swap(ctx->page, page);
	}
found:
	if (ctx == table->idle) {
		table->idle = NULL;
		icm->nr_free--;
		request = hca_page_request_due(icm, 0);
		hca_icm_check_surplus(hca);
	}
	ctx->used++;
	entry = (u8 *)ctx->page->va + ((index & ((1U << per_page) - 1)) << table->shift);
release:
	if (page)
		hca_page_release(icm, page);
	mutex_unlock(&icm->lock);
	if (request)
		hca_page_request(hca, request);
	return entry;
}

/**
 * hca_ctx_put() - a context is no more
 * @hca: the HCA
 * @table: contexts of this kind
 * @index: its number
 *
 * Context: process, may sleep.
 */
void hca_ctx_put(struct hca *hca, struct hca_ctx_table *table, u32 index)
{
	unsigned int per_page = HCA_PAGE_SHIFT - table->shift;
	struct hca_ctx_page *ctx = &table->pages[index >> per_page];
	struct hca_icm *icm = &hca->icm;

	mutex_lock(&icm->lock);
	memset((u8 *)ctx->page->va + ((index & ((1U << per_page) - 1)) << table->shift), 0,
	       1U << table->shift);
	if (!--ctx->used) {
		hca_ctx_drop_idle(icm, table);
		table->idle = ctx;
		icm->nr_free++;
		hca_icm_check_surplus(hca);
	}
	mutex_unlock(&icm->lock);
}

/* ICM addresses for @nr pages of translation tables, 0 if there are none. */
static u64 hca_xlt_space(struct hca_icm *icm, void *owner, u64 nr)
{
	unsigned long at;

	if (mtree_alloc_range(&icm->space, &at, owner, nr, HCA_ICM_XLT >> HCA_PAGE_SHIFT,
			      HCA_ICM_END >> HCA_PAGE_SHIFT, GFP_KERNEL))
		return 0;
	return (u64)at << HCA_PAGE_SHIFT;
}

static struct hca_xlt_slab *hca_slab_new(struct hca *hca, unsigned int class)
{
	struct hca_xlt_slab *slab;

	slab = kzalloc_obj(*slab);
	if (!slab)
		return NULL;
	slab->class = class;
	if (hca_pages_take(hca, 1, &slab->page))
		goto free_slab;
	slab->addr = hca_xlt_space(&hca->icm, slab, 1);
	if (!slab->addr)
		goto release_page;
	return slab;

release_page:
	mutex_lock(&hca->icm.lock);
	hca_page_release(&hca->icm, slab->page);
	mutex_unlock(&hca->icm.lock);
free_slab:
	kfree(slab);
	return NULL;
}

static int hca_xlt_alloc_small(struct hca *hca, struct hca_xlt *xlt)
{
	unsigned int class = order_base_2(xlt->bytes) - HCA_XLT_MIN_SHIFT;
	struct hca_icm *icm = &hca->icm;
	struct hca_xlt_slab *slab, *fresh;
	unsigned int slot;
	s32 request = 0;

	mutex_lock(&icm->lock);
	if (list_empty(&icm->slabs[class])) {
		mutex_unlock(&icm->lock);
		fresh = hca_slab_new(hca, class);
		if (!fresh)
			return -EAGAIN;
		mutex_lock(&icm->lock);
		list_add(&fresh->entry, &icm->slabs[class]);
	}
	slab = list_first_entry(&icm->slabs[class], struct hca_xlt_slab, entry);
	if (slab == icm->idle[class]) {
		icm->idle[class] = NULL;
		icm->nr_free--;
		request = hca_page_request_due(icm, 0);
		hca_icm_check_surplus(hca);
	}
	slot = ffz(slab->map);
	slab->map |= 1ULL << slot;
	if (hweight64(slab->map) == hca_slab_slots(class))
		list_del_init(&slab->entry);
	mutex_unlock(&icm->lock);
	if (request)
		hca_page_request(hca, request);

	xlt->slab = slab;
	xlt->addr = slab->addr + ((u64)slot << (HCA_XLT_MIN_SHIFT + class));
	xlt->only = (u8 *)slab->page->va + (slot << (HCA_XLT_MIN_SHIFT + class));
	xlt->chunk = &xlt->only;
	memset(xlt->only, 0, 1UL << (HCA_XLT_MIN_SHIFT + class));
	return 0;
}

static int hca_xlt_alloc_large(struct hca *hca, struct hca_xlt *xlt)
{
	u64 nr = (xlt->bytes + HCA_PAGE_SIZE - 1) >> HCA_PAGE_SHIFT;
	int err = -ENOMEM;
	u64 i;

	xlt->pages = kvcalloc(nr, sizeof(*xlt->pages), GFP_KERNEL_ACCOUNT);
	if (!xlt->pages)
		return err;
	xlt->chunk = kvcalloc(nr, sizeof(*xlt->chunk), GFP_KERNEL_ACCOUNT);
	if (!xlt->chunk)
		goto free_pages;
	xlt->addr = hca_xlt_space(&hca->icm, xlt, nr);
	if (!xlt->addr)
		goto free_chunk;
	err = hca_pages_take(hca, nr, xlt->pages);
	if (err)
		goto free_space;
	for (i = 0; i < nr; i++)
		xlt->chunk[i] = xlt->pages[i]->va;
	return 0;

free_space:
	mtree_erase(&hca->icm.space, xlt->addr >> HCA_PAGE_SHIFT);
free_chunk:
	kvfree(xlt->chunk);
free_pages:
	kvfree(xlt->pages);
	return err;
}

/**
 * hca_xlt_alloc() - reserve a translation table
 * @hca: the HCA
 * @xlt: filled in, all entries zero
 * @bytes: size, a multiple of 64; 0 for a key without table
 *
 * Context: process, may sleep, waits for firmware pages.
 * Return: 0, -ENOMEM, or -EAGAIN when no pages were given in time.
 */
int hca_xlt_alloc(struct hca *hca, struct hca_xlt *xlt, u64 bytes)
{
	memset(xlt, 0, sizeof(*xlt));
	xlt->bytes = bytes;
	if (!bytes)
		return 0;
	if (bytes <= 1UL << (HCA_XLT_MIN_SHIFT + HCA_XLT_CLASSES - 1))
		return hca_xlt_alloc_small(hca, xlt);
	return hca_xlt_alloc_large(hca, xlt);
}

/**
 * hca_xlt_free() - give a translation table back
 * @hca: the HCA
 * @xlt: the table; nobody reads it any more
 *
 * Context: process, may sleep.
 */
void hca_xlt_free(struct hca *hca, struct hca_xlt *xlt)
{
	struct hca_icm *icm = &hca->icm;
	struct hca_xlt_slab *slab = xlt->slab;
	u64 nr = (xlt->bytes + HCA_PAGE_SIZE - 1) >> HCA_PAGE_SHIFT;
	u64 i;

	if (!xlt->bytes)
		return;
	mutex_lock(&icm->lock);
	if (slab) {
		bool was_full = hweight64(slab->map) == hca_slab_slots(slab->class);

		slab->map &= ~(1ULL << ((xlt->addr - slab->addr) >>
					(HCA_XLT_MIN_SHIFT + slab->class)));
		if (was_full)
			list_add_tail(&slab->entry, &icm->slabs[slab->class]);
		if (!slab->map) {
			hca_slab_drop_idle(icm, slab->class);
			icm->idle[slab->class] = slab;
			icm->nr_free++;
		}
	} else {
		for (i = 0; i < nr; i++)
			hca_page_release(icm, xlt->pages[i]);
		mtree_erase(&icm->space, xlt->addr >> HCA_PAGE_SHIFT);
	}
	hca_icm_check_surplus(hca);
	mutex_unlock(&icm->lock);
	if (!slab) {
		kvfree(xlt->pages);
		kvfree(xlt->chunk);
	}
}

/**
 * hca_xlt_write() - store entries
 * @xlt: the table
 * @offset: byte offset in it
 * @from: the entries
 * @len: bytes; the range lies inside the table
 */
void hca_xlt_write(struct hca_xlt *xlt, u64 offset, const void *from, size_t len)
{
	while (len) {
		size_t at = offset & (HCA_PAGE_SIZE - 1);
		size_t n = min_t(size_t, len, HCA_PAGE_SIZE - at);

		memcpy((u8 *)xlt->chunk[offset >> HCA_PAGE_SHIFT] + at, from, n);
		from = (const u8 *)from + n;
		offset += n;
		len -= n;
	}
}

/**
 * hca_xlt_read() - read entries
 * @xlt: the table
 * @offset: byte offset in it
 * @to: destination
 * @len: bytes; the range lies inside the table
 */
void hca_xlt_read(const struct hca_xlt *xlt, u64 offset, void *to, size_t len)
{
	while (len) {
		size_t at = offset & (HCA_PAGE_SIZE - 1);
		size_t n = min_t(size_t, len, HCA_PAGE_SIZE - at);

		memcpy(to, (u8 *)xlt->chunk[offset >> HCA_PAGE_SHIFT] + at, n);
		to = (u8 *)to + n;
		offset += n;
		len -= n;
	}
}

/**
 * hca_icm_ready() - has the host given what INIT_HCA needs?
 * @hca: the HCA
 */
bool hca_icm_ready(struct hca *hca)
{
	return READ_ONCE(hca->icm.nr_owned) >= HCA_BOOT_PAGES + HCA_INIT_PAGES;
}

hca_cmd_status hca_cmd_query_pages(struct hca *hca, const void *in, size_t inlen,
				   void *out, size_t outlen)
{
	struct hca_icm *icm = &hca->icm;
	u32 pages;

	if (MLX5_GET(query_pages_in, in, embedded_cpu_function) ||
	    MLX5_GET(query_pages_in, in, function_id))
		return HCA_REFUSE(BAD_PARAM_ERR, 2);
	switch (MLX5_GET(query_pages_in, in, op_mod)) {
	case 1:
		pages = HCA_BOOT_PAGES;
		break;
	case 2:
		pages = HCA_INIT_PAGES;
		break;
	case 3:
		mutex_lock(&icm->lock);
		pages = icm->nr_free < HCA_LOW_PAGES ? HCA_LOW_PAGES - icm->nr_free : 0;
		mutex_unlock(&icm->lock);
		break;
	default:
		return HCA_REFUSE(BAD_OP_ERR, 1);
	}
	MLX5_SET(query_pages_out, out, num_pages, pages);
	return HCA_OK;
}

/* All pages of the command, or none and the host may free them all (HM 3.5). */
static hca_cmd_status hca_pages_give(struct hca *hca, const void *in, size_t inlen)
{
	struct hca_icm *icm = &hca->icm;
	u32 nr = MLX5_GET(manage_pages_in, in, input_num_entries);
	const __be64 *pas = MLX5_ADDR_OF(manage_pages_in, in, pas);
	hca_cmd_status status = HCA_REFUSE(BAD_PARAM_ERR, 4);
	struct hca_page *page;
	u32 i;

	if (!nr || inlen < MLX5_ST_SZ_BYTES(manage_pages_in) + nr * sizeof(*pas))
		return HCA_REFUSE(BAD_INP_LEN_ERR, 3);
	mutex_lock(&icm->lock);
	for (i = 0; i < nr; i++) {
		u64 dma = be64_to_cpu(pas[i]);

		if (!dma || dma & (HCA_PAGE_SIZE - 1))
			goto take_back;
		page = kzalloc_obj(*page);
		if (!page) {
			status = HCA_REFUSE(LIM_ERR, 5);
			goto take_back;
		}
		page->dma = dma;
		page->va = hca->ops->bus_map(hca->host, dma, HCA_PAGE_SIZE);
		if (!page->va || xa_insert(&icm->owned, dma >> HCA_PAGE_SHIFT, page, GFP_KERNEL)) {
			kfree(page);
			goto take_back;
		}
		list_add_tail(&page->entry, &icm->free);
	}
	icm->nr_owned += nr;
	icm->nr_free += nr;
	icm->asking = false;
	icm->answers++;
	hca_icm_check_surplus(hca);
	mutex_unlock(&icm->lock);
	wake_up_all(&icm->given);
	return HCA_OK;

take_back:
	while (i--) {
		page = xa_erase(&icm->owned, be64_to_cpu(pas[i]) >> HCA_PAGE_SHIFT);
		list_del(&page->entry);
		kfree(page);
	}
	mutex_unlock(&icm->lock);
	return status;
}

static void hca_pages_return(struct hca *hca, u32 nr, void *out, size_t outlen)
{
	struct hca_icm *icm = &hca->icm;
	__be64 *pas = MLX5_ADDR_OF(manage_pages_out, out, pas);
	struct hca_page *page;
	u32 i;

	nr = min_t(size_t, nr, (outlen - MLX5_ST_SZ_BYTES(manage_pages_out)) / sizeof(*pas));
	mutex_lock(&icm->lock);
	nr = min(nr, icm->nr_free);
	for (i = 0; i < nr; i++) {
		page = hca_page_pop(icm);
		xa_erase(&icm->owned, page->dma >> HCA_PAGE_SHIFT);
		pas[i] = cpu_to_be64(page->dma);
		kfree(page);
	}
	icm->nr_owned -= nr;
	icm->asking = false;
	icm->answers++;
	hca_icm_check_surplus(hca);
	mutex_unlock(&icm->lock);
	wake_up_all(&icm->given);
	MLX5_SET(manage_pages_out, out, output_num_entries, nr);
}

hca_cmd_status hca_cmd_manage_pages(struct hca *hca, const void *in, size_t inlen,
				    void *out, size_t outlen)
{
	struct hca_icm *icm = &hca->icm;

	if (MLX5_GET(manage_pages_in, in, embedded_cpu_function) ||
	    MLX5_GET(manage_pages_in, in, function_id))
		return HCA_REFUSE(BAD_PARAM_ERR, 2);
	switch (MLX5_GET(manage_pages_in, in, op_mod)) {
	case 0:
		mutex_lock(&icm->lock);
		icm->refusals++;
		icm->answers++;
		icm->asking = false;
		icm->quiet_until = ktime_get_ns() + HCA_PAGES_QUIET_NS;
		mutex_unlock(&icm->lock);
		wake_up_all(&icm->given);
		return HCA_OK;
	case 1:
		return hca_pages_give(hca, in, inlen);
	case 2:
		hca_pages_return(hca, MLX5_GET(manage_pages_in, in, input_num_entries), out,
				 outlen);
		return HCA_OK;
	default:
		return HCA_REFUSE(BAD_OP_ERR, 1);
	}
}
