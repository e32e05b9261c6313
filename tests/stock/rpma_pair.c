/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A pair of programs over the distribution's librpma, with the calls of its examples:
 *
 *	rpma_pair server ADDRESS PORT [WAY]
 *	rpma_pair client ADDRESS PORT
 *
 * The server's private data describes its memory. The client writes to it, flushes, reads it back,
 * writes eight bytes atomically, writes with immediate data, and sends a message that the server
 * answers; then it disconnects. WAY says where the server's receives complete: in the connection's
 * CQ (default), its receive CQ (`rcq`), both over one channel (`channel`); with a shared receive
 * queue in that queue's CQ (`srq`), or in the connection's (`srq_cq`, `srq_rcq`).
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
	bool one_channel;
};

/* The server's ways to receive. */
struct way {
	const char *name;
	bool rcq, channel, srq, srq_has_cq;
};

enum {
	CQ_SIZE = 10,
};

static const struct way ways[] = {
	{ .name = "cq" },
	{ .name = "rcq", .rcq = true },
	{ .name = "channel", .rcq = true, .channel = true },
	{ .name = "srq", .srq = true, .srq_has_cq = true },
	{ .name = "srq_cq", .srq = true },
	{ .name = "srq_rcq", .srq = true, .rcq = true },
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
	CHECK(rpma_mr_dereg(&e->mr));
	CHECK(rpma_mr_dereg(&e->messages_mr));
	CHECK(rpma_peer_delete(&e->peer));
	free(e->mem);
	free(e->messages);
}

/* One event may stand for several completions, or for one that was taken before. */
static struct ibv_wc completion_of(struct end *e, struct rpma_cq *cq)
{
	struct rpma_cq *caused;
	struct ibv_wc wc;
	int ret;

	while ((ret = rpma_cq_get_wc(cq, 1, &wc, NULL)) == RPMA_E_NO_COMPLETION) {
		if (e->one_channel)
			CHECK(rpma_conn_wait(e->conn, 0, &caused, NULL));
		else
			CHECK(rpma_cq_wait(cq));
	}
	CHECK(ret);
	MUST(wc.status == IBV_WC_SUCCESS);
	return wc;
}

static struct ibv_wc completion(struct end *e)
{
	struct rpma_cq *cq;

	CHECK(rpma_conn_get_cq(e->conn, &cq));
	return completion_of(e, cq);
}

static struct rpma_srq *create_srq(struct end *e, const struct way *way)
{
	struct rpma_srq_cfg *cfg;
	struct rpma_srq *srq;

	CHECK(rpma_srq_cfg_new(&cfg));
	CHECK(rpma_srq_cfg_set_rcq_size(cfg, way->srq_has_cq ? CQ_SIZE : 0));
	CHECK(rpma_srq_new(e->peer, cfg, &srq));
	CHECK(rpma_srq_cfg_delete(&cfg));
	CHECK(rpma_srq_recv(srq, e->messages_mr, 0, MESSAGE, NULL));
	CHECK(rpma_srq_recv(srq, e->messages_mr, 0, MESSAGE, NULL));
	return srq;
}

static void accept_one(struct end *e, struct rpma_ep *ep, const struct way *way,
		       struct rpma_srq *srq, const struct rpma_conn_private_data *data)
{
	struct rpma_conn_req *request;
	struct rpma_conn_cfg *cfg;

	CHECK(rpma_conn_cfg_new(&cfg));
	CHECK(rpma_conn_cfg_set_rcq_size(cfg, way->rcq ? CQ_SIZE : 0));
	CHECK(rpma_conn_cfg_set_compl_channel(cfg, way->channel));
	if (srq)
		CHECK(rpma_conn_cfg_set_srq(cfg, srq));
	CHECK(rpma_ep_next_conn_req(ep, cfg, &request));
	CHECK(rpma_conn_cfg_delete(&cfg));
	if (!srq) {
		CHECK(rpma_conn_req_recv(request, e->messages_mr, 0, MESSAGE, NULL));
		CHECK(rpma_conn_req_recv(request, e->messages_mr, 0, MESSAGE, NULL));
	}
	CHECK(rpma_conn_req_connect(&request, data, &e->conn));
	expect(e, RPMA_CONN_ESTABLISHED);
}

