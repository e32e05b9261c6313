/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Location of the responder's state:
 *
 *	here --delegate()--> away --all answered, no message in progress--> here
 *	                  |
 *	                  '-- its process died --> here; the QP fails if a message was in progress
 *
 * Invariants: while the state is away, the engine here sends nothing, except the answer to a READ
 * that comes again, and holds the state from the last answer. Requests are parked only while the
 * state is away, while the output that must precede a delegation is blocked, or while the home
 * moves.
 */
#include "core/xrc/delegation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/rx_queues.h"
#include "core/base/state.h"
#include "core/local/keepalive.h"
#include "core/local/peer_link.h"
#include "core/qp/qp.h"
#include "core/qp/qp_table.h"
#include "core/rx/demux.h"
#include "core/tx/transmit.h"
#include "core/tx/tx_sched.h"
#include "core/xrc/msg.h"
#include "core/xrc/read_again.h"
#include "host/host.h"
#include "roce/opcode.h"
#include "roce/psn.h"
#include "run/log.h"
#include "util/compiler.h"
#include "util/tuning.h"

enum {
	PARKED_MAX = TUNE_WINDOW_MAX,	/* as many packets as one of our requesters has under way */
};

#define OWNER_VALID VRB_MSEC	/* how long the cached owner of an SRQ is valid */

/* between attempts to route parked requests; doubles each time that none could be */
#define RETRY_FIRST VRB_MSEC
#define RETRY_LAST  (16 * VRB_MSEC)

/* interval of the check that the process lives which has not answered yet */
#define WATCH (100 * VRB_MSEC)

/* A request queued until the state returns. */
struct parked {
	struct list node;
	struct net_path path;
	struct wq_pull pull;
	struct wq_seg seg[XRC_SEGS];
	uint32_t payload;
	uint32_t psn;
	uint8_t opcode;
	bool pulled;
	bool wire;		/* not by a lane */
	size_t len;
	uint8_t data[];
};

struct vrb_delegation {
	struct xrc_peer to;	/* slot HOST_NO_SLOT: the state is here */
	uint32_t epoch, last_epoch;
	uint32_t sent, done;
	uint32_t begun;		/* PSN of the last request that began a message there */
	/* READ or atomic responses of the last answer are outstanding */
	bool responses_pending;
	struct list parked;
	unsigned int n_parked;
	uint64_t pause;		/* before the next attempt to route them; 0: none is planned */
	/* cache: the SRQ of the last request, its owner, and when that was looked up */
	uint32_t srqn;
	int owner;		/* HOST_NO_SLOT: this process or none */
	uint64_t looked;
	struct xrc_read_again again;
	/* buffer for the state to send; too large for the stack. Under qp->lock */
	uint8_t state[ROCE_SNAPSHOT_MAX];
};

enum verdict {
	RUN,		/* execute the request here */
	TAKEN,
	WAIT,		/* park it, or keep it parked */
};

static bool is_away(const struct vrb_delegation *d)
{
	return d->to.slot != HOST_NO_SLOT;
}

/* A repetition of what has begun begins nothing. */
static bool begins(const struct vrb_qp *qp, uint8_t opcode, uint32_t psn)
{
	const struct vrb_delegation *d = qp->xrc.delegation;

	if (!roce_starts(roce_opcode_info(opcode)))
		return false;
	return d && is_away(d) ? psn_before(d->begun, psn) :
				 !psn_before(psn, roce_expected_psn(&qp->roce));
}

static bool is_unanswered(const struct vrb_delegation *d)
{
	return is_away(d) && d->sent != d->done;
}

static struct vrb_delegation *new_delegation(void)
{
	struct vrb_delegation *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->to.slot = d->owner = d->again.to.slot = HOST_NO_SLOT;
	list_init(&d->parked);
	return d;
}

/* The other live process that owns an SRQ; HOST_NO_SLOT if there is none. */
static int foreign_owner(const struct vrb_qp *qp, uint32_t srqn)
{
	int slot;

	if (!qp->config.domain->has_inode || !host_shared(vrb.host))
		return HOST_NO_SLOT;
	slot = host_owner(vrb.host, srqn);
	return slot == host_slot(vrb.host) ? HOST_NO_SLOT : slot;
}

