/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The stream protocol against captures of the stock library's rsockets: our sender would have sent
 * the same bytes to the same places, and our receiver accepts all of them and announces the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cm/msg.h"
#include "roce/opcode.h"
#include "roce/pkt.h"
#include "rsocket/rs_rx.h"
#include "rsocket/rs_tx.h"
#include "rsocket/rs_wire.h"
#include "sim/pcap.h"
#include "util/compiler.h"

enum { MAX_MAPPINGS = 16 };

static const char *folder;

/*
 * One end: the parameters that it announced, our model of it, and its memory that the other end
 * writes into.
 */
struct end {
	struct net_addr addr;
	struct rs_conn conn;
	struct rs_tx tx;
	struct rs_rx rx;
	uint8_t list[RS_SGL_ENTRIES * RS_SGE_LEN + MAX_MAPPINGS * RS_IOMAP_LEN];
	uint64_t va; /* of the message in progress */
	uint32_t rkey;
	uint32_t data, grants, mappings;
};

struct pair {
	struct end end[2]; /* connecting end, accepting end */
	bool known[2];
};

static void take_conn(struct pair *p, int which, const struct capture_packet *packet,
		      const uint8_t *data)
{
	uint8_t again[RS_CONN_LEN];
	struct end *e = &p->end[which];

	assert_int_equal(rs_conn_decode(data, RS_CONN_LEN, &e->conn), 0);
	rs_conn_encode(again, &e->conn);
	assert_memory_equal(again, data, RS_CONN_LEN);
	assert_int_equal(e->conn.credits, 384);
	e->addr = packet->path.src;
	p->known[which] = true;
	if (which == 0)
		return;
	for (int i = 0; i < 2; i++) {
		struct end *x = &p->end[i];

		rs_tx_init(&x->tx, x->list, &p->end[!i].conn);
		rs_rx_init(&x->rx, 2 * x->conn.ring.length, x->conn.credits);
		rs_rx_peer(&x->rx, &p->end[!i].conn);
	}
}

static void take_mad(struct pair *p, const struct capture_packet *packet, const uint8_t *mad)
{
	struct cm_msg m;

	assert_int_equal(cm_decode(&m, mad, CM_MAD_LEN), CM_DECODED);
	if (m.type == CM_REQ)
		take_conn(p, 0, packet, m.req.private_data + CM_IP_HEADER_LEN);
	else if (m.type == CM_REP)
		take_conn(p, 1, packet, m.rep.private_data);
}

static void take_data(struct end *from, struct end *to, uint32_t n)
{
	struct rs_region where;

	assert_in_range(n, 1, rs_tx_room(&from->tx));
	rs_tx_take(&from->tx, n, &where);
	assert_int_equal(where.addr, from->va);
	assert_int_equal(where.key, from->rkey);
	assert_int_equal(rs_rx_came(&to->rx, n), 0);
	from->data++;
}

/* The captured ends announce in little endian, our model in the order of this machine. */
static struct rs_region region_of(const uint8_t *little)
{
	struct rs_region r;

	rs_sge_decode(little, &r);
	return (struct rs_region){ le64toh(r.addr), le32toh(r.key), le32toh(r.length) };
}

static void take_grant(struct end *from, struct end *to, uint32_t arg, const uint8_t *payload,
		       size_t len)
{
	uint32_t half = from->rx.size / 2;
	uint8_t ours[RS_SGE_LEN];
	struct rs_region r;
	struct rs_grant g;

	/* the stock library counts when it has read, ours when the data arrived */
	if (len && from->rx.freed < half)
		rs_rx_read(&from->rx, half - from->rx.freed);
	if (len) {
		rs_rx_grant(&from->rx, &g);
		assert_true(g.has_half);
		r = (struct rs_region){ from->conn.ring.addr + g.offset, from->conn.ring.key,
					half };
		rs_sge_encode(ours, &r, false);
		assert_int_equal(len, sizeof(ours));
		assert_memory_equal(payload, ours, sizeof(ours));
		assert_int_equal(from->va, to->conn.sgl.addr + g.entry * RS_SGE_LEN);
		assert_int_equal(from->rkey, to->conn.sgl.key);
		r = region_of(payload);
		rs_sge_encode(to->list + g.entry * RS_SGE_LEN, &r, RS_BIG_ENDIAN);
		assert_in_range((uint16_t)(g.imm_arg - arg), 0, from->conn.credits);
	}
	rs_tx_grant(&to->tx, arg);
	from->grants++;
}

