/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets with valid ICRCs, forged by a third host: out-of-order requests, datagrams with a
 * congestion mark that would make this host send CNPs to another one, and datagrams to a group that
 * name a QP which is not a member.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "core/rx/reorder.h"
#include "roce/icrc.h"
#include "roce/opcode.h"
#include "roce/psn.h"
#include "util/be.h"
#include "util/tuning.h"
#include "world.h"

enum {
	LEN = 8,
	GRH = 40,
	CE = 3,
	FORGED_QPN = 0xabcdef,
};

static struct world w;
static struct ibv_cq *cq;
static struct ibv_qp *a, *b;
static struct buffer buf;
static const char own_address[] = "127.0.0.1", other_address[] = "127.0.0.9", group[] = "239.1.2.3";

static struct net_addr address(const char *text)
{
	struct net_addr addr = { { [10] = 0xff, [11] = 0xff } };

	CHECK_EQ(inet_pton(AF_INET, text, addr.raw + 12), 1);
	return addr;
}

static uint16_t port(void)
{
	return atoi(getenv("VERBENA_UDP_PORT"));
}

static struct sockaddr_in socket_address(const char *text, uint16_t udp_port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(udp_port) };

	CHECK_EQ(inet_pton(AF_INET, text, &sa.sin_addr), 1);
	return sa;
}

/* Opens a socket at an address; port 0: any. */
static int open_socket(const char *at, uint16_t udp_port)
{
	struct sockaddr_in sa = socket_address(at, udp_port);
	struct timeval timeout = { .tv_sec = WORLD_LIMIT_S };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;

	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)), 0);
	CHECK_EQ(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

/* Sends a packet with a forged source address, and identification 0 as for an unfragmented one. */
static void forge(const char *src, const char *dst, int tos, const struct roce_pkt *pkt,
		  uint32_t len)
{
	struct sockaddr_in to = socket_address(dst, port()), from;
	struct in_addr through = { htonl(INADDR_LOOPBACK) };
	struct net_path path = { .src = address(src), .dst = address(dst), .dst_port = port() };
	uint8_t packet[ROCE_MAX_HDR + 64] = { 0 };
	socklen_t size = sizeof(from);
	int fd = open_socket(src, 0), whole = IP_PMTUDISC_PROBE;
	uint32_t icrc, n = roce_encode_headers(packet, pkt);

	CHECK_EQ(getsockname(fd, (struct sockaddr *)&from, &size), 0);
	CHECK_EQ(setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &whole, sizeof(whole)), 0);
	CHECK_EQ(setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof(tos)), 0);
	CHECK_EQ(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &through, sizeof(through)), 0);
	path.src_port = ntohs(from.sin_port);
	memset(packet + n, 0xee, len);
	n += len;
	icrc = htole32(roce_icrc(&path, 0, packet, n));
	memcpy(packet + n, &icrc, sizeof(icrc));
	n += sizeof(icrc);
	CHECK_EQ(sendto(fd, packet, n, 0, (struct sockaddr *)&to, sizeof(to)), n);
	close(fd);
}

static struct roce_pkt request(uint8_t opcode, uint32_t qpn, uint32_t psn)
{
	return (struct roce_pkt){
		.bth = { .opcode = opcode,
			 .pkey = 0xffff,
			 .dest_qpn = qpn,
			 .psn = psn,
			 .mig_req = true },
		.deth = { .qkey = WORLD_QKEY, .src_qpn = FORGED_QPN },
	};
}

static void set_up(enum ibv_qp_type type)
{
	cq = world_cq(&w, 64);
	a = world_qp(&w, type, cq, NULL);
	b = world_qp(&w, type, cq, NULL);
	world_connect(&w, a, b);
	buf = world_buffer(&w, 4096, WORLD_ACCESS);
}

static void tear_down(void)
{
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_free(&buf);
}

static void send_one(uint32_t n)
{
	struct ibv_wc wc[2];

	memset(buf.data, n, LEN);
	memset(buf.data + LEN, 0, LEN);
	world_recv(b, 1, world_sge(&buf, LEN, LEN));
	world_send(a, 2, world_sge(&buf, 0, LEN));
	world_poll(cq, wc, 2);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
	CHECK(!memcmp(buf.data, buf.data + LEN, LEN));
}

