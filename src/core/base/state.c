/* SPDX-License-Identifier: BSD-2-Clause */
/* Process-wide state; state.h documents the locks. */
#include "core/base/state.h"

struct vrb_process vrb = {
	.life = PTHREAD_MUTEX_INITIALIZER,
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.contexts = { &vrb.contexts, &vrb.contexts },
	.monitor = -1,
};
