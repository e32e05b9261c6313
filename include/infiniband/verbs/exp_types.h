/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Structures of verbs_exp.h, with the layouts of MLNX_OFED 4.6 on 64-bit machines.  Members for
 * hardware this device does not model keep their place and are filled with 0.
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
	struct ibv_context *context;
};

/* ---- ibv_exp_query_device() ---- */

struct ibv_exp_device_calc_cap {
	uint64_t data_types;
	uint64_t data_sizes;
	uint64_t int_ops;
	uint64_t uint_ops;
	uint64_t fp_ops;
};

struct ibv_exp_ext_atomics_params {
	uint64_t log_atomic_arg_sizes;
	uint32_t max_fa_bit_boundary;
	uint32_t log_max_atomic_inline;
};

struct ibv_exp_masked_atomic_params {
	uint32_t max_fa_bit_boundary;
	uint32_t log_max_atomic_inline;
	uint64_t masked_log_atomic_arg_sizes;
	uint64_t masked_log_atomic_arg_sizes_network_endianness;
};

struct ibv_exp_umr_caps {
	uint32_t max_klm_list_size;
	uint32_t max_send_wqe_inline_klms;
	uint32_t max_umr_recursion_depth;
	uint32_t max_umr_stride_dimension;
};

struct ibv_exp_odp_caps {
	uint64_t general_odp_caps; /* enum ibv_odp_general_caps */
	struct {
		uint32_t rc_odp_caps; /* enum ibv_odp_transport_cap_bits, here and below */
		uint32_t uc_odp_caps;
		uint32_t ud_odp_caps;
		uint32_t dc_odp_caps;
		uint32_t xrc_odp_caps;
		uint32_t raw_eth_odp_caps;
	} per_transport_caps;
};

struct ibv_exp_rx_hash_caps {
	uint32_t max_rwq_indirection_tables;
	uint32_t max_rwq_indirection_table_size;
	uint8_t supported_hash_functions;
	uint64_t supported_packet_fields;
	uint32_t supported_qps;
};

struct ibv_exp_mp_rq_caps {
	uint32_t supported_qps;
	uint32_t allowed_shifts;
	uint8_t min_single_wqe_log_num_of_strides;
	uint8_t max_single_wqe_log_num_of_strides;
	uint8_t min_single_stride_log_num_of_bytes;
	uint8_t max_single_stride_log_num_of_bytes;
};

struct ibv_exp_ec_caps {
	uint32_t max_ec_data_vector_count;
	uint32_t max_ec_calc_inflight_calcs;
};

struct ibv_exp_tso_caps {
	uint32_t max_tso;
	uint32_t supported_qpts;
};

struct ibv_exp_packet_pacing_caps {
	uint32_t qp_rate_limit_min; /* kbit/s */
	uint32_t qp_rate_limit_max; /* kbit/s */
	uint32_t supported_qpts;
	uint8_t cap_flags;
	uint8_t reserved[3];
};

struct ibv_exp_ooo_caps {
	uint32_t rc_caps;
	uint32_t xrc_caps;
	uint32_t dc_caps;
	uint32_t ud_caps;
};

struct ibv_exp_sw_parsing_caps {
	uint32_t sw_parsing_offloads;
	uint32_t supported_qpts;
};

struct ibv_exp_tm_caps {
	uint32_t max_rndv_hdr_size;
	uint32_t max_num_tags;
	uint32_t capability_flags;
	uint32_t max_ops;
	uint32_t max_sge;
};

struct ibv_exp_umr_fixed_size_caps {
	uint64_t max_entity_size;
};

struct ibv_exp_pci_atomic_caps {
	uint16_t fetch_add;
	uint16_t swap;
	uint16_t compare_swap;
};

