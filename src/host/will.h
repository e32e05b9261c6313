/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Wills: what a process wants to have said to the peers of its connections if it dies without a word.  The
 * kernel's connection manager outlives programs; ours does not, so the other processes of the host that
 * manage connections speak for the dead.
 *
 * A will is a file in the run directory, "sNNNN.will", one record per connection, which its process keeps
 * open.  When it dies the kernel closes the file, of which inotify tells all who watch.  Whoever reclaims the
 * dead one's slot puts its will aside, "will.NETNS.INCARNATION", of which inotify tells, too; whoever is
 * first to take it from there, within the same network namespace, executes it.
 *
 * Thread-safe but for host_will_execute(), which is called by one thread at a time.
 */
#ifndef VRB_HOST_WILL_H
#define VRB_HOST_WILL_H

#include <stdbool.h>
#include <stdint.h>

#include "host/host.h"
#include "util/net.h"

/*
 * Writes the record at an index of the caller's choice; mad NULL: there is none any more. Returns 0, also in
 * private mode, or an errno value.
 */
int host_will_write(struct host *h, uint32_t index, const struct net_path *path, const uint8_t *mad);

/*
 * A descriptor that becomes readable when a process may have died; -1: there is none. The caller closes it.
 */
int host_will_watch(struct host *h);

/* Empties that descriptor, and reclaims what the dead have left. True: there is a will to be executed. */
bool host_will_news(struct host *h, int fd);

/* Takes the wills that are put aside, and calls fn with each record. */
void host_will_execute(struct host *h, void (*fn)(void *arg, const struct net_path *path, const uint8_t mad[HOST_MAD_LEN]),
		       void *arg);

#endif
