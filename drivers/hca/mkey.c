// SPDX-License-Identifier: GPL-2.0
/*
 * MKeys: the MPT, the commands that make and unmake its entries, and the counts
 * of running accesses that let an entry be withdrawn.
 *
 * Invariants:
 *  - An index is reserved in hca->mkey_map from before its key is built until after
 *    it has been torn down, so nobody else can be given it, and its page of the MPT
 *    stays. The key is live between the two. What can fail is done before.
 *  - The MKC in the firmware page is what CREATE_MKEY was given and UMRs have made of
 *    it, handles excepted; hca_mkey.mkc is the same, decoded for the data path.
 *  - An access counts itself and checks afterwards that the key is live. Whoever
 *    changes or withdraws a key first makes it not live and then waits until the
 *    count is 0. So nothing of the old state is in use when the change begins, no
 *    access sees half of one, and none of the old state is running when its
 *    completion can be seen (HM 11.2, guarantee G; 11.3 suggests two counts and
 *    a sequence number instead, which let accesses begin during the change).
 *  - The count goes on from one key of an index to the next: a look-up that comes too
 *    late for a key may for a moment be counted in its successor.
 */
#include <linux/bitmap.h>
#include <linux/err.h>
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

/**
 * hca_mkc_decode() - take what an access looks at out of an MKC
 * @image: the MKC
 * @c: filled in
 */
void hca_mkc_decode(const void *image, struct hca_mkc *c)
{
	const void *mkc = image;
	const __be32 *word = image;

	c->start = MLX5_GET64(mkc, mkc, start_addr);
	c->len = MLX5_GET64(mkc, mkc, len);
	c->pd = MLX5_GET(mkc, mkc, pd);
	c->qpn = MLX5_GET(mkc, mkc, qpn);
	c->variant = MLX5_GET(mkc, mkc, mkey_7_0);
	c->mode = hca_mkc_mode(mkc);
	c->octwords = round_up(MLX5_GET(mkc, mkc, translations_octword_size), 4);
	c->log_page_size = MLX5_GET(mkc, mkc, log_page_size);
	c->length64 = MLX5_GET(mkc, mkc, length64);
	c->rights = be32_to_cpu(word[0]) & HCA_MKC_RIGHTS;
}

/* Writes the engine's own fields into a stored MKC: the handle of the table. */
static void hca_mkc_set_handles(__be32 *mkc, u64 addr)
{
	mkc[0x24 / 4] = 0;
	mkc[0x28 / 4] = 0;
	mkc[0x2c / 4] = cpu_to_be32(addr >> 32);
	mkc[0x30 / 4] = cpu_to_be32(addr);
}

/**
 * hca_mkc_range_ok() - check 10 of HM 7.1: the region does not wrap
 * @image: the MKC
 */
bool hca_mkc_range_ok(const void *image)
{
	u64 start = MLX5_GET64(mkc, image, start_addr);
	u64 len = MLX5_GET64(mkc, image, len);
	u64 end;

	if (hca_mkc_mode(image) == MLX5_MKC_ACCESS_MODE_MEMIC)
		return !check_add_overflow(start, len, &end);
	return MLX5_GET(mkc, image, length64) || !len || !check_add_overflow(start, len - 1, &end);
}

/**
 * hca_mkc_page_size_ok() - check 11 of HM 7.1: page or block size within the capability
 * @image: the MKC
 */
bool hca_mkc_page_size_ok(const void *image)
{
	unsigned int log = MLX5_GET(mkc, image, log_page_size);

	switch (hca_mkc_mode(image)) {
	case MLX5_MKC_ACCESS_MODE_MTT:
		return log >= HCA_MIN_LOG_PAGE_MTT && log <= HCA_MAX_LOG_PAGE_MTT;
	case MLX5_MKC_ACCESS_MODE_KSM:
		return log >= HCA_MIN_LOG_PAGE_KSM && log <= HCA_MAX_LOG_PAGE_KSM;
	default:
		return true;
	}
}

static bool hca_mode_has_table(unsigned int mode)
{
	return mode == MLX5_MKC_ACCESS_MODE_MTT || mode == MLX5_MKC_ACCESS_MODE_KLMS ||
	       mode == MLX5_MKC_ACCESS_MODE_KSM;
}

/* Check 6: what a user context makes must not reach memory that it does not own. */
static bool hca_mode_legal(unsigned int mode, u16 uid)
{
	switch (mode) {
	case MLX5_MKC_ACCESS_MODE_PA:
	case MLX5_MKC_ACCESS_MODE_MTT:
		return !uid;
	case MLX5_MKC_ACCESS_MODE_KLMS:
	case MLX5_MKC_ACCESS_MODE_KSM:
	case MLX5_MKC_ACCESS_MODE_MEMIC:
		return true;
	default:
		return false;
	}
}

