/* SPDX-License-Identifier: GPL-2.0 */
/* glibc reaches this file through <errno.h>: hand on to the real one and add the numbers that stay in the kernel. */
#include_next <linux/errno.h>
#ifndef SHIM_LINUX_ERRNO_H
#define SHIM_LINUX_ERRNO_H

#define ERESTARTSYS	512
#define ENOTSUPP	524
#define EIOCBQUEUED	529

#endif
