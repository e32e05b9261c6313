/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Questions among the processes of an XRC domain: one asks, another answers, like a call. docs/XRC.md lists them.
 */
#ifndef VRB_CORE_XRC_XRCASK_H
#define VRB_CORE_XRC_XRCASK_H

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "core/xrc/xrcmsg.h"

enum xrc_call {
	XRC_CALL_OPEN = 1,	/* to the home: struct xrc_key -> state (uint32_t) */
	XRC_CALL_CLOSE,		/* to the home */
	XRC_CALL_MODIFY,	/* to the home: struct xrc_modify -> state (uint32_t) */
	XRC_CALL_QUERY,		/* to the home -> struct ibv_qp_attr */
	XRC_CALL_ADOPT,		/* to a process that has it open: struct xrc_adoption, state */
	XRC_CALL_ADD,		/* to the new home: struct xrc_others */
};

struct xrc_modify {
	struct ibv_qp_attr attr;
	int32_t mask;
};

/* What a new home must know beyond a deputy. */
struct xrc_adoption {
	struct xrc_config config;
	struct ibv_qp_attr attr;
	uint32_t qkey, rq_psn, sq_psn;
	uint8_t max_rd_atomic, timeout, retry_cnt, rnr_retry, alt_timeout;
};

/* More processes that have the QP open. */
enum { XRC_OTHERS = 32 };
struct xrc_others {
	uint32_t n;
	int32_t slot[XRC_OTHERS];
	uint64_t incarnation[XRC_OTHERS];
};

_Static_assert(sizeof(struct xrc_adoption) <= sizeof(((struct xrc_msg *)0)->body) &&
	       sizeof(struct xrc_others) <= sizeof(((struct xrc_msg *)0)->body), "bodies fit");

/*
 * Asks and waits for the answer: what the other side returned, with reply_len bytes if that is 0; ESRCH if its process is gone, ETIMEDOUT if it
 * does not answer within seconds.  Must hold no lock.
 */
int xrc_ask(int slot, enum xrc_call call, uint32_t qpn, const void *body, size_t body_len,
	    const void *state, size_t state_len, void *reply, size_t reply_len);

/* For xrc_receive(): a question is answered, an answer wakes who asked. Must hold vrb.drive. */
void xrc_ask_receive(const struct xrc_msg *m, uint64_t now);

#endif
