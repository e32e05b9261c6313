/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Both ends of a stream against each other over a simulated channel with delay: the data read is
 * the data sent, nothing is overwritten, and the stream never stalls for good. Also a misbehaving
 * peer.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "rsocket/rs_rx.h"
#include "rsocket/rs_tx.h"

enum {
	WORLDS = 400,
	BYTES = 20000,
	MOST_RING = 1024,
	FLIGHT = 64,
	RING_AT = 0x1000,
};

static uint64_t seed;

static uint32_t next_random(void)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(seed >> 33);
}

static uint32_t below(uint32_t n)
{
	return next_random() % n;
}

/* A message in flight, in either direction. */
struct message {
	uint32_t n; /* data; 0: a grant */
	struct rs_grant grant;
};

struct world {
	struct rs_tx tx;
	struct rs_rx rx;
	uint8_t list[RS_SGL_ENTRIES * RS_SGE_LEN];
	uint8_t ring[MOST_RING];
	struct message data[FLIGHT], grants[FLIGHT];
	uint32_t data_n, grants_n;
	uint32_t sent, read;
	uint16_t queue, posted; /* receives */
};

static uint8_t byte_at(uint32_t i)
{
	return (uint8_t)(i * 7 + (i >> 8));
}

static void make(struct world *w)
{
	uint32_t size = 2 * (1 + below(MOST_RING / 2));
	struct rs_conn peer = { .sgl = { .length = RS_SGL_ENTRIES } };

	memset(w, 0, sizeof(*w));
	w->queue = (uint16_t)(16 + below(16));
	rs_rx_init(&w->rx, size, w->queue);
	rs_rx_peer(&w->rx, &peer);
	peer.credits = w->queue;
	peer.ring = (struct rs_region){ RING_AT, 1, size / 2 };
	rs_tx_init(&w->tx, w->list, &peer);
}

static bool send_some(struct world *w)
{
	uint32_t room = rs_tx_room(&w->tx), n, i;
	struct rs_region to;

	if (!room || w->sent == BYTES || w->data_n == FLIGHT)
		return false;
	n = 1 + below(room < BYTES - w->sent ? room : BYTES - w->sent);
	rs_tx_take(&w->tx, n, &to);
	assert_int_equal(to.length, n);
	assert_in_range(to.addr - RING_AT, 0, w->rx.size - n);
	for (i = 0; i < n; i++)
		w->ring[to.addr - RING_AT + i] = byte_at(w->sent++);
	w->data[w->data_n++].n = n;
	return true;
}

static void pop(struct message *m, uint32_t *n)
{
	memmove(m, m + 1, --*n * sizeof(*m));
}

static bool deliver(struct world *w)
{
	if (w->data_n && below(2)) {
		assert_int_equal(rs_rx_came(&w->rx, w->data[0].n), 0);
		pop(w->data, &w->data_n);
		return true;
	}
	if (w->grants_n && below(2)) {
		const struct rs_grant *g = &w->grants[0].grant;
		struct rs_region r = { RING_AT + g->offset, 1, w->rx.size / 2 };

		if (g->has_half)
			rs_sge_encode(w->list + g->entry * RS_SGE_LEN, &r, RS_BIG_ENDIAN);
		rs_tx_grant(&w->tx, g->imm_arg);
		pop(w->grants, &w->grants_n);
		return true;
	}
	return false;
}

static bool read_some(struct world *w)
{
	struct rs_span span[2];
	uint32_t n;

	if (!w->rx.unread)
		return false;
	n = 1 + below(w->rx.unread);
	for (unsigned int i = 0, parts = rs_rx_peek(&w->rx, n, span); i < parts; i++)
		for (uint32_t j = 0; j < span[i].len; j++)
			assert_int_equal(w->ring[span[i].offset + j], byte_at(w->read++));
	rs_rx_read(&w->rx, n);
	return true;
}

static bool grant_some(struct world *w)
{
	if (!rs_rx_owes(&w->rx) || w->grants_n == 4)
		return false;
	rs_rx_grant(&w->rx, &w->grants[w->grants_n++].grant);
	return true;
}

static bool step(struct world *w)
{
	switch (below(4)) {
	case 0:
		return send_some(w);
	case 1:
		return deliver(w);
	case 2:
		return read_some(w);
	default:
		return grant_some(w);
	}
}

static void both_halves(void **state)
{
	printf("seed %llu\n", (unsigned long long)seed);
	for (int i = 0; i < WORLDS; i++) {
		struct world w;
		int idle = 0;

		make(&w);
		while (w.read < BYTES) {
			idle = step(&w) ? 0 : idle + 1;
			assert_true(idle < 10000);
			assert_int_equal(w.rx.unread + w.rx.announced + w.rx.freed, w.rx.size);
		}
	}
}

/* More data than was announced: refused, and nothing changes. */
static void too_much(void **state)
{
	struct rs_rx rx;

	rs_rx_init(&rx, 4096, 16);
	assert_int_equal(rs_rx_came(&rx, 2049), EPROTO);
	assert_int_equal(rs_rx_came(&rx, UINT32_MAX), EPROTO);
	assert_int_equal(rx.unread, 0);
	assert_int_equal(rs_rx_came(&rx, 2048), 0);
	assert_int_equal(rs_rx_came(&rx, 1), EPROTO);
	assert_int_equal(rx.unread, 2048);
}

/* An announcement that shrinks between the query and the message. */
static void changed_meanwhile(void **state)
{
	struct rs_conn peer = { .credits = 4, .ring = { RING_AT, 1, 100 } };
	uint8_t list[RS_SGL_ENTRIES * RS_SGE_LEN] = { 0 };
	struct rs_region to, less = { RING_AT, 1, 10 };
	struct rs_tx tx;

	rs_tx_init(&tx, list, &peer);
	assert_int_equal(rs_tx_room(&tx), 100);
	rs_sge_encode(list, &less, RS_BIG_ENDIAN);
	rs_tx_take(&tx, 100, &to);
	assert_int_equal(to.length, 10);
	assert_int_equal(rs_tx_room(&tx), 0);
}

/* Credits end at the limit, also after the count has wrapped. */
static void credits(void **state)
{
	struct rs_conn peer = { .credits = 2, .ring = { RING_AT, 1, 100 } };
	uint8_t list[RS_SGL_ENTRIES * RS_SGE_LEN] = { 0 };
	struct rs_region to;
	struct rs_tx tx;

	rs_tx_init(&tx, list, &peer);
	rs_tx_take(&tx, 1, &to);
	rs_tx_take(&tx, 1, &to);
	assert_int_equal(to.addr, RING_AT + 1);
	assert_int_equal(rs_tx_room(&tx), 0);
	rs_tx_grant(&tx, 0x10003);
	assert_int_equal(rs_tx_room(&tx), 98);
	rs_tx_spend(&tx);
	assert_int_equal(rs_tx_room(&tx), 0);
	tx.sent = tx.limit = 0xffff;
	rs_tx_grant(&tx, 0);
	assert_true(rs_tx_credit(&tx));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_halves),
		cmocka_unit_test(too_much),
		cmocka_unit_test(changed_meanwhile),
		cmocka_unit_test(credits),
	};

	seed = 20261122;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
