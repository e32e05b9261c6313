/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ring of a completion queue against a plain list, with random additions, polls, purges and
 * resizes; the send slots that polling releases; and events for entries left in it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "core/base/context.h"
#include "core/base/state.h"
#include "core/cq/async_event.h"
#include "core/cq/comp_channel.h"
#include "core/cq/cq.h"
#include "core/cq/round.h"
#include "core/qp/qp.h"
#include "random.h"
#include "run/clock.h"
#include "run/progress.h"
#include "run/timers.h"

enum {
	QPS = 3,
	MOST = 256,
	STEPS = 20000,
};

static struct vrb_context *ctx;
static struct vrb_qp *qps[QPS];

static uint64_t no_deadline(void *arg)
{
	return VRB_NEVER;
}

static const struct progress_ops idle = { .deadline = no_deadline };

static int set_up(void **state)
{
	ctx = calloc(1, sizeof(*ctx));
	pthread_mutex_init(&ctx->lock, NULL);
	list_init(&ctx->cqs);
	ctx->vctx.context.num_comp_vectors = 1;
	assert_int_equal(vrb_event_queue_init(&ctx->events), 0);
	vrb.timers = timers_new();
	assert_int_equal(progress_new(&idle, NULL, &vrb.progress), 0);
	for (int i = 0; i < QPS; i++) {
		qps[i] = calloc(1, sizeof(*qps[i]));
		qps[i]->wq.qpn = 100 + i;
	}
	return 0;
}

static int tear_down(void **state)
{
	for (int i = 0; i < QPS; i++)
		free(qps[i]);
	progress_free(vrb.progress);
	timers_free(vrb.timers);
	vrb_event_forget(ctx, NULL);
	vrb_event_queue_destroy(&ctx->events);
	free(ctx);
	return 0;
}

static struct vrb_cq *make(uint32_t cqe)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = cqe };
	struct vrb_cq *cq;

	assert_int_equal(vrb_cq_create(ctx, &attr, false, NULL, &cq), 0);
	return cq;
}

static void test_rounding(void **state)
{
	for (uint32_t n = 1; n < 70; n++) {
		struct vrb_cq *cq = make(n);

		assert_true((uint32_t)cq->ibv.cqe >= n);
		assert_int_equal(cq->ibv.cqe, cq->mask + 1);
		assert_int_equal(vrb_cq_destroy(cq), 0);
	}
}

/* The model: completions in order, by QP and number. */
struct model {
	unsigned int n;
	struct {
		unsigned int qp;
		uint64_t wr_id;
	} entry[MOST];
};

static void complete(struct vrb_cq *cq, struct vrb_qp *qp, const struct wq_cqe *wc, uint64_t now)
{
	vrb_cq_add(cq, qp, wc->recv ? &qp->wq.rq.released : &qp->wq.sq.released, qp->wq.qpn, wc,
		   now);
}

static void add(struct vrb_cq *cq, struct model *m, unsigned int qp, uint64_t wr_id)
{
	struct wq_cqe wc = { .wr_id = wr_id, .release = (uint32_t)wr_id };

	complete(cq, qps[qp], &wc, 0);
	m->entry[m->n].qp = qp;
	m->entry[m->n++].wr_id = wr_id;
}

static void take(struct vrb_cq *cq, struct model *m)
{
	struct vrb_cqe cqe;

	assert_int_equal(vrb_cq_take(cq, &cqe), m->n > 0);
	if (!m->n)
		return;
	assert_int_equal(cqe.wc.wr_id, m->entry[0].wr_id);
	assert_int_equal(cqe.wc.qp_num, 100 + m->entry[0].qp);
	assert_int_equal(qps[m->entry[0].qp]->wq.sq.released, (uint32_t)m->entry[0].wr_id);
	memmove(m->entry, m->entry + 1, --m->n * sizeof(m->entry[0]));
}

static void purge(struct vrb_cq *cq, struct model *m, unsigned int qp)
{
	unsigned int kept = 0;

	vrb_cq_purge(cq, qps[qp]);
	for (unsigned int i = 0; i < m->n; i++)
		if (m->entry[i].qp != qp)
			m->entry[kept++] = m->entry[i];
	m->n = kept;
}

static void resize(struct vrb_cq *cq, const struct model *m, uint32_t size)
{
	uint32_t before = cq->ibv.cqe, head = cq->head, rounded = 1;

	while (rounded <= size)
		rounded <<= 1;
	assert_int_equal(vrb_cq_resize(cq, size) == 0, m->n <= rounded);
	assert_int_equal(cq->head, head); /* verbena ps shows it: completions so far */
	if (m->n > rounded)
		assert_int_equal(cq->ibv.cqe, before);
}

