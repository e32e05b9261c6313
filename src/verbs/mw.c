/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows. */
#include "core/mem/mw.h"

#include "core/base/context.h"
#include "core/fastpath/post.h"
#include "core/mem/pd.h"
#include "core/progress/drain.h"
#include "core/qp/qp.h"
#include "verbs/answer.h"
#include "verbs/ops.h"
#include "verbs/tap.h"

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct vrb_mw *mw;
	int err = vrb_pd_check(pd);

	if (!err)
		err = vrb_mw_alloc(to_vrb_pd(pd), type, &mw);
	return err ? answer_null(err) : &mw->ibv;
}

struct ibv_mw *op_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	return TAP_POINTER(alloc_mw, pd, type);
}

static int dealloc_mw(struct ibv_mw *mw)
{
	int err = vrb_object_check(mw);

	return answer(err ? err : vrb_mw_dealloc(to_vrb_mw(mw), &vrb_mr_waits));
}

int op_dealloc_mw(struct ibv_mw *mw)
{
	return TAP_ERRNO(dealloc_mw, mw);
}

static int bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	int err = qp && mw && bind ? vrb_context_check(qp->context) : EINVAL;

	if (!err && mw->context != qp->context)
		err = EINVAL;
	return answer(err ? err : vrb_post_bind_mw(to_vrb_qp(qp)->config.target, mw, bind));
}

int op_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	return TAP_ERRNO(bind_mw, qp, mw, bind);
}
