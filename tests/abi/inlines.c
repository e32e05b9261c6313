/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the inline functions of verbs.h do, written down: which function of the library or which
 * operation of the context each calls, with which arguments, and what it answers when the context
 * lacks the operation.  layout.py's sibling inlines.py compiles this against our headers and
 * against libibverbs-dev's; both must print the same.
 *
 * The program is its own libibverbs: the exported functions below record that they were called.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/ib.h>
#include <infiniband/verbs.h>

#define TOKEN(n) ((void *)(uintptr_t)(0x1000 + (n)))

/* A context of 44.0's size or, to be one of 2013, of fewer operations. */
static struct {
	struct verbs_context v;
} box;
static struct ibv_context *ctx = &box.v.context;

static void fresh(size_t hidden)
{
	memset(&box, 0, sizeof(box));
	box.v.sz = offsetof(struct verbs_context, context) + sizeof(struct ibv_context) - hidden;
	ctx->abi_compat = __VERBS_ABI_IS_EXTENDED;
	errno = 0;
}

/* ---- The library, as far as inline functions call it ---- */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	printf(" ibv_query_port(port %d, attr[0] %d)", port, *(int *)(void *)attr);
	return 11;
}

int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *attr)
{
	printf(" ibv_query_device(max_qp %d)", attr->max_qp);
	return 12;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	printf(" ibv_reg_mr(%zu, %#x)", length, (unsigned int)access);
	return TOKEN(1);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			       int access)
{
	printf(" ibv_reg_mr_iova(%zu, %#llx, %#x)", length, (unsigned long long)iova,
	       (unsigned int)access);
	return TOKEN(2);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	printf(" ibv_reg_mr_iova2(%zu, %#llx, %#x)", length, (unsigned long long)iova, access);
	return TOKEN(3);
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	printf(" ibv_create_srq(pd %p, max_wr %u)", (void *)pd, attr->attr.max_wr);
	return TOKEN(4);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	printf(" ibv_create_qp(pd %p, type %d)", (void *)pd, (int)attr->qp_type);
	return TOKEN(5);
}

int _ibv_query_gid_ex(struct ibv_context *c, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	printf(" _ibv_query_gid_ex(%u, %u, %u, %zu)", port, index, flags, size);
	return 13;
}

ssize_t _ibv_query_gid_table(struct ibv_context *c, struct ibv_gid_entry *entries, size_t max,
			     uint32_t flags, size_t size)
{
	printf(" _ibv_query_gid_table(%zu, %u, %zu)", max, flags, size);
	return 14;
}

/* Restores the macros that programs see. */
#define ibv_query_port(c, n, a) ___ibv_query_port(c, n, a)
#define ibv_reg_mr(pd, addr, length, access)                                                       \
	__ibv_reg_mr(pd, addr, length, access,                                                     \
		     __builtin_constant_p(((access) & IBV_ACCESS_OPTIONAL_RANGE) == 0))
#define ibv_reg_mr_iova(pd, addr, length, iova, access)                                            \
	__ibv_reg_mr_iova(pd, addr, length, iova, access,                                          \
			  __builtin_constant_p(((access) & IBV_ACCESS_OPTIONAL_RANGE) == 0))

/* ---- Operations of the context: one function behind every slot ---- */
static int answer;

static int op_int(void)
{
	printf(" op");
	return answer;
}

static void *op_ptr(void)
{
	printf(" op");
	return TOKEN(6);
}

static struct ibv_wq the_wq;

static struct ibv_wq *op_wq(struct ibv_context *c, struct ibv_wq_init_attr *attr)
{
	memset(&the_wq, 0xff, sizeof(the_wq));
	printf(" op");
	return answer ? NULL : &the_wq;
}

#define SLOT(name, fn) (box.v.name = (__typeof__(box.v.name))(void *)(fn))

/*
 * Calls with the operation there, absent, and beyond what the library says it has; and in an
 * unextended context.
 */
