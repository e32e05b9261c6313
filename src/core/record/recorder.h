/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The recording of this process: made at its first verb, written by all of its threads, never
 * closed. A child of fork() has none of its parent's: it makes its own.
 */
#ifndef VRB_CORE_RECORD_RECORDER_H
#define VRB_CORE_RECORD_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/tap.h"
#include "core/record/ticks.h"
#include "record/writer.h"
#include "run/config.h"

struct net_path;
struct vrb_device;

enum { RECORDER_PATHS = 32, RECORDER_RECENT = 4, RECORDER_MODULES = 32 };

/* A path as it was used last: what its id is computed from. */
struct recorder_recent {
	uint64_t word[6];
	uint32_t id;	/* 0: none */
};

/* A thread's place, and what its chunk names already. */
struct recorder {
	struct record_writer writer;
	struct record_ticks ticks;
	uint32_t generation;	/* of the recording */
	const struct record_chunk *chunk;	/* that the rest is about */
	uint32_t paths[RECORDER_PATHS];	/* ids, by their low bits; 0: none */
	struct recorder_recent recent[RECORDER_RECENT];
	unsigned int oldest;	/* of `recent` */
	struct record_module module[RECORDER_MODULES];
	unsigned int modules;
};

extern uint32_t vrb_record_what;	/* bits of enum config_record; once there is a recorder */

/* The calling thread's; NULL: nothing is recorded, or not `what`. */
struct recorder *vrb_recorder(enum config_record what);

/* The time for a record of the data path. */
static inline uint64_t recorder_now(struct recorder *r)
{
	return record_ticks_now(&r->ticks);
}

/* Room for a record of len bytes; NULL: there is none. To be filled, then committed. */
static inline void *recorder_reserve(struct recorder *r, size_t len)
{
	return record_reserve(&r->writer, len);
}

/* Forgets what the last chunk named, if this is another one. */
void recorder_renew(struct recorder *r);

/*
 * The id of a path by a device (NULL: not known), both of which are told first if the chunk does
 * not name them yet.
 */
uint32_t recorder_path(struct recorder *r, const struct net_path *path,
		       const struct vrb_device *dev, uint64_t now);

/* Does nothing: with it a static linker takes this file, which attaches itself. */
void vrb_recorder_link(void);

/* calls.c */
bool vrb_record_enter(struct tap_call *call);
void vrb_record_leave(struct tap_call *call);
void vrb_record_event(const struct tap_event *e);

/* stacks.c */

/* To be called once, without locks, before the first stack. */
void vrb_record_stacks_start(void);

/* The calling thread's stack up to the program's call; returns its depth. Tells its modules. */
enum { RECORD_DEPTH = 32 };
unsigned int vrb_record_stack(struct recorder *r, void *frame[RECORD_DEPTH]);

/* traffic.c */
int vrb_record_post(const struct tap_post *post);
void vrb_record_complete(struct tap_completion *c);
bool vrb_record_out(struct tap_packet *p);
bool vrb_record_in(struct tap_packet *p);
void vrb_record_direct(struct vrb_qp *qp, unsigned int n);
void vrb_record_note(struct vrb_qp *qp, const struct wq_note *note);
void vrb_record_fault(const struct tap_fault *f);

#endif
