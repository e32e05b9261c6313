/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets that no correct engine sends: out of sequence, of wrong length, from third parties, or
 * random. Each must end in a NAK, a completion, or no reaction at all (IBTA vol 1, 9.7.4.1 and
 * 9.7.5), and must not change memory outside its target.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pair.h"
#include "roce/icrc.h"
#include "roce/opcode.h"
#include "util/compiler.h"

/* BTH opcodes of RC, IBTA table 38. */
enum {
	SEND_FIRST = 0,
	SEND_MIDDLE = 1,
	SEND_LAST = 2,
	SEND_ONLY = 4,
	WRITE_FIRST = 6,
	WRITE_MIDDLE = 7,
	WRITE_LAST = 8,
	WRITE_LAST_IMM = 9,
	WRITE_ONLY = 10,
	READ_REQ = 12,
	READ_FIRST = 13,
	READ_MIDDLE = 14,
	READ_LAST = 15,
	READ_ONLY = 16,
	ACK = 17,
	ATOMIC_ACK = 18,
	CMP_SWAP = 19,
	FETCH_ADD = 20,
	SEND_ONLY_INV = 23,
	FLUSH = 28,
	ATOMIC_WRITE = 29,
	END = 255,
	UC = 0x20,
	UD = 0x60,
	MTU = 1024,
};

struct forged {
	uint8_t op;
	uint32_t len;		/* payload */
	uint32_t reth_len;
	int32_t va_offset;
	uint8_t syndrome;
};

/* Sends a packet to qp as its peer would. */
static void inject(struct pair *p, struct sim_qp *qp, const struct forged *f, uint32_t psn)
{
	uint32_t from = qp == p->b ? 0 : 1;
	struct net_path path = sim_path(p->h[from], p->h[!from]);
	struct roce_pkt pkt = {
		.bth = { .opcode = f->op, .pkey = 0xffff, .dest_qpn = qp->wq.qpn,
			 .psn = psn & 0xffffff, .ack_req = true, .pad = -f->len & 3,
			 .mig_req = true },
		.reth = { .va = p->h[1]->base + p->size / 2 + f->va_offset, .rkey = p->mr[1]->rkey,
			  .len = f->reth_len },
		.aeth = { .syndrome = f->syndrome, .msn = 1 },
		.deth = { .src_qpn = 1 },
	};
	uint8_t buf[ROCE_MAX_PACKET + 1024] = { 0 };
	size_t len;
	uint32_t icrc;

	pkt.atomic.va = pkt.reth.va;
	pkt.atomic.rkey = pkt.reth.rkey;
	if (!roce_opcode_info(f->op)->name)
		pkt.bth.opcode = SEND_ONLY;	/* a BTH, which gets its opcode below */
	len = roce_encode_headers(buf, &pkt);
	buf[0] = f->op;
	memset(buf + len, 0xee, f->len);
	len += f->len + pkt.bth.pad;
	icrc = htole32(roce_icrc(&path, 0, buf, len));
	memcpy(buf + len, &icrc, 4);
	world_inject(p->w, from, &path, buf, len + 4);
}

/* --- at the responder --- */

struct row {
	const char *name;
	struct forged packet[3];
	uint8_t syndrome;        /* of the NAK; 0: the packets are ignored */
	enum ibv_wc_status recv; /* of the receive in use; 0: an event is raised */
};

#define IGNORED 0, 0
#define INVALID 0x61, 0
#define INVALID_RECV 0x61, IBV_WC_REM_INV_REQ_ERR

