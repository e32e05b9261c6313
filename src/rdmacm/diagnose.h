/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Logs in one line why the program does not connect; only the first failure of the process, but
 * each call that is refused.  Programs themselves print an error number at best.  May be called
 * with any lock held.
 */
#ifndef VRB_RDMACM_DIAGNOSE_H
#define VRB_RDMACM_DIAGNOSE_H

#include <stdbool.h>

#include "util/compiler.h"

struct cma_id;
struct net_addr;

/* The peer rejected a request. */
void diagnose_rejected(const struct cma_id *id, unsigned int reason);

/*
 * A request was not answered and is retried, or (last) given up.  For a retry only an ICMP error is
 * logged.
 */
void diagnose_silence(const struct cma_id *id, bool last);

/* A call with wrong arguments, or at the wrong time: logs why at info. Returns EINVAL. */
int diagnose_invalid(const char *fmt, ...) format_printf(1, 2);

/* The next hop to the id's destination did not answer ARP or ND before the timeout. */
void diagnose_no_neighbour(const struct cma_id *id, const struct net_addr *hop);

/* An id or channel of the parent process is used in a forked child; told once. Returns EIO. */
int diagnose_inherited(void);

/* The route to the id's destination starts at src, which no device has. */
void diagnose_no_device(const struct cma_id *id, const struct net_addr *src);

#endif
