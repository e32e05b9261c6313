/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/xrc/opener.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/context.h"
#include "core/drive.h"
#include "core/output.h"
#include "core/process.h"
#include "core/qp.h"
#include "core/qp_modify.h"
#include "core/qptab.h"
#include "core/xrc/loan.h"
#include "core/xrc/xrcask.h"
#include "core/xrc/xrcd.h"
#include "host/host.h"
#include "run/clock.h"
#include "run/log.h"
#include "util/compiler.h"

#define SETTLE_PATIENCE VRB_SECOND	/* for what the deputy has not answered */

struct vrb_opener {
	struct list node;
	struct xrc_party party;
};

static struct vrb_opener *find(struct vrb_qp *qp, int slot, uint64_t incarnation)
{
	struct list *pos;

	list_for_each (pos, &qp->openers) {
		struct vrb_opener *o = list_entry(pos, struct vrb_opener, node);

		if (o->party.slot == slot && o->party.incarnation == incarnation)
			return o;
	}
	return NULL;
}

static int add(struct vrb_qp *qp, int slot, uint64_t incarnation)
{
	struct vrb_opener *o;

	if (find(qp, slot, incarnation))
		return 0;
	o = calloc(1, sizeof(*o));
	if (!o)
		return ENOMEM;
	if (!xrc_party_find(&o->party, slot) || o->party.incarnation != incarnation) {
		xrc_party_drop(&o->party);
		free(o);
		return ESRCH;
	}
	list_add_tail(&qp->openers, &o->node);
	return 0;
}

static void drop(struct vrb_opener *o)
{
	list_del(&o->node);
	xrc_party_drop(&o->party);
	free(o);
}

void vrb_opener_drop(struct vrb_qp *qp)
{
	while (!list_empty(&qp->openers))
		drop(list_entry(qp->openers.next, struct vrb_opener, node));
}

/* ---- events ---- */

void vrb_opener_event(struct vrb_qp *qp, enum ibv_event_type type)
{
	struct xrc_head head = { .kind = XRC_NEWS, .qpn = qp->wq.qpn };
	struct xrc_event e = { .type = type };
	struct list *pos;

	vrb_xrcd_handles_event(qp, type);
	list_for_each (pos, &qp->openers) {
		struct vrb_opener *o = list_entry(pos, struct vrb_opener, node);

		xrc_tell(&o->party, &head, &e, sizeof(e), NULL, 0, NULL, 0);
	}
}

/* An opener that came with the QP hears who its home is now. */
static void greet(struct vrb_qp *qp, int slot, uint64_t incarnation)
{
	struct xrc_head head = { .kind = XRC_NEWS, .qpn = qp->wq.qpn };
	struct xrc_event e = { .type = XRC_NEW_HOME };
	struct vrb_opener *o = find(qp, slot, incarnation);

	xrc_tell(&o->party, &head, &e, sizeof(e), NULL, 0, NULL, 0);
}

/* ---- questions ---- */

/* The QP that a question is about, locked. Otherwise NULL, and *err is EINVAL if there is none, EAGAIN if its home is about to move. */
static struct vrb_qp *meant(const struct xrc_msg *m, int *err)
{
	struct vrb_qp *qp = vrb_qptab_find(m->head.qpn);

	*err = EINVAL;
	if (!qp || qp->wq.type != IBV_QPT_XRC_RECV)
		return NULL;
	lock_acquire(&qp->lock);
	if (!qp->moving)
		return qp;
	lock_release(&qp->lock);
	*err = EAGAIN;
	return NULL;
}

static int say_state(const struct vrb_qp *qp, void *reply, size_t *len)
{
	uint32_t state = qp->wq.state;

	memcpy(reply, &state, sizeof(state));
	*len = sizeof(state);
	return 0;
}

int vrb_opener_on_open(const struct xrc_msg *m, uint64_t now, void *reply, size_t *len)
{
	int err;
	struct vrb_qp *qp = meant(m, &err);

	if (!qp)
		return err;
	err = EINVAL;
	if (qp->domain->has_inode && !memcmp(&qp->domain->key, m->body, sizeof(qp->domain->key)))
		err = add(qp, m->head.slot, m->head.incarnation);
	if (!err)
		err = say_state(qp, reply, len);
	lock_release(&qp->lock);
	return err;
}

int vrb_opener_on_close(const struct xrc_msg *m, uint64_t now, void *reply, size_t *len)
{
	int err;
	struct vrb_qp *qp = meant(m, &err);
	struct vrb_opener *o;

	if (!qp)
		return err;
	o = find(qp, m->head.slot, m->head.incarnation);
	if (o)
		drop(o);
	lock_release(&qp->lock);
	return o ? 0 : EINVAL;
}

/* Only who has it open may ask. */
static struct vrb_qp *meant_by_opener(const struct xrc_msg *m, int *err)
{
	struct vrb_qp *qp = meant(m, err);

	if (!qp || find(qp, m->head.slot, m->head.incarnation))
		return qp;
	lock_release(&qp->lock);
	*err = EINVAL;
	return NULL;
}

int vrb_opener_on_modify(const struct xrc_msg *m, uint64_t now, void *reply, size_t *len)
{
	int err;
	struct vrb_qp *qp = meant_by_opener(m, &err);
	struct xrc_modify mod;

	if (!qp)
		return err;
	lock_release(&qp->lock);
	memcpy(&mod, m->body, sizeof(mod));
	/* It cannot go away: that takes vrb.drive. */
	err = vrb_qp_modify(qp, &mod.attr, mod.mask);
	return err ? err : say_state(qp, reply, len);
}

