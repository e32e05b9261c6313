/* SPDX-License-Identifier: BSD-2-Clause */
/* A spin lock with a name on it; see atomics.h. */
#include "local/atomics.h"

#include <pthread.h>
#include <sched.h>

#include "util/atomic.h"

enum {
	SPINS_BEFORE_YIELD = 64,
	YIELDS_BEFORE_DOUBT = 256,
	DOUBTS = 5000,
};

static pthread_mutex_t own_threads = PTHREAD_MUTEX_INITIALIZER;

void atomics_lock(uint64_t *word, uint64_t me, atomics_alive_fn alive, void *arg)
{
	unsigned int doubts = 0;

	pthread_mutex_lock(&own_threads);
	for (unsigned int tries = 1;; tries++) {
		uint64_t holder = 0;

		if (cas_acq_rel(word, &holder, me))	/* L3 */
			return;
		if (holder == me && cas_acq_rel(word, &holder, me))
			return;
		if (tries % SPINS_BEFORE_YIELD != 0) {
			cpu_relax();
			continue;
		}
		sched_yield();
		if (tries / SPINS_BEFORE_YIELD % YIELDS_BEFORE_DOUBT == 0 &&
		    (++doubts >= DOUBTS || !alive(arg, holder)) && cas_acq_rel(word, &holder, me))
			return;
	}
}

void atomics_unlock(uint64_t *word, uint64_t me)
{
	cas_acq_rel(word, &me, 0);	/* L3; not if somebody took it over */
	pthread_mutex_unlock(&own_threads);
}

void atomics_after_fork(void)
{
	pthread_mutex_init(&own_threads, NULL);
}
