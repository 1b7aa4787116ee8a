// SPDX-License-Identifier: GPL-2.0
/*
 * Proves that on-demand regions hold under everything at once: while queue pairs write,
 * read, send and add through explicit, implicit and pinned regions, the memory below is
 * unmapped, remapped, protected, dropped, shared by fork, merged into huge pages and torn
 * out of them, moved, and swapped under a memory limit. Every byte is compared with a
 * model; no page is read or written through a mapping that has been taken away.
 *
 * ODP_TORTURE_SECONDS (20) is how long, ODP_TORTURE_SEED what decides what each thread
 * does; the same seed does the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "lib/harness.h"
#include "lib/access.h"
#include "lib/mem.h"
#include "lib/sys.h"

#define MODELS		3
#define AREA		(2 * HUGE)	/* of each of them */
#define MAX_LEN		(64 * PAGE)
#define AT(p)		((uint64_t)(uintptr_t)(p))
#define ODP		(ACCESS_ALL | IBV_ACCESS_ON_DEMAND)

/* of the threads that look for stale pages */
#define STALE_PAGES	16
#define STALE_LEN	(STALE_PAGES * PAGE)
#define INK		0x77
#define PAINT		0x5a

/* The program's own pages, and what is to be forced out of memory for others */
#define MEMORY_MAX	"83886080"
#define HOG		(64ul << 20)

#define PATIENCE_US	240000000

static struct {
	volatile bool stop;
	unsigned int seed;
	pthread_mutex_t lock;		/* protects @failed */
	char failed[256];
} torture = { .lock = PTHREAD_MUTEX_INITIALIZER };

#define FAILED(...) do {						\
	pthread_mutex_lock(&torture.lock);				\
	if (!torture.failed[0])						\
		snprintf(torture.failed, sizeof(torture.failed), __VA_ARGS__); \
	torture.stop = true;						\
	pthread_mutex_unlock(&torture.lock);				\
} while (0)

static uint64_t rnd(uint64_t *state, uint64_t n)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state % n;
}

/* --- memory and its model: whatever is done to one is done to the other --- */

struct model {
	struct pair p;
	struct other o;
	struct ibv_mr *explicit, *implicit, *pinned;
	char *area;		/* on demand, but for its last MAX_LEN bytes: pinned */
	char *shadow;		/* what @area should hold */
	uint64_t dice, writes;
	volatile uint64_t ops, changes;
};

#define ODP_LEN		(AREA - MAX_LEN)

