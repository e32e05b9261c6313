/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every bit of every option of every call, on every kind of object: accepted or refused as its row
 * specifies; bits without a name are refused. Also every capability that the device reports or does
 * not report. docs/OPTIONS.md is the output of `--table`, and `abi options` compares the two.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "left_out.h"
#include "world.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))
#define ROW(name) #name, name

enum { PAGE = 4096, MAX_KINDS = 6 };

static struct world w;
static struct ibv_cq *cq;
static struct ibv_xrcd *xrcd;
static struct ibv_dm *dm;
static struct ibv_mr *on_demand;
static int memory_fd;
static void *memory;	/* mapping of memory_fd */
static struct ibv_device_attr_ex caps;

/* One named bit. `kinds`: the kinds of object that accept it. */
struct flag {
	const char *name;
	uint64_t bit;
	unsigned int kinds;
	const char *note;	/* why other kinds refuse it, or its effect */
	/* the test of its effect; NULL: there is nothing more than this test */
	const char *test;
};

/* An option: the calls that take it, and its bits. */
struct option {
	const char *what;
	const char *kind[MAX_KINDS];
	unsigned int bits;	/* of the field */
	int (*try)(uint64_t value, unsigned int kind);	/* returns 0 or the errno value */
	const struct flag *flag;
	size_t n;
	unsigned int lenient;	/* kinds of object that accept any bit, named or not */
};

/* ---------------------------------------------------------------- queue pairs */

static const enum ibv_qp_type qp_types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND,
					     IBV_QPT_XRC_RECV, IBV_QPT_RAW_PACKET };

enum { RC = 1, UC = 2, UD = 4, XS = 8, XR = 16, RAW = 32, SENDS = RC | UC | UD | XS | RAW,
       ALL_QPS = SENDS | XR };

#define QP_KINDS { "RC", "UC", "UD", "XRC send", "XRC receive", "raw packet" }

static int create_qp(struct ibv_qp_init_attr_ex *attr, unsigned int kind)
{
	struct ibv_qp *qp;

	attr->qp_type = qp_types[kind];
	attr->send_cq = attr->recv_cq = cq;
	attr->pd = w.pd;
	attr->xrcd = xrcd;
	attr->cap = (struct ibv_qp_cap){ .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1,
					 .max_recv_sge = 1 };
	attr->comp_mask |= qp_types[kind] == IBV_QPT_XRC_RECV ? IBV_QP_INIT_ATTR_XRCD :
								 IBV_QP_INIT_ATTR_PD;
	errno = 0;
	qp = ibv_create_qp_ex(w.ctx, attr);
	if (!qp)
		return errno;
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	return 0;
}

static int try_create_flags(uint64_t value, unsigned int kind)
{
	struct ibv_qp_init_attr_ex attr = { .comp_mask = IBV_QP_INIT_ATTR_CREATE_FLAGS,
					    .create_flags = value };

	return create_qp(&attr, kind);
}

static const struct flag create_flags[] = {
	{ ROW(IBV_QP_CREATE_BLOCK_SELF_MCAST_LB), ALL_QPS, "no meaning but on UD", "verbs mcast" },
	{ ROW(IBV_QP_CREATE_SCATTER_FCS), 0, "frames come without their FCS", NULL },
	{ ROW(IBV_QP_CREATE_CVLAN_STRIPPING), RAW, "the others have no frames",
	  "verbs raw_offload" },
	{ ROW(IBV_QP_CREATE_SOURCE_QPN), 0,
	  "the QP number on the wire identifies a packet's sender; there is no IPoIB interface to "
	  "emulate",
	  NULL },
	{ ROW(IBV_QP_CREATE_PCI_WRITE_END_PADDING), 0,
	  "no bus: nothing is written behind a message", NULL },
};

static int try_qp_mask(uint64_t value, unsigned int kind)
{
	struct ibv_qp_init_attr_ex attr = { .comp_mask = value };

	return create_qp(&attr, kind);
}

static const struct flag qp_masks[] = {
	{ ROW(IBV_QP_INIT_ATTR_PD), ALL_QPS, "", "verbs qp" },
	{ ROW(IBV_QP_INIT_ATTR_XRCD), ALL_QPS, "XRC receive needs it; the others do not look at it",
	  "verbs srq" },
	{ ROW(IBV_QP_INIT_ATTR_CREATE_FLAGS), ALL_QPS, "", NULL },
	{ ROW(IBV_QP_INIT_ATTR_MAX_TSO_HEADER), ALL_QPS, "0; more on UD and raw packet",
	  "verbs ipoib" },
	{ ROW(IBV_QP_INIT_ATTR_IND_TABLE), 0, "alone; with IBV_QP_INIT_ATTR_RX_HASH on raw packet",
	  "verbs rwq" },
	{ ROW(IBV_QP_INIT_ATTR_RX_HASH), 0, "alone; with IBV_QP_INIT_ATTR_IND_TABLE on raw packet",
	  "verbs rwq" },
	{ ROW(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS), ALL_QPS, "", "verbs wr_ex" },
};

