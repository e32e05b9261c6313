/* SPDX-License-Identifier: BSD-2-Clause */
/* Work request checks: every QP type x opcode, and each limit from both sides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>

#include "core/device/ah.h"
#include "core/mem/pd.h"
#include "core/qp/wr_check.h"
#include "util/compiler.h"

enum {
	PDN = 7,
	MTU = 1024,
	MAX_MSG = 1 << 30,
	MAX_INLINE = 100,
	MAX_SGE = 4,
};

static struct vrb_pd pd = { .pdn = PDN }, other_pd = { .pdn = PDN + 1 };
static struct vrb_ah ah = { .ibv.pd = &pd.ibv, .magic = VRB_AH_MAGIC };

static struct wr_limits limits(enum ibv_qp_type type)
{
	return (struct wr_limits){
		.qp_type = type, .max_rd_atomic = 1, .max_sge = MAX_SGE, .max_inline = MAX_INLINE,
		.max_msg = MAX_MSG, .mtu = MTU, .pdn = PDN, .max_tso_header = 64,
	};
}

/* A valid request for the opcode, on the QP types that support it. */
static struct wr_desc right(uint32_t opcode)
{
	struct wr_desc d = { .opcode = opcode, .num_sge = 1, .length = 8, .ah = &ah };

	if (opcode == IBV_WR_LOCAL_INV || opcode == IBV_WR_BIND_MW || opcode == IBV_WR_FLUSH)
		d.num_sge = d.length = 0;
	if (opcode == IBV_WR_TSO) {
		d.mss = 500;
		d.tso_header = 54;
	}
	return d;
}

/*
 * The table of ibv_post_send(3), with Annex A19's operations. One letter per type: Rc Uc uD Xrc-
 * send raW.
 */
static const struct {
	uint32_t opcode;
	const char *types;
} legal[WR_OPCODES] = {
	{ IBV_WR_RDMA_WRITE, "RUX" },
	{ IBV_WR_RDMA_WRITE_WITH_IMM, "RUX" },
	{ IBV_WR_SEND, "RUDXW" },
	{ IBV_WR_SEND_WITH_IMM, "RUDX" },
	{ IBV_WR_RDMA_READ, "RX" },
	{ IBV_WR_ATOMIC_CMP_AND_SWP, "RX" },
	{ IBV_WR_ATOMIC_FETCH_AND_ADD, "RX" },
	{ IBV_WR_LOCAL_INV, "RUX" },
	{ IBV_WR_BIND_MW, "RUX" },
	{ IBV_WR_SEND_WITH_INV, "RUX" },
	{ IBV_WR_TSO, "DW" },
	{ IBV_WR_DRIVER1, "" },
	{ 12, "" },
	{ 13, "" },
	{ IBV_WR_FLUSH, "RX" },
	{ IBV_WR_ATOMIC_WRITE, "RX" },
};

static const struct {
	enum ibv_qp_type type;
	char letter;
} qp_types[] = {
	{ IBV_QPT_RC, 'R' },	   { IBV_QPT_UC, 'U' },	       { IBV_QPT_UD, 'D' },
	{ IBV_QPT_XRC_SEND, 'X' }, { IBV_QPT_RAW_PACKET, 'W' }, { IBV_QPT_XRC_RECV, '-' },
	{ IBV_QPT_DRIVER, '-' },
};

static bool has(const char *s, char c)
{
	for (; *s; s++)
		if (*s == c)
			return true;
	return false;
}

/*
 * An opcode of other types fails in execution; one of no type, or on a QP that sends nothing, fails
 * when it is posted.
 */
static enum reason unfit(char type, const char *types)
{
	return type == '-' || !types[0] ? REASON_WR_UNKNOWN : REASON_WR_OPCODE;
}

