/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Neighbours: finding them, their lanes to us and ours to them, sleeping and waking.  local.h has the contract.
 */
#include "local/local.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "host/host.h"
#include "host/wants_cpu.h"
#include "local/atomics.h"
#include "local/peer.h"
#include "run/clock.h"
#include "run/log.h"
#include "util/atomic.h"
#include "util/list.h"
#include "util/time.h"

enum {
	SEGS_MAX = 64,			/* of a pulled packet; more are sent as packets */
	BURST_BYTES = 1 << 20,		/* payload that is pulled in one burst, or a little more: then senders hear of it */
	SPINS = 4096,			/* before a wait becomes a doubt */
};

#define ALIVE_CHECK     VRB_MSEC
#define UNUSED_PATIENCE (10 * VRB_SECOND)	/* what follows may be the end of the memory */
#define QUIET_PATIENCE  (100 * VRB_MSEC)	/* here the memory stays registered */

/* A lane by which a neighbour sends to us. */
struct inbound {
	struct lane_rx rx;
	uint64_t sender;	/* incarnation */
	uint64_t identity;	/* address in its memory */
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

/*
 * Where the Yama security module asks for it: a process that has Verbena open lets the user's other processes reach its memory, as a device
 * would let them.  EINVAL: there is no Yama.
 */
static void allow_access(void)
{
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
}

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
	allow_access();
	l->host = host;
	lock_init(&l->lock);
	list_init(&l->peers);
	*out = l;
	return 0;
}

static void free_peer(struct local_peer *peer)
{
	list_del(&peer->node);
	peer_map_close(&peer->map);
	lock_destroy(&peer->lock);
	free(peer);
}

static void free_peers(struct local *l)
{
	struct list *pos, *tmp;

	list_for_each_safe(pos, tmp, &l->peers)
		free_peer(list_entry(pos, struct local_peer, node));
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
		struct seg_header *h = peer->map.header;

		fetch_or_acq_rel(&h->opened[slot / 64], 1ull << slot % 64);
		fetch_add_acq_rel(&h->news, 1);
	}
	segment_destroy(l->seg, l->host);
	free_peers(l);
}

void local_forget(struct local *l)
{
	atomics_after_fork();
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
	struct seg_header *h = peer->map.header;
	uint32_t slot = host_slot(l->host);

	fetch_or_acq_rel(&h->opened[slot / 64], 1ull << slot % 64);
	fetch_add_acq_rel(&h->news, 1);	/* L6 */
	host_ring(l->host, peer->slot, peer->map.incarnation);
}

/* L6: makes the lane ours.  False while what a predecessor in our slot left is in the way; its owner has been told. */
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

/* Asks the kernel once per neighbour whether it lets us copy, and whether the pid names the process that is meant. */
static bool probe_cma(int32_t pid, uint64_t identity, uint64_t incarnation)
{
	struct seg_identity found = { 0 };
	struct iovec here = { &found, sizeof(found) };
	struct iovec there = { (void *)(uintptr_t)identity, sizeof(found) };

	return process_vm_readv(pid, &here, 1, &there, 1, 0) == sizeof(found) &&
	       found.magic == SEG_MAGIC && found.incarnation == incarnation;
}

/* Neighbours that nobody talks to any more and that have died. Must hold l->lock. */
static void sweep_peers(struct local *l)
{
	struct list *pos, *tmp;

	list_for_each_safe(pos, tmp, &l->peers) {
		struct local_peer *peer = list_entry(pos, struct local_peer, node);

		if (peer->refs == 0 && !host_alive(l->host, peer->slot, peer->map.incarnation))
			free_peer(peer);
	}
}

static struct local_peer *open_peer(struct local *l, int slot, uint64_t incarnation)
{
	struct local_peer *peer = calloc(1, sizeof(*peer));

	sweep_peers(l);
	if (peer == NULL)
		return NULL;
	if (peer_map_open(l->host, l->seg, host_slot(l->host), slot, incarnation, &peer->map) != 0) {
		free(peer);
		return NULL;
	}
	peer->slot = slot;
	peer->alive = true;
	lock_init(&peer->lock);
	peer->cma = probe_cma(peer->map.pid, peer->map.header->identity, incarnation);
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
	if (--peer->refs == 0 && !load_relaxed(&peer->alive))
		free_peer(peer);
	lock_release(&l->lock);
}

bool local_peer_qp(const struct local_peer *peer, uint32_t qpn, struct seg_qp *copy)
{
	return peer_map_qp(&peer->map, qpn, copy) != NULL;
}

bool local_peer_alive(struct local *l, struct local_peer *peer, uint64_t now)
{
	uint64_t checked = load_relaxed(&peer->checked);	/* a hint: two threads may both look */

	if (now - checked >= ALIVE_CHECK) {
		store_relaxed(&peer->checked, now);
		if (!host_alive(l->host, peer->slot, peer->map.incarnation))
			store_relaxed(&peer->alive, false);
	}
	return load_relaxed(&peer->alive);
}

