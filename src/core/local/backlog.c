/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/local/backlog.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/object_timer.h"
#include "core/base/state.h"
#include "local/local.h"
#include "local/peer.h"
#include "roce/pkt.h"
#include "run/clock.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "util/net.h"
#include "util/tuning.h"

/* between attempts; doubles each time that no packet found room */
#define PAUSE_FIRST VRB_MSEC
#define PAUSE_LAST  (LIMIT_LANE_STUCK_RETRY_US * VRB_USEC)

struct waiting {
	struct list node;
	struct net_path path;
	bool has_path;
	uint8_t flags;
	uint32_t len, ended_qpn;
	uint8_t data[];
};

/* What waits for one process, in order. */
struct queue {
	struct list node;
	struct local_peer *peer;	/* holds a reference */
	struct list packets;
	size_t bytes;
};

static struct {
	struct lock lock;
	struct list queues;
	uint64_t pause;
	bool has_timer;
	struct object_timer timer;
} backlog = { .queues = { &backlog.queues, &backlog.queues } };

size_t vrb_backlog_bytes;

static size_t size_of(uint32_t len)
{
	return sizeof(struct waiting) + len;
}

/* Must hold the lock, as must all that follow unless they take it. */
static void drop(struct queue *q, struct waiting *w)
{
	q->bytes -= size_of(w->len);
	store_relaxed(&vrb_backlog_bytes, vrb_backlog_bytes - size_of(w->len));
	if (w->ended_qpn)
		segment_forget_qp(local_segment(vrb.local), w->ended_qpn);
	list_del(&w->node);
	free(w);
}

static struct waiting *first_of(struct queue *q)
{
	return list_entry(q->packets.next, struct waiting, node);
}

static void end_queue(struct queue *q)
{
	while (!list_empty(&q->packets))
		drop(q, first_of(q));
	local_peer_put(vrb.local, q->peer);
	list_del(&q->node);
	free(q);
}

/* At exit: NULL if another thread has the lane, or this one, in a signal's handler. */
static struct lane_tx *begin(struct local_peer *peer, bool at_exit)
{
	if (!at_exit)
		return local_tx_begin(peer);
	return lock_try_at_exit(&peer->lock) ? &peer->tx : NULL;
}

/* False: there is no room, or no lane. Needs no lock. */
static bool put(struct local_peer *peer, const struct lane_packet *p, bool at_exit)
{
	static const uint8_t no_icrc[ROCE_ICRC_LEN];
	struct lane_head head = { .where = LANE_INLINE,
				  .flags = p->flags | (p->path ? LANE_PATH : 0) };
	const struct lane_part parts[] = {
		{ p->path, sizeof(*p->path) }, { p->data, p->len }, { no_icrc, sizeof(no_icrc) }
	};
	unsigned int first = p->path ? 0 : 1;
	uint32_t len = p->len + sizeof(no_icrc) + (p->path ? sizeof(*p->path) : 0);
	struct lane_tx *tx = begin(peer, at_exit);
	bool room = tx && lane_tx_room(tx, len);

	if (room)
		lane_tx_put(tx, &head, parts + first, ARRAY_SIZE(parts) - first);
	if (tx)
		local_tx_end(vrb.local, peer, room);
	return room;
}

static bool put_waiting(struct local_peer *peer, const struct waiting *w, bool at_exit)
{
	const struct lane_packet p = {
		.path = w->has_path ? &w->path : NULL,
		.data = w->data,
		.len = w->len,
		.flags = w->flags,
	};

	return put(peer, &p, at_exit);
}

/* Ends a queue that becomes empty, or whose process has died. True if it has. */
static bool send_queue(struct queue *q, uint64_t now, bool at_exit, bool *any)
{
	if (local_peer_alive(vrb.local, q->peer, now)) {
		while (!list_empty(&q->packets)) {
			if (!put_waiting(q->peer, first_of(q), at_exit))
				return false;
			drop(q, first_of(q));
			*any = true;
		}
	}
	end_queue(q);
	return true;
}

static struct queue *find(const struct local_peer *peer)
{
	struct list *pos;

	list_for_each (pos, &backlog.queues) {
		struct queue *q = list_entry(pos, struct queue, node);

		if (q->peer == peer)
			return q;
	}
	return NULL;
}

/* True if any has left. */
static bool send_all(uint64_t now, bool at_exit)
{
	struct list *pos, *tmp;
	bool any = false;

	list_for_each_safe (pos, tmp, &backlog.queues)
		send_queue(list_entry(pos, struct queue, node), now, at_exit, &any);
	return any;
}

static void set_timer(uint64_t now, bool any)
{
	backlog.pause = any ? PAUSE_FIRST : min(2 * backlog.pause, PAUSE_LAST);
	vrb_timer_set(&backlog.timer, time_after(now, backlog.pause));
}

