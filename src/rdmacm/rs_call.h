/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What librspreload knows of the calls of rsockets: it takes care of signals.  Exported under the
 * version node VERBENA_RDMACM_PRIVATE_1, which is renamed with every change.
 */
#ifndef VRB_RDMACM_RS_CALL_H
#define VRB_RDMACM_RS_CALL_H

#include <stdbool.h>

/* Where this thread is. */
enum rs_where {
	RS_OUTSIDE,
	RS_INSIDE,  /* of a call, and may hold locks */
	RS_SLEEPING, /* holds none; what it has is released by cleanups */
};
enum rs_where vrb_rs_where(void);

/* fn() is called once, by this thread, when it leaves its call or is about to sleep. */
void vrb_rs_later(void (*fn)(void));

/* As rs.h has them, for what librspreload does on its own. */
void vrb_rs_call_begin(void);
void vrb_rs_call_end(void);
bool vrb_rs_wait_begin(void);
void vrb_rs_wait_end(void);

#endif
