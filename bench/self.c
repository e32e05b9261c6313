/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a message costs when one thread is both ends of a connection: no other CPU and no cache line
 * handed over, only the code.  So even on a busy machine it shows whether a change made the path
 * shorter, and `perf record` or callgrind sees the whole path.
 *
 *	self send SIZE COUNT		post, receive, acknowledge, both completions
 *	self write|read SIZE COUNT	post, completion
 *	self list SIZE COUNT		WRITEs, posted 16 at a time
 *	self stream SIZE COUNT		WRITEs, posted one at a time, up to 48 in flight, as
 *					ib_write_bw does
 *	self sends SIZE COUNT		the same with SENDs and their receives
 *	self reads SIZE COUNT		the same with READs
 *	self pong SIZE COUNT		inline SENDs, each the answer to the one before it, one in
 *					32 signaled, as ib_send_lat does
 *	self imm SIZE COUNT		the same with WRITEs with immediate
 *	self ud SIZE COUNT		the same with SENDs of UD
 *	self stream SIZE COUNT 0 MTU	by UDP with this path MTU (256 to 4096)
 *	self send SIZE COUNT QPS	one pair sends among QPS connected QPs of the process
 *	self round SIZE COUNT QPS	SENDs on QPS QPs in turn
 *	self poll SIZE COUNT		polls of an empty CQ
 *	self setup SIZE COUNT		COUNT pairs of QPs, created and connected; prints pairs per
 *					second
 *
 * Prints nanoseconds per message, the best of many short stretches.
 */
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "rc.h"

enum {
	STRETCH = 64,
	LIST = 16,
	STREAM = 48,
	PONG_SIGNAL = 32,
	TIMEOUT = 14,
	RETRIES = 7,
	QPS_MAX = 20000,
	QKEY = 7,
};

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static struct rc rc;
static struct ibv_qp *other;
static struct rc_addr to;
static uint32_t size;

static struct ibv_qp *idle[QPS_MAX];
static int qps, turn;

static void take(int n)
{
	while (n--)
		CHECK(rc_wait(&rc).status == IBV_WC_SUCCESS);
}

static void send_one(void)
{
	rc_post_recv(&rc, other, 1);
	CHECK(rc_post_send(&rc, rc.qp, IBV_WR_SEND, size, &to, 2) == 0);
	take(2);
}

/* idle[i] and idle[i + 1] are connected, i even. */
static void send_in_turn(void)
{
	turn = (turn + 2) % qps;
	rc_post_recv(&rc, idle[turn + 1], 1);
	CHECK(rc_post_send(&rc, idle[turn], IBV_WR_SEND, size, &to, 2) == 0);
	take(2);
}

static void write_one(void)
{
	CHECK(rc_post_send(&rc, rc.qp, IBV_WR_RDMA_WRITE, size, &to, 2) == 0);
	take(1);
}

static void read_one(void)
{
	CHECK(rc_post_send(&rc, rc.qp, IBV_WR_RDMA_READ, size, &to, 2) == 0);
	take(1);
}

static void write_list(void)
{
	struct ibv_sge sge = { (uintptr_t)rc.buf, size, rc.mr->lkey };
	struct ibv_send_wr wr[LIST], *bad;

	for (int i = 0; i < LIST; i++)
		wr[i] = (struct ibv_send_wr){ .next = i + 1 < LIST ? &wr[i + 1] : NULL,
					      .opcode = IBV_WR_RDMA_WRITE,
					      .sg_list = &sge,
					      .num_sge = 1,
					      .wr.rdma = { to.addr, to.rkey } };
	CHECK(ibv_post_send(rc.qp, wr, &bad) == 0);
	take(LIST);
}

static void post_stream(enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = { (uintptr_t)rc.buf, size, rc.mr->lkey };
	struct ibv_send_wr *bad, wr = { .opcode = opcode,
					.sg_list = &sge,
					.num_sge = 1,
					.wr.rdma = { to.addr, to.rkey } };

	for (int i = 0; i < STREAM; i++)
		CHECK(ibv_post_send(rc.qp, &wr, &bad) == 0);
}

static void write_stream(void)
{
	post_stream(IBV_WR_RDMA_WRITE);
	take(STREAM);
}

static void read_stream(void)
{
	post_stream(IBV_WR_RDMA_READ);
	take(STREAM);
}

static void send_stream(void)
{
	for (int i = 0; i < STREAM; i++)
		rc_post_recv(&rc, other, 1);
	post_stream(IBV_WR_SEND);
	take(2 * STREAM);
}

static struct ibv_qp *pong[2];
static struct ibv_ah *pong_ah;		/* of UD */
static struct ibv_cq *pong_sent;	/* their receives complete into rc.cq */
static unsigned int pongs;

static void pong_receive(struct ibv_qp *qp)
{
	rc_post_recv(&rc, qp, 1);
}

static inline __attribute__((always_inline)) void pong_by(enum ibv_wr_opcode opcode, bool datagram)
{
	struct ibv_sge sge = { (uintptr_t)rc.buf, size, rc.mr->lkey };
	bool signal = pongs / 2 % PONG_SIGNAL == 0;
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = opcode,
				  .wr.rdma = { to.addr, to.rkey },
				  .send_flags =
					  IBV_SEND_INLINE | (signal ? IBV_SEND_SIGNALED : 0) };
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	if (datagram) {
		wr.wr.ud.ah = pong_ah;
		wr.wr.ud.remote_qpn = pong[(pongs + 1) % 2]->qp_num;
		wr.wr.ud.remote_qkey = QKEY;
	}
	CHECK(ibv_post_send(pong[pongs % 2], &wr, &bad) == 0);
	while (signal && (ibv_poll_cq(pong_sent, 1, &wc) == 0))
		;
	take(1);
	pong_receive(pong[++pongs % 2]);
}

