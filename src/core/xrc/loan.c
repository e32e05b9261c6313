/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the state of the responder is:
 *
 *	here --lend()--> away --answered, no message begun--> here
 *	                  |
 *	                  '-- its process is dead --> here; dead, if a message had begun
 *
 * Truths: while it is away the engine here says nothing, and holds the state that the last answer brought.  Requests are parked only while
 * it is away, or while what is to be said before a loan finds no room.
 */
#include "core/xrc/loan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/arrive.h"
#include "core/output.h"
#include "core/process.h"
#include "core/qp.h"
#include "core/qptab.h"
#include "core/xrc/xrcmsg.h"
#include "host/host.h"
#include "roce/opcode.h"
#include "run/log.h"
#include "util/compiler.h"

enum { PARKED_MAX = 64 };

#define OWNER_VALID VRB_MSEC	/* who owns an SRQ is looked up again after this */

/* A request that waits for the state. */
struct parked {
	struct list node;
	struct net_path path;
	struct wq_pull pull;
	struct wq_seg seg[XRC_SEGS];
	uint32_t payload;
	bool pulled;
	size_t len;
	uint8_t data[];
};

struct vrb_loan {
	struct xrc_party to;	/* slot HOST_NO_SLOT: the state is here */
	uint32_t epoch;
	uint32_t sent, done;
	bool owed;		/* the deputy had not answered all when it spoke last */
	struct list parked;
	unsigned int n_parked;
	/* The SRQ named last, and whose it is. */
	uint32_t srqn;
	int owner;		/* HOST_NO_SLOT: of this process, or nobody's */
	uint64_t looked;
};

enum verdict {
	RUN,		/* it is this process's */
	TAKEN,
	WAIT,		/* parked, or to be parked */
};

static bool is_away(const struct vrb_loan *l)
{
	return l->to.slot != HOST_NO_SLOT;
}

static struct vrb_loan *new_loan(void)
{
	struct vrb_loan *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->to.slot = l->owner = HOST_NO_SLOT;
	list_init(&l->parked);
	return l;
}

/* The other live process that owns an SRQ; HOST_NO_SLOT if there is none. */
static int foreign_owner(const struct vrb_qp *qp, uint32_t srqn)
{
	int slot;

	if (!qp->domain->has_inode || !host_shared(vrb.host))
		return HOST_NO_SLOT;
	slot = host_owner(vrb.host, srqn);
	return slot == host_slot(vrb.host) ? HOST_NO_SLOT : slot;
}

static int owner_of(struct vrb_qp *qp, struct vrb_loan *l, uint32_t srqn, uint64_t now)
{
	if (l->looked && l->srqn == srqn && now - l->looked < OWNER_VALID)
		return l->owner;
	l->owner = foreign_owner(qp, srqn);
	l->srqn = srqn;
	l->looked = now;
	return l->owner;
}

static struct xrc_head head_of(const struct vrb_qp *qp, enum xrc_kind kind)
{
	return (struct xrc_head){ .kind = kind, .qpn = qp->wq.qpn, .epoch = qp->loan->epoch };
}

struct xrc_config vrb_loan_config(const struct vrb_qp *qp)
{
	const struct wq_qp *wq = &qp->wq;

	return (struct xrc_config){
		.domain = qp->domain->key,
		.path = wq->path, .alt_path = wq->alt_path,
		.mtu = wq->mtu, .max_msg = wq->max_msg, .dest_qpn = wq->dest_qpn,
		.access = wq->access,
		.pkey = wq->pkey, .pkey_index = wq->pkey_index,
		.state = wq->state, .mig_state = wq->mig_state,
		.max_dest_rd_atomic = min((uint32_t)wq->max_dest_rd_atomic, qp->rd_atomic_slots),
		.min_rnr_timer = wq->min_rnr_timer,
	};
}

