/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a requester sends again after sequence NAKs, and what it learns of the peer: whether that
 * keeps packets after a gap, or drops them.
 */
#include "roce_env.h"

static struct roce_env e;

static void start(uint8_t timeout)
{
	env_init(&e, IBV_QPT_RC);
	e.wq.timeout = timeout;
	env_rts(&e);
}

static void send_messages(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		env_post(&e, IBV_WR_SEND, 0, 8);
	assert_int_equal(env_drain(&e), n);
}

/* The peer misses this one. `sent`: so many packets answer it, the last of which is `last`. */
static void nak(uint32_t n, unsigned int sent, uint32_t last)
{
	env_aeth(&e, ROCE_RC_ACKNOWLEDGE, roce_syndrome(ROCE_AETH_NAK, 0), ENV_PSN + n, 0);
	assert_int_equal(env_drain(&e), sent);
	assert_int_equal(e.out.bth.psn, ENV_PSN + last);
}

static void ack(uint32_t n, unsigned int sent)
{
	env_ack(&e, ENV_PSN + n);
	assert_int_equal(env_drain(&e), sent);
}

static void the_peer_keeps_what_follows(void **state)
{
	start(14);
	send_messages(5);
	nak(0, 1, 0);
	ack(4, 0);
	send_messages(3);
	nak(5, 1, 5);
	ack(5, 0);	/* the NAK for another gap was lost: left to a probe */
}

static void the_peer_keeps_nothing(void **state)
{
	start(14);
	send_messages(5);
	nak(0, 1, 0);
	ack(0, 4);
	ack(4, 0);
	send_messages(3);
	nak(5, 3, 7);	/* go-back-N at once */
}

/* What left behind a run that was all in flight arrives in order: the peer need not keep it. */
static void nothing_was_behind_the_run(void **state)
{
	start(14);
	send_messages(3);
	nak(0, 1, 0);
	nak(1, 2, 2);
	send_messages(2);
	ack(4, 0);
	send_messages(3);
	nak(5, 1, 5);
	ack(5, 2);
}

/* Not even a probe would end the wait for what a local peer dropped behind a longer run. */
static void a_longer_run_without_a_timeout(void **state)
{
	for (uint8_t timeout = 0; timeout <= 14; timeout += 14) {
		start(timeout);
		send_messages(8);
		nak(0, 1, 0);
		nak(1, 4, 4);
		ack(4, timeout ? 0 : 3);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_peer_keeps_what_follows),
		cmocka_unit_test(the_peer_keeps_nothing),
		cmocka_unit_test(nothing_was_behind_the_run),
		cmocka_unit_test(a_longer_run_without_a_timeout),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
