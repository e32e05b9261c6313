/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Looks up the peer of a QP on this host and publishes the QP to its peers; peer_link.h documents
 * the interface. peer_tx.c sends packets to the peer, peer_rdma.c accesses its memory, split_copy.c
 * shares a copy with it.
 *
 * Locks: runs under qp->lock.
 */
#include "core/local/peer_link.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/context.h"
#include "core/base/state.h"
#include "core/device/device.h"
#include "core/local/backlog.h"
#include "core/local/peer_word.h"
#include "core/mem/key_table.h"
#include "core/mem/mr.h"
#include "core/qp/error_report.h"
#include "core/qp/qp.h"
#include "host/host.h"
#include "run/config.h"
#include "run/log.h"
#include "util/compiler.h"
#include "util/tuning.h"

static uint64_t network_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/net", &st) == 0 ? st.st_ino : 0;
}

static struct mr_entry *key_chunk(uint32_t first, uint32_t n)
{
	return segment_keys(local_segment(vrb.local), first, n);
}

static void wait_unused(uint32_t index, bool shared)
{
	local_wait_unused(vrb.local, index);
	if (shared)
		local_region_ended(vrb.local);
}

int vrb_local_start(void)
{
	int err;

	vrb.local = NULL;
	if (config_get()->transport == CONFIG_UDP)
		return ENOTSUP;
	err = local_start(vrb.host, network_namespace(), &vrb.local);
	if (err != 0) {
		vrb.local = NULL;
		if (err != ENOTSUP)
			log_limited(LOG_LOCAL, LOG_WARN,
				    "cannot share memory with other processes, using packets: %s",
				    strerror(err));
		return err;
	}
	mr_table_source(key_chunk, wait_unused);
	return 0;
}

/* The key table is in the segment, so reset it first. No key is in use: no context is open. */
void vrb_local_stop(void)
{
	if (!vrb.local)
		return;
	mr_table_reset();
	vrb_backlog_stop();
	vrb_peer_members_put();
	local_stop(vrb.local);
	vrb.local = NULL;
}

void vrb_local_forget(void)
{
	vrb_backlog_forget();
	vrb_peer_members_forget();
	vrb_keepalive_forget();
	if (vrb.local)
		local_forget(vrb.local);
	vrb.local = NULL;
}

static void release_peers(struct vrb_peer *p)
{
	if (p->process) {
		local_forget_sender(p->process, &p->sender);
		local_peer_put(vrb.local, p->process);
	}
	for (unsigned int i = 0; p->ud && i < UD_DESTS; i++) {
		if (p->ud[i].peer)
			local_peer_put(vrb.local, p->ud[i].peer);
		p->ud[i] = (struct ud_dest){ 0 };
	}
	vrb_peer_drop_kept(p);
	*p = (struct vrb_peer){ .retry_at = VRB_NEVER, .slot = HOST_NO_SLOT,
				.published = p->published, .granted = p->granted, .ud = p->ud };
	list_init(&p->kept);
	message_sender_init(&p->sender);
}

static bool was_receiving(const struct vrb_qp *qp)
{
	return wq_receives(qp->peer.published & 0xf);
}

/* Does the QP refuse some requests that it has taken until now? */
static bool revokes(const struct vrb_qp *qp)
{
	return was_receiving(qp) &&
	       (!wq_receives(qp->wq.state) || qp->peer.granted & ~qp->wq.access);
}

static void warn_unpublished(const struct vrb_qp *qp)
{
	log_limited(LOG_LOCAL, LOG_WARN,
		    "QP 0x%x is not shown to processes of this host, as %u are: they reach it %s",
		    qp->wq.qpn, (unsigned int)SEG_QPS,
		    vrb.wire ? "by UDP only" : "in no way, without UDP here");
}

