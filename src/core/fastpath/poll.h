/* SPDX-License-Identifier: BSD-2-Clause */
/* Polling a CQ; poll_ex.c has the extended form. */
#ifndef VRB_CORE_FASTPATH_POLL_H
#define VRB_CORE_FASTPATH_POLL_H

#include <infiniband/verbs.h>

struct vrb_cq;

/*
 * Takes up to n completions. If there is none, polls the network once. Returns -1 if the CQ is in
 * error.
 */
int vrb_cq_poll(struct vrb_cq *cq, int n, struct ibv_wc *wc);

/* Fills the function table of the extended form (poll_ex.c). */
void vrb_cq_ex_init(struct vrb_cq *cq);

/* Two entries of it, for the tapped form. */
int vrb_cq_start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr);
int vrb_cq_next_poll(struct ibv_cq_ex *ex);

#endif
