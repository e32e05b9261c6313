/* SPDX-License-Identifier: BSD-2-Clause */
/* Engine callbacks of QPs whose requests become packets or direct accesses to a peer's memory. */
#ifndef VRB_CORE_TX_TRANSPORT_OPS_H
#define VRB_CORE_TX_TRANSPORT_OPS_H

#include "wq/qp.h"

extern const struct wq_ops vrb_transport_ops;

#endif
