/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The matching list of a tag-matching SRQ: tagged buffers, found by the tag of a message.
 *
 * A message matches a tag if message & mask == value; the oldest match takes it.  Tags whose mask
 * is all ones are found by hash, the others by a walk.
 *
 * The list runs in step with the program, which deals itself with the messages that match nothing:
 * while it has not dealt with all of them, what is added waits (docs/TAGS.md).
 *
 *	free --add--> waiting --step--> listed --match--> taken --release--> free
 *	  \--add, in step--------------/ |  ^--return------/
 *	   ^------------delete-----------' (and from waiting)
 *
 * No locks: the owner has one.  Nothing allocates but tags_init().
 */
#ifndef VRB_CORE_TAGS_H
#define VRB_CORE_TAGS_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/tm_types.h>
#include <infiniband/verbs.h>

#include "util/list.h"

enum {
	TAGS_MAX = 4096,	/* fits the index of a handle */
	TAG_MAX_SGE = 4,
};

/* How a rendezvous asks to be fetched; also how its end is told. */
struct tag_request {
	struct ibv_tmh tmh;
	struct ibv_rvh rvh;
};

struct tag {
	struct list node;	/* in the list of its state; while taken, its taker's */
	uint64_t value, mask;
	uint64_t order;		/* of being added */
	uint16_t generation;	/* of the slot */
	uint8_t state;		/* enum tag_state */

	/* The owner's. */
	bool solicited;
	uint64_t wr_id;
	uint32_t length;	/* sum of the SGE lengths, saturated */
	uint32_t num_sge;
	struct ibv_sge sge[TAG_MAX_SGE];
	struct tag_request request;
};

struct tags {
	struct tag *slot;
	uint32_t n;
	struct list *bucket;	/* of listed tags with a mask of all ones, by value, oldest first */
	uint32_t bucket_shift;
	struct list masked;	/* of the other listed tags, oldest first */
	struct list waiting;	/* oldest first, all younger than what is listed */
	struct list free;
	uint64_t next_order;
	uint16_t unexpected;	/* messages that matched nothing */
	uint16_t handled;	/* of them, as the program told */
};

/* n: 1..TAGS_MAX. Returns 0 or ENOMEM. */
int tags_init(struct tags *t, uint32_t n);
void tags_free(struct tags *t);

/* A new tag, youngest of all; NULL: every slot is in use. */
struct tag *tags_add(struct tags *t, uint64_t value, uint64_t mask);

/* Names the tag until its slot is used again 65536 times. */
uint32_t tags_handle(const struct tags *t, const struct tag *tag);

/* Could the number be a handle of this list? */
static inline bool tags_has(const struct tags *t, uint32_t handle)
{
	return (handle & 0xffff) < t->n;
}

/* Takes a waiting or listed tag out. False: it is not there any more. */
bool tags_delete(struct tags *t, uint32_t handle);

/*
 * The oldest listed tag that wants the message; it is the caller's until he releases or returns it.
 * NULL: none does.
 */
struct tag *tags_match(struct tags *t, uint64_t message);
void tags_release(struct tags *t, struct tag *tag);

/* As if it had not been matched: to its old place. */
void tags_return(struct tags *t, struct tag *tag);

/* A message matched nothing and is on its way to the program; or did not get there. */
void tags_count(struct tags *t);
void tags_uncount(struct tags *t);

/* The program has dealt with so many of them. */
void tags_handled(struct tags *t, uint16_t count);

static inline bool tags_in_step(const struct tags *t)
{
	return t->unexpected == t->handled;
}

/* How many of them the program has not dealt with. */
static inline uint16_t tags_behind(const struct tags *t)
{
	return t->unexpected - t->handled;
}

#endif
