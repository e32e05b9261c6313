/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Matching list of a tag-matching SRQ: tagged buffers, looked up by the tag of a message.
 *
 * A message matches a tag if message & mask == value; the oldest matching tag receives it. Tags
 * whose mask is all ones are found by hash, the others by linear search.
 *
 * The program itself handles unexpected messages, which match no tag. While it has not handled all
 * of them, the list is out of step with the program, and new tags wait (docs/TAGS.md).
 *
 *	free --add--> waiting --step--> listed --match--> taken --release--> free
 *	  \--add, in step--------------/ |  ^--return------/
 *	   ^------------delete-----------' (and from waiting)
 *
 * No locks: the caller serialises. Only tags_init() allocates.
 */
#ifndef VRB_WQ_TAG_LIST_H
#define VRB_WQ_TAG_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/tm_types.h>
#include <infiniband/verbs.h>

#include "util/list.h"

enum {
	TAGS_MAX = 4096,	/* must fit the 16-bit index in a tag handle */
	TAG_MAX_SGE = 4,
};

/* Header of a rendezvous request; also of the FIN that ends it. */
struct tag_request {
	struct ibv_tmh tmh;
	struct ibv_rvh rvh;
};

struct tag {
	struct list node;	/* in the list of its state; while taken, for the owner's use */
	uint64_t value, mask;
	uint64_t order;		/* sequence number of the addition */
	uint16_t generation;	/* counts the uses of the slot */
	uint8_t state;		/* enum tag_state */

	/* Set and used by the owner. */
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
	struct list *bucket;	/* listed tags with an all-ones mask, by value, oldest first */
	uint32_t bucket_shift;
	struct list masked;	/* other listed tags, oldest first */
	struct list waiting;	/* oldest first; all are younger than the listed tags */
	struct list free;
	uint64_t next_order;
	uint16_t unexpected;	/* messages that matched no tag */
	uint16_t handled;	/* number of them that the program has reported as handled */
};

/* n: 1..TAGS_MAX. Returns 0 or ENOMEM. */
int tags_init(struct tags *t, uint32_t n);
void tags_free(struct tags *t);

/* Are all slots in use? */
static inline bool tags_full(const struct tags *t)
{
	return list_empty(&t->free);
}

/* Adds a tag as the youngest; NULL: all slots are in use. */
struct tag *tags_add(struct tags *t, uint64_t value, uint64_t mask);

/* A handle of the tag, unique until its slot has been reused 65536 times. */
uint32_t tags_handle(const struct tags *t, const struct tag *tag);

/* Could the number be a handle of this list? */
static inline bool tags_has(const struct tags *t, uint32_t handle)
{
	return (handle & 0xffff) < t->n;
}

/* Removes a waiting or listed tag. False: the handle names neither. */
bool tags_delete(struct tags *t, uint32_t handle);

/*
 * Takes the oldest listed tag that matches the message; NULL if none matches. The caller owns the
 * tag until it releases or returns it.
 */
struct tag *tags_match(struct tags *t, uint64_t message);
void tags_release(struct tags *t, struct tag *tag);

/* Undoes the match: puts the tag back in its old place. */
void tags_return(struct tags *t, struct tag *tag);

/* Count an unexpected message that is delivered to the program; undo that if delivery fails. */
void tags_count(struct tags *t);
void tags_uncount(struct tags *t);

/* The program has handled `count` unexpected messages in total, modulo 2^16. */
void tags_handled(struct tags *t, uint16_t count);

static inline bool tags_in_step(const struct tags *t)
{
	return t->unexpected == t->handled;
}

/* The number of unexpected messages that the program has not handled. */
static inline uint16_t tags_behind(const struct tags *t)
{
	return t->unexpected - t->handled;
}

#endif
