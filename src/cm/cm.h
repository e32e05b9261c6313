/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The communication manager of one process (IBTA volume 1, chapter 12).  It sets up and ends
 * connections and resolves datagram services (SIDR) by exchanging MADs.  docs/CM.md has the state
 * table.
 *
 * The caller owns time, memory and the wire:
 *	1. cm_input() takes one received MAD;
 *	2. ops->send() is called with each MAD to send;
 *	3. ops->event() is called with each event for the program;
 *	4. cm_timeout() is to be called once cm_next_timeout() has passed.
 * The engine never sleeps, allocates, locks or reads a clock.  Calls may come in any order, but the
 * caller serializes them with a lock of its own.  Callbacks run within a call and must not call the
 * engine; the caller queues what they report and acts on it afterwards.
 *
 * Memory: the caller owns each struct cm_conn, and keeps it from cm_conn_init() until
 * ops->release(). That is called from cm_destroy(), or at the end of timewait, when no late packet
 * of the connection can arrive any more.
 *
 * Calls return 0, or EINVAL if the state does not allow the call.
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
	CM_FEW_REQUESTS = 32,
	CM_ANSWER_SETS = 16,
	CM_ANSWER_WAYS = 8,
	CM_DREQ_DATA = 32,
};

enum cm_state {
	CM_IDLE,		/* new, or ended */
	CM_REQ_SENT,
	CM_MRA_REQ_RCVD,	/* the peer needs more time (MRA) */
	CM_REP_RCVD,		/* active: the program must establish or reject */
	CM_REQ_RCVD,		/* passive: the program must accept or reject */
	CM_REP_SENT,
	CM_MRA_REP_RCVD,
	CM_ESTABLISHED,
	CM_DREQ_SENT,
	CM_DREQ_RCVD,		/* the program must disconnect */
	CM_TIMEWAIT,
	CM_SIDR_REQ_SENT,
	CM_SIDR_REQ_RCVD,	/* the program must answer */
	CM_NUM_STATES
};

enum cm_event_type {
	/* A REQ or SIDR_REQ arrived and ops->request() took it.  msg: the request. */
	CM_EV_REQUEST,
	/*
	 * Active: the peer accepted.  msg: REP.  The program moves its QP to RTS, then calls
	 * cm_establish() or cm_reject().
	 */
	CM_EV_REP,
	CM_EV_ESTABLISHED,	/* passive: RTU arrived; msg: RTU, NULL after cm_notify() */
	CM_EV_REJECTED,		/* status: the reason; msg: REJ */
	CM_EV_UNREACHABLE,	/* no answer to REQ, REP or SIDR_REQ; status: -ETIMEDOUT */
	/*
	 * Raised once.  msg: DREQ, to be answered by cm_disconnect(); or DREP; or NULL, and status
	 * is -ETIMEDOUT.
	 */
	CM_EV_DISCONNECTED,
	CM_EV_TIMEWAIT_EXIT,	/* timewait is over; the QP number may be reused */
	CM_EV_SIDR_REP,		/* status: enum cm_sidr_status; msg: SIDR_REP */
	/*
	 * Passive, before the program has answered: the request has ended, because the peer gave up
	 * (msg: REJ), or because too many requests are waiting or the peer's QP has sent another
	 * (msg: NULL).  The caller may drop an event of this request that the program has not
	 * fetched.
	 */
	CM_EV_GONE,
};

struct cm_event {
	enum cm_event_type type;
	int status;
	const struct cm_msg *msg;	/* valid during the callback only; may be NULL */
};

struct cm_conn;

/* What to do with a new request. */
enum cm_verdict {
	CM_TAKE,		/* continue with *conn */
	CM_REFUSE,		/* send REJ with *reason, or SIDR_REP with *reason as status */
	CM_IGNORE,		/* do not answer; the peer will retry */
};

