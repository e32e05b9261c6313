/* SPDX-License-Identifier: BSD-2-Clause */
/* A spin lock with a name on it; see atomics.h. */
#include "local/atomics.h"

#include <sched.h>

#include "util/atomic.h"

enum {
	SPINS_BEFORE_YIELD = 64,
	YIELDS_BEFORE_DOUBT = 256,
};

void atomics_lock(uint64_t *word, uint64_t me, atomics_alive_fn alive, void *arg)
{
	for (unsigned int tries = 0;; tries++) {
		uint64_t holder = 0;

		if (cas_acq_rel(word, &holder, me))	/* L3 */
			return;
		if (tries % SPINS_BEFORE_YIELD != SPINS_BEFORE_YIELD - 1) {
			cpu_relax();
			continue;
		}
		sched_yield();
		/* A thread of this process that holds it is alive by definition. */
		if (tries / SPINS_BEFORE_YIELD % YIELDS_BEFORE_DOUBT == YIELDS_BEFORE_DOUBT - 1 &&
		    holder != me && !alive(arg, holder) && cas_acq_rel(word, &holder, me))
			return;
	}
}

void atomics_unlock(uint64_t *word, uint64_t me)
{
	cas_acq_rel(word, &me, 0);	/* L3; not if somebody took it over by mistake */
}
