// SPDX-License-Identifier: GPL-2.0
/*
 * softhca-inspect: one memory region, opened up. Sends a stream of RDMA WRITEs and looks
 * at every byte that arrived. Then registers scattered memory, does an
 * RDMA WRITE into it between two queue pairs and compares every byte; then shows what
 * the HCA knows of the region (the memory key context, the translation table) and the
 * way of that WRITE from the rkey to the bytes in memory, as the HCA itself walks it.
 *
 * Usage: softhca-inspect [-d DEVICE] [-l LENGTH] [-o OFFSET IN PAGE] [-H (huge pages)]
 * Status 0 only if all bytes arrived, and where the walk says that they did.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "lib/rdma.h"
#include "lib/mem.h"
#include "lib/look.h"

#define IOVA_BASE	0x10000000ul	/* unlike any address of the process */
#define SHOWN_ENTRIES	8
#define MAX_STEPS	64

struct region {
	char *map, *start;
	size_t map_len, len;
	uint64_t iova;
	struct ibv_mr *mr;
};

static void die(const char *what, int err)
{
	fprintf(stderr, "softhca-inspect: %s: %s\n", what, strerror(abs(err)));
	exit(1);
}

static void title(const char *text)
{
	printf("\n%s\n", text);
	for (size_t i = strlen(text); i--;)
		putchar('-');
	putchar('\n');
}

static void region_make(struct region *g, struct pair *p, size_t len,
			size_t offset, bool huge)
{
	size_t unit = huge ? HUGE : PAGE;

	g->len = len;
	g->map_len = (offset + len + unit - 1) & -unit;
	g->map = huge ? mem_huge(g->map_len) : mem_scattered(g->map_len);
	if (!g->map)
		die(huge ? "no huge pages" : "no memory", ENOMEM);
	memset(g->map, 0, g->map_len);
	g->start = g->map + offset;
	g->iova = IOVA_BASE + offset;
	g->mr = ibv_reg_mr_iova(p->pd, g->start, len, g->iova, ACCESS_ALL);
	if (!g->mr)
		die("ibv_reg_mr_iova", errno);
}

/* Fill the region by RDMA WRITE, and compare */
static void verified_write(struct pair *p, struct region *g)
{
	char *from = mem_pages(g->len);
	struct ibv_mr *mr;
	long long bad;
	int status;

	if (!from)
		die("no memory", ENOMEM);
	mr = ibv_reg_mr(p->pd, from, g->len, 0);
	if (!mr)
		die("ibv_reg_mr", errno);
	fill(from, g->len, 1);
	status = run(p->a, p->acq, &(struct op){
		.opcode = IBV_WR_RDMA_WRITE, .len = g->len,
		.laddr = (uintptr_t)from, .lkey = mr->lkey,
		.raddr = g->iova, .rkey = g->mr->rkey,
	}, NULL);
	if (status < 0)
		die("RDMA WRITE", status);
	if (status) {
		fprintf(stderr, "softhca-inspect: RDMA WRITE: %s\n",
			ibv_wc_status_str(status));
		exit(1);
	}
	bad = differs(g->start, g->len, 1);
	if (bad >= 0) {
		fprintf(stderr, "softhca-inspect: byte %lld is wrong\n", bad);
		exit(1);
	}
	printf("RDMA WRITE of %zu bytes, QP %u -> QP %u: every byte is where it belongs\n",
	       g->len, p->a->qp_num, p->b->qp_num);
	ibv_dereg_mr(mr);
}