static int owner_of(struct vrb_qp *qp, struct vrb_delegation *d, uint32_t srqn, uint64_t now)
{
	if (d->looked && d->srqn == srqn && now - d->looked < OWNER_VALID)
		return d->owner;
	d->owner = foreign_owner(qp, srqn);
	d->srqn = srqn;
	d->looked = now;
	return d->owner;
}

static struct xrc_head head_of(const struct vrb_qp *qp, enum xrc_kind kind)
{
	return (struct xrc_head){ .kind = kind, .qpn = qp->wq.qpn,
				  .epoch = qp->xrc.delegation->epoch };
}

struct xrc_config vrb_delegation_config(const struct vrb_qp *qp)
{
	const struct wq_qp *wq = &qp->wq;

	return (struct xrc_config){
		.domain = qp->config.domain->key,
		.path = wq->path, .alt_path = wq->alt_path,
		.mtu = wq->mtu, .max_msg = wq->max_msg, .dest_qpn = wq->dest_qpn,
		.access = wq->access,
		.pkey = wq->pkey, .pkey_index = wq->pkey_index,
		.state = wq->state, .mig_state = wq->mig_state,
		.max_dest_rd_atomic = min((uint32_t)wq->max_dest_rd_atomic,
					  qp->recv.rd_atomic_slots),
		.min_rnr_timer = wq->min_rnr_timer,
	};
}

bool vrb_delegation_config_ok(const struct xrc_config *c)
{
	return wq_receives(c->state) && c->mtu >= 256 && c->mtu <= ROCE_MAX_MTU &&
	       !(c->mtu & (c->mtu - 1)) && c->max_msg <= VRB_MAX_MSG &&
	       c->max_dest_rd_atomic <= ROCE_MAX_RD_ATOMIC;
}

void vrb_delegation_configure(struct vrb_qp *qp, const struct xrc_config *c)
{
	struct wq_qp *wq = &qp->wq;

	wq->path = c->path;
	wq->alt_path = c->alt_path;
	wq->mtu = c->mtu;
	wq->max_msg = c->max_msg;
	wq->dest_qpn = c->dest_qpn & ROCE_QPN_MASK;
	wq->access = c->access;
	wq->pkey = c->pkey;
	wq->pkey_index = c->pkey_index;
	wq->state = c->state;
	wq->mig_state = c->mig_state;
	wq->max_dest_rd_atomic = c->max_dest_rd_atomic;
	wq->min_rnr_timer = c->min_rnr_timer & 31;
}

bool vrb_delegation_make_resources(struct vrb_qp *qp, uint32_t n)
{
	struct roce_rd_atomic *rd = calloc(max(n, 1u), sizeof(*rd));

	if (!rd)
		return false;
	free(qp->recv.rd_atomic);
	qp->recv.rd_atomic = rd;
	qp->recv.rd_atomic_slots = n;
	return true;
}

static void send_config(struct vrb_qp *qp)
{
	struct xrc_head head = head_of(qp, XRC_CONFIG);
	struct xrc_config config = vrb_delegation_config(qp);

	xrc_send_surely(&qp->xrc.delegation->to, &head, &config, sizeof(config));
}

static void revoke(struct vrb_qp *qp)
{
	struct xrc_head head = head_of(qp, XRC_REVOKE);

	head.seq = qp->wq.state;
	xrc_send_surely(&qp->xrc.delegation->to, &head, NULL, 0);
	xrc_peer_drop(&qp->xrc.delegation->to);
}

/*
 * The responder's process died: takes the state back. Fails the QP if a message was in progress.
 * The requester gets a NAK for what was not answered, and sends it again: it may have no timeout.
 */
