/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that a signal has interrupted, and that the system would have restarted. */
#ifndef VRB_UTIL_RESTART_H
#define VRB_UTIL_RESTART_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* Raised by what the thread itself does, not in a wait; SIGSEGV and SIGBUS are ours, too. */
static inline bool restart_is_fault(int sig)
{
	return sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL || sig == SIGTRAP;
}

/* Whether a handler without SA_RESTART may have run, which ends a read(2). */
static inline bool restart_is_refused(void)
{
	struct sigaction act;

	for (int sig = 1; sig < NSIG; sig++)
		if (!restart_is_fault(sig) && !sigaction(sig, NULL, &act) &&
		    act.sa_handler != SIG_DFL && act.sa_handler != SIG_IGN &&
		    !(act.sa_flags & SA_RESTART))
			return true;
	return false;
}

#endif