/* perftest does not look at the bytes: we do, at 16 MiB of them */
static void verified_stream(struct pair *p)
{
	enum { SIZE = 65536, COUNT = 256, DEPTH = 32 };
	char *from = mem_pages(SIZE * COUNT), *to = mem_pages(SIZE * COUNT);
	struct ibv_mr *from_mr, *to_mr;
	uint64_t us;
	int status = 0;

	if (!from || !to)
		die("no memory", ENOMEM);
	fill(from, SIZE * COUNT, 2);
	memset(to, 0, SIZE * COUNT);
	from_mr = ibv_reg_mr(p->pd, from, SIZE * COUNT, 0);
	to_mr = ibv_reg_mr(p->pd, to, SIZE * COUNT, ACCESS_ALL);
	if (!from_mr || !to_mr)
		die("ibv_reg_mr", errno);
	us = now_us();
	for (size_t i = 0; i < COUNT && !status; i++) {
		status = post(p->a, &(struct op){
			.opcode = IBV_WR_RDMA_WRITE, .len = SIZE,
			.flags = IBV_SEND_SIGNALED,
			.laddr = (uintptr_t)from + i * SIZE,
			.lkey = from_mr->lkey,
			.raddr = (uintptr_t)to + i * SIZE,
			.rkey = to_mr->rkey,
		});
		if (!status && i >= DEPTH)
			status = wait_good(p->acq, 1);
	}
	if (!status)
		status = wait_good(p->acq, DEPTH);
	us = now_us() - us;
	if (status || differs(to, SIZE * COUNT, 2) >= 0) {
		fprintf(stderr, "softhca-inspect: a stream of writes went wrong (%d)\n",
			status);
		exit(1);
	}
	printf("%d RDMA WRITEs of 64 KiB: 16 MiB at %" PRIu64
	       " MB/s, every byte compared\n", COUNT,
	       (uint64_t)SIZE * COUNT / (us ?: 1));
	ibv_dereg_mr(from_mr);
	ibv_dereg_mr(to_mr);
	munmap(from, SIZE * COUNT);
	munmap(to, SIZE * COUNT);
}

static const char *mode_name(unsigned int mode)
{
	static const char *const names[] = {
		"PA: addresses are DMA addresses", "MTT: a table of pages",
		"KLMS: a list of keys and lengths",
		"KSM: blocks of one size, each with a key",
		"SW_ICM", "MEMIC", "CROSSING",
	};

	return mode < sizeof(names) / sizeof(*names) ? names[mode] : "?";
}

static void show_size(char *text, size_t size, unsigned int log)
{
	static const char units[] = "BKMG";

	snprintf(text, size, "%u %s%s", 1u << log % 10,
		 log < 10 ? "" : (char[]){ units[log / 10], 'i', 0 }, "B");
}