static void pong_one(void)
{
	pong_by(IBV_WR_SEND, false);
}

static void imm_one(void)
{
	pong_by(IBV_WR_RDMA_WRITE_WITH_IMM, false);
}

static void datagram_one(void)
{
	pong_by(IBV_WR_SEND, true);
}

static void poll_none(void)
{
	struct ibv_wc wc;

	CHECK(ibv_poll_cq(rc.cq, 1, &wc) == 0);
}

static const struct what {
	const char *name;
	void (*once)(void);
	int ops;
} whats[] = {
	{ "send", send_one, 1 },
	{ "write", write_one, 1 },
	{ "read", read_one, 1 },
	{ "list", write_list, LIST },
	{ "stream", write_stream, STREAM },
	{ "sends", send_stream, STREAM },
	{ "reads", read_stream, STREAM },
	{ "round", send_in_turn, 1 },
	{ "pong", pong_one, 1 },
	{ "imm", imm_one, 1 },
	{ "ud", datagram_one, 1 },
	{ "poll", poll_none, 1 },
	{ "setup", NULL, 1 },
};

static void connect_pair(struct ibv_qp *a, struct ibv_qp *b)
{
	struct rc_addr at_a = rc_address(&rc, a), at_b = rc_address(&rc, b);

	rc_connect(&rc, a, &at_b, TIMEOUT, RETRIES);
	rc_connect(&rc, b, &at_a, TIMEOUT, RETRIES);
}

static void start_datagrams(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };

	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
	attr.qp_state = IBV_QPS_RTS;
	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
}

static struct ibv_ah *own_ah(void)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.grh = { .dgid = rc.gid, .sgid_index = rc.gid_index, .hop_limit = 1 },
		.port_num = 1,
	};

	return ibv_create_ah(rc.pd, &attr);
}

static void new_pong(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.recv_cq = rc.cq,
		.qp_type = type,
		.cap = { 2 * PONG_SIGNAL, 2 * PONG_SIGNAL, 1, 1, size },
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	int own = type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;

	pong_sent = init.send_cq = ibv_create_cq(rc.ctx, 4 * PONG_SIGNAL, NULL, NULL, 0);
	CHECK(pong_sent);
	for (int i = 0; i < 2; i++) {
		pong[i] = ibv_create_qp(rc.pd, &init);
		CHECK(pong[i]);
		CHECK(ibv_modify_qp(pong[i], &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						    own) == 0);
		if (type == IBV_QPT_UD)
			start_datagrams(pong[i]);
	}
	if (type == IBV_QPT_RC)
		connect_pair(pong[0], pong[1]);
	else
		pong_ah = own_ah();
	CHECK(type == IBV_QPT_RC || pong_ah);
	pong_receive(pong[0]);
	pong_receive(pong[1]);
}

static double best_of(const struct what *w, long count)
{
	double best = 1e18;

	for (long i = 0; i < count; i += STRETCH * w->ops) {
		double start = now_ns(), took;

		for (int n = 0; n < STRETCH; n++)
			w->once();
		took = (now_ns() - start) / STRETCH / w->ops;
		best = took < best ? took : best;
	}
	return best;
}

static void new_pairs(int n)
{
	for (int i = 0; i + 1 < n; i += 2) {
		idle[i] = rc_new_qp(&rc);
		idle[i + 1] = rc_new_qp(&rc);
		connect_pair(idle[i], idle[i + 1]);
	}
}

/* Pairs a second. */
static double set_up(long pairs)
{
	double start = now_ns();

	qps = 2 * (int)pairs;
	new_pairs(qps);
	return pairs * 1e9 / (now_ns() - start);
}

static enum ibv_mtu path_mtu(int bytes)
{
	int mtu = IBV_MTU_256;

	while (mtu < IBV_MTU_4096 && 128 << mtu < bytes)
		mtu++;
	return (enum ibv_mtu)mtu;
}

int main(int argc, char **argv)
{
	long count = argc > 3 ? strtol(argv[3], NULL, 0) : 0;
	const struct what *w = NULL;

	qps = argc > 4 ? atoi(argv[4]) & ~1 : 0;
	for (size_t i = 0; argc > 1 && i < sizeof(whats) / sizeof(whats[0]); i++)
		if (strcmp(argv[1], whats[i].name) == 0)
			w = &whats[i];
	size = argc > 2 ? strtoul(argv[2], NULL, 0) : 0;
	if (!w || !size || count <= 0 || qps > QPS_MAX || (w->once == send_in_turn && !qps) ||
	    (!w->once && count > QPS_MAX / 2))
		return 2;
	rc_open(&rc, size + sizeof(struct ibv_grh));
	if (argc > 5)
		rc.mtu = path_mtu(atoi(argv[5]));
	other = rc_new_qp(&rc);
	to = rc_address(&rc, other);
	connect_pair(rc.qp, other);
	if (w->once) {
		new_pairs(qps);
		if (w->once == pong_one || w->once == imm_one)
			new_pong(IBV_QPT_RC);
		if (w->once == datagram_one)
			new_pong(IBV_QPT_UD);
		printf("%.1f\n", best_of(w, count));
	} else {
		printf("%.0f\n", set_up(count));
	}
	for (int i = 0; i < qps; i++)
		CHECK(ibv_destroy_qp(idle[i]) == 0);
	for (int i = 0; i < 2 && pong[i]; i++)
		CHECK(ibv_destroy_qp(pong[i]) == 0);
	CHECK(!pong_ah || ibv_destroy_ah(pong_ah) == 0);
	CHECK(!pong_sent || ibv_destroy_cq(pong_sent) == 0);
	CHECK(ibv_destroy_qp(other) == 0);
	rc_close(&rc);
	return 0;
}
