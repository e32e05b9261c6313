/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection ids: struct rdma_cm_id and its private part.
 *
 * Under the cma lock, except "pub", which is written by the program's calls on the id and during
 * delivery of its events.
 */
#ifndef VRB_RDMACM_ID_H
#define VRB_RDMACM_ID_H

#include <stdbool.h>
#include <stdint.h>

#include <rdma/rdma_cma.h>

#include "cm/cm.h"
#include "rdmacm/device.h"
#include "rdmacm/event.h"
#include "util/compiler.h"
#include "util/list.h"
#include "rdmacm/qp1.h"

enum id_state {
	ID_IDLE,
	ID_BOUND, /* bound to an address or a port */
	ID_LISTEN,
	ID_ADDR_QUERY,
	ID_ADDR_RESOLVED,
	ID_ROUTE_RESOLVED,
	ID_CONNECT, /* from rdma_connect(), or from the request, on */
	ID_DEAD,    /* its channel was destroyed or its device removed */
};

/* A conn of the engine.  It outlives its id until the end of timewait. */
struct conn {
	struct cm_conn cm;
	struct cma_id *id; /* NULL: the id was destroyed */
};

/* The path of an id that has a device. */
struct id_path {
	struct place place; /* place.dev NULL: no device; else a use of it is held */
	struct net_addr src, dst;
	uint8_t hop_limit;
};

struct id_options {
	uint8_t tos;
	uint8_t ack_timeout;
	bool tos_set, ack_timeout_set;
	bool reuse;
	bool only_family, only_family_set;
};

/* Arguments of rdma_create_ep() for rdma_get_request() and rdma_connect(). */
struct id_endpoint {
	struct ibv_qp_init_attr *qp_attr; /* malloc'ed, or NULL; the PD is the id's */
	void *connect; /* precedes the private data of rdma_connect(); malloc'ed, or NULL */
	size_t connect_len;
};

struct cma_id {
	struct rdma_cm_id pub;
	unsigned int generation;
	struct list node;      /* cma.ids */
	struct list on_listen; /* cma.listeners */
	enum id_state state;
	bool sync;            /* has a channel of its own */
	bool child;           /* from a request: holds no port, but see port_leave() */
	bool accepted;        /* rdma_accept() was called */
	bool hasty;           /* as id_set_hasty() has it */
	bool destroyed;       /* by a call that waits for acknowledgements */
	bool mute;            /* CONNECT_ERROR was delivered: no more events of the connection */
	unsigned int migrations; /* number of rdma_migrate_id() calls */
	/* delivered, unacknowledged events: since the last migration, and from before it */
	unsigned int unacked, unacked_before;
	unsigned int waiting; /* listeners: requests not fetched yet */
	unsigned int backlog;
	struct conn *conn;
	struct event *request; /* from a request: its event, until fetched */
	struct vrb_binding *binding;
	unsigned int binding_users; /* calls of port.c on it */
	struct vrb_service service;
	struct id_options opt;
	struct id_path path;
	struct ibv_sa_path_rec path_rec;              /* target of pub.route.path_rec */
	uint32_t qp_num; /* of the id's QP, or as passed by the program; 0: none */
	uint32_t qkey;                                /* datagrams; 0: not set yet */
	uint8_t initiator_depth, responder_resources; /* as passed to rdma_accept() */
	struct ibv_ece ece, peer_ece;
	struct list groups; /* struct group.node */
	struct id_endpoint ep;
	/* rdma_resolve_addr() in progress; under resolver.c's lock */
	struct resolve *resolve;
	struct lookup *lookup; /* rdma_resolve_addrinfo() */
};

static inline struct cma_id *to_id(struct rdma_cm_id *id)
{
	return container_of(id, struct cma_id, pub);
}

static inline struct channel *id_channel(const struct cma_id *id)
{
	return to_channel(id->pub.channel);
}

/* True for datagram services, which SIDR resolves. */
static inline bool id_is_datagram(const struct cma_id *id)
{
	return id->pub.qp_type == IBV_QPT_UD;
}

/*
 * Locks and checks the id for a call: not NULL, not inherited by fork.  Returns 0 with the lock
 * held, or an errno value without it.
 */
int id_enter(struct cma_id *id);

/*
 * The same for calls that queue events or move them: also EINVAL after the destruction of the id's
 * channel.
 */
int id_enter_channel(struct cma_id *id);

/* The type of the queue pairs of a port space, unless the program chooses one. */
enum ibv_qp_type id_type_of(enum rdma_port_space ps);

/*
 * Creates an id for the program; without a channel it is synchronous.  Must not hold the lock.
 * Returns 0 or an errno value.
 */
int id_create(struct channel *ch, void *context, enum rdma_port_space ps, enum ibv_qp_type type,
	      struct cma_id **out);

/* Creates an id on the channel, in no list yet.  NULL: no memory. */
struct cma_id *id_new(struct channel *ch, void *context, enum rdma_port_space ps,
		      enum ibv_qp_type type);

/* Adds it to cma.ids.  Under the lock. */
void id_add(struct cma_id *id);

/*
 * Ends rdma_resolve_addr(): raises its event, unless the id's device was removed.  Under the lock.
 */
void id_resolved(struct cma_id *id, int status);

/* Sets the device and the GIDs of id->path in "pub".  Not under the lock. */
void id_show_place(struct cma_id *id);

/* Sets the path record in "pub". */
void id_show_path(struct cma_id *id, const struct ibv_sa_path_rec *rec);

/*
 * Gives id->conn a new conn of the engine with a new communication id.  Under the lock.  Returns 0
 * or ENOMEM.
 */
int id_new_conn(struct cma_id *id);

/* Ends the id's conn, and sends the peer the message that ends it.  Under the lock. */
void id_end_conn(struct cma_id *id);

/*
 * What the DREQ that ends the id's connection has as private data.  The peer's event has it in
 * struct event only, since rdma_cm shows none.  Takes the lock.
 */
void id_set_dreq_data(struct cma_id *id, const void *data, size_t len);

/*
 * rdma_connect() gives up a host that has no RDMA, as ICMP tells, or another host that does not
 * answer for the first interval of its request: the program has another way.  Takes the lock.
 */
void id_set_hasty(struct cma_id *id);

/* Ends everything that needs no verb: conn, port, lookups.  Under the lock. */
void id_shut(struct cma_id *id);

/* The errno value of the failure that an event reports; 0: none. */
int id_event_errno(const struct rdma_cm_event *e);

/* Synchronous ids: acknowledges the last event. */
void id_ack_last(struct cma_id *id);

/*
 * Synchronous ids: acknowledges the last event and waits for the next; -1 with errno if that
 * reports a failure.  Other ids: returns 0 immediately.
 */
int id_wait(struct cma_id *id);

/*
 * The same for a call that holds the lock and has just raised the event, which then needs no system
 * call.  Unlocks.
 */
int id_unlock_and_wait(struct cma_id *id);

/* Destroys the id of a request that was not delivered.  Under the lock. */
void id_discard(struct cma_id *id);

#endif
