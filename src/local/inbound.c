/* SPDX-License-Identifier: BSD-2-Clause */
/* See inbound.h. */
#include "local/inbound.h"

#include <string.h>

#include "host/host.h"
#include "local/parts.h"
#include "local/peer.h"
#include "util/atomic.h"
#include "util/compiler.h"

enum {
	/* budget of pulled payload per burst; it may be exceeded by one packet */
	TX_BATCH_BYTES = 1 << 20,
};

/* Frees the lane of a dead sender for the next process in its slot. */
static void clear_lane(struct lane *lane)
{
	memset(lane->hazard, 0, sizeof(lane->hazard));
	for (unsigned int i = 0; i < LANE_SLOTS; i++)
		lane->slot[i].head.seq = 0;
	lane->split_copy = (struct lane_split_copy){ 0 };
	lane->ring_tail = 0;
	lane->can_pull = 0;
	lane->sender_identity = 0;
	lane->tail = 0;
	store_release(&lane->sender, 0);	/* L6 */
}

static void drop_inbound(struct local *l, unsigned int i)
{
	clear_lane(l->inbound[i].rx.lane);
	l->inbound[i] = l->inbound[--l->n_inbound];
}

static struct inbound *find_inbound(struct local *l, unsigned int slot)
{
	for (unsigned int i = 0; i < l->n_inbound; i++) {
		if (l->inbound[i].slot == slot)
			return &l->inbound[i];
	}
	return NULL;
}

/*
 * Determines the sender of a lane, and whether its memory can be read. Unknown until the sender has
 * set all fields.
 */
static void learn_sender(struct local *l, struct inbound *in)
{
	struct lane *lane = in->rx.lane;
	struct host_peer facts;

	in->identity = load_relaxed(&lane->sender_identity);
	if (in->identity == 0 || !host_peer(l->host, in->slot, &facts) ||
	    facts.incarnation != in->sender)
		return;
	in->pid = facts.pid;
	store_relaxed(&lane->can_pull, peer_probe(in->pid, in->identity, in->sender));
}

/* No memory for the lane now: keeps the announcement, or the sender would never be served. */
static void look_again(struct local *l, unsigned int slot)
{
	fetch_or_acq_rel(&segment_header(l->seg)->opened[slot / 64], 1ull << slot % 64);
	store_relaxed(&l->lacking, true);
}

/* A process announced that its lane in this slot is new, or blocked by a predecessor's. */
static void look_at_lane(struct local *l, unsigned int slot)
{
	struct lane *lane = segment_own_lane(l->seg, slot);
	struct inbound *in = find_inbound(l, slot);
	uint64_t sender;

	if (lane == NULL) {
		look_again(l, slot);
		return;
	}
	sender = load_acquire(&lane->sender);	/* L6 */
	if (in == NULL && sender == 0)
		return;
	if (in == NULL) {
		in = &l->inbound[l->n_inbound++];
		*in = (struct inbound){ .sender = sender, .slot = slot };
		lane_rx_init(&in->rx, lane);
	}
	if (in->pid == 0)
		learn_sender(l, in);
}

/* A new sender is the occasion to remove dead ones, so that they do not accumulate. */
static void find_dead(struct local *l)
{
	l->n_dead = 0;
	for (unsigned int i = 0; i < l->n_inbound; i++) {
		struct inbound *in = &l->inbound[i];

		in->dead = !host_alive(l->host, in->slot, in->sender);
		l->n_dead += in->dead;
	}
}

static void drop_dead(struct local *l)
{
	for (unsigned int i = l->n_inbound; i-- > 0;) {
		if (l->inbound[i].dead && !lane_rx_ready(&l->inbound[i].rx)) {
			drop_inbound(l, i);
			l->n_dead--;
		}
	}
}

static void read_news(struct local *l, uint32_t news)
{
	struct seg_header *h = segment_header(l->seg);

	l->news_seen = news;
	store_relaxed(&l->lacking, false);
	for (unsigned int w = 0; w < ARRAY_SIZE(h->opened); w++) {
		uint64_t bits = swap_acq_rel(&h->opened[w], 0);

		for (; bits != 0; bits &= bits - 1)
			look_at_lane(l, w * 64 + __builtin_ctzll(bits));
	}
	find_dead(l);
}

