/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP 1 of a host with several processes (src/verbs/mad.h): whichever process a MAD reaches, it
 * comes to the one that it is for, or is answered once.  Bystanders, which have a device open but
 * manage no connections, are in the way.
 *
 *	mad_test WHAT [udp]
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
#include "util/be.h"
#include "util/compiler.h"
#include "verbs/mad.h"

/* Ends what hangs, not what is slow. */
#define LIMIT_S (100 * test_slower())

enum {
	BYSTANDERS = 3,
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
	TIMEOUT = 4,	/* reason of a REJ */
};

static const uint64_t service = 0x01060000 | 7174;
static const struct net_addr self = { { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 } };

/* A MAD that came, as the callback tells the test's main thread by a socket. */
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

static struct arrived await(struct side *s)
{
	struct arrived a;

	CHECK_EQ(recv(s->sock[0], &a, sizeof(a), 0), sizeof(a));
	return a;
}

static bool any_more(struct side *s)
{
	struct pollfd p = { s->sock[0], POLLIN, 0 };

	return poll(&p, 1, 0) > 0;
}

static void make(uint8_t *mad, uint8_t attribute, uint32_t local, uint32_t remote)
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

static void make_request(uint8_t *mad, uint8_t attribute, uint32_t local, uint64_t service_id)
{
	uint8_t *ip = mad + (attribute == REQ ? IP_AT : SIDR_IP_AT);

	make(mad, attribute, local, 0);
	put_be64(mad + SERVICE_AT, service_id);
	ip[1] = 4 << 4;
	memcpy(ip + 4 + 12, self.raw + 12, 4);
	memcpy(ip + 20 + 12, self.raw + 12, 4);
}

static void say(struct side *s, const uint8_t *mad)
{
	const struct net_path path = { .src = self, .dst = self };

	CHECK_EQ(vrb_mad_send(s->m, &path, mad), 0);
}

static uint32_t id_at(const struct arrived *a, unsigned int at)
{
	return get_be32(a->mad + DATA_AT + at);
}

/* ---- other processes ---- */

struct process {
	pid_t pid;
	int pipe[2];	/* it says that it is ready, and whatever else */
};

static void tell(struct process *p, uint32_t word)
{
	CHECK_EQ(write(p->pipe[1], &word, sizeof(word)), sizeof(word));
}

static uint32_t hear(struct process *p)
{
	uint32_t word;

	CHECK_EQ(read(p->pipe[0], &word, sizeof(word)), sizeof(word));
	return word;
}

static void start(struct process *p, void (*run)(struct process *p))
{
	CHECK(pipe(p->pipe) == 0);
	fflush(stdout);
	p->pid = fork();
	CHECK(p->pid >= 0);
	if (!p->pid) {
		alarm(LIMIT_S);
		run(p);
		_exit(0);
	}
}

static void stop(struct process *p)
{
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
	close(p->pipe[0]);
	close(p->pipe[1]);
}

/* Has the wire, and nothing to do with connections. */
static void stand_by(struct process *p)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;

	CHECK(ctx);
	tell(p, 1);
	for (;;)
		pause();
}

/* Listens, and answers each REQ by a REP. */
static void serve(struct process *p)
{
	struct vrb_service want = { .service_id = service, .family = 4 };
	struct vrb_binding *b;
	struct side s;

	side_open(&s);
	CHECK_EQ(vrb_mad_bind(s.m, &want, &b), 0);
	CHECK_EQ(vrb_mad_listen(s.m, b), 0);
	tell(p, vrb_mad_comm_id(s.m));
	for (;;) {
		struct arrived a = await(&s);
		uint8_t mad[VRB_MAD_LEN];

		if (a.mad[ATTRIBUTE_AT] != REQ) {
			tell(p, a.mad[ATTRIBUTE_AT]);
			continue;
		}
		CHECK(net_addr_equal(&a.path.dst, &self) && net_addr_equal(&a.path.src, &self));
		make(mad, REP, vrb_mad_comm_id(s.m), id_at(&a, 0));
		say(&s, mad);
	}
}

static struct process bystander[BYSTANDERS];

static void gather(void)
{
	for (int i = 0; i < BYSTANDERS; i++) {
		start(&bystander[i], stand_by);
		hear(&bystander[i]);
	}
}

static void part(void)
{
	for (int i = 0; i < BYSTANDERS; i++)
		stop(&bystander[i]);
}

