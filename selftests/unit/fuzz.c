// SPDX-License-Identifier: GPL-2.0
/* The libFuzzer program around one fuzz target, TARGET. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <linux/kernel.h>

#include "fuzz.h"

/* a failed assertion is a finding */
void unit_fail(const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s:%d: ", file, line);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	abort();
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t len);
int LLVMFuzzerTestOneInput(const u8 *data, size_t len)
{
	TARGET(data, len);
	return 0;
}
