/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libverbena-preload.so: for programs that look for RDMA devices in /sys and /dev before calling
 * verbs, or without calling them.
 *
 * Calls that take a path see the places
 *
 *	/sys/class/infiniband[/...]   /sys/class/infiniband_verbs[/...]   /dev/infiniband[/...]
 *	/sys/devices/DEVICE[/...], the target of relative links
 *
 * in the tree that the library keeps in its run directory (core/device/sysfs_tree.h), and
 * NETLINK_RDMA sockets are emulated (netlink.h).  All other calls, and all calls if there is no
 * tree, go to libc unchanged.  Files in the tree are real, so descriptors need no further
 * emulation.
 *
 * Owns nothing but the tree's path, found at the first use of such a place.  Takes no lock except
 * pthread_once's; rewriting a path keeps errno.  Programs that make system calls themselves (static
 * ones, Go) are not covered.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "counter.h"
#include "host/dir.h"
#include "netlink.h"
#include "util/compiler.h"

#define EXPORT __attribute__((visibility("default")))

static const struct {
	const char *place;
	const char *in_tree;
	bool devices;		/* only for devices of ours */
} places[] = {
	{ "/sys/class/infiniband_verbs", "class/infiniband_verbs" },
	{ "/sys/class/infiniband", "class/infiniband" },
	{ "/dev/infiniband", "dev/infiniband" },
	{ "/sys/devices", "devices", true },
};

static char tree[PATH_MAX];
static pthread_once_t tree_once = PTHREAD_ONCE_INIT;

static void find_tree(void)
{
	if (host_tree_path(tree, sizeof(tree)))
		tree[0] = '\0';
}

/*
 * The part of path after `place`, "" or starting with a slash; NULL if path is elsewhere.  Repeated
 * slashes count as one.
 */
static const char *below(const char *path, const char *place)
{
	while (*place) {
		if (*path != *place)
			return NULL;
		if (*path == '/')
			while (path[1] == '/')
				path++;
		path++;
		place++;
	}
	return *path == '\0' || *path == '/' ? path : NULL;
}

static bool is_there(const char *path)
{
	return syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
}

/* True if the part after /sys/devices is a device of ours.  Uses buf. */
static bool our_device(const char *rest, char buf[PATH_MAX])
{
	size_t len = strcspn(rest + strspn(rest, "/"), "/") + strspn(rest, "/");

	if (len < 2 || !tree[0])
		return false;
	return snprintf(buf, PATH_MAX, "%s/devices%.*s", tree, (int)len, rest) < PATH_MAX &&
	       is_there(buf);
}

/* Translates a path for libc. */
static const char *seen(const char *path, char buf[PATH_MAX])
{
	int saved = errno;

	if (likely(!path || path[0] != '/' || (path[1] != 's' && path[1] != 'd' && path[1] != '/')))
		return path;
	for (unsigned int i = 0; i < ARRAY_SIZE(places); i++) {
		const char *rest = below(path, places[i].place);

		if (!rest)
			continue;
		pthread_once(&tree_once, find_tree);
		if (!tree[0] || (places[i].devices && !our_device(rest, buf)))
			break;
		if (snprintf(buf, PATH_MAX, "%s/%s%s", tree, places[i].in_tree, rest) < PATH_MAX)
			path = buf;
		break;
	}
	errno = saved;
	return path;
}

/* Some programs resolve the name first, and open the result. */
static bool in_tree(const char *real)
{
	return real && tree[0] && strncmp(real, tree, strlen(tree)) == 0;
}

/* libc's function with the name that is being defined. */
#define NEXT(name) ((__typeof__(&name))next(&next_##name, #name))
#define DECLARE_NEXT(name) static void *next_##name

static void *next(void **slot, const char *name)
{
	void *fn = __atomic_load_n(slot, __ATOMIC_RELAXED);

	if (unlikely(!fn)) {
		fn = dlsym(RTLD_NEXT, name);
		__atomic_store_n(slot, fn, __ATOMIC_RELAXED);
	}
	return fn;
}

/* open() has a third argument only if it creates a file. */
#define MODE_OF(flags, last)                                                                       \
	({                                                                                         \
		mode_t mode_ = 0;                                                                  \
		if ((flags) & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))) {                            \
			va_list ap_;                                                               \
			va_start(ap_, last);                                                       \
			mode_ = (mode_t)va_arg(ap_, int);                                          \
			va_end(ap_);                                                               \
		}                                                                                  \
		mode_;                                                                             \
	})

#define DEFINE_OPEN(name)                                                                          \
	DECLARE_NEXT(name);                                                                        \
	EXPORT int name(const char *path, int flags, ...)                                          \
	{                                                                                          \
		char buf[PATH_MAX];                                                                \
		mode_t mode = MODE_OF(flags, flags);                                               \
		const char *real = seen(path, buf);                                                \
		int fd = NEXT(name)(real, flags, mode);                                            \
		if (in_tree(real))                                                                 \
			shim_counter_opened(fd, real, __builtin_return_address(0));                \
		return fd;                                                                         \
	}

