/* SPDX-License-Identifier: BSD-2-Clause */
/* Connecting to a process's socket in the run directory returns one JSON object with its state. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <infiniband/verbs.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/state.h"
#include "host/host.h"
#include "place.h"

enum { ANSWER_MAX = 1 << 20 };

static char dir[64];
static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static uint8_t memory[4096];

static int connect_to(const char *kind)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char name[32];

	host_file_name(host_slot(vrb.host), kind, name);
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/%s", host_dir(vrb.host), name);
	assert_int_equal(connect(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	return fd;
}

/* The descriptor that comes with the one byte. */
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
	/* That was all. */
	assert_int_equal(recv(from, &byte, 1, 0), 0);
	return fd;
}

/* To be freed. */
static char *ask(void)
{
	int sock = connect_to("ask"), fd = receive_file(sock);
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

static struct ibv_qp *create_qp(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = type, .cap = { 4, 4, 1, 1, 0 }
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	assert_non_null(qp);
	return qp;
}

static void an_answer_has_what_there_is(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };
	static const char *const names[] = { "RC", "UC", "UD" };
	struct ibv_qp *qp[3];
	char *text;

	for (int i = 0; i < 3; i++)
		qp[i] = create_qp(types[i]);
	text = ask();
	expect(text, "\"pid\":%d", (int)getpid());
	expect(text, "\"n_contexts\":1");
	expect(text, "\"n_qps\":3");
	for (int i = 0; i < 3; i++)
		expect(text, "\"qpn\":%u,\"type\":\"%s\",\"state\":\"RESET\"", qp[i]->qp_num,
		       names[i]);
	expect(text, "\"n_cqs\":1");
	expect(text, "\"kind\":\"region\",\"lkey\":%u,\"rkey\":%u", mr->lkey, mr->rkey);
	expect(text, "\"address\":%llu,\"length\":4096", (unsigned long long)(uintptr_t)memory);
	free(text);
	for (int i = 0; i < 3; i++)
		assert_int_equal(ibv_destroy_qp(qp[i]), 0);
	text = ask();
	expect(text, "\"n_qps\":0,\"qps\":[]");
	free(text);
}

/* A name of the program's own choice stays a string. */
static void names_are_quoted(void **state)
{
	static char name[] = "a\"b\\c\n\xff";
	char *own = program_invocation_short_name, *text;

	program_invocation_short_name = name;
	text = ask();
	program_invocation_short_name = own;
	expect(text, "\"program\":\"a\\u0022b\\u005cc\\u000a\\u00ff\"");
	free(text);
}

/* A client that does not wait for the answer does no harm. */
static void an_asker_may_be_gone(void **state)
{
	close(connect_to("ask"));
	free(ask());
}

static int set_up(void **state)
{
	struct ibv_device **list;
	char port[8];
	int n = 0;

	place_make_dir(dir);
	snprintf(port, sizeof(port), "%u", place_free_port());
	setenv("VERBENA_DIR", dir, 1);
	setenv("VERBENA_UDP_PORT", port, 1);
	setenv("VERBENA_LOG", "off", 0);
	list = ibv_get_device_list(&n);
	ctx = n ? ibv_open_device(list[n - 1]) : NULL;
	ibv_free_device_list(list);
	assert_non_null(ctx);
	pd = ibv_alloc_pd(ctx);
	cq = ibv_create_cq(ctx, 8, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	assert_true(pd && cq && mr);
	return 0;
}

static int tear_down(void **state)
{
	int ret = ibv_dereg_mr(mr) || ibv_destroy_cq(cq) || ibv_dealloc_pd(pd) ||
		  ibv_close_device(ctx);

	place_remove_dir(dir);
	return ret;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_has_what_there_is),
		cmocka_unit_test(names_are_quoted),
		cmocka_unit_test(an_asker_may_be_gone),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
