/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One row for each action of docs/FAULTS.md: fault rules in the environment and the effect that the
 * program sees. Each row runs in a process of its own. The rules for a stream apply to packets with
 * $VERBENA_TRANSPORT=udp and to messages otherwise.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "world.h"

enum {
	LEN = 3000,	/* several packets of the loopback device's MTU, or one message */
	STREAM = 120,
	DEPTH = 8,
};

static struct world w;
static struct ibv_cq *cq;
static struct ibv_qp *a, *b;
static struct buffer src, dst;

static void connect_pair(struct ibv_srq *srq)
{
	cq = world_cq(&w, 64);
	a = world_qp(&w, IBV_QPT_RC, cq, NULL);
	b = world_qp(&w, IBV_QPT_RC, cq, srq);
	world_connect(&w, a, b);
	src = world_buffer(&w, 1 << 16, WORLD_ACCESS);
	dst = world_buffer(&w, 1 << 16, WORLD_ACCESS);
}

static int state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

/* ---- calls ---- */

static void a_verb_fails(void)
{
	struct ibv_mr *mr;
	char memory[64];

	mr = ibv_reg_mr(w.pd, memory, sizeof(memory), 0);
	CHECK(mr != NULL);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	errno = 0;
	CHECK(ibv_reg_mr(w.pd, memory, sizeof(memory), 0) == NULL);
	CHECK_EQ(errno, ENOMEM);
	mr = ibv_reg_mr(w.pd, memory, sizeof(memory), 0);
	CHECK(mr != NULL);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK_EQ(ibv_query_gid(w.ctx, 1, 0, &w.gid), -1);
}

static struct ibv_send_wr chain[3];

static int post_chain(struct ibv_send_wr **bad)
{
	static struct ibv_sge sge;

	sge = world_sge(&src, 0, 8);
	for (int i = 0; i < 3; i++)
		chain[i] = (struct ibv_send_wr){
			.wr_id = (uint64_t)i,
			.next = i < 2 ? &chain[i + 1] : NULL,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED,
		};
	return ibv_post_send(a, chain, bad);
}

static void a_work_request_fails(void)
{
	struct ibv_send_wr *bad = NULL;

	connect_pair(NULL);
	world_recv(b, 7, world_sge(&dst, 0, 64));
	CHECK_EQ(post_chain(&bad), EINVAL);
	CHECK(bad == &chain[1]);
	world_expect(cq, 7, IBV_WC_SUCCESS);
	world_expect(cq, 0, IBV_WC_SUCCESS);
}

static void a_post_fails(void)
{
	struct ibv_send_wr *bad = NULL;

	connect_pair(NULL);
	CHECK_EQ(post_chain(&bad), ENOMEM);
	CHECK(bad == chain);
}

/* ---- completions ---- */

static void a_send_completes_in_error(void)
{
	struct ibv_wc wc;

	connect_pair(NULL);
	for (uint64_t i = 0; i < 2; i++) {
		world_recv(b, 10 + i, world_sge(&dst, 0, 64));
		world_send(a, i, world_sge(&src, 0, 64));
		world_expect(cq, 10 + i, IBV_WC_SUCCESS);
		wc = world_expect(cq, i, i ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS);
		CHECK_EQ(wc.vendor_err, i ? 129 : 0);
	}
	CHECK_EQ(state_of(a), IBV_QPS_ERR);
	world_send(a, 2, world_sge(&src, 0, 64));
	world_expect(cq, 2, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(state_of(b), IBV_QPS_RTS);
}

static void a_receive_completes_in_error(void)
{
	connect_pair(NULL);
	world_recv(b, 7, world_sge(&dst, 0, 64));
	world_recv(b, 8, world_sge(&dst, 0, 64));
	world_send(a, 1, world_sge(&src, 0, 64));
	world_expect(cq, 7, IBV_WC_LOC_PROT_ERR);
	while (state_of(b) != IBV_QPS_ERR)
		;
}

/* ---- packets and messages ---- */

static void fill(uint8_t *p, int number)
{
	for (int i = 0; i < LEN; i++)
		p[i] = (uint8_t)(number * 7 + i);
}

/* Every message arrives complete, once and in order. */
static void a_stream_arrives(void)
{
	uint8_t want[LEN];
	int sent = 0, received = 0, done = 0;
	struct ibv_wc wc;

	connect_pair(NULL);
	for (int i = 0; i < DEPTH; i++)
		world_recv(b, (uint64_t)i, world_sge(&dst, (size_t)i * LEN, LEN));
	while (received < STREAM || done < STREAM) {
		if (sent < STREAM && sent < received + DEPTH && sent < done + DEPTH) {
			fill(src.data + sent % DEPTH * LEN, sent);
			world_send(a, (uint64_t)sent,
				   world_sge(&src, (size_t)(sent % DEPTH) * LEN, LEN));
			sent++;
			continue;
		}
		world_poll(cq, &wc, 1);
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		if (wc.opcode & IBV_WC_RECV) {
			fill(want, received);
			CHECK_EQ(wc.wr_id, received % DEPTH);
			CHECK_MEM(dst.data + received % DEPTH * LEN, want, LEN);
			world_recv(b, wc.wr_id, world_sge(&dst, wc.wr_id * LEN, LEN));
			received++;
		} else {
			CHECK_EQ(wc.wr_id, done);
			done++;
		}
	}
}

/*
 * Selective retransmission without a timeout: the receiver keeps what arrived, so only lost packets
 * are sent again.
 */
static void a_loss_is_repaired(void)
{
	struct ibv_qp_attr attr;
	int mask;

	connect_pair(NULL);
	world_move(&w, a, IBV_QPS_RESET, 0);
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		mask = world_attr(&w, IBV_QPT_RC, s, b->qp_num, &attr);
		attr.timeout = 0;
		CHECK_EQ(ibv_modify_qp(a, &attr, mask), 0);
	}
	world_recv(b, 7, world_sge(&dst, 0, LEN));
	fill(src.data, 1);
	world_send(a, 9, world_sge(&src, 0, LEN));
	world_expect(cq, 7, IBV_WC_SUCCESS);
	world_expect(cq, 9, IBV_WC_SUCCESS);
	CHECK_MEM(dst.data, src.data, LEN);
}

