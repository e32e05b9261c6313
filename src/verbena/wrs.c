/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work requests for packet buffers.  Sends and receives differ in their struct only, so what both
 * have is written once: registration and scatter lists ("parts").
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "verbena/private.h"

struct parts {
	struct ibv_sge *sges;
	struct ibv_mr **mrs;
};

static int deregister(struct ibv_mr **mrs, uint32_t n)
{
	int err = 0;

	for (uint32_t b = 0; mrs && b < n; b++)
		if (mrs[b] && !err)
			err = ibv_dereg_mr(mrs[b]);
	free(mrs);
	return err ? fail(err, "ibv_dereg_mr") : 0;
}

static struct ibv_mr **register_bufs(struct verbena_context *ctx, const struct verbena_buf *bufs,
				     uint32_t num_bufs)
{
	struct ibv_mr **mrs = calloc(num_bufs, sizeof(struct ibv_mr *));
	int err;

	if (!mrs) {
		fail(ENOMEM, "%u memory regions", num_bufs);
		return NULL;
	}
	for (uint32_t b = 0; b < num_bufs; b++) {
		mrs[b] = ibv_reg_mr(ctx->pd, bufs[b].addr, bufs[b].row * bufs[b].num_pkt,
				    IBV_ACCESS_LOCAL_WRITE);
		if (mrs[b])
			continue;
		err = errno;
		deregister(mrs, b);
		fail(err, "ibv_reg_mr of bufs[%u]", b);
		return NULL;
	}
	return mrs;
}

static bool lies_within(const struct verbena_buf *buf, const struct ibv_mr *mr)
{
	uintptr_t offset = (uintptr_t)buf->addr - (uintptr_t)mr->addr;

	return (uintptr_t)buf->addr >= (uintptr_t)mr->addr && offset <= mr->length &&
	       buf->row * buf->num_pkt <= mr->length - offset;
}

static struct ibv_sge *sges_of(struct ibv_mr *const *mrs, const struct verbena_buf *bufs,
			       uint32_t num_bufs, uint32_t num_wr)
{
	uint32_t *lkeys = calloc(num_bufs, sizeof(*lkeys));
	struct ibv_sge *sges;

	if (!lkeys) {
		fail(ENOMEM, "%u keys", num_bufs);
		return NULL;
	}
	for (uint32_t b = 0; b < num_bufs; b++)
		lkeys[b] = mrs[b]->lkey;
	sges = verbena_create_sges(bufs, num_bufs, lkeys, num_wr);
	free(lkeys);
	return sges;
}

/* The form with regions. */
static struct ibv_sge *given_sges(const void *set, struct ibv_mr *const *mrs,
				  const struct verbena_buf *bufs, uint32_t num_bufs,
				  uint32_t num_wr)
{
	int ret;

	if (!set)
		ret = fail(EINVAL, "NULL");
	else if (!mrs)
		ret = fail(EINVAL, "no memory regions");
	else if (num_bufs > INT_MAX)
		ret = fail(EINVAL, "%u bufs", num_bufs);
	else
		ret = bufs_check(bufs, num_bufs, num_wr);
	for (uint32_t b = 0; !ret && b < num_bufs; b++)
		if (!mrs[b] || !lies_within(&bufs[b], mrs[b]))
			ret = fail(EINVAL, "bufs[%u] is not in its memory region", b);
	return ret ? NULL : sges_of(mrs, bufs, num_bufs, num_wr);
}

/* The form with a context. */
static int make_parts(struct verbena_context *ctx, const struct verbena_buf *bufs,
		      uint32_t num_bufs, uint32_t num_wr, struct parts *parts)
{
	int err;

	if (bufs_check(bufs, num_bufs, num_wr))
		return -1;
	parts->mrs = register_bufs(ctx, bufs, num_bufs);
	if (!parts->mrs)
		return -1;
	parts->sges = sges_of(parts->mrs, bufs, num_bufs, num_wr);
	if (parts->sges)
		return 0;
	err = errno;
	deregister(parts->mrs, num_bufs);
	errno = err;
	return -1;
}

/* Posting all or nothing: what can be known before it is done. */
static int check_create(struct verbena_context *ctx, unsigned int flags, unsigned int known,
			const void *set, uint32_t num_wr, uint32_t most)
{
	if (!ctx || !set)
		return fail(EINVAL, "NULL");
	if (flags & ~known)
		return fail(EINVAL, "unknown flags 0x%x", flags & ~known);
	if ((flags & VERBENA_POST) && num_wr > most)
		return fail(ENOMEM, "posting %u requests to a queue for %u", num_wr, most);
	return flags & VERBENA_POST ? path_check(of_pub(ctx)) : 0;
}

/* ---- Sends ---- */

static struct ibv_send_wr *make_sends(struct ibv_sge *sges, uint32_t num_bufs, uint32_t num_wr)
{
	struct ibv_send_wr *wrs = calloc(num_wr, sizeof(*wrs));

	if (!wrs)
		fail(ENOMEM, "%u work requests", num_wr);
	for (uint32_t i = 0; wrs && i < num_wr; i++)
		wrs[i] = (struct ibv_send_wr){
			.wr_id = i,
			.next = i + 1 < num_wr ? &wrs[i + 1] : NULL,
			.sg_list = sges + (size_t)i * num_bufs,
			.num_sge = (int)num_bufs,
			.opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED,
		};
	return wrs;
}

