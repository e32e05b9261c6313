/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC between processes: objects on top of rc.h.
 */
#ifndef TESTS_PROC_XRC_H
#define TESTS_PROC_XRC_H

#include <stdbool.h>

#include "rc.h"
#include "xrc_child.h"

enum {
	XRC_SLOT = 65536,	/* bytes of a receive buffer */
	XRC_RECVS = 16,		/* receives that an SRQ is kept filled with */
};

/* A device, and what a process has of XRC on it. */
struct xrc {
	struct rc rc;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct ibv_cq *cq;	/* of the SRQ */
	struct ibv_qp *qp;	/* XRC_RECV or XRC_SEND */
	uint32_t srqn;
};

struct ibv_xrcd *xrc_domain(struct xrc *x, int fd, int oflags);

/* Device, domain of fd and an SRQ on a CQ of its own, without receives. */
void xrc_open(struct xrc *x, int fd, int oflags);
void xrc_close(struct xrc *x);	/* all that is not NULL */

/* An SRQ of the domain, with the CQ. */
void xrc_make_srq(struct xrc *x);

/*
 * The halves of a connection, in INIT. rc_connect() does for both: each ignores what is the
 * other's.
 */
struct ibv_qp *xrc_recv_qp(struct xrc *x);
struct ibv_qp *xrc_send_qp(struct xrc *x);

/* The i-th of XRC_RECVS buffers. */
char *xrc_buffer(struct xrc *x, unsigned int i);
void xrc_post(struct xrc *x, unsigned int i);

/* A request to the SRQ; src_off is where its bytes are in the buffer. */
void xrc_send(struct xrc *x, enum ibv_wr_opcode opcode, uint32_t srqn, uint64_t src_off,
	      uint32_t len, const struct rc_addr *target, uint64_t wr_id, int flags);

struct ibv_wc xrc_wait(struct ibv_cq *cq);

#endif