static void test_every_type_and_opcode(void **state)
{
	for (size_t t = 0; t < ARRAY_SIZE(qp_types); t++) {
		struct wr_limits l = limits(qp_types[t].type);

		for (size_t o = 0; o < ARRAY_SIZE(legal); o++) {
			struct wr_desc d = right(legal[o].opcode);
			bool want = has(legal[o].types, qp_types[t].letter);

			assert_int_equal(wr_opcode_legal(qp_types[t].type, legal[o].opcode), want);
			assert_int_equal(wr_check_send(&l, &d),
					 want ? REASON_NONE
					      : unfit(qp_types[t].letter, legal[o].types));
		}
	}
	assert_false(wr_opcode_legal(IBV_QPT_RC, WR_OPCODES));
	assert_false(wr_opcode_legal(IBV_QPT_RC, UINT32_MAX));
}

/* Inline data is meaningful where data is sent. */
static void test_inline_by_opcode(void **state)
{
	struct wr_limits l = limits(IBV_QPT_RC);
	static const char allowed[] = { [IBV_WR_RDMA_WRITE] = 1, [IBV_WR_RDMA_WRITE_WITH_IMM] = 1,
					[IBV_WR_SEND] = 1, [IBV_WR_SEND_WITH_IMM] = 1,
					[IBV_WR_SEND_WITH_INV] = 1, [IBV_WR_LOCAL_INV] = 1,
					[IBV_WR_BIND_MW] = 1, [IBV_WR_ATOMIC_WRITE] = 1 };

	for (size_t o = 0; o < ARRAY_SIZE(legal); o++) {
		struct wr_desc d = right(legal[o].opcode);

		if (!has(legal[o].types, 'R'))
			continue;
		d.inline_data = true;
		assert_int_equal(wr_check_send(&l, &d),
				 allowed[legal[o].opcode] ? REASON_NONE : REASON_WR_FLAGS);
	}
}

struct row {
	const char *name;
	enum ibv_qp_type type;
	uint32_t opcode;
	struct wr_desc with;	/* differences from right(); see apply() */
	enum reason why;
	/* errno of posting; 0: the request executes, and its completion reports the error */
	int error;
};

/*
 * Nonzero members of `with` replace those of d. UINT32_MAX in num_sge, length and mss stands for
 * zero.
 */
static void apply(struct wr_desc *d, const struct wr_desc *with)
{
	if (with->num_sge)
		d->num_sge = with->num_sge == UINT32_MAX ? 0 : with->num_sge;
	if (with->inline_data)
		d->inline_data = true;
	if (with->length)
		d->length = with->length == UINT32_MAX ? 0 : with->length;
	if (with->mss)
		d->mss = with->mss == UINT32_MAX ? 0 : with->mss;
	if (with->tso_header)
		d->tso_header = with->tso_header;
}

