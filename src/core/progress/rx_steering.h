/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keeps the kernel's steering program up to date, so that packets for this process's QPs arrive at
 * its own sockets. wire/udp.h describes the steps, host/steer.h what processes publish. Everything
 * is under vrb.poll_lock unless stated otherwise.
 */
#ifndef VRB_CORE_PROGRESS_RX_STEERING_H
#define VRB_CORE_PROGRESS_RX_STEERING_H

#include <stdbool.h>
#include <stdint.h>

struct vrb_rx_queue;

/* Does this process share the UDP port with others? Not where it is relayed to. Any thread. */
bool vrb_steers(void);

/*
 * Probes for this process's position once the wire is open. The reply comes with the next packets.
 */
void vrb_steer_start(void);

/* Probes for the positions of all rx queues, because there are new ones or they may have moved. */
void vrb_steer_probe(void);

/*
 * Closes the sockets of a queue. Where they were, the kernel puts the last ones of the group:
 * steers for that first, because a packet for a position that no longer exists goes to any process;
 * publishes the new position of the process that has them, and tells it. Then processes what had
 * come. Must hold only the queue's lock, and no other thread may use the queue.
 */
void vrb_steer_leave(struct vrb_rx_queue *r);

/*
 * The same where the process exits with its devices open. With more than one queue, it leaves the
 * sockets to the kernel: others could still use the locks.
 */
void vrb_steer_leave_at_exit(struct vrb_rx_queue *r);

/* Announces to the other processes that this one has left. */
void vrb_steer_stop(void);

/* Another process that leaves says that a socket of this one moves: a struct host_move. */
void vrb_steer_moved(const void *message);

/*
 * Call before peers may send to a QP: waits briefly for the reply to a probe, which no thread may
 * have read, and probes again if other processes have left since. Until then packets go to any
 * process, and the inbox through which that one passes them on holds few: lost datagrams are not
 * repeated. Must hold no lock.
 */
void vrb_steer_settle(void);

/* Call after adding a QP: its block of numbers may not have been published to the kernel yet. */
void vrb_steer_qp_added(void);

/* Call once this process listens for requests. Takes vrb.poll_lock. */
void vrb_steer_listener_added(void);

/*
 * Call after taking packets, which may include a probe. Cheap if none did. Must hold only the rx
 * queue's lock; takes vrb.poll_lock unless that is the lock held.
 */
void vrb_steer_packets_seen(struct vrb_rx_queue *r);

/*
 * n packets were passed on by other processes, or arrived on the wrong rx queue. Probes again if
 * this persists.
 */
void vrb_steer_misled(unsigned int n, uint64_t now);

/*
 * Packets were not answered: they may have gone to the unread socket of a process that is stopped.
 * Probes again if other processes have come or gone, and now and then anyway.
 */
void vrb_steer_doubt(uint64_t now);

#endif
