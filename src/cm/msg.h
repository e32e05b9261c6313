/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of communication management (IBTA volume 1, chapter 12) in host byte order.  All access
 * to their wire format is in msg.c.
 *
 * Private data always has the full length of its field, padded with zeroes: the wire has no length
 * for it.  Reserved bits are ignored when decoding and zero when encoding.
 */
#ifndef VRB_CM_MSG_H
#define VRB_CM_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/net.h"

enum {
	CM_MAD_LEN = 256,
	CM_ATTRIBUTE_AT = 16,	/* offset of the attribute ID in a MAD, 16 bits */

	CM_REQ_PRIVATE = 92,	/* includes the IP header, if present */
	CM_REP_PRIVATE = 196,
	CM_RTU_PRIVATE = 224,
	CM_REJ_PRIVATE = 148,
	CM_MRA_PRIVATE = 222,
	CM_DREQ_PRIVATE = 220,
	CM_DREP_PRIVATE = 224,
	CM_SIDR_REQ_PRIVATE = 216,
	CM_SIDR_REP_PRIVATE = 136,
	CM_LAP_PRIVATE = 168,
	CM_APR_PRIVATE = 148,
	CM_REJ_INFO = 72,
	CM_SIDR_INFO = 72,
	CM_APR_INFO = 72,

	/* Annex A11; precedes the consumer's private data in REQ and SIDR_REQ */
	CM_IP_HEADER_LEN = 36,
};

/* Attribute ids. */
enum cm_type {
	CM_REQ = 0x10,
	CM_MRA,
	CM_REJ,
	CM_REP,
	CM_RTU,
	CM_DREQ,
	CM_DREP,
	CM_SIDR_REQ,
	CM_SIDR_REP,
	CM_LAP,
	CM_APR,
};

/* REQ: transport service type. */
enum cm_transport {
	CM_RC,
	CM_UC,
	CM_RD,
	CM_EXTENDED,	/* see ext_transport */
};

enum { CM_EXT_XRC = 1 };

/* REJ and MRA: the message that is rejected or acknowledged. */
enum cm_about {
	CM_ABOUT_REQ,
	CM_ABOUT_REP,
	CM_ABOUT_OTHER,	/* MRA: LAP */
};

enum cm_rej_reason {
	CM_REJ_NO_QP = 1,
	CM_REJ_NO_EEC,
	CM_REJ_NO_RESOURCES,
	CM_REJ_TIMEOUT,
	CM_REJ_UNSUPPORTED,
	CM_REJ_INVALID_COMM_ID,
	CM_REJ_INVALID_COMM_INSTANCE,
	CM_REJ_INVALID_SERVICE_ID,
	CM_REJ_INVALID_TRANSPORT_TYPE,
	CM_REJ_STALE_CONN,
	CM_REJ_RDC_NOT_EXIST,
	CM_REJ_INVALID_GID,
	CM_REJ_INVALID_LID,
	CM_REJ_INVALID_SL,
	CM_REJ_INVALID_TRAFFIC_CLASS,
	CM_REJ_INVALID_HOP_LIMIT,
	CM_REJ_INVALID_PACKET_RATE,
	CM_REJ_INVALID_ALT_GID,
	CM_REJ_INVALID_ALT_LID,
	CM_REJ_INVALID_ALT_SL,
	CM_REJ_INVALID_ALT_TRAFFIC_CLASS,
	CM_REJ_INVALID_ALT_HOP_LIMIT,
	CM_REJ_INVALID_ALT_PACKET_RATE,
	CM_REJ_PORT_CM_REDIRECT,
	CM_REJ_PORT_REDIRECT,
	CM_REJ_INVALID_MTU,
	CM_REJ_INSUFFICIENT_RESP_RESOURCES,
	CM_REJ_CONSUMER,
	CM_REJ_RNR_RETRY,
	CM_REJ_DUPLICATE_LOCAL_COMM_ID,
	CM_REJ_INVALID_CLASS_VERSION,
	CM_REJ_INVALID_FLOW_LABEL,
	CM_REJ_INVALID_ALT_FLOW_LABEL,
	CM_REJ_VENDOR_OPTION = 35,
};

