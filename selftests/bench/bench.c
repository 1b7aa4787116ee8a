// SPDX-License-Identifier: GPL-2.0
/*
 * bench: what one device does in one process, through libibverbs only. Prints lines of
 * "METRIC SIZE VALUE", which table.py makes a table of:
 *
 *   write, read, send              MB/s at SIZE bytes (10^6 bytes a second)
 *   write_4k                       likewise, no page of the memory being followed by its neighbour
 *   write_lat, read_lat, send_lat, fa_lat    microseconds from post to completion
 *   write_rate, fa_rate            operations a second of 8 bytes, queue kept full
 *   reg, dereg                     microseconds for a region of SIZE bytes
 *   bind_1, unbind_1               microseconds from post to completion: a window of type 1
 *   bind_2, local_inv              likewise type 2, and its invalidation
 *   send_inv                       likewise by a message, until the receiver has its completion
 *   reg_at, access_at              microseconds with SIZE keys alive
 *   odp_minor, odp_advised, odp_pinned    microseconds of a WRITE of SIZE bytes: to on-demand
 *                                  memory that the process has and the device has not; to such
 *                                  that it was advised of; to pinned memory
 *   odp_advise                     microseconds of that advice
 *   odp_warm, odp_none             MB/s of WRITEs of SIZE bytes between on-demand memory that is
 *                                  all there; between pinned memory, by turns
 *
 * Usage: bench [-d DEVICE] [-l (up to 16 MiB)] [-t MS PER VALUE] [METRIC...]
 * METRIC "windows" is all about windows, "keys" is reg_at and access_at, "odp" is all of it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "bench/bench.h"
#include "lib/rdma.h"
#include "lib/mem.h"
#include "lib/mw.h"

#define AREA		(16ul << 20)
#define REG_AREA	(16ul << 20)
/*
 * An emulator finds its TLB entry by the last bits of the page number. Where both buffers begin alike, each access
 * drives out what the next one needs; where they overlap in that sense, each message what the next one needs. As far
 * apart as this, two messages of up to 1 MiB have nothing in common.
 */
#define APART		(256 * PAGE)
#define SMALL_AREA	(1ul << 20)
#define DEPTH		32
#define REGIONS		4

static unsigned int budget_us = 150000;
static struct pair pair;
static char *from, *to;
static struct ibv_mr *from_mr, *to_mr;
static char **wanted;

static bool want(const char *metric)
{
	bool any = false;

	for (char **name = wanted; *name; name++) {
		any = true;
		if (!strcmp(*name, metric))
			return true;
	}
	return !any;
}

static struct op op_of(enum ibv_wr_opcode opcode, size_t size)
{
	return (struct op){
		.opcode = opcode, .len = size, .flags = IBV_SEND_SIGNALED,
		.laddr = (uintptr_t)from, .lkey = from_mr->lkey,
		.raddr = (uintptr_t)to, .rkey = to_mr->rkey, .cmp_add = 1,
	};
}

static void give_recv(size_t size)
{
	expect_good(post_recv(pair.b, 0, (uintptr_t)to, size, to_mr->lkey));
}

/* The queue is kept full; one completion for @every requests */
static double stream(enum ibv_wr_opcode opcode, size_t size, int every)
{
	bool two_sided = opcode == IBV_WR_SEND;
	struct op op = op_of(opcode, size);
	unsigned long posted = 0, done = 0;
	uint64_t start, us;
	struct ibv_wc wc;
	int n;

	for (int i = 0; two_sided && i < 2 * DEPTH; i++)
		give_recv(size);
	start = now_us();
	for (;;) {
		while (posted - done < DEPTH) {
			op.flags = (posted + 1) % every ? 0 :
				   IBV_SEND_SIGNALED;
			expect_good(post(pair.a, &op));
			posted++;
		}
		n = ibv_poll_cq(pair.acq, 1, &wc);
		if (n < 0)
			die("ibv_poll_cq");
		if (n) {
			expect_good(wc.status);
			done += every;
		}
		while (two_sided && ibv_poll_cq(pair.bcq, 1, &wc) > 0) {
			expect_good(wc.status);
			give_recv(size);
		}
		us = now_us() - start;
		if (us >= budget_us && done >= 2 * DEPTH)
			break;
		if (us >= 20 * budget_us && done)
			break;		/* slow: what we have must do */
	}
	while (done < posted / every * every) {
		expect_good(wait_good(pair.acq, 1));
		done += every;
	}
	us = now_us() - start;
	if (pair_reconnect(&pair))
		die("reconnect");
	return (double)done / us;
}

static void bandwidth(const char *metric, enum ibv_wr_opcode opcode,
		      size_t size)
{
	result(metric, size, stream(opcode, size, 1) * size);
}

