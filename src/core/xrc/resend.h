/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC messages that must not be lost and found no room (xrc_send_surely(), msg.h). They are sent
 * again, in order and before any other message to the same process, by a timer, until the process
 * has room or exits.
 */
#ifndef VRB_CORE_XRC_RESEND_H
#define VRB_CORE_XRC_RESEND_H

/* Call when the process state ends. */
void vrb_xrc_resend_stop(void);
void vrb_xrc_resend_forget(void);	/* in a forked child */

#endif