static void on_timer(struct object_timer *d, struct expiry *e)
{
	bool any;

	lock_acquire(&backlog.lock);
	any = send_all(e->now, false);
	if (!list_empty(&backlog.queues))
		set_timer(e->now, any);
	lock_release(&backlog.lock);
}

bool vrb_backlog_send(struct local_peer *peer)
{
	bool any = false, empty;
	struct queue *q;

	if (likely(!load_relaxed(&vrb_backlog_bytes)))
		return true;
	lock_acquire(&backlog.lock);
	q = find(peer);
	empty = !q || send_queue(q, clock_now(), false, &any);
	lock_release(&backlog.lock);
	return empty;
}

bool vrb_backlog_pass(struct local_peer *peer, const struct lane_packet *p)
{
	return vrb_backlog_send(peer) && put(peer, p, false);
}

static struct queue *new_queue(struct local_peer *peer)
{
	struct queue *q;

	if (!backlog.has_timer)
		backlog.has_timer = !vrb_timer_add(&backlog.timer, on_timer);
	q = backlog.has_timer ? calloc(1, sizeof(*q)) : NULL;
	if (!q)
		return NULL;
	q->peer = local_peer_in(vrb.local, local_peer_slot(peer));
	if (q->peer != peer) {	/* it has died, and perhaps another has its slot */
		if (q->peer)
			local_peer_put(vrb.local, q->peer);
		free(q);
		return NULL;
	}
	list_init(&q->packets);
	if (list_empty(&backlog.queues))
		set_timer(clock_now(), true);
	list_add_tail(&backlog.queues, &q->node);
	return q;
}

static bool has_room(const struct queue *q, uint32_t len)
{
	return q->bytes + size_of(len) <= (size_t)LIMIT_BACKLOG_PEER_MIB << 20 &&
	       vrb_backlog_bytes + size_of(len) <= (size_t)LIMIT_BACKLOG_MIB << 20;
}

static struct waiting *new_waiting(const struct lane_packet *p)
{
	struct waiting *w = malloc(size_of(p->len));

	if (!w)
		return NULL;
	*w = (struct waiting){ .has_path = p->path, .flags = p->flags, .len = p->len,
			       .ended_qpn = p->ended_qpn };
	if (p->path)
		w->path = *p->path;
	memcpy(w->data, p->data, p->len);
	return w;
}

bool vrb_backlog_add(struct local_peer *peer, const struct lane_packet *p)
{
	struct waiting *w = NULL;
	struct queue *q;

	lock_acquire(&backlog.lock);
	q = find(peer);
	if (!q)
		q = new_queue(peer);
	if (q && has_room(q, p->len))
		w = new_waiting(p);
	if (w) {
		list_add_tail(&q->packets, &w->node);
		q->bytes += size_of(p->len);
		store_relaxed(&vrb_backlog_bytes, vrb_backlog_bytes + size_of(p->len));
	} else if (q && list_empty(&q->packets)) {
		end_queue(q);
	}
	lock_release(&backlog.lock);
	return w;
}

/*
 * What waits when this process ends would be lost, though an adapter would have delivered it: this
 * gives processes time to run that get too little of a CPU.
 */
static __attribute__((destructor)) void linger(void)
{
	const struct timespec pause = { .tv_nsec = PAUSE_FIRST };
	uint64_t checked = 0, waited = 0;

	while (load_relaxed(&vrb_backlog_bytes)) {
		if (lock_try_at_exit(&backlog.lock)) {
			send_all(clock_now(), true);
			lock_release(&backlog.lock);
		}
		waited += time_wait_step(&checked, clock_now());
		if (waited >= LIMIT_BACKLOG_LINGER_MS * VRB_MSEC)
			break;
		nanosleep(&pause, NULL);
	}
}

/* Peers read the progress words that are left also after the process. */
static void keep_words(struct queue *q)
{
	struct list *pos;

	list_for_each (pos, &q->packets)
		list_entry(pos, struct waiting, node)->ended_qpn = 0;
}

void vrb_backlog_stop(void)
{
	linger();
	lock_acquire(&backlog.lock);
	while (!list_empty(&backlog.queues)) {
		struct queue *q = list_entry(backlog.queues.next, struct queue, node);

		keep_words(q);
		end_queue(q);
	}
	timers_remove(vrb.timers, &backlog.timer.timer);
	backlog.has_timer = false;
	lock_release(&backlog.lock);
}

void vrb_backlog_forget(void)
{
	list_init(&backlog.queues);
	vrb_backlog_bytes = 0;
	backlog.has_timer = false;
	backlog.timer = (struct object_timer){ 0 };
	lock_renew(&backlog.lock);
}
