/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions: accepted and refused registrations, keys, an iova that differs from the address,
 * re-registration, advice, and memory that is unmapped while it is registered.
 */
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "world.h"

enum { LEN = 8192 };

static uint8_t memory[LEN] __attribute__((aligned(4096)));
static uint8_t other[LEN] __attribute__((aligned(4096)));

static void expect_refused(struct ibv_mr *mr, int err)
{
	CHECK(!mr);
	CHECK_EQ(errno, err);
}

/*
 * Pages below a large gap: the kernel places new mappings of other threads at the top of the gap
 * and not where the test unmaps these pages.
 */
static uint8_t *isolated_pages(size_t len)
{
	size_t gap = 256 << 20;
	uint8_t *p = mmap(NULL, gap, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	CHECK(p != MAP_FAILED);
	munmap(p + len, gap - len);
	CHECK_EQ(mprotect(p, len, PROT_READ | PROT_WRITE), 0);
	return p;
}

static void access_flags(struct world *w)
{
	static const struct {
		unsigned int access;
		bool ok;
	} rows[] = {
		{ 0, true },
		{ IBV_ACCESS_LOCAL_WRITE, true },
		{ IBV_ACCESS_REMOTE_READ, true },
		{ IBV_ACCESS_REMOTE_WRITE, false },
		{ IBV_ACCESS_REMOTE_ATOMIC, false },
		{ IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, true },
		{ IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC, true },
		{ IBV_ACCESS_MW_BIND, true },
		{ IBV_ACCESS_ZERO_BASED, true },
		{ IBV_ACCESS_ON_DEMAND, true },
		{ IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB, true },
		{ IBV_ACCESS_RELAXED_ORDERING, true },
		{ 1 << 25, true }, /* an optional flag, so ignored */
		{ IBV_ACCESS_FLUSH_GLOBAL, true },
		{ IBV_ACCESS_FLUSH_PERSISTENT, false }, /* the memory is not persistent */
		{ 1 << 15, false },
		{ 1u << 31, false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		unsigned int access = rows[i].access;
		struct ibv_mr *mr = ibv_reg_mr(w->pd, memory, LEN, access);

		if (!rows[i].ok) {
			expect_refused(mr, EINVAL);
			continue;
		}
		CHECK(mr);
		CHECK(mr->addr == memory);
		CHECK_EQ(mr->length, LEN);
		CHECK(mr->pd == w->pd && mr->context == w->ctx);
		/* as on mlx5 and rxe: programs mix them up */
		CHECK_EQ(mr->lkey, mr->rkey);
		CHECK_EQ(ibv_dereg_mr(mr), 0);
	}
}

static void addresses(struct world *w)
{
	size_t page = sysconf(_SC_PAGESIZE);
	uint8_t *p = isolated_pages(4 * page);
	int rw = IBV_ACCESS_LOCAL_WRITE;
	struct ibv_mr *mr;

	munmap(p + page, page);
	mprotect(p + 2 * page, page, PROT_READ);
	mprotect(p + 3 * page, page, PROT_NONE);
	CHECK((mr = ibv_reg_mr(w->pd, p, page, rw)));
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	expect_refused(ibv_reg_mr(w->pd, p, page + 1, rw), EFAULT);
	expect_refused(ibv_reg_mr(w->pd, p + page, 1, 0), EFAULT);
	CHECK((mr = ibv_reg_mr(w->pd, p + 2 * page, page, IBV_ACCESS_REMOTE_READ)));
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	expect_refused(ibv_reg_mr(w->pd, p + 2 * page, page, rw), EFAULT);
	expect_refused(ibv_reg_mr(w->pd, p + 3 * page, page, 0), EFAULT);
	expect_refused(ibv_reg_mr(w->pd, (void *)UINTPTR_MAX, 2, rw), EINVAL);
	expect_refused(ibv_reg_mr(w->pd, NULL, 16, rw), EFAULT);
	expect_refused(ibv_reg_mr(NULL, p, 16, rw), EINVAL);
	munmap(p, page);
	munmap(p + 2 * page, 2 * page);
}

static void dereg_null(void)
{
	CHECK_EQ(ibv_dereg_mr(NULL), EINVAL);
}

/* Two connected QPs that access the region under test. */
struct pair {
	struct ibv_cq *cq;
	struct ibv_qp *a, *b;
	struct buffer local;
};

static void pair_open(struct world *w, struct pair *p)
{
	p->cq = world_cq(w, 64);
	p->a = world_qp(w, IBV_QPT_RC, p->cq, NULL);
	p->b = world_qp(w, IBV_QPT_RC, p->cq, NULL);
	world_connect(w, p->a, p->b);
	p->local = world_buffer(w, 64, WORLD_ACCESS);
}

static void pair_close(struct pair *p)
{
	world_free(&p->local);
	CHECK_EQ(ibv_destroy_qp(p->a), 0);
	CHECK_EQ(ibv_destroy_qp(p->b), 0);
	CHECK_EQ(ibv_destroy_cq(p->cq), 0);
}

/* Executes one RDMA request of eight bytes; returns its status. */
static enum ibv_wc_status rdma(struct pair *p, enum ibv_wr_opcode opcode, uint64_t addr,
			       uint32_t rkey)
{
	struct ibv_sge sge = world_sge(&p->local, 0, 8);
	struct ibv_send_wr wr = {
		.wr_id = 5,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { addr, rkey },
	};
	struct ibv_wc wc;

	world_post(p->a, &wr);
	world_poll(p->cq, &wc, 1);
	CHECK_EQ(wc.wr_id, 5);
	return wc.status;
}

static void other_addresses(struct world *w)
{
	const uint64_t iova = ((uintptr_t)memory + 100) ^ 0x1234567800000000;
	struct pair p;
	struct ibv_mr *mr;

	pair_open(w, &p);
	memset(p.local.data, 0x77, 8);
	CHECK((mr = ibv_reg_mr_iova(w->pd, memory + 100, 1000, iova, WORLD_ACCESS)));
	CHECK_EQ(rdma(&p, IBV_WR_RDMA_WRITE, iova + 992, mr->rkey), IBV_WC_SUCCESS);
	CHECK_MEM(memory + 1092, p.local.data, 8);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK((mr = ibv_reg_mr(w->pd, memory + 3, 1000, WORLD_ACCESS | IBV_ACCESS_ZERO_BASED)));
	CHECK_EQ(rdma(&p, IBV_WR_RDMA_WRITE, 0, mr->rkey), IBV_WC_SUCCESS);
	CHECK_MEM(memory + 3, p.local.data, 8);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	expect_refused(ibv_reg_mr_iova(w->pd, memory, LEN, UINT64_MAX - 5, WORLD_ACCESS), EINVAL);
	/* Linux refuses this for any device. */
	expect_refused(ibv_reg_mr_iova(w->pd, memory, LEN, iova + 1, WORLD_ACCESS), EINVAL);
	/* One region that covers the whole address space. */
	CHECK((mr = ibv_reg_mr(w->pd, NULL, SIZE_MAX, WORLD_ACCESS | IBV_ACCESS_ON_DEMAND)));
	CHECK_EQ(rdma(&p, IBV_WR_RDMA_WRITE, (uintptr_t)memory + 5000, mr->rkey), IBV_WC_SUCCESS);
	CHECK_MEM(memory + 5000, p.local.data, 8);
	CHECK_EQ(rdma(&p, IBV_WR_RDMA_READ, 64, mr->rkey), IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	pair_close(&p);
}

static void unmapped_remote_memory(struct world *w)
{
	size_t page = sysconf(_SC_PAGESIZE);
	uint8_t *p = isolated_pages(page);
	struct ibv_mr *mr = ibv_reg_mr(w->pd, p, page, WORLD_ACCESS);
	struct pair pair;

	pair_open(w, &pair);
	CHECK(mr);
	mprotect(p, page, PROT_READ);	/* does not keep an adapter from writing */
	CHECK_EQ(rdma(&pair, IBV_WR_RDMA_WRITE, (uintptr_t)p, mr->rkey), IBV_WC_REM_ACCESS_ERR);
	pair_close(&pair);
	pair_open(w, &pair);
	munmap(p, page);
	CHECK_EQ(rdma(&pair, IBV_WR_RDMA_WRITE, (uintptr_t)p, mr->rkey), IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	pair_close(&pair);
}

/* Registered, but not mapped any more: every access from or to it fails, over each transport. */
static void unmapped_local_memory(struct world *w)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
		IBV_WR_ATOMIC_CMP_AND_SWP,
	};
	struct buffer remote = world_buffer(w, 64, WORLD_ACCESS);
	size_t page = sysconf(_SC_PAGESIZE);

	for (size_t i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		uint8_t *p = isolated_pages(page);
		struct ibv_mr *mr = ibv_reg_mr(w->pd, p, page, WORLD_ACCESS);
		struct ibv_send_wr wr;
		struct ibv_sge sge;
		struct pair pair;

		CHECK(mr);
		pair_open(w, &pair);
		/* The first request always travels as a packet. */
		CHECK_EQ(rdma(&pair, IBV_WR_RDMA_WRITE, (uintptr_t)remote.data, remote.mr->rkey),
			 IBV_WC_SUCCESS);
		munmap(p, page);
		sge = (struct ibv_sge){ (uintptr_t)p, 8, mr->lkey };
		wr = world_rdma(opcodes[i], i, &sge, &remote, 0);
		world_post(pair.a, &wr);
		world_expect(pair.cq, i, IBV_WC_LOC_PROT_ERR);
		CHECK_EQ(ibv_dereg_mr(mr), 0);
		pair_close(&pair);
	}
	world_free(&remote);
}

/* Empty regions have keys, which is all that an empty message needs. */
static void empty_regions(struct world *w)
{
	struct ibv_alloc_dm_attr attr = { .length = 4 };
	struct ibv_dm *dm = ibv_alloc_dm(w->ctx, &attr);
	struct ibv_mr *mr[] = {
		ibv_reg_mr(w->pd, memory, 0, WORLD_ACCESS),
		ibv_reg_dm_mr(w->pd, dm, 4, 0, WORLD_ACCESS | IBV_ACCESS_ZERO_BASED),
	};

	for (int i = 0; i < 2; i++) {
		struct ibv_send_wr wr = { .wr_id = 1,
					  .opcode = IBV_WR_RDMA_WRITE,
					  .send_flags = IBV_SEND_SIGNALED };
		uint64_t at = i ? 0 : (uintptr_t)memory;
		struct pair p;

		CHECK(mr[i]);
		CHECK_EQ(mr[i]->length, 0);
		pair_open(w, &p);
		wr.wr.rdma.remote_addr = at;
		wr.wr.rdma.rkey = mr[i]->rkey;
		world_post(p.a, &wr);
		world_expect(p.cq, 1, IBV_WC_SUCCESS);
		CHECK_EQ(rdma(&p, IBV_WR_RDMA_WRITE, at, mr[i]->rkey), IBV_WC_REM_ACCESS_ERR);
		pair_close(&p);
		CHECK_EQ(ibv_dereg_mr(mr[i]), 0);
	}
	CHECK_EQ(ibv_free_dm(dm), 0);
}

static void stale_keys(struct world *w)
{
	struct ibv_mr *mr = ibv_reg_mr(w->pd, memory, LEN, WORLD_ACCESS);
	uint32_t rkey = mr->rkey;
	struct pair p;

	CHECK_EQ(ibv_dereg_mr(mr), 0);
	mr = ibv_reg_mr(w->pd, memory, LEN, WORLD_ACCESS);
	pair_open(w, &p);
	CHECK_EQ(rdma(&p, IBV_WR_RDMA_WRITE, (uintptr_t)memory, rkey), IBV_WC_REM_ACCESS_ERR);
	pair_close(&p);
	pair_open(w, &p);
	CHECK_EQ(rdma(&p, IBV_WR_RDMA_WRITE, (uintptr_t)memory, mr->lkey), IBV_WC_SUCCESS);
	pair_close(&p);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
}

static void reregistration(struct world *w)
{
	const int all = IBV_REREG_MR_FLAGS_SUPPORTED;
	struct ibv_mr *mr = ibv_reg_mr(w->pd, memory, LEN, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_pd *pd = ibv_alloc_pd(w->ctx);
	struct pair p;

	CHECK_EQ(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_CMD);
	CHECK_EQ(ibv_rereg_mr(mr, 8, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_CMD);
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, other, 0, 0),
		 IBV_REREG_MR_ERR_INPUT);
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			      IBV_ACCESS_REMOTE_WRITE),
		 IBV_REREG_MR_ERR_CMD);
	/* Changes the access flags only. */
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, WORLD_ACCESS), 0);
	pair_open(w, &p);
	CHECK_EQ(rdma(&p, IBV_WR_RDMA_WRITE, (uintptr_t)memory, mr->rkey), IBV_WC_SUCCESS);
	/* Changes the address only. */
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, other, LEN, 0), 0);
	CHECK(mr->addr == other);
	CHECK_EQ(rdma(&p, IBV_WR_RDMA_WRITE, (uintptr_t)other, mr->rkey), IBV_WC_SUCCESS);
	CHECK_EQ(rdma(&p, IBV_WR_RDMA_WRITE, (uintptr_t)memory, mr->rkey), IBV_WC_REM_ACCESS_ERR);
	pair_close(&p);
	/* Changes everything: the old domain is free again, the new one is in use. */
	CHECK_EQ(ibv_rereg_mr(mr, all, pd, memory, LEN / 2, IBV_ACCESS_LOCAL_WRITE), 0);
	CHECK(mr->pd == pd);
	CHECK_EQ(mr->length, LEN / 2);
	CHECK_EQ(ibv_dealloc_pd(pd), EBUSY);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
}

