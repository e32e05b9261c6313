/* SPDX-License-Identifier: BSD-2-Clause */
/* verbena trace: which records belong together. */
#include <string.h>

#include <infiniband/verbs.h>

#include "unit/trace_env.h"

static struct env_host host[ENV_HOSTS];
static struct trace_ties ties;
static struct trace t;
static uint64_t now;

static int set_up(void **state)
{
	now = 2000000;
	memset(&ties, 0, sizeof(ties));
	env_open(&host[0], 1, 1, 0, 0);
	env_open(&host[1], 2, 1, 0, 0);
	return 0;
}

static int tear_down(void **state)
{
	trace_ties_free(&ties);
	env_close(host, 2, &t);
	return 0;
}

static void put(const struct env_host *h, enum record_type type, const void *body, size_t len)
{
	env_put((struct env_host *)h, type, body, len, now += 100);
}

static void send(uint32_t index, uint64_t wr_id)
{
	put(&host[0], RECORD_SEND,
	    &(struct record_send){ .qpn = ENV_QPN, .index = index, .wr_id = wr_id },
	    sizeof(struct record_send));
}

static void recv(uint16_t kind, uint32_t number, uint32_t index)
{
	put(&host[0], RECORD_RECV,
	    &(struct record_recv){ .number = number, .index = index, .kind = kind },
	    sizeof(struct record_recv));
}

static void completion(uint16_t kind, uint32_t number, uint32_t index, bool receives)
{
	put(&host[0], RECORD_COMPLETION,
	    &(struct record_completion){ .qpn = ENV_QPN, .cqn = 5, .number = number,
					 .index = index, .kind = kind,
					 .opcode = receives ? IBV_WC_RECV : IBV_WC_SEND },
	    sizeof(struct record_completion));
}

static void stack(void)
{
	put(&host[0], RECORD_STACK, (uint64_t[]){ 1, 2 }, 16);
}

/* Reads the ties of all records, in order. */
static unsigned int read_all(struct trace_tie *out, unsigned int room)
{
	struct record r;
	unsigned int n = 0;
	int status = 0;

	env_read(host, 2, &t);
	while (trace_next(&t, &r, &status)) {
		assert_true(n < room);
		trace_tie(&ties, &r, n, &out[n]);
		n++;
	}
	assert_int_equal(status, 0);
	return n;
}

static void completions_belong_to_requests_of_their_queue_and_index(void **state)
{
	struct trace_tie tie[8];

	send(0, 10);
	send(1, 10);
	recv(RECORD_QP, ENV_QPN, 0);
	completion(RECORD_QP, ENV_QPN, 1, false);
	completion(RECORD_QP, ENV_QPN, 0, true);
	completion(RECORD_QP, ENV_QPN, 0, false);
	completion(RECORD_QP, ENV_QPN, 0, false);
	assert_int_equal(read_all(tie, 8), 7);
	assert_int_equal(tie[3].request, 1);
	assert_int_equal(tie[4].request, 2);
	assert_int_equal(tie[5].request, 0);
	assert_int_equal(tie[6].request, TRACE_NONE);	/* it completed before */
	assert_int_equal(ties.track[tie[0].track].number, ENV_QPN);
	assert_int_equal(ties.track[tie[3].track].kind, RECORD_CQ);
	assert_int_equal(ties.track[tie[3].track].number, 5);
}

/* Completed out of posting order, and not confused with a QP of the same number. */
static void receives_of_an_srq(void **state)
{
	struct trace_tie tie[8];

	recv(RECORD_SRQ, ENV_SRQN, 0);
	recv(RECORD_SRQ, ENV_SRQN, 1);
	recv(RECORD_QP, ENV_SRQN, 1);
	completion(RECORD_SRQ, ENV_SRQN, 1, true);
	completion(RECORD_SRQ, ENV_SRQN, 0, true);
	completion(RECORD_SRQ, ENV_SRQN, UINT32_MAX, true);
	assert_int_equal(read_all(tie, 8), 6);
	assert_int_equal(tie[3].request, 1);
	assert_int_equal(tie[4].request, 0);
	assert_int_equal(tie[5].request, TRACE_NONE);
	assert_int_equal(ties.track[tie[0].track].kind, RECORD_SRQ);
}

