/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue sizes of new rsockets, from the environment: RS_SQ_SIZE, RS_RQ_SIZE, RS_INLINE. */
#ifndef VRB_RSPRELOAD_TUNE_H
#define VRB_RSPRELOAD_TUNE_H

void tune(int fd);

#endif
