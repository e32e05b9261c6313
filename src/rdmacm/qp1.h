/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libibverbs' private interface (verbs/mad.h, verbs/direct.h), looked up at first use: a program
 * that has loaded another libibverbs gets an error message instead of a failure of the dynamic
 * linker.
 */
#ifndef VRB_RDMACM_QP1_H
#define VRB_RDMACM_QP1_H

#include "verbs/direct.h"
#include "verbs/mad.h"

struct qp1 {
	__typeof__(vrb_mad_open) *open;
	__typeof__(vrb_mad_close) *close;
	__typeof__(vrb_mad_now) *now;
	__typeof__(vrb_mad_arm) *arm;
	__typeof__(vrb_mad_send) *send;
	__typeof__(vrb_mad_settle) *settle;
	__typeof__(vrb_mad_catch_up) *catch_up;
	__typeof__(vrb_mad_find_gid) *find_gid;
	__typeof__(vrb_mad_gone) *gone;
	__typeof__(vrb_mad_comm_id) *comm_id;
	__typeof__(vrb_mad_at_exit) *at_exit;
	__typeof__(vrb_mad_run_last) *run_last;
	__typeof__(vrb_mad_bind) *bind;
	__typeof__(vrb_mad_listen) *listen;
	__typeof__(vrb_mad_only_family) *only_family;
	__typeof__(vrb_mad_end_listening) *end_listening;
	__typeof__(vrb_mad_unbind) *unbind;
	__typeof__(vrb_mad_trouble) *trouble;
	__typeof__(vrb_mad_polls) *polls;
	__typeof__(vrb_mad_poll) *poll;
	__typeof__(vrb_mad_await) *await;
	__typeof__(vrb_write_direct) *write_direct;
};

/* Valid once qp1_find() has returned 0. */
extern struct qp1 qp1;

/* Returns 0, or ENODEV if libibverbs is not Verbena's, which is logged once.  Any thread. */
int qp1_find(void);

#endif
