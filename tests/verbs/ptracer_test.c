/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When the Yama security module requires it, the library lets other processes of the user access
 * this one's memory (PR_SET_PTRACER_ANY), but only while a device is open. The test intercepts the
 * library's calls of prctl().
 */
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "world.h"

static unsigned int calls;
static unsigned long tracer;

__attribute__((visibility("default"))) int prctl(int option, ...)
{
	unsigned long arg[4];
	va_list ap;

	va_start(ap, option);
	for (int i = 0; i < 4; i++)
		arg[i] = va_arg(ap, unsigned long);
	va_end(ap);
	if (option == PR_SET_PTRACER) {
		calls++;
		tracer = arg[0];
		return 0;
	}
	return (int)syscall(SYS_prctl, option, arg[0], arg[1], arg[2], arg[3]);
}

static struct ibv_context *open_one(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;

	CHECK(ctx);
	ibv_free_device_list(list);
	return ctx;
}

int main(void)
{
	const char *transport = getenv("VERBENA_TRANSPORT");
	bool shares = !transport || strcmp(transport, "udp") != 0;

	for (unsigned int round = 1; round <= 2; round++) {
		struct ibv_context *first = open_one(), *second = open_one();

		if (!shares) {
			CHECK_EQ(calls, 0);
		} else {
			CHECK_EQ(calls, 2 * round - 1);
			CHECK_EQ(tracer, PR_SET_PTRACER_ANY);
		}
		CHECK_EQ(ibv_close_device(first), 0);
		CHECK_EQ(calls, shares ? 2 * round - 1 : 0);
		CHECK_EQ(ibv_close_device(second), 0);
		CHECK_EQ(calls, shares ? 2 * round : 0);
		CHECK_EQ(tracer, 0);
	}
	return 0;
}
