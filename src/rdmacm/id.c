/* SPDX-License-Identifier: BSD-2-Clause */
/* Connection ids: creation, synchronous waits, migration, destruction. */
#include "rdmacm/id.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/addr.h"
#include "rdmacm/cma.h"
#include "rdmacm/diagnose.h"
#include "rdmacm/group.h"
#include "rdmacm/lookup.h"
#include "rdmacm/port.h"
#include "rdmacm/resolver.h"

int id_enter(struct cma_id *id)
{
	if (!id)
		return EINVAL;
	if (id->generation != cma.generation)
		return diagnose_inherited();
	cma_lock();
	return 0;
}

int id_enter_channel(struct cma_id *id)
{
	int err = id_enter(id);

	if (err || id->pub.channel)
		return err;
	cma_unlock();
	return EINVAL;
}

/* ---- Creation ---- */

struct cma_id *id_new(struct channel *ch, void *context, enum rdma_port_space ps,
		      enum ibv_qp_type type)
{
	struct cma_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->pub.channel = &ch->pub;
	id->pub.context = context;
	id->pub.ps = ps;
	id->pub.qp_type = type;
	id->generation = cma.generation;
	list_init(&id->node);
	list_init(&id->on_listen);
	list_init(&id->groups);
	return id;
}

void id_add(struct cma_id *id)
{
	list_add_tail(&cma.ids, &id->node);
}

static bool ps_known(enum rdma_port_space ps)
{
	return ps == RDMA_PS_TCP || ps == RDMA_PS_UDP || ps == RDMA_PS_IB || ps == RDMA_PS_IPOIB;
}

/* Without a channel the id gets its own and is synchronous. */
static int create(struct channel *ch, void *context, enum rdma_port_space ps, enum ibv_qp_type type,
		  struct cma_id **out)
{
	struct channel *own = NULL;
	int err = ch ? 0 : channel_create(&own);

	if (err)
		return err;
	*out = id_new(ch ? ch : own, context, ps, type);
	if (!*out) {
		if (own)
			channel_destroy(own);
		return ENOMEM;
	}
	(*out)->sync = own != NULL;
	cma_lock();
	id_add(*out);
	cma_unlock();
	return 0;
}

int id_create(struct channel *ch, void *context, enum rdma_port_space ps, enum ibv_qp_type type,
	      struct cma_id **out)
{
	int err;

	if (!ps_known(ps))
		return EINVAL;
	if (ch && ch->generation != cma.generation)
		return diagnose_inherited();
	err = device_any();
	return err ? err : create(ch, context, ps, type, out);
}

enum ibv_qp_type id_type_of(enum rdma_port_space ps)
{
	return ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB ? IBV_QPT_UD : IBV_QPT_RC;
}

CMA_EXPORT int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id,
			      void *context, enum rdma_port_space ps)
{
	struct cma_id *made;
	int err;

	if (!id)
		return cma_result(EINVAL);
	err = id_create(channel ? to_channel(channel) : NULL, context, ps, id_type_of(ps), &made);
	if (!err)
		*id = &made->pub;
	return cma_result(err);
}

/* They repeat after 2^22; a connection may live longer than that. Under the lock. */
static uint32_t unused_comm_id(void)
{
	uint32_t id;

	do
		id = qp1.comm_id(cma.mad);
	while (cm_find(&cma.engine, id));
	return id;
}

int id_new_conn(struct cma_id *id)
{
	struct conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return ENOMEM;
	cm_conn_init(&conn->cm, unused_comm_id());
	conn->id = id;
	id->conn = conn;
	return 0;
}

/* ---- Fields the program sees ---- */

void id_resolved(struct cma_id *id, int status)
{
	if (id->state != ID_ADDR_QUERY)
		return;
	id->state = status ? ID_BOUND : ID_ADDR_RESOLVED;
	event_raise(id, status ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED, status);
}

void id_show_place(struct cma_id *id)
{
	struct rdma_addr *addr = &id->pub.route.addr;

	id->pub.verbs = id->path.place.dev->verbs;
	id->pub.port_num = id->path.place.port_num;
	if (!id->pub.pd)
		id->pub.pd = id->path.place.dev->pd;
	memcpy(addr->addr.ibaddr.sgid.raw, id->path.src.raw, sizeof(id->path.src.raw));
	memcpy(addr->addr.ibaddr.dgid.raw, id->path.dst.raw, sizeof(id->path.dst.raw));
}

