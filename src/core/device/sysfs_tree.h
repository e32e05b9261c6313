/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files in the run directory that describe the devices as /sys does for kernel devices:
 *
 *	<run>/sys.<netns>[.<tag>]/
 *	  devices/<dev>/{vendor,device,numa_node,local_cpus,current_link_*,net/<if>}
 *	  devices/<dev>/infiniband/<dev>/{node_guid,fw_ver,board_id,...,device -> ../..,ports/1/...}
 *	  class/infiniband/<dev> -> ../../devices/<dev>/infiniband/<dev>
 *	  class/infiniband_verbs/{abi_version,uverbs<n>/{ibdev,dev,abi_version}}
 *	  class/misc/rdma_cm/abi_version
 *	  dev/infiniband/uverbs<n> -> /dev/null
 *
 * The tag identifies the value of $VERBENA_DEVICES. tools/shim redirects /sys and /dev to this
 * tree.
 *
 * All processes of a user and network namespace write the same files, each by rename, and only when
 * the content changes; a mark saves a process from reading them all. Counters are sums over all
 * processes: each process adds its new counts, under a file lock, when a context is closed and when
 * ibv_read_sysfs_file() reads a counter; between these moments the files lag.
 *
 * The files are optional: nothing fails if they cannot be written.
 */
#ifndef VRB_CORE_DEVICE_SYSFS_TREE_H
#define VRB_CORE_DEVICE_SYSFS_TREE_H

#include <stdbool.h>

struct roce_counters;
struct vrb_device;

/* The root of the tree without a trailing slash, or NULL. Determined once; any thread. */
const char *vrb_sysfs_root(void);

/* Sets ibv.dev_path and ibv.ibdev_path of a new device. */
void vrb_sysfs_name(struct vrb_device *dev);

/* Writes what has changed since this process last wrote. Must hold vrb.lock. */
void vrb_sysfs_publish(struct vrb_device *dev);

/* Removes the files of devices that are not in the list. Must hold vrb.lock. */
void vrb_sysfs_prune(struct vrb_device *const *list, int count);

/* Creates missing counter files. Must hold the file lock. */
void vrb_sysfs_count_begin(const struct vrb_device *dev);

/* Around fork(), in parent and child. Must hold vrb.lock. */
void vrb_sysfs_before_fork(void);
void vrb_sysfs_after_fork(void);

/* Adds the increase since the last call; sum: this process's counters. */
void vrb_sysfs_count_add(struct vrb_device *dev, const struct roce_counters *sum);

#endif
