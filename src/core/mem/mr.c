/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions: checks, registration, advice, import. The only lock is the key table's, taken
 * inside key_table.c.
 */
#include "core/mem/mr.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/context.h"
#include "core/base/in_use.h"
#include "core/mem/dm.h"
#include "core/mem/key_table.h"
#include "core/mem/pd.h"
#include "run/log.h"
#include "run/nofault.h"
#include "run/proc_maps.h"
#include "util/atomic.h"

enum {
	DMABUF_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			IBV_ACCESS_REMOTE_ATOMIC,
	MR_ACCESS = DMABUF_ACCESS | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
		    IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | IBV_ACCESS_FLUSH_GLOBAL |
		    IBV_ACCESS_FLUSH_PERSISTENT,
	NEEDS_LOCAL_WRITE = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
};

static int check_access(unsigned int access, unsigned int known)
{
	const char *why = NULL;

	/* A device may ignore the optional flags. We do: relaxed ordering has no effect here. */
	if (access & ~(known | IBV_ACCESS_OPTIONAL_RANGE))
		why = "has flags that this kind of region does not have";
	else if ((access & NEEDS_LOCAL_WRITE) && !(access & IBV_ACCESS_LOCAL_WRITE))
		why = "has REMOTE_WRITE or REMOTE_ATOMIC without LOCAL_WRITE";
	if (why)
		log_info(LOG_CORE, "memory region: access 0x%x %s", access, why);
	return why ? EINVAL : 0;
}

/* Implicit ODP: ibv_reg_mr(pd, NULL, SIZE_MAX, IBV_ACCESS_ON_DEMAND), the whole address space. */
static bool is_implicit(const void *addr, size_t length, unsigned int access)
{
	return (access & IBV_ACCESS_ON_DEMAND) && !addr && length == SIZE_MAX;
}

/*
 * Hardware would pin the pages here, and fail if it cannot. On-demand regions are checked when they
 * are used. *shared: peers may map the memory.
 */
static int check_mapped(const void *addr, size_t length, unsigned int access, bool *shared)
{
	struct memmap map;
	int err;

	*shared = false;
	if ((access & IBV_ACCESS_ON_DEMAND) && !(access & IBV_ACCESS_FLUSH_PERSISTENT))
		return 0;
	err = memmap_query(addr, length, &map);
	if (!err && (!map.readable || ((access & IBV_ACCESS_LOCAL_WRITE) && !map.writable)))
		err = EFAULT;
	if (err == EFAULT)
		log_info(LOG_CORE, "memory region: %zu bytes at %p are not mapped, or not with the "
				   "rights of access 0x%x", length, addr, access);
	if (err)
		return err;
	/* Only a file mapping can be made persistent. */
	if ((access & IBV_ACCESS_FLUSH_PERSISTENT) && !map.shared_file)
		return EINVAL;
	/* On-demand regions follow the program's mappings, which may change at any time. */
	*shared = map.one_file && !(access & IBV_ACCESS_ON_DEMAND);
	return 0;
}

static int check_region(const void *addr, size_t length, uint64_t iova, unsigned int access,
			bool *shared)
{
	int err = check_access(access, MR_ACCESS);

	*shared = false;
	if (err || is_implicit(addr, length, access))
		return err;
	if ((uintptr_t)addr + length < (uintptr_t)addr || iova + length < iova)
		return EINVAL;
	return length ? check_mapped(addr, length, access, shared) : 0;
}

/* The parameters of a region, whatever call creates it. */
struct region {
	enum mr_kind kind;
	void *addr; /* the program's address, or NULL */
	uint64_t host;
	uint64_t va;
	uint64_t length;
	unsigned int access;
	bool shared; /* the memory is a shared mapping of one file */
	void *mapping;
	size_t mapping_len;
	struct dm_memory *dm;
};

static void fill_entry(struct mr_entry *e, const struct region *r, uint32_t pdn)
{
	e->kind = r->kind;
	e->pdn = pdn;
	e->access = r->access;
	e->zero_based = r->va == 0 && r->addr;
	e->shared = r->shared;
	e->va = r->va;
	e->length = r->length;
	e->host = r->host;
	e->windows = 0;
}

static void fill_mr(struct vrb_mr *mr, const struct region *r, struct vrb_pd *pd)
{
	mr->ibv.context = pd->ibv.context;
	mr->ibv.pd = &pd->ibv;
	mr->ibv.addr = r->addr;
	mr->ibv.length = r->length;
	mr->access = r->access;
}

static void take_holds(uint32_t index, const struct region *r, struct vrb_pd *pd)
{
	*mr_entry_holds(index) = (struct mr_holds){
		.pd = pd,
		.dm = r->dm,
		.mapping = r->mapping,
		.mapping_len = r->mapping_len,
	};
	vrb_pd_get(pd);
	if (r->dm)
		dm_memory_get(r->dm);
}

