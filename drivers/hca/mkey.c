// SPDX-License-Identifier: GPL-2.0
/*
 * MKeys: the MPT, the commands that make and unmake its entries, and the counts
 * of running accesses that let an entry be withdrawn.
 *
 * Invariants:
 *  - An index is reserved in hca->mkey_map from before its key is built until after
 *    it has been torn down, so nobody else can be given it, and its page of the MPT
 *    stays. The key is live between the two. What can fail is done before.
 *  - The MKC in the firmware page is what CREATE_MKEY was given, handles excepted;
 *    hca_mkey.mkc is the same, decoded for the data path.
 *  - An access counts itself in inflight[epoch & 1] and checks afterwards that the
 *    key is live and the epoch still the one it counted in; the withdrawer flips the
 *    epoch and then waits for the old slot. So it waits for every access that can have
 *    seen the old state, and for none that began later (HM 11.3, guarantee G).
 *  - The counts and the epoch go on from one key of an index to the next: a look-up that
 *    comes too late for a key may for a moment be counted in its successor.
 */
#include <linux/bitmap.h>
#include <linux/errno.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/overflow.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "engine.h"

static bool hca_mkc_any(const __be32 *mkc, unsigned int offset, u32 mask)
{
	return mkc[offset / 4] & cpu_to_be32(mask);
}

/* What CREATE_MKEY insists to be 0, by 32-bit word of the MKC (HM 2.3). */
static bool hca_mkc_reserved(const __be32 *mkc)
{
	return hca_mkc_any(mkc, 0x00, BIT(31) | BIT(29) | GENMASK(25, 19) | BIT(17) | BIT(7)) ||
	       hca_mkc_any(mkc, 0x08, GENMASK(31, 24)) ||
	       hca_mkc_any(mkc, 0x0c, GENMASK(28, 27) | BIT(25)) ||
	       hca_mkc_any(mkc, 0x24, GENMASK(31, 16)) ||
	       hca_mkc_any(mkc, 0x2c, GENMASK(31, 16)) ||
	       hca_mkc_any(mkc, 0x30, GENMASK(31, 16)) ||
	       hca_mkc_any(mkc, 0x38, GENMASK(31, 7)) ||
	       hca_mkc_any(mkc, 0x3c, GENMASK(31, 29));
}

/* Fields of capabilities that are not offered: TA, MTM, sf; pasid; BE, sync_umr; BSF; CE, TPH. */
static bool hca_mkc_not_offered(const __be32 *mkc)
{
	return hca_mkc_any(mkc, 0x00, BIT(6) | GENMASK(5, 4) | GENMASK(3, 0)) ||
	       hca_mkc_any(mkc, 0x08, GENMASK(23, 0)) ||
	       hca_mkc_any(mkc, 0x0c, BIT(30) | BIT(29)) ||
	       hca_mkc_any(mkc, 0x20, GENMASK(31, 0)) ||
	       hca_mkc_any(mkc, 0x3c, GENMASK(28, 27) | GENMASK(26, 16));
}

static unsigned int hca_mkc_mode(const void *mkc)
{
	return MLX5_GET(mkc, mkc, access_mode_4_2) << 2 | MLX5_GET(mkc, mkc, access_mode_1_0);
}

static void hca_mkc_decode(const void *mkc, struct hca_mkc *c)
{
	c->start = MLX5_GET64(mkc, mkc, start_addr);
	c->len = MLX5_GET64(mkc, mkc, len);
	c->pd = MLX5_GET(mkc, mkc, pd);
	c->qpn = MLX5_GET(mkc, mkc, qpn);
	c->variant = MLX5_GET(mkc, mkc, mkey_7_0);
	c->mode = hca_mkc_mode(mkc);
	c->octwords = round_up(MLX5_GET(mkc, mkc, translations_octword_size), 4);
	c->log_page_size = MLX5_GET(mkc, mkc, log_page_size);
	c->free = MLX5_GET(mkc, mkc, free);
	c->length64 = MLX5_GET(mkc, mkc, length64);
	c->lr = MLX5_GET(mkc, mkc, lr);
	c->lw = MLX5_GET(mkc, mkc, lw);
	c->rr = MLX5_GET(mkc, mkc, rr);
	c->rw = MLX5_GET(mkc, mkc, rw);
	c->a = MLX5_GET(mkc, mkc, a);
}

