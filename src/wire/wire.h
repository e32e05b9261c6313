/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How packets leave and arrive: one small table of operations per kind of wire.  A packet is what
 * is behind the UDP header, ICRC included; the wire neither looks into it nor changes it.
 *
 * Sending: any number of threads.  Receiving and closing: one thread at a time (core holds
 * vrb.drive). Takes no lock of its own.
 */
#ifndef VRB_WIRE_WIRE_H
#define VRB_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/net.h"

enum {
	WIRE_BURST = 64,	/* packets moved by one call at most */
	WIRE_FDS = 2,
	WIRE_MAX_PACKET = 9216,	/* longest packet that can be sent or received */
	WIRE_OVERHEAD_IPV4 = 20 + 8,
	WIRE_OVERHEAD_IPV6 = 40 + 8,
};

/*
 * Sending: path (src, dst, traffic_class, hop_limit, flow_label; ifindex for link-local and
 * multicast destinations), data and len are the caller's.  path.src_port and dst_port are not
 * choices: the packet leaves with wire_src_port() and wire_dst_port(), which is what the ICRC has
 * to be computed with; and with IPv4 identification 0 and DF.
 *
 * Receiving: all is filled.  data points into memory of the wire and holds until the next
 * wire_recv(); it may be written.
 */
struct wire_pkt {
	struct net_path path;
	uint8_t *data;
	uint32_t len;
	uint16_t ip_id;		/* received: IPv4 identification, if id_known */
	bool id_known;
};

/* Only grow. Read without a lock. */
struct wire_stats {
	uint64_t sent, received;
	uint64_t send_full;		/* bursts cut short because the socket was full */
	uint64_t send_too_long;		/* EMSGSIZE: above the interface's MTU */
	uint64_t send_refused;		/* no route, address gone, interface down, forbidden ... */
	uint64_t recv_errors;		/* ICMP errors and the like that were drained */
	uint64_t recv_truncated;
	uint64_t probes;		/* steering probes of this and other processes */
};

struct wire;

struct wire_ops {
	unsigned int (*send)(struct wire *w, const struct wire_pkt *pkts, unsigned int n);
	unsigned int (*recv)(struct wire *w, struct wire_pkt *pkts, unsigned int n);
	unsigned int (*fds)(const struct wire *w, int fds[WIRE_FDS]);
	int (*join)(struct wire *w, const struct net_addr *group, uint32_t ifindex);
	int (*leave)(struct wire *w, const struct net_addr *group, uint32_t ifindex);
	void (*close)(struct wire *w);
};

struct wire {
	const struct wire_ops *ops;
	uint16_t port;		/* UDP port of both ends, host order */
	bool ipv4, ipv6;	/* families it carries */
	struct wire_stats stats;
};

/*
 * Sends up to n packets (n > WIRE_BURST is cut) and returns how many are dealt with.  Fewer than n:
 * the socket is full, the rest was not sent.  Packets that the kernel refuses count as dealt with
 * and in stats: they are lost, as on a network.
 */
static inline unsigned int wire_send(struct wire *w, const struct wire_pkt *pkts, unsigned int n)
{
	return w->ops->send(w, pkts, n);
}

/* Receives up to n packets without waiting; 0 if there are none. */
static inline unsigned int wire_recv(struct wire *w, struct wire_pkt *pkts, unsigned int n)
{
	return w->ops->recv(w, pkts, n);
}

/* The descriptors that become readable when packets arrive. Returns how many. */
static inline unsigned int wire_fds(const struct wire *w, int fds[WIRE_FDS])
{
	return w->ops->fds(w, fds);
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

/* The longest packet that an interface of this MTU carries to dst. */
static inline uint32_t wire_room(uint32_t ifmtu, const struct net_addr *dst)
{
	uint32_t overhead = net_is_ipv4(dst) ? WIRE_OVERHEAD_IPV4 : WIRE_OVERHEAD_IPV6;
	uint32_t room = ifmtu > overhead ? ifmtu - overhead : 0;

	return room < WIRE_MAX_PACKET ? room : WIRE_MAX_PACKET;
}

#endif
