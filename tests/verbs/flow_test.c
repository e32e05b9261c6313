/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow rules between raw packet QPs: which receivers get a frame, tags, drops, counters, and
 * refused rules.
 */
#include <errno.h>
#include <pthread.h>

#include "descriptors.h"
#include "util/compiler.h"
#include "verbs/frames.h"

static struct world w;
static struct sender s;

/* A rule for UDP packets to one port. */
static struct spec_list to_port(uint16_t port, uint16_t priority, uint32_t flags)
{
	struct spec_list list;

	rule_begin(&list, IBV_FLOW_ATTR_NORMAL);
	list.attr.priority = priority;
	list.attr.flags = flags;
	RULE_ADD(&list, tcp_udp, IBV_FLOW_SPEC_UDP, .val.dst_port = htobe16(port),
		 .mask.dst_port = 0xffff);
	return list;
}

static struct ibv_flow *flow_to_port(struct receiver *r, uint16_t port, uint16_t priority,
				     uint32_t flags)
{
	struct spec_list list = to_port(port, priority, flags);

	return frames_flow(r->qp, &list);
}

/* With a match that only a rule of type NORMAL looks at; programs exist that specify one. */
static struct ibv_flow *flow_of_type(struct receiver *r, enum ibv_flow_attr_type type)
{
	struct spec_list list;

	rule_begin(&list, type);
	RULE_ADD(&list, ipv4, IBV_FLOW_SPEC_IPV4, .val.dst_ip = htobe32(0x7f000005),
		 .mask.dst_ip = 0xffffffff);
	RULE_ADD(&list, tcp_udp, IBV_FLOW_SPEC_UDP, .val.dst_port = htobe16(4791),
		 .mask.dst_port = 0xffff);
	return frames_flow(r->qp, &list);
}

static void send_udp(uint16_t port, uint32_t number)
{
	struct frame f = frames_udp(1000, port);

	sender_send(&s, &f, number);
}

static void expect_no_frame(struct receiver *r)
{
	CHECK(!frames_take(r));
}

static void one_port_each(void)
{
	struct receiver a = frames_receiver(&w), b = frames_receiver(&w),
			none = frames_receiver(&w);
	struct ibv_flow *flows[] = { flow_to_port(&a, 53, 0, 0), flow_to_port(&b, 80, 0, 0),
				     flow_to_port(&b, 81, 7, 0) };

	send_udp(80, 1);
	send_udp(53, 2);
	send_udp(99, 3);
	send_udp(81, 4);
	sender_sync(&s);
	frames_expect(&a, 2);
	frames_expect(&b, 1);
	frames_expect(&b, 4);
	expect_no_frame(&a);
	expect_no_frame(&b);

	CHECK_EQ(ibv_destroy_flow(flows[0]), 0);
	send_udp(53, 5);
	sender_sync(&s);
	expect_no_frame(&a);
	expect_no_frame(&none);
	CHECK_EQ(ibv_destroy_flow(flows[1]), 0);
	CHECK_EQ(ibv_destroy_flow(flows[2]), 0);
	frames_end(&a);
	frames_end(&b);
	frames_end(&none);
}

static void priorities_and_copies(void)
{
	struct receiver a = frames_receiver(&w), b = frames_receiver(&w), c = frames_receiver(&w);
	struct ibv_flow *late = flow_to_port(&a, 53, 9, 0), *first = flow_to_port(&b, 53, 2, 0),
			*same, *copy;

	send_udp(53, 1);
	sender_sync(&s);
	frames_expect(&b, 1);
	expect_no_frame(&a);

	same = flow_to_port(&c, 53, 2, 0);
	send_udp(53, 2);
	sender_sync(&s);
	frames_expect(&b, 2);
	frames_expect(&c, 2);
	expect_no_frame(&a);
	CHECK_EQ(ibv_destroy_flow(first), 0);
	CHECK_EQ(ibv_destroy_flow(same), 0);

	copy = flow_to_port(&b, 53, 3, IBV_FLOW_ATTR_FLAGS_DONT_TRAP);
	send_udp(53, 3);
	sender_sync(&s);
	frames_expect(&b, 3);
	frames_expect(&a, 3);
	CHECK_EQ(ibv_destroy_flow(late), 0);
	CHECK_EQ(ibv_destroy_flow(copy), 0);
	frames_end(&a);
	frames_end(&b);
	frames_end(&c);
}

