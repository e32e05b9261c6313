/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses, and the transitions of a queue pair from RESET to RTS:
 *
 *	ERROR ──qp_to_init── RESET ── INIT ──qp_to_receiving── RTR ──qp_to_sending── RTS
 *	                                                             SQD, SQE ───────┘
 *
 * Which attributes a transition needs differs by type; a raw packet queue pair has only its port.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "verbena/private.h"

enum {
	PSN_MASK = 0xffffff,
	QPN_MASK = 0xffffff,
	/* For RC: a local ACK timeout of 67 ms, 7 retries; unlimited RNR retries. */
	TIMEOUT = 14,
	RETRIES = 7,
	RNR_RETRY_FOREVER = 7,
	RNR_TIMER_640_US = 12,
	HOP_LIMIT = 64,
};

static bool is_ipv4(const union ibv_gid *gid)
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(gid->raw, prefix, sizeof(prefix)) == 0;
}

static bool is_link_local(const union ibv_gid *gid)
{
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

/* Ranks addresses for an unknown peer: IPv4, then routable IPv6, then any other. */
static int worth(const union ibv_gid *gid)
{
	static const union ibv_gid none;

	if (memcmp(gid, &none, sizeof(none)) == 0)
		return 0;
	return is_ipv4(gid) ? 3 : is_link_local(gid) ? 1 : 2;
}

static int choose_gid(struct context *ctx)
{
	int best = 0, err;
	union ibv_gid gid;

	for (int i = 0;
	     i <= UINT8_MAX && !ibv_query_gid(ctx->pub.context, ctx->pub.port_num, i, &gid); i++) {
		if (worth(&gid) <= best)
			continue;
		best = worth(&gid);
		ctx->gid_index = (uint8_t)i;
	}
	if (!best)
		return fail(EADDRNOTAVAIL, "%s port %u", ctx->dev_name, ctx->pub.port_num);
	err = ibv_query_gid(ctx->pub.context, ctx->pub.port_num, ctx->gid_index, &ctx->self.gid);
	return err ? fail(errno, "ibv_query_gid") : 0;
}

int path_find_self(struct context *ctx)
{
	if (ctx->opt.gid_index >= 0) {
		ctx->gid_index = (uint8_t)ctx->opt.gid_index;
		if (ibv_query_gid(ctx->pub.context, ctx->pub.port_num, ctx->opt.gid_index,
				  &ctx->self.gid) ||
		    !worth(&ctx->self.gid))
			return fail(EINVAL, "gid_index: %s has no entry %d", ctx->dev_name,
				    ctx->opt.gid_index);
	} else if (choose_gid(ctx)) {
		return -1;
	}
	if (getrandom(&ctx->self.psn, sizeof(ctx->self.psn), 0) != sizeof(ctx->self.psn))
		return fail(errno, "getrandom");
	ctx->self.psn &= PSN_MASK;
	ctx->self.qpn = ctx->pub.qp->qp_num;
	ctx->self.qkey = ctx->opt.qkey;
	ctx->self.mtu = ctx->mtu;
	return 0;
}

API int verbena_get_address(const struct verbena_context *ctx, struct verbena_address *address)
{
	if (!ctx || !address)
		return fail(EINVAL, "verbena_get_address: NULL");
	if (of_const_pub(ctx)->opt.qp_type == IBV_QPT_RAW_PACKET)
		return fail(EOPNOTSUPP, "a raw packet queue pair has no address");
	*address = of_const_pub(ctx)->self;
	return 0;
}

/* ---- The peer ---- */

static struct ibv_ah_attr path_to(const struct context *ctx, const struct verbena_address *peer)
{
	return (struct ibv_ah_attr){
		.grh = { .dgid = peer->gid, .sgid_index = ctx->gid_index, .hop_limit = HOP_LIMIT },
		.dlid = peer->lid,
		.is_global = 1,
		.port_num = ctx->pub.port_num,
	};
}

/* Returns the state, or -1. */
static int query_state(struct context *ctx)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int err = ibv_query_qp(ctx->pub.qp, &attr, IBV_QP_STATE, &init);

	if (err)
		return fail(err, "ibv_query_qp");
	return (int)attr.qp_state;
}

static int address_datagrams(struct context *ctx, const struct verbena_address *peer)
{
	struct ibv_ah_attr attr = path_to(ctx, peer);
	struct ibv_ah *ah = ibv_create_ah(ctx->pub.pd, &attr);

	if (!ah)
		return fail(errno, "ibv_create_ah");
	if (ctx->pub.ah)
		ibv_destroy_ah(ctx->pub.ah);
	ctx->pub.ah = ah;
	return 0;
}

