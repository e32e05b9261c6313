/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What rdma-core's librdmacm and the kernel exchange through /dev/infiniband/rdma_cm: the numbers
 * of the commands, and a structure for each command and answer.
 *
 * Verbena has no kernel part and opens no such device; this header is here for programs that were
 * written against the one of the same name.  Every command begins with ucma_abi_cmd_hdr's members:
 * its number and the lengths of what follows and of the answer, in bytes.  "response" is the
 * address of the answer, "uid" the caller's own number for an object, "id" the kernel's.
 */
#ifndef RDMA_CMA_ABI_H
#define RDMA_CMA_ABI_H

#include <netinet/in.h>

#include <infiniband/sa.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#define RDMA_USER_CM_MIN_ABI_VERSION 3
#define RDMA_USER_CM_MAX_ABI_VERSION 4

#define RDMA_MAX_PRIVATE_DATA 256 /* bytes */

enum {
	UCMA_CMD_CREATE_ID,
	UCMA_CMD_DESTROY_ID,
	UCMA_CMD_BIND_IP,
	UCMA_CMD_RESOLVE_IP,
	UCMA_CMD_RESOLVE_ROUTE,
	UCMA_CMD_QUERY_ROUTE,
	UCMA_CMD_CONNECT,
	UCMA_CMD_LISTEN,
	UCMA_CMD_ACCEPT,
	UCMA_CMD_REJECT,
	UCMA_CMD_DISCONNECT,
	UCMA_CMD_INIT_QP_ATTR,
	UCMA_CMD_GET_EVENT,
	UCMA_CMD_GET_OPTION,
	UCMA_CMD_SET_OPTION,
	UCMA_CMD_NOTIFY,
	UCMA_CMD_JOIN_IP_MCAST,
	UCMA_CMD_LEAVE_MCAST,
	UCMA_CMD_MIGRATE_ID,
	UCMA_CMD_QUERY,
	UCMA_CMD_BIND,
	UCMA_CMD_RESOLVE_ADDR,
	UCMA_CMD_JOIN_MCAST,
};

/* How every command begins. */
#define UCMA_ABI_HEAD \
	__u32 cmd; \
	__u16 in;  \
	__u16 out;

struct ucma_abi_cmd_hdr {
	UCMA_ABI_HEAD
};

/* ---- Ids and their options ---- */

struct ucma_abi_create_id {
	UCMA_ABI_HEAD
	__u64 uid;
	__u64 response;
	__u16 ps;
	__u8 qp_type;
	__u8 reserved[5];
};

struct ucma_abi_create_id_resp {
	__u32 id;
};

struct ucma_abi_destroy_id {
	UCMA_ABI_HEAD
	__u64 response;
	__u32 id;
	__u32 reserved;
};

struct ucma_abi_destroy_id_resp {
	__u32 events_reported;
};

struct ucma_abi_migrate_id {
	UCMA_ABI_HEAD
	__u64 response;
	__u32 id;
	__u32 fd;
};

struct ucma_abi_migrate_resp {
	__u32 events_reported;
};

struct ucma_abi_set_option {
	UCMA_ABI_HEAD
	__u64 optval;
	__u32 id;
	__u32 level;
	__u32 optname;
	__u32 optlen;
};

/* ---- Addresses and paths ---- */

struct ucma_abi_bind_ip {
	UCMA_ABI_HEAD
	__u64 response;
	struct sockaddr_in6 addr;
	__u32 id;
};

struct ucma_abi_bind {
	UCMA_ABI_HEAD
	__u32 id;
	__u16 addr_size;
	__u16 reserved;
	struct sockaddr_storage addr;
};

struct ucma_abi_resolve_ip {
	UCMA_ABI_HEAD
	struct sockaddr_in6 src_addr;
	struct sockaddr_in6 dst_addr;
	__u32 id;
	__u32 timeout_ms;
};

struct ucma_abi_resolve_addr {
	UCMA_ABI_HEAD
	__u32 id;
	__u32 timeout_ms;
	__u16 src_size;
	__u16 dst_size;
	__u32 reserved;
	struct sockaddr_storage src_addr;
	struct sockaddr_storage dst_addr;
};

struct ucma_abi_resolve_route {
	UCMA_ABI_HEAD
	__u32 id;
	__u32 timeout_ms;
};

