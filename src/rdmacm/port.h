/* SPDX-License-Identifier: BSD-2-Clause */
/* Port numbers of ids.  The host's table of ports is libibverbs' (verbs/mad.h). */
#ifndef VRB_RDMACM_PORT_H
#define VRB_RDMACM_PORT_H

#include <stdbool.h>
#include <stdint.h>

struct cma_id;
struct sockaddr;

/*
 * Binds the address's port; port 0: any free one.  Must not hold the cma lock.  Returns 0 or an
 * errno value.
 */
int port_bind(struct cma_id *id, const struct sockaddr *addr);

/*
 * Enters the port as a listener's in the host's table; the id's option RDMA_OPTION_ID_AFONLY.  Must
 * not hold the cma lock; the id may be shut meanwhile.  Return 0 or an errno value.
 */
int port_listen(struct cma_id *id);
int port_only_family(struct cma_id *id, bool only);

/* Gives the port back, or has the call do so that uses it now.  Under the cma lock. */
void port_drop(struct cma_id *id);

/*
 * The same for an id that ends.  The port of a listener is free, too, but while datagram requests
 * are unanswered one of them has its binding: a repetition, for which there is no MRA, still comes
 * to this process, and is not refused for lack of a listener.  Under the cma lock.
 */
void port_leave(struct cma_id *id);

/* Port of a bound id. */
uint16_t port_number(const struct cma_id *id);

#endif