/* Check 12: what the table may hold. */
static bool hca_table_size_ok(unsigned int mode, u64 octwords)
{
	switch (mode) {
	case MLX5_MKC_ACCESS_MODE_KLMS:
		return octwords <= 1 << HCA_LOG_MAX_KLM_LIST;
	case MLX5_MKC_ACCESS_MODE_MTT:
	case MLX5_MKC_ACCESS_MODE_KSM:
		return octwords <= 1 << 30;
	default:
		return !octwords;
	}
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

/*
 * What a key holds on to: filled in by the checks that find it, let go of by
 * hca_mkey_unuse().
 */
struct hca_mkey_uses {
	struct hca_number *owner;
	struct hca_number *pd;
	struct hca_memic *memic;
};

static void hca_mkey_unuse(struct hca *hca, const struct hca_mkey_uses *uses)
{
	if (uses->memic)
		hca_memic_unuse(hca, uses->memic);
	if (uses->pd)
		hca_number_put(uses->pd);
	hca_uctx_unuse(uses->owner);
}

/* The checks of HM 7.1, in its order and with its numbers. */
static hca_cmd_status hca_mkey_check(struct hca *hca, const void *in, size_t inlen,
				     struct hca_mkey_uses *uses)
{
	const void *mkc = MLX5_ADDR_OF(create_mkey_in, in, memory_key_mkey_entry);
	unsigned int mode = hca_mkc_mode(mkc);
	u16 uid = MLX5_GET(create_mkey_in, in, uid);
	u64 actual = 0, octwords;

	if (MLX5_GET(create_mkey_in, in, op_mod))
		return HCA_REFUSE(BAD_OP_ERR, 1);
	if (inlen < HCA_MKEY_HEADER)
		return HCA_REFUSE(BAD_INP_LEN_ERR, 2);
	actual = hca_mkey_list_octwords(in, inlen);
	if (inlen < MLX5_ST_SZ_BYTES(create_mkey_in) + actual * 16 && actual)
		return HCA_REFUSE(BAD_INP_LEN_ERR, 2);
	if (!hca_uctx_use(hca, uid, &uses->owner))
		return HCA_REFUSE(BAD_RES_ERR, 3);
	if (hca_mkc_reserved(mkc))
		return HCA_REFUSE(BAD_PARAM_ERR, 4);
	if (hca_mkc_not_offered(mkc))
		return HCA_REFUSE(BAD_PARAM_ERR, 5);
	if (!hca_mode_legal(mode, uid))
		return HCA_REFUSE(BAD_PARAM_ERR, 6);
	if (!MLX5_GET(mkc, mkc, lr))
		return HCA_REFUSE(BAD_PARAM_ERR, 7);
	if (MLX5_GET(mkc, mkc, qpn) != 0xffffff)
		return HCA_REFUSE(BAD_PARAM_ERR, 8);
	uses->pd = hca_number_get(&hca->pds, MLX5_GET(mkc, mkc, pd), uid);
	if (!uses->pd)
		return HCA_REFUSE(BAD_RES_ERR, 9);
	if (!hca_mkc_range_ok(mkc))
		return HCA_REFUSE(BAD_PARAM_ERR, 10);
	if (!hca_mkc_page_size_ok(mkc))
		return HCA_REFUSE(BAD_PARAM_ERR, 11);
	octwords = MLX5_GET(mkc, mkc, translations_octword_size);
	if (!hca_table_size_ok(mode, octwords))
		return HCA_REFUSE(BAD_PARAM_ERR, 12);
	if (actual > round_up(octwords, 4))
		return HCA_REFUSE(BAD_PARAM_ERR, 13);
	if (MLX5_GET(create_mkey_in, in, pg_access) && mode != MLX5_MKC_ACCESS_MODE_MTT)
		return HCA_REFUSE(BAD_PARAM_ERR, 14);
	if (MLX5_GET(mkc, mkc, umr_en) && !hca_mode_has_table(mode))
		return HCA_REFUSE(BAD_PARAM_ERR, 15);
	if (MLX5_GET(create_mkey_in, in, mkey_umem_valid) &&
	    mode != MLX5_MKC_ACCESS_MODE_KLMS && mode != MLX5_MKC_ACCESS_MODE_KSM)
		return HCA_REFUSE(BAD_PARAM_ERR, 16);
	if (MLX5_GET(mkc, mkc, en_rinval) && !hca_mode_has_table(mode))
		return HCA_REFUSE(BAD_PARAM_ERR, 17);
	if (mode == MLX5_MKC_ACCESS_MODE_MEMIC) {
		uses->memic = hca_memic_use(hca, MLX5_GET64(mkc, mkc, start_addr),
					    MLX5_GET64(mkc, mkc, len), uid);
		if (!uses->memic)
			return HCA_REFUSE(BAD_RES_ERR, 18);
	}
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

	if (pg_access || mkey->mkc.mode != MLX5_MKC_ACCESS_MODE_MTT) {
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
	struct hca_mkey_uses uses = {
		.owner = mkey->owner, .pd = mkey->pd, .memic = mkey->memic,
	};

	kvfree(mkey->klms);
	hca_xlt_free(hca, &mkey->xlt);
	hca_ctx_put(hca, &hca->icm.mpt, index);
	hca_mkey_index_put(hca, index);
	hca_mkey_unuse(hca, &uses);
}

/* Host memory ran out, or the driver gave no pages. */
static hca_cmd_status hca_mkey_no_icm(int err)
{
	return err == -ENOMEM ? HCA_REFUSE(LIM_ERR, 21) : HCA_REFUSE(NO_RES_ERR, 21);
}

hca_cmd_status hca_cmd_create_mkey(struct hca *hca, const void *in, size_t inlen,
				   void *out, size_t outlen)
{
	const void *mkc = MLX5_ADDR_OF(create_mkey_in, in, memory_key_mkey_entry);
	const __be64 *list = (const void *)((const u8 *)in + MLX5_ST_SZ_BYTES(create_mkey_in));
	struct hca_mkey_uses uses = {};
	hca_cmd_status status;
	struct hca_mkey *mkey;
	bool pg_access;
	void *image;
	u32 index;
	u64 nr;
	int err;

	status = hca_mkey_check(hca, in, inlen, &uses);
	if (status)
		goto unuse;
	pg_access = MLX5_GET(create_mkey_in, in, pg_access);
	nr = 2 * hca_mkey_list_octwords(in, inlen);

	if (!hca_mkey_index_get(hca, &index)) {
		status = HCA_REFUSE(LIM_ERR, 20);
		goto unuse;
	}
	image = hca_ctx_get(hca, &hca->icm.mpt, index);
	if (IS_ERR(image)) {
		status = hca_mkey_no_icm(PTR_ERR(image));
		goto put_index;
	}
	mkey = hca_mkey_at(hca, index);
	mkey->image = image;
	mkey->pd = uses.pd;
	mkey->owner = uses.owner;
	mkey->memic = uses.memic;
	mkey->uid = MLX5_GET(create_mkey_in, in, uid);
	mkey->klms = NULL;
	hca_mkc_decode(mkc, &mkey->mkc);
	err = hca_xlt_alloc(hca, &mkey->xlt, 16ULL * mkey->mkc.octwords);
	if (err) {
		status = hca_mkey_no_icm(err);
		goto put_image;
	}
	if (!pg_access && mkey->mkc.mode == MLX5_MKC_ACCESS_MODE_MTT &&
	    hca_mtt_has_low_bits(list, nr)) {
		status = HCA_REFUSE(BAD_PARAM_ERR, 22);
		goto free_xlt;
	}
	if (mkey->mkc.mode == MLX5_MKC_ACCESS_MODE_KLMS) {
		mkey->klms = hca_klms_alloc(mkey->mkc.octwords);
		if (!mkey->klms) {
			status = HCA_REFUSE(LIM_ERR, 21);
			goto free_xlt;
		}
	}

	memcpy(image, mkc, MLX5_ST_SZ_BYTES(mkc));
	hca_mkc_set_handles(image, mkey->xlt.addr);
	hca_mkey_load(mkey, list, nr, pg_access);
	if (mkey->klms)
		hca_klms_update(mkey);
	/* Pairs with the acquire in hca_mkey_enter(): who finds the key finds it whole. */
	smp_store_release(&mkey->state, HCA_MKEY_LIVE);
	WRITE_ONCE(hca->mkey_next, index + 1);
	MLX5_SET(create_mkey_out, out, mkey_index, index);
	return HCA_OK;

free_xlt:
	hca_xlt_free(hca, &mkey->xlt);
put_image:
	hca_ctx_put(hca, &hca->icm.mpt, index);
put_index:
	hca_mkey_index_put(hca, index);
unuse:
	hca_mkey_unuse(hca, &uses);
	return status;
}

/**
 * hca_mkey_enter() - begin an access through an MKey
 * @hca: the HCA
 * @index: mkey_index
 *
 * Until hca_mkey_leave() the MKC and its table stay as they are, and whoever
 * changes or withdraws them waits.
 *
 * Context: any; the caller does not sleep before hca_mkey_leave() but for
 * preemption.
 * Return: the MKey; NULL if there is none; -EBUSY if it is just being changed: see
 * hca_mkey_wait().
 */
struct hca_mkey *hca_mkey_enter(struct hca *hca, u32 index)
{
	struct hca_mkey *mkey;
	u8 state;

	rcu_read_lock();
	mkey = hca_mkey_at(hca, index);
	state = mkey ? READ_ONCE(mkey->state) : HCA_MKEY_NONE;
	if (state == HCA_MKEY_LIVE) {
		atomic_inc(&mkey->inflight);
		/* Pairs with the barrier in hca_mkey_quiesce(). */
		smp_mb__after_atomic();
		/* Pairs with the releases in hca_cmd_create_mkey() and hca_mkey_thaw(). */
		state = smp_load_acquire(&mkey->state);
		if (likely(state == HCA_MKEY_LIVE)) {
			rcu_read_unlock();
			return mkey;
		}
		hca_mkey_leave(hca, mkey);
	}
	rcu_read_unlock();
	return state == HCA_MKEY_NONE ? NULL : ERR_PTR(-EBUSY);
}

static bool hca_mkey_changing(struct hca *hca, u32 index)
{
	struct hca_mkey *mkey;
	bool changing;

	rcu_read_lock();
	mkey = hca_mkey_at(hca, index);
	changing = mkey && READ_ONCE(mkey->state) == HCA_MKEY_CHANGING;
	rcu_read_unlock();
	return changing;
}

/**
 * hca_mkey_wait() - wait until an MKey has been changed
 * @hca: the HCA
 * @index: mkey_index
 *
 * A change takes as long as the chunks that are under way and the writing of at most
 * 1 MiB of entries.
 *
 * Context: process, may sleep. The caller holds no access count, and no lock that
 * an access waits for while it is counted.
 */
void hca_mkey_wait(struct hca *hca, u32 index)
{
	wait_event(hca->drain, !hca_mkey_changing(hca, index));
}

/**
 * hca_mkey_lock() - become the only one who changes or withdraws an MKey
 * @hca: the HCA
 * @index: mkey_index
 *
 * Context: process, may sleep. The lock is one of hca->mkey_locks[], also when there
 * is no such key; hca_mkey_unlock() releases it.
 * Return: the MKey, live and not being changed, or NULL.
 */
struct hca_mkey *hca_mkey_lock(struct hca *hca, u32 index)
{
	struct hca_mkey *mkey;

	mutex_lock(&hca->mkey_locks[index % HCA_MKEY_LOCKS]);
	rcu_read_lock();
	mkey = hca_mkey_at(hca, index);
	/* Nobody else takes a live key away now, so it outlives the RCU section. */
	if (mkey && READ_ONCE(mkey->state) == HCA_MKEY_NONE)
		mkey = NULL;
	rcu_read_unlock();
	return mkey;
}

/**
 * hca_mkey_unlock() - let others change or withdraw MKeys
 * @hca: the HCA
 * @index: as in hca_mkey_lock()
 */
void hca_mkey_unlock(struct hca *hca, u32 index)
{
	mutex_unlock(&hca->mkey_locks[index % HCA_MKEY_LOCKS]);
}

/* Lets no access begin any more, and waits until the last one is over. */
static void hca_mkey_quiesce(struct hca *hca, struct hca_mkey *mkey, enum hca_mkey_state state)
{
	WRITE_ONCE(mkey->state, state);
	/* Pairs with the barrier in hca_mkey_enter(). */
	smp_mb();
	if (likely(!atomic_read_acquire(&mkey->inflight)))
		return;
	atomic_add(HCA_MKEY_AWAITED, &mkey->inflight);
	wait_event(hca->drain, atomic_read_acquire(&mkey->inflight) == HCA_MKEY_AWAITED);
	atomic_sub(HCA_MKEY_AWAITED, &mkey->inflight);
}

/**
 * hca_mkey_freeze() - keep accesses away from an MKey that will be changed
 * @hca: the HCA
 * @mkey: the MKey, locked by hca_mkey_lock()
 *
 * On return no access is running; new ones wait until hca_mkey_thaw() (HM 11.3).
 *
 * Context: process, waits for running chunks. The caller is not counted in any key.
 */
void hca_mkey_freeze(struct hca *hca, struct hca_mkey *mkey)
{
	hca_mkey_quiesce(hca, mkey, HCA_MKEY_CHANGING);
}

/**
 * hca_mkey_thaw() - the MKey has been changed: accesses may begin
 * @hca: the HCA
 * @mkey: the MKey
 */
void hca_mkey_thaw(struct hca *hca, struct hca_mkey *mkey)
{
	/* Pairs with the acquire in hca_mkey_enter(). */
	smp_store_release(&mkey->state, HCA_MKEY_LIVE);
	if (wq_has_sleeper(&hca->drain))
		wake_up_all(&hca->drain);
}

/* QUERY_ and DESTROY_MKEY have their uid where every command of a user context has it. */
static u16 hca_cmd_uid(const void *in)
{
	return MLX5_GET(general_obj_in_cmd_hdr, in, uid);
}

hca_cmd_status hca_cmd_destroy_mkey(struct hca *hca, const void *in, size_t inlen,
				    void *out, size_t outlen)
{
	u32 index = MLX5_GET(destroy_mkey_in, in, mkey_index);
	hca_cmd_status status = HCA_OK;
	struct hca_mkey *mkey;

	if (MLX5_GET(destroy_mkey_in, in, op_mod))
		return HCA_REFUSE(BAD_OP_ERR, 1);
	mkey = hca_mkey_lock(hca, index);
	if (!mkey)
		status = HCA_REFUSE(BAD_RES_ERR, 2);
	else if (mkey->uid != hca_cmd_uid(in))
		status = HCA_REFUSE(BAD_RES_ERR, 3);
	else
		hca_mkey_quiesce(hca, mkey, HCA_MKEY_NONE);
	hca_mkey_unlock(hca, index);
	if (!status)
		hca_mkey_free(hca, index, mkey);
	return status;
}

/* A key as its reader's, waiting out a change. */
static struct hca_mkey *hca_mkey_enter_wait(struct hca *hca, u32 index)
{
	struct hca_mkey *mkey;

	for (;;) {
		mkey = hca_mkey_enter(hca, index);
		if (!IS_ERR(mkey))
			return mkey;
		hca_mkey_wait(hca, index);
	}
}

hca_cmd_status hca_cmd_query_mkey(struct hca *hca, const void *in, size_t inlen,
				  void *out, size_t outlen)
{
	bool pg_access = MLX5_GET(query_mkey_in, in, pg_access);
	const size_t list = MLX5_ST_SZ_BYTES(create_mkey_in);
	u16 uid = hca_cmd_uid(in);
	struct hca_mkey *mkey;
	size_t len, i;
	__be64 *mtt;

	if (MLX5_GET(query_mkey_in, in, op_mod))
		return HCA_REFUSE(BAD_OP_ERR, 1);
	if (outlen < HCA_MKEY_HEADER)
		return HCA_REFUSE(BAD_OUTP_LEN_ERR, 2);
	mkey = hca_mkey_enter_wait(hca, MLX5_GET(query_mkey_in, in, mkey_index));
	if (!mkey)
		return HCA_REFUSE(BAD_RES_ERR, 3);
	if (uid && mkey->uid != uid) {
		hca_mkey_leave(hca, mkey);
		return HCA_REFUSE(BAD_RES_ERR, 3);
	}
	memcpy(MLX5_ADDR_OF(query_mkey_out, out, memory_key_mkey_entry), mkey->image,
	       MLX5_ST_SZ_BYTES(mkc));
	if (outlen > list) {
		len = min_t(u64, outlen - list, mkey->xlt.bytes);
		mtt = (void *)((u8 *)out + list);
		hca_xlt_read(&mkey->xlt, 0, mtt, len);
		if (!pg_access && mkey->mkc.mode == MLX5_MKC_ACCESS_MODE_MTT)
			for (i = 0; i < len / sizeof(*mtt); i++)
				mtt[i] &= ~cpu_to_be64(MLX5_EN_RD | MLX5_EN_WR);
	}
	hca_mkey_leave(hca, mkey);
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

	for_each_set_bit(index, hca->mkey_map, 1UL << HCA_LOG_MAX_MKEY) {
		mkey = hca_mkey_lock(hca, index);
		if (mkey)
			hca_mkey_quiesce(hca, mkey, HCA_MKEY_NONE);
		hca_mkey_unlock(hca, index);
		if (mkey)
			hca_mkey_free(hca, index, mkey);
	}
}
