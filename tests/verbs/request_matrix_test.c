/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work requests cell by cell: QP type x opcode x flag x state x size x access right, each with the
 * errno of the post or the status of the completion. The expected values are tables from
 * ibv_post_send(3) and IBTA volume 1, 9.7.4 and 10.6, not taken from the library.
 */
#include <errno.h>

#include "world.h"

enum {
	OPCODES = IBV_WR_ATOMIC_WRITE + 2,	/* and one that does not exist */
	MEM = 16384,
	HALF = MEM / 2,
	UD_MTU = 4096,
	INLINE = 64,	/* of world_qp() */
	PATTERN = 0x5a,
};

enum { RC = 1, UC = 2, UD = 4, XS = 8, RAW = 16 };

static const struct kind {
	enum ibv_qp_type type;
	int bit;
	const char *name;
} kinds[] = {
	{ IBV_QPT_RC, RC, "RC" },
	{ IBV_QPT_UC, UC, "UC" },
	{ IBV_QPT_UD, UD, "UD" },
	{ IBV_QPT_XRC_SEND, XS, "XRC" },
	{ IBV_QPT_RAW_PACKET, RAW, "raw packet" },
};

/*
 * ibv_post_send(3): which QP types support which opcode. FLUSH and ATOMIC WRITE are for ibv_wr_*
 * only; TSO needs a QP created for it.
 */
static const struct op {
	int types;
	bool inlines;	/* it can have inline data */
	bool atomic;
} ops[OPCODES] = {
	[IBV_WR_RDMA_WRITE] = { RC | UC | XS, true, false },
	[IBV_WR_RDMA_WRITE_WITH_IMM] = { RC | UC | XS, true, false },
	[IBV_WR_SEND] = { RC | UC | UD | XS | RAW, true, false },
	[IBV_WR_SEND_WITH_IMM] = { RC | UC | UD | XS, true, false },
	[IBV_WR_RDMA_READ] = { RC | XS, false, false },
	[IBV_WR_ATOMIC_CMP_AND_SWP] = { RC | XS, false, true },
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = { RC | XS, false, true },
	[IBV_WR_LOCAL_INV] = { RC | UC | XS, true, false },
	[IBV_WR_BIND_MW] = { RC | UC | XS, true, false },
	[IBV_WR_SEND_WITH_INV] = { RC | UC | XS, true, false },
};

struct bench {
	struct world w;
	struct ibv_cq *cq;
	struct ibv_ah *ah;
	struct buffer mem;	/* the requester's half, then the responder's */
	unsigned int cells;
};

static void open_bench(struct bench *b)
{
	struct ibv_ah_attr ah = { .is_global = 1, .port_num = 1 };

	memset(b, 0, sizeof(*b));
	world_open(&b->w);
	ah.grh = (struct ibv_global_route){ .dgid = b->w.gid, .sgid_index = b->w.gid_index,
					    .hop_limit = 4 };
	b->cq = world_cq(&b->w, 128);
	b->mem = world_buffer(&b->w, MEM, WORLD_ACCESS);
	b->ah = ibv_create_ah(b->w.pd, &ah);
	CHECK(b->ah);
}

static void close_bench(struct bench *b)
{
	CHECK_EQ(ibv_destroy_ah(b->ah), 0);
	CHECK_EQ(ibv_destroy_cq(b->cq), 0);
	world_free(&b->mem);
	world_close(&b->w);
}

static struct ibv_send_wr request(struct bench *b, const struct kind *k, int opcode,
				  struct ibv_sge *sge, uint32_t qpn)
{
	struct ibv_send_wr wr = {
		.wr_id = 1,
		.sg_list = sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
	};

	*sge = world_sge(&b->mem, 0, 8);
	if (k->type == IBV_QPT_UD) {
		wr.wr.ud.ah = b->ah;
		wr.wr.ud.remote_qpn = qpn;
		wr.wr.ud.remote_qkey = WORLD_QKEY;
	} else if (opcode < OPCODES && ops[opcode].atomic) {
		wr.wr.atomic.remote_addr = (uintptr_t)b->mem.data + HALF;
		wr.wr.atomic.rkey = b->mem.mr->rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)b->mem.data + HALF;
		wr.wr.rdma.rkey = b->mem.mr->rkey;
	}
	return wr;
}

