/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connecting by IP address and port, as most RDMA programs do: the connection manager exchanges
 * what the classic tutorial (rc_client_server.c) sends over a socket, and moves the queue pairs.
 *
 *	server:	cm_client_server
 *	client:	cm_client_server ADDRESS
 *
 * Ids without an event channel make every call wait until it is done.  Each side sends a line with
 * its connection request or answer (private data), then the client a message.
 */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#define PORT "7473"

enum { SIZE = 64 };

static char message[SIZE];

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* Ready to connect, or to listen; with what a queue pair shall hold. */
static struct rdma_cm_id *make_endpoint(const char *address)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP };
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_all = 1,
	};
	struct rdma_addrinfo *res;
	struct rdma_cm_id *id;
	int err;

	hints.ai_flags = address ? 0 : RAI_PASSIVE;
	err = rdma_getaddrinfo(address, PORT, &hints, &res);
	if (err) {
		fprintf(stderr, "rdma_getaddrinfo: %s\n",
			err == -1 ? strerror(errno) : gai_strerror(err));
		exit(1);
	}
	if (rdma_create_ep(&id, res, NULL, &attr))
		fail("rdma_create_ep");
	rdma_freeaddrinfo(res);
	return id;
}

static struct ibv_mr *register_message(struct rdma_cm_id *id)
{
	struct ibv_mr *mr = rdma_reg_msgs(id, message, sizeof(message));

	if (!mr)
		fail("rdma_reg_msgs");
	return mr;
}

static struct rdma_conn_param say(const char *line)
{
	return (struct rdma_conn_param){
		.private_data = line,
		.private_data_len = (uint8_t)(strlen(line) + 1),
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
}

static void run_server(void)
{
	struct rdma_cm_id *listener = make_endpoint(NULL), *id;
	struct rdma_conn_param param = say("come in");
	struct ibv_mr *mr;
	struct ibv_wc wc;

	if (rdma_listen(listener, 0))
		fail("rdma_listen");
	if (rdma_get_request(listener, &id))
		fail("rdma_get_request");
	/* Valid until the next call on the id. */
	printf("asked: '%s'\n", (const char *)id->event->param.conn.private_data);
	mr = register_message(id);
	/* Before the client may send. */
	if (rdma_post_recv(id, NULL, message, sizeof(message), mr))
		fail("rdma_post_recv");
	if (rdma_accept(id, &param))
		fail("rdma_accept");
	if (rdma_get_recv_comp(id, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
		fail("receive");
	printf("received: '%s'\n", message);
	rdma_disconnect(id);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
}

/* The server may not listen yet: tries for a minute. */
static void connect_patiently(struct rdma_cm_id **id, const char *address)
{
	struct rdma_conn_param param = say("may I?");

	for (int tries = 0; rdma_connect(*id, &param); tries++) {
		if (errno != ECONNREFUSED || tries == 1000)
			fail("rdma_connect");
		/* An id that was refused is of no more use. */
		rdma_destroy_ep(*id);
		*id = make_endpoint(address);
	}
}

static void run_client(const char *address)
{
	struct rdma_cm_id *id = make_endpoint(address);
	struct ibv_mr *mr;
	struct ibv_wc wc;

	connect_patiently(&id, address);
	printf("answered: '%s'\n", (const char *)id->event->param.conn.private_data);
	mr = register_message(id);
	strcpy(message, "hello through rdma_cm");
	if (rdma_post_send(id, NULL, message, sizeof(message), mr, 0))
		fail("rdma_post_send");
	if (rdma_get_send_comp(id, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
		fail("send");
	rdma_disconnect(id);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		run_client(argv[1]);
	else
		run_server();
	return 0;
}
