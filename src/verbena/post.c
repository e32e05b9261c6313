/* SPDX-License-Identifier: BSD-2-Clause */
/* Posts lists of requests, and moves the QP to the state that they need. */
#include <errno.h>

#include "verbena/private.h"

API int verbena_post_send_wrs(struct verbena_context *ctx, struct ibv_send_wr *wr, bool modify_qp)
{
	struct ibv_send_wr *bad = wr;
	int err;

	if (!ctx || !wr)
		return fail(EINVAL, "verbena_post_send_wrs: NULL");
	if (modify_qp && qp_to_sending(of_pub(ctx)))
		return -1;
	err = ibv_post_send(ctx->qp, wr, &bad);
	return err ? fail_wr(err, "ibv_post_send", bad->wr_id) : 0;
}

API int verbena_post_recv_wrs(struct verbena_context *ctx, struct ibv_recv_wr *wr, bool modify_qp)
{
	struct ibv_recv_wr *bad = wr;
	int err;

	if (!ctx || !wr)
		return fail(EINVAL, "verbena_post_recv_wrs: NULL");
	/*
	 * Post nothing whose result could not be received; in RESET and ERROR nothing could be
	 * posted.
	 */
	if (modify_qp && (path_check(of_pub(ctx)) || qp_to_init(of_pub(ctx))))
		return -1;
	err = ibv_post_recv(ctx->qp, wr, &bad);
	if (err)
		return fail_wr(err, "ibv_post_recv", bad->wr_id);
	return modify_qp ? qp_to_receiving(of_pub(ctx)) : 0;
}