static void peer_died(struct vrb_qp *qp)
{
	struct vrb_delegation *d = qp->xrc.delegation;
	bool begun = roce_in_message(&qp->roce) || d->responses_pending;
	bool unanswered = is_unanswered(d);

	log_info(LOG_CORE, "QP 0x%x: the process in slot %d that executed its requests has died",
		 qp->wq.qpn, d->to.slot);
	xrc_peer_drop(&d->to);
	d->looked = 0;
	d->responses_pending = false;
	if (qp->wq.state == IBV_QPS_ERR)
		return;
	if (begun)
		roce_snapshot_lost(&qp->roce);
	else if (unanswered)
		roce_snapshot_ask_again(&qp->roce);
}

static bool set_waits(struct vrb_qp *qp, bool waits)
{
	if (qp->xrc.waits == waits)
		return false;
	qp->xrc.waits = waits;
	vrb_keepalive_waits(waits);
	return true;
}

/*
 * Publishes whether requests wait for another process, which may be stopped, or for the next home:
 * the requester must not give up as long as that process exists.
 */
static void publish_waits(struct vrb_qp *qp)
{
	const struct vrb_delegation *d = qp->xrc.delegation;
	bool waits = qp->xrc.migrating ||
		     (d && (is_unanswered(d) || d->n_parked));

	if (set_waits(qp, waits))
		vrb_peer_publish(qp);
}

/*
 * Parked requests go on with the next answer or request. But none may come: the requester may have
 * no timeout, the process that is to answer may have died, or all may wait for room in a lane.
 */
static void plan_retry(struct vrb_qp *qp, uint64_t now)
{
	struct vrb_delegation *d = qp->xrc.delegation;

	if (!d || !(d->n_parked || is_unanswered(d))) {
		qp->xrc.retry_at = VRB_NEVER;
	} else if (!d->n_parked) {
		d->pause = 0;
		if (now >= qp->xrc.retry_at || qp->xrc.retry_at == VRB_NEVER)
			qp->xrc.retry_at = time_after(now, WATCH);
	} else if (!d->pause || now >= qp->xrc.retry_at) {
		d->pause = min(max(2 * d->pause, RETRY_FIRST), RETRY_LAST);
		qp->xrc.retry_at = time_after(now, d->pause);
	}
}

/*
 * Sends the responder's state to another process. Returns 0, EAGAIN (output that must precede the
 * delegation is blocked, or there is no room for the message) or ENOENT (no such process).
 */
static int delegate(struct vrb_qp *qp, int slot, uint64_t now)
{
	struct xrc_config config = vrb_delegation_config(qp);
	struct vrb_delegation *d = qp->xrc.delegation;
	struct xrc_head head;
	int err;

	if (!roce_snapshot_quiet(&qp->roce))
		vrb_transmit(qp, now);
	if (!roce_snapshot_quiet(&qp->roce))
		return EAGAIN;
	if (!xrc_peer_find(&d->to, slot))
		return ENOENT;
	d->to.stalled = d->n_parked;	/* one waits already: only look for room */
	d->epoch = ++d->last_epoch;
	d->sent = d->done = 0;
	d->begun = psn_prev(roce_expected_psn(&qp->roce));
	head = head_of(qp, XRC_DELEGATE);
	err = xrc_send(&d->to, &head, &config, sizeof(config), d->state,
		       roce_snapshot_take(&qp->roce, d->state), NULL, 0);
	if (err)
		xrc_peer_drop(&d->to);
	return err;
}

/* Forwards a request, unless there is no room. */
static enum verdict pass_on(struct vrb_qp *qp, const struct rx_decoded *raw)
{
	const struct wq_pull *pull = raw->pkt->pull;
	struct {
		struct xrc_request r;
		struct wq_seg seg[XRC_SEGS];
	} body = { .r = { .path = raw->pkt->path } };
	struct vrb_delegation *d = qp->xrc.delegation;
	struct xrc_head head = head_of(qp, XRC_REQUEST);
	size_t len = sizeof(body.r);

