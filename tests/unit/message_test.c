/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages over a real lane against an oracle: queue pairs of one process send to those of another,
 * which runs some and declines some. What a sender takes for executed was executed, and once the
 * receiver has taken everything each sender knows it from one look. Both ends at every step of each
 * other, with counters that wrap; entries that change hands; hostile memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "local/message.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "random.h"

enum {
	QPS = 24,
	DEPTH = 64,
	ROUNDS = 40000,
	PSNS = 1 << 24,
	QPN = 0x100,		/* of the first one at the receiver */
	GONE = 0xffffff,
	LEN_MAX = 2000,
};

/* Both ends of one connection. */
struct pair {
	struct message_sender sender;
	uint32_t next;		/* PSN of the next message */
	uint32_t una;		/* everything before is known to be executed */
	uint32_t epsn;		/* receiver: the only PSN that it runs; the oracle */
	bool nak;		/* receiver: declined that one, and has said so by packet */
	uint32_t looked;	/* tail at the last look */
};

static struct pair pairs[QPS];
static struct seg_qp entries[QPS];
static struct lane *lane;
static struct lane_tx tx;
static struct lane_rx rx;
static struct message_queue queue;

static uint32_t under_way(const struct pair *p)
{
	return (p->next - p->una) % PSNS;
}

static void start(void)
{
	lane = aligned_alloc(CACHE_LINE, sizeof(*lane));
	memset(lane, 0, sizeof(*lane));
	lane_tx_init(&tx, lane);
	lane_rx_init(&rx, lane);
	/* All indices wrap within the test. */
	tx.head = tx.tail = rx.next = lane->tail = -1000u;
	message_queue_init(&queue);
	memset(entries, 0, sizeof(entries));
	for (uint32_t i = 0; i < QPS; i++) {
		pairs[i] = (struct pair){ .next = PSNS - 100 * i, .looked = tx.tail - 1 };
		pairs[i].next %= PSNS;
		pairs[i].una = pairs[i].epsn = pairs[i].next;
		message_sender_init(&pairs[i].sender);
		entries[i].qpn = QPN + i;
	}
}

static void end(void)
{
	free(lane);
}

/* What a message says follows from its QP and its PSN. */
static struct message content(uint32_t i, uint32_t psn, uint8_t *payload)
{
	uint32_t len = psn % 5 ? psn % 90 : psn % LEN_MAX;

	for (uint32_t k = 0; k < len; k++)
		payload[k] = psn + 7 * k + i;
	return (struct message){ .qpn = QPN + i, .psn = psn, .imm = psn * 2654435761u + i,
				 .op = psn % MESSAGE_OPS, .solicited = psn % 3 == 0,
				 .len = len, .payload = payload };
}

static void send_one(uint32_t i)
{
	struct lane_head head = { .where = LANE_INLINE };
	uint8_t payload[LEN_MAX];
	struct pair *p = &pairs[i];
	struct message m = content(i, p->next, payload);

	if (under_way(p) == DEPTH || !lane_tx_room(&tx, MESSAGE_HEADER + m.len))
		return;
	message_sent(&queue, &p->sender, tx.head);
	message_put(&tx, &head, &m);
	p->next = (p->next + 1) % PSNS;
}

static void want_content(const struct message *m, const struct lane_head *head)
{
	uint8_t payload[LEN_MAX];
	struct message was = content(m->qpn - QPN, m->psn, payload);

	assert_true(head->flags & LANE_BARE);
	assert_int_equal(m->imm, was.imm);
	assert_int_equal(m->op, was.op);
	assert_int_equal(m->solicited, was.solicited);
	assert_int_equal(m->len, was.len);
	assert_memory_equal(m->payload, payload, m->len);
}

/* The receiver runs what comes in its turn, unless something is unusual. */
static void run(const struct message *m)
{
	uint32_t i = m->qpn - QPN;
	struct pair *p = &pairs[i];
	struct message_progress done = { .psn = m->psn, .msn = m->psn ^ 1, .syndrome = i };

	if (m->psn != p->epsn || p->nak)
		return;
	if (random_below(20) == 0) {
		p->nak = true;
		return;
	}
	p->epsn = (p->epsn + 1) % PSNS;
	message_publish(&entries[i].progress, &done);
}

static bool receive_one(void)
{
	struct lane_slot copy;
	const uint8_t *data;
	struct message m;

	if (!lane_rx_get(&rx, &copy, &data))
		return false;
	assert_true(message_get(&m, data, copy.head.len));
	assert_in_range(m.qpn, QPN, QPN + QPS - 1);
	want_content(&m, &copy.head);
	run(&m);
	lane_rx_done(&rx, &copy.head);
	return true;
}

static void look(struct pair *p, uint32_t tail)
{
	uint32_t i = p - pairs;
	struct message_progress done;
	uint32_t una;

	/* The lane has moved since the last time. */
	assert_int_not_equal(p->looked, tail);
	p->looked = tail;
	if (!message_published(&entries[i], QPN + i, &done))
		return;
	assert_int_equal(done.msn, done.psn ^ 1);
	assert_int_equal(done.syndrome, i);
	una = (done.psn + 1) % PSNS;
	if ((una - p->una) % PSNS <= under_way(p))
		p->una = una;
	assert_int_equal(p->una, p->epsn);
}

static void look_all(void)
{
	uint32_t tail = lane_tx_tail(&tx);
	struct message_sender *s;

	while ((s = message_next(&queue, tail)))
		look(list_entry(s, struct pair, sender), tail);
}

