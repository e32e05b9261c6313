/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MADs to another process of the host whose inbox is full, and more exit MADs of a dead process
 * than the queue holds. The other process is a second member of the host in this process; the test
 * reads its inbox and chooses when timers expire.
 */
#include "core/mad/gsi.h"

#include "core_env.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cancelled.h"
#include "cm/msg.h"
#include "core/base/object_timer.h"
#include "host/exit_mad.h"
#include "host/host.h"
#include "host/service.h"
#include "place.h"
#include "roce/const.h"
#include "roce/opcode.h"
#include "roce/pkt.h"
#include "run/clock.h"
#include "util/be.h"

enum {
	MADS = 200,
	EXIT_MADS = 2500,	/* to each of two processes */
	REQUESTS = 1100,	/* more than can be queued */
	ENDS = 3000,		/* DREQs, more than other MADs can be queued */
	TIMES = 3,		/* that a DREQ is repeated */
	IN_VAIN = 10,
	WAITING = 128,		/* requests, and attempts until all have been accepted */
	TRIES = 40,
	DREQ = 0x15,
	ATTRIBUTE_AT = 17,
	DATA_AT = 24,
	ID_BITS = 22,
};

/* A full inbox is retried this soon after it had room, */
#define SOON (100 * VRB_USEC)
/* and at the latest after this time. */
#define LATE (64 * VRB_MSEC)
/* After this time a MAD makes room for others. */
#define OVERDUE (10 * VRB_SECOND)

#define SELF { { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 } }
static struct vrb_context *ctx;
static struct host *other;
static uint32_t sent, received;

static const struct net_path path = { .src = SELF, .dst = SELF };

/* Makes the n-th MAD to a process, with an id from its slot. */
static void make_mad(uint8_t mad[HOST_MAD_LEN], uint32_t n, int slot)
{
	memset(mad, 0, HOST_MAD_LEN);
	memcpy(mad, (uint8_t[]){ 1, 7, 2, 3 }, 4);
	mad[ATTRIBUTE_AT] = DREQ;
	put_be32(mad + DATA_AT, n);
	put_be32(mad + DATA_AT + 4, (uint32_t)slot << ID_BITS | 1);
}

static void send_next(void)
{
	uint8_t mad[HOST_MAD_LEN];

	make_mad(mad, ++sent, host_slot(other));
	assert_int_equal(vrb_gsi_send(&path, mad), 0);
}

/* Empties the inbox and checks the order. */
static unsigned int receive_all(void)
{
	uint8_t buf[HOST_PACKET_MAX];
	struct net_path from;
	unsigned int n = 0;
	size_t len;

	for (; host_inbox_recv(other, &from, buf, &len) == HOST_MAD; n++) {
		assert_int_equal(len, HOST_MAD_LEN);
		assert_int_equal(get_be32(buf + DATA_AT), ++received);
	}
	return n;
}

static unsigned int taken;

static void take_arrivals(uint64_t now, bool poller)
{
	taken++;
}

static void expire(uint64_t now)
{
	struct expiry e = { .now = now, .take_all = take_arrivals };
	struct timer *t;

	lock_acquire(&vrb.poll_lock);
	while ((t = timers_pop(vrb.timers, now))) {
		struct object_timer *d = container_of(t, struct object_timer, timer);

		d->expire(d, &e);
	}
	lock_release(&vrb.poll_lock);
}

static void a_full_inbox_is_refilled_each_time_it_is_emptied(void **state)
{
	unsigned int room, n;
	uint64_t now;

	while (sent < MADS)
		send_next();
	now = clock_now();
	for (int i = 0; i < IN_VAIN; i++)
		expire(now += LATE);
	room = receive_all();
	assert_in_range(room, 1, MADS / 4);
	expire(now += LATE);
	while ((n = receive_all())) {
		assert_true(n >= room || received == MADS);
		expire(now += SOON);
	}
	assert_int_equal(received, MADS);
	/* A MAD sent now finds room in the inbox and an empty queue. */
	send_next();
	assert_int_equal(receive_all(), 1);
}

/* The connection that is not destroyed repeats it until it is answered. */
static void a_dreq_waits_once_however_often_it_is_repeated(void **state)
{
	uint8_t mad[HOST_MAD_LEN];
	uint64_t now = clock_now();
	unsigned int n = 0;

	sent = received = 0;
	while (sent < MADS)
		send_next();
	make_mad(mad, sent, host_slot(other));
	for (int i = 0; i < TIMES; i++)
		assert_int_equal(vrb_gsi_send(&path, mad), 0);
	for (int i = 0; i < MADS; i++) {
		n += receive_all();
		expire(now += LATE);
	}
	assert_int_equal(n, MADS);
}

