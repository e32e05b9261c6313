/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw packets: where Ethernet frames meet queue pairs.
 *
 * A device's interface is open for frames while the device has raw packet QPs (or work queues, which
 * are raw packet QPs that only receive).  Whoever drives takes frames off it; the flow rules say whose
 * they are; each receiver gets a copy:
 *
 *	raw_recv() -> vrb_flow_input() -> vrb_raw_deliver() for each QP
 *
 * All of it under vrb.drive; vrb_raw_deliver() takes qp->lock.  raw_send.c sends, under qp->lock.
 */
#ifndef VRB_CORE_RAW_PORT_H
#define VRB_CORE_RAW_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "raw/raw.h"
#include "util/list.h"

struct vrb_device;
struct vrb_qp;

/* A device's interface, open for frames. */
struct vrb_raw_port {
	struct list node;	/* among those that are open; vrb.drive */
	struct vrb_device *dev;
	struct raw_port *port;
	struct list receivers;	/* QPs with a receive queue; vrb.drive */
	uint64_t held_since;	/* frames wait for a receive; 0: they do not; vrb.drive */
	unsigned int users;	/* its raw packet QPs; `opening` in raw_port.c */
};

/*
 * Opens the device's interface for frames, or counts one more user.  Returns 0, EPERM (no right to),
 * ENOMEM, ENODEV ...  Must hold no lock.
 */
int vrb_raw_get(struct vrb_device *dev);
void vrb_raw_put(struct vrb_device *dev);

/* A raw packet QP of the device has been made. Must hold vrb.drive. */
void vrb_raw_add(struct vrb_qp *qp);

/* How many receives a QP can be given frames for now. Takes qp->lock.  raw_recv.c */
unsigned int vrb_raw_posted(struct vrb_qp *qp);

/*
 * Copies a frame into the QP's next receive and completes it, or drops and counts it: no receive is
 * posted, or the QP is not in a state to receive.  Must hold vrb.drive.  raw_recv.c
 */
void vrb_raw_deliver(struct vrb_qp *qp, const struct raw_frame *f, uint32_t flow_tag);

/*
 * The rules have changed: what of the interface's traffic is worth being looked at; see raw_filter().
 * Nothing until this is called.  Must hold vrb.drive; the device's interface is open.
 */
int vrb_raw_steer(struct vrb_device *dev, const struct sock_filter *program, unsigned int len,
		  enum raw_scope scope);

/* Is its interface a virtual segment? The device has raw packet QPs. */
bool vrb_raw_is_virtual(struct vrb_device *dev);

/* A round of frames of all open interfaces; true if there were any. Must hold vrb.drive. */
bool vrb_raw_poll(uint64_t now);

/*
 * Frames that the device's open interface lost before anybody could take them, since it was opened.
 * Must hold vrb.drive.
 */
uint64_t vrb_raw_lost(const struct vrb_device *dev);

/* At the end of the process's life: closes what orphaned QPs left open. */
void vrb_raw_stop(void);

/* In a forked child. */
void vrb_raw_forget(void);

#endif