#define EACH(name, fn, show, call)                                                                 \
	do {                                                                                       \
		for (int with = 0; with < 4; with++) {                                             \
			fresh(with == 2 ? offsetof(struct verbs_context, name) + 1 : 0);           \
			if (with)                                                                  \
				SLOT(name, fn);                                                    \
			if (with == 3)                                                             \
				ctx->abi_compat = NULL;                                            \
			answer = 21;                                                               \
			printf(#name " %d:", with);                                                \
			show(call);                                                                \
			printf(" errno %d\n", errno);                                              \
		}                                                                                  \
	} while (0)
#define INT(call) printf(" = %d", (int)(call))
#define PTR(call) printf(" = %p", (void *)(call))

static struct ibv_pd pd;
static struct ibv_srq srq;
static struct ibv_qp qp;
static struct ibv_cq cq;

static void control_path(void)
{
	struct ibv_port_attr port = { .state = (enum ibv_port_state)3 };
	struct ibv_device_attr_ex dev = { .orig_attr.max_qp = 77 };
	struct ibv_flow flow = { .context = ctx };
	struct ibv_flow_action action = { .context = ctx };
	struct ibv_td td = { .context = ctx };
	struct ibv_dm dm = { .context = ctx };
	struct ibv_wq wq = { .context = ctx };
	struct ibv_rwq_ind_table table = { .context = ctx };
	struct ibv_counters counters = { .context = ctx };
	struct ibv_srq_init_attr_ex srq_attr = { .comp_mask = IBV_SRQ_INIT_ATTR_XRCD };
	struct ibv_qp_init_attr_ex qp_attr = { .comp_mask = IBV_QP_INIT_ATTR_XRCD };
	struct ibv_wq_init_attr wq_attr = { .wq_context = TOKEN(9) };
	struct ibv_ops_wr op, *bad = NULL;
	uint32_t num;

	EACH(query_port, op_int, INT, ibv_query_port(ctx, 1, &port));
	EACH(query_device_ex, op_int, INT, ibv_query_device_ex(ctx, NULL, &dev));
	EACH(query_rt_values, op_int, INT, ibv_query_rt_values_ex(ctx, NULL));
	EACH(ibv_create_flow, op_ptr, PTR, ibv_create_flow(&qp, NULL));
	EACH(ibv_destroy_flow, op_int, INT, ibv_destroy_flow(&flow));
	EACH(create_flow_action_esp, op_ptr, PTR, ibv_create_flow_action_esp(ctx, NULL));
	EACH(modify_flow_action_esp, op_int, INT, ibv_modify_flow_action_esp(&action, NULL));
	EACH(destroy_flow_action, op_int, INT, ibv_destroy_flow_action(&action));
	EACH(open_xrcd, op_ptr, PTR, ibv_open_xrcd(ctx, NULL));
	EACH(advise_mr, op_int, INT, ibv_advise_mr(&pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 0));
	EACH(alloc_dm, op_ptr, PTR, ibv_alloc_dm(ctx, NULL));
	EACH(free_dm, op_int, INT, ibv_free_dm(&dm));
	EACH(alloc_null_mr, op_ptr, PTR, ibv_alloc_null_mr(&pd));
	EACH(reg_dm_mr, op_ptr, PTR, ibv_reg_dm_mr(&pd, &dm, 0, 0, 0));
	EACH(create_cq_ex, op_ptr, PTR, ibv_create_cq_ex(ctx, NULL));
	EACH(modify_cq, op_int, INT, ibv_modify_cq(&cq, NULL));
	EACH(create_srq_ex, op_ptr, PTR, ibv_create_srq_ex(ctx, &srq_attr));
	EACH(get_srq_num, op_int, INT, ibv_get_srq_num(&srq, &num));
	EACH(post_srq_ops, op_int, INT, ibv_post_srq_ops(&srq, &op, &bad));
	EACH(create_qp_ex, op_ptr, PTR, ibv_create_qp_ex(ctx, &qp_attr));
	EACH(open_qp, op_ptr, PTR, ibv_open_qp(ctx, NULL));
	EACH(modify_qp_rate_limit, op_int, INT, ibv_modify_qp_rate_limit(&qp, NULL));
	EACH(alloc_td, op_ptr, PTR, ibv_alloc_td(ctx, NULL));
	EACH(dealloc_td, op_int, INT, ibv_dealloc_td(&td));
	EACH(alloc_parent_domain, op_ptr, PTR, ibv_alloc_parent_domain(ctx, NULL));
	EACH(create_wq, op_wq, INT, ibv_create_wq(ctx, &wq_attr) == NULL);
	EACH(modify_wq, op_int, INT, ibv_modify_wq(&wq, NULL));
	EACH(destroy_wq, op_int, INT, ibv_destroy_wq(&wq));
	EACH(create_rwq_ind_table, op_ptr, PTR, ibv_create_rwq_ind_table(ctx, NULL));
	EACH(destroy_rwq_ind_table, op_int, INT, ibv_destroy_rwq_ind_table(&table));
	EACH(create_counters, op_ptr, PTR, ibv_create_counters(ctx, NULL));
	EACH(destroy_counters, op_int, INT, ibv_destroy_counters(&counters));
	EACH(attach_counters_point_flow, op_int, INT,
	     ibv_attach_counters_point_flow(&counters, NULL, NULL));
	EACH(read_counters, op_int, INT, ibv_read_counters(&counters, NULL, 0, 0));
	printf("bad_op set: %d\n", bad == &op);
}

static void special_cases(void)
{
	struct ibv_query_device_ex_input input = { .comp_mask = 1 };
	struct ibv_device_attr_ex dev = { .orig_attr.max_qp = 77 };
	struct ibv_wq_init_attr wq_attr = { .wq_context = TOKEN(9) };
	struct ibv_srq_init_attr_ex sa = { .attr.max_wr = 5, .pd = TOKEN(7) };
	struct ibv_qp_init_attr_ex qa = { .qp_type = IBV_QPT_UD, .pd = TOKEN(7) };

	fresh(0);
	SLOT(query_device_ex, op_int);
	printf("device_ex:");
	INT(ibv_query_device_ex(ctx, &input, &dev));
	for (size_t i = 0; i < 4; i++) {
		const int results[] = { 0, EOPNOTSUPP, ENOSYS, EINVAL };

		answer = results[i];
		dev.orig_attr.max_qp = 77;
		INT(ibv_query_device_ex(ctx, NULL, &dev));
	}
	fresh(0);
	SLOT(create_wq, op_wq);
	answer = 0;
	printf("\nwq: %d %p %u", ibv_create_wq(ctx, &wq_attr) == &the_wq, the_wq.wq_context,
	       the_wq.events_completed);
	printf(" lock %d\n", pthread_mutex_trylock(&the_wq.mutex));

	SLOT(create_srq_ex, op_ptr);
	SLOT(create_qp_ex, op_ptr);
	for (uint32_t mask = 0; mask < 64; mask++) {
		for (int type = 0; type < 3; type++) {
			sa.comp_mask = mask;
			sa.srq_type = (enum ibv_srq_type)type;
			printf("srq mask %u type %d:", mask, type);
			PTR(ibv_create_srq_ex(ctx, &sa));
			printf("\n");
		}
	}
	for (uint32_t mask = 0; mask < 128; mask++) {
		qa.comp_mask = mask;
		printf("qp mask %u:", mask);
		PTR(ibv_create_qp_ex(ctx, &qa));
		printf("\n");
	}
}

static void registration(volatile int access)
{
	printf("reg:");
	PTR(ibv_reg_mr(&pd, TOKEN(8), 10, 0));
	PTR(ibv_reg_mr(&pd, TOKEN(8), 10, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
	PTR(ibv_reg_mr(&pd, TOKEN(8), 10, IBV_ACCESS_RELAXED_ORDERING));
	PTR(ibv_reg_mr(&pd, TOKEN(8), 10, 1 << 29));
	PTR(ibv_reg_mr(&pd, TOKEN(8), 10, 1 << 30));
	PTR(ibv_reg_mr(&pd, TOKEN(8), 10, access));
	PTR(ibv_reg_mr_iova(&pd, TOKEN(8), 10, 0x77, IBV_ACCESS_ZERO_BASED));
	PTR(ibv_reg_mr_iova(&pd, TOKEN(8), 10, 0x77, IBV_ACCESS_RELAXED_ORDERING));
	PTR(ibv_reg_mr_iova(&pd, TOKEN(8), 10, 0x77, access));
	printf("\ngid:");
	INT(ibv_query_gid_ex(ctx, 1, 2, NULL, 3));
	INT(ibv_query_gid_table(ctx, NULL, 4, 5));
	printf("\n");
}

static int op_bind(struct ibv_qp *q, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	printf(" op");
	return 22;
}

static void windows(void)
{
	struct ibv_pd other = { .context = ctx };
	struct ibv_mr mr = { .pd = &pd };
	struct ibv_mw mw = { .context = ctx, .pd = &pd };
	struct ibv_mw_bind bind = { .wr_id = 1 };

	fresh(0);
	printf("mw:");
	PTR(ibv_alloc_mw(&pd, IBV_MW_TYPE_1));
	printf(" errno %d", errno);
	ctx->ops.bind_mw = op_bind;
	for (int i = 0; i < 32; i++) {
		mw.type = i & 1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2;
		bind.bind_info.mr = i & 2 ? &mr : NULL;
		bind.bind_info.addr = i & 4 ? 1 : 0;
		bind.bind_info.length = i & 8 ? 1 : 0;
		mr.pd = i & 16 ? &other : &pd;
		printf("\n bind %d:", i);
		INT(ibv_bind_mw(&qp, &mw, &bind));
	}
	printf("\n");
}

static void arithmetic(void)
{
	struct ib_addr a, b;

	for (uint32_t fl = 0; fl < 1u << 20; fl += 37)
		printf("%x", ibv_flow_label_to_udp_sport(fl));
	printf(" %x\n", ibv_flow_label_to_udp_sport(~0u));
	for (uint64_t key = 0xfe; key <= UINT32_MAX; key = key * 3 + 1)
		printf("%x ", ibv_inc_rkey((uint32_t)key));
	printf("%x %x\n", ibv_inc_rkey(0xff), ibv_inc_rkey(~0u));
	for (int qpt = 2; qpt < 11; qpt++)
		printf("%d%d", ibv_is_qpt_supported(0x114, (enum ibv_qp_type)qpt),
		       ibv_is_qpt_supported(~0u, (enum ibv_qp_type)qpt));
	ib_addr_set(&a, 0, 0, 0, 0);
	printf(" any %d loop %d", ib_addr_any(&a), ib_addr_loopback(&a));
	ib_addr_set(&a, 0, 0, 0, htobe32(1));
	ib_addr_set(&b, htobe32(1), 0, 0, htobe32(1));
	printf(" any %d loop %d %d cmp %d %d %d\n", ib_addr_any(&a), ib_addr_loopback(&a),
	       ib_addr_loopback(&b), ib_addr_cmp(&a, &a), ib_addr_cmp(&a, &b) < 0,
	       ib_addr_cmp(&b, &a) < 0);
}

int main(void)
{
	pd.context = srq.context = qp.context = cq.context = ctx;
	control_path();
	special_cases();
	registration(IBV_ACCESS_LOCAL_WRITE);
	windows();
	arithmetic();
	return 0;
}
