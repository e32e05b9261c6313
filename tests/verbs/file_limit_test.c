/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that may write no file, or small ones only (RLIMIT_FSIZE): what needs a file fails, and
 * no SIGXFSZ ends the program. And programs that may open few (RLIMIT_NOFILE): a device that opens
 * can be reached.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "world.h"

enum {
	PAGE = 4096,
	LEN = 20000,	/* several packets */
	DESCRIPTORS = 48,	/* more than a device takes */
	REFUSED = 2,
};

/* bytes of the largest file */
static const rlim_t limits[] = { 0, 1, PAGE, 16 * PAGE };

static void memory_in_files(struct world *w, rlim_t limit)
{
	struct ibv_alloc_dm_attr attr = { .length = PAGE };
	struct ibv_dm *dm = ibv_alloc_dm(w->ctx, &attr);
	int err = errno;
	struct ibv_buf *buf;
	void *p;

	CHECK_EQ(!dm, limit < PAGE);
	if (dm)
		CHECK_EQ(ibv_free_dm(dm), 0);
	else
		CHECK_EQ(err, ENOMEM);
	p = ibv_alloc_buf(w->pd, PAGE, &buf);
	err = errno;
	CHECK_EQ(!p, limit < PAGE);
	if (p)
		ibv_free_buf(buf);
	else
		CHECK_EQ(err, ENOMEM);
}

static void data(struct world *w)
{
	struct ibv_cq *cq = world_cq(w, 16);
	struct ibv_qp *a = world_qp(w, IBV_QPT_RC, cq, NULL);
	struct ibv_qp *b = world_qp(w, IBV_QPT_RC, cq, NULL);
	struct buffer out = world_buffer(w, LEN, WORLD_ACCESS);
	struct buffer in = world_buffer(w, LEN, WORLD_ACCESS);
	struct ibv_wc wc[2];

	world_connect(w, a, b);
	memset(out.data, 0x5a, LEN);
	world_recv(b, 1, world_sge(&in, 0, LEN));
	world_send(a, 2, world_sge(&out, 0, LEN));
	world_poll(cq, wc, 2);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
	CHECK_MEM(in.data, out.data, LEN);
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_free(&out);
	world_free(&in);
}

static int run(rlim_t limit)
{
	struct rlimit size = { limit, limit };
	struct world w;

	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &size), 0);
	world_open(&w);
	memory_in_files(&w, limit);
	data(&w);
	world_close(&w);
	return 0;
}

/* The host's table, and a UDP socket. */
static bool is_reachable(void)
{
	bool table = false, udp = false;

	for (int fd = 0; fd < DESCRIPTORS; fd++) {
		int protocol = 0;
		socklen_t len = sizeof(protocol);
		char link[32], path[256];
		ssize_t n;

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		n = readlink(link, path, sizeof(path));
		table |= n > 6 && !memcmp(path + n - 6, "/table", 6);
		udp |= !getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) &&
		       protocol == IPPROTO_UDP;
	}
	return table && udp;
}

static int open_few(rlim_t limit)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx;
	struct rlimit files;

	CHECK(list && list[0]);
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
	files.rlim_cur = limit;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
	ctx = ibv_open_device(list[0]);
	if (!ctx)
		CHECK_EQ(errno, EMFILE);
	else
		CHECK(is_reachable());
	return ctx ? 0 : REFUSED;
}

static void few_descriptors(void)
{
	int result = 0;

	for (rlim_t limit = 0; limit <= DESCRIPTORS; limit++) {
		pid_t child = fork();
		int status;

		CHECK(child >= 0);
		if (!child)
			_exit(open_few(limit));
		CHECK_EQ(waitpid(child, &status, 0), child);
		CHECK(WIFEXITED(status));
		result = WEXITSTATUS(status);
		CHECK(result == 0 || result == REFUSED);
	}
	CHECK_EQ(result, 0);
}

int main(void)
{
	few_descriptors();
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		pid_t child = fork();
		int status;

		CHECK(child >= 0);
		if (!child)
			_exit(run(limits[i]));
		CHECK_EQ(waitpid(child, &status, 0), child);
		if (status)
			printf("files of at most %llu bytes: status 0x%x\n",
			       (unsigned long long)limits[i], (unsigned int)status);
		CHECK_EQ(status, 0);
	}
	return 0;
}
