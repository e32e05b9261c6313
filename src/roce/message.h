/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that travel as messages within the host instead of as packets (docs/MESSAGES.md). All
 * but the plainest are declined here, before anything has changed; roce_output() builds their
 * packets.
 */
#ifndef VRB_ROCE_MESSAGE_H
#define VRB_ROCE_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "roce/engine.h"
#include "wq/message.h"

/*
 * The next request as a message, in place of the packet that roce_output_with() would return; false
 * if there is none or it is declined. A pending ACK leaves beside it, in *ack. The payload lies in
 * the request or in buf, which has room for an MTU.
 */
bool roce_message_output(struct roce_qp *qp, struct message *m, uint8_t *buf,
			 struct roce_piggyback_ack *ack, uint64_t now);

/* The packet that a message stands for, as if decoded; all but its path. */
void roce_message_packet(const struct message *m, struct roce_pkt *pkt);

#endif
