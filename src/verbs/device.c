/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices and contexts: list, names, open, close, import, capabilities. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/context.h"
#include "core/device/device.h"
#include "core/fault/taps.h"
#include "core/process/context_open.h"
#include "run/clock.h"
#include "util/compiler.h"
#include "verbs/answer.h"
#include "verbs/ops.h"
#include "verbs/tap.h"

static struct ibv_device **get_device_list(int *num_devices)
{
	int count = 0;
	/* ibv_device is the first member of vrb_device, so the arrays are one. */
	struct vrb_device **list = vrb_device_list(&count);

	if (num_devices)
		*num_devices = list ? count : 0;
	return (struct ibv_device **)list;
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
	int before = errno;

	vrb_fault_taps_start();
	errno = before;
	return TAP_POINTER(get_device_list, num_devices);
}

void ibv_free_device_list(struct ibv_device **list)
{
	if (!list)
		return;
	for (unsigned int i = 0; list[i]; i++)
		vrb_device_put(to_vrb_device(list[i]));
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device ? device->name : NULL;
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	return device ? htobe64(to_vrb_device(device)->node_guid) : 0;
}

int ibv_get_device_index(struct ibv_device *device)
{
	return device ? to_vrb_device(device)->index : -1;
}

static struct ibv_context *open_device(struct ibv_device *device)
{
	struct vrb_context *ctx;
	int err = device ? vrb_context_open(to_vrb_device(device), vrb_fill_ops, &ctx) : EINVAL;

	return err ? answer_null(err) : &ctx->vctx.context;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	vrb_fault_taps_start();
	return TAP_POINTER(open_device, device);
}

static struct ibv_context *import_device(int cmd_fd)
{
	struct vrb_context *ctx;
	int err = vrb_context_import(cmd_fd, vrb_fill_ops, &ctx);

	return err ? answer_null(err) : &ctx->vctx.context;
}

struct ibv_context *ibv_import_device(int cmd_fd)
{
	vrb_fault_taps_start();
	return TAP_POINTER(import_device, cmd_fd);
}

static int close_device(struct ibv_context *context)
{
	return answer_minus(vrb_context_close(context));
}

int ibv_close_device(struct ibv_context *context)
{
	return TAP_MINUS(close_device, context);
}

static int query(struct ibv_context *c, struct ibv_device_attr_ex *attr)
{
	int err = vrb_context_enter(&c);

	if (!err)
		vrb_device_query(to_vrb_context(c)->dev, attr);
	return err;
}

static int query_device_ex(struct ibv_context *c, const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t attr_size)
{
	struct ibv_device_attr_ex all;
	int err;

	if (!attr || attr_size < sizeof(attr->orig_attr) || (input && input->comp_mask))
		return answer(EINVAL);
	err = query(c, &all);
	if (err)
		return answer(err);
	/* A program of a later release has a longer structure than ours. */
	memset(attr, 0, attr_size);
	memcpy(attr, &all, min(attr_size, sizeof(all)));
	return 0;
}

int op_query_device_ex(struct ibv_context *c, const struct ibv_query_device_ex_input *input,
		       struct ibv_device_attr_ex *attr, size_t attr_size)
{
	return TAP_ERRNO(query_device_ex, c, input, attr, attr_size);
}

static int query_device(struct ibv_context *c, struct ibv_device_attr *attr)
{
	struct ibv_device_attr_ex all;
	int err = attr ? query(c, &all) : EINVAL;

	if (!err)
		*attr = all.orig_attr;
	return answer(err);
}

int op_query_device(struct ibv_context *c, struct ibv_device_attr *attr)
{
	return TAP_ERRNO(query_device, c, attr);
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *device_attr)
{
	return op_query_device(context, device_attr);
}

int op_query_rt_values(struct ibv_context *c, struct ibv_values_ex *values)
{
	int err = values ? vrb_context_enter(&c) : EINVAL;
	uint64_t now;

	if (err)
		return answer(err);
	if (values->comp_mask & ~IBV_VALUES_MASK_RAW_CLOCK)
		return answer(EINVAL);
	if (!(values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK))
		return 0;
	/* The clock of completion timestamps, in nanoseconds. */
	now = clock_now();
	values->raw_clock.tv_sec = 0;
	values->raw_clock.tv_nsec = now;
	return 0;
}