static void post(struct bench *b, struct ibv_qp *qp, struct ibv_send_wr *wr, int want,
		 const char *what)
{
	struct ibv_send_wr *bad = NULL;
	int got = ibv_post_send(qp, wr, &bad);

	if (got != want)
		printf("%s: opcode %d, flags 0x%x, %d SGE of %u: %d, wanted %d\n", what, wr->opcode,
		       wr->send_flags, wr->num_sge, wr->sg_list->length, got, want);
	CHECK_EQ(got, want);
	CHECK(want ? bad == wr : !bad);
	b->cells++;
}

/*
 * An opcode that no QP type supports is refused; one that other types support is posted and fails
 * in execution.
 */
static bool is_posted(int op)
{
	return ops[op].types != 0;
}

/*
 * Type x opcode x flag, in ERR: supported requests are posted and flushed, others are refused.
 * Flags without meaning are ignored.
 */
static void flags_by_opcode(struct bench *b, const struct kind *k)
{
	static const unsigned int flags[] = { 0, IBV_SEND_FENCE, IBV_SEND_SIGNALED,
					      IBV_SEND_SOLICITED, IBV_SEND_INLINE,
					      IBV_SEND_IP_CSUM, 1 << 5, 1u << 31 };
	struct ibv_qp *qp = world_qp(&b->w, k->type, b->cq, NULL);

	world_connect(&b->w, qp, qp);
	world_move(&b->w, qp, IBV_QPS_ERR, 0);
	for (int op = 0; op < OPCODES; op++) {
		for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
			struct ibv_sge sge;
			struct ibv_send_wr wr = request(b, k, op, &sge, qp->qp_num);
			bool ok = is_posted(op);

			wr.send_flags = flags[i];
			if (flags[i] == IBV_SEND_INLINE && (ops[op].types & k->bit))
				ok = ops[op].inlines;
			post(b, qp, &wr, ok ? 0 : EINVAL, k->name);
			if (ok)
				world_expect(b->cq, 1, IBV_WC_WR_FLUSH_ERR);
		}
	}
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

/* Type x opcode x state. */
static void states_by_opcode(struct bench *b, const struct kind *k)
{
	static const enum ibv_qp_state states[] = { IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
						    IBV_QPS_SQD };

	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		struct ibv_qp *qp = world_qp(&b->w, k->type, b->cq, NULL);
		enum ibv_qp_state last = states[i] == IBV_QPS_SQD ? IBV_QPS_RTS : states[i];

		for (enum ibv_qp_state s = IBV_QPS_INIT; s <= last; s++)
			world_move(&b->w, qp, s, qp->qp_num);
		if (states[i] == IBV_QPS_SQD)
			world_move(&b->w, qp, IBV_QPS_SQD, 0);
		for (int op = 0; op < OPCODES; op++) {
			struct ibv_sge sge;
			struct ibv_send_wr wr = request(b, k, op, &sge, qp->qp_num);
			bool ok = states[i] == IBV_QPS_SQD && is_posted(op);

			post(b, qp, &wr, ok ? 0 : EINVAL, k->name);
		}
		CHECK_EQ(ibv_destroy_qp(qp), 0);
	}
}

/*
 * Type x opcode x size, executed: EINVAL, or success. An atomic transfers eight bytes whatever the
 * lengths of its list, unless they are 0; that and a datagram longer than the MTU fail in
 * execution, see completion_error_test.c.
 */
