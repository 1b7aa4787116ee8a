// SPDX-License-Identifier: GPL-2.0
/* See sys.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>
#include "sys.h"

int write_file(const char *path, const char *text)
{
	ssize_t len = strlen(text);
	int fd = open(path, O_WRONLY | O_TRUNC);
	int err = 0;

	if (fd < 0)
		return -errno;
	errno = 0;
	if (write(fd, text, len) != len)
		err = -errno ?: -EIO;
	close(fd);
	return err;
}

int softhca_parameter(const char *name, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/module/softhca/parameters/%s", name);
	return write_file(path, value);
}

int module_load(const char *name, const char *parameters)
{
	struct utsname uts;
	char path[256];
	int fd, err;

	uname(&uts);
	snprintf(path, sizeof(path), "%s/%s/softhca_%s.ko", name, uts.release, name);
	fd = open(path, O_RDONLY);
	err = syscall(SYS_finit_module, fd, parameters, 0) ? -errno : 0;
	close(fd);
	return err;
}

int module_unload(const char *name)
{
	char module[64];

	snprintf(module, sizeof(module), "softhca_%s", name);
	return syscall(SYS_delete_module, module, 0) ? -errno : 0;
}
