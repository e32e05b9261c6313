/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups of ids. */
#include "rdmacm/group.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rdmacm/addr.h"
#include "rdmacm/cma.h"
#include "rdmacm/id.h"

/* ---- The network ---- */

static int join_ipv4(int fd, const struct sockaddr_storage *addr, uint32_t ifindex)
{
	struct ip_mreqn req = {
		.imr_multiaddr = ((const struct sockaddr_in *)(const void *)addr)->sin_addr,
		.imr_ifindex = (int)ifindex,
	};

	return setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &req, sizeof(req)) < 0 ? errno : 0;
}

static int join_ipv6(int fd, const struct sockaddr_storage *addr, uint32_t ifindex)
{
	struct ipv6_mreq req = {
		.ipv6mr_multiaddr = ((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr,
		.ipv6mr_interface = ifindex,
	};

	return setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &req, sizeof(req)) < 0 ? errno : 0;
}

/* The membership ends when the socket is closed. */
static int become_member(struct group *g, uint32_t ifindex)
{
	struct sockaddr_storage addr;
	int err;

	addr_to_ip(&addr, (const struct sockaddr *)&g->addr, ifindex);
	g->member = socket(addr.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (g->member < 0)
		return errno;
	err = addr.ss_family == AF_INET ? join_ipv4(g->member, &addr, ifindex)
					: join_ipv6(g->member, &addr, ifindex);
	if (err == EADDRINUSE)
		err = 0;
	return err;
}

static void group_free(struct group *g)
{
	if (g->member >= 0)
		close(g->member);
	free(g);
}

/* ---- Joining ---- */

static int check(const struct cma_id *id, const struct sockaddr *addr)
{
	if (!addr || !addr_len(addr) || addr_is_any(addr) || !addr_is_multicast(addr))
		return EINVAL;
	if (!id->path.place.dev || !id_is_datagram(id))
		return EINVAL;
	return id->state == ID_BOUND || id->state == ID_ADDR_RESOLVED ||
			       id->state == ID_ROUTE_RESOLVED
		       ? 0
		       : EINVAL;
}

static struct group *new_group(const struct sockaddr *addr, bool send_only)
{
	struct group *g = calloc(1, sizeof(*g));
	struct net_addr gid = addr_gid(addr);

	if (!g)
		return NULL;
	memcpy(&g->addr, addr, addr_len(addr));
	memcpy(g->mgid.raw, gid.raw, sizeof(gid.raw));
	g->send_only = send_only;
	g->member = -1;
	return g;
}

/* Fills in how to send to the group. */
static void set_param(struct cma_id *id, struct event *e, const struct group *g, void *context)
{
	struct rdma_ud_param *p = &e->pub.param.ud;

	if (!id->qkey)
		id->qkey = RDMA_UDP_QKEY;
	/* Not private data, but the call's context argument. */
	p->private_data = context;
	p->qp_num = 0xffffff;
	p->qkey = id->qkey;
	p->ah_attr.is_global = 1;
	p->ah_attr.port_num = id->path.place.port_num;
	p->ah_attr.grh.dgid = g->mgid;
	p->ah_attr.grh.sgid_index = id->path.place.gid_index;
	p->ah_attr.grh.hop_limit = 64;
	p->ah_attr.grh.traffic_class = id->opt.tos;
}

static int join(struct cma_id *id, const struct sockaddr *addr, bool send_only, void *context)
{
	struct group *g = new_group(addr, send_only);
	struct event *e;
	int err;

	if (!g)
		return ENOMEM;
	err = send_only ? 0 : become_member(g, id->path.place.ifindex);
	e = event_new(id, err ? RDMA_CM_EVENT_MULTICAST_ERROR : RDMA_CM_EVENT_MULTICAST_JOIN, -err);
	if (!e) {
		group_free(g);
		return ENOMEM;
	}
	set_param(id, e, g, context);
	e->group = g;
	/* A failed group stays until the program leaves it. */
	list_add_tail(&id->groups, &g->node);
	event_post(e);
	return 0;
}

static int join_checked(struct rdma_cm_id *pub, const struct sockaddr *addr, bool send_only,
			void *context)
{
	struct cma_id *id = pub ? to_id(pub) : NULL;
	int err = id_enter(id);

	if (err)
		return cma_result(err);
	err = check(id, addr);
	if (!err)
		err = join(id, addr, send_only, context);
	cma_unlock();
	return err ? cma_result(err) : id_wait(id);
}

CMA_EXPORT int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	return join_checked(id, addr, false, context);
}

CMA_EXPORT int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr,
				      void *context)
{
	const uint32_t needed = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;

	if (!attr)
		return cma_result(EINVAL);
	if (attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED)
		return cma_result(ENOTSUP);
	if ((attr->comp_mask & needed) != needed || attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return cma_result(EINVAL);
	return join_checked(id, attr->addr,
			    attr->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, context);
}

int group_attach(struct cma_id *id, struct group *g)
{
	struct ibv_qp *qp = id->pub.qp;
	int err;

	if (!qp || g->send_only)
		return 0;
	err = cma_verb(ibv_attach_mcast(qp, &g->mgid, 0));
	if (!err)
		g->attached = qp;
	return err;
}

/* ---- Leaving ---- */

static struct group *find(struct cma_id *id, const struct sockaddr *addr)
{
	struct list *pos;

	list_for_each (pos, &id->groups) {
		struct group *g = list_entry(pos, struct group, node);

		if (!memcmp(&g->addr, addr, addr_len(addr)))
			return g;
	}
	return NULL;
}

/* Drops queued events of the group.  Under the lock. */
static void drop_events(struct cma_id *id, const struct group *g)
{
	struct channel *ch = id_channel(id);
	struct list *pos, *tmp;

	list_for_each_safe (pos, tmp, &ch->events) {
		struct event *e = list_entry(pos, struct event, node);

		if (e->group != g)
			continue;
		event_unqueue(ch, e);
		free(e);
	}
}

/*
 * The group must not be in any list.  Must not hold the lock.  Another thread may just deliver the
 * event of its join, and attach the QP, until that event is acknowledged.
 */
static void leave(struct cma_id *id, struct group *g)
{
	cma_lock();
	if (id->pub.channel)
		drop_events(id, g);
	cma_unlock();
	if (id->sync && id->pub.event && to_event(id->pub.event)->group == g)
		id_ack_last(id);
	cma_lock();
	while (g->unacked)
		cma_wait_acked();
	cma_unlock();
	if (g->attached && g->attached == id->pub.qp)
		ibv_detach_mcast(g->attached, &g->mgid, 0);
	group_free(g);
}

CMA_EXPORT int rdma_leave_multicast(struct rdma_cm_id *pub, struct sockaddr *addr)
{
	struct cma_id *id = pub ? to_id(pub) : NULL;
	int err = addr && addr_len(addr) ? id_enter(id) : EINVAL;
	struct group *g;

	if (err)
		return cma_result(err);
	g = find(id, addr);
	if (g)
		list_del(&g->node);
	cma_unlock();
	if (!g)
		return cma_result(EADDRNOTAVAIL);
	leave(id, g);
	return 0;
}

void groups_leave(struct cma_id *id)
{
	for (;;) {
		struct group *g = NULL;

		cma_lock();
		if (!list_empty(&id->groups)) {
			g = list_entry(id->groups.next, struct group, node);
			list_del(&g->node);
		}
		cma_unlock();
		if (!g)
			return;
		leave(id, g);
	}
}
