/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow rules from selectors: a rule has specifications for all layers up to the highest one with a
 * selector, as devices require, with a mask of ones where a selector is not 0.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "verbena/private.h"

static const struct verbena_flow_options defaults = { .flow_type = IBV_FLOW_ATTR_NORMAL };

API int verbena_flow_options_init(struct verbena_flow_options *options, size_t size)
{
	return options_init(options, size, &defaults, sizeof(defaults), "flow options");
}

/* The layout for ibv_create_flow(): the specifications directly follow the attributes. */
struct rule {
	struct ibv_flow_attr attr;
	struct ibv_flow_spec_eth eth;
	struct ibv_flow_spec_ipv4_ext ipv4;
	struct ibv_flow_spec_tcp_udp l4;
};

_Static_assert(offsetof(struct rule, eth) == sizeof(struct ibv_flow_attr), "no gap before eth");
_Static_assert(offsetof(struct rule, ipv4) ==
		       offsetof(struct rule, eth) + sizeof(struct ibv_flow_spec_eth),
	       "no gap before ipv4");
_Static_assert(offsetof(struct rule, l4) ==
		       offsetof(struct rule, ipv4) + sizeof(struct ibv_flow_spec_ipv4_ext),
	       "no gap before l4");

/* Sets one field and its mask. */
#define SELECT(spec, field, value)                                                                 \
	do {                                                                                       \
		(spec).val.field = (value);                                                        \
		(spec).mask.field = (value) ? (__typeof__((spec).mask.field))~0ULL : 0;            \
	} while (0)

static bool select_mac(uint8_t *val, uint8_t *mask, const uint8_t mac[6])
{
	static const uint8_t any[6];

	if (memcmp(mac, any, sizeof(any)) == 0)
		return false;
	memcpy(val, mac, sizeof(any));
	memset(mask, 0xff, sizeof(any));
	return true;
}

/* Each fills its layer and returns whether it has a selector. */
static bool select_eth(struct rule *r, const struct verbena_flow_options *opt)
{
	bool dmac = select_mac(r->eth.val.dst_mac, r->eth.mask.dst_mac, opt->dmac);
	bool smac = select_mac(r->eth.val.src_mac, r->eth.mask.src_mac, opt->smac);

	r->eth.type = IBV_FLOW_SPEC_ETH;
	r->eth.size = sizeof(r->eth);
	SELECT(r->eth, ether_type, htons(opt->ethtype));
	SELECT(r->eth, vlan_tag, htons(opt->vlan));
	return dmac || smac || opt->ethtype || opt->vlan;
}

static bool select_ipv4(struct rule *r, const struct verbena_flow_options *opt)
{
	r->ipv4.type = IBV_FLOW_SPEC_IPV4_EXT;
	r->ipv4.size = sizeof(r->ipv4);
	SELECT(r->ipv4, src_ip, htonl(opt->sip));
	SELECT(r->ipv4, dst_ip, htonl(opt->dip));
	SELECT(r->ipv4, proto, opt->proto);
	SELECT(r->ipv4, tos, opt->tos);
	SELECT(r->ipv4, ttl, opt->ttl);
	SELECT(r->ipv4, flags, opt->flags);
	return opt->sip || opt->dip || opt->proto || opt->tos || opt->ttl || opt->flags;
}

static bool select_l4(struct rule *r, const struct verbena_flow_options *opt)
{
	r->l4.type = opt->tcpudp == VERBENA_TCP ? IBV_FLOW_SPEC_TCP : IBV_FLOW_SPEC_UDP;
	r->l4.size = sizeof(r->l4);
	SELECT(r->l4, dst_port, htons(opt->dport));
	SELECT(r->l4, src_port, htons(opt->sport));
	return opt->dport || opt->sport;
}

static void build(struct rule *r, unsigned int port_num, const struct verbena_flow_options *opt)
{
	bool eth, ipv4, l4;

	memset(r, 0, sizeof(*r));
	eth = select_eth(r, opt);
	ipv4 = select_ipv4(r, opt);
	l4 = select_l4(r, opt);
	r->attr.type = opt->flow_type;
	r->attr.priority = opt->priority;
	r->attr.flags = opt->flow_flags;
	r->attr.port = (uint8_t)port_num;
	r->attr.num_of_specs = l4 ? 3 : ipv4 ? 2 : eth ? 1 : 0;
	r->attr.size = (uint16_t)(l4 ? sizeof(*r) : ipv4 ? offsetof(struct rule, l4) :
				  eth ? offsetof(struct rule, ipv4) : offsetof(struct rule, eth));
}

static int check_options(const struct verbena_flow_options *opt)
{
	switch (opt->flow_type) {
	case IBV_FLOW_ATTR_NORMAL:
	case IBV_FLOW_ATTR_ALL_DEFAULT:
	case IBV_FLOW_ATTR_MC_DEFAULT:
	case IBV_FLOW_ATTR_SNIFFER:
		break;
	default:
		return fail(EINVAL, "flow_type: %d", (int)opt->flow_type);
	}
	if (opt->tcpudp != VERBENA_UDP && opt->tcpudp != VERBENA_TCP)
		return fail(EINVAL, "tcpudp: %d", (int)opt->tcpudp);
	return 0;
}

API struct ibv_flow *verbena_create_flow_qp(struct ibv_qp *qp, unsigned int port_num,
					    const struct verbena_flow_options *options)
{
	struct verbena_flow_options opt = defaults;
	struct ibv_flow *flow;
	struct rule rule;

	if (!qp || port_num > UINT8_MAX) {
		fail(EINVAL, "NULL queue pair, or no port %u", port_num);
		return NULL;
	}
	if (options &&
	    (options_copy(&opt, sizeof(opt), options, "flow options") || check_options(&opt)))
		return NULL;
	build(&rule, port_num, &opt);
	flow = ibv_create_flow(qp, &rule.attr);
	if (!flow)
		fail(errno, "ibv_create_flow");
	return flow;
}

API struct ibv_flow *verbena_create_flow(struct verbena_context *ctx,
					 const struct verbena_flow_options *options)
{
	if (!ctx) {
		fail(EINVAL, "verbena_create_flow: NULL");
		return NULL;
	}
	return verbena_create_flow_qp(ctx->qp, ctx->port_num, options);
}

API int verbena_destroy_flow(struct ibv_flow *flow)
{
	int err = flow ? ibv_destroy_flow(flow) : 0;

	return err ? fail(err, "ibv_destroy_flow") : 0;
}