static const struct row rows[] = {
	{ "MIDDLE without FIRST", { { SEND_MIDDLE, MTU }, { END } }, INVALID },
	{ "LAST without FIRST", { { SEND_LAST, 10 }, { END } }, INVALID },
	{ "WRITE LAST without FIRST", { { WRITE_LAST, 10 }, { END } }, INVALID },
	{ "WRITE LAST with immediate without FIRST", { { WRITE_LAST_IMM, 10 }, { END } }, INVALID },
	{ "FIRST after FIRST",
	  { { SEND_FIRST, MTU }, { SEND_FIRST, MTU }, { END } }, INVALID_RECV },
	{ "ONLY after FIRST", { { SEND_FIRST, MTU }, { SEND_ONLY, 10 }, { END } }, INVALID_RECV },
	{ "WRITE in a SEND",
	  { { SEND_FIRST, MTU }, { WRITE_MIDDLE, MTU }, { END } }, INVALID_RECV },
	{ "SEND in a WRITE", { { WRITE_FIRST, MTU, 3000 }, { SEND_LAST, 10 }, { END } }, INVALID },
	{ "READ in a SEND", { { SEND_FIRST, MTU }, { READ_REQ, 0, 8 }, { END } }, INVALID_RECV },
	{ "atomic in a WRITE", { { WRITE_FIRST, MTU, 3000 }, { CMP_SWAP }, { END } }, INVALID },
	{ "short FIRST", { { SEND_FIRST, MTU - 4 }, { END } }, INVALID_RECV },
	{ "short WRITE FIRST", { { WRITE_FIRST, 100, 3000 }, { END } }, INVALID },
	{ "long ONLY", { { SEND_ONLY, MTU + 1 }, { END } }, INVALID_RECV },
	{ "empty LAST", { { SEND_FIRST, MTU }, { SEND_LAST, 0 }, { END } }, INVALID_RECV },
	{ "WRITE ONLY longer than announced", { { WRITE_ONLY, 100, 50 }, { END } }, INVALID },
	{ "WRITE ONLY shorter than announced", { { WRITE_ONLY, 100, 200 }, { END } }, INVALID },
	{ "WRITE FIRST of a message of one packet",
	  { { WRITE_FIRST, MTU, 900 }, { END } }, INVALID },
	{ "WRITE with more packets than announced",
	  { { WRITE_FIRST, MTU, 2000 }, { WRITE_MIDDLE, MTU }, { END } }, INVALID },
	{ "WRITE that ends early", { { WRITE_FIRST, MTU, 5000 }, { WRITE_LAST, 10 }, { END } },
	  INVALID },
	{ "WRITE of more than 2^31 bytes", { { WRITE_FIRST, MTU, 0x80000001 }, { END } }, INVALID },
	{ "READ of more than 2^31 bytes", { { READ_REQ, 0, 0x80000001 }, { END } }, INVALID },
	{ "unaligned compare-and-swap", { { CMP_SWAP, 0, 0, 4 }, { END } }, INVALID },
	{ "unaligned fetch-and-add", { { FETCH_ADD, 0, 0, 1 }, { END } }, INVALID },
	{ "unaligned atomic write", { { ATOMIC_WRITE, 8, 8, 4 }, { END } }, INVALID },
	{ "atomic write of four bytes", { { ATOMIC_WRITE, 4, 4 }, { END } }, INVALID },
	{ "WRITE of another service", { { UC | WRITE_ONLY, 10, 10 }, { END } }, IGNORED },
	{ "datagram", { { UD | SEND_ONLY, 10 }, { END } }, IGNORED },
	{ "reserved operation", { { 24, 10 }, { END } }, IGNORED },
	{ "operation of the manufacturer", { { 0xc0, 10 }, { END } }, IGNORED },
	{ "READ request with data", { { READ_REQ, 16, 16 }, { END } }, IGNORED },
};

