/* SPDX-License-Identifier: BSD-2-Clause */
/* rlisten(), raccept(), and acceptance of connections by the service thread. */
#include "rdmacm/rs_listen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rdmacm/rs_conn.h"
#include "rdmacm/rs_name.h"
#include "rdmacm/rs_service.h"
#include "rdmacm/rs_wait.h"
#include "run/clock.h"
#include "util/tuning.h"

enum { MOST_WAITING = 1024 };

static void count_up(struct rs_listen *l)
{
	uint64_t one = 1;

	if (write(l->ready, &one, sizeof(one)) < 0)
		return;
}

static void count_down(struct rs_listen *l)
{
	uint64_t one;

	if (read(l->ready, &one, sizeof(one)) < 0)
		return;
}

bool rs_listen_has(struct rsocket *rs)
{
	bool any;

	pthread_mutex_lock(&rs->listen.gate);
	any = rs->listen.waiting != 0;
	pthread_mutex_unlock(&rs->listen.gate);
	return any;
}

unsigned int rs_listen_pending(struct rsocket *rs, unsigned int *backlog)
{
	unsigned int n;

	pthread_mutex_lock(&rs->listen.gate);
	n = rs->listen.waiting + rs->listen.coming;
	*backlog = rs->listen.backlog;
	pthread_mutex_unlock(&rs->listen.gate);
	return n;
}

/* ---- Connections being accepted.  In the service thread, without locks ---- */

/* Queues the connection for raccept().  Returns false if the listener is closed. */
static bool enqueue(struct rs_listen *l, struct rsocket *rs)
{
	bool taken;

	pthread_mutex_lock(&l->gate);
	l->coming--;
	taken = rs && !l->closed;
	if (taken) {
		list_add_tail(&l->queue, &rs->node);
		l->waiting++;
		count_up(l);
	}
	pthread_mutex_unlock(&l->gate);
	return taken;
}

/* ---- Requests ---- */

static bool has_room(struct rs_listen *l)
{
	bool room;

	pthread_mutex_lock(&l->gate);
	room = !l->closed && l->waiting + l->coming < l->backlog;
	l->paused = !room;
	pthread_mutex_unlock(&l->gate);
	return room;
}

static bool is_paused(struct rs_listen *l)
{
	bool paused;

	pthread_mutex_lock(&l->gate);
	paused = l->paused;
	pthread_mutex_unlock(&l->gate);
	return paused;
}

static void count_coming(struct rs_listen *l)
{
	pthread_mutex_lock(&l->gate);
	l->coming++;
	pthread_mutex_unlock(&l->gate);
}

/* It counts before the peer has its answer: rs_listen_pending() must not miss it then. */
static struct rsocket *accept_request(struct rsocket *rs, struct rdma_cm_event *e)
{
	struct rsocket *child;

	count_coming(&rs->listen);
	child = rs_conn_accept(rs, e);
	if (!child)
		enqueue(&rs->listen, NULL);
	return child;
}

