/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Feeds one RoCE engine with whatever a hostile peer, a careless program and failing callbacks can
 * come up with: packets that are nearly right, wrong or random, posted requests, state changes,
 * time.  The engine must not crash or hang, its output must end, and its own checks (roce/check.c)
 * must hold.
 *
 * The input is a program of one-byte steps with operands, so that a fuzzer can learn it.
 */
#include "fuzz/fuzz.h"
#include "fuzz/input.h"
#include "unit/roce_env.h"

enum {
	MAX_PACKETS = 8 * ENV_MEM / 256, /* no drain needs more: a few READs of all memory */
};

/* A length with a liking for the borders of packets. */
static uint32_t length(struct input *in)
{
	static const uint32_t likely[] = { 0, 1, 3, 8, 255, 256, 257, 511, 512, 1024, 5000, 70000 };
	uint8_t b = byte(in);

	return b < 0xf0 ? likely[b % ARRAY_SIZE(likely)] : word(in);
}

static void drain(struct roce_env *e)
{
	unsigned int n = 0;

	while (env_output(e)) {
		FUZZ_CHECK(++n <= MAX_PACKETS);
	}
}

static void post_send(struct roce_env *e, struct input *in)
{
	struct send_wqe *w;

	if (e->wq.sq.head - e->wq.sq.done == ENV_DEPTH)
		return;
	w = env_post(e, byte(in) % 17, byte(in) * 8, length(in));
	w->flags |= byte(in) & 31;
	w->remote_addr += byte(in) & 1;
	w->atomic.swap = word(in);
	if (e->wq.type == IBV_QPT_UD) {
		w->ud.path = byte(in) & 1 ? &e->wq.path : NULL;
		w->ud.qkey = word(in);
	}
	if (w->flags & IBV_SEND_INLINE && w->length <= 256) {
		w->flags |= WQE_DATA_INLINE;
		w->num_sge = 0;
	}
}

static void post_recv(struct roce_env *e, struct input *in)
{
	struct recv_wqe *w = rq_wqe(&e->wq.rq, e->wq.rq.head);
	uint8_t kind;

	if (e->wq.rq.head - e->wq.rq.next >= ENV_DEPTH - 1)
		return;
	env_post_recv(e, byte(in), length(in));
	/* One in four wants only a part of its message. */
	kind = byte(in);
	if (!(kind & 3)) {
		w->skip = length(in);
		w->clip = kind & 4;
	}
}

/* The PSN that the engine waits for on either side, or one near it, or any. */
static uint32_t likely_psn(struct roce_env *e, struct input *in)
{
	uint8_t b = byte(in);

	if (b < 0x60)
		return e->qp.resp.epsn;
	if (b < 0xa0)
		return e->qp.comp.una;
	if (b < 0xc0)
		return psn_add(e->qp.comp.una, b & 15);
	return b < 0xf0 ? psn_add(e->qp.resp.epsn, (b & 15) - 8) : word(in);
}

static void input_packet(struct roce_env *e, struct input *in)
{
	static uint8_t payload[ROCE_MAX_MTU];
	uint8_t op = byte(in);
	struct roce_pkt pkt = env_pkt(e, op & 0x1f, likely_psn(e, in), 0);

	if (byte(in) > 0xf0)
		pkt.bth.opcode = op;
	pkt.bth.ack_req = byte(in) & 1;
	pkt.bth.mig_req = byte(in) & 1;
	pkt.payload = payload;
	pkt.payload_len = min(length(in), roce_opcode_info(pkt.bth.opcode)->max_payload + 0u);
	pkt.reth.len = byte(in) & 1 ? pkt.payload_len : length(in);
	pkt.reth.va += byte(in) & 0x0f ? 0 : word(in);
	pkt.reth.rkey += byte(in) & 0x1f ? 0 : 1;
	pkt.atomic.va = pkt.reth.va;
	pkt.atomic.rkey = pkt.reth.rkey;
	pkt.aeth.syndrome = byte(in) & 3 ? byte(in) % 32 : byte(in);
	pkt.aeth.msn = e->qp.comp.msn + byte(in) % 4;
	pkt.xrc_srqn += byte(in) & 0x1f ? 0 : 1;
	pkt.path.traffic_class = byte(in) & 3;
	env_input(e, &pkt);
}

static void move(struct roce_env *e, struct input *in)
{
	static const enum ibv_qp_state next[] = {
		[IBV_QPS_RESET] = IBV_QPS_INIT, [IBV_QPS_INIT] = IBV_QPS_RTR,
		[IBV_QPS_RTR] = IBV_QPS_RTS,    [IBV_QPS_RTS] = IBV_QPS_SQD,
		[IBV_QPS_SQD] = IBV_QPS_RTS,    [IBV_QPS_SQE] = IBV_QPS_RTS,
		[IBV_QPS_ERR] = IBV_QPS_RESET,
	};
	uint8_t b = byte(in);

	e->wq.sqd_notify = b & 1;
	if (b < 0x10)
		env_move(e, IBV_QPS_ERR);
	else if (b < 0x20)
		roce_qp_fail(&e->qp, IBV_WC_GENERAL_ERR, REASON_CQ_OVERRUN);
	else
		env_move(e, next[e->wq.state]);
}

/* To the next deadline, whatever it is of, or anywhere. */
static void pass_time(struct roce_env *e, struct input *in)
{
	uint64_t next = roce_next_timeout(&e->qp);

	if (next != VRB_NEVER && byte(in) & 1)
		e->now = max(e->now, next);
	else
		e->now += word(in);
	roce_timeout(&e->qp, e->now);
}

static void configure(struct roce_env *e, struct input *in)
{
	e->wq.access = word(in);
	e->wq.max_rd_atomic = byte(in) % (ENV_RD + 1);
	e->wq.mig_state = byte(in) % 3;
	e->wq.alt_path = e->wq.path;
	e->wq.timeout = byte(in) & 31;
	e->wq.retry_cnt = byte(in) & 7;
	e->wq.rnr_retry = byte(in) & 7;
	roce_qp_changed(&e->qp);
}

static void revive(struct roce_env *e)
{
	drain(e);
	env_move(e, IBV_QPS_RESET);
	env_rts(e);
}

static void step(struct roce_env *e, struct input *in)
{
	uint8_t b = byte(in);

	e->num_cqes = e->num_events = 0;
	if (e->wq.state == IBV_QPS_ERR && b % 4 == 0)
		revive(e);
	if (b < 0x40)
		post_send(e, in);
	else if (b < 0x58)
		post_recv(e, in);
	else if (b < 0xc8)
		input_packet(e, in);
	else if (b < 0xd0)
		move(e, in);
	else if (b < 0xd8)
		configure(e, in);
	else if (b < 0xe0) {
		e->fail_at = byte(in) & 7;
		e->fail_why = byte(in) & 1 ? REASON_LKEY_RANGE : REASON_RKEY_UNMAPPED;
		e->overrun_at = byte(in) % 16 - 8;
	} else if (b < 0xe8)
		pass_time(e, in);
	else
		drain(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_RC,       IBV_QPT_UC,
						  IBV_QPT_UD, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV };
	static struct roce_env e;
	struct input in = { data, data + size };

	env_start(&e, types[byte(&in) % ARRAY_SIZE(types)]);
	e.wq.has_srq = byte(&in) & 1;
	while (in.p < in.end)
		step(&e, &in);
	drain(&e);
	return 0;
}
