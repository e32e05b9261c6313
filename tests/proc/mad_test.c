/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP 1 of a host with several processes (src/verbs/mad.h). A MAD may reach any process of the host
 * that has a device open. It must get to the process that it is for, or be answered exactly once if
 * there is none. Idle processes, which have a device open but manage no connections, receive MADs
 * too and must pass them on.
 *
 *	mad_test CASE [TRANSPORT]
 *
 *	mad_test CASE [TRANSPORT]
 *
 *	NO-LISTENER	a request without a listener is rejected
 *	LISTENER	requests reach the listener, other MADs the owner of their communication id
 *	STOPPED		a stopped listener loses no request and does not affect others
 *	SWALLOW		a stopped idle process does not hold up all MADs from the wire
 *	SELF		both ends are in one process
 *	OPEN		MADs arrive while QP 1 is opened and closed
 *	IDS		communication ids are unique
 *	FORK		a child has no access to its parent's QP 1
 *	GARBAGE		random MADs have no effect
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "fork_settled.h"
#include "mad_side.h"
#include "util/be.h"

enum { FLOOD = 3000 };

/* Listens, answers each REQ with a REP, and reports the attribute of every other MAD. */
static void run_server(struct process *p)
{
	struct vrb_service want = { .service_id = service, .family = 4 };
	struct vrb_binding *b;
	struct side s;

	side_open(&s);
	CHECK_EQ(vrb_mad_bind(s.m, &want, &b), 0);
	CHECK_EQ(vrb_mad_listen(s.m, b), 0);
	write_word(p, vrb_mad_comm_id(s.m));
	for (;;) {
		struct arrived a = next_mad(&s);
		uint8_t mad[VRB_MAD_LEN];

		if (a.mad[ATTRIBUTE_AT] != REQ) {
			write_word(p, a.mad[ATTRIBUTE_AT]);
			continue;
		}
		CHECK(net_addr_equal(&a.path.dst, &loopback) &&
		      net_addr_equal(&a.path.src, &loopback));
		build_mad(mad, REP, vrb_mad_comm_id(s.m), id_at(&a, 0));
		send_mad(&s, mad);
	}
}

/* ---- cases ---- */

static void test_no_listener(void)
{
	uint8_t mad[VRB_MAD_LEN];
	struct arrived a;
	struct side s;
	uint32_t id;

	start_idle_processes();
	side_open(&s);
	id = vrb_mad_comm_id(s.m);
	build_request(mad, REQ, id, service);
	send_mad(&s, mad);
	expect_rej(&s, id);

	build_request(mad, SIDR_REQ, id, service);
	send_mad(&s, mad);
	a = next_mad(&s);
	CHECK_EQ(a.mad[ATTRIBUTE_AT], SIDR_REP);
	CHECK_EQ(a.mad[STATUS_AT], 1);

	/* A connection of a process that has ended, or that manages none. */
	for (uint32_t other = 1; other < 4; other++) {
		build_mad(mad, DREQ, id, id ^ other << 22);
		send_mad(&s, mad);
		a = next_mad(&s);
		CHECK_EQ(a.mad[ATTRIBUTE_AT], DREP);
		CHECK_EQ(id_at(&a, 0), id ^ other << 22);
	}
	/* An RTU has no answer. */
	build_mad(mad, RTU, id, id ^ 1u << 22);
	send_mad(&s, mad);
	build_request(mad, REQ, id, service);
	send_mad(&s, mad);
	expect_rej(&s, id);
	CHECK(!mad_waiting(&s));
	side_close(&s);
	stop_idle_processes();
}

static void connect_once(struct side *s)
{
	uint8_t mad[VRB_MAD_LEN];
	uint32_t id = vrb_mad_comm_id(s->m);
	struct arrived a;

	build_request(mad, REQ, id, service);
	send_mad(s, mad);
	a = next_mad(s);
	CHECK_EQ(a.mad[ATTRIBUTE_AT], REP);
	CHECK_EQ(id_at(&a, 4), id);
}

static void test_listener(void)
{
	struct process server;
	uint8_t mad[VRB_MAD_LEN];
	struct side s;
	uint32_t id, theirs;

	start_idle_processes();
	start_process(&server, run_server);
	theirs = read_word(&server);
	side_open(&s);
	for (int i = 0; i < 20; i++)
		connect_once(&s);
	/* An RTU reaches the server by its communication id. */
	build_mad(mad, RTU, vrb_mad_comm_id(s.m), theirs);
	send_mad(&s, mad);
	CHECK_EQ(read_word(&server), RTU);

	/* A REJ without the server's id goes to all processes. */
	build_mad(mad, REJ, vrb_mad_comm_id(s.m), 0);
	put_be16(mad + REASON_AT, TIMEOUT);
	mad[INFO_LEN_AT] = 8 << 1;
	send_mad(&s, mad);
	CHECK_EQ(read_word(&server), REJ);
	CHECK_EQ(next_mad(&s).mad[ATTRIBUTE_AT], REJ);

	stop_process(&server);
	id = vrb_mad_comm_id(s.m);
	build_request(mad, REQ, id, service);
	send_mad(&s, mad);
	expect_rej(&s, id);
	side_close(&s);
	stop_idle_processes();
}