/* Nobody repeats them, and what others wait for goes on. */
static void dreqs_have_no_limit(void **state)
{
	uint64_t now = clock_now();

	sent = received = 0;
	while (sent < ENDS)
		send_next();
	for (int i = 0; i < ENDS && received < ENDS; i++) {
		receive_all();
		expire(now += SOON);
	}
	assert_int_equal(received, ENDS);
}

static void send_message(const struct cm_msg *m)
{
	uint8_t mad[CM_MAD_LEN];

	cm_encode(mad, m);
	assert_int_equal(vrb_gsi_send(&path, mad), 0);
}

/* Counts the REQs in the inbox, until a REJ comes. */
static bool receive_requests(unsigned int *requests)
{
	uint8_t buf[HOST_PACKET_MAX];
	struct net_path from;
	size_t len;

	for (; host_inbox_recv(other, &from, buf, &len) == HOST_MAD; ++*requests)
		if (get_be16(buf + CM_ATTRIBUTE_AT) == CM_REJ)
			return true;
	return false;
}

/* A service of the other process. */
static uint64_t listen_there(uint64_t service_id)
{
	struct host_service service = { .service_id = service_id };
	uint32_t at;

	assert_int_equal(host_service_bind(other, &service, &at), 0);
	assert_int_equal(host_service_listen(other, at), 0);
	return service_id;
}

/* Else the peer would accept what has been given up, and wait. */
static void the_end_does_not_overtake_the_request(void **state)
{
	uint64_t id = listen_there(0x1061235);
	const struct cm_msg req = { .type = CM_REQ, .req = { .local_id = 7, .service_id = id } };
	const struct cm_msg rej = {
		.type = CM_REJ,
		.rej = { .local_id = 7, .remote_id = (uint32_t)host_slot(other) << ID_BITS | 1 },
	};
	uint64_t now = clock_now();
	unsigned int requests = 0;

	for (int i = 0; i < WAITING; i++)
		send_message(&req);
	assert_false(receive_requests(&requests));
	send_message(&rej);
	for (int i = 0; i < WAITING && !receive_requests(&requests); i++)
		expire(now += LATE);
	assert_int_equal(requests, WAITING);
}

/* It, or the whole machine, may have been stopped for a while. */
static void what_a_living_process_has_not_read_is_not_dropped(void **state)
{
	uint64_t id = listen_there(0x1061237);
	const struct cm_msg req = { .type = CM_REQ, .req = { .local_id = 7, .service_id = id } };
	uint64_t now = clock_now() + 3 * OVERDUE;
	unsigned int requests = 0;

	for (int i = 0; i < WAITING; i++)
		send_message(&req);
	for (int i = 0; i < WAITING; i++) {
		expire(now += LATE);
		assert_false(receive_requests(&requests));
	}
	assert_int_equal(requests, WAITING);
}

static char dir[64];
/* exit MADs of the dead process, received by this process and by the other one */
static unsigned int here, there;

static void count_here(void *arg, const struct net_path *from, const uint8_t *mad, uint64_t now)
{
	here++;
}

static void nothing_to_do(void *arg, uint64_t now)
{
}

static void count_there(void)
{
	uint8_t buf[HOST_PACKET_MAX];
	struct net_path from;
	size_t len;

	while (host_inbox_recv(other, &from, buf, &len) == HOST_MAD)
		there++;
}

/* A process with connections to this one and to the other one, which then dies. */
static void connect_and_die(int this_slot, unsigned int connections)
{
	uint8_t mad[HOST_MAD_LEN];
	struct host *h;

	if (host_join(dir, &h))
		_exit(1);
	for (uint32_t i = 0; i < 2 * connections; i++) {
		make_mad(mad, i + 1, i % 2 ? this_slot : host_slot(other));
		if (host_exit_mad_write(h, i, &path, mad))
			_exit(1);
	}
	_exit(0);
}

static struct roce_pkt from_wire(const uint8_t mad[CM_MAD_LEN])
{
	return (struct roce_pkt){
		.bth = { .opcode = ROCE_UD_SEND_ONLY, .pkey = ROCE_PKEY_DEFAULT },
		.deth.qkey = ROCE_QKEY_GSI,
		.payload = mad,
		.payload_len = CM_MAD_LEN,
		.path = path,
	};
}

