/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs that run on Verbena: what the commands have in common that start some. */
#ifndef VRB_TOOL_RUN_H
#define VRB_TOOL_RUN_H

#include <stdbool.h>

/*
 * Sets the loader's variables; preload: also the emulation of /sys and /dev. Returns 0 or an exit
 * status.
 */
int run_prepare(bool preload);

/* Replaces this program; returns an exit status if it cannot. */
int run_start(char **argv);

#endif
