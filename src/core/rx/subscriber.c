/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/rx/subscriber.h"

#include <stdbool.h>

#include "core/base/object_timer.h"
#include "core/base/state.h"
#include "core/mad/group_mad.h"
#include "core/mad/gsi.h"
#include "core/rx/mcast.h"
#include "run/clock.h"
#include "run/log.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "wire/relay.h"
#include "wire/wire.h"

enum { NOBODY = -1, QUESTIONS = 8 /* without an answer, before the user is told */ };

#define PAUSE_FIRST (10 * VRB_MSEC)
#define PAUSE_LAST  (GROUP_MAD_LEASE / 4)

static struct {
	bool started;
	int holder;		/* its slot, or NOBODY */
	unsigned int questions;	/* since an answer */
	uint64_t pause, heard;
	struct object_timer timer;
} subscriber = { .holder = NOBODY };

static bool is_relayed(void)
{
	return subscriber.started && vrb.wire && load_relaxed(&vrb.wire->relayed);
}

static void send(const struct group_mad *m)
{
	struct net_path path = relay_path(vrb.wire, wire_src_port(vrb.wire),
					  wire_dst_port(vrb.wire));
	uint8_t mad[CM_MAD_LEN];

	group_mad_encode(mad, m);
	vrb_gsi_send_by_wire(&path, mad);
}

/* Another holder gets it by chance, as there is no such slot. */
static void ask(void)
{
	send(&(struct group_mad){ .kind = GROUP_MAD_WHO, .slot = NET_RELAY_LAST });
	if (++subscriber.questions == QUESTIONS)
		log_once(LOG_CORE, LOG_WARN,
			 "multicast packets do not arrive while others hold UDP port %u: no "
			 "process of theirs answers, so it is stopped, or does not relay them",
			 vrb.wire->port);
}

static void subscribe(struct group_mad *m, unsigned int n)
{
	m->kind = GROUP_MAD_KEEP;
	m->slot = (unsigned int)subscriber.holder;
	m->n = min(n, (unsigned int)GROUP_MAD_MAX);
	send(m);
	if (n > m->n)
		log_once(LOG_CORE, LOG_WARN,
			 "the packets of %u multicast groups do not arrive while others hold UDP "
			 "port %u, as they relay those of %u groups to a process",
			 n - m->n, vrb.wire->port, m->n);
}

static void on_timer(struct object_timer *d, struct expiry *e)
{
	struct group_mad m;
	unsigned int n;

	if (!is_relayed()) {
		subscriber.holder = NOBODY;
		return;
	}
	n = vrb_mcast_list(m.group, GROUP_MAD_MAX);
	if (subscriber.holder != NOBODY && time_since(subscriber.heard, e->now) >= GROUP_MAD_LEASE)
		subscriber.holder = NOBODY;
	if (subscriber.holder != NOBODY)
		subscribe(&m, n);
	else if (n)
		ask();
	if (n) {
		vrb_timer_set(&subscriber.timer, time_after(e->now, subscriber.pause));
		subscriber.pause = min(2 * subscriber.pause, PAUSE_LAST);
	} else {
		subscriber.holder = NOBODY;
	}
}

void vrb_subscriber_changed(void)
{
	if (!is_relayed())
		return;
	subscriber.pause = PAUSE_FIRST;
	vrb_timer_set(&subscriber.timer, clock_now());
}

/* A holder that was stopped may still relay while another one does so by now. */
static void leave(unsigned int slot)
{
	send(&(struct group_mad){ .kind = GROUP_MAD_KEEP, .slot = slot });
}

void vrb_subscriber_answer(const struct group_mad *m, uint64_t now)
{
	if (!is_relayed())
		return;
	if (m->kind == GROUP_MAD_HERE && subscriber.holder == NOBODY) {
		subscriber.holder = (int)m->slot;
		vrb_subscriber_changed();
	}
	if (m->kind == GROUP_MAD_GONE) {
		if (subscriber.holder == (int)m->slot) {
			subscriber.holder = NOBODY;
			vrb_subscriber_changed();
		}
	} else if (subscriber.holder == (int)m->slot) {
		subscriber.heard = now;
		subscriber.questions = 0;
	} else if (m->kind == GROUP_MAD_KEPT) {
		leave(m->slot);
	}
	if (m->kind == GROUP_MAD_KEPT && m->n)
		log_once(LOG_CORE, LOG_WARN,
			 "the packets of %u multicast groups do not arrive while others hold UDP "
			 "port %u, as they relay too many already", m->n, vrb.wire->port);
}

int vrb_subscriber_start(void)
{
	int err = vrb_timer_add(&subscriber.timer, on_timer);

	subscriber.started = !err;
	return err;
}

void vrb_subscriber_stop(void)
{
	if (subscriber.started)
		vrb_timer_remove(&subscriber.timer);
	vrb_subscriber_forget();
}

void vrb_subscriber_forget(void)
{
	subscriber.started = false;
	subscriber.holder = NOBODY;
	subscriber.questions = 0;
	subscriber.timer = (struct object_timer){ 0 };
}
