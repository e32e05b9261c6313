/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See control.h. Owns the socket and an eventfd; runs in the progress thread and holds no lock on
 * entry.
 */
#include "core/fault/control.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/fault/held.h"
#include "core/fault/mads.h"
#include "core/fault/plan.h"
#include "core/fault/taps.h"
#include "core/base/state.h"
#include "host/host.h"
#include "run/clock.h"
#include "run/log.h"
#include "run/progress.h"
#include "util/cancel.h"
#include "util/time.h"

static int requests = -1;
static int pokes = -1;	/* eventfd */

struct request {
	char text[VRB_FAULTS_TEXT + 16];
	size_t len;
	int answer_to;		/* -1: none came with it */
	bool allowed;
	bool whole;
};

/* The descriptor of a request; any further ones are closed. */
static void take_descriptors(struct request *r, const struct cmsghdr *c)
{
	size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

	for (size_t i = 0; i < n; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
		if (r->answer_to < 0)
			r->answer_to = fd;
		else
			close(fd);
	}
}

static void take_sender(struct request *r, const struct cmsghdr *c)
{
	struct ucred cred;

	if (c->cmsg_len != CMSG_LEN(sizeof(cred)))
		return;
	memcpy(&cred, CMSG_DATA(c), sizeof(cred));
	r->allowed = cred.uid == geteuid() || cred.uid == 0;
}

/* False: there is none. */
static bool receive(int fd, struct request *r)
{
	union {
		char buf[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { r->text, sizeof(r->text) };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf,
			     .msg_controllen = sizeof(control.buf) };
	ssize_t n = recvmsg(fd, &mh, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	r->answer_to = -1;
	r->allowed = false;
	if (n < 0)
		return false;
	r->len = (size_t)n;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&mh); c; c = CMSG_NXTHDR(&mh, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
			take_descriptors(r, c);
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS)
			take_sender(r, c);
	}
	r->whole = !(mh.msg_flags & MSG_TRUNC);
	return true;
}

/* Skips the first line, if it is `command`. */
static bool is_command(const struct request *r, const char *command, const char **rules)
{
	size_t n = strlen(command);

	if (r->len <= n || memcmp(r->text, command, n) != 0 || r->text[n] != '\n')
		return false;
	*rules = r->text + n + 1;
	return true;
}

/* Does not block: what a client does not take is lost to it. */
static void send_text(int to, const char *text, size_t len)
{
	if (to >= 0 && send(to, text, len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		log_debug(LOG_FAULT, "the client of the control socket has gone: %m");
}

static void send_rules(int to)
{
	static const char ok[] = "ok\n";
	char *text = malloc(sizeof(ok) + VRB_FAULTS_TEXT);
	size_t len = sizeof(ok) - 1;

	if (!text)
		return;
	memcpy(text, ok, len);
	len += vrb_faults_list(text + len);
	send_text(to, text, len);
	free(text);
}

/* Nothing of the rules is left, nor what they hold back. */
static void clear(void)
{
	vrb_faults_clear();
	vrb_fault_mads_forget();
	vrb_held_release_all();
}

static void execute(const struct request *r)
{
	char error[VRB_FAULTS_ERROR] = "not understood";
	bool good = r->whole;
	const char *rules;

	if (!r->whole)
		snprintf(error, sizeof(error), "the rules have more than %d bytes",
			 VRB_FAULTS_TEXT);
	else if (is_command(r, "add", &rules))
		good = vrb_faults_add("rules", rules, (size_t)(r->text + r->len - rules), error);
	else if (is_command(r, "clear", &rules))
		clear();
	else
		good = is_command(r, "list", &rules);
	vrb_fault_taps_update();
	if (good)
		send_rules(r->answer_to);
	else
		send_text(r->answer_to, error, strlen(error));
}

/* Its client has closed the other end, and told its user that nothing has changed. */
static bool is_withdrawn(const struct request *r)
{
	struct pollfd pfd = { .fd = r->answer_to };

	return r->answer_to >= 0 && poll(&pfd, 1, 0) == 1 && (pfd.revents & (POLLHUP | POLLERR));
}

/* False: there was none. */
static bool take_request(int fd)
{
	struct request *r = malloc(sizeof(*r));
	bool any = r && receive(fd, r);

	if (any && r->allowed && !is_withdrawn(r))
		execute(r);
	if (any && r->answer_to >= 0)
		close(r->answer_to);
	free(r);
	return any;
}

static bool on_request(void *arg, int fd)
{
	return take_request(fd);
}

static bool open_socket(const struct sockaddr_un *sun)
{
	int on = 1;

	requests = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (requests < 0)
		return false;
	unlink(sun->sun_path);
	return bind(requests, (const struct sockaddr *)sun, sizeof(*sun)) == 0 &&
	       chmod(sun->sun_path, 0600) == 0 &&
	       setsockopt(requests, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0 &&
	       progress_watch(vrb.progress, requests, PROGRESS_OWN, on_request, NULL) == 0;
}

/* Until `end`, or earlier. */
static void wait_for_request(uint64_t end)
{
	struct pollfd pfd = { .fd = requests, .events = POLLIN };
	uint64_t now = clock_now(), left = end > now ? end - now : 0;
	const struct timespec limit = {
		.tv_sec = (time_t)(left / VRB_SECOND),
		.tv_nsec = (long)(left % VRB_SECOND),
	};

	if (ppoll(&pfd, 1, &limit, NULL) > 0)
		take_request(requests);
}

/* A stall stops this thread, except for requests: one of them may end it. */
static bool on_poke(void *arg, int fd)
{
	eventfd_t n;
	uint64_t stalled;

	eventfd_read(fd, &n);
	while ((stalled = vrb_faults_settle_until_stall()))
		wait_for_request(stalled);
	return false;
}

void vrb_fault_control_poke(void)
{
	uint64_t one = 1;
	ssize_t n = pokes < 0 ? 0 : sys_write(pokes, &one, sizeof(one));

	if (n < 0)
		log_debug(LOG_FAULT, "eventfd: %s", strerror((int)-n));
}

static void start_pokes(void)
{
	pokes = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (pokes < 0 || !progress_watch(vrb.progress, pokes, PROGRESS_OWN, on_poke, NULL))
		return;
	close(pokes);
	pokes = -1;
}

static void close_both(void)
{
	if (requests >= 0)
		close(requests);
	if (pokes >= 0)
		close(pokes);
	requests = pokes = -1;
}

void vrb_fault_control_start(void)
{
	struct sockaddr_un sun;

	start_pokes();
	vrb_held_start();
	if (!host_shared(vrb.host) ||
	    host_socket_address(vrb.host, host_slot(vrb.host), "faults", &sun))
		return;
	if (open_socket(&sun))
		return;
	log_debug(LOG_FAULT, "%s: %m", sun.sun_path);
	if (requests >= 0)
		close(requests);
	requests = -1;
}

void vrb_fault_control_stop(void)
{
	if (requests >= 0)
		progress_unwatch(vrb.progress, requests);
	if (pokes >= 0)
		progress_unwatch(vrb.progress, pokes);
	close_both();
	vrb_held_stop();
}

void vrb_fault_control_forget(void)
{
	close_both();
	vrb_fault_mads_after_fork();
	vrb_held_forget();
}
