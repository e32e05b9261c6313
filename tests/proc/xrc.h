/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC objects of one process, on top of rc.h. */
#ifndef TESTS_PROC_XRC_H
#define TESTS_PROC_XRC_H

#include <stdbool.h>

#include "rc.h"
#include "child.h"

enum {
	XRC_SLOT = 65536, /* bytes of a receive buffer */
	XRC_RECVS = 16,   /* receive buffers */
	XRC_SENDS = 128,
};

/* A device and the XRC objects on it. */
struct xrc {
	struct rc rc;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct ibv_cq *cq;	/* of the SRQ */
	struct ibv_qp *qp;	/* XRC_RECV or XRC_SEND */
	uint32_t srqn;
};

struct ibv_xrcd *xrc_open_domain(struct xrc *x, int fd, int oflags);

/* Opens the device and fd's domain, and creates an SRQ with its own CQ; posts no receives. */
void xrc_open(struct xrc *x, int fd, int oflags);
void xrc_close(struct xrc *x); /* destroys all objects that are not NULL */

/* Creates an SRQ of the domain on x->cq. */
void xrc_create_srq(struct xrc *x);

/*
 * The target and the initiator QP of a connection, in INIT. rc_connect() connects either: each
 * ignores the attributes of the other kind.
 */
struct ibv_qp *xrc_recv_qp(struct xrc *x);
struct ibv_qp *xrc_send_qp(struct xrc *x);

/* The i-th of XRC_RECVS buffers. */
char *xrc_buffer(struct xrc *x, unsigned int i);
void xrc_post(struct xrc *x, unsigned int i);

/* Posts a request to the SRQ; its data starts at src_off of the buffer. */
void xrc_send(struct xrc *x, enum ibv_wr_opcode opcode, uint32_t srqn, uint64_t src_off,
	      uint32_t len, const struct rc_addr *target, uint64_t wr_id, int flags);

struct ibv_wc xrc_wait(struct ibv_cq *cq);

#endif
