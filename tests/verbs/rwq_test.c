/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work queues: their state transitions row by row, indirection tables, and QPs that distribute
 * frames over a table by a hash.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "util/compiler.h"
#include "verbs/frames.h"

enum { QUEUES = 4 };

static struct world w;
static struct sender s;
static uint8_t secret[40];

static struct ibv_wq *make_wq(struct ibv_cq *cq, uint32_t flags)
{
	struct ibv_wq_init_attr init = {
		.wq_type = IBV_WQT_RQ,
		.max_wr = FRAME_SLOTS,
		.max_sge = 2,
		.pd = w.pd,
		.cq = cq,
		.comp_mask = flags ? IBV_WQ_INIT_ATTR_FLAGS : 0,
		.create_flags = flags,
	};
	struct ibv_wq *wq = ibv_create_wq(w.ctx, &init);

	CHECK(wq);
	CHECK(init.max_wr >= FRAME_SLOTS && init.max_sge >= 2);
	CHECK_EQ(wq->state, IBV_WQS_RESET);
	return wq;
}

static int move(struct ibv_wq *wq, enum ibv_wq_state state)
{
	struct ibv_wq_attr attr = { .attr_mask = IBV_WQ_ATTR_STATE, .wq_state = state };

	return ibv_modify_wq(wq, &attr);
}

/* Creates a work queue as a receiver. */
static struct receiver queue(uint32_t flags)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 2 * FRAME_SLOTS,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_FLOW_TAG |
			    IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_CVLAN,
	};
	struct receiver r = { .cq = ibv_create_cq_ex(w.ctx, &attr) };

	CHECK(r.cq);
	r.wq = make_wq(ibv_cq_ex_to_cq(r.cq), flags);
	r.room = world_buffer(&w, FRAME_SLOTS * FRAME_ROOM, IBV_ACCESS_LOCAL_WRITE);
	return r;
}

static void ready(struct receiver *r)
{
	CHECK_EQ(move(r->wq, IBV_WQS_RDY), 0);
	CHECK_EQ(r->wq->state, IBV_WQS_RDY);
	for (unsigned int i = 0; i < FRAME_SLOTS; i++)
		frames_post(r, i);
}

static void end_queue(struct receiver *r)
{
	CHECK_EQ(ibv_destroy_wq(r->wq), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(r->cq)), 0);
	world_free(&r->room);
}

static struct ibv_rwq_ind_table *make_table(struct ibv_wq **wq, uint32_t log)
{
	struct ibv_rwq_ind_table_init_attr init = { .log_ind_tbl_size = log, .ind_tbl = wq };
	struct ibv_rwq_ind_table *t = ibv_create_rwq_ind_table(w.ctx, &init);

	CHECK(t);
	return t;
}

static struct ibv_qp_init_attr_ex rss_attr(struct ibv_rwq_ind_table *t, uint64_t fields)
{
	return (struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
		.pd = w.pd,
		.rwq_ind_tbl = t,
		.rx_hash_conf = { IBV_RX_HASH_FUNC_TOEPLITZ, sizeof(secret), secret, fields },
	};
}

static struct ibv_qp *make_rss(struct ibv_rwq_ind_table *t, uint64_t fields)
{
	struct ibv_qp_init_attr_ex attr = rss_attr(t, fields);
	struct ibv_qp *qp = ibv_create_qp_ex(w.ctx, &attr);

	CHECK(qp);
	return qp;
}

