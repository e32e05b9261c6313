/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An XRC domain of several processes: one has the receive QP (the home), others have the SRQs that a further one, the initiator, names in its
 * requests.
 *
 *	xrc_test CASE [udp]	`udp`: the initiator's packets and the messages of the domain go by sockets
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "xrc.h"

enum {
	OWNERS = 2,		/* processes with an SRQ, beside the home, which has one too */
	TARGETS = OWNERS + 1,
	MESSAGES = 400,
	WINDOW = 12,
	LIMIT_S = 60,
	TIMEOUT = 14, RETRIES = 7,	/* given up after half a second */
	KILLS = 12,
	KILL_WITHIN = 60,		/* messages */
};

static int file;	/* the domain's */
static uint64_t seed;
static bool deaths;	/* processes are killed: a message that had begun may be flushed */

static uint32_t rnd(uint32_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 33) % n;
}

/* What the first process tells all others to do. */
enum order {
	RECEIVE,	/* a stream, until told to stop */
	STOP,
	POST,		/* a receive */
	TAKE,		/* poll one completion and tell it */
	ARM_LIMIT,	/* of the SRQ, at 1; then say when the event has come */
	SHOW,		/* the first bytes of the buffer */
	SLEEP,		/* arm the CQ for solicited completions and wait for the event */
	DROP_SRQ,
	OPEN,		/* the QP of the home */
	STATE,		/* of the QP: tell what ibv_query_qp says, -1 if that fails */
	EVENT,		/* of the QP: wait for one and tell it */
	TO_ERROR,	/* move the QP there */
	CLOSE,		/* the QP, or the handle */
	LEAVE,
};

struct facts {
	struct rc_addr addr;
	uint32_t srqn;
};

static void say(int sock, enum order o)
{
	child_tell(sock, &o, sizeof(o));
}

static bool told(int sock)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

static char pattern(uint32_t seq, uint32_t i)
{
	return (char)(seq * 31 + i * 7 + (i >> 8));
}

static uint32_t length_of(uint32_t seq)
{
	static const uint32_t lens[] = { 0, 1, 64, 1024, 1025, 5000, 20000, XRC_SLOT };

	return lens[(seq * 2654435761u >> 13) % 8];
}

/* The immediate of a message is its number at this receiver. */
static void check_message(struct xrc *x, const struct ibv_wc *wc, uint32_t qpn, uint32_t *seq)
{
	const char *p = xrc_buffer(x, (unsigned int)wc->wr_id);
	uint32_t n = wc->imm_data >> 8;

	if (deaths && wc->status == IBV_WC_WR_FLUSH_ERR)
		return;
	CHECK_EQ(wc->status, IBV_WC_SUCCESS);
	CHECK_EQ(wc->qp_num, qpn);
	CHECK(wc->wc_flags & IBV_WC_WITH_IMM);
	CHECK_EQ(n, *seq);
	CHECK_EQ(wc->byte_len, length_of(n));
	for (uint32_t i = 0; i < wc->byte_len; i++)
		if (p[i] != pattern(n, i)) {
			printf("message %u, byte %u\n", n, i);
			CHECK(p[i] == pattern(n, i));
		}
	++*seq;
}

static void receive_stream(struct xrc *x, int sock, uint32_t qpn)
{
	uint32_t seq = 0;
	struct ibv_wc wc;
	enum order o;

	for (unsigned int i = 0; i < XRC_RECVS; i++)
		xrc_post(x, i);
	rc_meet(sock);
	while (!told(sock)) {
		while (ibv_poll_cq(x->cq, 1, &wc) == 1) {
			check_message(x, &wc, qpn, &seq);
			xrc_post(x, (unsigned int)wc.wr_id);
		}
	}
	while (ibv_poll_cq(x->cq, 1, &wc) == 1)
		check_message(x, &wc, qpn, &seq);
	child_hear(sock, &o, sizeof(o));
	CHECK_EQ(o, STOP);
	child_tell(sock, &seq, sizeof(seq));
}

