/* SPDX-License-Identifier: BSD-2-Clause */
/* rsocket(), rbind(), rconnect(), rshutdown(), rclose(). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/ib.h>

#include "rdmacm/addr.h"
#include "rdmacm/id.h"
#include "rdmacm/rs.h"
#include "rdmacm/rs_call.h"
#include "rdmacm/rs_config.h"
#include "rdmacm/rs_conn.h"
#include "rdmacm/rs_dgram.h"
#include "rdmacm/rs_epoll.h"
#include "rdmacm/rs_from.h"
#include "rdmacm/rs_iomap.h"
#include "rdmacm/rs_listen.h"
#include "rdmacm/rs_name.h"
#include "rdmacm/rs_service.h"
#include "rdmacm/rs_wait.h"
#include "util/atomic.h"
#include "util/time.h"

/* for sent data to be acknowledged; default of SO_LINGER */
#define LINGER (10 * VRB_SECOND)

/* ---- Lifetime ---- */

static struct rs_options default_options(void)
{
	const struct rs_config *c = rs_config();

	return (struct rs_options){
		.sq = c->sqsize_default,
		.rq = c->rqsize_default,
		.inline_max = c->inline_default,
		.iomap = c->iomap_size,
		.rcvbuf = c->mem_default,
		.sndbuf = c->wmem_default,
		.keep_idle = c->keep_idle,
		.keep_intvl = 75,
		.keep_cnt = 9,
		.rcv_timeout = -1,
		.snd_timeout = -1,
	};
}

/* Makes an id with its own channel, whose descriptor becomes the rsocket's. */
static int make_id(struct rsocket *rs)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();

	if (!ch)
		return errno;
	if (fcntl(ch->fd, F_SETFL, O_NONBLOCK) || rdma_create_id(ch, &rs->id, rs, RDMA_PS_TCP)) {
		int err = errno;

		rdma_destroy_event_channel(ch);
		return err;
	}
	rs->fd = ch->fd;
	return 0;
}

static void init(struct rsocket *rs, int domain, int type, const struct rs_options *opt)
{
	rs->fd = -1;
	rs->domain = domain;
	rs->type = type;
	rs->generation = cma.generation;
	rs->opt = *opt;
	rs->listen.ready = -1;
	rs->stream.file = -1;
	list_init(&rs->waiters);
	list_init(&rs->node);
	list_init(&rs->on_keepalive);
	list_init(&rs->listen.queue);
	list_init(&rs->stream.maps);
	list_init(&rs->stream.announce);
	pthread_mutex_init(&rs->lock, NULL);
	pthread_mutex_init(&rs->listen.gate, NULL);
}

static void end(struct rsocket *rs)
{
	pthread_mutex_destroy(&rs->lock);
	pthread_mutex_destroy(&rs->listen.gate);
	rs_free(rs);
}

struct rsocket *rs_new(int domain, int type, const struct rs_options *opt)
{
	struct rsocket *rs = rs_alloc();
	int err;

	if (!rs) {
		errno = ENOMEM;
		return NULL;
	}
	init(rs, domain, type, opt);
	err = type == SOCK_STREAM ? make_id(rs) : rs_dgram_create(rs);
	if (err) {
		end(rs);
		errno = err;
		return NULL;
	}
	/* Pairs with the compare-and-swap of rs_hold(). */
	fetch_add_acq_rel(&rs->refs, 1U);
	return rs;
}

/* An rsocket inherited from the parent: only its descriptor is closed. */
static void drop_inherited(struct rsocket *rs)
{
	close(rs->fd);
}

static void destroy(struct rsocket *rs)
{
	struct rdma_event_channel *ch;

	if (rs_is_stream(rs)) {
		ch = rs->id->channel;
		rs_iomap_clear(rs);
		rs_stream_destroy(rs);
		rdma_destroy_id(rs->id);
		rdma_destroy_event_channel(ch);
		if (rs->listen.ready >= 0)
			close(rs->listen.ready);
	} else {
		rs_dgram_destroy(rs);
	}
	free(rs->route);
	end(rs);
}

