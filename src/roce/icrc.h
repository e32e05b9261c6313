/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The invariant CRC of RoCEv2 (IBTA Annex A17): CRC-32 over IP, UDP and transport headers and
 * payload, with every field that a router may change counted as ones. Stored in little endian after
 * the (padded) payload.
 */
#ifndef VRB_ROCE_ICRC_H
#define VRB_ROCE_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/net.h"

/*
 * Returns the ICRC of a packet that travels along path: `len` bytes at `data`, from BTH to pad,
 * without the ICRC itself. ip_id is its IPv4 identification (DF set), ignored for IPv6.
 */
uint32_t roce_icrc(const struct net_path *path, uint16_t ip_id, const uint8_t *data, size_t len);

/*
 * What packets of one path and length have in common: the CRC of the headers in front of the BTH.
 * Zero it; roce_icrc_next() and roce_icrc_check_next() compute it again when path or length differ
 * from those of the packet before. They are roce_icrc() and roce_icrc_check() otherwise.
 */
struct roce_icrc_front {
	struct net_addr src, dst;
	uint16_t src_port, dst_port;
	bool ipv4;
	size_t len;
	uint32_t crc;
};

uint32_t roce_icrc_next(struct roce_icrc_front *front, const struct net_path *path, uint16_t ip_id,
			const uint8_t *data, size_t len);

enum roce_icrc_verdict {
	ROCE_ICRC_GOOD,
	ROCE_ICRC_BAD,
	/*
	 * IPv4 with unknown identification: the CRC matches one of 65,536 values, so it proves 16
	 * of 32 bits
	 */
	ROCE_ICRC_GOOD_FOR_SOME_ID,
};

/*
 * Checks a received packet: data/len include the trailing ICRC; len >= 16. With id_known, ip_id is
 * the identification; otherwise ip_id is a guess, and if it is wrong, the identification is
 * computed from the CRC.
 */
enum roce_icrc_verdict roce_icrc_check(const struct net_path *path, bool id_known, uint16_t ip_id,
				       const uint8_t *data, size_t len);

enum roce_icrc_verdict roce_icrc_check_next(struct roce_icrc_front *front,
					    const struct net_path *path, bool id_known,
					    uint16_t ip_id, const uint8_t *data, size_t len);

/*
 * The ICRC of a FLUSH as Linux's soft RoCE computes and expects it (6.12 and 7.2, of RC): behind
 * the packet it covers BTH, FETH and RETH a second time, with the bits that a router may change.
 * The arguments are those of roce_icrc() and roce_icrc_check().
 */
uint32_t roce_icrc_soft_flush(const struct net_path *path, uint16_t ip_id, const uint8_t *data,
			      size_t len);
bool roce_icrc_is_soft_flush(const struct net_path *path, bool id_known, uint16_t ip_id,
			     const uint8_t *data, size_t len);

#endif
