/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether the process in a slot lives and runs. */
#include "host/host.h"
#include "host/state.h"
#include "run/proc_state.h"

bool host_alive(struct host *h, int slot, uint64_t incarnation)
{
	struct table_slot s;

	if (!h->shared || slot < 0 || slot >= HOST_SLOTS || !incarnation)
		return false;
	if (!table_read_slot(&h->table, slot, &s))
		return true;	/* proves no death */
	return s.incarnation == incarnation &&
	       (slot == h->slot || table_slot_locked(&h->table, slot));
}

bool host_is_stopped(struct host *h, int slot)
{
	struct host_peer peer;

	return host_peer(h, slot, &peer) && proc_is_stopped(peer.pid);
}
