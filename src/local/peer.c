/* SPDX-License-Identifier: BSD-2-Clause */
/* Local peers: lookup, our lanes to them, and their liveness. local.h documents the interface. */
#include "local/peer.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "host/host.h"
#include "local/parts.h"
#include "run/log.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/compiler.h"
#include "util/time.h"

#define ALIVE_CHECK VRB_MSEC

static void free_regions(struct local_peer *peer)
{
	if (peer->regions != NULL)
		region_maps_free(peer->regions);
	free(peer->regions);
	peer->regions = NULL;
}

void peer_unmap_regions(struct local_peer *peer)
{
	free_regions(peer);
	store_relaxed(&peer->map.lane->maps, 0);
}

/* Writes nothing to the lane: in a forked child it is the parent's. */
void peer_free(struct local_peer *peer)
{
	list_del(&peer->node);
	free_regions(peer);
	list_del(&peer->bell_node);
	peer_map_close(&peer->map);
	if (peer->bell >= 0)
		close(peer->bell);
	lock_destroy(&peer->lock);
	free(peer);
}

static void take_out(struct local *l, const struct local_peer *peer)
{
	unsigned int n = l->n_outbound, i = 0;

	lock_acquire(&l->reading);
	while (l->outbound[i] != peer)
		i++;
	l->outbound[i] = l->outbound[n - 1];
	store_relaxed(&l->n_outbound, n - 1);
	lock_release(&l->reading);
}

/*
 * Frees peers that are gone. They are kept until then because readers of local->outbound, which do
 * not hold local->lock, may still use them. Must hold vrb.poll_lock.
 */
static void reap(struct local *l)
{
	struct list *pos, *tmp;
	int cancel;

	if (likely(!load_relaxed(&l->any_unused)))
		return;
	cancel = cancel_off();
	lock_acquire(&l->lock);
	list_for_each_safe(pos, tmp, &l->unused) {
		struct local_peer *peer = list_entry(pos, struct local_peer, node);

		take_out(l, peer);
		peer_free(peer);
	}
	store_relaxed(&l->any_unused, false);
	lock_release(&l->lock);
	cancel_on(cancel);
}

/* Must hold l->lock. */
static void retire(struct local *l, struct local_peer *peer)
{
	list_del(&peer->node);
	list_add_tail(&l->unused, &peer->node);
	store_relaxed(&l->any_unused, true);
}

/* Notifies the segment's owner that our lane has changed. */
static void announce(struct local *l, struct local_peer *peer)
{
	struct seg_header *h = peer->map.header;
	uint32_t slot = host_slot(l->host);

	fetch_or_acq_rel(&h->opened[slot / 64], 1ull << slot % 64);
	fetch_add_acq_rel(&h->news, 1);	/* L6 */
	peer_wake(l, peer);
}

/*
 * L6: claims the lane. Returns false if our slot's lane still belongs to a predecessor, and
 * notifies the lane's owner.
 */
