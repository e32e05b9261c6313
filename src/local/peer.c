/* SPDX-License-Identifier: BSD-2-Clause */
/* Local peers: lookup, our lanes to them, and their liveness. local.h has the contract. */
#include "local/peer.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "host/host.h"
#include "local/parts.h"
#include "run/log.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "util/time.h"

#define ALIVE_CHECK VRB_MSEC

void peer_free(struct local_peer *peer)
{
	list_del(&peer->node);
	peer_map_close(&peer->map);
	lock_destroy(&peer->lock);
	free(peer);
}

/* Notifies the owner of the segment of a change of our lane. */
static void announce(struct local *l, struct local_peer *peer)
{
	struct seg_header *h = peer->map.header;
	uint32_t slot = host_slot(l->host);

	fetch_or_acq_rel(&h->opened[slot / 64], 1ull << slot % 64);
	fetch_add_acq_rel(&h->news, 1);	/* L6 */
	host_ring(l->host, peer->slot, peer->map.incarnation);
}

/*
 * L6: claims the lane. Returns false while a predecessor's lane occupies our slot; its owner has
 * been notified.
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

bool peer_probe(int32_t pid, uint64_t identity, uint64_t incarnation)
{
	struct seg_identity found = { 0 };
	struct iovec here = { &found, sizeof(found) };
	struct iovec there = { (void *)(uintptr_t)identity, sizeof(found) };

	return process_vm_readv(pid, &here, 1, &there, 1, 0) == sizeof(found) &&
	       found.magic == SEG_MAGIC && found.incarnation == incarnation;
}

static bool is_itself(const struct local_peer *peer)
{
	if (likely(keeper_vouches(peer->map.keeper)))
		return !keeper_gone(peer->map.keeper);
	return peer_probe(peer->map.pid, peer->identity, peer->map.incarnation);
}

/*
 * Has the process ended or called exec?  Its keeper shows that at once, if it has one; it has none
 * until its progress thread has run.  Its lock does not show an exec if a child that was cloned
 * without the library's knowledge holds it, too.
 */
static bool is_replaced(const struct local_peer *peer)
{
	if (keeper_gone(peer->map.keeper))
		return true;
	if (keeper_vouches(peer->map.keeper) || !peer->proven)
		return false;
	/* Other errors say that copies are refused now. */
	errno = 0;
	return !peer_probe(peer->map.pid, peer->identity, peer->map.incarnation) &&
	       (errno == 0 || errno == EFAULT || errno == ESRCH);
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

/* Frees unused peers that have died. Must hold l->lock. */
static void sweep_peers(struct local *l)
{
	struct list *pos, *tmp;

	list_for_each_safe(pos, tmp, &l->peers) {
		struct local_peer *peer = list_entry(pos, struct local_peer, node);

		if (peer->refs == 0 && !host_alive(l->host, peer->slot, peer->map.incarnation))
			peer_free(peer);
	}
}

static struct local_peer *open_peer(struct local *l, int slot, uint64_t incarnation)
{
	struct local_peer *peer = calloc(1, sizeof(*peer));

	sweep_peers(l);
	if (peer == NULL)
		return NULL;
	if (peer_map_open(l->host, l->seg, host_slot(l->host), slot, incarnation, &peer->map) !=
	    0) {
		free(peer);
		return NULL;
	}
	peer->slot = slot;
	peer->alive = true;
	lock_init(&peer->lock);
	peer->identity = peer->map.header->identity;
	peer->cma = peer->proven = peer_probe(peer->map.pid, peer->identity, incarnation);
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
	/* Keeps the lane of a live peer: opening is costly, and the peer still reads it. */
	if (--peer->refs == 0 && !load_relaxed(&peer->alive))
		peer_free(peer);
	lock_release(&l->lock);
}

bool local_peer_qp(const struct local_peer *peer, uint32_t qpn, struct seg_qp *copy)
{
	return peer_map_qp(&peer->map, qpn, copy) != NULL;
}

bool local_peer_alive(struct local *l, struct local_peer *peer, uint64_t now)
{
	/* a hint: two threads may both check */
	uint64_t checked = load_relaxed(&peer->checked);

	if (unlikely(keeper_gone(peer->map.keeper))) {
		store_relaxed(&peer->alive, false);
	} else if (time_since(checked, now) >= ALIVE_CHECK) {
		store_relaxed(&peer->checked, now);
		if (is_replaced(peer) || !host_alive(l->host, peer->slot, peer->map.incarnation))
			store_relaxed(&peer->alive, false);
	}
	return load_relaxed(&peer->alive);
}

bool local_peer_took(const struct local_peer *peer, uint32_t head)
{
	return (int32_t)(load_relaxed(&peer->map.lane->tail) - head) >= 0;
}

void peer_wake(struct local *l, const struct local_peer *peer)
{
	host_ring(l->host, peer->slot, peer->map.incarnation);
}
