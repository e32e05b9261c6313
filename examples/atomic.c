/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Atomics: the client counts in the server's memory, then changes a value only if it is what it
 * expects.
 *
 * An atomic works on 8 bytes at an address that is a multiple of 8, in the byte order of the
 * server, and returns the value from before.  Many clients may do this at once and none loses a
 * count.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "common.h"

enum {
	COUNTS = 100,
};

/* Runs one atomic on the server's first 8 bytes and returns what stood there before. */
static uint64_t atomic(struct side *s, struct ibv_qp *qp, const struct address *peer,
		       enum ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap)
{
	struct ibv_sge sge = { .addr = (uintptr_t)s->buf, .length = 8, .lkey = s->mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.atomic = {
			.remote_addr = peer->addr,
			.rkey = peer->rkey,
			.compare_add = compare_add,
			.swap = swap,
		},
	};
	struct ibv_send_wr *bad;

	errno = ibv_post_send(qp, &wr, &bad);
	if (errno)
		fail("ibv_post_send");
	wait_completion(s);
	return *(uint64_t *)(void *)s->buf;
}

static void run_client(struct side *s, struct ibv_qp *qp, const struct address *peer)
{
	uint64_t before = 0;

	for (int i = 0; i < COUNTS; i++)
		before = atomic(s, qp, peer, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0);
	printf("counted %d times, the last one found %" PRIu64 "\n", COUNTS, before);

	before = atomic(s, qp, peer, IBV_WR_ATOMIC_CMP_AND_SWP, COUNTS, 4711);
	printf("compare with %d and swap: found %" PRIu64 ", so it is 4711 now\n", COUNTS, before);

	before = atomic(s, qp, peer, IBV_WR_ATOMIC_CMP_AND_SWP, COUNTS, 1);
	printf("the same again: found %" PRIu64 ", so nothing happened\n", before);
}

int main(int argc, char **argv)
{
	struct address peer;
	struct side side;
	struct ibv_qp *qp;

	side_open(&side, argc, argv, sizeof(uint64_t));
	qp = create_qp(&side, NULL);
	connect_qp(&side, qp, &peer);

	if (is_client(&side))
		run_client(&side, qp, &peer);

	sync_sides(&side);
	if (!is_client(&side))
		printf("the counter is %" PRIu64 "\n", *(uint64_t *)(void *)side.buf);
	destroy_qp(qp);
	side_close(&side);
	return 0;
}
