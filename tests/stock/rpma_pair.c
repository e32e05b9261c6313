/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A pair of programs over the distribution's librpma, with the calls of its examples:
 *
 *	rpma_pair server ADDRESS PORT
 *	rpma_pair client ADDRESS PORT
 *
 * The server's private data describes its memory. The client writes to it, flushes, reads it back,
 * writes eight bytes atomically, and sends a message that the server answers; then it disconnects.
 */
#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <librpma.h>

enum {
	SIZE = 8192,
	HALF = SIZE / 2,
	MESSAGE = 64,
	USAGE = RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC |
		RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV |
		RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY,
};

#define LAST_WORD 0x0123456789abcdefull
#define IMMEDIATE 77u

/* The memory of one end, page by page: what is read and written; messages. */
struct end {
	struct rpma_peer *peer;
	struct rpma_conn *conn;
	uint8_t *mem, *messages;
	struct rpma_mr_local *mr, *messages_mr;
};

static void check(int ret, const char *what)
{
	if (!ret)
		return;
	fprintf(stderr, "%s: %s\n", what, rpma_err_2str(ret));
	exit(1);
}

static void must(bool is_so, const char *what)
{
	if (is_so)
		return;
	fprintf(stderr, "not so: %s\n", what);
	exit(1);
}

#define CHECK(call)     check(call, #call)
#define MUST(condition) must(condition, #condition)

static void begin(struct end *e, const char *address, enum rpma_util_ibv_context_type type)
{
	struct ibv_context *verbs;

	CHECK(rpma_utils_get_ibv_context(address, type, &verbs));
	CHECK(rpma_peer_new(verbs, &e->peer));
	e->mem = aligned_alloc(4096, SIZE);
	e->messages = aligned_alloc(4096, SIZE);
	MUST(e->mem && e->messages);
	memset(e->mem, 0, SIZE);
	memset(e->messages, 0, SIZE);
	CHECK(rpma_mr_reg(e->peer, e->mem, SIZE, USAGE, &e->mr));
	CHECK(rpma_mr_reg(e->peer, e->messages, SIZE, USAGE, &e->messages_mr));
}

static void expect(struct end *e, enum rpma_conn_event wanted)
{
	enum rpma_conn_event event;

	CHECK(rpma_conn_next_event(e->conn, &event));
	if (event == wanted)
		return;
	fprintf(stderr, "event %s\n", rpma_utils_conn_event_2str(event));
	exit(1);
}

static void finish(struct end *e)
{
	CHECK(rpma_conn_delete(&e->conn));
	CHECK(rpma_mr_dereg(&e->mr));
	CHECK(rpma_mr_dereg(&e->messages_mr));
	CHECK(rpma_peer_delete(&e->peer));
	free(e->mem);
	free(e->messages);
}

/* One event may stand for several completions. */
static struct ibv_wc completion(struct end *e)
{
	struct rpma_cq *cq;
	struct ibv_wc wc;
	int ret;

	CHECK(rpma_conn_get_cq(e->conn, &cq));
	while ((ret = rpma_cq_get_wc(cq, 1, &wc, NULL)) == RPMA_E_NO_COMPLETION)
		CHECK(rpma_cq_wait(cq));
	CHECK(ret);
	MUST(wc.status == IBV_WC_SUCCESS);
	return wc;
}

