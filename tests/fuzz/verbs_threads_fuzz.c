/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random verbs by several threads on shared objects, against an oracle (verbs_pairs.h). Each thread
 * owns pairs of connected QPs, which it creates, breaks, resets and destroys; all threads post to
 * all pairs, and poll the CQs that all pairs share, while these are resized. No completion may be
 * missing in the end, and a CQ that was armed raises an event.
 *
 *	PROGRAM STEPS		of each thread
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <time.h>

#include "fuzz/threads.h"
#include "fuzz/verbs_pairs.h"
#include "util/atomic.h"
#include "util/compiler.h"

enum {
	CQ_LEAST = 2048,	/* more than can be outstanding */
	SRQ_DEPTH = 32,
	INLINE = 64,
	DATAGRAM = 1024,
	BAD_RKEY = 0x77,
	LIMIT_S = 60,		/* for completions that are missing */
	QUIET_MS = 500,		/* without events; then a thread looks whether it should end */
};

static struct ibv_comp_channel *channels[WORLDS];
static struct ibv_xrcd *xrcd;
static uint64_t generations;

/* Where all fetch and add; how often they were asked to. */
static struct {
	uint64_t *value;
	uint64_t adds;
	struct ibv_mr *mr[WORLDS];
} counter;

/* ---- Sending. Under p->lock ---- */

static uint32_t some_length(void)
{
	switch (below(4)) {
	case 0:
		return (uint32_t)below(64);
	case 1:
		return (uint32_t)below(1024);
	default:
		return (uint32_t)below(SLOT);
	}
}

static enum ibv_wr_opcode some_opcode(const struct pair *p)
{
	static const enum ibv_wr_opcode all[] = {
		IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
	};

	if (p->type == IBV_QPT_UD)
		return IBV_WR_SEND_WITH_IMM;
	return all[below(p->type == IBV_QPT_UC ? 4 : 6)];
}