void id_show_path(struct cma_id *id, const struct ibv_sa_path_rec *rec)
{
	id->path_rec = *rec;
	id->pub.route.path_rec = &id->path_rec;
	id->pub.route.num_paths = 1;
}

/* ---- Destruction ---- */

void id_end_conn(struct cma_id *id)
{
	struct conn *conn = id->conn;

	if (!conn)
		return;
	id->conn = NULL;
	conn->id = NULL;
	cm_destroy(&cma.engine, &conn->cm, qp1.now());
}

void id_set_dreq_data(struct cma_id *id, const void *data, size_t len)
{
	cma_lock();
	if (id->conn)
		cm_set_dreq_data(&cma.engine, &id->conn->cm, data, len);
	cma_unlock();
}

void id_set_hasty(struct cma_id *id)
{
	cma_lock();
	id->hasty = true;
	cma_unlock();
}

/*
 * Requests that the program has fetched and may still accept, and those it has accepted, whose REP
 * may be lost: their peers are told to wait, because a repetition would find no listener and be
 * refused.
 */
static void keep_requests(const struct cma_id *listener)
{
	struct list *pos;

	list_for_each (pos, &cma.ids) {
		const struct cma_id *id = list_entry(pos, struct cma_id, node);
		struct conn *conn = id->child && !id->request ? id->conn : NULL;

		if (conn && conn->cm.service_id == listener->service.service_id)
			cm_acknowledge(&cma.engine, &conn->cm, CM_SERVICE_TIMEOUT);
	}
}

void id_shut(struct cma_id *id)
{
	id_end_conn(id);
	if (!list_empty(&id->on_listen))
		keep_requests(id);
	list_del(&id->on_listen);
	port_leave(id);
	lookup_cancel(id);
	id->state = ID_DEAD;
}

/* An unfetched event of an id that is destroyed; with a request, its id is discarded too. */
static void drop_event(struct event *e, void *arg)
{
	if (e->pub.event == RDMA_CM_EVENT_CONNECT_REQUEST)
		id_discard(to_id(e->pub.id));
	free(e);
}

/* It has no device to release: that is assigned when the event is fetched. */
void id_discard(struct cma_id *id)
{
	id_end_conn(id);
	list_del(&id->node);
	free(id);
}

static void id_free(struct cma_id *id)
{
	if (id->path.place.dev)
		device_put(id->path.place.dev);
	if (id->sync)
		channel_destroy(id_channel(id));
	free(id->ep.qp_attr);
	free(id->ep.connect);
	free(id);
}

static void destroy(struct cma_id *id)
{
	cma_settle();
	resolver_cancel(id);
	groups_leave(id);
	id_ack_last(id);
	cma_lock();
	id_shut(id);
	id->destroyed = true;
	if (id->pub.channel)
		channel_sweep(id_channel(id), id, drop_event, NULL);
	while (id->unacked || id->unacked_before)
		cma_wait_acked();
	list_del(&id->node);
	cma_unlock();
	id_free(id);
}

CMA_EXPORT int rdma_destroy_id(struct rdma_cm_id *id)
{
	if (!id)
		return cma_result(EINVAL);
	/*
	 * An id inherited from the parent stays untouched: it may have been changing during fork().
	 */
	if (to_id(id)->generation != cma.generation)
		return 0;
	destroy(to_id(id));
	return 0;
}

/* ---- Synchronous ids ---- */

int id_event_errno(const struct rdma_cm_event *e)
{
	if (e->event == RDMA_CM_EVENT_REJECTED)
		return ECONNREFUSED;
	return e->status < 0 ? -e->status : e->status;
}

void id_ack_last(struct cma_id *id)
{
	if (!id->sync || !id->pub.event)
		return;
	rdma_ack_cm_event(id->pub.event);
	id->pub.event = NULL;
}

int id_wait(struct cma_id *id)
{
	if (!id->sync)
		return 0;
	id_ack_last(id);
	if (rdma_get_cm_event(id->pub.channel, &id->pub.event))
		return -1;
	return cma_result(id_event_errno(id->pub.event));
}

