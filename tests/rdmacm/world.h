/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the tests of librdmacm: ids on channels, and pairs of ids that connect to each other
 * within the process over an address of the test's choice. Every error fails the test; no wait is
 * longer than WORLD_LIMIT_S seconds.
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

/* The call must return -1 with this errno. */
#define CHECK_FAILS(call, error)                                                                   \
	do {                                                                                       \
		errno = 0;                                                                         \
		CHECK_EQ((call), -1);                                                              \
		CHECK_EQ(errno, error);                                                            \
	} while (0)

struct sockaddr_storage world_addr(const char *text, uint16_t port);

/* Returns the next event, which must have this type and status; the caller acknowledges it. */
struct rdma_cm_event *world_event(struct rdma_event_channel *ch, enum rdma_cm_event_type type,
				  int status);

/* The same, and acknowledges the event. */
void world_expect(struct rdma_event_channel *ch, enum rdma_cm_event_type type);

/* Waits for an event without fetching it. */
void world_wait(struct rdma_event_channel *ch);

/* Checks that no event is pending. */
void world_no_event(struct rdma_event_channel *ch);

struct rdma_cm_id *world_id(struct rdma_event_channel *ch, enum rdma_port_space ps);

/* Listens on the address with any port. */
struct rdma_cm_id *world_listen(struct rdma_event_channel *ch, enum rdma_port_space ps,
				const char *address);

/* Returns an id with a route to the listener. */
struct rdma_cm_id *world_route(struct rdma_event_channel *ch, const struct rdma_cm_id *listener,
			       const char *address);

/* Creates a QP for a few messages, with CQs of its own. */
void world_qp(struct rdma_cm_id *id);

/* A connection of two ids, established, with QPs. */
struct pair {
	struct rdma_event_channel *ch[2]; /* active, passive */
	struct rdma_cm_id *listener;
	struct rdma_cm_id *id[2];
};

/* Connects up to the request: id[1] is the new id; the caller acknowledges the event. */
struct rdma_cm_event *pair_request(struct pair *p, enum rdma_port_space ps,
				   struct rdma_conn_param *param);
void pair_connect(struct pair *p, struct rdma_conn_param *param);
void pair_disconnect(struct pair *p);
void pair_destroy(struct pair *p);

#endif