bool vrb_loan_config_ok(const struct xrc_config *c)
{
	return wq_receives(c->state) && c->mtu >= 256 && c->mtu <= ROCE_MAX_MTU &&
	       !(c->mtu & (c->mtu - 1)) && c->max_msg <= VRB_MAX_MSG && c->max_dest_rd_atomic <= ROCE_MAX_RD_ATOMIC;
}

void vrb_loan_configure(struct vrb_qp *qp, const struct xrc_config *c)
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

bool vrb_loan_make_resources(struct vrb_qp *qp, uint32_t n)
{
	struct roce_rd_atomic *rd = calloc(max(n, 1u), sizeof(*rd));

	if (!rd)
		return false;
	free(qp->rd_atomic);
	qp->rd_atomic = rd;
	qp->rd_atomic_slots = n;
	return true;
}

static void tell_config(struct vrb_qp *qp)
{
	struct xrc_head head = head_of(qp, XRC_CONFIG);
	struct xrc_config config = vrb_loan_config(qp);

	xrc_tell(&qp->loan->to, &head, &config, sizeof(config), NULL, 0, NULL, 0);
}

static void recall(struct vrb_qp *qp)
{
	struct xrc_head head = head_of(qp, XRC_RECALL);

	head.seq = qp->wq.state;
	xrc_tell(&qp->loan->to, &head, NULL, 0, NULL, 0, NULL, 0);
	xrc_party_drop(&qp->loan->to);
}

/* The process that had the state is dead. What it had begun nobody can end. */
static void mourn(struct vrb_qp *qp)
{
	struct vrb_loan *l = qp->loan;
	bool begun = qp->roce.resp.msg != ROCE_MSG_NONE || l->owed;

	log_info(LOG_CORE, "QP 0x%x: the process of slot %d, which ran its requests, has died",
		 qp->wq.qpn, l->to.slot);
	xrc_party_drop(&l->to);
	l->looked = 0;
	l->owed = false;
	if (begun && qp->wq.state != IBV_QPS_ERR)
		roce_snapshot_lost(&qp->roce);
}

/* 0; EAGAIN: what is to be said before finds no room; ENOENT: there is no such process. */
static int lend(struct vrb_qp *qp, int slot, uint64_t now)
{
	static uint8_t state[ROCE_SNAPSHOT_MAX];	/* vrb.drive */
	struct xrc_config config = vrb_loan_config(qp);
	struct vrb_loan *l = qp->loan;
	struct xrc_head head;
	int err;

	if (!roce_snapshot_quiet(&qp->roce))
		vrb_output(qp, now);
	if (!roce_snapshot_quiet(&qp->roce))
		return EAGAIN;
	if (!xrc_party_find(&l->to, slot))
		return ENOENT;
	l->epoch++;
	l->sent = l->done = 0;
	head = head_of(qp, XRC_LEND);
	err = xrc_tell(&l->to, &head, &config, sizeof(config), state,
		       roce_snapshot_take(&qp->roce, state), NULL, 0);
	if (err)
		xrc_party_drop(&l->to);
	return err;
}

/* Passes a request on. What finds no room is lost, as on a network. */
static void pass_on(struct vrb_qp *qp, const struct vrb_raw *raw)
{
	const struct wq_pull *pull = raw->pkt->pull;
	struct {
		struct xrc_request r;
		struct wq_seg seg[XRC_SEGS];
	} body = { .r = { .path = raw->pkt->path } };
	struct vrb_loan *l = qp->loan;
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
	head.seq = l->sent + 1;
	if (!xrc_tell(&l->to, &head, &body, len, NULL, 0, raw->data, raw->len))
		l->sent++;
}

static enum verdict run_here(struct vrb_qp *qp, const struct vrb_raw *raw, uint64_t now)
{
	struct vrb_loan *l = qp->loan;
	int owner;