static void capabilities(void)
{
	struct ibv_device_attr_ex attr;

	CHECK_EQ(ibv_query_device_ex(w.ctx, NULL, &attr), 0);
	CHECK(ibv_is_qpt_supported(attr.rss_caps.supported_qpts, IBV_QPT_RAW_PACKET));
	CHECK_EQ(attr.rss_caps.rx_hash_function, IBV_RX_HASH_FUNC_TOEPLITZ);
	CHECK(attr.rss_caps.max_rwq_indirection_tables > 0 && attr.max_wq_type_rq > 0);
	CHECK(attr.orig_attr.device_cap_flags & IBV_DEVICE_MANAGED_FLOW_STEERING);
	CHECK(attr.device_cap_flags_ex & IBV_DEVICE_MANAGED_FLOW_STEERING);
	CHECK(attr.raw_packet_caps & IBV_RAW_PACKET_CAP_CVLAN_STRIPPING);
	CHECK(!(attr.raw_packet_caps &
		(IBV_RAW_PACKET_CAP_SCATTER_FCS | IBV_RAW_PACKET_CAP_DELAY_DROP)));
}

/* Every transition, with the program's current-state attribute right and wrong. */
static void states(void)
{
	static const bool legal[3][3] = {
		[IBV_WQS_RESET] = { [IBV_WQS_RESET] = true, [IBV_WQS_RDY] = true },
		[IBV_WQS_RDY] = { true, true, true },
		[IBV_WQS_ERR] = { [IBV_WQS_RESET] = true, [IBV_WQS_ERR] = true },
	};
	struct ibv_cq *cq = world_cq(&w, 16);

	for (enum ibv_wq_state from = IBV_WQS_RESET; from <= IBV_WQS_ERR; from++) {
		for (enum ibv_wq_state to = IBV_WQS_RESET; to <= IBV_WQS_UNKNOWN; to++) {
			struct ibv_wq *wq = make_wq(cq, 0);
			struct ibv_wq_attr attr = {
				.attr_mask = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE,
				.wq_state = to,
			};
			bool ok = to <= IBV_WQS_ERR && legal[from][to];

			if (from != IBV_WQS_RESET)
				CHECK_EQ(move(wq, IBV_WQS_RDY), 0);
			if (from == IBV_WQS_ERR)
				CHECK_EQ(move(wq, IBV_WQS_ERR), 0);
			attr.curr_wq_state = (from + 1) % 3;
			CHECK_EQ(ibv_modify_wq(wq, &attr), EINVAL);
			CHECK_EQ(wq->state, from);
			attr.curr_wq_state = from;
			CHECK_EQ(ibv_modify_wq(wq, &attr), ok ? 0 : EINVAL);
			CHECK_EQ(wq->state, ok ? to : from);
			CHECK_EQ(ibv_destroy_wq(wq), 0);
		}
	}
	CHECK_EQ(ibv_destroy_cq(cq), 0);
}

static void refused(void)
{
	static const struct {
		struct ibv_wq_attr attr;
		int err;
	} rows[] = {
		{ { .attr_mask = 0 }, EINVAL },
		{ { .attr_mask = IBV_WQ_ATTR_RESERVED }, EINVAL },
		{ { .attr_mask = IBV_WQ_ATTR_FLAGS,
		    .flags = 1,
		    .flags_mask = IBV_WQ_FLAGS_CVLAN_STRIPPING },
		  0 },
		/* As on mlx5, these have no effect. */
		{ { .attr_mask = IBV_WQ_ATTR_FLAGS, .flags_mask = IBV_WQ_FLAGS_SCATTER_FCS }, 0 },
		{ { .attr_mask = IBV_WQ_ATTR_FLAGS, .flags_mask = IBV_WQ_FLAGS_DELAY_DROP }, 0 },
		{ { .attr_mask = IBV_WQ_ATTR_FLAGS, .flags_mask = IBV_WQ_FLAGS_RESERVED }, 0 },
		{ { .attr_mask = IBV_WQ_ATTR_FLAGS,
		    .flags_mask = IBV_WQ_FLAGS_PCI_WRITE_END_PADDING },
		  EOPNOTSUPP },
	};
	struct ibv_cq *cq = world_cq(&w, 16);
	struct ibv_wq_init_attr good = { .wq_type = IBV_WQT_RQ,
					 .max_wr = 1,
					 .max_sge = 1,
					 .pd = w.pd,
					 .cq = cq },
				init;
	struct ibv_wq *wq = make_wq(cq, 0);
	struct ibv_device_attr limits;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ibv_wq_attr attr = rows[i].attr;

		CHECK_EQ(ibv_modify_wq(wq, &attr), rows[i].err);
	}
	CHECK_EQ(ibv_modify_wq(wq, NULL), EINVAL);
	CHECK_EQ(ibv_destroy_wq(wq), 0);

	CHECK_EQ(ibv_query_device(w.ctx, &limits), 0);
