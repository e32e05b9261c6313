/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Neighbours: finding them, their lanes to us and ours to them, sleeping and waking.  local.h has the contract.
 */
#include "local/local.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "host/host.h"
#include "local/atomics.h"
#include "util/atomic.h"
#include "util/list.h"
#include "util/time.h"

#include "local/peer.h"

enum {
	SEGS_MAX = 64,			/* of a pulled packet; more are sent as packets */
	ALIVE_CHECK_NS = 10 * 1000 * 1000,
};

/* A lane by which a neighbour sends to us. */
struct inbound {
	struct lane_rx rx;
	uint64_t sender;	/* incarnation */
	int32_t pid;
	uint16_t slot;
	bool dead;		/* what it left is still taken, then the lane is cleared */
};

struct local {
	struct host *host;
	struct segment *seg;
	struct lock lock;
	struct list peers;

	/* vrb.drive */
	uint32_t news_seen;
	unsigned int n_inbound, next_inbound;
	unsigned int n_dead;		/* some of inbound[] are; a hint */
	struct inbound inbound[SEG_PEERS];
};

int local_start(struct host *host, uint64_t netns, struct local **out)
{
	struct local *l = calloc(1, sizeof(*l));
	int err;

	if (l == NULL)
		return ENOMEM;
	err = segment_create(host, netns, &l->seg);
	if (err != 0) {
		free(l);
		return err;
	}
	l->host = host;
	lock_init(&l->lock);
	list_init(&l->peers);
	*out = l;
	return 0;
}

static void free_peers(struct local *l)
{
	struct list *pos, *tmp;

	list_for_each_safe(pos, tmp, &l->peers) {
		struct local_peer *peer = list_entry(pos, struct local_peer, node);

		peer_map_close(&peer->map);
		lock_destroy(&peer->lock);
		free(peer);
	}
	lock_destroy(&l->lock);
	free(l);
}

void local_stop(struct local *l)
{
	struct list *pos;

	/* Our lanes are free for a successor in this slot. */
	list_for_each(pos, &l->peers) {
		struct local_peer *peer = list_entry(pos, struct local_peer, node);

		uint32_t slot = host_slot(l->host);
		struct seg_header *h = peer->map.front;

		fetch_or_acq_rel(&h->opened[slot / 64], 1ull << slot % 64);
		fetch_add_acq_rel(&h->news, 1);
	}
	segment_destroy(l->seg, l->host);
	free_peers(l);
}

void local_forget(struct local *l)
{
	segment_forget(l->seg);
	free_peers(l);
}

struct segment *local_segment(struct local *l)
{
	return l->seg;
}

/* ---------------------------------------------------------------- neighbours */

/* Tells the owner of the segment that something is new with our lane. */
static void announce(struct local *l, struct local_peer *peer)
{
	struct seg_header *h = peer->map.front;
	uint32_t slot = host_slot(l->host);

	fetch_or_acq_rel(&h->opened[slot / 64], 1ull << slot % 64);
	fetch_add_acq_rel(&h->news, 1);	/* L6 */
	host_ring(l->host, peer->slot, peer->map.incarnation);
}

/* L6: makes the lane ours.  False while what a predecessor in our slot left is in the way; its owner has been told. */
static bool claim_lane(struct local *l, struct local_peer *peer)
{
	uint64_t sender = 0, me = host_incarnation(l->host);
	struct seg_header *h = peer->map.front;
	uint32_t slot = host_slot(l->host);
	bool ours;

	fetch_or_acq_rel(&h->claimed[slot / 64], 1ull << slot % 64);
	ours = cas_acq_rel(&peer->map.lane->sender, &sender, me) || sender == me;

	if (ours) {
		lane_tx_init(&peer->tx, peer->map.lane);
		peer->map.lane->sender_base = segment_header(l->seg)->base;
	}
	peer->ready = ours;
	announce(l, peer);
	return ours;
}

static struct local_peer *find_peer(struct local *l, int slot, uint64_t incarnation)
{
	struct list *pos;

	list_for_each(pos, &l->peers) {
		struct local_peer *peer = list_entry(pos, struct local_peer, node);

		if (peer->slot == slot && peer->map.incarnation == incarnation)
			return peer;
	}
	return NULL;
}

