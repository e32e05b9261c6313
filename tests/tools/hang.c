/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Three programs that hang, which docs/DEBUGGING.md analyses:
 *
 *	no-receive	its peer posts no receive
 *	wrong-rkey	it writes with an rkey that is not the peer's, and waits for an answer
 *	one-poll	an event announces two completions; it takes one, and sleeps without
 *			asking for the next event
 *
 * Each waits for PATIENCE_MS in vain and ends as if it had been killed: with its queue pairs.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "verbs/world.h"

enum { LEN = 64, PATIENCE_MS = 300 };

static struct world w;
static struct ibv_comp_channel *channel;
static struct ibv_cq *sends, *receives;
static struct ibv_qp *client, *server;
static struct buffer out, in;

static void begin(void)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { 16, 16, 1, 1, 0 },
	};

	world_open(&w);
	channel = ibv_create_comp_channel(w.ctx);
	CHECK(channel != NULL);
	sends = ibv_create_cq(w.ctx, 16, NULL, channel, 0);
	receives = ibv_create_cq(w.ctx, 16, NULL, NULL, 0);
	CHECK(sends && receives);
	attr.send_cq = sends;
	attr.recv_cq = receives;
	client = ibv_create_qp(w.pd, &attr);
	server = ibv_create_qp(w.pd, &attr);
	CHECK(client && server);
	world_connect(&w, client, server);
	out = world_buffer(&w, LEN, WORLD_ACCESS);
	in = world_buffer(&w, LEN, WORLD_ACCESS);
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Polls for PATIENCE_MS, then gives up, as a user would: no completion comes. */
static void poll_in_vain(struct ibv_cq *cq)
{
	uint64_t end = now_ms() + PATIENCE_MS;
	struct ibv_wc wc;

	while (now_ms() < end)
		CHECK_EQ(ibv_poll_cq(cq, 1, &wc), 0);
}

static void no_receive(void)
{
	world_send(client, 1, world_sge(&out, 0, LEN));
	poll_in_vain(sends);
}

/* It never checks the status of the completion. */
static void wrong_rkey(void)
{
	struct ibv_sge sge = world_sge(&out, 0, LEN);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 7, &sge, &in, 0);
	struct ibv_wc wc;

	wr.wr.rdma.rkey ^= 0x100;
	world_post(client, &wr);
	world_poll(sends, &wc, 1);
	world_recv(client, 8, world_sge(&in, 0, LEN));
	world_poll(receives, &wc, 1);
	poll_in_vain(receives);
}

/* The server replies with an unsignaled SEND. */
static void answer(void)
{
	struct ibv_sge sge = world_sge(&out, 0, LEN);
	struct ibv_send_wr wr = { .wr_id = 23, .opcode = IBV_WR_SEND, .sg_list = &sge,
				  .num_sge = 1 };

	world_post(server, &wr);
}

/* The reply arrives after the completions of both requests. */
static void one_poll(void)
{
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	world_recv(server, 20, world_sge(&in, 0, LEN));
	world_recv(server, 20, world_sge(&in, 0, LEN));
	world_recv(client, 21, world_sge(&in, 0, LEN));
	world_send(client, 22, world_sge(&out, 0, LEN));
	world_send(client, 24, world_sge(&out, 0, LEN));
	world_poll(receives, &wc, 1);
	world_poll(receives, &wc, 1);
	answer();
	world_poll(receives, &wc, 1);
	CHECK_EQ(ibv_req_notify_cq(sends, 0), 0);
	CHECK_EQ(ibv_get_cq_event(channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	world_poll(sends, &wc, 1);
	CHECK_EQ(poll(&fd, 1, PATIENCE_MS), 0);
	CHECK_EQ(ibv_query_port(w.ctx, 1, &w.port), 0);	/* the program suspects the port */
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{ "no-receive", no_receive }, { "wrong-rkey", wrong_rkey },
		{ "one-poll", one_poll },
	};

	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(argv[1], cases[i].name) != 0)
			continue;
		begin();
		cases[i].run();
		_exit(0);
	}
	return 2;
}
