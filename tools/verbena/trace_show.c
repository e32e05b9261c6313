/* SPDX-License-Identifier: BSD-2-Clause */
/* verbena trace show: records as a log, those that a filter lets pass. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/clock.h"
#include "tool.h"
#include "trace.h"
#include "trace_map.h"
#include "util/compiler.h"

enum {
	FOLLOW_MS = 200,	/* how often it looks */
	SETTLE_MS = 50,	/* so long other threads may take to tell what came before */
};

static const char help[] =
	"  FILE...                 recordings, or folders of them\n"
	"  -q, --qp NUMBER         of this QP, SRQ or WQ\n"
	"  -w, --wr-id NUMBER      of this work request\n"
	"  -o, --opcode TEXT       lines with this word, as SEND or RC_ACKNOWLEDGE\n"
	"  -t, --type TYPE,...     verb object send recv completion event packet engine\n"
	"                          fault stack\n"
	"  -e, --errors            what failed, and why\n"
	"  -S, --since SECONDS     from here on, as in the first column\n"
	"  -U, --until SECONDS     up to here\n"
	"  -f, --follow            goes on with what is recorded meanwhile\n";

static const struct option options[] = {
	{ "qp", required_argument, NULL, 'q' },	   { "wr-id", required_argument, NULL, 'w' },
	{ "opcode", required_argument, NULL, 'o' }, { "type", required_argument, NULL, 't' },
	{ "errors", no_argument, NULL, 'e' },	   { "since", required_argument, NULL, 'S' },
	{ "until", required_argument, NULL, 'U' }, { "follow", no_argument, NULL, 'f' },
	{ "help", no_argument, NULL, 'h' },	   { 0 },
};

struct filter {
	bool qp, wr_id, errors, follow;
	uint32_t qpn;
	uint64_t id;
	const char *opcode;
	uint32_t types;		/* bits; 0: all but what others refer to */
	double since, until;	/* seconds; until 0: no end */
};

/* What of each thread was shown last: a stack goes with the request before it. */
struct shown {
	struct trace_map post;	/* 1: shown */
};

static bool read_number(const char *s, uint64_t most, uint64_t *v)
{
	char *end;

	errno = 0;
	*v = strtoull(s, &end, 0);
	return s[0] >= '0' && s[0] <= '9' && !*end && !errno && *v <= most;
}

static bool read_seconds(const char *s, double *v)
{
	char *end;

	*v = strtod(s, &end);
	return end != s && !*end && *v >= 0;
}

static bool read_types(const char *s, uint32_t *types)
{
	while (*s) {
		size_t len = strcspn(s, ",");
		unsigned int i = 1;

		while (i < RECORD_TYPES && (strlen(record_type_info(i)->name) != len ||
					    memcmp(record_type_info(i)->name, s, len) != 0))
			i++;
		if (i == RECORD_TYPES)
			return false;
		*types |= 1u << i;
		s += len;
		s += *s == ',';
	}
	return *types != 0;
}

static bool read_option(struct filter *f, int c)
{
	uint64_t n = 0;
	bool ok = true;

	switch (c) {
	case 'q':
		ok = f->qp = read_number(optarg, 0xffffff, &n);
		f->qpn = (uint32_t)n;
		break;
	case 'w':
		ok = f->wr_id = read_number(optarg, UINT64_MAX, &f->id);
		break;
	case 'o':
		f->opcode = optarg;
		break;
	case 't':
		ok = read_types(optarg, &f->types);
		break;
	case 'e':
		f->errors = true;
		break;
	case 'S':
		ok = read_seconds(optarg, &f->since);
		break;
	case 'U':
		ok = read_seconds(optarg, &f->until);
		break;
	case 'f':
		f->follow = true;
		break;
	}
	if (!ok)
		complain(EXIT_USAGE, "'%s' is no value of option -%c; try --help", optarg, c);
	return ok;
}

static bool is_reference(unsigned int type)
{
	return type == RECORD_PATH || type == RECORD_DEVICE || type == RECORD_MODULE;
}

static bool passes(const struct filter *f, const struct record *r)
{
	uint64_t id;

	if (f->types ? r->type >= 32 || !(f->types >> r->type & 1) : is_reference(r->type))
		return false;
	if (r->type == RECORD_STACK && f->types)
		return true;
	if (f->qp && (trace_qpn(r) != f->qpn))
		return false;
	if (f->wr_id && (!trace_wr_id(r, &id) || id != f->id))
		return false;
	return !f->errors || trace_is_error(r);
}

static bool show(const struct trace *t, const struct filter *f, const struct record *r)
{
	double at = (double)(int64_t)(r->time - t->begin) / 1e9;
	char text[TRACE_TEXT];

	if (at < f->since || (f->until > 0 && at > f->until))
		return false;
	trace_text(t, r, text);
	if (f->opcode && r->type != RECORD_STACK && !strstr(text, f->opcode))
		return false;
	printf("%13.9f %s/%u %s%s%s\n", at, t->label[r->file], r->tid, trace_is_error(r) ? RED : "",
	       text, trace_is_error(r) ? PLAIN : "");
	return true;
}

static void show_if_it_passes(const struct trace *t, const struct filter *f, struct shown *shown,
			      const struct record *r)
{
	struct trace_key thread = { r->file, r->tid };

	if (r->type == RECORD_STACK && !f->types) {
		if (trace_map_get(&shown->post, thread) == 1)
			show(t, f, r);
		return;
	}
	if (r->type == RECORD_SEND || r->type == RECORD_RECV)
		trace_map_take(&shown->post, thread);
	if (passes(f, r) && show(t, f, r) && (r->type == RECORD_SEND || r->type == RECORD_RECV))
		trace_map_put(&shown->post, thread, 1);
}

static void warn_of_gaps(const struct trace *t)
{
	for (size_t i = 0; i < t->files; i++) {
		const struct record_file *f = record_reader_file(t->reader, i);

		if (f->lost || f->bad)
			complain(0, "%s: %llu records had no room, %llu do not make sense",
				 t->label[i], (unsigned long long)f->lost,
				 (unsigned long long)f->bad);
	}
}

/* Everything in (after, up_to], by the common clock. */
static int show_between(char **names, const struct filter *f, uint64_t after, uint64_t up_to)
{
	struct shown shown = { 0 };
	struct trace t;
	struct record r;
	int status = trace_open(&t, names);

	if (status)
		return status;
	if (t.clocks && f->follow)
		status = complain(EXIT_FAILED, "--follow: the recordings are of several hosts");
	while (!status && trace_next(&t, &r, &status))
		if (r.time > after && r.time <= up_to)
			show_if_it_passes(&t, f, &shown, &r);
	trace_map_free(&shown.post);
	if (up_to == UINT64_MAX)
		warn_of_gaps(&t);
	trace_close(&t);
	return status;
}

static int follow(char **names, const struct filter *f)
{
	uint64_t shown = 0;
	int status = 0;

	while (!status && !ferror(stdout)) {
		uint64_t now = clock_now() - SETTLE_MS * 1000000ull;

		status = show_between(names, f, shown, now);
		shown = now;
		fflush(stdout);
		usleep(FOLLOW_MS * 1000);
	}
	return status;
}

int trace_show(int argc, char **argv)
{
	struct filter f = { 0 };
	int c;

	while ((c = next_option(argc, argv, ":q:w:o:t:eS:U:fh", options, help)) != -1)
		if (c == '?' || !read_option(&f, c))
			return EXIT_USAGE;
	if (f.follow)
		return follow(argv + optind, &f);
	return show_between(argv + optind, &f, 0, UINT64_MAX);
}
