/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The binary interface between rdma-core's librdmacm and the kernel, /dev/infiniband/rdma_cm: the
 * numbers of the commands, and a structure for each command and answer.
 *
 * Verbena has no kernel part and opens no such device; this header is for programs that include
 * rdma-core's header of the same name.  A program fills in a command and writes it to the device.
 * Members are in host byte order unless their type says otherwise.  In all structures:
 *
 *	cmd		UCMA_CMD_*
 *	in		bytes of the command after the first 8
 *	out		bytes at `response`; 0: no answer
 *	response	address of the answer, which the caller owns
 *	id		the kernel's number of an identifier (struct rdma_cm_id)
 *	uid		the caller's number of an object; the kernel returns it in events
 */
#ifndef RDMA_CMA_ABI_H
#define RDMA_CMA_ABI_H

#include <netinet/in.h>

#include <infiniband/sa.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#define RDMA_USER_CM_MIN_ABI_VERSION 3
#define RDMA_USER_CM_MAX_ABI_VERSION 4

#define RDMA_MAX_PRIVATE_DATA        256 /* bytes */

enum {
	UCMA_CMD_CREATE_ID,     /* rdma_create_id(3) */
	UCMA_CMD_DESTROY_ID,    /* rdma_destroy_id(3) */
	UCMA_CMD_BIND_IP,       /* rdma_bind_addr(3) before UCMA_CMD_BIND */
	UCMA_CMD_RESOLVE_IP,    /* rdma_resolve_addr(3) before UCMA_CMD_RESOLVE_ADDR */
	UCMA_CMD_RESOLVE_ROUTE, /* rdma_resolve_route(3) */
	UCMA_CMD_QUERY_ROUTE,   /* answers with struct ucma_abi_query_route_resp */
	UCMA_CMD_CONNECT,       /* rdma_connect(3) */
	UCMA_CMD_LISTEN,        /* rdma_listen(3) */
	UCMA_CMD_ACCEPT,        /* rdma_accept(3) */
	UCMA_CMD_REJECT,        /* rdma_reject(3) */
	UCMA_CMD_DISCONNECT,    /* rdma_disconnect(3) */
	UCMA_CMD_INIT_QP_ATTR,  /* rdma_init_qp_attr(3); answers with QP attributes */
	UCMA_CMD_GET_EVENT,     /* rdma_get_cm_event(3) */
	UCMA_CMD_GET_OPTION,    /* not implemented by the kernel */
	UCMA_CMD_SET_OPTION,    /* rdma_set_option(3) */
	UCMA_CMD_NOTIFY,        /* rdma_notify(3) */
	UCMA_CMD_JOIN_IP_MCAST, /* rdma_join_multicast(3) before UCMA_CMD_JOIN_MCAST */
	UCMA_CMD_LEAVE_MCAST,   /* rdma_leave_multicast(3); struct ucma_abi_destroy_id */
	UCMA_CMD_MIGRATE_ID,    /* rdma_migrate_id(3) */
	UCMA_CMD_QUERY,         /* address, path or GIDs of an identifier */
	UCMA_CMD_BIND,          /* rdma_bind_addr(3) */
	UCMA_CMD_RESOLVE_ADDR,  /* rdma_resolve_addr(3) */
	UCMA_CMD_JOIN_MCAST,    /* rdma_join_multicast(3), rdma_join_multicast_ex(3) */
	UCMA_CMD_RESOLVE_IB_SERVICE, /* rdma_resolve_addrinfo(3) */
	UCMA_CMD_WRITE_CM_EVENT,     /* rdma_write_cm_event(3) */
};

/* The first members of every command. */
#define UCMA_ABI_HEAD                                                                              \
	__u32 cmd;                                                                                 \
	__u16 in;                                                                                  \
	__u16 out;

struct ucma_abi_cmd_hdr {
	UCMA_ABI_HEAD
};

/* ---- Ids and their options ---- */

struct ucma_abi_create_id {
	UCMA_ABI_HEAD
	__u64 uid;
	__u64 response;
	__u16 ps;         /* enum rdma_port_space */
	__u8 qp_type;     /* enum ibv_qp_type */
	__u8 reserved[5]; /* 0 */
};

struct ucma_abi_create_id_resp {
	__u32 id; /* the new identifier */
};

struct ucma_abi_destroy_id {
	UCMA_ABI_HEAD
	__u64 response;
	__u32 id;
	__u32 reserved; /* 0 */
};

struct ucma_abi_destroy_id_resp {
	__u32 events_reported; /* events that the kernel has reported for the identifier */
};

struct ucma_abi_migrate_id {
	UCMA_ABI_HEAD
	__u64 response;
	__u32 id;
	__u32 fd; /* descriptor of the channel that has the identifier now */
};

struct ucma_abi_migrate_resp {
	__u32 events_reported; /* events that were read from the old channel */
};

struct ucma_abi_set_option {
	UCMA_ABI_HEAD
	__u64 optval; /* address of the value */
	__u32 id;
	__u32 level;   /* RDMA_OPTION_ID or RDMA_OPTION_IB */
	__u32 optname; /* RDMA_OPTION_ID_* or RDMA_OPTION_IB_* */
	__u32 optlen;  /* bytes at optval */
};

