/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions. */
#include "core/mem/mr.h"

#include "core/base/context.h"
#include "core/mem/dm.h"
#include "core/mem/key_table.h"
#include "core/mem/pd.h"
#include "core/progress/drain.h"
#include "verbs/answer.h"
#include "verbs/ops.h"
#include "verbs/tap.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* site: the program's return address, for log messages about the region. */
static struct ibv_mr *reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				  unsigned int access, const void *site)
{
	struct vrb_mr *mr;
	int err = vrb_pd_check(pd);

	if (!err)
		err = vrb_mr_reg(to_vrb_pd(pd), addr, length, iova, access, &mr);
	if (err)
		return answer_null(err);
	mr_site_set(mr->index, site);
	return &mr->ibv;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, unsigned int access,
			     const void *site)
{
	return reg_mr_iova(pd, addr, length, (uintptr_t)addr, access, site);
}

/* Called by the macro ibv_reg_mr() unless the compiler knows the access flags. */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	const void *site = __builtin_return_address(0);

	if (iova == (uintptr_t)addr)
		return TAP_POINTER(reg_mr, pd, addr, length, access, site);
	return TAP_POINTER(reg_mr_iova, pd, addr, length, iova, access, site);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return TAP_POINTER(reg_mr, pd, addr, length, access, __builtin_return_address(0));
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			       int access)
{
	return TAP_POINTER(reg_mr_iova, pd, addr, length, iova, access,
			   __builtin_return_address(0));
}

static struct ibv_mr *reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
				    uint64_t iova, int fd, int access)
{
	struct vrb_mr *mr;
	int err = vrb_pd_check(pd);

	if (!err)
		err = vrb_mr_reg_dmabuf(to_vrb_pd(pd), offset, length, iova, fd, access, &mr);
	return err ? answer_null(err) : &mr->ibv;
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	return TAP_POINTER(reg_dmabuf_mr, pd, offset, length, iova, fd, access);
}

/*
 * _INPUT for errors that rdma-core finds before it calls the kernel, _CMD for those of the kernel.
 * The region is unchanged.
 */
static int rereg_failed(int err, enum ibv_rereg_mr_err_code code)
{
	errno = err;
	return code;
}

static int rereg(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		 int access)
{
	bool new_pd = flags & IBV_REREG_MR_CHANGE_PD;
	int err = vrb_object_check(mr);

	if (!err && new_pd)
		err = vrb_pd_check(pd);
	if (!err && (!flags || (new_pd && pd->context != mr->context)))
		err = EINVAL;
	return err ? err
		   : vrb_mr_rereg(to_vrb_mr(mr), flags, new_pd ? to_vrb_pd(pd) : NULL, addr, length,
				  access, &vrb_mr_waits);
}

static int rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		    int access)
{
	bool move = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
	int err;

	if (!mr || (vrb_live_has(mr) && !to_vrb_mr(mr)->plain) ||
	    flags & ~IBV_REREG_MR_FLAGS_SUPPORTED || (move && (!length || !addr)))
		return rereg_failed(EINVAL, IBV_REREG_MR_ERR_INPUT);
	err = rereg(mr, flags, pd, addr, length, access);
	return err ? rereg_failed(err, IBV_REREG_MR_ERR_CMD) : 0;
}

int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		 int access)
{
	return TAP_CALL(rereg_mr, IBV_REREG_MR_ERR_CMD, result_ ? errno : 0, 0, mr, flags, pd, addr,
			length, access);
}

static int dereg_mr(struct ibv_mr *mr)
{
	int err = vrb_object_check(mr);

	return answer(err ? err : vrb_mr_dereg(to_vrb_mr(mr), &vrb_mr_waits));
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	return TAP_ERRNO(dereg_mr, mr);
}

static struct ibv_mr *import_mr(struct ibv_pd *pd, uint32_t mr_handle)
{
	struct vrb_mr *mr;
	int err = vrb_pd_check(pd);

	if (!err)
		err = vrb_mr_import(to_vrb_pd(pd), mr_handle, &mr);
	return err ? answer_null(err) : &mr->ibv;
}

struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle)
{
	return TAP_POINTER(import_mr, pd, mr_handle);
}

void ibv_unimport_mr(struct ibv_mr *mr)
{
	if (!vrb_object_check(mr))
		vrb_mr_unimport(to_vrb_mr(mr));
}

static int advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		     struct ibv_sge *sge, uint32_t num_sge)
{
	int err = vrb_pd_check(pd);

	if (!err && (!sge || !num_sge))
		err = EINVAL;
	return answer(err ? err : vrb_mr_advise(to_vrb_pd(pd), advice, flags, sge, num_sge));
}

int op_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		 struct ibv_sge *sge, uint32_t num_sge)
{
	return TAP_ERRNO(advise_mr, pd, advice, flags, sge, num_sge);
}

static struct ibv_mr *alloc_null_mr(struct ibv_pd *pd)
{
	struct vrb_mr *mr;
	int err = vrb_pd_check(pd);

	if (!err)
		err = vrb_mr_alloc_null(to_vrb_pd(pd), &mr);
	return err ? answer_null(err) : &mr->ibv;
}

struct ibv_mr *op_alloc_null_mr(struct ibv_pd *pd)
{
	return TAP_POINTER(alloc_null_mr, pd);
}

static struct ibv_mr *reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset,
				size_t length, unsigned int access)
{
	struct vrb_mr *mr;
	int err = dm ? vrb_pd_check(pd) : EINVAL;

	if (!err)
		err = vrb_mr_reg_dm(to_vrb_pd(pd), to_vrb_dm(dm), offset, length, access, &mr);
	return err ? answer_null(err) : &mr->ibv;
}

struct ibv_mr *op_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
			    unsigned int access)
{
	return TAP_POINTER(reg_dm_mr, pd, dm, offset, length, access);
}
