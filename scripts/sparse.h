/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What sparse 0.6.4 does not know, but the headers of Linux 7.3 use.
 * `make lint` includes this first, for sparse only.
 */
#define __typeof_unqual__ __typeof__

/* MODULE_INFO() asserts on the length of a literal */
#define __builtin_strlen(s) (sizeof(s) - 1)
