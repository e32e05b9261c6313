/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/tx/tx_batch.h"

#include <endian.h>
#include <poll.h>
#include <string.h>

#include "core/base/rx_queues.h"
#include "core/base/state.h"
#include "core/base/tap.h"
#include "core/qp/qp.h"
#include "host/host.h"
#include "roce/const.h"
#include "roce/icrc.h"
#include "roce/opcode.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/compiler.h"
#include "util/own_memory.h"
#include "util/tuning.h"

_Static_assert(TX_BATCH_PACKETS <= 64, "a bit in vrb_tx_batch.flipped for each packet");

__thread struct vrb_tx_batch *vrb_tx_batch_mine;

static void clear(struct vrb_tx_batch *b)
{
	b->n = 0;
	b->used = 0;
	b->run_len = 0;
	b->flipped = 0;
}

void vrb_tx_batch_init(struct vrb_tx_batch *b)
{
	clear(b);
	b->sends = 0;
	b->front = (struct roce_icrc_front){ 0 };
}

struct vrb_tx_batch *vrb_tx_batch_new(void)
{
	struct vrb_tx_batch *b = own_memory(sizeof(*b), vrb_tx_batch_forget);

	if (b)
		vrb_tx_batch_init(b);
	vrb_tx_batch_mine = b;
	return b;
}

void vrb_tx_batch_forget(void)
{
	vrb_tx_batch_mine = NULL;
}

/*
 * The queue that receives for the QP sends for it, too. So threads with queues of their own share
 * no socket, with its file's reference count and its buffer's level, and no counter.
 */
static struct vrb_rx_queue *queue_of(const struct vrb_qp *qp)
{
	return qp ? vrb_rx_queue_of_shard(qp->config.shard) : vrb_main_rx_queue;
}

/* Appends the ICRC, which covers the IP identification in ip_id. */
static void put_icrc(struct vrb_tx_batch *b, struct wire_pkt *p)
{
	size_t len = p->len - ROCE_ICRC_LEN;
	uint32_t icrc = unlikely(p->soft_flush) ?
		roce_icrc_soft_flush(&p->path, p->ip_id, p->data, len) :
		roce_icrc_next(&b->front, &p->path, p->ip_id, p->data, len);

	icrc = htole32(icrc);
	memcpy(p->data + len, &icrc, sizeof(icrc));
}

/* The block of the destination QP number selects the receiving socket. */
static bool has_same_target(const struct vrb_tx_batch *b, const struct wire_pkt *last,
			    const struct wire_pkt *p)
{
	return load_relaxed(&b->queue->wire->runs) &&
	       !memcmp(&last->path, &p->path, sizeof(p->path)) &&
	       roce_dest_qpn(last->data) >> HOST_BLOCK_BITS ==
		       roce_dest_qpn(p->data) >> HOST_BLOCK_BITS;
}

/* Can p follow `last` in its run? A shorter packet can, as the final one. */
static bool joins(const struct vrb_tx_batch *b, const struct wire_pkt *last,
		  const struct wire_pkt *p)
{
	return p->len <= b->run_len && b->run_bytes + p->len <= WIRE_RUN_BYTES &&
	       has_same_target(b, last, p);
}

static void enter_run(struct vrb_tx_batch *b, struct wire_pkt *p)
{
	if (b->n && joins(b, p - 1, p)) {
		p->ip_id = p[-1].ip_id + 1;
		b->run_bytes += p->len;
		if (p->len < b->run_len)
			b->run_len = 0;
	} else {
		b->run_bytes = b->run_len = p->len;
	}
}

static enum roce_kind kind_of(const struct wire_pkt *p)
{
	return roce_opcode_info(roce_opcode_of(p->data))->kind;
}

static bool is_ack(const struct wire_pkt *p)
{
	return kind_of(p) == ROCE_KIND_ACK;
}

/*
 * The last packet of a message ends its run if it is shorter than the one before. If an ACK
 * follows, it starts another run with that instead, so that both arrive together.
 */
static void part_from_run(struct vrb_tx_batch *b, struct wire_pkt *last, const struct wire_pkt *ack)
{
	if (!last->ip_id || is_ack(last) || b->flipped || !has_same_target(b, last, ack))
		return;
	last->ip_id = 0;
	put_icrc(b, last);
	b->run_bytes = b->run_len = last->len;
}

/*
 * A run that started at the end of the batch would be short: its packet moves to the next batch. So
 * the LAST of a READ's answer, longer than those before it, forms a run with the FIRST of the next
 * answer.
 */
static struct wire_pkt *move_to_next(struct vrb_tx_batch *b, struct vrb_qp *qp, struct wire_pkt *p)
{
	struct wire_pkt moved = *p;

	if (!b->n || b->used < TX_BATCH_BYTES / 8 * 7 || joins(b, p - 1, p))
		return p;
	vrb_tx_batch_flush(b);
	b->queue = queue_of(qp);
	memmove(b->data, moved.data, moved.len);
	moved.data = b->data;
	b->pkts[0] = moved;
	return &b->pkts[0];
}

/*
 * Another packet of this length would start a new run. Flush first, so that the run starts in the
 * next batch, where more packets can join it.
 */
static bool run_full(const struct vrb_tx_batch *b, uint32_t len)
{
	return b->run_bytes + len > WIRE_RUN_BYTES;
}

static bool is_full(const struct vrb_tx_batch *b, uint32_t len)
{
	return b->used >= TX_BATCH_BYTES || run_full(b, len);
}

