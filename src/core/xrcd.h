/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains: what XRC receive QPs and XRC SRQs must share to meet.  Tied to an inode within the process: opening the same
 * file twice gives two handles of one domain.
 *
 * The domain lists its SRQs and its receive QPs under its own lock, which is taken under a QP's and above an SRQ's.
 */
#ifndef VRB_CORE_XRCD_H
#define VRB_CORE_XRCD_H

#include <stdint.h>
#include <sys/types.h>

#include <infiniband/verbs.h>

#include "util/list.h"
#include "util/lock.h"

struct vrb_context;
struct vrb_device;
struct vrb_qp;
struct vrb_srq;

struct xrc_domain {
	struct list node;	/* all domains of the process that have an inode */
	unsigned int refs;
	struct vrb_device *dev;
	dev_t st_dev;
	ino_t st_ino;
	uint32_t number;	/* never 0 */
	struct lock lock;
	struct list srqs;	/* struct vrb_srq.node */
	struct list qps;	/* struct vrb_qp.xrc_node: receive QPs */
};

struct vrb_xrcd {
	struct ibv_xrcd ibv;
	struct vrb_context *ctx;
	struct xrc_domain *domain;
	uint32_t users;		/* atomic: QPs and SRQs created through this handle */
};

static inline struct vrb_xrcd *to_vrb_xrcd(struct ibv_xrcd *x)
{
	return (struct vrb_xrcd *)x;
}

/* fd -1: a domain of its own. Returns 0, EINVAL, EBADF, ENOENT, EEXIST, ENOMEM. */
int vrb_xrcd_open(struct vrb_context *ctx, int fd, int oflags, struct vrb_xrcd **xrcd);
int vrb_xrcd_close(struct vrb_xrcd *xrcd);	/* EBUSY while something uses it */

void vrb_xrcd_add_srq(struct vrb_xrcd *xrcd, struct vrb_srq *srq);
void vrb_xrcd_del_srq(struct vrb_xrcd *xrcd, struct vrb_srq *srq);
void vrb_xrcd_add_qp(struct vrb_xrcd *xrcd, struct vrb_qp *qp);
void vrb_xrcd_del_qp(struct vrb_xrcd *xrcd, struct vrb_qp *qp);

#endif