void rs_get(struct rsocket *rs)
{
	fetch_add_relaxed(&rs->refs, 1U);
}

void rs_put(struct rsocket *rs)
{
	if (fetch_sub_acq_rel(&rs->refs, 1U) == 1)
		destroy(rs);
}

/* ---- States ---- */

static void announce_reset(struct rsocket *rs, uint64_t sent)
{
	uint8_t data[RS_RESET_LEN];

	if (rs->state == RS_FAILED)
		sent = RS_BROKEN;
	rs_reset_encode(data, sent);
	id_set_dreq_data(to_id(rs->id), data, sizeof(data));
}

void rs_fail(struct rsocket *rs, int error)
{
	bool was_open = rs->state == RS_OPEN;

	if (rs->state == RS_FAILED)
		return;
	rs->state = RS_FAILED;
	rs->can_read = rs->can_write = false;
	rs->error = rs->so_error = error;
	/* Tells the peer that no more data will be sent, and that this is not the stream's end. */
	if (was_open) {
		announce_reset(rs, RS_BROKEN);
		rdma_disconnect(rs->id);
	}
	rs_wake(rs);
}

void rs_closed(struct rsocket *rs)
{
	if (rs->state == RS_FAILED)
		return;
	rs->state = RS_CLOSED;
	rs->can_read = rs->can_write = false;
	rs_wake(rs);
}

/* ---- rsocket(), rbind() ---- */

static int check_kind(int domain, int type, int protocol)
{
	int tcp_or_udp = type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;

	if (domain != AF_INET && domain != AF_INET6 && domain != AF_IB)
		return ENOTSUP;
	if (type != SOCK_STREAM && type != SOCK_DGRAM)
		return ENOTSUP;
	return protocol && protocol != tcp_or_udp ? ENOTSUP : 0;
}

CMA_EXPORT int rsocket(int domain, int type, int protocol)
{
	int flags = type & (SOCK_NONBLOCK | SOCK_CLOEXEC), err, fd;
	struct rs_options opt = default_options();
	struct rsocket *rs;

	type &= ~flags;
	err = check_kind(domain, type, protocol);
	if (err)
		return cma_result(err);
	rs = rs_new(domain, type, &opt);
	if (!rs)
		return -1;
	rs->nonblock = flags & SOCK_NONBLOCK;
	rs->cloexec = flags & SOCK_CLOEXEC;
	fd = rs->fd;
	err = rs_insert(rs);
	if (err)
		rs_put(rs);
	return err ? cma_result(err) : fd;
}

static void set_bind_options(struct rsocket *rs)
{
	int on = 1, only = rs->opt.only_v6;

	if (rs->opt.reuse)
		rdma_set_option(rs->id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on));
	if (rs->opt.only_v6_set && rs->domain == AF_INET6)
		rdma_set_option(rs->id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only, sizeof(only));
}

static int bind_id(struct rsocket *rs, const struct sockaddr *addr)
{
	if (rs->state != RS_NEW)
		return EINVAL;
	set_bind_options(rs);
	if (rdma_bind_addr(rs->id, (struct sockaddr *)(uintptr_t)addr))
		return errno;
	rs->state = RS_BOUND;
	return 0;
}

CMA_EXPORT int rbind(int fd, const struct sockaddr *addr, socklen_t addrlen)
{
	RS_CALL struct rsocket *rs = rs_enter(fd);
	int err;

	if (!rs)
		return -1;
	err = rs_check_name(addr, addrlen);
	if (err)
		return cma_result(err);
	if (addr->sa_family != rs->domain)
		return cma_result(EAFNOSUPPORT);
	pthread_mutex_lock(&rs->lock);
	err = rs_is_stream(rs) ? bind_id(rs, addr) : rs_dgram_bind(rs, addr, addrlen);
	pthread_mutex_unlock(&rs->lock);
	return cma_result(err);
}

/* ---- rconnect() ---- */

static bool settled(struct rsocket *rs)
{
	return !rs_in_progress(rs);
}

