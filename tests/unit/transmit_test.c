/* SPDX-License-Identifier: BSD-2-Clause */
/* The timer of a QP after it has transmitted, and the mark of a delayed ACK. */
#include "core/tx/transmit.h"

#include "core_env.h"

#include "core/base/object_timer.h"
#include "core/base/rx_queues.h"
#include "core/local/peer_link.h"
#include "core/qp/qp.h"
#include "core/tx/tx_sched.h"

enum { PAST = 1000, NOW = 5000 };

static unsigned int fires;
static bool out_of_memory;

void *__real_malloc(size_t size);
__attribute__((visibility("default"))) void *__wrap_malloc(size_t size);

/* Replaces the library's malloc(); see meson.build. */
void *__wrap_malloc(size_t size)
{
	return out_of_memory ? NULL : __real_malloc(size);
}

static void fire(struct object_timer *d, struct expiry *e)
{
	fires++;
}

static const struct wq_ops no_ops;

/*
 * The QP's frames found no room, and then it may no longer send: with the time of the retry, its
 * timer would expire in each round.
 */
static void a_raw_qp_that_may_not_send_has_no_timer(void **state)
{
	static const uint8_t states[] = { IBV_QPS_SQE, IBV_QPS_SQD, IBV_QPS_ERR, IBV_QPS_RESET };
	struct vrb_context *ctx = core_env_open();
	static struct vrb_qp qp;

	vrb_qp_init(&qp, IBV_QPT_RAW_PACKET, &no_ops);
	qp.config.ctx = ctx;
	assert_int_equal(vrb_timer_add(&qp.timer, fire), 0);
	for (unsigned int i = 0; i < sizeof(states); i++) {
		qp.wq.state = states[i];
		roce_qp_init(&qp.roce, &qp.wq, NULL, 0);
		qp.peer.retry_at = PAST;
		vrb_transmit(&qp, NOW);
		assert_true(timers_next(vrb.timers) == VRB_NEVER);
	}
	assert_int_equal(fires, 0);
	timers_remove(vrb.timers, &qp.timer.timer);
	vrb_qp_fini(&qp);
	core_env_close(ctx);
}

/* The program has posted and waits: nothing else would send its request. */
static void a_qp_without_memory_retries(void **state)
{
	struct vrb_context *ctx = core_env_open();
	static struct vrb_qp qp;

	vrb_qp_init(&qp, IBV_QPT_RC, &no_ops);
	qp.config.ctx = ctx;
	assert_int_equal(vrb_timer_add(&qp.timer, fire), 0);
	out_of_memory = true;
	vrb_transmit(&qp, NOW);
	out_of_memory = false;
	assert_in_range(timers_next(vrb.timers), NOW + 1, NOW + VRB_SECOND);
	timers_remove(vrb.timers, &qp.timer.timer);
	vrb_qp_fini(&qp);
	core_env_close(ctx);
}

/* Otherwise every post of another QP would look for it. */
static void a_delayed_ack_that_a_progress_word_covers_is_over(void **state)
{
	struct vrb_context *ctx = core_env_open();
	struct vrb_rx_queue *r = vrb_main_rx_queue;
	static struct vrb_qp qp;

	vrb_qp_init(&qp, IBV_QPT_RC, &no_ops);
	qp.config.ctx = ctx;
	qp.wq.state = IBV_QPS_RTS;
	qp.peer.published = vrb_peer_publication(&qp);
	lock_acquire(&vrb.poll_lock);
	qp.sched.urgency = TX_SOON;
	vrb_tx_enqueue(r, &qp, &r->delayed);
	vrb_delayed_ack_begin(&qp, NOW);
	assert_int_equal(vrb_delayed_acks, 1);
	vrb_tx_flush(r, NOW);
	assert_int_equal(vrb_delayed_acks, 0);
	lock_release(&vrb.poll_lock);
	vrb_qp_fini(&qp);
	core_env_close(ctx);
}

static bool is_delayed(const struct vrb_rx_queue *r)
{
	return !list_empty(&r->delayed);
}

/* Until its time is over: the rest of the reply may not leave before that. */
static void an_ack_behind_a_reply_stays_delayed(void **state)
{
	struct vrb_context *ctx = core_env_open();
	struct vrb_rx_queue *r = vrb_main_rx_queue;
	uint64_t memory[(sizeof(struct send_wqe) + 7) / 8];
	static struct vrb_qp qp;

	vrb_qp_init(&qp, IBV_QPT_RC, &no_ops);
	qp.config.ctx = ctx;
	assert_int_equal(vrb_timer_add(&qp.timer, fire), 0);
	roce_qp_init(&qp.roce, &qp.wq, NULL, 0);
	qp.wq.state = IBV_QPS_SQD;	/* sends no new request */
	qp.peer.published = vrb_peer_publication(&qp);
	qp.wq.sq.ring = (struct wq_ring){ .slots = (uint8_t *)memory };
	*sq_wqe(&qp.wq.sq, qp.wq.sq.head++) = (struct send_wqe){ .opcode = IBV_WR_RDMA_WRITE };
	qp.roce.resp.ack.pending = true;
	qp.post.delayed_ack.replies = TUNE_PINGPONG_REPLIES;
	qp.sched.turn_ends = NOW + TUNE_ACK_DELAY_MAX;
	path_table_init(&vrb.paths);
	lock_acquire(&vrb.poll_lock);
	qp.sched.urgency = TX_SOON;
	vrb_tx_enqueue(r, &qp, &r->delayed);
	vrb_delayed_ack_begin(&qp, NOW);
	r->delayed_deadline = NOW;
	vrb_tx_flush(r, NOW);
	assert_true(is_delayed(r) && roce_has_ack(&qp.roce));
	assert_int_equal(r->delayed_deadline, NOW + TUNE_ACK_DELAY_MAX);
	vrb_tx_flush(r, NOW + TUNE_ACK_DELAY_MAX);
	assert_false(is_delayed(r) || roce_has_ack(&qp.roce));
	assert_int_equal(vrb_delayed_acks, 0);
	lock_release(&vrb.poll_lock);
	timers_remove(vrb.timers, &qp.timer.timer);
	path_leave(&vrb.paths, &qp.post.share);
	vrb_set_uses_wire(&qp, false);
	qp.wq.sq.ring = (struct wq_ring){ 0 };
	vrb_qp_fini(&qp);
	core_env_close(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* runs before this thread has its memory */
		cmocka_unit_test(a_qp_without_memory_retries),
		cmocka_unit_test(a_raw_qp_that_may_not_send_has_no_timer),
		cmocka_unit_test(a_delayed_ack_that_a_progress_word_covers_is_over),
		cmocka_unit_test(an_ack_behind_a_reply_stays_delayed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
