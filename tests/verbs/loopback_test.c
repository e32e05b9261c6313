/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loopback between two QPs of one process: the posting thread executes a small message and its ACK,
 * as an adapter does, also where each end has an RX queue of its own. There is no progress thread,
 * and no thread polls a CQ, so nothing else can have caused the events of both ends.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "world.h"

enum { MESSAGES = 100 };

struct end {
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct buffer mem;
};

static struct world w;
static struct end a, b;

static void open_end(struct end *e)
{
	e->channel = ibv_create_comp_channel(w.ctx);
	CHECK(e->channel);
	e->cq = ibv_create_cq(w.ctx, 16, NULL, e->channel, 0);
	CHECK(e->cq);
	e->qp = world_qp(&w, IBV_QPT_RC, e->cq, NULL);
	e->mem = world_buffer(&w, 128, WORLD_ACCESS);
}

static void close_end(struct end *e)
{
	CHECK_EQ(ibv_destroy_qp(e->qp), 0);
	CHECK_EQ(ibv_destroy_cq(e->cq), 0);
	CHECK_EQ(ibv_destroy_comp_channel(e->channel), 0);
	world_free(&e->mem);
}

/*
 * Returns whether the event was there at once. If not, polling fetches the packets that the kernel
 * still holds.
 */
static bool has_event(struct end *e, uint64_t wr_id)
{
	struct pollfd p = { .fd = e->channel->fd, .events = POLLIN };
	bool there = poll(&p, 1, 0) == 1;
	struct ibv_cq *cq;
	void *context;

	world_expect(e->cq, wr_id, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_get_cq_event(e->channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	return there;
}

static bool message(enum ibv_wr_opcode opcode, uint64_t wr_id)
{
	struct ibv_sge sge = world_sge(&a.mem, 0, 8);
	struct ibv_send_wr wr = world_rdma(opcode, wr_id, &sge, &b.mem, 0);
	bool sent, received;

	world_recv(b.qp, wr_id, world_sge(&b.mem, 64, 8));
	CHECK_EQ(ibv_req_notify_cq(a.cq, 0), 0);
	CHECK_EQ(ibv_req_notify_cq(b.cq, 0), 0);
	wr.send_flags = IBV_SEND_SIGNALED;
	world_post(a.qp, &wr);
	sent = has_event(&a, wr_id);
	received = has_event(&b, wr_id);
	return sent && received;
}

/* The library reads its environment once, so each case is a process. */
static void run(const char *receivers)
{
	int at_once = 0;

	setenv("VERBENA_PROGRESS", "none", 1);
	setenv("VERBENA_RECEIVERS", receivers, 1);
	world_open(&w);
	open_end(&a);
	open_end(&b);
	world_connect(&w, a.qp, b.qp);
	for (int i = 0; i < MESSAGES; i++)
		at_once += message(i % 2 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE_WITH_IMM, i);
	printf("%s RX queues: %d of %d at once\n", receivers, at_once, MESSAGES);
	/* With UDP a busy kernel may delay packets. */
	CHECK(strcmp(getenv("VERBENA_TRANSPORT"), "udp") ? at_once == MESSAGES : at_once > 0);
	close_end(&a);
	close_end(&b);
	world_close(&w);
}

int main(void)
{
	pid_t child = fork();
	int status;

	if (!child) {
		run("2");
		exit(0);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	CHECK_EQ(status, 0);
	run("1");
	return 0;
}