static void run_row(const struct row *row)
{
	struct sim_qp_attr attr = sim_qp_defaults();
	struct pair p = pair_new(row->name, NULL, &attr, NULL);
	uint8_t *second_half = p.h[1]->mem + PAIR_MEM / 2, after[64];

	memcpy(after, second_half + 8192, sizeof(after));
	pair_watch(&p);
	pair_recv(&p, 4096);
	for (uint32_t i = 0; i < 3 && row->packet[i].op != END; i++)
		inject(&p, p.b, &row->packet[i], PAIR_PSN + i);
	world_run(p.w);
	assert_memory_equal(after, second_half + 8192, sizeof(after));
	world_check(p.w, p.last_syndrome == row->syndrome, "%s: syndrome 0x%02x", row->name,
		    p.last_syndrome);
	if (!row->syndrome) {
		assert_int_equal(p.b->wq.state, IBV_QPS_RTS);
		assert_int_equal(p.sent_b, 0);
		pair_expect_counts(&p, 0, 0);
	} else {
		assert_int_equal(p.b->wq.state, IBV_QPS_ERR);
		pair_expect_counts(&p, 0, 1);
		pair_expect_recv(&p, 0, 0x100, row->recv ? row->recv : IBV_WC_WR_FLUSH_ERR);
	}
	pair_expect_event(&p, p.b, IBV_EVENT_QP_REQ_ERR, row->syndrome && !row->recv);
	pair_free(&p);
}

static void each_row_at_the_responder(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		run_row(&rows[i]);
}

static void third_parties_are_ignored(void **state)
{
	static const struct forged good = { WRITE_ONLY, 10, 10 };
	struct sim_qp_attr attr = sim_qp_defaults();
	struct pair p = pair_new("third parties", NULL, &attr, NULL);
	struct net_addr peer = p.b->wq.path.dst;

	pair_watch(&p);
	p.b->wq.path.dst.raw[15] ^= 0x40; /* the QP now has another peer */
	inject(&p, p.b, &good, PAIR_PSN);
	world_run(p.w);
	p.b->wq.path.dst = peer;
	p.b->wq.pkey = 0x8001; /* another partition: dropped too */
	inject(&p, p.b, &good, PAIR_PSN);
	world_run(p.w);
	assert_int_equal(p.sent_b, 0);
	assert_int_equal(roce_qp_counters(&p.b->roce)->dropped_pkts, 2);
	p.b->wq.pkey = 0x7fff; /* limited member, same partition: accepted */
	inject(&p, p.b, &good, PAIR_PSN);
	world_run(p.w);
	assert_int_equal(p.sent_b, 1);
	pair_free(&p);
}

/*
 * A duplicate of a READ request arrives after the READ was answered and its window invalidated: it
 * is not executed again, and the connection continues.
 */
static void late_copy_of_a_read_is_harmless(void **state)
{
	struct sim_qp_attr attr = sim_qp_defaults();
	struct pair p = pair_new("late copy of a read", NULL, &attr, NULL);
	struct sim_key *window = sim_bind_window(p.h[1], 1, p.h[1]->base, 4096, ~0u, 0);
	struct forged copy = { READ_REQ, 0, 100 };
	struct sim_wr read = pair_wr(&p, IBV_WR_RDMA_READ, 100);
	struct sim_wr inv = pair_wr(&p, IBV_WR_SEND_WITH_INV, 10);
	uint32_t rkey = p.mr[1]->rkey;

	pair_watch(&p);
	pair_recv(&p, 100);
	read.rkey = inv.imm = window->rkey;
	read.remote_addr = p.h[1]->base;
	inv.flags |= IBV_SEND_FENCE;
	pair_post(&p, read);
	pair_post(&p, inv);
	pair_go(&p);
	assert_false(window->valid);
	p.mr[1]->rkey = window->rkey;
	copy.va_offset = -PAIR_MEM / 2;
	inject(&p, p.b, &copy, PAIR_PSN);
	p.mr[1]->rkey = rkey;
	world_run(p.w);
	assert_int_equal(p.b->wq.state, IBV_QPS_RTS);
	pair_post(&p, pair_wr(&p, IBV_WR_RDMA_READ, 3000));
	pair_go(&p);
	pair_expect_counts(&p, 3, 1);
	for (int i = 0; i < 3; i++)
		pair_expect_send(&p, i, i, IBV_WC_SUCCESS);
	pair_expect_event(&p, p.b, 0, 0);
	pair_free(&p);
}

/*
 * A duplicate READ may request bytes of the original only; any other request with its PSN is not
 * answered.
 */
