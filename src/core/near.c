/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who is near: finding the neighbour of a queue pair, and what neighbours are told of it; near.h has the contract.
 * near_send.c sends packets to it, near_direct.c reaches into its memory, near_help.c shares a copy with it.
 *
 * Locks: under qp->lock.
 */
#include "core/near.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "core/context.h"
#include "core/device.h"
#include "core/mr.h"
#include "core/mrtab.h"
#include "core/process.h"
#include "core/qp.h"
#include "host/host.h"
#include "run/config.h"
#include "run/log.h"
#include "util/compiler.h"

enum {
	LOOK_AGAIN_MS = 1,	/* a neighbour that could not be reached is looked for again after this, */
	LOOK_AGAIN_MAX_MS = 256,	/* and each time after twice as long, up to this */
	HOLD_UC_MS = 1000,	/* an unreliable connection waits so long for its neighbour's QP */
	QUIET_WIRE_MS = 100,	/* what an unreliable connection sent by the wire has arrived by then, or is lost */
};

static uint64_t network_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/net", &st) == 0 ? st.st_ino : 0;
}

static struct mr_entry *key_chunk(uint32_t first, uint32_t n)
{
	return segment_keys(local_segment(vrb.local), first, n);
}

static void wait_unused(uint32_t index)
{
	local_wait_unused(vrb.local, index);
}

int vrb_near_start(void)
{
	int err;

	vrb.local = NULL;
	if (config_get()->transport == CONFIG_UDP)
		return ENOTSUP;
	err = local_start(vrb.host, network_namespace(), &vrb.local);
	if (err != 0) {
		vrb.local = NULL;
		if (err != ENOTSUP)
			log_limited(LOG_LOCAL, LOG_WARN, "no shared memory with other processes: %s",
				    strerror(err));
		return err;
	}
	mr_table_source(key_chunk, wait_unused);
	return 0;
}

/* The key table lies in the segment: it goes first. No key is in use, because no context is open. */
void vrb_near_stop(void)
{
	if (!vrb.local)
		return;
	mr_table_reset();
	vrb_near_members_put();
	local_stop(vrb.local);
	vrb.local = NULL;
}

void vrb_near_forget(void)
{
	vrb_near_members_forget();
	if (vrb.local)
		local_forget(vrb.local);
	vrb.local = NULL;
}

static void release_peers(struct vrb_near *n)
{
	if (n->peer)
		local_peer_put(vrb.local, n->peer);
	for (unsigned int i = 0; i < NEAR_ADDRESSEES; i++)
		if (n->to[i].peer)
			local_peer_put(vrb.local, n->to[i].peer);
	*n = (struct vrb_near){ .retry = VRB_NEVER, .from_slot = HOST_NO_SLOT,
				.published = n->published };
}

/* What vrb_near.published stands for: the state, whether the path is the one it was, and whether the connection is established. */
static uint8_t publication(const struct vrb_qp *qp)
{
	return qp->wq.state | qp->wq.mig_state << 4 | (qp->roce.resp.established ? 0x80 : 0);
}

static bool was_listening(const struct vrb_qp *qp)
{
	return wq_receives(qp->near.published & 0xf);
}

bool vrb_near_stale(const struct vrb_qp *qp)
{
	return qp->near.published != publication(qp);
}

void vrb_near_changed(struct vrb_qp *qp)
{
	struct seg_qp_facts facts = { .established = qp->roce.resp.established };
	bool deaf = was_listening(qp) && !wq_receives(qp->wq.state);

	qp->near.published = publication(qp);
	/* Raw frames have no neighbours. */
	if (!vrb.local || qp->wq.type == IBV_QPT_RAW_PACKET)
		return;
	/* The peer may have come up since: an unreliable first message should not find that out. */
	if (qp->wq.state == IBV_QPS_RTS)
		qp->near.again = qp->near.patience = 0;
	/* A neighbour stays one while the connection lasts. */
	if (qp->wq.state == IBV_QPS_RESET || qp->wq.state == IBV_QPS_INIT) {
		release_peers(&qp->near);
		qp->wq.direct = false;
		qp->wq.pull_min = 0;
	}
	segment_publish_qp(local_segment(vrb.local), &qp->wq, facts);
	/* A QP that has ceased to listen changes no memory any more. */
	if (deaf)
		local_wait_quiet(vrb.local);
}

