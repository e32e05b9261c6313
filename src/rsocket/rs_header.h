/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Headers of datagrams: on UDP, where two rsockets exchange their queue pair numbers, and on the
 * queue pairs afterwards.
 */
#ifndef VRB_RSOCKET_RS_HEADER_H
#define VRB_RSOCKET_RS_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	RS_UDP_DATA = 0,    /* a datagram follows; the receiver answers with RS_UDP_CONTROL */
	RS_UDP_CONTROL = 7, /* no data follows */

	RS_UDP_HEADER_MAX = 28,
	RS_UD_HEADER_MAX = 24,
};

/* Address and port; IPv4 in the first four bytes. */
struct rs_from {
	uint8_t version; /* 4 or 6 */
	uint16_t port;   /* UD only */
	uint8_t ip[16];
};

struct rs_udp_header {
	uint8_t op;
	uint32_t qpn;
	struct rs_from from;
};

/* Return the header's length. */
size_t rs_udp_encode(uint8_t out[RS_UDP_HEADER_MAX], const struct rs_udp_header *h);
size_t rs_ud_encode(uint8_t out[RS_UD_HEADER_MAX], const struct rs_from *from);

/* Return the header's length, or 0 if it is invalid. */
size_t rs_udp_decode(const uint8_t *data, size_t len, struct rs_udp_header *h);
size_t rs_ud_decode(const uint8_t *data, size_t len, struct rs_from *from);

#endif
