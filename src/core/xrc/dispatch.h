/* SPDX-License-Identifier: BSD-2-Clause */
/* Dispatches messages from other processes; implements the calls of base/xrc_ops.h. */
#ifndef VRB_CORE_XRC_DISPATCH_H
#define VRB_CORE_XRC_DISPATCH_H

#include "core/base/xrc_ops.h"

extern const struct vrb_xrc_ops vrb_xrc_ops;

#endif
