/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/diag/port_counters.h"

#include <string.h>

#include "core/base/context.h"
#include "core/base/state.h"
#include "core/device/device.h"
#include "core/device/sysfs_file.h"
#include "core/device/sysfs_tree.h"
#include "core/qp/qp.h"
#include "core/qp/qp_table.h"
#include "core/raw/raw_port.h"

struct counting {
	const struct vrb_device *dev;
	struct roce_counters *sum;
};

static void count_qp(struct vrb_qp *qp, void *arg)
{
	struct counting *c = arg;

	if (qp->config.ctx->dev != c->dev)
		return;
	lock_acquire(&qp->lock);
	vrb_counters_add(c->sum, roce_qp_counters(&qp->roce));
	lock_release(&qp->lock);
}

void vrb_device_counters(const struct vrb_device *dev, struct roce_counters *sum)
{
	struct counting c = { .dev = dev, .sum = sum };

	lock_acquire(&vrb.poll_lock);
	*sum = dev->retired;
	sum->dropped_pkts += vrb_raw_lost(dev);
	vrb_qp_table_for_each(count_qp, &c);
	lock_release(&vrb.poll_lock);
}

void vrb_sysfs_count(struct vrb_device *dev)
{
	struct roce_counters sum;

	if (!vrb_sysfs_root())
		return;
	vrb_device_counters(dev, &sum);
	vrb_sysfs_count_add(dev, &sum);
}

void vrb_sysfs_about_to_read(const char *dir)
{
	const char *top = vrb_sysfs_root();
	struct list *pos;

	if (!top || strncmp(dir, top, strlen(top)) != 0)
		return;
	pthread_mutex_lock(&vrb.lock);
	list_for_each (pos, &vrb.contexts)
		vrb_sysfs_count(list_entry(pos, struct vrb_context, node)->dev);
	pthread_mutex_unlock(&vrb.lock);
}