static int try_send_ops(uint64_t value, unsigned int kind)
{
	struct ibv_qp_init_attr_ex attr = { .comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					    .send_ops_flags = value };

	return create_qp(&attr, kind);
}

/* ibv_wr_post(3): the table of operations and transports. */
static const struct flag send_ops[] = {
	{ ROW(IBV_QP_EX_WITH_RDMA_WRITE), RC | UC | XS, "", "verbs wr_ex" },
	{ ROW(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM), RC | UC | XS, "", "verbs wr_ex" },
	{ ROW(IBV_QP_EX_WITH_SEND), SENDS, "", "verbs wr_ex" },
	{ ROW(IBV_QP_EX_WITH_SEND_WITH_IMM), SENDS & ~RAW, "", "verbs wr_ex" },
	{ ROW(IBV_QP_EX_WITH_RDMA_READ), RC | XS, "", "verbs wr_ex" },
	{ ROW(IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP), RC | XS, "", "verbs wr_ex" },
	{ ROW(IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD), RC | XS, "", "verbs wr_ex" },
	{ ROW(IBV_QP_EX_WITH_LOCAL_INV), RC | UC | XS, "", "verbs wr_ex" },
	{ ROW(IBV_QP_EX_WITH_BIND_MW), RC | UC | XS, "", "verbs wr_ex" },
	{ ROW(IBV_QP_EX_WITH_SEND_WITH_INV), RC | UC | XS, "", "verbs wr_ex" },
	{ ROW(IBV_QP_EX_WITH_TSO), UD | RAW, "with headers of at most max_tso_header",
	  "verbs ipoib" },
	{ ROW(IBV_QP_EX_WITH_FLUSH), RC | XS, "Annex A19", "verbs wr_ex" },
	{ ROW(IBV_QP_EX_WITH_ATOMIC_WRITE), RC | XS, "Annex A19", "verbs wr_ex" },
};

static int try_qp_open(uint64_t value, unsigned int kind)
{
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_XRC_RECV, .xrcd = xrcd,
					    .comp_mask = IBV_QP_INIT_ATTR_XRCD };
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.xrcd = xrcd,
		.qp_type = IBV_QPT_XRC_RECV,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(w.ctx, &init), *handle;
	int ret;

	CHECK(qp);
	attr.qp_num = qp->qp_num;
	attr.comp_mask |= value;
	handle = ibv_open_qp(w.ctx, &attr);
	ret = handle ? 0 : errno;
	if (handle)
		CHECK_EQ(ibv_destroy_qp(handle), 0);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	return ret;
}

static const struct flag qp_opens[] = {
	{ ROW(IBV_QP_OPEN_ATTR_NUM), 1, "required", "verbs srq" },
	{ ROW(IBV_QP_OPEN_ATTR_XRCD), 1, "required", "verbs srq" },
	{ ROW(IBV_QP_OPEN_ATTR_CONTEXT), 1, "", "verbs srq" },
	{ ROW(IBV_QP_OPEN_ATTR_TYPE), 1, "required", "verbs srq" },
	{ ROW(IBV_QP_OPEN_ATTR_RESERVED), 0, "", NULL },
};

/* ---------------------------------------------------------------- completion queues */

static int create_cq(struct ibv_cq_init_attr_ex *attr, struct ibv_pd *parent)
{
	struct ibv_cq_ex *made;

	attr->cqe = 1;
	attr->parent_domain = parent;
	errno = 0;
	made = ibv_create_cq_ex(w.ctx, attr);
	if (!made)
		return errno;
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(made)), 0);
	return 0;
}

static int try_cq_flags(uint64_t value, unsigned int kind)
{
	struct ibv_cq_init_attr_ex attr = { .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					    .flags = value };

	return create_cq(&attr, NULL);
}

static const struct flag cq_flags[] = {
	{ ROW(IBV_CREATE_CQ_ATTR_SINGLE_THREADED), 1, "no lock from ibv_start_poll to ibv_end_poll",
	  "verbs cq_ex" },
	{ ROW(IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN), 1, "the oldest completion gives way",
	  "verbs cq_ex" },
};

