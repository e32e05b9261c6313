/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes: a forked child cannot use its parent's ids and can have ids of its own; when a process
 * ends, however it ends, its peers get a disconnection.
 */
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fork_settled.h"
#include "left_out.h"
#include "next_syscall.h"
#include "world.h"

#if defined(__SANITIZE_THREAD__)
enum { CHILD_MAY_HAVE_THREADS = 0 };
#else
enum { CHILD_MAY_HAVE_THREADS = 1 };
#endif

/*
 * LeakSanitizer must not report objects that the child inherited: the child cannot free them. It
 * calls this function at exit.
 */
static bool is_child;

__attribute__((visibility("default"))) int __lsan_is_turned_off(void);

int __lsan_is_turned_off(void)
{
	return is_child;
}

static pid_t start(void)
{
	pid_t child = fork_settled();

	CHECK(child >= 0);
	is_child |= child == 0;
	return child;
}

static void wait_for(pid_t child, int signal)
{
	int status;

	CHECK_EQ(waitpid(child, &status, 0), child);
	if (signal) {
		CHECK(WIFSIGNALED(status));
		CHECK_EQ(WTERMSIG(status), signal);
	} else {
		CHECK(WIFEXITED(status));
		CHECK_EQ(WEXITSTATUS(status), 0);
	}
}

/*
 * In the child: every call on the parent's objects fails and does no harm, and new objects work; a
 * list of the parent's devices is no use of the child's.
 */
static void child_of(struct pair *p, struct ibv_context **parents_list)
{
	struct sockaddr_storage a = world_addr(LOOPBACK, 0);
	struct rdma_event_channel *ch;
	struct rdma_cm_event *e;
	struct rdma_cm_id *id, *active;
	struct ibv_mr *mr;
	char buf[8];

	CHECK_FAILS(rdma_bind_addr(p->id[0], (struct sockaddr *)&a), EIO);
	CHECK_FAILS(rdma_disconnect(p->id[0]), EIO);
	CHECK_FAILS(rdma_get_cm_event(p->ch[0], &e), EIO);
	CHECK_FAILS(rdma_create_id(p->ch[0], &id, NULL, RDMA_PS_TCP), EIO);
	CHECK_EQ(rdma_destroy_id(p->id[0]), 0);

	ch = rdma_create_event_channel();
	CHECK(ch);
	id = world_listen(ch, RDMA_PS_TCP, LOOPBACK);
	CHECK_FAILS(rdma_migrate_id(id, p->ch[0]), EIO);
	CHECK(id->channel == ch);
	active = world_route(ch, id, LOOPBACK);
	rdma_free_devices(parents_list);
	mr = rdma_reg_msgs(active, buf, sizeof(buf));
	CHECK(mr);
	CHECK_EQ(rdma_dereg_mr(mr), 0);
	CHECK_EQ(rdma_destroy_id(active), 0);
	CHECK_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
	exit(0);
}

static void inherited(void)
{
	struct ibv_context **list = rdma_get_devices(NULL);
	struct pair p;
	pid_t child;

	CHECK(list);
	pair_connect(&p, NULL);
	child = start();
	if (!child)
		child_of(&p, list);
	wait_for(child, 0);
	rdma_free_devices(list);
	/* The parent's connection got no event. */
	world_no_event(p.ch[0]);
	world_no_event(p.ch[1]);
	pair_disconnect(&p);
	pair_destroy(&p);
}

/*
 * How a client ends, or a signal. UNHEARD: its peer is stopped, with a full inbox; it exits. DYING:
 * it is killed before the message leaves.
 */
enum {
	DISCONNECTS_DYING = 1000,
	EXITS = 0,
	DISCONNECTS_UNHEARD = -1,
	ESTABLISHES_UNHEARD = -2,
	REJECTS_UNHEARD = -3,		/* the REP */
};

enum {
	FILLERS = 32,	/* requests that fill an inbox */
};

static __thread bool dies_sending;

/* Replaces that of the C library. */
__attribute__((visibility("default"))) long syscall(long number, ...)
{
	va_list args;
	long ret;

	if (dies_sending && (number == SYS_sendmsg || number == SYS_sendmmsg))
		raise(SIGKILL);
	va_start(args, number);
	ret = next_syscall(number, args);
	va_end(args);
	return ret;
}

