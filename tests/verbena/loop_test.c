/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The loop: a stream in both directions of the API, its end by count as the document describes it,
 * timeouts, signals, callbacks that misbehave.  Two contexts of one process talk to each other,
 * each in a thread of its own.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <time.h>

#include "pair.h"

enum {
	WRS = 16,	  /* in use on each side */
	MESSAGES = 2000,
	HEADER = 8,	  /* holds the number of the message */
	HEADER_ROW = 64,
	PAYLOAD = 200,
	PAYLOAD_ROW = 256,
	/* packet places of each buffer, more than requests: they move on as the document says */
	SLOTS = 64,
	FOREVER = -1,
};

struct stream {
	struct pair p;
	bool ud;
	atomic_int received; /* and a receive posted again for each, as long as more are wanted */
	int posted, done; /* of the receiver */

	uint8_t header[SLOTS][HEADER_ROW], payload[SLOTS][PAYLOAD_ROW];		  /* sent from */
	/* received into */
	uint8_t grh[SLOTS][GRH], in_header[SLOTS][HEADER_ROW], in_payload[SLOTS][PAYLOAD_ROW];
	struct verbena_send_wrs sends;
	struct verbena_recv_wrs recvs;
	int slot_of[WRS]; /* of each receive */
};

static void fill(struct stream *s, int slot, uint64_t number)
{
	memcpy(s->header[slot], &number, sizeof(number));
	memset(s->payload[slot], (int)number, PAYLOAD);
}

/* A message in its slot; the padding must be as it was. */
static void check_message(struct stream *s, int slot, uint64_t number)
{
	uint64_t got;

	memcpy(&got, s->in_header[slot], sizeof(got));
	CHECK_EQ(got, number);
	for (int i = 0; i < PAYLOAD; i++)
		CHECK_EQ(s->in_payload[slot][i], (uint8_t)number);
	for (int i = HEADER; i < HEADER_ROW; i++)
		CHECK_EQ(s->in_header[slot][i], 0xee);
	for (int i = PAYLOAD; i < PAYLOAD_ROW; i++)
		CHECK_EQ(s->in_payload[slot][i], 0xee);
}

/* The next free place for a request that is posted again. */
static void move_on(struct stream *s, struct ibv_recv_wr *wr)
{
	int slot = s->posted++ % SLOTS;

	s->slot_of[wr->wr_id] = slot;
	memset(s->in_header[slot], 0xee, HEADER_ROW);
	memset(s->in_payload[slot], 0xee, PAYLOAD_ROW);
	if (s->ud)
		wr->sg_list[0].addr = (uintptr_t)s->grh[slot];
	wr->sg_list[s->ud].addr = (uintptr_t)s->in_header[slot];
	wr->sg_list[s->ud + 1].addr = (uintptr_t)s->in_payload[slot];
}

/* Exactly MESSAGES are received: as the number posted comes near, fewer are posted again. */
static int on_received(struct ibv_wc *wcs, int num_wc, struct ibv_recv_wr *wrs, void *arg)
{
	struct stream *s = arg;
	int again = 0;

	/* What the last call answered has been posted by now. */
	atomic_store(&s->received, s->done);
	for (int i = 0; i < num_wc; i++, s->done++) {
		CHECK_EQ(wcs[i].status, IBV_WC_SUCCESS);
		CHECK_EQ(wcs[i].byte_len, HEADER + PAYLOAD + (s->ud ? GRH : 0));
		check_message(s, s->slot_of[wcs[i].wr_id], (uint64_t)s->done);
		if (s->posted == MESSAGES)
			continue;
		move_on(s, &wrs[wcs[i].wr_id]);
		again++;
	}
	if (s->done < MESSAGES)
		return again;
	atomic_store(&s->received, s->done);
	return -1;
}

struct sender {
	struct stream *s;
	int posted, done;
};

