/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fault rules for connection management (docs/FAULTS.md), one row each. Each row runs in a process
 * of its own with both ends of the connection.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "world.h"

static void connects(void)
{
	struct pair p;

	pair_connect(&p, NULL);
	pair_disconnect(&p);
	pair_destroy(&p);
}

/* A rule rejects the active side's REQ or the REP to it. */
static void expect_rejected(int reason)
{
	struct rdma_event_channel *ch[2] = { rdma_create_event_channel(),
					     rdma_create_event_channel() };
	struct rdma_cm_id *listener = world_listen(ch[1], RDMA_PS_TCP, LOOPBACK),
			  *id = world_route(ch[0], listener, LOOPBACK);

	world_qp(id);
	CHECK_EQ(rdma_connect(id, NULL), 0);
	CHECK_EQ(rdma_ack_cm_event(world_event(ch[0], RDMA_CM_EVENT_REJECTED, reason)), 0);
	CHECK_EQ(id->qp->state, IBV_QPS_ERR);
	rdma_destroy_qp(id);
	CHECK_EQ(rdma_destroy_id(id), 0);
	CHECK_EQ(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(ch[0]);
	rdma_destroy_event_channel(ch[1]);
}

static void rejected_by_consumer(void)
{
	expect_rejected(28);
}

static void rejected_for_resources(void)
{
	expect_rejected(3);
}

/*
 * A rule rejects the passive side's REP: the passive side gets an event that there is no
 * connection.
 */
static void rep_rejected(void)
{
	struct pair p;

	CHECK_EQ(rdma_ack_cm_event(pair_request(&p, RDMA_PS_TCP, NULL)), 0);
	world_qp(p.id[1]);
	CHECK_EQ(rdma_accept(p.id[1], NULL), 0);
	CHECK_EQ(rdma_ack_cm_event(world_event(p.ch[1], RDMA_CM_EVENT_REJECTED, 28)), 0);
	pair_destroy(&p);
}

/* The active side's request gets no reply, which is reported at once. */
static void request_times_out(enum rdma_port_space ps)
{
	struct rdma_conn_param param = { .private_data_len = 0 };
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *listener = world_listen(ch, ps, LOOPBACK),
			  *id = world_route(ch, listener, LOOPBACK);

	world_qp(id);
	CHECK_EQ(rdma_connect(id, &param), 0);
	CHECK_EQ(rdma_ack_cm_event(world_event(ch, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT)), 0);
	rdma_destroy_qp(id);
	CHECK_EQ(rdma_destroy_id(id), 0);
	CHECK_EQ(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(ch);
}

static void tcp_request_times_out(void)
{
	request_times_out(RDMA_PS_TCP);
}

static void resolution_times_out(void)
{
	request_times_out(RDMA_PS_UDP);
}

/* The passive side's REP is lost, and so are its retransmissions. */
static void rep_times_out(void)
{
	struct pair p;

	CHECK_EQ(rdma_ack_cm_event(pair_request(&p, RDMA_PS_TCP, NULL)), 0);
	world_qp(p.id[1]);
	CHECK_EQ(rdma_accept(p.id[1], NULL), 0);
	CHECK_EQ(rdma_ack_cm_event(world_event(p.ch[1], RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT)),
		 0);
	pair_destroy(&p);
}

/*
 * The REP is lost.  Before it is repeated the REQ is, as the program took its time to accept; it
 * would be refused, since the listener is gone.
 */
static void listener_gone(void)
{
	struct pair p;

	CHECK_EQ(rdma_ack_cm_event(pair_request(&p, RDMA_PS_TCP, NULL)), 0);
	usleep(150 * 1000);
	world_qp(p.id[1]);
	CHECK_EQ(rdma_accept(p.id[1], NULL), 0);
	CHECK_EQ(rdma_destroy_id(p.listener), 0);
	p.listener = world_id(p.ch[1], RDMA_PS_TCP);
	world_expect(p.ch[0], RDMA_CM_EVENT_ESTABLISHED);
	world_expect(p.ch[1], RDMA_CM_EVENT_ESTABLISHED);
	pair_disconnect(&p);
	pair_destroy(&p);
}

/* The REJ is lost. The repeated REQ is answered without the program, which sees one request. */
static void rejection_lost(void)
{
	struct pair p;
	struct rdma_cm_event *e = pair_request(&p, RDMA_PS_TCP, NULL);

	CHECK_EQ(rdma_reject(p.id[1], NULL, 0), 0);
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	CHECK_EQ(rdma_ack_cm_event(world_event(p.ch[0], RDMA_CM_EVENT_REJECTED, 28)), 0);
	world_no_event(p.ch[1]);
	pair_destroy(&p);
}

static void disconnection_times_out(void)
{
	struct pair p;

	pair_connect(&p, NULL);
	CHECK_EQ(rdma_disconnect(p.id[0]), 0);
	CHECK_EQ(rdma_ack_cm_event(world_event(p.ch[0], RDMA_CM_EVENT_DISCONNECTED, -ETIMEDOUT)),
		 0);
	pair_destroy(&p);
}

static const struct {
	const char *rules;
	void (*run)(void);
} rows[] = {
	{ "cm REQ tx nth 1 reject", rejected_by_consumer },
	{ "cm REQ rx nth 1 reject 3", rejected_for_resources },
	{ "cm REP tx nth 1 reject", rep_rejected },
	{ "cm REQ tx duplicate 2; cm REP tx duplicate; cm RTU rx duplicate", connects },
	{ "cm REQ rx delay 20ms; cm REP tx delay 20ms; cm RTU tx delay 20ms", connects },
	{ "cm REP rx nth 1 reject", rep_rejected },
	{ "cm REQ tx nth 1 drop", connects },
	{ "cm REQ rx nth 1 drop", connects },
	{ "cm REP tx nth 1 drop", connects },
	{ "cm REP rx nth 1 drop", connects },
	{ "cm REP tx nth 1 drop", listener_gone },
	{ "cm REJ tx nth 1 drop", rejection_lost },
	{ "cm REJ rx nth 1 drop", rejection_lost },
	{ "cm RTU tx nth 1 drop", connects },
	{ "cm REQ tx nth 1 timeout", tcp_request_times_out },
	{ "cm SIDR_REQ tx timeout", resolution_times_out },
	{ "cm REP tx timeout", rep_times_out },
	{ "cm DREQ tx nth 1 timeout", disconnection_times_out },
};

int main(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		pid_t child = fork();
		int status;

		if (!child) {
			setenv("VERBENA_FAULTS", rows[i].rules, 1);
			rows[i].run();
			exit(0);
		}
		CHECK_EQ(waitpid(child, &status, 0), child);
		if (status) {
			fprintf(stderr, "\"%s\" ends with status 0x%x\n", rows[i].rules, status);
			return 1;
		}
	}
	return 0;
}