static int try_wc_flags(uint64_t value, unsigned int kind)
{
	struct ibv_cq_init_attr_ex attr = { .wc_flags = value };

	return create_cq(&attr, NULL);
}

static const struct flag wc_flags[] = {
	{ ROW(IBV_WC_EX_WITH_BYTE_LEN), 1, "", "verbs cq_ex" },
	{ ROW(IBV_WC_EX_WITH_IMM), 1, "", "verbs cq_ex" },
	{ ROW(IBV_WC_EX_WITH_QP_NUM), 1, "", "verbs cq_ex" },
	{ ROW(IBV_WC_EX_WITH_SRC_QP), 1, "", "verbs cq_ex" },
	{ ROW(IBV_WC_EX_WITH_SLID), 1, "", "verbs cq_ex" },
	{ ROW(IBV_WC_EX_WITH_SL), 1, "", "verbs cq_ex" },
	{ ROW(IBV_WC_EX_WITH_DLID_PATH_BITS), 1, "always 0", "verbs cq_ex" },
	{ ROW(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP), 1, "", "verbs cq_ex" },
	{ ROW(IBV_WC_EX_WITH_CVLAN), 1, "of raw packets; else 0", "verbs cq_ex" },
	{ ROW(IBV_WC_EX_WITH_FLOW_TAG), 1, "of raw packets; else 0", "verbs cq_ex" },
	{ ROW(IBV_WC_EX_WITH_TM_INFO), 1, "", "verbs tags" },
	{ ROW(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK), 1, "", "verbs cq_ex" },
};

static int try_cq_mask(uint64_t value, unsigned int kind)
{
	struct ibv_parent_domain_init_attr domain = { .pd = w.pd };
	struct ibv_pd *parent = ibv_alloc_parent_domain(w.ctx, &domain);
	struct ibv_cq_init_attr_ex attr = { .comp_mask = value };
	int ret;

	CHECK(parent);
	ret = create_cq(&attr, parent);
	CHECK_EQ(ibv_dealloc_pd(parent), 0);
	return ret;
}

static const struct flag cq_masks[] = {
	{ ROW(IBV_CQ_INIT_ATTR_MASK_FLAGS), 1, "", NULL },
	{ ROW(IBV_CQ_INIT_ATTR_MASK_PD), 1, "a parent domain", "verbs pd" },
};

static int try_cq_attr(uint64_t value, unsigned int kind)
{
	struct ibv_modify_cq_attr attr = { .attr_mask = value };

	return ibv_modify_cq(cq, &attr);
}

static const struct flag cq_attrs[] = {
	{ ROW(IBV_CQ_ATTR_MODERATE), 1, "", "verbs cq" },
	{ ROW(IBV_CQ_ATTR_RESERVED), 0, "", NULL },
};

/* ---------------------------------------------------------------- shared receive queues */

enum { BASIC = 1, XRC = 2, TM = 4 };

static int try_srq_mask(uint64_t value, unsigned int kind)
{
	static const enum ibv_srq_type types[] = { IBV_SRQT_BASIC, IBV_SRQT_XRC, IBV_SRQT_TM };
	static const uint32_t needs[] = {
		0,
		IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
	};
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = 1, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | needs[kind] | value,
		.srq_type = types[kind], .pd = w.pd, .xrcd = xrcd, .cq = cq,
		.tm_cap = { .max_num_tags = 1, .max_ops = 1 },
	};
	struct ibv_srq *srq;

	errno = 0;
	srq = ibv_create_srq_ex(w.ctx, &attr);
	if (!srq)
		return errno;
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	return 0;
}

static const struct flag srq_masks[] = {
	{ ROW(IBV_SRQ_INIT_ATTR_TYPE), BASIC | XRC | TM, "", NULL },
	{ ROW(IBV_SRQ_INIT_ATTR_PD), BASIC | XRC | TM, "required but for basic", "verbs srq" },
	{ ROW(IBV_SRQ_INIT_ATTR_XRCD), BASIC | XRC | TM,
	  "XRC needs it; the others do not look at it", "verbs srq" },
	{ ROW(IBV_SRQ_INIT_ATTR_CQ), BASIC | XRC | TM, "XRC and tag matching need it",
	  "verbs srq" },
	{ ROW(IBV_SRQ_INIT_ATTR_TM), BASIC | XRC | TM,
	  "tag matching needs it; the others do not look at it", "verbs tags" },
	{ ROW(IBV_SRQ_INIT_ATTR_RESERVED), BASIC, "ignored, as are bits without a name", NULL },
};