/* Asks the kernel once per neighbour whether it lets us copy: the first bytes of its header, by its own address. */
static bool probe_cma(int32_t pid, uint64_t base)
{
	uint64_t magic = 0;
	struct iovec here = { &magic, sizeof(magic) };
	struct iovec there = { (void *)(uintptr_t)base, sizeof(magic) };

	return process_vm_readv(pid, &here, 1, &there, 1, 0) == sizeof(magic) && magic == SEG_MAGIC;
}

static struct local_peer *open_peer(struct local *l, int slot, uint64_t incarnation)
{
	struct local_peer *peer = calloc(1, sizeof(*peer));

	if (peer == NULL)
		return NULL;
	if (peer_map_open(l->host, l->seg, host_slot(l->host), slot, incarnation, &peer->map) != 0) {
		free(peer);
		return NULL;
	}
	peer->slot = slot;
	peer->alive = true;
	lock_init(&peer->lock);
	peer->cma = probe_cma(peer->map.pid, peer->map.header->base);
	list_add_tail(&l->peers, &peer->node);
	return peer;
}

struct local_peer *local_peer_get(struct local *l, uint32_t qpn)
{
	int slot = host_owner(l->host, qpn);

	return slot == HOST_NO_SLOT ? NULL : local_peer_in(l, slot);
}

struct local_peer *local_peer_in(struct local *l, int slot)
{
	struct local_peer *peer;
	struct host_peer facts;

	if (!host_peer(l->host, slot, &facts))
		return NULL;
	lock_acquire(&l->lock);
	peer = find_peer(l, slot, facts.incarnation);
	if (peer == NULL)
		peer = open_peer(l, slot, facts.incarnation);
	if (peer != NULL && !peer->ready && !claim_lane(l, peer))
		peer = NULL;
	if (peer != NULL)
		peer->refs++;
	lock_release(&l->lock);
	return peer;
}

void local_peer_put(struct local *l, struct local_peer *peer)
{
	lock_acquire(&l->lock);
	/* A live neighbour's lane is kept: it is costly to open, and its other end is still reading it. */
	if (--peer->refs == 0 && !peer->alive) {
		list_del(&peer->node);
		peer_map_close(&peer->map);
		lock_destroy(&peer->lock);
		free(peer);
	}
	lock_release(&l->lock);
}

bool local_peer_qp(const struct local_peer *peer, uint32_t qpn, struct seg_qp *copy)
{
	return peer_map_qp(&peer->map, qpn, copy);
}

bool local_peer_alive(struct local *l, struct local_peer *peer, uint64_t now)
{
	uint64_t checked = load_relaxed(&peer->checked);	/* a hint: two threads may both look */

	if (now - checked >= ALIVE_CHECK_NS) {
		store_relaxed(&peer->checked, now);
		if (!host_alive(l->host, peer->slot, peer->map.incarnation))
			store_relaxed(&peer->alive, false);
	}
	return load_relaxed(&peer->alive);
}

bool local_peer_cma(const struct local_peer *peer)
{
	return load_relaxed(&peer->cma);
}

bool local_peer_pulls(const struct local_peer *peer)
{
	return load_relaxed(&peer->map.lane->can_pull) == 1;
}

/* ---------------------------------------------------------------- sending */

struct lane_tx *local_burst_begin(struct local_peer *peer)
{
	lock_acquire(&peer->lock);
	return &peer->tx;
}

void local_burst_end(struct local *l, struct local_peer *peer, bool sent)
{
	lock_release(&peer->lock);
	if (!sent)
		return;
	full_fence();	/* L2: the slots before, asleep after */
	if (unlikely(load_relaxed(peer->map.asleep)))
		host_ring(l->host, peer->slot, peer->map.incarnation);
}

/* ---------------------------------------------------------------- receiving */