static void drop_holds(const struct mr_holds *h)
{
	if (h->mapping)
		munmap(h->mapping, h->mapping_len);
	if (h->dm)
		dm_memory_put(h->dm);
	vrb_pd_put(h->pd);
}

/* Charges the limit, allocates the object and publishes the entry. */
static int create(struct vrb_pd *pd, const struct region *r, struct vrb_mr **out)
{
	struct vrb_context *ctx = to_vrb_context(pd->ibv.context);
	int err = vrb_context_take(ctx, CTX_MR, vrb_device_limits.orig_attr.max_mr);
	struct mr_entry *e;
	struct vrb_mr *mr;

	if (err)
		return err;
	mr = calloc(1, sizeof(*mr));
	e = mr ? mr_entry_alloc(&mr->index) : NULL;
	if (!e) {
		free(mr);
		vrb_context_give(ctx, CTX_MR);
		return ENOMEM;
	}
	vrb_guard_install();
	fill_entry(e, r, pd->pdn);
	fill_mr(mr, r, pd);
	mr->ibv.handle = mr->index;
	mr->ibv.lkey = e->lkey;
	mr->ibv.rkey = r->kind == MR_NULL ? 0 : e->rkey;
	take_holds(mr->index, r, pd);
	mr_entry_publish(e);
	vrb_live_add(&mr->live, mr, mr->ibv.context, mr->ibv.handle);
	*out = mr;
	return 0;
}

/* Devices translate whole pages. */
static bool same_page_offset(uint64_t from, uint64_t iova)
{
	return (from ^ iova) % (uint64_t)sysconf(_SC_PAGESIZE) == 0;
}

static int check_iova(const void *addr, uint64_t iova)
{
	if (same_page_offset((uintptr_t)addr, iova))
		return 0;
	log_info(LOG_CORE, "memory region: address %p and iova 0x%llx differ in their offset "
			   "within a page, which Linux refuses for any device",
		 addr, (unsigned long long)iova);
	return EINVAL;
}

int vrb_mr_reg(struct vrb_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access,
	       struct vrb_mr **mr)
{
	struct region r = {
		.kind = MR_REGION,
		.addr = addr,
		.host = (uintptr_t)addr,
		.va = access & IBV_ACCESS_ZERO_BASED ? 0 : iova,
		.length = length,
		.access = access,
	};
	int err = check_region(addr, length, r.va, access, &r.shared);

	if (!err)
		err = check_iova(addr, iova);
	if (!err)
		err = create(pd, &r, mr);
	if (!err)
		(*mr)->plain = true;
	return err;
}

/*
 * The size of a file; negative: unknown. Only a dma-buf is asked by lseek(2), which there moves
 * nothing: the program may use the position of any other file.
 */
static off_t size_of(int fd)
{
	struct stat st;

	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		return st.st_size;
	return lseek(fd, 0, SEEK_END);
}

/* Maps [offset, offset + length) of a file; r->host is the address of offset. */
static int map_file(int fd, uint64_t offset, size_t length, unsigned int access, struct region *r)
{
	const uint64_t page = sysconf(_SC_PAGESIZE);
	uint64_t skip = offset % page;
	off_t size = size_of(fd);
	int prot = PROT_READ | (access & IBV_ACCESS_LOCAL_WRITE ? PROT_WRITE : 0);

	if (length > SIZE_MAX - skip || offset + length < offset)
		return EINVAL;
	if (size >= 0 && offset + length > (uint64_t)size)
		return EINVAL;
	r->mapping_len = skip + length;
	r->mapping = mmap(NULL, r->mapping_len, prot, MAP_SHARED, fd, (off_t)(offset - skip));
	if (r->mapping == MAP_FAILED)
		return errno;
	r->host = (uintptr_t)r->mapping + skip;
	return 0;
}

int vrb_mr_reg_dmabuf(struct vrb_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
		      unsigned int access, struct vrb_mr **mr)
{
	struct region r = {
		.kind = MR_REGION,
		.va = iova,
		.length = length,
		.access = access,
		.shared = true,
	};
	int err = check_access(access, DMABUF_ACCESS);

	if (err)
		return err;
	if (!same_page_offset(offset, iova) || iova + length < iova)
		return EINVAL;
	/* The file comes before the length: programs ask without both whether this exists. */
	if (!length)
		return fcntl(fd, F_GETFD) < 0 ? EBADF : EINVAL;
	err = map_file(fd, offset, length, access, &r);
	if (err)
		return err;
	err = create(pd, &r, mr);
	if (err)
		munmap(r.mapping, r.mapping_len);
	return err;
}

