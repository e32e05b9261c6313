/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages over a real lane against an oracle: queue pairs of one process send to those of another,
 * which executes some messages and declines others. Every message that a sender completes must have
 * been executed, and once the receiver has consumed everything, each sender must see that with one
 * read. Covers all interleavings of both ends, counters that wrap, entries that change owners, and
 * corrupted memory.
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
	QPN = 0x100,		/* of the receiver's first QP */
	OWN = 0x900,		/* of the sender's */
	GONE = 0xffffff,
	LEN_MAX = MESSAGE_LONGEST + 1,
};

/* Both ends of one connection. */
struct pair {
	struct message_sender sender;
	uint32_t next;		/* PSN of the next message */
	uint32_t una;		/* all PSNs before it are known to be executed */
	uint32_t epsn;		/* receiver: the only PSN that it executes; the oracle */
	bool nak;		/* receiver: it declined epsn and has sent a NAK packet */
	bool unpublished;	/* receiver: it left the ACK of the last one to the next */
	uint32_t looked;	/* lane tail when the sender last read the progress */
};

static struct pair pairs[QPS];
static struct seg_qp entries[QPS];
static struct lane *lane;
static struct lane_tx tx;
static struct lane_rx rx;
static struct message_queue queue;

static uint32_t in_flight(const struct pair *p)
{
	return (p->next - p->una) % PSNS;
}

static void start(void)
{
	lane = aligned_alloc(CACHE_LINE, sizeof(*lane));
	memset(lane, 0, sizeof(*lane));
	lane_tx_init(&tx, lane);
	lane_rx_init(&rx, lane);
	/* all indices wrap during the test */
	tx.head = tx.tail = rx.next = lane->tail = -1000u;
	message_queue_init(&queue);
	memset(entries, 0, sizeof(entries));
	for (uint32_t i = 0; i < QPS; i++) {
		pairs[i] = (struct pair){ .next = PSNS - 100 * i, .looked = tx.tail - 1 };
		pairs[i].next %= PSNS;
		pairs[i].una = pairs[i].epsn = pairs[i].next;
		message_sender_init(&pairs[i].sender);
		entries[i].qpn = QPN + i;
		entries[i].dest_qpn = OWN + i;
	}
}

static void end(void)
{
	free(lane);
}

/* The content of a message follows from its QP and its PSN. */
static struct message content(uint32_t i, uint32_t psn, uint8_t *payload)
{
	uint32_t len = psn % 5 ? psn % 90 : psn * 31 % LEN_MAX;

	for (uint32_t k = 0; k < len; k++)
		payload[k] = psn + 7 * k + i;
	return (struct message){ .qpn = QPN + i, .psn = psn, .imm = psn * 2654435761u + i,
				 .op = psn % MESSAGE_OPS, .flags = psn % 4,
				 .va = UINT64_C(0x123456789abcdef1) * psn, .rkey = ~psn,
				 .len = len, .payload = payload };
}

static void send_one(uint32_t i)
{
	struct lane_head head = { .where = LANE_INLINE };
	uint8_t payload[LEN_MAX];
	struct pair *p = &pairs[i];
	struct message m = content(i, p->next, payload);
	uint8_t *place = message_place(&tx, m.len + message_remote(m.op));

	if (in_flight(p) == DEPTH || !place)
		return;
	if (random_below(2))
		m.payload = memcpy(place, payload, m.len);
	message_sent(&queue, &p->sender, tx.head);
	message_put(&tx, &head, &m);
	p->next = (p->next + 1) % PSNS;
}

static void expect_content(const struct message *m, const struct lane_head *head)
{
	uint8_t payload[LEN_MAX];
	struct message was = content(m->qpn - QPN, m->psn, payload);

	assert_true(head->flags & LANE_MESSAGE);
	assert_int_equal(m->imm, was.imm);
	assert_int_equal(m->op, was.op);
	assert_int_equal(m->flags, was.flags);
	if (m->op == MESSAGE_WRITE_IMM) {
		assert_int_equal(m->va, was.va);
		assert_int_equal(m->rkey, was.rkey);
	}
	assert_int_equal(m->len, was.len);
	assert_memory_equal(m->payload, payload, m->len);
}

/*
 * The receiver executes the expected message, except for a few that it declines. more: the ACK of
 * the next one acknowledges it.
 */