static void await_limit(struct xrc *x)
{
	struct ibv_async_event ev;

	CHECK(ibv_get_async_event(x->rc.ctx, &ev) == 0);
	CHECK_EQ(ev.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	CHECK(ev.element.srq == x->srq);
	ibv_ack_async_event(&ev);
}

static void await_solicited(struct xrc *x)
{
	struct ibv_cq *cq;
	void *arg;

	CHECK(ibv_get_cq_event(x->rc.channel, &cq, &arg) == 0);
	CHECK(cq == x->cq);
	ibv_ack_cq_events(cq, 1);
}

static struct ibv_qp *try_open(struct xrc *x, struct ibv_xrcd *xrcd, uint32_t qpn)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE |
			     IBV_QP_OPEN_ATTR_CONTEXT,
		.qp_num = qpn, .xrcd = xrcd, .qp_type = IBV_QPT_XRC_RECV, .qp_context = x,
	};

	return ibv_open_qp(x->rc.ctx, &attr);
}

static void open_qp(struct xrc *x, uint32_t qpn)
{
	struct ibv_xrcd *other = xrc_domain(x, -1, O_CREAT);

	CHECK(!try_open(x, x->xrcd, qpn ^ 1));
	CHECK_EQ(errno, EINVAL);
	CHECK(!try_open(x, other, qpn));
	CHECK_EQ(errno, EINVAL);
	CHECK(ibv_close_xrcd(other) == 0);
	x->qp = try_open(x, x->xrcd, qpn);
	CHECK(x->qp);
	CHECK_EQ(x->qp->qp_num, qpn);
	CHECK(x->qp->qp_context == x);
}

static void tell_state(struct xrc *x, int sock)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int state = ibv_query_qp(x->qp, &attr, IBV_QP_STATE, &init) ? -1 : (int)attr.qp_state;

	if (state >= 0)
		CHECK_EQ(init.qp_type, IBV_QPT_XRC_RECV);
	child_tell(sock, &state, sizeof(state));
}

static void tell_event(struct xrc *x, int sock)
{
	struct ibv_async_event ev;
	int type;

	CHECK(ibv_get_async_event(x->rc.ctx, &ev) == 0);
	CHECK(ev.element.qp == x->qp);
	type = ev.event_type;
	ibv_ack_async_event(&ev);
	child_tell(sock, &type, sizeof(type));
}

/* Does what it is told, until it is told to leave. */
static void serve(struct xrc *x, int sock, uint32_t qpn)
{
	unsigned int posted = 0;
	enum order o;

	for (;;) {
		child_hear(sock, &o, sizeof(o));
		switch (o) {
		case RECEIVE:
			receive_stream(x, sock, qpn);
			break;
		case POST:
			xrc_post(x, posted++ % XRC_RECVS);
			rc_meet(sock);
			break;
		case TAKE: {
			struct ibv_wc wc = xrc_wait(x->cq);

			child_tell(sock, &wc, sizeof(wc));
			break;
		}
		case ARM_LIMIT: {
			struct ibv_srq_attr attr = { .srq_limit = 1 };

			CHECK(ibv_modify_srq(x->srq, &attr, IBV_SRQ_LIMIT) == 0);
			rc_meet(sock);
			await_limit(x);
			rc_meet(sock);
			break;
		}
		case SHOW:
			child_tell(sock, x->rc.buf, 64);
			break;
		case SLEEP:
			CHECK(ibv_req_notify_cq(x->cq, 1) == 0);
			rc_meet(sock);
			await_solicited(x);
			rc_meet(sock);
			break;
		case DROP_SRQ:
			CHECK(ibv_destroy_srq(x->srq) == 0);
			x->srq = NULL;
			rc_meet(sock);
			break;
		case OPEN:
			open_qp(x, qpn);
			rc_meet(sock);
			break;
		case STATE:
			tell_state(x, sock);
			break;
		case EVENT:
			tell_event(x, sock);
			break;
		case TO_ERROR: {
			struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

			CHECK_EQ(ibv_modify_qp(x->qp, &attr, IBV_QP_STATE), 0);
			CHECK_EQ(x->qp->state, IBV_QPS_ERR);
			rc_meet(sock);
			break;
		}
		case CLOSE:
			CHECK_EQ(ibv_destroy_qp(x->qp), 0);
			x->qp = NULL;
			rc_meet(sock);
			break;
		case STOP:
		case LEAVE:
			return;
		}
	}
}

