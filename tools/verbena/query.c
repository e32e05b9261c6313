/* SPDX-License-Identifier: BSD-2-Clause */
/* See query.h.  The JSON parser checks answers; their values are only used by name. */
#include "query.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <json-c/json.h>

#include "host/dir.h"
#include "run/config.h"

enum {
	WAIT_MS = 1000,		/* for each of many processes */
	/* for a single process: on a busy machine it may answer slowly */
	LONG_WAIT_MS = 10000,
	MAX_ANSWER = 64 << 20,
};

enum outcome { ANSWERED, GONE, SILENT };

int query_pid(const char *word)
{
	char *end;
	long pid = strtol(word, &end, 10);

	return *word && !*end && pid > 0 && pid <= INT32_MAX ? (int)pid : 0;
}

/* A long directory name is reached through its descriptor. */
static struct sockaddr_un address_of(const struct host_run_dir *dir, const char *name)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };

	if (snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/%s", dir->path, name) >=
	    (int)sizeof(sun.sun_path))
		snprintf(sun.sun_path, sizeof(sun.sun_path), "/proc/self/fd/%d/%.32s", dir->fd,
			 name);
	return sun;
}

/* Returns -1 with EAGAIN if earlier requests are not accepted yet. */
static int connect_to(const struct host_run_dir *dir, const char *name)
{
	struct sockaddr_un sun = address_of(dir, name);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), saved;

	if (fd < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&sun, sizeof(sun)) == 0)
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

/* The descriptor sent along with the answer; -1: none. */
static int receive_file(int from)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf,
			     .msg_controllen = sizeof(control.buf) };
	struct cmsghdr *c;
	int file;

	if (recvmsg(from, &mh, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) != 1)
		return -1;
	c = CMSG_FIRSTHDR(&mh);
	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
	    c->cmsg_len != CMSG_LEN(sizeof(int)))
		return -1;
	memcpy(&file, CMSG_DATA(c), sizeof(file));
	return file;
}

static struct json_object *read_json(int file)
{
	struct json_object *o = NULL;
	struct stat st;
	char *text;
	ssize_t n;

	if (fstat(file, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > MAX_ANSWER)
		return NULL;
	text = malloc((size_t)st.st_size + 1);
	n = text ? pread(file, text, (size_t)st.st_size, 0) : -1;
	if (n >= 0) {
		text[n] = '\0';
		o = json_tokener_parse(text);
	}
	free(text);
	if (o && !json_object_is_type(o, json_type_object)) {
		json_object_put(o);
		o = NULL;
	}
	return o;
}

/*
 * The peer's PID in this namespace, from the kernel; the answer itself may hold another
 * namespace's. 0: unknown.
 */
static int peer_pid(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 ? cred.pid : 0;
}

static enum outcome read_answer(int fd, int wait_ms, struct json_object **out)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	int ready = poll(&pfd, 1, wait_ms);
	int file = ready > 0 ? receive_file(fd) : -1;

	*out = file >= 0 ? read_json(file) : NULL;
	if (file >= 0)
		close(file);
	return *out ? ANSWERED : ready > 0 ? GONE : SILENT;
}

static bool has_pid(struct json_object *o, int pid)
{
	return json_object_get_int(json_object_object_get(o, "pid")) == pid;
}

/* pid: the requested process; 0: any. */
static enum outcome query_one(const struct host_run_dir *dir, const char *name, int pid,
			      struct json_object **out)
{
	int fd = connect_to(dir, name), peer;
	enum outcome outcome = GONE;

	if (fd < 0)
		return errno == EAGAIN ? SILENT : GONE;
	peer = peer_pid(fd);
	if (!pid || !peer || peer == pid)
		outcome = read_answer(fd, pid && peer ? LONG_WAIT_MS : WAIT_MS, out);
	if (outcome == ANSWERED && peer)
		json_object_object_add(*out, "pid", json_object_new_int(peer));
	/* Of another namespace: it has told its own. */
	if (pid && !peer && (outcome == SILENT || (outcome == ANSWERED && !has_pid(*out, pid)))) {
		json_object_put(*out);
		outcome = GONE;
	}
	close(fd);
	return outcome;
}

