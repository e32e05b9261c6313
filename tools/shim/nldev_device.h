/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices as the files of the tree describe them (core/sysfs.h). Whatever is read is checked; what is missing is 0 or empty. */
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

/* In the order of their indices. Returns how many. */
unsigned int nldev_devices(const char *tree, struct nldev_device list[NLDEV_DEVICES]);

/* The port's hw_counters, in the order of their names. Returns how many. */
unsigned int nldev_counters(const char *tree, const struct nldev_device *dev, struct nldev_counter list[NLDEV_COUNTERS]);

#endif
