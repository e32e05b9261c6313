/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Prints what the engine's adaptive algorithms achieve, to compare values of their constants
 * (scripts/vary-tuning). Each line is one figure: its name, its unit, and the mean of SEEDS runs,
 * or their median if it is a ratio. Arguments select the lines whose names begin with one of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fan.h"
#include "pair.h"
#include "util/compiler.h"

enum {
	SEEDS = 5,
	MESSAGE = 65536,
	QUEUE = 150000,
	LAZY_NS = 20000, /* programs answer after at most this time */
	QKEY = 0x11111111,
};

static int selected_n;
static char **selected;

static bool is_selected(const char *name)
{
	for (int i = 0; i < selected_n; i++)
		if (strncmp(name, selected[i], strlen(selected[i])) == 0)
			return true;
	return selected_n == 0;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t percentile(uint64_t *v, uint32_t n, uint32_t percent)
{
	qsort(v, n, sizeof(v[0]), by_value);
	return v[(n - 1) * percent / 100];
}

static void print(const char *name, const char *unit, uint64_t value)
{
	printf("%s, %s %llu\n", name, unit, (unsigned long long)value);
	fflush(stdout);
}

static struct fan_config config(uint32_t opcode, uint32_t leaves, uint32_t mtu, uint32_t mbps)
{
	struct fan_config c = {
		.net = { .delay = 10000, .mbit_per_s = mbps, .fast_egress = true, .buffer = QUEUE },
		.qp = sim_qp_defaults(),
		.leaves = leaves,
		.opcode = opcode,
		.len = MESSAGE,
		.depth = 16,
		.answer_delay = LAZY_NS,
	};

	c.qp.mtu = mtu;
	c.qp.timeout = 14;
	return c;
}

/* --- one flow on a link --- */

static void goodput(const char *name, uint32_t mbps, uint32_t rtt_us, uint32_t loss_ppm,
		    uint32_t mtu, uint32_t opcode)
{
	struct fan_config c = config(opcode, 1, mtu, mbps);
	uint64_t time = max(200 * VRB_SECOND / mbps, 500 * rtt_us * VRB_USEC), sum = 0;

	if (!is_selected(name))
		return;
	c.net.delay = rtt_us * VRB_USEC / 2;
	c.net.loss_ppm = loss_ppm;
	c.qp.timeout = 16;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct fan *f = fan_new(name, seed, &c);

		world_run_until(f->w, f->w->now + time);
		sum += fan_done(f, 0);
		fan_free(f);
	}
	print(name, "Mbit/s", sum * MESSAGE * 8 * 1000 / SEEDS / time);
}

/* --- two flows, the second of them later: ratio and sum --- */

static void share(const char *name, uint32_t opcode, uint32_t mtu, uint32_t mbps, bool ecn,
		  bool late)
{
	uint64_t alone = 100 * VRB_SECOND / mbps, one_host = 400 * VRB_SECOND / mbps;
	uint64_t ratio[SEEDS], sum = 0;
	struct fan_config c = config(opcode, 2, mtu, mbps);

	if (!is_selected(name))
		return;
	c.net.ecn_mark = ecn ? QUEUE / 5 : 0;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct fan *f;
		uint32_t a, b;

		c.start_interval = late ? alone + alone / 8 * seed : 5000;
		c.net.buffer = QUEUE - 12000 + 2000 * seed;
		f = fan_new(name, seed, &c);
		world_run_until(f->w, f->w->now + c.start_interval);
		a = fan_done(f, 0);
		world_run_until(f->w, f->w->now + one_host);
		a = fan_done(f, 0) - a;
		b = fan_done(f, 1);
		fan_free(f);
		ratio[seed - 1] = max(a, b) * 100 / max(1u, min(a, b));
		sum += a + b;
	}
	print(name, "the slower's 100 to", percentile(ratio, SEEDS, 50));
	print(name, "Mbit/s", sum * MESSAGE * 8 * 1000 / SEEDS / one_host);
}

/* --- flows whose round trips differ, up to ten times the shortest --- */

struct mix {
	const char *name;
	uint32_t opcode, flows, mbps, shortest_us;
	bool ecn;
};

