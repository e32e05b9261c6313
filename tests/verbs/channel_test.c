/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion channels: when an event is raised, and how a program gets and acknowledges it with
 * blocking and nonblocking descriptors.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "left_out.h"
#include "world.h"

static struct world w;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *a, *b;
static struct buffer buf;

static bool readable(void)
{
	struct pollfd p = { .fd = channel->fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static struct ibv_cq *get_event(void)
{
	struct ibv_cq *from;
	void *context;

	CHECK_EQ(ibv_get_cq_event(channel, &from, &context), 0);
	CHECK(context == from->cq_context);
	return from;
}

static void set_up(void)
{
	channel = ibv_create_comp_channel(w.ctx);
	CHECK(channel && channel->fd >= 0);
	cq = ibv_create_cq(w.ctx, 64, &w, channel, 0);
	CHECK(cq);
	a = world_qp(&w, IBV_QPT_RC, cq, NULL);
	b = world_qp(&w, IBV_QPT_RC, cq, NULL);
	world_connect(&w, a, b);
	buf = world_buffer(&w, 4096, WORLD_ACCESS);
}

static void tear_down(void)
{
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_EQ(ibv_destroy_comp_channel(channel), 0);
	world_free(&buf);
}

/* A WRITE by a produces one completion on cq. */
static void complete_one(void)
{
	struct ibv_sge sge = world_sge(&buf, 0, 8);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 1, &sge, &buf, 64);

	world_post(a, &wr);
	world_expect(cq, 1, IBV_WC_SUCCESS);
}

static void test_not_armed(void)
{
	complete_one();
	CHECK(!readable());
}

static void test_armed_once(void)
{
	uint32_t before = cq->comp_events_completed;

	CHECK_EQ(ibv_req_notify_cq(cq, 0), 0);
	CHECK(!readable());
	complete_one();
	CHECK(readable());
	complete_one();
	CHECK(get_event() == cq);
	CHECK(!readable());	/* one event each time the CQ is armed */
	CHECK_EQ(cq->comp_events_completed, before);
	ibv_ack_cq_events(cq, 1);
	CHECK_EQ(cq->comp_events_completed, before + 1);	/* read by UCX's tests */
}

static void await_event(void)
{
	struct pollfd p = { .fd = channel->fd, .events = POLLIN };

	CHECK_EQ(poll(&p, 1, WORLD_LIMIT_S * 1000), 1);
	get_event();
	ibv_ack_cq_events(cq, 1);
}

/*
 * A completion that comes between an event and the next arming raises an event, but if it was
 * polled.
 */
static void test_armed_late(void)
{
	struct ibv_sge sge = world_sge(&buf, 0, 8);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 1, &sge, &buf, 64);
	struct ibv_wc wc;

	world_post(a, &wr);
	CHECK(!readable());
	CHECK_EQ(ibv_req_notify_cq(cq, 0), 0);
	await_event();
	world_poll(cq, &wc, 1);
	world_post(a, &wr);
	world_poll(cq, &wc, 1);
	CHECK_EQ(ibv_req_notify_cq(cq, 0), 0);
	CHECK(!readable());
	world_post(a, &wr);
	await_event();
	world_poll(cq, &wc, 1);
}

/* The entries of a destroyed QP do not count: a completion after them was not announced. */
static void test_armed_after_destruction(void)
{
	struct ibv_qp *qp;

	CHECK_EQ(ibv_req_notify_cq(cq, 0), 0);
	qp = world_flushed(&w, cq, 3);
	await_event();
	CHECK_EQ(ibv_req_notify_cq(cq, 0), 0);
	await_event();
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	qp = world_flushed(&w, cq, 3);
	CHECK(!readable());
	CHECK_EQ(ibv_req_notify_cq(cq, 0), 0);
	await_event();
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

/*
 * A completion that an event has announced raises no other at once (unit cq); one that comes after
 * the CQ was armed does.
 */
static void test_armed_after_completion(void)
{
	struct ibv_sge sge = world_sge(&buf, 0, 8);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 1, &sge, &buf, 64);
	struct ibv_wc wc[2];

	CHECK_EQ(ibv_req_notify_cq(cq, 0), 0);
	world_post(a, &wr);
	/* the progress thread completes it */
	await_event();
	CHECK_EQ(ibv_req_notify_cq(cq, 0), 0);
	world_post(a, &wr);
	await_event();
	world_poll(cq, wc, 2);
}

/* Nothing is left and the CQ is not armed, whatever was. */
static void take_last_request(void)
{
	complete_one();
	while (readable()) {
		get_event();
		ibv_ack_cq_events(cq, 1);
	}
}

