/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which packets are sent together: rows of packets, and the messages that a wire with segmentation
 * offload makes of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "core/base/rx_queues.h"
#include "core/base/state.h"
#include "core/progress/poll_loop.h"
#include "core/qp/qp.h"
#include "core/tx/tx_batch.h"
#include "roce/const.h"
#include "roce/icrc.h"
#include "util/compiler.h"

struct vrb_process vrb;
struct vrb_rx_queue vrb_rx_queues[VRB_RX_QUEUES];
unsigned int vrb_extra_rx_queues;

enum {
	OPCODE_ACK = 0x11,	/* RC */
	OPCODE_SEND = 0x00,
	/* without its ICRC; 16 bytes longer than the packets after it */
	WRITE_FIRST = 12 + 16 + 4096,
	MIDDLE = 12 + 4096,
	READ_END = 12 + 4 + 4096,	/* the first and the last of an answer */
	SMALL_FIRST = 12 + 16 + 1024,
	SMALL_MIDDLE = 12 + 1024,
	SMALL_READ_END = 12 + 4 + 1024,
	ACK = 12 + 4,
};

/*
 * Sent packets: a digit for each packet of a message, a space between messages, a bar between
 * calls.
 */
static char left[512];
static bool refuses;	/* the wire no longer supports runs */
static const uint8_t *spoiled;	/* the data of a packet with a wrong ICRC */

static bool intact(const struct wire_pkt *p)
{
	return roce_icrc_check(&p->path, true, p->ip_id, p->data, p->len) == ROCE_ICRC_GOOD;
}

static unsigned int take(struct wire *w, struct wire_pkt *pkts, unsigned int n)
{
	char *out = left + strlen(left);

	for (unsigned int i = 0, k; i < n; i += k) {
		assert_int_equal(pkts[i].ip_id, 0);
		for (k = 1; i + k < n && pkts[i + k].ip_id; k++)
			assert_int_equal(pkts[i + k].ip_id, k);
		if (refuses && k > 1) {
			w->runs = false;
			pkts[i].alone = true;
			return i;
		}
		for (unsigned int j = i; j < i + k; j++)
			assert_int_equal(intact(&pkts[j]), pkts[j].data != spoiled);
		out += sprintf(out, "%u ", k);
	}
	strcpy(out, "| ");
	return n;
}

static const struct wire_ops ops = { .send = take };
static struct wire wire = { .ops = &ops, .port = 4791 };

/* Adds a packet of `len` bytes and its ICRC. */
static void add_from(struct vrb_qp *qp, struct vrb_tx_batch *b, uint8_t opcode, uint32_t len,
		     uint8_t host, uint8_t block)
{
	struct net_path path = { .src.raw = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 },
				 .dst.raw = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = host } };
	uint8_t *p = vrb_tx_batch_room(b);

	memset(p, 0, len);
	p[0] = opcode;
	p[5] = block;
	vrb_tx_batch_seal(b, qp, &path, len, false);
}

static void add(struct vrb_tx_batch *b, uint8_t opcode, uint32_t len, uint8_t host, uint8_t block)
{
	add_from(NULL, b, opcode, len, host, block);
}

struct packets {
	unsigned int count;
	uint32_t len;
	uint8_t opcode, host, block;
};

