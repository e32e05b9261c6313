/* SPDX-License-Identifier: BSD-2-Clause */
/* See peer_fault.h. */
#include "local/peer_fault.h"

#include <stdbool.h>
#include <string.h>

#include "host/host.h"
#include "local/layout.h"
#include "local/local.h"
#include "wq/qp.h"

static bool same_gid(const uint8_t published[16], const struct net_addr *address)
{
	return memcmp(published, address->raw, sizeof(address->raw)) == 0;
}

static struct local_fault fault_of(const struct wq_qp *wq, const struct local_peer *peer)
{
	struct seg_qp there;

	if (!local_peer_qp(peer, wq->dest_qpn, &there))
		return (struct local_fault){ .kind = LOCAL_FAULT_NO_QP };
	if (there.type != wq->type)
		return (struct local_fault){ LOCAL_FAULT_TYPE, .value = there.type };
	if (!wq_receives(there.state))
		return (struct local_fault){ LOCAL_FAULT_STATE, .value = there.state };
	if (there.dest_qpn != wq->qpn)
		return (struct local_fault){ LOCAL_FAULT_OTHER_QP, .value = there.dest_qpn };
	if (!same_gid(there.src_gid, &wq->path.dst) || !same_gid(there.dest_gid, &wq->path.src))
		return (struct local_fault){ .kind = LOCAL_FAULT_ADDRESS };
	return (struct local_fault){ .kind = LOCAL_FAULT_NONE };
}

struct local_fault local_peer_fault(struct host *host, struct local *l, const struct wq_qp *wq)
{
	struct local_fault fault = { .kind = LOCAL_FAULT_NONE };
	struct host_peer process = { 0 };
	struct local_peer *peer;

	if (!host_shared(host))
		return fault;
	if (host_owner(host, wq->dest_qpn) == HOST_NO_SLOT)
		return (struct local_fault){ .kind = LOCAL_FAULT_NOBODY };
	peer = l ? local_peer_get(l, wq->dest_qpn) : NULL;
	if (!peer)
		return fault;
	fault = fault_of(wq, peer);
	if (host_peer(host, local_peer_slot(peer), &process))
		fault.pid = process.pid;
	local_peer_put(l, peer);
	return fault;
}
