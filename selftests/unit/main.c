// SPDX-License-Identifier: GPL-2.0
/*
 * The runner: KTAP on stdout, one process per test, what a test said on stderr as diagnostics in front of its line.
 *
 *   unit [-l] [-d] [-j n] [pattern...]     -l list, -d in this process (for a debugger), patterns match id or name
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <fnmatch.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/kernel.h>
#include <linux/unaligned.h>

#include "unit.h"

#define TIMEOUT	60	/* seconds per test, for tests that hang */

static struct unit_test *tests, **last = &tests;

/* the sanitizers' own leak check sees only the process's end; shim_check_quiet() sees each test's */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0:abort_on_error=0:allocator_may_return_null=1:detect_stack_use_after_return=0";
}

const char *__ubsan_default_options(void);
const char *__ubsan_default_options(void)
{
	return "print_stacktrace=1:halt_on_error=1";
}

void unit_register(struct unit_test *t)
{
	*last = t;
	last = &t->next;
}

void unit_fail(const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "# %s:%d: ", file, line);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	fflush(NULL);
	_exit(1);
}

#define SKIPPED	4	/* exit status, as in kselftest */

void unit_skip(const char *why)
{
	fprintf(stderr, "# %s\n", why);
	fflush(NULL);
	_exit(SKIPPED);
}

bool unit_slow(void)
{
	const char *slow = getenv("SLOW");

	return slow && *slow;
}

unsigned int unit_rounds(unsigned int n)
{
	return unit_slow() ? n : n / 3;
}

static void run(struct unit_test *t)
{
	struct machine *m = t->bare ? NULL : machine_new();

	t->fn(m);
	if (m)
		machine_free(m);
	shim_check_quiet();
}

struct child {
	struct unit_test *test;
	pid_t pid;
	FILE *says;
	struct timespec begin;
};

static void start(struct child *c, struct unit_test *t)
{
	c->test = t;
	c->says = tmpfile();
	clock_gettime(CLOCK_MONOTONIC, &c->begin);
	fflush(NULL);
	c->pid = fork();
	if (!c->pid) {
		dup2(fileno(c->says), 2);
		alarm(TIMEOUT);
		run(t);
		fflush(NULL);
		_exit(0);
	}
}

static bool report(struct child *c, int status, unsigned int number)
{
	bool skipped = WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED;
	bool ok = skipped || (WIFEXITED(status) && !WEXITSTATUS(status));
	struct timespec end;
	char line[512];
	long ms;

	clock_gettime(CLOCK_MONOTONIC, &end);
	ms = (end.tv_sec - c->begin.tv_sec) * 1000 + (end.tv_nsec - c->begin.tv_nsec) / 1000000;
	rewind(c->says);
	while (fgets(line, sizeof(line), c->says))
		if (!strstr(line, "doesn't fully support makecontext"))	/* it is told of each switch */
			printf("%s%s", line[0] == '#' ? "" : "# ", line);
	if (WIFSIGNALED(status))
		printf("# ended by signal %d%s\n", WTERMSIG(status), WTERMSIG(status) == SIGALRM ? ": hangs" : "");
	fclose(c->says);
	printf("%s %u %s: %s", ok ? "ok" : "not ok", number, c->test->id, c->test->name);
	if (skipped)
		printf(" # SKIP");
	else if (ms > 200)
		printf(" # %ld ms", ms);
	putchar('\n');
	fflush(stdout);
	return ok;
}

static bool wanted(const struct unit_test *t, char **patterns)
{
	if (!*patterns)
		return true;
	for (; *patterns; patterns++) {
		char any[256];

		snprintf(any, sizeof(any), "*%s*", *patterns);
		if (!fnmatch(any, t->id, 0) || !fnmatch(any, t->name, 0))
			return true;
	}
	return false;
}

int main(int argc, char **argv)
{
	unsigned int jobs = sysconf(_SC_NPROCESSORS_ONLN), total = 0, done = 0, running = 0, failed = 0;
	bool list = false, direct = false;
	struct child *children;
	struct unit_test *t;
	int opt, status;
	pid_t pid;

	while ((opt = getopt(argc, argv, "ldj:v")) != -1) {
		switch (opt) {
		case 'l':
			list = true;
			break;
		case 'd':
			direct = true;
			break;
		case 'j':
			jobs = atoi(optarg);
			break;
		case 'v':
			shim_verbose = true;
			break;
		default:
			return 2;
		}
	}
	argv += optind;
	for (t = tests; t; t = t->next)
		total += wanted(t, argv);
	if (!list)
		printf("KTAP version 1\n1..%u\n", total);
	if (!total)
		return 1;
	children = calloc(max(jobs, 1u), sizeof(*children));
	for (t = tests; t || running; ) {
		if (t && !wanted(t, argv)) {
			t = t->next;
			continue;
		}
		if (t && list) {
			printf("%s: %s\n", t->id, t->name);
			t = t->next;
			continue;
		}
		if (t && direct) {
			run(t);
			printf("ok %u %s: %s\n", ++done, t->id, t->name);
			t = t->next;
			continue;
		}
		if (t && running < max(jobs, 1u)) {
			for (unsigned int i = 0; i < jobs; i++) {
				if (children[i].pid)
					continue;
				start(&children[i], t);
				break;
			}
			running++;
			t = t->next;
			continue;
		}
		pid = wait(&status);
		for (unsigned int i = 0; i < jobs; i++) {
			if (children[i].pid != pid)
				continue;
			failed += !report(&children[i], status, ++done);
			children[i].pid = 0;
			running--;
		}
	}
	if (!list)
		printf("# pass:%u fail:%u\n", done - failed, failed);
	return failed ? 1 : 0;
}
