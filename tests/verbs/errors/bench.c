/* SPDX-License-Identifier: BSD-2-Clause */
/* See bench.h. */
#include "bench.h"

#include <arpa/inet.h>
#include <sys/resource.h>
#include <unistd.h>

struct set near, far, gone;
struct world w;
struct ibv_device_attr dev;
uint8_t memory[8192] __attribute__((aligned(4096)));
const uint8_t read_only[64] = { 1 };
struct ibv_qp *q_init, *q_rtr, *q_rts, *q_ud, *q_srq, *q_xrc, *q_group, *q_no_reads;
struct ibv_qp_ex *x_init, *x_rts, *x_ud, *x_xrc;
struct ibv_pd *other_pd, *dead_pd;
struct ibv_mr *windowed, *other_mr, *dm_mr;
struct ibv_mw *bound, *mw_2;
struct ibv_ah *other_ah, *destroyed_ah;
struct ibv_cq *xrc_cq;
struct ibv_srq *xrc_srq;
struct ibv_qp *xrc_qp;
struct ibv_xrcd *file_domain;
int plain_fd, domain_fd;
uint32_t rcv_qpn;
union ibv_gid group;
struct ibv_port_attr port;
struct ibv_gid_entry gid_entry;
union ibv_gid gid;
__be16 pkey;
struct ibv_async_event event;
struct ibv_buf *buf;
struct ibv_wc wc;
struct ibv_wc wc_grh = { .wc_flags = IBV_WC_GRH };
struct ibv_cq *which;
void *context;
uint32_t number;
struct ibv_srq_attr srq_attr;
struct ibv_qp_attr attr;
struct ibv_qp_init_attr init_attr;
struct ibv_ah_attr ah_attr;
uint8_t mac[6];
struct ibv_send_wr *bad_send;
struct ibv_recv_wr *bad_recv;
struct ibv_sge sge, long_sge, huge_sge[9];
void *volatile nothing;
struct ibv_flow_attr flow_attr = { .type = IBV_FLOW_ATTR_ALL_DEFAULT, .size = sizeof(flow_attr),
				   .port = 1 };
const struct ibv_data_buf huge_data[2] = { { memory, SIZE_MAX }, { memory, 8 } };

int list_without_count(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	ibv_free_device_list(list);
	return list != NULL;
}

/* Leaves no free descriptor below the limit; returns the old limit. */
static struct rlimit exhaust_descriptors(void)
{
	struct rlimit old, none;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = old;
	none.rlim_cur = 0;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	return old;
}

struct ibv_context *open_without_descriptors(void)
{
	struct rlimit old = exhaust_descriptors();
	struct ibv_context *ctx = ibv_open_device(near.ctx->device);

	setrlimit(RLIMIT_NOFILE, &old);
	return ctx;
}

struct ibv_comp_channel *channel_without_descriptors(void)
{
	struct rlimit old = exhaust_descriptors();
	struct ibv_comp_channel *channel = ibv_create_comp_channel(near.ctx);

	setrlimit(RLIMIT_NOFILE, &old);
	return channel;
}

/* The exported call; the macro of that name reads the context first. */
#pragma push_macro("ibv_query_port")
#undef ibv_query_port
int query_port_of_none(void)
{
	return ibv_query_port(NULL, 1, (struct _compat_ibv_port_attr *)&port);
}
#pragma pop_macro("ibv_query_port")

int async_event_at_once(void)
{
	int flags = fcntl(near.ctx->async_fd, F_GETFL), ret;

	fcntl(near.ctx->async_fd, F_SETFL, flags | O_NONBLOCK);
	ret = ibv_get_async_event(near.ctx, &event);
	fcntl(near.ctx->async_fd, F_SETFL, flags);
	return ret;
}

int cq_event_at_once(void)
{
	int flags = fcntl(near.channel->fd, F_GETFL), ret;

	fcntl(near.channel->fd, F_SETFL, flags | O_NONBLOCK);
	ret = ibv_get_cq_event(near.channel, &which, &context);
	fcntl(near.channel->fd, F_SETFL, flags);
	return ret;
}

