/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The log line for a QP that fails: written once, with QP, request, rkey, address and the region
 * behind the key; its reason number is also in vendor_err.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "world.h"

static struct world w;
static struct ibv_cq *cq_a, *cq_b;
static struct ibv_qp *a, *b;
static struct buffer src, dst;
static char log_path[] = "/tmp/verbena-fault-XXXXXX";

static void set_up(int dst_access)
{
	cq_a = world_cq(&w, 64);
	cq_b = world_cq(&w, 64);
	a = world_qp(&w, IBV_QPT_RC, cq_a, NULL);
	b = world_qp(&w, IBV_QPT_RC, cq_b, NULL);
	world_connect(&w, a, b);
	src = world_buffer(&w, 4096, WORLD_ACCESS);
	dst = world_buffer(&w, 4096, dst_access);
	CHECK_EQ(truncate(log_path, 0), 0);
}

static void tear_down(void)
{
	struct ibv_async_event ev;

	while (world_has_event(&w)) {
		CHECK_EQ(ibv_get_async_event(w.ctx, &ev), 0);
		ibv_ack_async_event(&ev);
	}
	world_destroy_pair(a, b, cq_a, cq_b);
	world_free(&src);
	world_free(&dst);
}

/* The contents of the log file. */
static const char *logged(void)
{
	static char text[8192];
	FILE *f = fopen(log_path, "r");
	size_t n;

	CHECK(f != NULL);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0';
	fclose(f);
	return text;
}

static unsigned int lines_with(const char *text, const char *word)
{
	unsigned int n = 0;

	for (const char *p = text; (p = strstr(p, word)); p += strlen(word))
		n++;
	return n;
}

static void expect_logged(const char *text, const char *word)
{
	if (!strstr(text, word))
		fprintf(stderr, "no \"%s\" in:\n%s", word, text);
	CHECK(strstr(text, word) != NULL);
}

static void post(uint64_t wr_id, enum ibv_wr_opcode opcode, struct ibv_sge *sge, uint32_t rkey,
		 uint64_t address)
{
	struct ibv_send_wr wr = { .wr_id = wr_id, .opcode = opcode, .sg_list = sge, .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };

	wr.wr.rdma.rkey = rkey;
	wr.wr.rdma.remote_addr = address;
	world_post(a, &wr);
}

