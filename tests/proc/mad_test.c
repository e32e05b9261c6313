/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP 1 of a host with several processes (src/verbs/mad.h). A MAD may reach any process of the host
 * that has a device open. It must get to the process that it is for, or be answered exactly once if
 * there is none. Idle processes, which have a device open but manage no connections, receive MADs
 * too and must pass them on.
 *
 *	mad_test CASE [TRANSPORT]
 *
 *	NO-LISTENER	a request without a listener is rejected
 *	LISTENER	requests reach the listener, other MADs the owner of their communication id
 *	STOPPED		a stopped listener loses no request and does not affect others
 *	SWALLOW		a stopped idle process does not hold up all MADs from the wire
 *	SELF		both ends are in one process
 *	OPEN		MADs arrive while QP 1 is opened and closed
 *	AT_EXIT		other processes send a killed process's exit MADs, once
 *	HELD_UP		the same when the killed process ends slowly
 *	UNSEEN		the same when no process noticed its end
 *	LATE		the same when only idle processes did
 *	IDS		communication ids are unique
 *	FORK		a child has no access to its parent's QP 1
 *	GARBAGE		random MADs have no effect
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "check.h"
#include "fork_settled.h"
#include "util/be.h"
#include "util/compiler.h"
#include "verbs/mad.h"

/* Long enough for a slow machine: only ends a test that hangs. */
#define LIMIT_S (100 * test_slower())

enum {
	IDLE_PROCESSES = 3,
	FLOOD = 3000,

	REQ = 0x10,
	REJ = 0x12,
	REP = 0x13,
	RTU = 0x14,
	DREQ = 0x15,
	DREP = 0x16,
	SIDR_REQ = 0x17,
	SIDR_REP = 0x18,

	ATTRIBUTE_AT = 17,
	DATA_AT = 24,
	SERVICE_AT = DATA_AT + 8,
	IP_AT = DATA_AT + 140,
	SIDR_IP_AT = DATA_AT + 16,
	REASON_AT = DATA_AT + 10,
	INFO_LEN_AT = DATA_AT + 9,
	STATUS_AT = DATA_AT + 4,
	TIMEOUT = 4, /* reason of a REJ */
};

static const uint64_t service = 0x01060000 | 7174;
static const struct net_addr loopback = { { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 } };

/* A received MAD, as the callback passes it to the main thread through a socket. */
struct arrived {
	struct net_path path;
	uint8_t mad[VRB_MAD_LEN];
};

struct side {
	struct vrb_mad *m;
	int sock[2];
};

static void on_receive(void *arg, const struct net_path *path, const uint8_t mad[VRB_MAD_LEN],
		       uint64_t now)
{
	struct side *s = arg;
	struct arrived a = { .path = *path };

	memcpy(a.mad, mad, sizeof(a.mad));
	CHECK_EQ(send(s->sock[1], &a, sizeof(a), 0), sizeof(a));
}

static void on_timeout(void *arg, uint64_t now)
{
	struct side *s = arg;
	struct arrived a = { .mad = { 0 } };

	CHECK_EQ(send(s->sock[1], &a, sizeof(a), 0), sizeof(a));
}

static const struct vrb_mad_ops ops = { on_receive, on_timeout };

static void side_open(struct side *s)
{
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s->sock) == 0);
	CHECK_EQ(vrb_mad_open(&ops, s, &s->m), 0);
}

static void side_close(struct side *s)
{
	vrb_mad_close(s->m);
	close(s->sock[0]);
	close(s->sock[1]);
}

static struct arrived next_mad(struct side *s)
{
	struct arrived a;

	CHECK_EQ(recv(s->sock[0], &a, sizeof(a), 0), sizeof(a));
	return a;
}

static bool mad_waiting(struct side *s)
{
	struct pollfd p = { s->sock[0], POLLIN, 0 };

	return poll(&p, 1, 0) > 0;
}

static void build_mad(uint8_t *mad, uint8_t attribute, uint32_t local, uint32_t remote)
{
	memset(mad, 0, VRB_MAD_LEN);
	mad[0] = 1;
	mad[1] = 7;
	mad[2] = 2;
	mad[3] = 3;
	mad[ATTRIBUTE_AT] = attribute;
	put_be32(mad + DATA_AT, local);
	put_be32(mad + DATA_AT + 4, remote);
}

