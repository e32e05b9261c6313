/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/rx/subscriptions.h"

#include "core/base/object_timer.h"
#include "core/base/state.h"
#include "core/mad/group_mad.h"
#include "core/mad/gsi.h"
#include "core/rx/mcast.h"
#include "core/rx/subscriber.h"
#include "host/host.h"
#include "run/log.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "wire/relay.h"
#include "wire/wire.h"

struct subscription {
	unsigned int number;	/* of the subscriber */
	struct group_place group;
	uint64_t until;
};

static struct {
	bool started;
	unsigned int n;
	struct subscription of[SUBSCRIPTIONS_MAX];
	struct object_timer timer;
} table;

static bool is_of(const struct subscription *s, const struct net_addr *addr, uint32_t ifindex)
{
	return s->group.ifindex == ifindex && net_addr_equal(&s->group.addr, addr);
}

static void end(struct subscription *s)
{
	struct group_place group = s->group;

	*s = table.of[--table.n];
	vrb_mcast_release(&group.addr, group.ifindex);
}

static void arm(void)
{
	uint64_t first = VRB_NEVER;

	for (unsigned int i = 0; i < table.n; i++)
		first = time_earlier(first, table.of[i].until);
	vrb_timer_set(&table.timer, first);
}

static void end_lapsed(uint64_t now)
{
	for (unsigned int i = table.n; i-- > 0;)
		if (time_reached(table.of[i].until, now))
			end(&table.of[i]);
}

static void on_timer(struct object_timer *d, struct expiry *e)
{
	end_lapsed(e->now);
	arm();
}

static bool keep(unsigned int number, const struct group_place *group, uint64_t now)
{
	struct subscription *s = table.of;

	while (s < table.of + table.n &&
	       !(s->number == number && is_of(s, &group->addr, group->ifindex)))
		s++;
	if (s == table.of + table.n) {
		if (table.n == SUBSCRIPTIONS_MAX || vrb_mcast_hold(&group->addr, group->ifindex))
			return false;
		*s = (struct subscription){ .number = number, .group = *group };
		table.n++;
	}
	s->until = time_after(now, GROUP_MAD_LEASE);
	return true;
}

static bool lists(const struct group_mad *m, const struct group_place *group)
{
	for (unsigned int i = 0; i < m->n; i++)
		if (m->group[i].ifindex == group->ifindex &&
		    net_addr_equal(&m->group[i].addr, &group->addr))
			return true;
	return false;
}

/* Returns how many find no room. */
static unsigned int keep_only(unsigned int number, const struct group_mad *m, uint64_t now)
{
	unsigned int n = 0;

	end_lapsed(now);
	for (unsigned int i = table.n; i-- > 0;)
		if (table.of[i].number == number && !lists(m, &table.of[i].group))
			end(&table.of[i]);
	for (unsigned int i = 0; i < m->n; i++)
		n += !keep(number, &m->group[i], now);
	arm();
	return n;
}

/* One in private mode holds the port alone. */
static unsigned int own_slot(void)
{
	return host_shared(vrb.host) ? (unsigned int)host_slot(vrb.host) : 0;
}

static void answer(unsigned int number, enum group_mad_kind kind, unsigned int n)
{
	struct net_path path = relay_path(vrb.wire, vrb.wire->port, relay_port(number));
	const struct group_mad m = { .kind = kind, .slot = own_slot(), .n = n };
	uint8_t mad[CM_MAD_LEN];

	group_mad_encode(mad, &m);
	vrb_gsi_relay(&path, mad, number);
}

static void take(unsigned int number, const struct group_mad *m, uint64_t now)
{
	unsigned int refused = keep_only(number, m, now);

	if (m->n)
		answer(number, GROUP_MAD_KEPT, refused);
}

static void request(const struct net_path *path, const struct group_mad *m, const uint8_t *mad,
		    bool handed, uint64_t now)
{
	unsigned int number = relay_number_of(path);

	if (!number || !table.started)
		return;
	if (m->kind == GROUP_MAD_WHO)
		answer(number, GROUP_MAD_HERE, 0);
	else if (m->slot == own_slot())
		take(number, m, now);
	else if (!handed)
		host_hand_mad(vrb.host, (int)m->slot, 0, path, mad);
}

static bool is_from_holder(const struct net_path *path)
{
	return path->src_port == vrb.wire->port && net_is_loopback(&path->src) &&
	       relay_is_at(&path->dst, path->dst_port);
}

bool vrb_subscriptions_mad(const struct net_path *path, const uint8_t *mad, uint32_t len,
			   bool handed, uint64_t now)
{
	struct group_mad m;

	if (!group_mad_decode(&m, mad, len))
		return false;
	if (!vrb.wire)
		return true;
	if (load_relaxed(&vrb.wire->relayed)) {
		if (m.kind != GROUP_MAD_WHO && m.kind != GROUP_MAD_KEEP && is_from_holder(path))
			vrb_subscriber_answer(&m, now);
	} else if (m.kind == GROUP_MAD_WHO || m.kind == GROUP_MAD_KEEP) {
		request(path, &m, mad, handed, now);
	}
	return true;
}

void vrb_subscriptions_relay(const struct net_path *path, const uint8_t *data, size_t len,
			     uint64_t now)
{
	for (unsigned int i = 0; i < table.n; i++) {
		const struct subscription *s = &table.of[i];

		if (is_of(s, &path->dst, path->ifindex) && !time_reached(s->until, now))
			relay_packet(vrb.wire, s->number, path, data, len, false);
	}
}

int vrb_subscriptions_start(void)
{
	int err = vrb_timer_add(&table.timer, on_timer);

	table.started = !err;
	return err;
}

void vrb_subscriptions_stop(void)
{
	if (table.started)
		vrb_timer_remove(&table.timer);
	lock_acquire(&vrb.poll_lock);
	for (table.started = false; table.n;) {
		answer(table.of->number, GROUP_MAD_GONE, 0);
		end(table.of);
	}
	lock_release(&vrb.poll_lock);
	vrb_subscriptions_forget();
}

void vrb_subscriptions_forget(void)
{
	table.started = false;
	table.n = 0;
	table.timer = (struct object_timer){ 0 };
}
