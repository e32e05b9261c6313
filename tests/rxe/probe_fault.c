/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A request that something is wrong with, or something stands in the way of. The requester prints
 * the status of that request and of the SEND behind it, the responder those of its receives and the
 * event that its QP raised.
 */
#include "probe.h"

enum {
	LIMIT_MS = 20000,	/* that something must come */
	BEYOND = END_SIZE,	/* offset at which the region ends */
	RECV_AT = 1 << 20,
	SMALL = 64,
	NO_RECV = -1,
	LATE_MS = 5,
	REMOTE_WRITE = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
	REMOTE_READ = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
};

struct fault {
	const char *name;
	enum ibv_wr_opcode opcode;
	uint32_t length;
	uint32_t rkey_change;
	size_t offset;
	unsigned mr_access, qp_access;	/* of the responder, 0: all */
	int recv_len;			/* 0: enough; NO_RECV: none is posted */
	uint8_t rnr_retry_limit;
	bool late;			/* the receive is posted after the request */
	bool reset;			/* the responder's QP does not listen */
};

static const struct fault faults[] = {
	{ "write", IBV_WR_RDMA_WRITE, SMALL },
	{ "write_bad_rkey", IBV_WR_RDMA_WRITE, SMALL, .rkey_change = 1 },
	{ "write_imm_bad_rkey", IBV_WR_RDMA_WRITE_WITH_IMM, SMALL, .rkey_change = 1 },
	{ "write_long_bad_rkey", IBV_WR_RDMA_WRITE, 9000, .rkey_change = 1 },
	{ "write_nothing_bad_rkey", IBV_WR_RDMA_WRITE, 0, .rkey_change = 1 },
	{ "write_beyond", IBV_WR_RDMA_WRITE, SMALL, .offset = BEYOND - SMALL + 1 },
	{ "write_region_reads_only", IBV_WR_RDMA_WRITE, SMALL, .mr_access = REMOTE_READ },
	{ "write_qp_reads_only", IBV_WR_RDMA_WRITE, SMALL, .qp_access = REMOTE_READ },
	{ "read_bad_rkey", IBV_WR_RDMA_READ, SMALL, .rkey_change = 1 },
	{ "read_nothing_bad_rkey", IBV_WR_RDMA_READ, 0, .rkey_change = 1 },
	{ "read_beyond", IBV_WR_RDMA_READ, 9000, .offset = BEYOND - 8999 },
	{ "read_region_writes_only", IBV_WR_RDMA_READ, SMALL, .mr_access = REMOTE_WRITE },
	{ "read_qp_writes_only", IBV_WR_RDMA_READ, SMALL, .qp_access = REMOTE_WRITE },
	{ "atomic", IBV_WR_ATOMIC_FETCH_AND_ADD, 8 },
	{ "atomic_bad_rkey", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, .rkey_change = 1 },
	{ "atomic_region_writes_only", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, .mr_access = REMOTE_WRITE },
	{ "atomic_qp_writes_only", IBV_WR_ATOMIC_CMP_AND_SWP, 8, .qp_access = REMOTE_WRITE },
	{ "send_too_long", IBV_WR_SEND, 500, .recv_len = SMALL },
	{ "send_too_long_later", IBV_WR_SEND, 9000, .recv_len = 6000 },
	{ "send_late_recv", IBV_WR_SEND, 3000, .late = true },
	{ "write_imm_late_recv", IBV_WR_RDMA_WRITE_WITH_IMM, 3000, .late = true },
	{ "send_no_recv", IBV_WR_SEND, SMALL, .recv_len = NO_RECV, .rnr_retry_limit = 2 },
	{ "write_imm_no_recv", IBV_WR_RDMA_WRITE_WITH_IMM, SMALL, .recv_len = NO_RECV,
	  .rnr_retry_limit = 2 },
	{ "send_no_listener", IBV_WR_SEND, SMALL, .recv_len = NO_RECV, .reset = true },
};

static void post(struct end *e, const struct fault *f)
{
	struct ibv_sge sge = { .addr = (uintptr_t)e->buf,
			       .length = f->length,
			       .lkey = e->mr->lkey };
	struct ibv_send_wr behind = {
		.wr_id = 2, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 0
	};
	struct ibv_send_wr wr = { .wr_id = 1,
				  .next = &behind,
				  .opcode = f->opcode,
				  .sg_list = &sge,
				  .num_sge = 1 },
			   *bad;
	uint64_t addr = e->theirs.addr + f->offset;
	uint32_t rkey = e->theirs.rkey ^ f->rkey_change;

	if (f->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || f->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = addr;
		wr.wr.atomic.rkey = rkey;
	} else if (f->opcode != IBV_WR_SEND) {
		wr.wr.rdma.remote_addr = addr;
		wr.wr.rdma.rkey = rkey;
	}
	CHECK_EQ(ibv_post_send(e->qp, &wr, &bad), 0);
}

static void print_statuses(struct end *e, int n)
{
	struct ibv_wc wc;

	while (n-- > 0)
		printf(" %s", end_poll(e, &wc, LIMIT_MS) ? status_name(wc.status) : "NOTHING");
}

static void request(struct end *e, const struct fault *f)
{
	end_meet(e);
	post(e, f);
	if (f->late)
		end_meet(e);
	print_statuses(e, 2);
	end_meet(e);
}

/* Receives for this message and the one behind it. */
static int post_receives(struct end *e, const struct fault *f)
{
	if (f->recv_len == NO_RECV)
		return 0;
	if (f->opcode == IBV_WR_SEND || f->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
		end_recv(e, 1, RECV_AT, f->recv_len > 0 ? (size_t)f->recv_len : f->length);
		end_recv(e, 2, RECV_AT, 0);
		return 2;
	}
	end_recv(e, 1, RECV_AT, 0);
	return 1;
}

static void respond(struct end *e, const struct fault *f)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	int receives = 0;

	if (f->reset)
		CHECK_EQ(ibv_modify_qp(e->qp, &reset, IBV_QP_STATE), 0);
	if (!f->late)
		receives = post_receives(e, f);
	end_meet(e);
	if (f->late) {
		end_meet(e);
		receives = post_receives(e, f);
	}
	end_meet(e);	/* the requester knows how it ended, and so does our QP */
	print_statuses(e, receives);
	printf(", %s", event_name(end_event(e)));
}

bool probe_fault(struct end *e, const char *name)
{
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
		const struct fault *f = &faults[i];
		struct end_setup setup = { .type = IBV_QPT_RC };

		if (strcmp(f->name, name))
			continue;
		if (e->client) {
			setup.rnr_retry_limit = f->rnr_retry_limit;
		} else {
			setup.mr_access = f->mr_access;
			setup.qp_access = f->qp_access;
		}
		end_connect(e, &setup);
		printf("%s", e->client ? "requester" : "responder");
		if (e->client)
			request(e, f);
		else
			respond(e, f);
		printf("\n");
		return true;
	}
	return false;
}