static const struct row {
	const char *what;
	struct packets in[8];
	const char *out;
} rows[] = {
	{ "one packet", { { 1, MIDDLE } }, "1 | " },
	{ "equal ones are a run", { { 3, MIDDLE } }, "3 | " },
	{ "a shorter one ends it", { { 3, MIDDLE }, { 1, 100 }, { 1, 100 } }, "4 1 | " },
	{ "a longer one begins another", { { 2, 100 }, { 2, MIDDLE } }, "2 2 | " },
	{ "so does another place",
	  { { 2, 100, OPCODE_SEND, 1 }, { 2, 100, OPCODE_SEND, 2 } },
	  "2 2 | " },
	{ "and another block of QP numbers",
	  { { 2, 100, OPCODE_SEND, 1, 0 }, { 2, 100, OPCODE_SEND, 1, 1 } },
	  "2 2 | " },
	{ "a SEND of 64 KiB is one packet more than a run holds", { { 16, MIDDLE } }, "15 | 1 | " },
	{ "and runs go on from one to the next",
	  { { 16, MIDDLE }, { 16, MIDDLE }, { 16, MIDDLE } },
	  "15 | 15 | 15 | 3 | " },
	{ "with small packets as well",
	  { { 64, SMALL_MIDDLE }, { 64, SMALL_MIDDLE } },
	  "62 | 62 | 4 | " },
	{ "the first of a WRITE is longer",
	  { { 1, WRITE_FIRST }, { 15, MIDDLE }, { 1, WRITE_FIRST }, { 15, MIDDLE } },
	  "2 14 | 2 14 | " },
	{ "and a message of small packets is one batch, too",
	  { { 1, SMALL_FIRST }, { 63, SMALL_MIDDLE }, { 1, SMALL_FIRST }, { 63, SMALL_MIDDLE } },
	  "2 62 | 2 62 | " },
	{ "the end of an answer is a run with the beginning of the next",
	  { { 1, READ_END }, { 14, MIDDLE }, { 2, READ_END }, { 14, MIDDLE }, { 1, READ_END } },
	  "2 13 | 3 13 | 1 | " },
	{ "also with small packets",
	  { { 1, SMALL_READ_END }, { 62, SMALL_MIDDLE }, { 2, SMALL_READ_END },
	    { 62, SMALL_MIDDLE }, { 1, SMALL_READ_END } },
	  "2 61 | 3 61 | 1 | " },
	{ "what follows it fills runs",
	  { { 1, WRITE_FIRST }, { 31, MIDDLE } },
	  "2 14 | 15 | 1 | " },
	{ "so many of any kind", { { 70, 100 } }, "64 | 6 | " },
	{ "an ACK ends the run behind it", { { 1, ACK, OPCODE_ACK }, { 2, 100 } }, "3 | " },
	{ "if there is one run only",
	  { { 1, ACK, OPCODE_ACK }, { 2, 100 }, { 2, MIDDLE } },
	  "1 2 2 | " },
	{ "or the run before it", { { 3, MIDDLE }, { 1, ACK, OPCODE_ACK } }, "4 | " },
	{ "behind a message of two packets it is with the last",
	  { { 1, WRITE_FIRST }, { 1, MIDDLE }, { 1, ACK, OPCODE_ACK } },
	  "1 2 | " },
	{ "and of more",
	  { { 1, WRITE_FIRST }, { 2, MIDDLE }, { 1, ACK, OPCODE_ACK } },
	  "2 2 | " },
	{ "and of such as end with a short one",
	  { { 3, MIDDLE }, { 1, 100 }, { 1, ACK, OPCODE_ACK } },
	  "3 2 | " },
	{ "also in a batch that is almost full",
	  { { 14, MIDDLE }, { 1, 100 }, { 1, ACK, OPCODE_ACK } },
	  "14 2 | " },
	{ "but not if it has another destination",
	  { { 1, WRITE_FIRST }, { 1, MIDDLE }, { 1, ACK, OPCODE_ACK, 2 } },
	  "2 1 | " },
	{ "or goes to another block",
	  { { 1, WRITE_FIRST }, { 1, MIDDLE }, { 1, ACK, OPCODE_ACK, 0, 1 } },
	  "2 1 | " },
	{ "nor is an ACK taken from its message",
	  { { 3, MIDDLE }, { 2, ACK, OPCODE_ACK } },
	  "4 1 | " },
};

static void test_runs(void **state)
{
	struct vrb_tx_batch *b = vrb_tx_batch_own();

	refuses = false;
	for (const struct row *r = rows; r < rows + ARRAY_SIZE(rows); r++) {
		wire.runs = true;
		left[0] = '\0';
		for (const struct packets *p = r->in; p < r->in + ARRAY_SIZE(r->in); p++)
			for (unsigned int i = 0; i < p->count; i++)
				add(b, p->opcode, p->len, p->host, p->block);
		vrb_tx_batch_flush(b);
		if (strcmp(left, r->out))
			fail_msg("%s: \"%s\" left, not \"%s\"", r->what, left, r->out);
		assert_int_equal(b->n, 0);
	}
}

/* The run becomes single packets with identification 0 and another ICRC. */
static void test_refused_run(void **state)
{
	struct vrb_tx_batch *b = vrb_tx_batch_own();

	refuses = wire.runs = true;
	left[0] = '\0';
	for (unsigned int i = 0; i < 3; i++)
		add(b, OPCODE_SEND, MIDDLE, 1, 0);
	vrb_tx_batch_flush(b);
	assert_string_equal(left, "1 1 1 | ");
	left[0] = '\0';
	for (unsigned int i = 0; i < 2; i++)
		add(b, OPCODE_SEND, MIDDLE, 1, 0);
	vrb_tx_batch_flush(b);
	assert_string_equal(left, "1 1 | ");
}

static void test_no_wire(void **state)
{
	struct vrb_tx_batch *b = vrb_tx_batch_own();
	uint64_t before = vrb_main_rx_queue->stats.send_lost;

	vrb_main_rx_queue->wire = NULL;
	add(b, OPCODE_SEND, MIDDLE, 1, 0);
	vrb_tx_batch_flush(b);
	vrb_main_rx_queue->wire = &wire;
	assert_int_equal(vrb_main_rx_queue->stats.send_lost, before + 1);
}

