/* SPDX-License-Identifier: BSD-2-Clause */
/* Address handles. */
#include "core/device/ah.h"

#include "core/base/context.h"
#include "core/mem/pd.h"
#include "verbs/answer.h"
#include "verbs/tap.h"

static struct ibv_ah *create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct vrb_ah *ah;
	int err = attr ? vrb_pd_check(pd) : EINVAL;

	if (!err)
		err = vrb_ah_create(to_vrb_pd(pd), attr, &ah);
	return err ? answer_null(err) : &ah->ibv;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	return TAP_POINTER(create_ah, pd, attr);
}

int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
			struct ibv_grh *grh, struct ibv_ah_attr *ah_attr)
{
	int err = wc && ah_attr ? vrb_context_enter(&context) : EINVAL;

	if (!err && (wc->wc_flags & IBV_WC_GRH) && !grh)
		err = EINVAL;
	if (!err)
		err = vrb_ah_init_from_wc(to_vrb_context(context), port_num, wc, grh, ah_attr);
	return answer_minus(err);
}

static struct ibv_ah *create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
					uint8_t port_num)
{
	struct ibv_ah_attr attr;
	int err = vrb_pd_check(pd);

	if (err)
		return answer_null(err);
	if (ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr))
		return NULL;
	return ibv_create_ah(pd, &attr);
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				     uint8_t port_num)
{
	return TAP_POINTER(create_ah_from_wc, pd, wc, grh, port_num);
}

static int destroy_ah(struct ibv_ah *ah)
{
	int err = ah ? vrb_context_check(ah->context) : EINVAL;

	return answer(err ? err : vrb_ah_destroy(to_vrb_ah(ah)));
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	return TAP_ERRNO(destroy_ah, ah);
}
