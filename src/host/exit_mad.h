/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exit MADs: MADs to be sent to the peers of a process's connections if it dies without
 * disconnecting. The kernel's connection manager outlives programs; ours does not, so other
 * processes of the host that manage connections send these MADs for a dead one.
 *
 * A process writes its exit MADs to "sNNNN.exit-mads" in the run directory, one record per
 * connection, and keeps the file open. When it dies, the kernel closes the file, which inotify
 * reports to all watchers. The process that reclaims the dead process's slot renames the file to
 * "exit-mads.NETNS.INCARNATION", which inotify reports, too. The first process in the same network
 * namespace to claim that file, as "sNNNN.successor", executes it; if it ends before, the file is
 * renamed back.
 *
 * Thread-safe, except host_exit_mad_execute(), which only one thread at a time may call.
 */
#ifndef VRB_HOST_EXIT_MAD_H
#define VRB_HOST_EXIT_MAD_H

#include <stdbool.h>
#include <stdint.h>

#include "host/host.h"
#include "util/net.h"

/*
 * Writes the record at an index of the caller's choice; mad NULL: there is none any more. Returns
 * 0, also in private mode, or an errno value.
 */
int host_exit_mad_write(struct host *h, uint32_t index, const struct net_path *path,
			const uint8_t *mad);

/*
 * A descriptor that becomes readable when a process may have died; -1: there is none. The caller
 * closes it.
 */
int host_exit_mad_watch(struct host *h);

/*
 * Empties that descriptor, and reclaims what the dead have left. True: there are exit MADs to be
 * executed.
 */
bool host_exit_mad_news(struct host *h, int fd);

/*
 * A process that dies may seem to live when its file is closed.  Is there such a one?  Then the
 * caller looks again a moment later, and again, up to a last time: what it reclaims is news of the
 * descriptor.
 */
bool host_exit_mad_dying(const struct host *h);
void host_exit_mad_look_again(struct host *h, bool last);

/* Sends the MAD of a record. False: it cannot be sent now. */
typedef bool (*host_exit_mad_fn)(void *arg, const struct net_path *path,
				 const uint8_t mad[HOST_MAD_LEN]);

/*
 * Takes the exit MADs that are put aside, and calls fn with each record. False: one could not be
 * sent now, and the next call goes on with it.
 */
bool host_exit_mad_execute(struct host *h, host_exit_mad_fn fn, void *arg);

#endif