static void latency(const char *metric, enum ibv_wr_opcode opcode)
{
	struct op op = op_of(opcode, 8);
	uint64_t start, us;
	unsigned long n = 0;

	if (!want(metric))
		return;
	start = now_us();
	do {
		if (opcode == IBV_WR_SEND)
			give_recv(8);
		expect_good(run(pair.a, pair.acq, &op, NULL));
		if (opcode == IBV_WR_SEND)
			expect_good(wait_good(pair.bcq, 1));
		n++;
		us = now_us() - start;
	} while (us < budget_us);
	result(metric, 8, (double)us / n);
}

static void rate(const char *metric, enum ibv_wr_opcode opcode)
{
	if (want(metric))
		result(metric, 8, stream(opcode, 8, 8) * 1e6);
}

/* Some regions at a time: the common pool of free keys gives its memory back when it is empty */
static void registration(const char *reg_metric, const char *dereg_metric, char *area, size_t size)
{
	uint64_t reg = 0, dereg = 0, start;
	struct ibv_mr *mr[REGIONS];
	unsigned long n = 0;

	do {
		start = now_us();
		for (int i = 0; i < REGIONS; i++) {
			mr[i] = ibv_reg_mr(pair.pd, area, size, ACCESS_ALL);
			if (!mr[i])
				die("ibv_reg_mr");
		}
		reg += now_us() - start;
		start = now_us();
		for (int i = 0; i < REGIONS; i++)
			if (ibv_dereg_mr(mr[i]))
				die("ibv_dereg_mr");
		dereg += now_us() - start;
		n += REGIONS;
	} while (reg + dereg < budget_us);
	result(reg_metric, size, (double)reg / n);
	result(dereg_metric, size, (double)dereg / n);
}

/* What a region costs depends on how many pieces its memory is in: none follows another, or all do */
static void registrations(void)
{
	char *scattered = mem_scattered(REG_AREA), *large = mem_thp(REG_AREA);

	if (!scattered || !large)
		die("memory");
	for (size_t size = PAGE; size <= REG_AREA; size *= 16)
		registration("reg", "dereg", scattered, size);
	for (size_t size = 1 << 20; size <= REG_AREA; size *= 16)
		registration("reg_large", "dereg_large", large, size);
	munmap(scattered, REG_AREA);
	munmap(large, REG_AREA);
}

/* Binding a window and taking it away, over and over */
static void windows_1(void)
{
	struct window there = { .mr = to_mr, .addr = (uintptr_t)to, .len = PAGE,
				.access = IBV_ACCESS_REMOTE_WRITE };
	struct window nowhere = { .mr = to_mr };
	struct ibv_mw *mw = ibv_alloc_mw(pair.pd, IBV_MW_TYPE_1);
	uint64_t bind = 0, unbind = 0, start;
	unsigned long n = 0;

	if (!mw)
		die("ibv_alloc_mw");
	do {
		start = now_us();
		for (int i = 0; i < 16; i++)
			expect_good(mw_bind_1(pair.a, pair.acq, mw, &there, NULL));
		bind += now_us() - start;
		start = now_us();
		for (int i = 0; i < 16; i++)
			expect_good(mw_bind_1(pair.a, pair.acq, mw, &nowhere, NULL));
		unbind += now_us() - start;
		n += 16;
	} while (bind + unbind < budget_us);
	result("bind_1", PAGE, (double)bind / n);
	result("unbind_1", PAGE, (double)unbind / n);
	ibv_dealloc_mw(mw);
}

/* Until B has its completion: that is the one that promises something */
static void send_inv(uint32_t rkey)
{
	struct op op = op_of(IBV_WR_SEND_WITH_INV, 0);

	give_recv(8);
	op.len = 0;
	op.imm = rkey;
	op.flags = 0;
	expect_good(post(pair.a, &op));
	expect_good(wait_good(pair.bcq, 1));
}

static void windows_2(bool remote)
{
	struct window there = { .mr = to_mr, .addr = (uintptr_t)to, .len = PAGE,
				.access = IBV_ACCESS_REMOTE_WRITE };
	struct ibv_mw *mw = ibv_alloc_mw(pair.pd, IBV_MW_TYPE_2);
	uint64_t bind = 0, inv = 0, start;
	unsigned long n = 0;
	uint32_t rkey;

	if (!mw)
		die("ibv_alloc_mw");
	rkey = mw->rkey;
	do {
		rkey = ibv_inc_rkey(rkey);
		start = now_us();
		expect_good(mw_bind_2(pair.b, pair.bcq, mw, &there, rkey, NULL));
		/* rxe knows the window by this the next time */
		mw->rkey = rkey;
		bind += now_us() - start;
		start = now_us();
		if (remote)
			send_inv(rkey);
		else
			expect_good(local_inv(pair.b, pair.bcq, rkey, NULL));
		inv += now_us() - start;
		n++;
		/* unsignalled requests would fill the queue */
		if (remote && n % DEPTH == 0)
			expect_good(run(pair.a, pair.acq, &(struct op){
				.opcode = IBV_WR_RDMA_WRITE }, NULL));
	} while (bind + inv < budget_us);
	if (!remote)
		result("bind_2", PAGE, (double)bind / n);
	result(remote ? "send_inv" : "local_inv", PAGE, (double)inv / n);
	ibv_dealloc_mw(mw);
}

