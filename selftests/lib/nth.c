// SPDX-License-Identifier: GPL-2.0
/* See nth.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include "nth.h"
#include "prm.h"
#include "rdma.h"
#include "sys.h"

#define DEBUG	"/sys/kernel/debug/"

static int nth_fd = -1;

static const char *nth_file = "/proc/thread-self/fail-nth";
static bool nth_loaded;

/* No failure while the kernel's function @name runs: 0 if that is arranged */
static int spare(const char *name)
{
	static const char *const attrs[] = { "failslab", "fail_page_alloc" };
	FILE *file = fopen("/proc/kallsyms", "r");
	unsigned long start = 0, end = 0, at;
	char line[512], symbol[256];

	if (!file)
		return -errno;
	/* in the order of their addresses: it reaches to whatever comes next */
	while (!end && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx %*c %255s", &at, symbol) != 2)
			continue;
		if (!strcmp(symbol, name))
			start = at;
		else if (start && at > start)
			end = at;
	}
	fclose(file);
	if (!end)
		return -ENOENT;
	for (size_t i = 0; i < sizeof(attrs) / sizeof(*attrs); i++) {
		char path[64], text[32];
		int err;

		snprintf(path, sizeof(path), DEBUG "%s/reject-start", attrs[i]);
		snprintf(text, sizeof(text), "0x%lx", start);
		err = write_file(path, text);
		snprintf(path, sizeof(path), DEBUG "%s/reject-end", attrs[i]);
		snprintf(text, sizeof(text), "0x%lx", end);
		err = err ?: write_file(path, text);
		if (err)
			return err;
	}
	return 0;
}

const char *nth_setup(void)
{
	static const struct {
		const char *file, *value;
	} all[] = {
		/* also those that may wait, of every order, and without a stack trace for each */
		{ DEBUG "failslab/ignore-gfp-wait", "N" },
		{ DEBUG "failslab/verbose", "0" },
		{ DEBUG "fail_page_alloc/ignore-gfp-wait", "N" },
		{ DEBUG "fail_page_alloc/ignore-gfp-highmem", "N" },
		{ DEBUG "fail_page_alloc/min-order", "0" },
		{ DEBUG "fail_page_alloc/verbose", "0" },
	};
	bool kernel = !access(nth_file, W_OK);

	for (size_t i = 0; kernel && i < sizeof(all) / sizeof(*all); i++)
		kernel = !write_file(all[i].file, all[i].value);
	if (kernel)
		/* where DMA_API_DEBUG keeps its accounts: without memory for them it ends for good */
		return spare("add_dma_entry") ? "the checker of DMA mappings would fail too" : NULL;
	nth_file = "/sys/module/softhca_nth/parameters/nth";
	nth_loaded = !module_load("nth", "");
	return nth_loaded ? NULL : "neither failslab and fail_page_alloc nor softhca_nth";
}

void nth_end(void)
{
	if (nth_loaded)
		module_unload("nth");
}

bool nth_of_kernel(void)
{
	return !nth_loaded;
}

int nth_open(void)
{
	nth_fd = open(nth_file, O_RDWR | O_CLOEXEC);
	return nth_fd < 0 ? -errno : 0;
}

int nth_arm(unsigned int n)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%u", n);

	return pwrite(nth_fd, text, len, 0) == len ? 0 : -errno;
}

int nth_disarm(void)
{
	char text[16] = "";
	int saved = errno, fired;

	/* what is left of the number: 0 once the failure has happened */
	fired = pread(nth_fd, text, sizeof(text) - 1, 0) > 0 && !atoi(text);
	nth_arm(0);
	errno = saved;
	return fired;
}

/* Netlink */

struct request {
	struct nlmsghdr hdr;
	char attrs[256];
};

static void begin(struct request *req, uint16_t command, uint16_t flags)
{
	memset(req, 0, sizeof(*req));
	req->hdr.nlmsg_len = NLMSG_HDRLEN;
	req->hdr.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command);
	req->hdr.nlmsg_flags = NLM_F_REQUEST | flags;
	req->hdr.nlmsg_seq = 1;
}

static void add(struct request *req, uint16_t type, const void *data, size_t len)
{
	struct nlattr *attr = (void *)req + req->hdr.nlmsg_len;

	attr->nla_type = type;
	attr->nla_len = NLA_HDRLEN + len;
	memcpy(attr + 1, data, len);
	req->hdr.nlmsg_len += NLA_ALIGN(attr->nla_len);
}

