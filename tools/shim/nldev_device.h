/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices as described by the tree's files (core/device/sysfs_tree.h).  Everything read is checked;
 * missing values are 0 or empty.
 */
#ifndef VRB_SHIM_NLDEV_DEVICE_H
#define VRB_SHIM_NLDEV_DEVICE_H

#include <stdint.h>

enum { NLDEV_DEVICES = 256, NLDEV_COUNTERS = 64 };

struct nldev_device {
	uint32_t index;		/* of /dev/infiniband/uverbsN */
	uint32_t ifindex;
	char name[64];
	char ifname[16];
	char fw_version[64];
	uint64_t node_guid, sys_image_guid;	/* as numbers */
	uint8_t node_type, port_state, phys_state;
};

struct nldev_counter {
	char name[64];
	uint64_t value;
};

/* Lists the devices by index.  Returns their number. */
unsigned int nldev_devices(const char *tree, struct nldev_device list[NLDEV_DEVICES]);

/* Lists the port's hw_counters by name.  Returns their number. */
unsigned int nldev_counters(const char *tree, const struct nldev_device *dev,
			    struct nldev_counter list[NLDEV_COUNTERS]);

#endif
