/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Structures of verbs_exp.h (VPI verbs manual, 3.8), with the layouts of MLNX_OFED 4.6 on 64-bit
 * machines.  Members for hardware that this device does not model keep their place: a query sets
 * them to 0, and a request that needs them fails with EOPNOTSUPP.  Members that verbs.h has too
 * have the same meaning and units.  The caller owns every structure and all that it points to.
 */
#ifndef INFINIBAND_VERBS_EXP_TYPES_H
#define INFINIBAND_VERBS_EXP_TYPES_H

#include <infiniband/verbs.h>
#include <infiniband/verbs/exp_values.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_exp_dct;
struct ibv_exp_mkey_list_container;
struct ibv_exp_peer_direct_attr;
struct ibv_exp_rwq_ind_table;

struct ibv_exp_res_domain {
	struct ibv_context *context; /* the context that created it */
};

/* ---- ibv_exp_query_device() ---- */

struct ibv_exp_device_calc_cap {
	uint64_t data_types; /* set of enum ibv_exp_calc_data_type */
	uint64_t data_sizes; /* set of enum ibv_exp_calc_data_size */
	uint64_t int_ops;    /* set of enum ibv_exp_calc_op on signed integers */
	uint64_t uint_ops;   /* set of enum ibv_exp_calc_op on unsigned integers */
	uint64_t fp_ops;     /* set of enum ibv_exp_calc_op on floating-point numbers */
};

struct ibv_exp_ext_atomics_params {
	uint64_t log_atomic_arg_sizes;  /* bit n: operands of 2^n bytes */
	uint32_t max_fa_bit_boundary;   /* bits: the largest field of a fetch and add */
	uint32_t log_max_atomic_inline; /* n: inline operands of at most 2^n bytes */
};

struct ibv_exp_masked_atomic_params {
	uint32_t max_fa_bit_boundary;         /* bits: the largest field of a fetch and add */
	uint32_t log_max_atomic_inline;       /* n: inline operands of at most 2^n bytes */
	uint64_t masked_log_atomic_arg_sizes; /* bit n: operands of 2^n bytes in host order */
	/* bit n: operands of 2^n bytes, big endian */
	uint64_t masked_log_atomic_arg_sizes_network_endianness;
};

struct ibv_exp_umr_caps {
	uint32_t max_klm_list_size;        /* entries of one list of memory keys */
	uint32_t max_send_wqe_inline_klms; /* of those, entries within a work request */
	uint32_t max_umr_recursion_depth;  /* levels of regions that consist of other regions */
	uint32_t max_umr_stride_dimension; /* dimensions of a strided region */
};

struct ibv_exp_odp_caps {
	uint64_t general_odp_caps; /* enum ibv_odp_general_caps */
	struct {
		uint32_t rc_odp_caps;      /* enum ibv_odp_transport_cap_bits, here and below */
		uint32_t uc_odp_caps;      /* as rc_odp_caps, for UC */
		uint32_t ud_odp_caps;      /* as rc_odp_caps, for UD */
		uint32_t dc_odp_caps;      /* dynamically connected transport */
		uint32_t xrc_odp_caps;     /* as rc_odp_caps, for XRC */
		uint32_t raw_eth_odp_caps; /* raw packet QPs */
	} per_transport_caps;
};

struct ibv_exp_rx_hash_caps {
	uint32_t max_rwq_indirection_tables;     /* indirection tables of the device */
	uint32_t max_rwq_indirection_table_size; /* entries of one table */
	uint8_t supported_hash_functions;        /* enum ibv_rx_hash_function_flags */
	uint64_t supported_packet_fields;        /* enum ibv_rx_hash_fields */
	uint32_t supported_qps;                  /* bit n: enum ibv_qp_type n */
};

