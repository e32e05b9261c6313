/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IP packets as IPoIB carries them in UD datagrams (RFC 4391): four bytes of encapsulation header,
 * then IPv4 or IPv6, then TCP or UDP. Implements a device's offloads for them: TCP segmentation and
 * checksums. Leaves any other packet unchanged.
 */
#ifndef VRB_ROCE_IPOIB_H
#define VRB_ROCE_IPOIB_H

#include <stdbool.h>
#include <stdint.h>

#include "util/inet.h"

/*
 * Adapts the header's lengths, IPv4 identification, TCP sequence number and flags to the segment,
 * and fills in the checksums.
 */
void ipoib_make_segment(uint8_t *datagram, uint32_t len, const struct inet_segment *s);

/* Fills in the header checksum of IPv4 and the checksum of TCP or UDP. */
void ipoib_fill_checksums(uint8_t *datagram, uint32_t len);

/* Is this such a packet, with both checksums present and correct? */
bool ipoib_checksums_ok(const uint8_t *datagram, uint32_t len);

#endif
