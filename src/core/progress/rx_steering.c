/* SPDX-License-Identifier: BSD-2-Clause */
/* Steering of packets between the processes of one port. State under vrb.poll_lock. */
#include "core/progress/rx_steering.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "core/base/state.h"
#include "core/progress/rx_queue.h"
#include "host/host.h"
#include "run/clock.h"
#include "run/log.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/compiler.h"
#include "util/time.h"
#include "util/tuning.h"
#include "wire/udp.h"

enum {
	SPARE_POSITIONS = 16,	/* members that joined and have not published yet */
	SETTLE_TRIES = 20,
	SETTLE_PAUSE_US = 500,
	INSTALLS = 4,		/* more only if others change, who install then, too */
};

static struct {
	int32_t at[VRB_RX_QUEUES][2];	/* positions that the last probe found; atomic */
	int32_t before[VRB_RX_QUEUES][2];	/* positions when it was sent */
	struct host_steer published;
	unsigned int misled;
	uint64_t probed, interval;
	uint64_t generation;	/* host_generation() before the last probe */
	unsigned int blocks;	/* host_blocks_taken() that the installed program knows of */
	bool silent;		/* atomic: the last probe was waited for in vain */
} steer;

/* Returns the number of group members that the published positions allow. */
static unsigned int install_once(void)
{
	/* Static: too large for a small stack. */
	static struct net_steer map[STEER_BLOCKS], slots[STEER_SLOTS];
	unsigned int blocks = host_blocks_taken(vrb.host);
	size_t n = host_steer_map(vrb.host, map, STEER_BLOCKS);
	size_t n_slots = host_steer_slots(vrb.host, slots, STEER_SLOTS);
	int32_t last = 0;
	int err = udp_steer(vrb.wire, (struct net_steer_list){ map, n },
			    (struct net_steer_list){ slots, n_slots });

	steer.blocks = blocks;
	if (err)
		log_once(LOG_CORE, LOG_WARN, "packets cannot be steered to their process: %s",
			 strerror(err));
	for (size_t i = 0; i < n; i++)
		for (unsigned int family = 0; family < ARRAY_SIZE(map[i].index); family++)
			last = max(last, map[i].index[family]);
	return last + 1;
}

/*
 * The group has one program, the last installed. One that was built before another process changed
 * the table may come after that process's own: build it again.
 */
static unsigned int install(void)
{
	unsigned int members, n = 0;
	uint64_t generation;

	do {
		generation = host_generation(vrb.host);
		members = install_once();
	} while (host_generation(vrb.host) != generation && ++n < INSTALLS);
	return members;
}

static void set_at(struct vrb_rx_queue *r, const int32_t at[2])
{
	int32_t *known = steer.at[r - vrb_rx_queues];

	store_relaxed(&known[0], at[0]);
	store_relaxed(&known[1], at[1]);
}

/*
 * Stores the position or, until it is known, the one before the probe. Returns true if it is known.
 */
static bool look_up(const struct vrb_rx_queue *r, unsigned int family, int32_t *to)
{
	bool carried = family ? r->wire->ipv6 : r->wire->ipv4;

	*to = steer.at[r - vrb_rx_queues][family];
	if (*to >= 0)
		return true;
	*to = steer.before[r - vrb_rx_queues][family];
	return !carried;
}

void vrb_steer_probe(void)
{
	static const int32_t nowhere[2] = { -1, -1 };
	unsigned int members;

	steer.generation = host_generation(vrb.host);
	store_relaxed(&steer.silent, false);
	members = install() + SPARE_POSITIONS;
	vrb_for_each_rx_queue (r) {
		for (unsigned int family = 0; family < ARRAY_SIZE(nowhere); family++)
			look_up(r, family, &steer.before[r - vrb_rx_queues][family]);
		set_at(r, nowhere);
		udp_probe(r->wire, members);
	}
}

void vrb_steer_start(void)
{
	memset(&steer, 0, sizeof(steer));
	memset(steer.at, 0xff, sizeof(steer.at));
	memset(steer.before, 0xff, sizeof(steer.before));
	memset(&steer.published, 0xff, sizeof(steer.published));
	steer.interval = LIMIT_STEER_PROBE;
	if (vrb.wire && host_shared(vrb.host))
		vrb_steer_probe();
}

