/* SPDX-License-Identifier: BSD-2-Clause */
/* The C library's streams. */
#ifndef VRB_RSPRELOAD_STDIO_H
#define VRB_RSPRELOAD_STDIO_H

/* The number, of any descriptor, stands for a socket now: its standard stream follows it. */
void stdio_follow(int number);

#endif
