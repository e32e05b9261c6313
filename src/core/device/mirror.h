/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shows sniffers the RoCE packets that no interface carries: packets between processes of this
 * host, in the frames that a wire would carry; on a virtual segment also packets of the UDP wire.
 *
 * A process with a sniffer listens at a socket in the run directory. While it has packets to send,
 * each process of the user looks there for listeners every LOOK_MS. While there is a listener,
 * one-sided requests are sent as packets, and every packet contains its payload, so that sniffers
 * can see them. The sender mirrors each packet once. A slow listener misses packets and delays the
 * sender by at most one millisecond.
 *
 * Its own lock is a leaf.
 */
#ifndef VRB_CORE_DEVICE_MIRROR_H
#define VRB_CORE_DEVICE_MIRROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/atomic.h"
#include "util/compiler.h"
#include "util/net.h"

struct vrb_device;
struct vrb_port;

/* Delivers a mirrored frame to the device's sniffers. Called under vrb.poll_lock. */
typedef void (*vrb_mirror_deliver_fn)(struct vrb_device *dev, uint8_t *data, uint32_t len,
				      uint64_t now);

/*
 * Called for each sniffer; vrb_mirror_stop() only after a start that returned true. wire: also
 * mirror what the interface carries. On failure the sniffer sees less, and a warning says why. Must
 * hold no lock.
 */
bool vrb_mirror_start(struct vrb_device *dev, vrb_mirror_deliver_fn deliver, bool wire);
void vrb_mirror_stop(struct vrb_device *dev);

/*
 * Delivers pending mirrored frames to the sniffers; true if there were any. Must hold
 * vrb.poll_lock.
 */
bool vrb_mirror_take(struct vrb_device *dev, uint64_t now);

extern unsigned int vrb_mirror_listeners; /* atomic */
extern uint64_t vrb_mirror_scan_at;       /* atomic: when to look for new listeners */
void vrb_mirror_scan(uint64_t now);

/* Costs one load and one comparison if there is no listener. */
static inline bool vrb_mirror_enabled(uint64_t now)
{
	if (unlikely(now >= load_relaxed(&vrb_mirror_scan_at)))
		vrb_mirror_scan(now);
	return unlikely(load_relaxed(&vrb_mirror_listeners));
}

/*
 * Mirrors an outgoing packet; `packet` has no ICRC. wire: the packet leaves by the port's
 * interface, not by shared memory or the loopback interface.
 */
void vrb_mirror_packet(struct vrb_port *port, uint64_t now, const struct net_path *path,
		  const uint8_t *packet, size_t len, bool wire);

/* In a forked child. */
void vrb_mirror_forget(void);

#endif
