/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbs_exp.h over a device of this program's own: the current call that each experimental call
 * becomes, and refused ones.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <infiniband/verbs_exp.h>

static struct verbs_context box;
static struct ibv_context *ctx = &box.context;
static struct ibv_send_wr seen_wr;
static int posts, waiting;
static unsigned int seen_access;
static int seen_mask;
static struct ibv_qp_attr seen_attr;
static struct ibv_mr the_mr;
static struct ibv_qp the_qp;

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	assert_null(wr->next);
	if (wr->wr_id == 99) {
		*bad = wr;
		return ENOMEM;
	}
	seen_wr = *wr;
	posts++;
	return 0;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	n = n < waiting ? n : waiting;
	for (int i = 0; i < n; i++)
		wc[i] = (struct ibv_wc){ .wr_id = (uint64_t)waiting--, .opcode = IBV_WC_TSO,
					 .imm_data = 0x12345678, .wc_flags = IBV_WC_WITH_IMM };
	return n;
}

static int query_device_ex(struct ibv_context *c, const struct ibv_query_device_ex_input *in,
			   struct ibv_device_attr_ex *attr, size_t size)
{
	memset(attr, 0, size);
	strcpy(attr->orig_attr.fw_ver, "1.2.3");
	attr->orig_attr.max_qp = 77;
	attr->orig_attr.device_cap_flags = IBV_DEVICE_XRC | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	attr->orig_attr.phys_port_cnt = 1;
	attr->hca_core_clock = 1000;
	attr->max_dm_size = 4096;
	return 0;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *attr)
{
	seen_mask = (int)attr->comp_mask;
	attr->cap.max_inline_data = 64;
	return &the_qp;
}

int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *attr)
{
	return ENOSYS;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	assert_int_equal(iova, (uintptr_t)addr);
	seen_access = access;
	return &the_mr;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	attr->cap.max_inline_data = 32;
	return &the_qp;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	seen_attr = *attr;
	seen_mask = mask;
	return 0;
}

static int reset(void **state)
{
	memset(&box, 0, sizeof(box));
	box.sz = sizeof(box);
	ctx->abi_compat = __VERBS_ABI_IS_EXTENDED;
	ctx->ops.post_send = post_send;
	ctx->ops.poll_cq = poll_cq;
	box.query_device_ex = query_device_ex;
	box.create_qp_ex = create_qp_ex;
	the_qp.context = ctx;
	posts = waiting = 0;
	return 0;
}

static void device(void **state)
{
	struct ibv_exp_device_attr attr = {
		.comp_mask = IBV_EXP_DEVICE_ATTR_WITH_HCA_CORE_CLOCK | IBV_EXP_DEVICE_ATTR_UMR |
			     IBV_EXP_DEVICE_ATTR_MAX_DM_SIZE,
	};

	assert_int_equal(ibv_exp_query_device(ctx, &attr), 0);
	assert_string_equal(attr.fw_ver, "1.2.3");
	assert_int_equal(attr.max_qp, 77);
	assert_int_equal(attr.phys_port_cnt, 1);
	assert_int_equal(attr.comp_mask, IBV_EXP_DEVICE_ATTR_WITH_HCA_CORE_CLOCK |
						 IBV_EXP_DEVICE_ATTR_MAX_DM_SIZE);
	assert_int_equal(attr.hca_core_clock, 1000);
	assert_int_equal(attr.max_dm_size, 4096);
	assert_true(attr.exp_device_cap_flags ==
		    ((uint64_t)IBV_EXP_DEVICE_XRC | (uint64_t)IBV_EXP_DEVICE_MW_TYPE_2B));
	assert_int_equal(attr.reserved, 0);
}

