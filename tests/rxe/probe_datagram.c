/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UD: what arrives, and what must not. The requester sends COUNT messages, each with its number as
 * immediate data; the responder prints which it got, until the last one, which is always a good
 * unicast message.
 */
#include <arpa/inet.h>

#include "probe.h"

enum {
	LIMIT_MS = 20000,
	COUNT = 4,
	LEN = 700,
	GRH = 40,
	SLOT = 1024,
	MULTICAST_QPN = 0xffffff,
};

enum trouble { NONE, BAD_QKEY, MULTICAST };

static const struct datagram {
	const char *name;
	enum trouble trouble;	/* of all messages but the last */
} datagrams[] = {
	{ "ud", NONE },
	{ "ud_bad_qkey", BAD_QKEY },
	{ "ud_multicast", MULTICAST },
};

static bool over_ipv4(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(gid->raw, mapped, sizeof(mapped));
}

/* 239.77.1.2 or ff0e::4d:102. */
static union ibv_gid group_of(const struct end *e)
{
	static const union ibv_gid four = { .raw = { [10] = 0xff, 0xff, 239, 77, 1, 2 } };
	static const union ibv_gid six = { .raw = { 0xff, 0x0e, [13] = 77, 1, 2 } };

	return over_ipv4(&e->mine.gid) ? four : six;
}

static struct ibv_ah *group_ah(struct end *e)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = group_of(e),
			 .sgid_index = (uint8_t)e->place.gid_index,
			 .hop_limit = 1 },
	};
	struct ibv_ah *ah = ibv_create_ah(e->pd, &attr);

	CHECK(ah);
	return ah;
}

static void request(struct end *e, const struct datagram *d)
{
	struct ibv_sge sge = { .addr = (uintptr_t)e->buf, .length = LEN, .lkey = e->mr->lkey };
	struct ibv_ah *group = d->trouble == MULTICAST ? group_ah(e) : NULL;
	struct ibv_wc wc;

	end_meet(e);
	for (int i = 0; i < COUNT; i++) {
		bool last = i == COUNT - 1;
		struct ibv_send_wr wr = { .opcode = IBV_WR_SEND_WITH_IMM,
					  .imm_data = htonl((uint32_t)i),
					  .sg_list = &sge,
					  .num_sge = 1 },
				   *bad;

		memset(e->buf, 'a' + i, LEN);
		wr.wr.ud.ah = group && !last ? group : e->ah;
		wr.wr.ud.remote_qpn = group && !last ? MULTICAST_QPN : e->theirs.qpn;
		wr.wr.ud.remote_qkey = d->trouble == BAD_QKEY && !last ? END_QKEY + 1 : END_QKEY;
		CHECK_EQ(ibv_post_send(e->qp, &wr, &bad), 0);
		printf(" %s", end_poll(e, &wc, LIMIT_MS) ? status_name(wc.status) : "NOTHING");
	}
	end_meet(e);
	if (group)
		CHECK_EQ(ibv_destroy_ah(group), 0);
}

static void check_message(struct end *e, const struct ibv_wc *wc)
{
	const char *slot = e->buf + wc->wr_id * SLOT;
	unsigned number = ntohl(wc->imm_data);

	CHECK_EQ(wc->status, IBV_WC_SUCCESS);
	CHECK_EQ(wc->byte_len, GRH + LEN);
	CHECK_EQ(wc->src_qp, e->theirs.qpn);
	CHECK(wc->wc_flags & IBV_WC_GRH);
	CHECK(wc->wc_flags & IBV_WC_WITH_IMM);
	for (int i = 0; i < LEN; i++)
		CHECK_EQ(slot[GRH + i], 'a' + (int)number);
	if (over_ipv4(&e->mine.gid)) {
		CHECK_EQ(slot[20], 0x45);
		CHECK_MEM(slot + 32, e->theirs.gid.raw + 12, 4);
	} else {
		CHECK_MEM(slot + 8, e->theirs.gid.raw, 16);
	}
}

static void respond(struct end *e, const struct datagram *d)
{
	union ibv_gid group = group_of(e);
	struct ibv_wc wc;
	unsigned number;

	if (d->trouble == MULTICAST)
		CHECK_EQ(ibv_attach_mcast(e->qp, &group, 0), 0);
	for (unsigned i = 0; i < COUNT; i++)
		end_recv(e, i, (size_t)i * SLOT, SLOT);
	end_meet(e);
	do {
		if (!end_poll(e, &wc, LIMIT_MS)) {
			printf(" NOTHING");
			break;
		}
		check_message(e, &wc);
		number = ntohl(wc.imm_data);
		printf(" %u", number);
	} while (number != COUNT - 1);
	end_meet(e);
	if (d->trouble == MULTICAST)
		CHECK_EQ(ibv_detach_mcast(e->qp, &group, 0), 0);
}

bool probe_datagram(struct end *e, const char *name)
{
	struct end_setup setup = { .type = IBV_QPT_UD };

	for (size_t i = 0; i < sizeof(datagrams) / sizeof(*datagrams); i++) {
		if (strcmp(datagrams[i].name, name))
			continue;
		end_connect(e, &setup);
		printf("%s", e->client ? "requester" : "responder");
		if (e->client)
			request(e, &datagrams[i]);
		else
			respond(e, &datagrams[i]);
		printf("\n");
		return true;
	}
	return false;
}