void vrb_near_drop(struct vrb_qp *qp)
{
	if (!vrb.local)
		return;
	segment_retract_qp(local_segment(vrb.local), qp->wq.qpn);
	if (was_listening(qp))
		local_wait_quiet(vrb.local);
	release_peers(&qp->near);
}

/*
 * A QP number alone says nothing: another host may have the same.  The neighbour's QP has published that the address is its own, in
 * this network namespace, which makes it the one that is meant.
 */
static bool is_the_one(const struct local_peer *peer, const struct wq_qp *wq)
{
	struct seg_qp published;

	return local_peer_qp(peer, wq->dest_qpn, &published) &&
	       memcmp(published.src_gid, wq->path.dst.raw, sizeof(published.src_gid)) == 0;
}

static bool nothing_in_flight(const struct vrb_qp *qp)
{
	return qp->roce.req.psn == qp->roce.comp.una;
}

/* What is on the wire already must not be overtaken: that would look like a loss. */
static bool may_switch(const struct vrb_qp *qp, uint64_t now)
{
	if (qp->wq.type == IBV_QPT_UD || qp->wq.state < IBV_QPS_RTR)
		return false;
	if (qp->wq.type == IBV_QPT_UC)
		return !qp->near.far_at || time_since(qp->near.far_at, now) >= QUIET_WIRE_MS * VRB_MSEC;
	return !vrb.wire ||
	       (nothing_in_flight(qp) && qp->roce.resp.rd_owed == 0);
}

/*
 * An XRC receive QP can move to another process (docs/XRC.md), where it is looked for once it is not where it was.  What is in flight has to go on
 * by a lane, because its payload may have been left to be pulled.
 */
static void follow_peer(struct vrb_qp *qp, uint64_t now)
{
	struct vrb_near *n = &qp->near;
	struct local_peer *peer;
	struct seg_qp published;

	if (local_peer_alive(vrb.local, n->peer, now) &&
	    local_peer_qp(n->peer, qp->wq.dest_qpn, &published))
		return;
	if (now < n->again)
		return;
	n->again = time_after(now, LOOK_AGAIN_MS * VRB_MSEC);
	peer = local_peer_get(vrb.local, qp->wq.dest_qpn);
	if (peer && !is_the_one(peer, &qp->wq)) {
		local_peer_put(vrb.local, peer);
		peer = NULL;
	}
	if (!peer && !nothing_in_flight(qp))
		return;
	local_peer_put(vrb.local, n->peer);
	n->peer = peer;
	n->full_since = n->pause = n->put_at = 0;
	n->retry = VRB_NEVER;
	qp->wq.pull_min = 0;
}

bool vrb_near_find(struct vrb_qp *qp, uint64_t now)
{
	struct vrb_near *n = &qp->near;
	struct local_peer *peer;

	if (qp->wq.type == IBV_QPT_XRC_SEND && n->peer != NULL)
		follow_peer(qp, now);
	if (likely(n->peer != NULL))
		return true;
	if (now < n->again || !may_switch(qp, now))
		return false;
	n->patience = min(max(2 * n->patience, (uint32_t)LOOK_AGAIN_MS), (uint32_t)LOOK_AGAIN_MAX_MS);
	n->again = time_after(now, n->patience * VRB_MSEC);
	n->expected = false;
	peer = local_peer_get(vrb.local, qp->wq.dest_qpn);
	if (!peer)
		return false;
	if (is_the_one(peer, &qp->wq))
		n->peer = peer;
	else
		local_peer_put(vrb.local, peer);
	n->expected = !n->peer && vrb_port_find_gid(&qp->ctx->dev->port, &qp->wq.path.dst) >= 0;
	return n->peer != NULL;
}

