/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FLUSH to persistence (Annex A19). msync(2) may take as long as a disk write. A separate thread
 * calls it, because the thread that took the packet holds locks that others need, and may be
 * cancelled. Only the response to the FLUSH and the QP's later responses wait for it.
 *
 * The thread starts with the first job and stops with the last context.
 */
#ifndef VRB_CORE_PROGRESS_FLUSH_THREAD_H
#define VRB_CORE_PROGRESS_FLUSH_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mr_entry;
struct wq_qp;

/*
 * Takes over the reference on `e`, whose memory it flushes, and then calls roce_flushed() for the
 * request with the QP's expected PSN. Returns false, without the reference, if there is no memory
 * or no thread. Must hold qp->lock.
 */
bool vrb_flusher_add(struct wq_qp *wq, struct mr_entry *e, void *from, size_t len);

/* Waits for all queued jobs. Must hold no lock. */
void vrb_flusher_stop(void);

/* In a forked child. */
void vrb_flusher_forget(void);

#endif
