/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/claim.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "run/config.h"
#include "run/log.h"

enum {
	BACKLOG = 4096,		/* processes that one claim serves; the kernel may allow fewer */
	LISTENS = 1 << 16,	/* flag in /proc/net/unix */
};

/* The group and a number unique to the process follow. */
static int print_port(char *to, size_t cap, uint16_t port)
{
	return snprintf(to, cap, "verbena-udp-%u-", port);
}

static int open_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static socklen_t address_length(size_t name)
{
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + name);
}

int claim_port(uint16_t port, uint64_t group)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	const size_t cap = sizeof(sun.sun_path) - 1;
	int fd = open_socket();
	int len, err;

	if (fd < 0)
		return -1;
	len = print_port(sun.sun_path + 1, cap, port);
	len += snprintf(sun.sun_path + 1 + len, cap - (size_t)len, "%016" PRIx64 "-%016" PRIx64,
			group, config_random());
	if (bind(fd, (struct sockaddr *)&sun, address_length((size_t)len)) == 0 &&
	    listen(fd, BACKLOG) == 0)
		return fd;
	err = errno;
	log_debug(LOG_WIRE, "cannot claim UDP port %u for this run directory: %m", port);
	close(fd);
	errno = err;
	return -1;
}

/*
 * Calls fn with each name of a claim of others until it returns true; returns whether it did. The
 * kernel also lists connections, under the name of their claim: they do not listen.
 */
static bool find(uint16_t port, uint64_t group, bool listening,
		 bool (*fn)(const char *name, void *arg), void *arg)
{
	FILE *f = fopen("/proc/net/unix", "re");
	char line[512], wanted[32];
	bool found = false;

	/* The kernel shows the zero byte of an abstract name like this. */
	wanted[0] = '@';
	print_port(wanted + 1, sizeof(wanted) - 1, port);
	while (f && !found && fgets(line, sizeof(line), f)) {
		char *name = strstr(line, wanted);
		unsigned int flags;
		uint64_t other;

		if (listening && (sscanf(line, "%*s %*s %*s %x", &flags) != 1 ||
				  !(flags & LISTENS)))
			continue;
		if (!name || sscanf(name + strlen(wanted), "%16" SCNx64, &other) != 1 ||
		    other == group)
			continue;
		name[strcspn(name, "\n")] = '\0';
		found = fn(name + 1, arg);
	}
	if (f)
		fclose(f);
	return found;
}

static bool any(const char *name, void *arg)
{
	return true;
}

bool claim_of_others(uint16_t port, uint64_t group)
{
	return find(port, group, false, any, NULL);
}

/* Returns false if nobody holds the port; *user is left alone if the kernel does not say. */
static bool find_user(const char *list, uint16_t port, uid_t *user)
{
	FILE *f = fopen(list, "re");
	char line[512];
	bool found = !f;

	while (!found && fgets(line, sizeof(line), f)) {
		unsigned int local, owner;

		found = sscanf(line, " %*u: %*[^:]:%x %*s %*s %*s %*s %*s %u", &local,
			       &owner) == 2 && local == port;
		if (found)
			*user = owner;
	}
	if (f)
		fclose(f);
	return found;
}

struct connection {
	int fd;
	int err;		/* why there is none */
	uid_t user;		/* who holds the port; -1: unknown */
};

/*
 * Others may make claims to a port that they do not hold. A process of an earlier version has a
 * claim that cannot be connected to, and does not relay.
 */
static bool connect_to(const char *name, void *arg)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct connection *c = arg;
	struct ucred owner;
	socklen_t len = sizeof(owner);
	size_t n = strlen(name);

	if (n > sizeof(sun.sun_path) - 1)
		return false;
	memcpy(sun.sun_path + 1, name, n);
	c->fd = open_socket();
	if (c->fd < 0) {
		c->err = errno;
		return false;
	}
	if (connect(c->fd, (struct sockaddr *)&sun, address_length(n)) < 0) {
		if (errno == EAGAIN)
			c->err = EAGAIN;
	} else if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &owner, &len) == 0 &&
		   (c->user == (uid_t)-1 || c->user == owner.uid)) {
		c->user = owner.uid;
		return true;
	}
	close(c->fd);
	return false;
}

int claim_connect(uint16_t port, uint64_t group, uid_t *user)
{
	struct connection c = { .err = EADDRINUSE, .user = (uid_t)-1 };

	if (!find_user("/proc/net/udp", port, &c.user) &&
	    !find_user("/proc/net/udp6", port, &c.user)) {
		errno = ENOENT;
		return -1;
	}
	if (find(port, group, true, connect_to, &c)) {
		*user = c.user;
		return c.fd;
	}
	if (c.err == EAGAIN)
		*user = c.user;
	errno = c.err;
	return -1;
}
