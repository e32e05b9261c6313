/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/path_errors.h"

#include <string.h>

#include "util/atomic.h"

void path_errors_init(struct path_errors *t)
{
	memset(t, 0, sizeof(*t));
	lock_init(&t->lock);
}

/* Must hold t->lock. */
static int slot_of(const struct path_errors *t, const struct net_addr *dst)
{
	for (int i = 0; i < PATH_ERRORS; i++)
		if (t->last[i].err && net_addr_equal(&t->last[i].dst, dst))
			return i;
	return -1;
}

void path_errors_note(struct path_errors *t, const struct net_addr *dst, int err, uint64_t now)
{
	int slot;

	lock_acquire(&t->lock);
	slot = slot_of(t, dst);
	if (slot < 0)
		slot = (int)(t->next++ % PATH_ERRORS);
	t->last[slot].dst = *dst;
	t->last[slot].err = err;
	t->last[slot].at = now;
	store_relaxed(&t->any, true);
	lock_release(&t->lock);
}

int path_errors_latest(struct path_errors *t, const struct net_addr *dst, uint64_t now)
{
	int slot, err = 0;

	if (!load_relaxed(&t->any))
		return 0;
	lock_acquire(&t->lock);
	slot = slot_of(t, dst);
	if (slot >= 0 && now < time_after(t->last[slot].at, PATH_ERRORS_MAX_AGE))
		err = t->last[slot].err;
	lock_release(&t->lock);
	return err;
}
