/* SPDX-License-Identifier: BSD-2-Clause */
/* Steering of packets between the processes of one port. State under vrb.poll_lock. */
#include "core/progress/rx_steering.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/state.h"
#include "core/progress/rx_queue.h"
#include "host/steer.h"
#include "run/clock.h"
#include "run/log.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/compiler.h"
#include "util/time.h"
#include "util/tuning.h"
#include "wire/udp.h"

enum {
	FAMILIES = 2,
	FIRST_SHARD = 1,	/* of most programs' first QP: choose_shard() in qp_create.c */
	SPARE_POSITIONS = 16,	/* members that joined and have not published yet */
	SETTLE_TRIES = 20,
	SETTLE_PAUSE_US = 500,
	MAP_BLOCKS = 8 * STEER_BLOCKS,	/* a process's blocks are adjacent: few ranges */
};

static struct {
	int32_t at[VRB_RX_QUEUES][2];	/* positions that the last probe found; atomic */
	int32_t before[VRB_RX_QUEUES][2];	/* positions when it was sent */
	struct host_steer published;
	unsigned int misled;
	uint64_t probed, interval;
	uint64_t generation;	/* host_generation() before the last probe */
	uint64_t departures;	/* host_departures() before it; atomic */
	unsigned int blocks;	/* host_blocks_taken() that the installed program knows of */
	pid_t pid;		/* the process; a raw clone has another */
	bool settled;		/* atomic: what the last probe found is published and installed */
	bool silent;		/* atomic: the last probe was waited for in vain */
} steer;

/* What processes have published. Static: too large for a small stack. */
static struct {
	struct net_steer block[MAP_BLOCKS], slot[STEER_SLOTS];
	size_t blocks, slots;
} map;

bool vrb_steers(void)
{
	return vrb.wire && host_shared(vrb.host) && !load_acquire(&vrb.wire->relayed);
}

static void read_map(void)
{
	map.blocks = host_steer_map(vrb.host, map.block, MAP_BLOCKS);
	map.slots = host_steer_slots(vrb.host, map.slot, STEER_SLOTS);
}

/* Returns the number of group members that the published positions allow. */
static unsigned int install_once(void)
{
	unsigned int blocks = host_blocks_taken(vrb.host);
	int32_t last = 0;
	int err;

	read_map();
	err = udp_steer(vrb.wire, (struct net_steer_list){ map.block, map.blocks },
			(struct net_steer_list){ map.slot, map.slots });
	steer.blocks = blocks;
	if (err)
		log_once(LOG_CORE, LOG_WARN, "packets cannot be steered to their process: %s",
			 strerror(err));
	for (size_t i = 0; i < map.blocks; i++)
		for (unsigned int family = 0; family < FAMILIES; family++)
			last = max(last, map.block[i].index[family]);
	return last + 1;
}

/*
 * The group has one program, the last installed: it must know what any process has published before
 * it installed its own.
 */
static unsigned int install(void)
{
	bool alone = host_steer_begin(vrb.host);
	unsigned int members = install_once();

	if (alone)
		host_steer_end(vrb.host);
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
	store_relaxed(&steer.departures, host_departures(vrb.host));
	store_relaxed(&steer.settled, false);
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
	if (!vrb_steers())
		return;
	steer.pid = getpid();
	/* The program that follows the reply shall include the first QP: another costs 0.3 ms. */
	host_qpn_prepare(vrb.host, FIRST_SHARD);
	/* The program that steers the probes steers packets of the others with this port, too. */
	host_publish_wire(vrb.host, vrb.wire->port, &steer.published);
	vrb_steer_probe();
}

/* Is the position of the main queue known? Others may have none yet. */
static bool is_known(void)
{
	const struct wire *w = vrb_main_rx_queue->wire;
	const int32_t *at = steer.at[vrb_main_rx_queue - vrb_rx_queues];

	return (!w->ipv4 || at[0] >= 0) && (!w->ipv6 || at[1] >= 0);
}

/* Returns true if they differ from those published before. */
static bool publish_positions(bool *known)
{
	struct host_steer to;

	*known = true;
	for (unsigned int shard = 0; shard < HOST_SHARDS; shard++)
		for (unsigned int family = 0; family < ARRAY_SIZE(to.at[shard]); family++)
			*known &= look_up(vrb_rx_queue_of_shard(shard), family,
					  &to.at[shard][family]);
	if (!memcmp(&to, &steer.published, sizeof(to)))
		return false;
	steer.published = to;
	host_publish_wire(vrb.host, vrb.wire->port, &to);
	return true;
}

