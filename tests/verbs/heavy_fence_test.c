/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The library joins heavy fences while the process has one thread: a program with threads would
 * wait for it in ibv_open_device().
 */
#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "check.h"

enum { GET_REGISTRATIONS = 1 << 9 /* MEMBARRIER_CMD_GET_REGISTRATIONS, Linux 6.3 */ };

int main(void)
{
	long joined = syscall(SYS_membarrier, GET_REGISTRATIONS, 0, 0);

	if (joined < 0)
		SKIP("the kernel does not tell");
	CHECK(joined & MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
	CHECK(ibv_node_type_str(IBV_NODE_CA)); /* so that the library is linked */
	return 0;
}
