/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Services: the processes of the host that have bound a service id of communication management, and
 * those that listen. An rdma_cm port belongs to the host, not to a process, and is unrelated to TCP
 * and UDP ports.
 *
 * They are stored in the file "services" of the run directory (docs/HOST.md): a hash table with
 * buckets of one page, read and written in place, changed under the table lock. An entry names its
 * process's slot and incarnation, so entries of a dead process are free, and are overwritten when
 * space is needed. In private mode the process keeps them in its own memory.
 *
 * Thread-safe, like host.h.
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
	uint32_t ifindex;	/* for a link-local address; else 0 */
	uint8_t family;		/* 4, 6; 0: by GID */
	/* an IPv6 id bound to "any" does not accept IPv4 requests */
	bool only_family;
	bool reuse;		/* shares its port with other such ids, until one listens */
};

/*
 * Binds; port 0 selects a free one. Returns 0 and the position of the entry; EADDRINUSE: the same
 * address is bound; EADDRNOTAVAIL: an overlapping address is bound, one of the two being "any", or
 * no port is free; ENOBUFS: the table is full; EBUSY: another process holds the table's lock and
 * makes no progress; or the error of the file.
 */
int host_service_bind(struct host *h, struct host_service *s, uint32_t *at);

/* Starts to listen. The port is no longer shared, hence the same errors as for binding. */
int host_service_listen(struct host *h, uint32_t at);

/*
 * Selects IPv6 only, or both families. Before it listens, nothing conflicts with this. Returns 0,
 * EINVAL (no such entry), or an error of the table as host_service_bind().
 */
int host_service_only_family(struct host *h, uint32_t at, bool only);

/*
 * It listens no more and does not hold its port, but is found until it is unbound if nobody listens
 * there: for repetitions of requests that its process has yet to answer.
 */
void host_service_end_listening(struct host *h, uint32_t at);

void host_service_unbind(struct host *h, uint32_t at);

/*
 * Finds the process that listens for requests to a service at an address of this network namespace,
 * or else one that did. family: of the request, as above. Returns true and its slot, which may be
 * this process's own (HOST_NO_SLOT in private mode); or false.
 */
bool host_service_find(struct host *h, uint64_t service_id, const struct net_addr *addr,
		       uint32_t ifindex, uint8_t family, int *slot, uint64_t *incarnation);

#endif