/* Forges a datagram to a QP of the same CQ, and so of the same socket, and waits for it. */
static void wait_for_forged(void)
{
	struct ibv_qp *ud = world_qp(&w, IBV_QPT_UD, cq, NULL);
	struct roce_pkt pkt = request(ROCE_UD_SEND_ONLY, ud->qp_num, 0);
	struct ibv_wc wc;

	world_connect(&w, ud, ud);
	world_recv(ud, 1, world_sge(&buf, 0, 256));
	forge(own_address, own_address, 0, &pkt, LEN);
	world_poll(cq, &wc, 1);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_destroy_qp(ud), 0);
}

/*
 * A forged request that arrives before the peer's own with the same PSN is not delivered instead of
 * it.
 */
static void test_early_requests(void)
{
	uint32_t ahead = TUNE_REORDER_TRUSTED + 1;
	struct roce_pkt pkt;

	set_up(IBV_QPT_RC);
	pkt = request(ROCE_RC_SEND_ONLY, b->qp_num, psn_add(WORLD_PSN, ahead));
	forge(own_address, own_address, 0, &pkt, LEN);
	pkt.bth.psn = psn_add(pkt.bth.psn, 1);
	forge(own_address, own_address, 0, &pkt, LEN);
	wait_for_forged();	/* none of them is late and trusted */
	for (uint32_t i = 0; i < ahead + 4; i++)
		send_one(i);
	tear_down();
}

/* b must receive a datagram of this length next. */
static void expect_datagram(uint32_t len)
{
	struct ibv_wc wc;

	world_poll(cq, &wc, 1);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(wc.qp_num, b->qp_num);
	CHECK_EQ(wc.byte_len, GRH + len);
	world_recv(b, 1, world_sge(&buf, 0, 256));
}

/* A CNP to the forged sender is only sent if the datagram was valid for this QP. */
static void test_reflected_notifications(void)
{
	struct roce_pkt pkt;
	uint8_t got[64];
	int victim;

	set_up(IBV_QPT_UD);
	victim = open_socket(other_address, port());
	world_recv(b, 1, world_sge(&buf, 0, 256));
	pkt = request(ROCE_UD_SEND_ONLY, b->qp_num, 0);
	pkt.deth.qkey++;
	forge(other_address, own_address, CE, &pkt, 8);
	pkt.deth.qkey--;
	forge(other_address, own_address, 0, &pkt, 12);
	expect_datagram(12);
	CHECK(recv(victim, got, sizeof(got), MSG_DONTWAIT) < 0);
	forge(other_address, own_address, CE, &pkt, 16);
	expect_datagram(16);
	CHECK(recv(victim, got, sizeof(got), 0) > 0);
	CHECK_EQ(got[0], ROCE_CNP_NOTIFICATION);
	CHECK_EQ(get_be24(got + 5), FORGED_QPN);
	close(victim);
	tear_down();
}

/* A datagram to a group is delivered only to members, whatever destination QP it names. */
static void test_group_without_membership(void)
{
	struct net_addr addr = address(group);
	struct roce_pkt pkt;
	union ibv_gid gid;

	set_up(IBV_QPT_UD);
	memcpy(gid.raw, addr.raw, sizeof(gid.raw));
	CHECK_EQ(ibv_attach_mcast(b, &gid, 0), 0);
	world_recv(a, 1, world_sge(&buf, 1024, 256));
	world_recv(b, 1, world_sge(&buf, 0, 256));
	pkt = request(ROCE_UD_SEND_ONLY, a->qp_num, 0);
	forge(own_address, group, 0, &pkt, 8);
	pkt.bth.dest_qpn = 0xffffff;
	forge(own_address, group, 0, &pkt, 12);
	expect_datagram(12);
	CHECK_EQ(ibv_detach_mcast(b, &gid, 0), 0);
	tear_down();
}

/* The loopback interface's own IPv4 address. */
static void choose_gid(void)
{
	struct net_addr addr = address(own_address);

	for (int i = 0; i < w.port.gid_tbl_len; i++) {
		if (ibv_query_gid(w.ctx, 1, i, &w.gid) || memcmp(&w.gid, &addr, sizeof(addr)))
			continue;
		w.gid_index = i;
		return;
	}
	SKIP("the loopback interface has no address 127.0.0.1");
}

int main(void)
{
	/*
	 * Forged packets come over the network only, so local peers must accept packets from there
	 * as well.
	 */
	if (!strcmp(getenv("VERBENA_TRANSPORT"), "local"))
		setenv("VERBENA_TRANSPORT", "auto", 1);
	world_open(&w);
	choose_gid();
	test_early_requests();
	test_reflected_notifications();
	test_group_without_membership();
	world_close(&w);
	return 0;
}
