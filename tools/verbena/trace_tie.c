/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace_tie.h"

#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "tool.h"
#include "util/compiler.h"
#include "util/hash.h"

static struct trace_key key_of(size_t file, unsigned int kind, uint32_t number, uint32_t index)
{
	return (struct trace_key){ (uint64_t)file << 16 | kind, (uint64_t)number << 32 | index };
}

/* Room for one more element. */
static void *grown(void *p, uint32_t n, uint32_t *room, size_t size)
{
	if (n < *room)
		return p;
	*room = *room ? 2 * *room : 64;
	p = realloc(p, *room * size);
	if (!p)
		exit(complain(EXIT_FAILED, "out of memory"));
	return p;
}

uint32_t trace_track(struct trace_ties *t, size_t file, unsigned int kind, uint32_t number)
{
	struct trace_key key = key_of(file, kind, number, 0);
	uint32_t i = trace_map_get(&t->by_name, key);

	if (i != TRACE_NONE)
		return i;
	t->track = grown(t->track, t->n_tracks, &t->room, sizeof(*t->track));
	t->track[t->n_tracks] = (struct trace_track){ file, number, (uint16_t)kind };
	trace_map_put(&t->by_name, key, t->n_tracks);
	return t->n_tracks++;
}

/* One of the same id takes the place of the last one. */
static void remember_path(struct trace_ties *t, const struct record *r)
{
	const struct record_path *p = r->body;
	struct trace_key key = key_of(r->file, 0, p->id, 0);
	uint32_t i = trace_map_get(&t->paths, key), room = t->path_room;

	if (i == TRACE_NONE) {
		t->path = grown(t->path, t->n_paths, &t->path_room, sizeof(*t->path));
		t->device = grown(t->device, t->n_paths, &room, sizeof(*t->device));
		i = t->n_paths++;
		trace_map_put(&t->paths, key, i);
	}
	t->path[i] = *p;
	t->device[i] = (struct trace_device){ 0 };
}

static void remember_device(struct trace_ties *t, const struct record *r)
{
	const struct record_device *d = r->body;
	uint32_t i = trace_map_get(&t->paths, key_of(r->file, 0, d->path, 0));

	if (i == TRACE_NONE)
		return;
	t->device[i].guid = d->guid;
	snprintf(t->device[i].name, sizeof(t->device[i].name), "%.*s",
		 (int)min(r->tail_len, sizeof(t->device[i].name) - 1), (const char *)r->tail);
	trace_make_printable(t->device[i].name);
}

void trace_remember(struct trace_ties *t, const struct record *r)
{
	if (r->type == RECORD_PATH)
		remember_path(t, r);
	else if (r->type == RECORD_DEVICE)
		remember_device(t, r);
}

static uint32_t path_of(const struct trace_ties *t, const struct record *r)
{
	const struct record_packet *p = r->body;

	return trace_map_get(&t->paths, key_of(r->file, 0, p->path, 0));
}

const struct record_path *trace_path(const struct trace_ties *t, const struct record *r)
{
	uint32_t i = path_of(t, r);

	return i == TRACE_NONE ? NULL : &t->path[i];
}

const struct trace_device *trace_device(const struct trace_ties *t, const struct record *r)
{
	uint32_t i = path_of(t, r);

	return i == TRACE_NONE ? NULL : &t->device[i];
}

bool trace_packet_key(const struct trace_ties *t, const struct record *r, unsigned int way,
		      struct trace_key *key)
{
	const struct record_packet *p = r->body;
	const struct record_path *path = trace_path(t, r);
	const uint8_t *bth = r->tail;

	if (r->tail_len < TRACE_BTH || !path)
		return false;
	key->a = hash_bytes(HASH_START, path->src, sizeof(path->src));
	key->a = hash_bytes(key->a, path->dst, sizeof(path->dst)) ^ p->transport;
	key->b = (uint64_t)bth[0] << 56 | (uint64_t)trace_bth_qpn(bth) << 32 |
		 trace_bth_psn(bth) << 8 | way;
	return true;
}

/* A packet that left twice and came once: the one that left last came. */
static void tie_packet(struct trace_ties *t, const struct record *r, uint32_t n,
		       struct trace_tie *tie)
{
	const struct record_packet *p = r->body;
	unsigned int way = p->way == RECORD_OUT ? RECORD_OUT : RECORD_IN;
	struct trace_key key;

