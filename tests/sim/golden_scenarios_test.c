/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Replays captures of Linux soft RoCE (tests/data/pcap) against our engine:
 *
 *	requester	the work requests that a capture implies are posted to our engine. Its
 *			packets must equal soft RoCE's; the captured responses are fed to it.
 *	responder	captured requests are fed to our engine. Its responses must equal soft
 *			RoCE's.
 *	losses		captured requests, with gaps and duplicates, must take effect once
 *
 * Three differences are allowed: AckReq in the middle of messages; the credits of an ACK, which
 * soft RoCE does not use; and MigReq, which soft RoCE clears although a QP without an alternate
 * path is in state migrated (IBTA vol 1, 17.2.8). VERBENA_PCAP_DIR names the folder.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "pair.h"
#include "pcap.h"
#include "roce/icrc.h"
#include "util/compiler.h"

enum {
	OP_SEND_LAST_INV = 22, OP_SEND_ONLY_INV = 23, OP_READ_REQUEST = 12, OP_READ_FIRST = 13,
	OP_READ_ONLY = 16, OP_ACK = 17, OP_ATOMIC_ACK = 18, OP_CMP_SWAP = 19, OP_FETCH_ADD = 20,
	MAX_OURS = 512, AREA = 1 << 16, SYN_RNR = 1, SYN_NAK = 3, NAK_SEQ = 0x60,
};

/* Why the responder refuses a request. */
enum obstacle { NOTHING, NO_REGION, NO_RIGHT, TOO_SHORT, NO_QP_ACCESS };

struct scenario {
	const char *name;
	bool requester, responder, losses;
	enum obstacle obstacle;
	uint32_t mtu;
	enum ibv_qp_type type;
};

static const struct scenario scenarios[] = {
	{ "rc_send", true, true },
	{ "rc_send_v6", true, true },
	{ "rc_send_imm", true, true },
	{ "rc_send_imm_v6", true, true },
	{ "rc_send_inval", true, false },
	{ "rc_send_solicited", true, true },
	{ "rc_send_burst", true, true },
	{ "rc_write", true, true },
	{ "rc_write_v6", true, true },
	{ "rc_write_imm", true, true },
	{ "rc_read", true, true },
	{ "rc_read_v6", true, true },
	{ "rc_atomic", true, true },
	{ "rc_atomic_v6", true, true },
	{ "rc_fence", true, true },
	{ "rc_read_then_send", true, true },
	{ "rc_psn_wrap", true, true },
	{ "rc_traffic_class", true, true },
	{ "rc_traffic_class_v6", true, true },
	{ "rc_send_mtu4096", true, true, .mtu = 4096 },
	{ "rc_write_mtu4096", true, true, .mtu = 4096 },
	{ "rc_read_mtu4096", true, true, .mtu = 4096 },
	{ "rc_rnr_nak", false, true },
	{ "rc_rnr_nak_v6", false, true },
	{ "rc_rnr_write_imm", false, true },
	{ "rc_nak_bad_rkey_write", true, true, .obstacle = NO_REGION },
	{ "rc_nak_bad_rkey_write_v6", true, true, .obstacle = NO_REGION },
	{ "rc_nak_bad_rkey_read", true, true, .obstacle = NO_REGION },
	{ "rc_nak_mr_no_remote_write", true, true, .obstacle = NO_RIGHT },
	{ "rc_nak_out_of_bounds", true, true, .obstacle = TOO_SHORT },
	{ "rc_nak_qp_no_access", true, true, .obstacle = NO_QP_ACCESS },
	{ "rc_nak_qp_no_read", true, true, .obstacle = NO_QP_ACCESS },
	{ "uc_send", true, true, .type = IBV_QPT_UC },
	{ "uc_send_v6", true, true, .type = IBV_QPT_UC },
	{ "uc_write", true, true, .type = IBV_QPT_UC },
	{ "rc_loss_requests", .losses = true },
	{ "rc_loss_acks", .losses = true },
	{ "rc_loss_read", .losses = true },
	{ "rc_loss_write", .losses = true },
	{ "rc_loss_write_v6", .losses = true },
	{ "rc_loss_atomic_ack", .losses = true },
};

