/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast: each attached QP gets a copy, other QPs do not, nor does a QP that blocks the loopback
 * of its own process. Runs with IPv4 and IPv6 groups over the transport that the environment
 * selects.
 */
#include <arpa/inet.h>
#include <errno.h>

#include "left_out.h"
#include "world.h"

enum {
	GRH = 40,
	LEN = 64,
	MCAST_QPN = 0xffffff,
};

struct member {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct buffer buf;
};

static struct member new_member(struct world *w, uint32_t create_flags)
{
	struct member m = { .cq = world_cq(w, 16),
			    .buf = world_buffer(w, GRH + LEN, WORLD_ACCESS) };
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_UD,
		.send_cq = m.cq,
		.recv_cq = m.cq,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = w->pd,
		.create_flags = create_flags,
	};

	m.qp = ibv_create_qp_ex(w->ctx, &init);
	CHECK(m.qp);
	world_connect(w, m.qp, m.qp);
	world_recv(m.qp, 1, world_sge(&m.buf, 0, GRH + LEN));
	return m;
}

static void free_member(struct member *m)
{
	CHECK_EQ(ibv_destroy_qp(m->qp), 0);
	CHECK_EQ(ibv_destroy_cq(m->cq), 0);
	world_free(&m->buf);
}

static union ibv_gid group(const char *text)
{
	union ibv_gid gid;

	CHECK_EQ(inet_pton(AF_INET6, text, gid.raw), 1);
	return gid;
}

/* The index of a port address of the group's family; -1 if there is none. */
static int source_index(struct world *w, const union ibv_gid *to)
{
	bool ipv4 = to->raw[0] != 0xff;

	for (int i = 0; i < w->port.gid_tbl_len; i++) {
		struct ibv_gid_entry e;
		static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

		if (ibv_query_gid_ex(w->ctx, 1, i, &e, 0))
			continue;
		if (ipv4 == !memcmp(e.gid.raw, mapped, sizeof(mapped)))
			return i;
	}
	return -1;
}

static struct ibv_ah *address(struct world *w, const union ibv_gid *to, int sgid_index)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = *to, .sgid_index = sgid_index, .hop_limit = 1 },
	};
	struct ibv_ah *ah = ibv_create_ah(w->pd, &attr);

	CHECK(ah);
	return ah;
}

static void send_to(struct member *from, struct ibv_ah *ah, const char *text)
{
	struct ibv_sge sge = world_sge(&from->buf, 0, LEN);
	struct ibv_send_wr wr = {
		.wr_id = 9,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { .ah = ah, .remote_qpn = MCAST_QPN, .remote_qkey = WORLD_QKEY },
	};

	memset(from->buf.data, 0, LEN);
	strcpy((char *)from->buf.data, text);
	world_post(from->qp, &wr);
	world_expect(from->cq, 9, IBV_WC_SUCCESS);
}

static void expect_copy(struct member *m, uint32_t src_qp, const char *text)
{
	struct ibv_wc wc = world_expect(m->cq, 1, IBV_WC_SUCCESS);

	CHECK_EQ(wc.byte_len, GRH + LEN);
	CHECK_EQ(wc.src_qp, src_qp);
	CHECK(wc.wc_flags & IBV_WC_GRH);
	CHECK(!strcmp((char *)m->buf.data + GRH, text));
	world_recv(m->qp, 1, world_sge(&m->buf, 0, GRH + LEN));
}

static void expect_nothing(struct member *m)
{
	struct ibv_wc wc;

	CHECK_EQ(ibv_poll_cq(m->cq, 1, &wc), 0);
}

/* a and b are members, c is not, d is a member that blocks loopback of its own process. */
static void copies_go_to_members(struct world *w, const char *name)
{
	union ibv_gid gid = group(name);
	int index = source_index(w, &gid);
	struct member from, a, b, c, d;
	struct ibv_ah *ah;

	if (index < 0) {
		left_out(1, "the port has no address of a group's family");
		return;
	}
	from = new_member(w, 0);
	a = new_member(w, 0);
	b = new_member(w, 0);
	c = new_member(w, 0);
	d = new_member(w, IBV_QP_CREATE_BLOCK_SELF_MCAST_LB);
	ah = address(w, &gid, index);
	CHECK_EQ(ibv_attach_mcast(a.qp, &gid, 0), 0);
	CHECK_EQ(ibv_attach_mcast(a.qp, &gid, 0), 0);
	CHECK_EQ(ibv_attach_mcast(b.qp, &gid, 0), 0);
	CHECK_EQ(ibv_attach_mcast(d.qp, &gid, 0), 0);

	send_to(&from, ah, "one");
	expect_copy(&a, from.qp->qp_num, "one");
	expect_copy(&b, from.qp->qp_num, "one");
	expect_nothing(&a);
	expect_nothing(&c);
	expect_nothing(&d);

	CHECK_EQ(ibv_destroy_qp(a.qp), EBUSY);
	CHECK_EQ(ibv_detach_mcast(a.qp, &gid, 0), 0);
	CHECK_EQ(ibv_detach_mcast(a.qp, &gid, 0), EINVAL);
	send_to(&from, ah, "two");
	expect_copy(&b, from.qp->qp_num, "two");
	expect_nothing(&a);

	CHECK_EQ(ibv_detach_mcast(b.qp, &gid, 0), 0);
	CHECK_EQ(ibv_detach_mcast(d.qp, &gid, 0), 0);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	free_member(&from);
	free_member(&a);
	free_member(&b);
	free_member(&c);
	free_member(&d);
}

/*
 * A context that is closed with an attached QP inside takes the membership along: the dead QP gets
 * nothing, and the next process state joins the group by itself.
 */
static void closed_while_attached(const char *name)
{
	/* Never freed, by contract; static, so that leak checkers find a reference. */
	static struct member m;
	static struct world w;
	union ibv_gid gid = group(name);

	world_open(&w);
	m = new_member(&w, 0);
	CHECK_EQ(ibv_attach_mcast(m.qp, &gid, 0), 0);
	CHECK_EQ(ibv_close_device(w.ctx), 0);
}

static void bad_arguments_are_refused(struct world *w)
{
	union ibv_gid gid = group("ff02::1:77"), unicast = group("fe80::1");
	struct ibv_cq *cq = world_cq(w, 4);
	struct ibv_qp *rc = world_qp(w, IBV_QPT_RC, cq, NULL);
	struct ibv_qp *ud = world_qp(w, IBV_QPT_UD, cq, NULL);

	CHECK_EQ(ibv_attach_mcast(rc, &gid, 0), EINVAL);
	CHECK_EQ(ibv_attach_mcast(ud, &unicast, 0), EINVAL);
	CHECK_EQ(ibv_attach_mcast(ud, NULL, 0), EINVAL);
	CHECK_EQ(ibv_attach_mcast(NULL, &gid, 0), EINVAL);
	CHECK_EQ(ibv_detach_mcast(ud, &gid, 0), EINVAL);
	CHECK_EQ(ibv_destroy_qp(rc), 0);
	CHECK_EQ(ibv_destroy_qp(ud), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
}

int main(void)
{
	const char *transport = getenv("VERBENA_TRANSPORT");
	struct world w;

	closed_while_attached("::ffff:239.77.1.2");
	world_open(&w);
	bad_arguments_are_refused(&w);
	copies_go_to_members(&w, "::ffff:239.77.1.2");
	/* Linux has no route for IPv6 groups on the loopback interface; local peers need none. */
	if (!transport || strcmp(transport, "udp"))
		copies_go_to_members(&w, "ff02::77:1");
	world_close(&w);
	return 0;
}
