/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exit MADs: MADs to send to the peers of a process's connections if it dies without disconnecting.
 * The kernel's connection manager outlives programs; ours does not, so other processes of the host
 * that manage connections send these MADs for a dead one.
 *
 * A process writes its exit MADs to "sNNNN.exit-mads" in the run directory, one record per
 * connection, and keeps the file open. When it dies, the kernel closes the file, which inotify
 * reports to all watchers. The process that reclaims the dead process's slot renames the file to
 * "exit-mads.NETNS.INCARNATION", which inotify reports, too. The first process in the same network
 * namespace to claim that file, as "sNNNN.successor", executes it; if that process dies before it
 * is done, the file is renamed back.
 *
 * Thread-safe, except that only one thread at a time may call host_exit_mad_execute().
 */
#ifndef VRB_HOST_EXIT_MAD_H
#define VRB_HOST_EXIT_MAD_H

#include <stdbool.h>
#include <stdint.h>

#include "host/host.h"
#include "util/net.h"

/*
 * Writes the record at an index that the caller chooses; mad NULL clears it. Returns 0, also in
 * private mode, or an errno value.
 */
int host_exit_mad_write(struct host *h, uint32_t index, const struct net_path *path,
			const uint8_t *mad);

/*
 * Returns a descriptor that becomes readable when a process may have died, or -1. The caller closes
 * it.
 */
int host_exit_mad_watch(struct host *h);

/*
 * Empties that descriptor, and reclaims the resources of dead processes. Returns true if there are
 * exit MADs to execute.
 */
bool host_exit_mad_news(struct host *h, int fd);

/*
 * A dying process may still hold its life lock when its file is closed. Returns true if there is
 * such a process: the caller then checks again a little later, a limited number of times. If that
 * reclaims the process, the descriptor becomes readable.
 */
bool host_exit_mad_dying(const struct host *h);
void host_exit_mad_look_again(struct host *h, bool last);

/* Sends the MAD of a record. Returns false if it cannot be sent now. */
typedef bool (*host_exit_mad_fn)(void *arg, const struct net_path *path,
				 const uint8_t mad[HOST_MAD_LEN]);

/*
 * Claims exit MADs that were put aside, and calls fn for each record. Returns false if one could
 * not be sent now; the next call continues with it.
 */
bool host_exit_mad_execute(struct host *h, host_exit_mad_fn fn, void *arg);

#endif
