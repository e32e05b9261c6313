/* SPDX-License-Identifier: BSD-2-Clause */
/* Sending of raw packet QPs. */
#ifndef VRB_CORE_RAW_RAW_TX_H
#define VRB_CORE_RAW_RAW_TX_H

#include <stdbool.h>
#include <stdint.h>

#include "core/qp/transport_state.h"
#include "wq/qp.h"

/* The operations of raw packet QPs. */
extern const struct wq_ops vrb_raw_ops;

/* In a forked child, and as the thread ends. */
void vrb_raw_send_forget(void);

#endif
