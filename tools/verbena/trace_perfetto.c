/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbena trace perfetto: a timeline as Chrome's JSON, for ui.perfetto.dev and chrome://tracing.
 * Each process has a track per thread, QP, SRQ and CQ; a request is also a bar from its post to its
 * completion. Arrows lead from posts to completions and from packets that left to where they came.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <json-c/json.h>

#include "tool.h"
#include "trace.h"
#include "trace_tie.h"
#include "util/compiler.h"
#include "wq/note.h"

enum {
	SLICE_NS = 500,	/* of what has no duration: up to here, and to the next one on its track */
};

/* When and where a record was, for the arrows to it; by number. */
struct spot {
	uint64_t time;
	uint32_t track;
	uint16_t opcode;	/* of a send */
};

/* The last slice of a track, which ends where the next one begins. */
struct open_slice {
	struct json_object *event;
	uint64_t time;
	uint32_t number;	/* of its record */
};

struct timeline {
	struct trace *t;
	struct trace_ties ties;
	FILE *out;
	bool first;	/* event of the file */
	struct spot *spot;
	uint32_t n_spots, spot_room;
	struct open_slice *slice;	/* by track */
	uint32_t n_slices;
};

static void *need(void *p)
{
	if (!p)
		exit(complain(EXIT_FAILED, "out of memory"));
	return p;
}

/* ---------------------------------------------------------------- events */

static void add_text(struct json_object *o, const char *name, const char *text)
{
	json_object_object_add(o, name, json_object_new_string(text));
}

static void add(struct json_object *o, const char *name, uint64_t v)
{
	json_object_object_add(o, name, json_object_new_uint64(v));
}

/* Microseconds, to the nanosecond. */
static void add_time(struct json_object *o, const char *name, uint64_t ns)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64 ".%03u", ns / 1000, (unsigned int)(ns % 1000));
	json_object_object_add(o, name, json_object_new_double_s((double)ns / 1000, text));
}

/* Of a track; ids of processes and threads are ours, since hosts may have the same ones. */
static struct json_object *new_event(const struct timeline *l, const char *phase, const char *name,
				     const char *category, uint32_t track)
{
	struct json_object *o = need(json_object_new_object());

	add_text(o, "ph", phase);
	add_text(o, "name", name);
	add_text(o, "cat", category);
	add(o, "pid", l->ties.track[track].file + 1);
	add(o, "tid", track + 1);
	return o;
}

/* Writes and frees it. */
static void put(struct timeline *l, struct json_object *o)
{
	fprintf(l->out, "%s%s", l->first ? "" : ",\n",
		json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN));
	l->first = false;
	json_object_put(o);
}

static uint64_t since_begin(const struct timeline *l, uint64_t time)
{
	return time > l->t->begin ? time - l->t->begin : 0;
}

static void end_slice(struct timeline *l, uint32_t track, uint64_t now)
{
	struct open_slice *s = &l->slice[track];

	if (!s->event)
		return;
	add_time(s->event, "dur", min(now - s->time, (uint64_t)SLICE_NS));
	put(l, s->event);
	s->event = NULL;
}

static void begin_slice(struct timeline *l, uint32_t track, uint32_t number,
			struct json_object *o)
{
	uint64_t time = l->spot[number].time;

	while (track >= l->n_slices) {
		uint32_t n = l->n_slices ? 2 * l->n_slices : 64;

		l->slice = need(realloc(l->slice, n * sizeof(*l->slice)));
		memset(l->slice + l->n_slices, 0, (n - l->n_slices) * sizeof(*l->slice));
		l->n_slices = n;
	}
	end_slice(l, track, time);
	add_time(o, "ts", since_begin(l, time));
	l->slice[track] = (struct open_slice){ o, time, number };
}

static void put_arrow_end(struct timeline *l, const char *phase, const char *what, uint32_t id,
			  struct spot at)
{
	struct json_object *o = new_event(l, phase, what, what, at.track);

	add(o, "id", id);
	add_time(o, "ts", since_begin(l, at.time));
	if (phase[0] == 'f')
		add_text(o, "bp", "e");
	put(l, o);
}

