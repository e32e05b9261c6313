/* SPDX-License-Identifier: BSD-2-Clause */
/* The state of a responder moves to another engine, which continues; invalid state is refused. */
#include "roce_env.h"

#include <string.h>

#include "roce/psn.h"
#include "roce/rd_atomic.h"
#include "roce/snapshot.h"

static struct roce_env home, remote;
static uint8_t state[ROCE_SNAPSHOT_MAX];

static void start(struct roce_env *e)
{
	env_init(e, IBV_QPT_XRC_RECV);
	env_rtr(e);
}

static void send_only(struct roce_env *e, uint32_t psn)
{
	struct roce_pkt pkt = env_pkt(e, ROCE_XRC_SEND_ONLY, psn, 16);

	pkt.xrc_srqn = ENV_SRQN;
	pkt.bth.ack_req = true;
	env_input(e, &pkt);
}

static void move(struct roce_env *from, struct roce_env *to)
{
	size_t len = roce_snapshot_take(&from->qp, state);

	assert_true(roce_snapshot_restore(&to->qp, state, len));
}

/* One message here, the next there, the third here again. */
static void the_other_engine_continues(void **unused)
{
	struct roce_env *at[] = { &home, &remote, &home };

	start(&home);
	start(&remote);
	for (uint32_t i = 0; i < ARRAY_SIZE(at); i++) {
		struct roce_env *e = at[i];

		env_post_recv(e, i, 64);
		send_only(e, ENV_PSN + i);
		assert_true(roce_snapshot_has_output(&e->qp));
		assert_false(roce_snapshot_quiet(&e->qp));
		assert_true(env_output(e));
		assert_int_equal(e->out.bth.psn, ENV_PSN + i);
		assert_int_equal(e->out.aeth.msn, i + 1);
		assert_true(roce_snapshot_quiet(&e->qp));
		if (i + 1 < ARRAY_SIZE(at))
			move(e, at[i + 1]);
	}
	assert_int_equal(home.num_cqes, 2);
	assert_int_equal(remote.num_cqes, 1);
	/* a request that one engine has executed is a duplicate for the other */
	send_only(&home, ENV_PSN + 1);
	assert_int_equal(home.num_cqes, 2);
	assert_int_equal(roce_qp_counters(&home.qp)->duplicate_request, 1);
}

static void read_first(struct roce_env *e)
{
	struct roce_pkt pkt = env_pkt(e, ROCE_XRC_READ_REQUEST, ENV_PSN, 0);

	pkt.xrc_srqn = ENV_SRQN;
	pkt.reth.va = ENV_VA;
	pkt.reth.len = 16;
	env_input(e, &pkt);
	assert_true(env_output(e));
	assert_int_equal(e->out.bth.opcode, ROCE_XRC_READ_RESPONSE_ONLY);
	assert_int_equal(e->out.bth.psn, ENV_PSN);
}

/* Another engine answers a READ again while this one is within a message. */
static void an_idle_copy_answers_a_read_again(void **unused)
{
	struct roce_pkt pkt;

	start(&home);
	start(&remote);
	read_first(&home);
	env_post_recv(&home, 0, 1024);
	pkt = env_pkt(&home, ROCE_XRC_SEND_FIRST, ENV_PSN + 1, 256);
	pkt.xrc_srqn = ENV_SRQN;
	env_input(&home, &pkt);
	assert_true(roce_in_message(&home.qp));
	assert_true(roce_snapshot_restore(&remote.qp, state,
					  roce_snapshot_take_idle(&home.qp, state)));
	assert_true(roce_in_message(&home.qp));
	assert_true(roce_snapshot_quiet(&remote.qp));
	read_first(&remote);
	assert_false(env_output(&remote));
}

/* A WRITE begins here, goes on there, and ends here with its immediate. */
static void a_message_goes_on_in_another_engine(void **unused)
{
	static const uint8_t op[] = { ROCE_XRC_WRITE_FIRST, ROCE_XRC_WRITE_MIDDLE,
				      ROCE_XRC_WRITE_LAST_WITH_IMMEDIATE };
	struct roce_env *at[] = { &home, &remote, &home };

	start(&home);
	start(&remote);
	env_post_recv(&home, 0, 64);
	for (uint32_t i = 0; i < ARRAY_SIZE(at); i++) {
		struct roce_pkt pkt = env_pkt(at[i], op[i], ENV_PSN + i, at[i]->wq.mtu);

		pkt.xrc_srqn = ENV_SRQN;
		pkt.reth.va = ENV_VA + 5000;
		pkt.reth.len = 3 * at[i]->wq.mtu;
		env_input(at[i], &pkt);
		assert_memory_equal(at[i]->mem + 5000 + i * at[i]->wq.mtu, pkt.payload,
				    at[i]->wq.mtu);
		if (i + 1 < ARRAY_SIZE(at))
			move(at[i], at[i + 1]);
	}
	assert_int_equal(remote.num_cqes, 0);
	env_expect_cqe(&home, 0, 1000, IBV_WC_SUCCESS);
	assert_int_equal(home.cqes[0].byte_len, 3 * home.wq.mtu);
}

