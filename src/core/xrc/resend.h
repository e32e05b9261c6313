/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC messages that must arrive and found no room (xrc_send_surely(), msg.h). They are sent again,
 * in order, before any other message to the same process, and by a timer, until the process has
 * room or exits.
 */
#ifndef VRB_CORE_XRC_RESEND_H
#define VRB_CORE_XRC_RESEND_H

/* When the process state ends. */
void vrb_xrc_resend_stop(void);
void vrb_xrc_resend_forget(void);	/* in a forked child */

#endif
