/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared segments with random changes: two members of a host, of which one sends to the other,
 * looks up its queue pairs and keys and reads its memory, while any byte of the header, the tables
 * and the lane between them may change.  No member may crash, read beyond what is shared, or be
 * kept waiting; an access that is granted is inside the region.
 *
 * The input is a program of one-byte steps with operands.  What it changed is put back afterwards.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "fuzz/input.h"
#include "host/host.h"
#include "local/lane.h"
#include "local/local.h"
#include "local/onesided.h"
#include "local/peer.h"
#include "local/segment.h"
#include "unit/place.h"
#include "util/compiler.h"
#include "wq/qp.h"

enum {
	NETNS = 42,
	PDN = 7,
	RKEY = 0x10000100,	/* index 1: see wq/key.h */
	VA = 0x1000,
	LEN = 4096,
	KEYS = 4,		/* entries that are scribbled into */
	BUDGET = 3 * LANE_SLOTS,
	RING_TOUCHED = 4096,	/* bytes at the begin of the byte ring */
};

static char dir[64];
static struct host *host[2];
static struct local *local[2];
static struct local_peer *peer;
static struct wq_qp near, far;
static uint8_t memory[LEN];

/* What the owner published, to be put back. */
static struct seg_header header;
static struct seg_qp qps[KEYS];
static struct mr_entry keys[KEYS];

static struct segment *victim(void)
{
	return local_segment(local[1]);
}

static struct seg_qp *qp_table(void)
{
	return (struct seg_qp *)(victim()->base + SEG_QP_OFF) + far.qpn % SEG_QPS;
}

static struct mr_entry *key_table(void)
{
	struct mr_entry *first = segment_keys(victim(), 0, SEG_KEY_CHUNK);

	FUZZ_CHECK(first);
	return first + mr_key_index(RKEY);
}

static struct lane *lane(void)
{
	return segment_lane(victim(), host_slot(host[0]));
}

static void publish_qp(void)
{
	static const struct seg_qp_facts facts = { .established = true };

	near = (struct wq_qp){ .type = IBV_QPT_RC, .state = IBV_QPS_RTS, .pdn = PDN };
	far = near;
	near.path.src.raw[15] = far.path.dst.raw[15] = 1;
	near.path.dst.raw[15] = far.path.src.raw[15] = 2;
	far.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	far.max_dest_rd_atomic = 4;
	FUZZ_CHECK(!host_qpn_alloc(host[0], 0, &near.qpn));
	/* Not at the end of the table, so that its neighbours are there. */
	do
		FUZZ_CHECK(!host_qpn_alloc(host[1], 0, &far.qpn));
	while (far.qpn % SEG_QPS > SEG_QPS - KEYS);
	near.dest_qpn = far.qpn;
	far.dest_qpn = near.qpn;
	FUZZ_CHECK(!segment_publish_qp(victim(), &far, facts));
}

static void publish_key(void)
{
	struct mr_entry *e = key_table();

	*e = (struct mr_entry){
		.refs = MR_LIVE,
		.rkey = RKEY,
		.lkey = RKEY,
		.pdn = PDN,
		.kind = MR_REGION,
		.access = IBV_ACCESS_LOCAL_WRITE | far.access,
		.va = VA,
		.length = LEN,
		.host = (uintptr_t)memory,
	};
	e->sum = mr_entry_sum(e);
}

static void clean_up(void)
{
	place_remove_dir(dir);
}

static void start(void)
{
	place_make_dir(dir);
	atexit(clean_up);
	for (int i = 0; i < 2; i++) {
		FUZZ_CHECK(!host_join(dir, &host[i]));
		FUZZ_CHECK(!local_start(host[i], NETNS, &local[i]));
	}
	publish_qp();
	publish_key();
	peer = local_peer_get(local[0], far.qpn);
	FUZZ_CHECK(peer);
	header = *segment_header(victim());
	memcpy(qps, qp_table(), sizeof(qps));
	memcpy(keys, key_table(), sizeof(keys));
}

static void put_back(void)
{
	struct seg_header *h = segment_header(victim());
	uint32_t news = h->news;

	*h = header;
	h->news = news;		/* the owner's memory of it is private */
	memcpy(qp_table(), qps, sizeof(qps));
	memcpy(key_table(), keys, sizeof(keys));
}

/* A few bytes of the input at an offset of the input. */
static void scribble(struct input *in, void *at, size_t size)
{
	size_t offset = (word(in) & 0xffffff) % size;
	unsigned int n = byte(in) % 8 + 1;

	while (n-- && offset < size)
		((uint8_t *)at)[offset++] = byte(in);
}

static volatile uint8_t seen;	/* what was read last, so that the compiler does not skip it */