#define EXPECT_REFUSED(err, ...)                                                                   \
	do {                                                                                       \
		init = good;                                                                       \
		__VA_ARGS__;                                                                       \
		errno = 0;                                                                         \
		CHECK(!ibv_create_wq(w.ctx, &init));                                               \
		CHECK_EQ(errno, err);                                                              \
	} while (0)
	EXPECT_REFUSED(EINVAL, init.wq_type = 1);
	EXPECT_REFUSED(EINVAL, init.pd = NULL);
	EXPECT_REFUSED(EINVAL, init.cq = NULL);
	EXPECT_REFUSED(EINVAL, init.max_wr = 0);
	EXPECT_REFUSED(EINVAL, init.max_wr = limits.max_qp_wr + 1);
	EXPECT_REFUSED(EINVAL, init.max_sge = limits.max_sge + 1);
	EXPECT_REFUSED(EINVAL, init.comp_mask = IBV_WQ_INIT_ATTR_RESERVED);
	for (uint32_t flag = IBV_WQ_FLAGS_SCATTER_FCS; flag <= IBV_WQ_FLAGS_RESERVED; flag <<= 1)
		EXPECT_REFUSED(EOPNOTSUPP, init.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
		       init.create_flags = flag);
	errno = 0;
	CHECK(!ibv_create_wq(w.ctx, NULL));
	CHECK_EQ(errno, EINVAL);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
}

static void tables(void)
{
	struct ibv_cq *cq = world_cq(&w, 16);
	struct ibv_wq *wq = make_wq(cq, 0), *list[512], *hole[2] = { wq, NULL };
	struct ibv_rwq_ind_table_init_attr init = { .log_ind_tbl_size = 1, .ind_tbl = hole };
	struct ibv_rwq_ind_table *t;
	struct ibv_qp_init_attr_ex attr, good;
	struct ibv_device_attr_ex limits;
	struct ibv_qp *qp;

	for (size_t i = 0; i < ARRAY_SIZE(list); i++)
		list[i] = wq;
	CHECK_EQ(ibv_query_device_ex(w.ctx, NULL, &limits), 0);
	CHECK_EQ(limits.rss_caps.max_rwq_indirection_table_size, 512);
	CHECK(!ibv_create_rwq_ind_table(w.ctx, &init));
	CHECK_EQ(errno, EINVAL);
	init.ind_tbl = list;
	init.comp_mask = 1;
	CHECK(!ibv_create_rwq_ind_table(w.ctx, &init));
	CHECK_EQ(errno, EINVAL);
	init.comp_mask = 0;
	init.log_ind_tbl_size = 10;
	CHECK(!ibv_create_rwq_ind_table(w.ctx, &init));
	CHECK_EQ(errno, EINVAL);
	init.log_ind_tbl_size = 33;
	CHECK(!ibv_create_rwq_ind_table(w.ctx, &init));
	CHECK_EQ(errno, EINVAL);
	t = make_table(list, 9);
	CHECK_EQ(ibv_destroy_wq(wq), EBUSY);

	good = rss_attr(t, IBV_RX_HASH_SRC_IPV4);
#define EXPECT_QP_REFUSED(err, ...)                                                                \
	do {                                                                                       \
		attr = good;                                                                       \
		__VA_ARGS__;                                                                       \
		errno = 0;                                                                         \
		CHECK(!ibv_create_qp_ex(w.ctx, &attr));                                            \
		CHECK_EQ(errno, err);                                                              \
	} while (0)
	EXPECT_QP_REFUSED(EINVAL, attr.qp_type = IBV_QPT_UD);
	EXPECT_QP_REFUSED(EINVAL, attr.comp_mask &= ~IBV_QP_INIT_ATTR_RX_HASH);
	EXPECT_QP_REFUSED(EINVAL, attr.comp_mask &= ~IBV_QP_INIT_ATTR_IND_TABLE);
	EXPECT_QP_REFUSED(EINVAL, attr.rwq_ind_tbl = NULL);
	EXPECT_QP_REFUSED(EINVAL, attr.cap.max_send_wr = 1);
	EXPECT_QP_REFUSED(EINVAL, attr.cap.max_recv_wr = 1);
	EXPECT_QP_REFUSED(EINVAL, attr.rx_hash_conf.rx_hash_key_len = 16);
	EXPECT_QP_REFUSED(EINVAL, attr.rx_hash_conf.rx_hash_key = NULL);
	EXPECT_QP_REFUSED(EINVAL, attr.rx_hash_conf.rx_hash_fields_mask |= IBV_RX_HASH_DST_IPV6);
	EXPECT_QP_REFUSED(EOPNOTSUPP, attr.rx_hash_conf.rx_hash_function = 2);
	EXPECT_QP_REFUSED(EOPNOTSUPP, attr.rx_hash_conf.rx_hash_fields_mask = 1 << 10);
	qp = make_rss(t, 0);
	{
		struct ibv_recv_wr recv = { .wr_id = 1 }, *bad_recv;
		struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, *bad_send;
		struct ibv_qp_attr to = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

		for (; to.qp_state <= IBV_QPS_RTS; to.qp_state++) {
			CHECK_EQ(ibv_modify_qp(qp, &to,
					       IBV_QP_STATE |
						       (to.qp_state == IBV_QPS_INIT ? IBV_QP_PORT
										    : 0)),
				 0);
			CHECK(ibv_post_recv(qp, &recv, &bad_recv));
			CHECK(ibv_post_send(qp, &send, &bad_send));
		}
	}
	CHECK_EQ(ibv_destroy_rwq_ind_table(t), EBUSY);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_rwq_ind_table(t), 0);
	CHECK_EQ(ibv_destroy_wq(wq), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
}

