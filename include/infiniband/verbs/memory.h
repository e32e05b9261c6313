/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Chapter of verbs.h: protection domains, memory regions, memory windows, device memory,
 * provider-made buffers.
 *
 * Local work requests name a region by its lkey, peers by its rkey.  The memory belongs to the
 * program, but must stay mapped until the region is deregistered.
 */
#ifndef INFINIBAND_VERBS_MEMORY_H
#define INFINIBAND_VERBS_MEMORY_H

#include <infiniband/verbs/context.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* ---- Protection domains ---- */

struct ibv_pd {
	struct ibv_context *context;
	uint32_t handle;
};

/* Allocates a PD.  ibv_alloc_pd(3) */
struct ibv_pd *ibv_alloc_pd(struct ibv_context *context);
/* Frees a PD. EBUSY: it has a region, queue pair or other object. ibv_alloc_pd(3) */
int ibv_dealloc_pd(struct ibv_pd *pd);

/*
 * Returns another handle of a PD of the same device, by its number; ibv_unimport_pd() frees only
 * the handle. ENOENT: no such PD. ibv_import_pd(3)
 */
struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle);
/* Frees the handle. */
void ibv_unimport_pd(struct ibv_pd *pd);

/*
 * A thread domain promises that only one thread at a time uses its queues, so they need no locks.
 */
struct ibv_td_init_attr {
	uint32_t comp_mask; /* 0 */
};

struct ibv_td {
	struct ibv_context *context;
};

/* Allocates a thread domain.  ibv_alloc_td(3) */
static inline struct ibv_td *ibv_alloc_td(struct ibv_context *context,
					  struct ibv_td_init_attr *init_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, alloc_td);

	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return vctx->alloc_td(context, init_attr);
}

/* Frees a thread domain.  EBUSY: a parent domain uses it.  ibv_alloc_td(3) */
static inline int ibv_dealloc_td(struct ibv_td *td)
{
	struct verbs_context *vctx = verbs_get_ctx_op(td->context, dealloc_td);

	return vctx ? vctx->dealloc_td(td) : EOPNOTSUPP;
}

enum ibv_parent_domain_init_attr_mask {
	IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS = 1 << 0, /* alloc and free */
	IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT = 1 << 1, /* pd_context */
	/* queues may lie in memory that confidential computing does not protect; from release 65 */
	IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC = 1 << 2,
};

/* The program's allocator returns this to make the library allocate. */
#define IBV_ALLOCATOR_USE_DEFAULT ((void *)-1)

struct ibv_parent_domain_init_attr {
	struct ibv_pd *pd;  /* not a parent domain itself */
	struct ibv_td *td;  /* or NULL */
	uint32_t comp_mask; /* enum ibv_parent_domain_init_attr_mask */
	/* size and alignment are bytes; NULL: out of memory */
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
		       uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type);
	void *pd_context;
};

/*
 * Returns a PD that combines attr->pd with a thread domain, an allocator or both; use and free it
 * like any PD. ibv_alloc_parent_domain(3)
 */
static inline struct ibv_pd *ibv_alloc_parent_domain(struct ibv_context *context,
						     struct ibv_parent_domain_init_attr *attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, alloc_parent_domain);

	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return vctx->alloc_parent_domain(context, attr);
}

/* ---- Memory regions ---- */

enum ibv_access_flags {
	IBV_ACCESS_LOCAL_WRITE = 1 << 0, /* REMOTE_WRITE and REMOTE_ATOMIC need it */
	IBV_ACCESS_REMOTE_WRITE = 1 << 1,
	IBV_ACCESS_REMOTE_READ = 1 << 2,
	IBV_ACCESS_REMOTE_ATOMIC = 1 << 3,
	IBV_ACCESS_MW_BIND = 1 << 4,
	IBV_ACCESS_ZERO_BASED = 1 << 5, /* network addresses count from 0 */
	IBV_ACCESS_ON_DEMAND = 1 << 6,	/* pages need not be present */
	IBV_ACCESS_HUGETLB = 1 << 7,	/* huge pages back the memory */
	IBV_ACCESS_FLUSH_GLOBAL = 1 << 8,
	IBV_ACCESS_FLUSH_PERSISTENT = 1 << 9,
	/* the order in which a message's bytes become visible is undefined until it completes */
	IBV_ACCESS_RELAXED_ORDERING = IBV_ACCESS_OPTIONAL_FIRST,
};

