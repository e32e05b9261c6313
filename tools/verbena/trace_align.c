/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One time for recordings of several hosts, by record/align.h. A packet, known by its addresses, QP
 * number, opcode and PSN, came first after it had first left: so much is certain of one that was
 * sent again, too. The common clock is that of the first file.
 *
 * Clocks that run at different rates contradict themselves in the long run. Then the beginning sets
 * them roughly, and each WINDOW by its own packets.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "record/align.h"
#include "tool.h"
#include "trace.h"
#include "trace_tie.h"
#include "util/compiler.h"

#define WINDOW 100000000ull /* ns: as long as all clocks are taken to run alike */

struct flight {
	uint64_t sent, received;	/* for the first time */
	uint64_t about;		/* when it left, on the common clock, roughly */
	uint32_t from, to;	/* clocks */
	bool left, came;
};

struct lead_list {
	struct record_lead *lead;
	size_t n;
};

struct flights {
	struct trace_ties ties;	/* for paths */
	struct trace_map by_key;
	struct flight *flight;
	uint32_t n, room;
	uint32_t *clock;	/* of each file */
	size_t *file;		/* the first of each clock */
	size_t clocks;
};

static bool same_clock(const struct record_origin *a, const struct record_origin *b)
{
	return !memcmp(a->boot_id, b->boot_id, sizeof(a->boot_id)) && a->time_ns == b->time_ns;
}

static const struct record_origin *origin(const struct trace *t, size_t file)
{
	return &record_reader_file(t->reader, file)->origin;
}

static void find_clocks(const struct trace *t, struct flights *f)
{
	for (size_t i = 0; i < t->files; i++) {
		size_t c = 0;

		while (c < f->clocks && !same_clock(origin(t, f->file[c]), origin(t, i)))
			c++;
		f->clock[i] = (uint32_t)c;
		if (c == f->clocks)
			f->file[f->clocks++] = i;
	}
}

static bool count_packet(struct flights *f, const struct record *r)
{
	bool out = ((const struct record_packet *)r->body)->way == RECORD_OUT;
	struct trace_key key;
	struct flight *x;
	uint32_t i;

	if (!trace_packet_key(&f->ties, r, 0, &key))
		return true;
	i = trace_map_get(&f->by_key, key);
	if (i == TRACE_NONE) {
		if (f->n == f->room) {
			f->room = f->room ? 2 * f->room : 1024;
			x = realloc(f->flight, f->room * sizeof(*x));
			if (!x)
				return false;
			f->flight = x;
		}
		i = f->n++;
		f->flight[i] = (struct flight){ 0 };
		trace_map_put(&f->by_key, key, i);
	}
	x = &f->flight[i];
	if (out && !x->left) {
		x->left = true;
		x->sent = r->time;
		x->from = f->clock[r->file];
	} else if (!out && !x->came) {
		x->came = true;
		x->received = r->time;
		x->to = f->clock[r->file];
	}
	return true;
}

/* Each on its own clock still. */
static int read_flights(struct trace *t, struct flights *f)
{
	int err = record_reader_start(t->reader, NULL);
	struct record r;

	while (!err && !(err = record_reader_next(t->reader, &r))) {
		trace_remember(&f->ties, &r);
		if (r.type == RECORD_PACKET && !count_packet(f, &r))
			err = ENOMEM;
	}
	return err == ENODATA ? 0 : err;
}

static bool counts(const struct flight *x)
{
	return x->left && x->came && x->from != x->to;
}

/* By packets from `first` on, before `end`. */
static void take_bounds(const struct flights *f, uint32_t first, uint32_t end, int64_t *most)
{
	align_init(most, f->clocks);
	for (uint32_t i = first; i < end; i++) {
		const struct flight *x = &f->flight[i];

		/* A packet takes time: it comes after it left, by a nanosecond at least. */
		if (counts(x))
			align_message(most, f->clocks, x->from, x->to, x->sent + 1, x->received);
	}
}

/* The clocks that no packet ties to the first one's go by the time of day. */
static bool add_wall(const struct trace *t, const struct flights *f, int64_t *most,
		     struct align *out)
{
	const struct record_origin *a = origin(t, f->file[0]);

	for (size_t i = 1; i < f->clocks; i++) {
		const struct record_origin *b = origin(t, f->file[i]);
		uint64_t ahead = (b->started - b->wall) - (a->started - a->wall);

		if (out[i].most != ALIGN_NONE || out[i].least != INT64_MIN)
			continue;
		align_message(most, f->clocks, 0, i, 0, ahead);
		align_message(most, f->clocks, i, 0, ahead, 0);
		if (!align_solve(most, f->clocks, out))
			return false;
	}
	return true;
}