static void look_at_packet(void *arg, const struct local_pkt *pkt)
{
	for (uint32_t i = 0; i < pkt->len; i++)
		seen = pkt->data[i];
	FUZZ_CHECK(pkt->len <= LANE_BYTES);
	FUZZ_CHECK(pkt->pull.num_seg <= 64);
	for (unsigned int i = 0; i < pkt->pull.num_seg; i++)
		seen = (uint8_t)pkt->pull.seg[i].len;
	(*(unsigned int *)arg)++;
}

static bool look_at_message(void *arg, struct lane_rx *rx, int32_t slot,
			    const struct lane_head *head, const uint8_t *data, bool more)
{
	for (uint32_t i = 0; i < head->len; i++)
		seen = data[i];
	FUZZ_CHECK(head->len <= LANE_BYTES);
	(*(unsigned int *)arg)++;
	return false;
}

static void receive(void)
{
	static const struct local_input look = { look_at_packet, look_at_message };
	unsigned int n = 0;

	FUZZ_CHECK(local_recv(local[1], BUDGET, &look, &n) <= BUDGET);
	FUZZ_CHECK(n <= BUDGET);
}

static void send(struct input *in)
{
	uint8_t data[600];
	struct lane_part part = { data, word(in) % sizeof(data) };
	struct lane_head head = { .where = LANE_INLINE };
	struct lane_tx *tx = local_tx_begin(peer);

	memset(data, byte(in), sizeof(data));
	if (lane_tx_room(tx, part.len))
		lane_tx_put(tx, &head, &part, 1);
	local_tx_end(local[0], peer, false);
}

/* Only reads: what a forged key names may be any memory of this process. */
static void read_one_sided(struct input *in)
{
	uint8_t data[64];
	uint64_t va = VA + word(in) % (2 * LEN), len = byte(in) % sizeof(data);
	struct wq_seg seg = { (uintptr_t)data, len };
	struct onesided o;

	local_tx_begin(peer);
	if (onesided_begin(&o, peer, &near) &&
	    onesided_add(&o, RKEY, va, len, MEM_REMOTE_READ, &seg, 1)) {
		FUZZ_CHECK(o.n_remote >= (len != 0));
		onesided_read(&o);
	}
	onesided_end(&o);
	for (int i = 0; i < LANE_HAZARDS; i++)
		FUZZ_CHECK(lane()->hazard[i] == 0);
	local_tx_end(local[0], peer, false);
}

static void look_up(struct input *in)
{
	struct seg_qp copy;
	uint32_t qpn = byte(in) % 2 ? far.qpn : word(in);

	if (local_peer_qp(peer, qpn, &copy))
		FUZZ_CHECK(copy.qpn == qpn);
}

static void why_not(struct input *in)
{
	struct mr_entry copy;
	uint32_t rkey = byte(in) % 2 ? RKEY : word(in);

	(void)onesided_reason(peer, &near, rkey, VA + byte(in), byte(in), MEM_REMOTE_WRITE, &copy);
}

/* As a process that comes later finds the segment. */
static void open_anew(void)
{
	struct peer_map map;
	int err = peer_map_open(host[0], local_segment(local[0]), host_slot(host[0]),
				host_slot(host[1]), host_incarnation(host[1]), &map);
	struct seg_qp copy;

	if (err)
		return;
	(void)peer_map_qp(&map, far.qpn, &copy);
	for (uint32_t i = 0; i < SEG_KEYS; i += SEG_KEYS / 16)
		(void)peer_map_key(&map, i);
	peer_map_close(&map);
}

static void sleep_and_wake(void)
{
	(void)local_sleep(local[1]);
	local_wake(local[1]);
}

static void step(struct input *in)
{
	switch (byte(in) % 12) {
	case 0:
		scribble(in, segment_header(victim()), sizeof(struct seg_header));
		break;
	case 1:
		scribble(in, qp_table(), sizeof(qps));
		break;
	case 2:
		scribble(in, key_table(), sizeof(keys));
		break;
	case 3:
		scribble(in, &lane()->tail,
			 offsetof(struct lane, slot) - offsetof(struct lane, tail));
		break;
	case 4:
		scribble(in, lane()->slot, sizeof(lane()->slot));
		break;
	case 5:
		scribble(in, lane()->bytes, RING_TOUCHED);
		break;
	case 6:
		send(in);
		break;
	case 7:
		receive();
		break;
	case 8:
		read_one_sided(in);
		break;
	case 9:
		look_up(in);
		why_not(in);
		break;
	case 10:
		open_anew();
		break;
	default:
		sleep_and_wake();
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };

	if (!peer)
		start();
	while (more(&in))
		step(&in);
	put_back();
	receive();
	return 0;
}
