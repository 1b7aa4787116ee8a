// SPDX-License-Identifier: GPL-2.0
/* Randomness from seeds, see hostile.h. */
#include <string.h>
#include "hostile.h"

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

void rng_seed(struct rng *r, uint64_t a, uint64_t b, uint64_t c)
{
	r->s = mix(mix(mix(a) ^ b) ^ c) | 1;
}

uint64_t rng_u64(struct rng *r)
{
	r->s ^= r->s << 13;
	r->s ^= r->s >> 7;
	r->s ^= r->s << 17;
	return mix(r->s);
}

uint32_t rng_below(struct rng *r, uint32_t n)
{
	return (rng_u64(r) >> 32) * n >> 32;
}

bool rng_often(struct rng *r, unsigned int percent)
{
	return rng_below(r, 100) < percent;
}

uint64_t rng_odd(struct rng *r)
{
	switch (rng_below(r, 8)) {
	case 0:
		return 0;
	case 1:
		return ~0ull >> rng_below(r, 64);
	case 2:
		return 1ull << rng_below(r, 64);
	case 3:
		return -(uint64_t)rng_below(r, 4096);
	case 4:
		return rng_below(r, 256);
	case 5:
		return rng_below(r, 64) * PAGE;
	default:
		return rng_u64(r) >> rng_below(r, 64);
	}
}

void rng_twist(struct rng *r, void *buf, size_t len)
{
	uint8_t *b = buf;
	size_t at;
	uint64_t v;

	if (!len)
		return;
	for (unsigned int n = 1 + rng_below(r, 3); n--; ) {
		at = rng_below(r, len);
		switch (rng_below(r, 4)) {
		case 0:
			b[at] ^= 1u << rng_below(r, 8);
			break;
		case 1:
			b[at] = rng_u64(r);
			break;
		case 2:
			v = __builtin_bswap64(rng_odd(r));
			at &= ~7ul;
			memcpy(b + at, &v, len - at < 8 ? len - at : 8);
			break;
		default:
			v = __builtin_bswap32(rng_odd(r));
			at &= ~3ul;
			memcpy(b + at, &v, len - at < 4 ? len - at : 4);
		}
	}
}