static int try_srq_attr(uint64_t value, unsigned int kind)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(w.pd, &init);
	struct ibv_srq_attr attr = { .max_wr = 2 };
	int ret;

	CHECK(srq);
	ret = ibv_modify_srq(srq, &attr, value);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	return ret;
}

static const struct flag srq_attrs[] = {
	{ ROW(IBV_SRQ_MAX_WR), 1, "", "verbs srq" },
	{ ROW(IBV_SRQ_LIMIT), 1, "", "verbs srq" },
};

static int try_ops_flags(uint64_t value, unsigned int kind)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = { .max_wr = 1, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			     IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM, .pd = w.pd, .cq = cq,
		.tm_cap = { .max_num_tags = 1, .max_ops = 1 },
	};
	struct ibv_ops_wr op = { .opcode = IBV_WR_TAG_SYNC, .flags = value }, *bad;
	struct ibv_srq *srq = ibv_create_srq_ex(w.ctx, &init);
	int ret;

	CHECK(srq);
	ret = ibv_post_srq_ops(srq, &op, &bad);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	return ret;
}

static const struct flag ops_flags[] = {
	{ ROW(IBV_OPS_SIGNALED), 1, "", "verbs tags" },
	{ ROW(IBV_OPS_TM_SYNC), 1, "", "verbs tags" },
};

static int try_xrcd(uint64_t value, unsigned int kind)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS | value, .fd = -1,
		.oflags = O_CREAT
	};
	struct ibv_xrcd *made;

	errno = 0;
	made = ibv_open_xrcd(w.ctx, &attr);
	if (!made)
		return errno;
	CHECK_EQ(ibv_close_xrcd(made), 0);
	return 0;
}

static const struct flag xrcds[] = {
	{ ROW(IBV_XRCD_INIT_ATTR_FD), 1, "required", "verbs srq" },
	{ ROW(IBV_XRCD_INIT_ATTR_OFLAGS), 1, "required", "verbs srq" },
	{ ROW(IBV_XRCD_INIT_ATTR_RESERVED), 0, "", NULL },
};

/* ---------------------------------------------------------------- memory */

enum { REG = 1, DMABUF = 2, DM = 4, QP = 8, OPTIONAL = REG | DMABUF | DM | QP };

static int set_access(unsigned int access)
{
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, NULL);
	struct ibv_qp_attr attr;
	int mask = world_attr(&w, IBV_QPT_RC, IBV_QPS_INIT, 0, &attr), ret;

	attr.qp_access_flags = access;
	ret = ibv_modify_qp(qp, &attr, mask);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	return ret;
}

static int try_access(uint64_t value, unsigned int kind)
{
	unsigned int access = value | IBV_ACCESS_LOCAL_WRITE;
	struct ibv_mr *mr = NULL;

	errno = 0;
	switch (kind) {
	case 0:
		mr = ibv_reg_mr_iova2(w.pd, memory, PAGE, (uintptr_t)memory, access);
		break;
	case 1:
		mr = ibv_reg_dmabuf_mr(w.pd, 0, PAGE, 0, memory_fd, access);
		break;
	case 2:
		mr = ibv_reg_dm_mr(w.pd, dm, 0, 64, access | IBV_ACCESS_ZERO_BASED);
		break;
	default:
		return set_access(value);
	}
	if (!mr)
		return errno;
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	return 0;
}

static const struct flag accesses[] = {
	{ ROW(IBV_ACCESS_LOCAL_WRITE), REG | DMABUF | DM | QP,
	  "REMOTE_WRITE and REMOTE_ATOMIC need it on a region", "verbs mr" },
	{ ROW(IBV_ACCESS_REMOTE_WRITE), REG | DMABUF | DM | QP, "", "verbs mr" },
	{ ROW(IBV_ACCESS_REMOTE_READ), REG | DMABUF | DM | QP, "", "verbs mr" },
	{ ROW(IBV_ACCESS_REMOTE_ATOMIC), REG | DMABUF | DM | QP, "", "verbs mr" },
	{ ROW(IBV_ACCESS_MW_BIND), REG | DM | QP, "no window opens onto a dma-buf", "verbs mw" },
	{ ROW(IBV_ACCESS_ZERO_BASED), REG | DM | QP,
	  "a dma-buf has an iova instead; means nothing to a QP, as the next two", "verbs mr" },
	{ ROW(IBV_ACCESS_ON_DEMAND), REG | QP, "device memory and dma-bufs are there already",
	  "verbs mr" },
	{ ROW(IBV_ACCESS_HUGETLB), REG | QP, "a hint", "verbs mr" },
	{ ROW(IBV_ACCESS_FLUSH_GLOBAL), REG | DM | QP, "Annex A19", "verbs mr" },
	{ ROW(IBV_ACCESS_FLUSH_PERSISTENT), REG | QP, "Annex A19: memory that a file keeps",
	  "verbs mr" },
	{ ROW(IBV_ACCESS_RELAXED_ORDERING), OPTIONAL,
	  "a hint, as are all bits of IBV_ACCESS_OPTIONAL_RANGE", NULL },
};

