/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verbs added after release 44: registration of every kind of memory, and capabilities that this
 * device reports as unsupported.
 */
#include <errno.h>
#include <unistd.h>

#include "world.h"

static struct world w;
static struct ibv_cq *cq;
static struct ibv_qp *a, *b;
static struct buffer src;

/* Writes 100 bytes through a region's rkey and expects them at `memory`. */
static void write_through(struct ibv_mr *mr, uint64_t iova, const void *memory)
{
	struct ibv_sge sge = world_sge(&src, 0, 100);
	struct ibv_send_wr wr = {
		.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};

	for (int i = 0; i < 100; i++)
		src.data[i]++;
	wr.wr.rdma.remote_addr = iova;
	wr.wr.rdma.rkey = mr->rkey;
	world_post(a, &wr);
	world_expect(cq, 1, IBV_WC_SUCCESS);
	CHECK_MEM(memory, src.data, 100);
}

static void test_reg_mr_ex(void)
{
	struct ibv_dmah_init_attr dmah_attr = {
		.comp_mask = IBV_DMAH_INIT_ATTR_MASK_CPU_ID,
		.cpu_id = (uint32_t)sched_getcpu(),
	};
	struct ibv_dmah *dmah = ibv_alloc_dmah(w.ctx, &dmah_attr);
	uint8_t memory[256];
	const uint64_t iova = (uintptr_t)memory ^ 0x1234567800000000;
	struct ibv_mr_init_attr attr = {
		.length = sizeof(memory), .access = WORLD_ACCESS, .addr = memory, .iova = iova,
		.comp_mask = IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_DMAH, .dmah = dmah,
	};
	struct ibv_mr *mr;

	CHECK(dmah);
	mr = ibv_reg_mr_ex(w.pd, &attr);
	CHECK(mr);
	write_through(mr, (uintptr_t)memory, memory);
	CHECK_EQ(ibv_dereg_mr(mr), 0);

	attr.comp_mask |= IBV_REG_MR_MASK_IOVA;
	mr = ibv_reg_mr_ex(w.pd, &attr);
	CHECK(mr);
	write_through(mr, iova + 7, memory + 7);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK_EQ(ibv_dealloc_dmah(dmah), 0);
}

static void test_buffers(void)
{
	struct ibv_parent_domain_init_attr parent = { .pd = w.pd };
	struct ibv_pd *pd = ibv_alloc_parent_domain(w.ctx, &parent);
	struct ibv_buf *buf;
	uint8_t *memory = ibv_alloc_buf(w.pd, 8192, &buf);
	struct ibv_mr_init_attr attr = { .length = 4096, .access = WORLD_ACCESS, .iova = 0x101000 };
	struct ibv_mr *mr;

	CHECK(memory);
	mr = ibv_reg_buf_mr(w.pd, buf, memory + 4096, 4096, WORLD_ACCESS);
	CHECK(mr);
	write_through(mr, (uintptr_t)memory + 4096, memory + 4096);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK(!ibv_reg_buf_mr(w.pd, buf, memory + 4096, 4097, WORLD_ACCESS));
	CHECK_EQ(errno, EINVAL);
	CHECK_EQ(ibv_export_buf_dmabuf_fd(buf), -1);
	CHECK_EQ(errno, ENODATA);
	ibv_free_buf(buf);
	memory = ibv_alloc_buf(pd, 8192, &buf);
	CHECK(memory);

	/* The same pages again, through their file descriptor. */
	attr.comp_mask = IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET | IBV_REG_MR_MASK_IOVA;
	attr.fd = ibv_export_buf_dmabuf_fd(buf);
	attr.fd_offset = 4096;
	CHECK(attr.fd >= 0);
	mr = ibv_reg_mr_ex(w.pd, &attr);
	CHECK(mr);
	CHECK_EQ(close(attr.fd), 0);
	/* the offset into the page is the same for every page size */
	write_through(mr, 0x101000, memory + 4096);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	ibv_free_buf(buf);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
}

static void test_device_memory_as_file(void)
{
	struct ibv_alloc_dm_attr dm_attr = { .length = 4096 };
	struct ibv_dm *dm = ibv_alloc_dm(w.ctx, &dm_attr);
	uint8_t seen[100];
	struct ibv_mr *mr;
	int fd;

	CHECK(dm);
	fd = ibv_dm_export_dmabuf_fd(dm);
	CHECK(fd >= 0);
	mr = ibv_reg_dmabuf_mr(w.pd, 0, 4096, 0x30000, fd, WORLD_ACCESS);
	CHECK(mr);
	for (int i = 0; i < 100; i++)
		/* the bytes that write_through() will write */
		seen[i] = (uint8_t)(src.data[i] + 1);
	CHECK_EQ(ibv_memcpy_to_dm(dm, 0, seen, 100), 0);
	memset(seen, 0, sizeof(seen));
	CHECK_EQ(ibv_memcpy_from_dm(seen, dm, 0, 100), 0);
	write_through(mr, 0x30000, seen);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK_EQ(close(fd), 0);
	CHECK_EQ(ibv_free_dm(dm), 0);
}

static void test_port_speed(void)
{
	uint64_t speed = 0;

	CHECK_EQ(ibv_query_port_speed(w.ctx, 1, &speed), 0);
	CHECK(speed > 0);
	CHECK_EQ(ibv_query_port_speed(w.ctx, 2, &speed), EINVAL);
}

int main(void)
{
	world_open(&w);
	cq = world_cq(&w, 16);
	a = world_qp(&w, IBV_QPT_RC, cq, NULL);
	b = world_qp(&w, IBV_QPT_RC, cq, NULL);
	world_connect(&w, a, b);
	src = world_buffer(&w, 4096, WORLD_ACCESS);

	test_reg_mr_ex();
	test_buffers();
	test_device_memory_as_file();
	test_port_speed();

	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_free(&src);
	world_close(&w);
	return 0;
}
