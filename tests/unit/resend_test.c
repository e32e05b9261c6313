/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages between the processes of an XRC domain that must be sent exactly once, while the other
 * process has no room. The test plays the other process: it records received messages in order and
 * controls its room.
 */
#include "core/xrc/resend.h"

#include "core_env.h"

#include <errno.h>
#include <string.h>

#include "core/base/object_timer.h"
#include "core/base/rx_queues.h"
#include "core/base/xrc_ops.h"
#include "core/qp/qp.h"
#include "core/qp/xrcd.h"
#include "core/rx/demux.h"
#include "core/xrc/delegation.h"
#include "core/xrc/dispatch.h"
#include "core/xrc/msg.h"
#include "core/xrc/open_table.h"
#include "core/xrc/rpc.h"
#include "host/host.h"
#include "place.h"
#include "roce/opcode.h"
#include "run/clock.h"

enum { QPN = 0x123456, PEER = 5, OTHER_PEER = 6, ARRIVED_MAX = 64 };

static struct {
	unsigned int room;		/* number of messages that fit */
	bool dead;
	unsigned int n;
	struct xrc_head arrived[ARRIVED_MAX];
} other;

bool xrc_peer_find(struct xrc_peer *p, int slot)
{
	*p = (struct xrc_peer){ .slot = slot, .incarnation = 1 };
	return !other.dead;
}

void xrc_peer_drop(struct xrc_peer *p)
{
	*p = (struct xrc_peer){ .slot = HOST_NO_SLOT };
}

bool xrc_peer_alive(struct xrc_peer *p, uint64_t now)
{
	return !other.dead;
}

bool xrc_peer_sent(const struct xrc_peer *p, const struct xrc_msg *m)
{
	return true;
}

bool xrc_peer_room(struct xrc_peer *p)
{
	return true;
}

int xrc_send_once(struct xrc_peer *to, struct xrc_head *head, const void *body, size_t body_len,
		  const void *state, size_t state_len, const void *packet, size_t packet_len)
{
	if (other.dead)
		return ENOENT;
	if (!other.room)
		return EAGAIN;
	other.room--;
	assert_in_range(other.n, 0, ARRIVED_MAX - 1);
	other.arrived[other.n++] = *head;
	return 0;
}

/* The test's messages are in order. */
bool xrc_parse(struct xrc_msg *m, const uint8_t *data, size_t len)
{
	assert_int_equal(len, sizeof(*m));
	memcpy(m, data, sizeof(*m));
	return true;
}

static char dir[64];
static struct vrb_context *ctx;

static int set_up(void **state)
{
	memset(&other, 0, sizeof(other));
	place_make_dir(dir);
	ctx = core_env_open();
	assert_int_equal(host_join(dir, &vrb.host), 0);
	return 0;
}

static int tear_down(void **state)
{
	vrb_xrc_resend_stop();
	host_leave(vrb.host);
	core_env_close(ctx);
	place_remove_dir(dir);
	return 0;
}

static void send_message(int slot, uint32_t seq)
{
	struct xrc_peer to = { .slot = slot, .incarnation = 1 };
	struct xrc_head head = { .kind = XRC_NOTIFY, .seq = seq };

	xrc_send_surely(&to, &head, &seq, sizeof(seq));
}

static int answer(int slot)
{
	struct xrc_peer to = { .slot = slot, .incarnation = 1 };
	struct xrc_head head = { .kind = XRC_ANSWER };

	return xrc_send(&to, &head, NULL, 0, NULL, 0, NULL, 0);
}

/* one minute after the last message */
static void timer_expires(void)
{
	static uint64_t minutes;
	struct expiry e = { .now = clock_now() + ++minutes * 60 * VRB_SECOND };
	struct timer *t = timers_pop(vrb.timers, e.now);
	struct object_timer *d;

	assert_non_null(t);
	d = container_of(t, struct object_timer, timer);
	lock_acquire(&vrb.poll_lock);
	d->expire(d, &e);
	lock_release(&vrb.poll_lock);
}

static void expect_last(enum xrc_kind kind, uint32_t seq)
{
	assert_int_equal(other.arrived[other.n - 1].kind, kind);
	assert_int_equal(other.arrived[other.n - 1].seq, seq);
}

