/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pairs of QPs that several threads use, and the oracle of their completions:
 *
 *	a request completes once, and those of a QP in order; none comes after its QP was destroyed
 *	or reset;
 *	it succeeds unless somebody broke the pair, and after a failure all others are flushed;
 *	what arrives is what was sent, in order, and what was written or read is there at once.
 */
#ifndef TESTS_FUZZ_VERBS_PAIRS_H
#define TESTS_FUZZ_VERBS_PAIRS_H

#include <pthread.h>

#include "verbs/world.h"

enum {
	THREADS = 4,
	OWN = 3,	/* pairs of a thread */
	PAIRS = THREADS * OWN,
	WORLDS = 2,	/* contexts of one device */
	DEPTH = 16,	/* of each queue */
	SLOT = 8192,
	MEMORY = (3 * DEPTH + 1) * SLOT,	/* of a side */
	SRQ_SLOTS = 8192,	/* those of destroyed QPs do not come back */
	SRQ_SLOT = 2048,
	XRC_MARK = 1 << 30,	/* in the wr_id of the XRC SRQ's receives */
	HEAD = 16,	/* bytes that say what a message is, if it has as many */
	SOURCE_SEQ = 0xabc,	/* number of the bytes that the peer READs */
	GENERATIONS = 64,	/* remembered */
};

/* Several threads poll ordered CQs in turn, so that the order of completions is known. */
enum { ORDERED, FREE_FOR_ALL, EVENTED, CQS };

/* OPEN: all succeeds; BROKEN: requests may fail, and bad ones are posted; CLOSING: none is. */
enum state { CLOSED, OPEN, BROKEN, CLOSING };

/* Of a work request. */
enum kind { SEND = 1, RECV, SHARED };

struct op {
	enum ibv_wr_opcode opcode;
	bool signaled, bad, done;
	uint32_t len, seq;	/* seq: of messages, else of requests */
};

struct side {
	struct ibv_qp *qp;
	uint32_t qpn;		/* also while its owner destroys the QP */
	struct ibv_mr *mr;
	struct ibv_ah *ah;	/* UD */
	uint8_t *mem;		/* DEPTH slots each to send from, to receive to, for WRITEs */
	struct op op[DEPTH];
	uint32_t posted, done;	/* of op[] */
	bool recv_posted[DEPTH];
	uint32_t recvs, recvs_done;
	uint32_t seq_out, seq_in;	/* of messages: the next */
	uint64_t seen;		/* which of the 64 before seq_in came; bit 0: the last */
	bool failed;		/* a request has failed */
	int cq[2], srq;		/* send, receive; srq: -1: none */
};

struct pair {
	pthread_mutex_t lock;
	enum ibv_qp_type type;
	enum state state;
	bool no_refill, interfered;	/* interfered: a QP was changed or destroyed */
	uint32_t gen;
	uint64_t ended_at[GENERATIONS];	/* tick */
	struct side side[2];
};

struct srq {
	pthread_mutex_t lock;
	struct ibv_srq *srq;
	uint32_t number, mark;	/* XRC */
	bool posted[SRQ_SLOTS];
	uint32_t free[SRQ_SLOTS], num_free;
	struct buffer buf;
};

/* What all threads share. */
extern struct world w[WORLDS];
extern struct ibv_cq *cqs[WORLDS][CQS];
extern struct srq srqs[WORLDS], xsrq;
extern struct pair pairs[PAIRS];
extern uint64_t tick;	/* grows with each end of a QP, so that it orders polls and ends */
extern uint64_t completions, fetched_adds;
extern uint64_t stop;	/* 1: all pairs end, or an SRQ's slots are used up; 2: they have */

/* The context of a side's QP. */
int world_of(const struct pair *p, int side);

uint64_t wr_id(enum kind kind, const struct pair *p, int side, uint32_t index);

/* Slots of a side's memory: to send from, for the peer's WRITEs, and for its READs. */
uint8_t *send_slot(struct side *s, uint32_t i);
uint8_t *rdma_slot(struct side *s, uint32_t i);
uint8_t *source(struct side *s);

/* The bytes that a side sends with this number. */
void fill(uint8_t *to, const struct pair *p, int side, uint32_t seq, uint32_t len);

/* Posts receives until the queue is full; under p->lock unless nobody else uses the pair. */
void refill(struct pair *p, int side);
void srq_refill(struct srq *s);

/* Polls a CQ, and checks what it has. Returns the number of completions. */
int poll_cq(int world, int cq);

/* The same, of one that any thread may poll. */
int poll_some(void);

#endif
