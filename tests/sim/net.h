/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The simulated network: what happens to a packet between two hosts.
 *
 *	sender -> [egress link] -> loss, damage, duplication, delay -> [switch port] -> receiver
 *
 * Makes the decisions and computes the times; the world schedules the events. The links of a host
 * share its bandwidth.
 */
#ifndef SIM_NET_H
#define SIM_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rand.h"
#include "util/net.h"

enum { NET_MAX_HOSTS = 40 };

struct net_packet {
	uint64_t serial;
	uint32_t src, dst;	/* host numbers */
	struct net_path path;	/* as the sender gave it */
	size_t len;
	uint8_t data[];		/* BTH..ICRC */
};

struct net_config {
	uint64_t delay;			/* ns, one way */
	uint64_t extra_delay;           /* ns more, one way, from host 1 to 2, 2 to 3, ... */
	uint64_t jitter;                /* up to this much more; keeps the order */
	uint32_t loss_ppm, dup_ppm, reorder_ppm, corrupt_ppm;
	uint64_t reorder_delay;         /* a reordered packet arrives up to this much later */
	uint64_t loss_mask;		/* rotates, per direction; a set low bit drops a packet */
	uint32_t mbit_per_s;		/* of egress links and switch ports; 0 = infinite */
	bool fast_egress;               /* egress links are infinitely fast */
	uint32_t buffer;		/* bytes a switch port holds; 0 = no limit */
	uint32_t ecn_mark;		/* packets behind more bytes are marked CE; 0 = never */
	/* Returns true to drop a packet, for selected losses. */
	bool (*drop)(void *arg, const struct net_packet *p);
	void *drop_arg;
};

struct net_port {
	uint64_t egress_free;		/* when the sending link is idle again */
	uint64_t switch_free;           /* when the switch's port to this host is idle again */
};

struct net_counters {
	uint64_t sent, delivered, lost, duplicated, reordered, damaged, overflowed, marked;
};

struct net {
	struct net_config cfg;
	struct rng rng;
	struct net_port port[NET_MAX_HOSTS];
	uint64_t last_arrival[NET_MAX_HOSTS][NET_MAX_HOSTS];
	uint64_t mask[NET_MAX_HOSTS][NET_MAX_HOSTS];
	struct net_counters count;
};

void net_init(struct net *n, const struct net_config *cfg, uint64_t seed);

/* When a packet sent now reaches the switch. */
uint64_t net_egress(struct net *n, uint32_t src, uint32_t dst, size_t len, uint64_t now);

bool net_loses(struct net *n, const struct net_packet *p);
bool net_duplicates(struct net *n);
/* Flips a few bits; true if it did. */
bool net_damages(struct net *n, struct net_packet *p);

/*
 * When a packet that reached the switch now is at its host; false if the buffer is full. May mark
 * it CE.
 */
bool net_ingress(struct net *n, struct net_packet *p, uint64_t now, uint64_t *arrival);

#endif
