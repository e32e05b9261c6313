/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FLUSH to persistence (Annex A19): msync(2), which may take as long as a disk does, is called by a thread of its own and not by whoever took
 * the packet, who holds locks that everybody needs, and may be a thread of the program that is cancelled.  The answer waits for it, and what the
 * queue pair has to answer behind it; nothing else does.
 *
 * The thread starts with the first job and ends with the process's last context.
 */
#ifndef VRB_CORE_FLUSHER_H
#define VRB_CORE_FLUSHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mr_entry;
struct vrb_qp;

/*
 * Takes over the reference on `e`, whose memory it is, and tells the QP when it is done (roce_flushed()), which the request with the PSN that the QP
 * expects now waits for.  False, and nothing is taken, if there is no memory or no thread.  Must hold qp->lock.
 */
bool vrb_flusher_add(struct vrb_qp *qp, struct mr_entry *e, void *from, size_t len);

/* Waits for all that was added. Must hold no lock. */
void vrb_flusher_stop(void);

/* In a forked child. */
void vrb_flusher_forget(void);

#endif
