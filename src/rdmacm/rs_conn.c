/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connecting and accepting.
 *
 *	RS_NEW, RS_BOUND --rconnect()--> RS_RESOLVING --> RS_ROUTING --> RS_CONNECTING --> RS_OPEN
 *	request --> RS_ACCEPTING --> RS_OPEN
 *
 * Address resolution is retried with longer timeouts.  Any failure leads to RS_FAILED.
 */
#include "rdmacm/rs_conn.h"

#include <errno.h>
#include <string.h>

#include "rdmacm/rs_name.h"
#include "rdmacm/addr.h"
#include "rdmacm/event.h"
#include "rdmacm/id.h"
#include "rdmacm/rs_wait.h"
#include "run/log.h"

enum {
	FIRST_TIMEOUT_MS = 1000,
	TRIES = 7,
	HASTY_TRIES = 2, /* 3 s, as long as the system asks for a link address by default */
	RETRIES = 7, /* of the queue pair; RNR: unlimited */
};

static int timeout_ms(const struct rsocket *rs)
{
	return FIRST_TIMEOUT_MS << rs->tries;
}

/* ---- The active side ---- */

static void set_id_options(struct rsocket *rs)
{
	uint8_t tos = rs->opt.tos;

	if (tos)
		rdma_set_option(rs->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos));
}

static int resolve_addr(struct rsocket *rs)
{
	rs->state = RS_RESOLVING;
	set_id_options(rs);
	return rdma_resolve_addr(rs->id, NULL, (struct sockaddr *)&rs->peer, timeout_ms(rs)) ? errno
											     : 0;
}

static int resolve_route(struct rsocket *rs)
{
	rs->state = RS_ROUTING;
	if (rs->routes && !rdma_set_option(rs->id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, rs->route,
					   rs->routes * sizeof(*rs->route)))
		return 0;
	return rdma_resolve_route(rs->id, timeout_ms(rs)) ? errno : 0;
}

static int connect_id(struct rsocket *rs)
{
	uint8_t data[RS_CONN_LEN];
	struct rdma_conn_param param = {
		.private_data = data,
		.private_data_len = sizeof(data),
		.flow_control = 1,
		.retry_count = RETRIES,
		.rnr_retry_count = RETRIES,
	};
	int err = rs_stream_create(rs);

	if (err)
		return err;
	rs->state = RS_CONNECTING;
	if (rs->other_way)
		id_set_hasty(to_id(rs->id));
	rs_stream_describe(rs, data);
	return rdma_connect(rs->id, &param) ? errno : 0;
}

static void now_open(struct rsocket *rs)
{
	rs->state = RS_OPEN;
	rs->can_read = rs->can_write = rs->was_open = true;
	rs_stream_progress(rs);
}

static int established(struct rsocket *rs, const struct rdma_conn_param *conn)
{
	int err;

	if (rs->state == RS_CONNECTING) {
		err = rs_stream_peer(rs, conn->private_data, conn->private_data_len);
		if (err)
			return err;
		now_open(rs);
	} else if (rs->state == RS_ACCEPTING) {
		now_open(rs);
	}
	return 0;
}

/* Retries after a timeout; other failures are returned to the program. */
static int unresolved(struct rsocket *rs, int status)
{
	int err = status < 0 ? -status : status ? status : EIO;
	unsigned int tries = rs->other_way ? HASTY_TRIES : TRIES;

	if (err != ETIMEDOUT || ++rs->tries == tries)
		return err;
	return rs->state == RS_RESOLVING ? resolve_addr(rs) : resolve_route(rs);
}

static int connection_failed(const struct rdma_cm_event *e)
{
	if (e->event == RDMA_CM_EVENT_REJECTED)
		return ECONNREFUSED;
	if (e->event == RDMA_CM_EVENT_UNREACHABLE)
		return ETIMEDOUT;
	return e->status < 0 ? -e->status : EIO;
}

/* The peer gave up what it had sent, and not all of that has arrived. */
static bool was_reset(const struct rsocket *rs, struct rdma_cm_event *e)
{
	uint64_t sent;

	return !rs->stream.complete && rs_reset_decode(to_event(e)->data, &sent) &&
	       rs->stream.rx.total < sent;
}

