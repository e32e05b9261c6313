/* SPDX-License-Identifier: BSD-2-Clause */
/* From addresses to devices and paths. */
#include "rdmacm/path.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/addr.h"
#include "rdmacm/cma.h"
#include "rdmacm/diagnose.h"
#include "rdmacm/id.h"
#include "rdmacm/port.h"
#include "rdmacm/resolver.h"
#include "rdmacm/route.h"
#include "run/netdev.h"

/* ---- Devices ---- */

static bool netdev_has(const struct netdev *nd, const struct net_addr *gid)
{
	uint32_t i;

	for (i = 0; i < nd->n_addrs; i++)
		if (net_addr_equal(&nd->addr[i].addr, gid))
			return true;
	return false;
}

static bool is_ours(const struct net_addr *gid)
{
	struct netdev *list = NULL;
	unsigned int n = 0, i;
	bool found = false;

	if (netdev_list(&list, &n))
		return true;
	for (i = 0; i < n && !found; i++)
		found = netdev_has(&list[i], gid);
	free(list);
	return found;
}

/* As the kernel: EADDRNOTAVAIL for an IPv4 address that is not local, otherwise ENODEV. */
static int no_device(const struct net_addr *gid)
{
	return net_is_ipv4(gid) && !is_ours(gid) ? EADDRNOTAVAIL : ENODEV;
}

/* IP over InfiniBand does not exist on Ethernet ports. */
static int usable(const struct cma_id *id)
{
	return id->pub.ps == RDMA_PS_IPOIB ? EINVAL : 0;
}

static int find_place(const struct cma_id *id, const struct net_addr *gid, uint32_t ifindex,
		      struct place *out)
{
	int err = device_find(gid, ifindex, out);

	if (err)
		return err == ENODEV ? no_device(gid) : err;
	err = usable(id);
	if (err)
		device_put(out->dev);
	return err;
}

static unsigned int count_removals(void)
{
	unsigned int n;

	cma_lock();
	n = cma.removals;
	cma_unlock();
	return n;
}

/* From here on the id gets events of the device.  Returns false if that was removed meanwhile. */
static bool set_place(struct cma_id *id, const struct place *place, unsigned int removals)
{
	bool good;

	cma_lock();
	good = removals == cma.removals;
	if (good)
		id->path.place = *place;
	cma_unlock();
	return good;
}

/* Assigns the id to the device of an address. */
static int take_place(struct cma_id *id, const struct net_addr *gid, uint32_t ifindex)
{
	for (;;) {
		unsigned int removals = count_removals();
		struct place place;
		int err = find_place(id, gid, ifindex, &place);

		if (err || set_place(id, &place, removals))
			return err;
		device_put(place.dev);
	}
}

/* Changes the state unless the id's device was removed.  Returns 0 or ENODEV. */
static int set_state(struct cma_id *id, enum id_state state)
{
	int err = 0;

	cma_lock();
	if (id->state == ID_DEAD)
		err = ENODEV;
	else
		id->state = state;
	cma_unlock();
	return err;
}

/* ---- Binding ---- */

static bool lacks_interface(const struct sockaddr *addr)
{
	return addr_needs_scope(addr) && !addr_scope(addr);
}

static int check_addr(const struct sockaddr *addr)
{
	if (!addr || !addr_len(addr))
		return diagnose_invalid("bind: no address, or its sa_family is none of "
					"AF_INET, AF_INET6, AF_IB");
	return lacks_interface(addr) ? EINVAL : 0;
}

static int bind_device(struct cma_id *id, const struct sockaddr *addr)
{
	struct net_addr gid = addr_gid(addr);
	int err;

	if (addr_is_wildcard(addr))
		return 0;
	err = take_place(id, &gid, addr_scope(addr));
	if (err) {
		diagnose_invalid("bind: the address is no device's (verbena gids)");
		return err;
	}
	id->path.src = gid;
	return 0;
}

static void unbind_device(struct cma_id *id)
{
	struct device *dev;

	cma_lock();
	dev = id->path.place.dev;
	id->path.place.dev = NULL;
	cma_unlock();
	if (dev)
		device_put(dev);
}