struct ours {
	uint8_t data[ROCE_MAX_PACKET];
	size_t len;
	struct net_path path;
};

struct replay {
	const struct scenario *s;
	struct capture cap;
	struct roce_pkt *pkt;		/* decoded, one per packet of the capture */
	struct world *w;
	struct sim_host *h;
	struct sim_key *mr;		/* all of local memory */
	struct sim_qp *qp;
	struct ours *ours;
	uint32_t made, compared;
	uint32_t used;			/* of local memory */
	uint32_t wrs, recvs, failed;
};

static bool from_a(const struct replay *r, uint32_t i)
{
	return net_addr_equal(&r->cap.packet[i].path.src, &r->cap.packet[0].path.src);
}

static uint32_t op(const struct replay *r, uint32_t i)
{
	return r->pkt[i].bth.opcode & 31;
}

static bool is_request(const struct replay *r, uint32_t i)
{
	return op(r, i) < OP_READ_FIRST || op(r, i) > OP_ATOMIC_ACK;
}

static bool is_nak(const struct replay *r, uint32_t i)
{
	return op(r, i) == OP_ACK && r->pkt[i].aeth.syndrome >> 5 == SYN_NAK &&
	       r->pkt[i].aeth.syndrome != NAK_SEQ;
}

static bool starts(uint32_t o)
{
	static const uint32_t set = 1 << 0 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 10 | 1 << 11 |
				    1 << 12 | 1 << 19 | 1 << 20 | 1 << 23;

	return set >> o & 1;
}

static bool ends(uint32_t o)
{
	return o != 0 && o != 1 && o != 6 && o != 7;
}

/* Loads and decodes the capture; false without the file. */
static bool load(struct replay *r, const struct scenario *s)
{
	const char *dir = getenv("VERBENA_PCAP_DIR");
	char path[512];

	*r = (struct replay){ .s = s };
	snprintf(path, sizeof(path), "%s/%s.pcap", dir ? dir : "tests/data/pcap", s->name);
	if (!capture_load(&r->cap, path) || !r->cap.n)
		return false;
	r->pkt = calloc(r->cap.n, sizeof(*r->pkt));
	for (uint32_t i = 0; i < r->cap.n; i++) {
		const struct capture_packet *p = &r->cap.packet[i];

		assert_int_equal(roce_decode(&r->pkt[i], p->data, p->len), ROCE_DECODED);
		assert_int_equal(roce_icrc_check(&p->path, true, p->ip_id, p->data, p->len),
				 ROCE_ICRC_GOOD);
		r->pkt[i].path = p->path;
	}
	r->ours = calloc(MAX_OURS, sizeof(*r->ours));
	return true;
}

static void unload(struct replay *r)
{
	world_free(r->w);
	capture_free(&r->cap);
	free(r->pkt);
	free(r->ours);
}

static struct net_path reversed(struct net_path p)
{
	struct net_addr src = p.src;

	p.src = p.dst;
	p.dst = src;
	return p;
}

