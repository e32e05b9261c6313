/* SPDX-License-Identifier: BSD-2-Clause */
/* Chapter of verbs.h: addresses on the network, address handles, multicast, link rates. */
#ifndef INFINIBAND_VERBS_ADDRESS_H
#define INFINIBAND_VERBS_ADDRESS_H

#include <infiniband/verbs/context.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* What the global route header (on RoCE: the IP header) of packets on a path contains. */
struct ibv_global_route {
	union ibv_gid dgid;
	uint32_t flow_label; /* 20 bits */
	uint8_t sgid_index;  /* in the GID table of the port: the source address */
	uint8_t hop_limit;   /* routers on the path, at most */
	uint8_t traffic_class; /* DSCP 6, ECN 2 bits */
};

/* A global route header as it lies in the first 40 bytes of a UD receive buffer. */
struct ibv_grh {
	__be32 version_tclass_flow; /* version 4, traffic class 8, flow label 20 bits */
	__be16 paylen;
	uint8_t next_hdr;
	uint8_t hop_limit;
	union ibv_gid sgid;
	union ibv_gid dgid;
};

/* A destination and the path to it. */
struct ibv_ah_attr {
	struct ibv_global_route grh; /* if is_global */
	uint16_t dlid;		/* InfiniBand only, as src_path_bits */
	uint8_t sl;		/* 0..15 */
	uint8_t src_path_bits;	/* 0..2^lmc - 1 */
	uint8_t static_rate; /* enum ibv_rate */
	/* grh describes the path; required on RoCE devices without LIDs */
	uint8_t is_global;
	uint8_t port_num;
};

/* An address handle, of a PD: UD sends on QPs of that PD may name it. */
struct ibv_ah {
	struct ibv_context *context;
	struct ibv_pd *pd;
	uint32_t handle;
};

/*
 * Creates an address handle for UD sends; may wait for address resolution.  EINVAL: also if the
 * entry of the GID table is empty.  ETIMEDOUT, EHOSTUNREACH: the destination cannot be reached.
 * ibv_create_ah(3)
 */
struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);

/*
 * Fills the address that answers a received UD message: `wc` is its completion, `grh` the first 40
 * bytes of its buffer (read only if the completion has IBV_WC_GRH).  Returns 0, or -1 and errno.
 * ibv_create_ah_from_wc(3)
 */
int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
			struct ibv_grh *grh, struct ibv_ah_attr *ah_attr);

/* ibv_init_ah_from_wc() and ibv_create_ah() in one.  ibv_create_ah_from_wc(3) */
struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				     uint8_t port_num);

/* Destroys a handle; its work requests must have completed.  ibv_create_ah(3) */
int ibv_destroy_ah(struct ibv_ah *ah);

/*
 * Attaches a UD QP to a multicast group, whose packets it then receives; `lid` matters on
 * InfiniBand only.  ibv_attach_mcast(3)
 */
int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

/* Detaches it.  EINVAL: the QP is not attached to the group.  ibv_attach_mcast(3) */
int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

#define ETHERNET_LL_SIZE 6

/*
 * Returns the Ethernet address (and VLAN, 0xffff for none) of a destination GID; may wait for
 * address resolution.  The result is 0, or a negative errno value.
 */
int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid);

/* UDP source ports of RoCEv2 are derived from the flow label and lie in this range. */
#define IB_ROCE_UDP_ENCAP_VALID_PORT_MIN (0xC000)
#define IB_ROCE_UDP_ENCAP_VALID_PORT_MAX (0xFFFF)
#define IB_GRH_FLOWLABEL_MASK		 (0x000FFFFF)

/* Folds the 20 bits of a flow label to 14 and puts them into the range. */
static inline uint16_t ibv_flow_label_to_udp_sport(uint32_t fl)
{
	uint32_t folded = (fl ^ ((fl & 0xFC000) >> 14)) & 0x3FFF;

	return (uint16_t)(IB_ROCE_UDP_ENCAP_VALID_PORT_MIN | folded);
}

/* ---- Link rates ---- */

/* Values of the static rate and of PathRecord:Rate (IBTA volume 1). */
enum ibv_rate {
	IBV_RATE_MAX = 0, /* no limit */
	IBV_RATE_2_5_GBPS = 2,
	IBV_RATE_10_GBPS = 3,
	IBV_RATE_30_GBPS = 4,
	IBV_RATE_5_GBPS = 5,
	IBV_RATE_20_GBPS = 6,
	IBV_RATE_40_GBPS = 7,
	IBV_RATE_60_GBPS = 8,
	IBV_RATE_80_GBPS = 9,
	IBV_RATE_120_GBPS = 10,
	IBV_RATE_14_GBPS = 11,
	IBV_RATE_56_GBPS = 12,
	IBV_RATE_112_GBPS = 13,
	IBV_RATE_168_GBPS = 14,
	IBV_RATE_25_GBPS = 15,
	IBV_RATE_100_GBPS = 16,
	IBV_RATE_200_GBPS = 17,
	IBV_RATE_300_GBPS = 18,
	IBV_RATE_28_GBPS = 19,
	IBV_RATE_50_GBPS = 20,
	IBV_RATE_400_GBPS = 21,
	IBV_RATE_600_GBPS = 22,
	IBV_RATE_800_GBPS = 23,
	IBV_RATE_1200_GBPS = 24,
};

/* Returns a rate as a multiple of 2.5 Gbit/s, -1 if it is none.  ibv_rate_to_mult(3) */
__attribute__((const)) int ibv_rate_to_mult(enum ibv_rate rate);

/* Returns the rate of `mult` x 2.5 Gbit/s, IBV_RATE_MAX if there is none.  ibv_rate_to_mult(3) */
__attribute__((const)) enum ibv_rate mult_to_ibv_rate(int mult);

/* Returns a rate in Mbit/s, -1 if it is none.  ibv_rate_to_mbps(3) */
__attribute__((const)) int ibv_rate_to_mbps(enum ibv_rate rate);

/* Returns the rate of `mbps` Mbit/s, IBV_RATE_MAX if there is none.  ibv_rate_to_mbps(3) */
__attribute__((const)) enum ibv_rate mbps_to_ibv_rate(int mbps);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