/* Both sides log: the requester the failed request, the responder the reason. */
static void test_missing_right(void)
{
	struct ibv_sge sge;
	char key[64];
	struct ibv_wc wc;

	set_up(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	sge = world_sge(&src, 0, 64);
	post(7, IBV_WR_RDMA_WRITE, &sge, dst.mr->rkey, (uintptr_t)dst.data);
	post(8, IBV_WR_RDMA_WRITE, &sge, dst.mr->rkey, (uintptr_t)dst.data);
	wc = world_expect(cq_a, 7, IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(wc.vendor_err, 301);
	wc = world_expect(cq_a, 8, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(wc.vendor_err, 11);
	expect_logged(logged(), "RDMA WRITE wr_id 0x7: IBV_WC_REM_ACCESS_ERR, vendor_err 301");
	expect_logged(logged(), "without REMOTE_WRITE, registered at failure_log_verbs+0x");
	expect_logged(logged(), "refused a request from its peer: reason 203");
	snprintf(key, sizeof(key), "rkey 0x%x, address 0x%llx, length 64", dst.mr->rkey,
		 (unsigned long long)(uintptr_t)dst.data);
	expect_logged(logged(), key);
	snprintf(key, sizeof(key), "QP 0x%x (RC, to 0x%x at ", a->qp_num, b->qp_num);
	expect_logged(logged(), key);
	CHECK_EQ(lines_with(logged(), " failed: "), 1);
	CHECK_EQ(lines_with(logged(), " refused "), 1);
	CHECK_EQ(lines_with(logged(), "\n"), 2);
	tear_down();
}

static bool is_local(void)
{
	return !strcmp(getenv("VERBENA_TRANSPORT"), "local");
}

static void move_with_rd_atomic(struct ibv_qp *qp, enum ibv_qp_state to, uint32_t dest,
				uint8_t rd_atomic)
{
	struct ibv_qp_attr attr;
	int mask = world_attr(&w, IBV_QPT_RC, to, dest, &attr);

	attr.max_rd_atomic = attr.max_dest_rd_atomic = rd_atomic;
	CHECK_EQ(ibv_modify_qp(qp, &attr, mask), 0);
}

static void test_range(void)
{
	struct ibv_sge sge;

	set_up(WORLD_ACCESS);
	sge = world_sge(&src, 0, 64);
	post(1, IBV_WR_RDMA_READ, &sge, dst.mr->rkey, (uintptr_t)dst.data + 4096 - 63);
	world_expect(cq_a, 1, IBV_WC_REM_ACCESS_ERR);
	expect_logged(logged(), "RDMA READ wr_id 0x1");
	expect_logged(logged(), "reason 202");
	expect_logged(logged(), "the rkey names a region [0x");
	tear_down();
}

/* Refused by an attribute of the QP: both sides name the request and the attribute. */
static void test_refused_by_qp(void)
{
	struct ibv_qp_attr attr = { .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	struct ibv_sge sge;
	struct ibv_wc wc;

	set_up(WORLD_ACCESS);
	CHECK_EQ(ibv_modify_qp(b, &attr, IBV_QP_ACCESS_FLAGS), 0);
	sge = world_sge(&src, 0, 64);
	post(1, IBV_WR_RDMA_READ, &sge, dst.mr->rkey, (uintptr_t)dst.data);
	wc = world_expect(cq_a, 1, IBV_WC_REM_INV_REQ_ERR);
	CHECK_EQ(wc.vendor_err, 300);
	expect_logged(logged(), "reason 206: ");
	expect_logged(logged(), "; it is an RDMA READ, the QP lacks IBV_ACCESS_REMOTE_READ\n");
	if (is_local())
		expect_logged(logged(), ": the peer's QP lacks IBV_ACCESS_REMOTE_READ in its "
					"qp_access_flags\n");
	tear_down();

	set_up(WORLD_ACCESS);
	for (enum ibv_qp_state s = IBV_QPS_RESET; s <= IBV_QPS_INIT; s++)
		world_move(&w, b, s, a->qp_num);
	move_with_rd_atomic(b, IBV_QPS_RTR, a->qp_num, 0);
	world_move(&w, b, IBV_QPS_RTS, a->qp_num);
	post(1, IBV_WR_ATOMIC_FETCH_AND_ADD, &(struct ibv_sge){ (uintptr_t)src.data, 8,
								src.mr->lkey },
	     dst.mr->rkey, (uintptr_t)dst.data);
	world_expect(cq_a, 1, IBV_WC_REM_INV_REQ_ERR);
	expect_logged(logged(), "reason 209: ");
	expect_logged(logged(), "; it is an atomic, max_dest_rd_atomic is 0\n");
	tear_down();
}

static void test_wrong_keys(void)
{
	struct ibv_sge sge;
	struct ibv_wc wc;

	set_up(WORLD_ACCESS);
	sge = world_sge(&src, 0, 64);
	post(1, IBV_WR_RDMA_WRITE, &sge, dst.mr->rkey ^ 1, (uintptr_t)dst.data);
	world_expect(cq_a, 1, IBV_WC_REM_ACCESS_ERR);
	expect_logged(logged(), "the rkey names nothing");
	tear_down();

	set_up(WORLD_ACCESS);
	sge = world_sge(&src, 0, 64);
	sge.lkey ^= 1;
	post(2, IBV_WR_RDMA_WRITE, &sge, dst.mr->rkey, (uintptr_t)dst.data);
	wc = world_expect(cq_a, 2, IBV_WC_LOC_PROT_ERR);
	CHECK_EQ(wc.vendor_err, 100);
	expect_logged(logged(), "IBV_WC_LOC_PROT_ERR, vendor_err 100");
	expect_logged(logged(), "the lkey names nothing");
	CHECK_EQ(lines_with(logged(), "\n"), 1);
	tear_down();
}

static void write_refused(uint32_t rkey, uint64_t address, const char *why)
{
	struct ibv_sge sge = world_sge(&src, 0, 64);

	post(1, IBV_WR_RDMA_WRITE, &sge, rkey, address);
	world_expect(cq_a, 1, IBV_WC_REM_ACCESS_ERR);
	expect_logged(logged(), why);
	tear_down();
}

/* What the log makes of keys and addresses that were exchanged wrongly, or are out of date. */
static void test_likely_keys(void)
{
	struct buffer old;
	struct ibv_sge sge;
	uint64_t va;
	char line[80];

	set_up(WORLD_ACCESS);
	write_refused(htonl(dst.mr->rkey), (uintptr_t)dst.data,
		      "names nothing; in the other byte order it names a region");
	set_up(WORLD_ACCESS);
	va = (uintptr_t)dst.data;
	write_refused(dst.mr->rkey, __builtin_bswap64(va),
		      "; in the other byte order the address lies inside");
	for (int i = 0; i < 2; i++) {
		set_up(WORLD_ACCESS);
		va = (uintptr_t)dst.data + 8;
		CHECK(va > UINT32_MAX);
		/* an unsigned number, and an int, whose sign is extended */
		write_refused(dst.mr->rkey, i ? (uint64_t)(int32_t)va : (uint32_t)va,
			      "; the address may have been cut to 32 bits");
	}
	set_up(WORLD_ACCESS);
	write_refused(dst.mr->rkey, 64, "the address looks like an offset");
	set_up(WORLD_ACCESS);
	write_refused(dst.mr->rkey, (uintptr_t)dst.data + 4095,
		      "; the access starts inside and ends outside");

	set_up(WORLD_ACCESS);
	old = world_buffer(&w, 4096, WORLD_ACCESS);
	sge = world_sge(&old, 0, 64);
	CHECK_EQ(ibv_dereg_mr(old.mr), 0);
	snprintf(line, sizeof(line), "lkey was that of a region [0x%llx, 0x%llx), which is "
		 "deregistered, registered at ", (unsigned long long)(uintptr_t)old.data,
		 (unsigned long long)(uintptr_t)old.data + 4096);
	world_send(a, 1, sge);
	world_expect(cq_a, 1, IBV_WC_LOC_PROT_ERR);
	expect_logged(logged(), line);
	tear_down();
	free(old.data);
}

static void test_small_receive(void)
{
	set_up(WORLD_ACCESS);
	world_recv(b, 5, world_sge(&dst, 0, 10));
	world_send(a, 1, world_sge(&src, 0, 11));
	world_expect(cq_b, 5, IBV_WC_LOC_LEN_ERR);
	world_expect(cq_a, 1, IBV_WC_REM_INV_REQ_ERR);
	expect_logged(logged(), "receive wr_id 0x5: IBV_WC_LOC_LEN_ERR");
	expect_logged(logged(), "SEND wr_id 0x1: IBV_WC_REM_INV_REQ_ERR");
	tear_down();
}

/*
 * A program that moves its QPs to ERR itself causes no log line. After RESET the next failure is
 * logged again.
 */
static void test_no_line_without_failure(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_sge sge;

	set_up(WORLD_ACCESS);
	world_recv(a, 5, world_sge(&src, 0, 10));
	CHECK_EQ(ibv_modify_qp(a, &attr, IBV_QP_STATE), 0);
	world_expect(cq_a, 5, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(strlen(logged()), 0);
	for (unsigned int i = 1; i <= 2; i++) {
		attr.qp_state = IBV_QPS_RESET;
		CHECK_EQ(ibv_modify_qp(a, &attr, IBV_QP_STATE), 0);
		for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++)
			world_move(&w, a, s, b->qp_num);
		sge = world_sge(&src, 0, 64);
		sge.lkey = 0;
		post(i, IBV_WR_RDMA_WRITE, &sge, dst.mr->rkey, (uintptr_t)dst.data);
		world_expect(cq_a, i, IBV_WC_LOC_PROT_ERR);
		CHECK_EQ(lines_with(logged(), "\n"), i);
	}
	tear_down();
}

/* Waits for a receive for ever, which is told when it has waited for long. */
static void test_long_wait(void)
{
	struct ibv_wc wc;

	set_up(WORLD_ACCESS);
	world_send(a, 1, world_sge(&src, 0, 8));
	while (!lines_with(logged(), "\n"))
		CHECK_EQ(ibv_poll_cq(cq_a, 1, &wc), 0);
	expect_logged(logged(), ": a request waits for a receive, of which its peer has posted "
				"none for ");
	world_recv(b, 5, world_sge(&dst, 0, 8));
	world_expect(cq_b, 5, IBV_WC_SUCCESS);
	world_expect(cq_a, 1, IBV_WC_SUCCESS);
	tear_down();
}

/* Whichever end notices: it works, but would not on a device. */
static void test_other_mtu(void)
{
	struct ibv_qp_attr attr;
	struct ibv_sge sge;
	int mask;

	set_up(WORLD_ACCESS);
	for (enum ibv_qp_state s = IBV_QPS_RESET; s <= IBV_QPS_INIT; s++)
		world_move(&w, b, s, a->qp_num);
	mask = world_attr(&w, IBV_QPT_RC, IBV_QPS_RTR, a->qp_num, &attr);
	attr.path_mtu = IBV_MTU_4096;
	CHECK_EQ(ibv_modify_qp(b, &attr, mask), 0);
	world_move(&w, b, IBV_QPS_RTS, a->qp_num);
	for (int i = 0; i < 2; i++) {
		world_recv(b, 5, world_sge(&dst, 0, 4096));
		sge = world_sge(&src, 0, 2000);
		world_send(a, 1, sge);
		world_expect(cq_b, 5, IBV_WC_SUCCESS);
		world_expect(cq_a, 1, IBV_WC_SUCCESS);
	}
	CHECK(is_local() || strstr(logged(), ": path_mtu is 4096, but 1024 at its peer: "));
	expect_logged(logged(), " at its peer: Verbena takes messages of several packets all the "
				"same, a device refuses them\n");
	CHECK_EQ(lines_with(logged(), "\n"), 1);
	tear_down();
}

/* Packets are longer than the responder's path MTU; locally there are none. */
static void test_smaller_mtu(void)
{
	struct ibv_qp_attr attr;
	struct ibv_sge sge;
	int mask;

	if (is_local())
		return;
	set_up(WORLD_ACCESS);
	for (enum ibv_qp_state s = IBV_QPS_RESET; s <= IBV_QPS_INIT; s++)
		world_move(&w, b, s, a->qp_num);
	mask = world_attr(&w, IBV_QPT_RC, IBV_QPS_RTR, a->qp_num, &attr);
	attr.path_mtu = IBV_MTU_512;
	CHECK_EQ(ibv_modify_qp(b, &attr, mask), 0);
	sge = world_sge(&src, 0, 4096);
	post(1, IBV_WR_RDMA_WRITE, &sge, dst.mr->rkey, (uintptr_t)dst.data);
	world_expect(cq_a, 1, IBV_WC_REM_INV_REQ_ERR);
	expect_logged(logged(), "reason 208: ");
	expect_logged(logged(), "; it is an RDMA WRITE, path_mtu is 512\n");
	tear_down();
}

/* The log names the attribute because of which ibv_modify_qp failed. */
static void test_refused_modification(void)
{
	static const struct {
		struct ibv_qp_attr attr;
		int add, drop; /* relative to the required mask */
		const char *message;
	} rows[] = {
		{ .drop = IBV_QP_DEST_QPN, .message = "IBV_QP_DEST_QPN is missing from the mask" },
		{ .drop = IBV_QP_DEST_QPN | IBV_QP_AV,
		  .message = "IBV_QP_AV, IBV_QP_DEST_QPN are missing from the mask" },
		{ .drop = IBV_QP_STATE, .message = ": IBV_QP_STATE is not in the mask\n" },
		{ .add = IBV_QP_QKEY, .message = "IBV_QP_QKEY cannot be changed in" },
		{ .attr.path_mtu = 9, .message = "path_mtu is 9, but must be 1 to 5" },
		{ .attr.max_dest_rd_atomic = 255,
		  .message = "max_dest_rd_atomic is 255, but must be 0 to " },
		{ .attr.ah_attr.grh.sgid_index = 255, .message = "GID 255 of the port is empty" },
		{ .attr.qp_state = IBV_QPS_SQD,
		  .message = "INIT to SQD: there is no such transition for this type of QP; the "
			     "order is RESET, INIT, RTR, RTS\n" },
		{ .add = IBV_QP_CUR_STATE,
		  .attr.cur_qp_state = IBV_QPS_RTS,
		  .message = "cur_qp_state is RTS" },
	};
	struct ibv_cq *cq = world_cq(&w, 4);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, NULL);
		struct ibv_qp_attr attr;
		int mask;

		world_move(&w, qp, IBV_QPS_INIT, 0);
		mask = world_attr(&w, IBV_QPT_RC, IBV_QPS_RTR, qp->qp_num, &attr);
		mask = (mask | rows[i].add) & ~rows[i].drop;
#define TAKE(field)                                                                                \
	do {                                                                                       \
		if (rows[i].attr.field)                                                            \
			attr.field = rows[i].attr.field;                                           \
	} while (0)
		TAKE(path_mtu);
		TAKE(max_dest_rd_atomic);
		TAKE(ah_attr.grh.sgid_index);
		TAKE(qp_state);
		TAKE(cur_qp_state);
#undef TAKE
		CHECK_EQ(truncate(log_path, 0), 0);
		CHECK_EQ(ibv_modify_qp(qp, &attr, mask), EINVAL);
		expect_logged(logged(), "ibv_modify_qp INIT to ");
		expect_logged(logged(), rows[i].message);
		CHECK_EQ(lines_with(logged(), "\n"), 1);
		CHECK_EQ(ibv_destroy_qp(qp), 0);
	}
	CHECK_EQ(ibv_destroy_cq(cq), 0);
}

static void test_refused_request(void)
{
	struct ibv_send_wr wr, *bad;
	struct ibv_sge sge;

	set_up(WORLD_ACCESS);
	sge = world_sge(&src, 0, 8);
	wr = world_rdma(IBV_WR_RDMA_WRITE, 0x77, &sge, &dst, 0);
	wr.num_sge = 100;
	CHECK_EQ(ibv_post_send(a, &wr, &bad), EINVAL);
	expect_logged(logged(), "wr_id 0x77 not posted: more scatter/gather entries than the queue "
				"was created with (4): max_send_sge is 4\n");
	tear_down();
}

/* Refused as a whole: the log names no key or address, which were not looked at. */
static void test_refused_at_execution(void)
{
	struct ibv_sge sge;
	struct ibv_wc wc;

	set_up(WORLD_ACCESS);
	for (enum ibv_qp_state s = IBV_QPS_RESET; s <= IBV_QPS_RTR; s++)
		world_move(&w, a, s, b->qp_num);
	move_with_rd_atomic(a, IBV_QPS_RTS, b->qp_num, 0);
	sge = world_sge(&src, 0, 8);
	post(1, IBV_WR_RDMA_READ, &sge, dst.mr->rkey, (uintptr_t)dst.data);
	wc = world_expect(cq_a, 1, IBV_WC_LOC_QP_OP_ERR);
	CHECK_EQ(wc.vendor_err, 10);
	expect_logged(logged(), "need max_rd_atomic of at least one\n");
	tear_down();
}

static void test_refused_in_state(void)
{
	struct ibv_send_wr wr = { .wr_id = 0x78, .opcode = IBV_WR_SEND }, *bad;

	set_up(WORLD_ACCESS);
	world_move(&w, a, IBV_QPS_RESET, 0);
	world_move(&w, a, IBV_QPS_INIT, 0);
	CHECK_EQ(ibv_post_send(a, &wr, &bad), EINVAL);
	expect_logged(logged(), "not in a state that executes this request (3): it is in INIT\n");
	tear_down();
}

static int post_until_full(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int err;

	do {
		world_recv(b, 1, world_sge(&dst, 0, 0));
		err = ibv_post_send(a, wr, &bad);
		if (!err)
			world_expect(cq_b, 1, IBV_WC_SUCCESS);
	} while (!err);
	return err;
}

/* A full queue is a mistake only if no completion can make room in it. */
static void test_full_queue(void)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;

	set_up(WORLD_ACCESS);
	wr.send_flags = IBV_SEND_SIGNALED;
	CHECK_EQ(ibv_post_send(a, &wr, &bad), 0);
	wr.send_flags = 0;
	world_recv(b, 1, world_sge(&dst, 0, 0));
	world_expect(cq_b, 1, IBV_WC_SUCCESS);
	CHECK_EQ(post_until_full(&wr), ENOMEM);
	CHECK_EQ(strlen(logged()), 0);
	tear_down();
}

/* Fills the queue with WRITEs, which leave nothing in it if they execute at once. */
static void fill_by_writes(int signaled)
{
	struct ibv_sge sge = world_sge(&src, 0, 8);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 1, &sge, &dst, 0), *bad;

	for (int i = 0; i < 16; i++) {
		wr.send_flags = i == signaled ? IBV_SEND_SIGNALED : 0;
		CHECK_EQ(ibv_post_send(a, &wr, &bad), 0);
	}
	CHECK_EQ(ibv_post_send(a, &wr, &bad), ENOMEM);
}

