/* SPDX-License-Identifier: GPL-2.0 */
/*
 * hostile: programs that do with the device whatever a malicious library could do, and
 * beside them an oracle, whose memory and traffic must not notice.
 *
 * What an attacker gets for it is its own business: errors, a dead queue, a signal. A
 * finding is harm: a byte of the oracle's memory changed or seen by somebody else, an
 * error or an event in its traffic, a standstill of its traffic or of an attacker.
 * Complaints of the kernel are the runner's to see.
 *
 * What an attacker tries follows from its seed alone; what comes of it also from what
 * the others do meanwhile.
 */
#ifndef HOSTILE_H
#define HOSTILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>
#include <infiniband/mlx5dv.h>
#include "lib/rdma.h"
#include "lib/mem.h"
#include "lib/raw.h"

#define MAX_ATTACKERS	8
#define ORACLE_KEYS	4

/*
 * The upper 40 bits of every word that the oracle guards. It is never stored anywhere
 * but in the oracle's memory: an attacker that has such a word has read it there.
 */
static inline uint64_t secret_mark(void)
{
	volatile uint64_t half = 0x1a5e7;

	return (half << 20 | (half ^ 0xfffff)) << 24;
}

#define SECRET_BITS	0xffffffffff000000ull

/**
 * struct facts - what everybody may know of the oracle, to aim at
 */
struct facts {
	uint32_t keys[ORACLE_KEYS];
	uint64_t addr, len;
	uint32_t qpn[2], cqn[2], pdn, umem, uar;
};

/**
 * struct tally - what an attacker came to
 * @beats: rounds, in all its lives
 * @doing: what it is just trying, for the report of a standstill
 * @pid: of its present life
 * @posted: WQEs
 * @good: CQEs that say success
 * @vendor: error CQEs by vendor syndrome
 * @calls: system calls to the device, @twisted: changed on their way, @taken: of those
 *	the ones that the kernel did not refuse
 */
struct tally {
	uint64_t beats, posted, good, calls, twisted, taken, lives;
	uint64_t vendor[256];
	const char *doing;
	int pid;
};

/* Shared by all processes */
struct shared {
	struct facts facts;
	volatile int ready, stop;
	volatile uint64_t oracle_beats;
	volatile int found;
	char finding[512];
	struct tally tally[MAX_ATTACKERS];
};

extern struct shared *shared;

/* The first finding is the one that is reported */
void finding(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* random.c: xorshift, so that a seed means the same everywhere */
struct rng {
	uint64_t s;
};

void rng_seed(struct rng *r, uint64_t a, uint64_t b, uint64_t c);
uint64_t rng_u64(struct rng *r);
/* 0 .. n - 1 */
uint32_t rng_below(struct rng *r, uint32_t n);
/* True in @percent of all cases */
bool rng_often(struct rng *r, unsigned int percent);
/* Numbers at which things break, and any other */
uint64_t rng_odd(struct rng *r);
/* Changes bits, bytes or words of @buf */
void rng_twist(struct rng *r, void *buf, size_t len);

/* oracle.c: returns only when told to stop, or with a finding */
void oracle_run(void);

/* attacker.c */
#define QPS		4
#define KEYS		32
#define CHAIN		6
#define AREA		(64 * PAGE)

/**
 * struct key - a key to aim with
 * @addr: where it begins, for who uses it
 * @len: its length
 * @umr: its list can be changed by a UMR, and it has room for so many octowords
 */
struct key {
	uint32_t key;
	uint64_t addr, len;
	unsigned int umr;
};

/**
 * struct attacker - one life
 * @area: its memory; the first half is registered in many ways, the second holds
 *	lists for UMRs
 * @keys: as many as @nkeys
 * @silent: rounds without a completion since the last one
 */
struct attacker {
	struct rng rng;
	struct tally *tally;
	struct rdma r;
	struct ibv_pd *pd, *other_pd;
	uint32_t pdn;
	struct ibv_cq *scq[QPS], *rcq;
	struct raw_cqe last;
	struct raw rraw;
	struct ibv_qp *qp[QPS];
	struct raw raw[QPS];
	uint16_t rq_pi[QPS];
	unsigned int silent;
	char *area;
	struct key keys[KEYS];
	unsigned int nkeys;
	struct ibv_mr *mr[6];
	struct ibv_mw *mw;
	struct mlx5dv_mkey *mkey[8];
	struct mlx5dv_devx_obj *chain[CHAIN];
	struct ibv_dm *dm;
	struct ibv_mr *dm_mr;
	struct mlx5dv_devx_umem *umem;
	struct mlx5dv_devx_uar *uar;
};

/* Runs a life of attacker @index; does not return */
void attacker_run(unsigned int index, uint64_t seed, unsigned int life)
	__attribute__((noreturn));
const struct key *pick_key(struct attacker *a);

/* wqe.c: posts a few, rings somehow, and looks at what came of it */
void wqe_round(struct attacker *a);
/* Both queues of a pair to RTS again */
int revive(struct attacker *a, unsigned int pair);

/* calls.c */
/* From now on so many of 100 system calls to the device are changed on their way */
void twist_calls(struct attacker *a, unsigned int percent);
/* A key whose list has one entry, which names all of @below */
struct mlx5dv_devx_obj *make_list_key(struct attacker *a, const struct key *below,
				      uint32_t *key);
void verbs_round(struct attacker *a);
void devx_round(struct attacker *a);
void mmap_round(struct attacker *a);

#endif
