/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The communication manager of one process (IBTA volume 1, chapter 12): it makes and ends connections, and
 * resolves services of datagrams (SIDR), by messages.  docs/CM.md has the state tables.
 *
 * The caller owns time, memory and the wire:
 *	1. cm_input() gives it one MAD;
 *	2. ops->send() is called with each MAD that it has to say;
 *	3. ops->event() is called with what a program has to know;
 *	4. cm_timeout() is called when cm_next_timeout() has passed.
 * It may be called in any order and from one thread at a time: the caller has a lock for it.  It never
 * sleeps, allocates, locks or reads a clock.  The callbacks run in the midst of a call: they must not call it
 * again; they take what they need along, and act afterwards.
 *
 * Memory.  A struct cm_conn is the caller's, from cm_conn_init() until ops->release() says that it is not
 * used any more; that is in cm_destroy(), or later at the end of the time in which late messages of the old
 * connection may come (timewait).
 *
 * Calls return 0, or EINVAL where the state does not allow them.
 */
#ifndef VRB_CM_CM_H
#define VRB_CM_CM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "cm/msg.h"
#include "util/list.h"
#include "util/net.h"
#include "util/time.h"

enum {
	CM_BUCKETS = 4096,
	CM_SOURCES = 256,
};

enum cm_state {
	CM_IDLE,		/* new, or over */
	CM_REQ_SENT,
	CM_MRA_REQ_RCVD,	/* the peer asked for patience */
	CM_REP_RCVD,		/* active: the program has to establish or reject */
	CM_REQ_RCVD,		/* passive: the program has to accept or reject */
	CM_REP_SENT,
	CM_MRA_REP_RCVD,
	CM_ESTABLISHED,
	CM_DREQ_SENT,
	CM_DREQ_RCVD,		/* the program has to disconnect */
	CM_TIMEWAIT,
	CM_SIDR_REQ_SENT,
	CM_SIDR_REQ_RCVD,	/* the program has to answer */
	CM_NUM_STATES
};

enum cm_event_type {
	/*
	 * A connection or request came in: told once ops->request() has given a conn for it.  msg: REQ or
	 * SIDR_REQ.
	 */
	CM_EV_REQUEST,
	CM_EV_REP,		/* active: accepted; msg: REP. The program moves its QP, then cm_establish() or cm_reject() */
	CM_EV_ESTABLISHED,	/* passive: RTU came; msg, or NULL after cm_notify() */
	CM_EV_REJECTED,		/* status: the reason; msg: REJ */
	CM_EV_UNREACHABLE,	/* no answer to REQ, REP or SIDR_REQ; status: -ETIMEDOUT */
	CM_EV_DISCONNECTED,	/* once. msg: DREQ (then cm_disconnect() answers it) or DREP; or none and status -ETIMEDOUT */
	CM_EV_TIMEWAIT_EXIT,	/* the QP number may be used again */
	CM_EV_SIDR_REP,		/* status: enum cm_sidr_status; msg: SIDR_REP */
	/*
	 * Passive, before the program has accepted: nothing is left of the request, since its sender has
	 * given it up (msg: REJ), or since too many are waiting.  An event of it that the program has not
	 * taken yet need not be told.
	 */
	CM_EV_GONE,
};

struct cm_event {
	enum cm_event_type type;
	int status;
	const struct cm_msg *msg;	/* for as long as the callback runs; or NULL */
};

struct cm_conn;

/* What becomes of a request that is new. */
enum cm_verdict {
	CM_TAKE,		/* *conn is for it */
	CM_REFUSE,		/* REJ with *reason; SIDR_REP with *reason as its status */
	CM_IGNORE,		/* no answer; the peer will try again */
};

struct cm_ops {
	/* A MAD leaves: path->src is ours, path->dst the peer's. */
	void (*send)(void *arg, const struct net_path *path, const uint8_t mad[CM_MAD_LEN]);

	void (*event)(void *arg, struct cm_conn *c, const struct cm_event *ev);

