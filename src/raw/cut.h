/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Long frames into those that a wire would carry: TCP and UDP segments that travel through the
 * kernel as one.
 */
#ifndef VRB_RAW_CUT_H
#define VRB_RAW_CUT_H

#include "raw/raw.h"

/*
 * Hands fn the frames that *whole becomes when it is cut into mss bytes of data each, their
 * checksums filled in.  room has RAW_MAX_FRAME bytes.  Returns how many; 0 if it is not a frame
 * that can be cut.
 */
unsigned int raw_cut(const struct raw_frame *whole, uint32_t mss, uint8_t *room, raw_frame_fn fn,
		     void *arg);

#endif
