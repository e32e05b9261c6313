/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Limits requests of communication management while more come than this process can look at. They
 * share sockets with data and with the answers of connections that are being made, which a flood
 * would delay, or push out of the receive buffer. So the kernel drops requests first
 * (wire/admit.h), of those sources that send most (request_share.h), until the process keeps up,
 * and those that it hands them to.
 *
 * State under vrb.poll_lock.
 */
#ifndef VRB_CORE_MAD_ADMISSION_H
#define VRB_CORE_MAD_ADMISSION_H

#include <stdbool.h>
#include <stdint.h>

#include "util/net.h"

/* A request came by the wire. */
void vrb_admission_request(const struct net_addr *src, uint64_t now);

/* A request was dropped: the inbox of the process that it is for was full. */
void vrb_admission_refused(void);

/* Its source sends more requests than can be looked at. */
bool vrb_admission_is_crowded(const struct net_addr *src);

/* With the process, in vrb_gsi_start() and vrb_gsi_stop(), and in a forked child. */
int vrb_admission_start(void);
void vrb_admission_stop(void);
void vrb_admission_forget(void);

#endif
