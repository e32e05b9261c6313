/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbena trace summary: numbers per process, verb, completion queue and queue pair. Of its files
 * one counts, one prints JSON and one text.
 */
#ifndef VRB_TOOL_TRACE_SUMMARY_H
#define VRB_TOOL_TRACE_SUMMARY_H

#include <stddef.h>
#include <stdint.h>

#include "trace.h"
#include "wq/note.h"
#include "wq/verb.h"

struct json_object;

enum {
	OPCODES = 16,
	NOTES = 17,
	PARTS = 16,	/* of a doubling: percentiles are exact to a 16th */
	BUCKETS = 48 * PARTS,
};

/* Times from post to completion, ns. */
struct latency {
	uint64_t n, most;
	uint32_t bucket[BUCKETS];
};

struct posted {
	uint64_t time, wr_id;
	uint32_t index, length;
	uint16_t opcode;
	bool signaled;
};

struct operation {
	uint64_t posted, bytes, completed, failed, again;	/* again: its packets */
	struct latency *latency;
};

struct queue {
	struct queue *next;
	size_t file;
	uint32_t number;
	uint16_t kind;	/* RECORD_QP, RECORD_SRQ */
	uint16_t type, state;
	struct operation op[OPCODES];
	uint64_t recvs, received, received_bytes, receive_errors;
	int64_t receives;	/* posted and not completed */
	uint64_t emptied, empty_since, empty_time;
	uint64_t out, in, out_bytes, in_bytes;
	uint64_t notes[NOTES], direct, rnr_wait, faults;
	uint32_t window, window_least;	/* 0: it never changed */
	uint32_t again;	/* the PSN that leaves again */
	bool leaves_again;
	uint32_t waits;	/* enum note: why the oldest request is not complete; 0: it was sent */
	/* Requests that are not complete, oldest first. */
	struct posted *posted;
	size_t first, n, room;
};

struct cq {
	struct cq *next;
	size_t file;
	uint32_t number;
	uint64_t handle, completions, polled, high;
	uint64_t waiting_since;	/* the oldest that was not taken came then, or later */
};

/* A rule of faults that struck, by its text: numbers change with the plan. */
struct struck {
	struct struck *next;
	uint64_t times;
	size_t len;
	char rule[];
};

struct process {
	struct struck *faults;
	uint64_t verbs[VERB_END], failed[VERB_END], took[VERB_END], most[VERB_END];
	uint64_t records, first, last;
};

struct summary {
	struct trace t;
	struct process *process;
	struct queue *queues, **last_queue, *recent;
	struct cq *cqs, **last_cq;
};

/* The least time that is counted in a bucket. */
uint64_t summary_bucket_time(unsigned int i);
uint64_t summary_percentile(const struct latency *l, double part);

/*
 * The oldest request that waits, what for, and how long, up to the last record of its process;
 * NULL: there is none. One without a completion of its own waits only if the engine says so.
 */
const struct posted *summary_waiting(const struct queue *q);
const char *summary_waits_for(const struct queue *q);
uint64_t summary_waits_ns(const struct summary *s, const struct queue *q);

/* Signaled requests without a completion, of an opcode or, with OPCODES, of all. */
uint64_t summary_open(const struct queue *q, unsigned int opcode);

/* How long there was no receive; also while there still is none. */
uint64_t summary_empty_ns(const struct summary *s, const struct queue *q);

/* Completions that nobody has polled. */
uint64_t summary_not_taken(const struct cq *c);

struct json_object *summary_json(const struct summary *s, size_t file);
void summary_print(const struct summary *s, size_t file);

#endif