static int on_sent(struct ibv_wc *wcs, int num_wc, struct ibv_send_wr *wrs, void *arg)
{
	struct sender *me = arg;
	struct stream *s = me->s;
	int again = 0;

	for (int i = 0; i < num_wc; i++, me->done++) {
		CHECK_EQ(wcs[i].status, IBV_WC_SUCCESS);
		if (me->posted == MESSAGES)
			continue;
		/* Datagrams that find no receive are lost. */
		while (me->posted - atomic_load(&s->received) >= WRS)
			sched_yield();
		fill(s, (int)wcs[i].wr_id, (uint64_t)me->posted++);
		again++;
	}
	(void)wrs;
	return me->done == MESSAGES ? -1 : again;
}

static void *send_all(void *arg)
{
	struct sender *me = arg;

	OK(verbena_repost_loop(on_sent, me->s->p.a, me->s->sends.wrs, 4, FOREVER, me) == 0);
	return NULL;
}

#define BUF(memory, row_bytes, bytes)                                                              \
	{                                                                                          \
		.addr = (memory), .row = (row_bytes), .num_pkt = SLOTS,                            \
		.npad = (row_bytes) - (bytes),                                                     \
	}

static void stream_open(struct stream *s, const struct verbena_context_options *opt)
{
	struct verbena_buf out[2] = {
		BUF(s->header, HEADER_ROW, HEADER),
		BUF(s->payload, PAYLOAD_ROW, PAYLOAD),
	}, in[3] = {
		BUF(s->grh, GRH, GRH),
		BUF(s->in_header, HEADER_ROW, HEADER),
		BUF(s->in_payload, PAYLOAD_ROW, PAYLOAD),
	};

	memset(s, 0, sizeof(*s));
	memset(s->in_header, 0xee, sizeof(s->in_header));
	memset(s->in_payload, 0xee, sizeof(s->in_payload));
	s->ud = opt->qp_type == IBV_QPT_UD;
	s->p = pair_create(opt);
	OK(verbena_create_send_wrs(s->p.a, out, 2, WRS, 0, &s->sends) == 0);
	OK(verbena_create_recv_wrs(s->p.b, s->ud ? in : in + 1, s->ud ? 3 : 2, WRS, VERBENA_POST,
				   &s->recvs) == 0);
	for (int i = 0; i < WRS; i++)
		s->slot_of[i] = i;
	s->posted = WRS;
}

static void stream_close(struct stream *s)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	CHECK_EQ(ibv_modify_qp(s->p.a->qp, &attr, IBV_QP_STATE), 0);
	CHECK_EQ(ibv_modify_qp(s->p.b->qp, &attr, IBV_QP_STATE), 0);
	OK(verbena_destroy_send_wrs(&s->sends) == 0);
	OK(verbena_destroy_recv_wrs(&s->recvs) == 0);
	pair_destroy(&s->p);
}

static struct verbena_context_options loop_options(enum ibv_qp_type type)
{
	struct verbena_context_options opt = options_of(type);

	opt.max_send_wr = opt.max_recv_wr = WRS;
	opt.max_send_sge = 2;
	opt.max_recv_sge = 3;
	return opt;
}

/* Sends the first n messages, one list. */
static void send_first(struct stream *s, int n)
{
	for (int i = 0; i < n; i++)
		fill(s, i, (uint64_t)i);
	s->sends.wrs[n - 1].next = NULL;
	OK(verbena_post_wrs(s->p.a, s->sends.wrs, true) == 0);
}

