/* SPDX-License-Identifier: BSD-2-Clause */
/* Port numbers of ids.  The host's table of ports is libibverbs' (verbs/mad.h). */
#ifndef VRB_RDMACM_PORT_H
#define VRB_RDMACM_PORT_H

#include <stdint.h>

struct cma_id;
struct sockaddr;

/*
 * Binds the address's port; port 0: any free one.  Must not hold the cma lock.  Returns 0 or an
 * errno value.
 */
int port_bind(struct cma_id *id, const struct sockaddr *addr);

/* Port of a bound id. */
uint16_t port_number(const struct cma_id *id);

#endif
