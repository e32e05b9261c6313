/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lanes on which peers send to this process: finds new lanes, receives their packets and clears
 * those of dead senders. The lanes and their state belong to the receiving thread (vrb.poll_lock).
 */
#include "local/local.h"

#include <string.h>

#include "host/host.h"
#include "local/message.h"
#include "local/parts.h"
#include "local/peer.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "util/tuning.h"

enum {
	/* limit of pulled payload per burst; one packet may exceed it */
	PULL_BURST_BYTES = 1 << 20,
};

/*
 * Frees the lane of a dead sender for the next process in its slot. Threads that end a key or a QP
 * read the hazards, `maps` and `sender` meanwhile, without vrb.poll_lock (hazard.c).
 */
static void clear_lane(struct lane *lane)
{
	/* Release, as its own process would have: pairs with wait_hazards(). */
	for (unsigned int i = 0; i < LANE_HAZARDS; i++)
		store_release(&lane->hazard[i], 0);
	for (unsigned int i = 0; i < LANE_SLOTS; i++)
		lane->slot[i].head.seq = 0;
	lane->split_copy = (struct lane_split_copy){ 0 };
	lane->ring_tail = 0;
	lane->can_pull = 0;
	store_relaxed(&lane->maps, 0);	/* orders nothing: it maps none any more */
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
 * Determines the sender of a lane, and whether its memory can be read. The sender stays unknown
 * until it has set all fields.
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
	store_relaxed(&lane->can_pull, !peer_probe(in->pid, in->identity, in->sender));
}

/* The lane has no memory yet: keep the announcement, or its sender would never be served. */
static void look_again(struct local *l, unsigned int slot)
{
	fetch_or_acq_rel(&segment_header(l->seg)->opened[slot / 64], 1ull << slot % 64);
	store_relaxed(&l->lacking, true);
}

/* A process announced a new lane in this slot, or one that still belongs to a dead predecessor. */
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

/* Called when a new sender appears: removes dead senders, so that they do not accumulate. */
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
 * Decodes a message longer than a packet. Everything but the payload's content has been copied or
 * is bounds-checked here.
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

/* Returns how many bytes the receiver has pulled. */
static uint32_t take_packet(const struct inbound *in, const struct lane_head *head,
			    const uint8_t *data, const struct local_input *to, void *arg)
{
	struct local_pkt pkt = {
		.data = data,
		.len = head->len,
		.payload = head->payload,
		.pull = { .pid = in->pid, .identity = in->identity, .incarnation = in->sender },
		.slot = in->slot,
		.xrc = head->flags & LANE_XRC,
		.offer = head->flags & LANE_OFFER,
		.lossy = head->flags & LANE_LOSSY,
		.acks = head->flags & LANE_ACK,
		.ack_psn = head->ack_psn,
		.ack_aeth = head->ack_aeth,
	};
	struct wq_seg segs[SEGS_MAX];
	struct net_path path;

	if (take_apart(head, &pkt, &path, segs))
		to->packet(arg, &pkt);
	return pkt.pull.num_seg ? head->payload : 0;
}

static bool is_message(const struct lane_head *head, const uint8_t *data)
{
	return data && (head->flags & ~LANE_ACK) == LANE_MESSAGE && head->where != LANE_PULL;
}

/*
 * Messages to one QP that have come together are acknowledged together, and their slots freed: the
 * sender waits for the lines that these stores take away from it. What comes while the last one
 * is processed is left to the next call.
 */
static unsigned int drain(struct inbound *in, unsigned int budget, const struct local_input *to,
			  void *arg)
{
	struct lane_slot slot;
	const struct lane_head *head = &slot.head;
	const uint8_t *data;
	unsigned int n = 0;
	uint64_t pulled = 0;

	while (n < budget && pulled < PULL_BURST_BYTES && lane_rx_get(&in->rx, &slot, &data)) {
		const struct lane_slot *next = lane_rx_peek(&in->rx);
		bool more = false, freed = false;

		n++;
		lane_rx_next(&in->rx);
		if (likely(is_message(head, data))) {
			more = next && n % TUNE_LANE_ACK_RUN && n < budget &&
			       message_follows(data, head->len, next);
			freed = to->message(arg, &in->rx, in->slot, head, data, more);
		} else if (data && !(head->flags & LANE_MESSAGE)) {
			pulled += take_packet(in, head, data, to, arg);
		}
		if (!more && !freed)
			lane_rx_free(&in->rx, head);
		if (!next)
			break;
	}
	return n;
}

unsigned int local_recv(struct local *l, unsigned int budget, const struct local_input *to,
			void *arg)
{
	uint32_t news = load_acquire(&segment_header(l->seg)->news);	/* L6 */
	unsigned int lanes, total = 0;

	if (unlikely(news != l->news_seen || l->lacking))
		read_news(l, news);
	lanes = l->n_inbound;
	/* Start with the next lane each time, so that a busy lane does not starve the others. */
	for (unsigned int i = 0; i < lanes && total < budget; i++) {
		if (l->next_inbound >= lanes)
			l->next_inbound = 0;
		total += drain(&l->inbound[l->next_inbound++], budget - total, to, arg);
	}
	/* A sender sends everything before it announces its exit, so its lane is empty now. */
	if (unlikely(l->n_dead) && total < budget)
		drop_dead(l);
	return total;
}

bool local_lacks_memory(const struct local *l)
{
	return load_relaxed(&l->lacking);
}

bool local_input_waits(const struct local *l)
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
		/* a hint: otherwise the sender learns it from the next refusal */
		store_relaxed(&lane->can_pull, 0);
}
