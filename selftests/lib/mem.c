// SPDX-License-Identifier: GPL-2.0
/* See mem.h. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "mem.h"

#define RW	(PROT_READ | PROT_WRITE)

void *mem_pages(size_t len)
{
	void *p = mmap(NULL, len, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	madvise(p, len, MADV_NOHUGEPAGE);
	return p;
}

bool mem_frames(const void *p, size_t pages, uint64_t *pfn)
{
	int fd = open("/proc/self/pagemap", O_RDONLY);
	ssize_t want = pages * 8, got;

	got = pread(fd, pfn, want, (uintptr_t)p / PAGE * 8);
	close(fd);
	for (size_t i = 0; i < pages; i++)
		pfn[i] &= (1ull << 55) - 1;
	return got == want && pfn[0];
}

void *mem_scattered(size_t len)
{
	size_t pages = len / PAGE, file_pages = 4 * pages, used = 0;
	uint64_t *pfn = calloc(file_pages, sizeof(*pfn)), last = 0;
	int fd = memfd_create("scattered", 0);
	char *whole, *p;

	if (!pfn || fd < 0 || ftruncate(fd, file_pages * PAGE))
		return NULL;
	whole = mmap(NULL, file_pages * PAGE, RW, MAP_SHARED, fd, 0);
	p = mmap(NULL, len, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (whole == MAP_FAILED || p == MAP_FAILED)
		return NULL;
	memset(whole, 0, file_pages * PAGE);
	/* without the right to know, backwards must do */
	mem_frames(whole, file_pages, pfn);
	/* of the pages of a larger file, those that do not follow the one before */
	for (size_t i = file_pages; i-- && used < pages; ) {
		if (used && pfn[i] == last + 1)
			continue;
		if (mmap(p + used * PAGE, PAGE, RW, MAP_SHARED | MAP_FIXED, fd,
			 i * PAGE) == MAP_FAILED)
			return NULL;
		last = pfn[i];
		used++;
	}
	munmap(whole, file_pages * PAGE);
	close(fd);
	free(pfn);
	return used == pages ? p : NULL;
}

void *mem_huge(size_t len)
{
	FILE *file = fopen("/proc/sys/vm/nr_hugepages", "r+");
	unsigned long have = 0;
	void *p;

	if (!file)
		return NULL;
	p = mmap(NULL, len, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB,
		 -1, 0);
	if (p == MAP_FAILED) {
		if (fscanf(file, "%lu", &have) != 1)
			have = 0;
		rewind(file);
		fprintf(file, "%lu\n", have + len / HUGE);
		fflush(file);
		p = mmap(NULL, len, RW,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	}
	fclose(file);
	return p == MAP_FAILED ? NULL : p;
}

long pinned_kib(void)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[128];
	long kib = -1;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "VmPin: %ld", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib;
}

static size_t huge_kib(const void *at)
{
	unsigned long start, end, kib = 0;
	bool inside = false;
	FILE *file = fopen("/proc/self/smaps", "r");
	char line[256];

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			inside = start <= (unsigned long)at &&
				 (unsigned long)at < end;
		else if (inside &&
			 sscanf(line, "AnonHugePages: %lu", &kib) == 1)
			break;
	}
	if (file)
		fclose(file);
	return kib;
}

void *mem_thp(size_t len)
{
	FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r+");
	char *p, *aligned, modes[64] = "";

	if (file) {
		if (fgets(modes, sizeof(modes), file) && strstr(modes, "[never]")) {
			rewind(file);
			fputs("madvise", file);
		}
		fclose(file);
	}
	p = mmap(NULL, len + HUGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	aligned = (char *)(((unsigned long)p + HUGE - 1) & ~(HUGE - 1));
	munmap(p, aligned - p);
	munmap(aligned + len, p + HUGE - aligned);
	madvise(aligned, len, MADV_HUGEPAGE);
	memset(aligned, 1, len);
	return huge_kib(aligned) >= len / 1024 ? aligned : NULL;
}

static uint64_t word_at(uint64_t seed, uint64_t index)
{
	uint64_t x = (index + 1) * 0x9e3779b97f4a7c15ull ^
		     seed * 0xd1342543de82ef95ull;

	return x ^ x >> 29;
}

void fill(void *buf, size_t len, uint64_t seed)
{
	uint8_t *to = buf;
	uint64_t word;
	size_t at;

	for (at = 0; at + 8 <= len; at += 8) {
		word = word_at(seed, at / 8);
		memcpy(to + at, &word, 8);
	}
	word = word_at(seed, at / 8);
	memcpy(to + at, &word, len - at);
}

long long differs_at(const void *buf, size_t len, uint64_t seed, uint64_t at)
{
	const uint8_t *from = buf;
	uint64_t word, seen;
	size_t i = 0;

	while (i < len) {
		word = word_at(seed, (at + i) / 8);
		if ((at + i) % 8 == 0 && i + 8 <= len) {
			memcpy(&seen, from + i, 8);
			if (seen == word) {
				i += 8;
				continue;
			}
		}
		if (from[i] != (uint8_t)(word >> (at + i) % 8 * 8))
			return i;
		i++;
	}
	return -1;
}

long long differs(const void *buf, size_t len, uint64_t seed)
{
	return differs_at(buf, len, seed, 0);
}

bool all_bytes(const void *buf, size_t len, uint8_t value)
{
	const uint8_t *p = buf;

	return !len || (*p == value && !memcmp(p, p + 1, len - 1));
}
