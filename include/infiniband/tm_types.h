/* SPDX-License-Identifier: BSD-2-Clause */
/* Tag matching headers, at the front of a message (IBV_SRQT_TM). */
#ifndef _TM_TYPES_H
#define _TM_TYPES_H

#include <stdint.h>

#include <linux/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ibv_tmh_op {
	IBV_TMH_NO_TAG = 0,
	IBV_TMH_RNDV = 1,
	IBV_TMH_FIN = 2,
	IBV_TMH_EAGER = 3,
};

/* Tag matching header, 16 bytes. */
struct ibv_tmh {
	uint8_t opcode;	     /* enum ibv_tmh_op */
	uint8_t reserved[3]; /* zero */
	__be32 app_ctx;	     /* the program's, delivered as ibv_wc_tm_info.priv */
	__be64 tag;
};

/*
 * Rendezvous header, 16 bytes, follows a tag matching header of type IBV_TMH_RNDV: the location
 * from which to READ the message.
 */
struct ibv_rvh {
	__be64 va;
	__be32 rkey;
	__be32 len;
};

#ifdef __cplusplus
}
#endif

#endif