static struct rpma_cq *receive_cq(struct end *e, const struct way *way, struct rpma_srq *srq)
{
	struct rpma_cq *cq;

	if (way->srq_has_cq)
		CHECK(rpma_srq_get_rcq(srq, &cq));
	else if (way->rcq)
		CHECK(rpma_conn_get_rcq(e->conn, &cq));
	else
		CHECK(rpma_conn_get_cq(e->conn, &cq));
	return cq;
}

static void check_immediate(struct ibv_wc wc, enum ibv_wc_opcode opcode, uint32_t size)
{
	MUST(wc.opcode == opcode && wc.byte_len == size && wc.wc_flags & IBV_WC_WITH_IMM &&
	     be32toh(wc.imm_data) == IMMEDIATE);
}

static void answer(struct end *e, struct rpma_cq *receives)
{
	uint64_t word;

	check_immediate(completion_of(e, receives), IBV_WC_RECV_RDMA_WITH_IMM, MESSAGE);
	memcpy(&word, e->mem + HALF, sizeof(word));
	MUST(word == LAST_WORD && e->mem[0] == 1 && e->mem[HALF - 1] == 1);
	MUST(e->mem[SIZE - MESSAGE] == 1 && e->mem[SIZE - 1] == 1);
	check_immediate(completion_of(e, receives), IBV_WC_RECV, MESSAGE);
	strcpy((char *)e->messages + HALF, "all received");
	CHECK(rpma_send(e->conn, e->messages_mr, HALF, MESSAGE, RPMA_F_COMPLETION_ALWAYS, NULL));
	MUST(completion(e).opcode == IBV_WC_SEND);
}

static void serve(const char *address, const char *port, const struct way *way)
{
	struct rpma_conn_private_data data;
	struct end e = { .one_channel = way->channel };
	struct rpma_srq *srq = NULL;
	struct rpma_ep *ep;
	uint8_t description[64];
	size_t size;

	begin(&e, address, RPMA_UTIL_IBV_CONTEXT_LOCAL);
	CHECK(rpma_mr_get_descriptor_size(e.mr, &size));
	MUST(size <= sizeof(description));
	CHECK(rpma_mr_get_descriptor(e.mr, description));
	data = (struct rpma_conn_private_data){ description, (uint8_t)size };
	if (way->srq)
		srq = create_srq(&e, way);
	CHECK(rpma_ep_listen(e.peer, address, port, &ep));
	accept_one(&e, ep, way, srq, &data);
	answer(&e, receive_cq(&e, way, srq));
	expect(&e, RPMA_CONN_CLOSED);
	CHECK(rpma_conn_disconnect(e.conn));
	CHECK(rpma_conn_delete(&e.conn));
	if (srq)
		CHECK(rpma_srq_delete(&srq));
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
	CHECK(rpma_write_with_imm(e->conn, remote, SIZE - MESSAGE, e->mr, 0, MESSAGE,
				  RPMA_F_COMPLETION_ALWAYS, IMMEDIATE, NULL));
	MUST(completion(e).opcode == IBV_WC_RDMA_WRITE);
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
	CHECK(rpma_conn_delete(&e.conn));
	finish(&e);
	printf("client: done\n");
}

static const struct way *find_way(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (!strcmp(ways[i].name, name))
			return &ways[i];
	return NULL;
}

int main(int argc, char **argv)
{
	const struct way *way = argc == 5 ? find_way(argv[4]) : &ways[0];

	if ((argc == 4 || argc == 5) && way && !strcmp(argv[1], "server"))
		serve(argv[2], argv[3], way);
	else if (argc == 4 && !strcmp(argv[1], "client"))
		use(argv[2], argv[3]);
	else
		return fprintf(stderr, "rpma_pair server|client ADDRESS PORT [WAY]\n"), 2;
	return 0;
}