/* Creates the host at one end of the capture, with its QP in RTS. */
static void create_end(struct replay *r, bool requester)
{
	static const struct net_config none;
	struct sim_qp_attr attr = sim_qp_defaults();
	const struct roce_pkt *first = &r->pkt[0];
	struct wq_qp *wq;
	uint32_t peer = 0;

	for (uint32_t i = 0; i < r->cap.n && !peer; i++)
		if (!from_a(r, i))
			peer = r->pkt[i].bth.dest_qpn;
	attr.type = r->s->type ? r->s->type : IBV_QPT_RC;
	attr.mtu = r->s->mtu ? r->s->mtu : 1024;
	attr.sq_depth = attr.rq_depth = 256;
	attr.timeout = 0;
	r->w = world_new(r->s->name, 1, &none);
	r->h = world_add_host(r->w, 2 * AREA);
	r->mr = sim_reg_mr(r->h, 1, r->h->base, 2 * AREA, IBV_ACCESS_LOCAL_WRITE);
	r->qp = sim_create_qp(r->h, &attr);
	wq = &r->qp->wq;
	sim_modify(r->qp, IBV_QPS_INIT);
	wq->qpn = requester ? peer : first->bth.dest_qpn;
	wq->dest_qpn = requester ? first->bth.dest_qpn : peer;
	wq->path = requester ? first->path : reversed(first->path);
	wq->rq_psn = wq->sq_psn = first->bth.psn;
	sim_modify(r->qp, IBV_QPS_RTR);
	sim_modify(r->qp, IBV_QPS_RTS);
}

/* Collects the packets that the engine sends. */
static void drain(struct replay *r)
{
	const struct net_path *path;
	size_t len;

	do {
		struct ours *o = &r->ours[r->made];

		world_check(r->w, r->made < MAX_OURS, "the engine does not stop sending");
		len = roce_output(&r->qp->roce, o->data, sizeof(o->data), &path, r->w->now);
		if (len) {
			o->len = len;
			o->path = *path;
			r->made++;
		}
	} while (len);
}

/*
 * Clears the bits in which the packets may differ: MigReq; AckReq inside a message; the credits of
 * an ACK.
 */
static void mask_allowed_differences(uint8_t *p, bool last, bool ack)
{
	p[1] &= ~0x40;
	if (!last)
		p[8] &= 0x7f;
	if (ack && p[12] >> 5 == 0)
		p[12] = 0;
}

static void compare(struct replay *r, uint32_t i)
{
	const struct capture_packet *c = &r->cap.packet[i];
	struct ours *o = &r->ours[r->compared];
	uint8_t expected[ROCE_MAX_PACKET];
	bool ack = trace_has_aeth(r->pkt[i].bth.opcode);
	bool last = ends(op(r, i)) || ack;
	bool bits_equal;

	world_check(r->w, r->compared < r->made, "packet %u of the capture (opcode %u) is not sent",
		    i + 1, op(r, i));
	memcpy(expected, c->data, c->len - 4);
	mask_allowed_differences(expected, last, ack);
	bits_equal = memcmp(o->data, c->data, min(o->len, c->len - 4)) == 0;
	mask_allowed_differences(o->data, last, ack);
	world_check(r->w, o->len == c->len - 4, "packet %u: %zu bytes, not %zu", i + 1, o->len,
		    c->len - 4);
	for (size_t k = 0; k < o->len; k++)
		world_check(r->w, o->data[k] == expected[k],
			    "packet %u (opcode %u): byte %zu is %02x, not %02x", i + 1, op(r, i), k,
			    o->data[k], expected[k]);
	if (bits_equal) {
		struct net_path path = c->path;
		uint32_t icrc = htole32(roce_icrc(&path, c->ip_id, c->data, c->len - 4));

		assert_memory_equal(&icrc, c->data + c->len - 4, 4);
	}
	r->compared++;
}

/* --- requester --- */

static const uint32_t wr_opcode[32] = {
	[0] = IBV_WR_SEND, [4] = IBV_WR_SEND, [5] = IBV_WR_SEND_WITH_IMM,
	[6] = IBV_WR_RDMA_WRITE, [10] = IBV_WR_RDMA_WRITE, [11] = IBV_WR_RDMA_WRITE_WITH_IMM,
	[12] = IBV_WR_RDMA_READ, [19] = IBV_WR_ATOMIC_CMP_AND_SWP,
	[20] = IBV_WR_ATOMIC_FETCH_AND_ADD, [23] = IBV_WR_SEND_WITH_INV,
};

