/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Subscriptions of processes that do not hold the UDP port to multicast groups, at this one, which
 * does (rx/subscriber.h). It joins each group once, and relays its packets to each subscriber. A
 * subscription lapses unless it is repeated. That it comes over loopback from the UDP port of a
 * relay number proves whose it is. There are at most SUBSCRIPTIONS_MAX, whoever asks, as each may
 * cost two memberships and a descriptor.
 *
 * Must hold vrb.poll_lock, except for start and stop.
 */
#ifndef VRB_CORE_RX_SUBSCRIPTIONS_H
#define VRB_CORE_RX_SUBSCRIPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct net_path;

enum { SUBSCRIPTIONS_MAX = 128 };

/* Returns 0 or an errno value. */
int vrb_subscriptions_start(void);
void vrb_subscriptions_stop(void);	/* must hold no lock */
void vrb_subscriptions_forget(void);	/* in a forked child */

/*
 * A MAD of either end has arrived on the wire, or was passed on by another process of the run
 * directory. False: it is another kind of MAD.
 */
bool vrb_subscriptions_mad(const struct net_path *path, const uint8_t *mad, uint32_t len,
			   bool handed, uint64_t now);

/* Relays a multicast packet that the wire has received. */
void vrb_subscriptions_relay(const struct net_path *path, const uint8_t *data, size_t len,
			     uint64_t now);

#endif
