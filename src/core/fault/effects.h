/* SPDX-License-Identifier: BSD-2-Clause */
/* What faults do to objects, beyond the event: their state changes, too. Must hold no lock. */
#ifndef VRB_CORE_FAULT_EFFECTS_H
#define VRB_CORE_FAULT_EFFECTS_H

#include <stdbool.h>

#include "core/fault/plan.h"

struct vrb_qp;

extern const struct fault_effects vrb_fault_all_effects;

/* Does the QP's port carry packets, or was it taken down? */
bool vrb_fault_port_up(const struct vrb_qp *qp);

#endif