static void atomic_replay_in_another_engine(void **unused)
{
	struct roce_pkt pkt;

	start(&home);
	start(&remote);
	pkt = env_pkt(&home, ROCE_XRC_FETCH_ADD, ENV_PSN, 0);
	pkt.xrc_srqn = ENV_SRQN;
	pkt.atomic.va = ENV_VA;
	pkt.atomic.rkey = ENV_KEY;
	pkt.atomic.swap_add = 1;
	pkt.bth.ack_req = true;
	env_input(&home, &pkt);
	assert_true(env_output(&home));
	move(&home, &remote);
	env_input(&remote, &pkt);
	assert_int_equal(remote.atomics, 0);
	assert_true(env_output(&remote));
	assert_int_equal(remote.out.atomic_ack, home.out.atomic_ack);
}

static void the_error_state_moves_along(void **unused)
{
	start(&home);
	start(&remote);
	roce_qp_fail(&home.qp, IBV_WC_WR_FLUSH_ERR, REASON_CQ_OVERRUN);
	move(&home, &remote);
	assert_int_equal(remote.wq.state, IBV_QPS_ERR);
	assert_false(env_output(&remote));
}

/* The peer gets a NAK if a message is lost with the process that received it. */
static void a_lost_message_ends_the_connection(void **unused)
{
	start(&home);
	roce_snapshot_lost(&home.qp);
	assert_int_equal(home.wq.state, IBV_QPS_ERR);
	assert_true(env_output(&home));
	assert_int_equal(home.out.aeth.syndrome,
			 ROCE_AETH_NAK << 5 | ROCE_NAK_REMOTE_OPERATIONAL_ERROR);
	assert_int_equal(home.events[0], IBV_EVENT_QP_FATAL);
}

static void read_request(struct roce_env *e, uint32_t psn, uint32_t len)
{
	struct roce_pkt pkt = env_pkt(e, ROCE_XRC_READ_REQUEST, psn, 0);

	pkt.xrc_srqn = ENV_SRQN;
	pkt.reth.va = ENV_VA;
	pkt.reth.rkey = ENV_KEY;
	pkt.reth.len = len;
	env_input(e, &pkt);
}

/*
 * The fatal NAK of a QP is sent once, by the engine that gets the state; responses before it must
 * be sent where they are pending.
 */
static void the_fatal_nak_moves_along(void **unused)
{
	start(&home);
	start(&remote);
	env_post_recv(&remote, 1, 8);
	read_request(&remote, ENV_PSN, 8);
	send_only(&remote, ENV_PSN + 1);	/* 16 bytes: too long */
	assert_int_equal(remote.wq.state, IBV_QPS_ERR);
	assert_false(roce_snapshot_has_fatal_nak(&remote.qp));
	move(&remote, &home);
	assert_false(env_output(&home));
	assert_true(env_output(&remote));
	assert_int_equal(remote.out.bth.opcode, ROCE_XRC_READ_RESPONSE_ONLY);
	assert_true(roce_snapshot_has_fatal_nak(&remote.qp));
	/* the first NAK was lost on the network */
	move(&remote, &home);
	move(&remote, &home);
	roce_snapshot_nak_handed_over(&remote.qp);
	assert_true(roce_snapshot_quiet(&remote.qp));
	assert_false(env_output(&remote));
	assert_true(env_output(&home));
	assert_int_equal(home.out.aeth.syndrome, ROCE_AETH_NAK << 5 | ROCE_NAK_INVALID_REQUEST);
	assert_int_equal(home.out.bth.psn, ENV_PSN + 1);
	assert_false(env_output(&home));
}