static void put_arrow(struct timeline *l, const char *what, uint32_t id, struct spot from,
		      struct spot to)
{
	put_arrow_end(l, "s", what, id, from);
	put_arrow_end(l, "f", what, id, to);
}

/* A request's bar, "b" or "e". */
static void put_bar_end(struct timeline *l, const char *phase, uint32_t id, uint64_t time)
{
	const struct spot *post = &l->spot[id];
	struct json_object *o =
		new_event(l, phase, trace_wr_opcode(post->opcode), "request", post->track);

	add(o, "id", id);
	add_time(o, "ts", since_begin(l, time));
	put(l, o);
}

/* ---------------------------------------------------------------- records */

static void name_of(const struct record *r, char name[80])
{
	const struct record_verb *v = r->body;
	const struct record_object *o = r->body;
	const struct record_send *s = r->body;
	const struct record_completion *c = r->body;
	const struct record_event *e = r->body;
	const struct record_packet *p = r->body;
	const struct record_engine *g = r->body;
	const char *verb = r->type == RECORD_VERB ? record_verb_name(v->verb) : NULL;
	const struct record_type_info *info = record_type_info(r->type);

	snprintf(name, 80, "%s", info ? info->name : "?");
	if (r->type == RECORD_VERB)
		snprintf(name, 80, "ibv_%s%s", verb ? verb : "?", v->result ? " failed" : "");
	else if (r->type == RECORD_OBJECT)
		snprintf(name, 80, "%s 0x%x", trace_kind(o->kind), o->number);
	else if (r->type == RECORD_SEND)
		snprintf(name, 80, "post %s", trace_wr_opcode(s->opcode));
	else if (r->type == RECORD_RECV)
		snprintf(name, 80, "post RECV");
	else if (r->type == RECORD_COMPLETION)
		snprintf(name, 80, "%s", c->status ? ibv_wc_status_str(c->status) :
						     trace_wc_opcode(c->opcode));
	else if (r->type == RECORD_EVENT && e->event == RECORD_CQ_EVENT)
		snprintf(name, 80, "completion event");
	else if (r->type == RECORD_EVENT)
		snprintf(name, 80, "%s", ibv_event_type_str(e->event));
	else if (r->type == RECORD_PACKET && r->tail_len)
		snprintf(name, 80, "%s %s", p->way == RECORD_OUT ? "out" : "in",
			 trace_packet_opcode(*(const uint8_t *)r->tail));
	else if (r->type == RECORD_ENGINE)
		snprintf(name, 80, "%s", trace_note(g->what));
}

static struct json_object *slice_of(const struct timeline *l, const struct record *r,
				    const char *name, uint32_t track)
{
	const struct record_type_info *info = record_type_info(r->type);
	struct json_object *o = new_event(l, "X", name, info ? info->name : "?", track);
	struct json_object *args = need(json_object_new_object());
	char text[TRACE_TEXT];

	trace_text(l->t, r, text);
	trace_make_printable(text);
	add_text(args, "record", text);
	json_object_object_add(o, "args", args);
	return o;
}

/* Calls of a thread follow each other, and their length is known. */
static void put_verb(struct timeline *l, const struct record *r, struct json_object *o)
{
	uint64_t took = ((const struct record_verb *)r->body)->took, at = since_begin(l, r->time);

	add_time(o, "ts", at - min(took, at));
	add_time(o, "dur", min(took, at));
	put(l, o);
}

/* Between calls and on them; no slice, which would have to fit into the call's. */
static void put_instant(struct timeline *l, const struct record *r, struct json_object *o)
{
	add_text(o, "ph", "i");
	add_text(o, "s", "t");
	add_time(o, "ts", since_begin(l, r->time));
	put(l, o);
}

