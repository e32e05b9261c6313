/* SPDX-License-Identifier: BSD-2-Clause */
#include "rspreload/tune.h"

#include <stdlib.h>

#include <rdma/rsocket.h>

/* The variables of the stock library. */
static void set_from(int fd, int option, const char *name)
{
	const char *text = getenv(name);
	int value = text ? atoi(text) : 0;

	if (value > 0)
		rsetsockopt(fd, SOL_RDMA, option, &value, sizeof(value));
}

void tune(int fd)
{
	int none = 0;

	set_from(fd, RDMA_SQSIZE, "RS_SQ_SIZE");
	set_from(fd, RDMA_RQSIZE, "RS_RQ_SIZE");
	set_from(fd, RDMA_INLINE, "RS_INLINE");
	if (getenv("RS_INLINE") && !atoi(getenv("RS_INLINE")))
		rsetsockopt(fd, SOL_RDMA, RDMA_INLINE, &none, sizeof(none));
}
