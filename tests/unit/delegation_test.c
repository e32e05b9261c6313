/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Delegated responders: which configurations from another process are accepted, and which requests
 * wait while the home leaves.
 */
#include "core/xrc/delegation.h"

#include "core_env.h"

#include "core/qp/qp.h"
#include "core/qp/xrcd.h"
#include "core/rx/demux.h"
#include "core/xrc/msg.h"
#include "host/host.h"
#include "place.h"
#include "roce/opcode.h"
#include "roce/psn.h"

enum { PSN = 0xfffffe };	/* the first request's */

static const struct xrc_config good = {
	.mtu = 1024, .max_msg = 1 << 20, .state = IBV_QPS_RTS, .max_dest_rd_atomic = 16,
};

static void accepts_each_receiving_state(void **state)
{
	struct xrc_config c = good;

	for (unsigned int s = 0; s < 256; s++) {
		c.state = (uint8_t)s;
		assert_int_equal(vrb_delegation_config_ok(&c), wq_receives(s));
	}
}

static void accepts_standard_mtus(void **state)
{
	struct xrc_config c = good;

	for (uint32_t mtu = 0; mtu <= 2 * ROCE_MAX_MTU; mtu++) {
		bool standard = mtu == 256 || mtu == 512 || mtu == 1024 || mtu == 2048 ||
				mtu == 4096;

		c.mtu = mtu;
		assert_int_equal(vrb_delegation_config_ok(&c), standard);
	}
}

static void bounds_sizes(void **state)
{
	struct xrc_config c = good;

	c.max_msg = 0x80000000u;
	assert_true(vrb_delegation_config_ok(&c));
	c.max_msg++;
	assert_false(vrb_delegation_config_ok(&c));
	c = good;
	c.max_dest_rd_atomic = ROCE_MAX_RD_ATOMIC;
	assert_true(vrb_delegation_config_ok(&c));
	c.max_dest_rd_atomic++;
	assert_false(vrb_delegation_config_ok(&c));
}

static const struct wq_ops no_ops;
static char dir[64];
static struct vrb_context *ctx;
static struct vrb_qp *qp;
static struct host *owner;	/* another process, which owns an SRQ */
static uint32_t srqn;
static struct xrc_domain domain = { .has_inode = true };

static int set_up(void **state)
{
	place_make_dir(dir);
	ctx = core_env_open();
	assert_int_equal(host_join(dir, &vrb.host), 0);
	assert_int_equal(host_join(dir, &owner), 0);
	assert_int_equal(host_qpn_alloc(owner, 0, &srqn), 0);
	qp = calloc(1, sizeof(*qp));
	assert_non_null(qp);
	vrb_qp_init(qp, IBV_QPT_XRC_RECV, &no_ops);
	qp->config.ctx = ctx;
	qp->config.domain = &domain;
	qp->wq.state = IBV_QPS_RTS;
	qp->wq.mtu = 1024;
	qp->wq.pkey = 0xffff;
	qp->wq.rq_psn = PSN;
	qp->wq.mig_state = IBV_MIG_MIGRATED;
	roce_qp_init(&qp->roce, &qp->wq, NULL, 0);
	qp->roce.resp.epsn = PSN;
	return 0;
}

static int tear_down(void **state)
{
	vrb_delegation_free(qp);
	vrb_qp_fini(qp);
	free(qp);
	host_leave(owner);
	host_leave(vrb.host);
	vrb.host = NULL;
	core_env_close(ctx);
	place_remove_dir(dir);
	return 0;
}

/* The request i packets after the first; false: this process is to execute it. */
static bool redirect(uint8_t opcode, uint32_t i, uint32_t to)
{
	static const uint8_t data[64];
	struct roce_pkt pkt = { .bth = { .opcode = opcode, .psn = psn_add(PSN, i),
						 .pkey = 0xffff },
				.xrc_srqn = to };
	struct rx_decoded raw = { .pkt = &pkt, .data = data, .len = sizeof(data), .wire = true };

	return vrb_delegation_redirect(qp, &raw, NULL, 0);
}

/* Messages that have come to the SRQ's owner. */
static unsigned int forwarded(void)
{
	static struct host_datagram m[HOST_INBOX_BATCH];
	unsigned int n = host_inbox_recv_batch(owner, m, HOST_INBOX_BATCH);

	for (unsigned int i = 0; i < n; i++)
		assert_int_equal(m[i].kind, HOST_XRC);
	return n;
}

/*
 * While the home leaves, no message begins, but the one in progress must end, though its packets
 * are repeated, or come after the next message's.
 */
static void the_message_in_progress_ends_here(void **state)
{
	assert_false(redirect(ROCE_XRC_SEND_FIRST, 0, 0));
	qp->roce.resp.epsn = psn_add(PSN, 2);
	qp->roce.resp.msg = ROCE_MSG_SEND;
	qp->xrc.migrating = VRB_HOME_LEAVES;
	assert_false(redirect(ROCE_XRC_SEND_FIRST, 0, 0));
	assert_false(redirect(ROCE_XRC_SEND_MIDDLE, 1, 0));
	assert_true(redirect(ROCE_XRC_SEND_FIRST, 4, 0));
	assert_true(redirect(ROCE_XRC_SEND_LAST, 5, 0));
	assert_false(redirect(ROCE_XRC_SEND_MIDDLE, 2, 0));
	assert_false(redirect(ROCE_XRC_SEND_LAST, 3, 0));
	assert_true(redirect(ROCE_XRC_SEND_LAST, 5, 0));
}

static void the_message_in_progress_ends_at_the_owner(void **state)
{
	assert_true(redirect(ROCE_XRC_SEND_FIRST, 0, srqn));
	assert_int_equal(forwarded(), 2);	/* the state and the request */
	qp->xrc.migrating = VRB_HOME_LEAVES;
	assert_true(redirect(ROCE_XRC_SEND_FIRST, 0, srqn));
	assert_int_equal(forwarded(), 1);
	assert_true(redirect(ROCE_XRC_SEND_FIRST, 4, srqn));
	assert_true(redirect(ROCE_XRC_SEND_LAST, 5, srqn));
	assert_int_equal(forwarded(), 0);
	for (uint32_t i = 1; i < 4; i++) {
		assert_true(redirect(ROCE_XRC_SEND_MIDDLE, i, srqn));
		assert_int_equal(forwarded(), 1);
	}
	assert_true(redirect(ROCE_XRC_SEND_LAST, 5, srqn));
	assert_int_equal(forwarded(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(accepts_each_receiving_state),
		cmocka_unit_test(accepts_standard_mtus),
		cmocka_unit_test(bounds_sizes),
		cmocka_unit_test_setup_teardown(the_message_in_progress_ends_here, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(the_message_in_progress_ends_at_the_owner, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