static bool model_open(struct model *m, unsigned int n)
{
	void *at = (void *)(0x200000000000ull + n * 0x4000000000ull);

	memset(m, 0, sizeof(*m));
	m->dice = 0x9e3779b97f4a7c15ull * (torture.seed + 1) + n;
	if (pair_open(&m->p, &(struct qp_cfg){}) || other_open(&m->o, &m->p, MAX_LEN))
		return false;
	m->area = mmap(at, AREA, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	m->shadow = mem_pages(AREA);
	if (m->area != at || !m->shadow)
		return false;
	m->explicit = ibv_reg_mr(m->p.pd, m->area, ODP_LEN, ODP);
	m->implicit = ibv_reg_mr(m->p.pd, NULL, SIZE_MAX, ODP);
	m->pinned = ibv_reg_mr(m->p.pd, m->area + ODP_LEN, MAX_LEN, ACCESS_ALL);
	return m->explicit && m->implicit && m->pinned;
}

static void model_close(struct model *m)
{
	ibv_dereg_mr(m->explicit);
	ibv_dereg_mr(m->implicit);
	ibv_dereg_mr(m->pinned);
	munmap(m->area, AREA);
	munmap(m->shadow, AREA);
	other_close(&m->o);
	pair_close(&m->p);
}

/* One access of some kind to some bytes through some key */
static bool model_access(struct model *m)
{
	enum access_kind access = rnd(&m->dice, ACCESSES);
	bool atomic = access == ATOMIC_AT || access == ATOMIC_TO;
	uint32_t len = atomic ? 8 : 1 + rnd(&m->dice, rnd(&m->dice, 2) ? 3 * PAGE : MAX_LEN);
	bool pinned = !rnd(&m->dice, 6);
	uint64_t room = (pinned ? MAX_LEN : ODP_LEN) - len + 1;
	uint64_t at = (pinned ? ODP_LEN : 0) + rnd(&m->dice, room);
	struct ibv_mr *mr = pinned ? m->pinned : rnd(&m->dice, 2) ? m->explicit : m->implicit;
	uint64_t old, seed = m->writes++ << 8 | 1;
	int err;

	if (atomic)
		at &= ~7ull;
	if (access_reads(access)) {
		memset(m->o.buf, 0xee, len);
	} else {
		fill(m->o.buf, len, seed);
		memcpy(&old, m->o.buf, 8);
	}
	err = access_run(&m->o, access, mr->lkey, AT(m->area) + at, len, NULL, NULL);
	if (err) {
		FAILED("access %d of %u bytes at %#lx: %d", access, len, at, err);
		return false;
	}
	if (access_reads(access)) {
		if (memcmp(m->o.buf, m->shadow + at, len)) {
			FAILED("access %d of %u bytes at %#lx found something else", access, len,
			       at);
			return false;
		}
	} else if (access == ATOMIC_AT) {
		/* A has what was there before; we know what was added */
		if (memcmp(m->o.buf, m->shadow + at, 8)) {
			FAILED("an atomic at %#lx found something else", at);
			return false;
		}
		memcpy(&old, m->shadow + at, 8);
		old += ACCESS_ADD;
		memcpy(m->shadow + at, &old, 8);
	} else if (access == ATOMIC_TO) {
		memcpy(m->shadow + at, &old, 8);
	} else {
		memcpy(m->shadow + at, m->o.buf, len);
	}
	return true;
}

/* Where there is nothing to be had, an access fails; then it is there again */
static void model_forbid(struct model *m, char *p, size_t len)
{
	int status, want = IBV_WC_REM_ACCESS_ERR;

	mprotect(p, len, PROT_NONE);
	status = access_run(&m->o, rnd(&m->dice, 2) ? WRITE_TO : READ_FROM, m->explicit->rkey,
			    AT(p) + len - PAGE, 8, NULL, NULL);
	mprotect(p, len, PROT_READ | PROT_WRITE);
	if (status != want)
		FAILED("an access to what is protected: %d", status);
	else if (pair_reconnect(&m->p))
		FAILED("reconnect");
}

/* One change of the memory itself */
static void model_change(struct model *m)
{
	size_t pages = 1 + rnd(&m->dice, 32);
	size_t page = rnd(&m->dice, ODP_LEN / PAGE - pages);
	size_t at = page * PAGE, len = pages * PAGE;
	char *p = m->area + at, *away = m->area - HUGE;

	m->changes++;
	switch (rnd(&m->dice, 8)) {
	case 0:
		madvise(p, len, MADV_DONTNEED);
		memset(m->shadow + at, 0, len);
		break;
	case 1:
		munmap(p, len);
		if (mmap(p, len, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != p)
			FAILED("mmap");
		memset(m->shadow + at, 0, len);
		break;
	case 2:
		/* a whole child of the implicit region may go with it */
		madvise(m->area, ODP_LEN, MADV_DONTNEED);
		memset(m->shadow, 0, ODP_LEN);
		break;
	case 3:
		model_forbid(m, p, len);
		break;
	case 4:
		/* by the CPU */
		fill(p, len, m->writes << 8);
		memcpy(m->shadow + at, p, len);
		break;
	case 5:
		/* read-only for a moment: writable entries go, the bytes stay */
		mprotect(p, len, PROT_READ);
		mprotect(p, len, PROT_READ | PROT_WRITE);
		break;
	case 6:
		/*
		 * To another place and back. The disturber's advice may have come while
		 * part of the area was away, and be true for a part only: then this is
		 * more than one VMA, which Linux before 6.17 does not move (EFAULT).
		 */
		if (mremap(p, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, away) != away) {
			if (errno != EFAULT)
				FAILED("mremap away: %s", strerror(errno));
		} else if (mremap(away, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, p) != p) {
			FAILED("mremap back: %s", strerror(errno));
		}
		break;
	default:
		/* other regions come and go */
		ibv_dereg_mr(m->explicit);
		m->explicit = ibv_reg_mr(m->p.pd, m->area, ODP_LEN, ODP);
		if (!m->explicit)
			FAILED("ibv_reg_mr: %s", strerror(errno));
	}
}

static void *model_run(void *arg)
{
	struct model *m = arg;

	while (!torture.stop) {
		if (rnd(&m->dice, 4))
			m->ops += model_access(m);
		else
			model_change(m);
		if (m->ops % 64 == 0 && memcmp(m->area, m->shadow, AREA))
			FAILED("the process does not see what it should");
	}
	if (!torture.failed[0] && memcmp(m->area, m->shadow, AREA))
		FAILED("in the end the process does not see what it should");
	return NULL;
}

/* --- what changes nothing that anybody could see, at any time --- */

struct disturber {
	struct model *models;
	uint64_t dice;
	volatile uint64_t times;
};

static void disturb_by_fork(struct disturber *d)
{
	char *p = d->models[rnd(&d->dice, MODELS)].area;
	size_t at = rnd(&d->dice, ODP_LEN / PAGE - 64) * PAGE;
	pid_t child = fork();

	if (!child) {
		/* of the child's own, after copying */
		memset(p + at, 0xcc, 64 * PAGE);
		_exit(0);
	}
	if (child > 0)
		waitpid(child, NULL, 0);
}

static void *disturb(void *arg)
{
	struct disturber *d = arg;
	int compact = open("/proc/sys/vm/compact_memory", O_WRONLY);

	for (; !torture.stop; d->times++) {
		char *p = d->models[rnd(&d->dice, MODELS)].area;
		size_t pages = 1 + rnd(&d->dice, 256);
		size_t at = rnd(&d->dice, ODP_LEN / PAGE - pages) * PAGE;

		/* that part may be unmapped just now: then it is nothing */
		switch (rnd(&d->dice, 16)) {
		case 0:
			disturb_by_fork(d);
			break;
		case 1:
			madvise(p, AREA, MADV_HUGEPAGE);
			madvise(p, AREA, 25 /* MADV_COLLAPSE */);
			break;
		case 2:
			if (compact >= 0 && write(compact, "1", 1) != 1)
				compact = -1;
			break;
		case 3:
			madvise(p, AREA, MADV_NOHUGEPAGE);
			break;
		case 4 ... 9:
			madvise(p + at, pages * PAGE, MADV_PAGEOUT);
			break;
		case 10:
			/* to another frame; each costs the machine one */
			if (d->times % 64 == 0)
				madvise(p + at, PAGE, 101 /* MADV_SOFT_OFFLINE */);
			break;
		default:
			madvise(p + at, pages * PAGE, MADV_COLD);
		}
		usleep(rnd(&d->dice, 3000));
	}
	close(compact);
	return NULL;
}

/* More than there is room for, over and over */
static void *hog(void *arg)
{
	char *p = mem_pages(HOG);

	while (p && !torture.stop) {
		for (size_t at = 0; at < HOG && !torture.stop; at += PAGE)
			p[at]++;
		usleep(20000);
	}
	munmap(p, HOG);
	return arg;
}

/* --- pages that have been taken away --- */

struct stale {
	struct pair p;
	struct other o;
	struct ibv_mr *mr;
	char *window;			/* what the region is over: one half of the file */
	char *view[2];			/* the halves */
	int fd;
	bool reads;
	volatile uint64_t stamp;	/* of what the window shows since it was set */
	volatile uint64_t rounds, done;
};

static bool stale_open(struct stale *s, bool reads)
{
	memset(s, 0, sizeof(*s));
	s->reads = reads;
	s->fd = memfd_create("stale", 0);
	if (pair_open(&s->p, &(struct qp_cfg){}) || other_open(&s->o, &s->p, STALE_LEN) ||
	    ftruncate(s->fd, 2 * STALE_LEN))
		return false;
	for (int i = 0; i < 2; i++)
		s->view[i] = mmap(NULL, STALE_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd,
				  i * STALE_LEN);
	s->window = mmap(NULL, STALE_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
	if (s->view[0] == MAP_FAILED || s->view[1] == MAP_FAILED || s->window == MAP_FAILED)
		return false;
	memset(s->o.buf, INK, STALE_LEN);
	s->mr = ibv_reg_mr(s->p.pd, s->window, STALE_LEN, ODP);
	return s->mr;
}

static void stale_close(struct stale *s)
{
	ibv_dereg_mr(s->mr);
	munmap(s->window, STALE_LEN);
	munmap(s->view[0], STALE_LEN);
	munmap(s->view[1], STALE_LEN);
	close(s->fd);
	other_close(&s->o);
	pair_close(&s->p);
}

static void *stale_traffic(void *arg)
{
	struct stale *s = arg;
	enum access_kind access = s->reads ? READ_FROM : WRITE_TO;

	while (!torture.stop) {
		uint64_t before = s->stamp, after, *word = (uint64_t *)s->o.buf;
		int err = access_run(&s->o, access, s->mr->rkey, AT(s->window), STALE_LEN,
				     NULL, NULL);

		if (err) {
			FAILED("traffic to a window that moves: %d", err);
			break;
		}
		__sync_synchronize();
		/* one more may be on show already, but not yet told */
		after = s->stamp + 1;
		for (size_t i = 0; s->reads && i < STALE_LEN / 8; i++)
			if (word[i] < before || word[i] > after) {
				FAILED("read stamp %lu where %lu to %lu would do", word[i], before,
				       after);
				break;
			}
		s->done++;
		/* others want to get on too */
		usleep(300);
	}
	return NULL;
}

/* The window shows the other half; from then on the half that it has left is left alone */
static void *stale_moves(void *arg)
{
	struct stale *s = arg;

	while (!torture.stop) {
		uint64_t next = ++s->rounds;
		uint64_t *here = (uint64_t *)s->view[next & 1];
		char *there = s->view[!(next & 1)];

		for (size_t i = 0; s->reads && i < STALE_LEN / 8; i++)
			here[i] = next;
		if (mmap(s->window, STALE_LEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			 s->fd, (next & 1) * STALE_LEN) != s->window) {
			FAILED("mmap");
			break;
		}
		__sync_synchronize();
		s->stamp = next;
		if (s->reads) {
			/* who still reads there reads what is too old */
			memset(there, 0, STALE_LEN);
			usleep(200);
			continue;
		}
		memset(there, PAINT, STALE_LEN);
		usleep(500);
		if (!all_bytes(there, STALE_LEN, PAINT)) {
			FAILED("a write to pages that were taken away, round %lu", next);
			break;
		}
	}
	return NULL;
}

/* --- all of it --- */

/* A limit that only swapping can keep: what runs out of memory reclaims, in any place */
static bool limit_memory(void)
{
	char self[16];

	if (system("modprobe brd rd_nr=1 rd_size=262144 && mkswap /dev/ram0 >/dev/null 2>&1 && swapon /dev/ram0"))
		return false;
	mkdir("/tmp/cgroup", 0700);
	if (mount("none", "/tmp/cgroup", "cgroup2", 0, NULL))
		return false;
	write_file("/tmp/cgroup/cgroup.subtree_control", "+memory");
	mkdir("/tmp/cgroup/torture", 0700);
	snprintf(self, sizeof(self), "%d", getpid());
	return !write_file("/tmp/cgroup/torture/memory.max", MEMORY_MAX) &&
	       !write_file("/tmp/cgroup/torture/cgroup.procs", self);
}

static void unlimit_memory(void)
{
	char self[16];

	snprintf(self, sizeof(self), "%d", getpid());
	write_file("/tmp/cgroup/cgroup.procs", self);
	rmdir("/tmp/cgroup/torture");
	umount("/tmp/cgroup");
	if (system("swapoff /dev/ram0 2>/dev/null && rmmod brd"))
		printf("# the swap space stays\n");
}

/* Has every thread got on? */
static bool enough(const struct model *models, const struct stale *writes,
		   const struct stale *reads, const struct disturber *d)
{
	for (int i = 0; i < MODELS; i++)
		if (models[i].ops < 20 || models[i].changes < 5)
			return false;
	return writes->done > 20 && reads->done > 20 && writes->rounds > 20 &&
	       reads->rounds > 20 && d->times > 20;
}

/* only tests with a fixture may say how long they take */
FIXTURE(odp_torture) {
};

FIXTURE_SETUP(odp_torture)
{
}

FIXTURE_TEARDOWN(odp_torture)
{
}

TEST_F_TIMEOUT(odp_torture, hm_6_8_hm_6_21, 7200)
{
	const char *seconds = getenv("ODP_TORTURE_SECONDS"), *seed = getenv("ODP_TORTURE_SEED");
	struct model models[MODELS];
	struct stale writes, reads;
	struct disturber d;
	pthread_t thread[MODELS + 6];
	long long faults;
	uint64_t end, ops = 0;
	bool limited;
	int n = 0;

	torture.seed = seed ? strtoul(seed, NULL, 0) : 1;
	end = now_us() + (seconds ? strtoul(seconds, NULL, 0) : 20) * 1000000ull;
	printf("# seed %u\n", torture.seed);
	limited = limit_memory();
	if (!limited)
		printf("# without swapping: no swap space or no memory controller\n");
	for (int i = 0; i < MODELS; i++)
		ASSERT_TRUE(model_open(&models[i], i));
	ASSERT_TRUE(stale_open(&writes, false));
	ASSERT_TRUE(stale_open(&reads, true));
	d = (struct disturber){ .models = models, .dice = torture.seed + 77 };
	faults = hw_counter("page_fault");

	for (int i = 0; i < MODELS; i++)
		ASSERT_EQ(0, pthread_create(&thread[n++], NULL, model_run, &models[i]));
	ASSERT_EQ(0, pthread_create(&thread[n++], NULL, disturb, &d));
	ASSERT_EQ(0, pthread_create(&thread[n++], NULL, hog, NULL));
	ASSERT_EQ(0, pthread_create(&thread[n++], NULL, stale_traffic, &writes));
	ASSERT_EQ(0, pthread_create(&thread[n++], NULL, stale_moves, &writes));
	ASSERT_EQ(0, pthread_create(&thread[n++], NULL, stale_traffic, &reads));
	ASSERT_EQ(0, pthread_create(&thread[n++], NULL, stale_moves, &reads));
	/* a machine that is busy otherwise gets more time */
	while (!torture.stop && now_us() < end + PATIENCE_US &&
	       (now_us() < end || !enough(models, &writes, &reads, &d)))
		usleep(100000);
	torture.stop = true;
	while (n)
		pthread_join(thread[--n], NULL);

	EXPECT_STREQ("", torture.failed);
	EXPECT_TRUE(enough(models, &writes, &reads, &d));
	for (int i = 0; i < MODELS; i++) {
		printf("# model %d: %lu accesses, %lu changes\n", i, models[i].ops, models[i].changes);
		ops += models[i].ops;
	}
	printf("# stale: %lu writes, %lu moves, %lu reads, %lu moves; %lu disturbances, %lld faults\n",
	       writes.done, writes.rounds, reads.done, reads.rounds, d.times,
	       hw_counter("page_fault") - faults);
	if (faults >= 0)
		EXPECT_LT(ops / 10, hw_counter("page_fault") - faults);
	for (int i = 0; i < MODELS; i++)
		model_close(&models[i]);
	stale_close(&writes);
	stale_close(&reads);
	if (limited)
		unlimit_memory();
}

TEST_HARNESS_MAIN
