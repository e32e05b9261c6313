/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random work for pairs of QPs whose outcome is deterministic: requests that could race use
 * separate memory or a fence.
 *
 * A flow is one direction of a pair. It has its own memory on both hosts (local buffers, remote
 * targets, receive buffers), so flows do not affect each other and an oracle can execute them one
 * after the other. Within a flow the rules of IBTA 10.8.3.3 (ordering, fence) are obeyed: a request
 * that overwrites what an earlier READ reads, or sends what an earlier READ or atomic returns, is
 * fenced.
 */
#ifndef SIM_PLAN_H
#define SIM_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "world.h"

struct plan;

struct area {
	uint64_t va;
	uint32_t len;
	uint32_t lkey, rkey;
};

struct flow {
	struct plan *plan;
	struct sim_qp *req, *resp;
	struct area local;              /* on the requester's host: sent from, responses go to */
	struct area remote;		/* on the responder's: targets of one-sided operations */
	struct area recv;		/* on the responder's: receive buffers, in order */
	struct sim_wr *wr;
	uint32_t n, posted;
	uint32_t burst;                 /* maximum number of requests posted at a time */
	struct sim_rwr *rwr;		/* the i-th is for the i-th message; none with an SRQ */
	uint32_t nrecv, recv_posted;
	uint32_t messages;		/* requests that consume a receive */
	bool trickle;                   /* receives are posted late, at random times */
	uint8_t *inline_pool;
	uint32_t inline_used;
	uint32_t window[2];		/* rkeys over `remote` */
	uint32_t stale[4];		/* rkeys on the requester's host, for LOCAL_INV */
};

/* Receives of an SRQ: all as long as the longest message to their host. */
struct srq_recvs {
	struct sim_srq *srq;
	struct area recv;
	struct sim_rwr *rwr;
	uint32_t n, posted;
	bool trickle;
	struct world *world;
};

enum plan_ops {
	PLAN_SEND = 1 << 0,
	PLAN_WRITE = 1 << 1,
	PLAN_WRITE_IMM = 1 << 2,
	PLAN_READ = 1 << 3,
	PLAN_ATOMIC = 1 << 4,
	PLAN_INVALIDATE = 1 << 5,
	PLAN_EXTENDED = 1 << 6,		/* FLUSH and ATOMIC WRITE, Annex A19 */
	PLAN_ALL = (1 << 7) - 1,
};

struct plan_config {
	struct net_config net;
	struct sim_qp_attr qp;
	uint32_t pairs;
	bool both_ways;
	bool srq;
	bool late_receives;
	bool ipv6;
	uint32_t ops;		/* requests per flow */
	uint32_t max_len;
	uint32_t kinds;		/* PLAN_* */
	uint32_t fixed_len;     /* of every message; 0: random */
	bool wraps;	/* PSNs and the indices of queues begin just below their ends */
	uint32_t answer_delay, merge;  /* see struct world */
	uint32_t spread_ns;	/* flows start at random times up to this */
};

struct plan {
	const struct plan_config *cfg;
	struct world *w;
	struct flow *flow;
	uint32_t nflows;
	struct srq_recvs srq_recvs[2]; /* of host 0 and 1 */
	struct rng rng;
};

/* Everything varies with the seed. Losses are rare enough that no request may fail. */
struct plan_config plan_random_config(uint64_t seed);

/* Creates two hosts, connected QPs and all requests; posts none. *cfg must outlive the plan. */
struct plan *plan_new(const char *name, uint64_t seed, const struct plan_config *cfg);
/* Schedules the posting; world_run() does the rest. */
void plan_start(struct plan *p);
void plan_free(struct plan *p);

/* Posts as many requests and receives of a flow as its queues have room for. */
void plan_post(struct flow *f);

/* True if the opcode consumes a receive at the responder. */
bool plan_needs_recv(uint32_t opcode);

/* Sums of the counters of all QPs. */
struct roce_counters plan_counters(const struct plan *p);

#endif