static void take_mapping(struct end *from, struct end *to, uint32_t index, const uint8_t *payload,
			 size_t len)
{
	struct rs_mapping m;
	uint8_t again[RS_IOMAP_LEN];

	assert_int_equal(len, RS_IOMAP_LEN);
	assert_in_range(index, 0, to->conn.iomap_size - 1);
	assert_int_equal(from->va, to->conn.sgl.addr + (uint64_t)to->conn.sgl.length * RS_SGE_LEN +
					   index * RS_IOMAP_LEN);
	rs_mapping_decode(payload, &m);
	m = (struct rs_mapping){ le64toh(m.offset), region_of(payload + 8) };
	rs_mapping_encode(again, &m, false);
	assert_memory_equal(again, payload, sizeof(again));
	rs_tx_spend(&from->tx);
	rs_rx_count(&to->rx);
	from->mappings++;
}

static void take_message(struct end *from, struct end *to, const struct roce_pkt *pkt)
{
	uint32_t imm = be32toh(pkt->imm), arg = rs_imm_arg(imm);

	switch (rs_imm_op(imm)) {
	case RS_OP_DATA:
		take_data(from, to, arg);
		break;
	case RS_OP_SGL:
		take_grant(from, to, arg, pkt->payload, pkt->payload_len);
		break;
	case RS_OP_IOMAP:
		take_mapping(from, to, arg, pkt->payload, pkt->payload_len);
		break;
	default:
		assert_int_equal(rs_imm_op(imm), RS_OP_CTRL);
	}
}

static void take_packet(struct pair *p, const struct capture_packet *packet)
{
	struct roce_pkt pkt;
	struct end *from;

	assert_int_equal(roce_decode(&pkt, packet->data, packet->len), ROCE_DECODED);
	if (pkt.bth.dest_qpn == 1) {
		take_mad(p, packet, pkt.payload);
		return;
	}
	if (!p->known[1])
		return;
	from = &p->end[memcmp(&packet->path.src, &p->end[0].addr, sizeof(from->addr)) != 0];
	switch (pkt.bth.opcode) {
	case 0x06: /* WRITE FIRST */
		from->va = pkt.reth.va;
		from->rkey = pkt.reth.rkey;
		return;
	case 0x0b: /* WRITE ONLY WITH IMMEDIATE */
		from->va = pkt.reth.va;
		from->rkey = pkt.reth.rkey;
		/* fall through */
	case 0x09: /* WRITE LAST WITH IMMEDIATE */
		take_message(from, &p->end[from == p->end], &pkt);
		return;
	default:
		return;
	}
}

static void replay(const char *name, struct pair *p)
{
	struct capture c;
	char path[4096];

	memset(p, 0, sizeof(*p));
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	assert_true(capture_load(&c, path));
	for (uint32_t i = 0; i < c.n; i++)
		take_packet(p, &c.packet[i]);
	capture_free(&c);
}

static void stream(void **state)
{
	struct pair p;

	replay("rstream.pcap", &p);
	assert_in_range(p.end[0].data, 10, 1000);
	assert_in_range(p.end[1].data, 1, 1000);
	assert_int_equal(p.end[0].grants, 1);
	assert_int_equal(p.end[1].grants, 1);
}

static void preloaded(void **state)
{
	struct pair p;

	replay("preload_rstream.pcap", &p);
	assert_in_range(p.end[0].data, 2, 1000);
	assert_in_range(p.end[1].data, 2, 1000);
}

static void mapped(void **state)
{
	struct pair p;

	replay("riostream.pcap", &p);
	assert_int_equal(p.end[0].mappings, 1);
	assert_int_equal(p.end[1].mappings, 1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stream),
		cmocka_unit_test(preloaded),
		cmocka_unit_test(mapped),
	};

	folder = argc > 1 ? argv[1] : ".";
	return cmocka_run_group_tests(tests, NULL, NULL);
}
