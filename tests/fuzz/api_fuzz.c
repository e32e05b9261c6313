/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sequences of calls with good and bad handles, against an oracle of their answers: which objects
 * there are, which of them are in use, and in which state each queue pair is.  A call with a handle
 * that is missing or of another context is refused, an object in use stays, everything else works;
 * every completion is of a request that was posted, and none comes twice.
 *
 * The input is a program of one-byte steps with operands.  All objects are destroyed at its end,
 * which must work.
 */
#include <errno.h>

#include "fuzz/fuzz.h"
#include "fuzz/input.h"
#include "verbs/world.h"

enum {
	CONTEXTS = 2,
	SLOTS = 4,	/* of each kind of object */
	DEPTH = 16,	/* of the queues that world_qp() makes */
	LEN = 4096,
};

struct pd {
	struct ibv_pd *pd;
	unsigned int users;
	int ctx;
};

struct cq {
	struct ibv_cq *cq;
	unsigned int users;
	int ctx, channel;	/* channel: -1: none */
};

struct channel {
	struct ibv_comp_channel *channel;
	unsigned int users;
	int ctx;
};

struct mr {
	struct ibv_mr *mr;
	int pd;
};

struct srq {
	struct ibv_srq *srq;
	unsigned int users;
	int pd;
};

struct qp {
	struct ibv_qp *qp;
	enum ibv_qp_state state;
	int pd, cq, srq;	/* srq: -1: none */
	unsigned int sends, recvs;	/* posted and not completed */
};

static struct world world[CONTEXTS];
static struct pd pds[SLOTS];
static struct cq cqs[SLOTS];
static struct channel channels[SLOTS];
static struct mr mrs[SLOTS];
static struct srq srqs[SLOTS];
static struct qp qps[SLOTS];
static uint8_t memory[LEN];

static int slot(struct input *in)
{
	return byte(in) % SLOTS;
}

/* What destroys an object answers: EBUSY while others use it. */
static bool destroyed(int answer, unsigned int users)
{
	FUZZ_CHECK(answer == (users ? EBUSY : 0));
	return answer == 0;
}

static void pd_step(struct input *in)
{
	struct pd *p = &pds[slot(in)];

	if (p->pd) {
		if (destroyed(ibv_dealloc_pd(p->pd), p->users))
			p->pd = NULL;
		return;
	}
	p->ctx = byte(in) % CONTEXTS;
	p->pd = ibv_alloc_pd(world[p->ctx].ctx);
	FUZZ_CHECK(p->pd);
}

static void channel_step(struct input *in)
{
	struct channel *c = &channels[slot(in)];

	if (c->channel) {
		if (destroyed(ibv_destroy_comp_channel(c->channel), c->users))
			c->channel = NULL;
		return;
	}
	c->ctx = byte(in) % CONTEXTS;
	c->channel = ibv_create_comp_channel(world[c->ctx].ctx);
	FUZZ_CHECK(c->channel);
}

static void cq_destroy(struct cq *c)
{
	if (!destroyed(ibv_destroy_cq(c->cq), c->users))
		return;
	c->cq = NULL;
	if (c->channel >= 0)
		channels[c->channel].users--;
}

/* A channel of another context is refused, as are sizes that cannot be. */
static void cq_step(struct input *in)
{
	static const int sizes[] = { 1, 16, 100, -1, INT32_MAX };
	struct cq *c = &cqs[slot(in)];
	int size = sizes[byte(in) % 5], channel = byte(in) % (SLOTS + 1) - 1;
	bool good = size > 0 && size < INT32_MAX;

	if (c->cq) {
		cq_destroy(c);
		return;
	}
	c->ctx = byte(in) % CONTEXTS;
	if (channel >= 0 && !channels[channel].channel)
		channel = -1;
	c->channel = channel;
	good = good && (channel < 0 || channels[channel].ctx == c->ctx);
	errno = 0;
	c->cq = ibv_create_cq(world[c->ctx].ctx, size, c,
			      channel < 0 ? NULL : channels[channel].channel, 0);
	FUZZ_CHECK(!!c->cq == good);
	FUZZ_CHECK(c->cq || errno == EINVAL || errno == ENOMEM);
	if (c->cq && channel >= 0)
		channels[channel].users++;
}

/* Remote write and atomic rights need local write. */
static bool access_makes_sense(int access)
{
	return access & IBV_ACCESS_LOCAL_WRITE ||
	       !(access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC));
}

