/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports follow their interface. port->lock is a leaf. */
#include "core/device/port.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>

#include "run/netdev.h"
#include "util/atomic.h"
#include "util/be.h"
#include "util/compiler.h"

enum {
	SL_MASK = 15,
	/*
	 * IPv6 + UDP + BTH + XRCETH + RETH + ImmDt + ICRC: the largest headers around a full
	 * payload.
	 */
	MOST_HEADERS = 40 + 8 + 12 + 4 + 16 + 4 + 4,
	LID_PREFIX_BITS = 16,
	DEFAULT_HOPS = 64,
	DEFAULT_MBPS = 10000,
	LOOPBACK_MBPS = 100000,
	PHYS_DISABLED = 3,
	PHYS_LINK_UP = 5,
	MAX_MSG = 0x80000000u,
};

/* The link speeds that struct ibv_port_attr can express, ascending. */
static const struct {
	uint32_t mbps;
	uint8_t width;
	uint8_t speed;
} link_modes[] = {
	{ 2500, 1, 1 },     { 5000, 1, 2 },     { 10000, 1, 4 },   { 25000, 1, 32 },
	{ 40000, 2, 4 },    { 50000, 1, 64 },   { 100000, 2, 32 }, { 200000, 2, 64 },
	{ 400000, 2, 128 }, { 800000, 4, 128 },
};

enum ibv_mtu vrb_port_mtu(uint32_t ifmtu)
{
	enum ibv_mtu mtu = IBV_MTU_4096;

	while (mtu > IBV_MTU_256 && (128u << mtu) + MOST_HEADERS > ifmtu)
		mtu--;
	return mtu;
}

/* Speed reported by the driver, in Mbit/s; most virtual interfaces report none. */
static uint32_t read_mbps(const char *ifname)
{
	char path[64], text[16];
	long mbps = 0;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/sys/class/net/%s/speed", ifname);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n > 0) {
		text[n] = '\0';
		mbps = strtol(text, NULL, 10);
	}
	return mbps > 0 && mbps <= UINT32_MAX ? mbps : 0;
}

/* Must hold port->lock, or be the only user of the port. */
static void set_speed(struct vrb_port *port, uint32_t mbps)
{
	unsigned int i = 0;

	if (!mbps)
		mbps = port->loopback ? LOOPBACK_MBPS : DEFAULT_MBPS;
	while (i + 1 < ARRAY_SIZE(link_modes) && link_modes[i].mbps < mbps)
		i++;
	port->active_width = link_modes[i].width;
	port->active_speed = link_modes[i].speed;
}

/*
 * The GID slot that LIDs refer to: the first IPv4 address whose host part fits into a LID, or -1.
 */
static int lid_slot(const struct vrb_port *port)
{
	for (int i = 0; i < VRB_GID_TABLE; i++)
		if (net_is_ipv4(&port->gid[i].addr) && port->gid[i].prefix_len >= LID_PREFIX_BITS)
			return i;
	return -1;
}

static uint16_t lid_of(const struct vrb_port *port)
{
	int slot = lid_slot(port);

	return slot < 0 ? 0 : get_be16(port->gid[slot].addr.raw + 14);
}

static int slot_of(const struct vrb_port *port, const struct net_addr *a)
{
	for (int i = 0; i < VRB_GID_TABLE; i++)
		if (net_addr_equal(&port->gid[i].addr, a))
			return i;
	return -1;
}

static bool has_addr(const struct vrb_port *port, const struct netdev *nd,
		     const struct net_addr *a)
{
	if (port->hides && net_addr_equal(&port->hidden, a))
		return false;
	for (unsigned int i = 0; nd && i < nd->n_addrs; i++)
		if (net_addr_equal(&nd->addr[i].addr, a))
			return true;
	return false;
}

