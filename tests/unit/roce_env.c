/* SPDX-License-Identifier: BSD-2-Clause */
/* The test environment of roce_env.h. Also checks what the engine promises its caller. */
#include "roce_env.h"

#include <string.h>

static struct roce_env *env_of(struct wq_qp *wq)
{
	return container_of(wq, struct roce_env, wq);
}

static bool fails(struct roce_env *e, enum reason *why)
{
	if (e->fail_at < 0 || e->fail_at-- > 0)
		return false;
	*why = e->fail_why;
	return true;
}

static bool is_remote(enum mem_access access)
{
	return mem_access_is_remote(access);
}

static bool is_write(enum mem_access access)
{
	return access == MEM_LOCAL_WRITE || access == MEM_RECV_WRITE ||
	       access == MEM_REMOTE_WRITE || access == MEM_REMOTE_ATOMIC;
}

static enum reason check(struct wq_qp *wq, uint32_t key, uint64_t va, uint64_t len,
			 enum mem_access access)
{
	bool remote = is_remote(access);
	enum reason why;

	if (fails(env_of(wq), &why))
		return why;
	if (key != ENV_KEY && key != ENV_READONLY)
		return remote ? REASON_RKEY_UNKNOWN : REASON_LKEY_UNKNOWN;
	if (va < ENV_VA || len > ENV_MEM || va - ENV_VA > ENV_MEM - len)
		return remote ? REASON_RKEY_RANGE : REASON_LKEY_RANGE;
	if (key == ENV_READONLY && is_write(access))
		return remote ? REASON_RKEY_ACCESS : REASON_LKEY_ACCESS;
	return REASON_NONE;
}

static enum reason mem_read(struct wq_qp *wq, uint32_t key, uint64_t va, void *dst, uint32_t len,
			    enum mem_access access)
{
	enum reason why = check(wq, key, va, len, access);

	env_of(wq)->read_pdn = wq->pdn;
	if (!why)
		memcpy(dst, env_of(wq)->mem + (va - ENV_VA), len);
	return why;
}

static enum reason mem_write(struct wq_qp *wq, uint32_t key, uint64_t va, const void *src,
			     uint32_t len, enum mem_access access)
{
	enum reason why = check(wq, key, va, len, access);

	if (why)
		return why;
	memcpy(env_of(wq)->mem + (va - ENV_VA), src, len);
	env_of(wq)->writes += access == MEM_REMOTE_WRITE;
	return REASON_NONE;
}

static enum reason mem_atomic(struct wq_qp *wq, uint32_t rkey, uint64_t va, enum atomic_op op,
			      uint64_t compare_add, uint64_t swap, uint64_t *original)
{
	enum reason why = check(wq, rkey, va, 8, MEM_REMOTE_ATOMIC);
	uint64_t value;

	if (why)
		return why;
	assert_int_equal(va % 8, 0);
	memcpy(&value, env_of(wq)->mem + (va - ENV_VA), 8);
	*original = value;
	if (op == ATOMIC_OP_FETCH_ADD)
		value += compare_add;
	else if (value == compare_add)
		value = swap;
	memcpy(env_of(wq)->mem + (va - ENV_VA), &value, 8);
	env_of(wq)->atomics++;
	return REASON_NONE;
}

static enum reason mem_atomic_write(struct wq_qp *wq, uint32_t rkey, uint64_t va, uint64_t value)
{
	return mem_write(wq, rkey, va, &value, 8, MEM_REMOTE_WRITE);
}

static enum reason mem_flush(struct wq_qp *wq, uint32_t rkey, uint64_t va, uint64_t len,
			     uint8_t placement, uint8_t selectivity, bool *later)
{
	enum reason why = check(wq, rkey, va, len, MEM_REMOTE_FLUSH_GLOBAL);

	if (!why)
		env_of(wq)->flushes++;
	*later = !why && env_of(wq)->flushes_take_long;
	return why;
}

static enum reason invalidate(struct wq_qp *wq, uint32_t rkey, bool remote)
{
	enum reason why;

	if (fails(env_of(wq), &why))
		return why;
	env_of(wq)->invalidated = rkey;
	return REASON_NONE;
}

static enum reason bind_mw(struct wq_qp *wq, const struct send_wqe *wqe)
{
	enum reason why;

	if (fails(env_of(wq), &why))
		return why;
	env_of(wq)->binds++;
	return REASON_NONE;
}

