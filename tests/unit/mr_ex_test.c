/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_reg_mr_ex(), buffers and DMA handles: which combinations of members are accepted, and which
 * older registration call they become. This program implements the older calls and records their
 * arguments.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/mem/pd.h"

static struct {
	int calls;
	int fd; /* -1: not a dma-buf */
	void *addr;
	size_t length;
	uint64_t offset, iova;
	unsigned int access;
} seen;

static struct ibv_mr the_mr;
static struct ibv_context ctx, other_ctx;
static struct vrb_pd plain = { .ibv.context = &ctx };
static struct vrb_pd parent = { .ibv.context = &ctx, .parent = &plain };

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *p, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	seen.calls++;
	seen.fd = -1;
	seen.addr = addr;
	seen.length = length;
	seen.iova = iova;
	seen.access = access;
	return &the_mr;
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *p, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	seen.calls++;
	seen.fd = fd;
	seen.length = length;
	seen.offset = offset;
	seen.iova = iova;
	seen.access = (unsigned int)access;
	return &the_mr;
}

#define A IBV_REG_MR_MASK_ADDR
#define I IBV_REG_MR_MASK_IOVA
#define F IBV_REG_MR_MASK_FD
#define O IBV_REG_MR_MASK_FD_OFFSET
#define D IBV_REG_MR_MASK_DMAH
#define B IBV_REG_MR_MASK_BUF

static const struct {
	uint64_t mask;
	int error;
} masks[] = {
	{ 0, EINVAL },	     { I, EINVAL },		{ F, EINVAL },
	{ F | O, EINVAL },   { F | I, EINVAL },		{ A | F, EINVAL },
	{ A | O, EINVAL },   { B, EINVAL },		{ B | F, EINVAL },
	{ A | B | F, EINVAL }, { A | B | O, EINVAL },	{ 1 << 6, EOPNOTSUPP },
	{ A | 1ULL << 40, EOPNOTSUPP },
	{ A, 0 },	     { A | I, 0 },		{ A | D, 0 },
	{ F | O | I, 0 },    { F | O | I | D, 0 },	{ A | B, 0 },
	{ A | B | I, 0 },
};

static void combinations(void **state)
{
	struct ibv_dmah dmah = { .context = &ctx };
	struct ibv_buf *buf;
	char *mem = ibv_alloc_buf(&plain.ibv, 4096, &buf);

	assert_non_null(mem);
	for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
		struct ibv_mr_init_attr attr = {
			.length = 100, .access = 7, .comp_mask = masks[i].mask, .iova = 0x5000,
			.addr = mem, .fd = 33, .fd_offset = 0x800, .dmah = &dmah, .buf = buf,
		};
		struct ibv_mr *mr;

		memset(&seen, 0, sizeof(seen));
		errno = 0;
		mr = ibv_reg_mr_ex(&plain.ibv, &attr);
		if (masks[i].error) {
			assert_null(mr);
			assert_int_equal(errno, masks[i].error);
			assert_int_equal(seen.calls, 0);
			continue;
		}
		assert_ptr_equal(mr, &the_mr);
		assert_int_equal(seen.calls, 1);
		assert_int_equal(seen.length, 100);
		assert_int_equal(seen.access, 7);
		assert_int_equal(seen.fd, masks[i].mask & F ? 33 : -1);
		assert_int_equal(seen.iova, masks[i].mask & I ? 0x5000 : (uintptr_t)mem);
		assert_int_equal(seen.offset, masks[i].mask & F ? 0x800 : 0);
	}
	ibv_free_buf(buf);
}

static void buffer_bounds(void **state)
{
	struct ibv_pd other_pd = { .context = &ctx };
	struct ibv_buf *buf;
	char *mem = ibv_alloc_buf(&plain.ibv, 4096, &buf);
	const struct {
		struct ibv_pd *pd;
		ptrdiff_t offset;
		size_t length;
		int ok;
	} rows[] = {
		{ &plain.ibv, 0, 4096, 1 },  { &plain.ibv, 0, 4097, 0 },
		{ &plain.ibv, 4000, 96, 1 }, { &plain.ibv, 4000, 97, 0 },
		{ &plain.ibv, 4096, 0, 1 },  { &plain.ibv, 4097, 0, 0 },
		{ &plain.ibv, -1, 1, 0 },    { &plain.ibv, 1, SIZE_MAX, 0 },
		{ &other_pd, 0, 4096, 0 },
	};

	assert_non_null(mem);
	for (size_t i = 0; i < 4096; i++)
		assert_int_equal(mem[i], 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		void *addr = (void *)((uintptr_t)mem + (uintptr_t)rows[i].offset);
		struct ibv_mr *mr = ibv_reg_buf_mr(rows[i].pd, buf, addr, rows[i].length, 1);

		assert_ptr_equal(mr, rows[i].ok ? &the_mr : NULL);
		if (!rows[i].ok)
			assert_int_equal(errno, EINVAL);
	}
	ibv_free_buf(buf);
	assert_null(ibv_alloc_buf(&plain.ibv, 0, &buf));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_alloc_buf(&plain.ibv, SIZE_MAX, &buf));
	assert_int_equal(errno, ENOMEM);
}

