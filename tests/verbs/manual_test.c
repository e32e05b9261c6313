/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Statements of the manual pages that no other test shows, one row each: the page, what it says,
 * and the function that tries it.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>

#include "util/compiler.h"
#include "world.h"

enum { LEN = 4096 };

static struct world w;
static struct ibv_cq *cq;
static struct buffer buf, target;

/* A connected pair of which a posts. */
static struct ibv_qp *a, *b;

static void connect_pair(void)
{
	a = world_qp(&w, IBV_QPT_RC, cq, NULL);
	b = world_qp(&w, IBV_QPT_RC, cq, NULL);
	world_connect(&w, a, b);
}

static void disconnect_pair(void)
{
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
}

static struct ibv_srq *make_srq(uint32_t limit)
{
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = 8, .max_sge = 1, .srq_limit = limit },
	};
	struct ibv_srq *srq = ibv_create_srq(w.pd, &attr);

	CHECK(srq);
	return srq;
}

static void post_srq(struct ibv_srq *srq, uint64_t wr_id, struct ibv_sge sge)
{
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
}

static enum ibv_wc_status write_with_key(uint32_t rkey)
{
	struct ibv_sge sge = world_sge(&buf, 0, 8);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 3, &sge, &target, 0);
	struct ibv_wc wc;

	connect_pair();
	wr.wr.rdma.rkey = rkey;
	world_post(a, &wr);
	world_poll(cq, &wc, 1);
	disconnect_pair();
	while (world_has_event(&w)) {
		struct ibv_async_event e;

		CHECK_EQ(ibv_get_async_event(w.ctx, &e), 0);
		ibv_ack_async_event(&e);
	}
	return wc.status;
}

static void srq_ignores_receive_sizes(void)
{
	struct ibv_srq *srq = make_srq(0);
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_send_sge = 1, .max_recv_wr = UINT32_MAX,
			 .max_recv_sge = UINT32_MAX },
	};
	struct ibv_qp_init_attr_ex ex = {
		.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_UD, .pd = w.pd,
		.cap = attr.cap, .comp_mask = IBV_QP_INIT_ATTR_PD,
	};
	struct ibv_qp *qp = ibv_create_qp(w.pd, &attr), *ud = ibv_create_qp_ex(w.ctx, &ex);

	CHECK(qp && ud);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_qp(ud), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
}

/* 0: requests that are flagged complete; 1: all do. ibv_query_qp() returns it, too. */
static void sq_sig_all(void)
{
	for (int all = 0; all < 2; all++) {
		struct ibv_qp_init_attr attr = {
			.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = all,
			.qp_context = &w, .cap = { .max_send_wr = 4, .max_send_sge = 1 },
		}, init;
		struct ibv_qp *qp = ibv_create_qp(w.pd, &attr);
		struct ibv_sge sge = world_sge(&buf, 0, 8);
		struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 1, &sge, &target, 0);
		struct ibv_qp_attr state;

		CHECK(qp);
		world_connect(&w, qp, qp);
		CHECK_EQ(ibv_query_qp(qp, &state, IBV_QP_STATE, &init), 0);
		CHECK_EQ(init.sq_sig_all, all);
		CHECK(init.qp_context == &w && qp->qp_context == &w);
		wr.send_flags = 0;
		world_post(qp, &wr);
		wr.wr_id = 2;
		wr.send_flags = IBV_SEND_SIGNALED;
		world_post(qp, &wr);
		if (all)
			world_expect(cq, 1, IBV_WC_SUCCESS);
		world_expect(cq, 2, IBV_WC_SUCCESS);
		CHECK_EQ(ibv_destroy_qp(qp), 0);
	}
}

static void limit_at_creation(void)
{
	struct ibv_srq *srq = make_srq(4);
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, srq);
	struct ibv_srq_attr attr;
	struct ibv_wc wc[2];

	world_connect(&w, qp, qp);
	CHECK_EQ(ibv_query_srq(srq, &attr), 0);
	CHECK_EQ(attr.srq_limit, 0);
	for (int i = 0; i < 4; i++)
		post_srq(srq, i, world_sge(&target, 0, 64));
	world_send(qp, 9, world_sge(&buf, 0, 64));
	world_poll(cq, wc, 2);
	CHECK(!world_has_event(&w));
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
}