static void repeated_read_of_other_memory_is_ignored(void **state)
{
	static const struct forged repeats[] = {
		{ READ_REQ, 0, 3000, 8 },
		{ READ_REQ, 0, 3001, 0 },
		{ READ_REQ, 0, 0, 0 },
		{ CMP_SWAP },
	};
	struct sim_qp_attr attr = sim_qp_defaults();
	struct pair p = pair_new("other repetition", NULL, &attr, NULL);
	struct forged same = { READ_REQ, 0, 3000, 0 }, rest = { READ_REQ, 0, 3000 - MTU, MTU };

	pair_watch(&p);
	pair_post(&p, pair_wr(&p, IBV_WR_RDMA_READ, 3000));
	pair_go(&p);
	assert_int_equal(p.sent_b, 3);
	for (size_t i = 0; i < ARRAY_SIZE(repeats); i++)
		inject(&p, p.b, &repeats[i], PAIR_PSN);
	world_run(p.w);
	assert_int_equal(p.sent_b, 3);
	inject(&p, p.b, &same, PAIR_PSN);
	inject(&p, p.b, &rest, PAIR_PSN + 1);
	world_run(p.w);
	assert_int_equal(p.sent_b, 3 + 3 + 2);
	assert_int_equal(p.b->wq.state, IBV_QPS_RTS);
	pair_free(&p);
}

/* --- at the completer: a forged response to a READ of two packets, or to a SEND --- */

struct response {
	const char *name;
	uint32_t request;
	struct forged packet;
	uint32_t psn_offset;
	enum ibv_wc_status status;	/* 0: ignored */
};

static const struct response responses[] = {
	{ "short READ response", IBV_WR_RDMA_READ, { READ_FIRST, 100 }, 0, IBV_WC_LOC_LEN_ERR },
	{ "long READ response", IBV_WR_RDMA_READ, { READ_FIRST, MTU + 4 }, 0, IBV_WC_LOC_LEN_ERR },
	{ "ONLY before the last packet",
	  IBV_WR_RDMA_READ,
	  { READ_ONLY, MTU },
	  0,
	  IBV_WC_BAD_RESP_ERR },
	{ "LAST before the last packet",
	  IBV_WR_RDMA_READ,
	  { READ_LAST, MTU },
	  0,
	  IBV_WC_BAD_RESP_ERR },
	{ "atomic response to a READ", IBV_WR_RDMA_READ, { ATOMIC_ACK }, 0, IBV_WC_BAD_RESP_ERR },
	{ "reserved AETH class",
	  IBV_WR_RDMA_READ,
	  { ACK, .syndrome = 0x40 },
	  0,
	  IBV_WC_BAD_RESP_ERR },
	{ "reserved NAK code", IBV_WR_SEND, { ACK, .syndrome = 0x65 }, 0, IBV_WC_BAD_RESP_ERR },
	{ "READ response to a SEND", IBV_WR_SEND, { READ_ONLY, 10 }, 0, IBV_WC_BAD_RESP_ERR },
	{ "atomic response to a SEND", IBV_WR_SEND, { ATOMIC_ACK }, 0, IBV_WC_BAD_RESP_ERR },
	{ "ACK of an unsent PSN", IBV_WR_SEND, { ACK, .syndrome = 0x1f }, 5, 0 },
	{ "NAK of an acknowledged PSN", IBV_WR_SEND, { ACK, .syndrome = 0x62 }, -1, 0 },
	{ "READ response of an acknowledged PSN", IBV_WR_RDMA_READ, { READ_ONLY, 100 }, -3, 0 },
	{ "READ response of an unsent PSN", IBV_WR_RDMA_READ, { READ_LAST, MTU }, 2, 0 },
};

static bool drop_from_a(void *arg, const struct net_packet *p)
{
	return p->src == 0;
}