static void build_request(uint8_t *mad, uint8_t attribute, uint32_t local, uint64_t service_id)
{
	uint8_t *ip = mad + (attribute == REQ ? IP_AT : SIDR_IP_AT);

	build_mad(mad, attribute, local, 0);
	put_be64(mad + SERVICE_AT, service_id);
	ip[1] = 4 << 4;
	memcpy(ip + 4 + 12, loopback.raw + 12, 4);
	memcpy(ip + 20 + 12, loopback.raw + 12, 4);
}

static void send_mad(struct side *s, const uint8_t *mad)
{
	const struct net_path path = { .src = loopback, .dst = loopback };

	CHECK_EQ(vrb_mad_send(s->m, &path, mad), 0);
}

static uint32_t id_at(const struct arrived *a, unsigned int at)
{
	return get_be32(a->mad + DATA_AT + at);
}

/* ---- other processes ---- */

struct process {
	pid_t pid;
	int pipe[2]; /* the process writes words that the test waits for */
};

static void write_word(struct process *p, uint32_t word)
{
	CHECK_EQ(write(p->pipe[1], &word, sizeof(word)), sizeof(word));
}

static uint32_t read_word(struct process *p)
{
	uint32_t word;

	CHECK_EQ(read(p->pipe[0], &word, sizeof(word)), sizeof(word));
	return word;
}

static void start_process(struct process *p, void (*run)(struct process *p))
{
	CHECK(pipe(p->pipe) == 0);
	fflush(stdout);
	p->pid = fork_settled();
	CHECK(p->pid >= 0);
	if (!p->pid) {
		alarm(LIMIT_S);
		run(p);
		_exit(0);
	}
}

static void stop_process(struct process *p)
{
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
	close(p->pipe[0]);
	close(p->pipe[1]);
}

/* Has a device open, and manages no connections. */
static void run_idle_process(struct process *p)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;

	CHECK(ctx);
	write_word(p, 1);
	for (;;)
		pause();
}

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

static struct process idle_process[IDLE_PROCESSES];

static void start_idle_processes(void)
{
	for (int i = 0; i < IDLE_PROCESSES; i++) {
		start_process(&idle_process[i], run_idle_process);
		read_word(&idle_process[i]);
	}
}

static void stop_idle_processes(void)
{
	for (int i = 0; i < IDLE_PROCESSES; i++)
		stop_process(&idle_process[i]);
}

static void expect_rej(struct side *s, uint32_t id)
{
	struct arrived a = next_mad(s);

	CHECK_EQ(a.mad[ATTRIBUTE_AT], REJ);
	CHECK_EQ(id_at(&a, 4), id);
	CHECK_EQ(get_be16(a.mad + REASON_AT), 8);
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
	CHECK_EQ(vrb_mad_open(&ops, &s, &second), EBUSY);
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
	static const struct vrb_mad_ops answering = { answer_dreq, on_timeout };
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

enum {
	EXIT_MADS = 200,
	HELD_UP_MS = 1000,
};

static uint32_t victim_peer_id; /* the first remote id of run_victim()'s connections */

static bool exit_is_slow; /* run_victim() ends slowly, as on a busy machine */

/* The child holds all that the library has opened, the slot included, longer than its parent. */
static void slow_down_exit(void)
{
	int life[2];

	CHECK(pipe(life) == 0);
	if (syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0) == 0) {
		close(life[1]);
		CHECK_EQ(read(life[0], life, 1), 0); /* the parent has ended */
		poll(NULL, 0, HELD_UP_MS);
		_exit(0);
	}
	close(life[0]);
}

/* Registers exit MADs for connections, cancels those of every second one, and waits. */
static void run_victim(struct process *p)
{
	const struct net_path path = { .src = loopback, .dst = loopback };
	uint8_t mad[VRB_MAD_LEN];
	uint32_t id[EXIT_MADS];
	struct side s;

	side_open(&s);
	if (exit_is_slow)
		slow_down_exit();
	for (uint32_t i = 0; i < EXIT_MADS; i++) {
		id[i] = vrb_mad_comm_id(s.m);
		build_mad(mad, REJ, id[i], victim_peer_id);
		vrb_mad_at_exit(s.m, id[i], &path, mad);
		build_mad(mad, DREQ, id[i], victim_peer_id + i);
		vrb_mad_at_exit(s.m, id[i], &path, mad);
	}
	for (uint32_t i = 0; i < EXIT_MADS; i += 2)
		vrb_mad_at_exit(s.m, id[i], &path, NULL);
	write_word(p, 1);
	pause();
}

