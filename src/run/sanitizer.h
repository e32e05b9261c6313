/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VRB_RUN_SANITIZER_H
#define VRB_RUN_SANITIZER_H

/*
 * A line for the user of a program that is built with ThreadSanitizer and this library without it,
 * unless the program ignores libraries of the kind; otherwise NULL.
 */
const char *sanitizer_advice(void);

#endif