static void expect_refusal(struct side *s, uint32_t id)
{
	struct arrived a = await(s);

	CHECK_EQ(a.mad[ATTRIBUTE_AT], REJ);
	CHECK_EQ(id_at(&a, 4), id);
	CHECK_EQ(get_be16(a.mad + REASON_AT), 8);
}

/* ---- what is tested ---- */

static void test_no_listener(void)
{
	uint8_t mad[VRB_MAD_LEN];
	struct arrived a;
	struct side s;
	uint32_t id;

	gather();
	side_open(&s);
	id = vrb_mad_comm_id(s.m);
	make_request(mad, REQ, id, service);
	say(&s, mad);
	expect_refusal(&s, id);

	make_request(mad, SIDR_REQ, id, service);
	say(&s, mad);
	a = await(&s);
	CHECK_EQ(a.mad[ATTRIBUTE_AT], SIDR_REP);
	CHECK_EQ(a.mad[STATUS_AT], 1);

	/* A connection of a process that is no more, or manages none. */
	for (uint32_t other = 1; other < 4; other++) {
		make(mad, DREQ, id, id ^ other << 22);
		say(&s, mad);
		a = await(&s);
		CHECK_EQ(a.mad[ATTRIBUTE_AT], DREP);
		CHECK_EQ(id_at(&a, 0), id ^ other << 22);
	}
	/* Not answered: what would an answer say? */
	make(mad, RTU, id, id ^ 1u << 22);
	say(&s, mad);
	make_request(mad, REQ, id, service);
	say(&s, mad);
	expect_refusal(&s, id);
	CHECK(!any_more(&s));
	side_close(&s);
	part();
}

static void connect_once(struct side *s)
{
	uint8_t mad[VRB_MAD_LEN];
	uint32_t id = vrb_mad_comm_id(s->m);
	struct arrived a;

	make_request(mad, REQ, id, service);
	say(s, mad);
	a = await(s);
	CHECK_EQ(a.mad[ATTRIBUTE_AT], REP);
	CHECK_EQ(id_at(&a, 4), id);
}

static void test_listener(void)
{
	struct process server;
	uint8_t mad[VRB_MAD_LEN];
	struct side s;
	uint32_t id, theirs;

	gather();
	start(&server, serve);
	theirs = hear(&server);
	side_open(&s);
	for (int i = 0; i < 20; i++)
		connect_once(&s);
	/* By its communication id. */
	make(mad, RTU, vrb_mad_comm_id(s.m), theirs);
	say(&s, mad);
	CHECK_EQ(hear(&server), RTU);

	/* Who has not learnt the id asks all. */
	make(mad, REJ, vrb_mad_comm_id(s.m), 0);
	put_be16(mad + REASON_AT, TIMEOUT);
	mad[INFO_LEN_AT] = 8 << 1;
	say(&s, mad);
	CHECK_EQ(hear(&server), REJ);
	CHECK_EQ(await(&s).mad[ATTRIBUTE_AT], REJ);

	stop(&server);
	id = vrb_mad_comm_id(s.m);
	make_request(mad, REQ, id, service);
	say(&s, mad);
	expect_refusal(&s, id);
	side_close(&s);
	part();
}

/* The listener is stopped for a while: up to a bound it loses nothing; others come to no harm. */
static void test_stopped(void)
{
	struct process server;
	uint8_t mad[VRB_MAD_LEN];
	struct side s;
	uint32_t id;

	start(&server, serve);
	hear(&server);
	side_open(&s);
	connect_once(&s);
	kill(server.pid, SIGSTOP);
	id = vrb_mad_comm_id(s.m);
	for (uint32_t i = 0; i < 500; i++) {
		make_request(mad, REQ, id + i, service);
		say(&s, mad);
	}
	make_request(mad, REQ, id, service + 1);
	say(&s, mad);
	expect_refusal(&s, id);
	kill(server.pid, SIGCONT);
	for (uint32_t i = 0; i < 500; i++)
		CHECK_EQ(await(&s).mad[ATTRIBUTE_AT], REP);
	side_close(&s);
	stop(&server);
}

enum { TRIES = 64 };

