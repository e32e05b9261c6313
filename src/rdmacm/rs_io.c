/* SPDX-License-Identifier: BSD-2-Clause */
/* rsend(), rrecv() and variants. */
#include "rdmacm/rs_io.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "rdmacm/rs.h"
#include "rdmacm/rs_dgram.h"
#include "rdmacm/rs_iomap.h"
#include "rdmacm/rs_name.h"
#include "rdmacm/rs_stream.h"
#include "rdmacm/rs_wait.h"
#include "util/copy.h"

enum {
	READ_STEP = 32768, /* bytes after which the peer gets room again */
	LOCKED_COPY = 512, /* bytes that are copied without releasing the lock */
};

/* Sum of the lengths; -1 with EINVAL if it overflows ssize_t. */
static ssize_t total(const struct iovec *iov, int iovcnt)
{
	size_t sum = 0;
	int i;

	if (iovcnt < 0 || iovcnt > IOV_MAX) {
		errno = EINVAL;
		return -1;
	}
	for (i = 0; i < iovcnt; i++) {
		if (iov[i].iov_len > (size_t)SSIZE_MAX - sum) {
			errno = EINVAL;
			return -1;
		}
		sum += iov[i].iov_len;
	}
	return (ssize_t)sum;
}

/* Number of bytes, or -1 with errno if there are none. */
static ssize_t result(size_t done, int err)
{
	if (done || !err)
		return (ssize_t)done;
	errno = err;
	return -1;
}

bool rs_never_waits(const struct rsocket *rs, int flags)
{
	return rs->nonblock || (flags & MSG_DONTWAIT);
}

/* ---- Streams: receiving ---- */

bool rs_can_recv(struct rsocket *rs)
{
	if (rs_in_progress(rs))
		return false;
	return rs->state != RS_OPEN || rs->stream.rx.unread || !rs->can_read;
}

/* The peer may send no more before the program reads. */
static bool is_full(const struct rsocket *rs)
{
	return rs->stream.rx.unread && !rs->stream.rx.announced;
}

/* There is more than the thread has peeked at already. */
static bool can_peek(struct rsocket *rs)
{
	return rs_can_recv(rs) && (rs->state != RS_OPEN || !rs->can_read || is_full(rs) ||
				   rs->stream.rx.unread > rs->peeked);
}

/* Copies n bytes to the vectors, after the first skip bytes. */
static void scatter(const struct iovec *iov, size_t skip, const uint8_t *from, size_t n)
{
	for (; n; iov++) {
		size_t part;

		if (skip >= iov->iov_len) {
			skip -= iov->iov_len;
			continue;
		}
		part = min(n, iov->iov_len - skip);
		copy_payload((uint8_t *)iov->iov_base + skip, from, part);
		from += part;
		n -= part;
		skip = 0;
	}
}

/* Under rx_turn, so there is no other reader; releases the lock for larger copies. */
static void copy_out(struct rsocket *rs, const struct iovec *iov, size_t skip, uint32_t n)
{
	struct rs_span span[2];
	unsigned int parts = rs_rx_peek(&rs->stream.rx, n, span), i;

	if (n > LOCKED_COPY)
		pthread_mutex_unlock(&rs->lock);
	for (i = 0; i < parts; i++) {
		scatter(iov, skip, rs->stream.ring + span[i].offset, span[i].len);
		skip += span[i].len;
	}
	if (n > LOCKED_COPY)
		pthread_mutex_lock(&rs->lock);
}

/* Copies up to n received bytes.  As TCP, with MSG_TRUNC it drops them. */
static size_t take(struct rsocket *rs, const struct iovec *iov, size_t skip, size_t n, int flags)
{
	bool peek = flags & MSG_PEEK;
	size_t done = 0;

	while (done < n && rs->stream.rx.unread) {
		uint32_t step = (uint32_t)min(n - done, (size_t)rs->stream.rx.unread);

		if (!peek)
			step = min(step, (uint32_t)READ_STEP);
		if (!(flags & MSG_TRUNC))
			copy_out(rs, iov, skip + done, step);
		done += step;
		if (peek)
			break;
		rs_rx_read(&rs->stream.rx, step);
		if (rs_rx_owes(&rs->stream.rx) || !rs->stream.rx.unread)
			rs_progress(rs);
	}
	return done;
}

