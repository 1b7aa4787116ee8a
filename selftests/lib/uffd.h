/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pages that are missing until the test says otherwise: userfaultfd. Whoever touches
 * one waits, be it the CPU or a page fault of the HCA.
 */
#ifndef SELFTESTS_LIB_UFFD_H
#define SELFTESTS_LIB_UFFD_H

#include <stddef.h>
#include <stdint.h>

/* A descriptor, or a negative errno */
int uffd_open(void *addr, size_t len);
/* Address of the next page that is waited for, within @ms; 0 at the deadline */
uint64_t uffd_next(int fd, int ms);
/* Gives the page at @addr these bytes and wakes who waits for it: 0 or negative */
int uffd_give(int fd, uint64_t addr, const void *page);

#endif
