/* SPDX-License-Identifier: BSD-2-Clause */
/* Keepalive probes to the process of a peer on this host. The test plays host and port. */
#include "core/local/keepalive.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/context.h"
#include "core/base/state.h"
#include "core/device/device.h"
#include "core/qp/qp.h"
#include "util/tuning.h"

enum { OWN_SLOT = 1, PEER_SLOT = 2, OWN_ID = 100, PEER_ID = 200 };

struct vrb_process vrb;

static struct vrb_device dev;
static struct vrb_context ctx = { .dev = &dev };
static struct vrb_qp qp, other;
static struct host_keepalive sent;
static unsigned int probes, requests_repeated;
static bool inbox_full;

int vrb_port_find_gid(struct vrb_port *port, const struct net_addr *gid)
{
	return 0;
}

int host_owner(struct host *h, uint32_t qpn)
{
	return PEER_SLOT;
}

int host_slot(const struct host *h)
{
	return OWN_SLOT;
}

uint64_t host_incarnation(const struct host *h)
{
	return OWN_ID;
}

bool host_same_network(struct host *h, int slot)
{
	return true;
}

bool host_peer(struct host *h, int slot, struct host_peer *peer)
{
	*peer = (struct host_peer){ .incarnation = PEER_ID, .pid = getpid(), .udp_port = 4791 };
	return true;
}

int host_send_keepalive(struct host *h, int slot, struct host_keepalive *p)
{
	if (inbox_full)
		return EAGAIN;
	probes++;
	sent = *p;
	return 0;
}

void roce_probe(struct roce_qp *roce, uint64_t now)
{
	assert_ptr_equal(roce, &qp.roce);
	requests_repeated++;
}

static void reply_with(uint32_t answer, uint64_t now)
{
	struct host_keepalive p = { .from = PEER_ID, .to = OWN_ID, .asked_at = sent.asked_at,
				.slot = PEER_SLOT, .answer = answer };

	vrb_keepalive_receive(&p, now);
}

static void reply(uint64_t now)
{
	reply_with(HOST_KEEPALIVE_ANSWER, now);
}

static bool probe_deferred(uint64_t now)
{
	return vrb_keepalive_defers_timeout(&qp, false, now);
}

static bool timeout_deferred(uint64_t now)
{
	return vrb_keepalive_defers_timeout(&qp, true, now);
}

static int set_up(void **state)
{
	vrb_keepalive_forget();
	memset(&qp, 0, sizeof(qp));
	memset(&other, 0, sizeof(other));
	qp.config.ctx = other.config.ctx = &ctx;
	probes = requests_repeated = 0;
	inbox_full = false;
	return 0;
}

/* The first probe is sent to the process, since packets may have been lost. */
static void the_first_probe_is_sent(void **state)
{
	assert_false(probe_deferred(1000));
	assert_int_equal(probes, 1);
	assert_true(probe_deferred(2000));
	assert_true(timeout_deferred(3000));
	assert_int_equal(probes, 1);
}

static void a_reply_makes_probes_and_timeouts_count(void **state)
{
	uint64_t now = 1000;

	probe_deferred(now);
	reply(now + 500);
	assert_false(probe_deferred(now + 1000));
	assert_true(timeout_deferred(now + 1000));	/* within the grace period */
	set_up(NULL);
	probe_deferred(now);
	reply(now + 500);
	assert_false(timeout_deferred(now + 500 + LIMIT_KEEPALIVE_GRACE));
}

static void a_lost_probe_is_resent(void **state)
{
	uint64_t now = 1000;

	probe_deferred(now);
	assert_true(probe_deferred(now + LIMIT_KEEPALIVE_REPEAT - 1));
	assert_int_equal(probes, 1);
	assert_true(probe_deferred(now + LIMIT_KEEPALIVE_REPEAT));
	assert_int_equal(probes, 2);
	reply(now + LIMIT_KEEPALIVE_REPEAT + 1);
	assert_false(probe_deferred(now + LIMIT_KEEPALIVE_REPEAT + 2));
}

static void a_probe_without_room_is_sent_later(void **state)
{
	inbox_full = true;
	assert_false(probe_deferred(1000));
	inbox_full = false;
	assert_true(probe_deferred(2000));
	assert_int_equal(probes, 1);
	reply(2500);
	assert_false(probe_deferred(3000));
}

enum { ROUND = 5000000, ROUNDS = 20 };	/* in ns; longer than the grace period */