static void mr_step(struct input *in)
{
	struct mr *m = &mrs[slot(in)];
	int access = byte(in) & (WORLD_ACCESS | IBV_ACCESS_RELAXED_ORDERING);
	int pd = slot(in);

	if (m->mr) {
		FUZZ_CHECK(ibv_dereg_mr(m->mr) == 0);
		m->mr = NULL;
		pds[m->pd].users--;
		return;
	}
	if (!pds[pd].pd)
		return;
	m->mr = ibv_reg_mr(pds[pd].pd, memory, 1 + word(in) % LEN, access);
	FUZZ_CHECK(!!m->mr == access_makes_sense(access));
	FUZZ_CHECK(m->mr || errno == EINVAL);
	m->pd = pd;
	pds[pd].users += m->mr != NULL;
}

static void srq_step(struct input *in)
{
	struct ibv_srq_init_attr attr = { .attr = { DEPTH, 1, 0 } };
	struct srq *s = &srqs[slot(in)];
	int pd = slot(in);

	if (s->srq) {
		if (destroyed(ibv_destroy_srq(s->srq), s->users)) {
			s->srq = NULL;
			pds[s->pd].users--;
		}
		return;
	}
	if (!pds[pd].pd)
		return;
	s->srq = ibv_create_srq(pds[pd].pd, &attr);
	FUZZ_CHECK(s->srq);
	s->pd = pd;
	pds[pd].users++;
}

static void qp_destroy(struct qp *q)
{
	FUZZ_CHECK(ibv_destroy_qp(q->qp) == 0);
	q->qp = NULL;
	pds[q->pd].users--;
	cqs[q->cq].users--;
	if (q->srq >= 0)
		srqs[q->srq].users--;
}

static int ctx_of(const struct pd *p)
{
	return p->ctx;
}

static void qp_step(struct input *in)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = DEPTH,
			 .max_recv_wr = DEPTH,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.sq_sig_all = 1,
	};
	struct qp *q = &qps[slot(in)];
	int pd = slot(in), cq = slot(in), srq = byte(in) % (2 * SLOTS);
	bool good;

	if (q->qp) {
		qp_destroy(q);
		return;
	}
	attr.qp_type = types[byte(in) % 3];
	if (!pds[pd].pd)
		return;
	if (srq >= SLOTS || !srqs[srq].srq || attr.qp_type == IBV_QPT_UC)
		srq = -1;
	attr.send_cq = attr.recv_cq = cqs[cq].cq;
	attr.srq = srq < 0 ? NULL : srqs[srq].srq;
	good = cqs[cq].cq && cqs[cq].ctx == ctx_of(&pds[pd]) &&
	       (srq < 0 || ctx_of(&pds[srqs[srq].pd]) == ctx_of(&pds[pd]));
	errno = 0;
	q->qp = ibv_create_qp(pds[pd].pd, &attr);
	FUZZ_CHECK(!!q->qp == good);
	FUZZ_CHECK(q->qp || errno == EINVAL);
	if (!q->qp)
		return;
	*q = (struct qp){ .qp = q->qp, .state = IBV_QPS_RESET, .pd = pd, .cq = cq, .srq = srq };
	pds[pd].users++;
	cqs[cq].users++;
	if (srq >= 0)
		srqs[srq].users++;
}

/* The moves of IBTA vol 1, 10.3.1 that world_attr() has the attributes of. */
static bool may_move(enum ibv_qp_state from, enum ibv_qp_state to)
{
	switch (to) {
	case IBV_QPS_RESET:
	case IBV_QPS_ERR:
		return true;
	case IBV_QPS_INIT:
		return from == IBV_QPS_RESET || from == IBV_QPS_INIT;
	case IBV_QPS_RTR:
		return from == IBV_QPS_INIT;
	case IBV_QPS_RTS:
		return from == IBV_QPS_RTR;
	case IBV_QPS_SQD:
		return from == IBV_QPS_RTS || from == IBV_QPS_SQD;
	default:
		return false;
	}
}

/*
 * A fault of its own traffic takes a queue pair to an error state at any time, and so does one of
 * another that overruns their CQ, from INIT on.
 */
static void look_at_state(struct qp *q)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	FUZZ_CHECK(ibv_query_qp(q->qp, &attr, IBV_QP_STATE, &init) == 0);
	FUZZ_CHECK(attr.qp_state == q->state || attr.qp_state == IBV_QPS_ERR ||
		   attr.qp_state == IBV_QPS_SQE);
	FUZZ_CHECK(q->state >= IBV_QPS_INIT || attr.qp_state == q->state);
	q->state = attr.qp_state;
}

