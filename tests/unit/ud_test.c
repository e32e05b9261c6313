/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UD: address and Q_Key of each datagram, the network header in the receive, silent drops (IBTA vol
 * 1, 9.8.3; Annex A17).
 */
#include "roce_env.h"

#include <string.h>

#include "util/be.h"

#include "util/tuning.h"

static struct roce_env e;
static struct net_path ah;

static struct send_wqe *post(uint32_t len, uint32_t qkey)
{
	struct send_wqe *w = env_post(&e, IBV_WR_SEND, 32, len);

	ah = e.wq.path;
	ah.dst.raw[15] = 99;
	w->ud.path = &ah;
	w->ud.qpn = 0x77;
	w->ud.qkey = qkey;
	return w;
}

static void datagram_carries_its_address(void **state)
{
	env_start(&e, IBV_QPT_UD);
	post(256, 0x1234)->flags |= IBV_SEND_SOLICITED;
	assert_true(env_output(&e));
	assert_int_equal(e.out.bth.opcode, ROCE_UD_SEND_ONLY);
	assert_int_equal(e.out.bth.dest_qpn, 0x77);
	assert_int_equal(e.out.bth.psn, ENV_PSN);
	assert_true(e.out.bth.solicited);
	assert_false(e.out.bth.ack_req);
	assert_int_equal(e.out.deth.qkey, 0x1234);
	assert_int_equal(e.out.deth.src_qpn, e.wq.qpn);
	assert_int_equal(e.out.payload_len, 256);
	assert_memory_equal(e.out.payload, e.mem + 32, 256);
	assert_int_equal(e.out_path->dst.raw[15], 99);
	env_expect_cqe(&e, 0, 0, IBV_WC_SUCCESS);
	post(0, 0)->opcode = IBV_WR_SEND_WITH_IMM;
	assert_true(env_output(&e));
	assert_int_equal(e.out.bth.opcode, ROCE_UD_SEND_ONLY_WITH_IMMEDIATE);
	assert_int_equal(e.out.bth.psn, ENV_PSN + 1);
}

/* IBTA vol 1, 10.2: a Q_Key with the top bit in a request means the QP's own. */
static void controlled_qkey(void **state)
{
	env_start(&e, IBV_QPT_UD);
	post(8, 0x80000000);
	assert_true(env_output(&e));
	assert_int_equal(e.out.deth.qkey, ENV_QKEY);
}