/* Begins as ibv_device_attr, but for device_cap_flags, which are in exp_device_cap_flags. */
struct ibv_exp_device_attr {
	char fw_ver[64];
	uint64_t node_guid; /* network byte order, as sys_image_guid */
	uint64_t sys_image_guid;
	uint64_t max_mr_size;
	uint64_t page_size_cap;
	uint32_t vendor_id;
	uint32_t vendor_part_id;
	uint32_t hw_ver;
	int max_qp;
	int max_qp_wr;
	int reserved;
	int max_sge;
	int max_sge_rd;
	int max_cq;
	int max_cqe;
	int max_mr;
	int max_pd;
	int max_qp_rd_atom;
	int max_ee_rd_atom;
	int max_res_rd_atom;
	int max_qp_init_rd_atom;
	int max_ee_init_rd_atom;
	enum ibv_exp_atomic_cap exp_atomic_cap;
	int max_ee;
	int max_rdd;
	int max_mw;
	int max_raw_ipv6_qp;
	int max_raw_ethy_qp;
	int max_mcast_grp;
	int max_mcast_qp_attach;
	int max_total_mcast_qp_attach;
	int max_ah;
	int max_fmr;
	int max_map_per_fmr;
	int max_srq;
	int max_srq_wr;
	int max_srq_sge;
	uint16_t max_pkeys;
	uint8_t local_ca_ack_delay;
	uint8_t phys_port_cnt;
	uint32_t comp_mask; /* enum ibv_exp_device_attr_comp_mask */
	struct ibv_exp_device_calc_cap calc_cap;
	uint64_t timestamp_mask;
	uint64_t hca_core_clock;       /* kHz */
	uint64_t exp_device_cap_flags; /* enum ibv_exp_device_cap_flags */
	int max_dc_req_rd_atom;
	int max_dc_res_rd_atom;
	int inline_recv_sz;
	uint32_t max_rss_tbl_sz;
	struct ibv_exp_ext_atomics_params ext_atom;
	struct ibv_exp_umr_caps umr_caps;
	struct ibv_exp_odp_caps odp_caps;
	int max_dct;
	int max_ctx_res_domain;
	struct ibv_exp_rx_hash_caps rx_hash_caps;
	uint32_t max_wq_type_rq;
	int max_device_ctx;
	struct ibv_exp_mp_rq_caps mp_rq_caps;
	uint16_t wq_vlan_offloads_cap;
	struct ibv_exp_ec_caps ec_caps;
	struct ibv_exp_masked_atomic_params masked_atomic;
	int rx_pad_end_addr_align;
	struct ibv_exp_tso_caps tso_caps;
	struct ibv_exp_packet_pacing_caps packet_pacing_caps;
	uint32_t ec_w_mask;
	struct ibv_exp_ooo_caps ooo_caps;
	struct ibv_exp_sw_parsing_caps sw_parsing_caps;
	uint64_t odp_mr_max_size;
	struct ibv_exp_tm_caps tm_caps;
	uint32_t tunnel_offloads_caps;
	uint64_t max_dm_size;
	uint32_t tunneled_atomic_caps;
	uint64_t comp_mask_2; /* enum ibv_exp_device_attr_comp_mask_2 */
	struct ibv_exp_umr_fixed_size_caps umr_fixed_size_caps;
	struct ibv_exp_pci_atomic_caps pci_atomic_caps;
};

struct ibv_exp_gid_attr {
	uint32_t comp_mask; /* enum ibv_exp_query_gid_attr */
	enum ibv_exp_roce_gid_type type;
	union ibv_gid gid;
};

/* ---- Queue pairs ---- */

struct ibv_exp_qpg_init_attrib {
	uint32_t tss_child_count;
	uint32_t rss_child_count;
};

__extension__ struct ibv_exp_qpg {
	uint32_t qpg_type;
	__extension__ union {
		struct ibv_qp *qpg_parent;
		struct ibv_exp_qpg_init_attrib parent_attrib;
	};
};

struct ibv_exp_rx_hash_conf {
	uint8_t rx_hash_function;
	uint8_t rx_hash_key_len;
	uint8_t *rx_hash_key;
	uint64_t rx_hash_fields_mask;
	struct ibv_exp_rwq_ind_table *rwq_ind_tbl;
};

