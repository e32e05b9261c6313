/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A shared receive queue: one pool of receives for many connections.
 *
 * Without it each queue pair needs receives of its own, most of them unused.  Here four queue pairs
 * share one pool, and qp_num of each completion says on which connection its message came.
 */
#include <errno.h>
#include <stdio.h>

#include "common.h"

enum {
	CONNECTIONS = 4,
	ROUNDS = 3,
	MESSAGES = CONNECTIONS * ROUNDS,
	MESSAGE_SIZE = 32,
};

static struct ibv_srq *create_srq(struct side *s)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = MESSAGES, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(s->pd, &init);

	if (!srq)
		fail("ibv_create_srq");
	return srq;
}

/* Receive number i gets the i-th piece of the buffer. */
static void post_srq_receive(struct side *s, struct ibv_srq *srq, int i)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)s->buf + (size_t)i * MESSAGE_SIZE,
		.length = MESSAGE_SIZE,
		.lkey = s->mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	errno = ibv_post_srq_recv(srq, &wr, &bad);
	if (errno)
		fail("ibv_post_srq_recv");
}

static int connection_of(struct ibv_qp **qp, uint32_t qp_num)
{
	for (int i = 0; i < CONNECTIONS; i++)
		if (qp[i]->qp_num == qp_num)
			return i;
	fail("an unknown qp_num");
}

static void run_server(struct side *s, struct ibv_qp **qp)
{
	int per_connection[CONNECTIONS] = { 0 };

	for (int i = 0; i < MESSAGES; i++) {
		struct ibv_wc wc = wait_completion(s);

		per_connection[connection_of(qp, wc.qp_num)]++;
		printf("receive %d: %s\n", (int)wc.wr_id, s->buf + wc.wr_id * MESSAGE_SIZE);
	}
	for (int i = 0; i < CONNECTIONS; i++)
		if (per_connection[i] != ROUNDS)
			fail("counting the messages of a connection");
	printf("%d messages on %d connections\n", MESSAGES, CONNECTIONS);
}

static void run_client(struct side *s, struct ibv_qp **qp)
{
	for (int i = 0; i < MESSAGES; i++) {
		snprintf(s->buf, MESSAGE_SIZE, "round %d on connection %d", i / CONNECTIONS,
			 i % CONNECTIONS);
		post_request(s, qp[i % CONNECTIONS], IBV_WR_SEND, MESSAGE_SIZE, NULL);
		wait_completion(s);
	}
	printf("sent %d messages\n", MESSAGES);
}

int main(int argc, char **argv)
{
	struct ibv_qp *qp[CONNECTIONS];
	struct address peer;
	struct ibv_srq *srq;
	struct side side;

	side_open(&side, argc, argv, MESSAGES * MESSAGE_SIZE);
	srq = create_srq(&side);
	for (int i = 0; i < MESSAGES; i++)
		post_srq_receive(&side, srq, i);
	for (int i = 0; i < CONNECTIONS; i++) {
		qp[i] = create_qp(&side, srq);
		connect_qp(&side, qp[i], &peer);
	}

	if (is_client(&side))
		run_client(&side, qp);
	else
		run_server(&side, qp);

	sync_sides(&side);
	for (int i = 0; i < CONNECTIONS; i++)
		destroy_qp(qp[i]);
	if (ibv_destroy_srq(srq))
		fail("ibv_destroy_srq");
	side_close(&side);
	return 0;
}