static void defaults_and_sniffers(void)
{
	struct receiver rule = frames_receiver(&w), all = frames_receiver(&w),
			group = frames_receiver(&w), sniffer = frames_receiver(&w);
	struct ibv_flow *flows[] = { flow_to_port(&rule, 53, 5, 0),
				     flow_of_type(&all, IBV_FLOW_ATTR_ALL_DEFAULT),
				     flow_of_type(&group, IBV_FLOW_ATTR_MC_DEFAULT),
				     flow_of_type(&sniffer, IBV_FLOW_ATTR_SNIFFER) };
	struct frame multicast = { .len = 0 };

	frame_eth(&multicast, "\x01\0\x5e\0\0\1", "\x02\0\0\0\0\1", 0x0806);
	frame_room(&multicast, 40);
	send_udp(53, 1);
	send_udp(80, 2);
	sender_send(&s, &multicast, 3);
	sender_sync(&s);
	frames_expect(&rule, 1);
	frames_expect(&all, 2);
	frames_expect(&all, 3);
	frames_expect(&group, 3);
	for (uint32_t i = 1; i <= 3; i++)
		frames_expect(&sniffer, i);
	frames_expect(&sniffer, s.marks - 1);
	expect_no_frame(&rule);
	expect_no_frame(&all);
	expect_no_frame(&group);
	for (size_t i = 0; i < ARRAY_SIZE(flows); i++)
		CHECK_EQ(ibv_destroy_flow(flows[i]), 0);
	frames_end(&rule);
	frames_end(&all);
	frames_end(&group);
	frames_end(&sniffer);
}

static void tags(void)
{
	struct receiver r = frames_receiver(&w);
	struct spec_list a = to_port(53, 0, 0), b = to_port(80, 0, 0), plain = to_port(81, 0, 0);
	struct ibv_flow *flows[3];

	RULE_ADD(&a, action_tag, IBV_FLOW_SPEC_ACTION_TAG, .tag_id = 0xabcdef);
	RULE_ADD(&b, action_tag, IBV_FLOW_SPEC_ACTION_TAG, .tag_id = 7);
	flows[0] = frames_flow(r.qp, &a);
	flows[1] = frames_flow(r.qp, &b);
	flows[2] = frames_flow(r.qp, &plain);
	send_udp(53, 1);
	send_udp(80, 2);
	send_udp(81, 3);
	frames_expect(&r, 1);
	CHECK_EQ(r.tag, 0xabcdef);
	frames_expect(&r, 2);
	CHECK_EQ(r.tag, 7);
	frames_expect(&r, 3);
	CHECK_EQ(r.tag, 0);
	for (size_t i = 0; i < ARRAY_SIZE(flows); i++)
		CHECK_EQ(ibv_destroy_flow(flows[i]), 0);
	frames_end(&r);
}

static struct ibv_counters *make_counters(void)
{
	struct ibv_counters_init_attr init = { 0 };
	struct ibv_counters *c = ibv_create_counters(w.ctx, &init);

	CHECK(c);
	return c;
}

static int attach(struct ibv_counters *c, uint32_t what, uint32_t index)
{
	struct ibv_counter_attach_attr attr = { .counter_desc = what, .index = index };

	return ibv_attach_counters_point_flow(c, &attr, NULL);
}