/* ---- Addresses and paths ---- */

struct ucma_abi_bind_ip {
	UCMA_ABI_HEAD
	__u64 response;
	struct sockaddr_in6 addr; /* IPv4 or IPv6; port 0: any */
	__u32 id;
};

struct ucma_abi_bind {
	UCMA_ABI_HEAD
	__u32 id;
	__u16 addr_size;              /* bytes used of addr */
	__u16 reserved;               /* 0 */
	struct sockaddr_storage addr; /* AF_INET, AF_INET6 or AF_IB */
};

struct ucma_abi_resolve_ip {
	UCMA_ABI_HEAD
	struct sockaddr_in6 src_addr; /* family 0: any */
	struct sockaddr_in6 dst_addr; /* IPv4 or IPv6 */
	__u32 id;
	__u32 timeout_ms; /* milliseconds */
};

struct ucma_abi_resolve_addr {
	UCMA_ABI_HEAD
	__u32 id;
	__u32 timeout_ms;                 /* milliseconds */
	__u16 src_size;                   /* bytes used of src_addr; 0: any */
	__u16 dst_size;                   /* bytes used of dst_addr */
	__u32 reserved;                   /* 0 */
	struct sockaddr_storage src_addr; /* AF_INET, AF_INET6 or AF_IB */
	struct sockaddr_storage dst_addr; /* AF_INET, AF_INET6 or AF_IB */
};

struct ucma_abi_resolve_route {
	UCMA_ABI_HEAD
	__u32 id;
	__u32 timeout_ms; /* milliseconds */
};

/* Values of ucma_abi_query.option. */
enum {
	UCMA_QUERY_ADDR, /* struct ucma_abi_query_addr_resp */
	UCMA_QUERY_PATH, /* struct ucma_abi_query_path_resp */
	UCMA_QUERY_GID,  /* struct ucma_abi_query_addr_resp with AF_IB addresses */
	UCMA_QUERY_IB_SERVICE, /* struct ucma_abi_query_ib_service_resp */
};

struct ucma_abi_query {
	UCMA_ABI_HEAD
	__u64 response;
	__u32 id;
	__u32 option; /* UCMA_QUERY_* */
};

struct ucma_abi_query_addr_resp {
	__be64 node_guid;                 /* of the device; 0: none yet */
	__u8 port_num;                    /* from 1; 0: none yet */
	__u8 reserved;                    /* 0 */
	__be16 pkey;                      /* network byte order */
	__u16 src_size;                   /* bytes used of src_addr */
	__u16 dst_size;                   /* bytes used of dst_addr */
	struct sockaddr_storage src_addr; /* AF_INET, AF_INET6 or AF_IB */
	struct sockaddr_storage dst_addr; /* AF_INET, AF_INET6 or AF_IB */
	__u32 ibdev_index;                /* as ibv_get_device_index() */
	__u32 reserved1;                  /* 0 */
};

struct ucma_abi_query_route_resp {
	__be64 node_guid;                    /* of the device; 0: none yet */
	struct ib_user_path_rec ib_route[2]; /* primary and alternate path */
	struct sockaddr_in6 src_addr;        /* IPv4 or IPv6 */
	struct sockaddr_in6 dst_addr;        /* IPv4 or IPv6 */
	__u32 num_paths;                     /* entries used of ib_route */
	__u8 port_num;                       /* from 1; 0: none yet */
	__u8 reserved[3];                    /* 0 */
	__u32 ibdev_index;                   /* as ibv_get_device_index() */
	__u32 reserved1;                     /* 0 */
};

struct ucma_abi_query_path_resp {
	__u32 num_paths;                                 /* entries of path_data */
	__u32 reserved;                                  /* 0 */
	__extension__ struct ibv_path_data path_data[0]; /* as many as fit the answer's length */
};

/* ---- Parameters of connections and datagram services ---- */

struct ucma_abi_conn_param {
	__u32 qp_num;   /* 24 bits: of the sender, if it has no QP of the identifier */
	__u32 reserved; /* 0 */
	__u8 private_data[RDMA_MAX_PRIVATE_DATA]; /* sent to the peer, or received from it */
	__u8 private_data_len;                    /* bytes used of private_data */
	__u8 srq;                                 /* 1: the sender's QP uses an SRQ */
	__u8 responder_resources; /* READs and atomics of the peer in flight, at most */
	__u8 initiator_depth;     /* own READs and atomics in flight, at most */
	__u8 flow_control;        /* 1: end-to-end credits */
	__u8 retry_count;         /* 0..7: retries after a timeout or a sequence error */
	__u8 rnr_retry_count;     /* 0..6: retries after an RNR NAK; 7: without limit */
	__u8 valid;               /* 1: the other members are set */
};