static void test_full_of_writes(void)
{
	for (int signaled = 0; signaled < 16; signaled += 15) {
		set_up(WORLD_ACCESS);
		fill_by_writes(signaled);
		CHECK_EQ(strlen(logged()), 0);
		world_expect(cq_a, 1, IBV_WC_SUCCESS);
		tear_down();
	}
	set_up(WORLD_ACCESS);
	fill_by_writes(-1);
	expect_logged(logged(), "the work queue is full (15), of requests without "
				"IBV_SEND_SIGNALED: no completion will make room\n");
	tear_down();
}

/* No completion tells of it, only an event. */
static void test_overrun(void)
{
	struct ibv_async_event ev;
	char line[80];

	set_up(WORLD_ACCESS);
	world_destroy_pair(a, b, cq_a, cq_b);
	cq_a = world_cq(&w, 1);
	cq_b = world_cq(&w, 64);
	a = world_qp(&w, IBV_QPT_RC, cq_a, NULL);
	b = world_qp(&w, IBV_QPT_RC, cq_b, NULL);
	world_connect(&w, a, b);
	for (int i = 0; i < 16; i++)
		world_recv(b, 1, world_sge(&dst, 0, 8));
	for (int i = 0; i < 16; i++)
		world_send(a, 1, world_sge(&src, 0, 8));
	CHECK_EQ(ibv_get_async_event(w.ctx, &ev), 0);
	CHECK_EQ(ev.event_type, IBV_EVENT_CQ_ERR);
	ibv_ack_async_event(&ev);
	snprintf(line, sizeof(line), "CQ %u: reason 400: the completion queue overran",
		 cq_a->handle);
	expect_logged(logged(), line);
	CHECK_EQ(lines_with(logged(), line), 1);
	tear_down();
}

