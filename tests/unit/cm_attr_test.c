/* SPDX-License-Identifier: BSD-2-Clause */
/* The QP attributes that follow from a connection. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/cm_env.h"
#include "util/compiler.h"

static struct cm_env e;

enum {
	MASK_INIT = 0x39,
	MASK_RTR = 0x129181,
	MASK_RTS = 0x12e01,
};

/* rdmacm.md 3.8, as captured: a request for 3 and 2 gets them in reverse order. */
static void attributes_of_qps(void **state)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT };
	struct cm_rep rep = env_rep();
	struct cm_conn *c;
	int mask;

	env_init(&e);
	c = env_reach(&e, CM_IDLE);
	assert_int_equal(cm_qp_attr(c, &a, &mask), 0);
	assert_true(mask == MASK_INIT && a.qp_access_flags == 0);
	a.qp_state = IBV_QPS_RTR;
	assert_int_equal(cm_qp_attr(c, &a, &mask), EINVAL);

	env_init(&e);
	c = env_reach(&e, CM_REP_RCVD);
	a.qp_state = IBV_QPS_INIT;
	assert_int_equal(cm_qp_attr(c, &a, &mask), 0);
	/* REMOTE_WRITE, _READ and _ATOMIC, FLUSH_GLOBAL and _PERSISTENT */
	assert_true(mask == MASK_INIT && a.qp_access_flags == 0x30e);
	a.qp_state = IBV_QPS_RTR;
	assert_int_equal(cm_qp_attr(c, &a, &mask), 0);
	assert_true(mask == MASK_RTR && a.dest_qp_num == PEER_QPN && a.path_mtu == 3 &&
		    a.max_dest_rd_atomic == 3);
	assert_true(a.ah_attr.is_global && a.ah_attr.grh.dgid.raw[15] == 2 &&
		    a.ah_attr.grh.hop_limit == 64);
	assert_true(a.rq_psn == c->rq_psn && a.rq_psn <= 0xffffff);
	a.qp_state = IBV_QPS_RTS;
	assert_int_equal(cm_qp_attr(c, &a, &mask), 0);
	assert_true(mask == MASK_RTS && a.sq_psn == 0x654321 && a.retry_cnt == 7 &&
		    a.rnr_retry == 5);
	assert_true(a.timeout == 19 && a.max_rd_atomic == 2);

	env_init(&e);
	c = env_reach(&e, CM_REQ_RCVD);
	a.qp_state = IBV_QPS_RTR;
	assert_int_equal(cm_qp_attr(c, &a, &mask), 0);
	assert_true(mask == MASK_RTR && a.dest_qp_num == PEER_QPN && a.max_dest_rd_atomic == 2);
	rep.responder_resources = 1;
	rep.initiator_depth = 1;
	cm_accept(&e.cm, c, &rep, 0, e.now);
	assert_true(e.sent[0].rep.psn == a.rq_psn);
	assert_int_equal(cm_qp_attr(c, &a, &mask), 0);
	assert_int_equal(a.max_dest_rd_atomic, 1);
	a.qp_state = IBV_QPS_RTS;
	assert_int_equal(cm_qp_attr(c, &a, &mask), 0);
	assert_true(mask == MASK_RTS && a.sq_psn == 0x654321 && a.retry_cnt == 7 &&
		    a.rnr_retry == 6);
	assert_true(a.timeout == 19 && a.max_rd_atomic == 1);
	a.qp_state = IBV_QPS_SQD;
	assert_int_equal(cm_qp_attr(c, &a, &mask), EINVAL);
}

static void attributes_by_transport(void **state)
{
	struct ibv_qp_attr a = { 0 };
	struct cm_msg m = env_msg(CM_REQ);
	int mask;

	env_init(&e);
	m.req.transport = CM_UC;
	env_receive(&e, &m);
	a.qp_state = IBV_QPS_RTR;
	cm_qp_attr(&e.conn[0], &a, &mask);
	assert_int_equal(mask, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN);
	a.qp_state = IBV_QPS_RTS;
	cm_qp_attr(&e.conn[0], &a, &mask);
	assert_int_equal(mask, IBV_QP_STATE | IBV_QP_SQ_PSN);

	env_init(&e);
	m.req.transport = CM_EXTENDED;
	m.req.ext_transport = CM_EXT_XRC;
	env_receive(&e, &m);
	a.qp_state = IBV_QPS_RTR;
	cm_qp_attr(&e.conn[0], &a, &mask);
	assert_int_equal(mask, MASK_RTR);
	a.qp_state = IBV_QPS_RTS;
	cm_qp_attr(&e.conn[0], &a, &mask);
	assert_int_equal(mask, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT);
}

/* IBTA 12.7.34, with the pairs known from Linux. */
static void ack_timeouts(void **state)
{
	static const uint8_t known[][3] = { { 15, 18, 19 }, { 15, 16, 17 }, { 15, 14, 16 },
					    { 20, 18, 21 }, { 20, 10, 20 }, { 0, 31, 31 } };

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		assert_int_equal(cm_ack_timeout(known[i][0], known[i][1]), known[i][2]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(attributes_of_qps),
		cmocka_unit_test(attributes_by_transport),
		cmocka_unit_test(ack_timeouts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