/* The listener is stopped for a while: its queue holds these requests, others are answered. */
static void test_stopped(void)
{
	struct process server;
	uint8_t mad[VRB_MAD_LEN];
	struct side s;
	uint32_t id;

	start_process(&server, run_server);
	read_word(&server);
	side_open(&s);
	connect_once(&s);
	kill(server.pid, SIGSTOP);
	id = vrb_mad_comm_id(s.m);
	for (uint32_t i = 0; i < 500; i++) {
		build_request(mad, REQ, id + i, service);
		send_mad(&s, mad);
	}
	build_request(mad, REQ, id, service + 1);
	send_mad(&s, mad);
	expect_rej(&s, id);
	kill(server.pid, SIGCONT);
	for (uint32_t i = 0; i < 500; i++)
		CHECK_EQ(next_mad(&s).mad[ATTRIBUTE_AT], REP);
	side_close(&s);
	stop_process(&server);
}

enum { TRIES = 64 };

/* An idle process is stopped: MADs from the wire still get through. */
static void test_swallow(void)
{
	uint8_t mad[VRB_MAD_LEN];
	struct side s;

	start_idle_processes();
	side_open(&s);
	for (int i = 0; i < IDLE_PROCESSES; i++) {
		uint32_t id = vrb_mad_comm_id(s.m);

		kill(idle_process[i].pid, SIGSTOP);
		build_request(mad, REQ, id, service);
		for (int k = 0; k < TRIES; k++)
			send_mad(&s, mad);
		/* REJs of the last round may arrive first. */
		while (id_at(&(struct arrived[]){ next_mad(&s) }[0], 4) != id)
			;
		kill(idle_process[i].pid, SIGCONT);
	}
	side_close(&s);
	stop_idle_processes();
}

/* Both ends in one process. */
static void test_self(void)
{
	struct vrb_service want = { .service_id = service & ~0xffffull,
				    .family = 4,
				    .addr = loopback };
	uint8_t mad[VRB_MAD_LEN];
	struct vrb_binding *b;
	struct arrived a;
	struct side s;
	struct vrb_mad *second;
	uint32_t id;

	side_open(&s);
	CHECK_EQ(vrb_mad_open(&side_ops, &s, &second), EBUSY);
	CHECK_EQ(vrb_mad_bind(s.m, &want, &b), 0);
	CHECK_EQ(vrb_mad_listen(s.m, b), 0);
	id = vrb_mad_comm_id(s.m);
	build_request(mad, REQ, id, want.service_id);
	send_mad(&s, mad);
	a = next_mad(&s);
	CHECK_EQ(a.mad[ATTRIBUTE_AT], REQ);
	build_mad(mad, REP, vrb_mad_comm_id(s.m), id);
	send_mad(&s, mad);
	a = next_mad(&s);
	CHECK_EQ(a.mad[ATTRIBUTE_AT], REP);
	CHECK_EQ(id_at(&a, 4), id);
	vrb_mad_unbind(s.m, b);
	build_request(mad, REQ, id, want.service_id);
	send_mad(&s, mad);
	expect_rej(&s, id);

	/* The timer expires while the program waits. */
	vrb_mad_arm(s.m, vrb_mad_now() + 1000000);
	CHECK_EQ(next_mad(&s).mad[0], 0);
	side_close(&s);
	/* It can be opened again. */
	side_open(&s);
	side_close(&s);
}

static void test_ids(void)
{
	enum { N = 100000 };
	static uint32_t ids[N];
	struct side s;

	side_open(&s);
	for (int i = 0; i < N; i++)
		ids[i] = vrb_mad_comm_id(s.m);
	for (int i = 1; i < N; i++)
		CHECK(ids[i] && ids[i] >> 22 == ids[0] >> 22);
	for (int i = 0; i < N; i++) {
		static uint8_t seen[1 << 22];

		CHECK(!seen[ids[i] & 0x3fffff]++);
	}
	side_close(&s);
}