/* The Toeplitz hash, bit by bit, of addresses and ports as they are in the frame. */
static uint32_t reference_hash(const uint8_t *input, size_t len)
{
	uint32_t hash = 0;

	for (size_t bit = 0; bit < len * 8; bit++) {
		uint32_t window = 0;

		if (!(input[bit / 8] >> (7 - bit % 8) & 1))
			continue;
		for (size_t i = bit; i < bit + 32; i++)
			window = window << 1 | (secret[i / 8] >> (7 - i % 8) & 1);
		hash ^= window;
	}
	return hash;
}

static void hash_distribution(void)
{
	struct ibv_wq *list[2 * QUEUES];
	unsigned int expected[QUEUES] = { 0 }, used = 0;
	struct receiver q[QUEUES];
	struct ibv_rwq_ind_table *t;
	struct spec_list rule;
	struct ibv_flow *flow;
	struct ibv_qp *qp;
	struct frame arp = { .len = 0 };

	for (unsigned int i = 0; i < QUEUES; i++) {
		q[i] = queue(0);
		ready(&q[i]);
		list[i] = list[i + QUEUES] = q[i].wq;
	}
	t = make_table(list, 3);
	qp = make_rss(t, IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 | IBV_RX_HASH_SRC_PORT_UDP |
				 (uint64_t)IBV_RX_HASH_DST_PORT_UDP);
	rule_begin(&rule, IBV_FLOW_ATTR_NORMAL);
	rule.attr.priority = 1;
	RULE_ADD(&rule, action_tag, IBV_FLOW_SPEC_ACTION_TAG, .tag_id = 9);
	flow = frames_flow(qp, &rule);
	CHECK_EQ(ibv_destroy_qp(qp), EBUSY);

	for (uint16_t port = 1; port <= 40; port++) {
		struct frame f = frames_udp(port, 4000);
		unsigned int target = reference_hash(f.data + 14 + 12, 12) % (2 * QUEUES) % QUEUES;

		used += !expected[target]++;
		sender_send(&s, &f, port);
		frames_expect(&q[target], port);
		CHECK_EQ(q[target].tag, 9);
	}
	CHECK_EQ(used, QUEUES);

	/* No hashed field: the first entry receives it. */
	frame_eth(&arp, "\xff\xff\xff\xff\xff\xff", "\x02\0\0\0\0\1", 0x0806);
	frame_room(&arp, 28);
	sender_send(&s, &arp, 77);
	frames_expect(&q[0], 77);
	sender_sync(&s);
	for (unsigned int i = 0; i < QUEUES; i++)
		CHECK(!frames_take(&q[i]));

	CHECK_EQ(ibv_destroy_flow(flow), 0);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_rwq_ind_table(t), 0);
	for (unsigned int i = 0; i < QUEUES; i++)
		end_queue(&q[i]);
}