struct ibv_exp_mp_rq_caps {
	uint32_t supported_qps;                     /* bit n: enum ibv_qp_type n */
	uint32_t allowed_shifts;                    /* set of paddings before the payload */
	uint8_t min_single_wqe_log_num_of_strides;  /* n: 2^n strides in one receive, at least */
	uint8_t max_single_wqe_log_num_of_strides;  /* n: 2^n strides in one receive, at most */
	uint8_t min_single_stride_log_num_of_bytes; /* n: 2^n bytes in one stride, at least */
	uint8_t max_single_stride_log_num_of_bytes; /* n: 2^n bytes in one stride, at most */
};

struct ibv_exp_ec_caps {
	uint32_t max_ec_data_vector_count;   /* data blocks of one calculation */
	uint32_t max_ec_calc_inflight_calcs; /* calculations in progress at once */
};

struct ibv_exp_tso_caps {
	uint32_t max_tso;        /* bytes in one request; 0: no segmentation offload */
	uint32_t supported_qpts; /* bit n: enum ibv_qp_type n */
};

struct ibv_exp_packet_pacing_caps {
	uint32_t qp_rate_limit_min; /* kbit/s */
	uint32_t qp_rate_limit_max; /* kbit/s */
	uint32_t supported_qpts;    /* bit n: enum ibv_qp_type n */
	uint8_t cap_flags;          /* flags of the driver */
	uint8_t reserved[3];        /* 0 */
};

struct ibv_exp_ooo_caps {
	uint32_t rc_caps;  /* flags of the driver, for RC */
	uint32_t xrc_caps; /* flags of the driver, for XRC */
	uint32_t dc_caps;  /* flags of the driver, for the dynamically connected transport */
	uint32_t ud_caps;  /* flags of the driver, for UD */
};

struct ibv_exp_sw_parsing_caps {
	/* offloads that take header offsets from software; flags of the driver */
	uint32_t sw_parsing_offloads;
	uint32_t supported_qpts; /* bit n: enum ibv_qp_type n */
};

struct ibv_exp_tm_caps {
	/* bytes of a rendezvous request: headers and data of the program */
	uint32_t max_rndv_hdr_size;
	uint32_t max_num_tags;     /* entries of one tag list */
	uint32_t capability_flags; /* enum ibv_tm_cap_flags */
	uint32_t max_ops;          /* list operations in flight */
	uint32_t max_sge;          /* of a tagged receive */
};

struct ibv_exp_umr_fixed_size_caps {
	/* bytes: the largest entity of a region with entities of one size */
	uint64_t max_entity_size;
};

struct ibv_exp_pci_atomic_caps {
	uint16_t fetch_add;    /* set of operand sizes; flags of the driver, here and below */
	uint16_t swap;         /* PCI Express atomic swap */
	uint16_t compare_swap; /* PCI Express compare and swap */
};

