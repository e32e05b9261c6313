/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the sockets of rx queues (base/rx_queues.h), and opens and closes rx queues. */
#ifndef VRB_CORE_PROGRESS_RX_QUEUE_H
#define VRB_CORE_PROGRESS_RX_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/rx_queues.h"

/*
 * Takes a bounded number of packets that have arrived, and transmits the QPs' responses. Returns
 * the number of packets. Must hold the rx queue's lock, and no lock below it.
 */
unsigned int vrb_rx_queue_poll(struct vrb_rx_queue *r, uint64_t now, bool poller);

/* The same for all packets that have arrived, unless they do not end. */
void vrb_rx_queue_take_all(struct vrb_rx_queue *r, uint64_t now, bool poller);

/* atomic hint: until then pollers read the sockets though no QP expects packets from the wire */
extern uint64_t vrb_wire_busy_until;

/*
 * Starts the main rx queue with vrb.wire, and as many as VERBENA_RECEIVERS requests. Returns 0 or
 * an errno value. For vrb_progress_start() and vrb_progress_stop().
 */
int vrb_rx_queues_start(void);
void vrb_rx_queues_end(void);

/*
 * Several threads poll: opens an rx queue for each, limited by the number of CPUs. Happens once, if
 * it is useful at all. Must hold no lock of level 3 or below.
 */
void vrb_rx_queues_open(void);

/* In a forked child: locks and QPs were the parent's. */
void vrb_rx_queues_forget(void);

#endif
