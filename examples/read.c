/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RDMA READ: the client takes data out of the server's memory, piece by piece, and the server
 * sleeps meanwhile.
 *
 * A READ needs the right twice: IBV_ACCESS_REMOTE_READ on the server's region and on its queue
 * pair, and it takes one of the server's max_dest_rd_atomic places for as long as it is in flight.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "common.h"

enum {
	PIECES = 16,
	PIECE_SIZE = 65536,
	SIZE = PIECES * PIECE_SIZE,
};

static uint64_t checksum(const char *data, size_t len)
{
	uint64_t sum = 14695981039346656037u;

	for (size_t i = 0; i < len; i++)
		sum = (sum ^ (uint8_t)data[i]) * 1099511628211u;
	return sum;
}

/* Reads one piece into the same place of our own buffer. */
static void read_piece(struct side *s, struct ibv_qp *qp, const struct address *peer, int piece)
{
	size_t offset = (size_t)piece * PIECE_SIZE;
	struct ibv_sge sge = {
		.addr = (uintptr_t)s->buf + offset,
		.length = PIECE_SIZE,
		.lkey = s->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = piece,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { .remote_addr = peer->addr + offset, .rkey = peer->rkey },
	};
	struct ibv_send_wr *bad;

	errno = ibv_post_send(qp, &wr, &bad);
	if (errno)
		fail("ibv_post_send");
}

static void run_client(struct side *s, struct ibv_qp *qp, const struct address *peer)
{
	/* All at once: the queue pair keeps max_rd_atomic of them in flight and completes them in
	 * order. */
	for (int i = 0; i < PIECES; i++)
		read_piece(s, qp, peer, i);
	for (uint64_t i = 0; i < PIECES; i++)
		if (wait_completion(s).wr_id != i)
			fail("the order of completions");
	printf("read %d bytes, checksum %016" PRIx64 "\n", SIZE, checksum(s->buf, SIZE));
}

int main(int argc, char **argv)
{
	struct address peer;
	struct side side;
	struct ibv_qp *qp;

	side_open(&side, argc, argv, SIZE);
	qp = create_qp(&side, NULL);
	if (!is_client(&side)) {
		for (int i = 0; i < SIZE; i++)
			side.buf[i] = (char)(i * 31 + i / 4096);
		printf("offer %d bytes, checksum %016" PRIx64 "\n", SIZE, checksum(side.buf, SIZE));
	}
	connect_qp(&side, qp, &peer);

	if (is_client(&side))
		run_client(&side, qp, &peer);

	/* The server waits here, asleep in read(2) on the TCP socket, while its memory is being
	 * read. */
	sync_sides(&side);
	destroy_qp(qp);
	side_close(&side);
	return 0;
}
