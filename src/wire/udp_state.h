/* SPDX-License-Identifier: BSD-2-Clause */
/* What a UDP wire consists of; shared by udp.c, udp_send.c and udp_recv.c only. */
#ifndef VRB_WIRE_UDP_STATE_H
#define VRB_WIRE_UDP_STATE_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "util/compiler.h"
#include "util/list.h"
#include "wire/wire.h"

enum { UDP_IPV4, UDP_IPV6, UDP_FAMILIES };

/* <linux/udp.h> clashes with <netinet/udp.h>, which lacks these in older systems. */
enum {
	OPT_UDP_SEGMENT = 103,
	OPT_UDP_GRO = 104,
};

enum {
	UDP_RECV_CONTROL = 192,
	/* the longest message, of many packets where the kernel merges them */
	UDP_CELL = 65536,
	UDP_MESSAGES = 32,	/* received by one call */
	UDP_OTHER_EVERY = 8,	/* so many times the busier family is asked, then the other one */
};

#ifndef IPV6_FLOWINFO
#define IPV6_FLOWINFO 11	/* <linux/in6.h>, which clashes with <netinet/in.h> */
#endif

union udp_sockaddr {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* One place to receive into; its data are at the same index of udp_wire.data. */
struct udp_cell {
	uint8_t control[UDP_RECV_CONTROL] __attribute__((aligned(sizeof(struct cmsghdr))));
	union udp_sockaddr from;
	struct iovec iov;
};

struct udp_wire {
	struct wire wire;
	int fd[UDP_FAMILIES];		/* -1: not carried */
	uint64_t group;			/* that shares the port; 0: it is not shared */
	int claim;			/* -1: none */
	struct list twins;		/* mcast_twin.h */
	struct path_errors path_errors;		/* of this one and those beside it */
	/* the kernel wants a lease on them; atomic, only ever set */
	bool no_flow_label;

	/* The receiving thread's. */
	uint64_t nonce;			/* of the probes under way; atomic, as is */
	int32_t position[UDP_FAMILIES];	/* what they found */
	unsigned int family;		/* that had packets last, */
	unsigned int first;		/* and that is to be asked first, once */
	bool woken;			/* a descriptor was ready, perhaps for an error only */
	uint32_t overflow[UDP_FAMILIES];	/* the kernel's counter, as seen last */
	unsigned int turn;		/* counts calls; UDP_OTHER_EVERY */
	uint32_t got_bytes;		/* by the last call that got any */
	bool nearly_full;			/* so was the buffer before the last call */
	unsigned int keep;		/* of ADMIT_ALL, udp_admit(); atomic */
	struct udp_cell *cell;		/* UDP_MESSAGES of them */
	uint8_t (*data)[UDP_CELL];
	struct mmsghdr mm[UDP_MESSAGES];	/* mm[i] receives into cell[i] */

	/* What mm[] holds that has not been returned yet: messages next..got, the first from
	 * offset. */
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
void udp_readable(struct wire *w, int fd);
void udp_recv_prepare(struct udp_wire *u);

#endif
