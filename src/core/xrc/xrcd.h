/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains: what XRC receive QPs and XRC SRQs must share to meet.  Tied to an inode: opening the same file on the same device gives
 * handles of one domain, in all processes of the host; docs/XRC.md.
 *
 * A domain's lock protects its lists; it is taken under a QP's lock and above an SRQ's.
 */
#ifndef VRB_CORE_XRC_XRCD_H
#define VRB_CORE_XRC_XRCD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <infiniband/verbs.h>

#include "util/list.h"
#include "util/lock.h"

struct vrb_context;
struct vrb_cq;
struct vrb_qp;
struct vrb_srq;

/* What a domain is the same by, in all processes. */
struct xrc_key {
	uint64_t guid;		/* of the device */
	uint64_t dev, ino;
};

/* This process's part of a domain. */
struct xrc_domain {
	struct list node;	/* all domains of the process */
	unsigned int refs;	/* handles */
	bool has_inode;
	int pin;		/* keeps the inode from being used anew; -1: none */
	struct xrc_key key;
	struct lock lock;
	struct list srqs;	/* struct vrb_srq.node */
	struct list qps;	/* struct vrb_qp.xrc_node: receive QPs, not their handles */
};

struct vrb_xrcd {
	struct ibv_xrcd ibv;
	struct vrb_context *ctx;
	struct xrc_domain *domain;
	uint32_t users;		/* atomic: QPs and SRQs of this handle */
};

static inline struct vrb_xrcd *to_vrb_xrcd(struct ibv_xrcd *x)
{
	return (struct vrb_xrcd *)x;
}

/*
 * fd -1: a domain of its own; oflags: O_CREAT, O_EXCL as in open(2), about the domain of the inode.
 * Returns 0, EINVAL, EBADF, ENOENT, EEXIST, ENOMEM.
 */
int vrb_xrcd_open(struct vrb_context *ctx, int fd, int oflags, struct vrb_xrcd **xrcd);
int vrb_xrcd_close(struct vrb_xrcd *xrcd);	/* EBUSY while something uses it */

/* In a forked child: the domains are the parent's. */
void vrb_xrcd_forget_all(void);

/* Somebody begins and ceases to use a handle. */
void vrb_xrcd_get(struct vrb_xrcd *xrcd);
void vrb_xrcd_put(struct vrb_xrcd *xrcd);

/* Lists an SRQ in its domain, with a reference on the handle. */
void vrb_xrcd_add_srq(struct vrb_xrcd *xrcd, struct vrb_srq *srq);

/* Takes it off the list; false, and it stays, while a QP holds an entry of it. */
bool vrb_xrcd_del_srq(struct vrb_xrcd *xrcd, struct vrb_srq *srq);

/* The domain of a key, NULL if this process has no handle of it. Must hold vrb.drive, under which vrb_deputy_forget_domain() ends it. */
struct xrc_domain *vrb_xrcd_find_domain(const struct xrc_key *key);

/*
 * The SRQ of a number, counted in its users; NULL if the domain has none in this process. The caller drops the
 * count.
 */
struct vrb_srq *vrb_xrcd_find_srq(struct xrc_domain *d, uint32_t srqn);

/*
 * The protection domain number of an SRQ, 0 if the domain has none of that number here: what an
 * incoming XRC request may touch.
 */
uint32_t vrb_xrcd_srq_pdn(struct xrc_domain *d, uint32_t srqn);

/* Does an SRQ of the domain raise its completions on cq? */
bool vrb_xrcd_uses_cq(struct xrc_domain *d, const struct vrb_cq *cq);

void vrb_xrcd_add_qp(struct vrb_xrcd *xrcd, struct vrb_qp *qp);
void vrb_xrcd_del_qp(struct vrb_xrcd *xrcd, struct vrb_qp *qp);

/* The receive QP of a number, with one more handle; NULL if the domain has none in this process. */
struct vrb_qp *vrb_xrcd_open_qp(struct vrb_xrcd *xrcd, uint32_t qpn, struct vrb_qp *handle);
void vrb_xrcd_add_handle(struct vrb_qp *qp, struct vrb_qp *handle);

/* Takes out one handle, the creator's being the QP itself; true if it was the last of this process. */
bool vrb_xrcd_close_qp(struct vrb_qp *qp, struct vrb_qp *handle);

/* Raises an event at every handle of this process. Must hold qp->lock. */
void vrb_xrcd_handles_event(struct vrb_qp *qp, enum ibv_event_type type);

#endif