static void run(const struct message *m, bool more)
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
	p->unpublished = more;
	if (!more)
		message_publish(&entries[i].progress, &done);
}

/* Receives a message, and up to `run` that follow it to the same QP, with one ACK for all. */
static bool receive(uint32_t run_length)
{
	struct lane_slot copy;
	const uint8_t *data;
	bool more;

	do {
		const struct lane_slot *next;
		struct message m;

		if (!lane_rx_get(&rx, &copy, &data))
			return false;
		assert_true(message_get(&m, data, copy.head.len));
		assert_in_range(m.qpn, QPN, QPN + QPS - 1);
		expect_content(&m, &copy.head);
		next = lane_rx_peek(&rx);
		more = next && run_length-- && message_follows(data, copy.head.len, next);
		run(&m, more);
		lane_rx_next(&rx);
	} while (more);
	lane_rx_free(&rx, &copy.head);
	return true;
}

static bool receive_one(void)
{
	return receive(0);
}

static void read_progress(struct pair *p, uint32_t tail)
{
	uint32_t i = p - pairs;
	struct message_progress done;
	uint32_t una;

	/* the lane has moved since the last read */
	assert_int_not_equal(p->looked, tail);
	p->looked = tail;
	if (!message_published(&entries[i], QPN + i, OWN + i, &done))
		return;
	assert_int_equal(done.msn, done.psn ^ 1);
	assert_int_equal(done.syndrome, i);
	una = (done.psn + 1) % PSNS;
	if ((una - p->una) % PSNS <= in_flight(p))
		p->una = una;
	/* The NAK, a packet, acknowledges what precedes it. */
	if (!(p->nak && p->unpublished))
		assert_int_equal(p->una, p->epsn);
}

static void read_all_progress(void)
{
	uint32_t tail = lane_tx_tail(&tx);
	struct message_sender *s;

	while ((s = message_next(&queue, tail)))
		read_progress(list_entry(s, struct pair, sender), tail);
}

/* The NAK packet arrives: the sender goes back to it, as the engine does. */
static void receive_nak(struct pair *p)
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
		for (uint64_t n = random_below(12); n && receive(random_below(4)); n--)
			;
		break;
	case 2:
		read_all_progress();
		break;
	default:
		receive_nak(&pairs[random_below(QPS)]);
	}
	for (uint32_t i = 0; i < QPS; i++)
		assert_true((pairs[i].epsn - pairs[i].una) % PSNS <= DEPTH);
}

static void expect_all_known(void)
{
	while (receive_one())
		;
	read_all_progress();
	assert_false(message_awaited(&queue));
	for (uint32_t i = 0; i < QPS; i++) {
		receive_nak(&pairs[i]);
		assert_int_equal(pairs[i].una, pairs[i].epsn);
	}
}

static void progress_is_true_and_complete(void **state)
{
	start();
	for (int round = 0; round < ROUNDS; round++) {
		step();
		if (random_below(500) == 0)
			expect_all_known();
	}
	expect_all_known();
	end();
}

