/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the tests of librdmacm share: ids on channels, and pairs of them that connect to each other
 * within the process, over the address that the test chose.  Everything fails the test by itself;
 * nothing waits longer than WORLD_LIMIT_S seconds.
 */
#ifndef TESTS_RDMACM_WORLD_H
#define TESTS_RDMACM_WORLD_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "check.h"

enum {
	WORLD_LIMIT_S = 20,
	WORLD_TIMEOUT_MS = 2000,
};

#define LOOPBACK "127.0.0.1"

/* A call that fails with -1 and this errno. */
#define CHECK_FAILS(call, error)                                                                   \
	do {                                                                                       \
		errno = 0;                                                                         \
		CHECK_EQ((call), -1);                                                              \
		CHECK_EQ(errno, error);                                                            \
	} while (0)

struct sockaddr_storage world_addr(const char *text, uint16_t port);

/* The next event, which must be of this type and status; to be acknowledged by the caller. */
struct rdma_cm_event *world_event(struct rdma_event_channel *ch, enum rdma_cm_event_type type,
				  int status);

/* The same, acknowledged at once. */
void world_expect(struct rdma_event_channel *ch, enum rdma_cm_event_type type);

/* Waits for an event, and leaves it. */
void world_wait(struct rdma_event_channel *ch);

/* No event is waiting. */
void world_quiet(struct rdma_event_channel *ch);

struct rdma_cm_id *world_id(struct rdma_event_channel *ch, enum rdma_port_space ps);

/* Listens on the address, with any port. */
struct rdma_cm_id *world_listen(struct rdma_event_channel *ch, enum rdma_port_space ps,
				const char *address);

/* An id that has a route to the listener. */
struct rdma_cm_id *world_route(struct rdma_event_channel *ch, const struct rdma_cm_id *listener,
			       const char *address);

/* A QP for a few messages, with CQs of its own. */
void world_qp(struct rdma_cm_id *id);

/* A connection of two ids, established, with QPs. */
struct pair {
	struct rdma_event_channel *ch[2]; /* active, passive */
	struct rdma_cm_id *listener;
	struct rdma_cm_id *id[2];
};

/* Up to the request: id[1] is the new id; the event is the caller's. */
struct rdma_cm_event *pair_request(struct pair *p, enum rdma_port_space ps,
				   struct rdma_conn_param *param);
void pair_connect(struct pair *p, struct rdma_conn_param *param);
void pair_disconnect(struct pair *p);
void pair_destroy(struct pair *p);

#endif
