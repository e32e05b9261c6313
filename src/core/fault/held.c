/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/fault/held.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "core/base/rx_queues.h"
#include "core/base/state.h"
#include "core/base/tap.h"
#include "core/local/peer_link.h"
#include "core/mad/gsi.h"
#include "core/qp/qp.h"
#include "core/qp/qp_table.h"
#include "core/rx/demux.h"
#include "core/tx/transmit.h"
#include "core/tx/tx_batch.h"
#include "core/tx/tx_sched.h"
#include "roce/const.h"
#include "run/clock.h"
#include "run/log.h"
#include "run/progress.h"
#include "util/atomic.h"
#include "util/list.h"
#include "util/lock.h"
#include "util/tuning.h"

enum {
	HELD_MAX = 4096,
};

struct held {
	struct list node;
	uint32_t qpn;
	enum fault_direction direction;
	bool wire, has_path;
	uint64_t due;
	uint64_t overtake;	/* 0: by time only */
	struct net_path path;
	size_t len;
	uint8_t data[];		/* from the BTH on; room for an ICRC behind it */
};

__thread bool vrb_held_returns;

static struct {
	struct lock lock;
	struct list list;	/* in the order in which they were taken */
	unsigned int n;		/* atomic: also read without the lock */
	uint64_t next;		/* the earliest due; atomic, read without the lock */
	int timer;
} held = { .list = { &held.list, &held.list }, .next = VRB_NEVER, .timer = -1 };

/* Must hold held.lock. */
static void set_timer(void)
{
	uint64_t next = VRB_NEVER, now = clock_now();
	struct itimerspec at = { .it_value.tv_nsec = 1 };
	struct list *pos;

	list_for_each (pos, &held.list)
		next = time_earlier(next, list_entry(pos, struct held, node)->due);
	store_relaxed(&held.next, next);
	if (held.timer < 0 || next == VRB_NEVER)
		return;
	if (next > now) {
		at.it_value.tv_sec = (time_t)((next - now) / VRB_SECOND);
		at.it_value.tv_nsec = (long)((next - now) % VRB_SECOND);
	}
	timerfd_settime(held.timer, 0, &at, NULL);
}

/* NULL: out of memory, or there are too many. */
static struct held *new_held(const uint8_t *data, size_t len)
{
	bool room = load_relaxed(&held.n) < HELD_MAX;
	struct held *h = room ? calloc(1, sizeof(*h) + len + ROCE_ICRC_LEN) : NULL;

	if (!h) {
		log_warn(LOG_FAULT, "%s: one that a rule keeps is lost",
			 room ? "out of memory" : "too many packets are kept");
		return NULL;
	}
	h->len = len;
	memcpy(h->data, data, len);
	return h;
}

static void keep(struct held *h)
{
	lock_acquire(&held.lock);
	list_add_tail(&held.list, &h->node);
	store_relaxed(&held.n, held.n + 1);
	set_timer();
	lock_release(&held.lock);
}

bool vrb_held_keep(const struct tap_packet *p, enum fault_direction direction, uint64_t due,
		   uint64_t overtake)
{
	struct held *h = p->data ? new_held(p->data, p->len) : NULL;

	if (!h)
		return false;
	h->qpn = p->qp->wq.qpn;
	h->direction = direction;
	h->wire = p->wire;
	h->has_path = p->path != NULL;
	if (p->path)
		h->path = *p->path;
	h->due = due;
	h->overtake = overtake;
	keep(h);
	return true;
}

bool vrb_held_keep_mad(const struct net_path *path, const uint8_t *mad,
		       enum fault_direction direction, uint64_t due)
{
	struct held *h = new_held(mad, HOST_MAD_LEN);

	if (!h)
		return false;
	h->qpn = ROCE_QP1;
	h->direction = direction;
	h->path = *path;
	h->due = due;
	keep(h);
	return true;
}

void vrb_held_overtaken(uint32_t qpn, enum fault_direction direction)
{
	struct list *pos;
	bool any = false;

	if (load_relaxed(&held.next) == VRB_NEVER)
		return;
	lock_acquire(&held.lock);
	list_for_each (pos, &held.list) {
		struct held *h = list_entry(pos, struct held, node);

		if (h->qpn != qpn || h->direction != direction || !h->overtake || --h->overtake)
			continue;
		h->due = 0;
		any = true;
	}
	if (any)
		set_timer();
	lock_release(&held.lock);
}

static struct held *take_due(uint64_t now)
{
	struct held *found = NULL;
	struct list *pos;

