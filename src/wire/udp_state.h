/* SPDX-License-Identifier: BSD-2-Clause */
/* What a UDP wire consists of; shared by udp.c, udp_send.c and udp_recv.c only. */
#ifndef VRB_WIRE_UDP_STATE_H
#define VRB_WIRE_UDP_STATE_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "util/compiler.h"
#include "wire/wire.h"

enum { UDP_IPV4, UDP_IPV6, UDP_FAMILIES };

enum { UDP_RECV_CONTROL = 192 };

#ifndef IPV6_FLOWINFO
#define IPV6_FLOWINFO 11	/* <linux/in6.h>, which clashes with <netinet/in.h> */
#endif

union udp_sockaddr {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* One place to receive into. */
struct udp_cell {
	uint8_t data[WIRE_MAX_PACKET];
	uint8_t control[UDP_RECV_CONTROL] __attribute__((aligned(sizeof(struct cmsghdr))));
	union udp_sockaddr from;
	struct iovec iov;
};

struct udp_wire {
	struct wire wire;
	int fd[UDP_FAMILIES];		/* -1: not carried */
	bool no_flow_label;		/* the kernel wants a lease on them; atomic, only ever set */

	/* The receiving thread's. */
	uint64_t nonce;			/* of the probes under way */
	int32_t position[UDP_FAMILIES];
	unsigned int turn;		/* family to be asked first next time */
	struct udp_cell *cell;		/* WIRE_BURST of them */
	struct mmsghdr mm[WIRE_BURST];	/* mm[i] receives into cell[i] */
	unsigned int dirty;		/* so many of mm[] the kernel has written to */
};

static inline struct udp_wire *to_udp(struct wire *w)
{
	return container_of(w, struct udp_wire, wire);
}

unsigned int udp_send(struct wire *w, const struct wire_pkt *pkts, unsigned int n);
unsigned int udp_recv(struct wire *w, struct wire_pkt *pkts, unsigned int n);
void udp_recv_prepare(struct udp_wire *u);

#endif