/* Begins as ibv_device_attr, but for device_cap_flags, which are in exp_device_cap_flags. */
struct ibv_exp_device_attr {
	char fw_ver[64];         /* ends with NUL */
	uint64_t node_guid;      /* network byte order, as sys_image_guid */
	uint64_t sys_image_guid; /* network byte order */
	uint64_t max_mr_size;    /* bytes */
	uint64_t page_size_cap;  /* bit n: pages of 2^n bytes */
	uint32_t vendor_id;      /* IEEE OUI */
	uint32_t vendor_part_id; /* the vendor's number of the device */
	uint32_t hw_ver;         /* the vendor's number of the revision */
	int max_qp;              /* QPs; all limits are maximum values of the device */
	int max_qp_wr;           /* work requests in one queue */
	int reserved;            /* 0 */
	int max_sge;             /* of any request but RDMA READ */
	int max_sge_rd;          /* of RDMA READ */
	int max_cq;              /* CQs */
	int max_cqe;             /* entries of one CQ */
	int max_mr;              /* memory regions */
	int max_pd;              /* protection domains */
	int max_qp_rd_atom;      /* READs and atomics in flight toward one QP */
	int max_ee_rd_atom;      /* "ee", "rdd": reliable datagram only */
	int max_res_rd_atom;     /* READs and atomics in flight toward all QPs */
	int max_qp_init_rd_atom; /* READs and atomics in flight from one QP */
	int max_ee_init_rd_atom; /* reliable datagram only */
	/* as atomic_cap; a device may reply in big endian */
	enum ibv_exp_atomic_cap exp_atomic_cap;
	int max_ee;                              /* reliable datagram only */
	int max_rdd;                             /* reliable datagram only */
	int max_mw;                              /* memory windows */
	int max_raw_ipv6_qp;                     /* raw IPv6 QPs: 0 */
	int max_raw_ethy_qp;                     /* raw Ethertype QPs */
	int max_mcast_grp;                       /* multicast groups */
	int max_mcast_qp_attach;                 /* QPs in one multicast group */
	int max_total_mcast_qp_attach;           /* QPs in all multicast groups */
	int max_ah;                              /* address handles */
	int max_fmr;                             /* kernel only */
	int max_map_per_fmr;                     /* kernel only */
	int max_srq;                             /* SRQs */
	int max_srq_wr;                          /* receives in one SRQ */
	int max_srq_sge;                         /* of a receive in an SRQ */
	uint16_t max_pkeys;                      /* entries of a port's table */
	uint8_t local_ca_ack_delay;              /* t: 4.096 us * 2^t */
	uint8_t phys_port_cnt;                   /* ports; numbered from 1 */
	uint32_t comp_mask;                      /* enum ibv_exp_device_attr_comp_mask */
	struct ibv_exp_device_calc_cap calc_cap; /* 0: this device has no calculations */
	uint64_t timestamp_mask;                 /* valid bits of a completion timestamp; 0: none */
	uint64_t hca_core_clock;                 /* kHz */
	uint64_t exp_device_cap_flags;           /* enum ibv_exp_device_cap_flags */
	int max_dc_req_rd_atom;                  /* dynamically connected transport: 0 */
	int max_dc_res_rd_atom;                  /* dynamically connected transport: 0 */
	int inline_recv_sz;                      /* bytes received into a completion, at most: 0 */
	uint32_t max_rss_tbl_sz;                 /* QPs of one RSS group: 0 */
	struct ibv_exp_ext_atomics_params ext_atom; /* extended atomics: 0 */
	struct ibv_exp_umr_caps umr_caps;           /* user-mode memory registration: 0 */
	struct ibv_exp_odp_caps odp_caps;           /* on-demand paging */
	int max_dct;                                /* dynamically connected targets: 0 */
	int max_ctx_res_domain;                     /* resource domains of one context: 0 */
	/* receive hash: 0 here, see ibv_query_device_ex() */
	struct ibv_exp_rx_hash_caps rx_hash_caps;
	uint32_t max_wq_type_rq; /* receive work queues: 0 here, see ibv_query_device_ex() */
	int max_device_ctx;      /* open contexts: 0 */
	struct ibv_exp_mp_rq_caps mp_rq_caps;              /* multi-packet receive queues: 0 */
	uint16_t wq_vlan_offloads_cap;                     /* 0 */
	struct ibv_exp_ec_caps ec_caps;                    /* erasure coding: 0 */
	struct ibv_exp_masked_atomic_params masked_atomic; /* masked atomics: 0 */
	int rx_pad_end_addr_align;        /* bytes to which received data is padded: 0 */
	struct ibv_exp_tso_caps tso_caps; /* TCP segmentation offload */
	/* rate limits of QPs: 0 here, see ibv_query_device_ex() */
	struct ibv_exp_packet_pacing_caps packet_pacing_caps;
	uint32_t ec_w_mask;                             /* word sizes of erasure coding: 0 */
	struct ibv_exp_ooo_caps ooo_caps;               /* data placement out of order: 0 */
	struct ibv_exp_sw_parsing_caps sw_parsing_caps; /* offloads by header offsets: 0 */
	uint64_t odp_mr_max_size;       /* bytes of an on-demand region, at most: 0 */
	struct ibv_exp_tm_caps tm_caps; /* tag matching */
	uint32_t tunnel_offloads_caps;  /* offloads for encapsulated packets: 0 */
	uint64_t max_dm_size;           /* bytes of device memory */
	uint32_t tunneled_atomic_caps;  /* atomics through a tunnel: 0 */
	uint64_t comp_mask_2;           /* enum ibv_exp_device_attr_comp_mask_2 */
	struct ibv_exp_umr_fixed_size_caps umr_fixed_size_caps; /* 0 */
	/* atomics of other devices in host memory: 0 */
	struct ibv_exp_pci_atomic_caps pci_atomic_caps;
};