/* Registration and access while that many keys live, at keys spread over all of them */
static void live_keys(int keys)
{
	/* Where access n goes, in that order: what is measured is not our own look-up */
	struct { uint64_t addr; uint32_t rkey; } *target = calloc(keys, sizeof(*target));
	struct ibv_mr **mr = calloc(keys, sizeof(*mr)), *one;
	struct op op = op_of(IBV_WR_RDMA_WRITE, 8);
	uint64_t start, us, reg = 0;
	unsigned long n = 0;

	if (!mr || !target)
		die("calloc");
	for (int i = 0; i < keys; i++) {
		mr[i] = ibv_reg_mr(pair.pd, to + i % 100 * PAGE, PAGE,
				   ACCESS_ALL);
		if (!mr[i])
			die("ibv_reg_mr");
	}
	do {
		start = now_us();
		one = ibv_reg_mr(pair.pd, to, PAGE, ACCESS_ALL);
		if (!one)
			die("ibv_reg_mr");
		reg += now_us() - start;
		ibv_dereg_mr(one);
		n++;
	} while (reg < budget_us);
	result("reg_at", keys, (double)reg / n);
	for (int i = 0; i < keys; i++) {
		one = mr[i * 7919ul % keys];
		target[i].addr = (uintptr_t)one->addr;
		target[i].rkey = one->rkey;
	}
	n = 0;
	start = now_us();
	do {
		op.raddr = target[n % keys].addr;
		op.rkey = target[n % keys].rkey;
		expect_good(run(pair.a, pair.acq, &op, NULL));
		n++;
		us = now_us() - start;
	} while (us < budget_us);
	result("access_at", keys, (double)us / n);
	for (int i = 0; i < keys; i++)
		ibv_dereg_mr(mr[i]);
	free(target);
	free(mr);
}

/* The device loses what the process keeps: new pages, which only the process has touched */
static void odp_forget(char *p, size_t size)
{
	if (madvise(p, size, MADV_DONTNEED))
		die("madvise");
	for (size_t at = 0; at < size; at += PAGE)
		p[at] = 1;
}

static double odp_write_us(struct ibv_mr *mr, char *p, size_t size)
{
	struct op op = op_of(IBV_WR_RDMA_WRITE, size);
	uint64_t start;

	op.raddr = (uintptr_t)p;
	op.rkey = mr->rkey;
	start = now_us();
	expect_good(run(pair.a, pair.acq, &op, NULL));
	return now_us() - start;
}

static void odp_cost(struct ibv_mr *mr, char *p, size_t size)
{
	double minor = 0, advise = 0, advised = 0, pinned = 0;
	struct ibv_sge sge = { .addr = (uintptr_t)p, .length = size, .lkey = mr->lkey };
	bool advice = true;
	uint64_t start;
	unsigned long n = 0;

	do {
		odp_forget(p, size);
		minor += odp_write_us(mr, p, size);
		odp_forget(p, size);
		start = now_us();
		advice = advice && !ibv_advise_mr(pair.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
						  IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);
		advise += now_us() - start;
		advised += odp_write_us(mr, p, size);
		pinned += odp_write_us(to_mr, to, size);
		n++;
	} while (minor + advise + advised < budget_us || n < 20);
	result("odp_minor", size, minor / n);
	if (advice) {
		result("odp_advise", size, advise / n);
		result("odp_advised", size, advised / n);
	}
	result("odp_pinned", size, pinned / n);
}

/* @len bytes from @mem at each end */
static void buffers_open(void *(*mem)(size_t len), size_t len)
{
	from = mem(len);
	to = mem(len + HUGE);
	if (!from || !to)
		die("memory");
	to += APART;
	fill(from, len, 1);
	fill(to, len, 2);
	from_mr = ibv_reg_mr(pair.pd, from, len, ACCESS_ALL);
	to_mr = ibv_reg_mr(pair.pd, to, len, ACCESS_ALL | IBV_ACCESS_MW_BIND);
	if (!from_mr || !to_mr)
		die("ibv_reg_mr");
}

static void buffers_close(size_t len)
{
	ibv_dereg_mr(from_mr);
	ibv_dereg_mr(to_mr);
	munmap(from, len);
	munmap(to - APART, len + HUGE);
}

