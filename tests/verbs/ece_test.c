/* SPDX-License-Identifier: BSD-2-Clause */
/* ECE and ibv_query_qp_data_in_order(). */
#include <errno.h>

#include "world.h"

int main(void)
{
	struct ibv_ece ece = { .vendor_id = 0x15b3, .options = 0xff };
	struct world w;
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	world_open(&w);
	cq = world_cq(&w, 4);
	qp = world_qp(&w, IBV_QPT_RC, cq, NULL);

	/* Options of another vendor: the call succeeds and reports that none is in effect. */
	CHECK_EQ(ibv_set_ece(qp, &ece), 0);
	CHECK_EQ(ece.options, 0);
	CHECK_EQ(ibv_query_ece(qp, &ece), 0);
	CHECK_EQ(ece.options, 0);
	/* What a device without these options tells its peer. */
	ece.vendor_id = 0;
	CHECK_EQ(ibv_set_ece(qp, &ece), EOPNOTSUPP);
	ece.comp_mask = 1;
	CHECK_EQ(ibv_set_ece(qp, &ece), EINVAL);
	CHECK_EQ(ibv_set_ece(qp, NULL), EINVAL);
	CHECK_EQ(ibv_query_ece(NULL, &ece), EINVAL);

	CHECK_EQ(ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0), 0);

	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_close(&w);
	return 0;
}