	if (!roce_starts(roce_opcode_info(raw->pkt->bth.opcode)) ||
	    qp->roce.resp.msg != ROCE_MSG_NONE)
		return RUN;
	owner = owner_of(qp, l, raw->pkt->xrc_srqn, now);
	if (owner == HOST_NO_SLOT)
		return RUN;
	switch (lend(qp, owner, now)) {
	case 0:
		pass_on(qp, raw);
		return TAKEN;
	case EAGAIN:
		return WAIT;
	default:
		l->looked = 0;
		return RUN;
	}
}

/* Whose is this request? */
static enum verdict judge(struct vrb_qp *qp, const struct vrb_raw *raw, uint64_t now)
{
	bool starts = roce_starts(roce_opcode_info(raw->pkt->bth.opcode));
	struct vrb_loan *l = qp->loan;

	if (is_away(l) && !xrc_party_alive(&l->to, now))
		mourn(qp);
	if (!is_away(l))
		return run_here(qp, raw, now);
	if (!starts || owner_of(qp, l, raw->pkt->xrc_srqn, now) == l->to.slot) {
		pass_on(qp, raw);
		return TAKEN;
	}
	if (l->sent != l->done)
		return WAIT;
	if (qp->roce.resp.msg != ROCE_MSG_NONE) {
		pass_on(qp, raw);	/* a message within a message: its deputy refuses it */
		return TAKEN;
	}
	recall(qp);
	return run_here(qp, raw, now);
}

static void park(struct vrb_loan *l, const struct vrb_raw *raw)
{
	const struct wq_pull *pull = raw->pkt->pull;
	struct parked *p;

	if (l->n_parked == PARKED_MAX)
		return;
	p = malloc(sizeof(*p) + raw->len);
	if (!p)
		return;
	p->path = raw->pkt->path;
	p->pulled = pull;
	if (pull) {
		p->pull = *pull;
		p->pull.num_seg = min(pull->num_seg, (uint32_t)XRC_SEGS);
		memcpy(p->seg, pull->seg, p->pull.num_seg * sizeof(*p->seg));
		p->pull.seg = p->seg;
		p->payload = raw->pkt->payload_len;
	}
	p->len = raw->len;
	memcpy(p->data, raw->data, raw->len);
	list_add_tail(&l->parked, &p->node);
	l->n_parked++;
}

static void unpark(struct vrb_loan *l, struct parked *p)
{
	list_del(&p->node);
	free(p);
	l->n_parked--;
}

static void forget_parked(struct vrb_loan *l)
{
	while (l->n_parked)
		unpark(l, list_entry(l->parked.next, struct parked, node));
}

/* Requests that had to wait go on, until one has to wait again. */
static void resume(struct vrb_qp *qp, struct vrb_receiver *r, uint64_t now)
{
	struct vrb_loan *l = qp->loan;
	struct roce_pkt pkt;

	while (l->n_parked) {
		struct parked *p = list_entry(l->parked.next, struct parked, node);
		struct vrb_raw raw = { &pkt, p->data, p->len };
		enum verdict v = TAKEN;

		if (roce_decode(&pkt, p->data, p->len) == ROCE_DECODED) {
			pkt.path = p->path;
			if (p->pulled) {
				pkt.pull = &p->pull;
				pkt.payload_len = p->payload;
			}
			v = judge(qp, &raw, now);
		}
		if (v == WAIT)
			return;
		if (v == RUN)
			vrb_arrive_here(qp, &pkt, r, now);
		unpark(l, p);
	}
}

/* The peer may migrate with any request: that is seen here, and told. */
static bool admit(struct vrb_qp *qp, const struct roce_pkt *pkt)
{
	uint8_t before = qp->wq.mig_state;

	if (!roce_admit(&qp->roce, pkt))
		return false;
	if (qp->wq.mig_state != before && is_away(qp->loan))
		tell_config(qp);
	return true;
}

