/* SPDX-License-Identifier: BSD-2-Clause */
/* A port follows an interface that the test defines: GID slots, LID, MTU, events, paths. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>

#include "core/device/port.h"
#include "run/netdev.h"
#include "util/compiler.h"

#define EVENT(e) (1u << IBV_EVENT_##e)

static struct netdev nd;
static struct vrb_port port;

static struct net_addr addr(const char *text)
{
	struct net_addr a = { { [10] = 0xff, [11] = 0xff } };

	if (inet_pton(AF_INET, text, a.raw + 12) == 1)
		return a;
	assert_int_equal(inet_pton(AF_INET6, text, a.raw), 1);
	return a;
}

static void add(const char *text, uint8_t prefix)
{
	nd.addr[nd.n_addrs++] = (struct netdev_addr){ addr(text), prefix };
}

static void remove_address(unsigned int i)
{
	memmove(&nd.addr[i], &nd.addr[i + 1], (--nd.n_addrs - i) * sizeof(nd.addr[0]));
}

static int setup(void **state)
{
	memset(&nd, 0, sizeof(nd));
	strcpy(nd.name, "none0");
	nd.ifindex = 42;
	nd.mtu = 1500;
	nd.up = nd.running = true;
	add("fe80::1", 64);
	add("192.0.2.5", 24);
	add("2001:db8::5", 64);
	vrb_port_init(&port, &nd);
	return 0;
}

static void assert_gid(unsigned int i, const char *text)
{
	struct net_addr want = addr(text), got;

	vrb_port_gid(&port, i, &got);
	assert_memory_equal(&got, &want, sizeof(got));
}

static void mtu(void **state)
{
	static const struct {
		uint32_t ifmtu;
		enum ibv_mtu mtu;
	} rows[] = {
		{ 0, IBV_MTU_256 },      { 343, IBV_MTU_256 },   { 599, IBV_MTU_256 },
		{ 600, IBV_MTU_512 },    { 1111, IBV_MTU_512 },  { 1112, IBV_MTU_1024 },
		{ 1500, IBV_MTU_1024 },  { 2135, IBV_MTU_1024 }, { 2136, IBV_MTU_2048 },
		{ 4183, IBV_MTU_2048 },  { 4184, IBV_MTU_4096 }, { 9000, IBV_MTU_4096 },
		{ 65536, IBV_MTU_4096 },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(vrb_port_mtu(rows[i].ifmtu), rows[i].mtu);
}

static void attributes(void **state)
{
	struct ibv_port_attr attr;

	vrb_port_query(&port, &attr);
	assert_int_equal(attr.state, IBV_PORT_ACTIVE);
	assert_int_equal(attr.phys_state, 5);
	assert_int_equal(attr.active_mtu, IBV_MTU_1024);
	assert_int_equal(attr.max_mtu, IBV_MTU_4096);
	assert_int_equal(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(attr.flags, IBV_QPF_GRH_REQUIRED);
	assert_int_equal(attr.gid_tbl_len, VRB_GID_TABLE);
	assert_int_equal(attr.pkey_tbl_len, 1);
	assert_int_equal(attr.lid, 0x0205);
	assert_int_equal(vrb_port_speed(&port), 100);
}

static void gids(void **state)
{
	struct net_addr a;

	assert_gid(0, "fe80::1");
	assert_gid(1, "192.0.2.5");
	assert_gid(2, "2001:db8::5");
	assert_false(vrb_port_gid(&port, 3, &a));
	assert_true(net_addr_is_zero(&a));
	assert_false(vrb_port_gid(&port, VRB_GID_TABLE, &a));
	a = addr("2001:db8::5");
	assert_int_equal(vrb_port_find_gid(&port, &a), 2);
	a = addr("192.0.2.6");
	assert_int_equal(vrb_port_find_gid(&port, &a), -1);
	memset(&a, 0, sizeof(a));
	assert_int_equal(vrb_port_find_gid(&port, &a), -1);
}

static void slots_are_stable(void **state)
{
	struct net_addr a;

	assert_int_equal(vrb_port_follow(&port, &nd), 0);
	remove_address(1);
	assert_int_equal(vrb_port_follow(&port, &nd), EVENT(GID_CHANGE) | EVENT(LID_CHANGE));
	assert_false(vrb_port_gid(&port, 1, &a));
	assert_gid(2, "2001:db8::5");
	add("198.51.100.1", 24);
	assert_int_equal(vrb_port_follow(&port, &nd), EVENT(GID_CHANGE) | EVENT(LID_CHANGE));
	assert_gid(1, "198.51.100.1");
	assert_int_equal(port.lid, 0x6401);
}

/* The search for an address ends after the last used slot. */
static void only_used_slots_are_searched(void **state)
{
	struct net_addr gid;
	unsigned int last = 0;

	for (unsigned int i = 0; i < VRB_GID_TABLE; i++)
		if (vrb_port_gid(&port, i, &gid))
			last = i + 1;
	assert_true(last > 0);
	assert_int_equal(port.gid_end, last);
	assert_int_equal(vrb_port_find_gid(&port, &port.gid[last - 1].addr), last - 1);
	vrb_port_follow(&port, NULL);
	assert_int_equal(port.gid_end, 0);
}

