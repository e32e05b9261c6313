/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process that manages connections is killed: other processes of its host send its exit MADs,
 * each once (src/host/exit_mad.h).
 *
 *	mad_exit_test CASE [TRANSPORT]
 *
 *	KILLED		others manage connections
 *	HELD_UP		the same, and the killed process ends slowly
 *	UNSEEN		no process notices its end; the next one that manages connections sends them
 *	LATE		only idle processes notice it
 *	HEIR		the process that takes them on is killed, too
 *	PRINTS		the process has closed its standard streams, and prints
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "mad_side.h"

enum {
	EXIT_MADS = 200,
	HELD_UP_MS = 1000,
};

static uint32_t victim_peer_id; /* the first remote id of run_victim()'s connections */

static bool exit_is_slow; /* run_victim() ends slowly, as on a busy machine */
static bool prints;	/* run_victim() has closed its standard streams, and prints */

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

/* What it writes to may be any file, socket or nothing. */
static void print_to_all(void)
{
	static const char text[4096];

	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		for (size_t n = 0; n < EXIT_MADS * VRB_MAD_LEN; n += sizeof(text))
			if (write(fd, text, sizeof(text)) < 0)
				break;
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
	for (int fd = 0; prints && fd <= STDERR_FILENO; fd++)
		close(fd);
	for (uint32_t i = 0; i < EXIT_MADS; i++) {
		id[i] = vrb_mad_comm_id(s.m);
		build_mad(mad, REJ, id[i], victim_peer_id);
		vrb_mad_at_exit(s.m, id[i], &path, mad);
		build_mad(mad, DREQ, id[i], victim_peer_id + i);
		vrb_mad_at_exit(s.m, id[i], &path, mad);
	}
	for (uint32_t i = 0; i < EXIT_MADS; i += 2)
		vrb_mad_at_exit(s.m, id[i], &path, NULL);
	if (prints)
		print_to_all();
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
static void test_killed(void)
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
	test_killed();
}

static void test_prints(void)
{
	prints = true;
	test_killed();
}

/* The peer of the victim does not manage connections yet. Its slot is a part of its ids. */
static struct ibv_context *keep_slot(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct side s;

	CHECK(ctx);
	side_open(&s);
	victim_peer_id = vrb_mad_comm_id(s.m) & ~0xffffu;
	side_close(&s);
	return ctx;
}

/* No process notices the death: the next one that manages connections sends the exit MADs. */
static void test_unseen(void)
{
	struct ibv_context *ctx = keep_slot();
	struct process victim;
	struct side s;

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
	struct ibv_context *ctx = keep_slot();
	struct process victim;
	struct side s;

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

/* What a process does that wants exit MADs which no process had before. */
static enum { TAKES, LEAVES, DIES } first_claim;

/* Replaces that of the C library. */
__attribute__((visibility("default"))) int renameat(int from_dir, const char *from, int to_dir,
						    const char *to)
{
	int (*next)(int, const char *, int, const char *) =
		(__typeof__(next))dlsym(RTLD_NEXT, "renameat");
	bool first = !strncmp(from, "exit-mads.", 10) && !strstr(from, "successor");
	int ret;

	if (first && first_claim == LEAVES) {
		errno = ENOENT;
		return -1;
	}
	ret = next(from_dir, from, to_dir, to);
	if (first && first_claim == DIES && !ret)
		raise(SIGKILL);
	return ret;
}

static void run_heir(struct process *p)
{
	first_claim = DIES;
	run_manager(p);
}

/* The process that takes them on is killed before it sends any; it has no connection itself. */
static void test_heir(void)
{
	struct process victim, heir;
	struct side s;
	int status;

	first_claim = LEAVES;
	start_process(&heir, run_heir);
	read_word(&heir);
	side_open(&s);
	victim_peer_id = vrb_mad_comm_id(s.m) & ~0xffffu;
	start_process(&victim, run_victim);
	read_word(&victim);
	stop_process(&victim);
	CHECK(waitpid(heir.pid, &status, 0) == heir.pid && WIFSIGNALED(status) &&
	      WTERMSIG(status) == SIGKILL);
	expect_exit_mads(&s);
	side_close(&s);
}

static const struct mad_case cases[] = {
	{ "KILLED", test_killed },
	{ "HELD_UP", test_held_up },
	{ "UNSEEN", test_unseen },
	{ "LATE", test_late },
	{ "HEIR", test_heir },
	{ "PRINTS", test_prints },
};

int main(int argc, char **argv)
{
	return run_mad_case(cases, ARRAY_SIZE(cases), argv);
}