static struct facts facts_of(const struct xrc *x, const struct ibv_qp *qp)
{
	return (struct facts){ .addr = rc_address(&x->rc, qp), .srqn = x->srqn };
}

/* ---- the processes ---- */

static void owner(int sock)
{
	struct facts mine;
	struct xrc x;
	uint32_t qpn;

	alarm(LIMIT_S);
	xrc_open(&x, file, 0);
	mine = facts_of(&x, x.rc.qp);
	child_tell(sock, &mine, sizeof(mine));
	child_hear(sock, &qpn, sizeof(qpn));
	serve(&x, sock, qpn);
	xrc_close(&x);
}

static void home(int sock)
{
	struct facts mine;
	struct rc_addr peer;
	struct xrc x;

	alarm(LIMIT_S);
	xrc_open(&x, file, O_CREAT | O_EXCL);
	x.qp = xrc_recv_qp(&x);
	mine = facts_of(&x, x.qp);
	child_tell(sock, &mine, sizeof(mine));
	child_hear(sock, &peer, sizeof(peer));
	xrc_connect(&x, x.qp, &peer, TIMEOUT, RETRIES);
	rc_meet(sock);
	serve(&x, sock, x.qp->qp_num);
	xrc_close(&x);
}

/* ---- the initiator is the first process ---- */

struct family {
	struct xrc x;
	struct child child[TARGETS];	/* the home is the first */
	struct facts facts[TARGETS];
};

/* The home and the owners, but nobody who sends yet. */
static void gather_receivers(struct family *f)
{
	alarm(LIMIT_S);
	f->child[0] = child_fork(home);
	child_hear(f->child[0].sock, &f->facts[0], sizeof(f->facts[0]));
	for (int i = 1; i < TARGETS; i++) {
		f->child[i] = child_fork(owner);
		child_hear(f->child[i].sock, &f->facts[i], sizeof(f->facts[i]));
		child_tell(f->child[i].sock, &f->facts[0].addr.qpn, sizeof(uint32_t));
	}
}

static void gather(struct family *f)
{
	struct rc_addr mine;

	gather_receivers(f);
	xrc_open(&f->x, file, 0);
	f->x.qp = xrc_send_qp(&f->x);
	mine = rc_address(&f->x.rc, f->x.qp);
	child_tell(f->child[0].sock, &mine, sizeof(mine));
	rc_meet(f->child[0].sock);
	xrc_connect(&f->x, f->x.qp, &f->facts[0].addr, TIMEOUT, RETRIES);
}

static void part(struct family *f)
{
	for (int i = 0; i < TARGETS; i++) {
		if (!f->child[i].pid)
			continue;
		say(f->child[i].sock, LEAVE);
		child_join(&f->child[i]);
	}
	if (f->x.xrcd)
		xrc_close(&f->x);
}

static void expect_sent(struct family *f, enum ibv_wc_status status)
{
	struct ibv_wc wc = xrc_wait(f->x.rc.cq);

	CHECK_EQ(wc.status, status);
}

static void order(struct family *f, int who, enum order o)
{
	say(f->child[who].sock, o);
	rc_meet(f->child[who].sock);
}

static void order_all(struct family *f, enum order o)
{
	for (int i = 0; i < TARGETS; i++)
		order(f, i, o);
}

/* How many messages a receiver has got. */
static uint32_t stop(struct family *f, int who)
{
	uint32_t got;

	say(f->child[who].sock, STOP);
	child_hear(f->child[who].sock, &got, sizeof(got));
	return got;
}

