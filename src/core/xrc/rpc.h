/* SPDX-License-Identifier: BSD-2-Clause */
/* Remote calls between the processes of an XRC domain; docs/XRC.md lists them. */
#ifndef VRB_CORE_XRC_RPC_H
#define VRB_CORE_XRC_RPC_H

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "core/xrc/msg.h"

enum xrc_call {
	XRC_CALL_OPEN = 1,	/* to the home: struct xrc_key -> state (uint32_t) */
	XRC_CALL_CLOSE,		/* to the home */
	XRC_CALL_MODIFY,	/* to the home: struct xrc_modify -> state (uint32_t) */
	XRC_CALL_QUERY,		/* to the home -> struct ibv_qp_attr */
	/* from the home to an opener: struct xrc_import, state */
	XRC_CALL_IMPORT,
	XRC_CALL_ADD,		/* to the new home: struct xrc_others */
};

struct xrc_modify {
	struct ibv_qp_attr attr;
	int32_t mask;
};

/* What a new home needs: a remote responder's configuration and more. */
struct xrc_import {
	struct xrc_config config;
	struct ibv_qp_attr attr;
	uint32_t qkey, rq_psn, sq_psn;
	uint8_t max_rd_atomic, timeout, retry_cnt, rnr_retry, alt_timeout;
};

/* The other openers of a QP that moves. */
enum { XRC_OTHERS = 32 };
struct xrc_others {
	uint32_t n;
	int32_t slot[XRC_OTHERS];
	uint64_t incarnation[XRC_OTHERS];
};

_Static_assert(sizeof(struct xrc_import) <= sizeof(((struct xrc_msg *)0)->body) &&
	       sizeof(struct xrc_others) <= sizeof(((struct xrc_msg *)0)->body), "bodies fit");

/*
 * Calls another process and waits for the reply. Returns the result of the call, and if that is 0,
 * fills in reply_len bytes. ESRCH: the process has exited; ETIMEDOUT: no reply within 5 seconds, of
 * XRC_CALL_IMPORT 60; time in which the process is stopped does not count. Must hold no lock.
 */
int xrc_rpc(int slot, enum xrc_call call, uint32_t qpn, const void *body, size_t body_len,
	    const void *state, size_t state_len, void *reply, size_t reply_len);

/* Completes the call that a reply belongs to. Must hold vrb.poll_lock. */
void xrc_take_reply(const struct xrc_msg *m);

/* In a forked child: the calls of other threads do not exist there. */
void xrc_rpc_forget(void);

#endif