static unsigned int direct(struct wq_qp *wq, enum reason *why)
{
	if (fails(env_of(wq), why))
		return 0;
	return min(env_of(wq)->direct_max, wq->sq.head - wq->sq.next);
}

static bool can_pull(struct wq_qp *wq, const struct send_wqe *w)
{
	return true;
}

static enum reason pull(struct wq_qp *wq, const struct wq_pull *from, uint64_t offset,
			uint64_t total, const struct ibv_sge *dst, uint32_t num_dst,
			enum mem_access access)
{
	enum reason why;

	if (fails(env_of(wq), &why))
		return why;
	if (env_of(wq)->refuses_pull && env_of(wq)->refuses_pull())
		return REASON_PEER_DIED;
	assert_int_equal(from->num_seg, 1);
	assert_int_equal(num_dst, 1);
	return mem_write(wq, dst->lkey, dst->addr,
			 (const void *)(uintptr_t)(from->seg->addr + offset), total, access);
}

static struct recv_wqe *recv_take(struct wq_qp *wq, uint32_t srqn, const struct wq_head *head,
				  enum reason *why)
{
	struct roce_env *e = env_of(wq);

	if (head)
		e->head = *head;
	e->heads += head != NULL;
	*why = REASON_NONE;
	if (wq->type == IBV_QPT_XRC_RECV && srqn != ENV_SRQN) {
		*why = REASON_REQ_XRC_SRQ;
		return NULL;
	}
	if (wq->rq.next == wq->rq.head)
		return NULL;
	return rq_wqe(&wq->rq, wq->rq.next++);
}

static struct roce_rd_atomic *rd_make(struct wq_qp *wq)
{
	return env_of(wq)->no_rd ? NULL : env_of(wq)->rd;
}

static void recv_untake(struct wq_qp *wq)
{
	wq->rq.next--;
	env_of(wq)->untaken++;
}

static void complete(struct wq_qp *wq, struct wq_cqe *cqe)
{
	struct roce_env *e = env_of(wq);

	assert_true(e->num_cqes < ENV_MAX_CQES);
	e->cqes[e->num_cqes++] = *cqe;
	if (e->overrun_at-- == 0)
		roce_qp_fail(&e->qp, IBV_WC_WR_FLUSH_ERR, REASON_CQ_OVERRUN);
}

static void event(struct wq_qp *wq, enum ibv_event_type type)
{
	struct roce_env *e = env_of(wq);

	assert_true(e->num_events < ENV_MAX_CQES);
	e->events[e->num_events++] = type;
}

static void violated(struct wq_qp *wq, enum key_violation which)
{
	env_of(wq)->violations[which]++;
}

static void dropped(struct wq_qp *wq, enum reason why)
{
	env_of(wq)->dropped = why;
}

static const struct wq_ops ops = {
	.mem_check = check,
	.mem_read = mem_read,
	.mem_write = mem_write,
	.mem_atomic = mem_atomic,
	.mem_atomic_write = mem_atomic_write,
	.mem_flush = mem_flush,
	.invalidate = invalidate,
	.bind_mw = bind_mw,
	.direct = direct,
	.can_pull = can_pull,
	.pull = pull,
	.recv_take = recv_take,
	.recv_untake = recv_untake,
	.rd_make = rd_make,
	.complete = complete,
	.dropped = dropped,
	.violated = violated,
	.event = event,
};

static struct net_path path_between(uint8_t from, uint8_t to)
{
	struct net_path path = {
		.src = { { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = from } },
		.dst = { { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = to } },
		.hop_limit = 64,
		.src_port = 50000,
		.dst_port = ROCE_UDP_PORT,
	};

	return path;
}

void env_init(struct roce_env *e, enum ibv_qp_type type)
{
	struct wq_ring ring = {
		.stride = ENV_STRIDE, .mask = ENV_DEPTH - 1, .limit = ENV_DEPTH, .max_sge = 8
	};

	memset(e, 0, sizeof(*e));
	e->wq = (struct wq_qp){
		.ops = &ops,
		.qpn = 0x11,
		.type = type,
		.path = path_between(1, 2),
		.mtu = 256,
		.max_msg = 1u << 31,
		.dest_qpn = 0x22,
		.sq_psn = ENV_PSN,
		.rq_psn = ENV_PSN,
		.qkey = ENV_QKEY,
		.access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
			  IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_FLUSH_GLOBAL,
		.pkey = 0xffff,
		.max_rd_atomic = ENV_RD,
		.max_dest_rd_atomic = ENV_RD,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.use_grh_area = true,
	};
	e->wq.sq.ring = e->wq.rq.ring = ring;
	e->wq.sq.ring.slots = e->send_slots;
	e->wq.rq.ring.slots = e->recv_slots;
	e->fail_at = -1;
	e->overrun_at = -1;
	for (uint32_t i = 0; i < ENV_MEM; i++)
		e->mem[i] = i * 7 + i / 251 + type;
	e->qp.ud = type == IBV_QPT_UD ? &e->ud : NULL;
	roce_qp_init(&e->qp, &e->wq, e->rd, ENV_RD);
}