/*
 * Takes in what the peer sent before it disconnected.  It has the acknowledgements, but the
 * completions may not be shown yet; those of a queue pair in ERR are.
 */
static int disconnected(struct rsocket *rs, struct rdma_cm_event *e)
{
	if (rs->state != RS_OPEN)
		return rs->state == RS_CLOSED ? 0 : ECONNRESET;
	rs_stream_stop(rs);
	rs_closed(rs);
	rs_stream_progress(rs);
	return was_reset(rs, e) ? ECONNRESET : 0;
}

static int take_event(struct rsocket *rs, struct rdma_cm_event *e)
{
	switch (e->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		return resolve_route(rs);
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		return connect_id(rs);
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return unresolved(rs, e->status);
	case RDMA_CM_EVENT_ESTABLISHED:
		return established(rs, &e->param.conn);
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
		return connection_failed(e);
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return ENODEV;
	case RDMA_CM_EVENT_DISCONNECTED:
		return disconnected(rs, e);
	default:
		return 0;
	}
}

/* True if later events change nothing. */
static bool is_over(const struct rsocket *rs)
{
	return rs->state == RS_CLOSED || rs->state == RS_FAILED;
}

bool rs_conn_progress(struct rsocket *rs)
{
	struct rdma_cm_event *e;
	bool any = false;
	int err;

	while (!rdma_get_cm_event(rs->id->channel, &e)) {
		any = true;
		rs->peer_gone |= e->event == RDMA_CM_EVENT_DISCONNECTED;
		err = is_over(rs) ? 0 : take_event(rs, e);
		rdma_ack_cm_event(e);
		if (err)
			rs_fail(rs, err);
	}
	return any;
}

int rs_conn_start(struct rsocket *rs, const struct sockaddr *addr)
{
	struct net_addr gid = addr_gid(addr);
	int err;

	rs->tries = 0;
	/* rdma_cm takes mapped addresses for IPv6. */
	if (addr->sa_family == AF_INET6 && net_is_ipv4(&gid))
		addr_from_gid(&rs->peer, &gid, addr_port(addr), 0);
	else
		memcpy(&rs->peer, addr, addr_len(addr));
	err = resolve_addr(rs);
	if (err)
		rs_fail(rs, err);
	else
		rs_conn_progress(rs);
	return rs->state == RS_FAILED ? rs->error : 0;
}

/* ---- The passive side ---- */

static int answer(struct rsocket *rs, const struct rdma_conn_param *request)
{
	uint8_t data[RS_CONN_LEN];
	struct rdma_conn_param param = *request;
	int err = rs_stream_create(rs);

	if (!err)
		err = rs_stream_peer(rs, request->private_data, request->private_data_len);
	if (err)
		return err;
	rs_stream_describe(rs, data);
	param.private_data = data;
	param.private_data_len = sizeof(data);
	rs->state = RS_ACCEPTING;
	return rdma_accept(rs->id, &param) ? errno : 0;
}

static int accept_id(struct rsocket *rs, struct rdma_cm_id *id, const struct rdma_conn_param *conn)
{
	/* The new rsocket has an id already, which is replaced by the request's. */
	if (rdma_migrate_id(id, rs->id->channel))
		return errno;
	rdma_destroy_id(rs->id);
	rs->id = id;
	return answer(rs, conn);
}

struct rsocket *rs_conn_accept(struct rsocket *listener, struct rdma_cm_event *request)
{
	struct rdma_cm_id *id = request->id;
	struct rs_conn peer;
	struct rsocket *rs = NULL;
	int err = rs_conn_decode(request->param.conn.private_data,
				 request->param.conn.private_data_len, &peer);

	if (!err) {
		rs = rs_new(listener->domain, SOCK_STREAM, &listener->opt);
		err = rs ? accept_id(rs, id, &request->param.conn) : errno;
	}
	rdma_ack_cm_event(request);
	if (!err) {
		rs->nonblock = listener->nonblock;
		return rs;
	}
	/* raccept() does not tell: the connection that it would return is no more. */
	errno = err;
	log_limited(LOG_VERBS, LOG_WARN, "rsocket: refused a connection: %m");
	rdma_reject(id, NULL, 0);
	if (!rs || rs->id != id)
		rdma_destroy_id(id);
	if (rs)
		rs_put(rs);
	return NULL;
}