static void mixed(const struct mix *m)
{
	struct fan_config c = config(m->opcode, m->flows, 1024, m->mbps);
	const uint64_t time = 2 * VRB_SECOND;
	uint64_t index[SEEDS], all = 0, lost = 0;

	if (!is_selected(m->name))
		return;
	c.net.delay = m->shortest_us * VRB_USEC / 2;
	c.net.extra_delay = 9 * c.net.delay / (m->flows - 1);
	c.net.ecn_mark = m->ecn ? QUEUE / 5 : 0;
	c.qp.timeout = 16;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct fan *f = fan_new(m->name, seed, &c);
		uint64_t sum = 0, squares = 0;

		world_run_until(f->w, f->w->now + time);
		for (uint32_t i = 0; i < m->flows; i++) {
			uint64_t done = fan_done(f, i);

			sum += done;
			squares += done * done;
		}
		index[seed - 1] = sum * sum * 1000 / (m->flows * squares);
		all += sum;
		lost += f->w->net.count.overflowed;
		fan_free(f);
	}
	print(m->name, "1000 x Jain's index", percentile(index, SEEDS, 50));
	print(m->name, "Mbit/s", all * MESSAGE * 8 * 1000 / SEEDS / time);
	print(m->name, "packets lost", lost / SEEDS);
}

static const struct mix mixes[] = {
	{ "mixed round trips, 2", IBV_WR_RDMA_WRITE, 2, 1000, 200, false },
	{ "mixed round trips, 8", IBV_WR_RDMA_WRITE, 8, 1000, 200, false },
	{ "mixed round trips, 4 reads", IBV_WR_RDMA_READ, 4, 1000, 200, false },
	{ "mixed round trips, 4 at 100 Mbit/s", IBV_WR_RDMA_WRITE, 4, 100, 1000, false },
	{ "mixed round trips, 8 at 10 Gbit/s", IBV_WR_RDMA_WRITE, 8, 10000, 50, false },
	{ "mixed round trips, 2 ECN", IBV_WR_RDMA_WRITE, 2, 1000, 200, true },
	{ "mixed round trips, 4 ECN", IBV_WR_RDMA_WRITE, 4, 1000, 200, true },
	{ "mixed round trips, 8 ECN", IBV_WR_RDMA_WRITE, 8, 1000, 200, true },
	{ "mixed round trips, 4 ECN reads", IBV_WR_RDMA_READ, 4, 1000, 200, true },
	{ "mixed round trips, 4 at 100 Mbit/s ECN", IBV_WR_RDMA_WRITE, 4, 100, 1000, true },
	{ "mixed round trips, 8 at 10 Gbit/s ECN", IBV_WR_RDMA_WRITE, 8, 10000, 50, true },
	{ "mixed round trips, 32 at 10 Gbit/s ECN", IBV_WR_RDMA_WRITE, 32, 10000, 20, true },
};

/* --- incast of 32 --- */

static void incast(const char *name, uint32_t opcode, uint32_t mtu, bool ecn)
{
	struct fan_config c = config(opcode, FAN_MAX, mtu, 10000);
	uint64_t time[SEEDS * FAN_MAX], retransmitted = 0, sum = 0, last;

	if (!is_selected(name))
		return;
	c.net.ecn_mark = ecn ? QUEUE / 5 : 0;
	c.messages = 8;
	for (uint32_t seed = 0; seed < SEEDS; seed++) {
		struct fan *f = fan_new(name, seed + 1, &c);

		world_run(f->w);
		last = 0;
		for (uint32_t i = 0; i < FAN_MAX; i++) {
			time[seed * FAN_MAX + i] = (f->leg[i].ended - f->leg[i].began) / VRB_USEC;
			last = max(last, time[seed * FAN_MAX + i]);
		}
		sum += last;
		retransmitted += fan_counters(f).retransmitted_pkts + f->w->net.count.overflowed;
		fan_free(f);
	}
	print(name, "median us", percentile(time, ARRAY_SIZE(time), 50));
	print(name, "last us", sum / SEEDS);
	print(name, "packets lost or repeated", retransmitted / SEEDS);
}

/* --- QPs of one host, which share a window --- */

static void one_window(const char *name, uint32_t qps, uint32_t mtu, uint32_t mbps)
{
	struct fan_config c = config(IBV_WR_RDMA_WRITE, qps, mtu, mbps);
	uint64_t time = 200 * VRB_SECOND / mbps, sum = 0, lost = 0;

	if (!is_selected(name))
		return;
	c.one_host = true;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct fan *f = fan_new(name, seed, &c);

		world_run_until(f->w, f->w->now + time);
		for (uint32_t i = 0; i < qps; i++)
			sum += fan_done(f, i);
		lost += f->w->net.count.overflowed;
		fan_free(f);
	}
	print(name, "Mbit/s", sum * MESSAGE * 8 * 1000 / SEEDS / time);
	print(name, "packets lost", lost / SEEDS);
}

/* --- a host that gets no CPU now and then --- */

enum { STALLS = 20, READS = 60 };

static void start_stall(struct world *w, void *arg)
{
	w->net.cfg.delay = *(uint32_t *)arg * VRB_USEC;
}

static void end_stall(struct world *w, void *arg)
{
	w->net.cfg.delay = 10000;
}