#define PD_USER(name, make, destroy)                                                               \
	void *name(struct ibv_pd *pd, void *old)                                                   \
	{                                                                                          \
		if (!old)                                                                          \
			return make;                                                               \
		CHECK_EQ(destroy(old), 0);                                                         \
		return NULL;                                                                       \
	}

struct ibv_pd *parent_of(struct ibv_pd *pd, struct ibv_td *td, uint32_t comp_mask)
{
	struct ibv_parent_domain_init_attr a = { .pd = pd, .td = td, .comp_mask = comp_mask };

	return ibv_alloc_parent_domain(near.ctx, &a);
}

PD_USER(make_mr, ibv_alloc_null_mr(pd), ibv_dereg_mr)
PD_USER(make_mw, ibv_alloc_mw(pd, IBV_MW_TYPE_1), ibv_dealloc_mw)
PD_USER(make_ah, ibv_create_ah(pd, AH_ATTR(.sl = 0)), ibv_destroy_ah)
PD_USER(make_qp, ibv_create_qp(pd, QP_ATTR(.sq_sig_all = 0)), ibv_destroy_qp)
PD_USER(make_srq, ibv_create_srq(pd, SRQ_ATTR(.max_wr = 1)), ibv_destroy_srq)
PD_USER(make_parent, parent_of(pd, NULL, 0), ibv_dealloc_pd)

int dealloc_pd_with(pd_user_fn *user)
{
	struct ibv_pd *pd = ibv_alloc_pd(near.ctx);
	void *object = user(pd, NULL);
	int ret;

	CHECK(object);
	ret = ibv_dealloc_pd(pd);
	user(pd, object);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	return ret;
}

int dealloc_td_with_parent(void)
{
	struct ibv_td *td = ibv_alloc_td(near.ctx, &(struct ibv_td_init_attr){ 0 });
	struct ibv_pd *parent = parent_of(near.pd, td, 0);
	int ret = ibv_dealloc_td(td);

	CHECK_EQ(ibv_dealloc_pd(parent), 0);
	CHECK_EQ(ibv_dealloc_td(td), 0);
	return ret;
}

/* Takes the QP to a state, with the required attributes. */
int move(struct ibv_qp *qp, enum ibv_qp_state next)
{
	struct ibv_qp_attr a;
	int mask = world_attr(&w, qp->qp_type, next, qp->qp_num, &a);
	enum ibv_qp_state before = qp->state;
	int ret = ibv_modify_qp(qp, &a, mask);

	CHECK_EQ(qp->state, before);
	return ret;
}

int modify_rcv_qp(enum ibv_qp_state next, int mask)
{
	struct ibv_qp_attr a;
	int ret;

	world_attr(&w, IBV_QPT_XRC_RECV, next, 7, &a);
	ret = ibv_modify_xrc_rcv_qp(XRC_DOMAIN, rcv_qpn, &a, mask);
	CHECK_EQ(ibv_query_xrc_rcv_qp(XRC_DOMAIN, rcv_qpn, &a, IBV_QP_STATE, &init_attr), 0);
	CHECK_EQ(a.qp_state, IBV_QPS_RESET);
	return ret;
}

int try_send(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	int ret;

	bad_send = NULL;
	ret = ibv_post_send(qp, wr, &bad_send);
	CHECK(!ret || bad_send == wr);
	return ret;
}

int try_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr)
{
	int ret;

	bad_recv = NULL;
	ret = ibv_post_recv(qp, wr, &bad_recv);
	CHECK(!ret || bad_recv == wr);
	return ret;
}

int try_srq(struct ibv_srq *srq, struct ibv_recv_wr *wr)
{
	int ret;

	bad_recv = NULL;
	ret = ibv_post_srq_recv(srq, wr, &bad_recv);
	CHECK(!ret || bad_recv == wr);
	return ret;
}

int tag_operation(struct ibv_srq *srq)
{
	struct ibv_ops_wr wr = { .opcode = IBV_WR_TAG_SYNC }, *bad = NULL;
	int ret = ibv_post_srq_ops(srq, &wr, &bad);

	CHECK(!ret || bad == &wr);
	return ret;
}