/* A QP without hash fields over one queue, which gets all frames. */
struct single {
	struct receiver q;
	struct ibv_rwq_ind_table *table;
	struct ibv_qp *qp;
	struct ibv_flow *flow;
};

static void single_open(struct single *o, uint32_t flags)
{
	struct spec_list rule;

	o->q = queue(flags);
	o->table = make_table(&o->q.wq, 0);
	o->qp = make_rss(o->table, 0);
	rule_begin(&rule, IBV_FLOW_ATTR_ALL_DEFAULT);
	o->flow = frames_flow(o->qp, &rule);
}

/* All but the queue. */
static void single_end(struct single *o)
{
	CHECK_EQ(ibv_destroy_flow(o->flow), 0);
	CHECK_EQ(ibv_destroy_qp(o->qp), 0);
	CHECK_EQ(ibv_destroy_rwq_ind_table(o->table), 0);
}

static void single_close(struct single *o)
{
	single_end(o);
	end_queue(&o->q);
}

static void send_one(uint32_t number)
{
	struct frame f = frames_udp(1, 2);

	sender_send(&s, &f, number);
}

static void queue_life_cycle(void)
{
	struct single o;
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;
	unsigned int posted = 0;

	single_open(&o, 0);
	/* accepted now, and dropped by the transition to RDY */
	while (!ibv_post_wq_recv(o.q.wq, &wr, &bad))
		posted++;
	CHECK(posted >= FRAME_SLOTS);
	send_one(1); /* dropped in RESET */
	sender_sync(&s);
	ready(&o.q);
	send_one(2);
	frames_expect(&o.q, 2);

	CHECK_EQ(move(o.q.wq, IBV_WQS_RESET), 0);
	send_one(3);
	sender_sync(&s);
	CHECK(!frames_take(&o.q));

	ready(&o.q);
	CHECK_EQ(move(o.q.wq, IBV_WQS_ERR), 0);
	for (unsigned int i = 0; i < FRAME_SLOTS; i++) {
		CHECK(frames_take(&o.q));
		CHECK_EQ(o.q.status, IBV_WC_WR_FLUSH_ERR);
		CHECK_EQ(o.q.slot, i);
	}
	send_one(4);
	sender_sync(&s);
	CHECK(!frames_take(&o.q));
	CHECK(!world_has_event(&w));
	single_close(&o);
}

static void wait_for(struct receiver *r, enum ibv_wc_status status)
{
	while (!frames_take(r))
		;
	CHECK_EQ(r->status, status);
}

