/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive side scaling: Toeplitz hash over the fields that a program selected, in the order of
 * Microsoft's RSS specification: addresses, then ports or SPI. A field that is not in the frame
 * counts as zero. Of two addresses, and of two ports, the lower one comes first: mlx5 has a
 * symmetric hash, by which both directions of a connection reach one queue.
 */
#ifndef VRB_FLOW_HASH_H
#define VRB_FLOW_HASH_H

#include <stdint.h>

#include <infiniband/verbs.h>

#include "flow/dissect.h"

#define FLOW_HASH_KEY 40

/* All supported fields, as a device reports them. */
#define FLOW_HASH_FIELDS                                                                           \
	((uint64_t)IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 | IBV_RX_HASH_SRC_IPV6 |            \
	 IBV_RX_HASH_DST_IPV6 | IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP |              \
	 IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP | IBV_RX_HASH_IPSEC_SPI |             \
	 (uint64_t)IBV_RX_HASH_INNER)

struct flow_hash {
	uint64_t fields;
	uint8_t key[FLOW_HASH_KEY];
};

/*
 * Returns 0; EINVAL for a key of another length, or fields of two protocols of one layer;
 * EOPNOTSUPP for another function or unknown fields.  No fields: every frame has the hash 0.
 */
int flow_hash_init(struct flow_hash *h, const struct ibv_rx_hash_conf *conf);

uint32_t flow_hash(const struct flow_hash *h, const struct flow_key *key);

#endif