static int try_advice(uint64_t value, unsigned int kind)
{
	struct ibv_sge sge = { (uintptr_t)memory, PAGE, on_demand->lkey };

	return ibv_advise_mr(w.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, value, &sge, 1);
}

static const struct flag advices[] = {
	{ ROW(IBV_ADVISE_MR_FLAG_FLUSH), 1, "", "verbs mr" },
};

static void *never_alloc(struct ibv_pd *pd, void *context, size_t size, size_t align, uint64_t type)
{
	CHECK(false);
	return NULL;
}

static void never_free(struct ibv_pd *pd, void *context, void *p, uint64_t type)
{
	CHECK(false);
}

static int try_parent(uint64_t value, unsigned int kind)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = w.pd, .comp_mask = value, .alloc = never_alloc, .free = never_free
	};
	struct ibv_pd *pd;

	errno = 0;
	pd = ibv_alloc_parent_domain(w.ctx, &attr);
	if (!pd)
		return errno;
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	return 0;
}

static const struct flag parents[] = {
	{ ROW(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS), 1,
	  "asked for the memory of QPs, WQs, SRQs and CQs", "verbs pd" },
	{ ROW(IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT), 1, "", "verbs pd" },
	{ ROW(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC), 1,
	  "no memory of the device is protected", "verbs pd" },
};

static int try_values(uint64_t value, unsigned int kind)
{
	struct ibv_values_ex values = { .comp_mask = value };

	return ibv_query_rt_values_ex(w.ctx, &values);
}

static const struct flag values[] = {
	{ ROW(IBV_VALUES_MASK_RAW_CLOCK), 1, "", "verbs cq_ex" },
	{ ROW(IBV_VALUES_MASK_RESERVED), 0, "", NULL },
};

static const struct option options[] = {
#define OPTION(what, bits, try, flags, ...) { what, __VA_ARGS__, bits, try, flags, N(flags) }
	OPTION("`ibv_qp_init_attr_ex.create_flags`", 32, try_create_flags, create_flags, QP_KINDS),
	OPTION("`ibv_qp_init_attr_ex.comp_mask`", 32, try_qp_mask, qp_masks, QP_KINDS),
	OPTION("`ibv_qp_init_attr_ex.send_ops_flags`", 64, try_send_ops, send_ops, QP_KINDS),
	OPTION("`ibv_qp_open_attr.comp_mask`", 32, try_qp_open, qp_opens, { "XRC receive" }),
	OPTION("`ibv_cq_init_attr_ex.flags`", 32, try_cq_flags, cq_flags, { "any" }),
	OPTION("`ibv_cq_init_attr_ex.wc_flags`", 64, try_wc_flags, wc_flags, { "any" }),
	OPTION("`ibv_cq_init_attr_ex.comp_mask`", 32, try_cq_mask, cq_masks, { "any" }),
	OPTION("`ibv_modify_cq_attr.attr_mask`", 32, try_cq_attr, cq_attrs, { "any" }),
	{ "`ibv_srq_init_attr_ex.comp_mask`",
	  { "basic", "XRC", "tag matching" },
	  32,
	  try_srq_mask,
	  srq_masks,
	  N(srq_masks),
	  BASIC },
	{ "`ibv_modify_srq`, mask", { "any" }, 32, try_srq_attr, srq_attrs, N(srq_attrs), 1 },
	OPTION("`ibv_ops_wr.flags`", 32, try_ops_flags, ops_flags, { "tag matching" }),
	OPTION("`ibv_xrcd_init_attr.comp_mask`", 32, try_xrcd, xrcds, { "any" }),
	{ "Access flags",
	  { "`ibv_reg_mr`", "`ibv_reg_dmabuf_mr`", "`ibv_reg_dm_mr`", "`qp_access_flags`" },
	  30,
	  try_access,
	  accesses,
	  N(accesses),
	  QP },
	OPTION("`ibv_advise_mr`, flags", 32, try_advice, advices, { "any" }),
	OPTION("`ibv_parent_domain_init_attr.comp_mask`", 32, try_parent, parents, { "any" }),
	OPTION("`ibv_values_ex.comp_mask`", 32, try_values, values, { "any" }),
};