enum cm_sidr_status {
	CM_SIDR_OK,
	CM_SIDR_NO_SERVICE,
	CM_SIDR_REJECTED,
	CM_SIDR_NO_QP,
	CM_SIDR_REDIRECT,
	CM_SIDR_VERSION,
};

/* APR: result of loading the alternate path. */
enum cm_apr_status {
	CM_APR_LOADED,
	CM_APR_INVALID_COMM_INSTANCE,
	CM_APR_UNSUPPORTED,
	CM_APR_REJECTED,
};

/* A path in a REQ or LAP, from the sender's point of view. */
struct cm_wire_path {
	uint16_t local_lid, remote_lid;
	struct net_addr local_gid, remote_gid;
	uint32_t flow_label;	/* 20 bits */
	uint8_t rate;		/* 6 bits */
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint8_t sl;		/* 4 bits */
	bool subnet_local;
	uint8_t ack_timeout;	/* 5 bits; 4.096 us * 2^n, like all times here */
};

struct cm_req {
	uint32_t local_id;
	uint32_t vendor_id;	/* ECE, 24 bits; its options are cm_msg.modifier */
	uint64_t service_id;
	uint64_t ca_guid;
	uint32_t qkey;
	uint32_t qpn;		/* 24 bits, like both EECNs and psn */
	uint32_t local_eecn, remote_eecn;
	uint32_t psn;		/* the PSN that the receiver starts sending with */
	uint8_t responder_resources, initiator_depth;
	uint8_t remote_response_timeout;	/* time the receiver may take to reply */
	uint8_t local_response_timeout;		/* time the sender may take to reply to a REP */
	uint8_t transport;	/* enum cm_transport */
	uint8_t ext_transport;	/* 3 bits */
	bool flow_control, rdc_exists, srq, sap_supported;
	uint8_t retry_count, rnr_retry;
	uint8_t max_cm_retries;	/* 4 bits */
	uint16_t pkey;
	uint8_t mtu;		/* enum ibv_mtu */
	struct cm_wire_path primary, alternate;
	uint8_t private_data[CM_REQ_PRIVATE];
};

struct cm_rep {
	uint32_t local_id, remote_id;
	uint32_t vendor_id;
	uint64_t ca_guid;
	uint32_t qkey;
	uint32_t qpn;
	uint32_t eecn;		/* XRC target: its QP number, and qpn is 0 */
	uint32_t psn;
	uint8_t responder_resources, initiator_depth;
	uint8_t target_ack_delay;	/* 5 bits */
	uint8_t failover;	/* 2 bits; 0: accepted */
	bool flow_control, srq;
	uint8_t rnr_retry;
	uint8_t private_data[CM_REP_PRIVATE];
};

struct cm_rtu {
	uint32_t local_id, remote_id;
	uint8_t private_data[CM_RTU_PRIVATE];
};

struct cm_rej {
	uint32_t local_id, remote_id;
	uint8_t about;		/* enum cm_about */
	uint8_t info_len;	/* at most CM_REJ_INFO */
	uint16_t reason;	/* enum cm_rej_reason, or any other number */
	uint8_t info[CM_REJ_INFO];
	uint8_t private_data[CM_REJ_PRIVATE];
};

struct cm_mra {
	uint32_t local_id, remote_id;
	uint8_t about;		/* enum cm_about */
	uint8_t service_timeout;
	uint8_t private_data[CM_MRA_PRIVATE];
};

struct cm_dreq {
	uint32_t local_id, remote_id;
	uint32_t remote_qpn;	/* the receiver's */
	uint8_t private_data[CM_DREQ_PRIVATE];
};

struct cm_drep {
	uint32_t local_id, remote_id;
	uint8_t private_data[CM_DREP_PRIVATE];
};