struct ibv_mr {
	struct ibv_context *context;
	struct ibv_pd *pd;
	void *addr;
	size_t length;
	uint32_t handle;
	uint32_t lkey;
	uint32_t rkey;
};

/*
 * Registers `length` bytes from `addr`; peers use the same address. `access` is a mask of enum
 * ibv_access_flags; local work requests may always read. Errors: EFAULT (not mapped, or read-only
 * with LOCAL_WRITE), EACCES, EPERM. ibv_reg_mr(3)
 */
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);

/* As ibv_reg_mr(), but peers use the address `iova`. ibv_reg_mr(3) */
struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			       int access);

/*
 * As ibv_reg_mr_iova(), but a device ignores flags of IBV_ACCESS_OPTIONAL_RANGE that it does not
 * know.  ibv_reg_mr(3)
 */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access);

/*
 * The optional flags are newer than ibv_reg_mr(). The macros use ibv_reg_mr_iova2() unless the
 * compiler can see that none of them is set, so that new programs also run with old libraries.
 */
__attribute__((always_inline)) static inline struct ibv_mr *
__ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access,
		  int is_access_const)
{
	if (!is_access_const || access & IBV_ACCESS_OPTIONAL_RANGE)
		return ibv_reg_mr_iova2(pd, addr, length, iova, access);
	return ibv_reg_mr_iova(pd, addr, length, iova, (int)access);
}

__attribute__((always_inline)) static inline struct ibv_mr *
__ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, unsigned int access, int is_access_const)
{
	if (!is_access_const || access & IBV_ACCESS_OPTIONAL_RANGE)
		return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, access);
	return ibv_reg_mr(pd, addr, length, (int)access);
}

#define ibv_reg_mr(pd, addr, length, access)                                                       \
	__ibv_reg_mr(pd, addr, length, access,                                                     \
		     __builtin_constant_p(((int)(access) & IBV_ACCESS_OPTIONAL_RANGE) == 0))

#define ibv_reg_mr_iova(pd, addr, length, iova, access)                                            \
	__ibv_reg_mr_iova(pd, addr, length, iova, access,                                          \
			  __builtin_constant_p(((int)(access) & IBV_ACCESS_OPTIONAL_RANGE) == 0))

/* Registers `length` bytes at `offset` of a dma-buf. EBADF: `fd` is not a dma-buf. ibv_reg_mr(3) */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access);

/* The valid members of ibv_mr_init_attr. */
enum ibv_mr_init_attr_mask {
	IBV_REG_MR_MASK_IOVA = 1 << 0,
	IBV_REG_MR_MASK_ADDR = 1 << 1,
	IBV_REG_MR_MASK_FD = 1 << 2,
	IBV_REG_MR_MASK_FD_OFFSET = 1 << 3,
	IBV_REG_MR_MASK_DMAH = 1 << 4,
	IBV_REG_MR_MASK_BUF = 1 << 5,
};

struct ibv_mr_init_attr {
	size_t length;
	int access; /* enum ibv_access_flags */
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd; /* of a dma-buf, in place of addr */
	uint64_t fd_offset;
	struct ibv_dmah *dmah;
	struct ibv_buf *buf; /* from release 64 */
};

/* Registers the memory that mr_init_attr describes.  From release 59.  ibv_reg_mr(3) */
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *mr_init_attr);

enum ibv_rereg_mr_flags {
	IBV_REREG_MR_CHANGE_TRANSLATION = 1 << 0, /* addr, length */
	IBV_REREG_MR_CHANGE_PD = 1 << 1,
	IBV_REREG_MR_CHANGE_ACCESS = 1 << 2,
	IBV_REREG_MR_FLAGS_SUPPORTED = 7,
};

/*
 * Results of ibv_rereg_mr().  After _INPUT and _DONT_FORK_NEW the region is unchanged; after
 * _DO_FORK_OLD it is changed.
 */