struct cm_ops {
	/*
	 * Sends a MAD.  path->src is our address, path->dst the peer's.  May call cm_give_up().
	 */
	void (*send)(void *arg, const struct net_path *path, const uint8_t mad[CM_MAD_LEN]);

	void (*event)(void *arg, struct cm_conn *c, const struct cm_event *ev);

	/*
	 * A new REQ or SIDR_REQ arrived; path->src is the peer's address.  If there is a listener
	 * for it, sets *conn to a conn after cm_conn_init().  CM_EV_REQUEST follows.
	 */
	enum cm_verdict (*request)(void *arg, const struct cm_msg *m, const struct net_path *path,
				   struct cm_conn **conn, unsigned int *reason);

	/* The engine no longer uses the conn.  Called only after cm_destroy(). */
	void (*release)(void *arg, struct cm_conn *c);

	/*
	 * Stores the message to send for the conn if this process dies; mad NULL: none.  May be
	 * NULL.
	 */
	void (*exit_mad)(void *arg, struct cm_conn *c, const struct net_path *path,
			 const uint8_t *mad);

	/*
	 * A REQ or SIDR_REQ was not answered in time, and is repeated; c->early_left: not for the
	 * last time before its first interval is over.  False: CM_EV_UNREACHABLE follows instead.
	 * May be NULL: true.
	 */
	bool (*late)(void *arg, struct cm_conn *c);
};

/* Node of a hash chain. */
struct cm_link {
	struct cm_link *next, **at;	/* at: NULL if not linked */
};

/*
 * One connection, or one SIDR exchange.  The caller may read all members; only the engine writes
 * them.
 */
struct cm_conn {
	enum cm_state state;
	uint32_t local_id, remote_id;	/* remote_id 0: still unknown */
	bool active;
	bool datagram;			/* SIDR */
	bool destroyed;			/* release() when timewait is over */
	bool disconnected;		/* CM_EV_DISCONNECTED was raised */

	/* src is our address, dst the peer's. */
	struct net_path path;

	uint64_t service_id;
	uint64_t ca_guid, peer_guid;
	uint64_t tid;
	uint32_t qpn, peer_qpn;
	uint32_t rq_psn, sq_psn;
	uint8_t transport, ext_transport;
	uint8_t mtu;			/* enum ibv_mtu */
	uint8_t retry_count, rnr_retry;	/* of our send queue */
	uint8_t responder_resources;	/* READs and atomics of the peer that our QP can hold */
	uint8_t initiator_depth;	/* READs and atomics that our QP may have outstanding */
	uint8_t ack_timeout;		/* of our QP; also the length of timewait */
	uint8_t life_time;		/* packet life time of the path; active only */
	bool alternate_offered;		/* in the REQ; alternate paths are not supported */
	uint8_t dreq_data[CM_DREQ_DATA];	/* cm_set_dreq_data(); else 0 */

	/* Next retry of REQ, REP, DREQ or SIDR_REQ, or the end of timewait; ns. */
	uint64_t deadline;
	uint64_t interval;
	uint64_t first_sent;		/* when that message was; or when the request came */
	uint8_t early_left;		/* repetitions before the first interval is over */
	uint8_t retries_left, max_retries;
	uint8_t mad[CM_MAD_LEN];	/* the message to retry */

	/* Links in the tables of struct cm. */
	struct cm_link by_local, by_remote, by_qpn;
	struct list half_open, of_source;
	unsigned int source;
	struct cm_conn *child, *next, *prev;	/* in the heap of deadlines */
};

/* A SIDR_REP, or the rejection of a REQ, that was sent. */
struct cm_answer {
	uint64_t until;			/* then the request is not repeated any more */
	uint64_t service_id, tid;
	uint64_t guid;			/* of a REQ: the peer's CA GUID */
	uint32_t id;			/* the peer's; 0: none */
	struct net_path path;
	uint8_t mad[CM_MAD_LEN];
};