void env_move(struct roce_env *e, enum ibv_qp_state to)
{
	enum ibv_qp_state from = e->wq.state;

	e->wq.state = to;
	roce_qp_moved(&e->qp, from);
}

void env_rtr(struct roce_env *e)
{
	env_move(e, IBV_QPS_INIT);
	env_move(e, IBV_QPS_RTR);
}

void env_rts(struct roce_env *e)
{
	env_rtr(e);
	env_move(e, IBV_QPS_RTS);
}

void env_start(struct roce_env *e, enum ibv_qp_type type)
{
	env_init(e, type);
	env_rts(e);
}

struct send_wqe *env_post(struct roce_env *e, uint32_t opcode, uint32_t offset, uint32_t len)
{
	struct send_wqe *w = sq_wqe(&e->wq.sq, e->wq.sq.head);

	assert_true(e->wq.sq.head - e->wq.sq.done < ENV_DEPTH);
	memset(w, 0, sizeof(*w));
	w->wr_id = e->wq.sq.head;
	w->opcode = opcode;
	w->flags = WQE_SIGNALED;
	w->length = len;
	w->num_sge = 1;
	w->sge[0] = (struct ibv_sge){ ENV_VA + offset, len, ENV_KEY };
	w->remote_addr = ENV_VA;
	w->rkey = ENV_KEY;
	w->srqn = ENV_SRQN;
	e->wq.sq.head++;
	return w;
}

void env_post_recv(struct roce_env *e, uint32_t offset, uint32_t len)
{
	struct recv_wqe *w = rq_wqe(&e->wq.rq, e->wq.rq.head);

	w->wr_id = 1000 + e->wq.rq.head;
	w->num_sge = 1;
	w->length = len;
	w->skip = w->clip = 0;
	w->sge[0] = (struct ibv_sge){ ENV_VA + offset, len, ENV_KEY };
	e->wq.rq.head++;
	roce_recv_posted(&e->qp);
}

bool env_output(struct roce_env *e)
{
	uint8_t whole[ROCE_MAX_PACKET + ROCE_ICRC_LEN];

	e->len = roce_output(&e->qp, e->buf, sizeof(e->buf), &e->out_path, e->now);
	if (!e->len)
		return false;
	assert_int_equal(e->len % 4, 0);
	assert_true(e->len <= ROCE_MAX_PACKET);
	assert_non_null(e->out_path);
	memcpy(whole, e->buf, e->len);
	memset(whole + e->len, 0, ROCE_ICRC_LEN);
	assert_int_equal(roce_decode(&e->out, whole, e->len + ROCE_ICRC_LEN), ROCE_DECODED);
	e->out.payload = e->buf + (e->out.payload - whole);
	e->out.path = *e->out_path;
	return true;
}

unsigned int env_drain(struct roce_env *e)
{
	unsigned int n = 0;

	while (env_output(e))
		n++;
	return n;
}

static uint8_t service_of(uint8_t type)
{
	switch (type) {
	case IBV_QPT_UC:
		return ROCE_SERVICE_UC;
	case IBV_QPT_UD:
		return ROCE_SERVICE_UD;
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return ROCE_SERVICE_XRC;
	default:
		return ROCE_SERVICE_RC;
	}
}

struct roce_pkt env_pkt(const struct roce_env *e, uint8_t op, uint32_t psn, uint32_t payload)
{
	static uint8_t pattern[256 + ROCE_MAX_MTU];
	struct roce_pkt pkt = {
		.bth = { .opcode = service_of(e->wq.type) | op,
			 .mig_req = true,
			 .pkey = 0xffff,
			 .dest_qpn = e->wq.qpn,
			 .pad = -payload & 3,
			 .psn = psn & 0xffffff },
		.reth = { .va = ENV_VA, .rkey = ENV_KEY, .len = payload },
		.aeth = { .syndrome = 31 },
		.deth = { .qkey = ENV_QKEY, .src_qpn = 0x22 },
		.xrc_srqn = ENV_SRQN,
		.payload = pattern + (psn & 0xff),
		.payload_len = payload,
	};

