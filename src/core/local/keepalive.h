/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keepalive between processes of this host that use the wire. A peer may leave packets unanswered
 * because it is stopped, not scheduled or in a debugger, which is not a loss. So we send a probe to
 * the inbox of its process, which answers after it has processed the packets in its socket. While
 * the process lives and has not answered, an ack timeout does not count; docs/WIRE.md has the rule.
 * Must hold vrb.poll_lock.
 */
#ifndef VRB_CORE_LOCAL_KEEPALIVE_H
#define VRB_CORE_LOCAL_KEEPALIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/qp/transport_state.h"
#include "host/host.h"

struct vrb_qp;

/*
 * Returns true if a missing response must not count as a loss. `overdue`: the ack timeout has
 * passed; otherwise the requester is about to probe. The first call for the oldest unacknowledged
 * PSN sends a keepalive probe. Must hold qp->lock.
 */
bool vrb_keepalive_defers_timeout(struct vrb_qp *qp, bool overdue, uint64_t now);

/*
 * vrb_keepalive_receive() handles a struct host_keepalive, a probe or an answer. Probes are
 * answered by vrb_keepalive_reply(), once the packets in the socket have been processed.
 */
void vrb_keepalive_receive(const void *keepalive, uint64_t now);
bool vrb_keepalive_asked(void);
void vrb_keepalive_reply(void);

/*
 * Requests of a QP of this process begin or end to wait for another process, as XRC's do: answers
 * say so while there are any. Needs no lock.
 */
void vrb_keepalive_waits(bool waits);

/* In a forked child: drops the parent's state. */
void vrb_keepalive_forget(void);

#endif
