/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports: attributes in the old and the new size, GID and P_Key tables, Ethernet addresses behind
 * GIDs.
 */
#include <endian.h>
#include <errno.h>

#include "world.h"

#undef ibv_query_port

/* Private, but ibv_devinfo and pyverbs use it. */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
		       uint32_t *type);

static void attributes(struct world *w)
{
	union {
		struct ibv_port_attr attr;
		uint8_t bytes[256];
	} old, ext;

	memset(&old, 0xee, sizeof(old));
	CHECK_EQ(ibv_query_port(w->ctx, 1, (struct _compat_ibv_port_attr *)&old), 0);
	/* The exported call must not write beyond the structure of 2006. */
	for (int i = 48; i < 256; i++)
		CHECK_EQ(old.bytes[i], 0xee);
	memset(&ext, 0xee, sizeof(ext));
	CHECK_EQ(___ibv_query_port(w->ctx, 1, &ext.attr), 0);
	CHECK_MEM(&old, &ext, 48);
	CHECK_EQ(ext.attr.state, IBV_PORT_ACTIVE);
	CHECK_EQ(ext.attr.link_layer, IBV_LINK_LAYER_ETHERNET);
	CHECK_EQ(ext.attr.flags, IBV_QPF_GRH_REQUIRED);
	CHECK_EQ(ext.attr.active_mtu, IBV_MTU_4096);
	CHECK(ext.attr.active_width && ext.attr.active_speed);
	CHECK_EQ(ext.bytes[sizeof(struct ibv_port_attr)], 0xee);
	CHECK_EQ(___ibv_query_port(w->ctx, 0, &ext.attr), EINVAL);
	CHECK_EQ(___ibv_query_port(w->ctx, 2, &ext.attr), EINVAL);
	CHECK_EQ(___ibv_query_port(w->ctx, 1, NULL), EINVAL);
}

/* All calls and files return the same table. */
static void gids(struct world *w)
{
	struct ibv_gid_entry table[512], e;
	union ibv_gid gid;
	uint32_t type;
	ssize_t n = ibv_query_gid_table(w->ctx, table, 512, 0);
	int seen = 0;

	CHECK(n >= 1);
	for (int i = 0; i < w->port.gid_tbl_len; i++) {
		CHECK_EQ(ibv_query_gid(w->ctx, 1, i, &gid), 0);
		if (!gid.global.subnet_prefix && !gid.global.interface_id) {
			CHECK_EQ(ibv_query_gid_ex(w->ctx, 1, i, &e, 0), ENODATA);
			continue;
		}
		CHECK_EQ(ibv_query_gid_ex(w->ctx, 1, i, &e, 0), 0);
		CHECK_MEM(&e.gid, &gid, sizeof(gid));
		CHECK_MEM(&table[seen], &e, sizeof(e));
		CHECK_EQ(e.gid_index, i);
		CHECK_EQ(e.gid_type, IBV_GID_TYPE_ROCE_V2);
		CHECK(e.ndev_ifindex);
		CHECK_EQ(ibv_query_gid_type(w->ctx, 1, i, &type), 0);
		CHECK_EQ(type, 1); /* the files number types like this: RoCE v2 */
		seen++;
	}
	CHECK_EQ(seen, n);
	CHECK_EQ(ibv_query_gid_table(w->ctx, table, n - 1, 0), -EINVAL);
	CHECK_EQ(ibv_query_gid_table(w->ctx, table, 512, 1), -EINVAL);
	CHECK_EQ(ibv_query_gid(w->ctx, 1, -1, &gid), -1);
	CHECK_EQ(ibv_query_gid(w->ctx, 1, w->port.gid_tbl_len, &gid), -1);
	CHECK_EQ(ibv_query_gid(w->ctx, 2, 0, &gid), -1);
	CHECK_EQ(ibv_query_gid_ex(w->ctx, 1, w->port.gid_tbl_len, &e, 0), EINVAL);
	CHECK_EQ(ibv_query_gid_ex(w->ctx, 1, 0, &e, 1), EINVAL);
	CHECK(ibv_query_gid_type(w->ctx, 1, w->port.gid_tbl_len, &type) != 0);
}

static void pkeys(struct world *w)
{
	__be16 pkey = 0;

	CHECK_EQ(w->port.pkey_tbl_len, 1);
	CHECK_EQ(ibv_query_pkey(w->ctx, 1, 0, &pkey), 0);
	CHECK_EQ(be16toh(pkey), 0xffff);
	CHECK_EQ(ibv_query_pkey(w->ctx, 1, 1, &pkey), -1);
	CHECK_EQ(ibv_query_pkey(w->ctx, 1, -1, &pkey), -1);
	CHECK_EQ(ibv_query_pkey(w->ctx, 0, 0, &pkey), -1);
	CHECK_EQ(ibv_get_pkey_index(w->ctx, 1, htobe16(0xffff)), 0);
	CHECK_EQ(ibv_get_pkey_index(w->ctx, 1, htobe16(0x7fff)), -1);
	CHECK_EQ(ibv_get_pkey_index(w->ctx, 3, htobe16(0xffff)), -1);
}

static void ethernet_addresses(struct world *w)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = w->gid, .sgid_index = w->gid_index },
	};
	uint8_t mac[ETHERNET_LL_SIZE] = { 1 }, zero[ETHERNET_LL_SIZE] = { 0 };
	uint16_t vlan = 0;

	CHECK_EQ(ibv_resolve_eth_l2_from_gid(w->ctx, &attr, mac, &vlan), 0);
	CHECK_MEM(mac, zero, sizeof(mac)); /* the loopback interface has none */
	CHECK_EQ(vlan, 0xffff);
	memset(&attr.grh.dgid, 0, sizeof(attr.grh.dgid));
	CHECK(ibv_resolve_eth_l2_from_gid(w->ctx, &attr, mac, &vlan) < 0);
}

int main(void)
{
	struct world w;

	world_open(&w);
	attributes(&w);
	gids(&w);
	pkeys(&w);
	ethernet_addresses(&w);
	world_close(&w);
	return 0;
}
