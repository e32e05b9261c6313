/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Services: which process of the host has bound which service id of communication management, and
 * which one listens. An rdma_cm port belongs to the host, not to a process, and is unrelated to TCP
 * and UDP ports.
 *
 * They are stored in the file "services" of the run directory (docs/HOST.md): a hash table with
 * buckets of one page, read and written in place, changed under the table lock. An entry names its
 * process's slot and incarnation, so entries of a dead process are free at once, and are
 * overwritten when the space is needed. In private mode the process keeps them in its own memory.
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
	/* of another family's sharing: an IPv6 id with "any" would take IPv4 requests too, if not
	 * for this */
	bool only_family;
	bool reuse;		/* shares its port with others that do, until one listens */
};

/*
 * Binds; port 0 becomes a free one.  Returns 0 and where the entry is; EADDRINUSE: the same address
 * is bound; EADDRNOTAVAIL: one of the two is any, or there is no free port; ENOBUFS: too many share
 * the port; EBUSY: another process holds the table's lock and does not go on; or why the file
 * cannot be used.
 */
int host_service_bind(struct host *h, struct host_service *s, uint32_t *at);

/* From now on requests may come. It does not share any more: the errors are those of binding. */
int host_service_listen(struct host *h, uint32_t at);

/*
 * Whether it takes IPv4 too, or IPv6 only, from now on.  Before it listens nothing conflicts with
 * that.  Returns 0, EINVAL (no such entry), or what host_service_bind() returns of the table.
 */
int host_service_only_family(struct host *h, uint32_t at, bool only);

void host_service_unbind(struct host *h, uint32_t at);

/*
 * Which process listens for requests to a service at an address of this network namespace?  family:
 * of the request, as above.  Returns its slot, which may be this process's own (HOST_NO_SLOT in
 * private mode), and true; or false.
 */
bool host_service_find(struct host *h, uint64_t service_id, const struct net_addr *addr,
		       uint32_t ifindex, uint8_t family, int *slot, uint64_t *incarnation);

#endif