static void run_response(const struct response *a)
{
	struct net_config net = { .delay = 5000, .drop = drop_from_a };
	struct sim_qp_attr attr = sim_qp_defaults();
	struct pair p;

	attr.timeout = 0;
	p = pair_new(a->name, &net, &attr, NULL);
	pair_post(&p, pair_wr(&p, a->request, 2 * MTU));
	pair_go(&p);
	inject(&p, p.a, &a->packet, PAIR_PSN + a->psn_offset);
	world_run(p.w);
	pair_expect_counts(&p, a->status ? 1 : 0, 0);
	if (a->status)
		pair_expect_send(&p, 0, 0, a->status);
	assert_int_equal(p.a->wq.state, a->status ? IBV_QPS_ERR : IBV_QPS_RTS);
	pair_free(&p);
}

static void each_forged_response(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(responses); i++)
		run_response(&responses[i]);
}

/* --- random packets with a correct ICRC, at QPs of every service, amid valid requests --- */

static void random_packet(struct pair *p, struct rng *r, uint8_t prefix)
{
	struct forged f = {
		.op = rng_percent(r, 95) ? prefix | rng_below(r, 32) : rng_next(r),
		.len = rng_percent(r, 50) ? rng_below(r, 16) : rng_below(r, 2) * MTU,
		.reth_len = rng_percent(r, 50) ? rng_below(r, 3000) : rng_next(r),
		.va_offset = rng_percent(r, 80) ? rng_below(r, 1000) * 8 : rng_next(r),
		.syndrome = rng_next(r),
	};
	struct sim_qp *to = rng_percent(r, 50) ? p->a : p->b;
	uint32_t first = PAIR_PSN + (to == p->a && f.op % 32 < 13 ? 0x5000 : 0);

	inject(p, to, &f, first + rng_below(r, 12) - 2);
}

static void random_run(uint64_t seed, enum ibv_qp_type type, uint8_t prefix)
{
	struct sim_qp_attr attr = sim_qp_defaults(), peer;
	struct pair p;
	struct rng r;

	rng_seed(&r, seed);
	attr.type = type;
	attr.timeout = 1;
	attr.rnr_retry = 3;
	peer = attr;
	peer.type = type == IBV_QPT_XRC_SEND ? IBV_QPT_XRC_RECV : type;
	p = pair_new("random packets", NULL, &attr, &peer);
	p.w->seed = seed;
	if (type == IBV_QPT_UD) {
		sim_ud_ready(p.a, 0);
		sim_ud_ready(p.b, 0);
	}
	for (int round = 0; round < 10; round++) {
		if (type == IBV_QPT_RC && p.a->wq.sq.head - p.a->wq.sq.released < 60) {
			pair_post(&p, pair_wr(&p, rng_percent(&r, 50) ? IBV_WR_RDMA_READ :
									  IBV_WR_SEND, 2000));
			world_kick(p.w, p.a);
		}
		if (round < 4)
			pair_recv(&p, 3000);
		for (int i = 0; i < 3; i++)
			random_packet(&p, &r, prefix);
		world_run_until(p.w, p.w->now + rng_below(&r, 20000));
	}
	world_run(p.w);
	pair_free(&p);
}

static void random_packets_break_nothing(void **state)
{
	static const struct {
		enum ibv_qp_type type;
		uint8_t prefix;
	} services[] = { { IBV_QPT_RC, 0 }, { IBV_QPT_UC, 0x20 }, { IBV_QPT_UD, 0x60 },
			 { IBV_QPT_XRC_SEND, 0xa0 } };
	struct sim_seeds s = sim_seeds("random packets", 1, 3000);

	for (uint64_t i = 0; i < s.runs; i++)
		for (size_t k = 0; k < ARRAY_SIZE(services); k++)
			random_run(s.first + i, services[k].type, services[k].prefix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_row_at_the_responder),
		cmocka_unit_test(third_parties_are_ignored),
		cmocka_unit_test(late_copy_of_a_read_is_harmless),
		cmocka_unit_test(repeated_read_of_other_memory_is_ignored),
		cmocka_unit_test(each_forged_response),
		cmocka_unit_test(random_packets_break_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