/* Writes the engine's own fields into a stored MKC: the handle of the table. */
static void hca_mkc_set_handles(__be32 *mkc, u64 addr)
{
	mkc[0x24 / 4] = 0;
	mkc[0x28 / 4] = 0;
	mkc[0x2c / 4] = cpu_to_be32(addr >> 32);
	mkc[0x30 / 4] = cpu_to_be32(addr);
}

#define HCA_MKEY_HEADER		0x50	/* CREATE_MKEY without a list may end here ... */
#define HCA_MKEY_LIST_SIZE_END	0x64	/* ... or somewhere behind the size of the list */

/* The length of the list that follows, in octowords. */
static u64 hca_mkey_list_octwords(const void *in, size_t inlen)
{
	if (inlen < HCA_MKEY_LIST_SIZE_END)
		return 0;
	return MLX5_GET(create_mkey_in, in, translations_octword_actual_size);
}

/* The checks of HM 7.1, in its order and with its numbers. Where check 9 passes, @pd is held. */
static hca_cmd_status hca_mkey_check(struct hca *hca, const void *in, size_t inlen,
				     struct hca_number **pd)
{
	const void *mkc = MLX5_ADDR_OF(create_mkey_in, in, memory_key_mkey_entry);
	u64 start, len, actual = 0, octwords, end;
	unsigned int mode, log_page;

	if (MLX5_GET(create_mkey_in, in, op_mod))
		return HCA_REFUSE(BAD_OP_ERR, 1);
	if (inlen < HCA_MKEY_HEADER)
		return HCA_REFUSE(BAD_INP_LEN_ERR, 2);
	actual = hca_mkey_list_octwords(in, inlen);
	if (inlen < MLX5_ST_SZ_BYTES(create_mkey_in) + actual * 16 && actual)
		return HCA_REFUSE(BAD_INP_LEN_ERR, 2);
	/* No user context can exist yet: DEVX is not offered. */
	if (MLX5_GET(create_mkey_in, in, uid))
		return HCA_REFUSE(BAD_RES_ERR, 3);
	if (hca_mkc_reserved(mkc))
		return HCA_REFUSE(BAD_PARAM_ERR, 4);
	if (hca_mkc_not_offered(mkc))
		return HCA_REFUSE(BAD_PARAM_ERR, 5);
	mode = hca_mkc_mode(mkc);
	if (mode != MLX5_MKC_ACCESS_MODE_PA && mode != MLX5_MKC_ACCESS_MODE_MTT)
		return HCA_REFUSE(BAD_PARAM_ERR, 6);
	if (!MLX5_GET(mkc, mkc, lr))
		return HCA_REFUSE(BAD_PARAM_ERR, 7);
	if (MLX5_GET(mkc, mkc, qpn) != 0xffffff)
		return HCA_REFUSE(BAD_PARAM_ERR, 8);
	*pd = hca_number_get(&hca->pds, MLX5_GET(mkc, mkc, pd));
	if (!*pd)
		return HCA_REFUSE(BAD_RES_ERR, 9);
	start = MLX5_GET64(mkc, mkc, start_addr);
	len = MLX5_GET64(mkc, mkc, len);
	if (!MLX5_GET(mkc, mkc, length64) && len && check_add_overflow(start, len - 1, &end))
		return HCA_REFUSE(BAD_PARAM_ERR, 10);
	log_page = MLX5_GET(mkc, mkc, log_page_size);
	if (mode == MLX5_MKC_ACCESS_MODE_MTT &&
	    (log_page < HCA_MIN_LOG_PAGE_MTT || log_page > HCA_MAX_LOG_PAGE_MTT))
		return HCA_REFUSE(BAD_PARAM_ERR, 11);
	octwords = MLX5_GET(mkc, mkc, translations_octword_size);
	if (mode == MLX5_MKC_ACCESS_MODE_PA ? octwords != 0 : octwords > 1 << 30)
		return HCA_REFUSE(BAD_PARAM_ERR, 12);
	if (actual > round_up(octwords, 4))
		return HCA_REFUSE(BAD_PARAM_ERR, 13);
	if (MLX5_GET(create_mkey_in, in, pg_access) && mode != MLX5_MKC_ACCESS_MODE_MTT)
		return HCA_REFUSE(BAD_PARAM_ERR, 14);
	if (MLX5_GET(mkc, mkc, umr_en) && mode != MLX5_MKC_ACCESS_MODE_MTT)
		return HCA_REFUSE(BAD_PARAM_ERR, 15);
	if (MLX5_GET(create_mkey_in, in, mkey_umem_valid))
		return HCA_REFUSE(BAD_PARAM_ERR, 16);
	if (MLX5_GET(mkc, mkc, en_rinval) && mode != MLX5_MKC_ACCESS_MODE_MTT)
		return HCA_REFUSE(BAD_PARAM_ERR, 17);
	return HCA_OK;
}