bool local_peer_starves(struct local *l, struct local_peer *peer, uint64_t now)
{
	bool drained = lane_tx_drained(local_burst_begin(peer));

	local_burst_end(l, peer, false);
	return !drained && local_peer_alive(l, peer, now) && host_wants_cpu(peer->map.pid);
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
		lane->slot[i].head.seq = 0;
	lane->help = (struct lane_help){ 0 };
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

/* Who sends by this lane, and may we read his memory? Not known before he has announced himself in full. */
static void learn_sender(struct local *l, struct inbound *in)
{
	struct lane *lane = in->rx.lane;
	struct host_peer facts;

	in->identity = load_relaxed(&lane->sender_identity);
	if (in->identity == 0 || !host_peer(l->host, in->slot, &facts) ||
	    facts.incarnation != in->sender)
		return;
	in->pid = facts.pid;
	store_relaxed(&lane->can_pull, probe_cma(in->pid, in->identity, in->sender));
}

/* Somebody in this slot says that its lane is new, or in its way. */
static void look_at_lane(struct local *l, unsigned int slot)
{
	struct lane *lane = segment_own_lane(l->seg, slot);
	struct inbound *in = find_inbound(l, slot);
	uint64_t sender;

	if (lane == NULL)
		return;
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

/* When somebody new comes the dead go, so that they do not pile up. */
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
	for (unsigned int w = 0; w < ARRAY_SIZE(h->opened); w++) {
		uint64_t bits = swap_acq_rel(&h->opened[w], 0);

		for (; bits != 0; bits &= bits - 1)
			look_at_lane(l, w * 64 + __builtin_ctzll(bits));
	}
	find_dead(l);
}

/* The parts of a message that is more than a packet; everything was copied or is bounds-checked here, except what the payload says. */
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

		if (head->nseg == 0 || head->nseg > SEGS_MAX || pkt->len < bytes || head->payload == 0)
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

	while (n < budget && pulled < BURST_BYTES && lane_rx_get(&in->rx, &slot, &pkt.data)) {
		pkt.len = head->len;
		pkt.path = NULL;
		pkt.payload = head->payload;
		pkt.pull.num_seg = 0;
		pkt.message = head->flags & LANE_MESSAGE;
		pkt.offer = head->flags & LANE_OFFER;
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
		if (lane_rx_ready(&l->inbound[i].rx))
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

/*
 * Fills at most n vectors with `len` bytes of segs behind `done`.  Not more: the kernel looks up all pages that it is shown of the other
 * side, copied or not.
 */
static unsigned int vectors_behind(struct iovec *v, const struct wq_seg *segs, unsigned int n,
				   uint64_t done, uint64_t len)
{
	unsigned int k = 0;

	for (unsigned int i = 0; i < n && len > 0; i++) {
		uint64_t bytes;

		if (done >= segs[i].len) {
			done -= segs[i].len;
			continue;
		}
		bytes = min(segs[i].len - done, len);
		v[k++] = (struct iovec){ (void *)(uintptr_t)(segs[i].addr + done), bytes };
		len -= bytes;
		done = 0;
	}
	return k;
}

/* What a read that came back with n bytes says; *n becomes the payload among them. */
static int judge_pull(const struct wq_pull *from, const struct seg_identity *found, ssize_t *n)
{
	if (*n < 0)
		return errno;
	/* The pid may name another process by now, or the same with another program. */
	if (*n < (ssize_t)sizeof(*found) || found->magic != SEG_MAGIC ||
	    found->incarnation != from->incarnation)
		return ESRCH;
	*n -= sizeof(*found);
	return *n > 0 ? 0 : EFAULT;
}

int local_pull(const struct wq_pull *from, uint64_t skip, const struct wq_seg *dst,
	       unsigned int ndst, uint64_t total)
{
	struct iovec theirs[SEGS_MAX + 1], ours[SEGS_MAX + 1];
	struct seg_identity found;

	if (from->num_seg > SEGS_MAX || ndst > SEGS_MAX)
		return EPERM;
	theirs[0] = (struct iovec){ (void *)(uintptr_t)from->identity, sizeof(found) };
	ours[0] = (struct iovec){ &found, sizeof(found) };
	/* One call moves just under 2 GiB at most. */
	for (uint64_t done = 0; done < total;) {
		unsigned int nfrom = vectors_behind(theirs + 1, from->seg, from->num_seg,
						    skip + done, total - done);
		unsigned int nto = vectors_behind(ours + 1, dst, ndst, done, total - done);
		ssize_t n = process_vm_readv(from->pid, ours, nto + 1, theirs, nfrom + 1, 0);
		int err = judge_pull(from, &found, &n);

		if (err != 0)
			return err;
		done += n;
	}
	return 0;
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

/* Is the value still in *p because somebody is slow? Not if he is dead, or so slow that he must be stopped. */
static void wait_hazard(struct local *l, unsigned int slot, const struct lane *lane,
			const uint32_t *hazard, uint32_t value, uint64_t patience)
{
	uint64_t until = 0;

	for (unsigned int tries = 1; load_acquire(hazard) == value; tries++) {
		if (tries % SPINS != 0) {
			cpu_relax();
			continue;
		}
		if (!host_alive(l->host, slot, load_relaxed(&lane->sender)))
			return;
		if (until == 0)
			until = clock_now() + patience;
		if (clock_now() >= until) {
			log_limited(LOG_LOCAL, LOG_WARN,
				    "the process in slot %u does not end its access to memory", slot);
			return;
		}
		sched_yield();
	}
}

/* L8.  Waits for the hazards that name key `index`, or for all that stand now if it is 0. */
static void wait_hazards(struct local *l, uint32_t index, uint64_t patience)
{
	full_fence();	/* what makes the access illegal is before, the hazards are read after */
	for (unsigned int slot = 0; slot < SEG_PEERS; slot++) {
		const struct lane *lane;

		if (!segment_lane_claimed(l->seg, slot))
			continue;
		lane = segment_own_lane(l->seg, slot);
		for (unsigned int i = 0; lane != NULL && i < LANE_HAZARDS; i++) {
			uint32_t found = load_acquire(&lane->hazard[i]);

			if (found != 0 && (index == 0 || found == index))
				wait_hazard(l, slot, lane, &lane->hazard[i], found, patience);
		}
	}
}

void local_wait_unused(struct local *l, uint32_t index)
{
	wait_hazards(l, index, UNUSED_PATIENCE);
}

void local_wait_quiet(struct local *l)
{
	wait_hazards(l, 0, QUIET_PATIENCE);
}