/* As many packets of the beginning as agree. *all: they were all. */
static bool solve(const struct trace *t, const struct flights *f, int64_t *most, struct align *out,
		  bool *all)
{
	for (uint32_t end = f->n;; end /= 2) {
		take_bounds(f, 0, end, most);
		*all = end == f->n;
		if (align_solve(most, f->clocks, out))
			return add_wall(t, f, most, out);
		if (!end)
			return false;
	}
}

/* ---------------------------------------------------------------- clocks that run apart */

static int by_time(const void *a, const void *b)
{
	const struct flight *x = a, *y = b;

	return x->about < y->about ? -1 : x->about > y->about;
}

/* In the order in which they left, roughly. */
static void sort_flights(struct flights *f, const struct align *rough)
{
	for (uint32_t i = 0; i < f->n; i++) {
		struct flight *x = &f->flight[i];

		x->about = x->left ? x->sent - (uint64_t)rough[x->from].ahead :
				     x->received - (uint64_t)rough[x->to].ahead;
	}
	qsort(f->flight, f->n, sizeof(*f->flight), by_time);
}

/* What a window says of a clock; not where it would let time run backwards. */
static void add_lead(struct lead_list *l, uint64_t about, const struct align *a)
{
	struct record_lead new = { about + (uint64_t)a->ahead, a->ahead };
	const struct record_lead *last = l->n ? &l->lead[l->n - 1] : NULL;
	__int128 grown = last ? (__int128)new.ahead - last->ahead : 0;

	if (a->least == INT64_MIN || a->most == ALIGN_NONE)
		return;
	if (last && (new.time <= last->time ||
		     (grown < 0 ? -grown : grown) >= (new.time - last->time) / 2))
		return;
	l->lead[l->n++] = new;
}

/* For each WINDOW, the leads of the clocks that its packets bound on both sides. */
static void find_leads(const struct flights *f, int64_t *most, struct align *out,
		       struct lead_list *list)
{
	uint32_t end;

	for (uint32_t first = 0; first < f->n; first = end) {
		uint64_t about = f->flight[first].about;

		for (end = first; end < f->n && f->flight[end].about - about < WINDOW; end++)
			;
		take_bounds(f, first, end, most);
		if (!align_solve(most, f->clocks, out))
			continue;
		for (size_t c = 1; c < f->clocks; c++)
			add_lead(&list[c], about + WINDOW / 2, &out[c]);
	}
}

/* How many windows there can be. */
static size_t count_windows(const struct flights *f)
{
	uint64_t span = f->n ? f->flight[f->n - 1].about - f->flight[0].about : 0;

	return (size_t)min(span / WINDOW + 1, (uint64_t)f->n + 1);
}

static int bend(struct trace *t, struct flights *f, int64_t *most, struct align *out)
{
	struct lead_list *list = calloc(f->clocks, sizeof(*list));
	size_t windows;
	bool bent = false;

	sort_flights(f, out);
	windows = count_windows(f);
	t->lead = calloc(t->files, sizeof(*t->lead));
	for (size_t c = 1; list && t->lead && c < f->clocks; c++)
		list[c].lead = t->lead[f->file[c]] = calloc(windows, sizeof(**t->lead));
	for (size_t c = 1; c < f->clocks; c++)
		if (!list || !list[c].lead) {
			free(list);
			return ENOMEM;
		}
	find_leads(f, most, out, list);
	for (size_t i = 0; i < t->files; i++) {
		const struct lead_list *l = &list[f->clock[i]];

		if (l->n < 2)
			continue;
		record_reader_set_clock(t->reader, i, l->lead, l->n);
		t->ahead[i] = l->lead[0].ahead;
		bent = true;
	}
	if (!bent)
		complain(0, "clocks of hosts run apart: they are set by the beginning");
	free(list);
	return 0;
}

static int set_clocks(struct trace *t, struct flights *f)
{
	int64_t *most = calloc(f->clocks * f->clocks, sizeof(*most));
	struct align *out = calloc(f->clocks, sizeof(*out));
	int err = !most || !out ? ENOMEM : read_flights(t, f);
	bool all;

	if (!err && solve(t, f, most, out, &all)) {
		for (size_t i = 0; i < t->files; i++)
			t->ahead[i] = out[f->clock[i]].ahead;
		if (!all)
			err = bend(t, f, most, out);
	}
	free(most);
	free(out);
	return err;
}

int trace_align(struct trace *t)
{
	struct flights f = { .clock = calloc(t->files, sizeof(*f.clock)),
			     .file = calloc(t->files, sizeof(*f.file)) };
	int err = ENOMEM;

	t->ahead = calloc(t->files, sizeof(*t->ahead));
	if (f.clock && f.file && t->ahead) {
		find_clocks(t, &f);
		t->clocks = f.clocks > 1;
		err = t->clocks ? set_clocks(t, &f) : 0;
	}
	trace_ties_free(&f.ties);
	trace_map_free(&f.by_key);
	free(f.flight);
	free(f.clock);
	free(f.file);
	return err ? complain(EXIT_FAILED, "%s", strerror(err)) : 0;
}