static void drops_and_counts(void)
{
	struct receiver r = frames_receiver(&w);
	struct ibv_counters *c = make_counters();
	struct spec_list drop = to_port(53, 0, 0), count = to_port(80, 0, 0);
	struct ibv_flow *all = flow_of_type(&r, IBV_FLOW_ATTR_ALL_DEFAULT), *flows[2];
	uint64_t values[4];
	uint32_t len = frames_udp(1, 2).len + 4;

	CHECK_EQ(attach(c, IBV_COUNTER_PACKETS, 0), 0);
	CHECK_EQ(attach(c, IBV_COUNTER_BYTES, 2), 0);
	RULE_ADD(&drop, action_drop, IBV_FLOW_SPEC_ACTION_DROP);
	RULE_ADD(&drop, counter_action, IBV_FLOW_SPEC_ACTION_COUNT, .counters = c);
	RULE_ADD(&count, counter_action, IBV_FLOW_SPEC_ACTION_COUNT, .counters = c);
	flows[0] = frames_flow(r.qp, &drop);
	flows[1] = frames_flow(r.qp, &count);
	CHECK_EQ(attach(c, IBV_COUNTER_PACKETS, 1), EBUSY);
	CHECK_EQ(ibv_destroy_counters(c), EBUSY);

	send_udp(53, 1);
	send_udp(80, 2);
	send_udp(53, 3);
	send_udp(81, 4);
	sender_sync(&s);
	frames_expect(&r, 2);
	frames_expect(&r, 4);
	expect_no_frame(&r);
	memset(values, 0xff, sizeof(values));
	CHECK_EQ(ibv_read_counters(c, values, 3, 0), 0);
	CHECK_EQ(values[0], 3);
	CHECK_EQ(values[1], 0);
	CHECK_EQ(values[2], 3 * len);
	CHECK_EQ(values[3], UINT64_MAX);

	CHECK_EQ(ibv_destroy_flow(flows[0]), 0);
	CHECK_EQ(attach(c, IBV_COUNTER_PACKETS, 1), EBUSY);
	CHECK_EQ(ibv_destroy_flow(flows[1]), 0);
	/*
	 * Counters attached to one index are added up, and keep their value when the flow is gone.
	 */
	CHECK_EQ(attach(c, IBV_COUNTER_PACKETS, 2), 0);
	CHECK_EQ(ibv_read_counters(c, values, 4, IBV_READ_COUNTERS_ATTR_PREFER_CACHED), 0);
	CHECK_EQ(values[2], 3 * len + 3);
	CHECK_EQ(values[3], 0);
	CHECK_EQ(ibv_destroy_counters(c), 0);
	CHECK_EQ(ibv_destroy_flow(all), 0);
	frames_end(&r);
}

/*
 * A frame that is sent is counted and dropped before it reaches a receiver; its request completes.
 */
static void egress(void)
{
	struct receiver r = frames_receiver(&w);
	struct ibv_counters *c = make_counters(), *all = make_counters();
	struct spec_list drop = to_port(53, 0, IBV_FLOW_ATTR_FLAGS_EGRESS),
			 count = to_port(80, 3, IBV_FLOW_ATTR_FLAGS_EGRESS);
	struct spec_list tag = to_port(81, 3, IBV_FLOW_ATTR_FLAGS_EGRESS);
	struct ibv_flow *in = flow_of_type(&r, IBV_FLOW_ATTR_ALL_DEFAULT), *flows[2];
	uint64_t dropped[2], counted[1];

	RULE_ADD(&tag, action_tag, IBV_FLOW_SPEC_ACTION_TAG, .tag_id = 1);
	CHECK(!ibv_create_flow(r.qp, &tag.attr));
	CHECK_EQ(errno, EINVAL);
	CHECK_EQ(attach(c, IBV_COUNTER_PACKETS, 0), 0);
	CHECK_EQ(attach(c, IBV_COUNTER_BYTES, 1), 0);
	CHECK_EQ(attach(all, IBV_COUNTER_PACKETS, 0), 0);
	RULE_ADD(&drop, action_drop, IBV_FLOW_SPEC_ACTION_DROP);
	RULE_ADD(&drop, counter_action, IBV_FLOW_SPEC_ACTION_COUNT, .counters = c);
	RULE_ADD(&count, counter_action, IBV_FLOW_SPEC_ACTION_COUNT, .counters = all);
	flows[0] = frames_flow(r.qp, &drop);
	flows[1] = frames_flow(r.qp, &count);
	send_udp(53, 1);
	send_udp(80, 2);
	send_udp(53, 3);
	send_udp(81, 4);
	sender_sync(&s);
	frames_expect(&r, 2);
	frames_expect(&r, 4);
	expect_no_frame(&r);
	CHECK_EQ(ibv_read_counters(c, dropped, 2, 0), 0);
	CHECK_EQ(dropped[0], 2);
	CHECK_EQ(dropped[1], 2 * (frames_udp(1, 2).len + 4));
	CHECK_EQ(ibv_read_counters(all, counted, 1, 0), 0);
	CHECK_EQ(counted[0], 1);
	CHECK_EQ(ibv_destroy_flow(flows[0]), 0);
	send_udp(53, 5);
	frames_expect(&r, 5);
	CHECK_EQ(ibv_destroy_flow(flows[1]), 0);
	CHECK_EQ(ibv_destroy_flow(in), 0);
	CHECK_EQ(ibv_destroy_counters(c), 0);
	CHECK_EQ(ibv_destroy_counters(all), 0);
	frames_end(&r);
}