/* A bystander is stopped: it does not swallow all that comes from the wire. */
static void test_swallow(void)
{
	uint8_t mad[VRB_MAD_LEN];
	struct side s;

	gather();
	side_open(&s);
	for (int i = 0; i < BYSTANDERS; i++) {
		uint32_t id = vrb_mad_comm_id(s.m);

		kill(bystander[i].pid, SIGSTOP);
		make_request(mad, REQ, id, service);
		for (int k = 0; k < TRIES; k++)
			say(&s, mad);
		/* Refusals of the last round may be among them. */
		while (id_at(&(struct arrived[]){ await(&s) }[0], 4) != id)
			;
		kill(bystander[i].pid, SIGCONT);
	}
	side_close(&s);
	part();
}

/* Both ends in one process. */
static void test_self(void)
{
	struct vrb_service want = { .service_id = service & ~0xffffull, .family = 4, .addr = self };
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
	make_request(mad, REQ, id, want.service_id);
	say(&s, mad);
	a = await(&s);
	CHECK_EQ(a.mad[ATTRIBUTE_AT], REQ);
	make(mad, REP, vrb_mad_comm_id(s.m), id);
	say(&s, mad);
	a = await(&s);
	CHECK_EQ(a.mad[ATTRIBUTE_AT], REP);
	CHECK_EQ(id_at(&a, 4), id);
	vrb_mad_unbind(s.m, b);
	make_request(mad, REQ, id, want.service_id);
	say(&s, mad);
	expect_refusal(&s, id);

	/* Time passes while the program sleeps. */
	vrb_mad_arm(s.m, vrb_mad_now() + 1000000);
	CHECK_EQ(await(&s).mad[0], 0);
	side_close(&s);
	/* And again. */
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

/* A child has nothing of it, and may begin anew. */
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
	pid = fork();
	if (!pid) {
		const struct net_path path = { .src = self, .dst = self };

		make_request(mad, REQ, 1, service);
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

/* What is no MAD of ours has no effect on anybody. */
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
		say(&s, mad);
	}
	id = vrb_mad_comm_id(s.m);
	make_request(mad, REQ, id, service);
	say(&s, mad);
	expect_refusal(&s, id);
	side_close(&s);
}

enum {
	OPENINGS = 300,
	ASKED = 32,	/* requests without an answer yet */
};

/* Sends DREQs with ids of one slot until it is told to stop: each is answered once. */
static uint32_t asked_slot;

static void ask_on(struct process *p)
{
	struct pollfd fd = { p->pipe[0], POLLIN, 0 };
	uint32_t waiting = 0, n = 0;
	uint8_t mad[VRB_MAD_LEN];
	struct side s;

	side_open(&s);
	while (poll(&fd, 1, 0) == 0 || waiting) {
		while (waiting < ASKED && poll(&fd, 1, 0) == 0) {
			make(mad, DREQ, vrb_mad_comm_id(s.m), asked_slot | ++n % 4096);
			say(&s, mad);
			waiting++;
		}
		CHECK_EQ(await(&s).mad[ATTRIBUTE_AT], DREP);
		waiting--;
	}
	CHECK(!any_more(&s));
	side_close(&s);
}

static void answer(void *arg, const struct net_path *path, const uint8_t mad[VRB_MAD_LEN],
		   uint64_t now)
{
	const struct net_path back = { .src = path->dst, .dst = path->src };
	struct side *s = arg;
	uint8_t reply[VRB_MAD_LEN];

	CHECK(s->m);
	make(reply, DREP, get_be32(mad + DATA_AT + 4), get_be32(mad + DATA_AT));
	CHECK_EQ(vrb_mad_send(s->m, &back, reply), 0);
}

/* MADs come while it is opened and closed: no callback finds it half open, and each is answered. */
static void test_open(void)
{
	static const struct vrb_mad_ops answering = { answer, on_timeout };
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct process other;
	struct side s;
	int status;

	CHECK(ctx);	/* keeps the slot, which the ids are of */
	side_open(&s);
	asked_slot = vrb_mad_comm_id(s.m) & ~0x3fffffu;
	side_close(&s);
	start(&other, ask_on);
	for (int i = 0; i < OPENINGS; i++) {
		s.m = NULL;
		CHECK_EQ(vrb_mad_open(&answering, &s, &s.m), 0);
		vrb_mad_close(s.m);
	}
	tell(&other, 1);
	CHECK(waitpid(other.pid, &status, 0) == other.pid && status == 0);
	ibv_close_device(ctx);
}

enum {
	EXIT_MADS = 200,
	HELD_UP_MS = 1000,
};

