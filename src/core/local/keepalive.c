/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/local/keepalive.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "core/base/context.h"
#include "core/base/state.h"
#include "core/device/device.h"
#include "core/qp/qp.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/compiler.h"
#include "util/tuning.h"

enum { PROBES = 64 };	/* probes per round; an inbox yields no more */

/* State of the process in a slot. */
struct known_process {
	uint64_t incarnation;
	uint64_t asked_at;	/* when the last probe was sent */
	uint64_t answered;	/* when the last answered probe was sent */
	uint64_t heard_at;	/* when its answer arrived */
	pid_t pid;
	bool waits;		/* HOST_KEEPALIVE_WAITS */
	/* it answered although the pid does not exist here: it is in another PID namespace */
	bool foreign;
};

static struct known_process known[HOST_SLOTS];
static struct host_keepalive probe[PROBES];
static unsigned int n_probes;
static unsigned int n_waiting;	/* atomic: QPs whose requests wait for another process */

static struct known_process *know(int slot, const struct host_peer *peer)
{
	struct known_process *k = &known[slot];

	if (k->incarnation != peer->incarnation)
		*k = (struct known_process){ .incarnation = peer->incarnation, .pid = peer->pid };
	return k;
}

static bool exists(pid_t pid)
{
	return SYS_RESULT(kill(pid, 0)) != -ESRCH;
}

/*
 * Checks the pid: the host lock and the inbox look alive as long as a child that was cloned without
 * the library's knowledge has them open.
 */
static bool has_died(const struct known_process *k)
{
	return !k->foreign && !exists(k->pid);
}

/*
 * Returns the peer's process if it is another process of this host that uses the same network, or
 * NULL if it is not, or is unknown.
 */
static struct known_process *process_of(struct vrb_qp *qp, int *slot)
{
	struct host_peer peer;

	if (vrb_port_find_gid(&qp->config.ctx->dev->port, &qp->wq.path.dst) < 0)
		return NULL;
	*slot = host_owner(vrb.host, qp->wq.dest_qpn);
	if (*slot == HOST_NO_SLOT || *slot == host_slot(vrb.host) ||
	    !host_same_network(vrb.host, *slot) || !host_peer(vrb.host, *slot, &peer) ||
	    !peer.udp_port)
		return NULL;
	return know(*slot, &peer);
}

/*
 * One pending probe serves all QPs. Repeat it after a while, in case a full inbox dropped it.
 */
static bool is_waiting(const struct known_process *k, uint64_t now)
{
	return k->asked_at > k->answered && time_since(k->asked_at, now) < LIMIT_KEEPALIVE_REPEAT;
}

/*
 * Sends a probe, which also serves every QP that has been waiting for an answer since an earlier
 * time.
 */
static void ask(struct known_process *k, int slot, uint64_t now)
{
	struct host_keepalive p = { .asked_at = now, .to = k->incarnation };

	if (k->asked_at == now || is_waiting(k, now))
		return;
	if (!host_send_keepalive(vrb.host, slot, &p))
		k->asked_at = now;
}

/* As vrb_keepalive_defers_timeout(), for a live process. */
static bool defers(struct vrb_qp *qp, struct known_process *k, int slot, bool overdue, uint64_t now)
{
	struct vrb_keepalive *own = &qp->peer.keepalive;
	bool answered;

	if (!own->asked_at || own->una != roce_oldest_unacked(&qp->roce)) {
		*own = (struct vrb_keepalive){ .asked_at = now,
					       .una = roce_oldest_unacked(&qp->roce) };
		ask(k, slot, now);
		return overdue;
	}
	answered = k->answered >= own->asked_at;
	if (answered && k->waits && qp->wq.type == IBV_QPT_XRC_SEND) {
		/* Its process has run, but maybe not the one that is to answer. */
		own->asked_at = 0;
		if (overdue)
			roce_probe(&qp->roce, now);
		return overdue;
	}
	if (!answered)
		ask(k, slot, now);
	else if (!own->heard_at)
		own->heard_at = k->heard_at;
	if (!overdue)
		return !answered;
	if (!answered || time_since(own->heard_at, now) < LIMIT_KEEPALIVE_GRACE)
		return true;
	/* This timeout counts; the next one needs a new probe. */
	own->asked_at = 0;
	return false;
}

bool vrb_keepalive_defers_timeout(struct vrb_qp *qp, bool overdue, uint64_t now)
{
	struct known_process *k;
	int slot;

	k = process_of(qp, &slot);
	return k && defers(qp, k, slot, overdue, now) && !has_died(k);
}

static void note_answer(const struct host_keepalive *p, uint64_t now)
{
	struct known_process *k = &known[p->slot];

	if (k->incarnation != p->from || p->asked_at > now || p->asked_at <= k->answered)
		return;
	k->answered = p->asked_at;
	k->heard_at = now;
	k->waits = p->answer == HOST_KEEPALIVE_WAITS;
	k->foreign = !exists(k->pid);
}

void vrb_keepalive_receive(const void *keepalive, uint64_t now)
{
	struct host_keepalive p;

	memcpy(&p, keepalive, sizeof(p));
	if (p.slot < 0 || p.slot >= HOST_SLOTS || p.to != host_incarnation(vrb.host))
		return;
	if (p.answer)
		note_answer(&p, now);
	else if (n_probes < PROBES)
		probe[n_probes++] = p;
}

bool vrb_keepalive_asked(void)
{
	return n_probes != 0;
}

void vrb_keepalive_reply(void)
{
	for (unsigned int i = 0; i < n_probes; i++) {
		struct host_keepalive p = probe[i];
		int slot = p.slot;

		p.to = p.from;
		p.answer = load_relaxed(&n_waiting) ? HOST_KEEPALIVE_WAITS : HOST_KEEPALIVE_ANSWER;
		host_send_keepalive(vrb.host, slot, &p);
	}
	n_probes = 0;
}

void vrb_keepalive_waits(bool waits)
{
	fetch_add_relaxed(&n_waiting, waits ? 1U : -1U);
}

void vrb_keepalive_forget(void)
{
	memset(known, 0, sizeof(known));
	n_probes = n_waiting = 0;
}
