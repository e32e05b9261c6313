/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that fail with nothing but an errno value log the reason at VERBENA_LOG=info, and so do
 * those that wait in vain, and what sends or gets a datagram for no queue pair. Some failed
 * completions, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "world.h"

static struct world w;
static struct ibv_cq *cq;
static char log_path[] = "/tmp/verbena-refusal-XXXXXX";

/* The log since the last call of expect_logged(). */
static const char *logged(void)
{
	static char text[8192];
	FILE *f = fopen(log_path, "r");
	size_t n;

	CHECK(f != NULL);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0';
	fclose(f);
	return text;
}

/* The log since the last call must contain these words. */
static void expect_logged(const char *words)
{
	const char *text = logged();

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
	struct ibv_sge sge[1] = { { 0 } };

	CHECK_EQ(ibv_post_recv(qp, &wr, &bad), EINVAL);
	expect_logged("receive wr_id 0x77 not posted: it has no receive queue of its own");
	wr.num_sge = 1;	/* and no list */
	CHECK_EQ(ibv_post_srq_recv(srq, &wr, &bad), EINVAL);
	expect_logged("receive wr_id 0x77 not posted: num_sge is 1, but there is no sg_list");
	wr.sg_list = sge;
	wr.num_sge = 40;
	CHECK_EQ(ibv_post_srq_recv(srq, &wr, &bad), EINVAL);
	expect_logged("receive wr_id 0x77 not posted: num_sge is 40, but max_sge ");
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
}

static void refused_sends(void)
{
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, NULL);
	struct ibv_send_wr wr = { .wr_id = 0x78, .opcode = IBV_WR_SEND, .num_sge = 1 }, *bad;
	struct ibv_sge sge = { .length = 8 };

	world_connect(&w, qp, qp);
	CHECK_EQ(ibv_post_send(qp, &wr, &bad), EINVAL);
	expect_logged("wr_id 0x78 not posted: num_sge is negative, or there is no sg_list");
	wr.sg_list = &sge;
	wr.opcode = IBV_WR_RDMA_READ;
	wr.send_flags = IBV_SEND_INLINE;
	CHECK_EQ(ibv_post_send(qp, &wr, &bad), EINVAL);
	expect_logged(": IBV_SEND_INLINE is for SENDs and RDMA WRITEs");
	CHECK_EQ(ibv_destroy_qp(qp), 0);
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

/* Devices have no readers for fields that were not asked for, and crash. */
static void unasked_fields(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 1 };
	struct ibv_cq_ex *ex = ibv_create_cq_ex(w.ctx, &attr);
	struct ibv_wc_tm_info info = { .tag = 1 };

	CHECK(ex != NULL);
	CHECK_EQ(ibv_wc_read_qp_num(ex), 0);
	expect_logged("without IBV_WC_EX_WITH_QP_NUM in wc_flags of ibv_create_cq_ex()");
	CHECK_EQ(ibv_wc_read_byte_len(ex) + ibv_wc_read_imm_data(ex) + ibv_wc_read_src_qp(ex) +
		 ibv_wc_read_slid(ex) + ibv_wc_read_sl(ex) + ibv_wc_read_dlid_path_bits(ex) +
		 ibv_wc_read_completion_ts(ex) + ibv_wc_read_completion_wallclock_ns(ex) +
		 ibv_wc_read_cvlan(ex) + ibv_wc_read_flow_tag(ex), 0);
	ibv_wc_read_tm_info(ex, &info);
	CHECK_EQ(info.tag, 0);
	CHECK_EQ(strlen(logged()), 0);	/* once is enough */
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(ex)), 0);
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