static void memory(void **state)
{
	static const struct {
		uint64_t exp;
		unsigned int access;
		int refused;
	} rows[] = {
		{ IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_READ,
		  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, 0 },
		{ IBV_EXP_ACCESS_ON_DEMAND, IBV_ACCESS_ON_DEMAND, 0 },
		{ IBV_EXP_ACCESS_MW_ZERO_BASED, IBV_ACCESS_ZERO_BASED, 0 },
		{ IBV_EXP_ACCESS_RELAXED, IBV_ACCESS_RELAXED_ORDERING, 0 },
		{ IBV_EXP_ACCESS_ALLOCATE_MR, 0, 1 },
		{ IBV_EXP_ACCESS_SHARED_MR_USER_READ, 0, 1 },
		{ 1 << 5, 0, 1 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_exp_reg_mr_in in = { .addr = &box,
						.length = 5,
						.exp_access = rows[i].exp };

		errno = 0;
		assert_ptr_equal(ibv_exp_reg_mr(&in), rows[i].refused ? NULL : &the_mr);
		if (rows[i].refused)
			assert_int_equal(errno, EOPNOTSUPP);
		else
			assert_int_equal(seen_access, rows[i].access);
	}
}

static void queue_pairs(void **state)
{
	struct ibv_exp_qp_init_attr init = { .comp_mask = IBV_EXP_QP_INIT_ATTR_PD };
	struct ibv_exp_qp_attr attr = { .qp_state = IBV_QPS_RTS,
					.alt_timeout = 9,
					.rate_limit = 55 };

	assert_ptr_equal(ibv_exp_create_qp(ctx, &init), &the_qp);
	assert_int_equal(init.cap.max_inline_data, 32);
	init.comp_mask |= IBV_EXP_QP_INIT_ATTR_XRCD | IBV_EXP_QP_INIT_ATTR_INL_RECV;
	init.max_inl_recv = 100;
	assert_ptr_equal(ibv_exp_create_qp(ctx, &init), &the_qp);
	assert_int_equal(seen_mask, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD);
	assert_int_equal(init.cap.max_inline_data, 64);
	assert_int_equal(init.max_inl_recv, 0);
	init.comp_mask = IBV_EXP_QP_INIT_ATTR_QPG;
	assert_null(ibv_exp_create_qp(ctx, &init));
	assert_int_equal(errno, EOPNOTSUPP);

	assert_int_equal(ibv_exp_modify_qp(&the_qp, &attr,
					   IBV_EXP_QP_STATE | IBV_EXP_QP_RATE_LIMIT),
			 0);
	assert_int_equal(seen_mask, IBV_QP_STATE | IBV_QP_RATE_LIMIT);
	assert_int_equal(seen_attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(seen_attr.alt_timeout, 9);
	assert_int_equal(seen_attr.rate_limit, 55);
	assert_int_equal(ibv_exp_modify_qp(&the_qp, &attr, IBV_EXP_QP_DC_KEY), EOPNOTSUPP);
}

static void sends(void **state)
{
	struct ibv_exp_send_wr wr[3], *bad = NULL;
	char hdr[14];

	memset(wr, 0, sizeof(wr));
	wr[0].wr_id = 1;
	wr[0].next = &wr[1];
	wr[0].exp_opcode = IBV_EXP_WR_ATOMIC_CMP_AND_SWP;
	wr[0].exp_send_flags = IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_FENCE;
	wr[0].wr.atomic.remote_addr = 8;
	wr[0].wr.atomic.swap = 0x1122334455667788;
	wr[0].wr.atomic.rkey = 7;
	wr[0].xrc_remote_srq_num = 12;
	assert_int_equal((wr[0].next = NULL, ibv_exp_post_send(&the_qp, &wr[0], &bad)), 0);
	assert_int_equal(seen_wr.opcode, IBV_WR_ATOMIC_CMP_AND_SWP);
	assert_int_equal(seen_wr.send_flags, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
	assert_true(seen_wr.wr.atomic.swap == 0x1122334455667788);
	assert_int_equal(seen_wr.wr.atomic.rkey, 7);
	assert_int_equal(seen_wr.qp_type.xrc.remote_srqn, 12);

	wr[0].exp_opcode = IBV_EXP_WR_TSO;
	wr[0].exp_send_flags = IBV_EXP_SEND_IP_CSUM;
	wr[0].tso.hdr = hdr;
	wr[0].tso.hdr_sz = sizeof(hdr);
	wr[0].tso.mss = 1400;
	assert_int_equal(ibv_exp_post_send(&the_qp, &wr[0], &bad), 0);
	assert_int_equal(seen_wr.opcode, IBV_WR_TSO);
	assert_int_equal(seen_wr.send_flags, IBV_SEND_IP_CSUM);
	assert_ptr_equal(seen_wr.tso.hdr, hdr);
	assert_int_equal(seen_wr.tso.mss, 1400);

	/* the list stops at the request that fails, here or in the device */
	wr[0].next = &wr[1];
	wr[1].next = &wr[2];
	wr[1].exp_opcode = IBV_EXP_WR_NOP;
	posts = 0;
	assert_int_equal(ibv_exp_post_send(&the_qp, &wr[0], &bad), EOPNOTSUPP);
	assert_ptr_equal(bad, &wr[1]);
	assert_int_equal(posts, 1);
	wr[1].exp_opcode = IBV_EXP_WR_SEND;
	wr[2].wr_id = 99;
	assert_int_equal(ibv_exp_post_send(&the_qp, &wr[0], &bad), ENOMEM);
	assert_ptr_equal(bad, &wr[2]);
	assert_int_equal(posts, 3);
}

static void completions(void **state)
{
	struct {
		struct ibv_exp_wc wc;
		uint64_t guard;
	} out[40];
	struct ibv_cq cq = { .context = ctx };

	memset(out, 0xa5, sizeof(out));
	waiting = 37;
	assert_int_equal(ibv_exp_poll_cq(&cq, 40, &out[0].wc, sizeof(out[0])), 37);
	for (uint64_t i = 0; i < 37; i++) {
		assert_int_equal(out[i].wc.wr_id, 37 - i);
		assert_int_equal(out[i].wc.exp_opcode, IBV_EXP_WC_TSO);
		assert_int_equal(out[i].wc.imm_data, 0x12345678);
		assert_true(out[i].wc.exp_wc_flags & IBV_EXP_WC_WITH_IMM);
		assert_true(out[i].guard == 0xa5a5a5a5a5a5a5a5);
	}
	waiting = 37;
	assert_int_equal(ibv_exp_poll_cq(&cq, 20, &out[0].wc, sizeof(out[0])), 20);
	assert_int_equal(waiting, 17);
	assert_int_equal(ibv_exp_poll_cq(&cq, 0, &out[0].wc, sizeof(out[0])), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(device, reset),	    cmocka_unit_test_setup(memory, reset),
		cmocka_unit_test_setup(queue_pairs, reset), cmocka_unit_test_setup(sends, reset),
		cmocka_unit_test_setup(completions, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