/* ---------------------------------------------------------------- capabilities */

struct claim {
	const char *name;
	uint64_t bit;
	const char *of;
	const uint64_t *in;
	bool claimed;
	const char *note;
	const char *test;
};

static unsigned int kinds_of(const struct option *o)
{
	unsigned int n = 0;

	while (n < MAX_KINDS && o->kind[n])
		n++;
	return n;
}

static const struct flag *find(const struct option *o, uint64_t bit)
{
	for (size_t i = 0; i < o->n; i++)
		if (o->flag[i].bit == bit)
			return &o->flag[i];
	return NULL;
}

static bool optional_access(const struct option *o, uint64_t bit)
{
	return o->try == try_access && bit & IBV_ACCESS_OPTIONAL_RANGE;
}

/* Raw packet QPs need a privilege that the test may not have. */
static bool available(const struct option *o, unsigned int kind)
{
	int err = strcmp(o->kind[kind], "raw packet") ? 0 : o->try(0, kind);

	if (err)
		left_out(1, "an option of raw packet queue pairs: no privilege for them");
	return !err;
}

static int check_option(const struct option *o)
{
	int wrong = 0;

	for (unsigned int kind = 0; kind < kinds_of(o); kind++) {
		if (!available(o, kind))
			continue;
		for (unsigned int i = 0; i < o->bits; i++) {
			uint64_t bit = 1ull << i;
			const struct flag *f = find(o, bit);
			bool accepts =
				(f ? f->kinds : o->lenient) >> kind & 1 || optional_access(o, bit);
			int got = o->try(bit, kind);

			if (!got == accepts && (!got || got == EINVAL || got == EOPNOTSUPP))
				continue;
			printf("%s, %s: bit %u (%s): %s\n", o->what, o->kind[kind], i,
			       f ? f->name : "no name", got ? strerror(got) : "accepted");
			wrong++;
		}
	}
	return wrong;
}

static void print_kinds(const struct option *o, unsigned int kinds)
{
	const char *comma = "";

	if (!kinds)
		printf("refused");
	else if (kinds == (1u << kinds_of(o)) - 1)
		printf("accepted");
	else
		printf("accepted: ");
	for (unsigned int k = 0; kinds && kinds != (1u << kinds_of(o)) - 1 && k < kinds_of(o);
	     k++) {
		if (!(kinds >> k & 1))
			continue;
		printf("%s%s", comma, o->kind[k]);
		comma = ", ";
	}
}

static void print_option(const struct option *o)
{
	const char *sep = "";

	printf("\n## %s\n\nOn: ", o->what);
	for (unsigned int k = 0; k < kinds_of(o); k++, sep = ", ")
		printf("%s%s", sep, o->kind[k]);
	printf(".\n\n| Flag | | | Test |\n|---|---|---|---|\n");
	for (size_t i = 0; i < o->n; i++) {
		const struct flag *f = &o->flag[i];

		printf("| `%s` | ", f->name);
		print_kinds(o, f->kinds);
		printf(" | %s | %s |\n", f->note, f->test ? f->test : "verbs options");
	}
}

static uint64_t cap_flags, odp_general, odp_rc, odp_uc, odp_ud, odp_xrc, tm_flags;

#define CAP(name, ...)	  { ROW(name), "", &cap_flags, __VA_ARGS__ }
#define ODP_RC(name, ...) { ROW(name), " for RC, XRC", &odp_rc, __VA_ARGS__ }
#define ODP_UC(name, ...) { ROW(name), " for UC", &odp_uc, __VA_ARGS__ }
#define ODP_UD(name, ...) { ROW(name), " for UD", &odp_ud, __VA_ARGS__ }

