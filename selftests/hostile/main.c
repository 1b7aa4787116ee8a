// SPDX-License-Identifier: GPL-2.0
/*
 * hostile [--seed N] [--seconds N] [--processes N]: see hostile.h.
 *
 * Prints what was tried and what came of it, as name=value, and "finding: ..." with
 * status 1 if there was one. Status 2: it could not be tried.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "hostile.h"

/* Nothing moves for so long: a standstill. A loaded machine must not look like one. */
#define STANDSTILL_S	60

/* A life ends by itself sooner; one in so many is ended from outside */
#define KILL_EVERY_MS	700

struct shared *shared;

void finding(const char *fmt, ...)
{
	va_list ap;

	if (__atomic_exchange_n(&shared->found, 1, __ATOMIC_ACQ_REL))
		return;
	va_start(ap, fmt);
	vsnprintf(shared->finding, sizeof(shared->finding), fmt, ap);
	va_end(ap);
}

static void show_stack(int pid)
{
	char path[64], line[256];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stack", pid);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file))
		printf("# %s", line);
	if (file)
		fclose(file);
}

static int start(void (*fn)(unsigned int, uint64_t, unsigned int),
		 unsigned int index, uint64_t seed, unsigned int life)
{
	int pid;

	fflush(stdout);
	pid = fork();
	if (pid)
		return pid;
	/* nobody outlives this program */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fn(index, seed, life);
	_exit(0);
}

static void be_oracle(unsigned int index, uint64_t seed, unsigned int life)
{
	oracle_run();
}

struct run {
	uint64_t seed;
	unsigned int seconds, processes;
	int oracle, pid[MAX_ATTACKERS];
	unsigned int life[MAX_ATTACKERS];
	uint64_t beats[MAX_ATTACKERS + 1], since[MAX_ATTACKERS + 1];
};

static void renew(struct run *run, unsigned int i)
{
	struct tally *t = &shared->tally[i];

	t->lives++;
	run->pid[i] = start(attacker_run, i, run->seed, run->life[i]++);
	t->pid = run->pid[i];
	run->since[i] = now_us();
}

/* A process that has ended: the oracle may not, an attacker is followed by the next life */
static void reap(struct run *run)
{
	int pid, status;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == run->oracle) {
			run->oracle = 0;
			if (!shared->stop)
				finding("the oracle died, status %#x", status);
			continue;
		}
		for (unsigned int i = 0; i < run->processes; i++) {
			if (run->pid[i] != pid)
				continue;
			run->pid[i] = 0;
			if (!shared->stop && !shared->found)
				renew(run, i);
		}
	}
}

/* Has counter @i moved within the time that it has? */
static bool moves(struct run *run, unsigned int i, uint64_t beats)
{
	if (run->beats[i] != beats) {
		run->beats[i] = beats;
		run->since[i] = now_us();
	}
	return now_us() - run->since[i] < STANDSTILL_S * 1000000ull;
}

static void watch(struct run *run)
{
	uint64_t end = now_us() + run->seconds * 1000000ull, kill_at = 0;
	struct rng rng;

	rng_seed(&rng, run->seed, ~0ull, 0);
	while (now_us() < end && !shared->found) {
		usleep(20000);
		reap(run);
		if (!moves(run, MAX_ATTACKERS, shared->oracle_beats)) {
			finding("the oracle stands still");
			show_stack(run->oracle);
		}
		for (unsigned int i = 0; i < run->processes; i++) {
			struct tally *t = &shared->tally[i];

			if (moves(run, i, t->beats))
				continue;
			finding("attacker %u, life %u stands still in %s", i,
				run->life[i] - 1, t->doing);
			show_stack(run->pid[i]);
		}
		if (now_us() > kill_at) {
			unsigned int i = rng_below(&rng, run->processes);

			kill_at = now_us() + KILL_EVERY_MS * 1000;
			if (run->pid[i] && rng_often(&rng, 50))
				kill(run->pid[i], SIGKILL);
		}
	}
}

/* All end within the time of a standstill: who was killed lets go of everything first */
static void end(struct run *run)
{
	uint64_t deadline = now_us() + STANDSTILL_S * 1000000ull;
	bool left = true;

	shared->stop = 1;
	for (unsigned int i = 0; i < run->processes; i++)
		if (run->pid[i])
			kill(run->pid[i], SIGKILL);
	while (left && now_us() < deadline) {
		usleep(10000);
		reap(run);
		left = run->oracle;
		for (unsigned int i = 0; i < run->processes; i++)
			left |= run->pid[i] != 0;
	}
	if (!left)
		return;
	finding("not everybody ends");
	for (unsigned int i = 0; i < run->processes; i++)
		if (run->pid[i])
			show_stack(run->pid[i]);
	if (run->oracle)
		show_stack(run->oracle);
}

static void report(const struct run *run)
{
	struct tally sum = {};
	uint64_t bad = 0;

	for (unsigned int i = 0; i < run->processes; i++) {
		const struct tally *t = &shared->tally[i];

		sum.beats += t->beats;
		sum.posted += t->posted;
		sum.good += t->good;
		sum.calls += t->calls;
		sum.twisted += t->twisted;
		sum.taken += t->taken;
		sum.lives += t->lives;
		for (int v = 0; v < 256; v++)
			sum.vendor[v] += t->vendor[v];
	}
	for (int v = 0; v < 256; v++)
		bad += sum.vendor[v];
	printf("seed=%llu\nlives=%llu\nrounds=%llu\nwqes=%llu\ngood=%llu\n",
	       (unsigned long long)run->seed, (unsigned long long)sum.lives,
	       (unsigned long long)sum.beats, (unsigned long long)sum.posted,
	       (unsigned long long)sum.good);
	printf("bad=%llu\ncalls=%llu\ntwisted=%llu\ntaken=%llu\noracle=%llu\n",
	       (unsigned long long)bad, (unsigned long long)sum.calls,
	       (unsigned long long)sum.twisted, (unsigned long long)sum.taken,
	       (unsigned long long)shared->oracle_beats);
	for (int v = 0; v < 256; v++)
		if (sum.vendor[v])
			printf("vendor_%02x=%llu\n", v,
			       (unsigned long long)sum.vendor[v]);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "seconds", required_argument, NULL, 't' },
		{ "processes", required_argument, NULL, 'p' },
		{ }
	};
	struct run run = { .seed = now_us(), .seconds = 10, .processes = 3 };
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 's')
			run.seed = strtoull(optarg, NULL, 0);
		else if (c == 't')
			run.seconds = atoi(optarg);
		else if (c == 'p')
			run.processes = atoi(optarg);
		else
			return 2;
	}
	if (!run.processes || run.processes > MAX_ATTACKERS)
		return 2;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 2;
	printf("# seed %llu, %u s, %u processes\n",
	       (unsigned long long)run.seed, run.seconds, run.processes);
	run.oracle = start(be_oracle, 0, 0, 0);
	for (int i = 0; i < 3000 && !shared->ready && !shared->found; i++)
		usleep(10000);
	if (!shared->ready) {
		printf("the oracle does not start: %s\n", shared->finding);
		kill(run.oracle, SIGKILL);
		return 2;
	}
	for (unsigned int i = 0; i < run.processes; i++)
		renew(&run, i);
	run.since[MAX_ATTACKERS] = now_us();
	watch(&run);
	end(&run);
	report(&run);
	if (shared->found)
		printf("finding: %s\n", shared->finding);
	return shared->found;
}
