/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is posted and not yet done when its memory, or its queue pair, is to go.  An adapter has fetched the data of a short request long
 * before a program comes to the next call, and programs rely on it: they post, then deregister or destroy at once.  So whoever deregisters a
 * region, or destroys a queue pair, first lets the requests finish that need it.
 *
 * The calling thread waits, and drives the device meanwhile; it must hold no lock.  It waits as long as the peer says something new: a
 * request that nobody answers is waited for LINGER_SILENCE, all together for LINGER_MAX.  A peer that waits for a call of this program,
 * for a receive as a rule, is such a silent one, so nothing can lock up.  Silent waits have a budget for the whole process, LINGER_BUDGET in ten
 * times that, so that thousands of queue pairs to a dead host are destroyed at once.
 *
 * What is not done then fails or is lost, as if there had been no wait.
 */
#ifndef VRB_CORE_LINGER_H
#define VRB_CORE_LINGER_H

#include <stdint.h>

#include "util/time.h"

#define LINGER_SILENCE (200 * VRB_MSEC)
#define LINGER_MAX     (2 * VRB_SECOND)
#define LINGER_BUDGET  VRB_SECOND

struct vrb_qp;

/* For requests that name the region with this lkey, of queue pairs of its protection domain. */
void vrb_linger_region(uint32_t pdn, uint32_t lkey);

/* For requests of this one that change something at the peer. */
void vrb_linger_qp(struct vrb_qp *qp);

#endif
