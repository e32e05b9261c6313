/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two hosts, one QP each, all memory registered: the fixture of tests that look at one thing. `a`
 * asks, `b` answers. On both hosts the first half of memory is for sources and landings, the second
 * half for remote access and receives.
 */
#ifndef SIM_PAIR_H
#define SIM_PAIR_H

#include "world.h"

struct pair {
	struct world *w;
	struct sim_host *h[2];
	struct sim_key *mr[2];
	struct sim_qp *a, *b;
	uint32_t size;
	uint64_t next_wr, next_recv;
	uint32_t sent_a, sent_b;	/* packets handed to the network */
	uint32_t naks, last_syndrome;	/* NAKs and RNR NAKs that b sent */
};

enum { PAIR_MEM = 1 << 17, PAIR_PSN = 0x100 };

/* Connected and in RTS; b may have attributes of its own. */
struct pair pair_new(const char *name, const struct net_config *net, const struct sim_qp_attr *a,
		     const struct sim_qp_attr *b);
void pair_watch(struct pair *p);	/* counts packets in p, which must not move any more */
void pair_free(struct pair *p);

/*
 * A signaled request of a on b's memory, or a message, with source (landing) `len` bytes at the
 * start of memory.
 */
struct sim_wr pair_wr(struct pair *p, uint32_t opcode, uint32_t len);
/* Posts, numbering wr_id from 0 in order; transmits nothing. */
void pair_post(struct pair *p, struct sim_wr wr);
/* A receive of b, wr_id from 0x100 in order; buffers follow each other in the second half. */
void pair_recv(struct pair *p, uint32_t len);
/* Lets a transmit, and the world run to its end. */
void pair_go(struct pair *p);

void pair_expect_send(struct pair *p, uint32_t index, uint64_t wr_id, enum ibv_wc_status status);
void pair_expect_recv(struct pair *p, uint32_t index, uint64_t wr_id, enum ibv_wc_status status);
void pair_expect_counts(struct pair *p, uint32_t sends, uint32_t recvs);
/* Exactly this event, `count` times, and no other. 0 = none at all. */
void pair_expect_event(struct pair *p, struct sim_qp *qp, enum ibv_event_type type, uint32_t count);

#endif
