/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Chapter of verbs.h: finding and opening devices; attributes of devices, ports and address tables;
 * asynchronous events; names of values. The conventions are in verbs.h.
 */
#ifndef INFINIBAND_VERBS_DEVICE_H
#define INFINIBAND_VERBS_DEVICE_H

#include <infiniband/verbs/context.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* ---- Finding and opening devices ---- */

/*
 * Returns all devices in a NULL-terminated array, and their number in *num_devices if that is not
 * NULL. An empty array is not an error. The caller frees it with ibv_free_device_list(). Errors:
 * ENOSYS, EPERM. ibv_get_device_list(3)
 */
struct ibv_device **ibv_get_device_list(int *num_devices);

/* Frees the array, and the devices that no context has open. ibv_get_device_list(3) */
void ibv_free_device_list(struct ibv_device **list);

/* Returns the name, which is valid for the lifetime of the device. ibv_get_device_name(3) */
const char *ibv_get_device_name(struct ibv_device *device);

/*
 * Returns a small number that identifies the device while the host runs, or -1.
 * ibv_get_device_index(3)
 */
int ibv_get_device_index(struct ibv_device *device);

/* Returns the node GUID, 0 on failure.  ibv_get_device_guid(3) */
__be64 ibv_get_device_guid(struct ibv_device *device);

/*
 * Opens a new context of the device.  Context and device stay valid after the list is freed.
 * ibv_open_device(3)
 */
struct ibv_context *ibv_open_device(struct ibv_device *device);

/*
 * Closes the context. Objects created in it and not destroyed are leaked, not released.
 * ibv_open_device(3)
 */
int ibv_close_device(struct ibv_context *context);

/*
 * Returns a context that shares the objects of another one, given its cmd_fd; the new context takes
 * over the descriptor. ibv_import_device(3)
 */
struct ibv_context *ibv_import_device(int cmd_fd);

enum ibv_fork_status {
	IBV_FORK_DISABLED, /* ibv_fork_init() was not called or failed */
	IBV_FORK_ENABLED,
	IBV_FORK_UNNEEDED, /* fork() is always safe here */
};

/*
 * Makes fork() safe for registered memory; call it before all other verbs.  EINVAL: too late.
 * ibv_fork_init(3)
 */
int ibv_fork_init(void);

/* Returns whether fork() is safe. ibv_is_fork_initialized(3) */
enum ibv_fork_status ibv_is_fork_initialized(void);

/* ---- Device attributes ---- */

enum ibv_device_cap_flags {
	IBV_DEVICE_RESIZE_MAX_WR = 1 << 0,
	IBV_DEVICE_BAD_PKEY_CNTR = 1 << 1,
	IBV_DEVICE_BAD_QKEY_CNTR = 1 << 2,
	IBV_DEVICE_RAW_MULTI = 1 << 3,
	IBV_DEVICE_AUTO_PATH_MIG = 1 << 4,
	IBV_DEVICE_CHANGE_PHY_PORT = 1 << 5,
	IBV_DEVICE_UD_AV_PORT_ENFORCE = 1 << 6,
	IBV_DEVICE_CURR_QP_STATE_MOD = 1 << 7,
	IBV_DEVICE_SHUTDOWN_PORT = 1 << 8,
	IBV_DEVICE_INIT_TYPE = 1 << 9,
	IBV_DEVICE_PORT_ACTIVE_EVENT = 1 << 10,
	IBV_DEVICE_SYS_IMAGE_GUID = 1 << 11,
	IBV_DEVICE_RC_RNR_NAK_GEN = 1 << 12,
	IBV_DEVICE_SRQ_RESIZE = 1 << 13,
	IBV_DEVICE_N_NOTIFY_CQ = 1 << 14,
	IBV_DEVICE_MEM_WINDOW = 1 << 17,
	IBV_DEVICE_UD_IP_CSUM = 1 << 18,
	IBV_DEVICE_XRC = 1 << 20,
	IBV_DEVICE_MEM_MGT_EXTENSIONS = 1 << 21,
	IBV_DEVICE_MEM_WINDOW_TYPE_2A = 1 << 23,
	IBV_DEVICE_MEM_WINDOW_TYPE_2B = 1 << 24,
	IBV_DEVICE_RC_IP_CSUM = 1 << 25,
	IBV_DEVICE_RAW_IP_CSUM = 1 << 26,
	IBV_DEVICE_MANAGED_FLOW_STEERING = 1 << 29,
};