/* More requests from the network for a service than fit the queue. */
static void flood(uint64_t service_id, uint64_t now)
{
	const struct cm_msg req = { .type = CM_REQ,
				    .req = { .local_id = UINT32_MAX, .service_id = service_id } };
	uint8_t mad[CM_MAD_LEN];
	const struct roce_pkt pkt = from_wire(mad);

	cm_encode(mad, &req);
	lock_acquire(&vrb.poll_lock);
	for (unsigned int i = 0; i < REQUESTS; i++)
		vrb_gsi_input(&pkt, now);
	lock_release(&vrb.poll_lock);
}

/* Rejections of requests whose senders have ended, before they knew the other side's id. */
static void reject_many(uint64_t now)
{
	struct cm_msg rej = { .type = CM_REJ,
			      .rej = { .about = CM_ABOUT_REQ, .reason = CM_REJ_TIMEOUT,
				       .info_len = sizeof(uint64_t) } };
	uint8_t mad[CM_MAD_LEN];
	const struct roce_pkt pkt = from_wire(mad);

	lock_acquire(&vrb.poll_lock);
	for (rej.rej.local_id = 1; rej.rej.local_id <= WAITING; rej.rej.local_id++) {
		cm_encode(mad, &rej);
		vrb_gsi_input(&pkt, now);
	}
	lock_release(&vrb.poll_lock);
}

/* A process sends exit MADs of others only once it manages connections. */
static void let_one_die(unsigned int connections)
{
	int slot = host_slot(vrb.host), status;
	pid_t pid = fork();

	if (!pid)
		connect_and_die(slot, connections);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	host_reap(vrb.host);
	here = there = 0;
}

static const struct vrb_gsi_ops ops = { .receive = count_here, .timeout = nothing_to_do };

/* Exit MADs are not retransmitted. */
static void exit_mads_of_thousands_of_connections_all_arrive(void **state)
{
	uint64_t now = clock_now();

	let_one_die(EXIT_MADS);
	assert_int_equal(vrb_gsi_open(&ops, NULL), 0);
	for (unsigned int i = 0; i < 2 * EXIT_MADS && here + there < 2 * EXIT_MADS; i++) {
		expire(now += VRB_MSEC);
		count_there();
	}
	vrb_gsi_close();
	assert_int_equal(here, EXIT_MADS);
	assert_int_equal(there, EXIT_MADS);
}

static void exit_mads_find_room_during_a_flood(void **state)
{
	let_one_die(MADS);
	flood(1, clock_now());
	assert_int_equal(vrb_gsi_open(&ops, NULL), 0);
	expire(clock_now() + VRB_MSEC);
	vrb_gsi_close();
	assert_int_equal(here, MADS);
}

static void exit_mads_find_room_beside_dreqs(void **state)
{
	sent = 0;
	while (sent < ENDS)
		send_next();
	let_one_die(MADS);
	assert_int_equal(vrb_gsi_open(&ops, NULL), 0);
	expire(clock_now() + VRB_MSEC);
	vrb_gsi_close();
	assert_int_equal(here, MADS);
}

static unsigned int answered_at_timeout, taken_at_timeout;

static void note_timeout(void *arg, uint64_t now)
{
	answered_at_timeout = here;
	taken_at_timeout = taken;
}

/* A process without a CPU must not repeat a request whose answer waits, here or in its inbox. */
static void answers_come_before_timeouts(void **state)
{
	static const struct vrb_gsi_ops noting = { .receive = count_here, .timeout = note_timeout };
	const struct cm_msg req = { .type = CM_REQ,
				    .req = { .local_id = 7, .service_id = 0x1061236 } };
	uint64_t now = clock_now();

	here = taken = 0;
	assert_int_equal(vrb_gsi_open(&noting, NULL), 0);
	send_message(&req);
	vrb_gsi_arm(now + LATE);
	expire(now + VRB_SECOND);
	vrb_gsi_close();
	assert_int_equal(answered_at_timeout, 1);
	assert_int_equal(taken_at_timeout, 1);
}

/* Nobody repeats them, so those that come too fast wait. */
static void rejections_for_every_process_are_not_lost(void **state)
{
	uint64_t now = clock_now();

	here = 0;
	assert_int_equal(vrb_gsi_open(&ops, NULL), 0);
	reject_many(now);
	assert_in_range(here, 1, WAITING - 1);
	for (unsigned int i = 0; i < TRIES * WAITING && here < WAITING; i++)
		expire(now += VRB_MSEC);
	vrb_gsi_close();
	assert_int_equal(here, WAITING);
}

