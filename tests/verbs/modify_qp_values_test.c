/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every value of every attribute that ibv_modify_qp accepts for a connection. With each value the
 * connection must send, WRITE, READ, execute an atomic and complete. The first queue pair is ready
 * before the second one has a path, as in programs that connect one after the other.
 */
#include <string.h>

#include "world.h"

enum {
	SHORT = 64,
	/* several packets, or a payload that the receiver reads from the sender's memory */
	LONG = 5000,
	RD_ATOMIC = 16,
};

static struct world w;
static struct ibv_cq *cq;
static struct buffer src, dst;

static void set_timeout(struct ibv_qp_attr *a, uint32_t v) { a->timeout = v; }
static void set_retry_cnt(struct ibv_qp_attr *a, uint32_t v) { a->retry_cnt = v; }
static void set_rnr_retry(struct ibv_qp_attr *a, uint32_t v) { a->rnr_retry = v; }
static void set_min_rnr_timer(struct ibv_qp_attr *a, uint32_t v) { a->min_rnr_timer = v; }
static void set_max_rd_atomic(struct ibv_qp_attr *a, uint32_t v) { a->max_rd_atomic = v; }
static void set_max_dest_rd_atomic(struct ibv_qp_attr *a, uint32_t v) { a->max_dest_rd_atomic = v; }
static void set_path_mtu(struct ibv_qp_attr *a, uint32_t v) { a->path_mtu = v; }
static void set_psn(struct ibv_qp_attr *a, uint32_t v) { a->sq_psn = a->rq_psn = v; }
static void set_pkey_index(struct ibv_qp_attr *a, uint32_t v) { a->pkey_index = v; }
static void set_sl(struct ibv_qp_attr *a, uint32_t v) { a->ah_attr.sl = v; }
static void set_static_rate(struct ibv_qp_attr *a, uint32_t v) { a->ah_attr.static_rate = v; }
static void set_src_path_bits(struct ibv_qp_attr *a, uint32_t v) { a->ah_attr.src_path_bits = v; }
static void set_hop_limit(struct ibv_qp_attr *a, uint32_t v) { a->ah_attr.grh.hop_limit = v; }
static void set_traffic_class(struct ibv_qp_attr *a, uint32_t v)
{
	a->ah_attr.grh.traffic_class = v;
}
static void set_flow_label(struct ibv_qp_attr *a, uint32_t v) { a->ah_attr.grh.flow_label = v; }

static void set_dlid(struct ibv_qp_attr *a, uint32_t v)
{
	a->ah_attr.is_global = 0;
	a->ah_attr.dlid = v ? w.port.lid : 0;
}

/* The values first, first + step, ... last. */
static const struct sweep {
	const char *name;
	void (*set)(struct ibv_qp_attr *a, uint32_t value);
	uint32_t first, last, step;
} sweeps[] = {
	{ "timeout", set_timeout, 0, 31, 1 },
	{ "retry_cnt", set_retry_cnt, 0, 7, 1 },
	{ "rnr_retry", set_rnr_retry, 0, 7, 1 },
	{ "min_rnr_timer", set_min_rnr_timer, 0, 31, 1 },
	{ "max_rd_atomic", set_max_rd_atomic, 0, RD_ATOMIC, 1 },
	{ "max_dest_rd_atomic", set_max_dest_rd_atomic, 0, RD_ATOMIC, 1 },
	{ "path_mtu", set_path_mtu, IBV_MTU_256, IBV_MTU_4096, 1 },
	{ "psn", set_psn, 0, 3, 1 },
	{ "psn", set_psn, 0x7ffffd, 0x800001, 1 },
	{ "psn", set_psn, 0xfffffa, 0xffffff, 1 },
	{ "pkey_index", set_pkey_index, 0, 0, 1 },
	{ "sl", set_sl, 0, 15, 1 },
	{ "static_rate", set_static_rate, IBV_RATE_MAX, IBV_RATE_MAX, 1 },
	{ "static_rate", set_static_rate, IBV_RATE_2_5_GBPS, IBV_RATE_1200_GBPS, 1 },
	{ "src_path_bits", set_src_path_bits, 0, 127, 9 },
	{ "hop_limit", set_hop_limit, 0, 255, 1 },
	{ "traffic_class", set_traffic_class, 0, 255, 17 },
	{ "flow_label", set_flow_label, 0, 0xfffff, 0x3fff },
	{ "dlid", set_dlid, 1, 1, 1 },
};

/* Takes one side to RTS, with this value in every transition that has the attribute. */
static void bring_up(struct ibv_qp *qp, uint32_t peer, const struct sweep *s, uint32_t value)
{
	for (enum ibv_qp_state state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
		struct ibv_qp_attr attr;
		int mask = world_attr(&w, IBV_QPT_RC, state, peer, &attr);

		if (state == IBV_QPS_RTR)
			attr.max_dest_rd_atomic = RD_ATOMIC;
		s->set(&attr, value);
		CHECK_EQ(ibv_modify_qp(qp, &attr, mask), 0);
	}
}

static bool reads(const struct sweep *s, uint32_t value)
{
	return value > 0 || (s->set != set_max_rd_atomic && s->set != set_max_dest_rd_atomic);
}

static void send(struct ibv_qp *from, struct ibv_qp *to, uint32_t len)
{
	struct ibv_wc wc[2];

	world_recv(to, 1, world_sge(&dst, 0, LONG));
	world_send(from, 2, world_sge(&src, 0, len));
	world_poll(cq, wc, 2);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
	CHECK_MEM(dst.data, src.data, len);
	memset(dst.data, 0, len);
}

static void request(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t len)
{
	struct ibv_sge sge = world_sge(&src, 0, len);
	struct ibv_send_wr wr = world_rdma(opcode, 3, &sge, &dst, 0);

	world_post(qp, &wr);
	world_expect(cq, 3, IBV_WC_SUCCESS);
}

static void try(const struct sweep *s, uint32_t value)
{
	struct ibv_qp *a = world_qp(&w, IBV_QPT_RC, cq, NULL),
		      *b = world_qp(&w, IBV_QPT_RC, cq, NULL);

	printf("%s %u\n", s->name, value);
	bring_up(a, b->qp_num, s, value);
	bring_up(b, a->qp_num, s, value);
	send(a, b, SHORT);
	send(b, a, LONG);
	request(a, IBV_WR_RDMA_WRITE, LONG);
	CHECK_MEM(dst.data, src.data, LONG);
	if (reads(s, value)) {
		request(a, IBV_WR_RDMA_READ, LONG);
		CHECK_MEM(dst.data, src.data, LONG);
		request(a, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	}
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
}

int main(void)
{
	world_open(&w);
	cq = world_cq(&w, 16);
	src = world_buffer(&w, LONG, WORLD_ACCESS);
	dst = world_buffer(&w, LONG, WORLD_ACCESS);
	for (int i = 0; i < LONG; i++)
		src.data[i] = 1 + i % 251;
	for (size_t i = 0; i < sizeof(sweeps) / sizeof(sweeps[0]); i++)
		for (uint32_t v = sweeps[i].first; v <= sweeps[i].last; v += sweeps[i].step)
			try(&sweeps[i], v);
	world_free(&src);
	world_free(&dst);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_close(&w);
	return 0;
}
