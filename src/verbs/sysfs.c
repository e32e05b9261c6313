/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files about devices, for programs that read them through this library: ibv_devinfo (board_id),
 * librdmacm and Open MPI (whether there is a kernel stack). On a host with RDMA devices of the
 * kernel they are below /sys; elsewhere in the tree of core/device/sysfs_tree.c.
 *
 * Owns the path, which is determined once.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/device/sysfs_tree.h"
#include "core/diag/port_counters.h"
#include "run/log.h"
#include "verbs/exports.h"

static char sysfs_path[PATH_MAX] = "/sys";
static pthread_once_t path_once = PTHREAD_ONCE_INIT;

/* SYSFS_PATH takes precedence, except in a program with more rights than its user. */
static void find_path(void)
{
	const char *env = getuid() == geteuid() ? getenv("SYSFS_PATH") : NULL;
	size_t len = env ? strlen(env) : 0;

	if (!len) {
		env = access("/sys/class/infiniband", F_OK) < 0 ? vrb_sysfs_root() : NULL;
		len = env ? strlen(env) : 0;
	}
	while (len > 1 && env[len - 1] == '/')
		len--;
	if (len && len < sizeof(sysfs_path)) {
		memcpy(sysfs_path, env, len);
		sysfs_path[len] = '\0';
	}
}

const char *ibv_get_sysfs_path(void)
{
	pthread_once(&path_once, find_path);
	return sysfs_path;
}

/*
 * Only rdma-core's librdmacm asks through this library whether the kernel manages connections. It
 * cannot connect our devices, and would only report that a file is missing.
 */
static void complain_of_foreign_librdmacm(const char *file)
{
	if (!strcmp(file, "class/misc/rdma_cm/abi_version"))
		log_once(LOG_VERBS, LOG_ERROR,
			 "this libibverbs is Verbena's, but librdmacm is not, and finds no device. "
			 "Put the folder that contains both first in LD_LIBRARY_PATH, or start the "
			 "program with \"verbena run --\"");
}

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[PATH_MAX];
	ssize_t len;
	int fd;

	if (!size || snprintf(path, sizeof(path), "%s/%s", dir, file) >= (int)sizeof(path)) {
		errno = EINVAL;
		return -1;
	}
	complain_of_foreign_librdmacm(file);
	vrb_sysfs_about_to_read(dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	len = read(fd, buf, size - 1);
	close(fd);
	if (len < 0)
		return -1;
	if (len > 0 && buf[len - 1] == '\n')
		len--;
	buf[len] = '\0';
	return (int)len;
}