static void stalls(const char *name, uint32_t opcode, uint8_t timeout, uint32_t us)
{
	struct net_config net = { .delay = 10000, .mbit_per_s = 1000 };
	struct sim_qp_attr attr = sim_qp_defaults();
	uint64_t sum = 0;
	struct pair p;

	if (!is_selected(name))
		return;
	attr.timeout = timeout;
	p = pair_new(name, &net, &attr, NULL);
	for (int i = 0; i < STALLS; i++) {
		uint64_t start = p.w->now;

		world_at(p.w, start + 2 * VRB_MSEC, start_stall, &us);
		world_at(p.w, start + 3 * VRB_MSEC, end_stall, NULL);
		for (int j = 0; j < READS; j++)
			pair_post(&p, pair_wr(&p, opcode, MESSAGE));
		pair_go(&p);
		sum += p.w->last_cqe - start;
	}
	print(name, "us", sum / STALLS / VRB_USEC);
	print(name, "packets repeated", roce_qp_counters(&p.a->roce)->retransmitted_pkts);
	print(name, "retries", roce_qp_counters(&p.a->roce)->completer_retry_err);
	pair_free(&p);
}

/* --- small messages whose last packet is lost: the time of recovery --- */

static void tail_loss(const char *name, uint32_t delay_us, uint32_t loss_ppm, uint8_t timeout)
{
	struct net_config net = { .delay = delay_us * VRB_USEC, .loss_ppm = loss_ppm };
	struct sim_qp_attr attr = sim_qp_defaults();
	enum { WRITES = 2000 };
	uint64_t time[WRITES];
	struct pair p;

	if (!is_selected(name))
		return;
	attr.timeout = timeout;
	p = pair_new(name, &net, &attr, NULL);
	for (int i = 0; i < WRITES; i++) {
		uint64_t start = p.w->now;

		pair_post(&p, pair_wr(&p, IBV_WR_RDMA_WRITE, 4096));
		pair_go(&p);
		time[i] = (p.w->last_cqe - start) / VRB_USEC;
	}
	print(name, "99th percentile us", percentile(time, WRITES, 99));
	print(name, "packets repeated", roce_qp_counters(&p.a->roce)->retransmitted_pkts);
	pair_free(&p);
}

/* --- services without a window --- */

struct source {
	struct sim_qp *qp;
	struct sim_wr wr;
	uint32_t messages, us;
};

static void tick(struct world *w, void *arg)
{
	struct source *s = arg;

	for (uint32_t i = 0; i < s->messages && sim_post_send(s->qp, &s->wr); i++)
		s->wr.wr_id++;
	world_kick(w, s->qp);
	world_at(w, w->now + s->us * VRB_USEC, tick, s);
}

/* `messages` of 1024 bytes every `us`, into a port of `mbps` that marks packets. */
static void datagrams(const char *name, enum ibv_qp_type type, uint32_t mbps, uint32_t messages,
		      uint32_t us)
{
	struct net_config net = { .delay = 10000, .mbit_per_s = mbps, .fast_egress = true,
				  .buffer = QUEUE, .ecn_mark = QUEUE / 5 };
	struct sim_qp_attr attr = sim_qp_defaults();
	uint64_t sent = 0, lost = 0, early = 0;
	const uint32_t ms = 500;

	if (!is_selected(name))
		return;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct net_path path;
		struct source s;
		struct pair p;

		attr.type = type;
		net.buffer = QUEUE - 12000 + 2000 * seed;
		p = pair_new(name, &net, &attr, NULL);
		if (type == IBV_QPT_UD) {
			sim_ud_ready(p.a, QKEY);
			sim_ud_ready(p.b, QKEY);
		}
		path = sim_path(p.h[0], p.h[1]);
		s = (struct source){ .qp = p.a, .messages = messages, .us = us };
		s.wr = pair_wr(&p, type == IBV_QPT_UD ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, 1024);
		s.wr.path = &path;
		s.wr.qpn = p.b->wq.qpn;
		s.wr.qkey = QKEY;
		tick(p.w, &s);
		world_run_until(p.w, p.w->now + 50 * VRB_MSEC);
		early += p.w->net.count.overflowed;
		sent -= p.w->net.count.sent;
		lost -= p.w->net.count.overflowed;
		world_run_until(p.w, p.w->now + ms * VRB_MSEC);
		sent += p.w->net.count.sent;
		lost += p.w->net.count.overflowed;
		pair_free(&p);
	}
	print(name, "Mbit/s", (sent - lost) * 1024 * 8 / SEEDS / (ms * 1000));
	print(name, "lost of 1,000,000", lost * 1000000 / sent);
	print(name, "lost before", early / SEEDS);
}

