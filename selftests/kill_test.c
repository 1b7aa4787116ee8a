// SPDX-License-Identifier: GPL-2.0
/*
 * Proves case 29: when one of two processes is killed in mid-transfer, a hundred times,
 * the other one learns of it by an error and nothing leaks: contexts, domains, queues,
 * regions and pinned pages are back where they were.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "kselftest_harness.h"
#include "lib/traffic.h"

#define KILLS	100

/* Objects of the device, as `rdma resource` lists them */
struct objects {
	int pd, cq, qp, mr, ctx;
};

static int count(const char *kind)
{
	char command[128], line[1024];
	FILE *pipe;
	int n = 0;

	/* queue pairs belong to a link, all else to a device */
	snprintf(command, sizeof(command), "rdma resource show %s %s %s", kind,
		 strcmp(kind, "qp") ? "dev" : "link", dev_name());
	pipe = popen(command, "r");
	while (pipe && fgets(line, sizeof(line), pipe))
		n++;
	return pipe && !pclose(pipe) ? n : -1;
}

static struct objects objects(void)
{
	return (struct objects){
		.pd = count("pd"), .cq = count("cq"),
		.qp = count("qp"), .mr = count("mr"),
		.ctx = count("ctx"),
	};
}

/* Pages that someone has pinned, of the whole machine */
static long pinned_pages(void)
{
	long acquired = 0, released = 0;
	FILE *file = fopen("/proc/sys/vm/stat_refresh", "w");
	char line[128];

	if (file) {
		fputs("1", file);
		fclose(file);
	}
	file = fopen("/proc/vmstat", "r");
	while (file && fgets(line, sizeof(line), file)) {
		sscanf(line, "nr_foll_pin_acquired %ld", &acquired);
		sscanf(line, "nr_foll_pin_released %ld", &released);
	}
	if (file)
		fclose(file);
	return acquired - released;
}

/* One side. Leaves by itself when the other one is gone: 0 if by the right error */
static int side(int fd)
{
	struct traffic_facts peer;
	struct traffic t;
	int never = 0, status;

	signal(SIGPIPE, SIG_IGN);

	if (traffic_open(&t))
		return 10;
	if (swap_facts(fd, &t.me, &peer, sizeof(peer)))
		return 11;
	if (traffic_connect(&t, &peer))
		return 12;
	if (swap_facts(fd, &t.me, &peer, sizeof(peer)))
		return 13;
	status = traffic_run(&t, &never);
	traffic_close(&t);
	switch (status) {
	case IBV_WC_RETRY_EXC_ERR:	/* the peer's queue pair is gone */
	case IBV_WC_REM_ACCESS_ERR:	/* its key went first */
	case IBV_WC_REM_OP_ERR:		/* the key of its receives */
	case IBV_WC_WR_FLUSH_ERR:
		return 0;
	default:
		fprintf(stderr, "# the survivor saw %d\n", status);
		return 14;
	}
}

/* True if the survivor was at work and saw an error */
static bool kill_one(struct __test_metadata *_metadata, int round,
		     unsigned int delay_us)
{
	int fd[2], status;
	pid_t pid[2];

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, fd));
	for (int i = 0; i < 2; i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (!pid[i]) {
			close(fd[!i]);
			_exit(side(fd[i]));
		}
	}
	close(fd[0]);
	close(fd[1]);
	usleep(delay_us);
	EXPECT_EQ(0, kill(pid[round % 2], SIGKILL));
	ASSERT_EQ(pid[round % 2], waitpid(pid[round % 2], &status, 0));
	/* it may have been killed before it knew its peer: then that one says so */
	ASSERT_EQ(pid[!(round % 2)], waitpid(pid[!(round % 2)], &status, 0));
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_TRUE(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 11 ||
		    WEXITSTATUS(status) == 13) {
		TH_LOG("round %d: status %d", round, WEXITSTATUS(status));
	}
	return WEXITSTATUS(status) == 0;
}

FIXTURE(kill) {
	struct objects before;
	long pinned;
};

FIXTURE_SETUP(kill)
{
	unsigned int seed = 1;
	struct objects with;
	struct traffic t;

	/* what is counted later can be seen */
	self->before = objects();
	ASSERT_EQ(0, traffic_open(&t));
	with = objects();
	traffic_close(&t);
	ASSERT_EQ(self->before.pd + 1, with.pd);
	ASSERT_EQ(self->before.cq + 1, with.cq);
	ASSERT_EQ(self->before.qp + 1, with.qp);
	ASSERT_EQ(self->before.mr + 1, with.mr);
	ASSERT_EQ(self->before.ctx + 1, with.ctx);
	/* what the first use allocates for good is no leak */
	for (int round = 0; round < 4; round++)
		kill_one(_metadata, round, 50000 + rand_r(&seed) % 1000);
	self->pinned = pinned_pages();
}

FIXTURE_TEARDOWN(kill)
{
}

TEST_F_TIMEOUT(kill, case_29_in_mid_transfer, 300)
{
	unsigned int seed = 29, spread = 80000;
	struct objects after;
	int at_work = 0;

	/* some are at work, some not even connected; a slow machine needs longer */
	for (int round = 0; at_work < KILLS && round < 5 * KILLS; round++) {
		if (kill_one(_metadata, round, 5000 + rand_r(&seed) % spread))
			at_work++;
		else
			spread += 2000;
		ASSERT_TRUE(__test_passed(_metadata));
	}
	EXPECT_EQ(KILLS, at_work);
	after = objects();
	EXPECT_EQ(self->before.pd, after.pd);
	EXPECT_EQ(self->before.cq, after.cq);
	EXPECT_EQ(self->before.qp, after.qp);
	EXPECT_EQ(self->before.mr, after.mr);
	EXPECT_EQ(self->before.ctx, after.ctx);
	EXPECT_EQ(self->pinned, pinned_pages());
}

TEST_HARNESS_MAIN
