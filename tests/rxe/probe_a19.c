/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FLUSH and ATOMIC WRITE (IBA Annex A19). The requester writes, posts one of these, and a SEND
 * behind it; it prints the statuses of the latter two. The responder prints that of its receive,
 * the event that its QP raised, and whether the word has arrived.
 */
#include "probe.h"

enum {
	LIMIT_MS = 20000,
	WRITE_ID = 1, REQUEST_ID, SEND_ID, RECV_ID,
	WORD_AT = 8192,		/* in the responder's buffer */
	RECV_AT = 1 << 20,
	WRITE_LEN = 5000,
	WRITES = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
	READS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
	FLUSHES = WRITES | IBV_ACCESS_FLUSH_GLOBAL,
};

static const uint64_t word = 0x0123456789abcdef;

static const struct a19 {
	const char *name;
	bool flush;
	uint32_t rkey_change;
	size_t offset, len;	/* len: of a FLUSH */
	unsigned mr_access, qp_access;
	uint8_t type, level;
} scenarios[] = {
	{ "atomic_write", .mr_access = WRITES, .qp_access = WRITES },
	{ "atomic_write_misaligned", .offset = 4, .mr_access = WRITES, .qp_access = WRITES },
	{ "atomic_write_bad_rkey", .rkey_change = 1, .mr_access = WRITES, .qp_access = WRITES },
	{ "atomic_write_beyond", .offset = END_SIZE - WORD_AT, .mr_access = WRITES,
	  .qp_access = WRITES },
	{ "atomic_write_region_reads_only", .mr_access = READS, .qp_access = WRITES },
	{ "flush", true, .len = WRITE_LEN, .mr_access = FLUSHES, .qp_access = FLUSHES },
	{ "flush_nothing", true, .mr_access = FLUSHES, .qp_access = FLUSHES },
	{ "flush_region", true, .mr_access = FLUSHES, .qp_access = FLUSHES,
	  .level = IBV_FLUSH_MR },
	{ "flush_bad_rkey", true, .rkey_change = 1, .len = WRITE_LEN, .mr_access = FLUSHES,
	  .qp_access = FLUSHES },
	{ "flush_beyond", true, .offset = END_SIZE - WORD_AT, .len = 1, .mr_access = FLUSHES,
	  .qp_access = FLUSHES },
	{ "flush_region_without_right", true, .len = WRITE_LEN, .mr_access = WRITES,
	  .qp_access = FLUSHES },
	{ "flush_qp_without_right", true, .len = WRITE_LEN, .mr_access = FLUSHES,
	  .qp_access = WRITES },
	{ "flush_without_persistence", true, .len = WRITE_LEN, .mr_access = FLUSHES,
	  .qp_access = FLUSHES | IBV_ACCESS_FLUSH_PERSISTENT, .type = IBV_FLUSH_PERSISTENT },
};

static void print_next(struct end *e)
{
	struct ibv_wc wc;

	printf(" %s", end_poll(e, &wc, LIMIT_MS) ? status_name(wc.status) : "NOTHING");
}

/* ---- requester ------------------------------------------------------------------------------- */

static void write_first(struct end *e)
{
	struct ibv_sge sge = { .addr = (uintptr_t)e->buf,
			       .length = WRITE_LEN,
			       .lkey = e->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = WRITE_ID,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .sg_list = &sge,
				  .num_sge = 1 },
			   *bad;
	struct ibv_wc wc;

	wr.wr.rdma.remote_addr = e->theirs.addr;
	wr.wr.rdma.rkey = e->theirs.rkey;
	CHECK_EQ(ibv_post_send(e->qp, &wr, &bad), 0);
	CHECK(end_poll(e, &wc, LIMIT_MS));
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
}

static void request(struct end *e, const struct a19 *s)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(e->qp);
	const uint64_t at = e->theirs.addr + WORD_AT + s->offset;
	const uint32_t rkey = e->theirs.rkey ^ s->rkey_change;

	if (s->mr_access & IBV_ACCESS_REMOTE_WRITE)
		write_first(e);
	ibv_wr_start(ex);
	ex->wr_id = REQUEST_ID;
	if (s->flush)
		ibv_wr_flush(ex, rkey, at, s->len, s->type ? s->type : IBV_FLUSH_GLOBAL, s->level);
	else
		ibv_wr_atomic_write(ex, rkey, at, &word);
	ex->wr_id = SEND_ID;
	ibv_wr_send(ex);
	CHECK_EQ(ibv_wr_complete(ex), 0);
	print_next(e);
	print_next(e);
	end_meet(e);
}

/* ---- responder ------------------------------------------------------------------------------- */

static void respond(struct end *e, const struct a19 *s)
{
	print_next(e);
	end_meet(e);
	printf(", %s", event_name(end_event(e)));
	if (!s->flush)
		printf(", %s", memcmp(e->buf + WORD_AT, &word, sizeof(word)) ? "no word" : "word");
}

bool probe_a19(struct end *e, const char *name)
{
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(*scenarios); i++) {
		const struct a19 *s = &scenarios[i];
		struct end_setup setup = {
			.type = IBV_QPT_RC,
			.send_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE |
				    (s->flush ? IBV_QP_EX_WITH_FLUSH : IBV_QP_EX_WITH_ATOMIC_WRITE),
		};

		if (strcmp(s->name, name))
			continue;
		if (!e->client) {
			setup.mr_access = s->mr_access;
			setup.qp_access = s->qp_access;
		}
		end_connect(e, &setup);
		if (!e->client)
			end_recv(e, RECV_ID, RECV_AT, 0);
		end_meet(e);
		printf("%s", e->client ? "requester" : "responder");
		if (e->client)
			request(e, s);
		else
			respond(e, s);
		printf("\n");
		return true;
	}
	return false;
}
