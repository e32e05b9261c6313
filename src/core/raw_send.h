/* SPDX-License-Identifier: BSD-2-Clause */
/* Send requests of raw packet QPs become frames. */
#ifndef VRB_CORE_RAW_SEND_H
#define VRB_CORE_RAW_SEND_H

#include <stdbool.h>
#include <stdint.h>

#include "wq/qp.h"

/* What of the request at the head of the queue has left already. Under qp->lock. */
struct vrb_raw_begun {
	uint32_t index;		/* the request; the rest counts only while it is at the head */
	uint32_t offset;	/* payload bytes of a segmented send */
	uint32_t progress;	/* of the next frame; see struct raw_out */
};

/* wq_ops.send_frames */
unsigned int vrb_raw_send_frames(struct wq_qp *wq, uint32_t most, bool *begun, enum reason *why);

/* In a forked child. */
void vrb_raw_send_forget(void);

#endif