struct cm_answers {
	struct cm_answer answer[CM_ANSWER_WAYS];
	unsigned int next;		/* the oldest, which a new one replaces */
};

struct cm {
	const struct cm_ops *ops;
	void *arg;
	uint64_t seed;
	struct cm_link *by_local[CM_BUCKETS];	/* key: local id */
	struct cm_link *by_remote[CM_BUCKETS];	/* key: peer's address, CA GUID and id */
	/* Key: peer's address, CA GUID and QP number.  Connections, established or being set up. */
	struct cm_link *by_qpn[CM_BUCKETS];
	struct cm_conn *deadlines;
	bool in_vain;				/* cm_give_up() was called while a MAD was sent */
	struct {
		struct list conns;		/* oldest first */
		unsigned int n;
	} source[CM_SOURCES];
	struct list half_open; /* requests that no program has answered, oldest first */
	unsigned int num_half_open;
	unsigned int max_half_open, max_per_source;
	struct cm_answers answers[CM_ANSWER_SETS];	/* by a hash of id and transaction */
	struct cm_stats {
		uint64_t received, sent;
		uint64_t garbage;	/* not a valid CM message */
		uint64_t unknown;	/* for a connection that does not exist */
		uint64_t duplicates;	/* not expected in the connection's state */
		uint64_t forged;	/* right ids, but wrong address or QP number */
		uint64_t refused;	/* requests answered immediately with REJ or SIDR_REP */
		uint64_t ignored;	/* requests not answered */
		uint64_t dropped;	/* unanswered requests dropped to make room for others */
		uint64_t retried;
	} stats;
};

/* In ops->send: nobody will answer this MAD; it counts as repeated and not answered. */
static inline void cm_give_up(struct cm *cm)
{
	cm->in_vain = true;
}

/*
 * seed: random and secret, so that peers cannot cause hash collisions or predict PSNs.  `cm` need
 * not be initialized.
 */
void cm_init(struct cm *cm, const struct cm_ops *ops, void *arg, uint64_t seed);

/*
 * Limits of requests that wait for a program's answer: in total, and per source.  Sources are
 * grouped by hash (CM_SOURCES groups), and a group shares one limit.  When a limit is reached the
 * oldest request is dropped.
 */
void cm_set_limits(struct cm *cm, unsigned int half_open, unsigned int per_source);

/*
 * For a limit of the caller's own, in cm_ops.request: drops the oldest waiting request that it lets
 * go, of the source with most of them, if that has more than twice as many as `source` would.
 * False: none was dropped, and the new request should be ignored.
 */
bool cm_make_way(struct cm *cm, const struct net_addr *source,
		 bool (*may_go)(const struct cm_conn *c, void *arg), void *arg);

/*
 * How many requests of its source wait besides this one; 0 while few wait in all.  A caller that
 * answers requests in this order gives each source its turn in a flood.
 */
unsigned int cm_requests_before(const struct cm *cm, const struct cm_conn *c);

/* local_id: not 0, and unique on the host. */
void cm_conn_init(struct cm_conn *c, uint32_t local_id);

/* Returns the conn with this local id, or NULL. */
struct cm_conn *cm_find(struct cm *cm, uint32_t local_id);

/* Processes a received MAD.  path->src is the peer's address, path->dst ours. */
void cm_input(struct cm *cm, const struct net_path *path, const uint8_t *mad, size_t len,
	      uint64_t now);

/* In ns; VRB_NEVER if nothing is pending. */
uint64_t cm_next_timeout(const struct cm *cm);
void cm_timeout(struct cm *cm, uint64_t now);

/*
 * Active side: sends REQ.  The engine sets local_id and psn in `req`; `modifier` contains the ECE
 * options.  `path` is the path of MADs, req->primary the path of the QPs, both from our point of
 * view.  life_time: packet lifetime, 4.096 us * 2^n.
 */