struct ucma_abi_ud_param {
	__u32 qp_num;                             /* 24 bits: of the peer */
	__u32 qkey;                               /* the peer's */
	struct ib_uverbs_ah_attr ah_attr;         /* path to the peer */
	__u8 private_data[RDMA_MAX_PRIVATE_DATA]; /* received from the peer */
	__u8 private_data_len;                    /* bytes used of private_data */
	__u8 reserved[7];                         /* 0 */
	__u8 reserved2[4];                        /* 0 */
};

struct ucma_abi_ece {
	__u32 vendor_id; /* IEEE OUI; 0: no options */
	__u32 attr_mod;  /* options, as in struct ibv_ece */
};

/* ---- Connections ---- */

struct ucma_abi_listen {
	UCMA_ABI_HEAD
	__u32 id;
	__u32 backlog; /* pending requests, at most */
};

struct ucma_abi_connect {
	UCMA_ABI_HEAD
	struct ucma_abi_conn_param conn_param; /* see rdma_connect(3) */
	__u32 id;
	__u32 reserved;          /* 0 */
	struct ucma_abi_ece ece; /* options offered to the peer */
};

struct ucma_abi_accept {
	UCMA_ABI_HEAD
	__u64 uid;
	struct ucma_abi_conn_param conn_param; /* see rdma_accept(3) */
	__u32 id;
	__u32 reserved;          /* 0 */
	struct ucma_abi_ece ece; /* options agreed to */
};

struct ucma_abi_reject {
	UCMA_ABI_HEAD
	__u32 id;
	__u8 private_data_len; /* bytes used of private_data */
	__u8 reason;           /* code of the REJ message, IBTA volume 1, 12.6.7.2 */
	__u8 reserved[2];      /* 0 */
	__u8 private_data[RDMA_MAX_PRIVATE_DATA]; /* sent to the peer */
};

struct ucma_abi_disconnect {
	UCMA_ABI_HEAD
	__u32 id;
};

struct ucma_abi_notify {
	UCMA_ABI_HEAD
	__u32 id;
	__u32 event; /* enum ibv_event_type */
};

struct ucma_abi_init_qp_attr {
	UCMA_ABI_HEAD
	__u64 response;
	__u32 id;
	__u32 qp_state; /* enum ibv_qp_state: the state whose attributes are wanted */
};

/* ---- Multicast ---- */

struct ucma_abi_join_ip_mcast {
	UCMA_ABI_HEAD
	__u64 response;
	__u64 uid;
	struct sockaddr_in6 addr; /* IPv4 or IPv6 group */
	__u32 id;
};

struct ucma_abi_join_mcast {
	UCMA_ABI_HEAD
	__u64 response;
	__u64 uid;
	__u32 id;
	__u16 addr_size;              /* bytes used of addr */
	__u16 join_flags;             /* RDMA_MC_JOIN_FLAG_* */
	struct sockaddr_storage addr; /* AF_INET, AF_INET6 or AF_IB */
};

/* ---- Events ---- */

struct ucma_abi_get_event {
	UCMA_ABI_HEAD
	__u64 response;
};

struct ucma_abi_event_resp {
	__u64 uid; /* of the identifier, or of the multicast join */
	__u32 id;
	__u32 event;  /* enum rdma_cm_event_type */
	__u32 status; /* 0, a negative errno value, or the reason of a REJ */
	union {
		struct ucma_abi_conn_param conn; /* of an identifier of RDMA_PS_TCP or RDMA_PS_IB */
		struct ucma_abi_ud_param ud; /* of an identifier of RDMA_PS_UDP or RDMA_PS_IPOIB */
	} param;
	struct ucma_abi_ece ece; /* options of the peer */
};

/* ---- Services that a subnet administrator knows, and events of programs ---- */

enum {
	UCMA_IB_SERVICE_FLAG_ID = 1 << 0,
	UCMA_IB_SERVICE_FLAG_NAME = 1 << 1,
};

#define UCMA_IB_SERVICE_NAME_SIZE 64

struct ucma_abi_ib_service {
	__u64 service_id;
	__u8 service_name[UCMA_IB_SERVICE_NAME_SIZE];
	__u32 flags; /* UCMA_IB_SERVICE_FLAG_*: which of these two is given */
	__u32 reserved;
};

struct ucma_abi_resolve_ib_service {
	UCMA_ABI_HEAD
	__u32 id;
	struct ucma_abi_ib_service ibs;
};

struct ucma_user_service_rec {
	__be64 id;
	__u8 gid[16];
	__be16 pkey;
	__u8 reserved[2];
	__be32 lease; /* seconds */
	__u8 key[16];
	__u8 name[64];
	__u8 data_8[16];
	__be16 data_16[8];
	__be32 data_32[4];
	__be64 data_64[2];
};

struct ucma_abi_query_ib_service_resp {
	__u32 num_service_recs;
	__extension__ struct ucma_user_service_rec recs[0]; /* num_service_recs */
};

struct ucma_abi_write_cm_event {
	UCMA_ABI_HEAD
	__u32 id;
	__u32 reserved;
	__u32 event; /* enum rdma_cm_event_type */
	__u32 status;
	union {
		struct ucma_abi_conn_param conn;
		struct ucma_abi_ud_param ud;
		__u64 arg;
	} param;
};

#undef UCMA_ABI_HEAD

#endif
