/* SPDX-License-Identifier: BSD-2-Clause */
/* Device memory; its registration is in mr.c. */
#include "core/mem/dm.h"

#include "core/base/context.h"
#include "verbs/answer.h"
#include "verbs/ops.h"
#include "verbs/tap.h"

static struct ibv_dm *alloc_dm(struct ibv_context *c, struct ibv_alloc_dm_attr *attr)
{
	struct vrb_dm *dm;
	int err = attr ? vrb_context_enter(&c) : EINVAL;

	if (!err)
		err = vrb_dm_alloc(to_vrb_context(c), attr, &dm);
	return err ? answer_null(err) : &dm->ibv;
}

struct ibv_dm *op_alloc_dm(struct ibv_context *c, struct ibv_alloc_dm_attr *attr)
{
	return TAP_POINTER(alloc_dm, c, attr);
}

static int free_dm(struct ibv_dm *dm)
{
	int err = dm ? vrb_context_check(dm->context) : EINVAL;

	return answer(err ? err : vrb_dm_free(to_vrb_dm(dm)));
}

int op_free_dm(struct ibv_dm *dm)
{
	return TAP_ERRNO(free_dm, dm);
}

static struct ibv_dm *import_dm(struct ibv_context *context, uint32_t dm_handle)
{
	struct vrb_dm *dm;
	int err = vrb_context_enter(&context);

	if (!err)
		err = vrb_dm_import(to_vrb_context(context), dm_handle, &dm);
	return err ? answer_null(err) : &dm->ibv;
}

struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle)
{
	return TAP_POINTER(import_dm, context, dm_handle);
}

void ibv_unimport_dm(struct ibv_dm *dm)
{
	if (dm && !vrb_context_check(dm->context))
		vrb_dm_unimport(to_vrb_dm(dm));
}

int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm)
{
	int fd, err = dm ? vrb_context_check(dm->context) : EINVAL;

	if (!err)
		err = vrb_dm_export(to_vrb_dm(dm), &fd);
	return err ? answer_minus(err) : fd;
}