/* Numbered messages of all sizes to random receivers, WINDOW of them in flight. */
struct stream {
	struct family *f;
	uint32_t n, open;
	uint32_t sent[TARGETS];
};

static void stream_to(struct stream *s, uint32_t to)
{
	uint32_t seq = s->sent[to]++, len = length_of(seq), slot = s->n++ % WINDOW;
	struct xrc *x = &s->f->x;
	char *p = xrc_buffer(x, slot);

	for (uint32_t i = 0; i < len; i++)
		p[i] = pattern(seq, i);
	xrc_send(x, IBV_WR_SEND_WITH_IMM, s->f->facts[to].srqn, (uint64_t)slot * XRC_SLOT, len, NULL,
		 seq << 8, 0);
	s->open++;
}

/* Waits for one. */
static enum ibv_wc_status stream_wait(struct stream *s)
{
	s->open--;
	return xrc_wait(s->f->x.rc.cq).status;
}

static void test_stream(void)
{
	struct family f = { 0 };
	struct stream s = { .f = &f };

	gather(&f);
	order_all(&f, RECEIVE);
	while (s.n < MESSAGES) {
		if (s.open == WINDOW)
			CHECK_EQ(stream_wait(&s), IBV_WC_SUCCESS);
		stream_to(&s, rnd(TARGETS));
	}
	while (s.open)
		CHECK_EQ(stream_wait(&s), IBV_WC_SUCCESS);
	for (int i = 0; i < TARGETS; i++)
		CHECK_EQ(stop(&f, i), s.sent[i]);
	part(&f);
}

/* ---- deaths ---- */

/* The first error that is not a flush; IBV_WC_SUCCESS if all that is open succeeds. */
static enum ibv_wc_status drain(struct stream *s)
{
	enum ibv_wc_status first = IBV_WC_SUCCESS, status;

	while (s->open) {
		status = stream_wait(s);
		if (first == IBV_WC_SUCCESS)
			first = status;
	}
	return first;
}

/*
 * One of the receivers is killed in the middle of a stream.  Without the home nobody answers; without an owner the requests that name its SRQ
 * are refused, and the other owners hear of nothing.
 */
static void kill_receiver(int victim)
{
	struct family f = { 0 };
	struct stream s = { .f = &f };
	uint32_t after = rnd(KILL_WITHIN);
	enum ibv_wc_status status;

	gather(&f);
	if (rnd(2))
		order(&f, 1, OPEN);
	order_all(&f, RECEIVE);
	while (s.n < after) {
		if (s.open == WINDOW)
			CHECK_EQ(stream_wait(&s), IBV_WC_SUCCESS);
		stream_to(&s, rnd(TARGETS));
	}
	child_kill(&f.child[victim]);
	f.child[victim].pid = 0;
	stream_to(&s, (uint32_t)victim);
	status = drain(&s);
	printf("killed %s after %u messages: status %d\n", victim ? "an owner" : "the home", after,
	       status);
	if (victim == 0)
		CHECK_EQ(status, IBV_WC_RETRY_EXC_ERR);
	else
		CHECK(status == IBV_WC_REM_INV_REQ_ERR || status == IBV_WC_REM_OP_ERR);
	for (int i = 0; i < TARGETS; i++)
		if (f.child[i].pid)
			CHECK(stop(&f, i) <= s.sent[i]);
	part(&f);
}

/*
 * The home moves, and somebody is killed around that time.  Whoever lives ends well; the initiator has an answer for each of its requests.
 */
