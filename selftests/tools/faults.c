// SPDX-License-Identifier: GPL-2.0
/*
 * faults: makes accesses of every kind to pages that are missing, and gives none of them
 * until it is told: for scripts that take the device away from under open page faults.
 *
 * Prints "ready" when all of them wait, and "stopped: -19" when the kernel says that the
 * device is gone. SIGUSR1 makes it give the pages, SIGTERM ends it, with status 0.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#include "lib/access.h"
#include "lib/mem.h"
#include "lib/uffd.h"

#define ODP	(ACCESS_ALL | IBV_ACCESS_ON_DEMAND)

static struct pair p[ACCESSES];
static struct other o[ACCESSES];
static volatile sig_atomic_t give, stop;

static void on_signal(int sig)
{
	if (sig == SIGUSR1)
		give = 1;
	else
		stop = 1;
}

int main(void)
{
	char *buf = mem_pages(ACCESSES * PAGE), page[PAGE] = {};
	struct ibv_async_event event;
	struct ibv_mr *mr;
	int fd;

	signal(SIGUSR1, on_signal);
	signal(SIGTERM, on_signal);
	setvbuf(stdout, NULL, _IOLBF, 0);
	fd = buf ? uffd_open(buf, ACCESSES * PAGE) : -1;
	if (fd < 0)
		return 1;
	for (int i = 0; i < ACCESSES; i++) {
		if (pair_open(&p[i], NULL) || other_open(&o[i], &p[i], PAGE))
			return 1;
		/* implicit ones, too */
		mr = i & 1 ? ibv_reg_mr(p[i].pd, NULL, SIZE_MAX, ODP) :
			     ibv_reg_mr(p[i].pd, buf + i * PAGE, PAGE, ODP);
		if (!mr || access_post(&o[i], i, mr->lkey, (uintptr_t)buf + i * PAGE, 8) ||
		    uffd_next(fd, WAIT_MS) != (uintptr_t)buf + i * PAGE)
			return 1;
	}
	puts("ready");
	while (!stop) {
		if (wait_async(&p[0].r, &event, 10) == 1 &&
		    event.event_type == IBV_EVENT_DEVICE_FATAL)
			printf("stopped: %d\n", -ENODEV);
		if (!give)
			continue;
		for (int i = 0; i < ACCESSES; i++)
			uffd_give(fd, (uintptr_t)buf + i * PAGE, page);
		give = 0;
	}
	return 0;
}