/* 127.0.0.0/8 counts as /16 (DESIGN §3). */
static uint8_t effective_prefix(const struct vrb_port *port, const struct netdev_addr *a)
{
	bool widen = port->loopback && net_is_ipv4(&a->addr) && a->prefix_len < LID_PREFIX_BITS;

	return widen ? LID_PREFIX_BITS : a->prefix_len;
}

/*
 * Empties the slots of addresses that are gone; new addresses take the first empty slots. Returns
 * true if anything changed.
 */
static bool follow_addrs(struct vrb_port *port, const struct netdev *nd)
{
	static const struct net_addr empty;
	bool changed = false;

	for (int i = 0; i < VRB_GID_TABLE; i++) {
		struct vrb_gid *g = &port->gid[i];

		if (net_addr_is_zero(&g->addr) || has_addr(port, nd, &g->addr))
			continue;
		*g = (struct vrb_gid){ 0 };
		changed = true;
	}
	for (unsigned int i = 0; nd && i < nd->n_addrs; i++) {
		int slot = slot_of(port, &nd->addr[i].addr);

		if (!has_addr(port, nd, &nd->addr[i].addr))
			continue;
		if (slot < 0) {
			slot = slot_of(port, &empty);
			if (slot < 0)
				break;
			changed = true;
		}
		port->gid[slot].addr = nd->addr[i].addr;
		port->gid[slot].prefix_len = effective_prefix(port, &nd->addr[i]);
	}
	port->gid_end = VRB_GID_TABLE;
	while (port->gid_end && net_addr_is_zero(&port->gid[port->gid_end - 1].addr))
		port->gid_end--;
	return changed;
}