static void put_ties(struct timeline *l, const struct record *r, uint32_t n,
		     const struct trace_tie *tie)
{
	struct spot here = l->spot[n];

	if (r->type == RECORD_SEND) {
		l->spot[n].opcode = ((const struct record_send *)r->body)->opcode;
		put_bar_end(l, "b", n, r->time);
	} else if (r->type == RECORD_COMPLETION && tie->request != TRACE_NONE) {
		put_arrow(l, "completed", tie->request, l->spot[tie->request], here);
		if (!trace_is_receive(r->body))
			put_bar_end(l, "e", tie->request, r->time);
	} else if (r->type == RECORD_PACKET && tie->other != TRACE_NONE) {
		bool in = ((const struct record_packet *)r->body)->way != RECORD_OUT;
		uint32_t out = in ? tie->other : n;

		put_arrow(l, "sent", out, l->spot[out], l->spot[in ? n : tie->other]);
	}
}

/* An argument of the request's slice, while that is open. */
static void put_stack(struct timeline *l, const struct record *r, const struct trace_tie *tie)
{
	char text[TRACE_TEXT];
	struct json_object *args;

	if (tie->track >= l->n_slices || !l->slice[tie->track].event ||
	    l->slice[tie->track].number != tie->request)
		return;
	trace_text(l->t, r, text);
	trace_make_printable(text);
	if (json_object_object_get_ex(l->slice[tie->track].event, "args", &args))
		add_text(args, "stack", text);
}

static void put_record(struct timeline *l, const struct record *r)
{
	struct trace_tie tie;
	struct json_object *o;
	uint32_t n = l->n_spots;
	char name[80];

	if (n == l->spot_room) {
		l->spot_room = n ? 2 * n : 1024;
		l->spot = need(realloc(l->spot, l->spot_room * sizeof(*l->spot)));
	}
	trace_tie(&l->ties, r, n, &tie);
	l->spot[l->n_spots++] = (struct spot){ .time = r->time, .track = tie.track };
	if (r->type == RECORD_STACK)
		put_stack(l, r, &tie);
	if (r->type == RECORD_PATH || r->type == RECORD_DEVICE || r->type == RECORD_MODULE ||
	    r->type == RECORD_STACK)
		return;
	name_of(r, name);
	o = slice_of(l, r, name, tie.track);
	if (r->type == RECORD_VERB)
		put_verb(l, r, o);
	else if (!l->ties.track[tie.track].kind)
		put_instant(l, r, o);
	else
		begin_slice(l, tie.track, n, o);
	put_ties(l, r, n, &tie);
}

/* ---------------------------------------------------------------- the file */

static void put_name(struct timeline *l, uint32_t track, const char *of, const char *name)
{
	struct json_object *o = new_event(l, "M", of, "__metadata", track);
	struct json_object *args = need(json_object_new_object());

	add_text(args, "name", name);
	json_object_object_add(o, "args", args);
	put(l, o);
}

static void put_names(struct timeline *l)
{
	for (uint32_t i = 0; i < l->ties.n_tracks; i++) {
		const struct trace_track *k = &l->ties.track[i];
		char name[80];

		if (k->kind)
			snprintf(name, sizeof(name), "%s 0x%x", trace_kind(k->kind), k->number);
		else
			snprintf(name, sizeof(name), "thread %u", k->number);
		put_name(l, i, "process_name", l->t->label[k->file]);
		put_name(l, i, "thread_name", name);
	}
}

static int write_all(struct timeline *l)
{
	uint64_t last = 0;
	struct record r;
	int status = 0;

	fprintf(l->out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
	while (trace_next(l->t, &r, &status)) {
		put_record(l, &r);
		last = r.time;
	}
	for (uint32_t i = 0; i < l->n_slices; i++)
		end_slice(l, i, last + SLICE_NS);
	put_names(l);
	fprintf(l->out, "\n]}\n");
	return status;
}

static int convert(struct trace *t, FILE *out)
{
	struct timeline l = { .t = t, .out = out, .first = true, .ties.clocks = t->clocks };
	int status = write_all(&l);

	trace_ties_free(&l.ties);
	free(l.spot);
	free(l.slice);
	return status;
}

int trace_perfetto(int argc, char **argv)
{
	return trace_convert(argc, argv, convert);
}
