/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Gives each test program a run directory and a UDP port of its own, so that other programs and
 * other versions of the library on this host do not take part in the test. Runs before main(),
 * since the library reads its environment once.
 *
 * A port is reserved as in tests/stock/harness.py, by an abstract UNIX socket with its number in
 * the name.
 */
#include <dirent.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static char dir[] = "/dev/shm/verbena-verbs-XXXXXX";
static char spare[] = "/tmp/verbena-verbs-XXXXXX";
static const char *made;
static pid_t maker;

static int reserve(unsigned int port)
{
	struct sockaddr_un token = { .sun_family = AF_UNIX };
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	int n = snprintf(token.sun_path + 1, sizeof(token.sun_path) - 1, "verbena-test-port-%u",
			 port);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int udp, free_;

	if (bind(fd, (struct sockaddr *)&token, offsetof(struct sockaddr_un, sun_path) + 1 + n)) {
		close(fd);
		return 0;
	}
	udp = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	free_ = udp < 0 || bind(udp, (struct sockaddr *)&any, sizeof(any)) == 0;
	close(udp);
	if (!free_)
		close(fd);
	return free_;	/* the token stays open as long as the program */
}

static __attribute__((constructor)) void reserve_place(void)
{
	char port[8];

	if (!getenv("VERBENA_UDP_PORT")) {
		unsigned int n = 20000 + getpid() % 12000;

		while (!reserve(n))
			n = n == 31999 ? 20000 : n + 1;
		snprintf(port, sizeof(port), "%u", n);
		setenv("VERBENA_UDP_PORT", port, 1);
	}
	if (!getenv("VERBENA_DIR")) {
		made = mkdtemp(dir) ? dir : mkdtemp(spare);
		maker = getpid();
		if (made)
			setenv("VERBENA_DIR", made, 1);
	}
}

/* Removes files and directories at any depth. */
static void remove_tree(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	char name[512];

	while (d && (e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
		if (e->d_type == DT_DIR)
			remove_tree(name);
		else
			unlink(name);
	}
	if (d)
		closedir(d);
	rmdir(path);
}

static __attribute__((destructor)) void remove_place(void)
{
	if (made && maker == getpid())
		remove_tree(made);
}
