/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/limits.h"

#include "flow/hash.h"
#include "roce/engine.h"
#include "wq/tag_list.h"

enum {
	MAX_QP = 1 << 18,
	MAX_MCAST_GRP = 8192,
	MAX_MCAST_QP = 256,
	ODP_RC = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
		 IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV |
		 IBV_ODP_SUPPORT_FLUSH | IBV_ODP_SUPPORT_ATOMIC_WRITE,
	ODP_UC = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
		 IBV_ODP_SUPPORT_SRQ_RECV,
	ODP_UD = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV,
	CAPS = IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR | IBV_DEVICE_UD_AV_PORT_ENFORCE |
	       IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
	       IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE |
	       IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_XRC | IBV_DEVICE_MEM_MGT_EXTENSIONS |
	       IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_UD_IP_CSUM | IBV_DEVICE_RAW_IP_CSUM |
	       IBV_DEVICE_AUTO_PATH_MIG | IBV_DEVICE_MANAGED_FLOW_STEERING,
};

/*
 * Linux's IB_UVERBS_DEVICE_ of these names, for which libibverbs has none. Soft RoCE reports them
 * since 6.2, and librpma looks for them.
 */
#define CAP_FLUSH_GLOBAL     (1ULL << 38)
#define CAP_FLUSH_PERSISTENT (1ULL << 39)
#define CAP_ATOMIC_WRITE     (1ULL << 40)

/*
 * The vendor ID is an unassigned OUI, as in soft RoCE, and the part number is ours ("vb"), so that
 * programs apply no vendor-specific quirks.
 */
const struct ibv_device_attr_ex vrb_device_limits = {
	.orig_attr = {
		.fw_ver = VRB_VERSION,
		.max_mr_size = UINT64_MAX,
		.page_size_cap = 0xfffff000,	/* any page size: regions have byte granularity */
		.vendor_id = 0xffffff,
		.vendor_part_id = 0x7662,
		.hw_ver = 1,
		.max_qp = MAX_QP,
		.max_qp_wr = 1 << 16,
		.device_cap_flags = CAPS,
		.max_sge = 32,
		.max_sge_rd = 32,
		.max_cq = 1 << 18,
		.max_cqe = (1 << 22) - 1,
		.max_mr = (1 << 19) - 1,
		.max_pd = 1 << 16,
		.max_qp_rd_atom = ROCE_MAX_RD_ATOMIC,
		.max_res_rd_atom = MAX_QP * ROCE_MAX_RD_ATOMIC,
		.max_qp_init_rd_atom = ROCE_MAX_RD_ATOMIC,
		.atomic_cap = IBV_ATOMIC_HCA,
		.max_mw = (1 << 19) - 1,
		.max_mcast_grp = MAX_MCAST_GRP,
		.max_mcast_qp_attach = MAX_MCAST_QP,
		.max_total_mcast_qp_attach = MAX_MCAST_GRP * MAX_MCAST_QP,
		.max_ah = 1 << 20,
		.max_srq = 1 << 16,
		.max_srq_wr = 1 << 16,
		.max_srq_sge = 32,
		.max_pkeys = 1,
		.local_ca_ack_delay = 15,	/* 134 ms, to allow for scheduling delays */
		.phys_port_cnt = 1,
	},
	.odp_caps = {
		.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
		.per_transport_caps = {
			.rc_odp_caps = ODP_RC,
			.uc_odp_caps = ODP_UC,
			.ud_odp_caps = ODP_UD,
		},
	},
	.completion_timestamp_mask = UINT64_MAX,
	.hca_core_clock = 1000000,	/* kHz: timestamps count nanoseconds */
	.device_cap_flags_ex = CAPS | CAP_FLUSH_GLOBAL | CAP_FLUSH_PERSISTENT | CAP_ATOMIC_WRITE,
	.tso_caps = { .max_tso = VRB_MAX_TSO,
		      .supported_qpts = 1 << IBV_QPT_UD | 1 << IBV_QPT_RAW_PACKET },
	.packet_pacing_caps = {
		.qp_rate_limit_min = VRB_RATE_MIN,
		.qp_rate_limit_max = VRB_RATE_MAX,
		.supported_qpts = 1 << IBV_QPT_RC | 1 << IBV_QPT_UC | 1 << IBV_QPT_UD |
				  1 << IBV_QPT_XRC_SEND | 1 << IBV_QPT_RAW_PACKET,
	},
	.tm_caps = {
		.max_rndv_hdr_size = TM_MAX_REQUEST,
		.max_num_tags = TAGS_MAX,
		.flags = IBV_TM_CAP_RC,
		.max_ops = TM_MAX_OPS,
		.max_sge = TAG_MAX_SGE,
	},
	.cq_mod_caps = { .max_cq_count = UINT16_MAX, .max_cq_period = UINT16_MAX },
	.raw_packet_caps = IBV_RAW_PACKET_CAP_CVLAN_STRIPPING | IBV_RAW_PACKET_CAP_IP_CSUM,
	.rss_caps = {
		.supported_qpts = 1 << IBV_QPT_RAW_PACKET,
		.max_rwq_indirection_tables = VRB_MAX_RWQ_TABLES,
		.max_rwq_indirection_table_size = VRB_MAX_RWQ_TABLE_SIZE,
		.rx_hash_fields_mask = FLOW_HASH_FIELDS,
		.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
	},
	.max_wq_type_rq = MAX_QP,
	.max_dm_size = 64 << 20,
	.xrc_odp_caps = ODP_RC,
	.phys_port_cnt_ex = 1,
};