	if (pull) {
		body.r.payload = raw->pkt->payload_len;
		body.r.num_seg = min(pull->num_seg, (uint32_t)XRC_SEGS);
		body.r.pid = pull->pid;
		body.r.identity = pull->identity;
		body.r.incarnation = pull->incarnation;
		memcpy(body.seg, pull->seg, body.r.num_seg * sizeof(*pull->seg));
		len += body.r.num_seg * sizeof(*pull->seg);
	}
	head.seq = d->sent + 1;
	if (xrc_send(&d->to, &head, &body, len, NULL, 0, raw->data, raw->len))
		return WAIT;
	d->sent++;
	if (begins(qp, raw->pkt->bth.opcode, raw->pkt->bth.psn))
		d->begun = raw->pkt->bth.psn;
	return TAKEN;
}

/*
 * A request that the responder's state cannot follow, within a message: the engine that has the
 * state sends a NAK or an ACK, but only the SRQ's owner reads its memory again.
 */
static bool is_for_owner(const struct vrb_qp *qp, const struct rx_decoded *raw)
{
	return roce_in_message(&qp->roce) && xrc_read_comes_again(qp, raw);
}

static enum verdict ask_owner(struct vrb_qp *qp, int owner, const struct rx_decoded *raw)
{
	struct vrb_delegation *d = qp->xrc.delegation;

	xrc_read_again_send(&d->again, qp, owner, ++d->last_epoch, raw, d->state);
	return TAKEN;
}

static enum verdict run_here(struct vrb_qp *qp, const struct rx_decoded *raw, uint64_t now)
{
	struct vrb_delegation *d = qp->xrc.delegation;
	int owner;

	if (!roce_starts(roce_opcode_info(raw->pkt->bth.opcode)))
		return RUN;
	owner = owner_of(qp, d, raw->pkt->xrc_srqn, now);
	if (owner == HOST_NO_SLOT)
		return RUN;
	if (is_for_owner(qp, raw))
		return ask_owner(qp, owner, raw);
	if (roce_in_message(&qp->roce))
		return RUN;
	switch (delegate(qp, owner, now)) {
	case 0:
		return pass_on(qp, raw);
	case EAGAIN:
		return WAIT;
	default:
		d->looked = 0;
		return RUN;
	}
}

/* Decides which process executes a request. */
static enum verdict route(struct vrb_qp *qp, const struct rx_decoded *raw, uint64_t now)
{
	bool starts = roce_starts(roce_opcode_info(raw->pkt->bth.opcode));
	struct vrb_delegation *d = qp->xrc.delegation;

	if (is_away(d) && !xrc_peer_alive(&d->to, now))
		peer_died(qp);
	if (!is_away(d))
		return run_here(qp, raw, now);
	if (!starts || owner_of(qp, d, raw->pkt->xrc_srqn, now) == d->to.slot)
		return pass_on(qp, raw);
	if (d->sent != d->done)
		return WAIT;
	/* What the engine here sends for its own SRQ is lost if an answer arrives meanwhile. */
	if (is_for_owner(qp, raw))
		return d->owner == HOST_NO_SLOT ? RUN : ask_owner(qp, d->owner, raw);
	/* A new message before the end of the last one, or a repetition. */
	if (roce_in_message(&qp->roce))
		return pass_on(qp, raw);
	revoke(qp);
	return run_here(qp, raw, now);
}

/* Is this a repetition of a parked request? The requester asks so if they are still under way. */
static bool is_parked(const struct vrb_delegation *d, const struct rx_decoded *raw)
{
	const struct list *pos;

	list_for_each(pos, &d->parked) {
		const struct parked *p = list_entry(pos, struct parked, node);

		if (p->psn == raw->pkt->bth.psn && p->opcode == raw->pkt->bth.opcode &&
		    p->len == raw->len && p->pulled == !!raw->pkt->pull)
			return true;
	}
	return false;
}

/* The first of the parked requests with later PSNs, or the list's end. */
static struct list *later_parked(struct vrb_delegation *d, uint32_t psn)
{
	struct list *at = &d->parked;

	while (at->prev != &d->parked &&
	       psn_before(psn, list_entry(at->prev, struct parked, node)->psn))
		at = at->prev;
	return at;
}

