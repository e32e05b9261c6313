/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbena trace html: a sequence diagram in one file. trace.html, which the build embeds, draws
 * what this writes into it: a row for each record, and tables of names. The row of a record is an
 * array of its type, time and track, and what trace.html says of its type; 0: it is not drawn.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "tool.h"
#include "trace.h"
#include "trace_page.h"
#include "trace_tie.h"
#include "util/compiler.h"
#include "wq/note.h"

enum {
	WR_OPCODES = 16,
	STATUSES = IBV_WC_TM_RNDV_INCOMPLETE + 1,
	PACKET_OPCODES = 256,
};

struct page {
	struct trace *t;
	struct trace_ties ties;
	FILE *out;
	uint64_t *last;	/* of each process: when something was recorded */
};

/* A string of JSON that ends no script. The text may be anything. */
static void put_string(const struct page *p, const char *text)
{
	fputc('"', p->out);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<')
			fprintf(p->out, "\\u%04x", c >= 0x7f ? '?' : c);
		else
			fputc(c, p->out);
	}
	fputc('"', p->out);
}

static void begin_row(const struct page *p, const struct record *r, uint32_t track)
{
	uint64_t time = r->time > p->t->begin ? r->time - p->t->begin : 0;

	fprintf(p->out, "[%u,%" PRIu64 ",%u", r->type, time, track);
}

/* -1: none */
static int64_t number(uint32_t n)
{
	return n == TRACE_NONE ? -1 : (int64_t)n;
}

static void put_text(const struct page *p, const struct record *r)
{
	char text[TRACE_TEXT];

	trace_text(p->t, r, text);
	fputc(',', p->out);
	put_string(p, text);
}

static void put_completion(struct page *p, const struct record *r, const struct trace_tie *tie)
{
	const struct record_completion *c = r->body;
	uint32_t track = c->qpn ? trace_track(&p->ties, r->file, RECORD_QP, c->qpn) :
				  trace_track(&p->ties, r->file, c->kind, c->number);

	begin_row(p, r, track);
	fprintf(p->out, ",%" PRId64 ",%u,\"0x%" PRIx64 "\",%u]", number(tie->request), c->status,
		c->wr_id, c->status ? 0 : c->length);
}

static void put_packet(const struct page *p, const struct record *r, const struct trace_tie *tie)
{
	const struct record_packet *k = r->body;
	const uint8_t *bth = r->tail;

	begin_row(p, r, tie->track);
	fprintf(p->out, ",%u,%u,%u,%u,%u,%" PRId64 ",%" PRId64 ",0,%u", k->way, bth[0],
		trace_bth_psn(bth), trace_bth_qpn(bth), k->length, number(tie->request),
		number(tie->other), k->transport == RECORD_WIRE);
	if (r->tail_len > TRACE_BTH)	/* the syndrome of an ACK */
		fprintf(p->out, ",%u", bth[TRACE_BTH]);
	fputc(']', p->out);
}

static void put_fault(const struct page *p, const struct record *r, uint32_t track)
{
	const struct record_fault *f = r->body;

	begin_row(p, r, track);
	put_text(p, r);
	fprintf(p->out, ",%u,%u,%u,%u,%u]", f->what, f->direction, f->opcode, f->psn, f->kind);
}

/* A type of which the page shows the text only; false: it does not show this one. */
static bool put_other(struct page *p, const struct record *r, uint32_t track)
{
	const struct record_object *o = r->body;
	const struct record_event *e = r->body;

	if (r->type == RECORD_VERB && !trace_is_error(r))
		return false;
	if (r->type == RECORD_OBJECT && o->kind != RECORD_QP)
		return false;
	if (r->type == RECORD_EVENT && e->event == RECORD_CQ_EVENT)
		return false;
	if (r->type == RECORD_OBJECT)
		track = trace_track(&p->ties, r->file, RECORD_QP, o->number);
	begin_row(p, r, track);
	put_text(p, r);
	if (r->type == RECORD_ENGINE)
		fprintf(p->out, ",%u", ((const struct record_engine *)r->body)->what);
	fputc(']', p->out);
	return true;
}

