/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process that was not scheduled for a while: its deadline has passed, but the response is in its
 * socket, so the request must not time out. Only the test polls.
 */
#include "core/progress/poll_loop.h"

#include "core_qp.h"

#include "core/base/rx_queues.h"
#include "core/cq/cq.h"
#include "core/device/device.h"
#include "core/mem/mr.h"
#include "core/progress/drain.h"
#include "core/progress/rx_queue.h"
#include "core/progress/served_qps.h"
#include "core/progress/timeouts.h"
#include "core/tx/transmit.h"
#include "core/tx/transport_ops.h"
#include "core/tx/tx_sched.h"
#include "left_out.h"
#include "place.h"
#include "run/clock.h"
#include "wire/udp.h"

enum {
	TIMEOUT = 10,	/* 4.2 ms */
	TIMEOUTS = 10,	/* more than the number of retries */
	JUNK = 100,	/* datagrams before the response: more than one poll reads */
};

static struct vrb_device dev;
static struct vrb_context *ctx;
static struct vrb_pd *pd;
static struct vrb_cq *cq;
static struct vrb_mr *mr;
static struct vrb_qp *qp;
static volatile uint64_t memory[2];

static void move(uint8_t to)
{
	uint8_t from = qp->wq.state;

	qp->wq.state = to;
	roce_qp_moved(&qp->roce, from);
}