	/*
	 * A REQ or SIDR_REQ that is new came by `path` (path->src is the peer's): is there a listener, and a
	 * conn (cm_conn_init() was called) for it? CM_EV_REQUEST follows.
	 */
	enum cm_verdict (*request)(void *arg, const struct cm_msg *m, const struct net_path *path, struct cm_conn **conn,
				   unsigned int *reason);

	/* The memory is the caller's again. Only after cm_destroy(). */
	void (*release)(void *arg, struct cm_conn *c);

	/*
	 * What shall be sent for the conn if this process dies now; mad NULL: nothing any more.  May be NULL.
	 */
	void (*will)(void *arg, struct cm_conn *c, const struct net_path *path, const uint8_t *mad);
};

/* Node of a hash chain. */
struct cm_link {
	struct cm_link *next, **at;	/* at: NULL if not linked */
};

/*
 * One connection, or one exchange of SIDR.  Everything may be read by the caller and is written by the engine
 * only.
 */
struct cm_conn {
	enum cm_state state;
	uint32_t local_id, remote_id;	/* remote_id 0: not known yet */
	bool active;
	bool datagram;			/* SIDR */
	bool destroyed;			/* release() when timewait is over */
	bool disconnected;		/* told */

	/* To the peer; src is ours. */
	struct net_path path;

	uint64_t service_id;
	uint64_t ca_guid, peer_guid;
	uint64_t tid;
	uint32_t qpn, peer_qpn;
	uint32_t rq_psn, sq_psn;
	uint8_t transport, ext_transport;
	uint8_t mtu;			/* enum ibv_mtu */
	uint8_t retry_count, rnr_retry;	/* of our send queue */
	uint8_t responder_resources;	/* what we hold for the peer's READs and atomics */
	uint8_t initiator_depth;	/* what we may have outstanding */
	uint8_t ack_timeout;		/* of our QP; and how long late messages may come */
	uint8_t life_time;		/* packet life time of the path; active only */
	bool alternate_offered;		/* by a REQ; there is none here */

	/* Retries of REQ, REP, DREQ, SIDR_REQ, or the end of timewait. */
	uint64_t deadline;
	uint64_t interval;
	uint8_t retries_left, max_retries;
	uint8_t mad[CM_MAD_LEN];	/* which is sent again */

	/* Places in the tables of struct cm. */
	struct cm_link by_local, by_remote, by_qpn;
	struct list half_open, of_source;
	unsigned int source;
	struct cm_conn *child, *next, *prev;	/* heap of deadlines */
};

struct cm {
	const struct cm_ops *ops;
	void *arg;
	uint64_t seed;
	struct cm_link *by_local[CM_BUCKETS];	/* local id */
	struct cm_link *by_remote[CM_BUCKETS];	/* peer's address, CA GUID and id */
	struct cm_link *by_qpn[CM_BUCKETS];	/* peer's address, CA GUID and QP number: connected, or on the way there */
	struct cm_conn *deadlines;
	struct {
		struct list conns;		/* oldest first */
		unsigned int n;
	} source[CM_SOURCES];
	struct list half_open;			/* requests that no program has answered, oldest first */
	unsigned int num_half_open;
	unsigned int max_half_open, max_per_source;
	struct cm_stats {
		uint64_t received, sent;
		uint64_t garbage;	/* no message of ours, or one that contradicts itself */
		uint64_t unknown;	/* for a connection that does not exist, or not any more */
		uint64_t duplicates;	/* for one that is beyond it */
		uint64_t forged;	/* with the right ids, but from another address or for another QP */
		uint64_t refused;	/* requests that were answered by REJ or SIDR_REP at once */
		uint64_t ignored;	/* requests that were not answered */
		uint64_t dropped;	/* requests that gave way to others */
		uint64_t retried;
	} stats;
};

/* seed: random, nobody else's to know. `cm` may hold anything before. */
void cm_init(struct cm *cm, const struct cm_ops *ops, void *arg, uint64_t seed);

/*
 * How many requests may wait for a program's answer: in all, and of sources that a hash throws together.
 * Beyond it the oldest is dropped.
 */
void cm_set_limits(struct cm *cm, unsigned int half_open, unsigned int per_source);

/* local_id: unique on the host, not 0, and not in use here. */
void cm_conn_init(struct cm_conn *c, uint32_t local_id);

