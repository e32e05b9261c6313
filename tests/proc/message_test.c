/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests of every kind mixed on one connection of two processes: SENDs and WRITEs with immediate,
 * which within a host are messages while they are short, beside WRITEs and READs, which access the
 * memory, and long ones, which are packets. All take effect in the order in which they were posted:
 * a WRITE is there when a completion after it is, and a READ finds what the WRITEs before it wrote.
 * Often no receive is posted. The same with packets only, by UDP.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "child.h"
#include "rc.h"
#include "rnd.h"
#include "util/compiler.h"

enum {
	BATCH = 16,
	BATCHES = 150,
	PLACES = 4,		/* that WRITEs write to and READs read from */
	PLACE = 9216,
	HERE = PLACES * PLACE,	/* one more place for each request of a batch */
	SIZE = HERE + BATCH * PLACE,
	TIMEOUT = 17,
	RETRIES = 7,
};

/* Lengths about the limits: inline, slot, MTU, longest message, payloads that are fetched. */
static const uint32_t lengths[] = {
	0, 1, 8, 20, 21, 72, 73, 84, 85, 200, 1024, 1025, 4096, 4097, 8040, 8041, 8192, PLACE
};

static const enum ibv_wr_opcode opcodes[] = {
	IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
	IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
};

static struct request {
	enum ibv_wr_opcode opcode;
	uint32_t len, place;
	uint8_t value;		/* of all bytes */
} plan[BATCHES][BATCH];

static bool is_write(const struct request *r)
{
	return r->opcode == IBV_WR_RDMA_WRITE || r->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool takes_receive(const struct request *r)
{
	return r->opcode != IBV_WR_RDMA_WRITE && r->opcode != IBV_WR_RDMA_READ;
}

/* Both processes know it. */
static void make_plan(void)
{
	for (int b = 0; b < BATCHES; b++) {
		for (int i = 0; i < BATCH; i++)
			plan[b][i] = (struct request){
				.opcode = opcodes[rnd(ARRAY_SIZE(opcodes))],
				.len = lengths[rnd(ARRAY_SIZE(lengths))],
				.place = rnd(PLACES),
				.value = 1 + (b * BATCH + i) % 255,
			};
	}
}

/* What the places of the target hold after a request. */
static uint8_t model[PLACES][PLACE];

static void apply(const struct request *r)
{
	if (is_write(r))
		memset(model[r->place], r->value, r->len);
}

static void want_all(const void *data, uint8_t value, uint32_t len)
{
	const uint8_t *p = data;

	for (uint32_t i = 0; i < len; i++)
		CHECK_EQ(p[i], value);
}

static void post_receive(struct rc *rc, int i)
{
	struct ibv_sge sge = { (uintptr_t)rc->buf + HERE + i * PLACE, PLACE, rc->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK_EQ(ibv_post_recv(rc->qp, &wr, &bad), 0);
}

static bool is_overwritten(const struct request *batch, int i)
{
	for (int k = i + 1; k < BATCH; k++) {
		if (is_write(&batch[k]) && batch[k].place == batch[i].place)
			return true;
	}
	return false;
}

static void want_received(struct rc *rc, const struct request *batch, int i)
{
	const struct request *r = &batch[i];
	struct ibv_wc wc = rc_wait(rc);
	bool write = is_write(r);

	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(wc.wr_id, i);
	CHECK_EQ(wc.opcode, write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
	CHECK_EQ(wc.byte_len, r->len);
	CHECK_EQ(wc.wc_flags & IBV_WC_WITH_IMM, r->opcode == IBV_WR_SEND ? 0 : IBV_WC_WITH_IMM);
	if (r->opcode != IBV_WR_SEND)
		CHECK_EQ(wc.imm_data, i);
	if (!write)
		want_all(rc->buf + HERE + i * PLACE, r->value, r->len);
	else if (!is_overwritten(batch, i))
		want_all(rc->buf + r->place * PLACE, r->value, r->len);
}

/* Receives are posted all before, or each when it is waited for: then its request has to wait. */
static void receive_batch(struct rc *rc, const struct request *batch, bool late)
{
	for (int i = 0; i < BATCH && !late; i++) {
		if (takes_receive(&batch[i]))
			post_receive(rc, i);
	}
	for (int i = 0; i < BATCH; i++) {
		apply(&batch[i]);
		if (!takes_receive(&batch[i]))
			continue;
		if (late)
			post_receive(rc, i);
		want_received(rc, batch, i);
	}
}

static void target(int sock)
{
	struct rc_addr peer;
	struct rc rc;

	alarm(RC_LIMIT_S);
	rc_open(&rc, SIZE);
	rc_pair(&rc, sock, &peer, TIMEOUT, RETRIES);
	for (int b = 0; b < BATCHES; b++) {
		receive_batch(&rc, plan[b], b % 4 == 3);
		rc_barrier(sock);	/* the sender has all completions, too */
		CHECK(memcmp(rc.buf, model, sizeof(model)) == 0);
		rc_barrier(sock);
	}
	rc_close(&rc);
}

static void post(struct rc *rc, const struct rc_addr *peer, const struct request *r, int i)
{
	char *here = rc->buf + HERE + i * PLACE;
	struct ibv_sge sge = { (uintptr_t)here, r->len, rc->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = i, .opcode = r->opcode, .sg_list = &sge, .num_sge = 1, .imm_data = i,
		.wr.rdma = { .remote_addr = peer->addr + r->place * PLACE, .rkey = peer->rkey },
	};

	memset(here, r->opcode == IBV_WR_RDMA_READ ? 0 : r->value, r->len);
	CHECK_EQ(ibv_post_send(rc->qp, &wr, &bad), 0);
}

static void send_batch(struct rc *rc, const struct rc_addr *peer, const struct request *batch)
{
	for (int i = 0; i < BATCH; i++)
		post(rc, peer, &batch[i], i);
	for (int i = 0; i < BATCH; i++) {
		const struct request *r = &batch[i];
		struct ibv_wc wc = rc_wait(rc);

		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.wr_id, i);
		apply(r);
		if (r->opcode == IBV_WR_RDMA_READ)
			CHECK(memcmp(rc->buf + HERE + i * PLACE, model[r->place], r->len) == 0);
	}
}

int main(int argc, char **argv)
{
	struct child child;
	struct rc_addr peer;
	struct rc rc;

	alarm(RC_LIMIT_S);
	setenv("VERBENA_TRANSPORT", argc > 1 ? argv[1] : "local", 1);
	rnd_start();
	make_plan();
	child = child_fork(target);
	rc_open(&rc, SIZE);
	rc_pair(&rc, child.sock, &peer, TIMEOUT, RETRIES);
	for (int b = 0; b < BATCHES; b++) {
		send_batch(&rc, &peer, plan[b]);
		rc_barrier(child.sock);
		rc_barrier(child.sock);
	}
	rc_close(&rc);
	child_join(&child);
	return 0;
}