/* Begins as ibv_qp_init_attr. */
struct ibv_exp_qp_init_attr {
	void *qp_context;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp_cap cap;
	enum ibv_qp_type qp_type;
	int sq_sig_all;
	uint32_t comp_mask; /* enum ibv_exp_qp_init_attr_comp_mask */
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
	uint32_t exp_create_flags; /* enum ibv_exp_qp_create_flags */
	uint32_t max_inl_recv;	   /* bytes; out: 0, this device has no inline receive */
	struct ibv_exp_qpg qpg;
	uint32_t max_atomic_arg;
	uint32_t max_inl_send_klms;
	struct ibv_exp_res_domain *res_domain;
	struct ibv_exp_rx_hash_conf *rx_hash_conf;
	uint8_t port_num;
	struct ibv_exp_peer_direct_attr *peer_direct_attrs;
	uint16_t max_tso_header;
	uint32_t associated_qpn;
};

struct ibv_exp_burst_info {
	uint32_t max_burst_sz;
	uint16_t typical_pkt_sz;
};

/* Begins as ibv_qp_attr without its rate_limit. */
struct ibv_exp_qp_attr {
	enum ibv_qp_state qp_state;
	enum ibv_qp_state cur_qp_state;
	enum ibv_mtu path_mtu;
	enum ibv_mig_state path_mig_state;
	uint32_t qkey;
	uint32_t rq_psn;
	uint32_t sq_psn;
	uint32_t dest_qp_num;
	int qp_access_flags;
	struct ibv_qp_cap cap;
	struct ibv_ah_attr ah_attr;
	struct ibv_ah_attr alt_ah_attr;
	uint16_t pkey_index;
	uint16_t alt_pkey_index;
	uint8_t en_sqd_async_notify;
	uint8_t sq_draining;
	uint8_t max_rd_atomic;
	uint8_t max_dest_rd_atomic;
	uint8_t min_rnr_timer;
	uint8_t port_num;
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t alt_port_num;
	uint8_t alt_timeout;
	uint64_t dct_key;
	uint32_t comp_mask;
	uint32_t flow_entropy;
	uint32_t rate_limit; /* kbit/s */
	struct ibv_exp_burst_info burst_info;
};

/* ---- Completion queues and memory ---- */

struct ibv_exp_cq_init_attr {
	uint32_t comp_mask; /* enum ibv_exp_cq_init_attr_mask */
	uint32_t flags;
	struct ibv_exp_res_domain *res_domain;
	struct ibv_exp_peer_direct_attr *peer_direct_attrs;
};

struct ibv_exp_reg_mr_in {
	struct ibv_pd *pd;
	void *addr;
	size_t length;
	uint64_t exp_access; /* enum ibv_exp_access_flags */
	uint32_t comp_mask;
	uint32_t create_flags;
	struct ibv_exp_dm *dm;
};

struct ibv_exp_mw_bind_info {
	struct ibv_mr *mr;
	uint64_t addr;
	uint64_t length;
	uint64_t exp_mw_access_flags; /* enum ibv_exp_access_flags */
};

struct ibv_exp_mem_region {
	uint64_t base_addr;
	struct ibv_mr *mr;
	size_t length;
};

struct ibv_exp_mem_repeat_block {
	uint64_t base_addr;
	struct ibv_mr *mr;
	size_t *byte_count;
	size_t *stride;
};

struct ibv_exp_cmp_swap {
	uint64_t compare_mask;
	uint64_t compare_val;
	uint64_t swap_val;
	uint64_t swap_mask;
};

struct ibv_exp_fetch_add {
	uint64_t add_val;
	uint64_t field_boundary;
};

/* ---- Work requests and completions ---- */

