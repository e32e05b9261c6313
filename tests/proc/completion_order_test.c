/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When a response to a message has arrived, the completion of the message must be there too.
 * Programs rely on that, because an adapter acknowledges a message before the program at the other
 * end sees it. A client sends requests; a server sends a response to each.
 *
 *	POLL	the response uses the request's QP or another one, which has its own CQs;
 *		both sides poll
 *	EVENTS	the same; both sides wait for completion events
 *	ONE_CQ	all completions go to one CQ: the request's must be first; responses of any length
 *	BESIDE	the request follows a message on the response's QP. So the response carries an
 *		ACK of that QP, but not of the request.
 *	THIRD	one CQ; a third process sends the response, by wire, once the server tells it to
 *	BESIDE_THIRD	the same by lane; the request follows a message to the third process, so
 *		that the response carries an ACK, but not of the request
 *
 *	completion_order_test CASE [TRANSPORT]
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rc.h"
#include "util/compiler.h"

enum {
	SIZE = 4096,
	REQUESTS = 2000,
	TIMEOUT = 14,
	RETRIES = 7,
	QPS = 2,
};

/* A QP with its own CQs; its receives raise completion events. */
struct connection {
	struct ibv_comp_channel *channel;
	struct ibv_cq *sent, *received;
	struct ibv_qp *qp;
};

struct side {
	struct rc rc;
	struct rc_addr peer[QPS];
	struct connection connection[QPS];
	bool events;
};

static void open_connection(struct rc *rc, struct connection *l)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 }
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	l->channel = ibv_create_comp_channel(rc->ctx);
	l->sent = ibv_create_cq(rc->ctx, 16, NULL, NULL, 0);
	l->received = ibv_create_cq(rc->ctx, 16, NULL, l->channel, 0);
	CHECK(l->channel && l->sent && l->received);
	init.send_cq = l->sent;
	init.recv_cq = l->received;
	l->qp = ibv_create_qp(rc->pd, &init);
	CHECK(l->qp);
	CHECK(ibv_modify_qp(l->qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
	      0);
}

static void close_connection(struct connection *l)
{
	CHECK(ibv_destroy_qp(l->qp) == 0);
	CHECK(ibv_destroy_cq(l->sent) == 0);
	CHECK(ibv_destroy_cq(l->received) == 0);
	CHECK(ibv_destroy_comp_channel(l->channel) == 0);
}

static void open_side(struct side *s, int sock, bool events)
{
	struct rc_addr local[QPS];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(RC_LIMIT_S);
	s->events = events;
	rc_open(&s->rc, SIZE);
	for (int i = 0; i < QPS; i++) {
		open_connection(&s->rc, &s->connection[i]);
		local[i] = rc_address(&s->rc, s->connection[i].qp);
	}
	CHECK(write(sock, local, sizeof(local)) == sizeof(local));
	CHECK(read(sock, s->peer, sizeof(s->peer)) == sizeof(s->peer));
	for (int i = 0; i < QPS; i++) {
		rc_connect(&s->rc, s->connection[i].qp, &s->peer[i], TIMEOUT, RETRIES);
		rc_post_recv(&s->rc, s->connection[i].qp, 0);
	}
	rc_barrier(sock);
}

static void close_side(struct side *s, int sock)
{
	rc_barrier(sock);
	for (int i = 0; i < QPS; i++)
		close_connection(&s->connection[i]);
	rc_close(&s->rc);
}

static bool take(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(cq, 1, &wc);

	CHECK(n >= 0);
	CHECK(!n || wc.status == IBV_WC_SUCCESS);
	return n;
}

static void wait_event(struct connection *l)
{
	struct ibv_cq *cq;
	void *context;

	CHECK(ibv_get_cq_event(l->channel, &cq, &context) == 0);
	ibv_ack_cq_events(cq, 1);
}

static void wait_message(struct side *s, struct connection *l)
{
	while (!take(l->received)) {
		if (!s->events)
			continue;
		CHECK(ibv_req_notify_cq(l->received, 0) == 0);
		if (take(l->received))
			break;
		wait_event(l);
	}
	rc_post_recv(&s->rc, l->qp, 0);
}

static void send_message(struct side *s, int connection)
{
	CHECK(rc_post_send(&s->rc, s->connection[connection].qp, IBV_WR_SEND, 8,
			   &s->peer[connection], 1) == 0);
}

/* The same QP most of the time, so that heuristics adapt to it; every eighth time the other. */
static int response_qp(int i)
{
	return i % 8 == 7 ? 1 : i / (REQUESTS / 2);
}

