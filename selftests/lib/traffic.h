/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Endless mixed traffic between two queue pairs: writes, reads, sends and atomics of
 * 8 bytes to 1 MiB from both sides at once, for tests that take something away.
 */
#ifndef SELFTESTS_LIB_TRAFFIC_H
#define SELFTESTS_LIB_TRAFFIC_H

#include "rdma.h"

struct traffic_facts {
	uint32_t qpn, rkey;
	uint64_t addr;
};

struct traffic {
	struct rdma r;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *buf;
	struct traffic_facts me, peer;
	unsigned long done;	/* completions so far */
};

int traffic_open(struct traffic *t);
int traffic_connect(struct traffic *t, const struct traffic_facts *peer);

/**
 * traffic_run() - keep the queue full
 * @t: connected
 * @stop: ends it when it becomes non-zero
 *
 * Return: 0 when stopped; the status of the first bad completion; or a negative errno
 * of a call that failed, -ENODEV after IBV_EVENT_DEVICE_FATAL, -ETIMEDOUT if nothing
 * completed for long.
 */
int traffic_run(struct traffic *t, const volatile int *stop);

void traffic_close(struct traffic *t);

#endif
