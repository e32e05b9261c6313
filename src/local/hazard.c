/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hazards (L8): a peer publishes in its lane each key that it uses for a one-sided access; a thread
 * of this process publishes the key of the memory at its end in local_peer.own_key. Before a key or
 * a QP goes away, the owner waits until no hazard names it, then tells peers to remove their
 * mappings of the key.
 */
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "host/host.h"
#include "local/parts.h"
#include "local/peer.h"
#include "local/segment.h"
#include "run/clock.h"
#include "run/log.h"
#include "run/proc_state.h"
#include "util/atomic.h"
#include "util/time.h"
#include "util/tuning.h"

/* For a peer that is stopped, or in a PID namespace of which this process knows nothing, */
#define BUSY_TIMEOUT  (10 * VRB_SECOND)
/* and if the memory stays registered, so that nobody unmaps it next. */
#define QUIET_TIMEOUT (100 * VRB_MSEC)

/* Returns the first slot from `slot` on whose lane was ever claimed; SEG_PEERS: there is none. */
static unsigned int claimed_from(const struct segment *seg, unsigned int slot)
{
	while (slot < SEG_PEERS) {
		uint64_t words = load_acquire(&segment_header(seg)->claimed[slot / 64]);

		if (words >> slot % 64)
			return slot + __builtin_ctzll(words >> slot % 64);
		slot = (slot / 64 + 1) * 64;
	}
	return SEG_PEERS;
}

/* Returns the first lane with memory from *slot on, and its slot; NULL if there is none. */
static const struct lane *next_lane(struct local *l, unsigned int *slot)
{
	const struct lane *lane;

	for (; (*slot = claimed_from(l->seg, *slot)) < SEG_PEERS; ++*slot) {
		lane = segment_own_lane(l->seg, *slot);
		if (lane != NULL)
			return lane;
	}
	return NULL;
}

/* Has it ended, as far as is known? A clone without fork handlers may still hold its life lock. */
static bool is_gone(struct local *l, unsigned int slot)
{
	struct host_peer peer;

	return !host_peer(l->host, (int)slot, &peer) || proc_is_gone(peer.pid);
}

/*
 * A long copy, or one whose process gets little of a CPU, takes longer than a stopped process is
 * waited for. Then the wait leaves the CPU to it.
 */
static bool goes_on(struct local *l, unsigned int slot, uint64_t waited, uint64_t timeout)
{
	static const struct timespec pause = { .tv_nsec = LIMIT_HAZARD_PAUSE_NS };

	if (waited < QUIET_TIMEOUT) {
		sched_yield();
		return true;
	}
	if ((waited >= timeout && host_is_stopped(l->host, (int)slot)) ||
	    (waited >= BUSY_TIMEOUT && is_gone(l, slot)))
		return false;
	syscall(SYS_nanosleep, &pause, NULL);	/* no cancellation point */
	return true;
}

/*
 * Waits until *hazard no longer holds the value. Gives up if the process in `slot` has died, or,
 * after the timeout, if it is stopped, or, after BUSY_TIMEOUT, if it is not known to exist.
 */
static void wait_hazard(struct local *l, unsigned int slot, const struct lane *lane,
			const uint32_t *hazard, uint32_t value, uint64_t timeout)
{
	uint64_t checked = 0, waited = 0;

	for (unsigned int tries = 1; load_acquire(hazard) == value; tries++) {
		if (tries % LIMIT_HAZARD_SPINS != 0) {
			cpu_relax();
			continue;
		}
		if (!host_alive(l->host, slot, load_relaxed(&lane->sender)))
			return;
		waited += time_wait_step(&checked, clock_now());
		if (!goes_on(l, slot, waited, timeout)) {
			log_limited(LOG_LOCAL, LOG_WARN,
				    "the process in slot %u has not finished its access to memory",
				    slot);
			return;
		}
	}
}

/* Has a peer mapped a region of this process? Then it uses its keys with light fences. */
static bool is_mapped(struct local *l)
{
	const struct lane *lane;

	for (unsigned int slot = 0; (lane = next_lane(l, &slot)) != NULL; slot++)
		if (load_relaxed(&lane->maps) != 0)
			return true;
	return false;
}

/*
 * L8: between the revocation and the loads of hazards. Threads of this process use its keys with
 * light fences only if it has mapped a peer's region.
 */
static void revocation_fence(struct local *l)
{
	full_fence();
	if (load_relaxed(&segment_header(l->seg)->heavy) && (is_mapped(l) || region_maps_used()))
		local_heavy_fence(l);
}

/* L8. Waits for the hazards that name key `index`; index 0: for all that are set now. */
static void wait_hazards(struct local *l, uint32_t index, uint64_t timeout)
{
	const struct lane *lane;

	revocation_fence(l);
	for (unsigned int slot = 0; (lane = next_lane(l, &slot)) != NULL; slot++) {
		for (unsigned int i = 0; i < LANE_HAZARDS; i++) {
			uint32_t found = load_acquire(&lane->hazard[i]);

			if (found != 0 && (index == 0 || found == index))
				wait_hazard(l, slot, lane, &lane->hazard[i], found, timeout);
		}
	}
}

/*
 * L8. Waits for this process's own copies with the memory of key `index`. A copy needs no lock to
 * end.
 */
static void wait_own(struct local *l, uint32_t index)
{
	unsigned int n;

	lock_acquire(&l->reading);
	n = load_acquire(&l->n_outbound);	/* pairs with open_peer() */
	for (unsigned int i = 0; i < n; i++)
		for (unsigned int tries = 1; load_acquire(&l->outbound[i]->own_key) == index;
		     tries++) {
			if (tries % LIMIT_HAZARD_SPINS != 0)
				cpu_relax();
			else
				sched_yield();
		}
	lock_release(&l->reading);
}

void local_wait_unused(struct local *l, uint32_t index)
{
	wait_hazards(l, index, BUSY_TIMEOUT);
	wait_own(l, index);	/* behind the fence of wait_hazards() */
}

void local_region_ended(struct local *l)
{
	const struct lane *lane;

	for (unsigned int slot = 0; (lane = next_lane(l, &slot)) != NULL; slot++)
		if (load_relaxed(&lane->maps) != 0)
			host_ring(l->host, slot, load_relaxed(&lane->sender));
}

void local_wait_quiet(struct local *l)
{
	wait_hazards(l, 0, QUIET_TIMEOUT);
}