static int recv_error(const struct rsocket *rs)
{
	if (rs->state == RS_FAILED)
		return rs->error;
	return rs->state < RS_OPEN && !rs_in_progress(rs) ? ENOTCONN : 0;
}

static ssize_t recv_stream(struct rsocket *rs, const struct iovec *iov, size_t n, int flags)
{
	bool nonblock = rs_never_waits(rs, flags), peek = flags & MSG_PEEK;
	uint64_t until = rs_until(rs->opt.rcv_timeout);
	size_t done = 0;
	int err = 0;

	if (!rs->stream.rx.unread)
		rs_progress(rs);
	for (;;) {
		if (peek)
			done = 0;
		if (rs->stream.cq)
			done += take(rs, iov, done, n - done, flags);
		if (done == n || (done && !(flags & MSG_WAITALL)) || (peek && is_full(rs)))
			break;
		err = recv_error(rs);
		if (err || rs->state == RS_CLOSED || (rs->state == RS_OPEN && !rs->can_read))
			break;
		rs->peeked = (uint32_t)done;
		err = rs_await(rs, &rs->rx_turn, peek ? can_peek : rs_can_recv, nonblock,
			       rs_left(until));
		if (err)
			break;
	}
	return result(done, err);
}

/* ---- Streams: sending ---- */

bool rs_can_send(struct rsocket *rs)
{
	if (rs_in_progress(rs))
		return false;
	if (rs->state != RS_OPEN || !rs->can_write || rs->stops_sending)
		return true;
	return rs_iomap_flush(rs) && rs_stream_room(rs);
}

int rs_send_error(struct rsocket *rs)
{
	if (rs->state == RS_FAILED)
		return rs->error;
	if (rs->state < RS_OPEN && !rs_in_progress(rs))
		return ENOTCONN;
	if (rs->state == RS_CLOSED || (rs->stops_sending && rs_is_removed(rs)))
		return ECONNRESET;
	return rs->state == RS_OPEN && (!rs->can_write || rs->stops_sending) ? EPIPE : 0;
}

static ssize_t send_stream(struct rsocket *rs, const struct iovec *iov, size_t n, int flags)
{
	bool nonblock = rs_never_waits(rs, flags);
	uint64_t until = rs_until(rs->opt.snd_timeout);
	uint32_t room;
	size_t done = 0;
	int err = 0;

	if (!rs_stream_is_busy(rs))
		rs_progress(rs);
	while (!err) {
		err = rs_send_error(rs);
		if (err || done == n)
			break;
		if (rs_can_send(rs) && rs->state == RS_OPEN) {
			room = min(rs_stream_room(rs), (uint32_t)RS_MOST_SENT);
			room = (uint32_t)min(n - done, (size_t)room);
			rs_stream_send(rs, iov, done, room);
			done += room;
			continue;
		}
		err = rs_await(rs, &rs->tx_turn, rs_can_send, nonblock, rs_left(until));
	}
	return result(done, err);
}

/* ---- Streams and datagrams ---- */

static ssize_t send_any(struct rsocket *rs, const struct iovec *iov, int iovcnt, int flags,
			const struct sockaddr *to, socklen_t len)
{
	ssize_t n = total(iov, iovcnt);
	int err;

	if (n < 0)
		return -1;
	/* There is no urgent data; among the rest it would be another stream. */
	if (flags & MSG_OOB)
		return cma_result(EOPNOTSUPP);
	pthread_mutex_lock(&rs->lock);
	err = rs_take_turn(rs, &rs->tx_turn, rs_never_waits(rs, flags), rs->opt.snd_timeout);
	if (err)
		n = cma_result(err);
	else if (!rs_is_stream(rs))
		n = rs_dgram_send(rs, iov, iovcnt, flags, to, len);
	else if (to && rs->state == RS_OPEN)
		n = cma_result(EISCONN);
	else
		n = send_stream(rs, iov, (size_t)n, flags);
	if (!err)
		rs_end_turn(rs, &rs->tx_turn);
	pthread_mutex_unlock(&rs->lock);
	return n;
}

/* The peer's address, if the caller requests it.  TCP does not return it. */
static void stream_name(struct rsocket *rs, struct sockaddr *from, socklen_t *len)
{
	if (from && len)
		rs_copy_id_name(rs, rdma_get_peer_addr(rs->id), from, len);
}

/* What is not the data: neither exists, and the call never waits for it. */
static int check_flags(const struct rsocket *rs, int flags)
{
	if (flags & MSG_ERRQUEUE)
		return EAGAIN;
	return flags & MSG_OOB && rs_is_stream(rs) ? EINVAL : 0;
}

