/* SPDX-License-Identifier: BSD-2-Clause */
/* What every call of rsockets begins and ends with. */
#include <errno.h>

#include "rdmacm/rs.h"
#include "util/cancel.h"

/* Of this thread: nested calls, and whether the program allows cancellation. */
static __thread unsigned int depth;
static __thread int allowed;

void rs_call_begin(void)
{
	if (!depth++)
		allowed = cancel_off();
}

void rs_call_end(void)
{
	if (!--depth)
		cancel_on(allowed);
}

void rs_wait_begin(void)
{
	cancel_on(allowed);
}

void rs_wait_end(void)
{
	cancel_off();
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