static const struct row rows[] = {
	{ "most SGEs", IBV_QPT_RC, IBV_WR_SEND, { .num_sge = MAX_SGE }, REASON_NONE },
	{ "one SGE more",
	  IBV_QPT_RC,
	  IBV_WR_SEND,
	  { .num_sge = MAX_SGE + 1 },
	  REASON_WR_SGE_COUNT,
	  EINVAL },
	{ "inline buffers are not SGEs",
	  IBV_QPT_RC,
	  IBV_WR_SEND,
	  { .inline_data = true, .num_sge = 50 },
	  REASON_NONE },
	{ "most inline",
	  IBV_QPT_RC,
	  IBV_WR_SEND,
	  { .inline_data = true, .length = MAX_INLINE },
	  REASON_NONE },
	{ "one inline byte more",
	  IBV_QPT_RC,
	  IBV_WR_SEND,
	  { .inline_data = true, .length = MAX_INLINE + 1 },
	  REASON_WR_INLINE_SIZE,
	  EINVAL },
	{ "inline data of a READ",
	  IBV_QPT_RC,
	  IBV_WR_RDMA_READ,
	  { .inline_data = true },
	  REASON_WR_FLAGS,
	  EINVAL },
	{ "longest message", IBV_QPT_RC, IBV_WR_SEND, { .length = MAX_MSG }, REASON_NONE },
	{ "one byte more", IBV_QPT_RC, IBV_WR_SEND, { .length = MAX_MSG + 1 }, REASON_WR_TOO_LONG },
	{ "beyond 32 bits", IBV_QPT_UC, IBV_WR_SEND, { .length = 1ull << 32 }, REASON_WR_TOO_LONG },
	{ "longest read",
	  IBV_QPT_RC,
	  IBV_WR_RDMA_READ,
	  { .length = MAX_MSG + 1 },
	  REASON_WR_TOO_LONG },
	{ "longest flush",
	  IBV_QPT_RC,
	  IBV_WR_FLUSH,
	  { .length = MAX_MSG + 1 },
	  REASON_WR_TOO_LONG },
	{ "flush of a range", IBV_QPT_RC, IBV_WR_FLUSH, { .length = MAX_MSG }, REASON_NONE },
	{ "flush with data",
	  IBV_QPT_RC,
	  IBV_WR_FLUSH,
	  { .num_sge = 1 },
	  REASON_WR_SGE_COUNT,
	  EINVAL },
	{ "atomic of nothing",
	  IBV_QPT_RC,
	  IBV_WR_ATOMIC_FETCH_AND_ADD,
	  { .length = UINT32_MAX },
	  REASON_WR_ATOMIC_SIZE },
	{ "atomic of seven",
	  IBV_QPT_RC,
	  IBV_WR_ATOMIC_FETCH_AND_ADD,
	  { .length = 7 },
	  REASON_NONE },
	{ "atomic of sixteen",
	  IBV_QPT_RC,
	  IBV_WR_ATOMIC_CMP_AND_SWP,
	  { .length = 16 },
	  REASON_NONE },
	{ "atomic in two pieces",
	  IBV_QPT_RC,
	  IBV_WR_ATOMIC_CMP_AND_SWP,
	  { .num_sge = 2 },
	  REASON_NONE },
	{ "whole datagram", IBV_QPT_UD, IBV_WR_SEND, { .length = MTU }, REASON_NONE },
	{ "datagram too long", IBV_QPT_UD, IBV_WR_SEND, { .length = MTU + 1 }, REASON_WR_MTU },
	{ "READ on UD", IBV_QPT_UD, IBV_WR_RDMA_READ, { 0 }, REASON_WR_OPCODE },
	{ "WRITE on a raw packet QP",
	  IBV_QPT_RAW_PACKET,
	  IBV_WR_RDMA_WRITE,
	  { 0 },
	  REASON_WR_OPCODE },
	{ "an opcode that there is not", IBV_QPT_RC, 12, { 0 }, REASON_WR_UNKNOWN, EINVAL },
	{ "a QP that sends nothing",
	  IBV_QPT_XRC_RECV,
	  IBV_WR_SEND,
	  { 0 },
	  REASON_WR_UNKNOWN,
	  EINVAL },
	{ "segmented datagram", IBV_QPT_UD, IBV_WR_TSO, { .length = 100 * MTU }, REASON_NONE },
	{ "longest header", IBV_QPT_UD, IBV_WR_TSO, { .tso_header = 64 }, REASON_NONE },
	{ "segments of nothing",
	  IBV_QPT_UD,
	  IBV_WR_TSO,
	  { .mss = UINT32_MAX },
	  REASON_WR_TSO,
	  EINVAL },
	{ "most segments", IBV_QPT_UD, IBV_WR_TSO, { .length = VRB_MAX_TSO }, REASON_NONE },
	{ "one byte more in segments",
	  IBV_QPT_UD,
	  IBV_WR_TSO,
	  { .length = VRB_MAX_TSO + 1 },
	  REASON_WR_TSO,
	  EINVAL },
	{ "header too long", IBV_QPT_UD, IBV_WR_TSO, { .tso_header = 65 }, REASON_WR_TSO, EINVAL },
	{ "segments too long", IBV_QPT_UD, IBV_WR_TSO, { .mss = MTU }, REASON_WR_MTU },
	{ "segmented on RC", IBV_QPT_RC, IBV_WR_TSO, { 0 }, REASON_WR_OPCODE },
};