struct ibv_exp_gid_attr {
	uint32_t comp_mask;              /* enum ibv_exp_query_gid_attr */
	enum ibv_exp_roce_gid_type type; /* out, with IBV_EXP_QUERY_GID_ATTR_TYPE */
	union ibv_gid gid; /* out, with IBV_EXP_QUERY_GID_ATTR_GID; network byte order */
};

/* ---- Queue pairs ---- */

struct ibv_exp_qpg_init_attrib {
	uint32_t tss_child_count; /* QPs that share the sending of the group */
	uint32_t rss_child_count; /* QPs that share the receiving of the group */
};

__extension__ struct ibv_exp_qpg {
	uint32_t qpg_type; /* the QP's role in a group */
	__extension__ union {
		struct ibv_qp *qpg_parent;                    /* of a child; the caller's */
		struct ibv_exp_qpg_init_attrib parent_attrib; /* of a parent */
	};
};

struct ibv_exp_rx_hash_conf {
	uint8_t rx_hash_function;                  /* enum ibv_rx_hash_function_flags */
	uint8_t rx_hash_key_len;                   /* bytes */
	uint8_t *rx_hash_key;                      /* the caller's; read during the call */
	uint64_t rx_hash_fields_mask;              /* enum ibv_rx_hash_fields */
	struct ibv_exp_rwq_ind_table *rwq_ind_tbl; /* the caller's */
};

/* Begins as ibv_qp_init_attr. */
struct ibv_exp_qp_init_attr {
	void *qp_context;         /* the caller's; stored, not read */
	struct ibv_cq *send_cq;   /* must exist as long as the QP, as recv_cq, srq, pd and xrcd */
	struct ibv_cq *recv_cq;   /* may be send_cq */
	struct ibv_srq *srq;      /* or NULL */
	struct ibv_qp_cap cap;    /* in: required, out: actual sizes */
	enum ibv_qp_type qp_type; /* RC, UC, UD, XRC or raw packet */
	int sq_sig_all;           /* every send raises a completion, IBV_EXP_SEND_SIGNALED or not */
	uint32_t comp_mask;       /* enum ibv_exp_qp_init_attr_comp_mask */
	struct ibv_pd *pd;        /* with IBV_EXP_QP_INIT_ATTR_PD */
	struct ibv_xrcd *xrcd;    /* with IBV_EXP_QP_INIT_ATTR_XRCD: for IBV_QPT_XRC_RECV */
	uint32_t exp_create_flags;  /* enum ibv_exp_qp_create_flags */
	uint32_t max_inl_recv;      /* bytes; out: 0, this device has no inline receive */
	struct ibv_exp_qpg qpg;     /* refused: IBV_EXP_QP_INIT_ATTR_QPG */
	uint32_t max_atomic_arg;    /* bytes; refused: IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG */
	uint32_t max_inl_send_klms; /* entries; refused: IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS */
	struct ibv_exp_res_domain *res_domain;     /* refused: IBV_EXP_QP_INIT_ATTR_RES_DOMAIN */
	struct ibv_exp_rx_hash_conf *rx_hash_conf; /* refused: IBV_EXP_QP_INIT_ATTR_RX_HASH */
	uint8_t port_num;                          /* from 1; without effect */
	/* refused: IBV_EXP_QP_INIT_ATTR_PEER_DIRECT */
	struct ibv_exp_peer_direct_attr *peer_direct_attrs;
	uint16_t max_tso_header; /* bytes; with IBV_EXP_QP_INIT_ATTR_MAX_TSO_HEADER */
	uint32_t associated_qpn; /* 24 bits; refused: IBV_EXP_QP_INIT_ATTR_ASSOCIATED_QPN */
};

