/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The WRITE without a request that rsockets use, from the library's private interface: it takes
 * place where an RDMA WRITE would, and at once, or not at all. By UDP it never does.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "world.h"

enum {
	LEN = 100000,
	PAGE = 4096,
	MAPPED = 20,	/* more WRITEs than it takes for a region to be mapped */
};

static bool (*write_direct)(struct ibv_qp *qp, const void *buf, size_t len, uint64_t remote_addr,
			    uint32_t rkey, bool past);
static bool local, past;
static struct world w;
static struct buffer dst;
static struct ibv_cq *cq_a, *cq_b;
static struct ibv_qp *a, *b;
static uint8_t src[LEN];

static void open_pair(void)
{
	cq_a = world_cq(&w, 16);
	cq_b = world_cq(&w, 16);
	a = world_qp(&w, IBV_QPT_RC, cq_a, NULL);
	b = world_qp(&w, IBV_QPT_RC, cq_b, NULL);
}

/* The first request shows that the peer is on this host. */
static void connect_pair(void)
{
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 1, NULL, &dst, 0);

	world_connect(&w, a, b);
	wr.num_sge = 0;
	world_post(a, &wr);
	world_expect(cq_a, 1, IBV_WC_SUCCESS);
}

static bool write_at(size_t offset, const uint8_t *from, size_t len)
{
	return write_direct(a, from, len, (uintptr_t)dst.data + offset, dst.mr->rkey, past);
}

static void set(uint8_t value)
{
	memset(src, value, LEN);
	memset(dst.data, 0xff, LEN);
}

static void want_untouched(void)
{
	for (int i = 0; i < LEN; i++)
		CHECK_EQ(dst.data[i], 0xff);
}

static void test_data(void)
{
	static const size_t lens[] = { 1, 7, 8, 9, 4096, 65536, LEN };

	for (int n = 0; n < MAPPED; n++) {
		size_t len = lens[n % 7], at = (LEN - len) / 3;

		set((uint8_t)n);
		CHECK_EQ(write_at(at, src, len), local);
		for (size_t i = 0; i < LEN; i++)
			CHECK_EQ(dst.data[i], local && i >= at && i < at + len ? n : 0xff);
	}
}

static void test_refused(void)
{
	uint8_t *none = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(none != MAP_FAILED);
	set(1);
	CHECK(!write_at(1, src, LEN));
	CHECK(!write_at(0, src, 0));
	CHECK(!write_at(0, none, PAGE));
	CHECK(!write_direct(a, src, 8, (uintptr_t)dst.data, dst.mr->rkey ^ 0x5500, past));
	want_untouched();
	CHECK(munmap(none, PAGE) == 0);
}

/* It neither waits for requests in flight nor completes them. */
static void test_beside(void)
{
	struct buffer in = world_buffer(&w, 8, WORLD_ACCESS);

	set(2);
	world_send(a, 3, world_sge(&in, 0, 8));
	CHECK_EQ(write_at(0, src, LEN), local);
	world_recv(b, 4, world_sge(&in, 0, 8));
	world_expect(cq_b, 4, IBV_WC_SUCCESS);
	world_expect(cq_a, 3, IBV_WC_SUCCESS);
	world_free(&in);
}

static void test_states(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	set(3);
	CHECK_EQ(ibv_modify_qp(b, &attr, IBV_QP_STATE), 0);
	CHECK(!write_at(0, src, 8));
	CHECK_EQ(ibv_modify_qp(a, &attr, IBV_QP_STATE), 0);
	CHECK(!write_at(0, src, 8));
	want_untouched();
	world_destroy_pair(a, b, cq_a, cq_b);
	open_pair();
	CHECK(!write_at(0, src, 8));
	world_destroy_pair(a, b, cq_a, cq_b);
}

int main(void)
{
	const char *transport = getenv("VERBENA_TRANSPORT");
	void *symbol = dlsym(RTLD_DEFAULT, "vrb_write_direct");

	CHECK(symbol);
	memcpy(&write_direct, &symbol, sizeof(symbol));
	local = !transport || strcmp(transport, "udp") != 0;
	world_open(&w);
	dst = world_buffer(&w, LEN, WORLD_ACCESS);
	open_pair();
	CHECK(!write_at(0, src, 8));
	connect_pair();
	test_data();
	past = true;
	test_data();
	test_refused();
	test_beside();
	test_states();
	world_free(&dst);
	world_close(&w);
	return 0;
}