/* It names the present state as the next one; the kernel knows no transition from RTR to RTR. */
static void empty_mask(void)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };
	static const enum ibv_qp_state way[] = { IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
						 IBV_QPS_RTS,	IBV_QPS_SQD,  IBV_QPS_ERR };
	struct ibv_qp_attr nothing = { .qp_state = IBV_QPS_ERR, .qkey = 5, .timeout = 3 };

	for (size_t t = 0; t < ARRAY_SIZE(types); t++) {
		struct ibv_qp *qp = world_qp(&w, types[t], cq, NULL);

		for (size_t s = 0; s < ARRAY_SIZE(way); s++) {
			struct ibv_qp_attr before, after;
			struct ibv_qp_init_attr init;

			if (s)
				world_move(&w, qp, way[s], qp->qp_num);
			CHECK_EQ(ibv_query_qp(qp, &before, IBV_QP_STATE, &init), 0);
			CHECK_EQ(ibv_modify_qp(qp, &nothing, 0),
				 way[s] == IBV_QPS_RTR ? EINVAL : 0);
			CHECK_EQ(ibv_query_qp(qp, &after, IBV_QP_STATE, &init), 0);
			CHECK_EQ(qp->state, way[s]);
			CHECK_MEM(&before, &after, sizeof(after));
		}
		CHECK_EQ(ibv_destroy_qp(qp), 0);
	}
}

/* The table of required attributes names neither for datagrams, and the kernel refuses both. */
static void datagram_transitions(void)
{
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_UD, cq, NULL);
	struct ibv_qp_attr attr;
	int mask = world_attr(&w, IBV_QPT_UD, IBV_QPS_INIT, 0, &attr);

	CHECK_EQ(ibv_modify_qp(qp, &attr, mask | IBV_QP_ACCESS_FLAGS), EINVAL);
	CHECK_EQ(ibv_modify_qp(qp, &attr, mask), 0);
	mask = world_attr(&w, IBV_QPT_UD, IBV_QPS_RTR, 0, &attr);
	attr.path_mtu = IBV_MTU_1024;
	CHECK_EQ(ibv_modify_qp(qp, &attr, mask | IBV_QP_PATH_MTU), EINVAL);
	CHECK_EQ(ibv_modify_qp(qp, &attr, mask), 0);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

static void srq_attributes_stay(void)
{
	struct ibv_srq *srq = make_srq(0);
	struct ibv_srq_attr attr = { .max_wr = 33, .max_sge = 77, .srq_limit = 2 };

	CHECK_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0);
	CHECK_EQ(attr.max_wr, 33);
	CHECK_EQ(attr.max_sge, 77);	/* irrelevant for this call */
	CHECK_EQ(ibv_query_srq(srq, &attr), 0);
	CHECK(attr.max_wr >= 33 && attr.max_sge < 77 && attr.srq_limit == 2);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
}

static void fresh_windows_are_closed(void)
{
	for (enum ibv_mw_type type = IBV_MW_TYPE_1; type <= IBV_MW_TYPE_2; type++) {
		struct ibv_mw *mw = ibv_alloc_mw(w.pd, type);

		CHECK(mw && mw->pd == w.pd && mw->context == w.ctx && mw->type == type);
		CHECK_EQ(write_with_key(mw->rkey), IBV_WC_REM_ACCESS_ERR);
		CHECK_EQ(ibv_dealloc_mw(mw), 0);
	}
}

/* Through a QP of any type that can bind, fenced; the key then serves every QP of the domain. */
static void type_1_by_qp_type(void)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_XRC_SEND };
	struct ibv_mr *mr = ibv_reg_mr(w.pd, target.data, LEN,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);

	CHECK(mr);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct ibv_qp *qp = world_qp(&w, types[i], cq, NULL);
		struct ibv_mw *mw = ibv_alloc_mw(w.pd, IBV_MW_TYPE_1);
		struct ibv_mw_bind bind = {
			.wr_id = 8,
			.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE,
			.bind_info = { mr, (uintptr_t)target.data, 64, IBV_ACCESS_REMOTE_WRITE },
		};

		CHECK(mw);
		world_connect(&w, qp, qp);
		CHECK_EQ(ibv_bind_mw(qp, mw, &bind), 0);
		CHECK_EQ(world_expect(cq, 8, IBV_WC_SUCCESS).opcode, IBV_WC_BIND_MW);
		CHECK_EQ(write_with_key(mw->rkey), IBV_WC_SUCCESS);
		CHECK_EQ(ibv_dereg_mr(mr), EBUSY);
		CHECK_EQ(ibv_dealloc_mw(mw), 0);	/* unbinds it */
		CHECK_EQ(ibv_destroy_qp(qp), 0);
	}
	CHECK_EQ(ibv_dereg_mr(mr), 0);
}