	if (p->kind)
		tie->request = trace_map_get(&t->posts, key_of(r->file, p->kind, p->qpn, p->index));
	if (way == RECORD_IN || t->clocks) {
		if (!trace_packet_key(t, r, !way, &key))
			return;
		tie->other = trace_map_take(&t->packets, key);
	}
	if (tie->other == TRACE_NONE && (way == RECORD_OUT || t->clocks) &&
	    trace_packet_key(t, r, way, &key))
		trace_map_put(&t->packets, key, n);
}

/* Requests of send queues and of receive queues are numbered alike. */
static struct trace_key key_of_recv(size_t file, unsigned int kind, uint32_t number, uint32_t index)
{
	struct trace_key key = key_of(file, kind, number, index);

	key.a ^= 1ull << 63;
	return key;
}

static void tie_completion(struct trace_ties *t, const struct record *r, struct trace_tie *tie)
{
	const struct record_completion *c = r->body;

	tie->track = trace_track(t, r->file, RECORD_CQ, c->cqn);
	if (trace_is_receive(c))
		tie->request = trace_map_take(&t->posts, key_of_recv(r->file, c->kind, c->number,
								     c->index));
	else
		tie->request = trace_map_take(&t->posts, key_of(r->file, c->kind, c->number,
								c->index));
}

/* A thread's last post, and its track: of its next stack. */
static void tie_last(struct trace_ties *t, const struct record *r, uint32_t n, uint32_t track)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct trace_key key = key_of(r->file, i, r->tid, 0);

		trace_map_take(&t->last_posts, key);
		trace_map_put(&t->last_posts, key, i ? track : n);
	}
}

static void tie_stack(struct trace_ties *t, const struct record *r, struct trace_tie *tie)
{
	tie->request = trace_map_take(&t->last_posts, key_of(r->file, 0, r->tid, 0));
	if (tie->request != TRACE_NONE)
		tie->track = trace_map_take(&t->last_posts, key_of(r->file, 1, r->tid, 0));
}

void trace_tie(struct trace_ties *t, const struct record *r, uint32_t n, struct trace_tie *tie)
{
	const struct record_send *s = r->body;
	const struct record_recv *v = r->body;
	const struct record_event *e = r->body;
	uint32_t qpn = 0;

	*tie = (struct trace_tie){ TRACE_NONE, TRACE_NONE, TRACE_NONE };
	trace_remember(t, r);
	switch (r->type) {
	case RECORD_SEND:
		qpn = s->qpn;
		tie->track = trace_track(t, r->file, RECORD_QP, qpn);
		tie_last(t, r, n, tie->track);
		trace_map_put(&t->posts, key_of(r->file, RECORD_QP, qpn, s->index), n);
		break;
	case RECORD_RECV:
		tie->track = trace_track(t, r->file, v->kind, v->number);
		tie_last(t, r, n, tie->track);
		trace_map_put(&t->posts, key_of_recv(r->file, v->kind, v->number, v->index), n);
		return;
	case RECORD_COMPLETION:
		tie_completion(t, r, tie);
		return;
	case RECORD_PACKET:
		qpn = trace_qpn(r);
		tie_packet(t, r, n, tie);
		break;
	case RECORD_STACK:
		tie_stack(t, r, tie);
		break;
	case RECORD_EVENT:
		if (e->kind == RECORD_CQ)
			tie->track = trace_track(t, r->file, RECORD_CQ, e->number);
		else if (e->kind == RECORD_QP)
			qpn = e->number;
		break;
	case RECORD_ENGINE:
	case RECORD_FAULT:
		qpn = trace_qpn(r);
		break;
	}
	if (tie->track == TRACE_NONE)
		tie->track = qpn ? trace_track(t, r->file, RECORD_QP, qpn) :
				   trace_track(t, r->file, 0, r->tid);
}

void trace_ties_free(struct trace_ties *t)
{
	trace_map_free(&t->posts);
	trace_map_free(&t->packets);
	trace_map_free(&t->paths);
	trace_map_free(&t->by_name);
	trace_map_free(&t->last_posts);
	free(t->track);
	free(t->path);
	free(t->device);
}