/* A program that polls once for each event, and sleeps with completions left, gets them all. */
static void test_sleeps_with_completions(void)
{
	struct ibv_sge sge = world_sge(&buf, 0, 8);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 1, &sge, &buf, 64);
	enum { LEFT = 8 };
	struct ibv_wc wc;
	int polled = 0;

	CHECK_EQ(ibv_req_notify_cq(cq, 0), 0);
	for (int i = 0; i < LEFT; i++)
		world_post(a, &wr);
	while (polled < LEFT) {
		CHECK(get_event() == cq);
		ibv_ack_cq_events(cq, 1);
		CHECK_EQ(ibv_req_notify_cq(cq, 0), 0);
		polled += ibv_poll_cq(cq, 1, &wc);
	}
	take_last_request();
}

/*
 * Returns after n completions, of which it polls at most a few for each event, as libevpl does; it
 * sleeps in poll() while the others lie in the armed CQ.
 */
static void poll_few_per_event(int n, enum ibv_wc_status status)
{
	enum { FEW = 3 };
	struct ibv_wc wc;

	while (n > 0) {
		await_event();
		CHECK_EQ(ibv_req_notify_cq(cq, 0), 0);
		for (int i = 0; i < FEW && ibv_poll_cq(cq, 1, &wc) == 1; i++, n--)
			CHECK_EQ(wc.status, status);
	}
	CHECK_EQ(n, 0);
	take_last_request();
}

/* A program that sleeps in poll() with completions left gets events for them, too. */
static void test_sleeps_in_poll_with_completions(void)
{
	enum { LEFT = 14 };
	struct ibv_sge sge = world_sge(&buf, 0, 8);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 1, &sge, &buf, 64);
	int flags = fcntl(channel->fd, F_GETFL);
	struct ibv_qp *qp;

	CHECK_EQ(fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK), 0);
	CHECK_EQ(ibv_req_notify_cq(cq, 0), 0);
	for (int i = 0; i < LEFT; i++)
		world_post(a, &wr);
	poll_few_per_event(LEFT, IBV_WC_SUCCESS);
	/* all come at once */
	CHECK_EQ(ibv_req_notify_cq(cq, 0), 0);
	qp = world_flushed(&w, cq, LEFT);
	poll_few_per_event(LEFT, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(fcntl(channel->fd, F_SETFL, flags), 0);
}

static void send_with(unsigned int flags)
{
	struct ibv_sge sge = world_sge(&buf, 0, 8);
	struct ibv_send_wr wr = { .wr_id = 5, .sg_list = &sge, .num_sge = 1,
				  .opcode = IBV_WR_SEND, .send_flags = flags };

	world_recv(b, 6, world_sge(&buf, 64, 8));
	world_post(a, &wr);
	world_expect(cq, 6, IBV_WC_SUCCESS);
}

static void test_solicited(void)
{
	CHECK_EQ(ibv_req_notify_cq(cq, 1), 0);
	complete_one();
	send_with(0);
	CHECK(!readable());
	send_with(IBV_SEND_SOLICITED);
	CHECK(readable());
	get_event();
	ibv_ack_cq_events(cq, 1);
}

/*
 * A completion in error raises an event even if only solicited ones were requested; here a flushed
 * receive.
 */
static void test_solicited_or_failed(void)
{
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, NULL);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	world_connect(&w, qp, qp);
	world_recv(qp, 7, world_sge(&buf, 0, 8));
	CHECK_EQ(ibv_req_notify_cq(cq, 1), 0);
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	CHECK(readable());
	get_event();
	ibv_ack_cq_events(cq, 1);
	world_expect(cq, 7, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

/*
 * Several events are pending; the descriptor stays readable until the program has got the last one.
 */
static void test_several(void)
{
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(ibv_req_notify_cq(cq, 0), 0);
		complete_one();
	}
	for (int i = 0; i < 3; i++) {
		CHECK(readable());
		get_event();
	}
	CHECK(!readable());
	ibv_ack_cq_events(cq, 3);
}

static void test_nonblocking(void)
{
	int flags = fcntl(channel->fd, F_GETFL);
	struct ibv_cq *from;
	void *context;

	CHECK_EQ(fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK), 0);
	errno = 0;
	CHECK_EQ(ibv_get_cq_event(channel, &from, &context), -1);
	CHECK_EQ(errno, EAGAIN);
	CHECK_EQ(fcntl(channel->fd, F_SETFL, flags), 0);
}

static void *wait_for_event(void *arg)
{
	get_event();
	ibv_ack_cq_events(cq, 1);
	return NULL;
}

static void test_blocking(void)
{
	pthread_t waiter;

	CHECK_EQ(pthread_create(&waiter, NULL, wait_for_event, NULL), 0);
	CHECK_EQ(ibv_req_notify_cq(cq, 0), 0);
	complete_one();
	CHECK_EQ(pthread_join(waiter, NULL), 0);
}

/*
 * Posts a WRITE and waits for its event in an endless loop. The wait must be the only cancellation
 * point; when the event comes soon, the loop polls for it instead.
 */