static bool takes_receive(enum ibv_wr_opcode o)
{
	return o == IBV_WR_SEND_WITH_IMM || o == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* What comes back to the requester's memory. */
static bool fetches(enum ibv_wr_opcode o)
{
	return o == IBV_WR_RDMA_READ || o == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool is_reliable(const struct pair *p)
{
	return p->type == IBV_QPT_RC || p->type == IBV_QPT_XRC_SEND;
}

/* The next request of a side; last: signaled. */
static struct op some_op(struct pair *p, int side, bool last)
{
	struct side *s = &p->side[side];
	struct op o = { .opcode = some_opcode(p), .len = some_length() };
	bool to_srq = p->side[!side].srq >= 0;

	if (to_srq && o.opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		o.opcode = IBV_WR_SEND_WITH_IMM;
	if (takes_receive(o.opcode) && to_srq)
		o.len = HEAD + o.len % (SRQ_SLOT - HEAD);
	if (p->type == IBV_QPT_UD)
		o.len %= DATAGRAM;
	if (o.opcode == IBV_WR_RDMA_READ && o.len < HEAD)
		o.len = HEAD;
	o.signaled = last || s->cq[0] == FREE_FOR_ALL || s->posted - s->done == DEPTH - 1 ||
		     below(2) || fetches(o.opcode);
	o.bad = p->state == BROKEN && is_reliable(p) && o.opcode == IBV_WR_RDMA_WRITE && o.len &&
		below(2);
	o.seq = takes_receive(o.opcode) ? s->seq_out++ : s->posted;
	return o;
}

/* Where it goes. */
static void aim(struct pair *p, int side, const struct op *o, struct ibv_send_wr *wr)
{
	struct side *s = &p->side[side], *peer = &p->side[!side];

	if (o->opcode == IBV_WR_RDMA_READ) {
		wr->wr.rdma.remote_addr = (uintptr_t)source(peer);
		wr->wr.rdma.rkey = peer->mr->rkey;
	} else if (o->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr->wr.atomic.remote_addr = (uintptr_t)counter.value;
		wr->wr.atomic.rkey = counter.mr[world_of(p, !side)]->rkey;
		wr->wr.atomic.compare_add = 1;
		fetch_add_relaxed(&counter.adds, 1);
	} else if (p->type == IBV_QPT_UD) {
		wr->wr.ud.ah = s->ah;
		wr->wr.ud.remote_qpn = peer->qp->qp_num;
		wr->wr.ud.remote_qkey = WORLD_QKEY;
	} else {
		wr->wr.rdma.remote_addr = (uintptr_t)rdma_slot(peer, s->posted);
		wr->wr.rdma.rkey = o->bad ? BAD_RKEY : peer->mr->rkey;
	}
	if (p->type == IBV_QPT_XRC_SEND)
		wr->qp_type.xrc.remote_srqn = xsrq.number;
}

static void describe(struct pair *p, int side, struct ibv_send_wr *wr, struct ibv_sge *sge,
		     bool last)
{
	struct side *s = &p->side[side];
	struct op *o = &s->op[s->posted % DEPTH];
	uint8_t *from = send_slot(s, s->posted);

	*o = some_op(p, side, last);
	*sge = (struct ibv_sge){ (uintptr_t)from, o->len, s->mr->lkey };
	*wr = (struct ibv_send_wr){
		.wr_id = wr_id(SEND, p, side, s->posted),
		.sg_list = sge,
		.num_sge = 1,
		.opcode = o->opcode,
		.send_flags = (o->signaled ? IBV_SEND_SIGNALED : 0) |
			      (below(8) ? 0 : IBV_SEND_SOLICITED),
		.imm_data = htonl(o->seq),
	};
	aim(p, side, o, wr);
	if (o->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		sge->length = sizeof(*counter.value);
	else if (o->opcode != IBV_WR_RDMA_READ)
		fill(from, p, side, o->seq, o->len);
	if (o->len <= INLINE && below(2) && !fetches(o->opcode))
		wr->send_flags |= IBV_SEND_INLINE;
	s->posted++;
}

static void post(struct pair *p, int side)
{
	struct side *s = &p->side[side];
	struct ibv_send_wr wr[4], *bad;
	struct ibv_sge sge[4];
	int n = 0, max = 1 + (int)below(4), r;

	if (p->type == IBV_QPT_XRC_SEND && side)
		return;
	while (n < max && s->posted - s->done < DEPTH) {
		describe(p, side, &wr[n], &sge[n], false);
		if (n)
			wr[n - 1].next = &wr[n];
		n++;
	}
	if (!n)
		return;
	r = ibv_post_send(s->qp, wr, &bad);
	EXPECT(r == 0, "post_send: %d, state %d, type %d, %u outstanding", r, s->qp->state, p->type,
	       s->posted - s->done);
	for (int i = 0; i < n; i++)
		if (wr[i].send_flags & IBV_SEND_INLINE)
			memset((void *)(uintptr_t)sge[i].addr, 0xee, sge[i].length);
}

/* In ERR: what is flushed is followed by a completion. */
static void post_last(struct pair *p, int side)
{
	struct side *s = &p->side[side];
	struct ibv_send_wr wr, *bad;
	struct ibv_sge sge;

	if (p->type == IBV_QPT_XRC_SEND && side)
		return;
	pthread_mutex_lock(&p->lock);
	if (s->posted == s->done || !s->op[(s->posted - 1) % DEPTH].signaled) {
		describe(p, side, &wr, &sge, true);
		CHECK_EQ(ibv_post_send(s->qp, &wr, &bad), 0);
	}
	pthread_mutex_unlock(&p->lock);
}

static void post_some(void)
{
	struct pair *p = &pairs[below(PAIRS)];

	if (pthread_mutex_trylock(&p->lock))
		return;
	if (p->state == OPEN || p->state == BROKEN)
		post(p, (int)below(2));
	pthread_mutex_unlock(&p->lock);
}

/* ---- Pairs. By their owner ---- */

static void move(struct pair *p, int side, enum ibv_qp_state next, const uint32_t psn[2])
{
	struct ibv_qp *qp = p->side[side].qp;
	struct ibv_qp_attr attr;
	struct world *at = &w[world_of(p, side)];
	int mask = world_attr(at, qp->qp_type, next, p->side[!side].qp->qp_num, &attr);
	int r;

	attr.sq_psn = psn[side];
	attr.rq_psn = psn[!side];
	r = ibv_modify_qp(qp, &attr, mask);
	EXPECT(r == 0, "modify %d to %d: %d", qp->state, next, r);
}

static void connect_pair(struct pair *p)
{
	uint32_t psn[2] = { (uint32_t)below(1 << 24), (uint32_t)below(1 << 24) };

	pthread_mutex_lock(&p->lock);
	for (int i = 0; i < 2; i++) {
		struct side *s = &p->side[i];

		s->posted = s->done = s->recvs = s->recvs_done = s->seq_in = s->seq_out = 0;
		s->seen = 0;
		s->failed = false;
		memset(s->recv_posted, 0, sizeof(s->recv_posted));
		fill(source(s), p, i, SOURCE_SEQ, SLOT);
	}
	p->interfered = p->no_refill = false;
	pthread_mutex_unlock(&p->lock);
	for (int i = 0; i < 2; i++)
		move(p, i, IBV_QPS_INIT, psn);
	for (int i = 0; i < 2; i++) {
		move(p, i, IBV_QPS_RTR, psn);
		if (p->type != IBV_QPT_XRC_SEND)
			refill(p, i);
	}
	for (int i = 0; i < 2; i++)
		if (p->type != IBV_QPT_XRC_SEND || i == 0)
			move(p, i, IBV_QPS_RTS, psn);
	pthread_mutex_lock(&p->lock);
	p->state = OPEN;
	pthread_mutex_unlock(&p->lock);
}

static struct ibv_qp *make_qp(struct pair *p, int side)
{
	struct side *s = &p->side[side];
	int world = world_of(p, side);
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cqs[world][s->cq[0]],
		.recv_cq = cqs[world][s->cq[1]],
		.srq = s->srq >= 0 ? srqs[world].srq : NULL,
		.cap = { DEPTH, DEPTH, 1, 1, INLINE },
		.qp_type = p->type,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = w[world].pd,
	};
	struct ibv_qp *qp;

	if (p->type == IBV_QPT_XRC_SEND) {
		attr.srq = NULL;
		if (side)
			attr = (struct ibv_qp_init_attr_ex){
				.qp_type = IBV_QPT_XRC_RECV,
				.comp_mask = IBV_QP_INIT_ATTR_XRCD,
				.xrcd = xrcd,
			};
	}
	qp = ibv_create_qp_ex(w[world].ctx, &attr);
	EXPECT(qp, "create_qp type %d side %d: %m", p->type, side);
	return qp;
}

static void create_side(struct pair *p, int side)
{
	struct side *s = &p->side[side];
	struct world *at = &w[world_of(p, side)];
	struct ibv_ah_attr ah = {
		.grh = { .dgid = at->gid, .sgid_index = (uint8_t)at->gid_index, .hop_limit = 64 },
		.is_global = 1,
		.port_num = 1,
	};

	s->cq[0] = (int)below(CQS);
	s->cq[1] = p->type == IBV_QPT_XRC_SEND ? ORDERED : (int)below(CQS);
	s->srq = p->type == IBV_QPT_XRC_SEND || (p->type == IBV_QPT_RC && !below(3)) ? 0 : -1;
	s->mem = aligned_alloc(64, MEMORY);
	s->mr = ibv_reg_mr(at->pd, s->mem, MEMORY, WORLD_ACCESS);
	s->ah = p->type == IBV_QPT_UD ? ibv_create_ah(at->pd, &ah) : NULL;
	EXPECT(s->mr && (s->ah || p->type != IBV_QPT_UD), "region, address handle: %m");
	s->qp = make_qp(p, side);
	s->qpn = s->qp->qp_num;
}

static void create_pair(struct pair *p)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC,
						  IBV_QPT_UD, IBV_QPT_XRC_SEND };

	p->type = types[below(6)];
	/* The domain is in one context. */
	if (p->type == IBV_QPT_XRC_SEND && world_of(p, 1))
		p->type = IBV_QPT_RC;
	for (int i = 0; i < 2; i++)
		create_side(p, i);
	connect_pair(p);
}

static void note_end(struct pair *p)
{
	pthread_mutex_lock(&p->lock);
	p->state = CLOSED;
	p->ended_at[p->gen % GENERATIONS] = fetch_add_acq_rel(&tick, 1) + 1;
	p->gen++;
	fetch_add_relaxed(&generations, 1);
	pthread_mutex_unlock(&p->lock);
}

static void set_state(struct pair *p, enum state state)
{
	pthread_mutex_lock(&p->lock);
	p->state = state;
	pthread_mutex_unlock(&p->lock);
}

/*
 * receives: those are flushed, too. Nothing is known of the last requests if they have no
 * completion.
 */
static bool is_drained(const struct pair *p, const struct side *s, bool receives)
{
	bool signaled = s->op[(s->posted - 1) % DEPTH].signaled;

	if (s->done != s->posted && (signaled || s->failed || receives))
		return false;
	return !receives || s->srq >= 0 || p->type == IBV_QPT_XRC_SEND || s->recvs_done == s->recvs;
}

static bool drained(struct pair *p, bool receives)
{
	bool all;

	pthread_mutex_lock(&p->lock);
	all = is_drained(p, &p->side[0], receives) && is_drained(p, &p->side[1], receives);
	pthread_mutex_unlock(&p->lock);
	return all;
}

static void report(const struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		const struct side *s = &p->side[i];

		fprintf(stderr,
			"pair %d, type %d, side %d: QP 0x%x, state %d: %u of %u sends, %u of %u "
			"receives; failed %d; CQs %d %d, SRQ %d\n",
			(int)(p - pairs), p->type, i, s->qp->qp_num, s->qp->state, s->done,
			s->posted, s->recvs_done, s->recvs, s->failed, s->cq[0], s->cq[1], s->srq);
	}
}