static struct rdma_cm_id *start_connecting(struct rdma_event_channel *ch, uint16_t port,
					   bool with_qp)
{
	struct sockaddr_storage a = world_addr(LOOPBACK, port);
	struct rdma_cm_id *id = world_id(ch, RDMA_PS_TCP);

	CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, WORLD_TIMEOUT_MS), 0);
	world_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK_EQ(rdma_resolve_route(id, WORLD_TIMEOUT_MS), 0);
	world_expect(ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	if (with_qp)
		world_qp(id);
	CHECK_EQ(rdma_connect(id, &(struct rdma_conn_param){ .qp_num = 1 }), 0);
	return id;
}

/* Starts a process that continues the stopped peer when this one has ended. */
static void start_waker(void)
{
	pid_t peer = getppid(), waker;
	int over[2];
	char byte;

	CHECK_EQ(pipe(over), 0);
	waker = fork();
	CHECK(waker >= 0);
	if (!waker) {
		close(over[1]);
		CHECK_EQ(read(over[0], &byte, 1), 0);
		_exit(kill(peer, SIGCONT));
	}
}

static void make_deaf(pid_t peer, uint16_t port)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();

	CHECK_EQ(kill(peer, SIGSTOP), 0);
	for (int i = 0; i < FILLERS; i++)
		start_connecting(ch, port, true);
}

static void disconnect_unheard(struct rdma_cm_id *id, uint16_t port)
{
	make_deaf(getppid(), port);
	CHECK_EQ(rdma_disconnect(id), 0);
	rdma_destroy_qp(id);
	CHECK_EQ(rdma_destroy_id(id), 0);
}

/* The RTU is sent, or the REP rejected, when the program fetches the event. */
static void answer_unheard(struct rdma_event_channel *ch, struct rdma_cm_id *id, uint16_t port)
{
	bool rejects = !id->qp;

	world_wait(ch);
	make_deaf(getppid(), port);
	world_expect(ch, rejects ? RDMA_CM_EVENT_CONNECT_RESPONSE : RDMA_CM_EVENT_ESTABLISHED);
	if (rejects) {
		CHECK_EQ(rdma_reject(id, NULL, 0), 0);
		CHECK_EQ(rdma_destroy_id(id), 0);
	}
}

/* A client in a process of its own, which ends as `how` says once it is connected. */
static void client(uint16_t port, int go, int how)
{
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id;
	char byte;

	if (how < EXITS)
		start_waker();
	ch = rdma_create_event_channel();
	id = start_connecting(ch, port, how != REJECTS_UNHEARD);
	if (how < DISCONNECTS_UNHEARD) {
		answer_unheard(ch, id, port);
		exit(0);
	}
	world_expect(ch, RDMA_CM_EVENT_ESTABLISHED);
	/*
	 * The passive side is established as well: otherwise the DREQ could arrive before the RTU.
	 */
	CHECK_EQ(read(go, &byte, 1), 1);
	if (how == DISCONNECTS_UNHEARD)
		disconnect_unheard(id, port);
	if (how <= EXITS)
		exit(0);
	if (how == DISCONNECTS_DYING) {
		dies_sending = true;
		rdma_disconnect(id);
	}
	for (;;)
		pause();
}

/* Other clients may have asked for a connection meanwhile, and been rejected by their exit. */
static void expect_of(struct rdma_event_channel *ch, const struct rdma_cm_id *id,
		      enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;
	struct rdma_cm_id *asks;

	do {
		CHECK_EQ(rdma_get_cm_event(ch, &e), 0);
		asks = e->event == RDMA_CM_EVENT_CONNECT_REQUEST ? e->id : NULL;
		if (!asks) {
			CHECK_EQ(e->event, type);
			CHECK(e->id == id);
		}
		CHECK_EQ(rdma_ack_cm_event(e), 0);
		if (asks)
			CHECK_EQ(rdma_destroy_id(asks), 0);
	} while (asks);
}

