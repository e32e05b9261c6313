/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Table of live objects. The kernel rejects the handle of a destroyed object; we have only the
 * pointer, so control calls look it up in this table before they dereference it. The data path
 * skips the lookup because of its cost.
 *
 * A stale pointer to memory that was reused for a new object is not detected. One lock, a leaf.
 */
#ifndef VRB_CORE_BASE_LIVE_OBJECTS_H
#define VRB_CORE_BASE_LIVE_OBJECTS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/* Embedded in each object. Zeroed while not in the table. */
struct vrb_live {
	struct vrb_live *next;	/* in its bucket */
	const void *object;
	const struct ibv_context *context;
	uint32_t handle;
};

/*
 * Called at creation and destruction. `context` and `handle` are the values visible to the program.
 */
void vrb_live_add(struct vrb_live *l, const void *object, const struct ibv_context *context,
		  uint32_t handle);
void vrb_live_del(struct vrb_live *l);

/* Does not dereference the pointer. */
bool vrb_live_has(const void *object);

/* True if the object is live and was added with these values. */
bool vrb_live_is(const void *object, const struct ibv_context *context, uint32_t handle);

/* In a forked child: reinitialises the lock, whose holder may not exist here. */
void vrb_live_after_fork(void);

/*
 * First check of a control call on an object with a context and a handle. EINVAL for NULL, ENOENT
 * if it is not a live object or was overwritten, ENODEV if its context is dead.
 */
#define vrb_object_check(o)                                                                        \
	(!(o)                                        ? EINVAL                                      \
	 : !vrb_live_has(o)                          ? ENOENT                                      \
	 : !vrb_live_is(o, (o)->context, (o)->handle) ? ENOENT                                     \
						      : vrb_context_check((o)->context))

#endif
