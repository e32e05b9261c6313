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

static void refused_qp(void)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq,
					 .cap = { .max_send_sge = 1000 } };

	CHECK(!ibv_create_qp(w.pd, &attr));
	expect_logged("ibv_create_qp: max_send_sge is 1000, but the device's limit is ");
	attr.cap = (struct ibv_qp_cap){ .max_recv_wr = UINT32_MAX };
	CHECK(!ibv_create_qp(w.pd, &attr));
	expect_logged("ibv_create_qp: max_recv_wr is 4294967295, but the device's limit is ");
	attr.send_cq = NULL;
	CHECK(!ibv_create_qp(w.pd, &attr));
	expect_logged("ibv_create_qp: domain, CQ or SRQ is missing");
	attr.qp_type = 77;
	CHECK(!ibv_create_qp(w.pd, &attr));
	expect_logged("ibv_create_qp: the device has no QPs of this type");
}

static void refused_cq(void)
{
	CHECK(!ibv_create_cq(w.ctx, -1, NULL, NULL, 0));
	expect_logged("ibv_create_cq: cqe is -1, of 1 to ");
	CHECK(!ibv_create_cq(w.ctx, 1, NULL, NULL, 9999));
	expect_logged("; comp_vector is 9999, of 0 to ");
}

static void refused_region(void)
{
	static const char constant[64];
	static char b[64];

	CHECK(!ibv_reg_mr(w.pd, b, 64, IBV_ACCESS_REMOTE_WRITE));
	expect_logged("memory region: access 0x2 has REMOTE_WRITE or REMOTE_ATOMIC without ");
	CHECK(!ibv_reg_mr(w.pd, b, 64, 1 << 15));
	expect_logged("memory region: access 0x8000 has flags");
	CHECK(!ibv_reg_mr(w.pd, (void *)64, 64, 0));
	expect_logged("memory region: 64 bytes at 0x40 are not mapped");
	CHECK(!ibv_reg_mr(w.pd, (void *)(uintptr_t)constant, 64, IBV_ACCESS_LOCAL_WRITE));
	expect_logged(" are not mapped, or not with the rights of access 0x1");
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
	refused_qp();
	refused_cq();
	refused_region();
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_close(&w);
	unlink(log_path);
	return 0;
}
