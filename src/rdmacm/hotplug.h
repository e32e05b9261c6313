/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events for ids of a network interface that is removed or whose link address changes:
 * DEVICE_REMOVAL and ADDR_CHANGE.
 */
#ifndef VRB_RDMACM_HOTPLUG_H
#define VRB_RDMACM_HOTPLUG_H

#include "verbs/mad.h"

/* The "device" callback of struct vrb_mad_ops.  Takes the cma lock; calls no verb. */
void hotplug(void *arg, const struct ibv_device *dev, enum vrb_mad_news news);

#endif