/* Further capabilities, beyond the 32 bits of an enum: in device_cap_flags_ex only. */
#define IBV_DEVICE_RAW_SCATTER_FCS	 (1ULL << 34)
#define IBV_DEVICE_PCI_WRITE_END_PADDING (1ULL << 36)
#define IBV_DEVICE_CC_DMA_BOUNCE	 (1ULL << 41) /* from release 65 */

enum ibv_atomic_cap {
	IBV_ATOMIC_NONE,
	IBV_ATOMIC_HCA,	 /* atomic with respect to this device */
	IBV_ATOMIC_GLOB, /* and to the processors and other devices */
};

struct ibv_device_attr {
	char fw_ver[64];
	__be64 node_guid;
	__be64 sys_image_guid;
	uint64_t max_mr_size;	/* bytes */
	uint64_t page_size_cap; /* bit n: pages of 2^n bytes */
	uint32_t vendor_id;	/* IEEE OUI */
	uint32_t vendor_part_id;
	uint32_t hw_ver;
	int max_qp;	 /* QPs; all limits are maximum values of the device */
	int max_qp_wr;	 /* work requests in one queue */
	unsigned int device_cap_flags; /* enum ibv_device_cap_flags */
	int max_sge;	 /* of any request but RDMA READ */
	int max_sge_rd;	 /* of RDMA READ */
	int max_cq;
	int max_cqe;	 /* entries of one CQ */
	int max_mr;
	int max_pd;
	int max_qp_rd_atom;	 /* READs and atomics in flight toward one QP */
	int max_ee_rd_atom;	 /* "ee", "rdd": reliable datagram only */
	int max_res_rd_atom;	 /* READs and atomics in flight toward all QPs */
	int max_qp_init_rd_atom; /* READs and atomics in flight from one QP */
	int max_ee_init_rd_atom;
	enum ibv_atomic_cap atomic_cap;
	int max_ee;
	int max_rdd;
	int max_mw;
	int max_raw_ipv6_qp;
	int max_raw_ethy_qp;
	int max_mcast_grp;
	int max_mcast_qp_attach; /* QPs in one multicast group */
	int max_total_mcast_qp_attach;
	int max_ah;
	int max_fmr;		 /* kernel only, as max_map_per_fmr */
	int max_map_per_fmr;
	int max_srq;
	int max_srq_wr;		 /* receives in one SRQ */
	int max_srq_sge;	 /* of a receive in an SRQ */
	uint16_t max_pkeys;	 /* entries of a port's table */
	uint8_t local_ca_ack_delay; /* t: 4.096 us * 2^t */
	uint8_t phys_port_cnt;
};

/* Returns the device's capabilities and limits. ibv_query_device(3) */
int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *device_attr);

enum ibv_odp_transport_cap_bits {
	IBV_ODP_SUPPORT_SEND = 1 << 0,
	IBV_ODP_SUPPORT_RECV = 1 << 1,
	IBV_ODP_SUPPORT_WRITE = 1 << 2,
	IBV_ODP_SUPPORT_READ = 1 << 3,
	IBV_ODP_SUPPORT_ATOMIC = 1 << 4,
	IBV_ODP_SUPPORT_SRQ_RECV = 1 << 5,
	IBV_ODP_SUPPORT_FLUSH = 1 << 6,
	IBV_ODP_SUPPORT_ATOMIC_WRITE = 1 << 7,
};

enum ibv_odp_general_caps {
	IBV_ODP_SUPPORT = 1 << 0,
	IBV_ODP_SUPPORT_IMPLICIT = 1 << 1, /* one region for the whole address space */
};

/* On-demand paging: the operations that may access regions registered with IBV_ACCESS_ON_DEMAND. */
struct ibv_odp_caps {
	uint64_t general_caps; /* enum ibv_odp_general_caps */
	struct {
		uint32_t rc_odp_caps; /* enum ibv_odp_transport_cap_bits */
		uint32_t uc_odp_caps;
		uint32_t ud_odp_caps;
	} per_transport_caps;
};

/* Segmentation offload.  supported_qpts, here and below: test with ibv_is_qpt_supported(). */
struct ibv_tso_caps {
	uint32_t max_tso; /* bytes in one request; 0: none */
	uint32_t supported_qpts;
};

enum ibv_rx_hash_function_flags {
	IBV_RX_HASH_FUNC_TOEPLITZ = 1 << 0,
};

