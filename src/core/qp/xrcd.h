/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains. An XRC receive QP can use the XRC SRQs of its own domain. A domain is identified by
 * an inode: opening the same file on the same device gives handles of one domain, in all processes
 * of the host; docs/XRC.md.
 *
 * A domain's lock protects its lists; it ranks below qp->lock and above srq->lock.
 */
#ifndef VRB_CORE_QP_XRCD_H
#define VRB_CORE_QP_XRCD_H

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

/* Identifies a domain in all processes. */
struct xrc_key {
	uint64_t guid;		/* node GUID of the device */
	uint64_t dev, ino;
};

/* This process's part of a domain. */
struct xrc_domain {
	struct list node;	/* all domains of the process */
	unsigned int refs;	/* handles */
	bool has_inode;
	int pin;		/* descriptor that keeps the inode from being reused; -1: none */
	struct xrc_key key;
	struct lock lock;
	struct list srqs;	/* struct vrb_srq.node */
	struct list qps;	/* struct vrb_qp.xrc.node: receive QPs, not their handles */
};

struct vrb_xrcd {
	struct ibv_xrcd ibv;
	struct vrb_context *ctx;
	struct xrc_domain *domain;
	uint32_t users;		/* atomic: QPs and SRQs that use this handle */
};

static inline struct vrb_xrcd *to_vrb_xrcd(struct ibv_xrcd *x)
{
	return (struct vrb_xrcd *)x;
}

/*
 * Opens the domain of fd's inode; fd -1 creates a private domain. oflags: O_CREAT and O_EXCL, with
 * the meaning of open(2) for the domain. Returns 0, EBADF, ENOENT, EEXIST, EBUSY or ENOMEM.
 */
int vrb_xrcd_open(struct vrb_context *ctx, int fd, int oflags, struct vrb_xrcd **xrcd);
int vrb_xrcd_close(struct vrb_xrcd *xrcd);	/* EBUSY while QPs or SRQs use it */

/* In a forked child: forgets the parent's domains. */
void vrb_xrcd_forget_all(void);

/* Take and drop a reference on a handle. */
void vrb_xrcd_get(struct vrb_xrcd *xrcd);
void vrb_xrcd_put(struct vrb_xrcd *xrcd);

/* Adds an SRQ to its domain and takes a reference on the handle. */
void vrb_xrcd_add_srq(struct vrb_xrcd *xrcd, struct vrb_srq *srq);

/* Removes an SRQ from its domain. False if a QP holds one of its entries; it then stays. */
bool vrb_xrcd_del_srq(struct vrb_xrcd *xrcd, struct vrb_srq *srq);

/*
 * Removes the SRQs of a context that is closed with them inside: no new message may reach their
 * memory.
 */
void vrb_xrcd_remove_context(const struct vrb_context *ctx);

/*
 * Returns the domain with this key, or NULL if this process has no handle of it. Must hold
 * vrb.poll_lock, under which vrb_xrc_ops.domain_closed drops references to the domain.
 */
struct xrc_domain *vrb_xrcd_find_domain(const struct xrc_key *key);

/*
 * Returns the domain's SRQ with this number in this process, or NULL. Increments its users, which
 * the caller must decrement.
 */
struct vrb_srq *vrb_xrcd_find_srq(struct xrc_domain *d, uint32_t srqn);

/*
 * The PD number of the domain's SRQ with this number, 0 if this process has none. Incoming XRC
 * requests are checked against it.
 */
uint32_t vrb_xrcd_srq_pdn(struct xrc_domain *d, uint32_t srqn);

/* Does any SRQ of the domain complete to cq? */
bool vrb_xrcd_uses_cq(struct xrc_domain *d, const struct vrb_cq *cq);

void vrb_xrcd_add_qp(struct vrb_xrcd *xrcd, struct vrb_qp *qp);
void vrb_xrcd_del_qp(struct vrb_xrcd *xrcd, struct vrb_qp *qp);

/*
 * vrb_xrcd_open_qp() looks up the domain's receive QP with this number in this process and adds a
 * handle to it; NULL: there is none. vrb_xrcd_add_handle() adds a handle to a known QP.
 */
struct vrb_qp *vrb_xrcd_open_qp(struct vrb_xrcd *xrcd, uint32_t qpn, struct vrb_qp *handle);
void vrb_xrcd_add_handle(struct vrb_qp *qp, struct vrb_qp *handle);

/* From now on the creator's handle gets no events; the QP remains until vrb_xrcd_close_qp(). */
void vrb_xrcd_creator_closes(struct vrb_qp *qp);

/*
 * Removes a handle; the creator's handle is the QP itself. Returns true if it was the last in this
 * process; otherwise the QP may be gone on return. Must hold no lock.
 */
bool vrb_xrcd_close_qp(struct vrb_qp *qp, struct vrb_qp *handle);

/*
 * Removes the handles of a context that is closed with them inside. A QP of that context goes over
 * to another that has it open, or else leaves its domain. Must hold the locks of all rx queues and
 * qp->lock.
 */
void vrb_xrcd_context_closes(struct vrb_qp *qp, const struct vrb_context *ctx);

/* Raises an event at every handle in this process. Must hold qp->lock. */
void vrb_xrcd_handles_event(struct vrb_qp *qp, enum ibv_event_type type);

#endif
