// SPDX-License-Identifier: GPL-2.0
/* See uffd.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include "mem.h"
#include "uffd.h"

int uffd_open(void *addr, size_t len)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = {
		.range = { .start = (uintptr_t)addr, .len = len },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return -errno;
	if (ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &reg)) {
		close(fd);
		return -errno;
	}
	return fd;
}

uint64_t uffd_next(int fd, int ms)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	struct uffd_msg msg;

	while (poll(&ready, 1, ms) == 1)
		if (read(fd, &msg, sizeof(msg)) == sizeof(msg) &&
		    msg.event == UFFD_EVENT_PAGEFAULT)
			return msg.arg.pagefault.address & ~(uint64_t)(PAGE - 1);
	return 0;
}

int uffd_give(int fd, uint64_t addr, const void *page)
{
	struct uffdio_copy copy = {
		.dst = addr, .src = (uintptr_t)page, .len = PAGE,
	};

	if (!ioctl(fd, UFFDIO_COPY, &copy) || errno == EEXIST)
		return 0;
	return -errno;
}
