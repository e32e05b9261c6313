/* SPDX-License-Identifier: BSD-2-Clause */
/* QP attributes that follow from a connection's parameters. */
#include "cm/parts.h"
#include "util/compiler.h"

#include <errno.h>

enum {
	ACK_TIMEOUT_MAX = 31,
	/* Linux adds FLUSH where the device has it (drivers/infiniband/core/cm.c), as ours do. */
	ACCESS_REMOTE_READ = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
			     IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT,
};

/* As Linux: twice the packet lifetime plus the ACK delay, rounded up to a power of two. */
uint8_t cm_ack_timeout(uint8_t delay, uint8_t life_time)
{
	unsigned int t = life_time + 1u;

	if (t >= delay)
		t += delay >= t - 1;
	else
		t = delay + (t >= delay - 1u);
	return (uint8_t)min(t, (unsigned int)ACK_TIMEOUT_MAX);
}

enum kind {
	KIND_RC,
	KIND_UC,
	KIND_XRC_SEND,
	KIND_XRC_RECV,
};

static enum kind kind_of(const struct cm_conn *c)
{
	if (c->transport == CM_EXTENDED)
		return c->active ? KIND_XRC_SEND : KIND_XRC_RECV;
	return c->transport == CM_UC ? KIND_UC : KIND_RC;
}

/* True once the peer's parameters are known. */
static bool is_agreed(const struct cm_conn *c)
{
	return c->remote_id && !c->datagram;
}

static void init_attr(const struct cm_conn *c, struct ibv_qp_attr *attr, int *mask)
{
	*mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	attr->qp_access_flags = c->state == CM_IDLE ? 0 : IBV_ACCESS_REMOTE_WRITE;
	if (c->state != CM_IDLE && c->responder_resources)
		attr->qp_access_flags |= ACCESS_REMOTE_READ;
}

static void set_path(const struct cm_conn *c, struct ibv_ah_attr *ah)
{
	memset(ah, 0, sizeof(*ah));
	ah->is_global = 1;
	memcpy(ah->grh.dgid.raw, c->path.dst.raw, sizeof(ah->grh.dgid.raw));
	ah->grh.flow_label = c->path.flow_label;
	ah->grh.hop_limit = c->path.hop_limit;
	ah->grh.traffic_class = c->path.traffic_class;
	ah->sl = c->path.sl;
}

static void rtr_attr(const struct cm_conn *c, struct ibv_qp_attr *attr, int *mask)
{
	enum kind kind = kind_of(c);

	*mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	set_path(c, &attr->ah_attr);
	attr->path_mtu = c->mtu;
	attr->dest_qp_num = c->peer_qpn;
	attr->rq_psn = c->rq_psn;
	if (kind == KIND_RC || kind == KIND_XRC_RECV) {
		*mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		attr->max_dest_rd_atomic = c->responder_resources;
		attr->min_rnr_timer = 0;
	}
}

static void rts_attr(const struct cm_conn *c, struct ibv_qp_attr *attr, int *mask)
{
	enum kind kind = kind_of(c);

	*mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	attr->sq_psn = c->sq_psn;
	if (kind == KIND_RC || kind == KIND_XRC_SEND) {
		*mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
		attr->retry_cnt = c->retry_count;
		attr->rnr_retry = c->rnr_retry;
		attr->max_rd_atomic = c->initiator_depth;
	}
	if (kind != KIND_UC) {
		*mask |= IBV_QP_TIMEOUT;
		attr->timeout = c->ack_timeout;
	}
}

int cm_qp_attr(const struct cm_conn *c, struct ibv_qp_attr *attr, int *mask)
{
	switch (attr->qp_state) {
	case IBV_QPS_INIT:
		init_attr(c, attr, mask);
		return 0;
	case IBV_QPS_RTR:
		if (!is_agreed(c))
			return EINVAL;
		rtr_attr(c, attr, mask);
		return 0;
	case IBV_QPS_RTS:
		if (!is_agreed(c))
			return EINVAL;
		rts_attr(c, attr, mask);
		return 0;
	default:
		return EINVAL;
	}
}