static int is_socket(const struct dirent *e)
{
	const char *suffix = strrchr(e->d_name, '.');

	return e->d_name[0] == 's' && suffix && strcmp(suffix, ".query") == 0;
}

int query_process(int pid, query_fn fn, void *arg, int *silent)
{
	struct host_run_dir dir;
	struct dirent **list;
	int n, answered = 0;

	if (silent)
		*silent = 0;
	if (host_dir_open(config_get()->dir, &dir))
		return -1;
	n = scandir(dir.path, &list, is_socket, alphasort);
	for (int i = 0; i < n; i++) {
		struct json_object *o = NULL;
		enum outcome outcome = query_one(&dir, list[i]->d_name, pid, &o);

		free(list[i]);
		if (outcome == SILENT && silent)
			++*silent;
		if (outcome != ANSWERED)
			continue;
		answered++;
		if (fn(o, arg))
			json_object_put(o);
	}
	if (n >= 0)
		free(list);
	close(dir.fd);
	return answered;
}

int query_all(query_fn fn, void *arg, int *silent)
{
	return query_process(0, fn, arg, silent);
}

/* Is the socket of this name the process's? 0, ESRCH, or ETIMEDOUT: its process accepts nobody. */
static int check_owner(const struct host_run_dir *dir, const char *name, int pid)
{
	int fd = connect_to(dir, name), err = ESRCH;

	if (fd < 0)
		return errno == EAGAIN ? ETIMEDOUT : ESRCH;
	if (peer_pid(fd) == pid)
		err = 0;
	close(fd);
	return err;
}

/* "sNNNN.KIND" of the process. Returns 0 or an errno value as above. */
static int find_socket(const struct host_run_dir *dir, int pid, const char *kind, char name[32])
{
	struct dirent **list;
	int n = scandir(dir->path, &list, is_socket, alphasort), err = ESRCH;

	for (int i = 0; i < n; i++) {
		int of_this = err ? check_owner(dir, list[i]->d_name, pid) : ESRCH;

		if (!of_this)
			snprintf(name, 32, "%.5s.%.20s", list[i]->d_name, kind);
		if (of_this != ESRCH)
			err = of_this;
		free(list[i]);
	}
	if (n >= 0)
		free(list);
	return err;
}

/* With one end of a socket pair, to which the answer is to be sent. */
static ssize_t send_request(int fd, const struct sockaddr_un *to, const void *request, size_t len,
			    int answer_to)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec iov = { (void *)(uintptr_t)request, len };
	struct msghdr mh = { .msg_name = (void *)(uintptr_t)to, .msg_namelen = sizeof(*to),
			     .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf,
			     .msg_controllen = sizeof(control.buf) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&mh);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &answer_to, sizeof(answer_to));
	return sendmsg(fd, &mh, MSG_NOSIGNAL);
}

static ssize_t exchange(const struct sockaddr_un *to, const void *request, size_t len,
			void *answer, size_t cap)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), pair[2];
	struct pollfd pfd = { .events = POLLIN };
	ssize_t n = -1;
	int saved;

	if (fd < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0) {
		n = send_request(fd, to, request, len, pair[1]);
		saved = errno;
		close(pair[1]);
		errno = saved;
		pfd.fd = pair[0];
		if (n >= 0 && poll(&pfd, 1, LONG_WAIT_MS) == 1)
			n = recv(pair[0], answer, cap, 0);
		else if (n >= 0)
			errno = ETIMEDOUT, n = -1;
		saved = errno;
		close(pair[0]);
		errno = saved;
	}
	saved = errno;
	close(fd);
	errno = n == 0 ? EPERM : saved;
	return n > 0 ? n : -1;
}

ssize_t query_request(int pid, const char *kind, const void *request, size_t len, void *answer,
		      size_t cap)
{
	struct host_run_dir dir;
	struct sockaddr_un to;
	char name[32];
	ssize_t n = -1;
	int err = host_dir_open(config_get()->dir, &dir);

	if (err) {
		errno = err;
		return -1;
	}
	errno = find_socket(&dir, pid, kind, name);
	if (!errno) {
		to = address_of(&dir, name);
		n = exchange(&to, request, len, answer, cap);
	}
	err = errno;
	close(dir.fd);
	errno = err;
	return n;
}