/* Fields included in the hash. One QP uses either IPv4 or IPv6, and either TCP or UDP. */
__extension__ enum ibv_rx_hash_fields {
	IBV_RX_HASH_SRC_IPV4 = 1 << 0,
	IBV_RX_HASH_DST_IPV4 = 1 << 1,
	IBV_RX_HASH_SRC_IPV6 = 1 << 2,
	IBV_RX_HASH_DST_IPV6 = 1 << 3,
	IBV_RX_HASH_SRC_PORT_TCP = 1 << 4,
	IBV_RX_HASH_DST_PORT_TCP = 1 << 5,
	IBV_RX_HASH_SRC_PORT_UDP = 1 << 6,
	IBV_RX_HASH_DST_PORT_UDP = 1 << 7,
	IBV_RX_HASH_IPSEC_SPI = 1 << 8,
	IBV_RX_HASH_INNER = 1UL << 31, /* of the packet inside the tunnel */
};

struct ibv_rss_caps {
	uint32_t supported_qpts;
	uint32_t max_rwq_indirection_tables;
	uint32_t max_rwq_indirection_table_size; /* entries */
	uint64_t rx_hash_fields_mask;		 /* enum ibv_rx_hash_fields */
	uint8_t rx_hash_function;		 /* enum ibv_rx_hash_function_flags */
};

struct ibv_packet_pacing_caps {
	uint32_t qp_rate_limit_min; /* kbit/s */
	uint32_t qp_rate_limit_max; /* kbit/s; 0: none */
	uint32_t supported_qpts;
};

enum ibv_raw_packet_caps {
	IBV_RAW_PACKET_CAP_CVLAN_STRIPPING = 1 << 0,
	IBV_RAW_PACKET_CAP_SCATTER_FCS = 1 << 1,
	IBV_RAW_PACKET_CAP_IP_CSUM = 1 << 2,
	IBV_RAW_PACKET_CAP_DELAY_DROP = 1 << 3,
};

enum ibv_tm_cap_flags {
	IBV_TM_CAP_RC = 1 << 0,
};

/* Tag matching on shared receive queues. */
struct ibv_tm_caps {
	uint32_t max_rndv_hdr_size; /* bytes */
	uint32_t max_num_tags;	    /* buffers in one matching list; 0: no tag matching */
	uint32_t flags;		    /* enum ibv_tm_cap_flags */
	uint32_t max_ops;	    /* list operations outstanding */
	uint32_t max_sge;	    /* of a tagged buffer */
};

struct ibv_cq_moderation_caps {
	uint16_t max_cq_count;	/* completions; 0: no moderation */
	uint16_t max_cq_period; /* us */
};

enum ibv_pci_atomic_op_size {
	IBV_PCI_ATOMIC_OPERATION_4_BYTE_SIZE_SUP = 1 << 0,
	IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP = 1 << 1,
	IBV_PCI_ATOMIC_OPERATION_16_BYTE_SIZE_SUP = 1 << 2,
};

/* Operand sizes of atomics across the I/O bus, each a mask of enum ibv_pci_atomic_op_size. */
struct ibv_pci_atomic_caps {
	uint16_t fetch_add;
	uint16_t swap;
	uint16_t compare_swap;
};

struct ibv_query_device_ex_input {
	uint32_t comp_mask; /* 0 */
};

struct ibv_device_attr_ex {
	struct ibv_device_attr orig_attr;
	uint32_t comp_mask; /* 0 */
	struct ibv_odp_caps odp_caps;
	uint64_t completion_timestamp_mask; /* valid bits of a timestamp; 0: none */
	uint64_t hca_core_clock;	    /* kHz; 0: none */
	uint64_t device_cap_flags_ex;	    /* device_cap_flags and more */
	struct ibv_tso_caps tso_caps;
	struct ibv_rss_caps rss_caps;
	uint32_t max_wq_type_rq;
	struct ibv_packet_pacing_caps packet_pacing_caps;
	uint32_t raw_packet_caps; /* enum ibv_raw_packet_caps */
	struct ibv_tm_caps tm_caps;
	struct ibv_cq_moderation_caps cq_mod_caps;
	uint64_t max_dm_size; /* bytes of device memory; 0: none */
	struct ibv_pci_atomic_caps pci_atomic_caps;
	uint32_t xrc_odp_caps;	   /* enum ibv_odp_transport_cap_bits */
	uint32_t phys_port_cnt_ex; /* as phys_port_cnt, without its limit of 255 */
};

