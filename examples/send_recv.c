/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SEND and receive: every message needs a receive at the other side that was posted before it
 * arrives.
 *
 * The server keeps its receive queue filled.  A completion contains the message's length, and its
 * number as immediate data.  The client sends messages of growing length.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common.h"

enum {
	MESSAGES = 8,
	BUFFER_SIZE = 4096,
};

/* Like post_request() for IBV_WR_SEND, with four bytes of our own choice that arrive in the
 * completion. */
static void send_numbered(struct side *s, struct ibv_qp *qp, size_t len, uint32_t number)
{
	struct ibv_sge sge = { .addr = (uintptr_t)s->buf, .length = len, .lkey = s->mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.imm_data = htonl(number), /* immediate data is big endian by definition */
	};
	struct ibv_send_wr *bad;

	errno = ibv_post_send(qp, &wr, &bad);
	if (errno)
		fail("ibv_post_send");
}

static void run_client(struct side *s, struct ibv_qp *qp)
{
	for (uint32_t i = 0; i < MESSAGES; i++) {
		size_t len = (size_t)1 << i;

		memset(s->buf, 'a' + (int)i, len);
		send_numbered(s, qp, len, i);
		/* Until this completion the device may still read the buffer. */
		wait_completion(s);
	}
	printf("sent %d messages\n", MESSAGES);
}

static void run_server(struct side *s, struct ibv_qp *qp)
{
	uint32_t total = 0;

	for (int i = 0; i < MESSAGES; i++) {
		struct ibv_wc wc = wait_completion(s);

		printf("message %u: %u bytes of '%c'\n", ntohl(wc.imm_data), wc.byte_len,
		       s->buf[0]);
		total += wc.byte_len;
		/*
		 * Only now may the next message use the buffer.  If it has already come, the device
		 * answered "receiver not ready" and the sender retries: nothing is lost.
		 */
		if (i < MESSAGES - 1)
			post_receive(s, qp, i + 1);
	}
	printf("received %u bytes in %d messages\n", total, MESSAGES);
}

int main(int argc, char **argv)
{
	struct address peer;
	struct side side;
	struct ibv_qp *qp;

	side_open(&side, argc, argv, BUFFER_SIZE);
	qp = create_qp(&side, NULL);
	if (!is_client(&side))
		post_receive(&side, qp, 0);
	connect_qp(&side, qp, &peer);

	if (is_client(&side))
		run_client(&side, qp);
	else
		run_server(&side, qp);

	sync_sides(&side);
	destroy_qp(qp);
	side_close(&side);
	return 0;
}