/* Objects in use: the line says what uses them, and how many. */
static void refused_in_use(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(w.ctx);
	struct ibv_cq *notified = ibv_create_cq(w.ctx, 1, NULL, channel, 0);
	struct ibv_xrcd_init_attr domain = { .comp_mask = IBV_XRCD_INIT_ATTR_FD |
							  IBV_XRCD_INIT_ATTR_OFLAGS,
					     .fd = -1, .oflags = O_CREAT };
	struct ibv_xrcd *xrcd = ibv_open_xrcd(w.ctx, &domain);
	struct ibv_srq_init_attr_ex xrc = {
		.attr = { .max_wr = 1, .max_sge = 1 }, .srq_type = IBV_SRQT_XRC, .xrcd = xrcd,
		.cq = cq, .pd = w.pd, .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD |
						   IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
	};
	struct ibv_srq *xrc_srq = ibv_create_srq_ex(w.ctx, &xrc);
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(w.pd, &init);
	struct ibv_pd *pd = ibv_alloc_pd(w.ctx);
	struct ibv_mw *mw[] = { ibv_alloc_mw(pd, IBV_MW_TYPE_1), ibv_alloc_mw(pd, IBV_MW_TYPE_1) };
	struct ibv_qp *a = world_qp(&w, IBV_QPT_RC, cq, srq),
		      *b = world_qp(&w, IBV_QPT_RC, cq, srq);

	CHECK_EQ(ibv_dealloc_pd(pd), EBUSY);
	expect_logged("ibv_dealloc_pd: still used by 2 (regions, windows, QPs, SRQs, address "
		      "handles, parent domains, CQs; its context has PDs 2, windows 2, CQs 2, "
		      "QPs 2, SRQs 2, XRC domains 1, channels 1)");
	CHECK_EQ(ibv_destroy_srq(srq), EBUSY);
	expect_logged("ibv_destroy_srq: still used by 2 (QPs");
	CHECK_EQ(ibv_destroy_cq(cq), EBUSY);
	expect_logged("ibv_destroy_cq: still used by 5 (send and receive queues of QPs, SRQs)");
	CHECK_EQ(ibv_destroy_comp_channel(channel), EBUSY);
	expect_logged("ibv_destroy_comp_channel: still used by 1 (CQs)");
	CHECK_EQ(ibv_close_xrcd(xrcd), EBUSY);
	expect_logged("ibv_close_xrcd: still used by 1 (XRC QPs, SRQs)");
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
	CHECK_EQ(ibv_dealloc_mw(mw[0]), 0);
	CHECK_EQ(ibv_dealloc_mw(mw[1]), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	CHECK_EQ(ibv_destroy_srq(xrc_srq), 0);
	CHECK_EQ(ibv_close_xrcd(xrcd), 0);
	CHECK_EQ(ibv_destroy_cq(notified), 0);
	CHECK_EQ(ibv_destroy_comp_channel(channel), 0);
}

/* The same of a region with a window, and of a QP in a multicast group. */
static void refused_bound_and_attached(void)
{
	struct ibv_qp *a = world_qp(&w, IBV_QPT_RC, cq, NULL),
		      *b = world_qp(&w, IBV_QPT_RC, cq, NULL),
		      *ud = world_qp(&w, IBV_QPT_UD, cq, NULL);
	struct buffer m = world_buffer(&w, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(w.pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = { .send_flags = IBV_SEND_SIGNALED,
				    .bind_info = { m.mr, (uintptr_t)m.data, 64,
						   IBV_ACCESS_REMOTE_READ } };
	union ibv_gid group = { .raw = { 0xff, 0x12, [15] = 9 } };

	world_connect(&w, a, b);
	CHECK_EQ(ibv_bind_mw(a, mw, &bind), 0);
	world_expect(cq, 0, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_dereg_mr(m.mr), EBUSY);
	expect_logged("ibv_dereg_mr: still used by 1 (bound windows)");
	world_move(&w, ud, IBV_QPS_INIT, 0);
	CHECK_EQ(ibv_attach_mcast(ud, &group, 0xc000), 0);
	CHECK_EQ(ibv_destroy_qp(ud), EBUSY);
	expect_logged("ibv_destroy_qp: still used by 1 (multicast groups, flows)");
	CHECK_EQ(ibv_detach_mcast(ud, &group, 0xc000), 0);
	CHECK_EQ(ibv_destroy_qp(ud), 0);
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
	world_free(&m);
}

static void refused_counter(void)
{
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, NULL);
	struct ibv_comp_cntr_init_attr init = { 0 };
	struct ibv_comp_cntr *c = ibv_create_comp_cntr(w.ctx, &init);
	struct ibv_qp_attach_comp_cntr_attr attr = { .op_mask = IBV_QP_ATTACH_COMP_CNTR_OP_SEND };

	CHECK_EQ(ibv_qp_attach_comp_cntr(qp, c, &attr), 0);
	CHECK_EQ(ibv_qp_attach_comp_cntr(qp, c, &attr), EBUSY);
	expect_logged("ibv_qp_attach_comp_cntr: the QP counts operation 0x1 already");
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_comp_cntr(c), 0);
}

/* What another thread waits for. */
static struct ibv_cq *waited_for;

static void *help_once_told(void *words)
{
	while (!strstr(logged(), words))
		sched_yield();
	if (strstr(words, "armed"))
		CHECK_EQ(ibv_req_notify_cq(waited_for, 0), 0);
	else
		ibv_ack_cq_events(waited_for, 1);
	return NULL;
}

/* A thread that sleeps for an event for which nobody asked; a CQ with unacknowledged events. */
static void waits_in_vain(void)
{
	static char unarmed[] = "none of the channel's CQs (1) is armed",
		    unacked[] = "waits for the program to acknowledge 1 of its events";
	struct ibv_comp_channel *channel = ibv_create_comp_channel(w.ctx);
	struct ibv_cq *got;
	struct ibv_qp *qp;
	pthread_t helper;
	void *context;

	waited_for = ibv_create_cq(w.ctx, 4, NULL, channel, 0);
	qp = world_flushed(&w, waited_for, 1);
	CHECK_EQ(pthread_create(&helper, NULL, help_once_told, unarmed), 0);
	CHECK_EQ(ibv_get_cq_event(channel, &got, &context), 0);
	CHECK_EQ(pthread_join(helper, NULL), 0);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(pthread_create(&helper, NULL, help_once_told, unacked), 0);
	CHECK_EQ(ibv_destroy_cq(waited_for), 0);
	CHECK_EQ(pthread_join(helper, NULL), 0);
	CHECK_EQ(ibv_destroy_comp_channel(channel), 0);
}

static void no_timeout(void)
{
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, NULL);
	struct ibv_qp_attr attr;
	int mask;

	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTR; s++)
		world_move(&w, qp, s, qp->qp_num);
	mask = world_attr(&w, IBV_QPT_RC, IBV_QPS_RTS, qp->qp_num, &attr);
	attr.timeout = 0;
	CHECK_EQ(ibv_modify_qp(qp, &attr, mask), 0);
	expect_logged(": timeout is 0: a request whose peer does not answer waits for ever");
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

