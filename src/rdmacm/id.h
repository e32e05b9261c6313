/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection ids: what a program sees of one, and what goes with it.
 *
 * Under the cma lock, but for "pub", which is written by calls of the program on that id and where
 * its events are delivered.
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
	ID_BOUND, /* has an address or a port */
	ID_LISTEN,
	ID_ADDR_QUERY,
	ID_ADDR_RESOLVED,
	ID_ROUTE_RESOLVED,
	ID_CONNECT, /* from rdma_connect(), or the request, on */
	ID_DEAD,    /* its channel or its device has gone */
};

/* An exchange of the engine.  It outlives its id for the time in which late messages may come. */
struct conn {
	struct cm_conn cm;
	struct cma_id *id; /* NULL: the id was destroyed */
};

/* Where an id's packets go, once it has a device. */
struct id_path {
	struct place place; /* place.dev NULL: no device yet; else counted */
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

/* What rdma_create_ep() keeps for rdma_get_request() and rdma_connect(). */
struct id_endpoint {
	struct ibv_pd *pd;
	struct ibv_qp_init_attr *qp_attr; /* malloc'ed, or NULL */
	void *connect;                    /* goes before private data; malloc'ed, or NULL */
	size_t connect_len;
};

struct cma_id {
	struct rdma_cm_id pub;
	unsigned int generation;
	struct list node;      /* cma.ids */
	struct list on_listen; /* cma.listeners */
	enum id_state state;
	bool sync;            /* its channel is its own */
	bool child;           /* made by a request: holds no port */
	bool accepted;        /* by rdma_accept() */
	bool mute;            /* told CONNECT_ERROR: nothing more comes of the connection */
	unsigned int unacked; /* events that were delivered */
	unsigned int waiting; /* listeners: requests that nobody fetched */
	unsigned int backlog;
	struct conn *conn;
	struct event *request; /* made by a request: its event, until it is fetched */
	struct vrb_binding *binding;
	struct vrb_service service;
	struct id_options opt;
	struct id_path path;
	struct ibv_sa_path_rec path_rec;              /* what pub.route.path_rec points to */
	uint32_t qp_num;                              /* of the program's QP */
	uint32_t qkey;                                /* datagrams; 0: not chosen yet */
	uint8_t initiator_depth, responder_resources; /* as rdma_accept() was told */
	struct ibv_ece ece, peer_ece;
	struct list groups; /* struct group.node */
	struct id_endpoint ep;
	struct resolve
		*resolve; /* rdma_resolve_addr() that waits for a neighbour; resolver.c's lock */
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

/* Datagrams: resolved by SIDR. */
static inline bool id_is_datagram(const struct cma_id *id)
{
	return id->pub.qp_type == IBV_QPT_UD;
}

/*
 * Takes the lock and finds the id good for a call: not NULL, not inherited by fork.  Returns 0 with
 * the lock held, or an errno value without it.
 */
int id_enter(struct cma_id *id);

/*
 * A new id as a program wants it; without a channel it is synchronous.  Must not hold the lock.
 * Returns 0 or an errno value.
 */
int id_create(struct channel *ch, void *context, enum rdma_port_space ps, enum ibv_qp_type type,
	      struct cma_id **out);

/* A new id on the channel; it is in no list yet.  NULL: no memory. */
struct cma_id *id_new(struct channel *ch, void *context, enum rdma_port_space ps,
		      enum ibv_qp_type type);

/* Lists it.  Under the lock. */
void id_add(struct cma_id *id);

/* Shows the program the device and the GIDs in id->path; not under the lock. */
void id_show_place(struct cma_id *id);

/* And the path; not under the lock. */
void id_show_path(struct cma_id *id, const struct ibv_sa_path_rec *rec);

/*
 * A new exchange in id->conn, whose engine state has a communication id of its own.  Under the
 * lock.  0 or ENOMEM.
 */
int id_new_conn(struct cma_id *id);

/* Ends what the engine has of it; the peer is told.  Under the lock. */
void id_end_conn(struct cma_id *id);

/* Ends everything that can end without a verb: exchange, port, groups, queries.  Under the lock. */
void id_shut(struct cma_id *id);

/*
 * Synchronous ids: waits for the id's next event, after acknowledging the one before.  Others: 0 at
 * once.  -1 with errno if it says that something failed.
 */
int id_wait(struct cma_id *id);

/* Destroys a request's id that no program has seen.  Under the lock. */
void id_discard(struct cma_id *id);

#endif
