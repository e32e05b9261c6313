/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flows of programs, and the way of frames through them.
 *
 * With every change of the table the interface gets a new socket filter, and is told how far to
 * open its ears.
 */
#include "core/flow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/context.h"
#include "core/device.h"
#include "core/flow_count.h"
#include "core/guard.h"
#include "core/process.h"
#include "core/qp.h"
#include "core/raw_port.h"
#include "core/rwq.h"
#include "core/tap.h"
#include "run/log.h"
#include "util/atomic.h"
#include "util/compiler.h"

enum {
	MAX_FLOWS = 1 << 16,
	EGRESS_HEAD = 512,
};

/* ---- frames ---- */

struct arrival {
	const struct raw_frame *frame;
	struct flow_key key;
};

static void hit(void *arg, struct flow_rule *rule)
{
	const struct arrival *a = arg;
	const struct vrb_flow *flow = rule->owner;

	if (flow->count)
		vrb_flow_count_add(flow->count, a->frame->len);
	if (!rule->drop)
		vrb_raw_deliver(vrb_rss_choose(flow->qp, &a->key), a->frame, rule->tag);
}

void vrb_flow_input(struct vrb_device *dev, const struct raw_frame *f)
{
	struct arrival a = { .frame = f };

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

/* The frame's first bytes, as far as they are to be had: what rules look at. */
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

/* ---- what the interface shall take ---- */

/* The scope that one rule needs; own: the interface's address. */
static enum raw_scope scope_of(const uint8_t own[6], const struct flow_rule *rule)
{
	static const uint8_t whole[6] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	const uint8_t *mac = rule->val.outer.dst_mac, *mask = rule->mask.outer.dst_mac;

	switch (rule->type) {
	case IBV_FLOW_ATTR_SNIFFER:
		return RAW_SNIFF;
	case IBV_FLOW_ATTR_ALL_DEFAULT:
		return RAW_PROMISC;
	case IBV_FLOW_ATTR_MC_DEFAULT:
		return RAW_GROUPS;
	default:
		if (mac[0] & 1 || !(mask[0] & 1))
			return RAW_GROUPS;
		return memcmp(mask, whole, 6) || !memcmp(mac, own, 6) ? RAW_OWN : RAW_PROMISC;
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
 * The new rules' filter; where the kernel does not take it, because it is too long for a socket,
 * one that takes all.  Must hold vrb.drive.
 */
static int apply(struct vrb_device *dev)
{
	static struct sock_filter program[BPF_MAXINSNS]; /* vrb.drive */
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

/* ---- life ---- */

/* What programs get to know is an errno value for all of it. */
static int refuse(const struct vrb_qp *qp, int err, const char *why)
{
	log_info(LOG_CORE, "ibv_create_flow on QP 0x%x: %s", qp->wq.qpn, why);
	return err;
}

/*
 * A UD QP's packets find it by its number, and no rule changes that; other types the kernel refuses
 * as well.
 */
static int check_qp(const struct vrb_qp *qp)
{
	switch (qp->wq.type) {
	case IBV_QPT_RAW_PACKET:
		return 0;
	case IBV_QPT_UD:
		return refuse(qp, EOPNOTSUPP, "datagrams find their QP by its number");
	default:
		return refuse(qp, EINVAL, "not a raw packet QP");
	}
}

static int check_rule(const struct vrb_qp *qp, struct flow_rule *rule)
{
	const struct ibv_context *c = &qp->ctx->vctx.context;

	if (rule->action) {
		rule->refused = "an action handle, which no call makes";
		return EOPNOTSUPP;
	}
	if (!rule->counters || rule->counters->context == c)
		return 0;
	rule->refused = "counters of another context";
	return EINVAL;
}

/* Must hold vrb.drive. */
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

/* Must hold vrb.drive. */
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
	struct vrb_device *dev = flow->qp->ctx->dev;
	int err;

	lock_acquire(&vrb.drive);
	err = add(dev, &flow->rule);
	if (!err) {
		err = apply(dev);
		if (err)
			del(dev, &flow->rule);
		else
			flow->qp->flows++;
	}
	lock_release(&vrb.drive);
	return err;
}

/* What a flow holds that no frame finds any more. */
static void let_go(struct vrb_flow *flow)
{
	if (flow->taps)
		vrb_tap_unlisten(flow->qp->ctx->dev);
	if (flow->count)
		vrb_flow_count_put(flow->count);
}

static int build(struct vrb_flow *flow, struct vrb_qp *qp, const struct ibv_flow_attr *attr)
{
	static uint32_t next_handle;
	int err = flow_rule_parse(&flow->rule, attr);

	if (!err)
		err = check_rule(qp, &flow->rule);
	if (err)
		return refuse(qp, err, flow->rule.refused);
	flow->qp = qp;
	flow->rule.owner = flow;
	flow->ibv.context = &qp->ctx->vctx.context;
	flow->ibv.handle = fetch_add_relaxed(&next_handle, 1);
	if (flow->rule.counters) {
		flow->count = to_vrb_flow_count(flow->rule.counters);
		vrb_flow_count_get(flow->count);
	}
	if (flow->rule.type == IBV_FLOW_ATTR_SNIFFER)
		flow->taps = vrb_tap_listen(qp->ctx->dev);
	err = insert(flow);
	if (err) {
		let_go(flow);
		refuse(qp, err, strerror(err));
	}
	return err;
}

int vrb_flow_create(struct vrb_qp *qp, const struct ibv_flow_attr *attr, struct vrb_flow **out)
{
	struct vrb_context *ctx = qp->ctx;
	struct vrb_flow *flow;
	int err = check_qp(qp);

	if (!err)
		err = vrb_context_take(ctx, &ctx->n_flow, MAX_FLOWS);
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
	vrb_context_give(ctx, &ctx->n_flow);
	return err;
}

void vrb_flow_destroy(struct vrb_flow *flow)
{
	struct vrb_context *ctx = flow->qp->ctx;

	lock_acquire(&vrb.drive);
	del(ctx->dev, &flow->rule);
	flow->qp->flows--;
	/* The filter before takes more than is wanted, which is no harm. */
	(void)apply(ctx->dev);
	lock_release(&vrb.drive);
	let_go(flow);
	vrb_context_give(ctx, &ctx->n_flow);
	free(flow);
}

/* Returns how many of them have a tap. */
static unsigned int remove_of_context(struct list *rules, const struct vrb_context *ctx)
{
	struct list *at, *next;
	unsigned int n = 0;

	list_for_each_safe (at, next, rules) {
		struct flow_rule *rule = list_entry(at, struct flow_rule, node);
		const struct vrb_flow *flow = rule->owner;

		if (flow->qp->ctx != ctx)
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

	lock_acquire(&vrb.drive);
	taps = remove_of_context(&t->sniffers, ctx);
	remove_of_context(&t->normal, ctx);
	remove_of_context(&t->defaults, ctx);
	remove_of_context(&t->egress, ctx);
	lock_release(&vrb.drive);
	while (taps--)
		vrb_tap_unlisten(ctx->dev);
}
