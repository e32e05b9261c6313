/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What probe.c can do with two connected ends. Every one prints what it saw, in words that peer.py
 * compares with its tables.
 */
#ifndef TESTS_RXE_PROBE_H
#define TESTS_RXE_PROBE_H

#include "end.h"

/* "RNR_RETRY_EXC" for IBV_WC_RNR_RETRY_EXC_ERR. */
const char *status_name(enum ibv_wc_status status);

/* "QP_FATAL" for IBV_EVENT_QP_FATAL, "no event" for -1. */
const char *event_name(int event);

/* A number of the program's command line, after the scenario's name; or what it is otherwise. */
unsigned probe_number(int index, unsigned otherwise);

/* True, and the program's work is done, if one of these is called so. */
bool probe_fault(struct end *e, const char *name);
bool probe_window(struct end *e, const char *name);
bool probe_mix(struct end *e, const char *name);
bool probe_datagram(struct end *e, const char *name);
bool probe_a19(struct end *e, const char *name);

#endif