#define DEFINE_OPENAT(name)                                                                        \
	DECLARE_NEXT(name);                                                                        \
	EXPORT int name(int dir, const char *path, int flags, ...)                                 \
	{                                                                                          \
		char buf[PATH_MAX];                                                                \
		mode_t mode = MODE_OF(flags, flags);                                               \
		return NEXT(name)(dir, seen(path, buf), flags, mode);                              \
	}

/* Other calls: result, parameters, and arguments with seen(path, buf) as the path. */
#define DEFINE(ret, name, params, args)                                                            \
	DECLARE_NEXT(name);                                                                        \
	EXPORT ret name params                                                                     \
	{                                                                                          \
		char buf[PATH_MAX];                                                                \
		return NEXT(name) args;                                                            \
	}

/* Not in musl's headers. */
struct statx;
int statx(int dir, const char *path, int flags, unsigned int mask, struct statx *st);
char *canonicalize_file_name(const char *path);

/* Called by programs compiled with _FORTIFY_SOURCE, or built before glibc 2.33. */
int __open_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);
char *__realpath_chk(const char *path, char *out, size_t size);
ssize_t __readlink_chk(const char *path, char *out, size_t size, size_t room);
ssize_t __readlinkat_chk(int dir, const char *path, char *out, size_t size, size_t room);
int __xstat(int version, const char *path, struct stat *st);
int __lxstat(int version, const char *path, struct stat *st);
int __fxstatat(int version, int dir, const char *path, struct stat *st, int flags);

DEFINE_OPEN(open)
DEFINE_OPENAT(openat)
DEFINE(int, __open_2, (const char *path, int flags), (seen(path, buf), flags))
DEFINE(int, __openat_2, (int dir, const char *path, int flags), (dir, seen(path, buf), flags))
DEFINE(FILE *, fopen, (const char *path, const char *mode), (seen(path, buf), mode))
DEFINE(FILE *, freopen, (const char *path, const char *mode, FILE *f), (seen(path, buf), mode, f))

DEFINE(int, stat, (const char *path, struct stat *st), (seen(path, buf), st))
DEFINE(int, lstat, (const char *path, struct stat *st), (seen(path, buf), st))
DEFINE(int, fstatat, (int dir, const char *path, struct stat *st, int flags),
       (dir, seen(path, buf), st, flags))
DEFINE(int, statx, (int dir, const char *path, int flags, unsigned int mask, struct statx *st),
       (dir, seen(path, buf), flags, mask, st))
DEFINE(int, __xstat, (int version, const char *path, struct stat *st),
       (version, seen(path, buf), st))
DEFINE(int, __lxstat, (int version, const char *path, struct stat *st),
       (version, seen(path, buf), st))
DEFINE(int, __fxstatat, (int version, int dir, const char *path, struct stat *st, int flags),
       (version, dir, seen(path, buf), st, flags))

DEFINE(int, access, (const char *path, int mode), (seen(path, buf), mode))
DEFINE(int, euidaccess, (const char *path, int mode), (seen(path, buf), mode))
DEFINE(int, eaccess, (const char *path, int mode), (seen(path, buf), mode))
DEFINE(int, faccessat, (int dir, const char *path, int mode, int flags),
       (dir, seen(path, buf), mode, flags))

DEFINE(DIR *, opendir, (const char *path), (seen(path, buf)))
DEFINE(int, chdir, (const char *path), (seen(path, buf)))
DEFINE(int, scandir,
       (const char *path, struct dirent ***list, int (*filter)(const struct dirent *),
	int (*compare)(const struct dirent **, const struct dirent **)),
       (seen(path, buf), list, filter, compare))

DEFINE(ssize_t, getxattr, (const char *path, const char *name, void *value, size_t size),
       (seen(path, buf), name, value, size))
DEFINE(ssize_t, lgetxattr, (const char *path, const char *name, void *value, size_t size),
       (seen(path, buf), name, value, size))
DEFINE(ssize_t, listxattr, (const char *path, char *list, size_t size),
       (seen(path, buf), list, size))
DEFINE(ssize_t, llistxattr, (const char *path, char *list, size_t size),
       (seen(path, buf), list, size))

DEFINE(ssize_t, readlink, (const char *path, char *out, size_t size), (seen(path, buf), out, size))
DEFINE(ssize_t, readlinkat, (int dir, const char *path, char *out, size_t size),
       (dir, seen(path, buf), out, size))
DEFINE(ssize_t, __readlink_chk, (const char *path, char *out, size_t size, size_t room),
       (seen(path, buf), out, size, room))