/* However many messages are in flight, one read per QP suffices, and no read is too early. */
static void progress_is_read_when_the_tail_has_passed(void **state)
{
	start();
	for (int n = 0; n < 3; n++)
		send_one(0);
	send_one(1);
	assert_false(message_due(&queue, lane_tx_tail(&tx)));
	assert_null(message_next(&queue, lane_tx_tail(&tx)));
	assert_true(receive_one());
	assert_true(message_due(&queue, lane_tx_tail(&tx)));
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

/*
 * The receiver ends its round between two messages: everything that it has published by then is
 * complete.
 */
static void progress_is_read_again_while_a_later_message_waits(void **state)
{
	start();
	send_one(0);
	send_one(0);
	send_one(1);
	assert_true(receive_one());
	assert_ptr_equal(message_next(&queue, lane_tx_tail(&tx)), &pairs[0].sender);
	assert_null(message_next(&queue, lane_tx_tail(&tx)));
	assert_true(receive_one());
	assert_true(message_due(&queue, lane_tx_tail(&tx)));
	assert_ptr_equal(message_next(&queue, lane_tx_tail(&tx)), &pairs[0].sender);
	assert_null(message_next(&queue, lane_tx_tail(&tx)));
	assert_true(message_awaited(&queue));
	end();
}

static void senders_wait_for_their_own_tail(void **state)
{
	start();
	for (uint32_t i = 0; i < 2; i++)
		assert_false(message_awaited_by_others(&queue, &pairs[i].sender));
	send_one(0);
	assert_false(message_awaited_by_others(&queue, &pairs[0].sender));
	assert_true(message_awaited_by_others(&queue, &pairs[1].sender));
	send_one(1);
	for (uint32_t i = 0; i < 2; i++)
		assert_true(message_awaited_by_others(&queue, &pairs[i].sender));
	message_forget(&queue, &pairs[0].sender);
	assert_true(message_awaited_by_others(&queue, &pairs[0].sender));
	assert_false(message_awaited_by_others(&queue, &pairs[1].sender));
	message_forget(&queue, &pairs[1].sender);
	assert_false(message_awaited_by_others(&queue, &pairs[0].sender));
	end();
}

static void a_removed_sender_is_not_read(void **state)
{
	start();
	send_one(0);
	send_one(1);
	message_forget(&queue, &pairs[0].sender);
	message_forget(&queue, &pairs[0].sender);
	while (receive_one())
		;
	assert_ptr_equal(message_next(&queue, lane_tx_tail(&tx)), &pairs[1].sender);
	assert_null(message_next(&queue, lane_tx_tail(&tx)));
	send_one(1);
	assert_true(message_awaited(&queue));
	message_forget(&queue, &pairs[1].sender);
	assert_false(message_awaited(&queue));
	end();
}

/* A receiver that was reset may have another peer, and its progress is for that peer. */
static void only_progress_of_the_same_qp_counts(void **state)
{
	struct seg_qp entry = { .qpn = QPN, .dest_qpn = OWN };
	struct message_progress p = { .psn = 0xfedcba, .msn = 0x123456, .syndrome = 0xa5 }, got;

	assert_false(message_published(&entry, QPN, OWN, &got));
	message_publish(&entry.progress, &p);
	assert_true(message_published(&entry, QPN, OWN, &got));
	assert_int_equal(got.psn, p.psn);
	assert_int_equal(got.msn, p.msn);
	assert_int_equal(got.syndrome, p.syndrome);
	assert_false(message_published(&entry, QPN + 1, OWN, &got));
	assert_false(message_published(&entry, QPN, OWN + 1, &got));
	store_release(&entry.qpn, GONE);
	assert_false(message_published(&entry, QPN, OWN, &got));
	p = (struct message_progress){ 0 };
	entry.qpn = QPN;
	message_publish(&entry.progress, &p);
	assert_true(message_published(&entry, QPN, OWN, &got));
}

/* A dead receiver gives its senders no more progress, and never wrong progress. */
static void a_dead_receiver_gives_no_progress(void **state)
{
	start();
	for (int round = 0; round < 200; round++)
		step();
	for (int round = 0; round < 200; round++) {
		send_one(random_below(QPS));
		read_all_progress();
	}
	for (uint32_t i = 0; i < QPS; i++)
		assert_true((pairs[i].epsn - pairs[i].una) % PSNS <= DEPTH);
	end();
}

/* Whatever shared memory contains, values stay in their ranges and calls return. */
static void garbage_stays_in_range(void **state)
{
	start();
	for (int round = 0; round < 20000; round++) {
		uint8_t data[MESSAGE_HEADER + MESSAGE_REMOTE + 8];
		uint32_t len = random_below(sizeof(data) + 1), i = random_below(QPS);
		struct message_progress p;
		struct message m;

		random_bytes(data, sizeof(data));
		if (message_get(&m, data, len)) {
			assert_int_equal(len, MESSAGE_HEADER + m.len + message_remote(m.op));
			assert_true(m.qpn < PSNS && m.psn < PSNS && m.op < MESSAGE_OPS);
		}
		entries[i].progress = random_u64();
		message_published(&entries[i], QPN + i, OWN + i, &p);
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
		cmocka_unit_test(progress_is_true_and_complete),
		cmocka_unit_test(progress_is_read_when_the_tail_has_passed),
		cmocka_unit_test(progress_is_read_again_while_a_later_message_waits),
		cmocka_unit_test(senders_wait_for_their_own_tail),
		cmocka_unit_test(a_removed_sender_is_not_read),
		cmocka_unit_test(only_progress_of_the_same_qp_counts),
		cmocka_unit_test(a_dead_receiver_gives_no_progress),
		cmocka_unit_test(garbage_stays_in_range),
	};

	random_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