static void drain(struct pair *p, bool receives)
{
	time_t end = time(NULL) + LIMIT_S * test_slower();

	while (!drained(p, receives)) {
		if (!poll_some())
			sched_yield();
		srq_refill(&srqs[0]);
		srq_refill(&srqs[1]);
		srq_refill(&xsrq);
		if (time(NULL) > end) {
			report(p);
			EXPECT(false, "completions are missing");
		}
	}
}

static void to_state(struct pair *p, int side, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int r = ibv_modify_qp(p->side[side].qp, &attr, IBV_QP_STATE);

	EXPECT(r == 0, "modify to %d: %d", state, r);
}

static void destroy_pair(struct pair *p)
{
	for (int i = 0; i < 2; i++)
		CHECK_EQ(ibv_destroy_qp(p->side[i].qp), 0);
	note_end(p);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(ibv_dereg_mr(p->side[i].mr), 0);
		if (p->side[i].ah)
			CHECK_EQ(ibv_destroy_ah(p->side[i].ah), 0);
		free(p->side[i].mem);
	}
}

/* From now on requests may fail; interfered: also because a QP is changed. */
static void expect_failures(struct pair *p, enum state state, bool interfered)
{
	pthread_mutex_lock(&p->lock);
	p->state = state;
	p->no_refill = true;
	p->interfered = interfered;
	pthread_mutex_unlock(&p->lock);
}

