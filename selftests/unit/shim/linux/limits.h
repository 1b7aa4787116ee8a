/* SPDX-License-Identifier: GPL-2.0 */
/* glibc wants its own; the kernel's maxima are in kernel.h. */
#include_next <linux/limits.h>