int overcrowded_group(void)
{
	enum { MANY = 4096 };
	static struct ibv_qp *members[MANY];
	int n = dev.max_mcast_qp_attach - 1, ret = 0;	/* q_group is attached already */

	CHECK(n < MANY);
	for (int i = 0; i <= n; i++) {
		CHECK((members[i] = QP(.qp_type = IBV_QPT_UD)));
		ret = ibv_attach_mcast(members[i], &group, 0);
		CHECK(i == n || !ret);
	}
	for (int i = 0; i <= n; i++) {
		CHECK(i == n || !ibv_detach_mcast(members[i], &group, 0));
		CHECK_EQ(ibv_destroy_qp(members[i]), 0);
	}
	return ret;
}

static void fill_set(struct set *s, struct ibv_context *ctx)
{
	struct ibv_alloc_dm_attr dm = { .length = 4096 };
	struct ibv_xrcd_init_attr x = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1, .oflags = O_CREAT,
	};
	struct ibv_parent_domain_init_attr parent;
	struct ibv_qp_init_attr qp = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 2, 2, 0 } };

	s->ctx = ctx;
	CHECK((s->pd = ibv_alloc_pd(ctx)));
	CHECK((s->td = ibv_alloc_td(ctx, &(struct ibv_td_init_attr){ 0 })));
	parent = (struct ibv_parent_domain_init_attr){ .pd = s->pd, .td = s->td };
	CHECK((s->parent = ibv_alloc_parent_domain(ctx, &parent)));
	CHECK((s->channel = ibv_create_comp_channel(ctx)));
	CHECK((s->cq = ibv_create_cq(ctx, 64, NULL, s->channel, 0)));
	CHECK((s->srq = ibv_create_srq(s->pd, SRQ_ATTR(.max_wr = 16, .max_sge = 2))));
	qp.send_cq = qp.recv_cq = s->cq;
	CHECK((s->qp = ibv_create_qp(s->pd, &qp)));
	CHECK((s->mr = ibv_reg_mr(s->pd, memory, sizeof(memory),
				  WORLD_ACCESS | IBV_ACCESS_MW_BIND)));
	CHECK((s->mw = ibv_alloc_mw(s->pd, IBV_MW_TYPE_1)));
	CHECK((s->ah = ibv_create_ah(s->pd, AH_ATTR(.sl = 0))));
	CHECK((s->dm = ibv_alloc_dm(ctx, &dm)));
	CHECK((s->xrcd = ibv_open_xrcd(ctx, &x)));
}

static void empty_set(struct set *s)
{
	CHECK_EQ(ibv_close_xrcd(s->xrcd), 0);
	CHECK_EQ(ibv_free_dm(s->dm), 0);
	CHECK_EQ(ibv_destroy_ah(s->ah), 0);
	CHECK_EQ(ibv_dealloc_mw(s->mw), 0);
	CHECK_EQ(ibv_dereg_mr(s->mr), 0);
	CHECK_EQ(ibv_destroy_qp(s->qp), 0);
	CHECK_EQ(ibv_destroy_srq(s->srq), 0);
	CHECK_EQ(ibv_destroy_cq(s->cq), 0);
	CHECK_EQ(ibv_destroy_comp_channel(s->channel), 0);
	CHECK_EQ(ibv_dealloc_pd(s->parent), 0);
	CHECK_EQ(ibv_dealloc_td(s->td), 0);
	CHECK_EQ(ibv_dealloc_pd(s->pd), 0);
}

/* Closes a context with all its objects, which then return errors and do no harm. */
static void close_with_objects(struct set *s)
{
	fill_set(s, ibv_open_device(w.ctx->device));
	CHECK_EQ(ibv_close_device(s->ctx), 0);
}

/* A domain that was deallocated through another context on the same file. */
static struct ibv_pd *domain_gone_elsewhere(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(near.ctx), *other;
	struct ibv_context *twin = ibv_import_device(dup(near.ctx->cmd_fd));

	CHECK(pd && twin);
	CHECK((other = ibv_import_pd(twin, pd->handle)));
	CHECK_EQ(ibv_dealloc_pd(other), 0);
	CHECK_EQ(ibv_close_device(twin), 0);
	return pd;
}

