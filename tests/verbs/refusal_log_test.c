/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that fail with nothing but an errno value log the reason at VERBENA_LOG=info. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "world.h"

static struct world w;
static struct ibv_cq *cq;
static char log_path[] = "/tmp/verbena-refusal-XXXXXX";

/* The log since the last call must contain these words. */
static void expect_logged(const char *words)
{
	char text[8192];
	FILE *f = fopen(log_path, "r");
	size_t n;

	CHECK(f != NULL);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0';
	fclose(f);
	if (!strstr(text, words))
		fprintf(stderr, "not logged: %s\n%s", words, text);
	CHECK(strstr(text, words));
	CHECK_EQ(truncate(log_path, 0), 0);
}

/*
 * Binds that the inline function refuses itself (no region, another domain, type 2) are not logged.
 */
static void refused_binds(void)
{
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, NULL),
		      *ud = world_qp(&w, IBV_QPT_UD, cq, NULL);
	struct buffer b = world_buffer(&w, 64, IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(w.pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = { .bind_info = { b.mr, (uintptr_t)b.data, 64,
						   IBV_ACCESS_REMOTE_READ } };

	CHECK_EQ(ibv_bind_mw(qp, mw, &bind), EINVAL);
	expect_logged("not posted: the queue pair is not in a state");
	CHECK_EQ(ibv_bind_mw(ud, mw, &bind), EINVAL);
	expect_logged("a QP of this type cannot bind windows");
	bind.bind_info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
	CHECK_EQ(ibv_bind_mw(qp, mw, &bind), EINVAL);
	expect_logged("a type 1 window cannot be zero-based");
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_qp(ud), 0);
	world_free(&b);
}

static void refused_flow(void)
{
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, NULL);
	struct ibv_flow_attr attr = { .port = 1 };

	CHECK(!ibv_create_flow(qp, &attr));
	expect_logged("ibv_create_flow on QP 0x");
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

static void refused_receives(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(w.pd, &init);
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, srq);
	struct ibv_recv_wr wr = { .wr_id = 0x77 }, *bad;

	CHECK_EQ(ibv_post_recv(qp, &wr, &bad), EINVAL);
	expect_logged("receive wr_id 0x77 not posted");
	wr.num_sge = 1;	/* and no list */
	CHECK_EQ(ibv_post_srq_recv(srq, &wr, &bad), EINVAL);
	expect_logged("receive wr_id 0x77 not posted");
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
}

static void refused_address(void)
{
	struct ibv_ah_attr attr = { .port_num = 1, .is_global = 1,
				    .grh = { .dgid = w.gid, .sgid_index = 255 } };

	CHECK(!ibv_create_ah(w.pd, &attr));
	expect_logged("ibv_create_ah: GID 255 of the port is empty; GID ");
}

int main(void)
{
	int fd = mkstemp(log_path);

	CHECK(fd >= 0);
	close(fd);
	setenv("VERBENA_LOG", "info", 1);
	setenv("VERBENA_LOG_FILE", log_path, 1);
	world_open(&w);
	cq = world_cq(&w, 4);
	CHECK_EQ(truncate(log_path, 0), 0);
	refused_binds();
	refused_flow();
	refused_receives();
	refused_address();
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_close(&w);
	unlink(log_path);
	return 0;
}