/* Manages connections, but has none. */
static void run_manager(struct process *p)
{
	struct side s;

	side_open(&s);
	write_word(p, 1);
	for (;;)
		next_mad(&s);
}

static void expect_exit_mads(struct side *s)
{
	static uint8_t seen[EXIT_MADS];
	uint8_t mad[VRB_MAD_LEN];
	uint32_t id;

	memset(seen, 0, sizeof(seen));
	for (unsigned int i = 0; i < EXIT_MADS / 2; i++) {
		struct arrived a = next_mad(s);
		uint32_t n = id_at(&a, 4) - victim_peer_id;

		CHECK_EQ(a.mad[ATTRIBUTE_AT], DREQ);
		CHECK(n < EXIT_MADS && n % 2 && !seen[n]++);
	}
	/* No MAD arrives twice: a second one would arrive before this REJ. */
	id = vrb_mad_comm_id(s->m);
	build_request(mad, REQ, id, service);
	send_mad(s, mad);
	expect_rej(s, id);
	CHECK(!mad_waiting(s));
}

/* A process is killed, and other processes of its host send its exit MADs, once. */
static void test_at_exit(void)
{
	struct process victim, other[2];
	struct side s;

	for (int i = 0; i < 2; i++) {
		start_process(&other[i], run_manager);
		read_word(&other[i]);
	}
	side_open(&s);
	victim_peer_id = vrb_mad_comm_id(s.m) & ~0xffffu;
	start_process(&victim, run_victim);
	read_word(&victim);
	CHECK(!mad_waiting(&s));
	stop_process(&victim);
	expect_exit_mads(&s);
	side_close(&s);
	for (int i = 0; i < 2; i++)
		stop_process(&other[i]);
}

/* The process is killed long before the last descriptor of its slot is closed. */
static void test_held_up(void)
{
	exit_is_slow = true;
	test_at_exit();
}

/* No process notices the death: the next one that manages connections sends the exit MADs. */
static void test_unseen(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct process victim;
	struct side s;

	CHECK(ctx); /* keeps the slot, which is a part of the ids */
	side_open(&s);
	victim_peer_id = vrb_mad_comm_id(s.m) & ~0xffffu;
	side_close(&s);
	start_process(&victim, run_victim);
	read_word(&victim);
	stop_process(&victim);
	side_open(&s);
	expect_exit_mads(&s);
	side_close(&s);
	ibv_close_device(ctx);
}

/* Only idle processes notice the death; the next one that manages connections sends the MADs. */
static void test_late(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct process victim;
	struct side s;

	CHECK(ctx); /* keeps the slot, which is a part of the ids */
	side_open(&s);
	victim_peer_id = vrb_mad_comm_id(s.m) & ~0xffffu;
	side_close(&s);
	start_idle_processes();
	start_process(&victim, run_victim);
	read_word(&victim);
	stop_process(&victim);
	/*
	 * A process that joins detects the dead one and stores its exit MADs; one that manages
	 * connections sends them.
	 */
	stop_idle_processes();
	start_idle_processes();
	side_open(&s);
	expect_exit_mads(&s);
	side_close(&s);
	stop_idle_processes();
	ibv_close_device(ctx);
}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{ "NO-LISTENER", test_no_listener },
	{ "LISTENER", test_listener },
	{ "STOPPED", test_stopped },
	{ "SELF", test_self },
	{ "SWALLOW", test_swallow },
	{ "AT_EXIT", test_at_exit },
	{ "HELD_UP", test_held_up },
	{ "UNSEEN", test_unseen },
	{ "LATE", test_late },
	{ "IDS", test_ids },
	{ "FORK", test_fork },
	{ "GARBAGE", test_garbage },
	{ "OPEN", test_open },
};

int main(int argc, char **argv)
{
	alarm(LIMIT_S);
	setenv("VERBENA_DEVICES", "lo", 1);
	setenv("VERBENA_TRANSPORT", argc > 2 ? argv[2] : "auto", 1);
	for (size_t i = 0; i < ARRAY_SIZE(tests); i++)
		if (!strcmp(tests[i].name, argv[1])) {
			tests[i].run();
			return 0;
		}
	return 1;
}
