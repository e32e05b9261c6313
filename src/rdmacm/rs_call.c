/* SPDX-License-Identifier: BSD-2-Clause */
/* What every call of rsockets begins and ends with. */
#include "rdmacm/rs_call.h"

#include <errno.h>
#include <pthread.h>

#include "rdmacm/rs.h"
#include "run/log.h"

/* Of this thread: nested calls, whether it waits, and whether the program allows cancellation. */
static __thread unsigned int depth;
static __thread bool waits;
static __thread int allowed;

/* vrb_rs_later()'s. */
static __thread void (*later)(void);

static bool run_later(void)
{
	void (*fn)(void) = later;

	later = NULL;
	if (fn)
		fn();
	return fn;
}

void rs_call_begin(void)
{
	if (!depth++)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &allowed);
}

void rs_call_end(void)
{
	if (--depth)
		return;
	pthread_setcancelstate(allowed, NULL);
	run_later();
}

bool rs_wait_begin(void)
{
	waits = true;
	pthread_setcancelstate(allowed, NULL);
	if (!run_later())
		return true;
	errno = EINTR;
	return false;
}

void rs_wait_end(void)
{
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	waits = false;
}

bool rs_call_interrupted(void)
{
	return depth && !waits;
}

/* ---- For librspreload ---- */

CMA_EXPORT enum rs_where vrb_rs_where(void)
{
	if (!depth)
		return RS_OUTSIDE;
	return waits ? RS_SLEEPING : RS_INSIDE;
}

CMA_EXPORT void vrb_rs_later(void (*fn)(void))
{
	later = fn;
}

CMA_EXPORT void vrb_rs_call_begin(void)
{
	rs_call_begin();
}

CMA_EXPORT void vrb_rs_call_end(void)
{
	rs_call_end();
}

CMA_EXPORT bool vrb_rs_wait_begin(void)
{
	return rs_wait_begin();
}

CMA_EXPORT void vrb_rs_wait_end(void)
{
	rs_wait_end();
}

/* ---- Calls ---- */

/* A server that forks gets nothing but errors, or waits without end: the log names the way out. */
bool rs_is_inherited(int fd)
{
	if (!rs_peek(fd))
		return false;
	log_once(LOG_VERBS, LOG_WARN,
		 "an rsocket of the parent cannot be used after fork(): with librspreload.so, set "
		 "RDMAV_FORK_SAFE=1 on both sides, or run the server in the foreground");
	return true;
}

struct rsocket *rs_enter(int fd)
{
	struct rsocket *rs = rs_hold(fd);

	if (rs)
		rs_call_begin();
	else
		errno = rs_is_inherited(fd) ? EIO : EBADF;
	return rs;
}

void rs_leave(struct rsocket **rs)
{
	int err = errno;

	if (!*rs)
		return;
	rs_put(*rs);
	rs_call_end();
	errno = err;
}
