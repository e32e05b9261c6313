/* SPDX-License-Identifier: BSD-2-Clause */
/* Which frames an interface has to receive for the rules of its raw packet QPs. */
#include "core/raw/flow.h"

#include "core_env.h"

#include <string.h>

#include "core/device/device.h"
#include "core/qp/qp.h"
#include "core/raw/raw_port.h"
#include "core/raw/raw_tx.h"
#include "unit/flow_env.h"
#include "util/compiler.h"

#define OWN "\2\0\0\0\0\1"

static struct vrb_context *ctx;
static struct vrb_device dev;
static struct vrb_raw_port raw;
static struct vrb_qp *qp;
static enum raw_scope scope;

static int filter(struct raw_port *p, const struct sock_filter *program, unsigned int len,
		  enum raw_scope wants)
{
	scope = wants;
	return 0;
}

static const struct raw_ops ops = { .filter = filter };
static struct raw_port port = { .ops = &ops };

static int set_up(void **state)
{
	ctx = core_env_open();
	ctx->dev = &dev;
	lock_init(&dev.port.lock);
	lock_init(&dev.egress_lock);
	flow_table_init(&dev.flows);
	memcpy(dev.port.mac, OWN, 6);
	raw = (struct vrb_raw_port){ .dev = &dev, .port = &port };
	dev.raw = &raw;
	qp = calloc(1, sizeof(*qp));
	assert_non_null(qp);
	vrb_qp_init(qp, IBV_QPT_RAW_PACKET, &vrb_raw_ops);
	qp->config.ctx = ctx;
	return 0;
}

static int tear_down(void **state)
{
	vrb_qp_fini(qp);
	free(qp);
	core_env_close(ctx);
	return 0;
}

static enum raw_scope scope_for(const struct spec_list *list)
{
	struct vrb_flow *flow;
	enum raw_scope with;

	assert_int_equal(vrb_flow_create(qp, &list->attr, &flow), 0);
	with = scope;
	vrb_flow_destroy(flow);
	assert_int_equal(scope, RAW_OWN);
	return with;
}

static void a_rule_sees_all_frames_that_match_it(void **state)
{
	static const struct {
		const char *mac, *mask;
		enum raw_scope scope;
	} rows[] = {
		{ OWN, "\xff\xff\xff\xff\xff\xff", RAW_OWN },
		{ "\2\0\0\0\0\2", "\xff\xff\xff\xff\xff\xff", RAW_PROMISC },
		{ OWN, "\xff\xff\xff\xff\xff\0", RAW_PROMISC },
		{ OWN, "\0\0\0\0\0\0", RAW_PROMISC },
		{ "\1\0\x5e\0\0\1", "\xff\xff\xff\xff\xff\xff", RAW_GROUPS },
		{ "\1\0\x5e\0\0\0", "\xff\xff\xff\0\0\0", RAW_GROUPS },
		{ "\1\0\0\0\0\0", "\1\0\0\0\0\0", RAW_GROUPS },
		{ "\0\0\x5e\0\0\0", "\xfe\xff\xff\0\0\0", RAW_PROMISC },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ibv_flow_spec_eth eth = { .type = IBV_FLOW_SPEC_ETH, .size = sizeof(eth) };
		struct spec_list list;

		memcpy(eth.val.dst_mac, rows[i].mac, 6);
		memcpy(eth.mask.dst_mac, rows[i].mask, 6);
		rule_begin(&list, IBV_FLOW_ATTR_NORMAL);
		rule_add(&list, &eth, sizeof(eth));
		if (scope_for(&list) != rows[i].scope)
			fail_msg("row %zu", i);
	}
}

static void rules_without_addresses(void **state)
{
	static const struct {
		enum ibv_flow_attr_type type;
		enum raw_scope scope;
	} rows[] = {
		{ IBV_FLOW_ATTR_NORMAL, RAW_PROMISC },
		{ IBV_FLOW_ATTR_ALL_DEFAULT, RAW_PROMISC },
		{ IBV_FLOW_ATTR_MC_DEFAULT, RAW_GROUPS },
	};
	struct spec_list list;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		rule_begin(&list, rows[i].type);
		assert_int_equal(scope_for(&list), rows[i].scope);
	}
	rule_begin(&list, IBV_FLOW_ATTR_NORMAL);
	RULE_ADD(&list, tcp_udp, IBV_FLOW_SPEC_UDP, .val.dst_port = 53, .mask.dst_port = 0xffff);
	assert_int_equal(scope_for(&list), RAW_PROMISC);
}

/* What is dropped need not arrive, unless it is counted; what is sent need not either. */
static void rules_that_receive_nothing(void **state)
{
	struct spec_list list;

	rule_begin(&list, IBV_FLOW_ATTR_NORMAL);
	RULE_ADD(&list, action_drop, IBV_FLOW_SPEC_ACTION_DROP);
	assert_int_equal(scope_for(&list), RAW_OWN);
	rule_begin(&list, IBV_FLOW_ATTR_NORMAL);
	list.attr.flags = IBV_FLOW_ATTR_FLAGS_EGRESS;
	assert_int_equal(scope_for(&list), RAW_OWN);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(a_rule_sees_all_frames_that_match_it),
		TEST(rules_without_addresses),
		TEST(rules_that_receive_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
