/* SPDX-License-Identifier: BSD-2-Clause */
/* The initial state of each kind of QP, and the names of its type and states. */
#include "core/qp/qp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/base/ring.h"
#include "core/qp/qp_table.h"
#include "core/qp/wq_ops.h"
#include "util/compiler.h"

static void begins_in_reset_and_on_no_list(void **state)
{
	static const struct wq_ops ops;
	struct vrb_qp *qp = calloc(1, sizeof(*qp));

	assert_non_null(qp);
	vrb_qp_init(qp, IBV_QPT_XRC_RECV, &ops);
	assert_ptr_equal(qp->config.target, qp);
	assert_int_equal(qp->wq.state, IBV_QPS_RESET);
	assert_int_equal(qp->wq.type, IBV_QPT_XRC_RECV);
	assert_ptr_equal(qp->wq.ops, &ops);
	assert_true(list_empty(&qp->sched.node));
	assert_true(list_empty(&qp->dispatch.raw_node));
	assert_true(list_empty(&qp->xrc.node));
	assert_true(list_empty(&qp->xrc.open_table));
	assert_true(list_empty(&qp->xrc.handles));
	assert_int_equal(qp->peer.retry_at, VRB_NEVER);
	assert_true(qp->peer.slot < 0);
	assert_int_equal(roce_in_flight(&qp->roce), 0);
	assert_false(roce_in_message(&qp->roce));
	assert_int_equal(roce_next_timeout(&qp->roce), VRB_NEVER);
	qp->recv.rd_atomic = malloc(sizeof(*qp->recv.rd_atomic));	/* vrb_qp_fini() frees it */
	vrb_qp_fini(qp);
	free(qp);
}

static void states_and_types_have_names(void **state)
{
	assert_string_equal(vrb_qp_state_name(IBV_QPS_RESET), "RESET");
	assert_string_equal(vrb_qp_state_name(IBV_QPS_ERR), "ERR");
	assert_string_equal(vrb_qp_state_name(IBV_QPS_UNKNOWN), "?");
	assert_string_equal(vrb_qp_state_name(UINT32_MAX), "?");
	assert_string_equal(vrb_qp_type_name(IBV_QPT_UC), "UC");
	assert_string_equal(vrb_qp_type_name(IBV_QPT_XRC_SEND), "XRC_SEND");
	assert_string_equal(vrb_qp_type_name(IBV_QPT_RAW_PACKET), "RAW");
}

/* A receive that a message holds does not wait in the queue: no credit is given for it. */
static void a_held_receive_has_left_its_queue(void **state)
{
	static const struct wq_ops ops;
	struct vrb_qp *qp = calloc(1, sizeof(*qp));
	struct recv_queue *rq = &qp->wq.rq;
	enum reason why;

	assert_non_null(qp);
	vrb_qp_init(qp, IBV_QPT_RC, &ops);
	ring_shape(&rq->ring, 4, 1, sizeof(struct recv_wqe) + sizeof(struct ibv_sge));
	assert_true(ring_has_memory(&rq->ring));
	rq->head = rq->next = UINT32_MAX;
	rq->head += 2;
	assert_ptr_equal(vrb_qp_recv_take(&qp->wq, 0, NULL, &why), rq_wqe(rq, UINT32_MAX));
	assert_int_equal(rq->head - rq->next, 1);
	vrb_qp_recv_untake(&qp->wq);
	assert_int_equal(rq->head - rq->next, 2);
	for (uint32_t i = 0; i < 2; i++)
		assert_ptr_equal(vrb_qp_recv_take(&qp->wq, 0, NULL, &why),
				 rq_wqe(rq, UINT32_MAX + i));
	assert_null(vrb_qp_recv_take(&qp->wq, 0, NULL, &why));
	assert_int_equal(why, REASON_NONE);
	free(rq->ring.slots);
	vrb_qp_fini(qp);
	free(qp);
}

static void take_out(struct vrb_qp *qp, void *arg)
{
	vrb_qp_table_remove(qp);
	++*(unsigned int *)arg;
}

/* However many QP numbers a process has had: the table takes memory for the QPs that it has. */
static void an_empty_part_of_the_table_goes(void **state)
{
	const uint32_t own = 5 << VRB_QP_TABLE_BITS;
	struct vrb_qp *stays = calloc(1, sizeof(*stays)), *qp = calloc(1, sizeof(*qp));
	unsigned int leaves = 0, removed = 0;

	assert_non_null(stays);
	assert_non_null(qp);
	stays->wq.qpn = own;
	assert_int_equal(vrb_qp_table_add(stays), 0);
	for (uint32_t i = 0; i < VRB_QP_TABLE_SIZE; i++) {
		qp->wq.qpn = (i << VRB_QP_TABLE_BITS) + VRB_QP_TABLE_MASK;
		assert_int_equal(vrb_qp_table_add(qp), 0);
		assert_ptr_equal(vrb_qp_table_find(qp->wq.qpn), qp);
		assert_ptr_equal(vrb_qp_table_find(own), stays);
		vrb_qp_table_remove(qp);
		assert_null(vrb_qp_table_find(qp->wq.qpn));
	}
	for (uint32_t i = 0; i < VRB_QP_TABLE_SIZE; i++)
		leaves += vrb_qp_table[i] != NULL;
	assert_int_equal(leaves, 1);
	vrb_qp_table_for_each(take_out, &removed);
	assert_int_equal(removed, 1);
	assert_null(vrb_qp_table_find(own));
	vrb_qp_table_free();
	free(stays);
	free(qp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(begins_in_reset_and_on_no_list),
		cmocka_unit_test(states_and_types_have_names),
		cmocka_unit_test(a_held_receive_has_left_its_queue),
		cmocka_unit_test(an_empty_part_of_the_table_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