void vrb_peer_publish(struct vrb_qp *qp)
{
	const struct seg_qp_facts facts = {
		.established = roce_is_established(&qp->roce),
		.waits = qp->xrc.waits,
		.blocked = qp->peer.answers_wait,
	};
	bool revoked = revokes(qp);

	qp->peer.published = vrb_peer_publication(qp);
	qp->peer.granted = qp->wq.access;
	qp->peer.target = (struct onesided_target){ 0 };	/* the path may be another */
	/* Raw packet QPs have no peer. */
	if (!vrb.local || qp->wq.type == IBV_QPT_RAW_PACKET)
		return;
	/* The peer may have come up since: look it up again before sending the first message. */
	if (qp->wq.state == IBV_QPS_RTS)
		qp->peer.lookup_at = qp->peer.lookup_backoff_ms = qp->peer.prompt_lookups = 0;
	/* The peer's process does not change while the connection lasts. */
	if (qp->wq.state == IBV_QPS_RESET || qp->wq.state == IBV_QPS_INIT) {
		release_peers(&qp->peer);
		qp->peer.word = NULL;
		qp->wq.direct = qp->wq.fence_reads = false;
		qp->wq.pull_min = qp->wq.whole_max = 0;
	}
	if (segment_publish_qp(local_segment(vrb.local), &qp->wq, facts))
		warn_unpublished(qp);
	else if (!qp->peer.word)
		qp->peer.word = segment_progress(local_segment(vrb.local), qp->wq.qpn);
	/* From now on no peer may do with its memory what it no longer grants. */
	if (revoked)
		local_wait_quiet(vrb.local);
}

/* word: the peer may read its last ACK there, perhaps after this process. */
static void end_with_answers(struct vrb_qp *qp, bool word)
{
	if (word)
		segment_end_qp(local_segment(vrb.local), qp->wq.qpn);
	if (!vrb_peer_leave_answers(qp, word) || !word)
		segment_retract_qp(local_segment(vrb.local), qp->wq.qpn);
}

void vrb_peer_drop(struct vrb_qp *qp)
{
	bool word = qp->peer.word_used;

	if (!vrb.local)
		return;
	vrb_word_retract(qp, qp->now);
	if (unlikely(qp->peer.process && qp->peer.answers_wait))
		end_with_answers(qp, word);
	else
		segment_retract_qp(local_segment(vrb.local), qp->wq.qpn);
	if (was_receiving(qp))
		local_wait_quiet(vrb.local);
	release_peers(&qp->peer);
}

/*
 * A QP number alone does not identify the peer: another host may use the same one. The published
 * address must match too, within this network namespace.
 */
static const struct seg_qp *peer_entry(const struct local_peer *peer, const struct wq_qp *wq,
				       struct seg_qp *published)
{
	const struct seg_qp *entry = local_peer_qp(peer, wq->dest_qpn, published);

	if (!entry || memcmp(published->src_gid, wq->path.dst.raw, sizeof(published->src_gid)) != 0)
		return NULL;
	return entry;
}

/* The packets' MTUs are compared where there are packets (responder.c). */
static void compare_mtu(const struct vrb_qp *qp, const struct seg_qp *published)
{
	unsigned int code = published->flags >> SEG_QP_MTU & 7;
	uint32_t mtu = code ? 128u << code : qp->wq.mtu;

	if (unlikely(mtu != qp->wq.mtu))
		vrb_report_mtu(qp, mtu);
}

static bool nothing_in_flight(const struct vrb_qp *qp)
{
	return roce_in_flight(&qp->roce) == 0;
}

/* A packet in a lane must not overtake one on the wire: the receiver would see a loss. */
static bool may_switch(const struct vrb_qp *qp, uint64_t now)
{
	if (qp->wq.type == IBV_QPT_UD || qp->wq.state < IBV_QPS_RTR)
		return false;
	if (qp->wq.type == IBV_QPT_UC)
		return !qp->peer.wire_at ||
		       time_since(qp->peer.wire_at, now) >= LIMIT_PEER_UC_QUIET_MS * VRB_MSEC;
	return !vrb.wire || (nothing_in_flight(qp) && !roce_responses_pending(&qp->roce));
}

/* A request that goes back after an RNR NAK has begun, though nothing is in flight. */
static bool nothing_begun(const struct vrb_qp *qp)
{
	return qp->wq.sq.done == qp->wq.sq.next;
}

/*
 * An XRC receive QP can move to another process (docs/XRC.md). Look it up again once its process no
 * longer has it. Requests that have begun must keep using a lane, because the receiver is to fetch
 * their payload. Those that its process has left unanswered are lost: the next one gets them again,
 * or they would wait for a timeout, which the QP may not have.
 */
