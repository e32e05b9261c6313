/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/xrc/resend.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/object_timer.h"
#include "core/base/state.h"
#include "core/xrc/msg.h"
#include "host/host.h"
#include "run/clock.h"
#include "run/log.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "util/lock.h"

enum {
	KEPT_MAX = 4096,	/* limit for processes that live but receive nothing */
};

/* between attempts; doubles each time */
#define PAUSE_FIRST VRB_MSEC
#define PAUSE_LAST  (64 * VRB_MSEC)

/* A message that carries neither state nor packet. */
struct kept {
	struct list node;
	int slot;
	uint64_t incarnation;
	struct xrc_head head;
	size_t len;
	uint8_t body[];
};

static struct {
	struct lock lock;	/* below qp->lock, above the locks of local, host and timers */
	struct list kept;	/* in order */
	unsigned int n;		/* atomic; written under the lock */
	uint64_t pause;
	bool has_timer;
	struct object_timer timer;
} resend = { .kept = { &resend.kept, &resend.kept } };

/* Processes without room in this round; other messages for them are not tried. */
struct full {
	uint64_t slot[HOST_SLOTS / 64];
};

static void drop(struct kept *k)
{
	list_del(&k->node);
	store_relaxed(&resend.n, resend.n - 1);
	free(k);
}

/* False: there is no room. */
static bool has_gone(struct kept *k)
{
	struct xrc_peer to = { .slot = HOST_NO_SLOT };
	int err = ENOENT;

	if (xrc_peer_find(&to, k->slot) && to.incarnation == k->incarnation) {
		to.stalled = true;	/* do not wait for room */
		err = xrc_send_once(&to, &k->head, k->body, k->len, NULL, 0, NULL, 0);
	}
	xrc_peer_drop(&to);
	return err != EAGAIN;
}

static void try_again(struct kept *k, struct full *full)
{
	uint64_t *word = &full->slot[k->slot / 64], bit = 1ull << k->slot % 64;

	if (!(*word & bit) && has_gone(k))
		drop(k);
	else
		*word |= bit;
}

/*
 * Sends the kept messages of one process, or of all: slot HOST_NO_SLOT. False: some remain. Must
 * hold the lock.
 */
static bool send_kept(int slot)
{
	struct full full = { { 0 } };
	struct list *pos, *tmp;
	bool stays = false;

	list_for_each_safe (pos, tmp, &resend.kept) {
		struct kept *k = list_entry(pos, struct kept, node);

		if (slot == HOST_NO_SLOT || k->slot == slot)
			try_again(k, &full);
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(full.slot); i++)
		stays |= full.slot[i] != 0;
	return !stays;
}

static void on_timer(struct object_timer *d, struct expiry *e)
{
	lock_acquire(&resend.lock);
	if (!send_kept(HOST_NO_SLOT)) {
		resend.pause = min(2 * resend.pause, PAUSE_LAST);
		vrb_timer_set(&resend.timer, time_after(e->now, resend.pause));
	}
	lock_release(&resend.lock);
}

/* Must hold the lock. */
static void add(struct kept *k)
{
	if (!resend.has_timer)
		resend.has_timer = !vrb_timer_add(&resend.timer, on_timer);
	if (!resend.n)
		resend.pause = PAUSE_FIRST;
	list_add_tail(&resend.kept, &k->node);
	store_relaxed(&resend.n, resend.n + 1);
	vrb_timer_set(&resend.timer, time_after(clock_now(), resend.pause));
}

static bool keep(const struct xrc_peer *to, const struct xrc_head *head, const void *body,
		 size_t body_len)
{
	struct kept *k = malloc(sizeof(*k) + body_len);
	bool room;

	if (!k)
		return false;
	*k = (struct kept){ .slot = to->slot, .incarnation = to->incarnation, .head = *head,
			    .len = body_len };
	if (body_len)
		memcpy(k->body, body, body_len);
	lock_acquire(&resend.lock);
	room = resend.n < KEPT_MAX;
	if (room)
		add(k);
	lock_release(&resend.lock);
	if (!room)
		free(k);
	return room;
}

int xrc_send(struct xrc_peer *to, struct xrc_head *head, const void *body, size_t body_len,
	     const void *state, size_t state_len, const void *packet, size_t packet_len)
{
	bool in_turn = true;

	if (unlikely(load_relaxed(&resend.n))) {
		lock_acquire(&resend.lock);
		in_turn = send_kept(to->slot);
		lock_release(&resend.lock);
	}
	return in_turn ? xrc_send_once(to, head, body, body_len, state, state_len, packet,
				       packet_len) : EAGAIN;
}

void xrc_send_surely(struct xrc_peer *to, struct xrc_head *head, const void *body, size_t body_len)
{
	if (xrc_send(to, head, body, body_len, NULL, 0, NULL, 0) == EAGAIN &&
	    !keep(to, head, body, body_len))
		log_limited(LOG_CORE, LOG_WARN,
			    "QP 0x%x: lost a message to the process in slot %d, which does not "
			    "read its inbox",
			    head->qpn, to->slot);
}

void vrb_xrc_resend_stop(void)
{
	while (!list_empty(&resend.kept))
		drop(list_entry(resend.kept.next, struct kept, node));
	timers_remove(vrb.timers, &resend.timer.timer);
	resend.has_timer = false;
}

void vrb_xrc_resend_forget(void)
{
	list_init(&resend.kept);
	resend.n = 0;
	resend.has_timer = false;
	resend.timer = (struct object_timer){ 0 };
	lock_renew(&resend.lock);
}