static void writes_and_reads_arrive(void)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	connect_pair(NULL);
	for (int i = 0; i < 20; i++) {
		fill(src.data, i);
		sge = world_sge(&src, 0, LEN);
		wr = world_rdma(IBV_WR_RDMA_WRITE, 1, &sge, &dst, 0);
		world_post(a, &wr);
		world_expect(cq, 1, IBV_WC_SUCCESS);
		CHECK_MEM(dst.data, src.data, LEN);
		sge = world_sge(&src, LEN, LEN);
		wr = world_rdma(IBV_WR_RDMA_READ, 2, &sge, &dst, 0);
		world_post(a, &wr);
		world_expect(cq, 2, IBV_WC_SUCCESS);
		CHECK_MEM(src.data + LEN, src.data, LEN);
	}
}

/* ---- events ---- */

static void a_qp_fails(void)
{
	connect_pair(NULL);
	world_recv(a, 5, world_sge(&dst, 0, 64));
	world_event(&w, IBV_EVENT_QP_FATAL);
	world_expect(cq, 5, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(state_of(a), IBV_QPS_ERR);
}

static void a_cq_fails(void)
{
	connect_pair(NULL);
	world_recv(a, 5, world_sge(&dst, 0, 64));
	world_event(&w, IBV_EVENT_CQ_ERR);
	world_event(&w, IBV_EVENT_QP_FATAL);
	CHECK_EQ(ibv_poll_cq(cq, 1, &(struct ibv_wc){ 0 }), -1);
}

static void an_srq_fails(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(w.pd, &attr);
	struct ibv_sge sge;
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	connect_pair(srq);
	sge = world_sge(&dst, 0, 64);
	CHECK_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
	world_send(b, 1, world_sge(&src, 0, 64));
	world_event(&w, IBV_EVENT_SRQ_ERR);
	CHECK_EQ(ibv_post_srq_recv(srq, &wr, &bad), EINVAL);
	world_event(&w, IBV_EVENT_QP_LAST_WQE_REACHED);
	world_event(&w, IBV_EVENT_QP_FATAL);
	CHECK_EQ(state_of(b), IBV_QPS_ERR);
}

static struct ibv_qp_attr path_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_EQ(ibv_query_qp(qp, &attr, IBV_QP_PATH_MIG_STATE | IBV_QP_AV, &init), 0);
	return attr;
}

/* The alternate path leads from the port's address at this index to itself. */
static void arm(struct ibv_qp *qp, int index)
{
	struct ibv_qp_attr attr = {
		.alt_ah_attr = { .is_global = 1, .port_num = 1,
				 .grh = { .sgid_index = index, .hop_limit = 64 } },
		.alt_port_num = 1,
		.alt_timeout = 15,
		.path_mig_state = IBV_MIG_REARM,
	};

	CHECK_EQ(ibv_query_gid(w.ctx, 1, index, &attr.alt_ah_attr.grh.dgid), 0);
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE), 0);
}