static void advice(struct world *w)
{
	struct ibv_mr *odp = ibv_reg_mr(w->pd, memory, LEN, IBV_ACCESS_ON_DEMAND);
	struct ibv_mr *plain = ibv_reg_mr(w->pd, memory, LEN, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = { (uintptr_t)memory, LEN, odp->lkey };
	struct ibv_pd *pd = ibv_alloc_pd(w->ctx);
	const int fetch = IBV_ADVISE_MR_ADVICE_PREFETCH;

	CHECK_EQ(ibv_advise_mr(w->pd, fetch, 0, &sge, 1), 0);
	CHECK_EQ(ibv_advise_mr(w->pd, fetch, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1), 0);
	CHECK_EQ(ibv_advise_mr(w->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, &sge, 1), 0);
	CHECK_EQ(ibv_advise_mr(w->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &sge, 1), EPERM);
	CHECK_EQ(ibv_advise_mr(w->pd, 17, 0, &sge, 1), ENOTSUP);
	CHECK_EQ(ibv_advise_mr(w->pd, fetch, 2, &sge, 1), EINVAL);
	CHECK_EQ(ibv_advise_mr(w->pd, fetch, 0, &sge, 0), EINVAL);
	CHECK_EQ(ibv_advise_mr(pd, fetch, 0, &sge, 1), EPERM);
	sge.length = LEN + 1;
	CHECK_EQ(ibv_advise_mr(w->pd, fetch, 0, &sge, 1), EFAULT);
	sge.length = LEN;
	sge.lkey = plain->lkey;
	CHECK_EQ(ibv_advise_mr(w->pd, fetch, 0, &sge, 1), ENOENT);
	CHECK_EQ(ibv_advise_mr(pd, fetch, 0, &sge, 1), ENOENT);
	sge.lkey = odp->lkey ^ 1;
	CHECK_EQ(ibv_advise_mr(w->pd, fetch, 0, &sge, 1), ENOENT);
	CHECK_EQ(ibv_dereg_mr(odp), 0);
	CHECK_EQ(ibv_dereg_mr(plain), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
}

/* Messages from a null region are zeros there, whatever their length and way. */
static void messages_of_null_region(struct world *w, struct pair *p, struct ibv_mr *null)
{
	static const uint32_t lengths[] = { 100, 3000, 20000, 200000 };
	enum { LENGTHS = sizeof(lengths) / sizeof(lengths[0]) };
	enum { EDGE = 64, MOST = 200000 + 2 * EDGE };
	struct buffer target = world_buffer(w, MOST, WORLD_ACCESS);
	uint8_t *want = calloc(1, MOST);

	memset(p->local.data, 0x42, EDGE);
	for (int i = 0; i < 2 * LENGTHS; i++) {
		uint32_t len = lengths[i / 2];
		struct ibv_sge sge[] = { world_sge(&p->local, 0, EDGE), { 0, len, null->lkey },
					 world_sge(&p->local, 0, EDGE) };
		struct ibv_send_wr wr = world_rdma(
			i % 2 ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND, 8, sge, &target, 0);
		struct ibv_wc wc[2];

		wr.num_sge = 3;
		memset(target.data, 0x31, MOST);
		memset(want, 0, MOST);
		memset(want, 0x42, EDGE);
		memset(want + EDGE + len, 0x42, EDGE);
		world_recv(p->b, 7, world_sge(&target, 0, MOST));
		world_post(p->a, &wr);
		world_poll(p->cq, wc, 2);
		CHECK_EQ(wc[0].status, IBV_WC_SUCCESS);
		CHECK_EQ(wc[1].status, IBV_WC_SUCCESS);
		CHECK_MEM(target.data, want, len + 2 * EDGE);
	}
	free(want);
	world_free(&target);
}

static void null_region(struct world *w)
{
	struct ibv_mr *null = ibv_alloc_null_mr(w->pd);
	struct buffer target = world_buffer(w, 64, WORLD_ACCESS);
	struct ibv_sge sge = { 0xdead0000, 64, null->lkey };
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 9, &sge, &target, 0);
	uint8_t zero[64] = { 0 };
	struct pair p;

	pair_open(w, &p);
	memset(target.data, 0x31, 64);
	world_post(p.a, &wr);
	world_expect(p.cq, 9, IBV_WC_SUCCESS);
	CHECK_MEM(target.data, zero, 64);
	wr.opcode = IBV_WR_RDMA_READ;
	world_post(p.a, &wr);
	world_expect(p.cq, 9, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_rereg_mr(null, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
		 IBV_REREG_MR_ERR_INPUT);
	messages_of_null_region(w, &p, null);
	pair_close(&p);
	CHECK_EQ(ibv_dereg_mr(null), 0);
	world_free(&target);
}

static void dmabuf(struct world *w)
{
	size_t page = sysconf(_SC_PAGESIZE);
	int fd = memfd_create("mr_test", 0);
	struct ibv_mr *mr;
	struct pair p;
	char got[8];

	CHECK_EQ(ftruncate(fd, 2 * page), 0);
	CHECK((mr = ibv_reg_dmabuf_mr(w->pd, page + 8, 100, 8, fd, WORLD_ACCESS)));
	CHECK_EQ(lseek(fd, 0, SEEK_CUR), 0);	/* the program's */
	pair_open(w, &p);
	memset(p.local.data, 0x42, 8);
	CHECK_EQ(rdma(&p, IBV_WR_RDMA_WRITE, 16, mr->rkey), IBV_WC_SUCCESS);
	CHECK_EQ(pread(fd, got, 8, page + 16), 8);
	CHECK_MEM(got, p.local.data, 8);
	pair_close(&p);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	/* offset and iova differ within the page */
	expect_refused(ibv_reg_dmabuf_mr(w->pd, 8, 100, 0, fd, 0), EINVAL);
	expect_refused(ibv_reg_dmabuf_mr(w->pd, page, page + 1, 0, fd, 0), EINVAL);
	expect_refused(ibv_reg_dmabuf_mr(w->pd, 0, page, 0, fd, IBV_ACCESS_MW_BIND), EINVAL);
	expect_refused(ibv_reg_dmabuf_mr(w->pd, 0, page, 0, -1, 0), EBADF);
	/* as NCCL asks whether there are dma-bufs; ib_core takes the file first */
	expect_refused(ibv_reg_dmabuf_mr(w->pd, 0, 0, 0, -1, 0), EBADF);
	expect_refused(ibv_reg_dmabuf_mr(w->pd, 0, 0, 0, fd, 0), EINVAL);
	close(fd);
}

static void import(struct world *w)
{
	struct ibv_mr *mr = ibv_reg_mr(w->pd, memory, LEN, WORLD_ACCESS), *twin;

	CHECK((twin = ibv_import_mr(w->pd, mr->handle)));
	CHECK_EQ(twin->lkey, mr->lkey);
	CHECK_EQ(twin->rkey, mr->rkey);
	CHECK_EQ(twin->length, LEN);
	ibv_unimport_mr(twin);
	expect_refused(ibv_import_mr(w->pd, 0), ENOENT);
	expect_refused(ibv_import_mr(w->pd, ~0u), ENOENT);
	CHECK((twin = ibv_import_mr(w->pd, mr->handle)));
	CHECK_EQ(ibv_dereg_mr(twin), 0);
	CHECK_EQ(ibv_dereg_mr(mr), EINVAL); /* already deregistered */
	ibv_unimport_mr(mr);
}

int main(void)
{
	struct world w;

	world_open(&w);
	access_flags(&w);
	addresses(&w);
	dereg_null();
	other_addresses(&w);
	unmapped_remote_memory(&w);
	unmapped_local_memory(&w);
	stale_keys(&w);
	empty_regions(&w);
	reregistration(&w);
	advice(&w);
	null_region(&w);
	dmabuf(&w);
	import(&w);
	world_close(&w);
	return 0;
}
