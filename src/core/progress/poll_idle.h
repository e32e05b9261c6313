/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a thread does that polls in vain. With more polling programs than CPUs, its peer may be
 * waiting for this CPU, and others use it as well: after a run of empty polls the thread lets them
 * run (cpu_share.h, cpu_contention.h).
 */
#ifndef VRB_CORE_PROGRESS_POLL_IDLE_H
#define VRB_CORE_PROGRESS_POLL_IDLE_H

#include <stdbool.h>
#include <stdint.h>

/* A run of polls begins of which the first found nothing; only where packets come by the wire. */
void vrb_idle_begin(uint64_t now);

/*
 * After a run of empty polls that began then: yields the CPU, sleeps until a packet comes or for a
 * moment, or does nothing. Returns true if other threads may have run. shards: of the RX queues to
 * sleep on. Hold no lock.
 */
bool vrb_idle_rest(unsigned int shards, uint64_t begin);

/* Should polls be brief, because other threads of the process may wait for a lock meanwhile? */
bool vrb_idle_wants_brief_polls(uint64_t now);

#endif
