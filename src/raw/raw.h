/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends and receives whole Ethernet frames of one network interface.
 *
 *	packet.c	AF_PACKET, which needs CAP_NET_RAW: everything the interface carries
 *	virtual.c	a virtual Ethernet segment between the processes of one user that use the
 *			same interface, for ordinary users: Unix datagrams in the run directory
 *	open.c		which of the two it is
 *	cut.c		long frames into those that a wire would carry
 *
 * A frame begins with the destination MAC address and ends before the FCS; a VLAN tag is in its
 * place.  Segments that the kernel carries as one (GSO) are split, and missing checksums filled in,
 * so a frame is as on a wire.
 *
 * Sending: any number of threads.  Everything else: one at a time (core holds vrb.poll_lock).
 */
#ifndef VRB_RAW_RAW_H
#define VRB_RAW_RAW_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "run/config.h"

struct host;

enum {
	RAW_HEADER_LEN = 14,	/* destination, source, EtherType: nothing shorter is a frame */
	RAW_TAG_LEN = 4,
	RAW_MAX_FRAME = 65536 + RAW_HEADER_LEN + RAW_TAG_LEN,
	RAW_BURST = 64,		/* frames moved by one call at most */
	RAW_FDS = 2,
	RAW_PIECES = 34,	/* pieces of memory that a sent frame is gathered from, at most */
};

/* A received frame. Until the callback returns it is valid, and the callback may change it. */
struct raw_frame {
	uint8_t *data;
	uint32_t len;
	uint64_t time;		/* when it passed the interface, on the monotonic clock */
	bool sum_ok;		/* the checksum of TCP or UDP is right; false: not checked */
	/*
	 * Sent by this interface and not looped back: for sniffers only. Frames that the host sends
	 * to the interface's own address or to a group count as received, as on a NIC.
	 */
	bool outgoing;
};

/* A frame to be sent. */
struct raw_out {
	struct iovec piece[RAW_PIECES];
	unsigned int pieces;
	uint32_t len;		/* of all pieces together */
	/*
	 * Work for an interface that offloads.  With sum_start the checksum at sum_start +
	 * sum_offset, which holds that of the pseudo header, is to be completed from sum_start to
	 * the end; with mss the frame is several TCP segments, whose headers end at hdr_len.
	 */
	uint16_t sum_start, sum_offset;
	uint16_t mss, hdr_len;
	bool ipv6;
	/* members of the virtual segment that have it; initially 0 */
	uint32_t progress;
};

enum raw_sent {
	RAW_FULL,	/* no room now: try again */
	RAW_TOO_LONG,	/* longer than the interface's MTU allows */
	RAW_BAD_MEMORY,	/* a piece is not mapped */
};

/* Which frames the interface receives besides those for its own address and broadcasts. */
enum raw_scope {
	RAW_OWN,	/* none */
	RAW_GROUPS,	/* all multicast */
	RAW_PROMISC,	/* all that pass by */
	RAW_SNIFF,	/* and all that the host itself sends */
};

/* Only grow. Read without a lock. */
struct raw_stats {
	uint64_t sent, received;
	/* dropped by the kernel, because frames were not read fast enough */
	uint64_t lost;
	uint64_t refused;	/* could not leave: interface down, member not reading, ... */
};

struct raw_port;

typedef void (*raw_frame_fn)(void *arg, const struct raw_frame *f);

struct raw_ops {
	bool (*ready)(const struct raw_port *p);
	unsigned int (*recv)(struct raw_port *p, unsigned int most, uint64_t now, raw_frame_fn fn,
			     void *arg);
	unsigned int (*send)(struct raw_port *p, struct raw_out *out, unsigned int n, uint64_t now,
			     enum raw_sent *why);
	int (*filter)(struct raw_port *p, const struct sock_filter *program, unsigned int len,
		      enum raw_scope scope);
	void (*count)(struct raw_port *p);
	void (*close)(struct raw_port *p, bool ours);
};

struct raw_port {
	const struct raw_ops *ops;
	int fd[RAW_FDS];	/* readable when frames are pending; -1: unused */
	bool offloads;		/* it completes checksums and segments TCP */
	bool is_virtual;	/* no real interface: frames of others on it are not received */
	struct raw_stats stats;
};

struct raw_interface {
	const char *name;
	uint32_t index;
	unsigned int ordinal;	/* distinguishes devices of one interface in one process */
	bool loopback;
	uint8_t mac[6];
};

/*
 * Opens an interface.  Returns 0; EPERM without the right to; EOPNOTSUPP if it is not Ethernet;
 * ENOMEM; ENODEV; or another errno value.  It takes no frames before the first raw_filter().
 */
int raw_open(struct host *host, const struct raw_interface *on, enum config_raw how,
	     struct raw_port **out);

/* ours: false in a forked child, which must not change what the parent uses. */
static inline void raw_close(struct raw_port *p, bool ours)
{
	p->ops->close(p, ours);
}

/* True if frames may be pending; avoids a system call where it can. */
static inline bool raw_ready(const struct raw_port *p)
{
	return p->ops->ready(p);
}

/*
 * Up to about `most` frames, oldest first; returns how many.  0: there are none.  now: of the
 * monotonic clock.
 */
static inline unsigned int raw_recv(struct raw_port *p, unsigned int most, uint64_t now,
				    raw_frame_fn fn, void *arg)
{
	return p->ops->recv(p, most, now, fn, arg);
}

/*
 * Sends up to RAW_BURST frames in order. Returns the number done; if less than n, *why is the
 * reason for the next.
 */
static inline unsigned int raw_send(struct raw_port *p, struct raw_out *out, unsigned int n,
				    uint64_t now, enum raw_sent *why)
{
	return p->ops->send(p, out, n, now, why);
}

/*
 * Receives frames of this scope for which the program returns non-zero; program NULL: all; len 0
 * with a program: none. The program sees frames as in the kernel, with VLAN tags removed. The
 * virtual segment receives all or nothing. Returns 0, or an errno value and leaves the filter
 * unchanged.
 */
static inline int raw_filter(struct raw_port *p, const struct sock_filter *program,
			     unsigned int len, enum raw_scope scope)
{
	return p->ops->filter(p, program, len, scope);
}

/*
 * Takes the error that a descriptor has when the interface went down, and keeps until it is taken:
 * it is readable, but no frames are pending.
 */
void raw_take_error(const struct raw_port *p);

/* Brings stats.lost up to date. */
static inline void raw_count(struct raw_port *p)
{
	p->ops->count(p);
}

#endif