/* The packet that declines comes: the sender goes back, as the engine does. */
static void hear_nak(struct pair *p)
{
	if (!p->nak)
		return;
	p->una = p->next = p->epsn;
	p->nak = false;
}

static void step(void)
{
	switch (random_below(4)) {
	case 0:
		for (uint64_t n = random_below(12); n; n--)
			send_one(random_below(QPS));
		break;
	case 1:
		for (uint64_t n = random_below(12); n && receive_one(); n--)
			;
		break;
	case 2:
		look_all();
		break;
	default:
		hear_nak(&pairs[random_below(QPS)]);
	}
	for (uint32_t i = 0; i < QPS; i++)
		assert_true((pairs[i].epsn - pairs[i].una) % PSNS <= DEPTH);
}

static void want_all_known(void)
{
	while (receive_one())
		;
	look_all();
	assert_false(message_awaited(&queue));
	for (uint32_t i = 0; i < QPS; i++)
		assert_int_equal(pairs[i].una, pairs[i].epsn);
}

static void what_is_known_was_executed_and_nothing_is_missed(void **state)
{
	start();
	for (int round = 0; round < ROUNDS; round++) {
		step();
		if (random_below(500) == 0)
			want_all_known();
	}
	want_all_known();
	end();
}

/* However many are under way, one look at each QP is enough, and none comes too early. */
static void a_sender_is_looked_at_when_the_tail_has_passed_it(void **state)
{
	start();
	for (int n = 0; n < 3; n++)
		send_one(0);
	send_one(1);
	assert_null(message_next(&queue, lane_tx_tail(&tx)));
	assert_true(receive_one());
	assert_ptr_equal(message_next(&queue, lane_tx_tail(&tx)), &pairs[0].sender);
	assert_null(message_next(&queue, lane_tx_tail(&tx)));
	assert_true(message_awaited(&queue));
	while (receive_one())
		;
	assert_ptr_equal(message_next(&queue, lane_tx_tail(&tx)), &pairs[1].sender);
	assert_ptr_equal(message_next(&queue, lane_tx_tail(&tx)), &pairs[0].sender);
	assert_null(message_next(&queue, lane_tx_tail(&tx)));
	assert_false(message_awaited(&queue));
	end();
}

static void a_sender_that_goes_is_not_looked_at(void **state)
{
	start();
	send_one(0);
	send_one(1);
	message_forget(&pairs[0].sender);
	message_forget(&pairs[0].sender);
	while (receive_one())
		;
	assert_ptr_equal(message_next(&queue, lane_tx_tail(&tx)), &pairs[1].sender);
	assert_null(message_next(&queue, lane_tx_tail(&tx)));
	end();
}

static void only_the_qp_itself_is_believed(void **state)
{
	struct seg_qp entry = { .qpn = QPN };
	struct message_progress p = { .psn = 0xfedcba, .msn = 0x123456, .syndrome = 0xa5 }, got;

	assert_false(message_published(&entry, QPN, &got));
	message_publish(&entry.progress, &p);
	assert_true(message_published(&entry, QPN, &got));
	assert_int_equal(got.psn, p.psn);
	assert_int_equal(got.msn, p.msn);
	assert_int_equal(got.syndrome, p.syndrome);
	assert_false(message_published(&entry, QPN + 1, &got));
	store_release(&entry.qpn, GONE);
	assert_false(message_published(&entry, QPN, &got));
	p = (struct message_progress){ 0 };
	entry.qpn = QPN;
	message_publish(&entry.progress, &p);
	assert_true(message_published(&entry, QPN, &got));
}

/* A receiver that dies leaves its senders without news, and never with wrong ones. */
static void a_dead_receiver_says_nothing(void **state)
{
	start();
	for (int round = 0; round < 200; round++)
		step();
	for (int round = 0; round < 200; round++) {
		send_one(random_below(QPS));
		look_all();
	}
	for (uint32_t i = 0; i < QPS; i++)
		assert_true((pairs[i].epsn - pairs[i].una) % PSNS <= DEPTH);
	end();
}

/* Whatever lies in shared memory, values stay in their ranges and calls end. */
static void garbage_stays_in_range(void **state)
{
	start();
	for (int round = 0; round < 20000; round++) {
		uint8_t data[MESSAGE_HEADER + 8];
		uint32_t len = random_below(sizeof(data) + 1), i = random_below(QPS);
		struct message_progress p;
		struct message m;

		random_bytes(data, sizeof(data));
		if (message_get(&m, data, len)) {
			assert_true(len >= MESSAGE_HEADER);
			assert_true(m.qpn < PSNS && m.psn < PSNS && m.op < MESSAGE_OPS);
		}
		entries[i].progress = random_u64();
		message_published(&entries[i], QPN + i, &p);
		assert_true(p.psn < PSNS && p.msn < PSNS);
		send_one(i);
		lane->tail = random_u64();
		for (uint32_t n = 0; message_next(&queue, lane_tx_tail(&tx)); n++)
			assert_true(n < 2 * QPS);
	}
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_known_was_executed_and_nothing_is_missed),
		cmocka_unit_test(a_sender_is_looked_at_when_the_tail_has_passed_it),
		cmocka_unit_test(a_sender_that_goes_is_not_looked_at),
		cmocka_unit_test(only_the_qp_itself_is_believed),
		cmocka_unit_test(a_dead_receiver_says_nothing),
		cmocka_unit_test(garbage_stays_in_range),
	};

	random_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