static void counters_refused(void)
{
	struct ibv_counters_init_attr init = { .comp_mask = 1 };
	struct ibv_counter_attach_attr attr = { .counter_desc = IBV_COUNTER_PACKETS,
						.comp_mask = 1 };
	struct ibv_counters *c = make_counters();
	struct receiver r = frames_receiver(&w);
	struct ibv_flow *flow = flow_to_port(&r, 53, 0, 0);
	uint64_t value;

	CHECK(!ibv_create_counters(w.ctx, &init));
	CHECK_EQ(errno, EOPNOTSUPP);
	CHECK(!ibv_create_counters(w.ctx, NULL));
	CHECK_EQ(errno, EINVAL);
	CHECK_EQ(ibv_attach_counters_point_flow(c, &attr, NULL), EOPNOTSUPP);
	CHECK_EQ(ibv_attach_counters_point_flow(c, NULL, NULL), EINVAL);
	attr.comp_mask = 0;
	CHECK_EQ(ibv_attach_counters_point_flow(c, &attr, flow), ENOTSUP);
	CHECK_EQ(attach(c, 2, 0), ENOTSUP);
	CHECK_EQ(attach(c, IBV_COUNTER_BYTES, UINT32_MAX), EINVAL);
	CHECK_EQ(attach(c, IBV_COUNTER_BYTES, 3), 0);
	CHECK_EQ(ibv_read_counters(c, &value, 1, 0), EINVAL);
	CHECK_EQ(ibv_read_counters(c, NULL, 4, 0), EINVAL);
	CHECK_EQ(ibv_read_counters(c, &value, 0, 2), EINVAL);
	CHECK_EQ(ibv_destroy_counters(c), 0);
	CHECK_EQ(ibv_destroy_flow(flow), 0);
	frames_end(&r);
}

static void refuses(struct ibv_qp *qp, struct spec_list *list, int err)
{
	errno = 0;
	CHECK(!ibv_create_flow(qp, list ? &list->attr : NULL));
	CHECK_EQ(errno, err);
}