/* The program takes back the key that a failed bind has set; the window is as it was. */
static void failed_bind_keeps_the_window(void)
{
	struct ibv_mr *mr = ibv_reg_mr(w.pd, target.data, LEN,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(w.pd, IBV_MW_TYPE_1);
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, NULL);
	struct ibv_mw_bind bind = {
		.wr_id = 8,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { mr, (uintptr_t)target.data, 64, IBV_ACCESS_REMOTE_WRITE },
	};
	uint32_t key;

	CHECK(mr && mw);
	world_connect(&w, qp, qp);
	CHECK_EQ(ibv_bind_mw(qp, mw, &bind), 0);
	world_expect(cq, 8, IBV_WC_SUCCESS);
	key = mw->rkey;
	bind.bind_info.length = LEN + 1;
	CHECK_EQ(ibv_bind_mw(qp, mw, &bind), 0);
	CHECK(mw->rkey != key);
	world_expect(cq, 8, IBV_WC_MW_BIND_ERR);
	mw->rkey = key;
	CHECK_EQ(write_with_key(key), IBV_WC_SUCCESS);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
}

/* The peer that receives a key in a message can use it, though nobody has polled the bind. */
static void key_sent_after_its_bind(void)
{
	struct ibv_mr *mr = ibv_reg_mr(w.pd, target.data, LEN,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(w.pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {
		.bind_info = { mr, (uintptr_t)target.data, 64, IBV_ACCESS_REMOTE_WRITE },
	};
	struct ibv_sge sge = world_sge(&buf, 0, sizeof(mw->rkey));
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };
	uint32_t key;

	CHECK(mr && mw);
	connect_pair();
	world_recv(b, 1, world_sge(&buf, 64, sizeof(key)));
	CHECK_EQ(ibv_bind_mw(a, mw, &bind), 0);
	memcpy(buf.data, &mw->rkey, sizeof(mw->rkey));
	world_post(a, &wr);
	world_expect(cq, 1, IBV_WC_SUCCESS);
	memcpy(&key, buf.data + 64, sizeof(key));
	sge = world_sge(&buf, 0, 8);
	wr = world_rdma(IBV_WR_RDMA_WRITE, 3, &sge, &target, 0);
	wr.wr.rdma.rkey = key;
	world_post(b, &wr);
	world_expect(cq, 3, IBV_WC_SUCCESS);
	disconnect_pair();
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
}

/* Offsets from the region's start as local and as remote addresses; atomics, too. */
static void device_memory_by_offset(void)
{
	struct ibv_alloc_dm_attr attr = { .length = 256, .log_align_req = 6 };
	struct ibv_dm *dm = ibv_alloc_dm(w.ctx, &attr);
	struct ibv_mr *mr = ibv_reg_dm_mr(w.pd, dm, 64, 128, WORLD_ACCESS | IBV_ACCESS_ZERO_BASED);
	struct ibv_sge sge = { 16, 8, mr->lkey };	/* 80 in the device memory */
	struct ibv_send_wr wr = {
		.wr_id = 1, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.wr.atomic = { .remote_addr = 8, .compare_add = 2, .rkey = mr->rkey },
	};
	uint64_t in[] = { 40, 0 }, out[2];
	struct ibv_wc wc[2];

	CHECK(dm && mr);
	connect_pair();
	CHECK_EQ(ibv_memcpy_to_dm(dm, 72, in, sizeof(in)), 0);
	world_post(a, &wr);
	world_expect(cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_memcpy_from_dm(out, dm, 72, sizeof(out)), 0);
	CHECK_EQ(out[0], 42);
	CHECK_EQ(out[1], 40);	/* the result */
	world_recv(b, 2, (struct ibv_sge){ 32, 16, mr->lkey });
	world_send(a, 2, (struct ibv_sge){ 8, 16, mr->lkey });
	world_poll(cq, wc, 2);
	CHECK(!wc[0].status && !wc[1].status);
	CHECK_EQ(ibv_memcpy_from_dm(in, dm, 96, sizeof(in)), 0);
	CHECK_MEM(in, out, sizeof(in));
	disconnect_pair();
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK_EQ(ibv_free_dm(dm), 0);
}

static void imported_region_has_no_address(void)
{
	struct ibv_mr *twin = ibv_import_mr(w.pd, target.mr->handle);

	CHECK(twin);
	CHECK(!twin->addr);
	CHECK(twin->pd == w.pd && twin->context == w.ctx);
	ibv_unimport_mr(twin);
	CHECK_EQ(write_with_key(target.mr->rkey), IBV_WC_SUCCESS);
}

/* What is made with the imported domain works together with what was made with the original. */
static void imported_domain_serves_all_verbs(void)
{
	struct ibv_pd *twin = ibv_import_pd(w.ctx, w.pd->handle), *own = w.pd;
	struct ibv_ah_attr ah_attr = {
		.grh = { .dgid = w.gid, .sgid_index = w.gid_index, .hop_limit = 1 },
		.is_global = 1,
		.port_num = 1,
	};
	struct ibv_ah *ah;
	struct ibv_mw *mw;
	struct ibv_qp *qp;
	struct ibv_srq *srq;
	struct buffer mine;

	CHECK(twin && twin != own);
	w.pd = twin;
	mine = world_buffer(&w, 64, WORLD_ACCESS);
	srq = make_srq(0);
	qp = world_qp(&w, IBV_QPT_RC, cq, srq);
	CHECK((ah = ibv_create_ah(twin, &ah_attr)));
	CHECK((mw = ibv_alloc_mw(twin, IBV_MW_TYPE_1)));
	world_connect(&w, qp, qp);
	post_srq(srq, 1, world_sge(&target, 0, 64));
	world_send(qp, 1, world_sge(&mine, 0, 64));
	world_expect(cq, 1, IBV_WC_SUCCESS);
	world_expect(cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	world_free(&mine);
	w.pd = own;
	ibv_unimport_pd(twin);
}

static void null_region_has_no_rkey(void)
{
	struct ibv_mr *null = ibv_alloc_null_mr(w.pd);
	struct ibv_mw *mw = ibv_alloc_mw(w.pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {
		.wr_id = 8,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { null, 0, 64, IBV_ACCESS_REMOTE_READ },
	};
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, NULL);

	CHECK(null && mw);
	CHECK_EQ(write_with_key(null->rkey), IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(write_with_key(null->lkey), IBV_WC_REM_ACCESS_ERR);
	world_connect(&w, qp, qp);
	CHECK_EQ(ibv_bind_mw(qp, mw, &bind), 0);
	world_expect(cq, 8, IBV_WC_MW_BIND_ERR);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
	CHECK_EQ(ibv_dereg_mr(null), 0);
}

enum { WAITERS = 4 };

static int each_once[WAITERS];	/* atomic; how often each was named */

static void *get_async_event(void *arg)
{
	struct ibv_qp **qps = arg;
	struct ibv_async_event e;

	CHECK_EQ(ibv_get_async_event(w.ctx, &e), 0);
	CHECK_EQ(e.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
	for (int i = 0; i < WAITERS; i++)
		if (e.element.qp == qps[i])
			__atomic_add_fetch(&each_once[i], 1, __ATOMIC_RELAXED);
	ibv_ack_async_event(&e);
	return NULL;
}

static void start(pthread_t *threads, void *(*run)(void *arg), void *arg)
{
	memset(each_once, 0, sizeof(each_once));
	for (int i = 0; i < WAITERS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, run, arg), 0);
}

static void want_each_once(const pthread_t *threads)
{
	for (int i = 0; i < WAITERS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	for (int i = 0; i < WAITERS; i++)
		CHECK_EQ(each_once[i], 1);
}

static void one_thread_gets_an_async_event(void)
{
	struct ibv_srq *srq = make_srq(0);
	struct ibv_qp *qps[WAITERS];
	pthread_t threads[WAITERS];

	for (int i = 0; i < WAITERS; i++) {
		qps[i] = world_qp(&w, IBV_QPT_RC, cq, srq);
		world_move(&w, qps[i], IBV_QPS_INIT, 0);
	}
	start(threads, get_async_event, qps);
	for (int i = 0; i < WAITERS; i++)
		world_move(&w, qps[i], IBV_QPS_ERR, 0);
	want_each_once(threads);
	CHECK(!world_has_event(&w));
	for (int i = 0; i < WAITERS; i++)
		CHECK_EQ(ibv_destroy_qp(qps[i]), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
}

static void *get_cq_event(void *arg)
{
	struct ibv_cq *named;
	void *context;

	CHECK_EQ(ibv_get_cq_event(arg, &named, &context), 0);
	CHECK(named->cq_context == context);
	__atomic_add_fetch((int *)context, 1, __ATOMIC_RELAXED);
	ibv_ack_cq_events(named, 1);
	return NULL;
}

static void one_thread_gets_a_cq_event(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(w.ctx);
	struct ibv_cq *cqs[WAITERS];
	struct ibv_qp *qps[WAITERS];
	pthread_t threads[WAITERS];

	CHECK(channel);
	for (int i = 0; i < WAITERS; i++) {
		int vector = i % w.ctx->num_comp_vectors;

		cqs[i] = ibv_create_cq(w.ctx, 4, &each_once[i], channel, vector);
		CHECK(cqs[i]);
		CHECK_EQ(ibv_req_notify_cq(cqs[i], 0), 0);
	}
	start(threads, get_cq_event, channel);
	for (int i = 0; i < WAITERS; i++)
		qps[i] = world_flushed(&w, cqs[i], 2);
	want_each_once(threads);
	for (int i = 0; i < WAITERS; i++) {
		CHECK_EQ(ibv_destroy_qp(qps[i]), 0);
		CHECK_EQ(ibv_destroy_cq(cqs[i]), 0);
	}
	CHECK_EQ(ibv_destroy_comp_channel(channel), 0);
}

static void several_events_acknowledged_at_once(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(w.ctx);
	struct ibv_cq *own = ibv_create_cq(w.ctx, 8, NULL, channel, 0), *named;
	void *context;

	CHECK(channel && own);
	for (int i = 0; i < 3; i++) {
		struct ibv_qp *qp;
		struct ibv_wc wc;

		CHECK_EQ(ibv_req_notify_cq(own, 0), 0);
		qp = world_flushed(&w, own, 1);
		CHECK_EQ(ibv_get_cq_event(channel, &named, &context), 0);
		CHECK(named == own);
		world_poll(own, &wc, 1);
		CHECK_EQ(ibv_destroy_qp(qp), 0);
	}
	ibv_ack_cq_events(own, 3);
	CHECK_EQ(ibv_destroy_cq(own), 0);	/* would wait for one that is missing */
	CHECK_EQ(ibv_destroy_comp_channel(channel), 0);
}

static void smaller_queue_keeps_its_entries(void)
{
	struct ibv_cq *own = world_cq(&w, 500);
	struct ibv_qp *qp = world_flushed(&w, own, 6);
	struct ibv_wc wc;

	CHECK_EQ(ibv_resize_cq(own, 6), 0);
	CHECK(own->cqe >= 6);
	for (int i = 0; i < 6; i++)
		world_expect(own, i, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(ibv_poll_cq(own, 1, &wc), 0);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_cq(own), 0);
}

static void datagram_in_a_shared_queue(void)
{
	enum { GRH = 40 };
	struct ibv_srq *srq = make_srq(0);
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_UD, cq, srq);
	struct ibv_ah_attr attr = {
		.grh = { .dgid = w.gid, .sgid_index = w.gid_index, .hop_limit = 1 },
		.is_global = 1,
		.port_num = 1,
	};
	struct ibv_ah *ah = ibv_create_ah(w.pd, &attr);
	struct ibv_sge sge = world_sge(&buf, 0, 64);
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		.wr.ud = { .ah = ah, .remote_qpn = qp->qp_num, .remote_qkey = WORLD_QKEY },
	};
	struct ibv_wc wc;

	CHECK(ah);
	world_connect(&w, qp, qp);
	memset(target.data, 0, GRH + 64);
	post_srq(srq, 4, world_sge(&target, 0, GRH + 64));
	world_post(qp, &wr);
	wc = world_expect(cq, 4, IBV_WC_SUCCESS);
	CHECK_EQ(wc.byte_len, GRH + 64);
	CHECK_EQ(wc.src_qp, qp->qp_num);
	CHECK(wc.wc_flags & IBV_WC_GRH);
	CHECK_MEM(target.data + GRH, buf.data, 64);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
}

/* One READ into as many pieces as the device takes. */
static void read_of_max_sge_rd(void)
{
	struct ibv_device_attr dev;
	struct ibv_qp_init_attr attr = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 1 } };
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_READ, 5, NULL, &target, 0);
	struct ibv_sge *list;
	struct ibv_qp *qp;
	int n;

	CHECK_EQ(ibv_query_device(w.ctx, &dev), 0);
	n = dev.max_sge_rd;
	CHECK(n >= 1 && n <= dev.max_sge && 2 * n * 4 <= LEN);
	attr.cap.max_send_sge = n;
	CHECK((qp = ibv_create_qp(w.pd, &attr)));
	CHECK((list = calloc(n, sizeof(*list))));
	for (int i = 0; i < n; i++)
		list[i] = world_sge(&buf, 8 * i, 4);	/* every second word */
	wr.sg_list = list;
	wr.num_sge = n;
	for (int i = 0; i < LEN; i++)
		target.data[i] = (uint8_t)(i * 5);
	world_connect(&w, qp, qp);
	world_post(qp, &wr);
	CHECK_EQ(world_expect(cq, 5, IBV_WC_SUCCESS).byte_len, 4 * n);
	for (int i = 0; i < n; i++)
		CHECK_MEM(buf.data + 8 * i, target.data + 4 * i, 4);
	free(list);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

/* UC has no packet for it; soft RoCE fails the request, too. */
static void invalidate_on_uc(void)
{
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_UC, cq, NULL);
	struct ibv_sge sge = world_sge(&buf, 0, 8);
	struct ibv_send_wr wr = {
		.wr_id = 6, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_INV,
		.send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = 1,
	};

	world_connect(&w, qp, qp);
	world_post(qp, &wr);
	world_expect(cq, 6, IBV_WC_LOC_QP_OP_ERR);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

static const struct {
	const char *page, *says;
	void (*try)(void);
} statements[] = {
	{ "ibv_create_qp", "max_recv_wr and max_recv_sge are ignored with an SRQ",
	  srq_ignores_receive_sizes },
	{ "ibv_create_qp", "sq_sig_all: each request generates a completion", sq_sig_all },
	{ "ibv_create_srq", "srq_limit is irrelevant", limit_at_creation },
	{ "ibv_modify_qp", "the mask may be 0", empty_mask },
	{ "ibv_modify_qp", "the required attributes of IBV_QPT_UD", datagram_transitions },
	{ "ibv_modify_srq", "max_sge is irrelevant", srq_attributes_stay },
	{ "ibv_alloc_mw", "the window is created not bound", fresh_windows_are_closed },
	{ "ibv_bind_mw", "the QP is UC, RC or XRC_SEND; ibv_dealloc_mw unbinds",
	  type_1_by_qp_type },
	{ "ibv_bind_mw", "restore the old key if the bind fails", failed_bind_keeps_the_window },
	{ "ibv_bind_mw", "the key may be sent on the same QP", key_sent_after_its_bind },
	{ "ibv_alloc_dm", "zero based: a byte offset in an SGE", device_memory_by_offset },
	{ "ibv_import_mr", "the address is NULL", imported_region_has_no_address },
	{ "ibv_import_pd", "can be used in all verbs that get a domain",
	  imported_domain_serves_all_verbs },
	{ "ibv_alloc_null_mr", "not exposed as an rkey; ibv_bind_mw is invalid",
	  null_region_has_no_rkey },
	{ "ibv_get_async_event", "only one thread receives an event",
	  one_thread_gets_an_async_event },
	{ "ibv_get_cq_event", "fills the CQ and its context; one thread receives an event",
	  one_thread_gets_a_cq_event },
	{ "ibv_ack_cq_events", "acknowledges several events",
	  several_events_acknowledged_at_once },
	{ "ibv_resize_cq", "at least the requested size", smaller_queue_keeps_its_entries },
	{ "ibv_post_srq_recv", "the data of a datagram starts at offset 40",
	  datagram_in_a_shared_queue },
	{ "ibv_post_send", "IBV_WR_SEND_WITH_INV on IBV_QPT_UC: not so", invalidate_on_uc },
	{ "ibv_query_device", "max_sge_rd", read_of_max_sge_rd },
};

int main(void)
{
	world_open(&w);
	cq = world_cq(&w, 64);
	buf = world_buffer(&w, LEN, WORLD_ACCESS);
	target = world_buffer(&w, LEN, WORLD_ACCESS);
	for (size_t i = 0; i < ARRAY_SIZE(statements); i++) {
		printf("%s(3): %s\n", statements[i].page, statements[i].says);
		fflush(stdout);
		statements[i].try();
	}
	world_free(&buf);
	world_free(&target);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_close(&w);
	return 0;
}