static void show_bound(struct cma_id *id, const struct sockaddr *addr, uint16_t port)
{
	struct sockaddr *src = &id->pub.route.addr.src_addr;
	struct net_addr gid = addr_gid(addr);

	cma_lock();
	memcpy(src, addr, addr_len(addr));
	if (addr->sa_family == AF_IB)
		addr_ib(&id->pub.route.addr.src_storage, &gid, addr_pkey(addr),
			id->service.service_id);
	else
		addr_set_port(src, port);
	/* Fixes the destination's family, too. */
	id->pub.route.addr.dst_addr.sa_family = src->sa_family;
	cma_unlock();
	if (id->path.place.dev)
		id_show_place(id);
}

int path_bind(struct cma_id *id, const struct sockaddr *addr)
{
	int err = check_addr(addr);

	if (!err)
		err = cma_start();
	if (!err && id->state != ID_IDLE)
		err = diagnose_invalid("bind: the id has an address already");
	if (!err)
		err = bind_device(id, addr);
	if (err)
		return err;
	err = port_bind(id, addr);
	if (err) {
		unbind_device(id);
		return err;
	}
	show_bound(id, addr, port_number(id));
	return set_state(id, ID_BOUND);
}

CMA_EXPORT int rdma_bind_addr(struct rdma_cm_id *pub, struct sockaddr *addr)
{
	struct cma_id *id = pub ? to_id(pub) : NULL;
	int err = id_enter(id);

	if (err)
		return cma_result(err);
	cma_unlock();
	return cma_result(path_bind(id, addr));
}

/* ---- Resolving an address ---- */

/* A wildcard destination selects this host. */
static void set_dst(struct cma_id *id, const struct sockaddr *dst)
{
	static const struct net_addr loopback = { { [15] = 1 } };
	struct sockaddr_storage *to = &id->pub.route.addr.dst_storage;

	cma_lock();
	memcpy(to, dst, addr_len(dst));
	if (addr_is_any(dst) && dst->sa_family == AF_INET)
		((struct sockaddr_in *)(void *)to)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else if (addr_is_any(dst))
		addr_set_gid(to, &loopback, 0);
	cma_unlock();
}

/*
 * As Linux, which takes the interface of a link-local destination from the id's own address if it
 * has one.
 */
static int check_dst(const struct cma_id *id, const struct sockaddr *src,
		     const struct sockaddr *dst)
{
	bool from = id->path.place.dev ||
		    (id->state == ID_IDLE && src && addr_len(src) && !addr_is_wildcard(src));

	if (!dst || !addr_len(dst))
		return diagnose_invalid("rdma_resolve_addr: no destination, or its sa_family is "
					"none of AF_INET, AF_INET6, AF_IB");
	return lacks_interface(dst) && !from ? EINVAL : 0;
}

/* An unbound id is bound to the given source, or to the wildcard of the destination's family. */
static int bind_source(struct cma_id *id, const struct sockaddr *src, const struct sockaddr *dst)
{
	struct sockaddr_storage any;

	addr_any(&any, dst->sa_family);
	if (id->state == ID_IDLE)
		return path_bind(id, src && src->sa_family ? src : (struct sockaddr *)&any);
	if (id->state == ID_BOUND)
		return 0;
	return diagnose_invalid("rdma_resolve_addr: the id has an address already, or listens");
}

/* A failed attempt may have left the id with a device, although it has no address of its own. */
static void forget_attempt(struct cma_id *id)
{
	if (addr_is_wildcard(&id->pub.route.addr.src_addr))
		unbind_device(id);
}

/* All of 127/8 is this host, but its loopback interface may have 127.0.0.1 only. */
static struct net_addr gid_of(const struct sockaddr *addr)
{
	static const struct net_addr loopback = { { [10] = 0xff, 0xff, IN_LOOPBACKNET, 0, 0, 1 } };
	struct net_addr gid = addr_gid(addr);
	bool is_other = net_is_ipv4(&gid) && gid.raw[12] == IN_LOOPBACKNET &&
			!net_addr_equal(&gid, &loopback);