int vrb_opener_on_query(const struct xrc_msg *m, uint64_t now, void *reply, size_t *len)
{
	int err;
	struct vrb_qp *qp = meant_by_opener(m, &err);
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

int vrb_opener_on_add(const struct xrc_msg *m, uint64_t now, void *reply, size_t *len)
{
	int err;
	struct vrb_qp *qp = meant(m, &err);
	struct xrc_others others;

	memcpy(&others, m->body, sizeof(others));
	if (!qp)
		return err;
	for (uint32_t i = 0; i < min(others.n, (uint32_t)XRC_OTHERS); i++)
		if (!add(qp, others.slot[i], others.incarnation[i]))
			greet(qp, others.slot[i], others.incarnation[i]);
	lock_release(&qp->lock);
	return 0;
}

/* ---- the home moves ---- */

/* No request is taken any more, the state is here, and what is to be said has been said. Must hold no lock. */
static void bring_home(struct vrb_qp *qp)
{
	uint64_t start = clock_now(), now = start;
	bool settled;

	do {
		vrb_drive_messages();
		now = clock_now();
		lock_acquire(&qp->lock);
		qp->moving = VRB_LEAVES;
		settled = vrb_loan_settled(qp, now);
		/* A message that does not end is its sender's fault, and the end of the connection. */
		if (!settled && now - start > SETTLE_PATIENCE) {
			roce_snapshot_lost(&qp->roce);
			settled = true;
		}
		if (settled) {
			qp->moving = VRB_LEFT;
			vrb_loan_drop(qp);
			vrb_output(qp, now);
		}
		lock_release(&qp->lock);
	} while (!settled);
}

static void describe(struct vrb_qp *qp, struct xrc_adoption *a)
{
	const struct wq_qp *wq = &qp->wq;

	*a = (struct xrc_adoption){
		.config = vrb_loan_config(qp),
		.attr = qp->attr,
		.qkey = wq->qkey, .rq_psn = wq->rq_psn, .sq_psn = wq->sq_psn,
		.max_rd_atomic = wq->max_rd_atomic, .timeout = wq->timeout,
		.retry_cnt = wq->retry_cnt, .rnr_retry = wq->rnr_retry,
		.alt_timeout = wq->alt_timeout,
	};
}

/* A living opener, taken off the list; slot HOST_NO_SLOT if there is none. */
static struct xrc_party take_heir(struct vrb_qp *qp)
{
	struct xrc_party heir = { .slot = HOST_NO_SLOT };
	uint64_t now = clock_now();

	lock_acquire(&qp->lock);
	while (heir.slot == HOST_NO_SLOT && !list_empty(&qp->openers)) {
		struct vrb_opener *o = list_entry(qp->openers.next, struct vrb_opener, node);

		if (xrc_party_alive(&o->party, now))
			heir = (struct xrc_party){ .slot = o->party.slot,
						   .incarnation = o->party.incarnation };
		drop(o);
	}
	lock_release(&qp->lock);
	return heir;
}

/* The rest of the openers, in portions. */
static void introduce(struct vrb_qp *qp, int slot)
{
	struct xrc_others others;

	do {
		others = (struct xrc_others){ .n = 0 };
		lock_acquire(&qp->lock);
		while (others.n < XRC_OTHERS && !list_empty(&qp->openers)) {
			struct vrb_opener *o = list_entry(qp->openers.next, struct vrb_opener, node);

			others.slot[others.n] = o->party.slot;
			others.incarnation[others.n++] = o->party.incarnation;
			drop(o);
		}
		lock_release(&qp->lock);
		if (others.n)
			xrc_ask(slot, XRC_CALL_ADD, qp->wq.qpn, &others, sizeof(others), NULL, 0, NULL, 0);
	} while (others.n);
}

static bool has_openers(struct vrb_qp *qp)
{
	bool any;

	lock_acquire(&qp->lock);
	any = !list_empty(&qp->openers);
	lock_release(&qp->lock);
	return any;
}

bool vrb_opener_inherit(struct vrb_qp *qp)
{
	struct xrc_adoption a;
	struct xrc_party heir;
	bool moved = false;
	uint8_t *state;
	size_t len;

	if (!has_openers(qp))
		return false;
	state = malloc(ROCE_SNAPSHOT_MAX);
	if (!state)
		return false;
	bring_home(qp);
	while (!moved && (heir = take_heir(qp)).slot != HOST_NO_SLOT) {
		lock_acquire(&qp->lock);
		describe(qp, &a);
		len = roce_snapshot_take(&qp->roce, state);
		lock_release(&qp->lock);
		moved = xrc_ask(heir.slot, XRC_CALL_ADOPT, qp->wq.qpn, &a, sizeof(a), state, len, NULL,
				0) == 0;
		/* It may have died with the number in its hands. */
		if (!moved && !host_qpn_mine(vrb.host, qp->wq.qpn))
			break;
	}
	free(state);
	if (moved) {
		log_info(LOG_CORE, "QP 0x%x goes on in the process of slot %d", qp->wq.qpn, heir.slot);
		introduce(qp, heir.slot);
	}
	return moved;
}

struct search {
	struct vrb_context *ctx;
	struct vrb_qp *found;
};

static void look(struct vrb_qp *qp, void *arg)
{
	struct search *s = arg;

	if (qp->ctx == s->ctx && !s->found && !list_empty(&qp->openers))
		s->found = qp;
}

void vrb_opener_inherit_all(struct vrb_context *ctx)
{
	struct search s = { .ctx = ctx };

	do {
		s.found = NULL;
		lock_acquire(&vrb.drive);
		vrb_qptab_for_each(look, &s);
		lock_release(&vrb.drive);
		if (s.found)
			vrb_opener_inherit(s.found);
	} while (s.found);
}