/* Check 22: without pg_access the entries are plain page addresses. */
static bool hca_mtt_has_low_bits(const __be64 *mtt, u64 nr)
{
	while (nr--)
		if (be64_to_cpu(*mtt++) & (HCA_PAGE_SIZE - 1))
			return true;
	return false;
}

static void hca_mkey_load(struct hca_mkey *mkey, const __be64 *mtt, u64 nr, bool pg_access)
{
	u64 i;

	if (pg_access) {
		hca_xlt_write(&mkey->xlt, 0, mtt, nr * sizeof(*mtt));
		return;
	}
	/* HM 5.2: plain addresses are present for reading and writing. */
	for (i = 0; i < nr; i++) {
		__be64 entry = mtt[i] | cpu_to_be64(MLX5_EN_RD | MLX5_EN_WR);

		hca_xlt_write(&mkey->xlt, i * sizeof(entry), &entry, sizeof(entry));
	}
}

/*
 * Reserves the lowest free index from mkey_next on, and then from the beginning. Indices
 * run on from the last key that came to life: a failure spends none.
 */
static bool hca_mkey_index_get(struct hca *hca, u32 *index)
{
	const u32 end = 1 << HCA_LOG_MAX_MKEY;
	u32 next = max_t(u32, READ_ONCE(hca->mkey_next), HCA_FIRST_MKEY);

	do {
		*index = find_next_zero_bit(hca->mkey_map, end, next);
		if (*index == end)
			*index = find_next_zero_bit(hca->mkey_map, end, HCA_FIRST_MKEY);
		if (*index == end)
			return false;
	} while (test_and_set_bit(*index, hca->mkey_map));
	return true;
}

static void hca_mkey_index_put(struct hca *hca, u32 index)
{
	/* What was done to the key comes before what its successor does. */
	clear_bit_unlock(index, hca->mkey_map);
}

/* The caller is under RCU or has reserved the index. */
static struct hca_mkey *hca_mkey_at(struct hca *hca, u32 index)
{
	struct hca_mkey *mkeys = NULL;

	if (index < 1 << HCA_LOG_MAX_MKEY)
		mkeys = READ_ONCE(hca->icm.mpt.pages[index >> HCA_LOG_PAGE_MKEYS].mkeys);
	return mkeys ? mkeys + (index & (HCA_PAGE_MKEYS - 1)) : NULL;
}

/* No access is running, and the index is still reserved. */
static void hca_mkey_free(struct hca *hca, u32 index, struct hca_mkey *mkey)
{
	hca_xlt_free(hca, &mkey->xlt);
	hca_number_put(mkey->pd);
	hca_ctx_put(hca, &hca->icm.mpt, index);
	hca_mkey_index_put(hca, index);
}

