/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random requests over RC against a model of both memories.
 *
 * Requests of one queue pair take effect in order (READs and atomics fenced), so the model runs
 * each one at once on copies of the two memories.  At the end of every batch the memories must
 * equal the copies.  VERBENA_SEED repeats a run.
 */
#include <inttypes.h>

#include "world.h"

enum {
	BUF = 32 * 1024,
	LONGEST = 6000,
	BATCHES = 150,
	PER_BATCH = 12,
};

static struct world w;
static struct ibv_cq *cq_a, *cq_b;
static struct ibv_qp *a, *b;
static struct buffer near, far;
static uint8_t near_model[BUF], far_model[BUF];
static uint64_t seed;

static uint64_t dice(uint64_t n)
{
	uint64_t z = seed += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (z ^ z >> 31) % n;
}

struct step {
	struct ibv_sge sge[2];
	struct ibv_send_wr wr;
};

static size_t near_offset(const struct ibv_sge *sge)
{
	return sge->addr - (uintptr_t)near.data;
}

/* The model's side of a request: far <- near or near <- far, piece by piece. */
static void model_copy(const struct step *s, size_t far_offset, bool outbound)
{
	for (int i = 0; i < s->wr.num_sge; i++) {
		uint8_t *local = near_model + near_offset(&s->sge[i]);
		uint8_t *remote = far_model + far_offset;

		if (outbound)
			memcpy(remote, local, s->sge[i].length);
		else
			memcpy(local, remote, s->sge[i].length);
		far_offset += s->sge[i].length;
	}
}

/* Two pieces that do not overlap each other, and a place on the far side. */
static size_t choose_pieces(struct step *s)
{
	uint32_t first = dice(LONGEST / 2), second = dice(LONGEST / 2);

	s->sge[0] = world_sge(&near, dice(BUF / 2 - first), first);
	s->sge[1] = world_sge(&near, BUF / 2 + dice(BUF / 2 - second), second);
	s->wr.num_sge = 2;
	return dice(BUF - first - second);
}

static void make_rdma(struct step *s, enum ibv_wr_opcode opcode)
{
	size_t offset = choose_pieces(s);

	s->wr = world_rdma(opcode, 0, s->sge, &far, offset);
	s->wr.num_sge = 2;
	model_copy(s, offset, opcode == IBV_WR_RDMA_WRITE);
}

static void make_atomic(struct step *s)
{
	size_t offset = dice(BUF / 8) * 8, result = dice(BUF / 8) * 8;
	uint64_t before, after, add = dice(UINT64_MAX);

	s->sge[0] = world_sge(&near, result, 8);
	s->wr = world_rdma(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, s->sge, &far, offset);
	s->wr.wr.atomic.compare_add = add;
	memcpy(&before, far_model + offset, 8);
	after = before + add;
	memcpy(far_model + offset, &after, 8);
	memcpy(near_model + result, &before, 8);
}

/* A message goes to where the receive that is posted for it says. */
static void make_send(struct step *s)
{
	size_t offset = choose_pieces(s);
	uint32_t len = s->sge[0].length + s->sge[1].length;

	world_recv(b, 1, world_sge(&far, offset, len));
	s->wr = (struct ibv_send_wr){ .sg_list = s->sge, .num_sge = 2, .opcode = IBV_WR_SEND };
	model_copy(s, offset, true);
}

static void make(struct step *s)
{
	switch (dice(5)) {
	case 0:
		make_send(s);
		break;
	case 1:
		make_atomic(s);
		break;
	case 2:
		make_rdma(s, IBV_WR_RDMA_READ);
		break;
	default:
		make_rdma(s, IBV_WR_RDMA_WRITE);
	}
}

static void run_batch(uint64_t number)
{
	struct step step[PER_BATCH];
	struct ibv_wc wc[PER_BATCH];
	int receives = 0;

	for (int i = 0; i < PER_BATCH; i++) {
		make(&step[i]);
		receives += step[i].wr.opcode == IBV_WR_SEND;
		step[i].wr.wr_id = i;
		step[i].wr.next = NULL;
		/*
		 * Each waits for the READs and atomics before it: what it sends may be what they
		 * fetched.
		 */
		step[i].wr.send_flags = IBV_SEND_FENCE |
					(i == PER_BATCH - 1 || dice(2) ? IBV_SEND_SIGNALED : 0);
		world_post(a, &step[i].wr);
	}
	do {
		world_poll(cq_a, wc, 1);
		CHECK_EQ(wc[0].status, IBV_WC_SUCCESS);
	} while (wc[0].wr_id != PER_BATCH - 1);
	world_poll(cq_b, wc, receives);
	if (memcmp(near.data, near_model, BUF) || memcmp(far.data, far_model, BUF)) {
		fprintf(stderr, "batch %" PRIu64 ": memory differs from the model\n", number);
		exit(1);
	}
}

int main(void)
{
	const char *s = getenv("VERBENA_SEED");

	seed = s ? strtoull(s, NULL, 0) : 1;
	printf("seed %" PRIu64 " (VERBENA_SEED)\n", seed);
	world_open(&w);
	cq_a = world_cq(&w, 64);
	cq_b = world_cq(&w, 64);
	a = world_qp(&w, IBV_QPT_RC, cq_a, NULL);
	b = world_qp(&w, IBV_QPT_RC, cq_b, NULL);
	world_connect(&w, a, b);
	near = world_buffer(&w, BUF, WORLD_ACCESS);
	far = world_buffer(&w, BUF, WORLD_ACCESS);
	for (int i = 0; i < BUF; i++) {
		near_model[i] = near.data[i] = dice(256);
		far_model[i] = far.data[i] = dice(256);
	}
	for (uint64_t i = 0; i < BATCHES; i++)
		run_batch(i);
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
	CHECK_EQ(ibv_destroy_cq(cq_a), 0);
	CHECK_EQ(ibv_destroy_cq(cq_b), 0);
	world_free(&near);
	world_free(&far);
	world_close(&w);
	return 0;
}
