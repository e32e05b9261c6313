/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow steering: which received frames go where.
 *
 *	dissect.h	a frame becomes a flow_key, every header field that rules look at
 *	rule.h		an ibv_flow_attr of a program becomes a flow_rule: a key and a mask
 *	table.h		the rules of a device, in the order in which frames meet them
 *	filter.h	the rules of a table as a socket filter: the kernel drops what no rule wants
 *	hash.h		RSS: a key becomes a number that picks a work queue
 *
 * Pure: no socket, clock, allocator or lock.  The caller owns the memory, and ensures that a table
 * does not change during a walk. docs/FLOW.md describes the rules for users.
 */
#ifndef VRB_FLOW_FLOW_H
#define VRB_FLOW_FLOW_H

#include "flow/dissect.h"
#include "flow/filter.h"
#include "flow/hash.h"
#include "flow/rule.h"
#include "flow/table.h"

#endif