static void *write_endlessly(void *arg)
{
	struct ibv_sge sge = world_sge(&buf, 0, 8);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 1, &sge, &buf, 64);
	struct ibv_wc wc;
	int *writes = arg, n, old;

	for (;;) {
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
		CHECK_EQ(ibv_req_notify_cq(cq, 0), 0);
		world_post(a, &wr);
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
		get_event();
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
		ibv_ack_cq_events(cq, 1);
		n = ibv_poll_cq(cq, 1, &wc);
		CHECK_EQ(n, 1);
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		__atomic_add_fetch(writes, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* A thread that is cancelled while it waits leaves no lock held. */
static void test_cancelled(void)
{
	struct ibv_wc wc;
	pthread_t writer;
	int writes = 0;

	CHECK_EQ(pthread_create(&writer, NULL, write_endlessly, &writes), 0);
	while (__atomic_load_n(&writes, __ATOMIC_ACQUIRE) < 200)
		sched_yield();
	CHECK_EQ(pthread_cancel(writer), 0);
	CHECK_EQ(pthread_join(writer, NULL), 0);

	/* Its last event may still be pending. */
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
	while (ibv_poll_cq(cq, 1, &wc) > 0)
		;
}

static void *acknowledge(void *arg)
{
	ibv_ack_cq_events(arg, 1);
	return NULL;
}

/* Destruction waits for acknowledgements and drops events that were not fetched. */
static void test_destroy(void)
{
	struct ibv_cq *second = ibv_create_cq(w.ctx, 8, NULL, channel, 0);
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, second, NULL);
	struct ibv_recv_wr wr = { 0 }, *bad;
	pthread_t thread;

	world_move(&w, qp, IBV_QPS_INIT, 0);
	world_move(&w, qp, IBV_QPS_ERR, 0);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(ibv_req_notify_cq(second, 0), 0);
		CHECK_EQ(ibv_post_recv(qp, &wr, &bad), 0);
	}
	CHECK(get_event() == second);
	CHECK(readable());
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(pthread_create(&thread, NULL, acknowledge, second), 0);
	CHECK_EQ(ibv_destroy_cq(second), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK(!readable());
}

/* What another thread sleeps in: does it read this descriptor? Unknown is false, and `hidden`. */
static bool reads(pid_t thread, int fd, bool *hidden)
{
	char path[64], line[128] = "";
	long call;
	int of = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)thread);
	f = fopen(path, "re");
	*hidden = !f || !fgets(line, sizeof(line), f);
	if (f)
		fclose(f);
	return sscanf(line, "%ld %x", &call, (unsigned int *)&of) == 2 && call == SYS_read &&
	       of == fd;
}

struct sleeper {
	struct ibv_comp_channel *on;
	pid_t id;	/* atomic; 0: not started */
};

static void *be_interrupted(void *arg)
{
	struct sleeper *s = arg;
	struct ibv_comp_channel *on = s->on;
	struct ibv_cq *from;
	void *context;

	__atomic_store_n(&s->id, gettid(), __ATOMIC_RELEASE);
	CHECK(ibv_get_cq_event(on, &from, &context) != 0);
	CHECK_EQ(errno, EINTR);
	return NULL;
}

static void do_nothing(int signal)
{
}

/* Some programs destroy everything, and then wake up the thread that waits for events. */
static void test_destroyed_under_a_waiter(void)
{
	struct sigaction on_signal = { .sa_handler = do_nothing };
	struct sleeper s = { .on = ibv_create_comp_channel(w.ctx) };
	bool hidden = false;
	pthread_t thread;

	CHECK(s.on);
#if defined(__SANITIZE_THREAD__)
	left_out(1, "ThreadSanitizer reports a descriptor that is closed while it is read");
	CHECK_EQ(ibv_destroy_comp_channel(s.on), 0);
	return;
#endif
	CHECK_EQ(sigaction(SIGUSR1, &on_signal, NULL), 0);
	CHECK_EQ(pthread_create(&thread, NULL, be_interrupted, &s), 0);
	while (!__atomic_load_n(&s.id, __ATOMIC_ACQUIRE))
		sched_yield();
	while (!reads(s.id, s.on->fd, &hidden) && !hidden)
		sched_yield();
	if (hidden)
		left_out(1, "/proc/self/task/*/syscall cannot be read");
	else
		CHECK_EQ(ibv_destroy_comp_channel(s.on), 0);
	CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	if (hidden)
		CHECK_EQ(ibv_destroy_comp_channel(s.on), 0);
}

int main(void)
{
	world_open(&w);
	set_up();
	test_not_armed();
	test_armed_once();
	test_armed_late();
	test_armed_after_destruction();
	test_armed_after_completion();
	test_sleeps_with_completions();
	test_sleeps_in_poll_with_completions();
	test_solicited();
	test_solicited_or_failed();
	test_several();
	test_nonblocking();
	test_blocking();
	test_destroy();
	test_cancelled();
	test_destroyed_under_a_waiter();
	tear_down();
	world_close(&w);
	return 0;
}
