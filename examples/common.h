/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What every example needs and none is about: options, a TCP connection between the two sides, and
 * the states of an RC queue pair up to "ready to send".
 *
 *	cc EXAMPLE.c common.c -libverbs		but cm_, rs_ and udp_*, which need no common.c
 *
 * Two copies of an example run: without a host name it is the server, with one the client.  They
 * first communicate over TCP, because a queue pair needs its peer's address before it can be used;
 * then RDMA takes over.
 *
 * When a call fails, the helpers print which one, and exit.
 */
#ifndef EXAMPLES_COMMON_H
#define EXAMPLES_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct options {
	const char *server; /* NULL: we are the server */
	const char *device; /* NULL: the first one */
	int tcp_port;
	int ib_port;
	int gid_index; /* -1: choose */
};

/* What a peer must know to reach our queue pair and our buffer. */
struct address {
	uint64_t addr; /* of the buffer */
	uint32_t rkey; /* of the buffer */
	uint32_t qpn;
	uint16_t lid;
	union ibv_gid gid;
};

/* One side: the device, its objects, and a registered buffer. */
struct side {
	struct options opt;
	int sock;
	struct ibv_context *ctx;
	struct ibv_port_attr port;
	union ibv_gid gid;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	char *buf;
	size_t size;
};

/* Prints what and the reason, and exits with status 1. */
void fail(const char *what) __attribute__((noreturn));

void parse_options(struct options *opt, int argc, char **argv);

static inline bool is_client(const struct side *s)
{
	return s->opt.server != NULL;
}

/* Steps 1 to 3 of a connection in order; rc_client_server.c walks through them, side_open() does
 * them all. */
void connect_tcp(struct side *s);
void open_device(struct side *s);
void create_objects(struct side *s, size_t size);

/* Everything above. */
void side_open(struct side *s, int argc, char **argv, size_t size);

/* An RC queue pair in INIT: receives may be posted to it. srq may be NULL. */
struct ibv_qp *create_qp(struct side *s, struct ibv_srq *srq);

/* Swaps addresses with the peer, moves the queue pair to RTR and RTS, and waits until the peer has
 * done the same. */
void connect_qp(struct side *s, struct ibv_qp *qp, struct address *peer);

void exchange_addresses(struct side *s, const struct ibv_qp *qp, struct address *peer);
void move_to_init(struct side *s, struct ibv_qp *qp);
void move_to_rtr(struct side *s, struct ibv_qp *qp, const struct address *peer);
void move_to_rts(struct ibv_qp *qp);

/* Returns when the peer has called it as well. */
void sync_sides(struct side *s);

/* A receive for the whole buffer. */
void post_receive(struct side *s, struct ibv_qp *qp, uint64_t wr_id);

/* A SEND, RDMA WRITE or RDMA READ of len bytes of the buffer; peer is not used by SEND. */
void post_request(struct side *s, struct ibv_qp *qp, enum ibv_wr_opcode opcode, size_t len,
		  const struct address *peer);

/* Polls until one completion has come, which must be a success. */
struct ibv_wc wait_completion(struct side *s);

void destroy_qp(struct ibv_qp *qp);
void side_close(struct side *s);

#endif