static void park(struct vrb_delegation *d, const struct rx_decoded *raw)
{
	const struct wq_pull *pull = raw->pkt->pull;
	struct parked *p;

	if (d->n_parked == PARKED_MAX || is_parked(d, raw))
		return;
	p = malloc(sizeof(*p) + raw->len);
	if (!p)
		return;
	p->path = raw->pkt->path;
	p->psn = raw->pkt->bth.psn;
	p->opcode = raw->pkt->bth.opcode;
	p->pulled = pull;
	p->wire = raw->wire;
	if (pull) {
		p->pull = *pull;
		p->pull.num_seg = min(pull->num_seg, (uint32_t)XRC_SEGS);
		memcpy(p->seg, pull->seg, p->pull.num_seg * sizeof(*p->seg));
		p->pull.seg = p->seg;
		p->payload = raw->pkt->payload_len;
	}
	p->len = raw->len;
	memcpy(p->data, raw->data, raw->len);
	list_add_tail(later_parked(d, p->psn), &p->node);
	d->n_parked++;
}

static void unpark(struct vrb_delegation *d, struct parked *p)
{
	list_del(&p->node);
	free(p);
	d->n_parked--;
}

/*
 * A requester that goes back to a request sends all later ones again, too, and those of a lane may
 * have other PSNs then (roce_requester_take_back()). So nothing parked from a lane may be executed
 * behind a request with an earlier PSN that arrived after it, unless that is late: a rule on faults
 * has kept it.
 */
static void forget_superseded(struct vrb_delegation *d, const struct rx_decoded *raw)
{
	if (raw->wire || raw->tapped)
		return;
	while (d->n_parked) {
		struct parked *last = list_entry(d->parked.prev, struct parked, node);

		if (psn_before(last->psn, raw->pkt->bth.psn))
			return;
		unpark(d, last);
	}
}

static void forget_parked(struct vrb_delegation *d)
{
	while (d->n_parked)
		unpark(d, list_entry(d->parked.next, struct parked, node));
}

/* While the home moves, no message begins. */
static bool waits_for_home(const struct vrb_qp *qp, uint8_t opcode, uint32_t psn)
{
	return qp->xrc.migrating > VRB_HOME_LEAVES ||
	       (qp->xrc.migrating && begins(qp, opcode, psn));
}

/*
 * Must the request wait for those that are parked? Not the rest of the message in progress, lost
 * before, if they wait for its end.
 */
static bool is_behind_parked(const struct vrb_qp *qp, const struct rx_decoded *raw)
{
	const struct vrb_delegation *d = qp->xrc.delegation;
	const struct parked *first;

	if (!d->n_parked)
		return false;
	first = list_entry(d->parked.next, struct parked, node);
	return !waits_for_home(qp, first->opcode, first->psn) ||
	       !psn_before(raw->pkt->bth.psn, first->psn);
}

/* Routes parked requests until one must wait again, or the QP receives none any more. */
static void resume(struct vrb_qp *qp, struct vrb_rx_queue *r, uint64_t now)
{
	struct vrb_delegation *d = qp->xrc.delegation;
	struct roce_pkt pkt;

	while (d->n_parked && wq_receives(qp->wq.state)) {
		struct parked *p = list_entry(d->parked.next, struct parked, node);
		struct rx_decoded raw = { &pkt, p->data, p->len };
		enum verdict v = TAKEN;

		if (waits_for_home(qp, p->opcode, p->psn))
			return;
		if (roce_decode(&pkt, p->data, p->len) == ROCE_DECODED) {
			pkt.path = p->path;
			if (p->pulled) {
				pkt.pull = &p->pull;
				pkt.payload_len = p->payload;
			}
			v = route(qp, &raw, now);
		}
		if (v == WAIT)
			return;
		if (v == RUN)
			vrb_rx_execute(qp, &pkt, r, now);
		unpark(d, p);
		d->pause = 0;
	}
	if (!wq_receives(qp->wq.state))
		forget_parked(d);
}

