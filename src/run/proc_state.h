/* SPDX-License-Identifier: BSD-2-Clause */
/* What another process does at the moment. */
#ifndef VRB_RUN_PROC_STATE_H
#define VRB_RUN_PROC_STATE_H

#include <stdbool.h>
#include <sys/types.h>

/* Is the process stopped, by a signal or a debugger? False, too, where /proc does not tell. */
bool proc_is_stopped(pid_t pid);

#endif
