/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The introspection socket in the run directory: a connection receives one JSON object with the
 * state of the process.
 */
#include "core/diag/introspect.h"

#include "core_qp.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/cq/cq.h"
#include "core/device/device.h"
#include "core/mem/mr.h"
#include "core/qp/qp_table.h"
#include "place.h"

enum {
	ANSWER_MAX = 1 << 20,
	LIMIT_MS = 60000,
};

static const struct wq_ops no_ops;
static char dir[64];
static struct vrb_device dev = { .ibv.name = "vrb7" };
static struct vrb_context *ctx;
static struct vrb_pd *pd;
static struct vrb_cq *cq;
static struct vrb_mr *mr;
static uint8_t memory[4096];

static int try_connect(int fd, const char *kind)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	char name[32];

	host_file_name(host_slot(vrb.host), kind, name);
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/%s", host_dir(vrb.host), name);
	return connect(fd, (struct sockaddr *)&sun, sizeof(sun));
}

static int connect_to(const char *kind)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(try_connect(fd, kind), 0);
	return fd;
}

/* Receives the descriptor that comes with the single byte. */
static int receive_file(int from)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr mh = { .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.buf,
			     .msg_controllen = sizeof(control.buf) };
	struct cmsghdr *c;
	int fd;

	assert_int_equal(recvmsg(from, &mh, MSG_CMSG_CLOEXEC), 1);
	c = CMSG_FIRSTHDR(&mh);
	assert_non_null(c);
	assert_int_equal(c->cmsg_type, SCM_RIGHTS);
	memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	/* nothing else follows */
	assert_int_equal(recv(from, &byte, 1, 0), 0);
	return fd;
}

/* The caller frees the result. */
static char *ask(void)
{
	int sock = connect_to("query"), fd = receive_file(sock);
	char *text = calloc(1, ANSWER_MAX);
	ssize_t n;

	assert_non_null(text);
	n = pread(fd, text, ANSWER_MAX - 1, 0);
	assert_in_range(n, 2, ANSWER_MAX - 2);
	assert_string_equal(text + n - 2, "}\n");
	close(fd);
	close(sock);
	return text;
}

static void expect(const char *text, const char *format, ...)
{
	char part[256];
	va_list args;

	va_start(args, format);
	vsnprintf(part, sizeof(part), format, args);
	va_end(args);
	if (!strstr(text, part))
		fail_msg("no %s in %s", part, text);
}

static void the_reply_lists_all_objects(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };
	static const char *const names[] = { "RC", "UC", "UD" };
	struct vrb_qp *qp[3];
	char *text;

	for (int i = 0; i < 3; i++) {
		qp[i] = core_qp_new(ctx, pd, &no_ops);
		qp[i]->wq.type = types[i];
		assert_int_equal(vrb_qp_table_add(qp[i]), 0);
	}
	text = ask();
	expect(text, "\"pid\":%d", (int)getpid());
	expect(text, "\"n_contexts\":1,\"contexts\":[{\"device\":\"vrb7\",\"pd\":1,\"mr\":1");
	expect(text, "\"n_qps\":3");
	for (int i = 0; i < 3; i++)
		expect(text, "\"qpn\":%u,\"type\":\"%s\",\"state\":\"RESET\"", qp[i]->wq.qpn,
		       names[i]);
	expect(text, "\"n_cqs\":1");
	expect(text, "\"kind\":\"region\",\"lkey\":%u,\"rkey\":%u", mr->ibv.lkey, mr->ibv.rkey);
	expect(text, "\"address\":%llu,\"length\":4096", (unsigned long long)(uintptr_t)memory);
	free(text);
	lock_acquire(&vrb.poll_lock);
	for (int i = 0; i < 3; i++)
		vrb_qp_table_remove(qp[i]);
	lock_release(&vrb.poll_lock);
	for (int i = 0; i < 3; i++)
		core_qp_free(qp[i]);
	text = ask();
	expect(text, "\"n_qps\":0,\"qps\":[]");
	free(text);
}

/* A name chosen by the program remains a string. */
static void names_are_quoted(void **state)
{
	static char name[] = "a\"b\\c\n\xff";
	char *own = program_invocation_short_name, *text;

	program_invocation_short_name = name;
	text = ask();
	program_invocation_short_name = own;
	expect(text, "\"program\":\"a\\u0022b\\u005cc\\u000a\xef\xbf\xbd\"");
	free(text);
}

/* A client that disconnects without reading the reply does no harm. */
static void a_client_may_be_gone(void **state)
{
	close(connect_to("query"));
	free(ask());
}

/*
 * A client that cannot be accepted sees its end, and the thread does not find it waiting again and
 * again. The next one is answered, once the socket is open again.
 */
static void no_descriptor_is_left(void **state)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct pollfd end = { .fd = fd, .events = POLLIN };
	int next = fcntl(fd, F_DUPFD, 0);
	struct rlimit was, none;
	char byte;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = (struct rlimit){ (rlim_t)next, was.rlim_max };
	close(next);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(try_connect(fd, "query"), 0);
	assert_int_equal(poll(&end, 1, LIMIT_MS), 1);
	assert_int_not_equal(recv(fd, &byte, 1, 0), 1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	close(fd);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	while (try_connect(fd, "query"))
		sched_yield();
	close(fd);
	free(ask());
}

static void no_requests(struct vrb_pd *of, uint32_t lkey)
{
}

static void no_copies(struct vrb_pd *of)
{
}

static const struct vrb_mr_waits no_waits = { no_requests, no_copies };

static int set_up(void **state)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 8 };

	place_make_dir(dir);
	ctx = core_env_open();
	ctx->dev = &dev;
	list_add_tail(&vrb.contexts, &ctx->node);
	assert_int_equal(host_join(dir, &vrb.host), 0);
	assert_int_equal(vrb_pd_alloc(ctx, &pd), 0);
	assert_int_equal(vrb_cq_create(ctx, &attr, false, NULL, &cq), 0);
	assert_int_equal(vrb_mr_reg(pd, memory, sizeof(memory), (uintptr_t)memory,
				    IBV_ACCESS_LOCAL_WRITE, &mr), 0);
	vrb_introspect_start();
	assert_int_equal(progress_start(vrb.progress), 0);
	return 0;
}

static int tear_down(void **state)
{
	progress_stop(vrb.progress);
	vrb_introspect_stop();
	assert_int_equal(vrb_mr_dereg(mr, &no_waits), 0);
	assert_int_equal(vrb_cq_destroy(cq), 0);
	assert_int_equal(vrb_pd_dealloc(pd), 0);
	vrb_qp_table_free();
	host_leave(vrb.host);
	list_del(&ctx->node);
	core_env_close(ctx);
	place_remove_dir(dir);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_reply_lists_all_objects),
		cmocka_unit_test(names_are_quoted),
		cmocka_unit_test(a_client_may_be_gone),
		cmocka_unit_test(no_descriptor_is_left),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
