/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages without a connection: their destination process on the host, and replies on behalf of a
 * process that does not exist.
 */
#ifndef VRB_CM_STATELESS_H
#define VRB_CM_STATELESS_H

#include <stdbool.h>

#include "cm/msg.h"

enum cm_addressee {
	CM_TO_SERVICE,	/* to the listener of service id *number */
	CM_TO_ID,	/* to the owner of communication id *number */
	CM_TO_ALL,	/* unknown: REJ after a timeout, whose sender never learnt our id */
};

enum cm_addressee cm_addressee(const struct cm_msg *m, uint64_t *number);

/*
 * Makes the refusal of a REQ or SIDR_REQ that has no conn.  reason: of the REJ, or status of the
 * SIDR_REP.
 */
void cm_refuse(struct cm_msg *answer, const struct cm_msg *m, unsigned int reason);

/*
 * Makes the reply to a message that no process of this host takes: a request gets "no such
 * service", a REP "invalid communication id", a DREQ a DREP.  Returns false if the message needs no
 * reply.
 */
bool cm_stateless_reply(struct cm_msg *answer, const struct cm_msg *m);

#endif