static const struct claim claims[] = {
	CAP(IBV_DEVICE_RESIZE_MAX_WR, false, "the depth of a queue pair's queues is fixed",
	    "unit qp_state"),
	CAP(IBV_DEVICE_BAD_PKEY_CNTR, true, "of what this process dropped", "unit responder"),
	CAP(IBV_DEVICE_BAD_QKEY_CNTR, true, "of what this process dropped", "verbs ud"),
	CAP(IBV_DEVICE_AUTO_PATH_MIG, true, "", "verbs migration"),
	CAP(IBV_DEVICE_CHANGE_PHY_PORT, false, "one port", NULL),
	CAP(IBV_DEVICE_UD_AV_PORT_ENFORCE, true, "", "verbs ah"),
	CAP(IBV_DEVICE_CURR_QP_STATE_MOD, true, "", "unit qp_state"),
	CAP(IBV_DEVICE_SHUTDOWN_PORT, false, "the interface is the host's to shut down", NULL),
	CAP(IBV_DEVICE_INIT_TYPE, false, "InfiniBand's subnet manager", NULL),
	CAP(IBV_DEVICE_PORT_ACTIVE_EVENT, true, "", "verbs event"),
	CAP(IBV_DEVICE_SYS_IMAGE_GUID, true, "", "verbs device"),
	CAP(IBV_DEVICE_RC_RNR_NAK_GEN, true, "", "unit responder"),
	CAP(IBV_DEVICE_SRQ_RESIZE, true, "", "verbs srq"),
	CAP(IBV_DEVICE_N_NOTIFY_CQ, false, "the call that used it is gone from the interface",
	    NULL),
	CAP(IBV_DEVICE_MEM_WINDOW, true, "", "verbs mw"),
	CAP(IBV_DEVICE_UD_IP_CSUM, true, "", "verbs ipoib"),
	CAP(IBV_DEVICE_XRC, true, "", "verbs srq"),
	CAP(IBV_DEVICE_MEM_MGT_EXTENSIONS, true, "", "verbs mw"),
	CAP(IBV_DEVICE_MEM_WINDOW_TYPE_2A, false, "a device has 2A or 2B", NULL),
	CAP(IBV_DEVICE_MEM_WINDOW_TYPE_2B, true, "", "verbs mw"),
	CAP(IBV_DEVICE_RAW_IP_CSUM, true, "", "verbs raw_offload"),
	CAP(IBV_DEVICE_RC_IP_CSUM, false, "connections carry no IP packets", NULL),
	CAP(IBV_DEVICE_RAW_MULTI, false,
	    "frames to groups come by flow rules, not by ibv_attach_mcast", NULL),
	CAP(IBV_DEVICE_MANAGED_FLOW_STEERING, true, "on raw packet queue pairs", "verbs rwq"),
	{ "IBV_DEVICE_RAW_SCATTER_FCS", IBV_DEVICE_RAW_SCATTER_FCS, "", &cap_flags, false,
	  "frames come without their FCS", NULL },
	{ "IBV_DEVICE_PCI_WRITE_END_PADDING", IBV_DEVICE_PCI_WRITE_END_PADDING, "", &cap_flags,
	  false, "no bus", NULL },
	{ "IBV_DEVICE_CC_DMA_BOUNCE", IBV_DEVICE_CC_DMA_BOUNCE, "", &cap_flags, false, "no DMA",
	  NULL },
	{ "IB_UVERBS_DEVICE_FLUSH_GLOBAL", 1ULL << 38, "", &cap_flags, true, "", "verbs flush" },
	{ "IB_UVERBS_DEVICE_FLUSH_PERSISTENT", 1ULL << 39, "", &cap_flags, true, "",
	  "verbs flush" },
	{ "IB_UVERBS_DEVICE_ATOMIC_WRITE", 1ULL << 40, "", &cap_flags, true, "",
	  "verbs flush" },
	{ ROW(IBV_ODP_SUPPORT), "", &odp_general, true, "every region is naturally on demand",
	  "verbs on_demand" },
	{ ROW(IBV_ODP_SUPPORT_IMPLICIT), "", &odp_general, true, "", "verbs on_demand" },
	ODP_RC(IBV_ODP_SUPPORT_SEND, true, "", "verbs on_demand"),
	ODP_RC(IBV_ODP_SUPPORT_RECV, true, "", "verbs on_demand"),
	ODP_RC(IBV_ODP_SUPPORT_WRITE, true, "", "verbs on_demand"),
	ODP_RC(IBV_ODP_SUPPORT_READ, true, "", "verbs on_demand"),
	ODP_RC(IBV_ODP_SUPPORT_ATOMIC, true, "", "verbs on_demand"),
	ODP_RC(IBV_ODP_SUPPORT_SRQ_RECV, true, "", "verbs on_demand"),
	ODP_RC(IBV_ODP_SUPPORT_FLUSH, true, "", "verbs on_demand"),
	ODP_RC(IBV_ODP_SUPPORT_ATOMIC_WRITE, true, "", "verbs on_demand"),
	ODP_UC(IBV_ODP_SUPPORT_SEND, true, "", "verbs on_demand"),
	ODP_UC(IBV_ODP_SUPPORT_RECV, true, "", "verbs on_demand"),
	ODP_UC(IBV_ODP_SUPPORT_WRITE, true, "", "verbs on_demand"),
	ODP_UC(IBV_ODP_SUPPORT_READ, false, "UC has no READ", NULL),
	ODP_UC(IBV_ODP_SUPPORT_ATOMIC, false, "UC has no atomics", NULL),
	ODP_UC(IBV_ODP_SUPPORT_SRQ_RECV, true, "", "verbs on_demand"),
	ODP_UD(IBV_ODP_SUPPORT_SEND, true, "", "verbs on_demand"),
	ODP_UD(IBV_ODP_SUPPORT_RECV, true, "", "verbs on_demand"),
	ODP_UD(IBV_ODP_SUPPORT_WRITE, false, "UD has no WRITE", NULL),
	ODP_UD(IBV_ODP_SUPPORT_SRQ_RECV, true, "", "verbs on_demand"),
	{ ROW(IBV_TM_CAP_RC), "", &tm_flags, true, "", "verbs tags" },
};

