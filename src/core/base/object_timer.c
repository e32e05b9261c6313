/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/object_timer.h"

#include "core/base/state.h"
#include "run/progress.h"

int vrb_timer_add(struct object_timer *d, void (*expire)(struct object_timer *d, struct expiry *e))
{
	d->expire = expire;
	return timers_add(vrb.timers, &d->timer);
}

void vrb_timer_set(struct object_timer *d, uint64_t due)
{
	if (timers_arm(vrb.timers, &d->timer, due))
		progress_hurry(vrb.progress, due);
}

void vrb_timer_remove(struct object_timer *d)
{
	lock_acquire(&vrb.poll_lock);
	timers_remove(vrb.timers, &d->timer);
	lock_release(&vrb.poll_lock);
}
