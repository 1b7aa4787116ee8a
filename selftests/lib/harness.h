/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kselftest_harness.h with time limits that grow on a slow kernel: $TEST_SLOW, which
 * run-guest sets, says how many times.
 */
#ifndef SELFTESTS_LIB_HARNESS_H
#define SELFTESTS_LIB_HARNESS_H

#include <stdlib.h>
#include "kselftest_harness.h"

static inline void harness_slow(void)
{
	const char *slow = getenv("TEST_SLOW");
	int times = slow ? atoi(slow) : 1;

	for (struct __fixture_metadata *f = __fixture_list; f; f = f->next)
		for (struct __test_metadata *t = f->tests; t; t = t->next)
			t->timeout *= times > 1 ? times : 1;
}

#undef TEST_HARNESS_MAIN
#define TEST_HARNESS_MAIN					\
	int main(int argc, char **argv)				\
	{							\
		harness_slow();					\
		return test_harness_run(argc, argv);		\
	}

#endif
