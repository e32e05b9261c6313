/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random verbs by two processes on connections between them, against an oracle (procs_side.h). This
 * process is the driver: it chooses what both do, lets them run, and meanwhile stops or kills one;
 * it moves, breaks and closes connections at either end or at both, and makes them anew.
 *
 *	PROGRAM ROUNDS TRANSPORT TRANSPORT [faults]	of each process: local, udp, auto
 *
 * With `faults`, rules lose, copy, delay and reorder what either process or both send and receive
 * on reliable connections. All must be repaired.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuzz/procs_side.h"
#include "fuzz/threads.h"
#include "check.h"
#include "random_faults.h"
#include "util/atomic.h"

enum {
	STEPS = 150,		/* of a run, at most */
	ANSWER_S = 120,		/* longer than a process waits for anything */
	BOTH = 2,
};

static struct {
	pid_t pid;
	int sock;
} process[2];

static const char *transports[2];
static bool with_faults;
static bool made[CONNS], with_srq[CONNS], no_target[CONNS];
static uint32_t last_psn[CONNS][2];
static uint64_t deaths, connections;

/* ---- Processes ---- */

static uint32_t draw(uint32_t n)
{
	return (uint32_t)below(n);
}

static void start(int side)
{
	char rules[RANDOM_FAULTS_MAX] = "";
	int pair[2];

	EXPECT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair: %m");
	if (with_faults)
		random_faults(rules, "RC", draw);
	fflush(NULL);
	process[side].pid = fork();
	EXPECT(process[side].pid >= 0, "fork: %m");
	if (process[side].pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[0]);
		if (process[!side].pid > 0)
			close(process[!side].sock);
		setenv("VERBENA_TRANSPORT", transports[side], 1);
		setenv("VERBENA_FAULTS", rules, 1);
		side_run(side, pair[1]);
		exit(0);
	}
	close(pair[1]);
	process[side].sock = pair[0];
}

static void tell(int side, struct command c)
{
	c.seed = below(UINT64_MAX);
	EXPECT(send(process[side].sock, &c, sizeof(c), MSG_NOSIGNAL) == sizeof(c),
	       "side %d has ended", side);
}

static void hear(int side)
{
	struct pollfd p = { .fd = process[side].sock, .events = POLLIN };
	char byte;
	int n = poll(&p, 1, ANSWER_S * 1000 * (int)test_slower());

	EXPECT(n == 1, "side %d hangs", side);
	EXPECT(recv(p.fd, &byte, 1, 0) == 1, "side %d has failed", side);
}

/* side: BOTH: at the same time. */
static void order(int side, struct command c)
{
	for (int i = 0; i < 2; i++)
		if (side == i || side == BOTH)
			tell(i, c);
	for (int i = 0; i < 2; i++)
		if (side == i || side == BOTH)
			hear(i);
}

static void order_kind(int side, enum command_kind kind, int conn)
{
	order(side, (struct command){ .kind = kind, .conn = conn });
}

static struct command run_of(uint64_t most)
{
	return (struct command){ .kind = RUN, .n = (int)below(most + 1) };
}

static void stop_and_continue(int side)
{
	int status;

	EXPECT(kill(process[side].pid, SIGSTOP) == 0, "SIGSTOP: %m");
	EXPECT(waitpid(process[side].pid, &status, WUNTRACED) > 0 && WIFSTOPPED(status),
	       "side %d has failed", side);
	usleep((useconds_t)below(50000));
	EXPECT(kill(process[side].pid, SIGCONT) == 0, "SIGCONT: %m");
}

static void run_both(void)
{
	for (int i = 0; i < 2; i++)
		tell(i, run_of(STEPS));
	for (uint64_t n = below(8) ? 0 : 1 + below(3); n; n--)
		stop_and_continue((int)below(2));
	for (int i = 0; i < 2; i++)
		hear(i);
}

/* ---- Connections ---- */

static void disturb(int conn, uint32_t how)
{
	uint32_t *to = &shared->conn[conn].disturbed;

	store_release(to, load_relaxed(to) | how);
}

/* The PSNs may be those of the connection before. */
static void choose_psns(int conn)
{
	for (int i = 0; i < 2; i++)
		if (below(2))
			last_psn[conn][i] = below(2) ? 0 : (uint32_t)below(1 << 24);
}

static void connect_conn(int conn)
{
	struct command c = { .conn = conn };
	int first = (int)below(2);

	choose_psns(conn);
	memcpy(c.psn, last_psn[conn], sizeof(c.psn));
	order_kind(BOTH, INIT, conn);
	store_release(&shared->conn[conn].disturbed, 0);
	c.kind = RTR;
	order(first, c);
	order(!first, c);
	c.kind = RTS;
	order(BOTH, c);
	connections++;
}

static void open_conn(int conn)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC,
						  IBV_QPT_UD };
	static const uint32_t lengths[] = { 1024, 8192, 8192, 65536, TARGET };
	struct conn *p = &shared->conn[conn];

	p->type = types[below(5)];
	p->max = p->type == IBV_QPT_UD ? 1024 : lengths[below(5)];
	with_srq[conn] = p->type != IBV_QPT_UC && below(4) == 0;
	for (int i = 0; i < 2; i++)
		order(i, (struct command){ .kind = OPEN, .conn = conn, .mapped = below(2),
					   .srq = with_srq[conn] });
	made[conn] = true;
	no_target[conn] = false;
	connect_conn(conn);
}

static void close_conn(int side, int conn)
{
	order_kind(side, CLOSE, conn);
	made[conn] = false;
}

/* What an SRQ has of a connection outlives it. */
static void begin_anew(int conn)
{
	if (with_srq[conn] || no_target[conn] || below(3) == 0) {
		close_conn(BOTH, conn);
		return;
	}
	order_kind(BOTH, TO_RESET, conn);
	connect_conn(conn);
}