static void exchange(struct ibv_qp *from, struct ibv_qp *to)
{
	struct ibv_wc wc[2];

	world_recv(to, 2, world_sge(&dst, 0, 64));
	world_send(from, 1, world_sge(&src, 0, 64));
	world_poll(cq, wc, 2);
	CHECK_EQ(wc[0].status, IBV_WC_SUCCESS);
	CHECK_EQ(wc[1].status, IBV_WC_SUCCESS);
}

/* One end migrates; the other follows when it gets the next packet. */
static void a_path_migrates(void)
{
	int other = w.gid_index ? 0 : 1;

	connect_pair(NULL);
	arm(a, other);
	arm(b, other);
	for (int i = 0; i < 2; i++) {
		exchange(a, b);
		exchange(b, a);
	}
	CHECK_EQ(path_of(a).path_mig_state, IBV_MIG_ARMED);
	exchange(a, b);
	world_event(&w, IBV_EVENT_PATH_MIG);
	CHECK_EQ(path_of(a).path_mig_state, IBV_MIG_MIGRATED);
	CHECK_EQ(path_of(a).ah_attr.grh.sgid_index, other);
	exchange(a, b);
	world_event(&w, IBV_EVENT_PATH_MIG);
	CHECK_EQ(path_of(b).ah_attr.grh.sgid_index, other);
	exchange(b, a);
}

/* Without an alternate path there is no migration and no other effect. */
static void no_path_migrates(void)
{
	connect_pair(NULL);
	exchange(a, b);
	exchange(a, b);
	CHECK(!world_has_event(&w));
	CHECK_EQ(path_of(a).path_mig_state, IBV_MIG_MIGRATED);
	CHECK_EQ(path_of(a).ah_attr.grh.sgid_index, w.gid_index);
}

static void a_port_goes_down_and_up(void)
{
	struct ibv_port_attr attr;

	CHECK(ibv_alloc_pd(w.ctx) != NULL);
	world_event(&w, IBV_EVENT_PORT_ERR);
	CHECK_EQ(ibv_query_port(w.ctx, 1, &attr), 0);
	CHECK_EQ(attr.state, IBV_PORT_DOWN);
	CHECK(ibv_alloc_pd(w.ctx) != NULL);
	world_event(&w, IBV_EVENT_PORT_ACTIVE);
	CHECK_EQ(ibv_query_port(w.ctx, 1, &attr), 0);
	CHECK_EQ(attr.state, IBV_PORT_ACTIVE);
}

static unsigned int gids(void)
{
	union ibv_gid gid, none = { { 0 } };
	unsigned int n = 0;

	for (int i = 0; i < w.port.gid_tbl_len; i++)
		n += ibv_query_gid(w.ctx, 1, i, &gid) == 0 && memcmp(&gid, &none, sizeof(gid));
	return n;
}

static void an_address_goes_and_comes(void)
{
	unsigned int before = gids();

	CHECK(ibv_alloc_pd(w.ctx) != NULL);
	world_event(&w, IBV_EVENT_GID_CHANGE);
	CHECK_EQ(gids(), before - 1);
	CHECK(ibv_alloc_pd(w.ctx) != NULL);
	world_event(&w, IBV_EVENT_GID_CHANGE);
	CHECK_EQ(gids(), before);
}

static void a_device_is_removed(void)
{
	struct ibv_async_event event;
	struct ibv_port_attr attr;

	CHECK(ibv_alloc_pd(w.ctx) != NULL);
	do {
		CHECK_EQ(ibv_get_async_event(w.ctx, &event), 0);
		ibv_ack_async_event(&event);
	} while (event.event_type != IBV_EVENT_DEVICE_FATAL);
	CHECK_EQ(ibv_query_port(w.ctx, 1, &attr), 0);
	CHECK_EQ(attr.state, IBV_PORT_DOWN);
}

/* ---- processes ---- */

static void the_process_dies(void)
{
	connect_pair(NULL);
	for (uint64_t i = 0; i < 3; i++) {
		world_recv(b, i, world_sge(&dst, 0, 64));
		if (write(STDERR_FILENO, ".", 1) != 1)
			exit(1);
	}
	exit(2);
}

static void the_process_goes_on(void)
{
	connect_pair(NULL);
	world_recv(b, 7, world_sge(&dst, 0, 64));
	world_send(a, 9, world_sge(&src, 0, 64));
	world_expect(cq, 7, IBV_WC_SUCCESS);
	world_expect(cq, 9, IBV_WC_SUCCESS);
}

/* ---- the table ---- */