/* Connects a QP to itself over UDP. */
static void connect_to_itself(void)
{
	static const struct net_addr loopback = {
		{ [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 }
	};
	struct wq_qp *wq;

	qp = core_qp_new(ctx, pd, &vrb_transport_ops);
	qp->config.send_cq = qp->config.recv_cq = cq;
	wq = &qp->wq;
	wq->path = (struct net_path){ .src = loopback, .dst = loopback, .hop_limit = 1 };
	wq->mtu = wq->path_mtu = 1024;
	wq->dest_qpn = wq->qpn;
	wq->pkey = VRB_PKEY_DEFAULT;
	wq->access = IBV_ACCESS_REMOTE_WRITE;
	wq->min_rnr_timer = 1;
	wq->timeout = TIMEOUT;
	wq->retry_cnt = wq->rnr_retry = 7;
	assert_int_equal(vrb_progress_add_qp(qp), 0);
	lock_acquire(&qp->lock);
	move(IBV_QPS_INIT);
	move(IBV_QPS_RTR);
	move(IBV_QPS_RTS);
	lock_release(&qp->lock);
}

/* Must hold qp->lock. */
static void fill_write(void)
{
	struct ibv_sge sge = { (uintptr_t)&memory[0], sizeof(memory[0]), mr->ibv.lkey };
	struct send_wqe *w = core_qp_fill(qp, IBV_WR_RDMA_WRITE, &sge);

	w->remote_addr = (uintptr_t)&memory[1];
	w->rkey = mr->ibv.rkey;
}

static void post_write(void)
{
	lock_acquire(&qp->lock);
	fill_write();
	vrb_doorbell(qp);
	lock_release(&qp->lock);
}

static void expect_success(void)
{
	struct ibv_wc wc;

	assert_int_equal(vrb_cq_take_some(cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

/*
 * Posts a request and receives it; its ACK is delayed. If the thread loses its CPU for longer than
 * the timeout, the poll that receives the request also expires it and reads the ACK: then again.
 */
static void post_unacknowledged(void)
{
	for (;;) {
		memory[0]++;
		post_write();
		while (memory[1] != memory[0])
			vrb_poll_once(1);
		if (roce_in_flight(&qp->roce))
			return;
		expect_success();
	}
}

/*
 * Posts a request that is answered. The response is in the socket behind this many datagrams that
 * are not packets.
 */
static void post_with_response_behind(unsigned int junk)
{
	struct wire_pkt pkt = { .path = qp->wq.path,
				.data = (uint8_t[8]){ 0 },
				.len = 8 };

	post_unacknowledged();
	for (unsigned int i = 0; i < junk; i++)
		assert_int_equal(wire_send(vrb.wire, &pkt, 1), 1);
	vrb_tx_try_flush_delayed();
}

static void deadline_passes(void)
{
	while (!time_reached(qp->roce.retry.ack_deadline, clock_now()))
		;
}

static uint64_t retransmitted(void)
{
	return roce_qp_counters(&qp->roce)->retransmitted_pkts;
}

static void the_thread_reads_before_it_expires(void **state)
{
	for (unsigned int junk = 0; junk <= JUNK; junk += JUNK) {
		uint64_t before;

		post_with_response_behind(junk);
		deadline_passes();
		before = retransmitted();
		vrb_progress_ops.expire(NULL, clock_now());
		assert_int_equal(retransmitted(), before);
		expect_success();
	}
}

static void a_poller_reads_before_it_expires(void **state)
{
	uint64_t before;

	post_with_response_behind(JUNK);
	deadline_passes();
	before = retransmitted();
	vrb_poll_once(1);
	assert_int_equal(retransmitted(), before);
	expect_success();
}

/* Another QP, which has seen no congestion. Returns the time. */
static uint64_t renew(void)
{
	vrb_progress_remove_qp(qp);
	core_qp_free(qp);
	connect_to_itself();
	return clock_now();
}

static uint64_t sent(void)
{
	return load_relaxed(&vrb_main_rx_queue->stats.sent_pkts);
}

/*
 * Posts a request and receives it, at a time of the test's own: no round trip is long. The ACK of
 * the request is delayed.
 */
static void receive_own_request(uint64_t now)
{
	memory[0]++;
	lock_acquire(&qp->lock);
	fill_write();
	vrb_transmit(qp, now);
	lock_release(&qp->lock);
	lock_acquire(&vrb.poll_lock);
	while (memory[1] != memory[0])
		vrb_rx_queue_poll(vrb_main_rx_queue, now, true);
	lock_release(&vrb.poll_lock);
}

static void finish(void)
{
	struct ibv_wc wc;

	while (!vrb_cq_take_some(cq, 1, &wc)) {
		vrb_poll_once(1);
		vrb_tx_try_flush_delayed();
	}
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

/*
 * Each ACK leaves with the next request, as in a ping-pong, so that none has waited for a poll. One
 * that leaves alone reaches a peer that then stops polling.
 */
static void an_ack_that_has_waited_for_no_poll_waits(void **state)
{
	uint64_t now = renew(), before;

	receive_own_request(now);
	for (unsigned int i = 1; i <= 4 * TUNE_ACK_DELAY_POLLS; i++) {
		before = sent();
		receive_own_request(now + i);
		assert_int_equal(sent(), before + 2);
		expect_success();
	}
	finish();
}

static void nothing_is_late(uint64_t now, bool poller)
{
	fail_msg("no reply is overdue");
}

static void a_timer_that_expires_in_vain_sends_no_delayed_ack(void **state)
{
	uint64_t now = renew(), before;

	receive_own_request(now);
	before = sent();
	lock_acquire(&vrb.poll_lock);
	timers_arm(vrb.timers, &qp->timer.timer, now);
	assert_true(vrb_timers_expire(now, nothing_is_late, true));
	assert_int_equal(sent(), before);
	assert_in_range(timers_next(vrb.timers), now + 1, now + VRB_SECOND);
	vrb_tx_flush(vrb_main_rx_queue, now);
	assert_int_equal(sent(), before + 1);
	lock_release(&vrb.poll_lock);
	finish();
}

/* A thread that is not scheduled holds an RX queue: the response may be in it. */
static void nothing_expires_before_all_queues_are_served(void **state)
{
	struct vrb_rx_queue *r = &vrb_rx_queues[1];
	uint64_t before, end;

	vrb_rx_queues_open();
	if (!load_relaxed(&vrb_extra_rx_queues))
		LEAVE_OUT("one processor needs one queue");
	qp->wq.dest_qpn ^= 1;	/* the number of no QP */
	memory[0]++;
	post_write();

	lock_acquire(r->lock);
	before = retransmitted();
	end = time_after(clock_now(), TIMEOUTS * roce_ack_timeout_ns(TIMEOUT));
	while (!time_reached(end, clock_now()))
		vrb_poll_once(1);
	assert_int_equal(retransmitted(), before);
	qp->wq.dest_qpn ^= 1;
	lock_release(r->lock);

	finish();
	assert_true(memory[1] == memory[0]);
}

/* Their own threads read them. */
static void a_timer_that_expires_in_vain_reads_no_other_queue(void **state)
{
	struct vrb_rx_queue *r = &vrb_rx_queues[1];
	uint64_t now;

	vrb_rx_queues_open();
	if (!load_relaxed(&vrb_extra_rx_queues))
		LEAVE_OUT("one processor needs one queue");
	lock_acquire(&vrb.poll_lock);
	now = clock_now();
	timers_arm(vrb.timers, &qp->timer.timer, now);
	lock_release(&vrb.poll_lock);
	store_relaxed(&r->served_at, 1);
	store_relaxed(&r->polled_at, time_after(now, VRB_SECOND));
	while (timers_next(vrb.timers) <= now)
		vrb_poll_once(1);
	assert_int_equal(load_relaxed(&r->served_at), 1);
	store_relaxed(&r->polled_at, now);
}

static char dir[64];

static int set_up(void **state)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 8 };

	place_make_dir(dir);
	ctx = core_env_open();
	ctx->dev = &dev;
	path_table_init(&vrb.paths);
	assert_int_equal(host_join(dir, &vrb.host), 0);
	assert_int_equal(udp_open(place_free_port(), host_group(vrb.host), &vrb.wire), 0);
	assert_int_equal(vrb_progress_start(), 0);
	assert_int_equal(vrb_pd_alloc(ctx, &pd), 0);
	assert_int_equal(vrb_cq_create(ctx, &attr, false, vrb_timeout_cq, &cq), 0);
	assert_int_equal(vrb_mr_reg(pd, (void *)memory, sizeof(memory), (uintptr_t)memory,
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &mr), 0);
	connect_to_itself();
	return 0;
}

static int tear_down(void **state)
{
	vrb_progress_remove_qp(qp);
	core_qp_free(qp);
	assert_int_equal(vrb_mr_dereg(mr, &vrb_mr_waits), 0);
	assert_int_equal(vrb_cq_destroy(cq), 0);
	assert_int_equal(vrb_pd_dealloc(pd), 0);
	vrb_progress_stop();
	wire_close(vrb.wire);
	host_leave(vrb.host);
	core_env_close(ctx);
	place_remove_dir(dir);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_thread_reads_before_it_expires),
		cmocka_unit_test(a_poller_reads_before_it_expires),
		cmocka_unit_test(an_ack_that_has_waited_for_no_poll_waits),
		cmocka_unit_test(a_timer_that_expires_in_vain_sends_no_delayed_ack),
		cmocka_unit_test(nothing_expires_before_all_queues_are_served),
		cmocka_unit_test(a_timer_that_expires_in_vain_reads_no_other_queue),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
