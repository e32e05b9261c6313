/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Port numbers of ids: who has which, on the whole host, is known below (verbs/mad.h).
 */
#ifndef VRB_RDMACM_PORT_H
#define VRB_RDMACM_PORT_H

#include <stdint.h>

struct cma_id;
struct sockaddr;

/*
 * Takes the address's port, or a free one for 0.  Must not hold the cma lock.  Returns 0 or an
 * errno value.
 */
int port_bind(struct cma_id *id, const struct sockaddr *addr);

/* Of an id that is bound. */
uint16_t port_number(const struct cma_id *id);

#endif
