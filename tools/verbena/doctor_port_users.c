/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Other programs on the UDP port: programs of this user with another run directory take each
 * other's packets.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor.h"
#include "run/config.h"

enum { SOCKETS = 4096 };

/* Inodes of the sockets of this network namespace on the port. */
struct sockets {
	unsigned int n;
	unsigned long inode[SOCKETS];
};

static void read_sockets(struct sockets *s, const char *path, unsigned int port)
{
	FILE *f = fopen(path, "re");
	char line[512];

	while (f && fgets(line, sizeof(line), f)) {
		unsigned long inode;
		unsigned int bound;

		if (sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*s %*s %*s %*s %*s %*s %*s %lu", &bound,
			   &inode) == 2 &&
		    bound == port && s->n < SOCKETS)
			s->inode[s->n++] = inode;
	}
	if (f)
		fclose(f);
}

static bool has_socket(const struct sockets *s, const char *link)
{
	unsigned long inode;

	if (sscanf(link, "socket:[%lu]", &inode) != 1)
		return false;
	for (unsigned int i = 0; i < s->n; i++)
		if (s->inode[i] == inode)
			return true;
	return false;
}

/* True if it is the table of another run directory. */
static bool other_table(int fds, const char *fd, const char *link, const struct stat *ours)
{
	const char *base = strrchr(link, '/');
	struct stat st;

	return base && strcmp(base, "/table") == 0 && fstatat(fds, fd, &st, 0) == 0 &&
	       S_ISREG(st.st_mode) && (st.st_dev != ours->st_dev || st.st_ino != ours->st_ino);
}

/* True, with *dir, if the process has the port and the table of another directory. */
static bool shares(const char *pid, const struct sockets *s, const struct stat *ours, char dir[256])
{
	bool port = false, table = false;
	const struct dirent *e;
	char path[288];
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		char link[256];
		ssize_t n = readlinkat(dirfd(d), e->d_name, link, sizeof(link) - 1);

		if (n <= 0)
			continue;
		link[n] = '\0';
		port |= has_socket(s, link);
		if (other_table(dirfd(d), e->d_name, link, ours)) {
			table = true;
			snprintf(dir, 256, "%.*s", (int)(strrchr(link, '/') - link), link);
		}
	}
	if (d)
		closedir(d);
	return port && table;
}

void check_port_users(void)
{
	uint16_t port = doctor_config()->udp_port;
	char table[288], dir[256];
	const struct dirent *e;
	struct stat ours = { 0 };
	struct sockets *s = calloc(1, sizeof(*s));
	DIR *d = opendir("/proc");

	snprintf(table, sizeof(table), "%s/table", doctor_run_dir());
	if (stat(table, &ours) < 0)
		ours.st_ino = 0; /* our directory is unused, so every table is another one's */
	if (s) {
		read_sockets(s, "/proc/net/udp", port);
		read_sockets(s, "/proc/net/udp6", port);
	}
	while (s && s->n && d && (e = readdir(d)))
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && shares(e->d_name, s, &ours, dir))
			found(15, "process %s has UDP port %u, and %s instead of %s", e->d_name,
			      port, dir, doctor_run_dir());
	if (d)
		closedir(d);
	free(s);
}
