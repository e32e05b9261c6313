/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One of two processes whose QPs are connected to each other, and what both know of them in common
 * memory: the oracle. A driver tells both what to do (verbs_procs_fuzz.c).
 *
 *	a request completes once, in order; it succeeds unless the driver has disturbed the
 *	connection, and after a failure the others are flushed;
 *	what arrives is what was sent on this connection, in order, with its length, immediate and
 *	flags, and no other byte of the receive changes;
 *	what has shown at the receiver does not fail at the sender (between local processes
 *	without faults);
 *	once all is complete, the target memory is as WRITEs and atomics have left it.
 */
#ifndef TESTS_FUZZ_PROCS_SIDE_H
#define TESTS_FUZZ_PROCS_SIDE_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

enum {
	CONNS = 4,
	DEPTH = 16,		/* of each queue */
	LOG = 1024,		/* messages remembered: more than sent and not looked at */
	TARGET = 307200,	/* bytes that the peer writes, and longest message */
	WORDS = 4,		/* behind them, for atomics */
	SOURCE = 65536,		/* behind them, which the peer reads */
	GUARD = 256,		/* behind them, not registered */
};

/* How the driver has disturbed a connection: what may fail since. */
enum {
	CHANGED = 1,	/* a QP was moved or destroyed, or the target deregistered */
	DIED = 2,	/* a process has ended */
	BAD = 4,	/* requests with wrong keys are posted */
};

struct message {
	uint32_t seq, len;
	uint8_t opcode;		/* enum ibv_wr_opcode */
	uint32_t invalidates;
};

/* What a side tells of a connection. */
struct half {
	uint32_t qpn, rkey, window;	/* window: its rkey while it is bound; 0: none */
	uint64_t target;		/* address */
	uint32_t gen;			/* grows with each connection of its QP */
	uint32_t sent, received;	/* messages to the peer, and from it */
	struct message log[LOG];
	/* What is right for its memory: bytes, and the results of atomics. */
	uint8_t image[TARGET];
	uint64_t word[WORDS];
};

struct conn {
	enum ibv_qp_type type;
	uint32_t max;		/* longest message */
	uint32_t disturbed;
	struct half half[2];
};

struct shared {
	bool lossless;		/* both sides use memory only, without faults */
	struct conn conn[CONNS];
	uint64_t completions[2], messages[2], bytes[2];
};

enum command_kind {
	OPEN,		/* creates QP and memory */
	INIT,		/* RESET to INIT, a new generation, and memory as at its beginning */
	RTR, RTS,
	RUN,		/* n random steps */
	SETTLE,		/* until its requests are complete */
	COMPARE,	/* until all messages have come; compares memory */
	POST_BAD,	/* a request with a wrong key, then others */
	DEREGISTER,	/* the target */
	FAIL,		/* until a request has failed, as the peer has died */
	TO_ERR, FLUSH,	/* FLUSH: until all is flushed */
	TO_RESET, CLOSE,
	LEAVE,		/* ends the process in one of several ways */
	COMMANDS
};

struct command {
	enum command_kind kind;
	int conn, n;
	uint64_t seed;
	uint32_t psn[2];	/* RTR, RTS: of each side */
	bool mapped, srq;	/* OPEN: the target is a shared mapping */
};

extern struct shared *shared;

/* The process: executes commands from the socket until it ends, answers each with one byte. */
void side_run(int side, int sock);

#endif