static void lost_datagram(void)
{
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND };
	struct ibv_qp *ud = world_qp(&w, IBV_QPT_UD, cq, NULL);
	struct ibv_ah_attr to = { .grh = { .dgid = w.gid, .sgid_index = w.gid_index },
				  .is_global = 1, .port_num = 1 };
	struct ibv_ah *ah = ibv_create_ah(w.pd, &to);
	/* not of the upper half, of which packets may be relayed */
	uint32_t nobody = ud->qp_num ^ 0x400000;
	char line[160];
	struct ibv_wc wc;

	world_connect(&w, ud, ud);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qkey = WORLD_QKEY;
	wr.wr.ud.remote_qpn = nobody;
	world_post(ud, &wr);
	snprintf(line, sizeof(line), "QP 0x%x at ::ffff:127.0.0.1 sends to QP 0x%x: reason 409: a "
		 "datagram was dropped: there is no such queue pair;", ud->qp_num, nobody);
	while (!strstr(logged(), line))
		CHECK_EQ(ibv_poll_cq(cq, 1, &wc), 0);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	CHECK_EQ(ibv_destroy_qp(ud), 0);
}

static struct buffer unmapped_buffer(void)
{
	struct buffer m = { .len = (size_t)sysconf(_SC_PAGESIZE) };