static void another_qp_probes(uint64_t now)
{
	memset(&other.peer.keepalive, 0, sizeof(other.peer.keepalive));
	vrb_keepalive_defers_timeout(&other, true, now);
}

/* The process replies to other QPs all the time, so its last reply is always recent. */
static void replies_to_other_qps_do_not_extend_the_grace_period(void **state)
{
	unsigned int deferred = 0;

	for (uint64_t now = ROUND; deferred < ROUNDS; now += ROUND, deferred++) {
		another_qp_probes(now);
		reply(now + 10);
		if (!timeout_deferred(now + 20))
			break;
		reply(now + 30);
	}
	assert_in_range(deferred, 1, 3);
}

static void a_pending_probe_of_another_qp_does_not_block(void **state)
{
	unsigned int deferred = 0;

	for (uint64_t now = ROUND; deferred < ROUNDS; now += ROUND, deferred++) {
		another_qp_probes(now);
		if (!timeout_deferred(now + 10))
			break;
		reply(now + 20);
	}
	assert_in_range(deferred, 1, 3);
}

static void replies_slower_than_the_timeout_count(void **state)
{
	unsigned int deferred = 0;

	for (uint64_t now = ROUND; deferred < ROUNDS; now += ROUND, deferred++) {
		if (!timeout_deferred(now))
			break;
		if (deferred % 2)
			reply(now + 10);
	}
	assert_in_range(deferred, 1, 3);
}

/*
 * The process of an XRC receive QP answers, but the one that has its request does not run: timeouts
 * do not count until an answer says that none waits any more.
 */
static void a_wait_for_a_third_process_does_not_count(void **state)
{
	uint64_t now = ROUND;

	qp.wq.type = IBV_QPT_XRC_SEND;
	for (int i = 0; i < ROUNDS; i++, now += ROUND) {
		assert_true(timeout_deferred(now));
		reply_with(HOST_KEEPALIVE_WAITS, now + 10);
	}
	assert_int_equal(requests_repeated, ROUNDS / 2);
	assert_true(timeout_deferred(now));
	reply(now + 10);
	assert_true(timeout_deferred(now + 20));
	assert_false(timeout_deferred(now + 10 + LIMIT_KEEPALIVE_GRACE));
}

/* Such an answer says nothing about requests that no other process executes. */
static void a_wait_for_a_third_process_concerns_xrc_only(void **state)
{
	qp.wq.type = IBV_QPT_RC;
	assert_true(timeout_deferred(1000));
	reply_with(HOST_KEEPALIVE_WAITS, 1500);
	assert_false(timeout_deferred(1500 + LIMIT_KEEPALIVE_GRACE));
}

static void probe_from_peer(void)
{
	struct host_keepalive p = { .from = PEER_ID, .to = OWN_ID, .asked_at = 1000,
				.slot = PEER_SLOT };

	vrb_keepalive_receive(&p, 2000);
	assert_true(vrb_keepalive_asked());
	vrb_keepalive_reply();
}

static void replies_say_whether_requests_wait(void **state)
{
	probe_from_peer();
	assert_int_equal(sent.answer, HOST_KEEPALIVE_ANSWER);
	vrb_keepalive_waits(true);
	vrb_keepalive_waits(true);
	vrb_keepalive_waits(false);
	probe_from_peer();
	assert_int_equal(sent.answer, HOST_KEEPALIVE_WAITS);
	vrb_keepalive_waits(false);
	probe_from_peer();
	assert_int_equal(sent.answer, HOST_KEEPALIVE_ANSWER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_first_probe_is_sent, set_up),
		cmocka_unit_test_setup(a_reply_makes_probes_and_timeouts_count, set_up),
		cmocka_unit_test_setup(a_lost_probe_is_resent, set_up),
		cmocka_unit_test_setup(a_probe_without_room_is_sent_later,
				       set_up),
		cmocka_unit_test_setup(replies_to_other_qps_do_not_extend_the_grace_period, set_up),
		cmocka_unit_test_setup(a_pending_probe_of_another_qp_does_not_block, set_up),
		cmocka_unit_test_setup(replies_slower_than_the_timeout_count, set_up),
		cmocka_unit_test_setup(a_wait_for_a_third_process_does_not_count, set_up),
		cmocka_unit_test_setup(a_wait_for_a_third_process_concerns_xrc_only, set_up),
		cmocka_unit_test_setup(replies_say_whether_requests_wait, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
