/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the tests of raw packet QPs: a QP with a flow rule, two buffers, and frames built by
 * hand.
 */
#ifndef TESTS_VERBS_RAW_BENCH_H
#define TESTS_VERBS_RAW_BENCH_H

#include "world.h"

enum {
	ETH = 14,
	TAG = 4,
	WR = 16,
	CANARY = 0x5a,
	MARK = 0x2bad1d,	/* flow tag */
};

/* Source and destination address of the frames. */
extern const uint8_t here[6], there[6];

struct bench {
	struct world w;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_flow *rule;	/* for frames to `there` */
	struct buffer out, in;	/* filled with numbers; with canaries */
};

void open_bench(struct bench *b, uint32_t flags);
void close_bench(struct bench *b);

/* Creates another QP. */
struct ibv_qp *new_qp(struct bench *b, struct ibv_srq *srq, uint32_t flags);
int move(struct ibv_qp *qp, enum ibv_qp_state next);
void to_rts(struct ibv_qp *qp);

/* Steers frames with this destination address to the QP. */
struct ibv_flow *steer(struct ibv_qp *qp, const uint8_t dst[6]);

void set16(uint8_t *p, uint16_t v);
void ethernet(uint8_t *p, uint16_t type);

void post(struct ibv_qp *qp, uint64_t id, struct ibv_sge *sge, int n, unsigned int flags);
void receive_into(struct ibv_qp *qp, uint64_t id, struct ibv_sge *sge, int n);

/* Waits for the completions of one send and one receive, in any order; returns the receive's. */
struct ibv_wc both(struct ibv_cq *cq);

#endif
