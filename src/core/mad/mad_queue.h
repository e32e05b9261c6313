/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MADs that wait: for room in the inbox of another process, for a listener, or because this process
 * sends them to itself. gsi.c decides when they are tried.
 *
 * Any thread may call. The queue's own lock is a leaf.
 */
#ifndef VRB_CORE_MAD_MAD_QUEUE_H
#define VRB_CORE_MAD_MAD_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "cm/msg.h"
#include "util/list.h"
#include "util/net.h"

/* A queued MAD for the process in `slot`; negative: for no other process. */
struct queued_mad {
	struct list node;
	struct net_path path;
	int slot;
	uint64_t incarnation;		/* of that process; 0: any */
	uint64_t until;			/* from then on it makes room for others */
	bool kept;			/* counts for no limit */
	uint32_t exit_mad;		/* if not 0: is sent though this process ends */
	uint8_t mad[CM_MAD_LEN];
};

/*
 * Copies *p, of which node, kept and exit_mad are ignored. False: `limit` MADs are queued
 * that are not kept, and the first of them is not to make room yet; or there is no memory.
 */
bool vrb_mad_queue_add(const struct queued_mad *p, unsigned int limit, uint64_t now);

/*
 * Keeps what ends a connection, the last message of its communication id: nobody repeats it once
 * that is destroyed. It is queued once, however often it is repeated before; if this process ends
 * first, another one sends it (exit_mad.h). False: there is no memory.
 */
bool vrb_mad_queue_keep(const struct queued_mad *p, uint32_t comm_id);

/* How many are queued; how many of them count for limits. */
unsigned int vrb_mad_queue_length(void);
unsigned int vrb_mad_queue_limited(void);

/* Does any wait for the process, or has been taken and not dropped? */
bool vrb_mad_queue_any_for(int slot);

/* The first one, to be put back behind the others, or dropped. NULL: none. */
struct queued_mad *vrb_mad_queue_take(void);
void vrb_mad_queue_put_back(struct queued_mad *p);
void vrb_mad_queue_drop(struct queued_mad *p);

/* The exit MADs are about to be withdrawn. No thread may have taken a MAD meanwhile. */
void vrb_mad_queue_forget_exit_mads(void);

void vrb_mad_queue_clear(void);
void vrb_mad_queue_forget(void);	/* in a forked child */

#endif