/* Datagrams with a wrong Q_Key, and for a receive without room for the GRH. */
static void test_lost_datagrams(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_ah_attr to = { .grh = { .dgid = w.gid, .sgid_index = w.gid_index },
				  .is_global = 1, .port_num = 1 };
	char line[128];

	set_up(WORLD_ACCESS);
	world_destroy_pair(a, b, cq_a, cq_b);
	cq_a = world_cq(&w, 64);
	cq_b = world_cq(&w, 64);
	a = world_qp(&w, IBV_QPT_UD, cq_a, NULL);
	b = world_qp(&w, IBV_QPT_UD, cq_b, NULL);
	world_connect(&w, a, b);
	sge = world_sge(&src, 0, 8);
	wr.wr.ud.ah = ibv_create_ah(w.pd, &to);
	CHECK(wr.wr.ud.ah);
	wr.wr.ud.remote_qpn = b->qp_num;
	wr.wr.ud.remote_qkey = WORLD_QKEY + 1;
	world_recv(b, 2, world_sge(&dst, 0, 4096));
	world_post(a, &wr);
	world_expect(cq_a, 1, IBV_WC_SUCCESS);
	wr.wr.ud.remote_qkey = WORLD_QKEY;
	world_post(a, &wr);
	world_expect(cq_a, 1, IBV_WC_SUCCESS);
	world_expect(cq_b, 2, IBV_WC_SUCCESS);
	world_recv(a, 3, world_sge(&dst, 0, 47));
	wr.wr.ud.remote_qpn = a->qp_num;
	world_post(a, &wr);
	world_expect(cq_a, 1, IBV_WC_SUCCESS);
	sge.length = 7;
	wr.send_flags = 0;
	world_post(a, &wr);
	world_expect(cq_a, 3, IBV_WC_SUCCESS);
	expect_logged(logged(), "longer than the receive buffer less the 40 bytes of the GRH;");
	snprintf(line, sizeof(line), "QP 0x%x (UD): reason 408: a datagram was dropped: its Q_Key "
		 "is not that of the queue pair, 0x%x;", b->qp_num, WORLD_QKEY);
	expect_logged(logged(), line);
	CHECK_EQ(ibv_destroy_ah(wr.wr.ud.ah), 0);
	tear_down();
}