/* Each way in which a snapshot can be invalid. */
static void invalid_snapshots_are_refused(void **unused)
{
	struct roce_snapshot good, bad;
	size_t len;

	start(&home);
	len = roce_snapshot_take(&home.qp, state);
	assert_int_equal(len, sizeof(good));
	memcpy(&good, state, sizeof(good));
#define REFUSED(field, value)                                                                      \
	do {                                                                                       \
		bad = good;                                                                        \
		bad.field = (value);                                                               \
		assert_false(roce_snapshot_restore(&home.qp, &bad, sizeof(bad)));                  \
	} while (0)
	REFUSED(epsn, 1 << 24);
	REFUSED(msn, 1 << 24);
	REFUSED(msg, ROCE_MSG_WRITE + 1);
	REFUSED(rd_next, ENV_RD);
	REFUSED(n_rd, 1);
	REFUSED(n_rd, UINT32_MAX);
	REFUSED(state, IBV_QPS_INIT);
	REFUSED(state, IBV_QPS_SQE);
	REFUSED(state, IBV_QPS_ERR + 1);
	REFUSED(fatal_nak, ROCE_AETH_NAK << 5);
	good.state = IBV_QPS_ERR;
	good.fatal_nak = ROCE_AETH_NAK << 5;
	REFUSED(fatal_nak, ROCE_AETH_RNR_NAK << 5);
	REFUSED(last_psn, 1 << 24);
	memcpy(&good, state, sizeof(good));
#undef REFUSED
	assert_false(roce_snapshot_restore(&home.qp, &good, sizeof(good) - 1));
	assert_false(roce_snapshot_restore(&home.qp, &good, 0));
	assert_true(roce_snapshot_restore(&home.qp, &good, sizeof(good)));
}

/* Invalid resources become free; they have no pending responses. */
static void resources_are_checked(void **unused)
{
	struct {
		struct roce_snapshot s;
		struct roce_rd_atomic rd[2];
	} raw;

	start(&home);
	roce_snapshot_take(&home.qp, state);
	memcpy(&raw.s, state, sizeof(raw.s));
	raw.s.n_rd = 2;
	memset(raw.rd, 0, sizeof(raw.rd));
	raw.rd[0] = (struct roce_rd_atomic){ .kind = ROCE_RD_EMPTY + 1, .pending = true };
	raw.rd[1] = (struct roce_rd_atomic){
		.kind = ROCE_RD_ATOMIC, .pending = true, .fresh = true };
	assert_true(roce_snapshot_restore(&home.qp, &raw, sizeof(raw)));
	assert_int_equal(home.rd[0].kind, ROCE_RD_FREE);
	assert_int_equal(home.rd[1].kind, ROCE_RD_ATOMIC);
	assert_false(roce_snapshot_has_output(&home.qp));
}

/* What a process has written there must not keep this QP from answering. */
static void a_restored_resource_is_answered(void **unused)
{
	struct {
		struct roce_snapshot s;
		struct roce_rd_atomic rd;
	} raw;
	struct roce_pkt pkt;

	start(&home);
	roce_snapshot_take(&home.qp, state);
	memcpy(&raw.s, state, sizeof(raw.s));
	raw.s.n_rd = 1;
	raw.s.epsn = psn_next(ENV_PSN);
	raw.s.psns = 1;
	memset(&raw.rd, 0, sizeof(raw.rd));
	raw.rd = (struct roce_rd_atomic){ .kind = ROCE_RD_ATOMIC, .held = true,
					  .why = REASON_RKEY_UNKNOWN, .first_psn = ENV_PSN,
					  .last_psn = ENV_PSN, .end = 1, .original = 7 };
	assert_true(roce_snapshot_restore(&home.qp, &raw, sizeof(raw)));
	pkt = env_pkt(&home, ROCE_XRC_FETCH_ADD, ENV_PSN, 0);
	pkt.xrc_srqn = ENV_SRQN;
	pkt.atomic.va = ENV_VA;
	pkt.atomic.rkey = ENV_KEY;
	env_input(&home, &pkt);
	assert_true(env_output(&home));
	assert_int_equal(home.out.bth.opcode, ROCE_XRC_ATOMIC_ACKNOWLEDGE);
	assert_int_equal(home.out.atomic_ack, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_other_engine_continues),
		cmocka_unit_test(an_idle_copy_answers_a_read_again),
		cmocka_unit_test(a_message_goes_on_in_another_engine),
		cmocka_unit_test(atomic_replay_in_another_engine),
		cmocka_unit_test(the_error_state_moves_along),
		cmocka_unit_test(a_lost_message_ends_the_connection),
		cmocka_unit_test(the_fatal_nak_moves_along),
		cmocka_unit_test(invalid_snapshots_are_refused),
		cmocka_unit_test(resources_are_checked),
		cmocka_unit_test(a_restored_resource_is_answered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
