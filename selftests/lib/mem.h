/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory for the tests: of a known page size and a known lack of contiguity, and
 * with contents that tell where a byte came from.
 */
#ifndef SELFTESTS_LIB_MEM_H
#define SELFTESTS_LIB_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE		4096ul
#define HUGE		(2ul << 20)

/* All return page-aligned memory, or NULL; free with munmap() */
void *mem_pages(size_t len);
/* No page is followed by its neighbour in physical memory (only root can be sure) */
void *mem_scattered(size_t len);
/* Frame numbers of the pages at @p; false without the right to know them */
bool mem_frames(const void *p, size_t pages, uint64_t *pfn);
/* VmPin of this process: what is registered */
long pinned_kib(void);
/* hugetlb pages of 2 MiB; NULL if the machine has none left */
void *mem_huge(size_t len);
/* Transparent huge pages, 2 MiB aligned; NULL if the kernel gave small ones */
void *mem_thp(size_t len);

/* Every 8-byte word depends on @seed and on its distance from @buf */
void fill(void *buf, size_t len, uint64_t seed);
/* Offset of the first byte that is not as fill() would leave it, or -1 */
long long differs(const void *buf, size_t len, uint64_t seed);
/* Same for a part: @buf holds bytes @at .. @at + @len of a filled buffer */
long long differs_at(const void *buf, size_t len, uint64_t seed, uint64_t at);
bool all_bytes(const void *buf, size_t len, uint8_t value);

#endif
