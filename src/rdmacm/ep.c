/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints: rdma_create_ep(), and requests of synchronous listeners. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/rdma_verbs.h>

#include "rdmacm/cma.h"
#include "rdmacm/id.h"

enum { RESOLVE_MS = 2000 };

/* ---- Active ---- */

static int resolve_route(struct rdma_cm_id *id, struct rdma_addrinfo *res)
{
	int ret;

	if (!res->ai_route_len)
		return rdma_resolve_route(id, RESOLVE_MS);
	ret = rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, res->ai_route,
			      res->ai_route_len);
	return ret ? ret : id_wait(to_id(id));
}

static int keep_connect_data(struct cma_id *id, const struct rdma_addrinfo *res)
{
	if (!res->ai_connect_len)
		return 0;
	id->ep.connect = malloc(res->ai_connect_len);
	if (!id->ep.connect)
		return cma_result(ENOMEM);
	memcpy(id->ep.connect, res->ai_connect, res->ai_connect_len);
	id->ep.connect_len = res->ai_connect_len;
	return 0;
}

static int make_active(struct rdma_cm_id *id, struct rdma_addrinfo *res, struct ibv_pd *pd,
		       struct ibv_qp_init_attr *attr)
{
	if (rdma_resolve_addr(id, res->ai_src_addr, res->ai_dst_addr, RESOLVE_MS) ||
	    resolve_route(id, res))
		return -1;
	if (attr) {
		attr->qp_type = id->qp_type;
		if (rdma_create_qp(id, pd, attr))
			return -1;
	}
	return keep_connect_data(to_id(id), res);
}

/* ---- Passive ---- */

static int make_passive(struct rdma_cm_id *pub, struct rdma_addrinfo *res, struct ibv_pd *pd,
			const struct ibv_qp_init_attr *attr)
{
	struct cma_id *id = to_id(pub);

	if (rdma_bind_addr(pub, res->ai_src_addr))
		return -1;
	if (pd)
		pub->pd = pd;
	if (!attr)
		return 0;
	id->ep.qp_attr = malloc(sizeof(*attr));
	if (!id->ep.qp_attr)
		return cma_result(ENOMEM);
	*id->ep.qp_attr = *attr;
	id->ep.qp_attr->qp_type = pub->qp_type;
	return 0;
}

/* The result of a lookup by hints only may have none. */
static enum ibv_qp_type type_of(const struct rdma_addrinfo *res)
{
	return res->ai_qp_type ? (enum ibv_qp_type)res->ai_qp_type :
				 id_type_of((enum rdma_port_space)res->ai_port_space);
}

CMA_EXPORT int rdma_create_ep(struct rdma_cm_id **out, struct rdma_addrinfo *res, struct ibv_pd *pd,
			      struct ibv_qp_init_attr *attr)
{
	struct cma_id *id;
	int ret;

	if (!out || !res)
		return cma_result(EINVAL);
	ret = cma_result(id_create(NULL, NULL, (enum rdma_port_space)res->ai_port_space,
				   type_of(res), &id));
	if (ret)
		return ret;
	ret = res->ai_flags & RAI_PASSIVE ? make_passive(&id->pub, res, pd, attr)
					  : make_active(&id->pub, res, pd, attr);
	if (ret) {
		int err = errno;

		rdma_destroy_ep(&id->pub);
		return cma_result(err);
	}
	*out = &id->pub;
	return 0;
}

CMA_EXPORT void rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	if (id->srq)
		rdma_destroy_srq(id);
	rdma_destroy_id(id);
}

/* ---- Requests ---- */

/* The request stays in the new id until the next call on that id. */
static int adopt(struct cma_id *listener, struct rdma_cm_event *event)
{
	struct ibv_qp_init_attr attr;

	event->id->event = event;
	if (!listener->ep.qp_attr)
		return 0;
	attr = *listener->ep.qp_attr;
	return rdma_create_qp(event->id, listener->pub.pd, &attr);
}

/*
 * The listener gets only an event that is no request: several threads may wait for requests, and
 * its members are no place for each one's.
 */
static int next_request(struct cma_id *listener, struct rdma_cm_event **event)
{
	int err;

	id_ack_last(listener);
	if (rdma_get_cm_event(listener->pub.channel, event))
		return -1;
	if ((*event)->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		return 0;
	listener->pub.event = *event;
	err = id_event_errno(*event);
	return cma_result(err ? err : EINVAL);
}

CMA_EXPORT int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **out)
{
	struct cma_id *listener = listen ? to_id(listen) : NULL;
	int err = out ? id_enter(listener) : EINVAL;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	if (err)
		return cma_result(err);
	err = listener->sync ? 0 : EINVAL;
	cma_unlock();
	if (err)
		return cma_result(err);
	if (next_request(listener, &event))
		return -1;
	id = event->id;
	if (adopt(listener, event)) {
		err = errno;
		rdma_destroy_ep(id);
		return cma_result(err);
	}
	*out = id;
	return 0;
}