static void unsendable_datagrams(void **state)
{
	static const struct {
		uint32_t wr;
		uint32_t len;
		bool path;
		enum ibv_wc_status status;
		enum reason why;
	} rows[] = {
		{ IBV_WR_SEND, 257, true, IBV_WC_LOC_LEN_ERR, REASON_WR_MTU },
		{ IBV_WR_SEND, 8, false, IBV_WC_LOC_QP_OP_ERR, REASON_WR_BAD_AH },
		{ IBV_WR_RDMA_WRITE, 8, true, IBV_WC_LOC_QP_OP_ERR, REASON_WR_OPCODE },
		{ IBV_WR_SEND_WITH_INV, 8, true, IBV_WC_LOC_QP_OP_ERR, REASON_WR_OPCODE },
		{ IBV_WR_LOCAL_INV, 0, true, IBV_WC_LOC_QP_OP_ERR, REASON_WR_OPCODE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct send_wqe *w;

		env_start(&e, IBV_QPT_UD);
		w = post(rows[i].len, 0);
		w->opcode = rows[i].wr;
		if (!rows[i].path)
			w->ud.path = NULL;
		post(8, 0);
		assert_int_equal(env_drain(&e), 0);
		env_expect_cqe(&e, 0, 0, rows[i].status);
		assert_int_equal(e.cqes[0].reason, rows[i].why);
		env_expect_cqe(&e, 1, 1, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(e.wq.state, IBV_QPS_SQE);
		env_move(&e, IBV_QPS_RTS);
		post(8, 0);
		assert_int_equal(env_drain(&e), 1);
	}
}

static void receive(const struct roce_pkt *pkt)
{
	env_start(&e, IBV_QPT_UD);
	memset(e.mem, 0xee, 1000);
	env_post_recv(&e, 0, 1000);
	env_input(&e, pkt);
}

static struct roce_pkt datagram(uint32_t len)
{
	env_start(&e, IBV_QPT_UD);
	return env_pkt(&e, ROCE_RC_SEND_ONLY, 1, len);
}

/* 20 zero bytes and the IPv4 header as on the wire, with its checksum. */
static void ipv4_header_in_the_receive(void **state)
{
	struct roce_pkt pkt = datagram(33);
	const uint8_t *ip = e.mem + 20;
	uint32_t sum = 0;

	pkt.path.traffic_class = 0x48;
	pkt.path.hop_limit = 63;
	receive(&pkt);
	env_expect_cqe(&e, 0, 1000, IBV_WC_SUCCESS);
	assert_int_equal(e.cqes[0].byte_len, 73);
	assert_int_equal(e.cqes[0].wc_flags, IBV_WC_GRH);
	assert_int_equal(e.cqes[0].src_qp, 0x22);
	for (int i = 0; i < 20; i++)
		assert_int_equal(e.mem[i], 0);
	assert_int_equal(ip[0], 0x45);
	assert_int_equal(ip[1], 0x48);
	assert_int_equal(get_be16(ip + 2), 20 + 8 + 12 + 8 + 36 + 4);
	assert_int_equal(ip[8], 63);
	assert_int_equal(ip[9], 17);
	assert_memory_equal(ip + 12, pkt.path.src.raw + 12, 4);
	assert_memory_equal(ip + 16, pkt.path.dst.raw + 12, 4);
	for (int i = 0; i < 20; i += 2)
		sum += get_be16(ip + i);
	assert_int_equal((sum & 0xffff) + (sum >> 16), 0xffff);
	assert_memory_equal(e.mem + 40, pkt.payload, 33);
	assert_int_equal(e.mem[73], 0xee);
}

static void ipv6_header_in_the_receive(void **state)
{
	struct roce_pkt pkt = datagram(8);

	pkt.path.src = (struct net_addr){ { 0xfe, 0x80, [15] = 2 } };
	pkt.path.dst = (struct net_addr){ { 0xfe, 0x80, [15] = 1 } };
	pkt.path.traffic_class = 0x12;
	pkt.path.flow_label = 0x34567;
	pkt.path.hop_limit = 5;
	pkt.bth.opcode = ROCE_UD_SEND_ONLY_WITH_IMMEDIATE;
	pkt.imm = 7;
	receive(&pkt);
	env_expect_cqe(&e, 0, 1000, IBV_WC_SUCCESS);
	assert_int_equal(e.cqes[0].wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	assert_int_equal(e.cqes[0].imm, 7);
	assert_int_equal(get_be32(e.mem), 0x61234567);
	assert_int_equal(get_be16(e.mem + 4), 8 + 12 + 8 + 4 + 8 + 4);
	assert_int_equal(e.mem[6], 17);
	assert_int_equal(e.mem[7], 5);
	assert_memory_equal(e.mem + 8, pkt.path.src.raw, 16);
	assert_memory_equal(e.mem + 24, pkt.path.dst.raw, 16);
}

static void without_header_area(void **state)
{
	struct roce_pkt pkt = datagram(8);

	e.wq.use_grh_area = false;
	env_post_recv(&e, 0, 8);
	env_input(&e, &pkt);
	env_expect_cqe(&e, 0, 1000, IBV_WC_SUCCESS);
	assert_int_equal(e.cqes[0].byte_len, 8);
	assert_int_equal(e.cqes[0].wc_flags, 0);
	assert_memory_equal(e.mem, pkt.payload, 8);
}

/* IBTA vol 1, 9.8.3: wrong Q_Key or P_Key, too long, no receive: dropped silently, but counted. */
static void silent_drops(void **state)
{
	struct roce_pkt wrong_key = datagram(8), wrong_pkey = datagram(8), too_long = datagram(257),
			good = datagram(8);

	wrong_key.deth.qkey++;
	receive(&wrong_key);
	assert_int_equal(e.dropped, REASON_DROP_QKEY);
	wrong_pkey.bth.pkey ^= 1;
	env_input(&e, &wrong_pkey);
	env_input(&e, &too_long);
	assert_int_equal(e.dropped, REASON_REQ_LENGTH);
	assert_int_equal(e.num_cqes, 0);
	assert_int_equal(e.wq.rq.next, 0);
	env_input(&e, &good);
	assert_int_equal(e.num_cqes, 1);
	env_input(&e, &good);
	assert_int_equal(e.num_cqes, 1);
	assert_int_equal(e.qp.counters.dropped_pkts, 4);
	assert_int_equal(e.qp.counters.unreceived_msgs, 1);
	assert_int_equal(e.dropped, REASON_DROP_NO_RECEIVE);
	assert_int_equal(e.violations[VIOLATION_QKEY], 1);
	assert_int_equal(e.violations[VIOLATION_PKEY], 1);
	assert_int_equal(e.wq.state, IBV_QPS_RTS);
	assert_int_equal(env_drain(&e), 0);
}

/*
 * Otherwise any sender with the Q_Key could stop the QP: the receive stays for the next datagram.
 */
static void receive_too_small(void **state)
{
	struct roce_pkt too_long = datagram(8), fits = datagram(7);

	env_post_recv(&e, 0, 47);
	env_input(&e, &too_long);
	assert_int_equal(e.num_cqes, 0);
	assert_int_equal(e.qp.counters.dropped_pkts, 1);
	assert_int_equal(e.wq.state, IBV_QPS_RTS);
	env_input(&e, &fits);
	env_expect_cqe(&e, 0, 1000, IBV_WC_SUCCESS);
}

/* A request that failed the check at posting fails when it is the oldest, whatever its opcode. */
static void failing_requests(void **state)
{
	env_start(&e, IBV_QPT_UD);
	post(8, 0);
	post(8, 0)->error = REASON_WR_AH_PD;
	assert_int_equal(env_drain(&e), 1);
	env_expect_cqe(&e, 0, 0, IBV_WC_SUCCESS);
	env_expect_cqe(&e, 1, 1, IBV_WC_LOC_QP_OP_ERR);
	assert_int_equal(e.cqes[1].reason, REASON_WR_AH_PD);
}

static void receive_with_bad_memory(void **state)
{
	struct roce_pkt pkt = datagram(8);

	env_post_recv(&e, 0, 100);
	rq_wqe(&e.wq.rq, 0)->sge[0].lkey = 99;
	env_input(&e, &pkt);
	env_expect_cqe(&e, 0, 1000, IBV_WC_LOC_PROT_ERR);
}

/*
 * Annex A17: the sender's QP gets a CNP at the sender's address; at most one in 50 us, and none
 * from a member of a group.
 */
static void marks_are_notified_to_the_sender(void **state)
{
	struct roce_pkt pkt = datagram(8);

	pkt.path.traffic_class |= ROCE_ECN_CE;
	pkt.deth.src_qpn = 0x4711;
	env_input(&e, &pkt);
	assert_true(env_output(&e));
	assert_int_equal(e.out.bth.opcode, ROCE_CNP_NOTIFICATION);
	assert_true(e.out.bth.becn);
	assert_int_equal(e.out.bth.dest_qpn, 0x4711);
	assert_true(net_addr_equal(&e.out.path.dst, &pkt.path.src));
	assert_true(net_addr_equal(&e.out.path.src, &pkt.path.dst));
	env_input(&e, &pkt);
	assert_int_equal(env_drain(&e), 0);
	e.now += 50 * VRB_USEC;
	assert_int_equal(env_drain(&e), 1);

	pkt = datagram(8);
	pkt.path.traffic_class |= ROCE_ECN_CE;
	pkt.path.dst = (struct net_addr){ { 0xff, 0x0e, [15] = 1 } };
	env_input(&e, &pkt);
	assert_int_equal(env_drain(&e), 0);
	assert_int_equal(e.qp.counters.ecn_marked, 1);
}

/* A sender without the Q_Key causes no CNP to an address and a QP that may belong to others. */
static void unauthorized_senders_get_no_cnp(void **state)
{
	struct roce_pkt pkt = datagram(8);

	e.now += VRB_SECOND;
	pkt.path.traffic_class |= ROCE_ECN_CE;
	pkt.deth.qkey++;
	env_input(&e, &pkt);
	env_expect_silence(&e);
	pkt.deth.qkey--;
	pkt.payload_len = e.wq.mtu + 1;
	env_input(&e, &pkt);
	env_expect_silence(&e);
	assert_int_equal(e.qp.counters.ecn_marked, 0);
}

static struct roce_pkt notification(void)
{
	struct roce_pkt cnp = env_pkt(&e, 0, 0, 0);

	cnp.bth.opcode = ROCE_CNP_NOTIFICATION;
	cnp.path.src.raw[15] = 99;	/* as post() sets it */
	return cnp;
}

static void receive_two(const struct roce_pkt *cnp)
{
	for (int i = 0; i < 2; i++, e.now += VRB_MSEC)
		env_input(&e, cnp);
}

/* Only an address to which datagrams were sent may send CNPs, and only for a short time. */
static void forged_cnps_do_not_reduce_the_rate(void **state)
{
	struct roce_pkt cnp;

	env_start(&e, IBV_QPT_UD);
	cnp = notification();
	receive_two(&cnp);
	post(200, 0x1234);
	assert_int_equal(env_drain(&e), 1);
	cnp.path.src.raw[15]++;
	receive_two(&cnp);
	cnp.path.src.raw[15] += ROCE_SENT_TO_SLOTS - 1;
	receive_two(&cnp);
	e.now += ROCE_LATELY;
	cnp = notification();
	receive_two(&cnp);
	assert_int_equal(e.qp.counters.cnp_rcvd, 0);
	assert_int_equal(e.qp.counters.dropped_pkts, 8);
}

/* Two CNPs slow the QP down; a lower limit set by the program stays in effect. */
static void cnps_reduce_the_rate(void **state)
{
	struct roce_pkt cnp;

	env_start(&e, IBV_QPT_UD);
	post(200, 0x1234);
	assert_int_equal(env_drain(&e), 1);
	cnp = notification();
	for (int i = 0; i < 2; i++, e.now += VRB_MSEC) {
		env_input(&e, &cnp);
		post(200, 0x1234);
		assert_int_equal(env_drain(&e), 1);
	}
	assert_int_equal(e.qp.counters.cnp_rcvd, 2);
	assert_in_range(e.qp.pace.dcqcn.kbps, LIMIT_DCQCN_MIN, LIMIT_DCQCN_MIN + 1000);
	for (int i = 0; i < 4; i++)
		post(200, 0x1234);
	assert_true(env_drain(&e) < 4);
	assert_true(roce_next_timeout(&e.qp) != VRB_NEVER);
}

/* A thread that polls has read the clock before the last datagram of another left. */
static void a_cnp_may_seem_older_than_the_last_datagram(void **state)
{
	struct roce_pkt cnp;

	env_start(&e, IBV_QPT_UD);
	e.now = VRB_SECOND;
	post(200, 0x1234);
	assert_int_equal(env_drain(&e), 1);
	cnp = notification();
	e.now--;
	env_input(&e, &cnp);
	assert_int_equal(e.qp.counters.cnp_rcvd, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(datagram_carries_its_address),
		cmocka_unit_test(controlled_qkey),
		cmocka_unit_test(unsendable_datagrams),
		cmocka_unit_test(ipv4_header_in_the_receive),
		cmocka_unit_test(ipv6_header_in_the_receive),
		cmocka_unit_test(without_header_area),
		cmocka_unit_test(silent_drops),
		cmocka_unit_test(receive_too_small),
		cmocka_unit_test(failing_requests),
		cmocka_unit_test(receive_with_bad_memory),
		cmocka_unit_test(marks_are_notified_to_the_sender),
		cmocka_unit_test(unauthorized_senders_get_no_cnp),
		cmocka_unit_test(forged_cnps_do_not_reduce_the_rate),
		cmocka_unit_test(cnps_reduce_the_rate),
		cmocka_unit_test(a_cnp_may_seem_older_than_the_last_datagram),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
