/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The port of a device: link state, MTU, LID, GID table and P_Key table, updated as the interface
 * changes. GID slots are stable: a removed address leaves an empty slot, a new one takes the first
 * empty slot.
 */
#ifndef VRB_CORE_DEVICE_PORT_H
#define VRB_CORE_DEVICE_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "core/base/limits.h"
#include "util/lock.h"
#include "util/net.h"

enum {
	VRB_GID_TABLE = 256,
	VRB_PKEY_DEFAULT = 0xffff,
	VRB_PORT_WHY = 160, /* room for the text of vrb_port_explain() */
};

struct vrb_gid {
	struct net_addr addr; /* zero: empty */
	uint8_t prefix_len;
};

struct vrb_port {
	struct lock lock; /* protects everything below */
	char ifname[16];
	uint32_t ifindex, ifmtu; /* atomic: read without the lock */
	uint8_t mac[6];
	bool loopback;
	enum ibv_port_state state;
	enum ibv_mtu active_mtu;
	uint16_t lid;
	uint32_t link_downed; /* carrier losses counted by the kernel */
	uint8_t active_width, active_speed; /* encoded as in struct ibv_port_attr */
	struct vrb_gid gid[VRB_GID_TABLE];
	unsigned int gid_end; /* all slots from here on are empty */
	/* fault injection: down, whatever the interface's state; atomic, read without the lock */
	bool forced_down;
	bool hides; /* an address of the interface that fault injection removed from the table */
	struct net_addr hidden;
};

struct netdev;

/* The number of link losses, from the kernel. */
uint32_t vrb_port_downs(struct vrb_port *port);

/* Initialises the port from the interface's present state. */
void vrb_port_init(struct vrb_port *port, const struct netdev *nd);

/*
 * Updates the port; nd NULL: the interface is gone. Returns a mask of 1 << IBV_EVENT_*
 * (PORT_ACTIVE, PORT_ERR, GID_CHANGE, LID_CHANGE); the caller raises these events on the open
 * contexts.
 */
uint32_t vrb_port_follow(struct vrb_port *port, const struct netdev *nd);

/*
 * Fault injection, effective at the next vrb_port_follow(): PORT_ERR takes the port down,
 * PORT_ACTIVE lets it follow the interface again, GID_CHANGE removes the last address from the
 * table, or puts it back if it was removed.
 */
void vrb_port_force(struct vrb_port *port, enum ibv_event_type event);

/* The largest IBTA MTU whose packets fit into the interface's MTU with any headers. */
enum ibv_mtu vrb_port_mtu(uint32_t ifmtu);

/* Attributes as ibv_query_port reports them. */
void vrb_port_query(struct vrb_port *port, struct ibv_port_attr *attr);

/* Returns false if the index is out of range or the slot is empty. */
bool vrb_port_gid(struct vrb_port *port, unsigned int index, struct net_addr *gid);

/* Copies all slots: gids[VRB_GID_TABLE]; empty ones are zero. */
void vrb_port_gids(struct vrb_port *port, struct net_addr *gids);

/* Returns -1 if the port does not have the GID. */
int vrb_port_find_gid(struct vrb_port *port, const struct net_addr *gid);

/* Bandwidth in units of 100 Mbit/s. */
uint64_t vrb_port_speed(struct vrb_port *port);

/*
 * Resolves address attributes to a path (DESIGN §3): with a GRH by sgid_index and dgid; by LID
 * alone only within the interface's own IPv4 subnet. qpn_hash gives the entropy of the UDP source
 * port. Returns 0 or EINVAL: bad port, empty sgid_index, DGID zero or of another family than the
 * source, LID not resolvable.
 */
int vrb_port_resolve(struct vrb_port *port, const struct ibv_ah_attr *attr, uint32_t qpn_hash,
		     struct net_path *path);

/* Writes why it failed, and which GID would do instead of one that is empty or cannot reach it. */
void vrb_port_explain(struct vrb_port *port, const struct ibv_ah_attr *attr, char *why,
		      size_t size);

#endif
