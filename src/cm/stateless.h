/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What can be done with a message without knowing a connection: finding whose it is among the processes of a
 * host, and answering for nobody.
 */
#ifndef VRB_CM_STATELESS_H
#define VRB_CM_STATELESS_H

#include <stdbool.h>

#include "cm/msg.h"

enum cm_addressee {
	CM_TO_SERVICE,	/* to who listens on *number, a service id */
	CM_TO_ID,	/* to who gave out *number, a communication id */
	CM_TO_ALL,	/* it does not tell: a REJ for want of an answer, by who has not learnt the id */
};

enum cm_addressee cm_addressee(const struct cm_msg *m, uint64_t *number);

/* A REQ or SIDR_REQ is refused by who has made no state for it. reason: of a REJ, or status of a SIDR_REP. */
void cm_refuse(struct cm_msg *answer, const struct cm_msg *m, unsigned int reason);

/*
 * The answer to a message that is for nobody here: to a request that there is no such service, to a DREQ that
 * nothing is left of the connection.  False: none.
 */
bool cm_answer_for_nobody(struct cm_msg *answer, const struct cm_msg *m);

#endif
