/* SPDX-License-Identifier: BSD-2-Clause */
/* rsetsockopt(), rgetsockopt(), rfcntl(). */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "rdmacm/rs.h"
#include "rdmacm/rs_config.h"
#include "rdmacm/rs_listen.h"
#include "rdmacm/rs_service.h"
#include "util/sockopt.h"

enum {
	MOST_ROUTES = 64,
	MTU_UNKNOWN = 2048,
};

/* ---- Values ---- */

static int take_int(const void *value, socklen_t len, int *out)
{
	if (!value)
		return EFAULT;
	if (len < sizeof(*out))
		return EINVAL;
	memcpy(out, value, sizeof(*out));
	return 0;
}

/* As Linux does for IPPROTO_IP: many programs pass a byte. */
static int take_int_or_byte(const void *value, socklen_t len, int *out)
{
	uint8_t byte;

	if (!value || !len || len >= sizeof(*out))
		return take_int(value, len, out);
	memcpy(&byte, value, sizeof(byte));
	*out = byte;
	return 0;
}

/* Returns a value as getsockopt() does: truncated to *len, which is set to the length copied. */
static int give(const void *from, socklen_t size, void *value, socklen_t *len)
{
	if (!value || !len)
		return EFAULT;
	*len = min(*len, size);
	memcpy(value, from, *len);
	return 0;
}

static int give_int(int v, void *value, socklen_t *len)
{
	return give(&v, sizeof(v), value, len);
}

/* Twice the requested size, as TCP does. */
static uint32_t doubled(int v)
{
	return (uint32_t)min(max(v, RS_MEMORY_LEAST / 2), RS_MEMORY_MOST / 2) * 2;
}

/*
 * True once the buffers exist: sizes cannot be changed any more.  Datagrams wait in a queue, whose
 * limit can.
 */
static bool is_made(const struct rsocket *rs)
{
	return rs->stream.cq != NULL;
}

/* ---- SOL_SOCKET ---- */

static int set_keepalive(struct rsocket *rs, bool on)
{
	rs->opt.keepalive = on;
	if (!on)
		rs_no_keepalive(rs);
	else if (rs->state == RS_OPEN)
		return rs_keepalive(rs);
	return 0;
}

static int set_timeout(int *ms, const void *value, socklen_t len)
{
	struct timeval t;

	if (len < sizeof(t))
		return EINVAL;
	memcpy(&t, value, sizeof(t));
	if (t.tv_sec < 0 || t.tv_usec < 0 || t.tv_usec >= 1000000)
		return EDOM;
	*ms = (int)(min((int64_t)t.tv_sec, (int64_t)(INT32_MAX / 1000 - 1)) * 1000 +
		    (t.tv_usec + 999) / 1000);
	if (!*ms)
		*ms = -1;
	return 0;
}

static int set_socket(struct rsocket *rs, int name, const void *value, socklen_t len)
{
	/* The value may be shorter than a number. */
	int v = 0, err = name == SO_BINDTODEVICE ? 0 : take_int(value, len, &v);

	if (err)
		return err;
	switch (name) {
	case SO_REUSEADDR:
	case SO_REUSEPORT:
		/*
		 * SO_REUSEPORT has no effect: ids of rdma_cm share a port if all set
		 * SO_REUSEADDR.
		 */
		rs->opt.reuse = name == SO_REUSEADDR ? v : rs->opt.reuse;
		return 0;
	case SO_RCVBUF:
		if (!is_made(rs))
			rs->opt.rcvbuf = doubled(v);
		return 0;
	case SO_SNDBUF:
		if (!is_made(rs))
			rs->opt.sndbuf = doubled(v);
		return 0;
	case SO_LINGER:
		if (len < sizeof(rs->opt.linger))
			return EINVAL;
		memcpy(&rs->opt.linger, value, sizeof(rs->opt.linger));
		return 0;
	case SO_KEEPALIVE:
		return set_keepalive(rs, v);
	case SO_OOBINLINE:
		rs->opt.oob_inline = v;
		return 0;
	case SO_RCVTIMEO:
		return set_timeout(&rs->opt.rcv_timeout, value, len);
	case SO_SNDTIMEO:
		return set_timeout(&rs->opt.snd_timeout, value, len);
	default:
		return ENOTSUP;
	}
}