static void run_server(int sock, bool events)
{
	struct side s;

	open_side(&s, sock, events);
	for (int i = 0; i < REQUESTS; i++) {
		int by = response_qp(i);

		wait_message(&s, &s.connection[0]);
		send_message(&s, by);
		while (!take(s.connection[by].sent))
			;
	}
	close_side(&s, sock);
	exit(0);
}

static int run_client(int sock, bool events)
{
	struct side s;
	int late = 0;

	open_side(&s, sock, events);
	for (int i = 0; i < REQUESTS; i++) {
		send_message(&s, 0);
		wait_message(&s, &s.connection[response_qp(i)]);
		if (take(s.connection[0].sent))
			continue;
		late++;
		while (!take(s.connection[0].sent))
			;
	}
	close_side(&s, sock);
	return late;
}

/* ---- one CQ ---- */

enum { RESPONSE = 1 /* wr_id of receives */, ONE_CQ_SIZE = 65536 };

static const struct {
	uint32_t len;
	int qp; /* of the response; requests use the first one */
} responses[] = { { 8, 0 }, { 8, 1 }, { 8192, 0 }, { ONE_CQ_SIZE, 0 }, { 8192, 1 } };

struct two_qps {
	struct rc rc;
	struct ibv_qp *qp[QPS];
	struct rc_addr peer[QPS];
};

static void open_two_qps(struct two_qps *t, int sock)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(RC_LIMIT_S);
	rc_open(&t->rc, ONE_CQ_SIZE);
	t->qp[0] = t->rc.qp;
	t->qp[1] = rc_new_qp(&t->rc);
	for (int i = 0; i < QPS; i++) {
		rc_post_recv(&t->rc, t->qp[i], RESPONSE);
		t->rc.qp = t->qp[i];
		rc_pair(&t->rc, sock, &t->peer[i], TIMEOUT, RETRIES);
	}
}

static void close_two_qps(struct two_qps *t, int sock)
{
	rc_barrier(sock);
	CHECK(ibv_destroy_qp(t->qp[0]) == 0);
	rc_close(&t->rc);
}

static void send_on(struct two_qps *t, int qp, uint32_t len)
{
	CHECK(rc_post_send(&t->rc, t->qp[qp], IBV_WR_SEND, len, &t->peer[qp], 0) == 0);
}

static void serve_one_cq(int sock)
{
	struct two_qps t;

	open_two_qps(&t, sock);
	for (int i = 0; i < REQUESTS; i++) {
		while (rc_wait(&t.rc).wr_id != RESPONSE)
			;
		rc_post_recv(&t.rc, t.qp[0], RESPONSE);
		send_on(&t, responses[i % ARRAY_SIZE(responses)].qp,
			responses[i % ARRAY_SIZE(responses)].len);
	}
	close_two_qps(&t, sock);
	exit(0);
}

static int request_one_cq(int sock)
{
	struct two_qps t;
	int late = 0;

	open_two_qps(&t, sock);
	for (int i = 0; i < REQUESTS; i++) {
		struct ibv_wc first, second;

		send_on(&t, 0, 8);
		first = rc_wait(&t.rc);
		second = rc_wait(&t.rc);
		CHECK(first.status == IBV_WC_SUCCESS && second.status == IBV_WC_SUCCESS);
		late += first.wr_id == RESPONSE;
		rc_post_recv(&t.rc, t.qp[responses[i % ARRAY_SIZE(responses)].qp], RESPONSE);
	}
	close_two_qps(&t, sock);
	return late;
}

static void serve_second_qp(int sock)
{
	struct two_qps t;

	open_two_qps(&t, sock);
	for (int i = 0; i < REQUESTS; i++) {
		for (int arrived = 0; arrived < QPS;)
			arrived += rc_wait(&t.rc).wr_id == RESPONSE;
		rc_post_recv(&t.rc, t.qp[0], RESPONSE);
		rc_post_recv(&t.rc, t.qp[1], RESPONSE);
		send_on(&t, 1, 8);
	}
	close_two_qps(&t, sock);
	exit(0);
}

static int request_second_qp(int sock)
{
	struct two_qps t;
	int late = 0;

	open_two_qps(&t, sock);
	for (int i = 0; i < REQUESTS; i++) {
		struct ibv_wc wc[QPS + 1];

		send_on(&t, 1, 8);
		send_on(&t, 0, 8);
		for (int k = 0; k <= QPS; k++) {
			wc[k] = rc_wait(&t.rc);
			CHECK(wc[k].status == IBV_WC_SUCCESS);
		}
		late += wc[QPS].wr_id != RESPONSE;
		rc_post_recv(&t.rc, t.qp[1], RESPONSE);
	}
	close_two_qps(&t, sock);
	return late;
}

/* ---- a third process ---- */

static int third_sock[2];	/* of the client and the third process */
static bool beside;