static void test_limits(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct wr_limits l = limits(rows[i].type);
		struct wr_desc d = right(rows[i].opcode);
		enum reason why;

		apply(&d, &rows[i].with);
		why = wr_check_send(&l, &d);
		if (why != rows[i].why || wr_errno(why) != rows[i].error)
			fail_msg("%s: %s, %d", rows[i].name, reason_str(why), wr_errno(why));
	}
}

static void test_address_handles(void **state)
{
	struct wr_limits l = limits(IBV_QPT_UD);
	struct wr_desc d = right(IBV_WR_SEND);
	struct vrb_ah foreign = { .ibv.pd = &other_pd.ibv, .magic = VRB_AH_MAGIC };
	struct vrb_ah dead = { .ibv.pd = &pd.ibv };

	d.ah = NULL;
	assert_int_equal(wr_check_send(&l, &d), REASON_WR_BAD_AH);
	d.ah = &foreign;
	assert_int_equal(wr_check_send(&l, &d), REASON_WR_AH_PD);
	d.ah = &dead;
	assert_int_equal(wr_check_send(&l, &d), REASON_WR_BAD_AH);
	d.ah = &ah;
	assert_int_equal(wr_check_send(&l, &d), REASON_NONE);
}

static void test_rd_atomic_zero(void **state)
{
	struct wr_limits l = limits(IBV_QPT_RC);

	l.max_rd_atomic = 0;
	for (size_t o = 0; o < ARRAY_SIZE(legal); o++) {
		struct wr_desc d = right(legal[o].opcode);
		bool takes = legal[o].opcode == IBV_WR_RDMA_READ ||
			     legal[o].opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
			     legal[o].opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;

		if (has(legal[o].types, 'R'))
			assert_int_equal(wr_check_send(&l, &d),
					 takes ? REASON_WR_RD_ATOMIC_ZERO : REASON_NONE);
	}
}

static void test_no_segmentation(void **state)
{
	struct wr_limits l = limits(IBV_QPT_UD);
	struct wr_desc d = right(IBV_WR_TSO);

	l.max_tso_header = d.tso_header = 0;
	assert_int_equal(wr_check_send(&l, &d), REASON_WR_UNKNOWN);
}

static void test_receives(void **state)
{
	struct ibv_sge sge[3] = { { .length = UINT32_MAX }, { .length = 10 }, { .length = 5 } };
	struct ibv_recv_wr wr = { .sg_list = sge + 1, .num_sge = 2 };
	uint32_t length;

	assert_int_equal(wr_check_recv(2, &wr, &length), REASON_NONE);
	assert_int_equal(length, 15);
	assert_int_equal(wr_check_recv(1, &wr, &length), REASON_WR_SGE_COUNT);
	wr.num_sge = -1;
	assert_int_equal(wr_check_recv(2, &wr, &length), REASON_WR_SGE_COUNT);
	wr = (struct ibv_recv_wr){ .sg_list = sge, .num_sge = 3 };
	assert_int_equal(wr_check_recv(3, &wr, &length), REASON_NONE);
	assert_int_equal(length, UINT32_MAX);
	wr.num_sge = 0;
	assert_int_equal(wr_check_recv(3, &wr, &length), REASON_NONE);
	assert_int_equal(length, 0);
}

static void test_errno(void **state)
{
	assert_int_equal(wr_errno(REASON_NONE), 0);
	assert_int_equal(wr_errno(REASON_WR_QUEUE_FULL), ENOMEM);
	assert_int_equal(wr_errno(REASON_WR_NO_MEMORY), ENOMEM);
	assert_int_equal(wr_errno(REASON_WR_BAD_AH), EINVAL);
	assert_int_equal(wr_errno(REASON_WR_AH_PD), 0);
	assert_int_equal(wr_errno(REASON_WR_RD_ATOMIC_ZERO), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_type_and_opcode),
		cmocka_unit_test(test_inline_by_opcode),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_address_handles),
		cmocka_unit_test(test_rd_atomic_zero),
		cmocka_unit_test(test_no_segmentation),
		cmocka_unit_test(test_receives),
		cmocka_unit_test(test_errno),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
