/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether the process in a slot lives and runs. */
#include "host/host.h"
#include "host/state.h"
#include "run/proc_state.h"

enum host_liveness host_liveness(struct host *h, int slot, uint64_t incarnation)
{
	struct table_slot s;

	if (!h->shared || slot < 0 || slot >= HOST_SLOTS || !incarnation)
		return HOST_DEAD;
	if (!table_read_slot(&h->table, slot, &s))
		return HOST_UNKNOWN;
	if (s.incarnation != incarnation)
		return HOST_DEAD;
	if (slot == h->slot || table_slot_locked(&h->table, slot))
		return HOST_ALIVE;
	return table_slot_free(&h->table, slot) ? HOST_DEAD : HOST_UNKNOWN;
}

bool host_alive(struct host *h, int slot, uint64_t incarnation)
{
	return host_liveness(h, slot, incarnation) == HOST_ALIVE;
}

bool host_is_stopped(struct host *h, int slot)
{
	struct host_peer peer;

	return host_peer(h, slot, &peer) && proc_is_stopped(peer.pid);
}