/* Sends one message for each byte from `go`, and, for BESIDE_THIRD, for each message. */
static void respond(int go)
{
	int sock = third_sock[1];
	struct rc_addr peer;
	struct rc rc;
	char byte;

	CHECK(setenv("VERBENA_TRANSPORT", beside ? "local" : "udp", 1) == 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(RC_LIMIT_S);
	rc_open(&rc, SIZE);
	rc_post_recv(&rc, rc.qp, RESPONSE);
	rc_pair(&rc, sock, &peer, TIMEOUT, RETRIES);
	for (int i = 0; i < REQUESTS; i++) {
		if (beside) {
			CHECK(rc_wait(&rc).wr_id == RESPONSE);
			rc_post_recv(&rc, rc.qp, RESPONSE);
		}
		CHECK(read(go, &byte, 1) == 1);
		CHECK(rc_post_send(&rc, rc.qp, IBV_WR_SEND, 8, &peer, 0) == 0);
		CHECK(rc_wait(&rc).status == IBV_WC_SUCCESS);
	}
	rc_barrier(sock);
	rc_close(&rc);
	exit(0);
}

static void serve_by_third(int sock)
{
	struct rc_addr peer;
	int go[2], status;
	struct rc rc;
	pid_t pid;

	CHECK(pipe(go) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		respond(go[0]);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(RC_LIMIT_S);
	rc_open(&rc, SIZE);
	rc_post_recv(&rc, rc.qp, RESPONSE);
	rc_pair(&rc, sock, &peer, TIMEOUT, RETRIES);
	for (int i = 0; i < REQUESTS; i++) {
		CHECK(rc_wait(&rc).status == IBV_WC_SUCCESS);
		rc_post_recv(&rc, rc.qp, RESPONSE);
		CHECK(write(go[1], "", 1) == 1);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	rc_close(&rc);
	exit(0);
}

static int request_by_third(int sock)
{
	const int socks[QPS] = { sock, third_sock[0] };
	struct rc_addr peer[QPS];
	struct ibv_qp *qp;
	struct rc rc;
	int late = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(RC_LIMIT_S);
	rc_open(&rc, SIZE);
	qp = rc.qp;
	rc_pair(&rc, socks[0], &peer[0], TIMEOUT, RETRIES);
	rc.qp = rc_new_qp(&rc);
	rc_post_recv(&rc, rc.qp, RESPONSE);
	rc_pair(&rc, socks[1], &peer[1], TIMEOUT, RETRIES);
	for (int i = 0; i < REQUESTS; i++) {
		if (beside)
			CHECK(rc_post_send(&rc, rc.qp, IBV_WR_SEND, 8, &peer[1], 0) == 0);
		CHECK(rc_post_send(&rc, qp, IBV_WR_SEND, 8, &peer[0], 0) == 0);
		for (int before = 1 + beside; before; before--)
			late += rc_wait(&rc).wr_id == RESPONSE;
		CHECK(rc_wait(&rc).status == IBV_WC_SUCCESS);
		rc_post_recv(&rc, rc.qp, RESPONSE);
	}
	rc_barrier(socks[1]);
	CHECK(ibv_destroy_qp(qp) == 0);
	rc_close(&rc);
	return late;
}

static const struct mode {
	const char *name;
	bool events;
	void (*run_server)(int sock);
	int (*run_client)(int sock);
} modes[] = {
	{ "POLL", false, NULL, NULL },
	{ "EVENTS", true, NULL, NULL },
	{ "ONE_CQ", false, serve_one_cq, request_one_cq },
	{ "BESIDE", false, serve_second_qp, request_second_qp },
	{ "THIRD", false, serve_by_third, request_by_third },
	{ "BESIDE_THIRD", false, serve_by_third, request_by_third },
};

static const struct mode *find_mode(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++)
		if (!strcmp(modes[i].name, name))
			return &modes[i];
	return NULL;
}

int main(int argc, char **argv)
{
	const struct mode *mode = find_mode(argc > 1 ? argv[1] : "POLL");
	int sock[2], status, late;
	pid_t pid;

	CHECK(mode);
	beside = strcmp(mode->name, "BESIDE_THIRD") == 0;
	if (argc > 2)
		setenv("VERBENA_TRANSPORT", argv[2], 1);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sock) == 0 &&
	      socketpair(AF_UNIX, SOCK_STREAM, 0, third_sock) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0 && mode->run_server)
		mode->run_server(sock[1]);
	if (pid == 0)
		run_server(sock[1], mode->events);
	late = mode->run_client ? mode->run_client(sock[0]) : run_client(sock[0], mode->events);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status));
	printf("%d of %d responses arrived before the completion of their request\n", late,
	       REQUESTS);
	CHECK(late == 0);
	return 0;
}
