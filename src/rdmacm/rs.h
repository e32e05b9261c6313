/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An rsocket: the object behind a descriptor of rsocket().
 *
 * rs->lock protects it, and is held for verbs and calls of rdma_cma.h, but not while a thread waits
 * (rs_wait.h).  A sender and a receiver have a turn each, also while they wait, so that messages of
 * several threads do not mix.
 *
 * A call counts the rsocket, so another thread may close it meanwhile.  Calls are cancellation
 * points only where they wait.
 */
#ifndef VRB_RDMACM_RS_H
#define VRB_RDMACM_RS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>

#include "rdmacm/cma.h"
#include "rdmacm/rs_stream.h"
#include "util/compiler.h"
#include "util/list.h"

enum {
	RS_TABLE = 65536, /* highest descriptor that can be an rsocket, plus 1 */
};

/* Of a thread that sends or receives. */
enum rs_turn {
	RS_FREE,
	RS_BUSY,
	RS_WAITING, /* nothing can be sent or received */
};

enum rs_state {
	RS_NEW,
	RS_BOUND,
	RS_LISTENING,
	RS_RESOLVING, /* address, then route */
	RS_ROUTING,
	RS_CONNECTING,
	RS_ACCEPTING, /* REP sent; the peer has not confirmed yet */
	RS_OPEN,
	RS_CLOSED, /* closed by the peer, or shut down in both directions */
	RS_FAILED, /* rs->error is the cause */
};

struct rs_options {
	uint32_t sq, rq, inline_max, iomap;
	uint32_t rcvbuf, sndbuf; /* bytes */
	bool reuse, keepalive, nodelay, oob_inline, only_v6, only_v6_set;
	struct linger linger;
	uint32_t keep_idle, keep_intvl, keep_cnt; /* seconds, seconds, number */
	uint8_t tos;
	int rcv_timeout, snd_timeout; /* ms; -1: none */
};

struct rs_listen {
	pthread_mutex_t gate; /* leaf lock of all that follows */
	int ready;            /* eventfd; its count is the queue's length; -1: none */
	struct list queue;    /* struct rsocket.node; connections that raccept() can return */
	unsigned int waiting, coming, backlog;
	bool paused; /* the queue is full: requests wait until raccept() takes one */
	bool closed;
};

struct rs_dgram;
struct rs_watch;

struct rsocket {
	unsigned int refs; /* atomic; held by the table, the service thread and calls */
	struct list spare; /* rs_table.c's */

	int fd; /* index in the table; descriptor of the id's channel, or of the UDP socket */
	int domain, type;
	unsigned int generation; /* cma.generation at creation */
	bool nonblock, cloexec;

	pthread_mutex_t lock;
	enum rs_turn tx_turn, rx_turn;
	bool in_line; /* threads wait for a turn */
	uint32_t peeked; /* under rx_turn: bytes that a thread has seen and waits for more */
	enum rs_state state;
	bool peer_gone;           /* the peer accepts no data any more and will not answer */
	bool can_read, can_write; /* in RS_OPEN: not shut down by either side */
	bool stops_sending;       /* a thread is about to shut down our direction */
	bool was_open;            /* has been in RS_OPEN */
	bool other_way;           /* rs_call.h */
	bool as_tcp;              /* the same: its end */
	int error;                /* errno of calls in RS_FAILED */
	int so_error;             /* SO_ERROR; cleared when read */
	struct rs_options opt;
	struct list waiters; /* struct rs_waiter.node */

	struct rdma_cm_id *id;               /* streams */
	unsigned int tries;                  /* of address resolution */
	/* RS_ACCEPTING: the listener, counted; its queue will take this one */
	struct rsocket *parent;
	struct list node;                    /* parent's queue */
	struct sockaddr_storage local, peer; /* valid after the id is destroyed, too */
	struct ibv_path_data *route;         /* SOL_RDMA, RDMA_ROUTE */
	unsigned int routes;
	struct rs_watch *watch; /* rs_service.c's */
	uint64_t keepalive_at;
	struct list on_keepalive;

	struct rs_stream stream;
	struct rs_listen listen;
	struct rs_dgram *dgram;
};

/* ---- rs_table.c ---- */

/* Memory for one, all zero, and back.  NULL: none left. */
struct rsocket *rs_alloc(void);
void rs_free(struct rsocket *rs);

/*
 * The rsocket with this descriptor, be it the parent's in a forked child.  May be destroyed any
 * time: only its address counts.
 */
struct rsocket *rs_peek(int fd);

/* The same, counted: it exists until rs_put().  Not of the parent's. */
struct rsocket *rs_hold(int fd);

int rs_insert(struct rsocket *rs);

/* Calls visit() with each rsocket of this process, counted. */
void rs_for_each(void (*visit)(struct rsocket *rs));

/* Returns what was there, with the table's count. */
struct rsocket *rs_remove(int fd);

static inline bool rs_is_removed(const struct rsocket *rs)
{
	return rs_peek(rs->fd) != rs;
}

/* ---- rs_call.c ---- */

/*
 * Begins a call: returns the rsocket, counted.  NULL with EBADF, or with EIO in a forked child for
 * an rsocket of the parent.  Cancellation is off until the call returns or waits.
 */
#define RS_CALL __attribute__((cleanup(rs_leave)))
struct rsocket *rs_enter(int fd);
void rs_leave(struct rsocket **rs);

/* Where rs_hold() has found none: the parent's?  Logs that once. */
bool rs_is_inherited(int fd);

/* Calls may be nested. */
void rs_call_begin(void);
void rs_call_end(void);

/*
 * Around a wait: cancellation is as the program has set it.  No lock may be held.  False with
 * EINTR: the thread must not sleep, as a signal's handler has just run.
 */
bool rs_wait_begin(void);
void rs_wait_end(void);

/* At exit: a signal's handler has called exit() in a call, which may hold locks of any kind. */
bool rs_call_interrupted(void);

/* ---- rs_socket.c ---- */

struct rsocket *rs_new(int domain, int type, const struct rs_options *opt);
void rs_get(struct rsocket *rs);
void rs_put(struct rsocket *rs);

static inline bool rs_is_stream(const struct rsocket *rs)
{
	return rs->type == SOCK_STREAM;
}

/* True while rconnect() is in progress. */
static inline bool rs_in_progress(const struct rsocket *rs)
{
	return rs->state >= RS_RESOLVING && rs->state <= RS_CONNECTING;
}

/* True if rconnect() has failed. */
static inline bool rs_never_opened(const struct rsocket *rs)
{
	return rs->state == RS_FAILED && !rs->was_open;
}

/* Moves to RS_FAILED with this error and wakes waiting threads.  Under the lock. */
void rs_fail(struct rsocket *rs, int error);

/* Moves to RS_CLOSED: neither direction works any more.  Under the lock. */
void rs_closed(struct rsocket *rs);

/* At exit: waits until what was sent has arrived.  No lock may be held. */
void rs_flush_all(void);

#endif