hca_cmd_status hca_cmd_create_mkey(struct hca *hca, const void *in, size_t inlen,
				   void *out, size_t outlen)
{
	const void *mkc = MLX5_ADDR_OF(create_mkey_in, in, memory_key_mkey_entry);
	const __be64 *mtt = (const void *)((const u8 *)in + MLX5_ST_SZ_BYTES(create_mkey_in));
	struct hca_number *pd = NULL;
	hca_cmd_status status;
	struct hca_mkey *mkey;
	bool pg_access;
	void *image;
	u32 index;
	u64 nr;
	int err;

	status = hca_mkey_check(hca, in, inlen, &pd);
	if (status)
		goto put_pd;
	pg_access = MLX5_GET(create_mkey_in, in, pg_access);
	nr = 2 * hca_mkey_list_octwords(in, inlen);

	if (!hca_mkey_index_get(hca, &index)) {
		status = HCA_REFUSE(LIM_ERR, 20);
		goto put_pd;
	}
	image = hca_ctx_get(hca, &hca->icm.mpt, index);
	if (!image) {
		status = HCA_REFUSE(NO_RES_ERR, 21);
		goto put_index;
	}
	mkey = hca_mkey_at(hca, index);
	mkey->image = image;
	mkey->pd = pd;
	hca_mkc_decode(mkc, &mkey->mkc);
	err = hca_xlt_alloc(hca, &mkey->xlt, 16ULL * mkey->mkc.octwords);
	if (err) {
		status = err == -ENOMEM ? HCA_REFUSE(LIM_ERR, 21) : HCA_REFUSE(NO_RES_ERR, 21);
		goto put_image;
	}
	if (!pg_access && mkey->mkc.mode == MLX5_MKC_ACCESS_MODE_MTT &&
	    hca_mtt_has_low_bits(mtt, nr)) {
		status = HCA_REFUSE(BAD_PARAM_ERR, 22);
		goto free_xlt;
	}

	memcpy(image, mkc, MLX5_ST_SZ_BYTES(mkc));
	hca_mkc_set_handles(image, mkey->xlt.addr);
	hca_mkey_load(mkey, mtt, nr, pg_access);
	/* Pairs with the acquire in hca_mkey_enter(): who finds the key finds it whole. */
	smp_store_release(&mkey->live, true);
	WRITE_ONCE(hca->mkey_next, index + 1);
	MLX5_SET(create_mkey_out, out, mkey_index, index);
	return HCA_OK;

free_xlt:
	hca_xlt_free(hca, &mkey->xlt);
put_image:
	hca_ctx_put(hca, &hca->icm.mpt, index);
put_index:
	hca_mkey_index_put(hca, index);
put_pd:
	if (pd)
		hca_number_put(pd);
	return status;
}

/**
 * hca_mkey_enter() - begin an access through an MKey
 * @hca: the HCA
 * @index: mkey_index
 * @slot: which count was raised, for hca_mkey_leave()
 *
 * Until hca_mkey_leave() the MKC and its table stay as they are, and whoever
 * withdraws them waits.
 *
 * Context: any; the caller does not sleep before hca_mkey_leave() but for
 * preemption.
 * Return: the MKey, or NULL if there is none.
 */
struct hca_mkey *hca_mkey_enter(struct hca *hca, u32 index, unsigned int *slot)
{
	struct hca_mkey *mkey;

	rcu_read_lock();
	mkey = hca_mkey_at(hca, index);
	while (mkey && READ_ONCE(mkey->live)) {
		*slot = READ_ONCE(mkey->epoch) & 1;
		atomic_inc(&mkey->inflight[*slot]);
		/* Pairs with the barrier after the flip in hca_mkey_drain(). */
		smp_mb__after_atomic();
		/*
		 * Pairs with the release in hca_cmd_create_mkey(). The epoch comes second:
		 * if the key is a successor, the count has to be in a slot of its own life.
		 */
		if (likely(smp_load_acquire(&mkey->live) &&
			   (READ_ONCE(mkey->epoch) & 1) == *slot)) {
			rcu_read_unlock();
			return mkey;
		}
		hca_mkey_leave(hca, mkey, *slot);
	}
	rcu_read_unlock();
	return NULL;
}

/**
 * hca_mkey_leave() - the access is over
 * @hca: the HCA
 * @mkey: the MKey; not to be touched afterwards
 * @slot: from hca_mkey_enter()
 *
 * Context: any.
 */
void hca_mkey_leave(struct hca *hca, struct hca_mkey *mkey, unsigned int slot)
{
	bool wake;

	/* The key may be freed as soon as the count is 0, but not under RCU. */
	rcu_read_lock();
	wake = atomic_dec_and_test(&mkey->inflight[slot]) && READ_ONCE(mkey->draining);
	rcu_read_unlock();
	if (wake)
		wake_up_all(&hca->drain);
}