/* What sockets say when there is no memory for a file or a message */
static int socket_error(void)
{
	return errno == ENFILE || errno == ENOBUFS ? -ENOMEM : -errno;
}

/* Calls @each for every message of the answer. */
static int ask(struct request *req, int (*each)(const struct nlmsghdr *msg, void *arg), void *arg)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
	struct timeval patience = { .tv_sec = 10 };
	static char reply[65536];
	struct nlmsghdr *msg;
	int err = 0;
	ssize_t len;

	if (fd < 0)
		return socket_error();
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (send(fd, req, req->hdr.nlmsg_len, 0) < 0) {
		err = socket_error();
		goto out;
	}
	for (;;) {
		len = recv(fd, reply, sizeof(reply), 0);
		if (len < 0) {
			err = socket_error();
			goto out;
		}
		for (msg = (void *)reply; NLMSG_OK(msg, len); msg = NLMSG_NEXT(msg, len)) {
			if (msg->nlmsg_type == NLMSG_DONE)
				goto out;
			if (msg->nlmsg_type == NLMSG_ERROR) {
				err = ((struct nlmsgerr *)NLMSG_DATA(msg))->error;
				if (err == -ENOBUFS)
					err = -ENOMEM;
				goto out;
			}
			if (each)
				err = each(msg, arg);
			if (err)
				goto out;
		}
	}
out:
	close(fd);
	return err;
}

static int book(const struct nlmsghdr *msg, void *arg)
{
	struct books *books = arg;
	size_t len = msg->nlmsg_len - NLMSG_HDRLEN;

	if (books->len + len > sizeof(books->bytes))
		return -EMSGSIZE;
	memcpy(books->bytes + books->len, NLMSG_DATA(msg), len);
	books->len += len;
	return 0;
}

int books_read(struct books *books)
{
	struct request req;

	books->len = 0;
	begin(&req, RDMA_NLDEV_CMD_RES_GET, NLM_F_DUMP);
	return ask(&req, book, books);
}

bool books_same(const struct books *a, const struct books *b)
{
	return a->len && a->len == b->len && !memcmp(a->bytes, b->bytes, a->len);
}

int link_add(const char *name, const char *netdev)
{
	struct request req;

	begin(&req, RDMA_NLDEV_CMD_NEWLINK, NLM_F_ACK);
	add(&req, RDMA_NLDEV_ATTR_DEV_NAME, name, strlen(name) + 1);
	add(&req, RDMA_NLDEV_ATTR_LINK_TYPE, "softhca", sizeof("softhca"));
	add(&req, RDMA_NLDEV_ATTR_NDEV_NAME, netdev, strlen(netdev) + 1);
	return ask(&req, NULL, NULL);
}

struct wanted {
	const char *name;
	bool found;
	uint32_t index;
};

static int find_index(const struct nlmsghdr *msg, void *arg)
{
	const struct nlattr *attr = NLMSG_DATA(msg);
	int len = msg->nlmsg_len - NLMSG_HDRLEN;
	struct wanted *wanted = arg;
	const char *name = NULL;
	uint32_t index = 0;

	while (len >= NLA_HDRLEN && attr->nla_len >= NLA_HDRLEN) {
		if ((attr->nla_type & NLA_TYPE_MASK) == RDMA_NLDEV_ATTR_DEV_INDEX)
			memcpy(&index, attr + 1, sizeof(index));
		if ((attr->nla_type & NLA_TYPE_MASK) == RDMA_NLDEV_ATTR_DEV_NAME)
			name = (const char *)(attr + 1);
		len -= NLA_ALIGN(attr->nla_len);
		attr = (void *)attr + NLA_ALIGN(attr->nla_len);
	}
	if (name && !strcmp(name, wanted->name)) {
		wanted->found = true;
		wanted->index = index;
	}
	return 0;
}

int link_del(const char *name)
{
	struct wanted wanted = { .name = name };
	struct request req;
	int err;

	begin(&req, RDMA_NLDEV_CMD_GET, NLM_F_DUMP);
	err = ask(&req, find_index, &wanted);
	if (err)
		return err;
	if (!wanted.found)
		return -ENODEV;
	begin(&req, RDMA_NLDEV_CMD_DELLINK, NLM_F_ACK);
	add(&req, RDMA_NLDEV_ATTR_DEV_INDEX, &wanted.index, sizeof(wanted.index));
	return ask(&req, NULL, NULL);
}

