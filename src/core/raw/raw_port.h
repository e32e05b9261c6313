/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw packets: the interface of a device and its raw packet QPs.
 *
 * The interface is open while the device has raw packet QPs or work queues, which are raw packet
 * QPs that only receive. The polling thread reads frames, the flow rules select QPs, and each QP
 * gets a copy:
 *
 *	raw_recv() -> vrb_flow_input() -> vrb_raw_deliver() for each QP
 *
 * All of this runs under vrb.poll_lock; vrb_raw_deliver() takes qp->lock. raw_tx.c sends under
 * qp->lock.
 */
#ifndef VRB_CORE_RAW_RAW_PORT_H
#define VRB_CORE_RAW_RAW_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "raw/raw.h"
#include "util/compiler.h"
#include "util/list.h"

struct vrb_device;
struct vrb_qp;

/* An open interface. */
struct vrb_raw_port {
	struct list node;	/* in vrb_raw_open_ports; vrb.poll_lock */
	struct vrb_device *dev;
	struct raw_port *port;
	struct list receivers;	/* QPs with a receive queue; vrb.poll_lock */
	uint64_t held_since;	/* since when frames wait for a receive, or 0; vrb.poll_lock */
	bool held_others;	/* and meanwhile others could have received; vrb.poll_lock */
	uint64_t paid_at;	/* when those waits will be half of the time; vrb.poll_lock */
	unsigned int users;	/* raw packet QPs; `opening` in raw_port.c */
};

/*
 * Opens the device's interface, or counts one more user. Returns 0, EPERM (without the privilege),
 * ENOMEM, ENODEV or another errno value. Must hold no lock.
 */
int vrb_raw_get(struct vrb_device *dev);
void vrb_raw_put(struct vrb_device *dev);

/* Adds a new raw packet QP to the port. Must hold vrb.poll_lock. */
void vrb_raw_add(struct vrb_qp *qp);

/*
 * The number of receives posted on a QP; UINT_MAX if its state lets it receive nothing. Takes
 * qp->lock. In raw_rx.c.
 */
unsigned int vrb_raw_posted(struct vrb_qp *qp);

/*
 * Copies a frame into the next receive of the QP and completes it. Drops and counts the frame if
 * there is none or the QP cannot receive. Must hold vrb.poll_lock. In raw_rx.c.
 */
void vrb_raw_deliver(struct vrb_qp *qp, const struct raw_frame *f, uint32_t flow_tag);

/*
 * Installs the filter and scope of the current rules; see raw_filter(). Before the first call no
 * frame is received. The interface must be open. Must hold vrb.poll_lock.
 */
int vrb_raw_steer(struct vrb_device *dev, const struct sock_filter *program, unsigned int len,
		  enum raw_scope scope);

/* True if the interface is a virtual segment. The device must have raw packet QPs. */
bool vrb_raw_is_virtual(struct vrb_device *dev);

/*
 * Reads one round of frames from all open interfaces; true if there were any. Must hold
 * vrb.poll_lock.
 */
bool vrb_raw_take(uint64_t now);

extern struct list vrb_raw_open_ports; /* vrb.poll_lock */

static inline bool vrb_raw_poll(uint64_t now)
{
	return unlikely(!list_empty(&vrb_raw_open_ports)) && vrb_raw_take(now);
}

/*
 * Frames lost in the kernel since the interface was opened, because nothing read them in time. Must
 * hold vrb.poll_lock.
 */
uint64_t vrb_raw_lost(const struct vrb_device *dev);

/* At the end of the process: closes what orphaned QPs left open. */
void vrb_raw_stop(void);

/* In a forked child. */
void vrb_raw_forget(void);

#endif