static void settle(void)
{
	order_kind(BOTH, SETTLE, 0);
	order_kind(BOTH, COMPARE, 0);
}

/* Both ends at once, or one before the other. */
static void reset(int conn)
{
	int first = (int)below(2);

	if (with_srq[conn]) {
		disturb(conn, CHANGED);
		close_conn(BOTH, conn);
		return;
	}
	disturb(conn, CHANGED);
	if (below(2)) {
		order_kind(BOTH, TO_RESET, conn);
	} else {
		order_kind(first, TO_RESET, conn);
		order(!first, run_of(STEPS / 2));
		order_kind(!first, TO_RESET, conn);
	}
	connect_conn(conn);
}

static void to_error(int conn)
{
	int first = (int)below(2);

	disturb(conn, CHANGED);
	order_kind(first, TO_ERR, conn);
	if (below(2))
		order(BOTH, run_of(STEPS / 2));
	order_kind(!first, TO_ERR, conn);
	order_kind(BOTH, FLUSH, conn);
	begin_anew(conn);
}

static void post_bad(int conn)
{
	int side = (int)below(2);

	if (shared->conn[conn].type != IBV_QPT_RC)
		return;
	disturb(conn, BAD);
	order_kind(side, POST_BAD, conn);
	if (below(2))
		order(BOTH, run_of(STEPS / 2));
	order_kind(side, FAIL, conn);
	order_kind(BOTH, TO_ERR, conn);
	order_kind(BOTH, FLUSH, conn);
	begin_anew(conn);
}

static void deregister(int conn)
{
	int side = (int)below(2);

	disturb(conn, CHANGED);
	no_target[conn] = true;
	tell(!side, run_of(STEPS));
	order_kind(side, DEREGISTER, conn);
	hear(!side);
	order(BOTH, run_of(STEPS / 2));
	order_kind(BOTH, TO_ERR, conn);
	order_kind(BOTH, FLUSH, conn);
	begin_anew(conn);
}

static void close_both(int conn)
{
	int first = (int)below(2);

	disturb(conn, CHANGED);
	order_kind(first, CLOSE, conn);
	if (below(2))
		order(!first, run_of(STEPS / 2));
	close_conn(!first, conn);
}

/* ---- Ends of processes ---- */

static void await_end(int side, bool killed)
{
	int status;

	EXPECT(waitpid(process[side].pid, &status, 0) == process[side].pid, "waitpid: %m");
	EXPECT(killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : status == 0,
	       "side %d: status 0x%x", side, status);
	close(process[side].sock);
	process[side].pid = 0;
	deaths++;
}

static void survive(int side)
{
	for (int i = 0; i < CONNS; i++) {
		if (!made[i])
			continue;
		order_kind(side, FAIL, i);
		if (below(2))
			order(side, run_of(STEPS / 4));
		order_kind(side, TO_ERR, i);
		order_kind(side, FLUSH, i);
	}
	for (int i = 0; i < CONNS; i++)
		if (made[i])
			close_conn(side, i);
}

static void kill_one(int unused)
{
	int side = (int)below(2);

	for (int i = 0; i < CONNS; i++)
		disturb(i, DIED);
	for (int i = 0; i < 2; i++)
		tell(i, run_of(STEPS));
	usleep((useconds_t)below(3000));
	EXPECT(kill(process[side].pid, SIGKILL) == 0, "SIGKILL: %m");
	await_end(side, true);
	hear(!side);
	survive(!side);
	start(side);
}

static void leave(int unused)
{
	int side = (int)below(2);

	for (int i = 0; i < CONNS; i++)
		disturb(i, DIED);
	run_both();
	tell(side, (struct command){ .kind = LEAVE, .n = (int)below(3) });
	if (below(2))
		order(!side, run_of(STEPS));
	await_end(side, false);
	survive(!side);
	start(side);
}

/* ---- All of it ---- */

static void (*const actions[])(int conn) = {
	reset, reset, reset, to_error, post_bad, deregister, close_both, kill_one, leave,
};

static void one_round(void)
{
	int conn = (int)below(CONNS);

	for (int i = 0; i < CONNS; i++)
		if (!made[i])
			open_conn(i);
	run_both();
	if (below(3) == 0)
		settle();
	else if (below(2))
		actions[below(sizeof(actions) / sizeof(actions[0]))](conn);
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 100;

	for (int i = 0; i < 2; i++)
		transports[i] = argc > 2 + i ? argv[2 + i] : "local";
	with_faults = argc > 4 && strcmp(argv[4], "faults") == 0;
	threads_start();
	threads_begin(0);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	EXPECT(shared != MAP_FAILED, "mmap: %m");
	shared->lossless = strcmp(transports[0], "udp") && strcmp(transports[1], "udp") &&
			   !with_faults;
	for (int i = 0; i < 2; i++)
		start(i);
	for (unsigned long i = 0; i < rounds; i++)
		one_round();
	for (int i = 0; i < CONNS; i++)
		if (made[i])
			close_both(i);
	for (int i = 0; i < 2; i++) {
		tell(i, (struct command){ .kind = LEAVE });
		await_end(i, false);
	}
	printf("%lu rounds, %" PRIu64 " connections, %" PRIu64 " ends of processes, %" PRIu64
	       " completions, %" PRIu64 " messages, %" PRIu64 " MiB received\n", rounds,
	       connections, deaths - 2, shared->completions[0] + shared->completions[1],
	       shared->messages[0] + shared->messages[1],
	       (shared->bytes[0] + shared->bytes[1]) >> 20);
	return 0;
}
