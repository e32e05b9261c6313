/* SPDX-License-Identifier: BSD-2-Clause */
/* The clock, the event heap, and the packets in flight. */
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/rx/reorder.h"
#include "roce/icrc.h"
#include "util/compiler.h"

enum {
	MAX_BURST = 1 << 20, /* packets that a QP sends in one world_kick() */
	MAX_STUCK = 1000,    /* timeouts of a QP at one time */
	RUN_PACKETS = 16,    /* most that are merged */
};

void world_fail(struct world *w, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	trace_print(w->trace);
	fprintf(stderr, "*** %s: %s (at %llu us)\n*** reproduce: VERBENA_SEED=%llu (one run)\n",
		w->name, text, (unsigned long long)(w->now / 1000), (unsigned long long)w->seed);
	fail_msg("%s: seed %llu: %s", w->name, (unsigned long long)w->seed, text);
	abort();
}

/* --- events: a binary heap by time, then by order of creation --- */

static bool earlier(const struct world_event *a, const struct world_event *b)
{
	return a->time < b->time || (a->time == b->time && a->order < b->order);
}

static void swap_events(struct world_event *a, struct world_event *b)
{
	struct world_event t = *a;

	*a = *b;
	*b = t;
}

static void push_event(struct world *w, struct world_event ev)
{
	uint32_t i = w->heap_n++;

	if (i == w->heap_cap) {
		w->heap_cap = w->heap_cap ? 2 * w->heap_cap : 256;
		w->heap = realloc(w->heap, w->heap_cap * sizeof(*w->heap));
	}
	ev.order = w->order++;
	w->heap[i] = ev;
	for (; i && earlier(&w->heap[i], &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
		swap_events(&w->heap[i], &w->heap[(i - 1) / 2]);
}

static struct world_event pop_event(struct world *w)
{
	struct world_event top = w->heap[0];
	uint32_t i = 0, child;

	w->heap[0] = w->heap[--w->heap_n];
	while ((child = 2 * i + 1) < w->heap_n) {
		if (child + 1 < w->heap_n && earlier(&w->heap[child + 1], &w->heap[child]))
			child++;
		if (!earlier(&w->heap[child], &w->heap[i]))
			break;
		swap_events(&w->heap[i], &w->heap[child]);
		i = child;
	}
	return top;
}

void world_at(struct world *w, uint64_t time, world_fn *fn, void *arg)
{
	push_event(w, (struct world_event){
			      .time = max(time, w->now), .kind = EV_CALL, .fn = fn, .arg = arg });
}

/* --- the world and its hosts --- */

struct world *world_new(const char *name, uint64_t seed, const struct net_config *cfg)
{
	struct world *w = calloc(1, sizeof(*w));

	w->name = name;
	w->seed = seed;
	w->trace = malloc(sizeof(*w->trace));
	w->trace->count = 0;
	rng_seed(&w->rng, seed);
	net_init(&w->net, cfg, seed);
	w->max_steps = 20 * 1000 * 1000;
	w->now = VRB_MSEC; /* not 0, which would hide mistakes */
	return w;
}

void world_free(struct world *w)
{
	for (uint32_t i = 0; i < w->heap_n; i++)
		free(w->heap[i].pkt);
	for (uint32_t i = 0; i < w->nhosts; i++)
		sim_host_free(w->host[i]);
	free(w->heap);
	free(w->trace);
	free(w);
}

struct sim_host *world_add_host(struct world *w, uint64_t mem_size)
{
	struct sim_host *h = calloc(1, sizeof(*h));

	h->world = w;
	h->number = w->nhosts;
	h->addr = w->ipv6 ? (struct net_addr){ { 0xfd, 0, [15] = 1 + w->nhosts } } :
			    (struct net_addr){ { [10] = 0xff, 0xff, 10, 0, 0, 1 + w->nhosts } };
	h->second_addr = h->addr;
	h->second_addr.raw[14] = 1;
	h->size = mem_size;
	h->mem = malloc(max(mem_size, (uint64_t)1));
	/*
	 * Addresses need more than 32 bits and cross a 4 GiB boundary now and then.
	 */
	h->base = 0x7f0000000000ull + (rng_below(&w->rng, 1 << 20) << 12);
	rng_fill(&w->rng, h->mem, mem_size);
	path_table_init(&h->shares);
	w->host[w->nhosts++] = h;
	return h;
}

struct net_path sim_path(const struct sim_host *from, const struct sim_host *to)
{
	return (struct net_path){
		.src = from->addr, .dst = to->addr, .src_port = 0xc000 + from->number,
		.dst_port = ROCE_UDP_PORT, .hop_limit = 64, .traffic_class = 2,
	};
}

/* --- packets --- */

static struct sim_host *host_of(struct world *w, const struct net_addr *addr)
{
	for (uint32_t i = 0; i < w->nhosts; i++)
		if (net_addr_equal(&w->host[i]->addr, addr) ||
		    net_addr_equal(&w->host[i]->second_addr, addr))
			return w->host[i];
	return NULL;
}

static struct sim_qp *qp_of(struct sim_host *h, uint32_t qpn)
{
	for (uint32_t i = 0; i < h->nqps; i++)
		if (h->qp[i]->wq.qpn == qpn)
			return h->qp[i];
	return NULL;
}

static struct net_packet *new_packet(struct world *w, uint32_t src, uint32_t dst,
				     const struct net_path *path, const uint8_t *data, size_t len)
{
	struct net_packet *p = malloc(sizeof(*p) + len);

	*p = (struct net_packet){ .serial = w->serial++, .src = src, .dst = dst, .path = *path,
				  .len = len };
	memcpy(p->data, data, len);
	return p;
}

static void decode_for_trace(struct roce_pkt *pkt, const struct net_packet *p)
{
	memset(pkt, 0, sizeof(*pkt));
	if (roce_decode(pkt, p->data, p->len) != ROCE_DECODED)
		pkt->bth.opcode = 0xff;
}

static void note_packet(struct world *w, enum trace_kind kind, uint32_t host,
			const struct net_packet *p, const struct roce_pkt *pkt)
{
	trace_packet(w->trace, w->now, kind, host, p->serial, pkt);
}

static void to_switch(struct world *w, struct net_packet *p)
{
	push_event(w, (struct world_event){
			      .time = net_egress(&w->net, p->src, p->dst, p->len, w->now),
			      .kind = EV_SWITCH, .pkt = p });
}

/* Takes ownership of p: loses, duplicates or damages it, then sends it over the sender's link. */
static void net_send(struct world *w, struct net_packet *p)
{
	struct roce_pkt pkt;

	w->net.count.sent++;
	decode_for_trace(&pkt, p);
	note_packet(w, TRACE_SEND, p->src, p, &pkt);
	if (w->tap)
		w->tap(w, p, &pkt);
	if (net_loses(&w->net, p)) {
		note_packet(w, TRACE_LOST, p->src, p, &pkt);
		free(p);
		return;
	}
	if (net_duplicates(&w->net)) {
		note_packet(w, TRACE_DUP, p->src, p, &pkt);
		to_switch(w, new_packet(w, p->src, p->dst, &p->path, p->data, p->len));
	}
	if (net_damages(&w->net, p))
		note_packet(w, TRACE_FLIPPED, p->src, p, &pkt);
	to_switch(w, p);
}

void world_inject(struct world *w, uint32_t src, const struct net_path *path, const uint8_t *data,
		  size_t len)
{
	struct sim_host *dst = host_of(w, &path->dst);

	if (dst)
		net_send(w, new_packet(w, src, dst->number, path, data, len));
}

static size_t append_icrc(struct world *w, const struct net_path *path, uint8_t *buf, size_t len)
{
	uint32_t icrc = w->skip_icrc ? 0 : htole32(roce_icrc(path, 0, buf, len));

	memcpy(buf + len, &icrc, sizeof(icrc));
	return len + sizeof(icrc);
}

/* A copy for every other host, as a switch sends multicast. */
static void send_multicast(struct world *w, uint32_t src, const struct net_path *path,
			   const uint8_t *buf, size_t len)
{
	for (uint32_t i = 0; i < w->nhosts; i++)
		if (i != src)
			net_send(w, new_packet(w, src, i, path, buf, len));
}

static void transmit(struct world *w, struct sim_qp *qp, const struct net_path *path, uint8_t *buf,
		     size_t len)
{
	uint32_t src = qp->host->number;

	world_check(w, len <= ROCE_MAX_PACKET - ROCE_ICRC_LEN, "packet of %zu bytes", len);
	len = append_icrc(w, path, buf, len);
	world_check(w, len % 4 == 0, "packet of %zu bytes is not padded", len);
	if (net_is_multicast(&path->dst))
		send_multicast(w, src, path, buf, len);
	else
		world_inject(w, src, path, buf, len);
}

static bool has_window(const struct sim_qp *qp)
{
	return qp->wq.type != IBV_QPT_UD && qp->wq.type != IBV_QPT_UC &&
	       wq_receives(qp->wq.state);
}

void world_kick(struct world *w, struct sim_qp *qp)
{
	uint8_t buf[ROCE_MAX_PACKET + 16];
	const struct net_path *path;
	size_t len;
	uint32_t n = 0;

	do {
		if (has_window(qp))
			qp->wq.active_qps =
				path_active_qps(&qp->host->shares, &qp->share, &qp->wq.path);
		while ((len = roce_output(&qp->roce, buf, ROCE_MAX_PACKET, &path, w->now)) != 0) {
			world_check(w, n++ < MAX_BURST, "QP 0x%x does not stop sending",
				    qp->wq.qpn);
			transmit(w, qp, path, buf, len);
		}
		if (roce_takes_room(&qp->roce))
			path_mark_active(&qp->host->shares, &qp->share, roce_round_trip(&qp->roce),
					 w->now);
		if (!qp->progressed || !w->progress)
			return;
		qp->progressed = false;
		w->progress(w, qp);
	} while (true);
}

static void late_kick(struct world *w, void *arg)
{
	struct sim_qp *qp = arg;

	qp->kick_pending = false;
	world_kick(w, qp);
}

static void send_overdue_ack(struct world *w, void *arg)
{
	struct sim_qp *qp = arg;
	struct roce_delayed_ack *d = &qp->delayed_ack;

	if (!d->requested || w->now - d->requested < roce_delayed_ack_time(false) ||
	    !roce_has_ack(&qp->roce))
		return;
	qp->acks_overdue++;
	roce_delayed_ack_alone(d, w->now);
	world_kick(w, qp);
}

/* As core/tx/tx_sched.c does when no thread polls. */
static bool delay_ack(struct world *w, struct sim_qp *qp)
{
	struct roce_delayed_ack *d = &qp->delayed_ack;
	bool urgent = !roce_has_ack_only(&qp->roce);

	if (!qp->delays_acks || !roce_has_ack(&qp->roce))
		return false;
	if (!urgent)
		roce_delayed_ack_requested(d, w->now);
	if (!roce_delayed_ack_may_wait(1, urgent, false, roce_delayed_ack_expects_reply(d),
				       false))
		return false;
	qp->acks_delayed++;
	world_at(w, w->now + roce_delayed_ack_time(false), send_overdue_ack, qp);
	return true;
}

/* After a call of the engine: transmits its answers, now or after w->answer_delay. */
static void answer(struct world *w, struct sim_qp *qp)
{
	if (delay_ack(w, qp))
		return;
	if (!w->answer_delay) {
		world_kick(w, qp);
	} else if (!qp->kick_pending) {
		qp->kick_pending = true;
		world_at(w, w->now + rng_below(&w->rng, w->answer_delay), late_kick, qp);
	}
}

static void run_reordered(void *arg, const struct roce_pkt *pkt)
{
	struct sim_qp *qp = arg;

	roce_input(&qp->roce, pkt, qp->host->world->now);
}

/* As core/rx/demux.c does. */
static void execute(struct world *w, struct sim_qp *qp, const struct roce_pkt *pkt)
{
	bool out_of_order = qp->holds && roce_out_of_order(&qp->roce, pkt);
	uint32_t expected = roce_expected_psn(&qp->roce);

	if (pkt->more && (reorder_waits(qp->held) || !roce_takes_run(&qp->roce, pkt))) {
		for (uint32_t i = 0; i <= pkt->more; i++) {
			struct roce_pkt one = roce_run_packet(pkt, i);

			execute(w, qp, &one);
		}
		return;
	}
	roce_input(&qp->roce, pkt, w->now);
	if (out_of_order)
		reorder_insert(&qp->held, pkt, w->now);
	else if (qp->held && roce_expected_psn(&qp->roce) != expected)
		reorder_deliver(qp->held, &qp->roce, run_reordered, qp, w->now);
}

static void input(struct world *w, struct sim_qp *qp, const struct net_packet *p,
		  const struct roce_pkt *pkt)
{
	if (qp->wq.state == IBV_QPS_RESET || qp->wq.state == IBV_QPS_INIT)
		return;
	note_packet(w, TRACE_RECV, p->dst, p, pkt);
	w->net.count.delivered += 1 + pkt->more;
	execute(w, qp, pkt);
	answer(w, qp);
}

static bool is_multicast_qpn(const struct roce_pkt *pkt)
{
	return pkt->bth.dest_qpn == 0xffffff;
}

static void input_all(struct world *w, struct sim_host *h, const struct net_packet *p,
		      const struct roce_pkt *pkt)
{
	for (uint32_t i = 0; i < h->nqps; i++)
		if (h->qp[i]->wq.type == IBV_QPT_UD)
			input(w, h->qp[i], p, pkt);
}

static bool is_intact(const struct world *w, const struct net_packet *p)
{
	return w->skip_icrc ||
	       roce_icrc_check(&p->path, true, 0, p->data, p->len) == ROCE_ICRC_GOOD;
}

/* Does the next packet to arrive continue the run, with the time for that not over? */
static bool is_merged(const struct world *w, const struct net_packet *first,
		      const struct roce_pkt *run)
{
	const struct world_event *ev = &w->heap[0];

	return w->heap_n && ev->kind == EV_ARRIVE && ev->time <= w->now + w->merge &&
	       run->more + 1 < RUN_PACKETS && ev->pkt->dst == first->dst &&
	       ev->pkt->len == first->len &&
	       !memcmp(&ev->pkt->path, &first->path, sizeof(first->path)) &&
	       roce_run_continues(run, first->data, ev->pkt->data) && is_intact(w, ev->pkt);
}

/* Takes the packets that are merged with the first, and their bytes behind its own. */
static void merge(struct world *w, const struct net_packet *first, struct roce_pkt *run)
{
	static uint8_t bytes[RUN_PACKETS * (ROCE_MAX_PACKET + ROCE_ICRC_LEN)];

	if (!w->merge || roce_opcode_info(run->bth.opcode)->place != ROCE_PLACE_MIDDLE)
		return;
	memcpy(bytes, first->data, first->len);
	run->payload = bytes + (run->payload - first->data);
	while (is_merged(w, first, run)) {
		struct net_packet *next = pop_event(w).pkt;
		struct roce_pkt pkt;

		decode_for_trace(&pkt, next);
		note_packet(w, TRACE_RECV, next->dst, next, &pkt);
		memcpy(bytes + (run->more + 1) * first->len, next->data, next->len);
		roce_run_add(run, next->data, next->len);
		free(next);
	}
}

static void arrive(struct world *w, struct net_packet *p)
{
	struct sim_host *h = w->host[p->dst];
	struct roce_pkt pkt;
	struct sim_qp *qp;

	decode_for_trace(&pkt, p);
	pkt.path = p->path;
	if (!is_intact(w, p)) {
		note_packet(w, TRACE_BAD_ICRC, p->dst, p, &pkt);
		return;
	}
	if (pkt.bth.opcode == 0xff)
		return;
	qp = qp_of(h, pkt.bth.dest_qpn);
	if (is_multicast_qpn(&pkt)) {
		input_all(w, h, p, &pkt);
	} else if (qp) {
		merge(w, p, &pkt);
		input(w, qp, p, &pkt);
	} else {
		note_packet(w, TRACE_NO_QP, p->dst, p, &pkt);
	}
}

static void at_switch(struct world *w, struct net_packet *p)
{
	struct roce_pkt pkt;
	uint64_t arrival;

	if (net_ingress(&w->net, p, w->now, &arrival)) {
		push_event(w, (struct world_event){ .time = arrival, .kind = EV_ARRIVE, .pkt = p });
		return;
	}
	decode_for_trace(&pkt, p);
	note_packet(w, TRACE_FULL, p->dst, p, &pkt);
	free(p);
}

/* --- the loop --- */

static struct sim_qp *next_timer(struct world *w, uint64_t *when)
{
	struct sim_qp *first = NULL;

	*when = VRB_NEVER;
	for (uint32_t i = 0; i < w->nhosts; i++)
		for (uint32_t j = 0; j < w->host[i]->nqps; j++) {
			uint64_t t = roce_next_timeout(&w->host[i]->qp[j]->roce);

			if (t < *when) {
				*when = t;
				first = w->host[i]->qp[j];
			}
		}
	return first;
}

static void run_timer(struct world *w, struct sim_qp *qp)
{
	trace_note(w->trace, w->now, TRACE_TIMEOUT, qp->host->number, qp->wq.qpn, 0, 0, 0);
	roce_timeout(&qp->roce, w->now);
	answer(w, qp);
}

static void run_event(struct world *w)
{
	struct world_event ev = pop_event(w);

	switch (ev.kind) {
	case EV_SWITCH:
		at_switch(w, ev.pkt);
		break;
	case EV_ARRIVE:
		arrive(w, ev.pkt);
		free(ev.pkt);
		break;
	case EV_CALL:
		ev.fn(w, ev.arg);
		break;
	}
}

void world_run_until(struct world *w, uint64_t end)
{
	uint32_t stuck = 0;

	for (;;) {
		uint64_t event = w->heap_n ? w->heap[0].time : VRB_NEVER, timer;
		struct sim_qp *qp = next_timer(w, &timer);
		uint64_t next = max(time_earlier(event, timer), w->now);

		if (next == VRB_NEVER || next > end)
			break;
		stuck = next == w->now && timer < event ? stuck + 1 : 0;
		world_check(w, stuck < MAX_STUCK, "QP 0x%x: its timer does not advance",
			    qp ? qp->wq.qpn : 0);
		world_check(w, w->steps++ < w->max_steps, "the run does not end");
		w->now = next;
		if (event <= timer)
			run_event(w);
		else
			run_timer(w, qp);
	}
	if (end != VRB_NEVER)
		w->now = end;
}

void world_run(struct world *w)
{
	world_run_until(w, VRB_NEVER);
}

static uint64_t env_number(const char *name, uint64_t fallback)
{
	const char *s = getenv(name);

	return s && *s ? strtoull(s, NULL, 0) : fallback;
}

struct sim_seeds sim_seeds(const char *name, uint64_t first, uint64_t runs)
{
	bool chosen = getenv("VERBENA_SEED") != NULL;
	struct sim_seeds s = {
		.first = env_number("VERBENA_SEED", first),
		.runs = env_number("VERBENA_RUNS", chosen ? 1 : runs),
	};

	printf("# %s: seeds %llu..%llu\n", name, (unsigned long long)s.first,
	       (unsigned long long)(s.first + s.runs - 1));
	return s;
}