DEFINE(ssize_t, __readlinkat_chk, (int dir, const char *path, char *out, size_t size, size_t room),
       (dir, seen(path, buf), out, size, room))
DEFINE(char *, realpath, (const char *path, char *out), (seen(path, buf), out))
DEFINE(char *, __realpath_chk, (const char *path, char *out, size_t size),
       (seen(path, buf), out, size))
DEFINE(char *, canonicalize_file_name, (const char *path), (seen(path, buf)))

#ifdef HAVE_STAT64	/* musl has one width of off_t */
int __open64_2(const char *path, int flags);
int __openat64_2(int dir, const char *path, int flags);
int __xstat64(int version, const char *path, struct stat64 *st);
int __lxstat64(int version, const char *path, struct stat64 *st);
int __fxstatat64(int version, int dir, const char *path, struct stat64 *st, int flags);

DEFINE_OPEN(open64)
DEFINE_OPENAT(openat64)
DEFINE(int, __open64_2, (const char *path, int flags), (seen(path, buf), flags))
DEFINE(int, __openat64_2, (int dir, const char *path, int flags), (dir, seen(path, buf), flags))
DEFINE(FILE *, fopen64, (const char *path, const char *mode), (seen(path, buf), mode))
DEFINE(int, stat64, (const char *path, struct stat64 *st), (seen(path, buf), st))
DEFINE(int, lstat64, (const char *path, struct stat64 *st), (seen(path, buf), st))
DEFINE(int, fstatat64, (int dir, const char *path, struct stat64 *st, int flags),
       (dir, seen(path, buf), st, flags))
DEFINE(int, __xstat64, (int version, const char *path, struct stat64 *st),
       (version, seen(path, buf), st))
DEFINE(int, __lxstat64, (int version, const char *path, struct stat64 *st),
       (version, seen(path, buf), st))
DEFINE(int, __fxstatat64, (int version, int dir, const char *path, struct stat64 *st, int flags),
       (version, dir, seen(path, buf), st, flags))
DEFINE(int, scandir64,
       (const char *path, struct dirent64 ***list, int (*filter)(const struct dirent64 *),
	int (*compare)(const struct dirent64 **, const struct dirent64 **)),
       (seen(path, buf), list, filter, compare))
#endif

/* ---- Counters ---- */

static void *next_read;

static __attribute__((noinline)) ssize_t read_counter(int fd, void *data, size_t size)
{
	char path[PATH_MAX];
	bool counter = shim_counter_at_start(fd, path, sizeof(path));
	ssize_t n = NEXT(read)(fd, data, size); /* leaves the offset at the end of the file */
	ssize_t now = counter && n > 0 ? shim_counter_now(path, data, size) : -1;

	return now > 0 ? now : n;
}

EXPORT ssize_t read(int fd, void *data, size_t size)
{
	return likely(!shim_counter_any()) ? NEXT(read)(fd, data, size)
					   : read_counter(fd, data, size);
}

/* ---- NETLINK_RDMA ---- */

static void *next_socket, *next_send, *next_sendto, *next_sendmsg;

EXPORT int socket(int domain, int type, int protocol)
{
	int fd = -1;

	if (unlikely(domain == AF_NETLINK && protocol == NETLINK_RDMA)) {
		pthread_once(&tree_once, find_tree);
		fd = shim_netlink_open(tree, type, NEXT(socket));
	}
	return fd >= 0 ? fd : NEXT(socket)(domain, type, protocol);
}

static ssize_t answered(int fd, const void *data, size_t len)
{
	shim_netlink_answer(tree, fd, data, len);
	return (ssize_t)len;
}

EXPORT ssize_t send(int fd, const void *data, size_t len, int flags)
{
	return shim_netlink_is_ours(fd) ? answered(fd, data, len)
					: NEXT(send)(fd, data, len, flags);
}

EXPORT ssize_t sendto(int fd, const void *data, size_t len, int flags, const struct sockaddr *to,
		      socklen_t to_len)
{
	return shim_netlink_is_ours(fd) ? answered(fd, data, len)
					: NEXT(sendto)(fd, data, len, flags, to, to_len);
}

/* Joins requests in several pieces.  A request of more than a page is sent to the kernel. */
EXPORT ssize_t sendmsg(int fd, const struct msghdr *mh, int flags)
{
	char whole[4096] __attribute__((aligned(8)));
	size_t len = 0;

	if (!shim_netlink_is_ours(fd))
		return NEXT(sendmsg)(fd, mh, flags);
	for (size_t i = 0; i < (size_t)mh->msg_iovlen; i++) {
		if (mh->msg_iov[i].iov_len > sizeof(whole) - len) {
			errno = EMSGSIZE;
			return -1;
		}
		memcpy(whole + len, mh->msg_iov[i].iov_base, mh->msg_iov[i].iov_len);
		len += mh->msg_iov[i].iov_len;
	}
	return answered(fd, whole, len);
}
