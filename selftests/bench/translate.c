// SPDX-License-Identifier: GPL-2.0
/*
 * translate: what the way from a key to memory costs, by its shape, on softhca only: rxe has
 * no such shapes. Prints lines as bench does, all microseconds of a WRITE of 8 bytes, post to
 * completion:
 *
 *   page_at    anywhere in a region of 16 MiB with MTT pages of SIZE bytes
 *   klm_at     anywhere in a list of SIZE entries; 0 entries: the region itself
 *   depth_at   through SIZE keys on top of each other, each a list of one entry
 *
 * Lists are made by DEVX commands, because a list in a work request cannot be long.
 *
 * Usage: translate [-t MS PER VALUE]
 */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench/bench.h"
#include "lib/rdma.h"
#include "lib/mem.h"
#include "lib/prm.h"

/* A mailbox of DEVX has less than 64 KiB */
#define MAX_ENTRIES	4000u
#define ENTRY		64u		/* bytes that an entry names */
#define MODE_KLM	2
#define REGION		(16ul << 20)

struct klm {
	__be32 bcount;
	__be32 key;
	__be64 va;
};

static unsigned int budget_us = 150000;
static struct pair pair;
static uint32_t pdn;
static char *from, *to;
static struct ibv_mr *from_mr, *to_mr;

/* A key whose @n entries of @bytes each lie in @key, from its address @va on, in reverse order */
static uint32_t klm_key(unsigned int n, uint32_t bytes, uint32_t key, uint64_t va)
{
	static uint32_t in[(DEVX_ST_SZ_BYTES(create_mkey_in) + MAX_ENTRIES * sizeof(struct klm)) / 4];
	uint32_t out[DEVX_ST_SZ_DW(create_mkey_out)] = {};
	struct klm *list = (void *)DEVX_ADDR_OF(create_mkey_in, in, klm_pas_mtt);
	void *mkc = DEVX_ADDR_OF(create_mkey_in, in, memory_key_mkey_entry);
	unsigned int octwords = (n + 3) / 4 * 4;
	static uint8_t variant;

	DEVX_SET(create_mkey_in, in, opcode, MLX5_CMD_OP_CREATE_MKEY);
	DEVX_SET(create_mkey_in, in, translations_octword_actual_size, octwords);
	DEVX_SET(mkc, mkc, access_mode_1_0, MODE_KLM);
	DEVX_SET(mkc, mkc, lr, 1);
	DEVX_SET(mkc, mkc, rw, 1);
	DEVX_SET(mkc, mkc, lw, 1);
	DEVX_SET(mkc, mkc, qpn, 0xffffff);
	DEVX_SET(mkc, mkc, mkey_7_0, ++variant);
	DEVX_SET(mkc, mkc, pd, pdn);
	DEVX_SET64(mkc, mkc, len, (uint64_t)n * bytes);
	DEVX_SET(mkc, mkc, translations_octword_size, octwords);
	for (unsigned int i = 0; i < octwords; i++)
		list[i] = (struct klm){
			.bcount = htobe32(i < n ? bytes : 0),
			.key = htobe32(key),
			.va = htobe64(i < n ? va + (uint64_t)(n - 1 - i) * bytes : 0),
		};
	if (!mlx5dv_devx_obj_create(pair.r.ctx, in,
				    DEVX_ST_SZ_BYTES(create_mkey_in) + octwords * sizeof(struct klm),
				    out, sizeof(out)))
		die("CREATE_MKEY");
	return DEVX_GET(create_mkey_out, out, mkey_index) << 8 | variant;
}

/* WRITEs to @steps places from @base on, @step bytes apart, in an order that no cache likes */
static void access_at(const char *metric, unsigned int what, uint32_t rkey, uint64_t base,
		      unsigned int steps, unsigned int step)
{
	struct op op = {
		.opcode = IBV_WR_RDMA_WRITE, .len = 8, .laddr = (uintptr_t)from,
		.lkey = from_mr->lkey, .rkey = rkey,
	};
	uint64_t start = now_us(), us;
	unsigned long n = 0;

	do {
		op.raddr = base + n * 7919 % steps * step;
		expect_good(run(pair.a, pair.acq, &op, NULL));
		n++;
		us = now_us() - start;
	} while (us < budget_us);
	result(metric, what, (double)us / n);
}

static void pages_of(size_t page_size, char *area)
{
	struct ibv_mr *mr;

	if (!area)
		die("memory");
	memset(area, 1, REGION);
	mr = ibv_reg_mr(pair.pd, area, REGION, ACCESS_ALL);
	if (!mr)
		die("ibv_reg_mr");
	access_at("page_at", page_size, mr->rkey, (uintptr_t)area, REGION / PAGE, PAGE);
	ibv_dereg_mr(mr);
}

int main(int argc, char **argv)
{
	static const unsigned int entries[] = { 1, 16, 256, MAX_ENTRIES };
	struct mlx5dv_pd dv_pd;
	struct mlx5dv_obj obj = { .pd = { .out = &dv_pd } };
	struct qp_cfg cfg = {};
	uint32_t key;

	if (getopt(argc, argv, "t:") == 't')
		budget_us = atoi(optarg) * 1000;
	errno = -pair_open(&pair, &cfg);
	if (errno)
		die(dev_name());
	obj.pd.in = pair.pd;
	errno = mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD);
	if (errno)
		die("mlx5dv_init_obj");
	pdn = dv_pd.pdn;
	from = mem_pages(PAGE);
	to = mem_pages(MAX_ENTRIES * ENTRY);
	if (!from || !to)
		die("memory");
	from_mr = ibv_reg_mr(pair.pd, from, PAGE, ACCESS_ALL);
	to_mr = ibv_reg_mr(pair.pd, to, MAX_ENTRIES * ENTRY, ACCESS_ALL);
	if (!from_mr || !to_mr)
		die("ibv_reg_mr");

	pages_of(PAGE, mem_scattered(REGION));
	pages_of(HUGE, mem_thp(REGION));
	access_at("klm_at", 0, to_mr->rkey, (uintptr_t)to, MAX_ENTRIES, ENTRY);
	for (int i = 0; i < 4; i++)
		access_at("klm_at", entries[i],
			  klm_key(entries[i], ENTRY, to_mr->rkey, (uintptr_t)to), 0, entries[i], ENTRY);
	/* What each key above the region adds, up to the depth that is advertised */
	key = klm_key(1, MAX_ENTRIES * ENTRY, to_mr->rkey, (uintptr_t)to);
	for (int depth = 1; depth <= 4; depth++) {
		access_at("depth_at", depth, key, 0, MAX_ENTRIES, ENTRY);
		if (depth < 4)
			key = klm_key(1, MAX_ENTRIES * ENTRY, key, 0);
	}
	return 0;
}
