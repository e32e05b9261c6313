/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Members of an XRC domain are killed at random points of a stream, again and again (VERBENA_RUNS
 * times). The survivors must end normally, and the initiator must get a completion for each of its
 * requests. In the end the run directory must hold no files of dead processes. VERBENA_SEED repeats
 * a sequence.
 */
#include <unistd.h>

#include "rnd.h"
#include "xrc_group.h"

enum {
	KILLS = 12,
	KILL_WITHIN = 60, /* the first messages */
};

/*
 * The home or an owner is killed in the middle of a stream. Without the home, requests are not
 * answered. Without an owner, requests that name its SRQ are refused; other owners are not
 * affected.
 */
static void kill_receiver(int victim)
{
	struct group f = { 0 };
	struct stream s = { .f = &f };
	uint32_t after = rnd(KILL_WITHIN);
	enum ibv_wc_status status;

	group_start(&f);
	if (rnd(2))
		group_run(&f, 1, OPEN);
	group_run_all(&f, RECEIVE);
	while (s.n < after) {
		if (s.open == WINDOW)
			CHECK_EQ(stream_wait(&s), IBV_WC_SUCCESS);
		stream_to(&s, rnd(TARGETS));
	}
	/* The next message needs a free slot of the window. */
	if (s.open == WINDOW)
		CHECK_EQ(stream_wait(&s), IBV_WC_SUCCESS);
	child_kill(&f.child[victim]);
	f.child[victim].pid = 0;
	stream_to(&s, (uint32_t)victim);
	status = stream_drain(&s);
	printf("killed %s after %u messages: status %d\n", victim ? "an owner" : "the home", after,
	       status);
	if (victim == 0)
		CHECK_EQ(status, IBV_WC_RETRY_EXC_ERR);
	else
		CHECK(status == IBV_WC_REM_INV_REQ_ERR || status == IBV_WC_REM_OP_ERR);
	for (int i = 0; i < TARGETS; i++)
		if (f.child[i].pid)
			CHECK(group_stop_stream(&f, i, 0) <= s.sent[i]);
	group_end(&f);
}

/*
 * The home moves, and a member is killed at about the same time. The survivors must end normally,
 * and the initiator must get a completion for each request.
 */
static void kill_in_move(void)
{
	struct group f = { 0 };
	struct stream s = { .f = &f };
	uint32_t move_at = rnd(KILL_WITHIN), after = move_at + rnd(4), victim = rnd(TARGETS);
	enum ibv_wc_status status;

	group_start(&f);
	group_run(&f, 1, OPEN);
	if (rnd(2))
		group_run(&f, 2, OPEN);
	group_run(&f, 1, RECEIVE);
	group_run(&f, 2, RECEIVE);
	while (s.n < after) {
		if (s.n == move_at)
			group_send_command(f.child[0].sock, CLOSE);
		if (s.open == WINDOW)
			CHECK_EQ(stream_wait(&s), IBV_WC_SUCCESS);
		stream_to(&s, 1 + rnd(2));
	}
	if (after == move_at)
		group_send_command(f.child[0].sock, CLOSE);
	child_kill(&f.child[victim]);
	f.child[victim].pid = 0;
	status = stream_drain(&s);
	printf("killed %u while the home moved after %u messages: status %d\n", victim, move_at,
	       status);
	CHECK(status == IBV_WC_SUCCESS || status == IBV_WC_RETRY_EXC_ERR ||
	      status == IBV_WC_REM_INV_REQ_ERR || status == IBV_WC_REM_OP_ERR);
	if (victim)
		rc_barrier(f.child[0].sock);
	for (int i = 1; i < TARGETS; i++)
		if (f.child[i].pid)
			CHECK(group_stop_stream(&f, i, 0) <= s.sent[i]);
	group_end(&f);
}

static void initiator(int sock)
{
	struct group f = { 0 };
	struct stream s = { .f = &f };
	struct rc_addr own;
	char go;

	alarm(RC_LIMIT_S);
	child_recv(sock, f.member_info, sizeof(f.member_info));
	xrc_open(&f.x, group_file, 0);
	f.x.qp = xrc_send_qp(&f.x);
	own = rc_address(&f.x.rc, f.x.qp);
	child_send(sock, &own, sizeof(own));
	child_recv(sock, &go, 1);
	rc_connect(&f.x.rc, f.x.qp, &f.member_info[0].addr, TIMEOUT, RETRIES);
	for (;;) {
		if (s.open == WINDOW)
			CHECK_EQ(stream_wait(&s), IBV_WC_SUCCESS);
		stream_to(&s, rnd(TARGETS));
		if (s.n % 8 == 0)
			child_send(sock, &go, 1);
	}
}

/* The initiator is killed; the members must end normally. */
static void kill_initiator(void)
{
	struct group f = { 0 };
	struct rc_addr peer;
	struct child sender;
	char go = 'G';

	group_start_receivers(&f);
	sender = child_fork(initiator);
	child_send(sender.sock, f.member_info, sizeof(f.member_info));
	child_recv(sender.sock, &peer, sizeof(peer));
	child_send(f.child[0].sock, &peer, sizeof(peer));
	rc_barrier(f.child[0].sock);
	group_run_all(&f, RECEIVE);
	child_send(sender.sock, &go, 1);
	for (uint32_t n = 1 + rnd(KILL_WITHIN / 8); n; n--)
		child_recv(sender.sock, &go, 1);
	child_kill(&sender);
	for (int i = 0; i < TARGETS; i++)
		group_stop_stream(&f, i, 0);
	group_end(&f);
}

static void test_kill(void)
{
	const char *env = getenv("VERBENA_RUNS");
	long runs = env ? strtol(env, NULL, 0) : KILLS;
	struct rc rc;

	group_kills = true;
	for (long i = 0; i < runs; i++) {
		uint32_t victim = rnd(TARGETS + 3);

		if (victim > TARGETS)
			kill_in_move();
		else if (victim == TARGETS)
			kill_initiator();
		else
			kill_receiver((int)victim);
	}
	/* Opening and closing a device both remove the files of dead processes. */
	rc_open(&rc, 4096);
	rc_close(&rc);
	CHECK_EQ(rc_slot_files(), 0);
}

int main(int argc, char **argv)
{
	static const struct group_case cases[] = {
		{ "KILL", test_kill },
	};

	return group_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