static void kill_in_move(void)
{
	struct family f = { 0 };
	struct stream s = { .f = &f };
	uint32_t move_at = rnd(KILL_WITHIN), after = move_at + rnd(4), victim = rnd(TARGETS);
	enum ibv_wc_status status;

	gather(&f);
	order(&f, 1, OPEN);
	if (rnd(2))
		order(&f, 2, OPEN);
	order(&f, 1, RECEIVE);
	order(&f, 2, RECEIVE);
	while (s.n < after) {
		if (s.n == move_at)
			say(f.child[0].sock, CLOSE);
		if (s.open == WINDOW)
			CHECK_EQ(stream_wait(&s), IBV_WC_SUCCESS);
		stream_to(&s, 1 + rnd(2));
	}
	if (after == move_at)
		say(f.child[0].sock, CLOSE);
	child_kill(&f.child[victim]);
	f.child[victim].pid = 0;
	status = drain(&s);
	printf("killed %u while the home moved after %u messages: status %d\n", victim, move_at, status);
	CHECK(status == IBV_WC_SUCCESS || status == IBV_WC_RETRY_EXC_ERR ||
	      status == IBV_WC_REM_INV_REQ_ERR || status == IBV_WC_REM_OP_ERR);
	if (victim)
		rc_meet(f.child[0].sock);
	for (int i = 1; i < TARGETS; i++)
		if (f.child[i].pid)
			CHECK(stop(&f, i) <= s.sent[i]);
	part(&f);
}

static void initiator(int sock)
{
	struct family f = { 0 };
	struct stream s = { .f = &f };
	struct rc_addr mine;
	char go;

	alarm(LIMIT_S);
	child_hear(sock, f.facts, sizeof(f.facts));
	xrc_open(&f.x, file, 0);
	f.x.qp = xrc_send_qp(&f.x);
	mine = rc_address(&f.x.rc, f.x.qp);
	child_tell(sock, &mine, sizeof(mine));
	child_hear(sock, &go, 1);
	xrc_connect(&f.x, f.x.qp, &f.facts[0].addr, TIMEOUT, RETRIES);
	for (;;) {
		if (s.open == WINDOW)
			CHECK_EQ(stream_wait(&s), IBV_WC_SUCCESS);
		stream_to(&s, rnd(TARGETS));
		if (s.n % 8 == 0)
			child_tell(sock, &go, 1);
	}
}

/* The initiator is killed; the others end their parts as if nothing was. */
static void kill_initiator(void)
{
	struct family f = { 0 };
	struct rc_addr peer;
	struct child ini;
	char go = 'G';

	gather_receivers(&f);
	ini = child_fork(initiator);
	child_tell(ini.sock, f.facts, sizeof(f.facts));
	child_hear(ini.sock, &peer, sizeof(peer));
	child_tell(f.child[0].sock, &peer, sizeof(peer));
	rc_meet(f.child[0].sock);
	order_all(&f, RECEIVE);
	child_tell(ini.sock, &go, 1);
	for (uint32_t n = 1 + rnd(KILL_WITHIN / 8); n; n--)
		child_hear(ini.sock, &go, 1);
	child_kill(&ini);
	for (int i = 0; i < TARGETS; i++)
		stop(&f, i);
	part(&f);
}

static void test_kill(void)
{
	const char *env = getenv("VERBENA_RUNS");
	long runs = env ? strtol(env, NULL, 0) : KILLS;
	struct rc rc;

	deaths = true;
	for (long i = 0; i < runs; i++) {
		uint32_t victim = rnd(TARGETS + 3);

		if (victim > TARGETS)
			kill_in_move();
		else if (victim == TARGETS)
			kill_initiator();
		else
			kill_receiver((int)victim);
	}
	/* Who joins cleans up, and so does who leaves. */
	rc_open(&rc, 4096);
	rc_close(&rc);
	CHECK_EQ(rc_slot_files(), 0);
}

static struct ibv_wc take(struct family *f, int who)
{
	struct ibv_wc wc;

	say(f->child[who].sock, TAKE);
	child_hear(f->child[who].sock, &wc, sizeof(wc));
	return wc;
}

static uint64_t first_word(struct family *f, int who)
{
	uint64_t word[8];

	say(f->child[who].sock, SHOW);
	child_hear(f->child[who].sock, word, sizeof(word));
	return word[0];
}

