/* SPDX-License-Identifier: BSD-2-Clause */
/* The state of a UDP wire; private to udp.c, udp_send.c and udp_recv.c. */
#ifndef VRB_WIRE_UDP_STATE_H
#define VRB_WIRE_UDP_STATE_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "util/compiler.h"
#include "util/list.h"
#include "wire/wire.h"

enum { UDP_IPV4, UDP_IPV6, UDP_FAMILIES };

/* <linux/udp.h> clashes with <netinet/udp.h>, which lacks these on older systems. */
enum {
	OPT_UDP_SEGMENT = 103,
	OPT_UDP_GRO = 104,
};

enum {
	UDP_USUAL_CLASS = 2,	/* ECT(0): most packets' traffic class */
	UDP_RECV_CONTROL = 192,
	/* the longest message, which may contain many packets merged by the kernel */
	UDP_CELL = 65536,
	UDP_MESSAGES = 32,	/* received by one call */
	UDP_MERGE_FROM = 3,	/* packets of one call: from then on the kernel may merge them */
	/* number of receives from the busier family before the other one is tried */
	UDP_OTHER_EVERY = 8,
};

#ifndef IPV6_FLOWINFO
#define IPV6_FLOWINFO 11	/* <linux/in6.h>, which clashes with <netinet/in.h> */
#endif

union udp_sockaddr {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* A receive buffer's control data; its payload is at the same index of udp_wire.data. */
struct udp_cell {
	uint8_t control[UDP_RECV_CONTROL] __attribute__((aligned(sizeof(struct cmsghdr))));
	union udp_sockaddr from;
	struct iovec iov;
};

struct udp_wire {
	struct wire wire;
	int fd[UDP_FAMILIES];		/* -1: family not available */
	int usual_class[UDP_FAMILIES];	/* traffic class of the socket; -1: unknown */
	uint64_t group;			/* group that shares the port; 0: not shared */
	int claim;			/* -1: none */
	unsigned int number;		/* relay number; 0: none */
	/* after udp_take_port(), else -1: */
	int number_holder;		/* has the number's port, and nobody reads it */
	int idle;			/* in place of the socket of a family that is missing now */
	struct list twins;		/* mcast_twin.h */
	struct path_errors path_errors;		/* for this wire and those opened beside it */
	/* the kernel requires a lease on flow labels; atomic, never cleared */
	bool no_flow_label;

	/* State of the receiving thread. */
	uint64_t nonce;			/* nonce of the current probes; atomic, as is */
	int32_t position[UDP_FAMILIES];	/* the positions they found */
	unsigned int family;		/* family that last had packets, */
	unsigned int first;		/* and the family to try first, once */
	bool woken;			/* a descriptor was ready, perhaps only for an error */
	bool merges[UDP_FAMILIES];		/* UDP_GRO has been asked for */
	uint32_t overflow[UDP_FAMILIES];	/* last value of the kernel's counter */
	unsigned int turn;		/* counts calls; UDP_OTHER_EVERY */
	uint32_t got_bytes;		/* by the last call that got any */
	uint32_t buffer[UDP_FAMILIES];	/* size of the receive buffer; 0: not read yet */
	bool nearly_full;			/* so was the buffer before the last call */
	bool limited;			/* udp_admit(); atomic */
	uint32_t backlog[UDP_FAMILIES];	/* packets since a call that emptied the socket; atomic */
	struct udp_cell *cell;		/* UDP_MESSAGES of them */
	uint8_t (*data)[UDP_CELL];
	struct mmsghdr mm[UDP_MESSAGES];	/* mm[i] receives into cell[i] */

	/* Messages in mm[] not returned yet: next..got, the first from offset. */
	unsigned int got, next;
	struct udp_cut {
		struct net_path path;
		uint32_t offset, segment;
		uint16_t index;
	} cut;
};

static inline struct udp_wire *to_udp(struct wire *w)
{
	return container_of(w, struct udp_wire, wire);
}

unsigned int udp_send(struct wire *w, struct wire_pkt *pkts, unsigned int n);
unsigned int udp_recv(struct wire *w, struct wire_pkt *pkts, unsigned int n);
void udp_look(struct wire *w, int fd, bool readable);
void udp_recv_prepare(struct udp_wire *u);

#endif