int id_unlock_and_wait(struct cma_id *id)
{
	bool sync = id->sync;
	struct event *e = sync ? channel_take_uncounted(id_channel(id)) : NULL;

	cma_unlock();
	/* The thread that gets the event may have destroyed the id. */
	if (!sync)
		return 0;
	if (!e)
		return id_wait(id);
	id_ack_last(id);
	if (!event_deliver(e))
		return id_wait(id);
	id->pub.event = &e->pub;
	return cma_result(id_event_errno(id->pub.event));
}

/* ---- Channels of ids ---- */

CMA_EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct channel *ch;
	int err = device_any();

	if (!err)
		err = channel_create(&ch);
	if (!err)
		return &ch->pub;
	errno = err;
	return NULL;
}

/*
 * Shuts down all ids of a channel that is destroyed.  Their memory stays, because some programs
 * destroy them later.
 */
static void shut_all(const struct channel *ch)
{
	struct list *pos;

	list_for_each (pos, &cma.ids) {
		struct cma_id *id = list_entry(pos, struct cma_id, node);

		if (id->pub.channel != &ch->pub)
			continue;
		id_shut(id);
		id->pub.channel = NULL;
	}
}

static void resolver_cancel_all(const struct channel *ch)
{
	struct cma_id *found;

	do {
		struct list *pos;

		found = NULL;
		cma_lock();
		list_for_each (pos, &cma.ids) {
			struct cma_id *id = list_entry(pos, struct cma_id, node);

			if (id->pub.channel == &ch->pub && id->state == ID_ADDR_QUERY) {
				id->state = ID_DEAD;
				found = id;
				break;
			}
		}
		cma_unlock();
		if (found)
			resolver_cancel(found);
	} while (found);
}

CMA_EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	struct channel *ch = to_channel(channel);
	struct list *pos, *tmp;

	if (ch->generation == cma.generation) {
		resolver_cancel_all(ch);
		cma_lock();
		list_for_each_safe (pos, tmp, &ch->events) {
			struct event *e = list_entry(pos, struct event, node);

			event_unqueue(ch, e);
			drop_event(e, NULL);
		}
		shut_all(ch);
		cma_unlock();
	}
	channel_destroy(ch);
}

/* Moves queued events to the end of the new channel's queue.  Under the lock. */
static void move_event(struct event *e, void *arg)
{
	if (e->pub.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		to_id(e->pub.id)->pub.channel = &((struct channel *)arg)->pub;
		to_id(e->pub.id)->request = e;
		e->counts_on->waiting++;
	}
	event_post(e);
}

/*
 * Waits for the acknowledgements of what was fetched from the old channel only: a thread may hold
 * an event of the new one until this call has returned, or destroy the id meanwhile.
 */
static void migrate(struct cma_id *id, struct channel *to, bool sync)
{
	struct channel *from;

	cma_lock();
	from = id_channel(id);
	id->pub.channel = &to->pub;
	id->sync = sync;
	if (from != to)
		channel_sweep(from, id, move_event, to);
	id->migrations++;
	id->unacked_before += id->unacked;
	id->unacked = 0;
	while (id->unacked_before)
		cma_wait_acked();
	cma_unlock();
}

CMA_EXPORT int rdma_migrate_id(struct rdma_cm_id *pub, struct rdma_event_channel *channel)
{
	struct channel *to = channel ? to_channel(channel) : NULL, *own;
	struct cma_id *id = pub ? to_id(pub) : NULL;
	int err = id_enter_channel(id);

	if (err)
		return cma_result(err);
	if (id->sync && !channel)
		err = EINVAL;
	else if (to && to->generation != cma.generation)
		err = diagnose_inherited();
	cma_unlock();
	if (!err && !channel)
		err = channel_create(&to);
	if (err)
		return cma_result(err);
	own = id->sync && id_channel(id) != to ? id_channel(id) : NULL;
	id_ack_last(id);
	migrate(id, to, !channel);
	if (own)
		channel_destroy(own);
	return 0;
}

CMA_EXPORT __be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return htobe16(addr_port(&id->route.addr.src_addr));
}

CMA_EXPORT __be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return htobe16(addr_port(&id->route.addr.dst_addr));
}