/* False: the record has no row. */
static bool put_row(struct page *p, const struct record *r, const struct trace_tie *tie)
{
	const struct record_send *s = r->body;
	const struct record_recv *v = r->body;

	switch (r->type) {
	case RECORD_SEND:
		begin_row(p, r, tie->track);
		fprintf(p->out, ",%u,%u,\"0x%" PRIx64 "\",%u]", s->opcode, s->length, s->wr_id,
			s->index);
		return true;
	case RECORD_RECV:
		begin_row(p, r, tie->track);
		fprintf(p->out, ",%u,\"0x%" PRIx64 "\"]", v->length, v->wr_id);
		return true;
	case RECORD_COMPLETION:
		put_completion(p, r, tie);
		return true;
	case RECORD_PACKET:
		if (r->tail_len < TRACE_BTH)
			return false;
		put_packet(p, r, tie);
		return true;
	case RECORD_FAULT:
		put_fault(p, r, tie->track);
		return true;
	case RECORD_STACK:
		begin_row(p, r, tie->track);
		put_text(p, r);
		fprintf(p->out, ",%" PRId64 "]", number(tie->request));
		return true;
	case RECORD_VERB:
	case RECORD_OBJECT:
	case RECORD_EVENT:
	case RECORD_ENGINE:
		return put_other(p, r, tie->track);
	default:
		return false;
	}
}

static void put_names(const struct page *p, const char *key, const char *(*name)(unsigned int),
		      unsigned int n)
{
	fprintf(p->out, ",\n\"%s\":[", key);
	for (unsigned int i = 0; i < n; i++) {
		if (i)
			fputc(',', p->out);
		put_string(p, name(i));
	}
	fputc(']', p->out);
}

static const char *packet_opcode(unsigned int opcode)
{
	return trace_packet_opcode((uint8_t)opcode);
}

static const char *status(unsigned int i)
{
	return ibv_wc_status_str(i);
}

static void put_tables(const struct page *p)
{
	fprintf(p->out, ",\n\"processes\":[");
	for (size_t i = 0; i < p->t->files; i++) {
		fprintf(p->out, "%s{\"name\":", i ? "," : "");
		put_string(p, p->t->label[i]);
		fprintf(p->out, ",\"last\":%" PRIu64 "}", p->last[i]);
	}
	fprintf(p->out, "],\n\"tracks\":[");
	for (uint32_t i = 0; i < p->ties.n_tracks; i++) {
		const struct trace_track *k = &p->ties.track[i];

		fprintf(p->out, "%s[%zu,", i ? "," : "", k->file);
		put_string(p, k->kind ? trace_kind(k->kind) : "thread");
		fprintf(p->out, ",%u]", k->number);
	}
	fputc(']', p->out);
	put_names(p, "wr", trace_wr_opcode, WR_OPCODES);
	put_names(p, "opcodes", packet_opcode, PACKET_OPCODES);
	put_names(p, "status", status, STATUSES);
}

static int write_data(struct page *p)
{
	struct record r;
	int status = 0;

	fprintf(p->out, "{\"rows\":[");
	for (uint32_t n = 0; trace_next(p->t, &r, &status); n++) {
		struct trace_tie tie;

		trace_tie(&p->ties, &r, n, &tie);
		if (r.time > p->t->begin)
			p->last[r.file] = r.time - p->t->begin;
		if (n)
			fprintf(p->out, ",\n");
		if (!put_row(p, &r, &tie))
			fputc('0', p->out);
	}
	fprintf(p->out, "]");
	put_tables(p);
	fprintf(p->out, "}");
	return status;
}

static int write_page(struct page *p)
{
	static const char place[] = "@DATA@";
	const char *data = strstr(trace_page, place);
	int status;

	fwrite(trace_page, (size_t)(data - trace_page), 1, p->out);
	status = write_data(p);
	fputs(data + strlen(place), p->out);
	return status;
}

static int convert(struct trace *t, FILE *out)
{
	struct page p = { .t = t, .out = out, .ties.clocks = t->clocks };
	int status = EXIT_FAILED;

	p.last = calloc(t->files, sizeof(*p.last));
	if (p.last)
		status = write_page(&p);
	free(p.last);
	trace_ties_free(&p.ties);
	return status;
}

int trace_html(int argc, char **argv)
{
	return trace_convert(argc, argv, convert);
}
