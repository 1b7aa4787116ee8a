// SPDX-License-Identifier: GPL-2.0
/* The corpus of the fuzz targets (fuzz.h): inputs that once reached something new, and those that once found something. */
#include <dirent.h>
#include <stdio.h>

#include <linux/kernel.h>

#include "fuzz.h"

static void replay(const char *target, void (*fn)(const u8 *data, size_t len))
{
	char path[512];
	struct dirent *e;
	unsigned int n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), CORPUS "/%s", target);
	dir = opendir(path);
	ASSERT(dir);
	while ((e = readdir(dir))) {
		static u8 data[65536];
		size_t len;
		FILE *f;

		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), CORPUS "/%s/%s", target, e->d_name);
		f = fopen(path, "r");
		ASSERT(f);
		len = fread(data, 1, sizeof(data), f);
		fclose(f);
		/* said only if the test fails: which input it was */
		fprintf(stderr, "# %s\n", e->d_name);
		fn(data, len);
		n++;
	}
	closedir(dir);
	world_end();
	ASSERT_GT(n, 10u);
}

TEST_BARE("fuzz", corpus_of_umr)
{
	replay("umr", fuzz_umr);
}

TEST_BARE("fuzz", corpus_of_wqe)
{
	replay("wqe", fuzz_wqe);
}

TEST_BARE("fuzz", corpus_of_cmd)
{
	replay("cmd", fuzz_cmd);
}

TEST_BARE("fuzz", corpus_of_klm)
{
	replay("klm", fuzz_klm);
}