	return is_other && !is_ours(&gid) ? loopback : gid;
}

/*
 * IPv4's loopback address, which is no device's before, is the source of a group all the same: else
 * the group would be joined on another interface. Linux's IPv6 has none on loopback.
 */
static bool is_group_on_loopback(const struct sockaddr *src, const struct sockaddr *dst)
{
	struct net_addr group = addr_gid(dst);

	return src->sa_family == AF_INET && dst->sa_family == AF_INET && !addr_is_any(src) &&
	       net_is_multicast(&group);
}

/* Looks up the route, from the id's own address if it has one. */
static int find_route(struct cma_id *id, struct route *route)
{
	const struct rdma_addr *addr = &id->pub.route.addr;
	bool bound = id->path.place.dev != NULL, group;
	uint32_t scope = bound ? id->path.place.ifindex : 0;
	struct sockaddr_storage from, to;
	const struct sockaddr *src = (const struct sockaddr *)&from;
	const struct sockaddr *dst = (const struct sockaddr *)&to;
	int err;

	addr_to_ip(&from, &addr->src_addr, scope);
	addr_to_ip(&to, &addr->dst_addr, scope);
	group = is_group_on_loopback(src, dst);
	err = route_lookup(bound || group ? src : NULL, dst, route);
	if (!err && group)
		route->src = gid_of(src);
	return err;
}

/* Returns 0, or an errno value for the event's status. */
static int take_route(struct cma_id *id, const struct route *route)
{
	/* The route to an address of this host leads to lo, whatever interface has the address. */
	uint32_t scope = addr_scope(&id->pub.route.addr.dst_addr);
	int err;

	if (!id->path.place.dev) {
		err = take_place(id, &route->src, scope ? scope : route->ifindex);
		if (err)
			diagnose_no_device(id, &route->src);
		if (err)
			return err == EADDRNOTAVAIL ? ENODEV : err;
		id->path.src = route->src;
	}
	id->path.dst = gid_of(&id->pub.route.addr.dst_addr);
	id->path.hop_limit = route->hop_limit;
	return 0;
}

static int wait_for_neighbour(struct cma_id *id, const struct route *route, int timeout_ms)
{
	struct sockaddr_storage dst;

	addr_to_ip(&dst, &id->pub.route.addr.dst_addr, route->ifindex);
	return resolver_wait(id, route, (struct sockaddr *)&dst, timeout_ms);
}

/* Returns 0 with the lock held and the event raised; EINPROGRESS: it will come. */
static int resolve(struct cma_id *id, const struct sockaddr *src, const struct sockaddr *dst,
		   int timeout_ms)
{
	struct route route;
	int err = check_dst(id, src, dst);

	if (!err)
		err = bind_source(id, src, dst);
	if (err)
		return err;
	if (id->pub.route.addr.src_addr.sa_family != dst->sa_family)
		return EINVAL;
	forget_attempt(id);
	set_dst(id, dst);
	err = find_route(id, &route);
	if (err)
		return err;
	err = set_state(id, ID_ADDR_QUERY);
	if (err)
		return err;
	err = take_route(id, &route);
	if (!err && !route_neighbour_known(&route)) {
		err = wait_for_neighbour(id, &route, timeout_ms);
		if (err)
			set_state(id, ID_BOUND);
		return err ? err : EINPROGRESS;
	}
	cma_lock();
	id_resolved(id, -err);
	return 0;
}

CMA_EXPORT int rdma_resolve_addr(struct rdma_cm_id *pub, struct sockaddr *src, struct sockaddr *dst,
				 int timeout_ms)
{
	struct cma_id *id = pub ? to_id(pub) : NULL;
	int err = id_enter(id);
	bool sync;

	if (err)
		return cma_result(err);
	sync = id->sync;
	cma_unlock();
	err = resolve(id, src, dst, timeout_ms);
	if (err == EINPROGRESS)
		return sync ? id_wait(id) : 0;
	return err ? cma_result(err) : id_unlock_and_wait(id);
}

