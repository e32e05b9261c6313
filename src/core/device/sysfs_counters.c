/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The counter files of sysfs_tree.h: sums over all processes. count_lock protects the `counted` of
 * a device.
 */
#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/device/device.h"
#include "core/device/sysfs_file.h"
#include "core/device/sysfs_tree.h"
#include "util/compiler.h"

enum {
	WORD = 4,	/* port data counters are in 4-byte words */
};

static pthread_mutex_t count_lock = PTHREAD_MUTEX_INITIALIZER;

/* File names as in soft RoCE and InfiniBand; offsets into struct roce_counters. */
static const struct {
	const char *dir;
	const char *name;
	size_t offset;
	unsigned int unit;
} counters[] = {
#define HW(name) { "hw_counters", #name, offsetof(struct roce_counters, name), 1 }
	HW(sent_pkts),
	HW(rcvd_pkts),
	HW(duplicate_request),
	HW(out_of_seq_request),
	HW(rcvd_rnr_err),
	HW(rcvd_seq_err),
	HW(send_rnr_err),
	HW(send_err),
	HW(ack_deferred),
	HW(retry_exceeded_err),
	HW(retry_rnr_exceeded_err),
	HW(completer_retry_err),
	HW(retransmitted_pkts),
	HW(dropped_pkts),
	HW(out_of_buffer),
	HW(unreceived_msgs),
	HW(broken_msgs),
	HW(refused_msgs),
	HW(lost_pkts),
	HW(rdma_sends),
	HW(rdma_recvs),
#undef HW
	{ "counters", "port_xmit_packets", offsetof(struct roce_counters, sent_pkts), 1 },
	{ "counters", "port_rcv_packets", offsetof(struct roce_counters, rcvd_pkts), 1 },
	{ "counters", "port_xmit_data", offsetof(struct roce_counters, sent_bytes), WORD },
	{ "counters", "port_rcv_data", offsetof(struct roce_counters, rcvd_bytes), WORD },
};

static uint64_t value_at(const struct roce_counters *c, size_t offset)
{
	uint64_t v;

	memcpy(&v, (const char *)c + offset, sizeof(v));
	return v;
}

static struct sysfs_place place_of(const struct vrb_device *dev, unsigned int counter)
{
	return vrb_sysfs_place("devices/%s/infiniband/%s/ports/1/%s", dev->ibv.name, dev->ibv.name,
			       counters[counter].dir);
}

/* Must hold count_lock and the file lock. */
static void add_counters(struct vrb_device *dev, const struct roce_counters *sum)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(counters); i++) {
		struct sysfs_place p = place_of(dev, i);
		uint64_t unit = counters[i].unit;
		uint64_t delta = value_at(sum, counters[i].offset) / unit -
				 value_at(&dev->counted, counters[i].offset) / unit;

		if (!delta && vrb_sysfs_exists(&p, counters[i].name))
			continue;
		vrb_sysfs_put(&p, counters[i].name, "%llu",
		    (unsigned long long)(vrb_sysfs_number(&p, counters[i].name) + delta));
	}
	dev->counted = *sum;
}

void vrb_sysfs_count_add(struct vrb_device *dev, const struct roce_counters *sum)
{
	int fd;

	if (!vrb_sysfs_root())
		return;
	pthread_mutex_lock(&count_lock);
	/* Without the lock the next update includes it; a file that cannot be written lacks it. */
	fd = vrb_sysfs_lock();
	if (fd >= 0) {
		add_counters(dev, sum);
		close(fd);
	}
	pthread_mutex_unlock(&count_lock);
}

/*
 * So that no child inherits them: count_lock taken, or the file's lock, which its copy of the
 * descriptor would keep.
 */
void vrb_sysfs_before_fork(void)
{
	pthread_mutex_lock(&count_lock);
}

void vrb_sysfs_after_fork(void)
{
	pthread_mutex_unlock(&count_lock);
}

/* With the device's description, so that a program can open them at once. */
void vrb_sysfs_count_begin(const struct vrb_device *dev)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(counters); i++) {
		struct sysfs_place p = place_of(dev, i);

		if (!vrb_sysfs_exists(&p, counters[i].name))
			vrb_sysfs_put(&p, counters[i].name, "0");
	}
}
