// SPDX-License-Identifier: GPL-2.0
/*
 * traffic: keeps two queue pairs of one process busy, and stays alive whatever happens
 * to the device. For scripts that take the device away.
 *
 * Prints "running" when work completes, and twice "stopped: " with the result of
 * traffic_run() when it no longer does. After that it
 * goes on posting and ringing until SIGTERM. Status 0 if it came to a SIGTERM, 1 if it
 * could not start.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#include "lib/traffic.h"

static volatile int stop;

static void on_term(int sig)
{
	stop = 1;
}

static void *run_one(void *arg)
{
	return (void *)(long)traffic_run(arg, &stop);
}

int main(void)
{
	struct traffic a, b;
	pthread_t thread[2];

	signal(SIGTERM, on_term);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (traffic_open(&a) || traffic_open(&b) ||
	    traffic_connect(&a, &b.me) || traffic_connect(&b, &a.me))
		return 1;
	pthread_create(&thread[0], NULL, run_one, &a);
	pthread_create(&thread[1], NULL, run_one, &b);
	while (!stop && __atomic_load_n(&a.done, __ATOMIC_RELAXED) < 20)
		usleep(1000);
	puts("running");
	for (int i = 0; i < 2; i++) {
		void *result;

		pthread_join(thread[i], &result);
		printf("stopped: %ld\n", (long)result);
	}
	while (!stop) {
		struct op op = { .opcode = IBV_WR_RDMA_WRITE };

		/* into a device that may not be there any more */
		post(a.qp, &op);
		ibv_req_notify_cq(a.cq, 0);
		drop_wcs(a.cq);
		usleep(500);
	}
	traffic_close(&a);
	traffic_close(&b);
	return 0;
}