static void post_and_poll(uint64_t most)
{
	for (uint64_t i = below(most); i; i--) {
		post_some();
		poll_some();
	}
}

/* By bad requests and by moving the QPs to ERR, while others post. Everything is flushed. */
static void break_pair(struct pair *p)
{
	int first = (int)below(2);

	expect_failures(p, BROKEN, below(4));
	post_and_poll(50);
	to_state(p, first, IBV_QPS_ERR);
	post_and_poll(50);
	to_state(p, !first, IBV_QPS_ERR);
	post_and_poll(20);
	set_state(p, CLOSING);
	for (int i = 0; i < 2; i++)
		post_last(p, i);
	drain(p, true);
}

static void end_pair(struct pair *p)
{
	/* What an unreliable QP sent before may still be on its way. */
	bool reset = is_reliable(p) && below(3) == 0;
	unsigned int how = (unsigned int)below(4);

	if (how > 1)
		break_pair(p);
	set_state(p, CLOSING);
	if (how == 1)
		drain(p, false);
	expect_failures(p, CLOSING, true);
	if (!reset) {
		destroy_pair(p);
		return;
	}
	for (int i = 0; i < 2; i++)
		to_state(p, i, IBV_QPS_RESET);
	note_end(p);
	connect_pair(p);
}

static void own_step(int thread)
{
	struct pair *p = &pairs[thread * OWN + (int)below(OWN)];

	if (p->state == CLOSED)
		create_pair(p);
	else if (below(6) == 0)
		end_pair(p);
}

/* ---- What else threads do ---- */

static void moderate_step(void)
{
	struct ibv_modify_cq_attr attr = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = { (uint16_t)below(4), (uint16_t)(1 + below(50)) },
	};

	CHECK_EQ(ibv_modify_cq(cqs[below(WORLDS)][below(CQS)], &attr), 0);
}

static void resize_step(void)
{
	struct ibv_cq *cq = cqs[below(WORLDS)][below(CQS)];

	CHECK_EQ(ibv_resize_cq(cq, CQ_LEAST + (int)below(CQ_LEAST)), 0);
}