/* The whole mask, or without the one attribute that every move but two must have more. */
static void modify_step(struct input *in)
{
	struct qp *q = &qps[slot(in)];
	enum ibv_qp_state to = byte(in) % (IBV_QPS_SQE + 1);
	bool lacks = byte(in) % 4 == 0;
	struct ibv_qp_attr attr;
	struct world *w;
	int mask, answer;
	bool good;

	if (!q->qp)
		return;
	look_at_state(q);
	w = &world[ctx_of(&pds[q->pd])];
	mask = world_attr(w, q->qp->qp_type, to, q->qp->qp_num, &attr);
	good = may_move(q->state, to);
	if (lacks && to == IBV_QPS_INIT && q->state == IBV_QPS_RESET) {
		mask &= ~IBV_QP_PORT;
		good = false;
	} else if (lacks && to == IBV_QPS_RTS) {
		mask &= ~IBV_QP_SQ_PSN;
		good = false;
	}
	answer = ibv_modify_qp(q->qp, &attr, mask);
	if (q->state >= IBV_QPS_RTR && answer) {	/* it may have died in between */
		look_at_state(q);
		good = good && may_move(q->state, to);
	}
	/* SQD and SQE back to RTS, and RTS to itself, have masks of their own: not asked here. */
	if (to != IBV_QPS_RTS || q->state < IBV_QPS_RTS)
		FUZZ_CHECK(answer == (good ? 0 : EINVAL));
	if (answer)
		return;
	q->state = to;
	if (to == IBV_QPS_RESET)
		q->sends = q->recvs = 0;
	look_at_state(q);
}

static struct ibv_sge sge_of(struct input *in)
{
	const struct mr *m = &mrs[slot(in)];

	return (struct ibv_sge){ (uintptr_t)memory, byte(in), m->mr ? m->mr->lkey : word(in) };
}

static void recv_step(struct input *in)
{
	struct qp *q = &qps[slot(in)];
	struct ibv_sge sge = sge_of(in);
	struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 }, *bad = NULL;
	int answer;

	if (!q->qp || q->srq >= 0)
		return;
	look_at_state(q);
	if (q->state == IBV_QPS_RESET)	/* devices differ */
		return;
	answer = ibv_post_recv(q->qp, &wr, &bad);
	FUZZ_CHECK(answer == 0 || (answer == ENOMEM && q->recvs >= DEPTH));
	FUZZ_CHECK(bad == (answer ? &wr : NULL));
	q->recvs += !answer;
}

static void srq_recv_step(struct input *in)
{
	struct srq *s = &srqs[slot(in)];
	struct ibv_sge sge = sge_of(in);
	struct ibv_recv_wr wr = { .wr_id = 2, .sg_list = &sge, .num_sge = 1 }, *bad = NULL;
	int answer;

	if (!s->srq)
		return;
	answer = ibv_post_srq_recv(s->srq, &wr, &bad);
	FUZZ_CHECK(answer == 0 || answer == ENOMEM);
	FUZZ_CHECK(bad == (answer ? &wr : NULL));
}

static void send_step(struct input *in)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
						      IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						      IBV_WR_RDMA_WRITE_WITH_IMM };
	struct qp *q = &qps[slot(in)];
	struct ibv_sge sge = sge_of(in);
	struct ibv_send_wr wr = {
		.wr_id = 3, .sg_list = &sge, .num_sge = 1, .opcode = opcodes[byte(in) % 5]
	};
	struct ibv_send_wr *bad = NULL;
	int answer;

	if (!q->qp || q->qp->qp_type == IBV_QPT_UD)
		return;
	if (q->qp->qp_type == IBV_QPT_UC && wr.opcode == IBV_WR_RDMA_READ)
		return;
	look_at_state(q);
	wr.wr.rdma.remote_addr = (uintptr_t)memory + byte(in);
	wr.wr.rdma.rkey = sge.lkey + byte(in) % 2;
	answer = ibv_post_send(q->qp, &wr, &bad);
	FUZZ_CHECK(bad == (answer ? &wr : NULL));
	if (q->state < IBV_QPS_RTS)
		FUZZ_CHECK(answer == EINVAL);
	else
		FUZZ_CHECK(answer == 0 || (answer == ENOMEM && q->sends >= DEPTH));
	q->sends += !answer;
}

static struct qp *find_qp(uint32_t qpn)
{
	for (int i = 0; i < SLOTS; i++)
		if (qps[i].qp && qps[i].qp->qp_num == qpn)
			return &qps[i];
	return NULL;
}

