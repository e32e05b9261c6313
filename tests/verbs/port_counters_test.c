/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The counters of a port, in files with the names that soft RoCE uses. Each must move when the
 * event that it counts happens, and the others must not. The network may cause retransmissions, so
 * counters of packets move by at least the number sent.
 */

#include "world.h"

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

enum {
	LEN = 3000,	/* three packets with the MTU of world.c */
	GRH = 40,
};

static struct world w;
static struct ibv_cq *cq;
static struct buffer buf;

static uint64_t counter(const char *name)
{
	char file[96], text[32];

	snprintf(file, sizeof(file), "ports/1/%s", name);
	if (ibv_read_sysfs_file(w.ctx->device->ibdev_path, file, text, sizeof(text)) < 0) {
		printf("no file %s\n", file);
		exit(1);
	}
	return strtoull(text, NULL, 10);
}

/* Counters of failures; each test lists those that it moves. */
static const char *const failures[] = {
	"duplicate_request", "out_of_seq_request", "rcvd_rnr_err", "rcvd_seq_err", "send_rnr_err",
	"send_err", "retry_exceeded_err", "retry_rnr_exceeded_err", "completer_retry_err",
	"dropped_pkts", "retransmitted_pkts", "out_of_buffer",
};

enum { FAILURES = sizeof(failures) / sizeof(failures[0]) };

static uint64_t before[FAILURES];

static uint64_t failure(size_t i)
{
	char name[64];

	snprintf(name, sizeof(name), "hw_counters/%s", failures[i]);
	return counter(name);
}

static void take_snapshot(void)
{
	for (size_t i = 0; i < FAILURES; i++)
		before[i] = failure(i);
}

/*
 * The counters in the list have moved, the others have not. A counter with a question mark before
 * its name may have moved: a loss or delay in the network or a slow machine can move it.
 */
static void expect_moved(const char *const *list)
{
	for (size_t i = 0; i < FAILURES; i++) {
		bool must = false, may = false;

		for (const char *const *p = list; *p; p++) {
			must = must || !strcmp(*p, failures[i]);
			may = may || (**p == '?' && !strcmp(*p + 1, failures[i]));
		}
		if (may && !must)
			continue;
		if ((failure(i) != before[i]) != must) {
			printf("%s went from %llu to %llu\n", failures[i],
			       (unsigned long long)before[i], (unsigned long long)failure(i));
			exit(1);
		}
	}
}

#define MOVED(...) expect_moved((const char *const[]){ __VA_ARGS__, NULL })
/* The counters that a lost or late packet can move. */
#define LOSS_OR_DELAY                                                                              \
	"?completer_retry_err", "?retransmitted_pkts", "?duplicate_request",                       \
		"?out_of_seq_request", "?rcvd_seq_err", "?dropped_pkts"

/*
 * A connection whose requester has these retry counts, and whose ends start with PSNs that differ
 * by `skew`.
 */
static void connect_with(struct ibv_qp *a, struct ibv_qp *b, int rnr_retry, int retry_cnt, int skew)
{
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		struct ibv_qp_attr attr;
		int mask = world_attr(&w, IBV_QPT_RC, s, b->qp_num, &attr);

		attr.rnr_retry = rnr_retry;
		attr.retry_cnt = retry_cnt;
		if (retry_cnt != 7)
			attr.timeout = 8;	/* a millisecond */
		CHECK_EQ(ibv_modify_qp(a, &attr, mask), 0);
		mask = world_attr(&w, IBV_QPT_RC, s, a->qp_num, &attr);
		attr.rq_psn += skew;
		CHECK_EQ(ibv_modify_qp(b, &attr, mask), 0);
	}
}

static void send_one(struct ibv_qp *a, enum ibv_wc_status status)
{
	world_send(a, 2, world_sge(&buf, 0, 64));
	world_expect(cq, 2, status);
}

struct pair {
	struct ibv_qp *a, *b;
};

static struct pair open_pair(void)
{
	return (struct pair){ world_qp(&w, IBV_QPT_RC, cq, NULL),
			      world_qp(&w, IBV_QPT_RC, cq, NULL) };
}

static void close_pair(struct pair *p)
{
	CHECK_EQ(ibv_destroy_qp(p->a), 0);
	CHECK_EQ(ibv_destroy_qp(p->b), 0);
}

