/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Timeouts, RNR waits, limits, windows and path migration (IBTA vol 1, 9.7.6, 9.9.2 and
 * 17.2).
 */
#include "roce_env.h"

#include "roce/retry.h"

#include "util/tuning.h"

static struct roce_env e;

static void send_one(uint8_t retry_cnt, uint8_t rnr_retry)
{
	env_init(&e, IBV_QPT_RC);
	e.wq.retry_cnt = retry_cnt;
	e.wq.rnr_retry = rnr_retry;
	env_rts(&e);
	env_post(&e, IBV_WR_SEND, 0, 8);
	assert_int_equal(env_drain(&e), 1);
}

static void rnr(uint8_t timer, uint32_t psn)
{
	env_aeth(&e, ROCE_RC_ACKNOWLEDGE, roce_syndrome(ROCE_AETH_RNR_NAK, timer), psn, 0);
}

/* Encoded local ack timeout -> deadline; small ones are rounded up, 0 means never. */
static void local_ack_timeout_rows(void **state)
{
	static const struct {
		uint8_t encoded;
		uint64_t ns;
	} rows[] = {
		{ 0, VRB_NEVER },      { 1, 4096ull << 10 },  { 10, 4096ull << 10 },
		{ 11, 4096ull << 11 }, { 14, 4096ull << 14 }, { 31, 4096ull << 31 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		env_init(&e, IBV_QPT_RC);
		e.wq.timeout = rows[i].encoded;
		e.now = 5 * VRB_SECOND;
		env_rts(&e);
		assert_true(roce_next_timeout(&e.qp) == VRB_NEVER);
		env_post(&e, IBV_WR_SEND, 0, 8);
		env_drain(&e);
		assert_true(e.qp.retry.ack_deadline == time_after(e.now, rows[i].ns));
	}
}

/* Answers to PSNs that are not in flight tell of a wrong PSN, but not once one was right. */
static void answers_to_other_psns(void **state)
{
	static const uint32_t deltas[] = { 77, 0xffffb3 };

	for (size_t i = 0; i < ARRAY_SIZE(deltas); i++) {
		send_one(0, 7);
		env_ack(&e, ENV_PSN + deltas[i]);
		env_expire(&e);
		env_expect_cqe(&e, 0, 0, IBV_WC_RETRY_EXC_ERR);
		assert_int_equal(e.cqes[0].reason, REASON_RETRY_PSN);
	}
	send_one(0, 7);
	env_ack(&e, ENV_PSN);
	env_ack(&e, ENV_PSN + 77);
	env_post(&e, IBV_WR_SEND, 0, 8);
	env_drain(&e);
	env_expire(&e);
	env_expect_cqe(&e, 1, 1, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(e.cqes[1].reason, REASON_RETRY_TIMEOUT);
}

/* retry_cnt is exact: 7 is seven, and 0 none. */
static void timeouts_are_counted(void **state)
{
	for (uint8_t cnt = 0; cnt <= 7; cnt++) {
		send_one(cnt, 7);
		for (uint8_t i = 0; i < cnt; i++) {
			env_expire(&e);
			assert_int_equal(env_drain(&e), 1);
		}
		assert_int_equal(e.num_cqes, 0);
		env_expire(&e);
		env_expect_cqe(&e, 0, 0, IBV_WC_RETRY_EXC_ERR);
		assert_int_equal(e.cqes[0].reason, REASON_RETRY_TIMEOUT);
		assert_int_equal(e.qp.counters.retransmitted_pkts, cnt);
		assert_int_equal(e.qp.counters.retry_exceeded_err, 1);
		assert_true(roce_next_timeout(&e.qp) == VRB_NEVER);
		assert_int_equal(env_drain(&e), 0);
	}
}

/* The request that has failed completes before the message that was on its way here. */
static void the_cause_completes_first(void **state)
{
	send_one(0, 7);
	env_post_recv(&e, 0, 4096);
	env_request(&e, ROCE_RC_SEND_FIRST, ENV_PSN, e.wq.mtu);
	env_expire(&e);
	assert_int_equal(e.num_cqes, 2);
	env_expect_cqe(&e, 0, 0, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(e.cqes[1].status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(e.cqes[1].reason, REASON_RECV_ABORTED);
}

/* Timeouts during which the peer could not have responded do not count, however many there are. */
static void deferred_timeouts_do_not_count(void **state)
{
	send_one(1, 7);
	for (int i = 0; i < 20; i++) {
		e.now = e.qp.retry.ack_deadline - 1;
		assert_false(roce_ack_overdue(&e.qp, e.now++));
		assert_true(roce_ack_overdue(&e.qp, e.now));
		roce_defer_timeout(&e.qp, e.now);
		roce_timeout(&e.qp, e.now);
		env_drain(&e);
	}
	assert_int_equal(e.num_cqes, 0);
	env_expire(&e);
	env_drain(&e);
	assert_int_equal(e.num_cqes, 0);
	env_expire(&e);
	env_expect_cqe(&e, 0, 0, IBV_WC_RETRY_EXC_ERR);
}

/* The keepalive probe of the ack timeout would never be sent if engine probes deferred it. */
static void a_deferred_probe_leaves_the_ack_timeout_running(void **state)
{
	uint64_t deadline;

	send_one(1, 7);
	deadline = e.qp.retry.ack_deadline;
	while (e.qp.retry.probe_at != VRB_NEVER) {
		e.now = e.qp.retry.probe_at;
		assert_true(roce_reply_due(&e.qp) == e.now);
		roce_defer_timeout(&e.qp, e.now);
		roce_timeout(&e.qp, e.now);
		assert_int_equal(env_drain(&e), 0);
		assert_true(e.qp.retry.ack_deadline == deadline);
	}
	assert_true(roce_next_timeout(&e.qp) == deadline);
}

/* Sends one and has it acknowledged `rtt` later. */
static void measure(uint32_t psn, uint64_t rtt)
{
	env_post(&e, IBV_WR_SEND, 0, 8);
	assert_int_equal(env_drain(&e), 1);
	e.now += rtt;
	env_ack(&e, psn);
}

/*
 * Round trips are those of the path: no waits for a peer that is stopped, or for its receives
 * (Karn's rule). Probes then come after as short a time as before.
 */
static void waits_are_no_round_trips(void **state)
{
	const uint64_t rtt = 50 * VRB_USEC;

	env_start(&e, IBV_QPT_RC);
	measure(ENV_PSN, rtt);
	env_post(&e, IBV_WR_SEND, 0, 8);
	env_drain(&e);
	e.now = e.qp.retry.probe_at;
	roce_defer_timeout(&e.qp, e.now);
	env_post(&e, IBV_WR_SEND, 0, 8);
	env_drain(&e);
	e.now += 3 * VRB_SECOND;
	env_ack(&e, ENV_PSN + 2);
	assert_int_equal(e.qp.cc.rtt, rtt);
	env_post(&e, IBV_WR_SEND, 0, 8);
	env_drain(&e);
	rnr(1, ENV_PSN + 3);
	e.now += VRB_SECOND;
	roce_timeout(&e.qp, e.now);
	assert_int_equal(env_drain(&e), 1);
	env_ack(&e, ENV_PSN + 3);
	assert_int_equal(e.qp.cc.rtt, rtt);
	measure(ENV_PSN + 4, 9 * rtt);
	assert_int_equal(e.qp.cc.rtt, 2 * rtt);
}

static void progress_refills_the_counter(void **state)
{
	send_one(1, 7);
	env_post(&e, IBV_WR_SEND, 0, 8);
	env_drain(&e);
	env_expire(&e);
	env_drain(&e);
	env_ack(&e, ENV_PSN);
	env_drain(&e);
	env_expire(&e);
	assert_int_equal(e.wq.state, IBV_QPS_RTS);
	env_drain(&e);
	env_expire(&e);
	env_expect_cqe(&e, 1, 1, IBV_WC_RETRY_EXC_ERR);
}

static void progress_restarts_the_timer(void **state)
{
	uint64_t first;

	send_one(7, 7);
	env_post(&e, IBV_WR_SEND, 0, 8);
	env_drain(&e);
	first = e.qp.retry.ack_deadline;
	e.now += 1000;
	env_ack(&e, ENV_PSN);
	assert_true(e.qp.retry.ack_deadline == first + 1000);
	env_ack(&e, ENV_PSN + 1);
	assert_true(roce_next_timeout(&e.qp) == VRB_NEVER);
}

static void early_timeout_calls_do_nothing(void **state)
{
	send_one(7, 7);
	e.now = roce_next_timeout(&e.qp) - 1;
	roce_timeout(&e.qp, e.now);
	assert_int_equal(env_drain(&e), 0);
}

/* Consecutive sequence NAKs are retries, too. */
static void sequence_naks_are_counted(void **state)
{
	send_one(2, 7);
	for (int i = 0; i < 2; i++) {
		env_aeth(&e, ROCE_RC_ACKNOWLEDGE, roce_syndrome(ROCE_AETH_NAK, 0), ENV_PSN, 0);
		assert_int_equal(env_drain(&e), 1);
	}
	env_aeth(&e, ROCE_RC_ACKNOWLEDGE, roce_syndrome(ROCE_AETH_NAK, 0), ENV_PSN, 0);
	env_expect_cqe(&e, 0, 0, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(e.cqes[0].reason, REASON_RETRY_SEQUENCE);
}

/* A QP without an ack timeout asks for lost packets as others do, but never gives up. */
static void probes_need_no_timeout(void **state)
{
	env_init(&e, IBV_QPT_RC);
	e.wq.timeout = 0;
	e.wq.retry_cnt = 1;
	env_rts(&e);
	for (int i = 0; i < 3; i++)
		env_post(&e, IBV_WR_SEND, 0, 8);
	assert_int_equal(env_drain(&e), 3);
	/* The responder missed the first, which was late: it has dropped the others. */
	env_aeth(&e, ROCE_RC_ACKNOWLEDGE, roce_syndrome(ROCE_AETH_NAK, 0), ENV_PSN, 0);
	env_aeth(&e, ROCE_RC_ACKNOWLEDGE, roce_syndrome(ROCE_AETH_ACK, 0), ENV_PSN, 0);
	assert_int_equal(env_drain(&e), 0);
	for (int i = 0; i < 20; i++) {
		e.now = e.qp.retry.probe_at;
		roce_timeout(&e.qp, e.now);
		assert_in_range(env_drain(&e), 1, 2);
	}
	env_aeth(&e, ROCE_RC_ACKNOWLEDGE, roce_syndrome(ROCE_AETH_ACK, 0), ENV_PSN + 2, 0);
	assert_int_equal(e.num_cqes, 3);
	assert_int_equal(e.cqes[2].status, IBV_WC_SUCCESS);
	assert_true(roce_next_timeout(&e.qp) == VRB_NEVER);
}

/* IBTA vol 1, 9.7.5: the wait is the responder's timer; 0 is the longest. */
static void rnr_timer_rows(void **state)
{
	static const struct {
		uint8_t encoded;
		uint64_t us;
	} rows[] = { { 0, 655360 }, { 1, 10 }, { 5, 60 }, { 12, 640 }, { 31, 491520 } };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		send_one(7, 7);
		e.now = VRB_SECOND;
		rnr(rows[i].encoded, ENV_PSN);
		assert_true(roce_next_timeout(&e.qp) == e.now + rows[i].us * VRB_USEC);
		assert_int_equal(env_drain(&e), 0);
		env_expire(&e);
		assert_int_equal(env_drain(&e), 1);
		assert_int_equal(e.out.bth.psn, ENV_PSN);
	}
}

static void rnr_retries_are_counted(void **state)
{
	for (uint8_t cnt = 0; cnt < 7; cnt++) {
		send_one(7, cnt);
		for (uint8_t i = 0; i < cnt; i++) {
			rnr(1, ENV_PSN);
			env_expire(&e);
			assert_int_equal(env_drain(&e), 1);
		}
		rnr(1, ENV_PSN);
		env_expect_cqe(&e, 0, 0, IBV_WC_RNR_RETRY_EXC_ERR);
		assert_int_equal(e.cqes[0].reason, REASON_RNR_EXCEEDED);
		assert_int_equal(e.qp.counters.rcvd_rnr_err, cnt + 1);
	}
}

static void rnr_retry_seven_is_for_ever(void **state)
{
	send_one(0, 7);
	for (int i = 0; i < 100; i++) {
		rnr(1, ENV_PSN);
		env_expire(&e);
		assert_int_equal(env_drain(&e), 1);
	}
	assert_int_equal(e.num_cqes, 0);
}

/* A second copy of the RNR NAK during the wait neither counts nor prolongs it. */
static void repeated_rnr_nak(void **state)
{
	uint64_t deadline;

	send_one(7, 1);
	rnr(12, ENV_PSN);
	deadline = roce_next_timeout(&e.qp);
	e.now += 1000;
	rnr(12, ENV_PSN);
	assert_int_equal(e.num_cqes, 0);
	assert_true(roce_next_timeout(&e.qp) == deadline);
}

/* go-back-N from the middle of a message. */
static void timeout_resends_from_the_oldest_unacknowledged(void **state)
{
	env_start(&e, IBV_QPT_RC);
	env_post(&e, IBV_WR_RDMA_WRITE, 0, 1024);
	env_post(&e, IBV_WR_SEND, 0, 8);
	env_drain(&e);
	env_ack(&e, ENV_PSN + 1);
	env_expire(&e);
	assert_true(env_output(&e));
	assert_int_equal(e.out.bth.opcode, ROCE_RC_WRITE_MIDDLE);
	assert_int_equal(e.out.bth.psn, ENV_PSN + 2);
	assert_memory_equal(e.out.payload, e.mem + 512, 256);
	assert_int_equal(env_drain(&e), 0);
	env_ack(&e, ENV_PSN + 2);
	assert_int_equal(env_drain(&e), 2);
	env_ack(&e, ENV_PSN + 4);
	assert_int_equal(e.num_cqes, 2);
}

/*
 * One packet after a timeout; if the timeout was spurious, the old window; else growth in steps to
 * the full window.
 */
static void window_shrinks_and_grows(void **state)
{
	uint32_t full, first;

	send_one(7, 7);
	full = roce_window_limit(&e.qp);
	first = e.qp.cc.window;
	assert_int_equal(first, full / TUNE_CC_FIRST);
	env_expire(&e);
	assert_int_equal(e.qp.cc.window, TUNE_CC_WINDOW_MIN);
	roce_retry_progress(&e.qp, full, e.now);
	assert_int_equal(e.qp.cc.window, first - first * 3 / 10);
	for (int i = 0; i < 250; i++)
		roce_retry_progress(&e.qp, full, e.now);
	assert_int_equal(e.qp.cc.window, full);
}

/*
 * Probes start long before the ack timeout, double their wait up to a quarter of it, and use up no
 * retry; each is the oldest packet alone.
 */
static void probes_wait_longer_each_time(void **state)
{
	static const uint64_t ms[] = { 1, 2, 4, 8, 16, 32 };
	uint64_t timeout = 4096ull << 14, last;

	env_init(&e, IBV_QPT_RC);
	e.wq.timeout = 14;
	env_rts(&e);
	env_post(&e, IBV_WR_SEND, 0, 8);
	env_post(&e, IBV_WR_SEND, 0, 8);
	assert_int_equal(env_drain(&e), 2);
	last = e.now;
	for (size_t i = 0; i < ARRAY_SIZE(ms); i++) {
		uint64_t at = roce_next_timeout(&e.qp);

		assert_true(at - last == min(ms[i] * VRB_MSEC, timeout / TUNE_PROBE_PART));
		last = e.now = at;
		roce_timeout(&e.qp, at);
		assert_true(env_output(&e));
		assert_int_equal(e.out.bth.psn, ENV_PSN);
		assert_false(env_output(&e));
	}
	assert_int_equal(e.qp.retry.left, e.wq.retry_cnt);
	env_ack(&e, ENV_PSN);
	assert_int_equal(e.qp.retry.probes, 0);
}

static void window_limit_by_mtu(void **state)
{
	static const struct {
		uint32_t mtu, packets;
	} rows[] = { { 256, 256 }, { 512, 256 }, { 1024, 128 }, { 2048, 64 }, { 4096, 32 } };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		env_init(&e, IBV_QPT_RC);
		e.wq.mtu = rows[i].mtu;
		assert_int_equal(roce_window_limit(&e.qp), rows[i].packets);
	}
}

/* However much there is to send, the caller regains control. */
static void bursts_are_bounded(void **state)
{
	env_init(&e, IBV_QPT_UC);
	e.now = VRB_SECOND;
	env_rts(&e);
	env_post(&e, IBV_WR_RDMA_WRITE, 0, 256 * 1000);
	env_post(&e, IBV_WR_RDMA_WRITE, 0, 256 * 1000);
	assert_int_equal(env_drain(&e), LIMIT_BURST_MAX);
	assert_true(roce_next_timeout(&e.qp) == e.now + 1);
	assert_int_equal(env_drain(&e), 0);
	env_expire(&e);
	assert_true(roce_next_timeout(&e.qp) == VRB_NEVER);
	assert_int_equal(env_drain(&e), 2000 - LIMIT_BURST_MAX);
	assert_true(roce_next_timeout(&e.qp) == VRB_NEVER);
}

static void arm_alternate_path(void)
{
	e.wq.alt_path = e.wq.path;
	e.wq.alt_path.dst.raw[15] = 9;
	e.wq.alt_timeout = 20;
	e.wq.mig_state = IBV_MIG_ARMED;
}

/* An armed alternate path takes over when the retries are used up, with full counters, once. */
static void migration_on_exhausted_retries(void **state)
{
	send_one(1, 7);
	arm_alternate_path();
	env_expire(&e);
	env_drain(&e);
	assert_false(e.out.bth.mig_req);
	env_expire(&e);
	assert_int_equal(env_drain(&e), 1);
	assert_int_equal(e.num_events, 1);
	assert_int_equal(e.events[0], IBV_EVENT_PATH_MIG);
	assert_int_equal(e.wq.mig_state, IBV_MIG_MIGRATED);
	assert_true(e.out.bth.mig_req);
	assert_int_equal(e.out_path->dst.raw[15], 9);
	assert_true(e.qp.retry.ack_deadline == e.now + (4096ull << 20));
	env_expire(&e);
	env_expect_cqe(&e, 0, 0, IBV_WC_RETRY_EXC_ERR);
}

/* The peer's MigReq arms, moves, or is refused. */
static void migration_requested_by_the_peer(void **state)
{
	struct roce_pkt pkt;

	env_start(&e, IBV_QPT_RC);
	arm_alternate_path();
	e.wq.mig_state = IBV_MIG_REARM;
	pkt = env_pkt(&e, ROCE_RC_WRITE_ONLY, ENV_PSN, 8);
	pkt.bth.mig_req = false;
	env_input(&e, &pkt);
	assert_int_equal(e.wq.mig_state, IBV_MIG_ARMED);

	for (uint32_t i = 1; i <= 2; i++) {
		pkt = env_pkt(&e, ROCE_RC_WRITE_ONLY, ENV_PSN + i, 8);
		env_input(&e, &pkt);
	}
	assert_int_equal(e.num_events, 1);
	assert_int_equal(e.events[0], IBV_EVENT_PATH_MIG_ERR);
	assert_int_equal(e.wq.mig_state, IBV_MIG_ARMED);

	pkt = env_pkt(&e, ROCE_RC_WRITE_ONLY, ENV_PSN + 3, 8);
	pkt.path.src = e.wq.alt_path.dst;
	env_input(&e, &pkt);
	assert_int_equal(e.events[1], IBV_EVENT_PATH_MIG);
	assert_int_equal(e.wq.mig_state, IBV_MIG_MIGRATED);
	assert_int_equal(e.wq.path.dst.raw[15], 9);
	assert_int_equal(e.writes, 4);
}

static struct roce_pkt write_with(uint32_t psn, bool mig_req)
{
	struct roce_pkt pkt = env_pkt(&e, ROCE_RC_WRITE_ONLY, psn, 8);

	pkt.bth.mig_req = mig_req;
	return pkt;
}

/*
 * What the peer sent, with MigReq, before its QP was armed may arrive afterwards: a copy of a
 * request that was repeated, an answer, the first request after an answer.
 */
static void late_packets_request_no_migration(void **state)
{
	struct roce_pkt pkt;

	send_one(7, 7);
	arm_alternate_path();
	e.wq.mig_state = IBV_MIG_REARM;
	pkt = write_with(ENV_PSN, false);
	env_input(&e, &pkt);
	assert_int_equal(e.wq.mig_state, IBV_MIG_ARMED);
	pkt.bth.mig_req = true;
	env_input(&e, &pkt);
	pkt = env_pkt(&e, ROCE_RC_ACKNOWLEDGE, ENV_PSN, 0);
	pkt.bth.mig_req = true;
	env_input(&e, &pkt);
	assert_int_equal(e.num_events, 0);

	e.wq.mig_state = IBV_MIG_REARM;
	pkt.bth.mig_req = false;
	env_input(&e, &pkt);
	assert_int_equal(e.wq.mig_state, IBV_MIG_ARMED);
	pkt = write_with(ENV_PSN + 1, true);
	env_input(&e, &pkt);
	assert_int_equal(e.num_events, 0);
	assert_int_equal(e.writes, 2);

	pkt = write_with(ENV_PSN + 3, false);	/* overtook the next */
	env_input(&e, &pkt);
	pkt = write_with(ENV_PSN + 2, true);
	env_input(&e, &pkt);
	assert_int_equal(e.num_events, 0);

	pkt = write_with(ENV_PSN + 3, false);
	env_input(&e, &pkt);
	pkt = write_with(ENV_PSN + 4, true);
	env_input(&e, &pkt);
	assert_int_equal(e.num_events, 1);
	assert_int_equal(e.events[0], IBV_EVENT_PATH_MIG_ERR);
}

/* Nor does one without MigReq arm that left before the peer's last migration, on the old path. */
static void late_packets_do_not_arm(void **state)
{
	struct roce_pkt pkt;

	env_start(&e, IBV_QPT_RC);
	arm_alternate_path();
	e.wq.mig_state = IBV_MIG_REARM;
	pkt = write_with(ENV_PSN, false);
	pkt.path.src = e.wq.alt_path.dst;
	env_input(&e, &pkt);
	assert_int_equal(e.wq.mig_state, IBV_MIG_REARM);
	pkt = write_with(ENV_PSN + 1, false);
	env_input(&e, &pkt);
	assert_int_equal(e.wq.mig_state, IBV_MIG_ARMED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(local_ack_timeout_rows),
		cmocka_unit_test(answers_to_other_psns),
		cmocka_unit_test(timeouts_are_counted),
		cmocka_unit_test(the_cause_completes_first),
		cmocka_unit_test(deferred_timeouts_do_not_count),
		cmocka_unit_test(a_deferred_probe_leaves_the_ack_timeout_running),
		cmocka_unit_test(waits_are_no_round_trips),
		cmocka_unit_test(progress_refills_the_counter),
		cmocka_unit_test(progress_restarts_the_timer),
		cmocka_unit_test(early_timeout_calls_do_nothing),
		cmocka_unit_test(sequence_naks_are_counted),
		cmocka_unit_test(probes_need_no_timeout),
		cmocka_unit_test(rnr_timer_rows),
		cmocka_unit_test(rnr_retries_are_counted),
		cmocka_unit_test(rnr_retry_seven_is_for_ever),
		cmocka_unit_test(repeated_rnr_nak),
		cmocka_unit_test(timeout_resends_from_the_oldest_unacknowledged),
		cmocka_unit_test(window_shrinks_and_grows),
		cmocka_unit_test(probes_wait_longer_each_time),
		cmocka_unit_test(window_limit_by_mtu),
		cmocka_unit_test(bursts_are_bounded),
		cmocka_unit_test(migration_on_exhausted_retries),
		cmocka_unit_test(migration_requested_by_the_peer),
		cmocka_unit_test(late_packets_request_no_migration),
		cmocka_unit_test(late_packets_do_not_arm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
