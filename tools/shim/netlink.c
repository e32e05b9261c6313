/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets are identified by their kernel cookie, so a descriptor that was closed and reused is not
 * taken for one of ours.  Lock-free: the cookies are a ring of atomic words.
 */
#include "netlink.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/netlink.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "nldev.h"
#include "util/atomic.h"

enum {
	SOCKETS = 64,		/* that a program may have open at a time */
	ROOM = 4 << 20,		/* for answers that are not read yet */
};

static uint64_t cookies[SOCKETS];
static uint32_t made;

static uint64_t cookie_of(int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len) == 0 ? cookie : 0;
}

static nldev_answer_fn *load_module(void)
{
	static nldev_answer_fn *fn;
	char path[PATH_MAX];
	Dl_info self;
	void *module;

	if (load_acquire(&fn))
		return load_acquire(&fn);
	if (!dladdr((const void *)shim_netlink_open, &self) || !strrchr(self.dli_fname, '/'))
		return NULL;
	snprintf(path, sizeof(path), "%.*s/%s",
		 (int)(strrchr(self.dli_fname, '/') - self.dli_fname), self.dli_fname,
		 NLDEV_MODULE);
	module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (module)
		store_release(&fn, (nldev_answer_fn *)dlsym(module, NLDEV_ENTRY));
	return load_acquire(&fn);
}

int shim_netlink_open(const char *tree, int type, int (*make)(int domain, int type, int protocol))
{
	uint64_t cookie;
	int room = ROOM;
	int fd;

	if (!tree[0] || syscall(SYS_faccessat, AT_FDCWD, tree, F_OK) || !load_module())
		return -1;
	fd = make(AF_NETLINK, type, NETLINK_USERSOCK);
	cookie = fd < 0 ? 0 : cookie_of(fd);
	if (!cookie) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) < 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	store_release(&cookies[fetch_add_relaxed(&made, 1) % SOCKETS], cookie);
	return fd;
}

bool shim_netlink_is_ours(int fd)
{
	int saved = errno;
	uint64_t cookie;
	bool ours = false;

	if (!load_relaxed(&made))
		return false;
	cookie = cookie_of(fd);
	for (unsigned int i = 0; i < SOCKETS && cookie; i++)
		ours |= load_acquire(&cookies[i]) == cookie;
	errno = saved;
	return ours;
}

/* The kernel names a socket at its first message, but ours never send to the kernel. */
static uint32_t name_of(int fd)
{
	struct sockaddr_nl nl = { .nl_family = AF_NETLINK };
	socklen_t len = sizeof(nl);

	if (getsockname(fd, (struct sockaddr *)&nl, &len) < 0)
		return 0;
	if (nl.nl_pid)
		return nl.nl_pid;
	len = sizeof(nl);
	nl = (struct sockaddr_nl){ .nl_family = AF_NETLINK };
	if (bind(fd, (struct sockaddr *)&nl, len) < 0 ||
	    getsockname(fd, (struct sockaddr *)&nl, &len) < 0)
		return 0;
	return nl.nl_pid;
}

struct receiver {
	int from;
	struct sockaddr_nl to;
};

/* Answers that do not fit are lost, as the kernel's are; a reader of the end notices. */
static void put(void *arg, const void *data, size_t len)
{
	struct receiver *r = arg;
	struct iovec iov = { (void *)data, len };
	struct msghdr mh = {
		.msg_name = &r->to, .msg_namelen = sizeof(r->to), .msg_iov = &iov, .msg_iovlen = 1
	};

	syscall(SYS_sendmsg, r->from, &mh, MSG_DONTWAIT);
}

void shim_netlink_answer(const char *tree, int fd, const void *data, size_t len)
{
	struct receiver r = { .to = { .nl_family = AF_NETLINK, .nl_pid = name_of(fd) } };
	int saved = errno;

	r.from = (int)syscall(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK);
	if (r.from >= 0 && r.to.nl_pid)
		load_module()(tree, r.to.nl_pid, data, len, put, &r);
	if (r.from >= 0)
		close(r.from);
	errno = saved;
}
