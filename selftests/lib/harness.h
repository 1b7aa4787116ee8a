/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kselftest_harness.h with time limits that grow on a slow kernel: $TEST_SLOW, which
 * run-guest sets, says how many times.
 */
#ifndef SELFTESTS_LIB_HARNESS_H
#define SELFTESTS_LIB_HARNESS_H

#include <stdlib.h>
#include "kselftest_harness.h"

/* How many times longer things take here than elsewhere: 1 or more */
static inline int test_slow(void)
{
	const char *slow = getenv("TEST_SLOW");

	return slow && atoi(slow) > 1 ? atoi(slow) : 1;
}

static inline void harness_slow(void)
{
	for (struct __fixture_metadata *f = __fixture_list; f; f = f->next)
		for (struct __test_metadata *t = f->tests; t; t = t->next)
			t->timeout *= test_slow();
}

#undef TEST_HARNESS_MAIN
#define TEST_HARNESS_MAIN					\
	int main(int argc, char **argv)				\
	{							\
		harness_slow();					\
		exit(test_harness_run(argc, argv));		\
	}

#endif
