/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/xrc/open_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/context.h"
#include "core/base/state.h"
#include "core/control/qp_modify.h"
#include "core/progress/poll_loop.h"
#include "core/qp/qp.h"
#include "core/qp/qp_table.h"
#include "core/qp/xrcd.h"
#include "core/tx/transmit.h"
#include "core/xrc/delegation.h"
#include "core/xrc/rpc.h"
#include "host/host.h"
#include "run/clock.h"
#include "run/log.h"
#include "util/compiler.h"
#include "util/sleep.h"
#include "util/time.h"

/* Limits without progress for a message, and for a process that lives, but may get no CPU. */
#define SETTLE_TIMEOUT (10 * VRB_SECOND)
#define ANSWER_TIMEOUT (60 * VRB_SECOND)
#define PAUSE	       (50 * VRB_USEC)

struct open_entry {
	struct list node;
	struct xrc_peer party;
};

static struct open_entry *find(struct vrb_qp *qp, int slot, uint64_t incarnation)
{
	struct list *pos;

	list_for_each (pos, &qp->xrc.open_table) {
		struct open_entry *o = list_entry(pos, struct open_entry, node);

		if (o->party.slot == slot && o->party.incarnation == incarnation)
			return o;
	}
	return NULL;
}

static int add(struct vrb_qp *qp, int slot, uint64_t incarnation)
{
	struct open_entry *o;

	if (find(qp, slot, incarnation))
		return 0;
	o = calloc(1, sizeof(*o));
	if (!o)
		return ENOMEM;
	if (!xrc_peer_find(&o->party, slot) || o->party.incarnation != incarnation) {
		xrc_peer_drop(&o->party);
		free(o);
		return ESRCH;
	}
	list_add_tail(&qp->xrc.open_table, &o->node);
	return 0;
}

static void drop(struct open_entry *o)
{
	list_del(&o->node);
	xrc_peer_drop(&o->party);
	free(o);
}

void vrb_open_table_drop(struct vrb_qp *qp)
{
	while (!list_empty(&qp->xrc.open_table))
		drop(list_entry(qp->xrc.open_table.next, struct open_entry, node));
}

/* ---- events ---- */

void vrb_open_table_event(struct vrb_qp *qp, enum ibv_event_type type)
{
	struct xrc_head head = { .kind = XRC_NOTIFY, .qpn = qp->wq.qpn };
	struct xrc_event e = { .type = type };
	struct list *pos;

	vrb_xrcd_handles_event(qp, type);
	list_for_each (pos, &qp->xrc.open_table) {
		struct open_entry *o = list_entry(pos, struct open_entry, node);

		xrc_send_surely(&o->party, &head, &e, sizeof(e));
	}
}

/* Notifies an opener from the former home's table that this process is the QP's home now. */
static void announce_home(struct vrb_qp *qp, int slot, uint64_t incarnation)
{
	struct xrc_head head = { .kind = XRC_NOTIFY, .qpn = qp->wq.qpn };
	struct xrc_event e = { .type = XRC_NEW_HOME };
	struct open_entry *o = find(qp, slot, incarnation);

	xrc_send_surely(&o->party, &head, &e, sizeof(e));
}

/* ---- calls from openers ---- */

/*
 * Returns the QP of a call, locked, or NULL with *err set: EINVAL (no such QP) or EAGAIN (its home
 * is moving).
 */
static struct vrb_qp *find_qp(const struct xrc_msg *m, int *err)
{
	struct vrb_qp *qp = vrb_qp_table_find(m->head.qpn);

	*err = EINVAL;
	if (!qp || qp->wq.type != IBV_QPT_XRC_RECV)
		return NULL;
	lock_acquire(&qp->lock);
	if (!qp->xrc.migrating)
		return qp;
	lock_release(&qp->lock);
	*err = EAGAIN;
	return NULL;
}

static int reply_state(const struct vrb_qp *qp, void *reply, size_t *len)
{
	uint32_t state = qp->wq.state;

	memcpy(reply, &state, sizeof(state));
	*len = sizeof(state);
	return 0;
}

int vrb_open_table_on_open(const struct xrc_msg *m, uint64_t now, void *reply, size_t *len)
{
	int err;
	struct vrb_qp *qp = find_qp(m, &err);

	if (!qp)
		return err;
	err = EINVAL;
	if (qp->config.domain->has_inode &&
	    !memcmp(&qp->config.domain->key, m->body, sizeof(qp->config.domain->key)))
		err = add(qp, m->head.slot, m->head.incarnation);
	if (!err)
		err = reply_state(qp, reply, len);
	lock_release(&qp->lock);
	return err;
}

