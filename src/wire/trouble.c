/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/trouble.h"

#include <string.h>

#include "util/atomic.h"

void trouble_init(struct trouble *t)
{
	memset(t, 0, sizeof(*t));
	lock_init(&t->lock);
}

/* Must hold t->lock. */
static int slot_of(const struct trouble *t, const struct net_addr *dst)
{
	for (int i = 0; i < TROUBLES; i++)
		if (t->last[i].err && net_addr_equal(&t->last[i].dst, dst))
			return i;
	return -1;
}

void trouble_note(struct trouble *t, const struct net_addr *dst, int err, uint64_t now)
{
	int slot;

	lock_acquire(&t->lock);
	slot = slot_of(t, dst);
	if (slot < 0)
		slot = (int)(t->next++ % TROUBLES);
	t->last[slot].dst = *dst;
	t->last[slot].err = err;
	t->last[slot].at = now;
	store_relaxed(&t->any, true);
	lock_release(&t->lock);
}

int trouble_about(struct trouble *t, const struct net_addr *dst, uint64_t now)
{
	int slot, err = 0;

	if (!load_relaxed(&t->any))
		return 0;
	lock_acquire(&t->lock);
	slot = slot_of(t, dst);
	if (slot >= 0 && now < time_after(t->last[slot].at, TROUBLE_MEMORY))
		err = t->last[slot].err;
	lock_release(&t->lock);
	return err;
}
