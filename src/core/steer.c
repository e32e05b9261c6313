/* SPDX-License-Identifier: BSD-2-Clause */
/* Steering of packets between the processes of one port. State under vrb.drive. */
#include "core/steer.h"

#include <stdbool.h>
#include <string.h>

#include "core/process.h"
#include "core/receiver.h"
#include "host/host.h"
#include "run/log.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "util/time.h"
#include "wire/udp.h"

enum {
	SPARE_POSITIONS = 16,	/* members that joined and have not published yet */
	MISLED_LIMIT = 32,	/* packets by the inbox before it is worth looking again, */
};

#define PROBE_INTERVAL (200 * VRB_MSEC)	/* and how often it is looked at most */

#define PROBE_SELDOM (10 * VRB_SECOND)	/* unless that changes nothing */

static struct {
	bool awaiting;		/* a probe is on its way; atomic, as is */
	int32_t at[VRB_RECEIVERS][2];	/* where receivers are, as far as the probe has told */
	int32_t before[VRB_RECEIVERS][2];	/* where they were when it was sent */
	struct host_steer published;
	unsigned int misled;
	uint64_t probed, interval;
	uint16_t qps[HOST_BLOCKS];	/* of this process, by block */
} steer;

/* Installs what is published; the number of group members that makes possible. */
static unsigned int install(void)
{
	struct net_steer map[STEER_BLOCKS];
	size_t n = host_steer_map(vrb.host, map, STEER_BLOCKS);
	int32_t last = 0;
	int err = udp_steer(vrb.wire, map, n);

	if (err)
		log_once(LOG_CORE, LOG_WARN, "packets cannot be steered to their process: %s",
			 strerror(err));
	for (size_t i = 0; i < n; i++)
		for (unsigned int family = 0; family < ARRAY_SIZE(map[i].index); family++)
			last = max(last, map[i].index[family]);
	return last + 1;
}

static void set_at(struct vrb_receiver *r, const int32_t at[2])
{
	int32_t *known = steer.at[r - vrb_receivers];

	store_relaxed(&known[0], at[0]);
	store_relaxed(&known[1], at[1]);
}

/* What is not known yet is where it was. Returns whether it is known. */
static bool look_up(const struct vrb_receiver *r, unsigned int family, int32_t *to)
{
	bool carried = family ? r->wire->ipv6 : r->wire->ipv4;

	*to = steer.at[r - vrb_receivers][family];
	if (*to >= 0)
		return true;
	*to = steer.before[r - vrb_receivers][family];
	return !carried;
}

void vrb_steer_probe(void)
{
	static const int32_t nowhere[2] = { -1, -1 };
	unsigned int members = install() + SPARE_POSITIONS;

	store_relaxed(&steer.awaiting, true);
	vrb_for_each_receiver (r) {
		for (unsigned int family = 0; family < ARRAY_SIZE(nowhere); family++)
			look_up(r, family, &steer.before[r - vrb_receivers][family]);
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
	steer.interval = PROBE_INTERVAL;
	if (vrb.wire && host_shared(vrb.host))
		vrb_steer_probe();
}

/* Must hold vrb.drive. */
static void publish(void)
{
	struct host_steer to;
	bool known = true;

	for (unsigned int shard = 0; shard < HOST_SHARDS; shard++)
		for (unsigned int family = 0; family < ARRAY_SIZE(to.at[shard]); family++)
			known &= look_up(vrb_receiver_of_shard(shard), family, &to.at[shard][family]);
	if (memcmp(&to, &steer.published, sizeof(to))) {
		steer.published = to;
		host_publish_wire(vrb.host, vrb.wire->port, &to);
		install();
	}
	if (!known)
		return;
	store_relaxed(&steer.awaiting, false);
	steer.interval = memcmp(steer.before, steer.at, sizeof(steer.at)) ? PROBE_INTERVAL :
			 min(2 * steer.interval, PROBE_SELDOM);
}

void vrb_steer_stop(void)
{
	struct host_steer nowhere;

	memset(&nowhere, 0xff, sizeof(nowhere));
	host_publish_wire(vrb.host, 0, &nowhere);
}

void vrb_steer_packets_seen(struct vrb_receiver *r)
{
	const int32_t *known = steer.at[r - vrb_receivers];
	int32_t at[2];

	if (likely(!load_relaxed(&steer.awaiting)))
		return;
	udp_position(r->wire, at);
	if (at[0] == load_relaxed(&known[0]) && at[1] == load_relaxed(&known[1]))
		return;
	if (r != vrb_main_receiver)
		lock_acquire(&vrb.drive);
	/* Again, now that no probe can begin: what was there before it began must not be taken for its answer. */
	udp_position(r->wire, at);
	set_at(r, at);
	publish();
	if (r != vrb_main_receiver)
		lock_release(&vrb.drive);
}

void vrb_steer_qp_added(uint32_t qpn)
{
	if (steer.qps[qpn >> HOST_BLOCK_BITS]++ == 0 && vrb.wire && host_shared(vrb.host))
		install();
}

void vrb_steer_qp_removed(uint32_t qpn)
{
	steer.qps[qpn >> HOST_BLOCK_BITS]--;
}

void vrb_steer_misled(unsigned int n, uint64_t now)
{
	steer.misled += n;
	if (steer.misled < MISLED_LIMIT || time_since(steer.probed, now) < steer.interval || !vrb.wire)
		return;
	steer.misled = 0;
	steer.probed = now;
	vrb_steer_probe();
}