bool vrb_loan_takes(struct vrb_qp *qp, const struct vrb_raw *raw, struct vrb_receiver *r, uint64_t now)
{
	struct vrb_loan *l = qp->loan;
	enum verdict v;

	if (qp->moving == VRB_LEFT ||
	    (qp->moving == VRB_LEAVES && roce_starts(roce_opcode_info(raw->pkt->bth.opcode))))
		return true;
	if (!wq_receives(qp->wq.state))
		return false;
	if (!l) {
		if (foreign_owner(qp, raw->pkt->xrc_srqn) == HOST_NO_SLOT)
			return false;
		l = qp->loan = new_loan();
		if (!l)
			return true;
	}
	if (!admit(qp, raw->pkt))
		return true;
	/* What is waited for may have come, or whoever should send it may have died. */
	if (l->n_parked)
		resume(qp, r, now);
	v = l->n_parked ? WAIT : judge(qp, raw, now);
	if (v == WAIT)
		park(l, raw);
	return v != RUN;
}

bool vrb_loan_settled(struct vrb_qp *qp, uint64_t now)
{
	struct vrb_loan *l = qp->loan;

	if (l && is_away(l) && !xrc_party_alive(&l->to, now))
		mourn(qp);
	return (!l || !is_away(l) || l->sent == l->done) && qp->roce.resp.msg == ROCE_MSG_NONE;
}

void vrb_loan_changed(struct vrb_qp *qp)
{
	struct vrb_loan *l = qp->loan;

	if (!l)
		return;
	if (!wq_receives(qp->wq.state))
		forget_parked(l);
	if (!is_away(l))
		return;
	if (wq_receives(qp->wq.state))
		tell_config(qp);
	else
		recall(qp);
}

void vrb_loan_drop(struct vrb_qp *qp)
{
	if (!qp->loan)
		return;
	if (is_away(qp->loan))
		recall(qp);
	forget_parked(qp->loan);
	free(qp->loan);
	qp->loan = NULL;
}

static void take_answer(struct vrb_qp *qp, const struct xrc_msg *m, struct vrb_receiver *r,
			uint64_t now)
{
	struct vrb_loan *l = qp->loan;
	struct roce_snapshot s;

	if (m->head.state) {
		if (!roce_snapshot_restore(&qp->roce, m->state, m->head.state))
			return;
		memcpy(&s, m->state, sizeof(s));
		l->owed = s.owes && !m->head.final;
	}
	if (m->head.packet > ROCE_ICRC_LEN && m->head.packet <= ROCE_MAX_PACKET)
		vrb_output_packet(qp, m->packet, m->head.packet, now);
	if (!m->head.final || m->head.seq - l->done > l->sent - l->done)
		return;
	l->done = m->head.seq;
	if (qp->wq.state == IBV_QPS_ERR) {
		forget_parked(l);
		recall(qp);
	}
	resume(qp, r, now);
	vrb_touch(qp, OUTPUT_NOW, r);
}

static void take_event(struct vrb_qp *qp, const struct xrc_msg *m)
{
	struct xrc_event e;

	if (m->head.body != sizeof(e))
		return;
	memcpy(&e, m->body, sizeof(e));
	qp->wq.fault = e.fault;
	switch (e.type) {
	case IBV_EVENT_COMM_EST:
		qp->roce.resp.established = true;
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

void vrb_loan_receive(const struct xrc_msg *m, struct vrb_receiver *r, uint64_t now)
{
	struct vrb_qp *qp = vrb_qptab_find(m->head.qpn);

	if (!qp)
		return;
	lock_acquire(&qp->lock);
	if (qp->loan && is_away(qp->loan) && m->head.epoch == qp->loan->epoch &&
	    xrc_party_sent(&qp->loan->to, m)) {
		qp->now = now;
		if (m->head.kind == XRC_ANSWER)
			take_answer(qp, m, r, now);
		else
			take_event(qp, m);
	}
	lock_release(&qp->lock);
}