static void state_follows_the_link(void **state)
{
	nd.running = false;
	assert_int_equal(vrb_port_follow(&port, &nd), EVENT(PORT_ERR));
	assert_int_equal(port.state, IBV_PORT_DOWN);
	assert_int_equal(vrb_port_follow(&port, &nd), 0);
	nd.running = true;
	assert_int_equal(vrb_port_follow(&port, &nd), EVENT(PORT_ACTIVE));
	assert_int_equal(port.state, IBV_PORT_ACTIVE);
	/* The interface disappears and comes back with another index. */
	assert_int_equal(vrb_port_follow(&port, NULL),
			 EVENT(PORT_ERR) | EVENT(GID_CHANGE) | EVENT(LID_CHANGE));
	nd.ifindex = 43;
	assert_int_equal(vrb_port_follow(&port, &nd),
			 EVENT(PORT_ACTIVE) | EVENT(GID_CHANGE) | EVENT(LID_CHANGE));
	assert_int_equal(port.ifindex, 43);
}

static void addresses_beyond_the_table_are_omitted(void **state)
{
	nd.n_addrs = 0;
	for (unsigned int i = 0; i < NETDEV_ADDRS; i++) {
		char text[32];

		snprintf(text, sizeof(text), "10.0.%u.%u", i / 250, i % 250 + 1);
		add(text, 16);
	}
	vrb_port_follow(&port, &nd);
	for (unsigned int i = 0; i < NETDEV_ADDRS; i++)
		assert_true(vrb_port_find_gid(&port, &nd.addr[i].addr) >= 0);
}

static struct ibv_ah_attr grh(const char *dgid, uint8_t sgid_index)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.sl = 3,
		.grh = { .sgid_index = sgid_index,
			 .hop_limit = 9,
			 .traffic_class = 0x60,
			 .flow_label = 5 },
	};
	struct net_addr a = addr(dgid);

	memcpy(attr.grh.dgid.raw, a.raw, sizeof(a.raw));
	return attr;
}

static void path_with_grh(void **state)
{
	struct ibv_ah_attr attr = grh("192.0.2.77", 1);
	struct net_addr src = addr("192.0.2.5"), dst = addr("192.0.2.77");
	struct net_path path;

	assert_int_equal(vrb_port_resolve(&port, &attr, 1, &path), 0);
	assert_memory_equal(&path.src, &src, sizeof(src));
	assert_memory_equal(&path.dst, &dst, sizeof(dst));
	assert_int_equal(path.hop_limit, 64);	/* not the program's, as in Linux */
	assert_int_equal(path.traffic_class, 0x60);
	assert_int_equal(path.sl, 3);
	assert_int_equal(path.sgid_index, 1);
	assert_int_equal(path.dst_port, 4791);
	assert_true(path.src_port >= 0xc000);
	assert_int_equal(path.ifindex, 0);
	attr = grh("239.1.2.3", 1);
	assert_int_equal(vrb_port_resolve(&port, &attr, 1, &path), 0);
	assert_int_equal(path.hop_limit, 9);
	/* link-local addresses and groups need the interface */
	attr = grh("fe80::99", 0);
	assert_int_equal(vrb_port_resolve(&port, &attr, 1, &path), 0);
	assert_int_equal(path.ifindex, 42);
	attr = grh("2001:db8::99", 0);
	assert_int_equal(vrb_port_resolve(&port, &attr, 1, &path), 0);
	assert_int_equal(path.ifindex, 42);
	attr = grh("fe80::99", 2);
	assert_int_equal(vrb_port_resolve(&port, &attr, 1, &path), 0);
	assert_int_equal(path.ifindex, 42);
	attr = grh("2001:db8::99", 2);
	assert_int_equal(vrb_port_resolve(&port, &attr, 1, &path), 0);
	assert_int_equal(path.ifindex, 0);
	attr = grh("224.0.0.9", 1);
	assert_int_equal(vrb_port_resolve(&port, &attr, 1, &path), 0);
	assert_int_equal(path.ifindex, 42);
}

