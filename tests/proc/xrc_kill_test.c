/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The members of an XRC domain are killed at random points of a stream, again and again
 * (VERBENA_RUNS times).  VERBENA_SEED repeats a sequence.
 */
#include <unistd.h>

#include "rnd.h"
#include "xrc_family.h"

enum {
	KILLS = 12,
	KILL_WITHIN = 60,		/* messages */
};

/*
 * One of the receivers is killed in the middle of a stream.  Without the home there are no answers;
 * without an owner the requests that name its SRQ are refused, and the other owners are not
 * affected.
 */
static void kill_receiver(int victim)
{
	struct family f = { 0 };
	struct stream s = { .f = &f };
	uint32_t after = rnd(KILL_WITHIN);
	enum ibv_wc_status status;

	family_gather(&f);
	if (rnd(2))
		family_order(&f, 1, OPEN);
	family_order_all(&f, RECEIVE);
	while (s.n < after) {
		if (s.open == WINDOW)
			CHECK_EQ(stream_wait(&s), IBV_WC_SUCCESS);
		stream_to(&s, rnd(TARGETS));
	}
	/* The next message needs a slot that is not read any more. */
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
			CHECK(family_stop(&f, i) <= s.sent[i]);
	family_part(&f);
}

/*
 * The home moves, and a process is killed around that time.  The survivors end normally; the
 * initiator has an answer for each of its requests.
 */
static void kill_in_move(void)
{
	struct family f = { 0 };
	struct stream s = { .f = &f };
	uint32_t move_at = rnd(KILL_WITHIN), after = move_at + rnd(4), victim = rnd(TARGETS);
	enum ibv_wc_status status;

	family_gather(&f);
	family_order(&f, 1, OPEN);
	if (rnd(2))
		family_order(&f, 2, OPEN);
	family_order(&f, 1, RECEIVE);
	family_order(&f, 2, RECEIVE);
	while (s.n < after) {
		if (s.n == move_at)
			family_command(f.child[0].sock, CLOSE);
		if (s.open == WINDOW)
			CHECK_EQ(stream_wait(&s), IBV_WC_SUCCESS);
		stream_to(&s, 1 + rnd(2));
	}
	if (after == move_at)
		family_command(f.child[0].sock, CLOSE);
	child_kill(&f.child[victim]);
	f.child[victim].pid = 0;
	status = stream_drain(&s);
	printf("killed %u while the home moved after %u messages: status %d\n", victim, move_at,
	       status);
	CHECK(status == IBV_WC_SUCCESS || status == IBV_WC_RETRY_EXC_ERR ||
	      status == IBV_WC_REM_INV_REQ_ERR || status == IBV_WC_REM_OP_ERR);
	if (victim)
		rc_meet(f.child[0].sock);
	for (int i = 1; i < TARGETS; i++)
		if (f.child[i].pid)
			CHECK(family_stop(&f, i) <= s.sent[i]);
	family_part(&f);
}

static void initiator(int sock)
{
	struct family f = { 0 };
	struct stream s = { .f = &f };
	struct rc_addr mine;
	char go;

	alarm(RC_LIMIT_S);
	child_hear(sock, f.facts, sizeof(f.facts));
	xrc_open(&f.x, family_file, 0);
	f.x.qp = xrc_send_qp(&f.x);
	mine = rc_address(&f.x.rc, f.x.qp);
	child_tell(sock, &mine, sizeof(mine));
	child_hear(sock, &go, 1);
	rc_connect(&f.x.rc, f.x.qp, &f.facts[0].addr, TIMEOUT, RETRIES);
	for (;;) {
		if (s.open == WINDOW)
			CHECK_EQ(stream_wait(&s), IBV_WC_SUCCESS);
		stream_to(&s, rnd(TARGETS));
		if (s.n % 8 == 0)
			child_tell(sock, &go, 1);
	}
}

/* The initiator is killed; the others end their parts as if nothing was. */
static void kill_initiator(void)
{
	struct family f = { 0 };
	struct rc_addr peer;
	struct child ini;
	char go = 'G';

	family_gather_receivers(&f);
	ini = child_fork(initiator);
	child_tell(ini.sock, f.facts, sizeof(f.facts));
	child_hear(ini.sock, &peer, sizeof(peer));
	child_tell(f.child[0].sock, &peer, sizeof(peer));
	rc_meet(f.child[0].sock);
	family_order_all(&f, RECEIVE);
	child_tell(ini.sock, &go, 1);
	for (uint32_t n = 1 + rnd(KILL_WITHIN / 8); n; n--)
		child_hear(ini.sock, &go, 1);
	child_kill(&ini);
	for (int i = 0; i < TARGETS; i++)
		family_stop(&f, i);
	family_part(&f);
}

static void test_kill(void)
{
	const char *env = getenv("VERBENA_RUNS");
	long runs = env ? strtol(env, NULL, 0) : KILLS;
	struct rc rc;

	family_deaths = true;
	for (long i = 0; i < runs; i++) {
		uint32_t victim = rnd(TARGETS + 3);

		if (victim > TARGETS)
			kill_in_move();
		else if (victim == TARGETS)
			kill_initiator();
		else
			kill_receiver((int)victim);
	}
	/* Joining and leaving both clean up. */
	rc_open(&rc, 4096);
	rc_close(&rc);
	CHECK_EQ(rc_slot_files(), 0);
}

int main(int argc, char **argv)
{
	static const struct family_case cases[] = {
		{ "KILL", test_kill },
	};

	return family_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
