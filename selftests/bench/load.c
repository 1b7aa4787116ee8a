// SPDX-License-Identifier: GPL-2.0
/*
 * load: what one device does with many queue pairs at once, and what that costs the machine.
 * Prints lines as bench does:
 *
 *   rate_qps     WRITEs of 64 bytes a second with SIZE queue pairs, every queue kept full
 *   list_qps     likewise, posted 16 at a time
 *   bw_qps       MB/s in WRITEs of 64 KiB with SIZE queue pairs
 *   cpu          CPU seconds of the whole machine for a GB of WRITEs of SIZE bytes
 *   doorbells    of 64-byte WRITEs with SIZE queue pairs: doorbells a message (softhca only)
 *   traps        faults a doorbell, likewise
 *   idle         percent of one CPU that SIZE connected, idle queue pairs keep busy
 *
 * Usage: load [-d DEVICE] [-t MS PER VALUE]
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench/bench.h"
#include "lib/rdma.h"
#include "lib/mem.h"

#define DEPTH		32
#define LIST		16
#define EVERY		16
#define MAX_QPS		16
#define AREA		(1ul << 20)
#define IDLE_US		2000000

static unsigned int budget_us = 150000;
static struct rdma r;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *from_qp[MAX_QPS], *to_qp[MAX_QPS];
static char *from, *to;
static struct ibv_mr *from_mr, *to_mr;

static void qps_open(void)
{
	struct qp_cfg cfg = { .send_wr = 2 * DEPTH, .timeout = 18 };

	for (int i = 0; i < MAX_QPS; i++) {
		from_qp[i] = qp_create(pd, cq, cq, &cfg);
		to_qp[i] = qp_create(pd, cq, cq, &cfg);
		if (!from_qp[i] || !to_qp[i])
			die("ibv_create_qp");
		expect_good(qp_connect(&r, from_qp[i], &cfg, to_qp[i]->qp_num));
		expect_good(qp_connect(&r, to_qp[i], &cfg, from_qp[i]->qp_num));
	}
}

/* What all CPUs did except waiting, in microseconds since boot */
static double busy_us(void)
{
	unsigned long long user, nice, system, idle, wait, irq, softirq;
	FILE *file = fopen("/proc/stat", "r");

	if (!file || fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system,
			    &idle, &wait, &irq, &softirq) != 7)
		die("/proc/stat");
	fclose(file);
	return (user + nice + system + irq + softirq) * 1e6 / sysconf(_SC_CLK_TCK);
}

/* @n WRITEs of @size bytes by one call; the completion of the last stands for all */
static void post_list(int qp, int n, uint32_t size, bool signaled)
{
	struct ibv_sge sge = { .addr = (uintptr_t)from, .length = size, .lkey = from_mr->lkey };
	struct ibv_send_wr wr[LIST] = {}, *bad;

	for (int i = 0; i < n; i++) {
		wr[i].wr_id = qp;
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
		wr[i].opcode = IBV_WR_RDMA_WRITE;
		wr[i].sg_list = &sge;
		wr[i].num_sge = 1;
		wr[i].wr.rdma.remote_addr = (uintptr_t)to;
		wr[i].wr.rdma.rkey = to_mr->rkey;
	}
	wr[n - 1].send_flags = signaled ? IBV_SEND_SIGNALED : 0;
	expect_good(-ibv_post_send(from_qp[qp], wr, &bad));
}

/*
 * Operations, and how long they took, with @n queues that are kept full, posted @list at a
 * time. There is one completion for each EVERY requests.
 */
static unsigned long stream(int n, int list, uint32_t size, uint64_t *us)
{
	unsigned long posted[MAX_QPS] = {}, done[MAX_QPS] = {}, all = 0;
	bool more = true, open = true;
	uint64_t start = now_us();
	struct ibv_wc wc[DEPTH];
	int found;

	while (open) {
		open = false;
		for (int i = 0; i < n; i++) {
			while (more && posted[i] - done[i] <= DEPTH - list) {
				posted[i] += list;
				post_list(i, list, size, !(posted[i] % EVERY));
			}
			open |= posted[i] / EVERY * EVERY > done[i];
		}
		found = ibv_poll_cq(cq, DEPTH, wc);
		if (found < 0)
			die("ibv_poll_cq");
		for (int i = 0; i < found; i++) {
			expect_good(wc[i].status);
			done[wc[i].wr_id] += EVERY;
			all += EVERY;
		}
		*us = now_us() - start;
		more = *us < budget_us;
	}
	return all;
}

static void by_queue_pairs(int n)
{
	long long doorbells = hw_counter("doorbell_sq"), traps = hw_counter("doorbell_trap");
	unsigned long ops;
	uint64_t us;

	ops = stream(n, 1, 64, &us);
	result("rate_qps", n, ops * 1e6 / us);
	if (r.softhca) {
		doorbells = hw_counter("doorbell_sq") - doorbells;
		traps = hw_counter("doorbell_trap") - traps;
		result("doorbells", n, (double)doorbells / ops);
		result("traps", n, (double)traps / doorbells);
	}
	ops = stream(n, LIST, 64, &us);
	result("list_qps", n, ops * 1e6 / us);
	ops = stream(n, 1, 65536, &us);
	result("bw_qps", n, ops * 65536.0 / us);
}

static void cost(uint32_t size)
{
	double busy = busy_us();
	unsigned long ops;
	uint64_t us;

	ops = stream(1, 1, size, &us);
	/* a microsecond for a byte is a thousand seconds for a GB */
	result("cpu", size, (busy_us() - busy) / ((double)ops * size) * 1e3);
}

int main(int argc, char **argv)
{
	double busy, quiet;
	int opt;

	while ((opt = getopt(argc, argv, "d:t:")) != -1) {
		switch (opt) {
		case 'd':
			setenv("IBV_TEST_DEV", optarg, 1);
			break;
		case 't':
			budget_us = atoi(optarg) * 1000;
			break;
		default:
			fprintf(stderr, "usage: load [-d DEVICE] [-t MS]\n");
			return 2;
		}
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	errno = -rdma_open(&r);
	if (errno)
		die(dev_name());
	pd = ibv_alloc_pd(r.ctx);
	cq = ibv_create_cq(r.ctx, MAX_QPS * DEPTH, NULL, NULL, 0);
	from = mem_pages(AREA);
	to = mem_pages(AREA);
	if (!pd || !cq || !from || !to)
		die("resources");
	from_mr = ibv_reg_mr(pd, from, AREA, ACCESS_ALL);
	to_mr = ibv_reg_mr(pd, to, AREA, ACCESS_ALL);
	if (!from_mr || !to_mr)
		die("ibv_reg_mr");

	busy = busy_us();
	usleep(IDLE_US);
	quiet = busy_us() - busy;
	qps_open();
	expect_good(run(from_qp[0], cq, &(struct op){ .opcode = IBV_WR_RDMA_WRITE }, NULL));
	busy = busy_us();
	usleep(IDLE_US);
	busy = busy_us() - busy;
	result("idle", MAX_QPS, busy > quiet ? (busy - quiet) * 100 / IDLE_US : 0);

	for (int n = 1; n <= MAX_QPS; n *= 4)
		by_queue_pairs(n);
	cost(65536);
	cost(AREA);
	return 0;
}