/*
 * Returns the attributes of ibv_query_device() and the extensions; `input` may be NULL. A device
 * without extensions fills in orig_attr and leaves the rest 0. ibv_query_device_ex(3)
 */
static inline int ibv_query_device_ex(struct ibv_context *context,
				      const struct ibv_query_device_ex_input *input,
				      struct ibv_device_attr_ex *attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, query_device_ex);
	int ret = EOPNOTSUPP;

	if (input && input->comp_mask)
		return EINVAL;
	if (vctx)
		ret = vctx->query_device_ex(context, input, attr, sizeof(*attr));
	if (ret != EOPNOTSUPP && ret != ENOSYS)
		return ret;
	memset(attr, 0, sizeof(*attr));
	return ibv_query_device(context, &attr->orig_attr);
}

enum ibv_values_mask {
	IBV_VALUES_MASK_RAW_CLOCK = 1 << 0,
	IBV_VALUES_MASK_RESERVED = 1 << 1,
};

struct ibv_values_ex {
	uint32_t comp_mask; /* in: values requested, out: values returned; enum ibv_values_mask */
	/* device clock, in the ticks of completion timestamps, all in tv_nsec */
	struct timespec raw_clock;
};

/* Reads the current values requested by values->comp_mask. ibv_query_rt_values_ex(3) */
static inline int ibv_query_rt_values_ex(struct ibv_context *context, struct ibv_values_ex *values)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, query_rt_values);

	return vctx ? vctx->query_rt_values(context, values) : EOPNOTSUPP;
}

/* ---- Ports ---- */

/* Bytes of payload in one packet. */
enum ibv_mtu {
	IBV_MTU_256 = 1,
	IBV_MTU_512 = 2,
	IBV_MTU_1024 = 3,
	IBV_MTU_2048 = 4,
	IBV_MTU_4096 = 5,
};

/* PortInfo:PortState. A port carries traffic only in state ACTIVE. */
enum ibv_port_state {
	IBV_PORT_NOP = 0,
	IBV_PORT_DOWN = 1,
	IBV_PORT_INIT = 2,
	IBV_PORT_ARMED = 3,
	IBV_PORT_ACTIVE = 4,
	IBV_PORT_ACTIVE_DEFER = 5,
};

/* ibv_port_attr.link_layer; UNSPECIFIED, from old libraries, means InfiniBand. */
enum {
	IBV_LINK_LAYER_UNSPECIFIED,
	IBV_LINK_LAYER_INFINIBAND,
	IBV_LINK_LAYER_ETHERNET,
};

/* Bits of PortInfo:CapabilityMask, and IP_BASED_GIDS for an Ethernet port. */
enum ibv_port_cap_flags {
	IBV_PORT_SM = 1 << 1,
	IBV_PORT_NOTICE_SUP = 1 << 2,
	IBV_PORT_TRAP_SUP = 1 << 3,
	IBV_PORT_OPT_IPD_SUP = 1 << 4,
	IBV_PORT_AUTO_MIGR_SUP = 1 << 5,
	IBV_PORT_SL_MAP_SUP = 1 << 6,
	IBV_PORT_MKEY_NVRAM = 1 << 7,
	IBV_PORT_PKEY_NVRAM = 1 << 8,
	IBV_PORT_LED_INFO_SUP = 1 << 9,
	IBV_PORT_SYS_IMAGE_GUID_SUP = 1 << 11,
	IBV_PORT_PKEY_SW_EXT_PORT_TRAP_SUP = 1 << 12,
	IBV_PORT_EXTENDED_SPEEDS_SUP = 1 << 14,
	IBV_PORT_CAP_MASK2_SUP = 1 << 15,
	IBV_PORT_CM_SUP = 1 << 16,
	IBV_PORT_SNMP_TUNNEL_SUP = 1 << 17,
	IBV_PORT_REINIT_SUP = 1 << 18,
	IBV_PORT_DEVICE_MGMT_SUP = 1 << 19,
	IBV_PORT_VENDOR_CLASS_SUP = 1 << 20,
	IBV_PORT_DR_NOTICE_SUP = 1 << 21,
	IBV_PORT_CAP_MASK_NOTICE_SUP = 1 << 22,
	IBV_PORT_BOOT_MGMT_SUP = 1 << 23,
	IBV_PORT_LINK_LATENCY_SUP = 1 << 24,
	IBV_PORT_CLIENT_REG_SUP = 1 << 25,
	IBV_PORT_IP_BASED_GIDS = 1 << 26,
};

