/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames that the flow rules deliver to a raw packet QP. */
#include "core/raw/raw_port.h"

#include "core_env.h"

#include <limits.h>
#include <string.h>

#include "core/base/ring.h"
#include "core/cq/cq.h"
#include "core/mem/mr.h"
#include "core/mem/pd.h"
#include "core/qp/qp.h"
#include "core/raw/raw_tx.h"

enum {
	DEPTH = 4,
	TAG = 0x6123,
	FLOW_TAG = 0xabc,
	FRAME = 60,
};

static struct vrb_context *ctx;
static struct vrb_pd *pd;
static struct vrb_cq *cq;
static struct vrb_mr *mr;
static struct vrb_qp *qp;
static uint8_t memory[128];
static uint8_t frame[FRAME] = {
	1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x81, 0x00, TAG >> 8, TAG & 0xff
};

static void no_requests(struct vrb_pd *of, uint32_t lkey)
{
}

static void no_copies(struct vrb_pd *of)
{
}

static const struct vrb_mr_waits no_waits = { no_requests, no_copies };

static int set_up(void **state)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = DEPTH };
	struct wq_ring *ring;

	for (int i = 16; i < FRAME; i++)
		frame[i] = (uint8_t)i;
	memset(memory, 0, sizeof(memory));
	ctx = core_env_open();
	assert_int_equal(vrb_pd_alloc(ctx, &pd), 0);
	assert_int_equal(vrb_cq_create(ctx, &attr, false, NULL, &cq), 0);
	assert_int_equal(vrb_mr_reg(pd, memory, sizeof(memory), (uintptr_t)memory,
				    IBV_ACCESS_LOCAL_WRITE, &mr), 0);
	qp = calloc(1, sizeof(*qp));
	assert_non_null(qp);
	vrb_qp_init(qp, IBV_QPT_RAW_PACKET, &vrb_raw_ops);
	qp->config.ctx = ctx;
	qp->config.recv_cq = cq;
	qp->wq.pdn = qp->wq.recv_pdn = pd->pdn;
	qp->wq.state = IBV_QPS_RTR;
	ring = &qp->wq.rq.ring;
	ring_shape(ring, DEPTH, 1, recv_stride(1));
	assert_true(ring_has_memory(ring));
	return 0;
}

static int tear_down(void **state)
{
	vrb_cq_purge(cq, qp);
	vrb_qp_fini(qp);
	free(qp->wq.rq.ring.slots);
	free(qp);
	assert_int_equal(vrb_mr_dereg(mr, &no_waits), 0);
	assert_int_equal(vrb_cq_destroy(cq), 0);
	assert_int_equal(vrb_pd_dealloc(pd), 0);
	core_env_close(ctx);
	return 0;
}

static void post(uint64_t wr_id, uint32_t length)
{
	struct recv_wqe *w = rq_wqe(&qp->wq.rq, qp->wq.rq.head++);

	*w = (struct recv_wqe){ .wr_id = wr_id, .num_sge = 1, .length = length };
	w->sge[0] = (struct ibv_sge){ (uintptr_t)memory, length, mr->ibv.lkey };
}

static void deliver(void)
{
	const struct raw_frame f = { .data = frame, .len = FRAME };

	vrb_raw_deliver(qp, &f, FLOW_TAG);
}

static struct wq_cqe completion(void)
{
	struct vrb_cqe cqe;

	assert_true(vrb_cq_take(cq, &cqe));
	return cqe.wc;
}

static uint64_t dropped(void)
{
	return roce_qp_counters(&qp->roce)->dropped_pkts;
}

static void a_frame_consumes_the_next_receive(void **state)
{
	struct wq_cqe wc;

	post(7, sizeof(memory));
	post(8, sizeof(memory));
	assert_int_equal(vrb_raw_posted(qp), 2);
	deliver();
	wc = completion();
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, FRAME);
	assert_int_equal(wc.flow_tag, FLOW_TAG);
	assert_memory_equal(memory, frame, FRAME);
	assert_int_equal(vrb_raw_posted(qp), 1);
}

static void without_a_receive_a_frame_is_dropped_and_counted(void **state)
{
	deliver();
	assert_true(vrb_cq_looks_empty(cq));
	assert_int_equal(dropped(), 1);
	assert_int_equal(roce_qp_counters(&qp->roce)->out_of_buffer, 1);
}

static void before_init_a_frame_is_dropped(void **state)
{
	qp->wq.state = IBV_QPS_RESET;
	post(7, sizeof(memory));
	deliver();
	assert_true(vrb_cq_looks_empty(cq));
	assert_int_equal(vrb_raw_posted(qp), UINT_MAX);
	assert_int_equal(dropped(), 1);
	assert_int_equal(roce_qp_counters(&qp->roce)->out_of_buffer, 0);
}

static void the_vlan_tag_moves_to_the_completion(void **state)
{
	struct wq_cqe wc;

	qp->recv.strips_vlan = true;
	post(7, sizeof(memory));
	deliver();
	wc = completion();
	assert_int_equal(wc.byte_len, FRAME - RAW_TAG_LEN);
	assert_int_equal(wc.cvlan, TAG);
	assert_memory_equal(memory, frame, 12);
	assert_memory_equal(memory + 12, frame + 16, FRAME - 16);
}

static void a_frame_too_long_is_an_error_and_writes_nothing(void **state)
{
	static const uint8_t nothing[sizeof(memory)];

	post(7, FRAME - 1);
	deliver();
	assert_int_equal(completion().status, IBV_WC_LOC_LEN_ERR);
	assert_memory_equal(memory, nothing, sizeof(memory));
	assert_int_equal(qp->wq.state, IBV_QPS_ERR);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(a_frame_consumes_the_next_receive),
		TEST(without_a_receive_a_frame_is_dropped_and_counted),
		TEST(before_init_a_frame_is_dropped),
		TEST(the_vlan_tag_moves_to_the_completion),
		TEST(a_frame_too_long_is_an_error_and_writes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