/* What ucma_abi_query asks for. */
enum {
	UCMA_QUERY_ADDR,
	UCMA_QUERY_PATH,
	UCMA_QUERY_GID,
};

struct ucma_abi_query {
	UCMA_ABI_HEAD
	__u64 response;
	__u32 id;
	__u32 option;
};

struct ucma_abi_query_addr_resp {
	__be64 node_guid;
	__u8 port_num;
	__u8 reserved;
	__be16 pkey;
	__u16 src_size;
	__u16 dst_size;
	struct sockaddr_storage src_addr;
	struct sockaddr_storage dst_addr;
	__u32 ibdev_index;
	__u32 reserved1;
};

struct ucma_abi_query_route_resp {
	__be64 node_guid;
	struct ib_user_path_rec ib_route[2];
	struct sockaddr_in6 src_addr;
	struct sockaddr_in6 dst_addr;
	__u32 num_paths;
	__u8 port_num;
	__u8 reserved[3];
	__u32 ibdev_index;
	__u32 reserved1;
};

struct ucma_abi_query_path_resp {
	__u32 num_paths;
	__u32 reserved;
	__extension__ struct ibv_path_data path_data[0];
};

/* ---- What connections and datagram services say of themselves ---- */

struct ucma_abi_conn_param {
	__u32 qp_num;
	__u32 reserved;
	__u8 private_data[RDMA_MAX_PRIVATE_DATA];
	__u8 private_data_len;
	__u8 srq;
	__u8 responder_resources;
	__u8 initiator_depth;
	__u8 flow_control;
	__u8 retry_count;
	__u8 rnr_retry_count;
	__u8 valid;
};

struct ucma_abi_ud_param {
	__u32 qp_num;
	__u32 qkey;
	struct ib_uverbs_ah_attr ah_attr;
	__u8 private_data[RDMA_MAX_PRIVATE_DATA];
	__u8 private_data_len;
	__u8 reserved[7];
	__u8 reserved2[4];
};

struct ucma_abi_ece {
	__u32 vendor_id;
	__u32 attr_mod;
};

/* ---- Connections ---- */

struct ucma_abi_listen {
	UCMA_ABI_HEAD
	__u32 id;
	__u32 backlog;
};

struct ucma_abi_connect {
	UCMA_ABI_HEAD
	struct ucma_abi_conn_param conn_param;
	__u32 id;
	__u32 reserved;
	struct ucma_abi_ece ece;
};

struct ucma_abi_accept {
	UCMA_ABI_HEAD
	__u64 uid;
	struct ucma_abi_conn_param conn_param;
	__u32 id;
	__u32 reserved;
	struct ucma_abi_ece ece;
};

struct ucma_abi_reject {
	UCMA_ABI_HEAD
	__u32 id;
	__u8 private_data_len;
	__u8 reason;
	__u8 reserved[2];
	__u8 private_data[RDMA_MAX_PRIVATE_DATA];
};

struct ucma_abi_disconnect {
	UCMA_ABI_HEAD
	__u32 id;
};

struct ucma_abi_notify {
	UCMA_ABI_HEAD
	__u32 id;
	__u32 event;
};

struct ucma_abi_init_qp_attr {
	UCMA_ABI_HEAD
	__u64 response;
	__u32 id;
	__u32 qp_state;
};

/* ---- Multicast ---- */

struct ucma_abi_join_ip_mcast {
	UCMA_ABI_HEAD
	__u64 response;
	__u64 uid;
	struct sockaddr_in6 addr;
	__u32 id;
};

struct ucma_abi_join_mcast {
	UCMA_ABI_HEAD
	__u64 response;
	__u64 uid;
	__u32 id;
	__u16 addr_size;
	__u16 join_flags;
	struct sockaddr_storage addr;
};

/* ---- Events ---- */

struct ucma_abi_get_event {
	UCMA_ABI_HEAD
	__u64 response;
};

struct ucma_abi_event_resp {
	__u64 uid;
	__u32 id;
	__u32 event;
	__u32 status;
	union {
		struct ucma_abi_conn_param conn;
		struct ucma_abi_ud_param ud;
	} param;
	struct ucma_abi_ece ece;
};

#undef UCMA_ABI_HEAD

#endif