static bool claim_lane(struct local *l, struct local_peer *peer)
{
	uint64_t sender = 0, me = host_incarnation(l->host);
	struct seg_header *h = peer->map.header;
	uint32_t slot = host_slot(l->host);
	bool ours;

	fetch_or_acq_rel(&h->claimed[slot / 64], 1ull << slot % 64);
	ours = cas_acq_rel(&peer->map.lane->sender, &sender, me) || sender == me;
	if (ours) {
		lane_tx_init(&peer->tx, peer->map.lane);
		store_relaxed(&peer->map.lane->sender_identity,
			      (uintptr_t)&l->seg->identity);	/* L6 */
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

int peer_probe(int32_t pid, uint64_t identity, uint64_t incarnation)
{
	struct seg_identity found = { 0 };
	struct iovec here = { &found, sizeof(found) };
	struct iovec there = { (void *)(uintptr_t)identity, sizeof(found) };

	long n = SYS_RESULT(process_vm_readv(pid, &here, 1, &there, 1, 0));

	if (n < 0)
		return (int)-n;
	return n == sizeof(found) && found.magic == SEG_MAGIC && found.incarnation == incarnation ?
		       0 : ESRCH;
}

static bool is_itself(const struct local_peer *peer)
{
	if (likely(keeper_vouches(peer->map.keeper)))
		return !keeper_gone(peer->map.keeper);
	return peer_probe(peer->map.pid, peer->identity, peer->map.incarnation) == 0;
}

/*
 * Has the process ended or called exec? A keeper shows that at once, but a process has none until
 * its progress thread has run. The host lock does not show an exec if a child that was cloned
 * without the library's knowledge holds the lock, too.
 */
static bool is_replaced(const struct local_peer *peer)
{
	int err;

	if (keeper_gone(peer->map.keeper))
		return true;
	if (keeper_vouches(peer->map.keeper) || !peer->proven)
		return false;
	/* Other errors mean that the kernel refuses further copies. */
	err = peer_probe(peer->map.pid, peer->identity, peer->map.incarnation);
	return err == EFAULT || err == ESRCH;
}

bool peer_in_reach(struct local_peer *peer)
{
	if (unlikely(!load_relaxed(&peer->cma)))
		return false;
	if (likely(is_itself(peer)))
		return true;
	log_info(
		LOG_LOCAL,
		"the process in slot %d has exited, runs another program or refuses further copies",
		peer->slot);
	store_relaxed(&peer->cma, false);
	return false;
}

/*
 * For certain? A peer that is let go and opened again would begin its lane anew, while its process
 * goes on where it was.
 */
static bool is_dead(struct local *l, const struct local_peer *peer)
{
	return is_replaced(peer) ||
	       host_liveness(l->host, peer->slot, peer->map.incarnation) == HOST_DEAD;
}

/* The table could not be read for a while, so the process was taken for dead. Must hold l->lock. */
static void revive(struct local_peer *peer)
{
	store_relaxed(&peer->alive, true);
	peer->proven = !peer_probe(peer->map.pid, peer->identity, peer->map.incarnation);
	store_relaxed(&peer->cma, peer->proven);
}

/* Removes dead peers that no QP uses. Must hold l->lock. */
static void sweep_peers(struct local *l)
{
	struct list *pos, *tmp;

	list_for_each_safe(pos, tmp, &l->peers) {
		struct local_peer *peer = list_entry(pos, struct local_peer, node);

		if (peer->refs == 0 && is_dead(l, peer))
			retire(l, peer);
	}
}

static struct local_peer *open_peer(struct local *l, int slot, uint64_t incarnation)
{
	struct local_peer *peer;

	sweep_peers(l);
	if (l->n_outbound == OUTBOUND_MAX)
		return NULL;
	peer = calloc(1, sizeof(*peer));
	if (peer == NULL)
		return NULL;
	if (peer_map_open(l->host, l->seg, host_slot(l->host), slot, incarnation, &peer->map) !=
	    0) {
		free(peer);
		return NULL;
	}
	peer->slot = slot;
	peer->self = slot == (int)host_slot(l->host);
	peer->bell = peer->self ? -1 : host_bell_open(l->host, slot, incarnation);
	peer->own_heavy = &segment_header(l->seg)->heavy;
	peer->alive = true;
	lock_init(&peer->lock);
	message_queue_init(&peer->senders);
	list_init(&peer->bell_node);
	peer->identity = peer->map.header->identity;
	peer->cma = peer->proven = !peer_probe(peer->map.pid, peer->identity, incarnation);
	list_add_tail(&l->peers, &peer->node);
	l->outbound[l->n_outbound] = peer;
	/* Pairs with the acquire in local_next_sender(): publishes the initialised peer. */
	store_release(&l->n_outbound, l->n_outbound + 1);
	return peer;
}

/*
 * Returns the peer that was looked up last if it publishes the QP number. It then owns the number,
 * and the host's table need not be read. Must hold l->lock.
 */
static struct local_peer *latest(struct local *l, uint32_t qpn)
{
	struct local_peer *peer;

	if (list_empty(&l->peers))
		return NULL;
	peer = list_entry(l->peers.next, struct local_peer, node);
	if (!peer->ready || !load_relaxed(&peer->alive) || keeper_gone(peer->map.keeper) ||
	    !local_peer_has_qp(peer, qpn))
		return NULL;
	peer->refs++;
	return peer;
}

struct local_peer *local_peer_get(struct local *l, uint32_t qpn)
{
	struct local_peer *peer;
	int slot;

	lock_acquire(&l->lock);
	peer = latest(l, qpn);
	lock_release(&l->lock);
	if (peer)
		return peer;
	slot = host_owner(l->host, qpn);
	return slot == HOST_NO_SLOT ? NULL : local_peer_in(l, slot);
}

struct local_peer *local_peer_in(struct local *l, int slot)
{
	struct local_peer *peer;
	struct host_peer facts;
	int cancel;

	if (!host_peer(l->host, slot, &facts))
		return NULL;
	cancel = cancel_off();
	lock_acquire(&l->lock);
	peer = find_peer(l, slot, facts.incarnation);
	if (peer == NULL)
		peer = open_peer(l, slot, facts.incarnation);
	else if (!load_relaxed(&peer->alive) && !is_dead(l, peer))
		revive(peer);
	if (peer != NULL && !peer->ready && !claim_lane(l, peer))
		peer = NULL;
	if (peer != NULL) {
		peer->refs++;
		/* Move it to the front. */
		list_del(&peer->node);
		list_add_tail(l->peers.next, &peer->node);
	}
	lock_release(&l->lock);
	cancel_on(cancel);
	return peer;
}

static void unmap_regions(struct local_peer *peer)
{
	lock_acquire(&peer->lock);
	peer_unmap_regions(peer);
	lock_release(&peer->lock);
}

void local_peer_put(struct local *l, struct local_peer *peer)
{
	lock_acquire(&l->lock);
	if (--peer->refs == 0) {
		unmap_regions(peer);
		/* Keep the lane of a live peer: opening is costly, and the peer still reads it. */
		if (!load_relaxed(&peer->alive) && is_dead(l, peer))
			retire(l, peer);
	}
	lock_release(&l->lock);
}

int local_peer_slot(const struct local_peer *peer)
{
	return peer->slot;
}

const struct seg_qp *local_peer_qp(const struct local_peer *peer, uint32_t qpn,
				   struct seg_qp *copy)
{
	return peer_map_qp(&peer->map, qpn, copy);
}

bool local_peer_has_qp(const struct local_peer *peer, uint32_t qpn)
{
	return peer_map_has_qp(&peer->map, qpn);
}

/*
 * Do senders wait whose slot the tail has passed? A hint: progress published meanwhile is found
 * next time.
 */
static bool may_have_news(const struct local_peer *peer)
{
	/* The tail is on a cache line that the peer writes for each message. */
	return message_awaited(&peer->senders) &&
	       message_may_be_due(&peer->senders, load_relaxed(&peer->map.lane->tail));
}

static bool any_may_have_news(const struct local *l)
{
	unsigned int n = load_acquire(&l->n_outbound);	/* pairs with open_peer() */

	for (unsigned int i = 0; i < n; i++)
		if (may_have_news(l->outbound[i]))
			return true;
	return false;
}

static struct message_sender *next_sender_to(struct local_peer *peer)
{
	struct message_sender *s;

	lock_acquire(&peer->lock);
	s = message_next(&peer->senders, lane_tx_tail(&peer->tx));
	lock_release(&peer->lock);
	return s;
}

/* Not inline: most polls find no news. */
static __attribute__((noinline)) struct message_sender *next_sender(struct local *l)
{
	struct message_sender *s = NULL;
	unsigned int n;

	reap(l);
	n = load_acquire(&l->n_outbound);
	for (unsigned int i = 0; i < n && !s; i++)
		if (may_have_news(l->outbound[i]))
			s = next_sender_to(l->outbound[i]);
	return s;
}

struct message_sender *local_next_sender(struct local *l)
{
	if (likely(!load_relaxed(&l->any_unused)) && !any_may_have_news(l))
		return NULL;
	return next_sender(l);
}

void local_unmap_ended(struct local *l)
{
	unsigned int n = load_acquire(&l->n_outbound);	/* pairs with open_peer() */

	for (unsigned int i = 0; i < n; i++) {
		struct local_peer *peer = l->outbound[i];

		if (load_relaxed(&peer->map.lane->maps) == 0)
			continue;
		lock_acquire(&peer->lock);
		if (peer->regions)
			region_maps_sweep(peer->regions, &peer->map);
		lock_release(&peer->lock);
	}
}

bool local_others_due(const struct local *l, const struct message_sender *s)
{
	unsigned int n = load_acquire(&l->n_outbound);	/* pairs with open_peer() */

	for (unsigned int i = 0; i < n; i++)
		if (message_awaited_by_others(&l->outbound[i]->senders, s) &&
		    may_have_news(l->outbound[i]))
			return true;
	return false;
}

static bool has_news(struct local_peer *peer)
{
	bool due;

	lock_acquire(&peer->lock);
	due = message_due(&peer->senders, lane_tx_tail(&peer->tx));
	lock_release(&peer->lock);
	return due;
}

bool peers_have_news(struct local *l)
{
	unsigned int n = load_acquire(&l->n_outbound);

	for (unsigned int i = 0; i < n; i++)
		if (message_awaited(&l->outbound[i]->senders) && has_news(l->outbound[i]))
			return true;
	return false;
}

void local_forget_sender(struct local_peer *peer, struct message_sender *s)
{
	lock_acquire(&peer->lock);
	message_forget(&peer->senders, s);
	lock_release(&peer->lock);
}

static void note_death(struct local_peer *peer)
{
	if (!load_relaxed(&peer->alive))
		return;
	store_relaxed(&peer->alive, false);
	store_relaxed(&peer->cma, false);	/* no mapping is left */
	unmap_regions(peer);
}

bool local_peer_alive(struct local *l, struct local_peer *peer, uint64_t now)
{
	/* A hint: two threads may both check. */
	uint64_t checked = load_relaxed(&peer->checked);

	if (unlikely(keeper_gone(peer->map.keeper))) {
		note_death(peer);
	} else if (time_since(checked, now) >= ALIVE_CHECK) {
		store_relaxed(&peer->checked, now);
		if (is_replaced(peer) || !host_alive(l->host, peer->slot, peer->map.incarnation))
			note_death(peer);
	}
	return load_relaxed(&peer->alive);
}

bool local_peer_took(const struct local_peer *peer, uint32_t head)
{
	/* L7: then what it did with the packets comes before the caller's next access */
	return (int32_t)(load_acquire(&peer->map.lane->tail) - head) >= 0;
}

void peer_wake(struct local *l, struct local_peer *peer)
{
	host_ring_by(l->host, peer->bell, peer->slot, peer->map.incarnation);
}