/* Bits of PortInfo:CapabilityMask2. */
enum ibv_port_cap_flags2 {
	IBV_PORT_SET_NODE_DESC_SUP = 1 << 0,
	IBV_PORT_INFO_EXT_SUP = 1 << 1,
	IBV_PORT_VIRT_SUP = 1 << 2,
	IBV_PORT_SWITCH_PORT_STATE_TABLE_SUP = 1 << 3,
	IBV_PORT_LINK_WIDTH_2X_SUP = 1 << 4,
	IBV_PORT_LINK_SPEED_HDR_SUP = 1 << 5,
	IBV_PORT_LINK_SPEED_NDR_SUP = 1 << 10,
	IBV_PORT_LINK_SPEED_XDR_SUP = 1 << 12,
};

struct ibv_port_attr {
	enum ibv_port_state state;
	enum ibv_mtu max_mtu;
	enum ibv_mtu active_mtu;
	int gid_tbl_len;	 /* entries, empty ones included */
	uint32_t port_cap_flags; /* enum ibv_port_cap_flags */
	uint32_t max_msg_sz;	 /* bytes */
	uint32_t bad_pkey_cntr;	 /* packets with a P_Key that is not in the table */
	uint32_t qkey_viol_cntr; /* packets with a wrong Q_Key */
	uint16_t pkey_tbl_len;	 /* entries */
	uint16_t lid;		 /* 0: none */
	uint16_t sm_lid;	 /* of the subnet manager; 0: none, as sm_sl */
	uint8_t lmc;		 /* the port has 2^lmc LIDs */
	uint8_t max_vl_num;	 /* PortInfo:VLCap: 1: 1 virtual lane, 2: 2, 3: 4, 4: 8, 5: 15 */
	uint8_t sm_sl;
	uint8_t subnet_timeout; /* t: 4.096 us * 2^t */
	uint8_t init_type_reply;
	uint8_t active_width; /* lanes: 1: 1, 2: 4, 4: 8, 8: 12, 16: 2 */
	/* Gbit/s per lane: 1: 2.5, 2: 5, 4 and 8: 10, 16: 14, 32: 25, 64: 50, 128: 100 */
	uint8_t active_speed;
	uint8_t phys_state;   /* 3: disabled, 5: link up */
	uint8_t link_layer;   /* IBV_LINK_LAYER_* */
	uint8_t flags;	      /* IBV_QPF_GRH_REQUIRED */
	uint16_t port_cap_flags2;
	/* speeds too large for active_speed (256: 200); 0: see active_speed.  From release 49 */
	uint32_t active_speed_ex;
};

/*
 * The exported function writes 48 bytes, up to `flags`, for programs of 2006. All others get the
 * inline function below, which fills in the whole structure. ibv_query_port(3)
 */
int ibv_query_port(struct ibv_context *context, uint8_t port_num,
		   struct _compat_ibv_port_attr *port_attr);

static inline int ___ibv_query_port(struct ibv_context *context, uint8_t port_num,
				    struct ibv_port_attr *port_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, query_port);

	if (vctx)
		return vctx->query_port(context, port_num, port_attr, sizeof(*port_attr));
	memset(port_attr, 0, sizeof(*port_attr));
	return ibv_query_port(context, port_num, (struct _compat_ibv_port_attr *)(void *)port_attr);
}

#define ibv_query_port(context, port_num, port_attr)                                               \
	___ibv_query_port(context, port_num, port_attr)

/*
 * Returns the port's current data rate in units of 100 Mbit/s. From release 62.
 * ibv_query_port_speed(3)
 */
int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed);

/* ---- Address tables ---- */

enum ibv_gid_type {
	IBV_GID_TYPE_IB,
	IBV_GID_TYPE_ROCE_V1,
	IBV_GID_TYPE_ROCE_V2,
};

struct ibv_gid_entry {
	union ibv_gid gid;
	uint32_t gid_index;
	uint32_t port_num;
	uint32_t gid_type; /* enum ibv_gid_type */
	uint32_t ndev_ifindex; /* of the network interface with this address; 0: none */
};

/*
 * Returns the GID at an index, all zeroes if the entry is empty. Returns 0, or -1 if there is no
 * such port or index. ibv_query_gid(3)
 */