/* With requests of 1 to 3, whose number says what they are. */
static void count_completion(const struct ibv_wc *wc)
{
	struct qp *q = find_qp(wc->qp_num);

	FUZZ_CHECK(q);	/* those of a queue pair that is destroyed go with it */
	if (wc->wr_id == 3) {
		FUZZ_CHECK(q->sends);
		q->sends--;
	} else if (wc->wr_id == 1) {
		FUZZ_CHECK(q->recvs && q->srq < 0);
		q->recvs--;
	} else {
		FUZZ_CHECK(wc->wr_id == 2 && q->srq >= 0);
	}
}

static void poll_step(struct input *in)
{
	struct cq *c = &cqs[slot(in)];
	int n = byte(in) % 9, got;
	struct ibv_wc wc[8];

	if (!c->cq)
		return;
	got = ibv_poll_cq(c->cq, n, wc);
	FUZZ_CHECK(got <= n);
	for (int i = 0; i < got; i++)
		count_completion(&wc[i]);
}

static void arm_step(struct input *in)
{
	struct cq *c = &cqs[slot(in)];

	if (c->cq)
		FUZZ_CHECK(ibv_req_notify_cq(c->cq, byte(in) % 2) == 0);
}

/* No handle at all: refused, and nothing crashes. */
static void missing_step(struct input *in)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC };
	struct ibv_srq_init_attr srq = { .attr = { 1, 1, 0 } };
	struct ibv_qp_attr attr = { 0 };

	errno = 0;
	switch (byte(in) % 10) {
	case 0:
		FUZZ_CHECK(!ibv_alloc_pd(NULL) && errno == EINVAL);
		break;
	case 1:
		FUZZ_CHECK(ibv_dealloc_pd(NULL) == EINVAL);
		break;
	case 2:
		FUZZ_CHECK(!ibv_create_cq(NULL, 1, NULL, NULL, 0) && errno == EINVAL);
		break;
	case 3:
		FUZZ_CHECK(ibv_destroy_cq(NULL) == EINVAL);
		break;
	case 4:
		FUZZ_CHECK(!ibv_create_qp(NULL, &init) && errno == EINVAL);
		break;
	case 5:
		FUZZ_CHECK(ibv_modify_qp(NULL, &attr, IBV_QP_STATE) == EINVAL);
		break;
	case 6:
		FUZZ_CHECK(ibv_destroy_qp(NULL) == EINVAL);
		break;
	case 7:
		FUZZ_CHECK(!ibv_create_srq(NULL, &srq) && errno == EINVAL);
		break;
	case 8:
		FUZZ_CHECK(!ibv_reg_mr(NULL, memory, LEN, 0) && errno == EINVAL);
		break;
	default:
		FUZZ_CHECK(ibv_dereg_mr(NULL) == EINVAL);
		break;
	}
}

static void (*const steps[])(struct input *in) = {
	pd_step,     pd_step,     channel_step, cq_step,       cq_step,     mr_step,
	mr_step,     srq_step,    qp_step,      qp_step,       modify_step, modify_step,
	modify_step, modify_step, recv_step,    srq_recv_step, send_step,   send_step,
	poll_step,   poll_step,   arm_step,     missing_step,
};

/* In the order in which nothing is in use. */
static void destroy_all(void)
{
	for (int i = 0; i < SLOTS; i++)
		if (qps[i].qp)
			qp_destroy(&qps[i]);
	for (int i = 0; i < SLOTS; i++) {
		if (cqs[i].cq)
			cq_destroy(&cqs[i]);
		if (srqs[i].srq) {
			FUZZ_CHECK(ibv_destroy_srq(srqs[i].srq) == 0);
			pds[srqs[i].pd].users--;
		}
		if (mrs[i].mr) {
			FUZZ_CHECK(ibv_dereg_mr(mrs[i].mr) == 0);
			pds[mrs[i].pd].users--;
		}
		srqs[i].srq = NULL;
		mrs[i].mr = NULL;
	}
	for (int i = 0; i < SLOTS; i++) {
		FUZZ_CHECK(!cqs[i].cq && !pds[i].users && !channels[i].users);
		if (pds[i].pd)
			FUZZ_CHECK(ibv_dealloc_pd(pds[i].pd) == 0);
		if (channels[i].channel)
			FUZZ_CHECK(ibv_destroy_comp_channel(channels[i].channel) == 0);
		pds[i].pd = NULL;
		channels[i].channel = NULL;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };

	if (!world[0].ctx) {
		setenv("VERBENA_LOG", "off", 0);
		for (int i = 0; i < CONTEXTS; i++)
			world_open(&world[i]);
	}
	while (more(&in))
		steps[byte(&in) % (sizeof(steps) / sizeof(steps[0]))](&in);
	destroy_all();
	return 0;
}