static void region_step(void)
{
	struct world *at = &w[below(WORLDS)];
	struct buffer b = world_buffer(at, 4096 + below(100000), WORLD_ACCESS);
	struct ibv_pd *pd = ibv_alloc_pd(at->ctx);

	CHECK_EQ(ibv_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0), 0);
	world_free(&b);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
}

/* A CQ of its own on the shared channel, whose events somebody else acknowledges. */
static void channel_step(void)
{
	int world = (int)below(WORLDS);
	struct ibv_cq *cq = ibv_create_cq(w[world].ctx, 32, NULL, channels[world], 0);
	struct ibv_qp *qp;
	struct ibv_wc wc[8];

	CHECK(cq);
	CHECK_EQ(ibv_req_notify_cq(cq, 0), 0);
	qp = world_flushed(&w[world], cq, 8);
	if (below(2))
		world_poll(cq, wc, 8);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_poll_cq(cq, 8, wc), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
}

static void limit_step(void)
{
	struct ibv_srq_attr attr = { .srq_limit = (uint32_t)below(SRQ_DEPTH) };
	struct srq *s = below(3) ? &srqs[below(WORLDS)] : &xsrq;
	int r;

	CHECK_EQ(ibv_modify_srq(s->srq, &attr, IBV_SRQ_LIMIT), 0);
	/* It may have more entries at the moment. */
	attr.max_wr = 2 * SRQ_DEPTH << below(3);
	r = below(4) ? 0 : ibv_modify_srq(s->srq, &attr, IBV_SRQ_MAX_WR);
	CHECK(r == 0 || r == EINVAL);
	CHECK_EQ(ibv_query_srq(s->srq, &attr), 0);
}

static void query_step(void)
{
	struct pair *p = &pairs[below(PAIRS)];
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	if (pthread_mutex_trylock(&p->lock))
		return;
	if (p->state == OPEN)
		CHECK_EQ(ibv_query_qp(p->side[0].qp, &attr, 0xfffff, &init), 0);
	pthread_mutex_unlock(&p->lock);
}

static void (*const others[])(void) = {
	resize_step, region_step, channel_step, limit_step, query_step, moderate_step,
};

static unsigned long steps;	/* of each thread */

static void *run_thread(void *arg)
{
	int thread = (int)(intptr_t)arg;

	threads_begin((uint64_t)thread);
	for (unsigned long i = 0; i < steps && !load_acquire(&stop); i++) {
		unsigned int what = (unsigned int)below(64);

		if (what < ARRAY_SIZE(others))
			others[what]();
		else if (what < 10)
			own_step(thread);
		else if (what % 2)
			post_some();
		else
			poll_some();
	}
	for (int i = 0; i < OWN; i++) {
		struct pair *p = &pairs[thread * OWN + i];

		if (p->state == CLOSED)
			continue;
		break_pair(p);
		destroy_pair(p);
	}
	return NULL;
}

static bool readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

/* An event can go with its CQ or QP after poll() has seen it, so nobody may wait for it. */
static void set_nonblocking(int fd)
{
	CHECK_EQ(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
}

/* Whether a call that fetches an event did so, of what it returned. */
static bool took(int r)
{
	CHECK(r == 0 || errno == EAGAIN);
	return r == 0;
}

/* The only one that polls the evented CQ of a context. */
static void *run_events(void *arg)
{
	int world = (int)(intptr_t)arg, n;
	struct ibv_cq *cq;
	void *context;

	threads_begin(THREADS + (uint64_t)world);
	while (load_acquire(&stop) < 2) {
		CHECK_EQ(ibv_req_notify_cq(cqs[world][EVENTED], 0), 0);
		while (poll_cq(world, EVENTED))
			;
		if (!readable(channels[world]->fd, QUIET_MS)) {
			n = poll_cq(world, EVENTED);
			EXPECT(!n || readable(channels[world]->fd, WORLD_LIMIT_S * 1000),
			       "%d completions raised no event", n);
			continue;
		}
		if (took(ibv_get_cq_event(channels[world], &cq, &context)))
			ibv_ack_cq_events(cq, 1);
	}
	return NULL;
}

static bool is_expected(enum ibv_event_type type)
{
	return type == IBV_EVENT_QP_LAST_WQE_REACHED || type == IBV_EVENT_SRQ_LIMIT_REACHED ||
	       type == IBV_EVENT_QP_ACCESS_ERR || type == IBV_EVENT_QP_REQ_ERR ||
	       type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_COMM_EST;
}

static void *run_async(void *arg)
{
	struct ibv_context *ctx = w[(intptr_t)arg].ctx;
	struct ibv_async_event e;

	while (load_acquire(&stop) < 2) {
		if (!readable(ctx->async_fd, QUIET_MS) || !took(ibv_get_async_event(ctx, &e)))
			continue;
		EXPECT(is_expected(e.event_type), "%s", ibv_event_type_str(e.event_type));
		ibv_ack_async_event(&e);
	}
	return NULL;
}

/* ---- All of it ---- */

static void open_srq(struct srq *s, int world, enum ibv_srq_type type)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = SRQ_DEPTH, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = type,
		.pd = w[world].pd,
	};

	if (type == IBV_SRQT_XRC) {
		attr.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
		attr.xrcd = xrcd;
		attr.cq = cqs[world][ORDERED];
		s->mark = XRC_MARK;
	}
	s->srq = ibv_create_srq_ex(w[world].ctx, &attr);
	EXPECT(s->srq, "SRQ: %m");
	if (type == IBV_SRQT_XRC)
		CHECK_EQ(ibv_get_srq_num(s->srq, &s->number), 0);
	s->buf = world_buffer(&w[world], (size_t)SRQ_SLOTS * SRQ_SLOT, WORLD_ACCESS);
	for (uint32_t i = 0; i < SRQ_SLOTS; i++)
		s->free[s->num_free++] = i;
	pthread_mutex_init(&s->lock, NULL);
	srq_refill(s);
}