static bool has_no_room(const struct vrb_tx_batch *b)
{
	return b->n == TX_BATCH_PACKETS || b->used >= TX_BATCH_BYTES + ROCE_MAX_PACKET;
}

/*
 * The last packet of the output leaves together with an ACK behind it: a peer that has the ACK and
 * not yet all of the message stops polling, and watches its memory for the rest.
 */
static bool ack_follows(const struct vrb_qp *qp)
{
	return qp && roce_has_ack(&qp->roce) && roce_has_ack_only(&qp->roce);
}

/*
 * Flips a bit of the ICRC. No later computation of the ICRC turns a wrong packet into a right one.
 */
static void flip(struct wire_pkt *p, uint32_t bit)
{
	bit %= ROCE_ICRC_LEN * 8;
	p->data[p->len - ROCE_ICRC_LEN + bit / 8] ^= (uint8_t)(1 << bit % 8);
}

void vrb_tx_batch_seal(struct vrb_tx_batch *b, struct vrb_qp *qp, const struct net_path *path,
		       size_t len, bool ect)
{
	struct wire_pkt *p = &b->pkts[b->n];
	bool seen = tapped();
	struct tap_packet tap;

	if (!b->n)
		b->queue = queue_of(qp);
	if (!b->queue->wire) {
		fetch_add_relaxed(&b->queue->stats.send_lost, 1);
		return;
	}
	if (seen) {
		tap = (struct tap_packet){
			.qp = qp,
			.path = path,
			.data = vrb_tx_batch_room(b),
			.len = len,
			.wire = true,
		};
		if (!vrb_tap_out(&tap))
			return;
	}
	*p = (struct wire_pkt){ .path = *path,
				.data = vrb_tx_batch_room(b),
				.len = len + ROCE_ICRC_LEN };
	p->path.src_port = wire_src_port(b->queue->wire);
	p->path.dst_port = wire_dst_port(b->queue->wire);
	if (ect && vrb.ecn && (p->path.traffic_class & ROCE_ECN_MASK) == ROCE_ECN_NOT_ECT)
		p->path.traffic_class |= ROCE_ECN_ECT0;
	if (seen && tap.mark)
		p->path.traffic_class |= ROCE_ECN_CE;
	if (b->n && !b->run_len && is_ack(p))
		part_from_run(b, p - 1, p);
	p->soft_flush = qp && roce_flushes_softly(&qp->roce) && kind_of(p) == ROCE_KIND_FLUSH;
	p = move_to_next(b, qp, p);
	enter_run(b, p);
	put_icrc(b, p);
	if (seen && tap.flip) {
		flip(p, tap.flip_bit);
		b->flipped |= UINT64_C(1) << b->n;
	}
	b->used += p->len;
	b->n++;
	if (has_no_room(b) || (is_full(b, p->len) && !ack_follows(qp)))
		vrb_tx_batch_flush(b);
}

static void wait_for_room(const struct wire *wire)
{
	struct pollfd fds[WIRE_FDS];
	int fd[WIRE_FDS];
	unsigned int n = wire_fds(wire, fd);
	int cancel = cancel_off();

	for (unsigned int i = 0; i < n; i++)
		fds[i] = (struct pollfd){ .fd = fd[i], .events = POLLOUT };
	poll(fds, n, LIMIT_SOCKET_FULL_MS);
	cancel_on(cancel);
}

/*
 * Splits the run that starts at p into single packets, with the ICRCs that these need. What a fault
 * has spoiled stays so.
 */
static void give_up_run(struct vrb_tx_batch *b, struct wire_pkt *p, const struct wire_pkt *end)
{
	p->alone = false;
	while (++p < end && p->ip_id) {
		p->ip_id = 0;
		put_icrc(b, p);
		if (b->flipped >> (p - b->pkts) & 1)
			flip(p, 0);
	}
}

/*
 * Moves a leading ACK to the end of the run of requests to the same peer, if one run fills the rest
 * of the batch. This saves a message to the kernel, and the ACK arrives together with the requests.
 */
static void move_ack(struct vrb_tx_batch *b)
{
	struct wire_pkt ack = b->pkts[0];

	if (b->n < 2 || !is_ack(&ack) || b->flipped || b->pkts[1].ip_id ||
	    b->pkts[b->n - 1].ip_id != b->n - 2 || !joins(b, &b->pkts[b->n - 1], &ack))
		return;
	memmove(b->pkts, b->pkts + 1, (b->n - 1) * sizeof(ack));
	ack.ip_id = (uint16_t)(b->n - 1);
	put_icrc(b, &ack);
	b->pkts[b->n - 1] = ack;
}

void vrb_tx_batch_send(struct vrb_tx_batch *b)
{
	unsigned int done = 0, tries = 0;

	move_ack(b);
	while (done < b->n && tries < LIMIT_SOCKET_FULL_TRIES) {
		struct wire_pkt *rest = b->pkts + done;
		unsigned int k = wire_send(b->queue->wire, rest, b->n - done);

		done += k;
		if (done == b->n)
			break;
		if (rest[k].alone) {
			give_up_run(b, rest + k, b->pkts + b->n);
		} else {
			tries++;
			wait_for_room(b->queue->wire);
		}
	}
	fetch_add_relaxed(&b->queue->stats.sent_pkts, done);
	if (done < b->n)
		fetch_add_relaxed(&b->queue->stats.send_lost, b->n - done);
	b->sends++;
	clear(b);
}