static unsigned int count_received(void)
{
	there = 0;
	count_there();
	return there;
}

/* Otherwise replies from the network would queue behind many requests, or find the queue full. */
static void requests_from_the_network_are_bounded(void **state)
{
	unsigned int later = 0;
	uint64_t now = clock_now();

	flood(listen_there(0x1061234), now);
	assert_in_range(count_received(), 1, REQUESTS - 1);
	for (unsigned int i = 0; i < TRIES; i++) {
		expire(now += LATE);
		later += count_received();
	}
	assert_in_range(later, 1, WAITING);
	expire(now += LATE);
	assert_int_equal(count_received(), 0);
}

/* Empties the inbox and counts the requests for a service. */
static unsigned int count_requests(uint64_t service_id)
{
	uint8_t buf[HOST_PACKET_MAX];
	struct net_path from;
	unsigned int n = 0;
	size_t len;

	while (host_inbox_recv(other, &from, buf, &len) == HOST_MAD)
		n += get_be64(buf + DATA_AT + 8) == service_id;
	return n;
}

/* New ones find room once the others have waited for long. */
static void requests_that_have_been_repeated_make_room(void **state)
{
	uint64_t old = listen_there(0x1061238), new = listen_there(0x1061239), now = clock_now();
	unsigned int n = 0;

	flood(old, now);
	flood(new, now + OVERDUE / 2);
	for (unsigned int i = 0; i < TRIES; i++) {
		assert_int_equal(count_requests(new), 0);
		if (i == 0)
			flood(new, now += OVERDUE);
		expire(now += LATE);
		n += count_requests(new);
	}
	assert_in_range(n, WAITING, 2 * WAITING);
}

static void receive_request(void)
{
	const struct cm_msg req = { .type = CM_SIDR_REQ,
				    .sidr_req = { .request_id = 1, .service_id = 0x106123a } };
	uint8_t mad[CM_MAD_LEN];
	const struct roce_pkt pkt = from_wire(mad);

	cm_encode(mad, &req);
	lock_acquire(&vrb.poll_lock);
	vrb_gsi_input(&pkt, clock_now());
	lock_release(&vrb.poll_lock);
	expire(clock_now() + VRB_SECOND);
}

/* Whoever polls a CQ may receive it, and answer it. */
static void a_request_is_no_cancellation_point(void **state)
{
	assert_true(survives_cancel(receive_request));
}

/* Whoever forges REPs must not fill the memory: their sender would repeat them. */
static void refusals_of_reps_are_bounded(void **state)
{
	struct cm_msg rej = { .type = CM_REJ,
			      .rej = { .remote_id = (uint32_t)host_slot(other) << ID_BITS | 1,
				       .about = CM_ABOUT_REP,
				       .reason = CM_REJ_INVALID_COMM_ID } };
	unsigned int n = count_received();
	uint64_t now = clock_now();

	for (rej.rej.local_id = 1; rej.rej.local_id <= ENDS; rej.rej.local_id++)
		send_message(&rej);
	for (unsigned int i = 0; i < ENDS; i++) {
		n += count_received();
		expire(now += SOON);
	}
	assert_in_range(n, 1, ENDS - 1);
}

static int set_up(void **state)
{
	place_make_dir(dir);
	ctx = core_env_open();
	assert_int_equal(host_join(dir, &vrb.host), 0);
	assert_int_equal(vrb_gsi_start(), 0);
	return host_join(dir, &other);
}

static int tear_down(void **state)
{
	host_leave(other);
	vrb_gsi_stop();
	host_leave(vrb.host);
	core_env_close(ctx);
	place_remove_dir(dir);
	return 0;
}

#define FRESH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FRESH(a_full_inbox_is_refilled_each_time_it_is_emptied),
		FRESH(a_dreq_waits_once_however_often_it_is_repeated),
		FRESH(dreqs_have_no_limit),
		FRESH(the_end_does_not_overtake_the_request),
		FRESH(what_a_living_process_has_not_read_is_not_dropped),
		FRESH(requests_that_have_been_repeated_make_room),
		FRESH(exit_mads_of_thousands_of_connections_all_arrive),
		FRESH(exit_mads_find_room_during_a_flood),
		FRESH(exit_mads_find_room_beside_dreqs),
		FRESH(answers_come_before_timeouts),
		FRESH(rejections_for_every_process_are_not_lost),
		FRESH(requests_from_the_network_are_bounded),
		FRESH(refusals_of_reps_are_bounded),
		FRESH(a_request_is_no_cancellation_point),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