struct cm_sidr_req {
	uint32_t request_id;	/* the sender's local communication id */
	uint16_t pkey;
	uint64_t service_id;
	uint8_t private_data[CM_SIDR_REQ_PRIVATE];
};

struct cm_sidr_rep {
	uint32_t request_id;
	uint8_t status;		/* enum cm_sidr_status, or any other number */
	uint8_t info_len;	/* at most CM_SIDR_INFO */
	uint32_t vendor_id;
	uint32_t qpn;
	uint64_t service_id;
	uint32_t qkey;
	uint8_t info[CM_SIDR_INFO];
	uint8_t private_data[CM_SIDR_REP_PRIVATE];
};

struct cm_lap {
	uint32_t local_id, remote_id;
	uint32_t remote_qpn;
	uint8_t remote_response_timeout;
	struct cm_wire_path alternate;
	uint8_t private_data[CM_LAP_PRIVATE];
};

struct cm_apr {
	uint32_t local_id, remote_id;
	uint8_t info_len;	/* at most CM_APR_INFO */
	uint8_t status;		/* enum cm_apr_status, or any other number */
	uint8_t info[CM_APR_INFO];
	uint8_t private_data[CM_APR_PRIVATE];
};

struct cm_msg {
	enum cm_type type;
	uint64_t tid;
	uint32_t modifier;	/* attribute modifier: ECE options of REQ, REP and SIDR_REP */
	union {
		struct cm_req req;
		struct cm_mra mra;
		struct cm_rej rej;
		struct cm_rep rep;
		struct cm_rtu rtu;
		struct cm_dreq dreq;
		struct cm_drep drep;
		struct cm_sidr_req sidr_req;
		struct cm_sidr_rep sidr_rep;
		struct cm_lap lap;
		struct cm_apr apr;
	};
};

enum cm_decoded {
	CM_DECODED,
	CM_NOT_CM,	/* not for the CM: wrong length, version, class or method */
	CM_UNKNOWN,	/* CM class, but an unknown attribute */
};

/* If it returns CM_DECODED, all members are within the ranges given above, for any input. */
enum cm_decoded cm_decode(struct cm_msg *m, const uint8_t *mad, size_t len);

/*
 * Decodes only what stateless.h needs, at a third of the cost: type, transaction, ids, service id,
 * the reason of a REJ, private data.  Other members are 0.
 */
enum cm_decoded cm_decode_head(struct cm_msg *m, const uint8_t *mad, size_t len);

/* Writes all CM_MAD_LEN bytes.  Members wider than their field are truncated. */
void cm_encode(uint8_t mad[CM_MAD_LEN], const struct cm_msg *m);

/* The type's name, such as "REQ"; and the meaning of a REJ reason, or NULL if it is unknown. */
const char *cm_type_name(enum cm_type type);
const char *cm_rej_reason_text(unsigned int reason);

/* The IP header of Annex A11. Addresses are GIDs: ::ffff:a.b.c.d for IPv4. */
struct cm_ip_header {
	uint8_t version;	/* 0; a REQ with any other version is rejected */
	uint8_t ip_version;	/* 4 or 6; with any other value there is no IP header */
	uint16_t src_port;	/* active side's port; the destination port is in the service id */
	struct net_addr src, dst;
};

void cm_ip_header_decode(struct cm_ip_header *h, const uint8_t private_data[CM_IP_HEADER_LEN]);
void cm_ip_header_encode(uint8_t private_data[CM_IP_HEADER_LEN], const struct cm_ip_header *h);

/* Decodes the header of a REQ or SIDR_REQ.  Returns the IP version; 0: it has no header. */
uint8_t cm_ip_header_of(struct cm_ip_header *h, const struct cm_msg *m);

/* Service ids of rdma_cm: port space (enum rdma_port_space) << 16 | port. */
static inline uint64_t cm_service_id(uint64_t port_space, uint16_t port)
{
	return port_space << 16 | port;
}

static inline uint16_t cm_service_port(uint64_t service_id)
{
	return (uint16_t)service_id;
}

#endif