void path_show(struct cma_id *id)
{
	struct sockaddr_storage *src = &id->pub.route.addr.src_storage;
	uint32_t scope = net_is_link_local(&id->path.src) ? id->path.place.ifindex : 0;

	cma_lock();
	if (addr_is_wildcard((struct sockaddr *)src))
		addr_set_gid(src, &id->path.src, scope);
	cma_unlock();
	id_show_place(id);
}

/* ---- Paths ---- */

/* The path record between two addresses, with the values that Linux uses on RoCE. */
static struct ibv_sa_path_rec path_rec(const struct cma_id *id)
{
	const struct id_options *opt = &id->opt;
	struct ibv_sa_path_rec rec = {
		.hop_limit = id->path.hop_limit,
		.traffic_class = opt->tos,
		.reversible = 1,
		.numb_path = 1,
		.pkey = htobe16(0xffff),
		.mtu_selector = 2,
		.mtu = id->path.place.mtu,
		.rate_selector = 2,
		.packet_life_time_selector = 2,
		.packet_life_time = PATH_LIFE_TIME,
		.preference =
			IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL,
	};

	memcpy(rec.sgid.raw, id->path.src.raw, sizeof(rec.sgid.raw));
	memcpy(rec.dgid.raw, id->path.dst.raw, sizeof(rec.dgid.raw));
	if (opt->ack_timeout_set && opt->ack_timeout)
		rec.packet_life_time = (uint8_t)(opt->ack_timeout - 1);
	return rec;
}

static uint32_t flow_label(const struct rdma_addr *addr)
{
	/* The offset is the same in both families that have it. */
	uint32_t info = addr->src_addr.sa_family != AF_INET
				? ntohl(addr->src_sin6.sin6_flowinfo) & 0xfffff
				: 0;

	return info ? info
		    : (addr_port(&addr->src_addr) * 31u + addr_port(&addr->dst_addr)) & 0xfffff;
}

static int resolve_route(struct cma_id *id, int timeout_ms)
{
	struct ibv_sa_path_rec rec;

	if (id->state != ID_ADDR_RESOLVED || !timeout_ms)
		return diagnose_invalid("rdma_resolve_route: %s",
					!timeout_ms ? "timeout_ms is 0" :
					id->state < ID_ADDR_RESOLVED ?
					"the id has no address: RDMA_CM_EVENT_ADDR_RESOLVED of "
					"rdma_resolve_addr() comes first" :
					"the id has a route already, or its device has gone");
	rec = path_rec(id);
	rec.flow_label = htobe32(flow_label(&id->pub.route.addr));
	id_show_path(id, &rec);
	return 0;
}

CMA_EXPORT int rdma_resolve_route(struct rdma_cm_id *pub, int timeout_ms)
{
	struct cma_id *id = pub ? to_id(pub) : NULL;
	int err = id_enter(id);

	if (err)
		return cma_result(err);
	err = resolve_route(id, timeout_ms);
	if (err) {
		cma_unlock();
		return cma_result(err);
	}
	id->state = ID_ROUTE_RESOLVED;
	event_raise(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return id_unlock_and_wait(id);
}

/* ---- Path of a request ---- */

static void show_request_path(struct cma_id *id, const struct cm_conn *c)
{
	struct ibv_sa_path_rec rec;

	id->opt.tos = c->path.traffic_class;
	rec = path_rec(id);
	rec.flow_label = htobe32(c->path.flow_label);
	if (c->mtu)
		rec.mtu = c->mtu;
	id_show_path(id, &rec);
}

int path_of_request(struct cma_id *id)
{
	struct cm_conn c;
	int err;

	cma_lock();
	if (id->conn)
		c = id->conn->cm;
	err = id->conn ? 0 : EINVAL;
	cma_unlock();
	if (!err)
		err = take_place(id, &c.path.src, c.path.ifindex);
	if (err)
		return err;
	id->path.hop_limit = c.path.hop_limit;
	id_show_place(id);
	show_request_path(id, &c);
	return 0;
}
