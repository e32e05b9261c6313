/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VRB_ROCE_ACK_ORDER_H
#define VRB_ROCE_ACK_ORDER_H

/* When does an ACK leave that is due together with requests? A NAK leaves at once. */
enum roce_ack_order {
	ROCE_ACK_FIRST,
	ROCE_ACK_BEHIND_WRITES,	/* that complete nothing at the peer, as far as they leave now */
	ROCE_ACK_BEHIND_REPLY,	/* behind all such WRITEs, though some must wait */
	ROCE_ACK_HELD,		/* not now */
};

#endif
