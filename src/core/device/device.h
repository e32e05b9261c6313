/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device: one network interface as an RDMA device with one port. Device lists and open contexts
 * hold references. While any exists, the registry (vrb.lock) returns the same object for the same
 * interface.
 */
#ifndef VRB_CORE_DEVICE_DEVICE_H
#define VRB_CORE_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "core/base/limits.h"
#include "core/device/port.h"
#include "flow/table.h"
#include "roce/engine.h"
#include "util/list.h"
#include "util/lock.h"

struct vrb_device {
	/* first; docs/ABI.md says why the pointer after it must stay NULL */
	struct ibv_device ibv;
	void *provider_ops;		/* offset 664: read by libmlx5 and others; always NULL */
	uint64_t abi_spare[8];

	struct vrb_device *next;	/* in the registry; vrb.lock */
	unsigned int refs;		/* the registry's, lists, contexts; vrb.lock */
	int index;			/* ibv_get_device_index */
	uint64_t node_guid;		/* host order */
	uint32_t ordinal;		/* among the devices of one interface */
	bool gone;			/* the interface has gone; vrb.lock */
	bool removed;			/* fault injection: treat the interface as gone; vrb.lock */
	struct vrb_port port;
	struct vrb_raw_port *raw;		/* NULL without raw packet QPs; see raw_port.h */
	/* vrb.poll_lock; the egress list also needs egress_lock, a leaf */
	struct flow_table flows;
	struct lock egress_lock;
	unsigned int egress_rules;	/* atomic: length of the egress list */
	struct mirror *mirror;		/* NULL without sniffers; vrb.poll_lock, see mirror.h */
	uint64_t violations[VIOLATIONS];	/* atomic; packets that this process dropped */
	struct roce_counters retired;	/* sums of destroyed QPs; vrb.poll_lock */
	/* already added to the sysfs files; lock in sysfs_counters.c */
	struct roce_counters counted;
	/* fingerprint of the sysfs files, 0: not written; vrb.lock */
	uint64_t described;
	unsigned int described_gids;	/* GID slots with files */
};

/*
 * Rescans the interfaces. Returns a malloc'ed, NULL-terminated array of the devices in order, each
 * with a reference, and its length in *count; NULL with errno on failure.
 */
struct vrb_device **vrb_device_list(int *count);
void vrb_device_get(struct vrb_device *dev);
void vrb_device_put(struct vrb_device *dev);

/*
 * Fault injection: PORT_ERR, PORT_ACTIVE, GID_CHANGE, or DEVICE_FATAL, which has the same effect as
 * the removal of the interface. dev is only compared; NULL: all devices. Takes vrb.lock.
 */
void vrb_device_force(const struct vrb_device *dev, enum ibv_event_type event);

/*
 * Rescans the interfaces if the process's monitor reported a change, and raises events on open
 * contexts. Returns true if it rescanned. Called by the progress thread, and by queries, which may
 * run ahead of it. Takes vrb.lock.
 */
bool vrb_device_catch_up(void);

enum vrb_device_news {
	VRB_DEVICE_GONE,     /* the interface has gone: its contexts have failed */
	VRB_DEVICE_NEW_MAC,  /* the interface has a new link address */
};

/*
 * Called under vrb.lock by whatever thread rescans the interfaces. There is one watcher, or NULL.
 */
typedef void (*vrb_device_watcher)(void *arg, const struct ibv_device *dev,
				   enum vrb_device_news news);
void vrb_device_watch(vrb_device_watcher fn, void *arg);

/*
 * In a forked child: reinitialises locks and flow rules of the registry's devices. Must hold
 * vrb.lock.
 */
void vrb_device_after_fork(void);

/* The limits with this device's names, GUIDs and version. */
void vrb_device_query(struct vrb_device *dev, struct ibv_device_attr_ex *attr);

static inline struct vrb_device *to_vrb_device(struct ibv_device *d)
{
	return (struct vrb_device *)d;
}

#endif
