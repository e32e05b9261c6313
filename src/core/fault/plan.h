/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What shall go wrong in this process on purpose: the plan, its counts, and what the process does
 * to itself (docs/FAULTS.md; the language and the decision are src/fault's).
 *
 * Each place that asks looks at vrb_fault_kinds first: one load and one predicted branch without
 * rules of its kind. The rest takes the plan's lock, a leaf (level 8 of state.h).
 *
 * `raise`, `stall` and `kill` come after the occasion. They are kept until vrb_faults_settle(),
 * which a thread calls where it holds no lock.
 */
#ifndef VRB_CORE_FAULT_PLAN_H
#define VRB_CORE_FAULT_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fault/decide.h"
#include "util/atomic.h"
#include "util/compiler.h"

enum {
	VRB_FAULTS_TEXT = FAULT_TEXT,	/* of a plan's rules, a line each */
	VRB_FAULTS_ERROR = 512,
	VRB_FAULTS_PENDING = 31,	/* bit of vrb_fault_kinds: something is to be settled */
};

/* Atomic: bits by enum fault_kind, of which there are rules. */
extern uint32_t vrb_fault_kinds;

static inline bool vrb_faults_on(enum fault_kind kind)
{
	return unlikely(load_relaxed(&vrb_fault_kinds) >> kind & 1);
}

/*
 * The rules of $VERBENA_FAULTS; the first call only. If something is wrong with them, says so in a
 * line and ends the process with status 2.
 */
void vrb_faults_start(void);

/*
 * Adds rules to the plan; all counts begin anew. False, with a line in `error`: the plan is as it
 * was. `source` is named in that line.
 */
bool vrb_faults_add(const char *source, const char *text, size_t len,
		    char error[VRB_FAULTS_ERROR]);

/*
 * No rules: nothing is counted, a stall is over, and all is as it was before there were any. Must
 * hold no lock.
 */
void vrb_faults_clear(void);

/*
 * The rules, one a line, each with how often it has struck as a comment. Returns the length of the
 * text; a final 0 follows.
 */
size_t vrb_faults_list(char text[VRB_FAULTS_TEXT]);

/* Around fork(): a child has the same rules, and counts of its own. */
void vrb_faults_before_fork(void);
void vrb_faults_after_fork_parent(void);
void vrb_faults_after_fork_child(void);

/*
 * An occasion. True: *hit happens to it, and the caller does that. `raise`, `stall` and `kill` are
 * not returned; they are settled later.
 */
bool vrb_fault_packet(const struct fault_packet *packet, struct fault_hit *hit);
bool vrb_fault_message(const struct fault_packet *message, struct fault_hit *hit);
bool vrb_fault_completion(const struct fault_queue *queue, struct fault_hit *hit);
bool vrb_fault_cm(enum fault_cm message, enum fault_direction direction, struct fault_hit *hit);

/* The errno with which the call, or the post of the work request, shall fail; 0: none. */
int vrb_fault_verb(enum verb verb);
int vrb_fault_wr(const struct fault_queue *queue);

/* A completion was given an error status: its QP is to fail as well. */
void vrb_faults_fail_later(uint32_t qpn);

/* What is done to objects after an occasion; set once, by taps.c. qpn 0: the device's event. */
struct fault_effects {
	void (*raise)(int event, uint32_t qpn);
	void (*fail)(uint32_t qpn);
};
extern const struct fault_effects *vrb_fault_effects; /* atomic */

/* Something is to be settled. */
static inline bool vrb_faults_pending(void)
{
	return unlikely(load_relaxed(&vrb_fault_kinds) >> VRB_FAULTS_PENDING);
}

/*
 * Does what is to be done after an occasion; during a stall, waits for its end, or for
 * vrb_faults_clear(). Must hold no lock.
 */
void vrb_faults_do_pending(void);

/*
 * The same for a thread that has other things to do during a stall: returns until when it lasts.
 * 0: all is done.
 */
uint64_t vrb_faults_settle_until_stall(void);

static inline void vrb_faults_settle(void)
{
	if (vrb_faults_pending())
		vrb_faults_do_pending();
}

#endif
