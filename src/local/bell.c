/* SPDX-License-Identifier: BSD-2-Clause */
/* See bell.h. */
#include "local/bell.h"

#include "local/parts.h"
#include "local/peer.h"
#include "util/atomic.h"
#include "util/compiler.h"

void local_queue_bell(struct local *l, struct local_peer *peer, bool may_wait)
{
	bool listed = !list_empty(&peer->bell_node);

	peer->bell_may_wait = may_wait && (!listed || peer->bell_may_wait);
	peer->bell_is_new = true;
	if (!listed)
		list_add_tail(&l->bells, &peer->bell_node);
}

bool local_has_bells(const struct local *l)
{
	return !list_empty(&l->bells);
}

/*
 * A packet sent since the last round makes the peer read everything published before it, but not
 * what is new in this round: the tails move only after new progress is published.
 */
static bool is_needed(const struct local_peer *peer)
{
	return unlikely(load_relaxed(peer->map.asleep)) &&
	       (peer->bell_is_new || load_relaxed(&peer->bell_delayed));
}

static bool waits(const struct local_peer *peer, enum local_bells which)
{
	return which == BELLS_WAIT || (which == BELLS_EXPECT_ANSWERS && peer->bell_may_wait);
}

bool local_ring_bells(struct local *l, enum local_bells which)
{
	struct list *pos, *tmp;

	if (list_empty(&l->bells))
		return false;
	list_for_each_safe(pos, tmp, &l->bells) {
		struct local_peer *peer = list_entry(pos, struct local_peer, bell_node);
		bool needed;

		/* store progress and tails before, load asleep after */
		peer_fence(peer);
		needed = is_needed(peer);
		if (needed && waits(peer, which)) {
			if (peer->bell_is_new)
				/* after the fence */
				store_relaxed(&peer->bell_delayed, true);
			peer->bell_is_new = false;
			continue;
		}
		list_del(pos);
		store_relaxed(&peer->bell_delayed, false);
		if (needed)
			peer_wake(l, peer);
	}
	return !list_empty(&l->bells);
}