/* Where they go, and what the device does to them. */
static void address_sends(struct context *ctx, struct ibv_send_wr *wrs, uint32_t num_wr,
			  unsigned int flags)
{
	for (uint32_t i = 0; i < num_wr; i++) {
		if (flags & VERBENA_OFFLOAD)
			wrs[i].send_flags |= IBV_SEND_IP_CSUM;
		if (ctx->opt.qp_type != IBV_QPT_UD)
			continue;
		wrs[i].wr.ud.ah = ctx->pub.ah;
		wrs[i].wr.ud.remote_qpn = ctx->peer.qpn;
		wrs[i].wr.ud.remote_qkey = ctx->peer.qkey;
	}
}

API int verbena_create_send_wrs(struct verbena_context *ctx, const struct verbena_buf *bufs,
				uint32_t num_bufs, uint32_t num_wr, unsigned int flags,
				struct verbena_send_wrs *set)
{
	struct verbena_send_wrs made = { .num_wr = num_wr, .num_bufs = num_bufs };
	struct parts parts;
	int err;

	if (check_create(ctx, flags, VERBENA_POST | VERBENA_OFFLOAD, set, num_wr,
			 ctx ? ctx->max_send_wr : 0))
		return -1;
	if ((flags & VERBENA_POST) && of_pub(ctx)->opt.qp_type == IBV_QPT_UD && !ctx->ah)
		return fail(ENOTCONN, "no destination: call verbena_connect() first");
	if (make_parts(ctx, bufs, num_bufs, num_wr, &parts))
		return -1;
	made.sges = parts.sges;
	made.mrs = parts.mrs;
	made.wrs = make_sends(made.sges, num_bufs, num_wr);
	if (!made.wrs)
		goto destroy;
	address_sends(of_pub(ctx), made.wrs, num_wr, flags);
	if ((flags & VERBENA_POST) && verbena_post_send_wrs(ctx, made.wrs, true))
		goto destroy;
	*set = made;
	return 0;
destroy:
	err = errno;
	verbena_destroy_send_wrs(&made);
	errno = err;
	return -1;
}

API int verbena_create_send_wrs_mrs(struct ibv_mr *const *mrs, const struct verbena_buf *bufs,
				    uint32_t num_bufs, uint32_t num_wr,
				    struct verbena_send_wrs *set)
{
	struct verbena_send_wrs made = { .num_wr = num_wr, .num_bufs = num_bufs };

	made.sges = given_sges(set, mrs, bufs, num_bufs, num_wr);
	if (!made.sges)
		return -1;
	made.wrs = make_sends(made.sges, num_bufs, num_wr);
	if (!made.wrs) {
		free(made.sges);
		errno = ENOMEM;
		return -1;
	}
	*set = made;
	return 0;
}

API int verbena_destroy_send_wrs(struct verbena_send_wrs *set)
{
	struct verbena_send_wrs old;

	if (!set)
		return 0;
	old = *set;
	*set = (struct verbena_send_wrs){ 0 };
	free(old.wrs);
	free(old.sges);
	return deregister(old.mrs, old.num_bufs);
}

/* ---- Receives ---- */

static struct ibv_recv_wr *make_recvs(struct ibv_sge *sges, uint32_t num_bufs, uint32_t num_wr)
{
	struct ibv_recv_wr *wrs = calloc(num_wr, sizeof(*wrs));

	if (!wrs)
		fail(ENOMEM, "%u work requests", num_wr);
	for (uint32_t i = 0; wrs && i < num_wr; i++)
		wrs[i] = (struct ibv_recv_wr){
			.wr_id = i,
			.next = i + 1 < num_wr ? &wrs[i + 1] : NULL,
			.sg_list = sges + (size_t)i * num_bufs,
			.num_sge = (int)num_bufs,
		};
	return wrs;
}

API int verbena_create_recv_wrs(struct verbena_context *ctx, const struct verbena_buf *bufs,
				uint32_t num_bufs, uint32_t num_wr, unsigned int flags,
				struct verbena_recv_wrs *set)
{
	struct verbena_recv_wrs made = { .num_wr = num_wr, .num_bufs = num_bufs };
	struct parts parts;
	int err;

	if (check_create(ctx, flags, VERBENA_POST, set, num_wr, ctx ? ctx->max_recv_wr : 0) ||
	    make_parts(ctx, bufs, num_bufs, num_wr, &parts))
		return -1;
	made.sges = parts.sges;
	made.mrs = parts.mrs;
	made.wrs = make_recvs(made.sges, num_bufs, num_wr);
	if (!made.wrs || ((flags & VERBENA_POST) && verbena_post_recv_wrs(ctx, made.wrs, true))) {
		err = errno;
		verbena_destroy_recv_wrs(&made);
		errno = err;
		return -1;
	}
	*set = made;
	return 0;
}

API int verbena_create_recv_wrs_mrs(struct ibv_mr *const *mrs, const struct verbena_buf *bufs,
				    uint32_t num_bufs, uint32_t num_wr,
				    struct verbena_recv_wrs *set)
{
	struct verbena_recv_wrs made = { .num_wr = num_wr, .num_bufs = num_bufs };

	made.sges = given_sges(set, mrs, bufs, num_bufs, num_wr);
	if (!made.sges)
		return -1;
	made.wrs = make_recvs(made.sges, num_bufs, num_wr);
	if (!made.wrs) {
		free(made.sges);
		errno = ENOMEM;
		return -1;
	}
	*set = made;
	return 0;
}

API int verbena_destroy_recv_wrs(struct verbena_recv_wrs *set)
{
	struct verbena_recv_wrs old;

	if (!set)
		return 0;
	old = *set;
	*set = (struct verbena_recv_wrs){ 0 };
	free(old.wrs);
	free(old.sges);
	return deregister(old.mrs, old.num_bufs);
}
