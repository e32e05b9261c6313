/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tap points, at which observers (recording) and fault injection attach to the library.
 *
 *	enter, leave	a verb of wq/verb.def is called, and returns: the exported calls, and those
 *			of a context's tables (verbs/ops.c). Posting and polling have tapped forms,
 *			which enter the tables of a context that is opened while something
 *			is attached, or when rules are added (fault/taps.c)
 *	post		a work request, checked and in its slot, is about to be posted
 *	complete	a completion is about to enter its CQ
 *	out		a packet, or the message that replaces it, is about to be sent
 *	direct		requests were executed in the peer's memory; no packet is sent
 *	in		a packet or message has reached its QP
 *	note		the engine gives the reason for an action
 *	mad		a MAD of communication management is sent, or has reached this process
 *	event		an asynchronous event, or one of a completion channel, is raised
 *	fault		a fault is injected; its target may never reach its own tap point
 *
 * One flag tells whether a tap is attached. If none is, a tap point costs a load, a comparison and
 * a branch. The flag is never cleared.
 *
 * Taps are called under the locks stated at each tap point, and take only locks below these. Fault
 * injection comes first; the recording sees its result.
 */
#ifndef VRB_CORE_BASE_TAP_H
#define VRB_CORE_BASE_TAP_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "util/atomic.h"
#include "util/compiler.h"
#include "wq/verb.h"

struct message;
struct net_path;
struct recv_wqe;
struct roce_pkt;
struct send_wqe;
struct vrb_cq;
struct vrb_qp;
struct vrb_srq;
struct wq_cqe;
struct wq_note;

/* A call of the program. Calls that the library makes while it executes are not reported. */
struct tap_call {
	enum verb verb;
	unsigned int args;
	const uint64_t *arg;	/* in the order of the prototype */
	uint64_t object;	/* leave: the return value: a pointer, or a count */
	int err;		/* errno; 0: success */
	uint64_t entered;	/* set by the recording */
	bool seen;		/* enter was called for this call */
};

/* A work request: for a QP's send queue (send) or receive queue, or for an SRQ. */
struct tap_post {
	struct vrb_qp *qp;	/* NULL: the request is for the SRQ */
	struct vrb_srq *srq;
	const struct send_wqe *send;
	const struct recv_wqe *recv;
	uint32_t index;		/* index in its queue */
};

#define TAP_NO_INDEX UINT32_MAX

/* A completion. qp is NULL for a tag-matching SRQ's own requests. */
struct tap_completion {
	struct vrb_qp *qp;
	struct vrb_srq *srq;	/* the SRQ of the request; NULL: the QP's own queue */
	struct vrb_cq *cq;
	uint32_t index;		/* index of the request in its queue, or TAP_NO_INDEX */
	struct wq_cqe *wc;	/* may be changed */
};

/*
 * A packet from its BTH on, without ICRC, or a message. pkt: the decoded form of a received one.
 * pulled: length of the payload that stays with the sender, for the receiver to fetch. Fault
 * injection sets the last members, for a packet that leaves by the wire.
 */
struct tap_packet {
	struct vrb_qp *qp;	/* of this process; NULL: none, as for communication management */
	const struct net_path *path;	/* NULL: the path of the connection */
	const uint8_t *data;
	uint32_t len;
	uint32_t pulled;
	const struct message *message;
	const struct roce_pkt *pkt;
	bool wire;
	bool mark;		/* set ECN: congestion experienced */
	/* flip one bit of the ICRC, so that the receiver drops the packet */
	bool flip;
	uint32_t flip_bit;
};

/*
 * A message of communication management, of HOST_MAD_LEN bytes. Fault injection sets *in_vain if
 * it would drop every retransmission, too; it may be NULL.
 */
struct tap_mad {
	const struct net_path *path;
	const uint8_t *mad;
	bool out;
	bool *in_vain;
};

struct tap_event {
	struct ibv_context *context;
	const struct ibv_async_event *async; /* NULL: a completion event of this CQ */
	struct vrb_cq *cq;
};