/* Makes the lane of a dead sender free for the next process in its slot. */
static void clear_lane(struct lane *lane)
{
	memset(lane->hazard, 0, sizeof(lane->hazard));
	for (unsigned int i = 0; i < LANE_SLOTS; i++)
		lane->slot[i].seq = 0;
	lane->ring_tail = 0;
	lane->can_pull = 0;
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

static void look_at_lane(struct local *l, unsigned int slot)
{
	struct lane *lane = segment_lane(l->seg, slot);
	uint64_t sender = load_acquire(&lane->sender);	/* L6 */
	struct inbound *in = find_inbound(l, slot);
	struct host_peer facts;

	if (in == NULL && sender == 0)
		return;
	if (in == NULL) {
		in = &l->inbound[l->n_inbound++];
		*in = (struct inbound){ .sender = sender, .slot = slot };
		lane_rx_init(&in->rx, lane);
	}
	in->dead = !host_alive(l->host, slot, in->sender);
	l->n_dead += in->dead;
	if (in->dead || in->pid || !host_peer(l->host, slot, &facts) ||
	    facts.incarnation != in->sender)
		return;
	in->pid = facts.pid;
	store_relaxed(&lane->can_pull, probe_cma(in->pid, lane->sender_base));
}

static void drop_dead(struct local *l)
{
	for (unsigned int i = l->n_inbound; i-- > 0;) {
		if (l->inbound[i].dead)
			drop_inbound(l, i);
	}
	l->n_dead = 0;
}

static void read_news(struct local *l, uint32_t news)
{
	struct seg_header *h = segment_header(l->seg);

	l->news_seen = news;
	for (unsigned int w = 0; w < ARRAY_SIZE(h->opened); w++) {
		uint64_t bits = swap_acq_rel(&h->opened[w], 0);

		for (; bits != 0; bits &= bits - 1)
			look_at_lane(l, w * 64 + __builtin_ctzll(bits));
	}
}

/* Takes the parts of a message apart; everything was copied or is bounds-checked here, except what the payload says. */
static bool parse(const struct lane_slot *slot, const uint8_t *data, struct local_pkt *pkt,
		  struct net_path *path, struct wq_seg *segs)
{
	uint32_t len = slot->len;

	if (data == NULL)
		return false;
	if (slot->flags & LANE_PATH) {
		if (len < sizeof(*path))
			return false;
		memcpy(path, data, sizeof(*path));
		pkt->path = path;
		data += sizeof(*path);
		len -= sizeof(*path);
	}
	pkt->nseg = 0;
	if (slot->where == LANE_PULL) {
		uint32_t bytes = slot->nseg * sizeof(*segs);

		if (slot->nseg == 0 || slot->nseg > SEGS_MAX || len < bytes)
			return false;
		len -= bytes;
		memcpy(segs, data + len, bytes);
		pkt->nseg = slot->nseg;
		pkt->segs = segs;
	}
	pkt->payload = slot->payload;
	pkt->data = data;
	pkt->len = len;
	return true;
}

static unsigned int drain(struct inbound *in, unsigned int budget, local_pkt_fn fn, void *arg)
{
	struct lane_slot slot;
	const uint8_t *data;
	unsigned int n = 0;

	while (n < budget && lane_rx_get(&in->rx, &slot, &data)) {
		struct wq_seg segs[SEGS_MAX];
		struct net_path path;
		struct local_pkt pkt = { .pid = in->pid, .slot = in->slot };

		if (parse(&slot, data, &pkt, &path, segs))
			fn(arg, &pkt);
		lane_rx_done(&in->rx, &slot);
		n++;
	}
	return n;
}

unsigned int local_recv(struct local *l, unsigned int budget, local_pkt_fn fn, void *arg)
{
	uint32_t news = load_acquire(&segment_header(l->seg)->news);	/* L6 */
	unsigned int lanes, total = 0;

	if (unlikely(news != l->news_seen))
		read_news(l, news);
	lanes = l->n_inbound;
	/* Begins with another lane each time, so that none starves behind a busy one. */
	for (unsigned int i = 0; i < lanes && total < budget; i++) {
		if (l->next_inbound >= lanes)
			l->next_inbound = 0;
		total += drain(&l->inbound[l->next_inbound++], budget - total, fn, arg);
	}
	/* Whoever said that it leaves has sent what it had to before; the lanes are empty now. */
	if (unlikely(l->n_dead) && total < budget)
		drop_dead(l);
	return total;
}

bool local_pending(struct local *l)
{
	if (load_acquire(&segment_header(l->seg)->news) != l->news_seen)
		return true;
	for (unsigned int i = 0; i < l->n_inbound; i++) {
		const struct lane_rx *rx = &l->inbound[i].rx;

		if (load_acquire(&rx->lane->slot[rx->next % LANE_SLOTS].seq) == rx->next + 1)
			return true;
	}
	return false;
}

bool local_sleep(struct local *l)
{
	struct seg_header *h = segment_header(l->seg);

	store_relaxed(&h->asleep, 1);
	full_fence();	/* L2: asleep before, the lanes after */
	if (!local_pending(l))
		return true;
	store_relaxed(&h->asleep, 0);
	return false;
}

void local_wake(struct local *l)
{
	store_relaxed(&segment_header(l->seg)->asleep, 0);	/* late is harmless: one doorbell too many */
}

bool local_sleeps(const struct local *l)
{
	return load_relaxed(&segment_header(l->seg)->asleep);
}

/* ---------------------------------------------------------------- cross-memory attach */

/* Fills at most n vectors with what is left of segs behind `done` bytes. */
static unsigned int vectors_behind(struct iovec *v, const struct wq_seg *segs, unsigned int n,
				   uint64_t done)
{
	unsigned int k = 0;

	for (unsigned int i = 0; i < n; i++) {
		if (done >= segs[i].len) {
			done -= segs[i].len;
			continue;
		}
		v[k++] = (struct iovec){ (void *)(uintptr_t)(segs[i].addr + done),
					 segs[i].len - done };
		done = 0;
	}
	return k;
}

int local_pull(int32_t pid, const struct wq_seg *segs, unsigned int nseg, uint64_t skip,
	       const struct wq_seg *dst, unsigned int ndst, uint64_t total)
{
	struct iovec from[SEGS_MAX], to[SEGS_MAX];

	if (nseg > SEGS_MAX || ndst > SEGS_MAX)
		return EPERM;
	/* One call moves just under 2 GiB at most. */
	for (uint64_t done = 0; done < total;) {
		unsigned int nfrom = vectors_behind(from, segs, nseg, skip + done);
		unsigned int nto = vectors_behind(to, dst, ndst, done);
		ssize_t got = process_vm_readv(pid, to, nto, from, nfrom, 0);

		if (got < 0)
			return errno;
		if (got == 0)
			return EFAULT;
		done += got;
	}
	return 0;
}

uint64_t local_incarnation(const struct local *l)
{
	return host_incarnation(l->host);
}

bool local_incarnation_alive(struct local *l, uint64_t incarnation)
{
	struct host_peer facts;

	for (int slot = 0; slot < HOST_SLOTS; slot++) {
		if (host_peer(l->host, slot, &facts) && facts.incarnation == incarnation)
			return host_alive(l->host, slot, incarnation);
	}
	return false;
}

static bool holder_alive(void *arg, uint64_t incarnation)
{
	return local_incarnation_alive(arg, incarnation);
}

void local_lock_atomics(struct local *l)
{
	atomics_lock(&segment_header(l->seg)->atomics, local_incarnation(l), holder_alive, l);
}

void local_unlock_atomics(struct local *l)
{
	atomics_unlock(&segment_header(l->seg)->atomics, local_incarnation(l));
}

void local_wait_unused(struct local *l, uint32_t index)
{
	full_fence();	/* L8: the entry is dead before, the hazards are read after */
	for (unsigned int slot = 0; slot < SEG_PEERS; slot++) {
		const struct lane *lane;
		uint64_t sender;

		if (!segment_lane_claimed(l->seg, slot))
			continue;
		lane = segment_lane(l->seg, slot);
		for (unsigned int i = 0; i < LANE_HAZARDS; i++) {
			for (unsigned int tries = 1; load_acquire(&lane->hazard[i]) == index; tries++) {
				sender = load_relaxed(&lane->sender);
				if (tries % 4096 == 0 && !host_alive(l->host, slot, sender))
					break;
				cpu_relax();
			}
		}
	}
}
