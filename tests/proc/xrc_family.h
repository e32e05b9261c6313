/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An XRC domain of several processes: one has the receive QP (the home), others have the SRQs that
 * a further one, the initiator, names in its requests.  The test's first process is the initiator,
 * and tells the others what to do.
 *
 * xrc_member.c is what they do, xrc_family.c what the first one does with them.
 */
#ifndef TESTS_PROC_XRC_FAMILY_H
#define TESTS_PROC_XRC_FAMILY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "xrc.h"

enum {
	OWNERS = 2,		/* processes with an SRQ, beside the home, which has one too */
	TARGETS = OWNERS + 1,
	MESSAGES = 400,
	WINDOW = 12,
	TIMEOUT = 14, RETRIES = 7,	/* given up after half a second */
	PATIENT = 18, /* after eight: for streams that must not fail on a busy machine */
};

/* What the members inherit. */
extern int family_file;		/* the domain's */
extern bool family_deaths;	/* processes are killed: a message that had begun may be flushed */
extern uint8_t family_timeout;	/* of the initiator; TIMEOUT unless a test says otherwise */
extern bool family_rtr;		/* the home's QP stays in RTR */

/* What the first process tells all others to do. */
enum order {
	RECEIVE,	/* a stream, until told to stop */
	STOP,
	POST,		/* a receive */
	TAKE,		/* poll one completion and tell it */
	ARM_LIMIT,	/* of the SRQ, at 1; then say when the event has come */
	SHOW,		/* the first bytes of the buffer */
	SLEEP,		/* arm the CQ for solicited completions and wait for the event */
	DROP_SRQ,
	AGAIN, /* close everything of XRC, open it again; then tell the number of the new SRQ */
	OPEN,		/* the QP of the home */
	STATE,		/* of the QP: tell what ibv_query_qp says, -1 if that fails */
	EVENT,		/* of the QP: wait for one and tell it */
	TO_ERROR,	/* move the QP there */
	CLOSE,		/* the QP, or the handle */
	LEAVE,
};

/* What all must know of a member. */
struct facts {
	struct rc_addr addr;
	uint32_t srqn;
};

struct family {
	struct xrc x;
	struct child child[TARGETS];	/* the home is the first */
	struct facts facts[TARGETS];
};

/* Processes; see child_fork(). */
void member_home(int sock);
void member_owner(int sock);

/* Whether an order is waiting. */
bool member_has_order(int sock);

/* The home and the owners; with the initiator's QP, connected, or without. */
void family_gather(struct family *f);
void family_gather_receivers(struct family *f);
void family_part(struct family *f);

/* Orders: without an answer, with a byte as answer, to all, with a number as answer. */
void family_command(int sock, enum order o);
void family_order(struct family *f, int member, enum order o);
void family_order_all(struct family *f, enum order o);
int family_call(struct family *f, int member, enum order o);
struct ibv_wc family_take(struct family *f, int member);	/* TAKE */
uint64_t family_word(struct family *f, int member);	/* SHOW: the first one */
uint32_t family_stop(struct family *f, int member);	/* STOP: how many messages it has got */

/* Waits for one completion of the initiator. */
void family_sent(struct family *f, enum ibv_wc_status status);

/* One SEND, from POST to TAKE. */
void family_send(struct family *f, int member, uint32_t len);

/* Numbered messages of all sizes to random receivers, WINDOW of them in flight. */
struct stream {
	struct family *f;
	uint32_t n, open;
	uint32_t sent[TARGETS];
};

char stream_pattern(uint32_t seq, uint32_t i);
uint32_t stream_length(uint32_t seq);
void stream_to(struct stream *s, uint32_t to);
enum ibv_wc_status stream_wait(struct stream *s);	/* for one */
enum ibv_wc_status stream_drain(struct stream *s);	/* for all: the first error, or success */

/* PROGRAM CASE [transport]: makes the domain's file and runs the case. */
struct family_case {
	const char *name;
	void (*run)(void);
};
int family_main(int argc, char **argv, const struct family_case *cases, size_t n);

#endif