/* The last packet shows the kind of SEND or WRITE. */
static void finish_wr(struct sim_wr *wr, const struct roce_pkt *p)
{
	uint32_t o = p->bth.opcode & 31;

	if (o == 3 || o == 5)
		wr->opcode = IBV_WR_SEND_WITH_IMM;
	if (o == 9 || o == 11)
		wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	if (o == OP_SEND_LAST_INV)
		wr->opcode = IBV_WR_SEND_WITH_INV;
	wr->imm = o == OP_SEND_LAST_INV || o == OP_SEND_ONLY_INV ? p->ieth_rkey : p->imm;
	if (p->bth.solicited)
		wr->flags |= IBV_SEND_SOLICITED;
}

/* The work request for the message that begins with packet i. */
static struct sim_wr rebuild_wr(struct replay *r, uint32_t i)
{
	const struct roce_pkt *p = &r->pkt[i];
	struct sim_wr wr = { .opcode = wr_opcode[op(r, i)], .flags = IBV_SEND_SIGNALED };
	uint32_t len = 0, at = r->used, k = i;
	bool whole = false;

	for (; k < r->cap.n && !whole; k++) {
		if (!from_a(r, k) || !is_request(r, k))
			continue;
		memcpy(r->h->mem + r->used + len, r->pkt[k].payload, r->pkt[k].payload_len);
		len += r->pkt[k].payload_len;
		whole = ends(op(r, k));
		finish_wr(&wr, &r->pkt[k]);
	}
	wr.remote_addr = p->reth.va;
	wr.rkey = p->reth.rkey;
	if (op(r, i) == OP_CMP_SWAP || op(r, i) == OP_FETCH_ADD) {
		wr.remote_addr = p->atomic.va;
		wr.rkey = p->atomic.rkey;
		wr.compare_add = op(r, i) == OP_CMP_SWAP ? p->atomic.compare : p->atomic.swap_add;
		wr.swap = p->atomic.swap_add;
		len = 8;
	} else if (op(r, i) == OP_READ_REQUEST || (starts(op(r, i)) && op(r, i) == 6)) {
		len = p->reth.len;
	}
	wr.num_sge = 1;
	wr.sge[0] = (struct ibv_sge){ r->h->base + at, len, r->mr->lkey };
	r->used += len;
	return wr;
}

static void request(struct replay *r, uint32_t i)
{
	if (starts(op(r, i)) && r->compared == r->made) {
		struct sim_wr wr = rebuild_wr(r, i);

		wr.wr_id = r->wrs++;
		world_check(r->w, sim_post_send(r->qp, &wr), "queue full");
		drain(r);
	}
	compare(r, i);
}

static void check_requester(struct replay *r)
{
	const struct sim_cqes *c = &r->qp->send_cqes;

	world_check(r->w, c->n == r->wrs, "%u of %u requests completed", c->n, r->wrs);
	/* Soft RoCE was still sending when the NAK arrived. */
	world_check(r->w, r->compared == r->made || r->failed, "%u packets more than soft RoCE",
		    r->made - r->compared);
	for (uint32_t i = 0; i < c->n; i++)
		world_check(r->w,
			    (c->v[i].status != IBV_WC_SUCCESS) == (r->failed && i + 1 == c->n),
			    "request %u: %s", i, trace_status(c->v[i].status));
}

static void run_requester(const struct scenario *s)
{
	struct replay r;

	if (!load(&r, s))
		fail_msg("no capture %s", s->name);
	create_end(&r, true);
	for (uint32_t i = 0; i < r.cap.n; i++) {
		if (from_a(&r, i) && is_request(&r, i)) {
			request(&r, i);
		} else if (!from_a(&r, i) && !is_request(&r, i)) {
			r.failed += is_nak(&r, i);
			roce_input(&r.qp->roce, &r.pkt[i], r.w->now);
			drain(&r);
		}
	}
	check_requester(&r);
	unload(&r);
}

/* --- responder --- */

