/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends and receives packets: one small table of operations per kind of wire. A packet is the UDP
 * payload, including the ICRC; the wire neither reads nor changes it.
 *
 * Sending: any number of threads. Receiving and closing: one thread at a time (core holds the lock
 * of its RX queue). Takes no lock but that of path_errors.h.
 */
#ifndef VRB_WIRE_WIRE_H
#define VRB_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/atomic.h"
#include "util/net.h"
#include "wire/path_errors.h"

enum {
	WIRE_BURST = 64,	/* most packets per call */
	WIRE_RUN_BYTES = 65535 - 40 - 8,	/* total length of the packets in one run */
	WIRE_FDS = 2,
	WIRE_MAX_PACKET = 9216,	/* longest packet that can be sent or received */
};

/*
 * Sending: the caller sets path (src, dst, traffic_class, hop_limit, flow_label; ifindex for
 * link-local and multicast destinations), data and len. path.src_port and dst_port are ignored: the
 * packet leaves with wire_src_port() and wire_dst_port(), for which the ICRC must be computed, and
 * with DF.
 *
 * Consecutive packets of a burst to the same destination may form a run, which the kernel receives
 * as one message. Conditions: wire.runs is set, path and len are equal (the last may be shorter),
 * and the total is at most WIRE_RUN_BYTES. ip_id then counts from 0 within the run, because it is
 * the IPv4 identification of each packet; all other packets have 0.
 *
 * Receiving: all members are set. data points into memory of the wire and is valid until the next
 * wire_recv(); the caller may write to it. The kernel does not show the identification of a packet,
 * so ip_id is a guess unless id_known.
 */
struct wire_pkt {
	struct net_path path;
	uint8_t *data;
	uint32_t len;
	uint16_t ip_id;
	bool id_known;
	bool alone;	/* set by wire_send(): the run must be split */
	bool soft_flush; /* the sender's: which ICRC it has (roce/icrc.h) */
};

/* Monotonic. Read without a lock. */
struct wire_stats {
	uint64_t sent, received;
	uint64_t send_full;		/* bursts truncated because the socket was full */
	uint64_t send_too_long;		/* EMSGSIZE: above the interface's MTU */
	uint64_t send_refused;		/* no route, address gone, interface down, forbidden ... */
	uint64_t send_runs, recv_runs;	/* messages with several packets */
	uint64_t recv_errors;		/* pending ICMP errors that were read */
	uint64_t recv_truncated;
	uint64_t recv_overflow;		/* found the receive buffer full, or had a wrong checksum */
	uint64_t recv_not_admitted;	/* connection requests that udp_admit() dropped */
	/* messages marked (ECN) because the buffer was nearly full */
	uint64_t recv_marked;
	uint64_t probes;		/* steering probes of this and other processes */
};

struct wire;

struct wire_ops {
	unsigned int (*send)(struct wire *w, struct wire_pkt *pkts, unsigned int n);
	unsigned int (*recv)(struct wire *w, struct wire_pkt *pkts, unsigned int n);
	unsigned int (*fds)(const struct wire *w, int fds[WIRE_FDS]);
	void (*look)(struct wire *w, int fd, bool readable);
	int (*join)(struct wire *w, const struct net_addr *group, uint32_t ifindex);
	int (*leave)(struct wire *w, const struct net_addr *group, uint32_t ifindex);
	void (*close)(struct wire *w);
};

struct wire {
	const struct wire_ops *ops;
	uint16_t port;		/* UDP destination port of both ends, host order */
	uint16_t src_port;	/* the same, unless relayed; atomic */
	/* others hold the port and relay packets to this process (host/relay.h); atomic */
	bool relayed;
	bool ipv4, ipv6;	/* address families in use */
	bool runs;		/* supports runs; atomic, may be cleared later */
	bool held;		/* packets were received that wire_recv() has not returned yet */
	struct wire_stats stats;
	struct path_errors *path_errors;	/* shared by all wires of the process */
};

/*
 * Sends up to n packets (at most WIRE_BURST) and returns how many were handled. Fewer than n: the
 * socket is full, and the rest was not sent; or, if the first of the rest is marked `alone`, its
 * run cannot be sent as one message: each packet needs identification 0 and another ICRC. Packets
 * that the kernel refuses count as handled, and in stats: they are lost, as on a network.
 */
static inline unsigned int wire_send(struct wire *w, struct wire_pkt *pkts, unsigned int n)
{
	return w->ops->send(w, pkts, n);
}

/*
 * Receives up to n packets without waiting. 0: no packet, perhaps only of the family tried last; a
 * few calls try all families. While wire.held is set, there are more packets, for which no
 * descriptor polls readable.
 */
static inline unsigned int wire_recv(struct wire *w, struct wire_pkt *pkts, unsigned int n)
{
	return w->ops->recv(w, pkts, n);
}

/* Stores the descriptors that become readable when packets arrive. Returns their number. */
static inline unsigned int wire_fds(const struct wire *w, int fds[WIRE_FDS])
{
	return w->ops->fds(w, fds);
}

/*
 * The next wire_recv() starts with this descriptor. readable: poll(2) has reported it, so if it has
 * no packet, it has an error, which is read then.
 */
static inline void wire_look(struct wire *w, int fd, bool readable)
{
	w->ops->look(w, fd, readable);
}

/*
 * Joins and leaves a multicast group on an interface. The caller counts: one join per group and
 * interface, then one leave. Return 0 or an errno value (ENODEV, EAFNOSUPPORT, ENOBUFS: too many
 * groups, ...).
 */
static inline int wire_join(struct wire *w, const struct net_addr *group, uint32_t ifindex)
{
	return w->ops->join(w, group, ifindex);
}

static inline int wire_leave(struct wire *w, const struct net_addr *group, uint32_t ifindex)
{
	return w->ops->leave(w, group, ifindex);
}

/*
 * Frees the wire. In a forked child, closes only the child's descriptors; the parent's wire
 * continues.
 */
static inline void wire_close(struct wire *w)
{
	w->ops->close(w);
}

static inline uint16_t wire_src_port(const struct wire *w)
{
	return load_relaxed(&w->src_port);
}

static inline uint16_t wire_dst_port(const struct wire *w)
{
	return w->port;
}

#endif