static int give_timeout(int ms, void *value, socklen_t *len)
{
	struct timeval t = { 0 };

	if (ms > 0) {
		t.tv_sec = ms / 1000;
		t.tv_usec = ms % 1000 * 1000;
	}
	return give(&t, sizeof(t), value, len);
}

static int take_error(struct rsocket *rs)
{
	int err = rs->so_error;

	rs->so_error = 0;
	return err;
}

static int get_socket(struct rsocket *rs, int name, void *value, socklen_t *len)
{
	switch (name) {
	case SO_REUSEADDR:
	case SO_REUSEPORT:
		return give_int(rs->opt.reuse, value, len);
	case SO_RCVBUF:
		return give_int((int)rs->opt.rcvbuf, value, len);
	case SO_SNDBUF:
		return give_int((int)rs->opt.sndbuf, value, len);
	case SO_LINGER:
		return give(&rs->opt.linger, sizeof(rs->opt.linger), value, len);
	case SO_KEEPALIVE:
		return give_int(rs->opt.keepalive, value, len);
	case SO_OOBINLINE:
		return give_int(rs->opt.oob_inline, value, len);
	case SO_BROADCAST:
		return give_int(0, value, len);
	case SO_ERROR:
		return give_int(take_error(rs), value, len);
	case SO_TYPE:
		return give_int(rs->type, value, len);
	case SO_DOMAIN:
		return give_int(rs->domain, value, len);
	case SO_PROTOCOL:
		return give_int(rs_is_stream(rs) ? IPPROTO_TCP : IPPROTO_UDP, value, len);
	case SO_ACCEPTCONN:
		return give_int(rs->state == RS_LISTENING, value, len);
	case SO_RCVTIMEO:
		return give_timeout(rs->opt.rcv_timeout, value, len);
	case SO_SNDTIMEO:
		return give_timeout(rs->opt.snd_timeout, value, len);
	default:
		return ENOTSUP;
	}
}

/* ---- IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP ---- */

static int set_tos(struct rsocket *rs, int tos)
{
	uint8_t v = (uint8_t)tos;

	rs->opt.tos = v;
	if (!rs_is_stream(rs) || rs->state > RS_BOUND)
		return 0;
	return rdma_set_option(rs->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &v, sizeof(v)) ? errno
											  : 0;
}

static int set_ip(struct rsocket *rs, int name, const void *value, socklen_t len)
{
	int v = 0, err = take_int_or_byte(value, len, &v);

	if (err)
		return err;
	return name == IP_TOS ? set_tos(rs, v) : ENOTSUP;
}

static int set_ipv6(struct rsocket *rs, int name, const void *value, socklen_t len)
{
	int v = 0, err = take_int(value, len, &v);

	if (err)
		return err;
	switch (name) {
	case IPV6_V6ONLY:
		rs->opt.only_v6 = v;
		rs->opt.only_v6_set = true;
		return 0;
	case IPV6_TCLASS:
		return set_tos(rs, v);
	default:
		return ENOTSUP;
	}
}

static int set_keep_idle(struct rsocket *rs, int v)
{
	if (v <= 0)
		return EINVAL;
	rs->opt.keep_idle = (uint32_t)v;
	return rs->opt.keepalive ? set_keepalive(rs, true) : 0;
}

static int set_tcp(struct rsocket *rs, int name, const void *value, socklen_t len)
{
	int v = 0, err = name == TCP_CONGESTION ? 0 : take_int(value, len, &v);

	if (err)
		return err;
	switch (name) {
	case TCP_NODELAY:
		rs->opt.nodelay = v;
		return 0;
	case TCP_KEEPIDLE:
		return set_keep_idle(rs, v);
	case TCP_KEEPINTVL:
		rs->opt.keep_intvl = (uint32_t)v;
		return 0;
	case TCP_KEEPCNT:
		rs->opt.keep_cnt = (uint32_t)v;
		return 0;
	case TCP_MAXSEG:
	case TCP_CONGESTION:
	case TCP_QUICKACK:
	case TCP_CORK:
	case TCP_DEFER_ACCEPT:
	case TCP_USER_TIMEOUT:
		return 0;
	default:
		return ENOTSUP;
	}
}

static int max_segment(const struct rsocket *rs)
{
	const struct rdma_route *route = rs_is_stream(rs) ? &rs->id->route : NULL;

	if (!route || !route->num_paths)
		return MTU_UNKNOWN;
	return 1 << ((route->path_rec->mtu & 7) + 7);
}

