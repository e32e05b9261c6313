/* SPDX-License-Identifier: BSD-2-Clause */
/* Delays, losses and queues of the simulated network. */
#include "net.h"

#include "util/compiler.h"

enum { FRAME_OVERHEAD = 14 + 20 + 8 + 24 };	/* Ethernet, IPv4, UDP, preamble and gap */

void net_init(struct net *n, const struct net_config *cfg, uint64_t seed)
{
	*n = (struct net){ .cfg = *cfg };
	rng_seed(&n->rng, seed ^ 0x6e6574);
	for (unsigned int s = 0; s < NET_MAX_HOSTS; s++)
		for (unsigned int d = 0; d < NET_MAX_HOSTS; d++)
			n->mask[s][d] = cfg->loss_mask;
}

static uint64_t wire_time(const struct net *n, size_t len)
{
	return n->cfg.mbit_per_s ? (len + FRAME_OVERHEAD) * 8000 / n->cfg.mbit_per_s : 0;
}

uint64_t net_egress(struct net *n, uint32_t src, uint32_t dst, size_t len, uint64_t now)
{
	struct net_port *port = &n->port[src];
	uint64_t *last = &n->last_arrival[src][dst];
	uint64_t t;

	port->egress_free =
		max(port->egress_free, now) + (n->cfg.fast_egress ? 0 : wire_time(n, len));
	t = port->egress_free + n->cfg.delay + n->cfg.extra_delay * (max(src, dst) - 1);
	if (n->cfg.jitter)
		t += rng_below(&n->rng, n->cfg.jitter);
	if (rng_ppm(&n->rng, n->cfg.reorder_ppm)) {
		n->count.reordered++;
		return t + rng_below(&n->rng, n->cfg.reorder_delay + 1);
	}
	*last = max(*last, t);
	return *last;
}

static bool mask_drops(struct net *n, const struct net_packet *p)
{
	uint64_t *mask = &n->mask[p->src][p->dst];
	bool drop = *mask & 1;

	*mask = *mask >> 1 | *mask << 63;
	return drop;
}

bool net_loses(struct net *n, const struct net_packet *p)
{
	bool lost = mask_drops(n, p);

	lost |= rng_ppm(&n->rng, n->cfg.loss_ppm);
	lost |= n->cfg.drop && n->cfg.drop(n->cfg.drop_arg, p);
	n->count.lost += lost;
	return lost;
}

bool net_duplicates(struct net *n)
{
	bool dup = rng_ppm(&n->rng, n->cfg.dup_ppm);

	n->count.duplicated += dup;
	return dup;
}

/* Not of byte 4 of the BTH: it holds FECN and BECN, which the ICRC does not cover (Annex A17). */
static uint64_t random_covered_bit(struct net *n, size_t len)
{
	uint64_t bit = rng_below(&n->rng, (len - 1) * 8);

	return bit >= 32 ? bit + 8 : bit;
}

bool net_damages(struct net *n, struct net_packet *p)
{
	uint64_t first, more;

	if (!rng_ppm(&n->rng, n->cfg.corrupt_ppm))
		return false;
	first = random_covered_bit(n, p->len);
	p->data[first / 8] ^= 1 << first % 8;
	more = random_covered_bit(n, p->len);
	if (more != first)
		p->data[more / 8] ^= 1 << more % 8;
	n->count.damaged++;
	return true;
}

bool net_ingress(struct net *n, struct net_packet *p, uint64_t now, uint64_t *arrival)
{
	struct net_port *port = &n->port[p->dst];
	uint64_t wait = port->switch_free > now ? port->switch_free - now : 0;
	uint64_t queued = wait * n->cfg.mbit_per_s / 8000;

	if (n->cfg.buffer && queued + p->len > n->cfg.buffer) {
		n->count.overflowed++;
		return false;
	}
	if (n->cfg.ecn_mark && queued > n->cfg.ecn_mark) {
		p->path.traffic_class |= 3;
		n->count.marked++;
	}
	port->switch_free = now + wait + wire_time(n, p->len);
	*arrival = port->switch_free;
	return true;
}