/*
 * Decodes a message longer than a packet. Everything was copied or is bounds-checked here, except
 * the content of the payload.
 */
static bool take_apart(const struct lane_head *head, struct local_pkt *pkt, struct net_path *path,
		       struct wq_seg *segs)
{
	if (head->flags & LANE_PATH) {
		if (pkt->len < sizeof(*path))
			return false;
		memcpy(path, pkt->data, sizeof(*path));
		pkt->path = path;
		pkt->data += sizeof(*path);
		pkt->len -= sizeof(*path);
	}
	if (head->where == LANE_PULL) {
		uint32_t bytes = head->nseg * sizeof(*segs);

		if (head->nseg == 0 || head->nseg > SEGS_MAX || pkt->len < bytes ||
		    head->payload == 0)
			return false;
		pkt->len -= bytes;
		memcpy(segs, pkt->data + pkt->len, bytes);
		pkt->pull.num_seg = head->nseg;
		pkt->pull.seg = segs;
	}
	return true;
}

static unsigned int drain(struct inbound *in, unsigned int budget, local_pkt_fn fn, void *arg)
{
	struct lane_slot slot;
	const struct lane_head *head = &slot.head;
	struct local_pkt pkt = {
		.slot = in->slot,
		.pull = { .pid = in->pid, .identity = in->identity, .incarnation = in->sender },
	};
	struct wq_seg segs[SEGS_MAX];
	struct net_path path;
	unsigned int n = 0;
	uint64_t pulled = 0;

	while (n < budget && pulled < TX_BATCH_BYTES && lane_rx_get(&in->rx, &slot, &pkt.data)) {
		pkt.len = head->len;
		pkt.path = NULL;
		pkt.payload = head->payload;
		pkt.pull.num_seg = 0;
		pkt.message = head->flags & LANE_MESSAGE;
		pkt.offer = head->flags & LANE_OFFER;
		pkt.bare = head->flags & LANE_BARE;
		pkt.acks = head->flags & LANE_ACK;
		pkt.ack_psn = head->ack_psn;
		pkt.ack_aeth = head->ack_aeth;
		if (pkt.data != NULL && take_apart(head, &pkt, &path, segs))
			fn(arg, &pkt);
		pulled += pkt.pull.num_seg ? head->payload : 0;
		lane_rx_done(&in->rx, head);
		n++;
	}
	return n;
}

unsigned int local_recv(struct local *l, unsigned int budget, local_pkt_fn fn, void *arg)
{
	uint32_t news = load_acquire(&segment_header(l->seg)->news);	/* L6 */
	unsigned int lanes, total = 0;

	if (unlikely(news != l->news_seen || l->lacking))
		read_news(l, news);
	lanes = l->n_inbound;
	/* Starts with the next lane each time, so that no lane starves behind a busy one. */
	for (unsigned int i = 0; i < lanes && total < budget; i++) {
		if (l->next_inbound >= lanes)
			l->next_inbound = 0;
		total += drain(&l->inbound[l->next_inbound++], budget - total, fn, arg);
	}
	/* A sender that announced its exit sent everything before; the lanes are empty now. */
	if (unlikely(l->n_dead) && total < budget)
		drop_dead(l);
	return total;
}

bool local_lacks_memory(const struct local *l)
{
	return load_relaxed(&l->lacking);
}

bool inbound_waits(struct local *l)
{
	if (load_acquire(&segment_header(l->seg)->news) != l->news_seen)
		return true;
	for (unsigned int i = 0; i < l->n_inbound; i++) {
		if (lane_rx_ready(&l->inbound[i].rx))
			return true;
	}
	return false;
}

struct lane *local_lane_from(struct local *l, uint64_t incarnation)
{
	for (unsigned int i = 0; i < l->n_inbound; i++) {
		if (l->inbound[i].sender == incarnation)
			return l->inbound[i].rx.lane;
	}
	return NULL;
}

void local_pull_refused(struct local *l, const struct wq_pull *from)
{
	struct lane *lane = local_lane_from(l, from->incarnation);

	if (lane)
		store_relaxed(&lane->can_pull, 0);	/* a hint: it is asked again otherwise */
}
