/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups and their members: a hash table under vrb.poll_lock. */
#include "core/rx/mcast.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/context.h"
#include "core/base/state.h"
#include "core/device/device.h"
#include "core/mad/group_mad.h"
#include "core/qp/qp.h"
#include "core/rx/subscriber.h"
#include "run/log.h"
#include "util/list.h"
#include "wire/wire.h"

enum {
	BUCKETS = 64,
};

struct group {
	struct list node;
	struct net_addr addr;
	uint32_t ifindex;
	unsigned int n_member;
	unsigned int held;	/* for others: vrb_mcast_hold() */
	struct list members;
};

struct member {
	struct list node;
	struct vrb_qp *qp;
};

static struct {
	struct list bucket[BUCKETS];
	unsigned int n_group, n_member;
} table;

static struct list *bucket_of(const struct net_addr *addr)
{
	struct list *b = &table.bucket[(addr->raw[15] ^ addr->raw[14]) % BUCKETS];

	if (!b->next)
		list_init(b);
	return b;
}

static struct group *find_group(const struct net_addr *addr, uint32_t ifindex)
{
	struct list *bucket = bucket_of(addr), *pos;

	list_for_each(pos, bucket) {
		struct group *g = list_entry(pos, struct group, node);

		if (g->ifindex == ifindex && net_addr_equal(&g->addr, addr))
			return g;
	}
	return NULL;
}

static struct member *find_member(struct group *g, const struct vrb_qp *qp)
{
	struct list *pos;

	list_for_each(pos, &g->members) {
		struct member *m = list_entry(pos, struct member, node);

		if (m->qp == qp)
			return m;
	}
	return NULL;
}

/* Without a wire, all peers are local and the interface need not join the group. */
static int open_group(const struct net_addr *addr, uint32_t ifindex, struct group **out)
{
	struct group *g;
	int err = 0;

	if (table.n_group >= (unsigned int)vrb_device_limits.orig_attr.max_mcast_grp)
		return ENOMEM;
	g = calloc(1, sizeof(*g));
	if (!g)
		return ENOMEM;
	if (vrb.wire)
		err = wire_join(vrb.wire, addr, ifindex);
	if (err) {
		free(g);
		return err;
	}
	g->addr = *addr;
	g->ifindex = ifindex;
	list_init(&g->members);
	list_add_tail(bucket_of(addr), &g->node);
	table.n_group++;
	*out = g;
	vrb_subscriber_changed();
	return 0;
}

static void close_if_empty(struct group *g)
{
	if (g->n_member || g->held)
		return;
	if (vrb.wire)
		wire_leave(vrb.wire, &g->addr, g->ifindex);
	list_del(&g->node);
	table.n_group--;
	free(g);
	vrb_subscriber_changed();
}

static int add_member(struct group *g, struct vrb_qp *qp)
{
	const struct ibv_device_attr *limits = &vrb_device_limits.orig_attr;
	struct member *m;

	if (g->n_member >= (unsigned int)limits->max_mcast_qp_attach ||
	    table.n_member >= (unsigned int)limits->max_total_mcast_qp_attach)
		return ENOMEM;
	m = calloc(1, sizeof(*m));
	if (!m)
		return ENOMEM;
	m->qp = qp;
	list_add_tail(&g->members, &m->node);
	g->n_member++;
	table.n_member++;
	qp->dispatch.groups++;
	return 0;
}

static uint32_t qp_ifindex(struct vrb_qp *qp)
{
	struct vrb_port *port = &qp->config.ctx->dev->port;
	uint32_t ifindex;

	lock_acquire(&port->lock);
	ifindex = port->ifindex;
	lock_release(&port->lock);
	return ifindex;
}

/* Must hold vrb.poll_lock. */
static int attach(struct vrb_qp *qp, const struct net_addr *addr, uint32_t ifindex)
{
	struct group *g = find_group(addr, ifindex);
	int err = 0;

	if (g && find_member(g, qp))
		return 0;
	if (!g)
		err = open_group(addr, ifindex, &g);
	if (err)
		return err;
	err = add_member(g, qp);
	close_if_empty(g);
	return err;
}

