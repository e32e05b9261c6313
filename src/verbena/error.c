/* SPDX-License-Identifier: BSD-2-Clause */
/* The text of the last error, per thread. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "verbena/private.h"

static __thread char message[256];

int fail(int err, const char *fmt, ...)
{
	va_list ap;
	size_t len;

	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	len = strlen(message);
	snprintf(message + len, sizeof(message) - len, ": %s", strerror(err));
	errno = err;
	return -1;
}

int fail_wr(int err, const char *verb, uint64_t wr_id)
{
	return fail(err, "%s: wr_id %llu", verb, (unsigned long long)wr_id);
}

API const char *verbena_error(void)
{
	return message;
}
