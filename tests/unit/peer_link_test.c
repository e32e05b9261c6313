/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which timeouts of a QP count while its peer in shared memory is alive. The test plays the peer:
 * its QP table, its keeper, and the lane to it.
 */
#include "core/local/peer_link.h"

#include "core/base/tap.h"
#include "core/local/backlog.h"
#include "core_qp.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "local/keeper.h"
#include "local/peer.h"
#include "roce/message.h"
#include "place.h"
#include "run/clock.h"

enum { PEER_QPN = 0x123400, TIMEOUT = 14, TIMEOUTS = 50 };

/* Each look at the clock takes a second. */
static bool hurries;

int clock_gettime(clockid_t id, struct timespec *t)
{
	static unsigned int seconds;

	seconds += hurries;
	t->tv_sec = t->tv_nsec = 0;
	if (syscall(SYS_clock_gettime, id, t))
		return -1;
	t->tv_sec += seconds;
	return 0;
}

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
	qp->wq.timeout = TIMEOUT;
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

/* One request in flight, in one slot of the lane. */
static void send_one(enum ibv_wr_opcode opcode)
{
	core_qp_fill(qp, opcode, NULL);
	qp->wq.sq.next = qp->wq.sq.head;
	qp->peer.tx_head = 1;
}

static void peer_consumes(void)
{
	lane.tail = 1;
}

/* At the time when the peer was last known to be alive. */
static bool timeout_deferred(void)
{
	return vrb_peer_defers_timeout(qp, true, peer.checked);
}

static bool probe_deferred(void)
{
	return vrb_peer_defers_timeout(qp, false, peer.checked);
}

static void no_timeout_counts_before_the_peer_reads(void **state)
{
	send_one(IBV_WR_SEND);
	for (int i = 0; i < TIMEOUTS; i++)
		assert_true(timeout_deferred() && probe_deferred());
}

static void a_consumed_request_is_probed_and_times_out(void **state)
{
	send_one(IBV_WR_SEND);
	peer_consumes();
	assert_false(probe_deferred());
	assert_true(timeout_deferred());
	assert_false(timeout_deferred());
}

/* So that faults by rules are the same in each run. */
static void without_an_ack_timeout_nothing_is_probed(void **state)
{
	qp->wq.timeout = 0;
	send_one(IBV_WR_SEND);
	peer_consumes();
	for (int i = 0; i < TIMEOUTS; i++)
		assert_true(probe_deferred());
}

static void no_timeout_counts_while_answers_wait_for_room(void **state)
{
	send_one(IBV_WR_SEND);
	peer_consumes();
	table[PEER_QPN % SEG_QPS].flags = SEG_QP_BLOCKED;
	for (int i = 0; i < TIMEOUTS; i++)
		assert_true(timeout_deferred() && probe_deferred());
}

static void no_timeout_counts_while_the_peer_stands_still_in_an_update(void **state)
{
	send_one(IBV_WR_SEND);
	peer_consumes();
	table[PEER_QPN % SEG_QPS].gen = 1;
	for (int i = 0; i < TIMEOUTS; i++)
		assert_true(timeout_deferred() && probe_deferred());
	table[PEER_QPN % SEG_QPS].qpn = SEG_QP_DELETED;
	assert_false(timeout_deferred() || probe_deferred());
}

/*
 * The disk may take long, so no timeout counts; but the response may have been lost, so probes do.
 */
static void a_flush_is_probed_and_never_times_out(void **state)
{
	send_one(IBV_WR_FLUSH);
	peer_consumes();
	for (int i = 0; i < TIMEOUTS; i++)
		assert_true(timeout_deferred());
	assert_false(probe_deferred());
}

static unsigned int acks_recorded;

static bool record_ack(struct tap_packet *p)
{
	assert_ptr_equal(p->qp, qp);
	assert_int_equal(p->pkt->bth.opcode, ROCE_RC_ACKNOWLEDGE);
	assert_int_equal(p->pkt->bth.dest_qpn, qp->wq.qpn);
	assert_int_equal(p->pkt->aeth.msn, 1);
	assert_true(net_addr_equal(&p->path->dst, &qp->wq.path.src));
	acks_recorded++;
	return true;
}

/*
 * A receiver dies after it has published its progress and before its lane shows that: the request
 * is complete.
 */
static void published_progress_of_a_dead_peer_counts(void **state)
{
	struct seg_qp *entry = &table[PEER_QPN % SEG_QPS];
	uint8_t buf[ROCE_MAX_MTU];
	struct roce_piggyback_ack ack;
	struct message m;

	qp->wq.type = IBV_QPT_RC;
	qp->wq.pkey = ROCE_PKEY_DEFAULT;
	qp->wq.mtu = 1024;
	qp->peer.entry = entry;
	roce_qp_moved(&qp->roce, IBV_QPS_RTR);
	core_qp_fill(qp, IBV_WR_SEND, NULL);
	sq_wqe(&qp->wq.sq, qp->wq.sq.next)->flags = 0;
	assert_true(roce_message_output(&qp->roce, &m, buf, &ack));
	keeper = FUTEX_OWNER_DIED;
	assert_false(timeout_deferred());
	assert_int_equal(roce_in_flight(&qp->roce), 1);
	message_publish(&entry->progress, &(struct message_progress){
		.psn = m.psn, .msn = 1, .syndrome = 0x1f });
	vrb_tap_attach(TAP_RECORD, &(const struct tap_ops){ .in = record_ack });
	assert_false(timeout_deferred());
	assert_int_equal(roce_in_flight(&qp->roce), 0);
	assert_int_equal(acks_recorded, 1);
	vrb_tap_attach(TAP_RECORD, NULL);
	keeper = 0;
	peer.alive = true;
	qp->peer.entry = NULL;
}

static void all_timeouts_count_once_the_peer_is_dead(void **state)
{
	send_one(IBV_WR_FLUSH);
	keeper = FUTEX_OWNER_DIED;
	assert_false(timeout_deferred() || probe_deferred());
	keeper = 0;
	peer.alive = true;
}

/*
 * A signal's handler may call exit() in a thread that is sending, which then holds the lane: the
 * process ends all the same.
 */
static void exit_does_not_wait_for_its_own_thread(void **state)
{
	const uint8_t packet[ROCE_BTH_LEN] = { 0 };
	struct local_peer *self;

	assert_int_equal(vrb_local_start(), 0);
	self = local_peer_in(vrb.local, host_slot(vrb.host));
	assert_non_null(self);
	assert_true(vrb_backlog_add(self, &(struct lane_packet){
		.data = packet, .len = sizeof(packet) }));
	local_tx_begin(self);
	hurries = true;
	vrb_backlog_stop();
	hurries = false;
	local_tx_end(vrb.local, self, false);
	local_peer_put(vrb.local, self);
	vrb_local_stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(no_timeout_counts_before_the_peer_reads, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(
			a_consumed_request_is_probed_and_times_out, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			without_an_ack_timeout_nothing_is_probed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(no_timeout_counts_while_answers_wait_for_room,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			no_timeout_counts_while_the_peer_stands_still_in_an_update, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(a_flush_is_probed_and_never_times_out, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(published_progress_of_a_dead_peer_counts, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(all_timeouts_count_once_the_peer_is_dead, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(exit_does_not_wait_for_its_own_thread, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