struct ibv_exp_burst_info {
	uint32_t max_burst_sz;   /* bytes */
	uint16_t typical_pkt_sz; /* bytes */
};

/* Begins as ibv_qp_attr without its rate_limit. */
struct ibv_exp_qp_attr {
	enum ibv_qp_state qp_state;        /* the state to move to */
	enum ibv_qp_state cur_qp_state;    /* the state that the program assumes */
	enum ibv_mtu path_mtu;             /* bytes of payload in a packet, at most */
	enum ibv_mig_state path_mig_state; /* automatic path migration (IBTA volume 1, 17.2.8) */
	uint32_t qkey;                     /* UD */
	uint32_t rq_psn;                   /* 24 bits: of the first packet received */
	uint32_t sq_psn;                   /* 24 bits: of the first packet sent */
	uint32_t dest_qp_num;              /* 24 bits */
	int qp_access_flags;   /* what the peer may do: REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC */
	struct ibv_qp_cap cap; /* with IBV_EXP_QP_CAP */
	struct ibv_ah_attr ah_attr;     /* primary path */
	struct ibv_ah_attr alt_ah_attr; /* alternate path */
	uint16_t pkey_index;            /* of the port's table */
	uint16_t alt_pkey_index;        /* as pkey_index, of the alternate path */
	uint8_t en_sqd_async_notify;    /* raise IBV_EVENT_SQ_DRAINED */
	uint8_t sq_draining;            /* query: in SQD, sends are still in flight */
	uint8_t max_rd_atomic;          /* own READs and atomics in flight, at most */
	uint8_t max_dest_rd_atomic;     /* the peer's READs and atomics in flight, at most */
	/* 0..31, as in ibv_qp_attr: 1: 0.01 ms .. 31: 491.52 ms, 0: 655.36 ms */
	uint8_t min_rnr_timer;
	uint8_t port_num;  /* from 1 */
	uint8_t timeout;   /* 0..31: 4.096 us * 2^timeout until a request is repeated; 0: never */
	uint8_t retry_cnt; /* 0..7: retries after a timeout or a sequence error */
	uint8_t rnr_retry; /* 0..6: retries after an RNR NAK; 7: without limit */
	uint8_t alt_port_num;                 /* from 1 */
	uint8_t alt_timeout;                  /* as timeout, of the alternate path */
	uint64_t dct_key;                     /* refused: IBV_EXP_QP_DC_KEY */
	uint32_t comp_mask;                   /* 0 */
	uint32_t flow_entropy;                /* refused: IBV_EXP_QP_FLOW_ENTROPY */
	uint32_t rate_limit;                  /* kbit/s */
	struct ibv_exp_burst_info burst_info; /* not read */
};

/* ---- Completion queues and memory ---- */

struct ibv_exp_cq_init_attr {
	uint32_t comp_mask;                    /* enum ibv_exp_cq_init_attr_mask */
	uint32_t flags;                        /* 0; with IBV_EXP_CQ_INIT_ATTR_FLAGS */
	struct ibv_exp_res_domain *res_domain; /* refused: IBV_EXP_CQ_INIT_ATTR_RES_DOMAIN */
	/* refused: IBV_EXP_CQ_INIT_ATTR_PEER_DIRECT */
	struct ibv_exp_peer_direct_attr *peer_direct_attrs;
};

