/* SPDX-License-Identifier: BSD-2-Clause */
/* Display of ids for other processes. */
#include "rdmacm/view.h"

#include "rdmacm/addr.h"
#include "rdmacm/cma.h"
#include "rdmacm/id.h"

/* True once both sides have begun to disconnect, or the connection has ended. */
static bool is_ending(const struct conn *conn)
{
	switch (conn->cm.state) {
	case CM_IDLE:
	case CM_DREQ_SENT:
	case CM_DREQ_RCVD:
	case CM_TIMEWAIT:
		return true;
	default:
		return false;
	}
}

/* Names of the kernel's id states. */
static const char *state_name(const struct cma_id *id)
{
	static const char *const names[] = {
		[ID_IDLE] = "IDLE",
		[ID_BOUND] = "ADDR_BOUND",
		[ID_LISTEN] = "LISTEN",
		[ID_ADDR_QUERY] = "ADDR_QUERY",
		[ID_ADDR_RESOLVED] = "ADDR_RESOLVED",
		[ID_ROUTE_RESOLVED] = "ROUTE_RESOLVED",
		[ID_CONNECT] = "CONNECT",
		[ID_DEAD] = "DEVICE_REMOVAL",
	};

	if (id->state == ID_CONNECT && (!id->conn || is_ending(id->conn)))
		return "DISCONNECT";
	if (id->destroyed)
		return "DESTROYING";
	return names[id->state];
}

static struct net_addr address_of(const struct sockaddr *a)
{
	static const struct net_addr none;

	return addr_len(a) && !addr_is_any(a) ? addr_gid(a) : none;
}

static void view_id(const struct cma_id *id, cm_show_fn fn, void *to)
{
	const struct rdma_addr *addr = &id->pub.route.addr;
	const struct device *dev = id->path.place.dev;
	struct cm_shown v = {
		.device = dev ? ibv_get_device_name(dev->verbs->device) : "",
		.state = state_name(id),
		.exchange = id->conn ? cm_state_name(id->conn->cm.state) : "",
		.port_space = id->pub.ps,
		.qp_type = (int)id->pub.qp_type,
		.qpn = id->qp_num,
		.src = address_of(&addr->src_addr),
		.dst = address_of(&addr->dst_addr),
		.src_port = addr_port(&addr->src_addr),
		.dst_port = addr_port(&addr->dst_addr),
	};

	fn(to, &v);
}

void view_ids(void *arg, cm_show_fn fn, void *to)
{
	struct list *pos;

	cma_lock();
	list_for_each (pos, &cma.ids)
		view_id(list_entry(pos, struct cma_id, node), fn, to);
	cma_unlock();
}