int vrb_mcast_attach(struct vrb_qp *qp, const struct net_addr *group)
{
	uint32_t ifindex = qp_ifindex(qp);
	int err;

	if (qp->wq.type != IBV_QPT_UD || !net_is_multicast(group))
		return EINVAL;
	lock_acquire(&vrb.poll_lock);
	err = attach(qp, group, ifindex);
	lock_release(&vrb.poll_lock);
	return err;
}

static void del_member(struct group *g, struct member *m)
{
	m->qp->dispatch.groups--;
	list_del(&m->node);
	free(m);
	g->n_member--;
	table.n_member--;
	close_if_empty(g);
}

/*
 * Ends the QP's memberships of a group, or of all groups if addr is NULL, in one bucket: whatever
 * their interface, because that may have been deleted and made again since. Returns false if there
 * was none. Must hold vrb.poll_lock.
 */
static bool leave(struct list *bucket, const struct net_addr *addr, const struct vrb_qp *qp)
{
	struct list *pos, *tmp;
	bool any = false;

	list_for_each_safe(pos, tmp, bucket) {
		struct group *g = list_entry(pos, struct group, node);
		struct member *m = NULL;

		if (!addr || net_addr_equal(&g->addr, addr))
			m = find_member(g, qp);
		if (m)
			del_member(g, m);
		any |= m != NULL;
	}
	return any;
}

int vrb_mcast_detach(struct vrb_qp *qp, const struct net_addr *group)
{
	bool any;

	lock_acquire(&vrb.poll_lock);
	any = leave(bucket_of(group), group, qp);
	lock_release(&vrb.poll_lock);
	return any ? 0 : EINVAL;
}

void vrb_mcast_leave_all(const struct vrb_qp *qp)
{
	for (unsigned int i = 0; i < BUCKETS && qp->dispatch.groups; i++)
		if (table.bucket[i].next)
			leave(&table.bucket[i], NULL, qp);
}

void vrb_mcast_for_each(const struct net_addr *group, uint32_t ifindex, vrb_mcast_fn fn, void *arg)
{
	struct list *bucket = bucket_of(group), *pos, *member;

	list_for_each(pos, bucket) {
		struct group *g = list_entry(pos, struct group, node);

		if (!net_addr_equal(&g->addr, group) || (ifindex && g->ifindex != ifindex))
			continue;
		list_for_each(member, &g->members)
			fn(list_entry(member, struct member, node)->qp, arg);
	}
}

int vrb_mcast_hold(const struct net_addr *addr, uint32_t ifindex)
{
	struct group *g = find_group(addr, ifindex);
	int err = g ? 0 : open_group(addr, ifindex, &g);

	if (!err)
		g->held++;
	return err;
}

void vrb_mcast_release(const struct net_addr *addr, uint32_t ifindex)
{
	struct group *g = find_group(addr, ifindex);

	g->held--;
	close_if_empty(g);
}

unsigned int vrb_mcast_list(struct group_place *to, unsigned int max)
{
	unsigned int n = 0;
	struct list *pos;

	for (unsigned int i = 0; table.n_group && i < BUCKETS; i++) {
		if (!table.bucket[i].next)
			continue;
		list_for_each(pos, &table.bucket[i]) {
			const struct group *g = list_entry(pos, struct group, node);

			if (g->n_member && n++ < max)
				to[n - 1] = (struct group_place){ g->addr, g->ifindex };
		}
	}
	return n;
}

void vrb_mcast_forget(void)
{
	memset(&table, 0, sizeof(table));
}

void vrb_mcast_join_again(void)
{
	struct list *pos;

	for (unsigned int i = 0; i < BUCKETS; i++) {
		if (!table.bucket[i].next)
			continue;
		list_for_each(pos, &table.bucket[i]) {
			const struct group *g = list_entry(pos, struct group, node);
			int err = wire_join(vrb.wire, &g->addr, g->ifindex);

			if (err)
				log_limited(LOG_CORE, LOG_WARN,
					    "cannot join a multicast group again: %s",
					    strerror(err));
		}
	}
}