API int verbena_connect(struct verbena_context *pub, const struct verbena_address *peer)
{
	static const union ibv_gid none;
	struct context *ctx = of_pub(pub);
	int state;

	if (!pub || !peer)
		return fail(EINVAL, "verbena_connect: NULL");
	if (ctx->opt.qp_type == IBV_QPT_RAW_PACKET)
		return fail(EOPNOTSUPP, "a raw packet queue pair cannot be connected");
	if (peer->mtu < IBV_MTU_256 || peer->mtu > IBV_MTU_4096 || peer->qpn > QPN_MASK ||
	    peer->psn > PSN_MASK || peer->reserved || memcmp(&peer->gid, &none, sizeof(none)) == 0)
		return fail(EINVAL, "verbena_connect: invalid address");
	if (ctx->opt.qp_type == IBV_QPT_UD) {
		if (address_datagrams(ctx, peer))
			return -1;
	} else {
		state = query_state(ctx);
		if (state < 0)
			return -1;
		if (state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD ||
		    state == IBV_QPS_SQE)
			return fail(EISCONN, "verbena_connect");
	}
	ctx->peer = *peer;
	ctx->connected = true;
	return 0;
}

/* ---- Transitions ---- */

/* The attributes that each transition needs besides the state, by type. */
static int init_mask(enum ibv_qp_type type)
{
	if (type == IBV_QPT_RAW_PACKET)
		return IBV_QP_PORT;
	return IBV_QP_PKEY_INDEX | IBV_QP_PORT |
	       (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
}

static int rtr_mask(enum ibv_qp_type type)
{
	if (type == IBV_QPT_RAW_PACKET || type == IBV_QPT_UD)
		return 0;
	return IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	       (type == IBV_QPT_RC ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
}

static int rts_mask(enum ibv_qp_type type)
{
	if (type == IBV_QPT_RAW_PACKET)
		return 0;
	return IBV_QP_SQ_PSN | (type != IBV_QPT_RC ? 0 :
					IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						IBV_QP_MAX_QP_RD_ATOMIC);
}

/* Attributes of all transitions; the mask selects those that are read. */
static int move(struct context *ctx, enum ibv_qp_state state, int mask)
{
	struct ibv_qp_attr attr = {
		.qp_state = state,
		.port_num = ctx->pub.port_num,
		.qkey = ctx->opt.qkey,
		.qp_access_flags = ctx->opt.qp_access_flags,
		.ah_attr = path_to(ctx, &ctx->peer),
		.path_mtu = (enum ibv_mtu)(ctx->peer.mtu < ctx->mtu ? ctx->peer.mtu : ctx->mtu),
		.dest_qp_num = ctx->peer.qpn,
		.rq_psn = ctx->peer.psn,
		.sq_psn = ctx->self.psn,
		.max_dest_rd_atomic = ctx->max_dest_rd_atomic,
		.max_rd_atomic = ctx->max_rd_atomic,
		.min_rnr_timer = RNR_TIMER_640_US,
		.timeout = TIMEOUT,
		.retry_cnt = RETRIES,
		.rnr_retry = RNR_RETRY_FOREVER,
	};
	int err = ibv_modify_qp(ctx->pub.qp, &attr, mask | IBV_QP_STATE);

	return err ? fail(err, "ibv_modify_qp to state %d", (int)state) : 0;
}

int qp_to_init(struct context *ctx)
{
	int state = query_state(ctx);

	if (state < 0)
		return -1;
	if (state == IBV_QPS_ERR && move(ctx, IBV_QPS_RESET, 0))
		return -1;
	if (state != IBV_QPS_ERR && state != IBV_QPS_RESET)
		return 0;
	return move(ctx, IBV_QPS_INIT, init_mask(ctx->opt.qp_type));
}

int path_check(struct context *ctx)
{
	if (!ctx->connected && rtr_mask(ctx->opt.qp_type))
		return fail(ENOTCONN, "no peer: call verbena_connect() first");
	return 0;
}

int qp_to_receiving(struct context *ctx)
{
	int state;

	if (path_check(ctx) || qp_to_init(ctx))
		return -1;
	state = query_state(ctx);
	if (state != IBV_QPS_INIT)
		return state < 0 ? -1 : 0;
	return move(ctx, IBV_QPS_RTR, rtr_mask(ctx->opt.qp_type));
}

int qp_to_sending(struct context *ctx)
{
	int state;

	if (qp_to_receiving(ctx))
		return -1;
	state = query_state(ctx);
	if (state < 0 || state == IBV_QPS_RTS)
		return state < 0 ? -1 : 0;
	return move(ctx, IBV_QPS_RTS, state == IBV_QPS_RTR ? rts_mask(ctx->opt.qp_type) : 0);
}
