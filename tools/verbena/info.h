/* SPDX-License-Identifier: BSD-2-Clause */
/* The traditional description of a device. */
#ifndef VRB_TOOL_INFO_H
#define VRB_TOOL_INFO_H

#include <stdbool.h>

#include <infiniband/verbs.h>

/* only_port 0: all. Returns 0 or ibv_devinfo's exit status. */
int devinfo_print(struct ibv_device *dev, unsigned int only_port, bool verbose);

#endif
