/* SPDX-License-Identifier: BSD-2-Clause */
/* The counters of a device: the sums over its QPs. */
#ifndef VRB_CORE_DIAG_PORT_COUNTERS_H
#define VRB_CORE_DIAG_PORT_COUNTERS_H

struct roce_counters;
struct vrb_device;

/* Sums the counters of all QPs of the device, including destroyed ones. Takes vrb.poll_lock. */
void vrb_device_counters(const struct vrb_device *dev, struct roce_counters *sum);

/* Adds this process's counters to the sysfs files. Takes vrb.poll_lock. */
void vrb_sysfs_count(struct vrb_device *dev);

/* The same for the devices of all open contexts, if `dir` is in the tree. Takes vrb.lock. */
void vrb_sysfs_about_to_read(const char *dir);

#endif
