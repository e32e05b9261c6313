/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending a datagram must not read the table of the host's processes, whichever destination the
 * previous one had; sending to a multicast group only checks whether a process has joined or left.
 * The test counts read system calls as the kernel does for this thread.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "world.h"

enum {
	DATAGRAMS = 200,
	TARGETS = 4,
	POLLING = 10000,	/* polls after which a program counts as polling */
	FIRST = 1500,	/* reads until all processes are known: one for each slot of the table */
	MCAST_QPN = 0xffffff,
};

static struct world w;
static struct ibv_cq *cq;
static struct ibv_qp *from, *to[TARGETS];
static struct buffer mem;

static long reads(void)
{
	FILE *f = fopen("/proc/thread-self/io", "re");
	char line[64];
	long n = -1;

	while (f && n < 0 && fgets(line, sizeof(line), f))
		sscanf(line, "syscr: %ld", &n);
	if (f)
		fclose(f);
	if (n < 0)
		SKIP("this kernel does not count reads");
	return n;
}

static struct ibv_ah *make_ah(const union ibv_gid *gid)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = *gid, .sgid_index = w.gid_index, .hop_limit = 1 }
	};
	struct ibv_ah *ah = ibv_create_ah(w.pd, &attr);

	CHECK(ah);
	return ah;
}

/* A process that polls needs no wakeup, so the sender does not check whether it sleeps. */
static void poll_empty(int times)
{
	struct ibv_wc wc;

	while (times--)
		CHECK_EQ(ibv_poll_cq(cq, 1, &wc), 0);
}

static void send_datagram(struct ibv_ah *ah, uint32_t qpn)
{
	struct ibv_sge sge = world_sge(&mem, 0, 32);
	struct ibv_send_wr wr = {
		.wr_id = 1,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { .ah = ah, .remote_qpn = qpn, .remote_qkey = WORLD_QKEY }
	};

	world_post(from, &wr);
	world_expect(cq, 1, IBV_WC_SUCCESS);
	poll_empty(1);
}

static void test_alternating_targets(void)
{
	struct ibv_ah *ah = make_ah(&w.gid);
	long before;

	for (int i = 0; i < TARGETS; i++)
		send_datagram(ah, to[i]->qp_num);
	before = reads();
	for (int i = 0; i < DATAGRAMS; i++)
		send_datagram(ah, to[i % TARGETS]->qp_num);
	before = reads() - before;
	printf("%d datagrams to %d QPs in turn: %ld reads\n", DATAGRAMS, TARGETS, before);
	CHECK(before < DATAGRAMS / 2);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
}

static void test_group(void)
{
	union ibv_gid group;
	struct ibv_ah *ah;
	long before;

	CHECK_EQ(inet_pton(AF_INET6, w.gid.raw[10] == 0xff ? "::ffff:239.1.2.3" : "ff1e::123",
			   group.raw),
		 1);
	ah = make_ah(&group);
	before = reads();
	for (int i = 0; i < DATAGRAMS; i++)
		send_datagram(ah, MCAST_QPN);
	before = reads() - before;
	printf("%d datagrams to a group: %ld reads\n", DATAGRAMS, before);
	CHECK(before < FIRST + 8 * DATAGRAMS);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
}

int main(void)
{
	/*
	 * Reads of a progress thread do not count here, but work that it left to this thread would.
	 */
	setenv("VERBENA_PROGRESS", "none", 1);
	setenv("VERBENA_TRANSPORT", "local", 1);
	world_open(&w);
	cq = world_cq(&w, 64);
	mem = world_buffer(&w, 64, WORLD_ACCESS);
	from = world_qp(&w, IBV_QPT_UD, cq, NULL);
	world_connect(&w, from, from);
	for (int i = 0; i < TARGETS; i++) {
		to[i] = world_qp(&w, IBV_QPT_UD, cq, NULL);
		world_connect(&w, to[i], to[i]);
	}
	poll_empty(POLLING);
	test_alternating_targets();
	test_group();
	for (int i = 0; i < TARGETS; i++)
		CHECK_EQ(ibv_destroy_qp(to[i]), 0);
	CHECK_EQ(ibv_destroy_qp(from), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_free(&mem);
	world_close(&w);
	return 0;
}