/* UC drops what it refuses, so the line is all that tells of a wrong key. */
static void test_lost_write(void)
{
	struct ibv_sge sge;
	char line[128];

	set_up(WORLD_ACCESS);
	world_destroy_pair(a, b, cq_a, cq_b);
	cq_a = world_cq(&w, 64);
	cq_b = world_cq(&w, 64);
	a = world_qp(&w, IBV_QPT_UC, cq_a, NULL);
	b = world_qp(&w, IBV_QPT_UC, cq_b, NULL);
	world_connect(&w, a, b);
	sge = world_sge(&src, 0, 8);
	post(1, IBV_WR_RDMA_WRITE, &sge, dst.mr->rkey ^ 1, (uintptr_t)dst.data);
	world_expect(cq_a, 1, IBV_WC_SUCCESS);
	world_recv(b, 2, world_sge(&dst, 0, 8));
	world_send(a, 1, sge);
	world_expect(cq_b, 2, IBV_WC_SUCCESS);
	snprintf(line, sizeof(line),
		 "; rkey 0x%x, address 0x%llx, length 8: the rkey names nothing;",
		 dst.mr->rkey ^ 1, (unsigned long long)(uintptr_t)dst.data);
	expect_logged(logged(), line);
	tear_down();
}

/* What is published of a QP of this host that does not answer. */
static void expect_peer(uint32_t qpn, const char *what)
{
	char line[128];

	snprintf(line, sizeof(line), "; QP 0x%x %s (process %d)\n", qpn, what, (int)getpid());
	if (is_local())
		expect_logged(logged(), line);
	else
		CHECK(!strstr(logged(), "; QP 0x"));
}

