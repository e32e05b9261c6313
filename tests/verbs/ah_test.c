/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address handles: which addresses are accepted, and the path back to the sender of a datagram that
 * ibv_init_ah_from_wc() derives from a GRH with an IPv4 or IPv6 header.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>

#include "world.h"

static struct ibv_ah_attr to_self(const struct world *w)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = w->gid, .sgid_index = w->gid_index, .hop_limit = 3 },
	};
}

static void expect_refused(struct world *w, struct ibv_ah_attr attr)
{
	errno = 0;
	CHECK(!ibv_create_ah(w->pd, &attr));
	CHECK_EQ(errno, EINVAL);
}

static void creation(struct world *w)
{
	struct ibv_ah_attr attr = to_self(w);
	struct ibv_ah *ah = ibv_create_ah(w->pd, &attr);

	CHECK(ah);
	CHECK(ah->pd == w->pd && ah->context == w->ctx);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	CHECK_EQ(ibv_destroy_ah(NULL), EINVAL);
	attr.port_num = 0;
	expect_refused(w, attr);
	attr.port_num = 2;
	expect_refused(w, attr);
	attr = to_self(w);
	attr.grh.sgid_index = 255; /* an empty entry: programs probe the GID table like this */
	expect_refused(w, attr);
	attr = to_self(w);
	memset(&attr.grh.dgid, 0, 16);
	expect_refused(w, attr);
	attr = to_self(w);
	attr.is_global = 0;
	expect_refused(w, attr); /* DLID 0 */
	attr.dlid = w->port.lid;
	ah = ibv_create_ah(w->pd, &attr);
	CHECK(ah);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	CHECK(!ibv_create_ah(NULL, &attr));
	CHECK(!ibv_create_ah(w->pd, NULL));
}

/* Creates and destroys thousands of handles: none may leak. */
static void many_handles(struct world *w)
{
	enum { MANY = 500 };
	static struct ibv_ah *ahs[MANY];
	struct ibv_ah_attr attr = to_self(w);

	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < MANY; i++)
			CHECK((ahs[i] = ibv_create_ah(w->pd, &attr)));
		for (int i = 0; i < MANY; i++)
			CHECK_EQ(ibv_destroy_ah(ahs[i]), 0);
	}
}

/* The index of the port's GID of this address family; -1 if there is none. */
static int find_gid(struct world *w, bool ipv4, union ibv_gid *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	for (int i = 0; i < w->port.gid_tbl_len; i++) {
		CHECK_EQ(ibv_query_gid(w->ctx, 1, i, gid), 0);
		if ((gid->global.interface_id || gid->global.subnet_prefix) &&
		    (memcmp(gid->raw, mapped, 12) == 0) == ipv4)
			return i;
	}
	return -1;
}

static void from_ipv6(struct world *w)
{
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH, .sl = 5 };
	struct ibv_grh grh = { .version_tclass_flow = htobe32(6u << 28 | 0xb8u << 20 | 0xabcde),
			       .next_hdr = 17,
			       .hop_limit = 60 };
	struct ibv_ah_attr attr;
	union ibv_gid gid;
	int index = find_gid(w, false, &gid);
	struct ibv_ah *ah;

	if (index < 0)
		return;
	grh.dgid = gid;
	CHECK_EQ(inet_pton(AF_INET6, "2001:db8::9", grh.sgid.raw), 1);
	CHECK_EQ(ibv_init_ah_from_wc(w->ctx, 1, &wc, &grh, &attr), 0);
	CHECK_EQ(attr.is_global, 1);
	CHECK_EQ(attr.sl, 5);
	CHECK_EQ(attr.grh.sgid_index, index);
	CHECK_EQ(attr.grh.traffic_class, 0xb8);
	CHECK_EQ(attr.grh.flow_label, 0xabcde);
	CHECK_MEM(&attr.grh.dgid, &grh.sgid, 16);
	CHECK((ah = ibv_create_ah_from_wc(w->pd, &wc, &grh, 1)));
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	/* A destination address that is not this port's. */
	grh.dgid.raw[15] ^= 0x55;
	CHECK(ibv_init_ah_from_wc(w->ctx, 1, &wc, &grh, &attr) != 0);
	CHECK(!ibv_create_ah_from_wc(w->pd, &wc, &grh, 1));
}

static void put_checksum(uint8_t *ip)
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += ip[i] << 8 | ip[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	ip[10] = ~sum >> 8;
	ip[11] = ~sum;
}

/* The IPv4 header is preceded by 20 unused bytes. */
static void from_ipv4(struct world *w)
{
	static const uint8_t peer[4] = { 192, 0, 2, 9 };
	union {
		struct ibv_grh grh;
		uint8_t bytes[40];
	} u = { .bytes = { [20] = 0x45, 0x68, 0, 60, 0, 0, 0x40, 0, 64, 17 } };
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH };
	struct ibv_ah_attr attr;
	union ibv_gid gid;
	int index = find_gid(w, true, &gid);

	if (index < 0)
		return;
	memcpy(u.bytes + 32, peer, 4);
	memcpy(u.bytes + 36, gid.raw + 12, 4);
	put_checksum(u.bytes + 20);
	CHECK_EQ(ibv_init_ah_from_wc(w->ctx, 1, &wc, &u.grh, &attr), 0);
	CHECK_EQ(attr.grh.sgid_index, index);
	CHECK_EQ(attr.grh.traffic_class, 0x68);
	CHECK_MEM(attr.grh.dgid.raw + 12, peer, 4);
	CHECK_EQ(attr.grh.dgid.raw[11], 0xff);
	/* A multicast destination: any address of the family may be the source of the reply. */
	u.bytes[36] = 224;
	u.bytes[30] = u.bytes[31] = 0;
	put_checksum(u.bytes + 20);
	CHECK_EQ(ibv_init_ah_from_wc(w->ctx, 1, &wc, &u.grh, &attr), 0);
	CHECK_EQ(attr.grh.sgid_index, index);
}

static void without_grh(struct world *w)
{
	struct ibv_wc wc = { .slid = 7, .sl = 2, .dlid_path_bits = 1 };
	struct ibv_ah_attr attr;

	CHECK_EQ(ibv_init_ah_from_wc(w->ctx, 1, &wc, NULL, &attr), 0);
	CHECK_EQ(attr.dlid, 7);
	CHECK_EQ(attr.sl, 2);
	CHECK_EQ(attr.src_path_bits, 1);
	CHECK_EQ(attr.is_global, 0);
	CHECK_EQ(attr.port_num, 1);
	wc.wc_flags = IBV_WC_GRH;
	CHECK(ibv_init_ah_from_wc(w->ctx, 1, &wc, NULL, &attr) != 0);
	CHECK(ibv_init_ah_from_wc(w->ctx, 2, &wc, NULL, &attr) != 0);
}

int main(void)
{
	struct world w;

	world_open(&w);
	creation(&w);
	many_handles(&w);
	from_ipv6(&w);
	from_ipv4(&w);
	without_grh(&w);
	world_close(&w);
	return 0;
}