uint32_t vrb_port_follow(struct vrb_port *port, const struct netdev *nd)
{
	bool active = nd && nd->up && nd->running && !load_relaxed(&port->forced_down);
	uint32_t mbps = nd && !nd->loopback ? read_mbps(nd->name) : 0;
	enum ibv_port_state was;
	uint16_t lid;
	uint32_t events = 0;

	lock_acquire(&port->lock);
	was = port->state;
	lid = port->lid;
	port->state = active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	if (nd) {
		store_relaxed(&port->ifindex, nd->ifindex);
		memcpy(port->mac, nd->mac, sizeof(port->mac));
		store_relaxed(&port->ifmtu, nd->mtu);
		port->link_downed = nd->carrier_downs;
		port->active_mtu = vrb_port_mtu(nd->mtu);
		set_speed(port, mbps);
	}
	if (follow_addrs(port, nd))
		events |= 1u << IBV_EVENT_GID_CHANGE;
	port->lid = lid_of(port);
	if (port->lid != lid)
		events |= 1u << IBV_EVENT_LID_CHANGE;
	if (was != port->state)
		events |= 1u << (active ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
	lock_release(&port->lock);
	return events;
}

void vrb_port_force(struct vrb_port *port, enum ibv_event_type event)
{
	lock_acquire(&port->lock);
	if (event == IBV_EVENT_GID_CHANGE) {
		port->hides = !port->hides && port->gid_end;
		if (port->hides)
			port->hidden = port->gid[port->gid_end - 1].addr;
	} else if (event != IBV_EVENT_DEVICE_FATAL) {
		store_relaxed(&port->forced_down, event == IBV_EVENT_PORT_ERR);
	}
	lock_release(&port->lock);
}

void vrb_port_init(struct vrb_port *port, const struct netdev *nd)
{
	memset(port, 0, sizeof(*port));
	lock_init(&port->lock);
	memcpy(port->ifname, nd->name, sizeof(port->ifname));
	port->loopback = nd->loopback;
	vrb_port_follow(port, nd);
}

void vrb_port_query(struct vrb_port *port, struct ibv_port_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	lock_acquire(&port->lock);
	attr->state = port->state;
	attr->max_mtu = IBV_MTU_4096;
	attr->active_mtu = port->active_mtu;
	attr->gid_tbl_len = VRB_GID_TABLE;
	attr->port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
	attr->max_msg_sz = MAX_MSG;
	attr->pkey_tbl_len = 1;
	attr->lid = port->lid;
	attr->max_vl_num = 1;
	attr->active_width = port->active_width;
	attr->active_speed = port->active_speed;
	attr->phys_state = port->state == IBV_PORT_ACTIVE ? PHYS_LINK_UP : PHYS_DISABLED;
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	attr->flags = IBV_QPF_GRH_REQUIRED;	/* RoCE; a LID names only some of our peers */
	lock_release(&port->lock);
}

uint32_t vrb_port_downs(struct vrb_port *port)
{
	uint32_t downs;

	lock_acquire(&port->lock);
	downs = port->link_downed;
	lock_release(&port->lock);
	return downs;
}

uint64_t vrb_port_speed(struct vrb_port *port)
{
	uint64_t speed = 0;

	lock_acquire(&port->lock);
	for (unsigned int i = 0; i < ARRAY_SIZE(link_modes); i++)
		if (link_modes[i].width == port->active_width &&
		    link_modes[i].speed == port->active_speed)
			speed = link_modes[i].mbps / 100;
	lock_release(&port->lock);
	return speed;
}

bool vrb_port_gid(struct vrb_port *port, unsigned int index, struct net_addr *gid)
{
	if (index >= VRB_GID_TABLE)
		return false;
	lock_acquire(&port->lock);
	*gid = port->gid[index].addr;
	lock_release(&port->lock);
	return !net_addr_is_zero(gid);
}

void vrb_port_gids(struct vrb_port *port, struct net_addr *gids)
{
	lock_acquire(&port->lock);
	for (int i = 0; i < VRB_GID_TABLE; i++)
		gids[i] = port->gid[i].addr;
	lock_release(&port->lock);
}

int vrb_port_find_gid(struct vrb_port *port, const struct net_addr *gid)
{
	int slot = -1;

	if (net_addr_is_zero(gid))
		return -1;
	lock_acquire(&port->lock);
	for (unsigned int i = 0; i < port->gid_end && slot < 0; i++)
		if (net_addr_equal(&port->gid[i].addr, gid))
			slot = (int)i;
	lock_release(&port->lock);
	return slot;
}

/* Spreads flows over equal-cost paths: from the flow label, or else from the hash. */
static uint16_t source_port(uint32_t flow_label, uint32_t hash)
{
	uint32_t label = flow_label ? flow_label : hash * 0x9e3779b1u >> 12;

	return ibv_flow_label_to_udp_sport(label);
}

/* Must hold port->lock. */
static int resolve_grh(const struct vrb_port *port, const struct ibv_ah_attr *attr,
		       struct net_path *path)
{
	const struct ibv_global_route *grh = &attr->grh;
	const struct net_addr *src = &port->gid[grh->sgid_index].addr;

	memcpy(path->dst.raw, grh->dgid.raw, sizeof(path->dst.raw));
	if (net_addr_is_zero(src) || net_addr_is_zero(&path->dst))
		return EINVAL;
	if (net_is_ipv4(src) != net_is_ipv4(&path->dst))
		return EINVAL;
	path->src = *src;
	path->flow_label = grh->flow_label & 0xfffff;
	path->traffic_class = grh->traffic_class;
	/* As in Linux, a program's hop limit, often 1, counts for multicast only. */
	path->hop_limit = net_is_multicast(&path->dst) && grh->hop_limit ? grh->hop_limit :
			  DEFAULT_HOPS;
	path->sgid_index = grh->sgid_index;
	return 0;
}

/* Must hold port->lock. */
static int resolve_lid(const struct vrb_port *port, const struct ibv_ah_attr *attr,
		       struct net_path *path)
{
	int slot = lid_slot(port);
	uint32_t own, dst, mask;

	if (slot < 0 || !attr->dlid)
		return EINVAL;
	own = get_be32(port->gid[slot].addr.raw + 12);
	dst = (own & 0xffff0000u) | attr->dlid;
	mask = (uint32_t)(UINT64_MAX << (32 - port->gid[slot].prefix_len));
	if ((own & mask) != (dst & mask))
		return EINVAL;
	path->src = path->dst = port->gid[slot].addr;
	put_be32(path->dst.raw + 12, dst);
	path->hop_limit = DEFAULT_HOPS;
	path->sgid_index = slot;
	return 0;
}

/* The kernel takes no packet from a link-local address without its interface either. */
static bool needs_interface(const struct net_path *path)
{
	return net_is_link_local(&path->src) || net_is_link_local(&path->dst) ||
	       net_is_multicast(&path->dst);
}

int vrb_port_resolve(struct vrb_port *port, const struct ibv_ah_attr *attr, uint32_t qpn_hash,
		     struct net_path *path)
{
	int err;

	memset(path, 0, sizeof(*path));
	if (attr->port_num != VRB_PORT_NUM)
		return EINVAL;
	lock_acquire(&port->lock);
	err = attr->is_global ? resolve_grh(port, attr, path) : resolve_lid(port, attr, path);
	if (!err && needs_interface(path))
		path->ifindex = port->ifindex;
	lock_release(&port->lock);
	path->sl = attr->sl & SL_MASK;
	path->dst_port = ROCE_UDP_PORT;
	path->src_port = source_port(path->flow_label, qpn_hash);
	return err;
}

/* The first GID that can reach the DGID; IPv4 if that is zero. -1: none. Must hold port->lock. */
static int gid_towards(const struct vrb_port *port, const struct net_addr *dgid)
{
	bool ipv4 = net_addr_is_zero(dgid) || net_is_ipv4(dgid);

	for (unsigned int i = 0; i < port->gid_end; i++) {
		const struct net_addr *gid = &port->gid[i].addr;

		if (!net_addr_is_zero(gid) && net_is_ipv4(gid) == ipv4)
			return (int)i;
	}
	return -1;
}

static int ip_version(const struct net_addr *a)
{
	return net_is_ipv4(a) ? 4 : 6;
}

/* Must hold port->lock. */
static void explain_grh(const struct vrb_port *port, const struct ibv_global_route *grh, char *why,
			size_t size)
{
	const struct net_addr *src = &port->gid[grh->sgid_index].addr;
	char advice[INET6_ADDRSTRLEN + 32] = "", text[INET6_ADDRSTRLEN];
	struct net_addr dgid;
	int slot;

	memcpy(dgid.raw, grh->dgid.raw, sizeof(dgid.raw));
	slot = gid_towards(port, &dgid);
	if (slot >= 0)
		snprintf(advice, sizeof(advice), "; GID %d is %s", slot,
			 inet_ntop(AF_INET6, port->gid[slot].addr.raw, text, sizeof(text)));
	if (net_addr_is_zero(src))
		snprintf(why, size, "GID %u of the port is empty%s", grh->sgid_index, advice);
	else if (net_addr_is_zero(&dgid))
		snprintf(why, size, "the DGID is zero: the peer's GID index may be an empty one");
	else
		snprintf(why, size, "GID %u of the port is IPv%d, but the DGID is IPv%d%s",
			 grh->sgid_index, ip_version(src), ip_version(&dgid), advice);
}

void vrb_port_explain(struct vrb_port *port, const struct ibv_ah_attr *attr, char *why, size_t size)
{
	if (attr->port_num != VRB_PORT_NUM) {
		snprintf(why, size, "port_num of the address is %u, but must be %u", attr->port_num,
			 VRB_PORT_NUM);
		return;
	}
	if (!attr->is_global) {
		snprintf(why, size,
			 "is_global is 0, but LID 0x%x is not in the interface's subnet: RoCE "
			 "needs is_global 1, and dgid and sgid_index in grh",
			 attr->dlid);
		return;
	}
	lock_acquire(&port->lock);
	explain_grh(port, &attr->grh, why, size);
	lock_release(&port->lock);
}
