/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/quiet_thread.h"

#include <signal.h>
#include <stddef.h>

int quiet_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
	sigset_t most, old;
	int err;

	sigfillset(&most);
	sigdelset(&most, SIGSEGV);
	sigdelset(&most, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &most, &old);
	err = pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return err;
}
