/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two hosts with one QP each and all memory registered: the fixture of tests of one behaviour. `a`
 * is the requester, `b` the responder. On both hosts the first half of memory is for local buffers,
 * the second half for remote access and receives.
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

/* Connected and in RTS; b may have other attributes. */
struct pair pair_new(const char *name, const struct net_config *net, const struct sim_qp_attr *a,
		     const struct sim_qp_attr *b);
void pair_watch(struct pair *p); /* counts packets in *p, which must stay where it is */
void pair_free(struct pair *p);

/*
 * A signaled request of a: a message, or an access to b's memory. Its local buffer is the first
 * `len` bytes of a's memory.
 */
struct sim_wr pair_wr(struct pair *p, uint32_t opcode, uint32_t len);
/* Posts it with the next wr_id, from 0; transmits nothing. */
void pair_post(struct pair *p, struct sim_wr wr);
/* Posts a receive of b with the next wr_id, from 0x100; buffers lie in order in the second half. */
void pair_recv(struct pair *p, uint32_t len);
/* Transmits, and runs the simulation to its end. */
void pair_go(struct pair *p);

void pair_expect_send(struct pair *p, uint32_t index, uint64_t wr_id, enum ibv_wc_status status);
void pair_expect_recv(struct pair *p, uint32_t index, uint64_t wr_id, enum ibv_wc_status status);
void pair_expect_counts(struct pair *p, uint32_t sends, uint32_t recvs);
/* This event must have been raised `count` times, and no other. Type 0 with count 0: none. */
void pair_expect_event(struct pair *p, struct sim_qp *qp, enum ibv_event_type type, uint32_t count);

#endif