static void test_against_model(void **state)
{
	struct vrb_cq *cq = make(8);
	struct model m = { 0 };

	random_start();
	cq->head = cq->shown = cq->tail = UINT32_MAX - random_below(STEPS / 2);
	for (uint64_t step = 0; step < STEPS; step++) {
		unsigned int dice = random_below(100);

		if (dice < 50 && m.n < (unsigned int)cq->ibv.cqe)
			add(cq, &m, random_below(QPS), step);
		else if (dice < 96)
			take(cq, &m);
		else if (dice < 98)
			purge(cq, &m, random_below(QPS));
		else
			resize(cq, &m, 1 + random_below(MOST));
		assert_int_equal(cq->head - cq->tail, m.n);
	}
	assert_int_equal(vrb_cq_destroy(cq), 0);
}

/*
 * Receives that complete in a round become visible at its end, together with the entries after
 * them, unless they are acknowledged already; sends on a CQ without receives become visible at
 * once. Entries purged or moved to another ring in between keep their order.
 */
static void test_rounds(void **state)
{
	struct wq_cqe sent = { .wr_id = 1 }, received = { .wr_id = 2, .recv = true };
	struct vrb_round outer = { .now = 1 }, inner;
	struct vrb_cq *cq = make(8), *sends = make(8);
	struct vrb_cqe cqe;

	complete(cq, qps[0], &sent, 0);
	vrb_round_begin(&inner, 1);
	complete(sends, qps[0], &sent, 1);
	assert_true(vrb_cq_take(sends, &cqe));
	complete(cq, qps[1], &received, 1);
	complete(cq, qps[0], &sent, 1);
	complete(cq, qps[2], &received, 1);
	assert_int_equal(cqe.wc.wr_id, 1);
	received.acked = true;
	complete(sends, qps[1], &received, 1);
	complete(cq, qps[1], &received, 1);
	received.acked = false;
	assert_true(vrb_cq_take(sends, &cqe));
	assert_true(vrb_cq_take(cq, &cqe));	/* the entries from before */
	assert_false(vrb_cq_take(cq, &cqe));
	assert_int_equal(vrb_cq_resize(cq, 16), 0);
	vrb_cq_purge(cq, qps[1]);
	assert_false(vrb_cq_take(cq, &cqe));
	vrb_round_end(&inner);
	assert_true(vrb_cq_take(cq, &cqe));
	assert_int_equal(cqe.wc.qp_num, 100);
	assert_true(vrb_cq_take(cq, &cqe));
	assert_int_equal(cqe.wc.qp_num, 102);
	assert_false(vrb_cq_take(cq, &cqe));

	/*
	 * Two rounds at once, as of two RX queues: the end of the later one makes the entries
	 * visible.
	 */
	vrb_round_begin(&outer, 2);
	complete(cq, qps[0], &received, 2);
	vrb_round = NULL;
	vrb_round_begin(&inner, 2);
	complete(cq, qps[0], &received, 2);
	vrb_round_end(&inner);
	assert_false(vrb_cq_take(cq, &cqe));
	vrb_round_end(&outer);
	assert_true(vrb_cq_take(cq, &cqe));
	assert_true(vrb_cq_take(cq, &cqe));
	assert_int_equal(vrb_cq_destroy(cq), 0);
	assert_int_equal(vrb_cq_destroy(sends), 0);
}

static void test_index_wrap(void **state)
{
	struct vrb_cq *cq = make(4);
	struct model m = { 0 };

	cq->head = cq->tail = UINT32_MAX - 5;
	for (uint64_t i = 0; i < 20; i++) {
		add(cq, &m, i % QPS, i);
		add(cq, &m, i % QPS, i + 100);
		take(cq, &m);
		take(cq, &m);
	}
	assert_int_equal(vrb_cq_destroy(cq), 0);
}

/*
 * The clock of the poll loop may be older than the request that completes: a timestamp is the time
 * of the completion, or that of a raw packet; it never decreases.
 */
static void test_timestamps(void **state)
{
	struct vrb_cq *cq = make(8);
	struct wq_cqe late = { .wr_id = 1 }, raw = { .wr_id = 2, .timed = true };
	uint64_t before = clock_now(), first;
	struct vrb_cqe cqe;

	complete(cq, qps[0], &late, before);
	assert_true(vrb_cq_take(cq, &cqe));
	assert_int_equal(cqe.time_ns, 0);	/* not asked for */
	cq->wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
	complete(cq, qps[0], &raw, 5);
	complete(cq, qps[0], &late, 6);
	complete(cq, qps[0], &raw, 7);
	assert_true(vrb_cq_take(cq, &cqe));
	assert_int_equal(cqe.time_ns, 5);
	assert_true(vrb_cq_take(cq, &cqe));
	assert_true(cqe.time_ns >= before && cqe.time_ns <= clock_now());
	first = cqe.time_ns;
	assert_true(vrb_cq_take(cq, &cqe));
	assert_int_equal(cqe.time_ns, first);
	assert_int_equal(vrb_cq_destroy(cq), 0);
}