int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid);

/* As ibv_query_gid_ex(); entry_size is the caller's sizeof(*entry). */
int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size);

/* Returns an entry of the GID table; flags is 0.  ENODATA: it is empty.  ibv_query_gid_ex(3) */
static inline int ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num,
				   uint32_t gid_index, struct ibv_gid_entry *entry, uint32_t flags)
{
	return _ibv_query_gid_ex(context, port_num, gid_index, entry, flags, sizeof(*entry));
}

/* As ibv_query_gid_table(); entry_size is the caller's sizeof(*entries). */
ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t max_entries, uint32_t flags, size_t entry_size);

/*
 * Returns all entries in use, of all ports; flags is 0. Returns their number, or a negative errno
 * value: -EINVAL if max_entries is too small. ibv_query_gid_table(3)
 */
static inline ssize_t ibv_query_gid_table(struct ibv_context *context,
					  struct ibv_gid_entry *entries, size_t max_entries,
					  uint32_t flags)
{
	return _ibv_query_gid_table(context, entries, max_entries, flags, sizeof(*entries));
}

/*
 * Returns the partition key at an index. Returns 0, or -1 if there is no such port or index.
 * ibv_query_pkey(3)
 */
int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey);

/*
 * Returns the index of a partition key, or -1 if it is not in the port's table.
 * ibv_get_pkey_index(3)
 */
int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey);

/* ---- Asynchronous events ---- */

/* The comment of each event names the member of ibv_async_event.element that it uses. */
enum ibv_event_type {
	IBV_EVENT_CQ_ERR,		 /* cq: it overflowed */
	IBV_EVENT_QP_FATAL,		 /* qp: an error that no completion can report */
	IBV_EVENT_QP_REQ_ERR,		 /* qp: an invalid request arrived */
	IBV_EVENT_QP_ACCESS_ERR,	 /* qp: a request without access rights arrived */
	IBV_EVENT_COMM_EST,		 /* qp: data arrived before the move to RTS */
	IBV_EVENT_SQ_DRAINED,		 /* qp: the send queue has drained in SQD */
	IBV_EVENT_PATH_MIG,		 /* qp: moved to its alternate path */
	IBV_EVENT_PATH_MIG_ERR,		 /* qp: could not move to its alternate path */
	IBV_EVENT_DEVICE_FATAL,		 /* no element */
	IBV_EVENT_PORT_ACTIVE,		 /* port_num */
	IBV_EVENT_PORT_ERR,		 /* port_num: link down */
	IBV_EVENT_LID_CHANGE,		 /* port_num */
	IBV_EVENT_PKEY_CHANGE,		 /* port_num */
	IBV_EVENT_SM_CHANGE,		 /* port_num */
	IBV_EVENT_SRQ_ERR,		 /* srq: no more receives can be taken from the SRQ */
	IBV_EVENT_SRQ_LIMIT_REACHED,	 /* srq: fewer receives posted than srq_limit */
	IBV_EVENT_QP_LAST_WQE_REACHED,	 /* qp: in error, and holds no more receives of its SRQ */
	IBV_EVENT_CLIENT_REREGISTER,	 /* port_num: register again with the subnet manager */
	IBV_EVENT_GID_CHANGE,		 /* port_num */
	IBV_EVENT_WQ_FATAL,		 /* wq: an error that no completion can report */
	IBV_EVENT_DEVICE_SPEED_CHANGE,	 /* port_num; from release 62 */
};

struct ibv_async_event {
	union {
		struct ibv_cq *cq;
		struct ibv_qp *qp;
		struct ibv_srq *srq;
		struct ibv_wq *wq;
		int port_num;
	} element;
	enum ibv_event_type event_type;
};

/*
 * Takes the oldest event; waits for one unless context->async_fd is O_NONBLOCK. The program must
 * acknowledge each event. Returns 0, or -1 and errno (EAGAIN: none). ibv_get_async_event(3)
 */
int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event);

/*
 * Acknowledges an event; the destruction of its object waits for this.  ibv_get_async_event(3)
 */
void ibv_ack_async_event(struct ibv_async_event *event);

/* ---- Names of values: static strings, even for unknown values; never NULL ---- */

/* ibv_event_type_str(3), for all three */
const char *ibv_node_type_str(enum ibv_node_type node_type);
const char *ibv_port_state_str(enum ibv_port_state port_state);
const char *ibv_event_type_str(enum ibv_event_type event);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