/* Of a listener Linux gives the length of its queue and the backlog as "unacked" and "sacked". */
static int give_info(struct rsocket *rs, void *value, socklen_t *len)
{
	struct tcp_info info = {
		.tcpi_state = rs->state == RS_OPEN        ? TCP_ESTABLISHED
			      : rs->state == RS_LISTENING ? TCP_LISTEN
			      : rs_in_progress(rs)        ? TCP_SYN_SENT
							  : TCP_CLOSE,
		.tcpi_snd_mss = (uint32_t)max_segment(rs),
		.tcpi_rcv_mss = (uint32_t)max_segment(rs),
	};

	if (rs->state == RS_LISTENING)
		info.tcpi_unacked = rs_listen_pending(rs, &info.tcpi_sacked);
	return give(&info, sizeof(info), value, len);
}

static int get_tcp(struct rsocket *rs, int name, void *value, socklen_t *len)
{
	switch (name) {
	case TCP_NODELAY:
		return give_int(rs->opt.nodelay, value, len);
	case TCP_KEEPIDLE:
		return give_int((int)rs->opt.keep_idle, value, len);
	case TCP_KEEPINTVL:
		return give_int((int)rs->opt.keep_intvl, value, len);
	case TCP_KEEPCNT:
		return give_int((int)rs->opt.keep_cnt, value, len);
	case TCP_MAXSEG:
		return give_int(max_segment(rs), value, len);
	case TCP_INFO:
		return give_info(rs, value, len);
	case TCP_CONGESTION:
		return give("rdma", sizeof("rdma"), value, len);
	default:
		return ENOTSUP;
	}
}

/* ---- SOL_RDMA ---- */

static int set_route(struct rsocket *rs, const void *value, socklen_t len)
{
	struct ibv_path_data *copy;
	size_t n = len / sizeof(*copy);

	if (!n || n > MOST_ROUTES || len % sizeof(*copy))
		return EINVAL;
	copy = malloc(len);
	if (!copy)
		return ENOMEM;
	memcpy(copy, value, len);
	free(rs->route);
	rs->route = copy;
	rs->routes = (unsigned int)n;
	return 0;
}

static int set_rdma(struct rsocket *rs, int name, const void *value, socklen_t len)
{
	int v = 0, err = name == RDMA_ROUTE ? 0 : take_int(value, len, &v);

	if (err)
		return err;
	if (rs->state > RS_BOUND && rs->state != RS_LISTENING)
		return EINVAL;
	switch (name) {
	case RDMA_SQSIZE:
		rs->opt.sq = (uint32_t)min(max(v, RS_QUEUE_LEAST), RS_QUEUE_MOST);
		return 0;
	case RDMA_RQSIZE:
		rs->opt.rq = (uint32_t)min(max(v, RS_QUEUE_LEAST), RS_QUEUE_MOST);
		return 0;
	case RDMA_INLINE:
		rs->opt.inline_max = (uint32_t)min(max(v, 0), 4096);
		return 0;
	case RDMA_IOMAPSIZE:
		rs->opt.iomap = rs_unscale8(rs_scale8((uint32_t)min(max(v, 0), RS_IOMAP_MOST)));
		return 0;
	case RDMA_ROUTE:
		return set_route(rs, value, len);
	default:
		return ENOTSUP;
	}
}

/* The path of a connection, in the form in which RDMA_ROUTE takes it. */
static struct ibv_path_data path_data(const struct ibv_sa_path_rec *rec)
{
	const uint8_t exactly = 2 << 6;

	return (struct ibv_path_data){
		.flags = rec->preference,
		.path = {
			.dgid = rec->dgid,
			.sgid = rec->sgid,
			.dlid = rec->dlid,
			.slid = rec->slid,
			.flowlabel_hoplimit =
				htobe32(be32toh(rec->flow_label) << 8 | rec->hop_limit),
			.tclass = rec->traffic_class,
			.reversible_numpath = (uint8_t)(rec->reversible << 7 | rec->numb_path),
			.pkey = rec->pkey,
			.qosclass_sl = htobe16(rec->sl),
			.mtu = exactly | rec->mtu,
			.rate = exactly | rec->rate,
			.packetlifetime = exactly | rec->packet_life_time,
		},
	};
}