enum ibv_rereg_mr_err_code {
	IBV_REREG_MR_ERR_INPUT = -1,		   /* wrong arguments */
	/* the new memory could not be withheld from children */
	IBV_REREG_MR_ERR_DONT_FORK_NEW = -2,
	/* the old memory could not be given back to them */
	IBV_REREG_MR_ERR_DO_FORK_OLD = -3,
	IBV_REREG_MR_ERR_CMD = -4,		   /* failed halfway: deregister the region */
	/* the same, and the new memory stays withheld from children */
	IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW = -5,
};

/*
 * Changes the properties of a region that `flags` names; no request may use it meanwhile, and its
 * keys may change.  Returns 0, or enum ibv_rereg_mr_err_code and errno.  ibv_rereg_mr(3)
 */
int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		 int access);

/*
 * Deregisters a region, after waiting until accesses in progress have ended.  Posted requests that
 * name it first get time to complete, as by ibv_destroy_qp(); then they fail.  EBUSY: a window is
 * bound to it.  ibv_reg_mr(3)
 */
int ibv_dereg_mr(struct ibv_mr *mr);

/*
 * Returns another handle of a region of the same device, by its number; ibv_unimport_mr() frees
 * only the handle. ENOENT: no such region. ibv_import_mr(3)
 */
struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle);
/* Frees the handle. */
void ibv_unimport_mr(struct ibv_mr *mr);

/*
 * Returns a region without memory: writes to it are discarded, reads return zeroes.
 * ibv_alloc_null_mr(3)
 */
static inline struct ibv_mr *ibv_alloc_null_mr(struct ibv_pd *pd)
{
	struct verbs_context *vctx = verbs_get_ctx_op(pd->context, alloc_null_mr);

	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return vctx->alloc_null_mr(pd);
}

/*
 * Announces the use of memory registered on demand; the list's lkeys name the regions.  `flags` is
 * 0 or IBV_ADVISE_MR_FLAG_FLUSH (return when done).  Errors: EFAULT, ENOENT (no such key), EPERM.
 * ibv_advise_mr(3)
 */
static inline int ibv_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
				struct ibv_sge *sg_list, uint32_t num_sge)
{
	struct verbs_context *vctx = verbs_get_ctx_op(pd->context, advise_mr);

	return vctx ? vctx->advise_mr(pd, advice, flags, sg_list, num_sge) : EOPNOTSUPP;
}

/* ---- Memory windows: access to part of a region, granted and revoked by work requests ---- */

struct ibv_mw {
	struct ibv_context *context;
	struct ibv_pd *pd;
	uint32_t rkey; /* of the last bind */
	uint32_t handle;
	enum ibv_mw_type type;
};

struct ibv_mw_bind_info {
	struct ibv_mr *mr; /* registered with IBV_ACCESS_MW_BIND; NULL with length 0: unbind */
	uint64_t addr;
	uint64_t length;
	unsigned int mw_access_flags; /* REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC, ZERO_BASED */
};

struct ibv_mw_bind {
	uint64_t wr_id;
	unsigned int send_flags; /* enum ibv_send_flags: FENCE, SIGNALED */
	struct ibv_mw_bind_info bind_info;
};

/* Allocates a window, which is not bound.  ibv_alloc_mw(3) */
static inline struct ibv_mw *ibv_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	if (!pd->context->ops.alloc_mw) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return pd->context->ops.alloc_mw(pd, type);
}

/* Frees a window; its rkey becomes invalid.  ibv_alloc_mw(3) */
static inline int ibv_dealloc_mw(struct ibv_mw *mw)
{
	return mw->context->ops.dealloc_mw(mw);
}

/* Returns the rkey with its lowest byte, which the program chooses, plus one.  ibv_inc_rkey(3) */
static inline uint32_t ibv_inc_rkey(uint32_t rkey)
{
	return (rkey & ~(uint32_t)0xff) | ((rkey + 1) & 0xff);
}

/* ---- Device memory ---- */

enum ibv_dm_mask {
	IBV_DM_MASK_HANDLE = 1 << 0,
};

struct ibv_alloc_dm_attr {
	size_t length;
	uint32_t log_align_req; /* n: alignment of 2^n bytes */
	uint32_t comp_mask;	/* 0 */
};