static uint32_t peer_of_living;	/* the first of the ids that the process `live` is connected to */

static bool held_up;	/* `live` takes long to end, as on a busy machine */

/* Holds what the library has opened, the slot included, for a while longer than its parent. */
static void hold_up_exit(void)
{
	int life[2];

	CHECK(pipe(life) == 0);
	if (syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0) == 0) {
		close(life[1]);
		CHECK_EQ(read(life[0], life, 1), 0);	/* its end */
		poll(NULL, 0, HELD_UP_MS);
		_exit(0);
	}
	close(life[0]);
}

/* Has connections, some of which are over, and waits for its end. */
static void live(struct process *p)
{
	const struct net_path path = { .src = self, .dst = self };
	uint8_t mad[VRB_MAD_LEN];
	uint32_t id[EXIT_MADS];
	struct side s;

	side_open(&s);
	if (held_up)
		hold_up_exit();
	for (uint32_t i = 0; i < EXIT_MADS; i++) {
		id[i] = vrb_mad_comm_id(s.m);
		make(mad, REJ, id[i], peer_of_living);
		vrb_mad_at_exit(s.m, id[i], &path, mad);
		make(mad, DREQ, id[i], peer_of_living + i);
		vrb_mad_at_exit(s.m, id[i], &path, mad);
	}
	for (uint32_t i = 0; i < EXIT_MADS; i += 2)
		vrb_mad_at_exit(s.m, id[i], &path, NULL);
	tell(p, 1);
	pause();
}

/* Manages connections, and has none. */
static void watch(struct process *p)
{
	struct side s;

	side_open(&s);
	tell(p, 1);
	for (;;)
		await(&s);
}

static void expect_exit_mads(struct side *s)
{
	static uint8_t seen[EXIT_MADS];
	uint8_t mad[VRB_MAD_LEN];
	uint32_t id;

	memset(seen, 0, sizeof(seen));
	for (unsigned int i = 0; i < EXIT_MADS / 2; i++) {
		struct arrived a = await(s);
		uint32_t n = id_at(&a, 4) - peer_of_living;

		CHECK_EQ(a.mad[ATTRIBUTE_AT], DREQ);
		CHECK(n < EXIT_MADS && n % 2 && !seen[n]++);
	}
	/* Nothing comes twice: what is asked for now would arrive behind it. */
	id = vrb_mad_comm_id(s->m);
	make_request(mad, REQ, id, service);
	say(s, mad);
	expect_refusal(s, id);
	CHECK(!any_more(s));
}

/* A process is killed, and the others of its host speak for it, once. */
static void test_at_exit(void)
{
	struct process victim, other[2];
	struct side s;

	for (int i = 0; i < 2; i++) {
		start(&other[i], watch);
		hear(&other[i]);
	}
	side_open(&s);
	peer_of_living = vrb_mad_comm_id(s.m) & ~0xffffu;
	start(&victim, live);
	hear(&victim);
	CHECK(!any_more(&s));
	stop(&victim);
	expect_exit_mads(&s);
	side_close(&s);
	for (int i = 0; i < 2; i++)
		stop(&other[i]);
}

/* Its files are closed long before it is gone. */
static void test_held_up(void)
{
	held_up = true;
	test_at_exit();
}

/* Nobody has seen its end: then whoever manages connections next finds it. */
static void test_unseen(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct process victim;
	struct side s;

	CHECK(ctx);	/* keeps the slot, which the ids are of */
	side_open(&s);
	peer_of_living = vrb_mad_comm_id(s.m) & ~0xffffu;
	side_close(&s);
	start(&victim, live);
	hear(&victim);
	stop(&victim);
	side_open(&s);
	expect_exit_mads(&s);
	side_close(&s);
	ibv_close_device(ctx);
}

/* There is nobody who could: then whoever comes next does. */
static void test_late(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct process victim;
	struct side s;

	CHECK(ctx);	/* keeps the slot, which the ids are of */
	side_open(&s);
	peer_of_living = vrb_mad_comm_id(s.m) & ~0xffffu;
	side_close(&s);
	gather();
	start(&victim, live);
	hear(&victim);
	stop(&victim);
	/*
	 * Who comes finds the dead, and puts the exit MADs aside; who manages connections executes
	 * them.
	 */
	part();
	gather();
	side_open(&s);
	expect_exit_mads(&s);
	side_close(&s);
	part();
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
