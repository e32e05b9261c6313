/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fault tables: every reason that a responder can detect has the row that IBTA vol 1, 9.9.3
 * specifies for its class.
 */
#include "roce/faults.h"

#include "roce_env.h"

static void responder_rows(void **state)
{
	static const struct {
		enum reason why;
		uint8_t nak;
		enum ibv_wc_status status;
		enum ibv_event_type event;
		enum roce_fault_action uc;
		bool ud_drops;	/* although UC does not */
	} rows[] = {
		{ REASON_REQ_OPCODE, 1, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR,
		  ROCE_FAULT_DROP },
		{ REASON_REQ_LENGTH, 1, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR,
		  ROCE_FAULT_DROP },
		{ REASON_QP_ACCESS, 1, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR,
		  ROCE_FAULT_DROP },
		{ REASON_REQ_RD_ATOMIC, 1, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR,
		  ROCE_FAULT_DROP },
		{ REASON_REQ_ATOMIC_ALIGN, 1, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR,
		  ROCE_FAULT_DROP },
		{ REASON_REQ_XRC_SRQ, 1, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR,
		  ROCE_FAULT_DROP },
		{ REASON_RKEY_UNKNOWN, 2, IBV_WC_LOC_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR,
		  ROCE_FAULT_DROP },
		{ REASON_RKEY_PD, 2, IBV_WC_LOC_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR,
		  ROCE_FAULT_DROP },
		{ REASON_RKEY_RANGE, 2, IBV_WC_LOC_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR,
		  ROCE_FAULT_DROP },
		{ REASON_RKEY_ACCESS, 2, IBV_WC_LOC_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR,
		  ROCE_FAULT_DROP },
		{ REASON_RKEY_UNMAPPED, 2, IBV_WC_LOC_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR,
		  ROCE_FAULT_DROP },
		{ REASON_RKEY_WINDOW_QP, 2, IBV_WC_LOC_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR,
		  ROCE_FAULT_DROP },
		{ REASON_REQ_RECV_SMALL, 1, IBV_WC_LOC_LEN_ERR, IBV_EVENT_QP_REQ_ERR,
		  ROCE_FAULT_COMPLETE, true },
		{ REASON_RECV_TOO_SMALL, 1, IBV_WC_LOC_LEN_ERR, IBV_EVENT_QP_REQ_ERR,
		  ROCE_FAULT_COMPLETE, true },
		{ REASON_RECV_LOCAL, 3, IBV_WC_LOC_PROT_ERR, IBV_EVENT_QP_FATAL,
		  ROCE_FAULT_COMPLETE },
		{ REASON_LKEY_ACCESS, 3, IBV_WC_LOC_PROT_ERR, IBV_EVENT_QP_FATAL,
		  ROCE_FAULT_COMPLETE },
		{ REASON_REQ_INVALIDATE, 0, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR,
		  ROCE_FAULT_COMPLETE },
		{ REASON_CQ_OVERRUN, 3, IBV_WC_LOC_QP_OP_ERR, IBV_EVENT_QP_FATAL,
		  ROCE_FAULT_COMPLETE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct roce_fault *f = roce_fault(rows[i].why);

		assert_int_equal(f->nak, rows[i].nak);
		assert_int_equal(f->status, rows[i].status);
		assert_int_equal(f->event, rows[i].event);
		assert_int_equal(f->action[ROCE_FAULT_RC],
				 rows[i].nak ? ROCE_FAULT_NAK : ROCE_FAULT_ACK);
		assert_int_equal(f->action[ROCE_FAULT_UC], rows[i].uc);
		assert_int_equal(f->action[ROCE_FAULT_UD],
				 rows[i].ud_drops ? ROCE_FAULT_DROP : rows[i].uc);
	}
}

static void columns_by_type(void **state)
{
	assert_int_equal(roce_fault_column(IBV_QPT_RC), ROCE_FAULT_RC);
	assert_int_equal(roce_fault_column(IBV_QPT_XRC_SEND), ROCE_FAULT_RC);
	assert_int_equal(roce_fault_column(IBV_QPT_XRC_RECV), ROCE_FAULT_RC);
	assert_int_equal(roce_fault_column(IBV_QPT_UC), ROCE_FAULT_UC);
	assert_int_equal(roce_fault_column(IBV_QPT_UD), ROCE_FAULT_UD);
}

static void requester_rows(void **state)
{
	static const struct {
		enum reason why;
		enum ibv_wc_status status;
	} rows[] = {
		{ REASON_LKEY_UNKNOWN, IBV_WC_LOC_PROT_ERR },
		{ REASON_LKEY_PD, IBV_WC_LOC_PROT_ERR },
		{ REASON_LKEY_RANGE, IBV_WC_LOC_PROT_ERR },
		{ REASON_LKEY_ACCESS, IBV_WC_LOC_PROT_ERR },
		{ REASON_LKEY_UNMAPPED, IBV_WC_LOC_PROT_ERR },
		{ REASON_WR_TOO_LONG, IBV_WC_LOC_LEN_ERR },
		{ REASON_WR_MTU, IBV_WC_LOC_LEN_ERR },
		{ REASON_WR_MW_BIND, IBV_WC_MW_BIND_ERR },
		{ REASON_WR_INVALIDATE, IBV_WC_MW_BIND_ERR },
		{ REASON_WR_OPCODE, IBV_WC_LOC_QP_OP_ERR },
		{ REASON_WR_BAD_AH, IBV_WC_LOC_QP_OP_ERR },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(roce_local_status(rows[i].why), rows[i].status);
}

static void nak_codes(void **state)
{
	assert_null(roce_nak_result(ROCE_NAK_PSN_SEQUENCE_ERROR));
	assert_int_equal(roce_nak_result(ROCE_NAK_INVALID_REQUEST)->status, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(roce_nak_result(ROCE_NAK_INVALID_RD_REQUEST)->status,
			 IBV_WC_REM_INV_RD_REQ_ERR);
	for (uint8_t code = 5; code < 32; code++)
		assert_null(roce_nak_result(code));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(responder_rows),
		cmocka_unit_test(columns_by_type),
		cmocka_unit_test(requester_rows),
		cmocka_unit_test(nak_codes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
