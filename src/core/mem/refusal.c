/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/mem/refusal.h"

__thread struct refusal vrb_refusal;

void vrb_refusal_note(const struct wq_qp *wq, uint32_t key, uint64_t va, uint64_t len,
		    enum mem_access access, enum reason why, const struct mr_entry *e)
{
	vrb_refusal =
		(struct refusal){ .qpn = wq->qpn, .key = key, .va = va, .len = len, .access =
			access,
				 .why = why, .named = e != NULL };
	if (e)
		vrb_refusal.entry = *e;
}