#define OWN_DEVICE	"softhca_own"
#define OWN_NETDEV	"shca_own0"

static bool has_own_device;

int own_device_add(void)
{
	uint64_t end = now_us() + WAIT_MS * 1000;
	struct rdma r;
	int err;

	if (getenv("IBV_TEST_DEV"))
		return 0;
	/* one that a test has left behind is as good as none */
	link_del(OWN_DEVICE);
	if (system("ip link show " OWN_NETDEV " >/dev/null 2>&1 || ip link add " OWN_NETDEV
		   " type dummy; ip link set " OWN_NETDEV " up"))
		return -EIO;
	err = link_add(OWN_DEVICE, OWN_NETDEV);
	if (err)
		return err;
	has_own_device = true;
	setenv("IBV_TEST_DEV", OWN_DEVICE, 1);
	/* its GID comes a little later */
	while ((err = rdma_open(&r)) && now_us() < end)
		usleep(1000);
	if (!err)
		rdma_close(&r);
	return err;
}

void own_device_del(void)
{
	if (!has_own_device)
		return;
	link_del(OWN_DEVICE);
	if (system("ip link del " OWN_NETDEV))
		perror(OWN_NETDEV);
	unsetenv("IBV_TEST_DEV");
	has_own_device = false;
}

/* The ledger */

static const struct {
	const char *name;
	unsigned int create, destroy;
} kinds[LEDGER_KINDS] = {
	{ "memory keys", MLX5_CMD_OP_CREATE_MKEY, MLX5_CMD_OP_DESTROY_MKEY },
	{ "event queues", MLX5_CMD_OP_CREATE_EQ, MLX5_CMD_OP_DESTROY_EQ },
	{ "completion queues", MLX5_CMD_OP_CREATE_CQ, MLX5_CMD_OP_DESTROY_CQ },
	{ "queue pairs", MLX5_CMD_OP_CREATE_QP, MLX5_CMD_OP_DESTROY_QP },
	{ "device memory", MLX5_CMD_OP_ALLOC_MEMIC, MLX5_CMD_OP_DEALLOC_MEMIC },
	{ "protection domains", MLX5_CMD_OP_ALLOC_PD, MLX5_CMD_OP_DEALLOC_PD },
	{ "UARs", MLX5_CMD_OP_ALLOC_UAR, MLX5_CMD_OP_DEALLOC_UAR },
	{ "transport domains", MLX5_CMD_OP_ALLOC_TRANSPORT_DOMAIN,
	  MLX5_CMD_OP_DEALLOC_TRANSPORT_DOMAIN },
	{ "user contexts", MLX5_CMD_OP_CREATE_UCTX, MLX5_CMD_OP_DESTROY_UCTX },
	{ "umems", MLX5_CMD_OP_CREATE_UMEM, MLX5_CMD_OP_DESTROY_UMEM },
};

int ledger_begin(struct ledger *ledger)
{
	int err = write_file(TRACING "events/softhca/hca_cmd/filter", "status==0");

	memset(ledger, 0, sizeof(*ledger));
	if (!err)
		err = write_file(TRACING "trace", "");
	return err ?: write_file(TRACING "events/softhca/hca_cmd/enable", "1");
}

int ledger_update(struct ledger *ledger)
{
	FILE *file = fopen(TRACING "trace", "r");
	unsigned int opcode;
	char line[512];
	char *at;

	if (!file)
		return -errno;
	while (fgets(line, sizeof(line), file)) {
		at = strstr(line, "hca_cmd: opcode=");
		if (!at || sscanf(at, "hca_cmd: opcode=%x", &opcode) != 1)
			continue;
		for (int i = 0; i < LEDGER_KINDS; i++)
			ledger->objects[i] += (opcode == kinds[i].create) -
					      (opcode == kinds[i].destroy);
	}
	fclose(file);
	return write_file(TRACING "trace", "");
}

const char *ledger_surplus(const struct ledger *ledger)
{
	for (int i = 0; i < LEDGER_KINDS; i++)
		if (ledger->objects[i] > 0)
			return kinds[i].name;
	return NULL;
}

void ledger_end(void)
{
	write_file(TRACING "events/softhca/hca_cmd/enable", "0");
	write_file(TRACING "events/softhca/hca_cmd/filter", "0");
}
