/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The MADs by which a process that does not hold the UDP port subscribes to multicast groups at
 * one that does (rx/subscriber.h, rx/subscriptions.h). They are of a vendor's class, so others drop
 * them. Steering leads them as it does replies of connection management: by the slot, if it is one.
 * A pure function of bytes.
 */
#ifndef VRB_CORE_MAD_GROUP_MAD_H
#define VRB_CORE_MAD_GROUP_MAD_H

#include <stdbool.h>
#include <stdint.h>

#include "cm/msg.h"
#include "util/net.h"
#include "util/time.h"

enum group_mad_kind {
	GROUP_MAD_WHO = 1,	/* which holder relays? */
	GROUP_MAD_KEEP = 2,	/* to a slot: these groups, no others; 0: no answer */
	GROUP_MAD_HERE = 0x81,	/* the slot of the holder that answers */
	GROUP_MAD_KEPT = 0x82,	/* the same, and how many groups it does not relay */
	GROUP_MAD_GONE = 0x83,	/* of a holder that ends */
};

enum { GROUP_MAD_MAX = 10 };	/* groups */

/* For so long a holder relays to a process that does not repeat its subscription. */
#define GROUP_MAD_LEASE (2 * VRB_SECOND)

struct group_place {
	struct net_addr addr;
	uint32_t ifindex;
};

struct group_mad {
	enum group_mad_kind kind;
	unsigned int slot;
	unsigned int n;
	struct group_place group[GROUP_MAD_MAX];	/* of GROUP_MAD_KEEP */
};

void group_mad_encode(uint8_t mad[CM_MAD_LEN], const struct group_mad *m);

/* False: it is another MAD, or malformed. */
bool group_mad_decode(struct group_mad *m, const uint8_t *mad, uint32_t len);

#endif