/* Answers the next request; *child is NULL if it was refused.  Returns false if there is none. */
static bool answer_next(struct rsocket *rs, struct rsocket **child)
{
	struct rdma_cm_event *e;
	bool any;

	*child = NULL;
	pthread_mutex_lock(&rs->lock);
	any = rs->id && !rdma_get_cm_event(rs->id->channel, &e);
	if (any && e->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		*child = accept_request(rs, e);
	else if (any)
		rdma_ack_cm_event(e);
	pthread_mutex_unlock(&rs->lock);
	return any;
}

/* False: there is no room, or the listener is closed. */
static bool watch_again(struct rsocket *rs)
{
	bool room;

	pthread_mutex_lock(&rs->lock);
	room = rs->state == RS_LISTENING && has_room(&rs->listen);
	if (room)
		rs_watch_resume(rs);
	pthread_mutex_unlock(&rs->lock);
	return room;
}

/* One that failed leaves room, maybe for requests that wait for it. */
static void drop_child(struct rsocket *parent, struct rsocket *rs)
{
	rs_put(rs);
	if (is_paused(&parent->listen))
		watch_again(parent);
}

static enum rs_state child_state(struct rsocket *rs)
{
	enum rs_state state;

	pthread_mutex_lock(&rs->lock);
	rs_conn_progress(rs);
	state = rs->state;
	pthread_mutex_unlock(&rs->lock);
	return state;
}

static void child_event(struct rsocket *rs)
{
	enum rs_state state = child_state(rs);
	struct rsocket *parent = rs->parent;

	if (state == RS_ACCEPTING || !parent)
		return;
	rs_unwatch(rs);
	rs->parent = NULL;
	/* As with TCP, the program learns of a connection that has been reset already. */
	if (!enqueue(&parent->listen, state == RS_FAILED && !rs->was_open ? NULL : rs))
		drop_child(parent, rs);
	rs_put(parent);
}

static void watch_child(struct rsocket *parent, struct rsocket *rs)
{
	rs_get(parent);
	rs->parent = parent;
	if (!rs_watch(rs, rs->fd, child_event))
		return;
	enqueue(&parent->listen, NULL);
	drop_child(parent, rs);
	rs_put(parent);
}

static void requests(struct rsocket *rs)
{
	struct rsocket *child;

	for (;;) {
		while (has_room(&rs->listen)) {
			if (!answer_next(rs, &child))
				return;
			if (child)
				watch_child(rs, child);
		}
		rs_watch_pause(rs);
		/* raccept() may have made room before the pause, and so not have ended it. */
		if (!watch_again(rs))
			return;
	}
}

/* ---- The calls ---- */

/* As the stock library: many, unless the program gives a limit. */
static void set_backlog(struct rs_listen *l, int backlog)
{
	pthread_mutex_lock(&l->gate);
	l->backlog = backlog > 0 ? (unsigned int)backlog : MOST_WAITING;
	pthread_mutex_unlock(&l->gate);
}

static int begin(struct rsocket *rs, int backlog)
{
	struct rs_listen *l = &rs->listen;
	int err;

	if (rs->state == RS_LISTENING) {
		set_backlog(l, backlog);
		return 0;
	}
	if (rs->state > RS_BOUND || !rs_is_stream(rs))
		return rs_is_stream(rs) ? EINVAL : EOPNOTSUPP;
	set_backlog(l, backlog);
	if (l->ready < 0)
		l->ready = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
	if (l->ready < 0)
		return errno;
	/*
	 * Options that the program sets before it looks for connections count for them, as with
	 * TCP, although a client that asked before the server listened is there at once.
	 */
	err = rs_watch_from(rs, rs->fd, requests, clock_now() + LIMIT_RS_OPTIONS);
	if (err)
		return err;
	/* Last, as it cannot be taken back. */
	if (rdma_listen(rs->id, backlog)) {
		err = errno;
		rs_unwatch(rs);
		return err;
	}
	rs->state = RS_LISTENING;
	rs_wake(rs);	/* threads that poll it watch the queue from now on */
	return 0;
}

CMA_EXPORT int rlisten(int fd, int backlog)
{
	RS_CALL struct rsocket *rs = rs_enter(fd);
	int err;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	err = begin(rs, backlog);
	pthread_mutex_unlock(&rs->lock);
	return cma_result(err);
}

static struct rsocket *dequeue(struct rsocket *rs)
{
	struct rs_listen *l = &rs->listen;
	struct rsocket *child = NULL;
	bool resume = false;

	pthread_mutex_lock(&l->gate);
	if (l->waiting) {
		child = list_entry(l->queue.next, struct rsocket, node);
		list_del(&child->node);
		l->waiting--;
		count_down(l);
		resume = l->paused && !l->closed;
		l->paused = false;
	}
	pthread_mutex_unlock(&l->gate);
	if (resume)
		rs_watch_resume(rs);
	return child;
}

static bool accept_ready(struct rsocket *rs)
{
	return rs->state != RS_LISTENING || rs_listen_has(rs);
}

/*
 * Two threads may find the same connection; one of them gets it. A program that calls again and
 * again, and does not sleep, does the work of a progress thread that is not there.
 */
static int wait_for_child(struct rsocket *rs, struct rsocket **child)
{
	int err = 0;

	rs_watch_held(rs);
	if (rs->nonblock && cma_mad() && qp1.polls(cma_mad()))
		qp1.poll(cma_mad());
	do {
		if (rs->state != RS_LISTENING)
			return EINVAL;
		*child = dequeue(rs);
		if (!*child)
			err = rs_await(rs, NULL, accept_ready, rs->nonblock, rs->opt.rcv_timeout);
	} while (!*child && !err);
	return err;
}

/*
 * Once it is in the table, another thread may close it by its number, and it is gone: so that comes
 * last.
 */
static int hand_out(const struct rsocket *rs, struct rsocket *child, struct sockaddr *addr,
		    socklen_t *addrlen)
{
	struct sockaddr_storage peer = child->id->route.addr.dst_storage;
	int fd = child->fd, err;

	if (child->opt.keepalive)
		rs_keepalive(child);
	err = rs_insert(child);
	if (err) {
		rs_no_keepalive(child);
		rs_put(child);
		return cma_result(err);
	}
	if (addr && addrlen)
		rs_copy_id_name(rs, (struct sockaddr *)&peer, addr, addrlen);
	return fd;
}

CMA_EXPORT int raccept(int fd, struct sockaddr *addr, socklen_t *addrlen)
{
	RS_CALL struct rsocket *rs = rs_enter(fd);
	struct rsocket *child = NULL;
	int err;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	err = rs_is_stream(rs) ? wait_for_child(rs, &child) : EOPNOTSUPP;
	pthread_mutex_unlock(&rs->lock);
	return err ? cma_result(err) : hand_out(rs, child, addr, addrlen);
}

void rs_listen_close(struct rsocket *rs)
{
	struct rs_listen *l = &rs->listen;
	struct list *pos, *tmp;

	pthread_mutex_lock(&l->gate);
	l->closed = true;
	l->waiting = 0;
	pthread_mutex_unlock(&l->gate);
	rs_unwatch(rs);
	/* The rsocket is closed, so no other thread uses the queue. */
	list_for_each_safe (pos, tmp, &l->queue) {
		struct rsocket *child = list_entry(pos, struct rsocket, node);

		list_del(&child->node);
		rs_put(child);
	}
}
