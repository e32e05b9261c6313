/* SPDX-License-Identifier: BSD-2-Clause */
/* The two kinds of port, for open.c; and what packet.c, packet_recv.c and packet_send.c share. */
#ifndef VRB_RAW_STATE_H
#define VRB_RAW_STATE_H

#include "raw/raw.h"

int raw_packet_open(const struct raw_interface *on, struct raw_port **out);
int raw_virtual_open(struct host *host, const struct raw_interface *on, struct raw_port **out);

enum {
	PACKET_EARLY,			/* descriptors of a packet_port */
	PACKET_RING,
	/* of the ring: holds the largest frame, also before segmentation */
	PACKET_BLOCK = 256 * 1024,
	PACKET_BATCH = 8,		/* packets read from the early socket at a time */
	PACKET_HEADROOM = 16,		/* for a tag that goes back */
};

/* Buffers for a batch. */
struct packet_batch {
	uint8_t control[PACKET_BATCH][128];
	uint8_t data[PACKET_BATCH][PACKET_HEADROOM + RAW_MAX_FRAME];
};

struct packet_port {
	struct raw_port port;
	int send_fd;
	uint64_t full_since;	/* atomic: the interface has taken no frame since, or 0 */
	uint32_t ifindex;
	uint8_t mac[6];
	bool loopback;
	enum raw_scope scope;	/* memberships held */
	uint8_t *cut;		/* room for a segment */

	/* The early socket. */
	struct packet_batch *early;
	bool streaming;		/* packets now go to the ring */
	unsigned int backlog;	/* packets read without finding the socket empty, */
	uint64_t backlog_since;	/* since then */
	unsigned int widest;	/* most frames that a packet of the last batch became */
	uint64_t early_until;	/* streaming: until this time it may still hold packets */

	/* The ring: blocks that the kernel fills and hands over in order. */
	uint8_t *ring;
	size_t ring_len;
	unsigned int blocks;
	unsigned int block;	/* that is read next or now */
	unsigned int left;	/* its unread packets */
	uint32_t next;		/* offset of the next one in it */
};

/* raw_ops */
bool packet_ready(const struct raw_port *p);
unsigned int packet_recv(struct raw_port *p, unsigned int most, uint64_t now, raw_frame_fn fn,
			 void *arg);
unsigned int packet_send(struct raw_port *p, struct raw_out *out, unsigned int n, uint64_t now,
			 enum raw_sent *why);

#endif