int vrb_open_table_on_close(const struct xrc_msg *m, uint64_t now, void *reply, size_t *len)
{
	int err;
	struct vrb_qp *qp = find_qp(m, &err);
	struct open_entry *o;

	if (!qp)
		return err;
	o = find(qp, m->head.slot, m->head.incarnation);
	if (o)
		drop(o);
	lock_release(&qp->lock);
	return o ? 0 : EINVAL;
}

/* As find_qp(), but only for processes that have the QP open. */
static struct vrb_qp *find_for_opener(const struct xrc_msg *m, int *err)
{
	struct vrb_qp *qp = find_qp(m, err);

	if (!qp || find(qp, m->head.slot, m->head.incarnation))
		return qp;
	lock_release(&qp->lock);
	*err = EINVAL;
	return NULL;
}

int vrb_open_table_on_modify(const struct xrc_msg *m, uint64_t now, void *reply, size_t *len)
{
	int err;
	struct vrb_qp *qp = find_for_opener(m, &err);
	struct xrc_modify mod;

	if (!qp)
		return err;
	lock_release(&qp->lock);
	memcpy(&mod, m->body, sizeof(mod));
	/* vrb.poll_lock keeps the QP from being destroyed. */
	err = vrb_qp_modify(qp, &mod.attr, mod.mask);
	return err ? err : reply_state(qp, reply, len);
}

int vrb_open_table_on_query(const struct xrc_msg *m, uint64_t now, void *reply, size_t *len)
{
	int err;
	struct vrb_qp *qp = find_for_opener(m, &err);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (!qp)
		return err;
	lock_release(&qp->lock);
	vrb_qp_query(qp, &attr, &init);
	memcpy(reply, &attr, sizeof(attr));
	*len = sizeof(attr);
	return 0;
}

int vrb_open_table_on_add(const struct xrc_msg *m, uint64_t now, void *reply, size_t *len)
{
	int err;
	struct vrb_qp *qp = find_qp(m, &err);
	struct xrc_others others;

	memcpy(&others, m->body, sizeof(others));
	if (!qp)
		return err;
	for (uint32_t i = 0; i < min(others.n, (uint32_t)XRC_OTHERS); i++)
		if (!add(qp, others.slot[i], others.incarnation[i]))
			announce_home(qp, others.slot[i], others.incarnation[i]);
	lock_release(&qp->lock);
	return 0;
}

/* ---- migration of the home ---- */

struct silence {
	uint64_t checked, waited;
	uint64_t progress;	/* that of the requests, until now */
};

/* True if it was too long, and the process that could end it is not stopped. */
static bool is_lost(struct silence *s, const struct vrb_qp *qp, uint64_t now)
{
	uint64_t step = time_wait_step(&s->checked, now), progress = vrb_delegation_progress(qp);

	s->waited = progress == s->progress ? s->waited + step : 0;
	s->progress = progress;
	if (s->waited <= (vrb_delegation_unanswered(qp) ? ANSWER_TIMEOUT : SETTLE_TIMEOUT))
		return false;
	s->waited = 0;
	return !vrb_delegation_stopped(qp);
}

/* Stops accepting messages, fetches the state and sends all pending output. Must hold no lock. */
static void bring_home(struct vrb_qp *qp)
{
	struct silence silence = { 0 };
	bool settled;

	do {
		uint64_t now;

		if (!vrb_poll_messages() && silence.checked)
			sleep_whole(PAUSE);
		now = clock_now();
		lock_acquire(&qp->lock);
		qp->xrc.migrating = VRB_HOME_LEAVES;
		settled = vrb_delegation_settled(qp, now);
		if (!settled && is_lost(&silence, qp, now)) {
			roce_snapshot_lost(&qp->roce);
			settled = true;
		}
		if (settled) {
			qp->xrc.migrating = VRB_HOME_LEFT;
			vrb_delegation_end(qp);
			vrb_transmit(qp, now);
		}
		lock_release(&qp->lock);
	} while (!settled);
}

static void describe(struct vrb_qp *qp, struct xrc_import *a)
{
	const struct wq_qp *wq = &qp->wq;

	*a = (struct xrc_import){
		.config = vrb_delegation_config(qp),
		.attr = qp->attr,
		.qkey = wq->qkey, .rq_psn = wq->rq_psn, .sq_psn = wq->sq_psn,
		.max_rd_atomic = wq->max_rd_atomic, .timeout = wq->timeout,
		.retry_cnt = wq->retry_cnt, .rnr_retry = wq->rnr_retry,
		.alt_timeout = wq->alt_timeout,
	};
}