	lock_acquire(&held.lock);
	list_for_each (pos, &held.list) {
		struct held *h = list_entry(pos, struct held, node);

		if (h->due > now)
			continue;
		list_del(&h->node);
		store_relaxed(&held.n, held.n - 1);
		found = h;
		break;
	}
	set_timer();
	lock_release(&held.lock);
	return found;
}

/* Must hold qp->lock. */
static void send_by_wire(struct vrb_qp *qp, const struct held *h)
{
	struct vrb_tx_batch *b = vrb_tx_batch_own();

	if (!b)
		return;
	memcpy(vrb_tx_batch_room(b), h->data, h->len);
	vrb_tx_batch_seal(b, qp, h->has_path ? &h->path : &qp->wq.path, h->len, true);
	vrb_tx_batch_flush(b);
}

/* Must hold qp->lock. */
static void send_again(struct vrb_qp *qp, const struct held *h, uint64_t now)
{
	vrb_held_returns = true;
	if (h->wire)
		send_by_wire(qp, h);
	else if (h->has_path)
		vrb_peer_tx_ud(qp, &h->path, h->data, (uint32_t)h->len, now);
	else
		vrb_peer_tx_packet(qp, h->data, (uint32_t)h->len, now);
	vrb_held_returns = false;
}

/* Must hold qp->lock and the RX queues' locks. */
static void receive_again(struct vrb_qp *qp, const struct held *h, uint64_t now)
{
	struct vrb_rx_queue *r = vrb_rx_queue_of_shard(qp->config.shard);
	struct roce_pkt pkt;
	const struct rx_decoded raw = {
		.pkt = &pkt, .data = h->data, .len = h->len + ROCE_ICRC_LEN, .wire = h->wire,
		.tapped = true,
	};

	if (roce_decode(&pkt, h->data, h->len + ROCE_ICRC_LEN) != ROCE_DECODED)
		return;
	pkt.path = h->path;
	qp->now = now;
	vrb_rx_deliver(qp, &raw, r, now);
}

static void put_mad_back(const struct held *h, uint64_t now)
{
	vrb_held_returns = true;
	if (h->direction == FAULT_TX) {
		vrb_gsi_send(&h->path, h->data);
	} else {
		lock_acquire(&vrb.poll_lock);
		vrb_gsi_handed(&h->path, h->data, HOST_MAD_LEN, now);
		lock_release(&vrb.poll_lock);
	}
	vrb_held_returns = false;
}

static void put_back(const struct held *h)
{
	uint64_t now = clock_now();
	struct vrb_qp *qp;

	if (h->qpn == ROCE_QP1) {
		put_mad_back(h, now);
		return;
	}
	vrb_rx_queues_lock();
	qp = vrb_qp_table_find(h->qpn);
	if (qp) {
		lock_acquire(&qp->lock);
		if (h->direction == FAULT_TX)
			send_again(qp, h, now);
		else
			receive_again(qp, h, now);
		lock_release(&qp->lock);
		vrb_tx_flush(vrb_rx_queue_of_shard(qp->config.shard), now);
	}
	vrb_rx_queues_unlock();
}

void vrb_held_release(void)
{
	struct held *h;

	if (load_relaxed(&held.next) > clock_now())
		return;
	while ((h = take_due(clock_now()))) {
		put_back(h);
		free(h);
	}
}

void vrb_held_release_all(void)
{
	struct list *pos;

	lock_acquire(&held.lock);
	list_for_each (pos, &held.list)
		list_entry(pos, struct held, node)->due = 0;
	set_timer();
	lock_release(&held.lock);
	vrb_held_release();
}

static bool on_timer(void *arg, int fd)
{
	uint64_t n;

	if (read(fd, &n, sizeof(n)) < 0 && errno != EAGAIN)
		log_debug(LOG_FAULT, "timer: %m");
	vrb_held_release();
	return false;
}

void vrb_held_start(void)
{
	held.timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (held.timer < 0 ||
	    !progress_watch(vrb.progress, held.timer, PROGRESS_OWN, on_timer, NULL))
		return;
	close(held.timer);
	held.timer = -1;
}

void vrb_held_stop(void)
{
	if (held.timer >= 0) {
		progress_unwatch(vrb.progress, held.timer);
		close(held.timer);
		held.timer = -1;
	}
	while (held.n)
		free(take_due(VRB_NEVER));
}

void vrb_held_forget(void)
{
	if (held.timer >= 0)
		close(held.timer);
	held.timer = -1;
	list_init(&held.list);
	held.n = 0;
	held.next = VRB_NEVER;
	lock_renew(&held.lock);
}