/* A child cannot use its parent's QP 1, and can open its own. */
static void test_fork(void)
{
	struct vrb_service want = { .service_id = service, .family = 4 };
	struct vrb_binding *b;
	uint8_t mad[VRB_MAD_LEN];
	struct side s, t;
	int status;
	pid_t pid;

	side_open(&s);
	CHECK_EQ(vrb_mad_bind(s.m, &want, &b), 0);
	pid = fork_settled();
	if (!pid) {
		const struct net_path path = { .src = loopback, .dst = loopback };

		alarm(LIMIT_S);
		build_request(mad, REQ, 1, service);
		CHECK_EQ(vrb_mad_send(s.m, &path, mad), EIO);
		CHECK_EQ(vrb_mad_listen(s.m, b), EIO);
		vrb_mad_close(s.m);
		side_open(&t);
		CHECK_EQ(vrb_mad_bind(t.m, &want, &b), EADDRNOTAVAIL);
		side_close(&t);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK_EQ(vrb_mad_listen(s.m, b), 0);
	side_close(&s);
}

/* MADs with random contents are ignored; a REQ after them is still answered. */
static void test_garbage(void)
{
	uint8_t mad[VRB_MAD_LEN];
	struct side s;
	uint32_t id, random = 1;

	side_open(&s);
	for (int i = 0; i < FLOOD; i++) {
		for (int k = 0; k < VRB_MAD_LEN; k++) {
			random = random * 1664525 + 1013904223;
			mad[k] = (uint8_t)(random >> 24);
		}
		if (i % 2)
			memcpy(mad, (uint8_t[]){ 1, 7, 2, 3 }, 4);
		mad[16] = 0;
		mad[ATTRIBUTE_AT] = 0x30;
		send_mad(&s, mad);
	}
	id = vrb_mad_comm_id(s.m);
	build_request(mad, REQ, id, service);
	send_mad(&s, mad);
	expect_rej(&s, id);
	side_close(&s);
}

enum {
	OPENINGS = 300,
	OUTSTANDING = 32, /* DREQs without an answer */
};

/* Sends DREQs with ids of a slot, the first word, until the second; each is answered once. */
static void send_dreqs(struct process *p)
{
	struct pollfd fd = { p->pipe[0], POLLIN, 0 };
	uint32_t waiting = 0, n = 0, slot = read_word(p);
	uint8_t mad[VRB_MAD_LEN];
	struct side s;

	side_open(&s);
	while (poll(&fd, 1, 0) == 0 || waiting) {
		while (waiting < OUTSTANDING && poll(&fd, 1, 0) == 0) {
			build_mad(mad, DREQ, vrb_mad_comm_id(s.m), slot | ++n % 4096);
			send_mad(&s, mad);
			waiting++;
		}
		CHECK_EQ(next_mad(&s).mad[ATTRIBUTE_AT], DREP);
		waiting--;
	}
	CHECK(!mad_waiting(&s));
	side_close(&s);
}

static void answer_dreq(void *arg, const struct net_path *path, const uint8_t mad[VRB_MAD_LEN],
			uint64_t now)
{
	const struct net_path back = { .src = path->dst, .dst = path->src };
	struct side *s = arg;
	uint8_t reply[VRB_MAD_LEN];

	CHECK(s->m);
	build_mad(reply, DREP, get_be32(mad + DATA_AT + 4), get_be32(mad + DATA_AT));
	CHECK_EQ(vrb_mad_send(s->m, &back, reply), 0);
}

/* MADs arrive while QP 1 opens and closes: no callback sees it half open, each is answered. */
static void test_open(void)
{
	const struct vrb_mad_ops answering = { answer_dreq, side_ops.timeout };
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx;
	struct process other;
	struct side s;
	uint32_t slot;
	int status;

	start_process(&other, send_dreqs);
	ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	CHECK(ctx); /* keeps the slot, which is a part of the ids */
	side_open(&s);
	slot = vrb_mad_comm_id(s.m) & ~0x3fffffu;
	side_close(&s);
	write_word(&other, slot);
	for (int i = 0; i < OPENINGS; i++) {
		s.m = NULL;
		CHECK_EQ(vrb_mad_open(&answering, &s, &s.m), 0);
		vrb_mad_close(s.m);
	}
	write_word(&other, 1);
	CHECK(waitpid(other.pid, &status, 0) == other.pid && status == 0);
	ibv_close_device(ctx);
}

static const struct mad_case cases[] = {
	{ "NO-LISTENER", test_no_listener },
	{ "LISTENER", test_listener },
	{ "STOPPED", test_stopped },
	{ "SELF", test_self },
	{ "SWALLOW", test_swallow },
	{ "IDS", test_ids },
	{ "FORK", test_fork },
	{ "GARBAGE", test_garbage },
	{ "OPEN", test_open },
};

int main(int argc, char **argv)
{
	return run_mad_case(cases, ARRAY_SIZE(cases), argv);
}
