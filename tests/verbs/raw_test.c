/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw packet QPs on the virtual segment, which an ordinary user gets on the loopback device: frames
 * arrive as sent, scattered over buffers; errors are reported and have no side effects.
 */
#include <dirent.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "left_out.h"
#include "raw_bench.h"

static void test_capabilities(void)
{
	struct ibv_device_attr_ex attr;
	struct world w;

	world_open(&w);
	CHECK_EQ(ibv_query_device_ex(w.ctx, NULL, &attr), 0);
	CHECK_EQ(attr.raw_packet_caps,
		 IBV_RAW_PACKET_CAP_CVLAN_STRIPPING | IBV_RAW_PACKET_CAP_IP_CSUM);
	CHECK(attr.orig_attr.device_cap_flags & IBV_DEVICE_RAW_IP_CSUM);
	CHECK(attr.device_cap_flags_ex & IBV_DEVICE_RAW_IP_CSUM);
	CHECK(ibv_is_qpt_supported(attr.tso_caps.supported_qpts, IBV_QPT_RAW_PACKET));
	CHECK_EQ(IBV_QPT_RAW_ETH, IBV_QPT_RAW_PACKET);
	world_close(&w);
}

/*
 * Frames of every size: headers arrive in one buffer, the payload in another, and nothing is
 * written beyond either.
 */
static void test_split(void)
{
	static const uint32_t sizes[] = { ETH, ETH + 1, 60, 61, 1000, 1514, 4096, 65550 };
	struct bench b;

	open_bench(&b, 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint32_t n = sizes[i], head = n < 42 ? n : 42;
		struct ibv_sge to[] = { world_sge(&b.in, 0, 42), world_sge(&b.in, 100, 0),
					world_sge(&b.in, 1024, 70000) };
		struct ibv_sge from[] = { world_sge(&b.out, 0, 10), world_sge(&b.out, 10, n - 10) };
		struct ibv_wc wc;

		memset(b.in.data, CANARY, b.in.len);
		ethernet(b.out.data, 0x88b5);
		receive_into(b.qp, i, to, 3);
		post(b.qp, i, from, 2, 0);
		wc = both(b.cq);
		CHECK_EQ(wc.wr_id, i);
		CHECK_EQ(wc.byte_len, n);
		CHECK_EQ(wc.qp_num, b.qp->qp_num);
		CHECK_EQ(wc.wc_flags, 0);
		CHECK_MEM(b.in.data, b.out.data, head);
		CHECK_MEM(b.in.data + 1024, b.out.data + head, n - head);
		CHECK_EQ(b.in.data[42], CANARY);
		CHECK_EQ(b.in.data[1023], CANARY);
		CHECK_EQ(b.in.data[1024 + n - head], CANARY);
	}
	close_bench(&b);
}

static void test_inline(void)
{
	struct ibv_sge to, from[2];
	struct bench b;

	open_bench(&b, 0);
	to = world_sge(&b.in, 0, 2000);
	ethernet(b.out.data, 0x88b5);
	from[0] = (struct ibv_sge){ (uintptr_t)b.out.data, 100, 0 };
	from[1] = (struct ibv_sge){ (uintptr_t)b.out.data + 100, 50, 0 };
	receive_into(b.qp, 1, &to, 1);
	post(b.qp, 2, from, 2, IBV_SEND_INLINE);
	memset(b.out.data, 0, 6);	/* the post has copied it */
	CHECK_EQ(both(b.cq).byte_len, 150);
	CHECK_MEM(b.in.data + 6, b.out.data + 6, 144);
	close_bench(&b);
}

/*
 * Many frames posted at once arrive in order; a burst larger than the queues is sent as room
 * becomes free.
 */