/*
 * Without a wire a packet goes to a neighbour or nowhere.  A neighbour that was not there at the first look is given until the next one before
 * packets are lost on it; and a QP without an ack timeout, which would never send again, does not lose any.
 */
static bool holds_reliable(struct vrb_qp *qp, uint64_t now)
{
	struct vrb_near *n = &qp->near;

	n->retry = VRB_NEVER;
	if (qp->wq.state != IBV_QPS_RTS || qp->wq.sq.done == qp->wq.sq.head ||
	    (qp->wq.timeout != 0 && (n->patience > LOOK_AGAIN_MS || now >= n->again)))
		return false;
	n->retry = max(n->again, now);
	return true;
}

bool vrb_near_holds(struct vrb_qp *qp, uint64_t now)
{
	struct vrb_near *n = &qp->near;

	if (qp->wq.type == IBV_QPT_UD)
		return false;
	if (qp->wq.type != IBV_QPT_UC)
		return !vrb.wire && holds_reliable(qp, now);
	n->retry = VRB_NEVER;
	if (!n->expected || qp->wq.state != IBV_QPS_RTS || qp->wq.sq.next == qp->wq.sq.head)
		return false;
	if (!n->held_since)
		n->held_since = now;
	if (time_since(n->held_since, now) >= HOLD_UC_MS * VRB_MSEC)
		return false;
	n->retry = max(n->again, now);
	return true;
}

static bool peer_listens(const struct vrb_qp *qp)
{
	struct seg_qp published;

	return local_peer_qp(qp->near.peer, qp->wq.dest_qpn, &published) &&
	       wq_receives(published.state) && published.dest_qpn == qp->wq.qpn;
}

/* A FLUSH to persistence is answered when the disk has, and is answered then. */
static bool waits_for_disk(const struct vrb_qp *qp)
{
	const struct send_queue *sq = &qp->wq.sq;

	return sq->done != sq->next && sq_wqe(sq, sq->done)->opcode == IBV_WR_FLUSH;
}

/*
 * A neighbour that has taken what was put last has said its answer to what was there before.  So one timeout is waited longer, with a probe in
 * it, and after that each finds out about the probe before: one that has been taken and not answered counts.
 */
bool vrb_near_excuses(struct vrb_qp *qp, bool overdue, uint64_t now)
{
	struct vrb_near *n = &qp->near;
	bool asked;

	if (!n->peer || !local_peer_alive(vrb.local, n->peer, now) || !peer_listens(qp))
		return false;
	if (!local_peer_took(n->peer, n->put_at) || waits_for_disk(qp))
		return true;
	if (!overdue)
		return false;
	asked = n->asked && n->asked_una == qp->roce.comp.una;
	n->asked = true;
	n->asked_una = qp->roce.comp.una;
	return !asked;
}

bool vrb_near_migrated(struct vrb_qp *qp)
{
	struct seg_qp published;

	return !qp->near.peer || !local_peer_qp(qp->near.peer, qp->wq.dest_qpn, &published) ||
	       memcmp(published.src_gid, qp->wq.alt_path.dst.raw, sizeof(published.src_gid)) == 0;
}

bool vrb_near_believes(struct vrb_qp *qp, int slot)
{
	if (qp->wq.type == IBV_QPT_UD)
		return true;
	if (qp->near.from_slot != slot)
		qp->near.from_slot = host_owner(vrb.host, qp->wq.dest_qpn);
	if (qp->near.from_slot != slot)
		return false;
	/* It was not up when it was looked for last; the answer has no other way. */
	if (!qp->near.peer && !vrb.wire)
		qp->near.again = qp->near.patience = 0;
	return true;
}