__extension__ struct ibv_exp_send_wr {
	uint64_t wr_id;
	struct ibv_exp_send_wr *next;
	struct ibv_sge *sg_list;
	int num_sge;
	enum ibv_exp_wr_opcode exp_opcode;
	int reserved;
	union {
		uint32_t imm_data; /* network byte order */
		uint32_t invalidate_rkey;
	} ex;
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
		} rdma;
		struct {
			uint64_t remote_addr;
			uint64_t compare_add;
			uint64_t swap;
			uint32_t rkey;
		} atomic;
		struct {
			struct ibv_ah *ah;
			uint32_t remote_qpn;
			uint32_t remote_qkey;
		} ud;
	} wr;
	__extension__ union {
		union {
			struct {
				uint32_t remote_srqn;
			} xrc;
		} qp_type;
		uint32_t xrc_remote_srq_num;
	};
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
		} rdma;
		struct {
			uint64_t remote_addr;
			uint64_t compare_add;
			uint64_t swap;
			uint32_t rkey;
		} atomic;
		struct {
			struct ibv_cq *cq;
			int32_t cq_count;
		} cqe_wait;
		struct {
			struct ibv_qp *qp;
			int32_t wqe_count;
		} wqe_enable;
	} task;
	union {
		struct {
			enum ibv_exp_calc_op calc_op;
			enum ibv_exp_calc_data_type data_type;
			enum ibv_exp_calc_data_size data_size;
		} calc;
	} op;
	struct {
		struct ibv_ah *ah;
		uint64_t dct_access_key;
		uint32_t dct_number;
	} dc;
	__extension__ union {
		struct {
			struct ibv_mw *mw;
			uint32_t rkey;
			struct ibv_exp_mw_bind_info bind_info;
		} bind_mw;
		struct {
			void *hdr;
			uint16_t hdr_sz; /* bytes */
			uint16_t mss;	 /* bytes */
		} tso;
	};
	uint64_t exp_send_flags; /* enum ibv_exp_send_flags */
	uint32_t comp_mask;
	union {
		struct {
			uint32_t umr_type; /* enum ibv_exp_umr_wr_type */
			struct ibv_exp_mkey_list_container *memory_objects;
			uint64_t exp_access;
			struct ibv_mr *modified_mr;
			uint64_t base_addr;
			uint32_t num_mrs;
			union {
				struct ibv_exp_mem_region *mem_reg_list;
				struct {
					struct ibv_exp_mem_repeat_block *mem_repeat_block_list;
					size_t *repeat_count;
					uint32_t stride_dim;
				} rb;
			} mem_list;
		} umr;
		struct {
			uint32_t log_arg_sz; /* n: operands of 2^n bytes */
			uint64_t remote_addr;
			uint32_t rkey;
			union {
				struct {
					union {
						struct ibv_exp_cmp_swap cmp_swap;
						struct ibv_exp_fetch_add fetch_add;
					} op;
				} inline_data;
			} wr_data;
		} masked_atomics;
	} ext_op;
};

__extension__ struct ibv_exp_wc {
	uint64_t wr_id;
	enum ibv_wc_status status;
	enum ibv_exp_wc_opcode exp_opcode;
	uint32_t vendor_err;
	__extension__ union {
		uint32_t byte_len;
		struct {
			uint16_t strides_offset;
			uint16_t byte_len;
		} mp_wr;
	};
	uint32_t imm_data; /* network byte order; the invalidated rkey in host order */
	uint32_t qp_num;
	uint32_t src_qp;
	int reserved;
	uint16_t pkey_index;
	uint16_t slid;
	uint8_t sl;
	uint8_t dlid_path_bits;
	uint64_t timestamp;
	struct ibv_qp *qp;
	struct ibv_srq *srq;
	struct ibv_exp_dct *dct;
	uint64_t exp_wc_flags; /* enum ibv_exp_wc_flags */
	struct {
		uint64_t tag;
		uint32_t priv;
	} tm_info;
};

#ifdef __cplusplus
}
#endif

#endif
