/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The "experimental" verbs of MLNX_OFED 2 to 4 (VPI verbs manual, 3.8), for programs that still
 * call them. Each is an inline function that calls today's verbs, so a program needs only this
 * header and its binary imports nothing new. (A binary built with MLNX_OFED's headers looks for
 * another table in the context, does not find it, and fails with ENOSYS.)
 *
 * Whatever today's verbs support works. Everything else fails with EOPNOTSUPP before it has any
 * effect: dynamically connected transport, masked atomics, UMR, cross channel, inline receive.
 * Conventions as in verbs.h: results, ownership and threads are those of the verb that a function
 * calls.
 */
#ifndef INFINIBAND_VERBS_EXP_H
#define INFINIBAND_VERBS_EXP_H

#include <infiniband/verbs.h>
#include <infiniband/verbs/exp_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The bits of attr->comp_mask that this device supports; the query clears all others. */
enum {
	__IBV_EXP_DEVICE_ATTRS = IBV_EXP_DEVICE_ATTR_WITH_TIMESTAMP_MASK |
				 IBV_EXP_DEVICE_ATTR_WITH_HCA_CORE_CLOCK |
				 IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS |
				 IBV_EXP_DEVICE_ATTR_INLINE_RECV_SZ | IBV_EXP_DEVICE_ATTR_ODP |
				 IBV_EXP_DEVICE_ATTR_MAX_DCT | IBV_EXP_DEVICE_ATTR_TSO_CAPS |
				 IBV_EXP_DEVICE_ATTR_TM_CAPS | IBV_EXP_DEVICE_ATTR_MAX_DM_SIZE,
};

/*
 * Converts capability flags to their old bits: the low bits that both interfaces share, and the
 * window types, which were 32 bits higher.
 */
static inline uint64_t __ibv_exp_device_cap_flags(uint64_t flags, uint64_t odp)
{
	const uint64_t same = 0x107fff; /* RESIZE_MAX_WR .. N_NOTIFY_CQ, XRC */
	const uint64_t moved = IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_MGT_EXTENSIONS |
			       IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
			       IBV_DEVICE_MANAGED_FLOW_STEERING;

	return (flags & same) | (flags & moved) << 32 |
	       (odp & IBV_ODP_SUPPORT ? (uint64_t)IBV_EXP_DEVICE_ODP : 0);
}

/*
 * ibv_exp_query_device(3): ibv_query_device(), and the members requested by attr->comp_mask. Clears
 * the bits of comp_mask whose members the device does not have. Returns 0 or an errno value.
 */
static inline int ibv_exp_query_device(struct ibv_context *context,
				       struct ibv_exp_device_attr *attr)
{
	const uint32_t wanted = attr->comp_mask;
	struct ibv_device_attr_ex ex;
	int ret = ibv_query_device_ex(context, NULL, &ex);

	if (ret)
		return ret;
	memset(attr, 0, sizeof(*attr));
	memcpy(attr, &ex.orig_attr, sizeof(ex.orig_attr));
	attr->reserved = 0;
	attr->comp_mask = wanted & (uint32_t)__IBV_EXP_DEVICE_ATTRS;
	attr->timestamp_mask = ex.completion_timestamp_mask;
	attr->hca_core_clock = ex.hca_core_clock;
	attr->exp_device_cap_flags = __ibv_exp_device_cap_flags(
		ex.device_cap_flags_ex | ex.orig_attr.device_cap_flags, ex.odp_caps.general_caps);
	attr->odp_caps.general_odp_caps = ex.odp_caps.general_caps;
	attr->odp_caps.per_transport_caps.rc_odp_caps = ex.odp_caps.per_transport_caps.rc_odp_caps;
	attr->odp_caps.per_transport_caps.uc_odp_caps = ex.odp_caps.per_transport_caps.uc_odp_caps;
	attr->odp_caps.per_transport_caps.ud_odp_caps = ex.odp_caps.per_transport_caps.ud_odp_caps;
	attr->odp_caps.per_transport_caps.xrc_odp_caps = ex.xrc_odp_caps;
	attr->tso_caps.max_tso = ex.tso_caps.max_tso;
	attr->tso_caps.supported_qpts = ex.tso_caps.supported_qpts;
	attr->tm_caps.max_rndv_hdr_size = ex.tm_caps.max_rndv_hdr_size;
	attr->tm_caps.max_num_tags = ex.tm_caps.max_num_tags;
	attr->tm_caps.capability_flags = ex.tm_caps.flags;
	attr->tm_caps.max_ops = ex.tm_caps.max_ops;
	attr->tm_caps.max_sge = ex.tm_caps.max_sge;
	attr->max_dm_size = ex.max_dm_size;
	return 0;
}

