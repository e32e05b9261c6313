/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many hosts around one: each leaf has a connection to the hub, and all of them share the switch
 * port to the hub. Data flows to the hub: the leaves write to it, or it reads from them.
 */
#ifndef SIM_FAN_H
#define SIM_FAN_H

#include "world.h"

enum { FAN_MAX = 32 };

struct fan_config {
	struct net_config net;
	struct sim_qp_attr qp;
	uint32_t leaves;
	bool one_host;   /* the leaves are QPs of one host */
	uint32_t opcode; /* IBV_WR_RDMA_WRITE: the leaves request; IBV_WR_RDMA_READ: the hub does */
	uint32_t len;		/* of a message */
	uint32_t messages;      /* of each leaf; 0: no limit */
	uint32_t depth;		/* messages posted at a time */
	uint64_t start_interval; /* ns between the starts of two leaves */
	uint64_t answer_delay;   /* see struct world */
};

struct fan {
	struct world *w;
	const struct fan_config *cfg;
	struct fan_leg {
		struct fan *fan;
		struct sim_qp *requester, *responder, *leaf;
		struct sim_wr wr;
		uint32_t posted;
		uint64_t began, ended; /* ended: time of the newest completion */
	} leg[FAN_MAX];
};

/* *cfg must outlive the fan. world_run() or world_run_until() starts the flows. */
struct fan *fan_new(const char *name, uint64_t seed, const struct fan_config *cfg);
void fan_free(struct fan *f);

/* Completed messages of a leaf. */
uint32_t fan_done(const struct fan *f, uint32_t leaf);

/* Sums of the counters of all QPs. */
struct roce_counters fan_counters(const struct fan *f);

#endif