static void test_overrun_is_reported_once(void **state)
{
	struct vrb_cq *cq = make(1);
	struct model m = { 0 };
	struct wq_cqe wc = { 0 };

	add(cq, &m, 0, 1);
	add(cq, &m, 0, 2);
	assert_false(cq->overrun);
	complete(cq, qps[0], &wc, 0);
	assert_true(cq->overrun);
	assert_true(vrb_cq_timeout(cq, 0));
	assert_false(vrb_cq_timeout(cq, 0));
	take(cq, &m);
	complete(cq, qps[0], &wc, 0);	/* the CQ accepts no more entries */
	take(cq, &m);
	take(cq, &m);
	assert_int_equal(vrb_cq_destroy(cq), 0);
}

static struct vrb_cq *make_armed(struct vrb_channel **ch)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 8 };
	struct vrb_cq *cq;

	assert_int_equal(vrb_channel_create(ctx, ch), 0);
	attr.channel = &(*ch)->ibv;
	assert_int_equal(vrb_cq_create(ctx, &attr, false, NULL, &cq), 0);
	vrb_cq_arm_only(cq, false);
	return cq;
}

/*
 * A CQ armed beside entries that an event has announced raises another after a while, once, but
 * not if they were polled.
 */
static void test_left_in_an_armed_cq(void **state)
{
	struct vrb_channel *ch;
	struct vrb_cq *cq = make_armed(&ch);
	struct model m = { 0 };
	uint64_t late;

	for (int i = 0; i < 3; i++)
		add(cq, &m, 0, i);
	assert_int_equal(cq->event_pending, 1);
	vrb_cq_arm_only(cq, false);	/* for what came after the event */
	assert_int_equal(cq->event_pending, 2);
	take(cq, &m);
	vrb_cq_arm_only(cq, false);
	vrb_cq_timeout(cq, 0);
	assert_int_equal(cq->event_pending, 2);
	late = clock_now() + 1000000 * VRB_MSEC;
	vrb_cq_timeout(cq, late);
	vrb_cq_timeout(cq, late);
	assert_int_equal(cq->event_pending, 3);
	/* polled empty meanwhile */
	vrb_cq_arm_only(cq, false);
	take(cq, &m);
	take(cq, &m);
	vrb_cq_timeout(cq, late);
	assert_int_equal(cq->event_pending, 3);
	add(cq, &m, 0, 9);
	assert_int_equal(cq->event_pending, 4);
	take(cq, &m);
	/* only solicited ones */
	vrb_cq_arm_only(cq, true);
	add(cq, &m, 0, 10);
	vrb_cq_arm_only(cq, true);
	vrb_cq_timeout(cq, late);
	assert_int_equal(cq->event_pending, 4);
	take(cq, &m);
	assert_int_equal(vrb_cq_destroy(cq), 0);
	assert_int_equal(vrb_channel_destroy(ch), 0);
}

/*
 * A program that was preempted between arming and its first poll after the event gets no second
 * event; if it leaves entries then, they are found, though the timer has fired before.
 */
static void test_preempted_before_its_poll(void **state)
{
	struct vrb_channel *ch;
	struct vrb_cq *cq = make_armed(&ch);
	struct model m = { 0 };
	uint64_t now;

	for (int i = 0; i < 2; i++)
		add(cq, &m, 0, i);
	take(cq, &m);
	vrb_cq_arm_only(cq, false);	/* for the second one */
	assert_int_equal(cq->event_pending, 2);
	vrb_cq_arm_only(cq, false);
	now = clock_now();
	for (int i = 0; i < 10; i++) {
		now = max(now, cq->left_due);
		assert_int_not_equal(now, VRB_NEVER);
		vrb_cq_timeout(cq, now);
		assert_int_equal(cq->event_pending, 2);
	}
	/* less and less often, but four times a second */
	assert_true(now - cq->left_since > 500 * VRB_MSEC);
	assert_int_equal(cq->left_due - now, 256 * VRB_MSEC);
	add(cq, &m, 0, 2);
	assert_int_equal(cq->event_pending, 3);
	take(cq, &m);
	vrb_cq_arm_only(cq, false);
	vrb_cq_timeout(cq, cq->left_due);
	assert_int_equal(cq->event_pending, 4);
	take(cq, &m);
	assert_int_equal(vrb_cq_destroy(cq), 0);
	assert_int_equal(vrb_channel_destroy(ch), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rounding),
		cmocka_unit_test(test_against_model),
		cmocka_unit_test(test_rounds),
		cmocka_unit_test(test_index_wrap),
		cmocka_unit_test(test_timestamps),
		cmocka_unit_test(test_overrun_is_reported_once),
		cmocka_unit_test(test_left_in_an_armed_cq),
		cmocka_unit_test(test_preempted_before_its_poll),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
