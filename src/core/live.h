/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which pointers are objects.  A kernel knows objects by their handles and tells a program that has garbled or destroyed one; here control
 * calls ask this table before they follow a pointer.  The data path does not: it would pay for it with every call.
 *
 * Memory that was reused for another object is that object.  One lock, a leaf.
 */
#ifndef VRB_CORE_LIVE_H
#define VRB_CORE_LIVE_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/* What an object has in it for the table; zeroed: not there. */
struct vrb_live {
	struct vrb_live *next;	/* in its bucket */
	const void *object;
	const struct ibv_context *context;
	uint32_t handle;
};

/* The object's first and last moment in the hands of the program. `handle` and `context` are those that it sees. */
void vrb_live_add(struct vrb_live *l, const void *object, const struct ibv_context *context, uint32_t handle);
void vrb_live_del(struct vrb_live *l);

/* Without following the pointer. */
bool vrb_live_has(const void *object);

/* Has the program left these members as they were? */
bool vrb_live_is(const void *object, const struct ibv_context *context, uint32_t handle);

/* A forked child: the lock's owner may not exist any more. */
void vrb_live_after_fork(void);

/*
 * What a control call asks about an object that has a context and a handle: 0, EINVAL for NULL, ENOENT for what is none or was garbled,
 * ENODEV for one of a context that this process cannot use.
 */
#define vrb_object_check(o)                                                                        \
	(!(o)                                        ? EINVAL                                      \
	 : !vrb_live_has(o)                          ? ENOENT                                      \
	 : !vrb_live_is(o, (o)->context, (o)->handle) ? ENOENT                                     \
						      : vrb_context_check((o)->context))

#endif
