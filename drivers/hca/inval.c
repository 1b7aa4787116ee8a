// SPDX-License-Identifier: GPL-2.0
/*
 * Remote invalidation: SEND_INVAL withdraws a key of the receiver (HM 9.2). Local
 * invalidation is a UMR (umr.c).
 *
 * Invariant: what a key keeps when it is withdrawn is everything but its being in
 * use: index, table, PD, range and rights stay (HM 9.1).
 */
#include <linux/errno.h>

#include "engine.h"

/* The checks of HM 9.2 in their order; 0 if the key may be withdrawn. */
static u8 hca_invalidate_check(const struct hca_mkey *mkey, u32 key, u32 pd, u32 qpn)
{
	const struct hca_mkc *mkc = &mkey->mkc;

	if (mkc->rights & HCA_MKC_FREE || mkc->variant != (key & 0xff))
		return HCA_VS_INVAL_KEY;
	if (mkc->pd != pd)
		return HCA_VS_INVAL_PD;
	if (!MLX5_GET(mkc, mkey->image, en_rinval))
		return HCA_VS_INVAL_RIGHT;
	if (mkc->qpn != 0xffffff && mkc->qpn != qpn)
		return HCA_VS_INVAL_QPN;
	return HCA_VS_NONE;
}

/**
 * hca_invalidate() - withdraw the key that a SEND_INVAL names
 * @hca: the HCA
 * @key: the full key
 * @pd: protection domain of the receiving queue pair
 * @qpn: its number
 *
 * On success nothing is reading or writing through the key any more (HM 11.2).
 *
 * Context: process, waits for running chunks; the caller is counted in no key.
 * Return: 0, or the vendor syndrome of the check that refused.
 */
u8 hca_invalidate(struct hca *hca, u32 key, u32 pd, u32 qpn)
{
	struct hca_mkey *mkey;
	u8 syndrome;

	mkey = hca_mkey_lock(hca, key >> 8);
	syndrome = mkey ? hca_invalidate_check(mkey, key, pd, qpn) : HCA_VS_INVAL_KEY;
	if (!syndrome) {
		hca_mkey_freeze(hca, mkey);
		MLX5_SET(mkc, mkey->image, free, 1);
		hca_mkc_decode(mkey->image, &mkey->mkc);
		hca_mkey_thaw(hca, mkey);
	}
	hca_mkey_unlock(hca, key >> 8);
	return syndrome;
}
