/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the programs of this folder have in common: they print lines of "METRIC SIZE VALUE",
 * which table.py and plot.py read, and end at the first thing that goes wrong.
 */
#ifndef SELFTESTS_BENCH_BENCH_H
#define SELFTESTS_BENCH_BENCH_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/verbs.h>

static inline void die(const char *what)
{
	perror(what);
	exit(1);
}

/* @status: of a completion, or a negative errno */
static inline void expect_good(int status)
{
	if (!status)
		return;
	fprintf(stderr, "%s: %s\n", program_invocation_short_name,
		status < 0 ? strerror(-status) : ibv_wc_status_str(status));
	exit(1);
}

static inline void result(const char *metric, size_t size, double value)
{
	printf("%s %zu %.4f\n", metric, size, value);
}

#endif