int vrb_mr_reg_dm(struct vrb_pd *pd, struct vrb_dm *dm, uint64_t offset, size_t length,
		  unsigned int access, struct vrb_mr **mr)
{
	struct region r = {
		.kind = MR_DM,
		.length = length,
		.access = access,
		.shared = true,
		.dm = dm->memory,
	};
	int err = check_access(access, MR_ACCESS & ~(IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB |
						     IBV_ACCESS_FLUSH_PERSISTENT));

	if (err)
		return err;
	if (!(access & IBV_ACCESS_ZERO_BASED) || dm->ibv.context != pd->ibv.context)
		return EINVAL;
	if (dm->memory->freed || !dm_memory_has(dm->memory, offset, length))
		return EINVAL;
	r.host = (uintptr_t)dm->memory->mem + offset;
	return create(pd, &r, mr);
}

int vrb_mr_alloc_null(struct vrb_pd *pd, struct vrb_mr **mr)
{
	const struct region r = {
		.kind = MR_NULL,
		.length = UINT64_MAX,
		.access = IBV_ACCESS_LOCAL_WRITE,
	};

	return create(pd, &r, mr);
}

/* Frees the handle only. The entry is gone or belongs to another handle. */
static void free_mr(struct vrb_mr *mr)
{
	struct vrb_context *ctx = to_vrb_context(mr->ibv.context);

	vrb_live_del(&mr->live);
	if (mr->imported)
		vrb_pd_release(to_vrb_pd(mr->ibv.pd));
	vrb_context_give(ctx, CTX_MR);
	free(mr);
}

/* A reference on the region's entry; NULL if it was deregistered through another handle. */
static struct mr_entry *entry_of(const struct vrb_mr *mr)
{
	struct mr_entry *e = mr_entry_get(mr->ibv.lkey);

	if (e && e->lkey == mr->ibv.lkey && e->kind != MR_WINDOW)
		return e;
	if (e)
		mr_entry_put(e);
	return NULL;
}

/* Ends all access. EBUSY while windows are bound to the region. */
static int retract(const char *call, const struct vrb_mr *mr, struct mr_entry *e,
		   const struct vrb_mr_waits *waits)
{
	struct vrb_pd *pd = mr_entry_holds(mr->index)->pd;
	uint32_t windows = load_acquire(&e->windows);

	if (windows)
		return vrb_in_use(call, windows, "bound windows");
	waits->requests(pd, e->lkey);
	mr_entry_retract(e);
	waits->copies(pd);
	/* A concurrent bind may have raised the count. Pairs with bind_entry(). */
	windows = load_acquire(&e->windows);
	if (!windows)
		return 0;
	mr_entry_publish(e);
	return vrb_in_use(call, windows, "bound windows");
}

int vrb_mr_dereg(struct vrb_mr *mr, const struct vrb_mr_waits *waits)
{
	struct mr_entry *e = entry_of(mr);
	struct mr_holds held;
	int err;

	if (!e)
		return EINVAL;
	mr_entry_put(e);
	err = retract("ibv_dereg_mr", mr, e, waits);
	if (err)
		return err;
	held = *mr_entry_holds(mr->index);
	mr_entry_free(mr->index);
	drop_holds(&held);
	free_mr(mr);
	return 0;
}

/* The flags say which values are new; the others stay. */
static void rereg_values(const struct vrb_mr *mr, const struct mr_entry *e, int flags, void *addr,
			 size_t length, unsigned int access, struct region *r)
{
	bool move = flags & IBV_REREG_MR_CHANGE_TRANSLATION;

	r->kind = MR_REGION;
	r->access = flags & IBV_REREG_MR_CHANGE_ACCESS ? access : mr->access;
	r->addr = move ? addr : mr->ibv.addr;
	r->length = move ? length : mr->ibv.length;
	r->host = move ? (uintptr_t)addr : e->host;
	r->va = move ? (uintptr_t)addr : e->va;
	if (r->access & IBV_ACCESS_ZERO_BASED)
		r->va = 0;
}

/*
 * Other rights only: as on devices, the region goes on, so that no request fails that old and new
 * rights allow. False if it has to end first.
 */
static bool change_rights(struct vrb_mr *mr, struct mr_entry *e, int flags, const struct region *r,
			  const struct vrb_mr_waits *waits)
{
	struct vrb_pd *pd = mr_entry_holds(mr->index)->pd;
	uint32_t old = e->access;

	if (flags != IBV_REREG_MR_CHANGE_ACCESS || r->va != e->va || load_acquire(&e->windows))
		return false;
	if (old & ~r->access & IBV_ACCESS_LOCAL_WRITE)
		waits->requests(pd, e->lkey);
	mr_entry_set_access(e, r->access);
	waits->copies(pd);
	if (!mr_entry_idle(e)) {
		mr_entry_set_access(e, old);
		return false;
	}
	mr->access = r->access;
	mr_entry_publish(e);
	return true;
}