static void an_index_is_reused(void **state)
{
	struct trace_tie tie[8];

	send(UINT32_MAX, 1);
	send(0, 2);
	completion(RECORD_QP, ENV_QPN, UINT32_MAX, false);
	send(UINT32_MAX, 3);
	completion(RECORD_QP, ENV_QPN, UINT32_MAX, false);
	assert_int_equal(read_all(tie, 8), 5);
	assert_int_equal(tie[2].request, 0);
	assert_int_equal(tie[4].request, 3);
}

/* Two records: a path, then its packet. */
static void packets_match_records_of_the_other_end(void **state)
{
	struct trace_tie tie[16];

	env_out(&host[0], &host[1], now += 100, 7);
	env_in(&host[0], &host[1], now += 100, 7);
	env_in(&host[0], &host[1], now += 100, 7);
	env_in(&host[1], &host[0], now += 100, 7);
	assert_int_equal(read_all(tie, 16), 8);
	assert_int_equal(tie[1].other, TRACE_NONE);
	assert_int_equal(tie[3].other, 1);
	assert_int_equal(tie[5].other, TRACE_NONE);	/* a duplicate */
	assert_int_equal(tie[7].other, TRACE_NONE);	/* of another direction */
}

static void the_last_copy_of_a_packet_matches(void **state)
{
	struct trace_tie tie[16];

	env_out(&host[0], &host[1], now += 100, 7);
	env_out(&host[0], &host[1], now += 100, 7);
	env_in(&host[0], &host[1], now += 100, 7);
	assert_int_equal(read_all(tie, 16), 6);
	assert_int_equal(tie[5].other, 3);
}

static void stacks_belong_to_the_post_before_them(void **state)
{
	struct trace_tie tie[8];

	stack();
	send(0, 1);
	stack();
	stack();
	recv(RECORD_SRQ, ENV_SRQN, 0);
	stack();
	assert_int_equal(read_all(tie, 8), 6);
	assert_int_equal(tie[0].request, TRACE_NONE);
	assert_int_equal(tie[2].request, 1);
	assert_int_equal(tie[2].track, tie[1].track);
	assert_int_equal(tie[3].request, TRACE_NONE);
	assert_int_equal(tie[5].request, 4);
	assert_int_equal(tie[5].track, tie[4].track);
}

static void devices_belong_to_paths(void **state)
{
	struct {
		struct record_device d;
		char name[4];
	} dev = { .d = { .path = 0x0102, .guid = 77 }, .name = { 'v', 'r', 'b', '3' } };
	struct trace_tie tie;
	struct record r;

	env_out(&host[0], &host[1], now += 100, 1);
	put(&host[0], RECORD_DEVICE, &dev, sizeof(dev.d) + 4);
	env_out(&host[1], &host[0], now += 100, 1);
	env_read(host, 2, &t);
	assert_true(env_next(&t, RECORD_PATH, &r));
	trace_tie(&ties, &r, 0, &tie);
	assert_true(env_next(&t, RECORD_PACKET, &r));
	assert_string_equal(trace_device(&ties, &r)->name, "");
	assert_true(env_next(&t, RECORD_DEVICE, &r));
	trace_tie(&ties, &r, 1, &tie);
	assert_string_equal(ties.device[0].name, "vrb3");
	assert_int_equal(ties.device[0].guid, 77);
	assert_true(env_next(&t, RECORD_PACKET, &r));
	assert_null(trace_device(&ties, &r));	/* its path was not recorded here */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(completions_belong_to_requests_of_their_queue_and_index),
		TEST(receives_of_an_srq),
		TEST(an_index_is_reused),
		TEST(packets_match_records_of_the_other_end),
		TEST(the_last_copy_of_a_packet_matches),
		TEST(stacks_belong_to_the_post_before_them),
		TEST(devices_belong_to_paths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
