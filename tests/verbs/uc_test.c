/* SPDX-License-Identifier: BSD-2-Clause */
/* Unreliable connections: which messages are lost, and which are kept on one host. */
#include <stdlib.h>
#include <string.h>

#include "world.h"

enum { LEN = 3000, MESSAGES = 16 };

struct uc {
	struct ibv_cq *scq, *rcq;
	struct ibv_qp *from, *to;
	struct buffer out, in;
};

static bool local(void)
{
	const char *transport = getenv("VERBENA_TRANSPORT");

	return !transport || strcmp(transport, "udp") != 0;
}

static void uc_open(struct world *w, struct uc *u)
{
	u->scq = world_cq(w, MESSAGES);
	u->rcq = world_cq(w, MESSAGES);
	u->from = world_qp(w, IBV_QPT_UC, u->scq, NULL);
	u->to = world_qp(w, IBV_QPT_UC, u->rcq, NULL);
	u->out = world_buffer(w, LEN, WORLD_ACCESS);
	u->in = world_buffer(w, LEN * MESSAGES, WORLD_ACCESS);
	memset(u->out.data, 0x5a, LEN);
	world_move(w, u->from, IBV_QPS_INIT, 0);
	world_move(w, u->to, IBV_QPS_INIT, 0);
	for (unsigned int i = 0; i < MESSAGES; i++)
		world_recv(u->to, i, world_sge(&u->in, i * LEN, LEN));
	world_move(w, u->from, IBV_QPS_RTR, u->to->qp_num);
	world_move(w, u->from, IBV_QPS_RTS, u->to->qp_num);
}

static void uc_close(struct uc *u)
{
	CHECK_EQ(ibv_destroy_qp(u->from), 0);
	CHECK_EQ(ibv_destroy_qp(u->to), 0);
	CHECK_EQ(ibv_destroy_cq(u->scq), 0);
	CHECK_EQ(ibv_destroy_cq(u->rcq), 0);
	world_free(&u->out);
	world_free(&u->in);
}

/* On one host the requester sees that its peer is still being set up, and waits for it. */
static void peer_comes_up_late(struct world *w)
{
	struct ibv_wc wc;
	struct uc u;

	if (!local())
		return;
	uc_open(w, &u);
	for (unsigned int i = 0; i < MESSAGES; i++)
		world_send(u.from, i, world_sge(&u.out, 0, LEN));
	for (unsigned int i = 0; i < 1000; i++)
		CHECK_EQ(ibv_poll_cq(u.scq, 1, &wc), 0);
	world_move(w, u.to, IBV_QPS_RTR, u.from->qp_num);
	for (unsigned int i = 0; i < MESSAGES; i++) {
		wc = world_expect(u.rcq, i, IBV_WC_SUCCESS);
		CHECK_EQ(wc.byte_len, LEN);
		world_expect(u.scq, i, IBV_WC_SUCCESS);
	}
	for (unsigned int i = 0; i < LEN * MESSAGES; i++)
		CHECK_EQ(u.in.data[i], 0x5a);
	uc_close(&u);
}

/* But not for ever: on a network the messages would be lost without an error. */
static void peer_never_comes_up(struct world *w)
{
	struct ibv_wc wc;
	struct uc u;

	uc_open(w, &u);
	world_send(u.from, 1, world_sge(&u.out, 0, LEN));
	world_expect(u.scq, 1, IBV_WC_SUCCESS);
	world_send(u.from, 2, world_sge(&u.out, 0, LEN));
	world_expect(u.scq, 2, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_poll_cq(u.rcq, 1, &wc), 0);
	uc_close(&u);
}

static void peer_goes_away(struct world *w)
{
	struct uc u;

	uc_open(w, &u);
	world_move(w, u.to, IBV_QPS_RTR, u.from->qp_num);
	world_send(u.from, 1, world_sge(&u.out, 0, LEN));
	world_expect(u.scq, 1, IBV_WC_SUCCESS);
	world_expect(u.rcq, 0, IBV_WC_SUCCESS);
	world_move(w, u.to, IBV_QPS_ERR, 0);
	for (unsigned int i = 1; i < MESSAGES; i++)
		world_expect(u.rcq, i, IBV_WC_WR_FLUSH_ERR);
	world_send(u.from, 2, world_sge(&u.out, 0, LEN));
	world_expect(u.scq, 2, IBV_WC_SUCCESS);
	uc_close(&u);
}

int main(void)
{
	struct world w;

	world_open(&w);
	peer_comes_up_late(&w);
	peer_never_comes_up(&w);
	peer_goes_away(&w);
	world_close(&w);
	return 0;
}
