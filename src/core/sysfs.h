/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files that describe the devices as /sys does for devices of the kernel, in the run directory:
 *
 *	<run>/sys.<netns>[.<tag>]/devices/<dev>/{vendor,device,numa_node,local_cpus,current_link_*,net/<if>}
 *	                  devices/<dev>/infiniband/<dev>/{node_guid,fw_ver,board_id,...,device -> ../..,ports/1/...}
 *	                  class/infiniband/<dev> -> ../../devices/<dev>/infiniband/<dev>
 *	                  class/infiniband_verbs/{abi_version,uverbs<n>/{ibdev,dev,abi_version}}
 *	                  class/misc/rdma_cm/abi_version
 *	                  dev/infiniband/uverbs<n> -> /dev/null
 *
 * The tag stands for a $VERBENA_DEVICES. tools/shim shows the tree to programs that look into /sys and /dev.
 *
 * All processes of a user and network namespace write the same files, each by renaming a complete one into place, and only
 * when its content changes.  Counters are sums over all processes: each adds what it has not added yet under a file lock, when a context is
 * closed and when somebody reads them through ibv_read_sysfs_file(); in between the files are behind.
 *
 * Nothing depends on these files: where they cannot be written there are none.
 */
#ifndef VRB_CORE_SYSFS_H
#define VRB_CORE_SYSFS_H

#include <stdbool.h>

struct vrb_device;

/* The root of the tree, without a slash at the end; NULL if there is none. Found once; any thread. */
const char *vrb_sysfs_root(void);

/* Fills ibv.dev_path and ibv.ibdev_path of a new device. */
void vrb_sysfs_name(struct vrb_device *dev);

/* Writes what changed since this process wrote it last. Must hold vrb.lock. */
void vrb_sysfs_publish(struct vrb_device *dev);

/* Removes what processes left of devices that are not in the list. Must hold vrb.lock. */
void vrb_sysfs_prune(struct vrb_device *const *list, int count);

/* Adds this process's counters to the files. Takes vrb.drive. */
void vrb_sysfs_count(struct vrb_device *dev);

/* Makes the files of the counters where they are missing. Must hold vrb.lock. */
void vrb_sysfs_count_begin(struct vrb_device *dev);

/* The same for the devices of all open contexts, if the directory lies in the tree. Takes vrb.lock. */
void vrb_sysfs_about_to_read(const char *dir);

#endif
