/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How packets leave and arrive: one small table of operations per kind of wire.  A packet is what
 * is behind the UDP header, ICRC included; the wire neither looks into it nor changes it.
 *
 * Sending: any number of threads.  Receiving and closing: one thread at a time (core holds
 * the lock of the receiver whose it is). Takes no lock of its own.
 */
#ifndef VRB_WIRE_WIRE_H
#define VRB_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/net.h"
#include "wire/path_errors.h"

enum {
	WIRE_BURST = 64,	/* packets moved by one call at most */
	WIRE_RUN_BYTES = 65535 - 40 - 8,	/* of one run, all its packets together */
	WIRE_FDS = 2,
	WIRE_MAX_PACKET = 9216,	/* longest packet that can be sent or received */
	WIRE_OVERHEAD_IPV4 = 20 + 8,
	WIRE_OVERHEAD_IPV6 = 40 + 8,
};

/*
 * Sending: path (src, dst, traffic_class, hop_limit, flow_label; ifindex for link-local and
 * multicast destinations), data and len are the caller's.  path.src_port and dst_port are not
 * choices: the packet leaves with wire_src_port() and wire_dst_port(), which is what the ICRC has
 * to be computed with; and with DF.
 *
 * Packets of one burst that follow each other to the same place may form a run, which the kernel is
 * given as one: where wire.runs is set, path and len are equal (the last may be shorter), and no
 * more than WIRE_RUN_BYTES come together.  ip_id then counts from 0 within the run, for it is the
 * IPv4 identification with which each packet leaves; everything else leaves with 0.
 *
 * Receiving: all is filled.  data points into memory of the wire and holds until the next
 * wire_recv(); it may be written.  The kernel does not show the identification of a packet; ip_id
 * is a guess unless id_known.
 */
struct wire_pkt {
	struct net_path path;
	uint8_t *data;
	uint32_t len;
	uint16_t ip_id;
	bool id_known;
	bool alone;	/* set by wire_send(): the run has to be given up */
};

/* Only grow. Read without a lock. */
struct wire_stats {
	uint64_t sent, received;
	uint64_t send_full;		/* bursts cut short because the socket was full */
	uint64_t send_too_long;		/* EMSGSIZE: above the interface's MTU */
	uint64_t send_refused;		/* no route, address gone, interface down, forbidden ... */
	uint64_t send_runs, recv_runs;	/* several packets in one message */
	uint64_t recv_errors;		/* ICMP errors that were drained */
	uint64_t recv_truncated;
	uint64_t recv_overflow;		/* packets that found the socket's receive buffer full */
	uint64_t recv_not_admitted;	/* connection requests that udp_admit() kept out */
	/* messages that came from a buffer nearly full, and say so now (ECN) */
	uint64_t recv_marked;
	uint64_t probes;		/* steering probes of this and other processes */
};

struct wire;

struct wire_ops {
	unsigned int (*send)(struct wire *w, struct wire_pkt *pkts, unsigned int n);
	unsigned int (*recv)(struct wire *w, struct wire_pkt *pkts, unsigned int n);
	unsigned int (*fds)(const struct wire *w, int fds[WIRE_FDS]);
	void (*readable)(struct wire *w, int fd);
	int (*join)(struct wire *w, const struct net_addr *group, uint32_t ifindex);
	int (*leave)(struct wire *w, const struct net_addr *group, uint32_t ifindex);
	void (*close)(struct wire *w);
};

struct wire {
	const struct wire_ops *ops;
	uint16_t port;		/* UDP port of both ends, host order */
	bool ipv4, ipv6;	/* families it carries */
	bool runs;		/* it takes runs; atomic, may be withdrawn */
	bool held;		/* packets were received that wire_recv() has not returned yet */
	struct wire_stats stats;
	struct path_errors *path_errors;	/* of all wires of the process */
};

/*
 * Sends up to n packets (n > WIRE_BURST is cut) and returns how many are dealt with.  Fewer than n:
 * the socket is full, the rest was not sent; or, where the first of the rest is marked `alone`, its
 * run cannot be sent as one: its packets need identification 0 each and another ICRC.  Packets that
 * the kernel refuses count as dealt with and in stats: they are lost, as on a network.
 */
static inline unsigned int wire_send(struct wire *w, struct wire_pkt *pkts, unsigned int n)
{
	return w->ops->send(w, pkts, n);
}

/*
 * Receives up to n packets without waiting.  0: there are none, but perhaps of the family that was
 * asked last; over a few calls all families are.  While wire.held is set there are more that no
 * descriptor tells of.
 */
static inline unsigned int wire_recv(struct wire *w, struct wire_pkt *pkts, unsigned int n)
{
	return w->ops->recv(w, pkts, n);
}

/* The descriptors that become readable when packets arrive. Returns how many. */
static inline unsigned int wire_fds(const struct wire *w, int fds[WIRE_FDS])
{
	return w->ops->fds(w, fds);
}

/* The descriptor was seen to be readable: the next wire_recv() begins with it. */
static inline void wire_readable(struct wire *w, int fd)
{
	w->ops->readable(w, fd);
}

/*
 * Receives what is sent to a multicast group on an interface.  The caller counts: one join per
 * group and interface, then one leave. Return 0 or an errno value (ENODEV, EAFNOSUPPORT, ENOBUFS:
 * too many groups ...).
 */
static inline int wire_join(struct wire *w, const struct net_addr *group, uint32_t ifindex)
{
	return w->ops->join(w, group, ifindex);
}

static inline int wire_leave(struct wire *w, const struct net_addr *group, uint32_t ifindex)
{
	return w->ops->leave(w, group, ifindex);
}

/* Frees it. In a forked child it closes the child's descriptors only, the parent's wire goes on. */
static inline void wire_close(struct wire *w)
{
	w->ops->close(w);
}

static inline uint16_t wire_src_port(const struct wire *w)
{
	return w->port;
}

static inline uint16_t wire_dst_port(const struct wire *w)
{
	return w->port;
}

#endif
