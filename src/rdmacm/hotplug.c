/* SPDX-License-Identifier: BSD-2-Clause */
/* Ids of a network interface that is removed, or whose link address changes. */
#include "rdmacm/hotplug.h"

#include <stdlib.h>

#include "rdmacm/cma.h"
#include "rdmacm/id.h"

/*
 * A wildcard listener has no device. A request has none before it is fetched; its delivery will
 * fail because the address has gone.
 */
static bool on_device(const struct cma_id *id, const struct ibv_device *ibv)
{
	const struct device *dev = id->path.place.dev;

	return id->state != ID_DEAD && dev && dev->verbs->device == ibv;
}

/* After this the program can only destroy the id.  Under the lock. */
static void remove_id(struct cma_id *id)
{
	id_shut(id);
	event_raise(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
}

void hotplug(void *arg, const struct ibv_device *dev, enum vrb_mad_news news)
{
	struct list *pos;

	cma_lock();
	if (news == VRB_MAD_DEVICE_GONE)
		cma.removals++;
	list_for_each (pos, &cma.ids) {
		struct cma_id *id = list_entry(pos, struct cma_id, node);

		if (!on_device(id, dev))
			continue;
		if (news == VRB_MAD_DEVICE_GONE)
			remove_id(id);
		else
			event_raise(id, RDMA_CM_EVENT_ADDR_CHANGE, 0);
	}
	cma_unlock();
}