	for (size_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = i;
	pkt.path = e->wq.path;
	pkt.path.src = e->wq.path.dst;
	pkt.path.dst = e->wq.path.src;
	return pkt;
}

void env_input(struct roce_env *e, const struct roce_pkt *pkt)
{
	roce_input(&e->qp, pkt, e->now);
}

void env_request(struct roce_env *e, uint8_t op, uint32_t psn, uint32_t payload)
{
	struct roce_pkt pkt = env_pkt(e, op, psn, payload);

	pkt.bth.ack_req = true;
	env_input(e, &pkt);
}

void env_aeth(struct roce_env *e, uint8_t op, uint8_t syndrome, uint32_t psn, uint32_t payload)
{
	struct roce_pkt pkt = env_pkt(e, op, psn, payload);

	pkt.aeth.syndrome = syndrome;
	env_input(e, &pkt);
}

void env_ack(struct roce_env *e, uint32_t psn)
{
	env_aeth(e, ROCE_RC_ACKNOWLEDGE, 31, psn, 0);
}

void env_expire(struct roce_env *e)
{
	/* later than any earlier probe */
	uint64_t deadline = time_earlier(e->qp.retry.ack_deadline, e->qp.retry.rnr_deadline);

	deadline = time_earlier(deadline, e->qp.burst.resume);

	assert_true(deadline != VRB_NEVER);
	e->now = max(e->now, deadline);
	roce_timeout(&e->qp, e->now);
}

bool env_carry(struct roce_env *from, struct roce_env *to)
{
	const struct send_wqe *w;
	struct wq_seg seg;
	struct wq_pull pull = { .num_seg = 1, .seg = &seg };

	if (!env_output(from))
		return false;
	assert_int_equal(from->out.bth.dest_qpn, to->wq.qpn);
	to->now = from->now;
	w = roce_output_pull(&from->qp);
	if (w) {
		seg.addr = (uintptr_t)from->mem + (w->sge[0].addr - ENV_VA);
		seg.len = w->length;
		from->out.pull = &pull;
		from->out.payload_len = w->length;
	}
	env_input(to, &from->out);
	return true;
}

static unsigned int carry(struct roce_env *from, struct roce_env *to)
{
	unsigned int n = 0;

	while (env_carry(from, to))
		n++;
	return n;
}

unsigned int env_pump(struct roce_env *a, struct roce_env *b)
{
	unsigned int sum = 0, n;

	do {
		n = carry(a, b) + carry(b, a);
		sum += n;
	} while (n);
	return sum;
}

void env_connect(struct roce_env *a, struct roce_env *b)
{
	b->wq.path = path_between(2, 1);
	b->wq.qpn = a->wq.dest_qpn;
	b->wq.dest_qpn = a->wq.qpn;
}

void env_expect_cqe(const struct roce_env *e, uint32_t index, uint64_t wr_id,
		    enum ibv_wc_status status)
{
	assert_true(index < e->num_cqes);
	assert_int_equal(e->cqes[index].wr_id, wr_id);
	assert_int_equal(e->cqes[index].status, status);
}

void env_expect_aeth(struct roce_env *e, uint8_t syndrome, uint32_t psn, uint32_t msn)
{
	assert_true(env_output(e));
	assert_int_equal(e->out.bth.opcode & 0x1f, ROCE_RC_ACKNOWLEDGE);
	assert_int_equal(e->out.aeth.syndrome, syndrome);
	assert_int_equal(e->out.bth.psn, psn & 0xffffff);
	assert_int_equal(e->out.aeth.msn, msn);
}

void env_expect_nak(struct roce_env *e, enum roce_nak_code code, uint32_t psn)
{
	assert_true(env_output(e));
	assert_int_equal(e->out.bth.opcode & 0x1f, ROCE_RC_ACKNOWLEDGE);
	assert_int_equal(e->out.aeth.syndrome, roce_syndrome(ROCE_AETH_NAK, code));
	assert_int_equal(e->out.bth.psn, psn);
}

void env_expect_silence(struct roce_env *e)
{
	assert_false(env_output(e));
}
