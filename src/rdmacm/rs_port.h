/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A queue pair of a datagram rsocket and its local address, with the memory that datagrams are sent
 * from and received into.
 *
 * Under rs->lock.
 */
#ifndef VRB_RDMACM_RS_PORT_H
#define VRB_RDMACM_RS_PORT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include <rdma/rdma_cma.h>

#include "rsocket/rs_header.h"
#include "util/list.h"

struct rsocket;

enum {
	RS_PORT_GRH = 40,
	RS_PORT_SLOT = 2048 + RS_UD_HEADER_MAX + RS_PORT_GRH,
	RS_PORT_OUT_SLOTS = 64,
	RS_PORT_RECEIVE = 1 << 16, /* flag in wr_id; the other bits are the slot */
};

struct rs_port {
	struct list node; /* rs_dgram.ports */
	struct rs_from self;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *events;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *memory; /* in_slots, then RS_PORT_OUT_SLOTS */
	uint32_t in_slots;
	uint32_t most; /* largest message, bytes */
	uint16_t free_slot[RS_PORT_OUT_SLOTS];
	unsigned int free_slots;
	bool armed;
	unsigned int unacked;
};

/*
 * Finds the port with the source address of packets to the peer in a list of them, or makes one.
 * events: an epoll that the descriptor of its completions is added to.  Returns 0 or an errno
 * value.
 */
int rs_port_towards(struct rsocket *rs, struct list *ports, int events,
		    const struct sockaddr_storage *to, struct rs_port **out);
void rs_port_free(struct rs_port *p);

/* Makes the slot free for a datagram.  Returns 0 or an errno value. */
int rs_port_post_receive(struct rs_port *p, uint32_t slot);

/* An address handle for a peer; NULL with errno. */
struct ibv_ah *rs_port_ah(const struct rs_port *port, const struct rs_from *at);

#endif
