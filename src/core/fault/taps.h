/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The places of base/tap.h become occasions of the rules, and the actions are done there. Attached
 * while there are rules or have been.
 */
#ifndef VRB_CORE_FAULT_TAPS_H
#define VRB_CORE_FAULT_TAPS_H

/* Reads $VERBENA_FAULTS; the first call only. Before the first verb that is to be an occasion. */
void vrb_fault_taps_start(void);

/* Looks whether there are rules. Call after every change of the plan. */
void vrb_fault_taps_update(void);

#endif
