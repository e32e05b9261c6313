/* SPDX-License-Identifier: BSD-2-Clause */
/* Splits long frames into those on a wire: TCP and UDP segments that the kernel carries as one. */
#ifndef VRB_RAW_CUT_H
#define VRB_RAW_CUT_H

#include "raw/raw.h"

/*
 * Splits *whole into frames with mss bytes of data each, fills in their checksums, and calls fn for
 * each. room has RAW_MAX_FRAME bytes. Returns their number; 0 if the frame cannot be split.
 */
unsigned int raw_cut(const struct raw_frame *whole, uint32_t mss, uint8_t *room, raw_frame_fn fn,
		     void *arg);

#endif
