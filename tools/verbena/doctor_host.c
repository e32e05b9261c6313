/* SPDX-License-Identifier: BSD-2-Clause */
/* The host: the shared directory, other processes, cross-memory attach, limits. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <json-c/json.h>

#include "query.h"
#include "doctor.h"
#include "host/dir.h"
#include "host/table.h"
#include "run/config.h"

enum {
	/* bytes in the shared file system: a process's segment, as far as it is used */
	MIN_FREE = 32 << 20,
	MIN_FILES = 64,
	MIN_LOCKED = 1 << 20,
};
#define MIN_FILE_SIZE  (512ull << 20)
#define MIN_ADDRESSES  (2ull << 30)

static const char *wanted_dir(void)
{
	const char *wanted = doctor_config()->dir;

	return wanted[0] ? wanted : "/dev/shm";
}

const char *doctor_run_dir(void)
{
	static struct host_run_dir dir;

	if (!dir.path[0] && host_dir_open(doctor_config()->dir, &dir) == 0)
		close(dir.fd);
	return dir.path[0] ? dir.path : wanted_dir();
}

static void check_room(const char *dir)
{
	struct statvfs fs;
	unsigned long long room;

	if (statvfs(dir, &fs) < 0)
		return;
	room = (unsigned long long)fs.f_bavail * fs.f_frsize;
	if (room < MIN_FREE)
		found(21, "%s has room for %llu KiB more", dir, room >> 10);
	else
		fine("%s can be used, %llu MiB are free", dir, room >> 20);
}

/* A table of another version matters only while it has users. */
static bool version_fits(const struct host_run_dir *dir)
{
	struct table t = { .fd = openat(dir->fd, "table", O_RDONLY | O_CLOEXEC) };
	struct table_header h;
	bool other;

	if (t.fd < 0)
		return true;
	other = read(t.fd, &h, sizeof(h)) == (ssize_t)sizeof(h) && h.magic == TABLE_MAGIC &&
		h.version != TABLE_VERSION && table_in_use(&t);
	close(t.fd);
	if (other)
		found(23, "%s has version %u, this one is %u", dir->path, h.version,
		      (unsigned int)TABLE_VERSION);
	return !other;
}

static int open_writable(const char *wanted, unsigned int place, struct host_run_dir *dir)
{
	int err = host_dir_open_at(wanted, place, dir);

	if (err || faccessat(dir->fd, ".", W_OK, AT_EACCESS) == 0)
		return err;
	err = errno;
	close(dir->fd);
	return err;
}

/* Processes use the first directory that works. */
void check_directory(void)
{
	const char *wanted = doctor_config()->dir;
	unsigned int places = host_dir_places(wanted);
	struct host_run_dir dir;
	int err = 0, first = 0;

	for (unsigned int i = 0; i < places; i++) {
		err = open_writable(wanted, i, &dir);
		if (!err && first)
			found(25, "%s: %s; %s is used instead", wanted_dir(), strerror(first),
			      dir.path);
		if (!i)
			first = err;
		if (err)
			continue;
		close(dir.fd);
		check_room(dir.path);
		return;
	}
	found(20, "%s: %s; no other place can be used either", wanted_dir(), strerror(first));
}

void check_version(void)
{
	struct host_run_dir dir;

	if (host_dir_open(doctor_config()->dir, &dir))
		return;
	if (version_fits(&dir))
		fine("no processes of another version are in %s", dir.path);
	close(dir.fd);
}

static bool other_version(struct json_object *o, void *arg)
{
	const char *version = json_object_get_string(json_object_object_get(o, "version"));

	if (!version || strcmp(version, VRB_VERSION) == 0)
		return true;
	found(24, "process %s (%s) runs version %s, this is %s",
	      json_object_get_string(json_object_object_get(o, "pid")),
	      json_object_get_string(json_object_object_get(o, "program")), version, VRB_VERSION);
	return true;
}

void check_processes(void)
{
	query_all(other_version, NULL, NULL);
}

/* Cross-memory attach to a process that is neither ancestor nor descendant. */

static int attach(pid_t pid, const uint64_t *address)
{
	uint64_t value = 0;
	struct iovec near = { &value, sizeof(value) };
	struct iovec far = { (void *)address, sizeof(value) };

	return process_vm_readv(pid, &near, 1, &far, 1, 0) == (ssize_t)sizeof(value) ? 0 : errno;
}

static long read_number(const char *path, const char *key)
{
	FILE *f = fopen(path, "re");
	char line[256];
	long v = -1;

	while (f && v < 0 && fgets(line, sizeof(line), f))
		if (strncmp(line, key, strlen(key)) == 0)
			v = strtol(line + strlen(key), NULL, 10);
	if (f)
		fclose(f);
	return v;
}

static const char *refused_by(int err)
{
	if (read_number("/proc/sys/kernel/yama/ptrace_scope", "") >= 1)
		return "Yama (kernel.yama.ptrace_scope)";
	if (read_number("/proc/self/status", "Seccomp:") == 2)
		return "a seccomp filter";
	if (err == ENOSYS)
		return "the kernel, which lacks it";
	return "the kernel: different users, or a process that is not dumpable";
}

void check_attach(void)
{
	static const uint64_t word = 1;
	pid_t target = fork(), reader;
	int status = 0;

	if (target == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	if (target < 0)
		return;
	reader = fork();
	if (reader == 0)
		_exit(attach(target, &word) & 0xff);
	if (reader > 0)
		waitpid(reader, &status, 0);
	kill(target, SIGKILL);
	waitpid(target, NULL, 0);
	if (reader < 0 || !WIFEXITED(status))
		return;
	if (WEXITSTATUS(status))
		found(30, "process_vm_readv: %s; refused by %s", strerror(WEXITSTATUS(status)),
		      refused_by(WEXITSTATUS(status)));
	else
		fine("processes may access each other's memory");
}

static const struct {
	int resource;
	unsigned long long least;
	unsigned int code;
	const char *what;
} limits[] = {
	{ RLIMIT_FSIZE, MIN_FILE_SIZE, 22, "ulimit -f" },
	{ RLIMIT_MEMLOCK, MIN_LOCKED, 31, "ulimit -l" },
	{ RLIMIT_NOFILE, MIN_FILES, 32, "ulimit -n" },
	{ RLIMIT_AS, MIN_ADDRESSES, 33, "ulimit -v" },
};

void check_limits(void)
{
	bool all = true;

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct rlimit r;

		if (getrlimit(limits[i].resource, &r) < 0 || r.rlim_cur == RLIM_INFINITY ||
		    r.rlim_cur >= limits[i].least)
			continue;
		all = false;
		found(limits[i].code, "%s is %llu%s, it should be %llu or more", limits[i].what,
		      (unsigned long long)r.rlim_cur,
		      limits[i].resource == RLIMIT_NOFILE ? "" : " bytes", limits[i].least);
	}
	if (all)
		fine("limits on files, memory and addresses are large enough");
}