static void test_stream(enum ibv_qp_type type, bool notify)
{
	static struct stream s;
	struct verbena_context_options opt = loop_options(type);
	struct sender me = { .s = &s, .posted = 4 };
	pthread_t thread;

	opt.req_notify_send = opt.req_notify_recv = notify;
	stream_open(&s, &opt);
	send_first(&s, 4);
	CHECK_EQ(pthread_create(&thread, NULL, send_all, &me), 0);
	OK(verbena_repost_loop(on_received, s.p.b, s.recvs.wrs, WRS, 20, &s) == 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(s.done, MESSAGES);
	CHECK_EQ(me.done, MESSAGES);
	stream_close(&s);
}

/* ---- Timeouts ---- */

struct script {
	int to_batch;	/* the answer to the first completions; then -1 */
	int to_timeout; /* the answer to each of the first `num_answers` timeouts; then -1 */
	int num_answers;
	uint64_t wr_id; /* put into the first completion, unless 0 */

	int batches, timeouts, completions;
};

static int scripted(struct ibv_wc *wcs, int num_wc, struct ibv_recv_wr *wrs, void *arg)
{
	struct script *c = arg;

	(void)wrs;
	c->completions += num_wc;
	if (!num_wc)
		return c->timeouts++ < c->num_answers && !c->batches ? c->to_timeout : -1;
	if (c->wr_id)
		wcs[0].wr_id = c->wr_id;
	return c->batches++ ? -1 : c->to_batch;
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/*
 * Nothing comes: called with 0 again and again, until it says so.  A positive answer then posts
 * nothing.
 */
static void test_timeouts(enum ibv_qp_type type)
{
	static struct stream s;
	struct verbena_context_options opt = loop_options(type);

	for (int notify = 0; notify < 2; notify++) {
		opt.req_notify_recv = notify;
		stream_open(&s, &opt);
		for (int timeout = 0; timeout <= 10; timeout += 5) {
			struct script c = { .to_timeout = timeout / 5, .num_answers = 4 };
			double began = seconds();

			OK(verbena_repost_loop(scripted, s.p.b, s.recvs.wrs, WRS, timeout, &c) ==
			   0);
			CHECK_EQ(c.timeouts, 5);
			CHECK_EQ(c.batches, 0);
			/* Not before its time; the clock has whole milliseconds. */
			CHECK(seconds() - began >= 5 * (timeout - 1) * 1e-3);
		}
		stream_close(&s);
	}
}

static void on_alarm(int signal)
{
	(void)signal;
}

/* Signals neither end the wait nor shorten it. */
static void test_signals(enum ibv_qp_type type)
{
	static struct stream s;
	struct verbena_context_options opt = loop_options(type);
	struct sigaction act = { .sa_handler = on_alarm };
	struct itimerval fast = { { 0, 1000 }, { 0, 1000 } }, off = { 0 };
	struct script c = { .num_answers = 1 };
	double began = seconds();

	CHECK_EQ(sigaction(SIGALRM, &act, NULL), 0);
	stream_open(&s, &opt);
	CHECK_EQ(setitimer(ITIMER_REAL, &fast, NULL), 0);
	OK(verbena_repost_loop(scripted, s.p.b, s.recvs.wrs, WRS, 30, &c) == 0);
	CHECK_EQ(setitimer(ITIMER_REAL, &off, NULL), 0);
	CHECK_EQ(c.timeouts, 2);
	CHECK(seconds() - began >= 0.058);
	stream_close(&s);
}

/* Only solicited events: what comes without one is seen when the time is over. */
static void test_solicited(enum ibv_qp_type type)
{
	static struct stream s;
	struct verbena_context_options opt = loop_options(type);
	struct script c = { .to_batch = -1 };
	struct ibv_wc wc;

	opt.solicited_only_recv = true;
	stream_open(&s, &opt);
	send_first(&s, 1);
	OK(verbena_repost_loop(scripted, s.p.b, s.recvs.wrs, WRS, 1000, &c) == 0);
	CHECK_EQ(c.completions, 1);
	/* And a solicited one at once. */
	while (ibv_poll_cq(s.p.a->send_cq, 1, &wc) == 0)
		continue;
	s.sends.wrs[0].send_flags |= IBV_SEND_SOLICITED;
	OK(verbena_post_wrs(s.p.a, s.sends.wrs, false) == 0);
	c = (struct script){ .to_batch = -1 };
	OK(verbena_repost_loop(scripted, s.p.b, s.recvs.wrs, WRS, FOREVER, &c) == 0);
	CHECK_EQ(c.completions, 1);
	stream_close(&s);
}

/* ---- Callbacks that misbehave ---- */

/* Sends n messages and loops over their completions. */
static int loop_over(struct stream *s, int n, struct script *c)
{
	send_first(s, n);
	for (int done = 0; done < n;)
		done += ibv_poll_cq(s->p.a->send_cq, n, s->p.a->send_wcs);
	c->num_answers = 1000;
	return verbena_repost_loop(scripted, s->p.b, s->recvs.wrs, WRS, 10, c);
}

/* How many receives are posted: all of them complete when the queue pair is flushed. */
static int posted(struct stream *s)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	int n = 0, got;

	CHECK_EQ(ibv_modify_qp(s->p.b->qp, &attr, IBV_QP_STATE), 0);
	while ((got = ibv_poll_cq(s->p.b->recv_cq, WRS, s->p.b->recv_wcs)) > 0)
		for (int i = 0; i < got; i++)
			n += s->p.b->recv_wcs[i].status == IBV_WC_WR_FLUSH_ERR;
	return n;
}

static void test_answers(enum ibv_qp_type type)
{
	static const struct {
		int answer, posted; /* of WRS receives, 3 of which are consumed */
	} rows[] = {
		{ -1, WRS - 3 }, { -1000, WRS - 3 }, { 1, WRS - 2 }, { 2, WRS - 1 }, { 3, WRS },
		{ 4, WRS }, { INT32_MAX, WRS },
	};
	int apart = 0;
	struct verbena_context_options opt = loop_options(type);
	static struct stream s;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]);) {
		struct script c = { .to_batch = rows[i].answer };

		stream_open(&s, &opt);
		OK(loop_over(&s, 3, &c) == 0);
		/*
		 * UC and UD complete a send before it has arrived: they may make two batches, which
		 * is another story.
		 */
		if (c.batches == 1 && c.completions == 3)
			CHECK_EQ(posted(&s), rows[i++].posted);
		else
			CHECK(++apart < 1000);
		stream_close(&s);
	}
}