	m.data = mmap(NULL, m.len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(m.data != MAP_FAILED);
	m.mr = ibv_reg_mr(w.pd, m.data, m.len, WORLD_ACCESS);
	CHECK(m.mr != NULL);
	CHECK_EQ(munmap(m.data, m.len), 0);
	CHECK_EQ(truncate(log_path, 0), 0);
	return m;
}

static void expect_unmapped(const struct buffer *m, const char *what)
{
	unsigned long long start = (uintptr_t)m->data;
	char line[256];

	snprintf(line, sizeof(line), "%s: the memory behind the lkey is unmapped or protected; "
		 "lkey 0x%x, address 0x%llx, length 64: the lkey names a region [0x%llx, 0x%llx), "
		 "registered at ", what, m->mr->lkey, start, start, start + m->len);
	expect_logged(line);
	CHECK_EQ(ibv_dereg_mr(m->mr), 0);
}

/* The buffer was freed before the request, or the message, was executed. */
static void unmapped(enum ibv_wr_opcode opcode)
{
	struct ibv_cq *cq_b = world_cq(&w, 4);
	struct ibv_qp *a = world_qp(&w, IBV_QPT_RC, cq, NULL),
		      *b = world_qp(&w, IBV_QPT_RC, cq_b, NULL);
	struct buffer other = world_buffer(&w, 64, WORLD_ACCESS), m;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	world_connect(&w, a, b);
	m = unmapped_buffer();
	if (opcode == IBV_WR_RDMA_WRITE) {
		sge = world_sge(&m, 0, 64);
		wr = world_rdma(opcode, 1, &sge, &other, 0);
		world_post(a, &wr);
		world_expect(cq, 1, IBV_WC_LOC_PROT_ERR);
		expect_unmapped(&m, "RDMA WRITE wr_id 0x1: IBV_WC_LOC_PROT_ERR, vendor_err 104");
	} else {
		world_recv(b, 5, world_sge(&m, 0, 64));
		world_send(a, 1, world_sge(&other, 0, 64));
		world_expect(cq_b, 5, IBV_WC_LOC_PROT_ERR);
		world_expect(cq, 1, IBV_WC_REM_OP_ERR);
		expect_unmapped(&m, "receive wr_id 0x5: IBV_WC_LOC_PROT_ERR, vendor_err 104");
	}
	world_free(&other);
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
	CHECK_EQ(ibv_destroy_cq(cq_b), 0);
}

/* The limit that the program set is named. */
static void no_rnr_retry(void)
{
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, NULL);
	struct buffer b = world_buffer(&w, 64, WORLD_ACCESS);
	struct ibv_qp_attr attr;
	int mask;

	world_move(&w, qp, IBV_QPS_INIT, qp->qp_num);
	world_move(&w, qp, IBV_QPS_RTR, qp->qp_num);
	mask = world_attr(&w, IBV_QPT_RC, IBV_QPS_RTS, qp->qp_num, &attr);
	attr.rnr_retry = 0;
	CHECK_EQ(ibv_modify_qp(qp, &attr, mask), 0);
	world_send(qp, 1, world_sge(&b, 0, 8));
	world_expect(cq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	expect_logged("; rnr_retry is 0\n");
	world_free(&b);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
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
	refused_sends();
	refused_address();
	refused_qp();
	refused_cq();
	unasked_fields();
	refused_region();
	refused_in_use();
	refused_bound_and_attached();
	refused_counter();
	waits_in_vain();
	no_timeout();
	lost_datagram();
	unmapped(IBV_WR_RDMA_WRITE);
	unmapped(IBV_WR_SEND);
	no_rnr_retry();
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_close(&w);
	unlink(log_path);
	return 0;
}
