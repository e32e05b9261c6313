/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The devices of ids: one open context for each, shared by all ids and kept while the library is
 * loaded, with a protection domain that lives as long as anybody uses it.
 *
 * Locks: a mutex of its own, under which verbs are called; never to be taken with cma.lock held.
 */
#ifndef VRB_RDMACM_DEVICE_H
#define VRB_RDMACM_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "util/list.h"
#include "util/net.h"

struct device {
	struct list node;
	struct ibv_context *verbs;
	uint64_t guid;              /* host order */
	uint8_t ack_delay;          /* 4.096 us * 2^n */
	uint8_t max_rd_atomic;      /* READs and atomics: served at once */
	uint8_t max_init_rd_atomic; /* and outstanding */
	struct ibv_pd *pd;          /* NULL while nobody uses it */
	unsigned int users;         /* of pd */
	struct ibv_xrcd *xrcd;      /* opened when an XRC id needs it */
};

/* An address as its device has it. */
struct place {
	struct device *dev;
	uint8_t port_num;
	uint8_t gid_index;
	uint32_t ifindex;
	uint8_t mtu; /* enum ibv_mtu: of the port now */
};

/*
 * The device with this GID; ifindex counts for link-local ones, 0 for any.  Counts a use of the
 * device's PD, to be given back by device_put().  Returns 0, ENODEV (no device has it), ENOMEM.
 */
int device_find(const struct net_addr *gid, uint32_t ifindex, struct place *out);

void device_get(struct device *dev);
void device_put(struct device *dev);

/* Is there a device at all?  0 or ENODEV. */
int device_any(void);

/* The device's XRC domain.  Returns 0 or an errno value. */
int device_xrcd(struct device *dev, struct ibv_xrcd **out);

/*
 * All devices that there are now, opened, each with a use; a malloc'ed array that ends with NULL.
 * errno value, ENODEV for none.
 */
int device_list(struct ibv_context ***list, int *count);

/* Gives back what device_list() counted. */
void device_list_put(struct ibv_context **list);

/* In a forked child: the parent's are not ours. */
void device_forget(void);

#endif
