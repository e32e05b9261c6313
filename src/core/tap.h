/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What sniffers see that no interface carries: the RoCE packets between neighbours, as the frames
 * they would be; on a virtual segment also those that go by the wire.
 *
 * A process with a sniffer listens at a socket in the run directory.  All processes of the user
 * look there for new ones every LOOK_MS while they have something to send; while there is a
 * listener, one-sided requests go by packets and payloads do not stay with their sender, so that
 * there is something to see.  Each packet is told once, by its sender.  A listener that is too slow
 * misses packets; it does not hold up anybody for longer than a millisecond.
 *
 * Locks: one of its own, a leaf.
 */
#ifndef VRB_CORE_TAP_H
#define VRB_CORE_TAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/atomic.h"
#include "util/compiler.h"
#include "util/net.h"

struct vrb_device;
struct vrb_qp;

/*
 * A sniffer of the device comes, and if this returned true, goes again.  False: there is less to
 * see, and a log line says why.  Must hold no lock.
 */
bool vrb_tap_listen(struct vrb_device *dev);
void vrb_tap_unlisten(struct vrb_device *dev);

/*
 * Gives the device's sniffers what has been told; true if there was anything. Must hold vrb.drive.
 */
bool vrb_tap_take(struct vrb_device *dev, uint64_t now);

extern unsigned int vrb_tap_listeners; /* atomic */
extern uint64_t vrb_tap_look_at;       /* atomic: when to look for new ones */
void vrb_tap_look(uint64_t now);

/* Does anybody listen? One load and a comparison if not. */
static inline bool vrb_tap_wanted(uint64_t now)
{
	if (unlikely(now >= load_relaxed(&vrb_tap_look_at)))
		vrb_tap_look(now);
	return unlikely(load_relaxed(&vrb_tap_listeners));
}

/*
 * Tells a packet without its ICRC, which leaves the QP's interface; wire: and not by shared memory.
 */
void vrb_tap_tell(struct vrb_qp *qp, const struct net_path *path, const uint8_t *packet, size_t len,
		  bool wire);

/* In a forked child. */
void vrb_tap_forget(void);

#endif