/* a is connected to b, and b as the row says. */
static void expect_silence(enum ibv_qp_state state, bool connected_to_itself, uint32_t psn_off,
			   unsigned int reason)
{
	struct ibv_qp_attr attr;
	struct ibv_wc wc;
	char what[64];
	int mask;

	set_up(WORLD_ACCESS);
	world_move(&w, b, IBV_QPS_RESET, 0);
	world_move(&w, b, IBV_QPS_INIT, 0);
	if (state == IBV_QPS_RTR) {
		mask = world_attr(&w, IBV_QPT_RC, IBV_QPS_RTR,
				  connected_to_itself ? b->qp_num : a->qp_num, &attr);
		attr.rq_psn += psn_off;
		CHECK_EQ(ibv_modify_qp(b, &attr, mask), 0);
	}
	world_send(a, 1, world_sge(&src, 0, 8));
	wc = world_expect(cq_a, 1, IBV_WC_RETRY_EXC_ERR);
	CHECK(wc.vendor_err == reason || (!psn_off && wc.vendor_err == 312));
	snprintf(what, sizeof(what), "is connected to QP 0x%x", b->qp_num);
	if (reason == 313)
		expect_logged(logged(), "its rq_psn is not this side's sq_psn");
	else
		expect_peer(b->qp_num, connected_to_itself ? what : "is in INIT");
	expect_logged(logged(), "; timeout is 14, retry_cnt 7; ");
	tear_down();
}

