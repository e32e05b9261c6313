/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who has which place in the reuseport groups of a UDP port.
 */
#include "host/steer.h"

#include <string.h>

#include "host/state.h"
#include "util/compiler.h"

void host_publish_wire(struct host *h, uint16_t udp_port, const struct host_steer *steer)
{
	bool closed;

	if (!h->shared)
		return;
	lock_acquire(&h->lock);
	closed = h->self.udp_port && !udp_port;
	h->self.udp_port = udp_port;
	memcpy(h->self.steer, steer->at[0], sizeof(h->self.steer));
	for (unsigned int i = 1; i < HOST_SHARDS; i++)
		for (unsigned int family = 0; family < ARRAY_SIZE(h->self.steer); family++)
			h->self.shard[i - 1][family] = (uint16_t)(steer->at[i][family] + 1);
	table_write_slot(&h->table, h->slot, &h->self);
	table_advance_turn(&h->table);
	if (closed)
		table_note_departure(&h->table);
	lock_release(&h->lock);
}

bool host_steer_begin(struct host *h)
{
	return h->shared && table_steer_lock(&h->table);
}

void host_steer_end(struct host *h)
{
	table_steer_unlock(&h->table);
}

/* True if the process shares this one's port. */
static bool in_group(const struct host_peer *self, const struct host_peer *peer)
{
	return peer->netns == self->netns && peer->udp_port == self->udp_port;
}

/* The socket positions for blocks of that shard; false if not published. */
static bool read_position(const struct host_peer *peer, unsigned int shard, int32_t index[2])
{
	if (shard >= HOST_SHARDS)
		shard = 0;
	for (unsigned int family = 0; family < 2; family++) {
		index[family] = peer->steer.at[shard][family];
		if (index[family] < 0)
			index[family] = peer->steer.at[0][family];
	}
	return index[0] >= 0 || index[1] >= 0;
}

/* Iterates over all slots with few system calls. */
static const struct table_slot *next_steered(struct host *h, int slot)
{
	if (slot % TABLE_MAP_SLOTS == 0)
		table_read_slots(&h->table, slot, TABLE_MAP_SLOTS, h->scan.slot);
	return &h->scan.slot[slot % TABLE_MAP_SLOTS];
}

bool host_holds_port(struct host *h, uint16_t udp_port)
{
	struct host_peer self, peer;
	bool found = false;

	if (!h->shared || !host_peer(h, h->slot, &self))
		return false;
	self.udp_port = udp_port;
	for (int slot = 0; slot < HOST_SLOTS && !found; slot++)
		found = slot_peer(next_steered(h, slot), &peer) && in_group(&self, &peer) &&
			slot != h->slot && host_alive(h, slot, peer.incarnation);
	return found;
}

/* The last known positions. */
static struct net_steer find_last(struct host *h, const struct host_peer *self)
{
	struct net_steer last = { 0, { -1, -1 } };
	struct host_peer peer;

	for (int slot = 0; slot < HOST_SLOTS; slot++) {
		if (!slot_peer(next_steered(h, slot), &peer) || !in_group(self, &peer))
			continue;
		for (unsigned int i = 0; i < HOST_SHARDS; i++)
			for (unsigned int family = 0; family < 2; family++)
				last.index[family] =
					max(last.index[family], peer.steer.at[i][family]);
	}
	return last;
}

/* Which slot has the last position behind m->to? HOST_NO_SLOT: none is. */
static int find_mover(struct host *h, struct host_move *m)
{
	struct host_peer self, peer;
	int mover = HOST_NO_SLOT;

	m->from = m->to;
	if (m->to < 0 || !host_peer(h, h->slot, &self))
		return mover;
	for (int slot = 0; slot < HOST_SLOTS; slot++) {
		if (!slot_peer(next_steered(h, slot), &peer) || !in_group(&self, &peer))
			continue;
		for (unsigned int i = 0; i < HOST_SHARDS; i++) {
			if (peer.steer.at[i][m->family] <= m->from)
				continue;
			m->from = peer.steer.at[i][m->family];
			mover = slot;
		}
	}
	return mover;
}

static void move(struct table_slot *s, const struct host_move *m)
{
	if (s->steer[m->family] == m->from)
		s->steer[m->family] = m->to;
	for (unsigned int i = 0; i < ARRAY_SIZE(s->shard); i++)
		if (s->shard[i][m->family] == m->from + 1)
			s->shard[i][m->family] = (uint16_t)(m->to + 1);
}

int host_steer_closes(struct host *h, struct host_move *m)
{
	int slot = h->shared ? find_mover(h, m) : HOST_NO_SLOT;
	struct table_slot s;

	if (slot == HOST_NO_SLOT)
		return slot;
	lock_acquire(&h->lock);
	if (slot == h->slot) {
		move(&h->self, m);
		table_write_steer(&h->table, slot, &h->self);
	} else {
		table_read_slot(&h->table, slot, &s);
		move(&s, m);
		table_write_steer(&h->table, slot, &s);
	}
	table_advance_turn(&h->table);
	lock_release(&h->lock);
	return slot;
}

/* Adjacent blocks usually have the same owner. */
size_t host_steer_map(struct host *h, struct net_steer *map, size_t cap)
{
	struct table_owner *owner = h->scan.owner;
	struct host_peer self, peer;
	uint16_t looked_at = 0;
	bool ours = false;
	size_t n = 0;

	if (!h->shared || !host_peer(h, h->slot, &self) || !self.udp_port || !cap)
		return 0;
	map[n++] = find_last(h, &self);
	for (uint32_t first = 0; first < HOST_BLOCKS; first += TABLE_MAP_CHUNK) {
		table_read_owners(&h->table, first, TABLE_MAP_CHUNK, owner);
		for (uint32_t i = 0; i < TABLE_MAP_CHUNK && n < cap; i++) {
			if (!owner[i].slot_plus_1)
				continue;
			if (owner[i].slot_plus_1 != looked_at)
				ours = host_peer(h, owner[i].slot_plus_1 - 1, &peer) &&
				       in_group(&self, &peer);
			looked_at = owner[i].slot_plus_1;
			if (ours && read_position(&peer, owner[i].shard, map[n].index))
				map[n++].number = (uint16_t)(first + i);
		}
	}
	return n;
}

size_t host_steer_slots(struct host *h, struct net_steer *map, size_t cap)
{
	struct host_peer self, peer;
	size_t n = 0;

	if (!h->shared || !host_peer(h, h->slot, &self) || !self.udp_port)
		return 0;
	for (int slot = 0; slot < HOST_SLOTS && n < cap; slot++) {
		const struct table_slot *s = next_steered(h, slot);

		if (!slot_peer(s, &peer) || !in_group(&self, &peer) ||
		    !read_position(&peer, 0, map[n].index))
			continue;
		map[n].listens = s->flags & TABLE_LISTENER;
		map[n++].number = (uint16_t)slot;
	}
	return n;
}
