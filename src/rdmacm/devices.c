/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_get_devices(). */
#include <errno.h>
#include <stdlib.h>

#include <rdma/rdma_cma.h>

#include "rdmacm/cma.h"
#include "rdmacm/device.h"

CMA_EXPORT struct ibv_context **rdma_get_devices(int *num_devices)
{
	struct ibv_context **list = NULL;
	int n = 0, err = device_list(&list, &n);

	if (num_devices)
		*num_devices = err ? 0 : n;
	if (!err)
		return list;
	errno = err;
	return NULL;
}

CMA_EXPORT void rdma_free_devices(struct ibv_context **list)
{
	if (!list)
		return;
	device_list_put(list);
	free(list);
}