static void test_wrong_numbers(void)
{
	expect_silence(IBV_QPS_INIT, false, 0, 304);
	expect_silence(IBV_QPS_RTR, true, 0, 304);
	expect_silence(IBV_QPS_RTR, false, 77, 313);
	expect_silence(IBV_QPS_RTR, false, -77, 313);
}

/* Connected to itself, with other PSNs, and to a QP of another type. */
static void test_wrong_peer(void)
{
	struct ibv_cq *cq = world_cq(&w, 4);
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, NULL),
		      *uc = world_qp(&w, IBV_QPT_UC, cq, NULL);
	struct ibv_send_wr wr = { .wr_id = 5, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_qp_attr attr;
	int mask;

	world_move(&w, qp, IBV_QPS_INIT, 0);
	mask = world_attr(&w, IBV_QPT_RC, IBV_QPS_RTR, qp->qp_num, &attr);
	attr.rq_psn += 77;
	CHECK_EQ(ibv_modify_qp(qp, &attr, mask), 0);
	world_move(&w, qp, IBV_QPS_RTS, qp->qp_num);
	CHECK_EQ(truncate(log_path, 0), 0);
	CHECK_EQ(ibv_post_send(qp, &wr, &bad), 0);
	world_expect(cq, 5, IBV_WC_RETRY_EXC_ERR);
	expect_logged(logged(), "; the QP is connected to itself\n");

	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTR; s++)
		world_move(&w, uc, s, qp->qp_num);
	for (enum ibv_qp_state s = IBV_QPS_RESET; s <= IBV_QPS_RTS; s++)
		world_move(&w, qp, s, uc->qp_num);
	CHECK_EQ(truncate(log_path, 0), 0);
	CHECK_EQ(ibv_post_send(qp, &wr, &bad), 0);
	world_expect(cq, 5, IBV_WC_RETRY_EXC_ERR);
	expect_peer(uc->qp_num, "is of type UC");
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_qp(uc), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
}

