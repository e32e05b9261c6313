/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tag matching: messages find their buffer by a tag, as in MPI.
 *
 * The server has buffers for two tags.  The client sends to three: one short message, which goes
 * straight into its buffer (eager); one long one, of which it sends only the address, and which the
 * server's device fetches by itself (rendezvous); and one without a tagged buffer, which goes into
 * an ordinary receive (unexpected).
 */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/tm_types.h>

#include "common.h"

enum {
	LONG = 1 << 20,
	ROOM = 4096,		/* of every other buffer */
	SHORT_TAG = 7,
	LONG_TAG = 8,
	UNWANTED_TAG = 9,
};

/* ---- the server */

static struct ibv_cq_ex *create_tag_cq(struct side *s)
{
	struct ibv_cq_init_attr_ex init = {
		.cqe = 16,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_TM_INFO,
	};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(s->ctx, &init);

	if (!cq)
		fail("ibv_create_cq_ex");
	return cq;
}

static struct ibv_srq *create_tag_srq(struct side *s, struct ibv_cq_ex *cq)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = { .max_wr = 4, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			     IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = s->pd,
		.cq = ibv_cq_ex_to_cq(cq),
		.tm_cap = { .max_num_tags = 4, .max_ops = 4 },
	};
	struct ibv_srq *srq = ibv_create_srq_ex(s->ctx, &init);

	if (!srq)
		fail("ibv_create_srq_ex");
	return srq;
}

/* No send queue: so it is the device's, which needs one to fetch what a rendezvous offers. */
static struct ibv_qp *create_tag_qp(struct side *s, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = s->cq, .recv_cq = s->cq, .srq = srq, .qp_type = IBV_QPT_RC
	};
	struct ibv_qp *qp = ibv_create_qp(s->pd, &init);

	if (!qp)
		fail("ibv_create_qp");
	move_to_init(s, qp);
	return qp;
}

/* The buffer's wr_id is its tag here; the mask says that all bits of a tag count. */
static void add_tag(struct side *s, struct ibv_srq *srq, uint64_t tag, size_t offset, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)s->buf + offset, len, s->mr->lkey };
	struct ibv_ops_wr wr = { .opcode = IBV_WR_TAG_ADD }, *bad;

	wr.tm.add.recv_wr_id = tag;
	wr.tm.add.tag = tag;
	wr.tm.add.mask = UINT64_MAX;
	wr.tm.add.sg_list = &sge;
	wr.tm.add.num_sge = 1;
	errno = ibv_post_srq_ops(srq, &wr, &bad);
	if (errno)
		fail("ibv_post_srq_ops");
}

static void post_ordinary(struct side *s, struct ibv_srq *srq, size_t offset)
{
	struct ibv_sge sge = { (uintptr_t)s->buf + offset, ROOM, s->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = offset, .sg_list = &sge, .num_sge = 1 }, *bad;

	errno = ibv_post_srq_recv(srq, &wr, &bad);
	if (errno)
		fail("ibv_post_srq_recv");
}

static void print_completion(struct side *s, struct ibv_cq_ex *cq)
{
	unsigned int flags = ibv_wc_read_wc_flags(cq);
	uint32_t len = ibv_wc_read_byte_len(cq);

	if (cq->status != IBV_WC_SUCCESS)
		fail(ibv_wc_status_str(cq->status));
	if (!(flags & (IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID)))
		printf("unexpected: %s\n", s->buf + cq->wr_id + sizeof(struct ibv_tmh));
	else
		printf("tag %d:%s%s, %u bytes\n", (int)cq->wr_id,
		       flags & IBV_WC_TM_MATCH ? " matched" : "",
		       flags & IBV_WC_TM_DATA_VALID ? " arrived" : "", len);
}

static void run_server(struct side *s)
{
	struct ibv_cq_ex *cq = create_tag_cq(s);
	struct ibv_srq *srq = create_tag_srq(s, cq);
	struct ibv_qp *qp = create_tag_qp(s, srq);
	struct ibv_poll_cq_attr attr = { 0 };
	struct address peer;

	add_tag(s, srq, LONG_TAG, 0, LONG);
	add_tag(s, srq, SHORT_TAG, LONG, ROOM);
	post_ordinary(s, srq, LONG + ROOM);
	connect_qp(s, qp, &peer);
	alarm(30);
	for (int done = 0; done < 4;) {
		if (ibv_start_poll(cq, &attr))
			continue;
		print_completion(s, cq);
		done++;
		ibv_end_poll(cq);
	}
	printf("the long message begins '%.4s' and ends '%.4s'\n", s->buf, s->buf + LONG - 4);
	sync_sides(s);
	destroy_qp(qp);
	if (ibv_destroy_srq(srq) || ibv_destroy_cq(ibv_cq_ex_to_cq(cq)))
		fail("destroying the shared receive queue");
}

/* ---- the client: ordinary SENDs that begin with a header */

static void send_tagged(struct side *s, struct ibv_qp *qp, uint8_t operation, uint64_t tag,
			const void *rest, size_t len)
{
	struct ibv_tmh header = { .opcode = operation, .tag = htobe64(tag) };

	memcpy(s->buf, &header, sizeof(header));
	memcpy(s->buf + sizeof(header), rest, len);
	post_request(s, qp, IBV_WR_SEND, sizeof(header) + len, NULL);
}

static void run_client(struct side *s)
{
	struct ibv_qp *qp = create_qp(s, NULL);
	struct ibv_rvh where = {
		.va = htobe64((uintptr_t)s->buf + ROOM),
		.rkey = htobe32(s->mr->rkey),
		.len = htobe32(LONG),
	};
	struct address peer;

	memset(s->buf + ROOM, '.', LONG);
	memcpy(s->buf + ROOM, "from", 4);
	memcpy(s->buf + ROOM + LONG - 4, "over", 4);
	connect_qp(s, qp, &peer);
	send_tagged(s, qp, IBV_TMH_EAGER, UNWANTED_TAG, "unexpected tag 9", 17);
	wait_completion(s);
	send_tagged(s, qp, IBV_TMH_EAGER, SHORT_TAG, "a short message", 16);
	wait_completion(s);
	/* A message reports the end of a rendezvous: it needs a receive. */
	post_receive(s, qp, 1);
	send_tagged(s, qp, IBV_TMH_RNDV, LONG_TAG, &where, sizeof(where));
	for (int i = 0; i < 2; i++)
		if (wait_completion(s).opcode == IBV_WC_RECV)
			printf("the long message was fetched\n");
	sync_sides(s);
	destroy_qp(qp);
}

int main(int argc, char **argv)
{
	struct side side;

	side_open(&side, argc, argv, LONG + 2 * ROOM);
	if (is_client(&side))
		run_client(&side);
	else
		run_server(&side);
	side_close(&side);
	return 0;
}