/* What the program has set, else what the connection uses; nothing before there is one. */
static int give_route(const struct rsocket *rs, void *value, socklen_t *len)
{
	const struct rdma_route *route = rs_is_stream(rs) ? &rs->id->route : NULL;
	struct ibv_path_data path = { .flags = 0 };

	if (rs->route)
		return give(rs->route, (socklen_t)(rs->routes * sizeof(*rs->route)), value, len);
	if (!route || !route->num_paths)
		return give(&path, 0, value, len);
	path = path_data(route->path_rec);
	return give(&path, sizeof(path), value, len);
}

static int get_rdma(struct rsocket *rs, int name, void *value, socklen_t *len)
{
	switch (name) {
	case RDMA_SQSIZE:
		return give_int((int)rs->opt.sq, value, len);
	case RDMA_RQSIZE:
		return give_int((int)rs->opt.rq, value, len);
	case RDMA_INLINE:
		return give_int((int)rs->opt.inline_max, value, len);
	case RDMA_IOMAPSIZE:
		return give_int((int)rs->opt.iomap, value, len);
	case RDMA_ROUTE:
		return give_route(rs, value, len);
	default:
		return ENOTSUP;
	}
}

/* ---- The calls ---- */

static int set_option(struct rsocket *rs, int level, int name, const void *value, socklen_t len)
{
	if (!value && len)
		return EFAULT;
	switch (level) {
	case SOL_SOCKET:
		return set_socket(rs, name, value, len);
	case IPPROTO_IP:
		return set_ip(rs, name, value, len);
	case IPPROTO_IPV6:
		return set_ipv6(rs, name, value, len);
	case IPPROTO_TCP:
		return rs_is_stream(rs) ? set_tcp(rs, name, value, len) : ENOTSUP;
	case SOL_RDMA:
		return set_rdma(rs, name, value, len);
	default:
		return ENOTSUP;
	}
}

CMA_EXPORT int rsetsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	RS_CALL struct rsocket *rs = rs_enter(fd);
	int err;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	err = set_option(rs, level, name, value, len);
	/* Datagram rsockets pass other options to their UDP socket. */
	if (!rs_is_stream(rs) && !sockopt_concerns_data(level, name) && (!err || err == ENOTSUP))
		err = setsockopt(fd, level, name, value, len) ? errno : 0;
	pthread_mutex_unlock(&rs->lock);
	return cma_result(err);
}

static int get_option(struct rsocket *rs, int level, int name, void *value, socklen_t *len)
{
	switch (level) {
	case SOL_SOCKET:
		return get_socket(rs, name, value, len);
	case IPPROTO_IP:
		return name == IP_TOS ? give_int(rs->opt.tos, value, len) : ENOTSUP;
	case IPPROTO_IPV6:
		if (name == IPV6_TCLASS)
			return give_int(rs->opt.tos, value, len);
		return name == IPV6_V6ONLY ? give_int(rs->opt.only_v6, value, len) : ENOTSUP;
	case IPPROTO_TCP:
		return rs_is_stream(rs) ? get_tcp(rs, name, value, len) : ENOTSUP;
	case SOL_RDMA:
		return get_rdma(rs, name, value, len);
	default:
		return ENOTSUP;
	}
}

CMA_EXPORT int rgetsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	RS_CALL struct rsocket *rs = rs_enter(fd);
	int err;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	err = get_option(rs, level, name, value, len);
	pthread_mutex_unlock(&rs->lock);
	return cma_result(err);
}

static int get_flags(const struct rsocket *rs)
{
	return O_RDWR | (rs->nonblock ? O_NONBLOCK : 0);
}

CMA_EXPORT int rfcntl(int fd, int cmd, ...)
{
	RS_CALL struct rsocket *rs = rs_enter(fd);
	va_list args;
	long arg;

	if (!rs)
		return -1;
	va_start(args, cmd);
	arg = va_arg(args, long);
	va_end(args);
	switch (cmd) {
	case F_GETFL:
		return get_flags(rs);
	case F_SETFL:
		rs->nonblock = arg & O_NONBLOCK;
		return 0;
	case F_GETFD:
		return rs->cloexec ? FD_CLOEXEC : 0;
	case F_SETFD:
		rs->cloexec = arg & FD_CLOEXEC;
		return 0;
	default:
		return cma_result(ENOTSUP);
	}
}