static struct ibv_qp *qp_in(enum ibv_qp_type type, enum ibv_qp_state state)
{
	struct ibv_qp *qp = QP(.qp_type = type, .cap = { 4, 4, 2, 2, 16 });

	CHECK(qp);
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= state; s++)
		world_move(&w, qp, s, qp->qp_num);
	return qp;
}

static struct ibv_qp_ex *ex_in(enum ibv_qp_type type, enum ibv_qp_state state, uint64_t ops)
{
	struct ibv_qp *qp = QP_EX(.qp_type = type, .comp_mask = SEND_OPS, .send_ops_flags = ops,
				  .cap = { 4, 4, 2, 2, 16 });

	CHECK(qp);
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= state; s++)
		world_move(&w, qp, s, qp->qp_num);
	return ibv_qp_to_qp_ex(qp);
}

static void make_queue_pairs(void)
{
	struct ibv_qp_attr a;
	int mask;

	q_init = qp_in(IBV_QPT_RC, IBV_QPS_INIT);
	q_rtr = qp_in(IBV_QPT_RC, IBV_QPS_RTR);
	q_rts = qp_in(IBV_QPT_RC, IBV_QPS_RTS);
	q_ud = qp_in(IBV_QPT_UD, IBV_QPS_RTS);
	q_group = qp_in(IBV_QPT_UD, IBV_QPS_RTS);
	q_xrc = qp_in(IBV_QPT_XRC_SEND, IBV_QPS_INIT);
	CHECK((q_srq = QP(.srq = near.srq)));
	world_move(&w, q_srq, IBV_QPS_INIT, 0);
	q_no_reads = qp_in(IBV_QPT_RC, IBV_QPS_RTR);
	mask = world_attr(&w, IBV_QPT_RC, IBV_QPS_RTS, 0, &a);
	a.max_rd_atomic = 0;
	CHECK_EQ(ibv_modify_qp(q_no_reads, &a, mask), 0);
	x_init = ex_in(IBV_QPT_RC, IBV_QPS_INIT, IBV_QP_EX_WITH_SEND);
	x_rts = ex_in(IBV_QPT_RC, IBV_QPS_RTS,
		      IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD);
	x_ud = ex_in(IBV_QPT_UD, IBV_QPS_RTS, IBV_QP_EX_WITH_SEND);
	x_xrc = ex_in(IBV_QPT_XRC_SEND, IBV_QPS_RTS, IBV_QP_EX_WITH_SEND);
	CHECK_EQ(inet_pton(AF_INET6, "::ffff:239.77.3.3", group.raw), 1);
	CHECK_EQ(ibv_attach_mcast(q_group, &group, 0), 0);
}

static void make_memory(void)
{
	struct ibv_mw_bind bind = {
		.wr_id = 1,
		.send_flags = IBV_SEND_SIGNALED,
	};

	CHECK((other_pd = ibv_alloc_pd(near.ctx)));
	CHECK((other_mr = ibv_reg_mr(other_pd, memory, sizeof(memory), IBV_ACCESS_MW_BIND)));
	CHECK((other_ah = ibv_create_ah(other_pd, AH_ATTR(.sl = 0))));
	CHECK((destroyed_ah = AH(.sl = 0)));
	CHECK_EQ(ibv_destroy_ah(destroyed_ah), 0);
	CHECK((windowed = ibv_reg_mr(near.pd, memory, sizeof(memory),
				     WORLD_ACCESS | IBV_ACCESS_MW_BIND)));
	CHECK((bound = ibv_alloc_mw(near.pd, IBV_MW_TYPE_1)));
	CHECK((mw_2 = ibv_alloc_mw(near.pd, IBV_MW_TYPE_2)));
	bind.bind_info = (struct ibv_mw_bind_info){ windowed, (uintptr_t)memory, 64,
						    IBV_ACCESS_REMOTE_READ };
	CHECK_EQ(ibv_bind_mw(q_rts, bound, &bind), 0);
	world_expect(near.cq, 1, IBV_WC_SUCCESS);
	CHECK((dm_mr = ibv_reg_dm_mr(near.pd, near.dm, 0, 64, IBV_ACCESS_ZERO_BASED)));
	sge = (struct ibv_sge){ (uintptr_t)memory, 8, near.mr->lkey };
	long_sge = (struct ibv_sge){ (uintptr_t)memory, sizeof(memory), near.mr->lkey };
	for (int i = 0; i < 9; i++)
		huge_sge[i] = (struct ibv_sge){ (uintptr_t)memory, 3u << 30, near.mr->lkey };
}

