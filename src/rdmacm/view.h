/* SPDX-License-Identifier: BSD-2-Clause */
/* State of ids for verbena ps, verbena top and the rdma tool. */
#ifndef VRB_RDMACM_VIEW_H
#define VRB_RDMACM_VIEW_H

#include "cm/shown.h"

/* The "ids" callback of struct vrb_mad_ops (verbs/mad.h).  Takes the cma lock. */
void view_ids(void *arg, cm_show_fn fn, void *to);

#endif