static void sizes_by_opcode(struct bench *b, const struct kind *k)
{
	static const uint32_t sizes[] = { 0, 1, 7, 8, 9, INLINE, INLINE + 1, UD_MTU, UD_MTU + 1 };
	struct ibv_qp *qp = world_qp(&b->w, k->type, b->cq, NULL);
	struct ibv_wc wc[2];

	world_connect(&b->w, qp, qp);
	for (int op = 0; op <= IBV_WR_ATOMIC_FETCH_AND_ADD; op++) {
		if (!(ops[op].types & k->bit))
			continue;
		for (size_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
			bool inlined = i % 2, recv = op == IBV_WR_SEND ||
						     op == IBV_WR_SEND_WITH_IMM ||
						     op == IBV_WR_RDMA_WRITE_WITH_IMM;
			struct ibv_sge sge;
			struct ibv_send_wr wr = request(b, k, op, &sge, qp->qp_num);
			bool ok = true;

			sge.length = sizes[i / 2];
			if ((ops[op].atomic && !sge.length) ||
			    (k->type == IBV_QPT_UD && sge.length > UD_MTU))
				continue;
			if (inlined) {
				wr.send_flags |= IBV_SEND_INLINE;
				ok = ops[op].inlines && sge.length <= INLINE;
			}
			if (ok && recv)
				world_recv(qp, 2, world_sge(&b->mem, HALF, HALF));
			post(b, qp, &wr, ok ? 0 : EINVAL, k->name);
			if (!ok)
				continue;
			world_poll(b->cq, wc, recv ? 2 : 1);
			for (int n = 0; n < (recv ? 2 : 1); n++)
				CHECK_EQ(wc[n].status, IBV_WC_SUCCESS);
		}
	}
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

/* SGE counts that every request is refused with. */
static void lists_are_bounded(struct bench *b, const struct kind *k)
{
	struct ibv_qp *qp = world_qp(&b->w, k->type, b->cq, NULL);
	struct ibv_sge sge[5];
	struct ibv_send_wr wr = request(b, k, IBV_WR_SEND, sge, qp->qp_num);
	static const int counts[] = { -1, 5, INT32_MAX, INT32_MIN };

	world_connect(&b->w, qp, qp);
	world_move(&b->w, qp, IBV_QPS_ERR, 0);
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		wr.num_sge = counts[i];
		post(b, qp, &wr, EINVAL, k->name);
	}
	wr.num_sge = 1;
	wr.sg_list = NULL;
	CHECK(ibv_post_send(qp, &wr, &(struct ibv_send_wr *){ NULL }) == EINVAL);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

/* Flaws of a key or of the range it is used for. */
enum flaw {
	NONE,
	RIGHTS,		/* the region lacks the access right */
	QP_RIGHTS,	/* the responder's QP lacks it */
	OTHER_PD,
	DEAD,		/* deregistered */
	OTHER_TAG,	/* the low bits of the key are wrong */
	BEFORE,		/* begins one byte (atomics: eight) too early */
	BEYOND,		/* ends as much too late */
	WRAPS,		/* address + length overflows */
	FLAWS
};

struct target {
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	uint8_t *mem;
	uint32_t lkey, rkey;
};

/* 64 bytes in the middle of a page of their own, whose contents tell whether they were written. */
static struct target make_target(struct bench *b, enum flaw flaw, int rights)
{
	struct target v = { .mem = aligned_alloc(64, 192) };

	CHECK(v.mem);
	memset(v.mem, PATTERN, 192);
	if (flaw == OTHER_PD)
		v.pd = ibv_alloc_pd(b->w.ctx);
	v.mr = ibv_reg_mr(v.pd ? v.pd : b->w.pd, v.mem + 64, 64, flaw == RIGHTS ? 0 : rights);
	CHECK(v.mr);
	v.lkey = v.mr->lkey ^ (flaw == OTHER_TAG);
	v.rkey = v.mr->rkey ^ (flaw == OTHER_TAG);
	if (flaw == DEAD) {
		CHECK_EQ(ibv_dereg_mr(v.mr), 0);
		v.mr = NULL;
	}
	return v;
}

static void free_target(struct target *v)
{
	if (v->mr)
		CHECK_EQ(ibv_dereg_mr(v->mr), 0);
	if (v->pd)
		CHECK_EQ(ibv_dealloc_pd(v->pd), 0);
	free(v->mem);
}

static uint64_t flawed_address(const struct target *v, enum flaw flaw, uint32_t step)
{
	uint64_t at = (uintptr_t)v->mem + 64;

	switch (flaw) {
	case BEFORE:
		return at - step;
	case BEYOND:
		return at + 64 - 8 + step;
	case WRAPS:
		return UINT64_MAX - 7;
	default:
		return at;
	}
}

static void expect_untouched(const struct target *v)
{
	for (int i = 0; i < 192; i++)
		CHECK_EQ(v->mem[i], PATTERN);
}

static void take_right(struct ibv_qp *qp, int rights)
{
	struct ibv_qp_attr attr = { .qp_access_flags = rights };

	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_ACCESS_FLAGS), 0);
}