struct ibv_exp_reg_mr_in {
	struct ibv_pd *pd;     /* must exist as long as the region */
	void *addr;            /* the caller's memory; must stay mapped while it is registered */
	size_t length;         /* bytes */
	uint64_t exp_access;   /* enum ibv_exp_access_flags */
	uint32_t comp_mask;    /* 0, else EOPNOTSUPP */
	uint32_t create_flags; /* not read: no bit of comp_mask is supported */
	struct ibv_exp_dm *dm; /* not read: no bit of comp_mask is supported */
};

struct ibv_exp_mw_bind_info {
	/* region that the window is bound to; must exist as long as the binding */
	struct ibv_mr *mr;
	uint64_t addr;                /* first byte, in the caller's address space */
	uint64_t length;              /* bytes */
	uint64_t exp_mw_access_flags; /* enum ibv_exp_access_flags */
};

struct ibv_exp_mem_region {
	uint64_t base_addr; /* first byte */
	struct ibv_mr *mr;  /* must exist as long as the composed region */
	size_t length;      /* bytes */
};

struct ibv_exp_mem_repeat_block {
	uint64_t base_addr; /* first byte */
	struct ibv_mr *mr;  /* must exist as long as the composed region */
	size_t *byte_count; /* bytes of each dimension's block */
	size_t *stride;     /* bytes from one block to the next, by dimension */
};

struct ibv_exp_cmp_swap {
	uint64_t compare_mask; /* bits that are compared */
	uint64_t compare_val;  /* compared with the destination */
	uint64_t swap_val;     /* stored on success */
	uint64_t swap_mask;    /* bits that are stored */
};

struct ibv_exp_fetch_add {
	uint64_t add_val;        /* added to the destination */
	uint64_t field_boundary; /* bit n: no carry from bit n to bit n + 1 */
};

/* ---- Work requests and completions ---- */