/* Waits until no access that began before the call is running. */
static void hca_mkey_drain(struct hca *hca, struct hca_mkey *mkey)
{
	unsigned int slot = mkey->epoch & 1;

	WRITE_ONCE(mkey->draining, true);
	WRITE_ONCE(mkey->epoch, mkey->epoch + 1);
	/* Pairs with the barrier in hca_mkey_enter(). */
	smp_mb();
	wait_event(hca->drain, !atomic_read(&mkey->inflight[slot]));
	WRITE_ONCE(mkey->draining, false);
}

hca_cmd_status hca_cmd_destroy_mkey(struct hca *hca, const void *in, size_t inlen,
				    void *out, size_t outlen)
{
	u32 index = MLX5_GET(destroy_mkey_in, in, mkey_index);
	hca_cmd_status status = HCA_OK;
	struct hca_mkey *mkey;

	if (MLX5_GET(destroy_mkey_in, in, op_mod))
		return HCA_REFUSE(BAD_OP_ERR, 1);
	rcu_read_lock();
	mkey = hca_mkey_at(hca, index);
	if (!mkey || !READ_ONCE(mkey->live))
		status = HCA_REFUSE(BAD_RES_ERR, 2);
	/* Every key is the kernel's: DEVX is not offered. */
	else if (MLX5_GET(destroy_mkey_in, in, uid))
		status = HCA_REFUSE(BAD_RES_ERR, 3);
	/* Of two destroyers one gets the key, and with it the index. */
	else if (!xchg(&mkey->live, false))
		status = HCA_REFUSE(BAD_RES_ERR, 2);
	rcu_read_unlock();
	if (status)
		return status;
	hca_mkey_drain(hca, mkey);
	hca_mkey_free(hca, index, mkey);
	return HCA_OK;
}

hca_cmd_status hca_cmd_query_mkey(struct hca *hca, const void *in, size_t inlen,
				  void *out, size_t outlen)
{
	bool pg_access = MLX5_GET(query_mkey_in, in, pg_access);
	const size_t list = MLX5_ST_SZ_BYTES(create_mkey_in);
	struct hca_mkey *mkey;
	unsigned int slot;
	size_t len, i;
	__be64 *mtt;

	if (MLX5_GET(query_mkey_in, in, op_mod))
		return HCA_REFUSE(BAD_OP_ERR, 1);
	if (outlen < HCA_MKEY_HEADER)
		return HCA_REFUSE(BAD_OUTP_LEN_ERR, 2);
	mkey = hca_mkey_enter(hca, MLX5_GET(query_mkey_in, in, mkey_index), &slot);
	if (!mkey)
		return HCA_REFUSE(BAD_RES_ERR, 3);
	memcpy(MLX5_ADDR_OF(query_mkey_out, out, memory_key_mkey_entry), mkey->image,
	       MLX5_ST_SZ_BYTES(mkc));
	if (outlen > list) {
		len = min_t(u64, outlen - list, mkey->xlt.bytes);
		mtt = (void *)((u8 *)out + list);
		hca_xlt_read(&mkey->xlt, 0, mtt, len);
		for (i = 0; !pg_access && i < len / sizeof(*mtt); i++)
			mtt[i] &= ~cpu_to_be64(MLX5_EN_RD | MLX5_EN_WR);
	}
	hca_mkey_leave(hca, mkey, slot);
	return HCA_OK;
}

/**
 * hca_mkeys_destroy() - destroy what software left behind
 * @hca: the HCA; all queues have stopped
 */
void hca_mkeys_destroy(struct hca *hca)
{
	struct hca_mkey *mkey;
	unsigned long index;
	bool mine;

	for_each_set_bit(index, hca->mkey_map, 1UL << HCA_LOG_MAX_MKEY) {
		rcu_read_lock();
		mkey = hca_mkey_at(hca, index);
		mine = mkey && xchg(&mkey->live, false);
		rcu_read_unlock();
		if (mine)
			hca_mkey_free(hca, index, mkey);
	}
}
