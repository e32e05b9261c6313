/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device: one network interface seen as an RDMA device with one port.
 * Refcounted by device lists and by open contexts; the registry (under vrb.lock) hands out the same object for the same interface
 * while anybody holds it.
 */
#ifndef VRB_CORE_DEVICE_H
#define VRB_CORE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "core/port.h"
#include "flow/table.h"
#include "roce/engine.h"
#include "util/list.h"
#include "util/lock.h"

struct vrb_device {
	struct ibv_device ibv;		/* first; see docs/ABI.md for why the pointer behind it must stay NULL */
	void *provider_ops;		/* offset 664: read by libmlx5 and friends; always NULL */
	uint64_t abi_spare[8];

	struct list node;		/* registry */
	unsigned int refs;		/* vrb.lock */
	int index;			/* ibv_get_device_index */
	uint64_t node_guid;		/* host order */
	uint32_t ordinal;		/* among the devices of one interface */
	bool gone;			/* the interface is no more; vrb.lock */
	struct vrb_port port;
	struct vrb_raw_port *raw;		/* while it has raw packet QPs; see raw_port.h */
	struct flow_table flows;	/* vrb.drive; its egress list also egress_lock, a leaf */
	struct lock egress_lock;
	unsigned int egress_rules;	/* atomic: in that list */
	struct tap *tap;		/* while it has sniffers; vrb.drive, see tap.h */
	struct roce_counters retired;	/* of destroyed QPs; vrb.drive */
	struct roce_counters counted;	/* what sysfs.c has added to the files; its lock */
	uint64_t described;		/* fingerprint of what its files say, 0: none written; vrb.lock */
	unsigned int described_gids;	/* GID slots with files */
};

/*
 * Rescans the interfaces and returns the devices in order, each with a reference; *count of them, NULL-terminated, malloc'ed.
 * NULL with errno on failure.
 */
struct vrb_device **vrb_device_list(int *count);
void vrb_device_get(struct vrb_device *dev);
void vrb_device_put(struct vrb_device *dev);

/*
 * Looks at the interfaces again if the process's monitor has news, and tells open contexts what changed; true if it had.  For the progress
 * thread, and for queries, which may run ahead of it.  Takes vrb.lock.
 */
bool vrb_device_catch_up(void);

/* A forked child: locks and flow rules of the registry's devices are made anew. Must hold vrb.lock. */
void vrb_device_after_fork(void);

/* All attributes of a device: the limits with its names and numbers. */
void vrb_device_query(struct vrb_device *dev, struct ibv_device_attr_ex *attr);

/* What every device of this library can do; the one place where limits live. Enforced by the object that each limit is about. */
extern const struct ibv_device_attr_ex vrb_device_limits;

static inline struct vrb_device *to_vrb_device(struct ibv_device *d)
{
	return (struct vrb_device *)d;
}

#endif
