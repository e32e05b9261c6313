/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which timeouts of a QP count while its peer in shared memory lives.  The test plays the peer: its
 * QP table, its keeper, and the lane to it.
 */
#include "core/local/peer_link.h"

#include "core_qp.h"

#include "local/keeper.h"
#include "local/peer.h"
#include "place.h"
#include "run/clock.h"

enum { PEER_QPN = 0x123400, TIMEOUTS = 50 };

static const struct wq_ops no_ops;
static char dir[64];
static struct vrb_context *ctx;
static struct vrb_pd *pd;
static struct vrb_qp *qp;
static struct seg_qp table[SEG_QPS];
static struct lane lane;
static uint32_t keeper;
static struct local_peer peer = {
	.map = { .qps = table, .lane = &lane, .keeper = &keeper }, .alive = true,
};

static int set_up(void **state)
{
	place_make_dir(dir);
	ctx = core_env_open();
	assert_int_equal(host_join(dir, &vrb.host), 0);
	assert_int_equal(vrb_pd_alloc(ctx, &pd), 0);
	qp = core_qp_new(ctx, pd, &no_ops);
	qp->wq.state = IBV_QPS_RTS;
	qp->wq.dest_qpn = PEER_QPN;
	qp->peer.process = &peer;
	table[PEER_QPN % SEG_QPS] = (struct seg_qp){
		.qpn = PEER_QPN, .dest_qpn = qp->wq.qpn, .state = IBV_QPS_RTS,
	};
	peer.checked = clock_now();
	lane.tail = 0;
	return 0;
}

static int tear_down(void **state)
{
	qp->peer.process = NULL;
	core_qp_free(qp);
	assert_int_equal(vrb_pd_dealloc(pd), 0);
	host_leave(vrb.host);
	core_env_close(ctx);
	place_remove_dir(dir);
	return 0;
}

/* In flight: in one slot of the lane. */
static void send_one(enum ibv_wr_opcode opcode)
{
	core_qp_fill(qp, opcode, NULL);
	qp->wq.sq.next = qp->wq.sq.head;
	qp->peer.tx_head = 1;
}

static void is_taken(void)
{
	lane.tail = 1;
}

/* At the time when the peer was last seen alive. */
static bool timeout_deferred(void)
{
	return vrb_peer_defers_timeout(qp, true, peer.checked);
}

static bool probe_deferred(void)
{
	return vrb_peer_defers_timeout(qp, false, peer.checked);
}

static void nothing_counts_before_the_peer_has_looked(void **state)
{
	send_one(IBV_WR_SEND);
	for (int i = 0; i < TIMEOUTS; i++)
		assert_true(timeout_deferred() && probe_deferred());
}

static void what_was_taken_is_probed_and_the_second_timeout_counts(void **state)
{
	send_one(IBV_WR_SEND);
	is_taken();
	assert_false(probe_deferred());
	assert_true(timeout_deferred());
	assert_false(timeout_deferred());
}

/* The disk may take long, so no timeout counts; but the response may have been lost. */
static void a_flush_is_probed_and_never_times_out(void **state)
{
	send_one(IBV_WR_FLUSH);
	is_taken();
	for (int i = 0; i < TIMEOUTS; i++)
		assert_true(timeout_deferred());
	assert_false(probe_deferred());
}

static void everything_counts_once_the_peer_is_gone(void **state)
{
	send_one(IBV_WR_FLUSH);
	keeper = FUTEX_OWNER_DIED;
	assert_false(timeout_deferred() || probe_deferred());
	keeper = 0;
	peer.alive = true;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nothing_counts_before_the_peer_has_looked, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(
			what_was_taken_is_probed_and_the_second_timeout_counts, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_flush_is_probed_and_never_times_out, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(everything_counts_once_the_peer_is_gone, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
