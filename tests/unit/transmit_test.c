/* SPDX-License-Identifier: BSD-2-Clause */
/* Which timer a QP has after it was its turn to transmit. */
#include "core/tx/transmit.h"

#include "core_env.h"

#include "core/base/object_timer.h"
#include "core/qp/qp.h"

enum { PAST = 1000, NOW = 5000 };

static unsigned int fires;

static void fire(struct object_timer *d, struct expiry *e)
{
	fires++;
}

static const struct wq_ops no_ops;

/*
 * Its frames found no room. Then no frame may leave any more: with the time of that retry, its
 * timer would be due in each round.
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_raw_qp_that_may_not_send_has_no_timer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
