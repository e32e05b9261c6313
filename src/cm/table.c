/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lookup of connections by id, peer and QP number, and the requests that wait, by the hash of their
 * source; parts.h has the interface.
 */
#include "cm/parts.h"
#include "util/compiler.h"
#include "util/hash.h"

uint64_t cm_table_mix(const struct cm *cm, uint64_t a, uint64_t b)
{
	return hash_mix(hash_mix(cm->seed ^ a) + b);
}

static uint64_t mix_address(const struct cm *cm, const struct net_addr *a)
{
	uint64_t half[2];

	memcpy(half, a->raw, sizeof(half));
	return cm_table_mix(cm, half[0], half[1]);
}

static struct cm_link **bucket_of_peer(const struct cm *cm, struct cm_link *const *table,
				       const struct net_addr *peer, uint64_t guid, uint32_t number)
{
	uint64_t hash = cm_table_mix(cm, mix_address(cm, peer) ^ guid, number);

	return (struct cm_link **)&table[hash % CM_BUCKETS];
}

static struct cm_link **bucket_of_local(const struct cm *cm, uint32_t local_id)
{
	return (struct cm_link **)&cm->by_local[cm_table_mix(cm, local_id, 0) % CM_BUCKETS];
}

static void chain(struct cm_link **at, struct cm_link *l)
{
	l->at = at;
	l->next = *at;
	if (l->next)
		l->next->at = &l->next;
	*at = l;
}

static void unchain(struct cm_link *l)
{
	if (!l->at)
		return;
	*l->at = l->next;
	if (l->next)
		l->next->at = l->at;
	*l = (struct cm_link){ NULL, NULL };
}

void cm_table_add_local(struct cm *cm, struct cm_conn *c)
{
	if (!c->by_local.at)
		chain(bucket_of_local(cm, c->local_id), &c->by_local);
}

void cm_table_add_remote(struct cm *cm, struct cm_conn *c)
{
	unchain(&c->by_remote);
	chain(bucket_of_peer(cm, cm->by_remote, &c->path.dst, c->peer_guid, c->remote_id),
	      &c->by_remote);
}

void cm_table_add_qpn(struct cm *cm, struct cm_conn *c)
{
	unchain(&c->by_qpn);
	if (c->peer_qpn)
		chain(bucket_of_peer(cm, cm->by_qpn, &c->path.dst, c->peer_guid, c->peer_qpn),
		      &c->by_qpn);
}

void cm_table_del_qpn(struct cm_conn *c)
{
	unchain(&c->by_qpn);
}

void cm_table_del(struct cm_conn *c)
{
	unchain(&c->by_local);
	unchain(&c->by_remote);
	unchain(&c->by_qpn);
}

struct cm_conn *cm_table_find_local(struct cm *cm, uint32_t local_id)
{
	for (struct cm_link *l = *bucket_of_local(cm, local_id); l; l = l->next) {
		struct cm_conn *c = container_of(l, struct cm_conn, by_local);

		if (c->local_id == local_id)
			return c;
	}
	return NULL;
}

static bool is_peer(const struct cm_conn *c, const struct net_addr *peer, uint64_t guid)
{
	return c->peer_guid == guid && net_addr_equal(&c->path.dst, peer);
}

struct cm_conn *cm_table_find_remote(struct cm *cm, const struct net_addr *peer, uint64_t guid,
				     uint32_t remote_id)
{
	for (struct cm_link *l = *bucket_of_peer(cm, cm->by_remote, peer, guid, remote_id); l;
	     l = l->next) {
		struct cm_conn *c = container_of(l, struct cm_conn, by_remote);

		if (c->remote_id == remote_id && is_peer(c, peer, guid))
			return c;
	}
	return NULL;
}

struct cm_conn *cm_table_find_qpn(struct cm *cm, const struct net_addr *peer, uint64_t guid,
				  uint32_t qpn)
{
	for (struct cm_link *l = *bucket_of_peer(cm, cm->by_qpn, peer, guid, qpn); l; l = l->next) {
		struct cm_conn *c = container_of(l, struct cm_conn, by_qpn);

		if (c->peer_qpn == qpn && is_peer(c, peer, guid))
			return c;
	}
	return NULL;
}

static unsigned int source_of(const struct cm *cm, const struct net_addr *peer)
{
	return mix_address(cm, peer) % CM_SOURCES;
}

void cm_table_wait(struct cm *cm, struct cm_conn *c)
{
	c->source = source_of(cm, &c->path.dst);
	list_add_tail(&cm->half_open, &c->half_open);
	list_add_tail(&cm->source[c->source].conns, &c->of_source);
	cm->num_half_open++;
	cm->source[c->source].n++;
}

void cm_table_wait_over(struct cm *cm, struct cm_conn *c)
{
	if (list_empty(&c->half_open))
		return;
	list_del(&c->half_open);
	list_del(&c->of_source);
	cm->num_half_open--;
	cm->source[c->source].n--;
}

struct cm_conn *cm_table_one_too_many(struct cm *cm, const struct net_addr *peer)
{
	unsigned int source = source_of(cm, peer);

	if (cm->source[source].n >= cm->max_per_source)
		return list_entry(cm->source[source].conns.next, struct cm_conn, of_source);
	if (cm->num_half_open >= cm->max_half_open)
		return list_entry(cm->half_open.next, struct cm_conn, half_open);
	return NULL;
}

int cm_table_heaviest(const struct cm *cm, const struct net_addr *peer)
{
	unsigned int n = cm->source[source_of(cm, peer)].n + 1, heaviest = 0;

	for (unsigned int i = 1; i < CM_SOURCES; i++)
		if (cm->source[i].n > cm->source[heaviest].n)
			heaviest = i;
	return cm->source[heaviest].n > 2 * n ? (int)heaviest : -1;
}