/* WRITE, READ, atomics and WRITE with immediate act in the memory of the SRQ's process, with its keys. */
static void test_memory(void)
{
	struct family f = { 0 };
	uint64_t *mine;

	gather(&f);
	mine = (uint64_t *)f.x.rc.buf;
	for (int i = 0; i < TARGETS; i++) {
		uint32_t srqn = f.facts[i].srqn;
		const struct rc_addr *at = &f.facts[i].addr;
		struct ibv_wc wc;

		mine[0] = 1000 + i;
		xrc_send(&f.x, IBV_WR_RDMA_WRITE, srqn, 0, 20000, at, 1, 0);
		expect_sent(&f, IBV_WC_SUCCESS);
		CHECK_EQ(first_word(&f, i), 1000 + i);
		xrc_send(&f.x, IBV_WR_ATOMIC_FETCH_AND_ADD, srqn, 8, 8, at, 2, 0);
		expect_sent(&f, IBV_WC_SUCCESS);
		CHECK_EQ(mine[1], 1000 + i);
		xrc_send(&f.x, IBV_WR_RDMA_READ, srqn, XRC_SLOT, 20000, at, 3, 0);
		expect_sent(&f, IBV_WC_SUCCESS);
		CHECK_EQ(*(uint64_t *)xrc_buffer(&f.x, 1), 1001 + i);
		order(&f, i, POST);
		xrc_send(&f.x, IBV_WR_RDMA_WRITE_WITH_IMM, srqn, 0, 5000, at, 4, 0);
		expect_sent(&f, IBV_WC_SUCCESS);
		wc = take(&f, i);
		CHECK_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
		CHECK_EQ(wc.imm_data, 4);
		CHECK_EQ(wc.byte_len, 5000);
	}
	/* A key of one process means nothing at another's SRQ. */
	xrc_send(&f.x, IBV_WR_RDMA_WRITE, f.facts[1].srqn, 0, 8, &f.facts[2].addr, 5, 0);
	expect_sent(&f, f.facts[1].addr.rkey == f.facts[2].addr.rkey ? IBV_WC_SUCCESS :
		    IBV_WC_REM_ACCESS_ERR);
	part(&f);
}

/* An empty SRQ, its limit, solicited events, and an SRQ that is no more. */
static void test_queue(void)
{
	struct family f = { 0 };
	struct ibv_wc wc;

	gather(&f);
	/* Refused until there is a receive. */
	xrc_send(&f.x, IBV_WR_SEND, f.facts[1].srqn, 0, 100, NULL, 1, 0);
	order(&f, 1, POST);
	expect_sent(&f, IBV_WC_SUCCESS);
	CHECK_EQ(take(&f, 1).byte_len, 100);
	/* The limit event comes with the last receive. */
	order(&f, 2, POST);
	order(&f, 2, ARM_LIMIT);
	xrc_send(&f.x, IBV_WR_SEND, f.facts[2].srqn, 0, 8, NULL, 2, 0);
	expect_sent(&f, IBV_WC_SUCCESS);
	rc_meet(f.child[2].sock);
	CHECK_EQ(take(&f, 2).byte_len, 8);
	/* Only a solicited completion wakes it. */
	order(&f, 1, POST);
	order(&f, 1, POST);
	order(&f, 1, SLEEP);
	xrc_send(&f.x, IBV_WR_SEND, f.facts[1].srqn, 0, 9, NULL, 3, 0);
	expect_sent(&f, IBV_WC_SUCCESS);
	CHECK(!told(f.child[1].sock));
	xrc_send(&f.x, IBV_WR_SEND, f.facts[1].srqn, 0, 10, NULL, 4, IBV_SEND_SOLICITED);
	expect_sent(&f, IBV_WC_SUCCESS);
	rc_meet(f.child[1].sock);
	CHECK_EQ(take(&f, 1).byte_len, 9);
	CHECK_EQ(take(&f, 1).byte_len, 10);
	/* Too long for the receive: both sides learn it. */
	order(&f, 1, POST);
	xrc_send(&f.x, IBV_WR_SEND, f.facts[1].srqn, 0, XRC_SLOT + 1, NULL, 5, 0);
	expect_sent(&f, IBV_WC_REM_INV_REQ_ERR);
	wc = take(&f, 1);
	CHECK_EQ(wc.status, IBV_WC_LOC_LEN_ERR);
	part(&f);
}

