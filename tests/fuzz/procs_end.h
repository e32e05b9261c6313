/* SPDX-License-Identifier: BSD-2-Clause */
/* One end of a connection, and what its process posts and polls; for procs_side.c. */
#ifndef TESTS_FUZZ_PROCS_END_H
#define TESTS_FUZZ_PROCS_END_H

#include "fuzz/procs_side.h"
#include "fuzz/threads.h"
#include "util/atomic.h"
#include "verbs/world.h"

enum {
	SGES = 4,
	GAP = 16,		/* bytes between the SGEs of a receive */
	GRH = sizeof(struct ibv_grh),
	CANARY = 0xcc,
	INLINE = 200,
	DATAGRAM = 1024,
	CQE = 2 * CONNS * 2 * DEPTH,
	LIMIT_S = 60,		/* for what is awaited */
	REMOTE = TARGET + WORDS * sizeof(uint64_t) + SOURCE,
	TIMEOUT = 12,		/* of RC: 17 ms */
	RETRIES = 3,
};

enum kind { SEND = 1, RECV };

struct op {
	enum ibv_wr_opcode opcode;
	bool signaled, bad, done, message;
	uint32_t len, seq;	/* seq: of messages */
	uint32_t at;		/* in the peer's target or source; atomics: which word */
	uint64_t result;	/* atomics */
};

struct receive {
	bool posted;
	int n;
	struct ibv_sge sge[SGES];
};

/* This side of a connection. */
struct end {
	bool open, stopped;	/* stopped: nothing is posted */
	struct ibv_qp *qp;
	struct ibv_cq *cq[2];
	struct ibv_srq *srq;
	struct ibv_ah *ah;
	struct ibv_mw *mw;
	struct ibv_mr *mr, *target_mr;
	uint8_t *mem, *target;
	size_t slot;		/* bytes of a receive */
	int fd;			/* of the target; -1: private memory */
	struct op op[DEPTH];
	uint32_t posted, done, recvs, recvs_done;
	uint32_t shown;		/* messages that the peer had shown when this side became ERR */
	struct receive recv[DEPTH];
	bool failed, reading, bind_open;
	uint32_t next_in;	/* message */
	uint32_t seen[LOG];	/* unreliable: numbers of messages, plus 1 */
	uint32_t window_key;	/* the last one of the window */
	uint32_t bound;		/* the same while it is bound, else 0 */
};

extern struct world w;
extern struct ibv_cq *cqs[2];
extern struct end ends[CONNS];
extern int me;	/* the side */

static inline struct conn *conn_of(const struct end *e)
{
	return &shared->conn[e - ends];
}

static inline struct half *mine(const struct end *e)
{
	return &conn_of(e)->half[me];
}

static inline struct half *peers(const struct end *e)
{
	return &conn_of(e)->half[!me];
}

static inline bool is(const struct end *e, enum ibv_qp_type type)
{
	return conn_of(e)->type == type;
}

static inline uint32_t disturbed(const struct end *e)
{
	return load_acquire(&conn_of(e)->disturbed);
}

#define AT(e) "connection %d, type %d, side %d, QP 0x%x, generation %u, disturbed %u: "
#define WHERE(e) \
	(int)((e) - ends), conn_of(e)->type, me, mine(e)->qpn, mine(e)->gen, disturbed(e)

/* Numbers of bytes that are not messages. */
enum { SOURCE_BYTES = 1 << 30, WRITTEN = 1 << 29, INITIAL = 1 << 28 };

/* What the end does at random depends on it. */
void seed_ends(uint64_t seed);

/* The bytes that a side sends, or has, with this number. */
uint32_t key_of(const struct end *e, int side, uint32_t number);
uint8_t pattern(uint32_t key, uint32_t i);
void fill(uint8_t *to, uint32_t key, uint32_t len);

/* What the peer READs. */
uint8_t *source_of(struct end *e);

/* Posts some receives, unless the queue is full. */
void refill(struct end *e, uint32_t most);

/*
 * Posts requests, as many as there is room for: the last is signaled, or the first has a wrong key.
 */
void post(struct end *e, int max, bool signaled, bool bad);

/* Checks what the CQs have. Returns the number of completions. */
unsigned int poll_cqs(void);

#endif