static void row(const char *where, const char *name, uint64_t value,
		const char *format, ...)
{
	va_list args;

	printf("  %-16s %-26s 0x%-16" PRIx64 " ", where, name, value);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

/* Names and places are those of mlx5_ifc_mkc_bits */
static void show_mkc(const struct look *look)
{
	const uint8_t *mkc = look->mkc;
	uint32_t w0 = mkc_word(mkc, 0), w3 = mkc_word(mkc, 0xc);
	uint32_t w14 = mkc_word(mkc, 0x38), w15 = mkc_word(mkc, 0x3c);
	uint64_t handle = (uint64_t)(mkc_word(mkc, 0x2c) & 0xffff) << 32 |
			  mkc_word(mkc, 0x30);
	char size[32];

	for (int line = 0; line < 4; line++) {
		printf("  %02xh ", line * 16);
		for (int word = 0; word < 4; word++)
			printf(" %08x", mkc_word(mkc, line * 16 + word * 4));
		putchar('\n');
	}
	show_size(size, sizeof(size), look->log_page_size);
	printf("\n  word [bits]      field                      value\n");
	row("00h [30]", "free", look->free,
	    look->free ? "not in use" : "in use");
	row("00h [28:26,9:8]", "access_mode", look->access_mode, "%s",
	    mode_name(look->access_mode));
	row("00h [18]", "relaxed_ordering_write", w0 >> 18 & 1, "");
	row("00h [16]", "small_fence_on_rdma_read..", w0 >> 16 & 1, "");
	row("00h [15]", "umr_en", look->umr_en,
	    look->umr_en ? "a UMR may change this key" : "");
	row("00h [14]", "a", w0 >> 14 & 1, "remote atomics");
	row("00h [13]", "rw", w0 >> 13 & 1, "remote write");
	row("00h [12]", "rr", w0 >> 12 & 1, "remote read");
	row("00h [11]", "lw", w0 >> 11 & 1, "local write");
	row("00h [10]", "lr", w0 >> 10 & 1, "local read");
	row("04h [31:8]", "qpn", look->qpn, look->qpn == 0xffffff ?
	    "every QP of the PD" : "this QP only");
	row("04h [7:0]", "mkey_7_0", look->variant,
	    "the variant: low byte of the key");
	row("0ch [31]", "length64", w3 >> 31, "");
	row("0ch [30]", "bsf_en", w3 >> 30 & 1, "");
	row("0ch [24]", "en_rinval", w3 >> 24 & 1, "remote invalidation");
	row("0ch [23:0]", "pd", look->pd, "protection domain");
	row("10h,14h", "start_addr", look->start, "first IOVA");
	row("18h,1ch", "len", look->len, "%" PRIu64 " bytes", look->len);
	row("20h [31:0]", "bsf_octword_size", mkc_word(mkc, 0x20), "");
	row("2ch,30h", "(mtt_handle)", handle, "the table, in the HCA's ICM");
	row("34h [31:0]", "translations_octword_size", look->octwords,
	    "room for %u MTT entries", look->octwords * 2);
	row("38h [6]", "relaxed_ordering_read", w14 >> 6 & 1, "");
	row("38h [5:0]", "log_page_size", look->log_page_size,
	    "pages of %s", size);
	row("3ch [26]", "pcie_tph_en", w15 >> 26 & 1, "");
}

static uint64_t page_mask(const struct look *look)
{
	return (1ull << look->log_page_size) - 1;
}

static uint64_t pages_of(const struct look *look)
{
	return ((look->start & page_mask(look)) + look->len +
		page_mask(look)) >> look->log_page_size;
}

static void show_mtt(const struct look *look)
{
	uint64_t pages = pages_of(look);

	for (uint64_t i = 0; i < pages && i < look->entries; i++) {
		uint64_t entry = look->mtt[i];

		if (i == SHOWN_ENTRIES && pages > SHOWN_ENTRIES + 1) {
			printf("  ... %" PRIu64 " more\n", pages - i);
			break;
		}
		printf("  [%2" PRIu64 "]  0x%016" PRIx64 "   DMA page 0x%" PRIx64
		       ", %s%s\n", i, entry, entry & ~page_mask(look),
		       entry & 1 ? "read" : "-", entry & 2 ? ", write" : "");
	}
}

/* What the CPU's page table says of @at: a physical address, or 0 */
static uint64_t physical(const void *at)
{
	uint64_t entry = 0, page = (uintptr_t)at / PAGE;
	int fd = open("/proc/self/pagemap", O_RDONLY);

	if (fd >= 0) {
		if (pread(fd, &entry, 8, page * 8) != 8)
			entry = 0;
		close(fd);
	}
	entry &= (1ull << 55) - 1;
	return entry ? entry * PAGE + (uintptr_t)at % PAGE : 0;
}

/* The arithmetic of HM 4.5, for the reader to follow */
static void show_step(const struct look *look, struct region *g,
		      const struct shca_explain_step *step, unsigned int number,
		      int *wrong)
{
	uint64_t d = step->va - step->start;
	uint64_t u = (step->start & page_mask(look)) + d;
	const char *va = g->start + (step->va - g->iova);
	uint64_t cpu = physical(va);

	printf("\n  %u. address 0x%" PRIx64 ", %" PRIu64 " bytes, key 0x%x\n",
	       number, (uint64_t)step->va, (uint64_t)step->length, step->key);
	printf("     distance from start_addr   d = 0x%" PRIx64 "\n", d);
	printf("     distance in the table      u = (start_addr mod 2^%u) + d = 0x%"
	       PRIx64 "\n", step->log_page_size, u);
	printf("     entry                      u / 2^%u = %" PRIu64
	       "   holds 0x%016" PRIx64 "\n", step->log_page_size, (uint64_t)step->index,
	       (uint64_t)step->entry[0]);
	printf("     place in the page          u mod 2^%u = 0x%" PRIx64 "\n",
	       step->log_page_size, u & page_mask(look));
	printf("     DMA address                0x%" PRIx64, (uint64_t)step->dma);
	if (!cpu)
		printf("\n");
	else if (cpu == step->dma)
		printf("   = what the CPU's page table says of %p\n", va);
	else
		printf("   (physical address of %p: 0x%" PRIx64 ")\n", va, cpu);
	printf("     first byte there           0x%02x\n", (uint8_t)*va);
	if (step->index != u >> step->log_page_size ||
	    (uint64_t)step->dma != ((step->entry[0] & ~page_mask(look)) |
				    (u & page_mask(look))) ||
	    step->entry[0] != look->mtt[step->index])
		++*wrong;
}

static int walk(struct pair *p, struct region *g, uint64_t va, uint64_t len,
		struct shca_explain_step *steps, uint8_t *refused_by)
{
	struct shca_explain_req req = {
		.key = g->mr->rkey, .va = va, .length = len,
		.access = SHCA_EXPLAIN_WRITE, .remote = 1,
	};
	int n = look_walk(p->b, &req, steps, MAX_STEPS, refused_by);

	if (n < 0)
		die("SHCA_METHOD_EXPLAIN", n);
	return n;
}

static int show_walk(struct pair *p, struct region *g, const struct look *look)
{
	struct shca_explain_step steps[MAX_STEPS];
	uint64_t edge = page_mask(look) + 1 - (g->iova & page_mask(look));
	uint64_t len = g->len < 1024 ? g->len : 1024, va = g->iova;
	uint64_t sum = 0;
	uint8_t refused;
	int n, wrong = 0;

	/* over the edge of a page, where the region has one */
	if (edge > len / 2 && edge + len / 2 <= g->len)
		va += edge - len / 2;
	printf("  QP %u is asked to write %" PRIu64 " bytes to address 0x%" PRIx64
	       ", rkey 0x%08x.\n", p->b->qp_num, len, va, g->mr->rkey);
	printf("  The key: index 0x%06x names the MKC, variant 0x%02x is that of the MKC.\n",
	       g->mr->rkey >> 8, g->mr->rkey & 0xff);
	printf("  Checked in this order: MKC exists, not free, variant, PD, QP number, rw, bounds.\n");
	n = walk(p, g, va, len, steps, &refused);
	for (int i = 0; i < n; i++) {
		show_step(look, g, &steps[i], i + 1, &wrong);
		sum += steps[i].length;
	}
	printf("\n  %s: %" PRIu64 " bytes in %d piece%s\n",
	       refused ? "REFUSED" : "allowed", sum, n, n == 1 ? "" : "s");
	if (refused || sum != len || wrong) {
		printf("  This is not the walk of that request (syndrome 0x%02x, %d wrong steps).\n",
		       refused, wrong);
		return 1;
	}

	n = walk(p, g, g->iova + g->len - 8, 16, steps, &refused);
	printf("  The same for 16 bytes from 8 before the end on: refused, vendor syndrome 0x%02x (bounds).\n",
	       refused);
	return refused != 0xa5;
}

/* The same request for real: it costs the queue pair its life */
static int refused_write(struct pair *p, struct region *g)
{
	struct ibv_wc wc;
	int status = run(p->a, p->acq, &(struct op){
		.opcode = IBV_WR_RDMA_WRITE, .len = g->len < 16 ? g->len : 16,
		.laddr = g->iova, .lkey = g->mr->lkey,
		.raddr = g->iova + g->len - 8, .rkey = g->mr->rkey,
	}, &wc);

	if (status < 0)
		die("RDMA WRITE", status);
	printf("  Done all the same: %s, vendor syndrome 0x%02x (the peer refused it)\n",
	       ibv_wc_status_str(status), wc.vendor_err);
	return status != IBV_WC_REM_ACCESS_ERR;
}

int main(int argc, char **argv)
{
	size_t len = 0x2800, offset = 0xe00;
	struct region g = {};
	bool huge = false;
	struct look look;
	struct pair p;
	int opt, err;

	while ((opt = getopt(argc, argv, "d:l:o:H")) != -1) {
		switch (opt) {
		case 'd':
			setenv("IBV_TEST_DEV", optarg, 1);
			break;
		case 'l':
			len = strtoul(optarg, NULL, 0);
			break;
		case 'o':
			offset = strtoul(optarg, NULL, 0);
			break;
		case 'H':
			huge = true;
			break;
		default:
			fprintf(stderr, "usage: softhca-inspect [-d DEVICE] [-l LENGTH] [-o OFFSET] [-H]\n");
			return 2;
		}
	}
	if (!len || len > 1ul << 30 || offset >= PAGE) {
		fprintf(stderr, "softhca-inspect: 1 byte to 1 GiB, at an offset below 4096\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	err = pair_open(&p, NULL);
	if (err)
		die(dev_name(), err);
	verified_stream(&p);
	region_make(&g, &p, len, offset, huge);

	title("The memory region");
	printf("program's address 0x%" PRIxPTR ", %zu bytes; registered at IOVA 0x%" PRIx64
	       "\nlkey = rkey = 0x%08x: index 0x%06x, variant 0x%02x\n",
	       (uintptr_t)g.start, g.len, g.iova, g.mr->rkey, g.mr->rkey >> 8,
	       g.mr->rkey & 0xff);
	verified_write(&p, &g);

	err = look_mr(g.mr, &look);
	if (err)
		die("SHCA_METHOD_QUERY_MKEY", err);
	title("Its memory key context (MKC), the 64 bytes in the HCA");
	show_mkc(&look);
	title("Its translation table (MTT)");
	show_mtt(&look);
	title("The way of an RDMA WRITE");
	err = show_walk(&p, &g, &look);
	if (g.len > 8)
		err |= refused_write(&p, &g);

	ibv_dereg_mr(g.mr);
	pair_close(&p);
	return err;
}
