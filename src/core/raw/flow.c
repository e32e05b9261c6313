/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow rules of programs, and the dispatch of frames by them.
 *
 * Every change of the table installs a new socket filter on the interface, and adjusts the scope
 * (promiscuous, multicast) of what it receives.
 */
#include "core/raw/flow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/context.h"
#include "core/base/state.h"
#include "core/device/device.h"
#include "core/device/mirror.h"
#include "core/qp/qp.h"
#include "core/raw/flow_counters.h"
#include "core/raw/raw_port.h"
#include "core/raw/rss.h"
#include "run/log.h"
#include "run/nofault.h"
#include "util/atomic.h"
#include "util/compiler.h"

enum {
	MAX_FLOWS = 1 << 16,
	EGRESS_HEAD = 512,
};

/* ---- frames ---- */

struct matched_frame {
	const struct raw_frame *frame;
	struct flow_key key;
};

static void hit(void *arg, struct flow_rule *rule)
{
	const struct matched_frame *a = arg;
	const struct vrb_flow *flow = rule->owner;

	if (flow->count)
		vrb_flow_count_add(flow->count, a->frame->len);
	if (!rule->drop)
		vrb_raw_deliver(vrb_rss_choose(flow->qp, &a->key), a->frame, rule->tag);
}

void vrb_flow_input(struct vrb_device *dev, const struct raw_frame *f)
{
	struct matched_frame a = { .frame = f };

	flow_dissect(&a.key, f->data, f->len);
	if (f->outgoing)
		flow_table_sniffed(&dev->flows, hit, &a);
	else
		flow_table_received(&dev->flows, &a.key, hit, &a);
}

struct departure {
	uint32_t len;
	bool count;
};

static void hit_leaving(void *arg, struct flow_rule *rule)
{
	const struct departure *d = arg;
	const struct vrb_flow *flow = rule->owner;

	if (d->count && flow->count)
		vrb_flow_count_add(flow->count, d->len);
}

/* Copies the first bytes of the frame that rules can match. */
static size_t head_of(uint8_t head[EGRESS_HEAD], const struct raw_out *o)
{
	size_t n = 0;

	for (unsigned int i = 0; i < o->pieces && n < EGRESS_HEAD; i++) {
		size_t len = min(o->piece[i].iov_len, EGRESS_HEAD - n);

		if (!vrb_guard_copy(head + n, o->piece[i].iov_base, len))
			break;
		n += len;
	}
	return n;
}

bool vrb_flow_leaves(struct vrb_device *dev, const struct raw_out *o, bool sent)
{
	struct departure d = { o->len, sent };
	uint8_t head[EGRESS_HEAD];
	struct flow_key key;
	bool pass;

	if (likely(!load_relaxed(&dev->egress_rules)))
		return true;
	flow_dissect(&key, head, head_of(head, o));
	lock_acquire(&dev->egress_lock);
	pass = flow_table_sent(&dev->flows, &key, hit_leaving, &d);
	lock_release(&dev->egress_lock);
	return pass;
}

/* ---- interface filter ---- */

/*
 * The scope that a rule of type NORMAL needs, which sees every frame that reaches the port, as on
 * mlx5; own: the interface's MAC.
 */
static enum raw_scope scope_of_normal(const uint8_t own[6], const struct flow_rule *rule)
{
	static const uint8_t whole[6] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	const uint8_t *mac = rule->val.outer.dst_mac, *mask = rule->mask.outer.dst_mac;

	if (rule->drop && !rule->counters)
		return RAW_OWN;
	if (mac[0] & mask[0] & 1)
		return RAW_GROUPS;
	return memcmp(mask, whole, 6) || memcmp(mac, own, 6) ? RAW_PROMISC : RAW_OWN;
}

static enum raw_scope scope_of(const uint8_t own[6], const struct flow_rule *rule)
{
	switch (rule->type) {
	case IBV_FLOW_ATTR_SNIFFER:
		return RAW_SNIFF;
	case IBV_FLOW_ATTR_ALL_DEFAULT:
		return RAW_PROMISC;
	case IBV_FLOW_ATTR_MC_DEFAULT:
		return RAW_GROUPS;
	default:
		return scope_of_normal(own, rule);
	}
}

