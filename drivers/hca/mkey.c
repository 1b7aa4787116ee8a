// SPDX-License-Identifier: GPL-2.0
/*
 * MKeys: the MPT, the commands that make and unmake its entries, and the counts
 * of running accesses that let an entry be withdrawn.
 *
 * Invariants:
 *  - An index is reserved in hca->mkeys (and reads as NULL) while its key is being
 *    built and while it is being torn down, so nobody else can be given it; between
 *    the two it leads to the key. What can fail is done in the first phase. The index
 *    freed last stays reserved until another one is freed or none is left.
 *  - The MKC in the firmware page is what CREATE_MKEY was given, handles excepted;
 *    hca_mkey.mkc is the same, decoded for the data path.
 *  - An access counts itself in inflight[epoch & 1] and checks afterwards that the
 *    epoch is still the one it counted in; the withdrawer flips the epoch and then
 *    waits for the old slot. So it waits for every access that can have seen the
 *    old state, and for none that began later (HM 11.3, guarantee G).
 */
#include <linux/errno.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/overflow.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "engine.h"

/* What CREATE_MKEY insists on, by 32-bit word of the MKC (HM 2.3). */
static const u32 hca_mkc_reserved[MLX5_ST_SZ_DW(mkc)] = {
	[0x00 / 4] = BIT(31) | BIT(29) | GENMASK(25, 19) | BIT(17) | BIT(7),
	[0x08 / 4] = GENMASK(31, 24),
	[0x0c / 4] = GENMASK(28, 27) | BIT(25),
	[0x24 / 4] = GENMASK(31, 16),
	[0x2c / 4] = GENMASK(31, 16),
	[0x30 / 4] = GENMASK(31, 16),
	[0x38 / 4] = GENMASK(31, 7),
	[0x3c / 4] = GENMASK(31, 29),
};

/* Fields of capabilities that are not offered: TA, MTM, sf; pasid; BE, sync_umr; BSF; CE, TPH. */
static const u32 hca_mkc_not_offered[MLX5_ST_SZ_DW(mkc)] = {
	[0x00 / 4] = BIT(6) | GENMASK(5, 4) | GENMASK(3, 0),
	[0x08 / 4] = GENMASK(23, 0),
	[0x0c / 4] = BIT(30) | BIT(29),
	[0x20 / 4] = GENMASK(31, 0),
	[0x3c / 4] = GENMASK(28, 27) | GENMASK(26, 16),
};

