// SPDX-License-Identifier: GPL-2.0
/*
 * The choice of a page size for an MR, HM 5.4. The driver leaves it to ib_umem_find_best_pgsz(), so what is tested is that
 * function as the supported kernels have it, over scatter lists that no test machine has the memory for.
 */
#include <linux/kernel.h>
#include <linux/log2.h>

#include "unit.h"

/* what the function knows of a umem */
struct scatterlist {
	u64 dma;
	unsigned int len;	/* 32 bits, as in the kernel */
};

struct sg_table {
	struct scatterlist *sgl;
	unsigned int nents;
};

struct ib_umem {
	u64 iova, address;
	size_t length;
	bool is_odp;
	struct {
		struct sg_table sgt;
	} sgt_append;
};

struct ib_umem_odp {
	unsigned int page_shift;
};

#define dma_addr_t		u64
#define sg_dma_address(sg)	((sg)->dma)
#define sg_dma_len(sg)		((sg)->len)
#define for_each_sgtable_dma_sg(t, sg, i) \
	for ((i) = 0, (sg) = (t)->sgl; (i) < (int)(t)->nents; (i)++, (sg)++)
#define bits_per(n)		((n) < 2 ? 1 : ilog2(n) + 1)
#define count_trailing_zeros(n)	__builtin_ctzl(n)
#define to_ib_umem_odp(umem)	((struct ib_umem_odp *)(umem))

/* taken from the sources of the kernels when this is built */
#define ib_umem_find_best_pgsz	best_pgsz_7_3
#include "best_pgsz-7.3.h"
#undef ib_umem_find_best_pgsz
#define ib_umem_find_best_pgsz	best_pgsz_6_12
#include "best_pgsz-6.12.h"
#undef ib_umem_find_best_pgsz

#define CAPABILITY	GENMASK(31, 12)		/* HM 2.6: 4 KiB to 2 GiB */
#define GIB		(1ULL << 30)
#define MIB		(1ULL << 20)

struct memory {
	const char *what;
	u64 address, iova, length;
	struct scatterlist piece[16];
	unsigned int pieces;
	u64 page, entries;
};

static void expect_page(const char *kernel, unsigned long (*best)(struct ib_umem *umem, unsigned long bitmap, u64 virt),
			struct memory r)
{
	struct ib_umem umem = { .address = r.address, .length = r.length, .sgt_append.sgt = { r.piece, r.pieces } };
	u64 page = best(&umem, CAPABILITY, r.iova), entries;

	ASSERT_NE(page, 0ull);
	/* blocks of that size that cover [iova, iova + length) */
	entries = (r.iova + r.length - 1) / page - r.iova / page + 1;
	if (page != r.page || entries != r.entries)
		FAIL("%s, linux-%s: %llu entries of %#llx bytes, expected %llu of %#llx", r.what, kernel, entries, page,
		     r.entries, r.page);
}

static void expect(struct memory r)
{
	expect_page("7.3", best_pgsz_7_3, r);
	expect_page("6.12", best_pgsz_6_12, r);
}

/* the list that the kernel makes of @length contiguous bytes: no entry is longer than 32 bits and a page allow */
static struct memory contiguous(u64 dma, u64 length, u64 iova, unsigned int longest)
{
	struct memory r = { .address = iova % PAGE_SIZE, .iova = iova, .length = length };
	u64 left = ALIGN(r.address + length, PAGE_SIZE);

	for (; left; r.pieces++) {
		r.piece[r.pieces] = (struct scatterlist){ dma, min_t(u64, left, longest) };
		dma += r.piece[r.pieces].len;
		left -= r.piece[r.pieces].len;
		ASSERT_LT(r.pieces, ARRAY_SIZE(r.piece));
	}
	return r;
}

