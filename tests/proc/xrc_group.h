/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A group of processes that share an XRC domain. The home owns the target QP; the home and two more
 * processes, the owners, have an SRQ each. The test's first process is the initiator: its requests
 * name these SRQs, and it sends commands to the others, the members.
 *
 * xrc_member.c is the members' side, xrc_group.c the initiator's.
 */
#ifndef TESTS_PROC_XRC_GROUP_H
#define TESTS_PROC_XRC_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "xrc.h"

enum {
	OWNERS = 2,           /* processes with an SRQ, except the home */
	TARGETS = OWNERS + 1, /* members; each has an SRQ */
	MESSAGES = 400,
	WINDOW = 12, /* messages in flight */
	TIMEOUT = 14,
	RETRIES = 7,       /* requests fail after half a second */
	LONG_TIMEOUT = 18, /* after eight: for streams that must not fail on a busy machine */
	NO_TIMEOUT = 0,
};

/* Inherited by the members. */
extern int group_file;         /* of the domain */
extern bool group_kills;       /* members are killed: a message in progress may be flushed */
extern uint8_t group_timeout;  /* of the initiator's QP; TIMEOUT by default */
extern unsigned int group_recvs; /* of each member in a stream; XRC_RECVS by default */
extern bool group_home_in_rtr; /* the home's QP stays in RTR */
extern bool group_home_polls;  /* it has no progress thread: only RECEIVE and calls make progress */

/* Commands of the initiator. */
enum command {
	RECEIVE, /* receive a stream until STOP */
	STOP,
	POST,      /* post a receive */
	TAKE,      /* poll one completion and return it */
	ARM_LIMIT, /* set the SRQ's limit to 1; answer again after the event */
	SHOW,      /* return the first bytes of the buffer */
	SLEEP,     /* arm the CQ for solicited completions and wait for the event */
	DROP_SRQ,  /* destroy the SRQ */
	REOPEN,    /* close and open the domain again; return the new SRQ's number */
	OPEN,      /* open the home's QP */
	STATE,     /* return the QP's state, -1 if ibv_query_qp() fails */
	EVENT,     /* wait for an event of the QP and return its type */
	TO_ERROR,  /* move the QP to ERR */
	CLOSE,     /* destroy the QP or its handle */
	END,       /* close everything and exit */
};

/* The address of a member, for all others. */
struct member_info {
	struct rc_addr addr;
	uint32_t srqn;
};

struct group {
	struct xrc x;
	struct child child[TARGETS]; /* the home is the first */
	struct member_info member_info[TARGETS];
};

/* The members' main functions, for child_fork(). */
void member_home(int sock);
void member_owner(int sock);

/* Whether a command is waiting. */
bool member_has_command(int sock);

/* Start the home and the owners: with the initiator's connected QP, or without it. */
void group_start(struct group *f);
void group_start_receivers(struct group *f);
void group_connect(struct group *f); /* after group_start_receivers(): both are group_start() */
void group_end(struct group *f);

/* Commands: without an answer; answered by rc_barrier(), one member or all; with a number. */
void group_send_command(int sock, enum command o);
void group_run(struct group *f, int member, enum command o);
void group_run_all(struct group *f, enum command o);
int group_query(struct group *f, int member, enum command o);
struct ibv_wc group_take(struct group *f, int member);   /* TAKE */
uint64_t group_read_word(struct group *f, int member);   /* SHOW: the first word */
/* STOP: returns how many messages it has received, once there are at least so many. */
uint32_t group_stop_stream(struct group *f, int member, uint32_t least);

/* Waits for a completion of the initiator, which must have this status. */
void group_expect(struct group *f, enum ibv_wc_status status);

/* POST, one SEND, TAKE. */
void group_send(struct group *f, int member, uint32_t len);

/* Numbered messages of all sizes to random receivers, WINDOW of them in flight. */
struct stream {
	struct group *f;
	uint32_t n;             /* messages posted */
	uint32_t open;          /* of them, not completed */
	uint32_t sent[TARGETS]; /* messages to each member */
};

char stream_pattern(uint32_t seq, uint32_t i);
uint32_t stream_length(uint32_t seq);
void stream_to(struct stream *s, uint32_t to);
enum ibv_wc_status stream_wait(struct stream *s);  /* for one */
enum ibv_wc_status stream_drain(struct stream *s); /* for all: the first error, or success */

/* main() of PROGRAM CASE [TRANSPORT]: creates the domain's file and runs the case. */
struct group_case {
	const char *name;
	void (*run)(void);
};
int group_main(int argc, char **argv, const struct group_case *cases, size_t n);

#endif