static void refused(void)
{
	struct receiver r = frames_receiver(&w);
	struct ibv_cq *cq = world_cq(&w, 16);
	struct ibv_qp *rc = world_qp(&w, IBV_QPT_RC, cq, NULL),
		      *ud = world_qp(&w, IBV_QPT_UD, cq, NULL);
	struct spec_list list = to_port(53, 0, 0), other;
	struct ibv_flow *flow;
	struct world second;

	refuses(rc, &list, EINVAL);
	refuses(ud, &list, EOPNOTSUPP);
	refuses(r.qp, NULL, EINVAL);
	list.attr.port = 2;
	refuses(r.qp, &list, EINVAL);
	list.attr.port = 1;
	list.attr.num_of_specs = 200;
	refuses(r.qp, &list, EINVAL);
	list.attr.num_of_specs = 1;

	/* rdma-core does not read this field. */
	list.attr.size = sizeof(list.attr);
	flow = frames_flow(r.qp, &list);
	list.attr.size = 0;
	CHECK_EQ(ibv_destroy_flow(flow), 0);
	list = to_port(53, 0, 0);
	flow = frames_flow(r.qp, &list);
	RULE_ADD(&list, action_drop, IBV_FLOW_SPEC_ACTION_DROP);
	refuses(r.qp, &list, EEXIST);
	CHECK_EQ(ibv_destroy_qp(r.qp), EBUSY);

	other = to_port(54, 0, 0);
	world_open(&second);
	{
		struct ibv_counters_init_attr init = { 0 };
		struct ibv_counters *c = ibv_create_counters(second.ctx, &init);

		CHECK(c);
		RULE_ADD(&other, counter_action, IBV_FLOW_SPEC_ACTION_COUNT, .counters = c);
		refuses(r.qp, &other, EINVAL);
		CHECK_EQ(ibv_destroy_counters(c), 0);
	}
	world_close(&second);
	CHECK_EQ(ibv_destroy_flow(flow), 0);
	CHECK_EQ(ibv_destroy_qp(rc), 0);
	CHECK_EQ(ibv_destroy_qp(ud), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	frames_end(&r);
}

/*
 * Sends one frame of each kind against a matching rule and against one that differs in one field.
 */
static void specifications(void)
{
	struct receiver yes = frames_receiver(&w), no = frames_receiver(&w);
	struct frame inner = frames_udp(5, 6), f = { .len = 0 };
	struct spec_list list;
	struct ibv_flow *flows[6];
	unsigned int n = 0;

	for (unsigned int i = 0; i < 2; i++) {
		struct receiver *r = i ? &no : &yes;

		rule_begin(&list, IBV_FLOW_ATTR_NORMAL);
		RULE_ADD(&list, eth, IBV_FLOW_SPEC_ETH, .val.vlan_tag = htobe16(5 + i),
			 .mask.vlan_tag = htobe16(0xfff));
		RULE_ADD(&list, ipv6, IBV_FLOW_SPEC_IPV6, .val.next_hdr = 6, .mask.next_hdr = 0xff);
		flows[n++] = frames_flow(r->qp, &list);

		rule_begin(&list, IBV_FLOW_ATTR_NORMAL);
		RULE_ADD(&list, ipv4_ext, IBV_FLOW_SPEC_IPV4_EXT, .val.tos = 0xb8 + i,
			 .mask.tos = 0xff, .val.src_ip = htobe32(0x0a000000),
			 .mask.src_ip = htobe32(0xff000000));
		flows[n++] = frames_flow(r->qp, &list);

		rule_begin(&list, IBV_FLOW_ATTR_NORMAL);
		RULE_ADD(&list, tunnel, IBV_FLOW_SPEC_VXLAN_TUNNEL, .val.tunnel_id = htobe32(77),
			 .mask.tunnel_id = htobe32(0xffffff));
		RULE_ADD(&list, tcp_udp, IBV_FLOW_SPEC_UDP | IBV_FLOW_SPEC_INNER,
			 .val.dst_port = htobe16(6 + i), .mask.dst_port = 0xffff);
		flows[n++] = frames_flow(r->qp, &list);
	}

	frame_eth(&f, "\x02\0\0\0\0\2", "\x02\0\0\0\0\1", 0x8100);
	frame_vlan(&f, 0x6005, 0x86dd);
	frame_ipv6(&f, (uint8_t[16]){ 1 }, (uint8_t[16]){ 2 }, 6, 24);
	frame_tcp(&f, 1, 2);
	sender_send(&s, &f, 1);

	f = frames_udp(1, 2);
	f.data[15] = 0xb8;
	sender_send(&s, &f, 2);

	f.len = 0;
	frame_eth(&f, "\x02\0\0\0\0\2", "\x02\0\0\0\0\1", 0x0800);
	frame_ipv4(&f, 1, 2, 17, 0, 16 + inner.len + 4);
	frame_udp(&f, 9, 4789, 8 + inner.len + 4);
	put_be24(frame_room(&f, 8) + 4, 77);
	f.data[f.len - 8] = 8;
	memcpy(frame_room(&f, inner.len), inner.data, inner.len);
	sender_send(&s, &f, 3);

	sender_sync(&s);
	for (uint32_t i = 1; i <= 3; i++)
		frames_expect(&yes, i);
	expect_no_frame(&no);
	for (unsigned int i = 0; i < n; i++)
		CHECK_EQ(ibv_destroy_flow(flows[i]), 0);
	frames_end(&yes);
	frames_end(&no);
}

/* More rules than a socket filter can hold, then fewer again. */
static void many_rules(void)
{
	enum { RULES = 400 };
	static struct ibv_flow *flows[RULES];
	struct receiver r = frames_receiver(&w);

	for (unsigned int i = 0; i < RULES; i++)
		flows[i] = flow_to_port(&r, 1000 + i, 0, 0);
	send_udp(999, 1);
	send_udp(1000, 2);
	send_udp(1000 + RULES - 1, 3);
	send_udp(1000 + RULES, 4);
	sender_sync(&s);
	frames_expect(&r, 2);
	frames_expect(&r, 3);
	expect_no_frame(&r);
	for (unsigned int i = 1; i < RULES; i++)
		CHECK_EQ(ibv_destroy_flow(flows[i]), 0);
	send_udp(1001, 5);
	send_udp(1000, 6);
	sender_sync(&s);
	frames_expect(&r, 6);
	expect_no_frame(&r);
	CHECK_EQ(ibv_destroy_flow(flows[0]), 0);
	frames_end(&r);
}

struct stream {
	bool stop;
	pthread_t thread;
};

static void *send_on(void *arg)
{
	struct stream *t = arg;

	while (!__atomic_load_n(&t->stop, __ATOMIC_RELAXED))
		send_udp(53, 1);
	return NULL;
}

/* Rules are created and destroyed while frames arrive. */
static void changes_under_traffic(void)
{
	struct receiver r = frames_receiver(&w);
	struct ibv_flow *rest = flow_of_type(&r, IBV_FLOW_ATTR_ALL_DEFAULT);
	struct stream t = { .stop = false };

	CHECK_EQ(pthread_create(&t.thread, NULL, send_on, &t), 0);
	for (unsigned int i = 0; i < 300; i++) {
		struct spec_list out = to_port(53, 0, IBV_FLOW_ATTR_FLAGS_EGRESS);
		struct ibv_flow *flows[] = {
			flow_to_port(&r, 53, i % 3, 0),
			flow_to_port(&r, 53, 1, IBV_FLOW_ATTR_FLAGS_DONT_TRAP),
			flow_of_type(&r, IBV_FLOW_ATTR_SNIFFER),
			frames_flow(r.qp, &out),
		};

		while (frames_take(&r))
			frames_post(&r, r.slot);
		for (size_t k = 0; k < ARRAY_SIZE(flows); k++)
			CHECK_EQ(ibv_destroy_flow(flows[(i + k) % ARRAY_SIZE(flows)]), 0);
	}
	__atomic_store_n(&t.stop, true, __ATOMIC_RELAXED);
	CHECK_EQ(pthread_join(t.thread, NULL), 0);
	CHECK_EQ(ibv_destroy_flow(rest), 0);
	frames_end(&r);
}

/* Closing a context with flows leaves no rule that a frame could match. */
static void closed_context(void)
{
	static struct world other; /* static, so that leak checkers find a reference */
	static struct receiver r;
	static struct ibv_flow *flows[2];

	world_open(&other);
	r = frames_receiver(&other);
	flows[0] = flow_to_port(&r, 53, 0, 0);
	flows[1] = flow_of_type(&r, IBV_FLOW_ATTR_SNIFFER);
	CHECK(flows[0] != flows[1]);
	CHECK_EQ(ibv_close_device(other.ctx), 0);
	send_udp(53, 1);
	sender_sync(&s);
}

/* The last raw packet QP of a closed context takes along what receives from the interface. */
static void closed_context_lets_go_of_the_interface(void)
{
	/* Never freed, by contract; static, so that leak checkers find a reference. */
	static struct world other;
	static struct ibv_cq *cq;
	static struct ibv_qp *qp;
	unsigned int before = count_descriptors();

	world_open(&other);
	cq = world_cq(&other, 8);
	qp = frames_qp(&other, cq);
	CHECK(qp && count_descriptors() > before);
	CHECK_EQ(ibv_close_device(other.ctx), 0);
	CHECK_EQ(count_descriptors(), before);
}

int main(void)
{
	frames_init();
	world_open(&w);
	closed_context_lets_go_of_the_interface();
	sender_open(&s, &w);
	one_port_each();
	priorities_and_copies();
	defaults_and_sniffers();
	tags();
	drops_and_counts();
	egress();
	counters_refused();
	refused();
	specifications();
	many_rules();
	changes_under_traffic();
	closed_context();
	sender_close(&s);
	world_close(&w);
	return 0;
}
