/* SPDX-License-Identifier: BSD-2-Clause */
/* What another process, or a thread of this one, does at the moment. */
#ifndef VRB_RUN_PROC_STATE_H
#define VRB_RUN_PROC_STATE_H

#include <stdbool.h>
#include <sys/types.h>

/* Is the process stopped, by a signal or a debugger? False, too, where /proc does not tell. */
bool proc_is_stopped(pid_t pid);

/* Has the process ended? True, too, where /proc does not tell. */
bool proc_is_gone(pid_t pid);

/* Does the thread run, or wait for a CPU only? False, too, where /proc does not tell. */
bool proc_is_runnable(pid_t tid);

#endif