static void test_gone_srq(void)
{
	struct family f = { 0 };

	gather(&f);
	order(&f, 1, POST);
	xrc_send(&f.x, IBV_WR_SEND, f.facts[1].srqn, 0, 100, NULL, 1, 0);
	expect_sent(&f, IBV_WC_SUCCESS);
	take(&f, 1);
	order(&f, 1, DROP_SRQ);
	xrc_send(&f.x, IBV_WR_SEND, f.facts[1].srqn, 0, 100, NULL, 2, 0);
	expect_sent(&f, IBV_WC_REM_INV_REQ_ERR);
	part(&f);
}

/* ---- ibv_open_qp ---- */

static int number_from(struct family *f, int who, enum order o)
{
	int n;

	say(f->child[who].sock, o);
	child_hear(f->child[who].sock, &n, sizeof(n));
	return n;
}

static void send_to(struct family *f, int who, uint32_t len)
{
	order(f, who, POST);
	xrc_send(&f->x, IBV_WR_SEND, f->facts[who].srqn, 0, len, NULL, len, 0);
	expect_sent(f, IBV_WC_SUCCESS);
	CHECK_EQ(take(f, who).byte_len, len);
}

/* Ask it, hear of its events, change it. */
static void test_open(void)
{
	struct family f = { 0 };

	gather(&f);
	order(&f, 1, OPEN);
	CHECK_EQ(number_from(&f, 1, STATE), IBV_QPS_RTS);
	send_to(&f, 2, 100);
	/* An SRQ that nobody has. */
	xrc_send(&f.x, IBV_WR_SEND, f.facts[0].srqn ^ 0x10000, 0, 8, NULL, 1, 0);
	expect_sent(&f, IBV_WC_REM_INV_REQ_ERR);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(number_from(&f, i, EVENT), IBV_EVENT_QP_REQ_ERR);
		CHECK_EQ(number_from(&f, i, EVENT), IBV_EVENT_QP_LAST_WQE_REACHED);
		CHECK_EQ(number_from(&f, i, STATE), IBV_QPS_ERR);
	}
	order(&f, 1, CLOSE);
	part(&f);
}

static void test_open_modify(void)
{
	struct family f = { 0 };

	gather(&f);
	order(&f, 2, OPEN);
	send_to(&f, 1, 100);
	order(&f, 2, TO_ERROR);
	CHECK_EQ(number_from(&f, 0, STATE), IBV_QPS_ERR);
	order(&f, 2, CLOSE);
	CHECK_EQ(number_from(&f, 0, STATE), IBV_QPS_ERR);
	part(&f);
}

/* The QP lives until its last handle is closed, in whatever process that is. */
static void test_inherit(void)
{
	struct family f = { 0 };

	gather(&f);
	order(&f, 1, OPEN);
	order(&f, 2, OPEN);
	send_to(&f, 0, 10);
	send_to(&f, 1, 11);
	order(&f, 0, CLOSE);
	for (int i = 0; i < TARGETS; i++)
		send_to(&f, i, 20 + i);
	CHECK_EQ(number_from(&f, 2, STATE), IBV_QPS_RTS);
	say(f.child[0].sock, LEAVE);
	child_join(&f.child[0]);
	f.child[0].pid = 0;
	send_to(&f, 1, 30);
	send_to(&f, 2, 40);
	/* The next heir. */
	order(&f, 1, CLOSE);
	CHECK_EQ(number_from(&f, 2, STATE), IBV_QPS_RTS);
	send_to(&f, 1, 50);
	send_to(&f, 2, 60);
	order(&f, 2, CLOSE);
	xrc_send(&f.x, IBV_WR_SEND, f.facts[1].srqn, 0, 8, NULL, 1, 0);
	expect_sent(&f, IBV_WC_RETRY_EXC_ERR);
	part(&f);
}

