/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that the peer may write to directly: riomap(), riounmap(), riowrite(). */
#ifndef VRB_RDMACM_RS_IOMAP_H
#define VRB_RDMACM_RS_IOMAP_H

#include <stdbool.h>

struct rsocket;

/*
 * Announces new mappings to the peer while there are slots and credits.  Under the lock.  Returns
 * true if all are announced.
 */
bool rs_iomap_flush(struct rsocket *rs);

/* Removes all mappings.  Under the lock, or during destruction. */
void rs_iomap_clear(struct rsocket *rs);

#endif
