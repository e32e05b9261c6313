/* SPDX-License-Identifier: BSD-2-Clause */
/* Subnet administration records: paths, multicast groups, services (IBTA volume 1, chapter 15). */
#ifndef INFINIBAND_SA_H
#define INFINIBAND_SA_H

#include <linux/types.h>

#include <infiniband/verbs.h>

/*
 * A selector says how to read the value of the same name: 0 greater than, 1 less than, 2 exactly, 3
 * the largest available.  mtu is enum ibv_mtu, rate enum ibv_rate; a packet life time of t means
 * 4.096 us * 2^t.  Flow labels have 20 bits, service levels 4.  These structures hold values only;
 * no call of Verbena owns or frees them, except the path of an rdma_cm_id.
 */

/* A path as the connection manager returns it, one member per field. */
struct ibv_sa_path_rec {
	union ibv_gid dgid;
	union ibv_gid sgid;
	__be16 dlid;
	__be16 slid;
	int raw_traffic;
	__be32 flow_label;
	uint8_t hop_limit;
	uint8_t traffic_class;
	int reversible;
	uint8_t numb_path;
	__be16 pkey;
	uint8_t sl;
	uint8_t mtu_selector;
	uint8_t mtu;
	uint8_t rate_selector;
	uint8_t rate;
	uint8_t packet_life_time_selector;
	uint8_t packet_life_time;
	uint8_t preference;
};

/* A multicast group and a port's membership in it. */
struct ibv_sa_mcmember_rec {
	union ibv_gid mgid;
	union ibv_gid port_gid;
	uint32_t qkey;
	uint16_t mlid;
	uint8_t mtu_selector;
	uint8_t mtu;
	uint8_t traffic_class;
	uint16_t pkey;
	uint8_t rate_selector;
	uint8_t rate;
	uint8_t packet_life_time_selector;
	uint8_t packet_life_time;
	uint8_t sl;
	uint32_t flow_label;
	uint8_t hop_limit;
	uint8_t scope;
	uint8_t join_state;
	int proxy_join;
};

/* A service that a port offers (ServiceRecord). */
struct ibv_sa_service_rec {
	uint64_t id;
	union ibv_gid gid;
	uint16_t pkey;
	uint32_t lease; /* seconds; 0xffffffff: forever */
	uint8_t key[16];
	uint8_t name[64];
	uint8_t data8[16];
	uint16_t data16[8];
	uint32_t data32[4];
	uint64_t data64[2];
};

#define IBV_PATH_RECORD_REVERSIBLE 0x80 /* in reversible_numpath */

/*
 * A path in the layout of the wire; several fields share a member, the first named in the highest
 * bits.
 */
struct ibv_path_record {
	__be64 service_id;
	union ibv_gid dgid;
	union ibv_gid sgid;
	__be16 dlid;
	__be16 slid;
	__be32 flowlabel_hoplimit; /* reserved 4, flow label 20, hop limit 8 */
	uint8_t tclass;
	uint8_t reversible_numpath; /* reversible 1, number of paths 7 */
	__be16 pkey;
	__be16 qosclass_sl;	/* QoS class 12, service level 4 */
	uint8_t mtu;		/* selector 2, value 6 */
	uint8_t rate;		/* selector 2, value 6 */
	uint8_t packetlifetime; /* selector 2, value 6 */
	uint8_t preference;
	uint8_t reserved[6];
};

/* What a path in a list may be used for. */
#define IBV_PATH_FLAG_GMP	      (1 << 0)
#define IBV_PATH_FLAG_PRIMARY	      (1 << 1)
#define IBV_PATH_FLAG_ALTERNATE	      (1 << 2)
#define IBV_PATH_FLAG_OUTBOUND	      (1 << 3)
#define IBV_PATH_FLAG_INBOUND	      (1 << 4)
#define IBV_PATH_FLAG_INBOUND_REVERSE (1 << 5)
#define IBV_PATH_FLAG_BIDIRECTIONAL   (IBV_PATH_FLAG_OUTBOUND | IBV_PATH_FLAG_INBOUND_REVERSE)

struct ibv_path_data {
	uint32_t flags; /* IBV_PATH_FLAG_* */
	uint32_t reserved;
	struct ibv_path_record path;
};

#endif
