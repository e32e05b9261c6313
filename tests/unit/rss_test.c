/* SPDX-License-Identifier: BSD-2-Clause */
/* RSS: a table of work queues, and the queue that a frame's hash selects. */
#include "core/raw/rss.h"

#include "core_env.h"

#include <errno.h>
#include <string.h>

enum {
	LOG_QUEUES = 2,
	QUEUES = 1 << LOG_QUEUES,
	FLOWS = 256,
};

static struct vrb_context *ctx;
static struct vrb_wq wq[QUEUES];
static struct vrb_qp qp[QUEUES];
static struct ibv_wq *list[QUEUES];
static struct vrb_rwq_table *table;

static int make_table(uint32_t log_size)
{
	const struct ibv_rwq_ind_table_init_attr attr = {
		.log_ind_tbl_size = log_size, .ind_tbl = list
	};

	return vrb_rwq_table_create(ctx, &attr, &table);
}

static int set_up(void **state)
{
	ctx = core_env_open();
	for (int i = 0; i < QUEUES; i++) {
		wq[i].ibv.context = &ctx->vctx.context;
		wq[i].qp = &qp[i];
		list[i] = &wq[i].ibv;
	}
	return make_table(LOG_QUEUES);
}

static int tear_down(void **state)
{
	assert_int_equal(vrb_rwq_table_destroy(table), 0);
	for (int i = 0; i < QUEUES; i++)
		assert_int_equal(wq[i].users, 0);
	core_env_close(ctx);
	return 0;
}

static int make_rss(const struct ibv_qp_cap *cap, struct vrb_rss **rss)
{
	static uint8_t key[FLOW_HASH_KEY] = {
		0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
	};
	const struct ibv_qp_init_attr_ex attr = {
		.cap = *cap,
		.rwq_ind_tbl = &table->ibv,
		.rx_hash_conf = {
			.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
			.rx_hash_key_len = sizeof(key),
			.rx_hash_key = key,
			.rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4,
		},
	};

	return vrb_rss_create(ctx, &attr, rss);
}

/* The key of an IPv4 UDP frame from 192.0.2.`host`. */
static struct flow_key frame_from(uint8_t host)
{
	const uint8_t frame[] = {
		[12] = 0x08, 0x00, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, host,
		192, 0, 2, 1, 0, 1, 0, 2, 0, 8, 0, 0,
	};
	struct flow_key key;

	flow_dissect(&key, frame, sizeof(frame));
	return key;
}

static void flows_are_distributed_and_each_keeps_its_queue(void **state)
{
	unsigned int frames[QUEUES] = { 0 };
	struct vrb_qp spread = { 0 };

	assert_int_equal(make_rss(&(struct ibv_qp_cap){ 0 }, &spread.config.rss), 0);
	for (int host = 0; host < FLOWS; host++) {
		struct flow_key key = frame_from((uint8_t)host);
		struct vrb_qp *first = vrb_rss_choose(&spread, &key);

		assert_in_range(first - qp, 0, QUEUES - 1);
		assert_ptr_equal(vrb_rss_choose(&spread, &key), first);
		frames[first - qp]++;
	}
	for (int i = 0; i < QUEUES; i++)
		assert_in_range(frames[i], FLOWS / QUEUES / 2, FLOWS / QUEUES * 2);
	vrb_rss_destroy(spread.config.rss);
}

static void a_qp_without_rss_receives_itself(void **state)
{
	struct flow_key key = frame_from(1);

	assert_ptr_equal(vrb_rss_choose(&qp[1], &key), &qp[1]);
}

static void a_table_in_use_cannot_be_destroyed(void **state)
{
	struct vrb_rss *rss;

	assert_int_equal(wq[0].users, 1);
	assert_int_equal(make_rss(&(struct ibv_qp_cap){ 0 }, &rss), 0);
	assert_int_equal(vrb_rwq_table_destroy(table), EBUSY);
	vrb_rss_destroy(rss);
}

static void invalid_attributes_are_refused(void **state)
{
	struct vrb_rwq_table *first = table;
	struct vrb_rss *rss;

	assert_int_equal(make_rss(&(struct ibv_qp_cap){ .max_send_wr = 1 }, &rss), EINVAL);
	assert_int_equal(make_rss(&(struct ibv_qp_cap){ .max_recv_wr = 1 }, &rss), EINVAL);
	assert_int_equal(make_table(10), EINVAL);
	list[0] = NULL;
	assert_int_equal(make_table(0), EINVAL);
	list[0] = &wq[0].ibv;
	assert_ptr_equal(table, first);
	assert_int_equal(ctx->n[CTX_RWQ_TABLE], 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flows_are_distributed_and_each_keeps_its_queue),
		cmocka_unit_test(a_qp_without_rss_receives_itself),
		cmocka_unit_test(a_table_in_use_cannot_be_destroyed),
		cmocka_unit_test(invalid_attributes_are_refused),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
