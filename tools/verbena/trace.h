/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbena trace: recordings (docs/RECORD.md), read as one in the order of time.
 *
 *	trace.c		the command and its files
 *	trace_text.c	a record as a line
 *	trace_show.c	the log
 *	trace_summary.c	numbers per process and queue pair
 *	trace_pcapng.c	packets as a capture file
 *	trace_perfetto.c	a timeline for Perfetto and Chrome
 *	trace_html.c	a sequence diagram in one file, by trace.html
 *	trace_tie.c	which records belong together
 *	trace_map.c	numbers by keys, for that
 *	trace_align.c	one time for hosts with clocks of their own
 *	trace_stack.c	call stacks by names
 */
#ifndef VRB_TOOL_TRACE_H
#define VRB_TOOL_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "record/reader.h"

struct trace_stacks;

struct trace {
	struct record_reader *reader;
	size_t files;
	uint64_t begin;		/* when the first process began, on the common clock: file 0's */
	char (*label)[80];	/* of each file: host, program and process */
	int64_t *ahead;		/* of each file: of its clock before the common one, ns */
	bool clocks;		/* there are several */
	struct record_lead **lead;	/* of each clock that runs apart, as the reader has it */
	struct trace_stacks *stacks;
};

/*
 * Opens the recordings that the arguments name: files, or folders of them. Returns 0 or an exit
 * status, after an error message.
 */
int trace_open(struct trace *t, char **names);
void trace_close(struct trace *t);

/* The next record; false at the end, or after an error message with *status set. */
bool trace_next(struct trace *t, struct record *r, int *status);

/* ns since 1970, of a time on the common clock. */
uint64_t trace_wall(const struct trace *t, uint64_t time);

/*
 * trace_align.c: sets t->ahead and t->clocks, by the packets that went from one clock to another.
 * Files of which none did are set by the time of day. Returns 0 or an exit status.
 */
int trace_align(struct trace *t);

/*
 * trace_stack.c: `see` takes in a module; `text` has the innermost call first, by symbol or, if
 * that is not known, by module and offset.
 */
struct trace_stacks *trace_stacks_new(void);
void trace_stacks_free(struct trace_stacks *s);
void trace_stacks_see(struct trace_stacks *s, const struct record *r);
void trace_stacks_text(struct trace_stacks *s, const struct record *r, char *text, size_t size);

/* Leaves ASCII that terminals and JSON take as it is; recordings come from anywhere. */
void trace_make_printable(char *s);

/* What happened, without time and process. */
enum { TRACE_TEXT = 1024 };
void trace_text(const struct trace *t, const struct record *r, char text[TRACE_TEXT]);

/* Names as in <infiniband/verbs.h>, without prefix; a number if there is none. */
const char *trace_wr_opcode(unsigned int opcode);
const char *trace_wc_opcode(unsigned int opcode);
const char *trace_packet_opcode(uint8_t opcode);
const char *trace_note(unsigned int what);
const char *trace_kind(unsigned int kind);

/* The QP, SRQ or WQ that a record is about, 0: none; its wr_id; whether it tells of a failure. */
uint32_t trace_qpn(const struct record *r);
bool trace_wr_id(const struct record *r, uint64_t *wr_id);
bool trace_is_error(const struct record *r);
bool trace_is_quiet(unsigned int what);	/* a note that tells of no trouble */
bool trace_is_receive(const struct record_completion *c);

/*
 * A command [-o FILE] FILE... that writes what it reads in another form. Returns an exit status, as
 * `convert` does.
 */
int trace_convert(int argc, char **argv, int (*convert)(struct trace *t, FILE *out));

int trace_show(int argc, char **argv);
int trace_summary(int argc, char **argv);
int trace_pcapng(int argc, char **argv);
int trace_perfetto(int argc, char **argv);
int trace_html(int argc, char **argv);

#endif