TEST_BARE("HM-5.8 case 7", contiguous_memory_in_odd_pieces)
{
	struct memory r = contiguous(0x1000000000, 16 * GIB, 0x7f0000000000, 0xfffff000);

	r.what = "16 GiB in pieces of 4 GiB - 4 KiB";
	ASSERT_EQ(r.pieces, 5u);
	r.page = 2 * GIB;
	r.entries = 8;
	expect(r);

	r = contiguous(0x1000000000, 8 * MIB, 0x7f0000000000, 0x123000);
	r.what = "8 MiB in pieces of 1164 KiB";
	r.page = 8 * MIB;
	r.entries = 1;
	expect(r);

	/* a gap of one page between two of the pieces is a real end */
	r = contiguous(0x1000000000, 8 * MIB, 0x7f0000000000, 0x400000);
	ASSERT_EQ(r.pieces, 2u);
	r.what = "two pieces of 4 MiB, 4 KiB apart";
	r.piece[1].dma += PAGE_SIZE;
	r.page = PAGE_SIZE;
	r.entries = 2048;
	expect(r);
}

/* the table of HM 5.4, row by row */
TEST_BARE("HM-5.4", rows_of_the_table)
{
	struct memory r = { .what = "16 scattered pages", .iova = 0x7f0000010000, .length = 65536, .pieces = 16,
			    .page = PAGE_SIZE, .entries = 16 };

	for (unsigned int i = 0; i < 16; i++)
		r.piece[i] = (struct scatterlist){ 0x100000000 + i * 7 * PAGE_SIZE, PAGE_SIZE };
	expect(r);

	r = (struct memory){ .what = "a pair of huge pages", .iova = 0x7f0000200000, .length = 4 * MIB, .pieces = 2,
			     .piece = { { 0x180000000, 2 * MIB }, { 0x240200000, 2 * MIB } },
			     .page = 2 * MIB, .entries = 2 };
	expect(r);

	r = contiguous(40 * GIB, GIB, 0x40000000, 0xfffff000);
	r.what = "1 GiB, aligned";
	r.page = GIB;
	r.entries = 1;
	expect(r);
}

TEST_BARE("HM-5.5", an_iova_that_is_shifted)
{
	struct memory r = { .what = "a pair of huge pages, iova shifted by 4 KiB", .iova = 0x7f0000201000, .length = 4 * MIB,
			    .pieces = 2, .piece = { { 0x180000000, 2 * MIB }, { 0x240200000, 2 * MIB } },
			    .page = PAGE_SIZE, .entries = 1024 };

	expect(r);
	/* by 64 KiB, in one piece: then pages of 64 KiB */
	r = contiguous(0x180000000, 4 * MIB, 0x7f0000210000, 0xfffff000);
	r.what = "4 MiB, iova shifted by 64 KiB";
	r.page = 65536;
	r.entries = 64;
	expect(r);
}

TEST_BARE("case 4", a_break_in_the_middle)
{
	struct memory r = contiguous(0x180000000, 8 * PAGE_SIZE, 0x7f0000008000, 3 * PAGE_SIZE);

	r.what = "8 pages, a break behind the third";
	r.piece[1].dma += MIB;
	r.piece[2].dma += MIB;
	r.page = PAGE_SIZE;
	r.entries = 8;
	expect(r);

	r = contiguous(0x180000000, 8 * PAGE_SIZE, 0x7f0000008000, 4 * PAGE_SIZE);
	r.what = "8 pages, a break behind the fourth";
	r.piece[1].dma += MIB;
	r.page = 4 * PAGE_SIZE;
	r.entries = 2;
	expect(r);

	/* the first page is used from its middle on: the offset does not count, the page does */
	r = contiguous(0x180000000, 8 * PAGE_SIZE - 0x810, 0x7f0000008810, 4 * PAGE_SIZE);
	r.what = "the same from +0x810 on";
	r.piece[1].dma += MIB;
	r.page = 4 * PAGE_SIZE;
	r.entries = 2;
	expect(r);
}

TEST_BARE("HM-4.3 case 1", an_end_beyond_the_address_space)
{
	struct memory r = contiguous(0x180000000, 2 * PAGE_SIZE, ~0ULL - 0xfff, 0xfffff000);
	struct ib_umem umem = { .length = r.length, .sgt_append.sgt = { r.piece, r.pieces } };

	ASSERT_EQ(best_pgsz_7_3(&umem, CAPABILITY, r.iova), 0ul);
	ASSERT_EQ(best_pgsz_6_12(&umem, CAPABILITY, r.iova), 0ul);
}