static void arrives_in_order_once_there_is_room(void **state)
{
	for (uint32_t i = 1; i <= 4; i++)
		send_message(PEER, i);
	timer_expires();
	assert_int_equal(other.n, 0);
	other.room = 3;
	timer_expires();
	other.room = 3;
	send_message(PEER, 5);
	assert_int_equal(other.n, 5);
	for (uint32_t i = 0; i < other.n; i++)
		assert_int_equal(other.arrived[i].seq, i + 1);
}

static void messages_to_one_process_stay_in_order(void **state)
{
	send_message(PEER, 1);
	other.room = 1;
	assert_int_equal(answer(OTHER_PEER), 0);
	assert_int_equal(answer(PEER), EAGAIN);
	other.room = 2;
	assert_int_equal(answer(PEER), 0);
	assert_int_equal(other.n, 3);
	assert_int_equal(other.arrived[1].kind, XRC_NOTIFY);
	assert_int_equal(other.arrived[2].kind, XRC_ANSWER);
}

static void messages_to_the_dead_end(void **state)
{
	send_message(PEER, 1);
	other.dead = true;
	timer_expires();
	assert_true(timers_next(vrb.timers) == VRB_NEVER);
	other.dead = false;
	other.room = 2;
	assert_int_equal(answer(PEER), 0);
	assert_int_equal(other.n, 1);
}

/* Otherwise the caller would wait five seconds, and its call would fail. */
static void a_reply_without_room_is_resent(void **state)
{
	static struct xrc_msg m;

	m = (struct xrc_msg){ .head = { .kind = XRC_RPC, .qpn = QPN, .epoch = XRC_CALL_QUERY,
					.seq = 77, .slot = PEER } };
	vrb_xrc_ops.message((const uint8_t *)&m, sizeof(m), vrb_main_rx_queue, clock_now());
	other.room = 1;
	timer_expires();
	assert_int_equal(other.n, 1);
	expect_last(XRC_REPLY, 77);
}

static const struct wq_ops no_ops;
static struct xrc_domain domain;

static void make_qp(struct vrb_qp *qp)
{
	vrb_qp_init(qp, IBV_QPT_XRC_RECV, &no_ops);
	domain = (struct xrc_domain){ .has_inode = true };
	list_init(&domain.qps);
	qp->config.ctx = ctx;
	qp->config.domain = &domain;
	qp->wq.qpn = QPN;
	qp->wq.mtu = qp->wq.path_mtu = 1024;
	qp->wq.state = IBV_QPS_RTR;
	qp->wq.pkey = ROCE_PKEY_DEFAULT;
	roce_qp_moved(&qp->roce, IBV_QPS_INIT);
}

/* A request to an SRQ whose process has room for the delegation and the request. */
static void delegate(struct vrb_qp *qp, uint32_t srqn)
{
	struct roce_pkt pkt = { .bth = { .opcode = 0xa4, .dest_qpn = QPN,
					 .pkey = ROCE_PKEY_DEFAULT }, .xrc_srqn = srqn };
	uint8_t data[64] = { 0 };
	struct rx_decoded raw = { &pkt, data, sizeof(data) };

	other.room = 2;
	lock_acquire(&qp->lock);
	assert_true(vrb_delegation_redirect(qp, &raw, vrb_main_rx_queue, clock_now()));
	lock_release(&qp->lock);
	assert_int_equal(other.n, 2);
	assert_int_equal(other.arrived[0].kind, XRC_DELEGATE);
	expect_last(XRC_REQUEST, 1);
}

/* Otherwise the responder would hold a receive of the SRQ for as long as this process lives. */
static void a_revocation_without_room_is_resent(void **state)
{
	struct host *owner;
	struct vrb_qp qp = { 0 };
	uint32_t srqn;

	assert_int_equal(host_join(dir, &owner), 0);
	assert_int_equal(host_qpn_alloc(owner, 0, &srqn), 0);
	make_qp(&qp);
	delegate(&qp, srqn);
	lock_acquire(&qp.lock);
	qp.wq.state = IBV_QPS_ERR;
	vrb_delegation_modified(&qp);
	lock_release(&qp.lock);
	assert_int_equal(other.n, 2);
	other.room = 1;
	timer_expires();
	assert_int_equal(other.n, 3);
	expect_last(XRC_REVOKE, IBV_QPS_ERR);
	vrb_delegation_free(&qp);
	vrb_qp_fini(&qp);
	host_leave(owner);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(arrives_in_order_once_there_is_room, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(messages_to_one_process_stay_in_order, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(messages_to_the_dead_end, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_reply_without_room_is_resent, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_revocation_without_room_is_resent,
						set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
