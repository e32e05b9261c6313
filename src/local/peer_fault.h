/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why a queue pair's peer on this host does not answer: the host's table and the peer's segment
 * show what a packet to another host would not. Wrong numbers, and a QP that is not in RTR yet, are
 * the most usual mistakes.
 */
#ifndef VRB_LOCAL_PEER_FAULT_H
#define VRB_LOCAL_PEER_FAULT_H

#include <stdint.h>
#include <sys/types.h>

struct host;
struct local;
struct wq_qp;

enum local_fault_kind {
	LOCAL_FAULT_NONE,	/* none, for all that is known */
	LOCAL_FAULT_NOBODY,	/* no process has the number */
	LOCAL_FAULT_NO_QP,	/* its process publishes no such QP: none, or one in RESET */
	LOCAL_FAULT_TYPE,	/* value: enum ibv_qp_type; not that of this end */
	LOCAL_FAULT_STATE,	/* value: enum ibv_qp_state */
	LOCAL_FAULT_OTHER_QP,	/* value: the number to which it is connected */
	LOCAL_FAULT_ADDRESS,	/* it has another address, or is connected to another one */
};

struct local_fault {
	enum local_fault_kind kind;
	uint32_t value;
	pid_t pid;		/* of its process; unless it is NOBODY */
};

/* The QP's destination must be an address of this host. l: may be NULL. */
struct local_fault local_peer_fault(struct host *host, struct local *l, const struct wq_qp *wq);

#endif