/* The first response with the PSN of packet i after it; NULL if there is none. */
static const struct roce_pkt *response_to(const struct replay *r, uint32_t i)
{
	for (uint32_t k = i + 1; k < r->cap.n; k++)
		if (!from_a(r, k) && !is_request(r, k) && r->pkt[k].bth.psn == r->pkt[i].bth.psn)
			return &r->pkt[k];
	return NULL;
}

/* Registers a region with the addresses and the rkey of the capture. */
static void make_region(struct replay *r)
{
	uint64_t va = 0;
	uint32_t rkey = 0;
	struct sim_key *k;

	for (uint32_t i = 0; i < r->cap.n; i++) {
		uint32_t o = op(r, i);
		bool atomic = o == OP_CMP_SWAP || o == OP_FETCH_ADD;
		bool reth = starts(o) && (o == 6 || o == 10 || o == 11 || o == 12);
		uint64_t here = atomic ? r->pkt[i].atomic.va : r->pkt[i].reth.va;

		if (!from_a(r, i) || (!atomic && !reth))
			continue;
		rkey = atomic ? r->pkt[i].atomic.rkey : r->pkt[i].reth.rkey;
		va = va && va < here ? va : here;
	}
	if (r->s->obstacle == NO_REGION)
		return;
	/* The second half of the host's memory gets the captured addresses. */
	r->h->base = (va & ~4095ull) - AREA;
	r->mr->va = r->h->base;
	r->mr->len = AREA;
	k = sim_reg_mr(r->h, 1, r->h->base + AREA, r->s->obstacle == TOO_SHORT ? 4096 : AREA,
		       r->s->obstacle == NO_RIGHT ? IBV_ACCESS_LOCAL_WRITE :
						    IBV_ACCESS_LOCAL_WRITE |
							    IBV_ACCESS_REMOTE_READ |
							    IBV_ACCESS_REMOTE_WRITE |
							    IBV_ACCESS_REMOTE_ATOMIC);
	k->rkey = rkey;
	if (r->s->obstacle == TOO_SHORT)
		k->len = va - k->va + 1;
}

/* Sets the memory to the contents that the captured READs and atomics returned. */
static void set_memory(struct replay *r, uint32_t i)
{
	const struct roce_pkt *q = &r->pkt[i], *a = response_to(r, i);
	uint32_t mtu = r->qp->wq.mtu;

	if (r->s->obstacle || r->s->losses)
		return;
	if (a && op(r, i) != OP_READ_REQUEST && (a->bth.opcode & 31) == OP_ATOMIC_ACK)
		memcpy(sim_ptr(r->h, q->atomic.va), &a->atomic_ack, 8);
	if (op(r, i) != OP_READ_REQUEST)
		return;
	for (uint32_t k = i + 1; k < r->cap.n; k++) {
		uint32_t offset = (r->pkt[k].bth.psn - q->bth.psn) & 0xffffff;

		if (!from_a(r, k) && op(r, k) >= OP_READ_FIRST && op(r, k) <= OP_READ_ONLY &&
		    offset * mtu < q->reth.len)
			memcpy(sim_ptr(r->h, q->reth.va + offset * mtu), r->pkt[k].payload,
			       r->pkt[k].payload_len);
	}
}

static bool takes_recv(uint32_t o)
{
	return o == 0 || o == 4 || o == 5 || o == 23 || o == 9 || o == 11;
}

/* Posts a receive, unless soft RoCE had none at that time. */
static void provide_recv(struct replay *r, uint32_t i)
{
	const struct roce_pkt *a = response_to(r, i);
	struct sim_rwr rwr = { .wr_id = r->recvs, .num_sge = 1,
			       .sge = { { r->h->base + r->recvs % 8 * 8192, 8192, r->mr->lkey } } };

	if (a && (a->bth.opcode & 31) == OP_ACK && a->aeth.syndrome >> 5 == SYN_RNR) {
		r->qp->wq.min_rnr_timer = a->aeth.syndrome & 31;
		return;
	}
	r->recvs++;
	world_check(r->w, sim_post_recv(r->qp, &rwr), "receive queue full");
}