struct ibv_dm {
	struct ibv_context *context;
	int (*memcpy_to_dm)(struct ibv_dm *dm, uint64_t dm_offset, const void *host_addr,
			    size_t length);
	int (*memcpy_from_dm)(void *host_addr, struct ibv_dm *dm, uint64_t dm_offset,
			      size_t length);
	uint32_t comp_mask; /* enum ibv_dm_mask */
	uint32_t handle;
};

/* Allocates device memory.  ibv_alloc_dm(3), for all calls of this section */
static inline struct ibv_dm *ibv_alloc_dm(struct ibv_context *context,
					  struct ibv_alloc_dm_attr *attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, alloc_dm);

	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return vctx->alloc_dm(context, attr);
}

/* Frees device memory.  EBUSY: a region is registered in it. */
static inline int ibv_free_dm(struct ibv_dm *dm)
{
	struct verbs_context *vctx = verbs_get_ctx_op(dm->context, free_dm);

	return vctx ? vctx->free_dm(dm) : EOPNOTSUPP;
}

/*
 * Copies to and from device memory.  EINVAL: beyond the end; a device may also require offsets and
 * lengths that are multiples of 4.
 */
static inline int ibv_memcpy_to_dm(struct ibv_dm *dm, uint64_t dm_offset, const void *host_addr,
				   size_t length)
{
	return dm->memcpy_to_dm(dm, dm_offset, host_addr, length);
}

static inline int ibv_memcpy_from_dm(void *host_addr, struct ibv_dm *dm, uint64_t dm_offset,
				     size_t length)
{
	return dm->memcpy_from_dm(host_addr, dm, dm_offset, length);
}

/* Registers device memory; `access` must have IBV_ACCESS_ZERO_BASED. */
static inline struct ibv_mr *ibv_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset,
					   size_t length, unsigned int access)
{
	struct verbs_context *vctx = verbs_get_ctx_op(pd->context, reg_dm_mr);

	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return vctx->reg_dm_mr(pd, dm, dm_offset, length, access);
}

/*
 * Returns another handle of device memory, by its number; ibv_unimport_dm() frees only the handle.
 * ENOENT: no such memory. ibv_import_dm(3)
 */
struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle);
/* Frees the handle. */
void ibv_unimport_dm(struct ibv_dm *dm);

/*
 * Returns a dma-buf descriptor of device memory, which the caller closes; or -1 and errno.  From
 * release 62.  ibv_dm_export_dmabuf_fd(3)
 */
int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm);

/* ---- DMA handles: hints to the I/O bus.  From release 59.  ibv_alloc_dmah(3) ---- */

enum ibv_tph_mem_type {
	IBV_TPH_MEM_TYPE_VM, /* volatile */
	IBV_TPH_MEM_TYPE_PM, /* persistent */
};

enum ibv_dmah_init_attr_mask {
	IBV_DMAH_INIT_ATTR_MASK_CPU_ID = 1 << 0,
	IBV_DMAH_INIT_ATTR_MASK_PH = 1 << 1,
	IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE = 1 << 2,
};

struct ibv_dmah_init_attr {
	uint32_t comp_mask;   /* enum ibv_dmah_init_attr_mask */
	uint32_t cpu_id;      /* of the CPU that will read the data */
	uint8_t ph;	      /* PCIe processing hint */
	uint8_t tph_mem_type; /* enum ibv_tph_mem_type */
};

struct ibv_dmah {
	struct ibv_context *context;
};

/* Allocates a handle. */
struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr);
/* Frees it. */
int ibv_dealloc_dmah(struct ibv_dmah *dmah);

/* ---- Buffers allocated by the device's library. From release 64. ibv_alloc_buf(3) ---- */

/*
 * Returns the address of `size` new bytes, 1 or more, zeroed; *buf is the handle for the calls
 * below.
 */
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);

/* Frees a buffer.  Call it after deregistering its regions and before freeing its PD. */
void ibv_free_buf(struct ibv_buf *buf);

/* Registers a range of the buffer.  EINVAL: also if `pd` is not the buffer's. */
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
			      int access);

/*
 * Returns a dma-buf descriptor of the buffer, which the caller closes; or -1 and errno.  After
 * release 64.
 */
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
