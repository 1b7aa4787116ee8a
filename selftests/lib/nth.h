/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Allocations that fail, by the kernel's fail-nth or by softhca_nth, and two ways to tell
 * whether what was refused has left something behind.
 *
 * Functions return 0 or a negative errno if nothing else is said.
 */
#ifndef SELFTESTS_LIB_NTH_H
#define SELFTESTS_LIB_NTH_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Once, before all: NULL, or why no allocation can be made to fail here. Without a fail-nth
 * of the kernel, softhca_nth makes those of softhca fail.
 */
const char *nth_setup(void);
void nth_end(void);
/* Whether those of the whole kernel can */
bool nth_of_kernel(void);
/* The calling task is the one that will meet failures. */
int nth_open(void);
/* The @n-th allocation of the kernel for this task fails, once; n counts from 1 */
int nth_arm(unsigned int n);
/* No more failures: 1 if the one that was ordered has happened, 0 if not */
int nth_disarm(void);

/* What the kernel's books say about RDMA objects, of all devices and programs */
struct books {
	size_t len;
	char bytes[16384];
};

int books_read(struct books *books);
bool books_same(const struct books *a, const struct books *b);

/**
 * struct ledger - objects of the HCA by kind: created less destroyed
 */
#define LEDGER_KINDS	10
struct ledger {
	int objects[LEDGER_KINDS];
};

/* From here on; needs tracefs */
int ledger_begin(struct ledger *ledger);
/* Adds what has happened since the last call */
int ledger_update(struct ledger *ledger);
/* The kind of which objects were left, or NULL */
const char *ledger_surplus(const struct ledger *ledger);
void ledger_end(void);

/* rdma link add @name type softhca netdev @netdev, and rdma link del @name */
int link_add(const char *name, const char *netdev);
int link_del(const char *name);

/*
 * A device of the caller's own, which rdma_open() opens from now on: nobody else uses its
 * HCA, and it may be taken away. Does nothing where IBV_TEST_DEV names another.
 */
int own_device_add(void);
void own_device_del(void);

#endif