static void ended(int how)
{
	struct rdma_event_channel *ch;
	struct rdma_cm_id *listener, *id;
	struct rdma_cm_event *e;
	int port[2], go[2];
	uint16_t number;
	pid_t child;

	CHECK_EQ(pipe(port), 0);
	CHECK_EQ(pipe(go), 0);
	child = start();
	if (!child) {
		CHECK_EQ(read(port[0], &number, sizeof(number)), sizeof(number));
		client(number, go[0], how);
	}
	ch = rdma_create_event_channel();
	listener = world_listen(ch, RDMA_PS_TCP, LOOPBACK);
	number = ntohs(rdma_get_src_port(listener));
	CHECK_EQ(write(port[1], &number, sizeof(number)), sizeof(number));
	e = world_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	id = e->id;
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	world_qp(id);
	CHECK_EQ(rdma_accept(id, NULL), 0);
	if (how != REJECTS_UNHEARD)
		expect_of(ch, id, RDMA_CM_EVENT_ESTABLISHED);
	CHECK_EQ(write(go[1], "", 1), 1);
	if (how > 0 && how < DISCONNECTS_DYING)
		CHECK_EQ(kill(child, how), 0);
	wait_for(child, how == DISCONNECTS_DYING ? SIGKILL : how > 0 ? how : 0);
	expect_of(ch, id, how == REJECTS_UNHEARD ? RDMA_CM_EVENT_REJECTED :
						   RDMA_CM_EVENT_DISCONNECTED);
	CHECK_EQ(rdma_disconnect(id), 0);
	rdma_destroy_qp(id);
	CHECK_EQ(rdma_destroy_id(id), 0);
	CHECK_EQ(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(ch);
	for (int i = 0; i < 2; i++) {
		close(port[i]);
		close(go[i]);
	}
}

/* A server that has accepted, and is killed before its rejection leaves. */
static void rejecting_server(int port, int go)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *listener = world_listen(ch, RDMA_PS_TCP, LOOPBACK), *id;
	uint16_t number = ntohs(rdma_get_src_port(listener));
	struct rdma_cm_event *e;
	char byte;

	CHECK_EQ(write(port, &number, sizeof(number)), sizeof(number));
	e = world_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	id = e->id;
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	CHECK_EQ(rdma_accept(id, &(struct rdma_conn_param){ .qp_num = 2 }), 0);
	CHECK_EQ(read(go, &byte, 1), 1);
	dies_sending = true;
	rdma_reject(id, NULL, 0);
	exit(1);
}

static void rejected_dying(int how)
{
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id;
	int port[2], go[2];
	uint16_t number;
	pid_t child;

	CHECK_EQ(pipe(port), 0);
	CHECK_EQ(pipe(go), 0);
	child = start();
	if (!child)
		rejecting_server(port[1], go[0]);
	CHECK_EQ(read(port[0], &number, sizeof(number)), sizeof(number));
	ch = rdma_create_event_channel();
	id = start_connecting(ch, number, false);
	world_expect(ch, RDMA_CM_EVENT_CONNECT_RESPONSE);
	CHECK_EQ(write(go[1], "", 1), 1);
	wait_for(child, SIGKILL);
	CHECK_EQ(rdma_ack_cm_event(world_event(ch, RDMA_CM_EVENT_REJECTED, 28)), 0);
	CHECK_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

/* Runs in a process of its own, which forks while it has one thread. */
static void run(void (*test)(int how), int how)
{
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		alarm(WORLD_LIMIT_S * test_slower());
		test(how);
		exit(0);
	}
	wait_for(child, 0);
}

static void leave(int signal)
{
	exit(0);
}

/*
 * A signal's handler calls exit() in a thread that has the lock of all ids; reading the value of an
 * option from memory without access raises it.
 */
static void exits_in_a_handler(void)
{
	void *value = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid_t child = start();

	CHECK(value != MAP_FAILED);
	if (!child) {
		struct rdma_cm_id *id = world_id(rdma_create_event_channel(), RDMA_PS_TCP);

		signal(SIGSEGV, leave);
		rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, value, 1);
		CHECK(false);
	}
	wait_for(child, 0);
}

int main(void)
{
	run(ended, EXITS);
	run(ended, SIGKILL);
	run(ended, DISCONNECTS_DYING);
	run(rejected_dying, 0);
	run(ended, DISCONNECTS_UNHEARD);
	run(ended, ESTABLISHES_UNHEARD);
	run(ended, REJECTS_UNHEARD);
	if (CHILD_MAY_HAVE_THREADS) {
		inherited();
		exits_in_a_handler();
	} else {
		left_out(2, "ThreadSanitizer supports no threads in a forked child");
	}
	return 0;
}