static void test_traffic(void)
{
	const uint64_t sent = counter("hw_counters/sent_pkts"),
		       rcvd = counter("hw_counters/rcvd_pkts");
	const uint64_t xmit = counter("counters/port_xmit_data"),
		       recv = counter("counters/port_rcv_data");
	const uint64_t xmit_pkts = counter("counters/port_xmit_packets");
	const uint64_t rcv_pkts = counter("counters/port_rcv_packets");
	const uint64_t sends = counter("hw_counters/rdma_sends"),
		       recvs = counter("hw_counters/rdma_recvs");
	struct pair p = open_pair();
	struct ibv_wc wc[2];

	take_snapshot();
	connect_with(p.a, p.b, 7, 7, 0);
	world_recv(p.b, 1, world_sge(&buf, LEN, LEN));
	world_send(p.a, 2, world_sge(&buf, 0, LEN));
	world_poll(cq, wc, 2);
	/*
	 * Three packets of the message, or one that refers to the payload in the sender's memory;
	 * and the ACK.
	 */
	CHECK(counter("hw_counters/sent_pkts") >= sent + 2);
	CHECK(counter("hw_counters/rcvd_pkts") >= rcvd + 2);
	CHECK(counter("counters/port_xmit_packets") - xmit_pkts ==
	      counter("hw_counters/sent_pkts") - sent);
	CHECK(counter("counters/port_rcv_packets") - rcv_pkts ==
	      counter("hw_counters/rcvd_pkts") - rcvd);
	CHECK(counter("counters/port_xmit_data") >= xmit + LEN / 4);
	CHECK(counter("counters/port_rcv_data") >= recv + LEN / 4);
	CHECK_EQ(counter("hw_counters/rdma_sends"), sends + 1);
	CHECK_EQ(counter("hw_counters/rdma_recvs"), recvs + 1);
	MOVED(LOSS_OR_DELAY, "?rcvd_rnr_err", "?send_rnr_err", "?out_of_buffer");
	close_pair(&p);
	/* The counts of a QP remain when it is destroyed. */
	CHECK_EQ(counter("hw_counters/rdma_sends"), sends + 1);
}

static void test_not_ready(void)
{
	struct pair p = open_pair();

	take_snapshot();
	connect_with(p.a, p.b, 0, 7, 0);
	send_one(p.a, IBV_WC_RNR_RETRY_EXC_ERR);
	MOVED("send_rnr_err", "out_of_buffer", "rcvd_rnr_err", "retry_rnr_exceeded_err",
	      LOSS_OR_DELAY);
	close_pair(&p);
}

/* Requests to a peer that does not respond. */
static void test_no_answer(void)
{
	struct pair p = open_pair();
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

	take_snapshot();
	connect_with(p.a, p.b, 7, 1, 0);
	CHECK_EQ(ibv_modify_qp(p.b, &reset, IBV_QP_STATE), 0);
	send_one(p.a, IBV_WC_RETRY_EXC_ERR);
	MOVED("retry_exceeded_err", "completer_retry_err", "retransmitted_pkts",
	      "?dropped_pkts");
	close_pair(&p);
}

static void test_refused(void)
{
	struct ibv_sge sge = world_sge(&buf, 0, 8);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 2, &sge, &buf, 0);
	struct pair p = open_pair();

	take_snapshot();
	connect_with(p.a, p.b, 7, 7, 0);
	wr.wr.rdma.rkey ^= 0x100;
	world_post(p.a, &wr);
	world_expect(cq, 2, IBV_WC_REM_ACCESS_ERR);
	MOVED("send_err", LOSS_OR_DELAY);
	world_event(&w, IBV_EVENT_QP_ACCESS_ERR);
	close_pair(&p);
}

/* The responder takes these PSNs for duplicates and acknowledges them without executing them. */
static void test_duplicate(void)
{
	struct pair p = open_pair();

	take_snapshot();
	connect_with(p.a, p.b, 7, 7, 1);
	world_recv(p.b, 1, world_sge(&buf, LEN, LEN));
	send_one(p.a, IBV_WC_SUCCESS);
	MOVED("duplicate_request", LOSS_OR_DELAY);
	close_pair(&p);
}