static void refused_paths(void **state)
{
	struct ibv_ah_attr rows[] = {
		grh("192.0.2.77", 0), /* the address families differ */
		grh("2001:db8::9", 1),
		grh("192.0.2.77", 3), /* an empty slot */
		grh("192.0.2.77", 255),
		grh("::", 0),
		grh("192.0.2.77", 1), /* port 2, below */
		{ .port_num = 1, .dlid = 0 },
		{ .port_num = 1, .dlid = 0x0305 }, /* outside /24 */
		{ .port_num = 0, .dlid = 0x0206 },
	};
	struct net_path path;

	rows[5].port_num = 2;
	for (unsigned int i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(vrb_port_resolve(&port, &rows[i], 1, &path), EINVAL);
}

/* The reason names the GID that the program should have used. */
static void why_there_is_no_path(void **state)
{
	static const struct {
		const char *dgid, *why;
		unsigned int sgid_index;
	} rows[] = {
		{ "192.0.2.77", "GID 3 of the port is empty; GID 1 is ::ffff:192.0.2.5", 3 },
		{ "2001:db8::9", "GID 3 of the port is empty; GID 0 is fe80::1", 3 },
		{ "::", "GID 3 of the port is empty; GID 1 is ::ffff:192.0.2.5", 3 },
		{ "::", "the DGID is zero: the peer's GID index may be an empty one", 1 },
		{ "192.0.2.77",
		  "GID 0 of the port is IPv6, but the DGID is IPv4; GID 1 is ::ffff:192.0.2.5", 0 },
		{ "2001:db8::9",
		  "GID 1 of the port is IPv4, but the DGID is IPv6; GID 0 is fe80::1", 1 },
	};
	struct ibv_ah_attr lid = { .port_num = 1, .dlid = 0x0305 };
	char why[VRB_PORT_WHY];

	for (unsigned int i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ibv_ah_attr attr = grh(rows[i].dgid, rows[i].sgid_index);

		vrb_port_explain(&port, &attr, why, sizeof(why));
		assert_string_equal(why, rows[i].why);
	}
	vrb_port_explain(&port, &lid, why, sizeof(why));
	assert_string_equal(why, "is_global is 0, but LID 0x305 is not in the interface's subnet: "
				 "RoCE needs is_global 1, and dgid and sgid_index in grh");
	lid.port_num = 2;
	vrb_port_explain(&port, &lid, why, sizeof(why));
	assert_string_equal(why, "port_num of the address is 2, but must be 1");
}

static void path_with_lid(void **state)
{
	struct ibv_ah_attr attr = { .port_num = 1, .dlid = 0x0206 };
	struct net_addr src = addr("192.0.2.5"), dst = addr("192.0.2.6");
	struct net_path path;

	assert_int_equal(vrb_port_resolve(&port, &attr, 1, &path), 0);
	assert_memory_equal(&path.src, &src, sizeof(src));
	assert_memory_equal(&path.dst, &dst, sizeof(dst));
	assert_int_equal(path.sgid_index, 1);
}

static void loopback_is_lid_1(void **state)
{
	struct ibv_ah_attr attr = { .port_num = 1, .dlid = 1 };
	struct net_addr dst = addr("127.0.0.1");
	struct net_path path;

	memset(&nd, 0, sizeof(nd));
	strcpy(nd.name, "lo");
	nd.loopback = nd.up = nd.running = true;
	nd.mtu = 65536;
	add("127.0.0.1", 8);
	add("::1", 128);
	vrb_port_init(&port, &nd);
	assert_int_equal(port.lid, 1);
	assert_int_equal(vrb_port_resolve(&port, &attr, 1, &path), 0);
	assert_memory_equal(&path.dst, &dst, sizeof(dst));
	attr.dlid = 2;
	assert_int_equal(vrb_port_resolve(&port, &attr, 1, &path), 0);
}

static void short_prefix_has_no_lid(void **state)
{
	nd.n_addrs = 0;
	add("10.1.2.3", 8);
	vrb_port_init(&port, &nd);
	assert_int_equal(port.lid, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mtu),
		cmocka_unit_test_setup(attributes, setup),
		cmocka_unit_test_setup(gids, setup),
		cmocka_unit_test_setup(slots_are_stable, setup),
		cmocka_unit_test_setup(only_used_slots_are_searched, setup),
		cmocka_unit_test_setup(state_follows_the_link, setup),
		cmocka_unit_test_setup(addresses_beyond_the_table_are_omitted, setup),
		cmocka_unit_test_setup(path_with_grh, setup),
		cmocka_unit_test_setup(refused_paths, setup),
		cmocka_unit_test_setup(why_there_is_no_path, setup),
		cmocka_unit_test_setup(path_with_lid, setup),
		cmocka_unit_test_setup(loopback_is_lid_1, setup),
		cmocka_unit_test_setup(short_prefix_has_no_lid, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
