/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Delivery of events: when the program fetches an event, the verbs that the event requires are
 * called first. No lock is held; the id is kept because the event counts on it.
 */
#include <errno.h>
#include <stdlib.h>

#include "rdmacm/cma.h"
#include "rdmacm/diagnose.h"
#include "rdmacm/event.h"
#include "rdmacm/group.h"
#include "rdmacm/id.h"
#include "rdmacm/path.h"
#include "rdmacm/qp.h"

/* Returns false if the event must not be delivered. */
typedef bool (*deliver_fn)(struct cma_id *id, struct event *e);

static bool addr_resolved(struct cma_id *id, struct event *e)
{
	path_show(id);
	return true;
}

static void reject(struct cma_id *id, unsigned int reason)
{
	cma_lock();
	if (id->conn)
		cm_reject(&cma.engine, &id->conn->cm, reason, NULL, 0, NULL, 0, qp1.now());
	cma_unlock();
}

/*
 * Assigns the new id to the device with the address that the request was sent to.  That of a
 * synchronous listener is synchronous, too.
 */
static bool connect_request(struct cma_id *id, struct event *e)
{
	if (!path_of_request(id)) {
		if (!e->counts_on->sync || !rdma_migrate_id(&id->pub, NULL))
			return true;
		rdma_destroy_id(&id->pub);
		return false;
	}
	/* The address has left the device since the request arrived. */
	reject(id, CM_REJ_INVALID_GID);
	cma_lock();
	id_discard(id);
	cma_unlock();
	return false;
}

/*
 * REP arrived: with a QP of the id, moves it to RTS and sends RTU; without one, the program does
 * both.
 */
static int establish(struct cma_id *id)
{
	int err = qp_connect(id);

	if (err)
		return err;
	cma_lock();
	err = id->conn ? cm_establish(&cma.engine, &id->conn->cm, NULL, 0) : EINVAL;
	cma_unlock();
	return err;
}

static bool connect_response(struct cma_id *id, struct event *e)
{
	int err;

	if (!id->pub.qp)
		return true;
	err = establish(id);
	e->pub.event = err ? RDMA_CM_EVENT_CONNECT_ERROR : RDMA_CM_EVENT_ESTABLISHED;
	e->pub.status = -err;
	if (!err)
		return true;
	id->mute = true;
	qp_fail(id);
	reject(id, CM_REJ_CONSUMER);
	return true;
}

static bool rejected(struct cma_id *id, struct event *e)
{
	qp_fail(id);
	return !id->mute;
}

static bool disconnected(struct cma_id *id, struct event *e)
{
	return !id->mute;
}

static bool multicast_join(struct cma_id *id, struct event *e)
{
	int err = group_attach(id, e->group);

	if (err) {
		e->pub.event = RDMA_CM_EVENT_MULTICAST_ERROR;
		e->pub.status = -err;
	}
	return true;
}

static const deliver_fn deliver_fns[] = {
	[RDMA_CM_EVENT_ADDR_RESOLVED] = addr_resolved,
	[RDMA_CM_EVENT_CONNECT_REQUEST] = connect_request,
	[RDMA_CM_EVENT_CONNECT_RESPONSE] = connect_response,
	[RDMA_CM_EVENT_REJECTED] = rejected,
	[RDMA_CM_EVENT_DISCONNECTED] = disconnected,
	[RDMA_CM_EVENT_MULTICAST_JOIN] = multicast_join,
};

bool event_deliver(struct event *e)
{
	deliver_fn fn = e->pub.event < ARRAY_SIZE(deliver_fns) ? deliver_fns[e->pub.event] : NULL;

	if (!fn || fn(to_id(e->pub.id), e))
		return true;
	event_ack(e);
	return false;
}

CMA_EXPORT int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **out)
{
	struct event *e;

	if (!channel || !out)
		return cma_result(EINVAL);
	if (to_channel(channel)->generation != cma.generation)
		return cma_result(diagnose_inherited());
	for (;;) {
		int err = channel_take(to_channel(channel), &e);

		if (err)
			return cma_result(err);
		if (event_deliver(e))
			break;
	}
	*out = &e->pub;
	return 0;
}

CMA_EXPORT int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	if (!event)
		return cma_result(EINVAL);
	event_ack(to_event(event));
	return 0;
}

CMA_EXPORT int rdma_write_cm_event(struct rdma_cm_id *pub, enum rdma_cm_event_type type, int status,
				   uint64_t arg)
{
	struct cma_id *id = pub ? to_id(pub) : NULL;
	int err = type == RDMA_CM_EVENT_USER ? id_enter_channel(id) : EINVAL;
	struct event *e;

	if (err)
		return cma_result(err);
	e = event_new(id, type, status);
	if (e) {
		e->pub.param.arg = arg;
		event_post(e);
	}
	cma_unlock();
	return cma_result(e ? 0 : ENOMEM);
}

CMA_EXPORT const char *rdma_event_str(enum rdma_cm_event_type type)
{
	static const char *const names[] = {
#define NAME(x) [x] = #x
		NAME(RDMA_CM_EVENT_ADDR_RESOLVED),     NAME(RDMA_CM_EVENT_ADDR_ERROR),
		NAME(RDMA_CM_EVENT_ROUTE_RESOLVED),    NAME(RDMA_CM_EVENT_ROUTE_ERROR),
		NAME(RDMA_CM_EVENT_CONNECT_REQUEST),   NAME(RDMA_CM_EVENT_CONNECT_RESPONSE),
		NAME(RDMA_CM_EVENT_CONNECT_ERROR),     NAME(RDMA_CM_EVENT_UNREACHABLE),
		NAME(RDMA_CM_EVENT_REJECTED),          NAME(RDMA_CM_EVENT_ESTABLISHED),
		NAME(RDMA_CM_EVENT_DISCONNECTED),      NAME(RDMA_CM_EVENT_DEVICE_REMOVAL),
		NAME(RDMA_CM_EVENT_MULTICAST_JOIN),    NAME(RDMA_CM_EVENT_MULTICAST_ERROR),
		NAME(RDMA_CM_EVENT_ADDR_CHANGE),       NAME(RDMA_CM_EVENT_TIMEWAIT_EXIT),
		NAME(RDMA_CM_EVENT_ADDRINFO_RESOLVED), NAME(RDMA_CM_EVENT_ADDRINFO_ERROR),
#undef NAME
	};

	return (size_t)type < ARRAY_SIZE(names) ? names[type] : "UNKNOWN EVENT";
}