/* Removes openers from the list up to the first live one. Slot HOST_NO_SLOT: there is none. */
static struct xrc_peer take_successor(struct vrb_qp *qp)
{
	struct xrc_peer successor = { .slot = HOST_NO_SLOT };
	uint64_t now = clock_now();

	lock_acquire(&qp->lock);
	while (successor.slot == HOST_NO_SLOT && !list_empty(&qp->xrc.open_table)) {
		struct open_entry *o = list_entry(qp->xrc.open_table.next, struct open_entry, node);

		if (xrc_peer_alive(&o->party, now))
			successor = (struct xrc_peer){ .slot = o->party.slot,
						   .incarnation = o->party.incarnation };
		drop(o);
	}
	lock_release(&qp->lock);
	return successor;
}

/* Sends the other openers to the new home, in batches. */
static void send_openers(struct vrb_qp *qp, int slot)
{
	struct xrc_others others;

	do {
		others = (struct xrc_others){ .n = 0 };
		lock_acquire(&qp->lock);
		while (others.n < XRC_OTHERS && !list_empty(&qp->xrc.open_table)) {
			struct open_entry *o =
				list_entry(qp->xrc.open_table.next, struct open_entry, node);

			others.slot[others.n] = o->party.slot;
			others.incarnation[others.n++] = o->party.incarnation;
			drop(o);
		}
		lock_release(&qp->lock);
		if (others.n)
			xrc_rpc(slot, XRC_CALL_ADD, qp->wq.qpn, &others, sizeof(others), NULL, 0,
				NULL, 0);
	} while (others.n);
}

/* The requests that wait here, and those that have arrived, but were not read. */
static void hand_over(struct vrb_qp *qp)
{
	lock_acquire(&qp->lock);
	qp->xrc.migrating = VRB_HOME_MOVED;
	vrb_delegation_hand_over(qp);
	lock_release(&qp->lock);
	vrb_poll_arrived();
}

static bool has_openers(struct vrb_qp *qp)
{
	bool any;

	lock_acquire(&qp->lock);
	any = !list_empty(&qp->xrc.open_table);
	lock_release(&qp->lock);
	return any;
}

/* Offers the QP to the openers, one after the other. state: ROCE_SNAPSHOT_MAX bytes. */
static bool move_home(struct vrb_qp *qp, uint8_t *state)
{
	struct xrc_import a;
	struct xrc_peer successor;
	bool moved = false;
	size_t len;

	bring_home(qp);
	while (!moved && (successor = take_successor(qp)).slot != HOST_NO_SLOT) {
		lock_acquire(&qp->lock);
		describe(qp, &a);
		len = roce_snapshot_take(&qp->roce, state);
		lock_release(&qp->lock);
		moved = xrc_rpc(successor.slot, XRC_CALL_IMPORT, qp->wq.qpn, &a, sizeof(a), state,
				len, NULL, 0) == 0;
		/* If the successor has taken the number, do not try another, even if it died. */
		if (!moved && !host_qpn_mine(vrb.host, qp->wq.qpn))
			break;
	}
	if (moved) {
		hand_over(qp);
		log_info(LOG_CORE, "QP 0x%x has moved to the process in slot %d", qp->wq.qpn,
			 successor.slot);
		send_openers(qp, successor.slot);
	}
	return moved;
}

bool vrb_open_table_migrate(struct vrb_qp *qp)
{
	bool moved = false;
	uint8_t *state;

	if (!has_openers(qp))
		return false;
	state = malloc(ROCE_SNAPSHOT_MAX);
	if (state)
		moved = move_home(qp, state);
	else
		log_warn(LOG_CORE,
			 "out of memory: closing QP 0x%x, which other processes have open",
			 qp->wq.qpn);
	free(state);
	lock_acquire(&qp->lock);
	vrb_open_table_drop(qp);
	lock_release(&qp->lock);
	return moved;
}

struct search {
	struct vrb_context *ctx;
	struct vrb_qp *found;
};

static void look(struct vrb_qp *qp, void *arg)
{
	struct search *s = arg;

	if (qp->config.ctx == s->ctx && !s->found && !list_empty(&qp->xrc.open_table))
		s->found = qp;
}

void vrb_open_table_migrate_all(struct vrb_context *ctx)
{
	struct search s = { .ctx = ctx };

	do {
		s.found = NULL;
		lock_acquire(&vrb.poll_lock);
		vrb_qp_table_for_each(look, &s);
		lock_release(&vrb.poll_lock);
		if (s.found)
			vrb_open_table_migrate(s.found);
	} while (s.found);
}
