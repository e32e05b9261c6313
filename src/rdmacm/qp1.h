/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of libibverbs' private interface (verbs/mad.h), found when they are needed first: so
 * that a program which has loaded another libibverbs than ours is told so, and does not die of a
 * missing symbol.
 */
#ifndef VRB_RDMACM_QP1_H
#define VRB_RDMACM_QP1_H

#include "verbs/mad.h"

struct qp1 {
	__typeof__(vrb_mad_open) *open;
	__typeof__(vrb_mad_close) *close;
	__typeof__(vrb_mad_now) *now;
	__typeof__(vrb_mad_arm) *arm;
	__typeof__(vrb_mad_send) *send;
	__typeof__(vrb_mad_settle) *settle;
	__typeof__(vrb_mad_comm_id) *comm_id;
	__typeof__(vrb_mad_will) *will;
	__typeof__(vrb_mad_bind) *bind;
	__typeof__(vrb_mad_listen) *listen;
	__typeof__(vrb_mad_unbind) *unbind;
	__typeof__(vrb_mad_trouble) *trouble;
	__typeof__(vrb_mad_polls) *polls;
	__typeof__(vrb_mad_poll) *poll;
};

/* Valid once qp1_find() has returned 0. */
extern struct qp1 qp1;

/* Returns 0, or ENODEV where libibverbs is not ours, which is told once.  Any thread. */
int qp1_find(void);

#endif
