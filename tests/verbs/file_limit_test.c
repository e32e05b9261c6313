/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that may write no file, or small ones only (RLIMIT_FSIZE): what needs a file fails, and
 * no SIGXFSZ ends the program.
 */
#include <errno.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "world.h"

enum {
	PAGE = 4096,
	LEN = 20000,	/* several packets */
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

int main(void)
{
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
