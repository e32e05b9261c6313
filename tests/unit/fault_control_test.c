/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The control socket of fault rules in the run directory: a datagram changes the rules of the
 * process; an invalid one does not.
 */
#include "core/fault/control.h"

#include "core_env.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/tap.h"
#include "core/fault/held.h"
#include "core/fault/plan.h"
#include "host/host.h"
#include "place.h"
#include "run/clock.h"
#include "util/atomic.h"

enum { WAIT_MS = 60000 };

#define HOUR (3600 * VRB_SECOND)

static struct vrb_context *ctx;
static char dir[64];
static char reply[VRB_FAULTS_TEXT];

/* Sends the text with `n` descriptors; the first one is for the reply. */
static void request(const void *text, size_t len, unsigned int n, int pair[2])
{
	union {
		char buf[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct sockaddr_un sun;
	struct iovec iov = { (void *)(uintptr_t)text, len };
	struct msghdr mh = { .msg_name = &sun, .msg_namelen = sizeof(sun), .msg_iov = &iov,
			     .msg_iovlen = 1 };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_int_equal(host_socket_address(vrb.host, host_slot(vrb.host), "faults", &sun), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	if (n) {
		int fds[2] = { pair[1], pair[1] };
		struct cmsghdr *c;

		mh.msg_control = control.buf;
		mh.msg_controllen = CMSG_SPACE(n * sizeof(int));
		c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	}
	assert_int_equal(sendmsg(fd, &mh, 0), len);
	close(fd);
	close(pair[1]);
}

/* Returns the reply; "": the process closed its end without one. */
static const char *ask_bytes(const void *text, size_t len, unsigned int fds)
{
	struct pollfd pfd = { .events = POLLIN };
	int pair[2];
	ssize_t n;

	request(text, len, fds, pair);
	pfd.fd = pair[0];
	assert_int_equal(poll(&pfd, 1, WAIT_MS), 1);
	n = recv(pair[0], reply, sizeof(reply) - 1, 0);
	close(pair[0]);
	reply[n > 0 ? n : 0] = '\0';
	return reply;
}

static const char *ask(const char *text)
{
	return ask_bytes(text, strlen(text), 1);
}

static void rules_are_added_listed_and_cleared(void **state)
{
	assert_string_equal(ask("list\n"), "ok\n");
	assert_string_equal(ask("add\nwr nth 3 fail ENOMEM"), "ok\nwr nth 3 fail ENOMEM # 0\n");
	assert_true(vrb_faults_on(FAULT_WR));
	assert_string_equal(ask("add\nverb ibv_reg_mr fail EPERM"),
			    "ok\nwr nth 3 fail ENOMEM # 0\nverb ibv_reg_mr fail EPERM # 0\n");
	assert_string_equal(ask("clear\n"), "ok\n");
	assert_false(vrb_faults_on(FAULT_WR));
}

static unsigned int released;	/* counted by the progress thread before it replies */

static bool count_mad(const struct tap_mad *mad)
{
	fetch_add_relaxed(&released, 1);
	return false;
}

static void held_mads_are_released(void **state)
{
	static const struct tap_ops ops = { .mad = count_mad };
	const uint8_t mad[HOST_MAD_LEN] = { 0 };
	const struct net_path path = { 0 };

	vrb_tap_attach(TAP_RECORD, &ops);
	for (int i = 0; i < 3; i++)
		assert_true(vrb_held_keep_mad(&path, mad, FAULT_TX, clock_now() + HOUR));
	assert_string_equal(ask("list\n"), "ok\n");
	assert_int_equal(load_relaxed(&released), 0);
	assert_string_equal(ask("clear\n"), "ok\n");
	assert_int_equal(load_relaxed(&released), 3);
	vrb_tap_attach(TAP_RECORD, NULL);
}

static void *settle_faults(void *arg)
{
	vrb_faults_settle();
	return NULL;
}

/* The progress thread is stalled as well; it continues, and replies. */
static void clear_ends_a_stall(void **state)
{
	const struct fault_queue queue = { .qpn = 1, .qp_index = 1, .direction = FAULT_TX };
	pthread_t stalled;

	assert_string_equal(ask("add\nwr nth 1 stall 3600s"), "ok\nwr nth 1 stall 3600s # 0\n");
	assert_int_equal(vrb_fault_wr(&queue), 0);
	vrb_fault_control_poke();
	assert_int_equal(pthread_create(&stalled, NULL, settle_faults, NULL), 0);
	assert_string_equal(ask("list\n"), "ok\nwr nth 1 stall 3600s # 1\n");
	assert_true(vrb_faults_pending());
	assert_string_equal(ask("clear\n"), "ok\n");
	assert_int_equal(pthread_join(stalled, NULL), 0);
	assert_false(vrb_faults_pending());
}

static void errors_are_replied(void **state)
{
	assert_string_equal(ask("add\nwr txx"),
			    "rules:1:4: expected a selector or an action of this occasion, "
			    "not \"txx\"");
	assert_string_equal(ask("list\n"), "ok\n");
	assert_string_equal(ask("forget\n"), "not understood");
	assert_string_equal(ask("add"), "not understood");
	assert_string_equal(ask(""), "not understood");
}

static void a_truncated_request_is_refused(void **state)
{
	static char text[VRB_FAULTS_TEXT + 4096];

	memset(text, ' ', sizeof(text));
	memcpy(text, "add\nwr kill;", 12);
	assert_string_equal(ask_bytes(text, sizeof(text), 1),
			    "the rules have more than 16384 bytes");
	assert_string_equal(ask("list\n"), "ok\n");
}

static void descriptors_are_not_kept(void **state)
{
	int before = dup(0), after, pair[2];

	close(before);
	ask_bytes("list\n", 5, 2);
	request("list\n", 5, 0, pair);
	close(pair[0]);
	ask("list\n");
	/*
	 * The progress thread closes the descriptor of a request right after its reply; the
	 * previous test's may have been open when `before` was taken.
	 */
	while ((after = dup(0)) > before) {
		close(after);
		sched_yield();
	}
	close(after);
}

static int set_up(void **state)
{
	place_make_dir(dir);
	ctx = core_env_open();
	assert_int_equal(host_join(dir, &vrb.host), 0);
	assert_true(host_shared(vrb.host));
	vrb_fault_control_start();
	assert_int_equal(progress_start(vrb.progress), 0);
	return 0;
}

static int tear_down(void **state)
{
	progress_stop(vrb.progress);
	vrb_fault_control_stop();
	host_leave(vrb.host);
	vrb.host = NULL;
	core_env_close(ctx);
	place_remove_dir(dir);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_are_added_listed_and_cleared),
		cmocka_unit_test(held_mads_are_released),
		cmocka_unit_test(clear_ends_a_stall),
		cmocka_unit_test(errors_are_replied),
		cmocka_unit_test(a_truncated_request_is_refused),
		cmocka_unit_test(descriptors_are_not_kept),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
