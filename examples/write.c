/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RDMA WRITE: the client puts data into the server's memory.  The server gets no
 * completion, so it does what many real programs do: it watches the last byte of the record.
 *
 * That works because one RDMA WRITE fills memory in order on this device and on common hardware;
 * the verbs themselves only promise that the data is there when a completion that comes later says
 * so (see send_recv.c).
 */
#include <stdio.h>
#include <unistd.h>

#include "common.h"

enum {
	RECORDS = 10,
	RECORD_SIZE = 1024,
};

/* The last byte of the record: how many were written. */
static volatile char *flag_of(struct side *s)
{
	return &s->buf[RECORD_SIZE - 1];
}

static void run_client(struct side *s, struct ibv_qp *qp, const struct address *peer)
{
	for (int i = 1; i <= RECORDS; i++) {
		snprintf(s->buf, RECORD_SIZE - 1, "record %d", i);
		*flag_of(s) = (char)i;
		post_request(s, qp, IBV_WR_RDMA_WRITE, RECORD_SIZE, peer);
		wait_completion(s);
		/* Here: wait until the server has looked, or the next record would overwrite this
		 * one. */
		sync_sides(s);
	}
	printf("wrote %d records of %d bytes\n", RECORDS, RECORD_SIZE);
}

static void run_server(struct side *s)
{
	alarm(30);
	for (int i = 1; i <= RECORDS; i++) {
		while (*flag_of(s) != (char)i)
			;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		printf("memory says: %s\n", s->buf);
		sync_sides(s);
	}
	printf("saw %d records without a single completion\n", RECORDS);
}

int main(int argc, char **argv)
{
	struct address peer;
	struct side side;
	struct ibv_qp *qp;

	side_open(&side, argc, argv, RECORD_SIZE);
	qp = create_qp(&side, NULL);
	connect_qp(&side, qp, &peer);

	if (is_client(&side))
		run_client(&side, qp, &peer);
	else
		run_server(&side);

	sync_sides(&side);
	destroy_qp(qp);
	side_close(&side);
	return 0;
}