static void query_claims(void)
{
	CHECK_EQ(ibv_query_device_ex(w.ctx, NULL, &caps), 0);
	cap_flags = caps.device_cap_flags_ex;
	CHECK_EQ((unsigned int)cap_flags, caps.orig_attr.device_cap_flags);
	odp_general = caps.odp_caps.general_caps;
	odp_rc = caps.odp_caps.per_transport_caps.rc_odp_caps;
	odp_uc = caps.odp_caps.per_transport_caps.uc_odp_caps;
	odp_ud = caps.odp_caps.per_transport_caps.ud_odp_caps;
	odp_xrc = caps.xrc_odp_caps;
	tm_flags = caps.tm_caps.flags;
	CHECK_EQ(odp_xrc, odp_rc);
}

static int check_claims(void)
{
	int wrong = 0;

	for (size_t i = 0; i < N(claims); i++) {
		const struct claim *c = &claims[i];

		if (!(*c->in & c->bit) == !c->claimed)
			continue;
		printf("%s: is %sclaimed\n", c->name, c->claimed ? "not " : "");
		wrong++;
	}
	return wrong;
}

static void print_claims(void)
{
	printf("\n## Capabilities\n\n| Flag | | | Test |\n|---|---|---|---|\n");
	for (size_t i = 0; i < N(claims); i++) {
		const struct claim *c = &claims[i];

		printf("| `%s` | %sclaimed%s | %s | %s |\n", c->name, c->claimed ? "" : "not ",
		       c->of, c->note, c->test ? c->test : "verbs options");
	}
}

static void open_all(void)
{
	struct ibv_xrcd_init_attr domain = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1,
		.oflags = O_CREAT
	};
	struct ibv_alloc_dm_attr dm_attr = { .length = 64 };

	world_open(&w);
	cq = world_cq(&w, 16);
	xrcd = ibv_open_xrcd(w.ctx, &domain);
	dm = ibv_alloc_dm(w.ctx, &dm_attr);
	CHECK(xrcd);
	CHECK(dm);
	memory_fd = memfd_create("options", 0);
	CHECK(memory_fd >= 0 && ftruncate(memory_fd, PAGE) == 0);
	memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
	CHECK(memory != MAP_FAILED);
	on_demand = ibv_reg_mr(w.pd, memory, PAGE, IBV_ACCESS_ON_DEMAND);
	CHECK(on_demand);
	query_claims();
}

static void close_all(void)
{
	CHECK_EQ(ibv_dereg_mr(on_demand), 0);
	munmap(memory, PAGE);
	close(memory_fd);
	CHECK_EQ(ibv_free_dm(dm), 0);
	CHECK_EQ(ibv_close_xrcd(xrcd), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_close(&w);
}

int main(int argc, char **argv)
{
	int wrong = 0;

	if (argc > 1 && !strcmp(argv[1], "--table")) {
		for (size_t i = 0; i < N(options); i++)
			print_option(&options[i]);
		print_claims();
		return 0;
	}
	open_all();
	for (size_t i = 0; i < N(options); i++)
		wrong += check_option(&options[i]);
	wrong += check_claims();
	CHECK_EQ(wrong, 0);
	close_all();
	return 0;
}
