/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A datagram costs no look at the table of the host's processes, whomever the one before it went
 * to; one to a group costs a look at whether somebody has come or gone.  Counted are the system
 * calls that read, as the kernel counts them for this thread.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "world.h"

enum {
	DATAGRAMS = 200,
	TARGETS = 4,
	AWAKE = 10000,	/* polls that make a program one that polls */
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

/* A process that polls need not be woken, which takes a look at where it sleeps. */
static void poll_in_vain(int times)
{
	struct ibv_wc wc;

	while (times--)
		CHECK_EQ(ibv_poll_cq(cq, 1, &wc), 0);
}

static void say(struct ibv_ah *ah, uint32_t qpn)
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
	poll_in_vain(1);
}

static void test_by_turns(void)
{
	struct ibv_ah *ah = make_ah(&w.gid);
	long before;

	for (int i = 0; i < TARGETS; i++)
		say(ah, to[i]->qp_num);
	before = reads();
	for (int i = 0; i < DATAGRAMS; i++)
		say(ah, to[i % TARGETS]->qp_num);
	before = reads() - before;
	printf("%d datagrams to %d QPs by turns: %ld reads\n", DATAGRAMS, TARGETS, before);
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
		say(ah, MCAST_QPN);
	before = reads() - before;
	printf("%d datagrams to a group: %ld reads\n", DATAGRAMS, before);
	CHECK(before < FIRST + 8 * DATAGRAMS);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
}

int main(void)
{
	/*
	 * What a progress thread reads is not this thread's, but what it leaves to this one would
	 * be.
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
	poll_in_vain(AWAKE);
	test_by_turns();
	test_group();
	for (int i = 0; i < TARGETS; i++)
		CHECK_EQ(ibv_destroy_qp(to[i]), 0);
	CHECK_EQ(ibv_destroy_qp(from), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_free(&mem);
	world_close(&w);
	return 0;
}