/* Must hold vrb.poll_lock. */
static void publish(void)
{
	struct host_steer to;
	bool known = true;

	for (unsigned int shard = 0; shard < HOST_SHARDS; shard++)
		for (unsigned int family = 0; family < ARRAY_SIZE(to.at[shard]); family++)
			known &= look_up(vrb_rx_queue_of_shard(shard), family,
					 &to.at[shard][family]);
	if (memcmp(&to, &steer.published, sizeof(to))) {
		steer.published = to;
		host_publish_wire(vrb.host, vrb.wire->port, &to);
		install();
	}
	if (known)
		steer.interval = memcmp(steer.before, steer.at, sizeof(steer.at))
					 ? LIMIT_STEER_PROBE
					 : min(2 * steer.interval, LIMIT_STEER_PROBE_SELDOM);
}

void vrb_steer_stop(void)
{
	struct host_steer nowhere;

	memset(&nowhere, 0xff, sizeof(nowhere));
	host_publish_wire(vrb.host, 0, &nowhere);
}

void vrb_steer_packets_seen(struct vrb_rx_queue *r)
{
	const int32_t *known = steer.at[r - vrb_rx_queues];
	int32_t at[2];

	udp_position(r->wire, at);
	if (likely(at[0] == load_relaxed(&known[0]) && at[1] == load_relaxed(&known[1])))
		return;
	if (r != vrb_main_rx_queue)
		lock_acquire(&vrb.poll_lock);
	/*
	 * Repeat this now that no probe can start: an earlier position must not be taken for its
	 * answer.
	 */
	udp_position(r->wire, at);
	set_at(r, at);
	publish();
	if (r == vrb_main_rx_queue)
		return;
	/* This queue now receives its QPs' packets; those before them went to the main one. */
	vrb_rx_queue_take_all(vrb_main_rx_queue, clock_now(), false);
	lock_release(&vrb.poll_lock);
}

static bool is_settled(void)
{
	const struct wire *w = vrb_main_rx_queue->wire;
	const int32_t *at = steer.at[vrb_main_rx_queue - vrb_rx_queues];

	return !w || !host_shared(vrb.host) || load_relaxed(&steer.silent) ||
	       ((!w->ipv4 || load_relaxed(&at[0]) >= 0) && (!w->ipv6 || load_relaxed(&at[1]) >= 0));
}

static void pause_settling(void)
{
	const struct timespec pause = { .tv_nsec = SETTLE_PAUSE_US * VRB_USEC };
	int cancel = cancel_off();

	nanosleep(&pause, NULL);
	cancel_on(cancel);
}

void vrb_steer_settle(void)
{
	for (unsigned int i = 0; unlikely(!is_settled()); i++) {
		if (i)
			pause_settling();
		lock_acquire(&vrb.poll_lock);
		vrb_rx_queue_poll(vrb_main_rx_queue, clock_now(), false);
		lock_release(&vrb.poll_lock);
		if (i == SETTLE_TRIES)
			store_relaxed(&steer.silent, true);
	}
}

void vrb_steer_qp_added(void)
{
	if (unlikely(steer.blocks != host_blocks_taken(vrb.host)) && vrb.wire &&
	    host_shared(vrb.host))
		install();
}

void vrb_steer_listener_added(void)
{
	lock_acquire(&vrb.poll_lock);
	if (vrb.wire && host_shared(vrb.host))
		install();
	lock_release(&vrb.poll_lock);
}

static void probe_again(uint64_t now)
{
	steer.misled = 0;
	steer.probed = now;
	vrb_steer_probe();
}

void vrb_steer_misled(unsigned int n, uint64_t now)
{
	steer.misled += n;
	if (steer.misled < LIMIT_STEER_MISLED || time_since(steer.probed, now) < steer.interval ||
	    !vrb.wire)
		return;
	probe_again(now);
}

void vrb_steer_doubt(uint64_t now)
{
	uint64_t since = time_since(steer.probed, now);

	if (since < LIMIT_STEER_PROBE || !vrb.wire || !host_shared(vrb.host))
		return;
	if (since >= steer.interval || host_generation(vrb.host) != steer.generation)
		probe_again(now);
}
