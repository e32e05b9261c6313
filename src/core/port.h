/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The port of a device: link state, MTU, LID, GID table and P_Key table, following the interface
 * live. GID slots are stable: an address that goes away leaves an empty slot, a new one takes the
 * first empty slot.
 */
#ifndef VRB_CORE_PORT_H
#define VRB_CORE_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "util/lock.h"
#include "util/net.h"

enum {
	VRB_PORT_NUM = 1,
	VRB_GID_TABLE = 256,
	VRB_PKEY_DEFAULT = 0xffff,
};

struct vrb_gid {
	struct net_addr addr; /* zero = empty */
	uint8_t prefix_len;
};

struct vrb_port {
	struct lock lock; /* protects everything below */
	char ifname[16];
	uint32_t ifindex;
	uint32_t ifmtu;
	uint8_t mac[6];
	bool loopback;
	enum ibv_port_state state;
	enum ibv_mtu active_mtu;
	uint16_t lid;
	uint32_t link_downed; /* as the kernel counts lost carriers */
	uint8_t active_width, active_speed; /* encoded as in struct ibv_port_attr */
	struct vrb_gid gid[VRB_GID_TABLE];
	unsigned int gid_end; /* slots from here on are empty */
};

struct netdev;

/* How often the link was lost, as the kernel counts. */
uint32_t vrb_port_downs(struct vrb_port *port);

/* A port of the interface's present state. */
void vrb_port_init(struct vrb_port *port, const struct netdev *nd);

/*
 * Follows the interface; NULL: it is gone.  Returns what changed as a mask of 1 << IBV_EVENT_*
 * (PORT_ACTIVE, PORT_ERR, GID_CHANGE, LID_CHANGE), which the caller tells the open contexts.
 */
uint32_t vrb_port_follow(struct vrb_port *port, const struct netdev *nd);

/* The largest IBTA MTU whose packets fit into an interface MTU, whatever headers they carry. */
enum ibv_mtu vrb_port_mtu(uint32_t ifmtu);

/* Attributes as ibv_query_port reports them. */
void vrb_port_query(struct vrb_port *port, struct ibv_port_attr *attr);

/* The GID at index; false if out of range or empty. */
bool vrb_port_gid(struct vrb_port *port, unsigned int index, struct net_addr *gid);

/* The same for all slots at once: gids[VRB_GID_TABLE], empty ones zero. */
void vrb_port_gids(struct vrb_port *port, struct net_addr *gids);

/* Index of a GID, -1 if the port does not have it. */
int vrb_port_find_gid(struct vrb_port *port, const struct net_addr *gid);

/* Bandwidth in units of 100 Mbit/s. */
uint64_t vrb_port_speed(struct vrb_port *port);

/*
 * Resolves address attributes to a path (DESIGN §3): GRH paths by sgid_index and dgid, LID-only
 * paths within the interface's own IPv4 subnet.  qpn_hash makes the UDP source port/flow entropy.
 * Returns 0, EINVAL (bad port, sgid_index empty, DGID zero or of another family than the source,
 * LID unresolvable).
 */
int vrb_port_resolve(struct vrb_port *port, const struct ibv_ah_attr *attr, uint32_t qpn_hash,
		     struct net_path *path);

#endif
