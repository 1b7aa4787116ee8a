// SPDX-License-Identifier: GPL-2.0
/*
 * Moving the bytes of one chunk.
 *
 * Invariants:
 *  - Called while the access counts of both sides are held.
 *  - Bytes become visible in address order as far as the last 8 of the chunk are
 *    concerned: they are stored after all others, so a program that polls the end
 *    of its buffer, as programs for real HCAs do, finds the rest in place.
 */
#include <linux/minmax.h>
#include <linux/string.h>

#include "engine.h"

static void hca_move(void *to, const void *from, u32 len)
{
	if (!to)
		return;		/* dump_fill_mkey drops what is written */
	if (!from)
		memset(to, 0, len);	/* and reads as zeros */
	else if (unlikely(to < from + len && from < to + len))
		memmove(to, from, len);	/* a program may send to where it sends from */
	else
		memcpy(to, from, len);
}

/* One piece, its last bytes by one store behind all others. */
static void hca_move_last(void *to, const void *from, u32 len)
{
	u64 last = 0;

	if (!to || len < sizeof(last)) {
		hca_move(to, from, len);
		return;
	}
	len -= sizeof(last);
	/* Fetched first: the pieces may overlap. */
	if (from)
		memcpy(&last, (const u8 *)from + len, sizeof(last));
	if (len)
		hca_move(to, from, len);
	/* A poller that sees the last bytes sees the rest. */
	smp_wmb();
	memcpy((u8 *)to + len, &last, sizeof(last));
}

/**
 * hca_copy() - copy from one resolved list to another
 * @hca: the HCA
 * @dst: destination, at least @len bytes
 * @src: source, at least @len bytes
 * @len: bytes
 *
 * Context: process; does not sleep.
 */
void hca_copy(struct hca *hca, const struct hca_sgl *dst, const struct hca_sgl *src, u32 len)
{
	const struct hca_seg *d = dst->seg, *s = src->seg;
	u32 d_at = 0, s_at = 0, left = len;

	while (left) {
		u32 n = min3(d->len - d_at, s->len - s_at, left);
		u8 *to = d->p ? (u8 *)d->p + d_at : NULL;
		const u8 *from = s->p ? (const u8 *)s->p + s_at : NULL;

		if (n == left)
			hca_move_last(to, from, n);
		else
			hca_move(to, from, n);
		left -= n;
		d_at += n;
		s_at += n;
		if (d_at == d->len) {
			d++;
			d_at = 0;
		}
		if (s_at == s->len) {
			s++;
			s_at = 0;
		}
	}
	hca_count_add(hca, HCA_CNT_BYTES_COPIED, len);
}

/**
 * hca_copy_out() - fetch a value from a resolved list
 * @to: private memory
 * @src: source, at least @len bytes
 * @len: bytes
 *
 * Context: any.
 */
void hca_copy_out(void *to, const struct hca_sgl *src, u32 len)
{
	const struct hca_seg *s = src->seg;

	while (len) {
		u32 n = min(s->len, len);

		hca_move(to, s->p, n);
		to = (u8 *)to + n;
		len -= n;
		s++;
	}
}

/**
 * hca_copy_in() - store a private value into a resolved list
 * @dst: destination, at least @len bytes
 * @from: the value
 * @len: bytes
 *
 * Context: any.
 */
void hca_copy_in(const struct hca_sgl *dst, const void *from, u32 len)
{
	const struct hca_seg *d = dst->seg;

	while (len) {
		u32 n = min(d->len, len);

		hca_move(d->p, from, n);
		from = (const u8 *)from + n;
		len -= n;
		d++;
	}
}