/*
 * The responder expects a PSN that was never sent. Its NAK names it, and the requester does not
 * recognize it. Counting of NAKs that the requester processes (rcvd_seq_err) needs a network with
 * loss: unit completer.
 */
static void test_out_of_sequence(void)
{
	struct pair p = open_pair();

	take_snapshot();
	connect_with(p.a, p.b, 7, 1, -1);
	world_recv(p.b, 1, world_sge(&buf, LEN, LEN));
	send_one(p.a, IBV_WC_RETRY_EXC_ERR);
	MOVED("out_of_seq_request", "?rcvd_seq_err", "retransmitted_pkts", "?completer_retry_err",
	      "?retry_exceeded_err", "?dropped_pkts");
	close_pair(&p);
}

/*
 * A datagram without a receive is dropped, and so is one with a wrong Q_Key, which the port also
 * counts.
 */
static void test_dropped(void)
{
	struct ibv_ah_attr to = { .is_global = 1, .port_num = 1,
				  .grh = { .dgid = w.gid, .sgid_index = w.gid_index,
					   .hop_limit = 1 } };
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_UD, cq, NULL);
	struct ibv_ah *ah = ibv_create_ah(w.pd, &to);
	struct ibv_sge sge = world_sge(&buf, 0, 64);
	struct ibv_send_wr wr = { .wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_port_attr port;
	struct ibv_wc wc;

	CHECK(ah);
	world_connect(&w, qp, qp);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = qp->qp_num;
	for (int bad_key = 0; bad_key < 2; bad_key++) {
		wr.wr.ud.remote_qkey = WORLD_QKEY + bad_key;
		if (bad_key)
			world_recv(qp, 1, world_sge(&buf, LEN, GRH + 64));
		take_snapshot();
		/* The network may also lose a datagram. */
		while (failure(9) == before[9]) {
			world_post(qp, &wr);
			world_expect(cq, 2, IBV_WC_SUCCESS);
			for (int i = 0; i < 100; i++)
				CHECK_EQ(ibv_poll_cq(cq, 1, &wc), 0);
		}
		if (bad_key)
			MOVED("dropped_pkts");
		else
			MOVED("dropped_pkts", "out_of_buffer");
	}
	CHECK_EQ(ibv_query_port(w.ctx, 1, &port), 0);
	CHECK(port.qkey_viol_cntr > w.port.qkey_viol_cntr);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

/* Counters never decrease, not even when a context with queue pairs is closed. */
static void test_orphans(void)
{
	static struct world left;
	uint64_t sent, sends = counter("hw_counters/rdma_sends");
	struct ibv_qp *a, *b;
	struct ibv_cq *all;
	struct buffer data;

	world_open(&left);
	data = world_buffer(&left, LEN, WORLD_ACCESS);
	all = world_cq(&left, 16);
	a = world_qp(&left, IBV_QPT_RC, all, NULL);
	b = world_qp(&left, IBV_QPT_RC, all, NULL);
	world_connect(&left, a, b);
	world_recv(b, 1, world_sge(&data, 0, 64));
	world_send(a, 2, world_sge(&data, 64, 64));
	world_poll(all, (struct ibv_wc[2]){ 0 }, 2);
	sent = counter("hw_counters/sent_pkts");
	CHECK_EQ(counter("hw_counters/rdma_sends"), sends + 1);
	CHECK_EQ(ibv_close_device(left.ctx), 0);
	CHECK_EQ(counter("hw_counters/rdma_sends"), sends + 1);
	CHECK(counter("hw_counters/sent_pkts") >= sent);
}

int main(void)
{
	setenv("VERBENA_LOG", "error", 1);	/* keeps the expected failures out of the log */
	world_open(&w);
	if (!strncmp(w.ctx->device->ibdev_path, "/sys/", 5))
		SKIP("this host has RDMA devices of the kernel, so no files are written for ours");
	cq = world_cq(&w, 64);
	buf = world_buffer(&w, 2 * LEN, WORLD_ACCESS);
	CHECK(!strcmp(failures[9], "dropped_pkts"));
	test_traffic();
	test_not_ready();
	test_no_answer();
	test_refused();
	test_duplicate();
	test_out_of_sequence();
	test_dropped();
	counter("hw_counters/link_downed");
	counter("hw_counters/ack_deferred");
	world_free(&buf);
	test_orphans();
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_close(&w);
	return 0;
}