static void follow_peer(struct vrb_qp *qp, uint64_t now)
{
	struct vrb_peer *p = &qp->peer;
	struct seg_qp published;
	struct local_peer *peer;

	if (local_peer_alive(vrb.local, p->process, now) &&
	    local_peer_has_qp(p->process, qp->wq.dest_qpn))
		return;
	if (now < p->lookup_at)
		return;
	p->lookup_at = time_after(now, LIMIT_PEER_RETRY_MS * VRB_MSEC);
	peer = local_peer_get(vrb.local, qp->wq.dest_qpn);
	if (peer && !peer_entry(peer, &qp->wq, &published)) {
		local_peer_put(vrb.local, peer);
		peer = NULL;
	}
	if (!peer && !nothing_begun(qp))
		return;
	local_peer_put(vrb.local, p->process);
	p->process = peer;
	p->retry_backoff_us = p->tx_head = 0;
	p->retry_at = VRB_NEVER;
	qp->wq.pull_min = qp->wq.whole_max = 0;
	if (peer && !nothing_in_flight(qp))
		roce_probe(&qp->roce, now);
}

/*
 * A peer whose address is on this host is about to come up: programs wait until both ends have, so
 * the first request must find it. Without a wire a request that finds none waits (wait_reliable()).
 */
static void look_promptly(struct vrb_qp *qp, uint64_t now)
{
	struct vrb_peer *p = &qp->peer;

	if (!p->rtr_expected || p->prompt_lookups == LIMIT_PEER_PROMPT_LOOKUPS ||
	    (!vrb.wire && qp->wq.sq.done != qp->wq.sq.head))
		return;
	p->prompt_lookups++;
	p->lookup_backoff_ms = 0;
	p->lookup_at = now;
}

bool vrb_peer_find(struct vrb_qp *qp, uint64_t now)
{
	struct vrb_peer *p = &qp->peer;
	struct seg_qp published;
	struct local_peer *peer;
	bool here;

	if (qp->wq.type == IBV_QPT_XRC_SEND && p->process != NULL)
		follow_peer(qp, now);
	if (p->process != NULL)
		return true;
	if (now < p->lookup_at || !may_switch(qp, now))
		return false;
	p->lookup_backoff_ms = min(max(2 * p->lookup_backoff_ms, (uint32_t)LIMIT_PEER_RETRY_MS),
			  (uint32_t)LIMIT_PEER_RETRY_MAX_MS);
	p->lookup_at = time_after(now, p->lookup_backoff_ms * VRB_MSEC);
	here = vrb_port_find_gid(&qp->config.ctx->dev->port, &qp->wq.path.dst) >= 0;
	p->rtr_expected = false;
	qp->wq.fence_reads = here;	/* its responses may come by a lane */
	peer = local_peer_get(vrb.local, qp->wq.dest_qpn);
	if (!peer)
		return false;
	p->entry = peer_entry(peer, &qp->wq, &published);
	if (p->entry) {
		compare_mtu(qp, &published);
		p->process = peer;
		/*
		 * The slot identifies its last packet, which may arrive after the process has
		 * exited.
		 */
		p->slot = local_peer_slot(peer);
	} else {
		local_peer_put(vrb.local, peer);
	}
	if (qp->wq.type != IBV_QPT_RC && qp->wq.type != IBV_QPT_UC)
		p->entry = NULL;	/* an XRC QP may follow its peer */
	p->rtr_expected = !p->process && here;
	look_promptly(qp, now);
	return p->process != NULL;
}

/*
 * Without a wire, a packet can only go to a peer on this host. A peer missing at the first lookup
 * gets until the second one before packets are dropped; those of a QP without an ack timeout always
 * wait.
 */
static bool wait_reliable(struct vrb_qp *qp, uint64_t now)
{
	struct vrb_peer *p = &qp->peer;

	p->retry_at = VRB_NEVER;
	if (qp->wq.state != IBV_QPS_RTS || qp->wq.sq.done == qp->wq.sq.head ||
	    (qp->wq.timeout != 0 &&
	     (p->lookup_backoff_ms > LIMIT_PEER_RETRY_MS || now >= p->lookup_at)))
		return false;
	p->retry_at = max(p->lookup_at, now);
	return true;
}

/*
 * The peer has sent something, so it can be reached soon: it may still have to clear its lane of a
 * dead process that had our slot.
 */
static bool wait_to_answer(struct vrb_qp *qp, uint64_t now)
{
	struct vrb_peer *p = &qp->peer;

	if ((!roce_has_ack(&qp->roce) && !roce_responses_pending(&qp->roce)) ||
	    p->slot == HOST_NO_SLOT || host_owner(vrb.host, qp->wq.dest_qpn) != p->slot)
		return false;
	p->retry_at = max(p->lookup_at, now);
	return true;
}