/* In large pages: as memcpy() has them, the memory is in one piece */
static void bandwidths(int last)
{
	static const size_t sizes[] = { 64, 1024, 4096, 65536, 1 << 20,
					16 << 20 };

	buffers_open(mem_thp, AREA);
	for (int i = 0; i < last; i++) {
		if (want("write"))
			bandwidth("write", IBV_WR_RDMA_WRITE, sizes[i]);
		if (want("read"))
			bandwidth("read", IBV_WR_RDMA_READ, sizes[i]);
		if (want("send"))
			bandwidth("send", IBV_WR_SEND, sizes[i]);
	}
	buffers_close(AREA);
}

/* Every page a translation and a piece of its own */
static void small_pages(void)
{
	buffers_open(mem_scattered, SMALL_AREA);
	for (size_t size = SMALL_AREA / 16; size <= SMALL_AREA; size *= 16)
		bandwidth("write_4k", IBV_WR_RDMA_WRITE, size);
	buffers_close(SMALL_AREA);
}

/* As bandwidth(), once with both ends on demand, once with both pinned */
static void odp_speed(struct ibv_mr *odp_from, struct ibv_mr *odp_to, size_t size)
{
	struct ibv_mr *pinned_from = from_mr, *pinned_to = to_mr;

	from_mr = odp_from;
	to_mr = odp_to;
	stream(IBV_WR_RDMA_WRITE, size, 1);
	for (int turn = 0; turn < 4; turn++) {
		from_mr = odp_from;
		to_mr = odp_to;
		bandwidth("odp_warm", IBV_WR_RDMA_WRITE, size);
		from_mr = pinned_from;
		to_mr = pinned_to;
		bandwidth("odp_none", IBV_WR_RDMA_WRITE, size);
	}
}

static void on_demand(char *area)
{
	const int access = ACCESS_ALL | IBV_ACCESS_ON_DEMAND;
	struct ibv_device_attr_ex attr;
	struct ibv_mr *mr, *odp_from, *odp_to;

	if (ibv_query_device_ex(pair.r.ctx, NULL, &attr) ||
	    !(attr.odp_caps.per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_WRITE))
		return;
	mr = ibv_reg_mr(pair.pd, area, 1 << 20, access);
	odp_from = ibv_reg_mr(pair.pd, from, AREA, access);
	odp_to = ibv_reg_mr(pair.pd, to, AREA, access);
	if (!mr || !odp_from || !odp_to)
		die("ibv_reg_mr on demand");
	odp_cost(mr, area, PAGE);
	odp_cost(mr, area, 16 * PAGE);
	odp_speed(odp_from, odp_to, 65536);
	odp_speed(odp_from, odp_to, 1 << 20);
	ibv_dereg_mr(mr);
	ibv_dereg_mr(odp_from);
	ibv_dereg_mr(odp_to);
}

int main(int argc, char **argv)
{
	static const int keys[] = { 100, 10000, 100000 };
	struct qp_cfg cfg = { .send_wr = 2 * DEPTH, .recv_wr = 2 * DEPTH,
			      .timeout = 18 };
	char *area;
	int opt, last = 5;

	while ((opt = getopt(argc, argv, "d:lt:")) != -1) {
		switch (opt) {
		case 'd':
			setenv("IBV_TEST_DEV", optarg, 1);
			break;
		case 'l':
			last = 6;
			break;
		case 't':
			budget_us = atoi(optarg) * 1000;
			break;
		default:
			fprintf(stderr, "usage: bench [-d DEVICE] [-l] [-t MS] [METRIC...]\n");
			return 2;
		}
	}
	wanted = argv + optind;
	setvbuf(stdout, NULL, _IOLBF, 0);
	errno = -pair_open(&pair, &cfg);
	if (errno)
		die(dev_name());
	if (want("write") || want("read") || want("send"))
		bandwidths(last);
	if (want("write_4k"))
		small_pages();
	buffers_open(mem_pages, AREA);
	area = mem_pages(REG_AREA);
	if (!area)
		die("memory");
	memset(area, 1, REG_AREA);
	latency("write_lat", IBV_WR_RDMA_WRITE);
	latency("read_lat", IBV_WR_RDMA_READ);
	latency("send_lat", IBV_WR_SEND);
	latency("fa_lat", IBV_WR_ATOMIC_FETCH_AND_ADD);
	rate("write_rate", IBV_WR_RDMA_WRITE);
	rate("fa_rate", IBV_WR_ATOMIC_FETCH_AND_ADD);
	if (want("reg"))
		registrations();
	if (want("windows")) {
		windows_1();
		windows_2(false);
		windows_2(true);
	}
	if (want("odp"))
		on_demand(area);
	for (int i = 0; want("keys") && i < 3; i++)
		live_keys(keys[i]);
	return 0;
}
