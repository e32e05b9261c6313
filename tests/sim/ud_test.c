/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams: Q_Keys, the GRH in the receive buffer, lengths, multicast, and datagrams that are
 * dropped silently (IBTA vol 1, 9.8.3).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pair.h"
#include "util/be.h"
#include "util/compiler.h"

enum { QKEY = 0x11111111, GRH = 40 };

static struct pair new_pair(const struct net_config *net, struct net_path *path)
{
	struct sim_qp_attr attr = sim_qp_defaults();
	struct pair p;

	attr.type = IBV_QPT_UD;
	p = pair_new("ud", net, &attr, NULL);
	sim_ud_ready(p.a, QKEY);
	sim_ud_ready(p.b, QKEY);
	*path = sim_path(p.h[0], p.h[1]);
	return p;
}

static struct sim_wr datagram(struct pair *p, uint32_t len, const struct net_path *path)
{
	struct sim_wr wr = pair_wr(p, IBV_WR_SEND, len);

	wr.path = path;
	wr.qpn = p->b->wq.qpn;
	wr.qkey = QKEY;
	return wr;
}

static void every_length_arrives(void **state)
{
	static const uint32_t len[] = { 0, 1, 2, 3, 4, 5, 63, 64, 1000, 1022, 1023, 1024 };
	struct net_path path;
	struct pair p = new_pair(NULL, &path);

	for (size_t i = 0; i < ARRAY_SIZE(len); i++) {
		struct sim_wr wr = datagram(&p, len[i], &path);

		if (i % 2)
			wr.opcode = IBV_WR_SEND_WITH_IMM;
		pair_recv(&p, GRH + 1024);
		pair_post(&p, wr);
	}
	pair_go(&p);
	pair_expect_counts(&p, ARRAY_SIZE(len), ARRAY_SIZE(len));
	for (size_t i = 0; i < ARRAY_SIZE(len); i++) {
		const struct wq_cqe *c = &p.b->recv_cqes.v[i];
		const uint8_t *buf = p.h[1]->mem + PAIR_MEM / 2 + i * 4096;

		pair_expect_send(&p, i, i, IBV_WC_SUCCESS);
		pair_expect_recv(&p, i, 0x100 + i, IBV_WC_SUCCESS);
		assert_int_equal(c->byte_len, GRH + len[i]);
		assert_int_equal(c->src_qp, p.a->wq.qpn);
		assert_int_equal(c->wc_flags, IBV_WC_GRH | (i % 2 ? IBV_WC_WITH_IMM : 0));
		if (i % 2)
			assert_int_equal(c->imm, 0x01020304);
		assert_memory_equal(buf + GRH, p.h[0]->mem, len[i]);
		/* Over IPv4 the last 20 bytes of the GRH hold the IPv4 header (Annex A17). */
		assert_int_equal(buf[20], 0x45);
		assert_memory_equal(buf + 32, p.h[0]->addr.raw + 12, 4);
		assert_memory_equal(buf + 36, p.h[1]->addr.raw + 12, 4);
	}
	pair_free(&p);
}

static void wrong_qkey_is_dropped(void **state)
{
	struct net_path path;
	struct pair p = new_pair(NULL, &path);
	struct sim_wr wr = datagram(&p, 10, &path);

	pair_recv(&p, 100);
	wr.qkey = QKEY + 1;
	pair_post(&p, wr);
	wr.qkey = 0x80000000; /* privileged: the sending QP's own is used (IBTA vol 1, 10.2.5) */
	pair_post(&p, wr);
	pair_go(&p);
	pair_expect_counts(&p, 2, 1);
	pair_expect_event(&p, p.b, 0, 0);
	pair_free(&p);
}

/* A datagram without a receive is dropped; the next one uses the receive posted after that. */
static void datagram_without_receive_is_dropped(void **state)
{
	struct net_path path;
	struct pair p = new_pair(NULL, &path);

	pair_post(&p, datagram(&p, 10, &path));
	pair_go(&p);
	pair_expect_counts(&p, 1, 0);
	pair_recv(&p, 100);
	pair_post(&p, datagram(&p, 20, &path));
	pair_go(&p);
	pair_expect_counts(&p, 2, 1);
	assert_int_equal(p.b->recv_cqes.v[0].byte_len, GRH + 20);
	pair_free(&p);
}

/*
 * A datagram longer than the MTU fails at its sender; the QP moves to SQE and can be moved back to
 * RTS.
 */