static const struct {
	enum ibv_wr_opcode opcode;
	int right;
	uint32_t step;
} remote_ops[] = {
	{ IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE, 1 },
	{ IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ, 1 },
	{ IBV_WR_ATOMIC_CMP_AND_SWP, IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE, 8 },
	{ IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE, 8 },
};

/*
 * RC: opcode x flaw of the remote key. IBTA 9.7.4.1.5: an R_Key violation is a remote access error;
 * an operation that is not enabled is an invalid request.
 */
static void remote_cell(struct bench *b, int row, enum flaw flaw)
{
	struct ibv_qp *a = world_qp(&b->w, IBV_QPT_RC, b->cq, NULL);
	struct ibv_qp *r = world_qp(&b->w, IBV_QPT_RC, b->cq, NULL);
	int right = remote_ops[row].right & ~IBV_ACCESS_LOCAL_WRITE;
	struct target v = make_target(b, flaw, remote_ops[row].right);
	struct ibv_sge sge = world_sge(&b->mem, 0, 8);
	struct ibv_send_wr wr = world_rdma(remote_ops[row].opcode, 1, &sge, &b->mem, 0);
	enum ibv_wc_status want = flaw == NONE        ? IBV_WC_SUCCESS
				  : flaw == QP_RIGHTS ? IBV_WC_REM_INV_REQ_ERR
						      : IBV_WC_REM_ACCESS_ERR;
	uint64_t at = flawed_address(&v, flaw, remote_ops[row].step);

	world_connect(&b->w, a, r);
	if (flaw == QP_RIGHTS)
		take_right(r, (WORLD_ACCESS & ~right));
	if (remote_ops[row].step == 8) {
		wr.wr.atomic.remote_addr = at;
		wr.wr.atomic.rkey = v.rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = at;
		wr.wr.rdma.rkey = v.rkey;
	}
	world_post(a, &wr);
	world_expect(b->cq, 1, want);
	if (flaw != NONE)
		expect_untouched(&v);
	b->cells++;
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(r), 0);
	free_target(&v);
}

/* RC: opcode x flaw of the requester's own SGE list. */
static void local_cell(struct bench *b, enum ibv_wr_opcode opcode, bool writes, enum flaw flaw)
{
	struct ibv_qp *a = world_qp(&b->w, IBV_QPT_RC, b->cq, NULL);
	struct ibv_qp *r = world_qp(&b->w, IBV_QPT_RC, b->cq, NULL);
	struct target v = make_target(b, flaw, writes ? IBV_ACCESS_LOCAL_WRITE : 0);
	struct ibv_sge sge = { flawed_address(&v, flaw, 1), 8, v.lkey };
	struct ibv_send_wr wr = world_rdma(opcode, 1, &sge, &b->mem, HALF);
	bool fine = flaw == NONE || (flaw == RIGHTS && !writes);

	memset(b->mem.data + HALF, 0, 64);
	world_connect(&b->w, a, r);
	world_post(a, &wr);
	world_expect(b->cq, 1, fine ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR);
	if (!fine)
		expect_untouched(&v);
	b->cells++;
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(r), 0);
	free_target(&v);
}

static void keys_by_opcode(struct bench *b)
{
	for (size_t row = 0; row < sizeof(remote_ops) / sizeof(remote_ops[0]); row++)
		for (enum flaw flaw = NONE; flaw < FLAWS; flaw++)
			remote_cell(b, row, flaw);
	for (enum flaw flaw = NONE; flaw < FLAWS; flaw++) {
		if (flaw == QP_RIGHTS)
			continue;
		local_cell(b, IBV_WR_RDMA_WRITE, false, flaw);
		local_cell(b, IBV_WR_RDMA_READ, true, flaw);
		local_cell(b, IBV_WR_ATOMIC_FETCH_AND_ADD, true, flaw);
	}
}