static enum raw_scope widest(const uint8_t own[6], const struct list *rules, enum raw_scope scope)
{
	const struct list *at;

	list_for_each (at, rules)
		scope = max(scope, scope_of(own, list_entry(at, struct flow_rule, node)));
	return scope;
}

/*
 * Installs the filter of the current rules. If the kernel rejects it as too long, accepts all
 * frames. Must hold vrb.poll_lock.
 */
static int apply(struct vrb_device *dev)
{
	static struct sock_filter program[BPF_MAXINSNS]; /* vrb.poll_lock */
	const struct flow_table *t = &dev->flows;
	enum raw_scope scope = RAW_OWN;
	unsigned int len;
	uint8_t own[6];
	int err;

	lock_acquire(&dev->port.lock);
	memcpy(own, dev->port.mac, sizeof(own));
	lock_release(&dev->port.lock);
	scope = widest(own, &t->normal, scope);
	scope = widest(own, &t->defaults, scope);
	scope = widest(own, &t->sniffers, scope);
	len = flow_filter(t, program, BPF_MAXINSNS);
	err = vrb_raw_steer(dev, program, len, scope);
	return err ? vrb_raw_steer(dev, NULL, 0, scope) : 0;
}

/* ---- creation and destruction ---- */

/* Programs see only an errno value; the reason is logged. */
static int refuse(const struct vrb_qp *qp, int err, const char *why)
{
	log_info(LOG_CORE, "ibv_create_flow on QP 0x%x: %s", qp->wq.qpn, why);
	return err;
}

/*
 * UD packets find their QP by number, and rules cannot change that. The kernel refuses the other
 * types too.
 */
static int check_qp(const struct vrb_qp *qp)
{
	switch (qp->wq.type) {
	case IBV_QPT_RAW_PACKET:
		return 0;
	case IBV_QPT_UD:
		return refuse(qp, EOPNOTSUPP,
			      "a UD packet carries its QP number, and flow rules do not apply");
	default:
		return refuse(qp, EINVAL, "the QP is not a raw packet QP");
	}
}

static int check_rule(const struct vrb_qp *qp, struct flow_rule *rule)
{
	const struct ibv_context *c = &qp->config.ctx->vctx.context;

	if (rule->action) {
		rule->refused = "an action handle, which no verb creates";
		return EOPNOTSUPP;
	}
	if (!rule->counters || rule->counters->context == c)
		return 0;
	rule->refused = "counters of another context";
	return EINVAL;
}

/* Must hold vrb.poll_lock. */
static int add(struct vrb_device *dev, struct flow_rule *rule)
{
	int err;

	lock_acquire(&dev->egress_lock);
	err = flow_table_add(&dev->flows, rule);
	if (!err && rule->egress)
		fetch_add_relaxed(&dev->egress_rules, 1);
	lock_release(&dev->egress_lock);
	return err;
}

/* Must hold vrb.poll_lock. */
static void del(struct vrb_device *dev, struct flow_rule *rule)
{
	lock_acquire(&dev->egress_lock);
	flow_table_del(&dev->flows, rule);
	if (rule->egress)
		fetch_sub_release(&dev->egress_rules, 1);
	lock_release(&dev->egress_lock);
}

static int insert(struct vrb_flow *flow)
{
	struct vrb_device *dev = flow->qp->config.ctx->dev;
	int err;

	lock_acquire(&vrb.poll_lock);
	err = add(dev, &flow->rule);
	if (!err) {
		err = apply(dev);
		if (err)
			del(dev, &flow->rule);
		else
			flow->qp->dispatch.flows++;
	}
	lock_release(&vrb.poll_lock);
	return err;
}

/* Releases what a flow holds, after it has left the table. */
static void let_go(struct vrb_flow *flow)
{
	if (flow->taps)
		vrb_mirror_stop(flow->qp->config.ctx->dev);
	if (flow->count)
		vrb_flow_count_put(flow->count);
}