/* ibv_alloc_buf(3): a buffer that is a dma-buf takes no iova. */
static void dmabuf_buffer(void **state)
{
	struct ibv_buf *buf;
	struct ibv_mr_init_attr attr = { .length = 100, .access = 7, .comp_mask = A | B };

	attr.addr = ibv_alloc_buf(&parent.ibv, 4096, &buf);
	attr.buf = buf;
	assert_ptr_equal(ibv_reg_mr_ex(&parent.ibv, &attr), &the_mr);
	attr.comp_mask |= I;
	assert_null(ibv_reg_mr_ex(&parent.ibv, &attr));
	assert_int_equal(errno, EINVAL);
	ibv_free_buf(buf);
}

/* The descriptor refers to the same memory and outlives the buffer. */
static void exported_buffer(void **state)
{
	struct ibv_buf *buf;
	char *mem = ibv_alloc_buf(&plain.ibv, 5000, &buf), byte = 0;
	int fd = ibv_export_buf_dmabuf_fd(buf);

	assert_int_equal(fd, -1);
	assert_int_equal(errno, ENODATA);
	ibv_free_buf(buf);
	mem = ibv_alloc_buf(&parent.ibv, 5000, &buf);
	fd = ibv_export_buf_dmabuf_fd(buf);

	assert_true(fd >= 0);
	mem[4999] = 42;
	ibv_free_buf(buf);
	assert_int_equal(pread(fd, &byte, 1, 4999), 1);
	assert_int_equal(byte, 42);
	close(fd);
}

static void dma_handles(void **state)
{
	const struct {
		struct ibv_dmah_init_attr attr;
		int error;
	} rows[] = {
		{ { .comp_mask = 0 }, 0 },
		{ { .comp_mask = 7,
		    .cpu_id = (uint32_t)sched_getcpu(),
		    .ph = 3,
		    .tph_mem_type = IBV_TPH_MEM_TYPE_PM },
		  0 },
		{ { .comp_mask = IBV_DMAH_INIT_ATTR_MASK_PH, .ph = 4 }, EINVAL },
		{ { .comp_mask = 0, .ph = 4 }, 0 },
		{ { .comp_mask = IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE, .tph_mem_type = 2 },
		  EINVAL },
		{ { .comp_mask = IBV_DMAH_INIT_ATTR_MASK_CPU_ID, .cpu_id = 1 << 20 }, EPERM },
		{ { .comp_mask = 0, .cpu_id = 1 << 20 }, 0 },
		{ { .comp_mask = 8 }, EOPNOTSUPP },
	};
	struct ibv_mr_init_attr attr = { .comp_mask = A | D, .addr = &seen, .length = 1 };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_dmah_init_attr init = rows[i].attr;
		struct ibv_dmah *dmah = ibv_alloc_dmah(&ctx, &init);

		if (rows[i].error) {
			assert_null(dmah);
			assert_int_equal(errno, rows[i].error);
			continue;
		}
		assert_ptr_equal(dmah->context, &ctx);
		assert_int_equal(ibv_dealloc_dmah(dmah), 0);
	}

	/* A handle of another device, or an invalid one, is refused for this PD. */
	attr.dmah = &(struct ibv_dmah){ .context = &other_ctx };
	assert_null(ibv_reg_mr_ex(&plain.ibv, &attr));
	assert_int_equal(errno, EINVAL);
	attr.dmah = &(struct ibv_dmah){ .context = &ctx };
	attr.access = IBV_ACCESS_ON_DEMAND;
	assert_null(ibv_reg_mr_ex(&plain.ibv, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	attr.dmah = NULL;
	assert_null(ibv_reg_mr_ex(&plain.ibv, &attr));
	assert_int_equal(errno, EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(combinations),
		cmocka_unit_test(buffer_bounds),
		cmocka_unit_test(dmabuf_buffer),
		cmocka_unit_test(exported_buffer),
		cmocka_unit_test(dma_handles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