/* A stream does not notice that the home moves under it. */
static void test_move(void)
{
	struct family f = { 0 };
	struct stream s = { .f = &f };
	uint32_t move_at = 100 + rnd(100);

	gather(&f);
	order(&f, 1, OPEN);
	order(&f, 1, RECEIVE);
	order(&f, 2, RECEIVE);
	while (s.n < MESSAGES) {
		if (s.open == WINDOW)
			CHECK_EQ(stream_wait(&s), IBV_WC_SUCCESS);
		stream_to(&s, 1 + rnd(2));
		if (s.n == move_at)
			say(f.child[0].sock, CLOSE);
	}
	while (s.open)
		CHECK_EQ(stream_wait(&s), IBV_WC_SUCCESS);
	rc_meet(f.child[0].sock);
	for (int i = 1; i < TARGETS; i++)
		CHECK_EQ(stop(&f, i), s.sent[i]);
	part(&f);
}

/* A home that is killed takes the QP along; who has it open hears of it. */
static void test_orphan(void)
{
	struct family f = { 0 };

	gather(&f);
	order(&f, 1, OPEN);
	send_to(&f, 1, 100);
	child_kill(&f.child[0]);
	f.child[0].pid = 0;
	CHECK_EQ(number_from(&f, 1, EVENT), IBV_EVENT_QP_FATAL);
	CHECK_EQ(number_from(&f, 1, STATE), -1);
	order(&f, 1, CLOSE);
	xrc_send(&f.x, IBV_WR_SEND, f.facts[1].srqn, 0, 8, NULL, 1, 0);
	expect_sent(&f, IBV_WC_RETRY_EXC_ERR);
	part(&f);
}

/* ---- domains ---- */

static void domain_holder(int sock)
{
	struct xrc x = { 0 };
	char c;

	alarm(LIMIT_S);
	rc_open(&x.rc, 4096);
	CHECK(xrc_domain(&x, file, O_CREAT | O_EXCL));
	rc_meet(sock);
	child_hear(sock, &c, 1);
	_exit(0);
}

/* A domain is there while a process has it, and O_EXCL is about all of them. */
static void test_domain(void)
{
	struct xrc x = { 0 };
	struct ibv_xrcd *d;
	struct child c;

	alarm(LIMIT_S);
	c = child_fork(domain_holder);
	rc_meet(c.sock);
	rc_open(&x.rc, 4096);
	CHECK(!xrc_domain(&x, file, O_CREAT | O_EXCL));
	CHECK_EQ(errno, EEXIST);
	d = xrc_domain(&x, file, 0);
	CHECK(d);
	CHECK(ibv_close_xrcd(d) == 0);
	child_kill(&c);
	CHECK(!xrc_domain(&x, file, 0));
	CHECK_EQ(errno, ENOENT);
	d = xrc_domain(&x, file, O_CREAT | O_EXCL);
	CHECK(d);
	CHECK(ibv_close_xrcd(d) == 0);
	rc_close(&x.rc);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{ "DOMAIN", test_domain }, { "STREAM", test_stream }, { "MEMORY", test_memory },
		{ "QUEUE", test_queue }, { "GONE", test_gone_srq }, { "KILL", test_kill },
		{ "OPEN", test_open }, { "MODIFY", test_open_modify }, { "INHERIT", test_inherit }, { "MOVE", test_move },
		{ "ORPHAN", test_orphan },
	};
	const char *env = getenv("VERBENA_SEED");
	char name[] = "/tmp/verbena-xrc-XXXXXX";

	CHECK(argc >= 2);
	if (argc > 2)
		setenv("VERBENA_TRANSPORT", argv[2], 1);
	seed = env ? strtoull(env, NULL, 0) : (uint64_t)time(NULL);
	printf("VERBENA_SEED=%llu\n", (unsigned long long)seed);
	file = mkstemp(name);
	CHECK(file >= 0);
	unlink(name);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(cases[i].name, argv[1]))
			cases[i].run();
	return 0;
}