static void check_delivery(struct replay *r, uint32_t i)
{
	const struct roce_pkt *q = &r->pkt[i];

	if (op(r, i) == 10 && !r->s->obstacle && !r->s->losses)
		assert_memory_equal(sim_ptr(r->h, q->reth.va), q->payload, q->payload_len);
}

static void run_responder(const struct scenario *s)
{
	struct replay r;

	if (!load(&r, s))
		fail_msg("no capture %s", s->name);
	create_end(&r, false);
	make_region(&r);
	if (s->obstacle == NO_QP_ACCESS)
		r.qp->wq.access = 0;
	for (uint32_t i = 0; i < r.cap.n; i++) {
		if (from_a(&r, i) && is_request(&r, i)) {
			set_memory(&r, i);
			if (takes_recv(op(&r, i)))
				provide_recv(&r, i);
			roce_input(&r.qp->roce, &r.pkt[i], r.w->now);
			drain(&r);
			check_delivery(&r, i);
		} else if (!from_a(&r, i) && !is_request(&r, i)) {
			compare(&r, i);
		}
	}
	world_check(r.w, r.compared == r.made, "%u responses more than soft RoCE",
		    r.made - r.compared);
	unload(&r);
}

/* --- lossy links: some requests never reached the responder, others twice --- */

static uint32_t last_msn(const struct replay *r)
{
	uint32_t msn = 0;

	for (uint32_t i = 0; i < r->cap.n; i++)
		if (!from_a(r, i) && trace_has_aeth(r->pkt[i].bth.opcode) && !is_nak(r, i))
			msn = max(msn, r->pkt[i].aeth.msn);
	return msn;
}

static uint32_t our_last_msn(const struct replay *r)
{
	uint32_t msn = 0;
	struct roce_pkt p;

	for (uint32_t i = 0; i < r->made; i++) {
		uint8_t buf[ROCE_MAX_PACKET + 4] = { 0 };

		memcpy(buf, r->ours[i].data, r->ours[i].len);
		assert_int_equal(roce_decode(&p, buf, r->ours[i].len + 4), ROCE_DECODED);
		if (trace_has_aeth(p.bth.opcode))
			msn = max(msn, p.aeth.msn);
	}
	return msn;
}

static void run_losses(const struct scenario *s)
{
	struct replay r;

	if (!load(&r, s))
		fail_msg("no capture %s", s->name);
	create_end(&r, false);
	make_region(&r);
	for (uint32_t k = 0; k < 200; k++) {
		struct sim_rwr rwr = { .wr_id = k, .num_sge = 1,
				       .sge = { { r.h->base, 8192, r.mr->lkey } } };

		assert_true(sim_post_recv(r.qp, &rwr));
	}
	for (uint32_t i = 0; i < r.cap.n; i++)
		if (from_a(&r, i) && is_request(&r, i)) {
			roce_input(&r.qp->roce, &r.pkt[i], r.w->now);
			drain(&r);
		}
	world_check(r.w, r.qp->wq.state == IBV_QPS_RTS, "the QP failed");
	world_check(r.w, our_last_msn(&r) == last_msn(&r), "%u messages, not %u", our_last_msn(&r),
		    last_msn(&r));
	unload(&r);
}

static void requests_equal_soft_roce(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(scenarios); i++)
		if (scenarios[i].requester)
			run_requester(&scenarios[i]);
}

static void responses_equal_soft_roce(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(scenarios); i++)
		if (scenarios[i].responder)
			run_responder(&scenarios[i]);
}

static void lossy_requests_take_effect_once(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(scenarios); i++)
		if (scenarios[i].losses)
			run_losses(&scenarios[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_equal_soft_roce),
		cmocka_unit_test(responses_equal_soft_roce),
		cmocka_unit_test(lossy_requests_take_effect_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