static bool hca_mkc_any(const __be32 *mkc, const u32 *mask)
{
	size_t i;

	for (i = 0; i < MLX5_ST_SZ_DW(mkc); i++)
		if (be32_to_cpu(mkc[i]) & mask[i])
			return true;
	return false;
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

/* The checks of HM 7.1, in its order and with its numbers. */
static hca_cmd_status hca_mkey_check(struct hca *hca, const void *in, size_t inlen)
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
	if (hca_mkc_any(mkc, hca_mkc_reserved))
		return HCA_REFUSE(BAD_PARAM_ERR, 4);
	if (hca_mkc_any(mkc, hca_mkc_not_offered))
		return HCA_REFUSE(BAD_PARAM_ERR, 5);
	mode = hca_mkc_mode(mkc);
	if (mode != MLX5_MKC_ACCESS_MODE_PA && mode != MLX5_MKC_ACCESS_MODE_MTT)
		return HCA_REFUSE(BAD_PARAM_ERR, 6);
	if (!MLX5_GET(mkc, mkc, lr))
		return HCA_REFUSE(BAD_PARAM_ERR, 7);
	if (MLX5_GET(mkc, mkc, qpn) != 0xffffff)
		return HCA_REFUSE(BAD_PARAM_ERR, 8);
	if (!xa_load(&hca->pds, MLX5_GET(mkc, mkc, pd)))
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
 * Lets go of the index that stays reserved since a key was destroyed, and keeps
 * @index instead (0: none). With it stays the node of the table that the next index
 * needs: a key that comes and goes neither allocates nor frees one.
 */
static bool hca_mkey_keep_index(struct hca *hca, u32 index)
{
	u32 old = atomic_xchg(&hca->mkey_kept, index);

	if (old)
		xa_erase(&hca->mkeys, old);
	return old;
}

/* @mkey cannot be found any more, and its index is still reserved. */
static void hca_mkey_free(struct hca *hca, struct hca_mkey *mkey)
{
	hca_xlt_free(hca, &mkey->xlt);
	hca_ctx_put(hca, &hca->icm.mpt, mkey->index);
	hca_number_put(&hca->pds, mkey->mkc.pd);
	hca_mkey_keep_index(hca, mkey->index);
	kfree_rcu(mkey, rcu);
}

hca_cmd_status hca_cmd_create_mkey(struct hca *hca, const void *in, size_t inlen,
				   void *out, size_t outlen)
{
	const void *mkc = MLX5_ADDR_OF(create_mkey_in, in, memory_key_mkey_entry);
	const __be64 *mtt = (const void *)((const u8 *)in + MLX5_ST_SZ_BYTES(create_mkey_in));
	hca_cmd_status status;
	struct hca_mkey *mkey;
	bool pg_access;
	u32 next;
	u64 nr;
	int err;

	status = hca_mkey_check(hca, in, inlen);
	if (status)
		return status;
	pg_access = MLX5_GET(create_mkey_in, in, pg_access);
	nr = 2 * hca_mkey_list_octwords(in, inlen);

	mkey = kzalloc_obj(*mkey);
	if (!mkey)
		return HCA_REFUSE(LIM_ERR, 20);
	hca_mkc_decode(mkc, &mkey->mkc);
	mkey->octwords = round_up(MLX5_GET(mkc, mkc, translations_octword_size), 4);

	if (!hca_number_get(&hca->pds, mkey->mkc.pd)) {
		status = HCA_REFUSE(BAD_RES_ERR, 9);
		goto free_mkey;
	}
	/* Indices run on from the last key that came to life: a failure spends none. */
	do {
		next = READ_ONCE(hca->mkey_next);
		err = xa_alloc_cyclic(&hca->mkeys, &mkey->index, NULL,
				      XA_LIMIT(HCA_FIRST_MKEY, (1 << HCA_LOG_MAX_MKEY) - 1),
				      &next, GFP_KERNEL);
	} while (err == -EBUSY && hca_mkey_keep_index(hca, 0));
	if (err < 0) {
		status = HCA_REFUSE(LIM_ERR, 20);
		goto put_pd;
	}
	mkey->image = hca_ctx_get(hca, &hca->icm.mpt, mkey->index);
	if (!mkey->image) {
		status = HCA_REFUSE(NO_RES_ERR, 21);
		goto erase_index;
	}
	err = hca_xlt_alloc(hca, &mkey->xlt, 16ULL * mkey->octwords);
	if (err) {
		status = err == -ENOMEM ? HCA_REFUSE(LIM_ERR, 21) : HCA_REFUSE(NO_RES_ERR, 21);
		goto put_image;
	}
	if (!pg_access && mkey->mkc.mode == MLX5_MKC_ACCESS_MODE_MTT &&
	    hca_mtt_has_low_bits(mtt, nr)) {
		status = HCA_REFUSE(BAD_PARAM_ERR, 22);
		goto free_xlt;
	}

	memcpy(mkey->image, mkc, MLX5_ST_SZ_BYTES(mkc));
	hca_mkc_set_handles(mkey->image, mkey->xlt.addr);
	hca_mkey_load(mkey, mtt, nr, pg_access);
	/* Replaces the reservation, so it needs no memory. */
	xa_store(&hca->mkeys, mkey->index, mkey, GFP_KERNEL);
	WRITE_ONCE(hca->mkey_next, next);
	MLX5_SET(create_mkey_out, out, mkey_index, mkey->index);
	return HCA_OK;

free_xlt:
	hca_xlt_free(hca, &mkey->xlt);
put_image:
	hca_ctx_put(hca, &hca->icm.mpt, mkey->index);
erase_index:
	xa_erase(&hca->mkeys, mkey->index);
put_pd:
	hca_number_put(&hca->pds, mkey->mkc.pd);
free_mkey:
	kfree(mkey);
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
	mkey = xa_load(&hca->mkeys, index);
	while (mkey) {
		*slot = READ_ONCE(mkey->epoch) & 1;
		atomic_inc(&mkey->inflight[*slot]);
		/* Pairs with the barrier after the flip in hca_mkey_drain(). */
		smp_mb__after_atomic();
		if (likely((READ_ONCE(mkey->epoch) & 1) == *slot && !READ_ONCE(mkey->gone)))
			break;
		hca_mkey_leave(hca, mkey, *slot);
		mkey = xa_load(&hca->mkeys, index);
	}
	rcu_read_unlock();
	return mkey;
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
	struct hca_mkey *mkey;

	if (MLX5_GET(destroy_mkey_in, in, op_mod))
		return HCA_REFUSE(BAD_OP_ERR, 1);
	/* Of two destroyers one gets the key; until then it is a number to compare. */
	mkey = xa_load(&hca->mkeys, index);
	if (!mkey)
		return HCA_REFUSE(BAD_RES_ERR, 2);
	/* Every key is the kernel's: DEVX is not offered. */
	if (MLX5_GET(destroy_mkey_in, in, uid))
		return HCA_REFUSE(BAD_RES_ERR, 3);
	if (xa_cmpxchg(&hca->mkeys, index, mkey, XA_ZERO_ENTRY, GFP_KERNEL) != mkey)
		return HCA_REFUSE(BAD_RES_ERR, 2);
	WRITE_ONCE(mkey->gone, true);
	hca_mkey_drain(hca, mkey);
	hca_mkey_free(hca, mkey);
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

	xa_for_each(&hca->mkeys, index, mkey) {
		xa_cmpxchg(&hca->mkeys, index, mkey, XA_ZERO_ENTRY, GFP_KERNEL);
		hca_mkey_free(hca, mkey);
	}
}
