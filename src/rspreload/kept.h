/* SPDX-License-Identifier: BSD-2-Clause */
/* Options that a number keeps when it becomes another kind of socket. */
#ifndef VRB_RSPRELOAD_KEPT_H
#define VRB_RSPRELOAD_KEPT_H

/* From an rsocket to a socket of the system. */
void kept_by_system(int fd, int number);

/* The other way. */
void kept_by_rsocket(int number, int fd);

/* From one rsocket to another. */
void kept_by_another(int from, int to);

#endif