static void deliver_mirrored(struct vrb_device *dev, uint8_t *data, uint32_t len, uint64_t now)
{
	struct raw_frame f = {
		.data = data, .len = len, .time = now, .sum_ok = true, .outgoing = true
	};

	vrb_flow_input(dev, &f);
}

static int build(struct vrb_flow *flow, struct vrb_qp *qp, const struct ibv_flow_attr *attr)
{
	static uint32_t next_handle;
	int err = flow_rule_parse(&flow->rule, attr);

	if (!err)
		err = check_rule(qp, &flow->rule);
	if (err)
		return refuse(qp, err, flow->rule.refused);
	if (flow->rule.ignored)
		log_info(LOG_CORE, "ibv_create_flow on QP 0x%x: only rules of type NORMAL select "
			 "frames; the others ignore what is specified", qp->wq.qpn);
	flow->qp = qp;
	flow->rule.owner = flow;
	flow->ibv.context = &qp->config.ctx->vctx.context;
	flow->ibv.handle = fetch_add_relaxed(&next_handle, 1);
	if (flow->rule.counters) {
		flow->count = to_vrb_flow_count(flow->rule.counters);
		vrb_flow_count_get(flow->count);
	}
	if (flow->rule.type == IBV_FLOW_ATTR_SNIFFER)
		flow->taps = vrb_mirror_start(qp->config.ctx->dev, deliver_mirrored,
					    vrb_raw_is_virtual(qp->config.ctx->dev));
	err = insert(flow);
	if (err) {
		let_go(flow);
		refuse(qp, err, strerror(err));
	}
	return err;
}

int vrb_flow_create(struct vrb_qp *qp, const struct ibv_flow_attr *attr, struct vrb_flow **out)
{
	struct vrb_context *ctx = qp->config.ctx;
	struct vrb_flow *flow;
	int err = check_qp(qp);

	if (!err)
		err = vrb_context_take(ctx, CTX_FLOW, MAX_FLOWS);
	if (err)
		return err;
	err = ENOMEM;
	flow = calloc(1, sizeof(*flow));
	if (!flow)
		goto give_count;
	err = build(flow, qp, attr);
	if (err)
		goto free_flow;
	*out = flow;
	return 0;
free_flow:
	free(flow);
give_count:
	vrb_context_give(ctx, CTX_FLOW);
	return err;
}

void vrb_flow_destroy(struct vrb_flow *flow)
{
	struct vrb_context *ctx = flow->qp->config.ctx;

	lock_acquire(&vrb.poll_lock);
	del(ctx->dev, &flow->rule);
	flow->qp->dispatch.flows--;
	/* On failure the old filter stays, which only passes more frames than needed. */
	(void)apply(ctx->dev);
	lock_release(&vrb.poll_lock);
	let_go(flow);
	vrb_context_give(ctx, CTX_FLOW);
	free(flow);
}

/* Returns the number of removed rules with a mirror. */
static unsigned int remove_of_context(struct list *rules, const struct vrb_context *ctx)
{
	struct list *at, *next;
	unsigned int n = 0;

	list_for_each_safe (at, next, rules) {
		struct flow_rule *rule = list_entry(at, struct flow_rule, node);
		const struct vrb_flow *flow = rule->owner;

		if (flow->qp->config.ctx != ctx)
			continue;
		del(ctx->dev, rule);
		n += flow->taps;
	}
	return n;
}

void vrb_flow_remove_context(struct vrb_context *ctx)
{
	struct flow_table *t = &ctx->dev->flows;
	unsigned int taps;

	lock_acquire(&vrb.poll_lock);
	taps = remove_of_context(&t->sniffers, ctx);
	remove_of_context(&t->normal, ctx);
	remove_of_context(&t->defaults, ctx);
	remove_of_context(&t->egress, ctx);
	if (ctx->dev->raw)
		(void)apply(ctx->dev);	/* as in vrb_flow_destroy() */
	lock_release(&vrb.poll_lock);
	while (taps--)
		vrb_mirror_stop(ctx->dev);
}
