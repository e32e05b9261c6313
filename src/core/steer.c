/* SPDX-License-Identifier: BSD-2-Clause */
/* Steering of packets between the processes of one port. State under vrb.drive. */
#include "core/steer.h"

#include <stdbool.h>
#include <string.h>

#include "core/process.h"
#include "host/host.h"
#include "run/log.h"
#include "util/compiler.h"
#include "util/time.h"
#include "wire/udp.h"

enum {
	SPARE_POSITIONS = 16,	/* members that joined and have not published yet */
	MISLED_LIMIT = 32,	/* packets by the inbox before it is worth looking again, */
};

#define PROBE_INTERVAL (200 * VRB_MSEC)	/* and how often it is looked at most */

static struct {
	bool awaiting;		/* a probe is on its way */
	int32_t at[2];		/* published positions */
	unsigned int misled;
	uint64_t probed;
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

static void probe(void)
{
	steer.awaiting = true;
	udp_probe(vrb.wire, install() + SPARE_POSITIONS);
}

void vrb_steer_start(void)
{
	memset(&steer, 0, sizeof(steer));
	steer.at[0] = steer.at[1] = -1;
	if (vrb.wire && host_shared(vrb.host))
		probe();
}

void vrb_steer_stop(void)
{
	static const int32_t nowhere[2] = { -1, -1 };

	host_publish_wire(vrb.host, 0, nowhere);
}

static bool position_known(const int32_t at[2])
{
	return (at[0] >= 0 || !vrb.wire->ipv4) && (at[1] >= 0 || !vrb.wire->ipv6);
}

void vrb_steer_packets_seen(void)
{
	int32_t at[2];

	if (likely(!steer.awaiting))
		return;
	udp_position(vrb.wire, at);
	if (!memcmp(at, steer.at, sizeof(at)))
		return;
	memcpy(steer.at, at, sizeof(at));
	host_publish_wire(vrb.host, vrb.wire->port, at);
	install();
	steer.awaiting = !position_known(at);
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
	if (steer.misled < MISLED_LIMIT || now - steer.probed < PROBE_INTERVAL || !vrb.wire)
		return;
	steer.misled = 0;
	steer.probed = now;
	steer.at[0] = steer.at[1] = -1;
	probe();
}
