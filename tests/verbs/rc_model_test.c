/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random requests over RC against a model of both memories.
 *
 * Requests of one queue pair take effect in order (READs and atomics are fenced), so the model
 * applies each one at once to copies of the two memories. At the end of every batch the memories
 * must equal the copies. VERBENA_SEED repeats a run.
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
static struct buffer local_mem, remote_mem;
static uint8_t local_model[BUF], remote_model[BUF];
static uint64_t seed;

static uint64_t below(uint64_t n)
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

static size_t local_offset(const struct ibv_sge *sge)
{
	return sge->addr - (uintptr_t)local_mem.data;
}

/* Applies a request to the model, SGE by SGE: local to remote, or remote to local. */
static void model_copy(const struct step *s, size_t remote_offset, bool outbound)
{
	for (int i = 0; i < s->wr.num_sge; i++) {
		uint8_t *local = local_model + local_offset(&s->sge[i]);
		uint8_t *remote = remote_model + remote_offset;

		if (outbound)
			memcpy(remote, local, s->sge[i].length);
		else
			memcpy(local, remote, s->sge[i].length);
		remote_offset += s->sge[i].length;
	}
}

/* Chooses two SGEs that do not overlap, and an offset in the remote memory. */
static size_t choose_pieces(struct step *s)
{
	uint32_t first = below(LONGEST / 2), second = below(LONGEST / 2);

	s->sge[0] = world_sge(&local_mem, below(BUF / 2 - first), first);
	s->sge[1] = world_sge(&local_mem, BUF / 2 + below(BUF / 2 - second), second);
	s->wr.num_sge = 2;
	return below(BUF - first - second);
}

static void make_rdma(struct step *s, enum ibv_wr_opcode opcode)
{
	size_t offset = choose_pieces(s);

	s->wr = world_rdma(opcode, 0, s->sge, &remote_mem, offset);
	s->wr.num_sge = 2;
	model_copy(s, offset, opcode == IBV_WR_RDMA_WRITE);
}

static void make_atomic(struct step *s)
{
	size_t offset = below(BUF / 8) * 8, result = below(BUF / 8) * 8;
	uint64_t before, after, add = below(UINT64_MAX);

	s->sge[0] = world_sge(&local_mem, result, 8);
	s->wr = world_rdma(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, s->sge, &remote_mem, offset);
	s->wr.wr.atomic.compare_add = add;
	memcpy(&before, remote_model + offset, 8);
	after = before + add;
	memcpy(remote_model + offset, &after, 8);
	memcpy(local_model + result, &before, 8);
}

/* The message goes to the buffer of the receive that is posted for it. */
static void make_send(struct step *s)
{
	size_t offset = choose_pieces(s);
	uint32_t len = s->sge[0].length + s->sge[1].length;

	world_recv(b, 1, world_sge(&remote_mem, offset, len));
	s->wr = (struct ibv_send_wr){ .sg_list = s->sge, .num_sge = 2, .opcode = IBV_WR_SEND };
	model_copy(s, offset, true);
}

static void make(struct step *s)
{
	switch (below(5)) {
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
		/* Wait for earlier READs and atomics: this request may send what they fetched. */
		step[i].wr.send_flags = IBV_SEND_FENCE |
					(i == PER_BATCH - 1 || below(2) ? IBV_SEND_SIGNALED : 0);
		world_post(a, &step[i].wr);
	}
	do {
		world_poll(cq_a, wc, 1);
		CHECK_EQ(wc[0].status, IBV_WC_SUCCESS);
	} while (wc[0].wr_id != PER_BATCH - 1);
	world_poll(cq_b, wc, receives);
	if (memcmp(local_mem.data, local_model, BUF) ||
	    memcmp(remote_mem.data, remote_model, BUF)) {
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
	local_mem = world_buffer(&w, BUF, WORLD_ACCESS);
	remote_mem = world_buffer(&w, BUF, WORLD_ACCESS);
	for (int i = 0; i < BUF; i++) {
		local_model[i] = local_mem.data[i] = below(256);
		remote_model[i] = remote_mem.data[i] = below(256);
	}
	for (uint64_t i = 0; i < BATCHES; i++)
		run_batch(i);
	world_destroy_pair(a, b, cq_a, cq_b);
	world_free(&local_mem);
	world_free(&remote_mem);
	world_close(&w);
	return 0;
}