/*
 * Returns the RoCE type and the GID at an index (0 to gid_tbl_len - 1) of port port_num (from 1).
 * Sets both members, whatever attr->comp_mask requests. Returns 0 or an errno value: ENODATA: the
 * entry is empty. As ibv_query_gid_ex(3).
 */
static inline int ibv_exp_query_gid_attr(struct ibv_context *context, uint8_t port_num,
					 unsigned int index, struct ibv_exp_gid_attr *attr)
{
	struct ibv_gid_entry entry;
	int ret = ibv_query_gid_ex(context, port_num, index, &entry, 0);

	if (ret)
		return ret;
	attr->type = entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? IBV_EXP_ROCE_V2_GID_TYPE :
							      IBV_EXP_IB_ROCE_V1_GID_TYPE;
	attr->gid = entry.gid;
	return 0;
}

/*
 * ibv_create_cq(3). attr may be NULL; no attribute beyond those of ibv_create_cq() is supported.
 * Returns NULL with errno on failure.
 */
static inline struct ibv_cq *ibv_exp_create_cq(struct ibv_context *context, int cqe,
					       void *cq_context, struct ibv_comp_channel *channel,
					       int comp_vector, struct ibv_exp_cq_init_attr *attr)
{
	const uint32_t mask = attr ? attr->comp_mask : 0;

	if (mask & ~(uint32_t)IBV_EXP_CQ_INIT_ATTR_FLAGS ||
	    (mask & IBV_EXP_CQ_INIT_ATTR_FLAGS && attr->flags)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return ibv_create_cq(context, cqe, cq_context, channel, comp_vector);
}

/* Converts access flags to those of verbs.h; ~0u if verbs.h does not have one of them. */
static inline unsigned int __ibv_exp_access(uint64_t exp)
{
	const uint64_t same = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
			      IBV_ACCESS_MW_BIND;
	unsigned int access = (unsigned int)(exp & same);

	if (exp & ~(same | IBV_EXP_ACCESS_MW_ZERO_BASED | IBV_EXP_ACCESS_ON_DEMAND |
		    IBV_EXP_ACCESS_RELAXED))
		return ~0u;
	if (exp & IBV_EXP_ACCESS_MW_ZERO_BASED)
		access |= IBV_ACCESS_ZERO_BASED;
	if (exp & IBV_EXP_ACCESS_ON_DEMAND)
		access |= IBV_ACCESS_ON_DEMAND;
	if (exp & IBV_EXP_ACCESS_RELAXED)
		access |= IBV_ACCESS_RELAXED_ORDERING;
	return access;
}

/*
 * ibv_exp_reg_mr(3): ibv_reg_mr_iova2() with in->exp_access. The memory stays the caller's. Returns
 * NULL with errno on failure.
 */
static inline struct ibv_mr *ibv_exp_reg_mr(struct ibv_exp_reg_mr_in *in)
{
	const unsigned int access = __ibv_exp_access(in->exp_access);

	if (access == ~0u || in->comp_mask) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return ibv_reg_mr_iova2(in->pd, in->addr, in->length, (uintptr_t)in->addr, access);
}

/*
 * ibv_exp_create_qp(3): ibv_create_qp_ex() with the attributes PD, XRCD and MAX_TSO_HEADER of
 * comp_mask; INL_RECV and PORT are accepted without effect. Sets attr->cap to the actual sizes.
 * Returns NULL with errno on failure.
 */
static inline struct ibv_qp *ibv_exp_create_qp(struct ibv_context *context,
					       struct ibv_exp_qp_init_attr *attr)
{
	const uint32_t known = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_XRCD |
			       IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS | IBV_EXP_QP_INIT_ATTR_INL_RECV |
			       IBV_EXP_QP_INIT_ATTR_PORT | IBV_EXP_QP_INIT_ATTR_MAX_TSO_HEADER;
	struct ibv_qp_init_attr_ex ex;
	struct ibv_qp *qp;

	if (attr->comp_mask & ~known ||
	    (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS && attr->exp_create_flags)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	memset(&ex, 0, sizeof(ex));
	ex.qp_context = attr->qp_context;
	ex.send_cq = attr->send_cq;
	ex.recv_cq = attr->recv_cq;
	ex.srq = attr->srq;
	ex.cap = attr->cap;
	ex.qp_type = attr->qp_type;
	ex.sq_sig_all = attr->sq_sig_all;
	ex.comp_mask = attr->comp_mask & (IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD);
	ex.pd = attr->pd;
	ex.xrcd = attr->xrcd;
	if (attr->comp_mask & IBV_EXP_QP_INIT_ATTR_MAX_TSO_HEADER) {
		ex.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
		ex.max_tso_header = attr->max_tso_header;
	}
	qp = ibv_create_qp_ex(context, &ex);
	if (qp) {
		attr->cap = ex.cap;
		attr->max_inl_recv = 0;
	}
	return qp;
}

/*
 * ibv_modify_qp(3), with the rate limit (kbit/s) at its old bit and place. exp_attr_mask is a mask
 * of enum ibv_exp_qp_attr_mask. Returns 0 or an errno value.
 */
static inline int ibv_exp_modify_qp(struct ibv_qp *qp, struct ibv_exp_qp_attr *attr,
				    uint64_t exp_attr_mask)
{
	const uint64_t same = 0x1fffff; /* IBV_QP_STATE .. IBV_QP_DEST_QPN */
	int mask = (int)(exp_attr_mask & same);
	struct ibv_qp_attr plain;

	if (exp_attr_mask & ~(same | IBV_EXP_QP_RATE_LIMIT))
		return EOPNOTSUPP;
	memset(&plain, 0, sizeof(plain));
	memcpy(&plain, attr, offsetof(struct ibv_qp_attr, rate_limit));
	if (exp_attr_mask & IBV_EXP_QP_RATE_LIMIT) {
		mask |= IBV_QP_RATE_LIMIT;
		plain.rate_limit = attr->rate_limit;
	}
	return ibv_modify_qp(qp, &plain, mask);
}

/* Converts a work request to struct ibv_send_wr. Returns 0 or EOPNOTSUPP. */
static inline int __ibv_exp_convert_wr(const struct ibv_exp_send_wr *exp, struct ibv_send_wr *wr)
{
	const uint64_t same =
		IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;

	if ((exp->exp_opcode > IBV_EXP_WR_SEND_WITH_INV && exp->exp_opcode != IBV_EXP_WR_TSO) ||
	    exp->exp_send_flags & ~(same | IBV_EXP_SEND_IP_CSUM) || exp->comp_mask)
		return EOPNOTSUPP;
	memset(wr, 0, sizeof(*wr));
	wr->wr_id = exp->wr_id;
	wr->sg_list = exp->sg_list;
	wr->num_sge = exp->num_sge;
	wr->opcode = exp->exp_opcode == IBV_EXP_WR_TSO ? IBV_WR_TSO :
							 (enum ibv_wr_opcode)exp->exp_opcode;
	wr->send_flags = (unsigned int)(exp->exp_send_flags & same);
	if (exp->exp_send_flags & IBV_EXP_SEND_IP_CSUM)
		wr->send_flags |= IBV_SEND_IP_CSUM;
	wr->invalidate_rkey = exp->ex.invalidate_rkey;
	memcpy(&wr->wr, &exp->wr, sizeof(wr->wr));
	wr->qp_type.xrc.remote_srqn = exp->xrc_remote_srq_num;
	if (exp->exp_opcode == IBV_EXP_WR_TSO) {
		wr->tso.hdr = exp->tso.hdr;
		wr->tso.hdr_sz = exp->tso.hdr_sz;
		wr->tso.mss = exp->tso.mss;
	} else if (exp->exp_opcode == IBV_EXP_WR_BIND_MW) {
		const unsigned int access =
			__ibv_exp_access(exp->bind_mw.bind_info.exp_mw_access_flags);

		if (access == ~0u)
			return EOPNOTSUPP;
		wr->bind_mw.mw = exp->bind_mw.mw;
		wr->bind_mw.rkey = exp->bind_mw.rkey;
		wr->bind_mw.bind_info.mr = exp->bind_mw.bind_info.mr;
		wr->bind_mw.bind_info.addr = exp->bind_mw.bind_info.addr;
		wr->bind_mw.bind_info.length = exp->bind_mw.bind_info.length;
		wr->bind_mw.bind_info.mw_access_flags = access;
	}
	return 0;
}

/*
 * ibv_exp_post_send(3): posts the list in order. On failure returns an errno value, and *bad_wr is
 * the first request that was not posted; the requests before it are posted.
 */
static inline int ibv_exp_post_send(struct ibv_qp *qp, struct ibv_exp_send_wr *wr,
				    struct ibv_exp_send_wr **bad_wr)
{
	struct ibv_send_wr plain, *bad;

	for (; wr; wr = wr->next) {
		int ret = __ibv_exp_convert_wr(wr, &plain);

		if (!ret)
			ret = ibv_post_send(qp, &plain, &bad);
		if (ret) {
			*bad_wr = wr;
			return ret;
		}
	}
	return 0;
}

static inline void __ibv_exp_convert_wc(const struct ibv_wc *wc, struct ibv_exp_wc *exp)
{
	const unsigned int same = IBV_WC_GRH | IBV_WC_WITH_IMM | IBV_WC_WITH_INV;

	memset(exp, 0, sizeof(*exp));
	exp->wr_id = wc->wr_id;
	exp->status = wc->status;
	exp->exp_opcode =
		wc->opcode == IBV_WC_TSO ? IBV_EXP_WC_TSO : (enum ibv_exp_wc_opcode)wc->opcode;
	exp->vendor_err = wc->vendor_err;
	exp->byte_len = wc->byte_len;
	exp->imm_data = wc->invalidated_rkey;
	exp->qp_num = wc->qp_num;
	exp->src_qp = wc->src_qp;
	exp->pkey_index = wc->pkey_index;
	exp->slid = wc->slid;
	exp->sl = wc->sl;
	exp->dlid_path_bits = wc->dlid_path_bits;
	exp->exp_wc_flags = (wc->wc_flags & same) | IBV_EXP_WC_WITH_SL | IBV_EXP_WC_WITH_SLID;
	if (wc->wc_flags & IBV_WC_IP_CSUM_OK)
		exp->exp_wc_flags |= IBV_EXP_WC_RX_IP_CSUM_OK;
}

/*
 * ibv_poll_cq(3). wc_size is the caller's sizeof(*wc) in bytes, the distance between two entries of
 * wc. Returns the number of completions, or a negative value if the CQ has failed.
 */
static inline int ibv_exp_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_exp_wc *wc,
				  uint32_t wc_size)
{
	struct ibv_wc plain[16];
	struct ibv_exp_wc exp;
	char *out = (char *)wc;
	int done = 0;

	while (done < num_entries) {
		const int room = num_entries - done < 16 ? num_entries - done : 16;
		const int n = ibv_poll_cq(cq, room, plain);

		if (n < 0)
			return done ? done : n;
		for (int i = 0; i < n; i++, out += wc_size) {
			__ibv_exp_convert_wc(&plain[i], &exp);
			memcpy(out, &exp, wc_size < sizeof(exp) ? wc_size : sizeof(exp));
		}
		done += n;
		if (n < room)
			break;
	}
	return done;
}

#ifdef __cplusplus
}
#endif

#endif
