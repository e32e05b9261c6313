/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The private interface of libibverbs for the rsockets of librdmacm: a WRITE without a work
 * request, straight from the program's buffer. Exported as mad.h is.
 */
#ifndef VRB_VERBS_DIRECT_H
#define VRB_VERBS_DIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ibv_qp;

/*
 * Writes `len` bytes to the memory of the QP's peer, under the checks of an RDMA WRITE, if that
 * takes no packet: the peer is another process of this host. Requests that were posted before may
 * still be in flight, and complete later. The bytes may be in any memory of the process that can be
 * read, without a key; they may be changed again once the call has returned. Any thread.
 *
 * past: with stores past the caches, if the peer's memory is mapped here (run/nofault.h).
 *
 * False: the WRITE did not take place, but part of the bytes may have been written. Post it as a
 * request, which finds out what is wrong, if anything is.
 */
bool vrb_write_direct(struct ibv_qp *qp, const void *buf, size_t len, uint64_t remote_addr,
		      uint32_t rkey, bool past);

#endif
