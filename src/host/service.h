/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Services: which process of the host has bound which service id of communication management, and who
 * listens.  A port of rdma_cm is the host's, not a process's; it has nothing to do with the ports of TCP and
 * UDP.
 *
 * They are kept in a file of the run directory, "services", which docs/HOST.md draws: a hash table of
 * buckets, one page each, read and written in place, changed under the table lock.  An entry names its
 * process's slot and incarnation, so what a dead process had bound is free at once; whoever needs the room
 * takes it.  In private mode the process keeps them for itself.
 *
 * Thread-safe, as host.h says.
 */
#ifndef VRB_HOST_SERVICE_H
#define VRB_HOST_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "util/net.h"

struct host;

struct host_service {
	uint64_t service_id;	/* its low 16 bits are the port */
	struct net_addr addr;	/* zero: any */
	uint32_t ifindex;	/* of a link-local address; else 0 */
	uint8_t family;		/* 4, 6; 0: by GID */
	bool only_family;	/* of another family's sharing: an IPv6 id with "any" would take IPv4 requests too, if not for this */
	bool reuse;		/* shares its port with others that do, until somebody listens */
};

/*
 * Binds; port 0 becomes a free one.  Returns 0 and where the entry is; EADDRINUSE: the same address is bound;
 * EADDRNOTAVAIL: one of the two is any, or there is no free port; ENOBUFS: too many share the port; EBUSY:
 * another process holds the table's lock and does not go on; or why the file cannot be used.
 */
int host_service_bind(struct host *h, struct host_service *s, uint32_t *at);

/* From now on requests may come. It does not share any more: the errors are those of binding. */
int host_service_listen(struct host *h, uint32_t at);

void host_service_unbind(struct host *h, uint32_t at);

/*
 * Who listens for requests to a service at an address of this network namespace?  family: of the request, as
 * above.  Returns its slot, which may be this process's own (HOST_NO_SLOT in private mode), and true; or
 * false.
 */
bool host_service_find(struct host *h, uint64_t service_id, const struct net_addr *addr, uint32_t ifindex, uint8_t family,
		       int *slot, uint64_t *incarnation);

#endif
