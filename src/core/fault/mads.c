/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages of communication management as occasions: lost, copied, late, rejected, in vain. */
#include "core/fault/mads.h"

#include <stdlib.h>

#include "cm/msg.h"
#include "core/base/tap.h"
#include "core/fault/held.h"
#include "core/fault/plan.h"
#include "run/clock.h"
#include "run/log.h"
#include "util/lock.h"
#include "util/time.h"

enum {
	TIMED_OUT_FIRST = 16,
};

/* Exchanges whose message is lost however often it is sent. */
static struct {
	struct lock lock;
	struct exchange {
		uint64_t tid;
		enum cm_type type;
	} *of;
	unsigned int n, room;
} timed_out;

/* False: out of memory. Must hold timed_out.lock. */
static bool room_for_one(void)
{
	unsigned int room = timed_out.room ? 2 * timed_out.room : TIMED_OUT_FIRST;
	struct exchange *more;

	if (timed_out.n < timed_out.room)
		return true;
	more = realloc(timed_out.of, room * sizeof(*more));
	if (!more)
		return false;
	timed_out.of = more;
	timed_out.room = room;
	return true;
}

static void time_out(const struct cm_msg *m)
{
	bool kept;

	lock_acquire(&timed_out.lock);
	kept = room_for_one();
	if (kept)
		timed_out.of[timed_out.n++] = (struct exchange){ m->tid, m->type };
	lock_release(&timed_out.lock);
	if (!kept)
		log_warn(LOG_FAULT, "out of memory: retransmissions will not be lost");
}

void vrb_fault_mads_forget(void)
{
	lock_acquire(&timed_out.lock);
	timed_out.n = 0;
	lock_release(&timed_out.lock);
}

/* A thread of the parent may have been in room_for_one(). */
void vrb_fault_mads_after_fork(void)
{
	timed_out.of = NULL;
	timed_out.n = timed_out.room = 0;
	lock_renew(&timed_out.lock);
}

static bool has_timed_out(const struct cm_msg *m)
{
	bool found = false;

	lock_acquire(&timed_out.lock);
	for (unsigned int i = 0; i < timed_out.n && !found; i++)
		found = timed_out.of[i].tid == m->tid && timed_out.of[i].type == m->type;
	lock_release(&timed_out.lock);
	return found;
}

/* Its sender gets a REJ, as if the other side had sent one. */
static void reject(const struct tap_mad *t, const struct cm_msg *m, uint16_t reason)
{
	struct cm_msg answer = { .type = CM_REJ, .tid = m->tid };
	struct net_path back = *t->path;
	uint8_t mad[CM_MAD_LEN];

	back.src = t->path->dst;
	back.dst = t->path->src;
	answer.rej.about = m->type == CM_REP ? CM_ABOUT_REP : CM_ABOUT_REQ;
	answer.rej.remote_id = m->type == CM_REP ? m->rep.local_id : m->req.local_id;
	answer.rej.local_id = m->type == CM_REP ? m->rep.remote_id : 0;
	answer.rej.reason = reason;
	cm_encode(mad, &answer);
	vrb_held_keep_mad(&back, mad, t->out ? FAULT_RX : FAULT_TX, 0);
}

/* Its sender need not wait for the last retry. False: it does not pass. */
static bool in_vain(const struct tap_mad *t)
{
	if (t->in_vain)
		*t->in_vain = true;
	return false;
}

static bool act(const struct tap_mad *t, const struct cm_msg *m, const struct fault_hit *hit)
{
	enum fault_direction direction = t->out ? FAULT_TX : FAULT_RX;
	uint64_t value = hit->action.value;

	switch (hit->action.what) {
	case FAULT_DUPLICATE:
		while (value-- && vrb_held_keep_mad(t->path, t->mad, direction, 0))
			;
		return true;
	case FAULT_DELAY:
		vrb_held_keep_mad(t->path, t->mad, direction, time_after(clock_now(), value));
		return false;
	case FAULT_REJECT:
		reject(t, m, (uint16_t)value);
		return false;
	case FAULT_TIMEOUT:
		time_out(m);
		return in_vain(t);
	default:
		return false;
	}
}

bool vrb_fault_mad(const struct tap_mad *t)
{
	struct fault_hit hit;
	struct cm_msg m;

	if (vrb_held_returns) {
		vrb_held_returns = false;
		return true;
	}
	if (!vrb_faults_on(FAULT_CM) || cm_decode_head(&m, t->mad, CM_MAD_LEN) != CM_DECODED)
		return true;
	if (has_timed_out(&m))
		return in_vain(t);
	return !vrb_fault_cm((enum fault_cm)m.type, t->out ? FAULT_TX : FAULT_RX, &hit) ||
	       act(t, &m, &hit);
}