/* Continues a non-blocking rconnect().  In the service thread. */
static void connect_event(struct rsocket *rs)
{
	bool done;

	pthread_mutex_lock(&rs->lock);
	if (rs_in_progress(rs))
		rs_progress(rs);
	done = settled(rs);
	pthread_mutex_unlock(&rs->lock);
	if (done)
		rs_unwatch(rs);
}

static int connected(struct rsocket *rs)
{
	if (rs->state == RS_FAILED) {
		rs->so_error = 0;
		return rs->error;
	}
	return rs_is_removed(rs) ? EBADF : 0;
}

static int wait_connected(struct rsocket *rs)
{
	int err;

	if (rs->nonblock) {
		if (settled(rs))
			return connected(rs);
		err = rs_watch(rs, rs->fd, connect_event);
		return err ? err : EINPROGRESS;
	}
	err = rs_await(rs, NULL, settled, false, rs->opt.snd_timeout);
	if (err == EAGAIN || err == EINTR) {
		/* The service thread continues. */
		rs_watch(rs, rs->fd, connect_event);
		return err == EAGAIN ? EINPROGRESS : EINTR;
	}
	return err ? err : connected(rs);
}

static bool is_mapped(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_V4MAPPED(&((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr);
}

/*
 * An IPv6 socket that is bound, to :: or a mapped address, connects by IPv4: to rdma_cm that is
 * another family, and so another id with the port.
 */
static int bind_to_ipv4(struct rsocket *rs)
{
	const struct sockaddr *bound = rdma_get_local_addr(rs->id);
	struct rdma_cm_id *old = rs->id;
	struct sockaddr_storage ipv4;
	struct rs_from f;

	rs_from_of((const struct sockaddr_storage *)(const void *)bound, &f);
	if (f.version == 6 && !addr_is_any(bound))
		return ENETUNREACH;
	f.version = 4;
	rs_from_to_addr(&f, AF_INET, &ipv4);
	if (rdma_create_id(old->channel, &rs->id, rs, RDMA_PS_TCP))
		return errno;
	rdma_destroy_id(old);
	rs->state = RS_NEW;
	return bind_id(rs, (struct sockaddr *)&ipv4);
}

static int connect_stream(struct rsocket *rs, const struct sockaddr *addr)
{
	int err;

	if (rs_in_progress(rs)) {
		rs_progress(rs);
		if (rs_in_progress(rs))
			return rs->nonblock ? EALREADY : wait_connected(rs);
		return connected(rs);
	}
	/* A program may ask so how its attempt has ended. */
	if (rs->state == RS_FAILED && !rs->was_open && rs->so_error)
		return connected(rs);
	if (rs->state > RS_BOUND)
		return rs->state == RS_OPEN || rs->state == RS_LISTENING ? EISCONN : EINVAL;
	err = rs->state == RS_BOUND && is_mapped(addr) ? bind_to_ipv4(rs) : 0;
	if (err)
		return err;
	set_bind_options(rs);
	rs_conn_start(rs, addr);
	return wait_connected(rs);
}

/* As with UDP, an address without family ends the association. */
static bool dissolves(const struct rsocket *rs, const struct sockaddr *addr, socklen_t len)
{
	return !rs_is_stream(rs) && addr && len >= sizeof(addr->sa_family) &&
	       addr->sa_family == AF_UNSPEC;
}

CMA_EXPORT int rconnect(int fd, const struct sockaddr *addr, socklen_t addrlen)
{
	RS_CALL struct rsocket *rs = rs_enter(fd);
	int err;

	if (!rs)
		return -1;
	err = dissolves(rs, addr, addrlen) ? 0 : rs_check_name(addr, addrlen);
	if (err)
		return cma_result(err);
	pthread_mutex_lock(&rs->lock);
	err = rs_is_stream(rs) ? connect_stream(rs, addr) : rs_dgram_connect(rs, addr, addrlen);
	if (!err && rs_is_stream(rs) && rs->opt.keepalive)
		rs_keepalive(rs);
	pthread_mutex_unlock(&rs->lock);
	return cma_result(err);
}

/* ---- For librspreload ---- */

CMA_EXPORT void vrb_rs_other_way(int fd, bool has)
{
	RS_CALL struct rsocket *rs = rs_enter(fd);

	if (!rs)
		return;
	pthread_mutex_lock(&rs->lock);
	rs->other_way = has;
	if (!has)
		rs_wake(rs);
	pthread_mutex_unlock(&rs->lock);
}

CMA_EXPORT enum rs_attempt vrb_rs_attempt(int fd)
{
	RS_CALL struct rsocket *rs = rs_enter(fd);
	enum rs_attempt is;

	if (!rs)
		return RS_ATTEMPT_OVER;
	pthread_mutex_lock(&rs->lock);
	rs_progress(rs);
	is = rs_in_progress(rs)   ? RS_ATTEMPT_LASTS
	     : rs_never_opened(rs) ? RS_ATTEMPT_FAILED
				  : RS_ATTEMPT_OVER;
	pthread_mutex_unlock(&rs->lock);
	return is;
}

/* ---- rshutdown(), rclose() ---- */

/* A message whose bytes another thread copies, without the lock, goes first: it counts as sent. */
static bool can_shut(struct rsocket *rs)
{
	bool copies = rs->tx_turn == RS_BUSY;

	rs->in_line |= copies;
	return rs->state != RS_OPEN || (!copies && rs_stream_can_send_ctrl(&rs->stream));
}

static bool all_arrived(struct rsocket *rs)
{
	/* A queue pair in the error state gets no acknowledgements. */
	return rs->state == RS_FAILED || rs->peer_gone || rs_stream_idle(&rs->stream);
}

static uint64_t linger_for(const struct rsocket *rs)
{
	if (!rs->opt.linger.l_onoff)
		return LINGER;
	return rs->opt.linger.l_linger < 0 ? VRB_NEVER :
					     (uint64_t)rs->opt.linger.l_linger * VRB_SECOND;
}

/* As the program wishes, rclose() does not wait for data to arrive. */
static bool resets(const struct rsocket *rs)
{
	return rs->opt.linger.l_onoff && !rs->opt.linger.l_linger;
}

/* Tells the peer; rclose() and exit wait until it knows. */
static int shut(struct rsocket *rs, bool reading, bool writing)
{
	bool read_on = rs->can_read && !reading, write_on = rs->can_write && !writing;
	uint64_t left;
	int err;

	/* A direction that the peer has already shut down is announced along with the other. */
	if (write_on || (!rs->can_write && read_on)) {
		rs->can_read = read_on;
		rs_wake(rs);
		return 0;
	}
	rs->stops_sending = rs->can_write;
	left = linger_for(rs);
	err = rs_await_anyway(rs, can_shut, &left);
	rs->stops_sending = false;
	if (err || rs->state != RS_OPEN)
		return err == EAGAIN ? ETIMEDOUT : err;
	/* The peer may have shut down its direction meanwhile. */
	read_on = rs->can_read && !reading;
	rs->can_read = read_on;
	rs->can_write = write_on;
	rs_stream_send_ctrl(rs, read_on ? RS_CTRL_SHUTDOWN : RS_CTRL_DISCONNECT);
	if (!read_on)
		rs_closed(rs);
	rs_wake(rs);
	return 0;
}

static int shut_stream(struct rsocket *rs, int how)
{
	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return EINVAL;
	if (rs->state == RS_CLOSED)
		return 0;
	if (rs->state == RS_LISTENING) {
		/* As with sockets, threads in raccept() return. */
		rs_closed(rs);
		return 0;
	}
	if (rs->state != RS_OPEN)
		return ENOTCONN;
	return shut(rs, how != SHUT_WR, how != SHUT_RD);
}

CMA_EXPORT int rshutdown(int fd, int how)
{
	RS_CALL struct rsocket *rs = rs_enter(fd);
	int err;

	if (!rs)
		return -1;
	if (!rs_is_stream(rs))
		return shutdown(fd, how);
	pthread_mutex_lock(&rs->lock);
	rs_progress(rs);
	err = shut_stream(rs, how);
	pthread_mutex_unlock(&rs->lock);
	return cma_result(err);
}

/*
 * What was sent and has not arrived will not: the peer must not take its end for the stream's.  But
 * all may have arrived, and the peer can tell, unless it was written to its mappings.
 */
static void give_up_sent(struct rsocket *rs)
{
	const struct rs_stream *s = &rs->stream;

	if (s->cq && !rs->peer_gone && (s->lost || rs_stream_has_sent(s)))
		announce_reset(rs, s->wrote || s->cut ? RS_BROKEN : s->tx.total);
}

static bool leaves_unread(struct rsocket *rs)
{
	if (!rs->as_tcp || rs->state != RS_OPEN)
		return false;
	rs_progress(rs);
	return rs->state == RS_OPEN && rs->stream.rx.unread;
}

/* Afterwards the connection can be destroyed: sent data was acknowledged, or never will be. */
static void finish_stream(struct rsocket *rs)
{
	uint64_t left = linger_for(rs);
	/* As TCP does then, the stream is broken off, and does not just end. */
	bool unread = leaves_unread(rs);

	rs->stream.cut = rs->state == RS_OPEN && (unread || resets(rs));
	if (rs->stream.cut)
		announce_reset(rs, RS_BROKEN);
	else if (rs->state == RS_OPEN)
		shut(rs, true, true);
	if ((unread || rs->state == RS_CLOSED) && rs->stream.cq && !resets(rs))
		rs_await_anyway(rs, all_arrived, &left);
	rs_closed(rs);
}

/*
 * Threads that wait for it return; the last one destroys it.  Also if this thread is cancelled
 * while it lingers: the number is gone, so no other thread could do it.
 */
static void end_close(struct rsocket **closing)
{
	struct rsocket *rs = *closing;

	pthread_mutex_lock(&rs->lock);
	give_up_sent(rs);
	rs_closed(rs);
	rs_wake(rs);
	pthread_mutex_unlock(&rs->lock);
	/* From here on no call hands it to the service thread. */
	rs_no_keepalive(rs);
	if (rs->listen.ready >= 0)
		rs_listen_close(rs);
	else
		rs_unwatch(rs);
	if (!rs_is_stream(rs)) {
		pthread_mutex_lock(&rs->lock);
		rs_dgram_free_port(rs);
		pthread_mutex_unlock(&rs->lock);
	}
	rs_put(rs);
	rs_call_end();
}

static void close_removed(struct rsocket *removed)
{
	__attribute__((cleanup(end_close))) struct rsocket *rs = removed;

	rs_call_begin();
	/* First: the end of its connection is no event of the program's. */
	rs_epoll_forget(rs);
	pthread_mutex_lock(&rs->lock);
	if (rs_is_stream(rs))
		finish_stream(rs);
	pthread_mutex_unlock(&rs->lock);
}

CMA_EXPORT void vrb_rs_close_as_tcp(int fd)
{
	struct rsocket *rs = rs_hold(fd);

	if (rs) {
		pthread_mutex_lock(&rs->lock);
		rs->as_tcp = true;
		pthread_mutex_unlock(&rs->lock);
		rs_put(rs);
	}
	rclose(fd);
}

CMA_EXPORT int rclose(int fd)
{
	struct rsocket *rs = rs_remove(fd);

	if (!rs)
		return rs_epoll_close(fd) ? EBADF : 0;
	if (rs->generation != cma.generation) {
		drop_inherited(rs);
		return 0;
	}
	close_removed(rs);
	return 0;
}

/* ---- Exit ---- */

static uint64_t exit_left;	/* of LINGER, for all */

static void flush(struct rsocket *rs)
{
	/* If this thread exits within a call, the lock is its own. */
	if (!rs_is_stream(rs) || pthread_mutex_trylock(&rs->lock))
		return;
	if (rs->stream.cq && !resets(rs) && exit_left && !rs_call_interrupted())
		rs_await_anyway(rs, all_arrived, &exit_left);
	give_up_sent(rs);
	pthread_mutex_unlock(&rs->lock);
}

void rs_flush_all(void)
{
	exit_left = LINGER;
	rs_for_each(flush);
}