/* The peer is not there: what could have reached it. */
static void test_nobody(void)
{
	bool local = is_local();
	struct ibv_send_wr wr = { .wr_id = 5, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_cq *cq = world_cq(&w, 4);
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, NULL),
		      *gone = world_qp(&w, IBV_QPT_RC, cq, NULL);
	uint32_t number = gone->qp_num;
	struct ibv_wc wc;

	CHECK_EQ(ibv_destroy_qp(gone), 0);
	CHECK_EQ(truncate(log_path, 0), 0);
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++)
		world_move(&w, qp, s, number);
	CHECK_EQ(ibv_post_send(qp, &wr, &bad), 0);
	wc = world_expect(cq, 5, IBV_WC_RETRY_EXC_ERR);
	CHECK_EQ(wc.vendor_err, local ? 312 : 304);
	expect_logged(logged(), local ? "this process has no UDP transport" : "no acknowledgement");
	expect_peer(number, "does not exist, or has not left RESET");
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
}

int main(void)
{
	int fd = mkstemp(log_path);

	CHECK(fd >= 0);
	close(fd);
	setenv("VERBENA_LOG_FILE", log_path, 1);
	setenv("VERBENA_LOG", "warn", 1);
	world_open(&w);
	test_missing_right();
	test_range();
	test_refused_by_qp();
	test_wrong_keys();
	test_likely_keys();
	test_small_receive();
	test_no_line_without_failure();
	test_other_mtu();
	test_smaller_mtu();
	test_long_wait();
	test_refused_modification();
	test_refused_request();
	test_refused_at_execution();
	test_refused_in_state();
	test_full_of_writes();
	test_full_queue();
	test_overrun();
	test_lost_write();
	test_lost_datagrams();
	test_wrong_numbers();
	test_wrong_peer();
	test_nobody();
	world_close(&w);
	unlink(log_path);
	return 0;
}