/* The conn of a local id, NULL if there is none. */
struct cm_conn *cm_find(struct cm *cm, uint32_t local_id);

/* A MAD came by `path`: path->src is the peer's, path->dst ours. */
void cm_input(struct cm *cm, const struct net_path *path, const uint8_t *mad, size_t len, uint64_t now);

/* VRB_NEVER: none. */
uint64_t cm_next_timeout(const struct cm *cm);
void cm_timeout(struct cm *cm, uint64_t now);

/*
 * Active.  What is to be told is in `req`, but for local_id and psn; `modifier` has the options of ECE.
 * path->src and path->dst are the addresses that MADs travel between; req->primary what the QPs shall use,
 * seen by us.  life_time: how long a packet may be on its way.
 */
int cm_connect(struct cm *cm, struct cm_conn *c, const struct cm_req *req, uint32_t modifier, const struct net_path *path,
	       uint8_t life_time, uint64_t now);

/* Active, after CM_EV_REP: the QP is in RTS. Sends RTU. `data` of up to CM_RTU_PRIVATE bytes, may be NULL. */
int cm_establish(struct cm *cm, struct cm_conn *c, const void *data, size_t len, uint64_t now);

/* Passive, after CM_EV_REQUEST: the QP is in RTS. Sends REP: all of `rep` but the ids, psn and failover. */
int cm_accept(struct cm *cm, struct cm_conn *c, const struct cm_rep *rep, uint32_t modifier, uint64_t now);

/* Passive: a packet of the peer has reached the QP. EISCONN if the RTU was there already. */
int cm_notify(struct cm *cm, struct cm_conn *c, uint64_t now);

/*
 * REJ in place of an answer to REQ or REP, or SIDR_REP with CM_SIDR_REJECTED. info: up to CM_REJ_INFO bytes,
 * data: up to CM_REJ_PRIVATE (CM_SIDR_REP_PRIVATE).
 */
int cm_reject(struct cm *cm, struct cm_conn *c, unsigned int reason, const void *info, size_t info_len, const void *data,
	      size_t len, uint64_t now);

/* DREQ, or after the peer's DREP. */
int cm_disconnect(struct cm *cm, struct cm_conn *c, const void *data, size_t len, uint64_t now);

/*
 * MRA of one's own accord: the peer shall wait for 4.096 us * 2^service_timeout more.  Without it a duplicate
 * of what the program has not answered yet is answered by an MRA of CM_SERVICE_TIMEOUT.
 */
int cm_ask_patience(struct cm *cm, struct cm_conn *c, uint8_t service_timeout);
enum { CM_SERVICE_TIMEOUT = 24 };

/* Datagrams. A peer that is to be asked for its QP. Like cm_connect(). */
int cm_sidr_connect(struct cm *cm, struct cm_conn *c, const struct cm_sidr_req *req, const struct net_path *path, uint64_t now);

/* And the answer: all of `rep` but the request id and the service id. */
int cm_sidr_answer(struct cm *cm, struct cm_conn *c, const struct cm_sidr_rep *rep, uint32_t modifier);

/*
 * The caller has no use for it any more.  Sends what the state demands: REJ, DREQ, DREP, SIDR_REP, or
 * nothing.  No event comes any more; release() comes, now or later.
 */
void cm_destroy(struct cm *cm, struct cm_conn *c, uint64_t now);

/*
 * What the QP's next state needs of what was agreed on, for attr->qp_state INIT, RTR or RTS: as
 * ibv_modify_qp() takes it, but for port_num, pkey_index and ah_attr.grh.sgid_index, which the caller knows.
 * RTR and RTS: EINVAL before REQ or REP has come.  On the passive side before cm_accept(), max_rd_atomic and
 * max_dest_rd_atomic are what the peer offered: the caller puts in what it is going to accept.
 */
int cm_qp_attr(const struct cm_conn *c, struct ibv_qp_attr *attr, int *mask);

/* IBTA 12.7.34: local ACK timeout that follows from a CA's ACK delay and the path's packet life time. */
uint8_t cm_ack_timeout(uint8_t ack_delay, uint8_t life_time);

const char *cm_state_name(enum cm_state state);

#endif