int main(int argc, char **argv)
{
	selected_n = argc - 1;
	selected = argv + 1;

	goodput("goodput 10 Gbit/s", 10000, 50, 0, 4096, IBV_WR_RDMA_WRITE);
	goodput("goodput 10 Gbit/s MTU 1024", 10000, 50, 0, 1024, IBV_WR_RDMA_WRITE);
	goodput("goodput 1 Gbit/s", 1000, 50, 0, 1024, IBV_WR_RDMA_WRITE);
	goodput("goodput 1 Gbit/s reads", 1000, 50, 0, 1024, IBV_WR_RDMA_READ);
	goodput("goodput 10 Gbit/s 1 ms", 10000, 1000, 0, 4096, IBV_WR_RDMA_WRITE);
	goodput("goodput 200 Mbit/s 1 %", 200, 50, 10000, 1024, IBV_WR_RDMA_WRITE);
	goodput("goodput 10 Gbit/s 0.1 %", 10000, 50, 1000, 4096, IBV_WR_RDMA_WRITE);
	goodput("goodput 200 Mbit/s 10 ms 0.1 %", 200, 10000, 1000, 1024, IBV_WR_RDMA_WRITE);
	goodput("goodput 1 Gbit/s 1 ms 1 %", 1000, 1000, 10000, 4096, IBV_WR_RDMA_WRITE);
	goodput("goodput 1 Gbit/s 0.1 % reads", 1000, 50, 1000, 1024, IBV_WR_RDMA_READ);
	share("two 100 Mbit/s", IBV_WR_RDMA_WRITE, 1024, 100, false, false);
	share("two 1 Gbit/s", IBV_WR_RDMA_WRITE, 1024, 1000, false, false);
	share("two 10 Gbit/s", IBV_WR_RDMA_WRITE, 4096, 10000, false, false);
	share("two 1 Gbit/s ECN", IBV_WR_RDMA_WRITE, 1024, 1000, true, false);
	share("two 10 Gbit/s ECN", IBV_WR_RDMA_WRITE, 4096, 10000, true, false);
	share("two 100 Mbit/s reads", IBV_WR_RDMA_READ, 1024, 100, false, false);
	share("two 1 Gbit/s reads", IBV_WR_RDMA_READ, 1024, 1000, false, false);
	share("two 1 Gbit/s ECN reads", IBV_WR_RDMA_READ, 1024, 1000, true, false);
	share("newcomer 100 Mbit/s", IBV_WR_RDMA_WRITE, 1024, 100, false, true);
	share("newcomer 1 Gbit/s", IBV_WR_RDMA_WRITE, 4096, 1000, false, true);
	share("newcomer 10 Gbit/s", IBV_WR_RDMA_WRITE, 4096, 10000, false, true);
	share("newcomer 100 Mbit/s reads", IBV_WR_RDMA_READ, 1024, 100, false, true);
	for (size_t i = 0; i < ARRAY_SIZE(mixes); i++)
		mixed(&mixes[i]);
	incast("incast", IBV_WR_RDMA_WRITE, 1024, false);
	incast("incast MTU 4096", IBV_WR_RDMA_WRITE, 4096, false);
	incast("incast ECN", IBV_WR_RDMA_WRITE, 1024, true);
	incast("incast reads", IBV_WR_RDMA_READ, 1024, false);
	incast("incast ECN reads", IBV_WR_RDMA_READ, 1024, true);
	one_window("32 QPs 1 Gbit/s", 32, 1024, 1000);
	one_window("4 QPs 1 Gbit/s", 4, 4096, 1000);
	stalls("queue 1 ms timeout 4 ms", IBV_WR_RDMA_WRITE, 10, 10);
	stalls("stall 8 ms writes", IBV_WR_RDMA_WRITE, 14, 8000);
	stalls("stall 8 ms reads", IBV_WR_RDMA_READ, 14, 8000);
	tail_loss("tail loss", 10, 10000, 14);
	tail_loss("tail loss 2 ms away", 1000, 10000, 14);
	tail_loss("tail loss timeout 4 ms", 10, 10000, 10);
	tail_loss("tail loss 10 %", 10, 100000, 14);
	tail_loss("tail loss 10 % timeout 4 ms", 10, 100000, 10);
	datagrams("UC 1 Gbit/s", IBV_QPT_UC, 1000, 10, 20);
	datagrams("UD 1 Gbit/s", IBV_QPT_UD, 1000, 10, 20);
	datagrams("UD 100 Mbit/s", IBV_QPT_UD, 100, 10, 20);
	datagrams("UD 1 Gbit/s bursts", IBV_QPT_UD, 1000, 60, 300);
	datagrams("UD 10 Gbit/s", IBV_QPT_UD, 10000, 60, 20);
	return 0;
}
