/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * path_mtu 4096, as programs hard-code it, over an interface with MTU 1500. Requests of every kind
 * and of many lengths must succeed, so both ends must use the same packet size: it determines the
 * PSNs.
 *
 *	TOGETHER [TRANSPORT]	both processes on one host
 *	APART			on two hosts (network namespaces)
 *	ROUTED			on two hosts, with addresses on lo, whose MTU is that of no route
 */
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../unit/place.h"
#include "rc.h"

enum {
	HALF = 1 << 20,
	SIZE = 2 * HALF, /* the first half is sent, the second is written to */
	ROUNDS = 3,
	TIMEOUT = 14,
	RETRIES = 7,
};

#define IP "PATH=$PATH:/usr/sbin:/sbin ip "

static const uint32_t lengths[] = { 0, 1, 1023, 1024, 1025, 4095, 4096, 4097, 20001, HALF };

static bool apart, routed;

static union ibv_gid host_gid(int host)
{
	return (union ibv_gid){ .raw = { [10] = 0xff, [11] = 0xff, 198, 51, 100, 1 + host } };
}

static void run(const char *fmt, int arg)
{
	char command[256];

	snprintf(command, sizeof(command), fmt, arg);
	if (system(command))
		SKIP("a veth pair cannot be made here");
}

static void fill(struct rc *rc, int side)
{
	for (int i = 0; i < HALF; i++)
		rc->buf[i] = i * 7 + (i >> 8) + side;
	memset(rc->buf + HALF, 0, HALF);
}

static bool has_pattern(const struct rc *rc, int side, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		if (rc->buf[HALF + i] != (char)(i * 7 + (i >> 8) + side))
			return false;
	return true;
}

static void connect_side(struct rc *rc, int sock, struct rc_addr *peer)
{
	struct ibv_port_attr port;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	CHECK(ibv_query_port(rc->ctx, 1, &port) == 0);
	CHECK(port.active_mtu == (routed ? IBV_MTU_4096 : IBV_MTU_1024));
	CHECK(port.max_mtu == IBV_MTU_4096);
	rc->mtu = IBV_MTU_4096;
	rc_pair(rc, sock, peer, TIMEOUT, RETRIES);
	CHECK(ibv_query_qp(rc->qp, &attr, IBV_QP_PATH_MTU, &init) == 0);
	CHECK(attr.path_mtu == IBV_MTU_4096);
}

static void post(struct rc *rc, enum ibv_wr_opcode opcode, uint32_t len, uint32_t from,
		 const struct rc_addr *peer, uint32_t to)
{
	struct ibv_sge sge = { (uintptr_t)rc->buf + from, len, rc->mr->lkey };
	struct ibv_send_wr *bad, wr = { .opcode = opcode, .sg_list = &sge, .num_sge = 1,
					.wr.rdma = { peer->addr + to, peer->rkey } };

	CHECK(ibv_post_send(rc->qp, &wr, &bad) == 0);
}

static void expect(struct rc *rc, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc = rc_wait(rc);

	if (wc.status != IBV_WC_SUCCESS)
		printf("%s: %s, vendor_err %u\n", opcode & IBV_WC_RECV ? "receive" : "request",
		       ibv_wc_status_str(wc.status), wc.vendor_err);
	CHECK(wc.status == IBV_WC_SUCCESS);
	CHECK(wc.opcode == opcode);
}

/* The sides take turns as requester and responder. */
static void run_requester(struct rc *rc, int sock, const struct rc_addr *peer, int side,
			  uint32_t len)
{
	post(rc, IBV_WR_RDMA_READ, len, HALF, peer, 0);
	post(rc, IBV_WR_RDMA_READ, len / 2, HALF, peer, 0);
	post(rc, IBV_WR_RDMA_WRITE, len, 0, peer, HALF);
	expect(rc, IBV_WC_RDMA_READ);
	expect(rc, IBV_WC_RDMA_READ);
	expect(rc, IBV_WC_RDMA_WRITE);
	CHECK(has_pattern(rc, !side, len));
	rc_barrier(sock);
	rc_barrier(sock); /* the peer has checked its buffer and posted a receive */
	post(rc, IBV_WR_SEND, len, 0, peer, 0);
	expect(rc, IBV_WC_SEND);
	rc_barrier(sock);
}

static void run_responder(struct rc *rc, int sock, int side, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)rc->buf + HALF, HALF, rc->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	rc_barrier(sock);
	CHECK(has_pattern(rc, !side, len));
	memset(rc->buf + HALF, 0, HALF);
	CHECK(ibv_post_recv(rc->qp, &wr, &bad) == 0);
	rc_barrier(sock);
	expect(rc, IBV_WC_RECV);
	CHECK(has_pattern(rc, !side, len));
	rc_barrier(sock);
}

static void run_side(int sock, int side, const union ibv_gid *gid)
{
	struct rc_addr peer;
	struct rc rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(RC_LIMIT_S);
	rc_open_at(&rc, SIZE, gid);
	connect_side(&rc, sock, &peer);
	for (int round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
			fill(&rc, side);
			rc_barrier(sock);
			if (round % 2 == side)
				run_responder(&rc, sock, side, lengths[i]);
			else
				run_requester(&rc, sock, &peer, side, lengths[i]);
		}
	}
	rc_close(&rc);
}

/* Side is 1 or 2. */
static void add_addresses(int side)
{
	run(IP "link set v0 up && " IP "link set lo up", 0);
	if (!routed) {
		run(IP "addr add 198.51.100.%d/24 dev v0", side);
		return;
	}
	run(IP "addr add 192.0.2.%d/24 dev v0", side);
	run(IP "addr add 198.51.100.%d/32 dev lo", side);
	run(IP "route add 198.51.100.0/24 via 192.0.2.%d", 3 - side);
}

/* The second side: in the network namespace of the first, or in its own. */
static void run_second_side(int sock)
{
	union ibv_gid gid = host_gid(apart);

	if (apart) {
		CHECK(unshare(CLONE_NEWNET) == 0);
		rc_barrier(sock); /* the first side creates the interface */
		rc_barrier(sock);
		add_addresses(2);
	}
	rc_barrier(sock);
	run_side(sock, 1, &gid);
	exit(0);
}

int main(int argc, char **argv)
{
	union ibv_gid gid = host_gid(0);
	int sock[2], status;
	pid_t pid;

	routed = argc > 1 && !strcmp(argv[1], "ROUTED");
	apart = routed || (argc > 1 && !strcmp(argv[1], "APART"));
	if (argc > 2)
		setenv("VERBENA_TRANSPORT", argv[2], 1);
	setenv("VERBENA_DEVICES", routed ? "lo" : "v0", 1);
	if (!place_enter_netns())
		SKIP("no network namespace");
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sock) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		close(sock[0]);	/* so that it ends with the first side */
		run_second_side(sock[1]);
	}
	if (apart) {
		rc_barrier(sock[0]);
		run(IP "link add v0 type veth peer name v0 netns %d", pid);
	} else {
		run(IP "link add v0 type veth peer name v1 && " IP "link set v1 up", 0);
	}
	add_addresses(1);
	if (apart)
		rc_barrier(sock[0]);
	rc_barrier(sock[0]);
	run_side(sock[0], 0, &gid);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status));
	return 0;
}