/* A thread with an RX queue of its own shares neither a socket nor a counter with others. */
static void test_queue_of_qp(void **state)
{
	struct vrb_tx_batch *b = vrb_tx_batch_own();
	static struct vrb_qp qp = { .config.shard = 1 };
	struct vrb_rx_queue *own = &vrb_rx_queues[1];
	uint64_t by_main = vrb_main_rx_queue->stats.sent_pkts;

	own->wire = &wire;
	vrb_extra_rx_queues = 1;
	vrb_main_rx_queue->wire = NULL;
	wire.runs = true;
	refuses = false;
	left[0] = '\0';
	for (unsigned int i = 0; i < 2; i++)
		add_from(&qp, b, OPCODE_SEND, MIDDLE, 1, 0);
	vrb_tx_batch_flush(b);
	vrb_extra_rx_queues = 0;
	vrb_main_rx_queue->wire = &wire;
	assert_string_equal(left, "2 | ");
	assert_int_equal(own->stats.sent_pkts, 2);
	assert_int_equal(vrb_main_rx_queue->stats.sent_pkts, by_main);
}

/* A full batch waits for the ACK behind the last packet of the QP's output. */
static void test_ack_of_full_batch(void **state)
{
	struct vrb_tx_batch *b = vrb_tx_batch_own();
	static struct vrb_qp qp = { .wq.state = IBV_QPS_RTS };

	qp.roce.wq = &qp.wq;
	refuses = false;
	for (int pending = 0; pending < 2; pending++) {
		left[0] = '\0';
		qp.roce.resp.ack.pending = pending;
		add_from(&qp, b, OPCODE_SEND, WRITE_FIRST, 1, 0);
		for (unsigned int i = 0; i < 15; i++)
			add_from(&qp, b, OPCODE_SEND, MIDDLE, 1, 0);
		qp.roce.resp.ack.pending = false;
		add_from(&qp, b, OPCODE_ACK, ACK, 1, 0);
		vrb_tx_batch_flush(b);
		assert_string_equal(left, pending ? "2 15 | " : "2 14 | 1 | ");
	}
}

/* One that is announced and does not come makes no batch longer than its memory. */
static void test_missing_ack(void **state)
{
	struct vrb_tx_batch *b = vrb_tx_batch_own();
	static struct vrb_qp qp = { .wq.state = IBV_QPS_RTS };

	qp.roce.wq = &qp.wq;
	qp.roce.resp.ack.pending = true;
	refuses = false;
	for (unsigned int i = 0; i < 200; i++) {
		add_from(&qp, b, OPCODE_SEND, MIDDLE, 1, 0);
		assert_true(b->used + ROCE_MAX_PACKET <= sizeof(b->data));
		left[0] = '\0';
	}
	vrb_tx_batch_flush(b);
}

/* The ICRC of a packet that a fault has spoiled is not computed anew. */
static void test_spoiled_packet(void **state)
{
	struct vrb_tx_batch *b = vrb_tx_batch_own();

	refuses = false;
	left[0] = '\0';
	add(b, OPCODE_SEND, WRITE_FIRST, 1, 0);
	add(b, OPCODE_SEND, MIDDLE, 1, 0);
	b->flipped = 1;
	add(b, OPCODE_ACK, ACK, 1, 0);
	vrb_tx_batch_flush(b);
	assert_string_equal(left, "2 1 | ");
	assert_int_equal(b->flipped, 0);
}

/* Nor does it become right where its run is given up. */
static void test_spoiled_packet_of_refused_run(void **state)
{
	struct vrb_tx_batch *b = vrb_tx_batch_own();

	refuses = wire.runs = true;
	left[0] = '\0';
	for (int i = 0; i < 3; i++)
		add(b, OPCODE_SEND, MIDDLE, 1, 0);
	b->flipped = 1 << 1;
	spoiled = b->pkts[1].data;
	vrb_tx_batch_flush(b);
	assert_string_equal(left, "1 1 1 | ");
	spoiled = NULL;
	refuses = false;
	wire.runs = true;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_runs),
		cmocka_unit_test(test_refused_run),
		cmocka_unit_test(test_no_wire),
		cmocka_unit_test(test_queue_of_qp),
		cmocka_unit_test(test_ack_of_full_batch),
		cmocka_unit_test(test_missing_ack),
		cmocka_unit_test(test_spoiled_packet),
		cmocka_unit_test(test_spoiled_packet_of_refused_run),
	};

	vrb_main_rx_queue->wire = &wire;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