static void longer_than_mtu_fails_locally(void **state)
{
	struct net_path path;
	struct pair p = new_pair(NULL, &path);

	pair_recv(&p, 4096);
	pair_post(&p, datagram(&p, 10, &path));
	pair_post(&p, datagram(&p, 1025, &path));
	pair_post(&p, datagram(&p, 10, &path));
	pair_go(&p);
	pair_expect_counts(&p, 3, 1);
	pair_expect_send(&p, 0, 0, IBV_WC_SUCCESS);
	pair_expect_send(&p, 1, 1, IBV_WC_LOC_LEN_ERR);
	pair_expect_send(&p, 2, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(p.a->wq.state, IBV_QPS_SQE);
	sim_modify(p.a, IBV_QPS_RTS);
	pair_recv(&p, 4096);
	pair_post(&p, datagram(&p, 10, &path));
	pair_go(&p);
	pair_expect_counts(&p, 4, 2);
	pair_expect_send(&p, 3, 3, IBV_WC_SUCCESS);
	pair_free(&p);
}

/*
 * A datagram longer than its receive: the receive completes with LOC_LEN_ERR, as verbs(3) says, or
 * the datagram is dropped, as by soft RoCE. Memory after the buffer must not change.
 */
static void small_receive_is_not_overrun(void **state)
{
	struct net_path path;
	struct pair p = new_pair(NULL, &path);
	uint8_t *after = p.h[1]->mem + PAIR_MEM / 2 + GRH + 9;
	uint8_t before = *after;

	pair_recv(&p, GRH + 9);
	pair_post(&p, datagram(&p, 10, &path));
	pair_go(&p);
	assert_int_equal(*after, before);
	pair_expect_counts(&p, 1, p.b->recv_cqes.n);
	if (p.b->recv_cqes.n)
		pair_expect_recv(&p, 0, 0x100, IBV_WC_LOC_LEN_ERR);
	pair_free(&p);
}

/* Exactly the datagrams that are not lost must arrive, in order. */
struct filter {
	struct rng rng;
	uint32_t n;
	bool lost[2000];
};

static bool drop_at_random(void *arg, const struct net_packet *p)
{
	struct filter *f = arg;
	bool lost = rng_percent(&f->rng, 20);

	f->lost[f->n++] = lost;
	return lost;
}

static void lossy_run(uint64_t seed)
{
	struct filter f = { 0 };
	struct net_config net = { .delay = 5000, .drop = drop_at_random, .drop_arg = &f };
	struct net_path path;
	struct pair p;
	uint32_t got = 0;

	rng_seed(&f.rng, seed);
	p = new_pair(&net, &path);
	p.w->seed = seed;
	for (uint32_t i = 0; i < 15; i++)
		pair_recv(&p, 1024 + GRH);
	for (uint32_t i = 0; i < 15; i++) {
		struct sim_wr wr = datagram(&p, rng_below(&f.rng, 1025), &path);

		wr.opcode = IBV_WR_SEND_WITH_IMM;
		wr.imm = i;
		pair_post(&p, wr);
	}
	pair_go(&p);
	for (uint32_t i = 0; i < 15; i++) {
		if (f.lost[i])
			continue;
		pair_expect_recv(&p, got, 0x100 + got, IBV_WC_SUCCESS);
		assert_int_equal(p.b->recv_cqes.v[got++].imm, i);
	}
	pair_expect_counts(&p, 15, got);
	pair_free(&p);
}

static void losses_affect_no_other_datagram(void **state)
{
	struct sim_seeds s = sim_seeds("ud loss", 1, 100);

	for (uint64_t i = 0; i < s.runs; i++)
		lossy_run(s.first + i);
}

/* A datagram to a multicast group arrives at the members on every host. */
static void multicast(void **state)
{
	struct net_path path;
	struct pair p = new_pair(NULL, &path);
	struct sim_wr wr;

	path.dst = (struct net_addr){ { [10] = 0xff, 0xff, 239, 1, 2, 3 } };
	wr = datagram(&p, 100, &path);
	wr.qpn = 0xffffff;
	pair_recv(&p, 200);
	pair_post(&p, wr);
	pair_go(&p);
	pair_expect_counts(&p, 1, 1);
	pair_expect_recv(&p, 0, 0x100, IBV_WC_SUCCESS);
	assert_int_equal(p.b->recv_cqes.v[0].byte_len, GRH + 100);
	pair_free(&p);
}

/* UD has no WRITEs. */
static void writes_are_refused(void **state)
{
	struct net_path path;
	struct pair p = new_pair(NULL, &path);
	struct sim_wr wr = datagram(&p, 10, &path);

	wr.opcode = IBV_WR_RDMA_WRITE;
	pair_post(&p, wr);
	pair_go(&p);
	pair_expect_send(&p, 0, 0, IBV_WC_LOC_QP_OP_ERR);
	pair_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_length_arrives),
		cmocka_unit_test(wrong_qkey_is_dropped),
		cmocka_unit_test(datagram_without_receive_is_dropped),
		cmocka_unit_test(longer_than_mtu_fails_locally),
		cmocka_unit_test(small_receive_is_not_overrun),
		cmocka_unit_test(losses_affect_no_other_datagram),
		cmocka_unit_test(multicast),
		cmocka_unit_test(writes_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
