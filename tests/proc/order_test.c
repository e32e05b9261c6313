/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When the answer is there, the completion of the question is there too: programs rely on it, since
 * an adapter acknowledges a message before the program at the other end hears of it.  The server
 * answers on the QP that the question came by, or on another one with CQs of its own; both sides
 * poll, or wait for events.
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

enum {
	SIZE = 4096,
	QUESTIONS = 2000,
	TIMEOUT = 14,
	RETRIES = 7,
	QPS = 2,
};

/* A QP with CQs of its own; its receives raise events. */
struct line {
	struct ibv_comp_channel *channel;
	struct ibv_cq *sent, *received;
	struct ibv_qp *qp;
};

struct side {
	struct rc rc;
	struct rc_addr peer[QPS];
	struct line line[QPS];
	bool events;
};

static void open_line(struct rc *rc, struct line *l)
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

static void close_line(struct line *l)
{
	CHECK(ibv_destroy_qp(l->qp) == 0);
	CHECK(ibv_destroy_cq(l->sent) == 0);
	CHECK(ibv_destroy_cq(l->received) == 0);
	CHECK(ibv_destroy_comp_channel(l->channel) == 0);
}

static void open_side(struct side *s, int sock, bool events)
{
	struct rc_addr own[QPS];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(RC_LIMIT_S);
	s->events = events;
	rc_open(&s->rc, SIZE);
	for (int i = 0; i < QPS; i++) {
		open_line(&s->rc, &s->line[i]);
		own[i] = rc_address(&s->rc, s->line[i].qp);
	}
	CHECK(write(sock, own, sizeof(own)) == sizeof(own));
	CHECK(read(sock, s->peer, sizeof(s->peer)) == sizeof(s->peer));
	for (int i = 0; i < QPS; i++) {
		rc_connect(&s->rc, s->line[i].qp, &s->peer[i], TIMEOUT, RETRIES);
		rc_post_recv(&s->rc, s->line[i].qp, 0);
	}
	rc_meet(sock);
}

static void close_side(struct side *s, int sock)
{
	rc_meet(sock);
	for (int i = 0; i < QPS; i++)
		close_line(&s->line[i]);
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

static void wait_event(struct line *l)
{
	struct ibv_cq *cq;
	void *context;

	CHECK(ibv_get_cq_event(l->channel, &cq, &context) == 0);
	ibv_ack_cq_events(cq, 1);
}

static void wait_message(struct side *s, struct line *l)
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

static void say(struct side *s, int line)
{
	CHECK(rc_post_send(&s->rc, s->line[line].qp, IBV_WR_SEND, 8, &s->peer[line], 1) == 0);
}

/* Mostly on one line, so that it becomes a habit; every eighth answer goes the other way. */
static int answer_line(int i)
{
	return i % 8 == 7 ? 1 : i / (QUESTIONS / 2);
}

static void serve(int sock, bool events)
{
	struct side s;

	open_side(&s, sock, events);
	for (int i = 0; i < QUESTIONS; i++) {
		int by = answer_line(i);

		wait_message(&s, &s.line[0]);
		say(&s, by);
		while (!take(s.line[by].sent))
			;
	}
	close_side(&s, sock);
	exit(0);
}

static int ask(int sock, bool events)
{
	struct side s;
	int late = 0;

	open_side(&s, sock, events);
	for (int i = 0; i < QUESTIONS; i++) {
		say(&s, 0);
		wait_message(&s, &s.line[answer_line(i)]);
		if (take(s.line[0].sent))
			continue;
		late++;
		while (!take(s.line[0].sent))
			;
	}
	close_side(&s, sock);
	return late;
}

int main(int argc, char **argv)
{
	bool events = argc > 1 && !strcmp(argv[1], "EVENTS");
	int sock[2], status, late;
	pid_t pid;

	if (argc > 2)
		setenv("VERBENA_TRANSPORT", argv[2], 1);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sock) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		serve(sock[1], events);
	late = ask(sock[0], events);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status));
	printf("%d of %d answers were there before the completion of their question\n", late,
	       QUESTIONS);
	CHECK(late == 0);
	return 0;
}