int vrb_mr_rereg(struct vrb_mr *mr, int flags, struct vrb_pd *pd, void *addr, size_t length,
		 unsigned int access, const struct vrb_mr_waits *waits)
{
	struct mr_holds *holds = mr_entry_holds(mr->index);
	struct vrb_pd *old = holds->pd;
	struct mr_entry *e = entry_of(mr);
	struct region r = { 0 };
	int err;

	if (!e)
		return EINVAL;
	rereg_values(mr, e, flags, addr, length, access, &r);
	mr_entry_put(e);
	err = check_region(r.addr, r.length, r.va, r.access, &r.shared);
	if (!err && change_rights(mr, e, flags, &r, waits))
		return 0;
	if (!err)
		err = retract("ibv_rereg_mr", mr, e, waits);
	if (err)
		return err;
	if (!pd)
		pd = old;
	fill_entry(e, &r, pd->pdn);
	fill_mr(mr, &r, pd);
	holds->pd = pd;
	vrb_pd_get(pd);
	vrb_pd_put(old);
	mr_entry_publish(e);
	return 0;
}

int vrb_mr_import(struct vrb_pd *pd, uint32_t handle, struct vrb_mr **out)
{
	struct vrb_context *ctx = to_vrb_context(pd->ibv.context);
	struct mr_entry *e = handle && handle <= MR_INDEX_MAX ? mr_entry_get(handle << 8) : NULL;
	struct vrb_mr *mr = NULL;
	int err = ENOENT;

	if (!e)
		return ENOENT;
	if (e->kind == MR_WINDOW || e->pdn != pd->pdn)
		goto put;
	err = vrb_context_take(ctx, CTX_MR, vrb_device_limits.orig_attr.max_mr);
	if (err)
		goto put;
	mr = calloc(1, sizeof(*mr));
	if (!mr) {
		vrb_context_give(ctx, CTX_MR);
		err = ENOMEM;
		goto put;
	}
	mr->ibv = (struct ibv_mr){
		.context = pd->ibv.context,
		.pd = &pd->ibv,
		.length = e->length,
		.handle = handle,
		.lkey = e->lkey,
		.rkey = e->kind == MR_NULL ? 0 : e->rkey,
	};
	mr->index = handle;
	mr->access = e->access;
	mr->imported = true;
	vrb_pd_hold(pd);
	vrb_live_add(&mr->live, mr, mr->ibv.context, mr->ibv.handle);
	*out = mr;
put:
	mr_entry_put(e);
	return err;
}

/* The region survives unless it was deregistered through another handle. */
void vrb_mr_unimport(struct vrb_mr *mr)
{
	free_mr(mr);
}

/*
 * Errors as in ibv_advise_mr(3). Linux's mlx5 looks keys up among those on demand, so that of an
 * ordinary region is unknown to it.
 */
static int check_advice(const struct mr_entry *e, const struct vrb_pd *pd,
			const struct ibv_sge *sge, bool write)
{
	if (e->lkey != sge->lkey)
		return ENOENT;
	if (e->kind == MR_WINDOW)
		return EINVAL;
	if (!(e->access & IBV_ACCESS_ON_DEMAND))
		return ENOENT;
	if (e->pdn != pd->pdn)
		return EPERM;
	if (write && !(e->access & IBV_ACCESS_LOCAL_WRITE))
		return EPERM;
	if (sge->addr < e->va || sge->length > e->length ||
	    sge->addr - e->va > e->length - sge->length)
		return EFAULT;
	return 0;
}

/* Asks the kernel to prefetch the pages; it may evict them again. */
static int prefetch(const struct mr_entry *e, const struct ibv_sge *sge, uint32_t advice)
{
	const uintptr_t page = sysconf(_SC_PAGESIZE);
	uintptr_t start = e->host + (sge->addr - e->va), from = start & ~(page - 1);
	struct memmap map;
	int err;

	if (!sge->length)
		return 0;
	err = memmap_query((void *)start, sge->length, &map);
	if (err)
		return err;
	if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE && !map.writable)
		return EFAULT;
	if (advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		(void)madvise((void *)from, start - from + sge->length, MADV_WILLNEED);
	return 0;
}

int vrb_mr_advise(struct vrb_pd *pd, uint32_t advice, uint32_t flags, const struct ibv_sge *sge,
		  uint32_t num_sge)
{
	bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;

	if (advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return ENOTSUP;
	if (flags & ~IBV_ADVISE_MR_FLAG_FLUSH)
		return EINVAL;
	for (uint32_t i = 0; i < num_sge; i++) {
		struct mr_entry *e = mr_entry_get(sge[i].lkey);
		int err;

		if (!e)
			return ENOENT;
		err = check_advice(e, pd, &sge[i], write);
		if (!err)
			err = prefetch(e, &sge[i], advice);
		mr_entry_put(e);
		if (err)
			return err;
	}
	return 0;
}