/* A completion that names no request, because the callback or the program wrote so. */
static void test_wrong_id(enum ibv_qp_type type)
{
	static const uint64_t wrong[] = { WRS, WRS + 1, 1ULL << 32, UINT64_MAX };
	struct verbena_context_options opt = loop_options(type);
	static struct stream s;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct script c = { .to_batch = 1, .wr_id = wrong[i] };

		stream_open(&s, &opt);
		FAILS(loop_over(&s, 1, &c), -1, EINVAL);
		CHECK_EQ(c.batches, 1);
		stream_close(&s);
	}
}

static int never_called(struct ibv_wc *wcs, int num_wc, struct ibv_send_wr *wrs, void *arg)
{
	(void)wcs, (void)num_wc, (void)wrs, (void)arg;
	CHECK(!"not to be called");
	return -1;
}

static void test_arguments(enum ibv_qp_type type)
{
	struct verbena_context_options opt = loop_options(type);
	static struct stream s;
	struct script c = { 0 };

	stream_open(&s, &opt);
	FAILS(verbena_repost_send_loop(NULL, s.p.a, s.sends.wrs, WRS, 0, NULL), -1, EINVAL);
	FAILS(verbena_repost_send_loop(never_called, NULL, s.sends.wrs, WRS, 0, NULL), -1, EINVAL);
	FAILS(verbena_repost_send_loop(never_called, s.p.a, NULL, WRS, 0, NULL), -1, EINVAL);
	FAILS(verbena_repost_send_loop(never_called, s.p.a, s.sends.wrs, 0, 0, NULL), -1, EINVAL);
	FAILS(verbena_repost_recv_loop(NULL, s.p.b, s.recvs.wrs, WRS, 0, &c), -1, EINVAL);
	FAILS(verbena_repost_recv_loop(scripted, NULL, s.recvs.wrs, WRS, 0, &c), -1, EINVAL);
	FAILS(verbena_repost_recv_loop(scripted, s.p.b, NULL, WRS, 0, &c), -1, EINVAL);
	FAILS(verbena_repost_recv_loop(scripted, s.p.b, s.recvs.wrs, 0, 0, &c), -1, EINVAL);
	stream_close(&s);
}

int main(int argc, char **argv)
{
	enum ibv_qp_type type = type_named(argv[1]);

	test_arguments(type);
	test_stream(type, true);
	test_stream(type, false);
	test_timeouts(type);
	test_signals(type);
	test_solicited(type);
	test_answers(type);
	test_wrong_id(type);
	return 0;
}