/* Any request may trigger path migration. The home detects it and sends the new configuration. */
static bool admit(struct vrb_qp *qp, const struct roce_pkt *pkt)
{
	uint8_t before = qp->wq.mig_state;

	if (!roce_admit(&qp->roce, pkt))
		return false;
	if (qp->wq.mig_state != before && is_away(qp->xrc.delegation))
		send_config(qp);
	return true;
}

/* To the new home. */
static void hand_on(const struct vrb_qp *qp, const struct net_path *path, const uint8_t *data,
		    size_t len)
{
	host_hand(vrb.host, qp->wq.qpn, path, data, len, LIMIT_INBOX_LAST_TRIES);
}

/*
 * A requester of this host sends again what is lost once it sees that the home has moved
 * (local/peer_link.c). One that uses the wire would wait for its timeout, and may have none.
 */
static void keep_for_home(struct vrb_qp *qp, const struct rx_decoded *raw)
{
	if (!raw->wire)
		return;
	if (qp->xrc.migrating == VRB_HOME_MOVED) {
		hand_on(qp, &raw->pkt->path, raw->data, raw->len);
		return;
	}
	if (!qp->xrc.delegation)
		qp->xrc.delegation = new_delegation();
	if (qp->xrc.delegation)
		park(qp->xrc.delegation, raw);
}

void vrb_delegation_hand_over(struct vrb_qp *qp)
{
	struct vrb_delegation *d = qp->xrc.delegation;

	while (d && d->n_parked) {
		struct parked *p = list_entry(d->parked.next, struct parked, node);

		if (p->wire)
			hand_on(qp, &p->path, p->data, p->len);
		unpark(d, p);
	}
}

bool vrb_delegation_redirect(struct vrb_qp *qp, const struct rx_decoded *raw,
			     struct vrb_rx_queue *r, uint64_t now)
{
	struct vrb_delegation *d = qp->xrc.delegation;
	enum verdict v;

	if (!qp->config.domain->has_inode)
		return false;
	if (waits_for_home(qp, raw->pkt->bth.opcode, raw->pkt->bth.psn)) {
		keep_for_home(qp, raw);
		return true;
	}
	if (!wq_receives(qp->wq.state))
		return false;
	if (!d) {
		if (foreign_owner(qp, raw->pkt->xrc_srqn) == HOST_NO_SLOT)
			return false;
		d = qp->xrc.delegation = new_delegation();
		if (!d)
			return true;
	}
	if (!admit(qp, raw->pkt))
		return true;
	forget_superseded(d, raw);
	/* The process that the parked requests wait for may have died. */
	if (d->n_parked)
		resume(qp, r, now);
	v = is_behind_parked(qp, raw) ? WAIT : route(qp, raw, now);
	if (v == WAIT)
		park(d, raw);
	publish_waits(qp);
	plan_retry(qp, now);
	return v != RUN;
}

void vrb_delegation_expired(struct vrb_qp *qp, uint64_t now)
{
	struct vrb_delegation *d = qp->xrc.delegation;

	if (d && is_unanswered(d) && !xrc_peer_alive(&d->to, now))
		peer_died(qp);
	if (d && d->n_parked)
		resume(qp, vrb_main_rx_queue, now);
	publish_waits(qp);
	plan_retry(qp, now);
}

bool vrb_delegation_settled(struct vrb_qp *qp, uint64_t now)
{
	struct vrb_delegation *d = qp->xrc.delegation;

	if (d && is_away(d) && !xrc_peer_alive(&d->to, now))
		peer_died(qp);
	publish_waits(qp);
	return !(d && is_unanswered(d)) && !roce_in_message(&qp->roce);
}

bool vrb_delegation_unanswered(const struct vrb_qp *qp)
{
	return qp->xrc.delegation && is_unanswered(qp->xrc.delegation);
}

uint64_t vrb_delegation_progress(const struct vrb_qp *qp)
{
	const struct vrb_delegation *d = qp->xrc.delegation;

	return (uint64_t)(d ? d->done : 0) << 32 | roce_expected_psn(&qp->roce);
}