bool vrb_peer_wait_for_rtr(struct vrb_qp *qp, uint64_t now)
{
	struct vrb_peer *p = &qp->peer;

	if (qp->wq.type == IBV_QPT_UD)
		return false;
	if (qp->wq.type != IBV_QPT_UC)
		return !vrb.wire && (wait_reliable(qp, now) || wait_to_answer(qp, now));
	p->retry_at = VRB_NEVER;
	if (!p->rtr_expected || qp->wq.state != IBV_QPS_RTS || qp->wq.sq.next == qp->wq.sq.head)
		return false;
	if (!p->rtr_wait_since)
		p->rtr_wait_since = now;
	if (time_since(p->rtr_wait_since, now) >= LIMIT_PEER_UC_WAIT_MS * VRB_MSEC)
		return false;
	p->retry_at = max(p->lookup_at, now);
	return true;
}

bool vrb_peer_listens(const struct vrb_qp *qp, struct seg_qp *published, bool *in_update)
{
	uint32_t qpn = qp->wq.dest_qpn;

	*in_update = false;
	if (local_peer_qp(qp->peer.process, qpn, published))
		return wq_receives(published->state) && published->dest_qpn == qp->wq.qpn;
	*in_update = local_peer_has_qp(qp->peer.process, qpn);
	return *in_update;
}

/* The response to a FLUSH to persistence takes as long as the disk: no timeout of it counts. */
static bool waits_for_disk(const struct vrb_qp *qp)
{
	const struct send_queue *sq = &qp->wq.sq;

	return sq->done != sq->next && sq_wqe(sq, sq->done)->opcode == IBV_WR_FLUSH;
}

/*
 * A peer that has consumed our last packet has answered those before it, or its answers wait for
 * room in our lane, which other QPs may fill again and again. So the first timeout is deferred and
 * sends a probe; each later timeout counts if the previous probe was consumed but not answered.
 */
bool vrb_peer_defers_timeout(struct vrb_qp *qp, bool overdue, uint64_t now)
{
	struct vrb_peer *p = &qp->peer;
	struct seg_qp published;
	bool asked, in_update;

	if (!p->process)
		return vrb_keepalive_defers_timeout(qp, overdue, now);
	/* The peer may have ended, or been stopped, before its lane showed the progress. */
	if (vrb_word_read(qp, now))
		return false;
	/* Lanes lose only what rules on faults take: the same in each run, without probes. */
	if (!qp->wq.timeout)
		return true;
	if (!local_peer_alive(vrb.local, p->process, now))
		return false;
	if (!vrb_peer_listens(qp, &published, &in_update))
		return false;
	if (in_update)
		return true;
	if (!local_peer_took(p->process, p->tx_head) || published.flags & SEG_QP_BLOCKED)
		return true;
	if (!overdue)
		return false;
	if (waits_for_disk(qp))
		return true;
	if (published.flags & SEG_QP_WAITS) {
		/* Makes the peer see if the process for which it waits has died. */
		roce_probe(&qp->roce, now);
		return true;
	}
	asked = p->deferred && p->deferred_una == roce_oldest_unacked(&qp->roce);
	p->deferred = true;
	p->deferred_una = roce_oldest_unacked(&qp->roce);
	return !asked;
}

bool vrb_peer_migrated(struct vrb_qp *qp)
{
	struct seg_qp published;

	return !qp->peer.process || !local_peer_qp(qp->peer.process, qp->wq.dest_qpn, &published) ||
	       memcmp(published.src_gid, qp->wq.alt_path.dst.raw, sizeof(published.src_gid)) == 0;
}

bool vrb_peer_verify(struct vrb_qp *qp, int slot)
{
	if (qp->wq.type == IBV_QPT_UD)
		return true;
	if (qp->peer.slot != slot)
		qp->peer.slot = host_owner(vrb.host, qp->wq.dest_qpn);
	if (qp->peer.slot != slot)
		return false;
	/* The last lookup failed and no wire can carry the answer: look the peer up again. */
	if (!qp->peer.process && !vrb.wire)
		qp->peer.lookup_at = qp->peer.lookup_backoff_ms = 0;
	return true;
}
