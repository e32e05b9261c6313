/* SPDX-License-Identifier: BSD-2-Clause */
/* What every call of rsockets begins and ends with. */
#include <errno.h>
#include <pthread.h>

#include "rdmacm/rs.h"

/* Of this thread: nested calls, whether it waits, and whether the program allows cancellation. */
static __thread unsigned int depth;
static __thread bool waits;
static __thread int allowed;

void rs_call_begin(void)
{
	if (!depth++)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &allowed);
}

void rs_call_end(void)
{
	if (!--depth)
		pthread_setcancelstate(allowed, NULL);
}

void rs_wait_begin(void)
{
	waits = true;
	pthread_setcancelstate(allowed, NULL);
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

struct rsocket *rs_enter(int fd)
{
	struct rsocket *rs = rs_hold(fd);

	if (rs)
		rs_call_begin();
	else
		errno = rs_peek(fd) ? EIO : EBADF;
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