static void test_order(void)
{
	enum { FRAMES = 500 };
	struct ibv_wc wc[WR];
	uint32_t sent = 0, done = 0, posted = 0, got = 0;
	struct bench b;

	open_bench(&b, 0);
	ethernet(b.out.data, 0x88b5);
	while (got < FRAMES) {
		int n;

		for (; posted < FRAMES && posted - got < WR; posted++) {
			struct ibv_sge to = world_sge(&b.in, posted % WR * 128, 128);

			receive_into(b.qp, posted, &to, 1);
		}
		for (; sent < posted && sent - done < WR; sent++) {
			uint32_t *number = (uint32_t *)(b.out.data + 128 * (sent % WR) + 60);
			struct ibv_sge from = world_sge(&b.out, 128 * (sent % WR), 100);

			ethernet(b.out.data + 128 * (sent % WR), 0x88b5);
			*number = sent;
			post(b.qp, sent, &from, 1, 0);
		}
		n = ibv_poll_cq(b.cq, WR, wc);
		CHECK(n >= 0);
		for (int i = 0; i < n; i++) {
			CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
			if (wc[i].opcode == IBV_WC_SEND) {
				CHECK_EQ(wc[i].wr_id, done++);
				continue;
			}
			CHECK_EQ(wc[i].wr_id, got);
			CHECK_EQ(*(uint32_t *)(b.in.data + got % WR * 128 + 60), got);
			got++;
		}
	}
	while (done < FRAMES) {
		world_poll(b.cq, wc, 1);
		CHECK_EQ(wc[0].wr_id, done++);
	}
	close_bench(&b);
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

/* The request fails in execution, the QP enters SQE, and can leave it again. */
static void fails(struct bench *b, struct ibv_sge *sge, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	post(b->qp, 77, sge, 1, 0);
	wc = world_expect(b->cq, 77, status);
	CHECK(wc.vendor_err != 0);
	CHECK_EQ(state_of(b->qp), IBV_QPS_SQE);
	CHECK_EQ(move(b->qp, IBV_QPS_RTS), 0);
}

static void send_one(struct bench *b)
{
	struct ibv_sge from = world_sge(&b->out, 0, 100), to = world_sge(&b->in, 0, 100);

	ethernet(b->out.data, 0x88b5);
	receive_into(b->qp, 1, &to, 1);
	post(b->qp, 1, &from, 1, 0);
	CHECK_EQ(both(b->cq).byte_len, 100);
}

/* Memory that the program has taken away. Short frames are copied, long ones sent in place. */
static void fails_unmapped(struct bench *b)
{
	static const uint32_t sizes[] = { 100, 4096 };
	struct buffer gone = { .len = 8192 };

	gone.data = mmap(NULL, gone.len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);
	CHECK(gone.data != MAP_FAILED);
	gone.mr = ibv_reg_mr(b->w.pd, gone.data, gone.len, IBV_ACCESS_LOCAL_WRITE);
	CHECK(gone.mr);
	CHECK_EQ(mprotect(gone.data, gone.len, PROT_NONE), 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct ibv_sge sge = world_sge(&gone, 0, sizes[i]);

		fails(b, &sge, IBV_WC_LOC_PROT_ERR);
	}
	CHECK_EQ(ibv_dereg_mr(gone.mr), 0);
	munmap(gone.data, gone.len);
}

static void test_bad_sends(void)
{
	struct ibv_sge short_one, long_one, no_key, outside;
	struct bench b;

	open_bench(&b, 0);
	short_one = world_sge(&b.out, 0, ETH - 1);
	fails(&b, &short_one, IBV_WC_LOC_LEN_ERR);
	short_one.length = 0;
	fails(&b, &short_one, IBV_WC_LOC_LEN_ERR);
	long_one = world_sge(&b.out, 0, 65536 + ETH + TAG + 1);
	fails(&b, &long_one, IBV_WC_LOC_LEN_ERR);
	no_key = world_sge(&b.out, 0, 100);
	no_key.lkey ^= 0x1000;
	fails(&b, &no_key, IBV_WC_LOC_PROT_ERR);
	outside = world_sge(&b.out, b.out.len - 10, 2000);
	fails(&b, &outside, IBV_WC_LOC_PROT_ERR);
	fails_unmapped(&b);
	/* and the QP works again */
	send_one(&b);
	close_bench(&b);
}

/*
 * Nothing is written of a frame that does not fit; the QP enters ERR, and the other receives are
 * flushed.
 */
static void test_small_buffer(void)
{
	struct ibv_sge to, more, from;
	struct bench b;

	open_bench(&b, 0);
	ethernet(b.out.data, 0x88b5);
	to = world_sge(&b.in, 0, 99);
	more = world_sge(&b.in, 1000, 500);
	from = world_sge(&b.out, 0, 100);
	receive_into(b.qp, 1, &to, 1);
	receive_into(b.qp, 2, &more, 1);
	post(b.qp, 3, &from, 1, 0);
	world_expect(b.cq, 3, IBV_WC_SUCCESS);
	world_expect(b.cq, 1, IBV_WC_LOC_LEN_ERR);
	world_expect(b.cq, 2, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(state_of(b.qp), IBV_QPS_ERR);
	for (size_t i = 0; i < 2000; i++)
		CHECK_EQ(b.in.data[i], CANARY);
	close_bench(&b);
}

/* A receive with an invalid lkey: its memory must not be written. */
static void test_bad_receive(void)
{
	struct ibv_sge to, from;
	struct bench b;

	open_bench(&b, 0);
	ethernet(b.out.data, 0x88b5);
	to = world_sge(&b.in, 0, 200);
	to.lkey ^= 0x1000;
	from = world_sge(&b.out, 0, 100);
	receive_into(b.qp, 1, &to, 1);
	post(b.qp, 3, &from, 1, 0);
	world_expect(b.cq, 3, IBV_WC_SUCCESS);
	world_expect(b.cq, 1, IBV_WC_LOC_PROT_ERR);
	CHECK_EQ(b.in.data[0], CANARY);
	close_bench(&b);
}

/*
 * A second QP with the same rule, created later, so it gets each frame after the first QP has
 * handled it. Its completion proves that the first QP has received or dropped the frame.
 */
struct second_qp {
	struct ibv_qp *qp;
	struct ibv_flow *rule;
};

static struct second_qp second_qp_open(struct bench *b)
{
	struct second_qp w = { .qp = new_qp(b, NULL, 0) };

	to_rts(w.qp);
	w.rule = steer(w.qp, there);
	return w;
}

static void second_qp_close(struct second_qp *w)
{
	CHECK_EQ(ibv_destroy_flow(w->rule), 0);
	CHECK_EQ(ibv_destroy_qp(w->qp), 0);
}

/* The second QP sends a frame of this length, which goes to itself and to all other receivers. */
static void send_to_both(struct bench *b, struct second_qp *w, uint32_t len)
{
	struct ibv_sge to = world_sge(&b->in, 4096, 4096), from = world_sge(&b->out, 0, len);
	struct ibv_wc wc;

	receive_into(w->qp, 100, &to, 1);
	post(w->qp, 101, &from, 1, 0);
	wc = both(b->cq);
	CHECK_EQ(wc.wr_id, 100);
	CHECK_EQ(wc.qp_num, w->qp->qp_num);
}

/* A frame that arrives without a receive is dropped; the QP keeps working. */
static void test_no_receive(void)
{
	struct ibv_sge to, from;
	struct second_qp w;
	struct bench b;

	open_bench(&b, 0);
	w = second_qp_open(&b);
	ethernet(b.out.data, 0x88b5);
	send_to_both(&b, &w, 100);
	to = world_sge(&b.in, 0, 200);
	from = world_sge(&b.out, 0, 120);
	receive_into(b.qp, 2, &to, 1);
	post(b.qp, 3, &from, 1, 0);
	CHECK_EQ(both(b.cq).byte_len, 120);
	second_qp_close(&w);
	close_bench(&b);
}

static void test_srq(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 8, .max_sge = 2 } };
	struct ibv_recv_wr *bad, wr = { .wr_id = 5, .num_sge = 2 };
	struct ibv_sge to[2], from;
	struct ibv_srq *srq;
	struct ibv_qp *plain;
	struct bench b;

	open_bench(&b, 0);
	srq = ibv_create_srq(b.w.pd, &init);
	CHECK(srq);
	plain = b.qp;
	CHECK_EQ(ibv_destroy_flow(b.rule), 0);
	b.qp = new_qp(&b, srq, 0);
	to_rts(b.qp);
	b.rule = steer(b.qp, there);
	to[0] = world_sge(&b.in, 0, 14);
	to[1] = world_sge(&b.in, 100, 500);
	wr.sg_list = to;
	CHECK_EQ(ibv_post_recv(b.qp, &wr, &bad), EINVAL);
	CHECK_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
	ethernet(b.out.data, 0x88b5);
	from = world_sge(&b.out, 0, 200);
	post(plain, 6, &from, 1, 0);	/* one QP sends, the other receives */
	CHECK_EQ(both(b.cq).qp_num, b.qp->qp_num);
	CHECK_MEM(b.in.data + 100, b.out.data + 14, 186);
	CHECK_EQ(move(b.qp, IBV_QPS_ERR), 0);
	world_event(&b.w, IBV_EVENT_QP_LAST_WQE_REACHED);
	CHECK_EQ(ibv_destroy_flow(b.rule), 0);
	CHECK_EQ(ibv_destroy_qp(b.qp), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	b.qp = plain;
	b.rule = steer(b.qp, there);
	close_bench(&b);
}

/* What each state allows, a drained send queue, flushing in ERR, and a new start from RESET. */
static void test_states(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct ibv_send_wr *bad, wr = { .wr_id = 1, .num_sge = 1, .opcode = IBV_WR_SEND,
					.send_flags = IBV_SEND_SIGNALED };
	struct ibv_sge to, from;
	struct second_qp w;
	struct ibv_qp *qp;
	struct ibv_wc wc;
	struct bench b;

	open_bench(&b, 0);
	qp = b.qp;
	w = second_qp_open(&b);
	ethernet(b.out.data, 0x88b5);
	from = world_sge(&b.out, 0, 100);
	to = world_sge(&b.in, 0, 200);
	wr.sg_list = &from;
	CHECK_EQ(move(qp, IBV_QPS_RESET), 0);
	CHECK_EQ(move(qp, IBV_QPS_RTR), EINVAL);
	CHECK_EQ(move(qp, IBV_QPS_INIT), 0);
	receive_into(qp, 10, &to, 1);
	CHECK_EQ(ibv_post_send(qp, &wr, &bad), EINVAL);
	/* INIT and RTR receive, as on mlx5, but do not send. */
	post(w.qp, 2, &from, 1, 0);
	CHECK_EQ(both(b.cq).wr_id, 10);
	receive_into(qp, 10, &to, 1);
	CHECK_EQ(move(qp, IBV_QPS_RTR), 0);
	CHECK_EQ(ibv_post_send(qp, &wr, &bad), EINVAL);
	post(w.qp, 2, &from, 1, 0);
	wc = both(b.cq);
	CHECK_EQ(wc.wr_id, 10);
	CHECK_EQ(wc.byte_len, 100);
	CHECK_EQ(move(qp, IBV_QPS_RTS), 0);
	/* SQD keeps posted sends, and still receives. */
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	world_event(&b.w, IBV_EVENT_SQ_DRAINED);
	post(qp, 3, &from, 1, 0);
	receive_into(qp, 11, &to, 1);
	post(w.qp, 4, &from, 1, 0);
	CHECK_EQ(both(b.cq).wr_id, 11);
	receive_into(qp, 12, &to, 1);
	CHECK_EQ(move(qp, IBV_QPS_RTS), 0);
	CHECK_EQ(both(b.cq).wr_id, 12);
	/* ERR flushes. */
	receive_into(qp, 13, &to, 1);
	CHECK_EQ(move(qp, IBV_QPS_ERR), 0);
	world_expect(b.cq, 13, IBV_WC_WR_FLUSH_ERR);
	post(qp, 5, &from, 1, 0);
	world_expect(b.cq, 5, IBV_WC_WR_FLUSH_ERR);
	receive_into(qp, 14, &to, 1);
	world_expect(b.cq, 14, IBV_WC_WR_FLUSH_ERR);
	/* Start again from RESET. */
	CHECK_EQ(move(qp, IBV_QPS_RESET), 0);
	to_rts(qp);
	receive_into(qp, 15, &to, 1);
	post(qp, 6, &from, 1, 0);
	CHECK_EQ(both(b.cq).wr_id, 15);
	second_qp_close(&w);
	close_bench(&b);
}

/* Without a flow rule a QP receives nothing, not even its own frames. */
static void test_no_rule(void)
{
	struct ibv_sge to;
	struct second_qp w;
	struct ibv_wc wc;
	struct bench b;

	open_bench(&b, 0);
	CHECK_EQ(ibv_destroy_flow(b.rule), 0);
	ethernet(b.out.data, 0x88b5);
	to = world_sge(&b.in, 0, 200);
	receive_into(b.qp, 1, &to, 1);
	w = second_qp_open(&b);
	send_to_both(&b, &w, 100);
	CHECK_EQ(ibv_poll_cq(b.cq, 1, &wc), 0);
	second_qp_close(&w);
	b.rule = steer(b.qp, there);
	close_bench(&b);
}

/* The program sleeps; the progress thread does the work. */
static void test_events(void)
{
	struct ibv_comp_channel *channel;
	struct ibv_sge to, from;
	struct ibv_cq *cq;
	struct bench b;
	struct ibv_wc wc;
	void *context;

	world_open(&b.w);
	channel = ibv_create_comp_channel(b.w.ctx);
	CHECK(channel);
	b.cq = ibv_create_cq(b.w.ctx, 16, NULL, channel, 0);
	CHECK(b.cq);
	b.qp = new_qp(&b, NULL, 0);
	to_rts(b.qp);
	b.rule = steer(b.qp, there);
	b.out = world_buffer(&b.w, 4096, WORLD_ACCESS);
	b.in = world_buffer(&b.w, 4096, WORLD_ACCESS);
	ethernet(b.out.data, 0x88b5);
	to = world_sge(&b.in, 0, 200);
	from = world_sge(&b.out, 0, 100);
	receive_into(b.qp, 1, &to, 1);
	post(b.qp, 2, &from, 1, 0);
	world_expect(b.cq, 2, IBV_WC_SUCCESS);
	if (ibv_poll_cq(b.cq, 1, &wc) == 0) {
		CHECK_EQ(ibv_req_notify_cq(b.cq, 0), 0);
		if (ibv_poll_cq(b.cq, 1, &wc) == 0) {
			CHECK_EQ(ibv_get_cq_event(channel, &cq, &context), 0);
			CHECK(cq == b.cq);
			ibv_ack_cq_events(cq, 1);
			world_poll(b.cq, &wc, 1);
		}
	}
	CHECK_EQ(wc.wr_id, 1);
	receive_into(b.qp, 3, &to, 1);
	CHECK_EQ(ibv_req_notify_cq(b.cq, 0), 0);
	post(b.qp, 4, &from, 1, 0);
	CHECK_EQ(ibv_get_cq_event(channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	CHECK_EQ(ibv_destroy_flow(b.rule), 0);
	CHECK_EQ(ibv_destroy_qp(b.qp), 0);
	CHECK_EQ(ibv_destroy_cq(b.cq), 0);
	CHECK_EQ(ibv_destroy_comp_channel(channel), 0);
	world_free(&b.out);
	world_free(&b.in);
	world_close(&b.w);
}

#ifndef __SANITIZE_THREAD__
/* Wake-ups of the other threads so far. */
static unsigned long wakeups(void)
{
	unsigned long n, sum = 0;
	char path[64], line[256];
	struct dirent *e;
	DIR *tasks = opendir("/proc/self/task");

	CHECK(tasks);
	while ((e = readdir(tasks))) {
		FILE *status;

		if (e->d_name[0] == '.' || atoi(e->d_name) == getpid())
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%.16s/status", e->d_name);
		status = fopen(path, "r");
		while (status && fgets(line, sizeof(line), status))
			if (sscanf(line, "voluntary_ctxt_switches: %lu", &n) == 1)
				sum += n;
		if (status)
			fclose(status);
	}
	closedir(tasks);
	return sum;
}

/* An interface that was down, and with it the sockets, leaves an idle process idle. */
static void test_down(void)
{
	enum { WINDOW_US = 100000, WINDOWS = 100 };
	unsigned int i;
	struct bench b;

	open_bench(&b, 0);
	CHECK_EQ(system("ip link set lo down && ip link set lo up"), 0);
	for (i = 0; i < WINDOWS; i++) {
		unsigned long before = wakeups();

		usleep(WINDOW_US);
		if (wakeups() == before)
			break;
	}
	CHECK(i < WINDOWS);
	/* and the QP works again */
	send_one(&b);
	close_bench(&b);
}
#endif

int main(void)
{
	setenv("VERBENA_RAW", "virtual", 0);
	test_capabilities();
	test_split();
	test_inline();
	test_order();
	test_bad_sends();
	test_small_buffer();
	test_bad_receive();
	test_no_receive();
	test_srq();
	test_states();
	test_no_rule();
	test_events();
	if (!strcmp(getenv("VERBENA_RAW"), "packet"))	/* in a network namespace of its own */
#ifdef __SANITIZE_THREAD__
		left_out(1, "ThreadSanitizer's own thread wakes up all the time");
#else
		test_down();
#endif
	return 0;
}