static ssize_t recv_any(struct rsocket *rs, const struct iovec *iov, int iovcnt, int flags,
			struct sockaddr *from, socklen_t *len, int *msg_flags)
{
	ssize_t n = total(iov, iovcnt);
	int err = check_flags(rs, flags);

	if (n < 0)
		return -1;
	if (err)
		return cma_result(err);
	pthread_mutex_lock(&rs->lock);
	err = rs_take_turn(rs, &rs->rx_turn, rs_never_waits(rs, flags), rs->opt.rcv_timeout);
	if (err) {
		n = cma_result(err);
	} else if (!rs_is_stream(rs)) {
		n = rs_dgram_recv(rs, iov, iovcnt, flags, from, len, msg_flags);
	} else {
		n = recv_stream(rs, iov, (size_t)n, flags);
		stream_name(rs, from, len);
	}
	if (!err)
		rs_end_turn(rs, &rs->rx_turn);
	pthread_mutex_unlock(&rs->lock);
	return n;
}

/* ---- The calls ---- */

CMA_EXPORT ssize_t rsendto(int fd, const void *buf, size_t len, int flags,
			   const struct sockaddr *to, socklen_t tolen)
{
	struct iovec iov = { (void *)(uintptr_t)buf, len };
	RS_CALL struct rsocket *rs = rs_enter(fd);

	return rs ? send_any(rs, &iov, 1, flags, to, tolen) : -1;
}

CMA_EXPORT ssize_t rsend(int fd, const void *buf, size_t len, int flags)
{
	return rsendto(fd, buf, len, flags, NULL, 0);
}

CMA_EXPORT ssize_t rwrite(int fd, const void *buf, size_t len)
{
	return rsendto(fd, buf, len, 0, NULL, 0);
}

CMA_EXPORT ssize_t rwritev(int fd, const struct iovec *iov, int iovcnt)
{
	RS_CALL struct rsocket *rs = rs_enter(fd);

	return rs ? send_any(rs, iov, iovcnt, 0, NULL, 0) : -1;
}

CMA_EXPORT ssize_t rsendmsg(int fd, const struct msghdr *msg, int flags)
{
	RS_CALL struct rsocket *rs = rs_enter(fd);

	if (!rs)
		return -1;
	if (msg->msg_control && msg->msg_controllen)
		return cma_result(ENOTSUP);
	/* As in the stock library and TCP, an address is ignored here. */
	return send_any(rs, msg->msg_iov, (int)min((size_t)msg->msg_iovlen, (size_t)INT_MAX), flags,
			rs_is_stream(rs) ? NULL : msg->msg_name, msg->msg_namelen);
}

CMA_EXPORT ssize_t rrecvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *from,
			     socklen_t *fromlen)
{
	struct iovec iov = { buf, len };
	RS_CALL struct rsocket *rs = rs_enter(fd);
	int ignored = 0;

	return rs ? recv_any(rs, &iov, 1, flags, from, fromlen, &ignored) : -1;
}

CMA_EXPORT ssize_t rrecv(int fd, void *buf, size_t len, int flags)
{
	return rrecvfrom(fd, buf, len, flags, NULL, NULL);
}

CMA_EXPORT ssize_t rread(int fd, void *buf, size_t len)
{
	return rrecvfrom(fd, buf, len, 0, NULL, NULL);
}

CMA_EXPORT ssize_t rreadv(int fd, const struct iovec *iov, int iovcnt)
{
	RS_CALL struct rsocket *rs = rs_enter(fd);
	int ignored = 0;

	return rs ? recv_any(rs, iov, iovcnt, 0, NULL, NULL, &ignored) : -1;
}

CMA_EXPORT ssize_t rrecvmsg(int fd, struct msghdr *msg, int flags)
{
	RS_CALL struct rsocket *rs = rs_enter(fd);
	int out = 0;
	ssize_t n;

	if (!rs)
		return -1;
	if (msg->msg_control && msg->msg_controllen)
		msg->msg_controllen = 0;
	n = recv_any(rs, msg->msg_iov, (int)min((size_t)msg->msg_iovlen, (size_t)INT_MAX), flags,
		     msg->msg_name, msg->msg_name ? &msg->msg_namelen : NULL, &out);
	if (n >= 0)
		msg->msg_flags = out;
	return n;
}