/* Steers frames with this destination address to the QP. */
static struct ibv_flow *steer(struct ibv_qp *qp, const uint8_t mac[6])
{
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
	} rule = {
		.attr = { .type = IBV_FLOW_ATTR_NORMAL,
			  .size = sizeof(rule),
			  .num_of_specs = 1,
			  .port = 1 },
		.eth = { .type = IBV_FLOW_SPEC_ETH, .size = sizeof(rule.eth) },
	};
	struct ibv_flow *flow;

	memcpy(rule.eth.val.dst_mac, mac, 6);
	memset(rule.eth.mask.dst_mac, 0xff, 6);
	flow = ibv_create_flow(qp, &rule.attr);
	CHECK(flow);
	return flow;
}

/* Raw packet: the flaw is in the list of the send or of the receive. */
static void raw_cell(struct bench *b, bool receives, enum flaw flaw)
{
	static const uint8_t mac[6] = { 2, 0, 0, 0x56, 0x78, 1 };
	struct ibv_qp *a = world_qp(&b->w, IBV_QPT_RAW_PACKET, b->cq, NULL);
	struct ibv_qp *r = world_qp(&b->w, IBV_QPT_RAW_PACKET, b->cq, NULL);
	struct target v = make_target(b, flaw, receives ? IBV_ACCESS_LOCAL_WRITE : 0);
	struct ibv_sge flawed = { flawed_address(&v, flaw, 1), 8, v.lkey };
	struct ibv_sge out[] = { world_sge(&b->mem, 0, 14), world_sge(&b->mem, 64, 8) };
	struct ibv_sge in[] = { world_sge(&b->mem, HALF, 14), world_sge(&b->mem, HALF + 64, 8) };
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = out, .num_sge = 2, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_recv_wr *bad, rwr = { .wr_id = 2, .sg_list = in, .num_sge = 2 };
	bool fine = flaw == NONE || (flaw == RIGHTS && !receives);
	struct ibv_flow *flow;

	(receives ? in : out)[1] = flawed;
	world_connect(&b->w, a, r);
	flow = steer(r, mac);
	memset(b->mem.data, 0, 128);
	memcpy(b->mem.data, mac, 6);
	CHECK_EQ(ibv_post_recv(r, &rwr, &bad), 0);
	world_post(a, &wr);
	if (!receives && !fine) {
		world_expect(b->cq, 1, IBV_WC_LOC_PROT_ERR);
	} else {
		struct ibv_wc wc[2];

		world_poll(b->cq, wc, 2);
		for (int i = 0; i < 2; i++)
			CHECK_EQ(wc[i].status, wc[i].wr_id == 1 || fine ? IBV_WC_SUCCESS :
									   IBV_WC_LOC_PROT_ERR);
	}
	if (!fine || !receives)
		expect_untouched(&v);
	b->cells++;
	CHECK_EQ(ibv_destroy_flow(flow), 0);
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(r), 0);
	free_target(&v);
}

static void raw_keys(struct bench *b)
{
	for (enum flaw flaw = NONE; flaw < FLAWS; flaw++) {
		if (flaw == QP_RIGHTS)
			continue;
		raw_cell(b, false, flaw);
		raw_cell(b, true, flaw);
	}
}

int main(void)
{
	struct bench b;

	setenv("VERBENA_RAW", "virtual", 0);
	open_bench(&b);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		flags_by_opcode(&b, &kinds[i]);
		states_by_opcode(&b, &kinds[i]);
		lists_are_bounded(&b, &kinds[i]);
		if (!(kinds[i].bit & (XS | RAW)))
			sizes_by_opcode(&b, &kinds[i]);
	}
	keys_by_opcode(&b);
	raw_keys(&b);
	printf("%u cells\n", b.cells);
	close_bench(&b);
	return 0;
}