/* An injected fault (fault/rule.h). */
struct tap_fault {
	const char *rule;	/* the rule as text */
	uint32_t number;	/* the rule's number, from 1 */
	uint32_t qpn;		/* 0: no QP */
	uint64_t count;		/* number of times that the rule has matched, from 1 */
	uint16_t kind;		/* enum fault_kind: the kind of tap point */
	uint16_t what;		/* enum fault_what: the effect */
	uint8_t direction;	/* enum fault_direction; 0: none */
	uint8_t opcode;		/* BTH opcode of the packet or message */
	uint32_t psn;
};

struct tap_ops {
	/* False: do not make the call; it fails with call->err. No lock is held. */
	bool (*enter)(struct tap_call *call);
	void (*leave)(struct tap_call *call);
	/*
	 * Returns 0, or the errno value with which the post fails. Under the lock of the QP or SRQ.
	 */
	int (*post)(const struct tap_post *post);
	/* Under the QP's or the SRQ's lock. */
	void (*complete)(struct tap_completion *c);
	/*
	 * False: do not send it, or ignore what was received. Under the QP's lock, if there is a
	 * QP.
	 */
	bool (*out)(struct tap_packet *p);
	bool (*in)(struct tap_packet *p);
	/* n requests from sq.next on. Under the QP's lock. */
	void (*direct)(struct vrb_qp *qp, unsigned int n);
	/* The engine's reasons (wq/note.h). Under the QP's lock. */
	void (*note)(struct vrb_qp *qp, const struct wq_note *note);
	/* Under the locks of the object; for a completion event under the CQ's. */
	void (*event)(const struct tap_event *e);
	/* False: do not send it, or ignore what was received. Received: under vrb.poll_lock. */
	bool (*mad)(const struct tap_mad *mad);
	/* Under the locks of the tap point. */
	void (*fault)(const struct tap_fault *f);
};

enum tap {
	TAP_FAULT,
	TAP_RECORD,
	TAPS
};

extern bool vrb_tapped;	/* atomic; never cleared */

extern bool vrb_tap_interfered;	/* atomic; TAP_FAULT is, or was, attached */

/* Atomic: what goes to another process is to go as packets, each whole, so that it can be lost. */
extern bool vrb_tap_whole;

/*
 * Attaches `ops`, which must stay valid; NULL members are not called. ops NULL, in tests: detaches.
 */
void vrb_tap_attach(enum tap tap, const struct tap_ops *ops);

/* Puts the tapped forms of posting and polling into a context's tables; atomic, set by verbs. */
extern void (*vrb_tap_table)(struct verbs_context *vctx);

/* The places; each is to be called only if tapped(). */
static inline bool tapped(void)
{
	return unlikely(load_relaxed(&vrb_tapped));
}

/* Something may refuse, change or drop: no shortcut that relies on what is sent to arrive. */
static inline bool tap_interferes(void)
{
	return unlikely(load_relaxed(&vrb_tap_interfered));
}

static inline bool tapped_whole(void)
{
	return tapped() && load_relaxed(&vrb_tap_whole);
}

bool vrb_tap_enter(struct tap_call *call);
void vrb_tap_leave(struct tap_call *call);
int vrb_tap_post(const struct tap_post *post);
/* Of requests that are posted all or none: all of them for one tap, then for the next. */
int vrb_tap_post_for(enum tap tap, const struct tap_post *post);
void vrb_tap_complete(struct tap_completion *c);
bool vrb_tap_out(struct tap_packet *p);
bool vrb_tap_in(struct tap_packet *p);
void vrb_tap_direct(struct vrb_qp *qp, unsigned int n);
void vrb_tap_note(struct vrb_qp *qp, const struct wq_note *note);
void vrb_tap_event(const struct tap_event *e);
bool vrb_tap_mad(const struct tap_mad *mad);
void vrb_tap_fault(const struct tap_fault *f);

#endif
