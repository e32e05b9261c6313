/* SPDX-License-Identifier: BSD-2-Clause */
/* The two kinds of port, for open.c; and what packet.c and packet_send.c share. */
#ifndef VRB_RAW_STATE_H
#define VRB_RAW_STATE_H

#include "raw/raw.h"

int raw_packet_open(const struct raw_interface *on, struct raw_port **out);
int raw_virtual_open(struct host *host, const struct raw_interface *on, struct raw_port **out);

struct packet_port {
	struct raw_port port;	/* port.fd receives */
	int send_fd;
	uint32_t ifindex;
	uint8_t mac[6];
	bool loopback;
	enum raw_scope scope;	/* memberships held */

	/* The ring: blocks that the kernel fills and gives to us, one after the other. */
	uint8_t *ring;
	size_t ring_len;
	unsigned int blocks;
	unsigned int block;	/* that is read next or now */
	unsigned int left;	/* packets of it that are not read yet */
	uint32_t next;		/* offset of the next one in it */
	uint8_t *cut;		/* room for a segment */
};

unsigned int packet_send(struct raw_port *p, struct raw_out *out, unsigned int n, uint64_t now,
			 enum raw_sent *why);

#endif