/* A receive whose memory cannot be written puts the queue into ERR and raises WQ_FATAL. */
static void fatal(void)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct ibv_async_event e;
		struct ibv_sge sge;
		struct ibv_recv_wr wr = { .wr_id = 5, .sg_list = &sge, .num_sge = 1 }, *bad;
		struct single o;

		single_open(&o, 0);
		CHECK_EQ(move(o.q.wq, IBV_WQS_RDY), 0);
		sge = world_sge(&o.q.room, 0, i ? 20 : FRAME_ROOM);
		if (!i)
			sge.lkey ^= 0x55;
		CHECK_EQ(ibv_post_wq_recv(o.q.wq, &wr, &bad), 0);
		frames_post(&o.q, 1);
		send_one(1);
		wait_for(&o.q, i ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_PROT_ERR);
		wait_for(&o.q, IBV_WC_WR_FLUSH_ERR);
		CHECK_EQ(ibv_get_async_event(w.ctx, &e), 0);
		CHECK_EQ(e.event_type, IBV_EVENT_WQ_FATAL);
		CHECK(e.element.wq == o.q.wq);
		CHECK_EQ(o.q.wq->state, IBV_WQS_ERR);
		ibv_ack_async_event(&e);
		CHECK_EQ(move(o.q.wq, IBV_WQS_RESET), 0);
		ready(&o.q);
		send_one(2);
		frames_expect(&o.q, 2);
		single_close(&o);
	}
}

static void *destroy(void *wq)
{
	CHECK_EQ(ibv_destroy_wq(wq), 0);
	return NULL;
}

/* The thread that has got an event may still use the work queue, as far as a kernel knows it. */
static void destroyed_before_the_acknowledgement(void)
{
	struct ibv_sge sge;
	struct ibv_recv_wr wr = { .wr_id = 5, .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_async_event e;
	struct single o;
	pthread_t thread;

	single_open(&o, 0);
	CHECK_EQ(move(o.q.wq, IBV_WQS_RDY), 0);
	sge = world_sge(&o.q.room, 0, FRAME_ROOM);
	sge.lkey ^= 0x55;
	CHECK_EQ(ibv_post_wq_recv(o.q.wq, &wr, &bad), 0);
	send_one(1);
	wait_for(&o.q, IBV_WC_LOC_PROT_ERR);
	CHECK_EQ(ibv_get_async_event(w.ctx, &e), 0);
	CHECK_EQ(e.event_type, IBV_EVENT_WQ_FATAL);
	single_end(&o);
	CHECK_EQ(pthread_create(&thread, NULL, destroy, o.q.wq), 0);
	while (move(o.q.wq, IBV_WQS_RESET) != ENOENT)
		sched_yield();
	CHECK_EQ(ibv_post_wq_recv(o.q.wq, &wr, &bad), 0);
	ibv_ack_async_event(&e);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(o.q.cq)), 0);
	world_free(&o.q.room);
}

static void tagged_frame(uint32_t number)
{
	struct frame f = { .len = 0 };

	frame_eth(&f, "\x02\0\0\0\0\2", "\x02\0\0\0\0\1", 0x8100);
	frame_vlan(&f, 0x2005, 0x88b5);
	frame_room(&f, 40);
	sender_send(&s, &f, number);
}

static void tags_stripped(void)
{
	struct ibv_wq_attr attr = { .attr_mask = IBV_WQ_ATTR_FLAGS,
				    .flags_mask = IBV_WQ_FLAGS_CVLAN_STRIPPING };
	struct single o;

	single_open(&o, IBV_WQ_FLAGS_CVLAN_STRIPPING);
	ready(&o.q);
	tagged_frame(1);
	frames_expect(&o.q, 1);
	CHECK_EQ(o.q.len, 14 + 40 + 4);
	CHECK_EQ(ibv_modify_wq(o.q.wq, &attr), 0);
	tagged_frame(2);
	frames_expect(&o.q, 2);
	CHECK_EQ(o.q.len, 14 + 4 + 40 + 4);
	single_close(&o);
}

int main(void)
{
	frames_init();
	for (size_t i = 0; i < sizeof(secret); i++)
		secret[i] = i * 37 + 11;
	world_open(&w);
	sender_open(&s, &w);
	capabilities();
	states();
	refused();
	tables();
	hash_distribution();
	queue_life_cycle();
	fatal();
	destroyed_before_the_acknowledgement();
	tags_stripped();
	sender_close(&s);
	world_close(&w);
	return 0;
}
