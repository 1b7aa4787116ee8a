/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fuzz targets: functions that make something of any bytes, and die when the engine does what it must not. They run under
 * libFuzzer (make fuzz) and, over the committed corpus, in the unit tests (t_fuzz.c).
 *
 * What must never happen, in all of them: a sanitizer finding, a complaint of the shim, a hang, a leak; an access to the
 * canary, which lies behind good keys of another domain; an explanation that says other than what a request meets.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include "unit.h"

/* the input, consumed from its beginning; zeros behind its end */
struct in {
	const u8 *p;
	size_t left;
};

static inline u8 in_u8(struct in *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->p++;
}

static inline u16 in_u16(struct in *in) { return in_u8(in) << 8 | in_u8(in); }
static inline u32 in_u32(struct in *in) { return (u32)in_u16(in) << 16 | in_u16(in); }
static inline u64 in_u64(struct in *in) { return (u64)in_u32(in) << 32 | in_u32(in); }
static inline u32 in_below(struct in *in, u32 n) { return (n > 256 ? in_u16(in) : in_u8(in)) % n; }

/* A world to do it in. Its memory is the same for every input, its numbers go on from one to the next. */
#define FUZZ_PAGES	16
struct world {
	struct machine *m;
	struct pair p;
	struct qp *umr;
	struct mem own, canary;
	u32 pd, foreign;	/* the other domain, and its key over the canary */
	bool trusted;		/* the driver's queue has been used: it may do as it likes */
};
struct world *world_get(void);
void world_put(struct world *w);		/* the target has destroyed its keys */
void world_end(void);				/* after the last input: everything is torn down, nothing may be left */
void world_revive(struct world *w);		/* all queues back to RTS, CQs empty */
/* One request with a key under test, explained first: both must agree. @remote: as rkey, by the peer. The code, or 0. */
u8 world_access(struct world *w, u32 key, u64 va, u32 len, enum hca_access access, bool remote);

void fuzz_umr(const u8 *data, size_t len);
void fuzz_klm(const u8 *data, size_t len);
void fuzz_wqe(const u8 *data, size_t len);
void fuzz_cmd(const u8 *data, size_t len);

#endif
