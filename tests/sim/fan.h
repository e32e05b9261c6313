/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many hosts around one: each leaf has a connection to the hub, and all of them meet at the switch
 * port to the hub.  Data flow to the hub, by what the leaves write or what the hub reads.
 */
#ifndef SIM_FAN_H
#define SIM_FAN_H

#include "world.h"

enum { FAN_MAX = 32 };

struct fan_config {
	struct net_config net;
	struct sim_qp_attr qp;
	uint32_t leaves;
	bool together;		/* all of them are QPs of one host */
	uint32_t opcode; /* IBV_WR_RDMA_WRITE: the leaves ask; IBV_WR_RDMA_READ: the hub does */
	uint32_t len;		/* of a message */
	uint32_t messages;	/* of each leaf; 0: without end */
	uint32_t depth;		/* messages posted at a time */
	uint64_t later;		/* ns that each leaf begins after the one before */
	uint64_t lazy;		/* see struct world */
};

struct fan {
	struct world *w;
	const struct fan_config *cfg;
	struct fan_leg {
		struct fan *fan;
		struct sim_qp *asks, *answers, *leaf;
		struct sim_wr wr;
		uint32_t posted;
		uint64_t began, ended;	/* ended: when its newest completion was raised */
	} leg[FAN_MAX];
};

/* *cfg has to outlive it. Nothing runs before world_run() or world_run_until(). */
struct fan *fan_new(const char *name, uint64_t seed, const struct fan_config *cfg);
void fan_free(struct fan *f);

/* Messages done by a leaf. */
uint32_t fan_done(const struct fan *f, uint32_t leaf);

/* Counters of all QPs, added up. */
struct roce_counters fan_counters(const struct fan *f);

#endif