bool vrb_delegation_stopped(const struct vrb_qp *qp)
{
	if (vrb_delegation_unanswered(qp))
		return host_is_stopped(vrb.host, qp->xrc.delegation->to.slot);
	return qp->peer.process && host_is_stopped(vrb.host, qp->peer.slot);
}

void vrb_delegation_modified(struct vrb_qp *qp)
{
	struct vrb_delegation *d = qp->xrc.delegation;

	if (!d)
		return;
	if (!wq_receives(qp->wq.state))
		forget_parked(d);
	if (is_away(d) && wq_receives(qp->wq.state))
		send_config(qp);
	else if (is_away(d))
		revoke(qp);
	publish_waits(qp);
}

void vrb_delegation_end(struct vrb_qp *qp)
{
	if (qp->xrc.delegation && is_away(qp->xrc.delegation))
		revoke(qp);
	qp->xrc.retry_at = VRB_NEVER;
}

void vrb_delegation_free(struct vrb_qp *qp)
{
	set_waits(qp, false);
	if (!qp->xrc.delegation)
		return;
	vrb_delegation_end(qp);
	xrc_peer_drop(&qp->xrc.delegation->again.to);
	forget_parked(qp->xrc.delegation);
	free(qp->xrc.delegation);
	qp->xrc.delegation = NULL;
}

static void send_packet(struct vrb_qp *qp, const struct xrc_msg *m, uint64_t now)
{
	if (m->head.packet > ROCE_ICRC_LEN && m->head.packet <= ROCE_MAX_PACKET)
		vrb_transmit_packet(qp, m->packet, m->head.packet, now);
}

static void take_answer(struct vrb_qp *qp, const struct xrc_msg *m, struct vrb_rx_queue *r,
			uint64_t now)
{
	struct vrb_delegation *d = qp->xrc.delegation;
	struct roce_snapshot s;

	if (m->head.state) {
		if (!roce_snapshot_restore(&qp->roce, m->state, m->head.state))
			return;
		memcpy(&s, m->state, sizeof(s));
		d->responses_pending = s.rd_pending && !m->head.final;
	}
	send_packet(qp, m, now);
	if (!m->head.final || m->head.seq - d->done > d->sent - d->done)
		return;
	d->done = m->head.seq;
	if (qp->wq.state == IBV_QPS_ERR) {
		forget_parked(d);
		revoke(qp);
	}
	resume(qp, r, now);
	vrb_tx_schedule(qp, TX_NOW, r);
}

static void take_event(struct vrb_qp *qp, const struct xrc_msg *m)
{
	struct xrc_event e;

	if (m->head.body != sizeof(e))
		return;
	memcpy(&e, m->body, sizeof(e));
	qp->wq.fault = e.fault;
	qp->wq.fault_kind = (uint8_t)e.fault_kind;
	switch (e.type) {
	case IBV_EVENT_COMM_EST:
		roce_set_established(&qp->roce);
		/* fall through */
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		qp->wq.ops->event(&qp->wq, e.type);
		break;
	default:
		break;
	}
}

void vrb_delegation_receive(const struct xrc_msg *m, struct vrb_rx_queue *r, uint64_t now)
{
	struct vrb_qp *qp = vrb_qp_table_find(m->head.qpn);

	if (!qp)
		return;
	lock_acquire(&qp->lock);
	if (qp->xrc.delegation && m->head.kind == XRC_ANSWER &&
	    xrc_read_again_sent(&qp->xrc.delegation->again, m)) {
		qp->now = now;
		send_packet(qp, m, now);
	}
	if (qp->xrc.delegation && is_away(qp->xrc.delegation) &&
	    m->head.epoch == qp->xrc.delegation->epoch &&
	    xrc_peer_sent(&qp->xrc.delegation->to, m)) {
		qp->now = now;
		if (m->head.kind == XRC_ANSWER)
			take_answer(qp, m, r, now);
		else
			take_event(qp, m);
		publish_waits(qp);
		plan_retry(qp, now);
	}
	lock_release(&qp->lock);
}