int cm_connect(struct cm *cm, struct cm_conn *c, const struct cm_req *req, uint32_t modifier,
	       const struct net_path *path, uint8_t life_time, uint64_t now);

/*
 * Active side, after CM_EV_REP and once the QP is in RTS: sends RTU.  data: up to CM_RTU_PRIVATE
 * bytes, may be NULL.
 */
int cm_establish(struct cm *cm, struct cm_conn *c, const void *data, size_t len);

/*
 * Passive side, after CM_EV_REQUEST and once the QP is in RTS: sends REP.  The engine sets the ids,
 * psn and failover in `rep`.
 */
int cm_accept(struct cm *cm, struct cm_conn *c, const struct cm_rep *rep, uint32_t modifier,
	      uint64_t now);

/*
 * Passive side: the QP received a packet from the peer, which replaces the RTU.  EISCONN if the RTU
 * has arrived already.
 */
int cm_notify(struct cm *cm, struct cm_conn *c);

/*
 * Sends REJ instead of a reply to REQ or REP, or SIDR_REP with status CM_SIDR_REJECTED.  info: up
 * to CM_REJ_INFO bytes; data: up to CM_REJ_PRIVATE bytes, for SIDR CM_SIDR_REP_PRIVATE.
 */
int cm_reject(struct cm *cm, struct cm_conn *c, unsigned int reason, const void *info,
	      size_t info_len, const void *data, size_t len, uint64_t now);

/*
 * The DREQ that ends the connection will have this private data: that of cm_disconnect() without
 * data of its own, of cm_destroy(), and that sent for a process that dies.  Up to CM_DREQ_DATA
 * bytes.
 */
int cm_set_dreq_data(struct cm *cm, struct cm_conn *c, const void *data, size_t len);

/* Sends DREQ, or DREP after the peer's DREQ. */
int cm_disconnect(struct cm *cm, struct cm_conn *c, const void *data, size_t len, uint64_t now);

/*
 * Sends an MRA: the peer waits for another 4.096 us * 2^service_timeout.  For its REQ also after
 * the REP, which may be lost.  The engine itself answers a duplicate of an unanswered request with
 * an MRA of CM_SERVICE_TIMEOUT.
 */
int cm_acknowledge(struct cm *cm, struct cm_conn *c, uint8_t service_timeout);
enum { CM_SERVICE_TIMEOUT = 24 };

/* Datagrams: sends SIDR_REQ, which requests the peer's QP.  Arguments as for cm_connect(). */
int cm_sidr_connect(struct cm *cm, struct cm_conn *c, const struct cm_sidr_req *req,
		    const struct net_path *path, uint64_t now);

/* Sends SIDR_REP.  The engine sets the request id and the service id in `rep`. */
int cm_sidr_answer(struct cm *cm, struct cm_conn *c, const struct cm_sidr_rep *rep,
		   uint32_t modifier);

/*
 * Ends use of the conn by the caller.  Sends REJ, DREQ, DREP or SIDR_REP if the state requires one.
 * No event follows; ops->release() is called now or at the end of timewait.
 */
void cm_destroy(struct cm *cm, struct cm_conn *c, uint64_t now);

/*
 * The QP attributes for attr->qp_state INIT, RTR or RTS that follow from the connection, as
 * ibv_modify_qp() takes them.  The caller adds port_num, pkey_index and ah_attr.grh.sgid_index.
 * RTR and RTS: EINVAL before REQ or REP has arrived.  On the passive side before cm_accept(),
 * max_rd_atomic and max_dest_rd_atomic are the peer's offer: the caller replaces them with what it
 * will accept.
 */
int cm_qp_attr(const struct cm_conn *c, struct ibv_qp_attr *attr, int *mask);

/* IBTA 12.7.34: the local ACK timeout for a CA's ACK delay and the path's packet lifetime. */
uint8_t cm_ack_timeout(uint8_t ack_delay, uint8_t life_time);

const char *cm_state_name(enum cm_state state);

#endif