#define STREAM_ROWS(kind)                                                                          \
	{ kind " every 7 drop", a_stream_arrives },                                                \
	{ kind " rx every 5 drop", a_stream_arrives },                                             \
	{ kind " tx opcode ACK every 2 drop", a_stream_arrives },                                  \
	{ kind " every 3 duplicate 2", a_stream_arrives },                                         \
	{ kind " rx every 3 duplicate", a_stream_arrives },                                        \
	{ kind " tx every 10 delay 2ms", a_stream_arrives },                                       \
	{ kind " rx every 10 delay 2ms", a_stream_arrives },                                       \
	{ kind " tx every 10 reorder 2", a_stream_arrives },                                       \
	{ kind " rx every 10 reorder", a_stream_arrives },                                         \
	{ kind " tx every 9 corrupt", a_stream_arrives },                                          \
	{ kind " rx every 9 corrupt", a_stream_arrives },                                          \
	{ "seed 3; " kind " chance 1/10 drop", a_stream_arrives },                                 \
	{ kind " opcode WRITE every 3 drop", writes_and_reads_arrive },                            \
	{ kind " opcode READ_RESPONSE every 4 drop", writes_and_reads_arrive },                    \
	{ kind " every 3 duplicate", writes_and_reads_arrive },                                    \
	{ kind " tx nth 2..3 drop", a_stream_arrives },                                            \
	{ kind " tx every 4 mark", a_stream_arrives },                                             \
	{ kind " rx every 4 mark", a_stream_arrives },                                             \
	{ kind " tx nth 4 mark; " kind " rx opcode CNP kill", a_stream_arrives, SIGKILL },         \
	{ kind " rx nth 4 mark; " kind " rx opcode CNP kill", a_stream_arrives, SIGKILL },         \
	{ kind " psn 0xfffff0..2 tx nth 1 drop", a_stream_arrives },                               \
	{ kind " opcode SEND psn 0xfffff0 tx nth 1 drop; " kind " psn 0xfffff1 tx nth 2 kill",     \
	  a_loss_is_repaired }

struct row {
	const char *rules;
	void (*run)(void);
	int signal;
};

static const struct row rows[] = {
	{ "verb ibv_reg_mr nth 2 fail ENOMEM; verb ibv_query_gid nth 2 fail EIO", a_verb_fails },
	{ "wr tx nth 2 fail EINVAL", a_work_request_fails },
	{ "verb ibv_post_send fail ENOMEM", a_post_fails },
	{ "completion tx qp_index 1 nth 2 status RETRY_EXC_ERR vendor_err 129",
	  a_send_completes_in_error },
	{ "completion rx nth 1 status LOC_PROT_ERR", a_receive_completes_in_error },
	{ "wr rx raise QP_FATAL", a_qp_fails },
	{ "wr rx raise CQ_ERR", a_cq_fails },
	{ "wr tx qp_index 2 raise SRQ_ERR", an_srq_fails },
	{ "wr tx qp_index 1 nth 3 raise PATH_MIG", a_path_migrates },
	{ "wr tx qp_index 1 nth 1 raise PATH_MIG", no_path_migrates },
	{ "verb ibv_alloc_pd nth 2 raise PORT_ERR; verb ibv_alloc_pd nth 3 raise PORT_ACTIVE",
	  a_port_goes_down_and_up },
	{ "verb ibv_alloc_pd nth 2.. raise GID_CHANGE", an_address_goes_and_comes },
	{ "verb ibv_alloc_pd nth 2 raise DEVICE_FATAL", a_device_is_removed },
	{ "wr nth 3 kill", the_process_dies, SIGKILL },
	{ "wr nth 1 stall 1ms; message nth 1 stall 1ms; packet nth 1 stall 1ms",
	  the_process_goes_on },
};

static const struct row of_messages[] = { STREAM_ROWS("message") };
static const struct row of_packets[] = { STREAM_ROWS("packet") };

static void run(const struct row *row)
{
	pid_t child = fork();
	int status;

	if (!child) {
		setenv("VERBENA_FAULTS", row->rules, 1);
		alarm(WORLD_LIMIT_S * 3 * test_slower());
		world_open(&w);
		row->run();
		exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	if (row->signal ? !WIFSIGNALED(status) || WTERMSIG(status) != row->signal : status) {
		fprintf(stderr, "\"%s\" ends with status 0x%x\n", row->rules, status);
		exit(1);
	}
}

static void run_all(const struct row *row, size_t n)
{
	for (size_t i = 0; i < n; i++)
		run(&row[i]);
}

int main(void)
{
	const char *transport = getenv("VERBENA_TRANSPORT");

	run_all(rows, sizeof(rows) / sizeof(rows[0]));
	if (transport && strcmp(transport, "udp") == 0)
		run_all(of_packets, sizeof(of_packets) / sizeof(of_packets[0]));
	else
		run_all(of_messages, sizeof(of_messages) / sizeof(of_messages[0]));
	return 0;
}