static void open_world(int i)
{
	world_open(&w[i]);
	channels[i] = ibv_create_comp_channel(w[i].ctx);
	counter.mr[i] = ibv_reg_mr(w[i].pd, counter.value, sizeof(*counter.value), WORLD_ACCESS);
	CHECK(channels[i] && counter.mr[i]);
	set_nonblocking(channels[i]->fd);
	set_nonblocking(w[i].ctx->async_fd);
	for (int j = 0; j < CQS; j++) {
		cqs[i][j] = ibv_create_cq(w[i].ctx, CQ_LEAST, NULL,
					  j == EVENTED ? channels[i] : NULL, 0);
		CHECK(cqs[i][j]);
	}
	open_srq(&srqs[i], i, IBV_SRQT_BASIC);
}

static void close_world(int i)
{
	CHECK_EQ(ibv_destroy_srq(srqs[i].srq), 0);
	world_free(&srqs[i].buf);
	for (int j = 0; j < CQS; j++)
		CHECK_EQ(ibv_destroy_cq(cqs[i][j]), 0);
	CHECK_EQ(ibv_destroy_comp_channel(channels[i]), 0);
	CHECK_EQ(ibv_dereg_mr(counter.mr[i]), 0);
	world_close(&w[i]);
}

static void set_up(void)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};

	counter.value = aligned_alloc(64, 64);
	*counter.value = 0;
	for (int i = 0; i < WORLDS; i++)
		open_world(i);
	xrcd = ibv_open_xrcd(w[0].ctx, &attr);
	CHECK(xrcd);
	open_srq(&xsrq, 0, IBV_SRQT_XRC);
	for (int i = 0; i < PAIRS; i++)
		pthread_mutex_init(&pairs[i].lock, NULL);
}

static void tear_down(void)
{
	CHECK_EQ(ibv_destroy_srq(xsrq.srq), 0);
	world_free(&xsrq.buf);
	CHECK_EQ(ibv_close_xrcd(xrcd), 0);
	for (int i = 0; i < WORLDS; i++)
		close_world(i);
	free(counter.value);
}

static void start(pthread_t *threads, int n, void *(*run)(void *))
{
	for (int i = 0; i < n; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, run, (void *)(intptr_t)i), 0);
}

static void end(const pthread_t *threads, int n)
{
	for (int i = 0; i < n; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS], events[WORLDS], asyncs[WORLDS];

	steps = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000;
	threads_start();
	set_up();
	start(events, WORLDS, run_events);
	start(asyncs, WORLDS, run_async);
	start(threads, THREADS, run_thread);
	end(threads, THREADS);
	store_release(&stop, 2);
	end(events, WORLDS);
	end(asyncs, WORLDS);
	EXPECT(*counter.value >= fetched_adds && *counter.value <= counter.adds,
	       "%" PRIu64 ", %" PRIu64 " of %" PRIu64 " adds", *counter.value, fetched_adds,
	       counter.adds);
	tear_down();
	printf("%" PRIu64 " completions, %" PRIu64 " pairs\n", completions, generations);
	return 0;
}