static int temporary_file(void)
{
	char name[] = "/tmp/verbena-errors-XXXXXX";
	int fd = mkstemp(name);

	CHECK(fd >= 0);
	unlink(name);
	return fd;
}

static void make_xrc(void)
{
	struct ibv_qp_init_attr rcv = { .xrc_domain = XRC_DOMAIN };

	plain_fd = temporary_file();
	domain_fd = temporary_file();
	CHECK((file_domain = XRCD(.fd = domain_fd, .oflags = O_CREAT)));
	xrc_cq = world_cq(&w, 4);
	CHECK((xrc_srq = SRQ_EX(.comp_mask = XRC_SRQ, .srq_type = IBV_SRQT_XRC,
				.xrcd = near.xrcd, .cq = xrc_cq)));
	CHECK((xrc_qp = QP_EX(.comp_mask = IBV_QP_INIT_ATTR_XRCD, .qp_type = IBV_QPT_XRC_RECV,
			      .xrcd = near.xrcd)));
	CHECK_EQ(ibv_create_xrc_rcv_qp(&rcv, &rcv_qpn), 0);
}

void bench_open(void)
{
	setenv("VERBENA_LOG", "error", 0);	/* keeps the expected errors out of the log */
	world_open(&w);
	CHECK_EQ(ibv_query_device(w.ctx, &dev), 0);
	CHECK_EQ(ibv_query_port(w.ctx, 1, &port), 0);
	close_with_objects(&gone);
	fill_set(&near, w.ctx);
	fill_set(&far, ibv_open_device(w.ctx->device));
	make_xrc();
	make_queue_pairs();
	make_memory();
	dead_pd = domain_gone_elsewhere();
}

void bench_close(void)
{
	struct ibv_qp *qps[] = { q_init, q_rtr, q_rts, q_ud, q_srq, q_xrc, q_group, q_no_reads,
				 &x_init->qp_base, &x_rts->qp_base, &x_ud->qp_base,
				 &x_xrc->qp_base, xrc_qp };

	ibv_unimport_pd(dead_pd);
	CHECK_EQ(ibv_dereg_mr(dm_mr), 0);
	CHECK_EQ(ibv_dealloc_mw(mw_2), 0);
	CHECK_EQ(ibv_dealloc_mw(bound), 0);
	CHECK_EQ(ibv_dereg_mr(windowed), 0);
	CHECK_EQ(ibv_destroy_ah(other_ah), 0);
	CHECK_EQ(ibv_dereg_mr(other_mr), 0);
	CHECK_EQ(ibv_dealloc_pd(other_pd), 0);
	CHECK_EQ(ibv_detach_mcast(q_group, &group, 0), 0);
	for (size_t i = 0; i < sizeof(qps) / sizeof(qps[0]); i++)
		CHECK_EQ(ibv_destroy_qp(qps[i]), 0);
	CHECK_EQ(ibv_unreg_xrc_rcv_qp(XRC_DOMAIN, rcv_qpn), 0);
	CHECK_EQ(ibv_destroy_srq(xrc_srq), 0);
	CHECK_EQ(ibv_destroy_cq(xrc_cq), 0);
	CHECK_EQ(ibv_close_xrcd(file_domain), 0);
	empty_set(&far);
	CHECK_EQ(ibv_close_device(far.ctx), 0);
	empty_set(&near);
	world_close(&w);
	close(plain_fd);
	close(domain_fd);
}
