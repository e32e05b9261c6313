/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A remote responder and the process that owns its QP, which the test plays: it counts messages and
 * refuses them while its inbox is full.
 */
#include "core/xrc/remote_responder.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/rx_queues.h"
#include "core/base/state.h"
#include "core/progress/timeouts.h"
#include "core/tx/tx_sched.h"
#include "core/xrc/msg.h"
#include "roce/snapshot.h"
#include "run/clock.h"
#include "run/progress.h"
#include "run/timers.h"

enum { QPN = 0x123456, HOME = 3 };

static struct {
	bool inbox_full;
	unsigned int answers, refused;
	size_t packet;		/* length of that in the last answer */
} home;

bool xrc_peer_find(struct xrc_peer *p, int slot)
{
	*p = (struct xrc_peer){ .slot = slot, .incarnation = 1 };
	return true;
}

void xrc_peer_drop(struct xrc_peer *p)
{
}

bool xrc_peer_alive(struct xrc_peer *p, uint64_t now)
{
	return true;
}

bool xrc_peer_sent(const struct xrc_peer *p, const struct xrc_msg *m)
{
	return p->slot == m->head.slot;
}

bool xrc_peer_room(struct xrc_peer *p)
{
	return true;
}

int xrc_send(struct xrc_peer *to, struct xrc_head *head, const void *body, size_t body_len,
	     const void *state, size_t state_len, const void *packet, size_t packet_len)
{
	if (home.inbox_full) {
		home.refused++;
		return EAGAIN;
	}
	home.answers++;
	home.packet = packet_len;
	return 0;
}

void xrc_send_surely(struct xrc_peer *to, struct xrc_head *head, const void *body, size_t body_len)
{
	xrc_send(to, head, body, body_len, NULL, 0, NULL, 0);
}

bool xrc_parse(struct xrc_msg *m, const uint8_t *data, size_t len)
{
	return false;
}

static void nothing_to_take(uint64_t now, bool poller)
{
}

/* A request is a WRITE of nothing whose PSN, 5, is not the expected one: a NAK answers it. */
static void from_home(enum xrc_kind kind, uint64_t now)
{
	static const uint8_t packet[12 + 4 + 16 + ROCE_ICRC_LEN] = {
		[0] = 0xaa, [2] = 0xff, [3] = 0xff, [5] = QPN >> 16, [6] = QPN >> 8 & 0xff,
		[7] = QPN & 0xff, [8] = 0x80, [11] = 5,
	};
	static const struct xrc_config config = {
		.mtu = 1024, .max_msg = 1 << 20, .state = IBV_QPS_RTS, .max_dest_rd_atomic = 1,
		.pkey = ROCE_PKEY_DEFAULT,
	};
	static struct roce_qp engine;
	static struct wq_qp wq;
	struct xrc_msg m = { .head = { .kind = kind, .qpn = QPN, .epoch = 1, .slot = HOME } };

	if (kind == XRC_DELEGATE || kind == XRC_CONFIG) {
		m.head.body = sizeof(config);
		memcpy(m.body, &config, sizeof(config));
	}
	if (kind == XRC_DELEGATE) {
		wq.state = IBV_QPS_RTS;
		roce_qp_init(&engine, &wq, NULL, 0);
		m.head.state = roce_snapshot_take(&engine, m.state);
	}
	m.packet = packet;
	if (kind == XRC_REQUEST) {
		m.head.body = sizeof(struct xrc_request);
		m.head.packet = sizeof(packet);
	}
	vrb_responder_receive(&m, vrb_main_rx_queue, now);
	vrb_tx_flush(vrb_main_rx_queue, now);
}

static int set_up(void **state)
{
	memset(&home, 0, sizeof(home));
	lock_init(&vrb.poll_lock);
	vrb.timers = timers_new();
	return !vrb.timers || progress_new(NULL, NULL, &vrb.progress);
}

static int tear_down(void **state)
{
	vrb_responder_free_all();
	progress_free(vrb.progress);
	timers_free(vrb.timers);
	return 0;
}

static void a_reply_without_room_is_resent(void **state)
{
	uint64_t now = clock_now();

	from_home(XRC_DELEGATE, now);
	home.inbox_full = true;
	from_home(XRC_CONFIG, now);
	assert_int_equal(home.refused, 1);
	home.inbox_full = false;
	assert_false(vrb_timers_expire(now, nothing_to_take, false));
	assert_true(vrb_timers_expire(now + VRB_SECOND, nothing_to_take, false));
	assert_int_equal(home.answers, 1);
	assert_true(timers_next(vrb.timers) == VRB_NEVER);
}

/* A requester without an ack timeout would not ask for it again. */
static void an_answer_without_room_is_resent(void **state)
{
	uint64_t now = clock_now();

	from_home(XRC_DELEGATE, now);
	home.inbox_full = true;
	from_home(XRC_REQUEST, now);
	assert_int_equal(home.refused, 1);
	home.inbox_full = false;
	assert_true(vrb_timers_expire(now + VRB_SECOND, nothing_to_take, false));
	assert_int_equal(home.answers, 1);
	assert_true(home.packet > 0);
	assert_true(timers_next(vrb.timers) == VRB_NEVER);
}

/*
 * Regression: the timer of that reply was armed again and again before those of all other QPs,
 * which then sent nothing.
 */
static void a_revocation_drops_that_reply_and_its_timer(void **state)
{
	uint64_t now = clock_now();

	from_home(XRC_DELEGATE, now);
	home.inbox_full = true;
	from_home(XRC_CONFIG, now);
	assert_int_equal(home.refused, 1);
	from_home(XRC_REVOKE, now);
	vrb_timers_expire(now + VRB_SECOND, nothing_to_take, false);
	assert_true(timers_next(vrb.timers) == VRB_NEVER);
	assert_int_equal(home.refused, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_reply_without_room_is_resent, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(an_answer_without_room_is_resent, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_revocation_drops_that_reply_and_its_timer,
						set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
