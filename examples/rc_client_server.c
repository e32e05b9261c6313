/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The classic first RDMA program: one side sends a message, the other then reads and writes the
 * first one's memory without its help.
 *
 *	server					client
 *	----------------------------------------------------------------------
 *	resources, TCP connection		resources, TCP connection
 *	INIT					INIT, posts a receive
 *	RTR, RTS				RTR, RTS
 *	SEND "..."			---->	prints what it received
 *	puts another text in its buffer
 *	(does nothing)			<----	RDMA READ: prints the server's text
 *	(does nothing)			<----	RDMA WRITE of a third text
 *	prints its buffer, which has changed
 *	destroys everything			destroys everything
 *
 *	rc_client_server			on one machine, then
 *	rc_client_server that-machine		on another one, or the same
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common.h"

enum {
	MESSAGE_SIZE = 64,
};

static const char sent_text[] = "SEND operation from the server";
static const char read_text[] = "READ me: text in the server's memory";
static const char write_text[] = "WRITE by the client, unnoticed by the server";

static void print_config(const struct options *opt)
{
	printf("device %s, port %d, TCP port %d, %s%s\n", opt->device ? opt->device : "(first)",
	       opt->ib_port, opt->tcp_port, opt->server ? "client of " : "server",
	       opt->server ? opt->server : "");
}

/* Connects over TCP; opens the device; makes protection domain, completion queue, registered
 * buffer. */
static void create_resources(struct side *s)
{
	connect_tcp(s);
	open_device(s);
	create_objects(s, MESSAGE_SIZE);
}

/* Moves the queue pair from INIT to RTS, with the peer's address, which travels over TCP. */
static void connect_sides(struct side *s, struct ibv_qp *qp, struct address *peer)
{
	exchange_addresses(s, qp, peer);
	printf("local QP 0x%06x, remote QP 0x%06x, remote buffer 0x%" PRIx64 "\n", qp->qp_num,
	       peer->qpn, peer->addr);
	/* The receive must be there before the peer may send. */
	if (is_client(s))
		post_receive(s, qp, 1);
	move_to_rtr(s, qp, peer);
	move_to_rts(qp);
	sync_sides(s);
}

/* The server's SEND consumes the client's receive: both sides get a completion. */
static void exchange_message(struct side *s, struct ibv_qp *qp)
{
	if (!is_client(s)) {
		strcpy(s->buf, sent_text);
		post_request(s, qp, IBV_WR_SEND, MESSAGE_SIZE, NULL);
		wait_completion(s);
		/* The buffer belongs to us again: the completion says so. */
		strcpy(s->buf, read_text);
		return;
	}
	wait_completion(s);
	printf("received: '%s'\n", s->buf);
}

/* One-sided: only the client has completions. The server's program takes no part. */
static void read_and_write(struct side *s, struct ibv_qp *qp, const struct address *peer)
{
	post_request(s, qp, IBV_WR_RDMA_READ, MESSAGE_SIZE, peer);
	wait_completion(s);
	printf("read: '%s'\n", s->buf);

	strcpy(s->buf, write_text);
	post_request(s, qp, IBV_WR_RDMA_WRITE, MESSAGE_SIZE, peer);
	wait_completion(s);
	printf("wrote: '%s'\n", s->buf);
}

int main(int argc, char **argv)
{
	struct side side = { 0 };
	struct address peer;
	struct ibv_qp *qp;

	setvbuf(stdout, NULL, _IOLBF, 0);
	parse_options(&side.opt, argc, argv);
	print_config(&side.opt);

	create_resources(&side);
	qp = create_qp(&side, NULL);
	connect_sides(&side, qp, &peer);

	exchange_message(&side, qp);
	sync_sides(&side); /* the server's new text is in place */
	if (is_client(&side))
		read_and_write(&side, qp, &peer);
	sync_sides(&side); /* the client has written */
	if (!is_client(&side))
		printf("buffer now: '%s'\n", side.buf);

	destroy_qp(qp);
	side_close(&side);
	return 0;
}