static void serve(const char *address, const char *port)
{
	struct rpma_conn_private_data data;
	struct rpma_conn_req *request;
	struct end e = { 0 };
	struct rpma_ep *ep;
	uint8_t description[64];
	size_t size;
	bool got = false, answered = false;

	begin(&e, address, RPMA_UTIL_IBV_CONTEXT_LOCAL);
	CHECK(rpma_mr_get_descriptor_size(e.mr, &size));
	MUST(size <= sizeof(description));
	CHECK(rpma_mr_get_descriptor(e.mr, description));
	data = (struct rpma_conn_private_data){ description, (uint8_t)size };
	CHECK(rpma_ep_listen(e.peer, address, port, &ep));
	CHECK(rpma_ep_next_conn_req(ep, NULL, &request));
	CHECK(rpma_conn_req_recv(request, e.messages_mr, 0, MESSAGE, NULL));
	CHECK(rpma_conn_req_connect(&request, &data, &e.conn));
	expect(&e, RPMA_CONN_ESTABLISHED);
	while (!got || !answered) {
		struct ibv_wc wc = completion(&e);

		if (wc.opcode & IBV_WC_RECV) {
			uint64_t word;

			got = true;
			MUST(wc.byte_len == MESSAGE && wc.wc_flags & IBV_WC_WITH_IMM &&
			     be32toh(wc.imm_data) == IMMEDIATE);
			memcpy(&word, e.mem + HALF, sizeof(word));
			MUST(word == LAST_WORD && e.mem[0] == 1 && e.mem[HALF - 1] == 1);
			strcpy((char *)e.messages + HALF, "all received");
			CHECK(rpma_send(e.conn, e.messages_mr, HALF, MESSAGE,
					RPMA_F_COMPLETION_ALWAYS, NULL));
		} else {
			answered = true;
		}
	}
	expect(&e, RPMA_CONN_CLOSED);
	CHECK(rpma_conn_disconnect(e.conn));
	finish(&e);
	CHECK(rpma_ep_shutdown(&ep));
	printf("server: done\n");
}

static void use_remote(struct end *e, struct rpma_mr_remote *remote)
{
	const uint64_t word = LAST_WORD;
	struct ibv_wc wc;

	memset(e->mem, 1, HALF);
	CHECK(rpma_write(e->conn, remote, 0, e->mr, 0, HALF, RPMA_F_COMPLETION_ON_ERROR, NULL));
	CHECK(rpma_flush(e->conn, remote, 0, HALF, RPMA_FLUSH_TYPE_VISIBILITY,
			 RPMA_F_COMPLETION_ALWAYS, e));
	wc = completion(e);
	MUST(wc.wr_id == (uintptr_t)e);
	CHECK(rpma_atomic_write(e->conn, remote, HALF, (const char *)&word,
				RPMA_F_COMPLETION_ALWAYS, NULL));
	completion(e);
	CHECK(rpma_read(e->conn, e->mr, HALF, remote, 0, HALF, RPMA_F_COMPLETION_ALWAYS, NULL));
	wc = completion(e);
	MUST(wc.opcode == IBV_WC_RDMA_READ && !memcmp(e->mem, e->mem + HALF, HALF));
}

static void message(struct end *e)
{
	bool sent = false, answered = false;

	CHECK(rpma_send_with_imm(e->conn, e->messages_mr, HALF, MESSAGE, RPMA_F_COMPLETION_ALWAYS,
				 IMMEDIATE, NULL));
	while (!sent || !answered) {
		struct ibv_wc wc = completion(e);

		*(wc.opcode & IBV_WC_RECV ? &answered : &sent) = true;
	}
	MUST(!strcmp((char *)e->messages, "all received"));
}

static void use(const char *address, const char *port)
{
	struct rpma_conn_private_data data;
	struct rpma_mr_remote *remote;
	struct rpma_conn_req *request;
	struct end e = { 0 };
	size_t size;

	begin(&e, address, RPMA_UTIL_IBV_CONTEXT_REMOTE);
	CHECK(rpma_conn_req_new(e.peer, address, port, NULL, &request));
	CHECK(rpma_conn_req_recv(request, e.messages_mr, 0, MESSAGE, NULL));
	CHECK(rpma_conn_req_connect(&request, NULL, &e.conn));
	expect(&e, RPMA_CONN_ESTABLISHED);
	CHECK(rpma_conn_get_private_data(e.conn, &data));
	CHECK(rpma_mr_remote_from_descriptor(data.ptr, data.len, &remote));
	CHECK(rpma_mr_remote_get_size(remote, &size));
	MUST(size == SIZE);
	use_remote(&e, remote);
	message(&e);
	CHECK(rpma_mr_remote_delete(&remote));
	CHECK(rpma_conn_disconnect(e.conn));
	expect(&e, RPMA_CONN_CLOSED);
	finish(&e);
	printf("client: done\n");
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "server"))
		serve(argv[2], argv[3]);
	else if (argc == 4 && !strcmp(argv[1], "client"))
		use(argv[2], argv[3]);
	else
		return fprintf(stderr, "rpma_pair server|client ADDRESS PORT\n"), 2;
	return 0;
}