__extension__ struct ibv_exp_send_wr {
	uint64_t wr_id;               /* the caller's; returned in the completion */
	struct ibv_exp_send_wr *next; /* NULL: the last request of the list */
	struct ibv_sge *sg_list; /* read during the call, as the other pointers of this structure */
	int num_sge;             /* entries of sg_list */
	/* up to SEND_WITH_INV, or TSO; EOPNOTSUPP for all others */
	enum ibv_exp_wr_opcode exp_opcode;
	int reserved; /* not read */
	union {
		uint32_t imm_data;        /* network byte order */
		uint32_t invalidate_rkey; /* SEND_WITH_INV, LOCAL_INV */
	} ex;
	union {
		struct {
			uint64_t remote_addr; /* first byte, in the peer's address space */
			uint32_t rkey;        /* the peer's key of it */
		} rdma;
		struct {
			uint64_t remote_addr; /* 8 bytes, aligned, in the peer's address space */
			/* compared with (CMP_AND_SWP) or added (FETCH_AND_ADD) */
			uint64_t compare_add;
			uint64_t swap; /* CMP_AND_SWP: stored if equal */
			uint32_t rkey; /* the peer's key of it */
		} atomic;
		struct {
			struct ibv_ah *ah;    /* must exist until the request completes */
			uint32_t remote_qpn;  /* 24 bits */
			uint32_t remote_qkey; /* bit 31: the QP's own Q_Key instead */
		} ud;
	} wr;
	__extension__ union {
		union {
			struct {
				uint32_t remote_srqn; /* 24 bits: the receiver's SRQ */
			} xrc;
		} qp_type;
		uint32_t xrc_remote_srq_num; /* the same */
	};
	union {
		struct {
			/* not read, as all members of `task`, `op` and `dc` */
			uint64_t remote_addr;
			uint32_t rkey; /* not read */
		} rdma;
		struct {
			uint64_t remote_addr; /* not read */
			uint64_t compare_add; /* not read */
			uint64_t swap;        /* not read */
			uint32_t rkey;        /* not read */
		} atomic;
		struct {
			struct ibv_cq *cq; /* cross channel */
			int32_t cq_count;  /* completions to wait for */
		} cqe_wait;
		struct {
			struct ibv_qp *qp; /* cross channel */
			int32_t wqe_count; /* requests to enable */
		} wqe_enable;
	} task;
	union {
		struct {
			enum ibv_exp_calc_op calc_op;          /* not read */
			enum ibv_exp_calc_data_type data_type; /* not read */
			enum ibv_exp_calc_data_size data_size; /* not read */
		} calc;
	} op;
	struct {
		struct ibv_ah *ah;       /* not read */
		uint64_t dct_access_key; /* not read */
		uint32_t dct_number;     /* not read */
	} dc;
	__extension__ union {
		struct {
			struct ibv_mw *mw; /* must exist until the request completes */
			uint32_t rkey;     /* its new key, see ibv_inc_rkey() */
			struct ibv_exp_mw_bind_info bind_info; /* range and rights */
		} bind_mw;
		struct {
			void *hdr;       /* copied to the front of each segment */
			uint16_t hdr_sz; /* bytes */
			uint16_t mss;    /* bytes */
		} tso;
	};
	uint64_t exp_send_flags; /* enum ibv_exp_send_flags */
	uint32_t comp_mask;      /* 0, else EOPNOTSUPP */
	union {
		struct {
			uint32_t umr_type; /* enum ibv_exp_umr_wr_type */
			struct ibv_exp_mkey_list_container *memory_objects; /* not read */
			uint64_t exp_access;        /* enum ibv_exp_access_flags */
			struct ibv_mr *modified_mr; /* not read */
			uint64_t base_addr;         /* not read */
			uint32_t num_mrs;           /* entries of mem_list */
			union {
				struct ibv_exp_mem_region *mem_reg_list; /* not read */
				struct {
					/* not read */
					struct ibv_exp_mem_repeat_block *mem_repeat_block_list;
					size_t *repeat_count; /* by dimension */
					uint32_t stride_dim;  /* dimensions */
				} rb;
			} mem_list;
		} umr;
		struct {
			uint32_t log_arg_sz;  /* n: operands of 2^n bytes */
			uint64_t remote_addr; /* not read */
			uint32_t rkey;        /* not read */
			union {
				struct {
					union {
						struct ibv_exp_cmp_swap cmp_swap;   /* not read */
						struct ibv_exp_fetch_add fetch_add; /* not read */
					} op;
				} inline_data;
			} wr_data;
		} masked_atomics;
	} ext_op;
};

__extension__ struct ibv_exp_wc {
	uint64_t wr_id; /* of the completed request */
	/* IBV_WC_SUCCESS: all members are valid; else wr_id, status, qp_num and vendor_err */
	enum ibv_wc_status status;
	enum ibv_exp_wc_opcode exp_opcode; /* the kind of the request */
	uint32_t vendor_err;               /* the reason of an error, for logs */
	__extension__ union {
		uint32_t byte_len; /* received, GRH included on UD; or read */
		struct {
			uint16_t strides_offset; /* multi-packet receives only */
			uint16_t byte_len;       /* multi-packet receives only */
		} mp_wr;
	};
	uint32_t imm_data;       /* network byte order; the invalidated rkey in host order */
	uint32_t qp_num;         /* of this end */
	uint32_t src_qp;         /* UD: of the sender */
	int reserved;            /* 0 */
	uint16_t pkey_index;     /* of the port's table; QP1 only */
	uint16_t slid;           /* 0 on RoCE */
	uint8_t sl;              /* service level */
	uint8_t dlid_path_bits;  /* 0 on RoCE */
	uint64_t timestamp;      /* 0 */
	struct ibv_qp *qp;       /* NULL */
	struct ibv_srq *srq;     /* NULL */
	struct ibv_exp_dct *dct; /* NULL */
	uint64_t exp_wc_flags;   /* enum ibv_exp_wc_flags */
	struct {
		uint64_t tag;  /* 0: tagged receives complete only in an extended CQ */
		uint32_t priv; /* 0 */
	} tm_info;
};

#ifdef __cplusplus
}
#endif

#endif
