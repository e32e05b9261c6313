/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices of ids: one open context per device, shared by all ids and kept until the process ends,
 * or the interface has gone.  Its protection domain and XRC domain are kept while it has users.
 *
 * Lock: a mutex of its own, under which verbs are called.  Never taken with cma.lock held.
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
	uint8_t max_rd_atomic;      /* READs and atomics that it serves at a time */
	uint8_t max_init_rd_atomic; /* READs and atomics outstanding */
	struct ibv_pd *pd;          /* NULL without users */
	unsigned int users;         /* of both domains: ids and lists */
	struct ibv_xrcd *xrcd;      /* opened for the first XRC id; NULL without users */
};

/* An address of a device. */
struct place {
	struct device *dev;
	uint8_t port_num;
	uint8_t gid_index;
	uint32_t ifindex;
	uint8_t mtu; /* enum ibv_mtu; the port's current MTU */
};

/*
 * Finds the device with this GID and takes a use of it; device_put() returns that.  ifindex
 * applies to link-local GIDs, 0: any.  Returns 0, ENODEV (no device has the GID) or ENOMEM.
 */
int device_find(const struct net_addr *gid, uint32_t ifindex, struct place *out);

void device_put(struct device *dev);

/* Opens all devices, the first time.  Returns 0 if there is one, else ENODEV. */
int device_any(void);

/* The XRC domain of a device in use.  Returns 0 or an errno value. */
int device_xrcd(struct device *dev, struct ibv_xrcd **out);

/*
 * Opens all devices and takes a use of each.  *list: malloc'ed, ends with NULL.  Returns 0 or an
 * errno value, ENODEV if there is none.
 */
int device_list(struct ibv_context ***list, int *count);

/* Returns the uses that device_list() took, and frees the list. */
void device_list_put(struct ibv_context **list);

/* In a forked child: drops the parent's devices without closing them. */
void device_forget(void);

#endif