/* Must hold vrb.poll_lock. */
static void publish(void)
{
	bool known;

	if (publish_positions(&known))
		install();
	if (known)
		steer.interval = memcmp(steer.before, steer.at, sizeof(steer.at))
					 ? LIMIT_STEER_PROBE
					 : min(2 * steer.interval, LIMIT_STEER_PROBE_SELDOM);
	/* Release: the program is installed. Pairs with is_settled(). */
	if (is_known())
		store_release(&steer.settled, true);
}

/* Returns the position that the queue had. */
static int32_t withdraw(const struct vrb_rx_queue *r, unsigned int family)
{
	int32_t *at = &steer.at[r - vrb_rx_queues][family];
	int32_t was = load_relaxed(at);
	bool known;

	udp_moved(r->wire, family, -1);
	store_relaxed(at, -1);
	steer.before[r - vrb_rx_queues][family] = -1;
	publish_positions(&known);
	return was;
}

/* Reading all blocks of numbers takes longer. */
static bool others_are_steered(void)
{
	map.slots = host_steer_slots(vrb.host, map.slot, STEER_SLOTS);
	return map.slots > 1 || (map.slots == 1 && map.slot->number != host_slot(vrb.host));
}

/*
 * Between the program and the closing of the socket, this process gets the packets of the one whose
 * socket takes its place: nothing else may come in between, and no other program.
 */
static void close_socket(struct vrb_rx_queue *r, unsigned int family)
{
	struct host_move m = { .family = family, .to = withdraw(r, family) };
	bool alone = host_steer_begin(vrb.host);
	int slot = host_steer_closes(vrb.host, &m);

	if (others_are_steered())
		install_once();
	udp_end(r->wire, family);
	if (alone)
		host_steer_end(vrb.host);
	if (slot == host_slot(vrb.host))
		vrb_steer_moved(&m);
	else if (slot != HOST_NO_SLOT)
		host_send_move(vrb.host, slot, &m);
}

void vrb_steer_leave(struct vrb_rx_queue *r)
{
	if (!r->wire || !vrb_steers())
		return;
	for (unsigned int family = 0; family < FAMILIES; family++) {
		if (r != vrb_main_rx_queue)
			lock_acquire(&vrb.poll_lock);
		close_socket(r, family);
		if (r != vrb_main_rx_queue)
			lock_release(&vrb.poll_lock);
		vrb_rx_queue_poll(r, clock_now(), false);
	}
}

void vrb_steer_leave_at_exit(struct vrb_rx_queue *r)
{
	if (!r->wire || load_relaxed(&vrb_extra_rx_queues) || steer.pid != getpid())
		return;
	vrb_steer_leave(r);
	vrb_steer_stop();
}

/* If it is not there, it will probe once packets are missing. */
void vrb_steer_moved(const void *message)
{
	struct host_move m;

	memcpy(&m, message, sizeof(m));
	if (m.family >= FAMILIES || m.from < 0 || m.to < 0 || m.to >= m.from || !vrb.wire)
		return;
	vrb_for_each_rx_queue (r) {
		int32_t *at = &steer.at[r - vrb_rx_queues][m.family];

		if (load_relaxed(at) != m.from)
			continue;
		udp_moved(r->wire, m.family, m.to);
		store_relaxed(at, m.to);
		publish();
	}
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

/* Sockets may have moved since the last probe, untold: nobody knew who has them. */
static bool others_left(void)
{
	return load_relaxed(&steer.departures) != host_departures(vrb.host);
}

static bool is_settled(void)
{
	return !vrb_main_rx_queue->wire || !vrb_steers() || load_relaxed(&steer.silent) ||
	       (load_acquire(&steer.settled) && !others_left());
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
		if (load_relaxed(&steer.settled) && others_left())
			vrb_steer_probe();
		vrb_rx_queue_take_all(vrb_main_rx_queue, clock_now(), false);
		lock_release(&vrb.poll_lock);
		if (i == SETTLE_TRIES)
			store_relaxed(&steer.silent, true);
	}
}

void vrb_steer_qp_added(void)
{
	if (unlikely(steer.blocks != host_blocks_taken(vrb.host)) && vrb_steers())
		install();
}

void vrb_steer_listener_added(void)
{
	lock_acquire(&vrb.poll_lock);
	if (vrb_steers())
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
	    !vrb_steers())
		return;
	probe_again(now);
}

void vrb_steer_doubt(uint64_t now)
{
	uint64_t since = time_since(steer.probed, now);

	if (since < LIMIT_STEER_PROBE || !vrb_steers())
		return;
	if (since >= steer.interval || host_generation(vrb.host) != steer.generation)
		probe_again(now);
}
